//! The panes: each with its title, what its screen shows, and the lines between them.

use std::collections::HashMap;

use fugue_api::attach::{FrameColor, FrameStyle, Rect, Tile};

use super::{
    badges::badge,
    lines::{Arm, Arms},
};
use crate::{
    canvas::{Canvas, Caret, Cell, Glyph, fit, width},
    clean,
    looks::{
        BOLD, CYAN, DIM, HIDDEN, MAGENTA, REVERSE, YELLOW, add, coloured, on, plain, reversed, with,
    },
    model::{Mode, Model, Places, Scroll, View, hits},
};

pub fn draw(model: &Model, canvas: &mut Canvas) {
    let places = model.places();
    let tiles = model.tiles();
    if tiles.is_empty() {
        return wait(places.room, canvas);
    }
    draw_lines(model, &places, &tiles, canvas);
    for tile in &tiles {
        draw_title(model, &places, tile, canvas);
        let area = places.inside(tile.place);
        if let Some(view) = model.views.get(&tile.pane) {
            let focused = model.shown_focus() == Some(tile.pane);
            draw_inside(model, view, area, focused, canvas);
        }
    }
}

fn wait(room: Rect, canvas: &mut Canvas) {
    let text = "waiting for panes";
    let col = room.col + room.cols.saturating_sub(text.len() as u16) / 2;
    canvas.text(
        room.row + room.rows / 2,
        col,
        text,
        with(DIM),
        room.col + room.cols,
    );
}

/// How much of a pane is out of sight above and to the left, where it is larger than its tile: what is around its cursor
/// is in sight.
pub fn cropped(view: &View, area: Rect) -> (u16, u16) {
    let hidden = |all: u16, room: u16, cursor: u16| {
        let most = all.saturating_sub(room);
        (cursor + 1).saturating_sub(room).min(most)
    };
    (
        hidden(view.size.rows, area.rows, view.cursor.row),
        hidden(view.size.cols, area.cols, view.cursor.col),
    )
}

const ACCENT: FrameColor = CYAN;

fn draw_lines(model: &Model, places: &Places, tiles: &[Tile], canvas: &mut Canvas) {
    let mut arms: HashMap<(u16, u16), Arms> = HashMap::new();
    let mut accented: Vec<(u16, u16)> = Vec::new();
    let room = places.room;
    let all = match model.arrangement.as_ref().filter(|_| model.peek.is_none()) {
        Some(arrangement) => places.on_screen(Rect {
            row: 0,
            col: 0,
            rows: arrangement.room.rows,
            cols: arrangement.room.cols,
        }),
        None => room,
    };
    let mut covered = vec![false; usize::from(canvas.rows) * usize::from(canvas.cols)];
    let cols = usize::from(canvas.cols);
    let at = |row: u16, col: u16| usize::from(row) * cols + usize::from(col);
    for tile in tiles {
        let place = places.on_screen(tile.place);
        for row in place.row..place.row + place.rows {
            for col in place.col..place.col + place.cols {
                if let Some(cell) = covered.get_mut(at(row, col)) {
                    *cell = true;
                }
            }
        }
    }
    let inside = |row: u16, col: u16| {
        (all.row..all.row + all.rows).contains(&row) && (all.col..all.col + all.cols).contains(&col)
    };
    let is_gap = |row: u16, col: u16| {
        inside(row, col) && covered.get(at(row, col)).is_some_and(|covered| !covered)
    };
    for row in all.row..all.row + all.rows {
        for col in all.col..all.col + all.cols {
            if is_gap(row, col) {
                let cell = arms.entry((row, col)).or_default();
                if row > 0 && is_gap(row - 1, col) {
                    cell.up = Arm::Light;
                }
                if is_gap(row + 1, col) {
                    cell.down = Arm::Light;
                }
            }
        }
    }
    for tile in tiles {
        let shown = places.on_screen(tile.place);
        let title = shown.rows > places.inside(tile.place).rows;
        let focused = model.shown_focus() == Some(tile.pane);
        let arm = if focused { Arm::Heavy } else { Arm::Light };
        let (start, end) = (shown.col, shown.col + shown.cols);
        if title {
            for col in start..end {
                let cell = arms.entry((shown.row, col)).or_default();
                (cell.left, cell.right) = (arm, arm);
                if shown.row > 0 && is_gap(shown.row - 1, col) {
                    cell.up = Arm::Light;
                }
                if focused {
                    accented.push((shown.row, col));
                }
            }
            if start > 0 && is_gap(shown.row, start - 1) {
                arms.entry((shown.row, start - 1)).or_default().right = arm;
            }
            if is_gap(shown.row, end) {
                arms.entry((shown.row, end)).or_default().left = arm;
            }
        }
        if focused {
            for row in shown.row..shown.row + shown.rows {
                if start > 0 {
                    accented.push((row, start - 1));
                }
                accented.push((row, end));
            }
        }
    }
    for ((row, col), arms) in arms {
        let look = if accented.contains(&(row, col)) {
            coloured(ACCENT)
        } else {
            with(DIM)
        };
        canvas.put(row, col, Glyph::Char(arms.glyph()), look, canvas.cols);
    }
    // Another client's smaller screen rules.
    for row in room.row..room.row + room.rows {
        for col in room.col..room.col + room.cols {
            if !inside(row, col) {
                canvas.put(row, col, Glyph::Char('·'), with(DIM), canvas.cols);
            }
        }
    }
}

fn draw_title(model: &Model, places: &Places, tile: &Tile, canvas: &mut Canvas) {
    let shown = places.on_screen(tile.place);
    if shown.rows == places.inside(tile.place).rows || shown.cols < 4 {
        return;
    }
    let (row, edge) = (shown.row, shown.col + shown.cols - 1);
    let focused = model.shown_focus() == Some(tile.pane);
    let view = model.views.get(&tile.pane);
    let known = model.row(tile.pane);
    let state = view
        .and_then(|view| view.state.as_ref())
        .or(known.map(|row| &row.state));
    let room = usize::from(shown.cols) - 2;

    // From the right: what is special, then how it is.
    let mut right: Vec<(String, FrameStyle)> = Vec::new();
    if let Some(view) = view {
        if let Some(scroll) = &view.scroll {
            right.push((scroll_word(scroll), add(coloured(MAGENTA), BOLD)));
        }
        let area = places.inside(tile.place);
        if view.number > 0 && (view.size.rows > area.rows || view.size.cols > area.cols) {
            let text = format!("part of {}×{}", view.size.cols, view.size.rows);
            right.push((text, with(DIM)));
        }
        if view.held.is_some() {
            right.push(("‖ held".into(), add(coloured(YELLOW), BOLD)));
        }
    }
    if model
        .arrangement
        .as_ref()
        .is_some_and(|all| all.zoomed == Some(tile.pane))
    {
        right.push(("zoomed".into(), coloured(ACCENT)));
    }
    if let Some(state) = state {
        let badge = badge(state);
        let wide = room >= 34;
        let text = match wide {
            true => format!("{} {}", badge.sign, badge.word),
            false => badge.sign.to_string(),
        };
        right.push((text, badge.look));
    }
    let sum = |parts: &[(String, FrameStyle)]| -> usize {
        parts.iter().map(|(text, _)| width(text) + 2).sum()
    };
    let name = known.map(|row| clean::line(&row.name)).unwrap_or_default();
    let name = if name.is_empty() {
        tile.pane.to_string()
    } else {
        name
    };
    // The name comes first; what is to the right gives way from the left.
    let least = width(&name).min(12) + 3;
    while right.len() > 1 && sum(&right) + least > room {
        right.remove(0);
    }
    let mut end = edge;
    for (text, look) in right.iter().rev() {
        let columns = width(text) as u16 + 2;
        if end < shown.col + 2 + columns {
            break;
        }
        end -= columns;
        canvas.text(row, end, &format!(" {text} "), *look, edge);
    }

    let look = if focused {
        add(coloured(ACCENT), BOLD)
    } else {
        plain()
    };
    let sign = if focused { "▶ " } else { "" };
    let start = shown.col + 1;
    let room = usize::from(end.saturating_sub(start));
    let text = format!(
        " {} ",
        fit(&format!("{sign}{name}"), room.saturating_sub(2))
    );
    let col = canvas.text(row, start, &text, look, end);
    let about = about(model, view, tile, &name);
    if !about.is_empty() && col + 8 < end {
        let room = usize::from(end - col) - 2;
        let text = format!("{} ", fit(&about, room));
        canvas.text(row, col, &text, with(DIM), end);
    }
}

/// What the program calls itself, else what was started.
fn about(model: &Model, view: Option<&View>, tile: &Tile, name: &str) -> String {
    let title = view.map(|view| clean::line(view.title.trim()));
    let title = title.filter(|title| !title.is_empty());
    let command = || {
        let command = model.commands.get(&tile.pane)?;
        Some(clean::line(command.trim()))
    };
    // A shell that is called after itself has been told of.
    let is_told = |about: &String| about == name || about.rsplit('/').next() == Some(name);
    let told = title.or_else(command).filter(|about| !is_told(about));
    told.unwrap_or_default()
}

fn scroll_word(scroll: &Scroll) -> String {
    let lines = scroll.end.saturating_sub(scroll.kept_from);
    match scroll.anchor {
        Some(_) => "select".into(),
        None => format!("scroll {}/{lines}", scroll.above() + 1),
    }
}

fn draw_inside(model: &Model, view: &View, area: Rect, focused: bool, canvas: &mut Canvas) {
    if let Some(trouble) = view.trouble.as_ref().filter(|_| view.rows.is_empty()) {
        let edge = area.col + area.cols;
        canvas.text_cut(area.row, area.col + 1, trouble, with(DIM), edge);
        return;
    }
    if let Some(scroll) = view.scroll.as_ref().filter(|scroll| scroll.known) {
        return draw_scroll(model, scroll, area, focused, canvas);
    }
    let (above, left) = cropped(view, area);
    for row in 0..area.rows.min(view.size.rows) {
        let cells = view.rows.get(usize::from(row + above));
        let cells = cells.map_or(&[][..], |cells| cells);
        let from = usize::from(left).min(cells.len());
        draw_cells(
            &cells[from..],
            area.row + row,
            area.col,
            area.col + area.cols,
            canvas,
        );
    }
    if view.modes.reverse {
        let cols = area.col..area.col + area.cols.min(view.size.cols);
        for row in 0..area.rows.min(view.size.rows) {
            canvas.restyle(area.row + row, cols.clone(), reversed);
        }
    }
    if view.number > 0 && !view.ended {
        beyond(view, area, canvas);
    }
    if focused {
        canvas.caret = caret(model, view, area, (above, left)).or(canvas.caret);
    }
}

/// A pane whose screen is in its tile as it is, with nothing else.
pub fn is_plain(view: &View, area: Rect) -> bool {
    let fits = view.size.rows == area.rows && view.size.cols == area.cols;
    fits && view.scroll.is_none()
        && view.trouble.is_none()
        && !view.modes.reverse
        && view.number > 0
}

/// Where a person types, if that is in sight, in the pane in focus.
pub fn caret(model: &Model, view: &View, area: Rect, hidden: (u16, u16)) -> Option<Caret> {
    let cursor = view.cursor;
    let row = cursor.row.checked_sub(hidden.0)?;
    let col = cursor.col.checked_sub(hidden.1)?;
    let seen = cursor.visible
        && !view.ended
        && row < area.rows
        && area.cols > 0
        && matches!(model.mode, Mode::Pane | Mode::Prefix);
    seen.then(|| Caret {
        row: area.row + row,
        col: area.col + col.min(area.cols - 1),
        shape: cursor.shape,
    })
}

/// Where a pane is smaller than its tile.
fn beyond(view: &View, area: Rect, canvas: &mut Canvas) {
    let below = Rect {
        row: area.row + view.size.rows.min(area.rows),
        rows: area.rows.saturating_sub(view.size.rows),
        ..area
    };
    let beside = Rect {
        col: area.col + view.size.cols.min(area.cols),
        cols: area.cols.saturating_sub(view.size.cols),
        rows: view.size.rows.min(area.rows),
        ..area
    };
    canvas.fill(below, '·', with(DIM));
    canvas.fill(beside, '·', with(DIM));
}

/// A character of a screen as a person is to see it.
pub fn seen(cell: &Cell) -> Cell {
    match cell.glyph {
        _ if cell.look.3.0 & HIDDEN == 0 => cell.clone(),
        Glyph::Right => Cell::blank(plain()),
        _ => Cell::blank(cell.look),
    }
}

fn draw_cells(cells: &[Cell], row: u16, col: u16, edge: u16, canvas: &mut Canvas) {
    for (index, cell) in cells.iter().enumerate() {
        let col = col.saturating_add(index as u16);
        if col >= edge {
            return;
        }
        // The right half comes with the left; one whose left is out of sight is a blank.
        let glyph = match &cell.glyph {
            Glyph::Right if index > 0 => continue,
            Glyph::Right => Glyph::Char(' '),
            _ => seen(cell).glyph,
        };
        canvas.put(row, col, glyph, cell.look, edge);
    }
}

fn draw_scroll(model: &Model, scroll: &Scroll, area: Rect, focused: bool, canvas: &mut Canvas) {
    let what = scroll.find.as_ref().map(|find| find.what.as_str());
    let selected = scroll.selected();
    let edge = area.col + area.cols;
    for (row, (at, part)) in (area.row..area.row + area.rows).zip(scroll.in_sight()) {
        let cells = scroll.line(at.line);
        draw_cells(&cells[part.clone()], row, area.col, edge, canvas);
        let columns = |from: usize, to: usize| {
            let from = from.clamp(part.start, part.end) - part.start;
            let to = to.clamp(part.start, part.end) - part.start;
            area.col + from as u16..(area.col + to as u16).min(edge)
        };
        if let Some(what) = what {
            for hit in hits(cells, what) {
                let here = scroll.cursor.line == at.line && hit.contains(&scroll.cursor.col);
                let look = if here {
                    on(FrameColor(0), YELLOW, BOLD | REVERSE)
                } else {
                    on(FrameColor(0), YELLOW, 0)
                };
                // Signs where there are no colours: turned around, and the one in question bold.
                let shown = columns(hit.start, hit.end);
                canvas.restyle(row, shown, |_| match here {
                    true => on(FrameColor(0), MAGENTA, BOLD),
                    false => look,
                });
            }
        }
        if let Some((from, to)) = selected
            && (from.line..=to.line).contains(&at.line)
        {
            let start = if at.line == from.line { from.col } else { 0 };
            let end = if at.line == to.line {
                to.col + 1
            } else {
                cells.len()
            };
            canvas.restyle(row, columns(start, end), reversed);
        }
    }
    if let Some((row, col)) = scroll.cursor_at()
        && focused
        && row < area.rows
        && matches!(model.mode, Mode::Pane | Mode::Prefix)
        && scroll.prompt.is_none()
    {
        canvas.caret = Some(Caret {
            row: area.row + row,
            col: area.col + col.min(area.cols.saturating_sub(1)),
            shape: 2,
        });
    }
}
