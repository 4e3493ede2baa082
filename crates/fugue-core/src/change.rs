//! Changes to the store.

use std::sync::Arc;

use fugue_api::{
    EventId, PaneId, QuestionId, RunId, SessionName,
    wire::{CallerEnv, IdempotencyKey},
};

use crate::{
    EventRecord, LayoutRecord, PaneRecord, QuestionRecord, RunRecord, StartRecord, WatcherRecord,
    WorkerRecord,
};

/// A change to the store. The changes of one commit are one transaction.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    Put(Box<PaneRecord>),
    Drop(PaneId),
    /// The next free id. Lower ids are never reused.
    NextPane(u64),
    /// A new run, and the environment of its caller until the run is over.
    StartRun {
        record: Box<RunRecord>,
        caller: Arc<CallerEnv>,
    },
    PutRun(Box<RunRecord>),
    /// A finished run. The environment of its caller is removed.
    EndRun(Box<RunRecord>),
    DropRun(RunId),
    NextRun(u64),
    PutEvent(Box<EventRecord>),
    TakeEvent(EventId),
    DropEvent(EventId),
    NextEvent(u64),
    /// A new worker, and the environment of its caller until the worker runs.
    StartWorker {
        record: Box<WorkerRecord>,
        caller: Arc<CallerEnv>,
    },
    PutWorker(Box<WorkerRecord>),
    /// A worker that runs. The environment of its caller is removed.
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
