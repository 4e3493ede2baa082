//! The control plane: one loop that hands core what happened and performs what core decides.
//!
//! It never touches a pane's bytes and never waits for a disk or a program; whatever takes time is somebody else's
//! task and comes back as an input.

mod daemon_status;
mod effects;
mod pane_requests;
mod shutdown;
mod storing;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    io,
    sync::Arc,
    time::Duration,
};

use fugue_api::{
    PaneId,
    wire::{CallerEnv, CallerIdentity, IdempotencyKey, Request, Response},
};
use fugue_core::{CallId, CallRequest, Core, CoreInput, PaneEvent, TmuxLookup, settings::Settings};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::mpsc,
    time::{Instant, sleep_until},
};

use crate::{
    clock::{Alarm, Clock},
    desk::PendingCalls,
    door::{ClientLimits, Knock},
    origin::Origin,
    pane::{PaneCommand, PaneHandle},
    shards::{Panicked, Shards},
    store::{Opened, Report, Store, Writer},
    sweep,
    watchers::Errands,
    whole::WholeLogReaders,
    world,
};
use fugue_client::{paths::Paths, spool};
use shutdown::Stopping;
use storing::Storing;

/// What every part of the daemon may look at.
pub struct DaemonContext {
    pub paths: Paths,
    pub settings: Settings,
    pub whole_log_readers: WholeLogReaders,
    /// Counted up with every daemon; a holder obeys the highest it has seen.
    pub epoch: u64,
    /// The soft limit of open files that panes get: ours is raised, theirs stays what people expect.
    pub nofile: Option<u64>,
}

pub struct Engine {
    house: Arc<DaemonContext>,
    core: Core,
    desk: PendingCalls,
    shards: Shards,
    panes: HashMap<PaneId, PaneHandle>,
    /// The last one that was opened or taken up. Those behind it wait for the disk.
    newest: PaneId,
    /// What they are told meanwhile.
    early: BTreeMap<PaneId, Vec<PaneCommand>>,
    writer: Writer<u64>,
    storing: Storing,
    says: mpsc::Sender<EngineEvent>,
    said: mpsc::Receiver<EngineEvent>,
    store_reports: mpsc::UnboundedReceiver<Report<u64>>,
    clock: Clock,
    /// Times of the boot clock at which core is to be woken.
    alarms: BTreeSet<Duration>,
    alarm: Alarm,
    stopping: Option<Stopping>,
    own_calls: u64,
    errands: Errands,
    /// News of hooks that are kept until these calls are answered.
    kept_news: HashMap<CallId, IdempotencyKey>,
    /// Directories that are being removed.
    removals: usize,
    panicked: mpsc::UnboundedReceiver<Panicked>,
    /// The output logs exceed their quota, and the log file says so.
    over_quota: bool,
}

/// What pane tasks and helpers tell the engine.
pub enum EngineEvent {
    Pane(PaneId, PaneEvent),
    /// A call after the look at files that core must not take.
    Furnished {
        call: CallId,
        key: IdempotencyKey,
        who: CallerIdentity,
        within: Option<PaneId>,
        caller: Arc<CallerEnv>,
        ask: Request,
        furnished: world::Furnished,
    },
    /// Something that was done for a worker, or for a reply.
    Worker(CoreInput),
    /// The directory of a forgotten pane is gone, or was kept because something in it may be alive.
    Removal {
        pane: PaneId,
        outcome: sweep::Removal,
    },
}

/// Whether the loop goes on.
#[derive(PartialEq, Eq)]
enum Going {
    On,
    Over,
}

// Calls of the engine's own start here; those of clients count up from 1.
const OWN_CALLS: u64 = 1 << 63;
// Facts are few: state changes, not bytes. A pane that outruns the engine waits here, and only that pane.
const FACTS_IN_LINE: usize = 1024;

impl Engine {
    /// Takes up what the store knows and adopts every pane that was open.
    pub fn new(
        house: DaemonContext,
        opened: Opened,
        notes: Vec<String>,
        store: impl Store + 'static,
    ) -> io::Result<Self> {
        let (says, said) = mpsc::channel(FACTS_IN_LINE);
        let (report, store_reports) = mpsc::unbounded_channel();
        let writer = Writer::start(store, move |one| {
            // The engine is gone only when the process is about to be.
            let _ = report.send(one);
        })?;
        let storing = Storing::new(opened.quarantine_count, notes);
        let snapshot = opened.snapshot;
        let (panics, panicked) = mpsc::unbounded_channel();
        let recorded: HashSet<PaneId> = snapshot.panes.iter().map(|pane| pane.id).collect();
        let clock = Clock::start();
        let (core, effects) = Core::restore(house.settings.clone(), snapshot, clock.now());
        let mut engine = Self {
            errands: Errands::of(&house.paths),
            house: Arc::new(house),
            core,
            desk: PendingCalls::default(),
            shards: Shards::start(&panics)?,
            panes: HashMap::new(),
            newest: PaneId(0),
            early: BTreeMap::new(),
            writer,
            storing,
            says,
            said,
            store_reports,
            clock,
            alarms: BTreeSet::new(),
            alarm: Alarm::new()?,
            stopping: None,
            own_calls: OWN_CALLS,
            kept_news: HashMap::new(),
            removals: 0,
            panicked,
            over_quota: false,
        };
        let (house, age) = (engine.house.clone(), engine.house.settings.forget_after());
        tokio::task::spawn_blocking(move || {
            sweep::unrecorded(&house.paths.panes(), &recorded, age);
        });
        engine.perform(effects);
        engine.take_up_news();
        Ok(engine)
    }

    /// Until somebody asks for the daemon's end.
    pub async fn run(mut self, mut knocks: mpsc::Receiver<Knock>) -> io::Result<()> {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        loop {
            let alarm = self.alarms.first().copied();
            let store_deadline = self.storing.deadline();
            let going = tokio::select! {
                Some(knock) = knocks.recv() => self.knock(knock),
                Some(said) = self.said.recv() => self.hear(said),
                Some(Panicked { pane, message }) = self.panicked.recv() => {
                    self.panes.remove(&pane);
                    let fact = PaneEvent::TaskPanicked { message };
                    self.step(CoreInput::Pane { pane, event: fact })
                }
                Some(report) = self.store_reports.recv() => self.hear_store(report),
                () = sleep_until(store_deadline.unwrap_or_else(Instant::now)), if store_deadline.is_some() => {
                    self.answer_unstored()
                }
                reached = self.alarm.reached(alarm.unwrap_or_default()), if alarm.is_some() => {
                    reached?;
                    let now = self.clock.now().since_boot;
                    self.alarms.retain(|at| *at > now);
                    let going = self.step(CoreInput::Time);
                    self.check_quota();
                    going
                }
                _ = terminate.recv() => Going::Over,
                _ = interrupt.recv() => Going::Over,
            };
            if going == Going::Over {
                return self.storing.outcome();
            }
        }
    }

    fn knock(&mut self, knock: Knock) -> Going {
        match knock {
            Knock::Cancelled { call } => {
                self.desk.cancel(call);
                self.storing.call_ended(call);
                self.step(CoreInput::Cancelled { call })
            }
            Knock::Call {
                ask: Request::DaemonStatus,
                responder,
                ..
            } => {
                responder.answer(Ok(Response::DaemonStatus {
                    status: self.status(),
                }));
                Going::On
            }
            Knock::Call {
                ask: Request::DaemonStop { panes },
                who,
                origin,
                responder,
                ..
            } => {
                let within = self.pane_of(&origin);
                match self.core.authorize_stop(within, who) {
                    Ok(()) => self.stop(responder, panes),
                    Err(error) => {
                        responder.answer(Err(error));
                        Going::On
                    }
                }
            }
            Knock::Call {
                call,
                key,
                who,
                origin,
                caller,
                ask,
                responder,
            } => {
                let within = self.pane_of(&origin);
                self.desk.open(call, responder);
                if let Request::Hook { news } = &ask
                    && news.is_kept()
                {
                    self.kept_news.insert(call, key);
                }
                let target = world::tmux_target(&ask, &caller, |said| self.core.knows(said));
                match ask {
                    ask if target.is_some() || world::is_needed(&ask, &caller) => {
                        self.look_up(call, key, who, within, caller, ask, target);
                        Going::On
                    }
                    ask => self.enter(
                        call,
                        CallRequest {
                            key,
                            who,
                            within,
                            caller,
                            ask,
                            worlds: Ok(Vec::new()),
                            watch: None,
                            tmux: TmuxLookup::None,
                        },
                    ),
                }
            }
        }
    }

    /// The pane that a client's process runs in.
    fn pane_of(&self, origin: &Origin) -> Option<PaneId> {
        let nearest = || self.core.pane_of(&origin.ancestors);
        *origin.pane.get_or_init(nearest)
    }

    /// What hooks told while no daemon ran. We listen by now, so that none of them is told behind our back.
    fn take_up_news(&mut self) {
        for kept in spool::all(&self.house.paths) {
            let call = CallId(self.own_calls);
            self.own_calls += 1;
            self.kept_news.insert(call, kept.key);
            let asked = CallRequest {
                key: kept.key,
                who: kept.who,
                within: None,
                caller: Arc::new(CallerEnv::nobody()),
                ask: Request::Hook { news: kept.news },
                worlds: Ok(Vec::new()),
                watch: None,
                tmux: TmuxLookup::None,
            };
            self.enter(call, asked);
        }
    }

    /// A directory may be on a disk that does not answer, and tmux may not answer either, so looking at them is not
    /// this thread's business.
    #[expect(
        clippy::too_many_arguments,
        reason = "all of a call, which is passed on as it is"
    )]
    fn look_up(
        &self,
        call: CallId,
        key: IdempotencyKey,
        who: CallerIdentity,
        within: Option<PaneId>,
        caller: Arc<CallerEnv>,
        mut ask: Request,
        target: Option<String>,
    ) {
        let (says, house) = (self.says.clone(), self.house.clone());
        tokio::task::spawn_blocking(move || {
            let furnished = world::furnish(&mut ask, target.as_deref(), &caller, &house);
            let _ = says.blocking_send(EngineEvent::Furnished {
                call,
                key,
                who,
                within,
                caller,
                ask,
                furnished,
            });
        });
    }

    fn hear(&mut self, said: EngineEvent) -> Going {
        match said {
            EngineEvent::Pane(pane, fact) => {
                if let PaneEvent::Ended { .. }
                | PaneEvent::OpenFailed(_)
                | PaneEvent::NeverStarted(_) = fact
                {
                    self.panes.remove(&pane);
                }
                let changes_usage = matches!(
                    fact,
                    PaneEvent::LogGrew { .. } | PaneEvent::Ended { .. } | PaneEvent::OpenFailed(_)
                );
                let going = self.step(CoreInput::Pane { pane, event: fact });
                if changes_usage {
                    self.check_quota();
                }
                going
            }
            EngineEvent::Worker(input) => self.step(input),
            EngineEvent::Removal { pane, outcome } => {
                self.removals = self.removals.saturating_sub(1);
                match outcome {
                    sweep::Removal::Removed => {
                        let fact = PaneEvent::Removed;
                        self.step(CoreInput::Pane { pane, event: fact });
                    }
                    sweep::Removal::Kept => {}
                }
                self.over_if_nothing_is_open()
            }
            EngineEvent::Furnished {
                call,
                key,
                who,
                within,
                caller,
                ask,
                furnished,
            } => self.enter(
                call,
                CallRequest {
                    key,
                    who,
                    within,
                    caller,
                    ask,
                    worlds: furnished.worlds,
                    watch: furnished.watch,
                    tmux: furnished.tmux,
                },
            ),
        }
    }

    fn step(&mut self, input: CoreInput) -> Going {
        let effects = self.core.step(input, self.clock.now());
        self.perform(effects)
    }

    /// The directory that has the directories of all panes.
    pub fn panes_directory(&self) -> std::path::PathBuf {
        self.house.paths.panes()
    }

    pub fn client_limits(&self) -> ClientLimits {
        ClientLimits::of(&self.house.settings)
    }
}
