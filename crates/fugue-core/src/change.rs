//! Changes to the store, and the records that it holds.

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
    /// Adds a record, or replaces the record with the same id.
    Put(Record),
    /// Removes a record, if it is stored.
    Remove(RecordId),
    SetCounter(Counter, u64),
}

impl Change {
    pub fn put(record: impl Into<Record>) -> Self {
        Self::Put(record.into())
    }

    /// Stores the environment of a caller. Precedes the record of its owner in the same commit.
    pub fn put_environment(owner: EnvironmentOwner, caller: Arc<CallerEnv>) -> Self {
        Self::Put(Record::Environment { owner, caller })
    }

    pub fn remove_environment(owner: EnvironmentOwner) -> Self {
        Self::Remove(RecordId::Environment(owner))
    }
}

/// A record of any kind.
#[derive(Clone, Debug, PartialEq)]
pub enum Record {
    Pane(Box<PaneRecord>),
    Run(Box<RunRecord>),
    Event(Box<EventRecord>),
    Worker(Box<WorkerRecord>),
    Question(Box<QuestionRecord>),
    Watcher(Box<WatcherRecord>),
    Layout(Box<LayoutRecord>),
    Start(StartRecord),
    /// The environment of the call that created the owner, until no process is started with it any more.
    Environment {
        owner: EnvironmentOwner,
        caller: Arc<CallerEnv>,
    },
}

/// The key of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordId {
    Pane(PaneId),
    Run(RunId),
    Event(EventId),
    Worker(u64),
    Question(QuestionId),
    Watcher(u64),
    Layout(SessionName),
    Start(IdempotencyKey),
    Environment(EnvironmentOwner),
}

/// The record that an environment belongs to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EnvironmentOwner {
    Run(RunId),
    Worker(u64),
    Watcher(u64),
}

/// The next free id of a kind of record. Lower ids are never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counter {
    NextPane,
    NextRun,
    NextEvent,
    NextWorker,
    NextQuestion,
    NextWatcher,
}

impl Record {
    pub fn id(&self) -> RecordId {
        match self {
            Self::Pane(record) => RecordId::Pane(record.id),
            Self::Run(record) => RecordId::Run(record.id.clone()),
            Self::Event(record) => RecordId::Event(record.id),
            Self::Worker(record) => RecordId::Worker(record.number),
            Self::Question(record) => RecordId::Question(record.id),
            Self::Watcher(record) => RecordId::Watcher(record.number),
            Self::Layout(record) => RecordId::Layout(record.session.clone()),
            Self::Start(record) => RecordId::Start(record.key),
            Self::Environment { owner, .. } => RecordId::Environment(owner.clone()),
        }
    }
}

impl From<PaneRecord> for Record {
    fn from(record: PaneRecord) -> Self {
        Self::Pane(Box::new(record))
    }
}

impl From<RunRecord> for Record {
    fn from(record: RunRecord) -> Self {
        Self::Run(Box::new(record))
    }
}

impl From<EventRecord> for Record {
    fn from(record: EventRecord) -> Self {
        Self::Event(Box::new(record))
    }
}

impl From<WorkerRecord> for Record {
    fn from(record: WorkerRecord) -> Self {
        Self::Worker(Box::new(record))
    }
}

impl From<QuestionRecord> for Record {
    fn from(record: QuestionRecord) -> Self {
        Self::Question(Box::new(record))
    }
}

impl From<WatcherRecord> for Record {
    fn from(record: WatcherRecord) -> Self {
        Self::Watcher(Box::new(record))
    }
}

impl From<LayoutRecord> for Record {
    fn from(record: LayoutRecord) -> Self {
        Self::Layout(Box::new(record))
    }
}

impl From<StartRecord> for Record {
    fn from(record: StartRecord) -> Self {
        Self::Start(record)
    }
}
