//! Terminates every process of a pane: HUP and TERM first, KILL after the grace period, until a scan finds no process.
//! Waits for exits (pidfds), not for time, up to its deadlines.
//!
//! A holder that started the child itself walks its own process tree: it has been the subreaper since before the first
//! process of the pane, so every process of the pane is a descendant, and the cost depends only on the pane's own
//! processes. Otherwise (the holder is gone, or it adopted the child from a killed holder) all processes of the machine
//! are scanned for the pane's session, descendants of that session, and environments with the pane's marks.

use std::collections::{HashMap, HashSet};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::process::{Pid, Signal};

use crate::proc::{self, ExecutableFile, ProcessStat};
use crate::wire::ProcessIdentity;

/// Defines which processes belong to a pane.
#[derive(Debug, Clone, Default)]
pub struct ProcessScope {
    /// The child that leads the pane's session.
    pub leader: Option<ProcessIdentity>,
    /// See [`crate::wire::ChildSpec::marks`].
    pub marks: Vec<Vec<u8>>,
    /// Pid of the holder. All descendants of the holder belong to the pane.
    pub(crate) holder: Option<i32>,
    /// The calling process is that holder and has been the subreaper since before the pane's first process.
    pub(crate) is_sole_reaper: bool,
}

impl ProcessScope {
    /// The scope of a pane whose holder is gone.
    pub fn new(leader: Option<ProcessIdentity>, marks: Vec<Vec<u8>>) -> ProcessScope {
        ProcessScope {
            leader,
            marks,
            holder: None,
            is_sole_reaper: false,
        }
    }

    /// The scope of a pane of which only the living holder is known.
    pub fn below_holder(holder: ProcessIdentity) -> ProcessScope {
        ProcessScope {
            holder: Some(holder.pid),
            ..ProcessScope::default()
        }
    }
}

/// Terminates the remaining processes of a pane whose holder is gone. Blocks for up to `grace` plus [`KILL_TIMEOUT`].
/// Returns the number of processes that could not be terminated.
pub fn close_leftovers(scope: ProcessScope, grace: Duration) -> io::Result<u32> {
    let mut closing = ProcessTermination::begin(scope, grace, Instant::now());
    loop {
        let until = match closing.step(Instant::now()) {
            TerminationProgress::Done { left } => return Ok(left),
            TerminationProgress::Wait { until } => until,
        };
        let mut fds: Vec<PollFd<'_>> = closing
            .fds()
            .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
            .collect();
        let wait = until.saturating_duration_since(Instant::now());
        let timeout = rustix::event::Timespec::try_from(wait).map_err(io::Error::other)?;
        match rustix::event::poll(&mut fds, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
    }
}

/// How long a killed process may take to exit before it is counted as remaining. A process that is stuck in the kernel
/// (dead NFS server) may never exit.
pub const KILL_TIMEOUT: Duration = Duration::from_secs(5);

// A holder has few fds. A pane with more processes is terminated in several rounds.
const MAX_PIDFDS: usize = 128;
// A fork bomb shows new processes in every scan. After this many scans per step, other requests get their turn.
const MAX_SCANS_PER_STEP: usize = 20;

/// A termination in progress. The owner polls `fds` and calls `step`.
pub(crate) struct ProcessTermination {
    scope: ProcessScope,
    exe: ExecutableFile,
    phase: TerminationPhase,
    signaled: HashMap<i32, SignaledProcess>,
}

#[derive(Clone, Copy)]
enum TerminationPhase {
    Terminating { until: Instant },
    Killing { until: Instant },
}

struct SignaledProcess {
    identity: ProcessIdentity,
    pidfd: Option<OwnedFd>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum TerminationProgress {
    Wait { until: Instant },
    Done { left: u32 },
}

impl ProcessTermination {
    pub(crate) fn begin(scope: ProcessScope, grace: Duration, now: Instant) -> ProcessTermination {
        ProcessTermination {
            scope,
            exe: ExecutableFile::current(),
            phase: TerminationPhase::Terminating { until: now + grace },
            signaled: HashMap::new(),
        }
    }

    /// Shortens the grace period. A second close request never extends the first.
    pub(crate) fn shorten_grace(&mut self, grace: Duration, now: Instant) {
        if let TerminationPhase::Terminating { until } = &mut self.phase {
            *until = (*until).min(now + grace);
        }
    }

    pub(crate) fn step(&mut self, now: Instant) -> TerminationProgress {
        if let TerminationPhase::Terminating { until } = self.phase
            && now >= until
        {
            self.phase = TerminationPhase::Killing {
                until: now + KILL_TIMEOUT,
            };
            self.signaled.clear();
        }
        self.drop_ended();
        if self.signaled.is_empty() {
            self.signal_new_processes();
        }
        if self.signaled.is_empty() {
            return TerminationProgress::Done { left: 0 };
        }
        match self.phase {
            TerminationPhase::Killing { until } if now >= until => TerminationProgress::Done {
                left: self.signaled.len() as u32,
            },
            TerminationPhase::Terminating { until } | TerminationPhase::Killing { until } => {
                TerminationProgress::Wait { until }
            }
        }
    }

    pub(crate) fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.signaled
            .values()
            .filter_map(|v| v.pidfd.as_ref().map(AsFd::as_fd))
    }

    fn drop_ended(&mut self) {
        self.signaled.retain(|_, v| proc::is_alive(v.identity));
        let watched = self.signaled.values().filter(|v| v.pidfd.is_some()).count();
        let unwatched = self.signaled.values_mut().filter(|v| v.pidfd.is_none());
        for victim in unwatched.take(MAX_PIDFDS.saturating_sub(watched)) {
            victim.pidfd = proc::open_checked_pidfd(victim.identity).ok();
        }
        // A pidfd that cannot be opened means that the process has ended, or that no fd is free; then the deadline
        // applies.
    }

    /// Signals processes that were not signaled yet, until a scan finds no new ones.
    fn signal_new_processes(&mut self) {
        for _ in 0..MAX_SCANS_PER_STEP {
            let found = self.scope.find_processes(&self.exe);
            let new: Vec<ProcessStat> = found
                .into_iter()
                .filter(|s| {
                    self.signaled
                        .get(&s.pid)
                        .is_none_or(|v| v.identity != s.identity())
                })
                .collect();
            if new.is_empty() {
                return;
            }
            for stat in &new {
                self.signal(stat);
            }
        }
    }

    fn signal(&mut self, stat: &ProcessStat) {
        let identity = stat.identity();
        let Ok(pidfd) = proc::open_checked_pidfd(identity) else {
            return;
        };
        match self.phase {
            TerminationPhase::Terminating { .. } => {
                // CONT comes last: a stopped process receives the pending HUP and TERM when it continues.
                for signal in [Signal::HUP, Signal::TERM, Signal::CONT] {
                    let _ = rustix::process::pidfd_send_signal(&pidfd, signal);
                }
            }
            TerminationPhase::Killing { .. } => {
                let _ = rustix::process::pidfd_send_signal(&pidfd, Signal::KILL);
                // Kills the whole process group with a single call, so that no member can fork between two scans.
                if self.scope.leader.is_some_and(|l| l.pid == stat.session)
                    && let Some(group) = Pid::from_raw(stat.pgrp)
                {
                    let _ = rustix::process::kill_process_group(group, Signal::KILL);
                }
            }
        }
        let room = self.signaled.values().filter(|v| v.pidfd.is_some()).count() < MAX_PIDFDS;
        self.signaled.insert(
            identity.pid,
            SignaledProcess {
                identity,
                pidfd: room.then_some(pidfd),
            },
        );
    }
}

impl ProcessScope {
    /// Returns the living processes of the pane.
    fn find_processes(&self, our_exe: &ExecutableFile) -> Vec<ProcessStat> {
        if self.is_sole_reaper
            && let Some(found) = self.find_descendants(our_exe)
        {
            return found;
        }
        self.find_by_session_and_marks(our_exe)
    }

    fn is_spared(&self, stat: &ProcessStat, our_exe: &ExecutableFile) -> bool {
        let pid = stat.pid;
        let is_leader = self.leader.is_some_and(|leader| leader.pid == pid);
        pid <= 1
            || pid == std::process::id() as i32
            || Some(pid) == self.holder
            || proc::is_fugue_process(pid, our_exe)
            || (!is_leader && proc::is_shared_codex_daemon(stat))
    }

    /// Returns the living descendants of this process. `None` means that the answer is uncertain: the kernel does not
    /// list children, or only spared processes are left.
    ///
    /// The list of another process's children may miss an entry while siblings exit. The list of our own children does
    /// not, because only this process reaps them: if the list holds nothing but zombies, and is unchanged after that
    /// check, no descendant is alive. A process passes its children on to the subreaper before becoming a zombie.
    fn find_descendants(&self, our_exe: &ExecutableFile) -> Option<Vec<ProcessStat>> {
        let own_pid = std::process::id() as i32;
        let own_children = proc::children(own_pid)?;
        let mut found = Vec::new();
        let mut seen = HashSet::new();
        let mut pending = own_children.clone();
        let mut has_spared = false;
        while let Some(pid) = pending.pop() {
            let Some(stat) = ProcessStat::get(pid).filter(|stat| !stat.has_ended()) else {
                continue;
            };
            if !seen.insert(pid) {
                continue;
            }
            if self.is_spared(&stat, our_exe) {
                has_spared = true;
                continue;
            }
            pending.extend(proc::children(pid).into_iter().flatten());
            found.push(stat);
        }
        let is_known =
            !found.is_empty() || (!has_spared && proc::children(own_pid)? == own_children);
        is_known.then_some(found)
    }

    fn find_by_session_and_marks(&self, our_exe: &ExecutableFile) -> Vec<ProcessStat> {
        let all = proc::all_processes();
        let spared = |s: &ProcessStat| self.is_spared(s, our_exe);
        let session = self.trusted_session(&all);
        let mut children: HashMap<i32, Vec<&ProcessStat>> = HashMap::new();
        for stat in &all {
            children.entry(stat.ppid).or_default().push(stat);
        }
        let mut pending: Vec<&ProcessStat> = self
            .holder
            .and_then(|h| children.get(&h).cloned())
            .unwrap_or_default();
        pending.extend(
            all.iter()
                .filter(|s| Some(s.session) == session || proc::has_marks(s.pid, &self.marks)),
        );
        let mut seen = HashSet::new();
        let mut found = Vec::new();
        while let Some(stat) = pending.pop() {
            if !seen.insert(stat.pid) || spared(stat) {
                continue;
            }
            pending.extend(children.get(&stat.pid).into_iter().flatten());
            if !stat.has_ended() {
                found.push(stat.clone());
            }
        }
        found
    }

    /// The pane's session id, if the id cannot refer to another session by now. The kernel does not reuse the id while
    /// the leader or any member of the session exists. A holder follows its child from start to reaping and can trust
    /// the id; any other caller can trust the id only while the leader still exists with the recorded start time.
    fn trusted_session(&self, all: &[ProcessStat]) -> Option<i32> {
        let leader = self.leader?;
        match all.iter().find(|s| s.pid == leader.pid) {
            Some(stat) => (stat.start_time == leader.start_time).then_some(leader.pid),
            None => self.holder.and(Some(leader.pid)),
        }
    }
}
