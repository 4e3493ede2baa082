//! The terminal: the public interface of the crate.

use crate::cell::Style;
use crate::modes::Modes;
use crate::parser::Parser;
use crate::position::{LineNo, Offset, TextCursor};
use crate::screen::Screen;
use crate::shell_marks::{ShellMark, ShellState};
use crate::terminal_state::TerminalState;
use crate::text_lines::{LineQuery, TextLines};
use crate::text_stream::FeedText;

/// Rows and columns. Any value is accepted and clamped to at least one row and two columns, so that every character
/// fits, and at most [`TerminalSize::MAX`] of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TerminalSize {
    /// Rows.
    pub rows: u16,
    /// Columns.
    pub cols: u16,
}

impl TerminalSize {
    /// Larger than any real screen, and a bound on the memory of one pane.
    pub const MAX: u16 = 1000;

    /// The size clamped to the supported range.
    pub fn clamped(self) -> TerminalSize {
        TerminalSize {
            rows: self.rows.clamp(1, TerminalSize::MAX),
            cols: self.cols.clamp(2, TerminalSize::MAX),
        }
    }
}

/// Options of a new terminal.
#[derive(Clone, Debug)]
pub struct TerminalOptions {
    /// How many lines the history keeps.
    pub keep_lines: usize,
    /// The secret that trusted shell marks carry; with `None` no mark is trusted.
    pub secret: Option<String>,
}

impl Default for TerminalOptions {
    fn default() -> Self {
        TerminalOptions {
            keep_lines: 10_000,
            secret: None,
        }
    }
}

/// An event found while reading output, in the order of the output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TerminalEvent {
    /// A shell mark that carries the secret.
    Mark(ShellMark),
    /// The title changed.
    Title(String),
    /// The working directory changed.
    Cwd(String),
    /// The bell rang. Limited per window of output, so that a storm does not report every ring.
    Bell,
    /// The alternate screen was entered (`true`) or left.
    Alternate(bool),
    /// A reply to a query of the program, to be written to the program's input once.
    Reply {
        /// The offset just after the query. Queries that were answered before a restart are not answered again.
        at: Offset,
        /// Fixed strings and numbers, never text chosen by the program.
        bytes: Vec<u8>,
    },
}

/// The last command of a shell with marks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastCommand<'a> {
    /// The command line as echoed.
    pub command: &'a str,
    /// The output so far.
    pub output: TextLines<'a>,
    /// The exit code, if the command has ended and the mark has one.
    pub exit_code: Option<i32>,
    /// The command has not ended.
    pub running: bool,
    /// The position at which the output begins.
    pub from: TextCursor,
    /// The position at which the output ends so far.
    pub to: TextCursor,
}

/// A pane's terminal: turns output bytes into text and a screen.
#[derive(Debug)]
pub struct Terminal {
    pub(crate) parser: Parser,
    pub(crate) state: TerminalState,
    /// A lower bound of [`Terminal::end`]: the end before the last change of size or process, or the end in the
    /// checkpoint that the terminal was restored from. Without it, the end could move back although nothing was
    /// printed.
    pub(crate) min_end: TextCursor,
}

impl Terminal {
    /// A terminal with a blank screen, at the beginning of a pane's output.
    pub fn new(size: TerminalSize, options: TerminalOptions) -> Self {
        Terminal {
            parser: Parser::starting_at(0),
            state: TerminalState::new(size.clamped(), &options, 0, 0),
            min_end: TextCursor::default(),
        }
    }

    /// Reads output. The result does not depend on how the bytes are split into feeds.
    pub fn feed(&mut self, bytes: &[u8]) -> Vec<TerminalEvent> {
        if let Some(stream) = &mut self.state.text_stream {
            stream.start_feed();
        }
        self.parser.advance(&mut self.state, bytes);
        self.state.now = self.parser.offset();
        if let Some(stream) = &mut self.state.text_stream {
            stream.end_feed(self.state.now);
        }
        std::mem::take(&mut self.state.events)
    }

    /// Turns the text stream on: each feed leaves its printed text in [`Terminal::feed_text`].
    pub fn start_text_stream(&mut self) {
        self.state.start_text_stream();
    }

    /// Turns the text stream off.
    pub fn stop_text_stream(&mut self) {
        self.state.text_stream = None;
    }

    /// Starts tracking of typed input: nothing was typed so far, and [`Terminal::record_typed`] is called for all
    /// input. Text that appears at a prompt without typed input then comes from a background program and is not
    /// treated as echo.
    pub fn track_typed_input(&mut self) {
        self.state.shell.typed_lines.start_tracking();
    }

    /// Records typed input.
    pub fn record_typed(&mut self, bytes: &[u8]) {
        self.state.shell.typed_lines.push(bytes);
        self.state.stream_after_input();
    }

    /// Records that something unknown may have been typed.
    pub fn record_unknown_input(&mut self) {
        self.state.shell.typed_lines.push_unknown();
        self.state.stream_after_input();
    }

    /// The text that the last feed printed; empty while the text stream is off.
    pub fn feed_text(&self) -> &FeedText {
        self.state.feed_text()
    }

    /// Changes the size and reflows the lines of the main screen.
    pub fn resize(&mut self, size: TerminalSize) {
        self.min_end = self.end();
        self.state.resize(size.clamped());
    }

    /// The current size.
    pub fn size(&self) -> TerminalSize {
        let grid = &self.state.main;
        TerminalSize {
            rows: grid.height() as u16,
            cols: grid.cols as u16,
        }
    }

    /// The number of bytes read since the pane was created.
    pub fn offset(&self) -> Offset {
        Offset(self.parser.offset())
    }

    /// The offset just after the last byte that may have changed the visible screen.
    pub fn last_change(&self) -> Offset {
        Offset(self.state.last_change)
    }

    /// The end of the text so far.
    pub fn end(&self) -> TextCursor {
        let (line, col) = self.state.text_end();
        let offset = self.offset();
        TextCursor { offset, line, col }.max(self.min_end)
    }

    /// Lines of the text, oldest first.
    pub fn lines(&self, query: &LineQuery) -> TextLines<'_> {
        self.state.lines(query)
    }

    /// The last lines between two cursors, whenever written.
    pub fn lines_between(&self, from: TextCursor, to: TextCursor, last: usize) -> TextLines<'_> {
        self.state.lines_between(from, to, last)
    }

    /// A stored or visible line split by style, for a renderer.
    pub fn styled_line(&self, line: LineNo) -> Vec<(String, Style)> {
        self.state.styled_line(line)
    }

    /// The line that the first row of the main screen belongs to.
    pub fn top_line(&self) -> LineNo {
        LineNo(self.state.history.screen_line())
    }

    /// The oldest line that the terminal keeps.
    pub fn first_kept(&self) -> LineNo {
        LineNo(self.state.history.first_kept())
    }

    /// The visible screen.
    pub fn screen(&self) -> Screen<'_> {
        Screen::new(&self.state)
    }

    /// The last command of a shell with marks, with the last `last` lines of its output.
    pub fn last_command(&self, last: usize) -> Option<LastCommand<'_>> {
        let record = self.state.shell.last_command.as_ref()?;
        let to = record.output_end.unwrap_or_else(|| self.end());
        Some(LastCommand {
            command: &record.command,
            output: self.lines_between(record.output_start, to, last),
            exit_code: record.exit_code,
            running: record.output_end.is_none(),
            from: record.output_start,
            to,
        })
    }

    /// The state of the shell according to its marks.
    pub fn shell_state(&self) -> ShellState {
        self.state.shell.state
    }

    /// The last trusted marks, oldest first. The text between `Input` and `Output` is the echo of typed input.
    pub fn marks(&self) -> impl DoubleEndedIterator<Item = &ShellMark> {
        self.state.shell.marks.iter()
    }

    /// The text of the cursor's line up to the cursor: the prompt of a program that reads a line.
    pub fn cursor_line(&self) -> String {
        self.state.cursor_line()
    }

    /// The modes that the program has set.
    pub fn modes(&self) -> Modes {
        let keyboard = if self.state.alt.is_some() {
            &self.state.alt_keyboard
        } else {
            &self.state.main_keyboard
        };
        Modes {
            keyboard: keyboard.flags,
            ..self.state.modes
        }
    }

    /// The title set by the program.
    pub fn title(&self) -> &str {
        &self.state.title
    }

    /// The working directory reported by the shell.
    pub fn cwd(&self) -> Option<&str> {
        self.state.cwd.as_deref()
    }
}
