use std::{sync::mpsc, thread};

use fugue_core::Change;

use super::{Store, StoreError};

/// The one writer: a thread that puts everything that waits into one transaction, so that a hundred panes opened
/// at once cost a few syncs and not a hundred.
pub struct Writer<T> {
    queue: mpsc::Sender<Commit<T>>,
}

/// Changes, and what to hand back once they are on disk.
pub struct Commit<T> {
    pub changes: Vec<Change>,
    pub then: T,
}

// One transaction stays small enough that a reader of the same disk is not held up.
const MOST_AT_ONCE: usize = 256;

impl<T: Send + 'static> Writer<T> {
    /// `done` is called on the writer's thread, in the order of the commits.
    pub fn start(
        mut store: impl Store + 'static,
        done: impl Fn(T, Result<(), String>) + Send + 'static,
    ) -> std::io::Result<Self> {
        // Unbounded by type, bounded by the calls in flight that the door admits.
        let (queue, waiting) = mpsc::channel::<Commit<T>>();
        thread::Builder::new().name("store".into()).spawn(move || {
            while let Ok(first) = waiting.recv() {
                let mut batch = vec![first];
                batch.extend(waiting.try_iter().take(MOST_AT_ONCE - 1));
                let together: Vec<&Change> =
                    batch.iter().flat_map(|commit| &commit.changes).collect();
                let outcome = store.commit(&together);
                match outcome {
                    Ok(()) => batch
                        .into_iter()
                        .for_each(|commit| done(commit.then, Ok(()))),
                    // One of them may be at fault; the others must not suffer.
                    Err(_) => batch.into_iter().for_each(|commit| {
                        let alone: Vec<&Change> = commit.changes.iter().collect();
                        let outcome = store
                            .commit(&alone)
                            .map_err(|error: StoreError| error.to_string());
                        done(commit.then, outcome);
                    }),
                }
            }
        })?;
        Ok(Self { queue })
    }

    pub fn commit(&self, commit: Commit<T>) {
        // The thread ends only with this sender.
        let _ = self.queue.send(commit);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{Sqlite, conformance::record};

    #[test]
    fn commits_are_confirmed_in_order_and_are_then_on_disk() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("fugue.db");
        let (done, confirmed) = mpsc::channel();
        let writer = Writer::start(Sqlite::at(&path).unwrap(), move |number: u64, outcome| {
            done.send((number, outcome)).unwrap();
        })
        .unwrap();
        for number in 1..=1000 {
            writer.commit(Commit {
                changes: vec![Change::Put(Box::new(record(number)))],
                then: number,
            });
        }
        for number in 1..=1000 {
            assert_eq!(confirmed.recv().unwrap(), (number, Ok(())));
        }
        assert_eq!(Sqlite::at(&path).unwrap().open().unwrap().panes.len(), 1000);
    }
}
