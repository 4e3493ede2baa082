//! Connections and requests. A holder serves one daemon at a time: the latest connection with the highest epoch.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::SocketFlags;
use rustix::process::{Pid, Signal};

use super::child::HeldChild;
use super::{Holder, INPUT_ACK_DELAY, MAX_PENDING_CONNECTIONS, OutputFlow, PendingClose};
use crate::close::{ProcessScope, ProcessTermination};
use crate::link::{HolderLink, MessageLink, ReadStatus};
use crate::probe::probe_master;
use crate::proc;
use crate::spawn::parse_signal;
use crate::sys;
use crate::wire::{
    ChildState, HelloOk, HolderFrame, InputMessage, InputOutcome, InputState, RefusalReason,
    SignalTarget, ToDaemon, ToHolder, VERSION,
};

// Number of 4 KiB reads per loop iteration, so that a large paste and a flood of output share the process.
const MAX_READS_PER_TURN: usize = 64;

/// Accepts a waiting connection. A connection of another user is refused and dropped.
pub(super) fn accept(listener: &OwnedFd) -> io::Result<Option<HolderLink>> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = match rustix::net::accept_with(listener, flags) {
        Ok(socket) => socket,
        Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => return Ok(None),
        Err(e) => return Err(e.into()),
    };
    let peer = sys::socket_peer(socket.as_fd())?;
    let mut link = MessageLink::new(socket);
    if peer.uid != rustix::process::geteuid().as_raw() {
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

/// Sends a refusal, as far as the peer reads. The caller drops the connection.
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
            if self.pending_connections.len() == MAX_PENDING_CONNECTIONS {
                self.pending_connections.remove(0);
            }
            self.pending_connections.push(link);
        }
    }

    /// Reads from a connection without a Hello. Only a Hello is accepted.
    pub(super) fn read_pending_connection(&mut self, n: usize) {
        let Some(link) = self.pending_connections.get_mut(n) else {
            return;
        };
        let filled = link.read_socket();
        let received = link.next();
        let stays = matches!(
            (&filled, &received),
            (
                Ok(ReadStatus::Some | ReadStatus::Full | ReadStatus::Empty),
                Ok(None)
            )
        );
        if stays {
            return;
        }
        // The indices of the other pending connections shift; their events are handled in the next iteration.
        let mut link = self.pending_connections.remove(n);
        match received {
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
                    self.accept_daemon(link, epoch);
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

    fn accept_daemon(&mut self, link: HolderLink, epoch: u64) {
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
        match self.dup_guarded_fds() {
            Ok(fds) => self.send_with_fds(&ToDaemon::HelloOk(hello), fds),
            // No fd is free: the daemon connects again, and the pane keeps running.
            Err(_) => self.daemon = None,
        }
        if let OutputFlow::Stalled { .. } = self.flow {
            self.send_pending_exit();
        }
        // Further messages may have arrived together with the Hello.
        self.read_daemon();
    }

    fn hello(&self) -> HelloOk {
        let (rows, cols) = self.terminal.size();
        HelloOk {
            version: VERSION,
            holder: std::process::id() as i32,
            generation: self.generation,
            lossless: self.pump.is_lossless(),
            state: match &self.child {
                HeldChild::NotStarted => ChildState::Empty,
                // An exit is reported only when recorded.
                HeldChild::Running { identity, .. } | HeldChild::Ending { identity, .. } => {
                    ChildState::Running(*identity)
                }
                HeldChild::Exited {
                    identity, exited, ..
                } => ChildState::Exited {
                    child: *identity,
                    exited: *exited,
                },
            },
            log_end: self.pump.log.end_offset(),
            last_input_seq: self.input_queue.last_seq(),
            answered_upto: self.input_queue.answered_upto(),
            rows,
            cols,
            stalled: match self.flow {
                OutputFlow::Flowing => None,
                OutputFlow::Stalled { errno, .. } => Some(errno),
            },
            closing: self.close.is_some(),
            child_pidfd: self.child.pidfd().is_some(),
            kept: self.kept_fds.len() as u8,
        }
    }

    fn dup_guarded_fds(&self) -> io::Result<Vec<OwnedFd>> {
        [
            &self.terminal.master,
            &self.pump.pipe_r,
            &self.pump.pipe_w,
            &self.growth_eventfd,
        ]
        .into_iter()
        .chain(self.child.pidfd())
        .chain(&self.kept_fds)
        .map(OwnedFd::try_clone)
        .collect()
    }

    pub(super) fn read_daemon(&mut self) {
        for _ in 0..MAX_READS_PER_TURN {
            let Some(link) = &mut self.daemon else { return };
            let filled = link.read_socket();
            loop {
                let Some(link) = &mut self.daemon else { return };
                match link.next() {
                    Ok(None) => break,
                    Ok(Some((HolderFrame::Known(message), fds))) => {
                        self.handle_request(message, fds)
                    }
                    Ok(Some((HolderFrame::Unknown { kind }, _))) => {
                        self.send(&ToDaemon::Unknown { kind })
                    }
                    // A stream with an invalid frame is not trusted any further. The daemon may connect again.
                    Err(_) => self.daemon = None,
                }
            }
            match filled {
                Ok(ReadStatus::Full) => {}
                // `poll` reports further bytes.
                Ok(ReadStatus::Some | ReadStatus::Empty) => return,
                Ok(ReadStatus::Closed) | Err(_) => {
                    self.daemon = None;
                    return;
                }
            }
        }
    }

    /// Sends the queued messages.
    pub(super) fn flush(&mut self) {
        self.flush_at = None;
        if let Some(link) = &mut self.daemon
            && link.flush().is_err()
        {
            self.daemon = None;
        }
    }

    pub(super) fn send(&mut self, message: &ToDaemon) {
        self.send_with_fds(message, Vec::new());
    }

    /// Reports the state of an input. The acknowledgement of a written input may be delayed.
    fn send_input_state(&mut self, state: InputState) {
        let quiet = self.daemon.as_ref().is_some_and(|d| !d.wants_write());
        let told_by = match state.outcome {
            InputOutcome::Written if quiet => Some(Instant::now() + INPUT_ACK_DELAY),
            InputOutcome::Written => self.flush_at,
            InputOutcome::Pending | InputOutcome::Duplicate | InputOutcome::Lost => None,
        };
        self.send(&ToDaemon::InputState(state));
        self.flush_at = told_by;
    }

    fn send_with_fds(&mut self, message: &ToDaemon, fds: Vec<OwnedFd>) {
        self.flush_at = None;
        if let Some(link) = &mut self.daemon
            && link.push(message, fds).is_err()
        {
            // The peer does not read. The next Hello brings the peer up to date.
            self.daemon = None;
        }
    }

    fn handle_request(&mut self, message: ToHolder, fds: Vec<OwnedFd>) {
        self.retry_soon(Instant::now());
        match message {
            // A repeated Hello has no effect.
            ToHolder::Hello { .. } => {}
            ToHolder::Start(spec) => {
                if !matches!(self.child, HeldChild::NotStarted) {
                    let what = "a child was started already".to_owned();
                    return self.send(&ToDaemon::StartFailed {
                        what,
                        errno: libc::EBUSY,
                    });
                }
                match self.start(&spec, fds) {
                    Ok((identity, pidfd)) => {
                        self.send_with_fds(&ToDaemon::Started(identity), vec![pidfd]);
                        let (rows, cols) = self.terminal.size();
                        if (rows, cols) != (spec.rows, spec.cols) {
                            self.send(&ToDaemon::Resized { rows, cols });
                        }
                    }
                    Err(e) => self.send(&ToDaemon::StartFailed {
                        what: e.what,
                        errno: e.errno,
                    }),
                }
                // The environment is large and not needed again.
                drop(spec);
                sys::release_memory();
            }
            ToHolder::Input(input) => self.input(input),
            ToHolder::Resize { id, rows, cols } => {
                let result = self.resize(rows, cols);
                self.reply(id, "resize", result);
            }
            ToHolder::Signal { id, target, signo } => {
                let result = self.signal(target, signo);
                self.reply(id, "signal", result);
            }
            ToHolder::Close { id, grace_ms } => {
                self.close(id, Duration::from_millis(u64::from(grace_ms)));
            }
            ToHolder::Probe { id } => match &self.child {
                HeldChild::Running { identity, .. } => {
                    let probe = probe_master(&self.terminal.master, identity.pid);
                    // A program that waits for input has printed its question. The question must be in the log before
                    // the probe is reported.
                    if let OutputFlow::Flowing = self.flow {
                        self.move_output(Instant::now());
                    }
                    self.send(&ToDaemon::Probed { id, probe });
                }
                HeldChild::NotStarted | HeldChild::Ending { .. } | HeldChild::Exited { .. } => {
                    self.reply(id, "probe", Err(io::Error::from_raw_os_error(libc::ESRCH)));
                }
            },
            ToHolder::Leave => match &self.child {
                HeldChild::NotStarted | HeldChild::Exited { .. } if self.close.is_none() => {
                    self.leaving = true;
                    self.flush_at = None;
                }
                HeldChild::NotStarted
                | HeldChild::Exited { .. }
                | HeldChild::Running { .. }
                | HeldChild::Ending { .. } => {
                    let busy = io::Error::from_raw_os_error(libc::EBUSY);
                    self.reply(0, "leave: the child lives", Err(busy));
                }
            },
        }
    }

    fn reply(&mut self, id: u64, what: &str, result: io::Result<()>) {
        match result {
            Ok(()) => self.send(&ToDaemon::Done { id }),
            Err(e) => {
                let errno = e.raw_os_error().unwrap_or(libc::EIO);
                self.send(&ToDaemon::Failed {
                    id,
                    errno,
                    what: what.to_owned(),
                });
            }
        }
    }

    fn input(&mut self, input: InputMessage) {
        let seq = input.seq;
        if !matches!(self.child, HeldChild::Running { .. }) {
            let (key, total) = (input.key, input.bytes.len() as u32);
            let state = InputState {
                seq,
                key,
                written: 0,
                total,
                outcome: InputOutcome::Lost,
            };
            // The key of an input that was written while the child ran is still recognised.
            let state = self.input_queue.find_duplicate(seq, key).unwrap_or(state);
            return self.send(&ToDaemon::InputState(state));
        }
        match self.input_queue.accept(input) {
            Some(state) => self.send(&ToDaemon::InputState(state)),
            None => {
                self.write_input();
                if let Some(state) = self.input_queue.pending_state(seq) {
                    self.send(&ToDaemon::InputState(state));
                }
            }
        }
    }

    /// Writes queued input until the PTY would block.
    pub(super) fn write_input(&mut self) {
        let master = &self.terminal.master;
        for state in self
            .input_queue
            .write(|bytes| rustix::io::write(master, bytes))
        {
            self.send_input_state(state);
        }
    }

    /// Resizes the PTY. Output printed before is moved first, so that a replay of the log applies the new size where
    /// the program received it.
    pub(super) fn resize(&mut self, rows: u16, cols: u16) -> io::Result<()> {
        if self.terminal.size() == (rows, cols) {
            return Ok(());
        }
        if let (HeldChild::Running { .. }, OutputFlow::Flowing) = (&self.child, self.flow) {
            // One budget suffices: a PTY buffers less than that, and a flood of output has no clean boundary.
            self.move_output(Instant::now());
        }
        self.record_size(rows, cols)?;
        self.terminal.resize(rows, cols)
    }

    fn signal(&mut self, target: SignalTarget, signo: i32) -> io::Result<()> {
        let signal = parse_signal(signo)?;
        let no_process = || io::Error::from_raw_os_error(libc::ESRCH);
        let HeldChild::Running {
            identity, pidfd, ..
        } = &self.child
        else {
            return Err(no_process());
        };
        match target {
            SignalTarget::Child => Ok(rustix::process::pidfd_send_signal(pidfd, signal)?),
            SignalTarget::Foreground => {
                let group = rustix::termios::tcgetpgrp(&self.terminal.master)?;
                Ok(rustix::process::kill_process_group(group, signal)?)
            }
            SignalTarget::Session => signal_session(identity.pid, signal),
        }
    }

    fn close(&mut self, id: u64, grace: Duration) {
        let now = Instant::now();
        match &mut self.close {
            Some(close) => {
                close.ids.push(id);
                close.termination.shorten_grace(grace, now);
            }
            None => {
                let scope = ProcessScope {
                    leader: self.child.identity().filter(|w| w.pid > 0),
                    marks: self
                        .meta
                        .as_ref()
                        .map(|m| m.marks.clone())
                        .unwrap_or_default(),
                    holder: Some(std::process::id() as i32),
                    is_sole_reaper: !self.has_adopted_child,
                };
                let termination = ProcessTermination::begin(scope, grace, now);
                self.close = Some(PendingClose {
                    ids: vec![id],
                    termination,
                    until: None,
                    left: None,
                });
            }
        }
    }
}

fn signal_session(session: i32, signal: Signal) -> io::Result<()> {
    let mut result = Err(io::Error::from_raw_os_error(libc::ESRCH));
    for member in proc::all_processes()
        .into_iter()
        .filter(|s| s.session == session && !s.has_ended())
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
