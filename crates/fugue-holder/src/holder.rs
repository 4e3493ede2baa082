//! The holder's main loop: one `poll` over everything that can happen, no threads, no wake-ups while nothing does.

mod life;
mod serve;
mod setup;
mod view;

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::Mode;

use crate::args::{Args, FURTHER, LISTENER};
use crate::close::{Closing, Progress};
use crate::input::Typist;
use crate::link::HolderLink;
use crate::log::{Moved, Pump, Stall};
use crate::pty::Terminal;
use crate::record::ChildRecord;
use crate::sys;
use crate::wire::ToDaemon;
use life::Life;
use view::View;
pub(crate) use view::{MEETING, SOCKET};

/// A holder's `main`, given the words after the verb `hold`. The listening socket is fd 3.
pub fn run(args: impl Iterator<Item = OsString>) -> ExitCode {
    // Nobody reads a holder's stderr; what goes wrong is said on the socket, or the process is seen to be gone.
    let Some(args) = Args::parse(args) else {
        return ExitCode::from(2);
    };
    let further = args
        .adopt
        .as_ref()
        .map_or(0, |a| i32::from(a.pidfd) + i32::from(a.kept));
    sys::close_from(match args.adopt {
        Some(_) => FURTHER + further,
        None if args.view => LISTENER,
        None => LISTENER + 1,
    });
    let met = if args.view {
        view::meet(&args.dir)
            .ok()
            .map(|(listener, daemon)| (listener, Some(daemon)))
    } else {
        sys::inherited(LISTENER).map(|listener| (listener, None))
    };
    let Some((listener, daemon)) = met else {
        return ExitCode::from(2);
    };
    sys::name_process(c"fugue-holder");
    rustix::process::umask(Mode::from_raw_mode(0o077));
    // No directory is kept from being unmounted by a pane.
    let _ = std::env::set_current_dir("/");
    let parent = args.parent;
    match Holder::new(args, &listener, daemon) {
        Ok(mut holder) => holder.serve(&listener),
        Err(error) => setup::refuse(&listener, parent, &error),
    }
}

// A pane that prints without end must not delay its own keystrokes and requests.
const BYTES_PER_TURN: u64 = 64 << 10;
// There is no event for `the disk has room again`, so that a stalled log, and nothing else, is tried by time.
// Each pause is twice the one before: a disk that has just become full may have room at once, and one that is full for
// hours costs a write in five seconds.
const MIN_RETRY_INTERVAL: Duration = Duration::from_millis(100);
const MAX_RETRY_INTERVAL: Duration = Duration::from_secs(5);
// Most of what is typed is echoed by then. That it was typed is told with the echo: both wake the daemon once, and the
// echo, which somebody waits for, comes first.
const ECHO: Duration = Duration::from_millis(2);
// Connections that have not said Hello. The oldest goes when one more comes.
const MAX_STRANGERS: usize = 8;

pub(super) struct Holder {
    dir: PathBuf,
    generation: u32,
    epoch: u64,
    /// Locked for the life of this process, where the filesystem has locks.
    lock: File,
    children: OwnedFd,
    /// The daemon that started us, and will connect; watched while there is no other reason to live.
    parent: Option<OwnedFd>,
    terminal: Terminal,
    pump: Pump,
    flow: Flow,
    grew: OwnedFd,
    view: Option<View>,
    life: Life,
    kept: Vec<OwnedFd>,
    typist: Typist,
    meta: Option<ChildRecord>,
    /// `meta` is newer than its file.
    meta_unsaved: bool,
    strangers: Vec<HolderLink>,
    daemon: Option<HolderLink>,
    /// All that is still to be told is that something was typed, and that can wait until then.
    told_by: Option<Instant>,
    had_daemon: bool,
    /// Another holder started the child, so orphans of it did not come to us.
    took_over: bool,
    leaving: bool,
    close: Option<Close>,
}

/// How output moves.
#[derive(Clone, Copy)]
enum Flow {
    Flowing,
    Stalled {
        errno: i32,
        retry: Instant,
        pause: Duration,
    },
}

struct Close {
    ids: Vec<u64>,
    closing: Closing,
    until: Option<Instant>,
    /// All is ended but for this many, and the exit is still to be recorded.
    left: Option<u32>,
}

/// What `poll` watches.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Source {
    Listener,
    Children,
    Parent,
    Child,
    Master,
    View,
    Daemon,
    Stranger(usize),
    Victim,
}

type Sources<'a> = Vec<(Source, BorrowedFd<'a>, PollFlags)>;

impl Holder {
    fn serve(&mut self, listener: &OwnedFd) -> ExitCode {
        loop {
            let now = Instant::now();
            let more = self.advance(now);
            if self.told_by.is_none_or(|at| at <= now) {
                self.flush();
            }
            if self.is_finished() {
                return ExitCode::from(self.exit_code());
            }
            let Ok(ready) = self.wait(listener, more) else {
                // poll fails only for want of kernel memory; the daemon replaces us.
                return ExitCode::FAILURE;
            };
            for (source, what) in ready {
                self.handle(listener, source, what);
            }
        }
    }

    /// Whether nobody needs this process any more.
    fn is_finished(&mut self) -> bool {
        self.is_needless() && self.view_is_through()
    }

    fn is_needless(&self) -> bool {
        if self.leaving {
            return self.daemon.as_ref().is_none_or(|d| !d.wants_write());
        }
        if self.daemon.is_some() || self.close.is_some() {
            return false;
        }
        match self.life {
            Life::Empty | Life::Exited { .. } => self.had_daemon || self.parent.is_none(),
            Life::Running { .. } | Life::Ending { .. } => false,
        }
    }

    fn wait(&self, listener: &OwnedFd, more: More) -> io::Result<Vec<(Source, PollFlags)>> {
        let mut sources: Sources<'_> = vec![(Source::Listener, listener.as_fd(), PollFlags::IN)];
        sources.push((Source::Children, self.children.as_fd(), PollFlags::IN));
        if let (Life::Empty | Life::Exited { .. }, Some(parent), false) =
            (&self.life, &self.parent, self.had_daemon)
        {
            sources.push((Source::Parent, parent.as_fd(), PollFlags::IN));
        }
        if let Some((pidfd, flags)) = self.life.adopted_pidfd() {
            sources.push((Source::Child, pidfd, flags));
        }
        if let Some(flags) = self.master_interest() {
            sources.push((Source::Master, self.terminal.master.as_fd(), flags));
        }
        if let Some((fd, flags)) = self.view_interest() {
            sources.push((Source::View, fd, flags));
        }
        if let Some(daemon) = &self.daemon {
            let interest = match self.told_by {
                Some(_) => PollFlags::IN,
                None => link_interest(daemon),
            };
            sources.push((Source::Daemon, daemon.as_fd(), interest));
        }
        for (n, stranger) in self.strangers.iter().enumerate() {
            sources.push((
                Source::Stranger(n),
                stranger.as_fd(),
                link_interest(stranger),
            ));
        }
        if let Some(close) = &self.close {
            sources.extend(
                close
                    .closing
                    .fds()
                    .map(|fd| (Source::Victim, fd, PollFlags::IN)),
            );
        }
        let timeout = match more {
            More::Now => Some(Duration::ZERO),
            More::AfterEvents => self
                .deadline()
                .map(|d| d.saturating_duration_since(Instant::now())),
        };
        poll(&sources, timeout)
    }

    /// Nothing is asked of the master while the disk is full (the child waits by itself), nor after the child's end:
    /// a hung-up terminal would wake us for ever.
    fn master_interest(&self) -> Option<PollFlags> {
        let Life::Running { hung_up: false, .. } = self.life else {
            return None;
        };
        let mut flags = match self.flow {
            Flow::Flowing => PollFlags::IN,
            Flow::Stalled { .. } => PollFlags::empty(),
        };
        if !self.typist.is_empty() {
            flags |= PollFlags::OUT;
        }
        (!flags.is_empty()).then_some(flags)
    }

    fn deadline(&self) -> Option<Instant> {
        let retry = match self.flow {
            Flow::Flowing => None,
            Flow::Stalled { retry, .. } => Some(retry),
        };
        let close = self.close.as_ref().and_then(|c| c.until);
        [retry, close, self.told_by, self.view_deadline()]
            .into_iter()
            .flatten()
            .min()
    }

    fn handle(&mut self, listener: &OwnedFd, source: Source, what: PollFlags) {
        match source {
            Source::Listener => self.accept(listener),
            Source::Daemon => self.hear_daemon(),
            Source::Stranger(n) => self.hear_stranger(n),
            Source::Children => {
                drain_signals(&self.children);
                self.reap();
                self.view_resized();
            }
            Source::Child => self.adopted_child_changed(what),
            Source::Parent => self.parent = None,
            Source::Master => {
                if what.contains(PollFlags::OUT) {
                    self.type_on();
                }
                if what.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR) {
                    self.pump_once(Instant::now());
                }
            }
            Source::View => self.viewed(what),
            // `advance` looks at all of them.
            Source::Victim => {}
        }
    }

    /// Goes on with whatever needs no event: a stalled log whose time has come, an ending, a close.
    fn advance(&mut self, now: Instant) -> More {
        if let Flow::Stalled { retry, .. } = self.flow
            && now >= retry
        {
            self.pump_once(now);
        }
        let more = self.finish_ending(now);
        self.go_on_closing(now);
        more
    }

    /// Moves one budget of output and tells whoever should know.
    fn pump_once(&mut self, now: Instant) -> Option<Moved> {
        let (grew, result) = self.pump.turn(&self.terminal.master, BYTES_PER_TURN);
        if grew > 0 {
            // A full counter is a daemon that will look anyway.
            let _ = rustix::io::write(&self.grew, &1u64.to_ne_bytes());
            self.told_by = None;
            self.show();
        }
        match result {
            Ok(moved) => {
                // That nothing is left to move says nothing of room for an exit record.
                if grew > 0 || !matches!(self.life, Life::Ending { .. }) {
                    self.flows();
                }
                self.save_meta();
                if moved == Moved::HungUp {
                    self.hung_up();
                }
                Some(moved)
            }
            Err(Stall(error)) => {
                self.stall(error, now);
                None
            }
        }
    }

    fn flows(&mut self) {
        if let Flow::Stalled { .. } = self.flow {
            self.flow = Flow::Flowing;
            self.say(&ToDaemon::Flowing);
        }
    }

    /// The child waits, because nobody reads its terminal; nothing is lost.
    fn stall(&mut self, error: io::Error, now: Instant) {
        let errno = error.raw_os_error().unwrap_or(libc::EIO);
        let pause = match self.flow {
            Flow::Flowing => {
                self.say(&ToDaemon::Stalled { errno });
                MIN_RETRY_INTERVAL
            }
            Flow::Stalled { pause, .. } => (pause * 2).min(MAX_RETRY_INTERVAL),
        };
        self.flow = Flow::Stalled {
            errno,
            retry: now + pause,
            pause,
        };
        self.tell_pending_exit();
    }

    /// Whoever asks something may have made room.
    fn retry_soon(&mut self, now: Instant) {
        if let Flow::Stalled { errno, .. } = self.flow {
            self.flow = Flow::Stalled {
                errno,
                retry: now,
                // Doubled by the next failure.
                pause: MIN_RETRY_INTERVAL / 2,
            };
        }
    }

    fn go_on_closing(&mut self, now: Instant) {
        let Some(close) = &mut self.close else { return };
        if close.left.is_none() {
            match close.closing.step(now) {
                Progress::Wait { until } => {
                    close.until = Some(until);
                    return;
                }
                Progress::Done { left } => {
                    close.left = Some(left);
                    close.until = None;
                }
            }
        }
        // The exit is told first, unless it cannot be: a child that KILL does not end.
        let Some(left) = close.left else { return };
        if let (Life::Ending { .. }, Flow::Stalled { .. }) = (&self.life, self.flow) {
            self.give_output_up();
        }
        let Some(close) = &mut self.close else { return };
        let told = match &self.life {
            Life::Empty | Life::Exited { .. } => true,
            Life::Running { .. } | Life::Ending { .. } => left > 0,
        };
        if told {
            for id in std::mem::take(&mut close.ids) {
                self.say(&ToDaemon::Closed { id, left });
            }
            self.close = None;
        }
    }
}

/// Whether the loop has work that no event announces.
#[derive(Clone, Copy, PartialEq, Eq)]
enum More {
    Now,
    AfterEvents,
}

fn poll(
    sources: &[(Source, BorrowedFd<'_>, PollFlags)],
    timeout: Option<Duration>,
) -> io::Result<Vec<(Source, PollFlags)>> {
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
    // Several ends of children are one signal; `reap` looks for all of them.
    let mut info = [0; 128];
    while rustix::io::read(signals, &mut info).is_ok() {}
}
