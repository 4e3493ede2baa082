//! The backend of a pane in a person's own tmux, without a holder: a control client of tmux receives the pane's output and
//! appends it to the output log, input is pasted by tmux, and processes are probed by their terminal's path. The backend
//! exchanges the messages of the holder protocol with the pane's task.

mod attach;
mod person;
mod typing;

use std::{collections::VecDeque, io, os::fd::OwnedFd, path::PathBuf, time::Duration};

use fugue_core::{PaneRecord, TmuxOrigin, TmuxPane};
use fugue_holder::{
    ProcessScope, TmuxLogWriter, check_alive, close_leftovers, find_process, probe_path,
    record::ExitRecord,
    spawn::ProcessExit,
    wire::{ChildExit, ProcessIdentity, ToDaemon, ToHolder},
};
use rustix::process::{Pid, PidfdFlags, Signal};
use tokio::{
    io::{Interest, unix::AsyncFd},
    task::JoinHandle,
    time::{Instant, sleep_until},
};

use super::{
    PaneContext,
    backend::{BackendEvent, PaneDir},
};
use crate::tmux::{
    capture::{PaneCapture, TmuxPaneState},
    control::{ControlEvent, quote},
    control_client::ControlClient,
};
use fugue_client::async_fd::register_fd;
use person::PersonKeys;
use typing::KeySender;

/// The fixed properties of a pane in a person's tmux.
#[derive(Clone)]
pub struct TmuxTarget {
    pub pane_dir: PaneDir,
    pub record: PaneRecord,
    pub keep_lines: usize,
    pub log_cap: u64,
}

impl TmuxTarget {
    /// `None` unless a person made the pane in tmux.
    pub fn from_context(context: &PaneContext) -> Option<Self> {
        let tmux = context.record.tmux.as_ref()?;
        let settings = context.daemon.settings();
        (tmux.origin == TmuxOrigin::Found).then(|| Self {
            pane_dir: context.pane_dir(),
            record: context.record.clone(),
            keep_lines: settings.keep_lines,
            log_cap: settings.log_cap_bytes,
        })
    }
}

pub struct TmuxBackend {
    target: TmuxTarget,
    tmux: TmuxPane,
    leader: ProcessIdentity,
    /// The pidfd of `leader`, readable when the pane's first process has ended.
    ended: AsyncFd<OwnedFd>,
    terminal: PathBuf,
    /// The tmux session to which `link` is attached.
    session: String,
    link: ControlClient,
    /// Queries that tmux has not answered, in order.
    queries: VecDeque<PendingQuery>,
    log: TmuxLogWriter,
    size: (u16, u16),
    phase: OutputPhase,
    /// Output that could not be appended to the log because the disk is full.
    unwritten: Vec<u8>,
    retry_at: Instant,
    sender: KeySender,
    person: PersonKeys,
    closing: Option<(Vec<u64>, JoinHandle<io::Result<u32>>)>,
    messages: VecDeque<ToDaemon>,
    grew: bool,
    end_state: ExitReport,
}

/// A line of tmux commands, and the answers received so far.
struct PendingQuery {
    purpose: QueryPurpose,
    commands: usize,
    answers: Vec<Vec<u8>>,
}

enum QueryPurpose {
    /// The pane's state before a capture.
    State,
    /// A capture of the pane's text, taken for a pane with or without the alternate screen.
    Capture { alternate: bool },
    /// Whether the pane is still in the attached session, and its size.
    Location,
    /// A paste of an input.
    Input,
    /// The clients that show the pane, and the times of their last keys.
    Clients,
    /// A command without effect, answered after all output that preceded it.
    Drain,
    /// The removal of a paste buffer.
    Cleanup,
}

/// How received output is handled.
enum OutputPhase {
    /// Dropped: the capture will contain the output.
    Discard,
    /// Kept until the capture, which precedes the output, is in the log.
    Buffer {
        state: TmuxPaneState,
        printed: Vec<u8>,
    },
    Write,
}

#[derive(PartialEq, Eq)]
enum ExitReport {
    Running,
    /// The process has ended; its last output may not have arrived.
    Draining,
    Reported,
}

// The kernel has no event for space on a disk that was full.
const WRITE_RETRY_INTERVAL: Duration = Duration::from_millis(500);

impl TmuxBackend {
    /// Waits for the next event. An error means a lost control client. Cancel safe.
    pub async fn next_event(&mut self) -> io::Result<BackendEvent> {
        loop {
            if let Some(message) = self.messages.pop_front() {
                return Ok(BackendEvent::Message(message));
            }
            if std::mem::take(&mut self.grew) {
                return Ok(BackendEvent::Grew);
            }
            tokio::select! {
                events = self.link.next(), if self.unwritten.is_empty() && self.end_state != ExitReport::Reported => {
                    for event in events? {
                        self.handle_event(event)?;
                    }
                }
                _ = self.ended.readable(), if self.end_state == ExitReport::Running => {
                    self.end_state = ExitReport::Draining;
                    self.send_query(QueryPurpose::Drain, &["display-message -p -"]);
                }
                left = wait_closed(&mut self.closing) => self.report_closed(left),
                () = sleep_until(self.retry_at), if !self.unwritten.is_empty() => self.write(Vec::new()),
                () = wait_until(self.person.answer_by()) => self.answer_probes(),
            }
        }
    }

    pub fn send(&mut self, message: &ToHolder) {
        match message {
            ToHolder::Input(input) => {
                if let Some(state) = self.sender.accept(input) {
                    self.messages.push_back(ToDaemon::InputState(state));
                }
                self.send_next_input();
            }
            ToHolder::Probe { id } => self.probe(*id),
            ToHolder::Signal { id, signo, .. } => {
                let foreground = probe_path(&self.terminal, self.leader.pid).foreground;
                let sent = Pid::from_raw(foreground)
                    .zip(Signal::from_named_raw(*signo))
                    .map(|(group, signal)| rustix::process::kill_process_group(group, signal));
                self.messages.push_back(match sent {
                    Some(Ok(())) => ToDaemon::Done { id: *id },
                    Some(Err(errno)) => failed(*id, "signal", errno.raw_os_error()),
                    None => failed(*id, "signal", rustix::io::Errno::SRCH.raw_os_error()),
                });
            }
            ToHolder::Close { id, grace_ms } => self.close(*id, *grace_ms),
            // The person decides the size of the pane.
            ToHolder::Resize { id, .. } => {
                let errno = rustix::io::Errno::PERM.raw_os_error();
                self.messages.push_back(failed(*id, "resize", errno));
            }
            ToHolder::Hello { .. } | ToHolder::Start(_) | ToHolder::Leave => {}
        }
    }

    pub fn recorded_exit(&self) -> Option<ExitRecord> {
        let place = &self.target.pane_dir;
        ExitRecord::read(&place.dir, place.generation)
            .ok()
            .flatten()
    }

    pub fn next_seq(&mut self) -> u64 {
        self.sender.next_seq()
    }

    fn send_query(&mut self, purpose: QueryPurpose, commands: &[&str]) {
        self.queries.push_back(PendingQuery {
            purpose,
            commands: commands.len(),
            answers: Vec::new(),
        });
        self.link.ask(&commands.join(" ; "));
    }

    fn handle_event(&mut self, event: ControlEvent) -> io::Result<()> {
        match event {
            ControlEvent::Output { pane, bytes } => {
                if self.tmux.id.strip_prefix('%') == Some(&pane.to_string()) {
                    match &mut self.phase {
                        OutputPhase::Discard => {}
                        OutputPhase::Buffer { printed, .. } => printed.extend(bytes),
                        OutputPhase::Write => self.write(bytes),
                    }
                }
                Ok(())
            }
            ControlEvent::Answer { ok, body } => self.handle_answer(ok, body),
            ControlEvent::Changed => {
                let known =
                    |question: &PendingQuery| matches!(question.purpose, QueryPurpose::Location);
                if !self.queries.iter().any(known) {
                    self.query_location();
                }
                Ok(())
            }
            ControlEvent::Exit => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    fn query_location(&mut self) {
        let is_it = quote(format!("#{{==:#{{pane_id}},{}}}", self.tmux.id).as_bytes());
        let session = quote(self.session.as_bytes());
        let what = quote(b"#{pane_pid} #{pane_height} #{pane_width} #{pane_dead}");
        let list = format!("list-panes -s -t {session} -f {is_it} -F {what}");
        self.send_query(QueryPurpose::Location, &[&list]);
    }

    /// Handles the answer of one command. tmux does not run the commands after one that failed, so a failure completes the query.
    fn handle_answer(&mut self, ok: bool, body: Vec<u8>) -> io::Result<()> {
        let Some(question) = self.queries.front_mut() else {
            return Ok(());
        };
        question.answers.push(body);
        if ok && question.answers.len() < question.commands {
            return Ok(());
        }
        let Some(PendingQuery {
            purpose, answers, ..
        }) = self.queries.pop_front()
        else {
            return Ok(());
        };
        match purpose {
            QueryPurpose::State => self.capture(ok, &answers),
            QueryPurpose::Capture { alternate } => self.handle_capture(ok, alternate, &answers),
            QueryPurpose::Location => self.update_location(ok, &answers)?,
            QueryPurpose::Input => {
                self.finish_input(ok);
                self.send_next_input();
            }
            QueryPurpose::Clients => self.update_draft(&answers),
            QueryPurpose::Drain => self.report_end(),
            QueryPurpose::Cleanup => {}
        }
        Ok(())
    }

    fn update_location(&mut self, ok: bool, answers: &[Vec<u8>]) -> io::Result<()> {
        let said = answers
            .first()
            .map(|body| String::from_utf8_lossy(body).into_owned());
        let numbers: Vec<u32> = said
            .iter()
            .flat_map(|said| said.split_whitespace())
            .filter_map(|word| word.parse().ok())
            .collect();
        let [pid, rows, cols, dead] = numbers[..] else {
            if check_alive(self.leader).is_ok_and(|alive| !alive) {
                self.report_end();
                return Ok(());
            }
            // The pane has moved to another session or is gone. The error leads to a new search by `recover`.
            let what = if ok {
                "the pane has moved"
            } else {
                "the session is gone"
            };
            return Err(io::Error::other(what));
        };
        if dead == 1 || pid != self.leader.pid.cast_unsigned() {
            self.report_end();
            return Ok(());
        }
        let size = (
            u16::try_from(rows).unwrap_or(self.size.0),
            u16::try_from(cols).unwrap_or(self.size.1),
        );
        if size != self.size {
            self.size = size;
            self.log.append_size(size.0, size.1)?;
            self.messages.push_back(ToDaemon::Resized {
                rows: size.0,
                cols: size.1,
            });
        }
        Ok(())
    }

    /// Appends output to the log. While the disk is full, no events are read from tmux.
    fn write(&mut self, bytes: Vec<u8>) {
        let stalled = !self.unwritten.is_empty();
        self.person.printed(&bytes);
        self.unwritten.extend(bytes);
        let (written, done) = self.log.append(&self.unwritten);
        self.unwritten.drain(..written);
        self.grew |= written > 0;
        match done {
            Ok(()) if stalled => self.messages.push_back(ToDaemon::LogWritable),
            Ok(()) => {}
            Err(error) => {
                self.retry_at = Instant::now() + WRITE_RETRY_INTERVAL;
                if !stalled {
                    let errno = error.raw_os_error().unwrap_or_default();
                    self.messages.push_back(ToDaemon::Stalled { errno });
                }
            }
        }
    }

    /// Reports the end of the pane. Only the parent of the process, tmux, has its exit status.
    fn report_end(&mut self) {
        if self.end_state == ExitReport::Reported {
            return;
        }
        self.end_state = ExitReport::Reported;
        self.answer_probes();
        let exited = ChildExit {
            ending: ProcessExit::Unknown,
            output_end: self.log.end_offset(),
        };
        if let Err(error) = self.log.write_exit(exited) {
            tracing::warn!(pane = %self.target.pane_dir.pane, %error, "exit record not written");
        }
        for state in self.sender.fail_all() {
            self.messages.push_back(ToDaemon::InputState(state));
        }
        self.messages.push_back(ToDaemon::Exited(exited));
    }

    fn close(&mut self, id: u64, grace_ms: u32) {
        if let Some((ids, _)) = &mut self.closing {
            return ids.push(id);
        }
        let scope = ProcessScope::new(Some(self.leader), Vec::new());
        let grace = Duration::from_millis(u64::from(grace_ms));
        let closes = tokio::task::spawn_blocking(move || close_leftovers(scope, grace));
        self.closing = Some((vec![id], closes));
    }

    fn report_closed(&mut self, left: io::Result<u32>) {
        let left = left.unwrap_or_else(|error| {
            tracing::warn!(pane = %self.target.pane_dir.pane, %error, "processes of pane not ended");
            1
        });
        for id in self.closing.take().map(|(ids, _)| ids).unwrap_or_default() {
            self.messages.push_back(ToDaemon::Closed { id, left });
        }
    }
}

async fn wait_until(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}

async fn wait_closed(
    closing: &mut Option<(Vec<u64>, JoinHandle<io::Result<u32>>)>,
) -> io::Result<u32> {
    match closing {
        Some((_, closes)) => closes
            .await
            .unwrap_or_else(|error| Err(io::Error::other(error))),
        None => std::future::pending().await,
    }
}

fn failed(id: u64, what: &str, errno: i32) -> ToDaemon {
    ToDaemon::Failed {
        id,
        errno,
        what: what.to_owned(),
    }
}

/// The identity of a process, and a pidfd that becomes readable when the process ends.
fn pidfd(pid: u32) -> io::Result<(ProcessIdentity, AsyncFd<OwnedFd>)> {
    let gone = || io::Error::from(rustix::io::Errno::SRCH);
    let pid = pid.cast_signed();
    let fd =
        rustix::process::pidfd_open(Pid::from_raw(pid).ok_or_else(gone)?, PidfdFlags::empty())?;
    let who = find_process(pid)?.ok_or_else(gone)?;
    Ok((who, register_fd(fd, Interest::READABLE)?))
}

fn text(body: &[u8]) -> std::borrow::Cow<'_, str> {
    String::from_utf8_lossy(body)
}

#[cfg(test)]
mod tests;
