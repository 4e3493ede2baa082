//! Control sequences: moving, erasing, switching, asking.
//!
//! Answers are made of numbers and fixed words only. A program's own text never comes back to it as if a person had
//! typed it: no title reports, no settings reports.

use crate::cell::{Cell, Style};
use crate::grid::{Because, Grid};
use crate::machine::Machine;
use crate::modes::CursorShape;
use crate::parser::Csi;
use crate::sgr;

/// What we say we are. The version stays, so that no program's behaviour depends on ours.
const VERSION: &[u8] = b"\x1bP>|fugue\x1b\\";
/// A VT220 with colours.
const PRIMARY: &[u8] = b"\x1b[?62;22c";
const SECONDARY: &[u8] = b"\x1b[>1;0;0c";

impl Machine {
    pub(crate) fn obey_csi(&mut self, csi: &Csi) {
        let n = csi.count(0);
        match (csi.private, csi.intermediate, csi.action) {
            (0, 0, b'A') => self.grid().up(n),
            (0, 0, b'B' | b'e') => self.grid().down(n),
            (0, 0, b'C' | b'a') => {
                let grid = self.grid();
                grid.go(grid.column() + n, grid.cursor.y);
            }
            (0, 0, b'D') => {
                let grid = self.grid();
                grid.go(grid.column().saturating_sub(n), grid.cursor.y);
            }
            (0, 0, b'E') => {
                self.grid().down(n);
                self.grid().cursor.x = 0;
            }
            (0, 0, b'F') => {
                self.grid().up(n);
                self.grid().cursor.x = 0;
            }
            (0, 0, b'G' | b'`') => {
                let grid = self.grid();
                grid.go(n - 1, grid.cursor.y);
            }
            (0, 0, b'H' | b'f') => self.go(csi.count(1) - 1, n - 1),
            (0, 0, b'd') => self.go(self.shown().column(), n - 1),
            (0, 0, b'I') => {
                for _ in 0..n.min(self.shown().cols) {
                    let x = self.tabs.after(self.shown().column());
                    let grid = self.grid();
                    grid.go(x, grid.cursor.y);
                }
            }
            (0, 0, b'Z') => {
                for _ in 0..n.min(self.shown().cols) {
                    let x = self.tabs.before(self.shown().column());
                    let grid = self.grid();
                    grid.go(x, grid.cursor.y);
                }
            }
            (0, 0, b'J') => self.erase_display(csi.param(0)),
            (0, 0, b'K') => self.erase_line(csi.param(0)),
            (0, 0, b'X') => self.edit(|grid, x, pen, now| grid.erase_in_row(x, x + n, pen, now)),
            (0, 0, b'@') => self.edit(|grid, x, pen, now| {
                let cols = grid.cols;
                grid.row().insert(x, n, Cell::blank(pen), cols, now);
            }),
            (0, 0, b'P') => self.edit(|grid, x, pen, now| {
                let cols = grid.cols;
                grid.row().delete(x, n, Cell::blank(pen), cols, now);
            }),
            (0, 0, b'L') => {
                self.changed = self.now;
                let (grid, world) = self.parts();
                grid.insert_rows(n, world);
            }
            (0, 0, b'M') => {
                self.changed = self.now;
                let (grid, world) = self.parts();
                grid.delete_rows(n, world);
            }
            (0, 0, b'S') => {
                self.changed = self.now;
                let (grid, world) = self.parts();
                grid.scroll_up(grid.top, n, world, Because::Asked);
                grid.settle();
            }
            // With more parameters it asks for mouse tracking of a kind that is gone.
            (0, 0, b'T') if csi.params().count() <= 1 => {
                self.changed = self.now;
                let (grid, world) = self.parts();
                grid.scroll_down(grid.top, n, world);
                grid.settle();
            }
            (0, 0, b'b') => self.repeat(n),
            (0, 0, b'c') if csi.param(0) == 0 => self.device_attributes(),
            (b'>', 0, b'c') if csi.param(0) == 0 => self.reply(SECONDARY.to_vec()),
            (b'>', 0, b'q') if csi.param(0) == 0 => self.reply(VERSION.to_vec()),
            (0, 0, b'g') => match csi.param(0) {
                0 => {
                    let x = self.shown().column();
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
            (0 | b'?', 0, b'n') => self.report(csi),
            (0, b'!', b'p') => self.soft_reset(),
            (0, b'$', b'p') => self.report_mode(csi.param(0), self.modes.ansi(csi.param(0)), ""),
            (b'?', b'$', b'p') => {
                self.report_mode(csi.param(0), self.modes.private(csi.param(0)), "?")
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
        self.reply(PRIMARY.to_vec());
    }

    /// To a place counted from the screen's corner, or the region's in origin mode.
    fn go(&mut self, x: usize, y: usize) {
        let origin = self.modes.origin;
        let grid = self.grid();
        let y = if origin {
            (grid.top + y).min(grid.bottom)
        } else {
            y
        };
        grid.go(x, y);
    }

    /// A change within the row at the cursor's column; behind the last column that is the last.
    fn edit(&mut self, change: impl FnOnce(&mut Grid, usize, Style, u64)) {
        let (pen, now) = (self.pen, self.now);
        self.changed = now;
        let grid = self.grid();
        change(grid, grid.column(), pen, now);
    }

    fn erase_line(&mut self, which: u16) {
        self.edit(|grid, x, pen, now| match which {
            // Behind the last column there is nothing to erase, and the next character still wraps.
            0 => grid.erase_in_row(grid.cursor.x, grid.cols, pen, now),
            1 => grid.erase_in_row(0, x + 1, pen, now),
            2 => grid.erase_in_row(0, grid.cols, pen, now),
            _ => (),
        });
    }

    /// Erasing all of the screen keeps what was on it as text; the kept text itself (3) is never erased.
    fn erase_display(&mut self, which: u16) {
        let at_home = self.shown().cursor.x == 0 && self.shown().cursor.y == 0;
        if which == 2 || which == 0 && at_home {
            self.changed = self.now;
            let (grid, world) = self.parts();
            grid.clear(world);
            return;
        }
        self.edit(|grid, x, pen, now| {
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

    fn set_ansi(&mut self, csi: &Csi, on: bool) {
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
            // Only what it does beside changing the width, which programs use it for.
            (3, _) => {
                self.changed = self.now;
                let (grid, world) = self.parts();
                grid.clear(world);
                (grid.top, grid.bottom) = (0, grid.height() - 1);
                self.go(0, 0);
            }
            (6, _) => {
                self.modes.origin = on;
                self.go(0, 0);
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

    fn set_region(&mut self, csi: &Csi) {
        let grid = self.grid();
        let height = grid.height();
        let top = csi.count(0) - 1;
        let bottom = match csi.param(1) {
            0 => height - 1,
            bottom => usize::from(bottom).min(height) - 1,
        };
        if top < bottom {
            (grid.top, grid.bottom) = (top, bottom);
            self.go(0, 0);
        }
    }

    fn report(&mut self, csi: &Csi) {
        match (csi.private, csi.param(0)) {
            (0, 5) => self.reply(b"\x1b[0n".to_vec()),
            (private, 6) => {
                let mark = if private == 0 { "" } else { "?" };
                let origin = self.modes.origin;
                let grid = self.shown();
                let top = if origin { grid.top } else { 0 };
                let (row, col) = (grid.cursor.y - top + 1, grid.column() + 1);
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
