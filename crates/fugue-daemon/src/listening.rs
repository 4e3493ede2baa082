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
};

use rustix::{
    fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags},
    io::Errno,
};
use tokio::{
    io::{Interest, unix::AsyncFd},
    net::UnixListener,
};

use fugue_client::{
    async_fd::register_fd,
    paths::{START_LOCK_NAME, SocketPath, UserPaths},
};

/// The device and inode number of a file: the identity of a file independent of the path.
#[derive(Clone, Copy, PartialEq, Eq)]
struct FileId(u64, u64);

impl FileId {
    fn at(path: &Path) -> Option<Self> {
        fs::symlink_metadata(path)
            .ok()
            .map(|found| Self(found.dev(), found.ino()))
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
            id: FileId::at(path),
        };
        Ok((file, UnixListener::from_std(listener)?))
    }

    fn is_there(&self) -> bool {
        self.id.is_some() && FileId::at(&self.path) == self.id
    }

    /// Removes the file, if the path still leads to the bound socket.
    pub fn remove(&self) {
        if self.is_there() {
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
            id: FileId::at(&paths.state),
            socket,
        })
    }

    /// Waits for the next event. Safe to drop and call again.
    pub async fn next(&mut self) -> io::Result<StateEvent> {
        loop {
            let start_lock_opened = self.wait().await?;
            if FileId::at(&self.path) != self.id {
                let links = self.directory.metadata()?.nlink();
                return Ok(if links == 0 {
                    StateEvent::Removed
                } else {
                    StateEvent::Moved
                });
            }
            if start_lock_opened && !self.socket.is_there() {
                let path = self.socket.path.clone();
                let (socket, listener) = SocketFile::bind(&path)?;
                self.socket = socket;
                return Ok(StateEvent::Rebound(listener));
            }
        }
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
