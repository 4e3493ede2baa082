use std::{
    collections::BTreeMap,
    fs::File,
    io,
    path::{Path, PathBuf},
};

use fugue_core::{Change, Counter, StoreSnapshot};

use super::{StoreError, environments::replace};

/// Marks above all ids of events, questions and runs that were ever given out, in a file beside the database: also after the
/// loss of the database no id is given out again. (Panes and workers have directories, which tell the same.)
pub struct IdMarks {
    path: PathBuf,
    marks: BTreeMap<String, u64>,
}

// The file is written once per so many ids of a kind.
const IDS_AHEAD: u64 = 100;
// A counter that is farther below its mark is of an older database, which was put in the place of a newer one.
const MAX_LAG: u64 = 10 * IDS_AHEAD;

impl IdMarks {
    /// Those of the database at `database`. A file that is missing or damaged has no marks. A failed read is an error,
    /// because the next marks would replace higher ones.
    pub fn of(database: &Path) -> Result<Self, StoreError> {
        let path = database.with_file_name("ids");
        let text = match std::fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(StoreError::File(path, error)),
        };
        let marks = serde_json::from_slice(&text).unwrap_or_default();
        Ok(Self { path, marks })
    }

    /// Raises the marks above the ids of a commit, before the commit.
    pub fn raise(&mut self, changes: &[&Change]) -> Result<(), StoreError> {
        let mut raised = self.marks.clone();
        for change in changes {
            let Change::SetCounter(counter, next) = change else {
                continue;
            };
            if let Some(name) = marked_name(*counter)
                && self.marks.get(name).is_none_or(|mark| next > mark)
            {
                raised.insert(name.to_owned(), next + IDS_AHEAD);
            }
        }
        if raised == self.marks {
            return Ok(());
        }
        let failed = |error| StoreError::File(self.path.clone(), error);
        replace(&self.path, &serde_json::to_vec(&raised)?).map_err(failed)?;
        let dir = self.path.parent().unwrap_or(Path::new("."));
        File::open(dir)
            .and_then(|dir| dir.sync_all())
            .map_err(failed)?;
        self.marks = raised;
        Ok(())
    }

    /// Raises the counters of a database that was lost, or that is older than the marks, to the marks.
    pub fn apply(&self, snapshot: &mut StoreSnapshot, is_lost: bool) {
        let counters = [
            (Counter::NextRun, &mut snapshot.next_run),
            (Counter::NextEvent, &mut snapshot.next_event),
            (Counter::NextQuestion, &mut snapshot.next_question),
        ];
        for (counter, next) in counters {
            let mark = marked_name(counter).and_then(|name| self.marks.get(name));
            let mark = mark.copied().unwrap_or(0);
            if is_lost || *next + MAX_LAG < mark {
                *next = mark.max(*next);
            }
        }
    }
}

/// The name of a counter with a mark.
fn marked_name(counter: Counter) -> Option<&'static str> {
    match counter {
        Counter::NextRun => Some("next_run"),
        Counter::NextEvent => Some("next_event"),
        Counter::NextQuestion => Some("next_question"),
        Counter::NextPane | Counter::NextWorker | Counter::NextWatcher => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raise(marks: &mut IdMarks, next: u64) {
        marks
            .raise(&[&Change::SetCounter(Counter::NextEvent, next)])
            .unwrap();
    }

    fn next_event(marks: &IdMarks, stored: u64, is_lost: bool) -> u64 {
        let mut snapshot = StoreSnapshot {
            next_event: stored,
            ..StoreSnapshot::default()
        };
        marks.apply(&mut snapshot, is_lost);
        assert_eq!((snapshot.next_run, snapshot.next_question), (0, 0));
        snapshot.next_event
    }

    #[test]
    fn a_lost_database_goes_on_above_every_id_and_a_sound_one_where_it_was() {
        let dir = tempfile::tempdir().unwrap();
        let database = dir.path().join("fugue.db");
        let mut marks = IdMarks::of(&database).unwrap();
        for next in 2..=250 {
            raise(&mut marks, next);
            let read = IdMarks::of(&database).unwrap();
            assert!(next_event(&read, 0, true) >= next, "{next}");
            assert_eq!(next_event(&read, next, false), next);
        }
        // A daily backup in its place goes on above, too.
        assert!(next_event(&marks, 10, true) >= 250);
        // As does an old copy that somebody has put back.
        raise(&mut marks, 5_000);
        assert!(next_event(&marks, 10, false) >= 5_000);
    }

    #[test]
    fn marks_that_cannot_be_read_are_not_taken_for_missing_ones() {
        let dir = tempfile::tempdir().unwrap();
        let database = dir.path().join("fugue.db");
        std::fs::write(dir.path().join("ids"), "damaged").unwrap();
        assert!(IdMarks::of(&database).unwrap().marks.is_empty());
        std::fs::remove_file(dir.path().join("ids")).unwrap();
        // A directory can be opened but not read.
        std::fs::create_dir(dir.path().join("ids")).unwrap();
        assert!(IdMarks::of(&database).is_err());
    }
}
