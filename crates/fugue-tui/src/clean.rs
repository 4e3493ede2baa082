//! Removes from text what the host terminal must not get.
//!
//! Names, titles, prompts and screens come from programs and agents. The terminal would execute a control character; an invisible
//! character could hide text or reverse the direction of the row.

use fugue_client::display::is_invisible;

/// Cleans a name, a title or a prompt: control characters become U+FFFD, invisible characters are removed, and white space becomes
/// a space.
pub fn line(text: &str) -> String {
    text.chars()
        .filter_map(|c| match c {
            '\t' | '\n' | '\r' | '\u{2028}' | '\u{2029}' => Some(' '),
            // The soft hyphen: terminals do not agree whether it is visible.
            '\u{ad}' => None,
            c if c.is_control() => Some('\u{fffd}'),
            c if is_invisible(c) => None,
            c => Some(c),
        })
        .collect()
}

/// Cleans the text of one cell, a character with combining marks. `None`: unchanged.
pub fn cell(text: &str) -> Option<String> {
    let fine = |c: char| {
        !c.is_control() && c != '\u{ad}' && (c < '\u{300}' || !is_invisible(c) || joins(c))
    };
    if text.chars().all(fine) {
        return None;
    }
    let kept = text.chars().filter_map(|c| match c {
        '\u{ad}' => Some('-'),
        c if c.is_control() => Some('\u{fffd}'),
        c => fine(c).then_some(c),
    });
    Some(kept.collect())
}

/// Joiners and variation selectors, which inside a cell only change the shape of its own character.
fn joins(c: char) -> bool {
    matches!(c, '\u{200c}' | '\u{200d}' | '\u{fe00}'..='\u{fe0f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_is_only_text() {
        for (title, shown) in [
            ("vim main.rs", "vim main.rs"),
            ("a\x1b]52;c;eA==\x07b", "a\u{fffd}]52;c;eA==\u{fffd}b"),
            ("\u{9b}31mred", "\u{fffd}31mred"),
            ("two\nlines\tand", "two lines and"),
            ("ex\u{202e}gnp.e", "exgnp.e"),
            ("zero\u{200b}width\u{feff}", "zerowidth"),
            ("tag\u{e0041}", "tag"),
            ("émoji 漢", "émoji 漢"),
        ] {
            assert_eq!(line(title), shown);
        }
    }

    #[test]
    fn a_cell_keeps_its_marks_and_nothing_that_reaches_beyond_it() {
        assert_eq!(cell("a\u{301}"), None);
        assert_eq!(cell("👨\u{200d}👩"), None);
        assert_eq!(cell("❤\u{fe0f}"), None);
        assert_eq!(cell("a\u{202e}").as_deref(), Some("a"));
        assert_eq!(cell("\u{ad}").as_deref(), Some("-"));
        assert_eq!(cell("\u{85}").as_deref(), Some("\u{fffd}"));
    }
}
