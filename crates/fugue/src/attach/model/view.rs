//! One pane as this client sees it.

#[cfg(test)]
mod tests;

use fugue_api::{
    attach::{Frame, FrameCursor, FrameHead, FrameModes, FrameRow, StyledSpan},
    pane_state::SourcedState,
    tools::PaneSize,
};

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
    pub title: String,
    pub state: Option<SourcedState>,
    pub top_line: u64,
    /// How much of the pane's log is shown.
    pub offset: u64,
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
            title: String::new(),
            state: None,
            top_line: 0,
            offset: 0,
            held: None,
            ended: false,
            trouble: None,
            scroll: None,
        }
    }
}

impl View {
    /// Applies a frame. Returns the rows that changed, or `None` if more than rows changed.
    pub fn take(&mut self, frame: Frame) -> Option<Vec<u16>> {
        let only_rows = !frame.whole && frame.head.is_none() && self.trouble.is_none();
        self.number = frame.number;
        self.trouble = None;
        if let Some(head) = frame.head {
            self.take_head(head);
        }
        if frame.whole {
            self.rows.fill(Vec::new());
        }
        let cols = usize::from(self.size.cols);
        let mut changed = Vec::new();
        for FrameRow(row, spans) in &frame.rows {
            if let Some(cells_of_row) = self.rows.get_mut(usize::from(*row)) {
                *cells_of_row = cells(spans, cols);
                changed.push(*row);
            }
        }
        self.cursor = frame.cursor;
        self.top_line = frame.top_line;
        self.offset = frame.offset;
        only_rows.then_some(changed)
    }

    fn take_head(&mut self, head: FrameHead) {
        self.rows.resize(usize::from(head.size.rows), Vec::new());
        for row in &mut self.rows {
            row.truncate(usize::from(head.size.cols));
        }
        self.size = head.size;
        self.modes = head.modes;
        self.title = head.title;
        self.state = Some(head.state);
        self.held = head.held;
        self.ended = head.ended;
    }
}

/// A line of text as cells, at most so many.
pub fn cells(spans: &[StyledSpan], most: usize) -> Vec<Cell> {
    let mut cells = Vec::new();
    for StyledSpan(text, look) in spans {
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
