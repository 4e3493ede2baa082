use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{PaneId, RunId, SessionName, Timestamp, pane_state::SourcedState, run_result::RunKind};

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Overview {
    pub sessions: Vec<SessionRow>,
    pub panes: Vec<PaneRow>,
    /// Panes that did not fit; ended ones are left out first.
    #[serde(default, skip_serializing_if = "crate::checks::is_zero")]
    pub omitted_panes: u64,
    pub workers: Vec<WorkerRow>,
    /// Workers that did not fit; ended ones are left out first.
    #[serde(default, skip_serializing_if = "crate::checks::is_zero")]
    pub omitted_workers: u64,
    pub runs: Vec<RunRow>,
    /// Runs that did not fit; ended ones are left out first.
    #[serde(default, skip_serializing_if = "crate::checks::is_zero")]
    pub omitted_runs: u64,
    pub watchers: Vec<WatcherRow>,
    #[serde(default, skip_serializing_if = "crate::checks::is_zero")]
    pub omitted_watchers: u64,
    /// Panes of the caller's tmux that fugue has not met; their ids work like those of `panes`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tmux: Vec<TmuxRow>,
    #[serde(default, skip_serializing_if = "crate::checks::is_zero")]
    pub omitted_tmux: u64,
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
    pub idle_ms: u64,
    pub created_at: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TmuxRow {
    /// Such as `%5`.
    pub pane_id: String,
    pub session: String,
    pub window: String,
    pub command: String,
}

/// A worker in a list.
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
    pub started_at: Timestamp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum WorkerState {
    Starting,
    Working,
    NeedsInput,
    /// It has reported and waits for its next prompt.
    Resting,
    Ended,
}

/// A run in an overview.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunRow {
    pub run_id: RunId,
    pub kind: RunKind,
    /// `running`, or how it ended.
    pub status: String,
    /// How far it is.
    pub progress: String,
    pub started_at: Timestamp,
}

/// A watcher in a list, or of a pane.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WatcherRow {
    pub pane_id: PaneId,
    pub state: WatcherState,
    /// Why it is paused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What was decided last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<String>,
    /// Reports that wait.
    #[serde(default, skip_serializing_if = "crate::checks::is_zero")]
    pub queued: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[schemars(inline)]
pub enum WatcherState {
    /// No report yet.
    Active,
    /// A report came, and its wait goes on.
    Wait,
    /// Until the pane is quiet.
    IdleSpin,
    /// A model decides.
    Assess,
    /// Until the next report.
    Standby,
    Paused,
}
