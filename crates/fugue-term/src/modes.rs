//! Terminal modes that a program can set and query.

/// Which mouse events are reported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MouseMode {
    /// None.
    #[default]
    Off,
    /// Presses only (mode 9).
    Press,
    /// Presses and releases (1000).
    Click,
    /// Also movements with a pressed button (1002).
    Drag,
    /// All movements (1003).
    Motion,
}

/// How mouse events are encoded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MouseFormat {
    /// One byte per number.
    #[default]
    Bytes,
    /// UTF-8 characters (1005).
    Utf8,
    /// Decimal numbers (1006).
    Sgr,
}

/// The cursor shape: the parameter of `CSI n SP q` (DECSCUSR), 0 to 6.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CursorShape(pub u8);

/// The modes of the terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Modes {
    /// The alternate screen is shown.
    pub alternate: bool,
    /// Pasted text is bracketed (2004).
    pub bracketed_paste: bool,
    /// Arrow keys send `ESC O` (1).
    pub app_cursor: bool,
    /// The keypad sends application codes.
    pub app_keypad: bool,
    /// Which mouse events are reported.
    pub mouse: MouseMode,
    /// How mouse events are encoded.
    pub mouse_format: MouseFormat,
    /// Focus changes are reported (1004).
    pub focus: bool,
    /// Active kitty keyboard flags.
    pub keyboard: u8,
    /// Synchronized output: the program is redrawing (2026).
    pub synchronized: bool,
    /// The cursor is shown (25).
    pub cursor_visible: bool,
    /// The cursor shape.
    pub cursor_shape: CursorShape,
    /// Text wraps at the edge to the next row (7).
    pub autowrap: bool,
    /// Rows are counted from the top of the scrolling region (6).
    pub origin: bool,
    /// Printed text is inserted instead of overwriting (4).
    pub insert: bool,
    /// A line feed implies a carriage return (20).
    pub newline: bool,
    /// The whole screen is shown in reverse video (5).
    pub reverse: bool,
}

impl Default for Modes {
    fn default() -> Self {
        Modes {
            alternate: false,
            bracketed_paste: false,
            app_cursor: false,
            app_keypad: false,
            mouse: MouseMode::Off,
            mouse_format: MouseFormat::Bytes,
            focus: false,
            keyboard: 0,
            synchronized: false,
            cursor_visible: true,
            cursor_shape: CursorShape(0),
            autowrap: true,
            origin: false,
            insert: false,
            newline: false,
            reverse: false,
        }
    }
}

impl Modes {
    /// Sets a private mode that has no other effect. Returns `false` for unknown modes.
    pub(crate) fn set_private(&mut self, mode: u16, on: bool) -> bool {
        match mode {
            1 => self.app_cursor = on,
            5 => self.reverse = on,
            7 => self.autowrap = on,
            25 => self.cursor_visible = on,
            66 => self.app_keypad = on,
            1004 => self.focus = on,
            2004 => self.bracketed_paste = on,
            2026 => self.synchronized = on,
            9 => self.mouse = if on { MouseMode::Press } else { MouseMode::Off },
            1000 => self.mouse = if on { MouseMode::Click } else { MouseMode::Off },
            1002 => self.mouse = if on { MouseMode::Drag } else { MouseMode::Off },
            1003 => {
                self.mouse = if on {
                    MouseMode::Motion
                } else {
                    MouseMode::Off
                }
            }
            1005 => {
                self.mouse_format = if on {
                    MouseFormat::Utf8
                } else {
                    MouseFormat::Bytes
                }
            }
            1006 => {
                self.mouse_format = if on {
                    MouseFormat::Sgr
                } else {
                    MouseFormat::Bytes
                }
            }
            _ => return false,
        }
        true
    }

    /// Whether a private mode is on; `None` for unknown modes.
    pub(crate) fn private_mode(&self, mode: u16) -> Option<bool> {
        Some(match mode {
            1 => self.app_cursor,
            5 => self.reverse,
            6 => self.origin,
            7 => self.autowrap,
            9 => self.mouse == MouseMode::Press,
            25 => self.cursor_visible,
            47 | 1047 | 1049 => self.alternate,
            66 => self.app_keypad,
            1000 => self.mouse == MouseMode::Click,
            1002 => self.mouse == MouseMode::Drag,
            1003 => self.mouse == MouseMode::Motion,
            1004 => self.focus,
            1005 => self.mouse_format == MouseFormat::Utf8,
            1006 => self.mouse_format == MouseFormat::Sgr,
            2004 => self.bracketed_paste,
            2026 => self.synchronized,
            _ => return None,
        })
    }

    /// Whether an ANSI mode is on; `None` for unknown modes.
    pub(crate) fn ansi_mode(&self, mode: u16) -> Option<bool> {
        match mode {
            4 => Some(self.insert),
            20 => Some(self.newline),
            _ => None,
        }
    }
}

/// Kitty keyboard flags of one screen: the active flags, and the stack of saved flags.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct KeyboardFlags {
    pub(crate) flags: u8,
    pub(crate) stack: Vec<u8>,
}

/// Deeper than any program nests; a push beyond the limit drops the oldest entry.
const MAX_FLAG_STACK: usize = 16;

impl KeyboardFlags {
    pub(crate) fn push(&mut self, flags: u16) {
        if self.stack.len() == MAX_FLAG_STACK {
            self.stack.remove(0);
        }
        self.stack.push(self.flags);
        self.flags = supported_flags(flags);
    }

    pub(crate) fn pop(&mut self, n: usize) {
        for _ in 0..n.min(MAX_FLAG_STACK + 1) {
            self.flags = self.stack.pop().unwrap_or(0);
        }
    }

    pub(crate) fn set(&mut self, flags: u16, how: u16) {
        let flags = supported_flags(flags);
        match how {
            0 | 1 => self.flags = flags,
            2 => self.flags |= flags,
            3 => self.flags &= !flags,
            _ => (),
        }
    }
}

fn supported_flags(flags: u16) -> u8 {
    (flags & 0x1f) as u8
}
