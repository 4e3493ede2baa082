//! An assessor that is a command: prompt on stdin, JSON on stdout.
//!
//! The command runs in a separate session. When the command ends, or when the future is dropped, all processes of the session are killed,
//! including children and background processes.

use std::{
    ffi::OsString,
    fmt, io,
    os::fd::{AsFd, OwnedFd},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use fugue_api::random_hex;
use fugue_core::assess::{MAX_ANSWER, one_line};
use fugue_holder::{
    ProcessScope, close_leftovers, identify,
    spawn::{ChildProcess, ProcessExit, SessionLeadership, SpawnCommand},
};
use rustix::{
    event::{PollFd, PollFlags, poll},
    io::Errno,
    pipe::{PipeFlags, pipe_with},
    process::{Pid, Signal, kill_process_group},
};
use tokio::{
    io::AsyncWriteExt,
    net::unix::pipe::{Receiver, Sender},
    task::{JoinHandle, spawn_blocking},
};

use super::AssessError;

/// The limit of stderr; the end is kept.
const MAX_STDERR_BYTES: usize = 16 * 1024;
const MAX_ERROR_CHARS: usize = 300;
/// The kernel's default capacity of a pipe.
const PIPE_CAPACITY: usize = 64 * 1024;
/// The limit of a watcher command's output; the end is kept.
const MAX_OUTPUT: usize = 64 * 1024;

/// The variable that identifies all processes of a request.
pub const MARK: &str = "FUGUE_ASSESSMENT";

/// Suffixes of variables with secret values.
const SECRETS: &[&str] = &["_KEY", "_TOKEN", "_SECRET", "_PASSWORD"];

#[derive(Clone)]
pub(super) struct AssessorCommand {
    pub line: String,
    pub cwd: PathBuf,
    pub env: Vec<(OsString, OsString)>,
}

/// Without the environment, which holds keys.
impl fmt::Debug for AssessorCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Command({:?} in {:?})", self.line, self.cwd)
    }
}

impl AssessorCommand {
    pub async fn ask(&self, prompt: String) -> Result<String, AssessError> {
        let failed = |error: io::Error| AssessError::Failed {
            ending: "could not be started".into(),
            said: one_line(&error.to_string(), MAX_ERROR_CHARS),
        };
        let (mut running, mut talk) = self.start().map_err(failed)?;
        // These two futures do not complete and run while the other futures are awaited.
        let beside = async { tokio::join!(talk.complaint.fill(), feed(talk.question, prompt)) };
        let ending = tokio::select! {
            ending = running.ended() => ending.map_err(failed)?,
            () = talk.answer.fill() => return Err(endless()),
            _ = beside => return Err(endless()),
        };
        talk.answer.drain();
        talk.complaint.drain();
        match ending {
            ProcessExit::Code(0) => Ok(String::from_utf8_lossy(&talk.answer.bytes).into_owned()),
            other => Err(AssessError::Failed {
                ending: describe_exit(other),
                said: self.error_text(&talk.complaint.bytes, &talk.answer.bytes),
            }),
        }
    }

    /// Runs the command with an empty stdin and returns the exit status and the end of the output.
    pub async fn run(&self) -> io::Result<(ProcessExit, String)> {
        let program = CapturedProgram {
            argv: &["bash".into(), "-lc".into(), self.line.clone().into()],
            cwd: &self.cwd,
            env: &self.env,
            errors: ErrorOutput::Captured,
            most: MAX_OUTPUT,
        };
        let (ending, output) = program.run().await?;
        Ok((ending, String::from_utf8_lossy(&output).into_owned()))
    }

    fn start(&self) -> io::Result<(RunningCommand, CommandPipes)> {
        let (stdin, question) = pipe_with(PipeFlags::CLOEXEC)?;
        let (answer, stdout) = pipe_with(PipeFlags::CLOEXEC)?;
        let (complaint, stderr) = pipe_with(PipeFlags::CLOEXEC)?;
        let mark = random_hex().map_err(io::Error::other)?;
        let child = SpawnCommand::new("bash")
            .arg("-c")
            .arg(&self.line)
            .envs(self.env.iter().cloned())
            .env(MARK, &mark)
            .cwd(&self.cwd)
            .session(SessionLeadership::Own)
            .fd(stdin.as_fd(), 0)
            .fd(stdout.as_fd(), 1)
            .fd(stderr.as_fd(), 2)
            .start()?;
        let marks = vec![format!("{MARK}={mark}").into_bytes()];
        let running = RunningCommand::new(child, marks);
        let talk = CommandPipes {
            question: Sender::from_owned_fd(question)?,
            answer: PipeReader::new(answer, MAX_ANSWER, OverflowPolicy::Stop)?,
            complaint: PipeReader::new(complaint, MAX_STDERR_BYTES, OverflowPolicy::Forget)?,
        };
        Ok((running, talk))
    }

    /// The end of stderr, or of stdout if stderr is empty.
    fn error_text(&self, complaint: &[u8], answer: &[u8]) -> String {
        let words = |bytes: &[u8]| {
            let text = String::from_utf8_lossy(bytes);
            let lines: Vec<&str> = text.trim().lines().collect();
            one_line(
                &lines[lines.len().saturating_sub(3)..].join(" "),
                MAX_ERROR_CHARS,
            )
        };
        let said = [words(complaint), words(answer)];
        match said.into_iter().find(|words| !words.is_empty()) {
            Some(words) => self.without_secrets(words),
            None => format!("it said nothing (`{}`)", one_line(&self.line, 80)),
        }
    }

    /// Removes secret values from an error text, which may quote a key.
    fn without_secrets(&self, mut said: String) -> String {
        for (name, value) in &self.env {
            let is_secret = name
                .to_str()
                .is_some_and(|name| SECRETS.iter().any(|end| name.ends_with(end)));
            // Shorter values are ordinary words.
            if is_secret && let Some(value) = value.to_str().filter(|value| value.len() >= 8) {
                said = said.replace(value, "(key)");
            }
        }
        said
    }
}

fn endless() -> AssessError {
    AssessError::Failed {
        ending: "printed without end".into(),
        said: format!("more than {MAX_ANSWER} bytes"),
    }
}

pub fn describe_exit(ending: ProcessExit) -> String {
    match ending {
        ProcessExit::Code(code) => format!("ended with code {code}"),
        ProcessExit::Signal { signo, .. } => format!("was ended by signal {signo}"),
        ProcessExit::Unknown => "ended in a way nobody saw".into(),
    }
}

/// A program whose output is wanted.
pub struct CapturedProgram<'a> {
    pub argv: &'a [OsString],
    pub cwd: &'a Path,
    pub env: &'a [(OsString, OsString)],
    pub errors: ErrorOutput,
    /// The limit of the output; the end is kept.
    pub most: usize,
}

/// What is done with a program's stderr.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorOutput {
    /// Part of the output.
    Captured,
    Discarded,
}

impl CapturedProgram<'_> {
    /// Runs the program in a session of its own with an empty stdin, and returns the exit status and the output. A dropped
    /// future leaves no process.
    pub async fn run(&self) -> io::Result<(ProcessExit, Vec<u8>)> {
        let [program, args @ ..] = self.argv else {
            return Err(io::Error::from(io::ErrorKind::InvalidInput));
        };
        let nothing = std::fs::File::options()
            .read(true)
            .write(true)
            .open("/dev/null")?;
        let (output, writes) = pipe_with(PipeFlags::CLOEXEC)?;
        let mark = random_hex().map_err(io::Error::other)?;
        let errors = match self.errors {
            ErrorOutput::Captured => writes.as_fd(),
            ErrorOutput::Discarded => nothing.as_fd(),
        };
        let child = SpawnCommand::new(program)
            .args(args)
            .envs(self.env.iter().cloned())
            .env(MARK, &mark)
            .cwd(self.cwd)
            .session(SessionLeadership::Own)
            .fd(nothing.as_fd(), 0)
            .fd(writes.as_fd(), 1)
            .fd(errors, 2)
            .start()?;
        drop(writes);
        let marks = vec![format!("{MARK}={mark}").into_bytes()];
        let mut running = RunningCommand::new(child, marks);
        let mut heard = PipeReader::new(output, self.most, OverflowPolicy::Forget)?;
        let ending = tokio::select! {
            ending = running.ended() => ending?,
            // Never happens: output above the limit is dropped.
            () = heard.fill() => ProcessExit::Unknown,
        };
        heard.drain();
        Ok((ending, heard.bytes))
    }
}

/// The pipes of a command.
struct CommandPipes {
    question: Sender,
    answer: PipeReader,
    complaint: PipeReader,
}

/// Writes the prompt and closes stdin. A command that does not read the whole prompt is no error.
async fn feed(mut question: Sender, prompt: String) {
    let _ = question.write_all(prompt.as_bytes()).await;
    drop(question);
    std::future::pending().await
}

/// How output above the limit is handled.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OverflowPolicy {
    Stop,
    /// Drop the oldest bytes.
    Forget,
}

struct PipeReader {
    from: Receiver,
    bytes: Vec<u8>,
    most: usize,
    full: OverflowPolicy,
}

impl PipeReader {
    fn new(from: OwnedFd, most: usize, full: OverflowPolicy) -> io::Result<Self> {
        Ok(Self {
            from: Receiver::from_owned_fd(from)?,
            bytes: Vec::new(),
            most,
            full,
        })
    }

    /// Reads until the limit is exceeded, which may never happen.
    async fn fill(&mut self) {
        while self.from.readable().await.is_ok() {
            match self.take() {
                ReadOutcome::Some => {}
                ReadOutcome::TooMuch => return,
                ReadOutcome::Nothing => continue,
                ReadOutcome::End => break,
            }
        }
        std::future::pending().await
    }

    /// Reads the bytes that are in the pipe now, without the runtime, which may not have received the readiness event yet.
    fn drain(&mut self) {
        let mut chunk = [0; 8192];
        // At most the capacity of a pipe, because an escaped process may write without end.
        for _ in 0..PIPE_CAPACITY / chunk.len() {
            match rustix::io::read(&self.from, &mut chunk) {
                Ok(n) if n > 0 => self.keep(&chunk[..n]),
                Ok(_) | Err(_) => return,
            };
        }
    }

    fn take(&mut self) -> ReadOutcome {
        let mut chunk = [0; 8192];
        match self.from.try_read(&mut chunk) {
            Ok(0) => ReadOutcome::End,
            Ok(n) => self.keep(&chunk[..n]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => ReadOutcome::Nothing,
            Err(_) => ReadOutcome::End,
        }
    }

    fn keep(&mut self, chunk: &[u8]) -> ReadOutcome {
        self.bytes.extend_from_slice(chunk);
        let over = self.bytes.len().saturating_sub(self.most);
        match self.full {
            OverflowPolicy::Stop if over > 0 => ReadOutcome::TooMuch,
            OverflowPolicy::Stop => ReadOutcome::Some,
            OverflowPolicy::Forget => {
                self.bytes.drain(..over);
                ReadOutcome::Some
            }
        }
    }
}

#[derive(PartialEq, Eq)]
enum ReadOutcome {
    Some,
    Nothing,
    TooMuch,
    End,
}

/// A running command. A thread waits for the end, kills remaining processes and reaps the command. Dropping this kills the command.
struct RunningCommand {
    /// The command's process group, valid until the command is reaped.
    group: Arc<Mutex<Option<Pid>>>,
    seen_out: JoinHandle<io::Result<ProcessExit>>,
}

impl RunningCommand {
    fn new(child: ChildProcess, marks: Vec<Vec<u8>>) -> Self {
        let scope = ProcessScope::new(identify(child.pid), marks);
        let group = Arc::new(Mutex::new(Pid::from_raw(child.pid)));
        let known = group.clone();
        Self {
            group,
            seen_out: spawn_blocking(move || reap(&child, scope, &known)),
        }
    }

    async fn ended(&mut self) -> io::Result<ProcessExit> {
        (&mut self.seen_out).await.map_err(io::Error::other)?
    }
}

impl Drop for RunningCommand {
    fn drop(&mut self) {
        if let Some(group) = *lock(&self.group) {
            // An error means that the command has ended already.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

fn reap(
    child: &ChildProcess,
    scope: ProcessScope,
    group: &Mutex<Option<Pid>>,
) -> io::Result<ProcessExit> {
    loop {
        let mut ended = [PollFd::new(&child.pidfd, PollFlags::IN)];
        match poll(&mut ended, None) {
            Ok(_) => break,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    // A process that cannot be killed is stuck in the kernel; the result does not wait for such a process.
    let _ = close_leftovers(scope, Duration::ZERO);
    *lock(group) = None;
    child.wait()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // The value is consistent even after a panic.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
