//! Equal shares of an area in a tmux window; the other panes of the window keep their sizes.
//!
//! A window's layout is a text (`#{window_layout}`): a tree of rows and columns. The subtree of fugue's panes is replaced by
//! a subtree with equal shares, and tmux gets the whole layout again.

use std::fmt::Write;

/// An area of a window, in cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TileRect {
    pub cols: u32,
    pub rows: u32,
    pub left: u32,
    pub top: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum LayoutTree {
    Pane(TileRect, u32),
    /// Side by side.
    Across(TileRect, Vec<LayoutTree>),
    /// One above the other.
    Down(TileRect, Vec<LayoutTree>),
}

/// A window's layout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WindowLayout(LayoutTree);

// A smaller pane is not readable.
const MIN_TILE_COLS: u32 = 20;
const MIN_TILE_ROWS: u32 = 3;
// A cell of a terminal is about twice as high as wide, and lines are read from left to right.
const WIDE: u32 = 3;
// tmux's own limit for the sides of a window (`WINDOW_MAXIMUM`).
const MAX_EXTENT: u32 = 10_000;
// Deeper splits do not fit into a window; the parser is recursive.
const MAX_DEPTH: usize = 256;

/// The better direction to halve a pane of this size, if large enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SplitAxis {
    Across,
    Down,
}

pub fn halves(cols: u32, rows: u32) -> Option<SplitAxis> {
    let across = cols > 2 * MIN_TILE_COLS;
    let down = rows > 2 * MIN_TILE_ROWS;
    match (across, down) {
        (true, true) if cols >= WIDE * rows / 2 => Some(SplitAxis::Across),
        (_, true) => Some(SplitAxis::Down),
        (true, false) => Some(SplitAxis::Across),
        (false, false) => None,
    }
}

impl WindowLayout {
    pub fn parse(text: &str) -> Option<Self> {
        let (_checksum, text) = text.trim().split_once(',')?;
        let mut rest = text;
        let tree = LayoutTree::parse(&mut rest, MAX_DEPTH)?;
        rest.is_empty().then_some(Self(tree))
    }

    /// The pane numbers, in the order in which tmux assigns areas.
    pub fn order(&self) -> Vec<u32> {
        let mut ids = Vec::new();
        self.0.ids(&mut ids);
        ids
    }

    /// The area that exactly these panes share.
    pub fn share(&self, ours: &[u32]) -> Option<TileRect> {
        self.0.clone().node_of(ours).map(|node| node.place())
    }

    /// The direction in which a split puts the new pane into a subtree with this pane alone: against the surrounding split.
    pub fn crossing(&self, id: u32) -> SplitAxis {
        match self.0.around(id) {
            Some(SplitAxis::Across) => SplitAxis::Down,
            Some(SplitAxis::Down) => SplitAxis::Across,
            None => SplitAxis::Down,
        }
    }

    /// The layout with equal shares for these panes, if these are all panes of a subtree.
    pub fn evened(&self, ours: &[u32]) -> Option<Self> {
        let mut tree = self.0.clone();
        let node = tree.node_of(ours)?;
        let mut ids = Vec::new();
        node.ids(&mut ids);
        *node = grid(node.place(), &ids)?;
        Some(Self(tree))
    }

    pub fn text(&self) -> String {
        let mut text = String::new();
        self.0.write(&mut text);
        let checksum = text.bytes().fold(0u16, |sum, byte| {
            sum.rotate_right(1).wrapping_add(u16::from(byte))
        });
        format!("{checksum:04x},{text}")
    }
}

/// Whether `count` panes fit into an area.
pub fn fits(place: TileRect, count: usize) -> bool {
    columns(place, count).is_some()
}

/// The best number of columns for `count` panes.
fn columns(place: TileRect, count: usize) -> Option<u32> {
    let count = u32::try_from(count).ok().filter(|count| *count > 0)?;
    let good = |columns: u32| {
        let rows = count.div_ceil(columns);
        let cols = (place.cols + 1).checked_div(columns)?.checked_sub(1)?;
        let high = (place.rows + 1).checked_div(rows)?.checked_sub(1)?;
        if cols < MIN_TILE_COLS || high < MIN_TILE_ROWS {
            return None;
        }
        // Equal sizes are preferred, even if each pane is slightly smaller.
        let even = if count.is_multiple_of(columns) { 10 } else { 8 };
        Some((cols.min(WIDE * high) * even, std::cmp::Reverse(columns)))
    };
    (1..=count)
        .filter_map(|columns| good(columns).map(|score| (score, columns)))
        .max()
        .map(|(_, columns)| columns)
}

fn grid(place: TileRect, ids: &[u32]) -> Option<LayoutTree> {
    let columns = columns(place, ids.len())?;
    let rows = u32::try_from(ids.len()).ok()?.div_ceil(columns);
    let mut left = ids;
    let mut bands = Vec::new();
    for (index, (top, high)) in parts(place.top, place.rows, rows).into_iter().enumerate() {
        // The last rows have at most one pane less.
        let rows_left = rows as usize - index;
        let (mine, others) = left.split_at(left.len().div_ceil(rows_left));
        left = others;
        let band = TileRect {
            top,
            rows: high,
            ..place
        };
        let across: Vec<LayoutTree> = parts(place.left, place.cols, mine.len() as u32)
            .into_iter()
            .zip(mine)
            .map(|((left, cols), id)| LayoutTree::Pane(TileRect { left, cols, ..band }, *id))
            .collect();
        bands.push(one_or(across, |across| LayoutTree::Across(band, across)));
    }
    Some(one_or(bands, |bands| LayoutTree::Down(place, bands)))
}

fn one_or(
    mut trees: Vec<LayoutTree>,
    many: impl FnOnce(Vec<LayoutTree>) -> LayoutTree,
) -> LayoutTree {
    match trees.len() {
        1 => trees.remove(0),
        _ => many(trees),
    }
}

/// Divides a length into `count` parts with border lines between the parts; the first parts get the remainder.
fn parts(start: u32, length: u32, count: u32) -> Vec<(u32, u32)> {
    let room = length - (count - 1);
    let mut at = start;
    (0..count)
        .map(|index| {
            let part = room / count + u32::from(index < room % count);
            let begin = at;
            at += part + 1;
            (begin, part)
        })
        .collect()
}

impl LayoutTree {
    fn place(&self) -> TileRect {
        match self {
            Self::Pane(place, _) | Self::Across(place, _) | Self::Down(place, _) => *place,
        }
    }

    fn ids(&self, ids: &mut Vec<u32>) {
        match self {
            Self::Pane(_, id) => ids.push(*id),
            Self::Across(_, inside) | Self::Down(_, inside) => {
                inside.iter().for_each(|tree| tree.ids(ids));
            }
        }
    }

    /// The direction of the split that contains the pane.
    fn around(&self, wanted: u32) -> Option<SplitAxis> {
        let (inside, how) = match self {
            Self::Pane(..) => return None,
            Self::Across(_, inside) => (inside, SplitAxis::Across),
            Self::Down(_, inside) => (inside, SplitAxis::Down),
        };
        let is_it = |tree: &Self| matches!(tree, Self::Pane(_, id) if *id == wanted);
        match inside.iter().any(is_it) {
            true => Some(how),
            false => inside.iter().find_map(|tree| tree.around(wanted)),
        }
    }

    fn node_of(&mut self, ours: &[u32]) -> Option<&mut Self> {
        let mut ids = Vec::new();
        self.ids(&mut ids);
        if ids.len() == ours.len() && ours.iter().all(|id| ids.contains(id)) {
            return Some(self);
        }
        match self {
            Self::Pane(..) => None,
            Self::Across(_, inside) | Self::Down(_, inside) => {
                inside.iter_mut().find_map(|tree| tree.node_of(ours))
            }
        }
    }

    /// Parses `80x24,0,0,5`, or a split with `{…}` (side by side) or `[…]` (one above the other) instead of the pane's number.
    /// `depth` limits the levels of nested splits.
    fn parse(rest: &mut &str, depth: usize) -> Option<Self> {
        let cols = extent(rest)?;
        skip(rest, 'x')?;
        let rows = extent(rest)?;
        skip(rest, ',')?;
        let left = extent(rest)?;
        skip(rest, ',')?;
        let top = extent(rest)?;
        let place = TileRect {
            cols,
            rows,
            left,
            top,
        };
        let opening = rest.chars().next()?;
        let closing = match opening {
            ',' => {
                skip(rest, ',')?;
                return Some(Self::Pane(place, number(rest)?));
            }
            '{' => '}',
            '[' => ']',
            _ => return None,
        };
        let depth = depth.checked_sub(1)?;
        let mut inside = Vec::new();
        let mut before = opening;
        while skip(rest, before).is_some() {
            inside.push(Self::parse(rest, depth)?);
            before = ',';
        }
        skip(rest, closing)?;
        Some(match opening {
            '{' => Self::Across(place, inside),
            _ => Self::Down(place, inside),
        })
    }

    fn write(&self, text: &mut String) {
        let TileRect {
            cols,
            rows,
            left,
            top,
        } = self.place();
        let _ = write!(text, "{cols}x{rows},{left},{top}");
        let (inside, opening, closing) = match self {
            Self::Pane(_, id) => {
                let _ = write!(text, ",{id}");
                return;
            }
            Self::Across(_, inside) => (inside, '{', '}'),
            Self::Down(_, inside) => (inside, '[', ']'),
        };
        for (index, tree) in inside.iter().enumerate() {
            text.push(if index == 0 { opening } else { ',' });
            tree.write(text);
        }
        text.push(closing);
    }
}

/// A size or a position in cells.
fn extent(rest: &mut &str) -> Option<u32> {
    number(rest).filter(|cells| *cells <= MAX_EXTENT)
}

fn number(rest: &mut &str) -> Option<u32> {
    let end = rest
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(rest.len());
    let (digits, after) = rest.split_at(end);
    *rest = after;
    digits.parse().ok()
}

fn skip(rest: &mut &str, wanted: char) -> Option<()> {
    *rest = rest.strip_prefix(wanted)?;
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    // Recorded from tmux 3.3a.
    const WINDOWS: &[&str] = &[
        "b25d,80x24,0,0,0",
        "d67b,200x60,0,0{100x60,0,0,0,99x60,101,0[99x30,101,0,1,99x29,101,31,2]}",
    ];

    #[test]
    fn a_layout_that_no_tmux_writes_is_refused() {
        let deep = format!("0000,{}", "9x9,0,0{".repeat(100_000));
        for text in [
            "0000,4294967295x9,0,0,1",
            "0000,9x9,4294967295,0,1",
            deep.as_str(),
        ] {
            assert!(WindowLayout::parse(text).is_none());
        }
    }

    #[test]
    fn a_layout_survives_its_text() {
        for text in WINDOWS {
            let layout = WindowLayout::parse(text).unwrap();
            assert_eq!(layout.text()[5..], text[5..]);
        }
        for bad in [
            "",
            "x",
            "0,80x24,0,0",
            "0,80x24,0,0{",
            "0,80x24,0,0,1]",
            "0,99999999999x1,0,0,1",
        ] {
            assert_eq!(WindowLayout::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn shares_are_even_and_the_others_keep_theirs() {
        let whole = TileRect {
            cols: 99,
            rows: 60,
            left: 101,
            top: 0,
        };
        for count in 1..=10u32 {
            let ids: Vec<u32> = (1..=count).collect();
            let tree = grid(whole, &ids).unwrap();
            let layout = WindowLayout(LayoutTree::Across(
                TileRect {
                    cols: 200,
                    rows: 60,
                    left: 0,
                    top: 0,
                },
                vec![
                    LayoutTree::Pane(
                        TileRect {
                            cols: 100,
                            rows: 60,
                            left: 0,
                            top: 0,
                        },
                        0,
                    ),
                    tree.clone(),
                ],
            ));
            let mut order = vec![0];
            order.extend(&ids);
            assert_eq!(layout.order(), order);
            assert_eq!(layout.share(&ids), Some(whole));
            assert_eq!(layout.evened(&ids), Some(layout.clone()));
            let mut places = Vec::new();
            collect(&tree, &mut places);
            let areas: Vec<u32> = places.iter().map(|p| (p.cols + 1) * (p.rows + 1)).collect();
            // All of the share is used, but for nothing.
            assert_eq!(areas.iter().sum::<u32>(), 100 * 61, "{count}");
            let (least, most) = (areas.iter().min().unwrap(), areas.iter().max().unwrap());
            assert!(most * 10 <= least * 21, "{count}: {areas:?}");
        }
        assert!(!fits(TileRect { rows: 5, ..whole }, 10));
    }

    fn collect(tree: &LayoutTree, places: &mut Vec<TileRect>) {
        match tree {
            LayoutTree::Pane(place, _) => places.push(*place),
            LayoutTree::Across(_, inside) | LayoutTree::Down(_, inside) => {
                inside.iter().for_each(|tree| collect(tree, places));
            }
        }
    }
}
