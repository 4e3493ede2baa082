//! The holder's main loop: one `poll` over all event sources, no threads, and no wake-ups while nothing happens.

mod child;
mod requests;
mod setup;
mod tmux_view;

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::Mode;

use crate::args::{FIRST_EXTRA_FD, HolderArgs, LISTENER_FD};
use crate::close::{ProcessTermination, TerminationProgress};
use crate::input::HolderInputQueue;
use crate::link::HolderLink;
use crate::log::{LogStall, OutputPump, PumpStatus};
use crate::pty::PtyPair;
use crate::record::ChildRecord;
use crate::sys;
use crate::wire::ToDaemon;
use child::HeldChild;
use tmux_view::TmuxView;
pub(crate) use tmux_view::{HOLDER_SOCKET, RENDEZVOUS_SOCKET};

/// The `main` function of a holder. `args` are the words after the verb `hold`. The listening socket is fd 3.
pub fn run(args: impl Iterator<Item = OsString>) -> ExitCode {
    // A holder's stderr has no reader. Failures are sent over the socket, or the daemon notices that the process is
    // gone.
    let Some(args) = HolderArgs::parse(args) else {
        return ExitCode::from(2);
    };
    let extra_fds = args
        .adopt
        .as_ref()
        .map_or(0, |a| i32::from(a.pidfd) + i32::from(a.kept));
    sys::close_from(match args.adopt {
        Some(_) => FIRST_EXTRA_FD + extra_fds,
        None if args.view => LISTENER_FD,
        None => LISTENER_FD + 1,
    });
    let sockets = if args.view {
        tmux_view::connect_to_daemon(&args.dir)
            .ok()
            .map(|(listener, daemon)| (listener, Some(daemon)))
    } else {
        sys::take_inherited_fd(LISTENER_FD).map(|listener| (listener, None))
    };
    let Some((listener, daemon)) = sockets else {
        return ExitCode::from(2);
    };
    sys::set_process_name(c"fugue-holder");
    rustix::process::umask(Mode::from_raw_mode(0o077));
    // The working directory must not keep a filesystem from being unmounted.
    let _ = std::env::set_current_dir("/");
    let parent = args.parent;
    match Holder::new(args, &listener, daemon) {
        Ok(mut holder) => holder.serve(&listener),
        Err(error) => setup::refuse(&listener, parent, &error),
    }
}

// Output of a pane that prints without end must not delay keystrokes and requests for the same pane.
const MAX_BYTES_PER_TURN: u64 = 64 << 10;
// The kernel has no event for freed disk space, so a stalled log is retried by time; nothing else is. Each pause is
// twice the previous one: a disk that has just become full may have space at once, and a disk that stays full for hours
// costs one write every five seconds.
const MIN_RETRY_INTERVAL: Duration = Duration::from_millis(100);
const MAX_RETRY_INTERVAL: Duration = Duration::from_secs(5);
// Delay of the acknowledgement of a written input. Most input is echoed within this time. Acknowledgement and echo then
// wake the daemon once, and the echo, which is latency-critical, is handled first.
const INPUT_ACK_DELAY: Duration = Duration::from_millis(2);
// Connections without a Hello. A further connection drops the oldest.
const MAX_PENDING_CONNECTIONS: usize = 8;

pub(super) struct Holder {
    dir: PathBuf,
    generation: u32,
    epoch: u64,
    /// Locked for the lifetime of this process, if the filesystem supports locks.
    lock: File,
    signalfd: OwnedFd,
    /// The daemon that started this holder and is expected to connect. Watched until a daemon has connected, while no
    /// child runs.
    parent_pidfd: Option<OwnedFd>,
    terminal: PtyPair,
    pump: OutputPump,
    flow: OutputFlow,
    growth_eventfd: OwnedFd,
    view: Option<TmuxView>,
    child: HeldChild,
    kept_fds: Vec<OwnedFd>,
    input_queue: HolderInputQueue,
    meta: Option<ChildRecord>,
    /// `meta` has changes that its file does not have.
    meta_unsaved: bool,
    pending_connections: Vec<HolderLink>,
    daemon: Option<HolderLink>,
    /// Set while the only queued message is the acknowledgement of an input: the queue is flushed at this moment at the
    /// latest.
    flush_at: Option<Instant>,
    had_daemon: bool,
    /// The child was started by another holder, so orphans of the child were not reparented to this process.
    has_adopted_child: bool,
    leaving: bool,
    close: Option<PendingClose>,
}

/// Whether output reaches the log.
#[derive(Clone, Copy)]
enum OutputFlow {
    Flowing,
    Stalled {
        errno: i32,
        retry: Instant,
        pause: Duration,
    },
}

struct PendingClose {
    ids: Vec<u64>,
    termination: ProcessTermination,
    until: Option<Instant>,
    /// Number of processes that could not be terminated. Set when the termination is done and the exit is not recorded
    /// yet.
    left: Option<u32>,
}

/// Event sources of `poll`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PollSource {
    Listener,
    Signals,
    Parent,
    Child,
    Master,
    View,
    Daemon,
    PendingConnection(usize),
    SignaledProcess,
}

type PollSources<'a> = Vec<(PollSource, BorrowedFd<'a>, PollFlags)>;

impl Holder {
    fn serve(&mut self, listener: &OwnedFd) -> ExitCode {
        loop {
            let now = Instant::now();
            let more = self.advance(now);
            if self.flush_at.is_none_or(|at| at <= now) {
                self.flush();
            }
            if self.try_finish() {
                return ExitCode::from(self.exit_code());
            }
            let Ok(ready) = self.wait(listener, more) else {
                // `poll` fails only if the kernel is out of memory. The daemon then replaces this holder.
                return ExitCode::FAILURE;
            };
            for (source, what) in ready {
                self.handle(listener, source, what);
            }
        }
    }

    /// Whether the process can exit: no longer needed, and the tmux view has shown all output.
    fn try_finish(&mut self) -> bool {
        self.is_unneeded() && self.drain_view()
    }

    fn is_unneeded(&self) -> bool {
        if self.leaving {
            return self.daemon.as_ref().is_none_or(|d| !d.wants_write());
        }
        if self.daemon.is_some() || self.close.is_some() {
            return false;
        }
        match self.child {
            HeldChild::NotStarted | HeldChild::Exited { .. } => {
                self.had_daemon || self.parent_pidfd.is_none()
            }
            HeldChild::Running { .. } | HeldChild::Ending { .. } => false,
        }
    }

    fn wait(&self, listener: &OwnedFd, more: NextTurn) -> io::Result<Vec<(PollSource, PollFlags)>> {
        let mut sources: PollSources<'_> =
            vec![(PollSource::Listener, listener.as_fd(), PollFlags::IN)];
        sources.push((PollSource::Signals, self.signalfd.as_fd(), PollFlags::IN));
        if let (HeldChild::NotStarted | HeldChild::Exited { .. }, Some(parent), false) =
            (&self.child, &self.parent_pidfd, self.had_daemon)
        {
            sources.push((PollSource::Parent, parent.as_fd(), PollFlags::IN));
        }
        if let Some((pidfd, flags)) = self.child.adopted_pidfd() {
            sources.push((PollSource::Child, pidfd, flags));
        }
        if let Some(flags) = self.master_interest() {
            sources.push((PollSource::Master, self.terminal.master.as_fd(), flags));
        }
        if let Some((fd, flags)) = self.view_interest() {
            sources.push((PollSource::View, fd, flags));
        }
        if let Some(daemon) = &self.daemon {
            let interest = match self.flush_at {
                Some(_) => PollFlags::IN,
                None => link_interest(daemon),
            };
            sources.push((PollSource::Daemon, daemon.as_fd(), interest));
        }
        for (n, stranger) in self.pending_connections.iter().enumerate() {
            sources.push((
                PollSource::PendingConnection(n),
                stranger.as_fd(),
                link_interest(stranger),
            ));
        }
        if let Some(close) = &self.close {
            sources.extend(
                close
                    .termination
                    .fds()
                    .map(|fd| (PollSource::SignaledProcess, fd, PollFlags::IN)),
            );
        }
        let timeout = match more {
            NextTurn::Immediately => Some(Duration::ZERO),
            NextTurn::AfterEvents => self
                .deadline()
                .map(|d| d.saturating_duration_since(Instant::now())),
        };
        poll(&sources, timeout)
    }

    /// Poll flags for the PTY master. No flags while the disk is full (an unread terminal blocks the child) and none
    /// after a hang-up or the child's exit, because a hung-up master is always ready.
    fn master_interest(&self) -> Option<PollFlags> {
        let HeldChild::Running { hung_up: false, .. } = self.child else {
            return None;
        };
        let mut flags = match self.flow {
            OutputFlow::Flowing => PollFlags::IN,
            OutputFlow::Stalled { .. } => PollFlags::empty(),
        };
        if !self.input_queue.is_empty() {
            flags |= PollFlags::OUT;
        }
        (!flags.is_empty()).then_some(flags)
    }

    fn deadline(&self) -> Option<Instant> {
        let retry = match self.flow {
            OutputFlow::Flowing => None,
            OutputFlow::Stalled { retry, .. } => Some(retry),
        };
        let close = self.close.as_ref().and_then(|c| c.until);
        [retry, close, self.flush_at, self.view_deadline()]
            .into_iter()
            .flatten()
            .min()
    }

    fn handle(&mut self, listener: &OwnedFd, source: PollSource, what: PollFlags) {
        match source {
            PollSource::Listener => self.accept(listener),
            PollSource::Daemon => self.read_daemon(),
            PollSource::PendingConnection(n) => self.read_pending_connection(n),
            PollSource::Signals => {
                drain_signals(&self.signalfd);
                self.reap();
                self.adopt_view_size();
            }
            PollSource::Child => self.check_adopted_child(what),
            PollSource::Parent => self.parent_pidfd = None,
            PollSource::Master => {
                if what.contains(PollFlags::OUT) {
                    self.write_input();
                }
                if what.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR) {
                    self.move_output(Instant::now());
                }
            }
            PollSource::View => self.handle_view_event(what),
            // `advance` checks all signaled processes.
            PollSource::SignaledProcess => {}
        }
    }

    /// Continues work that no event announces: the retry of a stalled log, the recording of an exit, a close.
    fn advance(&mut self, now: Instant) -> NextTurn {
        if let OutputFlow::Stalled { retry, .. } = self.flow
            && now >= retry
        {
            self.move_output(now);
        }
        let more = self.finish_exit(now);
        self.advance_close(now);
        more
    }

    /// Moves one budget of output to the log and notifies the daemon and the tmux view.
    fn move_output(&mut self, now: Instant) -> Option<PumpStatus> {
        let (moved_bytes, result) = self
            .pump
            .move_bytes(&self.terminal.master, MAX_BYTES_PER_TURN);
        if moved_bytes > 0 {
            // The write fails only if the counter is full, and then the daemon has an unread notification.
            let _ = rustix::io::write(&self.growth_eventfd, &1u64.to_ne_bytes());
            self.flush_at = None;
            self.show();
        }
        match result {
            Ok(moved) => {
                // A drained terminal does not prove that an exit record can be written.
                if moved_bytes > 0 || !matches!(self.child, HeldChild::Ending { .. }) {
                    self.mark_flowing();
                }
                self.save_meta();
                if moved == PumpStatus::HungUp {
                    self.handle_hangup();
                }
                Some(moved)
            }
            Err(LogStall(error)) => {
                self.mark_stalled(error, now);
                None
            }
        }
    }

    fn mark_flowing(&mut self) {
        if let OutputFlow::Stalled { .. } = self.flow {
            self.flow = OutputFlow::Flowing;
            self.send(&ToDaemon::LogWritable);
        }
    }

    /// Stops reading the terminal. The child blocks as soon as the terminal's buffer is full; no output is lost.
    fn mark_stalled(&mut self, error: io::Error, now: Instant) {
        let errno = error.raw_os_error().unwrap_or(libc::EIO);
        let pause = match self.flow {
            OutputFlow::Flowing => {
                self.send(&ToDaemon::Stalled { errno });
                MIN_RETRY_INTERVAL
            }
            OutputFlow::Stalled { pause, .. } => (pause * 2).min(MAX_RETRY_INTERVAL),
        };
        self.flow = OutputFlow::Stalled {
            errno,
            retry: now + pause,
            pause,
        };
        self.send_pending_exit();
    }

    /// Retries a stalled log now. A client that sends a request may have freed disk space.
    fn retry_soon(&mut self, now: Instant) {
        if let OutputFlow::Stalled { errno, .. } = self.flow {
            self.flow = OutputFlow::Stalled {
                errno,
                retry: now,
                // The next failure doubles the pause.
                pause: MIN_RETRY_INTERVAL / 2,
            };
        }
    }

    fn advance_close(&mut self, now: Instant) {
        let Some(close) = &mut self.close else { return };
        if close.left.is_none() {
            match close.termination.step(now) {
                TerminationProgress::Wait { until } => {
                    close.until = Some(until);
                    return;
                }
                TerminationProgress::Done { left } => {
                    close.left = Some(left);
                    close.until = None;
                }
            }
        }
        // The exit is reported before the close is. A child that survives KILL has no exit to report.
        let Some(left) = close.left else { return };
        if let (HeldChild::Ending { .. }, OutputFlow::Stalled { .. }) = (&self.child, self.flow) {
            self.abandon_output();
        }
        let Some(close) = &mut self.close else { return };
        let can_report = match &self.child {
            HeldChild::NotStarted | HeldChild::Exited { .. } => true,
            HeldChild::Running { .. } | HeldChild::Ending { .. } => left > 0,
        };
        if can_report {
            for id in std::mem::take(&mut close.ids) {
                self.send(&ToDaemon::Closed { id, left });
            }
            self.close = None;
        }
    }
}

/// Whether the next loop iteration has work that no event announces.
#[derive(Clone, Copy, PartialEq, Eq)]
enum NextTurn {
    Immediately,
    AfterEvents,
}

fn poll(
    sources: &[(PollSource, BorrowedFd<'_>, PollFlags)],
    timeout: Option<Duration>,
) -> io::Result<Vec<(PollSource, PollFlags)>> {
    let mut fds: Vec<PollFd<'_>> = sources
        .iter()
        .map(|(_, fd, flags)| PollFd::from_borrowed_fd(*fd, *flags))
        .collect();
    let timeout = timeout
        .map(Timespec::try_from)
        .transpose()
        .map_err(io::Error::other)?;
    match rustix::event::poll(&mut fds, timeout.as_ref()) {
        Ok(_) | Err(rustix::io::Errno::INTR) => {}
        Err(e) => return Err(e.into()),
    }
    let ready = sources
        .iter()
        .zip(&fds)
        .filter(|(_, fd)| !fd.revents().is_empty());
    Ok(ready
        .map(|((source, _, _), fd)| (*source, fd.revents()))
        .collect())
}

fn link_interest(link: &HolderLink) -> PollFlags {
    if link.wants_write() {
        PollFlags::IN | PollFlags::OUT
    } else {
        PollFlags::IN
    }
}

fn drain_signals(signals: &OwnedFd) {
    // Several exits of children may be merged into one signal; `reap` checks for further exits.
    let mut info = [0; 128];
    while rustix::io::read(signals, &mut info).is_ok() {}
}
