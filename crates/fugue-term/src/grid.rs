//! The rows of one screen and the cursor on them: moving, scrolling, erasing.
//!
//! Rows that leave at the top are handed to the history if there is one (the main screen) and dropped if not (the
//! alternate one). Nothing here knows about escape sequences.

use std::collections::VecDeque;

use crate::cell::{Cell, Style};
use crate::charsets::Charsets;
use crate::clusters::Clusters;
use crate::history::History;
use crate::row::Row;

/// One screen.
#[derive(Debug)]
pub(crate) struct Grid {
    pub(crate) rows: VecDeque<Row>,
    pub(crate) cols: usize,
    pub(crate) cursor: Point,
    pub(crate) saved: Option<Saved>,
    /// First and last row of the scrolling region.
    pub(crate) top: usize,
    pub(crate) bottom: usize,
}

/// A place on the screen. `x == cols` is "behind the last column": the next character wraps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Point {
    pub(crate) x: usize,
    pub(crate) y: usize,
}

/// What saving the cursor keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Saved {
    pub(crate) cursor: Point,
    pub(crate) pen: Style,
    pub(crate) charsets: Charsets,
    pub(crate) origin: bool,
}

/// What happens around a change: when it is, what blanks look like, and who takes the rows that leave at the top.
pub(crate) struct World<'a> {
    pub(crate) now: u64,
    pub(crate) pen: Style,
    pub(crate) history: Option<&'a mut History>,
    pub(crate) clusters: &'a Clusters,
}

/// Where the text met the edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Edge {
    /// Behind the last column.
    Behind,
    /// On the last column, with a character that takes two.
    TooNarrow,
}

/// Why the screen scrolls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Because {
    /// A line ran over the edge in the last row: the two rows belong together.
    Wrapped,
    /// Anything else.
    Asked,
}

impl Grid {
    pub(crate) fn new(rows: usize, cols: usize, now: u64) -> Self {
        Grid {
            rows: (0..rows).map(|_| Row::new(now)).collect(),
            cols,
            cursor: Point::default(),
            saved: None,
            top: 0,
            bottom: rows - 1,
        }
    }

    pub(crate) fn height(&self) -> usize {
        self.rows.len()
    }

    /// The row the cursor is on.
    pub(crate) fn row(&mut self) -> &mut Row {
        &mut self.rows[self.cursor.y]
    }

    /// The last row with anything printed on it.
    pub(crate) fn last_used(&self) -> Option<usize> {
        self.rows.iter().rposition(|row| row.used() > 0)
    }

    /// The cursor's column on the screen, where "behind the last" is the last.
    pub(crate) fn column(&self) -> usize {
        self.cursor.x.min(self.cols - 1)
    }

    /// Moves to a place; beyond the edges is the edge.
    pub(crate) fn go(&mut self, x: usize, y: usize) {
        self.cursor = Point {
            x: x.min(self.cols - 1),
            y: y.min(self.height() - 1),
        };
    }

    /// Up by `n`, not over the region's top if it starts below it.
    pub(crate) fn up(&mut self, n: usize) {
        let stop = if self.cursor.y >= self.top {
            self.top
        } else {
            0
        };
        self.go(self.column(), self.cursor.y.saturating_sub(n).max(stop));
    }

    /// Down by `n`, not over the region's bottom if it starts above it.
    pub(crate) fn down(&mut self, n: usize) {
        let stop = if self.cursor.y <= self.bottom {
            self.bottom
        } else {
            self.height() - 1
        };
        self.go(self.column(), (self.cursor.y + n).min(stop));
    }

    /// To the next row, scrolling at the region's end.
    pub(crate) fn line_feed(&mut self, world: World<'_>) {
        let now = world.now;
        let row = self.row();
        if row.used() == 0 {
            // An empty line has been printed.
            row.past.touched = now;
        }
        self.next_row(world, Because::Asked);
    }

    /// The next character has no room: the cursor goes to the next row, and so does the line if it reached the edge.
    /// Gives whether it did.
    pub(crate) fn wrap(&mut self, edge: Edge, world: World<'_>) -> bool {
        let (y, last) = (self.cursor.y, self.height() - 1);
        // On the last row, outside the region, there is no next one: the row is written over.
        let goes_down = y == self.bottom || y < last;
        let reached = edge == Edge::TooNarrow || !self.rows[y].cell(self.cols - 1).is_blank();
        let goes_on = goes_down && reached;
        if goes_on {
            self.rows[y].set_wrapped(true, world.now);
            self.next_row(world, Because::Wrapped);
        } else {
            self.line_feed(world);
        }
        self.cursor.x = 0;
        goes_on
    }

    fn next_row(&mut self, world: World<'_>, because: Because) {
        if self.cursor.y == self.bottom {
            self.scroll_up(self.top, 1, world, because);
        } else if self.cursor.y < self.height() - 1 {
            self.cursor.y += 1;
        }
        self.settle();
    }

    /// To the row above, scrolling at the region's top.
    pub(crate) fn reverse_line_feed(&mut self, world: World<'_>) {
        if self.cursor.y == self.top {
            self.scroll_down(self.top, 1, world);
        } else {
            self.cursor.y = self.cursor.y.saturating_sub(1);
        }
        self.settle();
    }

    /// Rows `from..=bottom` move up by `n`; those that leave at the screen's top become history.
    pub(crate) fn scroll_up(
        &mut self,
        from: usize,
        n: usize,
        mut world: World<'_>,
        because: Because,
    ) {
        let n = n.min(self.bottom + 1 - from);
        if because == Because::Asked {
            self.rows[self.bottom].set_wrapped(false, world.now);
        }
        let whole_screen = from == 0 && self.bottom == self.height() - 1;
        if from > 0 {
            self.rows[from - 1].set_wrapped(false, world.now);
        }
        for _ in 0..n {
            let Some(mut row) = self.rows.remove(from) else {
                return;
            };
            if let (0, Some(history)) = (from, &mut world.history) {
                history.push(&row, world.clusters);
            }
            row.reset(world.now);
            self.rows.insert(self.bottom, row);
        }
        self.fill(self.bottom + 1 - n, self.bottom + 1, world.pen, world.now);
        if !whole_screen {
            self.moved(from, world.now);
        }
    }

    /// Rows `from..=bottom` move down by `n`; those that leave at the bottom are gone.
    pub(crate) fn scroll_down(&mut self, from: usize, n: usize, mut world: World<'_>) {
        let n = n.min(self.bottom + 1 - from);
        match from.checked_sub(1) {
            Some(above) => self.rows[above].set_wrapped(false, world.now),
            None => world
                .history
                .iter_mut()
                .for_each(|history| history.close_line(world.now)),
        }
        for _ in 0..n {
            let Some(mut row) = self.rows.remove(self.bottom) else {
                return;
            };
            row.reset(world.now);
            self.rows.insert(from, row);
        }
        self.fill(from, from + n, world.pen, world.now);
        self.rows[self.bottom].set_wrapped(false, world.now);
        self.moved(from, world.now);
    }

    /// Rows from `from` on are elsewhere in the text than they were; those below the region too, since there may be
    /// more or fewer lines above them now.
    fn moved(&mut self, from: usize, now: u64) {
        for row in self.rows.range_mut(from..) {
            row.moved(now);
        }
    }

    /// Inserts rows at the cursor, within the region.
    pub(crate) fn insert_rows(&mut self, n: usize, world: World<'_>) {
        if !(self.top..=self.bottom).contains(&self.cursor.y) {
            return;
        }
        self.scroll_down(self.cursor.y, n, world);
        self.settle();
    }

    /// Deletes rows at the cursor, within the region. They are gone, also at the top of the screen.
    pub(crate) fn delete_rows(&mut self, n: usize, mut world: World<'_>) {
        if !(self.top..=self.bottom).contains(&self.cursor.y) {
            return;
        }
        let (y, now) = (self.cursor.y, world.now);
        if let (0, Some(history)) = (y, world.history.take()) {
            history.close_line(now);
        }
        self.scroll_up(y, n, world, Because::Asked);
        self.moved(y, now);
        self.settle();
    }

    /// Gives empty rows the pen's background.
    fn fill(&mut self, from: usize, to: usize, pen: Style, now: u64) {
        let blank = Cell::blank(pen);
        if blank != Cell::BLANK {
            for row in self.rows.range_mut(from..to) {
                row.erase(0, self.cols, blank, self.cols, now);
            }
        }
    }

    /// Erases part of the cursor's row.
    pub(crate) fn erase_in_row(&mut self, from: usize, to: usize, pen: Style, now: u64) {
        let cols = self.cols;
        self.row().erase(from, to, Cell::blank(pen), cols, now);
    }

    /// Erases whole rows in place.
    pub(crate) fn erase_rows(&mut self, from: usize, to: usize, pen: Style, now: u64) {
        for row in self.rows.range_mut(from..to) {
            row.erase(0, self.cols, Cell::blank(pen), self.cols, now);
        }
    }

    /// Erases everything; what a person saw goes to the history first.
    pub(crate) fn clear(&mut self, mut world: World<'_>) {
        if let (Some(last), Some(history)) = (self.last_used(), &mut world.history) {
            for row in self.rows.range(..=last) {
                history.push(row, world.clusters);
            }
            history.close_line(world.now);
        }
        for row in &mut self.rows {
            row.reset(world.now);
        }
        self.fill(0, self.height(), world.pen, world.now);
    }

    /// Makes the rest hold together after the cursor or the rows under it were replaced: it is on the screen, and it
    /// is not behind the last column of a row whose line already goes on.
    pub(crate) fn settle(&mut self) {
        self.cursor.y = self.cursor.y.min(self.height() - 1);
        let most = if self.row().wrapped() {
            self.cols - 1
        } else {
            self.cols
        };
        self.cursor.x = self.cursor.x.min(most);
    }
}
