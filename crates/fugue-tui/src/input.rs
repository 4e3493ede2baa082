//! Parses the input of the host terminal: keys, pastes, mouse and focus events, and the replies to the client's two queries.
//!
//! Bytes may be cut anywhere. An unknown sequence is passed on unchanged, unless it has the form of a terminal report: a
//! program must never read a report that it did not request.

use fugue_api::{
    input_encoding::{KeyEvent, KeyEventKind, Modifiers, PASTE_END},
    keys::KeyCode,
};

use super::mouse::MouseEvent;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InputEvent {
    Key(KeyEvent),
    /// All chunks up to `PasteEnd` are one paste.
    PasteStart,
    PasteChunk(Vec<u8>),
    PasteEnd,
    Mouse(MouseEvent),
    Focus(bool),
    /// The terminal supports kitty's keyboard protocol.
    KittySupported,
    /// The reply to the device attributes query, which ends the replies to all earlier queries.
    DeviceAttributes,
    /// An unknown sequence, passed on to the program.
    Unknown(Vec<u8>),
}

#[derive(Default)]
pub struct InputParser {
    pending: Vec<u8>,
    pasting: bool,
}

/// Longer than any sequence of a keyboard; longer input is skipped.
const MAX_SEQUENCE_BYTES: usize = 128;

impl InputParser {
    pub fn feed(&mut self, bytes: &[u8]) -> Vec<InputEvent> {
        self.pending.extend_from_slice(bytes);
        self.take(InputTail::MayFollow)
    }

    /// Whether the last bytes are an incomplete sequence, such as a single ESC.
    pub fn has_pending(&self) -> bool {
        !self.pending.is_empty() && !self.pasting
    }

    /// Parses the pending bytes as complete: no more bytes follow.
    pub fn flush_pending(&mut self) -> Vec<InputEvent> {
        self.take(InputTail::Complete)
    }

    fn take(&mut self, rest: InputTail) -> Vec<InputEvent> {
        let mut events = Vec::new();
        let bytes = std::mem::take(&mut self.pending);
        let mut left = &bytes[..];
        while !left.is_empty() {
            if self.pasting {
                left = self.paste(left, &mut events);
                if self.pasting {
                    break;
                }
                continue;
            }
            match parse_next(left, rest) {
                ParseStep::Event(InputEvent::PasteStart, used) => {
                    events.push(InputEvent::PasteStart);
                    self.pasting = true;
                    left = &left[used..];
                }
                ParseStep::Event(one, used) => {
                    events.push(one);
                    left = &left[used..];
                }
                ParseStep::Skip(used) => left = &left[used..],
                ParseStep::Incomplete => break,
            }
        }
        self.pending = left.to_vec();
        events
    }

    /// Returns the bytes after the paste, or the suffix that may be the start of the end sequence.
    fn paste<'a>(&mut self, bytes: &'a [u8], events: &mut Vec<InputEvent>) -> &'a [u8] {
        let found = bytes
            .windows(PASTE_END.len())
            .position(|window| window == PASTE_END);
        let (inside, left) = match found {
            Some(at) => {
                self.pasting = false;
                (&bytes[..at], &bytes[at + PASTE_END.len()..])
            }
            None => {
                let open = (1..PASTE_END.len())
                    .rev()
                    .find(|length| bytes.ends_with(&PASTE_END[..*length]))
                    .unwrap_or(0);
                bytes.split_at(bytes.len() - open)
            }
        };
        if !inside.is_empty() {
            events.push(InputEvent::PasteChunk(inside.to_vec()));
        }
        if !self.pasting {
            events.push(InputEvent::PasteEnd);
        }
        left
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum InputTail {
    MayFollow,
    Complete,
}

enum ParseStep {
    Event(InputEvent, usize),
    /// These bytes have no event.
    Skip(usize),
    /// The sequence is not complete.
    Incomplete,
}

fn key(code: KeyCode, mods: Modifiers, used: usize) -> ParseStep {
    ParseStep::Event(InputEvent::Key(KeyEvent::new(code, mods)), used)
}

fn parse_next(bytes: &[u8], rest: InputTail) -> ParseStep {
    match bytes {
        [0x1b] if rest == InputTail::Complete => key(KeyCode::Escape, Modifiers::NONE, 1),
        [0x1b] => ParseStep::Incomplete,
        [0x1b, b'[', ..] => parse_csi(bytes, Modifiers::NONE, rest),
        [0x1b, b'O', ..] => parse_ss3(bytes, rest),
        [0x1b, 0x1b] if rest == InputTail::MayFollow => ParseStep::Incomplete,
        [0x1b, 0x1b, b'[', ..] => match parse_csi(&bytes[1..], Modifiers::ALT, rest) {
            ParseStep::Event(events, used) => ParseStep::Event(events, used + 1),
            ParseStep::Skip(used) => ParseStep::Skip(used + 1),
            ParseStep::Incomplete => ParseStep::Incomplete,
        },
        // The Escape key, followed by another sequence.
        [0x1b, 0x1b, ..] => key(KeyCode::Escape, Modifiers::NONE, 1),
        [0x1b, ..] => match character(&bytes[1..], rest) {
            ParseStep::Event(InputEvent::Key(press), used) => {
                key(press.code, press.mods.union(Modifiers::ALT), used + 1)
            }
            ParseStep::Event(events, used) => ParseStep::Event(events, used + 1),
            ParseStep::Skip(used) => ParseStep::Skip(used + 1),
            ParseStep::Incomplete => ParseStep::Incomplete,
        },
        _ => character(bytes, rest),
    }
}

/// Parses one character or one control code.
fn character(bytes: &[u8], rest: InputTail) -> ParseStep {
    let Some(&first) = bytes.first() else {
        return ParseStep::Incomplete;
    };
    let ctrl = |c: char| key(KeyCode::Char(c), Modifiers::CTRL, 1);
    match first {
        b'\t' => key(KeyCode::Tab, Modifiers::NONE, 1),
        b'\r' => key(KeyCode::Enter, Modifiers::NONE, 1),
        0x7f => key(KeyCode::Backspace, Modifiers::NONE, 1),
        0 => ctrl(' '),
        0x01..=0x1a => ctrl(char::from(first - 1 + b'a')),
        0x1b => key(KeyCode::Escape, Modifiers::NONE, 1),
        0x1c..=0x1f => ctrl(char::from(first + 0x40)),
        0x20..=0x7e => key(KeyCode::Char(char::from(first)), Modifiers::NONE, 1),
        0x80.. => {
            let length = match first {
                0xc2..=0xdf => 2,
                0xe0..=0xef => 3,
                0xf0..=0xf4 => 4,
                _ => return ParseStep::Event(InputEvent::Unknown(vec![first]), 1),
            };
            let Some(whole) = bytes.get(..length) else {
                return match rest {
                    InputTail::MayFollow => ParseStep::Incomplete,
                    InputTail::Complete => ParseStep::Event(InputEvent::Unknown(vec![first]), 1),
                };
            };
            match std::str::from_utf8(whole)
                .ok()
                .and_then(|text| text.chars().next())
            {
                // An 8-bit control code: no key sends one, and no key protocol can encode one.
                Some(c) if c.is_control() => {
                    ParseStep::Event(InputEvent::Unknown(whole.to_vec()), length)
                }
                Some(c) => key(KeyCode::Char(c), Modifiers::NONE, length),
                None => ParseStep::Event(InputEvent::Unknown(vec![first]), 1),
            }
        }
    }
}

fn parse_ss3(bytes: &[u8], rest: InputTail) -> ParseStep {
    let Some(&last) = bytes.get(2) else {
        return match rest {
            InputTail::MayFollow => ParseStep::Incomplete,
            InputTail::Complete => key(KeyCode::Char('O'), Modifiers::ALT, 2),
        };
    };
    if let Some(code) = key_by_letter(last) {
        return key(code, Modifiers::NONE, 3);
    }
    // A keypad key in application mode, which some terminals leave on.
    let keypad = b"pqrstuvwxynojmkMXl".iter().position(|word| *word == last);
    match keypad {
        Some(index) => key(KeyCode::Numbered(57_399 + index as u32), Modifiers::NONE, 3),
        None => key(KeyCode::Char('O'), Modifiers::ALT, 2),
    }
}

fn key_by_letter(letter: u8) -> Option<KeyCode> {
    Some(match letter {
        b'A' => KeyCode::Up,
        b'B' => KeyCode::Down,
        b'C' => KeyCode::Right,
        b'D' => KeyCode::Left,
        b'E' => KeyCode::Begin,
        b'F' => KeyCode::End,
        b'H' => KeyCode::Home,
        b'P' => KeyCode::F(1),
        b'Q' => KeyCode::F(2),
        b'R' => KeyCode::F(3),
        b'S' => KeyCode::F(4),
        _ => return None,
    })
}

fn key_by_number(number: u32) -> Option<KeyCode> {
    Some(match number {
        1 | 7 => KeyCode::Home,
        2 => KeyCode::Insert,
        3 => KeyCode::Delete,
        4 | 8 => KeyCode::End,
        5 => KeyCode::PageUp,
        6 => KeyCode::PageDown,
        11..=15 => KeyCode::F(number as u8 - 10),
        17..=21 => KeyCode::F(number as u8 - 11),
        23..=26 => KeyCode::F(number as u8 - 12),
        28 | 29 => KeyCode::F(number as u8 - 13),
        31..=34 => KeyCode::F(number as u8 - 14),
        _ => return None,
    })
}

/// Parses a CSI sequence: parameters and a final letter.
fn parse_csi(bytes: &[u8], extra: Modifiers, rest: InputTail) -> ParseStep {
    let body = &bytes[2..];
    // Never more than the limit, however much was read: the events must not depend on how the bytes were cut.
    let body = &body[..body.len().min(MAX_SEQUENCE_BYTES)];
    let Some(end) = body.iter().position(|byte| !(0x20..0x40).contains(byte)) else {
        return match rest {
            _ if body.len() == MAX_SEQUENCE_BYTES => ParseStep::Skip(body.len() + 2),
            InputTail::MayFollow => ParseStep::Incomplete,
            InputTail::Complete if body.is_empty() => key(KeyCode::Char('['), Modifiers::ALT, 2),
            // The terminal stopped in the middle of a sequence, or these bytes are none.
            InputTail::Complete => ParseStep::Skip(bytes.len()),
        };
    };
    let used = end + 3;
    let (params, last) = (&body[..end], body[end]);
    if !(0x40..=0x7e).contains(&last) {
        // A new sequence or a character begins: the bytes before are not a sequence.
        return ParseStep::Skip(used - 1);
    }
    let whole = || ParseStep::Event(InputEvent::Unknown(bytes[..used].to_vec()), used);
    match (params.first(), last) {
        (Some(b'<'), b'M' | b'm') => match mouse(&params[1..], last == b'm') {
            Some(mouse) => ParseStep::Event(InputEvent::Mouse(mouse), used),
            None => ParseStep::Skip(used),
        },
        (Some(b'?'), b'u') => ParseStep::Event(InputEvent::KittySupported, used),
        (Some(b'?'), b'c') => ParseStep::Event(InputEvent::DeviceAttributes, used),
        // Replies to queries that this client did not send.
        (Some(b'?' | b'>' | b'=' | b'<'), _) => ParseStep::Skip(used),
        (None, b'M') => match bytes.get(used..used + 3) {
            Some(&[code, col, row]) => {
                let number = |byte: u8| u16::from(byte.saturating_sub(32));
                let code = number(code);
                let mouse = MouseEvent {
                    code,
                    released: code & 0b11 == 3 && code < 32,
                    row: number(row).saturating_sub(1),
                    col: number(col).saturating_sub(1),
                };
                ParseStep::Event(InputEvent::Mouse(mouse), used + 3)
            }
            _ if rest == InputTail::MayFollow => ParseStep::Incomplete,
            _ => ParseStep::Skip(bytes.len()),
        },
        (None, b'I') => ParseStep::Event(InputEvent::Focus(true), used),
        (None, b'O') => ParseStep::Event(InputEvent::Focus(false), used),
        (None, b'Z') => key(KeyCode::Tab, Modifiers::SHIFT.union(extra), used),
        _ => match key_from_params(params, last, extra) {
            Some(InputEvent::PasteEnd) => ParseStep::Skip(used),
            Some(events) => ParseStep::Event(events, used),
            None if is_report(params, last) => ParseStep::Skip(used),
            None => whole(),
        },
    }
}

/// Whether a sequence has the form of a terminal report: a cursor position, a size, a status.
fn is_report(params: &[u8], last: u8) -> bool {
    matches!(last, b'n' | b't' | b'y' | b'c') || (last == b'R' && params.contains(&b';'))
}

fn mouse(params: &[u8], released: bool) -> Option<MouseEvent> {
    let mut numbers = std::str::from_utf8(params).ok()?.split(';');
    let mut number = || numbers.next()?.parse::<u16>().ok();
    let (code, col, row) = (number()?, number()?, number()?);
    Some(MouseEvent {
        code,
        released,
        row: row.saturating_sub(1),
        col: col.saturating_sub(1),
    })
}

/// Parses a key with modifiers: `CSI 1;5A`, `CSI 3;2~`, `CSI 27;5;9~`, `CSI 97:65;6:1;65u`.
fn key_from_params(params: &[u8], last: u8, extra: Modifiers) -> Option<InputEvent> {
    let text = std::str::from_utf8(params).ok()?;
    let groups: Vec<Vec<Option<u32>>> = text
        .split(';')
        .map(|group| group.split(':').map(|number| number.parse().ok()).collect())
        .collect();
    let at = |group: usize, index: usize| groups.get(group)?.get(index).copied().flatten();
    let mods = |group: usize| {
        let number = at(group, 0).unwrap_or(1).saturating_sub(1);
        Modifiers(u8::try_from(number).unwrap_or(0)).union(extra)
    };
    let kind = |group: usize| match at(group, 1) {
        Some(2) => KeyEventKind::Repeat,
        Some(3) => KeyEventKind::Release,
        _ => KeyEventKind::Press,
    };
    let press = |code: KeyCode| KeyEvent {
        kind: kind(1),
        ..KeyEvent::new(code, mods(1))
    };
    match last {
        b'~' => match at(0, 0)? {
            200 => Some(InputEvent::PasteStart),
            201 => Some(InputEvent::PasteEnd),
            27 => {
                let code = key_by_kitty_code(at(2, 0)?)?;
                Some(InputEvent::Key(KeyEvent::new(code, mods(1))))
            }
            number => Some(InputEvent::Key(press(key_by_number(number)?))),
        },
        b'u' => {
            let character = |number: Option<u32>| number.and_then(char::from_u32);
            let typed: String = groups
                .get(2)
                .into_iter()
                .flatten()
                .filter_map(|number| character(*number))
                .filter(|c| !c.is_control())
                .collect();
            Some(InputEvent::Key(KeyEvent {
                shifted: character(at(0, 1)),
                base: character(at(0, 2)),
                text: Some(typed).filter(|text| !text.is_empty()),
                ..press(key_by_kitty_code(at(0, 0)?)?)
            }))
        }
        _ if is_report(params, last) && at(0, 0) != Some(1) => None,
        letter => Some(InputEvent::Key(press(key_by_letter(letter)?))),
    }
}

/// The key with this number in kitty's protocol.
fn key_by_kitty_code(number: u32) -> Option<KeyCode> {
    Some(match number {
        9 => KeyCode::Tab,
        13 => KeyCode::Enter,
        27 => KeyCode::Escape,
        8 | 127 => KeyCode::Backspace,
        57_376..=57_398 => KeyCode::F((number - 57_376 + 13) as u8),
        // Private-use numbers are keys without a character.
        57_344..=63_743 => KeyCode::Numbered(number),
        _ => KeyCode::Char(char::from_u32(number).filter(|c| !c.is_control())?),
    })
}

#[cfg(test)]
mod tests;
