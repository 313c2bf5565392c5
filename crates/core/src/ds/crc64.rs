//! CRC-64 with the polynomial of Jones, by which Redis seals what DUMP gives.

/// The polynomial, its lowest term first.
const POLYNOMIAL: u64 = 0x95ac_9329_ac4b_c9b5;

const TABLE: [u64; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u64;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ POLYNOMIAL } else { crc >> 1 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};

/// The sum of `bytes`.
pub fn sum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |crc, byte| TABLE[(crc as u8 ^ byte) as usize] ^ crc >> 8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_those_of_redis() {
        assert_eq!(0xe9c6_d914_c4b8_d9ca, sum(b"123456789"));
        assert_eq!(0, sum(b""));
    }
}
