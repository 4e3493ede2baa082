//! The paths of this user's fugue files, derived by every client on its own.

use std::{
    env, fs, io,
    os::{
        fd::AsRawFd,
        unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt},
    },
    path::{Path, PathBuf},
};

use fugue_api::Error;

/// The name of the daemon's socket in the state directory.
pub const SOCKET_NAME: &str = "daemon.sock";
/// The name of the lock file of clients that start a daemon. The daemon's own lock is on the state directory itself.
pub const START_LOCK_NAME: &str = "start.lock";
const WORKERS_NAME: &str = "workers";

/// The state directory and the configuration file of this user, not yet opened.
///
/// The state directory contains everything, including the socket and the locks: clients with the same state directory
/// find the same daemon. `XDG_RUNTIME_DIR` is not used, because cron, ssh and some agents start programs without it,
/// and logind empties it while the daemon runs.
#[derive(Clone, Debug)]
pub struct UserPaths {
    pub state: PathBuf,
    pub config: PathBuf,
}

impl UserPaths {
    /// Applies the XDG rules. Never `/tmp`, where another user could have created the directory first.
    pub fn for_current_user() -> Result<Self, Error> {
        let home = absolute_path_from_env("HOME");
        let under = |variable: &str, fallback: &str| {
            absolute_path_from_env(variable)
                .or_else(|| home.as_ref().map(|home| home.join(fallback)))
                .ok_or_else(|| {
                    Error::unavailable(format!("neither {variable} nor HOME is an absolute path"))
                        .hint("set HOME")
                })
        };
        let state = under("XDG_STATE_HOME", ".local/state")?.join("fugue");
        let config = under("XDG_CONFIG_HOME", ".config")?.join("fugue/config.toml");
        Ok(Self { state, config })
    }

    pub fn socket(&self) -> PathBuf {
        self.state.join(SOCKET_NAME)
    }

    /// Locked by the client that starts a daemon.
    pub fn start_lock(&self) -> PathBuf {
        self.state.join(START_LOCK_NAME)
    }

    /// Lock files of leads, each named after the lead's inbox and locked while the lead is alive.
    pub fn leads(&self) -> PathBuf {
        self.state.join("leads")
    }

    pub fn daemon_log(&self) -> PathBuf {
        self.state.join("daemon.log")
    }

    pub fn database(&self) -> PathBuf {
        self.state.join("fugue.db")
    }

    pub fn panes(&self) -> PathBuf {
        self.state.join("panes")
    }

    /// Private files of workers.
    pub fn workers(&self) -> PathBuf {
        self.state.join(WORKERS_NAME)
    }

    /// Private files of the workers of the daemon with this socket.
    pub fn workers_beside(socket: &Path) -> Option<PathBuf> {
        Some(socket.parent()?.join(WORKERS_NAME))
    }

    /// Reports of hooks that no daemon has stored yet.
    pub fn spool(&self) -> PathBuf {
        self.state.join("news")
    }

    /// Copies of repositories' configurations, used while git runs.
    pub fn git(&self) -> PathBuf {
        self.state.join("git")
    }

    pub fn worktrees(&self) -> PathBuf {
        self.state.join("worktrees")
    }

    pub fn shell_files(&self) -> PathBuf {
        self.state.join("shell")
    }

    /// Creates missing directories with mode 0700, and restricts existing directories to that mode. Refuses a symbolic
    /// link and a directory of another user.
    pub fn prepare(&self) -> Result<(), Error> {
        for dir in [&self.state, &self.panes(), &self.leads()] {
            create_private_dir(dir).map_err(|error| unusable_path_error(dir, &error))?;
        }
        Ok(())
    }
}

/// The error for an unusable file or directory of the state, with a hint for each cause.
pub fn unusable_path_error(path: &Path, error: &io::Error) -> Error {
    let hint = match error.kind() {
        io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => {
            "fugue writes its state there; make the directory writable, or set XDG_STATE_HOME to one that is"
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "the disk is full; make room, or set XDG_STATE_HOME to a directory on another disk"
        }
        _ => "fugue keeps its files in a directory that only you can access (mode 0700)",
    };
    Error::unavailable(format!("{}: {error}", path.display())).hint(hint)
}

fn absolute_path_from_env(variable: &str) -> Option<PathBuf> {
    env::var_os(variable)
        .map(PathBuf::from)
        .filter(|path| path.is_absolute())
}

fn create_private_dir(dir: &Path) -> io::Result<()> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)?;
    let found = fs::symlink_metadata(dir)?;
    if found.file_type().is_symlink() {
        return Err(io::Error::other(
            "is a symbolic link; fugue needs a directory that you own",
        ));
    }
    let me = rustix::process::geteuid().as_raw();
    if found.uid() != me {
        return Err(io::Error::other(format!(
            "belongs to user {}, not to you ({me})",
            found.uid()
        )));
    }
    if found.mode() & 0o077 != 0 {
        fs::set_permissions(dir, fs::Permissions::from_mode(0o700))?;
    }
    Ok(())
}

/// A path for `bind` and `connect`, independent of the length of the real path: the kernel accepts 107 bytes, so a
/// longer path is reached through an open handle on its directory. Every client finds the same socket that way.
pub struct SocketPath {
    path: PathBuf,
    _directory: Option<fs::File>,
}

impl SocketPath {
    pub fn new(path: &Path) -> io::Result<Self> {
        // sun_path has 108 bytes including the final NUL.
        if path.as_os_str().len() <= 107 {
            return Ok(Self {
                path: path.to_owned(),
                _directory: None,
            });
        }
        let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(io::Error::from(io::ErrorKind::InvalidInput));
        };
        let directory = fs::File::open(directory)?;
        let path = Path::new("/proc/self/fd")
            .join(directory.as_raw_fd().to_string())
            .join(name);
        Ok(Self {
            path,
            _directory: Some(directory),
        })
    }
}

impl AsRef<Path> for SocketPath {
    fn as_ref(&self) -> &Path {
        &self.path
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::{UnixListener, UnixStream};

    #[test]
    fn a_socket_deep_in_the_tree_is_reached_all_the_same() {
        let dir = tempfile::tempdir().unwrap();
        let deep = dir.path().join("d".repeat(120)).join("e".repeat(120));
        fs::create_dir_all(&deep).unwrap();
        let socket = deep.join("s");
        let _listener = UnixListener::bind(SocketPath::new(&socket).unwrap()).unwrap();
        assert!(socket.exists());
        UnixStream::connect(SocketPath::new(&socket).unwrap()).unwrap();
    }

    #[test]
    fn a_directory_behind_a_link_is_refused_and_an_open_one_is_shut() {
        let dir = tempfile::tempdir().unwrap();
        let real = dir.path().join("real");
        fs::create_dir(&real).unwrap();
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&real, &link).unwrap();
        assert!(
            create_private_dir(&link)
                .unwrap_err()
                .to_string()
                .contains("symbolic link")
        );
        fs::set_permissions(&real, fs::Permissions::from_mode(0o755)).unwrap();
        create_private_dir(&real).unwrap();
        assert_eq!(fs::metadata(&real).unwrap().mode() & 0o777, 0o700);
    }
}
