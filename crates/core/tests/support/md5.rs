//! MD5, for the files of sqllogictest, which hash long results with it.

const SHIFTS: [[u32; 4]; 4] = [[7, 12, 17, 22], [5, 9, 14, 20], [4, 11, 16, 23], [6, 10, 15, 21]];

/// The digest in hexadecimal.
pub fn hex(message: &[u8]) -> String {
    let mut state: [u32; 4] = [0x6745_2301, 0xEFCD_AB89, 0x98BA_DCFE, 0x1032_5476];
    let mut padded = message.to_vec();
    padded.push(0x80);
    padded.resize((padded.len() + 8).next_multiple_of(64) - 8, 0);
    padded.extend_from_slice(&(message.len() as u64 * 8).to_le_bytes());
    padded.chunks_exact(64).for_each(|block| mix(&mut state, block));
    state.iter().flat_map(|word| word.to_le_bytes()).map(|byte| format!("{byte:02x}")).collect()
}

fn mix(state: &mut [u32; 4], block: &[u8]) {
    let words: Vec<u32> = block.chunks_exact(4).map(|w| u32::from_le_bytes([w[0], w[1], w[2], w[3]])).collect();
    let [mut a, mut b, mut c, mut d] = *state;
    for i in 0..64 {
        let (f, word) = match i / 16 {
            0 => ((b & c) | (!b & d), i),
            1 => ((d & b) | (!d & c), (5 * i + 1) % 16),
            2 => (b ^ c ^ d, (3 * i + 5) % 16),
            _ => (c ^ (b | !d), (7 * i) % 16),
        };
        let constant = (((i + 1) as f64).sin().abs() * 4_294_967_296.0) as u32;
        let sum = a.wrapping_add(f).wrapping_add(constant).wrapping_add(words[word]);
        (a, d, c) = (d, c, b);
        b = b.wrapping_add(sum.rotate_left(SHIFTS[i / 16][i % 4]));
    }
    for (word, add) in state.iter_mut().zip([a, b, c, d]) {
        *word = word.wrapping_add(add);
    }
}

#[test]
fn known_digests() {
    assert_eq!("d41d8cd98f00b204e9800998ecf8427e", hex(b""));
    assert_eq!("900150983cd24fb0d6963f7d28e17f72", hex(b"abc"));
    assert_eq!("57edf4a22be3c955ac49da2e2107b67a", hex("1234567890".repeat(8).as_bytes()));
    assert_eq!("ef1772b6dff9a122358552954ad0df65", hex(&[b'a'; 55]));
    assert_eq!("3b0c8ac703f828b04c6c197006d17218", hex(&[b'a'; 56]));
    assert_eq!("014842d480b571495a4a0363793f7367", hex(&[b'a'; 64]));
}
