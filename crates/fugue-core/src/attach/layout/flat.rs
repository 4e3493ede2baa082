//! A layout as it is stored: one list, because JSON nested as deep as a person may split is not read back.

use fugue_api::PaneId;
use serde::{Deserialize, Serialize};

use super::{LayoutNode, LayoutPart, SplitDirection, SplitLayout};

/// A node. The parts of a split follow, each with all nodes below.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum FlatPiece {
    Pane(PaneId),
    Split {
        way: SplitDirection,
        shares: Vec<u32>,
    },
}

impl From<SplitLayout> for Vec<FlatPiece> {
    fn from(layout: SplitLayout) -> Self {
        fn write(node: &LayoutNode, pieces: &mut Vec<FlatPiece>) {
            match node {
                LayoutNode::Pane(pane) => pieces.push(FlatPiece::Pane(*pane)),
                LayoutNode::Split { way, parts } => {
                    pieces.push(FlatPiece::Split {
                        way: *way,
                        shares: parts.iter().map(|part| part.share).collect(),
                    });
                    for part in parts {
                        write(&part.node, pieces);
                    }
                }
            }
        }
        let mut pieces = Vec::new();
        if let Some(root) = &layout.root {
            write(root, &mut pieces);
        }
        pieces
    }
}

impl From<Vec<FlatPiece>> for SplitLayout {
    /// Drops invalid pieces. Panes that are missing afterwards are added by the next computation of the session's layout.
    fn from(pieces: Vec<FlatPiece>) -> Self {
        fn read(pieces: &mut impl Iterator<Item = FlatPiece>) -> Option<LayoutNode> {
            match pieces.next()? {
                FlatPiece::Pane(pane) => Some(LayoutNode::Pane(pane)),
                FlatPiece::Split { way, shares } => {
                    let mut parts: Vec<LayoutPart> = shares
                        .into_iter()
                        .map_while(|share| {
                            let node = read(pieces)?;
                            Some(LayoutPart {
                                share: share.max(1),
                                node,
                            })
                        })
                        .collect();
                    match parts.len() {
                        0 | 1 => parts.pop().map(|part| part.node),
                        _ => Some(LayoutNode::Split { way, parts }),
                    }
                }
            }
        }
        SplitLayout {
            root: read(&mut pieces.into_iter()),
        }
    }
}
