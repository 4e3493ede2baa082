//! The screen as bytes that paint it again.
//!
//! Fed to a fresh terminal of the same size they give an equal one: both screens with every cell and every wrapped
//! row, the cursors and what was saved of them, pen, tab stops, region, character sets, switches and title. The
//! text that left the screen is not in it. The same state always gives the same bytes.

use std::fmt::Write;

use crate::Terminal;
use crate::cell::{Cell, CellAttribute, Color, Glyph, Style, Underline};
use crate::charsets::Charsets;
use crate::clusters::Clusters;
use crate::grid::{Grid, Saved};
use crate::machine::Machine;
use crate::modes::{Keyboard, Modes, MouseEncoding, MouseReporting};
use crate::tabs::Tabs;

impl Terminal {
    /// Bytes that make a fresh terminal of this size equal to this one, but for the text that left the screen.
    pub fn dump(&self) -> Vec<u8> {
        let mut painter = Painter {
            out: String::new(),
            pen: Style::default(),
            charsets: Charsets::default(),
            clusters: &self.machine.clusters,
        };
        painter.machine(&self.machine);
        painter.out.into_bytes()
    }
}

struct Painter<'a> {
    out: String,
    pen: Style,
    charsets: Charsets,
    clusters: &'a Clusters,
}

/// Writing to a string cannot fail.
macro_rules! put {
    ($painter:expr, $($format:tt)*) => {{ let _ = write!($painter.out, $($format)*); }};
}

impl Painter<'_> {
    fn machine(&mut self, machine: &Machine) {
        if !machine.title.is_empty() {
            put!(self, "\x1b]2;{}\x1b\\", machine.title);
        }
        if let Some(saved) = &machine.alt_saved {
            put!(self, "\x1b[?47h");
            self.saved(&machine.main, saved);
            put!(self, "\x1b[?47l");
        }
        self.screen(&machine.main);
        self.keyboard(&machine.main_keyboard);
        if let Some(alt) = &machine.alt {
            self.cursor(&machine.main, 0);
            put!(self, "\x1b[?47h");
            self.screen(alt);
            self.keyboard(&machine.alt_keyboard);
        }
        self.tabs(machine);
        let grid = machine.shown();
        if (grid.top, grid.bottom) != (0, grid.height() - 1) {
            put!(self, "\x1b[{};{}r", grid.top + 1, grid.bottom + 1);
        }
        if machine.modes.origin {
            put!(self, "\x1b[?6h");
            self.cursor(grid, grid.top);
        } else {
            self.cursor(grid, 0);
        }
        // From here on nothing may print or move.
        self.charsets(machine.charsets);
        self.pen(machine.pen);
        self.switches(machine);
        // What was painted last is not what the program printed last: there is nothing to repeat or to join.
        self.unjoin();
    }

    /// Everything about one screen but where its cursor ends up.
    fn screen(&mut self, grid: &Grid) {
        // First, because getting behind the last column takes printing there.
        if let Some(saved) = &grid.saved {
            self.saved(grid, saved);
        }
        for y in 0..grid.rows.len() {
            self.row(grid, y);
        }
    }

    fn saved(&mut self, grid: &Grid, saved: &Saved) {
        let (x, y) = (saved.cursor.x, saved.cursor.y);
        if saved.origin {
            put!(self, "\x1b[?6h");
        }
        put!(self, "\x1b[{};{}H", y + 1, x + 1);
        if x == grid.cols {
            self.out.push('x');
        }
        self.charsets(saved.charsets);
        self.pen(saved.pen);
        put!(self, "\x1b7");
        self.charsets(Charsets::default());
        self.pen(Style::default());
        if saved.origin {
            put!(self, "\x1b[?6l");
        }
        if x == grid.cols {
            put!(self, "\x1b[{};{}H\x1b[X", y + 1, x);
        }
    }

    fn row(&mut self, grid: &Grid, y: usize) {
        let row = &grid.rows[y];
        let cells = row.cells();
        if cells.is_empty() && !row.wrapped() {
            return;
        }
        put!(self, "\x1b[{}H", y + 1);
        let mut x = 0;
        while x < cells.len() {
            let cell = cells[x];
            if cell.is_blank() {
                let same = cells[x..].iter().take_while(|next| **next == cell).count();
                if cell.style != Style::default() {
                    self.pen(cell.style);
                    put!(self, "\x1b[{same}X");
                }
                x += same;
                if x < grid.cols {
                    put!(self, "\x1b[{};{}H", y + 1, x + 1);
                }
                continue;
            }
            self.cell(cell);
            x += 1;
        }
        if row.wrapped() {
            self.run_over(grid, y);
        }
    }

    /// Makes row `y` one that goes on in the next, which is painted later.
    fn run_over(&mut self, grid: &Grid, y: usize) {
        let last = grid.cols - 1;
        self.pen(Style::default());
        if grid.rows[y].cell(last).is_blank() {
            // A wide character did not fit. One that is printed at the edge leaves a blank like that.
            self.pen(grid.rows[y].cell(last).style);
            put!(self, "\x1b[{};{}H\u{3000}", y + 1, last + 1);
            self.pen(Style::default());
            put!(self, "\r\x1b[2X");
        } else {
            put!(self, " \r\x1b[X");
        }
    }

    fn cell(&mut self, cell: Cell) {
        match cell.glyph() {
            Glyph::Blank | Glyph::Spacer => (),
            Glyph::Char(c) => {
                self.pen(cell.style);
                self.out.push(c);
                // A skin tone in a cell of its own would join the one before it.
                if cell.is_wide() {
                    self.unjoin();
                }
            }
            Glyph::Cluster(number) => {
                self.pen(cell.style);
                self.out.push_str(self.clusters.get(number));
                self.unjoin();
            }
        }
    }

    /// Any control ends the joining of characters; this one does nothing else.
    fn unjoin(&mut self) {
        self.out.push('\0');
    }

    /// To the cursor's place, counted from row `top`; behind the last column by printing what is there again.
    fn cursor(&mut self, grid: &Grid, top: usize) {
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
            self.pen(cell.style);
            put!(self, " \x1b[X");
        } else {
            self.cell(cell);
        }
    }

    fn pen(&mut self, style: Style) {
        if style == self.pen {
            return;
        }
        self.pen = style;
        put!(self, "\x1b[0");
        for attr in CellAttribute::ALL {
            if style.has(attr) {
                put!(self, ";{}", code(attr));
            }
        }
        match style.underline() {
            Underline::None => (),
            kind => put!(self, ";4:{}", kind as u8),
        }
        self.color(38, style.fg());
        self.color(48, style.bg());
        self.color(58, style.underline_color());
        put!(self, "m");
    }

    fn color(&mut self, which: u8, color: Color) {
        match color {
            Color::Default => (),
            Color::Indexed(index) => put!(self, ";{which}:5:{index}"),
            Color::Rgb(r, g, b) => put!(self, ";{which}:2::{r}:{g}:{b}"),
        }
    }

    fn charsets(&mut self, charsets: Charsets) {
        if charsets == self.charsets {
            return;
        }
        self.charsets = charsets;
        let set = |drawing| if drawing { '0' } else { 'B' };
        let [g0, g1] = charsets.drawing.map(set);
        let shift = if charsets.shifted { '\x0e' } else { '\x0f' };
        put!(self, "\x1b({g0}\x1b){g1}{shift}");
    }

    fn keyboard(&mut self, keyboard: &Keyboard) {
        if *keyboard == Keyboard::default() {
            return;
        }
        let mut all = keyboard.stack.iter().chain([&keyboard.flags]);
        if let Some(first) = all.next() {
            put!(self, "\x1b[={first}u");
        }
        all.for_each(|flags| put!(self, "\x1b[>{flags}u"));
    }

    fn tabs(&mut self, machine: &Machine) {
        let usual = Tabs::default();
        for x in 0..machine.main.cols {
            match (machine.tabs.is_set(x), usual.is_set(x)) {
                (true, false) => put!(self, "\x1b[{}G\x1bH", x + 1),
                (false, true) => put!(self, "\x1b[{}G\x1b[g", x + 1),
                (true, true) | (false, false) => (),
            }
        }
    }

    /// Those that are not as in a fresh terminal.
    fn switches(&mut self, machine: &Machine) {
        let (modes, fresh) = (&machine.modes, Modes::default());
        for mode in [1, 5, 7, 25, 66, 1004, 2004, 2026] {
            match modes.private(mode) {
                on if on == fresh.private(mode) => (),
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
            MouseReporting::Off => (),
            MouseReporting::Press => put!(self, "\x1b[?9h"),
            MouseReporting::Click => put!(self, "\x1b[?1000h"),
            MouseReporting::Drag => put!(self, "\x1b[?1002h"),
            MouseReporting::Motion => put!(self, "\x1b[?1003h"),
        }
        match modes.mouse_format {
            MouseEncoding::Bytes => (),
            MouseEncoding::Utf8 => put!(self, "\x1b[?1005h"),
            MouseEncoding::Sgr => put!(self, "\x1b[?1006h"),
        }
        if modes.cursor_shape != fresh.cursor_shape {
            put!(self, "\x1b[{} q", modes.cursor_shape.0);
        }
    }
}

fn code(attr: CellAttribute) -> u8 {
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
