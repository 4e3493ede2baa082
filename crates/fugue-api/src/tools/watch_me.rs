use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    Error, PaneArgument, PaneId, Tool, ToolHints, ToolWait,
    checks::{check_length, check_not_empty, check_optional_pane, check_watcher_command},
};

/// Be watched: after each look_ma a model ends the work or types the next line into the pane.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WatchMe {
    /// A pane; default your own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tmux_window: Option<String>,
    /// What is to be achieved.
    pub strategy_plan: String,
    /// Command that exits 0 when it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub done_when: Option<String>,
}

impl Tool for WatchMe {
    const NAME: &'static str = "watch_me";
    const VERB: &'static str = "watch";
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
        ToolWait::Short {
            activity: "waiting for the daemon".to_owned(),
        }
    }

    fn directories(&self) -> Vec<&str> {
        Vec::new()
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WatchMeReply {
    pub ok: bool,
    pub mode: WatchMode,
    pub pane_id: PaneId,
    /// How a person looks at it.
    pub attach_cmd: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum WatchMode {
    Watching,
    /// It was watched before; it goes on with the new plan.
    Updated,
}
