//! A checkpoint: what is needed to read on from here as if one had never stopped.
//!
//! The screen is stored as the bytes that paint it ([`Terminal::dump`]), so a checkpoint that was tampered with can do
//! no more than a program that prints; beside it are the numbers that printing cannot make (offsets, line numbers,
//! marks), each checked. The text that left the screen is not in it, but for the beginning of a line or a command that
//! still goes on: that text is in the pane's log.

use crate::history::History;
use crate::machine::{Budget, Machine};
use crate::parser::Parser;
use crate::place::{LineNo, Offset, TextCursor};
use crate::row::Past;
use crate::shell::{
    MAX_COMMAND_CHARS, MAX_MARKS, Ran, ShellMark, ShellMarkKind, ShellState, StepMark,
};
use crate::terminal::{Terminal, TerminalOptions, TerminalSize};
use crate::varint;

/// Changes with the format: an old checkpoint is then no checkpoint, and the log is read from its start.
const MAGIC: &[u8] = b"fugue-term 3\n";

/// No pane lives to see it, and sums with it do not overflow.
const MOST: u64 = 1 << 60;

impl Terminal {
    /// A checkpoint, or `None` in the middle of an escape sequence or a character.
    pub fn save(&self) -> Option<Vec<u8>> {
        if !self.parser.is_between_sequences() {
            return None;
        }
        let machine = &self.machine;
        let mut out = Writer(MAGIC.to_vec());
        let size = self.size();
        for n in [
            size.rows.into(),
            size.cols.into(),
            self.offset().0,
            machine.changed,
        ] {
            out.number(n);
        }
        out.bytes(&self.dump());
        for row in &machine.main.rows {
            out.past(&row.past);
        }
        out.history(machine);
        out.number(machine.last.map_or(0, |c| u64::from(u32::from(c)) + 1));
        out.bytes(machine.cwd.as_deref().unwrap_or_default().as_bytes());
        for budget in [&machine.replies, &machine.bells] {
            out.number(budget.window);
            out.number(budget.spent);
        }
        out.shell(machine);
        // A new size may have drawn the text in since: then its end is not where the text says.
        let end = self.end();
        out.number(end.line.0);
        out.number(end.col.into());
        Some(out.0)
    }

    /// The terminal of a checkpoint. What is none gives `None`.
    pub fn load(saved: &[u8], options: TerminalOptions) -> Option<Self> {
        let mut saved = Reader(saved.strip_prefix(MAGIC)?);
        let size = TerminalSize {
            rows: saved.number()?.try_into().ok()?,
            cols: saved.number()?.try_into().ok()?,
        };
        if size != size.clamped() {
            return None;
        }
        let (offset, changed) = (saved.number()?, saved.number()?);
        let mut terminal = Terminal::new(size, options.clone());
        terminal.feed(saved.bytes()?);
        if !terminal.parser.is_between_sequences() {
            return None;
        }
        terminal.parser = Parser::starting_at(offset);
        let machine = &mut terminal.machine;
        machine.now = offset;
        machine.changed = changed;
        for row in &mut machine.main.rows {
            row.past = saved.past()?;
        }
        machine.history = saved.history(options.keep_lines)?;
        machine.last = match saved.number()? {
            0 => None,
            c => Some(char::from_u32(u32::try_from(c - 1).ok()?)?),
        };
        machine.cwd = Some(saved.text()?).filter(|cwd| !cwd.is_empty());
        for budget in [&mut machine.replies, &mut machine.bells] {
            *budget = Budget {
                window: saved.number()?,
                spent: saved.number()?,
            };
        }
        saved.shell(machine)?;
        terminal.floor = TextCursor {
            offset: Offset(offset),
            line: LineNo(saved.number()?),
            col: saved.number()?.try_into().ok()?,
        };
        saved.0.is_empty().then_some(terminal)
    }
}

/// A command line of more lines that scrolled off is cut when the daemon restarts while it is typed.
const MOST_TYPED_LINES: u64 = 200;

impl Machine {
    /// The first line that left the screen and is still needed: the one that goes on, or the one in which the typing
    /// of a command began.
    fn first_needed_line(&self) -> u64 {
        let screen = self.history.screen_line();
        let typed = match self.shell.state {
            ShellState::AtPrompt { since } => {
                since.line.0.max(screen.saturating_sub(MOST_TYPED_LINES))
            }
            ShellState::Unknown | ShellState::Prompting { .. } | ShellState::Running { .. } => {
                screen
            }
        };
        typed.min(screen).max(self.history.first_kept())
    }
}

struct Writer(Vec<u8>);

impl Writer {
    fn number(&mut self, n: u64) {
        varint::put(&mut self.0, n);
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    fn past(&mut self, past: &Past) {
        for n in [
            past.touched,
            past.created,
            past.rewritten,
            past.low.into(),
            past.rewrapped,
        ] {
            self.number(n);
        }
    }

    fn history(&mut self, machine: &Machine) {
        let history = &machine.history;
        let first = machine.first_needed_line();
        for n in [first, history.max_touched(), history.renumbered()] {
            self.number(n);
        }
        let rows: Vec<_> = history
            .rows_from(first)
            .filter(|(no, _)| *no >= first)
            .map(|(_, row)| row)
            .collect();
        self.number(rows.len() as u64);
        for (i, row) in rows.iter().enumerate() {
            self.bytes(row.text.as_bytes());
            self.past(&row.past);
            let wrapped = rows
                .get(i + 1)
                .map_or(history.is_open(), |next| next.continues);
            self.number(wrapped.into());
        }
    }

    fn cursor(&mut self, at: &TextCursor) {
        for n in [at.offset.0, at.line.0, at.col.into()] {
            self.number(n);
        }
    }

    fn code(&mut self, code: Option<i32>) {
        self.number(u64::from(code.is_some()));
        varint::put_signed(&mut self.0, code.unwrap_or(0).into());
    }

    fn shell(&mut self, machine: &Machine) {
        let (state, since) = match machine.shell.state {
            ShellState::Unknown => (0, TextCursor::default()),
            ShellState::Prompting { since } => (1, since),
            ShellState::AtPrompt { since } => (2, since),
            ShellState::Running { since } => (3, since),
        };
        self.number(state);
        self.cursor(&since);
        self.number(machine.shell.marks.len() as u64);
        for mark in &machine.shell.marks {
            let (kind, code) = match mark.kind {
                ShellMarkKind::Prompt => (0, None),
                ShellMarkKind::Input => (1, None),
                ShellMarkKind::Output => (2, None),
                ShellMarkKind::Done { code } => (3, code),
            };
            self.number(kind);
            self.code(code);
            self.cursor(&mark.at);
            self.number(mark.step.is_some().into());
            if let Some(StepMark { plan, step }) = mark.step {
                self.number(plan);
                self.number(step);
            }
        }
        let ran = machine.shell.last.as_ref();
        self.number(ran.is_some().into());
        if let Some(ran) = ran {
            self.bytes(ran.command.as_bytes());
            self.cursor(&ran.from);
            self.number(ran.end.is_some().into());
            self.cursor(&ran.end.unwrap_or_default());
            self.code(ran.code);
        }
    }
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn number(&mut self) -> Option<u64> {
        varint::take(&mut self.0).filter(|&n| n < MOST)
    }

    /// One that nothing is added to.
    fn any_number(&mut self) -> Option<u64> {
        varint::take(&mut self.0)
    }

    fn flag(&mut self) -> Option<bool> {
        match self.number()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let len = self.number()?.try_into().ok()?;
        let (bytes, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(bytes)
    }

    /// Text that could have been printed.
    fn text(&mut self) -> Option<String> {
        let text = str::from_utf8(self.bytes()?).ok()?;
        let clean = !text.chars().any(|c| c.is_control() && c != '\n');
        clean.then(|| text.to_owned())
    }

    fn past(&mut self) -> Option<Past> {
        let (touched, created, rewritten) = (self.number()?, self.number()?, self.number()?);
        let low = self.number()?.try_into().ok()?;
        Some(Past {
            touched,
            created,
            rewritten,
            low,
            rewrapped: self.number()?,
        })
    }

    fn cursor(&mut self) -> Option<TextCursor> {
        let (offset, line) = (Offset(self.number()?), LineNo(self.number()?));
        Some(TextCursor {
            offset,
            line,
            col: self.number()?.try_into().ok()?,
        })
    }

    fn code(&mut self) -> Option<Option<i32>> {
        let some = self.flag()?;
        let code = varint::take_signed(&mut self.0)?.try_into().ok()?;
        Some(some.then_some(code))
    }

    fn history(&mut self, keep_lines: usize) -> Option<History> {
        let mut history = History::new(keep_lines, self.number()?);
        let (touched, renumbered) = (self.number()?, self.number()?);
        for _ in 0..self.number()? {
            let text = self.text().filter(|text| !text.contains('\n'))?;
            let past = self.past()?;
            history.push_kept(&text, past, self.flag()?);
        }
        history.began_after(touched, renumbered);
        Some(history)
    }

    fn shell(&mut self, machine: &mut Machine) -> Option<()> {
        let state = self.number()?;
        let since = self.cursor()?;
        let shell = &mut machine.shell;
        shell.state = match state {
            0 => ShellState::Unknown,
            1 => ShellState::Prompting { since },
            2 => ShellState::AtPrompt { since },
            3 => ShellState::Running { since },
            _ => return None,
        };
        let marks = self.number()?;
        if marks > MAX_MARKS as u64 {
            return None;
        }
        shell.marks.clear();
        for _ in 0..marks {
            let kind = self.number()?;
            let code = self.code()?;
            let kind = match kind {
                0 => ShellMarkKind::Prompt,
                1 => ShellMarkKind::Input,
                2 => ShellMarkKind::Output,
                3 => ShellMarkKind::Done { code },
                _ => return None,
            };
            let at = self.cursor()?;
            let step = match self.flag()? {
                true => Some(StepMark {
                    plan: self.any_number()?,
                    step: self.any_number()?,
                }),
                false => None,
            };
            shell.marks.push_back(ShellMark { kind, at, step });
        }
        shell.last = None;
        if self.flag()? {
            let command = self.text()?;
            if command.chars().count() > MAX_COMMAND_CHARS {
                return None;
            }
            let from = self.cursor()?;
            let ended = self.flag()?;
            let end = self.cursor()?;
            shell.last = Some(Ran {
                command,
                from,
                end: ended.then_some(end),
                code: self.code()?,
            });
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use crate::{Terminal, TerminalOptions, TerminalSize};

    #[test]
    fn a_line_with_a_line_feed_in_it_is_no_line() {
        let mut terminal = Terminal::new(
            TerminalSize { rows: 1, cols: 4 },
            TerminalOptions::default(),
        );
        terminal.feed(b"abcdefgh");
        let mut saved = terminal.save().expect("a checkpoint");
        assert!(Terminal::load(&saved, TerminalOptions::default()).is_some());
        // The screen shows `efgh`; what has left it is there once.
        let at = saved.windows(4).position(|text| text == b"abcd");
        saved[at.expect("the beginning of the line") + 1] = b'\n';
        assert!(Terminal::load(&saved, TerminalOptions::default()).is_none());
    }

    #[test]
    fn an_end_that_a_new_size_drew_in_is_kept() {
        let mut terminal = Terminal::new(
            TerminalSize { rows: 1, cols: 11 },
            TerminalOptions::default(),
        );
        // Where the wide character no longer fits behind the gap, the gap is not text any more.
        terminal.feed("\x1b[1;2H👍🏽".as_bytes());
        let before = terminal.end();
        let narrow = TerminalSize { rows: 1, cols: 2 };
        terminal.resize(narrow);
        let saved = terminal.save().expect("between sequences");
        let mut loaded =
            Terminal::load(&saved, TerminalOptions::default()).expect("what was saved loads");
        assert_eq!([terminal.end(), loaded.end()], [before; 2]);
        loaded.resize(narrow);
        assert_eq!(loaded.end(), before);
        assert_eq!(loaded.save(), Some(saved));
        loaded.feed(b"z");
        terminal.feed(b"z");
        assert_eq!(loaded.end(), terminal.end());
    }
}
