//! Variable-length integers (LEB128, with zigzag encoding for signed numbers).

/// Appends `n`, seven bits per byte.
pub(crate) fn put(out: &mut Vec<u8>, mut n: u64) {
    while n >= 0x80 {
        out.push(n as u8 | 0x80);
        n >>= 7;
    }
    out.push(n as u8);
}

/// Appends a signed number.
pub(crate) fn put_signed(out: &mut Vec<u8>, n: i64) {
    put(out, (n << 1 ^ n >> 63) as u64);
}

/// Takes a number off the front. Returns `None` if the bytes end or the number overflows.
pub(crate) fn take(bytes: &mut &[u8]) -> Option<u64> {
    let mut n = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        let bits = u64::from(byte & 0x7f);
        if bits << shift >> shift != bits {
            return None;
        }
        n |= bits << shift;
        if byte < 0x80 {
            return Some(n);
        }
    }
    None
}

/// Takes a number that `put_signed` wrote.
pub(crate) fn take_signed(bytes: &mut &[u8]) -> Option<i64> {
    let n = take(bytes)?;
    Some((n >> 1) as i64 ^ -((n & 1) as i64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_round_trip() {
        for n in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX] {
            let mut out = Vec::new();
            put(&mut out, n);
            put_signed(&mut out, n as i64);
            let mut bytes = &out[..];
            assert_eq!(take(&mut bytes), Some(n));
            assert_eq!(take_signed(&mut bytes), Some(n as i64));
            assert!(bytes.is_empty());
        }
    }

    #[test]
    fn invalid_numbers_are_refused() {
        assert_eq!(take(&mut &[][..]), None);
        assert_eq!(take(&mut &[0x80][..]), None);
        assert_eq!(take(&mut &[0xff; 10][..]), None);
    }
}
