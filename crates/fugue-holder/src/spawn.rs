//! Starts processes with `posix_spawn`: no fork, whatever the size of the caller; only named fds are inherited; default
//! signal dispositions and an empty signal mask; errors name the step that failed.

use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rustix::event::Timespec;
use rustix::fs::{Access, AtFlags, CWD, Mode, OFlags};
use rustix::process::{Pid, PidfdFlags};

use crate::sys;
pub use crate::sys::{ProcessExit, SessionLeadership};

/// A program to start. The environment is empty at first. The fds 0, 1 and 2 are `/dev/null` unless set.
pub struct SpawnCommand<'a> {
    program: PathBuf,
    argv: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    cwd: Option<PathBuf>,
    session: SessionLeadership,
    fds: Vec<(BorrowedFd<'a>, RawFd)>,
    terminal: Option<BorrowedFd<'a>>,
}

impl<'a> SpawnCommand<'a> {
    /// `program` is a path, or a name that is looked up in the `PATH` of the new process's own environment.
    pub fn new(program: impl Into<PathBuf>) -> SpawnCommand<'a> {
        let program = program.into();
        SpawnCommand {
            argv: vec![program.clone().into_os_string()],
            program,
            env: Vec::new(),
            cwd: None,
            session: SessionLeadership::Inherited,
            fds: Vec::new(),
            terminal: None,
        }
    }

    /// Sets `argv[0]`, which is the path of the program by default.
    #[must_use]
    pub fn arg0(mut self, name: impl Into<OsString>) -> Self {
        self.argv[0] = name.into();
        self
    }

    #[must_use]
    pub fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.argv.push(arg.into());
        self
    }

    #[must_use]
    pub fn args(mut self, args: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        self.argv.extend(args.into_iter().map(Into::into));
        self
    }

    #[must_use]
    pub fn env(mut self, key: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        let key = key.into();
        self.env.retain(|(k, _)| *k != key);
        self.env.push((key, value.into()));
        self
    }

    #[must_use]
    pub fn envs(
        mut self,
        vars: impl IntoIterator<Item = (impl Into<OsString>, impl Into<OsString>)>,
    ) -> Self {
        for (key, value) in vars {
            self = self.env(key, value);
        }
        self
    }

    #[must_use]
    pub fn cwd(mut self, dir: impl Into<PathBuf>) -> Self {
        self.cwd = Some(dir.into());
        self
    }

    #[must_use]
    pub fn session(mut self, session: SessionLeadership) -> Self {
        self.session = session;
        self
    }

    /// Passes `fd` to the process under the number `as_fd`. Source and target numbers may overlap.
    #[must_use]
    pub fn fd(mut self, fd: BorrowedFd<'a>, as_fd: RawFd) -> Self {
        self.fds.retain(|(_, target)| *target != as_fd);
        self.fds.push((fd, as_fd));
        self
    }

    /// Makes `slave` the controlling terminal and fds 0, 1 and 2 of the process, in a session of its own.
    #[must_use]
    pub fn terminal(mut self, peer: BorrowedFd<'a>) -> Self {
        self.session = SessionLeadership::Own;
        self.terminal = Some(peer);
        self
    }

    /// Starts the process.
    pub fn start(&self) -> Result<ChildProcess, SpawnError> {
        let cwd = self.open_cwd()?;
        let program = self.find_program()?;
        let argv = c_strings("argv", self.argv.iter().map(|a| a.as_bytes().to_vec()))?;
        let env = c_strings(
            "env",
            self.env
                .iter()
                .map(|(k, v)| [k.as_bytes(), b"=", v.as_bytes()].concat()),
        )?;

        // Dups above every target number, so that no dup2 in the child overwrites a source that is still needed.
        let above = self
            .fds
            .iter()
            .map(|(_, to)| to + 1)
            .max()
            .unwrap_or(3)
            .max(3);
        let mut copies = Vec::new();
        let mut actions = Vec::new();
        if let Some(dir) = &cwd {
            actions.push(sys::SpawnAction::Chdir(dir.as_raw_fd()));
        }
        match self.terminal {
            Some(peer) => {
                let peer = dup_above(peer, above)?;
                // Opened by its fd and not by its name, which may belong to another devpts. A session leader that opens
                // a terminal without O_NOCTTY makes it the controlling terminal.
                actions.push(open_action(
                    0,
                    &format!("/proc/self/fd/{}", peer.as_raw_fd()),
                    libc::O_RDWR,
                )?);
                actions.push(sys::SpawnAction::Dup { from: 0, to: 1 });
                actions.push(sys::SpawnAction::Dup { from: 0, to: 2 });
                copies.push(peer);
            }
            None => {
                for fd in 0..3 {
                    actions.push(open_action(fd, "/dev/null", libc::O_RDWR)?);
                }
            }
        }
        for (fd, to) in &self.fds {
            let source = dup_above(*fd, above)?;
            actions.push(sys::SpawnAction::Dup {
                from: source.as_raw_fd(),
                to: *to,
            });
            copies.push(source);
        }

        let path = c_string("program", program.as_os_str().as_bytes().to_vec())?;
        let pid = sys::posix_spawn(&path, &argv, &env, self.session, &actions)
            .map_err(|e| self.explain_exec(&program, e))?;
        // The child is running already, so a temporary lack of fds must not fail the start.
        match retry_exhausted(|| open_pidfd(pid)) {
            Ok(pidfd) => Ok(ChildProcess { pid, pidfd }),
            Err(e) => {
                kill_and_reap(pid);
                Err(SpawnError::new("pidfd", e))
            }
        }
    }

    fn open_cwd(&self) -> Result<Option<OwnedFd>, SpawnError> {
        let Some(dir) = &self.cwd else {
            return Ok(None);
        };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = rustix::fs::open(dir, flags, Mode::empty())
            .map_err(|e| SpawnError::new(format!("cwd {}", dir.display()), e))?;
        // O_PATH needs no permission, but chdir needs search permission.
        rustix::fs::accessat(&fd, ".", Access::EXEC_OK, AtFlags::EACCESS)
            .map_err(|e| SpawnError::new(format!("cwd {}", dir.display()), e))?;
        Ok(Some(fd))
    }

    /// The lookup of `execvp`, in the `PATH` of the new process instead of our own.
    fn find_program(&self) -> Result<PathBuf, SpawnError> {
        let name = self.program.as_os_str();
        if name.is_empty() {
            return Err(SpawnError::new("program ``", rustix::io::Errno::NOENT));
        }
        if name.as_bytes().contains(&b'/') {
            return Ok(self.program.clone());
        }
        let path = self
            .env
            .iter()
            .find(|(k, _)| k == "PATH")
            .map_or(OsStr::new("/usr/local/bin:/usr/bin:/bin"), |(_, v)| {
                v.as_os_str()
            });
        let mut worst = rustix::io::Errno::NOENT;
        for dir in path.as_bytes().split(|b| *b == b':') {
            let dir = if dir.is_empty() { b".".as_slice() } else { dir };
            let mut candidate = self.cwd.clone().unwrap_or_default();
            candidate.push(OsStr::from_bytes(dir));
            candidate.push(name);
            if !candidate.is_file() {
                continue;
            }
            match rustix::fs::accessat(CWD, &candidate, Access::EXEC_OK, AtFlags::EACCESS) {
                Ok(()) => return Ok(candidate),
                Err(e) => worst = e,
            }
        }
        Err(SpawnError::new(
            format!("program {} (looked in PATH)", name.display()),
            worst,
        ))
    }

    fn explain_exec(&self, program: &Path, error: io::Error) -> SpawnError {
        let full = self
            .cwd
            .as_deref()
            .map_or(program.to_path_buf(), |cwd| cwd.join(program));
        let absent = error.raw_os_error() == Some(libc::ENOENT);
        // ENOENT for an existing file refers to the interpreter named in its first line.
        let what = if absent && full.exists() {
            format!("interpreter of {}", program.display())
        } else {
            format!("program {}", program.display())
        };
        SpawnError {
            what,
            errno: error.raw_os_error().unwrap_or(libc::EIO),
        }
    }
}

/// A started process. Dropping the value neither ends nor reaps the process.
#[derive(Debug)]
pub struct ChildProcess {
    pub pid: i32,
    pub pidfd: OwnedFd,
}

impl ChildProcess {
    /// Reaps the process and returns the exit, if the process has ended. The pidfd is readable from then on.
    pub fn try_wait(&self) -> io::Result<Option<ProcessExit>> {
        Ok(
            sys::try_wait_child(sys::WaitTarget::Pid(self.pid), sys::ZombieUse::Reap)?
                .map(|(_, ending)| ending),
        )
    }

    /// Waits for the process to end, and reaps it.
    pub fn wait(&self) -> io::Result<ProcessExit> {
        sys::wait_child(self.pid)
    }

    /// Kills and reaps the process, because a later step of its start failed.
    pub fn kill_and_reap(self) {
        kill_and_reap(self.pid);
    }

    /// Sends a signal to this process, and never to a later one with the same pid.
    pub fn signal(&self, signo: i32) -> io::Result<()> {
        Ok(rustix::process::pidfd_send_signal(
            &self.pidfd,
            parse_signal(signo)?,
        )?)
    }
}

/// The step that failed, and the error number of the kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpawnError {
    pub what: String,
    pub errno: i32,
}

impl SpawnError {
    pub(crate) fn new(what: impl Into<String>, error: impl Into<io::Error>) -> SpawnError {
        SpawnError {
            what: what.into(),
            errno: error.into().raw_os_error().unwrap_or(libc::EIO),
        }
    }
}

impl std::fmt::Display for SpawnError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{}: {}",
            self.what,
            io::Error::from_raw_os_error(self.errno)
        )
    }
}

impl std::error::Error for SpawnError {}

impl From<SpawnError> for io::Error {
    fn from(error: SpawnError) -> io::Error {
        io::Error::new(io::Error::from_raw_os_error(error.errno).kind(), error)
    }
}

pub(crate) fn parse_signal(signo: i32) -> io::Result<rustix::process::Signal> {
    rustix::process::Signal::from_named_raw(signo)
        .ok_or_else(|| io::Error::from_raw_os_error(libc::EINVAL))
}

pub(crate) fn open_pidfd(pid: i32) -> io::Result<OwnedFd> {
    let pid = Pid::from_raw(pid).ok_or_else(|| io::Error::from_raw_os_error(libc::ESRCH))?;
    Ok(rustix::process::pidfd_open(pid, PidfdFlags::empty())?)
}

/// Retries briefly while the kernel is out of fds or memory. The kernel has no event for their availability.
pub(crate) fn retry_exhausted<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    const BACKOFF_MS: [i64; 5] = [1, 2, 5, 10, 20];
    for wait in BACKOFF_MS {
        match call() {
            Err(e)
                if matches!(
                    e.raw_os_error(),
                    Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM)
                ) =>
            {
                let wait = Timespec {
                    tv_sec: 0,
                    tv_nsec: wait * 1_000_000,
                };
                // An interruption only makes the retry earlier.
                let _ = rustix::event::poll(&mut [], Some(&wait));
            }
            other => return other,
        }
    }
    call()
}

/// Kills and reaps a process, so that a failed start leaves none behind.
fn kill_and_reap(pid: i32) {
    if let Some(process) = Pid::from_raw(pid) {
        let _ = rustix::process::kill_process(process, rustix::process::Signal::KILL);
        let _ = sys::wait_child(pid);
    }
}

fn dup_above(fd: BorrowedFd<'_>, above: RawFd) -> Result<OwnedFd, SpawnError> {
    rustix::io::fcntl_dupfd_cloexec(fd.as_fd(), above).map_err(|e| SpawnError::new("fd", e))
}

fn open_action(fd: RawFd, path: &str, flags: i32) -> Result<sys::SpawnAction, SpawnError> {
    Ok(sys::SpawnAction::Open {
        fd,
        path: c_string("path", path.into())?,
        flags,
    })
}

fn c_strings(what: &str, items: impl Iterator<Item = Vec<u8>>) -> Result<Vec<CString>, SpawnError> {
    items.map(|item| c_string(what, item)).collect()
}

fn c_string(what: &str, bytes: Vec<u8>) -> Result<CString, SpawnError> {
    CString::new(bytes).map_err(|e| {
        let shown = OsString::from_vec(e.into_vec());
        SpawnError {
            what: format!("{what} {} (a NUL byte in it)", shown.display()),
            errno: libc::EINVAL,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_exhausted_for_a_moment_is_tried_again() {
        let mut refusals = vec![libc::ENOMEM, libc::ENFILE, libc::EMFILE];
        let mut call = || match refusals.pop() {
            Some(errno) => Err(io::Error::from_raw_os_error(errno)),
            None => Ok(()),
        };
        assert!(retry_exhausted(&mut call).is_ok());
        let mut calls = 0;
        let refused = retry_exhausted(|| {
            calls += 1;
            Err::<(), _>(io::Error::from_raw_os_error(libc::ESRCH))
        });
        assert!(refused.is_err());
        assert_eq!(calls, 1, "what cannot help is not tried again");
    }
}
