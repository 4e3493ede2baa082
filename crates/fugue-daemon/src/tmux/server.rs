//! Runs single tmux commands with a time limit, so that a tmux server that hangs does not block the daemon.

use std::{
    ffi::{OsStr, OsString},
    io,
    os::{
        fd::{AsFd, OwnedFd},
        unix::fs::DirBuilderExt,
    },
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use fugue_api::{Error, ErrorKind, wire::CallerEnv};
use fugue_holder::spawn::{ChildProcess, ProcessExit, SpawnCommand};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    pipe::{PipeFlags, pipe_with},
    process::Signal,
};

use crate::{pane::launch, resolve};

/// A tmux server, identified by the socket, and the tmux program to use.
#[derive(Clone, Debug)]
pub struct TmuxServer {
    program: PathBuf,
    pub socket: PathBuf,
    env: Vec<(OsString, OsString)>,
}

/// Why a tmux command failed.
#[derive(Debug, thiserror::Error)]
pub enum TmuxError {
    #[error("no tmux server is at `{}`", .0.display())]
    NoServer(PathBuf),
    /// The command failed, with tmux's own error text.
    #[error("tmux reports: {0}")]
    Rejected(String),
    #[error("the tmux server at `{}` does not answer", .0.display())]
    Silent(PathBuf),
    #[error("tmux cannot be run: {0}")]
    NotRun(#[from] io::Error),
}

impl From<TmuxError> for Error {
    fn from(refused: TmuxError) -> Self {
        let hint = match &refused {
            TmuxError::NoServer(_) => "start tmux, or leave `backend` out",
            TmuxError::Rejected(_) | TmuxError::NotRun(_) => "nothing was changed",
            TmuxError::Silent(_) => "is it stopped? nothing waits for it any longer",
        };
        Error::new(ErrorKind::Unavailable, refused.to_string()).hint(hint)
    }
}

// A server answers within a millisecond, and within about 50 ms while panes print at full speed.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(2);
// Enough for a list of ten thousand panes.
const MAX_OUTPUT_BYTES: usize = 1 << 20;
// The history of a pane, for which people set limits of up to a hundred thousand lines.
const MAX_TEXT_BYTES: usize = 64 << 20;
const TEXT_TIMEOUT: Duration = Duration::from_secs(5);
// The first version with the control mode and pane options that are used here.
const MIN_VERSION: (u32, u32) = (3, 3);

// One ending server is usual where panes come and go quickly; several in a row have another cause.
const MAX_RESTART_ATTEMPTS: usize = 4;

impl TmuxServer {
    /// The server in which a caller runs, otherwise the server that the caller's `tmux` would connect to.
    pub fn of(caller: &CallerEnv) -> Result<Self, Error> {
        // A server that this call starts passes the environment to every later window.
        let env = launch::inherited(caller);
        let path = resolve::variable(caller, "PATH");
        let cwd = PathBuf::from(OsString::from(&caller.cwd));
        Self::with(socket_of(caller), path.as_deref(), &cwd, env)
    }

    /// The server with this socket, reached with the daemon's own environment.
    pub fn at(socket: &Path) -> Result<Self, Error> {
        let path = std::env::var_os("PATH");
        let env = std::env::vars_os()
            .filter(|(key, _)| key != "TMUX" && key != "TMUX_PANE")
            .collect();
        Self::with(socket.to_owned(), path.as_deref(), Path::new("/"), env)
    }

    fn with(
        socket: PathBuf,
        path: Option<&OsStr>,
        cwd: &Path,
        mut env: Vec<(OsString, OsString)>,
    ) -> Result<Self, Error> {
        let program = resolve::find_program(OsStr::new("tmux"), path, cwd)
            .or_else(|| resolve::find_program(OsStr::new("tmux"), None, cwd))
            .ok_or_else(|| {
                Error::new(ErrorKind::Unavailable, "no program `tmux` is on the PATH")
                    .hint("install tmux 3.3 or later, or leave `backend` out")
            })?;
        // The socket is passed as an argument. Variables of a single pane must not reach every later window.
        env.retain(|(key, _)| {
            key.to_str()
                .is_none_or(|key| key != "TMUX" && !key.starts_with("FUGUE_"))
        });
        Ok(Self {
            program,
            socket,
            env,
        })
    }

    pub fn program(&self) -> &Path {
        &self.program
    }

    pub fn env(&self) -> impl Iterator<Item = (OsString, OsString)> {
        self.env.iter().cloned()
    }

    /// Refuses a tmux version that is too old.
    pub fn check_version(&self) -> Result<(), Error> {
        self.version(COMMAND_TIMEOUT).map(drop)
    }

    /// What `tmux -V` prints, unless it is a version that is too old.
    pub fn version(&self, limit: Duration) -> Result<String, Error> {
        let said = self.run_for(&["-V"], MAX_OUTPUT_BYTES, limit)?;
        let old = version(&said).is_some_and(|version| version < MIN_VERSION);
        if old {
            return Err(Error::new(
                ErrorKind::Unavailable,
                format!("`{}` is {}", self.program.display(), said.trim()),
            )
            .hint("tmux 3.3 or later is needed, for pane options and control mode"));
        }
        Ok(said.trim().to_owned())
    }

    /// Runs a tmux command and returns the output. Starts no server.
    pub fn ask(&self, words: &[&str]) -> Result<String, TmuxError> {
        let socket = self.socket.to_string_lossy();
        self.run(&[&["-u", "-N", "-S", &socket], words].concat())
    }

    /// [`Self::ask`] for a long output.
    pub fn fetch(&self, words: &[&str]) -> Result<String, TmuxError> {
        let socket = self.socket.to_string_lossy();
        let words = [&["-u", "-N", "-S", &socket], words].concat();
        self.run_for(&words, MAX_TEXT_BYTES, TEXT_TIMEOUT)
    }

    /// [`Self::ask`] that starts a server if none runs.
    pub fn ask_or_start(&self, words: &[&str]) -> Result<String, TmuxError> {
        // tmux creates the directory of sockets only for the default socket.
        if let Some(dir) = self.socket.parent().filter(|dir| !dir.exists()) {
            std::fs::DirBuilder::new().mode(0o700).create(dir)?;
        }
        let socket = self.socket.to_string_lossy();
        let words = [&["-u", "-S", &socket], words].concat();
        // A server that ends with its last session may accept the command and never answer. The next attempt starts a new
        // server.
        for _ in 0..MAX_RESTART_ATTEMPTS {
            match self.run(&words) {
                Err(TmuxError::NoServer(_)) => {}
                answered => return answered,
            }
        }
        self.run(&words)
    }

    fn run(&self, words: &[&str]) -> Result<String, TmuxError> {
        self.run_for(words, MAX_OUTPUT_BYTES, COMMAND_TIMEOUT)
    }

    fn run_for(&self, words: &[&str], most: usize, limit: Duration) -> Result<String, TmuxError> {
        let (answer, stdout) = pipe_with(PipeFlags::CLOEXEC).map_err(io::Error::from)?;
        let (complaint, stderr) = pipe_with(PipeFlags::CLOEXEC).map_err(io::Error::from)?;
        let child = SpawnCommand::new(&self.program)
            .arg0("tmux")
            .args(words)
            .envs(self.env())
            .fd(stdout.as_fd(), 1)
            .fd(stderr.as_fd(), 2)
            .start()
            .map_err(io::Error::from)?;
        drop((stdout, stderr));
        let deadline = Instant::now() + limit;
        let heard = read_pipes(&[answer, complaint], most, deadline).and_then(|heard| {
            let ended = ended(&child, deadline)?;
            Ok((heard, ended))
        });
        let ([answer, complaint], ending) = match heard {
            Ok(heard) => heard,
            Err(error) => {
                let _ = child.signal(Signal::KILL.as_raw());
                let _ = child.wait();
                return Err(match error.kind() {
                    io::ErrorKind::TimedOut => TmuxError::Silent(self.socket.clone()),
                    _ => error.into(),
                });
            }
        };
        if ending == ProcessExit::Code(0) {
            return Ok(String::from_utf8_lossy(&answer).into_owned());
        }
        let said = String::from_utf8_lossy(&complaint).trim().to_owned();
        let absent = ["no server running", "error connecting", "server exited"];
        if absent.iter().any(|start| said.starts_with(start)) {
            return Err(TmuxError::NoServer(self.socket.clone()));
        }
        Err(TmuxError::Rejected(said))
    }
}

/// Quotes a text as a single argument of tmux, where a `;` at the end of an argument would begin the next command.
pub fn quote_argument(text: &str) -> String {
    match text.strip_suffix(';') {
        Some(text) => format!("{text}\\;"),
        None => text.to_owned(),
    }
}

/// Quotes a name as a single argument of tmux that is expanded as a format: a `#(command)` inside would run the command. Every `#`
/// is doubled, except before a `[`, where tmux expands nothing.
pub fn quote_name(name: &str) -> String {
    let mut escaped = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(at) = rest.find('#') {
        let (before, from) = rest.split_at(at);
        let after = from.trim_start_matches('#');
        let signs = &from[..from.len() - after.len()];
        escaped.push_str(before);
        escaped.push_str(signs);
        if !after.starts_with('[') {
            escaped.push_str(signs);
        }
        rest = after;
    }
    escaped.push_str(rest);
    quote_argument(&escaped)
}

/// Reads both pipes to their ends.
fn read_pipes(pipes: &[OwnedFd; 2], most: usize, deadline: Instant) -> io::Result<[Vec<u8>; 2]> {
    let mut heard = [Vec::new(), Vec::new()];
    let mut open = [true, true];
    while open != [false, false] {
        let mut fds: Vec<PollFd<'_>> = Vec::new();
        let mut which = Vec::new();
        for index in [0, 1].into_iter().filter(|index| open[*index]) {
            fds.push(PollFd::new(&pipes[index], PollFlags::IN));
            which.push(index);
        }
        wait(&mut fds, deadline)?;
        for (fd, index) in fds.iter().zip(which) {
            if fd.revents().is_empty() {
                continue;
            }
            let mut buffer = [0; 16 * 1024];
            let got = rustix::io::read(&pipes[index], &mut buffer)?;
            open[index] = got > 0;
            if heard[index].len() < most {
                heard[index].extend_from_slice(&buffer[..got]);
            }
        }
    }
    Ok(heard)
}

fn ended(child: &ChildProcess, deadline: Instant) -> io::Result<ProcessExit> {
    wait(&mut [PollFd::new(&child.pidfd, PollFlags::IN)], deadline)?;
    child.wait()
}

fn wait(fds: &mut [PollFd<'_>], deadline: Instant) -> io::Result<()> {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = Timespec::try_from(left).map_err(io::Error::other)?;
        match poll(fds, Some(&timeout)) {
            Ok(0) => return Err(io::ErrorKind::TimedOut.into()),
            Ok(_) => return Ok(()),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// The socket of a caller's server. `$TMUX` is `socket,server's pid,session`; without `$TMUX`, the path is tmux's default.
fn socket_of(caller: &CallerEnv) -> PathBuf {
    let sits_in = resolve::variable(caller, "TMUX").filter(|said| !said.is_empty());
    if let Some(said) = sits_in.as_deref().and_then(OsStr::to_str) {
        let mut parts = said.rsplitn(3, ',');
        if let Some(socket) = parts.nth(2) {
            return PathBuf::from(socket);
        }
    }
    let dir = resolve::variable(caller, "TMUX_TMPDIR").filter(|dir| !dir.is_empty());
    let uid = rustix::process::getuid().as_raw();
    PathBuf::from(dir.unwrap_or_else(|| "/tmp".into()))
        .join(format!("tmux-{uid}"))
        .join("default")
}

/// Parses `tmux 3.3a` or `tmux next-3.5`. A name without a number is a private build and counts as a new version.
fn version(said: &str) -> Option<(u32, u32)> {
    let digits = said.trim_start_matches(|c: char| !c.is_ascii_digit());
    let (major, rest) = digits.split_once('.')?;
    let end = rest
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(rest.len());
    Some((major.parse().ok()?, rest[..end].parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_their_numbers() {
        for (said, known) in [
            ("tmux 3.3a\n", Some((3, 3))),
            ("tmux 2.9", Some((2, 9))),
            ("tmux next-3.5", Some((3, 5))),
            ("tmux 3.10", Some((3, 10))),
            ("tmux master", None),
        ] {
            assert_eq!(version(said), known, "{said}");
        }
    }

    #[test]
    fn a_socket_is_the_one_a_caller_sits_at() {
        let caller = |env: &[(&str, &str)]| CallerEnv {
            cwd: OsString::from("/").into(),
            env: env
                .iter()
                .map(|(key, value)| (OsStr::new(key).into(), OsStr::new(value).into()))
                .collect(),
            umask: 0,
            setting_names: fugue_api::wire::SettingNames::Prefixed,
        };
        let uid = rustix::process::getuid().as_raw();
        for (env, socket) in [
            (vec![("TMUX", "/a,b/s,12,0")], "/a,b/s".to_owned()),
            (vec![("TMUX", "")], format!("/tmp/tmux-{uid}/default")),
            (
                vec![("TMUX_TMPDIR", "/x")],
                format!("/x/tmux-{uid}/default"),
            ),
        ] {
            assert_eq!(socket_of(&caller(&env)), PathBuf::from(socket));
        }
    }
}
