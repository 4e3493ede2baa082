use std::path::Path;

use fugue_core::{Change, PaneRecord, Snapshot, StoredRun};
use rusqlite::{Connection, OptionalExtension, params};

use super::{Store, StoreError};

/// The store as one SQLite file next to the panes' logs.
pub struct Sqlite {
    connection: Connection,
}

// Raised with every change of the tables; an older file is brought up step by step.
const FORMAT: u32 = 2;

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
        Ok(Self { connection })
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
        let mut statement = self
            .connection
            .prepare("SELECT record FROM panes ORDER BY id")?;
        let records = statement.query_map([], |row| row.get::<_, String>(0))?;
        let panes = records
            .map(|record| Ok(serde_json::from_str(&record?)?))
            .collect::<Result<Vec<PaneRecord>, StoreError>>()?;
        let mut statement = self
            .connection
            .prepare("SELECT record, caller FROM runs ORDER BY id")?;
        let rows = statement.query_map([], |row| {
            Ok((row.get::<_, String>(0)?, row.get::<_, Option<String>>(1)?))
        })?;
        let runs = rows
            .map(|row| {
                let (record, caller) = row?;
                Ok(StoredRun {
                    record: serde_json::from_str(&record)?,
                    caller: caller
                        .map(|caller| serde_json::from_str(&caller))
                        .transpose()?,
                })
            })
            .collect::<Result<Vec<StoredRun>, StoreError>>()?;
        Ok(Snapshot {
            panes,
            next_pane: self.counter("next_pane")?,
            runs,
            next_run: self.counter("next_run")?,
            epoch,
        })
    }

    fn commit(&mut self, changes: &[&Change]) -> Result<(), StoreError> {
        let transaction = self.connection.transaction()?;
        for change in changes {
            match change {
                Change::Put(record) => {
                    let text = serde_json::to_string(record)?;
                    transaction
                        .prepare_cached(
                            "INSERT OR REPLACE INTO panes (id, record) VALUES (?1, ?2)",
                        )?
                        .execute(params![record.id.0.cast_signed(), text])?;
                }
                Change::Drop(pane) => {
                    transaction
                        .prepare_cached("DELETE FROM panes WHERE id = ?1")?
                        .execute([pane.0.cast_signed()])?;
                }
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
            }
        }
        Ok(transaction.commit()?)
    }
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
