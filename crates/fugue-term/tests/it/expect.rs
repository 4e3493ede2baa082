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

fn watch_for(pattern: &str) -> ExpectPatterns {
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
    watch: ExpectSearch,
}

impl Pane {
    /// Starts an expect after `before` was printed, which must not match.
    fn new(before: &str, what: ExpectPatterns) -> Pane {
        let (pane, begun) = Pane::begin(before, what);
        assert_eq!(begun, InitialSearch::NoMatch, "{before:?}");
        pane
    }

    fn begin(before: &str, what: ExpectPatterns) -> (Pane, InitialSearch) {
        let mut terminal = terminal();
        terminal.feed(&marks(before));
        let mut watch = ExpectSearch::new(what);
        let begun = watch.search_existing(&terminal);
        (Pane { terminal, watch }, begun)
    }

    /// Starts an expect after `before` was printed, for new output only.
    fn since_now(before: &str, what: ExpectPatterns) -> Pane {
        let mut terminal = terminal();
        terminal.feed(&marks(before));
        let since = Some(terminal.end());
        let mut watch = ExpectSearch::new(ExpectPatterns { since, ..what });
        assert_eq!(watch.search_existing(&terminal), InitialSearch::NoMatch);
        Pane { terminal, watch }
    }

    fn feed(&mut self, text: &str) -> Option<PatternMatch> {
        self.feed_bytes(&marks(text))
    }

    fn feed_bytes(&mut self, bytes: &[u8]) -> Option<PatternMatch> {
        self.terminal.feed(bytes);
        self.watch.search_feed(self.terminal.feed_text())
    }

    fn look(&mut self) -> Option<PatternMatch> {
        match self.watch.needs_screen_search() {
            true => self.watch.search_screen(&self.terminal),
            false => None,
        }
    }

    /// The new lines since a cursor.
    fn follows(&self, since: TextCursor) -> String {
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
enum Told<'a> {
    At(usize, &'a str),
    Quiet(&'a str),
    Never,
}

use Told::{At, Never, Quiet};

/// Feeds the pieces to a new pane; `At(n, …)` is after the nth piece.
fn check(pattern: &str, pieces: &[&str], expected: Told<'_>) {
    check_for(watch_for(pattern), pieces, expected);
}

#[track_caller]
fn check_for(what: ExpectPatterns, pieces: &[&str], expected: Told<'_>) {
    let mut pane = Pane {
        terminal: terminal(),
        watch: ExpectSearch::new(what),
    };
    assert_eq!(
        pane.watch.search_existing(&pane.terminal),
        InitialSearch::NoMatch
    );
    for (i, piece) in pieces.iter().enumerate() {
        if let Some(hit) = pane.feed(piece) {
            assert_eq!(At(i + 1, &hit.text), expected, "{pieces:?}");
            return;
        }
    }
    let unsettled = pane.watch.is_unsettled();
    match pane.watch.settle() {
        Some(hit) => {
            assert!(unsettled);
            assert_eq!(Quiet(&hit.text), expected, "{pieces:?}");
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
fn a_match_is_not_told_short() {
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
fn a_prompt_that_nothing_follows_is_told_when_it_is_quiet() {
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
fn anchors_are_at_line_boundaries() {
    check("^bar", &["foo bar\r\n", "bar"], At(2, "bar"));
    check("^bar$", &["bar baz\r\nbar", "\r\n"], At(2, "bar"));
    check("^$", &["a\r\n", "\r\n"], At(2, ""));
    check(r"\Afoo", &["x\r\nfoo\r\n"], Never);
    check("^> $", &["text\r\n> "], Quiet("> "));
    check(r"\bfoo", &["a foo"], At(1, "foo"));
}

#[test]
fn patterns_may_span_lines_within_the_window_and_not_beyond() {
    check(r"a\nb", &["a\r", "\nb"], At(2, "a\nb"));
    check(
        "(?s)begin.*end",
        &["begin\r\nx\r\n", "end\r\n"],
        At(2, "begin\nx\nend"),
    );
    let lines = |lines| ExpectPatterns {
        lines,
        ..watch_for("(?s)begin.*end$")
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
fn what_is_no_text_is_not_in_the_way() {
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
fn a_progress_bar_is_many_lines() {
    check("^100%$", &["50%\r", "75%\r", "100%\r\n"], At(3, "100%"));
    check("^100%", &["\r\x1b[2K50%", "\r\x1b[2K100%"], At(2, "100%"));
    check("5075", &["50\r75"], Never);
}

#[test]
fn a_line_over_the_edge_is_one() {
    let long = "x".repeat(95);
    check("yx{95}z", &["y", &long, "z"], At(3, &format!("y{long}z")));
    check(
        "漢字漢字",
        &[&"-".repeat(27), "漢字漢字"],
        At(2, "漢字漢字"),
    );
}

#[test]
fn a_jump_ends_the_word() {
    check("foobar", &["foo\x1b[3;1Hbar"], Never);
    check("foobar", &["\r\nfoo\x1b[Abar"], Never);
    check("foobar", &["foo\x08bar"], Never);
    check("foobar", &["foo\x1b[2Kbar"], Never);
    check("foobar", &["foo\x1b7\x1b[H\x1b8bar"], At(1, "foobar"));
}

#[test]
fn word_boundaries_know_unicode() {
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
fn whichever_comes_first() {
    let both = |pattern, fail| ExpectPatterns {
        fail: Some(Pattern::new(fail).unwrap()),
        ..watch_for(pattern)
    };
    let which = |pattern, fail, pieces: &[&str]| {
        let mut pane = Pane::new("", both(pattern, fail));
        let hit = pieces.iter().find_map(|piece| pane.feed(piece));
        hit.or_else(|| pane.watch.settle())
            .map(|hit| (hit.kind, hit.text))
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
fn what_is_there_is_looked_at_first() {
    let begin = |before, what| match Pane::begin(before, what) {
        (pane, InitialSearch::Match(hit)) => (hit.text.clone(), pane.follows(hit.end)),
        (_, begun) => panic!("{begun:?}"),
    };
    let text = "one\r\ntwo 2 zwei\r\nthree\r\nfour";
    let is = |text: &str, follows: &str| (text.to_owned(), follows.to_owned());
    assert_eq!(
        begin(text, watch_for("one")),
        is("one", "two 2 zwei|three|four")
    );
    assert_eq!(
        begin(text, watch_for(r"two \d")),
        is("two 2", " zwei|three|four")
    );
    assert_eq!(
        begin(text, watch_for("two.*")),
        is("two 2 zwei", "three|four")
    );
    assert_eq!(begin(text, watch_for("zwei\n")), is("zwei\n", "three|four"));
    assert_eq!(begin(text, watch_for("^fou")), is("fou", "r"));
    let last = |lines| ExpectPatterns {
        lines,
        ..watch_for("one|four")
    };
    assert_eq!(begin(text, last(4)).0, "one");
    assert_eq!(begin(text, last(3)).0, "four");
    // New output continues the same line.
    let mut pane = Pane::new("hello wor", watch_for("hello world"));
    assert_eq!(pane.feed("ld").unwrap().text, "hello world");
    let mut pane = Pane::new("one\r\n", watch_for(r"one\ntwo"));
    assert_eq!(pane.feed("two").unwrap().text, "one\ntwo");
    let mut pane = Pane::new("~ $ ", watch_for(r"\$ $"));
    assert!(pane.watch.is_unsettled());
    assert_eq!(pane.watch.settle().unwrap().text, "$ ");
}

#[test]
fn a_hit_says_where_it_is_and_what_follows() {
    for before in ["", "text\r\n", "漢 "] {
        for pieces in [
            &["see \x1b[1mport 80", "80\x1b[0m now\r\nnext"][..],
            &["see port", " 8080 now", "\r\nnext"],
            &["see port 8080 now\r\nnext"],
        ] {
            let mut pane = Pane::new(before, watch_for(r"port \d+"));
            let hits: Vec<PatternMatch> =
                pieces.iter().filter_map(|piece| pane.feed(piece)).collect();
            let [hit] = &hits[..] else { panic!("{hits:?}") };
            assert_eq!(pane.follows(hit.end), " now|next");
            assert_eq!(
                (&hit.text[..], hit.source),
                ("port 8080", MatchSource::Stream)
            );
            assert!(hit.line.contains("see port 8080"), "{hit:?}");
            let line = before.matches('\n').count() as u64;
            let col = if before == "漢 " { 2 } else { 0 };
            assert_eq!((hit.start.line.0, hit.start.col), (line, col + 4));
            assert_eq!((hit.end.line.0, hit.end.col), (line, col + 13));
        }
    }
}

#[test]
fn stale_text_never_matches() {
    let mut pane = Pane::since_now("Build completed\r\n$ ", watch_for("Build completed"));
    assert_eq!(pane.feed("make\r\n"), None);
    assert_eq!(pane.watch.settle(), None);
    let hit = pane.feed("Build completed\r\n").unwrap();
    assert_eq!((hit.end.line.0, hit.end.col), (2, 15));
    // `since` in the middle of a line.
    let mut pane = Pane::since_now("foo", watch_for("^bar|foobar|oo"));
    assert_eq!(pane.feed("bar\r\n"), None);
    assert!(pane.feed("bar\r\n").is_some());
    // A program that redraws its screen, with and without clearing.
    let screen = "\x1b[2;3HBuild completed\x1b[4;1Hthe end";
    for again in ["\x1b[H", "\x1b[H\x1b[0J", "\x1b[6;1H\x1b[2K\x1b[A\x1b[2K"] {
        for alternate in ["", "\x1b[?1049h"] {
            let before = format!("{alternate}{screen}");
            let mut pane = Pane::since_now(&before, watch_for("completed"));
            // Clearing the whole main screen makes the following output new lines.
            if alternate.is_empty() && again.contains("\x1b[H\x1b[0J") {
                continue;
            }
            for _ in 0..3 {
                assert_eq!(pane.feed(&format!("{again}{screen}")), None, "{again:?}");
                assert_eq!(pane.look(), None, "{again:?} {alternate:?}");
            }
            let other = format!("{again}\x1b[2;3HBuild failed   \x1b[4;1Hthe end");
            assert_eq!(pane.feed(&other), None);
            assert_eq!(pane.look(), None);
            let hit = pane
                .feed(&format!("{again}{screen}"))
                .or_else(|| pane.look());
            assert_eq!(hit.unwrap().text, "completed", "it was gone and is back");
        }
    }
}

#[test]
fn a_word_that_is_painted_is_found_by_a_look() {
    for alternate in ["", "\x1b[?1049h"] {
        let mut pane = Pane::since_now("ready\r\n", watch_for("re[a]dy"));
        assert_eq!(
            pane.feed(&format!("{alternate}\x1b[4;3Hrdy\x1b[4;4H\x1b[2@")),
            None
        );
        assert_eq!(pane.look(), None);
        assert_eq!(pane.feed("\x1b[4;5Ha\x1b[4;4He"), None);
        let hit = pane.look().unwrap();
        assert_eq!(
            (&hit.text[..], &hit.line[..], hit.source),
            ("ready", "  ready", MatchSource::Screen)
        );
        assert_eq!(pane.follows(hit.end), "");
    }
}

#[test]
fn the_alternate_screen_counts() {
    let mut pane = Pane::new("", watch_for("done"));
    assert_eq!(pane.feed("\x1b[?1049h\x1b[2J\x1b[3;4Hworking"), None);
    let hit = pane.feed("\x1b[3;4Hdone").unwrap();
    assert_eq!(hit.text, "done");
    // The contents of the alternate screen are searched, the hidden main screen is not.
    let (_, begun) = Pane::begin("\x1b[?1049h\x1b[3;4Hdone", watch_for("done"));
    assert!(matches!(
        begun,
        InitialSearch::Match(PatternMatch {
            source: MatchSource::Screen,
            ..
        })
    ));
    let mut pane = Pane::since_now("done\x1b[?1049h\x1b[3;4Hdone", watch_for("done"));
    assert_eq!(pane.feed("\x1b[5;1Hx\x1b[?1049l\x1b[4;1Hy"), None);
    assert_eq!(pane.look(), None);
}

#[test]
fn echo_is_no_output() {
    let typed = "{A}$ {B}make done\r\n{C}";
    let mut pane = Pane::new("", watch_for("done"));
    assert_eq!(pane.feed(typed), None);
    assert_eq!(pane.watch.settle(), None);
    assert_eq!(pane.look(), None);
    assert_eq!(pane.feed("all done\r\n").unwrap().line, "all done");
    let what = || ExpectPatterns {
        echo: EchoPolicy::Match,
        ..watch_for("make done")
    };
    assert_eq!(Pane::new("", what()).feed(typed).unwrap().text, "make done");
    assert!(matches!(
        Pane::begin(typed, what()).1,
        InitialSearch::Match(_)
    ));
    // Existing output begins in the line in which the echo ended.
    let there = "{A}$ {B}ls\r\n{C}all done\r\n{D;0}{A}$ {B}";
    assert!(matches!(
        Pane::begin(there, watch_for("all done")).1,
        InitialSearch::Match(_)
    ));
    // Existing text, and text that a line editor paints.
    let mut pane = Pane::new(
        &format!("{typed}{{D;0}}{{A}}$ {{B}}done"),
        watch_for("done|mak"),
    );
    assert_eq!(pane.feed("\r\x1b[Cdone\x1b[K\x1b[2D"), None);
    assert!(!pane.watch.needs_screen_search());
    assert_eq!(pane.watch.search_screen(&pane.terminal), None);
    // The prompt and the following output are not joined.
    let mut pane = Pane::new("", watch_for(r"^out|\$ out"));
    assert_eq!(pane.feed("{A}$ {B}ls\r\n{C}out").unwrap().text, "out");
    let mut pane = Pane::new("{A}$ {B}ls", watch_for(r"^out|\$ out"));
    assert_eq!(pane.feed("\r\n{C}out").unwrap().text, "out");
    let mut pane = Pane::new("", watch_for(r"\$ $"));
    assert_eq!(pane.feed("{A}$ {B}"), None);
    assert_eq!(pane.watch.settle().unwrap().text, "$ ");
}

#[test]
fn what_a_program_in_the_background_prints_at_the_prompt_is_no_echo() {
    let mut pane = Pane::new("", watch_for("listening"));
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
    let mut pane = Pane::new("{A}$ {B}", watch_for("listening"));
    pane.terminal.record_typed(b"list");
    assert_eq!(pane.feed("listening"), None);
    // Existing text.
    let mut terminal = terminal();
    terminal.track_typed_input();
    terminal.feed(&marks("{A}$ {B}listening"));
    let mut watch = ExpectSearch::new(watch_for("listening"));
    assert!(matches!(
        watch.search_existing(&terminal),
        InitialSearch::Match(_)
    ));
}

#[test]
fn lines_that_are_typed_ahead_are_echo_at_each_of_their_prompts() {
    let mut pane = Pane::new("", watch_for("ready"));
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
fn forged_marks_hide_nothing() {
    let mut pane = Pane::new("", watch_for("done"));
    let forged = "\x1b]133;A\x07\x1b]133;B\x07\x1b]133;B;k=guess\x07";
    assert!(pane.feed(&format!("{forged}done")).is_some());
    let (_, begun) = Pane::begin(&format!("{forged}done"), watch_for("done"));
    assert!(matches!(begun, InitialSearch::Match(_)));
}

#[test]
fn lines_that_are_gone_are_asked_for() {
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
        let mut watch = ExpectSearch::new(ExpectPatterns {
            since,
            ..watch_for(pattern)
        });
        assert_eq!(watch.search_existing(live), InitialSearch::NeedsOlder);
        watch
    };
    let text: String = (0..5000).map(|i| format!("line {i} of many\r\n")).collect();
    live.feed(text.as_bytes());
    replayed.feed(text.as_bytes());
    let mut watch = begin(&live, "line 7 .*");
    let InitialSearch::Match(hit) = watch.search_existing(&replayed) else {
        panic!()
    };
    assert_eq!((&hit.text[..], hit.end.line.0), ("line 7 of many", 7));
    // No match in existing lines; then the text printed meanwhile, then new output.
    let mut watch = begin(&live, "late|later");
    assert_eq!(watch.search_existing(&replayed), InitialSearch::NoMatch);
    live.feed(b"here: la");
    assert_eq!(watch.search_feed(live.feed_text()), None);
    live.feed(b"te\r\n");
    assert_eq!(watch.resume_search(&live).unwrap().text, "late");
    let mut watch = begin(&live, "the end");
    assert_eq!(
        watch.search_existing(&live),
        InitialSearch::NoMatch,
        "what there is has to do"
    );
    assert_eq!(watch.resume_search(&live), None);
    live.feed(b"the end");
    assert_eq!(watch.search_feed(live.feed_text()).unwrap().text, "the end");
}

#[test]
fn what_is_told_is_bounded() {
    let mut pane = Pane::new("", watch_for("x+y"));
    let hit = pane.feed(&format!("{}y\r\n", "x".repeat(5000))).unwrap();
    assert_eq!(
        (hit.text.chars().count(), hit.line.chars().count()),
        (1001, 1001)
    );
    let mut pane = Pane::new("", watch_for("needle"));
    let hit = pane
        .feed(&format!("{}needle and more", "x".repeat(5000)))
        .unwrap();
    assert!(
        hit.line.starts_with('…') && hit.line.contains("xneedle"),
        "{}",
        hit.line
    );
    assert!(pane.feed("needle").is_none(), "it is over");
    assert!(!pane.watch.is_unsettled());
}
