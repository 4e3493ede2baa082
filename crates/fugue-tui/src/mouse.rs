//! Mouse events of the host terminal, and their encoding for a program.

use fugue_api::attach::{FrameModes, FrameMouseEncoding, FrameMouseMode};

/// A mouse event; row and column are counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MouseEvent {
    /// The button code of xterm: 0 to 2 a button, 3 none, 64 to 67 the wheel; plus 4 for shift, 8 for alt, 16 for control, 32
    /// for a move.
    pub code: u16,
    pub released: bool,
    pub row: u16,
    pub col: u16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MouseAction {
    Press(u16),
    Release(u16),
    Drag(u16),
    Move,
    WheelUp,
    WheelDown,
    Other,
}

impl MouseEvent {
    pub fn action(&self) -> MouseAction {
        let button = self.code & !0b1_1100;
        match button {
            64 => MouseAction::WheelUp,
            65 => MouseAction::WheelDown,
            0..=2 if self.released => MouseAction::Release(button),
            0..=2 => MouseAction::Press(button),
            32..=34 => MouseAction::Drag(button - 32),
            35 => MouseAction::Move,
            _ => MouseAction::Other,
        }
    }
}

/// The bytes for a program with these modes; `None` if it has not requested the event. Row and column are those of its own
/// screen, from 0.
pub fn encode(mouse: MouseEvent, modes: &FrameModes) -> Option<Vec<u8>> {
    let action = mouse.action();
    let is_reported = match modes.mouse {
        FrameMouseMode::Nothing => false,
        FrameMouseMode::Presses => matches!(action, MouseAction::Press(_)),
        FrameMouseMode::Clicks => !matches!(action, MouseAction::Drag(_) | MouseAction::Move),
        FrameMouseMode::Drags => action != MouseAction::Move,
        FrameMouseMode::Motion => true,
    };
    if !is_reported {
        return None;
    }
    let code = match modes.mouse {
        // X10 mode has no modifiers.
        FrameMouseMode::Presses => mouse.code & 0b11,
        _ => mouse.code,
    };
    let (col, row) = (mouse.col + 1, mouse.row + 1);
    if modes.mouse_format == FrameMouseEncoding::Sgr {
        let end = if mouse.released { 'm' } else { 'M' };
        return Some(format!("\x1b[<{code};{col};{row}{end}").into_bytes());
    }
    // The older encodings do not report which button was released.
    let code = if mouse.released { code | 0b11 } else { code };
    let mut out = b"\x1b[M".to_vec();
    for number in [code, col, row] {
        let number = number.checked_add(32)?;
        match modes.mouse_format {
            FrameMouseEncoding::Utf8 => {
                let c = char::from_u32(u32::from(number)).filter(|c| (*c as u32) < 0x800)?;
                out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
            }
            FrameMouseEncoding::Bytes | FrameMouseEncoding::Sgr => {
                out.push(u8::try_from(number).ok()?)
            }
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(
        wanted: FrameMouseMode,
        format: FrameMouseEncoding,
        mouse: MouseEvent,
        told: Option<&[u8]>,
    ) {
        let modes = FrameModes {
            mouse: wanted,
            mouse_format: format,
            ..FrameModes::default()
        };
        assert_eq!(
            encode(mouse, &modes).as_deref(),
            told,
            "{mouse:?} {modes:?}"
        );
    }

    #[test]
    fn mouse_events_are_filtered_and_encoded_by_mode() {
        use FrameMouseEncoding::*;
        use FrameMouseMode::*;
        let at = |code: u16, row: u16, col: u16| MouseEvent {
            code,
            released: false,
            row,
            col,
        };
        let up = MouseEvent {
            released: true,
            ..at(0, 4, 9)
        };
        check(Nothing, Sgr, at(0, 0, 0), None);
        check(Presses, Bytes, at(16, 0, 0), Some(b"\x1b[M !!"));
        check(Presses, Bytes, up, None);
        check(Clicks, Sgr, at(0, 4, 9), Some(b"\x1b[<0;10;5M"));
        check(Clicks, Sgr, up, Some(b"\x1b[<0;10;5m"));
        check(Clicks, Bytes, up, Some(b"\x1b[M#*%"));
        check(Clicks, Sgr, at(64, 0, 0), Some(b"\x1b[<64;1;1M"));
        check(Clicks, Sgr, at(32, 0, 0), None);
        check(Drags, Sgr, at(32, 0, 0), Some(b"\x1b[<32;1;1M"));
        check(Drags, Sgr, at(35, 0, 0), None);
        check(Motion, Sgr, at(35, 0, 0), Some(b"\x1b[<35;1;1M"));
        check(Clicks, Bytes, at(0, 0, 230), None);
        check(Clicks, Utf8, at(0, 0, 230), Some("\x1b[M ć!".as_bytes()));
    }
}
