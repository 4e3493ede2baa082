//! Runs: what starts them, what moves them on, and who waits for them.

mod moves;
pub(super) mod pipeline;
#[cfg(test)]
mod tests;

use std::{sync::Arc, time::Duration};

use fugue_api::{
    Error, Kind, PaneId, Request, RunId, SessionName,
    panes::PaneSize,
    runs::{Expect, Layout, RunParallel, RunPipeline, Wait},
    wire::{Answer, Caller, Key, RunNews, Who},
};

use super::{Core, Phase, calls::NewPane, rows::cut, tmux, watch::own_pane};
use crate::{
    CallId, Change, Effect, ExpectWork, Job, Now, ParallelWork, Part, PipelineWork, PlannedStep,
    RunRecord, StepPlan, StoredRun, Task, Undo, Watch, Work, World, Wrap, names::resolve, result,
    view,
};

/// A run and everybody who waits for it.
pub(super) struct Run {
    pub record: RunRecord,
    /// What its panes start from; kept for as long as one may have to be started.
    caller: Option<Arc<Caller>>,
    waiters: Vec<Waiter>,
    /// Those who want to hear of every change, and the version they know.
    followers: Vec<(CallId, u64)>,
    version: u64,
    /// When its time is over, on the daemon's own clock.
    due: Duration,
    /// The pane's task of now has its pattern and shows it all there is.
    watched: bool,
}

struct Waiter {
    call: CallId,
    wrap: Wrap,
    /// To be told how far it is by then.
    until: Option<Duration>,
}

// That of a pane that somebody opens without saying more.
pub(super) const SIZE: PaneSize = PaneSize {
    rows: 40,
    cols: 120,
};

/// A call that starts a run, with all that the door found out about it.
pub(super) struct Start {
    pub call: CallId,
    pub key: Key,
    pub who: Who,
    pub caller: Arc<Caller>,
    pub worlds: Result<Vec<World>, Error>,
}

impl Core {
    pub(super) fn start_run(
        &mut self,
        start: Start,
        request: Request,
        now: Now,
        effects: &mut Vec<Effect>,
    ) -> Result<(), Error> {
        match request {
            Request::Expect(args) => self.expect(start, args, now, effects),
            Request::RunParallel(args) => self.parallel(start, args, now, effects),
            Request::RunPipeline(args) => self.pipeline(start, args, now, effects),
            _ => Err(Error::new(Kind::Internal, "not a run")),
        }
    }

    fn expect(
        &mut self,
        start: Start,
        args: Expect,
        now: Now,
        effects: &mut Vec<Effect>,
    ) -> Result<(), Error> {
        let run_id = args.run_id.clone();
        let same = |work: &Work| matches!(work, Work::Expect(known) if known.args == args);
        if self.asked_before(&start, run_id.as_ref(), same, now, effects)? {
            return Ok(());
        }
        view::pattern("pattern", &args.pattern)?;
        if let Some(fail) = &args.fail_pattern {
            view::pattern("fail_pattern", fail)?;
        }
        if let Some(since) = &args.since {
            view::cursor(since)?;
        }
        let id = resolve(&args.pane_id, self.records())?;
        let Some(pane) = self.panes.get(&id) else {
            return Ok(());
        };
        let archived = match pane.phase {
            Phase::Opening { .. } => {
                return Err(Error::new(
                    Kind::Unavailable,
                    format!("pane `{id}` is still being opened"),
                ));
            }
            Phase::Settling { .. } | Phase::Live => None,
            Phase::Ended => Some(Box::new(pane.record.clone())),
        };
        let work = Work::Expect(Box::new(ExpectWork {
            args: args.clone(),
            pane: id,
            from: None,
            outcome: None,
        }));
        let run = self.begin(start, run_id, work, Vec::new(), now, effects);
        let watch = Box::new(Watch {
            run,
            args,
            from: None,
        });
        effects.push(match archived {
            Some(record) => Effect::WatchArchive { record, watch },
            None => Effect::Watch { pane: id, watch },
        });
        Ok(())
    }

    fn parallel(
        &mut self,
        start: Start,
        args: RunParallel,
        now: Now,
        effects: &mut Vec<Effect>,
    ) -> Result<(), Error> {
        let run_id = args.run_id.clone();
        let same = |work: &Work| matches!(work, Work::Parallel(known) if known.args == args);
        if self.asked_before(&start, run_id.as_ref(), same, now, effects)? {
            return Ok(());
        }
        let worlds = start.worlds.clone()?;
        if worlds.len() != args.commands.len() {
            return Err(Error::new(Kind::Internal, "a command has no world"));
        }
        let session = self.session_for(args.layout, &start.caller, worlds.first());
        let mut changes = Vec::new();
        let mut opens = Vec::new();
        let mut tasks = Vec::new();
        for (index, (one, world)) in args.commands.iter().zip(&worlds).enumerate() {
            let name = args.name_of(index);
            let command = one.command.clone();
            let record = self.new_pane(
                NewPane {
                    session: session.clone(),
                    name,
                    command,
                    size: SIZE,
                    world,
                    key: start.key,
                    callers: Vec::new(),
                    promised: None,
                    agent: None,
                },
                now,
            );
            changes.push(Change::Put(Box::new(record.clone())));
            tasks.push(Task {
                pane: record.id,
                world: world.clone(),
                outcome: None,
                ended_at: None,
            });
            opens.push(Effect::Open {
                record: Box::new(record),
                job: Job::Command(one.command.clone()),
                env: one.env.clone(),
                world: world.clone(),
                caller: start.caller.clone(),
            });
        }
        changes.push(Change::NextPane(self.next_pane));
        let work = Work::Parallel(Box::new(ParallelWork { args, tasks }));
        self.begin(start, run_id, work, changes, now, effects);
        effects.append(&mut opens);
        Ok(())
    }

    fn pipeline(
        &mut self,
        start: Start,
        args: RunPipeline,
        now: Now,
        effects: &mut Vec<Effect>,
    ) -> Result<(), Error> {
        let run_id = args.run_id.clone();
        let same = |work: &Work| matches!(work, Work::Pipeline(known) if known.args == args);
        if self.asked_before(&start, run_id.as_ref(), same, now, effects)? {
            return Ok(());
        }
        let plan = plan_of(self.next_run, &args);
        let mut changes = Vec::new();
        let (pane, world, first) = match &args.pane_id {
            Some(said) => {
                let pane = resolve(said, self.records())?;
                self.takes_steps(pane)?;
                (pane, None, Effect::RunSteps { pane, plan })
            }
            None => {
                let worlds = start.worlds.clone()?;
                let world = worlds
                    .into_iter()
                    .next()
                    .ok_or_else(|| Error::new(Kind::Internal, "no world was looked up"))?;
                let session = self.session_for(args.layout, &start.caller, Some(&world));
                let shell = world.shell.to_string_lossy().into_owned();
                let record = self.new_pane(
                    NewPane {
                        session,
                        name: "pipeline".to_owned(),
                        command: shell,
                        size: SIZE,
                        world: &world,
                        key: start.key,
                        callers: Vec::new(),
                        promised: None,
                        agent: None,
                    },
                    now,
                );
                changes.push(Change::Put(Box::new(record.clone())));
                changes.push(Change::NextPane(self.next_pane));
                let open = Effect::Open {
                    record: Box::new(record.clone()),
                    job: Job::Steps(plan),
                    env: Default::default(),
                    world: world.clone(),
                    caller: start.caller.clone(),
                };
                (record.id, Some(world), open)
            }
        };
        let work = Work::Pipeline(Box::new(PipelineWork {
            args,
            pane,
            world,
            steps: Vec::new(),
            fresh_from: 0,
            stopping: false,
            stopped: false,
            trouble: None,
        }));
        self.begin(start, run_id, work, changes, now, effects);
        effects.push(first);
        Ok(())
    }

    pub(super) fn wait(
        &mut self,
        call: CallId,
        args: Wait,
        now: Now,
        effects: &mut Vec<Effect>,
    ) -> Result<(), Error> {
        let id = self.run_named(&args.run_id)?;
        let until = args
            .timeout_ms
            .map(|ms| now.uptime + Duration::from_millis(ms));
        let Some(run) = self.runs.get_mut(&id) else {
            return Ok(());
        };
        let over_now = until.is_some_and(|until| until <= now.uptime);
        if run.record.over || over_now {
            if run.record.over {
                self.heard_of(&id, effects);
            }
            let composed = self.composed(&id, call, Wrap::Wait, now);
            effects.extend(composed);
            return Ok(());
        }
        run.waiters.push(Waiter {
            call,
            wrap: Wrap::Wait,
            until,
        });
        effects.extend(until.map(Effect::WakeAt));
        Ok(())
    }

    pub(super) fn news(
        &mut self,
        call: CallId,
        said: &RunId,
        seen: u64,
        now: Now,
        effects: &mut Vec<Effect>,
    ) -> Result<(), Error> {
        let id = self.run_named(said)?;
        if let Some(run) = self.runs.get_mut(&id) {
            if run.version > seen {
                effects.push(run.tell_news(call, now));
            } else {
                run.followers.push((call, seen));
            }
        }
        Ok(())
    }

    /// A run by its id, or by the beginning of one that fits no other.
    fn run_named(&self, said: &RunId) -> Result<RunId, Error> {
        if self.runs.contains_key(said) {
            return Ok(said.clone());
        }
        let mut fitting = self.runs.keys().filter(|id| id.0.starts_with(&said.0));
        match (fitting.next(), fitting.next()) {
            (Some(one), None) => Ok(one.clone()),
            (Some(one), Some(other)) => Err(Error::new(
                Kind::Ambiguous,
                format!("`{said}` fits several runs, such as `{one}` and `{other}`"),
            )
            .hint("give more of the id")),
            (None, _) => {
                let open = self.runs.values().filter(|run| !run.record.over).count();
                Err(Error::new(
                    Kind::NotFound,
                    format!("no run `{said}`; {open} are running"),
                )
                .hint("`fugue ls` lists them; ended ones are forgotten after a while"))
            }
        }
    }

    /// Attaches a call to the run that it started before, if it did.
    fn asked_before(
        &mut self,
        start: &Start,
        run_id: Option<&RunId>,
        same: impl Fn(&Work) -> bool,
        now: Now,
        effects: &mut Vec<Effect>,
    ) -> Result<bool, Error> {
        let known = match run_id {
            Some(id) => self.runs.get_key_value(id),
            None => self
                .runs
                .iter()
                .find(|(_, run)| run.record.made_by == start.key),
        };
        let Some((id, run)) = known else {
            return Ok(false);
        };
        if !same(&run.record.work) {
            return Err(
                Error::invalid(format!("run_id: `{id}` is a run with other arguments"))
                    .hint("choose another id, or wait for that run with `fugue_wait`"),
            );
        }
        let (id, over) = (id.clone(), run.record.over);
        if over {
            self.heard_of(&id, effects);
            let composed = self.composed(&id, start.call, Wrap::Own, now);
            effects.extend(composed);
        } else if let Some(run) = self.runs.get_mut(&id) {
            run.waiters.push(Waiter {
                call: start.call,
                wrap: Wrap::Own,
                until: None,
            });
        }
        Ok(true)
    }

    /// Records a new run; what it does first comes behind the commit.
    fn begin(
        &mut self,
        start: Start,
        run_id: Option<RunId>,
        work: Work,
        mut changes: Vec<Change>,
        now: Now,
        effects: &mut Vec<Effect>,
    ) -> RunId {
        let number = self.next_run;
        self.next_run += 1;
        let mut random = [0; 8];
        random.copy_from_slice(&start.key.0[..8]);
        let id = run_id.unwrap_or_else(|| RunId::fresh(random));
        let record = RunRecord {
            id: id.clone(),
            number,
            made_by: start.key,
            owner: self.inbox_of(&start.who),
            started_at: now.wall,
            work,
            settled_at: None,
            over: false,
        };
        let due = now.uptime + Duration::from_millis(record.timeout_ms());
        changes.push(Change::NextRun(self.next_run));
        changes.push(Change::StartRun {
            record: Box::new(record.clone()),
            caller: start.caller.clone(),
        });
        effects.push(Effect::WakeAt(due));
        effects.push(Effect::Commit {
            changes,
            undo: Some(Undo::Run(id.clone())),
        });
        let run = Run {
            record,
            caller: Some(start.caller),
            waiters: vec![Waiter {
                call: start.call,
                wrap: Wrap::Own,
                until: None,
            }],
            followers: Vec::new(),
            version: 1,
            due,
            watched: false,
        };
        self.runs.insert(id.clone(), run);
        id
    }

    /// Hidden panes have a session of their own; visible ones are where the caller is.
    pub(super) fn session_for(
        &self,
        layout: Layout,
        caller: &Caller,
        world: Option<&World>,
    ) -> SessionName {
        if let Some(session) = world.and_then(tmux::session_of) {
            return SessionName(session);
        }
        let own_pane = own_pane(caller);
        match layout {
            Layout::Hidden => SessionName(SessionName::HIDDEN.to_owned()),
            Layout::Tiled => own_pane
                .and_then(|pane| self.panes.get(&pane))
                .map_or_else(SessionName::default, |pane| pane.record.session.clone()),
        }
    }

    /// Whether a pane's shell may be given steps, as far as can be known here.
    fn takes_steps(&self, id: PaneId) -> Result<(), Error> {
        self.live(id)?;
        let busy = self.runs.values().find(|run| {
            !run.record.over && matches!(&run.record.work, Work::Pipeline(work) if work.pane == id)
        });
        if let Some(run) = busy {
            return Err(Error::new(
                Kind::Unavailable,
                format!("pane_id: `{id}` runs the pipeline `{}`", run.record.id),
            )
            .hint("wait for it with `fugue_wait`"));
        }
        let integrated = self
            .panes
            .get(&id)
            .is_some_and(|pane| pane.record.announces_prompts());
        if !integrated {
            return Err(Error::invalid(format!(
                "pane_id: `{id}` is not an interactive bash, zsh or fish of ours, so steps cannot be given to it"
            ))
            .hint("leave `pane_id` out, or open a shell with `create_pane`"));
        }
        Ok(())
    }

    /// Everything that is needed for one reply about a run.
    fn composed(&self, id: &RunId, call: CallId, wrap: Wrap, now: Now) -> Option<Effect> {
        let run = self.runs.get(id)?;
        if let Some(error) = run.refusal() {
            return Some(Effect::Answer {
                call,
                answer: Err(error),
            });
        }
        let wants = result::wants(&run.record).into_iter();
        let parts = wants.map(|(pane, want)| {
            let record = Box::new(self.panes.get(&pane)?.record.clone());
            want.map(|want| Part { record, want })
        });
        let most_chars = match &run.record.work {
            Work::Expect(_) => 10_000,
            Work::Parallel(work) => work.args.max_output_chars as usize,
            Work::Pipeline(work) => work.args.max_output_chars as usize,
        };
        Some(Effect::Compose {
            call,
            wrap,
            result: Box::new(result::of(&run.record, now.wall)),
            parts: parts.collect(),
            most_chars,
        })
    }

    pub(super) fn forget_run_call(&mut self, gone: CallId) {
        for run in self.runs.values_mut() {
            run.waiters.retain(|waiter| waiter.call != gone);
            run.followers.retain(|(call, _)| *call != gone);
        }
    }
}

impl Run {
    /// Takes up a run of an earlier daemon.
    pub(super) fn restored(stored: StoredRun, version: u64, now: Now) -> Self {
        let age = now.wall.0.saturating_sub(stored.record.started_at.0);
        let left = stored.record.timeout_ms().saturating_sub(age);
        Self {
            record: stored.record,
            caller: stored.caller.map(Arc::new),
            waiters: Vec::new(),
            followers: Vec::new(),
            version,
            due: now.uptime + Duration::from_millis(left),
            watched: false,
        }
    }

    /// The steps that the shell of this pane has, if it is not through with them.
    pub(super) fn steps_in(&self, pane: PaneId) -> Option<StepPlan> {
        match &self.record.work {
            Work::Pipeline(work) if work.pane == pane && !self.record.over => {
                Some(plan_of(self.record.number, &work.args))
            }
            Work::Pipeline(_) | Work::Expect(_) | Work::Parallel(_) => None,
        }
    }

    /// A run whose only result is an error.
    fn refusal(&self) -> Option<Error> {
        let Work::Expect(work) = &self.record.work else {
            return None;
        };
        matches!(work.outcome, Some(crate::ExpectOutcome::PaneClosed)).then(|| {
            Error::new(
                Kind::Ended,
                format!(
                    "pane `{}` was closed while the pattern was waited for",
                    work.pane
                ),
            )
            .hint("`read_pane` still reads its output")
        })
    }

    fn tell_news(&self, call: CallId, now: Now) -> Effect {
        let news = RunNews {
            version: self.version,
            run: result::of(&self.record, now.wall),
        };
        Effect::Answer {
            call,
            answer: Ok(Answer::RunNews { news }),
        }
    }

    /// Something about it is new.
    fn changed(&mut self, now: Now, effects: &mut Vec<Effect>) {
        self.version += 1;
        for (call, _) in std::mem::take(&mut self.followers) {
            effects.push(self.tell_news(call, now));
        }
    }
}

/// The steps as the shell gets them, with a heading that a person can read over the shell's shoulder.
fn plan_of(number: u64, args: &RunPipeline) -> StepPlan {
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
    }
}
