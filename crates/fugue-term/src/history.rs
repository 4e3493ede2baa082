//! The history: rows that have left the main screen, as UTF-8 text in pages, the oldest pages dropped first.
//!
//! A stored row never changes. A page stores the text of its rows in one string, and a few bytes per row: length,
//! whether the row continues the line of the row before, change offsets and style runs. Ten thousand coloured lines
//! take about a megabyte, and reading all of them is a walk over a few strings.

use std::collections::VecDeque;

use crate::cell::Style;
use crate::clusters::ClusterTable;
use crate::row::{NO_COLUMN, Row, RowChanges};
use crate::varint;

/// The size at which a page is full: large enough that pages are few, small enough that dropping a page drops few
/// lines too many.
const FULL_PAGE_BYTES: usize = 32 * 1024;

/// The limit of one line. A longer line is broken, so that endless output without a newline can be dropped line by
/// line too.
const MAX_LINE_BYTES: usize = 256 * 1024;

/// The limit for all text of a pane, whatever its lines are like. Typical lines need a tenth of the limit.
const MAX_BYTES: usize = 16 * 1024 * 1024;
/// The share of the limit per line in `max_bytes`. Longer than any line a person reads; ten thousand such lines reach
/// `MAX_BYTES`.
const BYTES_PER_LINE: usize = 1_600;

/// The rows that have left the main screen.
#[derive(Debug)]
pub(crate) struct History {
    pages: VecDeque<HistoryPage>,
    keep_lines: usize,
    /// The number of the next line to begin.
    next_line: u64,
    /// Set while the last line continues in the first row of the screen.
    open_line: Option<OpenLine>,
    /// The total size of all pages but the last.
    closed_page_bytes: usize,
    /// Style runs of the row being stored; a field so that the buffer is allocated once.
    run_buffer: Vec<u8>,
    /// The last change of any dropped line, as an offset.
    last_dropped_change: u64,
    /// The last time that a stored row renumbered the lines below, as an offset.
    renumbered_at: u64,
    /// How many lines were broken at `MAX_LINE_BYTES`. Each break renumbers the lines below.
    forced_breaks: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct OpenLine {
    bytes: usize,
    chars: usize,
}

/// Part of the stored rows: whole lines, about `FULL_PAGE_BYTES` in total.
#[derive(Debug)]
pub(crate) struct HistoryPage {
    /// The number of the first line. A page starts at the beginning of a line.
    first_line: u64,
    lines: usize,
    text: String,
    /// The encoded header of each row: see `write_row_header`.
    rows: Vec<u8>,
    styles: Vec<Style>,
    /// `touched` of the last row, from which the next row is delta-encoded.
    last_touched: u64,
    max_touched: u64,
}

/// One stored row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HistoryRow<'a> {
    pub(crate) text: &'a str,
    /// The row continues the line of the row before.
    pub(crate) continues: bool,
    /// Change offsets; `first_rewritten` counts characters here, not columns.
    pub(crate) changes: RowChanges,
    runs: &'a [u8],
    styles: &'a [Style],
}

impl History {
    pub(crate) fn new(keep_lines: usize, next: u64) -> Self {
        History {
            pages: VecDeque::new(),
            keep_lines,
            next_line: next,
            open_line: None,
            closed_page_bytes: 0,
            run_buffer: Vec::new(),
            last_dropped_change: 0,
            renumbered_at: 0,
            forced_breaks: 0,
        }
    }

    /// The line that the first row of the screen belongs to.
    pub(crate) fn screen_line(&self) -> u64 {
        self.next_line - u64::from(self.open_line.is_some())
    }

    /// Whether the first line of the screen began in the history.
    pub(crate) fn is_open(&self) -> bool {
        self.open_line.is_some()
    }

    /// How many characters of the first line of the screen are in the history.
    pub(crate) fn open_chars(&self) -> usize {
        self.open_line.map_or(0, |open| open.chars)
    }

    /// The oldest stored line, or the first line of the screen if no line is stored.
    pub(crate) fn first_kept(&self) -> u64 {
        let first = self
            .pages
            .front()
            .map_or(self.screen_line(), |page| page.first_line);
        first.max(self.next_line.saturating_sub(self.keep_lines.max(1) as u64))
    }

    /// The last change of any dropped line, as an offset.
    pub(crate) fn last_dropped_change(&self) -> u64 {
        self.last_dropped_change
    }

    /// Restores the change offsets of lines from before a checkpoint.
    pub(crate) fn restore_change_offsets(&mut self, touched: u64, renumbered_at: u64) {
        self.last_dropped_change = touched;
        self.renumbered_at = renumbered_at;
    }

    /// Separates the last stored row from the first row of the screen, because the two are no longer adjacent.
    pub(crate) fn close_line(&mut self, now: u64) {
        if self.open_line.take().is_some() {
            self.renumbered_at = now;
        }
    }

    /// The offset since which the line numbers below have not been changed by the history.
    pub(crate) fn renumbered_at(&self) -> u64 {
        self.renumbered_at
    }

    /// How many lines were broken because of their length.
    pub(crate) fn forced_breaks(&self) -> u64 {
        self.forced_breaks
    }

    /// Stores a row that leaves the screen at the top.
    pub(crate) fn push(&mut self, row: &Row, clusters: &ClusterTable) {
        let mut runs = std::mem::take(&mut self.run_buffer);
        runs.clear();
        let page = self.writable_page();
        let begin = page.text.len();
        page.write_row(row, clusters, &mut runs);
        let first_rewritten = match row.changes.first_rewritten {
            NO_COLUMN => NO_COLUMN,
            first_rewritten => row
                .chars_before(usize::from(first_rewritten), clusters)
                .min(usize::from(NO_COLUMN) - 1) as u16,
        };
        let len = page.text.len() - begin;
        let created = row.changes.created.max(self.renumbered_at);
        self.finish_row(
            begin,
            len,
            row.is_wrapped(),
            RowChanges {
                first_rewritten,
                created,
                ..row.changes
            },
            &runs,
        );
        self.renumbered_at = self.renumbered_at.max(row.changes.wrap_changed);
        self.run_buffer = runs;
    }

    /// Stores a row from a checkpoint; `wrapped` if its line continues.
    pub(crate) fn restore_row(&mut self, text: &str, changes: RowChanges, wrapped: bool) {
        let page = self.writable_page();
        let begin = page.text.len();
        page.text.push_str(text);
        self.finish_row(begin, text.len(), wrapped, changes, &[]);
    }

    /// The rows of the line that the first row of the screen continues.
    pub(crate) fn open_rows(&self) -> impl Iterator<Item = HistoryRow<'_>> {
        let from = if self.is_open() {
            self.screen_line()
        } else {
            u64::MAX
        };
        self.rows_from(from)
            .filter(move |(no, _)| *no == from)
            .map(|(_, row)| row)
    }

    /// The last change of any stored or dropped line, as an offset.
    pub(crate) fn last_change(&self) -> u64 {
        self.pages
            .iter()
            .map(|page| page.max_touched)
            .fold(self.last_dropped_change, u64::max)
    }

    /// All rows from the page of `line` on, each with its line number.
    pub(crate) fn rows_from(&self, line: u64) -> impl Iterator<Item = (u64, HistoryRow<'_>)> {
        self.pages_from(line).flat_map(HistoryPage::rows)
    }

    /// All rows of the pages that changed after `offset`, each with its line number.
    pub(crate) fn rows_changed_after(
        &self,
        offset: u64,
    ) -> impl Iterator<Item = (u64, HistoryRow<'_>)> {
        self.pages
            .iter()
            .filter(move |page| page.max_touched > offset)
            .flat_map(HistoryPage::rows)
    }

    fn pages_from(&self, line: u64) -> impl Iterator<Item = &HistoryPage> {
        let skip = self
            .pages
            .partition_point(|page| page.first_line + page.lines as u64 <= line);
        self.pages.range(skip..)
    }

    fn writable_page(&mut self) -> &mut HistoryPage {
        let full = self.pages.back().is_none_or(HistoryPage::is_full);
        if self.pages.is_empty() || full && self.open_line.is_none() {
            if let Some(page) = self.pages.back_mut() {
                page.shrink();
                self.closed_page_bytes += page.byte_size();
            }
            self.pages.push_back(HistoryPage::new(self.next_line));
        }
        let last = self.pages.len() - 1;
        &mut self.pages[last]
    }

    fn finish_row(
        &mut self,
        begin: usize,
        len: usize,
        wrapped: bool,
        changes: RowChanges,
        runs: &[u8],
    ) {
        let last = self.pages.len() - 1;
        let page = &mut self.pages[last];
        let continues = self.open_line.is_some();
        if !continues {
            page.lines += 1;
            self.next_line += 1;
        }
        let mut open = self.open_line.take().unwrap_or_default();
        open.bytes += len;
        page.write_row_header(len, continues, changes, runs);
        if wrapped && open.bytes < MAX_LINE_BYTES {
            open.chars += page.text[begin..].chars().count();
            self.open_line = Some(open);
        }
        self.forced_breaks += u64::from(wrapped && self.open_line.is_none());
        self.drop_old();
    }

    /// The size limit, raised in proportion to the configured number of lines.
    fn max_bytes(&self) -> usize {
        self.keep_lines
            .saturating_mul(BYTES_PER_LINE)
            .max(MAX_BYTES)
    }

    /// Removes and returns all pages, except a last page with a line that continues in the first row of the screen.
    pub(crate) fn take_pages(&mut self) -> Vec<HistoryPage> {
        let stays = usize::from(self.open_line.is_some()).min(self.pages.len());
        let taken: Vec<HistoryPage> = self.pages.drain(..self.pages.len() - stays).collect();
        self.closed_page_bytes = 0;
        let touched = taken.iter().map(|page| page.max_touched);
        self.last_dropped_change = touched.fold(self.last_dropped_change, u64::max);
        taken
    }

    fn drop_old(&mut self) {
        while self.pages.len() > 1 {
            let lines: u64 = self.next_line - self.pages[1].first_line;
            let too_many = lines >= self.keep_lines as u64;
            if !too_many && self.closed_page_bytes <= self.max_bytes() {
                break;
            }
            if let Some(page) = self.pages.pop_front() {
                self.closed_page_bytes -= page.byte_size();
                self.last_dropped_change = self.last_dropped_change.max(page.max_touched);
            }
        }
    }
}

impl HistoryPage {
    fn new(first: u64) -> Self {
        HistoryPage {
            first_line: first,
            lines: 0,
            text: String::new(),
            rows: Vec::new(),
            styles: vec![Style::default()],
            last_touched: 0,
            max_touched: 0,
        }
    }

    fn is_full(&self) -> bool {
        self.byte_size() >= FULL_PAGE_BYTES
    }

    fn byte_size(&self) -> usize {
        self.text.len() + self.rows.len() + self.styles.len() * size_of::<Style>()
    }

    fn shrink(&mut self) {
        self.text.shrink_to_fit();
        self.rows.shrink_to_fit();
        self.styles.shrink_to_fit();
    }

    fn write_row(&mut self, row: &Row, clusters: &ClusterTable, runs: &mut Vec<u8>) {
        let cells = &row.cells()[..row.used()];
        let mut start = 0;
        while start < cells.len() {
            let style = cells[start].style;
            let end = cells[start..]
                .iter()
                .position(|cell| cell.style != style)
                .map_or(cells.len(), |n| start + n);
            let before = self.text.len();
            row.text_range_into(start, end, clusters, &mut self.text);
            let whole = start == 0 && end == cells.len();
            // A plain row, by far the most common kind, has no runs.
            if !whole || style != Style::default() {
                let index = self.style_index(style);
                varint::put(runs, (self.text.len() - before) as u64);
                varint::put(runs, index);
            }
            start = end;
        }
    }

    /// Searches only the most recent styles: adjacent rows share styles, and a gradient uses each style once.
    fn style_index(&mut self, style: Style) -> u64 {
        if style == Style::default() {
            return 0;
        }
        let recent = self.styles.len().saturating_sub(32);
        match self.styles[recent..]
            .iter()
            .rposition(|known| *known == style)
        {
            Some(at) => (recent + at) as u64,
            None => {
                self.styles.push(style);
                (self.styles.len() - 1) as u64
            }
        }
    }

    fn write_row_header(&mut self, len: usize, continues: bool, changes: RowChanges, runs: &[u8]) {
        let rewritten = changes.first_rewritten != NO_COLUMN;
        let flags =
            u64::from(!runs.is_empty()) | u64::from(continues) << 1 | u64::from(rewritten) << 2;
        let out = &mut self.rows;
        varint::put(out, (len as u64) << 3 | flags);
        varint::put_signed(out, changes.touched.wrapping_sub(self.last_touched) as i64);
        // `created` and `rewritten` only matter to a reader if `touched` is after the reader's offset, so a value
        // later than `touched` can be stored as equal to `touched`.
        varint::put(out, changes.touched.saturating_sub(changes.created));
        if rewritten {
            varint::put(out, changes.touched.saturating_sub(changes.rewritten));
            varint::put(out, u64::from(changes.first_rewritten));
        }
        if !runs.is_empty() {
            varint::put(out, runs.len() as u64);
            out.extend_from_slice(runs);
        }
        self.last_touched = changes.touched;
        self.max_touched = self.max_touched.max(changes.touched);
    }

    /// The numbers of the first and last line.
    pub(crate) fn line_numbers(&self) -> (u64, u64) {
        (
            self.first_line,
            self.first_line + (self.lines as u64).max(1) - 1,
        )
    }

    /// Whether any row changed after `offset`.
    pub(crate) fn is_changed_after(&self, offset: u64) -> bool {
        self.max_touched > offset
    }

    pub(crate) fn rows(&self) -> impl Iterator<Item = (u64, HistoryRow<'_>)> {
        let mut meta = &self.rows[..];
        let mut text = &self.text[..];
        let mut touched = 0u64;
        let mut next = self.first_line;
        std::iter::from_fn(move || {
            let head = varint::take(&mut meta)?;
            let (row, rest) = text.split_at_checked((head >> 3) as usize)?;
            text = rest;
            touched = touched.wrapping_add(varint::take_signed(&mut meta)? as u64);
            let created = touched - varint::take(&mut meta)?.min(touched);
            let (mut rewritten, mut first_rewritten) = (0, NO_COLUMN);
            if head & 4 != 0 {
                rewritten = touched - varint::take(&mut meta)?.min(touched);
                first_rewritten = varint::take(&mut meta)? as u16;
            }
            let mut runs: &[u8] = &[];
            if head & 1 != 0 {
                let len = varint::take(&mut meta)? as usize;
                (runs, meta) = meta.split_at_checked(len)?;
            }
            let continues = head & 2 != 0;
            let changes = RowChanges {
                touched,
                created,
                rewritten,
                first_rewritten,
                wrap_changed: 0,
            };
            next += u64::from(!continues);
            Some((
                next - 1,
                HistoryRow {
                    text: row,
                    continues,
                    changes,
                    runs,
                    styles: &self.styles,
                },
            ))
        })
    }
}

impl<'a> HistoryRow<'a> {
    /// The row's text split by style.
    pub(crate) fn runs(&self) -> impl Iterator<Item = (&'a str, Style)> {
        let (mut text, mut runs, styles) = (self.text, self.runs, self.styles);
        let mut plain = runs.is_empty();
        std::iter::from_fn(move || {
            if plain {
                plain = false;
                return Some((text, Style::default()));
            }
            let len = varint::take(&mut runs)? as usize;
            let style = styles.get(varint::take(&mut runs)? as usize).copied()?;
            let (run, rest) = text.split_at_checked(len)?;
            text = rest;
            Some((run, style))
        })
    }
}
