//! Runs a program to its end, or until an expected text is printed, within a time limit.

use std::{
    fmt,
    io::{self, Read},
    os::{
        fd::{AsFd, BorrowedFd},
        unix::process::ExitStatusExt,
    },
    process::{Child, ChildStderr, ChildStdout, Command, Stdio},
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, poll},
    process::{Pid, Signal, kill_process},
};
use serde::de::DeserializeOwned;

use crate::{process_ref::ProcessWaiter, wait::timespec};

/// The result of a program that has ended.
pub struct ProgramOutput {
    pub command_line: String,
    /// `None` if a signal ended the program.
    pub code: Option<i32>,
    pub signal: Option<i32>,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    pub elapsed: Duration,
}

impl ProgramOutput {
    pub fn out(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    pub fn err(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }

    #[track_caller]
    pub fn ok(self) -> Self {
        assert_eq!(self.code, Some(0), "{self}");
        self
    }

    /// The stdout as exactly one JSON document.
    #[track_caller]
    pub fn json<T: DeserializeOwned>(&self) -> T {
        match serde_json::from_slice(&self.stdout) {
            Ok(document) => document,
            Err(error) => panic!("stdout is not the JSON that was wanted: {error}\n{self}"),
        }
    }

    /// The error that was printed as one JSON document on stderr, with an empty stdout.
    #[track_caller]
    pub fn refusal(&self) -> fugue_api::Error {
        assert!(self.stdout.is_empty(), "a refusal prints nothing\n{self}");
        match serde_json::from_slice(&self.stderr) {
            Ok(error) => error,
            Err(error) => panic!("stderr is not one JSON error: {error}\n{self}"),
        }
    }
}

impl fmt::Display for ProgramOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Limits the size of a failure message.
        let cut = |text: String| match text.char_indices().nth(4000) {
            Some((at, _)) => format!("{}… ({} bytes)", &text[..at], text.len()),
            None => text,
        };
        write!(
            f,
            "$ {}\ncode {:?}, signal {:?}, {:?}\nstdout: {}\nstderr: {}",
            self.command_line,
            self.code,
            self.signal,
            self.elapsed,
            cut(self.out()),
            cut(self.err()),
        )
    }
}

/// A running program, killed on drop.
pub struct RunningProgram {
    command_line: String,
    child: Child,
    ended: ProcessWaiter,
    stdout: Option<ChildStdout>,
    stderr: Option<ChildStderr>,
    stdout_bytes: Vec<u8>,
    stderr_bytes: Vec<u8>,
    start: Instant,
}

impl RunningProgram {
    #[track_caller]
    pub fn start(command: Command) -> Self {
        Self::start_with(command, |mut command| command.spawn())
    }

    /// Starts a program with `spawn`, which may run on another thread.
    #[track_caller]
    pub(crate) fn start_with(
        mut command: Command,
        spawn: impl FnOnce(Command) -> io::Result<Child>,
    ) -> Self {
        let command_line = format!("{command:?}");
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let start = Instant::now();
        let mut child = match spawn(command) {
            Ok(child) => child,
            Err(error) => panic!("cannot start {command_line}: {error}"),
        };
        Self {
            command_line,
            ended: ProcessWaiter::of(child.id()).expect("a child of ours has a pidfd"),
            stdout: child.stdout.take(),
            stderr: child.stderr.take(),
            child,
            stdout_bytes: Vec::new(),
            stderr_bytes: Vec::new(),
            start,
        }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Presses Ctrl-C.
    #[track_caller]
    pub fn interrupt(&self) {
        let pid = Pid::from_raw(self.pid().cast_signed()).expect("a pid");
        kill_process(pid, Signal::INT).expect("it has not been waited for");
    }

    /// The stdout so far.
    pub fn stdout_text(&self) -> String {
        String::from_utf8_lossy(&self.stdout_bytes).into_owned()
    }

    /// Waits until the stdout, from the beginning, satisfies `wanted`.
    #[track_caller]
    pub fn wait_for_stdout(&mut self, limit: Duration, wanted: impl Fn(&str) -> bool) -> String {
        let deadline = Instant::now() + limit;
        loop {
            let said = self.stdout_text();
            if wanted(&said) {
                return said;
            }
            assert!(
                self.stdout.is_some(),
                "{} ended its output and did not say it\nstdout: {said}\nstderr: {}",
                self.command_line,
                String::from_utf8_lossy(&self.stderr_bytes)
            );
            assert!(
                Instant::now() < deadline,
                "{} did not say it within {limit:?}\nstdout: {said}",
                self.command_line
            );
            self.read_pipes(deadline);
        }
    }

    /// Waits until the stdout has more than `than` bytes; false if the stdout ends before.
    #[track_caller]
    pub fn wait_for_more_stdout(&mut self, than: usize, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        while self.stdout_bytes.len() <= than {
            if self.stdout.is_none() {
                return false;
            }
            assert!(
                Instant::now() < deadline,
                "{} said nothing more within {limit:?} than {}",
                self.command_line,
                self.stdout_text()
            );
            self.read_pipes(deadline);
        }
        true
    }

    /// Waits for the exit and for the end of the output.
    #[track_caller]
    pub fn end(mut self, limit: Duration) -> ProgramOutput {
        // A daemon or holder that keeps the caller's stdout open would hang `$(fugue ls)`. After the exit, the pipes of
        // the program have this long to close.
        const PIPE_CLOSE_TIMEOUT: Duration = Duration::from_secs(5);
        let mut deadline = self.start + limit;
        let mut status = None;
        let mut took = None;
        while status.is_none() || self.stdout.is_some() || self.stderr.is_some() {
            if Instant::now() >= deadline {
                panic!(
                    "{}\n{}; open: stdout {}, stderr {}\nstdout: {}\nstderr: {}",
                    self.command_line,
                    match status {
                        None => format!("still runs after {limit:?}"),
                        Some(status) => format!("ended ({status}), but something holds its output"),
                    },
                    self.stdout.is_some(),
                    self.stderr.is_some(),
                    self.stdout_text(),
                    String::from_utf8_lossy(&self.stderr_bytes)
                );
            }
            self.read_pipes(deadline);
            if status.is_none() {
                status = self.child.try_wait().expect("a child can be waited for");
                if status.is_some() {
                    took = Some(self.start.elapsed());
                    deadline = deadline.min(Instant::now() + PIPE_CLOSE_TIMEOUT);
                }
            }
        }
        let status = status.expect("the loop ends with a status");
        ProgramOutput {
            command_line: self.command_line.clone(),
            code: status.code(),
            signal: status.signal(),
            stdout: std::mem::take(&mut self.stdout_bytes),
            stderr: std::mem::take(&mut self.stderr_bytes),
            elapsed: took.unwrap_or_else(|| self.start.elapsed()),
        }
    }

    /// Waits for an event, and reads the available output.
    fn read_pipes(&mut self, deadline: Instant) {
        let stdout = self.stdout.as_ref().map(AsFd::as_fd);
        let stderr = self.stderr.as_ref().map(AsFd::as_fd);
        // After the exit, the pidfd is always readable, so only the pipes are polled.
        let ended = (!is_readable(self.ended.as_fd())).then(|| self.ended.as_fd());
        let mut fds: Vec<PollFd<'_>> = [stdout, stderr, ended]
            .into_iter()
            .flatten()
            .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
            .collect();
        if fds.is_empty() {
            return;
        }
        let left = deadline.saturating_duration_since(Instant::now());
        // An interruption is harmless: the caller repeats the call.
        let _ = poll(&mut fds, Some(&timespec(left)));
        if stdout.is_some_and(is_readable) {
            read_pipe(&mut self.stdout, &mut self.stdout_bytes);
        }
        if self
            .stderr
            .as_ref()
            .map(AsFd::as_fd)
            .is_some_and(is_readable)
        {
            read_pipe(&mut self.stderr, &mut self.stderr_bytes);
        }
    }
}

impl Drop for RunningProgram {
    fn drop(&mut self) {
        // Both fail only if the program has ended and was waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read_pipe(pipe: &mut Option<impl Read>, into: &mut Vec<u8>) {
    let mut buffer = [0; 64 * 1024];
    let read = pipe.as_mut().map_or(Ok(0), |pipe| pipe.read(&mut buffer));
    match read {
        Ok(0) | Err(_) => *pipe = None,
        Ok(count) => into.extend_from_slice(&buffer[..count]),
    }
}

/// Whether a read would return at once, including the end of the stream.
fn is_readable(fd: BorrowedFd<'_>) -> bool {
    let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
    poll(&mut fds, Some(&timespec(Duration::ZERO))).is_ok_and(|ready| ready > 0)
}
