//! LZF, in which Redis packs long strings: the way back.

/// Unpacks into exactly `length` bytes; None if `packed` is not what packing so many gives.
///
/// ```text
/// 000lllll          l + 1 bytes as they are follow
/// lllooooo o        copy l + 2 bytes from offset + 1 bytes before; l is 1 to 6
/// 111ooooo l o      copy l + 9 bytes from there
/// ```
pub fn unpack(mut packed: &[u8], length: usize) -> Option<Vec<u8>> {
    // What is longer cannot come of so few bytes; so nothing is allocated on a stranger's word alone.
    if length > packed.len().saturating_mul(MOST_PER_BYTE) {
        return None;
    }
    let mut out = Vec::with_capacity(length);
    while let Some((control, rest)) = packed.split_first() {
        let control = usize::from(*control);
        if control < 32 {
            let (plain, rest) = rest.split_at_checked(control + 1)?;
            out.extend_from_slice(plain);
            packed = rest;
        } else {
            let (count, rest) = match (control >> 5, rest) {
                (7, [more, rest @ ..]) => (usize::from(*more) + 9, rest),
                (7, []) => return None,
                (count, rest) => (count + 2, rest),
            };
            let (low, rest) = rest.split_first()?;
            let back = ((control & 31) << 8 | usize::from(*low)) + 1;
            let from = out.len().checked_sub(back)?;
            // The copy may go on into what it has just copied.
            for at in from..from + count {
                out.push(out[at]);
            }
            packed = rest;
        }
        if out.len() > length {
            return None;
        }
    }
    (out.len() == length).then_some(out)
}

/// Three bytes make 264 at most.
const MOST_PER_BYTE: usize = 88;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_and_copies_are_unpacked() {
        assert_eq!(Some(b"abc".to_vec()), unpack(b"\x02abc", 3));
        // One byte, copied over itself.
        assert_eq!(Some(vec![b'a'; 10]), unpack(b"\x00a\xe0\x00\x00", 10));
        assert_eq!(Some(b"ababab".to_vec()), unpack(b"\x01ab\x40\x01", 6));
        assert_eq!(Some(Vec::new()), unpack(b"", 0));
    }

    #[test]
    fn what_nobody_packed_is_refused() {
        for (packed, length) in [
            (&b"\x02ab"[..], 3),
            (b"\x02abc", 4),
            (b"\x02abc", 2),
            (b"\x20\x00", 3),
            (b"\x00a\x20", 4),
            (b"\x00a\xe0", 4),
            (b"\x00a", usize::MAX),
        ] {
            assert_eq!(None, unpack(packed, length), "{packed:?}");
        }
    }
}
