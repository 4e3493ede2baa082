//! The text as a person would have read it, and the new text since a cursor.

use fugue_term::{LineNo, LineQuery, Terminal, TerminalOptions, TerminalSize, TextCursor};

const SIZE: TerminalSize = TerminalSize { rows: 4, cols: 10 };

fn terminal(bytes: &str) -> Terminal {
    let mut terminal = Terminal::new(
        SIZE,
        TerminalOptions {
            keep_lines: 100,
            secret: None,
        },
    );
    terminal.feed(bytes.as_bytes());
    terminal
}

fn text(terminal: &Terminal, since: Option<TextCursor>) -> Vec<String> {
    let lines = terminal
        .lines(&LineQuery {
            since,
            last: usize::MAX,
        })
        .lines;
    lines
        .into_iter()
        .map(|line| line.text.into_owned())
        .collect()
}

/// The complete text of some output.
fn check(bytes: &str, expected: &[&str]) {
    assert_eq!(text(&terminal(bytes), None), expected, "{bytes:?}");
}

/// The new text after `then` since the end of `first`.
fn check_since(first: &str, then: &str, expected: &[&str]) {
    let mut terminal = terminal(first);
    let since = terminal.end();
    terminal.feed(then.as_bytes());
    assert_eq!(
        text(&terminal, Some(since)),
        expected,
        "{first:?} then {then:?}"
    );
}

#[test]
fn text_is_what_a_person_would_have_read() {
    check("", &[]);
    check("one\r\ntwo", &["one", "two"]);
    check("one\r\n\r\ntwo\r\n", &["one", "", "two"]);
    check(
        "1\r\n2\r\n3\r\n4\r\n5\r\n6\r\n",
        &["1", "2", "3", "4", "5", "6"],
    );
    check(
        "\x1b[31mred\x1b[0m and \x1b[1mbold\x1b[0m",
        &["red and bold"],
    );
    check("10%\r50%\r100%\r\ndone", &["100%", "done"]);
    check("a long bar\r\x1b[Kshort", &["short"]);
    check("$ ", &["$ "]);
    check("a\tb", &["a       b"]);
    check("typo\x08\x08\x1b[Kes", &["tyes"]);
}

#[test]
fn wrapped_lines_are_joined_on_and_off_the_screen() {
    check(
        "0123456789abcdefghij-end\r\nnext",
        &["0123456789abcdefghij-end", "next"],
    );
    check(
        "0123456789abcdefghij-end\r\n1\r\n2\r\n3\r\n4\r\n",
        &["0123456789abcdefghij-end", "1", "2", "3", "4"],
    );
    check("012345678漢字\r\nx", &["012345678漢字", "x"]);
    check("0123456789\r\nx", &["0123456789", "x"]);
    let long = "x".repeat(500);
    check(&long, &[&long]);
}

#[test]
fn clearing_the_screen_keeps_what_was_seen() {
    check("one\r\ntwo\x1b[2J\x1b[Hthree", &["one", "two", "three"]);
    check("one\r\ntwo\x1b[H\x1b[Jthree", &["one", "two", "three"]);
    check(
        "one\r\ntwo\x1b[H\x1b[2J\x1b[3Jthree",
        &["one", "two", "three"],
    );
    check("one\r\ntwo\x1bcthree", &["one", "two", "three"]);
    check("\x1b[2J\x1b[2J\x1b[2Jx", &["x"]);
}

#[test]
fn the_alternate_screen_is_not_text() {
    check(
        "before\r\n\x1b[?1049h\x1b[Hvim\r\n1\r\n2\r\n3\r\n4\r\n5\x1b[2J\x1b[?1049lafter",
        &["before", "after"],
    );
    let during = terminal("before\r\n\x1b[?1049h\x1b[Hvim");
    assert_eq!(text(&during, None), ["before"]);
    assert_eq!(during.screen().text(), "vim");
    assert!(during.screen().is_alternate() && during.modes().alternate);
}

#[test]
fn a_status_line_below_a_scrolling_region_stays_below_the_text() {
    check(
        "\x1b[4;1Hstatus\x1b[1;3r1\r\n2\r\n3\r\n4\r\n5",
        &["1", "2", "3", "4", "5", "status"],
    );
}

#[test]
fn new_text_since_a_cursor_is_what_was_printed_after_it() {
    check_since("one\r\n", "two\r\nthree", &["two", "three"]);
    check_since("$ ", "ls\r\nfile\r\n$ ", &["ls", "file", "$ "]);
    check_since("par", "tial", &["tial"]);
    check_since("one\r\ntwo", "", &[]);
    check_since("one\r\n", "\r\n\r\n", &["", ""]);
    check_since(
        "one\r\n",
        "1\r\n2\r\n3\r\n4\r\n5\r\n6\r\n7\r\n",
        &["1", "2", "3", "4", "5", "6", "7"],
    );
    check_since("01234567", "89abcdef", &["89abcdef"]);
    check_since("0123456789abc", "def", &["def"]);
    check_since("one", "\x1b[?1049hvim\x1b[?1049l", &[]);
    check_since("one", "\x1b[31m\x1b[0m\x1b]0;t\x07", &[]);
}

#[test]
fn a_line_that_was_rewritten_is_new_as_a_whole() {
    check_since("10%", "\r20%", &["20%"]);
    check_since("one\r\ntwo\r\n", "\x1b[H1", &["1ne"]);
    check_since("$ ls", "\r\x1b[K$ cat", &["$ cat"]);
    // Typing and deleting after the cursor leaves the part before the cursor unchanged.
    check_since("$ ", "lx\x08\x1b[Ks", &["ls"]);
    check_since("$ ", "lx\x08 \x08s", &["ls"]);
    check_since("$ ", "l\x08\x1b[K", &[]);
}

#[test]
fn only_the_last_lines_are_returned_and_the_rest_is_counted() {
    let many: String = (0..300).map(|i| format!("{i}\r\n")).collect();
    let terminal = terminal(&many);
    let lines = terminal.lines(&LineQuery {
        since: None,
        last: 3,
    });
    assert_eq!(
        lines
            .lines
            .iter()
            .map(|line| (line.no.0, &line.text[..]))
            .collect::<Vec<_>>(),
        [(297, "297"), (298, "298"), (299, "299")]
    );
    // 100 lines are kept in addition to the three on the screen.
    assert_eq!(
        (lines.first_kept, lines.omitted, lines.older_lost),
        (LineNo(197), 100, false)
    );
    let all = terminal.lines(&LineQuery {
        since: None,
        last: 1000,
    });
    assert_eq!(
        (all.lines.len(), all.omitted, all.older_lost),
        (103, 0, true)
    );
    let start = TextCursor::default();
    let since = terminal.lines(&LineQuery {
        since: Some(start),
        last: 1000,
    });
    assert_eq!((since.lines.len(), since.older_lost), (103, true));
    let few = terminal.lines(&LineQuery {
        since: Some(start),
        last: 10,
    });
    assert_eq!(
        (few.lines.len(), few.omitted, few.older_lost),
        (10, 93, false)
    );
    assert_eq!(
        terminal
            .lines(&LineQuery {
                since: Some(terminal.end()),
                last: 10
            })
            .lines,
        []
    );
}

#[test]
fn lines_keep_their_numbers_whatever_the_size() {
    let mut terminal = terminal("first\r\n0123456789abcdef\r\nlast");
    let numbers = |terminal: &Terminal| {
        let lines = terminal
            .lines(&LineQuery {
                since: None,
                last: 100,
            })
            .lines;
        lines
            .into_iter()
            .map(|line| (line.no.0, line.text.into_owned()))
            .collect::<Vec<_>>()
    };
    let before = numbers(&terminal);
    let end = terminal.end();
    for (rows, cols) in [
        (4, 5),
        (2, 40),
        (50, 3),
        (1, 2),
        (0, 0),
        (24, 80),
        (u16::MAX, u16::MAX),
        (4, 10),
    ] {
        terminal.resize(TerminalSize { rows, cols });
        assert_eq!(numbers(&terminal), before, "{rows}x{cols}");
        assert_eq!(terminal.end(), end);
    }
    terminal.feed(b" line");
    assert_eq!(text(&terminal, Some(end)), [" line"]);
}

#[test]
fn an_endless_line_is_broken_and_bounded() {
    let mut terminal = terminal("");
    for _ in 0..1000 {
        terminal.feed(&[b'x'; 1000]);
    }
    let lines = terminal
        .lines(&LineQuery {
            since: None,
            last: usize::MAX,
        })
        .lines;
    assert!(lines.len() > 2 && lines.iter().all(|line| line.text.len() <= 300_000));
    assert_eq!(
        lines.iter().map(|line| line.text.len()).sum::<usize>(),
        1_000_000
    );
}

#[test]
fn the_cursor_line_is_a_prompt_up_to_the_cursor() {
    assert_eq!(terminal("hello\r\nName: ").cursor_line(), "Name: ");
    assert_eq!(
        terminal("Password for x@y: ").cursor_line(),
        "Password for x@y: "
    );
    assert_eq!(terminal("abcdef\x1b[3D").cursor_line(), "abc");
    assert_eq!(
        terminal("\x1b[?1049h\x1b[2;1HQuit? [y/N]").cursor_line(),
        "Quit? [y/N]"
    );
    assert_eq!(terminal(&"y".repeat(95)).cursor_line(), "y".repeat(95));
}

#[test]
fn styles_are_kept_with_the_text() {
    let terminal = terminal("\x1b[31mred\x1b[0m ok\r\n1\r\n2\r\n3\r\n4\r\n5");
    for (line, parts) in [(0, vec!["red", " ok"]), (5, vec!["5"])] {
        let runs = terminal.styled_line(LineNo(line));
        assert_eq!(
            runs.iter().map(|(text, _)| &text[..]).collect::<Vec<_>>(),
            parts
        );
    }
    assert_eq!(
        terminal.styled_line(LineNo(0))[0].1.fg(),
        fugue_term::Color::Indexed(1)
    );
    assert_eq!(terminal.styled_line(LineNo(99)), []);
}

/// UTF-8, wide, joined and invalid characters, and the sequences between them.
const MIXED: &str =
    "naïve €\r\n漢字 カナ\x1b[31me\u{301}\x1b[0m👍🏽 👩‍👧 🇩🇪\r\nПривет \x1b]2;títle\x07\u{200b}🙂";

#[test]
fn characters_survive_any_two_splits() {
    let size = TerminalSize { rows: 6, cols: 12 };
    let bytes = [MIXED.as_bytes(), b"\xf0\x9f\x91\xe2\x82x\xc3\x1b[m\xe2"].concat();
    let play = |parts: [&[u8]; 3]| {
        let mut terminal = Terminal::new(size, TerminalOptions::default());
        let facts: Vec<_> = parts.iter().flat_map(|part| terminal.feed(part)).collect();
        (
            facts,
            text(&terminal, None),
            terminal.dump(),
            terminal.end(),
        )
    };
    let whole = play([&bytes, b"", b""]);
    assert_eq!(whole.1[..2], ["naïve €", "漢字 カナe\u{301}👍🏽 👩‍👧 🇩🇪"]);
    assert_eq!(whole.1[2], "Привет \u{200b}🙂\u{fffd}\u{fffd}x\u{fffd}");
    for first in 0..=bytes.len() {
        for second in first..=bytes.len() {
            let cut = play([&bytes[..first], &bytes[first..second], &bytes[second..]]);
            assert_eq!(cut, whole, "cut at {first} and {second}");
        }
    }
}

#[test]
fn a_terminal_that_keeps_all_lines_returns_all_lines() {
    let options = TerminalOptions {
        keep_lines: usize::MAX,
        ..TerminalOptions::default()
    };
    let mut terminal = Terminal::new(TerminalSize { rows: 24, cols: 80 }, options);
    let line = "0123456789".repeat(7);
    // More than the default limit in bytes.
    let count = 300_000;
    for _ in 0..count {
        terminal.feed(line.as_bytes());
        terminal.feed(b"\r\n");
    }
    let found = terminal.lines(&LineQuery {
        since: None,
        last: usize::MAX,
    });
    assert_eq!(found.lines.len(), count);
    assert!(!found.older_lost);
}

#[test]
fn a_resize_never_moves_the_end_back() {
    for text in [
        "ab\x1b[3;1H  m ",
        "a\r\n\r\n  b   ",
        "1234567890abc\x1b[H",
        "x\x1b[2J  ",
    ] {
        for cols in 2..12 {
            let mut terminal = Terminal::new(
                TerminalSize { rows: 4, cols: 10 },
                TerminalOptions::default(),
            );
            terminal.feed(text.as_bytes());
            let before = terminal.end();
            terminal.resize(TerminalSize { rows: 4, cols });
            assert!(terminal.end() >= before, "{text:?} at {cols} columns");
            terminal.feed(b"z");
            assert!(terminal.end() > before);
        }
    }
}
