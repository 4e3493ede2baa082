//! The processes of a test environment, according to the kernel.

use std::{
    collections::BTreeMap,
    fs, io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::Path,
    time::Duration,
};

use rustix::{
    event::{PollFd, PollFlags, poll},
    process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open},
};

use crate::wait::timespec;

/// A process, distinguished by its start time from later processes with the same pid.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProcessRef {
    pub pid: u32,
    pub start_time: u64,
    pub args: Vec<String>,
}

impl ProcessRef {
    /// The process that has this pid now; `None` if the pid is free or belongs to a zombie.
    pub fn find(pid: u32) -> Option<Self> {
        let line = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        let stat = ProcStat::of(pid)?;
        (stat.state != 'Z').then(|| Self {
            pid,
            start_time: stat.start_time,
            args: line
                .split(|byte| *byte == 0)
                .filter(|word| !word.is_empty())
                .map(|word| String::from_utf8_lossy(word).into_owned())
                .collect(),
        })
    }

    /// The pid of the parent process now.
    pub fn parent(&self) -> Option<u32> {
        ProcStat::of(self.pid).map(|stat| stat.parent)
    }

    pub fn is_alive(&self) -> bool {
        ProcStat::of(self.pid)
            .is_some_and(|stat| stat.start_time == self.start_time && stat.state != 'Z')
    }

    pub fn kill9(&self) {
        if self.is_alive() {
            kill9(self.pid);
        }
    }

    /// Whether the command line contains these words in sequence.
    pub fn has_args(&self, words: &[&str]) -> bool {
        self.args.windows(words.len()).any(|line| line == words)
    }

    /// Whether the process is in the foreground of its terminal, and receives the keys.
    pub fn is_in_foreground(&self) -> bool {
        ProcStat::of(self.pid).is_some_and(|stat| stat.group == stat.foreground)
    }

    /// Processor time used so far, in clock ticks.
    pub fn ticks(&self) -> u64 {
        ProcStat::of(self.pid).map_or(0, |stat| stat.ticks)
    }

    /// Voluntary and involuntary context switches of each thread.
    pub fn context_switches(&self) -> Vec<(u32, u64)> {
        let Ok(threads) = fs::read_dir(format!("/proc/{}/task", self.pid)) else {
            return Vec::new();
        };
        threads
            .flatten()
            .filter_map(|thread| {
                let status = fs::read_to_string(thread.path().join("status")).ok()?;
                let counts = status
                    .lines()
                    .filter_map(|line| line.split_once("ctxt_switches:"))
                    .filter_map(|(_, count)| count.trim().parse::<u64>().ok());
                Some((thread.file_name().to_str()?.parse().ok()?, counts.sum()))
            })
            .collect()
    }

    /// Memory in KiB under the kernel's names: `Rss`, `Pss`, `Private_Dirty`, …
    pub fn memory_kib(&self) -> BTreeMap<String, u64> {
        let rollup = fs::read_to_string(format!("/proc/{}/smaps_rollup", self.pid));
        let rollup = rollup.unwrap_or_default();
        rollup
            .lines()
            .filter_map(|line| {
                let (name, rest) = line.split_once(':')?;
                let kib = rest.trim().strip_suffix(" kB")?.parse().ok()?;
                Some((name.to_owned(), kib))
            })
            .collect()
    }
}

/// A pidfd, to wait for a process that need not be a child.
pub struct ProcessWaiter(OwnedFd);

impl ProcessWaiter {
    pub fn of(pid: u32) -> io::Result<Self> {
        let pid = Pid::from_raw(pid as i32).ok_or(io::ErrorKind::InvalidInput)?;
        Ok(Self(pidfd_open(pid, PidfdFlags::empty())?))
    }

    /// Waits until the process has ended.
    #[track_caller]
    pub fn wait(&self, limit: Duration) {
        let mut fds = [PollFd::from_borrowed_fd(self.0.as_fd(), PollFlags::IN)];
        let ready = poll(&mut fds, Some(&timespec(limit))).expect("a pidfd can be polled");
        assert_eq!(ready, 1, "the process still runs after {limit:?}");
    }
}

impl AsFd for ProcessWaiter {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

pub fn kill9(pid: u32) {
    if let Some(pid) = Pid::from_raw(pid as i32) {
        // The process may have ended already.
        let _ = kill_process(pid, Signal::KILL);
    }
}

/// Every process that refers to `dir`: in a variable, in the command line, or as the working directory.
pub fn processes_in(dir: &Path) -> Vec<ProcessRef> {
    let ours = std::process::id();
    let entries = fs::read_dir("/proc").expect("/proc is there");
    let mut found: Vec<ProcessRef> = entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid| *pid != ours)
        .filter(|pid| refers_to(*pid, dir))
        .filter_map(ProcessRef::find)
        .collect();
    found.sort();
    found
}

fn refers_to(pid: u32, dir: &Path) -> bool {
    let inside = format!("{}/", dir.display());
    let names_it = |file: &str| {
        fs::read(format!("/proc/{pid}/{file}")).is_ok_and(|bytes| {
            bytes
                .windows(inside.len())
                .any(|window| window == inside.as_bytes())
        })
    };
    names_it("environ")
        || names_it("cmdline")
        || fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd.starts_with(dir))
}

struct ProcStat {
    state: char,
    parent: u32,
    group: i64,
    foreground: i64,
    ticks: u64,
    start_time: u64,
}

impl ProcStat {
    fn of(pid: u32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name in parentheses may itself contain spaces and parentheses.
        let rest: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        let number = |index: usize| rest.get(index)?.parse::<u64>().ok();
        Some(Self {
            state: rest.first()?.chars().next()?,
            parent: rest.get(1)?.parse().ok()?,
            group: rest.get(2)?.parse().ok()?,
            foreground: rest.get(5)?.parse().ok()?,
            ticks: number(11)? + number(12)?,
            start_time: number(19)?,
        })
    }
}
