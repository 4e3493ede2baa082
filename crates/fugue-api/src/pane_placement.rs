use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

// Who owns a pane's terminal. A model reads what follows in three slashes, and pays for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum Backend {
    /// fugue itself.
    Native,
    /// A tmux server.
    Tmux,
}

// Where panes of a run are put.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum RunLayout {
    /// In a session of their own.
    #[default]
    Hidden,
    /// In the caller's session.
    Tiled,
}
