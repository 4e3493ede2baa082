use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    CallResources, Error, PaneArgument, PaneId, Tool, ToolGroup, ToolHints, ToolWait,
    checks::{check_not_empty, check_range},
};

/// End a pane and its processes. Its output stays readable.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct ClosePane {
    /// Id or name.
    #[arg(skip)]
    pub pane_id: String,
    /// Milliseconds before a kill; default 2000.
    #[serde(default = "ClosePane::grace_ms")]
    #[schemars(range(min = 0, max = 600_000))]
    #[arg(long, value_name = "N", default_value_t = ClosePane::grace_ms(), help = "Milliseconds until remaining processes are killed")]
    pub grace_ms: u32,
}

impl ClosePane {
    pub fn grace_ms() -> u32 {
        2000
    }
}

impl Tool for ClosePane {
    const NAME: &'static str = "close_pane";
    const VERB: &'static str = "close";
    const GROUP: ToolGroup = ToolGroup::Panes;
    const HINTS: ToolHints = ToolHints::Destructive;
    const PANE: PaneArgument<Self> =
        PaneArgument::Required(|args| &args.pane_id, |args| &mut args.pane_id);
    type Reply = ClosePaneReply;

    fn check(&self) -> Result<(), Error> {
        check_not_empty("pane_id", &self.pane_id)?;
        check_range("grace_ms", u64::from(self.grace_ms), 0, 600_000)
    }

    fn wait(&mut self) -> ToolWait<'_> {
        ToolWait::PaneClose {
            pane: &self.pane_id,
            grace: Duration::from_millis(self.grace_ms.into()),
        }
    }

    fn resources(&self) -> CallResources<'_> {
        CallResources::None
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClosePaneReply {
    pub pane_id: PaneId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<String>,
    /// Present if the pane had ended before, or if output is lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}
