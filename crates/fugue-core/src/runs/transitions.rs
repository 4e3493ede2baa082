//! The state machine of runs: ends of panes, matches, the deadline, and the end of a run.

use std::time::Duration;

use fugue_api::{Cursor, Error, ErrorKind, EventId, PaneId, RunId, inbox_event::InboxEvent};

use super::{RunEntry, Runs, pipeline::ShellEnd};
use crate::{
    AfterCommit, CallId, Change, Effect, EnvironmentOwner, EventRecord, ExitStatus, ExpectMatch,
    ExpectOutcome, MatchedPattern, PaneJob, PaneRecord, RecordId, RunWork, StartTarget,
    StepOutcome, TaskOutcome,
    context::{Context, StepBuilder},
    inbox::NewEvent,
    result::LOST_BY_REBOOT,
    timer::Timer,
};

// How long the processes of a pane have to end by themselves when a run closes the pane.
const GRACE: Duration = Duration::from_secs(2);

impl Runs {
    /// Gives the open expects of a pane to the task that replaces a panicked one.
    pub fn resume_expects(&self, pane: PaneId, out: &mut StepBuilder) {
        for run in self.all.values().filter(|run| !run.record.is_settled()) {
            if let RunWork::Expect(work) = &run.record.work
                && work.pane == pane
            {
                let expect = work.request(&run.record.id);
                out.when_stored()
                    .then(AfterCommit::StartExpect { pane, expect });
            }
        }
    }

    pub(super) fn settle_without_pane(&mut self, id: &RunId, cx: &mut Context) {
        let now = cx.now();
        if let Some(run) = self.all.get_mut(id) {
            let gone = run.record.shell_end();
            match &mut run.record.work {
                RunWork::Expect(work) => {
                    work.outcome = Some(ExpectOutcome::Exited(ExitStatus::Unknown))
                }
                RunWork::Pipeline(work) => {
                    work.end_shell(gone, now.wall, None, &ExitStatus::Unknown)
                }
                RunWork::Parallel(_) => {}
            }
        }
        self.settle(id, cx);
    }

    pub fn open_runs(&self) -> Vec<RunId> {
        let open = self.all.iter().filter(|(_, run)| !run.record.over);
        open.map(|(id, _)| id.clone()).collect()
    }

    /// Applies the end of a pane, which is in its record already, to all open runs.
    pub fn record_pane_end(&mut self, pane: PaneId, cx: &mut Context) {
        let now = cx.now();
        let Some(ended) = cx
            .panes
            .get(&pane)
            .and_then(|pane| pane.record.ended.clone())
        else {
            return;
        };
        for id in self.open_runs() {
            let Some(run) = self.all.get_mut(&id) else {
                continue;
            };
            let settled = run.record.is_settled();
            let gone = run.record.shell_end();
            let mut moved = false;
            match &mut run.record.work {
                // The task had not begun to search, so the archived output is searched.
                RunWork::Expect(work) if work.pane == pane && !settled && !run.is_searching => {
                    let record = cx.panes.get(&pane).map(|pane| pane.record.clone());
                    if let Some(record) = record {
                        cx.out.when_stored().then(AfterCommit::SearchArchive {
                            record: Box::new(record),
                            expect: work.request(&id),
                        });
                    }
                }
                RunWork::Expect(work) if work.pane == pane && !settled => {
                    work.outcome = Some(if ended.closed {
                        ExpectOutcome::PaneClosed
                    } else {
                        ExpectOutcome::Exited(ended.exit.clone())
                    });
                    moved = true;
                }
                RunWork::Parallel(work) if !settled => {
                    let task = work
                        .tasks
                        .iter_mut()
                        .find(|task| task.pane == pane && task.outcome.is_none());
                    if let Some(task) = task {
                        task.outcome = Some(TaskOutcome::Exited(ended.exit.clone()));
                        task.ended_at = Some(now.moment());
                        moved = true;
                    }
                }
                RunWork::Pipeline(work) if work.pane == pane && !settled => {
                    work.end_shell(gone, now.wall, Some(&ended.cursor), &ended.exit);
                    moved = true;
                }
                // Past the deadline, or cancelled: the step that is interrupted has ended with its shell. A pane that is
                // closed may have other processes, and the run ends at `Swept`.
                RunWork::Pipeline(work) if work.pane == pane => {
                    work.stopped = true;
                    let closing = cx.panes.get(&pane).is_some_and(|pane| pane.record.closing);
                    if !closing {
                        self.end_if_over(&id, cx);
                    }
                    continue;
                }
                RunWork::Expect(_) | RunWork::Parallel(_) | RunWork::Pipeline(_) => {}
            }
            if moved {
                self.settle_or_cancel_rest(&id, cx);
            }
        }
    }

    /// Applies the end of a task, or its failed start, to the whole run. With `fail_fast` a failed task cancels the others.
    /// The run is settled when every task has an outcome; an expect and a pipeline have a single pane, whose end settles
    /// them.
    fn settle_or_cancel_rest(&mut self, id: &RunId, cx: &mut Context) {
        let now = cx.now();
        let Some(run) = self.all.get_mut(id) else {
            return;
        };
        let settled = match &mut run.record.work {
            RunWork::Expect(work) => work.outcome.is_some(),
            RunWork::Parallel(work) => {
                if work.args.fail_fast && work.tasks.iter().any(|task| task.failed()) {
                    for task in work.tasks.iter_mut().filter(|task| task.outcome.is_none()) {
                        task.outcome = Some(TaskOutcome::Cancelled);
                        task.ended_at = Some(now.moment());
                    }
                }
                work.tasks.iter().all(|task| task.outcome.is_some())
            }
            // No other shell is started.
            RunWork::Pipeline(_) => true,
        };
        if settled {
            self.settle(id, cx);
        } else {
            run.stored(&mut cx.out);
            run.changed(&mut cx.out);
        }
    }

    pub fn run_pane_not_opened(&mut self, pane: PaneId, error: &Error, cx: &mut Context) {
        let now = cx.now();
        for id in self.open_runs() {
            let Some(run) = self.all.get_mut(&id) else {
                continue;
            };
            let settled = run.record.is_settled();
            match &mut run.record.work {
                RunWork::Parallel(work) => {
                    let task = work.tasks.iter_mut().find(|task| task.pane == pane);
                    let Some(task) = task.filter(|task| task.outcome.is_none()) else {
                        continue;
                    };
                    let why = if run.record.lost_by_reboot {
                        LOST_BY_REBOOT
                    } else {
                        &error.message
                    };
                    task.outcome = Some(TaskOutcome::NotStarted(why.to_owned()));
                    task.ended_at = Some(now.moment());
                    self.settle_or_cancel_rest(&id, cx);
                }
                RunWork::Pipeline(work) if work.pane == pane && !settled => {
                    if run.record.lost_by_reboot {
                        work.end_shell(ShellEnd::Reboot, now.wall, None, &ExitStatus::Unknown);
                        self.settle(&id, cx);
                    } else if work.steps.is_empty() {
                        self.refuse_run(&id, error, cx);
                    } else {
                        work.trouble = Some(format!("no fresh shell: {}", error.message));
                        self.settle(&id, cx);
                    }
                }
                // Past the deadline: the step that is interrupted has no shell.
                RunWork::Pipeline(work) if work.pane == pane => work.stopped = true,
                RunWork::Expect(work) if work.pane == pane && !settled => {
                    if run.record.lost_by_reboot {
                        work.outcome = Some(ExpectOutcome::Exited(ExitStatus::Unknown));
                        self.settle(&id, cx);
                    } else {
                        self.refuse_run(&id, error, cx);
                    }
                }
                RunWork::Expect(_) | RunWork::Pipeline(_) => {}
            }
        }
    }

    /// Opens a pane of an open run that an earlier daemon recorded but never started. Returns `false` if no run needs it.
    pub fn reopen_pane(&self, record: &PaneRecord, out: &mut StepBuilder) -> bool {
        let id = record.id;
        let open = self.all.values().filter(|run| !run.record.is_settled());
        for run in open.filter(|run| !run.record.lost_by_reboot) {
            let Some(caller) = run.caller.clone() else {
                continue;
            };
            let (job, env, launch_env) = match &run.record.work {
                RunWork::Expect(work) if work.pane == id && work.opening.is_some() => {
                    for effect in work.open_pane(&run.record.id, record.clone(), caller) {
                        out.when_stored().then(effect);
                    }
                    return true;
                }
                RunWork::Parallel(work) => {
                    let Some(index) = work.tasks.iter().position(|task| task.pane == id) else {
                        continue;
                    };
                    let one = &work.args.commands[index];
                    let job = PaneJob::Command(one.command.clone());
                    (job, one.env.clone(), work.tasks[index].launch_env.clone())
                }
                RunWork::Pipeline(work) if work.pane == id => {
                    let (job, launch_env) = work.fresh_shell(run.record.number, record);
                    (job, Default::default(), launch_env)
                }
                RunWork::Expect(_) | RunWork::Pipeline(_) => continue,
            };
            out.when_stored().then(AfterCommit::OpenPane {
                record: Box::new(record.clone()),
                job,
                env,
                launch_env,
                caller,
            });
            return true;
        }
        false
    }

    /// Stores where an expect that waits began, so that a later daemon continues at this position.
    pub fn expect_started(&mut self, run: &RunId, from: Cursor, out: &mut StepBuilder) {
        let Some(run) = self.all.get_mut(run) else {
            return;
        };
        run.is_searching = true;
        if let RunWork::Expect(work) = &mut run.record.work
            && work.from.is_none()
            && work.outcome.is_none()
        {
            work.from = Some(from);
            run.stored(out);
        }
    }

    pub fn expect_matched(
        &mut self,
        id: &RunId,
        from: Option<Cursor>,
        pattern: MatchedPattern,
        found: ExpectMatch,
        cx: &mut Context,
    ) {
        let Some(run) = self.all.get_mut(id).filter(|run| !run.record.is_settled()) else {
            return;
        };
        if let RunWork::Expect(work) = &mut run.record.work {
            work.from = work.from.take().or(from);
            work.outcome = Some(match pattern {
                MatchedPattern::Pattern => ExpectOutcome::Matched(found),
                MatchedPattern::Fail => ExpectOutcome::Failed(found),
            });
            self.settle(id, cx);
        }
    }

    /// Settles an expect as exited: the archived output has no match.
    pub fn expect_exhausted(&mut self, id: &RunId, pane: PaneId, cx: &mut Context) {
        let ended = cx
            .panes
            .get(&pane)
            .and_then(|pane| pane.record.ended.as_ref());
        let exit = ended.map_or(ExitStatus::Unknown, |ended| ended.exit.clone());
        let Some(run) = self.all.get_mut(id).filter(|run| !run.record.is_settled()) else {
            return;
        };
        if let RunWork::Expect(work) = &mut run.record.work {
            work.outcome = Some(ExpectOutcome::Exited(exit));
            self.settle(id, cx);
        }
    }

    /// Fixes the result of a run. The run is over once its panes are closed.
    pub(super) fn settle(&mut self, id: &RunId, cx: &mut Context) {
        let now = cx.now();
        let Some(run) = self.all.get_mut(id) else {
            return;
        };
        run.record.settled_at = Some(now.moment());
        self.close_panes(id, cx);
        if !self.end_if_over(id, cx)
            && let Some(run) = self.all.get_mut(id)
        {
            run.stored(&mut cx.out);
            run.changed(&mut cx.out);
        }
    }

    pub(super) fn close_panes(&mut self, id: &RunId, cx: &mut Context) {
        let panes = self.all.get(id).map(|run| run.record.closes());
        for pane in panes.into_iter().flatten() {
            cx.panes.close_for_run(pane, GRACE, &mut cx.out);
        }
    }

    /// Ends settled runs whose panes have no process left.
    pub fn end_settled_runs(&mut self, cx: &mut Context) {
        for id in self.open_runs() {
            if self.all.get(&id).is_some_and(|run| run.record.is_settled()) {
                self.end_if_over(&id, cx);
            }
        }
    }

    pub(super) fn end_if_over(&mut self, id: &RunId, cx: &mut Context) -> bool {
        let Some(run) = self.all.get(id) else {
            return true;
        };
        let closed = |pane: &PaneId| {
            let pane = cx.panes.get(pane);
            pane.is_none_or(|pane| pane.record.ended.as_ref().is_some_and(|ended| ended.closed))
        };
        if !run.record.closes().iter().all(closed) || run.interrupts() {
            return false;
        }
        let Some(run) = self.all.get_mut(id) else {
            return true;
        };
        run.record.over = true;
        run.caller = None;
        cx.out.stop_timer(&Timer::RunDeadline(id.clone()));
        cx.out.commit([
            Change::put(run.record.clone()),
            Change::remove_environment(EnvironmentOwner::Run(id.clone())),
        ]);
        let waiters = std::mem::take(&mut run.waiters);
        run.changed(&mut cx.out);
        let is_refused = run.refusal().is_some();
        let is_announced = run.record.announced;
        let informing = waiters.iter().find(|waiter| waiter.informs_owner);
        let informing = informing.map(|waiter| waiter.call);
        // A refusal holds no lease: its arrival is not acknowledged.
        let leased = match informing {
            _ if is_announced => informing.and_then(|call| self.lease_run_event(id, call, cx)),
            Some(_) if is_refused => None,
            Some(call) => self.publish_run_complete(id, Some(call), cx),
            None => {
                self.publish_run_complete(id, None, cx);
                None
            }
        };
        for waiter in waiters {
            let leased = leased.filter(|_| informing == Some(waiter.call));
            self.compose(id, waiter.call, waiter.wrap, leased, cx);
        }
        true
    }

    /// Publishes the end of a run to the inbox of its owner, leased to the call that returns the result to the owner, if
    /// there is such a call.
    fn publish_run_complete(
        &mut self,
        id: &RunId,
        informing: Option<CallId>,
        cx: &mut Context,
    ) -> Option<EventId> {
        let now = cx.now();
        let record = &self.all.get(id)?.record;
        let owner = record.owner.clone()?;
        let completion = crate::result::completion(record, now.moment());
        let post = NewEvent::new(owner, InboxEvent::RunComplete(completion));
        let Context { inboxes, out, .. } = cx;
        Some(match informing {
            Some(call) => inboxes.publish_with_result(post, call, out),
            None => inboxes.publish(post, out),
        })
    }

    /// Publishes the end of a run whose panes have still to be closed, leased to a call that returns the result now. `None`:
    /// the run goes on, or another call will return the end to the owner.
    pub(super) fn announce_end(
        &mut self,
        id: &RunId,
        call: CallId,
        cx: &mut Context,
    ) -> Option<EventId> {
        let run = self.all.get_mut(id)?;
        let is_told = run.waiters.iter().any(|waiter| waiter.informs_owner);
        if !run.record.is_settled() || is_told || run.refusal().is_some() {
            return None;
        }
        if run.record.announced {
            return self.lease_run_event(id, call, cx);
        }
        run.record.announced = true;
        run.stored(&mut cx.out);
        self.publish_run_complete(id, Some(call), cx)
    }

    /// Leases the event about the end of a run to a call that returns the result. `None`: there is no event, or another
    /// call has it.
    pub(super) fn lease_run_event(
        &mut self,
        id: &RunId,
        call: CallId,
        cx: &mut Context,
    ) -> Option<EventId> {
        let run = self.all.get(id)?;
        let owner = run.record.owner.as_ref()?;
        let is_refused = run.refusal().is_some();
        let is_end = |record: &&EventRecord| matches!(&record.event, InboxEvent::RunComplete(end) if end.run_id() == Some(id));
        let event = cx
            .inboxes
            .events_after(owner, EventId(0))
            .find(is_end)
            .map(|record| record.id)?;
        if is_refused {
            // A refusal holds no lease: its arrival is not acknowledged.
            cx.inboxes.ack(event, &mut cx.out);
            return None;
        }
        cx.inboxes
            .try_lease_with_result(event, call)
            .then_some(event)
    }

    /// Removes a run that could not begin, and refuses its calls.
    pub(super) fn refuse_run(&mut self, id: &RunId, error: &Error, cx: &mut Context) {
        let Some(run) = self.all.remove(id) else {
            return;
        };
        cx.out.stop_timer(&Timer::RunDeadline(id.clone()));
        let mut changes = vec![
            Change::Remove(RecordId::Run(id.clone())),
            Change::remove_environment(EnvironmentOwner::Run(id.clone())),
        ];
        changes.extend(cx.starts.undo(&StartTarget::Run(id.clone())));
        cx.out.commit(changes);
        let calls = run.waiters.iter().map(|waiter| waiter.call);
        for call in calls.chain(run.followers.iter().map(|(call, _)| *call)) {
            cx.out.when_stored().reply(call, Err(error.clone()));
        }
    }

    pub fn run_not_stored(&mut self, id: &RunId, why: &str, cx: &mut Context) {
        let Some(run) = self.all.remove(id) else {
            return;
        };
        cx.starts.undo(&StartTarget::Run(id.clone()));
        cx.out.stop_timer(&Timer::RunDeadline(id.clone()));
        // A later commit may have put the run or its panes.
        let mut changes = vec![
            Change::Remove(RecordId::Run(id.clone())),
            Change::remove_environment(EnvironmentOwner::Run(id.clone())),
        ];
        let error = Error::new(
            ErrorKind::Exhausted,
            format!("the run could not be recorded: {why}"),
        )
        .hint("nothing was started; is the disk full, or read-only?");
        let mut calls: Vec<CallId> = run.waiters.iter().map(|waiter| waiter.call).collect();
        calls.extend(run.followers.iter().map(|(call, _)| *call));
        let mut remove = |pane: PaneId| {
            let removed = cx.panes.remove(&pane);
            changes.push(Change::Remove(RecordId::Pane(pane)));
            calls.extend(removed.into_iter().flat_map(|pane| pane.closers));
        };
        match &run.record.work {
            RunWork::Parallel(work) => work.tasks.iter().for_each(|task| remove(task.pane)),
            RunWork::Pipeline(work) if work.launch_env.is_some() => remove(work.pane),
            RunWork::Expect(work) if work.opening.is_some() => remove(work.pane),
            RunWork::Expect(_) | RunWork::Pipeline(_) => {}
        }
        cx.out.commit(changes);
        for call in calls {
            cx.out.refuse(call, error.clone());
        }
    }

    pub fn run_deadline_expired(&mut self, id: &RunId, cx: &mut Context) {
        let run = self.all.get(id);
        if run.is_some_and(|run| !run.record.is_settled()) {
            self.end_early(id, EarlyEnd::Timeout, cx);
        }
    }

    /// Answers a `fugue_wait` call whose own timeout is over.
    pub fn run_wait_expired(&mut self, call: CallId, cx: &mut Context) {
        let waiting = self.all.iter_mut().find_map(|(id, run)| {
            let mut waiters = run.waiters.extract_if(.., |waiter| waiter.call == call);
            waiters.next().map(|waiter| (id.clone(), waiter))
        });
        if let Some((id, waiter)) = waiting {
            let leased = match waiter.informs_owner {
                true => self.announce_end(&id, call, cx),
                false => None,
            };
            self.compose(&id, call, waiter.wrap, leased, cx);
        }
    }

    /// Ends a run before its work is done. Panes that the run closes are ended. The step of a pipeline in any other pane is
    /// interrupted. The tasks of a parallel run that timed out without `cleanup` go on.
    pub(super) fn end_early(&mut self, id: &RunId, why: EarlyEnd, cx: &mut Context) {
        let now = cx.now();
        let Some(run) = self.all.get_mut(id) else {
            return;
        };
        run.record.cancelled = why == EarlyEnd::Cancelled;
        let number = run.record.number;
        let closes = run.record.closes();
        match &mut run.record.work {
            RunWork::Expect(work) => {
                work.outcome = Some(match why {
                    EarlyEnd::Timeout => ExpectOutcome::TimedOut,
                    EarlyEnd::Cancelled => ExpectOutcome::Cancelled,
                });
                cx.out.perform(Effect::CancelExpect {
                    pane: work.pane,
                    run: id.clone(),
                });
            }
            RunWork::Parallel(work) => {
                for task in work.tasks.iter_mut().filter(|task| task.outcome.is_none()) {
                    task.outcome = Some(match why {
                        EarlyEnd::Timeout => TaskOutcome::TimedOut,
                        EarlyEnd::Cancelled => TaskOutcome::Cancelled,
                    });
                    task.ended_at = Some(now.moment());
                }
            }
            RunWork::Pipeline(work) => {
                let outcome = match why {
                    EarlyEnd::Timeout => StepOutcome::TimedOut,
                    EarlyEnd::Cancelled => StepOutcome::Cancelled,
                };
                work.stop(outcome, now.wall);
                work.stopped = closes.contains(&work.pane);
                if !work.stopped {
                    cx.out.perform(Effect::StopSteps {
                        pane: work.pane,
                        plan: number,
                    });
                }
            }
        }
        self.settle(id, cx);
    }
}

/// Why a run ends before its work is done.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum EarlyEnd {
    Timeout,
    Cancelled,
}

impl RunEntry {
    pub(super) fn stored(&self, out: &mut StepBuilder) {
        out.commit([Change::put(self.record.clone())]);
    }

    /// Whether a step that was interrupted at the early end of the run still runs.
    fn interrupts(&self) -> bool {
        match &self.record.work {
            RunWork::Pipeline(work) => work.stopping && !work.stopped,
            RunWork::Expect(_) | RunWork::Parallel(_) => false,
        }
    }
}
