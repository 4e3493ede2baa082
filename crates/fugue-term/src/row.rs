//! One row of the screen, and when it was last written to.
//!
//! A row stores its cells up to the last one that differs from a blank, so an empty row costs no allocation. It
//! also remembers enough of its past to answer "what is new in it since offset o": see [`Past::is_intact`].

use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::{Deref, DerefMut};

use crate::cell::{Cell, Glyph, Style};
use crate::clusters::Clusters;

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    cells: Cells,
    /// One past the last printed cell; what is beyond is not text.
    used: u16,
    wrapped: bool,
    pub(crate) past: Past,
}

/// They know whether they were touched since somebody asked for their number.
#[derive(Clone, Debug, Default)]
struct Cells {
    cells: Vec<Cell>,
    known_by: std::cell::Cell<Option<u64>>,
}

impl Deref for Cells {
    type Target = Vec<Cell>;

    fn deref(&self) -> &Vec<Cell> {
        &self.cells
    }
}

impl DerefMut for Cells {
    fn deref_mut(&mut self) -> &mut Vec<Cell> {
        self.known_by.set(None);
        &mut self.cells
    }
}

impl From<Vec<Cell>> for Cells {
    fn from(cells: Vec<Cell>) -> Self {
        Cells {
            cells,
            ..Self::default()
        }
    }
}

/// When a row changed, as offsets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Past {
    /// Last changed at all; 0 is never.
    pub(crate) touched: u64,
    /// Began as an empty row in this place of the text.
    pub(crate) created: u64,
    /// Last changed other than by adding to its end.
    pub(crate) rewritten: u64,
    /// The leftmost column so changed since it began; `NEVER` if none was.
    pub(crate) low: u16,
    /// Last came to go on in the next row, or ceased to: then the lines below changed their numbers.
    pub(crate) rewrapped: u64,
}

/// No column: the row has only been added to.
pub(crate) const NEVER: u16 = u16::MAX;

impl Row {
    /// An empty row that begins now.
    pub(crate) fn new(now: u64) -> Self {
        Row {
            cells: Cells::default(),
            used: 0,
            wrapped: false,
            past: Past::begun(now),
        }
    }

    /// A row made of given cells, for reflow; trailing blanks are dropped.
    pub(crate) fn from_cells(mut cells: Vec<Cell>, past: Past) -> Self {
        while cells.last().is_some_and(|cell| *cell == Cell::BLANK) {
            cells.pop();
        }
        let used = cells.len() as u16;
        let mut row = Row {
            cells: cells.into(),
            used,
            wrapped: false,
            past,
        };
        row.find_used();
        row
    }

    /// Makes it an empty row that begins now, keeping the allocation.
    pub(crate) fn reset(&mut self, now: u64) {
        self.cells.clear();
        self.used = 0;
        self.wrapped = false;
        self.past = Past::begun(now);
    }

    /// One past the last printed cell.
    pub(crate) fn used(&self) -> usize {
        usize::from(self.used)
    }

    /// The cells up to the last that is more than an unstyled blank.
    pub(crate) fn cells(&self) -> &[Cell] {
        let end = self
            .cells
            .iter()
            .rposition(|cell| *cell != Cell::BLANK)
            .map_or(0, |last| last + 1);
        &self.cells[..end]
    }

    /// A number by which the row is known again: rows that look different have different ones. It costs something only
    /// when the row was written to since it was last asked for.
    pub(crate) fn known_by(&self, clusters: &Clusters) -> u64 {
        if let Some(known) = self.cells.known_by.get() {
            return known;
        }
        let mut hasher = DefaultHasher::new();
        for cell in self.cells() {
            match cell.glyph() {
                Glyph::Cluster(number) => clusters.get(number).hash(&mut hasher),
                Glyph::Blank | Glyph::Spacer | Glyph::Char(_) => {}
            }
            let [first, second] = cell.words();
            hasher.write_u64(first);
            hasher.write_u64(second);
        }
        let known = hasher.finish();
        self.cells.known_by.set(Some(known));
        known
    }

    pub(crate) fn cells_mut(&mut self) -> &mut [Cell] {
        &mut self.cells
    }

    pub(crate) fn cell(&self, x: usize) -> Cell {
        self.cells.get(x).copied().unwrap_or(Cell::BLANK)
    }

    /// Whether the line goes on in the next row: the text ran over the edge.
    pub(crate) fn wrapped(&self) -> bool {
        self.wrapped
    }

    pub(crate) fn set_wrapped(&mut self, wrapped: bool, now: u64) {
        if self.wrapped != wrapped {
            self.wrapped = wrapped;
            self.past.rewrapped = now;
        }
    }

    /// Notes that the row is somewhere else in the text than it was.
    pub(crate) fn moved(&mut self, now: u64) {
        self.past.created = now;
    }

    /// Writes printable ASCII at `x`; it must fit into `cols`. `now` is the offset of its last byte.
    pub(crate) fn put_ascii(&mut self, x: usize, run: &[u8], style: Style, cols: usize, now: u64) {
        let end = x + run.len();
        let start = now.saturating_sub(run.len() as u64);
        self.open(x, end, start, cols, now);
        let cells = run.iter().map(|&byte| Cell::ascii(byte, style));
        if self.cells.len() <= x {
            self.cells.resize(x, Cell::BLANK);
            self.cells.extend(cells);
        } else {
            if self.cells.len() < end {
                self.cells.resize(end, Cell::BLANK);
            }
            for (cell, new) in self.cells[x..end].iter_mut().zip(cells) {
                *cell = new;
            }
        }
    }

    /// Writes one character of `width` columns at `x`; it must fit into `cols`.
    pub(crate) fn put(&mut self, x: usize, cell: Cell, width: usize, cols: usize, now: u64) {
        let end = x + width;
        self.open(x, end, now.saturating_sub(1), cols, now);
        if self.cells.len() < end {
            self.cells.resize(end, Cell::BLANK);
        }
        self.cells[x] = cell;
        if width == 2 {
            self.cells[x + 1] = Cell::spacer(cell.style);
        }
    }

    /// Replaces the character at `x` by one with more marks; its width stays.
    pub(crate) fn join(&mut self, x: usize, cell: Cell, now: u64) {
        // The line's text changes before its end only if something follows the cell.
        let end = x + if cell.is_wide() { 2 } else { 1 };
        self.past.touched = now;
        if end < self.used() || self.wrapped {
            self.past.rewrote(x, now);
        }
        if let Some(place) = self.cells.get_mut(x) {
            *place = cell;
        }
    }

    /// Erases `from..to`; `to` may lie beyond the edge.
    pub(crate) fn erase(&mut self, from: usize, to: usize, blank: Cell, cols: usize, now: u64) {
        let to = to.min(cols);
        if from >= to {
            return;
        }
        self.note(from, now);
        self.mend(from, now);
        self.mend(to, now);
        if to == cols {
            self.set_wrapped(false, now);
            self.cells.truncate(from);
        }
        if blank == Cell::BLANK {
            let end = to.min(self.cells.len());
            if from < end {
                self.cells[from..end].fill(blank);
            }
        } else {
            if self.cells.len() < to {
                self.cells.resize(to, Cell::BLANK);
            }
            self.cells[from..to].fill(blank);
        }
        if usize::from(self.used) <= to {
            self.used = self.used.min(from as u16);
        }
        self.find_used();
        if self.used == 0 && from == 0 {
            // Nothing of the old row is left: what is printed now starts a new one.
            let Past {
                touched, rewrapped, ..
            } = self.past;
            self.past = Past {
                touched,
                rewrapped,
                ..Past::begun(now)
            };
        }
    }

    /// Shifts what is at and right of `x` by `n`; what crosses the edge is lost.
    pub(crate) fn insert(&mut self, x: usize, n: usize, blank: Cell, cols: usize, now: u64) {
        let n = n.min(cols - x);
        self.note(x, now);
        self.mend(x, now);
        if x < self.cells.len() {
            self.mend(cols - n, now);
            self.cells.splice(x..x, std::iter::repeat_n(blank, n));
            self.cells.truncate(cols);
            self.used = self.cells.len() as u16;
        } else if blank != Cell::BLANK {
            self.cells.resize(x, Cell::BLANK);
            self.cells.resize(x + n, blank);
        }
        self.set_wrapped(false, now);
        self.find_used();
    }

    /// Removes `n` cells at `x`; blanks come in at the edge.
    pub(crate) fn delete(&mut self, x: usize, n: usize, blank: Cell, cols: usize, now: u64) {
        let n = n.min(cols - x);
        self.note(x, now);
        self.mend(x, now);
        self.mend(x + n, now);
        if blank != Cell::BLANK {
            self.cells.resize(cols, Cell::BLANK);
        }
        if x < self.cells.len() {
            let end = (x + n).min(self.cells.len());
            self.cells.drain(x..end);
        }
        if blank != Cell::BLANK {
            self.cells.resize(cols, blank);
        }
        self.set_wrapped(false, now);
        self.used = self.cells.len() as u16;
        self.find_used();
    }

    /// Cuts the row to a narrower screen.
    pub(crate) fn truncate(&mut self, cols: usize, now: u64) {
        if self.cells.len() > cols {
            self.erase(
                cols,
                usize::from(u16::MAX),
                Cell::BLANK,
                usize::from(u16::MAX),
                now,
            );
        }
    }

    /// Appends the row's text; blanks before its end are spaces.
    pub(crate) fn text_into(&self, clusters: &Clusters, out: &mut String) {
        self.text_range_into(0, self.used(), clusters, out);
    }

    /// Appends the text of some of its cells.
    pub(crate) fn text_range_into(
        &self,
        from: usize,
        to: usize,
        clusters: &Clusters,
        out: &mut String,
    ) {
        let cells = &self.cells[from..to];
        out.reserve(cells.len());
        for cell in cells {
            if let Some(byte) = cell.as_ascii() {
                out.push(char::from(byte));
                continue;
            }
            match cell.glyph() {
                Glyph::Spacer => (),
                Glyph::Blank => out.push(' '),
                Glyph::Char(c) => out.push(c),
                Glyph::Cluster(number) => out.push_str(clusters.get(number)),
            }
        }
    }

    /// How many characters of text the first `x` cells hold; cells that were never printed count, if text follows.
    pub(crate) fn chars_before(&self, x: usize, clusters: &Clusters) -> usize {
        let cells = &self.cells[..x.min(self.used())];
        cells.iter().map(|cell| chars(*cell, clusters)).sum()
    }

    /// Makes room for text in `x..end` whose bytes are those from `start` to `now`, as if they came one by one.
    fn open(&mut self, x: usize, end: usize, start: u64, cols: usize, now: u64) {
        self.past.touched = now;
        let used = self.used();
        if self.wrapped {
            self.past.rewrote(x, now);
        } else if x < used {
            self.past
                .rewrote(x, now.min(start + self.overlap(x, end) as u64));
        }
        if x < self.cells.len() {
            self.mend(x, start + 1);
            self.mend(end, now);
        }
        self.used = self.used.max(end as u16);
        if end == cols {
            self.set_wrapped(false, now);
        }
    }

    /// How many of the cells `x..end` replace text. The right half of a wide character at the end of the text is
    /// none: it goes when its left half does.
    fn overlap(&self, x: usize, end: usize) -> usize {
        let used = self.used();
        let half = used - x >= 2 && end >= used && self.cell(used - 1).is_spacer();
        used.min(end) - x - usize::from(half)
    }

    /// Notes a change at and right of `from`, if there is text.
    fn note(&mut self, from: usize, now: u64) {
        if from < self.used() {
            self.past.touched = now;
            self.past.rewrote(from, now);
        }
    }

    /// Blanks a wide character whose halves lie on both sides of `x`.
    fn mend(&mut self, x: usize, now: u64) {
        if x > 0 && self.cells.get(x).is_some_and(|cell| cell.is_spacer()) {
            self.cells[x - 1] = Cell::BLANK;
            self.cells[x] = Cell::BLANK;
            self.past.touched = self.past.touched.max(now);
            self.past.rewrote(x - 1, now);
            self.find_used();
        }
    }

    fn find_used(&mut self) {
        let mut used = self.used().min(self.cells.len());
        while used > 0 && self.cells[used - 1].is_blank() {
            used -= 1;
        }
        self.used = used as u16;
    }
}

impl Past {
    fn begun(now: u64) -> Self {
        Past {
            touched: 0,
            created: now,
            rewritten: 0,
            low: NEVER,
            rewrapped: 0,
        }
    }

    fn rewrote(&mut self, x: usize, now: u64) {
        self.rewritten = self.rewritten.max(now);
        self.low = self.low.min(x as u16);
    }
}

fn chars(cell: Cell, clusters: &Clusters) -> usize {
    match cell.glyph() {
        Glyph::Spacer => 0,
        Glyph::Blank | Glyph::Char(_) => 1,
        Glyph::Cluster(number) => clusters.get(number).chars().count(),
    }
}
