use std::{
    fs,
    path::{Path, PathBuf},
};

use fugue_api::PaneId;
use fugue_core::Counter;

use super::*;
use crate::store::{Sqlite, StoreContents, test_records::pane};

/// The commits' numbers of a store that keeps what it is given in memory, and fails as it is told.
struct ScriptedStore {
    outcomes: VecDeque<Outcome>,
    written: mpsc::Sender<Vec<u64>>,
}

enum Outcome {
    NoSpace,
    Panic,
    Corrupt,
}

impl Store for ScriptedStore {
    fn open(&mut self) -> Result<StoreContents, StoreError> {
        Ok(StoreContents::default())
    }

    fn commit(&mut self, changes: &[&Change]) -> Result<(), StoreError> {
        let code = match self.outcomes.pop_front() {
            None => {
                let numbers = changes.iter().map(|change| match change {
                    Change::SetCounter(Counter::NextPane, number) => *number,
                    other => panic!("{other:?}"),
                });
                self.written.send(numbers.collect()).unwrap();
                return Ok(());
            }
            Some(Outcome::Panic) => panic!("a defect of the store"),
            Some(Outcome::NoSpace) => rusqlite::ffi::SQLITE_FULL,
            Some(Outcome::Corrupt) => rusqlite::ffi::SQLITE_CORRUPT,
        };
        let error = rusqlite::ffi::Error::new(code);
        Err(StoreError::Database(rusqlite::Error::SqliteFailure(
            error, None,
        )))
    }
}

struct Rig {
    writer: Writer<u64>,
    reports: mpsc::Receiver<Report<u64>>,
    written: mpsc::Receiver<Vec<u64>>,
}

impl Rig {
    fn new(outcomes: impl IntoIterator<Item = Outcome>) -> Self {
        let (written, on_disk) = mpsc::channel();
        let store = ScriptedStore {
            outcomes: outcomes.into_iter().collect(),
            written,
        };
        let (report, reports) = mpsc::channel();
        let writer = Writer::start(store, move |one| {
            let _ = report.send(one);
        })
        .unwrap();
        Self {
            writer,
            reports,
            written: on_disk,
        }
    }

    fn commit(&self, number: u64, on_failure: OnFailure) {
        self.writer.commit(Commit {
            changes: vec![Change::SetCounter(Counter::NextPane, number)],
            then: number,
            on_failure,
        });
    }

    fn report(&self) -> Report<u64> {
        self.reports.recv().unwrap()
    }

    /// Everything that was written, in order.
    fn end(self) -> Vec<u64> {
        drop(self.writer);
        self.written.iter().flatten().collect()
    }
}

const FULL: &str = "the disk is full";

#[test]
fn commits_are_confirmed_in_order_and_are_then_on_disk() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("fugue.db");
    let (report, reports) = mpsc::channel();
    let writer = Writer::start(Sqlite::at(&path).unwrap(), move |one: Report<u64>| {
        report.send(one).unwrap();
    })
    .unwrap();
    for number in 1..=1000 {
        writer.commit(Commit {
            changes: vec![Change::put(pane(number, "true"))],
            then: number,
            on_failure: OnFailure::Retry,
        });
    }
    for number in 1..=1000 {
        assert_eq!(reports.recv().unwrap(), Report::Stored(number));
    }
    // A copy of the files, because the writer has the database for itself.
    let copy = dir.path().join("copy.db");
    for suffix in ["", "-wal"] {
        let of = |path: &Path| PathBuf::from(format!("{}{suffix}", path.display()));
        fs::copy(of(&path), of(&copy)).unwrap();
    }
    let panes = Sqlite::at(&copy).unwrap().open().unwrap().snapshot.panes;
    assert_eq!(panes.len(), 1000);
    assert_eq!(panes.last().map(|pane| pane.id), Some(PaneId(1000)));
}

#[test]
fn a_failed_commit_is_retried_before_any_later_one_and_nothing_is_confirmed_early() {
    let rig = Rig::new([Outcome::NoSpace, Outcome::NoSpace, Outcome::NoSpace]);
    rig.commit(1, OnFailure::Retry);
    let Report::Stalled(reason) = rig.report() else {
        panic!("the failure was not told")
    };
    assert!(reason.contains(FULL), "{reason}");
    for number in 2..=600 {
        rig.commit(number, OnFailure::Retry);
    }
    assert_eq!(rig.report(), Report::Resumed);
    for number in 1..=600 {
        assert_eq!(rig.report(), Report::Stored(number));
    }
    assert_eq!(rig.end(), (1..=600).collect::<Vec<_>>());
}

#[test]
fn what_can_be_undone_is_refused_at_once_also_behind_a_commit_that_waits() {
    // More failures than the test lives to see.
    let rig = Rig::new((0..1000).map(|_| Outcome::NoSpace));
    rig.commit(1, OnFailure::Refuse);
    let Report::Refused(1, reason) = rig.report() else {
        panic!("not refused")
    };
    assert!(reason.contains(FULL), "{reason}");
    rig.commit(2, OnFailure::Retry);
    assert!(matches!(rig.report(), Report::Stalled(_)));
    rig.commit(3, OnFailure::Refuse);
    assert!(matches!(rig.report(), Report::Refused(3, _)));
    assert_eq!(rig.end(), [0; 0], "nothing was ever stored");
}

#[test]
fn a_barrier_waits_for_what_is_before_it_and_writes_nothing() {
    let rig = Rig::new([Outcome::NoSpace, Outcome::NoSpace]);
    rig.commit(1, OnFailure::Retry);
    rig.writer.commit(Commit {
        changes: Vec::new(),
        then: 2,
        on_failure: OnFailure::Retry,
    });
    assert!(matches!(rig.report(), Report::Stalled(_)));
    assert_eq!(rig.report(), Report::Resumed);
    assert_eq!(rig.report(), Report::Stored(1));
    assert_eq!(rig.report(), Report::Stored(2));
    assert_eq!(rig.end(), [1]);
}

#[test]
fn a_writer_that_panics_or_meets_a_damaged_database_says_so_and_confirms_nothing_more() {
    for (outcome, says) in [
        (Outcome::Panic, "a defect of the store"),
        (Outcome::Corrupt, "malformed"),
    ] {
        let rig = Rig::new([outcome]);
        rig.commit(1, OnFailure::Retry);
        let Report::Ended(reason) = rig.report() else {
            panic!("its end was not told")
        };
        assert!(reason.contains(says), "{reason}");
        rig.commit(2, OnFailure::Retry);
        assert!(
            rig.reports.recv().is_err(),
            "a dead writer confirms nothing"
        );
        assert_eq!(rig.end(), [0; 0]);
    }
}

#[test]
fn what_was_given_before_the_end_is_stored() {
    let rig = Rig::new([]);
    for number in 1..=600 {
        rig.commit(number, OnFailure::Retry);
    }
    assert_eq!(rig.end(), (1..=600).collect::<Vec<_>>());
}
