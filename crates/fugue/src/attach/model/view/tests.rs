use fugue_api::attach::Appearance;

use super::*;
use crate::attach::model::tests::{frame, headed, size};

/// What the pane shows after each piece that it prints; some rows come and go.
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
        vec![Span(text.into(), Appearance::default())],
    )
}

/// The rows of one screen that are not as on another.
fn different(from: usize, to: usize) -> Vec<FrameRow> {
    let rows = SCREENS[from].iter().zip(SCREENS[to]).enumerate();
    rows.filter(|(_, (was, is))| *was != is)
        .map(|(number, (_, is))| row(number, is))
        .collect()
}

/// What the program wants to hear comes and goes as well.
fn modes(at: usize) -> FrameModes {
    FrameModes {
        bracketed_paste: at.is_multiple_of(2),
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

fn glimpse_of(from: Option<usize>, to: usize) -> Glimpse {
    let all = || SCREENS[to].iter().enumerate();
    Glimpse {
        offset: to as u64,
        size: size(10, 40),
        modes: modes(to),
        rows: match from {
            Some(from) => different(from, to),
            None => all().map(|(number, text)| row(number, text)).collect(),
        },
        cursor: FrameCursor::default(),
        top_line: to as u64,
    }
}

fn shows(view: &View) -> Vec<String> {
    let text = |row: &Vec<Cell>| {
        let text = row.iter().map(|cell| match &cell.glyph {
            Glyph::Char(c) => c.to_string(),
            other => format!("{other:?}"),
        });
        text.collect::<String>()
    };
    view.rows[..3].iter().map(text).collect()
}

#[derive(Clone, Copy, Debug)]
enum Comes {
    Frame(usize),
    Glimpse(usize),
    /// All rows of it, for one who does not know what is shown.
    WholeGlimpse(usize),
}

/// Every order in which frames and glimpses of growing age can come.
fn orders(
    frames: usize,
    glimpses: usize,
    so_far: &mut Vec<Comes>,
    each: &mut impl FnMut(&[Comes]),
) {
    each(so_far);
    for next in frames + 1..SCREENS.len() {
        so_far.push(Comes::Frame(next));
        orders(next, glimpses, so_far, each);
        so_far.pop();
    }
    for next in glimpses + 1..SCREENS.len() {
        for comes in [Comes::Glimpse(next), Comes::WholeGlimpse(next)] {
            so_far.push(comes);
            orders(frames, next, so_far, each);
            so_far.pop();
        }
    }
}

#[test]
fn of_frames_and_glimpses_the_newest_is_shown() {
    let mut count = 0;
    orders(0, 0, &mut Vec::new(), &mut |order| {
        count += 1;
        let mut view = View::default();
        view.take(whole(0));
        let (mut told, mut shown) = (0, 0);
        for comes in order {
            let (before, wanted) = (shows(&view), view.modes);
            let rows = match *comes {
                Comes::Frame(at) => {
                    let rows = view.take(frame_of(told, at));
                    told = at;
                    shown = shown.max(at);
                    rows
                }
                Comes::Glimpse(at) => {
                    let rows = view.glimpse(glimpse_of(Some(shown), at));
                    shown = shown.max(at);
                    rows
                }
                Comes::WholeGlimpse(at) => {
                    let rows = view.glimpse(glimpse_of(None, at));
                    shown = shown.max(at);
                    rows
                }
            };
            assert_eq!(shows(&view), SCREENS[shown], "{order:?}");
            assert_eq!((view.offset, view.top_line), (shown as u64, shown as u64));
            assert_eq!(view.modes, modes(shown), "{order:?}");
            // What has changed is said to have; nothing said is everything.
            let Some(rows) = rows else {
                continue;
            };
            assert_eq!(wanted, view.modes);
            for (row, (was, is)) in before.iter().zip(shows(&view)).enumerate() {
                assert!(*was == is || rows.contains(&(row as u16)), "{order:?}");
            }
        }
    });
    assert!(count > 1000, "{count}");
}

#[test]
fn a_glimpse_of_another_size_is_left_to_the_next_frame() {
    let mut view = View::default();
    let nothing = Some(Vec::new());
    assert_eq!(view.glimpse(glimpse_of(None, 1)), nothing, "no frame yet");
    view.take(whole(0));
    let resized = Glimpse {
        size: size(5, 40),
        ..glimpse_of(None, 1)
    };
    assert_eq!(view.glimpse(resized), nothing);
    assert_eq!(shows(&view), SCREENS[0]);
    // A whole frame counts, whatever was seen ahead of it: another daemon's may have seen less.
    view.glimpse(glimpse_of(None, 3));
    assert_eq!(shows(&view), SCREENS[3]);
    view.take(whole(1));
    assert_eq!(shows(&view), SCREENS[1]);
    view.take(frame_of(1, 4));
    assert_eq!(shows(&view), SCREENS[4]);
}
