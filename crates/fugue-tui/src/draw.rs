//! Renders a model into a cell buffer: tiles, sidebar, popups, status line. Rendering has no side effects.
//!
//! Colors are the sixteen of the person's own palette, so that they fit any background; every color is accompanied by a sign or a
//! word with the same meaning.

mod badges;
mod box_drawing;
mod help;
mod picker;
mod popup;
mod sidebar;
mod status;
mod tiles;

#[cfg(test)]
mod tests;

use fugue_api::PaneId;

use super::{
    buffer::{CellBuffer, StyledCell},
    model::{AttachModel, InputMode},
    style::ColorDepth,
};

pub use badges::pane_badge;
pub use help::HELP_ROWS;
pub use picker::picker_at;
pub use sidebar::sidebar_at;
pub use tiles::crop_offset;

/// Renders the whole screen. `wall` is the wall clock in milliseconds since 1970.
pub fn draw(model: &AttachModel, depth: ColorDepth, wall: u64) -> CellBuffer {
    let mut buffer = CellBuffer::new(model.size.rows, model.size.cols);
    tiles::draw(model, &mut buffer);
    sidebar::draw(model, wall, &mut buffer);
    status::draw(model, depth, &mut buffer);
    picker::draw(model, wall, &mut buffer);
    help::draw(model, &mut buffer);
    // A screen may be too small for the part that has the cursor.
    let (rows, cols) = (buffer.rows, buffer.cols);
    buffer.caret = buffer
        .caret
        .filter(|caret| caret.row < rows && caret.col < cols);
    buffer
}

/// Updates these rows of panes in a buffer and returns the old rows of the screen. `None`: the whole screen has to be rendered,
/// and the buffer is unchanged.
pub fn redraw(
    model: &AttachModel,
    rows: &[(PaneId, u16)],
    buffer: &mut CellBuffer,
) -> Option<Vec<(u16, Vec<StyledCell>)>> {
    let areas = model.areas();
    let covered = areas
        .sidebar
        .is_some_and(|sidebar| sidebar.col + sidebar.cols > areas.room.col);
    if covered || !matches!(model.mode, InputMode::Pane | InputMode::Prefix) {
        return None;
    }
    let tiles = model.tiles();
    let place = |pane: PaneId| {
        let tile = tiles.iter().find(|tile| tile.pane == pane)?;
        let view = model.views.get(&pane)?;
        let area = areas.inside(tile.place);
        tiles::is_plain(view, area).then_some((view, area))
    };
    let mut drawn = Vec::with_capacity(rows.len());
    for (pane, row) in rows {
        let (view, area) = place(*pane).filter(|(_, area)| *row < area.rows)?;
        drawn.push((area.row + row, view.rows.get(usize::from(*row)), area));
    }
    if let Some(pane) = model.shown_focus() {
        let (view, area) = place(pane)?;
        buffer.caret = tiles::caret(model, view, area, (0, 0));
    }
    // Panes side by side share a row of the screen.
    let mut old_rows: Vec<(u16, Vec<StyledCell>)> = Vec::with_capacity(drawn.len());
    for (row, cells, area) in drawn {
        if old_rows.iter().all(|(known, _)| *known != row) {
            old_rows.push((row, buffer.row(row).to_vec()));
        }
        let cells = cells.map_or(&[][..], |cells| cells);
        buffer.put_row(row, area.col, area.cols, cells, tiles::visible_cell);
    }
    Some(old_rows)
}
