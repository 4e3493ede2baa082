//! Tiles: the title and the screen of each pane, and the borders between them.

use std::collections::HashMap;

use fugue_api::attach::{FrameColor, FrameStyle, Rect, Tile};

use super::{
    badges::pane_badge,
    box_drawing::{LineJunction, LineWeight},
};
use crate::{
    buffer::{CellBuffer, CellGlyph, CursorMark, StyledCell, fit, width},
    clean,
    model::{AttachModel, InputMode, PaneView, ScreenAreas, ScrollView, find_matches},
    style::{
        BOLD, CYAN, DIM, HIDDEN, MAGENTA, REVERSE, YELLOW, add, coloured, on, plain, reversed, with,
    },
};

pub fn draw(model: &AttachModel, buffer: &mut CellBuffer) {
    let areas = model.areas();
    let tiles = model.tiles();
    if tiles.is_empty() {
        return wait(areas.room, buffer);
    }
    draw_lines(model, &areas, &tiles, buffer);
    for tile in &tiles {
        draw_title(model, &areas, tile, buffer);
        let area = areas.inside(tile.place);
        if let Some(view) = model.views.get(&tile.pane) {
            let focused = model.shown_focus() == Some(tile.pane);
            draw_inside(model, view, area, focused, buffer);
        }
    }
}

fn wait(room: Rect, buffer: &mut CellBuffer) {
    let text = "waiting for panes";
    let col = room.col + room.cols.saturating_sub(text.len() as u16) / 2;
    buffer.text(
        room.row + room.rows / 2,
        col,
        text,
        with(DIM),
        room.col + room.cols,
    );
}

/// Rows and columns of a pane that are hidden at the top and the left because it is larger than its tile. The area around the
/// cursor stays visible.
pub fn crop_offset(view: &PaneView, area: Rect) -> (u16, u16) {
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

/// The cells of the layout that no tile covers.
struct TileGaps {
    /// The area of the layout on the screen.
    area: Rect,
    covered: Vec<bool>,
    cols: usize,
}

impl TileGaps {
    fn new(area: Rect, areas: &ScreenAreas, tiles: &[Tile], buffer: &CellBuffer) -> Self {
        let cols = usize::from(buffer.cols);
        let mut covered = vec![false; usize::from(buffer.rows) * cols];
        for tile in tiles {
            let place = areas.on_screen(tile.place);
            for row in place.row..place.row + place.rows {
                for col in place.col..place.col + place.cols {
                    let index = usize::from(row) * cols + usize::from(col);
                    if let Some(cell) = covered.get_mut(index) {
                        *cell = true;
                    }
                }
            }
        }
        Self {
            area,
            covered,
            cols,
        }
    }

    fn is_inside(&self, row: u16, col: u16) -> bool {
        let area = self.area;
        (area.row..area.row + area.rows).contains(&row)
            && (area.col..area.col + area.cols).contains(&col)
    }

    fn is_gap(&self, row: u16, col: u16) -> bool {
        let index = usize::from(row) * self.cols + usize::from(col);
        self.is_inside(row, col) && self.covered.get(index).is_some_and(|covered| !covered)
    }

    /// The vertical borders.
    fn vertical_lines(&self) -> HashMap<(u16, u16), LineJunction> {
        let mut lines: HashMap<(u16, u16), LineJunction> = HashMap::new();
        let area = self.area;
        for row in area.row..area.row + area.rows {
            for col in area.col..area.col + area.cols {
                if self.is_gap(row, col) {
                    let cell = lines.entry((row, col)).or_default();
                    if row > 0 && self.is_gap(row - 1, col) {
                        cell.up = LineWeight::Light;
                    }
                    if self.is_gap(row + 1, col) {
                        cell.down = LineWeight::Light;
                    }
                }
            }
        }
        lines
    }
}

fn draw_lines(model: &AttachModel, areas: &ScreenAreas, tiles: &[Tile], buffer: &mut CellBuffer) {
    let room = areas.room;
    let all = match model.layout.as_ref().filter(|_| model.peek.is_none()) {
        Some(layout) => areas.on_screen(Rect {
            row: 0,
            col: 0,
            rows: layout.viewport.rows,
            cols: layout.viewport.cols,
        }),
        None => room,
    };
    let gaps = TileGaps::new(all, areas, tiles, buffer);
    let mut lines = gaps.vertical_lines();
    let mut accented: Vec<(u16, u16)> = Vec::new();
    for tile in tiles {
        let shown = areas.on_screen(tile.place);
        let title = shown.rows > areas.inside(tile.place).rows;
        let focused = model.shown_focus() == Some(tile.pane);
        let weight = if focused {
            LineWeight::Heavy
        } else {
            LineWeight::Light
        };
        let (start, end) = (shown.col, shown.col + shown.cols);
        if title {
            for col in start..end {
                let cell = lines.entry((shown.row, col)).or_default();
                (cell.left, cell.right) = (weight, weight);
                if shown.row > 0 && gaps.is_gap(shown.row - 1, col) {
                    cell.up = LineWeight::Light;
                }
                if focused {
                    accented.push((shown.row, col));
                }
            }
            if start > 0 && gaps.is_gap(shown.row, start - 1) {
                lines.entry((shown.row, start - 1)).or_default().right = weight;
            }
            if gaps.is_gap(shown.row, end) {
                lines.entry((shown.row, end)).or_default().left = weight;
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
    for ((row, col), junction) in lines {
        let style = if accented.contains(&(row, col)) {
            coloured(ACCENT)
        } else {
            with(DIM)
        };
        let glyph = CellGlyph::Char(junction.glyph());
        buffer.put(row, col, glyph, style, buffer.cols);
    }
    // The layout is smaller than this screen: another client has a smaller one.
    for row in room.row..room.row + room.rows {
        for col in room.col..room.col + room.cols {
            if !gaps.is_inside(row, col) {
                buffer.put(row, col, CellGlyph::Char('·'), with(DIM), buffer.cols);
            }
        }
    }
}

/// The parts at the right of a title: scroll position, crop, draft and zoom, then the state.
fn title_parts(
    model: &AttachModel,
    areas: &ScreenAreas,
    tile: &Tile,
    room: usize,
) -> Vec<(String, FrameStyle)> {
    let view = model.views.get(&tile.pane);
    let known = model.row(tile.pane);
    let state = view
        .and_then(|view| view.state.as_ref())
        .or(known.map(|row| &row.state));
    let mut right: Vec<(String, FrameStyle)> = Vec::new();
    if let Some(view) = view {
        if let Some(scroll) = &view.scroll {
            right.push((scroll_word(scroll), add(coloured(MAGENTA), BOLD)));
        }
        let area = areas.inside(tile.place);
        if view.number > 0 && (view.size.rows > area.rows || view.size.cols > area.cols) {
            let text = format!("part of {}×{}", view.size.cols, view.size.rows);
            right.push((text, with(DIM)));
        }
        if view.held.is_some() {
            right.push(("‖ held".into(), add(coloured(YELLOW), BOLD)));
        }
    }
    if model
        .layout
        .as_ref()
        .is_some_and(|all| all.zoomed == Some(tile.pane))
    {
        right.push(("zoomed".into(), coloured(ACCENT)));
    }
    if let Some(state) = state {
        let badge = pane_badge(state);
        let wide = room >= 34;
        let text = match wide {
            true => format!("{} {}", badge.sign, badge.word),
            false => badge.sign.to_string(),
        };
        right.push((text, badge.style));
    }
    right
}

fn draw_title(model: &AttachModel, areas: &ScreenAreas, tile: &Tile, buffer: &mut CellBuffer) {
    let shown = areas.on_screen(tile.place);
    if shown.rows == areas.inside(tile.place).rows || shown.cols < 4 {
        return;
    }
    let (row, edge) = (shown.row, shown.col + shown.cols - 1);
    let focused = model.shown_focus() == Some(tile.pane);
    let view = model.views.get(&tile.pane);
    let known = model.row(tile.pane);
    let room = usize::from(shown.cols) - 2;
    let mut right = title_parts(model, areas, tile, room);
    let sum = |parts: &[(String, FrameStyle)]| -> usize {
        parts.iter().map(|(text, _)| width(text) + 2).sum()
    };
    let name = known.map(|row| clean::line(&row.name)).unwrap_or_default();
    let name = if name.is_empty() {
        tile.pane.to_string()
    } else {
        name
    };
    // The name has priority; the parts at the right are dropped from the left.
    let least = width(&name).min(12) + 3;
    while right.len() > 1 && sum(&right) + least > room {
        right.remove(0);
    }
    let mut end = edge;
    for (text, style) in right.iter().rev() {
        let columns = width(text) as u16 + 2;
        if end < shown.col + 2 + columns {
            break;
        }
        end -= columns;
        buffer.text(row, end, &format!(" {text} "), *style, edge);
    }

    let style = if focused {
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
    let col = buffer.text(row, start, &text, style, end);
    let about = about(model, view, tile, &name);
    if !about.is_empty() && col + 8 < end {
        let room = usize::from(end - col) - 2;
        let text = format!("{} ", fit(&about, room));
        buffer.text(row, col, &text, with(DIM), end);
    }
}

/// The title that the program has set, else the command of the pane.
fn about(model: &AttachModel, view: Option<&PaneView>, tile: &Tile, name: &str) -> String {
    let title = view.map(|view| clean::line(view.title.trim()));
    let title = title.filter(|title| !title.is_empty());
    let command = || {
        let command = model.commands.get(&tile.pane)?;
        Some(clean::line(command.trim()))
    };
    // A title that repeats the name is left out.
    let repeats_name = |about: &String| about == name || about.rsplit('/').next() == Some(name);
    let about = title.or_else(command).filter(|about| !repeats_name(about));
    about.unwrap_or_default()
}

fn scroll_word(scroll: &ScrollView) -> String {
    let lines = scroll.end.saturating_sub(scroll.kept_from);
    match scroll.anchor {
        Some(_) => "select".into(),
        None => format!("scroll {}/{lines}", scroll.above() + 1),
    }
}

fn draw_inside(
    model: &AttachModel,
    view: &PaneView,
    area: Rect,
    focused: bool,
    buffer: &mut CellBuffer,
) {
    if let Some(trouble) = view.error.as_ref().filter(|_| view.rows.is_empty()) {
        let edge = area.col + area.cols;
        buffer.text_cut(area.row, area.col + 1, trouble, with(DIM), edge);
        return;
    }
    if let Some(scroll) = view.scroll.as_ref().filter(|scroll| scroll.known) {
        return draw_scroll(model, scroll, area, focused, buffer);
    }
    let (above, left) = crop_offset(view, area);
    for row in 0..area.rows.min(view.size.rows) {
        let cells = view.rows.get(usize::from(row + above));
        let cells = cells.map_or(&[][..], |cells| cells);
        let from = usize::from(left).min(cells.len());
        draw_cells(
            &cells[from..],
            area.row + row,
            area.col,
            area.col + area.cols,
            buffer,
        );
    }
    if view.modes.reverse {
        let cols = area.col..area.col + area.cols.min(view.size.cols);
        for row in 0..area.rows.min(view.size.rows) {
            buffer.restyle(area.row + row, cols.clone(), reversed);
        }
    }
    if view.number > 0 && !view.ended {
        beyond(view, area, buffer);
    }
    if focused {
        buffer.caret = caret(model, view, area, (above, left)).or(buffer.caret);
    }
}

/// Whether a tile shows exactly the screen of its pane: same size, no scroll view, no error, not reversed.
pub fn is_plain(view: &PaneView, area: Rect) -> bool {
    let fits = view.size.rows == area.rows && view.size.cols == area.cols;
    fits && view.scroll.is_none() && view.error.is_none() && !view.modes.reverse && view.number > 0
}

/// The cursor of the pane in focus, if it is visible.
pub fn caret(
    model: &AttachModel,
    view: &PaneView,
    area: Rect,
    hidden: (u16, u16),
) -> Option<CursorMark> {
    let cursor = view.cursor;
    let row = cursor.row.checked_sub(hidden.0)?;
    let col = cursor.col.checked_sub(hidden.1)?;
    let visible_cell = cursor.visible
        && !view.ended
        && row < area.rows
        && area.cols > 0
        && matches!(model.mode, InputMode::Pane | InputMode::Prefix);
    visible_cell.then(|| CursorMark {
        row: area.row + row,
        col: area.col + col.min(area.cols - 1),
        shape: cursor.shape,
    })
}

/// Fills the part of a tile that its pane does not cover.
fn beyond(view: &PaneView, area: Rect, buffer: &mut CellBuffer) {
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
    buffer.fill(below, '·', with(DIM));
    buffer.fill(beside, '·', with(DIM));
}

/// A cell as it is shown: hidden text becomes blanks.
pub fn visible_cell(cell: &StyledCell) -> StyledCell {
    match cell.glyph {
        _ if cell.style.3.0 & HIDDEN == 0 => cell.clone(),
        CellGlyph::Right => StyledCell::blank(plain()),
        _ => StyledCell::blank(cell.style),
    }
}

fn draw_cells(cells: &[StyledCell], row: u16, col: u16, edge: u16, buffer: &mut CellBuffer) {
    for (index, cell) in cells.iter().enumerate() {
        let col = col.saturating_add(index as u16);
        if col >= edge {
            return;
        }
        // A wide character is drawn with its left half; a right half whose left half is cropped is a blank.
        let glyph = match &cell.glyph {
            CellGlyph::Right if index > 0 => continue,
            CellGlyph::Right => CellGlyph::Char(' '),
            _ => visible_cell(cell).glyph,
        };
        buffer.put(row, col, glyph, cell.style, edge);
    }
}

fn draw_scroll(
    model: &AttachModel,
    scroll: &ScrollView,
    area: Rect,
    focused: bool,
    buffer: &mut CellBuffer,
) {
    let what = scroll.find.as_ref().map(|find| find.what.as_str());
    let selected = scroll.selection();
    let edge = area.col + area.cols;
    for (row, (at, part)) in (area.row..area.row + area.rows).zip(scroll.visible_rows()) {
        let cells = scroll.line(at.line);
        draw_cells(&cells[part.clone()], row, area.col, edge, buffer);
        let columns = |from: usize, to: usize| {
            let from = from.clamp(part.start, part.end) - part.start;
            let to = to.clamp(part.start, part.end) - part.start;
            area.col + from as u16..(area.col + to as u16).min(edge)
        };
        if let Some(what) = what {
            for hit in find_matches(cells, what) {
                let here = scroll.cursor.line == at.line && hit.contains(&scroll.cursor.col);
                let style = if here {
                    on(FrameColor(0), YELLOW, BOLD | REVERSE)
                } else {
                    on(FrameColor(0), YELLOW, 0)
                };
                // Without colors, matches are reversed and the current match is bold.
                let shown = columns(hit.start, hit.end);
                buffer.restyle(row, shown, |_| match here {
                    true => on(FrameColor(0), MAGENTA, BOLD),
                    false => style,
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
            buffer.restyle(row, columns(start, end), reversed);
        }
    }
    if let Some((row, col)) = scroll.cursor_at()
        && focused
        && row < area.rows
        && matches!(model.mode, InputMode::Pane | InputMode::Prefix)
        && scroll.prompt.is_none()
    {
        buffer.caret = Some(CursorMark {
            row: area.row + row,
            col: area.col + col.min(area.cols.saturating_sub(1)),
            shape: 2,
        });
    }
}
