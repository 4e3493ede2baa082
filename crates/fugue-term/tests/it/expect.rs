//! Expect: which text matches, when, and which text does not.

use fugue_term::{
    EchoPolicy, ExpectPatterns, ExpectSearch, InitialSearch, LineQuery, MatchSource, Pattern,
    PatternKind, PatternMatch, Terminal, TerminalOptions, TerminalSize, TextCursor,
};

const SECRET: &str = "K";

fn terminal() -> Terminal {
    let options = TerminalOptions {
        secret: Some(SECRET.into()),
        ..TerminalOptions::default()
    };
    let mut terminal = Terminal::new(TerminalSize { rows: 6, cols: 30 }, options);
    terminal.start_text_stream();
    terminal
}

/// Replaces `{A}` and the like by marks with the secret.
fn marks(text: &str) -> Vec<u8> {
    let mut text = text.to_owned();
    for mark in ["A", "B", "C", "D;0"] {
        let bytes = format!("\x1b]133;{mark};k={SECRET}\x1b\\");
        text = text.replace(&format!("{{{mark}}}"), &bytes);
    }
    text.into_bytes()
}

fn expect_patterns(pattern: &str) -> ExpectPatterns {
    ExpectPatterns {
        pattern: Pattern::new(pattern).unwrap(),
        fail: None,
        lines: 100,
        since: None,
        echo: EchoPolicy::Skip,
    }
}

/// A pane with one expect.
struct Pane {
    terminal: Terminal,
    search: ExpectSearch,
}

impl Pane {
    /// Starts an expect after `before` was printed, which must not match.
    fn new(before: &str, what: ExpectPatterns) -> Pane {
        let (pane, initial) = Pane::begin(before, what);
        assert_eq!(initial, InitialSearch::NoMatch, "{before:?}");
        pane
    }

    fn begin(before: &str, what: ExpectPatterns) -> (Pane, InitialSearch) {
        let mut terminal = terminal();
        terminal.feed(&marks(before));
        let mut search = ExpectSearch::new(what);
        let initial = search.search_existing(&terminal);
        (Pane { terminal, search }, initial)
    }

    /// Starts an expect after `before` was printed, for new output only.
    fn since_now(before: &str, what: ExpectPatterns) -> Pane {
        let mut terminal = terminal();
        terminal.feed(&marks(before));
        let since = Some(terminal.end());
        let mut search = ExpectSearch::new(ExpectPatterns { since, ..what });
        assert_eq!(search.search_existing(&terminal), InitialSearch::NoMatch);
        Pane { terminal, search }
    }

    fn feed(&mut self, text: &str) -> Option<PatternMatch> {
        self.feed_bytes(&marks(text))
    }

    fn feed_bytes(&mut self, bytes: &[u8]) -> Option<PatternMatch> {
        self.terminal.feed(bytes);
        self.search.search_feed(self.terminal.feed_text())
    }

    fn search_screen_if_needed(&mut self) -> Option<PatternMatch> {
        match self.search.needs_screen_search() {
            true => self.search.search_screen(&self.terminal),
            false => None,
        }
    }

    /// The new lines since a cursor.
    fn new_text_since(&self, since: TextCursor) -> String {
        let query = LineQuery {
            since: Some(since),
            last: usize::MAX,
        };
        let lines = self.terminal.lines(&query).lines;
        let lines: Vec<&str> = lines.iter().map(|line| &line.text[..]).collect();
        lines.join("|")
    }
}

/// The result of some output: the match when found, or after quiet.
#[derive(Debug, PartialEq)]
enum ExpectOutcome<'a> {
    At(usize, &'a str),
    Quiet(&'a str),
    Never,
}

use ExpectOutcome::{At, Never, Quiet};

/// Feeds the pieces to a new pane; `At(n, …)` is after the nth piece.
fn check(pattern: &str, pieces: &[&str], expected: ExpectOutcome<'_>) {
    check_for(expect_patterns(pattern), pieces, expected);
}

#[track_caller]
fn check_for(what: ExpectPatterns, pieces: &[&str], expected: ExpectOutcome<'_>) {
    let mut pane = Pane {
        terminal: terminal(),
        search: ExpectSearch::new(what),
    };
    assert_eq!(
        pane.search.search_existing(&pane.terminal),
        InitialSearch::NoMatch
    );
    for (i, piece) in pieces.iter().enumerate() {
        if let Some(found) = pane.feed(piece) {
            assert_eq!(At(i + 1, &found.text), expected, "{pieces:?}");
            return;
        }
    }
    let unsettled = pane.search.is_unsettled();
    match pane.search.settle() {
        Some(found) => {
            assert!(unsettled);
            assert_eq!(Quiet(&found.text), expected, "{pieces:?}");
        }
        None => assert_eq!(Never, expected, "{pieces:?}"),
    }
}

#[test]
fn a_match_may_straddle_two_reads() {
    check("Listening", &["Listening"], At(1, "Listening"));
    check("Listening", &["Lis", "ten", "ing"], At(3, "Listening"));
    check("Listening", &["Lis", "ten\r\n", "ing"], Never);
    check("größe", &["gr\u{f6}", "ße"], At(2, "größe"));
    check("a.c", &["xa", "b", "c", "d"], At(3, "abc"));
    check("(?i)ERROR", &["an Er", "ror"], At(2, "Error"));
    check("a|abc", &["abc"], At(1, "a"));
    check("abc|a", &["abc"], At(1, "abc"));
}

#[test]
fn a_match_is_reported_in_full_length() {
    check(r"\d+", &["12", "34 "], At(2, "1234"));
    check(r"\d+", &["12", "34"], Quiet("1234"));
    check(r"\d+?", &["12", "34"], At(1, "1"));
    check(r"port \d+", &["port 80", "80\r\n"], At(2, "port 8080"));
    check(
        "error: .*",
        &["error: no ", "space\r\n"],
        At(2, "error: no space"),
    );
    check("error: .*", &["error: no space"], Quiet("error: no space"));
    check(
        r"(?s)error.*",
        &["error: no", "\r\nmore"],
        At(2, "error: no\n"),
    );
}

#[test]
fn a_prompt_without_following_output_matches_after_quiet() {
    check(r"\$ $", &["~ $ "], Quiet("$ "));
    check(r"\$ $", &["~ $ ", "x"], Never);
    check(r"\$ $", &["~ $ ", "\r\n"], At(2, "$ "));
    check(r"foo$", &["foo"], Quiet("foo"));
    check(r"foo$", &["foo", "bar\r\n"], Never);
    check(r"foo\b", &["foo"], Quiet("foo"));
    check(r"foo\b", &["foo", " "], At(2, "foo"));
    check(r"password: ", &["password: "], At(1, "password: "));
    check(r"\z", &["foo\r\n"], Quiet(""));
}

#[test]
fn anchors_match_at_line_boundaries() {
    check("^bar", &["foo bar\r\n", "bar"], At(2, "bar"));
    check("^bar$", &["bar baz\r\nbar", "\r\n"], At(2, "bar"));
    check("^$", &["a\r\n", "\r\n"], At(2, ""));
    check(r"\Afoo", &["x\r\nfoo\r\n"], Never);
    check("^> $", &["text\r\n> "], Quiet("> "));
    check(r"\bfoo", &["a foo"], At(1, "foo"));
}

#[test]
fn a_match_spans_at_most_the_lines_of_the_window() {
    check(r"a\nb", &["a\r", "\nb"], At(2, "a\nb"));
    check(
        "(?s)begin.*end",
        &["begin\r\nx\r\n", "end\r\n"],
        At(2, "begin\nx\nend"),
    );
    let lines = |lines| ExpectPatterns {
        lines,
        ..expect_patterns("(?s)begin.*end$")
    };
    check_for(
        lines(3),
        &["begin\r\n", "x\r\nend\r\n"],
        At(2, "begin\nx\nend"),
    );
    check_for(lines(3), &["begin\r\n", "x\r\nx\r\nend\r\n"], Never);
    let text = ["begin\r\nx\r\nx\r\nend\r\n", "begin\r\nx\r\nend\r\n"];
    check_for(lines(3), &text, At(2, "begin\nx\nend"));
}

#[test]
fn escape_sequences_do_not_interrupt_a_match() {
    check("error", &["er\x1b[31mr\x1b[1;4mor\x1b[0m"], At(1, "error"));
    check(
        "error: no",
        &["\x1b[01;31m\x1b[Kerror\x1b[m\x1b[K: no"],
        At(1, "error: no"),
    );
    check("foobar", &["foo\x1b]0;title\x07bar"], At(1, "foobar"));
    check("foobar", &["foo\x07\0bar"], At(1, "foobar"));
    check("^a$", &["a\r\r\n"], At(1, "a"));
    check("a\nb", &["a\r\nb"], At(1, "a\nb"));
    check("a\nb", &["a\n\rb"], At(1, "a\nb"));
    check("a\n\nb", &["a\r\n", "\r\nb"], At(2, "a\n\nb"));
    check("a +b", &["a\tb"], At(1, "a       b"));
    check(r"\[ OK \]", &["starting\x1b[20G[ OK ]"], At(1, "[ OK ]"));
    check(
        "starting +.*? OK",
        &["starting\x1b[20G[ OK ]"],
        At(1, "starting           [ OK"),
    );
    check("─┐", &["\x1b(0qk\x1b(B"], At(1, "─┐"));
}

#[test]
fn each_update_of_a_progress_bar_is_a_line() {
    check("^100%$", &["50%\r", "75%\r", "100%\r\n"], At(3, "100%"));
    check("^100%", &["\r\x1b[2K50%", "\r\x1b[2K100%"], At(2, "100%"));
    check("5075", &["50\r75"], Never);
}

#[test]
fn a_wrapped_line_is_one_line() {
    let long = "x".repeat(95);
    check("yx{95}z", &["y", &long, "z"], At(3, &format!("y{long}z")));
    check(
        "漢字漢字",
        &[&"-".repeat(27), "漢字漢字"],
        At(2, "漢字漢字"),
    );
}

#[test]
fn a_cursor_jump_ends_the_word() {
    check("foobar", &["foo\x1b[3;1Hbar"], Never);
    check("foobar", &["\r\nfoo\x1b[Abar"], Never);
    check("foobar", &["foo\x08bar"], Never);
    check("foobar", &["foo\x1b[2Kbar"], Never);
    check("foobar", &["foo\x1b7\x1b[H\x1b8bar"], At(1, "foobar"));
}

#[test]
fn word_boundaries_are_unicode_aware() {
    check(r"\bécole\b", &["l'", "école "], At(2, "école"));
    check(r"\bcole\b", &["école "], Never);
    check(r"\bcole\b", &["école", " cole\r\n"], At(2, "cole"));
    check(r"foo\b", &["fooé", " foo", "–"], At(3, "foo"));
    check(
        r"\berror\b",
        &["✓ no terror\r\n", "error", "\r\n"],
        At(3, "error"),
    );
    check(r"(?s)\bé.*?\bè", &["é\r\n", "x\r\nè"], At(2, "é\nx\nè"));
}

#[test]
fn the_pattern_that_ends_first_wins() {
    let both = |pattern, fail| ExpectPatterns {
        fail: Some(Pattern::new(fail).unwrap()),
        ..expect_patterns(pattern)
    };
    let which = |pattern, fail, pieces: &[&str]| {
        let mut pane = Pane::new("", both(pattern, fail));
        let found = pieces.iter().find_map(|piece| pane.feed(piece));
        found
            .or_else(|| pane.search.settle())
            .map(|found| (found.kind, found.text))
    };
    let failed = |text: &str| Some((PatternKind::Fail, text.to_owned()));
    let matched = |text: &str| Some((PatternKind::Pattern, text.to_owned()));
    assert_eq!(which("done", "error", &["an error, done"]), failed("error"));
    assert_eq!(which("done", "error", &["done, an error"]), matched("done"));
    assert_eq!(
        which("done.*", "error", &["done: ", "error\r\n"]),
        matched("done: error")
    );
    assert_eq!(which("foo", "foo", &["foo"]), failed("foo"));
    assert_eq!(which("foo", "foo$", &["foo", "\r\n"]), failed("foo"));
    assert_eq!(which("foo", "foo$", &["foo\r\n"]), failed("foo"));
    assert_eq!(which("foo", "foo$", &["foo", "bar"]), matched("foo"));
    assert_eq!(which("foo", "foo$", &["foo"]), failed("foo"));
}

#[test]
fn existing_lines_are_searched_first() {
    let begin = |before, what| match Pane::begin(before, what) {
        (pane, InitialSearch::Match(found)) => (found.text.clone(), pane.new_text_since(found.end)),
        (_, initial) => panic!("{initial:?}"),
    };
    let text = "one\r\ntwo 2 zwei\r\nthree\r\nfour";
    let is = |text: &str, new_text_since: &str| (text.to_owned(), new_text_since.to_owned());
    assert_eq!(
        begin(text, expect_patterns("one")),
        is("one", "two 2 zwei|three|four")
    );
    assert_eq!(
        begin(text, expect_patterns(r"two \d")),
        is("two 2", " zwei|three|four")
    );
    assert_eq!(
        begin(text, expect_patterns("two.*")),
        is("two 2 zwei", "three|four")
    );
    assert_eq!(
        begin(text, expect_patterns("zwei\n")),
        is("zwei\n", "three|four")
    );
    assert_eq!(begin(text, expect_patterns("^fou")), is("fou", "r"));
    let last = |lines| ExpectPatterns {
        lines,
        ..expect_patterns("one|four")
    };
    assert_eq!(begin(text, last(4)).0, "one");
    assert_eq!(begin(text, last(3)).0, "four");
    // New output continues the same line.
    let mut pane = Pane::new("hello wor", expect_patterns("hello world"));
    assert_eq!(pane.feed("ld").unwrap().text, "hello world");
    let mut pane = Pane::new("one\r\n", expect_patterns(r"one\ntwo"));
    assert_eq!(pane.feed("two").unwrap().text, "one\ntwo");
    let mut pane = Pane::new("~ $ ", expect_patterns(r"\$ $"));
    assert!(pane.search.is_unsettled());
    assert_eq!(pane.search.settle().unwrap().text, "$ ");
}

#[test]
fn a_match_has_its_position_and_the_cursor_after_it() {
    for before in ["", "text\r\n", "漢 "] {
        for pieces in [
            &["see \x1b[1mport 80", "80\x1b[0m now\r\nnext"][..],
            &["see port", " 8080 now", "\r\nnext"],
            &["see port 8080 now\r\nnext"],
        ] {
            let mut pane = Pane::new(before, expect_patterns(r"port \d+"));
            let hits: Vec<PatternMatch> =
                pieces.iter().filter_map(|piece| pane.feed(piece)).collect();
            let [found] = &hits[..] else {
                panic!("{hits:?}")
            };
            assert_eq!(pane.new_text_since(found.end), " now|next");
            assert_eq!(
                (&found.text[..], found.source),
                ("port 8080", MatchSource::Stream)
            );
            assert!(found.line.contains("see port 8080"), "{found:?}");
            let line = before.matches('\n').count() as u64;
            let col = if before == "漢 " { 2 } else { 0 };
            assert_eq!((found.start.line.0, found.start.col), (line, col + 4));
            assert_eq!((found.end.line.0, found.end.col), (line, col + 13));
        }
    }
}

#[test]
fn repainted_old_text_does_not_match() {
    let mut pane = Pane::since_now("Build completed\r\n$ ", expect_patterns("Build completed"));
    assert_eq!(pane.feed("make\r\n"), None);
    assert_eq!(pane.search.settle(), None);
    let found = pane.feed("Build completed\r\n").unwrap();
    assert_eq!((found.end.line.0, found.end.col), (2, 15));
    // `since` in the middle of a line.
    let mut pane = Pane::since_now("foo", expect_patterns("^bar|foobar|oo"));
    assert_eq!(pane.feed("bar\r\n"), None);
    assert!(pane.feed("bar\r\n").is_some());
    // A program that redraws its screen, with and without clearing.
    let screen = "\x1b[2;3HBuild completed\x1b[4;1Hthe end";
    for again in ["\x1b[H", "\x1b[H\x1b[0J", "\x1b[6;1H\x1b[2K\x1b[A\x1b[2K"] {
        for alternate in ["", "\x1b[?1049h"] {
            let before = format!("{alternate}{screen}");
            let mut pane = Pane::since_now(&before, expect_patterns("completed"));
            // Clearing the whole main screen makes the following output new lines.
            if alternate.is_empty() && again.contains("\x1b[H\x1b[0J") {
                continue;
            }
            for _ in 0..3 {
                assert_eq!(pane.feed(&format!("{again}{screen}")), None, "{again:?}");
                assert_eq!(
                    pane.search_screen_if_needed(),
                    None,
                    "{again:?} {alternate:?}"
                );
            }
            let other = format!("{again}\x1b[2;3HBuild failed   \x1b[4;1Hthe end");
            assert_eq!(pane.feed(&other), None);
            assert_eq!(pane.search_screen_if_needed(), None);
            let found = pane
                .feed(&format!("{again}{screen}"))
                .or_else(|| pane.search_screen_if_needed());
            assert_eq!(found.unwrap().text, "completed", "it was gone and is back");
        }
    }
}

#[test]
fn painted_text_is_found_by_a_screen_search() {
    for alternate in ["", "\x1b[?1049h"] {
        let mut pane = Pane::since_now("ready\r\n", expect_patterns("re[a]dy"));
        assert_eq!(
            pane.feed(&format!("{alternate}\x1b[4;3Hrdy\x1b[4;4H\x1b[2@")),
            None
        );
        assert_eq!(pane.search_screen_if_needed(), None);
        assert_eq!(pane.feed("\x1b[4;5Ha\x1b[4;4He"), None);
        let found = pane.search_screen_if_needed().unwrap();
        assert_eq!(
            (&found.text[..], &found.line[..], found.source),
            ("ready", "  ready", MatchSource::Screen)
        );
        assert_eq!(pane.new_text_since(found.end), "");
    }
}

#[test]
fn the_alternate_screen_is_searched() {
    let mut pane = Pane::new("", expect_patterns("done"));
    assert_eq!(pane.feed("\x1b[?1049h\x1b[2J\x1b[3;4Hworking"), None);
    let found = pane.feed("\x1b[3;4Hdone").unwrap();
    assert_eq!(found.text, "done");
    // The contents of the alternate screen are searched, the hidden main screen is not.
    let (_, initial) = Pane::begin("\x1b[?1049h\x1b[3;4Hdone", expect_patterns("done"));
    assert!(matches!(
        initial,
        InitialSearch::Match(PatternMatch {
            source: MatchSource::Screen,
            ..
        })
    ));
    let mut pane = Pane::since_now("done\x1b[?1049h\x1b[3;4Hdone", expect_patterns("done"));
    assert_eq!(pane.feed("\x1b[5;1Hx\x1b[?1049l\x1b[4;1Hy"), None);
    assert_eq!(pane.search_screen_if_needed(), None);
}

#[test]
fn echo_is_not_searched() {
    let typed = "{A}$ {B}make done\r\n{C}";
    let mut pane = Pane::new("", expect_patterns("done"));
    assert_eq!(pane.feed(typed), None);
    assert_eq!(pane.search.settle(), None);
    assert_eq!(pane.search_screen_if_needed(), None);
    assert_eq!(pane.feed("all done\r\n").unwrap().line, "all done");
    let what = || ExpectPatterns {
        echo: EchoPolicy::Match,
        ..expect_patterns("make done")
    };
    assert_eq!(Pane::new("", what()).feed(typed).unwrap().text, "make done");
    assert!(matches!(
        Pane::begin(typed, what()).1,
        InitialSearch::Match(_)
    ));
    // Existing output begins in the line in which the echo ended.
    let there = "{A}$ {B}ls\r\n{C}all done\r\n{D;0}{A}$ {B}";
    assert!(matches!(
        Pane::begin(there, expect_patterns("all done")).1,
        InitialSearch::Match(_)
    ));
    // Existing text, and text that a line editor paints.
    let mut pane = Pane::new(
        &format!("{typed}{{D;0}}{{A}}$ {{B}}done"),
        expect_patterns("done|mak"),
    );
    assert_eq!(pane.feed("\r\x1b[Cdone\x1b[K\x1b[2D"), None);
    assert!(!pane.search.needs_screen_search());
    assert_eq!(pane.search.search_screen(&pane.terminal), None);
    // The prompt and the following output are not joined.
    let mut pane = Pane::new("", expect_patterns(r"^out|\$ out"));
    assert_eq!(pane.feed("{A}$ {B}ls\r\n{C}out").unwrap().text, "out");
    let mut pane = Pane::new("{A}$ {B}ls", expect_patterns(r"^out|\$ out"));
    assert_eq!(pane.feed("\r\n{C}out").unwrap().text, "out");
    let mut pane = Pane::new("", expect_patterns(r"\$ $"));
    assert_eq!(pane.feed("{A}$ {B}"), None);
    assert_eq!(pane.search.settle().unwrap().text, "$ ");
}

#[test]
fn background_output_at_the_prompt_is_not_echo() {
    let mut pane = Pane::new("", expect_patterns("listening"));
    pane.terminal.track_typed_input();
    pane.feed("{A}$ {B}");
    pane.terminal.record_typed(b"./server listening &\r");
    // The typed line names the background program and starts it.
    assert_eq!(pane.feed("./server listening &\r\n{C}{D;0}{A}$ {B}"), None);
    assert_eq!(
        pane.feed("listening on 80").unwrap().line,
        "$ listening on 80"
    );
    // With a partly typed line, the output cannot be distinguished from echo.
    let mut pane = Pane::new("{A}$ {B}", expect_patterns("listening"));
    pane.terminal.record_typed(b"list");
    assert_eq!(pane.feed("listening"), None);
    // Existing text.
    let mut terminal = terminal();
    terminal.track_typed_input();
    terminal.feed(&marks("{A}$ {B}listening"));
    let mut search = ExpectSearch::new(expect_patterns("listening"));
    assert!(matches!(
        search.search_existing(&terminal),
        InitialSearch::Match(_)
    ));
}

#[test]
fn lines_typed_ahead_are_echo_at_each_prompt() {
    let mut pane = Pane::new("", expect_patterns("ready"));
    pane.terminal.track_typed_input();
    pane.feed("{A}$ {B}");
    pane.terminal.record_typed(b": ready one\r: ready two\r");
    pane.terminal.record_typed(b"./server ready &\r");
    assert_eq!(pane.feed(": ready one\r\n{C}{D;0}{A}$ {B}"), None);
    assert_eq!(pane.feed(": ready two\r\n{C}{D;0}{A}$ {B}"), None);
    assert_eq!(pane.feed("./server ready &\r\n{C}{D;0}{A}$ {B}"), None);
    assert_eq!(pane.feed("ready on 80").unwrap().line, "$ ready on 80");
}

#[test]
fn forged_marks_do_not_hide_output() {
    let mut pane = Pane::new("", expect_patterns("done"));
    let forged = "\x1b]133;A\x07\x1b]133;B\x07\x1b]133;B;k=guess\x07";
    assert!(pane.feed(&format!("{forged}done")).is_some());
    let (_, initial) = Pane::begin(&format!("{forged}done"), expect_patterns("done"));
    assert!(matches!(initial, InitialSearch::Match(_)));
}

#[test]
fn dropped_lines_are_requested() {
    let secret = || Some(SECRET.to_owned());
    let make = |keep_lines| {
        let options = TerminalOptions {
            keep_lines,
            secret: secret(),
        };
        let mut terminal = Terminal::new(TerminalSize { rows: 6, cols: 30 }, options);
        terminal.start_text_stream();
        terminal
    };
    let (mut live, mut replayed) = (make(10), make(usize::MAX));
    let begin = |live: &Terminal, pattern| {
        let since = Some(TextCursor::default());
        let mut search = ExpectSearch::new(ExpectPatterns {
            since,
            ..expect_patterns(pattern)
        });
        assert_eq!(search.search_existing(live), InitialSearch::NeedsOlder);
        search
    };
    let text: String = (0..5000).map(|i| format!("line {i} of many\r\n")).collect();
    live.feed(text.as_bytes());
    replayed.feed(text.as_bytes());
    let mut search = begin(&live, "line 7 .*");
    let InitialSearch::Match(found) = search.search_existing(&replayed) else {
        panic!()
    };
    assert_eq!((&found.text[..], found.end.line.0), ("line 7 of many", 7));
    // No match in existing lines; then the text printed meanwhile, then new output.
    let mut search = begin(&live, "late|later");
    assert_eq!(search.search_existing(&replayed), InitialSearch::NoMatch);
    live.feed(b"here: la");
    assert_eq!(search.search_feed(live.feed_text()), None);
    live.feed(b"te\r\n");
    assert_eq!(search.resume_search(&live).unwrap().text, "late");
    let mut search = begin(&live, "the end");
    assert_eq!(
        search.search_existing(&live),
        InitialSearch::NoMatch,
        "only the available lines are searched"
    );
    assert_eq!(search.resume_search(&live), None);
    live.feed(b"the end");
    assert_eq!(
        search.search_feed(live.feed_text()).unwrap().text,
        "the end"
    );
}

#[test]
fn the_text_of_a_match_is_bounded() {
    let mut pane = Pane::new("", expect_patterns("x+y"));
    let found = pane.feed(&format!("{}y\r\n", "x".repeat(5000))).unwrap();
    assert_eq!(
        (found.text.chars().count(), found.line.chars().count()),
        (1001, 1001)
    );
    let mut pane = Pane::new("", expect_patterns("needle"));
    let found = pane
        .feed(&format!("{}needle and more", "x".repeat(5000)))
        .unwrap();
    assert!(
        found.line.starts_with('…') && found.line.contains("xneedle"),
        "{}",
        found.line
    );
    assert!(pane.feed("needle").is_none(), "it is over");
    assert!(!pane.search.is_unsettled());
}
