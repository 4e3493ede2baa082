//! What the holder does for those who connect. One daemon at a time: the newest with the highest epoch.

use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::SocketFlags;
use rustix::process::{Pid, Signal};

use super::life::Life;
use super::{Close, ECHO, Flow, Holder, MAX_STRANGERS};
use crate::close::{Closing, ProcessScope};
use crate::link::{HolderLink, MessageLink, ReadStatus};
use crate::probe::probe;
use crate::proc;
use crate::spawn::signal;
use crate::sys;
use crate::wire::{
    ChildState, HelloOk, HolderFrame, InputMessage, InputOutcome, InputState, RefusalReason,
    SignalTarget, ToDaemon, ToHolder, VERSION,
};

// Reads of 4 KiB per turn, so that a large paste and a flood of output share the process.
const READS_PER_TURN: usize = 64;

/// A connection of this user's, if one waits. Another user's is told so and dropped.
pub(super) fn accept(listener: &OwnedFd) -> io::Result<Option<HolderLink>> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = match rustix::net::accept_with(listener, flags) {
        Ok(socket) => socket,
        Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => return Ok(None),
        Err(e) => return Err(e.into()),
    };
    let peer = rustix::net::sockopt::socket_peercred(&socket)?;
    let mut link = MessageLink::new(socket);
    if peer.uid != rustix::process::geteuid() {
        refuse(
            &mut link,
            RefusalReason::NotYours,
            0,
            "this pane is another user's",
        );
        return Ok(None);
    }
    Ok(Some(link))
}

/// Says why, as far as the peer listens. The caller drops the connection.
pub(super) fn refuse(link: &mut HolderLink, reason: RefusalReason, errno: i32, what: &str) {
    let what = what.to_owned();
    let _ = link.push(
        &ToDaemon::Refused {
            reason,
            errno,
            what,
        },
        Vec::new(),
    );
    let _ = link.flush();
}

impl Holder {
    pub(super) fn accept(&mut self, listener: &OwnedFd) {
        if let Ok(Some(link)) = accept(listener) {
            if self.strangers.len() == MAX_STRANGERS {
                self.strangers.remove(0);
            }
            self.strangers.push(link);
        }
    }

    /// A connection that has not said Hello yet may say only that.
    pub(super) fn hear_stranger(&mut self, n: usize) {
        let Some(link) = self.strangers.get_mut(n) else {
            return;
        };
        let filled = link.fill();
        let heard = link.next();
        let stays = matches!(
            (&filled, &heard),
            (
                Ok(ReadStatus::Some | ReadStatus::Full | ReadStatus::Empty),
                Ok(None)
            )
        );
        if stays {
            return;
        }
        // The indices of this turn's other strangers shift; they are heard on the next turn.
        let mut link = self.strangers.remove(n);
        match heard {
            Ok(Some((HolderFrame::Known(ToHolder::Hello { version, epoch }), _)))
                if version > 0 =>
            {
                if epoch < self.epoch {
                    let what = format!(
                        "a daemon with epoch {} was here, yours is {epoch}",
                        self.epoch
                    );
                    refuse(&mut link, RefusalReason::Fenced, 0, &what);
                } else {
                    self.welcome(link, epoch);
                }
            }
            Ok(None) => {}
            Ok(Some(_)) | Err(_) => refuse(
                &mut link,
                RefusalReason::NoHello,
                0,
                "the first frame is a Hello",
            ),
        }
    }

    fn welcome(&mut self, link: HolderLink, epoch: u64) {
        if let Some(mut before) = self.daemon.replace(link) {
            let reason = if epoch > self.epoch {
                RefusalReason::Fenced
            } else {
                RefusalReason::Replaced
            };
            refuse(&mut before, reason, 0, "a newer connection took over");
        }
        self.epoch = epoch;
        self.had_daemon = true;
        let hello = self.hello();
        match self.handed_over() {
            Ok(fds) => self.say_with(&ToDaemon::HelloOk(hello), fds),
            // Out of fds: the daemon tries again, and the pane lives on.
            Err(_) => self.daemon = None,
        }
        if let Flow::Stalled { .. } = self.flow {
            self.tell_pending_exit();
        }
        // It may have sent more than the Hello in one go.
        self.hear_daemon();
    }

    fn hello(&self) -> HelloOk {
        let (rows, cols) = self.terminal.size();
        HelloOk {
            version: VERSION,
            holder: std::process::id() as i32,
            generation: self.generation,
            lossless: self.pump.lossless(),
            state: match &self.life {
                Life::Empty => ChildState::Empty,
                // An exit is told when it is recorded, not before.
                Life::Running { who, .. } | Life::Ending { who, .. } => ChildState::Running(*who),
                Life::Exited { who, exited, .. } => ChildState::Exited {
                    child: *who,
                    exited: *exited,
                },
            },
            log_end: self.pump.log.end(),
            last_input_seq: self.typist.last_seq(),
            answered_upto: self.typist.answered_upto(),
            rows,
            cols,
            stalled: match self.flow {
                Flow::Flowing => None,
                Flow::Stalled { errno, .. } => Some(errno),
            },
            closing: self.close.is_some(),
            child_pidfd: self.life.pidfd().is_some(),
            kept: self.kept.len() as u8,
        }
    }

    fn handed_over(&self) -> io::Result<Vec<OwnedFd>> {
        [
            &self.terminal.master,
            &self.pump.pipe_r,
            &self.pump.pipe_w,
            &self.grew,
        ]
        .into_iter()
        .chain(self.life.pidfd())
        .chain(&self.kept)
        .map(OwnedFd::try_clone)
        .collect()
    }

    pub(super) fn hear_daemon(&mut self) {
        for _ in 0..READS_PER_TURN {
            let Some(link) = &mut self.daemon else { return };
            let filled = link.fill();
            loop {
                let Some(link) = &mut self.daemon else { return };
                match link.next() {
                    Ok(None) => break,
                    Ok(Some((HolderFrame::Known(message), fds))) => self.answer(message, fds),
                    Ok(Some((HolderFrame::Unknown { kind }, _))) => {
                        self.say(&ToDaemon::Unknown { kind })
                    }
                    // What cannot be read cannot be trusted; the daemon may connect anew.
                    Err(_) => self.daemon = None,
                }
            }
            match filled {
                Ok(ReadStatus::Full) => {}
                // If there is more after all, `poll` says so.
                Ok(ReadStatus::Some | ReadStatus::Empty) => return,
                Ok(ReadStatus::Closed) | Err(_) => {
                    self.daemon = None;
                    return;
                }
            }
        }
    }

    /// Sends what is queued.
    pub(super) fn flush(&mut self) {
        self.told_by = None;
        if let Some(link) = &mut self.daemon
            && link.flush().is_err()
        {
            self.daemon = None;
        }
    }

    pub(super) fn say(&mut self, message: &ToDaemon) {
        self.say_with(message, Vec::new());
    }

    /// Tells where an input stands. That all is well can wait for a moment.
    fn say_typed(&mut self, state: InputState) {
        let quiet = self.daemon.as_ref().is_some_and(|d| !d.wants_write());
        let told_by = match state.outcome {
            InputOutcome::Written if quiet => Some(Instant::now() + ECHO),
            InputOutcome::Written => self.told_by,
            InputOutcome::Pending | InputOutcome::Duplicate | InputOutcome::Lost => None,
        };
        self.say(&ToDaemon::InputState(state));
        self.told_by = told_by;
    }

    fn say_with(&mut self, message: &ToDaemon, fds: Vec<OwnedFd>) {
        self.told_by = None;
        if let Some(link) = &mut self.daemon
            && link.push(message, fds).is_err()
        {
            // It does not read. It learns the rest at its next Hello.
            self.daemon = None;
        }
    }

    fn answer(&mut self, message: ToHolder, fds: Vec<OwnedFd>) {
        self.retry_soon(Instant::now());
        match message {
            // A repeated Hello changes nothing.
            ToHolder::Hello { .. } => {}
            ToHolder::Start(spec) => {
                if !matches!(self.life, Life::Empty) {
                    let what = "a child was started already".to_owned();
                    return self.say(&ToDaemon::StartFailed {
                        what,
                        errno: libc::EBUSY,
                    });
                }
                match self.start(&spec, fds) {
                    Ok((who, pidfd)) => {
                        self.say_with(&ToDaemon::Started(who), vec![pidfd]);
                        let (rows, cols) = self.terminal.size();
                        if (rows, cols) != (spec.rows, spec.cols) {
                            self.say(&ToDaemon::Resized { rows, cols });
                        }
                    }
                    Err(e) => self.say(&ToDaemon::StartFailed {
                        what: e.what,
                        errno: e.errno,
                    }),
                }
                // An environment is large, and is needed once.
                drop(spec);
                sys::release_memory();
            }
            ToHolder::Input(input) => self.input(input),
            ToHolder::Resize { id, rows, cols } => {
                let result = self.resize(rows, cols);
                self.tell(id, "resize", result);
            }
            ToHolder::Signal { id, target, signo } => {
                let result = self.signal(target, signo);
                self.tell(id, "signal", result);
            }
            ToHolder::Close { id, grace_ms } => {
                self.close(id, Duration::from_millis(u64::from(grace_ms)));
            }
            ToHolder::Probe { id } => match &self.life {
                Life::Running { who, .. } => {
                    let probe = probe(&self.terminal.master, who.pid);
                    // A program that waits for an answer has printed its question: the log has it before that is told.
                    if let Flow::Flowing = self.flow {
                        self.pump_once(Instant::now());
                    }
                    self.say(&ToDaemon::Probed { id, probe });
                }
                Life::Empty | Life::Ending { .. } | Life::Exited { .. } => {
                    self.tell(id, "probe", Err(io::Error::from_raw_os_error(libc::ESRCH)));
                }
            },
            ToHolder::Leave => match &self.life {
                Life::Empty | Life::Exited { .. } if self.close.is_none() => {
                    self.leaving = true;
                    self.told_by = None;
                }
                Life::Empty | Life::Exited { .. } | Life::Running { .. } | Life::Ending { .. } => {
                    let busy = io::Error::from_raw_os_error(libc::EBUSY);
                    self.tell(0, "leave: the child lives", Err(busy));
                }
            },
        }
    }

    fn tell(&mut self, id: u64, what: &str, result: io::Result<()>) {
        match result {
            Ok(()) => self.say(&ToDaemon::Done { id }),
            Err(e) => {
                let errno = e.raw_os_error().unwrap_or(libc::EIO);
                self.say(&ToDaemon::Failed {
                    id,
                    errno,
                    what: what.to_owned(),
                });
            }
        }
    }

    fn input(&mut self, input: InputMessage) {
        let seq = input.seq;
        if !matches!(self.life, Life::Running { .. }) {
            let (key, total) = (input.key, input.bytes.len() as u32);
            let state = InputState {
                seq,
                key,
                written: 0,
                total,
                outcome: InputOutcome::Lost,
            };
            // A key that was typed while the child lived is still known.
            let state = self.typist.seen(seq, key).unwrap_or(state);
            return self.say(&ToDaemon::InputState(state));
        }
        match self.typist.accept(input) {
            Some(state) => self.say(&ToDaemon::InputState(state)),
            None => {
                self.type_on();
                if let Some(state) = self.typist.pending(seq) {
                    self.say(&ToDaemon::InputState(state));
                }
            }
        }
    }

    /// Hands the terminal what it takes now.
    pub(super) fn type_on(&mut self) {
        let master = &self.terminal.master;
        for state in self.typist.write(|bytes| rustix::io::write(master, bytes)) {
            self.say_typed(state);
        }
    }

    /// What was printed before is moved first, so that a replay of the log meets the new size where the program did.
    pub(super) fn resize(&mut self, rows: u16, cols: u16) -> io::Result<()> {
        if self.terminal.size() == (rows, cols) {
            return Ok(());
        }
        if let (Life::Running { .. }, Flow::Flowing) = (&self.life, self.flow) {
            // One budget: a terminal holds less than that, and a flood has no clean cut anyway.
            self.pump_once(Instant::now());
        }
        self.record_size(rows, cols)?;
        self.terminal.resize(rows, cols)
    }

    fn signal(&mut self, target: SignalTarget, signo: i32) -> io::Result<()> {
        let signal = signal(signo)?;
        let nobody = || io::Error::from_raw_os_error(libc::ESRCH);
        let Life::Running { who, pidfd, .. } = &self.life else {
            return Err(nobody());
        };
        match target {
            SignalTarget::Child => Ok(rustix::process::pidfd_send_signal(pidfd, signal)?),
            SignalTarget::Foreground => {
                let group = rustix::termios::tcgetpgrp(&self.terminal.master)?;
                Ok(rustix::process::kill_process_group(group, signal)?)
            }
            SignalTarget::Session => signal_session(who.pid, signal),
        }
    }

    fn close(&mut self, id: u64, grace: Duration) {
        let now = Instant::now();
        match &mut self.close {
            Some(close) => {
                close.ids.push(id);
                close.closing.hurry(grace, now);
            }
            None => {
                let scope = ProcessScope {
                    leader: self.life.who().filter(|w| w.pid > 0),
                    marks: self
                        .meta
                        .as_ref()
                        .map(|m| m.marks.clone())
                        .unwrap_or_default(),
                    holder: Some(std::process::id() as i32),
                    is_sole_reaper: !self.took_over,
                };
                let closing = Closing::begin(scope, grace, now);
                self.close = Some(Close {
                    ids: vec![id],
                    closing,
                    until: None,
                    left: None,
                });
            }
        }
    }
}

fn signal_session(session: i32, signal: Signal) -> io::Result<()> {
    let mut result = Err(io::Error::from_raw_os_error(libc::ESRCH));
    for member in proc::all()
        .into_iter()
        .filter(|s| s.session == session && !s.is_over())
    {
        let Some(pid) = Pid::from_raw(member.pid) else {
            continue;
        };
        match rustix::process::kill_process(pid, signal) {
            Ok(()) => result = Ok(()),
            Err(e) if result.is_err() => result = Err(e.into()),
            Err(_) => {}
        }
    }
    result
}
