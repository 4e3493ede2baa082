use std::path::Path;

use fugue_api::wire::Caller;
use fugue_core::{Change, Snapshot, StoredRun, StoredWatcher, StoredWorker};
use rusqlite::{Connection, OptionalExtension, params};
use serde::de::DeserializeOwned;

use super::{Store, StoreError};

/// The store as one SQLite file next to the panes' logs.
pub struct Sqlite {
    connection: Connection,
}

// Raised with every change of the tables; an older file is brought up step by step.
const FORMAT: u32 = 5;

impl Sqlite {
    pub fn at(path: &Path) -> Result<Self, StoreError> {
        let connection = Connection::open(path)?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        // An event that was announced must survive the machine's end, not only the daemon's.
        connection.pragma_update(None, "synchronous", "FULL")?;
        // A caller's environment may hold secrets; what is deleted is overwritten.
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
            // The caller's world is a column of its own: it is written once, and gone when the run is over.
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
        Ok(Self { connection })
    }

    /// All records of a table, in the order of their ids.
    fn records<T: DeserializeOwned>(&self, table: &str) -> Result<Vec<T>, StoreError> {
        let mut statement = self
            .connection
            .prepare(&format!("SELECT record FROM {table} ORDER BY id"))?;
        let rows = statement.query_map([], |row| row.get::<_, String>(0))?;
        rows.map(|record| Ok(serde_json::from_str(&record?)?))
            .collect()
    }

    /// Records with the world of their caller, where that is still needed.
    fn records_and_callers<T: DeserializeOwned, S>(
        &self,
        table: &str,
        together: impl Fn(T, Option<Caller>) -> S,
    ) -> Result<Vec<S>, StoreError> {
        let mut statement = self
            .connection
            .prepare(&format!("SELECT record, caller FROM {table} ORDER BY id"))?;
        let rows = statement.query_map([], |row| {
            Ok((row.get::<_, String>(0)?, row.get::<_, Option<String>>(1)?))
        })?;
        rows.map(|row| {
            let (record, caller) = row?;
            let caller = caller
                .map(|caller| serde_json::from_str(&caller))
                .transpose()?;
            Ok(together(serde_json::from_str(&record)?, caller))
        })
        .collect()
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

impl Store for Sqlite {
    fn open(&mut self) -> Result<Snapshot, StoreError> {
        let epoch = self.counter("epoch")? + 1;
        set_counter(&self.connection, "epoch", epoch)?;
        Ok(Snapshot {
            panes: self.records("panes")?,
            next_pane: self.counter("next_pane")?,
            runs: self
                .records_and_callers("runs", |record, caller| StoredRun { record, caller })?,
            next_run: self.counter("next_run")?,
            events: self.records("events")?,
            next_event: self.counter("next_event")?,
            workers: self
                .records_and_callers("workers", |record, caller| StoredWorker { record, caller })?,
            next_worker: self.counter("next_worker")?,
            questions: self.records("questions")?,
            next_question: self.counter("next_question")?,
            watchers: self
                .records_and_callers("watchers", |record, caller| {
                    caller.map(|caller| StoredWatcher { record, caller })
                })?
                .into_iter()
                .flatten()
                .collect(),
            next_watcher: self.counter("next_watcher")?,
            arrangements: self.records("arrangements")?,
            epoch,
        })
    }

    fn commit(&mut self, changes: &[&Change]) -> Result<(), StoreError> {
        let transaction = self.connection.transaction()?;
        for change in changes {
            match change {
                Change::Put(record) => put(&transaction, "panes", record.id.0, record)?,
                Change::Drop(pane) => delete(&transaction, "panes", pane.0)?,
                Change::NextPane(next) => set_counter(&transaction, "next_pane", *next)?,
                Change::StartRun { record, caller } => {
                    let (text, caller) = (
                        serde_json::to_string(record)?,
                        serde_json::to_string(&**caller)?,
                    );
                    transaction
                        .prepare_cached(
                            "INSERT OR REPLACE INTO runs (id, record, caller) VALUES (?1, ?2, ?3)",
                        )?
                        .execute(params![record.id.0, text, caller])?;
                }
                Change::PutRun(record) => {
                    transaction
                        .prepare_cached("UPDATE runs SET record = ?2 WHERE id = ?1")?
                        .execute(params![record.id.0, serde_json::to_string(record)?])?;
                }
                Change::EndRun(record) => {
                    transaction
                        .prepare_cached("UPDATE runs SET record = ?2, caller = NULL WHERE id = ?1")?
                        .execute(params![record.id.0, serde_json::to_string(record)?])?;
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
                Change::StartWorker { record, caller } => {
                    let (text, caller) = (
                        serde_json::to_string(record)?,
                        serde_json::to_string(&**caller)?,
                    );
                    transaction
                        .prepare_cached(
                            "INSERT OR REPLACE INTO workers (id, record, caller) VALUES (?1, ?2, ?3)",
                        )?
                        .execute(params![record.number.cast_signed(), text, caller])?;
                }
                Change::PutWorker(record) => {
                    transaction
                        .prepare_cached("UPDATE workers SET record = ?2 WHERE id = ?1")?
                        .execute(params![
                            record.number.cast_signed(),
                            serde_json::to_string(record)?
                        ])?;
                }
                Change::WorkerRuns(record) => {
                    transaction
                        .prepare_cached(
                            "UPDATE workers SET record = ?2, caller = NULL WHERE id = ?1",
                        )?
                        .execute(params![
                            record.number.cast_signed(),
                            serde_json::to_string(record)?
                        ])?;
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
                Change::StartWatcher { record, caller } => {
                    let (text, caller) = (
                        serde_json::to_string(record)?,
                        serde_json::to_string(&**caller)?,
                    );
                    transaction
                        .prepare_cached(
                            "INSERT OR REPLACE INTO watchers (id, record, caller) VALUES (?1, ?2, ?3)",
                        )?
                        .execute(params![record.number.cast_signed(), text, caller])?;
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

fn put(
    connection: &Connection,
    table: &str,
    id: u64,
    record: &impl serde::Serialize,
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
mod tests {
    use super::*;

    #[test]
    fn sqlite_does_what_every_store_must() {
        let dir = tempfile::tempdir().unwrap();
        super::super::conformance::all(|| Sqlite::at(&dir.path().join("fugue.db")).unwrap());
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
    }
}
