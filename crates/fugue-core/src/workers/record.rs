//! What the store knows of a worker.

use std::{collections::BTreeMap, path::PathBuf};

use fugue_api::{
    PaneId,
    panes::StateSource,
    team::{CompletionStatus, SpawnWorker},
    wire::{CallerIdentity, IdempotencyKey},
};
use serde::{Deserialize, Serialize};

use crate::{ExitStatus, InboxId, LaunchEnv, Moment};

// The agent whose prompt is a shell command.
const SHELL_AGENT: &str = "shell";

/// One worker, from the moment its lead asks for it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorkerRecord {
    /// Counted, never used twice.
    pub number: u64,
    /// `<name>-<agent>`.
    pub id: String,
    /// Counts those of this lead that have had the id.
    pub instance: u32,
    pub agent: String,
    /// Where it reports.
    pub lead: InboxId,
    /// The call that spawned it: asked again, it is this worker that is meant.
    pub made_by: IdempotencyKey,
    /// The agent that spawned it. `None`: a person.
    #[serde(default)]
    pub opened_by: Option<CallerIdentity>,
    pub started_at: Moment,
    pub args: SpawnWorker,
    pub world: LaunchEnv,
    pub pane: PaneId,
    /// How it is started, once all that it needs is there.
    pub ready: Option<WorkerLaunch>,
    pub phase: WorkerPhase,
    /// Counts its prompts, from 1.
    pub turn: u32,
    /// It has reported since its last prompt.
    pub reported: bool,
    /// Its agent has told that it was given its first prompt.
    #[serde(default)]
    pub begun: bool,
    /// The last news of its turns, which may be told again by the files they were kept in.
    #[serde(default)]
    pub heard: Vec<IdempotencyKey>,
    pub asks: Option<InputRequest>,
    pub late_told: bool,
    /// Completions whose changes are being worked out, oldest first.
    pub owed: Vec<PendingCompletion>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkerPhase {
    /// Its files and its worktree are being made.
    Preparing,
    /// Its pane is being opened.
    Opening,
    Live,
    Ended,
    /// It could not be started, and what was made for it is being removed.
    Failed,
}

/// A worker's own files, and how to run it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorkerLaunch {
    pub argv: Vec<String>,
    pub env: BTreeMap<String, String>,
    pub cwd: PathBuf,
    pub branch: Option<String>,
    /// It tells by itself when it has done what it was told.
    pub hooks: bool,
    pub repo: Option<WorkerRepo>,
}

/// Where changes are counted from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorkerRepo {
    pub root: PathBuf,
    /// What was checked out when the worker was spawned; empty in a repository without a commit.
    pub commit: String,
}

/// What it wants a person to answer, and how that is known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputRequest {
    pub prompt: String,
    pub by: StateSource,
}

/// A completion that is not told yet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PendingCompletion {
    pub status: CompletionStatus,
    /// `None`: the end of its output.
    pub message: Option<String>,
    pub turn: u32,
    /// How its process ended, where that is the reason.
    pub exit: Option<ExitStatus>,
    pub made_by: Option<IdempotencyKey>,
    /// Older completions that were dropped for this one.
    #[serde(default)]
    pub dropped: u64,
}

impl WorkerRecord {
    pub fn inbox(&self) -> InboxId {
        InboxId::of_worker(&self.lead, &self.id, self.instance)
    }

    /// Whether its program has an input box that takes prompts. A shell command reads what is typed as its own input.
    pub fn has_input_box(&self) -> bool {
        self.agent != SHELL_AGENT
    }

    pub fn is_over(&self) -> bool {
        matches!(self.phase, WorkerPhase::Ended | WorkerPhase::Failed)
    }
}
