//! The view of one pane, built from its frames.

#[cfg(test)]
mod tests;

use fugue_api::{
    attach::{Frame, FrameCursor, FrameHead, FrameModes, FrameRow, StyledSpan},
    pane_state::SourcedState,
    tools::PaneSize,
};

use super::scroll::ScrollView;
use crate::buffer::{CellGlyph, StyledCell};

pub struct PaneView {
    /// Number of the last frame; 0 before the first.
    pub number: u64,
    pub size: PaneSize,
    /// The cells of each row, without trailing blanks.
    pub rows: Vec<Vec<StyledCell>>,
    pub cursor: FrameCursor,
    pub modes: FrameModes,
    pub title: String,
    pub state: Option<SourcedState>,
    pub top_line: u64,
    /// The offset in the output log that the frame shows.
    pub offset: u64,
    pub held: Option<String>,
    pub ended: bool,
    /// Why the pane cannot be shown.
    pub error: Option<String>,
    /// The scroll view, while the person scrolls or selects.
    pub scroll: Option<ScrollView>,
}

impl Default for PaneView {
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
            error: None,
            scroll: None,
        }
    }
}

impl PaneView {
    /// Applies a frame. Returns the rows that changed, or `None` if more than rows changed.
    pub fn apply(&mut self, frame: Frame) -> Option<Vec<u16>> {
        let only_rows = !frame.whole && frame.head.is_none() && self.error.is_none();
        self.number = frame.number;
        self.error = None;
        if let Some(head) = frame.head {
            self.apply_head(head);
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

    fn apply_head(&mut self, head: FrameHead) {
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

/// The cells of a line, at most `most`.
pub fn cells(spans: &[StyledSpan], most: usize) -> Vec<StyledCell> {
    let mut cells = Vec::new();
    for StyledSpan(text, style) in spans {
        for (cell, width) in fugue_term::text_cells(text) {
            if cells.len() + width > most {
                return cells;
            }
            cells.push(StyledCell {
                glyph: CellGlyph::new(cell, width),
                style: *style,
            });
            if width == 2 {
                cells.push(StyledCell {
                    glyph: CellGlyph::Right,
                    style: *style,
                });
            }
        }
    }
    cells
}
