//! Files with the environments of callers, commands and workers, which may hold secrets and are needed until a process was
//! started.
//!
//! The database holds no environment, because its log and its copies would keep secrets for a long time. Each record that needs
//! an environment has a private file next to the database. The file is written before the record and removed when the record
//! does not need the environment any more. Leftovers of a killed daemon are removed at the next start.

use std::{
    collections::BTreeSet,
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use fugue_api::wire::CallerEnv;
use fugue_core::{
    Change, EnvironmentFields, EnvironmentOwner, StoredEnvironment,
    environment::{EnvironmentChanges, EnvironmentTable, environment_changes},
};
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::StoreError;

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
    kept: EnvironmentTable,
}

impl EnvironmentFiles {
    /// The environment files of the database at `database`.
    pub fn of(database: &Path) -> Self {
        Self {
            dir: database.with_file_name("environments"),
            kept: EnvironmentTable::new(),
        }
    }

    /// Writes the environment that a record contains.
    pub fn keep<T: EnvironmentFields + Clone>(
        &self,
        record: &T,
        caller: CallerEnv,
    ) -> Result<(), StoreError> {
        let own = record.clone().take();
        let environment = StoredEnvironment { caller, own };
        self.write(&[(record.owner(), Some(environment))].into())
    }

    /// The file changes for a commit.
    pub fn plan(&self, changes: &[&Change]) -> EnvironmentChanges {
        environment_changes(&self.kept, changes)
    }

    /// Writes the files that the commit needs. Called before the commit.
    pub fn write(&self, plan: &EnvironmentChanges) -> Result<(), StoreError> {
        let new: Vec<_> = plan
            .iter()
            .filter_map(|(owner, environment)| Some((owner, environment.as_ref()?)))
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
        for (owner, environment) in new {
            let text = serde_json::to_vec(environment)?;
            replace(&self.path(owner), &text).map_err(failed)?;
        }
        File::open(&self.dir)
            .and_then(|dir| dir.sync_all())
            .map_err(failed)
    }

    /// Removes unneeded files. Called after the commit.
    pub fn apply(&mut self, plan: EnvironmentChanges) {
        for (owner, environment) in plan {
            match environment {
                Some(environment) => {
                    self.kept.insert(owner, environment);
                }
                None => {
                    self.remove(&owner);
                    self.kept.remove(&owner);
                }
            }
        }
    }

    /// The commit failed: files of records that are not stored go.
    pub fn undo(&self, plan: &EnvironmentChanges) {
        for owner in plan.keys().filter(|owner| !self.kept.contains_key(owner)) {
            self.remove(owner);
        }
    }

    /// Restores a record's variables and returns its caller, if the record still needs the environment.
    pub fn restore<T: EnvironmentFields>(&mut self, record: &mut T) -> Option<CallerEnv> {
        if !record.needs_environment() {
            return None;
        }
        let owner = record.owner();
        let path = self.path(&owner);
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) => {
                if error.kind() != io::ErrorKind::NotFound {
                    tracing::warn!(%error, path = %path.display(), "environment not read");
                }
                return None;
            }
        };
        let environment: StoredEnvironment = serde_json::from_slice(&text)
            .inspect_err(
                |error| tracing::warn!(%error, path = %path.display(), "environment not readable"),
            )
            .ok()?;
        record.put_back(environment.own.clone());
        let caller = environment.caller.clone();
        self.kept.insert(owner, environment);
        Some(caller)
    }

    /// Removes the files that were not [restored](Self::restore), as no record needs them.
    pub fn remove_others(&self) {
        let known: BTreeSet<String> = self.kept.keys().map(file_name).collect();
        for entry in fs::read_dir(&self.dir).into_iter().flatten().flatten() {
            let name = entry.file_name();
            if !name.to_str().is_some_and(|name| known.contains(name))
                && let Err(error) = fs::remove_file(entry.path())
            {
                tracing::warn!(%error, path = %entry.path().display(), "environment not removed");
            }
        }
    }

    fn path(&self, owner: &EnvironmentOwner) -> PathBuf {
        self.dir.join(file_name(owner))
    }

    fn remove(&self, owner: &EnvironmentOwner) {
        let path = self.path(owner);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!(%error, path = %path.display(), "environment not removed");
            }
            Ok(()) | Err(_) => {}
        }
    }
}

/// The id of a run is hashed, because clients choose the ids of runs and may use any characters.
fn file_name(owner: &EnvironmentOwner) -> String {
    match owner {
        EnvironmentOwner::Run(id) => {
            let digest = Sha256::digest(id.0.as_bytes());
            let hex: String = digest[..16].iter().map(|b| format!("{b:02x}")).collect();
            format!("run-{hex}")
        }
        EnvironmentOwner::Worker(number) => format!("worker-{number}"),
        EnvironmentOwner::Watcher(number) => format!("watcher-{number}"),
    }
}

/// Whole and on disk, or not at all.
pub(super) fn replace(path: &Path, text: &[u8]) -> io::Result<()> {
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
