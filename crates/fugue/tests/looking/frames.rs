//! What is seen of a pane.

use std::time::{Duration, Instant};

use fugue_api::{
    attach::{
        FrameColor, FrameMouseEncoding, FrameMouseMode, FrameRow, FrameStyle, StyleAttributes,
        StyledSpan,
    },
    pane_state::PaneState,
};
use fugue_testkit::{figure, until};

use crate::{
    eye::{Eye, text},
    world,
};

#[test]
fn the_screen_comes_whole_and_then_only_what_changed() {
    let world = world();
    let pane = world
        .pane("printf 'one\\r\\ntwo\\r\\nthree\\r\\n'; read x; printf '\\033[2;1Hzwei\\033[4;1H'; exec cat")
        .pane_id;
    let mut eye = Eye::new(&world);
    let drawn = eye.until(pane, |drawn| drawn.shows("three"));
    assert_eq!(&drawn.rows[..4], ["one", "two", "three", ""]);
    let mut quiet = eye.until(pane, |drawn| {
        drawn.head.state.state == PaneState::NeedsInput
    });
    assert!(!quiet.frame.whole);
    // Nothing happens, so nothing is said.
    let parked = eye.ask_view(pane, quiet.frame.number);
    assert!(!eye.is_answered(parked));
    world.press(pane, &["Enter"]);
    let frame = eye.frame(parked);
    quiet = eye.draw(pane, frame);
    while !quiet.shows("zwei") {
        assert!(quiet.came <= 1, "{:?}", quiet.frame);
        quiet = eye.view(pane);
    }
    let FrameRow(row, spans) = &quiet.frame.rows[0];
    assert_eq!((*row, text(spans).as_str()), (1, "zwei"));
    assert_eq!(quiet.came, 1);
    assert_eq!(quiet.rows[0], "one");
    // Who has something else, or nothing, gets all of it.
    let id = eye.ask_view(pane, quiet.frame.number + 7);
    let again = eye.frame(id);
    assert!(again.whole);
    assert_eq!(again.rows.len(), 3);
    let mut other = Eye::new(&world);
    assert_eq!(other.view(pane).rows, quiet.rows);
}

#[test]
fn looks_cursor_and_modes_are_told() {
    let world = world();
    let pane = world
        .pane(
            "printf '\\033[1;31mred\\033[0m \\033[48;2;1;2;3m漢字\\033[0m\\r\\n\\033]2;a title\\007'; \
             printf '\\033[?1h\\033=\\033[?1002h\\033[?1006h\\033[?2004h\\033[?1004h\\033[>5u\\033[4 q\\033[?5h\\033[3;5H'; \
             printf done; exec cat",
        )
        .pane_id;
    let mut eye = Eye::new(&world);
    let drawn = eye.until(pane, |drawn| drawn.shows("done"));
    let frame = &drawn.frame;
    assert_eq!(drawn.rows[0], "red 漢字");
    let mut whole = Eye::new(&world);
    let first = whole.view(pane).frame.rows.remove(0);
    let plain = FrameStyle::default();
    let red = FrameStyle(
        FrameColor(1),
        FrameColor(-1),
        FrameColor(-1),
        StyleAttributes(1),
    );
    let blue = FrameStyle(
        FrameColor(-1),
        FrameColor(0x1_01_02_03),
        FrameColor(-1),
        StyleAttributes(0),
    );
    assert_eq!(
        first,
        FrameRow(
            0,
            vec![
                StyledSpan("red".into(), red),
                StyledSpan(" ".into(), plain),
                StyledSpan("漢字".into(), blue)
            ]
        )
    );
    assert_eq!((frame.cursor.row, frame.cursor.col), (2, 8));
    assert!(frame.cursor.visible);
    assert_eq!(frame.cursor.shape, 4);
    assert_eq!(drawn.head.title, "a title");
    let modes = drawn.head.modes;
    assert!(modes.app_cursor && modes.app_keypad && modes.bracketed_paste && modes.focus);
    assert!(modes.reverse && !modes.alternate);
    assert_eq!(modes.keyboard, 5);
    assert_eq!(
        (modes.mouse, modes.mouse_format),
        (FrameMouseMode::Drags, FrameMouseEncoding::Sgr)
    );
}

#[test]
fn an_echo_comes_at_once_and_keys_arrive_in_order() {
    let world = world();
    let pane = world.pane("stty raw -echo; printf ready; exec cat").pane_id;
    let mut eye = Eye::new(&world);
    let mut drawn = eye.until(pane, |drawn| drawn.shows("ready"));
    let mut took = Vec::new();
    for number in 0..100 {
        let key = char::from(b'a' + number % 26);
        let began = Instant::now();
        let view = eye.ask_view(pane, drawn.frame.number);
        eye.type_keys(pane, &key.to_string());
        let frame = eye.frame(view);
        drawn = eye.draw(pane, frame);
        while !drawn.rows.concat().ends_with(key) {
            drawn = eye.view(pane);
        }
        took.push(began.elapsed());
    }
    took.sort();
    figure("key to frame, debug build, p50", format!("{:?}", took[50]));
    assert!(took[50] < Duration::from_millis(10), "{took:?}");
    // All at once, without waiting for an answer.
    let keys: Vec<u64> = (0..200u32)
        .map(|number| {
            let client = eye.client;
            eye.ask(fugue_api::attach::AttachRequest::Type {
                client,
                pane,
                bytes: format!("{number:04};").into_bytes(),
            })
        })
        .collect();
    for key in keys {
        assert!(eye.answer(key).is_ok());
    }
    let expected: String = (0..200u32).map(|number| format!("{number:04};")).collect();
    eye.until(pane, |drawn| drawn.rows.concat().ends_with("0199;"));
    assert!(world.text(pane).replace('\n', "").ends_with(&expected));
}

#[test]
fn a_flood_is_neither_slowed_nor_kept_for_those_who_read_slowly() {
    let world = world();
    let flood = world
        .pane("read x; yes $(seq 1 12 | tr '\\n' ' ') | head -c 60000000; printf 'over%s' !; exec cat")
        .pane_id;
    let calm = world.pane("stty raw -echo; exec cat").pane_id;
    let mut slow = Eye::new(&world);
    let mut eye = Eye::new(&world);
    slow.view(flood);
    eye.view(flood);
    eye.view(calm);
    let memory = || {
        world.daemons()[0]
            .memory_kib()
            .get("Rss")
            .copied()
            .unwrap_or(0)
    };
    let before = memory();
    world.press(flood, &["Enter"]);
    let mut frames = 0;
    let mut worst = Duration::ZERO;
    loop {
        let drawn = eye.view(flood);
        frames += 1;
        if drawn.shows("over!") {
            break;
        }
        let began = Instant::now();
        let number = eye.view_number(calm);
        let view = eye.ask_view(calm, number);
        eye.type_keys(calm, "x");
        let frame = eye.frame(view);
        eye.draw(calm, frame);
        worst = worst.max(began.elapsed());
    }
    // It has asked nothing since the beginning; what it gets is what is there now.
    let drawn = slow.view(flood);
    assert!(drawn.shows("over!"));
    figure("frames of a flood of 60 MB", frames.to_string());
    figure(
        "the calm pane's slowest echo meanwhile, debug build",
        format!("{worst:?}"),
    );
    let grown = memory().saturating_sub(before);
    figure("memory the daemon gained by it", format!("{grown} KiB"));
    assert!(grown < 60_000, "{grown} KiB");
    assert!(worst < Duration::from_millis(500), "{worst:?}");
}

#[test]
fn a_redraw_is_seen_when_it_is_complete_and_never_waited_for_without_end() {
    let world = world();
    let pane = world
        .pane(
            "stty raw -echo; printf 'old\\r\\n'; head -c1 >/dev/null; \
             printf '\\033[?2026h\\033[2J\\033[Hhalf'; head -c1 >/dev/null; printf ' whole\\033[?2026l'; \
             head -c1 >/dev/null; printf '\\033[?2026h\\033[2J\\033[Hstuck'; exec cat",
        )
        .pane_id;
    let mut eye = Eye::new(&world);
    let drawn = eye.until(pane, |drawn| drawn.shows("old"));
    let view = eye.ask_view(pane, drawn.frame.number);
    eye.type_keys(pane, "1");
    eye.type_keys(pane, "2");
    let frame = eye.frame(view);
    let mut drawn = eye.draw(pane, frame);
    while !drawn.shows("whole") {
        assert!(!drawn.shows("half"), "{:?}", drawn.rows);
        drawn = eye.view(pane);
    }
    eye.type_keys(pane, "3");
    eye.until(pane, |drawn| drawn.shows("stuck"));
}

#[test]
fn a_pane_that_ends_says_so_and_is_seen_as_it_was() {
    let world = world();
    let pane = world.pane("printf 'last words'; read x; exit 3").pane_id;
    let mut eye = Eye::new(&world);
    let drawn = eye.until(pane, |drawn| drawn.shows("last words"));
    let parked = eye.ask_view(pane, drawn.frame.number);
    eye.type_keys(pane, "\r");
    let frame = eye.frame(parked);
    eye.draw(pane, frame);
    let drawn = eye.until(pane, |drawn| drawn.head.ended);
    assert!(drawn.shows("last words"));
    assert_eq!(drawn.head.state.state, PaneState::Exited);
    assert_eq!(drawn.head.state.exit_code, Some(3));
    // From its files, to whoever comes later.
    let mut later = Eye::new(&world);
    let drawn = later.view(pane);
    assert!(drawn.head.ended && drawn.frame.whole && drawn.shows("last words"));
    assert_eq!(drawn.head.state.exit_code, Some(3));
    let said = later.refused(fugue_api::attach::AttachRequest::Type {
        client: later.client,
        pane,
        bytes: b"x".to_vec(),
    });
    assert_eq!(said.kind, fugue_api::ErrorKind::Ended);
}

#[test]
fn lines_are_read_from_memory_and_from_the_files() {
    let world = world();
    world.configure("keep_lines = 100");
    let pane = world
        .pane("seq 1 5000 | sed 's/.*/line \\o033[3&8;5;9m&/'; printf 'the end'; exec cat")
        .pane_id;
    let mut eye = Eye::new(&world);
    let drawn = eye.until(pane, |drawn| drawn.shows("the end"));
    assert!(drawn.frame.top_line > 4900, "{}", drawn.frame.top_line);
    let last = eye.lines(pane, u64::MAX, 3);
    assert_eq!((last.from, last.end, last.kept_from), (4998, 5001, 0));
    let said: Vec<String> = last.lines.iter().map(|line| text(line)).collect();
    assert_eq!(said, ["line 4999", "line 5000", "the end"]);
    let first = eye.lines(pane, 0, 2);
    let said: Vec<String> = first.lines.iter().map(|line| text(line)).collect();
    assert_eq!((first.from, first.end), (0, 5001));
    assert_eq!(said, ["line 1", "line 2"]);
    assert_eq!(eye.lines(pane, 100, 100_000).lines.len(), 1000);
    world.close(pane);
    let first = eye.lines(pane, 10, 1);
    assert_eq!(text(&first.lines[0]), "line 11");
}

#[test]
fn a_daemon_that_dies_is_followed_by_one_that_shows_everything() {
    let world = world();
    let pane = world.pane("printf 'still here'; exec cat").pane_id;
    let mut eye = Eye::new(&world);
    let drawn = eye.until(pane, |drawn| {
        drawn.shows("still here") && drawn.head.state.state == PaneState::NeedsInput
    });
    let view = eye.ask_view(pane, drawn.frame.number);
    assert!(!eye.is_answered(view));
    world.daemons()[0].kill9();
    assert!(eye.is_cut_off());
    until("another daemon answers", Duration::from_secs(20), || {
        world.fugue(&["daemon", "start"]).code == Some(0)
    });
    let mut eye = Eye::again(&world, eye.client);
    let id = eye.ask_view(pane, drawn.frame.number);
    let frame = eye.frame(id);
    assert!(frame.whole);
    assert!(eye.draw(pane, frame).shows("still here"));
}
