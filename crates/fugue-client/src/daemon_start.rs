//! Starts a daemon from a client: a single daemon, however many clients do so concurrently.

use std::{
    env, fs,
    io::{self, Read, Write},
    mem::MaybeUninit,
    os::{
        fd::{AsFd, FromRawFd, OwnedFd, RawFd},
        unix::{fs::OpenOptionsExt, net::UnixStream},
    },
    pin::pin,
    sync::mpsc,
    thread,
    time::Duration,
};

use fugue_api::{
    Error,
    wire::{CallerEnv, CallerIdentity, Hello, PROTOCOL},
};
use fugue_holder::{
    is_stopped,
    spawn::{SessionLeadership, SpawnCommand},
};
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};

use crate::{
    client::DAEMON_START_TIMEOUT,
    frame,
    lock::FileLock,
    paths::{self, SocketPath, UserPaths},
};

/// The fd on which a daemon reports that its socket accepts connections, or why the start failed.
const READY_FD: RawFd = 3;
/// The fd of the start lock that the starting client took. The daemon holds the lock until its socket accepts
/// connections, even if the client is killed.
const START_LOCK_FD: RawFd = 4;
/// Set for a daemon that inherits both fds.
const READY_VAR: &str = "FUGUE_READY_FD";

// Variables that a daemon needs to find its files and its holders. A pane's environment comes from its caller, never
// from here.
const INHERITED_VARIABLES: &[&str] = &[
    "HOME",
    "PATH",
    "LANG",
    "USER",
    "XDG_STATE_HOME",
    "XDG_CONFIG_HOME",
    "FUGUE_LOG",
    "TMPDIR",
];

// The log has a line for every start and every irregularity, so this lasts for years.
const MAX_LOG_BYTES: u64 = 4 << 20;

/// Starts a daemon and returns when its socket accepts connections; at once if another client was faster.
pub async fn start_daemon(paths: &UserPaths) -> Result<(), Error> {
    let paths = paths.clone();
    let starting = tokio::task::spawn_blocking(move || start_daemon_blocking(&paths));
    match tokio::time::timeout(DAEMON_START_TIMEOUT, starting).await {
        Ok(Ok(outcome)) => outcome,
        Ok(Err(_)) => Err(Error::internal("the start of the daemon was interrupted")),
        Err(_) => Err(unresponsive_error()),
    }
}

fn start_daemon_blocking(paths: &UserPaths) -> Result<(), Error> {
    paths.prepare()?;
    let trouble =
        |error: io::Error| Error::unavailable(format!("the daemon could not be started: {error}"));
    // A client that had to wait for the lock finds a daemon afterwards. A daemon whose socket was removed is notified
    // (inotify) that this file is opened, and binds the socket again.
    let turn = FileLock::lock_file(&paths.start_lock())?;
    if daemon_exists(paths).map_err(trouble)? {
        return Ok(());
    }
    if fs::metadata(paths.daemon_log()).is_ok_and(|log| log.len() > MAX_LOG_BYTES) {
        // The previous log is kept for diagnosis.
        let _ = fs::rename(paths.daemon_log(), paths.state.join("daemon.log.old"));
    }
    let log = fs::OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(paths.daemon_log())
        .map_err(|error| paths::unusable_path_error(&paths.daemon_log(), &error))?;
    let (ready, tell) = io::pipe().map_err(trouble)?;
    let kept = INHERITED_VARIABLES
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
        .fd(turn.as_fd(), START_LOCK_FD)
        .start()
        .map_err(|error| trouble(io::Error::other(error.to_string())))?;
    drop(tell);
    let mut said = String::new();
    let mut ready = ready;
    ready.read_to_string(&mut said).map_err(trouble)?;
    // An empty or partial report: the daemon died at once. The caller finds no listener at the socket, and retries.
    serde_json::from_str::<Result<(), Error>>(&said).unwrap_or(Ok(()))
}

/// Waits until a running daemon can be reached, or until none is proven to run. To be called only if the socket did not
/// respond: the daemon may be ending, or the socket may have been removed.
pub async fn find_daemon(paths: &UserPaths) -> Result<(), Error> {
    // Without a state directory no daemon runs, and the search must not create the directory.
    if !paths.state.exists() {
        return Ok(());
    }
    let paths = paths.clone();
    let finding = tokio::task::spawn_blocking(move || {
        let _turn = FileLock::lock_file(&paths.start_lock())?;
        lock_state(&paths).map(drop)
    });
    match tokio::time::timeout(DAEMON_START_TIMEOUT, finding).await {
        Ok(Ok(outcome)) => outcome,
        Ok(Err(_)) => Err(Error::internal("the search for a daemon was interrupted")),
        Err(_) => Err(unresponsive_error()),
    }
}

/// Locks the state directory for this process; `None` if the daemon that has the lock responds at its socket. A daemon
/// that is ending releases the lock, and a daemon whose socket was removed binds the socket again, so either outcome is
/// reached.
pub fn lock_state(paths: &UserPaths) -> Result<Option<FileLock>, Error> {
    if let Some(lock) = FileLock::try_lock_directory(&paths.state)? {
        return Ok(Some(lock));
    }
    let (told, outcome) = mpsc::channel();
    let lock = {
        let (told, paths) = (told.clone(), paths.clone());
        move || drop(told.send(FileLock::lock_directory(&paths.state).map(Some)))
    };
    let answer = {
        let paths = paths.clone();
        // If the kernel provides no inotify instance, the lock alone decides.
        move || {
            if wait_for_daemon(&paths).is_ok() {
                drop(told.send(Ok(None)));
            }
        }
    };
    // The thread that loses stays blocked until this process ends, or until the other daemon does.
    for wait in [Box::new(lock) as Box<dyn FnOnce() + Send>, Box::new(answer)] {
        thread::Builder::new()
            .name("find-daemon".into())
            .spawn(wait)
            .map_err(|error| paths::unusable_path_error(&paths.state, &error))?;
    }
    outcome.recv().unwrap_or_else(|_| Err(unresponsive_error()))
}

fn wait_for_daemon(paths: &UserPaths) -> io::Result<()> {
    let inotify = inotify::init(CreateFlags::CLOEXEC)?;
    let created = WatchFlags::CREATE | WatchFlags::MOVED_TO | WatchFlags::ONLYDIR;
    inotify::add_watch(&inotify, &paths.state, created)?;
    let mut buffer = [MaybeUninit::uninit(); 4096];
    let mut events = inotify::Reader::new(&inotify, &mut buffer);
    while !daemon_exists(paths)? {
        match events.next() {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}

/// Whether a daemon has the socket open: it answered, or it accepted and stayed silent until the timeout, because it is
/// busy or stopped. A connection alone proves nothing: the kernel also accepts connections for a daemon that was killed
/// a moment ago.
fn daemon_exists(paths: &UserPaths) -> io::Result<bool> {
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

fn unresponsive_error() -> Error {
    Error::unavailable("a daemon holds the lock of the state directory and does not respond")
    .hint("it may be stopped (SIGSTOP) or very busy; daemon.log in the state directory may have the reason")
}

/// Waits for the first answer of the daemon with this pid. The kernel accepts connections for a daemon that is stopped,
/// which would never answer. The pid of a daemon outside this pid namespace is unknown, and so is whether it is stopped.
pub(crate) async fn await_daemon<T>(
    greeting: impl Future<Output = T>,
    pid: Option<u32>,
) -> Result<T, Error> {
    let mut greeting = pin!(greeting);
    for wait in [STOPPED_CHECK_DELAY, DAEMON_START_TIMEOUT] {
        if let Ok(welcome) = tokio::time::timeout(wait, &mut greeting).await {
            return Ok(welcome);
        }
        if let Some(pid) = pid.filter(|pid| is_stopped(pid.cast_signed())) {
            return Err(Error::unavailable(format!(
                "the daemon (pid {pid}) is stopped (SIGSTOP, or a debugger)"
            ))
            .hint(format!(
                "`kill -CONT {pid}` continues it, `fugue daemon restart` replaces it; panes go on meanwhile"
            )));
        }
    }
    let waited = DAEMON_START_TIMEOUT.as_secs();
    Err(
        Error::unavailable(format!("the daemon has not answered for {waited} s"))
            .hint("ask again; `fugue daemon restart` replaces it, and panes go on"),
    )
}

/// After so long without an answer, a client looks whether the daemon is stopped.
const STOPPED_CHECK_DELAY: Duration = Duration::from_secs(2);

/// The daemon's side of the start.
pub struct StartupPipe {
    ready: Option<fs::File>,
    // Held until the socket accepts connections, so that no second daemon is started meanwhile. A daemon started by
    // hand takes the lock like any client; a daemon started by a client inherits that client's lock.
    start_lock: Option<FileLock>,
}

impl StartupPipe {
    pub fn from_env(paths: &UserPaths) -> Result<Self, Error> {
        if env::var_os(READY_VAR).is_some_and(|fd| fd == READY_FD.to_string().as_str()) {
            let inherited = |fd| {
                take_inherited_fd(fd)
                    .map_err(|error| Error::internal(format!("inherited fd {fd}: {error}")))
            };
            return Ok(Self {
                ready: Some(inherited(READY_FD)?),
                start_lock: Some(FileLock::from_inherited(inherited(START_LOCK_FD)?)),
            });
        }
        Ok(Self {
            ready: None,
            start_lock: Some(FileLock::lock_file(&paths.start_lock())?),
        })
    }

    /// Whether a client started this daemon and waits for the report.
    pub fn is_awaited(&self) -> bool {
        self.ready.is_some()
    }

    /// Reports the outcome of the start to the waiting client, and releases the start lock.
    pub fn report(mut self, outcome: &Result<(), Error>) {
        if let Some(ready) = &mut self.ready {
            // A client that has disconnected does not matter to the daemon.
            let _ = serde_json::to_writer(&mut *ready, outcome);
            let _ = ready.flush();
        }
        drop(self.start_lock.take());
    }
}

#[expect(
    unsafe_code,
    reason = "an inherited fd gets its owner here, and only once"
)]
fn take_inherited_fd(fd: RawFd) -> io::Result<fs::File> {
    // SAFETY: the parent passed the fd under this number for this purpose, and it has no owner yet.
    let owned = unsafe { OwnedFd::from_raw_fd(fd) };
    rustix::io::fcntl_setfd(&owned, rustix::io::FdFlags::CLOEXEC)?;
    Ok(owned.into())
}
