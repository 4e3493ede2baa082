//! A pane that is shown in a tmux pane, where tmux has started the holder. The holder prints the child's output to the
//! tmux pane, types the keys pressed in the tmux pane, and gives the child's PTY the size of the tmux pane.
//!
//! The output is shown from the log, at the view's own pace, so that a tmux pane that does not read neither slows the
//! child nor costs memory. When the view is gone, the child gets a hang-up, as the kernel does for a closed terminal.

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
use super::child::HeldChild;
use crate::log::{LogRead, LogReader};
use crate::spawn::SpawnError;
use crate::sys;
use crate::wire::{ProcessExit, ToDaemon};

/// The terminal in which tmux started this process.
pub(super) struct TmuxView {
    terminal: OwnedFd,
    log: LogReader,
    /// Offset up to which the log has been read for the view.
    read_offset: u64,
    /// Read from the log and not yet written to the view.
    unwritten: Vec<u8>,
    shutdown: ViewShutdown,
}

/// Shutdown of the view. tmux discards unread output when the process in a pane exits, so the holder sends a status
/// query after the last byte, and the reply proves that tmux has read everything.
enum ViewShutdown {
    NotYet,
    /// Lasts as long as the terminal accepts output, plus [`STATUS_REPLY_TIMEOUT`].
    Draining {
        until: Instant,
        query_sent: bool,
        received: Vec<u8>,
    },
    Done,
}

const STATUS_QUERY: &[u8] = b"\x1b[5n";
const STATUS_REPLY: &[u8] = b"\x1b[0n";
// A terminal that supports the query replies within a millisecond.
const STATUS_REPLY_TIMEOUT: Duration = Duration::from_secs(1);
const CHUNK_SIZE: usize = 16 << 10;
// Bytes written to the view per loop iteration, so that the child's output and requests get their turn.
const MAX_SHOWN_PER_TURN: usize = 64 << 10;

/// Names of sockets in the pane's directory: the socket of a holder, and the socket where the daemon waits for a holder
/// that tmux starts.
pub(crate) const HOLDER_SOCKET: &str = "hold.sock";
pub(crate) const RENDEZVOUS_SOCKET: &str = "here.sock";

/// Binds the holder's own socket, because tmux passes no fds on, and connects to the waiting daemon. The connection
/// stands for the daemon: the kernel closes it when the daemon dies.
pub(super) fn connect_to_daemon(dir: &Path) -> io::Result<(OwnedFd, OwnedFd)> {
    // Relative names, because the path of a socket is limited to 107 bytes.
    std::env::set_current_dir(dir)?;
    let listener = crate::start::listen(Path::new(HOLDER_SOCKET))?;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let daemon = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::net::connect(&daemon, &SocketAddrUnix::new(RENDEZVOUS_SOCKET)?)?;
    Ok((listener, daemon))
}

impl TmuxView {
    /// Uses stdin as the view.
    pub(super) fn from_stdin(dir: &Path, shown_upto: u64) -> Result<TmuxView, SpawnError> {
        let failed = |what: &'static str| move |e: Errno| SpawnError::new(what, e);
        let terminal = sys::take_inherited_fd(0).ok_or(SpawnError {
            what: "tmux's terminal on stdin".into(),
            errno: libc::EBADF,
        })?;
        let mut modes =
            rustix::termios::tcgetattr(&terminal).map_err(failed("tmux's terminal on stdin"))?;
        // Raw mode: keys are read as they are pressed, and output was already processed by the child's own PTY.
        modes.make_raw();
        rustix::termios::tcsetattr(&terminal, OptionalActions::Now, &modes)
            .map_err(failed("the modes of tmux's terminal on stdin"))?;
        rustix::io::ioctl_fionbio(&terminal, true).map_err(failed("tmux's terminal on stdin"))?;
        Ok(TmuxView {
            terminal,
            log: LogReader::new(dir),
            read_offset: shown_upto,
            unwritten: Vec::new(),
            shutdown: ViewShutdown::NotYet,
        })
    }

    pub(super) fn size(&self) -> Option<(u16, u16)> {
        let size = rustix::termios::tcgetwinsize(&self.terminal).ok()?;
        (size.ws_row > 0 && size.ws_col > 0).then_some((size.ws_row, size.ws_col))
    }

    fn as_fd(&self) -> BorrowedFd<'_> {
        self.terminal.as_fd()
    }

    /// Writes available output until the view would block. An error means that the view is gone.
    fn show(&mut self, end: u64) -> io::Result<()> {
        let mut budget = MAX_SHOWN_PER_TURN;
        loop {
            while !self.unwritten.is_empty() {
                match rustix::io::write(&self.terminal, &self.unwritten) {
                    Ok(written) => {
                        self.unwritten.drain(..written);
                        if let ViewShutdown::Draining { until, .. } = &mut self.shutdown {
                            *until = Instant::now() + STATUS_REPLY_TIMEOUT;
                        }
                    }
                    Err(Errno::AGAIN) => return Ok(()),
                    Err(Errno::INTR) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            if self.read_offset >= end || budget == 0 {
                return Ok(());
            }
            let mut chunk = vec![0; CHUNK_SIZE];
            match self.log.read_at(self.read_offset, &mut chunk)? {
                LogRead::Bytes(count) => {
                    chunk.truncate(count);
                    self.read_offset += count as u64;
                    self.unwritten = chunk;
                    budget = budget.saturating_sub(count);
                }
                // The view is slower than the log's cap allows, and continues with the oldest output that is kept.
                LogRead::Gap { next, .. } => self.read_offset = next,
                LogRead::End => return Ok(()),
            }
        }
    }

    fn is_behind(&self, end: u64) -> bool {
        !self.unwritten.is_empty() || self.read_offset < end
    }

    /// Continues the shutdown. Returns whether the view is done: the terminal has read all output, or the time is over.
    /// To be called again on every event of the view and at the deadline.
    fn drain(&mut self, end: u64, now: Instant) -> bool {
        let behind = self.is_behind(end);
        match &mut self.shutdown {
            ViewShutdown::NotYet => {
                self.shutdown = ViewShutdown::Draining {
                    until: now + STATUS_REPLY_TIMEOUT,
                    query_sent: false,
                    received: Vec::new(),
                };
                self.drain(end, now)
            }
            ViewShutdown::Draining { until, .. } if now >= *until => true,
            ViewShutdown::Draining { query_sent, .. } if !behind && !*query_sent => {
                *query_sent = true;
                self.unwritten = STATUS_QUERY.to_vec();
                self.show(end).is_err()
            }
            ViewShutdown::Draining { .. } => false,
            ViewShutdown::Done => true,
        }
    }

    fn receive_status_reply(&mut self, bytes: &[u8]) {
        if let ViewShutdown::Draining { received, .. } = &mut self.shutdown {
            received.extend_from_slice(bytes);
            if received
                .windows(STATUS_REPLY.len())
                .any(|window| window == STATUS_REPLY)
            {
                self.shutdown = ViewShutdown::Done;
            }
        }
    }
}

impl Holder {
    pub(super) fn view_interest(&self) -> Option<(BorrowedFd<'_>, PollFlags)> {
        let view = self.view.as_ref()?;
        let mut flags = PollFlags::empty();
        // Keys are read only while no input is queued: a program that does not read its input makes the person wait, as
        // in any terminal.
        if self.input_queue.is_empty() {
            flags |= PollFlags::IN;
        }
        if view.is_behind(self.pump.log.end_offset()) {
            flags |= PollFlags::OUT;
        }
        Some((view.as_fd(), flags))
    }

    pub(super) fn view_deadline(&self) -> Option<Instant> {
        match self.view.as_ref()?.shutdown {
            ViewShutdown::Draining { until, .. } => Some(until),
            ViewShutdown::NotYet | ViewShutdown::Done => None,
        }
    }

    pub(super) fn show(&mut self) {
        let end = self.pump.log.end_offset();
        if let Some(view) = &mut self.view
            && view.show(end).is_err()
        {
            self.drop_view();
        }
    }

    /// Handles poll events of the view's terminal.
    pub(super) fn handle_view_event(&mut self, what: PollFlags) {
        if what.contains(PollFlags::OUT) {
            self.show();
        }
        if !what.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR) {
            return;
        }
        let Some(view) = &mut self.view else { return };
        let mut keys = [0; 4096];
        match rustix::io::read(&view.terminal, &mut keys) {
            Ok(0) => self.drop_view(),
            Ok(count) => {
                view.receive_status_reply(&keys[..count]);
                self.type_from_view(keys[..count].to_vec());
            }
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(_) => self.drop_view(),
        }
    }

    /// Types keys that a person pressed in the view, or the view's reply to a terminal query of the program.
    fn type_from_view(&mut self, bytes: Vec<u8>) {
        let HeldChild::Running { .. } = self.child else {
            return;
        };
        self.input_queue.push_view_keys(bytes.clone());
        self.write_input();
        // The keys are reported before any output is moved, so that the daemon receives them before their echo.
        self.send(&ToDaemon::ViewKeys { bytes });
        self.flush();
    }

    /// Enters the child's directory, because tmux opens new windows in the directory of the process in the current
    /// pane.
    pub(super) fn change_directory(&self, cwd: &Path) {
        if self.view.is_some() {
            let _ = std::env::set_current_dir(cwd);
        }
    }

    /// Applies the view's current size to the PTY.
    pub(super) fn adopt_view_size(&mut self) {
        let Some((rows, cols)) = self.view.as_ref().and_then(TmuxView::size) else {
            return;
        };
        if self.terminal.size() == (rows, cols) || !matches!(self.child, HeldChild::Running { .. })
        {
            return;
        }
        if self.resize(rows, cols).is_ok() {
            // Reported before any output that was printed for the new size is moved.
            self.send(&ToDaemon::Resized { rows, cols });
            self.flush();
        }
    }

    fn drop_view(&mut self) {
        self.view = None;
        match &self.child {
            // A view that is closed before the child starts prevents the start.
            HeldChild::NotStarted => self.leaving = true,
            HeldChild::Running { pidfd, .. } => {
                for signal in [Signal::HUP, Signal::CONT] {
                    let _ = pidfd_send_signal(pidfd, signal);
                    if let Ok(group) = rustix::termios::tcgetpgrp(&self.terminal.master) {
                        let _ = kill_process_group(group, signal);
                    }
                }
            }
            HeldChild::Ending { .. } | HeldChild::Exited { .. } => {}
        }
    }

    /// Returns whether the view is done, or absent.
    pub(super) fn drain_view(&mut self) -> bool {
        let end = self.pump.log.end_offset();
        match &mut self.view {
            Some(view) => view.drain(end, Instant::now()),
            None => true,
        }
    }

    /// The holder exits with the code of the child, so that tmux reports this code for the pane.
    pub(super) fn exit_code(&self) -> u8 {
        let (Some(_), HeldChild::Exited { exited, .. }) = (&self.view, &self.child) else {
            return 0;
        };
        match exited.ending {
            ProcessExit::Code(code) => code as u8,
            ProcessExit::Signal { signo, .. } => 128u8.saturating_add(signo as u8),
            ProcessExit::Unknown => 0,
        }
    }
}
