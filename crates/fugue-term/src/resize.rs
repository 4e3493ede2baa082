//! A new size: lines of the main screen are wrapped anew, the alternate screen is cut.
//!
//! What left the screen stays where it is, so no line changes its number: a line that began above the screen is
//! wrapped anew only from the first visible row on.

use std::collections::VecDeque;

use crate::TerminalSize;
use crate::cell::Cell;
use crate::grid::{Grid, Point, Saved, World};
use crate::machine::Machine;
use crate::row::{NEVER, Past, Row};

impl Machine {
    pub(crate) fn resize(&mut self, size: TerminalSize) {
        let (rows, cols) = (usize::from(size.rows), usize::from(size.cols));
        if (rows, cols) == (self.main.height(), self.main.cols) {
            return;
        }
        let now = self.now;
        let cursor = self.shown().cursor;
        self.changed = now;
        self.last = None;
        self.tabs.resize(cols);
        let world = World {
            now,
            pen: Default::default(),
            history: Some(&mut self.history),
            clusters: &self.clusters,
        };
        self.main.reflow(rows, cols, world);
        if let Some(alt) = &mut self.alt {
            alt.cut(rows, cols, now);
        }
        if let Some(saved) = &mut self.alt_saved {
            saved.clamp(rows, cols);
        }
        self.tap_resized(cursor);
    }
}

impl Grid {
    /// Wraps the lines anew. Rows for which there is no room leave at the top.
    fn reflow(&mut self, rows: usize, cols: usize, mut world: World<'_>) {
        let now = world.now;
        let filled = self
            .rows
            .iter()
            .rposition(|row| !row.cells().is_empty())
            .map_or(0, |last| last + 1);
        let used = filled.max(self.cursor.y + 1);
        if cols != self.cols {
            let renumbered = world
                .history
                .as_ref()
                .map_or(0, |history| history.renumbered());
            self.rewrap(used, cols, renumbered, now);
        } else {
            self.rows.truncate(used);
        }
        while self.rows.len() > rows {
            if let (Some(row), Some(history)) = (self.rows.pop_front(), &mut world.history) {
                history.push(&row, world.clusters);
            }
            self.cursor.y = self.cursor.y.saturating_sub(1);
        }
        self.rows.resize_with(rows, || Row::new(now));
        self.rows.shrink_to(rows);
        self.finish_resize(cols, now);
    }

    fn rewrap(&mut self, used: usize, cols: usize, mut renumbered: u64, now: u64) {
        let mut old: Vec<Row> = self.rows.drain(..).take(used).collect();
        for row in &mut old {
            row.past.created = row.past.created.max(renumbered);
            renumbered = renumbered.max(row.past.rewrapped);
        }
        let mut fresh = VecDeque::new();
        let mut start = 0;
        let mut cursor = Point::default();
        while start < old.len() {
            let end = old[start..]
                .iter()
                .position(|row| !row.wrapped())
                .map_or(old.len(), |n| start + n + 1);
            let line = Wrapped::new(&old[start..end], self.cols, cols);
            if (start..end).contains(&self.cursor.y) {
                let at = line.starts[self.cursor.y - start] + self.cursor.x;
                cursor = line.find(at);
                cursor.y += fresh.len();
            }
            fresh.extend(line.rows);
            start = end;
        }
        while fresh.len() <= cursor.y {
            fresh.push_back(Row::new(now));
        }
        self.rows = fresh;
        self.cursor = cursor;
    }

    /// Cuts or pads the rows; of those that are too many the ones above the cursor go last.
    fn cut(&mut self, rows: usize, cols: usize, now: u64) {
        let above = (self.cursor.y + 1).saturating_sub(rows);
        self.rows.drain(..above);
        self.cursor.y -= above;
        self.rows.truncate(rows);
        self.rows.resize_with(rows, || Row::new(now));
        for row in &mut self.rows {
            row.truncate(cols, now);
            row.set_wrapped(false, now);
        }
        self.finish_resize(cols, now);
    }

    fn finish_resize(&mut self, cols: usize, now: u64) {
        let rows = self.rows.len();
        self.cols = cols;
        (self.top, self.bottom) = (0, rows - 1);
        self.rows[rows - 1].set_wrapped(false, now);
        self.settle();
        if let Some(saved) = &mut self.saved {
            saved.clamp(rows, cols);
        }
    }
}

impl Saved {
    fn clamp(&mut self, rows: usize, cols: usize) {
        self.cursor.x = self.cursor.x.min(cols);
        self.cursor.y = self.cursor.y.min(rows - 1);
    }
}

/// One line in rows of the new width.
struct Wrapped {
    rows: Vec<Row>,
    /// Where each of its old rows began, in cells of the line.
    starts: Vec<usize>,
    /// Where each of its new rows begins.
    breaks: Vec<usize>,
    cols: usize,
}

impl Wrapped {
    fn new(old: &[Row], old_cols: usize, cols: usize) -> Self {
        let mut cells: Vec<Cell> = Vec::new();
        let mut starts = Vec::new();
        let mut low = usize::MAX;
        let mut past = Past {
            low: NEVER,
            rewrapped: 0,
            ..old[0].past
        };
        for row in old {
            starts.push(cells.len());
            if row.past.low != NEVER {
                low = low.min(cells.len() + usize::from(row.past.low));
            }
            past.touched = past.touched.max(row.past.touched);
            past.rewritten = past.rewritten.max(row.past.rewritten);
            let begin = cells.len();
            cells.extend_from_slice(row.cells());
            if row.wrapped() {
                // A blank at the edge is where a wide character did not fit.
                let full = if row.cell(old_cols - 1).is_blank() {
                    old_cols - 1
                } else {
                    old_cols
                };
                cells.resize(begin + full, Cell::BLANK);
            }
        }
        let mut line = Wrapped {
            rows: Vec::new(),
            starts,
            breaks: vec![0],
            cols,
        };
        let mut rest = &cells[..];
        let mut begin = 0;
        loop {
            let mut end = rest.len().min(cols);
            if end < rest.len() && rest[end].is_spacer() {
                end -= 1;
            }
            let row_past = past.for_row(low, begin, begin + end, line.rows.is_empty());
            let mut piece = rest[..end].to_vec();
            rest = &rest[end..];
            begin += end;
            if let (Some(edge), false, true) = (piece.last_mut(), rest.is_empty(), end == cols) {
                // A gap in the text that now meets the edge must not look like a place that was too narrow.
                if edge.is_blank() {
                    *edge = Cell::ascii(b' ', edge.style);
                }
            }
            let mut row = Row::from_cells(piece, row_past);
            row.set_wrapped(!rest.is_empty(), 0);
            line.rows.push(row);
            if rest.is_empty() {
                return line;
            }
            line.breaks.push(begin);
        }
    }

    /// Where a cell of the line is now; beyond its end counts from there.
    fn find(&self, at: usize) -> Point {
        let y = self.breaks.partition_point(|&begin| begin <= at) - 1;
        let y = y.min(self.rows.len() - 1);
        // Just behind a full last row is where the next character wraps.
        Point {
            x: at.saturating_sub(self.breaks[y]).min(self.cols),
            y,
        }
    }
}

impl Past {
    fn for_row(&self, low: usize, begin: usize, end: usize, first: bool) -> Past {
        let low = if low >= begin && (low < end || end == begin) {
            (low - begin) as u16
        } else {
            NEVER
        };
        // Later rows are as old as their line for all we know now; their past counts from its last change.
        let created = if first {
            self.created
        } else {
            self.created.max(self.rewritten)
        };
        Past {
            low,
            created,
            ..*self
        }
    }
}
