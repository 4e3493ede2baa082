//! The layout of a session: a tree of splits, each part of which has a share. Pure geometry without pane records and viewers.
//!
//! The tree has shares instead of cells, so that the same tree fits every size; [`SplitLayout::place`] converts to cells.

mod flat;
mod place;
#[cfg(test)]
pub(crate) mod tests;

use fugue_api::{
    PaneId,
    attach::{SplitSide, Tile},
    tools::PaneSize,
};
use serde::{Deserialize, Serialize};

use flat::FlatPiece;
use place::{TileArea, lengths, minimum_size, part_area};

/// The tree of splits.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(from = "Vec<FlatPiece>", into = "Vec<FlatPiece>")]
pub struct SplitLayout {
    root: Option<LayoutNode>,
}

#[derive(Clone, Debug, PartialEq)]
enum LayoutNode {
    Pane(PaneId),
    /// A split into at least two parts.
    Split {
        way: SplitDirection,
        parts: Vec<LayoutPart>,
    },
}

#[derive(Clone, Debug, PartialEq)]
struct LayoutPart {
    /// Never 0.
    share: u32,
    node: LayoutNode,
}

/// The direction in which the parts of a split follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum SplitDirection {
    /// Columns, with a line between two columns.
    Across,
    /// Rows, separated by the titles of the tiles.
    Down,
}

/// The tile has no edge on that side that could be moved, or no cells are left to move over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoEdge;

impl SplitLayout {
    /// Arranges all panes in rows, as evenly as possible and in readable proportions for this size.
    pub fn tiled(panes: &[PaneId], viewport: PaneSize) -> Self {
        let count = panes.len();
        let rows = (1..=count)
            .rev()
            .max_by_key(|rows| {
                let widest = count.div_ceil(*rows);
                let cols = (usize::from(viewport.cols) + 1).saturating_sub(widest) / widest;
                readable(cols, usize::from(viewport.rows) / rows)
            })
            .unwrap_or(1);
        let mut left = panes;
        let rows = (0..rows).filter_map(|row| {
            let here = left.len().div_ceil(rows - row).min(left.len());
            let (now, rest) = left.split_at(here);
            left = rest;
            LayoutNode::join(
                SplitDirection::Across,
                now.iter().copied().map(LayoutNode::Pane),
            )
        });
        let rows: Vec<LayoutNode> = rows.collect();
        Self {
            root: LayoutNode::join(SplitDirection::Down, rows.into_iter()),
        }
    }

    /// The tiles in an area of this size. If the area is too small for all panes, the first ones that fit.
    pub fn place(&self, viewport: PaneSize) -> Vec<Tile> {
        place::tiles(self.root.as_ref(), viewport)
    }

    pub fn panes(&self) -> Vec<PaneId> {
        let mut panes = Vec::new();
        if let Some(root) = &self.root {
            root.panes_into(&mut panes);
        }
        panes
    }

    pub fn has(&self, pane: PaneId) -> bool {
        self.path(pane).is_some()
    }

    /// Splits the tile of pane `of` in halves and gives one half to a new pane.
    pub fn split(&mut self, new: PaneId, of: PaneId, side: SplitSide) {
        let leaf = match self.path(of) {
            Some(path) => self.node_at(&path),
            None => self.root.as_mut(),
        };
        let Some(leaf) = leaf else {
            self.root = Some(LayoutNode::Pane(new));
            return;
        };
        let old = std::mem::replace(leaf, LayoutNode::Pane(new));
        let (first, second) = match side {
            SplitSide::Left | SplitSide::Above => (LayoutNode::Pane(new), old),
            SplitSide::Right | SplitSide::Below => (old, LayoutNode::Pane(new)),
        };
        if let Some(split) = LayoutNode::join(way_of(side), [first, second].into_iter()) {
            *leaf = split;
        }
    }

    /// Splits the largest tile for a new pane.
    pub fn add(&mut self, new: PaneId, viewport: PaneSize) {
        let tiles = self.place(viewport);
        let size = |tile: &&Tile| u32::from(tile.place.rows) * u32::from(tile.place.cols);
        // The first of several largest tiles: `max_by_key` would return the last.
        let largest = tiles.iter().rev().max_by_key(size);
        let Some(largest) = largest else {
            let last = self.panes().last().copied().unwrap_or(new);
            return self.split(new, last, SplitSide::Below);
        };
        let (rows, cols) = (
            usize::from(largest.place.rows),
            usize::from(largest.place.cols),
        );
        let across = readable(cols.saturating_sub(1) / 2, rows);
        let side = if across >= readable(cols, rows / 2) {
            SplitSide::Right
        } else {
            SplitSide::Below
        };
        self.split(new, largest.pane, side);
    }

    /// Removes a pane and gives its share to a neighbour.
    pub fn remove(&mut self, pane: PaneId) {
        match self.path(pane).as_deref() {
            None => {}
            Some([]) => self.root = None,
            Some([above @ .., index]) => {
                let Some(parent) = self.node_at(above) else {
                    return;
                };
                let LayoutNode::Split { parts, .. } = parent else {
                    return;
                };
                let gone = parts.remove(*index);
                let heir = index.saturating_sub(1);
                if let Some(heir) = parts.get_mut(heir) {
                    heir.share = heir.share.saturating_add(gone.share);
                }
                if parts.len() == 1
                    && let Some(only) = parts.pop()
                {
                    *parent = only.node;
                }
            }
        }
    }

    /// Exchanges two panes.
    pub fn swap(&mut self, one: PaneId, other: PaneId) {
        if let Some(root) = &mut self.root {
            root.rename(&|pane| match pane {
                pane if pane == one => other,
                pane if pane == other => one,
                pane => pane,
            });
        }
    }

    /// Moves an edge of a tile outwards by `by` cells, or inwards if negative, as far as the neighbours' minimum sizes allow.
    pub fn move_edge(
        &mut self,
        pane: PaneId,
        side: SplitSide,
        by: i16,
        viewport: PaneSize,
    ) -> Result<(), NoEdge> {
        let path = self.path(pane).ok_or(NoEdge)?;
        let mut area = TileArea::from_size(viewport);
        let mut node = self.root.as_ref().ok_or(NoEdge)?;
        if !area.holds(minimum_size(node)) {
            return Err(NoEdge);
        }
        // The innermost split with a part on the other side of that edge.
        let mut edge = None;
        for (depth, index) in path.iter().enumerate() {
            let LayoutNode::Split { way, parts } = node else {
                break;
            };
            let lengths = lengths(*way, parts, &area);
            let beyond = match side {
                SplitSide::Left | SplitSide::Above => index.checked_sub(1),
                SplitSide::Right | SplitSide::Below => {
                    Some(index + 1).filter(|next| *next < parts.len())
                }
            };
            if let Some(beyond) = beyond.filter(|_| *way == way_of(side)) {
                edge = Some((depth, *index, beyond, lengths.clone()));
            }
            area = part_area(*way, &area, &lengths, *index);
            node = &parts[*index].node;
        }
        let (depth, index, beyond, mut lengths) = edge.ok_or(NoEdge)?;
        let Some(LayoutNode::Split { way, parts }) = self.node_at(&path[..depth]) else {
            return Err(NoEdge);
        };
        let spare = |part: usize| lengths[part] - way.along(minimum_size(&parts[part].node));
        let (giver, taker) = if by >= 0 {
            (beyond, index)
        } else {
            (index, beyond)
        };
        let moved = u32::from(by.unsigned_abs()).min(spare(giver));
        if moved == 0 {
            return Err(NoEdge);
        }
        lengths[giver] -= moved;
        lengths[taker] += moved;
        for (part, length) in parts.iter_mut().zip(lengths) {
            part.share = length.max(1);
        }
        Ok(())
    }

    /// The path from the root to a pane.
    fn path(&self, pane: PaneId) -> Option<Vec<usize>> {
        let mut path = Vec::new();
        let root = self.root.as_ref()?;
        root.find(pane, &mut path).then_some(path)
    }

    fn node_at(&mut self, path: &[usize]) -> Option<&mut LayoutNode> {
        let mut node = self.root.as_mut()?;
        for index in path {
            let LayoutNode::Split { parts, .. } = node else {
                return None;
            };
            node = &mut parts.get_mut(*index)?.node;
        }
        Some(node)
    }
}

impl LayoutNode {
    /// Joins nodes with equal shares. A single node stays without a split.
    fn join(way: SplitDirection, nodes: impl Iterator<Item = LayoutNode>) -> Option<LayoutNode> {
        let mut parts: Vec<LayoutPart> = nodes.map(|node| LayoutPart { share: 1, node }).collect();
        match parts.len() {
            0 | 1 => parts.pop().map(|part| part.node),
            _ => Some(LayoutNode::Split { way, parts }),
        }
    }

    fn panes_into(&self, panes: &mut Vec<PaneId>) {
        match self {
            LayoutNode::Pane(pane) => panes.push(*pane),
            LayoutNode::Split { parts, .. } => {
                for part in parts {
                    part.node.panes_into(panes);
                }
            }
        }
    }

    fn find(&self, wanted: PaneId, path: &mut Vec<usize>) -> bool {
        match self {
            LayoutNode::Pane(pane) => *pane == wanted,
            LayoutNode::Split { parts, .. } => parts.iter().enumerate().any(|(index, part)| {
                path.push(index);
                let found = part.node.find(wanted, path);
                if !found {
                    path.pop();
                }
                found
            }),
        }
    }

    fn rename(&mut self, name: &impl Fn(PaneId) -> PaneId) {
        match self {
            LayoutNode::Pane(pane) => *pane = name(*pane),
            LayoutNode::Split { parts, .. } => {
                for part in parts {
                    part.node.rename(name);
                }
            }
        }
    }
}

fn way_of(side: SplitSide) -> SplitDirection {
    match side {
        SplitSide::Left | SplitSide::Right => SplitDirection::Across,
        SplitSide::Above | SplitSide::Below => SplitDirection::Down,
    }
}

/// How much of the usual 80 columns and 24 rows a tile has, whichever is scarcer.
fn readable(cols: usize, rows: usize) -> usize {
    (cols * 24).min(rows * 80)
}
