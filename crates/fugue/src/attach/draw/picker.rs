//! The list of all panes.

use fugue_api::{PaneId, attach::Rect};

use super::{badges::badge, boxes};
use crate::{
    attach::{
        canvas::{Canvas, Caret, Glyph},
        clean,
        looks::{BOLD, CYAN, DIM, REVERSE, add, coloured, plain, with},
        model::{Mode, Model, Picker},
    },
    out::format_age,
};

fn area(model: &Model) -> Rect {
    // As high as the list without a filter, so that it does not jump about while somebody types.
    let Mode::Picker(picker) = &model.mode else {
        return Rect::default();
    };
    let most = model.size.rows.saturating_sub(4).clamp(8, 30);
    let rows = u16::try_from(picker.len() + 5).unwrap_or(most);
    boxes::place(model, rows.clamp(8, most), 76)
}

/// Where the list begins, and what is shown of it.
fn window(picker: &Picker, rows: u16) -> std::ops::Range<usize> {
    let rows = usize::from(rows.max(1));
    let all = picker.shown().len();
    let top = (picker.chosen + 1).saturating_sub(rows);
    top..(top + rows).min(all)
}

fn list(area: Rect) -> Rect {
    // Below the filter and a blank.
    Rect {
        row: area.row + 3,
        col: area.col + 2,
        rows: area.rows.saturating_sub(4),
        cols: area.cols.saturating_sub(4),
    }
}

/// The pane that stands at this place of the screen.
pub fn picker_at(model: &Model, row: u16, col: u16) -> Option<PaneId> {
    let Mode::Picker(picker) = &model.mode else {
        return None;
    };
    let list = list(area(model));
    if !(list.col..list.col + list.cols).contains(&col) || row >= list.row + list.rows {
        return None;
    }
    let index = window(picker, list.rows).start + usize::from(row.checked_sub(list.row)?);
    picker.shown().get(index).map(|entry| entry.pane)
}

pub fn draw(model: &Model, wall: u64, canvas: &mut Canvas) {
    let Mode::Picker(picker) = &model.mode else {
        return;
    };
    let area = area(model);
    let inside = boxes::frame(
        area,
        "go to a pane",
        "type to filter · ↑↓ choose · Enter goes there · Esc",
        canvas,
    );
    let edge = inside.col + inside.cols;
    let end = canvas.text(
        inside.row,
        inside.col,
        "› ",
        add(coloured(CYAN), BOLD),
        edge,
    );
    let end = canvas.text_cut(inside.row, end, &picker.filter, with(BOLD), edge);
    canvas.caret = Some(Caret {
        row: inside.row,
        col: end.min(edge),
        shape: 0,
    });
    let list = list(area);
    let shown = picker.shown();
    if shown.is_empty() {
        canvas.text(list.row, list.col, "no pane fits", with(DIM), edge);
    }
    // Session, name, state, age.
    let state_col = edge.saturating_sub(20);
    let session_cols = (inside.cols / 4).max(6);
    for (row, index) in (list.row..).zip(window(picker, list.rows)) {
        let entry = shown[index];
        let chosen = index == picker.chosen;
        let badge = badge(&entry.state);
        let here = model.shown_focus() == Some(entry.pane);
        if here {
            canvas.text(row, list.col, "▶", add(coloured(CYAN), BOLD), edge);
        }
        let col = list.col + 2;
        let session = clean::line(&entry.session.0);
        canvas.text_cut(row, col, &session, with(DIM), col + session_cols - 1);
        let col = col + session_cols;
        let id = entry.pane.to_string();
        let name = if entry.name == id {
            id
        } else {
            format!("{} {id}", entry.name)
        };
        let look = if chosen { with(BOLD) } else { plain() };
        canvas.text_cut(row, col, &name, look, state_col.saturating_sub(1));
        canvas.put(row, state_col, Glyph::Char(badge.sign), badge.look, edge);
        canvas.text_cut(
            row,
            state_col + 2,
            &badge.word,
            badge.look,
            edge.saturating_sub(5),
        );
        let age = format_age(wall.saturating_sub(entry.created_at.0));
        canvas.text(
            row,
            edge.saturating_sub(age.len() as u16),
            &age,
            with(DIM),
            edge,
        );
        if chosen {
            canvas.restyle(row, list.col..edge, |look| match look.3.0 & BOLD {
                0 => with(REVERSE),
                _ => with(REVERSE | BOLD),
            });
        }
    }
}
