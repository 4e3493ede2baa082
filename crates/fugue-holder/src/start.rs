//! The daemon's side of a holder's life: to start one, and to replace one that died.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use crate::args::{Adopt, Args, FURTHER, LISTENER, MASTER, PIPE_R, PIPE_W};
use crate::proc::{self, Stat};
use crate::spawn::{ChildProcess, SessionLeadership, SpawnCommand, SpawnError};
use crate::wire::{HelloOk, ProcessIdentity};

/// Where a pane's holder lives.
#[derive(Debug, Clone, Copy)]
pub struct HolderLocation<'a> {
    /// The program with the hidden verb `hold`; `None` is the one that runs now, also if its file was replaced.
    pub exe: Option<&'a Path>,
    /// Bound and listening before the holder starts, so that a connect never races with its start. At most 107 bytes.
    pub socket: &'a Path,
    /// The pane's own directory, absolute, 0700: the log and the records.
    pub dir: &'a Path,
    /// 1 for the pane's first child; a fresh child is the next generation, with its own holder and the same log.
    pub generation: u32,
    /// This daemon's; the holder refuses lower ones.
    pub epoch: u64,
}

// An exec takes a millisecond. Only a living holder keeps its socket longer, and then nobody should be here.
const DYING: Duration = Duration::from_secs(1);

/// What a daemon holds in trust for a holder.
#[derive(Debug)]
pub struct GuardedFds {
    pub master: OwnedFd,
    pub pipe_r: OwnedFd,
    pub pipe_w: OwnedFd,
    /// Comes with HelloOk or with Started.
    pub child: Option<OwnedFd>,
    pub kept: Vec<OwnedFd>,
}

/// What a daemon knows that only the dead holder knew.
#[derive(Debug, Clone, Copy, Default)]
pub struct HandoverState {
    pub child: Option<ProcessIdentity>,
    /// The highest that was ever sent. Those without a final `InputState` are of unknown fate.
    pub last_input_seq: u64,
    pub answered_upto: u64,
}

impl HolderLocation<'_> {
    /// Starts a holder with a new terminal and no child yet. Connect, say Hello, then Start.
    pub fn spawn(&self) -> Result<ChildProcess, SpawnError> {
        self.start(None, &[])
    }

    /// Starts a holder in the place of one that is dead: connecting to its socket gives ECONNREFUSED.
    pub fn replace(
        &self,
        guarded: &GuardedFds,
        known: HandoverState,
    ) -> Result<ChildProcess, SpawnError> {
        let mut fds = vec![
            (guarded.master.as_fd(), MASTER),
            (guarded.pipe_r.as_fd(), PIPE_R),
            (guarded.pipe_w.as_fd(), PIPE_W),
        ];
        let further = guarded.child.iter().chain(&guarded.kept);
        fds.extend(
            further
                .zip(FURTHER..)
                .map(|(fd, number)| (fd.as_fd(), number)),
        );
        let adopt = Adopt {
            child: known.child,
            pidfd: guarded.child.is_some(),
            kept: guarded.kept.len() as u8,
            last_seq: known.last_input_seq,
            answered_upto: known.answered_upto,
        };
        self.start(Some(adopt), &fds)
    }

    /// What tmux is to start in one of its panes: a holder that is shown there. It comes to [`HolderLocation::meeting`] when it
    /// can be connected to.
    pub fn viewed(&self) -> Vec<OsString> {
        // An upgrade may have replaced the file; tmux cannot start the one that is gone.
        let exe = match self.exe {
            Some(exe) => exe.to_owned(),
            None => proc::Exe::ours().path,
        };
        let args = Args {
            dir: self.dir.to_owned(),
            generation: self.generation,
            parent: std::process::id() as i32,
            epoch: self.epoch,
            copy: false,
            view: true,
            adopt: None,
        };
        [exe.into_os_string(), "hold".into()]
            .into_iter()
            .chain(args.words())
            .collect()
    }

    /// The name of a holder's socket in the pane's directory.
    pub const SOCKET: &'static str = crate::holder::SOCKET;

    /// The name, in the pane's directory, of the socket at which a daemon waits for a holder that tmux starts.
    pub const MEETING: &'static str = crate::holder::MEETING;

    fn start(
        &self,
        adopt: Option<Adopt>,
        fds: &[(std::os::fd::BorrowedFd<'_>, i32)],
    ) -> Result<ChildProcess, SpawnError> {
        let listener = listen(self.socket)
            .map_err(|e| SpawnError::new(format!("socket {}", self.socket.display()), e))?;
        let args = Args {
            dir: self.dir.to_owned(),
            generation: self.generation,
            parent: std::process::id() as i32,
            epoch: self.epoch,
            copy: false,
            view: false,
            adopt,
        };
        let mut spawn = SpawnCommand::new(self.exe.unwrap_or(Path::new("/proc/self/exe")))
            .named("fugue")
            .arg("hold")
            .args(args.words())
            .session(SessionLeadership::Own)
            .fd(listener.as_fd(), LISTENER);
        for (fd, number) in fds {
            spawn = spawn.fd(*fd, *number);
        }
        spawn.start()
    }
}

impl GuardedFds {
    /// Sorts the fds that came with a HelloOk. The second is the eventfd that says the log grew.
    pub fn from_hello(hello: &HelloOk, fds: Vec<OwnedFd>) -> Option<(GuardedFds, OwnedFd)> {
        let mut fds = fds.into_iter();
        let (master, pipe_r, pipe_w, grew) = (fds.next()?, fds.next()?, fds.next()?, fds.next()?);
        let child = if hello.child_pidfd {
            Some(fds.next()?)
        } else {
            None
        };
        Some((
            GuardedFds {
                master,
                pipe_r,
                pipe_w,
                child,
                kept: fds.collect(),
            },
            grew,
        ))
    }
}

/// A listening socket at `path`, in the place of one that nobody listens on. EADDRINUSE if somebody does.
pub fn listen(path: &Path) -> io::Result<OwnedFd> {
    let address = SocketAddrUnix::new(path)?;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    match rustix::net::bind(&socket, &address) {
        Err(rustix::io::Errno::ADDRINUSE) => {
            await_refusal(&address)?;
            std::fs::remove_file(path)?;
            rustix::net::bind(&socket, &address)?;
        }
        bound => bound?,
    }
    // A daemon connects once; the rest is for those that come and go.
    rustix::net::listen(&socket, 16)?;
    Ok(socket)
}

/// Makes sure that nobody listens. A holder that was killed while it started a child leaves its listener to that child
/// for the moment until its exec; our connection is reset when that moment is over.
fn await_refusal(address: &SocketAddrUnix) -> io::Result<()> {
    let deadline = Instant::now() + DYING;
    loop {
        let probe = rustix::net::socket_with(
            AddressFamily::UNIX,
            SocketType::STREAM,
            SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
            None,
        )?;
        match rustix::net::connect(&probe, address) {
            Err(rustix::io::Errno::CONNREFUSED | rustix::io::Errno::NOENT) => return Ok(()),
            connected => connected?,
        }
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = Timespec::try_from(left).map_err(io::Error::other)?;
        let mut fds = [PollFd::new(&probe, PollFlags::IN)];
        match rustix::event::poll(&mut fds, Some(&timeout)) {
            Ok(0) => return Err(rustix::io::Errno::ADDRINUSE.into()),
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
    }
}

/// Pid and start time of a process that lives now.
pub fn identify(pid: i32) -> Option<ProcessIdentity> {
    Stat::of(pid).filter(|s| !s.is_over()).map(|s| s.identity())
}

/// Whether this very process lives; a zombie does not.
pub fn is_alive(who: ProcessIdentity) -> bool {
    proc::lives(who)
}
