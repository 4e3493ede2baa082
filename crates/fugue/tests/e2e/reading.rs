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

fn world() -> TestEnv {
    TestEnv::new(env!("CARGO_BIN_EXE_fugue"), LIMIT)
}

/// Runs the command in an 80-column pane and compares all its text.
#[track_caller]
fn check(world: &TestEnv, command: &str, wanted: &str) {
    let pane: CreatePaneReply = world.json(&["new", "--rows", "24", "--cols", "80", "--", command]);
    world.exited(pane.pane_id);
    let text = world.text(pane.pane_id);
    assert_eq!(text.trim_end_matches('\n'), wanted, "{command}");
}

#[test]
fn text_is_what_a_person_would_have_read() {
    let world = world();
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
        check(&world, command, wanted);
    }
}

#[test]
fn foreign_characters_in_bulk_come_through_whole() {
    let world = world();
    let line = |n: u32| format!("{n} €€€€€€€€€€ 漢字かな 🎉🎉 ñandú e\u{301} Ω");
    let file = world.work().join("bulk");
    let wanted: Vec<String> = (1..=5000).map(line).collect();
    fs::write(&file, wanted.join("\n") + "\n").expect("a file");
    let pane: CreatePaneReply = world.json(&[
        "new",
        "--cols",
        "200",
        "--",
        "cat bulk; printf '€%.0s' $(seq 800)",
    ]);
    world.exited(pane.pane_id);
    let text = world.text(pane.pane_id);
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
    let world = world();
    let every: Vec<u8> = (0..=255)
        .cycle()
        .take(256 * 300)
        .map(|n: u32| n as u8)
        .collect();
    fs::write(world.work().join("bytes"), &every).expect("a file");
    let pane = world.pane("stty -opost; cat bytes").pane_id;
    world.exited(pane);
    let raw = world.raw(pane);
    assert!(
        raw == every,
        "{} bytes came back, {} were printed",
        raw.len(),
        every.len()
    );
    let (first, logged) = world.log(pane);
    assert_eq!(first, 0);
    assert!(logged == every, "the log on disk is the same");
    // JSON cannot hold them and says how many it could not.
    let reply: ReadPaneReply = world.read(
        pane,
        &["--raw", "-n", "1000000", "--max-output-chars", "1000000"],
    );
    assert!(reply.replaced_bytes > 0, "{:?}", reply.replaced_bytes);

    let pane = world.pane("printf 'a\\nb\\033[1mc'").pane_id;
    world.exited(pane);
    assert_eq!(world.raw(pane), b"a\r\nb\x1b[1mc");
    assert_eq!(world.read(pane, &["--raw"]).text, "a\r\nb\u{1b}[1mc");
}

#[test]
fn a_reply_is_bounded_and_says_what_it_left_out() {
    let world = world();
    let pane = world.pane("seq 1 9000").pane_id;
    world.exited(pane);

    let last: ReadPaneReply = world.read(pane, &[]);
    let wanted: Vec<String> = (8901..=9000).map(|n| n.to_string()).collect();
    assert_eq!(last.text.trim_end(), wanted.join("\n"));
    assert_eq!(last.lines, 100);
    assert_eq!(last.omitted_lines, 0, "100 were asked for and 100 given");

    let few: ReadPaneReply = world.read(pane, &["-n", "3"]);
    assert_eq!(few.text.trim_end(), "8998\n8999\n9000");

    let all: ReadPaneReply = world.read(pane, &["-n", "1000000"]);
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
        world.read(pane, &["-n", "1000000", "--max-output-chars", "1000000"]);
    assert_eq!(
        (raised.lines, raised.omitted_lines, raised.omitted_chars),
        (9000, 0, 0)
    );

    // One line longer than the bound.
    let pane = world
        .pane("head -c 50000 /dev/zero | tr '\\0' x; echo; echo end")
        .pane_id;
    world.exited(pane);
    let reply: ReadPaneReply = world.read(pane, &[]);
    assert!(reply.text.chars().count() <= 10_000);
    assert!(reply.omitted_chars >= 40_000, "{}", reply.omitted_chars);
    assert!(reply.text.trim_end().ends_with("end"));
}

#[test]
fn since_gives_only_what_came_after() {
    let world = world();
    let pane = world
        .pane("stty -echo; for word in one two three; do echo $word; read -r _; done")
        .pane_id;
    world.until_printed(pane, |text| text.contains("one"));
    let first = world.read(pane, &[]);
    assert_eq!(first.text.trim_end(), "one");
    let nothing = world.read(pane, &["--since", &first.cursor.0]);
    assert_eq!((nothing.text.as_str(), nothing.lines), ("", 0));
    world.press(pane, &["Enter"]);
    world.until_printed(pane, |text| text.contains("two"));
    let second = world.read(pane, &["--since", &first.cursor.0]);
    assert_eq!(second.text.trim_end(), "two");
    // A cursor outlives the daemon that gave it.
    world.fugue(&["daemon", "restart"]).ok();
    assert_eq!(
        world
            .read(pane, &["--since", &first.cursor.0])
            .text
            .trim_end(),
        "two"
    );
    world.press(pane, &["Enter"]);
    world.until_printed(pane, |text| text.contains("three"));
    assert_eq!(
        world
            .read(pane, &["--since", &second.cursor.0])
            .text
            .trim_end(),
        "three"
    );
    assert_eq!(
        world
            .read(pane, &["--since", &first.cursor.0])
            .text
            .trim_end(),
        "two\nthree"
    );
    world.press(pane, &["Enter"]);
    world.exited(pane);
    let raw_since = world.read(pane, &["--raw", "--since", &second.cursor.0]);
    assert_eq!(raw_since.text, "three\r\n");
}

#[test]
fn grep_gives_matching_lines_with_their_numbers() {
    let world = world();
    let pane = world.pane("seq 1 30 | sed 's/.*/line & of many/'").pane_id;
    world.exited(pane);
    let found = world.read(pane, &["--grep", "7 of"]);
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
    assert_eq!(world.read(pane, &["--grep", "^line 1\\b"]).lines, 1);
    assert_eq!(world.read(pane, &["--grep", "nowhere"]).lines, 0);
}

#[test]
fn following_goes_on_to_the_end_and_then_ends() {
    let world = world();
    let pane = world
        .pane("echo one; read -r _; echo two; read -r _; printf three; exit 4")
        .pane_id;
    let mut follower = world.follow(pane);
    follower.wait_for_stdout(WAIT_TIMEOUT, |said| said.contains("one\n"));
    world.type_line(pane, "");
    follower.wait_for_stdout(WAIT_TIMEOUT, |said| said.contains("two\n"));
    world.type_line(pane, "");
    let ran = follower.end(LIMIT).ok();
    assert_eq!(
        ran.out().replace("\n\n", "\n").trim_end(),
        "one\ntwo\nthree"
    );
    // Following what has ended gives its text and ends at once.
    assert!(world.follow(pane).end(LIMIT).ok().out().contains("three"));

    // A burst is given whole, in order, once.
    let pane = world.pane("seq 1 60000").pane_id;
    let mut args = vec!["read".to_owned(), pane.to_string(), "-f".to_owned()];
    args.extend(["-n", "1000000"].map(str::to_owned));
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let said = world.start(&args).end(LIMIT).ok().out();
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
    let world = world();
    let pane = world.pane("echo here; exec cat").pane_id;
    let mut follower = world.follow(pane);
    follower.wait_for_stdout(WAIT_TIMEOUT, |said| said.contains("here"));
    world.close(pane);
    follower.end(LIMIT);
}

#[test]
fn ended_panes_stay_readable() {
    let world = world();
    let exited = world.pane("echo out; exit 3").pane_id;
    world.exited(exited);
    let closed = world.pane("echo out; exec cat").pane_id;
    world.until_printed(closed, |text| text.contains("out"));
    world.close(closed);
    for round in 0..2 {
        for (pane, state) in [(exited, PaneState::Exited), (closed, PaneState::Closed)] {
            let reply = world.read(pane, &[]);
            assert_eq!(
                (reply.text.trim_end(), reply.state),
                ("out", state),
                "round {round}"
            );
            assert_eq!(world.raw(pane), b"out\r\n");
            assert!(world.read(pane, &["--screen"]).text.starts_with("out"));
        }
        // Also by the next daemon.
        world.fugue(&["daemon", "restart"]).ok();
    }
}

#[test]
fn the_screen_of_a_pager_is_what_one_would_see() {
    let world = world();
    let lines: Vec<String> = (1..=200).map(|n| format!("page line {n}")).collect();
    fs::write(world.work().join("long"), lines.join("\n") + "\n").expect("a file");
    let pane: CreatePaneReply = world.json(&[
        "new",
        "--rows",
        "10",
        "--cols",
        "60",
        "--",
        "echo before; exec less long",
    ]);
    let screen = || world.read(pane.pane_id, &["--screen"]);
    until("less shows its first page", LIMIT, || {
        screen().text.contains("page line 9")
    });
    let shown = screen().text;
    let rows: Vec<&str> = shown.lines().collect();
    assert_eq!(rows[..9], lines[..9]);
    assert!(!shown.contains("before"), "another screen: {shown}");
    world.press(pane.pane_id, &["G"]);
    until("less shows its last page", LIMIT, || {
        screen().text.contains("page line 200")
    });
    assert!(screen().text.contains("(END)"));
    world.press(pane.pane_id, &["q"]);
    assert_eq!(world.exited(pane.pane_id).state.exit_code, Some(0));
    let after = screen().text;
    assert!(
        after.starts_with("before"),
        "the first screen is back: {after}"
    );
}

#[test]
fn the_screen_of_an_editor_is_what_one_would_see() {
    let world = world();
    fs::write(world.work().join("poem"), "first\nsecond\n").expect("a file");
    let pane: CreatePaneReply = world.json(&[
        "new",
        "--rows",
        "12",
        "--cols",
        "50",
        "--",
        "vim -u NONE -N poem",
    ]);
    let screen = || world.read(pane.pane_id, &["--screen"]).text;
    until("vim shows the file", LIMIT, || screen().contains("second"));
    let rows: Vec<String> = screen().lines().map(str::to_owned).collect();
    assert_eq!(rows[..4], ["first", "second", "~", "~"]);
    world.json::<fugue_api::tools::SendInputReply>(&[
        "send",
        &pane.pane_id.to_string(),
        "Gothird 漢字",
        "-k",
        "Escape",
    ]);
    until("vim shows what was typed", LIMIT, || {
        screen().contains("third 漢字")
    });
    world.type_line(pane.pane_id, ":wq");
    assert_eq!(world.exited(pane.pane_id).state.exit_code, Some(0));
    assert_eq!(
        fs::read_to_string(world.work().join("poem")).expect("the file"),
        "first\nsecond\nthird 漢字\n"
    );
}

#[test]
fn the_screen_of_a_monitor_is_what_one_would_see() {
    let world = world();
    let pane: CreatePaneReply =
        world.json(&["new", "--rows", "20", "--cols", "100", "--", "top -d 1000"]);
    let shown = until_some("top shows its table", LIMIT, || {
        let screen = world.read(pane.pane_id, &["--screen"]).text;
        (screen.contains("PID") && screen.lines().count() > 8).then_some(screen)
    });
    assert!(
        shown.contains("Tasks:") && shown.contains("COMMAND"),
        "{shown}"
    );
    world.press(pane.pane_id, &["q"]);
    world.exited(pane.pane_id);
}

#[test]
fn a_full_screen_program_is_read_by_its_screen_and_the_reply_says_so() {
    let world = world();
    let alone =
        world.pane("printf '\\033[?1049h\\033[2J\\033[3;1Hthe menu'; exec tail -f /dev/null");
    until("the program shows itself", WAIT_TIMEOUT, || {
        world
            .read(alone.pane_id, &["--screen"])
            .text
            .contains("the menu")
    });
    let read = world.read(alone.pane_id, &[]);
    assert_eq!(read.text.trim(), "the menu");
    let note = read.note.expect("a note");
    assert!(note.contains("this is its screen"), "{note}");
    let found = world.read(alone.pane_id, &["--grep", "menu"]);
    assert_eq!(found.text, "3:the menu");

    let behind =
        world.pane("echo before; printf '\\033[?1049h\\033[2Jshown'; exec tail -f /dev/null");
    until("the program shows itself", WAIT_TIMEOUT, || {
        world
            .read(behind.pane_id, &["--screen"])
            .text
            .contains("shown")
    });
    let read = world.read(behind.pane_id, &[]);
    assert_eq!(read.text, "before");
    let note = read.note.expect("a note");
    assert!(note.contains("mode `screen`"), "{note}");
    let read = world.read(behind.pane_id, &["--screen"]);
    assert_eq!(read.note, None);
}
