//! Ends every process of a pane. Asks first (HUP, TERM), kills after the grace, and looks again until a look finds
//! nothing. It waits for exits, never for time, up to its deadlines.
//!
//! A holder that started the child itself finds the pane's processes by going down its own tree: it has been their
//! reaper since the first of them, so none can be elsewhere, and a close costs what the pane's own processes cost.
//! Otherwise (the holder is gone, or took the child over from one that was killed) all processes of the machine are
//! looked at: those of the pane's session, their descendants, and any whose environment carries the pane's marks.

use std::collections::{HashMap, HashSet};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::process::{Pid, Signal};

use crate::proc::{self, Exe, Stat};
use crate::wire::ProcessIdentity;

/// Which processes are the pane's.
#[derive(Debug, Clone, Default)]
pub struct ProcessScope {
    /// The child that led the pane's session.
    pub leader: Option<ProcessIdentity>,
    /// See `Spec::marks`.
    pub marks: Vec<Vec<u8>>,
    /// The process whose descendants all are the pane's: its holder.
    pub(crate) holder: Option<i32>,
    /// The caller is that holder and has been the reaper of the pane's processes since the first of them.
    pub(crate) is_sole_reaper: bool,
}

impl ProcessScope {
    /// A pane whose holder is gone.
    pub fn new(leader: Option<ProcessIdentity>, marks: Vec<Vec<u8>>) -> ProcessScope {
        ProcessScope {
            leader,
            marks,
            holder: None,
            is_sole_reaper: false,
        }
    }
}

/// Ends what is left of a pane whose holder is gone. Blocks up to `grace` and [`KILL_WAIT`]; returns how many
/// processes could not be ended.
pub fn close_leftovers(scope: ProcessScope, grace: Duration) -> io::Result<u32> {
    let mut closing = Closing::begin(scope, grace, Instant::now());
    loop {
        let until = match closing.step(Instant::now()) {
            Progress::Done { left } => return Ok(left),
            Progress::Wait { until } => until,
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

/// How long a killed process may take to go before it counts as left: one stuck in the kernel (a dead NFS server)
/// may take for ever.
pub const KILL_WAIT: Duration = Duration::from_secs(5);

// A pane with more processes is ended in several rounds; a holder has few fds.
const WATCHED: usize = 128;
// Looks per step in which a fork bomb may show new processes, before other requests get their turn.
const LOOKS: usize = 20;

/// A close under way. The owner polls `fds` and calls `step`.
pub(crate) struct Closing {
    scope: ProcessScope,
    exe: Exe,
    phase: Phase,
    victims: HashMap<i32, Victim>,
}

#[derive(Clone, Copy)]
enum Phase {
    Asking { until: Instant },
    Killing { until: Instant },
}

struct Victim {
    who: ProcessIdentity,
    pidfd: Option<OwnedFd>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    Wait { until: Instant },
    Done { left: u32 },
}

impl Closing {
    pub(crate) fn begin(scope: ProcessScope, grace: Duration, now: Instant) -> Closing {
        Closing {
            scope,
            exe: Exe::ours(),
            phase: Phase::Asking { until: now + grace },
            victims: HashMap::new(),
        }
    }

    /// A second request may only make it shorter.
    pub(crate) fn hurry(&mut self, grace: Duration, now: Instant) {
        if let Phase::Asking { until } = &mut self.phase {
            *until = (*until).min(now + grace);
        }
    }

    pub(crate) fn step(&mut self, now: Instant) -> Progress {
        if let Phase::Asking { until } = self.phase
            && now >= until
        {
            self.phase = Phase::Killing {
                until: now + KILL_WAIT,
            };
            self.victims.clear();
        }
        self.forget_ended();
        if self.victims.is_empty() {
            self.look();
        }
        if self.victims.is_empty() {
            return Progress::Done { left: 0 };
        }
        match self.phase {
            Phase::Killing { until } if now >= until => Progress::Done {
                left: self.victims.len() as u32,
            },
            Phase::Asking { until } | Phase::Killing { until } => Progress::Wait { until },
        }
    }

    pub(crate) fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.victims
            .values()
            .filter_map(|v| v.pidfd.as_ref().map(AsFd::as_fd))
    }

    fn forget_ended(&mut self) {
        self.victims.retain(|_, v| proc::lives(v.who));
        let watched = self.victims.values().filter(|v| v.pidfd.is_some()).count();
        let unwatched = self.victims.values_mut().filter(|v| v.pidfd.is_none());
        for victim in unwatched.take(WATCHED.saturating_sub(watched)) {
            victim.pidfd = proc::pidfd(victim.who).ok();
        }
        // Those whose pidfd could not be had ended meanwhile, but for want of fds, and then the deadline comes.
    }

    /// Signals whoever is new, until a look finds nobody new.
    fn look(&mut self) {
        for _ in 0..LOOKS {
            let found = self.scope.find(&self.exe);
            let new: Vec<Stat> = found
                .into_iter()
                .filter(|s| {
                    self.victims
                        .get(&s.pid)
                        .is_none_or(|v| v.who != s.identity())
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

    fn signal(&mut self, stat: &Stat) {
        let who = stat.identity();
        let Ok(pidfd) = proc::pidfd(who) else { return };
        match self.phase {
            Phase::Asking { .. } => {
                // CONT last: a stopped process takes the other two when it wakes.
                for signal in [Signal::HUP, Signal::TERM, Signal::CONT] {
                    let _ = rustix::process::pidfd_send_signal(&pidfd, signal);
                }
            }
            Phase::Killing { .. } => {
                let _ = rustix::process::pidfd_send_signal(&pidfd, Signal::KILL);
                // The whole group in one stroke, so that none of it forks away between two looks.
                if self.scope.leader.is_some_and(|l| l.pid == stat.session)
                    && let Some(group) = Pid::from_raw(stat.pgrp)
                {
                    let _ = rustix::process::kill_process_group(group, Signal::KILL);
                }
            }
        }
        let room = self.victims.values().filter(|v| v.pidfd.is_some()).count() < WATCHED;
        self.victims.insert(
            who.pid,
            Victim {
                who,
                pidfd: room.then_some(pidfd),
            },
        );
    }
}

impl ProcessScope {
    /// Whoever of the pane lives now.
    fn find(&self, our_exe: &Exe) -> Vec<Stat> {
        if self.is_sole_reaper
            && let Some(found) = self.find_below_us(our_exe)
        {
            return found;
        }
        self.find_among_all(our_exe)
    }

    fn is_spared(&self, pid: i32, our_exe: &Exe) -> bool {
        pid <= 1
            || pid == std::process::id() as i32
            || Some(pid) == self.holder
            || proc::is_fugues_own(pid, our_exe)
    }

    /// Whoever of our own descendants lives now. `None`: that cannot be said, because the kernel does not list
    /// children, or because only processes are left that are spared.
    ///
    /// A list of somebody else's children may miss one while others exit. Our own does not, because nobody else reaps
    /// them: where it has nothing but ended ones, and is the same after that was seen, no descendant lives. A process
    /// hands its children on to its reaper before it shows as ended.
    fn find_below_us(&self, our_exe: &Exe) -> Option<Vec<Stat>> {
        let us = std::process::id() as i32;
        let ours = proc::children(us)?;
        let mut found = Vec::new();
        let mut seen = HashSet::new();
        let mut todo = ours.clone();
        let mut spares = false;
        while let Some(pid) = todo.pop() {
            let Some(stat) = Stat::of(pid).filter(|stat| !stat.is_over()) else {
                continue;
            };
            if !seen.insert(pid) {
                continue;
            }
            if self.is_spared(pid, our_exe) {
                spares = true;
                continue;
            }
            todo.extend(proc::children(pid).into_iter().flatten());
            found.push(stat);
        }
        let is_known = !found.is_empty() || (!spares && proc::children(us)? == ours);
        is_known.then_some(found)
    }

    fn find_among_all(&self, our_exe: &Exe) -> Vec<Stat> {
        let all = proc::all();
        let spared = |s: &Stat| self.is_spared(s.pid, our_exe);
        let session = self.session(&all);
        let mut children: HashMap<i32, Vec<&Stat>> = HashMap::new();
        for stat in &all {
            children.entry(stat.ppid).or_default().push(stat);
        }
        let mut todo: Vec<&Stat> = self
            .holder
            .and_then(|h| children.get(&h).cloned())
            .unwrap_or_default();
        todo.extend(
            all.iter()
                .filter(|s| Some(s.session) == session || proc::has_marks(s.pid, &self.marks)),
        );
        let mut seen = HashSet::new();
        let mut found = Vec::new();
        while let Some(stat) = todo.pop() {
            if !seen.insert(stat.pid) || spared(stat) {
                continue;
            }
            todo.extend(children.get(&stat.pid).into_iter().flatten());
            if !stat.is_over() {
                found.push(stat.clone());
            }
        }
        found
    }

    /// The pane's session, if its number cannot mean another one by now. The kernel does not reuse the number while
    /// the leader or the session lives, so a holder, which knows its child from its birth to its last reaping, may
    /// trust it; a latecomer only if the leader is still there to be recognised.
    fn session(&self, all: &[Stat]) -> Option<i32> {
        let leader = self.leader?;
        match all.iter().find(|s| s.pid == leader.pid) {
            Some(stat) => (stat.start_time == leader.start_time).then_some(leader.pid),
            None => self.holder.and(Some(leader.pid)),
        }
    }
}
