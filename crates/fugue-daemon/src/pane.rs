//! A pane's task: reads the output log into the terminal, passes events and the time to the parts of
//! [`pane_machine`](fugue_core::pane_machine), and performs their decisions. No other task reads the pane's bytes.

mod agent_idle;
mod backend;
mod draft;
mod end;
mod expect;
mod frames;
mod holder;
mod input;
pub mod launch;
mod open;
mod pipeline;
mod quiet;
mod raw;
mod requests;
mod target;
mod timers;
mod tmux_hosted;
mod tmux_listener;
mod unreachable;
mod viewer_connection;

use std::{
    collections::HashMap,
    io,
    sync::Arc,
    time::{Duration, Instant},
};

use fugue_api::{
    Error, EventId, PaneId, RunId,
    attach::ClientId,
    pane_state::{AgentStatus, SourcedState},
    tools::PaneSize,
    wire::OutputChunk,
};
use fugue_core::{
    AdoptMode, OutputRange, PaneEvent, PaneJob, PaneRecord, PaneRequest, StepPlan, TurnEnd,
    pane_machine::{
        AgentIdle, BackendConnection, DraftTracker, ExpectWaiters, FirstPrompt, FrameScheduler,
        InjectionRequest, InputQueue, LogGrowth, PaneLifecycle, PaneTimer, ProbeInterest,
        ProbeSchedule, QuietRequest, QuietWait, RedrawState, ResizeQueue, StepTracker,
        TypingSource,
    },
    result::PartText,
    view,
};
use fugue_holder::{
    spawn::ProcessExit,
    wire::{InputKind, InputMessage, ToDaemon, ToHolder},
};
use fugue_term::{ShellMarkKind, TerminalEvent};
use tokio::{
    sync::{mpsc, oneshot, watch},
    time::sleep_until,
};

use crate::{
    engine::{DaemonContext, EngineEvent},
    pending_calls::Responder,
    replay::LogFollower,
    shards::ShardTask,
};
use backend::{BackendEvent, PaneBackend, PaneDir};
use expect::OlderSearch;
use frames::{FrameRequest, ViewerState};
use open::{StartFailure, pane_exit};
use requests::ProbeReason;
use unreachable::{AdoptionCause, Attempt, attempted, first_attempt};

/// The state of a live pane, and of the agent that a person has started in it.
pub struct LiveState {
    pub state: SourcedState,
    pub agent: Option<AgentStatus>,
}

impl From<SourcedState> for LiveState {
    fn from(state: SourcedState) -> Self {
        Self { state, agent: None }
    }
}

/// The engine's handle to a pane's task.
#[derive(Clone)]
pub struct PaneHandle {
    id: PaneId,
    pub commands: mpsc::Sender<PaneCommand>,
    /// Changes when new output may be readable.
    pub grown: watch::Receiver<u64>,
}

pub enum PaneCommand {
    Request {
        request: PaneRequest,
        responder: Responder,
    },
    GetState(oneshot::Sender<LiveState>),
    /// A frame for a viewer with its own connection to the pane's task.
    RequestFrame {
        client: ClientId,
        request: FrameRequest,
    },
    ReadOutput {
        from: u64,
        reply: oneshot::Sender<Result<OutputChunk, Error>>,
    },
    Close {
        grace: Duration,
    },
    StartExpect(Box<fugue_core::ExpectRequest>),
    CancelExpect(RunId),
    RunSteps(StepPlan),
    StopSteps(u64),
    AwaitIdle(TurnEnd),
    TypeMessage {
        event: EventId,
        text: String,
    },
    AwaitQuiet(QuietRequest),
    CancelQuiet(u64),
    Inject(InjectionRequest),
    Resize(PaneSize),
    SetAgentState(Option<SourcedState>),
    /// A part of the text. The reply is `None` if the part must be read from the files.
    ReadRange {
        range: OutputRange,
        max_chars: usize,
        reply: oneshot::Sender<Option<PartText>>,
    },
}

// The limit of commands that wait while a pane replays its log. Further calls are refused.
const MAX_QUEUED_COMMANDS: usize = 256;

impl PaneHandle {
    pub fn id(&self) -> PaneId {
        self.id
    }

    /// Sends a command that must not be refused: a full queue delays it. An ended pane drops it.
    pub fn send(&self, command: PaneCommand) {
        if let Err(mpsc::error::TrySendError::Full(command)) = self.commands.try_send(command) {
            let commands = self.commands.clone();
            tokio::spawn(async move { commands.send(command).await });
        }
    }

    /// Sends a command, or returns it if the queue is full or the pane has ended.
    pub fn try_send(&self, command: PaneCommand) -> Result<(), PaneCommand> {
        self.commands
            .try_send(command)
            .map_err(|error| match error {
                mpsc::error::TrySendError::Full(command)
                | mpsc::error::TrySendError::Closed(command) => command,
            })
    }
}

/// The task of a new pane.
pub fn open(
    record: PaneRecord,
    start: launch::PaneLaunch,
    daemon: Arc<DaemonContext>,
    engine_events: mpsc::Sender<EngineEvent>,
) -> (PaneHandle, ShardTask) {
    task(record, daemon, engine_events, move |context| async move {
        let steps = match &start.job {
            PaneJob::Steps(plan) | PaneJob::ShellWithSteps(plan) => Some(plan.clone()),
            PaneJob::Shell | PaneJob::Command(_) | PaneJob::Program(_) => None,
        };
        match Pane::start(context, start).await {
            Ok(pane) => pane.run().await,
            Err(StartFailure::Failed(context, error)) => {
                context.emit(PaneEvent::OpenFailed(error)).await
            }
            Err(StartFailure::Unsure(context, error)) => {
                if let Some(pane) =
                    unreachable::adopt(context, steps, AdoptionCause::Failed(error)).await
                {
                    pane.run().await;
                }
            }
        }
    })
}

/// The task of a pane that an earlier daemon opened.
pub fn adopt(
    record: PaneRecord,
    steps: Option<StepPlan>,
    how: AdoptMode,
    daemon: Arc<DaemonContext>,
    engine_events: mpsc::Sender<EngineEvent>,
) -> (PaneHandle, ShardTask) {
    task(record, daemon, engine_events, |context| async move {
        match how {
            AdoptMode::Terminal => {
                if let Some(pane) =
                    unreachable::adopt(context, steps, AdoptionCause::Interrupted).await
                {
                    pane.run().await;
                }
            }
            AdoptMode::RawOutput { panic } => raw::serve(context, panic).await,
        }
    })
}

fn task<F: Future<Output = ()> + 'static>(
    record: PaneRecord,
    daemon: Arc<DaemonContext>,
    engine_events: mpsc::Sender<EngineEvent>,
    run: impl FnOnce(PaneContext) -> F + Send + 'static,
) -> (PaneHandle, ShardTask) {
    let (commands, commands_rx) = mpsc::channel(MAX_QUEUED_COMMANDS);
    let (grow, grown) = watch::channel(0);
    let handle = PaneHandle {
        id: record.id,
        commands,
        grown,
    };
    let context = PaneContext {
        record,
        daemon,
        engine_events,
        commands: handle.commands.downgrade(),
        commands_rx,
        grow,
    };
    (handle, Box::new(move || Box::pin(run(context))))
}

/// The record and the channels of a pane's task, with or without a running pane.
struct PaneContext {
    record: PaneRecord,
    daemon: Arc<DaemonContext>,
    engine_events: mpsc::Sender<EngineEvent>,
    /// The task's own command queue, for viewers' connections that the task serves.
    commands: mpsc::WeakSender<PaneCommand>,
    commands_rx: mpsc::Receiver<PaneCommand>,
    grow: watch::Sender<u64>,
}

impl PaneContext {
    async fn emit(&self, event: PaneEvent) {
        // The engine ends before its panes only at the daemon's end.
        let _ = self
            .engine_events
            .send(EngineEvent::Pane(self.record.id, event))
            .await;
    }

    fn pane_dir(&self) -> PaneDir {
        let dir = self.daemon.paths.panes().join(self.record.id.to_string());
        PaneDir {
            pane: self.record.id,
            dir,
            epoch: self.daemon.epoch,
            generation: self.record.generation,
        }
    }
}

struct Pane {
    context: PaneContext,
    follower: LogFollower,
    /// The connected backend.
    backend: Option<PaneBackend>,
    /// The attempt to reach a backend whose connection is lost.
    attempt: Option<Attempt>,
    connection: BackendConnection,
    lifecycle: PaneLifecycle<ProcessExit>,
    /// When the foreground process is probed for state changes.
    probing: ProbeSchedule,
    /// Probes of the foreground process that the backend has not answered.
    probes: HashMap<u64, ProbeReason>,
    resizes: ResizeQueue<Responder>,
    inputs: InputQueue<Responder>,
    /// A person's keys that the backend has not acknowledged.
    keys: HashMap<u64, Responder>,
    frames: FrameScheduler<Responder>,
    viewer_state: ViewerState,
    expects: ExpectWaiters,
    older_searches_tx: mpsc::UnboundedSender<OlderSearch>,
    /// Bounded by the expects, each of which searches older output once.
    older_searches_rx: mpsc::UnboundedReceiver<OlderSearch>,
    /// The pipeline whose steps the pane's shell has.
    steps: Option<StepTracker>,
    idle: AgentIdle,
    /// The agent that runs in a pane without a worker, by the last probe.
    found_agent: Option<&'static str>,
    quiet: QuietWait,
    draft: DraftTracker,
    next_id: u64,
    last_output: Instant,
    first_prompt: FirstPrompt,
    stalled: Option<i32>,
    /// The child left no other process behind.
    alone: bool,
    /// The child ran until the machine was restarted.
    lost_by_reboot: bool,
    has_unread_output: bool,
    /// The last read was full: the program prints faster than the task reads.
    is_flooding: bool,
    log_growth: LogGrowth,
}

/// A program that may be an agent is probed this long after its first sign.
const AGENT_SEARCH_DELAY: Duration = Duration::from_millis(300);

// A read that fails for want of memory or descriptors may succeed at once, and the end of the output is read only once.
const READ_ATTEMPTS: u32 = 3;

impl Pane {
    fn new(context: PaneContext, follower: LogFollower, backend: Option<PaneBackend>) -> Self {
        let (searched_in, searched_out) = mpsc::unbounded_channel();
        let connection = match backend {
            Some(_) => BackendConnection::connected(),
            None => BackendConnection::gone(),
        };
        Self {
            context,
            follower,
            backend,
            attempt: None,
            connection,
            lifecycle: PaneLifecycle::default(),
            probing: ProbeSchedule::default(),
            probes: HashMap::new(),
            resizes: ResizeQueue::default(),
            inputs: InputQueue::default(),
            keys: HashMap::new(),
            frames: FrameScheduler::default(),
            viewer_state: ViewerState::default(),
            expects: ExpectWaiters::default(),
            older_searches_tx: searched_in,
            older_searches_rx: searched_out,
            steps: None,
            idle: AgentIdle::default(),
            found_agent: None,
            quiet: QuietWait::default(),
            draft: DraftTracker::default(),
            next_id: 1,
            last_output: Instant::now(),
            first_prompt: FirstPrompt::default(),
            stalled: None,
            alone: false,
            lost_by_reboot: false,
            has_unread_output: true,
            is_flooding: false,
            log_growth: LogGrowth::default(),
        }
    }

    /// Runs until the pane has ended and its handle is dropped.
    async fn run(mut self) {
        loop {
            if let Some(exit) = self.reportable_exit() {
                self.end(exit).await;
            }
            self.report_inputs().await;
            self.send_frames();
            let first = first_attempt(&mut self.connection, self.attempt.as_mut());
            if let Some(adoption) = first.await {
                self.reconnected(adoption).await;
                continue;
            }
            let deadlines = PaneTimer::ALL
                .into_iter()
                .filter_map(|timer| self.deadline(timer));
            let deadline = deadlines.min();
            tokio::select! {
                command = self.context.commands_rx.recv() => match command {
                    Some(command) => self.handle_command(command).await,
                    // The handle is dropped: the pane has ended, or the daemon ends. A running holder stays.
                    None => return,
                },
                event = event(self.backend.as_mut()) => match event {
                    Ok(BackendEvent::Grew) => self.read_on().await,
                    Ok(BackendEvent::Message(message)) => self.handle_message(message).await,
                    Err(error) => self.connection_lost(error.to_string()),
                },
                adoption = attempted(self.attempt.as_mut()) => self.reconnected(adoption).await,
                Some(searched) = self.older_searches_rx.recv() => self.resume_expect(searched).await,
                () = tokio::task::yield_now(), if self.has_unread_output && self.connection.allows_reading() => self.read_on().await,
                () = sleep_until(deadline.unwrap_or_else(Instant::now).into()), if deadline.is_some() => self.fire_timers().await,
            }
        }
    }

    async fn handle_message(&mut self, message: ToDaemon) {
        self.connection.on_message();
        match message {
            // A pane that tmux hosts is still to be removed from tmux.
            ToDaemon::NoProcessesLeft => self.alone = self.context.record.tmux.is_none(),
            ToDaemon::ViewKeys { bytes } => self.keyed(&bytes),
            ToDaemon::Resized { rows, cols } => self.size_changed(PaneSize { rows, cols }).await,
            ToDaemon::ExitPending(exited) => self.on_pending_exit(exited),
            ToDaemon::Exited(exited) => {
                self.lifecycle.on_exit(pane_exit(exited));
                self.has_unread_output = true;
            }
            ToDaemon::InputState(input) => self.input_acknowledged(&input),
            ToDaemon::Probed { id, probe } => {
                // A line that was withdrawn before the holder answered is not typed.
                while let Ok(command) = self.context.commands_rx.try_recv() {
                    self.handle_command(command).await;
                }
                self.probed(id, &probe).await;
            }
            ToDaemon::Closed { left, .. } => {
                if left > 0 {
                    tracing::warn!(pane = %self.context.record.id, left, "processes of pane not ended");
                }
                self.lifecycle.on_closed();
            }
            ToDaemon::Stalled { errno } => self.stalled = Some(errno),
            ToDaemon::LogWritable => self.stalled = None,
            ToDaemon::Done { id } => self.resized(id).await,
            ToDaemon::Failed { id, errno, what } => {
                if let Some((_, Some(responder))) = self.resizes.take(id) {
                    responder.answer(Err(launch::failed(&what, errno)));
                }
            }
            ToDaemon::HelloOk(_)
            | ToDaemon::Refused { .. }
            | ToDaemon::Started(_)
            | ToDaemon::StartFailed { .. }
            | ToDaemon::Unknown { .. } => {}
        }
    }

    fn send(&mut self, message: &ToHolder) {
        self.send_as(TypingSource::Program, message);
    }

    fn send_as(&mut self, source: TypingSource, message: &ToHolder) {
        if let ToHolder::Input(InputMessage {
            kind: InputKind::Typed,
            bytes,
            ..
        }) = message
        {
            self.follower.terminal.record_typed(bytes);
            self.record_typing(source, bytes);
        }
        if let Some(backend) = self.backend.as_mut()
            && let Err(error) = backend.send(message)
        {
            // The reading side of the connection fails as well, and reconnects.
            tracing::debug!(pane = %self.context.record.id, %error, "message to backend failed");
        }
    }

    /// Reads the log up to an offset. A pane that prints without end is read up to its present end in the task's loop,
    /// which no call waits for.
    async fn read_back(&mut self, until: u64) {
        self.has_unread_output = true;
        while self.has_unread_output && self.follower.terminal.offset().0 < until {
            self.read_some().await;
            tokio::task::yield_now().await;
        }
        self.has_unread_output = true;
    }

    /// Reads output after the backend's messages that precede the output.
    async fn read_on(&mut self) {
        while let Some(message) = self.backend.as_mut().and_then(PaneBackend::poll_message) {
            self.handle_message(message).await;
        }
        self.read_some().await;
    }

    async fn read_some(&mut self) {
        let mut attempts = 1;
        let turn = loop {
            match self.follower.read_turn() {
                Ok(turn) => break turn,
                Err(_) if attempts < READ_ATTEMPTS => attempts += 1,
                Err(error) => {
                    tracing::warn!(pane = %self.context.record.id, %error, "output log cannot be read");
                    self.has_unread_output = false;
                    return;
                }
            }
        };
        self.has_unread_output = turn.more;
        self.is_flooding = turn.full;
        if !turn.grew {
            return;
        }
        self.last_output = Instant::now();
        let redraw = match self.follower.terminal.modes().synchronized {
            true => RedrawState::Incomplete,
            false => RedrawState::Complete,
        };
        self.frames.on_output(redraw, self.last_output);
        let interest = match self.has_agent() {
            true => ProbeInterest::Followed,
            false => self.viewer_interest(),
        };
        self.probing.on_output(interest, self.last_output);
        if self.has_agent() {
            self.idle.plan_look(self.last_output);
        }
        self.update_idle(AgentIdle::on_output);
        self.quiet.on_activity(self.last_activity());
        self.search_output().await;
        for event in turn.events {
            self.handle_terminal_event(event).await;
        }
        let offset = self.follower.terminal.offset().0;
        self.context.grow.send_replace(offset);
        let cap = self.context.daemon.settings().log_cap_bytes;
        if let Some(bytes) = self.log_growth.on_output(offset, cap) {
            self.context.emit(PaneEvent::LogGrew { bytes }).await;
        }
        if self.inputs.follows_screen() {
            let screen = self.input_screen();
            self.inputs.on_output(&screen, self.last_output);
            self.advance_inputs();
        } else if self.inputs.is_held() {
            self.advance_inputs();
        }
    }

    async fn handle_terminal_event(&mut self, event: TerminalEvent) {
        match event {
            TerminalEvent::Mark(mark) => {
                if self.first_prompt.on_mark(mark.kind) {
                    self.probing.clear();
                    let cursor = view::shown(mark.at);
                    self.context.emit(PaneEvent::Prompted { cursor }).await;
                }
                if mark.kind == ShellMarkKind::Output {
                    self.inputs.on_command_start();
                }
                self.step_mark(&mark).await;
            }
            TerminalEvent::Cwd(cwd) => self.context.emit(PaneEvent::Moved { cwd }).await,
            TerminalEvent::Reply { at, bytes } => self.reply(at.0, bytes),
            // Agents set a title or switch the screen when they start.
            TerminalEvent::Title(_) | TerminalEvent::Alternate(_) => {
                let after_quiet = self.last_output + AGENT_SEARCH_DELAY;
                self.probing.schedule_if_idle(Some(after_quiet));
            }
            TerminalEvent::Bell => {}
        }
    }

    /// Sends the terminal's reply to a program's query. Each query is answered once, also across daemons: the reply is keyed
    /// by the offset of its query.
    fn reply(&mut self, at: u64, bytes: Vec<u8>) {
        // tmux answers queries itself.
        if self.context.record.tmux.is_some() {
            return;
        }
        let Some(backend) = self
            .backend
            .as_mut()
            .filter(|backend| at > backend.answered_upto())
        else {
            return;
        };
        let mut key = [0; 16];
        key[..8].copy_from_slice(&at.to_le_bytes());
        key[8..].copy_from_slice(b"answered");
        let seq = backend.next_seq();
        self.send(&ToHolder::Input(InputMessage {
            seq,
            key,
            kind: InputKind::Answer { at },
            bytes,
        }));
    }

    fn next_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }
}

async fn event(backend: Option<&mut PaneBackend>) -> io::Result<BackendEvent> {
    match backend {
        Some(backend) => backend.next_event().await,
        None => std::future::pending().await,
    }
}
