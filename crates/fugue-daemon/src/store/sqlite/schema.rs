//! The tables of the database, and the upgrade of databases of earlier formats.

use std::path::Path;

use fugue_core::{EnvironmentFields, RunRecord, WatcherRecord, WorkerRecord};
use rusqlite::{Connection, params};
use serde::{Serialize, de::DeserializeOwned};

use super::truncate_log;
use crate::store::{
    StoreError, backup,
    environments::{EnvironmentFiles, scrubbed},
};

// Raised with every change of the tables; a file of an earlier format is upgraded step by step.
pub const FORMAT: u32 = 7;

// The statement at index `n` upgrades a database of format `n`. The upgrade to format 7 is `drop_environments`.
const UPGRADES: [&str; 6] = [
    "CREATE TABLE panes (id INTEGER PRIMARY KEY, record TEXT NOT NULL) STRICT;
     CREATE TABLE counters (name TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT, WITHOUT ROWID;",
    // Until format 7, the caller's environment was a column of its own.
    "UPDATE panes SET record = json_set(record, '$.generation', 1);
     CREATE TABLE runs (id TEXT PRIMARY KEY, record TEXT NOT NULL, caller TEXT) STRICT;",
    "CREATE TABLE events (id INTEGER PRIMARY KEY, record TEXT NOT NULL) STRICT;
     CREATE TABLE workers (id INTEGER PRIMARY KEY, record TEXT NOT NULL, caller TEXT) STRICT;
     CREATE TABLE questions (id INTEGER PRIMARY KEY, record TEXT NOT NULL) STRICT;",
    "CREATE TABLE watchers (id INTEGER PRIMARY KEY, record TEXT NOT NULL, caller TEXT) STRICT;",
    "CREATE TABLE arrangements (id TEXT PRIMARY KEY, record TEXT NOT NULL) STRICT;",
    "CREATE TABLE starts (id TEXT PRIMARY KEY, record TEXT NOT NULL) STRICT;
     CREATE TABLE quarantine
         (kind TEXT NOT NULL, id TEXT NOT NULL, raw BLOB, error TEXT NOT NULL, at INTEGER NOT NULL) STRICT;",
];

/// Creates the tables of a new database, and brings a database of an earlier format up to the present one.
pub fn upgrade(
    connection: &mut Connection,
    path: &Path,
    environments: &EnvironmentFiles,
) -> Result<(), StoreError> {
    let format: u32 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if format > FORMAT {
        return Err(StoreError::Newer(format));
    }
    for (to, upgrade) in (1..).zip(UPGRADES).filter(|(to, _)| format < *to) {
        connection.execute_batch(&format!(
            "BEGIN; {upgrade} PRAGMA user_version = {to}; COMMIT;"
        ))?;
    }
    if format == FORMAT {
        return Ok(());
    }
    drop_environments(connection, environments)?;
    // The existing backup contains environments.
    match std::fs::remove_file(backup::path_of(path)) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(StoreError::File(backup::path_of(path), error))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Moves environments from the database of an earlier format into files, and drops unneeded ones.
fn drop_environments(
    connection: &mut Connection,
    environments: &EnvironmentFiles,
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
    environments: &EnvironmentFiles,
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
