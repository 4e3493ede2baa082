//! The dump: the screen as bytes that paint it again.
//!
//! A new terminal of the same size that is fed a dump becomes equal to the dumped terminal: both screens with every
//! cell and every wrapped row, the cursors and saved cursors, pen, tab stops, region, character sets, modes and
//! title. The history is not part of the dump. Equal states give equal bytes.

use std::fmt::Write;

use crate::Terminal;
use crate::cell::{Cell, CellAttribute, Color, Glyph, Style, Underline};
use crate::charsets::Charsets;
use crate::clusters::ClusterTable;
use crate::grid::{Grid, SavedCursor};
use crate::modes::{KeyboardFlags, Modes, MouseFormat, MouseMode};
use crate::tab_stops::TabStops;
use crate::terminal_state::TerminalState;

impl Terminal {
    /// Bytes that make a new terminal of this size equal to this terminal, except for the history.
    pub fn dump(&self) -> Vec<u8> {
        let mut writer = DumpWriter {
            out: String::new(),
            pen: Style::default(),
            charsets: Charsets::default(),
            clusters: &self.state.clusters,
        };
        writer.write_terminal(&self.state);
        writer.out.into_bytes()
    }
}

struct DumpWriter<'a> {
    out: String,
    pen: Style,
    charsets: Charsets,
    clusters: &'a ClusterTable,
}

/// Writes formatted text; writing to a string cannot fail.
macro_rules! put {
    ($writer:expr, $($format:tt)*) => {{ let _ = write!($writer.out, $($format)*); }};
}

impl DumpWriter<'_> {
    fn write_terminal(&mut self, state: &TerminalState) {
        if !state.title.is_empty() {
            put!(self, "\x1b]2;{}\x1b\\", state.title);
        }
        if let Some(saved) = &state.alt_saved_cursor {
            put!(self, "\x1b[?47h");
            self.write_saved_cursor(&state.main, saved);
            put!(self, "\x1b[?47l");
        }
        self.write_screen(&state.main);
        self.write_keyboard(&state.main_keyboard);
        if let Some(alt) = &state.alt {
            self.write_cursor(&state.main, 0);
            put!(self, "\x1b[?47h");
            self.write_screen(alt);
            self.write_keyboard(&state.alt_keyboard);
        }
        self.write_tab_stops(state);
        let grid = state.active_grid();
        if (grid.top, grid.bottom) != (0, grid.height() - 1) {
            put!(self, "\x1b[{};{}r", grid.top + 1, grid.bottom + 1);
        }
        if state.modes.origin {
            put!(self, "\x1b[?6h");
            self.write_cursor(grid, grid.top);
        } else {
            self.write_cursor(grid, 0);
        }
        // The remaining sequences neither print nor move the cursor.
        self.write_charsets(state.charsets);
        self.write_pen(state.pen);
        self.write_modes(state);
        // The last painted character is not the last printed character of the program: nothing may be repeated (REP)
        // or joined.
        self.end_joining();
    }

    /// Paints one screen, without the final cursor position.
    fn write_screen(&mut self, grid: &Grid) {
        // Saved cursor first, because placing a cursor past the last column requires printing there.
        if let Some(saved) = &grid.saved_cursor {
            self.write_saved_cursor(grid, saved);
        }
        for y in 0..grid.rows.len() {
            self.write_row(grid, y);
        }
    }

    fn write_saved_cursor(&mut self, grid: &Grid, saved: &SavedCursor) {
        let (x, y) = (saved.cursor.x, saved.cursor.y);
        if saved.origin {
            put!(self, "\x1b[?6h");
        }
        put!(self, "\x1b[{};{}H", y + 1, x + 1);
        if x == grid.cols {
            self.out.push('x');
        }
        self.write_charsets(saved.charsets);
        self.write_pen(saved.pen);
        put!(self, "\x1b7");
        self.write_charsets(Charsets::default());
        self.write_pen(Style::default());
        if saved.origin {
            put!(self, "\x1b[?6l");
        }
        if x == grid.cols {
            put!(self, "\x1b[{};{}H\x1b[X", y + 1, x);
        }
    }

    fn write_row(&mut self, grid: &Grid, y: usize) {
        let row = &grid.rows[y];
        let cells = row.cells();
        if cells.is_empty() && !row.is_wrapped() {
            return;
        }
        put!(self, "\x1b[{}H", y + 1);
        let mut x = 0;
        while x < cells.len() {
            let cell = cells[x];
            if cell.is_blank() {
                let same = cells[x..].iter().take_while(|next| **next == cell).count();
                if cell.style != Style::default() {
                    self.write_pen(cell.style);
                    put!(self, "\x1b[{same}X");
                }
                x += same;
                if x < grid.cols {
                    put!(self, "\x1b[{};{}H", y + 1, x + 1);
                }
                continue;
            }
            self.write_cell(cell);
            x += 1;
        }
        if row.is_wrapped() {
            self.write_wrap(grid, y);
        }
    }

    /// Marks row `y` as wrapped. The next row is painted later.
    fn write_wrap(&mut self, grid: &Grid, y: usize) {
        let last = grid.cols - 1;
        self.write_pen(Style::default());
        if grid.rows[y].cell(last).is_blank() {
            // A wide character did not fit at the edge. Printing a wide character there leaves the same blank.
            self.write_pen(grid.rows[y].cell(last).style);
            put!(self, "\x1b[{};{}H\u{3000}", y + 1, last + 1);
            self.write_pen(Style::default());
            put!(self, "\r\x1b[2X");
        } else {
            put!(self, " \r\x1b[X");
        }
    }

    fn write_cell(&mut self, cell: Cell) {
        match cell.glyph() {
            Glyph::Blank | Glyph::Spacer => (),
            Glyph::Char(c) => {
                self.write_pen(cell.style);
                self.out.push(c);
                // A skin tone in its own cell would otherwise join the character before.
                if cell.is_wide() {
                    self.end_joining();
                }
            }
            Glyph::Cluster(number) => {
                self.write_pen(cell.style);
                self.out.push_str(self.clusters.get(number));
                self.end_joining();
            }
        }
    }

    /// Writes NUL: every control ends the joining of characters, and NUL has no other effect.
    fn end_joining(&mut self) {
        self.out.push('\0');
    }

    /// Moves to the cursor position, counted from row `top`. A position past the last column is reached by printing
    /// the last cell again.
    fn write_cursor(&mut self, grid: &Grid, top: usize) {
        let y = grid.cursor.y - top + 1;
        if grid.cursor.x < grid.cols {
            put!(self, "\x1b[{};{}H", y, grid.cursor.x + 1);
            return;
        }
        let row = &grid.rows[grid.cursor.y];
        let last = grid.cols - 1;
        let x = if row.cell(last).is_spacer() {
            last - 1
        } else {
            last
        };
        put!(self, "\x1b[{};{}H", y, x + 1);
        let cell = row.cell(x);
        if cell.is_blank() {
            self.write_pen(cell.style);
            put!(self, " \x1b[X");
        } else {
            self.write_cell(cell);
        }
    }

    fn write_pen(&mut self, style: Style) {
        if style == self.pen {
            return;
        }
        self.pen = style;
        put!(self, "\x1b[0");
        for attr in CellAttribute::ALL {
            if style.has(attr) {
                put!(self, ";{}", sgr_code(attr));
            }
        }
        match style.underline() {
            Underline::None => (),
            kind => put!(self, ";4:{}", kind as u8),
        }
        self.write_color(38, style.fg());
        self.write_color(48, style.bg());
        self.write_color(58, style.underline_color());
        put!(self, "m");
    }

    fn write_color(&mut self, which: u8, color: Color) {
        match color {
            Color::Default => (),
            Color::Indexed(index) => put!(self, ";{which}:5:{index}"),
            Color::Rgb(r, g, b) => put!(self, ";{which}:2::{r}:{g}:{b}"),
        }
    }

    fn write_charsets(&mut self, charsets: Charsets) {
        if charsets == self.charsets {
            return;
        }
        self.charsets = charsets;
        let set = |drawing| if drawing { '0' } else { 'B' };
        let [g0, g1] = charsets.drawing.map(set);
        let shift = if charsets.shifted { '\x0e' } else { '\x0f' };
        put!(self, "\x1b({g0}\x1b){g1}{shift}");
    }

    fn write_keyboard(&mut self, keyboard: &KeyboardFlags) {
        if *keyboard == KeyboardFlags::default() {
            return;
        }
        let mut all = keyboard.stack.iter().chain([&keyboard.flags]);
        if let Some(first) = all.next() {
            put!(self, "\x1b[={first}u");
        }
        all.for_each(|flags| put!(self, "\x1b[>{flags}u"));
    }

    fn write_tab_stops(&mut self, state: &TerminalState) {
        let usual = TabStops::default();
        for x in 0..state.main.cols {
            match (state.tabs.is_set(x), usual.is_set(x)) {
                (true, false) => put!(self, "\x1b[{}G\x1bH", x + 1),
                (false, true) => put!(self, "\x1b[{}G\x1b[g", x + 1),
                (true, true) | (false, false) => (),
            }
        }
    }

    /// Writes the modes that differ from a new terminal.
    fn write_modes(&mut self, state: &TerminalState) {
        let (modes, fresh) = (&state.modes, Modes::default());
        for mode in [1, 5, 7, 25, 66, 1004, 2004, 2026] {
            match modes.private_mode(mode) {
                on if on == fresh.private_mode(mode) => (),
                Some(true) => put!(self, "\x1b[?{mode}h"),
                Some(false) | None => put!(self, "\x1b[?{mode}l"),
            }
        }
        if modes.insert {
            put!(self, "\x1b[4h");
        }
        if modes.newline {
            put!(self, "\x1b[20h");
        }
        match modes.mouse {
            MouseMode::Off => (),
            MouseMode::Press => put!(self, "\x1b[?9h"),
            MouseMode::Click => put!(self, "\x1b[?1000h"),
            MouseMode::Drag => put!(self, "\x1b[?1002h"),
            MouseMode::Motion => put!(self, "\x1b[?1003h"),
        }
        match modes.mouse_format {
            MouseFormat::Bytes => (),
            MouseFormat::Utf8 => put!(self, "\x1b[?1005h"),
            MouseFormat::Sgr => put!(self, "\x1b[?1006h"),
        }
        if modes.cursor_shape != fresh.cursor_shape {
            put!(self, "\x1b[{} q", modes.cursor_shape.0);
        }
    }
}

fn sgr_code(attr: CellAttribute) -> u8 {
    match attr {
        CellAttribute::Bold => 1,
        CellAttribute::Dim => 2,
        CellAttribute::Italic => 3,
        CellAttribute::Blink => 5,
        CellAttribute::Reverse => 7,
        CellAttribute::Hidden => 8,
        CellAttribute::Strike => 9,
        CellAttribute::Overline => 53,
    }
}
