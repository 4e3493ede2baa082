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
