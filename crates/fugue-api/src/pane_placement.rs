//! Where panes are opened.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

// The owner of a pane's terminal. A plain comment, because doc comments of arguments are sent to models.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, clap::ValueEnum,
)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum Backend {
    /// A terminal of fugue.
    Native,
    /// A pane of a tmux server.
    Tmux,
}

// The session that the panes of a run or worker open in. A plain comment for the same reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum RunLayout {
    /// In a hidden session.
    #[default]
    Hidden,
    /// Visible in the caller's session.
    Tiled,
}
