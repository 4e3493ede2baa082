//! Replies to `read_pane` and to followers, from a terminal and its log.

use std::fmt::Write;

use fugue_api::{
    Error, ErrorKind,
    pane_state::SourcedState,
    tools::{ReadMode, ReadPane, ReadPaneReply},
    wire::OutputChunk,
};
use fugue_core::{
    OutputRange,
    result::PartText,
    view::{self, ClipInput, LastLines, LineFilter, PartClipBuilder, TextAmount},
};
use fugue_holder::{LogRead, LogReader};
use fugue_term::{LineNo, LineSelection, Offset, Terminal, TextCursor, TextLine};

use crate::replay::OutputGap;

/// A reply, or the plan for reading the log because the terminal does not reach back far enough.
pub enum ReadOutcome {
    Done(Box<ReadPaneReply>),
    NeedsMore(Box<TextPlan>),
}

/// How much of the pane's history a source has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HistoryDepth {
    /// The log may have more.
    Recent,
    /// The source has everything that exists.
    Whole,
}

/// A part of a text, in its order.
pub enum TextPart<'a> {
    Line(&'a TextLine<'a>),
    /// Output is missing here.
    Gap(&'a OutputGap),
}

/// A source of text. Each visit iterates over all of it.
pub trait TextSource {
    fn visit(
        &mut self,
        selection: LineSelection,
        visit: &mut dyn FnMut(TextPart<'_>),
    ) -> Result<TextExtent, Error>;
}

/// The part of a selection that a source had.
pub struct TextExtent {
    /// The oldest line of the source.
    pub first_kept: u64,
    /// Older lines would have been selected.
    pub lacks: bool,
    /// The end of the source's text.
    pub end: TextCursor,
}

/// Inserts gaps between the lines of a selection.
pub struct GapPositions {
    selection: LineSelection,
    given: usize,
}

impl GapPositions {
    pub fn new(selection: LineSelection) -> Self {
        Self {
            selection,
            given: 0,
        }
    }

    /// Passes on the gaps before a line.
    pub fn before(&mut self, line: u64, gaps: &[OutputGap], visit: &mut dyn FnMut(TextPart<'_>)) {
        while let Some(gap) = gaps.get(self.given).filter(|gap| gap.line <= line) {
            self.given += 1;
            if self.selects(gap) {
                visit(TextPart::Gap(gap));
            }
        }
    }

    /// Passes on the output that is missing at the end of the log.
    pub fn at_end(&self, tail: Option<OutputGap>, visit: &mut dyn FnMut(TextPart<'_>)) {
        if let Some(gap) = tail.filter(|gap| self.selects(gap)) {
            visit(TextPart::Gap(&gap));
        }
    }

    fn selects(&self, gap: &OutputGap) -> bool {
        match self.selection {
            LineSelection::From(line) => gap.line >= line.0,
            LineSelection::Since(since) => gap.next > since.offset.0,
            LineSelection::Between(from, to) => gap.next > from.offset.0 && gap.from < to.offset.0,
        }
    }
}

/// The lines that a terminal keeps.
pub struct RecentText<'a> {
    pub terminal: &'a Terminal,
    pub gaps: &'a [OutputGap],
    /// The output that is missing at the end of the log.
    pub tail: Option<OutputGap>,
}

impl TextSource for RecentText<'_> {
    fn visit(
        &mut self,
        selection: LineSelection,
        visit: &mut dyn FnMut(TextPart<'_>),
    ) -> Result<TextExtent, Error> {
        let mut places = GapPositions::new(selection);
        self.terminal.for_each_line(selection, |line| {
            places.before(line.no.0, self.gaps, visit);
            visit(TextPart::Line(line));
        });
        places.before(u64::MAX, self.gaps, visit);
        places.at_end(self.tail, visit);
        Ok(TextExtent {
            first_kept: self.terminal.first_kept().0,
            lacks: self.terminal.lacks_lines(selection),
            end: self.terminal.end(),
        })
    }
}

/// The selection of a read, which can be read from a terminal or from the log.
pub struct TextPlan {
    selection: LineSelection,
    /// The limit of returned lines: the last ones of the selection.
    wanted: usize,
    /// The selection has no more than `wanted` lines, so that none of them is skipped.
    is_exact: bool,
    grep: Option<LineFilter>,
    most_chars: usize,
    /// The first requested line, from which lost lines are counted. `None` if lost lines are not counted.
    first_requested: Option<u64>,
    /// The line that filtered output numbers as 1.
    first_number: u64,
    /// Lines of the last command before the selection, omitted because of the limit of lines.
    left_out: u64,
    command: Option<(String, Option<i32>)>,
    end: TextCursor,
    state: SourcedState,
}

impl TextPlan {
    fn text(terminal: &Terminal, args: &ReadPane, state: &SourcedState) -> Result<Self, Error> {
        let since = args.since.as_ref().map(view::cursor).transpose()?;
        let grep = args.grep.as_deref().map(view::compile).transpose()?;
        let wanted = args.lines as usize;
        let window = terminal.line_count().saturating_sub(wanted as u64);
        let (selection, first_asked) = match (since, &grep) {
            // A filter reads everything, and then returns the last matching lines.
            (Some(since), Some(_)) => (LineSelection::Since(since), None),
            (None, Some(_)) => (LineSelection::ALL, None),
            (Some(since), None) => (LineSelection::Since(since), Some(since.line.0)),
            (None, None) => (LineSelection::From(LineNo(window)), Some(window)),
        };
        Ok(Self {
            selection,
            wanted,
            is_exact: matches!((since, &grep), (None, None)),
            grep,
            most_chars: args.max_output_chars as usize,
            first_requested: first_asked,
            first_number: 0,
            left_out: 0,
            command: None,
            end: terminal.end(),
            state: state.clone(),
        })
    }

    fn last_command(
        terminal: &Terminal,
        args: &ReadPane,
        state: &SourcedState,
    ) -> Result<Self, Error> {
        let Some(last) = terminal.last_command(1) else {
            return Err(Error::new(
                ErrorKind::NotFound,
                "no command has run here in a shell with integration",
            )
            .hint("mode `text` reads everything that was printed"));
        };
        let (mut from, to) = (last.from, last.to);
        let number_one = from.line.0;
        // A text that ends before the first character of a line does not include that line.
        let begin = if to.line == from.line { from.col } else { 0 };
        let behind = to.line.0 + u64::from(to.col > begin);
        let wanted = args.lines as usize;
        let left_out = behind.saturating_sub(number_one + wanted as u64);
        if left_out > 0 {
            (from.line, from.col) = (LineNo(number_one + left_out), 0);
        }
        Ok(Self {
            selection: LineSelection::Between(from, to),
            wanted,
            is_exact: true,
            grep: args.grep.as_deref().map(view::compile).transpose()?,
            most_chars: args.max_output_chars as usize,
            first_requested: Some(from.line.0),
            first_number: number_one,
            left_out,
            command: Some((last.command.to_owned(), last.exit_code)),
            end: terminal.end(),
            state: state.clone(),
        })
    }

    /// The offset at which the requested text ends.
    pub fn end(&self) -> u64 {
        self.end.offset.0
    }

    /// Reads the selection. `None`: the source does not reach back far enough.
    pub fn read(
        &self,
        source: &mut dyn TextSource,
        past: HistoryDepth,
    ) -> Result<Option<ReadPaneReply>, Error> {
        let mut skip = self.is_exact.then_some(0);
        loop {
            let mut last = LastLines::new(self.wanted, self.most_chars, skip);
            let (mut missing_bytes, mut numbered) = (0, String::new());
            let extent = source.visit(self.selection, &mut |part| match (part, &self.grep) {
                (TextPart::Gap(gap), grep) => {
                    missing_bytes += gap.bytes;
                    if grep.is_none() {
                        last.push(&view::missing_line(gap.bytes));
                    }
                }
                (TextPart::Line(line), None) => last.push(&line.text),
                (TextPart::Line(line), Some(grep)) if grep.is_match(&line.text) => {
                    numbered.clear();
                    let number = line.no.0 + 1 - self.first_number;
                    let _ = write!(numbered, "{number}:{}", line.text);
                    last.push(&numbered);
                }
                (TextPart::Line(_), Some(_)) => {}
            })?;
            let enough = !self.is_exact && self.grep.is_none() && last.seen() >= self.wanted as u64;
            let short = extent.lacks && !enough;
            if short && past == HistoryDepth::Recent {
                return Ok(None);
            }
            // Requested lines that the log no longer has.
            let lost = self
                .first_requested
                .filter(|_| short)
                .map_or(0, |first| extent.first_kept.saturating_sub(first));
            match last.finish() {
                ClipInput::Again { skip: more } => skip = Some(more),
                ClipInput::Lines { clip, before } => {
                    let bounded = clip.bound(self.most_chars);
                    return Ok(Some(ReadPaneReply {
                        text: bounded.text,
                        cursor: view::shown(self.end),
                        lines: bounded.lines,
                        omitted_lines: bounded.omitted_lines + before + lost + self.left_out,
                        omitted_chars: bounded.omitted_chars,
                        state: self.state.state,
                        command: self.command.as_ref().map(|(command, _)| command.clone()),
                        exit_code: self.command.as_ref().and_then(|(_, code)| *code),
                        replaced_bytes: 0,
                        note: missing_note(missing_bytes),
                        missing_bytes,
                    }));
                }
            }
        }
    }
}

/// Reads from a terminal, or returns a plan for reading the log.
pub fn read(
    recent: &mut RecentText<'_>,
    log: &mut LogReader,
    args: &ReadPane,
    state: &SourcedState,
) -> Result<ReadOutcome, Error> {
    let plan = match args.mode {
        ReadMode::Text => TextPlan::text(recent.terminal, args, state)?,
        ReadMode::LastCommand => TextPlan::last_command(recent.terminal, args, state)?,
        ReadMode::Screen => {
            let reply = screen(recent.terminal, args, state)?;
            return Ok(ReadOutcome::Done(Box::new(reply)));
        }
        ReadMode::Raw => {
            let mut reply = raw(recent.terminal.end(), log, args, state)?;
            reply.missing_bytes += recent.tail.map_or(0, |gap| gap.bytes);
            reply.note = missing_note(reply.missing_bytes);
            return Ok(ReadOutcome::Done(Box::new(reply)));
        }
    };
    let shows_full_screen = args.mode == ReadMode::Text && recent.terminal.screen().is_alternate();
    Ok(match plan.read(recent, HistoryDepth::Recent)? {
        Some(reply) if shows_full_screen && reply.text.is_empty() => {
            let mut reply = screen(recent.terminal, args, state)?;
            reply.note = Some(FULL_SCREEN_NOTE.to_owned());
            ReadOutcome::Done(Box::new(reply))
        }
        Some(mut reply) => {
            if shows_full_screen && reply.note.is_none() {
                reply.note = Some(TEXT_BEHIND_SCREEN_NOTE.to_owned());
            }
            ReadOutcome::Done(Box::new(reply))
        }
        None => ReadOutcome::NeedsMore(Box::new(plan)),
    })
}

/// The note of a reply with the screen in place of the text, which has nothing of a full-screen program.
const FULL_SCREEN_NOTE: &str =
    "a full-screen program is shown, which prints no lines of text; this is its screen";
const TEXT_BEHIND_SCREEN_NOTE: &str =
    "a full-screen program is shown, which prints no lines of text; mode `screen` reads it";

fn screen(
    terminal: &Terminal,
    args: &ReadPane,
    state: &SourcedState,
) -> Result<ReadPaneReply, Error> {
    let rows: Vec<String> = terminal.screen().rows().collect();
    let used = rows
        .iter()
        .rposition(|row| !row.is_empty())
        .map_or(0, |last| last + 1);
    let rows = grepped(rows[..used].iter().cloned().zip(1..).collect(), args)?;
    let bounded = view::bound(&rows, args.max_output_chars as usize);
    Ok(ReadPaneReply {
        text: bounded.text,
        cursor: view::shown(terminal.end()),
        lines: bounded.lines,
        omitted_lines: bounded.omitted_lines,
        omitted_chars: bounded.omitted_chars,
        state: state.state,
        command: None,
        exit_code: None,
        replaced_bytes: 0,
        note: None,
        missing_bytes: 0,
    })
}

/// Reads a range of the text, enough for any limit up to `most`. `None`: the source does not reach back far enough.
pub fn read_range(
    source: &mut dyn TextSource,
    past: HistoryDepth,
    want: &OutputRange,
    most: usize,
) -> Result<Option<PartText>, Error> {
    let mut clip = PartClipBuilder::new(amount_of(want), most);
    let mut missing_bytes = 0;
    let (selection, is_text) = selection_of(want);
    let extent = source.visit(selection, &mut |part| match part {
        TextPart::Line(line) => clip.push(&line.text),
        TextPart::Gap(gap) => {
            missing_bytes += gap.bytes;
            clip.push(&view::missing_line(gap.bytes));
        }
    })?;
    if is_text && extent.lacks && past == HistoryDepth::Recent {
        return Ok(None);
    }
    let first = match selection {
        LineSelection::From(line) => line,
        LineSelection::Since(cursor) | LineSelection::Between(cursor, _) => cursor.line,
    };
    let lost_lines = extent.first_kept.saturating_sub(first.0);
    Ok(Some(PartText {
        clip: is_text.then(|| clip.finish()),
        lost_lines: if extent.lacks && is_text {
            lost_lines
        } else {
            0
        },
        end: Some(view::shown(extent.end)),
        missing_bytes,
        error: None,
    }))
}

fn amount_of(want: &OutputRange) -> TextAmount {
    match want {
        OutputRange::Text { amount, .. } => *amount,
        OutputRange::End => TextAmount::Ends,
    }
}

/// The lines of a part of a result, and whether their text or only their end is needed.
pub fn selection_of(want: &OutputRange) -> (LineSelection, bool) {
    const END: TextCursor = TextCursor {
        offset: Offset(u64::MAX),
        line: LineNo(u64::MAX),
        col: u32::MAX,
    };
    let place =
        |cursor: &Option<fugue_api::Cursor>| cursor.as_ref().and_then(|at| view::cursor(at).ok());
    match want {
        OutputRange::End => (LineSelection::Between(END, END), false),
        OutputRange::Text { from, to, .. } => match (place(from), place(to)) {
            (None, None) => (LineSelection::ALL, true),
            (from, to) => {
                let between = LineSelection::Between(from.unwrap_or_default(), to.unwrap_or(END));
                (between, true)
            }
        },
    }
}

fn missing_note(bytes: u64) -> Option<String> {
    (bytes > 0).then(|| view::missing_note(bytes))
}

/// The notes of a reply as one.
pub fn join_notes(first: Option<String>, second: Option<String>) -> Option<String> {
    match (first, second) {
        (Some(first), Some(second)) => Some(format!("{first}; {second}")),
        (first, second) => first.or(second),
    }
}

fn grepped(lines: Vec<(String, u64)>, args: &ReadPane) -> Result<Vec<String>, Error> {
    let Some(pattern) = &args.grep else {
        return Ok(lines.into_iter().map(|(text, _)| text).collect());
    };
    let pattern = view::compile(pattern)?;
    let matching = lines.into_iter().filter(|(text, _)| pattern.is_match(text));
    Ok(matching
        .map(|(text, number)| format!("{number}:{text}"))
        .collect())
}

/// The raw bytes before `end`, as far as JSON can carry them: bytes that are not UTF-8 become U+FFFD and are counted.
pub fn raw(
    end: TextCursor,
    log: &mut LogReader,
    args: &ReadPane,
    state: &SourcedState,
) -> Result<ReadPaneReply, Error> {
    let trouble = |error: std::io::Error| {
        Error::new(
            ErrorKind::Unavailable,
            format!("the log cannot be read: {error}"),
        )
    };
    let cursor = view::shown(end);
    let end = end.offset.0;
    let since = args
        .since
        .as_ref()
        .map(view::cursor)
        .transpose()?
        .map_or(0, |cursor| cursor.offset.0);
    let first = log.first_offset().map_err(trouble)?.max(since).min(end);
    // A character has at most four bytes in UTF-8.
    let most = u64::from(args.max_output_chars).saturating_mul(4);
    let from = first.max(end.saturating_sub(most));
    let (bytes, missing_bytes) = bytes(log, from, end).map_err(trouble)?;
    let from_start = args.lines;
    let wanted = last_lines(&bytes, from_start);
    let text = String::from_utf8_lossy(wanted);
    let replaced = invalid_bytes(wanted);
    let chars = text.chars().count();
    let over = chars.saturating_sub(args.max_output_chars as usize);
    let kept: String = text.chars().skip(over).collect();
    Ok(ReadPaneReply {
        lines: kept.lines().count() as u64,
        text: kept,
        cursor,
        omitted_lines: 0,
        omitted_chars: over as u64
            + if wanted.len() == bytes.len() {
                from - first
            } else {
                0
            },
        state: state.state,
        command: None,
        exit_code: None,
        replaced_bytes: replaced,
        note: missing_note(missing_bytes),
        missing_bytes,
    })
}

fn invalid_bytes(bytes: &[u8]) -> u64 {
    bytes
        .utf8_chunks()
        .map(|chunk| chunk.invalid().len() as u64)
        .sum()
}

fn last_lines(bytes: &[u8], lines: u32) -> &[u8] {
    let body = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    let breaks = body
        .iter()
        .enumerate()
        .rev()
        .filter(|(_, byte)| **byte == b'\n');
    match breaks.map(|(at, _)| at).nth(lines as usize - 1) {
        Some(at) => &bytes[at + 1..],
        None => bytes,
    }
}

/// The bytes between two offsets, and the number of bytes that are missing from the log.
fn bytes(log: &mut LogReader, mut from: u64, end: u64) -> std::io::Result<(Vec<u8>, u64)> {
    let (mut all, mut missing) = (Vec::new(), 0);
    let mut buffer = vec![0; 64 * 1024];
    while from < end {
        let most = usize::try_from(end - from)
            .unwrap_or(buffer.len())
            .min(buffer.len());
        match log.read_at(from, &mut buffer[..most])? {
            LogRead::Bytes(count) => {
                all.extend_from_slice(&buffer[..count]);
                from += count as u64;
            }
            LogRead::Gap { next, .. } => {
                missing += next.min(end) - from;
                from = next;
            }
            LogRead::End => break,
        }
    }
    Ok((all, missing))
}

// The limit of one reply to a follower; the next reply continues.
const FOLLOW_BYTES: usize = 1 << 20;

/// The output between an offset and the end, for a follower; `ended` is set if the log has no more. Where output is missing,
/// `from` is later than requested.
pub fn read_chunk(log: &mut LogReader, from: u64, end: TextCursor) -> Result<OutputChunk, Error> {
    let trouble = |error: std::io::Error| {
        Error::new(
            ErrorKind::Unavailable,
            format!("the log cannot be read: {error}"),
        )
    };
    let last = end.offset.0;
    let mut from = log.first_offset().map_err(trouble)?.max(from).min(last);
    let (mut raw, mut buffer, mut ended) = (Vec::new(), vec![0; 64 * 1024], false);
    while raw.len() < FOLLOW_BYTES {
        let at = from + raw.len() as u64;
        let room = usize::try_from(last.saturating_sub(at)).unwrap_or(usize::MAX);
        let room = room.min(buffer.len());
        if room == 0 {
            ended = true;
            break;
        }
        match log.read_at(at, &mut buffer[..room]).map_err(trouble)? {
            LogRead::Bytes(count) => raw.extend_from_slice(&buffer[..count]),
            LogRead::Gap { next, .. } if raw.is_empty() => from = next.min(last),
            LogRead::Gap { .. } => break,
            // The log is shorter than its recorded end.
            LogRead::End => {
                ended = true;
                break;
            }
        }
    }
    let offset = Offset(from + raw.len() as u64);
    let cursor = view::shown(TextCursor { offset, ..end });
    Ok(OutputChunk {
        raw,
        from,
        ended,
        cursor,
    })
}
