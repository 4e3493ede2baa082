//! Where things are on the person's screen.

use fugue_api::{
    PaneId,
    attach::{Rect, SplitSide, Tile},
    tools::PaneSize,
};

use super::Model;

/// Columns of the sidebar, its line included.
pub const SIDEBAR: u16 = 38;
/// With fewer columns than this the panes get all of them: eighty are left beside the sidebar from here on.
pub const WIDE: u16 = 80 + SIDEBAR;
// A tile of fewer columns than that says nothing; the sidebar then covers it all.
const LEAST: u16 = 40;

/// The parts of the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Places {
    /// At the left; over the panes where they would get too narrow beside it.
    pub sidebar: Option<Rect>,
    /// What there is for panes.
    pub room: Rect,
    pub status: Rect,
    /// How much of the arrangement is out of sight above and to the left, where it is larger than the room.
    pub hidden: (u16, u16),
}

impl Places {
    pub fn room_size(&self) -> PaneSize {
        PaneSize {
            rows: self.room.rows.max(2),
            cols: self.room.cols.max(2),
        }
    }

    /// A place of the arrangement on the screen, cut where the room ends.
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

    /// The same without its title.
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

pub fn holds(rect: Rect, row: u16, col: u16) -> bool {
    (rect.row..rect.row.saturating_add(rect.rows)).contains(&row)
        && (rect.col..rect.col.saturating_add(rect.cols)).contains(&col)
}

impl Model {
    pub fn places(&self) -> Places {
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
        Places {
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

    /// Where the arrangement is larger than the room, the pane in focus is in sight.
    fn hidden(&self, room: Rect) -> (u16, u16) {
        let Some(arrangement) = self.arrangement.as_ref().filter(|_| self.peek.is_none()) else {
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
            // Its end, and if not all of it fits, its beginning.
            let end = start.saturating_add(length).saturating_sub(room);
            end.min(start).min(most)
        };
        (
            hidden(arrangement.room.rows, room.rows, place.row, place.rows),
            hidden(arrangement.room.cols, room.cols, place.col, place.cols),
        )
    }

    /// The tiles in sight.
    pub fn tiles(&self) -> Vec<Tile> {
        if let Some(pane) = self.peek {
            let PaneSize { rows, cols } = self.places().room_size();
            let place = Rect {
                row: 0,
                col: 0,
                rows,
                cols,
            };
            return vec![Tile { pane, place }];
        }
        let arrangement = self.arrangement.as_ref();
        arrangement.map_or_else(Vec::new, |arrangement| arrangement.tiles.clone())
    }

    pub fn tile(&self, pane: PaneId) -> Option<Tile> {
        self.tiles().into_iter().find(|tile| tile.pane == pane)
    }

    /// The tile at that side, the one that shares most of the edge; around the screen's edge if there is none.
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
        // The nearest, then the one with most in common, then the first.
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
