//! Frames of panes.

use std::time::{Duration, Instant};

use fugue_api::{
    attach::{
        FrameColor, FrameMouseEncoding, FrameMouseMode, FrameRow, FrameStyle, StyleAttributes,
        StyledSpan,
    },
    pane_state::PaneState,
};
use fugue_testkit::{report_metric, until};

use crate::{
    attach_client::{AttachClient, text},
    test_env,
};

#[test]
fn the_first_frame_is_whole_and_later_ones_are_differences() {
    let test_env = test_env();
    let pane = test_env
        .pane("printf 'one\\r\\ntwo\\r\\nthree\\r\\n'; read x; printf '\\033[2;1Hzwei\\033[4;1H'; exec cat")
        .pane_id;
    let mut viewer = AttachClient::new(&test_env);
    let drawn = viewer.until(pane, |drawn| drawn.shows("three"));
    assert_eq!(&drawn.rows[..4], ["one", "two", "three", ""]);
    let mut quiet = viewer.until(pane, |drawn| {
        drawn.head.state.state == PaneState::NeedsInput
    });
    assert!(!quiet.frame.whole);
    // Without a change there is no frame.
    let parked = viewer.request_frame(pane, quiet.frame.number);
    assert!(!viewer.is_answered(parked));
    test_env.press(pane, &["Enter"]);
    let frame = viewer.frame(parked);
    quiet = viewer.draw(pane, frame);
    while !quiet.shows("zwei") {
        assert!(quiet.changed_rows <= 1, "{:?}", quiet.frame);
        quiet = viewer.view(pane);
    }
    let FrameRow(row, spans) = &quiet.frame.rows[0];
    assert_eq!((*row, text(spans).as_str()), (1, "zwei"));
    assert_eq!(quiet.changed_rows, 1);
    assert_eq!(quiet.rows[0], "one");
    // A client with an unknown frame number, or none, gets a whole frame.
    let id = viewer.request_frame(pane, quiet.frame.number + 7);
    let again = viewer.frame(id);
    assert!(again.whole);
    assert_eq!(again.rows.len(), 3);
    let mut other = AttachClient::new(&test_env);
    assert_eq!(other.view(pane).rows, quiet.rows);
}

#[test]
fn frames_have_styles_cursor_and_modes() {
    let test_env = test_env();
    let pane = test_env
        .pane(
            "printf '\\033[1;31mred\\033[0m \\033[48;2;1;2;3m漢字\\033[0m\\r\\n\\033]2;a title\\007'; \
             printf '\\033[?1h\\033=\\033[?1002h\\033[?1006h\\033[?2004h\\033[?1004h\\033[>5u\\033[4 q\\033[?5h\\033[3;5H'; \
             printf done; exec cat",
        )
        .pane_id;
    let mut viewer = AttachClient::new(&test_env);
    let drawn = viewer.until(pane, |drawn| drawn.shows("done"));
    let frame = &drawn.frame;
    assert_eq!(drawn.rows[0], "red 漢字");
    let mut whole = AttachClient::new(&test_env);
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
    let test_env = test_env();
    let pane = test_env
        .pane("stty raw -echo; printf ready; exec cat")
        .pane_id;
    let mut viewer = AttachClient::new(&test_env);
    let mut drawn = viewer.until(pane, |drawn| drawn.shows("ready"));
    let mut took = Vec::new();
    for number in 0..100 {
        let key = char::from(b'a' + number % 26);
        let began = Instant::now();
        let view = viewer.request_frame(pane, drawn.frame.number);
        viewer.type_keys(pane, &key.to_string());
        let frame = viewer.frame(view);
        drawn = viewer.draw(pane, frame);
        while !drawn.rows.concat().ends_with(key) {
            drawn = viewer.view(pane);
        }
        took.push(began.elapsed());
    }
    took.sort();
    report_metric("key to frame, debug build, p50", format!("{:?}", took[50]));
    assert!(took[50] < Duration::from_millis(10), "{took:?}");
    // All requests are sent before the first response is read.
    let keys: Vec<u64> = (0..200u32)
        .map(|number| {
            let client = viewer.client;
            viewer.request(fugue_api::attach::AttachRequest::Type {
                client,
                pane,
                bytes: format!("{number:04};").into_bytes(),
            })
        })
        .collect();
    for key in keys {
        assert!(viewer.response(key).is_ok());
    }
    let expected: String = (0..200u32).map(|number| format!("{number:04};")).collect();
    viewer.until(pane, |drawn| drawn.rows.concat().ends_with("0199;"));
    assert!(test_env.text(pane).replace('\n', "").ends_with(&expected));
}

#[test]
fn a_flood_is_neither_slowed_nor_buffered_for_slow_viewers() {
    let test_env = test_env();
    let flood = test_env
        .pane("read x; yes $(seq 1 12 | tr '\\n' ' ') | head -c 60000000; printf 'over%s' !; exec cat")
        .pane_id;
    let calm = test_env.pane("stty raw -echo; exec cat").pane_id;
    let mut slow = AttachClient::new(&test_env);
    let mut viewer = AttachClient::new(&test_env);
    slow.view(flood);
    viewer.view(flood);
    viewer.view(calm);
    let memory = || {
        test_env.daemons()[0]
            .memory_kib()
            .get("Rss")
            .copied()
            .unwrap_or(0)
    };
    let before = memory();
    test_env.press(flood, &["Enter"]);
    let mut frames = 0;
    let mut worst = Duration::ZERO;
    loop {
        let drawn = viewer.view(flood);
        frames += 1;
        if drawn.shows("over!") {
            break;
        }
        let began = Instant::now();
        let number = viewer.view_number(calm);
        let view = viewer.request_frame(calm, number);
        viewer.type_keys(calm, "x");
        let frame = viewer.frame(view);
        viewer.draw(calm, frame);
        worst = worst.max(began.elapsed());
    }
    // The first request after the flood gets the current screen.
    let drawn = slow.view(flood);
    assert!(drawn.shows("over!"));
    report_metric("frames of a flood of 60 MB", frames.to_string());
    report_metric(
        "the calm pane's slowest echo meanwhile, debug build",
        format!("{worst:?}"),
    );
    let grown = memory().saturating_sub(before);
    report_metric("memory the daemon gained by it", format!("{grown} KiB"));
    assert!(grown < 60_000, "{grown} KiB");
    assert!(worst < Duration::from_millis(500), "{worst:?}");
}

#[test]
fn a_frame_waits_for_the_end_of_a_redraw_and_not_without_limit() {
    let test_env = test_env();
    let pane = test_env
        .pane(
            "stty raw -echo; printf 'old\\r\\n'; head -c1 >/dev/null; \
             printf '\\033[?2026h\\033[2J\\033[Hhalf'; head -c1 >/dev/null; printf ' whole\\033[?2026l'; \
             head -c1 >/dev/null; printf '\\033[?2026h\\033[2J\\033[Hstuck'; exec cat",
        )
        .pane_id;
    let mut viewer = AttachClient::new(&test_env);
    let drawn = viewer.until(pane, |drawn| drawn.shows("old"));
    let view = viewer.request_frame(pane, drawn.frame.number);
    viewer.type_keys(pane, "1");
    viewer.type_keys(pane, "2");
    let frame = viewer.frame(view);
    let mut drawn = viewer.draw(pane, frame);
    while !drawn.shows("whole") {
        assert!(!drawn.shows("half"), "{:?}", drawn.rows);
        drawn = viewer.view(pane);
    }
    viewer.type_keys(pane, "3");
    viewer.until(pane, |drawn| drawn.shows("stuck"));
}

#[test]
fn an_ended_pane_keeps_its_last_screen() {
    let test_env = test_env();
    let pane = test_env.pane("printf 'last words'; read x; exit 3").pane_id;
    let mut viewer = AttachClient::new(&test_env);
    let drawn = viewer.until(pane, |drawn| drawn.shows("last words"));
    let parked = viewer.request_frame(pane, drawn.frame.number);
    viewer.type_keys(pane, "\r");
    let frame = viewer.frame(parked);
    viewer.draw(pane, frame);
    let drawn = viewer.until(pane, |drawn| drawn.head.ended);
    assert!(drawn.shows("last words"));
    assert_eq!(drawn.head.state.state, PaneState::Exited);
    assert_eq!(drawn.head.state.exit_code, Some(3));
    // A later client gets the screen from the output log.
    let mut later = AttachClient::new(&test_env);
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
    let test_env = test_env();
    test_env.configure("keep_lines = 100");
    let pane = test_env
        .pane("seq 1 5000 | sed 's/.*/line \\o033[3&8;5;9m&/'; printf 'the end'; exec cat")
        .pane_id;
    let mut viewer = AttachClient::new(&test_env);
    let drawn = viewer.until(pane, |drawn| drawn.shows("the end"));
    assert!(drawn.frame.top_line > 4900, "{}", drawn.frame.top_line);
    let last = viewer.lines(pane, u64::MAX, 3);
    assert_eq!((last.from, last.end, last.kept_from), (4998, 5001, 0));
    let said: Vec<String> = last.lines.iter().map(|line| text(line)).collect();
    assert_eq!(said, ["line 4999", "line 5000", "the end"]);
    let first = viewer.lines(pane, 0, 2);
    let said: Vec<String> = first.lines.iter().map(|line| text(line)).collect();
    assert_eq!((first.from, first.end), (0, 5001));
    assert_eq!(said, ["line 1", "line 2"]);
    assert_eq!(viewer.lines(pane, 100, 100_000).lines.len(), 1000);
    test_env.close(pane);
    let first = viewer.lines(pane, 10, 1);
    assert_eq!(text(&first.lines[0]), "line 11");
}

#[test]
fn a_new_daemon_sends_whole_frames() {
    let test_env = test_env();
    let pane = test_env.pane("printf 'still here'; exec cat").pane_id;
    let mut viewer = AttachClient::new(&test_env);
    let drawn = viewer.until(pane, |drawn| {
        drawn.shows("still here") && drawn.head.state.state == PaneState::NeedsInput
    });
    let view = viewer.request_frame(pane, drawn.frame.number);
    assert!(!viewer.is_answered(view));
    test_env.daemons()[0].kill9();
    assert!(viewer.is_disconnected());
    until("another daemon answers", Duration::from_secs(20), || {
        test_env.fugue(&["daemon", "start"]).code == Some(0)
    });
    let mut viewer = AttachClient::reconnect(&test_env, viewer.client);
    let id = viewer.request_frame(pane, drawn.frame.number);
    let frame = viewer.frame(id);
    assert!(frame.whole);
    assert!(viewer.draw(pane, frame).shows("still here"));
}
