//! A store in memory, for tests: after the same commits it has the same contents as the database of the daemon.

use std::collections::BTreeMap;

use fugue_api::{
    EventId, PaneId, QuestionId, RunId, SessionName,
    wire::{CallerEnv, IdempotencyKey},
};

use crate::{
    Change, Counter, EnvironmentFields, EventRecord, LayoutRecord, PaneRecord, QuestionRecord,
    Record, RecordId, RunRecord, StartRecord, StoreSnapshot, StoredRun, StoredWatcher,
    StoredWorker, WatcherRecord, WorkerRecord,
    environment::{EnvironmentTable, environment_changes},
};

/// Records and counters. As in the database, the variables of a record are only in its environment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MemoryStore {
    panes: BTreeMap<PaneId, PaneRecord>,
    runs: BTreeMap<RunId, RunRecord>,
    events: BTreeMap<EventId, EventRecord>,
    workers: BTreeMap<u64, WorkerRecord>,
    questions: BTreeMap<QuestionId, QuestionRecord>,
    watchers: BTreeMap<u64, WatcherRecord>,
    layouts: BTreeMap<SessionName, LayoutRecord>,
    starts: BTreeMap<[u8; 16], StartRecord>,
    environments: EnvironmentTable,
    next_pane: u64,
    next_run: u64,
    next_event: u64,
    next_worker: u64,
    next_question: u64,
    next_watcher: u64,
    epoch: u64,
}

impl MemoryStore {
    /// Increments the epoch, removes environments that no record needs, and returns the contents.
    pub fn open(&mut self) -> StoreSnapshot {
        self.epoch += 1;
        let unneeded = self.unneeded_environments();
        self.environments
            .retain(|owner, _| !unneeded.contains(owner));
        self.snapshot()
    }

    /// Applies the changes of one commit.
    pub fn commit<'a>(&mut self, changes: impl IntoIterator<Item = &'a Change>) {
        let changes: Vec<&Change> = changes.into_iter().collect();
        for (owner, environment) in environment_changes(&self.environments, &changes) {
            match environment {
                Some(environment) => _ = self.environments.insert(owner, environment),
                None => _ = self.environments.remove(&owner),
            }
        }
        for change in changes {
            match change {
                Change::Put(record) => self.put(record),
                Change::Remove(id) => self.remove(id),
                Change::SetCounter(counter, value) => *self.counter(*counter) = *value,
            }
        }
    }

    fn put(&mut self, record: &Record) {
        match record {
            Record::Pane(record) => _ = self.panes.insert(record.id, (**record).clone()),
            Record::Run(record) => _ = self.runs.insert(record.id.clone(), scrubbed(record)),
            Record::Event(record) => _ = self.events.insert(record.id, (**record).clone()),
            Record::Worker(record) => _ = self.workers.insert(record.number, scrubbed(record)),
            Record::Question(record) => _ = self.questions.insert(record.id, (**record).clone()),
            Record::Watcher(record) => _ = self.watchers.insert(record.number, scrubbed(record)),
            Record::Layout(record) => {
                self.layouts
                    .insert(record.session.clone(), (**record).clone());
            }
            Record::Start(record) => _ = self.starts.insert(record.key.0, record.clone()),
            Record::Environment { .. } => {}
        }
    }

    fn remove(&mut self, id: &RecordId) {
        match id {
            RecordId::Pane(id) => _ = self.panes.remove(id),
            RecordId::Run(id) => _ = self.runs.remove(id),
            RecordId::Event(id) => _ = self.events.remove(id),
            RecordId::Worker(number) => _ = self.workers.remove(number),
            RecordId::Question(id) => _ = self.questions.remove(id),
            RecordId::Watcher(number) => _ = self.watchers.remove(number),
            RecordId::Layout(session) => _ = self.layouts.remove(session),
            RecordId::Start(IdempotencyKey(key)) => _ = self.starts.remove(key),
            RecordId::Environment(_) => {}
        }
    }

    fn counter(&mut self, counter: Counter) -> &mut u64 {
        match counter {
            Counter::NextPane => &mut self.next_pane,
            Counter::NextRun => &mut self.next_run,
            Counter::NextEvent => &mut self.next_event,
            Counter::NextWorker => &mut self.next_worker,
            Counter::NextQuestion => &mut self.next_question,
            Counter::NextWatcher => &mut self.next_watcher,
        }
    }

    /// The contents, each kind in the order of its ids.
    pub fn snapshot(&self) -> StoreSnapshot {
        let runs = self.runs.values().map(|record| {
            let (record, caller) = self.with_environment(record);
            StoredRun { record, caller }
        });
        let workers = self.workers.values().map(|record| {
            let (record, caller) = self.with_environment(record);
            StoredWorker { record, caller }
        });
        let watchers = self.watchers.values().filter_map(|record| {
            let (record, caller) = self.with_environment(record);
            caller.map(|caller| StoredWatcher { record, caller })
        });
        StoreSnapshot {
            panes: self.panes.values().cloned().collect(),
            next_pane: self.next_pane,
            runs: runs.collect(),
            next_run: self.next_run,
            events: self.events.values().cloned().collect(),
            next_event: self.next_event,
            workers: workers.collect(),
            next_worker: self.next_worker,
            questions: self.questions.values().cloned().collect(),
            next_question: self.next_question,
            watchers: watchers.collect(),
            next_watcher: self.next_watcher,
            layouts: self.layouts.values().cloned().collect(),
            starts: self.starts.values().cloned().collect(),
            epoch: self.epoch,
        }
    }

    /// The owners of environments that no record needs any more.
    pub fn unneeded_environments(&self) -> Vec<crate::EnvironmentOwner> {
        let runs = self.runs.values().filter(|run| run.needs_environment());
        let workers = self.workers.values();
        let workers = workers.filter(|worker| worker.needs_environment());
        let needed: Vec<_> = runs
            .map(EnvironmentFields::owner)
            .chain(workers.map(EnvironmentFields::owner))
            .chain(self.watchers.values().map(EnvironmentFields::owner))
            .collect();
        let stored = self.environments.keys();
        stored
            .filter(|owner| !needed.contains(owner))
            .cloned()
            .collect()
    }

    fn with_environment<T: EnvironmentFields + Clone>(&self, record: &T) -> (T, Option<CallerEnv>) {
        let mut record = record.clone();
        let environment = self.environments.get(&record.owner());
        let Some(environment) = environment.filter(|_| record.needs_environment()) else {
            return (record, None);
        };
        record.put_back(environment.own.clone());
        (record, Some(environment.caller.clone()))
    }
}

/// A store with these contents.
impl From<StoreSnapshot> for MemoryStore {
    fn from(snapshot: StoreSnapshot) -> Self {
        let mut changes: Vec<Change> = Vec::new();
        let environment = |owner, caller: Option<CallerEnv>| {
            caller.map(|caller| Change::put_environment(owner, caller.into()))
        };
        for StoredRun { record, caller } in snapshot.runs {
            changes.extend(environment(record.owner(), caller));
            changes.push(Change::put(record));
        }
        for StoredWorker { record, caller } in snapshot.workers {
            changes.extend(environment(record.owner(), caller));
            changes.push(Change::put(record));
        }
        for StoredWatcher { record, caller } in snapshot.watchers {
            changes.extend(environment(record.owner(), Some(caller)));
            changes.push(Change::put(record));
        }
        changes.extend(snapshot.panes.into_iter().map(Change::put));
        changes.extend(snapshot.events.into_iter().map(Change::put));
        changes.extend(snapshot.questions.into_iter().map(Change::put));
        changes.extend(snapshot.layouts.into_iter().map(Change::put));
        changes.extend(snapshot.starts.into_iter().map(Change::put));
        let mut store = Self {
            next_pane: snapshot.next_pane,
            next_run: snapshot.next_run,
            next_event: snapshot.next_event,
            next_worker: snapshot.next_worker,
            next_question: snapshot.next_question,
            next_watcher: snapshot.next_watcher,
            epoch: snapshot.epoch,
            ..Self::default()
        };
        store.commit(&changes);
        store
    }
}

fn scrubbed<T: EnvironmentFields + Clone>(record: &T) -> T {
    let mut record = record.clone();
    record.take();
    record
}
