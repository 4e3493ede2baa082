//! Commits before effects: an effect that depends on a commit is performed after the commit is stored.

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

use super::{Engine, LoopControl, OWN_CALLS};
use crate::store::{Commit, OnFailure, Report};

// After this time without a confirmed commit, waiting calls are answered with an error: not stored yet.
const COMMIT_TIMEOUT: Duration = Duration::from_secs(10);
// While the store is stalled, calls that only add a commit to the queue are accepted up to this number of commits.
const MAX_UNSTORED: usize = 10_000;

/// The state of the store, and the effects that wait for commits.
pub(super) struct CommitTracker {
    trouble: Option<StoreOutage>,
    next_commit: u64,
    /// Unconfirmed commits, oldest first, with the waiting effects.
    unstored: BTreeMap<u64, PendingCommit>,
    /// Calls that wait for commits before this number were answered with an error already.
    answered_below: u64,
    /// Notes of the start: records in the quarantine, and repairs of the database.
    pub quarantined: u64,
    pub notes: Vec<String>,
}

struct PendingCommit {
    then: Vec<AfterCommit>,
    undo: Option<Undo>,
    since: Instant,
}

struct StoreOutage {
    state: StoreState,
    reason: String,
    since: SystemTime,
}

/// What a call requires of the store.
#[derive(Clone, Copy, PartialEq, Eq)]
enum StoreNeed {
    /// Nothing: the answer depends on no record, or only on state that the next daemon restores anyway (`close_pane` ends
    /// processes, and their end is stored when possible).
    Nothing,
    /// The answer waits for the commits before the call, or for a commit of the call that must not be refused: an ack, or a
    /// hook report.
    StoredAnswer,
    /// The call starts or records something new, and is refused while the store is stalled.
    Record,
}

impl CommitTracker {
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
        let (state, reason, since) = match (&self.trouble, self.silent_since()) {
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

    /// Since when the disk has not responded, if that is longer than the timeout.
    fn silent_since(&self) -> Option<Instant> {
        let oldest = self.unstored.values().next()?.since;
        (oldest.elapsed() >= COMMIT_TIMEOUT).then_some(oldest)
    }

    fn reason(&self) -> Option<&str> {
        match (&self.trouble, self.silent_since()) {
            (Some(trouble), _) => Some(&trouble.reason),
            (None, Some(_)) => Some(SILENT),
            (None, None) => None,
        }
    }

    /// When waiting calls are to be answered with an error because their commit is not stored yet.
    pub fn deadline(&self) -> Option<Instant> {
        let oldest = self.unstored.range(self.answered_below..).next()?;
        Some(oldest.1.since + COMMIT_TIMEOUT)
    }

    /// The result of the daemon: an error if the store writer has ended. No client has received an answer that depends on an
    /// unconfirmed commit.
    pub fn outcome(&self) -> io::Result<()> {
        if !self.unstored.is_empty() {
            let unstored = self.unstored.len();
            tracing::warn!(unstored, "daemon stopped with commits that are not stored");
        }
        match &self.trouble {
            Some(StoreOutage {
                state: StoreState::Ended,
                reason,
                ..
            }) => Err(io::Error::other(format!("the store has ended: {reason}"))),
            Some(_) | None => Ok(()),
        }
    }
}

const SILENT: &str = "the disk has not responded for 10 s";

impl Engine {
    /// Passes a call to core. While the store is stalled, calls that start or record something new ([`StoreNeed::Record`])
    /// are refused here, so that a refused call changes nothing.
    pub(super) fn enter(&mut self, call: CallId, asked: CallRequest) -> LoopControl {
        let need = need_of(&asked, &self.core);
        if let Some(reason) = self.commits.reason() {
            let too_many = self.commits.unstored.len() >= MAX_UNSTORED;
            let refused = match need {
                StoreNeed::Nothing => false,
                StoreNeed::StoredAnswer => too_many,
                StoreNeed::Record => true,
            };
            if refused {
                let error = refusal(reason);
                self.pending_calls.answer(call, Err(error));
                return LoopControl::Continue;
            }
        }
        self.step(CoreInput::Call { call, asked })
    }

    /// Performs the effects of one step. Those of the step's commit wait until the commit is stored, without delaying
    /// other steps. A commit without changes waits for the commits before it.
    pub(super) fn perform(&mut self, step: StepEffects) -> LoopControl {
        for effect in step.effects {
            if self.perform_effect(effect) == LoopControl::Exit {
                return LoopControl::Exit;
            }
        }
        match step.commit {
            None => LoopControl::Continue,
            Some(commit) if commit.changes.is_empty() && self.commits.unstored.is_empty() => {
                self.perform_stored(commit.then)
            }
            Some(commit) => {
                self.commit(commit);
                LoopControl::Continue
            }
        }
    }

    fn perform_stored(&mut self, effects: Vec<AfterCommit>) -> LoopControl {
        for effect in effects {
            if self.perform_after_commit(effect) == LoopControl::Exit {
                return LoopControl::Exit;
            }
        }
        LoopControl::Continue
    }

    fn commit(&mut self, commit: StepCommit) {
        let number = self.commits.next_commit;
        self.commits.next_commit += 1;
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
        let pending = PendingCommit { then, undo, since };
        self.commits.unstored.insert(number, pending);
        self.writer.commit(Commit {
            changes,
            then: number,
            on_failure,
        });
    }

    pub(super) fn handle_store_report(&mut self, report: Report<u64>) -> LoopControl {
        match report {
            Report::Stored(number) => {
                let stored = self.commits.unstored.remove(&number);
                self.perform_stored(stored.map(|stored| stored.then).unwrap_or_default())
            }
            Report::Refused(number, why) => self.undo(number, why),
            Report::Stalled(reason) => {
                tracing::warn!(reason, "store stalled: commits fail and are retried");
                self.commits.trouble = Some(StoreOutage {
                    state: StoreState::Stalled,
                    reason,
                    since: SystemTime::now(),
                });
                LoopControl::Continue
            }
            Report::Resumed => {
                let since = self.commits.trouble.take().map(|trouble| trouble.since);
                let stalled_ms = since
                    .and_then(|since| since.elapsed().ok())
                    .map_or(0, |stalled| stalled.as_millis());
                tracing::info!(stalled_ms, "store resumed: commits succeed again");
                LoopControl::Continue
            }
            Report::Ended(reason) => {
                tracing::error!(
                    reason,
                    "store writer ended: the daemon stops, panes continue, the next call starts another daemon"
                );
                self.commits.trouble = Some(StoreOutage {
                    state: StoreState::Ended,
                    reason,
                    since: SystemTime::now(),
                });
                LoopControl::Exit
            }
        }
    }

    /// Undoes a commit that was not stored.
    fn undo(&mut self, number: u64, why: String) -> LoopControl {
        let Some(refused) = self.commits.unstored.remove(&number) else {
            return LoopControl::Continue;
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
            if self.step(input) == LoopControl::Exit {
                return LoopControl::Exit;
            }
        }
        // The dropped effects would have answered these calls.
        self.answer_for_store(waiting, refusal(&why));
        LoopControl::Continue
    }

    /// Answers calls whose commit has waited too long. Their changes are stored when the store works again.
    pub(super) fn answer_unstored(&mut self) -> LoopControl {
        let now = Instant::now();
        let reason = self.commits.reason().unwrap_or(SILENT).to_owned();
        let mut waiting = Vec::new();
        let mut answered_below = self.commits.answered_below;
        for (number, unstored) in self.commits.unstored.range(answered_below..) {
            if unstored.since + COMMIT_TIMEOUT > now {
                break;
            }
            answered_below = number + 1;
            for effect in &unstored.then {
                waiting.extend(self.core.calls_waiting_on(effect));
            }
        }
        self.commits.answered_below = answered_below;
        self.answer_for_store(waiting, not_stored_yet(&reason));
        LoopControl::Continue
    }

    fn answer_for_store(&mut self, calls: Vec<CallId>, error: Error) {
        for call in calls {
            if call.0 >= OWN_CALLS || !self.pending_calls.is_open(call) {
                continue;
            }
            self.pending_calls.answer(call, Err(error.clone()));
            // A leased event is released for the next call.
            self.step(CoreInput::Cancelled { call });
        }
    }
}

fn refusal(reason: &str) -> Error {
    Error::new(
        ErrorKind::Exhausted,
        format!("nothing can be recorded now: {reason}; this call was refused and changed nothing"),
    )
    .hint("make room on the disk of the state directory, for example by closing panes, and ask again; `fugue daemon status` tells whether the store works; reading, typing and closing panes still work")
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

fn need_of(asked: &CallRequest, core: &Core) -> StoreNeed {
    // A tmux pane is recorded by the first call that names the pane, whatever the call is.
    if let TmuxLookup::One(found) = &asked.tmux
        && let Ok(found) = &**found
        && !core.has_met(found)
    {
        return StoreNeed::Record;
    }
    match &asked.request {
        Request::Tool { call } => match call {
            ToolCall::SendInput(_)
            | ToolCall::ReadPane(_)
            | ToolCall::GetStatus(_)
            | ToolCall::ClosePane(_) => StoreNeed::Nothing,
            ToolCall::WaitForRun(_) | ToolCall::WaitForEvent(_) => StoreNeed::StoredAnswer,
            ToolCall::CreatePane(_)
            | ToolCall::RunExpect(_)
            | ToolCall::RunParallel(_)
            | ToolCall::RunPipeline(_)
            | ToolCall::CancelRun(_)
            | ToolCall::SpawnWorker(_)
            | ToolCall::NotifyCompletion(_)
            | ToolCall::SendMessage(_)
            | ToolCall::AskQuestion(_)
            | ToolCall::AnswerQuestion(_)
            | ToolCall::WatchMe(_)
            | ToolCall::LookMa(_)
            | ToolCall::Pause(_)
            | ToolCall::Clear(_) => StoreNeed::Record,
        },
        // A hook report that waits to be stored is accepted, because the hook would not send the report again.
        Request::RunProgress { .. }
        | Request::AckEvent { .. }
        | Request::Inbox { .. }
        | Request::Questions { .. }
        | Request::Hook { .. } => StoreNeed::StoredAnswer,
        Request::Attach { request } => match request {
            AttachRequest::ChangeLayout { .. } => StoreNeed::Record,
            AttachRequest::JoinSession { .. }
            | AttachRequest::SetSize { .. }
            | AttachRequest::GetLayout { .. }
            | AttachRequest::GetFrame { .. }
            | AttachRequest::StreamFrames { .. }
            | AttachRequest::ConnectPane { .. }
            | AttachRequest::ReadLines { .. }
            | AttachRequest::Type { .. }
            | AttachRequest::WatchOverview { .. } => StoreNeed::Nothing,
        },
        Request::CollectGarbage { dry_run: false, .. } => StoreNeed::Record,
        Request::CollectGarbage { dry_run: true, .. }
        | Request::Worktrees { .. }
        | Request::Overview
        | Request::TmuxPanes
        | Request::Follow { .. }
        | Request::Resize { .. }
        | Request::DaemonStatus
        | Request::Settings
        | Request::ReloadSettings
        | Request::DaemonStop { .. } => StoreNeed::Nothing,
    }
}
