//! What the store knows of a watcher.

use std::{collections::VecDeque, path::PathBuf};

use fugue_api::{PaneId, watch::WatcherState};
use serde::{Deserialize, Serialize};

use crate::{
    InboxId, Moment,
    assess::{Injection, Transcript, WatchSettings},
};

/// One watched pane.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WatcherRecord {
    /// Counted, never used twice.
    pub number: u64,
    pub pane: PaneId,
    /// Who hears of its decisions.
    pub owner: InboxId,
    /// The owner's own lead, if it is a worker.
    pub parent: Option<InboxId>,
    pub settings: WatchSettings,
    pub done_when: Option<String>,
    /// Where its commands run.
    pub cwd: PathBuf,
    pub transcript: Transcript,
    pub stage: WatcherStage,
    /// Counts everything that was begun, so that what comes back late is told from what is waited for.
    pub step: u64,
    /// Reports that came while it was busy, each with a command to wait for.
    pub reports: VecDeque<Option<String>>,
    /// When the pane is given up on, for this report.
    pub spin_until: Option<Moment>,
    /// The output of the wait that the next assessment is about.
    pub wait_output: Option<String>,
    /// How the last check that the plan is done went, if it failed.
    pub verdict: Option<CheckResult>,
    /// How often the model called this report's work done and the check did not.
    pub refuted: u32,
    /// When a model was asked, within the last hour.
    pub asked_at: Vec<Moment>,
    pub decision: Option<String>,
}

/// Where a watcher is.
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
    /// Nothing is believed before `done_when` says so.
    Checking,
    Injecting {
        line: Injection,
    },
    Standby,
    Paused {
        reason: String,
    },
}

/// How a check ended.
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

    #[cfg(test)]
    pub fn is_injecting(&self) -> bool {
        matches!(self, Self::Injecting { .. })
    }
}
