//! The switches a program can set, and what it is told about them.

/// How mouse events are reported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MouseReporting {
    /// Not at all.
    #[default]
    Off,
    /// Presses only (mode 9).
    Press,
    /// Presses and releases (1000).
    Click,
    /// Also moves with a button held (1002).
    Drag,
    /// All moves (1003).
    Motion,
}

/// How mouse events are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MouseEncoding {
    /// One byte a number.
    #[default]
    Bytes,
    /// UTF-8 characters (1005).
    Utf8,
    /// Decimal numbers (1006).
    Sgr,
}

/// What the cursor looks like: the number of `CSI n SP q`, 0 to 6.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CursorShape(pub u8);

/// The switches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Modes {
    /// The alternate screen is shown.
    pub alternate: bool,
    /// Pastes are to be bracketed (2004).
    pub bracketed_paste: bool,
    /// Arrow keys send `ESC O` (1).
    pub app_cursor: bool,
    /// The keypad sends its own codes.
    pub app_keypad: bool,
    /// Mouse events wanted.
    pub mouse: MouseReporting,
    /// And how.
    pub mouse_format: MouseEncoding,
    /// Focus changes are reported (1004).
    pub focus: bool,
    /// Kitty keyboard flags in force.
    pub keyboard: u8,
    /// The program is in the middle of a redraw (2026).
    pub synchronized: bool,
    /// The cursor is shown (25).
    pub cursor_visible: bool,
    /// Its shape.
    pub cursor_shape: CursorShape,
    /// Text runs over the edge to the next row (7).
    pub autowrap: bool,
    /// Rows are counted from the scrolling region (6).
    pub origin: bool,
    /// Text is inserted, not written over (4).
    pub insert: bool,
    /// A line feed also returns (20).
    pub newline: bool,
    /// The whole screen is shown in reverse (5).
    pub reverse: bool,
}

impl Default for Modes {
    fn default() -> Self {
        Modes {
            alternate: false,
            bracketed_paste: false,
            app_cursor: false,
            app_keypad: false,
            mouse: MouseReporting::Off,
            mouse_format: MouseEncoding::Bytes,
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
    /// Sets a private mode that is only a switch; `false` if there is none of that number.
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
            9 => {
                self.mouse = if on {
                    MouseReporting::Press
                } else {
                    MouseReporting::Off
                }
            }
            1000 => {
                self.mouse = if on {
                    MouseReporting::Click
                } else {
                    MouseReporting::Off
                }
            }
            1002 => {
                self.mouse = if on {
                    MouseReporting::Drag
                } else {
                    MouseReporting::Off
                }
            }
            1003 => {
                self.mouse = if on {
                    MouseReporting::Motion
                } else {
                    MouseReporting::Off
                }
            }
            1005 => {
                self.mouse_format = if on {
                    MouseEncoding::Utf8
                } else {
                    MouseEncoding::Bytes
                }
            }
            1006 => {
                self.mouse_format = if on {
                    MouseEncoding::Sgr
                } else {
                    MouseEncoding::Bytes
                }
            }
            _ => return false,
        }
        true
    }

    /// Whether a private mode is on; `None` if there is none of that number.
    pub(crate) fn private(&self, mode: u16) -> Option<bool> {
        Some(match mode {
            1 => self.app_cursor,
            5 => self.reverse,
            6 => self.origin,
            7 => self.autowrap,
            9 => self.mouse == MouseReporting::Press,
            25 => self.cursor_visible,
            47 | 1047 | 1049 => self.alternate,
            66 => self.app_keypad,
            1000 => self.mouse == MouseReporting::Click,
            1002 => self.mouse == MouseReporting::Drag,
            1003 => self.mouse == MouseReporting::Motion,
            1004 => self.focus,
            1005 => self.mouse_format == MouseEncoding::Utf8,
            1006 => self.mouse_format == MouseEncoding::Sgr,
            2004 => self.bracketed_paste,
            2026 => self.synchronized,
            _ => return None,
        })
    }

    /// Whether an ANSI mode is on; `None` if there is none of that number.
    pub(crate) fn ansi(&self, mode: u16) -> Option<bool> {
        match mode {
            4 => Some(self.insert),
            20 => Some(self.newline),
            _ => None,
        }
    }
}

/// Kitty keyboard flags of one screen: the ones in force and those to go back to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Keyboard {
    pub(crate) flags: u8,
    pub(crate) stack: Vec<u8>,
}

/// More than any program nests; beyond, the oldest is forgotten.
const MAX_STACK: usize = 16;

impl Keyboard {
    pub(crate) fn push(&mut self, flags: u16) {
        if self.stack.len() == MAX_STACK {
            self.stack.remove(0);
        }
        self.stack.push(self.flags);
        self.flags = only_known(flags);
    }

    pub(crate) fn pop(&mut self, n: usize) {
        for _ in 0..n.min(MAX_STACK + 1) {
            self.flags = self.stack.pop().unwrap_or(0);
        }
    }

    pub(crate) fn set(&mut self, flags: u16, how: u16) {
        let flags = only_known(flags);
        match how {
            0 | 1 => self.flags = flags,
            2 => self.flags |= flags,
            3 => self.flags &= !flags,
            _ => (),
        }
    }
}

fn only_known(flags: u16) -> u8 {
    (flags & 0x1f) as u8
}
