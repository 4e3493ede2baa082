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
            out.write_number(n);
        }
        out.write_bytes(&self.dump());
        for row in &state.main.rows {
            out.write_row_changes(&row.changes);
        }
        out.write_history(state);
        out.write_number(state.last_char.map_or(0, |c| u64::from(u32::from(c)) + 1));
        out.write_bytes(state.cwd.as_deref().unwrap_or_default().as_bytes());
        for budget in [&state.replies, &state.bells] {
            out.write_number(budget.window);
            out.write_number(budget.spent);
        }
        out.write_shell(state);
        // After a resize the text may end before the recorded end, so the end is stored too.
        let end = self.end();
        out.write_number(end.line.0);
        out.write_number(end.col.into());
        Some(out.0)
    }

    /// Restores a terminal from a checkpoint. Returns `None` if the bytes are not a valid checkpoint.
    pub fn load(saved: &[u8], options: TerminalOptions) -> Option<Self> {
        let mut saved = CheckpointReader(saved.strip_prefix(MAGIC)?);
        let size = TerminalSize {
            rows: saved.read_number()?.try_into().ok()?,
            cols: saved.read_number()?.try_into().ok()?,
        };
        if size != size.clamped() {
            return None;
        }
        let (offset, changed) = (saved.read_number()?, saved.read_number()?);
        let mut terminal = Terminal::new(size, options.clone());
        terminal.feed(saved.read_bytes()?);
        if !terminal.parser.is_between_sequences() {
            return None;
        }
        terminal.parser = Parser::starting_at(offset);
        let state = &mut terminal.state;
        state.now = offset;
        state.last_change = changed;
        for row in &mut state.main.rows {
            row.changes = saved.read_row_changes()?;
        }
        state.history = saved.read_history(options.keep_lines)?;
        state.last_char = match saved.read_number()? {
            0 => None,
            c => Some(char::from_u32(u32::try_from(c - 1).ok()?)?),
        };
        state.cwd = Some(saved.read_text()?).filter(|cwd| !cwd.is_empty());
        for budget in [&mut state.replies, &mut state.bells] {
            *budget = EventBudget {
                window: saved.read_number()?,
                spent: saved.read_number()?,
            };
        }
        saved.read_shell(state)?;
        terminal.min_end = TextCursor {
            offset: Offset(offset),
            line: LineNo(saved.read_number()?),
            col: saved.read_number()?.try_into().ok()?,
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
    fn write_number(&mut self, n: u64) {
        varint::put(&mut self.0, n);
    }

    fn write_bytes(&mut self, bytes: &[u8]) {
        self.write_number(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    fn write_row_changes(&mut self, changes: &RowChanges) {
        for n in [
            changes.touched,
            changes.created,
            changes.rewritten,
            changes.first_rewritten.into(),
            changes.wrap_changed,
        ] {
            self.write_number(n);
        }
    }

    fn write_history(&mut self, state: &TerminalState) {
        let history = &state.history;
        let first = state.first_saved_line();
        for n in [first, history.last_change(), history.renumbered_at()] {
            self.write_number(n);
        }
        let rows: Vec<_> = history
            .rows_from(first)
            .filter(|(no, _)| *no >= first)
            .map(|(_, row)| row)
            .collect();
        self.write_number(rows.len() as u64);
        for (i, row) in rows.iter().enumerate() {
            self.write_bytes(row.text.as_bytes());
            self.write_row_changes(&row.changes);
            let wrapped = rows
                .get(i + 1)
                .map_or(history.is_open(), |next| next.continues);
            self.write_number(wrapped.into());
        }
    }

    fn write_cursor(&mut self, at: &TextCursor) {
        for n in [at.offset.0, at.line.0, at.col.into()] {
            self.write_number(n);
        }
    }

    fn write_exit_code(&mut self, code: Option<i32>) {
        self.write_number(u64::from(code.is_some()));
        varint::put_signed(&mut self.0, code.unwrap_or(0).into());
    }

    fn write_shell(&mut self, state: &TerminalState) {
        let (state_code, since) = match state.shell.state {
            ShellState::Unknown => (0, TextCursor::default()),
            ShellState::Prompting { since } => (1, since),
            ShellState::AtPrompt { since } => (2, since),
            ShellState::Running { since } => (3, since),
        };
        self.write_number(state_code);
        self.write_cursor(&since);
        self.write_number(state.shell.marks.len() as u64);
        for mark in &state.shell.marks {
            let (kind, code) = match mark.kind {
                ShellMarkKind::Prompt => (0, None),
                ShellMarkKind::Input => (1, None),
                ShellMarkKind::Output => (2, None),
                ShellMarkKind::Done { code } => (3, code),
            };
            self.write_number(kind);
            self.write_exit_code(code);
            self.write_cursor(&mark.at);
            self.write_number(mark.step.is_some().into());
            if let Some(StepMark { plan, step }) = mark.step {
                self.write_number(plan);
                self.write_number(step);
            }
        }
        let record = state.shell.last_command.as_ref();
        self.write_number(record.is_some().into());
        if let Some(record) = record {
            self.write_bytes(record.command.as_bytes());
            self.write_cursor(&record.output_start);
            self.write_number(record.output_end.is_some().into());
            self.write_cursor(&record.output_end.unwrap_or_default());
            self.write_exit_code(record.exit_code);
        }
    }
}

struct CheckpointReader<'a>(&'a [u8]);

impl<'a> CheckpointReader<'a> {
    fn read_number(&mut self) -> Option<u64> {
        varint::take(&mut self.0).filter(|&n| n < MAX_NUMBER)
    }

    /// A number without the upper bound, for values that are not used in sums.
    fn read_any_number(&mut self) -> Option<u64> {
        varint::take(&mut self.0)
    }

    fn read_flag(&mut self) -> Option<bool> {
        match self.read_number()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    fn read_bytes(&mut self) -> Option<&'a [u8]> {
        let len = self.read_number()?.try_into().ok()?;
        let (bytes, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(bytes)
    }

    /// Text that a program could have printed.
    fn read_text(&mut self) -> Option<String> {
        let text = str::from_utf8(self.read_bytes()?).ok()?;
        let clean = !text.chars().any(|c| c.is_control() && c != '\n');
        clean.then(|| text.to_owned())
    }

    fn read_row_changes(&mut self) -> Option<RowChanges> {
        let (touched, created, rewritten) = (
            self.read_number()?,
            self.read_number()?,
            self.read_number()?,
        );
        let first_rewritten = self.read_number()?.try_into().ok()?;
        Some(RowChanges {
            touched,
            created,
            rewritten,
            first_rewritten,
            wrap_changed: self.read_number()?,
        })
    }

    fn read_cursor(&mut self) -> Option<TextCursor> {
        let (offset, line) = (Offset(self.read_number()?), LineNo(self.read_number()?));
        Some(TextCursor {
            offset,
            line,
            col: self.read_number()?.try_into().ok()?,
        })
    }

    fn read_exit_code(&mut self) -> Option<Option<i32>> {
        let some = self.read_flag()?;
        let code = varint::take_signed(&mut self.0)?.try_into().ok()?;
        Some(some.then_some(code))
    }

    fn read_history(&mut self, keep_lines: usize) -> Option<History> {
        let mut history = History::new(keep_lines, self.read_number()?);
        let (touched, renumbered_at) = (self.read_number()?, self.read_number()?);
        for _ in 0..self.read_number()? {
            let text = self.read_text().filter(|text| !text.contains('\n'))?;
            let changes = self.read_row_changes()?;
            history.restore_row(&text, changes, self.read_flag()?);
        }
        history.restore_change_offsets(touched, renumbered_at);
        Some(history)
    }

    fn read_shell(&mut self, state: &mut TerminalState) -> Option<()> {
        let state_code = self.read_number()?;
        let since = self.read_cursor()?;
        let shell = &mut state.shell;
        shell.state = match state_code {
            0 => ShellState::Unknown,
            1 => ShellState::Prompting { since },
            2 => ShellState::AtPrompt { since },
            3 => ShellState::Running { since },
            _ => return None,
        };
        let marks = self.read_number()?;
        if marks > MAX_MARKS as u64 {
            return None;
        }
        shell.marks.clear();
        for _ in 0..marks {
            let kind = self.read_number()?;
            let code = self.read_exit_code()?;
            let kind = match kind {
                0 => ShellMarkKind::Prompt,
                1 => ShellMarkKind::Input,
                2 => ShellMarkKind::Output,
                3 => ShellMarkKind::Done { code },
                _ => return None,
            };
            let at = self.read_cursor()?;
            let step = match self.read_flag()? {
                true => Some(StepMark {
                    plan: self.read_any_number()?,
                    step: self.read_any_number()?,
                }),
                false => None,
            };
            shell.marks.push_back(ShellMark { kind, at, step });
        }
        shell.last_command = None;
        if self.read_flag()? {
            let command = self.read_text()?;
            if command.chars().count() > MAX_COMMAND_CHARS {
                return None;
            }
            let from = self.read_cursor()?;
            let ended = self.read_flag()?;
            let end = self.read_cursor()?;
            shell.last_command = Some(CommandRecord {
                command,
                output_start: from,
                output_end: ended.then_some(end),
                exit_code: self.read_exit_code()?,
            });
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use crate::{Terminal, TerminalOptions, TerminalSize};

    #[test]
    fn a_stored_line_with_a_line_feed_is_refused() {
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
    fn the_end_survives_a_resize_and_a_restart() {
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
            Terminal::load(&saved, TerminalOptions::default()).expect("a saved checkpoint loads");
        assert_eq!([terminal.end(), loaded.end()], [before; 2]);
        loaded.resize(narrow);
        assert_eq!(loaded.end(), before);
        assert_eq!(loaded.save(), Some(saved));
        loaded.feed(b"z");
        terminal.feed(b"z");
        assert_eq!(loaded.end(), terminal.end());
    }
}
