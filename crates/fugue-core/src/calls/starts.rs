//! The history of starts: the pane, run or worker that each idempotency key started. An entry outlives the pane, run or
//! worker.

use std::collections::{BTreeSet, HashMap};

use fugue_api::{Error, ErrorKind, PaneId, RunId, Timestamp, wire::IdempotencyKey};
use serde::{Deserialize, Serialize};

use crate::{Change, RecordId};

/// The pane, run or worker that a call has started. This record outlives the pane's, run's or worker's own record, so
/// that the same call made again later does not start it twice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartRecord {
    pub key: IdempotencyKey,
    pub at: Timestamp,
    pub what: StartTarget,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StartTarget {
    Pane(PaneId),
    Run(RunId),
    /// The worker's number.
    Worker(u64),
}

impl std::fmt::Display for StartTarget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Pane(pane) => write!(f, "pane `{pane}`"),
            Self::Run(run) => write!(f, "run `{run}`"),
            Self::Worker(number) => write!(f, "worker number {number}"),
        }
    }
}

// The time in which a client on a suspended machine or in a resumed conversation may repeat a call.
const REMEMBERED_MS: u64 = 7 * 24 * 60 * 60 * 1000;
const MAX_REMEMBERED: usize = 10_000;

/// Starts by the key of the call, at most [`MAX_REMEMBERED`] of the last seven days.
#[derive(Debug, Default)]
pub(crate) struct StartHistory {
    by_key: HashMap<IdempotencyKey, StartRecord>,
    /// Oldest first.
    by_age: BTreeSet<(Timestamp, [u8; 16])>,
}

impl StartHistory {
    pub fn restored(records: Vec<StartRecord>) -> Self {
        let mut starts = Self::default();
        for record in records {
            starts.by_age.insert((record.at, record.key.0));
            starts.by_key.insert(record.key, record);
        }
        starts
    }

    /// Adds a start, and returns the changes for the commit that stores the started pane, run or worker.
    pub fn remember(
        &mut self,
        key: IdempotencyKey,
        what: StartTarget,
        now: Timestamp,
    ) -> Vec<Change> {
        let record = StartRecord { key, at: now, what };
        let mut changes = vec![Change::put(record.clone())];
        self.forget(key);
        self.by_age.insert((record.at, key.0));
        self.by_key.insert(key, record);
        while let Some((at, oldest)) = self.by_age.first().copied()
            && (self.by_age.len() > MAX_REMEMBERED || at.0.saturating_add(REMEMBERED_MS) <= now.0)
        {
            let oldest = IdempotencyKey(oldest);
            self.forget(oldest);
            changes.push(Change::Remove(RecordId::Start(oldest)));
        }
        changes
    }

    /// Removes a start that has failed, so that the same call may try again. Returns the change to store.
    pub fn undo(&mut self, what: &StartTarget) -> Option<Change> {
        let mut all = self.by_key.values();
        let key = all.find(|record| record.what == *what)?.key;
        self.forget(key);
        Some(Change::Remove(RecordId::Start(key)))
    }

    /// Refuses a repeated call whose pane, run or worker is forgotten. Callers look for a known pane, run or worker first.
    pub fn refuse_repeated(&self, key: IdempotencyKey) -> Result<(), Error> {
        match self.by_key.get(&key) {
            None => Ok(()),
            Some(record) => Err(Error::new(
                ErrorKind::Ended,
                format!(
                    "this call was made before: it started {}, which has ended and is forgotten; it was not started again",
                    record.what
                ),
            )
            .hint("make a new call to start it anew")),
        }
    }

    fn forget(&mut self, key: IdempotencyKey) {
        if let Some(record) = self.by_key.remove(&key) {
            self.by_age.remove(&(record.at, key.0));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: u64) -> IdempotencyKey {
        let mut key = [0; 16];
        key[..8].copy_from_slice(&number.to_le_bytes());
        IdempotencyKey(key)
    }

    #[test]
    fn starts_are_remembered_for_seven_days_and_at_most_so_many() {
        let pane = |number| StartTarget::Pane(PaneId(number));
        let mut starts = StartHistory::default();
        starts.remember(key(1), pane(1), Timestamp(0));
        assert!(starts.refuse_repeated(key(1)).is_err());
        assert!(starts.refuse_repeated(key(2)).is_ok());
        let changes = starts.remember(key(2), pane(2), Timestamp(REMEMBERED_MS));
        assert_eq!(
            changes.last(),
            Some(&Change::Remove(RecordId::Start(key(1))))
        );
        assert!(starts.refuse_repeated(key(1)).is_ok());
        let most = MAX_REMEMBERED as u64;
        for number in 3..=most + 2 {
            starts.remember(key(number), pane(number), Timestamp(REMEMBERED_MS));
        }
        assert_eq!(starts.by_key.len(), MAX_REMEMBERED);
        assert_eq!(starts.by_age.len(), MAX_REMEMBERED);
        starts.undo(&pane(most + 2));
        assert!(starts.refuse_repeated(key(most + 2)).is_ok());
    }
}
