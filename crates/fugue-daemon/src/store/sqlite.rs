mod schema;

pub use schema::FORMAT;

use std::{
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

use fugue_api::wire::CallerEnv;
use fugue_core::{
    Change, Counter, EnvironmentFields, Record, RecordId, StoreSnapshot, StoredRun, StoredWatcher,
    StoredWorker,
};
use rusqlite::{Connection, OptionalExtension, params, types::Value};
use serde::de::DeserializeOwned;

use super::{
    IntegrityCheck, QuarantinedRow, Store, StoreContents, StoreError, StoreOrigin,
    backup::Backup,
    environments::{EnvironmentFiles, scrubbed},
    id_marks::IdMarks,
};

/// The store as one SQLite file next to the panes' logs.
pub struct Sqlite {
    connection: Connection,
    path: PathBuf,
    /// Device and inode of the file that was opened.
    file: (u64, u64),
    backup: Backup,
    environments: EnvironmentFiles,
    id_marks: IdMarks,
}

// A larger database is not checked at the start, which would take noticeably long.
const MAX_CHECKED_BYTES: u64 = 64 << 20;

impl Sqlite {
    pub fn at(path: &Path) -> Result<Self, StoreError> {
        let mut connection = Connection::open(path)?;
        configure(&connection)?;
        let environments = EnvironmentFiles::of(path);
        schema::upgrade(&mut connection, path, &environments)?;
        let found =
            std::fs::metadata(path).map_err(|error| StoreError::File(path.to_owned(), error))?;
        Ok(Self {
            connection,
            path: path.to_owned(),
            file: (found.dev(), found.ino()),
            backup: Backup::of(path),
            environments,
            id_marks: IdMarks::of(path)?,
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

    /// Raises the counters of a snapshot where the database was lost, so that no id is given out again.
    pub fn raise_counters(&self, snapshot: &mut StoreSnapshot, is_lost: bool) {
        self.id_marks.apply(snapshot, is_lost);
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

    /// Records with the launch environment of their caller, while it is still needed.
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
            next_pane: self.counter(counter_name(Counter::NextPane))?,
            runs: runs
                .map(|(record, caller)| StoredRun { record, caller })
                .collect(),
            next_run: self.counter(counter_name(Counter::NextRun))?,
            events: self.records("events", bad)?,
            next_event: self.counter(counter_name(Counter::NextEvent))?,
            workers: workers
                .map(|(record, caller)| StoredWorker { record, caller })
                .collect(),
            next_worker: self.counter(counter_name(Counter::NextWorker))?,
            questions: self.records("questions", bad)?,
            next_question: self.counter(counter_name(Counter::NextQuestion))?,
            watchers: watchers
                .filter_map(|(record, caller)| {
                    caller.map(|caller| StoredWatcher { record, caller })
                })
                .collect(),
            next_watcher: self.counter(counter_name(Counter::NextWatcher))?,
            layouts: self.records("arrangements", bad)?,
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
        self.id_marks.raise(changes)?;
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
                Change::Put(record) => put(&transaction, record)?,
                Change::Remove(id) => remove(&transaction, id)?,
                Change::SetCounter(counter, value) => {
                    set_counter(&transaction, counter_name(*counter), *value)?;
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

fn configure(connection: &Connection) -> Result<(), StoreError> {
    // One daemon has the store. Locked once and for all, SQLite needs no locks and no shared memory for a commit, and
    // nothing of these can fail.
    connection.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    // An event that was announced must survive the machine's end, not only the daemon's.
    connection.pragma_update(None, "synchronous", "FULL")?;
    // Databases of earlier formats hold environments, which may hold secrets; what is deleted is overwritten.
    connection.pragma_update(None, "secure_delete", "ON")?;
    Ok(())
}

fn truncate_log(connection: &Connection) -> Result<(), StoreError> {
    Ok(connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?)
}

fn put(connection: &Connection, record: &Record) -> Result<(), StoreError> {
    let (Some((table, id)), Some(json)) = (row_of(&record.id()), json_of(record)?) else {
        return Ok(());
    };
    connection
        .prepare_cached(&format!(
            "INSERT OR REPLACE INTO {table} (id, record) VALUES (?1, ?2)"
        ))?
        .execute(params![id, json])?;
    Ok(())
}

fn remove(connection: &Connection, id: &RecordId) -> Result<(), StoreError> {
    if let Some((table, id)) = row_of(id) {
        connection
            .prepare_cached(&format!("DELETE FROM {table} WHERE id = ?1"))?
            .execute([id])?;
    }
    Ok(())
}

/// The table and the key of a record. `None` for an environment, which is never in the database.
fn row_of(id: &RecordId) -> Option<(&'static str, Value)> {
    let number = |number: u64| Value::Integer(number.cast_signed());
    Some(match id {
        RecordId::Pane(id) => ("panes", number(id.0)),
        RecordId::Run(id) => ("runs", Value::Text(id.0.clone())),
        RecordId::Event(id) => ("events", number(id.0)),
        RecordId::Worker(id) => ("workers", number(*id)),
        RecordId::Question(id) => ("questions", number(id.0)),
        RecordId::Watcher(id) => ("watchers", number(*id)),
        RecordId::Layout(session) => ("arrangements", Value::Text(session.0.clone())),
        RecordId::Start(key) => {
            let key = u128::from_be_bytes(key.0);
            ("starts", Value::Text(format!("{key:032x}")))
        }
        RecordId::Environment(_) => return None,
    })
}

/// The record as it is stored. `None` for an environment.
fn json_of(record: &Record) -> serde_json::Result<Option<String>> {
    match record {
        Record::Pane(record) => serde_json::to_string(record),
        Record::Run(record) => scrubbed(&**record),
        Record::Event(record) => serde_json::to_string(record),
        Record::Worker(record) => scrubbed(&**record),
        Record::Question(record) => serde_json::to_string(record),
        Record::Watcher(record) => scrubbed(&**record),
        Record::Layout(record) => serde_json::to_string(record),
        Record::Start(record) => serde_json::to_string(record),
        Record::Environment { .. } => return Ok(None),
    }
    .map(Some)
}

fn counter_name(counter: Counter) -> &'static str {
    match counter {
        Counter::NextPane => "next_pane",
        Counter::NextRun => "next_run",
        Counter::NextEvent => "next_event",
        Counter::NextWorker => "next_worker",
        Counter::NextQuestion => "next_question",
        Counter::NextWatcher => "next_watcher",
    }
}

fn set_counter(connection: &Connection, name: &str, value: u64) -> Result<(), StoreError> {
    connection
        .prepare_cached("INSERT OR REPLACE INTO counters (name, value) VALUES (?1, ?2)")?
        .execute(params![name, value.cast_signed()])?;
    Ok(())
}

#[cfg(test)]
mod tests;
