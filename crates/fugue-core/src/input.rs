//! The inputs of core.

use std::sync::Arc;

use fugue_api::{
    Error, PaneId, RunId,
    wire::{CallerEnv, CallerIdentity, IdempotencyKey, Request},
};

use crate::{
    LaunchEnv, PaneEvent, TmuxLookup, Undo, WorkerLaunch,
    assess::{Decision, NextStepAnswer, WatchSettings},
    settings::Settings,
};

/// An open call of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallId(pub u64);

/// An input of core.
#[expect(
    clippy::large_enum_variant,
    reason = "one is on its way at a time, and most are calls"
)]
pub enum CoreInput {
    Call {
        call: CallId,
        asked: CallRequest,
    },
    /// The call was cancelled, or its client has disconnected.
    Cancelled {
        call: CallId,
    },
    Pane {
        pane: PaneId,
        event: PaneEvent,
    },
    /// A commit with an undo could not be stored: its start must be undone.
    NotStored {
        what: Undo,
        why: String,
    },
    /// The files of a worker are made. After an error no file is left.
    WorkerPrepared {
        worker: u64,
        outcome: Result<WorkerLaunch, Error>,
    },
    /// The files of a worker that failed with `error` are removed.
    WorkerUnprepared {
        worker: u64,
        error: Error,
    },
    /// The changes and output for the oldest pending completion of a worker are collected.
    ChangesCollected {
        worker: u64,
        found: CompletionDetails,
    },
    /// The command of a watcher has ended.
    WatcherCommandEnded {
        watcher: u64,
        step: u64,
        ran: CommandEnd,
    },
    /// An assessment is done or has failed.
    Assessed {
        watcher: u64,
        step: u64,
        judged: Assessment,
    },
    /// The settings were read again.
    SettingsChanged(Box<Settings>),
    /// The reply of a [`crate::AfterCommit::ComposeReply`] or [`crate::AfterCommit::ReplyResult`] is complete. `delivered`:
    /// it was written to its caller.
    ReplyComposed {
        run: RunId,
        delivered: bool,
    },
    /// The time of [`crate::Core::next_deadline`] has come.
    TimerExpired,
}

/// A call and its caller.
#[derive(Debug)]
pub struct CallRequest {
    pub key: IdempotencyKey,
    /// The identity that the caller claims.
    pub who: CallerIdentity,
    /// The pane in which the calling process runs: the pane of its nearest ancestor process.
    pub within: Option<PaneId>,
    pub caller: Arc<CallerEnv>,
    pub request: Request,
    /// One launch environment for each pane that the call opens, resolved by the daemon because that needs I/O. An error
    /// refuses the call, unless the call repeats an earlier call.
    pub launch_envs: Result<Vec<LaunchEnv>, Error>,
    /// The settings of a watcher that the call begins.
    pub watch: Option<Box<WatchSettings>>,
    pub tmux: TmuxLookup,
}

/// Changes and output for a completion.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CompletionDetails {
    pub changes: Vec<String>,
    pub omitted_changes: u64,
    /// The end of the output, if it was requested.
    pub tail: String,
    pub omitted_chars: u64,
    /// The branch of the worker's own worktree.
    pub branch: Option<String>,
    /// The file with the whole message.
    pub message_file: Option<String>,
    pub note: Option<String>,
}

/// The last message of a turn, if it is too long for an event.
#[derive(Clone, Debug, PartialEq)]
pub struct LongMessage(pub String);

/// How the command of a watcher ended.
#[derive(Clone, Debug, PartialEq)]
pub struct CommandEnd {
    /// `None`: killed by a signal, or timed out.
    pub code: Option<i32>,
    /// For people and models: `exited with 1`.
    pub ending: String,
    pub output: String,
}

/// The result of an assessment, or why the assessment failed.
#[derive(Clone, Debug, PartialEq)]
pub enum Assessment {
    Decision(Result<Decision, String>),
    NextStep(Result<NextStepAnswer, String>),
}
