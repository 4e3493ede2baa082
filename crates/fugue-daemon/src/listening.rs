//! The daemon's socket file in the state directory, and the reaction to the removal of either.
//!
//! inotify reports the removal. A removed socket is bound again when the next client opens the start lock, and not earlier, so
//! that `rm -r` of the state directory is not disturbed. The removal of the state directory stops the daemon, as no client
//! could find the data again.

use std::{
    fs, io,
    mem::MaybeUninit,
    os::{fd::OwnedFd, unix::fs::MetadataExt},
    path::{Path, PathBuf},
    time::Duration,
};

use rustix::{
    fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags},
    io::Errno,
};
use tokio::{
    io::{Interest, unix::AsyncFd},
    net::UnixListener,
    time::Instant,
};

use fugue_client::{
    async_fd::register_fd,
    paths::{START_LOCK_NAME, SocketPath, UserPaths},
};

/// The device and inode number of a file: the identity of a file independent of the path.
#[derive(Clone, Copy, PartialEq, Eq)]
struct FileId(u64, u64);

impl FileId {
    /// `None` where there is no file. A failed query is an error, because it proves no removal.
    fn at(path: &Path) -> io::Result<Option<Self>> {
        match fs::symlink_metadata(path) {
            Ok(found) => Ok(Some(Self(found.dev(), found.ino()))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// The socket file that this daemon bound.
pub struct SocketFile {
    path: PathBuf,
    id: Option<FileId>,
}

impl SocketFile {
    /// Binds the socket. The caller holds the lock of the state directory, so an existing file belongs to no running daemon.
    pub fn bind(path: &Path) -> io::Result<(Self, UnixListener)> {
        // Bound under another name and renamed when the socket listens, so that a client that finds the file can connect.
        let unready = path.with_extension("sock.new");
        match fs::remove_file(&unready) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        let listener = std::os::unix::net::UnixListener::bind(SocketPath::new(&unready)?)?;
        fs::rename(&unready, path)?;
        listener.set_nonblocking(true)?;
        let file = Self {
            path: path.to_owned(),
            id: FileId::at(path)?,
        };
        Ok((file, UnixListener::from_std(listener)?))
    }

    fn is_there(&self) -> io::Result<bool> {
        Ok(self.id.is_some() && FileId::at(&self.path)? == self.id)
    }

    /// Removes the file, if the path still leads to the bound socket.
    pub fn remove(&self) {
        if let Ok(true) = self.is_there() {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// A change of the state directory.
pub enum StateEvent {
    /// The socket had been removed and is bound again.
    Rebound(UnixListener),
    /// The state directory was removed, and the panes' directories with it.
    Removed,
    /// Another directory is at the path, or none; the panes' directories are elsewhere.
    Moved,
}

/// What is at the path of the state directory.
enum Found {
    /// The state directory with the bound socket.
    Socket,
    /// The state directory without the bound socket.
    NoSocket,
    Removed,
    Moved,
}

// No event reports that a failed query would succeed now.
const MIN_RETRY_INTERVAL: Duration = Duration::from_millis(100);
const MAX_RETRY_INTERVAL: Duration = Duration::from_secs(5);

/// Watches the state directory and the socket inside.
pub struct StateMonitor {
    /// `None` if the user's limit of inotify instances is reached: a removed socket is then not bound again.
    inotify: Option<AsyncFd<OwnedFd>>,
    directory: fs::File,
    path: PathBuf,
    id: Option<FileId>,
    pub socket: SocketFile,
}

impl StateMonitor {
    pub fn new(paths: &UserPaths, socket: SocketFile) -> io::Result<Self> {
        let inotify = match watch(&paths.state) {
            Ok(inotify) => Some(register_fd(inotify, Interest::READABLE)?),
            Err(error) => {
                tracing::warn!(%error, "state directory not monitored");
                None
            }
        };
        Ok(Self {
            inotify,
            directory: fs::File::open(&paths.state)?,
            path: paths.state.clone(),
            id: FileId::at(&paths.state)?,
            socket,
        })
    }

    /// Waits for the next event. Safe to drop and call again.
    pub async fn next(&mut self) -> io::Result<StateEvent> {
        loop {
            let start_lock_opened = self.wait().await?;
            match self.found().await {
                Found::Socket => {}
                Found::NoSocket if !start_lock_opened => {}
                Found::NoSocket => match SocketFile::bind(&self.socket.path) {
                    Ok((socket, listener)) => {
                        self.socket = socket;
                        return Ok(StateEvent::Rebound(listener));
                    }
                    // The next client opens the start lock again.
                    Err(error) => tracing::warn!(%error, "socket not bound again"),
                },
                Found::Removed => return Ok(StateEvent::Removed),
                Found::Moved => return Ok(StateEvent::Moved),
            }
        }
    }

    /// Examines the directory until that succeeds, because inotify does not report a removal twice.
    async fn found(&self) -> Found {
        let mut pause = MIN_RETRY_INTERVAL;
        loop {
            match self.examine() {
                Ok(found) => return found,
                Err(error) if pause == MIN_RETRY_INTERVAL => {
                    tracing::warn!(%error, "state directory not examined, trying again");
                }
                Err(_) => {}
            }
            tokio::time::sleep_until(Instant::now() + pause).await;
            pause = (pause * 2).min(MAX_RETRY_INTERVAL);
        }
    }

    fn examine(&self) -> io::Result<Found> {
        Ok(if FileId::at(&self.path)? != self.id {
            match self.directory.metadata()?.nlink() {
                0 => Found::Removed,
                _ => Found::Moved,
            }
        } else if self.socket.is_there()? {
            Found::Socket
        } else {
            Found::NoSocket
        })
    }

    /// Waits for inotify events and returns whether the start lock was opened. An overflow of the event queue counts as every
    /// event.
    async fn wait(&mut self) -> io::Result<bool> {
        let Some(inotify) = &self.inotify else {
            return std::future::pending().await;
        };
        let mut ready = inotify.readable().await?;
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut events = inotify::Reader::new(inotify.get_ref(), &mut buffer);
        let mut start_lock_opened = false;
        loop {
            match events.next() {
                Ok(event) => {
                    start_lock_opened |= event.events().contains(ReadFlags::QUEUE_OVERFLOW)
                        || event
                            .file_name()
                            .is_some_and(|name| name.to_bytes() == START_LOCK_NAME.as_bytes());
                }
                Err(Errno::AGAIN) => {
                    ready.clear_ready();
                    return Ok(start_lock_opened);
                }
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }
}

fn watch(state: &Path) -> io::Result<OwnedFd> {
    let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
    inotify::add_watch(&inotify, state, WatchFlags::OPEN | WatchFlags::ONLYDIR)?;
    // The lock holds this directory open, so inotify reports the removal only for the parent directory.
    if let Some(parent) = state.parent() {
        let gone = WatchFlags::DELETE | WatchFlags::MOVED_FROM | WatchFlags::ONLYDIR;
        inotify::add_watch(&inotify, parent, gone)?;
    }
    Ok(inotify)
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn a_socket_that_could_not_be_bound_again_is_bound_for_the_next_client() {
        let dir = tempfile::tempdir().unwrap();
        let paths = UserPaths {
            state: dir.path().join("state"),
            config: dir.path().join("config.toml"),
        };
        fs::create_dir(&paths.state).unwrap();
        let (socket, _listener) = SocketFile::bind(&paths.socket()).unwrap();
        let mut monitor = StateMonitor::new(&paths, socket).unwrap();
        fs::remove_file(paths.socket()).unwrap();
        // Not removable as a file, so that the socket cannot be bound under this name.
        let in_the_way = paths.socket().with_extension("sock.new");
        fs::create_dir(&in_the_way).unwrap();
        let open_lock = || drop(fs::File::create(paths.state.join(START_LOCK_NAME)).unwrap());
        open_lock();
        let unbound = timeout(Duration::from_millis(200), monitor.next()).await;
        assert!(unbound.is_err(), "it was bound, or given up");
        fs::remove_dir(&in_the_way).unwrap();
        open_lock();
        let bound = timeout(Duration::from_secs(20), monitor.next()).await;
        assert!(matches!(bound, Ok(Ok(StateEvent::Rebound(_)))));
        assert!(paths.socket().exists());
    }

    #[test]
    fn a_path_that_cannot_be_examined_is_not_taken_for_a_removed_file() {
        let dir = tempfile::tempdir().unwrap();
        assert!(matches!(FileId::at(&dir.path().join("none")), Ok(None)));
        let is_loop = dir.path().join("loop");
        std::os::unix::fs::symlink(&is_loop, &is_loop).unwrap();
        assert!(FileId::at(&is_loop.join("state")).is_err());
    }
}
