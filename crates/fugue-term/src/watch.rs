//! Waiting for a pattern in a pane's output.
//!
//! A [`ExpectSearch`] looks at the text that is there, then at all that is printed, as it is printed, and at the screen where a
//! program paints it. It is handed a terminal and what the terminal tapped; it knows no clock, so whoever owns it
//! tells it when nothing came for a while ([`ExpectSearch::quiet`]) and looks at the screen when it asks for it.

mod look_back;

use std::ops::Range;

use crate::pattern::Pattern;
use crate::place::{LineNo, Offset, TextCursor};
use crate::scrollback::LineSelection;
use crate::seeker::Seeker;
use crate::sight::{Echoes, Sight, Stale, Stretch};
use crate::tail::Tail;
use crate::tap::{Ground, Piece, Tapped};
use crate::terminal::Terminal;
use look_back::LookBack;

/// What to wait for.
#[derive(Clone, Debug)]
pub struct ExpectPatterns {
    /// This is what is wanted.
    pub pattern: Pattern,
    /// This says that it will not come.
    pub fail: Option<Pattern>,
    /// How many of the last lines are looked at first, and how many lines a match may span.
    pub lines: usize,
    /// Only what came after that; then all of it is looked at, however many lines it is.
    pub since: Option<TextCursor>,
    /// Whether the echo of typed lines counts.
    pub echo: EchoPolicy,
}

/// What to do with the echo of lines typed at a shell's prompt, as its marks tell it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EchoPolicy {
    /// It is no output.
    Skip,
    /// It may match.
    Match,
}

/// What a first look gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InitialSearch {
    /// It is there already.
    Hit(PatternMatch),
    /// Now for what comes.
    Watching,
    /// What is searched reaches further back than the lines this terminal keeps. Read the output again with another
    /// terminal: call [`ExpectSearch::older`] with all that it gives away, then [`ExpectSearch::begin`] with itself, and then
    /// [`ExpectSearch::resume`] with this one. The second time what there is has to do.
    NeedsOlder,
}

/// A match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PatternMatch {
    /// Which pattern it was; the one that came first, and `Fail` if both did.
    pub which: PatternKind,
    /// What matched, cut if it is long.
    pub text: String,
    /// The line that it ends in, as far as it was printed, cut if it is long.
    pub line: String,
    /// Where it begins.
    pub from: TextCursor,
    /// Just behind it: what is new since then is what follows.
    pub behind: TextCursor,
    /// Where it was seen.
    pub via: MatchSource,
}

/// Which of the two patterns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatternKind {
    /// What was waited for.
    Pattern,
    /// What says that it will not come.
    Fail,
}

/// Where a match was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MatchSource {
    /// In the text, in the order it was printed.
    Stream,
    /// On the screen, where a program had painted it.
    Screen,
}

/// One wait on one pane. After a hit it is over, and finds nothing more.
#[derive(Debug)]
pub struct ExpectSearch {
    what: ExpectPatterns,
    tail: Tail,
    pattern: Seeker,
    fail: Option<Seeker>,
    phase: Phase,
    searched_from: Option<TextCursor>,
    /// All text up to here was looked at.
    looked: TextCursor,
    stale: Stale,
    /// Echo was left out where the tail ends.
    skipped: bool,
    moved: bool,
    /// What changed on the screen behind this offset is new.
    began: u64,
    /// A look at lines that are there, while it goes on over several pieces of the text.
    looking: Option<LookBack>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    New,
    /// Older lines were asked for.
    Asked,
    /// Older lines were looked at; the terminal of now comes next.
    Behind,
    Live,
    Over,
}

/// Text is read in parts of this size, so that a tail that is being read never grows far beyond its window.
const PART: usize = 64 * 1024;

/// As much of a match or a line as anybody reads.
const MAX_CHARS: usize = 1000;

impl ExpectSearch {
    /// A watch that has seen nothing yet.
    pub fn new(what: ExpectPatterns) -> ExpectSearch {
        let seeker = |pattern: &Pattern| Seeker::new(pattern.clone(), what.lines, 0);
        ExpectSearch {
            pattern: seeker(&what.pattern),
            fail: what.fail.as_ref().map(seeker),
            what,
            tail: Tail::default(),
            phase: Phase::New,
            searched_from: None,
            looked: TextCursor::default(),
            stale: Stale::default(),
            skipped: false,
            moved: false,
            began: 0,
            looking: None,
        }
    }

    /// One whose older lines cannot be read: [`ExpectSearch::resume`] looks at those that a terminal keeps.
    pub fn without_older(what: ExpectPatterns) -> ExpectSearch {
        ExpectSearch {
            phase: Phase::Behind,
            looked: what.since.unwrap_or_default(),
            ..ExpectSearch::new(what)
        }
    }

    /// Looks at what is there: the last lines, or all that is new since the cursor. Afterwards only new output is
    /// looked at, so the terminal must [listen](Terminal::listen) from now on.
    pub fn begin(&mut self, terminal: &Terminal) -> InitialSearch {
        let since = self.what.since;
        let selection = match (since, self.looking.as_ref()) {
            (Some(since), _) => LineSelection::Since(since),
            (None, Some(look)) => LineSelection::From(look.window),
            (None, None) => {
                let last = self.what.lines.max(1) as u64;
                LineSelection::From(LineNo(terminal.line_count().saturating_sub(last)))
            }
        };
        match self.phase {
            Phase::New if terminal.lacks(selection) => {
                self.phase = Phase::Asked;
                let mut look = LookBack::new(self, since);
                if let LineSelection::From(window) = selection {
                    look.window = window;
                }
                self.looking = Some(look);
                return InitialSearch::NeedsOlder;
            }
            Phase::New => self.phase = Phase::Live,
            Phase::Asked => self.phase = Phase::Behind,
            Phase::Behind | Phase::Live | Phase::Over => return InitialSearch::Watching,
        }
        match self.look_back(terminal, since, selection) {
            Some(hit) => InitialSearch::Hit(hit),
            None => InitialSearch::Watching,
        }
    }

    /// After older lines were looked at in another terminal: looks at what came since then.
    pub fn resume(&mut self, terminal: &Terminal) -> Option<PatternMatch> {
        if self.phase != Phase::Behind {
            return None;
        }
        self.phase = Phase::Live;
        let looked = self.looked;
        self.look_back(terminal, Some(looked), LineSelection::Since(looked))
    }

    /// Looks at what a feed printed. What [`ExpectSearch::begin`] has seen already does no harm.
    pub fn output(&mut self, tapped: &Tapped) -> Option<PatternMatch> {
        if self.phase != Phase::Live || tapped.until <= self.looked.offset {
            return None;
        }
        self.looked.offset = tapped.until;
        let skips = self.what.echo == EchoPolicy::Skip;
        self.moved |= tapped.moved || tapped.moved_at_prompt && !skips;
        let mut pending = 0;
        for (i, piece) in tapped.pieces.iter().enumerate() {
            if piece.echo && skips {
                self.skipped = true;
                continue;
            }
            let end = tapped.pieces.get(i + 1).map(|next| next.start as usize);
            let text = &tapped.text[piece.start as usize..end.unwrap_or(tapped.text.len())];
            if self.skipped {
                self.skipped = false;
                self.break_line(piece.at);
            }
            self.tail.push("", *piece);
            for part in parts(text) {
                self.tail.push_more(part);
                pending += part.len();
                if pending >= PART {
                    pending = 0;
                    if let Some(hit) = self.search() {
                        return Some(hit);
                    }
                }
            }
        }
        self.search()
    }

    /// Whether there is a match that more output could change. If none comes for some 20 ms, call [`ExpectSearch::quiet`].
    pub fn is_unsettled(&self) -> bool {
        self.phase != Phase::Over
            && self
                .seekers()
                .any(|seeker| seeker.evidence().is_some() || seeker.may_end_here())
    }

    /// Nothing came for a while: a match that rests on the end of the output is one.
    pub fn quiet(&mut self) -> Option<PatternMatch> {
        while self.is_unsettled() {
            let end = self.tail.end();
            let ends = |seeker: &Seeker| seeker.evidence().or(seeker.may_end_here().then_some(end));
            let which = first(ends(&self.pattern), self.fail.as_ref().and_then(ends))?;
            let tail = &self.tail;
            let range = match which {
                PatternKind::Pattern => self.pattern.settle(tail),
                PatternKind::Fail => self.fail.as_mut().and_then(|fail| fail.settle(tail)),
            };
            if let Some(hit) = range.and_then(|range| self.take(which, range)) {
                return Some(hit);
            }
        }
        None
    }

    /// Whether something was painted since the last look. Call [`ExpectSearch::look`] soon.
    pub fn wants_look(&self) -> bool {
        self.moved && self.phase == Phase::Live
    }

    /// Looks at what changed on the screen since the search began.
    pub fn look(&mut self, terminal: &Terminal) -> Option<PatternMatch> {
        // A match in the stream is the earlier one.
        if self.phase != Phase::Live || self.is_unsettled() {
            return None;
        }
        self.moved = false;
        let echoes = Echoes::of(terminal, self.what.echo);
        let sight = Sight::of(terminal, &echoes);
        let hit = self.find_on_screen(terminal, &sight, self.began);
        self.stale.forget_what_is_gone(&sight);
        if hit.is_some() {
            self.phase = Phase::Over;
        }
        hit
    }

    /// Nothing more will ever come: what rests on the end counts, and the screen is looked at a last time.
    pub fn end(&mut self, terminal: &Terminal) -> Option<PatternMatch> {
        let resumed = self.resume(terminal);
        resumed
            .or_else(|| self.quiet())
            .or_else(|| self.wants_look().then(|| self.look(terminal)).flatten())
    }

    /// Where the search began; [`ExpectSearch::begin`] sets it.
    pub fn searched_from(&self) -> Option<TextCursor> {
        self.searched_from
    }

    fn seekers(&self) -> impl Iterator<Item = &Seeker> {
        std::iter::once(&self.pattern).chain(&self.fail)
    }
}

impl ExpectSearch {
    fn look_at_alternate(
        &mut self,
        terminal: &Terminal,
        echoes: &Echoes,
        since: Option<TextCursor>,
    ) -> Option<PatternMatch> {
        let sight = Sight::of(terminal, echoes);
        if !sight.alternate || self.is_unsettled() {
            return None;
        }
        let hit = self.find_on_screen(terminal, &sight, since.map_or(0, |since| since.offset.0));
        if hit.is_some() {
            self.phase = Phase::Over;
        }
        hit
    }

    fn push_kept(&mut self, text: &str, at: TextCursor) {
        let piece = Piece {
            start: 0,
            at,
            ground: Ground::Kept,
            echo: false,
            painted: false,
        };
        self.tail.push(text, piece);
    }

    /// What follows is not the same line, whatever was between.
    fn break_line(&mut self, at: TextCursor) {
        let end = self.tail.end();
        let last = self.tail.text().chars().next_back();
        if last.is_some_and(|last| last != '\n') {
            let at = TextCursor {
                offset: at.offset,
                ..self.tail.place_behind(end)
            };
            self.push_kept("\n", at);
        }
    }

    /// Reads what is new in the tail.
    fn search(&mut self) -> Option<PatternMatch> {
        self.pattern.advance(&self.tail);
        if let Some(fail) = &mut self.fail {
            fail.advance(&self.tail);
        }
        let hit = self.verdict();
        let needed = self.seekers().map(Seeker::needs).min();
        self.tail.trim(self.what.lines, needed.unwrap_or(u64::MAX));
        hit
    }

    /// The match that came first, if it is settled.
    fn verdict(&mut self) -> Option<PatternMatch> {
        loop {
            let (wanted, fail) = (&self.pattern, self.fail.as_ref());
            let which = first(wanted.evidence(), fail.and_then(Seeker::evidence))?;
            let range = match which {
                PatternKind::Pattern => {
                    let may_fail = fail.is_some_and(Seeker::may_end_here);
                    if may_fail && wanted.evidence() == Some(self.tail.end()) {
                        return None;
                    }
                    wanted.settled()?
                }
                PatternKind::Fail => fail.and_then(Seeker::settled)?,
            };
            if let Some(hit) = self.take(which, range) {
                return Some(hit);
            }
        }
    }

    /// A match in the stream, unless it is old text painted again: then the search goes on behind it, and a look at
    /// the screen tells.
    fn take(&mut self, which: PatternKind, range: Range<u64>) -> Option<PatternMatch> {
        let text = self.tail.slice(range.start, range.end);
        let piece = self.tail.piece(range.start);
        let repainted = !text.is_empty()
            && piece.is_some_and(|piece| {
                let alternate = piece.ground == Ground::Alternate;
                (piece.painted || alternate) && self.stale.may_have(alternate, piece.at, text)
            });
        if repainted {
            self.moved = true;
            let tail = &self.tail;
            let seeker = match which {
                PatternKind::Pattern => Some(&mut self.pattern),
                PatternKind::Fail => self.fail.as_mut(),
            };
            if let Some(seeker) = seeker {
                seeker.pass_over(range.end);
                seeker.advance(tail);
            }
            return None;
        }
        self.phase = Phase::Over;
        let all = self.tail.text();
        let (start, end) = (self.tail.index(range.start), self.tail.index(range.end));
        Some(PatternMatch {
            which,
            text: shorten(text),
            line: line_of(all, start, end),
            from: self.tail.place(range.start),
            behind: self.tail.place_behind(range.end),
            via: MatchSource::Stream,
        })
    }

    fn find_on_screen(
        &self,
        terminal: &Terminal,
        sight: &Sight,
        since: u64,
    ) -> Option<PatternMatch> {
        for stretch in sight.fresh(since, &self.stale) {
            let find = |pattern: &Pattern| self.find_in(&stretch, sight.alternate, pattern);
            let wanted = find(&self.what.pattern);
            let fail = self.what.fail.as_ref().and_then(find);
            let end = |range: &Option<Range<usize>>| range.as_ref().map(|range| range.end as u64);
            let Some(which) = first(end(&wanted), end(&fail)) else {
                continue;
            };
            let range = match which {
                PatternKind::Pattern => wanted?,
                PatternKind::Fail => fail?,
            };
            let now = terminal.end();
            let place = |at: usize| {
                let (line, col) = stretch.find(at);
                match sight.alternate {
                    true => now,
                    false => TextCursor {
                        offset: now.offset,
                        line: LineNo(line.no),
                        col,
                    },
                }
            };
            return Some(PatternMatch {
                which,
                text: shorten(&stretch.text[range.clone()]),
                line: line_of(&stretch.text, range.start, range.end),
                from: place(range.start),
                behind: place(range.end),
                via: MatchSource::Screen,
            });
        }
        None
    }

    /// The first match that is not too long and was not there before.
    fn find_in(
        &self,
        stretch: &Stretch<'_>,
        alternate: bool,
        pattern: &Pattern,
    ) -> Option<Range<usize>> {
        let matches = pattern.0.regex.find_iter(&stretch.text[..]);
        matches.map(|found| found.range()).find(|range| {
            let text = &stretch.text[range.clone()];
            let newlines = text.bytes().filter(|b| *b == b'\n').count();
            let (line, col) = stretch.find(range.start);
            !text.is_empty()
                && newlines < self.what.lines.max(1)
                && !self.stale.has_at(alternate, line.no, col, text)
        })
    }
}

fn kept(offset: u64, line: LineNo, col: u32) -> TextCursor {
    TextCursor {
        offset: Offset(offset),
        line,
        col,
    }
}

/// Which of two came first; where both did it has failed.
fn first(pattern: Option<u64>, fail: Option<u64>) -> Option<PatternKind> {
    match (pattern, fail) {
        (None, None) => None,
        (Some(pattern), Some(fail)) if pattern < fail => Some(PatternKind::Pattern),
        (Some(_), None) => Some(PatternKind::Pattern),
        (_, Some(_)) => Some(PatternKind::Fail),
    }
}

/// The text in parts that are not too large.
fn parts(mut text: &str) -> impl Iterator<Item = &str> {
    std::iter::from_fn(move || {
        let mut end = text.len().min(PART);
        while !text.is_char_boundary(end) {
            end += 1;
        }
        let part;
        (part, text) = text.split_at(end);
        (!part.is_empty()).then_some(part)
    })
}

/// The line in which a match ends; of a long one the part around the match.
fn line_of(text: &str, start: usize, end: usize) -> String {
    let matched = text[start..end].trim_end_matches('\n').len();
    let last = start + matched;
    let begin = text[..last].rfind('\n').map_or(0, |at| at + 1);
    let stop = text[last..].find('\n').map_or(text.len(), |at| last + at);
    let line = &text[begin..stop];
    // So much before the match that one sees what it belongs to.
    let lead = text[begin..start.max(begin)].chars().count();
    if lead < MAX_CHARS / 2 {
        return shorten(line);
    }
    let skip = lead - MAX_CHARS / 10;
    let from = line.char_indices().nth(skip).map_or(0, |(at, _)| at);
    format!("…{}", shorten(&line[from..]))
}

fn shorten(text: &str) -> String {
    match text.char_indices().nth(MAX_CHARS) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}
