//! One rule for every commit: what is not stored is not answered and not acted on.

use std::{
    collections::BTreeMap,
    io,
    time::{Duration, SystemTime},
};

use fugue_api::{
    Error, ErrorKind, Timestamp, ToolCall,
    attach::AttachRequest,
    wire::{Request, StoreState, StoreStatus},
};
use fugue_core::{
    AfterCommit, CallId, CallRequest, Core, CoreInput, StepCommit, StepEffects, TmuxLookup, Undo,
};
use tokio::time::Instant;

use super::{Engine, Going, OWN_CALLS};
use crate::store::{Commit, OnFailure, Report};

// How long a call waits for its commit before it is answered that nothing is stored yet.
const COMMIT_TIMEOUT: Duration = Duration::from_secs(10);
// While the store is stalled, calls that only add to what waits are let in up to so many unstored commits.
const MAX_UNSTORED: usize = 10_000;

/// What the engine knows of the store.
pub(super) struct Storing {
    trouble: Option<Trouble>,
    next_commit: u64,
    /// Commits that are not confirmed yet, oldest first, with what is to be done when they are.
    unstored: BTreeMap<u64, Unstored>,
    /// Calls that wait for commits before this one were answered that nothing is stored yet.
    answered_below: u64,
    /// What the start found: records in the quarantine, and what happened to the database.
    pub quarantined: u64,
    pub notes: Vec<String>,
}

struct Unstored {
    then: Vec<AfterCommit>,
    undo: Option<Undo>,
    since: Instant,
}

struct Trouble {
    state: StoreState,
    reason: String,
    since: SystemTime,
}

/// What a call needs of the store.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Need {
    /// Its answer claims nothing that is recorded, or only what the next daemon finds by itself.
    Nothing,
    /// Its answer waits for the commits before it.
    StoredAnswer,
    /// It starts or records something new.
    Record,
}

impl Storing {
    pub fn new(quarantined: u64, notes: Vec<String>) -> Self {
        Self {
            trouble: None,
            next_commit: 1,
            unstored: BTreeMap::new(),
            answered_below: 1,
            quarantined,
            notes,
        }
    }

    pub fn status(&self) -> StoreStatus {
        let waiting = self.unstored.len() as u64;
        let (state, reason, since) = match (&self.trouble, self.is_silent()) {
            (Some(trouble), _) => (
                trouble.state,
                Some(trouble.reason.clone()),
                Some(trouble.since),
            ),
            (None, Some(since)) => (
                StoreState::Stalled,
                Some(SILENT.to_owned()),
                Some(SystemTime::now() - since.elapsed()),
            ),
            (None, None) => (StoreState::Ok, None, None),
        };
        StoreStatus {
            state,
            reason,
            since: since.map(timestamp),
            unstored_commits: waiting,
            quarantined_records: self.quarantined,
            notes: self.notes.clone(),
        }
    }

    /// Since when the disk has not answered, if that is too long ago.
    fn is_silent(&self) -> Option<Instant> {
        let oldest = self.unstored.values().next()?.since;
        (oldest.elapsed() >= COMMIT_TIMEOUT).then_some(oldest)
    }

    fn reason(&self) -> Option<&str> {
        match (&self.trouble, self.is_silent()) {
            (Some(trouble), _) => Some(&trouble.reason),
            (None, Some(_)) => Some(SILENT),
            (None, None) => None,
        }
    }

    /// When calls are to be answered that their commit is not stored yet.
    pub fn deadline(&self) -> Option<Instant> {
        let oldest = self.unstored.range(self.answered_below..).next()?;
        Some(oldest.1.since + COMMIT_TIMEOUT)
    }

    /// How the daemon ends: an error where it cannot go on. What was not confirmed is not known to anybody.
    pub fn outcome(&self) -> io::Result<()> {
        if !self.unstored.is_empty() {
            let unstored = self.unstored.len();
            tracing::warn!(unstored, "daemon ends with commits that are not stored yet");
        }
        match &self.trouble {
            Some(Trouble {
                state: StoreState::Ended,
                reason,
                ..
            }) => Err(io::Error::other(format!("the store has ended: {reason}"))),
            Some(_) | None => Ok(()),
        }
    }
}

const SILENT: &str = "the disk has not answered for 10 s";

impl Engine {
    /// The one way into core for calls. While the store is stalled, calls that would record something are refused
    /// here, so that a refused call changes nothing.
    pub(super) fn enter(&mut self, call: CallId, asked: CallRequest) -> Going {
        let need = need_of(&asked, &self.core);
        if let Some(reason) = self.storing.reason() {
            let too_many = self.storing.unstored.len() >= MAX_UNSTORED;
            let refused = match need {
                Need::Nothing => false,
                Need::StoredAnswer => too_many,
                Need::Record => true,
            };
            if refused {
                let error = refusal(reason);
                self.desk.answer(call, Err(error));
                return Going::On;
            }
        }
        self.step(CoreInput::Call { call, asked })
    }

    /// Performs effects in order. What comes with a commit waits for the disk, without holding up anything else. A commit
    /// without changes waits for the commits before it.
    pub(super) fn perform(&mut self, step: StepEffects) -> Going {
        for effect in step.effects {
            if self.act(effect) == Going::Over {
                return Going::Over;
            }
        }
        match step.commit {
            None => Going::On,
            Some(commit) if commit.changes.is_empty() && self.storing.unstored.is_empty() => {
                self.act_on_stored(commit.then)
            }
            Some(commit) => {
                self.commit(commit);
                Going::On
            }
        }
    }

    fn act_on_stored(&mut self, effects: Vec<AfterCommit>) -> Going {
        for effect in effects {
            if self.act_stored(effect) == Going::Over {
                return Going::Over;
            }
        }
        Going::On
    }

    fn commit(&mut self, commit: StepCommit) {
        let number = self.storing.next_commit;
        self.storing.next_commit += 1;
        let StepCommit {
            changes,
            undo,
            then,
        } = commit;
        let on_failure = match undo {
            Some(_) => OnFailure::Refuse,
            None => OnFailure::Retry,
        };
        let since = Instant::now();
        let unstored = Unstored { then, undo, since };
        self.storing.unstored.insert(number, unstored);
        self.writer.commit(Commit {
            changes,
            then: number,
            on_failure,
        });
    }

    pub(super) fn hear_store(&mut self, report: Report<u64>) -> Going {
        match report {
            Report::Stored(number) => {
                let stored = self.storing.unstored.remove(&number);
                self.act_on_stored(stored.map(|stored| stored.then).unwrap_or_default())
            }
            Report::Refused(number, why) => self.undo(number, why),
            Report::Stalled(reason) => {
                tracing::warn!(reason, "store stalled: commits fail and are retried");
                self.storing.trouble = Some(Trouble {
                    state: StoreState::Stalled,
                    reason,
                    since: SystemTime::now(),
                });
                Going::On
            }
            Report::Resumed => {
                let since = self.storing.trouble.take().map(|trouble| trouble.since);
                let stalled_ms = since
                    .and_then(|since| since.elapsed().ok())
                    .map_or(0, |stalled| stalled.as_millis());
                tracing::info!(stalled_ms, "store resumed: commits succeed again");
                Going::On
            }
            Report::Ended(reason) => {
                tracing::error!(
                    reason,
                    "store writer ended: the daemon stops, panes go on, the next call starts another daemon"
                );
                self.storing.trouble = Some(Trouble {
                    state: StoreState::Ended,
                    reason,
                    since: SystemTime::now(),
                });
                Going::Over
            }
        }
    }

    /// A commit that can be undone was not stored.
    fn undo(&mut self, number: u64, why: String) -> Going {
        let Some(refused) = self.storing.unstored.remove(&number) else {
            return Going::On;
        };
        let waiting: Vec<CallId> = refused
            .then
            .iter()
            .flat_map(|effect| self.core.calls_waiting_on(effect))
            .collect();
        if let Some(what) = refused.undo {
            tracing::warn!(?what, why, "start refused: it could not be recorded");
            let input = CoreInput::NotStored {
                what,
                why: why.clone(),
            };
            if self.step(input) == Going::Over {
                return Going::Over;
            }
        }
        // Effects that were dropped would have answered these.
        self.answer_for_store(waiting, refusal(&why));
        Going::On
    }

    /// Answers those whose commit has waited for too long. What they changed is stored when that is possible.
    pub(super) fn answer_unstored(&mut self) -> Going {
        let now = Instant::now();
        let reason = self.storing.reason().unwrap_or(SILENT).to_owned();
        let mut waiting = Vec::new();
        let mut answered_below = self.storing.answered_below;
        for (number, unstored) in self.storing.unstored.range(answered_below..) {
            if unstored.since + COMMIT_TIMEOUT > now {
                break;
            }
            answered_below = number + 1;
            for effect in &unstored.then {
                waiting.extend(self.core.calls_waiting_on(effect));
            }
        }
        self.storing.answered_below = answered_below;
        self.answer_for_store(waiting, not_stored_yet(&reason));
        Going::On
    }

    fn answer_for_store(&mut self, calls: Vec<CallId>, error: Error) {
        for call in calls {
            if call.0 >= OWN_CALLS || !self.desk.is_open(call) {
                continue;
            }
            self.desk.answer(call, Err(error.clone()));
            // An event that is in its hand is for the next.
            self.step(CoreInput::Cancelled { call });
        }
    }
}

fn refusal(reason: &str) -> Error {
    Error::new(
        ErrorKind::Exhausted,
        format!("nothing can be recorded now: {reason}; this call was refused and changed nothing"),
    )
    .hint("make room on that disk (closing panes that fill it works) and ask again; `fugue daemon status` tells whether the store works; reading, typing and closing do")
}

fn not_stored_yet(reason: &str) -> Error {
    Error::new(
        ErrorKind::Uncertain,
        format!(
            "what this call is to answer is not stored yet: {reason}; it is kept in memory, stored as soon as that is possible, and lost if the daemon is killed before that"
        ),
    )
    .hint("do not repeat the call; `fugue daemon status` tells when the store works again")
}

fn timestamp(at: SystemTime) -> Timestamp {
    let since = at
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    Timestamp(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

fn need_of(asked: &CallRequest, core: &Core) -> Need {
    // A pane of tmux is recorded when it is first named, whatever is asked of it.
    if let TmuxLookup::One(found) = &asked.tmux
        && let Ok(found) = &**found
        && !core.has_met(found)
    {
        return Need::Record;
    }
    match &asked.ask {
        Request::Tool { call } => match call {
            ToolCall::SendInput(_)
            | ToolCall::ReadPane(_)
            | ToolCall::GetStatus(_)
            | ToolCall::ClosePane(_) => Need::Nothing,
            ToolCall::WaitForRun(_) | ToolCall::WaitForEvent(_) => Need::StoredAnswer,
            ToolCall::CreatePane(_)
            | ToolCall::RunExpect(_)
            | ToolCall::RunParallel(_)
            | ToolCall::RunPipeline(_)
            | ToolCall::SpawnWorker(_)
            | ToolCall::NotifyCompletion(_)
            | ToolCall::SendMessage(_)
            | ToolCall::AskQuestion(_)
            | ToolCall::AnswerQuestion(_)
            | ToolCall::WatchMe(_)
            | ToolCall::LookMa(_)
            | ToolCall::Pause(_)
            | ToolCall::Clear(_) => Need::Record,
        },
        // News of a hook that waits to be stored are better than none: nobody would tell them again.
        Request::RunNews { .. }
        | Request::AckEvent { .. }
        | Request::Inbox { .. }
        | Request::Hook { .. } => Need::StoredAnswer,
        Request::Look { look } => match look {
            AttachRequest::Arrange { .. } => Need::Record,
            AttachRequest::Attend { .. }
            | AttachRequest::Fit { .. }
            | AttachRequest::Arrangement { .. }
            | AttachRequest::View { .. }
            | AttachRequest::Views { .. }
            | AttachRequest::Line { .. }
            | AttachRequest::Lines { .. }
            | AttachRequest::Type { .. }
            | AttachRequest::News { .. } => Need::Nothing,
        },
        Request::CollectGarbage { dry_run: false, .. } => Need::Record,
        Request::CollectGarbage { dry_run: true, .. }
        | Request::Overview
        | Request::TmuxPanes
        | Request::Follow { .. }
        | Request::Resize { .. }
        | Request::DaemonStatus
        | Request::DaemonStop { .. } => Need::Nothing,
    }
}
