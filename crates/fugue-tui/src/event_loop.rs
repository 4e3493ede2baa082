//! The event loop: passes terminal input and responses to the model, performs the model's effects, and draws the damage.

use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use fugue_api::{Error, PaneId, attach::AttachRequest, wire::Request};
use fugue_client::client::{self, Client};
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::mpsc,
    task::AbortHandle,
    time::{Instant, MissedTickBehavior, interval, sleep_until},
};

use super::{
    buffer::CellBuffer,
    diff::{diff, diff_rows},
    draw::{draw, redraw},
    host_terminal::HostTerminal,
    input::{InputEvent, InputParser},
    model::{
        AttachModel, DaemonLoss, LeaveReason, ModelEffect, ModelInput, RequestTicket, ScreenDamage,
    },
    pane_connections::PaneConnections,
    style::ColorDepth,
};

/// At most about sixty screens a second are drawn; the first screen after a pause is drawn at once.
const DRAW_INTERVAL: Duration = Duration::from_millis(16);
/// How long after a key every change is drawn at once, because the person waits for the echo.
const ECHO_TIMEOUT: Duration = Duration::from_millis(100);
/// How long an incomplete escape sequence waits for the rest before it counts as keys of its own. Terminals send a sequence in
/// one piece, but a slow connection may split it. Kitty's keyboard protocol, where available, has no such ambiguity.
const ESCAPE_TIMEOUT: Duration = Duration::from_millis(30);
/// Ages are shown in seconds.
const AGE_INTERVAL: Duration = Duration::from_secs(1);
/// How often the client tries to reconnect: after `daemon stop` no event announces the next daemon.
const RECONNECT_INTERVAL: Duration = Duration::from_millis(300);

/// Why the loop ended.
pub enum LoopEnd {
    Left(LeaveReason),
    /// The host terminal was closed, or a signal ended the client.
    Hangup,
}

pub struct AttachLoop {
    client: Client,
    model: AttachModel,
    host: HostTerminal,
    depth: ColorDepth,
    parser: InputParser,
    /// When the parser's pending bytes count as complete.
    flush_at: Option<Instant>,
    request_tasks: BTreeMap<RequestTicket, AbortHandle>,
    pane_connections: PaneConnections,
    /// Set by a request that changes pane sizes (attach, resize, layout). Input then goes through the engine, which keeps the
    /// order, until the last input sent that way is answered. So the first key after such a request always takes the
    /// engine, however late.
    engine_route: Option<EngineRoute>,
    /// Responses and connection events. Every open request sends at most one; while the channel is full, their tasks wait.
    model_inputs: mpsc::Sender<ModelInput>,
    inputs: mpsc::Receiver<ModelInput>,
    reconnecting: Option<AbortHandle>,
    /// The screen that was drawn last; `None`: unknown.
    screen: Option<CellBuffer>,
    damage: ScreenDamage,
    last_draw_at: Option<Instant>,
    last_key_at: Option<Instant>,
    ages_at: Instant,
}

impl AttachLoop {
    pub fn new(client: Client, model: AttachModel, host: HostTerminal) -> Self {
        let (model_inputs, inputs) = mpsc::channel(256);
        Self {
            client,
            model,
            host,
            depth: ColorDepth::from_env(|name| std::env::var(name).ok()),
            parser: InputParser::default(),
            flush_at: None,
            request_tasks: BTreeMap::new(),
            pane_connections: PaneConnections::default(),
            engine_route: None,
            model_inputs,
            inputs,
            reconnecting: None,
            screen: None,
            damage: ScreenDamage::All,
            last_draw_at: None,
            last_key_at: None,
            ages_at: Instant::now() + AGE_INTERVAL,
        }
    }

    pub async fn run(mut self, first: Vec<ModelEffect>) -> Result<LoopEnd, Error> {
        let mut signals = SignalStreams::new()?.signals();
        let mut ended = self.perform(first);
        while ended.is_none() {
            self.draw();
            ended = self.handle_next(&mut signals).await;
        }
        self.host.leave();
        Ok(ended.unwrap_or(LoopEnd::Hangup))
    }

    /// Waits for and handles the next event.
    async fn handle_next(&mut self, signals: &mut mpsc::Receiver<SignalEvent>) -> Option<LoopEnd> {
        let deadline = self.deadline();
        let behind = self.host.has_unwritten();
        let far = Instant::now() + Duration::from_secs(3600);
        let event = tokio::select! {
            written = self.host.flush(), if behind => LoopEvent::Written(written),
            bytes = self.host.read() => LoopEvent::Bytes(bytes),
            input = self.inputs.recv() => LoopEvent::Model(input),
            signal_event = signals.recv() => LoopEvent::Signal(signal_event.unwrap_or(SignalEvent::Terminate)),
            () = sleep_until(deadline.unwrap_or(far)) => LoopEvent::Timer,
        };
        match event {
            LoopEvent::Bytes(Ok(bytes)) if !bytes.is_empty() => {
                self.last_key_at = Some(Instant::now());
                // A resize that happened before the key is applied first, even if SIGWINCH has not been delivered.
                let size = self.host.size();
                if size != self.model.size
                    && let Some(ended) = self.step(ModelInput::Resized(size))
                {
                    return Some(ended);
                }
                let events = self.parser.feed(&bytes);
                self.flush_at = self
                    .parser
                    .has_pending()
                    .then(|| Instant::now() + ESCAPE_TIMEOUT);
                self.handle_events(events)
            }
            LoopEvent::Bytes(_)
            | LoopEvent::Signal(SignalEvent::Terminate)
            | LoopEvent::Written(Err(_)) => Some(LoopEnd::Hangup),
            LoopEvent::Written(Ok(length)) => {
                self.host.discard_written(length);
                None
            }
            LoopEvent::Model(input) => {
                let mut ended = input.and_then(|input| self.step(input));
                // All inputs that are ready go into the same screen.
                while ended.is_none()
                    && let Ok(input) = self.inputs.try_recv()
                {
                    ended = self.step(input);
                }
                ended
            }
            LoopEvent::Signal(SignalEvent::Size) => {
                let size = self.host.size();
                self.step(ModelInput::Resized(size))
            }
            LoopEvent::Signal(SignalEvent::Continued) => {
                self.host.reenter();
                self.screen = None;
                self.step(ModelInput::Resized(self.host.size()))
            }
            LoopEvent::Timer => self.handle_timers(),
        }
    }

    fn deadline(&self) -> Option<Instant> {
        let model = self.model.next_deadline().map(Instant::from_std);
        let ages = self.model.shows_ages().then_some(self.ages_at);
        let picture = self
            .next_draw_at()
            .filter(|_| self.damage != ScreenDamage::None && !self.host.has_unwritten());
        [model, ages, picture, self.flush_at]
            .into_iter()
            .flatten()
            .min()
    }

    /// The earliest time of the next draw; `None`: now.
    fn next_draw_at(&self) -> Option<Instant> {
        let drawn = self.last_draw_at?;
        let awaited = self.last_key_at.is_some_and(|at| drawn < at + ECHO_TIMEOUT);
        (!awaited).then(|| drawn + DRAW_INTERVAL)
    }

    fn handle_timers(&mut self) -> Option<LoopEnd> {
        let now = Instant::now();
        if now >= self.ages_at {
            self.ages_at = now + AGE_INTERVAL;
            self.damage = ScreenDamage::All;
        }
        if self.flush_at.is_some_and(|at| at <= now) {
            self.flush_at = None;
            let events = self.parser.flush_pending();
            if let Some(ended) = self.handle_events(events) {
                return Some(ended);
            }
        }
        let due = self.model.next_deadline();
        if due.is_some_and(|at| Instant::from_std(at) <= now) {
            return self.step(ModelInput::Tick);
        }
        None
    }

    fn handle_events(&mut self, events: Vec<InputEvent>) -> Option<LoopEnd> {
        for one in events {
            match one {
                InputEvent::KittySupported => self.host.enable_kitty(),
                InputEvent::DeviceAttributes => {}
                other => {
                    if let Some(ended) = self.step(ModelInput::Terminal(other)) {
                        return Some(ended);
                    }
                }
            }
        }
        None
    }

    fn step(&mut self, input: ModelInput) -> Option<LoopEnd> {
        match &input {
            ModelInput::Disconnected(loss) => {
                self.pane_connections = PaneConnections::default();
                self.reconnect(*loss);
            }
            ModelInput::Reconnected => self.reconnecting = None,
            ModelInput::Response(ticket, _) => {
                self.request_tasks.remove(ticket);
                if self
                    .engine_route
                    .as_ref()
                    .is_some_and(|route| route.last_input == Some(*ticket))
                {
                    self.engine_route = None;
                }
            }
            ModelInput::Terminal(_) | ModelInput::Resized(_) | ModelInput::Tick => {}
        }
        let effects = self.model.step(input, Instant::now().into_std());
        self.damage = std::mem::take(&mut self.damage).merge(self.model.take_damage());
        self.perform(effects)
    }

    fn perform(&mut self, effects: Vec<ModelEffect>) -> Option<LoopEnd> {
        for effect in effects {
            match effect {
                ModelEffect::Request {
                    ticket,
                    key,
                    request,
                } => {
                    if changes_sizes(&request) {
                        self.engine_route = Some(EngineRoute { last_input: None });
                    }
                    let (client, model_inputs) = (self.client.clone(), self.model_inputs.clone());
                    let line = match &mut self.engine_route {
                        Some(route) if is_typing(&request) => {
                            route.last_input = Some(ticket);
                            None
                        }
                        _ => {
                            let role = self.model.role;
                            self.pane_connections.route(&request, role, &self.client)
                        }
                    };
                    let asking = tokio::spawn(async move {
                        let direct = match line {
                            Some(line) => line.ask_as(key, request.clone()).await,
                            None => None,
                        };
                        let answered = match direct {
                            Some(answered) => answered.map(Some),
                            None => client.ask_running_with_key(key, request).await,
                        };
                        let input = match answered {
                            Ok(Some(answer)) => ModelInput::Response(ticket, Ok(answer)),
                            // The next daemon may be of another version, which no waiting changes.
                            Ok(None) => match client.other_protocol().await {
                                Some(error) => ModelInput::Response(ticket, Err(error)),
                                None => ModelInput::Disconnected(DaemonLoss::Died),
                            },
                            Err(error) if error.message == client::DAEMON_STOPPED => {
                                ModelInput::Disconnected(DaemonLoss::Stopped)
                            }
                            Err(error) => ModelInput::Response(ticket, Err(error)),
                        };
                        let _ = model_inputs.send(input).await;
                    });
                    // A repeated request replaces the first task.
                    if let Some(before) = self.request_tasks.insert(ticket, asking.abort_handle()) {
                        before.abort();
                    }
                }
                ModelEffect::CancelRequest(ticket) => {
                    if let Some(asking) = self.request_tasks.remove(&ticket) {
                        asking.abort();
                    }
                }
                ModelEffect::Copy(text) => self.host.copy(&text),
                ModelEffect::Repaint => self.screen = None,
                ModelEffect::StartDaemon => {
                    if let Some(waiting) = self.reconnecting.take() {
                        waiting.abort();
                    }
                    self.reconnect(DaemonLoss::Died);
                }
                ModelEffect::Leave(leave) => return Some(LoopEnd::Left(leave)),
            }
        }
        self.pane_connections
            .retain(|pane| self.model.views.contains_key(&pane));
        None
    }

    /// Connects to the next daemon in the background: started after a crash, awaited after a stop.
    fn reconnect(&mut self, loss: DaemonLoss) {
        if self.reconnecting.is_some() {
            return;
        }
        let (client, model_inputs) = (self.client.clone(), self.model_inputs.clone());
        let finding = tokio::spawn(async move {
            match loss {
                DaemonLoss::Died => {
                    let mut again = reconnect_interval();
                    // Starting may fail for lack of memory or disk and succeed later, so attempts have no limit.
                    while client.ask(Request::DaemonStatus).await.is_err()
                        && client.other_protocol().await.is_none()
                    {
                        again.tick().await;
                    }
                }
                DaemonLoss::Stopped => {
                    let mut again = reconnect_interval();
                    while !matches!(client.ask_running(Request::DaemonStatus).await, Ok(Some(_)))
                        && client.other_protocol().await.is_none()
                    {
                        again.tick().await;
                    }
                }
            }
            let _ = model_inputs.send(ModelInput::Reconnected).await;
        });
        self.reconnecting = Some(finding.abort_handle());
    }

    fn draw(&mut self) {
        let fresh = self.damage == ScreenDamage::None && self.screen.is_some();
        if fresh || self.host.has_unwritten() {
            return;
        }
        let now = Instant::now();
        if self.next_draw_at().is_some_and(|at| now < at) {
            return;
        }
        let bytes = match std::mem::take(&mut self.damage) {
            ScreenDamage::Rows(rows) => self.redraw(&rows).unwrap_or_else(|| self.draw_all()),
            ScreenDamage::None | ScreenDamage::All => self.draw_all(),
        };
        if !bytes.is_empty() {
            self.host.write(&bytes);
            self.last_draw_at = Some(now);
        }
    }

    /// Draws only the damaged rows. `None`: the whole screen has to be drawn.
    fn redraw(&mut self, rows: &[(PaneId, u16)]) -> Option<Vec<u8>> {
        let shown = self.screen.as_mut()?;
        let caret = shown.caret;
        let were = redraw(&self.model, rows, shown)?;
        Some(diff_rows(&were, caret, shown, self.depth))
    }

    fn draw_all(&mut self) -> Vec<u8> {
        self.host.set_keyboard(self.model.keyboard());
        self.host.set_motion(self.model.wants_motion());
        let wall = SystemTime::now().duration_since(UNIX_EPOCH);
        let wall = wall.map_or(0, |since| since.as_millis() as u64);
        let picture = draw(&self.model, self.depth, wall);
        let bytes = diff(self.screen.as_ref(), &picture, self.depth);
        self.screen = Some(picture);
        bytes
    }
}

/// The route through the engine. Input takes the same route as changes of sizes, so that input cannot overtake a change.
struct EngineRoute {
    /// The last input request that was sent through the engine.
    last_input: Option<RequestTicket>,
}

fn changes_sizes(request: &Request) -> bool {
    match request {
        Request::Attach { request } => match request {
            AttachRequest::JoinSession { .. }
            | AttachRequest::SetSize { .. }
            | AttachRequest::ChangeLayout { .. } => true,
            AttachRequest::GetLayout { .. }
            | AttachRequest::GetFrame { .. }
            | AttachRequest::StreamFrames { .. }
            | AttachRequest::ConnectPane { .. }
            | AttachRequest::ReadLines { .. }
            | AttachRequest::Type { .. }
            | AttachRequest::WatchOverview { .. } => false,
        },
        Request::Tool { .. }
        | Request::Overview
        | Request::Questions { .. }
        | Request::Worktrees { .. }
        | Request::Settings
        | Request::ReloadSettings
        | Request::TmuxPanes
        | Request::Follow { .. }
        | Request::RunProgress { .. }
        | Request::AckEvent { .. }
        | Request::Inbox { .. }
        | Request::Hook { .. }
        | Request::Resize { .. }
        | Request::CollectGarbage { .. }
        | Request::DaemonStatus
        | Request::DaemonStop { .. } => false,
    }
}

fn is_typing(request: &Request) -> bool {
    matches!(
        request,
        Request::Attach {
            request: AttachRequest::Type { .. }
        }
    )
}

fn reconnect_interval() -> tokio::time::Interval {
    let mut interval = interval(RECONNECT_INTERVAL);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}

#[expect(clippy::large_enum_variant, reason = "most events are responses")]
enum LoopEvent {
    Bytes(std::io::Result<Vec<u8>>),
    Written(std::io::Result<usize>),
    Model(Option<ModelInput>),
    Signal(SignalEvent),
    Timer,
}

enum SignalEvent {
    Size,
    Continued,
    Terminate,
}

struct SignalStreams {
    size: Signal,
    continued: Signal,
    hangup: Signal,
    terminate: Signal,
    interrupt: Signal,
    quit: Signal,
}

impl SignalStreams {
    fn new() -> Result<Self, Error> {
        let on = |kind: SignalKind| {
            signal(kind).map_err(|error| Error::internal(format!("signals: {error}")))
        };
        Ok(Self {
            size: on(SignalKind::window_change())?,
            continued: on(SignalKind::from_raw(rustix::process::Signal::CONT.as_raw()))?,
            hangup: on(SignalKind::hangup())?,
            terminate: on(SignalKind::terminate())?,
            interrupt: on(SignalKind::interrupt())?,
            quit: on(SignalKind::quit())?,
        })
    }

    /// Forwards the signals from a task of their own: polling six streams for every event costs more than handling a key.
    fn signals(mut self) -> mpsc::Receiver<SignalEvent> {
        let (call, signals) = mpsc::channel(8);
        tokio::spawn(async move {
            loop {
                let signal_event = self.next().await;
                if call.send(signal_event).await.is_err() {
                    return;
                }
            }
        });
        signals
    }

    async fn next(&mut self) -> SignalEvent {
        tokio::select! {
            _ = self.size.recv() => SignalEvent::Size,
            _ = self.continued.recv() => SignalEvent::Continued,
            _ = self.hangup.recv() => SignalEvent::Terminate,
            _ = self.terminate.recv() => SignalEvent::Terminate,
            _ = self.interrupt.recv() => SignalEvent::Terminate,
            _ = self.quit.recv() => SignalEvent::Terminate,
        }
    }
}
