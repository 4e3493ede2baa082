//! Expects: searches for a pattern that wait for output.
//!
//! A new expect first searches existing lines, which may need older output from the log; the daemon reads that outside
//! the pane's task. Afterwards each waiter receives every piece of output as it comes.

use std::time::{Duration, Instant};

use fugue_api::{RunId, tools::MatchVia};
use fugue_term::{
    EchoPolicy, ExpectPatterns, ExpectSearch, InitialSearch, MatchSource, PatternKind,
    PatternMatch, Terminal, TextCursor,
};

use crate::{ExpectMatch, ExpectRequest, MatchedPattern, PaneEvent, view};

/// Output that stops for this long is complete for now: a number is not cut, and a prompt stays a prompt.
const OUTPUT_SETTLE_INTERVAL: Duration = Duration::from_millis(20);

/// The patterns of a run's arguments. `None`: a pattern is invalid, which the call's validation has ruled out.
pub fn expect_patterns(request: &ExpectRequest) -> Option<ExpectPatterns> {
    let args = &request.args;
    let since = request.from.as_ref().or(args.since.as_ref());
    Some(ExpectPatterns {
        pattern: view::pattern("pattern", &args.pattern).ok()?,
        fail: args
            .fail_pattern
            .as_ref()
            .and_then(|fail| view::pattern("fail_pattern", fail).ok()),
        lines: args.lines as usize,
        since: since.and_then(|since| view::cursor(since).ok()),
        echo: if args.match_echo {
            EchoPolicy::Match
        } else {
            EchoPolicy::Skip
        },
    })
}

/// A match as an event for core. `from`: where the search began, unless core has that position already.
pub fn match_event(run: &RunId, from: Option<TextCursor>, found: PatternMatch) -> PaneEvent {
    PaneEvent::ExpectMatched {
        run: run.clone(),
        from: from.map(view::shown),
        pattern: match found.kind {
            PatternKind::Pattern => MatchedPattern::Pattern,
            PatternKind::Fail => MatchedPattern::Fail,
        },
        found: ExpectMatch {
            text: found.text,
            line: found.line,
            end: view::shown(found.end),
            via: match found.source {
                MatchSource::Stream => MatchVia::Stream,
                MatchSource::Screen => MatchVia::Screen,
            },
        },
    }
}

/// The expects that wait in one pane.
#[derive(Default)]
pub struct ExpectWaiters {
    waiters: Vec<ExpectWaiter>,
}

struct ExpectWaiter {
    run: RunId,
    /// `None` while older output is searched outside the pane's task.
    search: Option<ExpectSearch>,
    compare_interval: Duration,
    /// When the screen is compared with the last one.
    compare_at: Option<Instant>,
    /// When output without a final match is complete.
    settled_at: Option<Instant>,
}

/// The result of a new expect.
pub struct ExpectStart {
    pub events: Vec<PaneEvent>,
    /// A search that needs older output; `resume` takes it back.
    pub older_search: Option<ExpectSearch>,
}

impl ExpectWaiters {
    /// Whether new output need not be recorded for expects.
    pub fn is_empty(&self) -> bool {
        self.waiters.is_empty()
    }

    /// Searches existing lines, and waits unless these have a match.
    pub fn start(
        &mut self,
        request: &ExpectRequest,
        patterns: ExpectPatterns,
        terminal: &Terminal,
        now: Instant,
    ) -> ExpectStart {
        let run = &request.run;
        let mut search = ExpectSearch::new(patterns);
        let initial = search.search_existing(terminal);
        let mut waiter = ExpectWaiter {
            run: run.clone(),
            search: None,
            compare_interval: Duration::from_millis(u64::from(request.args.poll_interval_ms)),
            compare_at: None,
            settled_at: None,
        };
        let (mut events, mut older_search) = (Vec::new(), None);
        match initial {
            InitialSearch::Match(found) => {
                events.push(match_event(run, search.searched_from(), found));
                return ExpectStart {
                    events,
                    older_search,
                };
            }
            InitialSearch::NoMatch => {
                events.extend(start_event(run, &search));
                waiter.search = Some(search);
                waiter.set_timers(now);
            }
            InitialSearch::NeedsOlder => older_search = Some(search),
        }
        self.waiters.push(waiter);
        ExpectStart {
            events,
            older_search,
        }
    }

    /// Continues an expect whose older output has been searched. A cancelled expect is ignored.
    pub fn resume(
        &mut self,
        run: &RunId,
        mut search: ExpectSearch,
        found: Option<PatternMatch>,
        terminal: &Terminal,
        now: Instant,
    ) -> Vec<PaneEvent> {
        let Some(at) = self.waiters.iter().position(|waiter| waiter.run == *run) else {
            return Vec::new();
        };
        match found.or_else(|| search.resume_search(terminal)) {
            Some(found) => {
                self.waiters.remove(at);
                vec![match_event(run, search.searched_from(), found)]
            }
            None => {
                let start = start_event(run, &search);
                let waiter = &mut self.waiters[at];
                waiter.search = Some(search);
                waiter.set_timers(now);
                start.into_iter().collect()
            }
        }
    }

    pub fn cancel(&mut self, run: &RunId) {
        self.waiters.retain(|waiter| waiter.run != *run);
    }

    /// Searches new output.
    pub fn on_output(&mut self, terminal: &Terminal, now: Instant) -> Vec<PaneEvent> {
        self.search_all(|waiter| {
            let search = waiter.search.as_mut()?;
            let found = search.search_feed(terminal.feed_text());
            waiter.settled_at = None;
            waiter.set_timers(now);
            found
        })
    }

    pub fn deadline(&self) -> Option<Instant> {
        let waiters = self.waiters.iter();
        let timers = waiters.flat_map(|waiter| [waiter.compare_at, waiter.settled_at]);
        timers.flatten().min()
    }

    pub fn on_timer(&mut self, terminal: &Terminal, now: Instant) -> Vec<PaneEvent> {
        self.search_all(|waiter| {
            let search = waiter.search.as_mut()?;
            let is_due = |at: &mut Option<Instant>| at.take_if(|at| *at <= now).is_some();
            if is_due(&mut waiter.settled_at)
                && let Some(found) = search.settle()
            {
                return Some(found);
            }
            is_due(&mut waiter.compare_at)
                .then(|| search.search_screen(terminal))
                .flatten()
        })
    }

    /// Searches once more when all output of an ended pane has been read. Expects without a match stay: the pane's end is
    /// their result.
    pub fn on_end(&mut self, terminal: &Terminal) -> Vec<PaneEvent> {
        self.search_all(|waiter| waiter.search.as_mut()?.finish(terminal))
    }

    /// The same for expects that began after the pane's end was reported: an expect without a match ends. An expect whose
    /// older output is being searched stays until `resume`.
    pub fn on_late_end(&mut self, terminal: &Terminal) -> Vec<PaneEvent> {
        let mut events = self.on_end(terminal);
        let is_searched = |waiter: &mut ExpectWaiter| waiter.search.is_some();
        let ended = self.waiters.extract_if(.., is_searched);
        events.extend(ended.map(|waiter| PaneEvent::ExpectExhausted { run: waiter.run }));
        events
    }

    fn search_all(
        &mut self,
        mut search: impl FnMut(&mut ExpectWaiter) -> Option<PatternMatch>,
    ) -> Vec<PaneEvent> {
        let mut events = Vec::new();
        self.waiters.retain_mut(|waiter| match search(waiter) {
            Some(found) => {
                events.push(match_event(&waiter.run, None, found));
                false
            }
            None => true,
        });
        events
    }
}

fn start_event(run: &RunId, search: &ExpectSearch) -> Option<PaneEvent> {
    let from = view::shown(search.searched_from()?);
    let run = run.clone();
    Some(PaneEvent::ExpectStarted { run, from })
}

impl ExpectWaiter {
    fn set_timers(&mut self, now: Instant) {
        let Some(search) = &self.search else { return };
        if search.is_unsettled() {
            self.settled_at = Some(now + OUTPUT_SETTLE_INTERVAL);
        }
        if search.needs_screen_search() && self.compare_at.is_none() {
            self.compare_at = Some(now + self.compare_interval);
        }
    }
}

#[cfg(test)]
mod tests {
    use fugue_term::{TerminalOptions, TerminalSize};

    use super::{super::test_clock::at, *};

    fn request(run: &str, pattern: &str) -> ExpectRequest {
        let args = serde_json::json!({ "pane_id": "p1", "pattern": pattern });
        ExpectRequest {
            run: run.parse().unwrap(),
            args: serde_json::from_value(args).unwrap(),
            from: None,
        }
    }

    struct Script {
        expects: ExpectWaiters,
        terminal: Terminal,
    }

    impl Script {
        fn new(text: &str) -> Self {
            let size = TerminalSize { rows: 5, cols: 40 };
            let mut script = Self {
                expects: ExpectWaiters::default(),
                terminal: Terminal::new(size, TerminalOptions::default()),
            };
            script.terminal.feed(text.as_bytes());
            script.terminal.start_text_stream();
            script
        }

        fn start(&mut self, run: &str, pattern: &str, ms: u64) -> Vec<PaneEvent> {
            let request = request(run, pattern);
            let patterns = expect_patterns(&request).unwrap();
            let start = self
                .expects
                .start(&request, patterns, &self.terminal, at(ms));
            assert!(start.older_search.is_none());
            start.events
        }

        fn prints(&mut self, text: &str, ms: u64) -> Vec<PaneEvent> {
            self.terminal.feed(text.as_bytes());
            self.expects.on_output(&self.terminal, at(ms))
        }
    }

    /// The texts of the matches among events.
    fn matches(events: &[PaneEvent]) -> Vec<String> {
        let text = |event: &PaneEvent| match event {
            PaneEvent::ExpectMatched { found, .. } => Some(found.text.clone()),
            _ => None,
        };
        events.iter().filter_map(text).collect()
    }

    #[test]
    fn existing_output_matches_at_once() {
        let mut pane = Script::new("server ready\r\n");
        let events = pane.start("r1", "ready", 0);
        assert_eq!(matches(&events), ["ready"]);
        assert!(matches!(
            events[..],
            [PaneEvent::ExpectMatched { from: Some(_), .. }]
        ));
        assert!(pane.expects.is_empty());
    }

    #[test]
    fn each_expect_ends_with_its_own_match() {
        let mut pane = Script::new("");
        pane.start("r1", "one", 0);
        pane.start("r2", "two", 0);
        assert_eq!(matches(&pane.prints("zero\r\n", 10)), [""; 0]);
        assert_eq!(matches(&pane.prints("one\r\n", 20)), ["one"]);
        assert!(!pane.expects.is_empty());
        assert_eq!(matches(&pane.prints("one two\r\n", 30)), ["two"]);
        assert!(pane.expects.is_empty());
    }

    #[test]
    fn a_number_is_reported_when_its_output_has_settled() {
        let mut pane = Script::new("");
        pane.start("r1", r"port \d+", 0);
        assert_eq!(matches(&pane.prints("port 80", 100)), [""; 0]);
        assert_eq!(pane.expects.deadline(), Some(at(120)));
        assert_eq!(matches(&pane.prints("80", 110)), [""; 0]);
        assert_eq!(pane.expects.deadline(), Some(at(130)), "more has come");
        let events = pane.expects.on_timer(&pane.terminal, at(130));
        assert_eq!(matches(&events), ["port 8080"]);
    }

    #[test]
    fn a_cancelled_expect_matches_nothing() {
        let mut pane = Script::new("");
        pane.start("r1", "ready", 0);
        pane.expects.cancel(&"r1".parse().unwrap());
        assert!(pane.expects.is_empty());
        assert_eq!(pane.expects.deadline(), None);
        assert_eq!(pane.prints("ready\r\n", 10), []);
    }

    #[test]
    fn after_the_end_an_expect_without_a_match_ends() {
        let mut pane = Script::new("$ ");
        pane.start("r1", "ready", 0);
        assert_eq!(pane.expects.on_end(&pane.terminal), []);
        assert!(!pane.expects.is_empty(), "the pane's end is its result");
        let run = "r1".parse().unwrap();
        let events = pane.expects.on_late_end(&pane.terminal);
        assert_eq!(events, [PaneEvent::ExpectExhausted { run }]);
        assert!(pane.expects.is_empty());
    }
}
