//! The mouse: focus, the wheel, edges, selection; or the program's own, if it wants it.

use std::time::Instant;

use fugue_api::{
    PaneId,
    attach::{FrameMouseMode, LayoutChange, Rect, SplitSide, Tile, ViewerRole},
};

use super::{
    Effect, Mode, Model,
    places::holds,
    scroll::{Place, Scroll},
};
use crate::{
    draw,
    keys::{Code, Mods, Press},
    mouse::{self, Deed, Mouse},
};

/// What the mouse has hold of.
pub enum Held {
    /// An edge of a pane, last seen at this row or column.
    Edge {
        pane: PaneId,
        side: SplitSide,
        at: u16,
    },
    /// Text, from this place of the tile on; selected as soon as the mouse moves.
    Text { pane: PaneId, row: u16, col: u16 },
    /// A button that the program was told of: it hears the rest too, wherever the mouse goes.
    Program { pane: PaneId },
}

// As most terminals scroll.
const ROWS_OF_A_CLICK: i64 = 3;

impl Model {
    pub(super) fn mouse(&mut self, mouse: Mouse, now: Instant, effects: &mut Vec<Effect>) {
        let deed = mouse.deed();
        match &mut self.mode {
            Mode::Help(top) => {
                match deed {
                    Deed::WheelUp => *top = top.saturating_sub(1),
                    Deed::WheelDown => *top = (*top + 1).min(draw::HELP_ROWS - 1),
                    Deed::Press(_) => self.mode = Mode::Pane,
                    _ => {}
                }
                return;
            }
            Mode::Picker(picker) => {
                match deed {
                    Deed::WheelUp => picker.go(-1),
                    Deed::WheelDown => picker.go(1),
                    Deed::Press(0) => {
                        let picked = draw::picker_at(self, mouse.row, mouse.col);
                        self.mode = Mode::Pane;
                        if let Some(pane) = picked {
                            self.go_to(pane, now, effects);
                        }
                    }
                    _ => {}
                }
                return;
            }
            Mode::Pane | Mode::Prefix | Mode::Close(_) => {}
        }
        if self.held.is_some() && self.held_moves(mouse, deed, now, effects) {
            return;
        }
        let places = self.places();
        if let Some(sidebar) = places.sidebar
            && holds(sidebar, mouse.row, mouse.col)
        {
            if deed == Deed::Press(0)
                && let Some(pane) = draw::sidebar_at(self, mouse.row)
            {
                self.go_to(pane, now, effects);
            }
            return;
        }
        match self.under(mouse.row, mouse.col) {
            Some((tile, Part::Title)) => {
                if matches!(deed, Deed::Press(0)) {
                    self.click(tile.pane, effects);
                    self.held = Some(Held::Edge {
                        pane: tile.pane,
                        side: SplitSide::Above,
                        at: mouse.row,
                    });
                }
            }
            Some((tile, Part::Inside(area))) => {
                self.mouse_inside(tile, area, mouse, deed, now, effects);
            }
            None => {
                if deed == Deed::Press(0)
                    && let Some(pane) = self.left_of(mouse.row, mouse.col)
                {
                    self.held = Some(Held::Edge {
                        pane,
                        side: SplitSide::Right,
                        at: mouse.col,
                    });
                }
            }
        }
    }

    fn click(&mut self, pane: PaneId, effects: &mut Vec<Effect>) {
        if self.peek.is_none() {
            self.set_focus(pane, effects);
        }
    }

    fn mouse_inside(
        &mut self,
        tile: Tile,
        area: Rect,
        mouse: Mouse,
        deed: Deed,
        now: Instant,
        effects: &mut Vec<Effect>,
    ) {
        let pane = tile.pane;
        if matches!(deed, Deed::Press(_)) {
            self.click(pane, effects);
        }
        let Some(view) = self.views.get(&pane) else {
            return;
        };
        let scrolling = view.scroll.is_some();
        let wants = view.modes.mouse != FrameMouseMode::Nothing;
        if !scrolling && wants && !view.ended && self.role == ViewerRole::Interactive {
            if let Deed::Press(_) = deed {
                self.held = Some(Held::Program { pane });
            }
            return self.pass_mouse(pane, area, mouse, now, effects);
        }
        match deed {
            Deed::WheelUp | Deed::WheelDown => {
                let rows = if deed == Deed::WheelUp {
                    -ROWS_OF_A_CLICK
                } else {
                    ROWS_OF_A_CLICK
                };
                let full_screen = view.modes.alternate && !view.ended;
                if !scrolling && full_screen {
                    self.arrows(pane, rows, now, effects);
                } else {
                    self.wheel(pane, rows, effects);
                }
            }
            Deed::Press(0) => {
                self.held = Some(Held::Text {
                    pane,
                    row: mouse.row - area.row,
                    col: mouse.col - area.col,
                });
            }
            _ => {}
        }
    }

    /// A full-screen program that knows no wheel knows arrows.
    fn arrows(&mut self, pane: PaneId, rows: i64, now: Instant, effects: &mut Vec<Effect>) {
        if self.role == ViewerRole::ReadOnly {
            return;
        }
        let code = if rows < 0 { Code::Up } else { Code::Down };
        let modes = self.views.get(&pane).map(|view| view.modes);
        let press = Press::new(code, Mods::NONE);
        let bytes = crate::keys::encode(&press, &modes.unwrap_or_default());
        let bytes = bytes.repeat(rows.unsigned_abs() as usize);
        self.type_into(pane, &bytes, now, effects);
    }

    fn pass_mouse(
        &mut self,
        pane: PaneId,
        area: Rect,
        mouse: Mouse,
        now: Instant,
        effects: &mut Vec<Effect>,
    ) {
        let Some(view) = self.views.get(&pane) else {
            return;
        };
        let (above, left) = draw::cropped(view, area);
        let within = |at: u16, from: u16, length: u16| {
            at.clamp(from, from.saturating_add(length.saturating_sub(1))) - from
        };
        let row = within(mouse.row, area.row, area.rows) + above;
        let col = within(mouse.col, area.col, area.cols) + left;
        if row >= view.size.rows || col >= view.size.cols {
            return;
        }
        let there = Mouse { row, col, ..mouse };
        if let Some(bytes) = mouse::encode(there, &view.modes) {
            self.type_into(pane, &bytes, now, effects);
        }
    }

    /// Goes on with what the mouse has hold of; gives whether that was all there is to do.
    fn held_moves(
        &mut self,
        mouse: Mouse,
        deed: Deed,
        now: Instant,
        effects: &mut Vec<Effect>,
    ) -> bool {
        let moves = matches!(deed, Deed::Drag(_));
        let ends = matches!(deed, Deed::Release(_));
        if !moves && !ends {
            // The button was let go of where nobody told us.
            self.held = matches!(deed, Deed::Move | Deed::Press(_))
                .then_some(())
                .map_or(self.held.take(), |()| None);
            return false;
        }
        match &mut self.held {
            Some(Held::Program { pane }) => {
                let pane = *pane;
                if let Some(tile) = self.tile(pane) {
                    let area = self.places().inside(tile.place);
                    self.pass_mouse(pane, area, mouse, now, effects);
                }
            }
            Some(Held::Edge { pane, side, at }) => {
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
                    self.arrange(LayoutChange::Push { pane, side, by }, effects);
                }
            }
            Some(Held::Text { pane, row, col }) => {
                let (pane, from) = (*pane, (*row, *col));
                self.drag(pane, from, mouse, deed, now, effects);
            }
            None => {}
        }
        if ends {
            self.held = None;
        }
        true
    }

    fn drag(
        &mut self,
        pane: PaneId,
        from: (u16, u16),
        mouse: Mouse,
        deed: Deed,
        now: Instant,
        effects: &mut Vec<Effect>,
    ) {
        let Some(tile) = self.tile(pane) else {
            return;
        };
        let area = self.places().inside(tile.place);
        let Some(view) = self.views.get_mut(&pane) else {
            return;
        };
        let (above, left) = draw::cropped(view, area);
        let row = mouse
            .row
            .clamp(area.row, area.row + area.rows.saturating_sub(1))
            - area.row;
        let col = mouse
            .col
            .clamp(area.col, area.col + area.cols.saturating_sub(1))
            - area.col;
        if view.scroll.is_none() {
            if (row, col) == from || matches!(deed, Deed::Release(_)) {
                return;
            }
            // The screen as it is now, so that what is selected stays where it is.
            let shown: Vec<_> = view
                .rows
                .iter()
                .skip(usize::from(above))
                .take(usize::from(area.rows))
                .map(|row| row.get(usize::from(left)..).unwrap_or_default().to_vec())
                .collect();
            let mut scroll = Scroll::screen(&shown, area.cols, Place { line: 0, col: 0 });
            scroll.fit(area.rows, area.cols);
            view.scroll = Some(scroll);
        }
        let Some(scroll) = &mut view.scroll else {
            return;
        };
        if matches!(deed, Deed::Release(_)) {
            if scroll.anchor.is_some() {
                self.copy_selected(pane, now, effects);
            }
            return;
        }
        let shown = scroll.in_sight();
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

    /// The tile at a place of the screen, and which part of it.
    fn under(&self, row: u16, col: u16) -> Option<(Tile, Part)> {
        let places = self.places();
        self.tiles().into_iter().find_map(|tile| {
            let inside = places.inside(tile.place);
            if holds(inside, row, col) {
                Some((tile, Part::Inside(inside)))
            } else if holds(places.on_screen(tile.place), row, col) {
                Some((tile, Part::Title))
            } else {
                None
            }
        })
    }

    /// The pane whose right edge is the line here.
    fn left_of(&self, row: u16, col: u16) -> Option<PaneId> {
        let places = self.places();
        if !holds(places.room, row, col) || self.peek.is_some() {
            return None;
        }
        let (tile, _) = self.under(row, col.checked_sub(1)?)?;
        Some(tile.pane)
    }
}

enum Part {
    Title,
    Inside(Rect),
}
