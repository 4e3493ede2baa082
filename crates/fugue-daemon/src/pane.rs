//! One pane's own task: it alone sees the pane's bytes. It feeds the terminal, types, and tells the engine facts.

mod keeper;
pub mod launch;
mod sending;

use std::{collections::HashMap, io, sync::Arc, time::Duration};

use fugue_api::{
    Error, Kind, PaneId, Reply,
    panes::{PaneSize, PaneStatus, ReadPane, StateBy, Status},
    wire::{Answer, Caller, Followed},
};
use fugue_core::{
    PaneFact, PaneQuestion, PaneRecord, World,
    state::{self, ShellSays, Signs, TtySays},
    view,
};
use fugue_hold::{
    record::ExitRecord,
    spawn::Ending,
    wire::{HelloOk, Input, InputKind, Probe, Spec, State, ToDaemon, ToHolder},
};
use fugue_term::{Fact, MarkKind, ShellState};
use tokio::{
    sync::{mpsc, oneshot, watch},
    time::{Instant, sleep_until},
};

use crate::{
    archive,
    desk::Responder,
    engine::{House, Said},
    reading::{self, Past, Reading},
    replay::{Checkpoints, Depth, Follower},
    shards::Task,
    sweep,
};
use keeper::{Event, Found, Keeper, Place};
use sending::Sending;

pub use keeper::GENERATION;

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
        question: PaneQuestion,
        responder: Responder,
    },
    Brief(oneshot::Sender<Brief>),
    More {
        from: u64,
        answer: oneshot::Sender<Result<Followed, Error>>,
    },
    Close {
        grace: Duration,
    },
}

/// What a row of an overview needs.
pub struct Brief {
    pub state: StateBy,
    pub idle_ms: u64,
}

// What waits for a pane that is busy replaying its log; more than this and callers are told so.
const COMMANDS_IN_LINE: usize = 256;
// Output that has been quiet for so long is worth a look at who reads the terminal.
const QUIET: Duration = Duration::from_millis(100);
// There is no event for "processes or fds are to be had again".
const RETRY_HOLDER: Duration = Duration::from_millis(500);

impl PaneHandle {
    pub fn id(&self) -> PaneId {
        self.id
    }

    pub fn tell(&self, command: PaneCommand) {
        if self.try_tell(command).is_err() {
            tracing::warn!(pane = %self.id, "a command did not reach its pane");
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
    command: Option<String>,
    env: std::collections::BTreeMap<String, String>,
    world: World,
    caller: Arc<Caller>,
    house: Arc<House>,
    says: mpsc::Sender<Said>,
) -> (PaneHandle, Task) {
    task(record, house, says, move |desk| async move {
        let spec = launch::spec(&desk.record, command, env, &world, &caller, &desk.house);
        match Pane::start(desk, spec).await {
            Ok(pane) => pane.live().await,
            Err((desk, error)) => desk.say(PaneFact::OpenFailed(error)).await,
        }
    })
}

/// A task that finds a pane of an earlier daemon.
pub fn adopt(
    record: PaneRecord,
    house: Arc<House>,
    says: mpsc::Sender<Said>,
) -> (PaneHandle, Task) {
    task(record, house, says, |desk| async move {
        match Pane::find(desk).await {
            Ok(pane) => pane.live().await,
            Err((desk, error)) => desk.say(PaneFact::OpenFailed(error)).await,
        }
    })
}

fn task<F: Future<Output = ()> + 'static>(
    record: PaneRecord,
    house: Arc<House>,
    says: mpsc::Sender<Said>,
    run: impl FnOnce(Seat) -> F + Send + 'static,
) -> (PaneHandle, Task) {
    let (commands, orders) = mpsc::channel(COMMANDS_IN_LINE);
    let (grow, grown) = watch::channel(0);
    let handle = PaneHandle {
        id: record.id,
        commands,
        grown,
    };
    let seat = Seat {
        record,
        house,
        says,
        orders,
        grow,
    };
    (handle, Box::new(move || Box::pin(run(seat))))
}

/// What a pane's task has from the start, whether or not it finds a pane.
struct Seat {
    record: PaneRecord,
    house: Arc<House>,
    says: mpsc::Sender<Said>,
    orders: mpsc::Receiver<PaneCommand>,
    grow: watch::Sender<u64>,
}

impl Seat {
    async fn say(&self, fact: PaneFact) {
        // The engine outlives every pane but at the daemon's own end.
        let _ = self.says.send(Said::Pane(self.record.id, fact)).await;
    }

    fn place(&self) -> Place {
        let dir = self.house.paths.panes().join(self.record.id.to_string());
        Place {
            pane: self.record.id,
            dir,
            epoch: self.house.epoch,
        }
    }
}

struct Pane {
    seat: Seat,
    follower: Follower,
    /// `None` once the pane has ended.
    keeper: Option<Keeper>,
    /// Questions that wait for a look at the terminal's foreground.
    probes: HashMap<u64, Asked>,
    resizes: HashMap<u64, (PaneSize, Responder)>,
    sending: Sending,
    next_id: u64,
    last_output: Instant,
    /// When to look, if nothing is printed until then.
    look_at: Option<Instant>,
    prompted: bool,
    stalled: Option<i32>,
    exited: Option<(Ending, u64)>,
    swept: bool,
    more_to_read: bool,
}

/// Who wants to know who reads the terminal.
enum Asked {
    Status(Box<PaneStatus>, Responder),
    Read(Box<ReadPane>, Responder),
    Brief(oneshot::Sender<Brief>),
    Sending,
    /// Ourselves, before the first prompt.
    Quiet,
}

impl Pane {
    async fn start(seat: Seat, spec: Spec) -> Result<Self, (Seat, Error)> {
        let place = seat.place();
        if let Err(error) = private_dir(&place.dir) {
            return Err((seat, launch::no_room(&error)));
        }
        let dir = place.dir.clone();
        let mut keeper = match Keeper::start(place).await {
            Ok(keeper) => keeper,
            Err(said) => return Err((seat, launch::refusal(&said))),
        };
        if let Err(error) = keeper.send(&ToHolder::Start(spec)) {
            return Err((seat, launch::refusal(&error.to_string())));
        }
        let child = loop {
            match keeper.event().await {
                Ok(Event::Word(ToDaemon::Started(child))) => break child,
                Ok(Event::Word(ToDaemon::StartFailed { what, errno })) => {
                    let _ = keeper.send(&ToHolder::Leave);
                    return Err((seat, launch::failed(&what, errno)));
                }
                Ok(_) => {}
                Err(error) => return Err((seat, launch::refusal(&error.to_string()))),
            }
        };
        let follower = match Self::follow(&seat, &dir) {
            Ok(follower) => follower,
            Err(error) => return Err((seat, launch::no_room(&error))),
        };
        let mut pane = Self::new(seat, follower, Some(keeper));
        pane.opened(child.pid.cast_unsigned()).await;
        Ok(pane)
    }

    async fn find(seat: Seat) -> Result<Self, (Seat, Error)> {
        let found = match Keeper::find(seat.place()).await {
            Ok(found) => found,
            Err(said) => {
                tracing::warn!(pane = %seat.record.id, said, "its holder cannot be reached");
                None
            }
        };
        let dir = seat.place().dir;
        let follower = match Self::follow(&seat, &dir) {
            Ok(follower) => follower,
            Err(error) => return Err((seat, launch::no_room(&error))),
        };
        match found {
            Some((
                mut keeper,
                HelloOk {
                    state: State::Empty,
                    ..
                },
            )) => {
                let _ = keeper.send(&ToHolder::Leave);
                Err((seat, launch::interrupted()))
            }
            Some((keeper, hello)) => {
                let mut pane = Self::new(seat, follower, Some(keeper));
                pane.greeted(&hello).await;
                // Every line again, in the same order, so that lines and cursors are what they were. What a
                // program asked of its terminal meanwhile is answered now; the holder knows what already was.
                pane.read_log().await;
                pane.last_output = pane.follower.last_written().unwrap_or(pane.last_output);
                if let Some(cwd) = pane.follower.terminal.cwd() {
                    let cwd = cwd.to_owned();
                    pane.seat.say(PaneFact::Moved { cwd }).await;
                }
                if pane.seat.record.closing {
                    pane.close(Duration::from_millis(u64::from(
                        fugue_api::panes::ClosePane::grace_ms(),
                    )));
                }
                Ok(pane)
            }
            None if seat.record.pid == 0
                && !matches!(ExitRecord::read(&dir, GENERATION), Ok(Some(_))) =>
            {
                Err((seat, launch::interrupted()))
            }
            None => {
                let mut pane = Self::new(seat, follower, None);
                pane.read_log().await;
                let recorded = ExitRecord::read(&dir, GENERATION).ok().flatten();
                let at = pane.follower.terminal.offset().0;
                pane.exited = Some(recorded.map_or((Ending::Unknown, at), |record| {
                    (record.exited.ending, record.exited.at)
                }));
                // Its terminal went with its holder, so nothing of it can run on unseen.
                pane.swept = false;
                Ok(pane)
            }
        }
    }

    fn follow(seat: &Seat, dir: &std::path::Path) -> io::Result<Follower> {
        let settings = &seat.house.settings;
        let checkpoints = Checkpoints::Every(Spec::segment_for(settings.log_cap_bytes));
        Follower::open(
            dir,
            &seat.record,
            settings.keep_lines,
            Depth::Recent,
            checkpoints,
        )
    }

    fn new(seat: Seat, follower: Follower, keeper: Option<Keeper>) -> Self {
        Self {
            seat,
            follower,
            keeper,
            probes: HashMap::new(),
            resizes: HashMap::new(),
            sending: Sending::default(),
            next_id: 1,
            last_output: Instant::now(),
            look_at: None,
            prompted: false,
            stalled: None,
            exited: None,
            swept: false,
            more_to_read: true,
        }
    }

    async fn opened(&mut self, pid: u32) {
        self.seat.record.pid = pid;
        if self.seat.record.announces_prompts() {
            self.look_at = Some(Instant::now() + QUIET);
        }
        let cursor = self.cursor();
        self.seat.say(PaneFact::Opened { pid, cursor }).await;
    }

    /// Until the pane has ended and nobody asks about it any more.
    async fn live(mut self) {
        loop {
            if self.is_over() {
                self.over().await;
            }
            let timer = [self.look_at, self.sending.deadline()]
                .into_iter()
                .flatten()
                .min();
            tokio::select! {
                order = self.seat.orders.recv() => match order {
                    Some(order) => self.order(order),
                    // Nobody can ask any more: the pane has ended, or the daemon does. A holder that lives stays.
                    None => return,
                },
                event = event(self.keeper.as_mut()) => match event {
                    Ok(Event::Grew) => self.more_to_read = true,
                    Ok(Event::Word(word)) => self.hear(word).await,
                    Err(error) => self.recover(&error).await,
                },
                () = tokio::task::yield_now(), if self.more_to_read => self.read_some().await,
                () = sleep_until(timer.unwrap_or_else(Instant::now)), if timer.is_some() => self.time().await,
            }
        }
    }

    // --- what the holder says

    async fn hear(&mut self, word: ToDaemon) {
        match word {
            ToDaemon::Exited(exited) => {
                self.exited = Some((exited.ending, exited.at));
                self.more_to_read = true;
            }
            ToDaemon::InputState(input) => {
                let seen = self.seen();
                self.sending.input_state(&input, &seen);
                self.go_on_sending();
            }
            ToDaemon::Probed { id, probe } => self.probed(id, &probe).await,
            ToDaemon::Closed { left, .. } => {
                if left > 0 {
                    tracing::warn!(pane = %self.seat.record.id, left, "processes of a pane could not be ended");
                }
                self.swept = true;
            }
            ToDaemon::Stalled { errno } => self.stalled = Some(errno),
            ToDaemon::Flowing => self.stalled = None,
            ToDaemon::Done { id } => self.resized(id).await,
            ToDaemon::Failed { id, errno, what } => {
                if let Some((_, responder)) = self.resizes.remove(&id) {
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

    async fn greeted(&mut self, hello: &HelloOk) {
        self.stalled = hello.stalled;
        self.more_to_read = true;
        match hello.state {
            State::Empty => {}
            State::Running(child) if self.seat.record.pid == 0 => {
                self.opened(child.pid.cast_unsigned()).await
            }
            State::Running(_) => {}
            State::Exited { child, exited } => {
                if self.seat.record.pid == 0 {
                    self.opened(child.pid.cast_unsigned()).await;
                }
                self.exited = Some((exited.ending, exited.at));
            }
        }
    }

    /// The connection to the holder is lost, which never means that the child died.
    async fn recover(&mut self, lost: &io::Error) {
        tracing::debug!(pane = %self.seat.record.id, %lost, "the connection to its holder is lost");
        self.sending.holder_lost();
        loop {
            let Some(keeper) = self.keeper.as_mut() else {
                return;
            };
            // A holder whose child has ended leaves by itself, after it wrote down how.
            if let Ok(Some(record)) = ExitRecord::read(keeper.dir(), GENERATION) {
                self.exited = Some((record.exited.ending, record.exited.at));
                self.more_to_read = true;
                self.keeper = None;
                return;
            }
            match keeper.recover().await {
                Ok(Found::Again(hello)) => {
                    self.greeted(&hello).await;
                    break;
                }
                Ok(Found::TakenOver) => {
                    tracing::warn!(pane = %self.seat.record.id, "a newer daemon has taken over");
                    self.keeper = None;
                    return;
                }
                Err(said) => {
                    tracing::warn!(pane = %self.seat.record.id, said, "its holder could not be replaced yet");
                    sleep_until(Instant::now() + RETRY_HOLDER).await;
                }
            }
        }
        for id in self.probes.keys().copied().collect::<Vec<_>>() {
            self.tell(&ToHolder::Probe { id });
        }
        for (id, (size, _)) in self
            .resizes
            .iter()
            .map(|(id, (size, _))| (*id, (*size, ())))
            .collect::<Vec<_>>()
        {
            self.tell(&ToHolder::Resize {
                id,
                rows: size.rows,
                cols: size.cols,
            });
        }
        if self.seat.record.closing {
            self.close(Duration::ZERO);
        }
        self.go_on_sending();
    }

    fn tell(&mut self, message: &ToHolder) {
        if let Some(keeper) = self.keeper.as_mut()
            && let Err(error) = keeper.send(message)
        {
            // The same connection's reading side finds out as well, and recovers.
            tracing::debug!(pane = %self.seat.record.id, %error, "a word did not reach the holder");
        }
    }

    // --- output

    async fn read_log(&mut self) {
        self.more_to_read = true;
        while self.more_to_read {
            self.read_some().await;
            tokio::task::yield_now().await;
        }
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
        if !turn.grew {
            return;
        }
        self.last_output = Instant::now();
        if self.look_at.is_some() {
            self.look_at = Some(self.last_output + QUIET);
        }
        for fact in turn.facts {
            self.fact(fact).await;
        }
        self.seat
            .grow
            .send_replace(self.follower.terminal.offset().0);
        if self.sending.watches() {
            let seen = self.seen();
            self.sending.output(&seen, self.last_output);
            self.go_on_sending();
        }
    }

    async fn fact(&mut self, fact: Fact) {
        match fact {
            Fact::Mark(mark) => match mark.kind {
                MarkKind::Input if !self.prompted => {
                    self.prompted = true;
                    self.look_at = None;
                    let cursor = view::shown(mark.at);
                    self.seat.say(PaneFact::Prompted { cursor }).await;
                }
                MarkKind::Output => self.sending.command_started(),
                MarkKind::Prompt | MarkKind::Input | MarkKind::Done { .. } => {}
            },
            Fact::Cwd(cwd) => self.seat.say(PaneFact::Moved { cwd }).await,
            Fact::Reply { at, bytes } => self.reply(at.0, bytes),
            Fact::Title(_) | Fact::Bell | Fact::Alternate(_) => {}
        }
    }

    /// What a terminal says when it is asked. Asked once, answered once, whichever daemon hears it.
    fn reply(&mut self, at: u64, bytes: Vec<u8>) {
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
        self.tell(&ToHolder::Input(Input {
            seq,
            key,
            kind: InputKind::Answer { at },
            bytes,
        }));
    }

    // --- questions

    fn order(&mut self, order: PaneCommand) {
        match order {
            PaneCommand::Ask {
                question: PaneQuestion::Status(status),
                responder,
            } => {
                self.probe(Asked::Status(status, responder));
            }
            PaneCommand::Ask {
                question: PaneQuestion::Read { args, .. },
                responder,
            } => {
                self.probe(Asked::Read(args, responder));
            }
            PaneCommand::Ask {
                question: PaneQuestion::Send { args, key },
                responder,
            } => {
                if self.keeper.is_none() {
                    return responder.answer(Err(Error::new(Kind::Ended, "the pane has ended")));
                }
                self.sending.enqueue(*args, key.0, responder);
                self.go_on_sending();
            }
            PaneCommand::Ask {
                question: PaneQuestion::Resize(size),
                responder,
            } => {
                let id = self.next_id();
                self.resizes.insert(id, (size, responder));
                self.tell(&ToHolder::Resize {
                    id,
                    rows: size.rows,
                    cols: size.cols,
                });
            }
            PaneCommand::Ask {
                question: PaneQuestion::Follow { .. },
                responder,
            } => {
                responder.answer(Err(Error::new(
                    Kind::Internal,
                    "followers ask for more, not once",
                )));
            }
            PaneCommand::Brief(asker) => self.probe(Asked::Brief(asker)),
            PaneCommand::More { from, answer } => {
                let end = self.follower.terminal.end();
                let mut more = reading::more(&mut self.follower.log, from, end);
                if let Ok(more) = &mut more {
                    more.ended =
                        self.is_told() && more.from + more.raw.len() as u64 >= end.offset.0;
                }
                let _ = answer.send(more);
            }
            PaneCommand::Close { grace } => {
                self.seat.record.closing = true;
                self.close(grace);
            }
        }
    }

    fn close(&mut self, grace: Duration) {
        let id = self.next_id();
        let grace_ms = u32::try_from(grace.as_millis()).unwrap_or(u32::MAX);
        self.tell(&ToHolder::Close { id, grace_ms });
    }

    fn probe(&mut self, asked: Asked) {
        if self.keeper.is_none() {
            return self.answer_without_probe(asked);
        }
        let id = self.next_id();
        self.probes.insert(id, asked);
        self.tell(&ToHolder::Probe { id });
    }

    async fn probed(&mut self, id: u64, probe: &Probe) {
        let Some(asked) = self.probes.remove(&id) else {
            return;
        };
        match asked {
            Asked::Sending => {
                let manners = self.manners(probe);
                let cursor = self.cursor();
                self.sending.begin(manners, cursor);
                self.go_on_sending();
            }
            Asked::Quiet => {
                let state = self.state(probe).state;
                if state == fugue_api::panes::State::NeedsInput && !self.prompted {
                    self.look_at = None;
                    let cursor = self.cursor();
                    self.seat.say(PaneFact::AsksFirst { cursor }).await;
                }
            }
            Asked::Status(_, _) | Asked::Read(_, _) | Asked::Brief(_) => {
                let state = self.state(probe);
                self.answer(asked, state);
            }
        }
    }

    fn answer(&mut self, asked: Asked, state: StateBy) {
        match asked {
            Asked::Status(mut status, responder) => {
                status.state = state;
                status.idle_ms = self.idle_ms();
                status.cursor = self.cursor();
                status.title = self.follower.terminal.title().to_owned();
                status.cwd = self.cwd().unwrap_or(status.cwd);
                let size = self.follower.terminal.size();
                status.size = PaneSize {
                    rows: size.rows,
                    cols: size.cols,
                };
                status.note = self.stalled.map(|errno| {
                    let why = io::Error::from_raw_os_error(errno);
                    format!("its output cannot be written ({why}); the program waits and nothing is lost")
                });
                responder.answer(Ok(Answer::Tool {
                    reply: Reply::GetStatus(Status::Pane(status)),
                }));
            }
            Asked::Read(args, responder) => self.read(args, state, responder),
            Asked::Brief(asker) => {
                let _ = asker.send(Brief {
                    state,
                    idle_ms: self.idle_ms(),
                });
            }
            Asked::Sending | Asked::Quiet => {}
        }
    }

    fn answer_without_probe(&mut self, asked: Asked) {
        let mut state = StateBy::new(fugue_api::panes::State::Exited, fugue_api::panes::By::Exit);
        if let Some((ending, _)) = self.exited {
            let exit = launch::exit(ending);
            (state.exit_code, state.signal) = (exit.code(), exit.signal());
        }
        self.answer(asked, state);
    }

    fn read(&mut self, args: Box<ReadPane>, state: StateBy, responder: Responder) {
        let found = reading::read(
            &self.follower.terminal,
            &mut self.follower.log,
            Past::Recent,
            &args,
            &state,
        );
        match found {
            Ok(Reading::Done(reply)) => responder.answer(Ok(Answer::Tool {
                reply: Reply::ReadPane(*reply),
            })),
            Err(error) => responder.answer(Err(error)),
            // Reading a long log back takes a while, and other panes live on this thread.
            Ok(Reading::NeedsMore) => {
                let (record, house) = (self.seat.record.clone(), self.seat.house.clone());
                tokio::task::spawn_blocking(move || {
                    responder.answer(archive::read(&record, &args, &state, &house))
                });
            }
        }
    }

    async fn resized(&mut self, id: u64) {
        let Some((size, responder)) = self.resizes.remove(&id) else {
            return;
        };
        if let Err(error) = self.follower.reload_sizes() {
            tracing::warn!(pane = %self.seat.record.id, %error, "its sizes cannot be read");
        }
        self.more_to_read = true;
        self.seat.say(PaneFact::Resized(size)).await;
        responder.answer(Ok(Answer::Resized));
    }

    // --- typing

    fn go_on_sending(&mut self) {
        loop {
            match self.sending.next_step() {
                sending::Step::Nothing => return,
                sending::Step::Probe => self.probe(Asked::Sending),
                sending::Step::Type { key, bytes } => {
                    let Some(keeper) = self.keeper.as_mut() else {
                        return;
                    };
                    let seq = keeper.next_seq();
                    self.sending.typed(seq);
                    self.tell(&ToHolder::Input(Input {
                        seq,
                        key,
                        kind: InputKind::Typed,
                        bytes,
                    }));
                }
            }
        }
    }

    /// What stands where typed text would stand: the cursor's row and the one above, for a box that wraps.
    fn seen(&self) -> String {
        if !self.sending.watches() {
            return String::new();
        }
        let screen = self.follower.terminal.screen();
        let row = screen.cursor().0;
        screen
            .rows()
            .take(row + 1)
            .skip(row.saturating_sub(1))
            .collect::<Vec<_>>()
            .join("\n")
    }

    fn manners(&self, probe: &Probe) -> fugue_core::typing::Manners {
        let modes = self.follower.terminal.modes();
        fugue_core::typing::Manners {
            line_mode: probe.canonical,
            bracketed_paste: modes.bracketed_paste,
            application_cursor: modes.app_cursor,
        }
    }

    // --- time and ends

    async fn time(&mut self) {
        let now = Instant::now();
        if self.look_at.is_some_and(|at| at <= now) {
            self.look_at = None;
            self.probe(Asked::Quiet);
        }
        if self.sending.deadline().is_some_and(|at| at <= now) {
            let seen = self.seen();
            self.sending.time(&seen, now);
            self.go_on_sending();
        }
    }

    /// All that will ever come is read, and where somebody asked for the end, no process is left.
    fn is_over(&self) -> bool {
        let Some((_, at)) = self.exited else {
            return false;
        };
        let read = self.follower.terminal.offset().0 >= at || !self.more_to_read;
        let closing_goes_on = self.seat.record.closing && !self.swept && self.keeper.is_some();
        !self.is_told() && read && !closing_goes_on
    }

    /// The end has been told, so all output has been read.
    fn is_told(&self) -> bool {
        self.seat.record.ended.is_some()
    }

    async fn over(&mut self) {
        let Some((ending, _)) = self.exited else {
            return;
        };
        self.tell(&ToHolder::Leave);
        self.keeper = None;
        self.look_at = None;
        let exit = launch::exit(ending);
        let cursor = self.cursor();
        let title = self.follower.terminal.title().to_owned();
        // A note to ourselves that the end was told; core writes the real one.
        self.seat.record.ended = Some(fugue_core::Ended {
            exit: exit.clone(),
            at: self.seat.record.created_at,
            closed: false,
            cursor: cursor.clone(),
            title: title.clone(),
        });
        for asked in std::mem::take(&mut self.probes).into_values() {
            self.answer_without_probe(asked);
        }
        for (_, (_, responder)) in std::mem::take(&mut self.resizes) {
            responder.answer(Err(Error::new(Kind::Ended, "the pane ended meanwhile")));
        }
        self.sending.pane_ended();
        self.seat
            .say(PaneFact::Ended {
                exit,
                cursor,
                title,
            })
            .await;
        self.seat.grow.send_modify(|offset| *offset += 1);
        if self.seat.record.closing {
            if !self.swept {
                let (pane, dir) = (self.seat.record.id, self.seat.place().dir);
                let swept =
                    tokio::task::spawn_blocking(move || sweep::pane(pane, &dir, Duration::ZERO));
                let _ = swept.await;
            }
            self.seat.say(PaneFact::Swept).await;
        }
    }

    // --- small answers

    fn state(&self, probe: &Probe) -> StateBy {
        let shell = match self.follower.terminal.prompt() {
            ShellState::AtPrompt { .. } => ShellSays::AtPrompt,
            ShellState::Running { .. } | ShellState::Prompting { .. } => ShellSays::Running,
            ShellState::Unknown => ShellSays::Nothing,
        };
        let own = self.seat.record.pid.cast_signed();
        let tty = match probe.reader {
            Some(reader) if reader.secret => TtySays::SecretWanted,
            Some(reader) if reader.pid == own => TtySays::OwnProcessReads,
            Some(_) => TtySays::ProgramReads,
            // A setuid program cannot be looked into, but a terminal in line mode without echo speaks for itself.
            None if probe.unreadable && probe.canonical && !probe.echo => TtySays::SecretWanted,
            None => TtySays::Nothing,
        };
        state::of(&Signs {
            shell,
            tty,
            interactive: launch::is_interactive_shell(&self.seat.record.command),
            prompt_line: self.follower.terminal.cursor_line(),
            silent_ms: self.idle_ms(),
            idle_threshold_ms: self.seat.house.settings.idle_threshold_ms(),
        })
    }

    /// Where the shell says it is; of a program that says nothing, where the kernel says its process is.
    fn cwd(&self) -> Option<String> {
        if let Some(cwd) = self.follower.terminal.cwd() {
            return Some(cwd.to_owned());
        }
        let link = std::fs::read_link(format!("/proc/{}/cwd", self.seat.record.pid)).ok()?;
        Some(link.to_string_lossy().into_owned())
    }

    fn idle_ms(&self) -> u64 {
        u64::try_from(self.last_output.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn cursor(&self) -> fugue_api::Cursor {
        view::shown(self.follower.terminal.end())
    }

    fn next_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }
}

async fn event(keeper: Option<&mut Keeper>) -> io::Result<Event> {
    match keeper {
        Some(keeper) => keeper.event().await,
        None => std::future::pending().await,
    }
}

fn private_dir(dir: &std::path::Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    std::fs::DirBuilder::new()
        .mode(0o700)
        .recursive(true)
        .create(dir)
}
