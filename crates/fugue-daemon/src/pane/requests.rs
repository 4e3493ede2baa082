//! The commands of a pane's task. Most replies need a probe of the foreground process first.

use std::{
    io,
    path::Path,
    time::{Duration, Instant},
};

use fugue_api::{
    Cursor, Error, ErrorKind, ToolReply,
    pane_state::{PaneState, SourcedState, StateSource},
    tools::{GetStatusReply, PaneSize, PaneStatus, ReadPane},
    wire::Response,
};
use fugue_core::{
    PaneEvent, PaneRequest, TmuxOrigin, TmuxPane,
    pane_machine::{InjectionRequest, InputOrigin, Reachability},
    state::{self, ShellSignal, StateSignals, TtySignal},
    view,
};
use fugue_holder::{
    KILL_TIMEOUT,
    wire::{ChildExit, ForegroundProbe, ToHolder},
};
use fugue_term::ShellState;
use tokio::sync::oneshot;

use super::{
    FrameRequest, LiveState, Pane, PaneCommand, end::ended_meanwhile, launch, open::pane_exit,
    unreachable,
};
use crate::{
    archive,
    pending_calls::Responder,
    reading::{self, HistoryDepth, ReadOutcome, RecentText},
    shell, whole,
};

/// The purpose of a probe of the foreground process.
pub(super) enum ProbeReason {
    Status(Box<PaneStatus>, Responder),
    Read(Box<ReadPane>, Responder),
    State(oneshot::Sender<LiveState>),
    Input,
    /// Output has stopped: the state may have changed.
    OutputStopped,
    /// A watcher's time of quiet is over.
    WatcherQuiet,
    /// The check before an injection is queued.
    Inject(InjectionRequest),
}

impl Pane {
    pub(super) async fn handle_command(&mut self, command: PaneCommand) {
        match command {
            PaneCommand::Request { request, responder } => self.handle_request(request, responder),
            PaneCommand::RequestFrame {
                client,
                request: asks,
            } => self.request_frame(client, asks),
            PaneCommand::Resize(size) => self.resize(size, None),
            PaneCommand::SetAgentState(agent_state) => self.viewer_state.agent_state = agent_state,
            PaneCommand::GetState(reply) => self.probe(ProbeReason::State(reply)),
            PaneCommand::ReadOutput { from, reply } => {
                let end = self.follower.terminal.end();
                let mut more = reading::read_chunk(&mut self.follower.log, from, end);
                if let Ok(more) = &mut more {
                    more.ended &= self.is_end_reported();
                }
                let _ = reply.send(more);
            }
            PaneCommand::Close { grace } => {
                self.context.record.closing = true;
                match self.connection.reachability() {
                    Reachability::Silent | Reachability::Reconnecting(_) => {
                        self.close_unreachable(grace);
                    }
                    Reachability::Connected | Reachability::Gone => self.close(grace),
                }
            }
            PaneCommand::StartExpect(request) => self.start_expect(*request).await,
            PaneCommand::CancelExpect(run) => self.cancel_expect(&run),
            PaneCommand::RunSteps(plan) => self.run_steps(plan).await,
            PaneCommand::StopSteps(plan) => self.stop_steps(plan).await,
            PaneCommand::AwaitQuiet(quiet) => self.await_quiet(quiet),
            PaneCommand::CancelQuiet(watcher) => self.forget_quiet(watcher),
            PaneCommand::Inject(inject) => self.inject(inject).await,
            PaneCommand::AwaitIdle(turn_end) => self.await_idle(turn_end).await,
            PaneCommand::TypeMessage { event, text } => self.type_message(event, text).await,
            PaneCommand::ReadRange {
                range,
                max_chars,
                reply,
            } => {
                // A part that has left the terminal's memory is read from the log.
                let found =
                    reading::read_range(&mut self.text(), HistoryDepth::Recent, &range, max_chars);
                let _ = reply.send(found.unwrap_or_default());
            }
        }
    }

    fn handle_request(&mut self, request: PaneRequest, responder: Responder) {
        match request {
            PaneRequest::Status(status) => {
                self.probe(ProbeReason::Status(status, responder));
            }
            PaneRequest::Read { args, .. } => {
                self.probe(ProbeReason::Read(args, responder));
            }
            PaneRequest::Send { args, key } => {
                if let Some(why) = self.unreachable() {
                    return responder.answer(Err(self.context.refusal(&why)));
                }
                if self.has_exited() {
                    return responder
                        .answer(Err(Error::new(ErrorKind::Ended, "the pane has ended")));
                }
                self.inputs
                    .enqueue(*args, key.0, InputOrigin::Call(responder));
                self.advance_inputs();
            }
            PaneRequest::Resize(size) => {
                if let Some(tmux) = self.context.record.tmux.clone() {
                    return self.resize_in_tmux(tmux, size, responder);
                }
                self.resize(size, Some(responder));
            }
            PaneRequest::GetFrame {
                client,
                seen,
                agent_state,
                ..
            } => {
                self.viewer_state.agent_state = agent_state.map(|agent_state| *agent_state);
                self.request_frame(client, FrameRequest::once(seen, responder));
            }
            PaneRequest::Connect { role, agent_state } => {
                self.viewer_state.agent_state = agent_state.map(|agent_state| *agent_state);
                self.open_connection(role, responder);
            }
            PaneRequest::ReadLines { from, most } => self.lines(from, most, responder),
            PaneRequest::Type { bytes, key } => self.type_for_a_person(bytes, key, responder),
            PaneRequest::Follow { .. } => {
                responder.answer(Err(Error::new(
                    ErrorKind::Internal,
                    "output is followed by `ReadOutput`, not by a request",
                )));
            }
        }
    }

    pub(super) fn close(&mut self, grace: Duration) {
        let id = self.next_id();
        let grace_ms = u32::try_from(grace.as_millis()).unwrap_or(u32::MAX);
        // The close has a deadline only where recorded processes can be ended without the backend, which is not so for a pane of
        // a person's own tmux.
        let found = |tmux: &TmuxPane| tmux.origin == TmuxOrigin::Found;
        let is_own =
            self.connection.is_connected() && !self.context.record.tmux.as_ref().is_some_and(found);
        match is_own {
            true => self.lifecycle.on_close(grace, KILL_TIMEOUT, Instant::now()),
            false => self.lifecycle.clear_close_deadline(),
        }
        self.send(&ToHolder::Close { id, grace_ms });
    }

    /// Whether the pane takes no more input and has no foreground process.
    fn has_exited(&self) -> bool {
        self.connection.is_gone() || self.lifecycle.pending_exit().is_some()
    }

    /// The child has exited while the disk is full: pending probes are answered now.
    pub(super) fn on_pending_exit(&mut self, exited: ChildExit) {
        self.lifecycle.on_pending_exit(pane_exit(exited));
        self.has_unread_output = true;
        for reason in std::mem::take(&mut self.probes).into_values() {
            self.answer_without_probe(reason);
        }
        self.end_inputs();
    }

    /// The note for replies while output cannot be written.
    fn stall_note(&self) -> Option<String> {
        let why = io::Error::from_raw_os_error(self.stalled?);
        let Some(exit) = self.lifecycle.pending_exit() else {
            return Some(format!(
                "its output cannot be written ({why}); the program waits and nothing is lost"
            ));
        };
        let offset = self.follower.terminal.offset().0;
        let waiting = exit.output_end.saturating_sub(offset);
        Some(format!(
            "its program has ended; at least {waiting} bytes of its output wait for disk space ({why}) and are lost \
             if the pane is closed before there is some"
        ))
    }

    pub(super) fn probe(&mut self, reason: ProbeReason) {
        let reason = match self.connection.reachability() {
            Reachability::Silent | Reachability::Reconnecting(_) => self.answer_unreachable(reason),
            Reachability::Connected | Reachability::Gone if self.has_exited() => {
                return self.answer_without_probe(reason);
            }
            Reachability::Connected | Reachability::Gone => Some(reason),
        };
        let Some(reason) = reason else { return };
        let id = self.next_id();
        self.probes.insert(id, reason);
        self.connection.on_probe_sent(Instant::now());
        self.send(&ToHolder::Probe { id });
    }

    /// Sets the deadline for pending probes, unless it is set or none is pending.
    pub(super) fn expect_probes(&mut self) {
        if !self.probes.is_empty() {
            self.connection.expect_answer(Instant::now());
        }
    }

    /// Answers a probe's call without a backend, or returns a probe that can wait for the backend.
    pub(super) fn answer_unreachable(&mut self, reason: ProbeReason) -> Option<ProbeReason> {
        match reason {
            ProbeReason::Status(_, _) | ProbeReason::State(_) => {
                self.answer(reason, unreachable::running_state())
            }
            // The log may be longer than the part that was read.
            ProbeReason::Read(args, responder) => self.context.read_files(args, responder),
            ProbeReason::Input if self.connection.is_connected() => {}
            ProbeReason::Input
            | ProbeReason::OutputStopped
            | ProbeReason::WatcherQuiet
            | ProbeReason::Inject(_) => {
                return Some(reason);
            }
        }
        None
    }

    pub(super) async fn probed(&mut self, id: u64, probe: &ForegroundProbe) {
        let reason = self.probes.remove(&id);
        self.connection.on_answer();
        self.expect_probes();
        let Some(reason) = reason else { return };
        // Output that precedes the probe is in the log by now.
        self.read_some().await;
        self.viewer_state.probe = Some(probe.clone());
        self.probing.on_probe();
        self.find_agent(probe).await;
        match reason {
            ProbeReason::Input if self.next_input_waits() => {
                // The person began to type during the probe.
                self.inputs.step_back();
                self.advance_inputs();
            }
            ProbeReason::Input => {
                let target = self.target(probe);
                if self.inputs.admit(&target) {
                    self.inputs.begin(self.input_modes(probe), self.cursor());
                }
                self.advance_inputs();
            }
            ProbeReason::WatcherQuiet => self.report_quiet(probe).await,
            ProbeReason::Inject(inject) => self.type_injection(inject, probe).await,
            ProbeReason::OutputStopped if self.context.record.agent.is_some() => {
                self.look_at_agent().await;
                self.probe_again_for_viewers();
            }
            ProbeReason::OutputStopped => {
                let state = self.state(probe).state;
                if self.first_prompt.is_preceded_by(state) {
                    self.probing.clear();
                    let cursor = self.cursor();
                    self.context
                        .emit(PaneEvent::AttentionBeforePrompt { cursor })
                        .await;
                }
                self.probe_again_for_viewers();
            }
            ProbeReason::Status(_, _) | ProbeReason::Read(_, _) | ProbeReason::State(_) => {
                let state = self.state(probe);
                self.answer(reason, state);
            }
        }
    }

    pub(super) fn answer(&mut self, reason: ProbeReason, state: SourcedState) {
        let found = match state.by {
            StateSource::Exit => None,
            StateSource::TtyRead
            | StateSource::ShellMark
            | StateSource::Hook
            | StateSource::Screen
            | StateSource::Silence => self.found_agent_state(&state),
        };
        match reason {
            ProbeReason::Status(mut status, responder) => {
                // An agent's own report that it waits for a person takes precedence over its terminal.
                if status.state.state != PaneState::NeedsInput || state.by == StateSource::Exit {
                    status.state = state;
                }
                if let Some(found) = found {
                    (status.state, status.agent) = (found.state, found.agent);
                }
                status.idle_ms = self.idle_ms();
                status.cursor = self.cursor();
                status.title = self.follower.terminal.title().to_owned();
                status.cwd = self.cwd().unwrap_or(status.cwd);
                let size = self.follower.terminal.size();
                status.size = PaneSize {
                    rows: size.rows,
                    cols: size.cols,
                };
                let stalled = self.stall_note();
                let drafted = self.is_person_typing() || self.shows_foreign_draft();
                let drafted = drafted.then(|| {
                    "a person has begun a line in it; what others type waits until that is sent"
                        .to_owned()
                });
                let unreachable = self.unreachable().map(|why| unreachable::note(&why));
                status.note = unreachable.or(stalled).or(drafted);
                responder.answer(Ok(Response::Tool {
                    reply: ToolReply::GetStatus(GetStatusReply::Pane(status)),
                }));
            }
            ProbeReason::Read(args, responder) => self.read(args, state, responder),
            ProbeReason::State(reply) => {
                let _ = reply.send(found.unwrap_or_else(|| state.into()));
            }
            ProbeReason::Input
            | ProbeReason::OutputStopped
            | ProbeReason::WatcherQuiet
            | ProbeReason::Inject(_) => {}
        }
    }

    pub(super) fn answer_without_probe(&mut self, reason: ProbeReason) {
        let mut state = SourcedState::new(PaneState::Exited, StateSource::Exit);
        if let Some(status) = self.lifecycle.exit_status() {
            let exit = launch::exit(status);
            (state.exit_code, state.signal) = (exit.code(), exit.signal());
        }
        self.answer(reason, state);
    }

    pub(super) fn read(&mut self, args: Box<ReadPane>, state: SourcedState, responder: Responder) {
        let note = self.stall_note();
        let follower = &mut self.follower;
        let gaps = follower.gaps().to_vec();
        let mut text = RecentText {
            terminal: &follower.terminal,
            gaps: &gaps,
            tail: None,
        };
        match reading::read(&mut text, &mut follower.log, &args, &state) {
            Ok(ReadOutcome::Done(mut reply)) => {
                reply.note = reading::join_notes(note, reply.note);
                responder.answer(Ok(Response::Tool {
                    reply: ToolReply::ReadPane(*reply),
                }));
            }
            Err(error) => responder.answer(Err(error)),
            // Reading a long log takes a while, and other panes live on this thread.
            Ok(ReadOutcome::NeedsMore(plan)) => {
                let record = Box::new(self.context.record.clone());
                let read = archive::read_whole(plan, record, self.context.daemon.clone());
                whole::answer_later(responder, async move {
                    let mut text = read.await?;
                    text.note = reading::join_notes(note, text.note);
                    Ok(Response::Tool {
                        reply: ToolReply::ReadPane(text),
                    })
                });
            }
        }
    }

    /// The text in the terminal's memory.
    fn text(&self) -> RecentText<'_> {
        RecentText {
            terminal: &self.follower.terminal,
            gaps: self.follower.gaps(),
            tail: None,
        }
    }

    pub(super) async fn resized(&mut self, id: u64) {
        let Some((size, responder)) = self.resizes.take(id) else {
            return;
        };
        self.size_changed(size).await;
        if let Some(responder) = responder {
            responder.answer(Ok(Response::Resized));
        }
    }

    /// The holder has given the child's terminal this size, for a request or because tmux resized its pane.
    pub(super) async fn size_changed(&mut self, size: PaneSize) {
        if let Err(error) = self.follower.reload_sizes() {
            tracing::warn!(pane = %self.context.record.id, %error, "terminal sizes cannot be read");
        }
        self.has_unread_output = true;
        self.idle.on_redraw(Instant::now());
        self.context.emit(PaneEvent::Resized(size)).await;
    }

    fn resize(&mut self, size: PaneSize, responder: Option<Responder>) {
        let id = self.next_id();
        let PaneSize { rows, cols } = size;
        match self.resizes.request(id, size, responder) {
            Ok(()) => self.send(&ToHolder::Resize { id, rows, cols }),
            Err(Some(responder)) => responder.answer(Err(ended_meanwhile())),
            Err(None) => {}
        }
    }

    pub(super) fn state(&self, probe: &ForegroundProbe) -> SourcedState {
        let command = &self.context.record.command;
        // A plain sh marks its steps and never its prompt.
        let marks_prompts = self.context.record.announces_prompts()
            && shell::takes_steps(shell::ShellKind::from_path(Path::new(command)));
        let shell = match self.follower.terminal.shell_state() {
            ShellState::AtPrompt { .. } => ShellSignal::AtPrompt,
            ShellState::Running { .. } => ShellSignal::Running,
            ShellState::Prompting { .. } if marks_prompts => ShellSignal::Running,
            ShellState::Prompting { .. } | ShellState::Unknown => ShellSignal::Nothing,
        };
        let own = self.context.record.pid.cast_signed();
        let tty = match probe.reader {
            Some(reader) if reader.secret => TtySignal::SecretWanted,
            Some(reader) if reader.pid == own => TtySignal::OwnProcessReads,
            Some(_) => TtySignal::ProgramReads,
            // A setuid program cannot be inspected, but line mode without echo means a password prompt.
            None if probe.unreadable && probe.canonical && !probe.echo => TtySignal::SecretWanted,
            None => TtySignal::Nothing,
        };
        state::derive_state(&StateSignals {
            shell,
            tty,
            // A shell with integration marks its prompts; a read before the first prompt waits for an answer.
            interactive: !marks_prompts && state::is_interactive_shell(command),
            prompt_line: self.follower.terminal.cursor_line(),
            silent_ms: self.idle_ms(),
            idle_threshold_ms: self.context.daemon.settings().idle_threshold_ms(),
        })
    }

    /// The working directory that the shell has reported, else the one of the child in the kernel.
    pub(super) fn cwd(&self) -> Option<String> {
        if let Some(cwd) = self.follower.terminal.cwd() {
            return Some(cwd.to_owned());
        }
        let link = std::fs::read_link(format!("/proc/{}/cwd", self.context.record.pid)).ok()?;
        Some(link.to_string_lossy().into_owned())
    }

    pub(super) fn idle_ms(&self) -> u64 {
        u64::try_from(self.last_output.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    pub(super) fn cursor(&self) -> Cursor {
        view::shown(self.follower.terminal.end())
    }
}
