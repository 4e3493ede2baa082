//! States of panes and how they are known.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::PaneId;

/// The state of a pane and its source.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SourcedState {
    pub state: PaneState,
    #[schemars(with = "String")]
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

/// The agent in a pane and what it is doing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AgentStatus {
    /// The agent, such as `claude`.
    pub name: String,
    pub state: AgentState,
    pub by: StateSource,
    /// What an agent asks that needs input; the question is the `prompt` of its pane.
    #[serde(default, flatten, skip_serializing_if = "Option::is_none")]
    pub request: Option<AttentionRequest>,
    /// When a usage limit ends, in the agent's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resume_at: Option<String>,
}

impl AgentStatus {
    pub fn new(name: &str, state: AgentState, by: StateSource) -> Self {
        Self {
            name: name.to_owned(),
            state,
            by,
            request: None,
            resume_at: None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum AgentState {
    Working,
    /// Waits for its next prompt.
    Idle,
    /// A dialog waits for a person.
    NeedsInput,
    /// Stopped by a usage limit.
    Paused,
    /// The last turn ended with an error.
    Failed,
    /// The process has ended.
    Ended,
}

/// A dialog that waits for a person: its kind, its choices and the call that shows or answers it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AttentionRequest {
    // Errors have a field of this name, and a client may check them against the same schema.
    #[schemars(with = "String")]
    pub kind: AttentionKind,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<DialogChoice>,
    /// The call to make next.
    pub next: String,
}

impl AttentionRequest {
    pub fn new(kind: AttentionKind, choices: Vec<DialogChoice>, pane: PaneId) -> Self {
        let next = match choices.first() {
            Some(choice) => format!(
                "send_input {{\"pane_id\":\"{pane}\",\"keys\":[\"{}\"]}}, with the key of a choice",
                choice.key
            ),
            None => format!(
                "read_pane {{\"pane_id\":\"{pane}\",\"mode\":\"screen\"}}, then send_input with `keys`"
            ),
        };
        Self {
            kind,
            choices,
            next,
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum AttentionKind {
    /// A tool call of the agent.
    Permission,
    /// A plan that waits for approval.
    Plan,
    /// A question of the agent's model.
    Question,
    /// A form of an MCP server.
    Form,
    /// Anything else: trust, a login, a menu, a program that reads a line.
    #[default]
    Prompt,
}

/// A numbered choice of a dialog.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct DialogChoice {
    pub key: String,
    pub label: String,
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
