//! Opens the database at the daemon's start, and replaces a damaged or missing one.

use std::{
    fs::{self, File},
    io::{self, Read},
    path::{Path, PathBuf},
};

use super::{FORMAT, Failure, Sqlite, Store, StoreContents, StoreError, StoreOrigin, backup};

// More ids than a day can have used up since the backup was made.
const COUNTERS_AHEAD: u64 = 10_000;

/// How much of the database is checked before use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IntegrityCheck {
    /// Fast enough for every start.
    Quick,
    /// Every page and index.
    Whole,
}

/// Opens the database at `path`. A damaged database is renamed and replaced by the backup, or by an empty database without a
/// backup; a missing database is replaced by the backup. An error is temporary: a full disk, or no permission.
pub fn open(path: &Path, check: IntegrityCheck) -> Result<(Sqlite, StoreContents), StoreError> {
    if is_missing(path)? {
        // SQLite would apply the side files of a missing database to the next one.
        let mut left_over = false;
        for file in with_side_files(path) {
            left_over |= length_of(&file)?.is_some();
        }
        let kept_aside = left_over.then(|| set_aside(path)).transpose()?;
        if length_of(&backup::path_of(path))?.is_none() {
            return open_as(path, check, StoreOrigin::New);
        }
        let reason = format!("{} was missing", path.display());
        return restore(path, check, reason, kept_aside);
    }
    match open_as(path, check, StoreOrigin::Sound) {
        Err(StoreError::Newer(format)) => Err(StoreError::Newer(format)),
        Err(error) if error.failure() == Failure::Permanent => {
            let kept_aside = set_aside(path)?;
            restore(path, check, error.to_string(), Some(kept_aside))
        }
        opened => opened,
    }
}

/// Refuses a database that a newer version wrote. Reads only the header of the file, because a running daemon has the database
/// locked; a format that is still in the write-ahead log alone is found when the database is opened.
pub fn check_format(path: &Path) -> Result<(), StoreError> {
    const MAGIC: &[u8] = b"SQLite format 3\0";
    // The place of `user_version`, big-endian, in the header of every SQLite file.
    const USER_VERSION: std::ops::Range<usize> = 60..64;
    let mut header = [0; 64];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut header));
    let Ok(version) = <[u8; 4]>::try_from(&header[USER_VERSION]) else {
        return Ok(());
    };
    let format = u32::from_be_bytes(version);
    // A missing or damaged file is the affair of whoever opens it.
    if read.is_ok() && header.starts_with(MAGIC) && format > FORMAT {
        return Err(StoreError::Newer(format));
    }
    Ok(())
}

/// Whether the database is missing or an empty file. A file that cannot be examined is not missing: the error is returned,
/// because the backup that replaces a missing database is older.
fn is_missing(path: &Path) -> Result<bool, StoreError> {
    let [_, wal, database] = with_side_files(path);
    Ok(match length_of(&database)? {
        None => true,
        Some(0) => length_of(&wal)?.unwrap_or(0) == 0,
        Some(_) => false,
    })
}

/// The length of a file, or `None` for a missing one.
fn length_of(path: &Path) -> Result<Option<u64>, StoreError> {
    match fs::metadata(path) {
        Ok(found) => Ok(Some(found.len())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(StoreError::File(path.to_owned(), error)),
    }
}

fn open_as(
    path: &Path,
    check: IntegrityCheck,
    origin: StoreOrigin,
) -> Result<(Sqlite, StoreContents), StoreError> {
    let mut store = Sqlite::at(path)?;
    store.check(check)?;
    let opened = store.open()?;
    Ok((store, StoreContents { origin, ..opened }))
}

/// Puts the backup, or nothing, where the database was.
fn restore(
    path: &Path,
    check: IntegrityCheck,
    reason: String,
    kept_aside: Option<PathBuf>,
) -> Result<(Sqlite, StoreContents), StoreError> {
    match copy_backup(path) {
        Ok(true) => {
            let origin = StoreOrigin::Backup {
                reason: reason.clone(),
                kept_aside: kept_aside.clone(),
            };
            match open_as(path, check, origin) {
                Err(StoreError::Newer(format)) => return Err(StoreError::Newer(format)),
                Err(error) if error.failure() == Failure::Permanent => {
                    tracing::warn!(%error, "database backup not usable");
                    set_aside(path)?;
                }
                opened => return opened,
            }
        }
        Ok(false) => {}
        Err(error) if error.failure() == Failure::Permanent => {
            tracing::warn!(%error, "database backup not usable");
        }
        Err(error) => return Err(error),
    }
    open_as(path, check, StoreOrigin::Empty { reason, kept_aside })
}

/// Copies the backup to `path` atomically. Returns `false` without a backup.
fn copy_backup(path: &Path) -> Result<bool, StoreError> {
    let beside = path.with_extension("db.new");
    let file = |error| StoreError::File(beside.clone(), error);
    for stale in with_side_files(&beside) {
        remove(&stale).map_err(file)?;
    }
    match fs::copy(backup::path_of(path), &beside) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        copied => copied.map_err(file)?,
    };
    let copy = Sqlite::at(&beside)?;
    copy.check(IntegrityCheck::Whole)?;
    copy.advance_counters(COUNTERS_AHEAD)?;
    // Closing the last connection moves the write-ahead log into the database file.
    drop(copy);
    File::open(&beside)
        .and_then(|copy| copy.sync_all())
        .map_err(file)?;
    fs::rename(&beside, path).map_err(file)?;
    Ok(true)
}

/// Renames a damaged database and its side files to the first free `fugue.db.damaged-<n>`.
fn set_aside(path: &Path) -> Result<PathBuf, StoreError> {
    let name = |number: u32| path.with_extension(format!("db.damaged-{number}"));
    let mut numbers = 1..;
    let aside = loop {
        let aside = name(numbers.next().unwrap_or(u32::MAX));
        if length_of(&aside)?.is_none() {
            break aside;
        }
    };
    for (from, to) in with_side_files(path)
        .into_iter()
        .zip(with_side_files(&aside))
    {
        match fs::rename(&from, &to) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(StoreError::File(from, error));
            }
            Ok(()) | Err(_) => {}
        }
    }
    Ok(aside)
}

/// The database and its side files, side files first: a database without side files is valid, the reverse is not.
fn with_side_files(path: &Path) -> [PathBuf; 3] {
    let with = |suffix: &str| {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        PathBuf::from(name)
    };
    [with("-shm"), with("-wal"), path.to_owned()]
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}
