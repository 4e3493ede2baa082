use std::{fmt, str::FromStr};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Error;

/// One key press by name: `Enter`, `C-c`, `M-x`, `Up`, `F5`, `C-S-Left`, or a single character.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KeyPress {
    pub code: KeyCode,
    pub ctrl: bool,
    pub alt: bool,
    pub shift: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KeyCode {
    Char(char),
    Enter,
    Tab,
    Escape,
    Backspace,
    Delete,
    Insert,
    Home,
    End,
    PageUp,
    PageDown,
    Up,
    Down,
    Left,
    Right,
    /// F1 to F35; F1 to F12 have names.
    F(u8),
    /// The middle key of the keypad. It has no name that can be parsed.
    Begin,
    /// Any other key by its number in kitty's protocol: keypad, locks, media, modifiers alone. It has no name that can be parsed.
    Numbered(u32),
}

/// The accepted key names; the first name of each key is the printed one.
const NAMES: &[(&str, KeyCode)] = &[
    ("Enter", KeyCode::Enter),
    ("Return", KeyCode::Enter),
    ("CR", KeyCode::Enter),
    ("Tab", KeyCode::Tab),
    ("Escape", KeyCode::Escape),
    ("Esc", KeyCode::Escape),
    ("Space", KeyCode::Char(' ')),
    ("Backspace", KeyCode::Backspace),
    ("BSpace", KeyCode::Backspace),
    ("Delete", KeyCode::Delete),
    ("Del", KeyCode::Delete),
    ("DC", KeyCode::Delete),
    ("Insert", KeyCode::Insert),
    ("Ins", KeyCode::Insert),
    ("IC", KeyCode::Insert),
    ("Home", KeyCode::Home),
    ("End", KeyCode::End),
    ("PageUp", KeyCode::PageUp),
    ("PgUp", KeyCode::PageUp),
    ("PPage", KeyCode::PageUp),
    ("PageDown", KeyCode::PageDown),
    ("PgDn", KeyCode::PageDown),
    ("NPage", KeyCode::PageDown),
    ("Up", KeyCode::Up),
    ("Down", KeyCode::Down),
    ("Left", KeyCode::Left),
    ("Right", KeyCode::Right),
];

impl FromStr for KeyPress {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        let unknown = || {
            Error::invalid(format!("keys: no key is called `{name}`")).hint(
                "try Enter, Tab, Escape, Space, Backspace, Delete, Up, Down, Left, Right, Home, End, PageUp, PageDown, \
                 F1 to F12, a single character, with C- (control), M- (alt) or S- (shift) in front; text goes into `input`",
            )
        };
        let (mut ctrl, mut alt, mut shift) = (false, false, false);
        let mut rest = name;
        // `C-` alone has no key and is refused; `-` and `C--` are the minus key.
        while let Some((modifier, after)) = rest
            .split_once('-')
            .filter(|(m, after)| !m.is_empty() && !after.is_empty())
        {
            match modifier {
                "C" | "Ctrl" | "ctrl" => ctrl = true,
                "M" | "Alt" | "alt" | "Meta" => alt = true,
                "S" | "Shift" | "shift" => shift = true,
                _ => return Err(unknown()),
            }
            rest = after;
        }
        let mut chars = rest.chars();
        let code = match (chars.next(), chars.next()) {
            (Some(c), None) if !c.is_control() => KeyCode::Char(c),
            (Some('^'), Some(c)) if chars.next().is_none() && c.is_ascii() && !c.is_control() => {
                ctrl = true;
                KeyCode::Char(c.to_ascii_lowercase())
            }
            _ if rest == "BTab" => {
                shift = true;
                KeyCode::Tab
            }
            _ => NAMES
                .iter()
                .find(|(known, _)| known.eq_ignore_ascii_case(rest))
                .map(|(_, code)| *code)
                .or_else(|| function_key(rest))
                .ok_or_else(unknown)?,
        };
        // Terminals encode control only with these characters.
        if let (true, KeyCode::Char(c)) = (ctrl, code)
            && !(c.is_ascii_alphabetic() || " @[\\]^_?/".contains(c) || c.is_ascii_digit())
        {
            return Err(unknown());
        }
        Ok(Self {
            code,
            ctrl,
            alt,
            shift,
        })
    }
}

fn function_key(name: &str) -> Option<KeyCode> {
    let number = name.strip_prefix(['F', 'f'])?.parse().ok()?;
    (1..=12).contains(&number).then_some(KeyCode::F(number))
}

impl fmt::Display for KeyPress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (held, prefix) in [(self.ctrl, "C-"), (self.alt, "M-"), (self.shift, "S-")] {
            if held {
                f.write_str(prefix)?;
            }
        }
        match self.code {
            KeyCode::Char(' ') => f.write_str("Space"),
            KeyCode::Char(c) => write!(f, "{c}"),
            KeyCode::F(n) => write!(f, "F{n}"),
            KeyCode::Begin => f.write_str("Begin"),
            KeyCode::Numbered(number) => write!(f, "key {number}"),
            code => {
                let name = NAMES
                    .iter()
                    .find(|(_, known)| *known == code)
                    .map(|(name, _)| *name);
                f.write_str(name.unwrap_or_default())
            }
        }
    }
}

impl Serialize for KeyPress {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for KeyPress {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        name.parse().map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for KeyPress {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Key".into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({"type": "string"})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_what_it_prints() {
        for name in [
            "Enter", "C-c", "M-x", "Up", "F5", "F12", "C-S-Left", "Space", "a", "-", "C-[",
            "M-Enter", "S-Tab", "é",
        ] {
            let key: KeyPress = name.parse().unwrap();
            assert_eq!(key.to_string(), name);
            assert_eq!(key.to_string().parse::<KeyPress>().unwrap(), key);
        }
    }

    #[test]
    fn other_spellings_are_understood() {
        for (other, name) in [
            ("return", "Enter"),
            ("Esc", "Escape"),
            ("^c", "C-c"),
            ("^C", "C-c"),
            ("Ctrl-a", "C-a"),
            ("BTab", "S-Tab"),
            ("PgDn", "PageDown"),
        ] {
            assert_eq!(
                other.parse::<KeyPress>().unwrap(),
                name.parse().unwrap(),
                "{other}"
            );
        }
    }

    #[test]
    fn an_unknown_name_is_refused_and_never_typed() {
        for name in [
            "Entr", "", "F13", "F0", "X-a", "ls -la", "C-é", "\u{1b}", "C-Enterr",
        ] {
            assert!(name.parse::<KeyPress>().is_err(), "{name:?}");
        }
    }
}
