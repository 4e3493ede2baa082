//! Shell marks (OSC 133): where prompts, commands and their output begin and end.
//!
//! Any program can print a mark, so only marks with the pane's secret are trusted: `133;D;0;k=<secret>`. All other
//! marks are ignored. The text between B and C is the echo of typed input.

use std::collections::VecDeque;

use crate::TerminalEvent;
use crate::position::{Offset, TextCursor};
use crate::terminal_state::TerminalState;
use crate::typed_lines::TypedLines;

/// The kind of a shell mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShellMarkKind {
    /// A: the prompt begins.
    Prompt,
    /// B: the prompt is complete and input follows.
    Input,
    /// C: the command runs and its output follows.
    Output,
    /// D: the command has ended.
    Done {
        /// The exit code, if the mark has one.
        code: Option<i32>,
    },
}

/// A trusted mark and its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShellMark {
    /// The kind of the mark.
    pub kind: ShellMarkKind,
    /// The text position of the terminal's cursor, and the offset just after the mark.
    pub at: TextCursor,
    /// The pipeline step that the mark belongs to, if the shell runs a pipeline: `s=<plan>.<step>`.
    pub step: Option<StepMark>,
}

/// A pipeline step, as named by the shell's marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepMark {
    /// The number of the pipeline plan.
    pub plan: u64,
    /// The number of the step within the plan.
    pub step: u64,
}

impl StepMark {
    /// Parses digits, a dot, digits. Other spellings are refused, so that each step has a single spelling.
    fn parse(text: &[u8]) -> Option<Self> {
        let (plan, step) = str::from_utf8(text).ok()?.split_once('.')?;
        let number = |digits: &str| match digits.bytes().all(|b| b.is_ascii_digit()) {
            true => digits.parse().ok(),
            false => None,
        };
        Some(StepMark {
            plan: number(plan)?,
            step: number(step)?,
        })
    }
}

/// The state of the shell according to its marks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ShellState {
    /// No trusted mark was read yet.
    #[default]
    Unknown,
    /// Between a command and the next prompt: hooks run, or the prompt is being drawn.
    Prompting {
        /// The position at which this state began.
        since: TextCursor,
    },
    /// Waiting for a command line.
    AtPrompt {
        /// The position at which the input begins.
        since: TextCursor,
    },
    /// A command runs.
    Running {
        /// The position at which the output begins.
        since: TextCursor,
    },
}

/// The last command that the shell ran.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CommandRecord {
    pub(crate) command: String,
    pub(crate) output_start: TextCursor,
    pub(crate) output_end: Option<TextCursor>,
    pub(crate) exit_code: Option<i32>,
}

/// Enough for every command with output in the history, except in extreme cases.
pub(crate) const MAX_MARKS: usize = 1024;

/// The limit of a recorded command line. Only the record is cut, not the command.
pub(crate) const MAX_COMMAND_CHARS: usize = 16 * 1024;

/// Tracks the shell by its marks.
#[derive(Debug, Default)]
pub(crate) struct ShellTracker {
    secret: Option<String>,
    pub(crate) state: ShellState,
    pub(crate) marks: VecDeque<ShellMark>,
    pub(crate) last_command: Option<CommandRecord>,
    pub(crate) typed_lines: TypedLines,
}

impl ShellTracker {
    pub(crate) fn new(secret: Option<String>) -> Self {
        ShellTracker {
            secret,
            ..ShellTracker::default()
        }
    }

    pub(crate) fn has_secret(&self) -> bool {
        self.secret.is_some()
    }

    /// Whether the text printed now is, or may be, echo of typed input.
    pub(crate) fn is_echoing(&self) -> bool {
        matches!(self.state, ShellState::AtPrompt { .. }) && !self.typed_lines.is_empty()
    }

    fn has_secret_param(&self, params: &[&[u8]]) -> bool {
        let Some(secret) = &self.secret else {
            return false;
        };
        params
            .iter()
            .any(|param| param.strip_prefix(b"k=") == Some(secret.as_bytes()))
    }
}

impl TerminalState {
    /// Executes an OSC 133 without its number.
    pub(crate) fn execute_shell_mark(&mut self, body: &[u8]) {
        let params: Vec<&[u8]> = body.split(|&b| b == b';').collect();
        if !self.shell.has_secret_param(&params) {
            return;
        }
        let step = params
            .iter()
            .find_map(|param| StepMark::parse(param.strip_prefix(b"s=")?));
        match params[0] {
            b"A" => self.record_mark(ShellMarkKind::Prompt, step),
            b"B" => self.record_mark(ShellMarkKind::Input, step),
            // A pipeline step runs without being typed, so output may begin without a preceding input mark.
            b"C" => self.record_mark(ShellMarkKind::Output, step),
            b"D" => {
                let code = params
                    .get(1)
                    .and_then(|code| str::from_utf8(code).ok()?.parse().ok());
                self.record_mark(ShellMarkKind::Done { code }, step);
            }
            b"P" => {
                if let Some(path) = params.iter().find_map(|param| param.strip_prefix(b"cwd=")) {
                    self.set_cwd(path);
                }
            }
            _ => (),
        }
    }

    fn record_mark(&mut self, kind: ShellMarkKind, step: Option<StepMark>) {
        if step.is_some() {
            self.reset_program_state();
        }
        let (line, col) = self.text_position();
        let at = TextCursor {
            offset: Offset(self.now),
            line,
            col,
        };
        match kind {
            ShellMarkKind::Prompt => self.shell.state = ShellState::Prompting { since: at },
            ShellMarkKind::Input => self.shell.state = ShellState::AtPrompt { since: at },
            ShellMarkKind::Output => {
                let command = match self.shell.state {
                    ShellState::AtPrompt { since } => self.command_line(since, at),
                    ShellState::Unknown
                    | ShellState::Prompting { .. }
                    | ShellState::Running { .. } => String::new(),
                };
                self.shell.typed_lines.remove_started(&command);
                self.shell.state = ShellState::Running { since: at };
                self.shell.last_command = Some(CommandRecord {
                    command,
                    output_start: at,
                    output_end: None,
                    exit_code: None,
                });
            }
            ShellMarkKind::Done { code } => {
                if let (ShellState::Running { .. }, Some(record)) =
                    (self.shell.state, &mut self.shell.last_command)
                {
                    record.output_end = Some(at);
                    record.exit_code = code;
                }
                self.shell.state = ShellState::Prompting { since: at };
            }
        }
        let mark = ShellMark { kind, at, step };
        if self.shell.marks.len() == MAX_MARKS {
            self.shell.marks.pop_front();
        }
        self.shell.marks.push_back(mark);
        self.events.push(TerminalEvent::Mark(mark));
        self.stream_after_mark(kind);
    }

    fn command_line(&self, from: TextCursor, to: TextCursor) -> String {
        let lines = self.lines_between(from, to, MAX_COMMAND_CHARS);
        let text = lines
            .lines
            .iter()
            .map(|line| &line.text[..])
            .collect::<Vec<_>>()
            .join("\n");
        let text = text.trim_end();
        text.chars().take(MAX_COMMAND_CHARS).collect()
    }
}
