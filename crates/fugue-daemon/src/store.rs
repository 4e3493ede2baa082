//! What outlives a daemon: the records of panes and runs, in plain data behind a trait.
//!
//! A change of state and what it causes are one commit; the daemon acts on a commit only once it is on disk.

mod sqlite;
mod writer;

use fugue_core::{Change, Snapshot};

pub use sqlite::Sqlite;
pub use writer::{Commit, Writer};

/// Somewhere to keep [`Snapshot`]s of the house. Plain data, so that another engine can take SQLite's place.
pub trait Store: Send {
    /// Counts this start, and gives what the last commit left.
    fn open(&mut self) -> Result<Snapshot, StoreError>;
    /// All of it, or nothing.
    fn commit(&mut self, changes: &[&Change]) -> Result<(), StoreError>;
}

#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("{0}")]
    Database(#[from] rusqlite::Error),
    #[error("a stored record cannot be read: {0}")]
    Record(#[from] serde_json::Error),
    #[error("the database was made by a newer fugue (format {0})")]
    Newer(u32),
}

#[cfg(test)]
pub(crate) mod conformance {
    //! What every store must do. Each engine runs all of it.

    use super::*;
    use fugue_api::{PaneId, SessionName, Timestamp, panes::PaneSize, wire::Key};
    use fugue_core::{ArrangementRecord, PaneRecord, layout::Layout};

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
            made_by: Key([7; 16]),
            secret: "s".into(),
            agent: None,
            generation: 1,
            pid: 1,
            closing: false,
            ended: None,
            tmux: None,
        }
    }

    pub fn all<S: Store>(reopen: impl Fn() -> S) {
        a_new_store_is_empty(&reopen);
        what_was_committed_is_there_after_a_restart(&reopen);
        every_start_is_counted(&reopen);
        a_session_stays_as_it_was_arranged(&reopen);
    }

    fn a_new_store_is_empty<S: Store>(reopen: &impl Fn() -> S) {
        let snapshot = reopen().open().unwrap();
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
        let snapshot = reopen().open().unwrap();
        assert_eq!(snapshot.panes, [renamed]);
        assert_eq!(snapshot.next_pane, 3);
    }

    fn a_session_stays_as_it_was_arranged<S: Store>(reopen: &impl Fn() -> S) {
        let arranged = |session: &str, zoomed| ArrangementRecord {
            session: SessionName(session.into()),
            layout: Some(Layout::tiled(
                &[PaneId(1), PaneId(2)],
                PaneSize { rows: 24, cols: 80 },
            )),
            zoomed,
        };
        let put = |record: &ArrangementRecord| Change::PutArrangement(Box::new(record.clone()));
        let (main, other) = (arranged("main", None), arranged("other", None));
        let zoomed = arranged("main", Some(PaneId(2)));
        let mut store = reopen();
        store.commit(&[&put(&main), &put(&other)]).unwrap();
        let drop_other = Change::DropArrangement(other.session.clone());
        store.commit(&[&put(&zoomed), &drop_other]).unwrap();
        drop(store);
        assert_eq!(reopen().open().unwrap().arrangements, [zoomed]);
    }

    fn every_start_is_counted<S: Store>(reopen: &impl Fn() -> S) {
        let first = reopen().open().unwrap().epoch;
        assert_eq!(reopen().open().unwrap().epoch, first + 1);
    }
}
