//! The terminal as its users see it.

use crate::cell::Style;
use crate::lines::{LineQuery, TextLines};
use crate::machine::Machine;
use crate::modes::Modes;
use crate::parser::Parser;
use crate::place::{LineNo, Offset, TextCursor};
use crate::screen::Screen;
use crate::shell::{ShellMark, ShellState};
use crate::tap::Tapped;

/// Rows and columns. Any value is survived; what is used has at least one row and two columns, so that every
/// character fits, and at most [`TerminalSize::MOST`] of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TerminalSize {
    /// Rows.
    pub rows: u16,
    /// Columns.
    pub cols: u16,
}

impl TerminalSize {
    /// More than any real screen, and a bound on what one pane can cost.
    pub const MOST: u16 = 1000;

    /// The nearest size that is used.
    pub fn clamped(self) -> TerminalSize {
        TerminalSize {
            rows: self.rows.clamp(1, TerminalSize::MOST),
            cols: self.cols.clamp(2, TerminalSize::MOST),
        }
    }
}

/// What a terminal is made with.
#[derive(Clone, Debug)]
pub struct TerminalOptions {
    /// How many lines that left the screen are kept.
    pub keep_lines: usize,
    /// Shell marks count only if they carry this; with `None` none counts.
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

/// Something that happened while bytes were read, in their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TerminalEvent {
    /// A shell mark that carries the secret.
    Mark(ShellMark),
    /// The title is now this.
    Title(String),
    /// The working directory is now this.
    Cwd(String),
    /// The bell rang. Not every ring of a storm is told.
    Bell,
    /// The alternate screen was shown (`true`) or left.
    Alternate(bool),
    /// The program asked the terminal something; to be typed to it, once.
    Reply {
        /// Just behind the question; what was answered before a restart is not answered again.
        at: Offset,
        /// Fixed words and numbers, never text of the program's choice.
        bytes: Vec<u8>,
    },
}

/// The last command that a shell with marks ran.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastCommand<'a> {
    /// Its command line as echoed.
    pub command: &'a str,
    /// Its output so far.
    pub output: TextLines<'a>,
    /// Its exit code, once it ended and if the shell said.
    pub exit_code: Option<i32>,
    /// It has not ended.
    pub running: bool,
    /// Where its output begins.
    pub from: TextCursor,
    /// Where its output ends, so far.
    pub to: TextCursor,
}

/// A pane's terminal: bytes in, text and screen out.
#[derive(Debug)]
pub struct Terminal {
    pub(crate) parser: Parser,
    pub(crate) machine: Machine,
    /// The end before the last change of size or process, or in the checkpoint this was made from: with nothing printed
    /// since, the end is no earlier.
    pub(crate) floor: TextCursor,
}

impl Terminal {
    /// A blank screen at the beginning of a pane's output.
    pub fn new(size: TerminalSize, options: TerminalOptions) -> Self {
        Terminal {
            parser: Parser::starting_at(0),
            machine: Machine::new(size.clamped(), &options, 0, 0),
            floor: TextCursor::default(),
        }
    }

    /// Reads output. The result is the same however the bytes are cut.
    pub fn feed(&mut self, bytes: &[u8]) -> Vec<TerminalEvent> {
        if let Some(tap) = &mut self.machine.tap {
            tap.start_feed();
        }
        self.parser.advance(&mut self.machine, bytes);
        self.machine.now = self.parser.offset();
        if let Some(tap) = &mut self.machine.tap {
            tap.end_feed(self.machine.now);
        }
        std::mem::take(&mut self.machine.facts)
    }

    /// While on, each feed leaves what it printed in [`Terminal::tapped`].
    pub fn listen(&mut self, on: bool) {
        self.machine.listen(on);
    }

    /// Nothing was typed so far, and [`Terminal::typed`] is called whenever something is. What is shown at a prompt where
    /// nothing was typed comes from a program in the background, and is not taken for an echo.
    pub fn nothing_typed_yet(&mut self) {
        self.machine.shell.typing.nothing_yet();
    }

    /// This is typed.
    pub fn typed(&mut self, bytes: &[u8]) {
        self.machine.shell.typing.typed(bytes);
        self.machine.tap_typed();
    }

    /// Something may have been typed, and nobody knows what.
    pub fn may_have_typed(&mut self) {
        self.machine.shell.typing.may_have_typed();
        self.machine.tap_typed();
    }

    /// What the last feed printed; nothing if nobody listened.
    pub fn tapped(&self) -> &Tapped {
        self.machine.tapped()
    }

    /// Changes the size; lines of the main screen are wrapped anew.
    pub fn resize(&mut self, size: TerminalSize) {
        self.floor = self.end();
        self.machine.resize(size.clamped());
    }

    /// The size in use.
    pub fn size(&self) -> TerminalSize {
        let grid = &self.machine.main;
        TerminalSize {
            rows: grid.height() as u16,
            cols: grid.cols as u16,
        }
    }

    /// How many bytes were read since the pane's birth.
    pub fn offset(&self) -> Offset {
        Offset(self.parser.offset())
    }

    /// Just behind the last byte that may have changed what is visible.
    pub fn changed(&self) -> Offset {
        Offset(self.machine.changed)
    }

    /// The end of the text so far.
    pub fn end(&self) -> TextCursor {
        let (line, col) = self.machine.text_end();
        let offset = self.offset();
        TextCursor { offset, line, col }.max(self.floor)
    }

    /// Lines of the text, oldest first.
    pub fn lines(&self, query: &LineQuery) -> TextLines<'_> {
        self.machine.lines(query)
    }

    /// The last lines of a stretch of the text, whenever they were written.
    pub fn lines_between(&self, from: TextCursor, to: TextCursor, last: usize) -> TextLines<'_> {
        self.machine.lines_between(from, to, last)
    }

    /// One kept or visible line cut by style, for a renderer.
    pub fn styled_line(&self, line: LineNo) -> Vec<(String, Style)> {
        self.machine.styled_line(line)
    }

    /// The line that the first row of the main screen belongs to.
    pub fn top_line(&self) -> LineNo {
        LineNo(self.machine.history.screen_line())
    }

    /// The oldest line that is kept here.
    pub fn first_kept(&self) -> LineNo {
        LineNo(self.machine.history.first_kept())
    }

    /// The visible screen.
    pub fn screen(&self) -> Screen<'_> {
        Screen::new(&self.machine)
    }

    /// The last command of a shell with marks; the last `last` lines of its output.
    pub fn last_command(&self, last: usize) -> Option<LastCommand<'_>> {
        let ran = self.machine.shell.last.as_ref()?;
        let to = ran.end.unwrap_or_else(|| self.end());
        Some(LastCommand {
            command: &ran.command,
            output: self.lines_between(ran.from, to, last),
            exit_code: ran.code,
            running: ran.end.is_none(),
            from: ran.from,
            to,
        })
    }

    /// What the shell is doing, by its marks.
    pub fn prompt(&self) -> ShellState {
        self.machine.shell.state
    }

    /// The last trusted marks, oldest first: between `Input` and `Output` lies the echo of what was typed.
    pub fn marks(&self) -> impl DoubleEndedIterator<Item = &ShellMark> {
        self.machine.shell.marks.iter()
    }

    /// The text of the line the terminal's cursor is on, up to the cursor: a program's prompt, if it asks for something.
    pub fn cursor_line(&self) -> String {
        self.machine.cursor_line()
    }

    /// What the program has switched on.
    pub fn modes(&self) -> Modes {
        let keyboard = if self.machine.alt.is_some() {
            &self.machine.alt_keyboard
        } else {
            &self.machine.main_keyboard
        };
        Modes {
            keyboard: keyboard.flags,
            ..self.machine.modes
        }
    }

    /// The title the program gave itself.
    pub fn title(&self) -> &str {
        &self.machine.title
    }

    /// The working directory the shell told.
    pub fn cwd(&self) -> Option<&str> {
        self.machine.cwd.as_deref()
    }
}
