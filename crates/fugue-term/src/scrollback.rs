//! Scrollback: lines taken out of a terminal after leaving the screen, so that long output can be read without
//! storing it.
//!
//! A reader feeds the terminal chunk by chunk, takes the scrollback after each chunk ([`Terminal::take_scrollback`]),
//! and finally reads the remaining lines ([`Terminal::for_each_line`]). Together these are the lines of a terminal
//! that drops nothing.

use crate::cell::Style;
use crate::history::{HistoryPage, HistoryRow};
use crate::position::{LineNo, TextCursor};
use crate::terminal::Terminal;
use crate::text_lines::{LineChanges, LineCollector, TextLine};

/// Which lines of a text to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineSelection {
    /// This line and all later lines.
    From(LineNo),
    /// Text that is new since a cursor.
    Since(TextCursor),
    /// Text between two cursors, whenever written.
    Between(TextCursor, TextCursor),
}

impl LineSelection {
    /// All lines.
    pub const ALL: LineSelection = LineSelection::From(LineNo(0));
}

/// Complete lines that were taken out of a terminal, oldest first.
#[derive(Debug)]
pub struct Scrollback {
    pub(crate) pages: Vec<HistoryPage>,
}

impl Scrollback {
    /// Calls `visit` with every selected line, oldest first.
    pub fn for_each_line(&self, selection: LineSelection, mut visit: impl FnMut(&TextLine<'_>)) {
        self.for_each_line_with_changes(selection, |line, _| visit(line));
    }

    pub(crate) fn for_each_line_with_changes(
        &self,
        selection: LineSelection,
        mut visit: impl FnMut(&TextLine<'_>, &LineChanges),
    ) {
        for page in &self.pages {
            let (first, last) = page.line_numbers();
            let selected = match selection {
                LineSelection::From(line) => last >= line.0,
                LineSelection::Since(since) => page.is_changed_after(since.offset.0),
                LineSelection::Between(from, to) => last >= from.line.0 && first <= to.line.0,
            };
            if !selected {
                continue;
            }
            let mut collector = LineCollector::for_selection(selection);
            for (no, row) in page.rows() {
                collector.add_history_row(no, &row);
            }
            collector
                .into_lines()
                .for_each(|(line, changes)| visit(&line, &changes));
        }
    }

    /// The lines from `first` on, split by style, each with its number.
    pub fn styled_lines(&self, first: LineNo) -> Vec<(LineNo, Vec<(String, Style)>)> {
        let mut lines: Vec<(LineNo, Vec<(String, Style)>)> = Vec::new();
        let pages = self.pages.iter();
        for (no, row) in pages
            .filter(|page| page.line_numbers().1 >= first.0)
            .flat_map(HistoryPage::rows)
            .filter(|(no, _)| *no >= first.0)
        {
            if lines.last().is_none_or(|(last, _)| last.0 != no) {
                lines.push((LineNo(no), Vec::new()));
            }
            if let Some((_, runs)) = lines.last_mut() {
                add_runs(runs, &row);
            }
        }
        lines
    }
}

/// Appends a row to a line that is split by style.
pub(crate) fn add_runs(runs: &mut Vec<(String, Style)>, row: &HistoryRow<'_>) {
    row.runs()
        .for_each(|(text, style)| add_run(runs, text, style));
}

pub(crate) fn add_run(runs: &mut Vec<(String, Style)>, text: &str, style: Style) {
    match runs.last_mut() {
        Some((run, last)) if *last == style => run.push_str(text),
        _ => runs.push((text.to_owned(), style)),
    }
}

impl Terminal {
    /// Takes out the complete lines that have left the screen. The terminal continues as if these lines had been
    /// dropped.
    pub fn take_scrollback(&mut self) -> Scrollback {
        Scrollback {
            pages: self.state.history.take_pages(),
        }
    }

    /// Calls `visit` with every selected line that the terminal keeps, oldest first.
    pub fn for_each_line(&self, selection: LineSelection, mut visit: impl FnMut(&TextLine<'_>)) {
        self.state
            .selected_lines(selection)
            .for_each(|(line, _)| visit(&line));
    }

    /// Whether the selection includes lines that were already dropped.
    pub fn lacks_lines(&self, selection: LineSelection) -> bool {
        let first_kept = self.state.history.first_kept();
        match selection {
            LineSelection::From(line) => line.0 < first_kept,
            LineSelection::Since(since) => {
                first_kept > 0
                    && (self.state.history.last_dropped_change() > since.offset.0
                        || since.line.0 < first_kept)
            }
            LineSelection::Between(from, _) => from.line.0 < first_kept,
        }
    }

    /// The number of the line after the last line.
    pub fn line_count(&self) -> u64 {
        self.state.line_count()
    }
}
