//! Routing: an input goes to the feature that handles this kind of input, an expired timer to its owner.

#[cfg(test)]
mod simulation;
#[cfg(test)]
pub(crate) mod tests;

use std::time::Duration;

use fugue_api::{Error, PaneId, wire::CallerIdentity};

use crate::{
    AfterCommit, CallId, Change, ClockReading, CoreInput, Effect, LogUsage, PaneAdoption, PaneEnd,
    PaneEvent, RecordId, StepEffects, StoreSnapshot, TmuxPaneInfo, Undo,
    attach::AttachState,
    calls::{authority, starts::StartHistory},
    context::{Context, StepBuilder},
    inbox::{InboxLimits, Inboxes},
    panes::Panes,
    runs::Runs,
    settings::Settings,
    timer::Timer,
    watchers::Watchers,
    workers::Team,
};

/// The state of all features. Decides about inputs without I/O and without a clock.
#[derive(Debug)]
pub struct Core {
    pub(crate) cx: Context,
    pub(crate) runs: Runs,
    pub(crate) team: Team,
    pub(crate) watchers: Watchers,
    pub(crate) attach: AttachState,
}

impl Core {
    /// Restores the state that an earlier daemon stored, and continues open runs, workers and watchers.
    pub fn restore(
        settings: Settings,
        mut snapshot: StoreSnapshot,
        now: ClockReading,
    ) -> (Self, StepEffects) {
        let mut out = StepBuilder::new(now);
        let inboxes = Inboxes::restored(
            std::mem::take(&mut snapshot.events),
            snapshot.next_event,
            InboxLimits::of(&settings),
        );
        let watchers = Watchers::restored(&mut snapshot);
        let attach = AttachState::restored(&mut snapshot);
        let runs = Runs::restored(&mut snapshot, now);
        let panes = Panes::restored(
            &mut snapshot,
            |pane| runs.steps_in(pane),
            &settings,
            &mut out,
        );
        let team = Team::restored(&mut snapshot, now);
        let mut core = Self {
            cx: Context {
                settings,
                panes,
                inboxes,
                starts: StartHistory::restored(snapshot.starts, now),
                out,
            },
            runs,
            team,
            watchers,
            attach,
        };
        core.runs.restore_runs(&mut core.cx);
        core.team.restore_workers(&mut core.cx);
        core.watchers.restore_watchers(&mut core.cx);
        core.forget_old();
        core.attach.refresh(&core.team, &mut core.cx);
        let effects = core.cx.out.finish();
        (core, effects)
    }

    /// Handles one input and returns its effects.
    pub fn step(&mut self, input: CoreInput, now: ClockReading) -> StepEffects {
        self.cx.out.begin(now);
        self.handle(input);
        self.attach.refresh(&self.team, &mut self.cx);
        self.team.inform_question_watchers(&mut self.cx.out);
        self.runs.store_fetches(&mut self.cx.out);
        self.cx.out.finish()
    }

    /// When [`CoreInput::TimerExpired`] is due next, on the boot clock.
    pub fn next_deadline(&self) -> Option<Duration> {
        self.cx.out.next_deadline()
    }

    fn handle(&mut self, input: CoreInput) {
        match input {
            CoreInput::Call { call, asked } => {
                if let Err(error) = self.call(call, asked) {
                    self.cx.out.refuse(call, error);
                }
            }
            CoreInput::Cancelled { call } => {
                self.cx.out.stop_call_timers(call);
                self.cx.panes.forget_call(call);
                self.runs.forget_run_call(call);
                self.team.cancel_team_call(call, &mut self.cx);
                self.watchers.forget_call(call);
                self.attach.forget_call(call, &mut self.cx);
            }
            CoreInput::Pane { pane, event } => self.handle_pane_event(pane, event),
            CoreInput::NotStored { what, why } => {
                self.attach.mark_dirty();
                self.undo(&what, &why);
                self.watchers.end_without_pane(&mut self.cx);
            }
            CoreInput::WorkerPrepared { worker, outcome } => {
                self.team.prepared(worker, outcome, &mut self.cx)
            }
            CoreInput::WorkerUnprepared { worker, error } => {
                self.team.drop_worker(worker, &error, &mut self.cx)
            }
            CoreInput::ChangesCollected { worker, found } => {
                self.team.changes_collected(worker, found, &mut self.cx)
            }
            CoreInput::WatcherCommandEnded { watcher, step, ran } => {
                self.watchers
                    .command_ended(watcher, step, ran, &mut self.cx)
            }
            CoreInput::Assessed {
                watcher,
                step,
                judged,
            } => self.watchers.assessed(watcher, step, judged, &mut self.cx),
            CoreInput::SettingsChanged(settings) => {
                self.cx.inboxes.set_limits(InboxLimits::of(&settings));
                self.cx.settings = *settings;
                self.forget_old();
            }
            CoreInput::ReplyComposed { run, delivered } => {
                self.runs.reply_composed(&run, delivered);
                self.forget_old();
            }
            CoreInput::TimerExpired => {
                while let Some(timer) = self.cx.out.next_expired() {
                    self.expire_timer(timer);
                }
                // A pane or run may have become forgettable without an event that checks the limits.
                self.forget_old();
            }
        }
    }

    /// Handles an expired timer. A timer of a state that is gone or has moved on is ignored by the owner.
    fn expire_timer(&mut self, timer: Timer) {
        match timer {
            Timer::PromptWait(pane) => self.cx.panes.prompt_wait_expired(pane, &mut self.cx.out),
            // The limits are applied after every batch of timers.
            Timer::ForgetEnded => {}
            Timer::RunDeadline(run) => self.runs.run_deadline_expired(&run, &mut self.cx),
            Timer::RunWait(call) => self.runs.run_wait_expired(call, &mut self.cx),
            Timer::EventWait(call) => self.cx.inboxes.wait_expired(call, &mut self.cx.out),
            Timer::AnswerWait(call) => self.team.answer_wait_expired(call, &mut self.cx.out),
            Timer::WorkerDeadline(worker) => {
                self.team.worker_deadline_expired(worker, &mut self.cx)
            }
            Timer::WorkerScreen(worker) => self.team.worker_screen_expired(worker, &mut self.cx),
            Timer::WatcherWait(watcher) => {
                self.watchers.watcher_wait_expired(watcher, &mut self.cx)
            }
        }
    }

    /// Undoes a start that could not be stored, and refuses its calls.
    fn undo(&mut self, what: &Undo, why: &str) {
        match what {
            Undo::Pane(pane) => {
                let Context {
                    panes, starts, out, ..
                } = &mut self.cx;
                panes.remove_unstored(*pane, why, starts, out);
            }
            Undo::Run(run) => self.runs.run_not_stored(run, why, &mut self.cx),
            Undo::Worker(worker) => self.team.worker_not_stored(*worker, why, &mut self.cx),
            Undo::Both(both) => {
                let (one, other) = &**both;
                self.undo(one, why);
                self.undo(other, why);
            }
        }
    }

    /// Routes an event of a pane to the features that react to it: the pane itself, then runs, workers and watchers.
    fn handle_pane_event(&mut self, id: PaneId, event: PaneEvent) {
        let cx = &mut self.cx;
        if let PaneEvent::Ended { exit, cursor, .. } = &event
            && self.runs.restart_shell(id, exit, cursor, cx)
        {
            return;
        }
        if let PaneEvent::Removed = event {
            cx.out.commit([Change::Remove(RecordId::Pane(id))]);
            return;
        }
        self.route_pane_event(id, event);
    }

    fn route_pane_event(&mut self, id: PaneId, event: PaneEvent) {
        let cx = &mut self.cx;
        let Some(pane) = cx.panes.get_mut(&id) else {
            return;
        };
        match event {
            PaneEvent::Opened { pid, cursor, tmux } => {
                pane.opened(pid, cursor, tmux, &mut cx.out);
                self.team.worker_opened(id, &mut cx.out);
            }
            PaneEvent::OpenFailed(error) => self.pane_not_opened(id, &error),
            PaneEvent::NeverStarted(error) => {
                let is_reopened = self.team.reopen_pane(&pane.record, &mut cx.out)
                    || self.runs.reopen_pane(&pane.record, &mut cx.out);
                if !is_reopened {
                    self.pane_not_opened(id, &error);
                }
            }
            PaneEvent::Prompted { cursor } => pane.settle(Some(cursor), None, &mut cx.out),
            PaneEvent::AttentionBeforePrompt { cursor } => {
                let trouble = "something asks for input before the first prompt";
                pane.settle(Some(cursor), Some(trouble), &mut cx.out);
            }
            PaneEvent::LogGrew { bytes } => {
                pane.log_grew(bytes, &cx.settings);
                self.forget_old();
            }
            PaneEvent::Moved { cwd } => pane.moved(cwd),
            PaneEvent::Resized(size) => pane.resized(size, &mut cx.out),
            PaneEvent::OutputNotWritten { bytes } => pane.output_not_written(bytes),
            PaneEvent::Ended {
                exit,
                cursor,
                title,
                alone,
                sweeps,
                lost_by_reboot,
            } => {
                let end = PaneEnd {
                    exit,
                    at: cx.out.now().moment(),
                    closed: pane.record.closing,
                    cursor,
                    title,
                    lost_by_reboot,
                };
                pane.ended(end, alone, sweeps, &cx.settings, &mut cx.out);
                self.runs.record_pane_end(id, cx);
                self.team.worker_ended(id, cx);
                self.watchers.watched_pane_ended(id, cx);
                self.forget_old();
            }
            PaneEvent::Swept => {
                pane.swept(&mut cx.out);
                self.runs.end_settled_runs(cx);
            }
            PaneEvent::TaskPanicked { .. } if !pane.is_live() => {}
            PaneEvent::TaskPanicked { message } => {
                cx.out.perform(Effect::AdoptPane(Box::new(PaneAdoption {
                    how: pane.task_panicked(message),
                    record: pane.record.clone(),
                    steps: self.runs.steps_in(id),
                })));
                self.runs.resume_expects(id, &mut cx.out);
                self.team.pane_task_replaced(id, cx);
                self.watchers.pane_task_replaced(id, cx);
            }
            // Handled before: the registry has no such pane any more.
            PaneEvent::Removed => {}
            PaneEvent::ExpectStarted { run, from } => {
                self.runs.expect_started(&run, from, &mut cx.out)
            }
            PaneEvent::ExpectMatched {
                run,
                from,
                pattern,
                found,
            } => self.runs.expect_matched(&run, from, pattern, found, cx),
            PaneEvent::ExpectExhausted { run } => self.runs.expect_exhausted(&run, id, cx),
            PaneEvent::StepBegan(event) => self.runs.step_began(event, &mut cx.out),
            PaneEvent::StepEnded(event, code) => self.runs.step_ended(event, code, cx),
            PaneEvent::StepsLost { plan, at, why } => {
                self.runs.steps_lost(plan, &at, why, cx);
            }
            PaneEvent::StepsRefused { plan, error } => self.runs.steps_refused(plan, &error, cx),
            PaneEvent::StepsStopped { plan } => self.runs.steps_stopped(plan, cx),
            PaneEvent::AgentObserved(observed) => {
                // The rows of workers are stored and so known to have changed.
                if !self.team.agent_observed(id, observed, cx) {
                    self.attach.rows_changed(&mut cx.out);
                }
            }
            PaneEvent::IdleReport(rest) => self.team.idle_reported(id, rest, cx),
            PaneEvent::MessageTyped { event, how } => self.team.message_typed(id, event, how, cx),
            PaneEvent::Quiet {
                watcher,
                step,
                seen,
            } => self.watchers.quiet(watcher, step, seen, cx),
            PaneEvent::Injected { watcher, step, how } => {
                self.watchers.injected(watcher, step, how, cx)
            }
        }
    }

    fn pane_not_opened(&mut self, id: PaneId, error: &Error) {
        let cx = &mut self.cx;
        cx.panes
            .remove_unopened(id, error, &mut cx.starts, &mut cx.out);
        self.runs.run_pane_not_opened(id, error, cx);
        self.runs.end_settled_runs(cx);
        self.team.worker_not_opened(id, error, &mut cx.out);
        self.watchers.watched_pane_ended(id, cx);
    }

    /// Forgets finished runs and then ended panes beyond the limits, and sets the timer for the next.
    fn forget_old(&mut self) {
        let settings = &self.cx.settings;
        let next_run = self.runs.forget_old(settings, &mut self.cx.out);
        let needed = self.runs.needed_panes();
        let next_pane = self
            .cx
            .panes
            .forget_old(&needed, settings, &mut self.cx.out);
        match [next_run, next_pane].into_iter().flatten().min() {
            Some(at) => self.cx.out.set_timer(Timer::ForgetEnded, at),
            None => self.cx.out.stop_timer(&Timer::ForgetEnded),
        }
    }

    /// Whether a watcher's line is still to be typed when its commit is stored.
    pub fn is_injecting(&self, watcher: u64, step: u64) -> bool {
        self.watchers.is_injecting(watcher, step)
    }

    /// The calls that are answered by an effect or by its result.
    pub fn calls_waiting_on(&self, effect: &AfterCommit) -> Vec<CallId> {
        match effect {
            AfterCommit::Reply { call, .. }
            | AfterCommit::Deliver { call, .. }
            | AfterCommit::ReplyResult { call, .. }
            | AfterCommit::ComposeReply { call, .. }
            | AfterCommit::AskPane { call, .. }
            | AfterCommit::CollectGarbage { call, .. } => vec![*call],
            AfterCommit::OpenPane { record, .. } => {
                let mut calls = self.cx.panes.calls_waiting_on(record.id);
                calls.extend(self.team.spawners_in(record.id));
                calls
            }
            AfterCommit::PrepareWorker { worker, .. }
            | AfterCommit::UnprepareWorker { worker, .. } => self.team.spawners_in(worker.pane),
            AfterCommit::TypeMessage { event, .. } => self.team.senders_of(*event),
            AfterCommit::Inject { watcher, .. } => self.watchers.pausers_of(*watcher),
            AfterCommit::RunWatcherCommand { .. }
            | AfterCommit::Assess { .. }
            | AfterCommit::CancelWatcherJob { .. }
            | AfterCommit::ClosePane { .. }
            | AfterCommit::EndProcesses { .. }
            | AfterCommit::RemoveWorkerFiles { .. }
            | AfterCommit::AdoptPane(_)
            | AfterCommit::RemovePaneDir { .. }
            | AfterCommit::StartExpect { .. }
            | AfterCommit::SearchArchive { .. }
            | AfterCommit::RunSteps { .. } => Vec::new(),
        }
    }

    pub fn live_panes(&self) -> impl Iterator<Item = PaneId> + '_ {
        self.cx.panes.live().map(|record| record.id)
    }

    /// Live panes that fugue created. A person's own panes in tmux outlive the daemon.
    pub fn own_panes(&self) -> impl Iterator<Item = PaneId> + '_ {
        self.cx.panes.live_own().map(|record| record.id)
    }

    /// The pane of the nearest ancestor process. Each ancestor that is a holder comes with the holder's pane.
    pub fn pane_of(&self, ancestors: &[(u32, Option<PaneId>)]) -> Option<PaneId> {
        self.cx.panes.pane_of(ancestors)
    }

    /// Whether a name resolves to a known pane, so that tmux need not be queried.
    pub fn has_pane_named(&self, said: &str) -> bool {
        self.cx.panes.has_pane_named(said)
    }

    /// Whether a pane of tmux is recorded already.
    pub fn has_met(&self, found: &TmuxPaneInfo) -> bool {
        self.cx.panes.discovered_pane(found).is_some()
    }

    /// The size of all output logs together.
    pub fn log_usage(&self) -> LogUsage {
        self.cx.panes.log_usage()
    }

    /// Refuses to stop the daemon for a caller that is not a person.
    pub fn authorize_stop(
        &self,
        within: Option<PaneId>,
        claimed: CallerIdentity,
    ) -> Result<(), Error> {
        let who = self.team.identify(within, claimed, &self.cx)?;
        authority::authorize_stop(&who)
    }

    /// Whether a caller may have the settings read again.
    pub fn authorize_reload(
        &self,
        within: Option<PaneId>,
        claimed: CallerIdentity,
    ) -> Result<(), Error> {
        let who = self.team.identify(within, claimed, &self.cx)?;
        authority::authorize_reload(&who)
    }
}
