//! Changes to what is stored.

use std::sync::Arc;

use fugue_api::{
    EventId, PaneId, QuestionId, RunId, SessionName,
    wire::{CallerEnv, IdempotencyKey},
};

use crate::{
    EventRecord, LayoutRecord, PaneRecord, QuestionRecord, RunRecord, StartRecord, WatcherRecord,
    WorkerRecord,
};

/// A change to what is stored. All changes of one commit happen, or none.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    Put(Box<PaneRecord>),
    Drop(PaneId),
    /// Ids below this one have been given out.
    NextPane(u64),
    /// A new run, and the world of its caller for as long as it is not over.
    StartRun {
        record: Box<RunRecord>,
        caller: Arc<CallerEnv>,
    },
    PutRun(Box<RunRecord>),
    /// Its caller's world is forgotten.
    EndRun(Box<RunRecord>),
    DropRun(RunId),
    NextRun(u64),
    PutEvent(Box<EventRecord>),
    TakeEvent(EventId),
    DropEvent(EventId),
    NextEvent(u64),
    /// A new worker, and the world of its caller until it runs.
    StartWorker {
        record: Box<WorkerRecord>,
        caller: Arc<CallerEnv>,
    },
    PutWorker(Box<WorkerRecord>),
    /// Its caller's world is forgotten.
    WorkerRuns(Box<WorkerRecord>),
    DropWorker(u64),
    NextWorker(u64),
    PutQuestion(Box<QuestionRecord>),
    DropQuestion(QuestionId),
    NextQuestion(u64),
    StartWatcher {
        record: Box<WatcherRecord>,
        caller: Arc<CallerEnv>,
    },
    PutWatcher(Box<WatcherRecord>),
    DropWatcher(u64),
    NextWatcher(u64),
    PutArrangement(Box<LayoutRecord>),
    DropArrangement(SessionName),
    PutStart(StartRecord),
    DropStart(IdempotencyKey),
}
