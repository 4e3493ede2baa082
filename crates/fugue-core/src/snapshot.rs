//! The contents of the store when the daemon starts.

use fugue_api::wire::CallerEnv;

use crate::{
    EventRecord, LayoutRecord, PaneRecord, QuestionRecord, RunRecord, StartRecord, WatcherRecord,
    WorkerRecord,
};

/// All records and counters of the store.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StoreSnapshot {
    pub panes: Vec<PaneRecord>,
    pub next_pane: u64,
    pub runs: Vec<StoredRun>,
    pub next_run: u64,
    pub events: Vec<EventRecord>,
    pub next_event: u64,
    pub workers: Vec<StoredWorker>,
    pub next_worker: u64,
    pub questions: Vec<QuestionRecord>,
    pub next_question: u64,
    pub watchers: Vec<StoredWatcher>,
    pub next_watcher: u64,
    pub layouts: Vec<LayoutRecord>,
    pub starts: Vec<StartRecord>,
    /// Counts the daemons that have used this store.
    pub epoch: u64,
}

#[derive(Clone, Debug, PartialEq)]
pub struct StoredRun {
    pub record: RunRecord,
    /// `None` if the run is over.
    pub caller: Option<CallerEnv>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct StoredWorker {
    pub record: WorkerRecord,
    /// `None` if the worker runs or has ended.
    pub caller: Option<CallerEnv>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct StoredWatcher {
    pub record: WatcherRecord,
    pub caller: CallerEnv,
}

/// The next id of a kind: the stored counter, or above all known ids. A record may be stored without the counter of its
/// start, if the store refused the start and a later commit put the record.
pub(crate) fn next_id(counter: u64, known: impl Iterator<Item = u64>) -> u64 {
    known.map(|id| id + 1).fold(counter.max(1), u64::max)
}
