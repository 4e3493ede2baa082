//! Starting a daemon from a client: one daemon, however many clients start at once.

use std::{
    env, fs,
    io::{self, Read, Write},
    mem::MaybeUninit,
    os::{
        fd::{AsFd, FromRawFd, OwnedFd, RawFd},
        unix::{fs::OpenOptionsExt, net::UnixStream},
    },
    sync::mpsc,
    thread,
};

use fugue_api::{
    Error, ErrorKind,
    wire::{CallerEnv, CallerIdentity, Hello, PROTOCOL},
};
use fugue_holder::spawn::{SessionLeadership, SpawnCommand};
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};

use crate::{
    client::DAEMON_START_TIMEOUT,
    frame,
    lock::FileLock,
    paths::{self, Paths, SocketPath},
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
    match tokio::time::timeout(DAEMON_START_TIMEOUT, starting).await {
        Ok(Ok(outcome)) => outcome,
        Ok(Err(_)) => Err(Error::new(
            ErrorKind::Internal,
            "the start of a daemon was cut off",
        )),
        Err(_) => Err(not_answering()),
    }
}

fn start_one(paths: &Paths) -> Result<(), Error> {
    paths.prepare()?;
    let trouble = |error: io::Error| {
        Error::new(
            ErrorKind::Unavailable,
            format!("a daemon could not be started: {error}"),
        )
    };
    // A client that had to wait here finds a daemon when it gets the lock. A daemon whose socket was removed hears that
    // this file is opened, and binds its socket again.
    let turn = FileLock::file(&paths.start_lock())?;
    if daemon_answers(paths).map_err(trouble)? {
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
        .map_err(|error| paths::unusable(&paths.daemon_log(), &error))?;
    let (ready, tell) = io::pipe().map_err(trouble)?;
    let kept = KEPT_VARIABLES
        .iter()
        .filter_map(|name| env::var_os(name).map(|value| (*name, value)));
    SpawnCommand::new("/proc/self/exe")
        .arg0("fugue")
        .args(["daemon", "run"])
        .envs(kept)
        .env(READY_VAR, READY_FD.to_string())
        .cwd("/")
        .session(SessionLeadership::Own)
        .fd(log.as_fd(), 2)
        .fd(tell.as_fd(), READY_FD)
        .fd(turn.as_fd(), TURN_FD)
        .start()
        .map_err(|error| trouble(io::Error::other(error.to_string())))?;
    drop(tell);
    let mut said = String::new();
    let mut ready = ready;
    ready.read_to_string(&mut said).map_err(trouble)?;
    // No word, or half a word: it died at once. The caller finds nobody at the socket, and comes again.
    serde_json::from_str::<Result<(), Error>>(&said).unwrap_or(Ok(()))
}

/// Waits until a daemon that runs can be reached, or until it is certain that none does. Only where the socket did not
/// answer: the daemon may be ending, or its socket may have been removed.
pub async fn find_daemon(paths: &Paths) -> Result<(), Error> {
    // Without a state directory there is no daemon, and looking for one makes none.
    if !paths.state.exists() {
        return Ok(());
    }
    let paths = paths.clone();
    let finding = tokio::task::spawn_blocking(move || {
        let _turn = FileLock::file(&paths.start_lock())?;
        lock_state(&paths).map(drop)
    });
    match tokio::time::timeout(DAEMON_START_TIMEOUT, finding).await {
        Ok(Ok(outcome)) => outcome,
        Ok(Err(_)) => Err(Error::new(
            ErrorKind::Internal,
            "the search for a daemon was cut off",
        )),
        Err(_) => Err(not_answering()),
    }
}

/// Locks the state directory for this process; `None` if the daemon that has the lock answers at its socket. A daemon
/// that is ending gives its lock up, and one whose socket was removed binds it again, so one of the two comes about.
pub fn lock_state(paths: &Paths) -> Result<Option<FileLock>, Error> {
    if let Some(lock) = FileLock::try_directory(&paths.state)? {
        return Ok(Some(lock));
    }
    let (told, outcome) = mpsc::channel();
    let lock = {
        let (told, paths) = (told.clone(), paths.clone());
        move || drop(told.send(FileLock::directory(&paths.state).map(Some)))
    };
    let answer = {
        let paths = paths.clone();
        // Where the kernel gives no inotify instance, the lock decides alone.
        move || {
            if until_daemon_answers(&paths).is_ok() {
                drop(told.send(Ok(None)));
            }
        }
    };
    // The one that loses stays blocked until the process ends, or until the other daemon does.
    for wait in [Box::new(lock) as Box<dyn FnOnce() + Send>, Box::new(answer)] {
        thread::Builder::new()
            .name("find-daemon".into())
            .spawn(wait)
            .map_err(|error| paths::unusable(&paths.state, &error))?;
    }
    outcome.recv().unwrap_or_else(|_| Err(not_answering()))
}

fn until_daemon_answers(paths: &Paths) -> io::Result<()> {
    let inotify = inotify::init(CreateFlags::CLOEXEC)?;
    let created = WatchFlags::CREATE | WatchFlags::MOVED_TO | WatchFlags::ONLYDIR;
    inotify::add_watch(&inotify, &paths.state, created)?;
    let mut buffer = [MaybeUninit::uninit(); 4096];
    let mut events = inotify::Reader::new(&inotify, &mut buffer);
    while !daemon_answers(paths)? {
        match events.next() {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}

/// Whether a daemon answers at the socket. A connection alone proves nothing: the kernel accepts it also for a daemon that
/// was killed a moment ago, or that is stopped. One that is connected and says nothing for a while is there, too busy or
/// stopped.
fn daemon_answers(paths: &Paths) -> io::Result<bool> {
    let socket = SocketPath::new(&paths.socket())?;
    let Ok(mut stream) = UnixStream::connect(&socket) else {
        return Ok(false);
    };
    let hello = frame::encode(&Hello {
        protocol: PROTOCOL,
        caller: CallerEnv::nobody(),
        who: CallerIdentity::Person {
            project: String::new(),
        },
    })?;
    stream.set_read_timeout(Some(DAEMON_START_TIMEOUT))?;
    let answer = stream
        .write_all(&hello)
        .and_then(|()| stream.read(&mut [0]));
    Ok(match answer {
        Ok(bytes) => bytes > 0,
        Err(error) => error.kind() == io::ErrorKind::WouldBlock,
    })
}

fn not_answering() -> Error {
    Error::new(
        ErrorKind::Unavailable,
        "a daemon holds the lock of the state directory and does not answer",
    )
    .hint("it may be stopped (SIGSTOP) or very busy; the daemon.log in the state directory may say why")
}

/// The daemon's side of the same start.
pub struct StartupPipe {
    ready: Option<fs::File>,
    // Until it listens, nobody else starts one: a daemon that a person started takes its turn like any client, and one
    // that a client started has that client's.
    turn: Option<FileLock>,
}

impl StartupPipe {
    pub fn take(paths: &Paths) -> Result<Self, Error> {
        if env::var_os(READY_VAR).is_some_and(|fd| fd == READY_FD.to_string().as_str()) {
            let inherited = |fd| {
                inherited(fd).map_err(|error| {
                    Error::new(ErrorKind::Internal, format!("inherited fd {fd}: {error}"))
                })
            };
            return Ok(Self {
                ready: Some(inherited(READY_FD)?),
                turn: Some(FileLock::inherited(inherited(TURN_FD)?)),
            });
        }
        Ok(Self {
            ready: None,
            turn: Some(FileLock::file(&paths.start_lock())?),
        })
    }

    /// Whether a client started this daemon and waits for it.
    pub fn is_awaited(&self) -> bool {
        self.ready.is_some()
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
