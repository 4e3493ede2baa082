use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    CallResources, Error, PaneArgument, PaneId, Tool, ToolGroup, ToolHints, ToolWait,
    checks::{check_length, check_not_empty, check_optional_pane, check_watcher_command},
};

/// Keep going until a plan is done: after each look_ma a model stops you or types your next line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct WatchMe {
    /// Default yours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[arg(
        value_name = "PANE",
        required = true,
        help = "Pane id, pane name or tmux target"
    )]
    pub tmux_window: Option<String>,
    /// The goal.
    #[arg(value_name = "PLAN")]
    pub strategy_plan: String,
    /// Command that exits 0 when done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[arg(
        long,
        value_name = "CMD",
        help = "Command that exits 0 when the plan is done"
    )]
    pub done_when: Option<String>,
}

impl Tool for WatchMe {
    const NAME: &'static str = "watch_me";
    const VERB: &'static str = "watch";
    const GROUP: ToolGroup = ToolGroup::Watch;
    const HINTS: ToolHints = ToolHints::Writes;
    const PANE: PaneArgument<Self> =
        PaneArgument::Watched(|args| &args.tmux_window, |args| &mut args.tmux_window);
    type Reply = WatchMeReply;

    fn check(&self) -> Result<(), Error> {
        check_not_empty("strategy_plan", &self.strategy_plan)?;
        check_length("strategy_plan", &self.strategy_plan)?;
        check_optional_pane("tmux_window", self.tmux_window.as_deref())?;
        check_watcher_command("done_when", self.done_when.as_deref())
    }

    fn wait(&mut self) -> ToolWait<'_> {
        ToolWait::short("waiting for the daemon")
    }

    fn resources(&self) -> CallResources<'_> {
        CallResources::Watcher
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WatchMeReply {
    pub ok: bool,
    pub mode: WatchMode,
    pub pane_id: PaneId,
    /// The command for a person to see the pane.
    pub attach_cmd: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum WatchMode {
    Watching,
    /// The pane was watched before; the plan is replaced.
    Updated,
}
