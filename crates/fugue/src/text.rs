//! Text that is safe to print on a terminal.
//!
//! Names, titles, prompts, messages, paths and outputs come from programs and agents. The terminal would execute their
//! control characters, and invisible characters could reverse a line or make two names look the same. Both are replaced
//! by U+FFFD.
//!
//! Two kinds of invisible characters are kept where they have a visible effect: joiners (U+200C, U+200D) between, and
//! variation selectors after, characters from U+0530 on, which excludes ASCII, Latin, Greek and Cyrillic. They shape emoji
//! and words of Arabic and Indic scripts. Variation selectors are also kept after `©` and `®` and in keycaps.

use std::fmt::Write as _;

use fugue_client::display::is_invisible;

const REPLACEMENT: char = '\u{fffd}';

/// One line of cleaned text with escape sequences for colours.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StyledText(String);

impl StyledText {
    /// A cleaned text between two escape sequences.
    pub fn between(before: &'static str, text: &str, after: &'static str) -> Self {
        Self(format!("{before}{}{after}", clean(text)))
    }

    /// A line of a program's output, for a terminal.
    pub fn output(line: &str) -> Self {
        Self(replace_unsafe(line, |c| c == '\t'))
    }

    /// A line for a pipe or a file, unchanged.
    pub fn exact(line: String) -> Self {
        Self(line)
    }

    pub fn then(mut self, more: impl Into<Self>) -> Self {
        self.0.push_str(&more.into().0);
        self
    }

    pub fn trim_end(mut self) -> Self {
        self.0.truncate(self.0.trim_end().len());
        self
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for StyledText {
    fn from(text: &str) -> Self {
        Self(clean(text))
    }
}

impl From<&String> for StyledText {
    fn from(text: &String) -> Self {
        Self(clean(text))
    }
}

impl From<String> for StyledText {
    fn from(text: String) -> Self {
        Self(clean(&text))
    }
}

/// Cleans a name, path or command, as one line.
pub fn clean(text: &str) -> String {
    replace_unsafe(text, |_| false)
}

/// Cleans a text of several lines.
pub fn clean_lines(text: &str) -> String {
    replace_unsafe(text, |c| matches!(c, '\n' | '\t'))
}

fn replace_unsafe(text: &str, is_meant: impl Fn(char) -> bool) -> String {
    let mut cleaned = String::with_capacity(text.len());
    let mut before = None;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let fine =
            is_meant(c) || is_plain(c) || has_visible_effect(before, c, chars.peek().copied());
        let shown = if fine { c } else { REPLACEMENT };
        cleaned.push(shown);
        before = Some(shown);
    }
    cleaned
}

fn is_plain(c: char) -> bool {
    !c.is_control() && !is_invisible(c) && !matches!(c, '\u{ad}' | '\u{2028}' | '\u{2029}')
}

fn has_visible_effect(before: Option<char>, c: char, after: Option<char>) -> bool {
    let shapes =
        |c: Option<char>| c.is_some_and(|c| c >= '\u{530}' && c != REPLACEMENT && is_plain(c));
    let selects = |c: Option<char>| matches!(c, Some('\u{fe00}'..='\u{fe0f}'));
    match c {
        '\u{200c}' | '\u{200d}' => (shapes(before) || selects(before)) && shapes(after),
        '\u{fe00}'..='\u{fe0f}' => {
            let keycap = after == Some('\u{20e3}');
            keycap || shapes(before) || matches!(before, Some('©' | '®'))
        }
        _ => false,
    }
}

/// Escapes control and invisible characters of a JSON text as `\uXXXX`. They occur only inside of strings.
pub fn escape_json(json: String) -> String {
    if json.chars().all(is_plain) {
        return json;
    }
    let mut escaped = String::with_capacity(json.len());
    for c in json.chars() {
        if is_plain(c) {
            escaped.push(c);
            continue;
        }
        for unit in c.encode_utf16(&mut [0; 2]) {
            let _ = write!(escaped, "\\u{unit:04x}");
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_obeys_or_hides_is_replaced() {
        for (text, shown) in [
            (
                "/tmp/a\x1b]52;c;x\x07\n\u{9b}é",
                "/tmp/a\u{fffd}]52;c;x\u{fffd}\u{fffd}\u{fffd}é",
            ),
            ("a\tb\u{7f}", "a\u{fffd}b\u{fffd}"),
            ("ex\u{202e}gnp.e", "ex\u{fffd}gnp.e"),
            (
                "a\u{2066}b\u{2069}\u{200e}\u{61c}",
                "a\u{fffd}b\u{fffd}\u{fffd}\u{fffd}",
            ),
            ("ad\u{200b}min", "ad\u{fffd}min"),
            ("ad\u{200d}min", "ad\u{fffd}min"),
            ("ad\u{2060}min\u{feff}", "ad\u{fffd}min\u{fffd}"),
            ("a\u{fe0f}", "a\u{fffd}"),
            ("co\u{ad}op", "co\u{fffd}op"),
            ("tag\u{e0041}", "tag\u{fffd}"),
            (
                "👨\u{200d}👩\u{200d}👧 ❤\u{fe0f}",
                "👨\u{200d}👩\u{200d}👧 ❤\u{fe0f}",
            ),
            ("می\u{200c}خواهم", "می\u{200c}خواهم"),
            ("👨\u{200d}a", "👨\u{fffd}a"),
            ("\u{feff}\u{200d}\u{e0041}", "\u{fffd}\u{fffd}\u{fffd}"),
            ("a\u{fe0f}\u{200d}👩", "a\u{fffd}\u{fffd}👩"),
            ("❤\u{fe0f}\u{200d}🔥", "❤\u{fe0f}\u{200d}🔥"),
            ("1\u{fe0f}\u{20e3} ©\u{fe0f}", "1\u{fe0f}\u{20e3} ©\u{fe0f}"),
            ("e\u{301} 漢字 שלום", "e\u{301} 漢字 שלום"),
        ] {
            assert_eq!(clean(text), shown, "{text:?}");
        }
        assert_eq!(clean_lines("a\tb\nc\r\x1b"), "a\tb\nc\u{fffd}\u{fffd}");
        assert_eq!(StyledText::output("a\tb\r").as_str(), "a\tb\u{fffd}");
    }

    #[test]
    fn every_character_alone_and_between_letters_is_text_or_replaced() {
        for c in '\0'..=char::MAX {
            for text in [c.to_string(), format!("a{c}b"), format!("漢{c}字")] {
                let cleaned = clean(&text);
                assert!(!cleaned.chars().any(char::is_control), "{text:?}");
                assert_eq!(cleaned.chars().count(), text.chars().count(), "{text:?}");
                assert_eq!(clean(&cleaned), cleaned, "what is clean stays: {text:?}");
            }
        }
    }

    #[test]
    fn escaped_json_says_the_same_in_plain_characters() {
        for start in (0..0x11_0000).step_by(0x100) {
            let text: String = (start..start + 0x100).filter_map(char::from_u32).collect();
            let escaped = escape_json(serde_json::to_string(&text).unwrap());
            assert!(escaped.chars().all(is_plain), "{start:x}");
            assert_eq!(serde_json::from_str::<String>(&escaped).unwrap(), text);
        }
    }
}
