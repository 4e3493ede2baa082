//! What a holder does before its loop: it takes what it was started with, makes the rest, or says why it cannot.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::process::ExitCode;

use rustix::event::{EventfdFlags, PollFlags};

use super::life::Life;
use super::view::View;
use super::{Flow, Holder, Source, poll, serve};
use crate::args::{Adopt, Args, FURTHER, MASTER, PIPE_R, PIPE_W};
use crate::input::Typist;
use crate::link::HolderLink;
use crate::liveness;
use crate::log::{Pump, Segments};
use crate::pty::Terminal;
use crate::record::ChildRecord;
use crate::spawn::{SpawnError, pidfd_of};
use crate::sys;
use crate::wire::{ChildSpec, RefusalReason};

impl Holder {
    /// `daemon` is the one that waits for a holder which is not its own child.
    pub(super) fn new(
        args: Args,
        listener: &OwnedFd,
        daemon: Option<OwnedFd>,
    ) -> Result<Holder, SpawnError> {
        let wrong = |what: &str| {
            let what = what.to_owned();
            move |e: io::Error| SpawnError::new(what, e)
        };
        rustix::io::ioctl_fionbio(listener, true).map_err(|e| SpawnError::new("listener", e))?;
        let in_dir = format!("pane directory {}", args.dir.display());
        // One holder at a time writes to a pane's log.
        let lock = liveness::take_lock(&args.dir).map_err(wrong(&in_dir))?;
        let children = sys::watch_children().map_err(wrong("signals"))?;
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
            .map_err(|e| SpawnError::new("subreaper", e))?;
        let grew = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|e| SpawnError::new("eventfd", e))?;
        let meta = ChildRecord::read(&args.dir, args.generation).map_err(wrong(&in_dir))?;
        let (cap, segment) = meta.as_ref().map_or(
            (
                ChildSpec::LOG_CAP,
                ChildSpec::segment_for(ChildSpec::LOG_CAP),
            ),
            |m| (m.log_cap, m.segment),
        );
        let log = Segments::open(&args.dir, cap, segment).map_err(wrong(&in_dir))?;

        let inherited = args.adopt.as_ref().map(inherit).transpose()?;
        let (terminal, mut pump, pidfd, kept) = match inherited {
            None => (
                Terminal::make()?,
                Pump::new(log).map_err(wrong("pipe"))?,
                None,
                Vec::new(),
            ),
            Some(fds) => (
                Terminal::adopt(fds.master),
                Pump::adopt(fds.pipe_r, fds.pipe_w, log).map_err(wrong("pipe"))?,
                fds.pidfd,
                fds.kept,
            ),
        };
        if args.copy {
            pump.copy_from_now_on();
        } else if args.adopt.is_none() {
            pump.try_splice(&terminal.master);
        }
        let view = match args.view {
            true => Some(View::of_stdin(&args.dir, pump.log.end())?),
            false => None,
        };
        let mut holder = Holder {
            parent: daemon.or_else(|| parent(args.parent)),
            dir: args.dir,
            generation: args.generation,
            epoch: args.epoch,
            lock,
            children,
            terminal,
            pump,
            flow: Flow::Flowing,
            grew,
            view,
            life: Life::Empty,
            kept,
            typist: Typist::default(),
            meta,
            meta_unsaved: false,
            took_over: false,
            strangers: Vec::new(),
            daemon: None,
            told_by: None,
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

/// The daemon that started us, if it still lives.
fn parent(pid: i32) -> Option<OwnedFd> {
    let pidfd = pidfd_of(pid).ok()?;
    let now = rustix::process::getppid().map(|p| p.as_raw_nonzero().get());
    (now == Some(pid)).then_some(pidfd)
}

struct Inherited {
    master: OwnedFd,
    pipe_r: OwnedFd,
    pipe_w: OwnedFd,
    pidfd: Option<OwnedFd>,
    kept: Vec<OwnedFd>,
}

fn inherit(adopt: &Adopt) -> Result<Inherited, SpawnError> {
    let take = |fd| {
        sys::inherited(fd).ok_or(SpawnError {
            what: format!("inherited fd {fd}"),
            errno: libc::EBADF,
        })
    };
    let mut further = FURTHER..;
    let mut next = || take(further.next().unwrap_or(FURTHER));
    Ok(Inherited {
        master: take(MASTER)?,
        pipe_r: take(PIPE_R)?,
        pipe_w: take(PIPE_W)?,
        pidfd: if adopt.pidfd { Some(next()?) } else { None },
        kept: (0..adopt.kept).map(|_| next()).collect::<Result<_, _>>()?,
    })
}

/// A holder that could not be made says why to the first who asks, and ends.
pub(super) fn refuse(listener: &OwnedFd, parent_pid: i32, error: &SpawnError) -> ExitCode {
    let parent = parent(parent_pid);
    let mut link: Option<HolderLink> = None;
    loop {
        let mut sources = Vec::new();
        match (&link, &parent) {
            (Some(link), _) => sources.push((Source::Daemon, link.as_fd(), PollFlags::IN)),
            (None, Some(parent)) => {
                sources.push((Source::Listener, listener.as_fd(), PollFlags::IN));
                sources.push((Source::Parent, parent.as_fd(), PollFlags::IN));
            }
            (None, None) => return ExitCode::FAILURE,
        }
        let Ok(ready) = poll(&sources, None) else {
            return ExitCode::FAILURE;
        };
        for (source, _) in ready {
            match source {
                Source::Listener => link = serve::accept(listener).ok().flatten(),
                Source::Daemon => {
                    let Some(mut link) = link.take() else {
                        continue;
                    };
                    let _ = link.fill();
                    serve::refuse(&mut link, RefusalReason::Broken, error.errno, &error.what);
                    return ExitCode::FAILURE;
                }
                _ => return ExitCode::FAILURE,
            }
        }
    }
}
