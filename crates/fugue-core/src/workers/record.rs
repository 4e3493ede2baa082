//! The stored record of a worker.

use std::{collections::BTreeMap, path::PathBuf};

use fugue_api::{
    PaneId,
    inbox_event::CompletionStatus,
    pane_state::{AttentionKind, DialogChoice, StateSource},
    tools::SpawnWorker,
    wire::{CallerIdentity, IdempotencyKey},
};
use serde::{Deserialize, Serialize};

use crate::{ExitStatus, InboxId, LaunchEnv, Moment};

// The agent whose prompt is a shell command.
const SHELL_AGENT: &str = "shell";

/// One worker, from the `spawn_worker` call on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorkerRecord {
    /// A counter that is never reused.
    pub number: u64,
    /// `<name>-<agent>`.
    pub id: String,
    /// Counts the workers of this lead with this id.
    pub instance: u32,
    pub agent: String,
    /// The inbox that gets its completions.
    pub lead: InboxId,
    /// The idempotency key of the `spawn_worker` call. The same call made again returns this worker.
    pub made_by: IdempotencyKey,
    /// The agent that spawned the worker. `None` for a person.
    #[serde(default)]
    pub opened_by: Option<CallerIdentity>,
    pub started_at: Moment,
    pub args: SpawnWorker,
    #[serde(rename = "world")]
    pub launch_env: LaunchEnv,
    pub pane: PaneId,
    /// How to start the worker. `None` until its files are prepared.
    pub ready: Option<WorkerLaunch>,
    pub phase: WorkerPhase,
    /// The number of the present turn, from 1.
    pub turn: u32,
    /// The worker has reported since the last prompt.
    pub reported: bool,
    /// A hook has reported the first prompt.
    #[serde(default)]
    pub begun: bool,
    /// The keys of the last hook reports, which may be delivered again from their spool files.
    #[serde(default)]
    pub heard: Vec<IdempotencyKey>,
    pub asks: Option<InputRequest>,
    /// The turn has ended without a report, and the lead was informed.
    #[serde(default)]
    pub turn_over: bool,
    /// Work in the background starts the agent again.
    #[serde(default)]
    pub background: bool,
    /// A hook has reported a failure whose error the screen shows.
    #[serde(default)]
    pub failing: bool,
    /// The last turn, or the process, has failed.
    #[serde(default)]
    pub failed: bool,
    /// A usage limit has ended the last turn.
    #[serde(default)]
    pub pause: Option<UsagePause>,
    pub late_told: bool,
    /// Completions whose changes are being collected, oldest first.
    #[serde(rename = "owed")]
    pub pending_completions: Vec<PendingCompletion>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkerPhase {
    /// The files and the worktree are being made.
    Preparing,
    /// The pane is being opened.
    Opening,
    Live,
    Ended,
    /// The worker could not be started, and its files are being removed.
    Failed,
}

/// How to run a prepared worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorkerLaunch {
    pub argv: Vec<String>,
    pub env: BTreeMap<String, String>,
    pub cwd: PathBuf,
    pub branch: Option<String>,
    /// The agent has hooks that report the begin and end of turns.
    pub hooks: bool,
    pub repo: Option<WorkerRepo>,
    /// What the lead should know about the start.
    #[serde(default)]
    pub note: Option<String>,
}

/// The repository of a worker, and the commit that changes are counted from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorkerRepo {
    pub root: PathBuf,
    /// The commit that was checked out when the worker was spawned; empty in a repository without a commit.
    pub commit: String,
}

/// An attention request of a worker, and its source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputRequest {
    pub prompt: String,
    pub by: StateSource,
    #[serde(default)]
    pub kind: AttentionKind,
    /// The numbered choices on the screen.
    #[serde(default)]
    pub choices: Vec<DialogChoice>,
    /// The question as the screen shows it.
    #[serde(default)]
    pub shown: Option<String>,
    /// A hook has reported the request, and the lead is informed when the screen shows it.
    #[serde(default)]
    pub unconfirmed: bool,
}

/// A usage limit that stopped a worker, and the source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsagePause {
    /// When the limit ends, in the agent's words.
    pub resume_at: Option<String>,
    pub by: StateSource,
}

/// A completion that is stored but not published.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PendingCompletion {
    pub status: CompletionStatus,
    /// The last message. `None`: the end of the output is used.
    pub message: Option<String>,
    pub turn: u32,
    /// How the process ended, if that is the reason for the completion.
    pub exit: Option<ExitStatus>,
    pub made_by: Option<IdempotencyKey>,
    /// How many older completions were dropped for this one.
    #[serde(default)]
    pub dropped: u64,
}

impl WorkerRecord {
    pub fn inbox(&self) -> InboxId {
        InboxId::of_worker(&self.lead, &self.id, self.instance)
    }

    /// Whether the program has an input box for prompts. A shell command would read typed text as its own input.
    pub fn has_input_box(&self) -> bool {
        self.agent != SHELL_AGENT
    }

    /// The branch of the worker's worktree.
    pub fn branch(&self) -> Option<&str> {
        self.ready.as_ref()?.branch.as_deref()
    }

    /// The directory of the worker, if it is not the lead's.
    pub fn own_cwd(&self) -> Option<String> {
        let ready = self.ready.as_ref()?;
        let is_own = ready.branch.is_some() || self.args.cwd.is_some();
        is_own.then(|| ready.cwd.to_string_lossy().into_owned())
    }

    pub fn is_over(&self) -> bool {
        matches!(self.phase, WorkerPhase::Ended | WorkerPhase::Failed)
    }
}
