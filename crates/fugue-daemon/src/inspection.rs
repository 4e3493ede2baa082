//! Checks of what a daemon depends on. They change nothing, need no daemon and are bounded.

use std::{
    ffi::OsStr,
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use fugue_api::{Error, wire::CallerEnv};
use fugue_core::{assess::WatchSettings, settings::Settings};

use crate::{
    assess::Assessor,
    disk,
    resolve::{self, variable},
    run::unusable_store_error,
    store::{self, IntegrityCheck, Sqlite, Store, StoreError},
    tmux::server::TmuxServer,
};
use fugue_client::paths::UserPaths;

pub use crate::disk::free_bytes;

// Copying and checking more would take noticeably long.
const MAX_CHECKED_BYTES: u64 = 64 << 20;

/// The state of a database that no daemon has open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DatabaseState {
    Missing,
    Sound {
        /// Records that cannot be read.
        quarantined: u64,
    },
    /// Why the next daemon replaces it.
    Damaged(String),
    TooLarge,
}

/// Examines a copy of the database, because opening the original would lock it and could change it. An error: the database is of
/// a newer version, or it cannot be read or copied.
pub fn check_database(paths: &UserPaths) -> Result<DatabaseState, Error> {
    let database = paths.database();
    store::check_format(&database).map_err(|error| unusable_store_error(paths, &error))?;
    let unreadable =
        |path: &Path, error: io::Error| Error::unavailable(format!("{}: {error}", path.display()));
    let log = database.with_extension("db-wal");
    let mut total = 0;
    for file in [&database, &log] {
        match fs::metadata(file) {
            Ok(found) => total += found.len(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(unreadable(file, error)),
        }
    }
    match total {
        0 => return Ok(DatabaseState::Missing),
        size if size > MAX_CHECKED_BYTES => return Ok(DatabaseState::TooLarge),
        _ => {}
    }
    // Only this user can read the directory.
    let dir = tempfile::tempdir().map_err(|error| unreadable(&std::env::temp_dir(), error))?;
    let copy = dir.path().join("fugue.db");
    for (from, to) in [
        (&database, copy.clone()),
        (&log, copy.with_extension("db-wal")),
    ] {
        match fs::copy(from, to) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(unreadable(from, error));
            }
            Ok(_) | Err(_) => {}
        }
    }
    let opened = Sqlite::at(&copy).and_then(|mut store| {
        store.check(IntegrityCheck::Quick)?;
        store.open()
    });
    match opened {
        Ok(opened) => Ok(DatabaseState::Sound {
            quarantined: opened.quarantine_count,
        }),
        Err(error @ StoreError::Newer(_)) => Err(unusable_store_error(paths, &error)),
        Err(error) => Ok(DatabaseState::Damaged(error.to_string())),
    }
}

/// Refuses a disk on which nothing would be started, as a call would be refused.
pub fn check_disk(path: &Path, settings: &Settings) -> Result<(), Error> {
    disk::check_floor(path, settings)
}

/// The assessor that a watcher of this caller would ask. Makes no request.
pub fn check_assessor(settings: &WatchSettings, caller: &CallerEnv) -> Result<(), Error> {
    let limit = Duration::from_secs_f64(settings.assess_timeout_sec);
    for model in [&*settings.assess_model, settings.next_step_model()] {
        Assessor::new(model, caller, limit)?;
    }
    Ok(())
}

/// What `tmux -V` prints. Refused: no tmux, or one that is too old.
pub fn check_tmux(caller: &CallerEnv, limit: Duration) -> Result<String, Error> {
    TmuxServer::of(caller)?.version(limit)
}

/// The program of this name on the caller's PATH.
pub fn find_program(name: &str, caller: &CallerEnv) -> Option<PathBuf> {
    let path = variable(caller, "PATH");
    let cwd = PathBuf::from(std::ffi::OsString::from(&caller.cwd));
    resolve::find_program(OsStr::new(name), path.as_deref(), &cwd)
}

/// A variable of the caller's environment, unless it is empty.
pub fn text_variable(caller: &CallerEnv, name: &str) -> Option<String> {
    let value = variable(caller, name)?.into_string().ok()?;
    (!value.is_empty()).then_some(value)
}
