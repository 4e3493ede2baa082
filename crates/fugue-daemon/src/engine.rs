//! The control plane: a loop that passes inputs to core and performs core's effects.
//!
//! The loop handles no output bytes of panes and never waits for a disk or a program. Slow work runs in other tasks and
//! threads, whose results come back as [`EngineEvent`]s.

mod daemon_status;
mod effects;
mod jobs;
mod pane_requests;
mod reload;
mod shutdown;
mod storing;

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    io,
    sync::{Arc, PoisonError, RwLock},
};

use fugue_api::{
    Error, PaneId,
    wire::{CallerEnv, CallerIdentity, IdempotencyKey, Request, Response},
};
use fugue_core::{CallId, CallRequest, Core, CoreInput, PaneEvent, TmuxLookup};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::mpsc,
    time::{Instant, sleep_until},
};

use crate::{
    clock::{Alarm, Clock},
    config::LoadedSettings,
    listener::{ClientLimits, ListenerEvent},
    origin::ClientOrigin,
    pane::{PaneCommand, PaneHandle},
    pending_calls::{PendingCalls, Responder},
    reap, resolve,
    shards::{PaneShards, TaskPanic},
    shell_environment::ShellEnvironment,
    store::{Report, Store, StoreContents, Writer},
    watchers::WatcherJobs,
    whole::WholeLogReaders,
};
use fugue_client::{paths::UserPaths, spool};
use shutdown::DaemonShutdown;
use storing::CommitTracker;

/// Settings and paths that all parts of the daemon share.
pub struct DaemonContext {
    pub paths: UserPaths,
    /// Replaced by a reload. Held for a moment only, to copy or to replace the pointer.
    settings: RwLock<Arc<LoadedSettings>>,
    pub whole_log_readers: WholeLogReaders,
    /// Incremented by every daemon start. A holder accepts commands of the highest epoch only.
    pub epoch: u64,
    /// The soft limit of open files for panes: the limit before the daemon raised the limit.
    pub nofile: Option<u64>,
    pub shell_environment: ShellEnvironment,
}

impl DaemonContext {
    pub fn new(
        paths: UserPaths,
        settings: LoadedSettings,
        epoch: u64,
        nofile: Option<u64>,
    ) -> Self {
        Self {
            paths,
            whole_log_readers: WholeLogReaders::new(settings.whole_log_readers),
            settings: RwLock::new(Arc::new(settings)),
            epoch,
            nofile,
            shell_environment: ShellEnvironment::default(),
        }
    }

    /// The settings in force.
    pub fn settings(&self) -> Arc<LoadedSettings> {
        let settings = self.settings.read().unwrap_or_else(PoisonError::into_inner);
        settings.clone()
    }

    fn set_settings(&self, settings: LoadedSettings) {
        let mut current = self
            .settings
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        *current = Arc::new(settings);
    }
}

pub struct Engine {
    context: Arc<DaemonContext>,
    core: Core,
    pending_calls: PendingCalls,
    shards: PaneShards,
    panes: HashMap<PaneId, PaneHandle>,
    /// The highest pane id that was opened or adopted. Panes with higher ids wait until their record is stored.
    newest_pane: PaneId,
    /// Commands for panes that wait until their record is stored.
    early_commands: BTreeMap<PaneId, Vec<PaneCommand>>,
    writer: Writer<u64>,
    commits: CommitTracker,
    event_sender: mpsc::Sender<EngineEvent>,
    event_receiver: mpsc::Receiver<EngineEvent>,
    store_reports: mpsc::UnboundedReceiver<Report<u64>>,
    clock: Clock,
    alarm: Alarm,
    stopping: Option<DaemonShutdown>,
    own_calls: u64,
    watcher_jobs: WatcherJobs,
    /// Spooled hook reports by the calls that enter the reports. The spool file is removed when the call is answered.
    spooled_reports: HashMap<CallId, IdempotencyKey>,
    /// Pane directories whose removal is not finished.
    removals: usize,
    panicked: mpsc::UnboundedReceiver<TaskPanic>,
    /// The output logs exceed their quota, and a warning was logged.
    over_quota: bool,
}

/// Events from pane tasks and background jobs.
pub enum EngineEvent {
    Pane(PaneId, PaneEvent),
    /// A call whose directories, programs and tmux panes were resolved outside core.
    CallResolved {
        call: CallId,
        key: IdempotencyKey,
        who: CallerIdentity,
        within: Option<PaneId>,
        caller: Arc<CallerEnv>,
        ask: Request,
        resolved: resolve::ResolvedCall,
    },
    /// The result of a background job, as an input of core.
    JobDone(CoreInput),
    /// The directory of a forgotten pane was removed, or was kept because a process inside may be alive.
    Removal {
        pane: PaneId,
        outcome: reap::DirRemoval,
    },
    /// `config.toml` was read again.
    SettingsRead {
        outcome: Result<LoadedSettings, Error>,
        responder: Responder,
    },
}

/// Whether the loop continues.
#[derive(PartialEq, Eq)]
enum LoopControl {
    Continue,
    Exit,
}

// The first call id of calls that the engine makes itself; ids of clients' calls count up from 1.
const OWN_CALLS: u64 = 1 << 63;
// Events are state changes, not output. When the channel is full, the sending pane task waits, and no other pane does.
const MAX_QUEUED_EVENTS: usize = 1024;

impl Engine {
    /// Restores core from the stored records and adopts every pane that was open.
    pub fn new(
        context: DaemonContext,
        opened: StoreContents,
        notes: Vec<String>,
        store: impl Store + 'static,
    ) -> io::Result<Self> {
        let (events, said) = mpsc::channel(MAX_QUEUED_EVENTS);
        let (report, store_reports) = mpsc::unbounded_channel();
        let writer = Writer::start(store, move |one| {
            // The receiver is dropped only at the end of the process.
            let _ = report.send(one);
        })?;
        let commits = CommitTracker::new(opened.quarantine_count, notes);
        let snapshot = opened.snapshot;
        let (panics, panicked) = mpsc::unbounded_channel();
        let recorded: HashSet<PaneId> = snapshot.panes.iter().map(|pane| pane.id).collect();
        let clock = Clock::start();
        let (core, effects) =
            Core::restore(context.settings().settings.clone(), snapshot, clock.now());
        let mut engine = Self {
            watcher_jobs: WatcherJobs::new(&context.paths),
            context: Arc::new(context),
            core,
            pending_calls: PendingCalls::default(),
            shards: PaneShards::start(&panics)?,
            panes: HashMap::new(),
            newest_pane: PaneId(0),
            early_commands: BTreeMap::new(),
            writer,
            commits,
            event_sender: events,
            event_receiver: said,
            store_reports,
            clock,
            alarm: Alarm::new()?,
            stopping: None,
            own_calls: OWN_CALLS,
            spooled_reports: HashMap::new(),
            removals: 0,
            panicked,
            over_quota: false,
        };
        let (context, age) = (
            engine.context.clone(),
            engine.context.settings().forget_after(),
        );
        tokio::task::spawn_blocking(move || {
            reap::unrecorded(&context.paths.panes(), &recorded, age);
        });
        engine.perform(effects);
        engine.enter_spooled_reports();
        Ok(engine)
    }

    /// Runs until a client or a signal stops the daemon.
    pub async fn run(
        mut self,
        mut listener_events: mpsc::Receiver<ListenerEvent>,
    ) -> io::Result<()> {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        loop {
            let alarm = self.core.next_deadline();
            let store_deadline = self.commits.deadline();
            let going = tokio::select! {
                Some(event) = listener_events.recv() => self.handle_listener_event(event),
                Some(event) = self.event_receiver.recv() => self.handle_event(event),
                Some(TaskPanic { pane, message }) = self.panicked.recv() => {
                    self.panes.remove(&pane);
                    let event = PaneEvent::TaskPanicked { message };
                    self.step(CoreInput::Pane { pane, event })
                }
                Some(report) = self.store_reports.recv() => self.handle_store_report(report),
                () = sleep_until(store_deadline.unwrap_or_else(Instant::now)), if store_deadline.is_some() => {
                    self.answer_unstored()
                }
                reached = self.alarm.reached(alarm.unwrap_or_default()), if alarm.is_some() => {
                    reached?;
                    let going = self.step(CoreInput::TimerExpired);
                    self.check_quota();
                    going
                }
                _ = terminate.recv() => LoopControl::Exit,
                _ = interrupt.recv() => LoopControl::Exit,
            };
            if going == LoopControl::Exit {
                return self.commits.outcome();
            }
        }
    }

    fn handle_listener_event(&mut self, event: ListenerEvent) -> LoopControl {
        match event {
            ListenerEvent::Cancelled { call } => {
                self.pending_calls.cancel(call);
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
                ask: Request::Settings,
                caller,
                responder,
                ..
            } => {
                responder.answer(self.settings_report(&caller));
                LoopControl::Continue
            }
            ListenerEvent::Call {
                ask: Request::ReloadSettings,
                who,
                origin,
                responder,
                ..
            } => {
                let within = self.pane_of(&origin);
                match self.core.authorize_reload(within, who) {
                    Ok(()) => self.read_settings(responder),
                    Err(error) => responder.answer(Err(error)),
                }
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
                if let Request::Hook { report } = &ask
                    && report.is_kept()
                {
                    self.spooled_reports.insert(call, key);
                }
                let target =
                    resolve::tmux_target(&ask, &caller, |said| self.core.has_pane_named(said));
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
                            request: ask,
                            launch_envs: Ok(Vec::new()),
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

    /// Enters the hook reports that were spooled while no daemon ran. The socket listens already, so that a hook that runs
    /// now reports to this daemon.
    fn enter_spooled_reports(&mut self) {
        for kept in spool::read_reports(&self.context.paths) {
            let call = CallId(self.own_calls);
            self.own_calls += 1;
            self.spooled_reports.insert(call, kept.key);
            let asked = CallRequest {
                key: kept.key,
                who: kept.who,
                within: None,
                caller: Arc::new(CallerEnv::nobody()),
                request: Request::Hook {
                    report: kept.report,
                },
                launch_envs: Ok(Vec::new()),
                watch: None,
                tmux: TmuxLookup::None,
            };
            self.enter(call, asked);
        }
    }

    /// Resolves a call on a blocking thread: a file system or tmux may not respond.
    #[expect(
        clippy::too_many_arguments,
        reason = "the parts of one call, passed on unchanged"
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
        let (events, context) = (self.event_sender.clone(), self.context.clone());
        tokio::task::spawn_blocking(move || {
            let resolved = resolve::resolve_call(&mut ask, target.as_deref(), &caller, &context);
            let _ = events.blocking_send(EngineEvent::CallResolved {
                call,
                key,
                who,
                within,
                caller,
                ask,
                resolved,
            });
        });
    }

    fn handle_event(&mut self, event: EngineEvent) -> LoopControl {
        match event {
            EngineEvent::Pane(pane, event) => {
                if let PaneEvent::Ended { .. }
                | PaneEvent::OpenFailed(_)
                | PaneEvent::NeverStarted(_) = event
                {
                    self.panes.remove(&pane);
                }
                let changes_usage = matches!(
                    event,
                    PaneEvent::LogGrew { .. } | PaneEvent::Ended { .. } | PaneEvent::OpenFailed(_)
                );
                let going = self.step(CoreInput::Pane { pane, event });
                if changes_usage {
                    self.check_quota();
                }
                going
            }
            EngineEvent::JobDone(input) => self.step(input),
            EngineEvent::SettingsRead { outcome, responder } => {
                self.put_settings_into_force(outcome, responder)
            }
            EngineEvent::Removal { pane, outcome } => {
                self.removals = self.removals.saturating_sub(1);
                match outcome {
                    reap::DirRemoval::Removed => {
                        let event = PaneEvent::Removed;
                        self.step(CoreInput::Pane { pane, event });
                    }
                    reap::DirRemoval::Kept => {}
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
                resolved,
            } => self.enter(
                call,
                CallRequest {
                    key,
                    who,
                    within,
                    caller,
                    request: ask,
                    launch_envs: resolved.launch_envs,
                    watch: resolved.watch,
                    tmux: resolved.tmux,
                },
            ),
        }
    }

    fn step(&mut self, input: CoreInput) -> LoopControl {
        let effects = self.core.step(input, self.clock.now());
        self.perform(effects)
    }

    /// The parent directory of all pane directories.
    pub fn panes_directory(&self) -> std::path::PathBuf {
        self.context.paths.panes()
    }

    pub fn client_limits(&self) -> ClientLimits {
        ClientLimits::of(&self.context.settings())
    }
}
