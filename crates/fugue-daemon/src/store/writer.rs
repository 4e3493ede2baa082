use std::{
    collections::VecDeque,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::mpsc,
    thread,
    time::Duration,
};

use fugue_core::Change;

use super::{Failure, Store, StoreError};

/// The writer thread of the store. All queued commits share a transaction, so that a hundred panes opened at once cost a few
/// syncs instead of a hundred.
///
/// Commits are stored in order. A failed commit is retried before later commits, because later changes build on earlier ones.
pub struct Writer<T> {
    /// `None` only while the writer is dropped.
    queue: Option<mpsc::Sender<Commit<T>>>,
    thread: Option<thread::JoinHandle<()>>,
}

/// Changes, and a value that is returned when the changes are on disk. A commit without changes is a barrier: its value is
/// returned when all earlier commits are on disk.
pub struct Commit<T> {
    pub changes: Vec<Change>,
    pub then: T,
    pub on_failure: OnFailure,
}

/// How a commit with a temporary failure, such as a full disk, is handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnFailure {
    /// Report the failure at once; the sender undoes the change.
    Refuse,
    /// Retry until the commit succeeds.
    Retry,
}

/// A report of the writer, sent from its thread.
#[derive(Debug, PartialEq, Eq)]
pub enum Report<T> {
    /// The commit is on disk.
    Stored(T),
    /// The commit failed for this reason, and nothing of it is on disk.
    Refused(T, String),
    /// Commits fail for this reason and are retried. Sent once, until `Resumed`.
    Stalled(String),
    /// Commits succeed again.
    Resumed,
    /// The writer has ended for this reason: the first commit without a report and all later ones are not stored.
    Ended(String),
}

// Keeps a transaction small, so that other users of the disk do not wait long.
const MAX_COMMITS_PER_TRANSACTION: usize = 256;
// The kernel has no event for free space on a disk.
const MIN_RETRY_INTERVAL: Duration = Duration::from_millis(100);
const MAX_RETRY_INTERVAL: Duration = Duration::from_secs(5);

impl<T: Send + 'static> Writer<T> {
    /// `report` is called on the writer's thread.
    pub fn start(
        store: impl Store + 'static,
        report: impl Fn(Report<T>) + Send + 'static,
    ) -> std::io::Result<Self> {
        // Not bounded by its type, but by the limits of open calls per connection and by the engine, which limits commits
        // while the store is stalled.
        let (queue, incoming) = mpsc::channel::<Commit<T>>();
        let thread = thread::Builder::new().name("store".into()).spawn(move || {
            let mut work = WriterThread {
                store,
                incoming,
                backlog: VecDeque::new(),
                report: &report,
                stalled: None,
            };
            // Without a report of the writer's end, every call would wait forever.
            let ended = match catch_unwind(AssertUnwindSafe(|| work.run())) {
                Ok(ended) => ended,
                Err(panic) => Some(format!("it panicked: {}", panic_message(&*panic))),
            };
            if let Some(reason) = ended {
                report(Report::Ended(reason));
            }
        })?;
        Ok(Self {
            queue: Some(queue),
            thread: Some(thread),
        })
    }

    pub fn commit(&self, commit: Commit<T>) {
        if let Some(queue) = &self.queue {
            // An error means that the writer has ended and has reported its end.
            let _ = queue.send(commit);
        }
    }
}

/// Stores the queued commits before the daemon ends, as far as possible.
impl<T> Drop for Writer<T> {
    fn drop(&mut self) {
        self.queue = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct WriterThread<'a, S, T, R> {
    store: S,
    incoming: mpsc::Receiver<Commit<T>>,
    backlog: VecDeque<Commit<T>>,
    report: &'a R,
    stalled: Option<Stall>,
}

struct Stall {
    reason: String,
    /// How long to wait before the next attempt.
    interval: Duration,
}

impl<S: Store, T, R: Fn(Report<T>)> WriterThread<'_, S, T, R> {
    /// Returns why the writer cannot go on, or nothing when the daemon ends.
    fn run(&mut self) -> Option<String> {
        loop {
            if self.backlog.is_empty() {
                match self.incoming.try_recv() {
                    Ok(commit) => self.backlog.push_back(commit),
                    Err(mpsc::TryRecvError::Disconnected) => return None,
                    Err(mpsc::TryRecvError::Empty) => {
                        self.store.maintain();
                        self.backlog.push_back(self.incoming.recv().ok()?);
                    }
                }
            }
            self.backlog.extend(self.incoming.try_iter());
            let together = self.backlog.len().min(MAX_COMMITS_PER_TRANSACTION);
            let failed = match self.attempt(together) {
                Ok(()) => continue,
                Err(error) if together == 1 => error,
                // A single commit may be the cause; the commits before it can be stored.
                Err(_) => match self.attempt(1) {
                    Ok(()) => continue,
                    Err(error) => error,
                },
            };
            match failed.failure() {
                Failure::Permanent => return Some(failed.to_string()),
                Failure::Passing => {}
            }
            if self.refuse_first(&failed) {
                continue;
            }
            if !self.wait(failed.to_string()) {
                // The last attempt. Commits that are not stored were not confirmed to any client.
                let _ = self.attempt(self.backlog.len());
                return None;
            }
        }
    }

    /// Stores the first commits of the backlog in one transaction.
    fn attempt(&mut self, count: usize) -> Result<(), StoreError> {
        let changes: Vec<&Change> = self
            .backlog
            .iter()
            .take(count)
            .flat_map(|commit| &commit.changes)
            .collect();
        if !changes.is_empty() {
            self.store.commit(&changes)?;
            if self.stalled.take().is_some() {
                (self.report)(Report::Resumed);
            }
        }
        for commit in self.backlog.drain(..count) {
            (self.report)(Report::Stored(commit.then));
        }
        Ok(())
    }

    /// Reports the first commit as refused, if it is not to be retried.
    fn refuse_first(&mut self, error: &StoreError) -> bool {
        let first = self.backlog.front();
        if first.is_none_or(|commit| commit.on_failure == OnFailure::Retry) {
            return false;
        }
        if let Some(commit) = self.backlog.pop_front() {
            (self.report)(Report::Refused(commit.then, error.to_string()));
        }
        true
    }

    /// Waits before the next attempt and refuses commits that are not to be retried. Returns `false` when the daemon ends.
    fn wait(&mut self, reason: String) -> bool {
        let interval = match &self.stalled {
            None => {
                (self.report)(Report::Stalled(reason.clone()));
                MIN_RETRY_INTERVAL
            }
            Some(stall) => (stall.interval * 2).min(MAX_RETRY_INTERVAL),
        };
        self.stalled = Some(Stall {
            reason: reason.clone(),
            interval,
        });
        let kept = std::mem::take(&mut self.backlog);
        kept.into_iter()
            .for_each(|commit| self.queue_or_refuse(commit));
        let next_attempt = std::time::Instant::now() + interval;
        loop {
            let left = next_attempt.saturating_duration_since(std::time::Instant::now());
            match self.incoming.recv_timeout(left) {
                Ok(commit) => self.queue_or_refuse(commit),
                Err(mpsc::RecvTimeoutError::Timeout) => return true,
                Err(mpsc::RecvTimeoutError::Disconnected) => return false,
            }
        }
    }

    fn queue_or_refuse(&mut self, commit: Commit<T>) {
        let reason = self.stalled.as_ref().map(|stall| stall.reason.clone());
        match (commit.on_failure, reason) {
            (OnFailure::Refuse, Some(reason)) => {
                (self.report)(Report::Refused(commit.then, reason));
            }
            (OnFailure::Refuse | OnFailure::Retry, _) => self.backlog.push_back(commit),
        }
    }
}

fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "without a message".to_owned())
}

#[cfg(test)]
mod tests;
