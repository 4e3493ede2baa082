//! Positions in a pane: byte offsets, line numbers, and text cursors that combine both.

use std::fmt;
use std::str::FromStr;

/// A byte position in the output log: the number of bytes of output since the pane was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Offset(pub u64);

/// The number of a logical line, counted from the creation of the pane and never reused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LineNo(pub u64);

/// A position in a pane's text at an offset of its output.
///
/// Cursors at later offsets compare greater, so a pane's cursors only grow. Clients see an opaque string (`Display`
/// and `FromStr`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TextCursor {
    /// All output up to this offset had been printed.
    pub offset: Offset,
    /// The logical line.
    pub line: LineNo,
    /// The column, in characters of the line's text.
    pub col: u32,
}

/// The string is not a text cursor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadCursor;

impl fmt::Display for BadCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a cursor; pass on the `cursor` of an earlier result unchanged")
    }
}

impl std::error::Error for BadCursor {}

impl fmt::Display for TextCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [self.offset.0, self.line.0, u64::from(self.col)].map(base36);
        write!(f, "{}.{}.{}", parts[0], parts[1], parts[2])
    }
}

impl FromStr for TextCursor {
    type Err = BadCursor;

    fn from_str(text: &str) -> Result<Self, BadCursor> {
        let mut parts = text.split('.').map(parse_base36);
        let mut next = || parts.next().flatten().ok_or(BadCursor);
        let cursor = TextCursor {
            offset: Offset(next()?),
            line: LineNo(next()?),
            col: u32::try_from(next()?).map_err(|_| BadCursor)?,
        };
        match parts.next() {
            None => Ok(cursor),
            Some(_) => Err(BadCursor),
        }
    }
}

const DIGITS: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";

fn base36(mut n: u64) -> String {
    let mut digits = Vec::new();
    loop {
        digits.push(char::from(DIGITS[(n % 36) as usize]));
        n /= 36;
        if n == 0 {
            break;
        }
    }
    digits.iter().rev().collect()
}

/// Accepts only the output of `base36`: `from_str_radix` also accepts a sign and capitals, so two strings would
/// denote the same position.
fn parse_base36(text: &str) -> Option<u64> {
    let written = |b: u8| b.is_ascii_digit() || b.is_ascii_lowercase();
    if !text.bytes().all(written) || (text.len() > 1 && text.starts_with('0')) {
        return None;
    }
    u64::from_str_radix(text, 36).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_round_trips_through_its_string() {
        for (offset, line, col) in [(0, 0, 0), (35, 36, 37), (u64::MAX, u64::MAX, u32::MAX)] {
            let cursor = TextCursor {
                offset: Offset(offset),
                line: LineNo(line),
                col,
            };
            assert_eq!(cursor.to_string().parse(), Ok(cursor));
        }
    }

    #[test]
    fn invalid_cursors_are_refused() {
        for text in [
            "",
            ".",
            "1.2",
            "1.2.3.4",
            "1.2.-3",
            "1.2.zzzzzzzzzz",
            "+1.2.3",
            "01.2.3",
            "A.2.3",
            "1. 2.3",
        ] {
            assert_eq!(text.parse::<TextCursor>(), Err(BadCursor), "{text:?}");
        }
    }

    #[test]
    fn a_later_cursor_is_greater_even_on_an_earlier_line() {
        let early = TextCursor {
            offset: Offset(9),
            line: LineNo(5),
            col: 7,
        };
        let late = TextCursor {
            offset: Offset(10),
            line: LineNo(2),
            col: 0,
        };
        assert!(early < late);
    }
}
