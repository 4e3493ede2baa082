//! Lines taken out of a terminal once they have left its screen, so that a long output can be read without keeping it.
//!
//! A reader feeds the terminal piece by piece, takes the scrollback after each piece ([`Terminal::take_scrollback`]),
//! and at the end looks at the lines that are left ([`Terminal::visit`]). Together these are the lines that a terminal
//! that keeps everything would have.

use crate::cell::Style;
use crate::history::{Kept, Page};
use crate::lines::{Dates, Gather, TextLine};
use crate::place::{LineNo, TextCursor};
use crate::terminal::Terminal;

/// Which lines of a text are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineSelection {
    /// This line and all after it.
    From(LineNo),
    /// What is new since a cursor.
    Since(TextCursor),
    /// What lies between two cursors, whenever it was written.
    Between(TextCursor, TextCursor),
}

impl LineSelection {
    /// All lines.
    pub const ALL: LineSelection = LineSelection::From(LineNo(0));
}

/// Complete lines that were taken out of a terminal, oldest first.
#[derive(Debug)]
pub struct Scrollback {
    pub(crate) pages: Vec<Page>,
}

impl Scrollback {
    /// Hands every selected line to `visit`, oldest first.
    pub fn visit(&self, selection: LineSelection, mut visit: impl FnMut(&TextLine<'_>)) {
        self.visit_dated(selection, |line, _| visit(line));
    }

    pub(crate) fn visit_dated(
        &self,
        selection: LineSelection,
        mut visit: impl FnMut(&TextLine<'_>, &Dates),
    ) {
        for page in &self.pages {
            let (first, last) = page.line_numbers();
            let selected = match selection {
                LineSelection::From(line) => last >= line.0,
                LineSelection::Since(since) => page.is_touched_after(since.offset.0),
                LineSelection::Between(from, to) => last >= from.line.0 && first <= to.line.0,
            };
            if !selected {
                continue;
            }
            let mut gather = Gather::all_of(selection);
            for (no, row) in page.rows() {
                gather.kept_row(no, &row);
            }
            gather
                .into_lines()
                .for_each(|(line, dates)| visit(&line, &dates));
        }
    }

    /// The lines from `first` on, cut by style, each with its number.
    pub fn styled_lines(&self, first: LineNo) -> Vec<(LineNo, Vec<(String, Style)>)> {
        let mut lines: Vec<(LineNo, Vec<(String, Style)>)> = Vec::new();
        let pages = self.pages.iter();
        for (no, row) in pages
            .filter(|page| page.line_numbers().1 >= first.0)
            .flat_map(Page::rows)
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

/// Appends a row to a line that is cut by style.
pub(crate) fn add_runs(runs: &mut Vec<(String, Style)>, row: &Kept<'_>) {
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
    /// Takes out the lines that have left the screen and are complete. The terminal goes on as if it had dropped them.
    pub fn take_scrollback(&mut self) -> Scrollback {
        Scrollback {
            pages: self.machine.history.take_pages(),
        }
    }

    /// Hands every selected line that is kept here to `visit`, oldest first.
    pub fn visit(&self, selection: LineSelection, mut visit: impl FnMut(&TextLine<'_>)) {
        self.machine
            .selected_lines(selection)
            .for_each(|(line, _)| visit(&line));
    }

    /// Whether lines that are older than those kept here would be selected.
    pub fn lacks(&self, selection: LineSelection) -> bool {
        let first_kept = self.machine.history.first_kept();
        match selection {
            LineSelection::From(line) => line.0 < first_kept,
            LineSelection::Since(since) => {
                first_kept > 0
                    && (self.machine.history.dropped_touched() > since.offset.0
                        || since.line.0 < first_kept)
            }
            LineSelection::Between(from, _) => from.line.0 < first_kept,
        }
    }

    /// The number of the line that follows the last one.
    pub fn line_count(&self) -> u64 {
        self.machine.line_count()
    }
}
