//! Character widths, and which characters join the preceding character.
//!
//! The rule is tmux's and works on single code points: `unicode-width` gives 0, 1 or 2 columns (ambiguous characters
//! are narrow). A character of width 0 joins the preceding cell, as does the character after a zero-width joiner and
//! a skin tone after an emoji. A variation selector does not change the width of its character, and a flag is two
//! cells of one column each. Terminals disagree on all of these; programs that measure by code point (most programs)
//! fit this rule.

use unicode_width::UnicodeWidthChar;

/// The number of columns of one character. Controls have none and are never passed here.
pub(crate) fn char_width(c: char) -> usize {
    // Terminals draw the soft hyphen; libc and tmux give it one column.
    if c == '\u{ad}' {
        return 1;
    }
    c.width().unwrap_or(0)
}

/// Whether `c`, which has the given width, joins the cell of the preceding character.
pub(crate) fn joins_previous(c: char, width: usize, last: Option<char>) -> bool {
    match (c, last) {
        _ if width == 0 => true,
        (_, Some('\u{200d}')) => true,
        ('\u{1f3fb}'..='\u{1f3ff}', Some(last)) => char_width(last) == 2,
        _ => false,
    }
}

/// Splits printed text into cells: each character with its combining marks, and its number of columns. For redrawing
/// text that a screen showed. Characters of width 0 with nothing to join are left out, as on the screen.
pub fn text_cells(text: &str) -> impl Iterator<Item = (&str, usize)> {
    let mut rest = text;
    std::iter::from_fn(move || {
        loop {
            let mut chars = rest.char_indices();
            let (_, first) = chars.next()?;
            if let (' '..='~', Some(b' '..=b'~') | None) = (first, rest.as_bytes().get(1)) {
                let (cell, after) = rest.split_at(1);
                rest = after;
                return Some((cell, 1));
            }
            let width = char_width(first);
            let mut last = first;
            let end = chars
                .find(|&(_, c)| {
                    let joins = joins_previous(c, char_width(c), Some(last));
                    last = c;
                    !joins
                })
                .map_or(rest.len(), |(at, _)| at);
            let (cell, after) = rest.split_at(end);
            rest = after;
            if width > 0 {
                return Some((cell, width));
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::text_cells;

    #[test]
    fn text_splits_into_the_cells_it_was_printed_in() {
        let found: Vec<_> = text_cells("a\u{301}漢👍🏽x❤\u{fe0f}👨\u{200d}👩!").collect();
        assert_eq!(
            found,
            [
                ("a\u{301}", 1),
                ("漢", 2),
                ("👍🏽", 2),
                ("x", 1),
                ("❤\u{fe0f}", 1),
                ("👨\u{200d}👩", 2),
                ("!", 1)
            ]
        );
        assert_eq!(text_cells("\u{301}").count(), 0);
    }
}
