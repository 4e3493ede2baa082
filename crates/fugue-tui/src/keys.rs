//! A key as a program wants to read it: as xterm has always said it, or in the words of kitty's keyboard protocol.

use fugue_api::attach::FrameModes;

/// A key that was pressed, held or let go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Press {
    pub code: Code,
    pub mods: Mods,
    pub event: Event,
    /// What the key gives with shift, where the terminal said so.
    pub shifted: Option<char>,
    /// What is on it in the standard layout, where the terminal said so.
    pub base: Option<char>,
    /// What it types, where the terminal said so.
    pub text: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Code {
    Char(char),
    Enter,
    Tab,
    Backspace,
    Escape,
    Insert,
    Delete,
    Home,
    End,
    PageUp,
    PageDown,
    Up,
    Down,
    Left,
    Right,
    /// The middle of the keypad.
    Begin,
    /// 1 to 35.
    F(u8),
    /// Any other, by its number in kitty's protocol: keypad, locks, media, modifiers alone.
    Other(u32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    Press,
    Repeat,
    Release,
}

/// The modifiers held, as bits: shift, alt, ctrl, super, hyper, meta, caps lock, num lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Mods(pub u8);

impl Mods {
    pub const NONE: Self = Self(0);
    pub const SHIFT: Self = Self(1);
    pub const ALT: Self = Self(2);
    pub const CTRL: Self = Self(4);
    const LOCKS: u8 = 0b1100_0000;

    pub fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Without the locks, which do not make it another key.
    pub fn held(self) -> Self {
        Self(self.0 & !Self::LOCKS)
    }

    pub fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl Press {
    pub fn new(code: Code, mods: Mods) -> Self {
        Self {
            code,
            mods,
            event: Event::Press,
            shifted: None,
            base: None,
            text: None,
        }
    }

    /// The character that a person means by it, if no more than shift is held.
    pub fn typed_char(&self) -> Option<char> {
        if self.event == Event::Release || self.mods.held().0 & !Mods::SHIFT.0 != 0 {
            return None;
        }
        self.character()
    }

    /// The character of the key with shift, whatever else is held.
    fn character(&self) -> Option<char> {
        let Code::Char(c) = self.code else {
            return self.keypad_character();
        };
        let mut text = self.text.iter().flat_map(|text| text.chars());
        if let (Some(one), None) = (text.next(), text.next()) {
            return Some(one);
        }
        if !self.mods.has(Mods::SHIFT) {
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
        let Code::Other(number) = self.code else {
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

// Kitty's flags.
const DISAMBIGUATE: u8 = 1;
const EVENTS: u8 = 2;
const ALTERNATES: u8 = 4;
const ALL_AS_ESCAPES: u8 = 8;
const WITH_TEXT: u8 = 16;

/// What a program with these modes reads for this key; nothing, where it has no word for it.
pub fn encode(press: &Press, modes: &FrameModes) -> Vec<u8> {
    let mut out = String::new();
    match modes.keyboard & 0b1_1111 {
        0 => legacy(press, modes, &mut out),
        flags => kitty(press, flags, modes, &mut out),
    }
    out.into_bytes()
}

fn legacy(press: &Press, modes: &FrameModes, out: &mut String) {
    if press.event == Event::Release {
        return;
    }
    let code = match press.code {
        Code::Other(number) => match off_the_keypad(number) {
            Some(code) => code,
            None => return keypad(press, number, modes, out),
        },
        code => code,
    };
    // Xterm has words for shift, alt and ctrl.
    let mods = Mods(press.mods.0 & 0b111);
    let alt = if mods.has(Mods::ALT) { "\x1b" } else { "" };
    let ctrl = mods.has(Mods::CTRL);
    match code {
        Code::Char(c) => {
            if let Some(text) = press.text.as_ref().filter(|_| !ctrl && alt.is_empty()) {
                return out.push_str(text);
            }
            out.push_str(alt);
            match control(c).filter(|_| ctrl) {
                Some(control) => out.push(control),
                None => out.extend(press.character()),
            }
        }
        Code::Enter => out.push_str(&format!("{alt}\r")),
        Code::Tab if mods.has(Mods::SHIFT) => out.push_str(&format!("{alt}\x1b[Z")),
        Code::Tab => out.push_str(&format!("{alt}\t")),
        Code::Backspace => {
            out.push_str(alt);
            out.push(if ctrl { '\x08' } else { '\x7f' });
        }
        Code::Escape => out.push_str(&format!("{alt}\x1b")),
        code => function(code, mods, None, Words::of_xterm(modes), out),
    }
}

/// What control makes of a character.
fn control(c: char) -> Option<char> {
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

fn keypad(press: &Press, number: u32, modes: &FrameModes, out: &mut String) {
    let Some(index) = number.checked_sub(KEYPAD) else {
        return;
    };
    let held = press.mods.held();
    // `0` to `9`, `.`, `/`, `*`, `-`, `+`, Enter, `=`, `,`.
    let application = "pqrstuvwxynojmkMXl".chars().nth(index as usize);
    match application.filter(|_| modes.app_keypad && held == Mods::NONE) {
        Some(word) => out.extend(['\x1b', 'O', word]),
        None => {
            if held.has(Mods::ALT) && press.character().is_some() {
                out.push('\x1b');
            }
            out.extend(press.character());
        }
    }
}

/// The keypad's arrows are arrows.
fn off_the_keypad(number: u32) -> Option<Code> {
    let codes = [
        Code::Left,
        Code::Right,
        Code::Up,
        Code::Down,
        Code::PageUp,
        Code::PageDown,
        Code::Home,
        Code::End,
        Code::Insert,
        Code::Delete,
        Code::Begin,
    ];
    codes
        .get(number.checked_sub(KEYPAD_LEFT)? as usize)
        .copied()
}

/// How a key without a character begins.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Words {
    Xterm { application_cursor: bool },
    Kitty,
}

impl Words {
    fn of_xterm(modes: &FrameModes) -> Self {
        Self::Xterm {
            application_cursor: modes.app_cursor,
        }
    }
}

fn function(code: Code, mods: Mods, event: Option<u8>, words: Words, out: &mut String) {
    enum Shape {
        Letter(char),
        Number(u16),
    }
    use Shape::{Letter, Number};
    let shape = match code {
        Code::Up => Letter('A'),
        Code::Down => Letter('B'),
        Code::Right => Letter('C'),
        Code::Left => Letter('D'),
        Code::Begin => Letter('E'),
        Code::End => Letter('F'),
        Code::Home => Letter('H'),
        Code::F(1) => Letter('P'),
        Code::F(2) => Letter('Q'),
        // `CSI R` would be a report of the cursor's place.
        Code::F(3) if words == Words::Kitty => Number(13),
        Code::F(3) => Letter('R'),
        Code::F(4) => Letter('S'),
        Code::Insert => Number(2),
        Code::Delete => Number(3),
        Code::PageUp => Number(5),
        Code::PageDown => Number(6),
        Code::F(number @ 5..=20) => {
            const NUMBERS: [u16; 16] = [
                15, 17, 18, 19, 20, 21, 23, 24, 25, 26, 28, 29, 31, 32, 33, 34,
            ];
            Number(NUMBERS[usize::from(number - 5)])
        }
        Code::F(_)
        | Code::Char(_)
        | Code::Enter
        | Code::Tab
        | Code::Backspace
        | Code::Escape
        | Code::Other(_) => return,
    };
    let event = event.map(|event| format!(":{event}")).unwrap_or_default();
    let modified = mods != Mods::NONE || !event.is_empty();
    let held = format!("{}{event}", u16::from(mods.0) + 1);
    match shape {
        Letter(letter) if modified => out.push_str(&format!("\x1b[1;{held}{letter}")),
        Letter(letter) => {
            let single_shift = match words {
                Words::Xterm { application_cursor } => {
                    application_cursor || matches!(code, Code::F(_))
                }
                Words::Kitty => false,
            };
            out.extend(['\x1b', if single_shift { 'O' } else { '[' }, letter]);
        }
        Number(number) if modified => out.push_str(&format!("\x1b[{number};{held}~")),
        Number(number) => out.push_str(&format!("\x1b[{number}~")),
    }
}

fn kitty(press: &Press, flags: u8, modes: &FrameModes, out: &mut String) {
    let has = |flag: u8| flags & flag != 0;
    if press.event == Event::Release && !has(EVENTS) {
        return;
    }
    if !has(DISAMBIGUATE) && !has(ALL_AS_ESCAPES) && press.event != Event::Release {
        // Nothing but events or alternates was asked for: the rest is as ever.
        return legacy(press, modes, out);
    }
    let held = press.mods.held();
    let event = match press.event {
        Event::Release => Some(3),
        Event::Repeat if has(EVENTS) => Some(2),
        Event::Press | Event::Repeat => None,
    };
    if !has(ALL_AS_ESCAPES) {
        let types = held.0 & !Mods::SHIFT.0 == 0 && press.character().is_some();
        let plain =
            held == Mods::NONE && matches!(press.code, Code::Enter | Code::Tab | Code::Backspace);
        if types || plain {
            // Text is text, and is not let go of.
            if press.event != Event::Release {
                legacy(press, modes, out);
            }
            return;
        }
        if press.event == Event::Release
            && matches!(press.code, Code::Enter | Code::Tab | Code::Backspace)
        {
            return;
        }
        // A modifier or a lock by itself is told only with all the others.
        if matches!(press.code, Code::Other(57_358..=57_360 | 57_441..=57_454)) {
            return;
        }
    }
    let number = match press.code {
        // A capital is its small letter with shift.
        Code::Char(c) => c.to_lowercase().next().unwrap_or(c) as u32,
        Code::Enter => 13,
        Code::Tab => 9,
        Code::Backspace => 127,
        Code::Escape => 27,
        Code::Other(number) => number,
        Code::F(number @ 13..) => 57_376 + u32::from(number) - 13,
        code => return function(code, press.mods, event, Words::Kitty, out),
    };
    out.push_str(&format!("\x1b[{number}"));
    if has(ALTERNATES) && matches!(press.code, Code::Char(_)) {
        let shifted = press.character().filter(|_| held.has(Mods::SHIFT));
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
    let types = held.0 & !Mods::SHIFT.0 == 0 && press.event != Event::Release;
    let text: Vec<String> = match (&press.text, press.character()) {
        _ if !has(WITH_TEXT) || !has(ALL_AS_ESCAPES) || !types => Vec::new(),
        (Some(text), _) => text.chars().map(|c| (c as u32).to_string()).collect(),
        (None, Some(c)) if !c.is_control() => vec![(c as u32).to_string()],
        (None, _) => Vec::new(),
    };
    // Locks are not told of keys that type, unless all keys are asked for.
    let mods = if has(ALL_AS_ESCAPES) {
        press.mods
    } else {
        held
    };
    if mods != Mods::NONE || event.is_some() || !text.is_empty() {
        out.push(';');
        if mods != Mods::NONE || event.is_some() {
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
