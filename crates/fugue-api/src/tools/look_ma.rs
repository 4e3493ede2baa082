use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    CallResources, Error, PaneArgument, Tool, ToolGroup, ToolHints, ToolWait,
    checks::{check_length, check_not_empty, check_optional_pane, check_watcher_command},
};

/// Report progress to the watcher, then rest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct LookMa {
    /// What is done, what is next.
    #[arg(value_name = "REPORT")]
    pub status_report: String,
    /// Default yours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[arg(
        long = "pane",
        value_name = "PANE",
        help = "Watched pane; default the pane of this process"
    )]
    pub tmux_window: Option<String>,
    /// Command to await; default 10 seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[arg(
        long = "wait",
        value_name = "CMD",
        help = "Shell command to wait for before the assessment; default a few seconds"
    )]
    pub bash_wait: Option<String>,
}

impl Tool for LookMa {
    const NAME: &'static str = "look_ma";
    const VERB: &'static str = "look";
    const GROUP: ToolGroup = ToolGroup::Watch;
    const HINTS: ToolHints = ToolHints::Writes;
    const PANE: PaneArgument<Self> =
        PaneArgument::Watched(|args| &args.tmux_window, |args| &mut args.tmux_window);
    type Reply = LookMaReply;

    fn check(&self) -> Result<(), Error> {
        check_not_empty("status_report", &self.status_report)?;
        check_length("status_report", &self.status_report)?;
        check_optional_pane("tmux_window", self.tmux_window.as_deref())?;
        check_watcher_command("bash_wait", self.bash_wait.as_deref())
    }

    fn wait(&mut self) -> ToolWait<'_> {
        ToolWait::short("waiting for the daemon")
    }

    fn resources(&self) -> CallResources<'_> {
        CallResources::None
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LookMaReply {
    pub status: ReportStatus,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub enum ReportStatus {
    #[serde(rename = "recorded+waiting")]
    Waiting,
    /// The watcher is paused; `watch_me` resumes it.
    #[serde(rename = "recorded+paused")]
    Paused,
}
