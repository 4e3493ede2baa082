//! The picture of a model: tiles, sidebar, lists, status line. Nothing is decided here, and nothing done.
//!
//! Colours are the sixteen that the person has chosen, so that they fit any background; every one of them goes with a
//! sign or a word that says the same.

mod badges;
mod boxes;
mod help;
mod lines;
mod picker;
mod sidebar;
mod status;
mod tiles;

#[cfg(test)]
mod tests;

use fugue_api::PaneId;

use super::{
    canvas::{Canvas, Cell},
    looks::Depth,
    model::{Mode, Model},
};

pub use badges::badge;
pub use help::HELP_ROWS;
pub use picker::picker_at;
pub use sidebar::sidebar_at;
pub use tiles::cropped;

/// The whole screen at this time of the wall clock, in milliseconds since 1970.
pub fn draw(model: &Model, depth: Depth, wall: u64) -> Canvas {
    let mut canvas = Canvas::new(model.size.rows, model.size.cols);
    tiles::draw(model, &mut canvas);
    sidebar::draw(model, wall, &mut canvas);
    status::draw(model, depth, &mut canvas);
    picker::draw(model, wall, &mut canvas);
    help::draw(model, &mut canvas);
    // On a screen that is too small for what has it.
    let (rows, cols) = (canvas.rows, canvas.cols);
    canvas.caret = canvas
        .caret
        .filter(|caret| caret.row < rows && caret.col < cols);
    canvas
}

/// Brings a picture up to date in which only these rows of panes are not as they are now, and gives what they were.
/// `None`: it takes more than that, and nothing was done.
pub fn redraw(
    model: &Model,
    rows: &[(PaneId, u16)],
    canvas: &mut Canvas,
) -> Option<Vec<(u16, Vec<Cell>)>> {
    let places = model.places();
    let covered = places
        .sidebar
        .is_some_and(|sidebar| sidebar.col + sidebar.cols > places.room.col);
    if covered || !matches!(model.mode, Mode::Pane | Mode::Prefix) {
        return None;
    }
    let tiles = model.tiles();
    let place = |pane: PaneId| {
        let tile = tiles.iter().find(|tile| tile.pane == pane)?;
        let view = model.views.get(&pane)?;
        let area = places.inside(tile.place);
        tiles::is_plain(view, area).then_some((view, area))
    };
    let mut drawn = Vec::with_capacity(rows.len());
    for (pane, row) in rows {
        let (view, area) = place(*pane).filter(|(_, area)| *row < area.rows)?;
        drawn.push((area.row + row, view.rows.get(usize::from(*row)), area));
    }
    if let Some(pane) = model.shown_focus() {
        let (view, area) = place(pane)?;
        canvas.caret = tiles::caret(model, view, area, (0, 0));
    }
    // Side by side, several panes have the same row.
    let mut were: Vec<(u16, Vec<Cell>)> = Vec::with_capacity(drawn.len());
    for (row, cells, area) in drawn {
        if were.iter().all(|(known, _)| *known != row) {
            were.push((row, canvas.row(row).to_vec()));
        }
        let cells = cells.map_or(&[][..], |cells| cells);
        canvas.lay(row, area.col, area.cols, cells, tiles::seen);
    }
    Some(were)
}
