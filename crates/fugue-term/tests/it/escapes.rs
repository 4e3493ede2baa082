//! Every family of escape sequences that a program can print: no sequence leaks into the text or is mistaken for a
//! shell mark, and every reply is a fixed string.

use fugue_term::{LineQuery, ShellState, Terminal, TerminalEvent, TerminalOptions, TerminalSize};

/// A name, the bytes printed between `<` and `>`, and the expected reply.
const FAMILIES: &[(&str, &str, &[&str])] = &[
    ("title", "\x1b]0;rm -rf /\x07", &[]),
    ("title, other end", "\x1b]2;t\x1b\\", &[]),
    ("icon name", "\x1b]1;icon\x07", &[]),
    ("colours set", "\x1b]4;1;rgb:ff/00/00\x07", &[]),
    ("colour asked", "\x1b]4;1;?\x07", &[]),
    (
        "foreground asked",
        "\x1b]10;?\x07",
        &["\x1b]10;rgb:c0c0/c0c0/c0c0\x07"],
    ),
    (
        "background asked",
        "\x1b]11;?\x1b\\",
        &["\x1b]11;rgb:0000/0000/0000\x1b\\"],
    ),
    (
        "cursor colour asked",
        "\x1b]12;?\x07",
        &["\x1b]12;rgb:c0c0/c0c0/c0c0\x07"],
    ),
    ("foreground set", "\x1b]10;red\x07", &[]),
    ("directory", "\x1b]7;file://host/etc\x07", &[]),
    (
        "link",
        "\x1b]8;;http://example.com\x1b\\\x1b]8;;\x1b\\",
        &[],
    ),
    (
        "notification",
        "\x1b]9;hello\x07\x1b]777;notify;a;b\x07",
        &[],
    ),
    ("clipboard written", "\x1b]52;c;cm0gLXJmIC8=\x07", &[]),
    ("clipboard asked", "\x1b]52;c;?\x07", &[]),
    (
        "a guessed mark",
        "\x1b]133;D;0\x07\x1b]133;C;k=\x07\x1b]133;A;k=secre\x07\x1b]133;B;secret\x07",
        &[],
    ),
    ("a guessed directory", "\x1b]133;P;cwd=/etc\x07", &[]),
    (
        "other marks",
        "\x1b]633;D;0\x07\x1b]1337;RemoteHost=x\x07",
        &[],
    ),
    ("device control", "\x1bP0;1|17/17\x1b\\", &[]),
    ("sixel", "\x1bPq#0;2;0;0;0~~@@\x1b\\", &[]),
    ("settings asked", "\x1bP$qm\x1b\\", &[]),
    ("capabilities asked", "\x1bP+q544e\x1b\\", &[]),
    ("tmux passthrough", "\x1bPtmux;\x1b\x1b]0;x\x07\x1b\\", &[]),
    (
        "device control with UTF-8",
        "\x1bP\u{271c}text\u{9c}more\x1b\\",
        &[],
    ),
    ("application program", "\x1b_Gf=100;AAAA\x1b\\", &[]),
    ("privacy message", "\x1b^secret\x1b\\", &[]),
    ("start of string", "\x1bXstring\x1b\\", &[]),
    ("screen title", "\x1bkname\x1b\\", &[]),
    ("status asked", "\x1b[5n", &["\x1b[0n"]),
    ("position asked", "\x1b[6n", &["\x1b[1;2R"]),
    ("position asked privately", "\x1b[?6n", &["\x1b[?1;2R"]),
    (
        "attributes asked",
        "\x1b[c\x1b[0c\x1bZ",
        &["\x1b[?62;22c", "\x1b[?62;22c", "\x1b[?62;22c"],
    ),
    ("second attributes asked", "\x1b[>c", &["\x1b[>1;0;0c"]),
    ("third attributes asked", "\x1b[=c", &[]),
    ("version asked", "\x1b[>q", &["\x1bP>|fugue\x1b\\"]),
    (
        "mode asked",
        "\x1b[?2004$p\x1b[4$p\x1b[?9999$p",
        &["\x1b[?2004;2$y", "\x1b[4;2$y", "\x1b[?9999;0$y"],
    ),
    ("keyboard asked", "\x1b[>5u\x1b[?u\x1b[<u", &["\x1b[?5u"]),
    ("title asked", "\x1b[21t\x1b[20t", &[]),
    ("size asked", "\x1b[18t\x1b[14t", &[]),
    ("window moved", "\x1b[3;0;0t\x1b[8;5;5t", &[]),
    ("answerback", "\x05", &[]),
    ("checksum asked", "\x1b[1;1;1;1;1;1*y", &[]),
    ("terminal parameters asked", "\x1b[x", &[]),
    ("media copy", "\x1b[5i\x1b[4i", &[]),
    ("leds", "\x1b[1q", &[]),
    (
        "styles",
        "\x1b[1;3;4:3;38;2;1;2;3;48:5:9;58:2::1:2:3m\x1b[m",
        &[],
    ),
    (
        "odd styles",
        "\x1b[38;5m\x1b[38;2;300;1;1m\x1b[48:9m\x1b[>4;2m\x1b[m",
        &[],
    ),
    (
        "modes",
        "\x1b[?1;25;1000;1002;1003;1004;1005;1006;1015;2004;2026;9001h\x1b[?1000;1006;2004l",
        &[],
    ),
    ("cursor shape", "\x1b[5 q", &[]),
    ("charsets", "\x1b(B\x1b)B\x1b*B\x1b+B\x1b%G\x1b%@", &[]),
    ("keypad", "\x1b=\x1b>", &[]),
    (
        "controls",
        "\x00\x01\x02\x03\x04\x06\x07\x10\x11\x12\x13\x14\x15\x16\x17\x19\x1c\x1d\x1e\x1f\x7f",
        &[],
    ),
    (
        "C1 in UTF-8",
        "\u{80}\u{84}\u{85}\u{8d}\u{90}\u{9b}\u{9c}\u{9d}\u{9f}",
        &[],
    ),
    (
        "cut off",
        "\x1b[12;\x18\x1b]0;\x1a\x1bP\x18\x1b[?\x1b[m",
        &[],
    ),
    (
        "too many intermediates",
        "\x1b !\"#p\x1b[ !p\x1b[0:0!>q",
        &[],
    ),
    (
        "too many parameters",
        "\x1b[1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1m\x1b[m",
        &[],
    ),
    ("huge numbers", "\x1b[99999999999999999999m\x1b[m", &[]),
];

#[test]
fn no_escape_sequence_leaks_or_passes_as_a_mark() {
    for (name, printed, answers) in FAMILIES {
        let options = TerminalOptions {
            secret: Some("secret".into()),
            ..TerminalOptions::default()
        };
        let mut terminal = Terminal::new(TerminalSize { rows: 5, cols: 40 }, options);
        let facts = terminal.feed(format!("<{printed}>").as_bytes());
        let lines = terminal
            .lines(&LineQuery {
                since: None,
                last: 100,
            })
            .lines;
        let text: Vec<&str> = lines.iter().map(|line| &line.text[..]).collect();
        assert_eq!(text, ["<>"], "{name}");
        assert_eq!(terminal.screen().text(), "<>", "{name}");
        assert_eq!(terminal.shell_state(), ShellState::Unknown, "{name}");
        assert_eq!(terminal.marks().count(), 0, "{name}");
        assert_eq!(terminal.cwd(), None, "{name}");
        let mut replies = Vec::new();
        for fact in facts {
            match fact {
                TerminalEvent::Reply { bytes, at } => {
                    assert!(at.0 > 1 && at <= terminal.offset(), "{name}");
                    replies.push(String::from_utf8(bytes).unwrap());
                }
                TerminalEvent::Title(_) | TerminalEvent::Bell => (),
                fact @ (TerminalEvent::Mark(_)
                | TerminalEvent::Cwd(_)
                | TerminalEvent::Alternate(_)) => {
                    panic!("{name}: {fact:?}")
                }
            }
        }
        assert_eq!(replies, *answers, "{name}");
    }
}

#[test]
fn eight_bit_controls_are_invalid_text() {
    let mut terminal = Terminal::new(
        TerminalSize { rows: 5, cols: 40 },
        TerminalOptions::default(),
    );
    terminal.feed(b"a\x9b31mb\x9d0;t\x07c\x84d");
    assert_eq!(
        terminal.screen().text(),
        "a\u{fffd}31mb\u{fffd}0;tc\u{fffd}d"
    );
    assert_eq!(terminal.title(), "");
}

#[test]
fn an_unterminated_string_needs_no_memory_and_ends_at_the_next_escape() {
    let mut terminal = Terminal::new(
        TerminalSize { rows: 5, cols: 40 },
        TerminalOptions::default(),
    );
    terminal.feed(b"before\x1b]0;");
    for _ in 0..100 {
        terminal.feed(&[b'x'; 10_000]);
    }
    terminal.feed(b"\x1b\\after");
    assert_eq!(terminal.screen().text(), "beforeafter");
    assert_eq!(terminal.title(), "");
}

#[test]
fn a_title_is_bounded_and_clean() {
    let mut terminal = Terminal::new(
        TerminalSize { rows: 5, cols: 40 },
        TerminalOptions::default(),
    );
    let facts = terminal.feed(format!("\x1b]2;{}\u{85}é\x07", "t".repeat(300)).as_bytes());
    assert_eq!(terminal.title(), "t".repeat(256));
    assert_eq!(facts, [TerminalEvent::Title("t".repeat(256))]);
    assert_eq!(
        terminal.feed(format!("\x1b]2;{}\x07", "t".repeat(256)).as_bytes()),
        [],
        "reported only on a change"
    );
}

#[test]
fn replies_to_a_storm_of_queries_are_bounded() {
    let mut terminal = Terminal::new(
        TerminalSize { rows: 5, cols: 40 },
        TerminalOptions::default(),
    );
    let replies = terminal.feed(&b"\x1b[c".repeat(10_000)).len();
    assert!((64..=64 * 8).contains(&replies), "{replies}");
    let bells = terminal.feed(&[7; 8192]).len();
    assert!(bells <= 48, "{bells}");
}

#[test]
fn the_directory_needs_the_secret_if_one_is_set() {
    let mut terminal = Terminal::new(
        TerminalSize { rows: 5, cols: 40 },
        TerminalOptions::default(),
    );
    assert_eq!(
        terminal.feed(b"\x1b]7;file://host/tmp/a%20b\x07"),
        [TerminalEvent::Cwd("/tmp/a b".into())]
    );
    assert_eq!(terminal.cwd(), Some("/tmp/a b"));
    assert_eq!(
        terminal.feed(b"\x1b]7;http://host/x\x07\x1b]7;relative\x07"),
        []
    );
    let options = TerminalOptions {
        secret: Some("secret".into()),
        ..TerminalOptions::default()
    };
    let mut terminal = Terminal::new(TerminalSize { rows: 5, cols: 40 }, options);
    terminal.feed(b"\x1b]7;file://host/etc\x07\x1b]133;P;k=wrong;cwd=/etc\x07");
    assert_eq!(terminal.cwd(), None);
    terminal.feed("\x1b]133;P;k=secret;cwd=/tmp/%C3%A9%0a\x1b\\".as_bytes());
    assert_eq!(terminal.cwd(), Some("/tmp/é"));
}
