//! Encodes input as a program in a terminal reads it: keys in xterm's format or in kitty's keyboard protocol, and pastes.
//!
//! This is the only key encoder: `send_input` encodes key names with it, and `fugue attach` the keys of a person.

use crate::{
    attach::FrameModes,
    keys::{KeyCode, KeyPress},
};

/// The sequence before a bracketed paste.
pub const PASTE_START: &[u8] = b"\x1b[200~";
/// The sequence after a bracketed paste.
pub const PASTE_END: &[u8] = b"\x1b[201~";

/// Removes every [`PASTE_END`] from a text, so that it cannot end its own paste. A sequence that only appears by the removal of
/// another is removed too.
pub fn remove_paste_end(text: &[u8]) -> Vec<u8> {
    let mut kept: Vec<u8> = Vec::with_capacity(text.len());
    for byte in text {
        kept.push(*byte);
        if kept.ends_with(PASTE_END) {
            kept.truncate(kept.len() - PASTE_END.len());
        }
    }
    kept
}

/// A key event of a keyboard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyEvent {
    pub code: KeyCode,
    pub mods: Modifiers,
    pub kind: KeyEventKind,
    /// The character of the key with shift, if the terminal has reported it.
    pub shifted: Option<char>,
    /// The character of the key in the standard layout, if the terminal has reported it.
    pub base: Option<char>,
    /// The text of the key, if the terminal has reported it.
    pub text: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyEventKind {
    Press,
    Repeat,
    Release,
}

/// The held modifiers as bits of kitty's protocol: shift, alt, ctrl, super, hyper, meta, caps lock, num lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Modifiers(pub u8);

impl Modifiers {
    pub const NONE: Self = Self(0);
    pub const SHIFT: Self = Self(1);
    pub const ALT: Self = Self(2);
    pub const CTRL: Self = Self(4);
    const LOCKS: u8 = 0b1100_0000;

    pub fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Without caps lock and num lock, which do not change the meaning of a key.
    pub fn held(self) -> Self {
        Self(self.0 & !Self::LOCKS)
    }

    pub fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl From<KeyPress> for KeyEvent {
    fn from(press: KeyPress) -> Self {
        let held = [
            (press.shift, Modifiers::SHIFT),
            (press.alt, Modifiers::ALT),
            (press.ctrl, Modifiers::CTRL),
        ];
        let mods = held.into_iter().filter(|(is_held, _)| *is_held);
        let mods = mods.fold(Modifiers::NONE, |mods, (_, one)| mods.union(one));
        Self::new(press.code, mods)
    }
}

impl KeyEvent {
    pub fn new(code: KeyCode, mods: Modifiers) -> Self {
        Self {
            code,
            mods,
            kind: KeyEventKind::Press,
            shifted: None,
            base: None,
            text: None,
        }
    }

    /// The character that the key types, if no modifier but shift is held.
    pub fn typed_char(&self) -> Option<char> {
        if self.kind == KeyEventKind::Release || self.mods.held().0 & !Modifiers::SHIFT.0 != 0 {
            return None;
        }
        self.character()
    }

    /// The character of the key with shift applied, whatever else is held.
    fn character(&self) -> Option<char> {
        let KeyCode::Char(c) = self.code else {
            return self.keypad_character();
        };
        let mut text = self.text.iter().flat_map(|text| text.chars());
        if let (Some(one), None) = (text.next(), text.next()) {
            return Some(one);
        }
        if !self.mods.has(Modifiers::SHIFT) {
            return Some(c);
        }
        let mut upper = c.to_uppercase();
        let upper = match (upper.next(), upper.next()) {
            (Some(upper), None) => upper,
            _ => c,
        };
        Some(self.shifted.unwrap_or(upper))
    }

    fn keypad_character(&self) -> Option<char> {
        let KeyCode::Numbered(number) = self.code else {
            return None;
        };
        "0123456789./*-+\r=,"
            .chars()
            .nth(number.checked_sub(KEYPAD)? as usize)
    }
}

/// The number of the keypad's zero; then nine, `.`, `/`, `*`, `-`, `+`, Enter, `=`, `,`, and the keypad's arrows.
const KEYPAD: u32 = 57_399;
const KEYPAD_LEFT: u32 = 57_417;

// The flags of kitty's keyboard protocol.
const DISAMBIGUATE: u8 = 1;
const EVENTS: u8 = 2;
const ALTERNATES: u8 = 4;
const ALL_AS_ESCAPES: u8 = 8;
const WITH_TEXT: u8 = 16;

/// The bytes that a program with these modes reads for a key; empty if the format has no sequence for it.
pub fn encode_key(press: &KeyEvent, modes: &FrameModes) -> Vec<u8> {
    let mut out = String::new();
    match modes.keyboard & 0b1_1111 {
        0 => encode_xterm(press, modes, &mut out),
        flags => encode_kitty(press, flags, modes, &mut out),
    }
    out.into_bytes()
}

fn encode_xterm(press: &KeyEvent, modes: &FrameModes, out: &mut String) {
    if press.kind == KeyEventKind::Release {
        return;
    }
    let code = match press.code {
        KeyCode::Numbered(number) => match keypad_navigation(number) {
            Some(code) => code,
            None => return encode_keypad(press, number, modes, out),
        },
        code => code,
    };
    // The xterm format has only shift, alt and ctrl.
    let mods = Modifiers(press.mods.0 & 0b111);
    let alt = if mods.has(Modifiers::ALT) { "\x1b" } else { "" };
    let ctrl = mods.has(Modifiers::CTRL);
    match code {
        KeyCode::Char(c) => {
            if let Some(text) = press.text.as_ref().filter(|_| !ctrl && alt.is_empty()) {
                return out.push_str(text);
            }
            out.push_str(alt);
            match control_code(c).filter(|_| ctrl) {
                Some(control) => out.push(control),
                None => out.extend(press.character()),
            }
        }
        KeyCode::Enter => out.push_str(&format!("{alt}\r")),
        KeyCode::Tab if mods.has(Modifiers::SHIFT) => out.push_str(&format!("{alt}\x1b[Z")),
        KeyCode::Tab => out.push_str(&format!("{alt}\t")),
        KeyCode::Backspace => {
            out.push_str(alt);
            out.push(if ctrl { '\x08' } else { '\x7f' });
        }
        KeyCode::Escape => out.push_str(&format!("{alt}\x1b")),
        code => encode_function_key(code, mods, None, FunctionKeyFormat::xterm(modes), out),
    }
}

/// The control code of a character with Ctrl, as xterm and tmux send it. `None`: Ctrl has no effect, as with `0`, `1` and `9`.
fn control_code(c: char) -> Option<char> {
    let code = match c.to_ascii_lowercase() {
        ' ' | '@' | '2' | '`' => 0,
        letter @ 'a'..='z' => letter as u8 - b'a' + 1,
        '[' | '3' | '{' => 0x1b,
        '\\' | '4' | '|' => 0x1c,
        ']' | '5' | '}' => 0x1d,
        '^' | '6' | '~' => 0x1e,
        '_' | '7' | '/' | '-' => 0x1f,
        '?' | '8' => 0x7f,
        _ => return None,
    };
    Some(char::from(code))
}

fn encode_keypad(press: &KeyEvent, number: u32, modes: &FrameModes, out: &mut String) {
    let Some(index) = number.checked_sub(KEYPAD) else {
        return;
    };
    let held = press.mods.held();
    // `0` to `9`, `.`, `/`, `*`, `-`, `+`, Enter, `=`, `,`.
    let application = "pqrstuvwxynojmkMXl".chars().nth(index as usize);
    match application.filter(|_| modes.app_keypad && held == Modifiers::NONE) {
        Some(word) => out.extend(['\x1b', 'O', word]),
        None => {
            if held.has(Modifiers::ALT) && press.character().is_some() {
                out.push('\x1b');
            }
            out.extend(press.character());
        }
    }
}

/// The navigation keys of the keypad are sent as the ordinary ones.
fn keypad_navigation(number: u32) -> Option<KeyCode> {
    let codes = [
        KeyCode::Left,
        KeyCode::Right,
        KeyCode::Up,
        KeyCode::Down,
        KeyCode::PageUp,
        KeyCode::PageDown,
        KeyCode::Home,
        KeyCode::End,
        KeyCode::Insert,
        KeyCode::Delete,
        KeyCode::Begin,
    ];
    codes
        .get(number.checked_sub(KEYPAD_LEFT)? as usize)
        .copied()
}

/// The format of the sequence for a key without a character.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FunctionKeyFormat {
    Xterm { application_cursor: bool },
    Kitty,
}

impl FunctionKeyFormat {
    fn xterm(modes: &FrameModes) -> Self {
        Self::Xterm {
            application_cursor: modes.app_cursor,
        }
    }
}

fn encode_function_key(
    code: KeyCode,
    mods: Modifiers,
    event: Option<u8>,
    format: FunctionKeyFormat,
    out: &mut String,
) {
    enum Shape {
        Letter(char),
        Number(u16),
    }
    use Shape::{Letter, Number};
    let shape = match code {
        KeyCode::Up => Letter('A'),
        KeyCode::Down => Letter('B'),
        KeyCode::Right => Letter('C'),
        KeyCode::Left => Letter('D'),
        KeyCode::Begin => Letter('E'),
        KeyCode::End => Letter('F'),
        KeyCode::Home => Letter('H'),
        KeyCode::F(1) => Letter('P'),
        KeyCode::F(2) => Letter('Q'),
        // `CSI R` is the form of a cursor position report.
        KeyCode::F(3) if format == FunctionKeyFormat::Kitty => Number(13),
        KeyCode::F(3) => Letter('R'),
        KeyCode::F(4) => Letter('S'),
        KeyCode::Insert => Number(2),
        KeyCode::Delete => Number(3),
        KeyCode::PageUp => Number(5),
        KeyCode::PageDown => Number(6),
        KeyCode::F(number @ 5..=20) => {
            const NUMBERS: [u16; 16] = [
                15, 17, 18, 19, 20, 21, 23, 24, 25, 26, 28, 29, 31, 32, 33, 34,
            ];
            Number(NUMBERS[usize::from(number - 5)])
        }
        KeyCode::F(_)
        | KeyCode::Char(_)
        | KeyCode::Enter
        | KeyCode::Tab
        | KeyCode::Backspace
        | KeyCode::Escape
        | KeyCode::Numbered(_) => return,
    };
    let event = event.map(|event| format!(":{event}")).unwrap_or_default();
    let modified = mods != Modifiers::NONE || !event.is_empty();
    let held = format!("{}{event}", u16::from(mods.0) + 1);
    match shape {
        Letter(letter) if modified => out.push_str(&format!("\x1b[1;{held}{letter}")),
        Letter(letter) => {
            let single_shift = match format {
                FunctionKeyFormat::Xterm { application_cursor } => {
                    application_cursor || matches!(code, KeyCode::F(_))
                }
                FunctionKeyFormat::Kitty => false,
            };
            out.extend(['\x1b', if single_shift { 'O' } else { '[' }, letter]);
        }
        Number(number) if modified => out.push_str(&format!("\x1b[{number};{held}~")),
        Number(number) => out.push_str(&format!("\x1b[{number}~")),
    }
}

fn encode_kitty(press: &KeyEvent, flags: u8, modes: &FrameModes, out: &mut String) {
    let has = |flag: u8| flags & flag != 0;
    if press.kind == KeyEventKind::Release && !has(EVENTS) {
        return;
    }
    if !has(DISAMBIGUATE) && !has(ALL_AS_ESCAPES) && press.kind != KeyEventKind::Release {
        // Only events or alternates are requested: keys keep the xterm format.
        return encode_xterm(press, modes, out);
    }
    let held = press.mods.held();
    let event = match press.kind {
        KeyEventKind::Release => Some(3),
        KeyEventKind::Repeat if has(EVENTS) => Some(2),
        KeyEventKind::Press | KeyEventKind::Repeat => None,
    };
    if !has(ALL_AS_ESCAPES) {
        let types = held.0 & !Modifiers::SHIFT.0 == 0 && press.character().is_some();
        let plain = held == Modifiers::NONE
            && matches!(
                press.code,
                KeyCode::Enter | KeyCode::Tab | KeyCode::Backspace
            );
        if types || plain {
            // Text keys keep the xterm format and have no release events.
            if press.kind != KeyEventKind::Release {
                encode_xterm(press, modes, out);
            }
            return;
        }
        if press.kind == KeyEventKind::Release
            && matches!(
                press.code,
                KeyCode::Enter | KeyCode::Tab | KeyCode::Backspace
            )
        {
            return;
        }
        // A modifier or lock key alone is reported only with all keys as escape codes.
        if matches!(
            press.code,
            KeyCode::Numbered(57_358..=57_360 | 57_441..=57_454)
        ) {
            return;
        }
    }
    let number = match press.code {
        // A capital letter is its small letter with shift.
        KeyCode::Char(c) => c.to_lowercase().next().unwrap_or(c) as u32,
        KeyCode::Enter => 13,
        KeyCode::Tab => 9,
        KeyCode::Backspace => 127,
        KeyCode::Escape => 27,
        KeyCode::Numbered(number) => number,
        KeyCode::F(number @ 13..) => 57_376 + u32::from(number) - 13,
        code => return encode_function_key(code, press.mods, event, FunctionKeyFormat::Kitty, out),
    };
    encode_kitty_number(press, number, flags, event, out);
}

/// `CSI number:shifted:base;modifiers:event;text u`.
fn encode_kitty_number(
    press: &KeyEvent,
    number: u32,
    flags: u8,
    event: Option<u8>,
    out: &mut String,
) {
    let has = |flag: u8| flags & flag != 0;
    let held = press.mods.held();
    out.push_str(&format!("\x1b[{number}"));
    if has(ALTERNATES) && matches!(press.code, KeyCode::Char(_)) {
        let shifted = press.character().filter(|_| held.has(Modifiers::SHIFT));
        let shifted = shifted.filter(|c| *c as u32 != number);
        let base = press.base.filter(|c| *c as u32 != number);
        match (shifted, base) {
            (Some(shifted), Some(base)) => {
                out.push_str(&format!(":{}:{}", shifted as u32, base as u32));
            }
            (Some(shifted), None) => out.push_str(&format!(":{}", shifted as u32)),
            (None, Some(base)) => out.push_str(&format!("::{}", base as u32)),
            (None, None) => {}
        }
    }
    let types = held.0 & !Modifiers::SHIFT.0 == 0 && press.kind != KeyEventKind::Release;
    let text: Vec<String> = match (&press.text, press.character()) {
        _ if !has(WITH_TEXT) || !has(ALL_AS_ESCAPES) || !types => Vec::new(),
        (Some(text), _) => text.chars().map(|c| (c as u32).to_string()).collect(),
        (None, Some(c)) if !c.is_control() => vec![(c as u32).to_string()],
        (None, _) => Vec::new(),
    };
    // Locks are reported only with all keys as escape codes.
    let mods = if has(ALL_AS_ESCAPES) {
        press.mods
    } else {
        held
    };
    if mods != Modifiers::NONE || event.is_some() || !text.is_empty() {
        out.push(';');
        if mods != Modifiers::NONE || event.is_some() {
            out.push_str(&(u16::from(mods.0) + 1).to_string());
        }
        if let Some(event) = event {
            out.push_str(&format!(":{event}"));
        }
    }
    if !text.is_empty() {
        out.push(';');
        out.push_str(&text.join(":"));
    }
    out.push('u');
}

#[cfg(test)]
mod tests;
