//! The store: durable records of panes, runs, workers and events, as plain data behind a trait.
//!
//! A change and its consequences are one commit. Effects that depend on a commit are performed after it is on disk.

mod backup;
mod environments;
#[cfg(any(test, fuzzing))]
pub use environments::StoredEnvironment;
mod open;
mod sqlite;
mod writer;

use std::path::PathBuf;

use fugue_core::{Change, StoreSnapshot};
use rusqlite::ErrorCode;
use serde::Serialize;

pub use open::{IntegrityCheck, open};
pub use sqlite::Sqlite;
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
    #[error("the database was created by a newer fugue (format {0})")]
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
pub(crate) mod conformance {
    //! The conformance tests that every store passes.

    use super::*;
    use fugue_api::{PaneId, SessionName, Timestamp, tools::PaneSize, wire::IdempotencyKey};
    use fugue_core::{LayoutRecord, PaneRecord, StartRecord, StartTarget, layout::SplitLayout};

    pub fn record(id: u64) -> PaneRecord {
        PaneRecord {
            id: PaneId(id),
            session: SessionName::default(),
            name: format!("pane {id} ✓"),
            command: "true".into(),
            cwd: "/".into(),
            size: PaneSize {
                rows: 40,
                cols: 120,
            },
            created_at: Timestamp(1_000),
            made_by: IdempotencyKey([7; 16]),
            opened_by: None,
            secret: "s".into(),
            agent: None,
            generation: 1,
            pid: 1,
            closing: false,
            ended: None,
            removing: false,
            tmux: None,
        }
    }

    pub fn all<S: Store>(reopen: impl Fn() -> S) {
        a_new_store_is_empty(&reopen);
        what_was_committed_is_there_after_a_restart(&reopen);
        every_start_is_counted(&reopen);
        a_session_stays_as_it_was_arranged(&reopen);
        a_start_is_remembered_until_it_is_dropped(&reopen);
    }

    fn a_start_is_remembered_until_it_is_dropped<S: Store>(reopen: &impl Fn() -> S) {
        let start = |key: u8| StartRecord {
            key: IdempotencyKey([key; 16]),
            at: Timestamp(u64::from(key)),
            what: StartTarget::Pane(PaneId(u64::from(key))),
        };
        let put = |key| Change::PutStart(start(key));
        let mut store = reopen();
        store.commit(&[&put(1), &put(2)]).unwrap();
        store
            .commit(&[&Change::DropStart(IdempotencyKey([1; 16]))])
            .unwrap();
        drop(store);
        assert_eq!(reopen().open().unwrap().snapshot.starts, [start(2)]);
    }

    fn a_new_store_is_empty<S: Store>(reopen: &impl Fn() -> S) {
        let snapshot = reopen().open().unwrap().snapshot;
        assert!(snapshot.panes.is_empty());
        assert_eq!(snapshot.epoch, 1);
    }

    fn what_was_committed_is_there_after_a_restart<S: Store>(reopen: &impl Fn() -> S) {
        let mut store = reopen();
        store.open().unwrap();
        let put = |record: PaneRecord| Change::Put(Box::new(record));
        store
            .commit(&[&Change::NextPane(3), &put(record(1)), &put(record(2))])
            .unwrap();
        let renamed = PaneRecord {
            name: "other".into(),
            ..record(2)
        };
        store
            .commit(&[&put(renamed.clone()), &Change::Drop(PaneId(1))])
            .unwrap();
        drop(store);
        let snapshot = reopen().open().unwrap().snapshot;
        assert_eq!(snapshot.panes, [renamed]);
        assert_eq!(snapshot.next_pane, 3);
    }

    fn a_session_stays_as_it_was_arranged<S: Store>(reopen: &impl Fn() -> S) {
        let arranged = |session: &str, zoomed| LayoutRecord {
            session: SessionName(session.into()),
            layout: Some(SplitLayout::tiled(
                &[PaneId(1), PaneId(2)],
                PaneSize { rows: 24, cols: 80 },
            )),
            zoomed,
        };
        let put = |record: &LayoutRecord| Change::PutArrangement(Box::new(record.clone()));
        let (main, other) = (arranged("main", None), arranged("other", None));
        let zoomed = arranged("main", Some(PaneId(2)));
        let mut store = reopen();
        store.commit(&[&put(&main), &put(&other)]).unwrap();
        let drop_other = Change::DropArrangement(other.session.clone());
        store.commit(&[&put(&zoomed), &drop_other]).unwrap();
        drop(store);
        assert_eq!(reopen().open().unwrap().snapshot.arrangements, [zoomed]);
    }

    fn every_start_is_counted<S: Store>(reopen: &impl Fn() -> S) {
        let first = reopen().open().unwrap().snapshot.epoch;
        assert_eq!(reopen().open().unwrap().snapshot.epoch, first + 1);
    }
}
