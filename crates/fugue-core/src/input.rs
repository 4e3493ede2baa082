//! What goes into core.

use std::sync::Arc;

use fugue_api::{
    Error, PaneId, RunId,
    wire::{CallerEnv, CallerIdentity, IdempotencyKey, Request},
};

use crate::{
    LaunchEnv, PaneEvent, TmuxLookup, Undo, WorkerLaunch,
    assess::{Decision, NextStepAnswer, WatchSettings},
};

/// One call of one connection, for as long as it is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallId(pub u64);

/// What happens to core.
#[expect(
    clippy::large_enum_variant,
    reason = "one is on its way at a time, and most are calls"
)]
pub enum CoreInput {
    Call {
        call: CallId,
        asked: CallRequest,
    },
    /// Nobody waits for this call any more.
    Cancelled {
        call: CallId,
    },
    Pane {
        pane: PaneId,
        event: PaneEvent,
    },
    /// What was to be started could not be recorded, so it must not be.
    NotStored {
        what: Undo,
        why: String,
    },
    /// A worker's files are there; if not, nothing is left of them.
    WorkerPrepared {
        worker: u64,
        outcome: Result<WorkerLaunch, Error>,
    },
    /// What was made for a worker is gone, because of this.
    WorkerUnprepared {
        worker: u64,
        error: Error,
    },
    /// What goes with a worker's completion is known.
    ChangesCollected {
        worker: u64,
        found: CompletionDetails,
    },
    /// A watcher's command has ended.
    WatcherCommandEnded {
        watcher: u64,
        step: u64,
        ran: CommandEnd,
    },
    /// A model has judged, or could not.
    Assessed {
        watcher: u64,
        step: u64,
        judged: Assessment,
    },
    /// A result that [`crate::AfterCommit::ComposeReply`] asked for is complete; `delivered`: somebody was there to take it.
    ReplyComposed {
        run: RunId,
        delivered: bool,
    },
    /// The time of [`crate::Core::next_deadline`] has come.
    TimerExpired,
}

/// A call with everything about its caller that matters.
#[derive(Debug)]
pub struct CallRequest {
    pub key: IdempotencyKey,
    /// Who the caller says it is.
    pub who: CallerIdentity,
    /// The pane that the calling process runs in, as the kernel knows it.
    pub within: Option<PaneId>,
    pub caller: Arc<CallerEnv>,
    pub ask: Request,
    /// One for each pane that the call opens: looked up at the door, where files may be looked at. An error there is
    /// the call's, unless it asks for what it started before.
    pub worlds: Result<Vec<LaunchEnv>, Error>,
    /// What holds for a watcher that this call begins.
    pub watch: Option<Box<WatchSettings>>,
    pub tmux: TmuxLookup,
}

/// What goes with a completion.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CompletionDetails {
    pub changes: Vec<String>,
    pub omitted_changes: u64,
    /// The end of what the worker printed, where that was asked for.
    pub tail: String,
    pub omitted_chars: u64,
    pub note: Option<String>,
}

/// How a command of a watcher's ended.
#[derive(Clone, Debug, PartialEq)]
pub struct CommandEnd {
    /// `None`: by a signal, or not in time.
    pub code: Option<i32>,
    /// In words: `exited with 1`.
    pub ending: String,
    pub output: String,
}

/// A model's answer, or why there is none.
#[derive(Clone, Debug, PartialEq)]
pub enum Assessment {
    Decision(Result<Decision, String>),
    NextStep(Result<NextStepAnswer, String>),
}
