//! Running a program to its end, or to something it says, within a time limit.

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

use rustix::event::{PollFd, PollFlags, poll};
use serde::de::DeserializeOwned;

use crate::{proc::ProcessWaiter, time::timespec};

/// What a program that has ended said.
pub struct ProgramOutput {
    pub line: String,
    /// None: a signal ended it.
    pub code: Option<i32>,
    pub signal: Option<i32>,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    pub took: Duration,
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

    /// Its stdout as exactly one JSON document.
    #[track_caller]
    pub fn json<T: DeserializeOwned>(&self) -> T {
        match serde_json::from_slice(&self.stdout) {
            Ok(document) => document,
            Err(error) => panic!("stdout is not the JSON that was wanted: {error}\n{self}"),
        }
    }

    /// The refusal it printed as one JSON document on stderr, with nothing on stdout.
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
        // A failure's report must not be a gigabyte.
        let cut = |text: String| match text.char_indices().nth(4000) {
            Some((at, _)) => format!("{}… ({} bytes)", &text[..at], text.len()),
            None => text,
        };
        write!(
            f,
            "$ {}\ncode {:?}, signal {:?}, {:?}\nstdout: {}\nstderr: {}",
            self.line,
            self.code,
            self.signal,
            self.took,
            cut(self.out()),
            cut(self.err()),
        )
    }
}

/// A program that still runs. Dropping it kills it.
pub struct RunningProgram {
    line: String,
    child: Child,
    ended: ProcessWaiter,
    stdout: Option<ChildStdout>,
    stderr: Option<ChildStderr>,
    said: Vec<u8>,
    complained: Vec<u8>,
    start: Instant,
}

impl RunningProgram {
    #[track_caller]
    pub fn start(command: Command) -> Self {
        Self::start_by(command, |mut command| command.spawn())
    }

    /// Starts a program by way of `spawn`, which may do it on another thread.
    #[track_caller]
    pub(crate) fn start_by(
        mut command: Command,
        spawn: impl FnOnce(Command) -> io::Result<Child>,
    ) -> Self {
        let line = format!("{command:?}");
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let start = Instant::now();
        let mut child = match spawn(command) {
            Ok(child) => child,
            Err(error) => panic!("cannot start {line}: {error}"),
        };
        Self {
            line,
            ended: ProcessWaiter::of(child.id()).expect("a child of ours has a pidfd"),
            stdout: child.stdout.take(),
            stderr: child.stderr.take(),
            child,
            said: Vec::new(),
            complained: Vec::new(),
            start,
        }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Everything on its stdout so far.
    pub fn said(&self) -> String {
        String::from_utf8_lossy(&self.said).into_owned()
    }

    /// Waits until its stdout, from the beginning, is as wanted.
    #[track_caller]
    pub fn until_said(&mut self, limit: Duration, wanted: impl Fn(&str) -> bool) -> String {
        let deadline = Instant::now() + limit;
        loop {
            let said = self.said();
            if wanted(&said) {
                return said;
            }
            assert!(
                self.stdout.is_some(),
                "{} ended its output and did not say it\nstdout: {said}\nstderr: {}",
                self.line,
                String::from_utf8_lossy(&self.complained)
            );
            assert!(
                Instant::now() < deadline,
                "{} did not say it within {limit:?}\nstdout: {said}",
                self.line
            );
            self.take(deadline);
        }
    }

    /// Waits until there is more on its stdout than so many bytes; not so if its output has ended.
    #[track_caller]
    pub fn said_more(&mut self, than: usize, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        while self.said.len() <= than {
            if self.stdout.is_none() {
                return false;
            }
            assert!(
                Instant::now() < deadline,
                "{} said nothing more within {limit:?} than {}",
                self.line,
                self.said()
            );
            self.take(deadline);
        }
        true
    }

    /// Waits for its end and the end of its output.
    #[track_caller]
    pub fn end(mut self, limit: Duration) -> ProgramOutput {
        // A daemon or holder that keeps the caller's stdout open would hang `$(fugue ls)`; once the program itself has
        // ended, its pipes have this long to close.
        const LINGER: Duration = Duration::from_secs(5);
        let mut deadline = self.start + limit;
        let mut status = None;
        let mut took = None;
        while status.is_none() || self.stdout.is_some() || self.stderr.is_some() {
            if Instant::now() >= deadline {
                panic!(
                    "{}\n{}; open: stdout {}, stderr {}\nstdout: {}\nstderr: {}",
                    self.line,
                    match status {
                        None => format!("still runs after {limit:?}"),
                        Some(status) => format!("ended ({status}), but something holds its output"),
                    },
                    self.stdout.is_some(),
                    self.stderr.is_some(),
                    self.said(),
                    String::from_utf8_lossy(&self.complained)
                );
            }
            self.take(deadline);
            if status.is_none() {
                status = self.child.try_wait().expect("a child can be waited for");
                if status.is_some() {
                    took = Some(self.start.elapsed());
                    deadline = deadline.min(Instant::now() + LINGER);
                }
            }
        }
        let status = status.expect("the loop ends with a status");
        ProgramOutput {
            line: self.line.clone(),
            code: status.code(),
            signal: status.signal(),
            stdout: std::mem::take(&mut self.said),
            stderr: std::mem::take(&mut self.complained),
            took: took.unwrap_or_else(|| self.start.elapsed()),
        }
    }

    /// Waits for something to happen, and takes what was printed.
    fn take(&mut self, deadline: Instant) {
        let stdout = self.stdout.as_ref().map(AsFd::as_fd);
        let stderr = self.stderr.as_ref().map(AsFd::as_fd);
        // Once it has ended, its pidfd is ready for ever and only the pipes are worth waiting for.
        let ended = (!ready(self.ended.as_fd())).then(|| self.ended.as_fd());
        let mut fds: Vec<PollFd<'_>> = [stdout, stderr, ended]
            .into_iter()
            .flatten()
            .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
            .collect();
        if fds.is_empty() {
            return;
        }
        let left = deadline.saturating_duration_since(Instant::now());
        // Interrupted is as good as ready: the caller comes back.
        let _ = poll(&mut fds, Some(&timespec(left)));
        if stdout.is_some_and(ready) {
            take_from(&mut self.stdout, &mut self.said);
        }
        if self.stderr.as_ref().map(AsFd::as_fd).is_some_and(ready) {
            take_from(&mut self.stderr, &mut self.complained);
        }
    }
}

impl Drop for RunningProgram {
    fn drop(&mut self) {
        // Both fail only when it has ended and been waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn take_from(pipe: &mut Option<impl Read>, into: &mut Vec<u8>) {
    let mut buffer = [0; 64 * 1024];
    let read = pipe.as_mut().map_or(Ok(0), |pipe| pipe.read(&mut buffer));
    match read {
        Ok(0) | Err(_) => *pipe = None,
        Ok(count) => into.extend_from_slice(&buffer[..count]),
    }
}

/// Whether there is something to read now, an end included.
fn ready(fd: BorrowedFd<'_>) -> bool {
    let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
    poll(&mut fds, Some(&timespec(Duration::ZERO))).is_ok_and(|ready| ready > 0)
}
