//! A box over the panes.

use fugue_api::attach::Rect;

use crate::{
    canvas::{Canvas, Glyph},
    looks::{BOLD, CYAN, DIM, add, coloured, plain, with},
    model::Model,
};

/// The place of a box of at most so many rows and columns, its frame included, in the middle of the panes.
pub fn place(model: &Model, rows: u16, cols: u16) -> Rect {
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

/// Draws the frame, and gives what is inside.
pub fn frame(area: Rect, title: &str, foot: &str, canvas: &mut Canvas) -> Rect {
    canvas.fill(area, ' ', plain());
    if area.rows < 2 || area.cols < 4 {
        return Rect { rows: 0, ..area };
    }
    let look = coloured(CYAN);
    let (top, left) = (area.row, area.col);
    let (bottom, right) = (area.row + area.rows - 1, area.col + area.cols - 1);
    for col in left..=right {
        canvas.put(top, col, Glyph::Char('─'), look, canvas.cols);
        canvas.put(bottom, col, Glyph::Char('─'), look, canvas.cols);
    }
    for row in top..=bottom {
        canvas.put(row, left, Glyph::Char('│'), look, canvas.cols);
        canvas.put(row, right, Glyph::Char('│'), look, canvas.cols);
    }
    for (row, col, corner) in [
        (top, left, '╭'),
        (top, right, '╮'),
        (bottom, left, '╰'),
        (bottom, right, '╯'),
    ] {
        canvas.put(row, col, Glyph::Char(corner), look, canvas.cols);
    }
    canvas.text_cut(top, left + 2, &format!(" {title} "), add(look, BOLD), right);
    if !foot.is_empty() {
        canvas.text_cut(bottom, left + 2, &format!(" {foot} "), with(DIM), right);
    }
    Rect {
        row: top + 1,
        col: left + 2,
        rows: area.rows - 2,
        cols: area.cols.saturating_sub(4),
    }
}
