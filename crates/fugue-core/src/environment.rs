//! The environments of callers, commands and workers, which may hold secrets and are stored apart from the records.

use std::collections::BTreeMap;

use fugue_api::wire::CallerEnv;
use serde::{Deserialize, Serialize};

use crate::{
    Change, EnvironmentOwner, Record, RecordId, RunRecord, RunWork, WatcherRecord, WorkerPhase,
    WorkerRecord,
};

/// The environment of a record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StoredEnvironment {
    pub caller: CallerEnv,
    /// The variables of the record itself, in the order in which [`EnvironmentFields::take`] finds them.
    pub own: Vec<BTreeMap<String, String>>,
}

/// The stored environments by owner.
pub type EnvironmentTable = BTreeMap<EnvironmentOwner, StoredEnvironment>;

/// The changes of environments in a commit; `None` removes an environment.
pub type EnvironmentChanges = BTreeMap<EnvironmentOwner, Option<StoredEnvironment>>;

/// A record whose variables are stored in its environment.
pub trait EnvironmentFields {
    fn owner(&self) -> EnvironmentOwner;
    /// Whether a process may still be started with the environment.
    fn needs_environment(&self) -> bool;
    /// The fields that hold variables.
    fn places(&mut self) -> Vec<&mut BTreeMap<String, String>>;

    fn take(&mut self) -> Vec<BTreeMap<String, String>> {
        self.places().into_iter().map(std::mem::take).collect()
    }

    fn put_back(&mut self, own: Vec<BTreeMap<String, String>>) {
        for (place, own) in self.places().into_iter().zip(own) {
            *place = own;
        }
    }
}

impl EnvironmentFields for RunRecord {
    fn owner(&self) -> EnvironmentOwner {
        EnvironmentOwner::Run(self.id.clone())
    }

    fn needs_environment(&self) -> bool {
        !self.over
    }

    fn places(&mut self) -> Vec<&mut BTreeMap<String, String>> {
        match &mut self.work {
            RunWork::Parallel(work) => {
                let commands = work.args.commands.iter_mut();
                commands.map(|one| &mut one.env).collect()
            }
            RunWork::Expect(work) => {
                let opening = work.opening.as_mut();
                opening
                    .map(|opening| &mut opening.args.env)
                    .into_iter()
                    .collect()
            }
            RunWork::Pipeline(_) => Vec::new(),
        }
    }
}

impl EnvironmentFields for WorkerRecord {
    fn owner(&self) -> EnvironmentOwner {
        EnvironmentOwner::Worker(self.number)
    }

    fn needs_environment(&self) -> bool {
        match self.phase {
            WorkerPhase::Preparing | WorkerPhase::Opening => true,
            WorkerPhase::Live | WorkerPhase::Ended | WorkerPhase::Failed => false,
        }
    }

    fn places(&mut self) -> Vec<&mut BTreeMap<String, String>> {
        let ready = self.ready.as_mut().map(|ready| &mut ready.env);
        [&mut self.args.env].into_iter().chain(ready).collect()
    }
}

impl EnvironmentFields for WatcherRecord {
    fn owner(&self) -> EnvironmentOwner {
        EnvironmentOwner::Watcher(self.number)
    }

    /// The watcher's commands use the environment as long as the watcher exists.
    fn needs_environment(&self) -> bool {
        true
    }

    fn places(&mut self) -> Vec<&mut BTreeMap<String, String>> {
        Vec::new()
    }
}

/// The environments that a commit changes, given the stored ones.
pub fn environment_changes(known: &EnvironmentTable, changes: &[&Change]) -> EnvironmentChanges {
    let mut planned = EnvironmentChanges::new();
    for change in changes {
        match change {
            Change::Put(Record::Environment { owner, caller }) => {
                let own = present(known, &planned, owner).map(|known| known.own.clone());
                let environment = StoredEnvironment {
                    caller: CallerEnv::clone(caller),
                    own: own.unwrap_or_default(),
                };
                planned.insert(owner.clone(), Some(environment));
            }
            Change::Put(Record::Run(record)) => plan_own(known, &mut planned, &**record),
            Change::Put(Record::Worker(record)) => plan_own(known, &mut planned, &**record),
            Change::Put(Record::Watcher(record)) => plan_own(known, &mut planned, &**record),
            Change::Remove(RecordId::Environment(owner)) => {
                if present(known, &planned, owner).is_some() || planned.contains_key(owner) {
                    planned.insert(owner.clone(), None);
                }
            }
            Change::Put(
                Record::Pane(_)
                | Record::Event(_)
                | Record::Question(_)
                | Record::Layout(_)
                | Record::Start(_),
            )
            | Change::Remove(
                RecordId::Pane(_)
                | RecordId::Run(_)
                | RecordId::Event(_)
                | RecordId::Worker(_)
                | RecordId::Question(_)
                | RecordId::Watcher(_)
                | RecordId::Layout(_)
                | RecordId::Start(_),
            )
            | Change::SetCounter(..) => {}
        }
    }
    planned
}

/// Updates the variables of a record in its environment: those of a worker are complete after its files were created.
fn plan_own<T: EnvironmentFields + Clone>(
    known: &EnvironmentTable,
    planned: &mut EnvironmentChanges,
    record: &T,
) {
    let owner = record.owner();
    let Some(environment) = present(known, planned, &owner) else {
        return;
    };
    let own = record.clone().take();
    if own != environment.own {
        let caller = environment.caller.clone();
        planned.insert(owner, Some(StoredEnvironment { caller, own }));
    }
}

fn present<'a>(
    known: &'a EnvironmentTable,
    planned: &'a EnvironmentChanges,
    owner: &EnvironmentOwner,
) -> Option<&'a StoredEnvironment> {
    match planned.get(owner) {
        Some(planned) => planned.as_ref(),
        None => known.get(owner),
    }
}
