//! The stored record of a watcher.

use std::{collections::VecDeque, path::PathBuf};

use fugue_api::{PaneId, overview::WatcherState, wire::IdempotencyKey};
use serde::{Deserialize, Serialize};

use crate::{
    InboxId, Moment,
    assess::{Injection, Transcript, WatchSettings},
};

/// One watcher and its pane.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WatcherRecord {
    /// A counter that is never reused.
    pub number: u64,
    pub pane: PaneId,
    /// The inbox that gets the decisions.
    pub owner: InboxId,
    /// The inbox of the owner's lead, if the owner is a worker. It gets the decisions too.
    pub parent: Option<InboxId>,
    pub settings: WatchSettings,
    pub done_when: Option<String>,
    /// The working directory of commands.
    pub cwd: PathBuf,
    pub transcript: Transcript,
    pub stage: WatcherStage,
    /// Counts jobs and waits. Results carry the step that they belong to, and results of earlier steps are ignored.
    pub step: u64,
    /// Reports that wait for the present one, each with an optional command to run first.
    pub reports: VecDeque<Option<String>>,
    /// The idempotency keys of the last reports that were queued. The same call made again is answered and queues nothing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub report_keys: Vec<IdempotencyKey>,
    /// The deadline of the present report for a quiet pane.
    pub spin_until: Option<Moment>,
    /// The output of the command that the present report waited for.
    pub wait_output: Option<String>,
    /// The last `done_when` check, if it failed.
    pub verdict: Option<CheckResult>,
    /// How often the assessor called the plan done and the check failed, for the present report.
    pub refuted: u32,
    /// The times of the assessments of the last hour.
    pub asked_at: Vec<Moment>,
    pub decision: Option<String>,
}

/// The state of a watcher.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WatcherStage {
    Active,
    Sleeping {
        until: Moment,
    },
    Running {
        command: String,
    },
    Spinning {
        until: Moment,
    },
    Assessing,
    /// The assessor calls the plan done, and `done_when` is being run.
    Checking,
    Injecting {
        line: Injection,
    },
    Standby,
    Paused {
        reason: String,
    },
}

/// The outcome of a `done_when` check.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CheckResult {
    pub ending: String,
    pub output: String,
}

impl WatcherStage {
    pub fn state(&self) -> WatcherState {
        match self {
            Self::Active => WatcherState::Active,
            Self::Sleeping { .. } | Self::Running { .. } => WatcherState::Wait,
            Self::Spinning { .. } => WatcherState::IdleSpin,
            Self::Assessing | Self::Checking | Self::Injecting { .. } => WatcherState::Assess,
            Self::Standby => WatcherState::Standby,
            Self::Paused { .. } => WatcherState::Paused,
        }
    }

    pub fn is_injecting(&self) -> bool {
        matches!(self, Self::Injecting { .. })
    }
}
