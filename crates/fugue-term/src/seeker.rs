//! One pattern on a stream of text: whether it has matched, where, and whether more text could change that.
//!
//! The *evidence* is the first place at which any match ends. The scout finds it, reading each byte once. The match
//! that is told is the one that starts leftmost of those that end there, as long as the pattern prefers: `\d+` is the
//! whole number. It is *settled* when nothing can follow that would change it, or the line has ended, or enough came
//! after it. All of this depends on the text alone and not on how it was cut.

use std::ops::Range;

use regex_automata::hybrid::LazyStateID;
use regex_automata::hybrid::dfa::Cache;
use regex_automata::util::start;
use regex_automata::{Anchored, Input};

use crate::pattern::{Compiled, Pattern};
use crate::tail::Tail;
use crate::threads::{AtEnd, Threads, Wanted};

/// A match that goes on for longer than this behind its evidence is told as it is: nobody waits for its end.
const ENOUGH: u64 = 4096;

/// All that assertions can tell apart in what follows.
const FOLLOWERS: [Option<char>; 5] = [None, Some('\n'), Some('a'), Some('é'), Some(' ')];

/// See the module.
#[derive(Debug)]
pub(crate) struct Seeker {
    pattern: Pattern,
    cache: Cache,
    scan: Scan,
    /// How far the text was read.
    read: u64,
    /// No match starts before.
    floor: u64,
    lines: usize,
    found: Option<Found>,
    /// A match ends where the text ends now, if nothing follows.
    maybe: bool,
}

#[derive(Debug)]
enum Scan {
    Fast(LazyStateID),
    Slow(Box<Threads>),
    /// Nothing was read yet, or what was read is of no use.
    Anew,
}

#[derive(Debug)]
struct Found {
    start: u64,
    evidence: u64,
    threads: Threads,
    walked: u64,
    /// The best end so far.
    end: u64,
    /// Behind this more text is not looked at.
    horizon: u64,
    settled: bool,
}

impl Seeker {
    /// A seeker for matches that start at `floor` or later, and are not longer than so many lines.
    pub(crate) fn new(pattern: Pattern, lines: usize, floor: u64) -> Self {
        let cache = pattern.0.scout.create_cache();
        Seeker {
            pattern,
            cache,
            scan: Scan::Anew,
            read: floor,
            floor,
            lines,
            found: None,
            maybe: false,
        }
    }

    /// Forgets what it found and goes on behind it.
    pub(crate) fn pass_over(&mut self, end: u64) {
        self.found = None;
        self.scan = Scan::Anew;
        (self.floor, self.read) = (end, end);
        self.maybe = false;
    }

    /// Where the first match ends, if there is one for certain.
    pub(crate) fn evidence(&self) -> Option<u64> {
        self.found.as_ref().map(|found| found.evidence)
    }

    /// Whether a match ends where the text ends now, if nothing follows.
    pub(crate) fn may_end_here(&self) -> bool {
        self.maybe
    }

    /// The match, once nothing can change it.
    pub(crate) fn settled(&self) -> Option<Range<u64>> {
        let found = self.found.as_ref().filter(|found| found.settled)?;
        Some(found.start..found.end)
    }

    /// The oldest text that is still needed.
    pub(crate) fn needs(&self) -> u64 {
        self.found.as_ref().map_or(u64::MAX, |found| found.start)
    }

    /// The match as it is if nothing follows.
    pub(crate) fn settle(&mut self, tail: &Tail) -> Option<Range<u64>> {
        if self.found.is_none() && self.maybe {
            self.maybe = false;
            self.accept(tail, tail.end());
        }
        let nfa = &self.pattern.0.nfa;
        let found = self.found.as_mut()?;
        found.walk(&self.pattern.0, tail);
        if !found.settled && found.threads.at_end(nfa, tail.text(), None).matches {
            found.end = tail.end();
        }
        Some(found.start..found.end)
    }

    /// Reads what is new.
    pub(crate) fn advance(&mut self, tail: &Tail) {
        while self.found.is_none() {
            match self.scan(tail) {
                Some(evidence) => {
                    if !self.accept(tail, evidence) {
                        self.scan_again(tail);
                    }
                }
                None => {
                    self.probe(tail);
                    break;
                }
            }
        }
        if let Some(found) = &mut self.found {
            self.maybe = false;
            found.walk(&self.pattern.0, tail);
        }
    }

    fn window(&self, tail: &Tail, end: u64) -> u64 {
        let lines = match self.pattern.0.crosses_lines {
            true => self.lines,
            false => 1,
        };
        tail.window(end, lines).max(self.floor)
    }

    /// Takes a place where a match ends, unless it starts too far back.
    fn accept(&mut self, tail: &Tail, evidence: u64) -> bool {
        let from = self.window(tail, evidence);
        match self.starts_at(tail.text(), tail.index(from)..tail.index(evidence)) {
            Some(start) => {
                let start = tail.base() + start as u64;
                self.found = Some(Found::new(&self.pattern.0, start, evidence));
                true
            }
            None => false,
        }
    }

    /// Where the leftmost match within a part of the text starts. None ends before the part does.
    fn starts_at(&self, text: &str, part: Range<usize>) -> Option<usize> {
        let input = Input::new(text).span(part);
        self.pattern
            .0
            .regex
            .search(&input)
            .map(|found| found.start())
    }

    /// Reads on up to the first evidence.
    fn scan(&mut self, tail: &Tail) -> Option<u64> {
        loop {
            match &mut self.scan {
                Scan::Anew => self.start(tail, self.read),
                Scan::Fast(state) => {
                    let (scout, cache) = (&self.pattern.0.scout, &mut self.cache);
                    let mut now = *state;
                    let from = tail.index(self.read);
                    let mut evidence = None;
                    let mut stopped = false;
                    for (i, &byte) in tail.text().as_bytes()[from..].iter().enumerate() {
                        // It gives up only if it was told to.
                        let Ok(next) = scout.next_state(cache, now, byte) else {
                            stopped = true;
                            break;
                        };
                        if next.is_tagged() {
                            if next.is_quit() {
                                stopped = true;
                                break;
                            }
                            // Matches are told one byte late.
                            if next.is_match() && tail.text().is_char_boundary(from + i) {
                                evidence = Some(self.read + i as u64);
                                now = next;
                                break;
                            }
                        }
                        now = next;
                    }
                    *state = now;
                    if stopped {
                        self.slow_down(tail);
                        continue;
                    }
                    self.read = match evidence {
                        Some(at) => at + 1,
                        None => tail.end(),
                    };
                    return evidence;
                }
                Scan::Slow(threads) => {
                    let Compiled {
                        nfa, crosses_lines, ..
                    } = &*self.pattern.0;
                    let text = tail.text();
                    let (mut matches, mut line_ended) = (false, false);
                    while !matches && !line_ended && self.read < tail.end() {
                        let at = tail.index(self.read);
                        matches = threads.step(nfa, text, at);
                        line_ended = text.as_bytes()[at] == b'\n' && !crosses_lines;
                        self.read += 1;
                    }
                    if line_ended {
                        // Nothing is alive between two lines, so the fast one may try again.
                        self.scan = Scan::Anew;
                    }
                    if matches {
                        return Some(self.read - 1);
                    }
                    if !line_ended {
                        return None;
                    }
                }
            }
        }
    }

    /// Begins at `from` with nothing alive, and reads up to where we are without looking for evidence.
    fn start(&mut self, tail: &Tail, from: u64) {
        let text = tail.text().as_bytes();
        let from = tail.index(from);
        let before = from.checked_sub(1).map(|at| text[at]);
        let config = start::Config::new()
            .look_behind(before)
            .anchored(Anchored::No);
        let (scout, cache) = (&self.pattern.0.scout, &mut self.cache);
        let mut state = scout.start_state(cache, &config).ok();
        for &byte in &text[from..tail.index(self.read)] {
            state = state
                .and_then(|state| scout.next_state(cache, state, byte).ok())
                .filter(|state| !state.is_quit());
        }
        match state.filter(|state| !state.is_quit()) {
            Some(state) => self.scan = Scan::Fast(state),
            None => self.slow_down(tail),
        }
    }

    /// From here on with the slow engine, which has to know what is alive.
    fn slow_down(&mut self, tail: &Tail) {
        let nfa = &self.pattern.0.nfa;
        let mut threads = Threads::new(nfa, Wanted::Any);
        let from = self.window(tail, self.read);
        for position in from..self.read {
            threads.step(nfa, tail.text(), tail.index(position));
        }
        self.scan = Scan::Slow(Box::new(threads));
    }

    /// Forgets what began before the window.
    fn scan_again(&mut self, tail: &Tail) {
        self.start(tail, self.window(tail, self.read));
    }

    /// Asks at the end of the text whether a match ends here, and takes it if nothing that follows could undo it.
    fn probe(&mut self, tail: &Tail) {
        self.maybe = false;
        let certain = match &self.scan {
            Scan::Anew => return,
            Scan::Fast(state) => {
                let (scout, cache) = (&self.pattern.0.scout, &mut self.cache);
                let (state, clears) = (*state, cache.clear_count());
                let ends = scout
                    .next_eoi_state(cache, state)
                    .is_ok_and(|next| next.is_match());
                let mut certain = ends;
                if ends && self.pattern.0.looks_ahead {
                    for unit in scout.byte_classes().representatives(0..=0x7f) {
                        let Some(byte) = unit.as_u8() else { continue };
                        if cache.clear_count() != clears {
                            certain = false;
                            break;
                        }
                        certain &= scout
                            .next_state(cache, state, byte)
                            .is_ok_and(|next| next.is_match());
                    }
                }
                self.maybe = ends;
                if cache.clear_count() != clears {
                    // The state is known by another name now.
                    self.scan_again(tail);
                }
                certain
            }
            Scan::Slow(threads) => {
                let nfa = &self.pattern.0.nfa;
                let mut ends = FOLLOWERS
                    .into_iter()
                    .map(|next| threads.at_end(nfa, tail.text(), next).matches);
                self.maybe = ends.next() == Some(true);
                self.maybe && ends.all(|ends| ends)
            }
        };
        if certain && self.same_start(tail) && !self.accept(tail, tail.end()) {
            self.maybe = false;
            self.scan_again(tail);
        }
    }

    /// Whether the match that ends with the text starts in the same place whatever follows.
    fn same_start(&self, tail: &Tail) -> bool {
        if !self.pattern.0.looks_ahead {
            return true;
        }
        let from = tail.index(self.window(tail, tail.end()));
        // What comes before the window matters only by its last character.
        let context = tail.text()[..from].chars().next_back();
        let mut text: String = context.into_iter().collect();
        let begin = text.len();
        text.push_str(&tail.text()[from..]);
        let end = text.len();
        let mut starts = FOLLOWERS.into_iter().map(|next| {
            text.truncate(end);
            text.extend(next);
            self.starts_at(&text, begin..end)
        });
        let first = starts.next();
        starts.all(|start| Some(start) == first)
    }
}

impl Found {
    fn new(pattern: &Compiled, start: u64, evidence: u64) -> Self {
        Found {
            start,
            evidence,
            threads: Threads::new(&pattern.nfa, Wanted::Preferred),
            walked: start,
            end: evidence,
            horizon: evidence + ENOUGH,
            settled: false,
        }
    }

    /// Follows the match as far as there is text.
    fn walk(&mut self, pattern: &Compiled, tail: &Tail) {
        let (nfa, text) = (&pattern.nfa, tail.text());
        while !self.settled && self.walked < tail.end().min(self.horizon) {
            let at = tail.index(self.walked);
            if self.threads.step(nfa, text, at) {
                self.end = self.walked;
            }
            self.walked += 1;
            if text.as_bytes()[at] == b'\n' && self.walked > self.evidence {
                self.horizon = self.horizon.min(self.walked);
            }
            self.settled = self.threads.is_dead();
        }
        if self.settled {
            return;
        }
        let followers = match pattern.looks_ahead {
            true => &FOLLOWERS[..],
            false => &FOLLOWERS[..1],
        };
        let seen = &text[..tail.index(self.walked)];
        let mut cases = followers
            .iter()
            .map(|next| self.threads.at_end(nfa, seen, *next));
        if self.walked >= self.horizon {
            if text.is_char_boundary(seen.len()) && cases.all(|case| case.matches) {
                self.end = self.walked;
            }
            self.settled = true;
            return;
        }
        let Some(first) = cases.next() else { return };
        let AtEnd { matches, goes_on } = first;
        if !goes_on && cases.all(|case| case == first) {
            if matches {
                self.end = self.walked;
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

    /// With all that makes it hard: choices, greed, assertions before and behind, Unicode, newlines, emptiness.
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

    /// Feeds the text cut as told; the match, and whether it was settled before the end was known.
    fn seek(pattern: &Pattern, lines: usize, pieces: &[&str]) -> Option<Range<u64>> {
        let mut seeker = Seeker::new(pattern.clone(), lines, 0);
        let mut tail = Tail::default();
        seeker.advance(&tail);
        for piece in pieces {
            tail.push_more(piece);
            seeker.advance(&tail);
            if let Some(range) = seeker.settled() {
                return Some(range);
            }
            tail.trim(lines, seeker.needs());
        }
        let unsettled = seeker.evidence().is_some() || seeker.may_end_here();
        let range = seeker.settle(&tail);
        assert!(
            unsettled || range.is_none(),
            "who waits for quiet must be told to"
        );
        range
    }

    /// The same by trying everything.
    fn oracle(regex: &meta::Regex, lines: usize, text: &str) -> Option<Range<u64>> {
        let ends = (0..=text.len()).filter(|at| text.is_char_boundary(*at));
        let (start, evidence) = ends
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
        let newline = text[evidence..].find('\n').map(|at| evidence + at + 1);
        let end = match newline {
            None => {
                let input = Input::new(text)
                    .span(start..text.len())
                    .anchored(Anchored::Yes);
                regex.search(&input).expect("a match starts here").end()
            }
            Some(horizon) => {
                let ends = FOLLOWERS.into_iter().map(|next| {
                    let mut text = text[..horizon].to_owned();
                    text.extend(next);
                    let input = Input::new(&text)
                        .span(start..horizon)
                        .anchored(Anchored::Yes);
                    regex.search(&input).map_or(evidence, |found| found.end())
                });
                ends.min().unwrap_or(evidence)
            }
        };
        Some(start as u64..end as u64)
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases.max(100), failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn any_cutting_of_the_text_gives_the_match_that_trying_everything_gives(
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
                prop_assert_eq!(&seek(pattern, lines, &[&text]), &expected, "{:?} at once", text_of);
                prop_assert_eq!(&seek(pattern, lines, &chars), &expected, "{:?} by characters", text_of);
                prop_assert_eq!(&seek(pattern, lines, &pieces), &expected, "{:?} in pieces", text_of);
                for at in (0..text.len()).filter(|at| text.is_char_boundary(*at)) {
                    let (head, rest) = text.split_at(at);
                    prop_assert_eq!(&seek(pattern, lines, &[head, rest]), &expected, "{:?} cut at {}", text_of, at);
                }
            }
        }
    }
}
