//! The pane picker popup.

use fugue_api::{PaneId, attach::Rect};

use super::{badges::pane_badge, popup};
use crate::{
    buffer::{CellBuffer, CellGlyph, CursorMark},
    clean,
    model::{AttachModel, InputMode, PanePicker},
    style::{BOLD, CYAN, DIM, REVERSE, add, coloured, plain, with},
};
use fugue_client::display::format_age;

fn area(model: &AttachModel) -> Rect {
    // As high as the list without a filter, so that the height does not change while the person types.
    let InputMode::Picker(picker) = &model.mode else {
        return Rect::default();
    };
    let most = model.size.rows.saturating_sub(4).clamp(8, 30);
    let rows = u16::try_from(picker.len() + 5).unwrap_or(most);
    popup::place(model, rows.clamp(8, most), 76)
}

/// The range of visible entries.
fn window(picker: &PanePicker, rows: u16) -> std::ops::Range<usize> {
    let rows = usize::from(rows.max(1));
    let all = picker.shown().len();
    let top = (picker.chosen + 1).saturating_sub(rows);
    top..(top + rows).min(all)
}

fn list(area: Rect) -> Rect {
    // Below the filter and a blank row.
    Rect {
        row: area.row + 3,
        col: area.col + 2,
        rows: area.rows.saturating_sub(4),
        cols: area.cols.saturating_sub(4),
    }
}

/// The pane of the entry at this cell of the screen.
pub fn picker_at(model: &AttachModel, row: u16, col: u16) -> Option<PaneId> {
    let InputMode::Picker(picker) = &model.mode else {
        return None;
    };
    let list = list(area(model));
    if !(list.col..list.col + list.cols).contains(&col) || row >= list.row + list.rows {
        return None;
    }
    let index = window(picker, list.rows).start + usize::from(row.checked_sub(list.row)?);
    picker.shown().get(index).map(|entry| entry.pane)
}

/// Draws the filter text and its cursor.
fn draw_filter(picker: &PanePicker, inside: Rect, buffer: &mut CellBuffer) {
    let edge = inside.col + inside.cols;
    let end = buffer.text(
        inside.row,
        inside.col,
        "› ",
        add(coloured(CYAN), BOLD),
        edge,
    );
    let end = buffer.text_cut(inside.row, end, &picker.filter, with(BOLD), edge);
    buffer.caret = Some(CursorMark {
        row: inside.row,
        col: end.min(edge),
        shape: 0,
    });
}

pub fn draw(model: &AttachModel, wall: u64, buffer: &mut CellBuffer) {
    let InputMode::Picker(picker) = &model.mode else {
        return;
    };
    let area = area(model);
    let inside = popup::frame(
        area,
        "go to a pane",
        "type to filter · ↑↓ select · Enter go · Esc cancel",
        buffer,
    );
    let edge = inside.col + inside.cols;
    draw_filter(picker, inside, buffer);
    let list = list(area);
    let shown = picker.shown();
    if shown.is_empty() {
        buffer.text(list.row, list.col, "no pane matches", with(DIM), edge);
    }
    // Session, name, state, age.
    let state_col = edge.saturating_sub(20);
    let session_cols = (inside.cols / 4).max(6);
    for (row, index) in (list.row..).zip(window(picker, list.rows)) {
        let entry = shown[index];
        let chosen = index == picker.chosen;
        let badge = pane_badge(&entry.state);
        let here = model.shown_focus() == Some(entry.pane);
        if here {
            buffer.text(row, list.col, "▶", add(coloured(CYAN), BOLD), edge);
        }
        let col = list.col + 2;
        let session = clean::line(&entry.session.0);
        buffer.text_cut(row, col, &session, with(DIM), col + session_cols - 1);
        let col = col + session_cols;
        let id = entry.pane.to_string();
        let name = if entry.name == id {
            id
        } else {
            format!("{} {id}", entry.name)
        };
        let style = if chosen { with(BOLD) } else { plain() };
        buffer.text_cut(row, col, &name, style, state_col.saturating_sub(1));
        buffer.put(
            row,
            state_col,
            CellGlyph::Char(badge.sign),
            badge.style,
            edge,
        );
        buffer.text_cut(
            row,
            state_col + 2,
            &badge.word,
            badge.style,
            edge.saturating_sub(5),
        );
        let age = entry
            .created_at
            .map_or_else(String::new, |at| format_age(wall.saturating_sub(at.0)));
        buffer.text(
            row,
            edge.saturating_sub(age.len() as u16),
            &age,
            with(DIM),
            edge,
        );
        if chosen {
            buffer.restyle(row, list.col..edge, |style| match style.3.0 & BOLD {
                0 => with(REVERSE),
                _ => with(REVERSE | BOLD),
            });
        }
    }
}
