//! Reads `/proc`: who runs, whose child, in which session, with which environment. Every answer may be out of date
//! when it is returned; who acts on one checks the identity again.

use std::fs;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::spawn::pidfd_of;
use crate::wire::ProcessIdentity;

/// The parts of `/proc/PID/stat` that we need.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) pid: i32,
    pub(crate) comm: String,
    pub(crate) state: u8,
    pub(crate) ppid: i32,
    pub(crate) pgrp: i32,
    pub(crate) session: i32,
    pub(crate) tty: u64,
    /// The foreground process group of its terminal.
    pub(crate) foreground: i32,
    pub(crate) start_time: u64,
    /// In `wait`'s form; 0 also when it is not ours to know.
    pub(crate) exit_code: i32,
}

impl Stat {
    pub(crate) fn of(pid: i32) -> Option<Stat> {
        let mut line = [0; 1024];
        Stat::parse(read_once(&format!("/proc/{pid}/stat"), &mut line)?)
    }

    /// The same where it matters why there is nothing: `None` means that no such process exists.
    pub(crate) fn read(pid: i32) -> io::Result<Option<Stat>> {
        let mut line = [0; 1024];
        let read =
            fs::File::open(format!("/proc/{pid}/stat")).and_then(|mut file| file.read(&mut line));
        match read {
            Ok(length) => Stat::parse(&line[..length])
                .map(Some)
                .ok_or_else(|| io::Error::other(format!("/proc/{pid}/stat is not readable"))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// `pid (comm) state ppid …`, where comm may hold anything, parentheses and spaces too.
    fn parse(line: &[u8]) -> Option<Stat> {
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
        Some(Stat {
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

    /// Ended, and only its parent has still to hear of it.
    pub(crate) fn is_over(&self) -> bool {
        matches!(self.state, b'Z' | b'X' | b'x')
    }
}

/// Every process there is.
pub(crate) fn all() -> Vec<Stat> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .filter_map(|e| e.ok()?.file_name().to_str()?.parse::<i32>().ok())
        .filter_map(Stat::of)
        .collect()
}

/// The descendants of `roots` and themselves, found from parent to child: its cost is the pane's own, not the whole
/// machine's. Empty where the kernel does not tell children (CONFIG_PROC_CHILDREN).
pub(crate) fn descendants(roots: &[i32]) -> Vec<Stat> {
    let mut found: Vec<Stat> = Vec::new();
    let mut todo = roots.to_vec();
    while let Some(pid) = todo.pop() {
        if found.iter().any(|s| s.pid == pid) {
            continue;
        }
        found.extend(Stat::of(pid));
        todo.extend(children(pid).into_iter().flatten());
    }
    found
}

/// The children of a process, ended ones that nobody reaped included. `None`: the process is gone, or the kernel does
/// not list children.
pub(crate) fn children(pid: i32) -> Option<Vec<i32>> {
    let mut found = Vec::new();
    // Children belong to the thread that made them.
    for thread in fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten() {
        let children = fs::read_to_string(thread.path().join("children")).ok()?;
        let children = children.split_ascii_whitespace();
        found.extend(children.filter_map(|child| child.parse::<i32>().ok()));
    }
    Some(found)
}

/// Whether this very process lives.
pub(crate) fn lives(who: ProcessIdentity) -> bool {
    Stat::of(who.pid).is_some_and(|s| s.start_time == who.start_time && !s.is_over())
}

/// A fd of this very process, or ESRCH if it is gone.
pub(crate) fn pidfd(who: ProcessIdentity) -> io::Result<OwnedFd> {
    let fd = pidfd_of(who.pid)?;
    // The fd is fixed now; if the pid still has that start time, it is of the right process.
    match Stat::of(who.pid) {
        Some(stat) if stat.start_time == who.start_time => Ok(fd),
        _ => Err(io::Error::from_raw_os_error(libc::ESRCH)),
    }
}

/// Whether `/proc/PID/stat` tells us the exit code: the kernel shows 0 to those who may not know, so that its 0 may
/// be believed only of a process with our own ids, or by root.
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

/// One read, where `fs::read` would feel its way with many: a file of `/proc` has no size.
fn read_once<'a>(path: &str, buffer: &'a mut [u8]) -> Option<&'a [u8]> {
    let got = fs::File::open(path).ok()?.read(buffer).ok()?;
    Some(&buffer[..got])
}

/// Whether its environment has every one of `marks`. An environment that may not be read has none.
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

/// A program of fugue's that outlives panes: our own file, run as a holder or as the daemon. A daemon that was
/// started by typing in a pane looks like that pane's process, but is everyone's.
pub(crate) fn is_fugues_own(pid: i32, our_exe: &Exe) -> bool {
    let Ok(cmdline) = fs::read(format!("/proc/{pid}/cmdline")) else {
        return false;
    };
    let verb = cmdline.split(|b| *b == 0).nth(1);
    matches!(verb, Some(b"hold" | b"daemon")) && our_exe.is_run_by(pid)
}

/// A program file, recognised also after an upgrade has replaced it.
pub(crate) struct Exe {
    file: Option<(u64, u64)>,
    pub(crate) path: PathBuf,
}

impl Exe {
    pub(crate) fn ours() -> Exe {
        Exe::of(std::process::id() as i32)
    }

    fn of(pid: i32) -> Exe {
        let link = format!("/proc/{pid}/exe");
        let path = fs::read_link(&link).unwrap_or_default();
        let text = path.to_string_lossy();
        Exe {
            file: fs::metadata(&link).ok().map(|m| (m.dev(), m.ino())),
            path: Path::new(text.strip_suffix(" (deleted)").unwrap_or(&text)).to_owned(),
        }
    }

    fn is_run_by(&self, pid: i32) -> bool {
        let other = Exe::of(pid);
        (self.file.is_some() && self.file == other.file)
            || (!self.path.as_os_str().is_empty() && self.path == other.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stat_line_is_read_whatever_the_program_calls_itself() {
        let stat = Stat::of(std::process::id() as i32).unwrap();
        assert_eq!(stat.pid, std::process::id() as i32);
        assert!(stat.start_time > 0 && !stat.is_over());
        let zeros = " 0".repeat(29);
        let line =
            format!("7 (a) R) (b) S 1 2 3 34816 5{} {}", " 0".repeat(13), 4242) + &zeros + " 256";
        let stat = Stat::parse(line.as_bytes()).unwrap();
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
            let _ = Stat::parse(&line.as_bytes()[..cut]);
        }
    }
}
