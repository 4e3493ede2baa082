use std::fs;

use fugue_api::PaneId;
use fugue_api::wire::IdempotencyKey;
use fugue_core::{MemoryStore, ParallelWork, RunRecord, RunWork};
use proptest::prelude::*;

use super::*;
use crate::store::{
    self, backup,
    test_records::{self, SECRET, any_change, pane},
};

fn put(number: u64) -> Change {
    Change::put(pane(number, "true"))
}

fn ids(opened: &StoreContents) -> Vec<u64> {
    opened.snapshot.panes.iter().map(|pane| pane.id.0).collect()
}

/// A database with panes 1 to `count`.
fn filled(path: &Path, count: u64) -> Sqlite {
    let mut store = Sqlite::at(path).unwrap();
    store.open().unwrap();
    let changes: Vec<Change> = (1..=count)
        .map(put)
        .chain([Change::SetCounter(Counter::NextPane, count + 1)])
        .collect();
    store.commit(&changes.iter().collect::<Vec<_>>()).unwrap();
    store
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// Each part of a history is written by another daemon.
    #[test]
    fn after_any_commits_the_database_holds_what_a_store_in_memory_holds(
        history in prop::collection::vec(
            prop::collection::vec(prop::collection::vec(any_change(), 1..6), 0..12),
            1..5,
        ),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("fugue.db");
        let mut memory = MemoryStore::default();
        for daemon in &history {
            let mut database = Sqlite::at(&path).unwrap();
            prop_assert_eq!(database.open().unwrap().snapshot, memory.open());
            for changes in daemon {
                database.commit(&changes.iter().collect::<Vec<_>>()).unwrap();
                memory.commit(changes);
            }
        }
        let opened = Sqlite::at(&path).unwrap().open().unwrap();
        prop_assert_eq!(opened.snapshot, memory.open());
        prop_assert_eq!(opened.quarantine_count, 0);
        prop_assert!(!holds_secret(&path));
    }
}

#[test]
fn the_engine_is_new_enough_for_wal_that_loses_nothing() {
    assert!(
        rusqlite::version_number() >= 3_051_003,
        "{}",
        rusqlite::version()
    );
}

#[test]
fn a_file_of_a_newer_fugue_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("fugue.db");
    Sqlite::at(&path)
        .unwrap()
        .connection
        .pragma_update(None, "user_version", 99)
        .unwrap();
    assert!(matches!(Sqlite::at(&path), Err(StoreError::Newer(99))));
    assert!(matches!(
        store::open(&path, IntegrityCheck::Quick),
        Err(StoreError::Newer(99))
    ));
}

#[test]
fn a_database_that_cannot_be_examined_is_not_replaced_by_its_backup() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("fugue.db");
    drop(filled(&path, 1));
    fs::rename(&path, backup::path_of(&path)).unwrap();
    // Its metadata cannot be read, which is another error than a missing file.
    std::os::unix::fs::symlink(&path, &path).unwrap();
    let opened = store::open(&path, IntegrityCheck::Quick);
    assert!(matches!(opened, Err(StoreError::File(..))));
    assert!(path.is_symlink());
}

#[test]
fn a_row_that_cannot_be_read_is_set_aside_and_the_others_are_there() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("fugue.db");
    let store = filled(&path, 3);
    let damage = |sql: &str| store.connection.execute(sql, []).unwrap();
    damage("UPDATE panes SET record = '{\"id\":2' WHERE id = 2");
    // Not even text.
    damage("INSERT INTO events (id, record) VALUES (7, CAST(x'ff00fe' AS TEXT))");
    drop(store);

    let (_, opened) = store::open(&path, IntegrityCheck::Quick).unwrap();
    assert_eq!(ids(&opened), [1, 3]);
    let set_aside: Vec<_> = opened
        .quarantined
        .iter()
        .map(|row| (row.kind.as_str(), row.id.as_str(), row.raw.as_slice()))
        .collect();
    assert_eq!(
        set_aside,
        [
            ("panes", "2", br#"{"id":2"#.as_slice()),
            ("events", "7", &[0xff, 0, 0xfe]),
        ]
    );
    assert_eq!(opened.origin, StoreOrigin::Sound);

    // The next start says that they are there, and does not meet them again.
    let (_, opened) = store::open(&path, IntegrityCheck::Quick).unwrap();
    assert_eq!(opened.quarantined, []);
    assert_eq!(opened.quarantine_count, 2);
}

#[test]
fn a_damaged_database_is_kept_aside_and_the_backup_takes_its_place() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("fugue.db");
    let mut store = filled(&path, 3);
    store.maintain();
    store
        .commit(&[&put(4), &Change::SetCounter(Counter::NextPane, 5)])
        .unwrap();
    drop(store);
    let epoch = Sqlite::at(&path).unwrap().counter("epoch").unwrap();

    let garbage = vec![0x5a; 64 << 10];
    fs::write(&path, &garbage).unwrap();
    let (store, opened) = store::open(&path, IntegrityCheck::Quick).unwrap();
    assert_eq!(ids(&opened), [1, 2, 3], "as it was when it was copied");
    let kept = dir.path().join("fugue.db.damaged-1");
    assert!(
        matches!(&opened.origin, StoreOrigin::Backup { kept_aside: Some(aside), .. } if *aside == kept),
        "{:?}",
        opened.origin
    );
    assert_eq!(fs::read(&kept).unwrap(), garbage);
    assert!(opened.snapshot.next_pane > 5, "ids are not given out twice");
    assert!(opened.snapshot.epoch > epoch, "holders obey the highest");
    drop(store);

    // A missing one is replaced as well.
    fs::remove_file(&path).unwrap();
    let (_, opened) = store::open(&path, IntegrityCheck::Quick).unwrap();
    assert_eq!(ids(&opened), [1, 2, 3]);
}

#[test]
fn without_a_usable_backup_a_damaged_database_is_replaced_by_an_empty_one() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("fugue.db");
    for round in 1..=2 {
        drop(filled(&path, 3));
        // Its pages are damaged, not its header.
        let mut bytes = fs::read(&path).unwrap();
        let from = bytes.len() / 2;
        bytes[from..].fill(0x5a);
        fs::write(&path, bytes).unwrap();
        if round == 2 {
            fs::write(backup::path_of(&path), "no database").unwrap();
        }
        let (_, opened) = store::open(&path, IntegrityCheck::Quick).unwrap();
        assert_eq!(ids(&opened), [0; 0]);
        assert!(
            matches!(
                opened.origin,
                StoreOrigin::Empty {
                    kept_aside: Some(_),
                    ..
                }
            ),
            "{:?}",
            opened.origin
        );
        assert!(
            dir.path()
                .join(format!("fugue.db.damaged-{round}"))
                .exists()
        );
    }
}

#[test]
fn a_backup_is_made_once_a_day_and_holds_no_environment() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("fugue.db");
    let mut store = filled(&path, 1);
    store.commit(&start_run().each_ref()).unwrap();
    let copy = backup::path_of(&path);
    store.maintain();
    let made = fs::read(&copy).unwrap();
    assert!(!holds_secret(&copy));
    store.commit(&[&put(2)]).unwrap();
    store.maintain();
    assert_eq!(fs::read(&copy).unwrap(), made, "not again on the same day");
    drop(store);
    let yesterday = SystemTime::now() - std::time::Duration::from_secs(25 * 60 * 60);
    fs::File::options()
        .write(true)
        .open(&copy)
        .unwrap()
        .set_modified(yesterday)
        .unwrap();
    let mut store = Sqlite::at(&path).unwrap();
    store.commit(&[&put(3)]).unwrap();
    store.maintain();
    drop(store);
    let panes = Sqlite::at(&copy).unwrap().open().unwrap().snapshot.panes;
    assert_eq!(panes.last().map(|pane| pane.id), Some(PaneId(3)));
}

#[test]
fn a_database_that_was_removed_or_replaced_confirms_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("fugue.db");
    let mut store = filled(&path, 1);
    let away = dir.path().join("away");
    fs::rename(&path, &away).unwrap();
    for _ in 0..2 {
        let failed = store.commit(&[&put(2)]).unwrap_err();
        assert!(matches!(failed, StoreError::Gone(_)), "{failed}");
        assert_eq!(failed.failure(), store::Failure::Passing);
        fs::write(&path, "another file").unwrap();
    }
    fs::rename(&away, &path).unwrap();
    store.commit(&[&put(2)]).unwrap();
}

#[test]
fn a_full_or_read_only_database_may_be_written_again_later() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("fugue.db");
    let mut store = filled(&path, 1);
    let pages: i64 = store
        .connection
        .pragma_query_value(None, "page_count", |row| row.get(0))
        .unwrap();
    let limit = |store: &Sqlite, pages: i64| {
        store
            .connection
            .pragma_update(None, "max_page_count", pages)
            .unwrap();
    };
    limit(&store, pages);
    let many: Vec<Change> = (2..=200).map(put).collect();
    let many: Vec<&Change> = many.iter().collect();
    let failed = store.commit(&many).unwrap_err();
    assert_eq!(failed.failure(), store::Failure::Passing);
    assert!(failed.to_string().contains("no space left"), "{failed}");
    limit(&store, 1 << 20);
    store.commit(&many).unwrap();
    store
        .connection
        .pragma_update(None, "query_only", "ON")
        .unwrap();
    let failed = store.commit(&[&put(201)]).unwrap_err();
    assert_eq!(failed.failure(), store::Failure::Passing, "{failed}");
}

#[test]
fn a_page_that_cannot_be_read_is_not_taken_for_a_damaged_one() {
    let tree = "*** in database main ***\nTree 2 page 7: unable to get the page. error code=";
    for (found, code) in [
        (format!("{tree}266"), Some(266)),
        (format!("{tree}8458\nTree 3 page 9: never used"), Some(8458)),
        (format!("{tree}7"), Some(7)),
        (format!("{tree}11"), None),
        ("Tree 2 page 7 cell 1: Rowid 5 out of order".into(), None),
        (format!("{tree}x"), None),
    ] {
        assert_eq!(read_failure(&found), code, "{found}");
    }
}

fn holds_secret(file: &Path) -> bool {
    let bytes = fs::read(file).unwrap_or_default();
    bytes
        .windows(SECRET.len())
        .any(|part| part == SECRET.as_bytes())
}

fn caller() -> CallerEnv {
    test_records::caller("TOKEN")
}

/// A run of one command with a variable of its own.
fn run() -> RunRecord {
    let args = serde_json::json!({"commands": [{"command": "true", "env": {"KEY": SECRET}}]});
    RunRecord {
        id: fugue_api::RunId("../r".into()),
        number: 1,
        made_by: IdempotencyKey([1; 16]),
        owner: None,
        started_at: fugue_api::Timestamp(1_700_000_000_000).into(),
        work: RunWork::Parallel(Box::new(ParallelWork {
            args: serde_json::from_value(args).unwrap(),
            tasks: Vec::new(),
        })),
        settled_at: None,
        over: false,
        fetched: false,
        announced: false,
        lost_by_reboot: false,
        cancelled: false,
    }
}

fn start_run() -> [Change; 2] {
    [
        Change::put_environment(run().owner(), caller().into()),
        Change::put(run()),
    ]
}

/// The names of the files that hold the secret, beside the database and with the environments.
fn holding(dir: &Path) -> Vec<String> {
    let files = [dir.to_owned(), dir.join("environments")];
    let files = files
        .iter()
        .flat_map(|dir| fs::read_dir(dir).into_iter().flatten().flatten());
    files
        .filter(|file| holds_secret(&file.path()))
        .map(|file| file.file_name().to_string_lossy().into_owned())
        .collect()
}

#[test]
fn an_environment_is_in_a_file_of_its_own_until_the_run_is_over() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("fugue.db");
    let mut store = filled(&path, 1);
    store.commit(&start_run().each_ref()).unwrap();
    let kept = holding(dir.path());
    assert_eq!(kept.len(), 1, "{kept:?}");
    assert!(kept[0].starts_with("run-"), "{kept:?}");
    drop(store);
    // Of a daemon that was killed before its commit.
    fs::write(dir.path().join("environments/run-other"), SECRET).unwrap();

    let mut store = Sqlite::at(&path).unwrap();
    let runs = store.open().unwrap().snapshot.runs;
    let stored = StoredRun {
        record: run(),
        caller: Some(caller()),
    };
    assert_eq!(runs, [stored]);
    assert_eq!(holding(dir.path()), kept, "what nothing needs is removed");
    let over = RunRecord {
        over: true,
        ..run()
    };
    let no_environment = Change::remove_environment(over.owner());
    let changes = [&Change::put(over.clone()), &no_environment];
    store.commit(&changes).unwrap();
    assert_eq!(holding(dir.path()), [] as [&str; 0]);
    // Its record is put once more when its result was fetched.
    store.commit(&[&Change::put(over)]).unwrap();
    assert_eq!(holding(dir.path()), [] as [&str; 0]);
    assert_eq!(store.open().unwrap().snapshot.runs[0].caller, None);
}

#[test]
fn what_is_not_stored_leaves_no_environment() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("fugue.db");
    let mut store = filled(&path, 1);
    store.connection.execute_batch("DROP TABLE runs").unwrap();
    assert!(store.commit(&start_run().each_ref()).is_err());
    assert_eq!(holding(dir.path()), [] as [&str; 0]);
}

#[test]
fn environments_of_earlier_formats_leave_the_database_and_its_copy() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("fugue.db");
    let old = Connection::open(&path).unwrap();
    old.pragma_update(None, "journal_mode", "WAL").unwrap();
    old.execute_batch(
        "CREATE TABLE panes (id INTEGER PRIMARY KEY, record TEXT NOT NULL) STRICT;
         CREATE TABLE counters (name TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT, WITHOUT ROWID;
         CREATE TABLE runs (id TEXT PRIMARY KEY, record TEXT NOT NULL, caller TEXT) STRICT;
         CREATE TABLE events (id INTEGER PRIMARY KEY, record TEXT NOT NULL) STRICT;
         CREATE TABLE workers (id INTEGER PRIMARY KEY, record TEXT NOT NULL, caller TEXT) STRICT;
         CREATE TABLE questions (id INTEGER PRIMARY KEY, record TEXT NOT NULL) STRICT;
         CREATE TABLE watchers (id INTEGER PRIMARY KEY, record TEXT NOT NULL, caller TEXT) STRICT;
         CREATE TABLE arrangements (id TEXT PRIMARY KEY, record TEXT NOT NULL) STRICT;
         CREATE TABLE starts (id TEXT PRIMARY KEY, record TEXT NOT NULL) STRICT;
         CREATE TABLE quarantine
             (kind TEXT NOT NULL, id TEXT NOT NULL, raw BLOB, error TEXT NOT NULL, at INTEGER NOT NULL) STRICT;
         PRAGMA user_version = 6;",
    )
    .unwrap();
    let text = |record: &RunRecord| serde_json::to_string(record).unwrap();
    let over = RunRecord {
        id: fugue_api::RunId("over".into()),
        over: true,
        ..run()
    };
    let insert = "INSERT INTO runs (id, record, caller) VALUES (?1, ?2, ?3)";
    let with = serde_json::to_string(&caller()).unwrap();
    old.execute(insert, params![run().id.0, text(&run()), with])
        .unwrap();
    old.execute(insert, params!["over", text(&over), None::<String>])
        .unwrap();
    drop(old);
    fs::copy(&path, backup::path_of(&path)).unwrap();
    assert_eq!(holding(dir.path()).len(), 2);

    let mut store = Sqlite::at(&path).unwrap();
    let runs = store.open().unwrap().snapshot.runs;
    let callers: Vec<_> = runs.iter().map(|run| run.caller.clone()).collect();
    assert_eq!(callers, [Some(caller()), None]);
    assert_eq!(runs[0].record, run());
    let kept = holding(dir.path());
    assert_eq!(kept.len(), 1, "{kept:?}");
    assert!(kept[0].starts_with("run-"), "{kept:?}");
}
