use fugue_api::{
    PaneId,
    attach::{Rect, SplitSide, Tile},
    tools::PaneSize,
};
use proptest::{collection::vec, prelude::*};

use super::{NoEdge, SplitLayout};

fn viewport(rows: u16, cols: u16) -> PaneSize {
    PaneSize { rows, cols }
}

fn ids(count: u64) -> Vec<PaneId> {
    (1..=count).map(PaneId).collect()
}

/// As `p1 0,0 24x80`: row and column, then rows and columns.
fn shown(tiles: &[Tile]) -> Vec<String> {
    let line = |tile: &Tile| {
        let Rect {
            row,
            col,
            rows,
            cols,
        } = tile.place;
        format!("{} {row},{col} {rows}x{cols}", tile.pane)
    };
    tiles.iter().map(line).collect()
}

/// Every cell belongs to one tile, or is a line with a tile at both of its sides.
pub(crate) fn check_filled(tiles: &[Tile], viewport: PaneSize) {
    let (rows, cols) = (usize::from(viewport.rows), usize::from(viewport.cols));
    if tiles.is_empty() {
        assert!(rows < 2 || cols < 2, "{viewport:?} holds one tile");
        return;
    }
    let mut owner = vec![0u64; rows * cols];
    for tile in tiles {
        let Rect {
            row,
            col,
            rows: height,
            cols: width,
        } = tile.place;
        assert!(height >= 2 && width >= 2, "{tile:?}");
        for y in row..row + height {
            for x in col..col + width {
                let cell = &mut owner[usize::from(y) * cols + usize::from(x)];
                assert_eq!(*cell, 0, "{:?} overlaps at {y},{x}", tile);
                *cell = tile.pane.0;
            }
        }
    }
    for (at, _) in owner.iter().enumerate().filter(|(_, owner)| **owner == 0) {
        let x = at % cols;
        assert!(
            x > 0 && x + 1 < cols,
            "a gap at the rim of {viewport:?}: {tiles:?}"
        );
        assert!(
            owner[at - 1] != 0 && owner[at + 1] != 0,
            "a gap at {},{x} of {viewport:?}: {tiles:?}",
            at / cols
        );
    }
}

#[derive(Clone, Debug)]
enum Change {
    Beside(u64, SplitSide),
    Add,
    Remove(u64),
    Swap(u64, u64),
    Push(u64, SplitSide, i16),
    Tiled,
    Stored,
}

fn side() -> impl Strategy<Value = SplitSide> {
    prop_oneof![
        Just(SplitSide::Left),
        Just(SplitSide::Right),
        Just(SplitSide::Above),
        Just(SplitSide::Below)
    ]
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        3 => (any::<u64>(), side()).prop_map(|(of, side)| Change::Beside(of, side)),
        3 => Just(Change::Add),
        3 => any::<u64>().prop_map(Change::Remove),
        2 => (any::<u64>(), any::<u64>()).prop_map(|(one, other)| Change::Swap(one, other)),
        4 => (any::<u64>(), side(), -40i16..40).prop_map(|(pane, side, by)| Change::Push(pane, side, by)),
        1 => Just(Change::Tiled),
        1 => Just(Change::Stored),
    ]
}

fn some(panes: &[PaneId], number: u64) -> PaneId {
    let index = number.checked_rem(panes.len() as u64).unwrap_or(0);
    panes.get(index as usize).copied().unwrap_or(PaneId(999))
}

proptest! {
    #[test]
    fn whatever_is_done_the_room_is_filled_and_nobody_is_lost(
        rows in 0u16..70,
        cols in 0u16..240,
        changes in vec(change(), 0..40),
    ) {
        let viewport = viewport(rows, cols);
        let mut layout = SplitLayout::default();
        let mut panes: Vec<PaneId> = Vec::new();
        let mut next = 1;
        for change in changes {
            match change {
                Change::Beside(of, side) => {
                    layout.split(PaneId(next), some(&panes, of), side);
                    panes.push(PaneId(next));
                    next += 1;
                }
                Change::Add => {
                    layout.add(PaneId(next), viewport);
                    panes.push(PaneId(next));
                    next += 1;
                }
                Change::Remove(which) => {
                    let gone = some(&panes, which);
                    layout.remove(gone);
                    panes.retain(|pane| *pane != gone);
                }
                Change::Swap(one, other) => layout.swap(some(&panes, one), some(&panes, other)),
                Change::Push(pane, side, by) => {
                    let before = layout.place(viewport);
                    let pushed = layout.move_edge(some(&panes, pane), side, by, viewport);
                    prop_assert!(pushed.is_ok() == (layout.place(viewport) != before));
                }
                Change::Tiled => layout = SplitLayout::tiled(&panes, viewport),
                Change::Stored => {
                    let text = serde_json::to_string(&layout).unwrap();
                    prop_assert_eq!(&serde_json::from_str::<SplitLayout>(&text).unwrap(), &layout);
                }
            }
            let mut there = layout.panes();
            there.sort();
            prop_assert_eq!(&there, &panes);
            if panes.is_empty() {
                continue;
            }
            check_filled(&layout.place(viewport), viewport);
            // In a viewport that is large enough, everybody is shown.
            let vast = super::place::least_room(&layout);
            let tiles = layout.place(vast);
            check_filled(&tiles, vast);
            prop_assert_eq!(tiles.len(), panes.len());
        }
    }

    #[test]
    fn a_tile_that_was_put_beside_and_taken_out_leaves_no_trace(
        changes in vec((any::<u64>(), side()), 1..20),
        of in any::<u64>(),
        at in side(),
    ) {
        let mut layout = SplitLayout::default();
        for (number, (beside, side)) in changes.iter().enumerate() {
            let panes = layout.panes();
            layout.split(PaneId(number as u64 + 1), some(&panes, *beside), *side);
        }
        let before = layout.clone();
        let panes = layout.panes();
        layout.split(PaneId(1000), some(&panes, of), at);
        layout.remove(PaneId(1000));
        prop_assert_eq!(layout, before);
    }

    #[test]
    fn any_room_is_survived(rows in any::<u16>(), cols in any::<u16>(), count in 0u64..30) {
        let viewport = viewport(rows, cols);
        for tile in SplitLayout::tiled(&ids(count), viewport).place(viewport) {
            prop_assert!(u32::from(tile.place.row) + u32::from(tile.place.rows) <= rows.into());
            prop_assert!(u32::from(tile.place.col) + u32::from(tile.place.cols) <= cols.into());
            prop_assert!(tile.place.rows >= 2 && tile.place.cols >= 2);
        }
    }
}

#[test]
fn tiles_are_even_and_can_be_read() {
    #[track_caller]
    fn check(count: u64, rows: u16, cols: u16, expected: &[&str]) {
        let viewport = viewport(rows, cols);
        let tiles = SplitLayout::tiled(&ids(count), viewport).place(viewport);
        if count > 0 {
            check_filled(&tiles, viewport);
        }
        assert_eq!(shown(&tiles), expected);
    }
    check(0, 24, 80, &[]);
    check(1, 24, 80, &["p1 0,0 24x80"]);
    check(2, 24, 80, &["p1 0,0 12x80", "p2 12,0 12x80"]);
    check(2, 50, 200, &["p1 0,0 50x99", "p2 0,100 50x100"]);
    check(
        3,
        50,
        200,
        &["p1 0,0 25x99", "p2 0,100 25x100", "p3 25,0 25x200"],
    );
    check(
        10,
        48,
        200,
        &[
            "p1 0,0 16x49",
            "p2 0,50 16x49",
            "p3 0,100 16x49",
            "p4 0,150 16x50",
            "p5 16,0 16x66",
            "p6 16,67 16x66",
            "p7 16,134 16x66",
            "p8 32,0 16x66",
            "p9 32,67 16x66",
            "p10 32,134 16x66",
        ],
    );
    // Too small for all: those that come first.
    check(3, 4, 3, &["p1 0,0 2x3", "p2 2,0 2x3"]);
    check(3, 2, 2, &["p1 0,0 2x2"]);
    check(3, 1, 1, &[]);
    check(3, 0, 0, &[]);
}

#[test]
fn ten_and_more_are_forty_wide_where_there_is_room() {
    for count in 1..=24 {
        let viewport = viewport(60, 220);
        let tiles = SplitLayout::tiled(&ids(count), viewport).place(viewport);
        assert_eq!(tiles.len() as u64, count);
        for tile in tiles {
            assert!(tile.place.cols >= 40, "{count}: {tile:?}");
        }
    }
}

#[test]
fn edges_are_pushed_as_far_as_they_go() {
    let viewport = viewport(24, 81);
    let mut layout = SplitLayout::default();
    layout.add(PaneId(1), viewport);
    layout.split(PaneId(2), PaneId(1), SplitSide::Right);
    layout.split(PaneId(3), PaneId(2), SplitSide::Below);
    let mut push = |pane, side, by| {
        let pushed = layout.move_edge(PaneId(pane), side, by, viewport);
        (pushed, shown(&layout.place(viewport)))
    };
    let tiles = |first: &str, second: &str, third: &str| {
        vec![first.to_owned(), second.to_owned(), third.to_owned()]
    };
    assert_eq!(
        push(1, SplitSide::Right, 5),
        (
            Ok(()),
            tiles("p1 0,0 24x45", "p2 0,46 12x35", "p3 12,46 12x35")
        )
    );
    // The same edge from the other side.
    assert_eq!(
        push(3, SplitSide::Left, 10),
        (
            Ok(()),
            tiles("p1 0,0 24x35", "p2 0,36 12x45", "p3 12,36 12x45")
        )
    );
    assert_eq!(
        push(2, SplitSide::Below, -100),
        (
            Ok(()),
            tiles("p1 0,0 24x35", "p2 0,36 2x45", "p3 2,36 22x45")
        )
    );
    assert_eq!(push(2, SplitSide::Below, -1).0, Err(NoEdge));
    assert_eq!(push(2, SplitSide::Right, 1).0, Err(NoEdge));
    assert_eq!(push(9, SplitSide::Right, 1).0, Err(NoEdge));
}

#[test]
fn a_neighbour_gets_the_room() {
    let viewport = viewport(24, 83);
    let mut layout = SplitLayout::tiled(&ids(2), viewport);
    layout.add(PaneId(3), viewport);
    layout.remove(PaneId(1));
    check_filled(&layout.place(viewport), viewport);
    layout.remove(PaneId(2));
    assert_eq!(shown(&layout.place(viewport)), ["p3 0,0 24x83"]);
    layout.remove(PaneId(3));
    layout.remove(PaneId(3));
    assert_eq!(layout, SplitLayout::default());
}

#[test]
fn a_hundred_splits_in_each_other_are_read_back() {
    let mut layout = SplitLayout::default();
    for number in 1..=100 {
        layout.split(PaneId(number), PaneId(number - 1), SplitSide::Below);
    }
    let text = serde_json::to_string(&layout).unwrap();
    assert_eq!(serde_json::from_str::<SplitLayout>(&text).unwrap(), layout);
    // And what somebody else wrote there harms nobody.
    let odd = r#"[{"split": {"way": "down", "shares": [0, 7, 9]}}, {"pane": "p1"}]"#;
    let layout: SplitLayout = serde_json::from_str(odd).unwrap();
    assert_eq!(layout.panes(), [PaneId(1)]);
}
