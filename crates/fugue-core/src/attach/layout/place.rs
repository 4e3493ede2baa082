//! Converts shares to cells. Tiles and the lines between columns fill the session's area exactly, in any size.

use fugue_api::{
    attach::{Rect, Tile},
    tools::PaneSize,
};

use super::{LayoutNode, LayoutPart, SplitDirection};

/// The minimum size of a visible tile: the title and a row, with space for a wide character.
const MIN_TILE: MinimumSize = MinimumSize { rows: 2, cols: 2 };

/// The rows and columns that a node needs, which may exceed any real size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MinimumSize {
    rows: u32,
    cols: u32,
}

/// A part of the session's area.
#[derive(Clone, Copy, Debug)]
pub struct TileArea {
    row: u32,
    col: u32,
    rows: u32,
    cols: u32,
}

impl TileArea {
    pub fn from_size(viewport: PaneSize) -> Self {
        Self {
            row: 0,
            col: 0,
            rows: viewport.rows.into(),
            cols: viewport.cols.into(),
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

    /// The width of the line between two parts.
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

pub fn tiles(root: Option<&LayoutNode>, viewport: PaneSize) -> Vec<Tile> {
    let area = TileArea::from_size(viewport);
    let mut tiles = Vec::new();
    match root {
        None => {}
        Some(root) if area.holds(minimum_size(root)) => add_tiles(root, &area, &mut tiles),
        Some(root) => {
            if let Some(shown) = pruned(root, &area) {
                add_tiles(&shown, &area, &mut tiles);
            }
        }
    }
    tiles.sort_by_key(|tile| (tile.place.row, tile.place.col));
    tiles
}

pub fn minimum_size(node: &LayoutNode) -> MinimumSize {
    match node {
        LayoutNode::Pane(_) => MIN_TILE,
        LayoutNode::Split { way, parts } => {
            let lines = way.line() * (parts.len() as u32 - 1);
            let mut rows = Vec::with_capacity(parts.len());
            let mut cols = Vec::with_capacity(parts.len());
            for need in parts.iter().map(|part| minimum_size(&part.node)) {
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

/// The length of each part of a split.
pub fn lengths(way: SplitDirection, parts: &[LayoutPart], area: &TileArea) -> Vec<u32> {
    let lines = way.line() * (parts.len() as u32 - 1);
    let wishes: Vec<(u32, u32)> = parts
        .iter()
        .map(|part| (part.share, way.along(minimum_size(&part.node))))
        .collect();
    distribute(way.length(area).saturating_sub(lines), &wishes)
}

/// The area of a part of a split.
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

fn add_tiles(node: &LayoutNode, area: &TileArea, tiles: &mut Vec<Tile>) {
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
                add_tiles(&part.node, &part_area(*way, area, &lengths, index), tiles);
            }
        }
    }
}

/// The parts of a node that fit into an area. Earlier parts have precedence.
fn pruned(node: &LayoutNode, area: &TileArea) -> Option<LayoutNode> {
    match node {
        LayoutNode::Pane(_) => area.holds(MIN_TILE).then(|| node.clone()),
        LayoutNode::Split { way, parts } => {
            let mut left = way.length(area);
            let mut kept: Vec<LayoutPart> = Vec::new();
            for part in parts {
                let line = if kept.is_empty() { 0 } else { way.line() };
                let space = left.saturating_sub(line);
                let Some(node) = pruned(&part.node, &way.with_length(area, space)) else {
                    continue;
                };
                left = space - way.along(minimum_size(&node)).min(space);
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

/// Distributes a length by shares. Each part gets at least its minimum, and nothing is left over. The sum of the minimums must
/// fit.
pub fn distribute(total: u32, wishes: &[(u32, u32)]) -> Vec<u32> {
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
        // A part whose share is below its minimum gets the minimum, which leaves less for the other parts.
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

/// The smallest size in which every pane has a tile.
#[cfg(test)]
pub fn least_room(layout: &super::SplitLayout) -> PaneSize {
    let need = layout.root.as_ref().map_or(MIN_TILE, minimum_size);
    PaneSize {
        rows: need.rows as u16,
        cols: need.cols as u16,
    }
}
