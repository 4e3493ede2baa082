//! The pane's text by lines: the history and the main screen as one text.
//!
//! New text since a cursor is determined per line: a line is new if any of its rows changed after the cursor's
//! offset. Of the cursor's own line, only the part after the cursor is new, unless something before the cursor was
//! rewritten.

use std::borrow::Cow;
use std::collections::VecDeque;

use crate::cell::Style;
use crate::history::HistoryRow;
use crate::position::{LineNo, TextCursor};
use crate::row::{NO_COLUMN, RowChanges};
use crate::scrollback::{LineSelection, add_run, add_runs};
use crate::terminal_state::TerminalState;

/// Which lines to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineQuery {
    /// Only text that is new since this cursor.
    pub since: Option<TextCursor>,
    /// The maximum number of lines: the last lines that match.
    pub last: usize,
}

/// Lines, oldest first, and what was left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextLines<'a> {
    /// The lines.
    pub lines: Vec<TextLine<'a>>,
    /// How many stored lines that match were left out before the first line.
    pub omitted: usize,
    /// The oldest stored line.
    pub first_kept: LineNo,
    /// Whether lines that were already dropped would have matched, within the maximum number of lines.
    pub older_lost: bool,
}

/// One logical line, or the requested part of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextLine<'a> {
    /// The line number.
    pub no: LineNo,
    /// The text, without control characters and without the newline.
    pub text: Cow<'a, str>,
    /// The text lacks the beginning of the line, which is not new.
    pub cut: bool,
}

/// The offsets at which a line changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LineChanges {
    /// The last change of any kind; 0 if the line never changed.
    pub(crate) touched: u64,
    /// The offset since which the first row was only appended to.
    pub(crate) append_only_since: u64,
    /// The same offset for the other rows, each with the column at which the row starts.
    pub(crate) later_rows: Vec<(u32, u64)>,
}

impl TerminalState {
    /// The lines on the main screen; the first line includes its beginning in the history.
    pub(crate) fn screen_lines(&self) -> Vec<(TextLine<'_>, LineChanges)> {
        let mut collector = LineCollector {
            last: usize::MAX,
            ..LineCollector::default()
        };
        let (visible, _) = self.text_rows();
        self.collect_screen(&mut collector, visible);
        collector.lines.into_iter().zip(collector.changes).collect()
    }

    /// The last lines that match a query.
    pub(crate) fn lines(&self, query: &LineQuery) -> TextLines<'_> {
        let first_kept = self.history.first_kept();
        let (visible, count) = self.text_rows();
        let mut collector = LineCollector {
            since: query.since,
            last: query.last,
            ..LineCollector::default()
        };
        match query.since {
            None => {
                let end = self.history.screen_line() + count;
                let start = end.saturating_sub(query.last as u64).max(first_kept);
                collector.omitted = (start - first_kept) as usize;
                let rows = self.history.rows_from(start).filter(|(no, _)| *no >= start);
                rows.for_each(|(no, row)| collector.add_history_row(no, &row));
            }
            Some(since) => {
                let rows = self
                    .history
                    .rows_changed_after(since.offset.0)
                    .filter(|(no, _)| *no >= first_kept);
                rows.for_each(|(no, row)| collector.add_history_row(no, &row));
            }
        }
        self.collect_screen(&mut collector, visible);
        let older_lost = first_kept > 0
            && match query.since {
                None => collector.lines.len() < query.last,
                Some(since) => {
                    let lost = self.history.last_dropped_change() > since.offset.0
                        || since.line.0 < first_kept;
                    lost && collector.lines.len() < query.last
                }
            };
        collector.finish(first_kept, older_lost)
    }

    /// The selected lines with their change offsets, as far as stored.
    pub(crate) fn selected_lines(
        &self,
        selection: LineSelection,
    ) -> impl Iterator<Item = (TextLine<'_>, LineChanges)> {
        let first_kept = self.history.first_kept();
        let mut collector = LineCollector::for_selection(selection);
        match selection {
            LineSelection::From(line) => {
                self.collect_history(&mut collector, line.0.max(first_kept))
            }
            LineSelection::Between(from, _) => {
                self.collect_history(&mut collector, from.line.0.max(first_kept));
            }
            LineSelection::Since(since) => {
                let rows = self.history.rows_changed_after(since.offset.0);
                rows.filter(|(no, _)| *no >= first_kept)
                    .for_each(|(no, row)| collector.add_history_row(no, &row));
            }
        }
        let (visible, _) = self.text_rows();
        self.collect_screen(&mut collector, visible);
        collector.into_lines()
    }

    /// The number of lines so far, including the lines on the screen.
    pub(crate) fn line_count(&self) -> u64 {
        self.history.screen_line() + self.text_rows().1
    }

    /// The lines between two cursors, whenever written.
    pub(crate) fn lines_between(
        &self,
        from: TextCursor,
        to: TextCursor,
        last: usize,
    ) -> TextLines<'_> {
        let first_kept = self.history.first_kept();
        let mut collector = LineCollector {
            last,
            between: Some((from, to)),
            ..LineCollector::default()
        };
        let start = from.line.0.max(first_kept);
        for (no, row) in self.history.rows_from(start).filter(|(no, _)| *no >= start) {
            if no > to.line.0 {
                break;
            }
            collector.add_history_row(no, &row);
        }
        let (visible, _) = self.text_rows();
        self.collect_screen(&mut collector, visible);
        let older_lost = from.line.0 < first_kept && collector.lines.len() < last;
        collector.finish(first_kept, older_lost)
    }

    fn collect_history<'a>(&'a self, collector: &mut LineCollector<'a>, start: u64) {
        let rows = self.history.rows_from(start).filter(|(no, _)| *no >= start);
        rows.for_each(|(no, row)| collector.add_history_row(no, &row));
    }

    fn collect_screen<'a>(&'a self, collector: &mut LineCollector<'a>, visible: usize) {
        let mut no = self.history.screen_line();
        // The open line's beginning may not have been read, because nothing in its page changed.
        let began = collector
            .partial
            .as_ref()
            .is_some_and(|partial| partial.no == no);
        if self.history.is_open() && !began {
            collector.finish_line();
            let rows = self.history.open_rows();
            rows.for_each(|row| collector.add_history_row(no, &row));
        }
        let mut renumbered_at = self.history.renumbered_at();
        let mut continues = self.history.is_open();
        for row in self.main.rows.range(..visible) {
            let mut text = String::new();
            row.text_into(&self.clusters, &mut text);
            let first_rewritten = match row.changes.first_rewritten {
                NO_COLUMN => NO_COLUMN,
                first_rewritten => row
                    .chars_before(first_rewritten.into(), &self.clusters)
                    .min(usize::from(NO_COLUMN) - 1) as u16,
            };
            let created = row.changes.created.max(renumbered_at);
            collector.add_row(
                no,
                Cow::Owned(text),
                &RowChanges {
                    first_rewritten,
                    created,
                    ..row.changes
                },
                continues,
            );
            continues = row.is_wrapped();
            renumbered_at = renumbered_at.max(row.changes.wrap_changed);
            no += u64::from(!row.is_wrapped());
        }
        collector.finish_line();
    }

    /// The number of rows of the main screen that are text, and the number of lines that these rows end. Blank rows
    /// at the end do not count, nor does the cursor's row if blank and not the continuation of a line.
    fn text_rows(&self) -> (usize, u64) {
        let continues = |row: usize| match row.checked_sub(1) {
            Some(above) => self.main.rows[above].is_wrapped(),
            None => self.history.is_open(),
        };
        let used = self.main.last_used_row().map_or(0, |last| last + 1);
        let mut rows = used.max(self.main.cursor.y);
        while continues(rows) {
            rows += 1;
        }
        let lines = self
            .main
            .rows
            .range(..rows)
            .filter(|row| !row.is_wrapped())
            .count();
        (rows, lines as u64)
    }

    /// One line split by style.
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
            no += u64::from(!row.is_wrapped());
        }
        runs
    }

    /// The end of the text: the last line, or the cursor's line if lower, and the length of that line.
    pub(crate) fn text_end(&self) -> (LineNo, u32) {
        let y = self
            .main
            .last_used_row()
            .unwrap_or(0)
            .max(self.main.cursor.y);
        self.position_at(y, self.main.cols)
    }

    /// The position of the terminal's cursor in the text.
    pub(crate) fn text_position(&self) -> (LineNo, u32) {
        self.position_at(self.main.cursor.y, self.main.cursor.x)
    }

    fn position_at(&self, y: usize, x: usize) -> (LineNo, u32) {
        let rows = &self.main.rows;
        let start = self.line_start(y);
        let ended = rows.range(..y).filter(|row| !row.is_wrapped()).count() as u64;
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
            .take_while(|&above| self.main.rows[above].is_wrapped())
            .last()
            .unwrap_or(y)
    }

    /// The text before the cursor in its line, on the visible screen.
    pub(crate) fn cursor_line(&self) -> String {
        let grid = self.active_grid();
        let y = grid.cursor.y;
        let start = (0..y)
            .rev()
            .take_while(|&above| grid.rows[above].is_wrapped())
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

/// Joins rows to lines and keeps the last lines that match.
#[derive(Default)]
pub(crate) struct LineCollector<'a> {
    /// Lines before this line are skipped.
    start: u64,
    since: Option<TextCursor>,
    between: Option<(TextCursor, TextCursor)>,
    last: usize,
    lines: VecDeque<TextLine<'a>>,
    /// The change offsets of each line.
    changes: VecDeque<LineChanges>,
    omitted: usize,
    partial: Option<PartialLine<'a>>,
}

struct PartialLine<'a> {
    no: u64,
    text: Cow<'a, str>,
    /// The number of characters in the first `counted_bytes` bytes of the text.
    counted_chars: usize,
    counted_bytes: usize,
    changes: LineChanges,
    /// No text before the reader's column was rewritten since the reader's offset.
    prefix_unchanged: bool,
}

impl<'a> LineCollector<'a> {
    /// A collector of every selected line.
    pub(crate) fn for_selection(selection: LineSelection) -> Self {
        let mut collector = LineCollector {
            last: usize::MAX,
            ..LineCollector::default()
        };
        match selection {
            LineSelection::From(line) => collector.start = line.0,
            LineSelection::Since(since) => collector.since = Some(since),
            LineSelection::Between(from, to) => collector.between = Some((from, to)),
        }
        collector
    }

    pub(crate) fn add_history_row(&mut self, no: u64, row: &HistoryRow<'a>) {
        self.add_row(no, Cow::Borrowed(row.text), &row.changes, row.continues);
    }

    pub(crate) fn into_lines(mut self) -> impl Iterator<Item = (TextLine<'a>, LineChanges)> {
        self.finish_line();
        self.lines.into_iter().zip(self.changes)
    }

    fn add_row(&mut self, no: u64, text: Cow<'a, str>, changes: &RowChanges, continues: bool) {
        if !continues {
            self.finish_line();
        }
        match &mut self.partial {
            None => {
                let prefix_unchanged = self
                    .since
                    .is_some_and(|since| changes.is_prefix_unchanged(0, since));
                self.partial = Some(PartialLine {
                    no,
                    counted_chars: 0,
                    counted_bytes: 0,
                    text,
                    changes: LineChanges {
                        touched: changes.touched,
                        append_only_since: changes.append_only_since(),
                        later_rows: Vec::new(),
                    },
                    prefix_unchanged,
                });
            }
            Some(partial) => {
                partial.counted_chars += partial.text[partial.counted_bytes..].chars().count();
                partial.counted_bytes = partial.text.len();
                let start = partial.counted_chars;
                if let Some(since) = self.since {
                    partial.prefix_unchanged &= changes.is_prefix_unchanged(start, since);
                }
                partial
                    .changes
                    .later_rows
                    .push((start as u32, changes.append_only_since()));
                partial.text.to_mut().push_str(&text);
                partial.changes.touched = partial.changes.touched.max(changes.touched);
            }
        }
    }

    fn finish_line(&mut self) {
        let Some(partial) = self.partial.take() else {
            return;
        };
        if partial.no < self.start {
            return;
        }
        let no = LineNo(partial.no);
        let mut line = TextLine {
            no,
            text: partial.text,
            cut: false,
        };
        if let Some(since) = self.since {
            if partial.changes.touched <= since.offset.0 {
                return;
            }
            if since.line == no && since.col > 0 && partial.prefix_unchanged {
                line.text = skip_chars(line.text, since.col);
                line.cut = true;
                if line.text.is_empty() {
                    return;
                }
            }
        }
        if let Some((from, to)) = self.between {
            // A range that ends before the first character of a line does not include the line.
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
        self.changes.push_back(partial.changes);
        if self.lines.len() > self.last {
            self.lines.pop_front();
            self.changes.pop_front();
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

impl RowChanges {
    /// The offset since which the row was only appended to.
    fn append_only_since(&self) -> u64 {
        self.created.max(self.rewritten)
    }

    /// Whether the part of this row before the reader's column is unchanged since the reader's offset. The row's text
    /// starts at character `start` of its line, and `first_rewritten` counts characters.
    fn is_prefix_unchanged(&self, start: usize, since: TextCursor) -> bool {
        let col = since.col as usize;
        let then = since.offset.0;
        col <= start
            || self.created <= then
                && (self.first_rewritten == NO_COLUMN
                    || self.rewritten <= then
                    || start + usize::from(self.first_rewritten) >= col)
    }
}

/// The byte index of the character with index `chars`, or the length of the text.
pub(crate) fn byte_index(text: &str, chars: u32) -> usize {
    text.char_indices()
        .nth(chars as usize)
        .map_or(text.len(), |(at, _)| at)
}

fn skip_chars(text: Cow<'_, str>, chars: u32) -> Cow<'_, str> {
    let at = byte_index(&text, chars);
    match text {
        Cow::Borrowed(text) => Cow::Borrowed(&text[at..]),
        Cow::Owned(mut text) => Cow::Owned(text.split_off(at)),
    }
}

fn take_chars(text: Cow<'_, str>, chars: u32) -> Cow<'_, str> {
    let at = byte_index(&text, chars);
    match text {
        Cow::Borrowed(text) => Cow::Borrowed(&text[..at]),
        Cow::Owned(mut text) => {
            text.truncate(at);
            Cow::Owned(text)
        }
    }
}
