//! A watch's look at lines that are there already: all at once, or as they are read back from the output log.

use super::{ExpectSearch, PART, Phase, kept};
use crate::lines::{Dates, TextLine};
use crate::place::{LineNo, Offset, TextCursor};
use crate::scrollback::{LineSelection, Scrollback};
use crate::sight::{Echoes, Stale};
use crate::terminal::Terminal;
use crate::watch::PatternMatch;

/// How far a look at lines that are there has come.
#[derive(Debug)]
pub(super) struct LookBack {
    since: Option<TextCursor>,
    /// The first line that is looked at, where there is no cursor.
    pub(super) window: LineNo,
    /// Nothing was looked at before it.
    is_first: bool,
    /// The first line that was looked at.
    first: Option<LineNo>,
    /// The earliest of the latest changes of the lines that were looked at.
    oldest: Option<u64>,
    /// The latest change so far.
    offset: u64,
    /// Bytes that were read since the last search.
    pending: usize,
    hit: Option<PatternMatch>,
}

impl LookBack {
    pub(super) fn new(watch: &ExpectSearch, since: Option<TextCursor>) -> Self {
        LookBack {
            since,
            window: LineNo(0),
            is_first: watch.searched_from.is_none(),
            first: None,
            oldest: None,
            offset: since.map_or(0, |since| since.offset.0),
            pending: 0,
            hit: None,
        }
    }
}

impl ExpectSearch {
    /// Looks at older lines, as a terminal that reads the output again has them taken out. [`ExpectSearch::begin`] with that
    /// terminal is for the lines that are left at the end, unless a hit came before.
    pub fn older(&mut self, scrollback: &Scrollback, terminal: &Terminal) -> Option<PatternMatch> {
        if self.phase != Phase::Asked {
            return None;
        }
        let mut look = self.looking.take()?;
        let selection = match look.since {
            Some(since) => LineSelection::Since(since),
            None => LineSelection::From(look.window),
        };
        let echoes = Echoes::of(terminal, self.what.echo);
        let context = |at: LineSelection| {
            let mut text = None;
            scrollback.visit(at, |line| {
                text.get_or_insert(line.text.to_string());
            });
            text
        };
        scrollback.visit_dated(selection, |line, dates| {
            self.look_at_line(&mut look, line, dates, &echoes, None, context);
        });
        // Where a window of lines was asked for, where the search began is known only at its end.
        let hit = look.hit.take_if(|_| look.since.is_some());
        if hit.is_some() {
            self.searched_from = look.since;
        } else {
            self.looking = Some(look);
        }
        hit
    }

    /// Reads lines that are there as if they were printed now.
    pub(super) fn look_back(
        &mut self,
        terminal: &Terminal,
        since: Option<TextCursor>,
        selection: LineSelection,
    ) -> Option<PatternMatch> {
        let mut look = self
            .looking
            .take()
            .unwrap_or_else(|| LookBack::new(self, since));
        let machine = &terminal.machine;
        let echoes = Echoes::of(terminal, self.what.echo);
        let cursor = machine.text_position();
        let context = |at: LineSelection| first_text(machine.selected_lines(at));
        for (line, dates) in machine.selected_lines(selection) {
            self.look_at_line(&mut look, &line, &dates, &echoes, Some(cursor), context);
        }
        if look.is_first {
            self.searched_from = Some(since.unwrap_or_else(|| match (look.first, look.oldest) {
                (Some(line), Some(oldest)) => kept(oldest - 1, line, 0),
                _ => terminal.end(),
            }));
            if look.first.is_none() {
                self.set_context(cursor, context);
            }
        }
        if machine.alt.is_some() {
            self.break_line(terminal.end());
        }
        self.looked = terminal.end();
        let hit = look.hit.or_else(|| self.search());
        let hit = hit.or_else(|| self.look_at_alternate(terminal, &echoes, since));
        self.began = terminal.offset().0;
        self.stale = Stale::of(terminal, &echoes);
        hit
    }

    fn look_at_line(
        &mut self,
        look: &mut LookBack,
        line: &TextLine<'_>,
        dates: &Dates,
        echoes: &Echoes,
        cursor: Option<(LineNo, u32)>,
        context: impl FnOnce(LineSelection) -> Option<String>,
    ) {
        let col = match look.since {
            Some(since) if line.cut => since.col,
            _ => 0,
        };
        let is_first_line = look.first.is_none();
        look.first.get_or_insert(line.no);
        if dates.touched > 0 {
            let oldest = look.oldest.unwrap_or(dates.touched);
            look.oldest = Some(oldest.min(dates.touched));
        }
        if look.hit.is_some() {
            return;
        }
        if let Some(since) = look.since.filter(|_| is_first_line && line.cut) {
            if look.is_first {
                self.set_context((since.line, since.col), context);
            }
        } else if is_first_line {
            self.break_line(kept(look.offset, line.no, 0));
        }
        look.offset = look.offset.max(dates.grown_since);
        let parts = echoes.strip(line.no, col, &line.text);
        let whole = parts.len() == 1 && parts[0].1.len() == line.text.len();
        for (part_col, text) in &parts {
            if self.skipped {
                self.skipped = false;
                self.break_line(kept(look.offset, line.no, *part_col));
            }
            look.offset = self.push_rows(text, kept(look.offset, line.no, *part_col), &dates.more);
            look.pending += text.len() + 1;
            self.skipped = !whole;
        }
        look.offset = look.offset.max(dates.touched);
        if parts.is_empty() {
            self.skipped = true;
        } else if cursor.is_none_or(|cursor| !self.is_open(line, col, cursor)) {
            let end = col + line.text.chars().count() as u32;
            self.push_kept("\n", kept(look.offset, line.no, end));
            self.skipped = false;
        }
        if look.pending >= PART {
            look.pending = 0;
            look.hit = self.search();
        }
    }

    /// Whether what is printed next goes on with this line.
    fn is_open(&self, line: &TextLine<'_>, col: u32, cursor: (LineNo, u32)) -> bool {
        cursor == (line.no, col + line.text.chars().count() as u32)
    }

    /// The character before the search begins is not searched, but assertions look at it. `context` gives the text of a
    /// selection.
    fn set_context(
        &mut self,
        (line, col): (LineNo, u32),
        context: impl FnOnce(LineSelection) -> Option<String>,
    ) {
        let Some(before) = col.checked_sub(1) else {
            return;
        };
        let at = |col| kept(0, line, col);
        let Some(context) = context(LineSelection::Between(at(before), at(col))) else {
            return;
        };
        self.push_kept(&context, at(before));
        let floor = self.tail.end();
        self.pattern.pass_over(floor);
        if let Some(fail) = &mut self.fail {
            fail.pass_over(floor);
        }
    }

    /// A part of a line, whose rows are not all of the same age. Gives the age of the last one.
    fn push_rows(&mut self, mut text: &str, mut at: TextCursor, rows: &[(u32, u64)]) -> u64 {
        for &(col, grown_since) in rows {
            if col > at.col {
                let cut = text.char_indices().nth((col - at.col) as usize);
                let Some((cut, _)) = cut else { break };
                let (head, rest) = text.split_at(cut);
                self.push_kept(head, at);
                (at.col, text) = (col, rest);
            }
            at.offset = at.offset.max(Offset(grown_since));
        }
        self.push_kept(text, at);
        at.offset.0
    }
}

/// The text of the first line.
fn first_text<'a>(mut lines: impl Iterator<Item = (TextLine<'a>, Dates)>) -> Option<String> {
    lines.next().map(|(line, _)| line.text.into_owned())
}
