//! Control sequences (CSI): cursor movement, erasing, modes and queries.
//!
//! Replies consist of numbers and fixed strings only. Text that the program has chosen is never sent back as if
//! typed: no title reports, no settings reports.

use crate::cell::{Cell, Style};
use crate::grid::{Grid, ScrollCause};
use crate::modes::CursorShape;
use crate::parser::CsiSequence;
use crate::sgr;
use crate::terminal_state::TerminalState;

/// The terminal's name for XTVERSION. The reply has no version number, so that no program's behaviour depends on the
/// version of fugue.
const XTVERSION_REPLY: &[u8] = b"\x1bP>|fugue\x1b\\";
/// DA1: a VT220 with colours.
const PRIMARY_ATTRIBUTES_REPLY: &[u8] = b"\x1b[?62;22c";
const SECONDARY_ATTRIBUTES_REPLY: &[u8] = b"\x1b[>1;0;0c";

impl TerminalState {
    pub(crate) fn execute_csi(&mut self, csi: &CsiSequence) {
        let n = csi.count(0);
        match (csi.private, csi.intermediate, csi.action) {
            (0, 0, b'A') => self.active_grid_mut().move_up(n),
            (0, 0, b'B' | b'e') => self.active_grid_mut().move_down(n),
            (0, 0, b'C' | b'a') => {
                let grid = self.active_grid_mut();
                grid.move_to(grid.cursor_column() + n, grid.cursor.y);
            }
            (0, 0, b'D') => {
                let grid = self.active_grid_mut();
                grid.move_to(grid.cursor_column().saturating_sub(n), grid.cursor.y);
            }
            (0, 0, b'E') => {
                self.active_grid_mut().move_down(n);
                self.active_grid_mut().cursor.x = 0;
            }
            (0, 0, b'F') => {
                self.active_grid_mut().move_up(n);
                self.active_grid_mut().cursor.x = 0;
            }
            (0, 0, b'G' | b'`') => {
                let grid = self.active_grid_mut();
                grid.move_to(n - 1, grid.cursor.y);
            }
            (0, 0, b'H' | b'f') => self.move_to(csi.count(1) - 1, n - 1),
            (0, 0, b'd') => self.move_to(self.active_grid().cursor_column(), n - 1),
            (0, 0, b'I') => {
                for _ in 0..n.min(self.active_grid().cols) {
                    let x = self.tabs.next_stop(self.active_grid().cursor_column());
                    let grid = self.active_grid_mut();
                    grid.move_to(x, grid.cursor.y);
                }
            }
            (0, 0, b'Z') => {
                for _ in 0..n.min(self.active_grid().cols) {
                    let x = self.tabs.previous_stop(self.active_grid().cursor_column());
                    let grid = self.active_grid_mut();
                    grid.move_to(x, grid.cursor.y);
                }
            }
            (0, 0, b'J') => self.erase_display(csi.param(0)),
            (0, 0, b'K') => self.erase_line(csi.param(0)),
            (0, 0, b'X') => {
                self.edit_row(|grid, x, pen, now| grid.erase_in_row(x, x + n, pen, now))
            }
            (0, 0, b'@') => self.edit_row(|grid, x, pen, now| {
                let cols = grid.cols;
                grid.cursor_row().insert(x, n, Cell::blank(pen), cols, now);
            }),
            (0, 0, b'P') => self.edit_row(|grid, x, pen, now| {
                let cols = grid.cols;
                grid.cursor_row().delete(x, n, Cell::blank(pen), cols, now);
            }),
            (0, 0, b'L') => {
                self.last_change = self.now;
                let (grid, context) = self.grid_and_context();
                grid.insert_rows(n, context);
            }
            (0, 0, b'M') => {
                self.last_change = self.now;
                let (grid, context) = self.grid_and_context();
                grid.delete_rows(n, context);
            }
            (0, 0, b'S') => {
                self.last_change = self.now;
                let (grid, context) = self.grid_and_context();
                grid.scroll_up(grid.top, n, context, ScrollCause::Other);
                grid.clamp_cursor();
            }
            // With more parameters the sequence is an obsolete kind of mouse tracking.
            (0, 0, b'T') if csi.params().count() <= 1 => {
                self.last_change = self.now;
                let (grid, context) = self.grid_and_context();
                grid.scroll_down(grid.top, n, context);
                grid.clamp_cursor();
            }
            (0, 0, b'b') => self.repeat_last_char(n),
            (0, 0, b'c') if csi.param(0) == 0 => self.device_attributes(),
            (b'>', 0, b'c') if csi.param(0) == 0 => self.reply(SECONDARY_ATTRIBUTES_REPLY.to_vec()),
            (b'>', 0, b'q') if csi.param(0) == 0 => self.reply(XTVERSION_REPLY.to_vec()),
            (0, 0, b'g') => match csi.param(0) {
                0 => {
                    let x = self.active_grid().cursor_column();
                    self.tabs.clear(x);
                }
                3 => self.tabs.clear_all(self.main.cols),
                _ => (),
            },
            (0, 0, b'h') => self.set_ansi(csi, true),
            (0, 0, b'l') => self.set_ansi(csi, false),
            (b'?', 0, b'h') => csi
                .params()
                .for_each(|mode| self.set_private(mode[0], true)),
            (b'?', 0, b'l') => csi
                .params()
                .for_each(|mode| self.set_private(mode[0], false)),
            (0, 0, b'm') => sgr::apply(&mut self.pen, csi),
            (0 | b'?', 0, b'n') => self.report_status(csi),
            (0, b'!', b'p') => self.soft_reset(),
            (0, b'$', b'p') => {
                self.report_mode(csi.param(0), self.modes.ansi_mode(csi.param(0)), "")
            }
            (b'?', b'$', b'p') => {
                self.report_mode(csi.param(0), self.modes.private_mode(csi.param(0)), "?")
            }
            (0, b' ', b'q') => {
                let shape = csi.param(0);
                if shape <= 6 {
                    self.modes.cursor_shape = CursorShape(shape as u8);
                }
            }
            (0, 0, b'r') => self.set_region(csi),
            (0, 0, b's') => self.save_cursor(),
            (0, 0, b'u') => self.restore_cursor(),
            (b'>', 0, b'u') => self.keyboard().push(csi.param(0)),
            (b'<', 0, b'u') => self.keyboard().pop(n),
            (b'=', 0, b'u') => self.keyboard().set(csi.param(0), csi.param(1)),
            (b'?', 0, b'u') => {
                let flags = self.keyboard().flags;
                self.reply(format!("\x1b[?{flags}u").into_bytes());
            }
            _ => (),
        }
    }

    pub(crate) fn device_attributes(&mut self) {
        self.reply(PRIMARY_ATTRIBUTES_REPLY.to_vec());
    }

    /// Moves the cursor relative to the screen's corner, or to the region's corner in origin mode.
    fn move_to(&mut self, x: usize, y: usize) {
        let origin = self.modes.origin;
        let grid = self.active_grid_mut();
        let y = if origin {
            (grid.top + y).min(grid.bottom)
        } else {
            y
        };
        grid.move_to(x, y);
    }

    /// Changes the cursor's row at the cursor's column, limited to the last column.
    fn edit_row(&mut self, change: impl FnOnce(&mut Grid, usize, Style, u64)) {
        let (pen, now) = (self.pen, self.now);
        self.last_change = now;
        let grid = self.active_grid_mut();
        change(grid, grid.cursor_column(), pen, now);
    }

    fn erase_line(&mut self, which: u16) {
        self.edit_row(|grid, x, pen, now| match which {
            // Past the last column nothing is erased, and the next character still wraps.
            0 => grid.erase_in_row(grid.cursor.x, grid.cols, pen, now),
            1 => grid.erase_in_row(0, x + 1, pen, now),
            2 => grid.erase_in_row(0, grid.cols, pen, now),
            _ => (),
        });
    }

    /// Executes `CSI J`. Erasing the whole screen moves its text to the history; the history itself (parameter 3) is
    /// never erased.
    fn erase_display(&mut self, which: u16) {
        let at_home = self.active_grid().cursor.x == 0 && self.active_grid().cursor.y == 0;
        if which == 2 || which == 0 && at_home {
            self.last_change = self.now;
            let (grid, context) = self.grid_and_context();
            grid.clear(context);
            return;
        }
        self.edit_row(|grid, x, pen, now| {
            let (y, height) = (grid.cursor.y, grid.height());
            match which {
                0 => {
                    grid.erase_in_row(grid.cursor.x, grid.cols, pen, now);
                    grid.erase_rows(y + 1, height, pen, now);
                }
                1 => {
                    grid.erase_rows(0, y, pen, now);
                    grid.erase_in_row(0, x + 1, pen, now);
                }
                _ => (),
            }
        });
    }

    fn set_ansi(&mut self, csi: &CsiSequence, on: bool) {
        for mode in csi.params() {
            match mode[0] {
                4 => self.modes.insert = on,
                20 => self.modes.newline = on,
                _ => (),
            }
        }
    }

    fn set_private(&mut self, mode: u16, on: bool) {
        if self.modes.set_private(mode, on) {
            return;
        }
        match (mode, on) {
            // DECCOLM: programs use the mode for its side effects (clear, full region, home). The width does not
            // change.
            (3, _) => {
                self.last_change = self.now;
                let (grid, context) = self.grid_and_context();
                grid.clear(context);
                (grid.top, grid.bottom) = (0, grid.height() - 1);
                self.move_to(0, 0);
            }
            (6, _) => {
                self.modes.origin = on;
                self.move_to(0, 0);
            }
            (47 | 1047, true) => self.enter_alternate(),
            (47 | 1047, false) => self.leave_alternate(),
            (1048, true) => self.save_cursor(),
            (1048, false) => self.restore_cursor(),
            (1049, true) => {
                if self.alt.is_none() {
                    self.save_cursor();
                }
                self.enter_alternate();
            }
            (1049, false) => {
                self.leave_alternate();
                self.restore_cursor();
            }
            _ => (),
        }
    }

    fn set_region(&mut self, csi: &CsiSequence) {
        let grid = self.active_grid_mut();
        let height = grid.height();
        let top = csi.count(0) - 1;
        let bottom = match csi.param(1) {
            0 => height - 1,
            bottom => usize::from(bottom).min(height) - 1,
        };
        if top < bottom {
            (grid.top, grid.bottom) = (top, bottom);
            self.move_to(0, 0);
        }
    }

    fn report_status(&mut self, csi: &CsiSequence) {
        match (csi.private, csi.param(0)) {
            (0, 5) => self.reply(b"\x1b[0n".to_vec()),
            (private, 6) => {
                let mark = if private == 0 { "" } else { "?" };
                let origin = self.modes.origin;
                let grid = self.active_grid();
                let top = if origin { grid.top } else { 0 };
                let (row, col) = (grid.cursor.y - top + 1, grid.cursor_column() + 1);
                self.reply(format!("\x1b[{mark}{row};{col}R").into_bytes());
            }
            _ => (),
        }
    }

    fn report_mode(&mut self, mode: u16, on: Option<bool>, mark: &str) {
        let state = match on {
            None => 0,
            Some(true) => 1,
            Some(false) => 2,
        };
        self.reply(format!("\x1b[{mark}{mode};{state}$y").into_bytes());
    }
}
