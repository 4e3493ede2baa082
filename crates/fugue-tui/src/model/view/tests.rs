use fugue_api::attach::FrameStyle;

use super::*;
use crate::model::tests::{frame, headed};

/// The screen of the pane after each piece of output; some rows appear and disappear.
const SCREENS: [[&str; 3]; 5] = [
    ["$", "", ""],
    ["$ a", "", ""],
    ["$ ab", "", "x"],
    ["$ a", "", ""],
    ["$", "out", "x"],
];

fn row(number: usize, text: &str) -> FrameRow {
    FrameRow(
        number as u16,
        vec![StyledSpan(text.into(), FrameStyle::default())],
    )
}

/// The rows that differ between two screens.
fn different(from: usize, to: usize) -> Vec<FrameRow> {
    let rows = SCREENS[from].iter().zip(SCREENS[to]).enumerate();
    rows.filter(|(_, (was, is))| *was != is)
        .map(|(number, (_, is))| row(number, is))
        .collect()
}

/// The modes of the program change as well.
fn modes(at: usize) -> FrameModes {
    FrameModes {
        bracketed_paste: at > 2,
        ..FrameModes::default()
    }
}

fn whole(at: usize) -> Frame {
    Frame {
        offset: at as u64,
        top_line: at as u64,
        ..headed(frame(at as u64 + 1, &SCREENS[at]), |head| {
            head.modes = modes(at)
        })
    }
}

fn frame_of(from: usize, to: usize) -> Frame {
    Frame {
        whole: false,
        rows: different(from, to),
        head: whole(to).head.filter(|_| modes(from) != modes(to)),
        offset: to as u64,
        top_line: to as u64,
        ..frame(to as u64 + 1, &[])
    }
}

fn shows(view: &PaneView) -> Vec<String> {
    let text = |row: &Vec<StyledCell>| {
        let text = row.iter().map(|cell| match &cell.glyph {
            CellGlyph::Char(c) => c.to_string(),
            other => format!("{other:?}"),
        });
        text.collect::<String>()
    };
    view.rows[..3].iter().map(text).collect()
}

#[test]
fn frames_are_applied_and_the_rows_that_changed_are_reported() {
    let mut view = PaneView::default();
    assert_eq!(view.apply(whole(0)), None);
    for (at, screen) in SCREENS.iter().enumerate().skip(1) {
        let rows = view.apply(frame_of(at - 1, at));
        assert_eq!(shows(&view), *screen);
        assert_eq!((view.offset, view.top_line), (at as u64, at as u64));
        assert_eq!(view.modes, modes(at));
        let changed: Vec<u16> = different(at - 1, at).iter().map(|row| row.0).collect();
        assert_eq!(rows, (modes(at - 1) == modes(at)).then_some(changed));
    }
}

#[test]
fn a_whole_frame_replaces_everything() {
    let mut view = PaneView::default();
    view.apply(whole(0));
    view.apply(frame_of(0, 4));
    // Another daemon's terminal may have read less of the log.
    view.apply(whole(1));
    assert_eq!(shows(&view), SCREENS[1]);
    view.apply(frame_of(1, 2));
    assert_eq!(shows(&view), SCREENS[2]);
}
