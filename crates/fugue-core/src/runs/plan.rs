//! Calls that start, wait for, cancel or follow a run: everything that can be refused is checked here.

use std::time::Duration;

use fugue_api::{
    Error, ErrorKind, PaneId, RunId,
    tools::{CancelRun, CreatePane, RunExpect, RunParallel, RunPipeline, WaitForRun},
};

use super::{PipelineShell, RunStarter};
use crate::{
    AfterCommit, ExpectWork, RunWork,
    calls::{
        CallOrigin,
        plan::{Plan, Planner, still_opening},
    },
    panes::PanePhase,
    view,
};

impl Planner<'_> {
    pub fn run_expect(&self, start: CallOrigin, args: RunExpect) -> Result<Plan, Error> {
        let same = |work: &RunWork| matches!(work, RunWork::Expect(known) if known.opening.is_none() && known.args == args);
        if let Some(plan) = self.rejoin_run(&start, args.run_id.as_ref(), same)? {
            return Ok(plan);
        }
        view::pattern("pattern", &args.pattern)?;
        if let Some(fail) = &args.fail_pattern {
            view::pattern("fail_pattern", fail)?;
        }
        if let Some(since) = &args.since {
            view::cursor(since)?;
        }
        let pane = self.resolve(&args.pane_id)?;
        let id = pane.record.id;
        let archived = match pane.phase {
            PanePhase::Opening { .. } => return Err(still_opening(id)),
            PanePhase::Settling { .. } | PanePhase::Live => None,
            PanePhase::Ended => Some(Box::new(pane.record.clone())),
        };
        let starter = self.starter(&start);
        Ok(Plan::new(move |core| {
            let run_id = args.run_id.clone();
            let work = ExpectWork {
                args,
                pane: id,
                from: None,
                outcome: None,
                opening: None,
            };
            let run = RunWork::Expect(Box::new(work.clone()));
            let run = core.runs.begin(start, starter, run_id, run, &mut core.cx);
            let expect = work.request(&run);
            core.cx.out.when_stored().then(match archived {
                Some(record) => AfterCommit::SearchArchive { record, expect },
                None => AfterCommit::StartExpect { pane: id, expect },
            });
        }))
    }

    /// `create_pane` with `ready`.
    pub fn create_ready_pane(&self, start: CallOrigin, args: CreatePane) -> Result<Plan, Error> {
        let same = |work: &RunWork| match work {
            RunWork::Expect(known) => {
                let opening = known.opening.as_ref();
                opening.is_some_and(|opening| opening.args == args)
            }
            RunWork::Parallel(_) | RunWork::Pipeline(_) => false,
        };
        if let Some(plan) = self.rejoin_run(&start, args.run_id.as_ref(), same)? {
            return Ok(plan);
        }
        view::pattern("ready", args.ready.as_deref().unwrap_or_default())?;
        let launch_env = start.launch_env()?;
        let starter = self.starter(&start);
        Ok(Plan::new(move |core| {
            core.runs
                .begin_ready_pane(start, starter, args, launch_env, &mut core.cx);
        }))
    }

    pub fn run_parallel(&self, start: CallOrigin, args: RunParallel) -> Result<Plan, Error> {
        let same = |work: &RunWork| matches!(work, RunWork::Parallel(known) if known.args == args);
        if let Some(plan) = self.rejoin_run(&start, args.run_id.as_ref(), same)? {
            return Ok(plan);
        }
        let launch_envs = start.launch_envs.clone()?;
        if launch_envs.len() != args.commands.len() {
            return Err(Error::new(
                ErrorKind::Internal,
                "a command has no launch environment",
            ));
        }
        let starter = self.starter(&start);
        Ok(Plan::new(move |core| {
            core.runs
                .begin_parallel(start, starter, args, &launch_envs, &mut core.cx);
        }))
    }

    pub fn run_pipeline(&self, start: CallOrigin, args: RunPipeline) -> Result<Plan, Error> {
        let same = |work: &RunWork| matches!(work, RunWork::Pipeline(known) if known.args == args);
        if let Some(plan) = self.rejoin_run(&start, args.run_id.as_ref(), same)? {
            return Ok(plan);
        }
        let shell = match &args.pane_id {
            Some(said) => PipelineShell::Pane(self.check_takes_steps(said)?),
            None => PipelineShell::Own(start.launch_env()?),
        };
        let starter = self.starter(&start);
        Ok(Plan::new(move |core| {
            core.runs
                .begin_pipeline(start, starter, args, shell, &mut core.cx);
        }))
    }

    pub fn wait_for_run(&self, origin: &CallOrigin, args: &WaitForRun) -> Result<Plan, Error> {
        let call = origin.call;
        let now = self.now;
        let id = self.core.runs.run_named(&args.run_id)?;
        let until = args
            .timeout_ms
            .map(|ms| now.since_boot + Duration::from_millis(ms));
        Ok(Plan::new(move |core| {
            core.runs.wait_for_run(call, &id, until, &mut core.cx);
        }))
    }

    pub fn cancel_run(&self, origin: &CallOrigin, args: &CancelRun) -> Result<Plan, Error> {
        let call = origin.call;
        let id = self.core.runs.run_named(&args.run_id)?;
        let canceller = self.core.team.own_inbox(&origin.who);
        Ok(Plan::new(move |core| {
            core.runs
                .cancel_run(call, &id, canceller.as_ref(), &mut core.cx);
        }))
    }

    pub fn follow_run(&self, origin: &CallOrigin, said: &RunId, seen: u64) -> Result<Plan, Error> {
        let call = origin.call;
        let now = self.now;
        let id = self.core.runs.run_named(said)?;
        Ok(Plan::new(move |core| {
            if let Some(run) = core.runs.all.get_mut(&id) {
                if run.version > seen {
                    core.cx
                        .out
                        .when_stored()
                        .then(run.progress_reply(call, now));
                } else {
                    run.followers.push((call, seen));
                }
            }
        }))
    }

    /// The plan of a repeated call: the call joins the run that its first attempt started.
    fn rejoin_run(
        &self,
        start: &CallOrigin,
        run_id: Option<&RunId>,
        same: impl Fn(&RunWork) -> bool,
    ) -> Result<Option<Plan>, Error> {
        let runs = &self.core.runs.all;
        let known = match run_id {
            Some(id) => runs.get_key_value(id),
            None => runs.iter().find(|(_, run)| run.record.made_by == start.key),
        };
        let Some((id, run)) = known else {
            self.core.cx.starts.refuse_repeated(start.key)?;
            return Ok(None);
        };
        // The key is enough: the variables of a finished run are not stored, so its arguments may differ after a restart.
        if run.record.made_by != start.key && !same(&run.record.work) {
            return Err(
                Error::invalid(format!("run_id: `{id}` is a run with other arguments"))
                    .hint("choose another id, or wait for that run with `fugue_wait`"),
            );
        }
        run.check_opened_pane(&self.core.cx.panes)?;
        let (id, call) = (id.clone(), start.call);
        Ok(Some(Plan::new(move |core| {
            core.runs.join_run(call, &id, &mut core.cx);
        })))
    }

    fn starter(&self, origin: &CallOrigin) -> RunStarter {
        let team = &self.core.team;
        RunStarter {
            opened_by: team.opener(&origin.who),
            owner: team.own_inbox(&origin.who),
        }
    }

    /// Checks that a pane is live, has a shell with marks, and runs no other pipeline.
    fn check_takes_steps(&self, said: &str) -> Result<PaneId, Error> {
        let pane = self.resolve(said)?;
        let id = pane.record.id;
        pane.live()?;
        let busy = self.core.runs.all.values().find(|run| {
            !run.record.over
                && matches!(&run.record.work, RunWork::Pipeline(work) if work.pane == id)
        });
        if let Some(run) = busy {
            return Err(Error::new(
                ErrorKind::Unavailable,
                format!("pane_id: `{id}` runs the pipeline `{}`", run.record.id),
            )
            .hint("wait for it with `fugue_wait`"));
        }
        if !pane.record.announces_prompts() {
            return Err(Error::invalid(format!(
                "pane_id: `{id}` is not an interactive bash, zsh or fish of ours, so steps cannot be given to it"
            ))
            .hint("leave `pane_id` out, or open a shell with `create_pane`"));
        }
        Ok(id)
    }
}
