//! UTF-8 one byte at a time, so that a character may be cut anywhere.
//!
//! Follows the standard's advice for broken input: each maximal invalid part becomes one U+FFFD, exactly as
//! `String::from_utf8_lossy` does it.

/// Up to three bytes of a character that is not complete yet.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    /// The value so far.
    value: u32,
    /// Bytes still to come; 0 is "nothing pending".
    missing: u8,
    /// What the next byte may be.
    low: u8,
    high: u8,
}

/// The first character, if it is all there and outside ASCII: the common case, without going byte by byte.
pub(crate) fn first(bytes: &[u8]) -> Option<(char, usize)> {
    let tail = |byte: u8| (byte & 0xc0 == 0x80).then_some(u32::from(byte & 0x3f));
    let (code, len) = match *bytes {
        [a @ 0xc2..=0xdf, b, ..] => (u32::from(a & 0x1f) << 6 | tail(b)?, 2),
        [a @ 0xe0..=0xef, b, c, ..] => (u32::from(a & 0x0f) << 12 | tail(b)? << 6 | tail(c)?, 3),
        [a @ 0xf0..=0xf4, b, c, d, ..] => (
            u32::from(a & 0x07) << 18 | tail(b)? << 12 | tail(c)? << 6 | tail(d)?,
            4,
        ),
        _ => return None,
    };
    // Too long a form and surrogates are left to the decoder.
    let least = [0, 0, 0x80, 0x800, 0x10000][len];
    if code < least {
        return None;
    }
    char::from_u32(code).map(|c| (c, len))
}

/// What a byte led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decoded {
    /// A character is not complete yet.
    Pending,
    /// A character.
    Char(char),
    /// This byte can be part of no character.
    Invalid,
    /// What came before was cut off; this byte has not been looked at and must be given again.
    InvalidBefore,
}

impl Decoder {
    pub(crate) fn is_empty(&self) -> bool {
        self.missing == 0
    }

    pub(crate) fn push(&mut self, byte: u8) -> Decoded {
        if self.missing == 0 {
            return self.start(byte);
        }
        if !(self.low..=self.high).contains(&byte) {
            self.missing = 0;
            return Decoded::InvalidBefore;
        }
        (self.low, self.high) = (0x80, 0xbf);
        self.value = self.value << 6 | u32::from(byte & 0x3f);
        self.missing -= 1;
        match self.missing {
            0 => char::from_u32(self.value).map_or(Decoded::Invalid, Decoded::Char),
            _ => Decoded::Pending,
        }
    }

    fn start(&mut self, byte: u8) -> Decoded {
        let (missing, bits, low, high) = match byte {
            0x00..=0x7f => return Decoded::Char(char::from(byte)),
            0xc2..=0xdf => (1, 0x1f, 0x80, 0xbf),
            0xe0 => (2, 0x0f, 0xa0, 0xbf),
            0xed => (2, 0x0f, 0x80, 0x9f),
            0xe1..=0xef => (2, 0x0f, 0x80, 0xbf),
            0xf0 => (3, 0x07, 0x90, 0xbf),
            0xf1..=0xf3 => (3, 0x07, 0x80, 0xbf),
            0xf4 => (3, 0x07, 0x80, 0x8f),
            0x80..=0xc1 | 0xf5..=0xff => return Decoded::Invalid,
        };
        self.value = u32::from(byte & bits);
        (self.missing, self.low, self.high) = (missing, low, high);
        Decoded::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn decode(bytes: &[u8]) -> String {
        let (mut decoder, mut text) = (Decoder::default(), String::new());
        for &byte in bytes {
            loop {
                let decoded = decoder.push(byte);
                match decoded {
                    Decoded::Pending => (),
                    Decoded::Char(c) => text.push(c),
                    Decoded::Invalid | Decoded::InvalidBefore => {
                        text.push(char::REPLACEMENT_CHARACTER)
                    }
                }
                if decoded != Decoded::InvalidBefore {
                    break;
                }
            }
        }
        if !decoder.is_empty() {
            text.push(char::REPLACEMENT_CHARACTER);
        }
        text
    }

    proptest! {
        #[test]
        fn decodes_as_the_standard_library_does(
            bytes in prop::collection::vec(prop_oneof![any::<u8>(), 0x80u8..0xf8, Just(0xe0), Just(0xed), Just(0xf4)], 0..24)
        ) {
            prop_assert_eq!(decode(&bytes), String::from_utf8_lossy(&bytes));
        }

        #[test]
        fn the_short_way_agrees_with_the_long_one(bytes in prop::collection::vec(0x80u8.., 4), text in "[^\\x00-\\x7f]{1,3}") {
            if let Some((c, len)) = first(&bytes) {
                prop_assert_eq!(str::from_utf8(&bytes[..len]).map(str::to_owned), Ok(c.to_string()));
            }
            let c = text.chars().next().unwrap();
            prop_assert_eq!(first(text.as_bytes()), Some((c, c.len_utf8())));
        }

        #[test]
        fn whole_characters_survive(text in ".*") {
            prop_assert_eq!(decode(text.as_bytes()), text);
        }
    }
}
