//! The rows of one screen and the cursor on them: moving, scrolling, erasing.
//!
//! Rows that scroll off the top are pushed to the history of the main screen; the alternate screen has no history and
//! drops them. The grid is independent of escape sequences.

use std::collections::VecDeque;

use crate::cell::{Cell, Style};
use crate::charsets::Charsets;
use crate::clusters::ClusterTable;
use crate::history::History;
use crate::row::Row;

/// The rows, cursor and scrolling region of one screen.
#[derive(Debug)]
pub(crate) struct Grid {
    pub(crate) rows: VecDeque<Row>,
    pub(crate) cols: usize,
    pub(crate) cursor: Point,
    pub(crate) saved_cursor: Option<SavedCursor>,
    /// First and last row of the scrolling region.
    pub(crate) top: usize,
    pub(crate) bottom: usize,
}

/// A cell position on the screen. `x == cols` means past the last column: the next character wraps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Point {
    pub(crate) x: usize,
    pub(crate) y: usize,
}

/// The state that DECSC (`ESC 7`) saves and DECRC (`ESC 8`) restores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SavedCursor {
    pub(crate) cursor: Point,
    pub(crate) pen: Style,
    pub(crate) charsets: Charsets,
    pub(crate) origin: bool,
}

/// What a grid operation needs besides the grid: the offset of the change, the pen for blank cells, and the history
/// for rows that scroll off the top.
pub(crate) struct GridContext<'a> {
    pub(crate) now: u64,
    pub(crate) pen: Style,
    pub(crate) history: Option<&'a mut History>,
    pub(crate) clusters: &'a ClusterTable,
}

/// How text reached the right edge of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowEdge {
    /// The cursor is past the last column.
    PastLastColumn,
    /// The cursor is on the last column and the next character needs two.
    TooNarrowForWide,
}

/// Why the grid scrolls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScrollCause {
    /// A line wrapped in the last row of the region: the last row and the new row belong to the same line.
    Wrap,
    /// A line feed or a scroll sequence.
    Other,
}

impl Grid {
    pub(crate) fn new(rows: usize, cols: usize, now: u64) -> Self {
        Grid {
            rows: (0..rows).map(|_| Row::new(now)).collect(),
            cols,
            cursor: Point::default(),
            saved_cursor: None,
            top: 0,
            bottom: rows - 1,
        }
    }

    pub(crate) fn height(&self) -> usize {
        self.rows.len()
    }

    /// The row that the cursor is on.
    pub(crate) fn cursor_row(&mut self) -> &mut Row {
        &mut self.rows[self.cursor.y]
    }

    /// The last row that contains printed text.
    pub(crate) fn last_used_row(&self) -> Option<usize> {
        self.rows.iter().rposition(|row| row.used() > 0)
    }

    /// The cursor's column, limited to the last column.
    pub(crate) fn cursor_column(&self) -> usize {
        self.cursor.x.min(self.cols - 1)
    }

    /// Moves the cursor, clamped to the screen.
    pub(crate) fn move_to(&mut self, x: usize, y: usize) {
        self.cursor = Point {
            x: x.min(self.cols - 1),
            y: y.min(self.height() - 1),
        };
    }

    /// Moves the cursor up by `n`. A cursor inside or below the scrolling region stops at the top of the region.
    pub(crate) fn move_up(&mut self, n: usize) {
        let stop = if self.cursor.y >= self.top {
            self.top
        } else {
            0
        };
        self.move_to(
            self.cursor_column(),
            self.cursor.y.saturating_sub(n).max(stop),
        );
    }

    /// Moves the cursor down by `n`. A cursor inside or above the scrolling region stops at the bottom of the region.
    pub(crate) fn move_down(&mut self, n: usize) {
        let stop = if self.cursor.y <= self.bottom {
            self.bottom
        } else {
            self.height() - 1
        };
        self.move_to(self.cursor_column(), (self.cursor.y + n).min(stop));
    }

    /// Moves the cursor to the next row and scrolls at the bottom of the region.
    pub(crate) fn line_feed(&mut self, context: GridContext<'_>) {
        let now = context.now;
        let row = self.cursor_row();
        if row.used() == 0 {
            // An empty line counts as printed.
            row.changes.touched = now;
        }
        self.next_row(context, ScrollCause::Other);
    }

    /// Moves the cursor to the next row because the next character does not fit. Marks the row as wrapped if its text
    /// reaches the edge, and returns whether the line continues in the next row.
    pub(crate) fn wrap(&mut self, edge: RowEdge, context: GridContext<'_>) -> bool {
        let (y, last) = (self.cursor.y, self.height() - 1);
        // The last row outside the region has no next row: the row is overwritten.
        let goes_down = y == self.bottom || y < last;
        let reached =
            edge == RowEdge::TooNarrowForWide || !self.rows[y].cell(self.cols - 1).is_blank();
        let continues = goes_down && reached;
        if continues {
            self.rows[y].set_wrapped(true, context.now);
            self.next_row(context, ScrollCause::Wrap);
        } else {
            self.line_feed(context);
        }
        self.cursor.x = 0;
        continues
    }

    fn next_row(&mut self, context: GridContext<'_>, because: ScrollCause) {
        if self.cursor.y == self.bottom {
            self.scroll_up(self.top, 1, context, because);
        } else if self.cursor.y < self.height() - 1 {
            self.cursor.y += 1;
        }
        self.clamp_cursor();
    }

    /// Moves the cursor to the row above and scrolls at the top of the region.
    pub(crate) fn reverse_line_feed(&mut self, context: GridContext<'_>) {
        if self.cursor.y == self.top {
            self.scroll_down(self.top, 1, context);
        } else {
            self.cursor.y = self.cursor.y.saturating_sub(1);
        }
        self.clamp_cursor();
    }

    /// Moves rows `from..=bottom` up by `n`. Rows that leave at the top of the screen go to the history.
    pub(crate) fn scroll_up(
        &mut self,
        from: usize,
        n: usize,
        mut context: GridContext<'_>,
        because: ScrollCause,
    ) {
        let n = n.min(self.bottom + 1 - from);
        if because == ScrollCause::Other {
            self.rows[self.bottom].set_wrapped(false, context.now);
        }
        let whole_screen = from == 0 && self.bottom == self.height() - 1;
        if from > 0 {
            self.rows[from - 1].set_wrapped(false, context.now);
        }
        for _ in 0..n {
            let Some(mut row) = self.rows.remove(from) else {
                return;
            };
            if let (0, Some(history)) = (from, &mut context.history) {
                history.push(&row, context.clusters);
            }
            row.reset(context.now);
            self.rows.insert(self.bottom, row);
        }
        self.fill_background(
            self.bottom + 1 - n,
            self.bottom + 1,
            context.pen,
            context.now,
        );
        if !whole_screen {
            self.mark_moved(from, context.now);
        }
    }

    /// Moves rows `from..=bottom` down by `n`. Rows that leave at the bottom are dropped.
    pub(crate) fn scroll_down(&mut self, from: usize, n: usize, mut context: GridContext<'_>) {
        let n = n.min(self.bottom + 1 - from);
        match from.checked_sub(1) {
            Some(above) => self.rows[above].set_wrapped(false, context.now),
            None => context
                .history
                .iter_mut()
                .for_each(|history| history.close_line(context.now)),
        }
        for _ in 0..n {
            let Some(mut row) = self.rows.remove(self.bottom) else {
                return;
            };
            row.reset(context.now);
            self.rows.insert(from, row);
        }
        self.fill_background(from, from + n, context.pen, context.now);
        self.rows[self.bottom].set_wrapped(false, context.now);
        self.mark_moved(from, context.now);
    }

    /// Records that the rows from `from` on have moved within the text. Rows below the region are included, because
    /// the number of lines above them may have changed.
    fn mark_moved(&mut self, from: usize, now: u64) {
        for row in self.rows.range_mut(from..) {
            row.mark_moved(now);
        }
    }

    /// Inserts rows at the cursor, within the region.
    pub(crate) fn insert_rows(&mut self, n: usize, context: GridContext<'_>) {
        if !(self.top..=self.bottom).contains(&self.cursor.y) {
            return;
        }
        self.scroll_down(self.cursor.y, n, context);
        self.clamp_cursor();
    }

    /// Deletes rows at the cursor, within the region. Deleted rows do not go to the history, not even from the top of
    /// the screen.
    pub(crate) fn delete_rows(&mut self, n: usize, mut context: GridContext<'_>) {
        if !(self.top..=self.bottom).contains(&self.cursor.y) {
            return;
        }
        let (y, now) = (self.cursor.y, context.now);
        if let (0, Some(history)) = (y, context.history.take()) {
            history.close_line(now);
        }
        self.scroll_up(y, n, context, ScrollCause::Other);
        self.mark_moved(y, now);
        self.clamp_cursor();
    }

    /// Gives empty rows the background colour of the pen.
    fn fill_background(&mut self, from: usize, to: usize, pen: Style, now: u64) {
        let blank = Cell::blank(pen);
        if blank != Cell::BLANK {
            for row in self.rows.range_mut(from..to) {
                row.erase(0, self.cols, blank, self.cols, now);
            }
        }
    }

    /// Erases cells of the cursor's row.
    pub(crate) fn erase_in_row(&mut self, from: usize, to: usize, pen: Style, now: u64) {
        let cols = self.cols;
        self.cursor_row()
            .erase(from, to, Cell::blank(pen), cols, now);
    }

    /// Erases whole rows in place.
    pub(crate) fn erase_rows(&mut self, from: usize, to: usize, pen: Style, now: u64) {
        for row in self.rows.range_mut(from..to) {
            row.erase(0, self.cols, Cell::blank(pen), self.cols, now);
        }
    }

    /// Erases the whole screen. The main screen's text goes to the history first.
    pub(crate) fn clear(&mut self, mut context: GridContext<'_>) {
        if let (Some(last), Some(history)) = (self.last_used_row(), &mut context.history) {
            for row in self.rows.range(..=last) {
                history.push(row, context.clusters);
            }
            history.close_line(context.now);
        }
        for row in &mut self.rows {
            row.reset(context.now);
        }
        self.fill_background(0, self.height(), context.pen, context.now);
    }

    /// Clamps the cursor after the cursor or the rows under it were replaced: to the screen, and to the last column
    /// if the line of the cursor's row already continues in the next row.
    pub(crate) fn clamp_cursor(&mut self) {
        self.cursor.y = self.cursor.y.min(self.height() - 1);
        let max_x = if self.cursor_row().is_wrapped() {
            self.cols - 1
        } else {
            self.cols
        };
        self.cursor.x = self.cursor.x.min(max_x);
    }
}
