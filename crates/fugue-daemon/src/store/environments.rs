//! Files with the environments of callers, commands and workers, which may hold secrets and are needed until a process was
//! started.
//!
//! The database holds no environment, because its log and its copies would keep secrets for a long time. Each record that needs
//! an environment has a private file next to the database. The file is written before the record and removed when the record
//! does not need the environment any more. Leftovers of a killed daemon are removed at the next start.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use fugue_api::wire::CallerEnv;
use fugue_core::{Change, RunRecord, RunWork, WatcherRecord, WorkerPhase, WorkerRecord};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::StoreError;

/// The environment of a record, which is stored outside the database.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StoredEnvironment {
    pub caller: CallerEnv,
    /// The variables of the record itself, in the order in which [`EnvironmentFields::take`] finds them.
    pub own: Vec<BTreeMap<String, String>>,
}

/// The name of a record's file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EnvironmentId(String);

/// A record whose variables are stored outside the database.
pub trait EnvironmentFields {
    fn name(&self) -> EnvironmentId;
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
    fn name(&self) -> EnvironmentId {
        EnvironmentId::of_run(&self.id.0)
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
            RunWork::Expect(_) | RunWork::Pipeline(_) => Vec::new(),
        }
    }
}

impl EnvironmentFields for WorkerRecord {
    fn name(&self) -> EnvironmentId {
        EnvironmentId::of_worker(self.number)
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
    fn name(&self) -> EnvironmentId {
        EnvironmentId::of_watcher(self.number)
    }

    /// The watcher's commands use the environment as long as the watcher exists.
    fn needs_environment(&self) -> bool {
        true
    }

    fn places(&mut self) -> Vec<&mut BTreeMap<String, String>> {
        Vec::new()
    }
}

impl EnvironmentId {
    /// A hash, because clients choose the ids of runs and may use any characters.
    fn of_run(id: &str) -> Self {
        let digest = Sha256::digest(id.as_bytes());
        let hex: String = digest[..16].iter().map(|b| format!("{b:02x}")).collect();
        Self(format!("run-{hex}"))
    }

    fn of_worker(number: u64) -> Self {
        Self(format!("worker-{number}"))
    }

    fn of_watcher(number: u64) -> Self {
        Self(format!("watcher-{number}"))
    }
}

/// The record as it is stored: without variables.
pub fn scrubbed<T: EnvironmentFields + Clone + Serialize>(
    record: &T,
) -> serde_json::Result<String> {
    let mut record = record.clone();
    record.take();
    serde_json::to_string(&record)
}

/// The directory of the environment files, and their content.
pub struct EnvironmentFiles {
    dir: PathBuf,
    kept: BTreeMap<EnvironmentId, StoredEnvironment>,
}

/// The changes of environment files for a commit; `None` removes a file.
pub type EnvironmentChanges = BTreeMap<EnvironmentId, Option<StoredEnvironment>>;

impl EnvironmentFiles {
    /// The environment files of the database at `database`.
    pub fn of(database: &Path) -> Self {
        Self {
            dir: database.with_file_name("environments"),
            kept: BTreeMap::new(),
        }
    }

    /// Writes the environment that a record contains.
    pub fn keep<T: EnvironmentFields + Clone>(
        &mut self,
        record: &T,
        caller: CallerEnv,
    ) -> Result<(), StoreError> {
        let mut plan = EnvironmentChanges::new();
        self.start(&mut plan, record, &caller);
        self.write(&plan)
    }

    /// The file changes for a commit.
    pub fn plan(&self, changes: &[&Change]) -> EnvironmentChanges {
        let mut plan = EnvironmentChanges::new();
        for change in changes {
            match change {
                Change::StartRun { record, caller } => self.start(&mut plan, &**record, caller),
                Change::StartWorker { record, caller } => self.start(&mut plan, &**record, caller),
                Change::StartWatcher { record, caller } => self.start(&mut plan, &**record, caller),
                Change::PutRun(record) => self.update(&mut plan, &**record),
                Change::PutWorker(record) => self.update(&mut plan, &**record),
                Change::EndRun(record) => self.end(&mut plan, record.name()),
                Change::WorkerRuns(record) => self.end(&mut plan, record.name()),
                Change::DropRun(run) => self.end(&mut plan, EnvironmentId::of_run(&run.0)),
                Change::DropWorker(number) => {
                    self.end(&mut plan, EnvironmentId::of_worker(*number))
                }
                Change::DropWatcher(number) => {
                    self.end(&mut plan, EnvironmentId::of_watcher(*number))
                }
                _ => {}
            }
        }
        plan
    }

    fn start<T: EnvironmentFields + Clone>(
        &self,
        plan: &mut EnvironmentChanges,
        record: &T,
        caller: &CallerEnv,
    ) {
        let environment = StoredEnvironment {
            caller: caller.clone(),
            own: record.clone().take(),
        };
        plan.insert(record.name(), Some(environment));
    }

    /// The variables of a worker are complete after its files were created.
    fn update<T: EnvironmentFields + Clone>(&self, plan: &mut EnvironmentChanges, record: &T) {
        let name = record.name();
        let known = match plan.get(&name) {
            Some(planned) => planned.as_ref(),
            None => self.kept.get(&name),
        };
        let Some(known) = known else { return };
        if !record.needs_environment() {
            return self.end(plan, name);
        }
        let own = record.clone().take();
        if own != known.own {
            let caller = known.caller.clone();
            plan.insert(name, Some(StoredEnvironment { caller, own }));
        }
    }

    fn end(&self, plan: &mut EnvironmentChanges, name: EnvironmentId) {
        if self.kept.contains_key(&name) || plan.contains_key(&name) {
            plan.insert(name, None);
        }
    }

    /// Writes the files that the commit needs. Called before the commit.
    pub fn write(&self, plan: &EnvironmentChanges) -> Result<(), StoreError> {
        let new: Vec<_> = plan
            .iter()
            .filter_map(|(name, environment)| Some((name, environment.as_ref()?)))
            .collect();
        if new.is_empty() {
            return Ok(());
        }
        let failed = |error| StoreError::File(self.dir.clone(), error);
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.dir)
            .map_err(failed)?;
        for (name, environment) in new {
            let text = serde_json::to_vec(environment)?;
            replace(&self.path(name), &text).map_err(failed)?;
        }
        File::open(&self.dir)
            .and_then(|dir| dir.sync_all())
            .map_err(failed)
    }

    /// Removes unneeded files. Called after the commit.
    pub fn apply(&mut self, plan: EnvironmentChanges) {
        for (name, environment) in plan {
            match environment {
                Some(environment) => {
                    self.kept.insert(name, environment);
                }
                None => {
                    self.remove(&name);
                    self.kept.remove(&name);
                }
            }
        }
    }

    /// The commit failed: files of records that are not stored go.
    pub fn undo(&self, plan: &EnvironmentChanges) {
        for name in plan.keys().filter(|name| !self.kept.contains_key(name)) {
            self.remove(name);
        }
    }

    /// Restores a record's variables and returns its caller, if the record still needs the environment.
    pub fn restore<T: EnvironmentFields>(&mut self, record: &mut T) -> Option<CallerEnv> {
        if !record.needs_environment() {
            return None;
        }
        let name = record.name();
        let text = match fs::read(self.path(&name)) {
            Ok(text) => text,
            Err(error) => {
                if error.kind() != io::ErrorKind::NotFound {
                    tracing::warn!(%error, name = name.0, "environment not read");
                }
                return None;
            }
        };
        let environment: StoredEnvironment = serde_json::from_slice(&text)
            .inspect_err(|error| tracing::warn!(%error, name = name.0, "environment not readable"))
            .ok()?;
        record.put_back(environment.own.clone());
        let caller = environment.caller.clone();
        self.kept.insert(name, environment);
        Some(caller)
    }

    /// Removes the files that were not [restored](Self::restore), as no record needs them.
    pub fn remove_others(&self) {
        let known: BTreeSet<&str> = self.kept.keys().map(|name| name.0.as_str()).collect();
        for entry in fs::read_dir(&self.dir).into_iter().flatten().flatten() {
            let name = entry.file_name();
            if !name.to_str().is_some_and(|name| known.contains(name))
                && let Err(error) = fs::remove_file(entry.path())
            {
                tracing::warn!(%error, path = %entry.path().display(), "environment not removed");
            }
        }
    }

    fn path(&self, name: &EnvironmentId) -> PathBuf {
        self.dir.join(&name.0)
    }

    fn remove(&self, name: &EnvironmentId) {
        match fs::remove_file(self.path(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!(%error, name = name.0, "environment not removed");
            }
            Ok(()) | Err(_) => {}
        }
    }
}

/// Whole and on disk, or not at all.
fn replace(path: &Path, text: &[u8]) -> io::Result<()> {
    let new = path.with_extension("new");
    match fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&new)?;
    let written = file
        .write_all(text)
        .and_then(|()| file.sync_all())
        .and_then(|()| fs::rename(&new, path));
    if written.is_err() {
        let _ = fs::remove_file(&new);
    }
    written
}
