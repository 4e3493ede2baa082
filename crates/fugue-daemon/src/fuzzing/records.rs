use std::{fmt::Debug, time::Duration};

use fugue_api::{
    OsText, Timestamp,
    wire::{CallerEnv, SettingNames},
};
use fugue_core::{
    BootId, ClockReading, Core, CoreInput, EventRecord, LayoutRecord, PaneRecord, QuestionRecord,
    RunRecord, StartRecord, StoreSnapshot, StoredEnvironment, StoredRun, StoredWatcher,
    StoredWorker, WatcherRecord, WorkerRecord, settings::Settings,
};
use serde::{Serialize, de::DeserializeOwned};

/// Any bytes as rows of the database: each is refused or is equal after a round trip, and a daemon starts with the accepted
/// rows.
///
/// Each line is a record: a letter for its table, then its JSON.
pub fn records(bytes: &[u8]) {
    let mut found = StoreSnapshot::default();
    for line in bytes.split(|byte| *byte == b'\n') {
        let Some((table, record)) = line.split_first() else {
            continue;
        };
        match table {
            b'p' => found.panes.extend(survivor::<PaneRecord>(record)),
            b'r' => found
                .runs
                .extend(survivor::<RunRecord>(record).map(|record| StoredRun {
                    record,
                    caller: Some(caller()),
                })),
            b'e' => found.events.extend(survivor::<EventRecord>(record)),
            b'w' => found
                .workers
                .extend(survivor::<WorkerRecord>(record).map(|record| StoredWorker {
                    record,
                    caller: Some(caller()),
                })),
            b'q' => found.questions.extend(survivor::<QuestionRecord>(record)),
            b'v' => found
                .watchers
                .extend(
                    survivor::<WatcherRecord>(record).map(|record| StoredWatcher {
                        record,
                        caller: caller(),
                    }),
                ),
            b'a' => found.layouts.extend(survivor::<LayoutRecord>(record)),
            b's' => found.starts.extend(survivor::<StartRecord>(record)),
            b'n' => drop(survivor::<StoredEnvironment>(record)),
            _ => {}
        }
    }
    let (mut core, _) = Core::restore(Settings::default(), found, now(60));
    core.step(CoreInput::TimerExpired, now(60));
    core.step(CoreInput::TimerExpired, now(90_000));
}

/// The record, if it is one.
fn survivor<T: DeserializeOwned + Serialize + PartialEq + Debug>(json: &[u8]) -> Option<T> {
    let record: T = serde_json::from_slice(json).ok()?;
    let written = serde_json::to_vec(&record).expect("a record is JSON");
    let again: T = serde_json::from_slice(&written).expect("what was written can be read");
    // Numbers with a fraction may be rounded once more, so texts are compared and not records.
    let rewritten = serde_json::to_vec(&again).expect("a record is JSON");
    assert!(
        again == record || rewritten == written,
        "{record:?} became {again:?}"
    );
    Some(record)
}

fn now(since_boot: u64) -> ClockReading {
    ClockReading {
        wall: Timestamp(1_794_000_000_000 + since_boot * 1000),
        since_boot: Duration::from_secs(since_boot),
        boot_id: BootId(1),
    }
}

fn caller() -> CallerEnv {
    CallerEnv {
        cwd: OsText::Text("/work".into()),
        env: Vec::new(),
        umask: 0o22,
        setting_names: SettingNames::Prefixed,
    }
}
