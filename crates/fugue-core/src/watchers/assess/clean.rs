//! Removes everything invisible from a text: escape sequences, control characters, invisible characters.
//!
//! A model reads characters that a person cannot see: instructions can be hidden in zero-width or tag characters, and
//! reordered with bidirectional marks. The cleaned text is the text that a person sees.

use std::{iter::Peekable, str::Chars};

/// The visible part of a text. Line ends and tabs stay, a line that was drawn over keeps its last state.
pub fn cleaned(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut line_start = 0;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\u{1b}' => skip_escape(&mut chars),
            '\u{9b}' => skip_csi(&mut chars),
            '\u{90}' | '\u{98}' | '\u{9d}' | '\u{9e}' | '\u{9f}' => skip_string(&mut chars),
            '\r' if chars.peek().is_none_or(|next| *next == '\n') => {}
            // A progress bar overwrites its line.
            '\r' => clean.truncate(line_start),
            '\n' | '\u{85}' | '\u{2028}' | '\u{2029}' => {
                clean.push('\n');
                line_start = clean.len();
            }
            '\t' => clean.push('\t'),
            c if is_unseen(c) => {}
            c => clean.push(c),
        }
    }
    clean
}

/// The visible part of a text on a line of at most `most` characters, with `…` at the end if the text was cut.
pub fn one_line(text: &str, most: usize) -> String {
    let clean = cleaned(text);
    let mut words = clean.split_whitespace();
    let mut line = words.next().unwrap_or_default().to_owned();
    for word in words {
        line.push(' ');
        line.push_str(word);
    }
    match line.char_indices().nth(most) {
        None => line,
        Some(_) => {
            let mut short: String = line.chars().take(most.saturating_sub(1)).collect();
            short.push('…');
            short
        }
    }
}

/// Whether a character controls, reorders or hides instead of showing.
pub(super) fn is_unseen(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
            | '\u{180b}'..='\u{180f}'
            // Zero width, and left-to-right and right-to-left marks.
            | '\u{200b}'..='\u{200f}'
            // Line and paragraph ends, and bidirectional embeddings.
            | '\u{2028}'..='\u{202e}'
            // Word joiners, invisible operators, bidirectional isolates.
            | '\u{2060}'..='\u{206f}'
            | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffb}'
            | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
            // Tags and the variation selectors after them.
            | '\u{e0000}'..='\u{e0fff}')
}

fn skip_escape(chars: &mut Peekable<Chars<'_>>) {
    match chars.peek() {
        Some('[') => {
            chars.next();
            skip_csi(chars);
        }
        Some(']' | 'P' | 'X' | '^' | '_') => {
            chars.next();
            skip_string(chars);
        }
        // Intermediate characters and a final character; anything else is not part of a sequence.
        Some(' '..='/') => {
            while chars.next_if(|c| matches!(c, ' '..='/')).is_some() {}
            chars.next_if(|c| matches!(c, '0'..='~'));
        }
        Some('0'..='~') => {
            chars.next();
        }
        Some(_) | None => {}
    }
}

fn skip_csi(chars: &mut Peekable<Chars<'_>>) {
    while chars.next_if(|c| matches!(c, ' '..='?')).is_some() {}
    chars.next_if(|c| matches!(c, '@'..='~'));
}

/// Skips a string that ends with BEL or ST. An unterminated string ends with the line, so that it hides no further text.
fn skip_string(chars: &mut Peekable<Chars<'_>>) {
    while let Some(c) = chars.next_if(|c| *c != '\n') {
        match c {
            '\u{7}' | '\u{9c}' => return,
            '\u{1b}' => {
                chars.next_if(|c| *c == '\\');
                return;
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        assert_eq!(cleaned(text), expected, "{text:?}");
        assert_eq!(cleaned(expected), expected, "clean text stays as it is");
    }

    #[test]
    fn what_nobody_sees_is_taken_out() {
        check("plain\ttext\n", "plain\ttext\n");
        check("\x1b[1;31mred\x1b[0m and \x1b[38;5;12mblue", "red and blue");
        check("\u{9b}31mred", "red");
        check("\x1b]0;a title\x07shown", "shown");
        check("\x1b]8;;https://a.example\x1b\\link\x1b]8;;\x1b\\", "link");
        check("\x1bPsixel\x1b\\after\x1b(Bset\x1b=", "afterset");
        check("a\0b\x08c\x7fd", "abcd");
        check("zero\u{200b}width\u{2060} \u{feff}marks", "zerowidth marks");
        check("\u{202e}desrever\u{202c} \u{2067}x\u{2069}", "desrever x");
        check("tags\u{e0001}\u{e0069}\u{e0067}\u{e007f}.", "tags.");
        check("naïve 漢字 e\u{301} ✓", "naïve 漢字 e\u{301} ✓");
    }

    #[test]
    fn a_line_that_was_drawn_over_keeps_its_last_state() {
        check("10%\r20%\r100%\ndone\r\n", "100%\ndone\n");
        check("a\u{85}b\u{2028}c\u{2029}d", "a\nb\nc\nd");
    }

    #[test]
    fn an_unended_string_hides_no_more_than_its_line() {
        check("\x1b]0;title\nnext line", "\nnext line");
        check("\x1b[12", "");
        check("\x1b", "");
        check("\x1b[31\u{e9}", "é");
    }

    #[test]
    fn a_line_of_many_is_one_line_that_fits() {
        assert_eq!(one_line(" a\n\tb\x1b[0m  c ", 200), "a b c");
        assert_eq!(one_line("abcdef", 6), "abcdef");
        assert_eq!(one_line("abcdefg", 6), "abcde…");
        assert_eq!(one_line("", 6), "");
    }
}
