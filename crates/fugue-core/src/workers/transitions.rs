//! The state machine of workers: preparing, opening, live, ended or failed.

use std::{sync::Arc, time::Duration};

use fugue_api::{
    Error, ErrorKind, EventId, PaneId, ToolReply,
    inbox_event::{CompletionStatus, InboxEvent},
    overview::WorkerRow,
    tools::SpawnWorkerReply,
    wire::CallerEnv,
};

use super::{Team, TurnEnd};
use crate::{
    AfterCommit, CallId, Change, ClockReading, Counter, EnvironmentOwner, ExitStatus, InputRequest,
    LaunchEnv, PaneJob, PaneRecord, RecordId, StartTarget, StoredWorker, Undo, WorkerLaunch,
    WorkerPhase, WorkerRecord,
    context::{Context, StepBuilder},
    inbox::NewEvent,
    pane_machine::AgentSight,
    panes::{
        NewPane,
        replies::{cut, put},
    },
    timer::Timer,
};

/// A worker and its waiting calls.
#[derive(Debug)]
pub(crate) struct WorkerEntry {
    pub record: WorkerRecord,
    /// The environment that the worker starts from. Dropped when the worker runs.
    caller: Option<Arc<CallerEnv>>,
    spawners: Vec<CallId>,
    /// The `notify_completion` calls that wait for the pending completions, in the same order.
    pub notifiers: Vec<Option<CallId>>,
    /// The daemon collects changes for the first pending completion.
    pub working_out: bool,
    /// The pane was asked to report when it is idle, with this proof of the turn's end.
    pub awaited: Option<TurnEnd>,
    /// The message that is being typed.
    pub typing: Option<EventId>,
    /// A hook has reported a prompt since typing began.
    pub prompted: bool,
    /// `send_message` calls that wait for the outcome of typing.
    pub senders: Vec<(CallId, EventId)>,
    /// What the screen shows, as the pane reported last.
    pub sight: AgentSight,
    /// The screen has shown the begin of the turn, and the report of a hook follows.
    pub begun_by_screen: bool,
    /// The agent was seen at work since a usage limit paused it.
    pub works_on: bool,
    /// When the usage limit was reported, on the boot clock.
    pub paused_at: Option<Duration>,
}

// The limit of ended workers that are listed and whose instances are counted.
const MAX_ENDED_WORKERS: usize = 1_000;

impl WorkerEntry {
    pub fn restored(stored: StoredWorker) -> Self {
        let notifiers = vec![None; stored.record.pending_completions.len()];
        Self {
            record: stored.record,
            caller: stored.caller.map(Arc::new),
            spawners: Vec::new(),
            notifiers,
            working_out: false,
            awaited: None,
            typing: None,
            prompted: false,
            senders: Vec::new(),
            sight: AgentSight::default(),
            begun_by_screen: false,
            works_on: false,
            paused_at: None,
        }
    }

    /// Removes the environment of the caller, which is not needed after the worker was started.
    fn remove_environment(&mut self, out: &mut StepBuilder) {
        if self.caller.take().is_some() {
            let owner = EnvironmentOwner::Worker(self.record.number);
            out.commit([Change::remove_environment(owner)]);
        }
    }

    pub fn forget(&mut self, gone: CallId) {
        self.spawners.retain(|call| *call != gone);
        for notifier in &mut self.notifiers {
            notifier.take_if(|call| *call == gone);
        }
        self.senders.retain(|(call, _)| *call != gone);
    }

    /// Whether a message may be typed once the pane is idle, and by which proof. Never before the first prompt was taken.
    pub fn takes_prompts(&self) -> Option<TurnEnd> {
        let tells = self.record.ready.as_ref().is_some_and(|ready| ready.hooks);
        let takes = self.record.phase == WorkerPhase::Live && self.record.has_input_box();
        if !takes || self.record.asks.is_some() {
            None
        } else if self.record.reported || self.record.turn_over || !tells {
            Some(TurnEnd::Reported)
        } else {
            self.record.begun.then_some(TurnEnd::Unknown)
        }
    }

    pub fn row(&self) -> WorkerRow {
        WorkerRow {
            worker_id: self.record.id.clone(),
            instance: self.record.instance,
            session_id: self.record.lead.0.clone(),
            agent: self.record.agent.clone(),
            pane_id: Some(self.record.pane),
            state: self.state(),
            turn: self.record.turn,
            branch: self.record.branch().map(str::to_owned),
            cwd: self.record.branch().and_then(|_| self.record.own_cwd()),
            started_at: Some(self.record.started_at.wall),
        }
    }

    fn spawned(&self, call: CallId) -> AfterCommit {
        let record = &self.record;
        let ready = record.ready.as_ref();
        let cwd = ready.map_or(&record.launch_env.cwd, |ready| &ready.cwd);
        let branch = ready.and_then(|ready| ready.branch.clone());
        let reply = ToolReply::SpawnWorker(SpawnWorkerReply {
            worker_id: record.id.clone(),
            pane_id: record.pane,
            session_id: record.lead.0.clone(),
            agent: record.agent.clone(),
            cwd: branch.is_some().then(|| cwd.to_string_lossy().into_owned()),
            branch,
            note: ready.and_then(|ready| ready.note.clone()),
        });
        AfterCommit::tool_reply(call, reply)
    }

    /// The job and launch environment of the process.
    fn job(&self) -> Option<(PaneJob, LaunchEnv)> {
        let ready = self.record.ready.as_ref()?;
        let launch_env = LaunchEnv {
            cwd: ready.cwd.clone(),
            ..self.record.launch_env.clone()
        };
        let job = PaneJob::Program(ready.argv.clone());
        Some((job, launch_env))
    }
}

impl Team {
    pub fn spawners_in(&self, pane: PaneId) -> Vec<CallId> {
        let workers = self.workers.values();
        workers
            .filter(|worker| worker.record.pane == pane)
            .flat_map(|worker| &worker.spawners)
            .copied()
            .collect()
    }

    pub fn senders_of(&self, event: EventId) -> Vec<CallId> {
        let all = self.workers.values().flat_map(|worker| &worker.senders);
        all.filter(|(_, sent)| *sent == event)
            .map(|(call, _)| *call)
            .collect()
    }
}

impl Team {
    /// Attaches a repeated `spawn_worker` call to its worker.
    pub(super) fn rejoin_spawn(&mut self, call: CallId, number: u64, out: &mut StepBuilder) {
        let Some(worker) = self.workers.get_mut(&number) else {
            return;
        };
        match worker.record.phase {
            WorkerPhase::Live | WorkerPhase::Ended => {
                out.when_stored().then(worker.spawned(call));
            }
            WorkerPhase::Preparing | WorkerPhase::Opening | WorkerPhase::Failed => {
                worker.spawners.push(call);
            }
        }
    }

    pub(super) fn begin_worker(
        &mut self,
        call: CallId,
        record: WorkerRecord,
        caller: Arc<CallerEnv>,
        cx: &mut Context,
    ) {
        let number = record.number;
        self.next_worker = number + 1;
        cx.panes.next = record.pane.0 + 1;
        let remembered = StartTarget::Worker(number);
        let now = cx.now();
        let mut changes = cx.starts.remember(record.made_by, remembered, now);
        changes.extend([
            Change::SetCounter(Counter::NextPane, cx.panes.next),
            Change::SetCounter(Counter::NextWorker, self.next_worker),
            Change::put_environment(EnvironmentOwner::Worker(number), caller.clone()),
            Change::put(record.clone()),
        ]);
        cx.out.commit(changes).or_undo(Undo::Worker(number));
        cx.out.when_stored().then(AfterCommit::PrepareWorker {
            worker: Box::new(record.clone()),
            caller: caller.clone(),
        });
        let mut worker = WorkerEntry::restored(StoredWorker {
            record,
            caller: None,
        });
        worker.caller = Some(caller);
        worker.spawners.push(call);
        self.workers.insert(number, worker);
    }

    /// Opens the pane of a prepared worker. A worker whose files could not be made is dropped; none of its files is left.
    pub fn prepared(
        &mut self,
        number: u64,
        outcome: Result<WorkerLaunch, Error>,
        cx: &mut Context,
    ) {
        let now = cx.now();
        let ready = match outcome {
            Ok(ready) => ready,
            Err(error) => return self.drop_worker(number, &error, cx),
        };
        let Some(worker) = self.workers.get_mut(&number) else {
            return;
        };
        let Some(caller) = worker.caller.clone() else {
            return;
        };
        let env = ready.env.clone();
        worker.record.ready = Some(ready);
        worker.record.phase = WorkerPhase::Opening;
        worker.stored(&mut cx.out);
        let Some((job, launch_env)) = worker.job() else {
            return;
        };
        let record = worker.record.clone();
        let session = cx
            .panes
            .session_for(record.args.layout, &caller, Some(&launch_env));
        let prompt = record.args.prompt.lines().next().unwrap_or_default();
        let pane = cx.panes.enter(
            NewPane {
                session,
                name: record.id.clone(),
                command: format!("{}: {prompt}", record.agent),
                size: crate::runs::SIZE,
                launch_env: &launch_env,
                key: record.made_by,
                opened_by: record.opened_by.clone(),
                callers: Vec::new(),
                promised: Some(record.pane),
                agent: Some(record.agent.clone()),
            },
            now,
        );
        cx.out.commit([put(&pane)]);
        cx.out.when_stored().then(AfterCommit::OpenPane {
            record: Box::new(pane),
            job,
            env,
            launch_env,
            caller,
        });
    }

    /// Removes a worker that failed to start and refuses its pending calls.
    pub fn drop_worker(&mut self, number: u64, error: &Error, cx: &mut Context) {
        let Some(worker) = self.workers.remove(&number) else {
            return;
        };
        let mut changes = vec![
            Change::Remove(RecordId::Worker(number)),
            Change::remove_environment(EnvironmentOwner::Worker(number)),
        ];
        changes.extend(cx.starts.undo(&StartTarget::Worker(number)));
        cx.out.commit(changes);
        for call in worker.spawners {
            cx.out.when_stored().reply(call, Err(error.clone()));
        }
    }

    /// Removes a worker whose start could not be stored.
    pub fn worker_not_stored(&mut self, number: u64, why: &str, cx: &mut Context) {
        let error = Error::new(
            ErrorKind::Exhausted,
            format!("the new worker could not be recorded: {why}"),
        )
        .hint("nothing was started; is the disk full, or read-only?");
        self.drop_worker(number, &error, cx);
    }

    pub(super) fn entry_in(&mut self, pane: PaneId) -> Option<&mut WorkerEntry> {
        let workers = self.workers.values_mut();
        workers
            .filter(|worker| worker.record.pane == pane)
            .max_by_key(|worker| worker.record.number)
    }

    pub fn worker_row(&self, pane: PaneId) -> Option<WorkerRow> {
        let mut workers = self.workers.values();
        workers
            .find(|worker| worker.record.pane == pane)
            .map(WorkerEntry::row)
    }

    pub fn worker_rows(&self) -> Vec<WorkerRow> {
        self.workers.values().map(WorkerEntry::row).collect()
    }

    /// The attention request that the agent in a pane has reported.
    pub fn attention_request(&self, pane: PaneId) -> Option<InputRequest> {
        let mut workers = self.workers.values();
        workers
            .find(|worker| worker.record.pane == pane)
            .and_then(|worker| worker.record.asks.clone())
    }

    pub fn worker_opened(&mut self, pane: PaneId, out: &mut StepBuilder) {
        let Some(worker) = self.entry_in(pane) else {
            return;
        };
        if worker.record.phase != WorkerPhase::Opening {
            return;
        }
        worker.record.phase = WorkerPhase::Live;
        worker.remove_environment(out);
        // The prompt, arguments and environment are not needed again and may be long.
        worker.record.args.prompt = cut(&worker.record.args.prompt, 200);
        if let Some(ready) = &mut worker.record.ready {
            ready.argv.clear();
            ready.env.clear();
        }
        out.commit([Change::put(worker.record.clone())]);
        for call in std::mem::take(&mut worker.spawners) {
            out.when_stored().then(worker.spawned(call));
        }
        worker.set_deadline(out);
    }

    /// Has the files of a worker removed whose pane could not be opened. Its calls are refused after that.
    pub fn worker_not_opened(&mut self, pane: PaneId, error: &Error, out: &mut StepBuilder) {
        if let Some(worker) = self.entry_in(pane)
            && worker.record.phase == WorkerPhase::Opening
        {
            worker.record.phase = WorkerPhase::Failed;
            worker.remove_environment(out);
            worker.stored(out);
            out.when_stored().then(AfterCommit::UnprepareWorker {
                worker: Box::new(worker.record.clone()),
                error: error.clone(),
            });
        }
    }

    /// Opens the pane of a worker that an earlier daemon recorded but never started. Returns `false` if no worker needs the
    /// pane, and after a reboot, when nothing is started again.
    pub fn reopen_pane(&self, pane: &PaneRecord, out: &mut StepBuilder) -> bool {
        let now = out.now();
        let mut workers = self.workers.values();
        let worker = workers
            .find(|worker| worker.record.pane == pane.id)
            .filter(|worker| worker.record.phase == WorkerPhase::Opening)
            .filter(|worker| !now.is_after_reboot(worker.record.started_at));
        let open = worker.and_then(|worker| {
            let (job, launch_env) = worker.job()?;
            Some(AfterCommit::OpenPane {
                record: Box::new(pane.clone()),
                job,
                env: worker.record.ready.as_ref()?.env.clone(),
                launch_env,
                caller: worker.caller.clone()?,
            })
        });
        let is_reopened = open.is_some();
        if let Some(open) = open {
            out.when_stored().then(open);
        }
        is_reopened
    }

    /// Continues the work of an earlier daemon: starts, removals of failed workers, ends, pending completions and
    /// messages to be typed.
    pub fn restore_workers(&mut self, cx: &mut Context) {
        let now = cx.now();
        let numbers: Vec<u64> = self.workers.keys().copied().collect();
        for number in numbers {
            let Some(worker) = self.workers.get(&number) else {
                continue;
            };
            worker.set_deadline(&mut cx.out);
            let pane = cx.panes.get(&worker.record.pane);
            match (worker.record.phase, &worker.caller) {
                (WorkerPhase::Preparing, _) if now.is_after_reboot(worker.record.started_at) => {
                    let error = Error::new(
                        ErrorKind::Unavailable,
                        "the machine was restarted before the worker was started",
                    );
                    cx.out.when_stored().then(AfterCommit::UnprepareWorker {
                        worker: Box::new(worker.record.clone()),
                        error,
                    });
                }
                (WorkerPhase::Preparing, Some(caller)) => {
                    cx.out.when_stored().then(AfterCommit::PrepareWorker {
                        worker: Box::new(worker.record.clone()),
                        caller: caller.clone(),
                    });
                }
                (WorkerPhase::Failed, _) => {
                    let error = Error::new(
                        ErrorKind::Unavailable,
                        "the daemon died while it started this",
                    );
                    cx.out.when_stored().then(AfterCommit::UnprepareWorker {
                        worker: Box::new(worker.record.clone()),
                        error,
                    });
                }
                (WorkerPhase::Live | WorkerPhase::Opening, _)
                    if pane.is_none_or(|pane| pane.record.ended.is_some()) =>
                {
                    let pane = worker.record.pane;
                    self.worker_ended(pane, cx);
                }
                _ => {}
            }
            self.restore_attention(number, &mut cx.out);
            self.collect_changes(number, cx);
            self.type_next_message(number, None, cx);
        }
    }

    /// Ends a worker whose process has ended, with a completion if the worker has not reported.
    pub fn worker_ended(&mut self, pane: PaneId, cx: &mut Context) {
        let ended = cx
            .panes
            .get(&pane)
            .and_then(|pane| pane.record.ended.as_ref());
        let exit = ended.map_or(ExitStatus::Unknown, |ended| ended.exit.clone());
        let is_closed = ended.is_some_and(|ended| ended.closed);
        let Some(worker) = self.entry_in(pane) else {
            return;
        };
        if worker.record.is_over() {
            return;
        }
        let number = worker.record.number;
        worker.record.phase = WorkerPhase::Ended;
        worker.remove_environment(&mut cx.out);
        worker.record.asks = None;
        worker.record.pause = None;
        worker.withdraw_attention(cx);
        worker.awaited = None;
        if worker.typing.is_none() {
            worker.answer_senders(None, &mut cx.out);
        }
        for call in std::mem::take(&mut worker.spawners) {
            cx.out.when_stored().then(worker.spawned(call));
        }
        if !worker.record.reported {
            // An agent that is closed in the middle of its turn may end with 0 all the same.
            let is_cut_off = is_closed && worker.record.has_input_box();
            let status = match exit {
                ExitStatus::Code(0) if !is_cut_off => CompletionStatus::Success,
                ExitStatus::Code(0) => CompletionStatus::Error,
                ExitStatus::Code(_) | ExitStatus::Signal(_) | ExitStatus::Unknown => {
                    CompletionStatus::Error
                }
            };
            worker.add_completion(status, None, Some(exit));
        }
        worker.stored(&mut cx.out);
        self.collect_changes(number, cx);
        self.forget_old_workers(&mut cx.out);
    }

    /// Publishes that a worker has not reported in time, unless the report has come meanwhile.
    pub fn worker_deadline_expired(&mut self, number: u64, cx: &mut Context) {
        let Some(worker) = self.workers.get_mut(&number) else {
            return;
        };
        if worker.due(cx.now()).is_none() {
            return;
        }
        worker.record.late_told = true;
        worker.stored(&mut cx.out);
        let event = InboxEvent::WorkerLate {
            worker_id: worker.record.id.clone(),
            instance: worker.record.instance,
        };
        let late = NewEvent::new(worker.record.lead.clone(), event);
        cx.inboxes.publish(late, &mut cx.out);
    }

    /// Forgets the oldest ended workers beyond the limit. Their events stay.
    fn forget_old_workers(&mut self, out: &mut StepBuilder) {
        let over = self.workers.values();
        let over: Vec<u64> = over
            .filter(|worker| {
                worker.record.is_over() && worker.record.pending_completions.is_empty()
            })
            .map(|worker| worker.record.number)
            .collect();
        for number in over
            .iter()
            .take(over.len().saturating_sub(MAX_ENDED_WORKERS))
        {
            if let Some(worker) = self.workers.remove(number) {
                out.commit([Change::Remove(RecordId::Worker(*number))]);
                out.when_stored().then(AfterCommit::RemoveWorkerFiles {
                    worker: Box::new(worker.record),
                });
            }
        }
    }
}

impl WorkerEntry {
    fn set_deadline(&self, out: &mut StepBuilder) {
        if let Some(due) = self.due(out.now()) {
            out.set_timer(Timer::WorkerDeadline(self.record.number), due);
        }
    }

    /// When the worker is late. `None` if it has reported, has ended, has no deadline, or was reported late already.
    fn due(&self, now: ClockReading) -> Option<Duration> {
        let told = self.record.late_told || self.record.reported || self.record.is_over();
        let deadline = self.record.args.deadline_secs.filter(|_| !told)?;
        let deadline = Duration::from_secs_f64(deadline);
        Some(now.when_aged(self.record.started_at, deadline))
    }
}
