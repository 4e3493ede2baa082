//! A private tmux server for a test: no configuration, a socket in a private directory, killed at the end of the test.

use std::{ffi::OsStr, path::PathBuf};

use fugue_api::wire::CallerEnv;

use super::server::TmuxServer;

pub struct PrivateTmux {
    _dir: tempfile::TempDir,
    pub server: TmuxServer,
    pub caller: CallerEnv,
}

impl PrivateTmux {
    /// Starts a server with a session `main` whose only pane runs `cat`.
    pub fn start() -> Self {
        let private = Self::absent();
        let conf = ["-f", "/dev/null"];
        let words = [
            "new-session",
            "-d",
            "-s",
            "main",
            "-n",
            "cats",
            "-x",
            "200",
            "-y",
            "60",
            "cat",
        ];
        private
            .server
            .ask_or_start(&[&conf[..], &words].concat())
            .unwrap();
        private
    }

    /// A socket without a running server.
    pub fn absent() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("sockets/tmux");
        let path = std::env::var_os("PATH").unwrap();
        let tmux = format!("{},0,0", socket.display());
        let caller = CallerEnv {
            cwd: OsStr::new("/").into(),
            env: [
                (OsStr::new("PATH"), path.as_os_str()),
                (OsStr::new("TMUX"), OsStr::new(&tmux)),
            ]
            .map(|(key, value)| (key.into(), value.into()))
            .to_vec(),
            umask: 0o022,
            setting_names: fugue_api::wire::SettingNames::Prefixed,
        };
        let server = TmuxServer::of(&caller).unwrap();
        Self {
            _dir: dir,
            server,
            caller,
        }
    }

    pub fn ask(&self, words: &[&str]) -> String {
        let said = self.server.ask(words).unwrap();
        said.trim_end().to_owned()
    }

    pub fn set(&mut self, key: &str, value: &str) {
        self.caller
            .env
            .retain(|(known, _)| std::ffi::OsString::from(known) != key);
        self.caller
            .env
            .push((OsStr::new(key).into(), OsStr::new(value).into()));
    }

    pub fn socket(&self) -> PathBuf {
        self.server.socket.clone()
    }
}

impl Drop for PrivateTmux {
    fn drop(&mut self) {
        let _ = self.server.ask(&["kill-server"]);
    }
}
