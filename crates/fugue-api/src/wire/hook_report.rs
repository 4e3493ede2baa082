//! What an agent's hook reports.

use serde::{Deserialize, Serialize};

use crate::pane_state::AttentionKind;

/// A report of an agent's hook, in the same form for all agents.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "news", rename_all = "snake_case")]
pub enum HookReport {
    /// The agent has received a prompt.
    PromptGiven,
    /// The agent has finished its turn. `message` is its last message.
    TurnEnded { message: String },
    /// The agent's turn ended with an error of its model. `message` is empty if the hook does not have the error.
    TurnFailed { message: String },
    /// The agent's turn ended at a usage limit.
    TurnPaused {
        message: String,
        /// When the limit ends, in the agent's words.
        #[serde(default)]
        resume_at: Option<String>,
    },
    /// The agent has stopped for now: work in the background continues and starts the agent again.
    BackgroundWork,
    /// The agent waits for the answer of a person.
    NeedsInput {
        prompt: String,
        #[serde(default)]
        kind: AttentionKind,
    },
    /// The agent continues after waiting for a person.
    InputNoLongerNeeded,
}

impl HookReport {
    /// Whether the report must be spooled while no daemon runs. Turns have no other source; a waiting agent is also
    /// recognised by its screen.
    pub fn is_kept(&self) -> bool {
        match self {
            Self::PromptGiven
            | Self::TurnEnded { .. }
            | Self::TurnFailed { .. }
            | Self::TurnPaused { .. }
            | Self::BackgroundWork => true,
            Self::NeedsInput { .. } | Self::InputNoLongerNeeded => false,
        }
    }
}
