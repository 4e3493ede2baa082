//! Expect: waiting for a pattern in a pane's output.
//!
//! An [`ExpectSearch`] searches the existing text, then everything that is printed, as it is printed, and the screen
//! where a program paints with cursor movements. Its inputs are a terminal and the [`FeedText`] of each feed. The
//! search has no clock: its owner calls [`ExpectSearch::settle`] when no output has arrived for a while, and
//! [`ExpectSearch::search_screen`] when [`ExpectSearch::needs_screen_search`] is true.

mod existing_lines;

use std::ops::Range;

use crate::match_window::MatchWindow;
use crate::pattern::Pattern;
use crate::position::{LineNo, Offset, TextCursor};
use crate::screen_diff::{EchoRanges, ScreenBaseline, ScreenBlock, ScreenLines};
use crate::scrollback::LineSelection;
use crate::stream_matcher::StreamMatcher;
use crate::terminal::Terminal;
use crate::text_stream::{FeedText, PieceOrigin, TextPiece};
use existing_lines::ExistingSearch;

/// The patterns and limits of an expect.
#[derive(Clone, Debug)]
pub struct ExpectPatterns {
    /// The expected pattern.
    pub pattern: Pattern,
    /// A pattern that ends the wait as failed.
    pub fail: Option<Pattern>,
    /// How many of the last lines are searched first, and the maximum number of lines that a match may span.
    pub lines: usize,
    /// Search only text after this cursor, regardless of the number of lines.
    pub since: Option<TextCursor>,
    /// Whether the echo of typed lines can match.
    pub echo: EchoPolicy,
}

/// How to treat the echo of lines typed at a shell prompt, located by the shell marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EchoPolicy {
    /// Echo is not searched.
    Skip,
    /// Echo is searched like output.
    Match,
}

/// The result of searching the existing text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InitialSearch {
    /// The existing text contains a match.
    Match(PatternMatch),
    /// No match in the existing text; new output is searched from now on.
    NoMatch,
    /// The search starts before the oldest line that this terminal keeps. The output log has to be read with another
    /// terminal: call [`ExpectSearch::search_older`] with each scrollback that terminal gives up, then
    /// [`ExpectSearch::search_existing`] with that terminal, then [`ExpectSearch::resume_search`] with the pane's
    /// terminal. This variant is returned only once: afterwards only the available lines are searched.
    NeedsOlder,
}

/// A match of the pattern or of the fail pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PatternMatch {
    /// Which pattern matched first; `Fail` if both matched at the same position.
    pub kind: PatternKind,
    /// The matched text, truncated if long.
    pub text: String,
    /// The line in which the match ends, as far as printed, truncated if long.
    pub line: String,
    /// The position of the first matched character.
    pub start: TextCursor,
    /// The position after the match. Reading since this cursor returns the text that follows.
    pub end: TextCursor,
    /// Where the match was found.
    pub source: MatchSource,
}

/// Which of the two patterns matched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatternKind {
    /// The expected pattern.
    Pattern,
    /// The pattern that ends the wait as failed.
    Fail,
}

/// Where a match was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MatchSource {
    /// In the text stream, in the order of printing.
    Stream,
    /// On the screen, painted with cursor movements.
    Screen,
}

/// One expect on one pane. After a match the search is done and returns nothing more.
#[derive(Debug)]
pub struct ExpectSearch {
    patterns: ExpectPatterns,
    window: MatchWindow,
    pattern_matcher: StreamMatcher,
    fail_matcher: Option<StreamMatcher>,
    phase: SearchPhase,
    searched_from: Option<TextCursor>,
    /// All text up to this cursor has been searched.
    searched_to: TextCursor,
    /// The lines that were visible when the search began.
    baseline: ScreenBaseline,
    /// Echo was skipped at the end of the window.
    echo_skipped: bool,
    /// A program painted something since the last screen search.
    screen_painted: bool,
    /// Rows that changed after this offset are new on the screen.
    screen_since: u64,
    /// The state of a search of existing lines that continues over several scrollbacks.
    existing: Option<ExistingSearch>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SearchPhase {
    New,
    /// Older lines were requested ([`InitialSearch::NeedsOlder`]).
    OlderNeeded,
    /// Older lines were searched; the pane's current terminal is next.
    OlderSearched,
    Live,
    Done,
}

/// Text is appended to the window and searched in chunks of this size, so that the window never grows far beyond its
/// limit.
const SEARCH_CHUNK_BYTES: usize = 64 * 1024;

/// The limit for the text and the line of a match.
const MAX_EXCERPT_CHARS: usize = 1000;

impl ExpectSearch {
    /// A search that has not read any text yet.
    pub fn new(patterns: ExpectPatterns) -> ExpectSearch {
        let matcher = |pattern: &Pattern| StreamMatcher::new(pattern.clone(), patterns.lines, 0);
        ExpectSearch {
            pattern_matcher: matcher(&patterns.pattern),
            fail_matcher: patterns.fail.as_ref().map(matcher),
            patterns,
            window: MatchWindow::default(),
            phase: SearchPhase::New,
            searched_from: None,
            searched_to: TextCursor::default(),
            baseline: ScreenBaseline::default(),
            echo_skipped: false,
            screen_painted: false,
            screen_since: 0,
            existing: None,
        }
    }

    /// A search for a pane without a readable output log: [`ExpectSearch::resume_search`] searches the lines that the
    /// terminal keeps.
    pub fn without_older_lines(patterns: ExpectPatterns) -> ExpectSearch {
        ExpectSearch {
            phase: SearchPhase::OlderSearched,
            searched_to: patterns.since.unwrap_or_default(),
            ..ExpectSearch::new(patterns)
        }
    }

    /// Searches the existing text: the last lines, or everything since the cursor. Afterwards only new output is
    /// searched, so the [text stream](Terminal::start_text_stream) of the terminal must be on from now on.
    pub fn search_existing(&mut self, terminal: &Terminal) -> InitialSearch {
        let since = self.patterns.since;
        let selection = match (since, self.existing.as_ref()) {
            (Some(since), _) => LineSelection::Since(since),
            (None, Some(search)) => LineSelection::From(search.first_line),
            (None, None) => {
                let last = self.patterns.lines.max(1) as u64;
                LineSelection::From(LineNo(terminal.line_count().saturating_sub(last)))
            }
        };
        match self.phase {
            SearchPhase::New if terminal.lacks_lines(selection) => {
                self.phase = SearchPhase::OlderNeeded;
                let mut search = ExistingSearch::new(self, since);
                if let LineSelection::From(window) = selection {
                    search.first_line = window;
                }
                self.existing = Some(search);
                return InitialSearch::NeedsOlder;
            }
            SearchPhase::New => self.phase = SearchPhase::Live,
            SearchPhase::OlderNeeded => self.phase = SearchPhase::OlderSearched,
            SearchPhase::OlderSearched | SearchPhase::Live | SearchPhase::Done => {
                return InitialSearch::NoMatch;
            }
        }
        match self.search_lines(terminal, since, selection) {
            Some(found) => InitialSearch::Match(found),
            None => InitialSearch::NoMatch,
        }
    }

    /// Searches the text that was printed while older lines were searched with another terminal.
    pub fn resume_search(&mut self, terminal: &Terminal) -> Option<PatternMatch> {
        if self.phase != SearchPhase::OlderSearched {
            return None;
        }
        self.phase = SearchPhase::Live;
        let searched_to = self.searched_to;
        self.search_lines(
            terminal,
            Some(searched_to),
            LineSelection::Since(searched_to),
        )
    }

    /// Searches the text of one feed. Text that [`ExpectSearch::search_existing`] has already searched is skipped.
    pub fn search_feed(&mut self, feed: &FeedText) -> Option<PatternMatch> {
        if self.phase != SearchPhase::Live || feed.end_offset <= self.searched_to.offset {
            return None;
        }
        self.searched_to.offset = feed.end_offset;
        let skips = self.patterns.echo == EchoPolicy::Skip;
        self.screen_painted |= feed.painted || feed.painted_at_prompt && !skips;
        let mut pending_bytes = 0;
        for (i, piece) in feed.pieces.iter().enumerate() {
            if piece.is_echo && skips {
                self.echo_skipped = true;
                continue;
            }
            let end = feed.pieces.get(i + 1).map(|next| next.start as usize);
            let text = &feed.text[piece.start as usize..end.unwrap_or(feed.text.len())];
            if self.echo_skipped {
                self.echo_skipped = false;
                self.break_line(piece.at);
            }
            self.window.push("", *piece);
            for part in search_chunks(text) {
                self.window.push_more(part);
                pending_bytes += part.len();
                if pending_bytes >= SEARCH_CHUNK_BYTES {
                    pending_bytes = 0;
                    if let Some(found) = self.advance_matchers() {
                        return Some(found);
                    }
                }
            }
        }
        self.advance_matchers()
    }

    /// Whether a match exists that further output could change. After about 20 ms without output, call
    /// [`ExpectSearch::settle`].
    pub fn is_unsettled(&self) -> bool {
        self.phase != SearchPhase::Done
            && self
                .matchers()
                .any(|matcher| matcher.first_end().is_some() || matcher.may_end_here())
    }

    /// Accepts a match that ends at the end of the output, because no output has arrived for a while.
    pub fn settle(&mut self) -> Option<PatternMatch> {
        while self.is_unsettled() {
            let end = self.window.end();
            let ends = |matcher: &StreamMatcher| {
                matcher
                    .first_end()
                    .or(matcher.may_end_here().then_some(end))
            };
            let kind = first_kind(
                ends(&self.pattern_matcher),
                self.fail_matcher.as_ref().and_then(ends),
            )?;
            let window = &self.window;
            let range = match kind {
                PatternKind::Pattern => self.pattern_matcher.settle(window),
                PatternKind::Fail => self
                    .fail_matcher
                    .as_mut()
                    .and_then(|fail| fail.settle(window)),
            };
            if let Some(found) = range.and_then(|range| self.accept_match(kind, range)) {
                return Some(found);
            }
        }
        None
    }

    /// Whether a program painted something since the last screen search. If so, call [`ExpectSearch::search_screen`]
    /// soon.
    pub fn needs_screen_search(&self) -> bool {
        self.screen_painted && self.phase == SearchPhase::Live
    }

    /// Searches the rows of the screen that changed since the search began.
    pub fn search_screen(&mut self, terminal: &Terminal) -> Option<PatternMatch> {
        // An unsettled match in the stream is earlier than any match on the screen.
        if self.phase != SearchPhase::Live || self.is_unsettled() {
            return None;
        }
        self.screen_painted = false;
        let echoes = EchoRanges::new(terminal, self.patterns.echo);
        let screen = ScreenLines::visible(terminal, &echoes);
        let found = self.find_on_screen(terminal, &screen, self.screen_since);
        self.baseline.retain_visible(&screen);
        if found.is_some() {
            self.phase = SearchPhase::Done;
        }
        found
    }

    /// Ends the search because no more output will arrive: accepts a match at the end of the output, else searches
    /// the screen a last time.
    pub fn finish(&mut self, terminal: &Terminal) -> Option<PatternMatch> {
        let resumed = self.resume_search(terminal);
        resumed.or_else(|| self.settle()).or_else(|| {
            self.needs_screen_search()
                .then(|| self.search_screen(terminal))
                .flatten()
        })
    }

    /// Where the search began; set by [`ExpectSearch::search_existing`].
    pub fn searched_from(&self) -> Option<TextCursor> {
        self.searched_from
    }

    fn matchers(&self) -> impl Iterator<Item = &StreamMatcher> {
        std::iter::once(&self.pattern_matcher).chain(&self.fail_matcher)
    }
}

impl ExpectSearch {
    fn search_alternate_screen(
        &mut self,
        terminal: &Terminal,
        echoes: &EchoRanges,
        since: Option<TextCursor>,
    ) -> Option<PatternMatch> {
        let screen = ScreenLines::visible(terminal, echoes);
        if !screen.alternate || self.is_unsettled() {
            return None;
        }
        let found = self.find_on_screen(terminal, &screen, since.map_or(0, |since| since.offset.0));
        if found.is_some() {
            self.phase = SearchPhase::Done;
        }
        found
    }

    fn push_stored(&mut self, text: &str, at: TextCursor) {
        let piece = TextPiece {
            start: 0,
            at,
            origin: PieceOrigin::Stored,
            is_echo: false,
            after_jump: false,
        };
        self.window.push(text, piece);
    }

    /// Ends the current line in the window, because skipped text separates the window from the text that follows.
    fn break_line(&mut self, at: TextCursor) {
        let end = self.window.end();
        let last = self.window.text().chars().next_back();
        if last.is_some_and(|last| last != '\n') {
            let at = TextCursor {
                offset: at.offset,
                ..self.window.cursor_after(end)
            };
            self.push_stored("\n", at);
        }
    }

    /// Advances both matchers over the new text in the window.
    fn advance_matchers(&mut self) -> Option<PatternMatch> {
        self.pattern_matcher.advance(&self.window);
        if let Some(fail) = &mut self.fail_matcher {
            fail.advance(&self.window);
        }
        let found = self.take_settled();
        let needed = self.matchers().map(StreamMatcher::oldest_needed).min();
        self.window
            .trim(self.patterns.lines, needed.unwrap_or(u64::MAX));
        found
    }

    /// Returns the first match, if settled.
    fn take_settled(&mut self) -> Option<PatternMatch> {
        loop {
            let (wanted, fail) = (&self.pattern_matcher, self.fail_matcher.as_ref());
            let kind = first_kind(wanted.first_end(), fail.and_then(StreamMatcher::first_end))?;
            let range = match kind {
                PatternKind::Pattern => {
                    let may_fail = fail.is_some_and(StreamMatcher::may_end_here);
                    if may_fail && wanted.first_end() == Some(self.window.end()) {
                        return None;
                    }
                    wanted.settled_match()?
                }
                PatternKind::Fail => fail.and_then(StreamMatcher::settled_match)?,
            };
            if let Some(found) = self.accept_match(kind, range) {
                return Some(found);
            }
        }
    }

    /// Returns a match in the stream, unless the match is old text that was painted again: then the matcher continues
    /// after the match, and the screen search decides.
    fn accept_match(&mut self, kind: PatternKind, range: Range<u64>) -> Option<PatternMatch> {
        let text = self.window.slice(range.start, range.end);
        let piece = self.window.piece(range.start);
        let repainted = !text.is_empty()
            && piece.is_some_and(|piece| {
                let alternate = piece.origin == PieceOrigin::Alternate;
                (piece.after_jump || alternate)
                    && self.baseline.may_contain_word(alternate, piece.at, text)
            });
        if repainted {
            self.screen_painted = true;
            let window = &self.window;
            let matcher = match kind {
                PatternKind::Pattern => Some(&mut self.pattern_matcher),
                PatternKind::Fail => self.fail_matcher.as_mut(),
            };
            if let Some(matcher) = matcher {
                matcher.skip_to(range.end);
                matcher.advance(window);
            }
            return None;
        }
        self.phase = SearchPhase::Done;
        let all = self.window.text();
        let (start, end) = (self.window.index(range.start), self.window.index(range.end));
        Some(PatternMatch {
            kind,
            text: truncate_excerpt(text),
            line: line_around(all, start, end),
            start: self.window.cursor_at(range.start),
            end: self.window.cursor_after(range.end),
            source: MatchSource::Stream,
        })
    }

    fn find_on_screen(
        &self,
        terminal: &Terminal,
        screen: &ScreenLines,
        since: u64,
    ) -> Option<PatternMatch> {
        for block in screen.new_blocks(since, &self.baseline) {
            let find = |pattern: &Pattern| self.find_in_block(&block, screen.alternate, pattern);
            let wanted = find(&self.patterns.pattern);
            let fail = self.patterns.fail.as_ref().and_then(find);
            let end = |range: &Option<Range<usize>>| range.as_ref().map(|range| range.end as u64);
            let Some(kind) = first_kind(end(&wanted), end(&fail)) else {
                continue;
            };
            let range = match kind {
                PatternKind::Pattern => wanted?,
                PatternKind::Fail => fail?,
            };
            let now = terminal.end();
            let cursor_at = |at: usize| {
                let (line, col) = block.locate(at);
                match screen.alternate {
                    true => now,
                    false => TextCursor {
                        offset: now.offset,
                        line: LineNo(line.no),
                        col,
                    },
                }
            };
            return Some(PatternMatch {
                kind,
                text: truncate_excerpt(&block.text[range.clone()]),
                line: line_around(&block.text, range.start, range.end),
                start: cursor_at(range.start),
                end: cursor_at(range.end),
                source: MatchSource::Screen,
            });
        }
        None
    }

    /// The first match in the block that is short enough and was not on the screen before.
    fn find_in_block(
        &self,
        block: &ScreenBlock<'_>,
        alternate: bool,
        pattern: &Pattern,
    ) -> Option<Range<usize>> {
        let matches = pattern.0.regex.find_iter(&block.text[..]);
        matches.map(|found| found.range()).find(|range| {
            let text = &block.text[range.clone()];
            let newlines = text.bytes().filter(|b| *b == b'\n').count();
            let (line, col) = block.locate(range.start);
            !text.is_empty()
                && newlines < self.patterns.lines.max(1)
                && !self.baseline.has_word_at(alternate, line.no, col, text)
        })
    }
}

fn text_cursor(offset: u64, line: LineNo, col: u32) -> TextCursor {
    TextCursor {
        offset: Offset(offset),
        line,
        col,
    }
}

/// Which of two matches ends first; `Fail` if both end at the same position.
fn first_kind(pattern: Option<u64>, fail: Option<u64>) -> Option<PatternKind> {
    match (pattern, fail) {
        (None, None) => None,
        (Some(pattern), Some(fail)) if pattern < fail => Some(PatternKind::Pattern),
        (Some(_), None) => Some(PatternKind::Pattern),
        (_, Some(_)) => Some(PatternKind::Fail),
    }
}

/// Splits text into chunks of about `SEARCH_CHUNK_BYTES`.
fn search_chunks(mut text: &str) -> impl Iterator<Item = &str> {
    std::iter::from_fn(move || {
        let mut end = text.len().min(SEARCH_CHUNK_BYTES);
        while !text.is_char_boundary(end) {
            end += 1;
        }
        let part;
        (part, text) = text.split_at(end);
        (!part.is_empty()).then_some(part)
    })
}

/// The line in which a match ends; the part around the match if the line is long.
fn line_around(text: &str, start: usize, end: usize) -> String {
    let matched = text[start..end].trim_end_matches('\n').len();
    let last = start + matched;
    let begin = text[..last].rfind('\n').map_or(0, |at| at + 1);
    let stop = text[last..].find('\n').map_or(text.len(), |at| last + at);
    let line = &text[begin..stop];
    // Enough text before the match to show its context.
    let lead = text[begin..start.max(begin)].chars().count();
    if lead < MAX_EXCERPT_CHARS / 2 {
        return truncate_excerpt(line);
    }
    let skip = lead - MAX_EXCERPT_CHARS / 10;
    let from = line.char_indices().nth(skip).map_or(0, |(at, _)| at);
    format!("…{}", truncate_excerpt(&line[from..]))
}

fn truncate_excerpt(text: &str) -> String {
    match text.char_indices().nth(MAX_EXCERPT_CHARS) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}
