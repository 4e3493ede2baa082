//! A shell on a terminal of its own, for the tests that look at what shells write.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, Command};

use fugue_daemon::shell::ShellLaunch;
use rustix::fs::{Mode, OFlags};
use rustix::pty::OpenptFlags;
use rustix::termios::Winsize;

/// Starts it as its launch says; the terminal's other end is ours.
pub fn start(launch: &ShellLaunch, env: Vec<(OsString, OsString)>, cwd: &Path) -> (OwnedFd, Child) {
    let master =
        rustix::pty::openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)
            .expect("a pty");
    rustix::pty::unlockpt(&master).expect("unlocked");
    let size = Winsize {
        ws_row: 40,
        ws_col: 120,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    rustix::termios::tcsetwinsize(&master, size).expect("a size");
    let name = rustix::pty::ptsname(&master, Vec::new()).expect("a name");
    let end = || -> OwnedFd {
        rustix::fs::open(
            &name,
            OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC,
            Mode::empty(),
        )
        .expect("its end")
    };
    #[expect(
        clippy::disallowed_methods,
        reason = "a test may fork; setsid(1) makes the terminal the shell's own"
    )]
    let mut command = Command::new("setsid");
    command
        .arg("--ctty")
        .args(&launch.argv)
        .env_clear()
        .envs(env)
        .current_dir(cwd)
        .stdin(end())
        .stdout(end())
        .stderr(end());
    for name in &launch.env_remove {
        command.env_remove(name);
    }
    let child = command
        .envs(launch.env_set.iter().map(|(name, value)| (name, value)))
        .spawn()
        .expect("a shell");
    (master, child)
}
