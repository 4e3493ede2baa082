use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    CallResources, Cursor, Error, PaneArgument, PaneId, SessionName, Timestamp, Tool, ToolGroup,
    ToolHints, ToolWait,
    checks::check_not_empty,
    overview::{Overview, WatcherRow, WorkerRow},
    pane_placement::Backend,
    pane_state::{AgentStatus, SourcedState},
};

/// State of a pane (does it need input?), or of all panes, workers, runs, watchers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct GetStatus {
    /// Default everything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[arg(value_name = "PANE", help = "Pane id or name; default everything")]
    pub pane_id: Option<String>,
}

impl Tool for GetStatus {
    const NAME: &'static str = "get_status";
    const VERB: &'static str = "status";
    const GROUP: ToolGroup = ToolGroup::Panes;
    const HINTS: ToolHints = ToolHints::ReadOnly;
    const PANE: PaneArgument<Self> =
        PaneArgument::Optional(|args| &args.pane_id, |args| &mut args.pane_id);
    type Reply = GetStatusReply;

    fn check(&self) -> Result<(), Error> {
        self.pane_id
            .as_deref()
            .map_or(Ok(()), |pane| check_not_empty("pane_id", pane))
    }

    fn wait(&mut self) -> ToolWait<'_> {
        ToolWait::short("reading the status")
    }

    fn resources(&self) -> CallResources<'_> {
        match self.pane_id {
            Some(_) => CallResources::None,
            None => CallResources::TmuxPanes,
        }
    }
}

/// The status of one pane, or the overview.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum GetStatusReply {
    Pane(Box<PaneStatus>),
    All(Overview),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PaneStatus {
    pub pane_id: PaneId,
    pub name: String,
    pub session: SessionName,
    #[schemars(with = "String")]
    pub backend: Backend,
    pub command: String,
    pub pid: u32,
    pub cwd: String,
    pub size: PaneSize,
    pub title: String,
    #[serde(flatten)]
    pub state: SourcedState,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentStatus>,
    pub idle_ms: u64,
    pub cursor: Cursor,
    pub created_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<WorkerRow>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watcher: Option<WatcherRow>,
    /// A problem that does not end the pane, such as a full disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct PaneSize {
    pub rows: u16,
    pub cols: u16,
}
