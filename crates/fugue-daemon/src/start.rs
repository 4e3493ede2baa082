//! Starting a daemon from a client: one daemon, however many clients start at once.

use std::{
    env, fs,
    io::{self, Read, Write},
    os::{
        fd::{AsFd, FromRawFd, OwnedFd, RawFd},
        unix::fs::OpenOptionsExt,
    },
    path::Path,
};

use fugue_api::{Error, Kind};
use fugue_hold::spawn::{Session, Spawn};
use rustix::fs::FlockOperation;

use crate::{
    client::PATIENCE_FOR_A_DAEMON,
    paths::{Paths, SocketPath},
};

/// The fd on which a daemon says that it listens, or why it cannot.
const READY_FD: RawFd = 3;
/// The fd of the turn that its starter took. The daemon holds it until it listens, also where its starter is killed.
const TURN_FD: RawFd = 4;
/// Set for a daemon that has both.
const READY_VAR: &str = "FUGUE_READY_FD";

// What a daemon needs to find its files and its holders. A pane's environment comes from its caller, never from here.
const KEPT_VARIABLES: &[&str] = &[
    "HOME",
    "PATH",
    "LANG",
    "USER",
    "XDG_RUNTIME_DIR",
    "XDG_STATE_HOME",
    "XDG_CONFIG_HOME",
    "FUGUE_LOG",
    "TMPDIR",
];

// A line for every start and every oddity; years of them.
const LONGEST_LOG: u64 = 4 << 20;

/// Starts a daemon and returns when it listens; at once if another client was faster.
pub async fn daemon(paths: &Paths) -> Result<(), Error> {
    let paths = paths.clone();
    let starting = tokio::task::spawn_blocking(move || start_one(&paths));
    match tokio::time::timeout(PATIENCE_FOR_A_DAEMON, starting).await {
        Ok(Ok(outcome)) => outcome,
        Ok(Err(_)) => Err(Error::new(Kind::Internal, "the start of a daemon was cut off")),
        Err(_) => Err(Error::new(Kind::Unavailable, "a daemon was started and does not say that it listens")
            .hint("another one may hold its lock without answering; `fugue daemon status` and the daemon.log tell more")),
    }
}

fn start_one(paths: &Paths) -> Result<(), Error> {
    paths.prepare()?;
    let trouble = |error: io::Error| {
        Error::new(
            Kind::Unavailable,
            format!("a daemon could not be started: {error}"),
        )
    };
    // Whoever waits here finds a daemon when it is let through.
    let turn = Lock::take(&paths.start_lock()).map_err(trouble)?;
    let socket = SocketPath::new(&paths.socket()).map_err(trouble)?;
    if std::os::unix::net::UnixStream::connect(&socket).is_ok() {
        return Ok(());
    }
    if fs::metadata(paths.daemon_log()).is_ok_and(|log| log.len() > LONGEST_LOG) {
        // The last one is kept, for whoever asks what happened yesterday.
        let _ = fs::rename(paths.daemon_log(), paths.state.join("daemon.log.old"));
    }
    let log = fs::OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(paths.daemon_log())
        .map_err(|error| {
            trouble(io::Error::other(format!(
                "{}: {error}",
                paths.daemon_log().display()
            )))
        })?;
    let (ready, tell) = io::pipe().map_err(trouble)?;
    let kept = KEPT_VARIABLES
        .iter()
        .filter_map(|name| env::var_os(name).map(|value| (*name, value)));
    Spawn::new("/proc/self/exe")
        .named("fugue")
        .args(["daemon", "run"])
        .envs(kept)
        .env(READY_VAR, READY_FD.to_string())
        .cwd("/")
        .session(Session::Own)
        .fd(log.as_fd(), 2)
        .fd(tell.as_fd(), READY_FD)
        .fd(turn.file.as_fd(), TURN_FD)
        .start()
        .map_err(|error| trouble(io::Error::other(error.to_string())))?;
    drop(tell);
    let mut said = String::new();
    let mut ready = ready;
    ready.read_to_string(&mut said).map_err(trouble)?;
    // No word, or half a word: it died at once. The caller finds nobody at the socket, and comes again.
    serde_json::from_str::<Result<(), Error>>(&said).unwrap_or(Ok(()))
}

/// The daemon's side of the same start.
pub struct Starter {
    ready: Option<fs::File>,
    // Until it listens, nobody else starts one: a daemon that a person started takes its turn like any client, and one
    // that a client started has that client's.
    turn: Option<Lock>,
}

impl Starter {
    pub fn take(paths: &Paths) -> io::Result<Self> {
        if env::var_os(READY_VAR).is_some_and(|fd| fd == READY_FD.to_string().as_str()) {
            let turn = Lock {
                file: inherited(TURN_FD)?,
            };
            return Ok(Self {
                ready: Some(inherited(READY_FD)?),
                turn: Some(turn),
            });
        }
        Ok(Self {
            ready: None,
            turn: Some(Lock::take(&paths.start_lock())?),
        })
    }

    /// Says how the start went. Whoever waits goes on.
    pub fn tell(mut self, outcome: &Result<(), Error>) {
        if let Some(ready) = &mut self.ready {
            // A client that has gone away does not matter to the daemon.
            let _ = serde_json::to_writer(&mut *ready, outcome);
            let _ = ready.flush();
        }
        drop(self.turn.take());
    }
}

#[expect(
    unsafe_code,
    reason = "an inherited fd has no owner until it is given one, here and only once"
)]
fn inherited(fd: RawFd) -> io::Result<fs::File> {
    // SAFETY: our own parent passed it under this number for this purpose, and nobody has taken it yet.
    let owned = unsafe { OwnedFd::from_raw_fd(fd) };
    rustix::io::fcntl_setfd(&owned, rustix::io::FdFlags::CLOEXEC)?;
    Ok(owned.into())
}

/// An exclusive lock on a file, for as long as it lives. The kernel frees it whatever happens to its owner.
pub struct Lock {
    file: fs::File,
}

impl Lock {
    /// Waits for its turn.
    pub fn take(path: &Path) -> io::Result<Self> {
        let file = fs::OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(path)?;
        loop {
            match rustix::fs::flock(&file, FlockOperation::LockExclusive) {
                Ok(()) => return Ok(Self { file }),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}
