//! The loop: what is heard goes to the model, what the model wants is done, and what has changed is drawn.

use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use fugue_api::{Error, ErrorKind, PaneId, attach::AttachRequest, wire::Request};
use fugue_client::client::{self, Client};
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::mpsc,
    task::AbortHandle,
    time::{Instant, MissedTickBehavior, interval, sleep_until},
};

use super::{
    canvas::Canvas,
    draw::{draw, redraw},
    input::{Heard, Input as Parser},
    lines::Lines,
    looks::Depth,
    model::{Effect, Gone, Input, Leave, Model, Stale, Ticket},
    paint::{paint, repaint},
    terminal::Outer,
};

// Sixty pictures a second are enough for any eye; the first one after a pause comes at once.
const PICTURE: Duration = Duration::from_millis(16);
// Somebody who types waits for what comes of it: for so long behind a key, pictures are drawn as they come.
const ECHO: Duration = Duration::from_millis(100);
// A terminal sends a key's sequence in one piece; what comes later than this behind an escape is another key. Over a slow
// line a sequence may be torn, and kitty's protocol, where the terminal has it, knows no such question.
const ESCAPE: Duration = Duration::from_millis(30);
// Ages are told in seconds.
const AGES: Duration = Duration::from_secs(1);
// After `daemon stop` there is nothing that would tell us of the next daemon.
const LOOK_FOR_DAEMON: Duration = Duration::from_millis(300);

/// Why the loop ended.
pub enum Ended {
    Left(Leave),
    /// The terminal is gone, or a signal ended us.
    Hangup,
}

pub struct Loop {
    client: Client,
    model: Model,
    outer: Outer,
    depth: Depth,
    parser: Parser,
    /// When what is undecided is a key by itself.
    settle_at: Option<Instant>,
    open: BTreeMap<Ticket, AbortHandle>,
    lines: Lines,
    /// Sizes are being changed, and keys must not overtake that: they go the long way until one of them has arrived.
    long_way: Option<LongWay>,
    // Every open question has at most one answer in it; a full one makes the answers wait.
    tell: mpsc::Sender<Input>,
    told: mpsc::Receiver<Input>,
    reconnecting: Option<AbortHandle>,
    shown: Option<Canvas>,
    stale: Stale,
    drawn_at: Option<Instant>,
    keyed_at: Option<Instant>,
    ages_at: Instant,
}

impl Loop {
    pub fn new(client: Client, model: Model, outer: Outer) -> Self {
        let (tell, told) = mpsc::channel(256);
        Self {
            client,
            model,
            outer,
            depth: Depth::of(|name| std::env::var(name).ok()),
            parser: Parser::default(),
            settle_at: None,
            open: BTreeMap::new(),
            lines: Lines::default(),
            long_way: None,
            tell,
            told,
            reconnecting: None,
            shown: None,
            stale: Stale::All,
            drawn_at: None,
            keyed_at: None,
            ages_at: Instant::now() + AGES,
        }
    }

    pub async fn run(mut self, first: Vec<Effect>) -> Result<Ended, Error> {
        let mut calls = Signals::new()?.calls();
        let mut ended = self.perform(first);
        while ended.is_none() {
            self.draw();
            ended = self.turn(&mut calls).await;
        }
        self.outer.leave();
        Ok(ended.unwrap_or(Ended::Hangup))
    }

    /// Waits for something and deals with it.
    async fn turn(&mut self, calls: &mut mpsc::Receiver<Called>) -> Option<Ended> {
        let deadline = self.deadline();
        let behind = self.outer.is_behind();
        let far = Instant::now() + Duration::from_secs(3600);
        let came = tokio::select! {
            written = self.outer.flush(), if behind => Came::Written(written),
            bytes = self.outer.read() => Came::Bytes(bytes),
            input = self.told.recv() => Came::Told(input),
            called = calls.recv() => Came::Called(called.unwrap_or(Called::Ended)),
            () = sleep_until(deadline.unwrap_or(far)) => Came::Time,
        };
        match came {
            Came::Bytes(Ok(bytes)) if !bytes.is_empty() => {
                self.keyed_at = Some(Instant::now());
                // A new size that came before a key is known before it, also if the signal is not.
                let size = self.outer.size();
                if size != self.model.size
                    && let Some(ended) = self.step(Input::Resized(size))
                {
                    return Some(ended);
                }
                let heard = self.parser.feed(&bytes);
                self.settle_at = self.parser.is_undecided().then(|| Instant::now() + ESCAPE);
                self.hear(heard)
            }
            Came::Bytes(_) | Came::Called(Called::Ended) | Came::Written(Err(_)) => {
                Some(Ended::Hangup)
            }
            Came::Written(Ok(length)) => {
                self.outer.flushed(length);
                None
            }
            Came::Told(input) => {
                let mut ended = input.and_then(|input| self.step(input));
                // Everything that is there goes into one picture.
                while ended.is_none()
                    && let Ok(input) = self.told.try_recv()
                {
                    ended = self.step(input);
                }
                ended
            }
            Came::Called(Called::Size) => {
                let size = self.outer.size();
                self.step(Input::Resized(size))
            }
            Came::Called(Called::Continued) => {
                self.outer.enter_again();
                self.shown = None;
                self.step(Input::Resized(self.outer.size()))
            }
            Came::Time => self.time(),
        }
    }

    fn deadline(&self) -> Option<Instant> {
        let model = self.model.wakes_at().map(Instant::from_std);
        let ages = self.model.shows_ages().then_some(self.ages_at);
        let picture = self
            .next_picture()
            .filter(|_| self.stale != Stale::Nothing && !self.outer.is_behind());
        [model, ages, picture, self.settle_at]
            .into_iter()
            .flatten()
            .min()
    }

    /// Not before then; `None`: at any time.
    fn next_picture(&self) -> Option<Instant> {
        let drawn = self.drawn_at?;
        let awaited = self.keyed_at.is_some_and(|at| drawn < at + ECHO);
        (!awaited).then(|| drawn + PICTURE)
    }

    fn time(&mut self) -> Option<Ended> {
        let now = Instant::now();
        if now >= self.ages_at {
            self.ages_at = now + AGES;
            self.stale = Stale::All;
        }
        if self.settle_at.is_some_and(|at| at <= now) {
            self.settle_at = None;
            let heard = self.parser.settle();
            if let Some(ended) = self.hear(heard) {
                return Some(ended);
            }
        }
        let due = self.model.wakes_at();
        if due.is_some_and(|at| Instant::from_std(at) <= now) {
            return self.step(Input::Tick);
        }
        None
    }

    fn hear(&mut self, heard: Vec<Heard>) -> Option<Ended> {
        for one in heard {
            match one {
                Heard::SpeaksKitty => self.outer.has_kitty(),
                Heard::Told => {}
                other => {
                    if let Some(ended) = self.step(Input::Heard(other)) {
                        return Some(ended);
                    }
                }
            }
        }
        None
    }

    fn step(&mut self, input: Input) -> Option<Ended> {
        match &input {
            Input::Lost(gone) => {
                self.lines = Lines::default();
                self.reconnect(*gone);
            }
            Input::Back => self.reconnecting = None,
            Input::Answered(ticket, _) => {
                self.open.remove(ticket);
                if self
                    .long_way
                    .as_ref()
                    .is_some_and(|way| way.key == Some(*ticket))
                {
                    self.long_way = None;
                }
            }
            Input::Heard(_) | Input::Resized(_) | Input::Tick => {}
        }
        let effects = self.model.step(input, Instant::now().into_std());
        self.stale = std::mem::take(&mut self.stale).and(self.model.take_stale());
        self.perform(effects)
    }

    fn perform(&mut self, effects: Vec<Effect>) -> Option<Ended> {
        for effect in effects {
            match effect {
                Effect::Ask { ticket, key, ask } => {
                    if changes_sizes(&ask) {
                        self.long_way = Some(LongWay { key: None });
                    }
                    let (client, tell) = (self.client.clone(), self.tell.clone());
                    let line = match &mut self.long_way {
                        Some(way) if is_typing(&ask) => {
                            way.key = Some(ticket);
                            None
                        }
                        _ => {
                            let role = self.model.role;
                            self.lines.of(&ask, role, &self.client)
                        }
                    };
                    let asking = tokio::spawn(async move {
                        let direct = match line {
                            Some(line) => line.ask_as(key, ask.clone()).await,
                            None => None,
                        };
                        let answered = match direct {
                            Some(answered) => answered.map(Some),
                            None => client.ask_running_with_key(key, ask).await,
                        };
                        let input = match answered {
                            Ok(Some(answer)) => Input::Answered(ticket, Ok(answer)),
                            Ok(None) => Input::Lost(Gone::Died),
                            Err(error) if error.message == client::DAEMON_STOPPED => {
                                Input::Lost(Gone::Stopped)
                            }
                            Err(error) => Input::Answered(ticket, Err(error)),
                        };
                        let _ = tell.send(input).await;
                    });
                    // Asked again: the first time is forgotten.
                    if let Some(before) = self.open.insert(ticket, asking.abort_handle()) {
                        before.abort();
                    }
                }
                Effect::Forget(ticket) => {
                    if let Some(asking) = self.open.remove(&ticket) {
                        asking.abort();
                    }
                }
                Effect::Copy(text) => self.outer.copy(&text),
                Effect::Repaint => self.shown = None,
                Effect::Launch => {
                    if let Some(waiting) = self.reconnecting.take() {
                        waiting.abort();
                    }
                    self.reconnect(Gone::Died);
                }
                Effect::Leave(leave) => return Some(Ended::Left(leave)),
            }
        }
        self.lines.keep(|pane| self.model.views.contains_key(&pane));
        None
    }

    /// Finds the next daemon, or starts it.
    fn reconnect(&mut self, gone: Gone) {
        if self.reconnecting.is_some() {
            return;
        }
        let (client, tell) = (self.client.clone(), self.tell.clone());
        let finding = tokio::spawn(async move {
            match gone {
                Gone::Died => {
                    let mut again = patient_interval();
                    // It is asked for until it is there: a machine that is short of something may have it again.
                    while client.ask(Request::DaemonStatus).await.is_err() {
                        again.tick().await;
                    }
                }
                Gone::Stopped => {
                    let mut again = patient_interval();
                    while !matches!(client.ask_running(Request::DaemonStatus).await, Ok(Some(_))) {
                        again.tick().await;
                    }
                }
            }
            let _ = tell.send(Input::Back).await;
        });
        self.reconnecting = Some(finding.abort_handle());
    }

    fn draw(&mut self) {
        let fresh = self.stale == Stale::Nothing && self.shown.is_some();
        if fresh || self.outer.is_behind() {
            return;
        }
        let now = Instant::now();
        if self.next_picture().is_some_and(|at| now < at) {
            return;
        }
        let bytes = match std::mem::take(&mut self.stale) {
            Stale::Inside(rows) => self.redraw(&rows).unwrap_or_else(|| self.draw_all()),
            Stale::Nothing | Stale::All => self.draw_all(),
        };
        if !bytes.is_empty() {
            self.outer.write(&bytes);
            self.drawn_at = Some(now);
        }
    }

    /// Most of what changes is a few rows of one pane.
    fn redraw(&mut self, rows: &[(PaneId, u16)]) -> Option<Vec<u8>> {
        let shown = self.shown.as_mut()?;
        let caret = shown.caret;
        let were = redraw(&self.model, rows, shown)?;
        Some(repaint(&were, caret, shown, self.depth))
    }

    fn draw_all(&mut self) -> Vec<u8> {
        self.outer.want_keyboard(self.model.keyboard());
        self.outer.want_motion(self.model.wants_motion());
        let wall = SystemTime::now().duration_since(UNIX_EPOCH);
        let wall = wall.map_or(0, |since| since.as_millis() as u64);
        let picture = draw(&self.model, self.depth, wall);
        let bytes = paint(self.shown.as_ref(), &picture, self.depth);
        self.shown = Some(picture);
        bytes
    }
}

/// The way through the engine, which every change of sizes takes.
struct LongWay {
    /// The last key that went it since.
    key: Option<Ticket>,
}

fn changes_sizes(ask: &Request) -> bool {
    match ask {
        Request::Look { look } => {
            matches!(
                look,
                AttachRequest::Attend { .. }
                    | AttachRequest::Fit { .. }
                    | AttachRequest::Arrange { .. }
            )
        }
        _ => false,
    }
}

fn is_typing(ask: &Request) -> bool {
    matches!(
        ask,
        Request::Look {
            look: AttachRequest::Type { .. }
        }
    )
}

fn patient_interval() -> tokio::time::Interval {
    let mut interval = interval(LOOK_FOR_DAEMON);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}

#[expect(clippy::large_enum_variant, reason = "most of them are answers")]
enum Came {
    Bytes(std::io::Result<Vec<u8>>),
    Written(std::io::Result<usize>),
    Told(Option<Input>),
    Called(Called),
    Time,
}

enum Called {
    Size,
    Continued,
    Ended,
}

struct Signals {
    size: Signal,
    continued: Signal,
    hangup: Signal,
    terminate: Signal,
    interrupt: Signal,
    quit: Signal,
}

impl Signals {
    fn new() -> Result<Self, Error> {
        let on = |kind: SignalKind| {
            signal(kind)
                .map_err(|error| Error::new(ErrorKind::Internal, format!("signals: {error}")))
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

    /// Listening for all of them costs more than a key does, so it is not done anew for each.
    fn calls(mut self) -> mpsc::Receiver<Called> {
        let (call, calls) = mpsc::channel(8);
        tokio::spawn(async move {
            loop {
                let called = self.next().await;
                if call.send(called).await.is_err() {
                    return;
                }
            }
        });
        calls
    }

    async fn next(&mut self) -> Called {
        tokio::select! {
            _ = self.size.recv() => Called::Size,
            _ = self.continued.recv() => Called::Continued,
            _ = self.hangup.recv() => Called::Ended,
            _ = self.terminate.recv() => Called::Ended,
            _ = self.interrupt.recv() => Called::Ended,
            _ = self.quit.recv() => Called::Ended,
        }
    }
}
