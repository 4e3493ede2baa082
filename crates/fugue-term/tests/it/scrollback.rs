//! Text taken out of a terminal as scrollback equals the text of a terminal that keeps everything.

use fugue_term::{
    EchoPolicy, ExpectPatterns, ExpectSearch, InitialSearch, LineNo, LineSelection, Pattern,
    PatternMatch, Style, Terminal, TerminalOptions, TerminalSize, TextCursor,
};
use proptest::prelude::*;

use crate::common::{Step, options, script, size};

type Read = Vec<(u64, String, bool)>;

fn config() -> ProptestConfig {
    let default = ProptestConfig::default();
    ProptestConfig {
        cases: default.cases.max(400),
        failure_persistence: None,
        ..default
    }
}

fn terminal_keeping(keep_lines: usize) -> TerminalOptions {
    TerminalOptions {
        keep_lines,
        ..options()
    }
}

/// Plays the script and calls `after` after every step.
fn play(terminal: &mut Terminal, script: &[Step], mut after: impl FnMut(&mut Terminal)) {
    for step in script {
        match step {
            Step::Resize(size) => terminal.resize(*size),
            Step::Renew => terminal.reset_for_new_process(),
            Step::Bytes(bytes) => {
                for part in bytes.chunks(7) {
                    terminal.feed(part);
                    after(terminal);
                }
            }
        }
    }
}

fn read_at_once(terminal: &Terminal, selection: LineSelection) -> Read {
    let mut lines = Vec::new();
    terminal.for_each_line(selection, |line| {
        lines.push((line.no.0, line.text.to_string(), line.cut));
    });
    lines
}

fn read_in_pieces(size: TerminalSize, script: &[Step], selection: LineSelection) -> Read {
    let mut terminal = Terminal::new(size, terminal_keeping(usize::MAX));
    let mut lines = Vec::new();
    play(&mut terminal, script, |terminal| {
        terminal.take_scrollback().for_each_line(selection, |line| {
            lines.push((line.no.0, line.text.to_string(), line.cut));
        });
    });
    lines.extend(read_at_once(&terminal, selection));
    lines
}

/// The match of an expect that needs older lines, from a terminal that has all lines or from scrollback.
fn search(
    what: &ExpectPatterns,
    size: TerminalSize,
    script: &[Step],
    in_pieces: bool,
) -> Option<(Option<PatternMatch>, Option<TextCursor>)> {
    let mut recent = Terminal::new(size, terminal_keeping(1));
    play(&mut recent, script, |terminal| {
        terminal.take_scrollback();
    });
    let mut search = ExpectSearch::new(what.clone());
    if search.search_existing(&recent) != InitialSearch::NeedsOlder {
        return None;
    }
    let mut whole = Terminal::new(size, terminal_keeping(usize::MAX));
    let mut early = None;
    play(&mut whole, script, |terminal| {
        if in_pieces && early.is_none() {
            let scrollback = terminal.take_scrollback();
            early = search.search_older(&scrollback, terminal);
        }
    });
    let found = match early {
        Some(found) => Some(found),
        None => match search.search_existing(&whole) {
            InitialSearch::Match(found) => Some(found),
            InitialSearch::NoMatch | InitialSearch::NeedsOlder => search.finish(&recent),
        },
    };
    Some((found, search.searched_from()))
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn scrollback_lines_equal_the_lines_of_a_terminal_that_keeps_all(size in size(), script in script()) {
        let script = [&script[..], &script, &script].concat();
        let mut whole = Terminal::new(size, terminal_keeping(usize::MAX));
        let mut ends = vec![TextCursor::default()];
        play(&mut whole, &script, |terminal| ends.push(terminal.end()));
        let mut selections = vec![LineSelection::ALL, LineSelection::From(LineNo(whole.line_count() / 2))];
        for cursor in ends.iter().step_by(7) {
            selections.push(LineSelection::Since(*cursor));
            selections.push(LineSelection::Between(ends[ends.len() / 3], *cursor));
            selections.push(LineSelection::Between(*cursor, *cursor));
        }
        for selection in selections {
            let expected = read_at_once(&whole, selection);
            prop_assert_eq!(read_in_pieces(size, &script, selection), expected, "{:?}", selection);
        }
    }

    #[test]
    fn scrollback_keeps_styles(size in size(), script in script()) {
        let mut whole = Terminal::new(size, terminal_keeping(usize::MAX));
        play(&mut whole, &script, |_| {});
        let mut taken: Vec<(LineNo, Vec<(String, Style)>)> = Vec::new();
        let mut terminal = Terminal::new(size, terminal_keeping(usize::MAX));
        play(&mut terminal, &script, |terminal| {
            taken.extend(terminal.take_scrollback().styled_lines(LineNo(1)));
        });
        for (line, styled) in taken {
            prop_assert_eq!(styled, whole.styled_line(line));
        }
    }

    #[test]
    fn a_pattern_is_found_in_scrollback(size in size(), script in script(), lines in 1usize..30, at in 0usize..40) {
        let script = [&script[..], &script, &script].concat();
        let mut ends = vec![TextCursor::default()];
        let mut terminal = Terminal::new(size, options());
        play(&mut terminal, &script, |terminal| ends.push(terminal.end()));
        for since in [None, Some(ends[at.min(ends.len() - 1)])] {
            for text in ["[a-z]{2}", r"\d[A-Z]+$", r"^\w\d?$", r"[a-z]\n[A-Z]", "(?s)a.*b", "never this"] {
                let pattern = Pattern::new(text).unwrap();
                let what = ExpectPatterns { pattern, fail: None, lines, since, echo: EchoPolicy::Match };
                let expected = search(&what, size, &script, false);
                prop_assert_eq!(search(&what, size, &script, true), expected, "{:?} since {:?}", text, since);
            }
        }
    }
}
