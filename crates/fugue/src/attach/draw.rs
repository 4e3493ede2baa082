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

use super::{canvas::Canvas, looks::Depth, model::Model};

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
