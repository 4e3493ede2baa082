use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A pane's state and how it is known.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SourcedState {
    pub state: PaneState,
    pub by: StateSource,
    /// What it waits for: the prompt's text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// It waits for a secret: what is typed is not shown.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub secret: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<String>,
}

impl SourcedState {
    pub fn new(state: PaneState, by: StateSource) -> Self {
        Self {
            state,
            by,
            prompt: None,
            secret: false,
            exit_code: None,
            signal: None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum PaneState {
    Running,
    /// A shell at its prompt, or a program silent for longer than the idle threshold.
    Idle,
    /// A prompt waits for a person.
    NeedsInput,
    Exited,
    Closed,
}

/// How a state is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum StateSource {
    /// The process has ended, or is known to be there.
    Exit,
    /// A program of the pane waits in a read of the terminal.
    TtyRead,
    /// The shell's own marks.
    ShellMark,
    /// The agent in it said so.
    Hook,
    /// What is drawn on its screen.
    Screen,
    /// How long nothing was printed.
    Silence,
}
