//! How many columns a character takes, and what joins the character before it.
//!
//! The rule is tmux's, one code point at a time: `unicode-width` says 0, 1 or 2 for each (ambiguous ones are
//! narrow); a character of width 0 joins the cell before it; the character after a zero-width joiner, and a skin
//! tone after an emoji, join too. A variation selector does not change the width of its character, and a flag is
//! two cells of one column. Terminals disagree on all of these; programs that measure by code point (most) fit
//! this rule.

use unicode_width::UnicodeWidthChar;

/// Columns of one character; controls have none and never get here.
pub(crate) fn of(c: char) -> usize {
    // The soft hyphen is drawn by terminals; libc and tmux give it one column.
    if c == '\u{ad}' {
        return 1;
    }
    c.width().unwrap_or(0)
}

/// Whether `c`, of a given width, goes into the cell of the character before it.
pub(crate) fn attaches(c: char, width: usize, last: Option<char>) -> bool {
    match (c, last) {
        _ if width == 0 => true,
        (_, Some('\u{200d}')) => true,
        ('\u{1f3fb}'..='\u{1f3ff}', Some(last)) => of(last) == 2,
        _ => false,
    }
}

/// The characters of a printed text, each with what is joined to it and the columns it takes: for whoever draws again
/// what a screen showed. What has no place of its own and nothing to join is left out, as on the screen.
pub fn cells(text: &str) -> impl Iterator<Item = (&str, usize)> {
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
            let width = of(first);
            let mut last = first;
            let end = chars
                .find(|&(_, c)| {
                    let joins = attaches(c, of(c), Some(last));
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
    use super::cells;

    #[test]
    fn a_text_falls_into_the_cells_that_it_was_made_of() {
        let found: Vec<_> = cells("a\u{301}漢👍🏽x❤\u{fe0f}👨\u{200d}👩!").collect();
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
        assert_eq!(cells("\u{301}").count(), 0);
    }
}
