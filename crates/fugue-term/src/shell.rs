//! Shell marks (OSC 133): where prompts, commands and their output begin and end.
//!
//! Anyone can print such a mark, so only those that carry this pane's secret count: `133;D;0;k=<secret>`. The
//! others are ignored altogether. What lies between B and C is the echo of what was typed.

use std::collections::VecDeque;

use crate::TerminalEvent;
use crate::machine::Machine;
use crate::place::{Offset, TextCursor};
use crate::typing::Typing;

/// What a mark says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShellMarkKind {
    /// A: the prompt begins.
    Prompt,
    /// B: the prompt is complete, what follows is typed.
    Input,
    /// C: the command runs, what follows is its output.
    Output,
    /// D: the command has ended.
    Done {
        /// Its exit code, if the mark has one.
        code: Option<i32>,
    },
}

/// A trusted mark and where it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShellMark {
    /// What it says.
    pub kind: ShellMarkKind,
    /// The text position of the terminal's cursor, and the offset just behind the mark.
    pub at: TextCursor,
    /// Which step of a plan it is about, if the shell runs one: `s=<plan>.<step>`.
    pub step: Option<StepMark>,
}

/// A step of a plan that a shell was given, as its marks name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepMark {
    /// The plan.
    pub plan: u64,
    /// The step in it.
    pub step: u64,
}

impl StepMark {
    /// Digits, a dot, digits: nothing else, so that no two spellings name one step.
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

/// What the shell is doing, by its marks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ShellState {
    /// No trusted mark came yet.
    #[default]
    Unknown,
    /// It is between a command and the next prompt: hooks run, the prompt is being drawn.
    Prompting {
        /// Where that began.
        since: TextCursor,
    },
    /// It waits for a command to be typed.
    AtPrompt {
        /// Where the typing begins.
        since: TextCursor,
    },
    /// A command runs.
    Running {
        /// Where its output begins.
        since: TextCursor,
    },
}

/// The last command that was run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ran {
    pub(crate) command: String,
    pub(crate) from: TextCursor,
    pub(crate) end: Option<TextCursor>,
    pub(crate) code: Option<i32>,
}

/// Enough for every command whose output is still kept, in all but silly cases.
pub(crate) const MAX_MARKS: usize = 1024;

/// A command line longer than this is cut where it is shown, not where it is run.
pub(crate) const MAX_COMMAND_CHARS: usize = 16 * 1024;

/// What the marks have told.
#[derive(Debug, Default)]
pub(crate) struct Shell {
    secret: Option<String>,
    pub(crate) state: ShellState,
    pub(crate) marks: VecDeque<ShellMark>,
    pub(crate) last: Option<Ran>,
    pub(crate) typing: Typing,
}

impl Shell {
    pub(crate) fn new(secret: Option<String>) -> Self {
        Shell {
            secret,
            ..Shell::default()
        }
    }

    pub(crate) fn has_secret(&self) -> bool {
        self.secret.is_some()
    }

    /// What is shown now is, or may be, what somebody types.
    pub(crate) fn echoes(&self) -> bool {
        matches!(self.state, ShellState::AtPrompt { .. }) && !self.typing.is_nothing()
    }

    fn trusts(&self, params: &[&[u8]]) -> bool {
        let Some(secret) = &self.secret else {
            return false;
        };
        params
            .iter()
            .any(|param| param.strip_prefix(b"k=") == Some(secret.as_bytes()))
    }
}

impl Machine {
    /// The part of an OSC 133 behind its number.
    pub(crate) fn shell_mark(&mut self, body: &[u8]) {
        let params: Vec<&[u8]> = body.split(|&b| b == b';').collect();
        if !self.shell.trusts(&params) {
            return;
        }
        let step = params
            .iter()
            .find_map(|param| StepMark::parse(param.strip_prefix(b"s=")?));
        match params[0] {
            b"A" => self.mark(ShellMarkKind::Prompt, step),
            b"B" => self.mark(ShellMarkKind::Input, step),
            // A step of a plan is run without being typed, so its output may begin with no input before it.
            b"C" => self.mark(ShellMarkKind::Output, step),
            b"D" => {
                let code = params
                    .get(1)
                    .and_then(|code| str::from_utf8(code).ok()?.parse().ok());
                self.mark(ShellMarkKind::Done { code }, step);
            }
            b"P" => {
                if let Some(path) = params.iter().find_map(|param| param.strip_prefix(b"cwd=")) {
                    self.set_cwd(path);
                }
            }
            _ => (),
        }
    }

    fn mark(&mut self, kind: ShellMarkKind, step: Option<StepMark>) {
        if step.is_some() {
            self.tidy();
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
                self.shell.typing.ran(&command);
                self.shell.state = ShellState::Running { since: at };
                self.shell.last = Some(Ran {
                    command,
                    from: at,
                    end: None,
                    code: None,
                });
            }
            ShellMarkKind::Done { code } => {
                if let (ShellState::Running { .. }, Some(ran)) =
                    (self.shell.state, &mut self.shell.last)
                {
                    ran.end = Some(at);
                    ran.code = code;
                }
                self.shell.state = ShellState::Prompting { since: at };
            }
        }
        let mark = ShellMark { kind, at, step };
        if self.shell.marks.len() == MAX_MARKS {
            self.shell.marks.pop_front();
        }
        self.shell.marks.push_back(mark);
        self.facts.push(TerminalEvent::Mark(mark));
        self.tap_marked(kind);
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
