//! Proves that a pane's holder and child are gone, from the pane's directory and the kernel.
//!
//! A holder has an exclusive `flock` on `hold.lock` from before its first child until the process ends for any reason.
//! A held lock proves a living holder (or, for a moment, the child of a killed holder before its exec), and a free lock a
//! dead holder. A refused connection proves neither, because every failed syscall on the way looks the same. A missing
//! lock file proves nothing either, because files can be removed under a living holder; then the processes of the machine
//! are searched for the holder. On filesystems without locks, the recorded processes are looked up.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::process::Signal;

use crate::proc::ProcessStat;
use crate::record::{ChildRecord, boot_id};
use crate::wire::ProcessIdentity;

/// Proven state of the processes of a pane's directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PaneLiveness {
    /// The holder is alive.
    Holder,
    /// The holder is gone, and the child that it started still runs.
    Child(ProcessIdentity),
    /// Holder and child are gone.
    Dead,
    /// A query failed, so nothing is proven. The text names the failure.
    Unknown(String),
}

impl PaneLiveness {
    /// Checks the lock and the records in a pane's directory.
    pub fn check(dir: &Path) -> PaneLiveness {
        Self::try_check(dir).unwrap_or_else(|error| PaneLiveness::Unknown(error.to_string()))
    }

    fn try_check(dir: &Path) -> io::Result<PaneLiveness> {
        let lock = LockState::query(dir)?;
        match lock {
            LockState::Held => return Ok(PaneLiveness::Holder),
            LockState::Missing if search_holder(dir)?.is_some() => return Ok(PaneLiveness::Holder),
            LockState::Missing | LockState::Free | LockState::Unsupported => {}
        }
        let boot = boot_id();
        if boot.is_empty() {
            return Err(io::Error::other("cannot read the boot id"));
        }
        for generation in 1.. {
            let meta = match ChildRecord::read(dir, generation) {
                Ok(Some(meta)) => meta,
                Ok(None) => break,
                // A complete record is renamed into place, so only a crash of the machine leaves a partial record, and
                // such a crash ended every process. Without locks, no other proof exists that the holder is gone.
                Err(error)
                    if error.kind() == io::ErrorKind::InvalidData
                        && lock != LockState::Unsupported =>
                {
                    continue;
                }
                Err(error) => return Err(error),
            };
            // Pids of an earlier boot are meaningless.
            if meta.boot != boot {
                continue;
            }
            if lock == LockState::Unsupported && is_holder_of(meta.holder, dir)? {
                return Ok(PaneLiveness::Holder);
            }
            if let Some(child) = meta.child
                && check_alive(child)?
            {
                return Ok(PaneLiveness::Child(child));
            }
        }
        Ok(PaneLiveness::Dead)
    }
}

/// Returns pid and start time of a pane's living holder, according to the records in its directory. Without records, all
/// processes are searched.
pub fn find_holder(dir: &Path) -> Option<ProcessIdentity> {
    let metas = (1..).map_while(|generation| ChildRecord::read(dir, generation).ok().flatten());
    let mut holders = metas.map(|meta| meta.holder).peekable();
    if holders.peek().is_none() {
        return search_holder(dir).ok().flatten();
    }
    let living = holders.filter(|pid| is_holder_of(*pid, dir).unwrap_or(false));
    living.last().and_then(crate::start::identify)
}

/// Searches all processes for a living holder of this directory.
fn search_holder(dir: &Path) -> io::Result<Option<ProcessIdentity>> {
    let mut found = None;
    for process in std::fs::read_dir("/proc")? {
        let Some(pid) = pid_of(&process?) else {
            continue;
        };
        match is_holder_of(pid, dir) {
            // A zombie has no command line.
            Ok(false) => {}
            Ok(true) => found = crate::start::identify(pid).or(found),
            // Another user's process, where the system hides those (`hidepid`).
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

fn pid_of(process: &std::fs::DirEntry) -> Option<i32> {
    process.file_name().to_str()?.parse().ok()
}

/// The living holders whose directories were below `panes` and have been removed, with those directories. No client can
/// find these panes.
pub fn holders_without_directory(panes: &Path) -> Vec<(PathBuf, ProcessIdentity)> {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = processes.filter_map(|process| pid_of(&process));
    pids.filter_map(|pid| {
        let dir = held_directory(pid)?;
        let is_removed = dir.parent() == Some(panes)
            && matches!(dir.try_exists(), Ok(false))
            && has_lost_lock(pid);
        is_removed.then_some(())?;
        Some((dir, crate::start::identify(pid)?))
    })
    .collect()
}

/// Whether the lock file that a holder has open was removed. Where the directory was moved, or is one of another mount
/// namespace, the file is not removed.
fn has_lost_lock(holder: i32) -> bool {
    let fds = std::fs::read_dir(format!("/proc/{holder}/fd"));
    fds.into_iter().flatten().flatten().any(|fd| {
        let target = std::fs::read_link(fd.path()).unwrap_or_default();
        target
            .file_name()
            .is_some_and(|name| name == "hold.lock (deleted)")
            && std::fs::metadata(fd.path()).is_ok_and(|file| file.nlink() == 0)
    })
}

/// Returns pid and start time of a process. `Ok(None)`: the process has ended. An error: the process cannot be
/// inspected.
pub fn find_process(pid: i32) -> io::Result<Option<ProcessIdentity>> {
    let stat = ProcessStat::read(pid)?;
    Ok(stat
        .filter(|stat| !stat.has_ended())
        .map(|stat| stat.identity()))
}

/// Returns the parent of a process. `Ok(None)`: no such process is visible, because it has ended or is hidden from this
/// user.
pub fn parent_pid(pid: i32) -> io::Result<Option<i32>> {
    Ok(ProcessStat::read(pid)?.map(|stat| stat.ppid))
}

/// Returns the pane's directory below `panes` that a process is the holder of. The command line names the directory,
/// which any process could do; the record in that directory names the process, and only a holder writes that record.
pub fn find_held_directory(pid: i32, panes: &Path) -> Option<PathBuf> {
    let dir = held_directory(pid)?;
    if dir.parent() != Some(panes) {
        return None;
    }
    let boot = boot_id();
    let mut metas =
        (1..).map_while(|generation| ChildRecord::read(&dir, generation).ok().flatten());
    metas
        .any(|meta| meta.holder == pid && meta.boot == boot)
        .then_some(dir)
}

/// The directory that a holder's command line names.
fn held_directory(pid: i32) -> Option<PathBuf> {
    let cmdline = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let mut words = cmdline.split(|byte| *byte == 0).skip(1);
    if words.next() != Some(b"hold") {
        return None;
    }
    let dir = words.find_map(|word| word.strip_prefix(b"dir="))?;
    Some(PathBuf::from(std::ffi::OsStr::from_bytes(dir)))
}

/// Whether a process is stopped, by a signal or by a debugger.
pub fn is_stopped(pid: i32) -> bool {
    ProcessStat::get(pid).is_some_and(|stat| matches!(stat.state, b'T' | b't'))
}

/// Waits for the end of a process, at most for `timeout`. Returns whether the process has ended.
pub fn wait_for_exit(identity: ProcessIdentity, timeout: Duration) -> io::Result<bool> {
    await_readable(&crate::proc::open_checked_pidfd(identity)?, timeout)
}

fn await_readable(pidfd: &OwnedFd, timeout: Duration) -> io::Result<bool> {
    let timeout = Timespec::try_from(timeout).map_err(io::Error::other)?;
    let mut fds = [PollFd::new(pidfd, PollFlags::IN)];
    Ok(rustix::event::poll(&mut fds, Some(&timeout))? > 0)
}

/// Ends a holder whose child has ended: continues a stopped holder, and kills a holder that has not exited after
/// `timeout`.
pub fn end_holder(holder: ProcessIdentity, timeout: Duration) -> io::Result<()> {
    let pidfd = crate::proc::open_checked_pidfd(holder)?;
    for signal in [Signal::CONT, Signal::KILL] {
        rustix::process::pidfd_send_signal(&pidfd, signal)?;
        if await_readable(&pidfd, timeout)? {
            break;
        }
    }
    Ok(())
}

/// State of a directory's `hold.lock`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LockState {
    Held,
    Free,
    /// Never created, or removed.
    Missing,
    /// The filesystem has no locks.
    Unsupported,
}

impl LockState {
    fn query(dir: &Path) -> io::Result<LockState> {
        let file = match File::open(lock_path(dir)) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(LockState::Missing),
            Err(error) => return Err(error),
        };
        // A shared lock, so that two concurrent checks do not mistake each other for a holder.
        match flock(&file, FlockOperation::NonBlockingLockShared) {
            Ok(()) => Ok(LockState::Free),
            Err(Errno::WOULDBLOCK) => Ok(LockState::Held),
            Err(error) if is_unsupported(error) => Ok(LockState::Unsupported),
            Err(error) => Err(error.into()),
        }
    }
}

/// Takes the lock that a holder keeps until its exit. Waits for the previous holder, which must be dying if a new
/// holder was started. If the previous holder was killed while starting a child, the child has the lock until its exec;
/// by then the child also has the PTY, which identifies it. On a filesystem without locks the file is open and not
/// locked.
pub(crate) fn take_lock(dir: &Path) -> io::Result<File> {
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        .open(lock_path(dir))?;
    loop {
        match flock(&file, FlockOperation::LockExclusive) {
            Ok(()) => return Ok(file),
            Err(Errno::INTR) => {}
            Err(error) if is_unsupported(error) => return Ok(file),
            Err(error) => return Err(error.into()),
        }
    }
}

fn lock_path(dir: &Path) -> PathBuf {
    dir.join("hold.lock")
}

fn is_unsupported(error: Errno) -> bool {
    matches!(error, Errno::NOLCK | Errno::NOSYS | Errno::OPNOTSUPP)
}

/// Whether the process with this pid and start time is alive. An error: the process cannot be inspected.
pub fn check_alive(identity: ProcessIdentity) -> io::Result<bool> {
    let stat = ProcessStat::read(identity.pid)?;
    Ok(stat.is_some_and(|stat| stat.start_time == identity.start_time && !stat.has_ended()))
}

/// Whether a process is a holder that was started for this directory, according to its command line.
fn is_holder_of(pid: i32, dir: &Path) -> io::Result<bool> {
    let cmdline = match std::fs::read(format!("/proc/{pid}/cmdline")) {
        Ok(cmdline) => cmdline,
        Err(error) if is_gone(&error) => return Ok(false),
        Err(error) => return Err(error),
    };
    let named = [b"dir=", dir.as_os_str().as_bytes()].concat();
    let mut words = cmdline.split(|byte| *byte == 0).skip(1);
    Ok(words.next() == Some(b"hold") && words.any(|word| word == named))
}

fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(libc::ESRCH)
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    fn meta(child: Option<ProcessIdentity>, boot: String) -> ChildRecord {
        ChildRecord {
            generation: 1,
            holder: i32::MAX,
            child,
            boot,
            rows: 24,
            cols: 80,
            log_cap: 1 << 20,
            segment: 1 << 16,
            marks: Vec::new(),
        }
    }

    #[test]
    fn a_held_lock_proves_a_living_holder_and_a_free_one_a_dead_holder() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(PaneLiveness::check(dir.path()), PaneLiveness::Dead);
        let lock = take_lock(dir.path()).unwrap();
        assert_eq!(PaneLiveness::check(dir.path()), PaneLiveness::Holder);
        drop(lock);
        assert_eq!(PaneLiveness::check(dir.path()), PaneLiveness::Dead);
    }

    #[test]
    fn a_missing_lock_proves_nothing_while_a_holder_of_the_directory_runs() {
        let dir = tempfile::tempdir().unwrap();
        let named = format!("dir={}", dir.path().display());
        // With a holder's command line, and blocked: nobody reads the pipe.
        let (_unread, output) = rustix::pipe::pipe().unwrap();
        let process = crate::spawn::SpawnCommand::new("yes")
            .args(["hold", &named])
            .fd(output.as_fd(), 1)
            .start()
            .unwrap();
        // A process that was started a moment ago may have no command line yet.
        let cmdline = format!("/proc/{}/cmdline", process.pid);
        while std::fs::read(&cmdline).unwrap().is_empty() {
            std::thread::yield_now();
        }
        drop(take_lock(dir.path()).unwrap());
        assert_eq!(PaneLiveness::check(dir.path()), PaneLiveness::Dead, "free");
        std::fs::remove_file(lock_path(dir.path())).unwrap();
        assert_eq!(PaneLiveness::check(dir.path()), PaneLiveness::Holder);
        assert_eq!(
            find_holder(dir.path()).map(|holder| holder.pid),
            Some(process.pid)
        );
        // Only a removed directory whose lock file it has open makes it a holder that nobody can find.
        assert!(holders_without_directory(dir.path().parent().unwrap()).is_empty());
        process.kill_and_reap();
        assert_eq!(PaneLiveness::check(dir.path()), PaneLiveness::Dead);
    }

    #[test]
    fn a_child_of_this_boot_outlives_its_holder_and_one_of_another_boot_does_not() {
        let dir = tempfile::tempdir().unwrap();
        let ours = crate::start::identify(std::process::id() as i32).unwrap();
        meta(Some(ours), boot_id()).write(dir.path()).unwrap();
        assert_eq!(PaneLiveness::check(dir.path()), PaneLiveness::Child(ours));
        let reused = ProcessIdentity {
            start_time: ours.start_time + 1,
            ..ours
        };
        meta(Some(reused), boot_id()).write(dir.path()).unwrap();
        assert_eq!(PaneLiveness::check(dir.path()), PaneLiveness::Dead);
        meta(Some(ours), "another".into())
            .write(dir.path())
            .unwrap();
        assert_eq!(PaneLiveness::check(dir.path()), PaneLiveness::Dead);
    }

    #[test]
    fn what_cannot_be_looked_at_is_unknown_and_never_dead() {
        let dir = tempfile::tempdir().unwrap();
        // A file in place of the directory: the lock cannot be opened, by any user (root ignores modes).
        let file = dir.path().join("p1");
        std::fs::write(&file, "").unwrap();
        assert!(matches!(
            PaneLiveness::check(&file),
            PaneLiveness::Unknown(_)
        ));
        // A record that cannot be read: a directory has its name.
        std::fs::create_dir(ChildRecord::path(dir.path(), 1)).unwrap();
        assert!(matches!(
            PaneLiveness::check(dir.path()),
            PaneLiveness::Unknown(_)
        ));
    }

    #[test]
    fn half_a_record_is_left_by_a_crash_of_the_machine_which_ended_every_process() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(ChildRecord::path(dir.path(), 1), "garbage").unwrap();
        assert_eq!(PaneLiveness::check(dir.path()), PaneLiveness::Dead);
        // A held lock proves a living holder, whatever the record contains.
        let _lock = take_lock(dir.path()).unwrap();
        assert_eq!(PaneLiveness::check(dir.path()), PaneLiveness::Holder);
    }
}
