//! Mouse actions: focus, wheel, edges and selection, or passing the event to a program that has requested mouse events.

use std::time::Instant;

use fugue_api::{
    PaneId,
    attach::{FrameMouseMode, LayoutChange, Rect, SplitSide, Tile, ViewerRole},
    input_encoding::{self, KeyEvent, Modifiers},
    keys::KeyCode,
};

use super::{
    AttachModel, InputMode, ModelEffect,
    geometry::contains,
    scroll::{ScrollPosition, ScrollView},
};
use crate::{
    draw,
    mouse::{self, MouseAction, MouseEvent},
};

/// What a drag of the mouse moves.
pub enum MouseGrab {
    /// An edge of a pane; `at` is the row or column of the mouse at the last event.
    Edge {
        pane: PaneId,
        side: SplitSide,
        at: u16,
    },
    /// A selection that starts at this cell of the tile as soon as the mouse moves.
    Text { pane: PaneId, row: u16, col: u16 },
    /// A button press that was sent to the program, which gets the rest of the drag too, wherever the mouse goes.
    Program { pane: PaneId },
}

/// Rows per wheel step, as in most terminals.
const WHEEL_ROWS: i64 = 3;

impl AttachModel {
    pub(super) fn mouse(
        &mut self,
        mouse: MouseEvent,
        now: Instant,
        effects: &mut Vec<ModelEffect>,
    ) {
        let action = mouse.action();
        match &mut self.mode {
            InputMode::Help(top) => {
                match action {
                    MouseAction::WheelUp => *top = top.saturating_sub(1),
                    MouseAction::WheelDown => *top = (*top + 1).min(draw::HELP_ROWS - 1),
                    MouseAction::Press(_) => self.mode = InputMode::Pane,
                    _ => {}
                }
                return;
            }
            InputMode::Picker(picker) => {
                match action {
                    MouseAction::WheelUp => picker.go(-1),
                    MouseAction::WheelDown => picker.go(1),
                    MouseAction::Press(0) => {
                        let picked = draw::picker_at(self, mouse.row, mouse.col);
                        self.mode = InputMode::Pane;
                        if let Some(pane) = picked {
                            self.go_to(pane, now, effects);
                        }
                    }
                    _ => {}
                }
                return;
            }
            InputMode::Pane | InputMode::Prefix | InputMode::Close(_) => {}
        }
        if self.mouse_grab.is_some() && self.continue_drag(mouse, action, now, effects) {
            return;
        }
        let areas = self.areas();
        if let Some(sidebar) = areas.sidebar
            && contains(sidebar, mouse.row, mouse.col)
        {
            if action == MouseAction::Press(0)
                && let Some(pane) = draw::sidebar_at(self, mouse.row)
            {
                self.go_to(pane, now, effects);
            }
            return;
        }
        match self.tile_at(mouse.row, mouse.col) {
            Some((tile, TilePart::Title)) => {
                if matches!(action, MouseAction::Press(0)) {
                    self.click(tile.pane, effects);
                    self.mouse_grab = Some(MouseGrab::Edge {
                        pane: tile.pane,
                        side: SplitSide::Above,
                        at: mouse.row,
                    });
                }
            }
            Some((tile, TilePart::Inside(area))) => {
                self.mouse_inside(tile, area, mouse, action, now, effects);
            }
            None => {
                if action == MouseAction::Press(0)
                    && let Some(pane) = self.left_of(mouse.row, mouse.col)
                {
                    self.mouse_grab = Some(MouseGrab::Edge {
                        pane,
                        side: SplitSide::Right,
                        at: mouse.col,
                    });
                }
            }
        }
    }

    fn click(&mut self, pane: PaneId, effects: &mut Vec<ModelEffect>) {
        if self.peek.is_none() {
            self.set_focus(pane, effects);
        }
    }

    fn mouse_inside(
        &mut self,
        tile: Tile,
        area: Rect,
        mouse: MouseEvent,
        action: MouseAction,
        now: Instant,
        effects: &mut Vec<ModelEffect>,
    ) {
        let pane = tile.pane;
        if matches!(action, MouseAction::Press(_)) {
            self.click(pane, effects);
        }
        let Some(view) = self.views.get(&pane) else {
            return;
        };
        let scrolling = view.scroll.is_some();
        let wants = view.modes.mouse != FrameMouseMode::Nothing;
        if !scrolling && wants && !view.ended && self.role == ViewerRole::Interactive {
            if let MouseAction::Press(_) = action {
                self.mouse_grab = Some(MouseGrab::Program { pane });
            }
            return self.pass_mouse(pane, area, mouse, now, effects);
        }
        match action {
            MouseAction::WheelUp | MouseAction::WheelDown => {
                let rows = if action == MouseAction::WheelUp {
                    -WHEEL_ROWS
                } else {
                    WHEEL_ROWS
                };
                let full_screen = view.modes.alternate && !view.ended;
                if !scrolling && full_screen {
                    self.arrows(pane, rows, now, effects);
                } else {
                    self.wheel(pane, rows, effects);
                }
            }
            MouseAction::Press(0) => {
                self.mouse_grab = Some(MouseGrab::Text {
                    pane,
                    row: mouse.row - area.row,
                    col: mouse.col - area.col,
                });
            }
            _ => {}
        }
    }

    /// Sends arrow keys for the wheel to a full-screen program without mouse support.
    fn arrows(&mut self, pane: PaneId, rows: i64, now: Instant, effects: &mut Vec<ModelEffect>) {
        if self.role == ViewerRole::ReadOnly {
            return;
        }
        let code = if rows < 0 { KeyCode::Up } else { KeyCode::Down };
        let modes = self.views.get(&pane).map(|view| view.modes);
        let press = KeyEvent::new(code, Modifiers::NONE);
        let bytes = input_encoding::encode_key(&press, &modes.unwrap_or_default());
        let bytes = bytes.repeat(rows.unsigned_abs() as usize);
        self.type_into(pane, &bytes, now, effects);
    }

    fn pass_mouse(
        &mut self,
        pane: PaneId,
        area: Rect,
        mouse: MouseEvent,
        now: Instant,
        effects: &mut Vec<ModelEffect>,
    ) {
        let Some(view) = self.views.get(&pane) else {
            return;
        };
        let (above, left) = draw::crop_offset(view, area);
        let within = |at: u16, from: u16, length: u16| {
            at.clamp(from, from.saturating_add(length.saturating_sub(1))) - from
        };
        let row = within(mouse.row, area.row, area.rows) + above;
        let col = within(mouse.col, area.col, area.cols) + left;
        if row >= view.size.rows || col >= view.size.cols {
            return;
        }
        let there = MouseEvent { row, col, ..mouse };
        if let Some(bytes) = mouse::encode(there, &view.modes) {
            self.type_into(pane, &bytes, now, effects);
        }
    }

    /// Continues a drag. Returns whether the event was used up.
    fn continue_drag(
        &mut self,
        mouse: MouseEvent,
        action: MouseAction,
        now: Instant,
        effects: &mut Vec<ModelEffect>,
    ) -> bool {
        let moves = matches!(action, MouseAction::Drag(_));
        let ends = matches!(action, MouseAction::Release(_));
        if !moves && !ends {
            // The button was released outside the terminal, which sent no event.
            self.mouse_grab = matches!(action, MouseAction::Move | MouseAction::Press(_))
                .then_some(())
                .map_or(self.mouse_grab.take(), |()| None);
            return false;
        }
        match &mut self.mouse_grab {
            Some(MouseGrab::Program { pane }) => {
                let pane = *pane;
                if let Some(tile) = self.tile(pane) {
                    let area = self.areas().inside(tile.place);
                    self.pass_mouse(pane, area, mouse, now, effects);
                }
            }
            Some(MouseGrab::Edge { pane, side, at }) => {
                let (pane, side) = (*pane, *side);
                let (new, outwards) = match side {
                    SplitSide::Above => (mouse.row, i32::from(*at) - i32::from(mouse.row)),
                    SplitSide::Left | SplitSide::Right | SplitSide::Below => {
                        (mouse.col, i32::from(mouse.col) - i32::from(*at))
                    }
                };
                *at = new;
                if moves && outwards != 0 && self.role == ViewerRole::Interactive {
                    let by = outwards as i16;
                    self.change_layout(LayoutChange::MoveEdge { pane, side, by }, effects);
                }
            }
            Some(MouseGrab::Text { pane, row, col }) => {
                let (pane, from) = (*pane, (*row, *col));
                self.drag(pane, from, mouse, action, now, effects);
            }
            None => {}
        }
        if ends {
            self.mouse_grab = None;
        }
        true
    }

    fn drag(
        &mut self,
        pane: PaneId,
        from: (u16, u16),
        mouse: MouseEvent,
        action: MouseAction,
        now: Instant,
        effects: &mut Vec<ModelEffect>,
    ) {
        let Some(tile) = self.tile(pane) else {
            return;
        };
        let area = self.areas().inside(tile.place);
        let Some(view) = self.views.get_mut(&pane) else {
            return;
        };
        let (above, left) = draw::crop_offset(view, area);
        let row = mouse
            .row
            .clamp(area.row, area.row + area.rows.saturating_sub(1))
            - area.row;
        let col = mouse
            .col
            .clamp(area.col, area.col + area.cols.saturating_sub(1))
            - area.col;
        if view.scroll.is_none() {
            if (row, col) == from || matches!(action, MouseAction::Release(_)) {
                return;
            }
            // A copy of the screen, so that the selected text does not move.
            let shown: Vec<_> = view
                .rows
                .iter()
                .skip(usize::from(above))
                .take(usize::from(area.rows))
                .map(|row| row.get(usize::from(left)..).unwrap_or_default().to_vec())
                .collect();
            let mut scroll =
                ScrollView::screen(&shown, area.cols, ScrollPosition { line: 0, col: 0 });
            scroll.fit(area.rows, area.cols);
            view.scroll = Some(scroll);
        }
        let Some(scroll) = &mut view.scroll else {
            return;
        };
        if matches!(action, MouseAction::Release(_)) {
            if scroll.anchor.is_some() {
                self.copy_selected(pane, now, effects);
            }
            return;
        }
        let shown = scroll.visible_rows();
        let place = |row: u16, col: u16| {
            let at = usize::from(row).min(shown.len().saturating_sub(1));
            let row = shown.get(at)?.0;
            Some(scroll.place(row, usize::from(col)))
        };
        let (Some(start), Some(end)) = (place(from.0, from.1), place(row, col)) else {
            return;
        };
        if scroll.anchor.is_none() {
            scroll.anchor = Some(start);
        }
        scroll.cursor = end;
    }

    /// The tile at a cell of the screen, and its part.
    fn tile_at(&self, row: u16, col: u16) -> Option<(Tile, TilePart)> {
        let areas = self.areas();
        self.tiles().into_iter().find_map(|tile| {
            let inside = areas.inside(tile.place);
            if contains(inside, row, col) {
                Some((tile, TilePart::Inside(inside)))
            } else if contains(areas.on_screen(tile.place), row, col) {
                Some((tile, TilePart::Title))
            } else {
                None
            }
        })
    }

    /// The pane whose right edge is the border at this cell.
    fn left_of(&self, row: u16, col: u16) -> Option<PaneId> {
        let areas = self.areas();
        if !contains(areas.room, row, col) || self.peek.is_some() {
            return None;
        }
        let (tile, _) = self.tile_at(row, col.checked_sub(1)?)?;
        Some(tile.pane)
    }
}

enum TilePart {
    Title,
    Inside(Rect),
}
