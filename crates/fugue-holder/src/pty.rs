//! Opens the PTY and starts the child in it.

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

/// Both ends of a PTY. The holder keeps the slave open too: otherwise the master would permanently report a hang-up as
/// soon as the child closes its own fds, and the kernel has no event for a slave that is opened again.
pub(crate) struct PtyPair {
    pub(crate) master: OwnedFd,
    slave: Option<OwnedFd>,
}

impl PtyPair {
    pub(crate) fn open() -> Result<PtyPair, SpawnError> {
        let failed = |what: &str| {
            let what = what.to_owned();
            move |e| SpawnError::new(what, io::Error::from(e))
        };
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let master = match rustix::pty::openpt(flags) {
            // The kernel returns ENOSPC, which rustix maps to the POSIX error.
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
        // Applies to every fd of this master, including those that a later holder takes over.
        rustix::io::ioctl_fionbio(&master, true).map_err(failed("a new terminal (FIONBIO)"))?;
        let terminal = PtyPair::adopt(master);
        let peer = terminal.slave.as_ref().ok_or(SpawnError {
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

    /// Wraps the master of a dead holder.
    pub(crate) fn adopt(master: OwnedFd) -> PtyPair {
        let mut terminal = PtyPair {
            master,
            slave: None,
        };
        terminal.reopen_slave();
        terminal
    }

    /// Opens the slave (again): after a hang-up, the holder's own fd of the slave is dead as well.
    pub(crate) fn reopen_slave(&mut self) {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        self.slave = rustix::pty::ioctl_tiocgptpeer(&self.master, flags).ok();
    }

    pub(crate) fn has_slave(&self) -> bool {
        self.slave.is_some()
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

    /// Starts `spec` with this PTY as its controlling terminal. `kept` are the fds that were sent with the request.
    pub(crate) fn start(
        &self,
        spec: &ChildSpec,
        kept: &[OwnedFd],
    ) -> Result<ChildProcess, SpawnError> {
        let peer = self.slave.as_ref().ok_or(SpawnError {
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
        let _limits = ChildLimits::set(spec)?;
        spawn.start()
    }
}

/// The umask and the open-files limit that a child inherits. Set only while the child is started: files of the holder
/// stay 0600.
struct ChildLimits {
    umask: Mode,
    nofile: Option<Rlimit>,
}

impl ChildLimits {
    fn set(spec: &ChildSpec) -> Result<ChildLimits, SpawnError> {
        let before = rustix::process::getrlimit(Resource::Nofile);
        let mut nofile = None;
        if let Some(soft) = spec.nofile {
            // The soft limit cannot exceed the hard limit.
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
        Ok(ChildLimits { umask, nofile })
    }
}

impl Drop for ChildLimits {
    fn drop(&mut self) {
        rustix::process::umask(self.umask);
        if let Some(before) = self.nofile.take() {
            let _ = rustix::process::setrlimit(Resource::Nofile, before);
        }
    }
}
