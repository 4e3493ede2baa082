use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use rusqlite::Connection;

use super::StoreError;

/// The backup copy next to the database, and the time of the next one.
pub struct Backup {
    path: PathBuf,
    /// The time of the last copy or of the last failed attempt.
    last: Option<SystemTime>,
    /// Something was stored since.
    changed: bool,
}

const BACKUP_INTERVAL: Duration = Duration::from_secs(24 * 60 * 60);

impl Backup {
    /// That of the database at `database`.
    pub fn of(database: &Path) -> Self {
        let path = path_of(database);
        let last = fs::metadata(&path).and_then(|found| found.modified()).ok();
        Self {
            path,
            last,
            changed: false,
        }
    }

    pub fn note_change(&mut self) {
        self.changed = true;
    }

    /// Copies the database once a day. A copy of a few megabytes takes milliseconds, during which commits wait.
    pub fn make_if_due(&mut self, connection: &Connection) {
        let now = SystemTime::now();
        let is_recent = self.last.is_some_and(|last| {
            // A clock that was set back must not put the next copy off for years.
            now.duration_since(last)
                .is_ok_and(|age| age < BACKUP_INTERVAL)
        });
        if !self.changed || is_recent {
            return;
        }
        self.last = Some(now);
        self.changed = false;
        match self.make(connection) {
            Ok(()) => tracing::info!(path = %self.path.display(), "database backup made"),
            Err(error) => tracing::warn!(%error, "database backup failed"),
        }
    }

    fn make(&self, connection: &Connection) -> Result<(), StoreError> {
        let beside = self.path.with_extension("backup.new");
        let file = |error| StoreError::File(beside.clone(), error);
        match fs::remove_file(&beside) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(file(error)),
            Ok(()) | Err(_) => {}
        }
        connection.execute("VACUUM INTO ?1", [beside.to_string_lossy()])?;
        File::open(&beside)
            .and_then(|copy| copy.sync_all())
            .map_err(file)?;
        fs::rename(&beside, &self.path).map_err(file)
    }
}

/// Where the backup of a database is.
pub fn path_of(database: &Path) -> PathBuf {
    database.with_extension("db.backup")
}
