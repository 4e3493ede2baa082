//! The text that has left the screen: rows as UTF-8 in pages, the oldest dropped first.
//!
//! A row is written once and never changes. A page keeps the text of its rows in one string, and beside it a few
//! bytes per row: length, whether it goes on with the line before, when it changed, and its style runs. Ten thousand coloured
//! lines are about a megabyte, and reading them all is a walk over a few strings.

use std::collections::VecDeque;

use crate::cell::Style;
use crate::clusters::Clusters;
use crate::row::{NEVER, Past, Row};
use crate::varint;

/// A page is closed when its text is this long: large enough that pages are few, small enough that dropping one
/// drops little more than was asked for.
const PAGE_BYTES: usize = 32 * 1024;

/// A line that runs on for longer is broken here, so that endless output without a newline is dropped by lines too.
const MAX_LINE_BYTES: usize = 256 * 1024;

/// All text of a pane together, whatever its lines are like. Typical lines need a tenth of it.
const MAX_BYTES: usize = 16 * 1024 * 1024;
// Longer than any line a person reads; ten thousand of them are the limit above.
const BYTES_PER_LINE: usize = 1_600;

/// See the module.
#[derive(Debug)]
pub(crate) struct History {
    pages: VecDeque<Page>,
    keep_lines: usize,
    /// The number the next line to begin will have.
    next: u64,
    /// The last line goes on in the first row of the screen.
    open: Option<Open>,
    /// What the pages before the last one cost.
    bytes: usize,
    /// Style runs of the row being kept; here so that it is allocated once.
    runs: Vec<u8>,
    /// The latest change of any line that was dropped.
    dropped_touched: u64,
    /// When a row that is here last made the lines below it change their numbers.
    renumbered: u64,
    /// How many lines were broken because they were too long: then the lines below got other numbers.
    breaks: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Open {
    bytes: usize,
    chars: usize,
}

/// A part of the kept rows: whole lines, up to about `PAGE_BYTES` of them.
#[derive(Debug)]
pub(crate) struct Page {
    /// The number of its first line; a page begins with a line's beginning.
    first: u64,
    lines: usize,
    text: String,
    rows: Vec<u8>,
    styles: Vec<Style>,
    last_touched: u64,
    max_touched: u64,
}

/// One row as it was kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kept<'a> {
    pub(crate) text: &'a str,
    /// It goes on with the line of the row before.
    pub(crate) continues: bool,
    /// `low` is in characters here.
    pub(crate) past: Past,
    runs: &'a [u8],
    styles: &'a [Style],
}

impl History {
    pub(crate) fn new(keep_lines: usize, next: u64) -> Self {
        History {
            pages: VecDeque::new(),
            keep_lines,
            next,
            open: None,
            bytes: 0,
            runs: Vec::new(),
            dropped_touched: 0,
            renumbered: 0,
            breaks: 0,
        }
    }

    /// The line that the first row of the screen belongs to.
    pub(crate) fn screen_line(&self) -> u64 {
        self.next - u64::from(self.open.is_some())
    }

    /// Whether that line began here.
    pub(crate) fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// How many characters of that line are here and not on the screen.
    pub(crate) fn open_chars(&self) -> usize {
        self.open.map_or(0, |open| open.chars)
    }

    /// The oldest line that is still here, or the one the screen starts with.
    pub(crate) fn first_kept(&self) -> u64 {
        let first = self
            .pages
            .front()
            .map_or(self.screen_line(), |page| page.first);
        first.max(self.next.saturating_sub(self.keep_lines.max(1) as u64))
    }

    /// The latest change of any line that is gone.
    pub(crate) fn dropped_touched(&self) -> u64 {
        self.dropped_touched
    }

    /// Tells of lines that were before this history began, after a restart.
    pub(crate) fn began_after(&mut self, touched: u64, renumbered: u64) {
        self.dropped_touched = touched;
        self.renumbered = renumbered;
    }

    /// The row above the screen and the first one on it are no longer neighbours.
    pub(crate) fn close_line(&mut self, now: u64) {
        if self.open.take().is_some() {
            self.renumbered = now;
        }
    }

    /// Since when the lines below have the numbers they have, as far as it depends on what is here.
    pub(crate) fn renumbered(&self) -> u64 {
        self.renumbered
    }

    /// How many lines that were too long have been broken.
    pub(crate) fn breaks(&self) -> u64 {
        self.breaks
    }

    /// Keeps a row that leaves the screen at its top.
    pub(crate) fn push(&mut self, row: &Row, clusters: &Clusters) {
        let mut runs = std::mem::take(&mut self.runs);
        runs.clear();
        let page = self.page();
        let begin = page.text.len();
        page.write_row(row, clusters, &mut runs);
        let low = match row.past.low {
            NEVER => NEVER,
            low => row
                .chars_before(usize::from(low), clusters)
                .min(usize::from(NEVER) - 1) as u16,
        };
        let len = page.text.len() - begin;
        let created = row.past.created.max(self.renumbered);
        self.finish(
            begin,
            len,
            row.wrapped(),
            Past {
                low,
                created,
                ..row.past
            },
            &runs,
        );
        self.renumbered = self.renumbered.max(row.past.rewrapped);
        self.runs = runs;
    }

    /// Puts back a row after a restart; `wrapped` if its line goes on.
    pub(crate) fn push_kept(&mut self, text: &str, past: Past, wrapped: bool) {
        let page = self.page();
        let begin = page.text.len();
        page.text.push_str(text);
        self.finish(begin, text.len(), wrapped, past, &[]);
    }

    /// The rows of the line that the first row of the screen continues.
    pub(crate) fn open_rows(&self) -> impl Iterator<Item = Kept<'_>> {
        let from = if self.is_open() {
            self.screen_line()
        } else {
            u64::MAX
        };
        self.rows_from(from)
            .filter(move |(no, _)| *no == from)
            .map(|(_, row)| row)
    }

    /// The latest change of any line that is here or was.
    pub(crate) fn max_touched(&self) -> u64 {
        self.pages
            .iter()
            .map(|page| page.max_touched)
            .fold(self.dropped_touched, u64::max)
    }

    /// All rows from the page of `line` on, each with its line's number.
    pub(crate) fn rows_from(&self, line: u64) -> impl Iterator<Item = (u64, Kept<'_>)> {
        self.pages_from(line).flat_map(Page::rows)
    }

    /// As `rows_from`, without the pages in which nothing changed after `offset`.
    pub(crate) fn rows_touched_after(&self, offset: u64) -> impl Iterator<Item = (u64, Kept<'_>)> {
        self.pages
            .iter()
            .filter(move |page| page.max_touched > offset)
            .flat_map(Page::rows)
    }

    fn pages_from(&self, line: u64) -> impl Iterator<Item = &Page> {
        let skip = self
            .pages
            .partition_point(|page| page.first + page.lines as u64 <= line);
        self.pages.range(skip..)
    }

    fn page(&mut self) -> &mut Page {
        let full = self.pages.back().is_none_or(Page::is_full);
        if self.pages.is_empty() || full && self.open.is_none() {
            if let Some(page) = self.pages.back_mut() {
                page.shrink();
                self.bytes += page.cost();
            }
            self.pages.push_back(Page::new(self.next));
        }
        let last = self.pages.len() - 1;
        &mut self.pages[last]
    }

    fn finish(&mut self, begin: usize, len: usize, wrapped: bool, past: Past, runs: &[u8]) {
        let last = self.pages.len() - 1;
        let page = &mut self.pages[last];
        let continues = self.open.is_some();
        if !continues {
            page.lines += 1;
            self.next += 1;
        }
        let mut open = self.open.take().unwrap_or_default();
        open.bytes += len;
        page.write_meta(len, continues, past, runs);
        if wrapped && open.bytes < MAX_LINE_BYTES {
            open.chars += page.text[begin..].chars().count();
            self.open = Some(open);
        }
        self.breaks += u64::from(wrapped && self.open.is_none());
        self.drop_old();
    }

    /// Whoever asks for more lines than usual asks for their bytes as well.
    fn most_bytes(&self) -> usize {
        self.keep_lines
            .saturating_mul(BYTES_PER_LINE)
            .max(MAX_BYTES)
    }

    /// Takes out all pages but one whose last line goes on in the first row of the screen.
    pub(crate) fn take_pages(&mut self) -> Vec<Page> {
        let stays = usize::from(self.open.is_some()).min(self.pages.len());
        let taken: Vec<Page> = self.pages.drain(..self.pages.len() - stays).collect();
        self.bytes = 0;
        let touched = taken.iter().map(|page| page.max_touched);
        self.dropped_touched = touched.fold(self.dropped_touched, u64::max);
        taken
    }

    fn drop_old(&mut self) {
        while self.pages.len() > 1 {
            let lines: u64 = self.next - self.pages[1].first;
            let too_many = lines >= self.keep_lines as u64;
            if !too_many && self.bytes <= self.most_bytes() {
                break;
            }
            if let Some(page) = self.pages.pop_front() {
                self.bytes -= page.cost();
                self.dropped_touched = self.dropped_touched.max(page.max_touched);
            }
        }
    }
}

impl Page {
    fn new(first: u64) -> Self {
        Page {
            first,
            lines: 0,
            text: String::new(),
            rows: Vec::new(),
            styles: vec![Style::default()],
            last_touched: 0,
            max_touched: 0,
        }
    }

    fn is_full(&self) -> bool {
        self.cost() >= PAGE_BYTES
    }

    fn cost(&self) -> usize {
        self.text.len() + self.rows.len() + self.styles.len() * size_of::<Style>()
    }

    fn shrink(&mut self) {
        self.text.shrink_to_fit();
        self.rows.shrink_to_fit();
        self.styles.shrink_to_fit();
    }

    fn write_row(&mut self, row: &Row, clusters: &Clusters, runs: &mut Vec<u8>) {
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
            // A plain row, by far the most common one, has no runs at all.
            if !whole || style != Style::default() {
                let index = self.style_index(style);
                varint::put(runs, (self.text.len() - before) as u64);
                varint::put(runs, index);
            }
            start = end;
        }
    }

    /// Looks among the last few only: rows nearby share their styles, and a gradient has no style twice.
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

    fn write_meta(&mut self, len: usize, continues: bool, past: Past, runs: &[u8]) {
        let rewritten = past.low != NEVER;
        let flags =
            u64::from(!runs.is_empty()) | u64::from(continues) << 1 | u64::from(rewritten) << 2;
        let out = &mut self.rows;
        varint::put(out, (len as u64) << 3 | flags);
        varint::put_signed(out, past.touched.wrapping_sub(self.last_touched) as i64);
        // Where a row is read, `created` and `rewritten` only matter if `touched` is behind the reader's
        // offset, so one that is later than `touched` may as well be equal.
        varint::put(out, past.touched.saturating_sub(past.created));
        if rewritten {
            varint::put(out, past.touched.saturating_sub(past.rewritten));
            varint::put(out, u64::from(past.low));
        }
        if !runs.is_empty() {
            varint::put(out, runs.len() as u64);
            out.extend_from_slice(runs);
        }
        self.last_touched = past.touched;
        self.max_touched = self.max_touched.max(past.touched);
    }

    /// The numbers of its first and last line.
    pub(crate) fn line_numbers(&self) -> (u64, u64) {
        (self.first, self.first + (self.lines as u64).max(1) - 1)
    }

    /// Whether anything in it changed after `offset`.
    pub(crate) fn is_touched_after(&self, offset: u64) -> bool {
        self.max_touched > offset
    }

    pub(crate) fn rows(&self) -> impl Iterator<Item = (u64, Kept<'_>)> {
        let mut meta = &self.rows[..];
        let mut text = &self.text[..];
        let mut touched = 0u64;
        let mut next = self.first;
        std::iter::from_fn(move || {
            let head = varint::take(&mut meta)?;
            let (row, rest) = text.split_at_checked((head >> 3) as usize)?;
            text = rest;
            touched = touched.wrapping_add(varint::take_signed(&mut meta)? as u64);
            let created = touched - varint::take(&mut meta)?.min(touched);
            let (mut rewritten, mut low) = (0, NEVER);
            if head & 4 != 0 {
                rewritten = touched - varint::take(&mut meta)?.min(touched);
                low = varint::take(&mut meta)? as u16;
            }
            let mut runs: &[u8] = &[];
            if head & 1 != 0 {
                let len = varint::take(&mut meta)? as usize;
                (runs, meta) = meta.split_at_checked(len)?;
            }
            let continues = head & 2 != 0;
            let past = Past {
                touched,
                created,
                rewritten,
                low,
                rewrapped: 0,
            };
            next += u64::from(!continues);
            Some((
                next - 1,
                Kept {
                    text: row,
                    continues,
                    past,
                    runs,
                    styles: &self.styles,
                },
            ))
        })
    }
}

impl<'a> Kept<'a> {
    /// The row's text cut by style.
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
