//! Makes the terminal and starts the child in it.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;

use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit};
use rustix::pty::OpenptFlags;
use rustix::termios::{InputModes, OptionalActions, Winsize};

use crate::spawn::{ChildProcess, SpawnCommand, SpawnError};
use crate::wire::{ChildSpec, FdUse};

/// Both ends of a terminal. The holder keeps the child's end open too: otherwise the master would report a hang-up
/// for ever whenever the child closes its own, and there is no event for its being opened again.
pub(crate) struct Terminal {
    pub(crate) master: OwnedFd,
    peer: Option<OwnedFd>,
}

impl Terminal {
    pub(crate) fn make() -> Result<Terminal, SpawnError> {
        let failed = |what: &str| {
            let what = what.to_owned();
            move |e| SpawnError::new(what, io::Error::from(e))
        };
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let master = match rustix::pty::openpt(flags) {
            // The kernel says ENOSPC, which rustix turns into what POSIX wants.
            Err(Errno::AGAIN | Errno::NOSPC) => {
                let what = "a new terminal: all are in use (see sysctl kernel.pty.max)".to_owned();
                return Err(SpawnError {
                    what,
                    errno: libc::ENOSPC,
                });
            }
            opened => opened.map_err(failed("a new terminal (openpt)"))?,
        };
        rustix::pty::grantpt(&master).map_err(failed("a new terminal (grantpt)"))?;
        rustix::pty::unlockpt(&master).map_err(failed("a new terminal (unlockpt)"))?;
        // For every fd of this master, also those that a later holder takes over.
        rustix::io::ioctl_fionbio(&master, true).map_err(failed("a new terminal (FIONBIO)"))?;
        let terminal = Terminal::adopt(master);
        let peer = terminal.peer.as_ref().ok_or(SpawnError {
            what: "a new terminal (TIOCGPTPEER)".into(),
            errno: libc::EIO,
        })?;
        let mut modes =
            rustix::termios::tcgetattr(peer).map_err(failed("a new terminal (tcgetattr)"))?;
        modes.input_modes |= InputModes::IUTF8;
        rustix::termios::tcsetattr(peer, OptionalActions::Now, &modes)
            .map_err(failed("a new terminal (tcsetattr)"))?;
        Ok(terminal)
    }

    /// Around the master of a holder that died.
    pub(crate) fn adopt(master: OwnedFd) -> Terminal {
        let mut terminal = Terminal { master, peer: None };
        terminal.reopen();
        terminal
    }

    /// Opens the child's end (again): after a hang-up our own fd for it is dead as well.
    pub(crate) fn reopen(&mut self) {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        self.peer = rustix::pty::ioctl_tiocgptpeer(&self.master, flags).ok();
    }

    pub(crate) fn is_open(&self) -> bool {
        self.peer.is_some()
    }

    pub(crate) fn resize(&self, rows: u16, cols: u16) -> io::Result<()> {
        let size = Winsize {
            ws_row: rows,
            ws_col: cols,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        Ok(rustix::termios::tcsetwinsize(&self.master, size)?)
    }

    pub(crate) fn size(&self) -> (u16, u16) {
        rustix::termios::tcgetwinsize(&self.master).map_or((0, 0), |s| (s.ws_row, s.ws_col))
    }

    /// Starts `spec` with this as its controlling terminal. `kept` are the fds that came with it.
    pub(crate) fn start(
        &self,
        spec: &ChildSpec,
        kept: &[OwnedFd],
    ) -> Result<ChildProcess, SpawnError> {
        let peer = self.peer.as_ref().ok_or(SpawnError {
            what: "the terminal's other end".into(),
            errno: libc::EIO,
        })?;
        let os = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
        let mut spawn = SpawnCommand::new(os(&spec.argv[0]))
            .args(spec.argv[1..].iter().map(|a| os(a)))
            .envs(spec.env.iter().map(|(k, v)| (os(k), os(v))))
            .cwd(os(&spec.cwd))
            .terminal(peer.as_fd());
        for (fd, kind) in kept.iter().zip(&spec.kept) {
            if let FdUse::AlsoChild(number) = kind {
                spawn = spawn.fd(fd.as_fd(), i32::from(*number));
            }
        }
        let _limits = Limits::set(spec)?;
        spawn.start()
    }
}

/// Mask and limit that a child inherits, set for the moment of its birth: the holder's own files stay 0600.
struct Limits {
    umask: Mode,
    nofile: Option<Rlimit>,
}

impl Limits {
    fn set(spec: &ChildSpec) -> Result<Limits, SpawnError> {
        let before = rustix::process::getrlimit(Resource::Nofile);
        let mut nofile = None;
        if let Some(soft) = spec.nofile {
            // More than the hard limit is not ours to give.
            let soft = before.maximum.map_or(soft, |hard| soft.min(hard));
            let wanted = Rlimit {
                current: Some(soft),
                maximum: before.maximum,
            };
            rustix::process::setrlimit(Resource::Nofile, wanted)
                .map_err(|e| SpawnError::new(format!("an open-files limit of {soft}"), e))?;
            nofile = Some(before);
        }
        let umask = rustix::process::umask(Mode::from_raw_mode(spec.umask & 0o777));
        Ok(Limits { umask, nofile })
    }
}

impl Drop for Limits {
    fn drop(&mut self) {
        rustix::process::umask(self.umask);
        if let Some(before) = self.nofile.take() {
            let _ = rustix::process::setrlimit(Resource::Nofile, before);
        }
    }
}
