//! Runs: one call of expect, parallel or pipeline each, with an id, a state machine, and the calls that wait for the result.

pub(crate) mod pipeline;
mod plan;
mod ready_pane;
pub(crate) mod record;
mod restore;
pub mod result;
mod retention;
#[cfg(test)]
mod retention_tests;
#[cfg(test)]
mod tests;
mod transitions;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use fugue_api::{
    Error, ErrorKind, EventId, PaneId, RunId,
    tools::{PaneSize, RunParallel, RunPipeline},
    wire::{CallerEnv, CallerIdentity, Response, RunProgress},
};

use crate::{
    AfterCommit, CallId, Change, ClockReading, Counter, EnvironmentOwner, InboxId, LaunchEnv,
    OutputPart, PaneJob, ParallelWork, PipelineWork, PlannedStep, ReplyFormat, RunRecord, RunTask,
    RunWork, StartTarget, StepPlan, StoreSnapshot, StoredRun, Undo,
    calls::CallOrigin,
    context::{Context, StepBuilder},
    panes::{NewPane, replies::cut},
    snapshot::next_id,
    timer::Timer,
};
use transitions::EarlyEnd;

/// A run and the calls that wait for it.
#[derive(Debug)]
pub(crate) struct RunEntry {
    pub record: RunRecord,
    /// The environment that panes of the run start from. Dropped when the run is over.
    caller: Option<Arc<CallerEnv>>,
    waiters: Vec<RunWaiter>,
    /// Calls that wait for the next change, each with the last version it has seen.
    followers: Vec<(CallId, u64)>,
    version: u64,
    /// The deadline of the run, on the boot clock.
    due: Duration,
    /// The task of the pane has confirmed the expect: output from now on reaches the matcher.
    is_searching: bool,
    /// Replies that are being completed with output of the panes. The output must not be forgotten meanwhile.
    composing: usize,
}

/// All runs that are known, ended ones included.
#[derive(Debug)]
pub(crate) struct Runs {
    next: u64,
    pub all: BTreeMap<RunId, RunEntry>,
    /// Runs whose result was fetched, which no commit has stored yet.
    unstored_fetches: Vec<RunId>,
}

/// Who starts a run.
pub(crate) struct RunStarter {
    /// What the records of its panes have as their opener.
    pub opened_by: Option<CallerIdentity>,
    /// The inbox that gets an event when the run ends and no call waits for it.
    pub owner: Option<InboxId>,
}

#[derive(Debug)]
struct RunWaiter {
    call: CallId,
    wrap: ReplyFormat,
    /// The event about the end of the run is leased to the reply, whose arrival withdraws it.
    informs_owner: bool,
}

// The default size of `create_pane`.
pub(crate) const SIZE: PaneSize = PaneSize {
    rows: 40,
    cols: 120,
};

/// Where the steps of a pipeline run.
enum PipelineShell {
    /// In the shell of an existing pane.
    Pane(PaneId),
    /// In a new shell in a pane of the pipeline.
    Own(LaunchEnv),
}

impl Runs {
    /// Restores the runs that an earlier daemon stored.
    pub fn restored(snapshot: &mut StoreSnapshot, now: ClockReading) -> Self {
        // Above all versions that an earlier daemon has sent, so that a follower gets what happened in between.
        let first_version = snapshot.epoch << 32;
        let stored = std::mem::take(&mut snapshot.runs);
        let numbers = stored.iter().map(|stored| stored.record.number);
        Self {
            next: next_id(snapshot.next_run, numbers),
            all: stored
                .into_iter()
                .map(|stored| {
                    let id = stored.record.id.clone();
                    (id, RunEntry::restored(stored, first_version, now))
                })
                .collect(),
            unstored_fetches: Vec::new(),
        }
    }

    /// The plan of the open pipeline in a pane.
    pub fn steps_in(&self, pane: PaneId) -> Option<StepPlan> {
        self.all.values().find_map(|run| run.steps_in(pane))
    }
}

impl Runs {
    fn begin_parallel(
        &mut self,
        start: CallOrigin,
        starter: RunStarter,
        args: RunParallel,
        launch_envs: &[LaunchEnv],
        cx: &mut Context,
    ) {
        let now = cx.now();
        let run_id = args.run_id.clone();
        let session = cx
            .panes
            .session_for(args.layout, &start.caller, launch_envs.first());
        let opened_by = starter.opened_by.clone();
        let mut changes = Vec::new();
        let mut opens = Vec::new();
        let mut tasks = Vec::new();
        for (index, (one, launch_env)) in args.commands.iter().zip(launch_envs).enumerate() {
            let name = args.name_of(index);
            let command = one.command.clone();
            let record = cx.panes.enter(
                NewPane {
                    session: session.clone(),
                    name,
                    command,
                    size: SIZE,
                    launch_env,
                    key: start.key,
                    opened_by: opened_by.clone(),
                    callers: Vec::new(),
                    promised: None,
                    agent: None,
                },
                now,
            );
            changes.push(Change::put(record.clone()));
            tasks.push(RunTask {
                pane: record.id,
                launch_env: launch_env.clone(),
                outcome: None,
                ended_at: None,
            });
            opens.push(AfterCommit::OpenPane {
                record: Box::new(record),
                job: PaneJob::Command(one.command.clone()),
                env: one.env.clone(),
                launch_env: launch_env.clone(),
                caller: start.caller.clone(),
            });
        }
        changes.push(Change::SetCounter(Counter::NextPane, cx.panes.next));
        let work = RunWork::Parallel(Box::new(ParallelWork { args, tasks }));
        cx.out.commit(changes);
        self.begin(start, starter, run_id, work, cx);
        for open in opens {
            cx.out.when_stored().then(open);
        }
    }

    fn begin_pipeline(
        &mut self,
        start: CallOrigin,
        starter: RunStarter,
        args: RunPipeline,
        shell: PipelineShell,
        cx: &mut Context,
    ) {
        let now = cx.now();
        let run_id = args.run_id.clone();
        let plan = plan_of(self.next, &args, 0);
        let mut changes = Vec::new();
        let (pane, launch_env, first) = match shell {
            PipelineShell::Pane(pane) => (pane, None, AfterCommit::RunSteps { pane, plan }),
            PipelineShell::Own(launch_env) => {
                let session = cx
                    .panes
                    .session_for(args.layout, &start.caller, Some(&launch_env));
                let shell = launch_env.shell.to_string_lossy().into_owned();
                let record = cx.panes.enter(
                    NewPane {
                        session,
                        name: "pipeline".to_owned(),
                        command: shell,
                        size: SIZE,
                        launch_env: &launch_env,
                        key: start.key,
                        opened_by: starter.opened_by.clone(),
                        callers: Vec::new(),
                        promised: None,
                        agent: None,
                    },
                    now,
                );
                changes.push(Change::put(record.clone()));
                changes.push(Change::SetCounter(Counter::NextPane, cx.panes.next));
                let open = AfterCommit::OpenPane {
                    record: Box::new(record.clone()),
                    job: PaneJob::Steps(plan),
                    env: Default::default(),
                    launch_env: launch_env.clone(),
                    caller: start.caller.clone(),
                };
                (record.id, Some(launch_env), open)
            }
        };
        let work = RunWork::Pipeline(Box::new(PipelineWork {
            args,
            pane,
            launch_env,
            steps: Vec::new(),
            fresh_from: 0,
            stopping: false,
            stopped: false,
            trouble: None,
        }));
        cx.out.commit(changes);
        self.begin(start, starter, run_id, work, cx);
        cx.out.when_stored().then(first);
    }

    fn wait_for_run(
        &mut self,
        call: CallId,
        id: &RunId,
        until: Option<Duration>,
        cx: &mut Context,
    ) {
        let now = cx.now();
        let Some(run) = self.all.get_mut(id) else {
            return;
        };
        let over_now = until.is_some_and(|until| until <= now.since_boot);
        if run.record.over {
            let leased = self.lease_run_event(id, call, cx);
            return self.compose(id, call, ReplyFormat::Wait, leased, cx);
        }
        if over_now {
            let leased = self.announce_end(id, call, cx);
            return self.compose(id, call, ReplyFormat::Wait, leased, cx);
        }
        run.waiters.push(RunWaiter {
            call,
            wrap: ReplyFormat::Wait,
            informs_owner: true,
        });
        if let Some(until) = until {
            cx.out.set_timer(Timer::RunWait(call), until);
        }
    }

    /// Cancels a run, and answers when its panes are closed and its running step has ended. A finished run stays as it is.
    fn cancel_run(
        &mut self,
        call: CallId,
        id: &RunId,
        canceller: Option<&InboxId>,
        cx: &mut Context,
    ) {
        let Some(run) = self.all.get_mut(id) else {
            return;
        };
        let already_ended = run.record.is_settled();
        let waiter = RunWaiter {
            call,
            wrap: ReplyFormat::Cancel { already_ended },
            informs_owner: run.record.owner.as_ref() == canceller,
        };
        if run.record.over {
            let informs_owner = waiter.informs_owner;
            let leased = informs_owner.then(|| self.lease_run_event(id, call, cx));
            return self.compose(id, call, waiter.wrap, leased.flatten(), cx);
        }
        run.waiters.push(waiter);
        if !already_ended {
            self.end_early(id, EarlyEnd::Cancelled, cx);
        }
    }

    /// Attaches a call to the run that it starts, or that an earlier attempt of the call has started: registers a waiter, or
    /// answers with the result or the run's id.
    fn join_run(&mut self, call: CallId, id: &RunId, cx: &mut Context) {
        let Some(run) = self.all.get_mut(id) else {
            return;
        };
        if run.record.over {
            let leased = self.lease_run_event(id, call, cx);
            self.compose(id, call, ReplyFormat::Own, leased, cx);
        } else if run.record.reports_by_event() {
            self.compose(id, call, ReplyFormat::Own, None, cx);
        } else {
            run.waiters.push(RunWaiter {
                call,
                wrap: ReplyFormat::Own,
                informs_owner: true,
            });
        }
    }

    /// Finds a run by its id or by a unique prefix of the id.
    pub fn run_named(&self, said: &RunId) -> Result<RunId, Error> {
        if self.all.contains_key(said) {
            return Ok(said.clone());
        }
        let mut fitting = self.all.keys().filter(|id| id.0.starts_with(&said.0));
        match (fitting.next(), fitting.next()) {
            (Some(one), None) => Ok(one.clone()),
            (Some(one), Some(other)) => Err(Error::new(
                ErrorKind::Ambiguous,
                format!("`{said}` fits several runs, such as `{one}` and `{other}`"),
            )
            .hint("give more of the id")),
            (None, _) => {
                let open = self.all.values().filter(|run| !run.record.over).count();
                Err(Error::new(
                    ErrorKind::NotFound,
                    format!("no run `{said}`; {open} are running"),
                )
                .hint("`fugue ls` lists them; ended ones are forgotten after a while"))
            }
        }
    }

    /// Stores a new run and sets its deadline. The caller adds the first effects of the run to the commit.
    fn begin(
        &mut self,
        start: CallOrigin,
        starter: RunStarter,
        run_id: Option<RunId>,
        work: RunWork,
        cx: &mut Context,
    ) -> RunId {
        let now = cx.now();
        let number = self.next;
        self.next += 1;
        let mut random = [0; 8];
        random.copy_from_slice(&start.key.0[..8]);
        let id = run_id.unwrap_or_else(|| RunId::fresh(random));
        let record = RunRecord {
            id: id.clone(),
            number,
            made_by: start.key,
            owner: starter.owner,
            started_at: now.moment(),
            work,
            settled_at: None,
            over: false,
            fetched: false,
            announced: false,
            lost_by_reboot: false,
            cancelled: false,
        };
        let due = now.since_boot + Duration::from_millis(record.timeout_ms());
        let remembered = StartTarget::Run(id.clone());
        let mut changes = cx.starts.remember(start.key, remembered, now);
        changes.push(Change::SetCounter(Counter::NextRun, self.next));
        let owner = EnvironmentOwner::Run(id.clone());
        changes.push(Change::put_environment(owner, start.caller.clone()));
        changes.push(Change::put(record.clone()));
        cx.out.set_timer(Timer::RunDeadline(id.clone()), due);
        cx.out.commit(changes).or_undo(Undo::Run(id.clone()));
        let run = RunEntry {
            record,
            caller: Some(start.caller),
            waiters: Vec::new(),
            followers: Vec::new(),
            version: 1,
            due,
            is_searching: false,
            composing: 0,
        };
        self.all.insert(id.clone(), run);
        self.join_run(start.call, &id, cx);
        id
    }

    /// Answers with the result of a run. The daemon completes the reply with the output of the panes, if it has any. A part
    /// whose pane is forgotten is marked as gone. `event` is leased to the call, and acked with the client's receipt.
    fn compose(
        &mut self,
        id: &RunId,
        call: CallId,
        wrap: ReplyFormat,
        event: Option<EventId>,
        cx: &mut Context,
    ) {
        let now = cx.now();
        let Some(run) = self.all.get_mut(id) else {
            return;
        };
        run.composing += 1;
        let run_id = id.clone();
        if let Some(error) = run.refusal() {
            cx.out.when_stored().then(AfterCommit::ReplyResult {
                call,
                run: run_id,
                event,
                answer: Err(error),
            });
            return;
        }
        let wrap = match (wrap, run.opened_pane(&cx.panes)) {
            (ReplyFormat::Own, Some(pane)) => ReplyFormat::NewPane(pane),
            (wrap, _) => wrap,
        };
        let mut result = result::of(&run.record, now.moment());
        let mut parts = Vec::new();
        for (index, (pane, want)) in result::wants(&run.record).into_iter().enumerate() {
            let pane = cx.panes.get(&pane);
            if pane.is_none() && want.is_some() {
                result::output_is_gone(&mut result, index);
            }
            parts.push(pane.zip(want).map(|(pane, want)| OutputPart {
                record: Box::new(pane.record.clone()),
                want,
            }));
        }
        let most_chars = match &run.record.work {
            RunWork::Expect(_) => 10_000,
            RunWork::Parallel(work) => work.args.max_reply_chars() as usize,
            RunWork::Pipeline(work) => work.args.max_reply_chars() as usize,
        };
        cx.out
            .when_stored()
            .then(if parts.iter().all(Option::is_none) {
                let reply = result::complete(result, &[], most_chars, wrap);
                AfterCommit::ReplyResult {
                    call,
                    run: run_id,
                    event,
                    answer: Ok(Response::Tool { reply }),
                }
            } else {
                AfterCommit::ComposeReply {
                    call,
                    run: run_id,
                    event,
                    wrap,
                    result: Box::new(result),
                    parts,
                    most_chars,
                }
            });
    }

    pub fn forget_run_call(&mut self, gone: CallId) {
        for run in self.all.values_mut() {
            run.waiters.retain(|waiter| waiter.call != gone);
            run.followers.retain(|(call, _)| *call != gone);
        }
    }
}

impl RunEntry {
    /// Restores one stored run.
    pub fn restored(stored: StoredRun, version: u64, now: ClockReading) -> Self {
        let mut record = stored.record;
        record.started_at = now.stamped(record.started_at);
        record.settled_at = record.settled_at.map(|at| now.stamped(at));
        let timeout = Duration::from_millis(record.timeout_ms());
        let due = if now.is_after_reboot(record.started_at) {
            // The panes are gone since the reboot, and their reports end the run.
            now.since_boot + timeout
        } else {
            now.when_aged(record.started_at, timeout)
        };
        Self {
            record,
            caller: stored.caller.map(Arc::new),
            waiters: Vec::new(),
            followers: Vec::new(),
            version,
            due,
            is_searching: false,
            composing: 0,
        }
    }

    /// The plan of this run, if it is an open pipeline in `pane`.
    pub fn steps_in(&self, pane: PaneId) -> Option<StepPlan> {
        match &self.record.work {
            RunWork::Pipeline(work) if work.pane == pane && !self.record.over => {
                Some(plan_of(self.record.number, &work.args, work.steps.len()))
            }
            RunWork::Pipeline(_) | RunWork::Expect(_) | RunWork::Parallel(_) => None,
        }
    }

    /// The error of a run that has no other result: the pane was closed during an expect.
    fn refusal(&self) -> Option<Error> {
        let RunWork::Expect(work) = &self.record.work else {
            return None;
        };
        matches!(work.outcome, Some(crate::ExpectOutcome::PaneClosed)).then(|| {
            Error::new(
                ErrorKind::Ended,
                format!(
                    "pane `{}` was closed while the pattern was waited for",
                    work.pane
                ),
            )
            .hint("`read_pane` still reads its output")
        })
    }

    fn progress_reply(&self, call: CallId, now: ClockReading) -> AfterCommit {
        let progress = RunProgress {
            version: self.version,
            run: result::of(&self.record, now.moment()),
        };
        AfterCommit::Reply {
            call,
            answer: Ok(Response::RunProgress { progress }),
        }
    }

    /// Counts a new version and answers all followers.
    fn changed(&mut self, out: &mut StepBuilder) {
        let now = out.now();
        self.version += 1;
        for (call, _) in std::mem::take(&mut self.followers) {
            out.when_stored().then(self.progress_reply(call, now));
        }
    }
}

/// The steps as they are given to the shell, each with a heading for people who watch the pane.
fn plan_of(number: u64, args: &RunPipeline, begun: usize) -> StepPlan {
    let count = args.commands.len();
    let steps = args.commands.iter().enumerate().map(|(index, one)| {
        let first_line = one.command.lines().next().unwrap_or_default();
        let shown: String = cut(first_line.trim(), 80)
            .chars()
            .filter(|c| !c.is_control())
            .collect();
        let name = match &one.name {
            Some(name) => format!("{name}: "),
            None => String::new(),
        };
        PlannedStep {
            heading: format!("── {}/{count} {name}{shown}", index + 1),
            text: one.command.clone(),
        }
    });
    StepPlan {
        number,
        steps: steps.collect(),
        keep_going: !args.stop_on_error,
        begun,
    }
}
