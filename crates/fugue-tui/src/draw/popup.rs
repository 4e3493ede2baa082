//! Popups: framed boxes over the panes.

use fugue_api::attach::Rect;

use crate::{
    buffer::{CellBuffer, CellGlyph},
    model::AttachModel,
    style::{BOLD, CYAN, DIM, add, coloured, plain, with},
};

/// The area of a centered popup of at most this size, frame included.
pub fn place(model: &AttachModel, rows: u16, cols: u16) -> Rect {
    let body = model.size.rows.saturating_sub(1);
    let rows = rows.min(body);
    let cols = cols.min(model.size.cols);
    Rect {
        row: (body - rows) / 2,
        col: (model.size.cols - cols) / 2,
        rows,
        cols,
    }
}

/// Draws the frame and returns the area inside.
pub fn frame(area: Rect, title: &str, foot: &str, buffer: &mut CellBuffer) -> Rect {
    buffer.fill(area, ' ', plain());
    if area.rows < 2 || area.cols < 4 {
        return Rect { rows: 0, ..area };
    }
    let style = coloured(CYAN);
    let (top, left) = (area.row, area.col);
    let (bottom, right) = (area.row + area.rows - 1, area.col + area.cols - 1);
    for col in left..=right {
        buffer.put(top, col, CellGlyph::Char('─'), style, buffer.cols);
        buffer.put(bottom, col, CellGlyph::Char('─'), style, buffer.cols);
    }
    for row in top..=bottom {
        buffer.put(row, left, CellGlyph::Char('│'), style, buffer.cols);
        buffer.put(row, right, CellGlyph::Char('│'), style, buffer.cols);
    }
    for (row, col, corner) in [
        (top, left, '╭'),
        (top, right, '╮'),
        (bottom, left, '╰'),
        (bottom, right, '╯'),
    ] {
        buffer.put(row, col, CellGlyph::Char(corner), style, buffer.cols);
    }
    buffer.text_cut(
        top,
        left + 2,
        &format!(" {title} "),
        add(style, BOLD),
        right,
    );
    if !foot.is_empty() {
        buffer.text_cut(bottom, left + 2, &format!(" {foot} "), with(DIM), right);
    }
    Rect {
        row: top + 1,
        col: left + 2,
        rows: area.rows - 2,
        cols: area.cols.saturating_sub(4),
    }
}
