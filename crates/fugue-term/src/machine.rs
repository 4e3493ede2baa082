//! What the bytes of a pane have made so far: two screens, the pen, the switches, and what was found on the way.
//!
//! This file prints and obeys the plain controls; [`csi`](crate::csi) and [`osc`](crate::osc) obey the sequences.

use crate::cell::{Cell, Glyph, Style};
use crate::charsets::{Charsets, drawing};
use crate::clusters::{Clusters, MAX_CLUSTER_BYTES};
use crate::grid::{Edge, Grid, Saved, World};
use crate::history::History;
use crate::modes::{Keyboard, Modes};
use crate::parser::{Csi, Perform, StringEnd};
use crate::place::Offset;
use crate::shell::Shell;
use crate::tabs::Tabs;
use crate::tap::Tap;
use crate::width;
use crate::{TerminalEvent, TerminalOptions, TerminalSize};

/// See the module.
#[derive(Debug)]
pub(crate) struct Machine {
    /// The offset just behind the byte at work.
    pub(crate) now: u64,
    /// When the visible screen last changed.
    pub(crate) changed: u64,
    pub(crate) main: Grid,
    pub(crate) alt: Option<Box<Grid>>,
    /// The cursor saved on the alternate screen, while that is not shown.
    pub(crate) alt_saved: Option<Saved>,
    pub(crate) history: History,
    pub(crate) clusters: Clusters,
    pub(crate) pen: Style,
    pub(crate) charsets: Charsets,
    pub(crate) modes: Modes,
    pub(crate) main_keyboard: Keyboard,
    pub(crate) alt_keyboard: Keyboard,
    pub(crate) tabs: Tabs,
    /// The character printed last, if nothing else came after it.
    pub(crate) last: Option<char>,
    pub(crate) title: String,
    pub(crate) cwd: Option<String>,
    pub(crate) shell: Shell,
    pub(crate) facts: Vec<TerminalEvent>,
    pub(crate) replies: Budget,
    pub(crate) bells: Budget,
    /// There while somebody listens.
    pub(crate) tap: Option<Box<Tap>>,
}

/// So many things per stretch of output, counted by offset so that the cutting of the bytes does not matter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Budget {
    pub(crate) window: u64,
    pub(crate) spent: u64,
}

/// A program that asks without end gets this many answers per stretch; no real one asks more than a dozen things.
const REPLIES: u64 = 64;
/// A bell that rings all the time says no more than one that rings often.
const BELLS: u64 = 16;
/// Output is counted in stretches of so many bytes.
const STRETCH: u64 = 4096;

impl Budget {
    fn spend(&mut self, now: u64, most: u64) -> bool {
        if self.window != now / STRETCH {
            *self = Budget {
                window: now / STRETCH,
                spent: 0,
            };
        }
        self.spent += 1;
        self.spent <= most
    }
}

impl Machine {
    pub(crate) fn new(size: TerminalSize, options: &TerminalOptions, now: u64, line: u64) -> Self {
        Machine {
            now,
            changed: 0,
            main: Grid::new(size.rows.into(), size.cols.into(), now),
            alt: None,
            alt_saved: None,
            history: History::new(options.keep_lines, line),
            clusters: Clusters::default(),
            pen: Style::default(),
            charsets: Charsets::default(),
            modes: Modes::default(),
            main_keyboard: Keyboard::default(),
            alt_keyboard: Keyboard::default(),
            tabs: Tabs::default(),
            last: None,
            title: String::new(),
            cwd: None,
            shell: Shell::new(options.secret.clone()),
            facts: Vec::new(),
            replies: Budget::default(),
            bells: Budget::default(),
            tap: None,
        }
    }

    /// The screen that is shown.
    pub(crate) fn grid(&mut self) -> &mut Grid {
        match &mut self.alt {
            Some(alt) => alt,
            None => &mut self.main,
        }
    }

    /// The screen that is shown, to look at.
    pub(crate) fn shown(&self) -> &Grid {
        self.alt.as_deref().unwrap_or(&self.main)
    }

    /// The screen that is shown and what a change to it needs.
    pub(crate) fn parts(&mut self) -> (&mut Grid, World<'_>) {
        let (now, pen, clusters) = (self.now, self.pen, &self.clusters);
        match &mut self.alt {
            Some(alt) => (
                alt,
                World {
                    now,
                    pen,
                    history: None,
                    clusters,
                },
            ),
            None => (
                &mut self.main,
                World {
                    now,
                    pen,
                    history: Some(&mut self.history),
                    clusters,
                },
            ),
        }
    }

    pub(crate) fn keyboard(&mut self) -> &mut Keyboard {
        if self.alt.is_some() {
            &mut self.alt_keyboard
        } else {
            &mut self.main_keyboard
        }
    }

    pub(crate) fn reply(&mut self, bytes: Vec<u8>) {
        if self.replies.spend(self.now, REPLIES) {
            self.facts.push(TerminalEvent::Reply {
                at: Offset(self.now),
                bytes,
            });
        }
    }

    pub(crate) fn save_cursor(&mut self) {
        let saved = Saved {
            cursor: self.grid().cursor,
            pen: self.pen,
            charsets: self.charsets,
            origin: self.modes.origin,
        };
        self.grid().saved = Some(saved);
    }

    pub(crate) fn restore_cursor(&mut self) {
        let saved = self.grid().saved.unwrap_or_default();
        self.pen = saved.pen;
        self.charsets = saved.charsets;
        self.modes.origin = saved.origin;
        let grid = self.grid();
        grid.cursor = saved.cursor;
        if saved.origin {
            grid.cursor.y = grid.cursor.y.clamp(grid.top, grid.bottom);
        }
        grid.settle();
    }

    /// Shows the alternate screen, empty.
    pub(crate) fn enter_alternate(&mut self) {
        if self.alt.is_some() {
            return;
        }
        let main = &self.main;
        let mut alt = Grid::new(main.height(), main.cols, self.now);
        (alt.cursor, alt.top, alt.bottom) = (main.cursor, main.top, main.bottom);
        alt.saved = self.alt_saved.take();
        alt.settle();
        self.alt = Some(Box::new(alt));
        self.alt_keyboard = Keyboard::default();
        self.modes.alternate = true;
        self.changed = self.now;
        self.facts.push(TerminalEvent::Alternate(true));
    }

    /// Shows the main screen again; the alternate one is forgotten.
    pub(crate) fn leave_alternate(&mut self) {
        let Some(alt) = self.alt.take() else { return };
        self.alt_saved = alt.saved;
        let main = &mut self.main;
        (main.cursor, main.top, main.bottom) = (alt.cursor, alt.top, alt.bottom);
        main.settle();
        self.modes.alternate = false;
        self.changed = self.now;
        self.facts.push(TerminalEvent::Alternate(false));
    }

    /// `ESC c`: as new, but what a person saw is kept as text.
    pub(crate) fn reset(&mut self) {
        self.leave_alternate();
        self.alt_saved = None;
        self.pen = Style::default();
        let (grid, world) = self.parts();
        grid.clear(world);
        grid.go(0, 0);
        grid.saved = None;
        (grid.top, grid.bottom) = (0, grid.height() - 1);
        self.charsets = Charsets::default();
        self.modes = Modes::default();
        self.main_keyboard = Keyboard::default();
        self.tabs = Tabs::default();
        self.changed = self.now;
        self.tap_jumped();
    }

    /// `CSI ! p`: the switches as new, the screen as it is.
    pub(crate) fn soft_reset(&mut self) {
        self.pen = Style::default();
        self.charsets = Charsets::default();
        let modes = &mut self.modes;
        (
            modes.insert,
            modes.origin,
            modes.app_cursor,
            modes.app_keypad,
        ) = (false, false, false, false);
        (modes.autowrap, modes.cursor_visible) = (true, true);
        let grid = self.grid();
        grid.saved = None;
        (grid.top, grid.bottom) = (0, grid.height() - 1);
    }

    /// Repeats the last character, to the end of the row at most: otherwise eight bytes could ask for 65,535
    /// characters.
    pub(crate) fn repeat(&mut self, n: usize) {
        let Some(c) = self.last else { return };
        let grid = self.shown();
        let n = n.min(grid.cols - grid.column());
        for _ in 0..n {
            self.last = None;
            self.print_char(c);
        }
    }

    fn print_char(&mut self, c: char) {
        let width = width::of(c);
        let last = self.last.take();
        if width::attaches(c, width, last) && self.attach(c) {
            self.last = Some(c);
            return;
        }
        if width == 0 {
            return;
        }
        let (pen, autowrap, insert, now) =
            (self.pen, self.modes.autowrap, self.modes.insert, self.now);
        self.changed = now;
        let grid = self.shown();
        let cols = grid.cols;
        if !autowrap && width > cols - grid.column() {
            return;
        }
        self.last = Some(c);
        if self.tap.is_some() {
            self.tap_reaches();
        }
        let (mut grid, world) = self.parts();
        if !autowrap {
            grid.cursor.x = grid.column();
        } else if grid.cursor.x + width > cols {
            let edge = if grid.cursor.x < cols {
                Edge::TooNarrow
            } else {
                Edge::Behind
            };
            grid.erase_in_row(grid.cursor.x, cols, pen, now);
            let goes_on = grid.wrap(edge, world);
            self.tap_wrapped(goes_on);
            grid = self.grid();
        }
        let x = grid.cursor.x;
        if insert {
            grid.row().insert(x, width, Cell::blank(pen), cols, now);
        }
        let cell = if width == 2 {
            Cell::wide(c, pen)
        } else {
            Cell::narrow(c, pen)
        };
        grid.row().put(x, cell, width, cols, now);
        let end = x + width;
        grid.cursor.x = if autowrap { end } else { end.min(cols - 1) };
        if self.tap.is_some() {
            self.tap_printed(c.encode_utf8(&mut [0; 4]), end);
        }
    }

    /// Joins a character to the one before the cursor, if there is one and it has room.
    fn attach(&mut self, c: char) -> bool {
        let now = self.now;
        let grid = self.shown();
        let Some(mut x) = grid.cursor.x.checked_sub(1) else {
            return false;
        };
        let row = &grid.rows[grid.cursor.y];
        if row.cell(x).is_spacer() {
            x -= 1;
        }
        let cell = row.cell(x);
        let mut text = String::with_capacity(MAX_CLUSTER_BYTES);
        match cell.glyph() {
            Glyph::Blank | Glyph::Spacer => return false,
            Glyph::Char(base) => text.push(base),
            Glyph::Cluster(number) => text.push_str(self.clusters.get(number)),
        }
        if text.len() + c.len_utf8() > MAX_CLUSTER_BYTES {
            return false;
        }
        text.push(c);
        if self.clusters.wants_sweep() {
            self.sweep_clusters();
        }
        self.tap_reaches();
        let number = self.clusters.intern(&text);
        self.grid().row().join(x, cell.with_cluster(number), now);
        self.changed = now;
        let end = self.shown().cursor.x;
        self.tap_printed(c.encode_utf8(&mut [0; 4]), end);
        true
    }

    fn sweep_clusters(&mut self) {
        let mut renumber = self.clusters.sweep();
        let alt = self.alt.iter_mut().flat_map(|alt| &mut alt.rows);
        for cell in self
            .main
            .rows
            .iter_mut()
            .chain(alt)
            .flat_map(|row| row.cells_mut())
        {
            if let Glyph::Cluster(number) = cell.glyph() {
                *cell = cell.with_cluster(renumber(&mut self.clusters, number));
            }
        }
        self.clusters.swept();
    }

    fn ring(&mut self) {
        if self.bells.spend(self.now, BELLS) {
            self.facts.push(TerminalEvent::Bell);
        }
    }

    fn line_feed(&mut self) {
        self.changed = self.now;
        if self.tap.is_some() {
            return self.tapped_line_feed();
        }
        let (grid, world) = self.parts();
        grid.line_feed(world);
    }

    /// To the beginning of the next line.
    pub(crate) fn next_line(&mut self) {
        self.carriage_return();
        self.line_feed();
    }

    fn carriage_return(&mut self) {
        if self.tap.is_some() {
            self.tap_returns();
        }
        self.grid().cursor.x = 0;
    }

    fn tab(&mut self) {
        let x = self.shown().cursor.x;
        let last = self.shown().cols - 1;
        if x < last {
            self.grid().cursor.x = self.tabs.after(x).min(last);
        }
    }
}

impl Perform for Machine {
    fn at(&mut self, offset: u64) {
        self.now = offset;
    }

    fn ascii(&mut self, mut run: &[u8], start: u64) {
        self.now = start;
        if self.modes.insert || self.charsets.is_drawing() || self.last == Some('\u{200d}') {
            for &byte in run {
                self.now += 1;
                let c = if self.charsets.is_drawing() {
                    drawing(byte)
                } else {
                    char::from(byte)
                };
                self.print_char(c);
            }
            return;
        }
        let (pen, autowrap) = (self.pen, self.modes.autowrap);
        if let Some(&last) = run.last() {
            self.last = Some(char::from(last));
        }
        while !run.is_empty() {
            self.now += 1;
            let now = self.now;
            if self.tap.is_some() {
                self.tap_reaches();
            }
            let (mut grid, world) = self.parts();
            let cols = grid.cols;
            if grid.cursor.x >= cols {
                if autowrap {
                    let goes_on = grid.wrap(Edge::Behind, world);
                    self.tap_wrapped(goes_on);
                    grid = self.grid();
                } else {
                    grid.cursor.x = cols - 1;
                }
            }
            let x = grid.cursor.x;
            let n = run.len().min(cols - x);
            let end = now + n as u64 - 1;
            grid.row().put_ascii(x, &run[..n], pen, cols, end);
            grid.cursor.x = x + n;
            self.now = end;
            if self.tap.is_some() {
                self.tap_printed_ascii(&run[..n], x + n);
            }
            run = &run[n..];
        }
        self.changed = self.now;
        if !autowrap {
            let grid = self.grid();
            grid.cursor.x = grid.column();
        }
    }

    fn print(&mut self, c: char) {
        self.print_char(c);
    }

    fn control(&mut self, byte: u8) {
        self.last = None;
        match byte {
            0x07 => self.ring(),
            0x08 => {
                let grid = self.grid();
                grid.cursor.x = grid.column().saturating_sub(1);
            }
            0x09 => self.tab(),
            0x0a..=0x0c => {
                self.line_feed();
                if self.modes.newline {
                    self.carriage_return();
                }
            }
            0x0d => self.carriage_return(),
            0x0e => self.charsets.shifted = true,
            0x0f => self.charsets.shifted = false,
            _ => (),
        }
    }

    fn csi(&mut self, csi: &Csi) {
        if self.tap.is_some() {
            self.tapped_csi(csi);
        } else {
            self.obey_csi(csi);
        }
        if csi.action != b'b' {
            self.last = None;
        }
    }

    fn esc(&mut self, intermediate: Option<u8>, byte: u8) {
        self.last = None;
        match (intermediate, byte) {
            (None, b'7') => self.save_cursor(),
            (None, b'8') => self.restore_cursor(),
            (None, b'=') => self.modes.app_keypad = true,
            (None, b'>') => self.modes.app_keypad = false,
            (None, b'D') => self.line_feed(),
            (None, b'E') => {
                self.line_feed();
                self.carriage_return();
            }
            (None, b'H') => {
                let x = self.shown().column();
                self.tabs.set(x);
            }
            (None, b'M') => {
                self.changed = self.now;
                let (grid, world) = self.parts();
                grid.reverse_line_feed(world);
                self.tap_jumped();
            }
            (None, b'Z') => self.device_attributes(),
            (None, b'c') => self.reset(),
            (Some(b'('), set) => self.charsets.drawing[0] = set == b'0',
            (Some(b')'), set) => self.charsets.drawing[1] = set == b'0',
            (Some(b'#'), b'8') => self.alignment(),
            _ => (),
        }
    }

    fn osc(&mut self, body: &[u8], end: StringEnd) {
        self.last = None;
        self.obey_osc(body, end);
    }
}

impl Machine {
    /// `ESC # 8`: a screen full of E, to adjust a tube by.
    fn alignment(&mut self) {
        let now = self.now;
        self.changed = now;
        self.pen = Style::default();
        self.modes.origin = false;
        let (grid, world) = self.parts();
        grid.clear(world);
        let cols = grid.cols;
        let row = vec![b'E'; cols];
        for y in 0..grid.height() {
            grid.rows[y].put_ascii(0, &row, Style::default(), cols, now);
        }
        (grid.top, grid.bottom) = (0, grid.height() - 1);
        grid.go(0, 0);
        self.tap_jumped();
    }
}
