//! A layout as it is stored: one list, because JSON nested as deep as a person may split is not read back.

use fugue_api::PaneId;
use serde::{Deserialize, Serialize};

use super::{Layout, Node, Part, Way};

/// A node; the parts of a split follow it, each with all that belongs to it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Piece {
    Pane(PaneId),
    Split { way: Way, shares: Vec<u32> },
}

impl From<Layout> for Vec<Piece> {
    fn from(layout: Layout) -> Self {
        fn write(node: &Node, pieces: &mut Vec<Piece>) {
            match node {
                Node::Pane(pane) => pieces.push(Piece::Pane(*pane)),
                Node::Split { way, parts } => {
                    pieces.push(Piece::Split {
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

impl From<Vec<Piece>> for Layout {
    /// What makes no sense is left out: panes that are missing are put back by whoever knows of them.
    fn from(pieces: Vec<Piece>) -> Self {
        fn read(pieces: &mut impl Iterator<Item = Piece>) -> Option<Node> {
            match pieces.next()? {
                Piece::Pane(pane) => Some(Node::Pane(pane)),
                Piece::Split { way, shares } => {
                    let mut parts: Vec<Part> = shares
                        .into_iter()
                        .map_while(|share| {
                            let node = read(pieces)?;
                            Some(Part {
                                share: share.max(1),
                                node,
                            })
                        })
                        .collect();
                    match parts.len() {
                        0 | 1 => parts.pop().map(|part| part.node),
                        _ => Some(Node::Split { way, parts }),
                    }
                }
            }
        }
        Layout {
            root: read(&mut pieces.into_iter()),
        }
    }
}
