//! The areas of the screen and the tiles in them.

use fugue_api::{
    PaneId,
    attach::{Rect, SplitSide, Tile},
    tools::PaneSize,
};

use super::AttachModel;

/// Columns of the sidebar, including its border.
pub const SIDEBAR: u16 = 38;
/// From this width on the sidebar is shown by default: eighty columns are left for panes.
pub const WIDE: u16 = 80 + SIDEBAR;
/// With fewer columns left, the sidebar covers the panes instead of standing beside them.
const LEAST: u16 = 40;

/// The areas of the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScreenAreas {
    /// At the left edge; it covers the panes if they would be too narrow beside it.
    pub sidebar: Option<Rect>,
    /// The area of the panes.
    pub room: Rect,
    pub status: Rect,
    /// Rows and columns of the layout that are scrolled out at the top and the left, if the layout is larger than the area.
    pub hidden: (u16, u16),
}

impl ScreenAreas {
    pub fn room_size(&self) -> PaneSize {
        PaneSize {
            rows: self.room.rows.max(2),
            cols: self.room.cols.max(2),
        }
    }

    /// Maps a rectangle of the layout to the screen, clipped to the pane area.
    pub fn on_screen(&self, place: Rect) -> Rect {
        let cut = |start: u16, length: u16, hidden: u16, from: u16, room: u16| {
            let end = start
                .saturating_add(length)
                .saturating_sub(hidden)
                .min(room);
            let start = start.saturating_sub(hidden).min(room);
            (from + start, end.saturating_sub(start))
        };
        let (row, rows) = cut(
            place.row,
            place.rows,
            self.hidden.0,
            self.room.row,
            self.room.rows,
        );
        let (col, cols) = cut(
            place.col,
            place.cols,
            self.hidden.1,
            self.room.col,
            self.room.cols,
        );
        Rect {
            row,
            col,
            rows,
            cols,
        }
    }

    /// The same without the title row.
    pub fn inside(&self, place: Rect) -> Rect {
        let shown = self.on_screen(place);
        let title = u16::from(place.row >= self.hidden.0 && shown.rows > 0);
        Rect {
            row: shown.row + title,
            rows: shown.rows - title,
            ..shown
        }
    }
}

pub fn contains(rect: Rect, row: u16, col: u16) -> bool {
    (rect.row..rect.row.saturating_add(rect.rows)).contains(&row)
        && (rect.col..rect.col.saturating_add(rect.cols)).contains(&col)
}

impl AttachModel {
    pub fn areas(&self) -> ScreenAreas {
        let PaneSize { rows, cols } = self.size;
        let wide = cols >= WIDE;
        let shown = self.sidebar.unwrap_or(wide);
        let body = rows.saturating_sub(1);
        let sidebar = shown.then_some(Rect {
            row: 0,
            col: 0,
            rows: body,
            cols: SIDEBAR.min(cols),
        });
        let beside = sidebar.filter(|_| wide && cols > SIDEBAR + LEAST);
        let left = beside.map_or(0, |sidebar| sidebar.cols);
        let room = Rect {
            row: 0,
            col: left,
            rows: body,
            cols: cols - left,
        };
        ScreenAreas {
            sidebar,
            room,
            status: Rect {
                row: body,
                col: 0,
                rows: rows.min(1),
                cols,
            },
            hidden: self.hidden(room),
        }
    }

    /// Scrolls a layout that is larger than the pane area so that the pane in focus is visible.
    fn hidden(&self, room: Rect) -> (u16, u16) {
        let Some(arrangement) = self.layout.as_ref().filter(|_| self.peek.is_none()) else {
            return (0, 0);
        };
        let focus = self.focus;
        let tile = arrangement
            .tiles
            .iter()
            .find(|tile| Some(tile.pane) == focus);
        let place = tile.map(|tile| tile.place).unwrap_or_default();
        let hidden = |all: u16, room: u16, start: u16, length: u16| {
            let most = all.saturating_sub(room);
            // The end of the pane is visible, or its start if it does not fit.
            let end = start.saturating_add(length).saturating_sub(room);
            end.min(start).min(most)
        };
        (
            hidden(arrangement.viewport.rows, room.rows, place.row, place.rows),
            hidden(arrangement.viewport.cols, room.cols, place.col, place.cols),
        )
    }

    /// The visible tiles.
    pub fn tiles(&self) -> Vec<Tile> {
        if let Some(pane) = self.peek {
            let PaneSize { rows, cols } = self.areas().room_size();
            let place = Rect {
                row: 0,
                col: 0,
                rows,
                cols,
            };
            return vec![Tile { pane, place }];
        }
        let arrangement = self.layout.as_ref();
        arrangement.map_or_else(Vec::new, |arrangement| arrangement.tiles.clone())
    }

    pub fn tile(&self, pane: PaneId) -> Option<Tile> {
        self.tiles().into_iter().find(|tile| tile.pane == pane)
    }

    /// The neighbour on that side that shares most of the edge; at the screen's edge the search wraps around.
    pub fn neighbour(&self, of: PaneId, side: SplitSide) -> Option<PaneId> {
        let tiles = self.tiles();
        let from = tiles.iter().find(|tile| tile.pane == of)?.place;
        let start = |rect: Rect| match side {
            SplitSide::Left | SplitSide::Right => (rect.col, rect.cols, rect.row, rect.rows),
            SplitSide::Above | SplitSide::Below => (rect.row, rect.rows, rect.col, rect.cols),
        };
        let (own_start, own_length, across, breadth) = start(from);
        let shared = |rect: Rect| {
            let (_, _, other, length) = start(rect);
            let from = across.max(other);
            let to = (across + breadth).min(other + length);
            to.saturating_sub(from)
        };
        let candidates = || {
            let others = tiles.iter().filter(|tile| tile.pane != of);
            others.filter(|tile| shared(tile.place) > 0)
        };
        let ahead = candidates().filter(|tile| {
            let (other, length, ..) = start(tile.place);
            match side {
                SplitSide::Left | SplitSide::Above => other + length <= own_start,
                SplitSide::Right | SplitSide::Below => other >= own_start + own_length,
            }
        });
        // Ordered by distance, then by the length of the shared edge, then by position.
        let near = |tile: &&Tile| {
            let (other, length, ..) = start(tile.place);
            let away = match side {
                SplitSide::Left | SplitSide::Above => own_start.abs_diff(other + length),
                SplitSide::Right | SplitSide::Below => other.abs_diff(own_start + own_length),
            };
            (away, u16::MAX - shared(tile.place))
        };
        let around = |tile: &&Tile| {
            let (other, ..) = start(tile.place);
            let far = match side {
                SplitSide::Left | SplitSide::Above => u16::MAX - other,
                SplitSide::Right | SplitSide::Below => other,
            };
            (far, u16::MAX - shared(tile.place))
        };
        ahead
            .min_by_key(near)
            .or_else(|| candidates().min_by_key(around))
            .map(|tile| tile.pane)
    }
}
