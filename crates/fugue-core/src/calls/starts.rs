//! The history of starts: the pane, run or worker that each idempotency key started. An entry outlives the pane, run or
//! worker.

use std::{
    cmp::Reverse,
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

/// Starts by the key of the call, at most [`MAX_REMEMBERED`] of the last seven days.
#[derive(Debug, Default)]
pub(crate) struct StartHistory {
    by_key: HashMap<IdempotencyKey, NumberedStart>,
    /// Oldest first. Numbered, because a wall clock that is set back would order a new start before old ones.
    in_order: BTreeMap<u64, IdempotencyKey>,
    last_number: u64,
}

#[derive(Debug)]
struct NumberedStart {
    number: u64,
    record: StartRecord,
}

impl StartHistory {
    pub fn restored(mut records: Vec<StartRecord>, now: ClockReading) -> Self {
        for record in &mut records {
            record.at = now.stamped(record.at);
        }
        // Among starts of earlier boots, only the wall clock tells an order.
        records.sort_by_key(|record| (Reverse(now.age(record.at)), record.at.wall));
        let mut starts = Self::default();
        for record in records {
            starts.add(record);
        }
        starts
    }

    /// Adds a start, and returns the changes for the commit that stores the started pane, run or worker.
    pub fn remember(
        &mut self,
        key: IdempotencyKey,
        what: StartTarget,
        now: ClockReading,
    ) -> Vec<Change> {
        let at = now.moment();
        let record = StartRecord { key, at, what };
        let mut changes = vec![Change::put(record.clone())];
        self.forget(key);
        self.add(record);
        while let Some(oldest) = self.oldest()
            && (self.by_key.len() > MAX_REMEMBERED || now.is_aged(oldest.at, REMEMBERED))
        {
            let oldest = oldest.key;
            self.forget(oldest);
            changes.push(Change::Remove(RecordId::Start(oldest)));
        }
        changes
    }

    fn add(&mut self, record: StartRecord) {
        self.last_number += 1;
        let number = self.last_number;
        self.in_order.insert(number, record.key);
        self.by_key
            .insert(record.key, NumberedStart { number, record });
    }

    fn oldest(&self) -> Option<&StartRecord> {
        let (_, key) = self.in_order.first_key_value()?;
        Some(&self.by_key.get(key)?.record)
    }

    /// Removes a start that has failed, so that the same call may try again. Returns the change to store.
    pub fn undo(&mut self, what: &StartTarget) -> Option<Change> {
        let mut all = self.by_key.values().map(|start| &start.record);
        let key = all.find(|record| record.what == *what)?.key;
        self.forget(key);
        Some(Change::Remove(RecordId::Start(key)))
    }

    /// Refuses a repeated call whose pane, run or worker is forgotten. Callers look for a known pane, run or worker first.
    pub fn refuse_repeated(&self, key: IdempotencyKey) -> Result<(), Error> {
        match self.by_key.get(&key) {
            None => Ok(()),
            Some(NumberedStart { record, .. }) => Err(Error::new(
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
            self.in_order.remove(&start.number);
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

    const DAY: u64 = 24 * 60 * 60 * 1000;

    fn pane(number: u64) -> StartTarget {
        StartTarget::Pane(PaneId(number))
    }

    fn now(wall: u64, since_boot: u64, boot: u64) -> ClockReading {
        ClockReading {
            wall: Timestamp(wall),
            since_boot: Duration::from_millis(since_boot),
            boot_id: BootId(boot),
        }
    }

    /// What the store holds after the changes of a `remember`.
    fn stored(starts: &StartHistory) -> Vec<StartRecord> {
        let records = starts.by_key.values().map(|start| start.record.clone());
        records.collect()
    }

    #[test]
    fn starts_are_remembered_for_seven_days_and_at_most_so_many() {
        let mut starts = StartHistory::default();
        starts.remember(key(1), pane(1), now(0, 0, 1));
        assert!(starts.refuse_repeated(key(1)).is_err());
        assert!(starts.refuse_repeated(key(2)).is_ok());
        let changes = starts.remember(key(2), pane(2), now(0, 7 * DAY, 1));
        assert_eq!(
            changes.last(),
            Some(&Change::Remove(RecordId::Start(key(1))))
        );
        assert!(starts.refuse_repeated(key(1)).is_ok());
        let most = MAX_REMEMBERED as u64;
        for number in 3..=most + 2 {
            starts.remember(key(number), pane(number), now(0, 7 * DAY, 1));
        }
        assert_eq!(starts.by_key.len(), MAX_REMEMBERED);
        assert_eq!(starts.in_order.len(), MAX_REMEMBERED);
        starts.undo(&pane(most + 2));
        assert!(starts.refuse_repeated(key(most + 2)).is_ok());
    }

    #[test]
    fn a_wall_clock_that_is_set_makes_no_start_forgotten() {
        for jumped in [0, 400 * DAY] {
            let mut starts = StartHistory::default();
            starts.remember(key(1), pane(1), now(200 * DAY, 1_000, 1));
            starts.remember(key(2), pane(2), now(jumped, 2_000, 1));
            assert!(starts.refuse_repeated(key(1)).is_err(), "{jumped}");
            // Also by the next daemon, and beyond the limit the oldest goes, whatever its wall clock was.
            let mut starts = StartHistory::restored(stored(&starts), now(jumped, 3_000, 1));
            assert!(starts.refuse_repeated(key(1)).is_err(), "{jumped}");
            let most = MAX_REMEMBERED as u64;
            for number in 3..=most + 1 {
                starts.remember(key(number), pane(number), now(jumped, 4_000, 1));
            }
            assert!(starts.refuse_repeated(key(1)).is_ok(), "{jumped}");
            assert!(starts.refuse_repeated(key(2)).is_err(), "{jumped}");
        }
    }

    #[test]
    fn starts_of_an_earlier_boot_are_remembered_for_seven_days_of_this_one_and_are_older() {
        let mut starts = StartHistory::default();
        starts.remember(key(1), pane(1), now(DAY, 90 * DAY, 1));
        let mut starts = StartHistory::restored(stored(&starts), now(DAY, 1_000, 2));
        starts.remember(key(2), pane(2), now(0, 7 * DAY - 1, 2));
        assert!(starts.refuse_repeated(key(1)).is_err());
        let mut starts = StartHistory::restored(stored(&starts), now(0, 7 * DAY, 2));
        starts.remember(key(3), pane(3), now(0, 7 * DAY, 2));
        assert!(starts.refuse_repeated(key(1)).is_ok());
        assert!(starts.refuse_repeated(key(2)).is_err());
    }
}
