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
    listener::{ClientLimits, ListenerEvent},
    origin::ClientOrigin,
    pane::{PaneCommand, PaneHandle},
    pending_calls::PendingCalls,
    resolve,
    shards::{Panicked, Shards},
    store::{Report, Store, StoreContents, Writer},
    sweep,
    watchers::WatcherJobs,
    whole::WholeLogReaders,
};
use fugue_client::{paths::Paths, spool};
use shutdown::DaemonShutdown;
use storing::StoreHealth;

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
    context: Arc<DaemonContext>,
    core: Core,
    pending_calls: PendingCalls,
    shards: Shards,
    panes: HashMap<PaneId, PaneHandle>,
    /// The last one that was opened or taken up. Those behind it wait for the disk.
    newest_pane: PaneId,
    /// What they are told meanwhile.
    early_commands: BTreeMap<PaneId, Vec<PaneCommand>>,
    writer: Writer<u64>,
    store_health: StoreHealth,
    event_sender: mpsc::Sender<EngineEvent>,
    event_receiver: mpsc::Receiver<EngineEvent>,
    store_reports: mpsc::UnboundedReceiver<Report<u64>>,
    clock: Clock,
    /// Times of the boot clock at which core is to be woken.
    alarms: BTreeSet<Duration>,
    alarm: Alarm,
    stopping: Option<DaemonShutdown>,
    own_calls: u64,
    watcher_jobs: WatcherJobs,
    /// News of hooks that are kept until these calls are answered.
    spooled_reports: HashMap<CallId, IdempotencyKey>,
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
    CallResolved {
        call: CallId,
        key: IdempotencyKey,
        who: CallerIdentity,
        within: Option<PaneId>,
        caller: Arc<CallerEnv>,
        ask: Request,
        furnished: resolve::ResolvedCall,
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
enum LoopControl {
    Continue,
    Exit,
}

// Calls of the engine's own start here; those of clients count up from 1.
const OWN_CALLS: u64 = 1 << 63;
// Facts are few: state changes, not bytes. A pane that outruns the engine waits here, and only that pane.
const MAX_QUEUED_EVENTS: usize = 1024;

impl Engine {
    /// Takes up what the store knows and adopts every pane that was open.
    pub fn new(
        house: DaemonContext,
        opened: StoreContents,
        notes: Vec<String>,
        store: impl Store + 'static,
    ) -> io::Result<Self> {
        let (says, said) = mpsc::channel(MAX_QUEUED_EVENTS);
        let (report, store_reports) = mpsc::unbounded_channel();
        let writer = Writer::start(store, move |one| {
            // The engine is gone only when the process is about to be.
            let _ = report.send(one);
        })?;
        let storing = StoreHealth::new(opened.quarantine_count, notes);
        let snapshot = opened.snapshot;
        let (panics, panicked) = mpsc::unbounded_channel();
        let recorded: HashSet<PaneId> = snapshot.panes.iter().map(|pane| pane.id).collect();
        let clock = Clock::start();
        let (core, effects) = Core::restore(house.settings.clone(), snapshot, clock.now());
        let mut engine = Self {
            watcher_jobs: WatcherJobs::of(&house.paths),
            context: Arc::new(house),
            core,
            pending_calls: PendingCalls::default(),
            shards: Shards::start(&panics)?,
            panes: HashMap::new(),
            newest_pane: PaneId(0),
            early_commands: BTreeMap::new(),
            writer,
            store_health: storing,
            event_sender: says,
            event_receiver: said,
            store_reports,
            clock,
            alarms: BTreeSet::new(),
            alarm: Alarm::new()?,
            stopping: None,
            own_calls: OWN_CALLS,
            spooled_reports: HashMap::new(),
            removals: 0,
            panicked,
            over_quota: false,
        };
        let (house, age) = (
            engine.context.clone(),
            engine.context.settings.forget_after(),
        );
        tokio::task::spawn_blocking(move || {
            sweep::unrecorded(&house.paths.panes(), &recorded, age);
        });
        engine.perform(effects);
        engine.enter_spooled_reports();
        Ok(engine)
    }

    /// Until somebody asks for the daemon's end.
    pub async fn run(mut self, mut knocks: mpsc::Receiver<ListenerEvent>) -> io::Result<()> {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        loop {
            let alarm = self.alarms.first().copied();
            let store_deadline = self.store_health.deadline();
            let going = tokio::select! {
                Some(knock) = knocks.recv() => self.handle_listener_event(knock),
                Some(said) = self.event_receiver.recv() => self.handle_event(said),
                Some(Panicked { pane, message }) = self.panicked.recv() => {
                    self.panes.remove(&pane);
                    let fact = PaneEvent::TaskPanicked { message };
                    self.step(CoreInput::Pane { pane, event: fact })
                }
                Some(report) = self.store_reports.recv() => self.handle_store_report(report),
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
                _ = terminate.recv() => LoopControl::Exit,
                _ = interrupt.recv() => LoopControl::Exit,
            };
            if going == LoopControl::Exit {
                return self.store_health.outcome();
            }
        }
    }

    fn handle_listener_event(&mut self, knock: ListenerEvent) -> LoopControl {
        match knock {
            ListenerEvent::Cancelled { call } => {
                self.pending_calls.cancel(call);
                self.store_health.call_ended(call);
                self.step(CoreInput::Cancelled { call })
            }
            ListenerEvent::Call {
                ask: Request::DaemonStatus,
                responder,
                ..
            } => {
                responder.answer(Ok(Response::DaemonStatus {
                    status: self.status(),
                }));
                LoopControl::Continue
            }
            ListenerEvent::Call {
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
                        LoopControl::Continue
                    }
                }
            }
            ListenerEvent::Call {
                call,
                key,
                who,
                origin,
                caller,
                ask,
                responder,
            } => {
                let within = self.pane_of(&origin);
                self.pending_calls.open(call, responder);
                if let Request::Hook { news } = &ask
                    && news.is_kept()
                {
                    self.spooled_reports.insert(call, key);
                }
                let target = resolve::tmux_target(&ask, &caller, |said| self.core.knows(said));
                match ask {
                    ask if target.is_some() || resolve::needs_resolution(&ask, &caller) => {
                        self.resolve_call(call, key, who, within, caller, ask, target);
                        LoopControl::Continue
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
    fn pane_of(&self, origin: &ClientOrigin) -> Option<PaneId> {
        let nearest = || self.core.pane_of(&origin.ancestors);
        *origin.pane.get_or_init(nearest)
    }

    /// What hooks told while no daemon ran. We listen by now, so that none of them is told behind our back.
    fn enter_spooled_reports(&mut self) {
        for kept in spool::all(&self.context.paths) {
            let call = CallId(self.own_calls);
            self.own_calls += 1;
            self.spooled_reports.insert(call, kept.key);
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
    fn resolve_call(
        &self,
        call: CallId,
        key: IdempotencyKey,
        who: CallerIdentity,
        within: Option<PaneId>,
        caller: Arc<CallerEnv>,
        mut ask: Request,
        target: Option<String>,
    ) {
        let (says, house) = (self.event_sender.clone(), self.context.clone());
        tokio::task::spawn_blocking(move || {
            let furnished = resolve::resolve_call(&mut ask, target.as_deref(), &caller, &house);
            let _ = says.blocking_send(EngineEvent::CallResolved {
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

    fn handle_event(&mut self, said: EngineEvent) -> LoopControl {
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
                self.exit_if_finished()
            }
            EngineEvent::CallResolved {
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

    fn step(&mut self, input: CoreInput) -> LoopControl {
        let effects = self.core.step(input, self.clock.now());
        self.perform(effects)
    }

    /// The directory that has the directories of all panes.
    pub fn panes_directory(&self) -> std::path::PathBuf {
        self.context.paths.panes()
    }

    pub fn client_limits(&self) -> ClientLimits {
        ClientLimits::of(&self.context.settings)
    }
}
