//! The text stream: a program's output as plain text with positions, for pattern matching.
//!
//! The stream is the text in the order of printing. Colours and titles are not part of the stream; a line that wraps
//! at the edge continues. A line feed or a lone carriage return is `\n`; the pair is a single `\n`. Where the cursor
//! jumps, or text before the cursor is erased, the following text does not belong to the same word, so the stream has
//! a `\n` there too; backspace is such a jump. A move to the right over blank cells becomes the spaces that a reader
//! of the line sees.
//!
//! The stream depends on the bytes alone, not on how the bytes are split into feeds. Text is not accumulated: each
//! feed starts with an empty [`FeedText`].

use crate::grid::Point;
use crate::parser::CsiSequence;
use crate::position::{LineNo, Offset, TextCursor};
use crate::shell_marks::ShellMarkKind;
use crate::terminal_state::TerminalState;

/// The text that one feed printed, for [`ExpectSearch::search_feed`](crate::ExpectSearch::search_feed).
#[derive(Clone, Debug, Default)]
pub struct FeedText {
    pub(crate) text: String,
    /// The pieces in the order of the text; together all of the text.
    pub(crate) pieces: Vec<TextPiece>,
    /// Something was painted with cursor movements, or over other text.
    pub(crate) painted: bool,
    /// The same, painted by a shell's line editor at its prompt.
    pub(crate) painted_at_prompt: bool,
    /// Output up to this offset is part of this feed or of an earlier feed.
    pub(crate) end_offset: Offset,
}

/// A run of text in which each position follows from the position of the first character.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TextPiece {
    /// Byte index of the first character in the text.
    pub(crate) start: u64,
    /// The position of the first character.
    pub(crate) at: TextCursor,
    pub(crate) origin: PieceOrigin,
    /// The text is a shell's echo of a line that is being typed.
    pub(crate) is_echo: bool,
    /// The cursor jumped before the text was printed.
    pub(crate) after_jump: bool,
}

/// How the text of a piece relates to the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PieceOrigin {
    /// Printed on the main screen in this feed: each byte of text is one byte of output.
    Main,
    /// Printed on the alternate screen, which has no line numbers: positions are offsets only.
    Alternate,
    /// Text without output bytes of its own: spaces for a gap, or a line that existed before the stream was started.
    Stored,
}

/// The widest gap that becomes spaces; a longer move is a jump. Wider than gaps of real programs, and a bound on how
/// much text a few bytes can produce.
const MAX_GAP: usize = 256;

/// The buffer size above which a feed's memory is released instead of reused.
const MAX_REUSED_BYTES: usize = 1 << 20;

/// The state of the text stream between feeds.
#[derive(Debug)]
pub(crate) struct TextStream {
    feed: FeedText,
    /// The cursor position at which printing would continue the stream.
    expected_cursor: Option<Point>,
    is_alternate: bool,
    /// The stream's position in the text, as far as known.
    line: Option<u64>,
    col: Option<u32>,
    /// The offset after the last character.
    offset: u64,
    end: StreamEnd,
    is_echo: bool,
    after_jump: bool,
    /// The next character extends the last piece.
    extends_piece: bool,
    /// [`History::forced_breaks`](crate::history::History::forced_breaks) when `line` was determined. A later break
    /// renumbers the lines, so `line` is no longer valid.
    forced_breaks: u64,
}

/// The last character of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StreamEnd {
    Char,
    Newline,
    /// A `\n` for a carriage return: a line feed that follows adds no second `\n`.
    CarriageReturn,
}

static EMPTY_FEED: FeedText = FeedText {
    text: String::new(),
    pieces: Vec::new(),
    painted: false,
    painted_at_prompt: false,
    end_offset: Offset(0),
};

impl TextStream {
    /// Discards the text of the last feed.
    pub(crate) fn start_feed(&mut self) {
        let feed = &mut self.feed;
        feed.text.clear();
        feed.pieces.clear();
        if feed.text.capacity() + feed.pieces.capacity() * size_of::<TextPiece>() > MAX_REUSED_BYTES
        {
            *feed = FeedText::default();
        }
        (feed.painted, feed.painted_at_prompt) = (false, false);
        self.extends_piece = false;
    }

    pub(crate) fn end_feed(&mut self, offset: u64) {
        self.feed.end_offset = Offset(offset);
    }

    /// Appends printed `text`, the last byte of which was read at offset `end`. The cursor is now at `next`.
    pub(crate) fn push(&mut self, text: &str, end: u64, next: Point) {
        self.ensure_piece(end.saturating_sub(text.len() as u64));
        self.feed.text.push_str(text);
        if !self.is_alternate {
            let chars = match text.is_ascii() {
                true => text.len(),
                false => text.chars().count(),
            };
            self.col = self.col.map(|col| col + chars as u32);
        }
        self.offset = end;
        self.expected_cursor = Some(next);
        self.end = StreamEnd::Char;
    }

    /// Appends text that does not equal the output bytes before `offset`: spaces that the cursor skipped, characters
    /// of another charset, U+FFFD for invalid bytes.
    fn push_without_bytes(&mut self, text: &str, offset: u64, next: Point) {
        self.extends_piece = false;
        self.push(text, offset + text.len() as u64, next);
        if let Some(piece) = self.feed.pieces.last_mut() {
            piece.origin = match self.is_alternate {
                true => PieceOrigin::Alternate,
                false => PieceOrigin::Stored,
            };
        }
        self.offset = offset;
        self.extends_piece = false;
    }

    fn ensure_piece(&mut self, start: u64) {
        if self.extends_piece && start == self.offset {
            return;
        }
        self.extends_piece = true;
        self.feed.pieces.push(TextPiece {
            start: self.feed.text.len() as u64,
            at: TextCursor {
                offset: Offset(start),
                line: LineNo(self.line.unwrap_or_default()),
                col: self.col.unwrap_or_default(),
            },
            origin: match self.is_alternate {
                true => PieceOrigin::Alternate,
                false => PieceOrigin::Main,
            },
            is_echo: self.is_echo,
            after_jump: self.after_jump,
        });
    }

    fn push_newline(&mut self, now: u64, ended: StreamEnd) {
        self.ensure_piece(now.saturating_sub(1));
        self.feed.text.push('\n');
        self.offset = now;
        self.end = ended;
        self.extends_piece = false;
    }

    /// Separates the following text from the preceding text with a `\n`. Every cause of a break took at least one
    /// byte.
    fn break_word(&mut self) {
        if self.end == StreamEnd::Char {
            self.push_newline(self.offset + 1, StreamEnd::Newline);
        }
    }

    fn clear_position(&mut self) {
        (self.line, self.col) = (None, None);
        self.extends_piece = false;
    }

    fn mark_jump(&mut self) {
        self.break_word();
        self.clear_position();
        self.expected_cursor = None;
        self.after_jump = true;
        self.mark_painted();
    }

    fn mark_painted(&mut self) {
        if self.is_echo {
            self.feed.painted_at_prompt = true;
        } else {
            self.feed.painted = true;
        }
    }
}

/// Stream updates. The frequent ones are not inlined, so that a terminal without a text stream only pays for a
/// branch.
impl TerminalState {
    pub(crate) fn start_text_stream(&mut self) {
        if self.text_stream.is_some() {
            return;
        }
        let (line, col) = self.stream_position();
        self.text_stream = Some(Box::new(TextStream {
            feed: FeedText {
                end_offset: Offset(self.now),
                ..FeedText::default()
            },
            expected_cursor: Some(self.active_grid().cursor),
            is_alternate: self.alt.is_some(),
            line: Some(line),
            col: Some(col),
            offset: self.now,
            end: match col {
                0 => StreamEnd::Newline,
                _ => StreamEnd::Char,
            },
            is_echo: self.shell.is_echoing(),
            after_jump: false,
            extends_piece: false,
            forced_breaks: self.history.forced_breaks(),
        }));
    }

    pub(crate) fn feed_text(&self) -> &FeedText {
        self.text_stream
            .as_ref()
            .map_or(&EMPTY_FEED, |stream| &stream.feed)
    }

    /// The position in the text of the next printed character.
    fn stream_position(&self) -> (u64, u32) {
        if self.alt.is_some() {
            let (line, col) = self.text_end();
            return (line.0, col);
        }
        let (line, col) = self.text_position();
        let Point { x, y } = self.main.cursor;
        let row = &self.main.rows[y];
        // Blank cells count as characters once something is printed after them.
        let gap = x.saturating_sub(row.used());
        // Printing over the right half of a wide character turns the left half, with its combining marks, into one
        // blank.
        let lost_chars = match x < row.used() && row.cell(x).is_spacer() {
            true => {
                row.chars_before(x, &self.clusters) - row.chars_before(x - 1, &self.clusters) - 1
            }
            false => 0,
        };
        (line.0, col + gap as u32 - lost_chars as u32)
    }

    /// Called before a character is printed at the cursor, and before the cursor wraps for the character.
    #[inline(never)]
    pub(crate) fn stream_before_print(&mut self) {
        let Some(mut stream) = self.text_stream.take() else {
            return;
        };
        let alternate = self.alt.is_some();
        if !self.modes.autowrap {
            let grid = self.active_grid_mut();
            grid.cursor.x = grid.cursor_column();
        }
        let grid = self.active_grid();
        let cursor = grid.cursor;
        let used = grid.rows[cursor.y].used();
        if stream.is_alternate != alternate {
            stream.mark_jump();
            stream.is_alternate = alternate;
        } else if stream.expected_cursor != Some(cursor) {
            match stream.expected_cursor {
                Some(next)
                    if next.y == cursor.y
                        && next.x < cursor.x
                        && used <= next.x
                        && cursor.x - next.x <= MAX_GAP =>
                {
                    let gap = cursor.x - next.x;
                    if stream.line.is_none() || stream.col.is_none() {
                        let (line, col) = self.stream_position();
                        let before = if alternate { 0 } else { gap as u32 };
                        (stream.line, stream.col) = (Some(line), Some(col.saturating_sub(before)));
                    }
                    let offset = stream.offset;
                    stream.push_without_bytes(&" ".repeat(gap), offset, cursor);
                }
                _ => stream.mark_jump(),
            }
        }
        if alternate || cursor.x < used {
            stream.mark_painted();
        }
        if !alternate && cursor.x < used {
            // The character may overwrite half of a wide character, which changes the columns.
            stream.clear_position();
        }
        if stream.forced_breaks != self.history.forced_breaks() {
            stream.forced_breaks = self.history.forced_breaks();
            stream.clear_position();
        }
        if stream.line.is_none() || stream.col.is_none() {
            let (line, col) = self.stream_position();
            (stream.line, stream.col) = (Some(line), Some(col));
        }
        self.text_stream = Some(stream);
    }

    /// Called after the cursor wrapped to the next row; `continues` if the line continues there.
    #[inline(never)]
    pub(crate) fn stream_after_wrap(&mut self, continues: bool) {
        let grid = self.active_grid();
        let cursor = grid.cursor;
        let over_text = grid.rows[cursor.y].used() > 0;
        let whole = grid.top == 0 && grid.bottom == grid.height() - 1;
        let above = cursor.y.checked_sub(1).map(|above| &grid.rows[above]);
        let full = above.is_some_and(|row| row.used() == grid.cols);
        let Some(stream) = &mut self.text_stream else {
            return;
        };
        stream.expected_cursor = Some(cursor);
        if over_text {
            stream.mark_painted();
        }
        if !continues {
            stream.break_word();
        }
        // When a region scrolls, a line loses its beginning and its number changes. A blank before a character that
        // was too wide for the rest of its row is not text.
        if !continues || !whole || !full {
            stream.clear_position();
            let (line, col) = self.stream_position();
            if let Some(stream) = &mut self.text_stream {
                (stream.line, stream.col) = (Some(line), Some(col));
            }
        }
    }

    /// Appends text printed up to column `end` of the cursor's row; without autowrap the cursor itself stays on the
    /// last column.
    #[inline(never)]
    pub(crate) fn stream_print(&mut self, text: &str, end: usize) {
        let y = self.active_grid().cursor.y;
        let (now, next) = (self.now, Point { x: end, y });
        // The output bytes differ from the printed text.
        let translated = text == "\u{fffd}" || self.charsets.is_drawing();
        match &mut self.text_stream {
            Some(stream) if translated => stream.push_without_bytes(text, now, next),
            Some(stream) => stream.push(text, now, next),
            None => (),
        }
    }

    #[inline(never)]
    pub(crate) fn stream_print_ascii(&mut self, text: &[u8], end: usize) {
        if let Ok(text) = str::from_utf8(text) {
            self.stream_print(text, end);
        }
    }

    /// A line feed while the stream is on.
    #[inline(never)]
    pub(crate) fn line_feed_with_stream(&mut self) {
        let line_feed = self.stream_before_line_feed();
        let (grid, context) = self.grid_and_context();
        grid.line_feed(context);
        self.stream_after_line_feed(line_feed);
    }

    /// A control sequence while the stream is on.
    #[inline(never)]
    pub(crate) fn csi_with_stream(&mut self, csi: &CsiSequence) {
        let was_home = self.active_grid().cursor == Point::default();
        self.execute_csi(csi);
        self.stream_after_csi(csi, was_home);
    }

    /// Called before a line feed is executed. The result is passed to `stream_after_line_feed`.
    fn stream_before_line_feed(&mut self) -> LineFeedContext {
        let (now, alternate) = (self.now, self.alt.is_some());
        let needs_position = self.text_stream.as_ref().is_some_and(|stream| {
            stream.end != StreamEnd::CarriageReturn
                && (stream.line.is_none() || stream.col.is_none())
        });
        let position = needs_position.then(|| self.stream_position());
        let grid = self.active_grid();
        let whole = grid.top == 0 && grid.bottom == grid.height() - 1;
        let next = self
            .text_stream
            .as_ref()
            .and_then(|stream| stream.expected_cursor);
        let stayed = next.is_some_and(|next| next.y == grid.cursor.y);
        let line_feed = LineFeedContext {
            enters_next_line: stayed && whole && !grid.rows[grid.cursor.y].is_wrapped(),
            scrolls: grid.cursor.y == grid.bottom,
        };
        if let Some(stream) = &mut self.text_stream {
            if stream.is_alternate != alternate {
                stream.mark_jump();
                stream.is_alternate = alternate;
            }
            if let Some((line, col)) = position {
                (stream.line, stream.col) = (Some(line), Some(col));
            }
            match stream.end {
                StreamEnd::CarriageReturn => stream.end = StreamEnd::Newline,
                StreamEnd::Char | StreamEnd::Newline => {
                    stream.push_newline(now, StreamEnd::Newline)
                }
            }
        }
        line_feed
    }

    fn stream_after_line_feed(&mut self, line_feed: LineFeedContext) {
        let (cursor, breaks) = (self.active_grid().cursor, self.history.forced_breaks());
        let Some(stream) = &mut self.text_stream else {
            return;
        };
        stream.expected_cursor = Some(cursor);
        stream.extends_piece = false;
        if line_feed.scrolls {
            stream.after_jump = false;
        }
        if stream.is_alternate {
            return;
        }
        let known = line_feed.enters_next_line && stream.forced_breaks == breaks;
        stream.forced_breaks = breaks;
        stream.line = stream.line.filter(|_| known).map(|line| line + 1);
        stream.col = (cursor.x == 0).then_some(0);
    }

    /// Called before a carriage return is executed.
    #[inline(never)]
    pub(crate) fn stream_before_return(&mut self) {
        let (now, from, alternate) = (self.now, self.active_grid().cursor, self.alt.is_some());
        let cursor = Point { x: 0, y: from.y };
        let Some(stream) = &mut self.text_stream else {
            return;
        };
        if stream.is_alternate != alternate {
            return;
        }
        // A jump before the carriage return counts, wherever the cursor is now.
        let jumped = stream.expected_cursor.is_none_or(|next| next.y != from.y);
        if stream.end == StreamEnd::Char {
            stream.push_newline(now, StreamEnd::CarriageReturn);
        }
        if jumped {
            stream.mark_jump();
        }
        if stream.expected_cursor != Some(cursor) {
            stream.col = None;
            stream.extends_piece = false;
        }
        stream.expected_cursor = Some(cursor);
    }

    /// Called after a control sequence that may have changed printed text. Sequences that only move the cursor are
    /// detected when the next character is printed.
    fn stream_after_csi(&mut self, csi: &CsiSequence, was_home: bool) {
        let grid = self.active_grid();
        let next = self
            .text_stream
            .as_ref()
            .and_then(|stream| stream.expected_cursor);
        let at_end = next == Some(grid.cursor);
        let neutral = match (csi.private, csi.intermediate, csi.action) {
            // Erasing to the right and below: many programs do so after each coloured word.
            (0, 0, b'J') => csi.param(0) == 0 && !was_home && at_end,
            (0, 0, b'K') => csi.param(0) == 0 && at_end,
            // Past the last column, `ECH` erases the last printed character.
            (0, 0, b'X') => at_end && grid.cursor.x < grid.cols,
            (0, 0, b'@' | b'P' | b'L' | b'M' | b'S' | b'T') => false,
            (b'?', 0, b'h' | b'l') => !csi.params().any(|mode| mode[0] == 3),
            _ => true,
        };
        if !neutral {
            self.stream_jump();
        }
    }

    /// Records a change of the screen other than printing at the cursor.
    #[inline(never)]
    pub(crate) fn stream_jump(&mut self) {
        if let Some(stream) = &mut self.text_stream {
            stream.mark_jump();
        }
    }

    /// Follows the cursor that a resize has moved along with the text.
    #[inline(never)]
    pub(crate) fn stream_after_resize(&mut self, before: Point) {
        let cursor = self.active_grid().cursor;
        if let Some(stream) = &mut self.text_stream {
            stream.expected_cursor = stream
                .expected_cursor
                .filter(|next| *next == before)
                .map(|_| cursor);
            stream.clear_position();
        }
    }

    #[inline(never)]
    pub(crate) fn stream_after_mark(&mut self, kind: ShellMarkKind) {
        let echo = kind == ShellMarkKind::Input && !self.shell.typed_lines.is_empty();
        let Some(stream) = &mut self.text_stream else {
            return;
        };
        if stream.is_echo && !echo {
            stream.break_word();
        }
        if stream.is_echo != echo {
            stream.is_echo = echo;
            stream.extends_piece = false;
        }
        if kind == ShellMarkKind::Output {
            stream.after_jump = false;
        }
    }
}

impl TerminalState {
    /// Treats output at the prompt as echo from now on, because input was typed.
    pub(crate) fn stream_after_input(&mut self) {
        let echo = self.shell.is_echoing();
        if let Some(stream) = &mut self.text_stream
            && echo
            && !stream.is_echo
        {
            stream.break_word();
            (stream.is_echo, stream.extends_piece) = (true, false);
        }
    }
}

/// The effect of a line feed, determined before its execution.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LineFeedContext {
    /// The cursor moves to the line after the cursor's current line.
    enters_next_line: bool,
    scrolls: bool,
}
