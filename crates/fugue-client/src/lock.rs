//! Exclusive locks on files and directories. The kernel releases a lock when the last handle on the open file is
//! closed, however the owner ended.

use std::{
    fs, io,
    os::{
        fd::{AsFd, BorrowedFd},
        unix::fs::{MetadataExt, OpenOptionsExt},
    },
    path::Path,
};

use fugue_api::Error;
use rustix::{fs::FlockOperation, io::Errno};

use crate::paths;

/// An exclusive lock, held until dropped.
#[derive(Debug)]
pub struct FileLock {
    file: fs::File,
}

/// Whether to wait while another process has the lock.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LockContention {
    Wait,
    Fail,
}

impl FileLock {
    /// Locks a lock file, and creates a missing file. Waits while another process has the lock.
    pub fn lock_file(path: &Path) -> Result<Self, Error> {
        Self::wait(path, open_lock_file)
    }

    /// Locks a lock file; `None` if another process has the lock.
    pub fn try_lock_file(path: &Path) -> Result<Option<Self>, Error> {
        Self::acquire(path, open_lock_file, LockContention::Fail)
    }

    /// Locks a directory itself: a lock file could be removed while locked. Waits while another process has the lock.
    pub fn lock_directory(path: &Path) -> Result<Self, Error> {
        Self::wait(path, |path| fs::File::open(path))
    }

    /// Locks a directory itself; `None` if another process has the lock.
    pub fn try_lock_directory(path: &Path) -> Result<Option<Self>, Error> {
        Self::acquire(path, |path| fs::File::open(path), LockContention::Fail)
    }

    /// Wraps a handle on a lock that the parent process took.
    pub fn from_inherited(file: fs::File) -> Self {
        Self { file }
    }

    fn wait(path: &Path, open: fn(&Path) -> io::Result<fs::File>) -> Result<Self, Error> {
        Self::acquire(path, open, LockContention::Wait)?.ok_or_else(|| {
            Error::internal(format!(
                "{}: the lock could not be acquired",
                path.display()
            ))
        })
    }

    fn acquire(
        path: &Path,
        open: fn(&Path) -> io::Result<fs::File>,
        contention: LockContention,
    ) -> Result<Option<Self>, Error> {
        let operation = match contention {
            LockContention::Wait => FlockOperation::LockExclusive,
            LockContention::Fail => FlockOperation::NonBlockingLockExclusive,
        };
        loop {
            let file = open(path).map_err(|error| paths::unusable_path_error(path, &error))?;
            match rustix::fs::flock(&file, operation) {
                // The locked file may have been removed during the wait; a lock on a removed file excludes no other
                // process.
                Ok(()) if is_file_at(&file, path) => return Ok(Some(Self { file })),
                Ok(()) | Err(Errno::INTR) => {}
                Err(Errno::WOULDBLOCK) => return Ok(None),
                Err(errno) => return Err(lock_error(path, errno)),
            }
        }
    }
}

impl AsFd for FileLock {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

fn open_lock_file(path: &Path) -> io::Result<fs::File> {
    fs::OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        .open(path)
}

fn is_file_at(file: &fs::File, path: &Path) -> bool {
    let identity = |found: fs::Metadata| (found.dev(), found.ino());
    match (file.metadata(), fs::metadata(path)) {
        (Ok(ours), Ok(there)) => identity(ours) == identity(there),
        _ => false,
    }
}

fn lock_error(path: &Path, errno: Errno) -> Error {
    let error = io::Error::from(errno);
    // EBADF: NFS locks only files that are open for writing, which a directory never is.
    if let Errno::NOLCK | Errno::NOSYS | Errno::OPNOTSUPP | Errno::BADF | Errno::INVAL = errno {
        return Error::unavailable(format!("{}: its file system does not support locks ({error}), which fugue needs to run a single daemon", path.display()))
        .hint("set XDG_STATE_HOME to a directory on a local disk");
    }
    paths::unusable_path_error(path, &error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{sync::mpsc, thread};

    #[test]
    fn a_directory_is_locked_once_and_whatever_is_removed_from_it() {
        let dir = tempfile::tempdir().unwrap();
        let lock = FileLock::lock_directory(dir.path()).unwrap();
        for entry in fs::read_dir(dir.path()).unwrap().flatten() {
            fs::remove_file(entry.path()).unwrap();
        }
        assert!(FileLock::try_lock_directory(dir.path()).unwrap().is_none());
        drop(lock);
        assert!(FileLock::try_lock_directory(dir.path()).unwrap().is_some());
    }

    #[test]
    fn a_lock_file_that_was_removed_while_it_was_waited_for_is_not_taken_for_the_lock() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let first = FileLock::lock_file(&path).unwrap();
        let old = fs::metadata(&path).unwrap().ino();
        let (opened, is_open) = mpsc::channel();
        let waiter = {
            let path = path.clone();
            thread::spawn(move || {
                opened.send(()).unwrap();
                FileLock::lock_file(&path).unwrap()
            })
        };
        is_open.recv().unwrap();
        // Keeps the inode number from being reused for the new file.
        let _kept = fs::File::open(&path).unwrap();
        fs::remove_file(&path).unwrap();
        drop(first);
        let second = waiter.join().unwrap();
        assert_ne!(second.file.metadata().unwrap().ino(), old);
        assert!(FileLock::try_lock_file(&path).unwrap().is_none());
    }

    #[test]
    fn a_file_system_without_locks_is_named_with_the_way_out() {
        for errno in [Errno::NOLCK, Errno::NOSYS, Errno::OPNOTSUPP, Errno::BADF] {
            let error = lock_error(Path::new("/state/fugue"), errno);
            assert!(
                error
                    .message
                    .starts_with("/state/fugue: its file system does not support locks"),
                "{error:?}"
            );
            assert!(
                error
                    .hint
                    .as_deref()
                    .unwrap_or("")
                    .contains("XDG_STATE_HOME"),
                "{error:?}"
            );
        }
    }
}
