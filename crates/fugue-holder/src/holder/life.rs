//! The child's life as the holder knows it: empty, running, ending, exited. An ending is recorded on disk before
//! anyone is told, and after all that the child printed is in the log.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use rustix::event::PollFlags;

use super::view::View;
use super::{Flow, Holder, More};
use crate::args::Adopt;
use crate::input::Typist;
use crate::log::Moved;
use crate::proc::{self, Stat};
use crate::record::{ChildRecord, ExitRecord, SizeAt, boot_id};
use crate::spawn::{SpawnError, retry_exhausted};
use crate::sys::{self, PidfdAnswer, ProcessExit, Reap, Whom};
use crate::wire::{ChildExit, ChildSpec, ProcessIdentity, ToDaemon};

pub(super) enum Life {
    Empty,
    Running {
        who: ProcessIdentity,
        pidfd: OwnedFd,
        kin: Kin,
        /// The terminal reported a hang-up that reopening did not cure; its output ends, the child may go on.
        hung_up: bool,
    },
    /// It ended; its last output is still to be moved, and its exit to be recorded.
    Ending {
        who: ProcessIdentity,
        pidfd: Option<OwnedFd>,
        ending: ProcessExit,
    },
    Exited {
        who: ProcessIdentity,
        pidfd: Option<OwnedFd>,
        exited: ChildExit,
    },
}

/// Who tells of the child's end.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kin {
    /// We are its parent.
    Parent,
    /// We took it over, and its pidfd tells.
    Adopted,
    /// The same, ended but not yet reaped, so that nobody may tell its code until it is: the pidfd's POLLHUP.
    AdoptedUnreaped,
}

impl Life {
    pub(super) fn adopted_pidfd(&self) -> Option<(BorrowedFd<'_>, PollFlags)> {
        let Life::Running { pidfd, kin, .. } = self else {
            return None;
        };
        match kin {
            Kin::Parent => None,
            Kin::Adopted => Some((pidfd.as_fd(), PollFlags::IN)),
            Kin::AdoptedUnreaped => Some((pidfd.as_fd(), PollFlags::empty())),
        }
    }

    pub(super) fn pidfd(&self) -> Option<&OwnedFd> {
        match self {
            Life::Empty => None,
            Life::Running { pidfd, .. } => Some(pidfd),
            Life::Ending { pidfd, .. } | Life::Exited { pidfd, .. } => pidfd.as_ref(),
        }
    }

    pub(super) fn who(&self) -> Option<ProcessIdentity> {
        match self {
            Life::Empty => None,
            Life::Running { who, .. } | Life::Ending { who, .. } | Life::Exited { who, .. } => {
                Some(*who)
            }
        }
    }
}

impl Holder {
    /// Starts the child. What could not be done is said exactly, and then there is no child and no trace of one.
    pub(super) fn start(
        &mut self,
        spec: &ChildSpec,
        kept: Vec<OwnedFd>,
    ) -> Result<(ProcessIdentity, OwnedFd), SpawnError> {
        let wrong = |what: &'static str| move |e| SpawnError::new(what, e);
        // Who is shown somewhere has that one's size.
        let size = self.view.as_ref().and_then(View::size);
        let (rows, cols) = size.unwrap_or((spec.rows, spec.cols));
        self.terminal
            .resize(rows, cols)
            .map_err(wrong("the terminal's size"))?;
        self.pump.log.set_limits(spec.log_cap, spec.segment);
        self.record_size(rows, cols)
            .map_err(wrong("the record of sizes"))?;
        // Before the child is there, so that whoever comes after a crash knows that it may have been.
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
            .map_err(wrong("the room for the record of the child's end"))?;
        meta.write(&self.dir)
            .map_err(wrong("the record of the child"))?;
        let started = self.terminal.start(spec, &kept).and_then(|child| {
            match retry_exhausted(|| child.pidfd.try_clone()) {
                Ok(handed) => Ok((child, handed)),
                Err(e) => {
                    child.abandon();
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
        // We have not reaped it, so it is there to be asked even if it has ended.
        let start_time = Stat::of(child.pid).map_or(0, |s| s.start_time);
        let who = ProcessIdentity {
            pid: child.pid,
            start_time,
        };
        meta.child = Some(who);
        self.meta = Some(meta);
        self.meta_unsaved = true;
        self.save_meta();
        self.kept = kept;
        self.go_to(Path::new(OsStr::from_bytes(&spec.cwd)));
        self.life = Life::Running {
            who,
            pidfd: child.pidfd,
            kin: Kin::Parent,
            hung_up: false,
        };
        Ok((who, handed))
    }

    /// Takes over from a holder that died.
    pub(super) fn adopt(
        &mut self,
        adopt: &Adopt,
        pidfd: Option<OwnedFd>,
    ) -> Result<(), SpawnError> {
        self.took_over = true;
        self.typist = Typist::resume(adopt.last_seq, adopt.answered_upto);
        let recorded = self.meta.as_ref().and_then(|m| m.child);
        let mut who = adopt.child.or(recorded);
        let recorded = match ExitRecord::read(&self.dir, self.generation) {
            Err(error) if error.kind() == std::io::ErrorKind::InvalidData => None,
            recorded => {
                recorded.map_err(|e| SpawnError::new("the record of the child's end", e))?
            }
        };
        if let (Some(who), Some(record)) = (who, recorded) {
            self.life = Life::Exited {
                who,
                pidfd,
                exited: record.exited,
            };
            return Ok(());
        }
        if who.is_none() {
            // It died between the start and the telling; the terminal knows whose it is.
            who = rustix::termios::tcgetsid(&self.terminal.master)
                .ok()
                .and_then(|sid| Stat::of(sid.as_raw_nonzero().get()))
                .map(|s| s.identity());
        }
        let pidfd = pidfd.or_else(|| proc::pidfd(who?).ok());
        self.life = match (who, pidfd) {
            (Some(who), Some(pidfd)) => Life::Running {
                who,
                pidfd,
                kin: Kin::Adopted,
                hung_up: false,
            },
            (Some(who), None) => Life::Ending {
                who,
                pidfd: None,
                ending: ProcessExit::Unknown,
            },
            // A start was under way and nothing of it is left: it may have run, and that is all that can be said.
            (None, _) if self.meta.is_some() => Life::Ending {
                who: ProcessIdentity {
                    pid: 0,
                    start_time: 0,
                },
                pidfd: None,
                ending: ProcessExit::Unknown,
            },
            (None, _) => Life::Empty,
        };
        if let (Some(who), Some(meta)) = (who, &mut self.meta) {
            meta.holder = std::process::id() as i32;
            meta.child = Some(who);
            self.meta_unsaved = true;
        }
        // First of all, what the dead one left in the pipe.
        self.pump_once(Instant::now());
        Ok(())
    }

    /// Notes the child's end, and reaps the orphans that became ours.
    pub(super) fn reap(&mut self) {
        while let Ok(Some((pid, ending))) = sys::ended_child(Whom::Any, Reap::Leave) {
            let ours = match &self.life {
                Life::Running { who, .. } | Life::Ending { who, .. } => who.pid == pid,
                Life::Empty | Life::Exited { .. } => false,
            };
            if ours {
                // It stays a zombie until its exit is recorded: if we die before that, it can still be asked.
                self.child_ended(ending);
                return;
            }
            let _ = sys::ended_child(Whom::Pid(pid), Reap::Take);
        }
    }

    pub(super) fn adopted_child_changed(&mut self, what: PollFlags) {
        let Life::Running {
            who, pidfd, kin, ..
        } = &mut self.life
        else {
            return;
        };
        match ending_of(pidfd.as_fd(), *who) {
            Some(ending) => self.child_ended(ending),
            None if what.contains(PollFlags::HUP) => self.child_ended(ProcessExit::Unknown),
            None => *kin = Kin::AdoptedUnreaped,
        }
    }

    fn child_ended(&mut self, ending: ProcessExit) {
        let life = std::mem::replace(&mut self.life, Life::Empty);
        self.life = match life {
            Life::Running { who, pidfd, .. } => Life::Ending {
                who,
                pidfd: Some(pidfd),
                ending,
            },
            other => other,
        };
        if let Flow::Stalled { .. } = self.flow {
            self.tell_pending_exit();
        }
    }

    /// Tells of a child that has ended while its output waits for room on the disk.
    pub(super) fn tell_pending_exit(&mut self) {
        if let Life::Ending { ending, .. } = self.life {
            let in_terminal = rustix::io::ioctl_fionread(&self.terminal.master).unwrap_or(0);
            let at = self.pump.taken_upto() + in_terminal;
            self.say(&ToDaemon::ExitPending(ChildExit { ending, at }));
        }
    }

    /// The terminal hung up. If the child lives on, it may open `/dev/tty` again, so the terminal is brought back.
    pub(super) fn hung_up(&mut self) {
        if let Life::Running { hung_up, .. } = &mut self.life {
            self.terminal.reopen();
            *hung_up = !self.terminal.is_open();
        }
    }

    /// Moves what an ended child printed last, records its exit, and only then tells.
    pub(super) fn finish_ending(&mut self, now: Instant) -> More {
        let Life::Ending { who, ending, .. } = &self.life else {
            return More::AfterEvents;
        };
        let (who, ending) = (*who, *ending);
        if let Flow::Stalled { retry, .. } = self.flow
            && now < retry
        {
            return More::AfterEvents;
        }
        match self.pump_once(now) {
            // An ended session leader hung the terminal up, and reading one flushes what is under way: now nothing
            // more can come that the child printed.
            Some(Moved::Empty | Moved::HungUp) => {}
            Some(Moved::Budget) => return More::Now,
            None if self.directory_is_removed() => {}
            None => return More::AfterEvents,
        }
        let exited = ChildExit {
            ending,
            at: self.pump.log.end(),
        };
        // The output first: an exit record says that all output before it is there.
        let synced = self.pump.log.sync();
        if let Err(error) = synced.and_then(|()| self.record_exit(exited))
            && !self.directory_is_removed()
        {
            self.stall(error, now);
            return More::AfterEvents;
        }
        self.flows();
        self.exit_recorded(who, exited);
        More::Now
    }

    /// The pane is being closed and there is no room for the rest of its output: it is lost, and the exit says how much.
    pub(super) fn give_output_up(&mut self) {
        let Life::Ending { who, ending, .. } = self.life else {
            return;
        };
        let at = self.pump.log.end() + self.pump.discard(&self.terminal.master);
        let exited = ChildExit { ending, at };
        // What of the output is there is kept, if the disk lets it.
        let _ = self.pump.log.sync();
        // Where not even its reserved room can be written (a disk that is read-only now), the daemon records it.
        let _ = self.record_exit(exited);
        self.exit_recorded(who, exited);
    }

    fn record_exit(&self, exited: ChildExit) -> std::io::Result<()> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let record = ExitRecord {
            exited,
            recorded_ms: now.map_or(0, |since| since.as_millis() as u64),
        };
        record.write(&self.dir, self.generation)
    }

    fn exit_recorded(&mut self, who: ProcessIdentity, exited: ChildExit) {
        let _ = sys::ended_child(Whom::Pid(who.pid), Reap::Take);
        let life = std::mem::replace(&mut self.life, Life::Empty);
        if let Life::Ending { who, pidfd, .. } = life {
            self.life = Life::Exited { who, pidfd, exited };
        }
        for state in self.typist.give_up() {
            self.say(&ToDaemon::InputState(state));
        }
        self.reap();
        // Orphans come to us, their reaper; a holder that took a child over never was that for its descendants.
        if !self.took_over && !sys::has_children() {
            self.say(&ToDaemon::Alone);
        }
        self.say(&ToDaemon::Exited(exited));
    }

    /// Whether the pane's directory was removed, and not just moved: the lock file in it has no name any more. Nobody can
    /// read the log or an exit record then, so the end of the child waits for neither.
    fn directory_is_removed(&self) -> bool {
        self.lock.metadata().is_ok_and(|lock| lock.nlink() == 0)
    }

    /// From here on in the log, the terminal has this size.
    pub(super) fn record_size(&mut self, rows: u16, cols: u16) -> std::io::Result<()> {
        let size = SizeAt {
            offset: self.pump.taken_upto(),
            rows,
            cols,
            generation: self.generation,
        };
        size.append(&self.dir, self.pump.log.first())
    }

    /// Tried again with the next output if the disk is full.
    pub(super) fn save_meta(&mut self) {
        if self.meta_unsaved
            && let Some(meta) = &self.meta
        {
            self.meta_unsaved = meta.append_child(&self.dir).is_err();
        }
    }
}

/// How a process ended that is not our child. `None`: not said yet; POLLHUP will come when it is reaped.
fn ending_of(pidfd: BorrowedFd<'_>, who: ProcessIdentity) -> Option<ProcessExit> {
    let mut last = None;
    // Twice, because it may be reaped between the two questions.
    for _ in 0..2 {
        match sys::pidfd_exit(pidfd) {
            PidfdAnswer::Ended(ending) => return Some(ending),
            PidfdAnswer::NotYet => last = None,
            PidfdAnswer::CannotSay => last = Some(ProcessExit::Unknown),
        }
        if let Some(stat) = Stat::of(who.pid)
            && stat.start_time == who.start_time
            && stat.is_over()
            && proc::shows_exit_code(who.pid)
        {
            return Some(ProcessExit::from_wait_status(stat.exit_code));
        }
    }
    last
}
