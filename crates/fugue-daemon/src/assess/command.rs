//! An assessor that is a command: prompt on stdin, JSON on stdout.
//!
//! It runs in a session of its own, and when it is over, or nobody waits for it any more, nothing of it is left: not
//! its children, not those that went into the background.

use std::{
    ffi::OsString,
    fmt, io,
    os::fd::{AsFd, OwnedFd},
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

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

/// What a command complains of on stderr: its last words count.
const MAX_STDERR_BYTES: usize = 16 * 1024;
const MAX_ERROR_CHARS: usize = 300;
/// What a pipe holds at most, unless somebody has made it larger.
const PIPE_CAPACITY: usize = 64 * 1024;
/// What a watcher's command printed last.
const MAX_OUTPUT: usize = 64 * 1024;

/// By this variable every process of one question is known, wherever it went.
pub const MARK: &str = "FUGUE_ASSESSMENT";

/// How variables are called whose values are nobody else's business.
const SECRETS: &[&str] = &["_KEY", "_TOKEN", "_SECRET", "_PASSWORD"];

#[derive(Clone)]
pub(super) struct AssessorCommand {
    pub line: String,
    pub cwd: PathBuf,
    pub env: Vec<(OsString, OsString)>,
}

/// Its variables hold keys, so they are not shown.
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
        // Neither of the two ends: they go on beside what is waited for.
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
                said: self.said(&talk.complaint.bytes, &talk.answer.bytes),
            }),
        }
    }

    /// As a person's shell would, with nothing on stdin: how it ended, and the end of what it printed.
    pub async fn run(&self) -> io::Result<(ProcessExit, String)> {
        let nothing = std::fs::File::open("/dev/null")?;
        let (output, writes) = pipe_with(PipeFlags::CLOEXEC)?;
        let mark = random()?;
        let child = SpawnCommand::new("bash")
            .arg("-lc")
            .arg(&self.line)
            .envs(self.env.iter().cloned())
            .env(MARK, &mark)
            .cwd(&self.cwd)
            .session(SessionLeadership::Own)
            .fd(nothing.as_fd(), 0)
            .fd(writes.as_fd(), 1)
            .fd(writes.as_fd(), 2)
            .start()?;
        drop(writes);
        let marks = vec![format!("{MARK}={mark}").into_bytes()];
        let mut running = RunningCommand::new(child, marks);
        let mut heard = PipeReader::new(output, MAX_OUTPUT, OverflowPolicy::Forget)?;
        let ending = tokio::select! {
            ending = running.ended() => ending?,
            // Never: what is too much is forgotten.
            () = heard.fill() => ProcessExit::Unknown,
        };
        heard.drain();
        Ok((ending, String::from_utf8_lossy(&heard.bytes).into_owned()))
    }

    fn start(&self) -> io::Result<(RunningCommand, CommandPipes)> {
        let (stdin, question) = pipe_with(PipeFlags::CLOEXEC)?;
        let (answer, stdout) = pipe_with(PipeFlags::CLOEXEC)?;
        let (complaint, stderr) = pipe_with(PipeFlags::CLOEXEC)?;
        let mark = random()?;
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

    /// The command's last words, or where it had none what it printed.
    fn said(&self, complaint: &[u8], answer: &[u8]) -> String {
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

    /// A command may complain about a key and show it.
    fn without_secrets(&self, mut said: String) -> String {
        for (name, value) in &self.env {
            let is_secret = name
                .to_str()
                .is_some_and(|name| SECRETS.iter().any(|end| name.ends_with(end)));
            // Shorter ones are words, and no secrets.
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

pub(super) fn describe_exit(ending: ProcessExit) -> String {
    match ending {
        ProcessExit::Code(code) => format!("ended with code {code}"),
        ProcessExit::Signal { signo, .. } => format!("was ended by signal {signo}"),
        ProcessExit::Unknown => "ended in a way nobody saw".into(),
    }
}

/// What goes in and out of a command.
struct CommandPipes {
    question: Sender,
    answer: PipeReader,
    complaint: PipeReader,
}

/// Hands over the prompt and closes stdin. A command that does not read it all is no worse for that.
async fn feed(mut question: Sender, prompt: String) {
    let _ = question.write_all(prompt.as_bytes()).await;
    drop(question);
    std::future::pending().await
}

/// What to do with more than fits.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OverflowPolicy {
    Stop,
    /// Forget what came first.
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

    /// Listens until there is more than fits, which may be never.
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

    /// Takes what is there now. The kernel is asked itself: the runtime may not have heard yet that there is something.
    fn drain(&mut self) {
        let mut chunk = [0; 8192];
        // As much as a pipe holds: what got away from the command may go on writing for ever.
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

/// A command that runs. A thread sees it out: it waits for the end, ends what the command left behind, and reaps it.
/// Dropping this ends the command first.
struct RunningCommand {
    /// The command's group, as long as the number is its own: until it is reaped.
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
            // It may be over by itself; the thread knows.
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
    // What could not be ended is stuck in the kernel; the answer does not hang on it.
    let _ = close_leftovers(scope, Duration::ZERO);
    *lock(group) = None;
    child.wait()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A number is whole at every moment.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// 128 bits, as text for a variable.
fn random() -> io::Result<String> {
    let mut bytes = [0; 16];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    Ok(format!("{:032x}", u128::from_be_bytes(bytes)))
}
