use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    CallResources, Error, PaneArgument, Tool, ToolGroup, ToolHints, ToolWait,
    checks::check_optional_pane,
};

/// End the watcher and delete its transcript.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct Clear {
    /// Default yours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[arg(
        value_name = "PANE",
        help = "Watched pane; default the pane of this process"
    )]
    pub tmux_window: Option<String>,
}

impl Tool for Clear {
    const NAME: &'static str = "clear";
    const VERB: &'static str = "clear";
    const GROUP: ToolGroup = ToolGroup::Watch;
    const HINTS: ToolHints = ToolHints::Destructive;
    const PANE: PaneArgument<Self> =
        PaneArgument::Watched(|args| &args.tmux_window, |args| &mut args.tmux_window);
    type Reply = ClearReply;

    fn check(&self) -> Result<(), Error> {
        check_optional_pane("tmux_window", self.tmux_window.as_deref())
    }

    fn wait(&mut self) -> ToolWait<'_> {
        ToolWait::short("waiting for the daemon")
    }

    fn resources(&self) -> CallResources<'_> {
        CallResources::None
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClearReply {
    pub status: ClearStatus,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum ClearStatus {
    Cleared,
    /// The pane was not watched.
    Noop,
}
