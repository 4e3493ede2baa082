use std::{
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

use fugue_api::wire::{CallerEnv, IdempotencyKey};
use fugue_core::{
    Change, RunRecord, StoreSnapshot, StoredRun, StoredWatcher, StoredWorker, WatcherRecord,
    WorkerRecord,
};
use rusqlite::{Connection, OptionalExtension, params};
use serde::{Serialize, de::DeserializeOwned};

use super::{
    IntegrityCheck, QuarantinedRow, Store, StoreContents, StoreError, StoreOrigin,
    backup::{self, Backup},
    environments::{EnvironmentFields, EnvironmentFiles, scrubbed},
};

/// The store as one SQLite file next to the panes' logs.
pub struct Sqlite {
    connection: Connection,
    path: PathBuf,
    /// Device and inode of the file that was opened.
    file: (u64, u64),
    backup: Backup,
    environments: EnvironmentFiles,
}

// Raised with every change of the tables; an older file is brought up step by step.
const FORMAT: u32 = 7;
// A larger database is not checked at the start, which would take noticeably long.
const MAX_CHECKED_BYTES: u64 = 64 << 20;

impl Sqlite {
    pub fn at(path: &Path) -> Result<Self, StoreError> {
        let mut connection = Connection::open(path)?;
        // One daemon has the store. Locked once and for all, SQLite needs no locks and no shared memory for a commit, and
        // nothing of these can fail.
        connection.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        // An event that was announced must survive the machine's end, not only the daemon's.
        connection.pragma_update(None, "synchronous", "FULL")?;
        // Databases of earlier formats hold environments, which may hold secrets; what is deleted is overwritten.
        connection.pragma_update(None, "secure_delete", "ON")?;
        let format: u32 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
        if format > FORMAT {
            return Err(StoreError::Newer(format));
        }
        if format == 0 {
            connection.execute_batch(
                "BEGIN;
                 CREATE TABLE panes (id INTEGER PRIMARY KEY, record TEXT NOT NULL) STRICT;
                 CREATE TABLE counters (name TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT, WITHOUT ROWID;
                 PRAGMA user_version = 1;
                 COMMIT;",
            )?;
        }
        if format < 2 {
            // Until format 7, the caller's environment was a column of its own.
            connection.execute_batch(
                "BEGIN;
                 UPDATE panes SET record = json_set(record, '$.generation', 1);
                 CREATE TABLE runs (id TEXT PRIMARY KEY, record TEXT NOT NULL, caller TEXT) STRICT;
                 PRAGMA user_version = 2;
                 COMMIT;",
            )?;
        }
        if format < 3 {
            connection.execute_batch(
                "BEGIN;
                 CREATE TABLE events (id INTEGER PRIMARY KEY, record TEXT NOT NULL) STRICT;
                 CREATE TABLE workers (id INTEGER PRIMARY KEY, record TEXT NOT NULL, caller TEXT) STRICT;
                 CREATE TABLE questions (id INTEGER PRIMARY KEY, record TEXT NOT NULL) STRICT;
                 PRAGMA user_version = 3;
                 COMMIT;",
            )?;
        }
        if format < 4 {
            connection.execute_batch(
                "BEGIN;
                 CREATE TABLE watchers (id INTEGER PRIMARY KEY, record TEXT NOT NULL, caller TEXT) STRICT;
                 PRAGMA user_version = 4;
                 COMMIT;",
            )?;
        }
        if format < 5 {
            connection.execute_batch(
                "BEGIN;
                 CREATE TABLE arrangements (id TEXT PRIMARY KEY, record TEXT NOT NULL) STRICT;
                 PRAGMA user_version = 5;
                 COMMIT;",
            )?;
        }
        if format < 6 {
            connection.execute_batch(
                "BEGIN;
                 CREATE TABLE starts (id TEXT PRIMARY KEY, record TEXT NOT NULL) STRICT;
                 CREATE TABLE quarantine
                     (kind TEXT NOT NULL, id TEXT NOT NULL, raw BLOB, error TEXT NOT NULL, at INTEGER NOT NULL) STRICT;
                 PRAGMA user_version = 6;
                 COMMIT;",
            )?;
        }
        let mut environments = EnvironmentFiles::of(path);
        if format < 7 {
            drop_environments(&mut connection, &mut environments)?;
            // The existing backup contains environments.
            match std::fs::remove_file(backup::path_of(path)) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(StoreError::File(backup::path_of(path), error));
                }
                Ok(()) | Err(_) => {}
            }
        }
        let found =
            std::fs::metadata(path).map_err(|error| StoreError::File(path.to_owned(), error))?;
        Ok(Self {
            connection,
            path: path.to_owned(),
            file: (found.dev(), found.ino()),
            backup: Backup::of(path),
            environments,
        })
    }

    /// Whether the file is sound.
    pub fn check(&self, check: IntegrityCheck) -> Result<(), StoreError> {
        let size = std::fs::metadata(&self.path).map_or(0, |found| found.len());
        let pragma = match check {
            IntegrityCheck::Whole => "PRAGMA integrity_check(1)",
            IntegrityCheck::Quick if size <= MAX_CHECKED_BYTES => "PRAGMA quick_check(1)",
            IntegrityCheck::Quick => {
                tracing::info!(size, "database not checked: it is large");
                return Ok(());
            }
        };
        let found: String = self.connection.query_row(pragma, [], |row| row.get(0))?;
        match found.as_str() {
            "ok" => Ok(()),
            _ => Err(match read_failure(&found) {
                Some(code) => StoreError::Database(rusqlite::Error::SqliteFailure(
                    rusqlite::ffi::Error::new(code),
                    Some(found),
                )),
                None => StoreError::Damaged(found),
            }),
        }
    }

    /// Raises every counter, so that an id that was given out after a backup was made is not given out again.
    pub fn advance_counters(&self, by: u64) -> Result<(), StoreError> {
        self.connection
            .execute("UPDATE counters SET value = value + ?1", [by.cast_signed()])?;
        Ok(())
    }

    /// A daemon of an earlier database may have had a higher number, and holders obey the highest.
    pub fn raise_epoch(&self, to: u64) -> Result<(), StoreError> {
        if self.counter("epoch")? < to {
            set_counter(&self.connection, "epoch", to)?;
        }
        Ok(())
    }

    /// Refuses to write into a database file that was removed or replaced, because such writes would be lost.
    fn is_in_place(&self) -> Result<(), StoreError> {
        match std::fs::metadata(&self.path) {
            Ok(found) if (found.dev(), found.ino()) == self.file => Ok(()),
            Ok(_) => Err(StoreError::Gone(self.path.clone())),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                Err(StoreError::Gone(self.path.clone()))
            }
            Err(error) => Err(StoreError::File(self.path.clone(), error)),
        }
    }

    /// All records of a table, in the order of their ids. Unreadable rows are added to `unreadable`.
    fn records<T: DeserializeOwned>(
        &self,
        table: &str,
        unreadable: &mut Vec<QuarantinedRow>,
    ) -> Result<Vec<T>, StoreError> {
        let mut statement = self.connection.prepare(&format!(
            "SELECT CAST(id AS TEXT), CAST(record AS BLOB) FROM {table} ORDER BY id"
        ))?;
        let mut rows = statement.query([])?;
        let mut readable = Vec::new();
        while let Some(row) = rows.next()? {
            let id: String = row.get(0)?;
            let record: Vec<u8> = row.get(1)?;
            match serde_json::from_slice(&record) {
                Ok(record) => readable.push(record),
                Err(error) => unreadable.push(QuarantinedRow {
                    kind: table.to_owned(),
                    id,
                    error: error.to_string(),
                    raw: record,
                }),
            }
        }
        Ok(readable)
    }

    /// Records with the world of their caller, where that is still needed.
    fn records_and_callers<T: DeserializeOwned + EnvironmentFields>(
        &mut self,
        table: &str,
        unreadable: &mut Vec<QuarantinedRow>,
    ) -> Result<Vec<(T, Option<CallerEnv>)>, StoreError> {
        let records = self.records(table, unreadable)?.into_iter();
        let together = records.map(|mut record: T| {
            let caller = self.environments.restore(&mut record);
            (record, caller)
        });
        Ok(together.collect())
    }

    /// Moves unreadable rows into the quarantine, where they are kept for inspection and do not disturb later starts.
    fn quarantine(&mut self, rows: &[QuarantinedRow]) -> Result<(), StoreError> {
        if rows.is_empty() {
            return Ok(());
        }
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let at = i64::try_from(now.as_millis()).unwrap_or(i64::MAX);
        let transaction = self.connection.transaction()?;
        for row in rows {
            transaction.execute(
                "INSERT INTO quarantine (kind, id, raw, error, at) VALUES (?1, ?2, ?3, ?4, ?5)",
                params![row.kind, row.id, row.raw, row.error, at],
            )?;
            transaction.execute(
                &format!("DELETE FROM {} WHERE CAST(id AS TEXT) = ?1", row.kind),
                [&row.id],
            )?;
        }
        Ok(transaction.commit()?)
    }

    fn counter(&self, name: &str) -> Result<u64, StoreError> {
        let value: Option<i64> = self
            .connection
            .query_row(
                "SELECT value FROM counters WHERE name = ?1",
                [name],
                |row| row.get(0),
            )
            .optional()?;
        Ok(value.unwrap_or(0).cast_unsigned())
    }
}

/// The code of a failed read, if that is all that a check found: a page that cannot be read now is no damaged page.
fn read_failure(found: &str) -> Option<i32> {
    let (_, code) = found.split_once("unable to get the page. error code=")?;
    let digits = code.split(|c: char| !c.is_ascii_digit()).next()?;
    let code: i32 = digits.parse().ok()?;
    // The lower byte is the primary result code, the other bytes extend it.
    matches!(
        code & 0xff,
        rusqlite::ffi::SQLITE_IOERR | rusqlite::ffi::SQLITE_NOMEM
    )
    .then_some(code)
}

impl Store for Sqlite {
    fn open(&mut self) -> Result<StoreContents, StoreError> {
        let epoch = self.counter("epoch")? + 1;
        set_counter(&self.connection, "epoch", epoch)?;
        let bad = &mut Vec::new();
        let runs = self.records_and_callers("runs", bad)?.into_iter();
        let workers = self.records_and_callers("workers", bad)?.into_iter();
        let watchers = self.records_and_callers("watchers", bad)?.into_iter();
        let snapshot = StoreSnapshot {
            panes: self.records("panes", bad)?,
            next_pane: self.counter("next_pane")?,
            runs: runs
                .map(|(record, caller)| StoredRun { record, caller })
                .collect(),
            next_run: self.counter("next_run")?,
            events: self.records("events", bad)?,
            next_event: self.counter("next_event")?,
            workers: workers
                .map(|(record, caller)| StoredWorker { record, caller })
                .collect(),
            next_worker: self.counter("next_worker")?,
            questions: self.records("questions", bad)?,
            next_question: self.counter("next_question")?,
            watchers: watchers
                .filter_map(|(record, caller)| {
                    caller.map(|caller| StoredWatcher { record, caller })
                })
                .collect(),
            next_watcher: self.counter("next_watcher")?,
            arrangements: self.records("arrangements", bad)?,
            starts: self.records("starts", bad)?,
            epoch,
        };
        self.environments.remove_others();
        let quarantined = std::mem::take(bad);
        self.quarantine(&quarantined)?;
        let quarantine_count: i64 =
            self.connection
                .query_row("SELECT count(*) FROM quarantine", [], |row| row.get(0))?;
        Ok(StoreContents {
            snapshot,
            quarantined,
            quarantine_count: quarantine_count.cast_unsigned(),
            origin: StoreOrigin::Sound,
        })
    }

    fn commit(&mut self, changes: &[&Change]) -> Result<(), StoreError> {
        let plan = self.environments.plan(changes);
        let stored = self
            .environments
            .write(&plan)
            .and_then(|()| self.commit_records(changes));
        match stored {
            Ok(()) => self.environments.apply(plan),
            Err(error) => {
                self.environments.undo(&plan);
                return Err(error);
            }
        }
        self.is_in_place()?;
        self.backup.note_change();
        Ok(())
    }

    fn maintain(&mut self) {
        self.backup.make_if_due(&self.connection);
    }
}

impl Sqlite {
    fn commit_records(&mut self, changes: &[&Change]) -> Result<(), StoreError> {
        let transaction = self.connection.transaction()?;
        for change in changes {
            match change {
                Change::Put(record) => put(&transaction, "panes", record.id.0, record)?,
                Change::Drop(pane) => delete(&transaction, "panes", pane.0)?,
                Change::NextPane(next) => set_counter(&transaction, "next_pane", *next)?,
                Change::StartRun { record, caller: _ } => {
                    transaction
                        .prepare_cached("INSERT OR REPLACE INTO runs (id, record) VALUES (?1, ?2)")?
                        .execute(params![record.id.0, scrubbed(&**record)?])?;
                }
                Change::PutRun(record) => {
                    transaction
                        .prepare_cached("UPDATE runs SET record = ?2 WHERE id = ?1")?
                        .execute(params![record.id.0, scrubbed(&**record)?])?;
                }
                Change::EndRun(record) => {
                    transaction
                        .prepare_cached("UPDATE runs SET record = ?2 WHERE id = ?1")?
                        .execute(params![record.id.0, scrubbed(&**record)?])?;
                }
                Change::DropRun(run) => {
                    transaction
                        .prepare_cached("DELETE FROM runs WHERE id = ?1")?
                        .execute([&run.0])?;
                }
                Change::NextRun(next) => set_counter(&transaction, "next_run", *next)?,
                Change::PutEvent(record) => put(&transaction, "events", record.id.0, record)?,
                Change::TakeEvent(event) => {
                    transaction
                        .prepare_cached(
                            "UPDATE events SET record = json_set(record, '$.taken', json('true')) WHERE id = ?1",
                        )?
                        .execute([event.0.cast_signed()])?;
                }
                Change::DropEvent(event) => delete(&transaction, "events", event.0)?,
                Change::NextEvent(next) => set_counter(&transaction, "next_event", *next)?,
                Change::StartWorker { record, caller: _ } => {
                    transaction
                        .prepare_cached(
                            "INSERT OR REPLACE INTO workers (id, record) VALUES (?1, ?2)",
                        )?
                        .execute(params![record.number.cast_signed(), scrubbed(&**record)?])?;
                }
                Change::PutWorker(record) => {
                    transaction
                        .prepare_cached("UPDATE workers SET record = ?2 WHERE id = ?1")?
                        .execute(params![record.number.cast_signed(), scrubbed(&**record)?])?;
                }
                Change::WorkerRuns(record) => {
                    transaction
                        .prepare_cached("UPDATE workers SET record = ?2 WHERE id = ?1")?
                        .execute(params![record.number.cast_signed(), scrubbed(&**record)?])?;
                }
                Change::DropWorker(number) => delete(&transaction, "workers", *number)?,
                Change::NextWorker(next) => set_counter(&transaction, "next_worker", *next)?,
                Change::PutQuestion(record) => {
                    put(&transaction, "questions", record.id.0, record)?;
                }
                Change::DropQuestion(question) => {
                    delete(&transaction, "questions", question.0)?;
                }
                Change::NextQuestion(next) => set_counter(&transaction, "next_question", *next)?,
                Change::StartWatcher { record, caller: _ } => {
                    transaction
                        .prepare_cached(
                            "INSERT OR REPLACE INTO watchers (id, record) VALUES (?1, ?2)",
                        )?
                        .execute(params![record.number.cast_signed(), scrubbed(&**record)?])?;
                }
                Change::PutWatcher(record) => {
                    transaction
                        .prepare_cached("UPDATE watchers SET record = ?2 WHERE id = ?1")?
                        .execute(params![
                            record.number.cast_signed(),
                            serde_json::to_string(record)?
                        ])?;
                }
                Change::DropWatcher(number) => delete(&transaction, "watchers", *number)?,
                Change::NextWatcher(next) => set_counter(&transaction, "next_watcher", *next)?,
                Change::PutStart(record) => {
                    transaction
                        .prepare_cached(
                            "INSERT OR REPLACE INTO starts (id, record) VALUES (?1, ?2)",
                        )?
                        .execute(params![
                            start_id(record.key),
                            serde_json::to_string(record)?
                        ])?;
                }
                Change::DropStart(key) => {
                    transaction
                        .prepare_cached("DELETE FROM starts WHERE id = ?1")?
                        .execute([start_id(*key)])?;
                }
                Change::PutArrangement(record) => {
                    transaction
                        .prepare_cached(
                            "INSERT OR REPLACE INTO arrangements (id, record) VALUES (?1, ?2)",
                        )?
                        .execute(params![record.session.0, serde_json::to_string(record)?])?;
                }
                Change::DropArrangement(session) => {
                    transaction
                        .prepare_cached("DELETE FROM arrangements WHERE id = ?1")?
                        .execute([&session.0])?;
                }
            }
        }
        Ok(transaction.commit()?)
    }
}

/// Truncates the write-ahead log, so that it holds no deleted data after the database is closed.
impl Drop for Sqlite {
    fn drop(&mut self) {
        if let Err(error) = truncate_log(&self.connection) {
            tracing::debug!(%error, "database log not truncated");
        }
    }
}

/// Moves environments from the database of an earlier format into files, and drops unneeded ones.
fn drop_environments(
    connection: &mut Connection,
    environments: &mut EnvironmentFiles,
) -> Result<(), StoreError> {
    let transaction = connection.transaction()?;
    move_environments::<RunRecord>(&transaction, "runs", environments)?;
    move_environments::<WorkerRecord>(&transaction, "workers", environments)?;
    move_environments::<WatcherRecord>(&transaction, "watchers", environments)?;
    transaction.pragma_update(None, "user_version", 7)?;
    transaction.commit()?;
    truncate_log(connection)
}

fn move_environments<T: DeserializeOwned + EnvironmentFields + Clone + Serialize>(
    transaction: &Connection,
    table: &str,
    environments: &mut EnvironmentFiles,
) -> Result<(), StoreError> {
    let select = format!("SELECT rowid, CAST(record AS BLOB), CAST(caller AS BLOB) FROM {table}");
    let update = format!("UPDATE {table} SET record = ?2, caller = NULL WHERE rowid = ?1");
    let rows: Vec<(i64, Vec<u8>, Option<Vec<u8>>)> = transaction
        .prepare(&select)?
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?
        .collect::<Result<_, _>>()?;
    for (id, record, caller) in rows {
        // Unreadable records are quarantined when all records are read.
        let Ok(record) = serde_json::from_slice::<T>(&record) else {
            continue;
        };
        let caller = caller.and_then(|caller| serde_json::from_slice(&caller).ok());
        if let Some(caller) = caller
            && record.needs_environment()
        {
            environments.keep(&record, caller)?;
        }
        transaction.execute(&update, params![id, scrubbed(&record)?])?;
    }
    transaction.execute_batch(&format!("ALTER TABLE {table} DROP COLUMN caller"))?;
    Ok(())
}

fn truncate_log(connection: &Connection) -> Result<(), StoreError> {
    Ok(connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?)
}

fn start_id(key: IdempotencyKey) -> String {
    format!("{:032x}", u128::from_be_bytes(key.0))
}

fn put(
    connection: &Connection,
    table: &str,
    id: u64,
    record: &impl Serialize,
) -> Result<(), StoreError> {
    connection
        .prepare_cached(&format!(
            "INSERT OR REPLACE INTO {table} (id, record) VALUES (?1, ?2)"
        ))?
        .execute(params![id.cast_signed(), serde_json::to_string(record)?])?;
    Ok(())
}

fn delete(connection: &Connection, table: &str, id: u64) -> Result<(), StoreError> {
    connection
        .prepare_cached(&format!("DELETE FROM {table} WHERE id = ?1"))?
        .execute([id.cast_signed()])?;
    Ok(())
}

fn set_counter(connection: &Connection, name: &str, value: u64) -> Result<(), StoreError> {
    connection
        .prepare_cached("INSERT OR REPLACE INTO counters (name, value) VALUES (?1, ?2)")?
        .execute(params![name, value.cast_signed()])?;
    Ok(())
}

#[cfg(test)]
mod tests;
