//! Setup before the main loop: takes over the inherited fds, opens everything else, or reports why that failed.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::process::ExitCode;

use rustix::event::{EventfdFlags, PollFlags};

use super::child::HeldChild;
use super::tmux_view::TmuxView;
use super::{Holder, OutputFlow, PollSource, poll, requests};
use crate::args::{AdoptArgs, FIRST_EXTRA_FD, HolderArgs, MASTER_FD, PIPE_R_FD, PIPE_W_FD};
use crate::input::HolderInputQueue;
use crate::link::HolderLink;
use crate::liveness;
use crate::log::{LogSegments, OutputPump};
use crate::pty::PtyPair;
use crate::record::ChildRecord;
use crate::spawn::{SpawnError, open_pidfd};
use crate::sys;
use crate::wire::{ChildSpec, RefusalReason};

impl Holder {
    /// `daemon` is the connection to a daemon that waits for a holder started by tmux, which is not a child of that
    /// daemon.
    pub(super) fn new(
        args: HolderArgs,
        listener: &OwnedFd,
        daemon: Option<OwnedFd>,
    ) -> Result<Holder, SpawnError> {
        let failed = |what: &str| {
            let what = what.to_owned();
            move |e: io::Error| SpawnError::new(what, e)
        };
        rustix::io::ioctl_fionbio(listener, true).map_err(|e| SpawnError::new("listener", e))?;
        let in_dir = format!("pane directory {}", args.dir.display());
        // Only one holder at a time may write to a pane's log.
        let lock = liveness::take_lock(&args.dir).map_err(failed(&in_dir))?;
        let children = sys::open_signalfd().map_err(failed("signals"))?;
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
            .map_err(|e| SpawnError::new("subreaper", e))?;
        let growth_eventfd =
            rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
                .map_err(|e| SpawnError::new("eventfd", e))?;
        let meta = ChildRecord::read(&args.dir, args.generation).map_err(failed(&in_dir))?;
        let log = open_log(&args.dir, meta.as_ref()).map_err(failed(&in_dir))?;

        let inherited = args.adopt.as_ref().map(take_inherited_fds).transpose()?;
        let (terminal, mut pump, pidfd, kept_fds) = match inherited {
            None => (
                PtyPair::open()?,
                OutputPump::new(log).map_err(failed("pipe"))?,
                None,
                Vec::new(),
            ),
            Some(fds) => (
                PtyPair::adopt(fds.master),
                OutputPump::adopt(fds.pipe_r, fds.pipe_w, log).map_err(failed("pipe"))?,
                fds.pidfd,
                fds.kept,
            ),
        };
        if args.copy {
            pump.switch_to_copy();
        } else if args.adopt.is_none() {
            pump.detect_splice(&terminal.master);
        }
        let view = match args.view {
            true => Some(TmuxView::from_stdin(&args.dir, pump.log.end_offset())?),
            false => None,
        };
        let mut holder = Holder {
            parent_pidfd: daemon.or_else(|| open_parent_pidfd(args.parent)),
            dir: args.dir,
            generation: args.generation,
            epoch: args.epoch,
            lock,
            signalfd: children,
            terminal,
            pump,
            flow: OutputFlow::Flowing,
            growth_eventfd,
            view,
            child: HeldChild::NotStarted,
            kept_fds,
            input_queue: HolderInputQueue::default(),
            meta,
            meta_unsaved: false,
            has_adopted_child: false,
            pending_connections: Vec::new(),
            daemon: None,
            flush_at: None,
            had_daemon: false,
            leaving: false,
            close: None,
        };
        if let Some(adopt) = args.adopt {
            holder.adopt(&adopt, pidfd)?;
        }
        Ok(holder)
    }
}

/// Opens the output log with the sizes of the recorded child, else with the default sizes.
fn open_log(dir: &Path, meta: Option<&ChildRecord>) -> io::Result<LogSegments> {
    let default_cap = ChildSpec::LOG_CAP;
    let (cap, segment) = meta.map_or((default_cap, ChildSpec::segment_for(default_cap)), |meta| {
        (meta.log_cap, meta.segment)
    });
    LogSegments::open(dir, cap, segment)
}

/// Opens a pidfd of the daemon that started this holder, if that daemon is still the parent.
fn open_parent_pidfd(pid: i32) -> Option<OwnedFd> {
    let pidfd = open_pidfd(pid).ok()?;
    let now = rustix::process::getppid().map(|p| p.as_raw_nonzero().get());
    (now == Some(pid)).then_some(pidfd)
}

struct InheritedFds {
    master: OwnedFd,
    pipe_r: OwnedFd,
    pipe_w: OwnedFd,
    pidfd: Option<OwnedFd>,
    kept: Vec<OwnedFd>,
}

fn take_inherited_fds(adopt: &AdoptArgs) -> Result<InheritedFds, SpawnError> {
    let take = |fd| {
        sys::take_inherited_fd(fd).ok_or(SpawnError {
            what: format!("inherited fd {fd}"),
            errno: libc::EBADF,
        })
    };
    let mut further = FIRST_EXTRA_FD..;
    let mut next = || take(further.next().unwrap_or(FIRST_EXTRA_FD));
    Ok(InheritedFds {
        master: take(MASTER_FD)?,
        pipe_r: take(PIPE_R_FD)?,
        pipe_w: take(PIPE_W_FD)?,
        pidfd: if adopt.pidfd { Some(next()?) } else { None },
        kept: (0..adopt.kept).map(|_| next()).collect::<Result<_, _>>()?,
    })
}

/// Reports a failed setup to the first client that connects, and exits.
pub(super) fn refuse(listener: &OwnedFd, parent_pid: i32, error: &SpawnError) -> ExitCode {
    let parent = open_parent_pidfd(parent_pid);
    let mut link: Option<HolderLink> = None;
    loop {
        let mut sources = Vec::new();
        match (&link, &parent) {
            (Some(link), _) => sources.push((PollSource::Daemon, link.as_fd(), PollFlags::IN)),
            (None, Some(parent)) => {
                sources.push((PollSource::Listener, listener.as_fd(), PollFlags::IN));
                sources.push((PollSource::Parent, parent.as_fd(), PollFlags::IN));
            }
            (None, None) => return ExitCode::FAILURE,
        }
        let Ok(ready) = poll(&sources, None) else {
            return ExitCode::FAILURE;
        };
        for (source, _) in ready {
            match source {
                PollSource::Listener => link = requests::accept(listener).ok().flatten(),
                PollSource::Daemon => {
                    let Some(mut link) = link.take() else {
                        continue;
                    };
                    let _ = link.read_socket();
                    requests::refuse(&mut link, RefusalReason::Broken, error.errno, &error.what);
                    return ExitCode::FAILURE;
                }
                _ => return ExitCode::FAILURE,
            }
        }
    }
}
