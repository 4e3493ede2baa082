//! Searching lines that already exist: all lines of a terminal at once, or scrollback by scrollback while the output
//! log is read again.

use super::{ExpectSearch, SEARCH_CHUNK_BYTES, SearchPhase, text_cursor};
use crate::expect::PatternMatch;
use crate::position::{LineNo, Offset, TextCursor};
use crate::screen_diff::{EchoRanges, ScreenBaseline};
use crate::scrollback::{LineSelection, Scrollback};
use crate::terminal::Terminal;
use crate::text_lines::{LineChanges, TextLine};

/// The progress of a search of existing lines.
#[derive(Debug)]
pub(super) struct ExistingSearch {
    since: Option<TextCursor>,
    /// The first line to search, if the search has no `since` cursor.
    pub(super) first_line: LineNo,
    /// No text was searched before this search.
    is_initial: bool,
    /// The first line that was searched.
    first_searched: Option<LineNo>,
    /// The smallest `touched` offset of the searched lines.
    oldest_change: Option<u64>,
    /// The largest change offset so far.
    latest_change: u64,
    /// Bytes appended to the window since the matchers last advanced.
    pending_bytes: usize,
    found: Option<PatternMatch>,
}

impl ExistingSearch {
    pub(super) fn new(expect: &ExpectSearch, since: Option<TextCursor>) -> Self {
        ExistingSearch {
            since,
            first_line: LineNo(0),
            is_initial: expect.searched_from.is_none(),
            first_searched: None,
            oldest_change: None,
            latest_change: since.map_or(0, |since| since.offset.0),
            pending_bytes: 0,
            found: None,
        }
    }
}

impl ExpectSearch {
    /// Searches older lines that a terminal gave up while reading the output log again. At the end of the log, call
    /// [`ExpectSearch::search_existing`] with that terminal for the remaining lines, unless a match was returned
    /// before.
    pub fn search_older(
        &mut self,
        scrollback: &Scrollback,
        terminal: &Terminal,
    ) -> Option<PatternMatch> {
        if self.phase != SearchPhase::OlderNeeded {
            return None;
        }
        let mut search = self.existing.take()?;
        let selection = match search.since {
            Some(since) => LineSelection::Since(since),
            None => LineSelection::From(search.first_line),
        };
        let echoes = EchoRanges::new(terminal, self.patterns.echo);
        let context = |at: LineSelection| {
            let mut text = None;
            scrollback.for_each_line(at, |line| {
                text.get_or_insert(line.text.to_string());
            });
            text
        };
        scrollback.for_each_line_with_changes(selection, |line, changes| {
            self.search_line(&mut search, line, changes, &echoes, None, context);
        });
        // Without a cursor, the start of the search is known only after all lines were searched.
        let found = search.found.take_if(|_| search.since.is_some());
        if found.is_some() {
            self.searched_from = search.since;
        } else {
            self.existing = Some(search);
        }
        found
    }

    /// Feeds existing lines to the matchers as if printed now.
    pub(super) fn search_lines(
        &mut self,
        terminal: &Terminal,
        since: Option<TextCursor>,
        selection: LineSelection,
    ) -> Option<PatternMatch> {
        let mut search = self
            .existing
            .take()
            .unwrap_or_else(|| ExistingSearch::new(self, since));
        let state = &terminal.state;
        let echoes = EchoRanges::new(terminal, self.patterns.echo);
        let cursor = state.text_position();
        let context = |at: LineSelection| first_text(state.selected_lines(at));
        for (line, changes) in state.selected_lines(selection) {
            self.search_line(&mut search, &line, &changes, &echoes, Some(cursor), context);
        }
        if search.is_initial {
            self.searched_from = Some(since.unwrap_or_else(|| {
                match (search.first_searched, search.oldest_change) {
                    (Some(line), Some(oldest)) => text_cursor(oldest - 1, line, 0),
                    _ => terminal.end(),
                }
            }));
            if search.first_searched.is_none() {
                self.set_context(cursor, context);
            }
        }
        if state.alt.is_some() {
            self.break_line(terminal.end());
        }
        self.searched_to = terminal.end();
        let found = search.found.or_else(|| self.advance_matchers());
        let found = found.or_else(|| self.search_alternate_screen(terminal, &echoes, since));
        self.screen_since = terminal.offset().0;
        self.baseline = ScreenBaseline::capture(terminal, &echoes);
        found
    }

    fn search_line(
        &mut self,
        search: &mut ExistingSearch,
        line: &TextLine<'_>,
        changes: &LineChanges,
        echoes: &EchoRanges,
        cursor: Option<(LineNo, u32)>,
        context: impl FnOnce(LineSelection) -> Option<String>,
    ) {
        let col = match search.since {
            Some(since) if line.cut => since.col,
            _ => 0,
        };
        let is_first_line = search.first_searched.is_none();
        search.first_searched.get_or_insert(line.no);
        if changes.touched > 0 {
            let oldest = search.oldest_change.unwrap_or(changes.touched);
            search.oldest_change = Some(oldest.min(changes.touched));
        }
        if search.found.is_some() {
            return;
        }
        if let Some(since) = search.since.filter(|_| is_first_line && line.cut) {
            if search.is_initial {
                self.set_context((since.line, since.col), context);
            }
        } else if is_first_line {
            self.break_line(text_cursor(search.latest_change, line.no, 0));
        }
        search.latest_change = search.latest_change.max(changes.append_only_since);
        let parts = echoes.strip(line.no, col, &line.text);
        let whole = parts.len() == 1 && parts[0].1.len() == line.text.len();
        for (part_col, text) in &parts {
            if self.echo_skipped {
                self.echo_skipped = false;
                self.break_line(text_cursor(search.latest_change, line.no, *part_col));
            }
            search.latest_change = self.push_rows(
                text,
                text_cursor(search.latest_change, line.no, *part_col),
                &changes.later_rows,
            );
            search.pending_bytes += text.len() + 1;
            self.echo_skipped = !whole;
        }
        search.latest_change = search.latest_change.max(changes.touched);
        if parts.is_empty() {
            self.echo_skipped = true;
        } else if cursor.is_none_or(|cursor| !self.ends_at_cursor(line, col, cursor)) {
            let end = col + line.text.chars().count() as u32;
            self.push_stored("\n", text_cursor(search.latest_change, line.no, end));
            self.echo_skipped = false;
        }
        if search.pending_bytes >= SEARCH_CHUNK_BYTES {
            search.pending_bytes = 0;
            search.found = self.advance_matchers();
        }
    }

    /// Whether text printed next continues this line.
    fn ends_at_cursor(&self, line: &TextLine<'_>, col: u32, cursor: (LineNo, u32)) -> bool {
        cursor == (line.no, col + line.text.chars().count() as u32)
    }

    /// Adds the character before the start of the search to the window, not to be matched but for assertions such as
    /// `\b`. `context` returns the text of a selection.
    fn set_context(
        &mut self,
        (line, col): (LineNo, u32),
        context: impl FnOnce(LineSelection) -> Option<String>,
    ) {
        let Some(before) = col.checked_sub(1) else {
            return;
        };
        let at = |col| text_cursor(0, line, col);
        let Some(context) = context(LineSelection::Between(at(before), at(col))) else {
            return;
        };
        self.push_stored(&context, at(before));
        let min_start = self.window.end();
        self.pattern_matcher.skip_to(min_start);
        if let Some(fail) = &mut self.fail_matcher {
            fail.skip_to(min_start);
        }
    }

    /// Appends part of a line whose rows changed at different offsets. Returns the offset of the last row.
    fn push_rows(&mut self, mut text: &str, mut at: TextCursor, rows: &[(u32, u64)]) -> u64 {
        for &(col, grown_since) in rows {
            if col > at.col {
                let cut = text.char_indices().nth((col - at.col) as usize);
                let Some((cut, _)) = cut else { break };
                let (head, rest) = text.split_at(cut);
                self.push_stored(head, at);
                (at.col, text) = (col, rest);
            }
            at.offset = at.offset.max(Offset(grown_since));
        }
        self.push_stored(text, at);
        at.offset.0
    }
}

fn first_text<'a>(mut lines: impl Iterator<Item = (TextLine<'a>, LineChanges)>) -> Option<String> {
    lines.next().map(|(line, _)| line.text.into_owned())
}
