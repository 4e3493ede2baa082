//! A pane that somebody else's terminal shows: a holder that tmux started, in a pane of tmux. It prints there what the
//! child prints, types what a person types there, and gives the child's terminal that one's size.
//!
//! The log is what is shown from, at the view's own pace, so that a terminal that does not read slows no child and costs
//! no memory. When the view is gone, its child is hung up on, as the kernel does with a terminal that is gone.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use rustix::process::{Signal, kill_process_group, pidfd_send_signal};
use rustix::termios::OptionalActions;

use super::Holder;
use super::life::Life;
use crate::log::{LogRead, LogReader};
use crate::spawn::SpawnError;
use crate::sys;
use crate::wire::{ProcessExit, ToDaemon};

/// The terminal we were started in.
pub(super) struct View {
    terminal: OwnedFd,
    log: LogReader,
    /// Up to here the log has been taken for showing.
    taken: u64,
    /// Taken, and not shown yet.
    rest: Vec<u8>,
    farewell: Farewell,
}

/// How far the view is with its end. A terminal such as tmux's throws away what it has not read when the process in it
/// ends, so it is asked something behind the last byte, and its answer says that it has read all.
enum Farewell {
    NotYet,
    /// It goes on as long as the terminal takes something, and for a moment behind that.
    Draining {
        until: Instant,
        asked: bool,
        heard: Vec<u8>,
    },
    Over,
}

const QUESTION: &[u8] = b"\x1b[5n";
const ANSWER: &[u8] = b"\x1b[0n";
// It answers in a millisecond, if it answers at all.
const ANSWERED_WITHIN: Duration = Duration::from_secs(1);
const CHUNK: usize = 16 << 10;
// One turn shows so much; then the child's own output and requests have theirs.
const PER_TURN: usize = 64 << 10;

/// Where a holder that tmux starts listens, and where the daemon waits for it; both in the pane's directory.
pub(crate) const SOCKET: &str = "hold.sock";
pub(crate) const MEETING: &str = "here.sock";

/// Listens by itself, since nothing can be inherited through tmux, and tells the daemon that waits for it. The connection
/// to it stands for that daemon: it closes when the daemon dies.
pub(super) fn meet(dir: &Path) -> io::Result<(OwnedFd, OwnedFd)> {
    // By short names: a socket's path may not be long.
    std::env::set_current_dir(dir)?;
    let listener = crate::start::listen(Path::new(SOCKET))?;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let daemon = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::net::connect(&daemon, &SocketAddrUnix::new(MEETING)?)?;
    Ok((listener, daemon))
}

impl View {
    /// Of the terminal that is our stdin.
    pub(super) fn of_stdin(dir: &Path, shown_upto: u64) -> Result<View, SpawnError> {
        let wrong = |what: &'static str| move |e: Errno| SpawnError::new(what, e);
        let terminal = sys::inherited(0).ok_or(SpawnError {
            what: "the terminal to show it in".into(),
            errno: libc::EBADF,
        })?;
        let mut modes =
            rustix::termios::tcgetattr(&terminal).map_err(wrong("the terminal to show it in"))?;
        // Keys as they are pressed, and output as the child's own terminal has made it.
        modes.make_raw();
        rustix::termios::tcsetattr(&terminal, OptionalActions::Now, &modes)
            .map_err(wrong("the modes of the terminal to show it in"))?;
        rustix::io::ioctl_fionbio(&terminal, true).map_err(wrong("the terminal to show it in"))?;
        Ok(View {
            terminal,
            log: LogReader::new(dir),
            taken: shown_upto,
            rest: Vec::new(),
            farewell: Farewell::NotYet,
        })
    }

    pub(super) fn size(&self) -> Option<(u16, u16)> {
        let size = rustix::termios::tcgetwinsize(&self.terminal).ok()?;
        (size.ws_row > 0 && size.ws_col > 0).then_some((size.ws_row, size.ws_col))
    }

    fn as_fd(&self) -> BorrowedFd<'_> {
        self.terminal.as_fd()
    }

    /// Shows what there is, as far as the terminal takes it now. An error: it is gone.
    fn show(&mut self, end: u64) -> io::Result<()> {
        let mut budget = PER_TURN;
        loop {
            while !self.rest.is_empty() {
                match rustix::io::write(&self.terminal, &self.rest) {
                    Ok(written) => {
                        self.rest.drain(..written);
                        if let Farewell::Draining { until, .. } = &mut self.farewell {
                            *until = Instant::now() + ANSWERED_WITHIN;
                        }
                    }
                    Err(Errno::AGAIN) => return Ok(()),
                    Err(Errno::INTR) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            if self.taken >= end || budget == 0 {
                return Ok(());
            }
            let mut chunk = vec![0; CHUNK];
            match self.log.read_at(self.taken, &mut chunk)? {
                LogRead::Bytes(count) => {
                    chunk.truncate(count);
                    self.taken += count as u64;
                    self.rest = chunk;
                    budget = budget.saturating_sub(count);
                }
                // Slower than the log is kept; the rest of it is shown.
                LogRead::Gap { next, .. } => self.taken = next,
                LogRead::End => return Ok(()),
            }
        }
    }

    fn is_behind(&self, end: u64) -> bool {
        !self.rest.is_empty() || self.taken < end
    }

    /// Whether all was shown, and seen. To be asked again when something comes or the time is over.
    fn is_through(&mut self, end: u64, now: Instant) -> bool {
        let behind = self.is_behind(end);
        match &mut self.farewell {
            Farewell::NotYet => {
                self.farewell = Farewell::Draining {
                    until: now + ANSWERED_WITHIN,
                    asked: false,
                    heard: Vec::new(),
                };
                self.is_through(end, now)
            }
            Farewell::Draining { until, .. } if now >= *until => true,
            Farewell::Draining { asked, .. } if !behind && !*asked => {
                *asked = true;
                self.rest = QUESTION.to_vec();
                self.show(end).is_err()
            }
            Farewell::Draining { .. } => false,
            Farewell::Over => true,
        }
    }

    fn hear_answer(&mut self, bytes: &[u8]) {
        if let Farewell::Draining { heard, .. } = &mut self.farewell {
            heard.extend_from_slice(bytes);
            if heard.windows(ANSWER.len()).any(|window| window == ANSWER) {
                self.farewell = Farewell::Over;
            }
        }
    }
}

impl Holder {
    pub(super) fn view_interest(&self) -> Option<(BorrowedFd<'_>, PollFlags)> {
        let view = self.view.as_ref()?;
        let mut flags = PollFlags::empty();
        // A program that does not read what was typed makes the person wait, as any terminal does.
        if self.typist.is_empty() {
            flags |= PollFlags::IN;
        }
        if view.is_behind(self.pump.log.end()) {
            flags |= PollFlags::OUT;
        }
        Some((view.as_fd(), flags))
    }

    pub(super) fn view_deadline(&self) -> Option<Instant> {
        match self.view.as_ref()?.farewell {
            Farewell::Draining { until, .. } => Some(until),
            Farewell::NotYet | Farewell::Over => None,
        }
    }

    pub(super) fn show(&mut self) {
        let end = self.pump.log.end();
        if let Some(view) = &mut self.view
            && view.show(end).is_err()
        {
            self.view_lost();
        }
    }

    /// Something happened at the terminal that shows us.
    pub(super) fn viewed(&mut self, what: PollFlags) {
        if what.contains(PollFlags::OUT) {
            self.show();
        }
        if !what.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR) {
            return;
        }
        let Some(view) = &mut self.view else { return };
        let mut keys = [0; 4096];
        match rustix::io::read(&view.terminal, &mut keys) {
            Ok(0) => self.view_lost(),
            Ok(count) => {
                view.hear_answer(&keys[..count]);
                self.type_from_view(keys[..count].to_vec());
            }
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(_) => self.view_lost(),
        }
    }

    /// Types keys that a person pressed in the view, or the view's answer to a query of the program.
    fn type_from_view(&mut self, bytes: Vec<u8>) {
        let Life::Running { .. } = self.life else {
            return;
        };
        self.typist.person(bytes.clone());
        self.type_on();
        // The daemon is told before any output is moved, so that it knows the keys before their echo.
        self.say(&ToDaemon::Keyed { bytes });
        self.flush();
    }

    /// A person's `new window here` in tmux begins where we are.
    pub(super) fn go_to(&self, cwd: &Path) {
        if self.view.is_some() {
            let _ = std::env::set_current_dir(cwd);
        }
    }

    /// The view may have another size now.
    pub(super) fn view_resized(&mut self) {
        let Some((rows, cols)) = self.view.as_ref().and_then(View::size) else {
            return;
        };
        if self.terminal.size() == (rows, cols) || !matches!(self.life, Life::Running { .. }) {
            return;
        }
        if self.resize(rows, cols).is_ok() {
            // Told before any output is moved that was made for it.
            self.say(&ToDaemon::Resized { rows, cols });
            self.flush();
        }
    }

    fn view_lost(&mut self) {
        self.view = None;
        match &self.life {
            // Nobody is to find a program in a terminal that was closed before it began.
            Life::Empty => self.leaving = true,
            Life::Running { pidfd, .. } => {
                for signal in [Signal::HUP, Signal::CONT] {
                    let _ = pidfd_send_signal(pidfd, signal);
                    if let Ok(group) = rustix::termios::tcgetpgrp(&self.terminal.master) {
                        let _ = kill_process_group(group, signal);
                    }
                }
            }
            Life::Ending { .. } | Life::Exited { .. } => {}
        }
    }

    /// Whether nobody waits for the rest of the view.
    pub(super) fn view_is_through(&mut self) -> bool {
        let end = self.pump.log.end();
        match &mut self.view {
            Some(view) => view.is_through(end, Instant::now()),
            None => true,
        }
    }

    /// What tmux says of a process that ended in one of its panes is what it would have said of the child.
    pub(super) fn exit_code(&self) -> u8 {
        let (Some(_), Life::Exited { exited, .. }) = (&self.view, &self.life) else {
            return 0;
        };
        match exited.ending {
            ProcessExit::Code(code) => code as u8,
            ProcessExit::Signal { signo, .. } => 128u8.saturating_add(signo as u8),
            ProcessExit::Unknown => 0,
        }
    }
}
