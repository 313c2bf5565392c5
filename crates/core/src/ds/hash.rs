//! The seeded hash of byte keys: fast, and without the seed nobody can choose keys that collide.

use crate::env::os_random;
use foldhash::SharedSeed;
use foldhash::quality::FoldHasher;
use std::hash::Hasher;
use std::sync::OnceLock;

/// The secret of this process: 6 words for the multiplications and one to start from.
static SEED: OnceLock<(u64, SharedSeed)> = OnceLock::new();

fn fresh_seed() -> (u64, SharedSeed) {
    (os_random(), SharedSeed::from_u64(os_random()))
}

/// The hash of a byte key. All 64 bits are of equal quality; it holds within this process only.
#[inline]
pub fn bytes(key: &[u8]) -> u64 {
    let (start, shared) = SEED.get_or_init(fresh_seed);
    let mut hasher = FoldHasher::with_seed(*start, shared);
    hasher.write(key);
    hasher.finish()
}

/// The hash of a number, with the same seed.
#[inline]
pub fn number(n: u64) -> u64 {
    let (start, shared) = SEED.get_or_init(fresh_seed);
    let mut hasher = FoldHasher::with_seed(*start, shared);
    hasher.write_u64(n);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn equal_keys_hash_equal_and_near_ones_differ() {
        assert_eq!(bytes(b"session:1"), bytes(&[*b"session", *b":1     "].concat()[..9]));
        let hashes: HashSet<u64> = (0..100_000).map(|i| bytes(format!("key:{i:012}").as_bytes())).collect();
        assert_eq!(hashes.len(), 100_000);
        assert_ne!(bytes(b""), bytes(b"\0"));
        assert_ne!(bytes(b"\0"), bytes(b"\0\0"));
    }

    #[test]
    fn low_and_high_bits_spread_evenly() {
        // 64 k keys over 256 cells of both ends: a cell gets 256, with a deviation of 16.
        let (mut low, mut high) = ([0u32; 256], [0u32; 256]);
        for i in 0..65_536u64 {
            for hash in [number(i), bytes(&i.to_be_bytes())] {
                low[hash as u8 as usize] += 1;
                high[(hash >> 56) as usize] += 1;
            }
        }
        for cell in low.iter().chain(&high) {
            assert!((350..=680).contains(cell), "{cell} of 512 expected");
        }
    }
}
