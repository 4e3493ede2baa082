//! One pane as this client sees it.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use fugue_api::{
    attach::{Frame, FrameCursor, FrameHead, FrameModes, FrameRow, Span},
    panes::{PaneSize, StateBy},
};
use fugue_daemon::mirror::Glimpse;

use super::scroll::Scroll;
use crate::attach::canvas::{Cell, Glyph};

pub struct View {
    /// Of the last frame; 0 before the first.
    pub number: u64,
    pub size: PaneSize,
    /// Each as long as it is wide, blanks at the end left out.
    pub rows: Vec<Vec<Cell>>,
    pub cursor: FrameCursor,
    pub modes: FrameModes,
    /// As the last frame has them.
    modes_beneath: FrameModes,
    pub title: String,
    pub state: Option<StateBy>,
    pub top_line: u64,
    /// How much of the pane's log is shown.
    pub offset: u64,
    /// Rows as the last frame has them, where a glimpse of what came after it is shown instead.
    beneath: BTreeMap<u16, Vec<Cell>>,
    pub held: Option<String>,
    pub ended: bool,
    /// Why nothing is shown of it.
    pub trouble: Option<String>,
    /// A person looks back, or selects.
    pub scroll: Option<Scroll>,
}

impl Default for View {
    fn default() -> Self {
        Self {
            number: 0,
            size: PaneSize { rows: 0, cols: 0 },
            rows: Vec::new(),
            cursor: FrameCursor::default(),
            modes: FrameModes::default(),
            modes_beneath: FrameModes::default(),
            title: String::new(),
            state: None,
            top_line: 0,
            offset: 0,
            beneath: BTreeMap::new(),
            held: None,
            ended: false,
            trouble: None,
            scroll: None,
        }
    }
}

impl View {
    /// Gives the rows that are different, if nothing else is.
    pub fn take(&mut self, frame: Frame) -> Option<Vec<u16>> {
        let mut same = !frame.whole && frame.head.is_none() && self.trouble.is_none();
        self.number = frame.number;
        self.trouble = None;
        if let Some(head) = frame.head {
            self.take_head(head);
        }
        let cols = usize::from(self.size.cols);
        let rows = frame
            .rows
            .iter()
            .map(|FrameRow(row, spans)| (*row, cells(spans, cols)));
        if frame.offset < self.offset && !frame.whole {
            self.beneath.extend(rows);
            return same.then(Vec::new);
        }
        same &= self.modes == self.modes_beneath;
        self.modes = self.modes_beneath;
        let mut now = std::mem::take(&mut self.beneath);
        if frame.whole {
            self.rows.fill(Vec::new());
            now.clear();
        }
        now.extend(rows);
        let different = now.keys().copied().collect();
        for (row, cells) in now {
            if let Some(place) = self.rows.get_mut(usize::from(row)) {
                *place = cells;
            }
        }
        self.cursor = frame.cursor;
        self.top_line = frame.top_line;
        self.offset = frame.offset;
        same.then_some(different)
    }

    /// Shows what came after the last frame, if it is of the same size. Gives the rows that are different, if nothing else
    /// is.
    pub fn glimpse(&mut self, seen: Glimpse) -> Option<Vec<u16>> {
        let of_this = self.number > 0 && !self.ended && self.trouble.is_none();
        if !of_this || seen.size != self.size || seen.offset <= self.offset {
            return Some(Vec::new());
        }
        let same = self.modes == seen.modes;
        self.modes = seen.modes;
        let mut different = Vec::new();
        for FrameRow(row, spans) in seen.rows {
            let cells = cells(&spans, usize::from(self.size.cols));
            if let Some(place) = self.rows.get_mut(usize::from(row))
                && *place != cells
            {
                let was = std::mem::replace(place, cells);
                self.beneath.entry(row).or_insert(was);
                different.push(row);
            }
        }
        self.cursor = seen.cursor;
        self.top_line = seen.top_line;
        self.offset = seen.offset;
        same.then_some(different)
    }

    fn take_head(&mut self, head: FrameHead) {
        self.rows.resize(usize::from(head.size.rows), Vec::new());
        for row in &mut self.rows {
            row.truncate(usize::from(head.size.cols));
        }
        self.size = head.size;
        self.modes_beneath = head.modes;
        self.title = head.title;
        self.state = Some(head.state);
        self.held = head.held;
        self.ended = head.ended;
    }
}

/// A line of text as cells, at most so many.
pub fn cells(spans: &[Span], most: usize) -> Vec<Cell> {
    let mut cells = Vec::new();
    for Span(text, look) in spans {
        for (cell, width) in fugue_term::cells(text) {
            if cells.len() + width > most {
                return cells;
            }
            cells.push(Cell {
                glyph: Glyph::of(cell, width),
                look: *look,
            });
            if width == 2 {
                cells.push(Cell {
                    glyph: Glyph::Right,
                    look: *look,
                });
            }
        }
    }
    cells
}
