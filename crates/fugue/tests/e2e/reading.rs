//! `read`: text as a person would have read it, the screen, raw bytes, cursors and bounds.

use std::{fs, time::Duration};

use fugue_api::{
    pane_state::PaneState,
    tools::{CreatePaneReply, ReadPaneReply},
};
use fugue_testkit::{TestEnv, until, until_some};

const LIMIT: Duration = Duration::from_secs(120);
/// The longest wait for output that is pushed to the client; the machine may be busy.
const WAIT_TIMEOUT: Duration = Duration::from_secs(60);

fn test_env() -> TestEnv {
    TestEnv::new(env!("CARGO_BIN_EXE_fugue"), LIMIT)
}

/// Runs the command in an 80-column pane and compares all its text.
#[track_caller]
fn check(test_env: &TestEnv, command: &str, wanted: &str) {
    let pane: CreatePaneReply =
        test_env.json(&["new", "--rows", "24", "--cols", "80", "--", command]);
    test_env.exited(pane.pane_id);
    let text = test_env.text(pane.pane_id);
    assert_eq!(text.trim_end_matches('\n'), wanted, "{command}");
}

#[test]
fn text_is_what_a_person_would_have_read() {
    let test_env = test_env();
    let long = "0123456789".repeat(35);
    #[rustfmt::skip]
    let table = [
        ("printf abc", "abc"),
        ("printf 'a\\n\\nb\\n'", "a\n\nb"),
        ("printf '\\033[1;31mred\\033[0m and \\033[38;2;1;2;3mexact\\033[m\\n'", "red and exact"),
        // Progress bars collapse to what they last showed.
        ("for i in $(seq 0 100); do printf '\\r%3d%%' $i; done; printf '\\ndone\\n'", "100%\ndone"),
        ("printf 'loading...\\r\\033[Kready\\n'", "ready"),
        ("printf '12345\\b\\b\\bxyz\\n'", "12xyz"),
        // A line that is rewritten by moving up.
        ("printf 'one\\ntwo\\n\\033[2A\\033[KONE\\n\\nthree\\n'", "ONE\ntwo\nthree"),
        ("printf 'tab\\there\\n'", "tab     here"),
        // Wrapped lines are joined, also where a wide character would not fit the edge.
        (&format!("echo {long}"), &long),
        (&format!("echo {}", &long[..80]), &long[..80]),
        (&format!("echo {}漢字", &long[..79]), &format!("{}漢字", &long[..79])),
        (&format!("echo {}; echo next", &long[..160]), &format!("{}\nnext", &long[..160])),
        ("printf 'e\\xcc\\x81 \\xf0\\x9f\\x8e\\x89 \\xf0\\x9f\\x91\\xa9\\xe2\\x80\\x8d\\xf0\\x9f\\x91\\xa9\\xe2\\x80\\x8d\\xf0\\x9f\\x91\\xa7 한글\\n'", "e\u{301} 🎉 👩\u{200d}👩\u{200d}👧 한글"),
        // Cut in the middle of a character, with the terminal quiet in between.
        ("printf '\\xe2'; sleep 0.05; printf '\\x82'; sleep 0.05; printf '\\xac\\n'", "€"),
        ("printf 'a\\033['; sleep 0.05; printf '31mb\\033]0;ti'; sleep 0.05; printf 'tle\\007c\\n'", "abc"),
    ];
    for (command, wanted) in table {
        check(&test_env, command, wanted);
    }
}

#[test]
fn foreign_characters_in_bulk_come_through_whole() {
    let test_env = test_env();
    let line = |n: u32| format!("{n} €€€€€€€€€€ 漢字かな 🎉🎉 ñandú e\u{301} Ω");
    let file = test_env.work().join("bulk");
    let wanted: Vec<String> = (1..=5000).map(line).collect();
    fs::write(&file, wanted.join("\n") + "\n").expect("a file");
    let pane: CreatePaneReply = test_env.json(&[
        "new",
        "--cols",
        "200",
        "--",
        "cat bulk; printf '€%.0s' $(seq 800)",
    ]);
    test_env.exited(pane.pane_id);
    let text = test_env.text(pane.pane_id);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 5001);
    for (line, wanted) in lines.iter().zip(&wanted) {
        assert_eq!(line, wanted);
    }
    assert_eq!(lines[5000], "€".repeat(800));
    assert!(!text.contains('\u{fffd}'));
}

#[test]
fn the_bytes_themselves_come_back_exactly() {
    let test_env = test_env();
    let every: Vec<u8> = (0..=255)
        .cycle()
        .take(256 * 300)
        .map(|n: u32| n as u8)
        .collect();
    fs::write(test_env.work().join("bytes"), &every).expect("a file");
    let pane = test_env.pane("stty -opost; cat bytes").pane_id;
    test_env.exited(pane);
    let raw = test_env.raw(pane);
    assert!(
        raw == every,
        "{} bytes came back, {} were printed",
        raw.len(),
        every.len()
    );
    let (first, logged) = test_env.log(pane);
    assert_eq!(first, 0);
    assert!(logged == every, "the log on disk is the same");
    // JSON cannot hold them and says how many it could not.
    let reply: ReadPaneReply = test_env.read(
        pane,
        &["--raw", "-n", "1000000", "--max-output-chars", "1000000"],
    );
    assert!(reply.replaced_bytes > 0, "{:?}", reply.replaced_bytes);

    let pane = test_env.pane("printf 'a\\nb\\033[1mc'").pane_id;
    test_env.exited(pane);
    assert_eq!(test_env.raw(pane), b"a\r\nb\x1b[1mc");
    assert_eq!(test_env.read(pane, &["--raw"]).text, "a\r\nb\u{1b}[1mc");
}

#[test]
fn a_reply_is_bounded_and_says_what_it_left_out() {
    let test_env = test_env();
    let pane = test_env.pane("seq 1 9000").pane_id;
    test_env.exited(pane);

    let last: ReadPaneReply = test_env.read(pane, &[]);
    let wanted: Vec<String> = (8901..=9000).map(|n| n.to_string()).collect();
    assert_eq!(last.text.trim_end(), wanted.join("\n"));
    assert_eq!(last.lines, 100);
    assert_eq!(last.omitted_lines, 0, "100 were asked for and 100 given");

    let few: ReadPaneReply = test_env.read(pane, &["-n", "3"]);
    assert_eq!(few.text.trim_end(), "8998\n8999\n9000");

    let all: ReadPaneReply = test_env.read(pane, &["-n", "1000000"]);
    assert!(all.text.chars().count() <= 10_000);
    assert!(all.text.trim_end().ends_with("\n9000"), "the tail is kept");
    assert!(all.text.starts_with("1\n2\n"), "the head is kept");
    assert!(
        all.omitted_lines > 5000 && all.omitted_chars > 20_000,
        "{} lines, {} chars",
        all.omitted_lines,
        all.omitted_chars
    );
    let shown = all
        .text
        .lines()
        .filter(|line| line.parse::<u32>().is_ok())
        .count() as u64;
    assert_eq!(
        shown + all.omitted_lines,
        9000,
        "every line is shown or counted"
    );

    let raised: ReadPaneReply =
        test_env.read(pane, &["-n", "1000000", "--max-output-chars", "1000000"]);
    assert_eq!(
        (raised.lines, raised.omitted_lines, raised.omitted_chars),
        (9000, 0, 0)
    );

    // One line longer than the bound.
    let pane = test_env
        .pane("head -c 50000 /dev/zero | tr '\\0' x; echo; echo end")
        .pane_id;
    test_env.exited(pane);
    let reply: ReadPaneReply = test_env.read(pane, &[]);
    assert!(reply.text.chars().count() <= 10_000);
    assert!(reply.omitted_chars >= 40_000, "{}", reply.omitted_chars);
    assert!(reply.text.trim_end().ends_with("end"));
}

#[test]
fn since_gives_only_what_came_after() {
    let test_env = test_env();
    let pane = test_env
        .pane("stty -echo; for word in one two three; do echo $word; read -r _; done")
        .pane_id;
    test_env.until_printed(pane, |text| text.contains("one"));
    let first = test_env.read(pane, &[]);
    assert_eq!(first.text.trim_end(), "one");
    let nothing = test_env.read(pane, &["--since", &first.cursor.0]);
    assert_eq!((nothing.text.as_str(), nothing.lines), ("", 0));
    test_env.press(pane, &["Enter"]);
    test_env.until_printed(pane, |text| text.contains("two"));
    let second = test_env.read(pane, &["--since", &first.cursor.0]);
    assert_eq!(second.text.trim_end(), "two");
    // A cursor outlives the daemon that gave it.
    test_env.fugue(&["daemon", "restart"]).ok();
    assert_eq!(
        test_env
            .read(pane, &["--since", &first.cursor.0])
            .text
            .trim_end(),
        "two"
    );
    test_env.press(pane, &["Enter"]);
    test_env.until_printed(pane, |text| text.contains("three"));
    assert_eq!(
        test_env
            .read(pane, &["--since", &second.cursor.0])
            .text
            .trim_end(),
        "three"
    );
    assert_eq!(
        test_env
            .read(pane, &["--since", &first.cursor.0])
            .text
            .trim_end(),
        "two\nthree"
    );
    test_env.press(pane, &["Enter"]);
    test_env.exited(pane);
    let raw_since = test_env.read(pane, &["--raw", "--since", &second.cursor.0]);
    assert_eq!(raw_since.text, "three\r\n");
}

#[test]
fn grep_gives_matching_lines_with_their_numbers() {
    let test_env = test_env();
    let pane = test_env
        .pane("seq 1 30 | sed 's/.*/line & of many/'")
        .pane_id;
    test_env.exited(pane);
    let found = test_env.read(pane, &["--grep", "7 of"]);
    assert_eq!(found.lines, 3);
    let lines: Vec<&str> = found.text.lines().collect();
    for (line, number) in lines.iter().zip([7, 17, 27]) {
        assert!(
            line.contains(&format!("line {number} of many")),
            "{found:?}"
        );
        let before = line.split("line").next().unwrap_or_default();
        assert!(
            before.contains(&number.to_string()),
            "the number is said: {found:?}"
        );
    }
    assert_eq!(test_env.read(pane, &["--grep", "^line 1\\b"]).lines, 1);
    assert_eq!(test_env.read(pane, &["--grep", "nowhere"]).lines, 0);
}

#[test]
fn following_goes_on_to_the_end_and_then_ends() {
    let test_env = test_env();
    let pane = test_env
        .pane("echo one; read -r _; echo two; read -r _; printf three; exit 4")
        .pane_id;
    let mut follower = test_env.follow(pane);
    follower.wait_for_stdout(WAIT_TIMEOUT, |said| said.contains("one\n"));
    test_env.type_line(pane, "");
    follower.wait_for_stdout(WAIT_TIMEOUT, |said| said.contains("two\n"));
    test_env.type_line(pane, "");
    let ran = follower.end(LIMIT).ok();
    assert_eq!(
        ran.out().replace("\n\n", "\n").trim_end(),
        "one\ntwo\nthree"
    );
    // Following what has ended gives its text and ends at once.
    assert!(
        test_env
            .follow(pane)
            .end(LIMIT)
            .ok()
            .out()
            .contains("three")
    );

    // A burst is given whole, in order, once.
    let pane = test_env.pane("seq 1 60000").pane_id;
    let mut args = vec!["read".to_owned(), pane.to_string(), "-f".to_owned()];
    args.extend(["-n", "1000000"].map(str::to_owned));
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let said = test_env.start(&args).end(LIMIT).ok().out();
    let numbers: Vec<u32> = said.lines().filter_map(|line| line.parse().ok()).collect();
    let first = *numbers.first().expect("something was followed");
    assert!(
        numbers.iter().copied().eq(first..=60000),
        "from {first}, {} lines",
        numbers.len()
    );
}

#[test]
fn following_ends_when_the_pane_is_closed() {
    let test_env = test_env();
    let pane = test_env.pane("echo here; exec cat").pane_id;
    let mut follower = test_env.follow(pane);
    follower.wait_for_stdout(WAIT_TIMEOUT, |said| said.contains("here"));
    test_env.close(pane);
    follower.end(LIMIT);
}

#[test]
fn ended_panes_stay_readable() {
    let test_env = test_env();
    let exited = test_env.pane("echo out; exit 3").pane_id;
    test_env.exited(exited);
    let closed = test_env.pane("echo out; exec cat").pane_id;
    test_env.until_printed(closed, |text| text.contains("out"));
    test_env.close(closed);
    for round in 0..2 {
        for (pane, state) in [(exited, PaneState::Exited), (closed, PaneState::Closed)] {
            let reply = test_env.read(pane, &[]);
            assert_eq!(
                (reply.text.trim_end(), reply.state),
                ("out", state),
                "round {round}"
            );
            assert_eq!(test_env.raw(pane), b"out\r\n");
            assert!(test_env.read(pane, &["--screen"]).text.starts_with("out"));
        }
        // Also by the next daemon.
        test_env.fugue(&["daemon", "restart"]).ok();
    }
}

#[test]
fn the_screen_of_a_pager_is_what_one_would_see() {
    let test_env = test_env();
    let lines: Vec<String> = (1..=200).map(|n| format!("page line {n}")).collect();
    fs::write(test_env.work().join("long"), lines.join("\n") + "\n").expect("a file");
    let pane: CreatePaneReply = test_env.json(&[
        "new",
        "--rows",
        "10",
        "--cols",
        "60",
        "--",
        "echo before; exec less long",
    ]);
    let screen = || test_env.read(pane.pane_id, &["--screen"]);
    until("less shows its first page", LIMIT, || {
        screen().text.contains("page line 9")
    });
    let shown = screen().text;
    let rows: Vec<&str> = shown.lines().collect();
    assert_eq!(rows[..9], lines[..9]);
    assert!(!shown.contains("before"), "another screen: {shown}");
    test_env.press(pane.pane_id, &["G"]);
    until("less shows its last page", LIMIT, || {
        screen().text.contains("page line 200")
    });
    assert!(screen().text.contains("(END)"));
    test_env.press(pane.pane_id, &["q"]);
    assert_eq!(test_env.exited(pane.pane_id).state.exit_code, Some(0));
    let after = screen().text;
    assert!(
        after.starts_with("before"),
        "the first screen is back: {after}"
    );
}

#[test]
fn the_screen_of_an_editor_is_what_one_would_see() {
    let test_env = test_env();
    fs::write(test_env.work().join("poem"), "first\nsecond\n").expect("a file");
    let pane: CreatePaneReply = test_env.json(&[
        "new",
        "--rows",
        "12",
        "--cols",
        "50",
        "--",
        "vim -u NONE -N poem",
    ]);
    let screen = || test_env.read(pane.pane_id, &["--screen"]).text;
    until("vim shows the file", LIMIT, || screen().contains("second"));
    let rows: Vec<String> = screen().lines().map(str::to_owned).collect();
    assert_eq!(rows[..4], ["first", "second", "~", "~"]);
    test_env.json::<fugue_api::tools::SendInputReply>(&[
        "send",
        &pane.pane_id.to_string(),
        "Gothird 漢字",
        "-k",
        "Escape",
    ]);
    until("vim shows what was typed", LIMIT, || {
        screen().contains("third 漢字")
    });
    test_env.type_line(pane.pane_id, ":wq");
    assert_eq!(test_env.exited(pane.pane_id).state.exit_code, Some(0));
    assert_eq!(
        fs::read_to_string(test_env.work().join("poem")).expect("the file"),
        "first\nsecond\nthird 漢字\n"
    );
}

#[test]
fn the_screen_of_a_monitor_is_what_one_would_see() {
    let test_env = test_env();
    let pane: CreatePaneReply =
        test_env.json(&["new", "--rows", "20", "--cols", "100", "--", "top -d 1000"]);
    let shown = until_some("top shows its table", LIMIT, || {
        let screen = test_env.read(pane.pane_id, &["--screen"]).text;
        (screen.contains("PID") && screen.lines().count() > 8).then_some(screen)
    });
    assert!(
        shown.contains("Tasks:") && shown.contains("COMMAND"),
        "{shown}"
    );
    test_env.press(pane.pane_id, &["q"]);
    test_env.exited(pane.pane_id);
}
