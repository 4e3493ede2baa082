//! What the person's terminal sends: keys, pastes, the mouse, focus, and its answers to our two questions.
//!
//! Bytes may be cut anywhere. What is no sequence that we know is passed on as it came, unless it has the look of an
//! answer: a program must never read one that it did not ask for.

use super::{
    keys::{Code, Event, Mods, Press},
    mouse::Mouse,
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    Key(Press),
    /// Everything up to the end is one paste.
    PasteBegins,
    Pasted(Vec<u8>),
    PasteEnds,
    Mouse(Mouse),
    Focus(bool),
    /// The terminal speaks kitty's keyboard protocol.
    SpeaksKitty,
    /// The terminal has told what it is, and with that answered all that was asked before.
    Told,
    /// A key that only the program may know.
    Unknown(Vec<u8>),
}

#[derive(Default)]
pub struct Input {
    held: Vec<u8>,
    pasting: bool,
}

// Longer than any sequence of a keyboard; what goes on after this is none.
const LONGEST: usize = 128;
const PASTE_END: &[u8] = b"\x1b[201~";

impl Input {
    pub fn feed(&mut self, bytes: &[u8]) -> Vec<Heard> {
        self.held.extend_from_slice(bytes);
        self.take(Rest::MayFollow)
    }

    /// Whether what was read last could be a key by itself or the beginning of one.
    pub fn is_undecided(&self) -> bool {
        !self.held.is_empty() && !self.pasting
    }

    /// Nothing follows: what was undecided is what it is.
    pub fn settle(&mut self) -> Vec<Heard> {
        self.take(Rest::IsThere)
    }

    fn take(&mut self, rest: Rest) -> Vec<Heard> {
        let mut heard = Vec::new();
        let bytes = std::mem::take(&mut self.held);
        let mut left = &bytes[..];
        while !left.is_empty() {
            if self.pasting {
                left = self.paste(left, &mut heard);
                if self.pasting {
                    break;
                }
                continue;
            }
            match next(left, rest) {
                Next::Heard(Heard::PasteBegins, used) => {
                    heard.push(Heard::PasteBegins);
                    self.pasting = true;
                    left = &left[used..];
                }
                Next::Heard(one, used) => {
                    heard.push(one);
                    left = &left[used..];
                }
                Next::Nothing(used) => left = &left[used..],
                Next::More => break,
            }
        }
        self.held = left.to_vec();
        heard
    }

    /// Gives what is left behind the paste, or the part of it that may be the beginning of its end.
    fn paste<'a>(&mut self, bytes: &'a [u8], heard: &mut Vec<Heard>) -> &'a [u8] {
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
            heard.push(Heard::Pasted(inside.to_vec()));
        }
        if !self.pasting {
            heard.push(Heard::PasteEnds);
        }
        left
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Rest {
    MayFollow,
    IsThere,
}

enum Next {
    Heard(Heard, usize),
    Nothing(usize),
    /// It is not complete.
    More,
}

fn key(code: Code, mods: Mods, used: usize) -> Next {
    Next::Heard(Heard::Key(Press::new(code, mods)), used)
}

fn next(bytes: &[u8], rest: Rest) -> Next {
    match bytes {
        [0x1b] if rest == Rest::IsThere => key(Code::Escape, Mods::NONE, 1),
        [0x1b] => Next::More,
        [0x1b, b'[', ..] => sequence(bytes, Mods::NONE, rest),
        [0x1b, b'O', ..] => single_shift(bytes, rest),
        [0x1b, 0x1b] if rest == Rest::MayFollow => Next::More,
        [0x1b, 0x1b, b'[', ..] => match sequence(&bytes[1..], Mods::ALT, rest) {
            Next::Heard(heard, used) => Next::Heard(heard, used + 1),
            Next::Nothing(used) => Next::Nothing(used + 1),
            Next::More => Next::More,
        },
        // Escape, and then something of its own.
        [0x1b, 0x1b, ..] => key(Code::Escape, Mods::NONE, 1),
        [0x1b, ..] => match character(&bytes[1..], rest) {
            Next::Heard(Heard::Key(press), used) => {
                key(press.code, press.mods.and(Mods::ALT), used + 1)
            }
            Next::Heard(heard, used) => Next::Heard(heard, used + 1),
            Next::Nothing(used) => Next::Nothing(used + 1),
            Next::More => Next::More,
        },
        _ => character(bytes, rest),
    }
}

/// One character or one control code.
fn character(bytes: &[u8], rest: Rest) -> Next {
    let Some(&first) = bytes.first() else {
        return Next::More;
    };
    let ctrl = |c: char| key(Code::Char(c), Mods::CTRL, 1);
    match first {
        b'\t' => key(Code::Tab, Mods::NONE, 1),
        b'\r' => key(Code::Enter, Mods::NONE, 1),
        0x7f => key(Code::Backspace, Mods::NONE, 1),
        0 => ctrl(' '),
        0x01..=0x1a => ctrl(char::from(first - 1 + b'a')),
        0x1b => key(Code::Escape, Mods::NONE, 1),
        0x1c..=0x1f => ctrl(char::from(first + 0x40)),
        0x20..=0x7e => key(Code::Char(char::from(first)), Mods::NONE, 1),
        0x80.. => {
            let length = match first {
                0xc2..=0xdf => 2,
                0xe0..=0xef => 3,
                0xf0..=0xf4 => 4,
                _ => return Next::Heard(Heard::Unknown(vec![first]), 1),
            };
            let Some(whole) = bytes.get(..length) else {
                return match rest {
                    Rest::MayFollow => Next::More,
                    Rest::IsThere => Next::Heard(Heard::Unknown(vec![first]), 1),
                };
            };
            match std::str::from_utf8(whole)
                .ok()
                .and_then(|text| text.chars().next())
            {
                // A control code of eight bits, which no key gives and no protocol can tell.
                Some(c) if c.is_control() => Next::Heard(Heard::Unknown(whole.to_vec()), length),
                Some(c) => key(Code::Char(c), Mods::NONE, length),
                None => Next::Heard(Heard::Unknown(vec![first]), 1),
            }
        }
    }
}

fn single_shift(bytes: &[u8], rest: Rest) -> Next {
    let Some(&last) = bytes.get(2) else {
        return match rest {
            Rest::MayFollow => Next::More,
            Rest::IsThere => key(Code::Char('O'), Mods::ALT, 2),
        };
    };
    if let Some(code) = by_letter(last) {
        return key(code, Mods::NONE, 3);
    }
    // The keypad in application mode, which some terminals leave on.
    let keypad = b"pqrstuvwxynojmkMXl".iter().position(|word| *word == last);
    match keypad {
        Some(index) => key(Code::Other(57_399 + index as u32), Mods::NONE, 3),
        None => key(Code::Char('O'), Mods::ALT, 2),
    }
}

fn by_letter(letter: u8) -> Option<Code> {
    Some(match letter {
        b'A' => Code::Up,
        b'B' => Code::Down,
        b'C' => Code::Right,
        b'D' => Code::Left,
        b'E' => Code::Begin,
        b'F' => Code::End,
        b'H' => Code::Home,
        b'P' => Code::F(1),
        b'Q' => Code::F(2),
        b'R' => Code::F(3),
        b'S' => Code::F(4),
        _ => return None,
    })
}

fn by_number(number: u32) -> Option<Code> {
    Some(match number {
        1 | 7 => Code::Home,
        2 => Code::Insert,
        3 => Code::Delete,
        4 | 8 => Code::End,
        5 => Code::PageUp,
        6 => Code::PageDown,
        11..=15 => Code::F(number as u8 - 10),
        17..=21 => Code::F(number as u8 - 11),
        23..=26 => Code::F(number as u8 - 12),
        28 | 29 => Code::F(number as u8 - 13),
        31..=34 => Code::F(number as u8 - 14),
        _ => return None,
    })
}

/// `CSI`, parameters, a last letter.
fn sequence(bytes: &[u8], extra: Mods, rest: Rest) -> Next {
    let body = &bytes[2..];
    // No further than this, however much of it has come: what is heard must not depend on how it was cut.
    let body = &body[..body.len().min(LONGEST)];
    let Some(end) = body.iter().position(|byte| !(0x20..0x40).contains(byte)) else {
        return match rest {
            _ if body.len() == LONGEST => Next::Nothing(body.len() + 2),
            Rest::MayFollow => Next::More,
            Rest::IsThere if body.is_empty() => key(Code::Char('['), Mods::ALT, 2),
            // The terminal stopped in the middle of one, or it is none.
            Rest::IsThere => Next::Nothing(bytes.len()),
        };
    };
    let used = end + 3;
    let (params, last) = (&body[..end], body[end]);
    if !(0x40..=0x7e).contains(&last) {
        // Another sequence begins, or a character: what came before was none.
        return Next::Nothing(used - 1);
    }
    let whole = || Next::Heard(Heard::Unknown(bytes[..used].to_vec()), used);
    match (params.first(), last) {
        (Some(b'<'), b'M' | b'm') => match mouse(&params[1..], last == b'm') {
            Some(mouse) => Next::Heard(Heard::Mouse(mouse), used),
            None => Next::Nothing(used),
        },
        (Some(b'?'), b'u') => Next::Heard(Heard::SpeaksKitty, used),
        (Some(b'?'), b'c') => Next::Heard(Heard::Told, used),
        // Answers to questions that we did not ask.
        (Some(b'?' | b'>' | b'=' | b'<'), _) => Next::Nothing(used),
        (None, b'M') => match bytes.get(used..used + 3) {
            Some(&[code, col, row]) => {
                let number = |byte: u8| u16::from(byte.saturating_sub(32));
                let code = number(code);
                let mouse = Mouse {
                    code,
                    released: code & 0b11 == 3 && code < 32,
                    row: number(row).saturating_sub(1),
                    col: number(col).saturating_sub(1),
                };
                Next::Heard(Heard::Mouse(mouse), used + 3)
            }
            _ if rest == Rest::MayFollow => Next::More,
            _ => Next::Nothing(bytes.len()),
        },
        (None, b'I') => Next::Heard(Heard::Focus(true), used),
        (None, b'O') => Next::Heard(Heard::Focus(false), used),
        (None, b'Z') => key(Code::Tab, Mods::SHIFT.and(extra), used),
        _ => match of_params(params, last, extra) {
            Some(Heard::PasteEnds) => Next::Nothing(used),
            Some(heard) => Next::Heard(heard, used),
            None if is_report(params, last) => Next::Nothing(used),
            None => whole(),
        },
    }
}

/// Has the look of an answer: a place, a size, a status.
fn is_report(params: &[u8], last: u8) -> bool {
    matches!(last, b'n' | b't' | b'y' | b'c') || (last == b'R' && params.contains(&b';'))
}

fn mouse(params: &[u8], released: bool) -> Option<Mouse> {
    let mut numbers = std::str::from_utf8(params).ok()?.split(';');
    let mut number = || numbers.next()?.parse::<u16>().ok();
    let (code, col, row) = (number()?, number()?, number()?);
    Some(Mouse {
        code,
        released,
        row: row.saturating_sub(1),
        col: col.saturating_sub(1),
    })
}

/// A key with its modifiers: `CSI 1;5A`, `CSI 3;2~`, `CSI 27;5;9~`, `CSI 97:65;6:1;65u`.
fn of_params(params: &[u8], last: u8, extra: Mods) -> Option<Heard> {
    let text = std::str::from_utf8(params).ok()?;
    let groups: Vec<Vec<Option<u32>>> = text
        .split(';')
        .map(|group| group.split(':').map(|number| number.parse().ok()).collect())
        .collect();
    let at = |group: usize, index: usize| groups.get(group)?.get(index).copied().flatten();
    let mods = |group: usize| {
        let number = at(group, 0).unwrap_or(1).saturating_sub(1);
        Mods(u8::try_from(number).unwrap_or(0)).and(extra)
    };
    let event = |group: usize| match at(group, 1) {
        Some(2) => Event::Repeat,
        Some(3) => Event::Release,
        _ => Event::Press,
    };
    let press = |code: Code| Press {
        event: event(1),
        ..Press::new(code, mods(1))
    };
    match last {
        b'~' => match at(0, 0)? {
            200 => Some(Heard::PasteBegins),
            201 => Some(Heard::PasteEnds),
            27 => {
                let code = by_code(at(2, 0)?)?;
                Some(Heard::Key(Press::new(code, mods(1))))
            }
            number => Some(Heard::Key(press(by_number(number)?))),
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
            Some(Heard::Key(Press {
                shifted: character(at(0, 1)),
                base: character(at(0, 2)),
                text: Some(typed).filter(|text| !text.is_empty()),
                ..press(by_code(at(0, 0)?)?)
            }))
        }
        _ if is_report(params, last) && at(0, 0) != Some(1) => None,
        letter => Some(Heard::Key(press(by_letter(letter)?))),
    }
}

/// A key by its number in kitty's protocol.
fn by_code(number: u32) -> Option<Code> {
    Some(match number {
        9 => Code::Tab,
        13 => Code::Enter,
        27 => Code::Escape,
        8 | 127 => Code::Backspace,
        57_376..=57_398 => Code::F((number - 57_376 + 13) as u8),
        // Private numbers are keys without a character.
        57_344..=63_743 => Code::Other(number),
        _ => Code::Char(char::from_u32(number).filter(|c| !c.is_control())?),
    })
}

#[cfg(test)]
mod tests;
