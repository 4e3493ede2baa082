//! One row of the screen, and the offsets at which the row changed.
//!
//! A row stores its cells up to the last cell that differs from a blank, so an empty row needs no allocation.
//! [`RowChanges`] records enough to determine which part of the row is new since a given offset: see
//! [`RowChanges::is_prefix_unchanged`].

use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::{Deref, DerefMut};

use crate::cell::{Cell, Glyph, Style};
use crate::clusters::ClusterTable;

/// One row of cells.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    cells: RowCells,
    /// One past the last printed cell. Cells beyond are not text.
    used: u16,
    wrapped: bool,
    pub(crate) changes: RowChanges,
}

/// Cells with a cached hash, which mutable access clears.
#[derive(Clone, Debug, Default)]
struct RowCells {
    cells: Vec<Cell>,
    hash: std::cell::Cell<Option<u64>>,
}

impl Deref for RowCells {
    type Target = Vec<Cell>;

    fn deref(&self) -> &Vec<Cell> {
        &self.cells
    }
}

impl DerefMut for RowCells {
    fn deref_mut(&mut self) -> &mut Vec<Cell> {
        self.hash.set(None);
        &mut self.cells
    }
}

impl From<Vec<Cell>> for RowCells {
    fn from(cells: Vec<Cell>) -> Self {
        RowCells {
            cells,
            ..Self::default()
        }
    }
}

/// The offsets at which a row changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RowChanges {
    /// The last change of any kind; 0 if the row never changed.
    pub(crate) touched: u64,
    /// When the row became an empty row at its current position in the text.
    pub(crate) created: u64,
    /// The last change other than appending to the end.
    pub(crate) rewritten: u64,
    /// The leftmost column changed by such a rewrite since the row was last empty; `NO_COLUMN` without a rewrite.
    pub(crate) first_rewritten: u16,
    /// The last time that `wrapped` changed. Such a change renumbers the lines below.
    pub(crate) wrap_changed: u64,
}

/// No column: the row was only appended to.
pub(crate) const NO_COLUMN: u16 = u16::MAX;

impl Row {
    /// An empty row created at offset `now`.
    pub(crate) fn new(now: u64) -> Self {
        Row {
            cells: RowCells::default(),
            used: 0,
            wrapped: false,
            changes: RowChanges::created_at(now),
        }
    }

    /// A row made of given cells, for reflow. Trailing blanks are dropped.
    pub(crate) fn from_cells(mut cells: Vec<Cell>, changes: RowChanges) -> Self {
        while cells.last().is_some_and(|cell| *cell == Cell::BLANK) {
            cells.pop();
        }
        let used = cells.len() as u16;
        let mut row = Row {
            cells: cells.into(),
            used,
            wrapped: false,
            changes,
        };
        row.update_used();
        row
    }

    /// Makes the row empty and created at `now`, and keeps its allocation.
    pub(crate) fn reset(&mut self, now: u64) {
        self.cells.clear();
        self.used = 0;
        self.wrapped = false;
        self.changes = RowChanges::created_at(now);
    }

    /// One past the last printed cell.
    pub(crate) fn used(&self) -> usize {
        usize::from(self.used)
    }

    /// The cells up to the last cell that is not an unstyled blank.
    pub(crate) fn cells(&self) -> &[Cell] {
        let end = self
            .cells
            .iter()
            .rposition(|cell| *cell != Cell::BLANK)
            .map_or(0, |last| last + 1);
        &self.cells[..end]
    }

    /// A hash of the cells: rows that look different have different hashes. Computed again only after the row was
    /// written to.
    pub(crate) fn content_hash(&self, clusters: &ClusterTable) -> u64 {
        if let Some(hash) = self.cells.hash.get() {
            return hash;
        }
        let mut hasher = DefaultHasher::new();
        for cell in self.cells() {
            match cell.glyph() {
                Glyph::Cluster(number) => clusters.get(number).hash(&mut hasher),
                Glyph::Blank | Glyph::Spacer | Glyph::Char(_) => {}
            }
            let [first, second] = cell.hash_words();
            hasher.write_u64(first);
            hasher.write_u64(second);
        }
        let hash = hasher.finish();
        self.cells.hash.set(Some(hash));
        hash
    }

    pub(crate) fn cells_mut(&mut self) -> &mut [Cell] {
        &mut self.cells
    }

    pub(crate) fn cell(&self, x: usize) -> Cell {
        self.cells.get(x).copied().unwrap_or(Cell::BLANK)
    }

    /// Whether the line continues in the next row because its text passed the right edge.
    pub(crate) fn is_wrapped(&self) -> bool {
        self.wrapped
    }

    pub(crate) fn set_wrapped(&mut self, wrapped: bool, now: u64) {
        if self.wrapped != wrapped {
            self.wrapped = wrapped;
            self.changes.wrap_changed = now;
        }
    }

    /// Records that the row has moved within the text.
    pub(crate) fn mark_moved(&mut self, now: u64) {
        self.changes.created = now;
    }

    /// Writes printable ASCII at `x`. The run must fit into `cols`; `now` is the offset of its last byte.
    pub(crate) fn put_ascii(&mut self, x: usize, run: &[u8], style: Style, cols: usize, now: u64) {
        let end = x + run.len();
        let start = now.saturating_sub(run.len() as u64);
        self.prepare_write(x, end, start, cols, now);
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

    /// Writes one character of `width` columns at `x`. The character must fit into `cols`.
    pub(crate) fn put(&mut self, x: usize, cell: Cell, width: usize, cols: usize, now: u64) {
        let end = x + width;
        self.prepare_write(x, end, now.saturating_sub(1), cols, now);
        if self.cells.len() < end {
            self.cells.resize(end, Cell::BLANK);
        }
        self.cells[x] = cell;
        if width == 2 {
            self.cells[x + 1] = Cell::spacer(cell.style);
        }
    }

    /// Replaces the character at `x` by the same character with more combining marks. The width stays.
    pub(crate) fn replace_cluster(&mut self, x: usize, cell: Cell, now: u64) {
        // The change rewrites the line before its end only if text follows the cell.
        let end = x + if cell.is_wide() { 2 } else { 1 };
        self.changes.touched = now;
        if end < self.used() || self.wrapped {
            self.changes.record_rewrite(x, now);
        }
        if let Some(slot) = self.cells.get_mut(x) {
            *slot = cell;
        }
    }

    /// Erases `from..to`; `to` may lie beyond the edge.
    pub(crate) fn erase(&mut self, from: usize, to: usize, blank: Cell, cols: usize, now: u64) {
        let to = to.min(cols);
        if from >= to {
            return;
        }
        self.record_rewrite(from, now);
        self.blank_split_wide(from, now);
        self.blank_split_wide(to, now);
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
        self.update_used();
        if self.used == 0 && from == 0 {
            // The row is completely empty: text printed from now on belongs to a new row.
            let RowChanges {
                touched,
                wrap_changed,
                ..
            } = self.changes;
            self.changes = RowChanges {
                touched,
                wrap_changed,
                ..RowChanges::created_at(now)
            };
        }
    }

    /// Shifts the cells from `x` on to the right by `n`. Cells that cross the edge are lost.
    pub(crate) fn insert(&mut self, x: usize, n: usize, blank: Cell, cols: usize, now: u64) {
        let n = n.min(cols - x);
        self.record_rewrite(x, now);
        self.blank_split_wide(x, now);
        if x < self.cells.len() {
            self.blank_split_wide(cols - n, now);
            self.cells.splice(x..x, std::iter::repeat_n(blank, n));
            self.cells.truncate(cols);
            self.used = self.cells.len() as u16;
        } else if blank != Cell::BLANK {
            self.cells.resize(x, Cell::BLANK);
            self.cells.resize(x + n, blank);
        }
        self.set_wrapped(false, now);
        self.update_used();
    }

    /// Removes `n` cells at `x` and fills up with blanks at the edge.
    pub(crate) fn delete(&mut self, x: usize, n: usize, blank: Cell, cols: usize, now: u64) {
        let n = n.min(cols - x);
        self.record_rewrite(x, now);
        self.blank_split_wide(x, now);
        self.blank_split_wide(x + n, now);
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
        self.update_used();
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

    /// Appends the row's text. Blank cells before the end of the text become spaces.
    pub(crate) fn text_into(&self, clusters: &ClusterTable, out: &mut String) {
        self.text_range_into(0, self.used(), clusters, out);
    }

    /// Appends the text of a range of cells.
    pub(crate) fn text_range_into(
        &self,
        from: usize,
        to: usize,
        clusters: &ClusterTable,
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

    /// The number of characters in the first `x` cells. Blank cells count as one character each if text follows.
    pub(crate) fn chars_before(&self, x: usize, clusters: &ClusterTable) -> usize {
        let cells = &self.cells[..x.min(self.used())];
        cells.iter().map(|cell| char_count(*cell, clusters)).sum()
    }

    /// Records the write of bytes `start..now` to the cells `x..end` as if the bytes arrived one by one, and blanks
    /// wide characters that the write splits.
    fn prepare_write(&mut self, x: usize, end: usize, start: u64, cols: usize, now: u64) {
        self.changes.touched = now;
        let used = self.used();
        if self.wrapped {
            self.changes.record_rewrite(x, now);
        } else if x < used {
            self.changes
                .record_rewrite(x, now.min(start + self.overwritten_cells(x, end) as u64));
        }
        if x < self.cells.len() {
            self.blank_split_wide(x, start + 1);
            self.blank_split_wide(end, now);
        }
        self.used = self.used.max(end as u16);
        if end == cols {
            self.set_wrapped(false, now);
        }
    }

    /// How many of the cells `x..end` hold text that is overwritten. The right half of a wide character at the end of
    /// the text does not count, because it disappears together with the left half.
    fn overwritten_cells(&self, x: usize, end: usize) -> usize {
        let used = self.used();
        let half = used - x >= 2 && end >= used && self.cell(used - 1).is_spacer();
        used.min(end) - x - usize::from(half)
    }

    /// Records a change of the cells from `from` on, if the row has text there.
    fn record_rewrite(&mut self, from: usize, now: u64) {
        if from < self.used() {
            self.changes.touched = now;
            self.changes.record_rewrite(from, now);
        }
    }

    /// Blanks a wide character that starts in column `x - 1` and ends in column `x`.
    fn blank_split_wide(&mut self, x: usize, now: u64) {
        if x > 0 && self.cells.get(x).is_some_and(|cell| cell.is_spacer()) {
            self.cells[x - 1] = Cell::BLANK;
            self.cells[x] = Cell::BLANK;
            self.changes.touched = self.changes.touched.max(now);
            self.changes.record_rewrite(x - 1, now);
            self.update_used();
        }
    }

    fn update_used(&mut self) {
        let mut used = self.used().min(self.cells.len());
        while used > 0 && self.cells[used - 1].is_blank() {
            used -= 1;
        }
        self.used = used as u16;
    }
}

impl RowChanges {
    fn created_at(now: u64) -> Self {
        RowChanges {
            touched: 0,
            created: now,
            rewritten: 0,
            first_rewritten: NO_COLUMN,
            wrap_changed: 0,
        }
    }

    fn record_rewrite(&mut self, x: usize, now: u64) {
        self.rewritten = self.rewritten.max(now);
        self.first_rewritten = self.first_rewritten.min(x as u16);
    }
}

fn char_count(cell: Cell, clusters: &ClusterTable) -> usize {
    match cell.glyph() {
        Glyph::Spacer => 0,
        Glyph::Blank | Glyph::Char(_) => 1,
        Glyph::Cluster(number) => clusters.get(number).chars().count(),
    }
}
