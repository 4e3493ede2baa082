//! Looking back over a pane's text: where the person is in it, what is selected, what was searched for.
//!
//! The text is either the pane's lines, fetched as they come into sight and wrapped to the tile, or what the screen
//! showed at the moment when the person began to select.

mod search;

use std::{collections::BTreeMap, ops::Range};

use fugue_api::attach;

use super::view::cells;
use crate::canvas::{Cell, Glyph};

pub use search::{hits, pattern};

/// A place in the text: a line's number, and a cell in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    pub line: u64,
    pub col: usize,
}

/// A row on the screen: a line's number, and which of the rows that it is wrapped to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RowAt {
    pub line: u64,
    pub part: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The pane's lines, wherever they are kept.
    Text,
    /// What was on the screen then.
    Screen,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    Back,
    Forward,
}

impl Direction {
    pub fn turned(self) -> Self {
        match self {
            Self::Back => Self::Forward,
            Self::Forward => Self::Back,
        }
    }
}

pub struct Find {
    pub what: String,
    pub direction: Direction,
    /// The numbers of the lines that have it, ascending; `None` until they are known.
    pub lines: Option<Vec<u64>>,
    /// Some were left out of that.
    pub more: bool,
}

pub struct Scroll {
    pub source: Source,
    lines: BTreeMap<u64, Vec<Cell>>,
    kept: usize,
    /// The first line that is kept, and the one behind the last.
    pub kept_from: u64,
    pub end: u64,
    /// Whether these two are known.
    pub known: bool,
    /// Go so many rows up (negative) when they are.
    pending: i64,
    pub top: RowAt,
    pub cursor: Place,
    pub anchor: Option<Place>,
    pub find: Option<Find>,
    /// What is being typed behind `/` or `?`.
    pub prompt: Option<(Direction, String)>,
    /// The wheel brought us here, and takes us back.
    pub by_wheel: bool,
    rows: usize,
    cols: usize,
}

// What is kept of the text around the person: about twenty megabytes at the very most.
const MOST_CELLS: usize = 400_000;
// A line longer than that is cut; it would fill hundreds of screens.
const LONGEST_LINE: usize = 16_384;
/// Lines that are asked for at once.
pub const AT_ONCE: u32 = 200;

impl Scroll {
    /// At the lines that the screen shows now.
    pub fn text(top_line: u64, rows: u16, cols: u16) -> Self {
        let top = RowAt {
            line: top_line,
            part: 0,
        };
        Self {
            source: Source::Text,
            lines: BTreeMap::new(),
            kept: 0,
            kept_from: top_line,
            end: top_line + 1,
            known: false,
            pending: 0,
            top,
            cursor: Place {
                line: top_line,
                col: 0,
            },
            anchor: None,
            find: None,
            prompt: None,
            by_wheel: false,
            rows: usize::from(rows.max(1)),
            cols: usize::from(cols.max(2)),
        }
    }

    /// What the screen shows now, and nothing before it.
    pub fn screen(shown: &[Vec<Cell>], cols: u16, cursor: Place) -> Self {
        let mut scroll = Self::text(0, shown.len() as u16, cols);
        scroll.source = Source::Screen;
        scroll.lines = (0..).zip(shown.iter().cloned()).collect();
        scroll.end = shown.len() as u64;
        scroll.known = true;
        scroll.cursor = cursor;
        scroll
    }

    pub fn fit(&mut self, rows: u16, cols: u16) {
        self.rows = usize::from(rows.max(1));
        self.cols = usize::from(cols.max(2));
        self.top = self.nearest(RowAt {
            part: 0,
            ..self.top
        });
        self.keep_cursor_in_sight();
    }

    /// Lines came.
    pub fn take(&mut self, lines: attach::PaneLines) {
        if self.source != Source::Text {
            return;
        }
        let first = !self.known;
        self.known = true;
        self.kept_from = lines.kept_from;
        self.end = lines.end.max(lines.kept_from + 1);
        for (number, spans) in (lines.from..).zip(&lines.lines) {
            let cells = cells(spans, LONGEST_LINE);
            self.kept += cells.len() + 1;
            if let Some(before) = self.lines.insert(number, cells) {
                self.kept -= before.len() + 1;
            }
        }
        self.let_go();
        if first {
            self.top = self.nearest(self.top);
            let bottom = self.moved(self.top, self.rows as i64 - 1);
            self.cursor = self.place(bottom, 0);
        }
        let pending = std::mem::take(&mut self.pending);
        if pending != 0 {
            self.go(pending);
        }
        self.settle_on_hit();
        self.keep_cursor_in_sight();
    }

    /// The lines farthest away go first.
    fn let_go(&mut self) {
        while self.kept > MOST_CELLS && self.lines.len() > self.rows {
            let first = self.lines.first_key_value().map_or(0, |(line, _)| *line);
            let last = self.lines.last_key_value().map_or(0, |(line, _)| *line);
            let far = if self.top.line.abs_diff(first) > self.top.line.abs_diff(last) {
                first
            } else {
                last
            };
            if let Some(gone) = self.lines.remove(&far) {
                self.kept -= gone.len() + 1;
            }
        }
    }

    /// The first of the lines that should be there and are not.
    pub fn wants(&self) -> Option<u64> {
        if self.source == Source::Screen {
            return None;
        }
        if !self.known {
            return Some(self.top.line.saturating_sub(u64::from(AT_ONCE) / 2));
        }
        let around = self.rows as u64;
        let from = self.top.line.saturating_sub(around).max(self.kept_from);
        let to = (self.top.line + 2 * around).min(self.end);
        let missing = (from..to).find(|line| !self.lines.contains_key(line))?;
        // What is missing above is wanted with more above it.
        Some(if missing < self.top.line {
            missing
                .saturating_sub(u64::from(AT_ONCE) / 2)
                .max(self.kept_from)
        } else {
            missing
        })
    }

    pub fn line(&self, line: u64) -> &[Cell] {
        self.lines.get(&line).map_or(&[], |cells| cells)
    }

    /// Where a line is cut into rows.
    pub fn parts(&self, line: u64) -> Vec<Range<usize>> {
        let cells = self.line(line);
        let mut parts = Vec::new();
        let mut start = 0;
        while start < cells.len() || parts.is_empty() {
            let mut end = (start + self.cols).min(cells.len());
            // A wide character is not cut in two.
            if cells
                .get(end)
                .is_some_and(|cell| cell.glyph == Glyph::Right)
                && end > start + 1
            {
                end -= 1;
            }
            parts.push(start..end);
            start = end.max(start + 1);
        }
        parts
    }

    /// The rows in sight.
    pub fn in_sight(&self) -> Vec<(RowAt, Range<usize>)> {
        let mut shown = Vec::new();
        let mut line = self.top.line;
        let mut skip = self.top.part;
        while shown.len() < self.rows && line < self.end {
            for (part, range) in self.parts(line).into_iter().enumerate().skip(skip) {
                shown.push((RowAt { line, part }, range));
            }
            skip = 0;
            line += 1;
        }
        shown.truncate(self.rows);
        shown
    }

    pub fn row_of(&self, place: Place) -> RowAt {
        let parts = self.parts(place.line);
        let part = parts.iter().rposition(|part| part.start <= place.col);
        RowAt {
            line: place.line,
            part: part.unwrap_or(0),
        }
    }

    pub fn place(&self, row: RowAt, col: usize) -> Place {
        let parts = self.parts(row.line);
        let part = parts.get(row.part.min(parts.len().saturating_sub(1)));
        let part = part.cloned().unwrap_or(0..0);
        Place {
            line: row.line,
            col: (part.start + col).min(part.end.saturating_sub(1).max(part.start)),
        }
    }

    fn nearest(&self, row: RowAt) -> RowAt {
        let line = row.line.clamp(
            self.kept_from,
            self.end.saturating_sub(1).max(self.kept_from),
        );
        let parts = self.parts(line).len();
        RowAt {
            line,
            part: if line == row.line {
                row.part.min(parts - 1)
            } else {
                0
            },
        }
    }

    fn moved(&self, from: RowAt, by: i64) -> RowAt {
        let mut row = self.nearest(from);
        for _ in 0..by.unsigned_abs() {
            let parts = self.parts(row.line).len();
            let next = match by < 0 {
                true if row.part > 0 => RowAt {
                    part: row.part - 1,
                    ..row
                },
                true if row.line > self.kept_from => RowAt {
                    line: row.line - 1,
                    part: self.parts(row.line - 1).len() - 1,
                },
                false if row.part + 1 < parts => RowAt {
                    part: row.part + 1,
                    ..row
                },
                false if row.line + 1 < self.end => RowAt {
                    line: row.line + 1,
                    part: 0,
                },
                _ => break,
            };
            row = next;
        }
        row
    }

    /// The highest that the first row may be, so that the last is at the bottom.
    fn lowest_top(&self) -> RowAt {
        let last = self.end.saturating_sub(1).max(self.kept_from);
        let last = RowAt {
            line: last,
            part: self.parts(last).len() - 1,
        };
        self.moved(last, 1 - self.rows as i64)
    }

    pub fn is_at_bottom(&self) -> bool {
        self.known && self.top >= self.lowest_top()
    }

    /// How many lines lie above the screen.
    pub fn above(&self) -> u64 {
        self.top.line.saturating_sub(self.kept_from)
    }

    /// Moves the cursor by rows, and the screen with it where it must.
    pub fn go(&mut self, rows: i64) {
        if !self.known {
            self.pending += rows;
            return;
        }
        let at = self.row_of(self.cursor);
        let start = self
            .parts(at.line)
            .get(at.part)
            .map_or(0, |part| part.start);
        let col = self.cursor.col.saturating_sub(start);
        let to = self.moved(at, rows);
        self.cursor = self.place(to, col);
        self.keep_cursor_in_sight();
    }

    pub fn go_across(&mut self, cols: i64) {
        let most = self.line(self.cursor.line).len().saturating_sub(1) as i64;
        let mut col = (self.cursor.col as i64 + cols).clamp(0, most.max(0)) as usize;
        let right = |col: usize| {
            let cell = self.line(self.cursor.line).get(col);
            cell.is_some_and(|cell| cell.glyph == Glyph::Right)
        };
        if right(col) {
            col = if cols > 0 && (col as i64) < most {
                col + 1
            } else {
                col - 1
            };
        }
        self.cursor.col = col;
        self.keep_cursor_in_sight();
    }

    /// Moves the screen by rows, and the cursor with it.
    pub fn roll(&mut self, rows: i64) {
        if !self.known {
            self.pending += rows;
            return;
        }
        let shown = self.in_sight();
        let at = self.row_of(self.cursor);
        let down = shown.iter().position(|(row, _)| *row == at).unwrap_or(0);
        let before = self.top;
        self.top = self.moved(self.top, rows).min(self.lowest_top());
        if self.top == before {
            // There is no more text: the cursor goes to the end of it.
            return self.go(rows);
        }
        let row = self.moved(self.top, down as i64);
        self.cursor = self.place(row, 0);
    }

    pub fn page(&self) -> i64 {
        (self.rows as i64 - 2).max(1)
    }

    pub fn go_to_top(&mut self) {
        self.cursor = Place {
            line: self.kept_from,
            col: 0,
        };
        self.top = RowAt {
            line: self.kept_from,
            part: 0,
        };
    }

    pub fn go_to_bottom(&mut self) {
        self.top = self.lowest_top();
        let last = self.moved(self.top, self.rows as i64);
        self.cursor = self.place(last, 0);
    }

    pub fn go_to_line_start(&mut self) {
        self.cursor.col = 0;
    }

    pub fn go_to_line_end(&mut self) {
        self.cursor.col = self.line(self.cursor.line).len().saturating_sub(1);
        self.keep_cursor_in_sight();
    }

    fn keep_cursor_in_sight(&mut self) {
        if !self.known {
            return;
        }
        let at = self.nearest(self.row_of(self.cursor));
        self.cursor.line = at.line;
        if at < self.top {
            self.top = at;
        }
        let mut shown = self.in_sight();
        if shown.last().is_some_and(|(last, _)| *last < at) {
            self.top = self.moved(at, 1 - self.rows as i64);
            shown = self.in_sight();
        }
        // No gap is left below the last line.
        if shown.len() < self.rows {
            self.top = self.top.min(self.lowest_top());
        }
    }

    /// Where on its tile the cursor is: row and column.
    pub fn cursor_at(&self) -> Option<(u16, u16)> {
        let at = self.row_of(self.cursor);
        let shown = self.in_sight();
        let row = shown.iter().position(|(row, _)| *row == at)?;
        let col = self.cursor.col.saturating_sub(shown[row].1.start);
        Some((row as u16, col.min(self.cols - 1) as u16))
    }

    // Selection.

    pub fn select(&mut self) {
        self.anchor = match self.anchor {
            None => Some(self.cursor),
            Some(_) => None,
        };
    }

    /// What is selected, both ends included.
    pub fn selected(&self) -> Option<(Place, Place)> {
        let anchor = self.anchor?;
        Some((anchor.min(self.cursor), anchor.max(self.cursor)))
    }

    /// The text between the ends, or the cursor's line.
    pub fn copy(&self) -> String {
        let (from, to) = self.selected().unwrap_or_else(|| {
            let line = self.cursor.line;
            let end = self.line(line).len();
            (Place { line, col: 0 }, Place { line, col: end })
        });
        let mut text = String::new();
        for line in from.line..=to.line {
            let cells = self.line(line);
            let start = if line == from.line { from.col } else { 0 };
            let end = if line == to.line {
                to.col + 1
            } else {
                cells.len()
            };
            let mut part = String::new();
            for cell in cells.get(start..end.min(cells.len())).unwrap_or_default() {
                cell.glyph.push_to(&mut part);
            }
            // A row that is full to the edge has most likely run over into the next.
            let runs_on = self.source == Source::Screen
                && cells.len() >= self.cols
                && cells
                    .last()
                    .is_some_and(|cell| cell.glyph != Glyph::Char(' '));
            text.push_str(if runs_on { &part } else { part.trim_end() });
            if line < to.line && !runs_on {
                text.push('\n');
            }
        }
        text
    }
}

#[cfg(test)]
mod tests;
