//! The terminal state that a pane's output has produced so far: the main and the alternate grid, the pen, the modes,
//! the history, the shell marks, and the events of the current feed.
//!
//! This file prints text and executes the C0 controls and escape sequences; [`csi`](crate::csi) and
//! [`osc`](crate::osc) execute control sequences and operating system commands.

use crate::cell::{Cell, Glyph, Style};
use crate::char_width::{char_width, joins_previous};
use crate::charsets::{Charsets, drawing};
use crate::clusters::{ClusterTable, MAX_CLUSTER_BYTES};
use crate::grid::{Grid, GridContext, RowEdge, SavedCursor};
use crate::history::History;
use crate::modes::{KeyboardFlags, Modes};
use crate::parser::{CsiSequence, Perform, StringEnd};
use crate::position::Offset;
use crate::shell_marks::ShellTracker;
use crate::tab_stops::TabStops;
use crate::text_stream::TextStream;
use crate::{TerminalEvent, TerminalOptions, TerminalSize};

/// The state behind a [`Terminal`](crate::Terminal), changed by the parser through [`Perform`].
#[derive(Debug)]
pub(crate) struct TerminalState {
    /// The offset just after the byte that is being executed: the clock of every change that rows and lines record.
    pub(crate) now: u64,
    /// The offset of the last change of the visible screen.
    pub(crate) last_change: u64,
    pub(crate) main: Grid,
    pub(crate) alt: Option<Box<Grid>>,
    /// The cursor saved on the alternate screen, while the main screen is shown.
    pub(crate) alt_saved_cursor: Option<SavedCursor>,
    pub(crate) history: History,
    pub(crate) clusters: ClusterTable,
    pub(crate) pen: Style,
    pub(crate) charsets: Charsets,
    pub(crate) modes: Modes,
    pub(crate) main_keyboard: KeyboardFlags,
    pub(crate) alt_keyboard: KeyboardFlags,
    pub(crate) tabs: TabStops,
    /// The character printed last, if nothing else was executed after it.
    pub(crate) last_char: Option<char>,
    pub(crate) title: String,
    pub(crate) cwd: Option<String>,
    pub(crate) shell: ShellTracker,
    pub(crate) events: Vec<TerminalEvent>,
    pub(crate) replies: EventBudget,
    pub(crate) bells: EventBudget,
    /// Present while an expect reads the printed text.
    pub(crate) text_stream: Option<Box<TextStream>>,
}

/// A limit on events per window of output. Windows are counted by offset, so that the result does not depend on how
/// the bytes are split into feeds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct EventBudget {
    pub(crate) window: u64,
    pub(crate) spent: u64,
}

/// Limit on replies per window for a program that queries the terminal without end. Real programs send about a dozen
/// queries.
const MAX_REPLIES_PER_WINDOW: u64 = 64;
/// Limit on bell events per window: a bell that rings constantly carries no more information than a bell that rings
/// often.
const MAX_BELLS_PER_WINDOW: u64 = 16;
/// The size of a budget window in bytes of output.
const BUDGET_WINDOW_BYTES: u64 = 4096;

impl EventBudget {
    fn spend(&mut self, now: u64, limit: u64) -> bool {
        if self.window != now / BUDGET_WINDOW_BYTES {
            *self = EventBudget {
                window: now / BUDGET_WINDOW_BYTES,
                spent: 0,
            };
        }
        self.spent += 1;
        self.spent <= limit
    }
}

impl TerminalState {
    pub(crate) fn new(size: TerminalSize, options: &TerminalOptions, now: u64, line: u64) -> Self {
        TerminalState {
            now,
            last_change: 0,
            main: Grid::new(size.rows.into(), size.cols.into(), now),
            alt: None,
            alt_saved_cursor: None,
            history: History::new(options.keep_lines, line),
            clusters: ClusterTable::default(),
            pen: Style::default(),
            charsets: Charsets::default(),
            modes: Modes::default(),
            main_keyboard: KeyboardFlags::default(),
            alt_keyboard: KeyboardFlags::default(),
            tabs: TabStops::default(),
            last_char: None,
            title: String::new(),
            cwd: None,
            shell: ShellTracker::new(options.secret.clone()),
            events: Vec::new(),
            replies: EventBudget::default(),
            bells: EventBudget::default(),
            text_stream: None,
        }
    }

    /// The visible screen: the alternate grid if active, else the main grid.
    pub(crate) fn active_grid_mut(&mut self) -> &mut Grid {
        match &mut self.alt {
            Some(alt) => alt,
            None => &mut self.main,
        }
    }

    /// The visible screen, read-only.
    pub(crate) fn active_grid(&self) -> &Grid {
        self.alt.as_deref().unwrap_or(&self.main)
    }

    /// The visible screen, and the context that a change to the grid needs.
    pub(crate) fn grid_and_context(&mut self) -> (&mut Grid, GridContext<'_>) {
        let (now, pen, clusters) = (self.now, self.pen, &self.clusters);
        match &mut self.alt {
            Some(alt) => (
                alt,
                GridContext {
                    now,
                    pen,
                    history: None,
                    clusters,
                },
            ),
            None => (
                &mut self.main,
                GridContext {
                    now,
                    pen,
                    history: Some(&mut self.history),
                    clusters,
                },
            ),
        }
    }

    pub(crate) fn keyboard(&mut self) -> &mut KeyboardFlags {
        if self.alt.is_some() {
            &mut self.alt_keyboard
        } else {
            &mut self.main_keyboard
        }
    }

    pub(crate) fn reply(&mut self, bytes: Vec<u8>) {
        if self.replies.spend(self.now, MAX_REPLIES_PER_WINDOW) {
            self.events.push(TerminalEvent::Reply {
                at: Offset(self.now),
                bytes,
            });
        }
    }

    pub(crate) fn save_cursor(&mut self) {
        let saved = SavedCursor {
            cursor: self.active_grid_mut().cursor,
            pen: self.pen,
            charsets: self.charsets,
            origin: self.modes.origin,
        };
        self.active_grid_mut().saved_cursor = Some(saved);
    }

    pub(crate) fn restore_cursor(&mut self) {
        let saved = self.active_grid_mut().saved_cursor.unwrap_or_default();
        self.pen = saved.pen;
        self.charsets = saved.charsets;
        self.modes.origin = saved.origin;
        let grid = self.active_grid_mut();
        grid.cursor = saved.cursor;
        if saved.origin {
            grid.cursor.y = grid.cursor.y.clamp(grid.top, grid.bottom);
        }
        grid.clamp_cursor();
    }

    /// Shows the alternate screen, cleared.
    pub(crate) fn enter_alternate(&mut self) {
        if self.alt.is_some() {
            return;
        }
        let main = &self.main;
        let mut alt = Grid::new(main.height(), main.cols, self.now);
        (alt.cursor, alt.top, alt.bottom) = (main.cursor, main.top, main.bottom);
        alt.saved_cursor = self.alt_saved_cursor.take();
        alt.clamp_cursor();
        self.alt = Some(Box::new(alt));
        self.alt_keyboard = KeyboardFlags::default();
        self.modes.alternate = true;
        self.last_change = self.now;
        self.events.push(TerminalEvent::Alternate(true));
    }

    /// Shows the main screen again and discards the alternate grid.
    pub(crate) fn leave_alternate(&mut self) {
        let Some(alt) = self.alt.take() else { return };
        self.alt_saved_cursor = alt.saved_cursor;
        let main = &mut self.main;
        (main.cursor, main.top, main.bottom) = (alt.cursor, alt.top, alt.bottom);
        main.clamp_cursor();
        self.modes.alternate = false;
        self.last_change = self.now;
        self.events.push(TerminalEvent::Alternate(false));
    }

    /// `ESC c`: full reset. The text of the main screen is moved to the history.
    pub(crate) fn reset(&mut self) {
        self.leave_alternate();
        self.alt_saved_cursor = None;
        self.pen = Style::default();
        let (grid, context) = self.grid_and_context();
        grid.clear(context);
        grid.move_to(0, 0);
        grid.saved_cursor = None;
        (grid.top, grid.bottom) = (0, grid.height() - 1);
        self.charsets = Charsets::default();
        self.modes = Modes::default();
        self.main_keyboard = KeyboardFlags::default();
        self.tabs = TabStops::default();
        self.last_change = self.now;
        self.stream_jump();
    }

    /// `CSI ! p`: resets pen, character sets, scrolling region, saved cursor and the basic modes; the screen contents
    /// stay.
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
        let grid = self.active_grid_mut();
        grid.saved_cursor = None;
        (grid.top, grid.bottom) = (0, grid.height() - 1);
    }

    /// Repeats the last character, at most to the end of the row: otherwise an eight-byte sequence could print 65,535
    /// characters.
    pub(crate) fn repeat_last_char(&mut self, n: usize) {
        let Some(c) = self.last_char else { return };
        let grid = self.active_grid();
        let n = n.min(grid.cols - grid.cursor_column());
        for _ in 0..n {
            self.last_char = None;
            self.print_char(c);
        }
    }

    fn print_char(&mut self, c: char) {
        let width = char_width(c);
        let last = self.last_char.take();
        if joins_previous(c, width, last) && self.join_previous(c) {
            self.last_char = Some(c);
            return;
        }
        if width == 0 {
            return;
        }
        let (pen, autowrap, insert, now) =
            (self.pen, self.modes.autowrap, self.modes.insert, self.now);
        self.last_change = now;
        let grid = self.active_grid();
        let cols = grid.cols;
        if !autowrap && width > cols - grid.cursor_column() {
            return;
        }
        self.last_char = Some(c);
        if self.text_stream.is_some() {
            self.stream_before_print();
        }
        let (mut grid, context) = self.grid_and_context();
        if !autowrap {
            grid.cursor.x = grid.cursor_column();
        } else if grid.cursor.x + width > cols {
            let edge = if grid.cursor.x < cols {
                RowEdge::TooNarrowForWide
            } else {
                RowEdge::PastLastColumn
            };
            grid.erase_in_row(grid.cursor.x, cols, pen, now);
            let continues = grid.wrap(edge, context);
            self.stream_after_wrap(continues);
            grid = self.active_grid_mut();
        }
        let x = grid.cursor.x;
        if insert {
            grid.cursor_row()
                .insert(x, width, Cell::blank(pen), cols, now);
        }
        let cell = if width == 2 {
            Cell::wide(c, pen)
        } else {
            Cell::narrow(c, pen)
        };
        grid.cursor_row().put(x, cell, width, cols, now);
        let end = x + width;
        grid.cursor.x = if autowrap { end } else { end.min(cols - 1) };
        if self.text_stream.is_some() {
            self.stream_print(c.encode_utf8(&mut [0; 4]), end);
        }
    }

    /// Joins a combining character to the cell before the cursor. Returns `false` if that cell is blank or its
    /// cluster is full.
    fn join_previous(&mut self, c: char) -> bool {
        let now = self.now;
        let grid = self.active_grid();
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
        if self.clusters.needs_sweep() {
            self.sweep_clusters();
        }
        self.stream_before_print();
        let number = self.clusters.intern(&text);
        self.active_grid_mut()
            .cursor_row()
            .replace_cluster(x, cell.with_cluster(number), now);
        self.last_change = now;
        let end = self.active_grid().cursor.x;
        self.stream_print(c.encode_utf8(&mut [0; 4]), end);
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
        self.clusters.finish_sweep();
    }

    fn ring_bell(&mut self) {
        if self.bells.spend(self.now, MAX_BELLS_PER_WINDOW) {
            self.events.push(TerminalEvent::Bell);
        }
    }

    fn line_feed(&mut self) {
        self.last_change = self.now;
        if self.text_stream.is_some() {
            return self.line_feed_with_stream();
        }
        let (grid, context) = self.grid_and_context();
        grid.line_feed(context);
    }

    /// Moves the cursor to the beginning of the next line.
    pub(crate) fn next_line(&mut self) {
        self.carriage_return();
        self.line_feed();
    }

    fn carriage_return(&mut self) {
        if self.text_stream.is_some() {
            self.stream_before_return();
        }
        self.active_grid_mut().cursor.x = 0;
    }

    fn tab(&mut self) {
        let x = self.active_grid().cursor.x;
        let last = self.active_grid().cols - 1;
        if x < last {
            self.active_grid_mut().cursor.x = self.tabs.next_stop(x).min(last);
        }
    }
}

impl Perform for TerminalState {
    fn set_offset(&mut self, offset: u64) {
        self.now = offset;
    }

    fn ascii(&mut self, mut run: &[u8], start: u64) {
        self.now = start;
        if self.modes.insert || self.charsets.is_drawing() || self.last_char == Some('\u{200d}') {
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
            self.last_char = Some(char::from(last));
        }
        while !run.is_empty() {
            self.now += 1;
            let now = self.now;
            if self.text_stream.is_some() {
                self.stream_before_print();
            }
            let (mut grid, context) = self.grid_and_context();
            let cols = grid.cols;
            if grid.cursor.x >= cols {
                if autowrap {
                    let continues = grid.wrap(RowEdge::PastLastColumn, context);
                    self.stream_after_wrap(continues);
                    grid = self.active_grid_mut();
                } else {
                    grid.cursor.x = cols - 1;
                }
            }
            let x = grid.cursor.x;
            let n = run.len().min(cols - x);
            let end = now + n as u64 - 1;
            grid.cursor_row().put_ascii(x, &run[..n], pen, cols, end);
            grid.cursor.x = x + n;
            self.now = end;
            if self.text_stream.is_some() {
                self.stream_print_ascii(&run[..n], x + n);
            }
            run = &run[n..];
        }
        self.last_change = self.now;
        if !autowrap {
            let grid = self.active_grid_mut();
            grid.cursor.x = grid.cursor_column();
        }
    }

    fn print(&mut self, c: char) {
        self.print_char(c);
    }

    fn control(&mut self, byte: u8) {
        self.last_char = None;
        match byte {
            0x07 => self.ring_bell(),
            0x08 => {
                let grid = self.active_grid_mut();
                grid.cursor.x = grid.cursor_column().saturating_sub(1);
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

    fn csi(&mut self, csi: &CsiSequence) {
        if self.text_stream.is_some() {
            self.csi_with_stream(csi);
        } else {
            self.execute_csi(csi);
        }
        if csi.action != b'b' {
            self.last_char = None;
        }
    }

    fn esc(&mut self, intermediate: Option<u8>, byte: u8) {
        self.last_char = None;
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
                let x = self.active_grid().cursor_column();
                self.tabs.set(x);
            }
            (None, b'M') => {
                self.last_change = self.now;
                let (grid, context) = self.grid_and_context();
                grid.reverse_line_feed(context);
                self.stream_jump();
            }
            (None, b'Z') => self.device_attributes(),
            (None, b'c') => self.reset(),
            (Some(b'('), set) => self.charsets.drawing[0] = set == b'0',
            (Some(b')'), set) => self.charsets.drawing[1] = set == b'0',
            (Some(b'#'), b'8') => self.fill_alignment_pattern(),
            _ => (),
        }
    }

    fn osc(&mut self, body: &[u8], end: StringEnd) {
        self.last_char = None;
        self.execute_osc(body, end);
    }
}

impl TerminalState {
    /// `ESC # 8` (DECALN): fills the screen with `E`, the alignment pattern for adjusting a CRT.
    fn fill_alignment_pattern(&mut self) {
        let now = self.now;
        self.last_change = now;
        self.pen = Style::default();
        self.modes.origin = false;
        let (grid, context) = self.grid_and_context();
        grid.clear(context);
        let cols = grid.cols;
        let row = vec![b'E'; cols];
        for y in 0..grid.height() {
            grid.rows[y].put_ascii(0, &row, Style::default(), cols, now);
        }
        (grid.top, grid.bottom) = (0, grid.height() - 1);
        grid.move_to(0, 0);
        self.stream_jump();
    }
}
