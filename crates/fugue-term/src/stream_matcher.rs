//! The stream matcher: finds one pattern in a stream of text, and determines whether further text could change the
//! match.
//!
//! The *first end* is the first position at which any match ends; a lazy DFA finds the first end while reading each
//! byte once. Of the matches that end there, the matcher reports the leftmost, extended as far as the pattern
//! prefers: `\d+` reports the whole number. The match is *settled* when no following text can change it, or the line
//! has ended, or `MAX_EXTEND_BYTES` have followed. The result depends on the text alone, not on how the text is
//! split.

use std::ops::Range;

use regex_automata::hybrid::LazyStateID;
use regex_automata::hybrid::dfa::Cache;
use regex_automata::util::start;
use regex_automata::{Anchored, Input};

use crate::match_window::MatchWindow;
use crate::nfa_states::{EndState, MatchMode, NfaStates};
use crate::pattern::{Pattern, PatternEngines};

/// The limit of extending a match after its first end. A longer match is reported cut off instead of waiting for its
/// end.
const MAX_EXTEND_BYTES: u64 = 4096;

/// One representative for every class of following character that assertions distinguish.
const FOLLOWING_CHARS: [Option<char>; 5] = [None, Some('\n'), Some('a'), Some('é'), Some(' ')];

/// Searches a stream of text for one pattern.
#[derive(Debug)]
pub(crate) struct StreamMatcher {
    pattern: Pattern,
    cache: Cache,
    scan: ScanState,
    /// The position up to which the text was read.
    read_to: u64,
    /// No match starts before this position.
    min_start: u64,
    max_lines: usize,
    candidate: Option<MatchCandidate>,
    /// A match ends at the end of the current text, if no text follows.
    ends_here: bool,
}

#[derive(Debug)]
enum ScanState {
    Dfa(LazyStateID),
    Nfa(Box<NfaStates>),
    /// No text was read yet, or the state is unusable.
    Restart,
}

#[derive(Debug)]
struct MatchCandidate {
    start: u64,
    first_end: u64,
    states: NfaStates,
    read_to: u64,
    /// The end that the pattern prefers so far.
    end: u64,
    /// Text after this position does not extend the match.
    settle_limit: u64,
    settled: bool,
}

impl StreamMatcher {
    /// A matcher for matches that start at `min_start` or later and span at most `max_lines` lines.
    pub(crate) fn new(pattern: Pattern, max_lines: usize, min_start: u64) -> Self {
        let cache = pattern.0.dfa.create_cache();
        StreamMatcher {
            pattern,
            cache,
            scan: ScanState::Restart,
            read_to: min_start,
            min_start,
            max_lines,
            candidate: None,
            ends_here: false,
        }
    }

    /// Discards the current match and continues after `end`.
    pub(crate) fn skip_to(&mut self, end: u64) {
        self.candidate = None;
        self.scan = ScanState::Restart;
        (self.min_start, self.read_to) = (end, end);
        self.ends_here = false;
    }

    /// The position at which the first match ends, if a match is certain.
    pub(crate) fn first_end(&self) -> Option<u64> {
        self.candidate.as_ref().map(|found| found.first_end)
    }

    /// Whether a match ends at the end of the current text, if no text follows.
    pub(crate) fn may_end_here(&self) -> bool {
        self.ends_here
    }

    /// The match, once no following text can change it.
    pub(crate) fn settled_match(&self) -> Option<Range<u64>> {
        let found = self.candidate.as_ref().filter(|found| found.settled)?;
        Some(found.start..found.end)
    }

    /// The oldest position that is still needed.
    pub(crate) fn oldest_needed(&self) -> u64 {
        self.candidate
            .as_ref()
            .map_or(u64::MAX, |found| found.start)
    }

    /// The match under the assumption that no text follows.
    pub(crate) fn settle(&mut self, window: &MatchWindow) -> Option<Range<u64>> {
        if self.candidate.is_none() && self.ends_here {
            self.ends_here = false;
            self.accept_end(window, window.end());
        }
        let nfa = &self.pattern.0.nfa;
        let found = self.candidate.as_mut()?;
        found.extend(&self.pattern.0, window);
        if !found.settled && found.states.at_end(nfa, window.text(), None).matches {
            found.end = window.end();
        }
        Some(found.start..found.end)
    }

    /// Reads the new text of the window.
    pub(crate) fn advance(&mut self, window: &MatchWindow) {
        while self.candidate.is_none() {
            match self.scan_to_first_end(window) {
                Some(first_end) => {
                    if !self.accept_end(window, first_end) {
                        self.rescan_window(window);
                    }
                }
                None => {
                    self.probe_end(window);
                    break;
                }
            }
        }
        if let Some(found) = &mut self.candidate {
            self.ends_here = false;
            found.extend(&self.pattern.0, window);
        }
    }

    fn window_start(&self, window: &MatchWindow, end: u64) -> u64 {
        let lines = match self.pattern.0.crosses_lines {
            true => self.max_lines,
            false => 1,
        };
        window.window_start(end, lines).max(self.min_start)
    }

    /// Accepts `first_end` as the end of a match, unless the match would start before the window.
    fn accept_end(&mut self, window: &MatchWindow, first_end: u64) -> bool {
        let from = self.window_start(window, first_end);
        match self.leftmost_start(window.text(), window.index(from)..window.index(first_end)) {
            Some(start) => {
                let start = window.base() + start as u64;
                self.candidate = Some(MatchCandidate::new(&self.pattern.0, start, first_end));
                true
            }
            None => false,
        }
    }

    /// The start of the leftmost match within a part of the text. No match ends before the end of the part.
    fn leftmost_start(&self, text: &str, part: Range<usize>) -> Option<usize> {
        let input = Input::new(text).span(part);
        self.pattern
            .0
            .regex
            .search(&input)
            .map(|found| found.start())
    }

    /// Reads up to and including the first end of a match.
    fn scan_to_first_end(&mut self, window: &MatchWindow) -> Option<u64> {
        loop {
            match &mut self.scan {
                ScanState::Restart => self.start_scan(window, self.read_to),
                ScanState::Dfa(state) => {
                    let (dfa, cache) = (&self.pattern.0.dfa, &mut self.cache);
                    let mut now = *state;
                    let from = window.index(self.read_to);
                    let mut first_end = None;
                    let mut stopped = false;
                    for (i, &byte) in window.text().as_bytes()[from..].iter().enumerate() {
                        // Fails only with a configured give-up condition, and the DFA has none.
                        let Ok(next) = dfa.next_state(cache, now, byte) else {
                            stopped = true;
                            break;
                        };
                        if next.is_tagged() {
                            if next.is_quit() {
                                stopped = true;
                                break;
                            }
                            // The DFA reports matches one byte late.
                            if next.is_match() && window.text().is_char_boundary(from + i) {
                                first_end = Some(self.read_to + i as u64);
                                now = next;
                                break;
                            }
                        }
                        now = next;
                    }
                    *state = now;
                    if stopped {
                        self.switch_to_nfa(window);
                        continue;
                    }
                    self.read_to = match first_end {
                        Some(at) => at + 1,
                        None => window.end(),
                    };
                    return first_end;
                }
                ScanState::Nfa(states) => {
                    let PatternEngines {
                        nfa, crosses_lines, ..
                    } = &*self.pattern.0;
                    let text = window.text();
                    let (mut matches, mut line_ended) = (false, false);
                    while !matches && !line_ended && self.read_to < window.end() {
                        let at = window.index(self.read_to);
                        matches = states.step(nfa, text, at);
                        line_ended = text.as_bytes()[at] == b'\n' && !crosses_lines;
                        self.read_to += 1;
                    }
                    if line_ended {
                        // No state survives the end of a line, so the DFA can take over again.
                        self.scan = ScanState::Restart;
                    }
                    if matches {
                        return Some(self.read_to - 1);
                    }
                    if !line_ended {
                        return None;
                    }
                }
            }
        }
    }

    /// Starts the DFA at `from` without live states and reads up to `read_to` without looking for matches.
    fn start_scan(&mut self, window: &MatchWindow, from: u64) {
        let text = window.text().as_bytes();
        let from = window.index(from);
        let before = from.checked_sub(1).map(|at| text[at]);
        let config = start::Config::new()
            .look_behind(before)
            .anchored(Anchored::No);
        let (dfa, cache) = (&self.pattern.0.dfa, &mut self.cache);
        let mut state = dfa.start_state(cache, &config).ok();
        for &byte in &text[from..window.index(self.read_to)] {
            state = state
                .and_then(|state| dfa.next_state(cache, state, byte).ok())
                .filter(|state| !state.is_quit());
        }
        match state.filter(|state| !state.is_quit()) {
            Some(state) => self.scan = ScanState::Dfa(state),
            None => self.switch_to_nfa(window),
        }
    }

    /// Continues with the NFA simulation, which needs the states that are live at `read_to`.
    fn switch_to_nfa(&mut self, window: &MatchWindow) {
        let nfa = &self.pattern.0.nfa;
        let mut states = NfaStates::new(nfa, MatchMode::Any);
        let from = self.window_start(window, self.read_to);
        for position in from..self.read_to {
            states.step(nfa, window.text(), window.index(position));
        }
        self.scan = ScanState::Nfa(Box::new(states));
    }

    /// Restarts at the window's beginning, so that states that began earlier are dropped.
    fn rescan_window(&mut self, window: &MatchWindow) {
        self.start_scan(window, self.window_start(window, self.read_to));
    }

    /// Checks whether a match ends at the end of the text, and accepts the match if no following character can undo
    /// it.
    fn probe_end(&mut self, window: &MatchWindow) {
        self.ends_here = false;
        let certain = match &self.scan {
            ScanState::Restart => return,
            ScanState::Dfa(state) => {
                let (dfa, cache) = (&self.pattern.0.dfa, &mut self.cache);
                let (state, clears) = (*state, cache.clear_count());
                let ends = dfa
                    .next_eoi_state(cache, state)
                    .is_ok_and(|next| next.is_match());
                let mut certain = ends;
                if ends && self.pattern.0.looks_ahead {
                    for unit in dfa.byte_classes().representatives(0..=0x7f) {
                        let Some(byte) = unit.as_u8() else { continue };
                        if cache.clear_count() != clears {
                            certain = false;
                            break;
                        }
                        certain &= dfa
                            .next_state(cache, state, byte)
                            .is_ok_and(|next| next.is_match());
                    }
                }
                self.ends_here = ends;
                if cache.clear_count() != clears {
                    // The cache was cleared, so the state's id is no longer valid.
                    self.rescan_window(window);
                }
                certain
            }
            ScanState::Nfa(states) => {
                let nfa = &self.pattern.0.nfa;
                let mut ends = FOLLOWING_CHARS
                    .into_iter()
                    .map(|next| states.at_end(nfa, window.text(), next).matches);
                self.ends_here = ends.next() == Some(true);
                self.ends_here && ends.all(|ends| ends)
            }
        };
        if certain && self.has_certain_start(window) && !self.accept_end(window, window.end()) {
            self.ends_here = false;
            self.rescan_window(window);
        }
    }

    /// Whether the match that ends with the text has the same start for every following character.
    fn has_certain_start(&self, window: &MatchWindow) -> bool {
        if !self.pattern.0.looks_ahead {
            return true;
        }
        let from = window.index(self.window_start(window, window.end()));
        // Of the text before the window, only the last character matters.
        let context = window.text()[..from].chars().next_back();
        let mut text: String = context.into_iter().collect();
        let begin = text.len();
        text.push_str(&window.text()[from..]);
        let end = text.len();
        let mut starts = FOLLOWING_CHARS.into_iter().map(|next| {
            text.truncate(end);
            text.extend(next);
            self.leftmost_start(&text, begin..end)
        });
        let first = starts.next();
        starts.all(|start| Some(start) == first)
    }
}

impl MatchCandidate {
    fn new(pattern: &PatternEngines, start: u64, first_end: u64) -> Self {
        MatchCandidate {
            start,
            first_end,
            states: NfaStates::new(&pattern.nfa, MatchMode::Preferred),
            read_to: start,
            end: first_end,
            settle_limit: first_end + MAX_EXTEND_BYTES,
            settled: false,
        }
    }

    /// Extends the match as far as text is available.
    fn extend(&mut self, pattern: &PatternEngines, window: &MatchWindow) {
        let (nfa, text) = (&pattern.nfa, window.text());
        while !self.settled && self.read_to < window.end().min(self.settle_limit) {
            let at = window.index(self.read_to);
            if self.states.step(nfa, text, at) {
                self.end = self.read_to;
            }
            self.read_to += 1;
            if text.as_bytes()[at] == b'\n' && self.read_to > self.first_end {
                self.settle_limit = self.settle_limit.min(self.read_to);
            }
            self.settled = self.states.is_dead();
        }
        if self.settled {
            return;
        }
        let following = match pattern.looks_ahead {
            true => &FOLLOWING_CHARS[..],
            false => &FOLLOWING_CHARS[..1],
        };
        let seen = &text[..window.index(self.read_to)];
        let mut cases = following
            .iter()
            .map(|next| self.states.at_end(nfa, seen, *next));
        if self.read_to >= self.settle_limit {
            if text.is_char_boundary(seen.len()) && cases.all(|case| case.matches) {
                self.end = self.read_to;
            }
            self.settled = true;
            return;
        }
        let Some(first) = cases.next() else { return };
        let EndState {
            matches,
            can_continue,
        } = first;
        if !can_continue && cases.all(|case| case == first) {
            if matches {
                self.end = self.read_to;
            }
            self.settled = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use super::*;
    use proptest::prelude::*;
    use regex_automata::meta;

    /// Patterns with all difficulties: alternatives, greediness, assertions before and after, Unicode, newlines,
    /// empty matches.
    const PATTERNS: &[&str] = &[
        "ab",
        "a|ab",
        "ab|a",
        "abb?|b",
        r"\d+",
        r"\d+?",
        "a.*b",
        "a.*?b",
        "(?s)a.*b",
        "(?s)a.*?b$",
        r"a\nb",
        r"a\s+b",
        "^a",
        "^ab$",
        "b$",
        r"\$ $",
        "^$",
        "^",
        "$",
        r"\z",
        r"\Aab",
        r"\Aé",
        r"\ba",
        r"\bab\b",
        r"b\b",
        r"\B1",
        r"a\B",
        r"\bé",
        r"é\b",
        r"(?-u:\b)a",
        r"b(?-u:\b)",
        r"\b{start}a|1\b{end}",
        "é+",
        "(?i)É1",
        r"\w+ ",
        r"\w+",
        "[^a]+",
        "[^a]b",
        "x*",
        "(?s).{3}",
        "(?s)a.{4,}b",
        "ab$|b",
        r"ab\B|b",
        r"(?s)a.*\bé",
        r"(?s)\ba.*b$",
        "a{2,3}",
        "(a|b)*1",
        "(?R)a$",
        "",
    ];

    static COMPILED: LazyLock<Vec<(&str, Pattern)>> = LazyLock::new(|| {
        let compile = |text| (text, Pattern::new(text).expect(text));
        PATTERNS.iter().copied().map(compile).collect()
    });

    fn text() -> impl Strategy<Value = String> {
        let part = prop_oneof![
            6 => prop::sample::select(&["a", "b", "1", " ", "\n", "é", "$ "][..]).prop_map(str::to_owned),
            1 => prop::sample::select(&["ab\n", "abab", "12", "–", "\n\n", "é1 ", "_"][..]).prop_map(str::to_owned),
        ];
        prop::collection::vec(part, 0..24).prop_map(|parts| parts.concat())
    }

    /// Feeds the text in the given pieces and returns the match.
    fn find_match(pattern: &Pattern, lines: usize, pieces: &[&str]) -> Option<Range<u64>> {
        let mut matcher = StreamMatcher::new(pattern.clone(), lines, 0);
        let mut window = MatchWindow::default();
        matcher.advance(&window);
        for piece in pieces {
            window.push_more(piece);
            matcher.advance(&window);
            if let Some(range) = matcher.settled_match() {
                return Some(range);
            }
            window.trim(lines, matcher.oldest_needed());
        }
        let unsettled = matcher.first_end().is_some() || matcher.may_end_here();
        let range = matcher.settle(&window);
        assert!(
            unsettled || range.is_none(),
            "a match at the end needs `settle`, so it must be reported as unsettled"
        );
        range
    }

    /// The same result by brute force.
    fn oracle(regex: &meta::Regex, lines: usize, text: &str) -> Option<Range<u64>> {
        let ends = (0..=text.len()).filter(|at| text.is_char_boundary(*at));
        let (start, first_end) = ends
            .filter_map(|end| {
                let ended = text[..end].ends_with('\n');
                let newlines = text[..end].rmatch_indices('\n');
                let from = newlines
                    .map(|(at, _)| at + 1)
                    .nth(lines - 1 + usize::from(ended));
                let input = Input::new(text).span(from.unwrap_or(0)..end);
                Some((regex.search(&input)?.start(), end))
            })
            .next()?;
        let newline = text[first_end..].find('\n').map(|at| first_end + at + 1);
        let end = match newline {
            None => {
                let input = Input::new(text)
                    .span(start..text.len())
                    .anchored(Anchored::Yes);
                regex.search(&input).expect("a match starts here").end()
            }
            Some(horizon) => {
                let ends = FOLLOWING_CHARS.into_iter().map(|next| {
                    let mut text = text[..horizon].to_owned();
                    text.extend(next);
                    let input = Input::new(&text)
                        .span(start..horizon)
                        .anchored(Anchored::Yes);
                    regex.search(&input).map_or(first_end, |found| found.end())
                });
                ends.min().unwrap_or(first_end)
            }
        };
        Some(start as u64..end as u64)
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases.max(100), failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn any_split_of_the_text_gives_the_brute_force_match(
            text in text(), lines in 1usize..5, cuts in prop::collection::vec(1usize..7, 1..9)
        ) {
            let chars: Vec<&str> = text.split_inclusive(|_| true).collect();
            let mut sizes = cuts.iter().cycle();
            let mut pieces = Vec::new();
            let mut rest = &text[..];
            while let Some((at, c)) = rest.char_indices().take(*sizes.next().unwrap_or(&1)).last() {
                let (piece, behind) = rest.split_at(at + c.len_utf8());
                pieces.push(piece);
                rest = behind;
            }
            for (text_of, pattern) in &*COMPILED {
                let expected = oracle(&pattern.0.regex, lines, &text);
                prop_assert_eq!(&find_match(pattern, lines, &[&text]), &expected, "{:?} at once", text_of);
                prop_assert_eq!(&find_match(pattern, lines, &chars), &expected, "{:?} by characters", text_of);
                prop_assert_eq!(&find_match(pattern, lines, &pieces), &expected, "{:?} in pieces", text_of);
                for at in (0..text.len()).filter(|at| text.is_char_boundary(*at)) {
                    let (head, rest) = text.split_at(at);
                    prop_assert_eq!(&find_match(pattern, lines, &[head, rest]), &expected, "{:?} cut at {}", text_of, at);
                }
            }
        }
    }
}
