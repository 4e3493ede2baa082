use std::{
    os::fd::OwnedFd,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::{Mode, OFlags},
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{Winsize, tcsetwinsize},
};

/// A program in a private PTY, as in a terminal window.
pub struct TestPty {
    pub master: OwnedFd,
    /// Kept open, so that the terminal's modes can be inspected after the program has ended.
    pub slave: OwnedFd,
    pub child: Child,
}

impl TestPty {
    /// Starts the command, which must make the PTY its controlling terminal: `setsid -c PROGRAM …` does.
    #[track_caller]
    pub fn start(mut command: Command, rows: u16, cols: u16) -> Self {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let master = openpt(flags).expect("a terminal");
        grantpt(&master).expect("granted");
        unlockpt(&master).expect("unlocked");
        let name = ptsname(&master, Vec::new()).expect("its name");
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let slave = rustix::fs::open(name.as_c_str(), flags, Mode::empty()).expect("its other end");
        let end = || Stdio::from(slave.try_clone().expect("a second handle"));
        command.stdin(end()).stdout(end()).stderr(end());
        resize(&master, rows, cols);
        let child = command.spawn().expect("the program starts");
        Self {
            master,
            slave,
            child,
        }
    }

    pub fn resize(&self, rows: u16, cols: u16) {
        resize(&self.master, rows, cols);
    }

    /// Writes keys of a person, or replies of their terminal.
    #[track_caller]
    pub fn write(&self, bytes: &[u8]) {
        let mut left = bytes;
        while !left.is_empty() {
            let written = rustix::io::write(&self.master, left).expect("the terminal takes it");
            left = &left[written..];
        }
    }

    /// Reads available output before the deadline; empty without output, or if the program is gone.
    pub fn read(&self, deadline: Instant) -> Vec<u8> {
        let left = deadline.saturating_duration_since(Instant::now());
        let time = Timespec {
            tv_sec: left.as_secs() as i64,
            tv_nsec: i64::from(left.subsec_nanos()),
        };
        let mut ready = [PollFd::new(&self.master, PollFlags::IN)];
        if !matches!(poll(&mut ready, Some(&time)), Ok(1..)) {
            return Vec::new();
        }
        let mut buffer = vec![0; 64 * 1024];
        let length = rustix::io::read(&self.master, &mut buffer).unwrap_or(0);
        buffer.truncate(length);
        buffer
    }

    /// Reads and discards all output in the background, as a terminal does for a person who only types.
    pub fn discard_output(&self) {
        let output = self.master.try_clone().expect("a second handle");
        thread::spawn(
            move || {
                while matches!(rustix::io::read(&output, &mut [0; 64 * 1024]), Ok(1..)) {}
            },
        );
    }

    /// Reads until no output has arrived for the duration `quiet`.
    pub fn drain(&self, quiet: Duration) {
        while !self.read(Instant::now() + quiet).is_empty() {}
    }
}

impl Drop for TestPty {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn resize(master: &OwnedFd, rows: u16, cols: u16) {
    let size = Winsize {
        ws_row: rows,
        ws_col: cols,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    tcsetwinsize(master, size).expect("a size");
}
