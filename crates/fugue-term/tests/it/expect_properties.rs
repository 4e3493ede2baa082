//! Properties of an expect that hold for any output.

use std::sync::LazyLock;

use fugue_term::{
    EchoPolicy, ExpectPatterns, ExpectSearch, InitialSearch, LineQuery, Pattern, PatternKind,
    PatternMatch, Terminal, TerminalSize, TextCursor,
};
use proptest::prelude::*;

use crate::common::{Step, options, script, single_bytes, size, whole};

fn config(cases: u32) -> ProptestConfig {
    let default = ProptestConfig::default();
    ProptestConfig {
        cases: default.cases.max(cases),
        failure_persistence: None,
        ..default
    }
}

static PATTERNS: LazyLock<Vec<Pattern>> = LazyLock::new(|| {
    let texts = [
        "[a-z]{2}",
        r"\d+",
        r"\d[A-Z]+$",
        r"^\w\d?$",
        "漢字|👍",
        r"\b\w\d\b",
        "(?s)a.*b.*c",
        "(?i)e\u{301}a|q.*z",
        r"[a-z]\n[A-Z]",
        "never this",
    ];
    texts.map(|text| Pattern::new(text).unwrap()).into()
});

fn expect_patterns(pattern: &Pattern) -> ExpectPatterns {
    ExpectPatterns {
        pattern: pattern.clone(),
        fail: None,
        lines: 4,
        since: None,
        echo: EchoPolicy::Skip,
    }
}

/// The parts of a match that do not depend on when the match was reported.
type Told = Option<(PatternKind, String, TextCursor, TextCursor)>;

fn comparable(found: Option<PatternMatch>) -> Told {
    found.map(|found| (found.kind, found.text, found.start, found.end))
}

/// The match of a script, and whether a screen search is needed.
fn find_match(
    what: ExpectPatterns,
    size: TerminalSize,
    script: &[Step],
    mut cut: impl FnMut(&[u8]) -> Vec<Vec<u8>>,
) -> (Told, bool) {
    let mut terminal = Terminal::new(size, options());
    terminal.start_text_stream();
    let mut search = ExpectSearch::new(what);
    if let InitialSearch::Match(found) = search.search_existing(&terminal) {
        return (comparable(Some(found)), false);
    }
    for step in script {
        match step {
            Step::Resize(size) => terminal.resize(*size),
            Step::Renew => terminal.reset_for_new_process(),
            Step::Bytes(bytes) => {
                for part in cut(bytes) {
                    terminal.feed(&part);
                    if let Some(found) = search.search_feed(terminal.feed_text()) {
                        return (comparable(Some(found)), false);
                    }
                }
            }
        }
    }
    let found = search.settle();
    (comparable(found), search.needs_screen_search())
}

/// Splits bytes into pieces of these sizes in turn.
fn split_by_sizes(bytes: &[u8], sizes: &mut impl Iterator<Item = usize>) -> Vec<Vec<u8>> {
    let mut parts = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let (part, behind) = rest.split_at(sizes.next().unwrap_or(1).min(rest.len()));
        parts.push(part.to_vec());
        rest = behind;
    }
    parts
}

/// Lines of words, partly coloured, and the text that a reader sees.
fn printed() -> impl Strategy<Value = (Vec<u8>, String)> {
    let word = prop::sample::select(
        &[
            "a",
            "b",
            "ab",
            "12",
            "7",
            " ",
            "é",
            "漢",
            "e\u{301}",
            ".",
            "over-the-edge",
            "\t",
        ][..],
    );
    let dress = prop::sample::select(
        &[
            "",
            "",
            "",
            "\x1b[1m",
            "\x1b[0;31m\x1b[K",
            "\x1b]0;t\x07",
            "\x07",
            "\x1b(B",
        ][..],
    );
    let line = prop::collection::vec((dress, word), 0..7);
    let end = prop::sample::select(&["\r\n", "\r\n", "\r\r\n", "\r\n\x1b[m"][..]);
    prop::collection::vec((line, end), 1..8).prop_map(|lines| {
        let (mut bytes, mut clean) = (Vec::new(), String::new());
        for (words, end) in lines {
            let mut column = 0;
            for (dress, word) in words {
                bytes.extend_from_slice(dress.as_bytes());
                // A tab without following text is not text, and a tab over the edge depends on the width.
                let tabbed = format!("{word}|");
                let word = if word == "\t" && column < 8 {
                    &tabbed
                } else {
                    word.trim_end_matches('\t')
                };
                bytes.extend_from_slice(word.as_bytes());
                let word = word.replace('\t', &" ".repeat(8 - column % 8));
                clean.push_str(&word);
                column += word
                    .chars()
                    .map(|c| {
                        if c == '漢' {
                            2
                        } else {
                            usize::from(c != '\u{301}')
                        }
                    })
                    .sum::<usize>();
            }
            bytes.extend_from_slice(end.as_bytes());
            clean.push('\n');
        }
        (bytes, clean)
    })
}

/// The new text since a cursor.
fn new_text_since(terminal: &Terminal, since: TextCursor) -> String {
    let query = LineQuery {
        since: Some(since),
        last: usize::MAX,
    };
    let lines = terminal.lines(&query).lines;
    let lines: Vec<&str> = lines.iter().map(|line| &line.text[..]).collect();
    lines.join("\n")
}

proptest! {
    #![proptest_config(config(400))]

    #[test]
    fn the_match_does_not_depend_on_the_split(
        size in size(), script in script(), cuts in prop::collection::vec(1usize..9, 1..9), fail in 0usize..10, echo in any::<bool>()
    ) {
        for pattern in &*PATTERNS {
            let what = || ExpectPatterns {
                fail: PATTERNS.get(fail).cloned(),
                echo: if echo { EchoPolicy::Match } else { EchoPolicy::Skip },
                ..expect_patterns(pattern)
            };
            let expected = find_match(what(), size, &script, whole);
            prop_assert_eq!(&find_match(what(), size, &script, single_bytes), &expected, "{:?}", pattern);
            let mut sizes = cuts.iter().copied().cycle();
            let cut = find_match(what(), size, &script, |bytes| split_by_sizes(bytes, &mut sizes));
            prop_assert_eq!(&cut, &expected, "{:?}", pattern);
        }
    }

    #[test]
    fn a_match_equals_a_search_of_the_text_and_its_end_starts_the_rest(
        (bytes, clean) in printed(), rows in 2u16..9, cuts in prop::collection::vec(1usize..9, 1..9),
    ) {
        let size = TerminalSize { rows, cols: 20 };
        let texts = ["ab", r"\d+", "a.*b", "b$", r"\b\d\b", "^a", "é.?", "漢", r"a\n+b", r"\.\s+é", "edge", "-e?"];
        let mut sizes = cuts.iter().copied().cycle();
        for text in texts {
            let pattern = Pattern::new(text).unwrap();
            let expected = first_match(text, &clean);
            // While the output is printed.
            let mut terminal = Terminal::new(size, options());
            terminal.start_text_stream();
            let all = || ExpectPatterns { lines: 100, ..expect_patterns(&pattern) };
            let mut search = ExpectSearch::new(all());
            prop_assert_eq!(search.search_existing(&terminal), InitialSearch::NoMatch);
            let mut found = None;
            for part in split_by_sizes(&bytes, &mut sizes) {
                terminal.feed(&part);
                found = found.or(search.search_feed(terminal.feed_text()));
            }
            prop_assert!(!search.is_unsettled());
            prop_assert_eq!(found.as_ref().map(|found| &found.text[..]), expected.clone().map(|range| &clean[range]), "{:?}", text);
            // After the output was printed.
            let mut later = ExpectSearch::new(all());
            let begun = match later.search_existing(&terminal) {
                InitialSearch::Match(found) => Some(found),
                InitialSearch::NoMatch => None,
                InitialSearch::NeedsOlder => panic!("all lines are there"),
            };
            let within = |found: &PatternMatch| (found.text.clone(), (found.start.line, found.start.col), (found.end.line, found.end.col));
            prop_assert_eq!(begun.as_ref().map(within), found.as_ref().map(within), "{:?}", text);
            let Some(range) = expected else { continue };
            let rest = &clean[range.end..];
            let ended_line = rest.strip_prefix('\n').filter(|_| !clean[..range.end].ends_with('\n'));
            let rest = ended_line.unwrap_or(rest);
            for found in [found, begun].iter().flatten() {
                let new = new_text_since(&terminal, found.end);
                prop_assert_eq!(new.trim_end_matches('\n'), rest.trim_end_matches('\n'), "{:?} {:?}", text, found);
                // An expect from that position on finds the next match.
                let mut next = ExpectSearch::new(ExpectPatterns { since: Some(found.end), ..all() });
                let next = match next.search_existing(&terminal) {
                    InitialSearch::Match(found) => Some(found.text),
                    InitialSearch::NoMatch | InitialSearch::NeedsOlder => None,
                };
                let expected = next_match(text, &clean, range.end);
                prop_assert_eq!(next.as_deref(), expected.map(|range| &clean[range]), "{:?} behind {:?}", text, found);
            }
        }
    }
}

fn first_match(pattern: &str, text: &str) -> Option<std::ops::Range<usize>> {
    next_match(pattern, text, 0)
}

/// The match that ends first, of several the leftmost, extended as far as possible.
fn next_match(pattern: &str, text: &str, from: usize) -> Option<std::ops::Range<usize>> {
    use regex_automata::{Anchored, Input, meta::Regex, util::syntax};
    let multi_line = syntax::Config::new().multi_line(true);
    let regex = Regex::builder().syntax(multi_line).build(pattern).unwrap();
    let mut ends = (from..=text.len()).filter(|at| text.is_char_boundary(*at));
    let first = ends.find_map(|end| regex.search(&Input::new(text).span(from..end)))?;
    let rest = first.start()..text.len();
    let line_end = text[first.end()..]
        .find('\n')
        .map(|at| first.end() + at + 1);
    let rest = rest.start..line_end.unwrap_or(rest.end);
    let input = Input::new(text).span(rest).anchored(Anchored::Yes);
    Some(regex.search(&input)?.range())
}
