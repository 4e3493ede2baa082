//! Where fugue's files are, for this user, as every client works it out by itself.

use std::{
    env, fs, io,
    os::{
        fd::AsRawFd,
        unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt},
    },
    path::{Path, PathBuf},
};

use fugue_api::{Error, Kind};

/// The three places, not yet looked at.
#[derive(Clone, Debug)]
pub struct Paths {
    pub runtime: PathBuf,
    pub state: PathBuf,
    pub config: PathBuf,
}

impl Paths {
    /// By the XDG rules. Never `/tmp`: anybody could have been there first.
    pub fn of_this_user() -> Result<Self, Error> {
        let home = absolute("HOME");
        let under = |variable: &str, fallback: &str| {
            absolute(variable)
                .or_else(|| home.as_ref().map(|home| home.join(fallback)))
                .ok_or_else(|| {
                    Error::new(
                        Kind::Unavailable,
                        format!("neither {variable} nor HOME is an absolute path"),
                    )
                    .hint("set HOME")
                })
        };
        let state = under("XDG_STATE_HOME", ".local/state")?.join("fugue");
        let config = under("XDG_CONFIG_HOME", ".config")?.join("fugue/config.toml");
        let runtime =
            absolute("XDG_RUNTIME_DIR").map_or_else(|| state.join("run"), |dir| dir.join("fugue"));
        Ok(Self {
            runtime,
            state,
            config,
        })
    }

    pub fn socket(&self) -> PathBuf {
        self.runtime.join("daemon.sock")
    }

    /// Held for life by the one daemon.
    pub fn daemon_lock(&self) -> PathBuf {
        self.runtime.join("daemon.lock")
    }

    /// Held by the one client that starts a daemon.
    pub fn start_lock(&self) -> PathBuf {
        self.runtime.join("start.lock")
    }

    /// Each lead of a project holds one in here, named as its inbox, for as long as it lives.
    pub fn leads(&self) -> PathBuf {
        self.runtime.join("leads")
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
        self.state.join("workers")
    }

    /// What hooks told and no daemon has stored.
    pub fn spool(&self) -> PathBuf {
        self.state.join("news")
    }

    pub fn worktrees(&self) -> PathBuf {
        self.state.join("worktrees")
    }

    pub fn shell_files(&self) -> PathBuf {
        self.state.join("shell")
    }

    /// Makes the directories where they are missing, and refuses those that somebody else could look into.
    pub fn prepare(&self) -> Result<(), Error> {
        for dir in [&self.state, &self.runtime, &self.panes()] {
            private(dir).map_err(|error| {
                Error::new(Kind::Unavailable, format!("{}: {error}", dir.display()))
                    .hint("fugue keeps its files in a directory that only you can enter")
            })?;
        }
        Ok(())
    }
}

fn absolute(variable: &str) -> Option<PathBuf> {
    env::var_os(variable)
        .map(PathBuf::from)
        .filter(|path| path.is_absolute())
}

fn private(dir: &Path) -> io::Result<()> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)?;
    let found = fs::symlink_metadata(dir)?;
    if found.file_type().is_symlink() {
        return Err(io::Error::other(
            "is a symbolic link; it could lead anywhere",
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

/// A path for `bind` and `connect`, whatever the length of the real one: the kernel takes 107 bytes, so a longer
/// path is reached through an open handle on its directory. Every client finds the same socket that way.
pub struct SocketPath {
    path: PathBuf,
    _directory: Option<fs::File>,
}

impl SocketPath {
    pub fn new(path: &Path) -> io::Result<Self> {
        // sun_path has 108 bytes, the last one a NUL.
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
            private(&link)
                .unwrap_err()
                .to_string()
                .contains("symbolic link")
        );
        fs::set_permissions(&real, fs::Permissions::from_mode(0o755)).unwrap();
        private(&real).unwrap();
        assert_eq!(fs::metadata(&real).unwrap().mode() & 0o777, 0o700);
    }
}
