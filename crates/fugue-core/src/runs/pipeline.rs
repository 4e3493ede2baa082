//! The state machine of pipelines. The shell runs the steps by itself and reports the begin and end of each.

use fugue_api::{Cursor, Error, PaneId, Timestamp};

use super::{RunEntry, Runs, plan_of};
use crate::{
    AfterCommit, ExitStatus, LaunchEnv, PaneJob, PaneRecord, PipelineWork, RunRecord, RunWork,
    StepEvent, StepOutcome, StepState,
    context::{Context, StepBuilder},
    result::LOST_BY_REBOOT,
};

impl Runs {
    fn pipeline_with(&mut self, plan: u64) -> Option<&mut RunEntry> {
        let mut runs = self.all.values_mut();
        runs.find(|run| run.record.number == plan)
    }

    pub fn step_began(&mut self, event: StepEvent, out: &mut StepBuilder) {
        let now = out.now();
        let Some(run) = self.pipeline_with(event.plan) else {
            return;
        };
        let RunWork::Pipeline(work) = &mut run.record.work else {
            return;
        };
        // After a restart a begin may be reported twice; and steps begin in order.
        if event.step != work.steps.len() + 1
            || event.step > work.args.commands.len()
            || work.stopping
        {
            return;
        }
        let fresh = work.fresh_from > 0 && work.fresh_from + 1 == event.step;
        let note = fresh.then(|| {
            let before = work.args.name_of(work.fresh_from - 1);
            format!("in a fresh shell: `{before}` ended the one before")
        });
        work.steps.push(StepState {
            began_at: event.when.unwrap_or(now.wall),
            from: Some(event.at),
            outcome: None,
            ended_at: None,
            to: None,
            note,
        });
        run.stored(out);
        run.changed(out);
    }

    pub fn step_ended(&mut self, event: StepEvent, code: i32, cx: &mut Context) {
        let now = cx.now();
        let Some(run) = self.pipeline_with(event.plan) else {
            return;
        };
        let (id, settled) = (run.record.id.clone(), run.record.is_settled());
        let RunWork::Pipeline(work) = &mut run.record.work else {
            return;
        };
        let Some(step) = event
            .step
            .checked_sub(1)
            .and_then(|at| work.steps.get_mut(at))
        else {
            return;
        };
        if step.to.is_none() {
            step.to = Some(event.at.clone());
        }
        if step.outcome.is_some() {
            return run.stored(&mut cx.out);
        }
        step.outcome = Some(StepOutcome::Exited(ExitStatus::Code(code)));
        step.ended_at = Some(event.when.unwrap_or(now.wall));
        step.to = Some(event.at);
        if work.is_through() && !settled {
            self.settle(&id, cx);
        } else {
            run.stored(&mut cx.out);
            run.changed(&mut cx.out);
        }
    }

    /// Ends a pipeline whose shell is at its prompt without a record of how the open step ended.
    pub fn steps_lost(&mut self, plan: u64, at: &Cursor, why: String, cx: &mut Context) {
        let now = cx.now();
        let Some(run) = self.pipeline_with(plan) else {
            return;
        };
        let (id, settled) = (run.record.id.clone(), run.record.is_settled());
        let RunWork::Pipeline(work) = &mut run.record.work else {
            return;
        };
        work.stopped = true;
        if settled {
            return self.end_settled_runs(cx);
        }
        work.close_open_step(now.wall, Some(at), &ExitStatus::Unknown);
        work.trouble = Some(why);
        self.settle(&id, cx);
    }

    pub fn steps_refused(&mut self, plan: u64, error: &Error, cx: &mut Context) {
        if let Some(run) = self.pipeline_with(plan) {
            let id = run.record.id.clone();
            self.refuse_run(&id, error, cx);
        }
    }

    pub fn steps_stopped(&mut self, plan: u64, cx: &mut Context) {
        if let Some(run) = self.pipeline_with(plan)
            && let RunWork::Pipeline(work) = &mut run.record.work
        {
            work.stopped = true;
        }
        self.end_settled_runs(cx);
    }

    /// Starts the shell of a pipeline again that a step's `exit` or `exec` or a signal has ended, if steps are left or the
    /// pane is to stay. Returns whether it is started.
    pub fn restart_shell(
        &mut self,
        pane_id: PaneId,
        exit: &ExitStatus,
        at: &Cursor,
        cx: &mut Context,
    ) -> bool {
        let now = cx.now();
        let found = self.all.values_mut().find(|run| {
            !run.record.over
                && matches!(&run.record.work, RunWork::Pipeline(work) if work.pane == pane_id)
        });
        let (Some(run), Some(pane)) = (found, cx.panes.get_mut(&pane_id)) else {
            return false;
        };
        let (number, caller) = (run.record.number, run.caller.clone());
        let lost = run.record.lost_by_reboot;
        let closes = run.record.closes().contains(&pane_id);
        let RunWork::Pipeline(work) = &mut run.record.work else {
            return false;
        };
        let Some(caller) = caller.filter(|_| !pane.record.closing && !lost) else {
            return false;
        };
        work.close_open_step(now.wall, Some(at), exit);
        let progressed = work.steps.len() > work.fresh_from;
        let wanted = work.stopping || (!work.is_through() && progressed);
        if !wanted || closes && work.stopping {
            return false;
        }
        work.fresh_from = work.steps.len();
        work.stopped = true;
        let (job, launch_env) = work.fresh_shell(number, &pane.record);
        pane.restart(&mut cx.out);
        run.stored(&mut cx.out);
        cx.out.when_stored().then(AfterCommit::OpenPane {
            record: Box::new(pane.record.clone()),
            job,
            env: Default::default(),
            launch_env,
            caller,
        });
        run.changed(&mut cx.out);
        self.end_settled_runs(cx);
        true
    }
}

/// The cause of the end of a pipeline's shell.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ShellEnd {
    Itself,
    Reboot,
}

impl RunRecord {
    pub(super) fn shell_end(&self) -> ShellEnd {
        if self.lost_by_reboot {
            ShellEnd::Reboot
        } else {
            ShellEnd::Itself
        }
    }
}

impl PipelineWork {
    /// The job and launch environment for the next shell of the pipeline.
    pub(super) fn fresh_shell(&self, number: u64, record: &PaneRecord) -> (PaneJob, LaunchEnv) {
        let plan = plan_of(number, &self.args, self.steps.len());
        match &self.launch_env {
            Some(launch_env) => (PaneJob::Steps(plan), launch_env.clone()),
            None => {
                let launch_env = LaunchEnv {
                    cwd: record.cwd.clone().into(),
                    shell: record.command.clone().into(),
                    secret: record.secret.clone(),
                    tmux: record.tmux.clone(),
                };
                (PaneJob::ShellWithSteps(plan), launch_env)
            }
        }
    }

    pub(super) fn close_open_step(
        &mut self,
        now: Timestamp,
        at: Option<&Cursor>,
        exit: &ExitStatus,
    ) {
        if let Some(step) = self.open_step() {
            step.outcome = Some(StepOutcome::Exited(exit.clone()));
            step.ended_at = Some(now);
            step.to = at.cloned();
        }
    }

    /// Records that the shell has ended and no other is started.
    pub(super) fn end_shell(
        &mut self,
        by: ShellEnd,
        now: Timestamp,
        at: Option<&Cursor>,
        exit: &ExitStatus,
    ) {
        self.close_open_step(now, at, exit);
        self.stopped = true;
        if !self.is_through() {
            let next = self.args.name_of(self.steps.len());
            self.trouble = Some(match by {
                ShellEnd::Itself => format!("the shell ended before it took `{next}`"),
                ShellEnd::Reboot => LOST_BY_REBOOT.to_owned(),
            });
        }
    }

    /// Lets no further step begin, and fixes the outcome of the running one. Its process still has to be interrupted.
    pub(super) fn stop(&mut self, outcome: StepOutcome, now: Timestamp) {
        self.stopping = true;
        if let Some(step) = self.open_step() {
            step.outcome = Some(outcome);
            step.ended_at = Some(now);
        }
    }
}
