//! Reads `/proc`: running processes, their parents, sessions and environments. Every result may be outdated when it is
//! returned; a caller that acts on one checks the process identity again.

use std::fs;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::spawn::open_pidfd;
use crate::wire::ProcessIdentity;

/// The fields of `/proc/PID/stat` that are needed here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ProcessStat {
    pub(crate) pid: i32,
    pub(crate) comm: String,
    pub(crate) state: u8,
    pub(crate) ppid: i32,
    pub(crate) pgrp: i32,
    pub(crate) session: i32,
    pub(crate) tty: u64,
    /// The foreground process group of the controlling terminal.
    pub(crate) foreground: i32,
    pub(crate) start_time: u64,
    /// As a wait status. 0 also if the reader has no permission.
    pub(crate) exit_code: i32,
}

impl ProcessStat {
    pub(crate) fn get(pid: i32) -> Option<ProcessStat> {
        let mut line = [0; 1024];
        ProcessStat::parse(read_once(&format!("/proc/{pid}/stat"), &mut line)?)
    }

    /// Like `get`, but with the reason for a missing result: `None` means that no such process exists.
    pub(crate) fn read(pid: i32) -> io::Result<Option<ProcessStat>> {
        let mut line = [0; 1024];
        let read =
            fs::File::open(format!("/proc/{pid}/stat")).and_then(|mut file| file.read(&mut line));
        match read {
            Ok(length) => ProcessStat::parse(&line[..length])
                .map(Some)
                .ok_or_else(|| io::Error::other(format!("cannot parse /proc/{pid}/stat"))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// `pid (comm) state ppid …`, where comm may contain any bytes, including parentheses and spaces.
    fn parse(line: &[u8]) -> Option<ProcessStat> {
        let open = line.iter().position(|b| *b == b'(')?;
        let close = line.iter().rposition(|b| *b == b')')?;
        let pid = std::str::from_utf8(&line[..open])
            .ok()?
            .trim()
            .parse()
            .ok()?;
        let comm = String::from_utf8_lossy(line.get(open + 1..close)?).into_owned();
        let rest = std::str::from_utf8(line.get(close + 1..)?).ok()?;
        // `rest` begins with field 3.
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        let number = |field: usize| fields.get(field - 3).and_then(|f| f.parse::<i64>().ok());
        Some(ProcessStat {
            pid,
            comm,
            state: *fields.first()?.as_bytes().first()?,
            ppid: number(4)? as i32,
            pgrp: number(5)? as i32,
            session: number(6)? as i32,
            tty: number(7)? as u64,
            foreground: number(8)? as i32,
            start_time: number(22)? as u64,
            exit_code: number(52).unwrap_or(0) as i32,
        })
    }

    pub(crate) fn identity(&self) -> ProcessIdentity {
        ProcessIdentity {
            pid: self.pid,
            start_time: self.start_time,
        }
    }

    /// Whether the process has ended and only waits to be reaped.
    pub(crate) fn has_ended(&self) -> bool {
        matches!(self.state, b'Z' | b'X' | b'x')
    }
}

/// All processes of the machine.
pub(crate) fn all_processes() -> Vec<ProcessStat> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .filter_map(|e| e.ok()?.file_name().to_str()?.parse::<i32>().ok())
        .filter_map(ProcessStat::get)
        .collect()
}

/// The processes `roots` and their descendants, found from parent to child: the cost depends on the pane and not on the
/// machine. Without descendants if the kernel does not list children (CONFIG_PROC_CHILDREN).
pub(crate) fn descendants(roots: &[i32]) -> Vec<ProcessStat> {
    let mut found: Vec<ProcessStat> = Vec::new();
    let mut todo = roots.to_vec();
    while let Some(pid) = todo.pop() {
        if found.iter().any(|s| s.pid == pid) {
            continue;
        }
        found.extend(ProcessStat::get(pid));
        todo.extend(children(pid).into_iter().flatten());
    }
    found
}

/// The children of a process, including zombies. `None`: the process is gone, or the kernel does not list children.
pub(crate) fn children(pid: i32) -> Option<Vec<i32>> {
    let mut found = Vec::new();
    // Each child is listed under the thread that started it.
    for thread in fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten() {
        let children = fs::read_to_string(thread.path().join("children")).ok()?;
        let children = children.split_ascii_whitespace();
        found.extend(children.filter_map(|child| child.parse::<i32>().ok()));
    }
    Some(found)
}

/// Whether the process with this pid and start time is alive.
pub(crate) fn is_alive(identity: ProcessIdentity) -> bool {
    ProcessStat::get(identity.pid)
        .is_some_and(|s| s.start_time == identity.start_time && !s.has_ended())
}

/// Opens a pidfd of the process with this pid and start time. ESRCH if that process is gone.
pub(crate) fn open_checked_pidfd(identity: ProcessIdentity) -> io::Result<OwnedFd> {
    let fd = open_pidfd(identity.pid)?;
    // The pidfd is bound to one process by now. If the pid still has the expected start time, the process is the right
    // one.
    match ProcessStat::get(identity.pid) {
        Some(stat) if stat.start_time == identity.start_time => Ok(fd),
        _ => Err(io::Error::from_raw_os_error(libc::ESRCH)),
    }
}

/// Whether `/proc/PID/stat` contains the real exit code. The kernel shows 0 to readers without permission, so 0 can be
/// trusted only for a process with our own ids, or as root.
pub(crate) fn shows_exit_code(pid: i32) -> bool {
    let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
    if uid.is_root() {
        return true;
    }
    let Ok(status) = fs::read_to_string(format!("/proc/{pid}/status")) else {
        return false;
    };
    let all_are = |key: &str, id: u32| {
        status
            .lines()
            .find_map(|line| line.strip_prefix(key))
            .is_some_and(|ids| ids.split_ascii_whitespace().all(|n| n.parse() == Ok(id)))
    };
    all_are("Uid:", uid.as_raw()) && all_are("Gid:", gid.as_raw())
}

/// One read; `fs::read` would need several, because files in `/proc` have no size.
fn read_once<'a>(path: &str, buffer: &'a mut [u8]) -> Option<&'a [u8]> {
    let got = fs::File::open(path).ok()?.read(buffer).ok()?;
    Some(&buffer[..got])
}

/// Whether the environment of a process contains all of `marks`. An unreadable environment contains none.
pub(crate) fn has_marks(pid: i32, marks: &[Vec<u8>]) -> bool {
    if marks.is_empty() {
        return false;
    }
    let Ok(environ) = fs::read(format!("/proc/{pid}/environ")) else {
        return false;
    };
    marks
        .iter()
        .all(|mark| environ.split(|b| *b == 0).any(|entry| entry == mark))
}

/// Whether a process is a fugue process that outlives panes: our own executable, run as a holder or as the daemon. A
/// daemon that was started from a shell in a pane looks like a process of that pane, but serves all panes.
pub(crate) fn is_fugue_process(pid: i32, our_exe: &ExecutableFile) -> bool {
    let Ok(cmdline) = fs::read(format!("/proc/{pid}/cmdline")) else {
        return false;
    };
    let verb = cmdline.split(|b| *b == 0).nth(1);
    matches!(verb, Some(b"hold" | b"daemon")) && our_exe.is_run_by(pid)
}

/// Whether a process is the daemon that all Codex sessions of a user share, or its updater. The first session starts both, in
/// sessions of their own, in whichever pane that session happens to run.
pub(crate) fn is_shared_codex_daemon(stat: &ProcessStat) -> bool {
    if stat.session != stat.pid {
        return false;
    }
    let Ok(cmdline) = fs::read(format!("/proc/{}/cmdline", stat.pid)) else {
        return false;
    };
    let mut args = cmdline.split(|b| *b == 0);
    let program = args
        .next()
        .and_then(|path| path.rsplit(|b| *b == b'/').next());
    program == Some(b"codex")
        && args.next() == Some(b"app-server")
        && args.any(|arg| matches!(arg, b"daemon" | b"--managed-daemon"))
}

/// An executable file, recognised even after an upgrade has replaced it.
pub(crate) struct ExecutableFile {
    file: Option<(u64, u64)>,
    pub(crate) path: PathBuf,
}

impl ExecutableFile {
    pub(crate) fn current() -> ExecutableFile {
        ExecutableFile::from_pid(std::process::id() as i32)
    }

    fn from_pid(pid: i32) -> ExecutableFile {
        let link = format!("/proc/{pid}/exe");
        let path = fs::read_link(&link).unwrap_or_default();
        let text = path.to_string_lossy();
        ExecutableFile {
            file: fs::metadata(&link).ok().map(|m| (m.dev(), m.ino())),
            path: Path::new(text.strip_suffix(" (deleted)").unwrap_or(&text)).to_owned(),
        }
    }

    fn is_run_by(&self, pid: i32) -> bool {
        let other = ExecutableFile::from_pid(pid);
        (self.file.is_some() && self.file == other.file)
            || (!self.path.as_os_str().is_empty() && self.path == other.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stat_line_is_read_whatever_the_program_calls_itself() {
        let stat = ProcessStat::get(std::process::id() as i32).unwrap();
        assert_eq!(stat.pid, std::process::id() as i32);
        assert!(stat.start_time > 0 && !stat.has_ended());
        let zeros = " 0".repeat(29);
        let line =
            format!("7 (a) R) (b) S 1 2 3 34816 5{} {}", " 0".repeat(13), 4242) + &zeros + " 256";
        let stat = ProcessStat::parse(line.as_bytes()).unwrap();
        assert_eq!(
            (stat.pid, stat.comm.as_str(), stat.state),
            (7, "a) R) (b", b'S')
        );
        assert_eq!(
            (stat.ppid, stat.pgrp, stat.session, stat.tty),
            (1, 2, 3, 34816)
        );
        assert_eq!((stat.start_time, stat.exit_code), (4242, 256));
        for cut in 0..line.len() {
            let _ = ProcessStat::parse(&line.as_bytes()[..cut]);
        }
    }
}
