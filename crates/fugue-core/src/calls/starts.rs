//! The history of starts: the pane, run or worker that each idempotency key started. An entry outlives the pane, run or
//! worker.

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use fugue_api::{Error, ErrorKind, PaneId, RunId, wire::IdempotencyKey};
use serde::{Deserialize, Serialize};

use crate::{Change, ClockReading, Moment, RecordId};

/// The pane, run or worker that a call has started. This record outlives the pane's, run's or worker's own record, so
/// that the same call made again later does not start it twice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartRecord {
    pub key: IdempotencyKey,
    pub at: Moment,
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
const REMEMBERED: Duration = Duration::from_secs(7 * 24 * 60 * 60);
const MAX_REMEMBERED: usize = 10_000;

/// Starts by the key of the call: those of the last seven days, at most [`MAX_REMEMBERED`].
#[derive(Debug, Default)]
pub(crate) struct StartHistory {
    by_key: HashMap<IdempotencyKey, RememberedStart>,
    /// Oldest first.
    by_order: BTreeMap<u64, IdempotencyKey>,
}

#[derive(Debug)]
struct RememberedStart {
    record: StartRecord,
    order: u64,
}

impl StartHistory {
    pub fn restored(mut records: Vec<StartRecord>) -> Self {
        records.sort_by_key(|record| record.at.wall);
        let mut starts = Self::default();
        for record in records {
            starts.insert(record);
        }
        starts
    }

    fn insert(&mut self, record: StartRecord) {
        self.forget(record.key);
        let last = self.by_order.last_key_value();
        let order = last.map_or(0, |(order, _)| order + 1);
        self.by_order.insert(order, record.key);
        self.by_key
            .insert(record.key, RememberedStart { record, order });
    }

    /// Adds a start, and returns the changes for the commit that stores the started pane, run or worker.
    pub fn remember(
        &mut self,
        key: IdempotencyKey,
        what: StartTarget,
        now: ClockReading,
    ) -> Vec<Change> {
        let record = StartRecord {
            key,
            at: now.moment(),
            what,
        };
        let mut changes = vec![Change::put(record.clone())];
        self.insert(record);
        while let Some(oldest) = self.first_surplus(now) {
            self.forget(oldest);
            changes.push(Change::Remove(RecordId::Start(oldest)));
        }
        changes
    }

    /// The oldest start, if it is beyond the limit or older than the time in which calls are repeated.
    fn first_surplus(&self, now: ClockReading) -> Option<IdempotencyKey> {
        let key = *self.by_order.first_key_value()?.1;
        let is_aged = now.is_aged(self.by_key.get(&key)?.record.at, REMEMBERED);
        (is_aged || self.by_order.len() > MAX_REMEMBERED).then_some(key)
    }

    /// Removes a start that has failed, so that the same call may try again. Returns the change to store.
    pub fn undo(&mut self, what: &StartTarget) -> Option<Change> {
        let mut all = self.by_key.values();
        let key = all.find(|start| start.record.what == *what)?.record.key;
        self.forget(key);
        Some(Change::Remove(RecordId::Start(key)))
    }

    /// Refuses a repeated call whose pane, run or worker is forgotten. Callers look for a known pane, run or worker first.
    pub fn refuse_repeated(&self, key: IdempotencyKey) -> Result<(), Error> {
        match self.by_key.get(&key) {
            None => Ok(()),
            Some(RememberedStart { record, .. }) => Err(Error::new(
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
        if let Some(start) = self.by_key.remove(&key) {
            self.by_order.remove(&start.order);
        }
    }
}

#[cfg(test)]
mod tests {
    use fugue_api::Timestamp;

    use super::*;
    use crate::BootId;

    fn key(number: u64) -> IdempotencyKey {
        let mut key = [0; 16];
        key[..8].copy_from_slice(&number.to_le_bytes());
        IdempotencyKey(key)
    }

    fn now(days: u64, wall_days: u64) -> ClockReading {
        ClockReading {
            wall: Timestamp(wall_days * 86_400_000),
            since_boot: Duration::from_secs(days * 86_400),
            boot_id: BootId(1),
        }
    }

    fn pane(number: u64) -> StartTarget {
        StartTarget::Pane(PaneId(number))
    }

    #[test]
    fn starts_are_remembered_for_seven_days_and_at_most_so_many() {
        let mut starts = StartHistory::default();
        starts.remember(key(1), pane(1), now(0, 0));
        assert!(starts.refuse_repeated(key(1)).is_err());
        assert!(starts.refuse_repeated(key(2)).is_ok());
        let changes = starts.remember(key(2), pane(2), now(7, 7));
        assert_eq!(
            changes.last(),
            Some(&Change::Remove(RecordId::Start(key(1))))
        );
        assert!(starts.refuse_repeated(key(1)).is_ok());
        let most = MAX_REMEMBERED as u64;
        for number in 3..=most + 2 {
            starts.remember(key(number), pane(number), now(7, 7));
        }
        assert_eq!(starts.by_key.len(), MAX_REMEMBERED);
        assert_eq!(starts.by_order.len(), MAX_REMEMBERED);
        starts.undo(&pane(most + 2));
        assert!(starts.refuse_repeated(key(most + 2)).is_ok());
    }

    #[test]
    fn a_start_is_remembered_however_the_wall_clock_is_set() {
        let mut starts = StartHistory::default();
        starts.remember(key(1), pane(1), now(0, 20_000));
        starts.remember(key(2), pane(2), now(1, 0));
        starts.remember(key(3), pane(3), now(2, 30_000));
        for number in 1..=3 {
            assert!(starts.refuse_repeated(key(number)).is_err(), "{number}");
        }
    }
}
