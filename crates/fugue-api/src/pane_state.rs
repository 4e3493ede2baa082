//! States of panes and how they are known.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The state of a pane and its source.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SourcedState {
    pub state: PaneState,
    pub by: StateSource,
    /// The text of the prompt that waits for input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// The prompt asks for a secret: typed text is not shown.
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

/// The source of a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum StateSource {
    /// The process was started or has ended.
    Exit,
    /// A program of the pane is blocked in a read of the terminal.
    TtyRead,
    /// Shell marks (OSC 133).
    ShellMark,
    /// A hook of the agent in the pane.
    Hook,
    /// The text on the screen.
    Screen,
    /// The time without output.
    Silence,
}
