//! Makes cells of shares. Tiles and the lines between columns fill the room exactly, whatever its size.

use fugue_api::{
    attach::{Rect, Tile},
    tools::PaneSize,
};

use super::{LayoutNode, LayoutPart, SplitDirection};

/// The least that a tile is worth showing with: its title and one row; a wide character must fit.
const LEAST: MinimumSize = MinimumSize { rows: 2, cols: 2 };

/// Rows and columns that something needs; more than any room has, if it must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MinimumSize {
    rows: u32,
    cols: u32,
}

/// A part of the room.
#[derive(Clone, Copy, Debug)]
pub struct TileArea {
    row: u32,
    col: u32,
    rows: u32,
    cols: u32,
}

impl TileArea {
    pub fn of(room: PaneSize) -> Self {
        Self {
            row: 0,
            col: 0,
            rows: room.rows.into(),
            cols: room.cols.into(),
        }
    }

    pub fn holds(&self, need: MinimumSize) -> bool {
        need.rows <= self.rows && need.cols <= self.cols
    }
}

impl SplitDirection {
    pub fn along(self, need: MinimumSize) -> u32 {
        match self {
            SplitDirection::Across => need.cols,
            SplitDirection::Down => need.rows,
        }
    }

    /// How wide the line between two parts is.
    fn line(self) -> u32 {
        match self {
            SplitDirection::Across => 1,
            SplitDirection::Down => 0,
        }
    }

    fn length(self, area: &TileArea) -> u32 {
        match self {
            SplitDirection::Across => area.cols,
            SplitDirection::Down => area.rows,
        }
    }

    fn with_length(self, area: &TileArea, length: u32) -> TileArea {
        match self {
            SplitDirection::Across => TileArea {
                cols: length,
                ..*area
            },
            SplitDirection::Down => TileArea {
                rows: length,
                ..*area
            },
        }
    }
}

pub fn tiles(root: Option<&LayoutNode>, room: PaneSize) -> Vec<Tile> {
    let area = TileArea::of(room);
    let mut tiles = Vec::new();
    match root {
        None => {}
        Some(root) if area.holds(least(root)) => put(root, &area, &mut tiles),
        Some(root) => {
            if let Some(shown) = pruned(root, &area) {
                put(&shown, &area, &mut tiles);
            }
        }
    }
    tiles.sort_by_key(|tile| (tile.place.row, tile.place.col));
    tiles
}

pub fn least(node: &LayoutNode) -> MinimumSize {
    match node {
        LayoutNode::Pane(_) => LEAST,
        LayoutNode::Split { way, parts } => {
            let lines = way.line() * (parts.len() as u32 - 1);
            let mut rows = Vec::with_capacity(parts.len());
            let mut cols = Vec::with_capacity(parts.len());
            for need in parts.iter().map(|part| least(&part.node)) {
                rows.push(need.rows);
                cols.push(need.cols);
            }
            let sum = |all: &[u32]| all.iter().sum::<u32>();
            let max = |all: &[u32]| all.iter().copied().max().unwrap_or(0);
            match way {
                SplitDirection::Across => MinimumSize {
                    rows: max(&rows),
                    cols: sum(&cols) + lines,
                },
                SplitDirection::Down => MinimumSize {
                    rows: sum(&rows) + lines,
                    cols: max(&cols),
                },
            }
        }
    }
}

/// How long each part of a split is.
pub fn lengths(way: SplitDirection, parts: &[LayoutPart], area: &TileArea) -> Vec<u32> {
    let lines = way.line() * (parts.len() as u32 - 1);
    let wishes: Vec<(u32, u32)> = parts
        .iter()
        .map(|part| (part.share, way.along(least(&part.node))))
        .collect();
    deal(way.length(area).saturating_sub(lines), &wishes)
}

/// Where one part of a split is.
pub fn part_area(way: SplitDirection, area: &TileArea, lengths: &[u32], index: usize) -> TileArea {
    let before: u32 = lengths[..index].iter().map(|one| one + way.line()).sum();
    let area = way.with_length(area, lengths[index]);
    match way {
        SplitDirection::Across => TileArea {
            col: area.col + before,
            ..area
        },
        SplitDirection::Down => TileArea {
            row: area.row + before,
            ..area
        },
    }
}

fn put(node: &LayoutNode, area: &TileArea, tiles: &mut Vec<Tile>) {
    match node {
        LayoutNode::Pane(pane) => {
            let cells = |count: u32| u16::try_from(count).unwrap_or(u16::MAX);
            tiles.push(Tile {
                pane: *pane,
                place: Rect {
                    row: cells(area.row),
                    col: cells(area.col),
                    rows: cells(area.rows),
                    cols: cells(area.cols),
                },
            });
        }
        LayoutNode::Split { way, parts } => {
            let lengths = lengths(*way, parts, area);
            for (index, part) in parts.iter().enumerate() {
                put(&part.node, &part_area(*way, area, &lengths, index), tiles);
            }
        }
    }
}

/// What of a node fits, those that come first before the others.
fn pruned(node: &LayoutNode, area: &TileArea) -> Option<LayoutNode> {
    match node {
        LayoutNode::Pane(_) => area.holds(LEAST).then(|| node.clone()),
        LayoutNode::Split { way, parts } => {
            let mut left = way.length(area);
            let mut kept: Vec<LayoutPart> = Vec::new();
            for part in parts {
                let line = if kept.is_empty() { 0 } else { way.line() };
                let room = left.saturating_sub(line);
                let Some(node) = pruned(&part.node, &way.with_length(area, room)) else {
                    continue;
                };
                left = room - way.along(least(&node)).min(room);
                kept.push(LayoutPart {
                    share: part.share,
                    node,
                });
            }
            match kept.len() {
                0 | 1 => kept.pop().map(|part| part.node),
                _ => Some(LayoutNode::Split {
                    way: *way,
                    parts: kept,
                }),
            }
        }
    }
}

/// Deals out a length by shares; nobody gets less than its least, and nothing is left over. All that is least must fit.
pub fn deal(total: u32, wishes: &[(u32, u32)]) -> Vec<u32> {
    let mut fixed = vec![false; wishes.len()];
    loop {
        let (mut free, mut shares) = (u64::from(total), 0);
        for (fixed, (share, least)) in fixed.iter().zip(wishes) {
            if *fixed {
                free = free.saturating_sub((*least).into());
            } else {
                shares += u64::from(*share);
            }
        }
        // Whoever's fair part is too little gets the least instead, which leaves less for the others.
        let mut again = false;
        for (fixed, (share, least)) in fixed.iter_mut().zip(wishes) {
            if !*fixed && free * u64::from(*share) / shares < u64::from(*least) {
                (*fixed, again) = (true, true);
            }
        }
        if again && fixed.iter().any(|fixed| !fixed) {
            continue;
        }
        let mut so_far = 0;
        return fixed
            .iter()
            .zip(wishes)
            .map(|(fixed, (share, least))| {
                if *fixed {
                    return *least;
                }
                let from = free * so_far / shares;
                so_far += u64::from(*share);
                (free * so_far / shares - from) as u32
            })
            .collect();
    }
}

/// A room in which everybody is shown.
#[cfg(test)]
pub fn least_room(layout: &super::SplitLayout) -> PaneSize {
    let need = layout.root.as_ref().map_or(LEAST, least);
    PaneSize {
        rows: need.rows as u16,
        cols: need.cols as u16,
    }
}
