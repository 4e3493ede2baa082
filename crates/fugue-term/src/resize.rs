//! Resizing: lines of the main screen are reflowed, the alternate screen is cut or padded.
//!
//! The history is not reflowed, so line numbers do not change: a line that begins in the history is reflowed only
//! from the first visible row on.

use std::collections::VecDeque;

use crate::TerminalSize;
use crate::cell::Cell;
use crate::grid::{Grid, GridContext, Point, SavedCursor};
use crate::row::{NO_COLUMN, Row, RowChanges};
use crate::terminal_state::TerminalState;

impl TerminalState {
    pub(crate) fn resize(&mut self, size: TerminalSize) {
        let (rows, cols) = (usize::from(size.rows), usize::from(size.cols));
        if (rows, cols) == (self.main.height(), self.main.cols) {
            return;
        }
        let now = self.now;
        let cursor = self.active_grid().cursor;
        self.last_change = now;
        self.last_char = None;
        self.tabs.resize(cols);
        let context = GridContext {
            now,
            pen: Default::default(),
            history: Some(&mut self.history),
            clusters: &self.clusters,
        };
        self.main.reflow(rows, cols, context);
        if let Some(alt) = &mut self.alt {
            alt.cut(rows, cols, now);
        }
        if let Some(saved) = &mut self.alt_saved_cursor {
            saved.clamp(rows, cols);
        }
        self.stream_after_resize(cursor);
    }
}

impl Grid {
    /// Reflows the lines. Rows that no longer fit go to the history.
    fn reflow(&mut self, rows: usize, cols: usize, mut context: GridContext<'_>) {
        let now = context.now;
        let filled = self
            .rows
            .iter()
            .rposition(|row| !row.cells().is_empty())
            .map_or(0, |last| last + 1);
        let used = filled.max(self.cursor.y + 1);
        if cols != self.cols {
            let renumbered_at = context
                .history
                .as_ref()
                .map_or(0, |history| history.renumbered_at());
            self.rewrap(used, cols, renumbered_at, now);
        } else {
            self.rows.truncate(used);
        }
        while self.rows.len() > rows {
            if let (Some(row), Some(history)) = (self.rows.pop_front(), &mut context.history) {
                history.push(&row, context.clusters);
            }
            self.cursor.y = self.cursor.y.saturating_sub(1);
        }
        self.rows.resize_with(rows, || Row::new(now));
        self.rows.shrink_to(rows);
        self.finish_resize(cols, now);
    }

    fn rewrap(&mut self, used: usize, cols: usize, mut renumbered_at: u64, now: u64) {
        let mut old: Vec<Row> = self.rows.drain(..).take(used).collect();
        for row in &mut old {
            row.changes.created = row.changes.created.max(renumbered_at);
            renumbered_at = renumbered_at.max(row.changes.wrap_changed);
        }
        let mut fresh = VecDeque::new();
        let mut start = 0;
        let mut cursor = Point::default();
        while start < old.len() {
            let end = old[start..]
                .iter()
                .position(|row| !row.is_wrapped())
                .map_or(old.len(), |n| start + n + 1);
            let line = ReflowLine::new(&old[start..end], self.cols, cols);
            if (start..end).contains(&self.cursor.y) {
                let at = line.starts[self.cursor.y - start] + self.cursor.x;
                cursor = line.locate(at);
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

    /// Cuts or pads the rows. Rows below the cursor are dropped before rows above the cursor.
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
        self.clamp_cursor();
        if let Some(saved) = &mut self.saved_cursor {
            saved.clamp(rows, cols);
        }
    }
}

impl SavedCursor {
    fn clamp(&mut self, rows: usize, cols: usize) {
        self.cursor.x = self.cursor.x.min(cols);
        self.cursor.y = self.cursor.y.min(rows - 1);
    }
}

/// One line, reflowed to the new width.
struct ReflowLine {
    rows: Vec<Row>,
    /// The start of each old row, in cells of the line.
    starts: Vec<usize>,
    /// The start of each new row, in cells of the line.
    breaks: Vec<usize>,
    cols: usize,
}

impl ReflowLine {
    fn new(old: &[Row], old_cols: usize, cols: usize) -> Self {
        let mut cells: Vec<Cell> = Vec::new();
        let mut starts = Vec::new();
        let mut first_rewritten = usize::MAX;
        let mut changes = RowChanges {
            first_rewritten: NO_COLUMN,
            wrap_changed: 0,
            ..old[0].changes
        };
        for row in old {
            starts.push(cells.len());
            if row.changes.first_rewritten != NO_COLUMN {
                first_rewritten =
                    first_rewritten.min(cells.len() + usize::from(row.changes.first_rewritten));
            }
            changes.touched = changes.touched.max(row.changes.touched);
            changes.rewritten = changes.rewritten.max(row.changes.rewritten);
            let begin = cells.len();
            cells.extend_from_slice(row.cells());
            if row.is_wrapped() {
                // A blank at the edge is left where a wide character did not fit.
                let full = if row.cell(old_cols - 1).is_blank() {
                    old_cols - 1
                } else {
                    old_cols
                };
                cells.resize(begin + full, Cell::BLANK);
            }
        }
        let mut line = ReflowLine {
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
            let row_changes =
                changes.for_reflowed_row(first_rewritten, begin, begin + end, line.rows.is_empty());
            let mut piece = rest[..end].to_vec();
            rest = &rest[end..];
            begin += end;
            if let (Some(edge), false, true) = (piece.last_mut(), rest.is_empty(), end == cols) {
                // A gap in the text that now ends at the edge must not look like a blank left by a wide character
                // that did not fit.
                if edge.is_blank() {
                    *edge = Cell::ascii(b' ', edge.style);
                }
            }
            let mut row = Row::from_cells(piece, row_changes);
            row.set_wrapped(!rest.is_empty(), 0);
            line.rows.push(row);
            if rest.is_empty() {
                return line;
            }
            line.breaks.push(begin);
        }
    }

    /// The new position of a cell of the line; cells after the end count from the last row.
    fn locate(&self, at: usize) -> Point {
        let y = self.breaks.partition_point(|&begin| begin <= at) - 1;
        let y = y.min(self.rows.len() - 1);
        // The position just after a full last row is past the last column: the next character wraps.
        Point {
            x: at.saturating_sub(self.breaks[y]).min(self.cols),
            y,
        }
    }
}

impl RowChanges {
    fn for_reflowed_row(
        &self,
        first_rewritten: usize,
        begin: usize,
        end: usize,
        first: bool,
    ) -> RowChanges {
        let first_rewritten = if first_rewritten >= begin && (first_rewritten < end || end == begin)
        {
            (first_rewritten - begin) as u16
        } else {
            NO_COLUMN
        };
        // The age of later rows is unknown after a reflow: such a row counts as created at the line's last rewrite.
        let created = if first {
            self.created
        } else {
            self.created.max(self.rewritten)
        };
        RowChanges {
            first_rewritten,
            created,
            ..*self
        }
    }
}
