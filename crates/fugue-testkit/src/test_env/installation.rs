//! Installing and configuring `fugue` in a test environment.

use std::{fs, os::unix::fs::symlink, path::PathBuf};

use fugue_api::pane_placement::Backend;

use super::{TestEnv, test_backend};

impl TestEnv {
    /// Puts `fugue` into a directory in front of the system's programs, as an installation does, and returns the directory.
    pub fn install(&mut self) -> PathBuf {
        let bin = self.dir().join("bin");
        fs::create_dir(&bin).expect("a directory for programs");
        symlink(&self.binary, bin.join("fugue")).expect("a link to the binary");
        let system = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
        self.set_env("PATH", format!("{}:{system}", bin.display()));
        bin
    }

    /// Writes `config.toml`, which a daemon reads on start.
    pub fn configure(&self, toml: &str) {
        let dir = self.dir.path().join("config/fugue");
        fs::create_dir_all(&dir).expect("the configuration's directory");
        let backend = match test_backend() {
            Backend::Native => "",
            Backend::Tmux => "backend = \"tmux\"\n",
        };
        let text = format!("{backend}{toml}");
        fs::write(dir.join("config.toml"), text).expect("the configuration");
    }
}
