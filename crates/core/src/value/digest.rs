//! Digests of values, by which tests compare states: equal for equal contents, whatever encoding or table order.

/// Collects a digest. Not for secrets: whoever wants a collision can make one.
#[derive(Clone, Copy)]
pub(super) struct Digest(u64);

impl Digest {
    /// A digest of nothing yet, apart from other kinds by `kind`.
    pub fn new(kind: u8) -> Self {
        Digest(mix(kind as u64 + 1))
    }

    /// Adds bytes, after what came before.
    pub fn bytes(self, bytes: &[u8]) -> Self {
        let mut state = mix(self.0 ^ bytes.len() as u64);
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            state = mix(state ^ u64::from_le_bytes(word));
        }
        Digest(state)
    }

    /// Adds a number, after what came before.
    pub fn number(self, number: u64) -> Self {
        Digest(mix(self.0 ^ number))
    }

    /// Adds an element without order among its fellows.
    pub fn unordered(self, element: Digest) -> Self {
        Digest(self.0.wrapping_add(element.0))
    }

    /// The result.
    pub fn finish(self) -> u64 {
        mix(self.0)
    }
}

/// The finaliser of splitmix64: every bit of the input touches every bit of the result.
fn mix(mut x: u64) -> u64 {
    x = x.wrapping_add(0x9E37_79B9_7F4A_7C15);
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}
