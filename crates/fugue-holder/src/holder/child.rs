//! The state of the child: not started, running, ending, exited. The exit is recorded on disk after all output of the
//! child is in the log, and before the daemon is notified.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use rustix::event::PollFlags;

use super::tmux_view::TmuxView;
use super::{Holder, NextTurn, OutputFlow};
use crate::args::AdoptArgs;
use crate::input::HolderInputQueue;
use crate::log::PumpStatus;
use crate::proc::{self, ProcessStat};
use crate::record::{ChildRecord, ExitRecord, SizeRecord, boot_id};
use crate::spawn::{SpawnError, retry_exhausted};
use crate::sys::{self, PidfdExitStatus, ProcessExit, WaitTarget, ZombieUse};
use crate::wire::{ChildExit, ChildSpec, ProcessIdentity, ToDaemon};

pub(super) enum HeldChild {
    NotStarted,
    Running {
        identity: ProcessIdentity,
        pidfd: OwnedFd,
        relation: ChildRelation,
        /// The PTY reported a hang-up that reopening did not cure. The output ends here, but the child may still run.
        hung_up: bool,
    },
    /// The process has ended. The remaining output must be moved to the log, and the exit recorded.
    Ending {
        identity: ProcessIdentity,
        pidfd: Option<OwnedFd>,
        ending: ProcessExit,
    },
    Exited {
        identity: ProcessIdentity,
        pidfd: Option<OwnedFd>,
        exited: ChildExit,
    },
}

/// How the holder learns of the child's exit.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ChildRelation {
    /// This process is the parent: SIGCHLD.
    Parent,
    /// Adopted from a dead holder: the pidfd becomes readable.
    Adopted,
    /// Adopted, ended, and not reaped by its parent yet. The exit code is not available before that: POLLHUP of the
    /// pidfd.
    AdoptedUnreaped,
}

impl HeldChild {
    pub(super) fn adopted_pidfd(&self) -> Option<(BorrowedFd<'_>, PollFlags)> {
        let HeldChild::Running {
            pidfd, relation, ..
        } = self
        else {
            return None;
        };
        match relation {
            ChildRelation::Parent => None,
            ChildRelation::Adopted => Some((pidfd.as_fd(), PollFlags::IN)),
            ChildRelation::AdoptedUnreaped => Some((pidfd.as_fd(), PollFlags::empty())),
        }
    }

    pub(super) fn pidfd(&self) -> Option<&OwnedFd> {
        match self {
            HeldChild::NotStarted => None,
            HeldChild::Running { pidfd, .. } => Some(pidfd),
            HeldChild::Ending { pidfd, .. } | HeldChild::Exited { pidfd, .. } => pidfd.as_ref(),
        }
    }

    pub(super) fn identity(&self) -> Option<ProcessIdentity> {
        match self {
            HeldChild::NotStarted => None,
            HeldChild::Running { identity, .. }
            | HeldChild::Ending { identity, .. }
            | HeldChild::Exited { identity, .. } => Some(*identity),
        }
    }
}

impl Holder {
    /// Starts the child. On an error, which names the failed step, neither a child nor its record is left.
    pub(super) fn start(
        &mut self,
        spec: &ChildSpec,
        kept: Vec<OwnedFd>,
    ) -> Result<(ProcessIdentity, OwnedFd), SpawnError> {
        let failed = |what: &'static str| move |e| SpawnError::new(what, e);
        // A pane shown in tmux has the size of the tmux pane.
        let size = self.view.as_ref().and_then(TmuxView::size);
        let (rows, cols) = size.unwrap_or((spec.rows, spec.cols));
        self.terminal
            .resize(rows, cols)
            .map_err(failed("the terminal's size"))?;
        self.pump.log.set_limits(spec.log_cap, spec.segment);
        self.record_size(rows, cols)
            .map_err(failed("the record of sizes"))?;
        // Written before the child starts: after a crash, the next daemon finds that a child may have existed.
        let mut meta = ChildRecord {
            generation: self.generation,
            holder: std::process::id() as i32,
            child: None,
            boot: boot_id(),
            rows,
            cols,
            log_cap: spec.log_cap,
            segment: spec.segment,
            marks: spec.marks.clone(),
        };
        ExitRecord::reserve(&self.dir, self.generation)
            .map_err(failed("the room for the record of the child's end"))?;
        meta.write(&self.dir)
            .map_err(failed("the record of the child"))?;
        let started = self.terminal.start(spec, &kept).and_then(|child| {
            match retry_exhausted(|| child.pidfd.try_clone()) {
                Ok(handed) => Ok((child, handed)),
                Err(e) => {
                    child.kill_and_reap();
                    Err(SpawnError::new("pidfd", e))
                }
            }
        });
        let (child, handed) = match started {
            Ok(started) => started,
            Err(error) => {
                let _ = std::fs::remove_file(ChildRecord::path(&self.dir, self.generation));
                ExitRecord::release(&self.dir, self.generation);
                return Err(error);
            }
        };
        // The child is not reaped yet, so /proc has an entry even for an ended child.
        let start_time = ProcessStat::get(child.pid).map_or(0, |s| s.start_time);
        let identity = ProcessIdentity {
            pid: child.pid,
            start_time,
        };
        meta.child = Some(identity);
        self.meta = Some(meta);
        self.meta_unsaved = true;
        self.save_meta();
        self.kept_fds = kept;
        self.change_directory(Path::new(OsStr::from_bytes(&spec.cwd)));
        self.child = HeldChild::Running {
            identity,
            pidfd: child.pidfd,
            relation: ChildRelation::Parent,
            hung_up: false,
        };
        Ok((identity, handed))
    }

    /// Takes over the child of a dead holder.
    pub(super) fn adopt(
        &mut self,
        adopt: &AdoptArgs,
        pidfd: Option<OwnedFd>,
    ) -> Result<(), SpawnError> {
        self.has_adopted_child = true;
        self.input_queue = HolderInputQueue::resume(adopt.last_seq, adopt.answered_upto);
        let recorded = self.meta.as_ref().and_then(|m| m.child);
        let mut identity = adopt.child.or(recorded);
        let recorded = match ExitRecord::read(&self.dir, self.generation) {
            Err(error) if error.kind() == std::io::ErrorKind::InvalidData => None,
            recorded => {
                recorded.map_err(|e| SpawnError::new("the record of the child's end", e))?
            }
        };
        if let (Some(identity), Some(record)) = (identity, recorded) {
            self.child = HeldChild::Exited {
                identity,
                pidfd,
                exited: record.exited,
            };
            return Ok(());
        }
        if identity.is_none() {
            // The holder died between starting the child and reporting its pid. The session of the PTY identifies the
            // child.
            identity = rustix::termios::tcgetsid(&self.terminal.master)
                .ok()
                .and_then(|sid| ProcessStat::get(sid.as_raw_nonzero().get()))
                .map(|s| s.identity());
        }
        let pidfd = pidfd.or_else(|| proc::open_checked_pidfd(identity?).ok());
        self.child = match (identity, pidfd) {
            (Some(identity), Some(pidfd)) => HeldChild::Running {
                identity,
                pidfd,
                relation: ChildRelation::Adopted,
                hung_up: false,
            },
            (Some(identity), None) => HeldChild::Ending {
                identity,
                pidfd: None,
                ending: ProcessExit::Unknown,
            },
            // A start was in progress and no process is left. The child may have run; its exit is unknown.
            (None, _) if self.meta.is_some() => HeldChild::Ending {
                identity: ProcessIdentity {
                    pid: 0,
                    start_time: 0,
                },
                pidfd: None,
                ending: ProcessExit::Unknown,
            },
            (None, _) => HeldChild::NotStarted,
        };
        if let (Some(identity), Some(meta)) = (identity, &mut self.meta) {
            meta.holder = std::process::id() as i32;
            meta.child = Some(identity);
            self.meta_unsaved = true;
        }
        // The output that the dead holder left in the pipe comes first.
        self.move_output(Instant::now());
        Ok(())
    }

    /// Handles the child's exit, and reaps orphans that were reparented to this process.
    pub(super) fn reap(&mut self) {
        while let Ok(Some((pid, ending))) = sys::try_wait_child(WaitTarget::Any, ZombieUse::Keep) {
            let is_held_child = match &self.child {
                HeldChild::Running { identity, .. } | HeldChild::Ending { identity, .. } => {
                    identity.pid == pid
                }
                HeldChild::NotStarted | HeldChild::Exited { .. } => false,
            };
            if is_held_child {
                // The child stays a zombie until its exit is recorded: if this process dies first, the next holder can
                // still read the exit code where the kernel keeps it (Linux 6.15), or while the zombie is not reaped by its
                // new parent (`read_adopted_exit`).
                self.begin_exit(ending);
                return;
            }
            let _ = sys::try_wait_child(WaitTarget::Pid(pid), ZombieUse::Reap);
        }
    }

    pub(super) fn check_adopted_child(&mut self, what: PollFlags) {
        let HeldChild::Running {
            identity,
            pidfd,
            relation,
            ..
        } = &mut self.child
        else {
            return;
        };
        match read_adopted_exit(pidfd.as_fd(), *identity) {
            Some(ending) => self.begin_exit(ending),
            None if what.contains(PollFlags::HUP) => self.begin_exit(ProcessExit::Unknown),
            None => *relation = ChildRelation::AdoptedUnreaped,
        }
    }

    fn begin_exit(&mut self, ending: ProcessExit) {
        let life = std::mem::replace(&mut self.child, HeldChild::NotStarted);
        self.child = match life {
            HeldChild::Running {
                identity, pidfd, ..
            } => HeldChild::Ending {
                identity,
                pidfd: Some(pidfd),
                ending,
            },
            other => other,
        };
        if let OutputFlow::Stalled { .. } = self.flow {
            self.send_pending_exit();
        }
    }

    /// Reports a child that has ended while its output waits for disk space.
    pub(super) fn send_pending_exit(&mut self) {
        if let HeldChild::Ending { ending, .. } = self.child {
            let in_terminal = rustix::io::ioctl_fionread(&self.terminal.master).unwrap_or(0);
            let output_end = self.pump.taken_offset() + in_terminal;
            self.send(&ToDaemon::ExitPending(ChildExit { ending, output_end }));
        }
    }

    /// Handles a hang-up of the PTY. A child that still runs may open `/dev/tty` again, so the slave is reopened.
    pub(super) fn handle_hangup(&mut self) {
        if let HeldChild::Running { hung_up, .. } = &mut self.child {
            self.terminal.reopen_slave();
            *hung_up = !self.terminal.has_slave();
        }
    }

    /// Moves the last output of an ended child to the log, then records and reports the exit.
    pub(super) fn finish_exit(&mut self, now: Instant) -> NextTurn {
        let HeldChild::Ending {
            identity, ending, ..
        } = &self.child
        else {
            return NextTurn::AfterEvents;
        };
        let (identity, ending) = (*identity, *ending);
        if let OutputFlow::Stalled { retry, .. } = self.flow
            && now < retry
        {
            return NextTurn::AfterEvents;
        }
        match self.move_output(now) {
            // The exit of the session leader hung the PTY up, and a read of a hung-up PTY returns all pending output.
            // No further output of the child can follow.
            Some(PumpStatus::Drained | PumpStatus::HungUp) => {}
            Some(PumpStatus::BudgetUsed) => return NextTurn::Immediately,
            None if self.directory_is_removed() => {}
            None => return NextTurn::AfterEvents,
        }
        let exited = ChildExit {
            ending,
            output_end: self.pump.log.end_offset(),
        };
        // The output is synced first: an exit record implies that all output of the child is in the log.
        let synced = self.pump.log.sync();
        if let Err(error) = synced.and_then(|()| self.record_exit(exited))
            && !self.directory_is_removed()
        {
            self.mark_stalled(error, now);
            return NextTurn::AfterEvents;
        }
        self.mark_flowing();
        self.announce_exit(identity, exited);
        NextTurn::Immediately
    }

    /// Drops the output that has no space on disk, because the pane is being closed. The exit record says where the
    /// output would have ended.
    pub(super) fn abandon_output(&mut self) {
        let HeldChild::Ending {
            identity, ending, ..
        } = self.child
        else {
            return;
        };
        let output_end = self.pump.log.end_offset() + self.pump.discard(&self.terminal.master);
        let exited = ChildExit { ending, output_end };
        // Keeps the part of the output that is in the log, if the disk allows a sync.
        let _ = self.pump.log.sync();
        // If even the reserved space cannot be written (read-only disk), the daemon records the exit.
        let _ = self.record_exit(exited);
        self.announce_exit(identity, exited);
    }

    fn record_exit(&self, exited: ChildExit) -> std::io::Result<()> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let record = ExitRecord {
            exited,
            recorded_ms: now.map_or(0, |since| since.as_millis() as u64),
        };
        record.write(&self.dir, self.generation)
    }

    fn announce_exit(&mut self, identity: ProcessIdentity, exited: ChildExit) {
        let _ = sys::try_wait_child(WaitTarget::Pid(identity.pid), ZombieUse::Reap);
        let life = std::mem::replace(&mut self.child, HeldChild::NotStarted);
        if let HeldChild::Ending {
            identity, pidfd, ..
        } = life
        {
            self.child = HeldChild::Exited {
                identity,
                pidfd,
                exited,
            };
        }
        for state in self.input_queue.fail_all() {
            self.send(&ToDaemon::InputState(state));
        }
        self.reap();
        // Orphans are reparented to this process, which is their subreaper. A holder that adopted its child was not the
        // subreaper when the child's descendants were started.
        if !self.has_adopted_child && !sys::has_children() {
            self.send(&ToDaemon::NoProcessesLeft);
        }
        self.send(&ToDaemon::Exited(exited));
    }

    /// Whether the pane's directory was removed, and not only moved: the open lock file has no link. The log and the
    /// exit record have no reader then, so the exit is reported without them.
    fn directory_is_removed(&self) -> bool {
        self.lock.metadata().is_ok_and(|lock| lock.nlink() == 0)
    }

    /// Records that the terminal has this size from the current offset of the log on.
    pub(super) fn record_size(&mut self, rows: u16, cols: u16) -> std::io::Result<()> {
        let size = SizeRecord {
            offset: self.pump.taken_offset(),
            rows,
            cols,
            generation: self.generation,
        };
        size.append(&self.dir, self.pump.log.first_offset())
    }

    /// Appends unsaved changes of the child record to its file. On a full disk, the next output tries again.
    pub(super) fn save_meta(&mut self) {
        if self.meta_unsaved
            && let Some(meta) = &self.meta
        {
            self.meta_unsaved = meta.append_child(&self.dir).is_err();
        }
    }
}

/// Reads the exit of a process that is not a child of this process. `None`: not available yet; POLLHUP follows when the
/// process is reaped.
fn read_adopted_exit(pidfd: BorrowedFd<'_>, identity: ProcessIdentity) -> Option<ProcessExit> {
    let mut last = None;
    // Two attempts, because the process may be reaped between the two queries.
    for _ in 0..2 {
        match sys::pidfd_exit(pidfd) {
            PidfdExitStatus::Exited(ending) => return Some(ending),
            PidfdExitStatus::NotReaped => last = None,
            PidfdExitStatus::Unavailable => last = Some(ProcessExit::Unknown),
        }
        if let Some(stat) = ProcessStat::get(identity.pid)
            && stat.start_time == identity.start_time
            && stat.has_ended()
            && proc::shows_exit_code(identity.pid)
        {
            return Some(ProcessExit::from_wait_status(stat.exit_code));
        }
    }
    last
}
