//! The scroll view of a pane: position, selection and search.
//!
//! The text is either the pane's lines, fetched as they become visible and wrapped to the tile, or a copy of the screen from the
//! moment when the person began to select.

mod search;

use std::{collections::BTreeMap, ops::Range};

use fugue_api::attach;

use super::view::cells;
use crate::buffer::{CellGlyph, StyledCell};

pub use search::{find_matches, grep_pattern};

/// A position in the text: a line number, and a cell in the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ScrollPosition {
    pub line: u64,
    pub col: usize,
}

/// A row on the screen: a line number, and the index among the rows that the line is wrapped to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ScrollRow {
    pub line: u64,
    pub part: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScrollSource {
    /// The pane's lines, fetched from the daemon.
    Text,
    /// A copy of the screen.
    Screen,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SearchDirection {
    Back,
    Forward,
}

impl SearchDirection {
    pub fn reversed(self) -> Self {
        match self {
            Self::Back => Self::Forward,
            Self::Forward => Self::Back,
        }
    }
}

pub struct TextSearch {
    pub what: String,
    pub direction: SearchDirection,
    /// The numbers of the matching lines, ascending; `None` until the result is there.
    pub lines: Option<Vec<u64>>,
    /// Whether matches were left out.
    pub more: bool,
}

pub struct ScrollView {
    pub source: ScrollSource,
    lines: BTreeMap<u64, Vec<StyledCell>>,
    kept: usize,
    /// The first line that the daemon keeps, and the line after the last.
    pub kept_from: u64,
    pub end: u64,
    /// Whether both bounds are known.
    pub known: bool,
    /// Rows to move (negative: up) once the bounds are known.
    pending: i64,
    pub top: ScrollRow,
    pub cursor: ScrollPosition,
    pub anchor: Option<ScrollPosition>,
    pub find: Option<TextSearch>,
    /// The text typed after `/` or `?`.
    pub prompt: Option<(SearchDirection, String)>,
    /// The wheel opened this view, and closes it at the bottom.
    pub by_wheel: bool,
    rows: usize,
    cols: usize,
}

/// The limit of cached cells around the visible rows: about twenty megabytes at most.
const MAX_CACHED_CELLS: usize = 400_000;
/// Longer lines are cut.
const MAX_LINE_CELLS: usize = 16_384;
/// Lines per request.
pub const FETCH_LINES: u32 = 200;

impl ScrollView {
    /// A view at the lines that the screen shows now.
    pub fn text(top_line: u64, rows: u16, cols: u16) -> Self {
        let top = ScrollRow {
            line: top_line,
            part: 0,
        };
        Self {
            source: ScrollSource::Text,
            lines: BTreeMap::new(),
            kept: 0,
            kept_from: top_line,
            end: top_line + 1,
            known: false,
            pending: 0,
            top,
            cursor: ScrollPosition {
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

    /// A view of a copy of the screen.
    pub fn screen(shown: &[Vec<StyledCell>], cols: u16, cursor: ScrollPosition) -> Self {
        let mut scroll = Self::text(0, shown.len() as u16, cols);
        scroll.source = ScrollSource::Screen;
        scroll.lines = (0..).zip(shown.iter().cloned()).collect();
        scroll.end = shown.len() as u64;
        scroll.known = true;
        scroll.cursor = cursor;
        scroll
    }

    pub fn fit(&mut self, rows: u16, cols: u16) {
        self.rows = usize::from(rows.max(1));
        self.cols = usize::from(cols.max(2));
        self.top = self.nearest(ScrollRow {
            part: 0,
            ..self.top
        });
        self.keep_cursor_visible();
    }

    /// Adds fetched lines.
    pub fn add_lines(&mut self, lines: attach::PaneLines) {
        if self.source != ScrollSource::Text {
            return;
        }
        let first = !self.known;
        self.known = true;
        self.kept_from = lines.kept_from;
        self.end = lines.end.max(lines.kept_from + 1);
        for (number, spans) in (lines.from..).zip(&lines.lines) {
            let cells = cells(spans, MAX_LINE_CELLS);
            self.kept += cells.len() + 1;
            if let Some(before) = self.lines.insert(number, cells) {
                self.kept -= before.len() + 1;
            }
        }
        self.evict_lines();
        if first {
            self.top = self.nearest(self.top);
            let bottom = self.moved(self.top, self.rows as i64 - 1);
            self.cursor = self.place(bottom, 0);
        }
        let pending = std::mem::take(&mut self.pending);
        if pending != 0 {
            self.go(pending);
        }
        self.move_to_match();
        self.keep_cursor_visible();
    }

    /// Removes the lines that are farthest from the visible rows.
    fn evict_lines(&mut self) {
        while self.kept > MAX_CACHED_CELLS && self.lines.len() > self.rows {
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

    /// The first line of the next fetch; `None` if all lines around the visible rows are cached.
    pub fn missing_from(&self) -> Option<u64> {
        if self.source == ScrollSource::Screen {
            return None;
        }
        if !self.known {
            return Some(self.top.line.saturating_sub(u64::from(FETCH_LINES) / 2));
        }
        let around = self.rows as u64;
        let from = self.top.line.saturating_sub(around).max(self.kept_from);
        let to = (self.top.line + 2 * around).min(self.end);
        let missing = (from..to).find(|line| !self.lines.contains_key(line))?;
        // Above the screen, lines further up are fetched too.
        Some(if missing < self.top.line {
            missing
                .saturating_sub(u64::from(FETCH_LINES) / 2)
                .max(self.kept_from)
        } else {
            missing
        })
    }

    pub fn line(&self, line: u64) -> &[StyledCell] {
        self.lines.get(&line).map_or(&[], |cells| cells)
    }

    /// The cell ranges of the rows that a line is wrapped to.
    pub fn parts(&self, line: u64) -> Vec<Range<usize>> {
        let cells = self.line(line);
        let mut parts = Vec::new();
        let mut start = 0;
        while start < cells.len() || parts.is_empty() {
            let mut end = (start + self.cols).min(cells.len());
            // A wide character is not cut in two.
            if cells
                .get(end)
                .is_some_and(|cell| cell.glyph == CellGlyph::Right)
                && end > start + 1
            {
                end -= 1;
            }
            parts.push(start..end);
            start = end.max(start + 1);
        }
        parts
    }

    /// The visible rows.
    pub fn visible_rows(&self) -> Vec<(ScrollRow, Range<usize>)> {
        let mut shown = Vec::new();
        let mut line = self.top.line;
        let mut skip = self.top.part;
        while shown.len() < self.rows && line < self.end {
            for (part, range) in self.parts(line).into_iter().enumerate().skip(skip) {
                shown.push((ScrollRow { line, part }, range));
            }
            skip = 0;
            line += 1;
        }
        shown.truncate(self.rows);
        shown
    }

    pub fn row_of(&self, place: ScrollPosition) -> ScrollRow {
        let parts = self.parts(place.line);
        let part = parts.iter().rposition(|part| part.start <= place.col);
        ScrollRow {
            line: place.line,
            part: part.unwrap_or(0),
        }
    }

    pub fn place(&self, row: ScrollRow, col: usize) -> ScrollPosition {
        let parts = self.parts(row.line);
        let part = parts.get(row.part.min(parts.len().saturating_sub(1)));
        let part = part.cloned().unwrap_or(0..0);
        ScrollPosition {
            line: row.line,
            col: (part.start + col).min(part.end.saturating_sub(1).max(part.start)),
        }
    }

    fn nearest(&self, row: ScrollRow) -> ScrollRow {
        let line = row.line.clamp(
            self.kept_from,
            self.end.saturating_sub(1).max(self.kept_from),
        );
        let parts = self.parts(line).len();
        ScrollRow {
            line,
            part: if line == row.line {
                row.part.min(parts - 1)
            } else {
                0
            },
        }
    }

    fn moved(&self, from: ScrollRow, by: i64) -> ScrollRow {
        let mut row = self.nearest(from);
        for _ in 0..by.unsigned_abs() {
            let parts = self.parts(row.line).len();
            let next = match by < 0 {
                true if row.part > 0 => ScrollRow {
                    part: row.part - 1,
                    ..row
                },
                true if row.line > self.kept_from => ScrollRow {
                    line: row.line - 1,
                    part: self.parts(row.line - 1).len() - 1,
                },
                false if row.part + 1 < parts => ScrollRow {
                    part: row.part + 1,
                    ..row
                },
                false if row.line + 1 < self.end => ScrollRow {
                    line: row.line + 1,
                    part: 0,
                },
                _ => break,
            };
            row = next;
        }
        row
    }

    /// The first visible row when the last row is at the bottom.
    fn lowest_top(&self) -> ScrollRow {
        let last = self.end.saturating_sub(1).max(self.kept_from);
        let last = ScrollRow {
            line: last,
            part: self.parts(last).len() - 1,
        };
        self.moved(last, 1 - self.rows as i64)
    }

    pub fn is_at_bottom(&self) -> bool {
        self.known && self.top >= self.lowest_top()
    }

    /// The number of lines above the screen.
    pub fn above(&self) -> u64 {
        self.top.line.saturating_sub(self.kept_from)
    }

    /// Moves the cursor by rows, and scrolls if the cursor leaves the screen.
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
        self.keep_cursor_visible();
    }

    pub fn go_across(&mut self, cols: i64) {
        let most = self.line(self.cursor.line).len().saturating_sub(1) as i64;
        let mut col = (self.cursor.col as i64 + cols).clamp(0, most.max(0)) as usize;
        let right = |col: usize| {
            let cell = self.line(self.cursor.line).get(col);
            cell.is_some_and(|cell| cell.glyph == CellGlyph::Right)
        };
        if right(col) {
            col = if cols > 0 && (col as i64) < most {
                col + 1
            } else {
                col - 1
            };
        }
        self.cursor.col = col;
        self.keep_cursor_visible();
    }

    /// Scrolls by rows; the cursor keeps its row on the screen.
    pub fn roll(&mut self, rows: i64) {
        if !self.known {
            self.pending += rows;
            return;
        }
        let shown = self.visible_rows();
        let at = self.row_of(self.cursor);
        let down = shown.iter().position(|(row, _)| *row == at).unwrap_or(0);
        let before = self.top;
        self.top = self.moved(self.top, rows).min(self.lowest_top());
        if self.top == before {
            // At the end of the text only the cursor moves.
            return self.go(rows);
        }
        let row = self.moved(self.top, down as i64);
        self.cursor = self.place(row, 0);
    }

    pub fn page(&self) -> i64 {
        (self.rows as i64 - 2).max(1)
    }

    pub fn go_to_top(&mut self) {
        self.cursor = ScrollPosition {
            line: self.kept_from,
            col: 0,
        };
        self.top = ScrollRow {
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
        self.keep_cursor_visible();
    }

    fn keep_cursor_visible(&mut self) {
        if !self.known {
            return;
        }
        let at = self.nearest(self.row_of(self.cursor));
        self.cursor.line = at.line;
        if at < self.top {
            self.top = at;
        }
        let mut shown = self.visible_rows();
        if shown.last().is_some_and(|(last, _)| *last < at) {
            self.top = self.moved(at, 1 - self.rows as i64);
            shown = self.visible_rows();
        }
        // The last line stays at the bottom.
        if shown.len() < self.rows {
            self.top = self.top.min(self.lowest_top());
        }
    }

    /// The row and column of the cursor in its tile.
    pub fn cursor_at(&self) -> Option<(u16, u16)> {
        let at = self.row_of(self.cursor);
        let shown = self.visible_rows();
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

    /// The bounds of the selection, inclusive.
    pub fn selection(&self) -> Option<(ScrollPosition, ScrollPosition)> {
        let anchor = self.anchor?;
        Some((anchor.min(self.cursor), anchor.max(self.cursor)))
    }

    /// The text of the selection, or of the cursor's line.
    pub fn copy(&self) -> String {
        let (from, to) = self.selection().unwrap_or_else(|| {
            let line = self.cursor.line;
            let end = self.line(line).len();
            (
                ScrollPosition { line, col: 0 },
                ScrollPosition { line, col: end },
            )
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
            // A row that is full to the edge most likely continues in the next row.
            let continues = self.source == ScrollSource::Screen
                && cells.len() >= self.cols
                && cells
                    .last()
                    .is_some_and(|cell| cell.glyph != CellGlyph::Char(' '));
            text.push_str(if continues { &part } else { part.trim_end() });
            if line < to.line && !continues {
                text.push('\n');
            }
        }
        text
    }
}

#[cfg(test)]
mod tests;
