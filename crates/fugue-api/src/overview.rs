//! The overview of `get_status` and its rows.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    PaneId, QuestionId, RunId, SessionName, Timestamp,
    pane_state::{AgentStatus, PaneState, SourcedState},
    run_result::RunKind,
};

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Overview {
    pub sessions: Vec<SessionRow>,
    pub panes: Vec<PaneRow>,
    /// Panes left out because of the size limit, ended ones first.
    #[serde(default, skip_serializing_if = "crate::checks::is_zero")]
    pub omitted_panes: u64,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub workers: Vec<WorkerRow>,
    /// Workers left out, ended ones first.
    #[serde(default, skip_serializing_if = "crate::checks::is_zero")]
    pub omitted_workers: u64,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub runs: Vec<RunRow>,
    /// Runs left out, ended ones first.
    #[serde(default, skip_serializing_if = "crate::checks::is_zero")]
    pub omitted_runs: u64,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub watchers: Vec<WatcherRow>,
    #[serde(default, skip_serializing_if = "crate::checks::is_zero")]
    pub omitted_watchers: u64,
    /// Questions that wait for a person. They are for people, and not in the overview for a model.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(skip)]
    pub questions: Vec<QuestionRow>,
    /// Other panes of the caller's tmux server; their ids work like those of `panes`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tmux: Vec<TmuxRow>,
    #[serde(default, skip_serializing_if = "crate::checks::is_zero")]
    pub omitted_tmux: u64,
}

impl Overview {
    /// Whether a list for people has a worker: one that runs, or one that failed and whose pane nobody has closed.
    pub fn lists_worker(&self, worker: &WorkerRow) -> bool {
        let is_closed = |pane: &PaneRow| {
            Some(pane.pane_id) == worker.pane_id && pane.state.state == PaneState::Closed
        };
        match worker.state {
            WorkerState::Ended => false,
            WorkerState::Failed => !self.panes.iter().any(is_closed),
            WorkerState::Starting
            | WorkerState::Working
            | WorkerState::NeedsInput
            | WorkerState::Resting
            | WorkerState::Paused => true,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SessionRow {
    pub session: SessionName,
    pub panes: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PaneRow {
    pub pane_id: PaneId,
    pub name: String,
    pub session: SessionName,
    #[serde(flatten)]
    pub state: SourcedState,
    /// Without its request in the overview for a model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "agent_row_schema")]
    pub agent: Option<AgentStatus>,
    /// Absent in the overview for a model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    pub created_at: Option<Timestamp>,
}

/// The schema of the agent in a row for a model.
fn agent_row_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "state": {"type": "string"},
            "by": {"type": "string"},
        },
    })
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TmuxRow {
    /// The id in tmux, such as `%5`.
    pub pane_id: String,
    pub session: String,
    pub window: String,
    pub command: String,
}

/// A worker in an overview or in the status of its pane.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WorkerRow {
    pub worker_id: String,
    pub instance: u32,
    pub session_id: String,
    pub agent: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pane_id: Option<PaneId>,
    pub state: WorkerState,
    pub turn: u32,
    /// The branch of its worktree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// The directory of its worktree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Absent in the overview for a model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum WorkerState {
    Starting,
    Working,
    NeedsInput,
    /// The worker waits for its next prompt.
    Resting,
    /// A usage limit has stopped the worker.
    Paused,
    /// The last turn, or the process, ended with an error.
    Failed,
    Ended,
}

/// A run in an overview.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunRow {
    pub run_id: RunId,
    pub kind: RunKind,
    /// `running`, or the final status.
    pub status: String,
    /// A summary for people.
    pub progress: String,
    /// Absent in the overview for a model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    pub started_at: Option<Timestamp>,
}

/// A question that waits for a person.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct QuestionRow {
    pub question_id: QuestionId,
    pub from: String,
    /// The session that asks, or whose worker asks.
    pub session_id: String,
    pub body: String,
    pub asked_at: Timestamp,
}

/// A watcher in an overview or in the status of its pane.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WatcherRow {
    pub pane_id: PaneId,
    pub state: WatcherState,
    /// Why the watcher is paused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The last decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<String>,
    /// Reports in the queue.
    #[serde(default, skip_serializing_if = "crate::checks::is_zero")]
    pub queued: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[schemars(inline)]
pub enum WatcherState {
    /// No report yet.
    Active,
    /// The command or delay of a report is running.
    Wait,
    /// Waiting until the pane is quiet.
    IdleSpin,
    /// Waiting for the decision of a model.
    Assess,
    /// Waiting for the next report.
    Standby,
    Paused,
}
