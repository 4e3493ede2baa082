//! The daemon's side: starting a holder, and replacing a dead holder.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use crate::args::{
    AdoptArgs, FIRST_EXTRA_FD, HolderArgs, LISTENER_FD, MASTER_FD, PIPE_R_FD, PIPE_W_FD,
};
use crate::proc::{self, ProcessStat};
use crate::spawn::{ChildProcess, SessionLeadership, SpawnCommand, SpawnError};
use crate::wire::{HelloOk, ProcessIdentity};

/// The files and numbers that a pane's holder is started with.
#[derive(Debug, Clone, Copy)]
pub struct HolderLocation<'a> {
    /// The program with the hidden verb `hold`. `None` is the running program, even if its file was replaced.
    pub exe: Option<&'a Path>,
    /// Bound and listening before the holder starts, so that a connect never races with the start. At most 107 bytes.
    pub socket: &'a Path,
    /// The pane's own directory, absolute, 0700: the log and the records.
    pub dir: &'a Path,
    /// 1 for the pane's first child. A further child has the next generation, its own holder and the same log.
    pub generation: u32,
    /// The epoch of this daemon. The holder refuses lower ones.
    pub epoch: u64,
}

// An exec takes a millisecond. Only a living holder keeps its socket longer, and a living holder must not be replaced.
const SOCKET_RELEASE_TIMEOUT: Duration = Duration::from_secs(1);

/// The fds that a daemon keeps for the replacement of a holder.
#[derive(Debug)]
pub struct GuardedFds {
    pub master: OwnedFd,
    pub pipe_r: OwnedFd,
    pub pipe_w: OwnedFd,
    /// Received with `HelloOk` or with `Started`.
    pub child: Option<OwnedFd>,
    pub kept: Vec<OwnedFd>,
}

/// State of a dead holder that the daemon passes on to its replacement.
#[derive(Debug, Clone, Copy, Default)]
pub struct HandoverState {
    pub child: Option<ProcessIdentity>,
    /// The highest sequence number ever sent. The fate of inputs without a final `InputState` is unknown.
    pub last_input_seq: u64,
    pub answered_upto: u64,
}

impl HolderLocation<'_> {
    /// Starts a holder with a new PTY and without a child. Next: connect, send Hello, then Start.
    pub fn spawn(&self) -> Result<ChildProcess, SpawnError> {
        self.start(None, &[])
    }

    /// Starts a holder in place of a dead holder, whose socket refuses connections (ECONNREFUSED).
    pub fn replace(
        &self,
        guarded: &GuardedFds,
        handover: HandoverState,
    ) -> Result<ChildProcess, SpawnError> {
        let mut fds = vec![
            (guarded.master.as_fd(), MASTER_FD),
            (guarded.pipe_r.as_fd(), PIPE_R_FD),
            (guarded.pipe_w.as_fd(), PIPE_W_FD),
        ];
        let further = guarded.child.iter().chain(&guarded.kept);
        fds.extend(
            further
                .zip(FIRST_EXTRA_FD..)
                .map(|(fd, number)| (fd.as_fd(), number)),
        );
        let adopt = AdoptArgs {
            child: handover.child,
            pidfd: guarded.child.is_some(),
            kept: guarded.kept.len() as u8,
            last_seq: handover.last_input_seq,
            answered_upto: handover.answered_upto,
        };
        self.start(Some(adopt), &fds)
    }

    /// The command line for tmux to start a holder in one of its panes, which shows the child. The holder connects to
    /// [`HolderLocation::RENDEZVOUS_SOCKET`] when its own socket accepts connections.
    pub fn tmux_command(&self) -> Vec<OsString> {
        // An upgrade may have replaced the file; tmux cannot start a deleted file.
        let exe = match self.exe {
            Some(exe) => exe.to_owned(),
            None => proc::ExecutableFile::current().path,
        };
        let args = HolderArgs {
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
            .chain(args.to_words())
            .collect()
    }

    /// Name of a holder's socket in the pane's directory.
    pub const HOLDER_SOCKET: &'static str = crate::holder::HOLDER_SOCKET;

    /// Name of the socket in the pane's directory where a daemon waits for a holder that tmux starts.
    pub const RENDEZVOUS_SOCKET: &'static str = crate::holder::RENDEZVOUS_SOCKET;

    fn start(
        &self,
        adopt: Option<AdoptArgs>,
        fds: &[(std::os::fd::BorrowedFd<'_>, i32)],
    ) -> Result<ChildProcess, SpawnError> {
        let listener = listen(self.socket)
            .map_err(|e| SpawnError::new(format!("socket {}", self.socket.display()), e))?;
        let args = HolderArgs {
            dir: self.dir.to_owned(),
            generation: self.generation,
            parent: std::process::id() as i32,
            epoch: self.epoch,
            copy: false,
            view: false,
            adopt,
        };
        let mut spawn = SpawnCommand::new(self.exe.unwrap_or(Path::new("/proc/self/exe")))
            .arg0("fugue")
            .arg("hold")
            .args(args.to_words())
            .session(SessionLeadership::Own)
            .fd(listener.as_fd(), LISTENER_FD);
        for (fd, number) in fds {
            spawn = spawn.fd(*fd, *number);
        }
        spawn.start()
    }
}

impl GuardedFds {
    /// Assigns the fds that were received with a `HelloOk`. The second value is the eventfd that signals growth of the
    /// log.
    pub fn from_hello(hello: &HelloOk, fds: Vec<OwnedFd>) -> Option<(GuardedFds, OwnedFd)> {
        let mut fds = fds.into_iter();
        let (master, pipe_r, pipe_w, growth_eventfd) =
            (fds.next()?, fds.next()?, fds.next()?, fds.next()?);
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
            growth_eventfd,
        ))
    }
}

/// Binds and listens at `path`, in place of a socket without a listener. EADDRINUSE if the old socket has a listener.
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
    // A daemon connects once; the rest is for short-lived connections.
    rustix::net::listen(&socket, 16)?;
    Ok(socket)
}

/// Waits until no process listens at `address`. A holder that was killed while it started a child leaves its listener
/// to that child until the exec; our connection is reset at that moment.
fn await_refusal(address: &SocketAddrUnix) -> io::Result<()> {
    let deadline = Instant::now() + SOCKET_RELEASE_TIMEOUT;
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

/// Returns pid and start time of a living process.
pub fn identify(pid: i32) -> Option<ProcessIdentity> {
    ProcessStat::get(pid)
        .filter(|s| !s.has_ended())
        .map(|s| s.identity())
}

/// Whether the process with this pid and start time is alive. A zombie is not.
pub fn is_alive(identity: ProcessIdentity) -> bool {
    proc::is_alive(identity)
}
