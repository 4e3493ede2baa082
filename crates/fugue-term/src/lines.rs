//! The pane's text by lines: what is kept and what is on the main screen, as one.
//!
//! "What is new since a cursor" is answered per line: a line is new if any of it changed after the cursor's offset,
//! and of the cursor's own line only the part behind the cursor is new, unless something before it was rewritten.

use std::borrow::Cow;
use std::collections::VecDeque;

use crate::cell::Style;
use crate::history::Kept;
use crate::machine::Machine;
use crate::place::{LineNo, TextCursor};
use crate::row::{NEVER, Past};
use crate::scrollback::{LineSelection, add_run, add_runs};

/// Which lines to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineQuery {
    /// Only what is new since then.
    pub since: Option<TextCursor>,
    /// So many of the last ones.
    pub last: usize,
}

/// Lines, oldest first, and what is not among them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextLines<'a> {
    /// The lines.
    pub lines: Vec<TextLine<'a>>,
    /// How many that match were left out before the first, of those that are kept.
    pub omitted: usize,
    /// The oldest line that is kept.
    pub first_kept: LineNo,
    /// Whether lines that are no longer kept would have matched, and the window had room for them.
    pub older_lost: bool,
}

/// One logical line, or the part of it that was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextLine<'a> {
    /// Its number.
    pub no: LineNo,
    /// Its text, without control characters and without its newline.
    pub text: Cow<'a, str>,
    /// The beginning is left out: it was there before.
    pub cut: bool,
}

/// When a line was printed, as far as its rows know.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Dates {
    /// Last changed at all; 0 is never.
    pub(crate) touched: u64,
    /// Since then its first row was only added to.
    pub(crate) grown_since: u64,
    /// The same of its other rows, each with the column it starts at.
    pub(crate) more: Vec<(u32, u64)>,
}

impl Machine {
    pub(crate) fn lines(&self, query: &LineQuery) -> TextLines<'_> {
        self.dated_lines(query).0
    }

    /// The lines that are on the main screen, and the beginning of the first if it is above.
    pub(crate) fn screen_lines(&self) -> Vec<(TextLine<'_>, Dates)> {
        let mut gather = Gather {
            last: usize::MAX,
            ..Gather::default()
        };
        let (visible, _) = self.visible_rows();
        self.gather_screen(&mut gather, visible);
        gather.lines.into_iter().zip(gather.dates).collect()
    }

    /// Lines, and when each was printed.
    pub(crate) fn dated_lines(&self, query: &LineQuery) -> (TextLines<'_>, Vec<Dates>) {
        let first_kept = self.history.first_kept();
        let (visible, count) = self.visible_rows();
        let mut gather = Gather {
            since: query.since,
            last: query.last,
            ..Gather::default()
        };
        match query.since {
            None => {
                let end = self.history.screen_line() + count;
                let start = end.saturating_sub(query.last as u64).max(first_kept);
                gather.omitted = (start - first_kept) as usize;
                let rows = self.history.rows_from(start).filter(|(no, _)| *no >= start);
                rows.for_each(|(no, row)| {
                    gather.row(no, Cow::Borrowed(row.text), &row.past, row.continues)
                });
            }
            Some(since) => {
                let rows = self
                    .history
                    .rows_touched_after(since.offset.0)
                    .filter(|(no, _)| *no >= first_kept);
                rows.for_each(|(no, row)| {
                    gather.row(no, Cow::Borrowed(row.text), &row.past, row.continues)
                });
            }
        }
        self.gather_screen(&mut gather, visible);
        let older_lost = first_kept > 0
            && match query.since {
                None => gather.lines.len() < query.last,
                Some(since) => {
                    let lost = self.history.dropped_touched() > since.offset.0
                        || since.line.0 < first_kept;
                    lost && gather.lines.len() < query.last
                }
            };
        let dates = std::mem::take(&mut gather.dates);
        (gather.finish(first_kept, older_lost), dates.into())
    }

    /// The selected lines that are kept, and when each was printed.
    pub(crate) fn selected_lines(
        &self,
        selection: LineSelection,
    ) -> impl Iterator<Item = (TextLine<'_>, Dates)> {
        let first_kept = self.history.first_kept();
        let mut gather = Gather::all_of(selection);
        match selection {
            LineSelection::From(line) => self.gather_from(&mut gather, line.0.max(first_kept)),
            LineSelection::Between(from, _) => {
                self.gather_from(&mut gather, from.line.0.max(first_kept));
            }
            LineSelection::Since(since) => {
                let rows = self.history.rows_touched_after(since.offset.0);
                rows.filter(|(no, _)| *no >= first_kept)
                    .for_each(|(no, row)| gather.kept_row(no, &row));
            }
        }
        let (visible, _) = self.visible_rows();
        self.gather_screen(&mut gather, visible);
        gather.into_lines()
    }

    /// How many lines there have been, with those on the screen.
    pub(crate) fn line_count(&self) -> u64 {
        self.history.screen_line() + self.visible_rows().1
    }

    /// The lines of a stretch of text, whenever they were written.
    pub(crate) fn lines_between(
        &self,
        from: TextCursor,
        to: TextCursor,
        last: usize,
    ) -> TextLines<'_> {
        let first_kept = self.history.first_kept();
        let mut gather = Gather {
            last,
            between: Some((from, to)),
            ..Gather::default()
        };
        let start = from.line.0.max(first_kept);
        for (no, row) in self.history.rows_from(start).filter(|(no, _)| *no >= start) {
            if no > to.line.0 {
                break;
            }
            gather.row(no, Cow::Borrowed(row.text), &row.past, row.continues);
        }
        let (visible, _) = self.visible_rows();
        self.gather_screen(&mut gather, visible);
        let older_lost = from.line.0 < first_kept && gather.lines.len() < last;
        gather.finish(first_kept, older_lost)
    }

    fn gather_from<'a>(&'a self, gather: &mut Gather<'a>, start: u64) {
        let rows = self.history.rows_from(start).filter(|(no, _)| *no >= start);
        rows.for_each(|(no, row)| gather.kept_row(no, &row));
    }

    fn gather_screen<'a>(&'a self, gather: &mut Gather<'a>, visible: usize) {
        let mut no = self.history.screen_line();
        // The open line's beginning may not have been asked for (nothing in its page changed).
        let began = gather
            .pending
            .as_ref()
            .is_some_and(|pending| pending.no == no);
        if self.history.is_open() && !began {
            gather.flush();
            let rows = self.history.open_rows();
            rows.for_each(|row| gather.row(no, Cow::Borrowed(row.text), &row.past, row.continues));
        }
        let mut renumbered = self.history.renumbered();
        let mut continues = self.history.is_open();
        for row in self.main.rows.range(..visible) {
            let mut text = String::new();
            row.text_into(&self.clusters, &mut text);
            let low = match row.past.low {
                NEVER => NEVER,
                low => row
                    .chars_before(low.into(), &self.clusters)
                    .min(usize::from(NEVER) - 1) as u16,
            };
            let created = row.past.created.max(renumbered);
            gather.row(
                no,
                Cow::Owned(text),
                &Past {
                    low,
                    created,
                    ..row.past
                },
                continues,
            );
            continues = row.wrapped();
            renumbered = renumbered.max(row.past.rewrapped);
            no += u64::from(!row.wrapped());
        }
        gather.flush();
    }

    /// How many rows of the main screen are text, and how many lines they end. Blank rows at the end are none, nor
    /// is the one the cursor waits on, if it is blank and no line goes on in it.
    fn visible_rows(&self) -> (usize, u64) {
        let goes_on = |row: usize| match row.checked_sub(1) {
            Some(above) => self.main.rows[above].wrapped(),
            None => self.history.is_open(),
        };
        let used = self.main.last_used().map_or(0, |last| last + 1);
        let mut rows = used.max(self.main.cursor.y);
        while goes_on(rows) {
            rows += 1;
        }
        let lines = self
            .main
            .rows
            .range(..rows)
            .filter(|row| !row.wrapped())
            .count();
        (rows, lines as u64)
    }

    /// One line cut by style.
    pub(crate) fn styled_line(&self, line: LineNo) -> Vec<(String, Style)> {
        let mut runs: Vec<(String, Style)> = Vec::new();
        for (_, row) in self
            .history
            .rows_from(line.0)
            .filter(|(no, _)| *no == line.0)
        {
            add_runs(&mut runs, &row);
        }
        let mut no = self.history.screen_line();
        for row in &self.main.rows {
            if no == line.0 {
                for x in 0..row.used() {
                    let mut text = String::new();
                    row.text_range_into(x, x + 1, &self.clusters, &mut text);
                    add_run(&mut runs, &text, row.cell(x).style);
                }
            }
            no += u64::from(!row.wrapped());
        }
        runs
    }

    /// The end of the text: its last line, which is the cursor's if that is lower, and that line's length.
    pub(crate) fn text_end(&self) -> (LineNo, u32) {
        let y = self.main.last_used().unwrap_or(0).max(self.main.cursor.y);
        self.position(y, self.main.cols)
    }

    /// Where in the text the terminal's cursor is.
    pub(crate) fn text_position(&self) -> (LineNo, u32) {
        self.position(self.main.cursor.y, self.main.cursor.x)
    }

    fn position(&self, y: usize, x: usize) -> (LineNo, u32) {
        let rows = &self.main.rows;
        let start = self.line_start(y);
        let ended = rows.range(..y).filter(|row| !row.wrapped()).count() as u64;
        let before: usize = rows
            .range(start..y)
            .map(|row| row.chars_before(self.main.cols, &self.clusters))
            .sum();
        let head = if start == 0 {
            self.history.open_chars()
        } else {
            0
        };
        let col = head + before + rows[y].chars_before(x, &self.clusters);
        (LineNo(self.history.screen_line() + ended), col as u32)
    }

    /// The first row of the line that row `y` of the main screen belongs to.
    fn line_start(&self, y: usize) -> usize {
        (0..y)
            .rev()
            .take_while(|&above| self.main.rows[above].wrapped())
            .last()
            .unwrap_or(y)
    }

    /// The text before the cursor in its line, of the screen that is shown.
    pub(crate) fn cursor_line(&self) -> String {
        let grid = self.shown();
        let y = grid.cursor.y;
        let start = (0..y)
            .rev()
            .take_while(|&above| grid.rows[above].wrapped())
            .last()
            .unwrap_or(y);
        let mut text = String::new();
        if self.alt.is_none() && start == 0 {
            text.extend(self.history.open_rows().map(|row| row.text));
        }
        for row in grid.rows.range(start..y) {
            row.text_into(&self.clusters, &mut text);
        }
        let row = &grid.rows[y];
        row.text_range_into(0, grid.cursor.x.min(row.used()), &self.clusters, &mut text);
        text
    }
}

/// Joins rows to lines and keeps the last ones that match.
#[derive(Default)]
pub(crate) struct Gather<'a> {
    /// Lines before this one are not wanted.
    start: u64,
    since: Option<TextCursor>,
    between: Option<(TextCursor, TextCursor)>,
    last: usize,
    lines: VecDeque<TextLine<'a>>,
    /// One for each line.
    dates: VecDeque<Dates>,
    omitted: usize,
    pending: Option<Pending<'a>>,
}

struct Pending<'a> {
    no: u64,
    text: Cow<'a, str>,
    /// So many characters are in so many bytes of it.
    chars: usize,
    counted: usize,
    dates: Dates,
    /// Nothing before the reader's column was rewritten since.
    intact: bool,
}

impl<'a> Gather<'a> {
    /// For every line that is selected.
    pub(crate) fn all_of(selection: LineSelection) -> Self {
        let mut gather = Gather {
            last: usize::MAX,
            ..Gather::default()
        };
        match selection {
            LineSelection::From(line) => gather.start = line.0,
            LineSelection::Since(since) => gather.since = Some(since),
            LineSelection::Between(from, to) => gather.between = Some((from, to)),
        }
        gather
    }

    pub(crate) fn kept_row(&mut self, no: u64, row: &Kept<'a>) {
        self.row(no, Cow::Borrowed(row.text), &row.past, row.continues);
    }

    pub(crate) fn into_lines(mut self) -> impl Iterator<Item = (TextLine<'a>, Dates)> {
        self.flush();
        self.lines.into_iter().zip(self.dates)
    }

    fn row(&mut self, no: u64, text: Cow<'a, str>, past: &Past, continues: bool) {
        if !continues {
            self.flush();
        }
        match &mut self.pending {
            None => {
                let intact = self.since.is_some_and(|since| past.is_intact(0, since));
                self.pending = Some(Pending {
                    no,
                    chars: 0,
                    counted: 0,
                    text,
                    dates: Dates {
                        touched: past.touched,
                        grown_since: past.grown_since(),
                        more: Vec::new(),
                    },
                    intact,
                });
            }
            Some(pending) => {
                pending.chars += pending.text[pending.counted..].chars().count();
                pending.counted = pending.text.len();
                let start = pending.chars;
                if let Some(since) = self.since {
                    pending.intact &= past.is_intact(start, since);
                }
                pending.dates.more.push((start as u32, past.grown_since()));
                pending.text.to_mut().push_str(&text);
                pending.dates.touched = pending.dates.touched.max(past.touched);
            }
        }
    }

    fn flush(&mut self) {
        let Some(pending) = self.pending.take() else {
            return;
        };
        if pending.no < self.start {
            return;
        }
        let no = LineNo(pending.no);
        let mut line = TextLine {
            no,
            text: pending.text,
            cut: false,
        };
        if let Some(since) = self.since {
            if pending.dates.touched <= since.offset.0 {
                return;
            }
            if since.line == no && since.col > 0 && pending.intact {
                line.text = skip_chars(line.text, since.col);
                line.cut = true;
                if line.text.is_empty() {
                    return;
                }
            }
        }
        if let Some((from, to)) = self.between {
            // A stretch that ends before a line's first character does not have that line.
            let begin = if no == from.line { from.col } else { 0 };
            if no < from.line || no > to.line || no == to.line && to.col <= begin {
                return;
            }
            if no == to.line {
                line.text = take_chars(line.text, to.col);
            }
            if no == from.line && from.col > 0 {
                line.text = skip_chars(line.text, from.col);
                line.cut = true;
            }
        }
        self.lines.push_back(line);
        self.dates.push_back(pending.dates);
        if self.lines.len() > self.last {
            self.lines.pop_front();
            self.dates.pop_front();
            self.omitted += 1;
        }
    }

    fn finish(self, first_kept: u64, older_lost: bool) -> TextLines<'a> {
        TextLines {
            lines: self.lines.into(),
            omitted: self.omitted,
            first_kept: LineNo(first_kept),
            older_lost,
        }
    }
}

impl Past {
    /// Behind this offset the row was only added to.
    fn grown_since(&self) -> u64 {
        self.created.max(self.rewritten)
    }

    /// Whether the part of this row before the reader's column is as it was then. The row's text starts at
    /// character `start` of its line, and `low` counts characters.
    fn is_intact(&self, start: usize, since: TextCursor) -> bool {
        let col = since.col as usize;
        let then = since.offset.0;
        col <= start
            || self.created <= then
                && (self.low == NEVER
                    || self.rewritten <= then
                    || start + usize::from(self.low) >= col)
    }
}

fn char_index(text: &str, chars: u32) -> usize {
    text.char_indices()
        .nth(chars as usize)
        .map_or(text.len(), |(at, _)| at)
}

fn skip_chars(text: Cow<'_, str>, chars: u32) -> Cow<'_, str> {
    let at = char_index(&text, chars);
    match text {
        Cow::Borrowed(text) => Cow::Borrowed(&text[at..]),
        Cow::Owned(mut text) => Cow::Owned(text.split_off(at)),
    }
}

fn take_chars(text: Cow<'_, str>, chars: u32) -> Cow<'_, str> {
    let at = char_index(&text, chars);
    match text {
        Cow::Borrowed(text) => Cow::Borrowed(&text[..at]),
        Cow::Owned(mut text) => {
            text.truncate(at);
            Cow::Owned(text)
        }
    }
}
