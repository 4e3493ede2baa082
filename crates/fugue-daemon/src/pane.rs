//! One pane's own task: it alone sees the pane's bytes. It feeds the terminal, types, and tells the engine facts.

mod agent_idle;
mod answers;
mod backend;
mod draft;
mod expect;
mod frames;
mod holder;
mod input;
pub mod launch;
mod line;
mod log_size;
mod open;
mod pipeline;
mod quiet;
mod raw;
mod target;
mod tmux_hosted;
mod tmux_listener;
mod unreachable;

use std::{
    collections::HashMap,
    io,
    sync::Arc,
    time::{Duration, Instant},
};

use fugue_api::{
    Error, ErrorKind, EventId, PaneId, RunId,
    attach::ClientId,
    panes::{PaneSize, SourcedState},
    wire::OutputChunk,
};
use fugue_core::{
    AdoptMode, OutputRange, PaneEvent, PaneJob, PaneRecord, PaneRequest, StepPlan, TurnEnd,
    pane_machine::{
        AgentIdle, DraftTracker, ExpectWaiters, InjectionRequest, InputQueue, PaneTimer,
        QuietRequest, QuietWait, StepTracker, TypingSource,
    },
    result::PartText,
    view,
};
use fugue_holder::{
    spawn::ProcessExit,
    wire::{ChildExit, InputKind, InputMessage, ToDaemon, ToHolder},
};
use fugue_term::{ShellMarkKind, TerminalEvent};
use tokio::{
    sync::{mpsc, oneshot, watch},
    time::sleep_until,
};

use crate::{
    desk::Responder,
    engine::{DaemonContext, EngineEvent},
    reap,
    replay::Follower,
    shards::Task,
};
use answers::ProbeReason;
use backend::{BackendEvent, PaneBackend, PaneDir};
use expect::OlderSearch;
use frames::{FrameRequest, Viewing};
use open::Unstarted;
use unreachable::{Birth, Reconnection, attempted, first_attempt};

/// How the engine reaches a pane's task.
#[derive(Clone)]
pub struct PaneHandle {
    id: PaneId,
    pub commands: mpsc::Sender<PaneCommand>,
    /// Changes whenever there may be more to read.
    pub grown: watch::Receiver<u64>,
}

pub enum PaneCommand {
    Ask {
        question: PaneRequest,
        responder: Responder,
    },
    Brief(oneshot::Sender<PaneBrief>),
    /// What is different on the screen, for one who has a line.
    View {
        client: ClientId,
        asks: FrameRequest,
    },
    More {
        from: u64,
        answer: oneshot::Sender<Result<OutputChunk, Error>>,
    },
    Close {
        grace: Duration,
    },
    Watch(Box<fugue_core::ExpectRequest>),
    Unwatch(RunId),
    RunSteps(StepPlan),
    StopSteps(u64),
    AwaitRest(TurnEnd),
    TypeMessage {
        event: EventId,
        text: String,
    },
    AwaitQuiet(QuietRequest),
    ForgetQuiet(u64),
    Inject(InjectionRequest),
    Fit(PaneSize),
    AgentSays(Option<SourcedState>),
    /// Part of the text. `None` is the answer if the files must be asked.
    Stretch {
        want: OutputRange,
        most_chars: usize,
        answer: oneshot::Sender<Option<PartText>>,
    },
}

/// What a row of an overview needs.
pub struct PaneBrief {
    pub state: SourcedState,
    pub idle_ms: u64,
}

// What waits for a pane that is busy replaying its log; more than this and callers are told so.
const COMMANDS_IN_LINE: usize = 256;
// Output that has been quiet for so long is worth a look at who reads the terminal.
const QUIET: Duration = Duration::from_millis(100);

impl PaneHandle {
    pub fn id(&self) -> PaneId {
        self.id
    }

    /// For what must not be refused: it waits in front of a pane that is busy. A pane that has ended hears nothing.
    pub fn tell(&self, command: PaneCommand) {
        if let Err(mpsc::error::TrySendError::Full(command)) = self.commands.try_send(command) {
            let commands = self.commands.clone();
            tokio::spawn(async move { commands.send(command).await });
        }
    }

    /// Gives the command back where the pane cannot take it.
    pub fn try_tell(&self, command: PaneCommand) -> Result<(), PaneCommand> {
        self.commands
            .try_send(command)
            .map_err(|error| match error {
                mpsc::error::TrySendError::Full(command)
                | mpsc::error::TrySendError::Closed(command) => command,
            })
    }
}

/// A task that makes a new pane.
pub fn open(
    record: PaneRecord,
    start: launch::PaneLaunch,
    house: Arc<DaemonContext>,
    says: mpsc::Sender<EngineEvent>,
) -> (PaneHandle, Task) {
    task(record, house, says, move |desk| async move {
        let steps = match &start.job {
            PaneJob::Steps(plan) | PaneJob::ShellWithSteps(plan) => Some(plan.clone()),
            PaneJob::Shell | PaneJob::Command(_) | PaneJob::Program(_) => None,
        };
        match Pane::start(desk, start).await {
            Ok(pane) => pane.live().await,
            Err(Unstarted::Failed(seat, error)) => seat.say(PaneEvent::OpenFailed(error)).await,
            Err(Unstarted::Unsure(seat, error)) => {
                if let Some(pane) = unreachable::adopt(seat, steps, Birth::Failed(error)).await {
                    pane.live().await;
                }
            }
        }
    })
}

/// A task that finds a pane of an earlier daemon.
pub fn adopt(
    record: PaneRecord,
    steps: Option<StepPlan>,
    how: AdoptMode,
    house: Arc<DaemonContext>,
    says: mpsc::Sender<EngineEvent>,
) -> (PaneHandle, Task) {
    task(record, house, says, |seat| async move {
        match how {
            AdoptMode::Terminal => {
                if let Some(pane) = unreachable::adopt(seat, steps, Birth::Interrupted).await {
                    pane.live().await;
                }
            }
            AdoptMode::RawOutput { panic } => raw::serve(seat, panic).await,
        }
    })
}

fn task<F: Future<Output = ()> + 'static>(
    record: PaneRecord,
    house: Arc<DaemonContext>,
    says: mpsc::Sender<EngineEvent>,
    run: impl FnOnce(PaneContext) -> F + Send + 'static,
) -> (PaneHandle, Task) {
    let (commands, orders) = mpsc::channel(COMMANDS_IN_LINE);
    let (grow, grown) = watch::channel(0);
    let handle = PaneHandle {
        id: record.id,
        commands,
        grown,
    };
    let seat = PaneContext {
        record,
        house,
        says,
        commands: handle.commands.downgrade(),
        orders,
        grow,
    };
    (handle, Box::new(move || Box::pin(run(seat))))
}

/// What a pane's task has from the start, whether or not it finds a pane.
struct PaneContext {
    record: PaneRecord,
    house: Arc<DaemonContext>,
    says: mpsc::Sender<EngineEvent>,
    /// How others reach us, for those whom we let in ourselves.
    commands: mpsc::WeakSender<PaneCommand>,
    orders: mpsc::Receiver<PaneCommand>,
    grow: watch::Sender<u64>,
}

impl PaneContext {
    async fn say(&self, fact: PaneEvent) {
        // The engine outlives every pane but at the daemon's own end.
        let _ = self
            .says
            .send(EngineEvent::Pane(self.record.id, fact))
            .await;
    }

    fn place(&self) -> PaneDir {
        let dir = self.house.paths.panes().join(self.record.id.to_string());
        PaneDir {
            pane: self.record.id,
            dir,
            epoch: self.house.epoch,
            generation: self.record.generation,
        }
    }
}

struct Pane {
    seat: PaneContext,
    follower: Follower,
    /// `None` while it cannot be reached, and once the pane has ended.
    keeper: Option<PaneBackend>,
    /// The attempts to reach a backend whose connection is lost.
    reconnection: Option<Reconnection>,
    /// When the backend must have answered the oldest probe.
    probe_deadline: Option<Instant>,
    /// The backend is connected and has not answered in time.
    silent_since: Option<Instant>,
    /// When the backend must have closed the pane.
    close_deadline: Option<Instant>,
    /// Questions that wait for a look at the terminal's foreground.
    probes: HashMap<u64, ProbeReason>,
    resizes: HashMap<u64, (PaneSize, Option<Responder>)>,
    inputs: InputQueue<Responder>,
    /// A person's keys that the holder has not answered for.
    keys: HashMap<u64, Responder>,
    viewing: Viewing,
    expects: ExpectWaiters,
    searched_in: mpsc::UnboundedSender<OlderSearch>,
    /// Bounded by the expects, each of which searches older output once.
    searched_out: mpsc::UnboundedReceiver<OlderSearch>,
    /// The pipeline whose steps the pane's shell has.
    steps: Option<StepTracker>,
    idle: AgentIdle,
    quiet: QuietWait,
    draft: DraftTracker,
    next_id: u64,
    last_output: Instant,
    /// When to look, if nothing is printed until then.
    look_at: Option<Instant>,
    prompted: bool,
    stalled: Option<i32>,
    /// The process has ended; its end is not recorded yet, because its output waits for room on the disk.
    exit_pending: Option<ChildExit>,
    exited: Option<(ProcessExit, u64)>,
    /// The process left no other behind.
    alone: bool,
    swept: bool,
    more_to_read: bool,
    /// There was more to read than was read at once.
    floods: bool,
    /// Size of the log that the engine was told last.
    told_log_bytes: u64,
}

impl Pane {
    fn new(seat: PaneContext, follower: Follower, keeper: Option<PaneBackend>) -> Self {
        let (searched_in, searched_out) = mpsc::unbounded_channel();
        Self {
            seat,
            follower,
            keeper,
            reconnection: None,
            probe_deadline: None,
            silent_since: None,
            close_deadline: None,
            probes: HashMap::new(),
            resizes: HashMap::new(),
            inputs: InputQueue::default(),
            keys: HashMap::new(),
            viewing: Viewing::default(),
            expects: ExpectWaiters::default(),
            searched_in,
            searched_out,
            steps: None,
            idle: AgentIdle::default(),
            quiet: QuietWait::default(),
            draft: DraftTracker::default(),
            next_id: 1,
            last_output: Instant::now(),
            look_at: None,
            prompted: false,
            stalled: None,
            exit_pending: None,
            exited: None,
            alone: false,
            swept: false,
            more_to_read: true,
            floods: false,
            told_log_bytes: 0,
        }
    }

    /// Until the pane has ended and nobody asks about it any more.
    async fn live(mut self) {
        loop {
            if self.is_over() {
                self.over().await;
            }
            self.report_inputs().await;
            self.show();
            if let Some(adoption) = first_attempt(self.reconnection.as_mut()).await {
                self.reconnected(adoption).await;
                continue;
            }
            let deadlines = PaneTimer::ALL
                .into_iter()
                .filter_map(|timer| self.deadline(timer));
            let deadline = deadlines.min();
            tokio::select! {
                order = self.seat.orders.recv() => match order {
                    Some(order) => self.order(order).await,
                    // Nobody can ask any more: the pane has ended, or the daemon does. A holder that lives stays.
                    None => return,
                },
                event = event(self.keeper.as_mut()) => match event {
                    Ok(BackendEvent::Grew) => self.read_on().await,
                    Ok(BackendEvent::Word(word)) => self.hear(word).await,
                    Err(error) => self.lost(error.to_string()),
                },
                adoption = attempted(self.reconnection.as_mut()) => self.reconnected(adoption).await,
                Some(searched) = self.searched_out.recv() => self.resume_expect(searched).await,
                // A question that a program asks of its terminal is answered by the holder, so output waits for it.
                () = tokio::task::yield_now(), if self.more_to_read && self.reconnection.is_none() => self.read_on().await,
                () = sleep_until(deadline.unwrap_or_else(Instant::now).into()), if deadline.is_some() => self.fire_timers().await,
            }
        }
    }

    async fn hear(&mut self, word: ToDaemon) {
        self.silent_since = None;
        match word {
            // What tmux shows of it is still to be removed.
            ToDaemon::Alone => self.alone = self.seat.record.tmux.is_none(),
            ToDaemon::Keyed { bytes } => self.keyed(&bytes),
            ToDaemon::Resized { rows, cols } => self.resized_in_tmux(PaneSize { rows, cols }).await,
            ToDaemon::ExitPending(exited) => self.exit_is_pending(exited),
            ToDaemon::Exited(exited) => {
                self.exited = Some((exited.ending, exited.at));
                self.more_to_read = true;
            }
            ToDaemon::InputState(input) => self.input_acknowledged(&input),
            ToDaemon::Probed { id, probe } => self.probed(id, &probe).await,
            ToDaemon::Closed { left, .. } => {
                if left > 0 {
                    tracing::warn!(pane = %self.seat.record.id, left, "processes of a pane could not be ended");
                }
                self.swept = true;
                self.close_deadline = None;
            }
            ToDaemon::Stalled { errno } => self.stalled = Some(errno),
            ToDaemon::Flowing => self.stalled = None,
            ToDaemon::Done { id } => self.resized(id).await,
            ToDaemon::Failed { id, errno, what } => {
                if let Some((_, Some(responder))) = self.resizes.remove(&id) {
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

    fn tell(&mut self, message: &ToHolder) {
        self.tell_as(TypingSource::Program, message);
    }

    fn tell_as(&mut self, source: TypingSource, message: &ToHolder) {
        if let ToHolder::Input(InputMessage {
            kind: InputKind::Typed,
            bytes,
            ..
        }) = message
        {
            self.follower.terminal.typed(bytes);
            self.record_typing(source, bytes);
        }
        if let Some(keeper) = self.keeper.as_mut()
            && let Err(error) = keeper.send(message)
        {
            // The same connection's reading side finds out as well, and recovers.
            tracing::debug!(pane = %self.seat.record.id, %error, "a word did not reach the holder");
        }
    }

    /// Reads back what there is up to an offset. A pane that prints without end is caught up with while it lives;
    /// nobody waits for that.
    async fn read_back(&mut self, until: u64) {
        self.more_to_read = true;
        while self.more_to_read && self.follower.terminal.offset().0 < until {
            self.read_some().await;
            tokio::task::yield_now().await;
        }
        self.more_to_read = true;
    }

    /// After everything that was told before it was printed.
    async fn read_on(&mut self) {
        while let Some(word) = self.keeper.as_mut().and_then(PaneBackend::word) {
            self.hear(word).await;
        }
        self.read_some().await;
    }

    async fn read_some(&mut self) {
        let turn = match self.follower.turn() {
            Ok(turn) => turn,
            Err(error) => {
                tracing::warn!(pane = %self.seat.record.id, %error, "the log cannot be read");
                self.more_to_read = false;
                return;
            }
        };
        self.more_to_read = turn.more;
        self.floods = turn.full;
        if !turn.grew {
            return;
        }
        self.last_output = Instant::now();
        self.viewing
            .printed(&self.follower.terminal, self.last_output);
        let looked_at = self.seat.record.agent.is_some() || self.viewing.is_watched();
        if self.look_at.is_some() || looked_at {
            self.look_at = Some(self.last_output + QUIET);
        }
        self.update_idle(AgentIdle::on_output);
        self.quiet.on_activity(self.last_activity());
        self.search_output().await;
        for fact in turn.facts {
            self.fact(fact).await;
        }
        let offset = self.follower.terminal.offset().0;
        self.seat.grow.send_replace(offset);
        self.tell_log_size(offset).await;
        if self.inputs.follows_screen() {
            let screen = self.input_screen();
            self.inputs.on_output(&screen, self.last_output);
            self.advance_inputs();
        } else if self.inputs.is_held() {
            self.advance_inputs();
        }
    }

    async fn fact(&mut self, fact: TerminalEvent) {
        match fact {
            TerminalEvent::Mark(mark) => {
                match mark.kind {
                    ShellMarkKind::Input if !self.prompted => {
                        self.prompted = true;
                        self.look_at = None;
                        let cursor = view::shown(mark.at);
                        self.seat.say(PaneEvent::Prompted { cursor }).await;
                    }
                    ShellMarkKind::Output => self.inputs.on_command_start(),
                    ShellMarkKind::Prompt | ShellMarkKind::Input | ShellMarkKind::Done { .. } => {}
                }
                self.step_mark(&mark).await;
            }
            TerminalEvent::Cwd(cwd) => self.seat.say(PaneEvent::Moved { cwd }).await,
            TerminalEvent::Reply { at, bytes } => self.reply(at.0, bytes),
            TerminalEvent::Title(_) | TerminalEvent::Bell | TerminalEvent::Alternate(_) => {}
        }
    }

    /// What a terminal says when it is asked. Asked once, answered once, whichever daemon hears it.
    fn reply(&mut self, at: u64, bytes: Vec<u8>) {
        // tmux answers for itself.
        if self.seat.record.tmux.is_some() {
            return;
        }
        let Some(keeper) = self
            .keeper
            .as_mut()
            .filter(|keeper| at > keeper.answered_upto())
        else {
            return;
        };
        let mut key = [0; 16];
        key[..8].copy_from_slice(&at.to_le_bytes());
        key[8..].copy_from_slice(b"answered");
        let seq = keeper.next_seq();
        self.tell(&ToHolder::Input(InputMessage {
            seq,
            key,
            kind: InputKind::Answer { at },
            bytes,
        }));
    }

    fn deadline(&self, timer: PaneTimer) -> Option<Instant> {
        match timer {
            PaneTimer::Probe => self.look_at,
            PaneTimer::Input => self.inputs.deadline(),
            PaneTimer::Expect => self.expects.deadline(),
            PaneTimer::Pipeline => self.steps.as_ref().and_then(StepTracker::deadline),
            PaneTimer::AgentIdle => self.idle.deadline(),
            PaneTimer::Quiet => self.quiet.deadline(),
            PaneTimer::Frame => self.viewing.deadline(),
            PaneTimer::ProbeTimeout => self.probe_deadline,
            PaneTimer::CloseTimeout => self.close_deadline,
        }
    }

    /// Handles every timer that is due.
    async fn fire_timers(&mut self) {
        let now = Instant::now();
        for timer in PaneTimer::ALL {
            if self.deadline(timer).is_some_and(|at| at <= now) {
                self.fire(timer, now).await;
            }
        }
    }

    async fn fire(&mut self, timer: PaneTimer, now: Instant) {
        match timer {
            PaneTimer::Probe => {
                self.look_at = None;
                self.probe(ProbeReason::Quiet);
            }
            PaneTimer::Input => {
                let screen = self.input_screen();
                self.inputs.on_timer(&screen, now);
                self.advance_inputs();
            }
            PaneTimer::Expect => self.expect_timer(now).await,
            PaneTimer::Pipeline => self.pipeline_timer(now).await,
            PaneTimer::AgentIdle => self.check_idle().await,
            PaneTimer::Quiet => {
                self.quiet.on_timer();
                self.probe(ProbeReason::Watcher);
            }
            // Frames are made in every turn of the loop.
            PaneTimer::Frame => {}
            PaneTimer::ProbeTimeout => self.holder_is_silent(),
            PaneTimer::CloseTimeout => self.close_unreachable(Duration::ZERO),
        }
    }

    /// All that will ever come is read, and where somebody asked for the end, no process is left.
    fn is_over(&self) -> bool {
        let Some((_, at)) = self.exited else {
            return false;
        };
        let read = self.follower.terminal.offset().0 >= at || !self.more_to_read;
        let closing_goes_on = self.seat.record.closing
            && !self.swept
            && (self.keeper.is_some() || self.reconnection.is_some());
        !self.is_told() && read && !closing_goes_on
    }

    /// The end has been told, so all output has been read.
    fn is_told(&self) -> bool {
        self.seat.record.ended.is_some()
    }

    async fn over(&mut self) {
        let Some((ending, at)) = self.exited else {
            return;
        };
        let lost = at.saturating_sub(self.follower.terminal.offset().0);
        if lost > 0 {
            tracing::warn!(pane = %self.seat.record.id, bytes = lost, "output could not be written and is lost");
            self.seat.say(PaneEvent::OutputLost { bytes: lost }).await;
        }
        let keeper = self.keeper.take();
        (self.probe_deadline, self.close_deadline) = (None, None);
        self.look_at = None;
        let exit = launch::exit(ending);
        let cursor = self.cursor();
        let title = self.follower.terminal.title().to_owned();
        // A note to ourselves that the end was told; core writes the real one.
        self.seat.record.ended = Some(fugue_core::PaneEnd {
            exit: exit.clone(),
            at: self.seat.record.created_at.into(),
            closed: false,
            cursor: cursor.clone(),
            title: title.clone(),
        });
        for asked in std::mem::take(&mut self.probes).into_values() {
            self.answer_without_probe(asked);
        }
        let resizes = std::mem::take(&mut self.resizes).into_values();
        for responder in resizes.filter_map(|(_, responder)| responder) {
            responder.answer(Err(Error::new(
                ErrorKind::Ended,
                "the pane ended meanwhile",
            )));
        }
        self.end_inputs();
        self.end_expects().await;
        self.report_steps().await;
        let alone = self.alone;
        self.seat
            .say(PaneEvent::Ended {
                exit,
                cursor,
                title,
                alone,
                sweeps: self.seat.record.closing,
            })
            .await;
        self.seat.grow.send_modify(|offset| *offset += 1);
        if let Some(keeper) = keeper {
            keeper.leave().await;
        }
        if self.seat.record.closing {
            let (pane, dir, swept) = (self.seat.record.id, self.seat.place().dir, self.swept);
            let sweeps = move || {
                if swept {
                    reap::view(&dir);
                } else {
                    reap::pane(pane, &dir, Duration::ZERO);
                }
            };
            if !swept || self.seat.record.tmux.is_some() {
                let _ = tokio::task::spawn_blocking(sweeps).await;
            }
            self.seat.say(PaneEvent::Swept).await;
        }
    }

    fn next_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }
}

async fn event(keeper: Option<&mut PaneBackend>) -> io::Result<BackendEvent> {
    match keeper {
        Some(keeper) => keeper.event().await,
        None => std::future::pending().await,
    }
}
