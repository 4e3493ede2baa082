//! The control plane: one loop that hands core what happened and performs what core decides.
//!
//! It never touches a pane's bytes and never waits for a disk or a program; whatever takes time is somebody else's
//! task and comes back as an input.

mod storing;

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    io,
    sync::Arc,
    time::Duration,
};

use fugue_api::{
    Error, ErrorKind, PaneId, ToolCall, ToolReply,
    panes::{ClosePane, GetStatusReply, Overview},
    wire::{
        CallerEnv, CallerIdentity, DaemonStatus, IdempotencyKey, LogsStatus, Request, Response,
    },
};
use fugue_core::{
    AfterCommit, CallId, CallRequest, Core, CoreInput, Effect, Inventory, LogUsage, PaneAdoption,
    PaneEvent, PaneRequest, TmuxLookup, settings::Settings, view,
};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::{mpsc, oneshot},
    time::{Instant, sleep_until},
};

use crate::{
    archive,
    clock::{Alarm, Clock},
    compose,
    desk::{PendingCalls, Responder},
    door::{ClientLimits, Knock},
    follow, gc,
    origin::Origin,
    pane::{self, Inject, PaneCommand, PaneHandle, Quiet, launch},
    shards::{Panicked, Shards, Task},
    store::{Opened, Report, Store, Writer},
    sweep,
    watchers::{Errand, Errands},
    whole::{self, WholeLogReaders},
    workers, world,
};
use fugue_client::{paths::Paths, spool};
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

/// The end of the daemon, waiting for its panes.
struct Stopping {
    /// Removes what tmux shows of panes that have ended.
    views: Option<std::thread::JoinHandle<()>>,
    asker: Option<Responder>,
    open: HashSet<CallId>,
    closed: u64,
}

/// Whether the loop goes on.
#[derive(PartialEq, Eq)]
enum Going {
    On,
    Over,
}

// Calls of the engine's own start here; those of clients count up from 1.
const OWN_CALLS: u64 = 1 << 63;
// A pane that replays a long log answers late; an overview does not wait for it.
const PATIENCE_FOR_A_ROW: Duration = Duration::from_millis(500);
// What a tool's reply may hold where the caller did not say.
const MODEL_CHARS: usize = 10_000;
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
            let alarm = self.core.next_deadline();
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
                    let going = self.step(CoreInput::TimerExpired);
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

    /// Performs an effect that waits for no commit.
    fn act(&mut self, effect: Effect) -> Going {
        match effect {
            Effect::Reply { call, answer } => return self.reply(call, answer),
            Effect::AdoptPane(adoption) => self.adopt(*adoption),
            Effect::ListGarbage { call, inventory } => self.collect_garbage(call, inventory, true),
            Effect::ClosePane { pane, grace } => self.tell(pane, PaneCommand::Close { grace }),
            Effect::EndProcesses { pane, grace } => self.sweep(pane, grace),
            Effect::CollectChanges { worker, repo, tail } => {
                self.for_worker(move |house| CoreInput::ChangesCollected {
                    worker,
                    found: workers::work_out(repo.as_ref(), tail.as_deref(), house),
                })
            }
            Effect::ResizePane { pane, size } => self.tell(pane, PaneCommand::Fit(size)),
            Effect::ShowAgentState { pane, says } => self.tell(pane, PaneCommand::AgentSays(says)),
            Effect::AwaitQuiet {
                pane,
                watcher,
                step,
                quiet,
                lines,
            } => {
                let quiet = Quiet {
                    watcher,
                    step,
                    quiet,
                    lines,
                };
                self.tell(pane, PaneCommand::AwaitQuiet(quiet));
            }
            Effect::CancelQuiet { pane, watcher } => {
                self.tell(pane, PaneCommand::ForgetQuiet(watcher));
            }
            Effect::AwaitIdle { pane, over } => self.tell(pane, PaneCommand::AwaitRest(over)),
            Effect::AskPane {
                call,
                pane,
                question,
            } => self.ask(call, pane, question),
            Effect::AskArchive {
                call,
                record,
                question,
            } => {
                if let Some(responder) = self.desk.take(call) {
                    let answer = archive::answer(record, question, self.house.clone());
                    let task = whole::answer_later(responder, answer);
                    self.desk.waits(call, task.abort_handle());
                }
            }
            Effect::CompleteOverview {
                call,
                overview,
                live,
                bounded,
            } => self.survey(call, overview, live, bounded),
            Effect::CancelExpect { pane, run } => self.tell(pane, PaneCommand::Unwatch(run)),
            Effect::StopSteps { pane, plan } => self.tell(pane, PaneCommand::StopSteps(plan)),
        }
        Going::On
    }

    /// Performs an effect whose commit is stored.
    fn act_stored(&mut self, effect: AfterCommit) -> Going {
        match effect {
            AfterCommit::Reply { call, answer } => return self.reply(call, answer),
            AfterCommit::AdoptPane(adoption) => self.adopt(*adoption),
            AfterCommit::AskPane {
                call,
                pane,
                question,
            } => self.ask(call, pane, question),
            AfterCommit::CollectGarbage { call, inventory } => {
                self.collect_garbage(call, inventory, false);
            }
            AfterCommit::ClosePane { pane, grace } => self.tell(pane, PaneCommand::Close { grace }),
            AfterCommit::EndProcesses { pane, grace } => self.sweep(pane, grace),
            AfterCommit::Deliver {
                call,
                answer,
                event,
            } => self.desk.hand(call, answer, event),
            AfterCommit::PrepareWorker { worker, caller } => {
                self.for_worker(move |house| CoreInput::WorkerPrepared {
                    worker: worker.number,
                    outcome: workers::prepare(&worker, &caller, house),
                })
            }
            AfterCommit::UnprepareWorker { worker, error } => self.for_worker(move |house| {
                workers::unprepare(&worker, house);
                CoreInput::WorkerUnprepared {
                    worker: worker.number,
                    error,
                }
            }),
            AfterCommit::RemoveWorkerFiles { worker } => {
                let house = self.house.clone();
                tokio::task::spawn_blocking(move || workers::forget(&worker, &house));
            }
            AfterCommit::RunWatcherCommand {
                watcher,
                step,
                command,
                cwd,
                caller,
                limit,
            } => {
                let errand = Errand {
                    watcher,
                    step,
                    command,
                    cwd,
                    caller,
                    limit,
                };
                self.errands.run(errand, self.says.clone());
            }
            AfterCommit::Assess { job, caller } => {
                self.errands.judge(*job, &caller, self.says.clone())
            }
            AfterCommit::CancelWatcherJob { watcher } => self.errands.stop(watcher),
            AfterCommit::Inject {
                pane,
                watcher,
                step,
                line,
                enter,
                seen,
            } => {
                let inject = Inject {
                    watcher,
                    step,
                    line,
                    enter,
                    seen,
                };
                self.tell(pane, PaneCommand::Inject(inject));
            }
            AfterCommit::TypeMessage { pane, event, text } => {
                self.tell(pane, PaneCommand::TypeMessage { event, text });
            }
            AfterCommit::OpenPane {
                record,
                job,
                env,
                world,
                caller,
            } => {
                let start = launch::PaneLaunch {
                    job,
                    env,
                    world,
                    caller,
                };
                let (handle, task) =
                    pane::open(*record, start, self.house.clone(), self.says.clone());
                self.install(handle, task);
            }
            AfterCommit::RemovePaneDir { pane } => {
                let dir = self.house.paths.panes().join(pane.to_string());
                let says = self.says.clone();
                self.removals += 1;
                tokio::task::spawn_blocking(move || {
                    let outcome = sweep::remove_pane_dir(&dir);
                    let _ = says.blocking_send(EngineEvent::Removal { pane, outcome });
                });
            }
            AfterCommit::StartExpect { pane, watch } => self.tell(pane, PaneCommand::Watch(watch)),
            AfterCommit::SearchArchive { record, watch } => {
                let (says, house) = (self.says.clone(), self.house.clone());
                tokio::spawn(async move {
                    let pane = record.id;
                    for fact in archive::search(record, &watch, house).await {
                        let _ = says.send(EngineEvent::Pane(pane, fact)).await;
                    }
                });
            }
            AfterCommit::RunSteps { pane, plan } => self.tell(pane, PaneCommand::RunSteps(plan)),
            AfterCommit::ComposeReply {
                call,
                run,
                wrap,
                result,
                parts,
                most_chars,
            } => {
                let parts = parts.into_iter().map(|part| {
                    let part = part?;
                    let handle = self.panes.get(&part.record.id).cloned();
                    Some((part, handle))
                });
                let says = self.says.clone();
                let answer = self.desk.take(call).map(|responder| {
                    let (parts, house) = (parts.collect(), self.house.clone());
                    let reply = compose::reply(*result, parts, most_chars, wrap, house);
                    let task = whole::answer_later(responder, reply);
                    self.desk.waits(call, task.abort_handle());
                    task
                });
                tokio::spawn(async move {
                    let delivered = match answer {
                        Some(answer) => answer.await.unwrap_or(false),
                        None => false,
                    };
                    let composed = CoreInput::ReplyComposed { run, delivered };
                    let _ = says.send(EngineEvent::Worker(composed)).await;
                });
            }
        }
        Going::On
    }

    fn reply(&mut self, call: CallId, answer: Result<Response, Error>) -> Going {
        if let Some(key) = self.kept_news.remove(&call) {
            let house = self.house.clone();
            tokio::task::spawn_blocking(move || spool::forget(&house.paths, key));
        }
        if call.0 >= OWN_CALLS {
            return self.own_call_ended(call);
        }
        self.desk.answer(call, answer);
        Going::On
    }

    fn adopt(&mut self, adoption: PaneAdoption) {
        let PaneAdoption { record, steps, how } = adoption;
        let (handle, task) = pane::adopt(record, steps, how, self.house.clone(), self.says.clone());
        self.install(handle, task);
    }

    fn collect_garbage(&mut self, call: CallId, inventory: Inventory, dry_run: bool) {
        let (house, says) = (self.house.clone(), self.says.clone());
        let responder = self.desk.take(call);
        if !dry_run {
            self.removals += inventory.forgotten.len();
        }
        tokio::task::spawn_blocking(move || {
            let removed = |pane, outcome| {
                let _ = says.blocking_send(EngineEvent::Removal { pane, outcome });
            };
            let collected = gc::collect(&inventory, dry_run, &house.paths, removed);
            if let Some(responder) = responder {
                responder.answer(Ok(Response::Garbage { collected }));
            }
        });
    }

    fn sweep(&self, pane: PaneId, grace: Duration) {
        let dir = self.house.paths.panes().join(pane.to_string());
        let says = self.says.clone();
        tokio::task::spawn_blocking(move || {
            sweep::pane(pane, &dir, grace);
            let _ = says.blocking_send(EngineEvent::Pane(pane, PaneEvent::Swept));
        });
    }

    /// Files and git take their time, and nobody else waits for that.
    fn for_worker(&self, work: impl FnOnce(&DaemonContext) -> CoreInput + Send + 'static) {
        let (says, house) = (self.says.clone(), self.house.clone());
        tokio::task::spawn_blocking(move || {
            let input = work(&house);
            let _ = says.blocking_send(EngineEvent::Worker(input));
        });
    }

    fn tell(&mut self, pane: PaneId, command: PaneCommand) {
        match self.panes.get(&pane) {
            Some(handle) => handle.tell(command),
            None if pane > self.newest => self.early.entry(pane).or_default().push(command),
            // A pane that has just ended is told of to core as well, which then asks its files.
            None => {}
        }
    }

    fn install(&mut self, handle: PaneHandle, task: Task) {
        let pane = handle.id();
        self.newest = self.newest.max(pane);
        // Of those before it none is opened any more.
        let later = self.early.split_off(&PaneId(pane.0 + 1));
        let mut early = std::mem::replace(&mut self.early, later);
        for command in early.remove(&pane).into_iter().flatten() {
            handle.tell(command);
        }
        self.panes.insert(pane, handle);
        self.shards.spawn(pane, task);
    }

    fn ask(&mut self, call: CallId, pane: PaneId, question: PaneRequest) {
        let Some(handle) = self.panes.get(&pane) else {
            // It ended a moment ago, and core hears of it next.
            let error =
                Error::new(ErrorKind::Ended, format!("pane `{pane}` is ending")).hint("ask again");
            return self.desk.answer(call, Err(error));
        };
        let Some(responder) = self.desk.take(call) else {
            return;
        };
        if let PaneRequest::Follow { from } = question {
            let wait = tokio::spawn(follow::live(handle.clone(), from, responder));
            self.desk.waits(call, wait.abort_handle());
        } else if let Err(PaneCommand::Ask { responder, .. }) = handle.try_tell(PaneCommand::Ask {
            question,
            responder,
        }) {
            let error = Error::new(
                ErrorKind::Unavailable,
                format!("pane `{pane}` has too much to do"),
            )
            .hint("ask again");
            responder.answer(Err(error));
        }
    }

    /// Completes the rows of live panes, each by its own task.
    fn survey(&mut self, call: CallId, mut overview: Overview, live: Vec<PaneId>, bounded: bool) {
        let Some(responder) = self.desk.take(call) else {
            return;
        };
        let asked: Vec<_> = live
            .into_iter()
            .filter_map(|pane| {
                let (answer, answered) = oneshot::channel();
                self.panes
                    .get(&pane)?
                    .try_tell(PaneCommand::Brief(answer))
                    .ok()?;
                Some((pane, answered))
            })
            .collect();
        let answer = move |mut overview| {
            if bounded {
                view::bound_overview(&mut overview, MODEL_CHARS);
            }
            let reply = ToolReply::GetStatus(GetStatusReply::All(overview));
            responder.answer(Ok(Response::Tool { reply }));
        };
        if asked.is_empty() {
            return answer(overview);
        }
        tokio::spawn(async move {
            let deadline = Instant::now() + PATIENCE_FOR_A_ROW;
            for (pane, answered) in asked {
                let brief = tokio::time::timeout_at(deadline, answered).await;
                if let (Ok(Ok(brief)), Ok(index)) = (
                    brief,
                    overview
                        .panes
                        .binary_search_by_key(&pane, |row| row.pane_id),
                ) {
                    overview.panes[index].state = brief.state;
                    overview.panes[index].idle_ms = brief.idle_ms;
                }
            }
            answer(overview);
        });
    }

    fn status(&self) -> DaemonStatus {
        DaemonStatus {
            pid: std::process::id(),
            socket: self.house.paths.socket().to_string_lossy().into_owned(),
            version: env!("CARGO_PKG_VERSION").into(),
            uptime_ms: u64::try_from(self.clock.uptime().as_millis()).unwrap_or(u64::MAX),
            panes: self.core.live_panes().count() as u64,
            epoch: self.house.epoch,
            store: self.storing.status(),
            logs: self.logs_status(),
        }
    }

    fn logs_status(&self) -> LogsStatus {
        let LogUsage {
            ended_bytes,
            running_bytes,
        } = self.core.log_usage();
        let quota_bytes = self.house.settings.logs_quota_bytes();
        let is_over = quota_bytes.is_some_and(|quota| ended_bytes + running_bytes > quota);
        let note = "the output logs exceed `logs_quota_mb`, and running panes or open runs need what is left: close \
                    panes, or raise the quota";
        LogsStatus {
            ended_bytes,
            running_bytes,
            quota_bytes,
            note: is_over.then(|| note.to_owned()),
        }
    }

    /// Logs when the output logs begin or cease to exceed their quota.
    fn check_quota(&mut self) {
        let logs = self.logs_status();
        if logs.note.is_some() == self.over_quota {
            return;
        }
        self.over_quota = logs.note.is_some();
        if self.over_quota {
            tracing::warn!(
                running_bytes = logs.running_bytes,
                ended_bytes = logs.ended_bytes,
                quota_bytes = logs.quota_bytes,
                "output logs exceed the quota and nothing more can be forgotten"
            );
        } else {
            tracing::info!("output logs are within the quota again");
        }
    }

    /// The directory that has the directories of all panes.
    pub fn panes_directory(&self) -> std::path::PathBuf {
        self.house.paths.panes()
    }

    pub fn client_limits(&self) -> ClientLimits {
        ClientLimits::of(&self.house.settings)
    }

    fn stop(&mut self, asker: Responder, panes: bool) -> Going {
        if self.stopping.is_some() {
            asker.answer(Err(Error::new(
                ErrorKind::Unavailable,
                "the daemon is stopping already",
            )));
            return Going::On;
        }
        let live: Vec<PaneId> = if panes {
            self.core.own_panes().collect()
        } else {
            Vec::new()
        };
        let calls: Vec<CallId> = live
            .iter()
            .enumerate()
            .map(|(n, _)| CallId(self.own_calls + n as u64))
            .collect();
        self.own_calls += calls.len() as u64;
        let open = calls.iter().copied().collect();
        let views = panes.then(|| {
            let dir = self.house.paths.panes();
            std::thread::spawn(move || sweep::ended_views(&dir))
        });
        self.stopping = Some(Stopping {
            views,
            asker: Some(asker),
            open,
            closed: live.len() as u64,
        });
        let caller = Arc::new(CallerEnv::nobody());
        for (call, pane) in calls.into_iter().zip(live) {
            let close = ClosePane {
                pane_id: pane.to_string(),
                grace_ms: ClosePane::grace_ms(),
            };
            let ask = Request::Tool {
                call: ToolCall::ClosePane(close),
            };
            let asked = CallRequest {
                key: IdempotencyKey([0; 16]),
                who: CallerIdentity::Person {
                    project: String::new(),
                },
                within: None,
                caller: caller.clone(),
                ask,
                worlds: Ok(Vec::new()),
                watch: None,
                tmux: TmuxLookup::None,
            };
            self.enter(call, asked);
        }
        self.over_if_nothing_is_open()
    }

    fn own_call_ended(&mut self, call: CallId) -> Going {
        if let Some(stopping) = &mut self.stopping {
            stopping.open.remove(&call);
        }
        self.over_if_nothing_is_open()
    }

    fn over_if_nothing_is_open(&mut self) -> Going {
        let Some(stopping) = self
            .stopping
            .as_mut()
            .filter(|stopping| stopping.open.is_empty() && self.removals == 0)
        else {
            return Going::On;
        };
        // Nothing else is left to do, and what is not through by now never will be.
        if let Some(views) = stopping.views.take() {
            let _ = views.join();
        }
        if let Some(asker) = stopping.asker.take() {
            asker.answer(Ok(Response::Stopping {
                panes_closed: stopping.closed,
            }));
        }
        Going::Over
    }
}
