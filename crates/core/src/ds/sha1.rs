//! SHA-1, by which Redis names scripts. A name, not a seal: collisions can be made.

/// Blocks between two questions whether to go on.
const BLOCKS: usize = 1 << 14;

/// The digest of `text`.
pub fn digest(text: &[u8]) -> [u8; 20] {
    digest_while(text, || true).unwrap_or_default()
}

/// The digest of `text`; None if `go_on` says no, which is asked at each megabyte.
fn digest_while(text: &[u8], go_on: impl Fn() -> bool) -> Option<[u8; 20]> {
    let mut state = [0x6745_2301, 0xEFCD_AB89, 0x98BA_DCFE, 0x1032_5476, 0xC3D2_E1F0];
    let (blocks, rest) = text.as_chunks::<64>();
    for some in blocks.chunks(BLOCKS) {
        if !go_on() {
            return None;
        }
        some.iter().for_each(|block| compress(&mut state, block));
    }
    // A one bit, zeros, and the length in bits at the end of the last block.
    let mut tail = [0; 128];
    tail[..rest.len()].copy_from_slice(rest);
    tail[rest.len()] = 0x80;
    let end = if rest.len() < 56 { 64 } else { 128 };
    tail[end - 8..end].copy_from_slice(&(text.len() as u64 * 8).to_be_bytes());
    tail[..end].as_chunks::<64>().0.iter().for_each(|block| compress(&mut state, block));
    let mut digest = [0; 20];
    for (bytes, word) in digest.as_chunks_mut::<4>().0.iter_mut().zip(state) {
        *bytes = word.to_be_bytes();
    }
    Some(digest)
}

/// The digest of `text` in 40 hexadecimal digits.
pub fn hex(text: &[u8]) -> [u8; 40] {
    spell(digest(text))
}

/// [`hex`]; None if `go_on` says no, which is asked at each megabyte.
pub fn hex_while(text: &[u8], go_on: impl Fn() -> bool) -> Option<[u8; 40]> {
    digest_while(text, go_on).map(spell)
}

fn spell(digest: [u8; 20]) -> [u8; 40] {
    let mut hex = [0; 40];
    for (pair, byte) in hex.as_chunks_mut::<2>().0.iter_mut().zip(digest) {
        *pair = [byte >> 4, byte & 15].map(|digit| b"0123456789abcdef"[digit as usize]);
    }
    hex
}

fn compress(state: &mut [u32; 5], block: &[u8; 64]) {
    let mut words = [0u32; 80];
    for (word, bytes) in words.iter_mut().zip(block.as_chunks::<4>().0) {
        *word = u32::from_be_bytes(*bytes);
    }
    for i in 16..80 {
        words[i] = (words[i - 3] ^ words[i - 8] ^ words[i - 14] ^ words[i - 16]).rotate_left(1);
    }
    let [mut a, mut b, mut c, mut d, mut e] = *state;
    for (i, word) in words.into_iter().enumerate() {
        let (mix, constant) = match i / 20 {
            0 => ((b & c) | (!b & d), 0x5A82_7999),
            1 => (b ^ c ^ d, 0x6ED9_EBA1),
            2 => ((b & c) | (b & d) | (c & d), 0x8F1B_BCDC),
            _ => (b ^ c ^ d, 0xCA62_C1D6),
        };
        let next = a.rotate_left(5).wrapping_add(mix).wrapping_add(e).wrapping_add(constant).wrapping_add(word);
        (a, b, c, d, e) = (next, a, b.rotate_left(30), c, d);
    }
    for (word, sum) in state.iter_mut().zip([a, b, c, d, e]) {
        *word = word.wrapping_add(sum);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_digests() {
        for (text, expected) in [
            ("", "da39a3ee5e6b4b0d3255bfef95601890afd80709"),
            ("a", "86f7e437faa5a7fce15d1ddcb9eaeaea377667b8"),
            ("abc", "a9993e364706816aba3e25717850c26c9cd0d89d"),
            ("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", "84983e441c3bd26ebaae4aa1f95129e5e54670f1"),
        ] {
            assert_eq!(expected.as_bytes(), hex(text.as_bytes()));
        }
        assert_eq!(b"34aa973cd4c4daa4f61eeb2bdbad27316534016f", &hex(&vec![b'a'; 1_000_000]));
    }

    #[test]
    fn every_length_of_the_last_block() {
        // Of lengths 0..130 of the letter x, one after another.
        let all: Vec<u8> = (0..130).flat_map(|n| digest(&vec![b'x'; n])).collect();
        assert_eq!(130, all.chunks(20).collect::<std::collections::BTreeSet<_>>().len());
        assert_eq!(b"0098ba824b5c16427bd7a1122a5a442a25ec644d", &hex(&[b'a'; 64]));
        assert_eq!(b"c1c8bbdc22796e28c0e15163d20899b65621d65a", &hex(&[b'a'; 55]));
        assert_eq!(b"c2db330f6083854c99d4b5bfb6e8f29f201be699", &hex(&[b'a'; 56]));
    }
}
