//! The store: durable records of panes, runs, workers and events, as plain data behind a trait.
//!
//! A change and its consequences are one commit. Effects that depend on a commit are performed after it is on disk.

mod backup;
mod environments;
mod id_marks;
mod open;
mod sqlite;
mod writer;

use std::path::PathBuf;

use fugue_core::{Change, StoreSnapshot};
use rusqlite::ErrorCode;
use serde::Serialize;

pub use open::{IntegrityCheck, check_format, open};
pub use sqlite::{FORMAT, Sqlite};
pub use writer::{Commit, OnFailure, Report, Writer};

/// A durable [`StoreSnapshot`]. The interface is plain data, so that another database can replace SQLite.
pub trait Store: Send {
    /// Increments the epoch and returns the state after the last commit.
    fn open(&mut self) -> Result<StoreContents, StoreError>;
    /// Stores all changes in one transaction, or none.
    fn commit(&mut self, changes: &[&Change]) -> Result<(), StoreError>;
    /// Called when the queue of commits is empty, for a backup if one is due.
    fn maintain(&mut self) {}
}

/// The records of an opened store, and the errors that were found.
#[derive(Debug, Default)]
pub struct StoreContents {
    pub snapshot: StoreSnapshot,
    /// Records that could not be read and were moved to the quarantine by this start.
    pub quarantined: Vec<QuarantinedRow>,
    /// The number of records in the quarantine, including earlier starts.
    pub quarantine_count: u64,
    /// Whether the database was opened, created or replaced.
    pub origin: StoreOrigin,
}

/// The origin of the opened database.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(tag = "database", rename_all = "snake_case")]
pub enum StoreOrigin {
    /// The existing database, undamaged.
    #[default]
    Sound,
    /// A new database; no file existed.
    New,
    /// The backup, which replaced a missing or damaged database.
    Backup {
        reason: String,
        kept_aside: Option<PathBuf>,
    },
    /// An empty database, which replaced a damaged one without a usable backup.
    Empty {
        reason: String,
        kept_aside: Option<PathBuf>,
    },
}

/// A record that could not be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct QuarantinedRow {
    /// The table of the record.
    pub kind: String,
    pub id: String,
    pub error: String,
    #[serde(skip)]
    pub raw: Vec<u8>,
}

#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("{}", explain(.0))]
    Database(#[from] rusqlite::Error),
    #[error("a record cannot be written: {0}")]
    Record(#[from] serde_json::Error),
    #[error(
        "the database was written by a newer fugue (format {0}; this version knows formats up to {FORMAT})"
    )]
    Newer(u32),
    #[error("the database is damaged: {0}")]
    Damaged(String),
    #[error("{} was removed or replaced while the daemon runs", .0.display())]
    Gone(PathBuf),
    #[error("{}: {}", .0.display(), .1)]
    File(PathBuf, std::io::Error),
}

/// Whether a retry may succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The disk is full, read-only or failing.
    Passing,
    /// The database is damaged, or the record cannot be written.
    Permanent,
}

impl StoreError {
    pub fn failure(&self) -> Failure {
        match self {
            Self::Gone(_) | Self::File(..) => Failure::Passing,
            Self::Record(_) | Self::Newer(_) | Self::Damaged(_) => Failure::Permanent,
            Self::Database(error) => match error.sqlite_error_code() {
                Some(
                    ErrorCode::CannotOpen
                    | ErrorCode::DatabaseBusy
                    | ErrorCode::DatabaseLocked
                    | ErrorCode::DiskFull
                    | ErrorCode::FileLockingProtocolFailed
                    | ErrorCode::OperationInterrupted
                    | ErrorCode::OutOfMemory
                    | ErrorCode::PermissionDenied
                    | ErrorCode::ReadOnly
                    | ErrorCode::SystemIoFailure,
                ) => Failure::Passing,
                _ => Failure::Permanent,
            },
        }
    }
}

impl StoreError {
    /// Whether another process has the database open.
    pub fn is_locked(&self) -> bool {
        let Self::Database(error) = self else {
            return false;
        };
        let code = error.sqlite_error_code();
        matches!(
            code,
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked)
        )
    }
}

/// SQLite's errors in the words of the system.
fn explain(error: &rusqlite::Error) -> String {
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => "the disk is full: no space left on device".to_owned(),
        Some(ErrorCode::ReadOnly) => {
            "the database cannot be written: read-only file system or file".to_owned()
        }
        Some(ErrorCode::SystemIoFailure) => format!("the disk reports an error: {error}"),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod test_records;
