use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    CallResources, Error, PaneArgument, Tool, ToolGroup, ToolHints, ToolWait,
    checks::check_optional_pane,
};

/// Pause the watcher and return its next line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct Pause {
    /// Default yours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[arg(
        value_name = "PANE",
        help = "Watched pane; default the pane of this process"
    )]
    pub tmux_window: Option<String>,
}

impl Tool for Pause {
    const NAME: &'static str = "pause";
    const VERB: &'static str = "pause";
    const GROUP: ToolGroup = ToolGroup::Watch;
    const HINTS: ToolHints = ToolHints::Writes;
    const PANE: PaneArgument<Self> =
        PaneArgument::Watched(|args| &args.tmux_window, |args| &mut args.tmux_window);
    type Reply = PauseReply;

    fn check(&self) -> Result<(), Error> {
        check_optional_pane("tmux_window", self.tmux_window.as_deref())
    }

    fn wait(&mut self) -> ToolWait<'_> {
        ToolWait::short("waiting for the next step")
    }

    fn resources(&self) -> CallResources<'_> {
        CallResources::None
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PauseReply {
    /// The line that the model would type next.
    pub injection_prompt: Option<String>,
    /// Whether the model considers the plan done.
    pub achieved: bool,
}
