//! Checkpoints: the terminal state at an offset, from which a terminal continues as if it had read all earlier
//! output.
//!
//! The screen is stored as a [dump](Terminal::dump), so a manipulated checkpoint can do no more than a program that
//! prints. Offsets, line numbers and marks, which printing cannot restore, are stored as numbers and validated. The
//! history is in the output log and not in the checkpoint, except for the beginning of a line or of a command line
//! that continues on the screen.

use crate::history::History;
use crate::parser::Parser;
use crate::position::{LineNo, Offset, TextCursor};
use crate::row::RowChanges;
use crate::shell_marks::{
    CommandRecord, MAX_COMMAND_CHARS, MAX_MARKS, ShellMark, ShellMarkKind, ShellState, StepMark,
};
use crate::terminal::{Terminal, TerminalOptions, TerminalSize};
use crate::terminal_state::{EventBudget, TerminalState};
use crate::varint;

/// Changes with the format: a checkpoint with another header is refused, and the log is read from its start.
const MAGIC: &[u8] = b"fugue-term 3\n";

/// The upper bound of stored numbers: out of reach for any pane, and sums do not overflow.
const MAX_NUMBER: u64 = 1 << 60;

impl Terminal {
    /// A checkpoint, or `None` within an escape sequence or a character.
    pub fn save(&self) -> Option<Vec<u8>> {
        if !self.parser.is_between_sequences() {
            return None;
        }
        let state = &self.state;
        let mut out = CheckpointWriter(MAGIC.to_vec());
        let size = self.size();
        for n in [
            size.rows.into(),
            size.cols.into(),
            self.offset().0,
            state.last_change,
        ] {
            out.number(n);
        }
        out.bytes(&self.dump());
        for row in &state.main.rows {
            out.row_changes(&row.changes);
        }
        out.history(state);
        out.number(state.last_char.map_or(0, |c| u64::from(u32::from(c)) + 1));
        out.bytes(state.cwd.as_deref().unwrap_or_default().as_bytes());
        for budget in [&state.replies, &state.bells] {
            out.number(budget.window);
            out.number(budget.spent);
        }
        out.shell(state);
        // After a resize the text may end before the recorded end, so the end is stored too.
        let end = self.end();
        out.number(end.line.0);
        out.number(end.col.into());
        Some(out.0)
    }

    /// Restores a terminal from a checkpoint. Returns `None` if the bytes are not a valid checkpoint.
    pub fn load(saved: &[u8], options: TerminalOptions) -> Option<Self> {
        let mut saved = CheckpointReader(saved.strip_prefix(MAGIC)?);
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
        let state = &mut terminal.state;
        state.now = offset;
        state.last_change = changed;
        for row in &mut state.main.rows {
            row.changes = saved.row_changes()?;
        }
        state.history = saved.history(options.keep_lines)?;
        state.last_char = match saved.number()? {
            0 => None,
            c => Some(char::from_u32(u32::try_from(c - 1).ok()?)?),
        };
        state.cwd = Some(saved.text()?).filter(|cwd| !cwd.is_empty());
        for budget in [&mut state.replies, &mut state.bells] {
            *budget = EventBudget {
                window: saved.number()?,
                spent: saved.number()?,
            };
        }
        saved.shell(state)?;
        terminal.min_end = TextCursor {
            offset: Offset(offset),
            line: LineNo(saved.number()?),
            col: saved.number()?.try_into().ok()?,
        };
        saved.0.is_empty().then_some(terminal)
    }
}

/// The limit of history lines stored for a command line that is being typed. A longer command line is cut after a
/// restart of the daemon.
const MAX_INPUT_LINES: u64 = 200;

impl TerminalState {
    /// The first history line to store: the line that continues on the screen, or the line in which the current
    /// command line begins.
    fn first_saved_line(&self) -> u64 {
        let screen = self.history.screen_line();
        let typed = match self.shell.state {
            ShellState::AtPrompt { since } => {
                since.line.0.max(screen.saturating_sub(MAX_INPUT_LINES))
            }
            ShellState::Unknown | ShellState::Prompting { .. } | ShellState::Running { .. } => {
                screen
            }
        };
        typed.min(screen).max(self.history.first_kept())
    }
}

struct CheckpointWriter(Vec<u8>);

impl CheckpointWriter {
    fn number(&mut self, n: u64) {
        varint::put(&mut self.0, n);
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    fn row_changes(&mut self, changes: &RowChanges) {
        for n in [
            changes.touched,
            changes.created,
            changes.rewritten,
            changes.first_rewritten.into(),
            changes.wrap_changed,
        ] {
            self.number(n);
        }
    }

    fn history(&mut self, state: &TerminalState) {
        let history = &state.history;
        let first = state.first_saved_line();
        for n in [first, history.last_change(), history.renumbered_at()] {
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
            self.row_changes(&row.changes);
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

    fn shell(&mut self, state: &TerminalState) {
        let (state_code, since) = match state.shell.state {
            ShellState::Unknown => (0, TextCursor::default()),
            ShellState::Prompting { since } => (1, since),
            ShellState::AtPrompt { since } => (2, since),
            ShellState::Running { since } => (3, since),
        };
        self.number(state_code);
        self.cursor(&since);
        self.number(state.shell.marks.len() as u64);
        for mark in &state.shell.marks {
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
        let record = state.shell.last_command.as_ref();
        self.number(record.is_some().into());
        if let Some(record) = record {
            self.bytes(record.command.as_bytes());
            self.cursor(&record.output_start);
            self.number(record.output_end.is_some().into());
            self.cursor(&record.output_end.unwrap_or_default());
            self.code(record.exit_code);
        }
    }
}

struct CheckpointReader<'a>(&'a [u8]);

impl<'a> CheckpointReader<'a> {
    fn number(&mut self) -> Option<u64> {
        varint::take(&mut self.0).filter(|&n| n < MAX_NUMBER)
    }

    /// A number without the upper bound, for values that are not used in sums.
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

    /// Text that a program could have printed.
    fn text(&mut self) -> Option<String> {
        let text = str::from_utf8(self.bytes()?).ok()?;
        let clean = !text.chars().any(|c| c.is_control() && c != '\n');
        clean.then(|| text.to_owned())
    }

    fn row_changes(&mut self) -> Option<RowChanges> {
        let (touched, created, rewritten) = (self.number()?, self.number()?, self.number()?);
        let first_rewritten = self.number()?.try_into().ok()?;
        Some(RowChanges {
            touched,
            created,
            rewritten,
            first_rewritten,
            wrap_changed: self.number()?,
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
        let (touched, renumbered_at) = (self.number()?, self.number()?);
        for _ in 0..self.number()? {
            let text = self.text().filter(|text| !text.contains('\n'))?;
            let changes = self.row_changes()?;
            history.restore_row(&text, changes, self.flag()?);
        }
        history.restore_change_offsets(touched, renumbered_at);
        Some(history)
    }

    fn shell(&mut self, state: &mut TerminalState) -> Option<()> {
        let state_code = self.number()?;
        let since = self.cursor()?;
        let shell = &mut state.shell;
        shell.state = match state_code {
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
        shell.last_command = None;
        if self.flag()? {
            let command = self.text()?;
            if command.chars().count() > MAX_COMMAND_CHARS {
                return None;
            }
            let from = self.cursor()?;
            let ended = self.flag()?;
            let end = self.cursor()?;
            shell.last_command = Some(CommandRecord {
                command,
                output_start: from,
                output_end: ended.then_some(end),
                exit_code: self.code()?,
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
        // The screen shows `efgh`; `abcd` occurs once, as history.
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
        // After the resize the wide character does not fit after the gap, and the gap is no longer text.
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
