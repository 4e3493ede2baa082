//! Incremental UTF-8 decoding, for characters that are split between feeds.
//!
//! Invalid input is replaced as the Unicode standard recommends: each maximal invalid part becomes one U+FFFD,
//! exactly as with `String::from_utf8_lossy`.

/// Up to three bytes of an incomplete character.
#[derive(Debug, Default)]
pub(crate) struct Utf8Decoder {
    /// The bits decoded so far.
    value: u32,
    /// The number of missing bytes; 0 without an incomplete character.
    missing: u8,
    /// The range of valid values for the next byte.
    min_next: u8,
    max_next: u8,
}

/// Decodes the first character, if complete and outside ASCII: the common case, without the state of the decoder.
pub(crate) fn decode_first(bytes: &[u8]) -> Option<(char, usize)> {
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
    // Overlong forms and surrogates are left to the decoder.
    let least = [0, 0, 0x80, 0x800, 0x10000][len];
    if code < least {
        return None;
    }
    char::from_u32(code).map(|c| (c, len))
}

/// The result of decoding one byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DecodeStep {
    /// The character is incomplete.
    Pending,
    /// A complete character.
    Char(char),
    /// The byte is not part of any valid character.
    Invalid,
    /// The preceding bytes are an incomplete character. The byte was not consumed and must be passed again.
    InvalidBefore,
}

impl Utf8Decoder {
    pub(crate) fn is_empty(&self) -> bool {
        self.missing == 0
    }

    pub(crate) fn push(&mut self, byte: u8) -> DecodeStep {
        if self.missing == 0 {
            return self.start(byte);
        }
        if !(self.min_next..=self.max_next).contains(&byte) {
            self.missing = 0;
            return DecodeStep::InvalidBefore;
        }
        (self.min_next, self.max_next) = (0x80, 0xbf);
        self.value = self.value << 6 | u32::from(byte & 0x3f);
        self.missing -= 1;
        match self.missing {
            0 => char::from_u32(self.value).map_or(DecodeStep::Invalid, DecodeStep::Char),
            _ => DecodeStep::Pending,
        }
    }

    fn start(&mut self, byte: u8) -> DecodeStep {
        let (missing, bits, low, high) = match byte {
            0x00..=0x7f => return DecodeStep::Char(char::from(byte)),
            0xc2..=0xdf => (1, 0x1f, 0x80, 0xbf),
            0xe0 => (2, 0x0f, 0xa0, 0xbf),
            0xed => (2, 0x0f, 0x80, 0x9f),
            0xe1..=0xef => (2, 0x0f, 0x80, 0xbf),
            0xf0 => (3, 0x07, 0x90, 0xbf),
            0xf1..=0xf3 => (3, 0x07, 0x80, 0xbf),
            0xf4 => (3, 0x07, 0x80, 0x8f),
            0x80..=0xc1 | 0xf5..=0xff => return DecodeStep::Invalid,
        };
        self.value = u32::from(byte & bits);
        (self.missing, self.min_next, self.max_next) = (missing, low, high);
        DecodeStep::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn decode(bytes: &[u8]) -> String {
        let (mut decoder, mut text) = (Utf8Decoder::default(), String::new());
        for &byte in bytes {
            loop {
                let decoded = decoder.push(byte);
                match decoded {
                    DecodeStep::Pending => (),
                    DecodeStep::Char(c) => text.push(c),
                    DecodeStep::Invalid | DecodeStep::InvalidBefore => {
                        text.push(char::REPLACEMENT_CHARACTER)
                    }
                }
                if decoded != DecodeStep::InvalidBefore {
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
        fn decode_first_agrees_with_the_decoder(bytes in prop::collection::vec(0x80u8.., 4), text in "[^\\x00-\\x7f]{1,3}") {
            if let Some((c, len)) = decode_first(&bytes) {
                prop_assert_eq!(str::from_utf8(&bytes[..len]).map(str::to_owned), Ok(c.to_string()));
            }
            let c = text.chars().next().unwrap();
            prop_assert_eq!(decode_first(text.as_bytes()), Some((c, c.len_utf8())));
        }

        #[test]
        fn whole_characters_survive(text in ".*") {
            prop_assert_eq!(decode(text.as_bytes()), text);
        }
    }
}
