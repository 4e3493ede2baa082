//! The help popup with the key bindings.

use super::popup;
use crate::{
    buffer::{CellBuffer, width},
    model::{AttachModel, InputMode},
    style::{BOLD, CYAN, DIM, add, coloured, plain, with},
};

/// Keys and their commands; an entry without keys is a heading.
const LEFT: &[(&str, &str)] = &[
    ("", "after C-b"),
    ("d", "detach, keep all running"),
    ("%  \"", "split right, below"),
    ("c", "new pane"),
    ("x", "close the pane"),
    ("arrows", "move the focus"),
    ("C-arrows", "resize; repeats"),
    ("o  ;", "next pane, last pane"),
    ("{  }", "swap with previous, next"),
    ("Space", "tile all panes evenly"),
    ("z", "zoom in and out"),
    ("w", "list of all panes"),
    ("b", "sidebar"),
    ("[  PgUp", "scroll, search, copy"),
    ("]", "paste what was copied"),
    ("r", "redraw the screen"),
    ("C-b", "send C-b to the program"),
];

const RIGHT: &[(&str, &str)] = &[
    ("", "scroll mode (C-b [)"),
    ("arrows", "move; also h j k l"),
    ("PgUp PgDn", "by pages; C-u C-d half"),
    ("g  G", "first line, last line"),
    ("/  ?", "search forward, backward"),
    ("n  N", "next, previous match"),
    ("v  Space", "start or end a selection"),
    ("y  Enter", "copy and quit"),
    ("q  Esc", "quit"),
    ("", ""),
    ("", "mouse"),
    ("click", "focus; drag selects, copies"),
    ("wheel", "scroll"),
    ("borders", "drag to resize"),
    ("Shift", "the terminal's own mouse"),
];

/// The number of rows in a single column.
pub const HELP_ROWS: u16 = (LEFT.len() + RIGHT.len() + 1) as u16;
const KEYS: u16 = 10;
const COLUMN: u16 = 36;

pub fn draw(model: &AttachModel, buffer: &mut CellBuffer) {
    let InputMode::Help(top) = model.mode else {
        return;
    };
    let two = model.size.cols >= 2 * COLUMN + 8;
    let (rows, cols) = match two {
        true => (LEFT.len().max(RIGHT.len()) as u16, 2 * COLUMN + 8),
        false => (HELP_ROWS, COLUMN + 6),
    };
    let area = popup::place(model, rows + 2, cols);
    let scrolls = area.rows < rows + 2;
    let foot = if scrolls {
        "↑↓ scroll · any other key closes"
    } else {
        "any key closes"
    };
    let inside = popup::frame(area, "fugue attach: keys", foot, buffer);
    let top = top.min(rows.saturating_sub(inside.rows));
    let edge = inside.col + inside.cols;
    if two {
        column(
            LEFT.iter(),
            top,
            inside.row,
            inside.col,
            inside.rows,
            edge,
            buffer,
        );
        let middle = inside.col + COLUMN + 2;
        column(
            RIGHT.iter(),
            top,
            inside.row,
            middle,
            inside.rows,
            edge,
            buffer,
        );
    } else {
        let all = LEFT.iter().chain(&[("", "")]).chain(RIGHT);
        column(all, top, inside.row, inside.col, inside.rows, edge, buffer);
    }
}

fn column<'a>(
    lines: impl Iterator<Item = &'a (&'a str, &'a str)>,
    top: u16,
    row: u16,
    col: u16,
    rows: u16,
    edge: u16,
    buffer: &mut CellBuffer,
) {
    for (row, (keys, what)) in (row..row + rows).zip(lines.skip(usize::from(top))) {
        if keys.is_empty() {
            buffer.text(row, col, what, add(with(DIM), BOLD), edge);
            continue;
        }
        buffer.text(row, col + 1, keys, add(coloured(CYAN), BOLD), edge);
        debug_assert!(width(keys) < usize::from(KEYS));
        buffer.text_cut(row, col + 1 + KEYS, what, plain(), edge);
    }
}
