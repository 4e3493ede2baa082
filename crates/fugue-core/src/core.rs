//! Routing: inputs go to the feature that they are about, and expired timers to their owner.

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
    context::Context,
    inbox::{InboxLimits, Inboxes},
    panes::Panes,
    runs::Runs,
    settings::Settings,
    shared::SharedState,
    timer::{Timer, TimerTable},
    watchers::Watchers,
    workers::Team,
};

/// The state of all features. Decides about inputs without I/O and without a clock.
#[derive(Debug)]
pub struct Core {
    pub(crate) shared: SharedState,
    pub(crate) runs: Runs,
    pub(crate) team: Team,
    pub(crate) watchers: Watchers,
    pub(crate) attach: AttachState,
    timers: TimerTable,
}

impl Core {
    /// Restores the state that an earlier daemon stored, and continues what was open.
    pub fn restore(
        settings: Settings,
        mut snapshot: StoreSnapshot,
        now: ClockReading,
    ) -> (Self, StepEffects) {
        let mut cx = Context::new(now, TimerTable::default());
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
            &mut cx,
        );
        let team = Team::restored(&mut snapshot, now);
        let mut core = Self {
            shared: SharedState {
                settings,
                panes,
                inboxes,
                starts: StartHistory::restored(snapshot.starts),
            },
            runs,
            team,
            watchers,
            attach,
            timers: TimerTable::default(),
        };
        core.runs.restore_runs(&mut core.shared, &mut cx);
        core.team.restore_workers(&mut core.shared, &mut cx);
        core.watchers.restore_watchers(&mut core.shared, &mut cx);
        core.forget_old(&mut cx);
        core.attach.refresh(&core.shared, &core.team, &mut cx);
        let (effects, timers) = cx.finish();
        core.timers = timers;
        (core, effects)
    }

    /// Handles one input and returns its effects.
    pub fn step(&mut self, input: CoreInput, now: ClockReading) -> StepEffects {
        let mut cx = Context::new(now, std::mem::take(&mut self.timers));
        self.handle(input, &mut cx);
        self.attach.refresh(&self.shared, &self.team, &mut cx);
        self.runs.store_fetches(&mut cx);
        let (effects, timers) = cx.finish();
        self.timers = timers;
        effects
    }

    /// When [`CoreInput::TimerExpired`] is due next, on the boot clock.
    pub fn next_deadline(&self) -> Option<Duration> {
        self.timers.next()
    }

    fn handle(&mut self, input: CoreInput, cx: &mut Context) {
        match input {
            CoreInput::Call { call, asked } => {
                if let Err(error) = self.call(call, asked, cx) {
                    cx.refuse(call, error);
                }
            }
            CoreInput::Cancelled { call } => {
                cx.stop_call_timers(call);
                self.shared.panes.forget_call(call);
                self.runs.forget_run_call(call);
                self.team.forget_team_call(call, &mut self.shared, cx);
                self.watchers.forget_call(call);
                self.attach.forget_call(call, &self.shared, cx);
            }
            CoreInput::Pane { pane, event } => self.handle_pane_event(pane, event, cx),
            CoreInput::NotStored { what, why } => {
                self.attach.mark_stale();
                self.undo(&what, &why, cx);
            }
            CoreInput::WorkerPrepared { worker, outcome } => {
                self.team.prepared(worker, outcome, &mut self.shared, cx)
            }
            CoreInput::WorkerUnprepared { worker, error } => {
                self.team.drop_worker(worker, &error, &mut self.shared, cx)
            }
            CoreInput::ChangesCollected { worker, found } => {
                self.team
                    .changes_collected(worker, found, &mut self.shared, cx)
            }
            CoreInput::WatcherCommandEnded { watcher, step, ran } => {
                self.watchers
                    .command_ended(watcher, step, ran, &mut self.shared, cx)
            }
            CoreInput::Assessed {
                watcher,
                step,
                judged,
            } => self
                .watchers
                .assessed(watcher, step, judged, &mut self.shared, cx),
            CoreInput::ReplyComposed { run, delivered } => {
                self.runs.reply_composed(&run, delivered);
                self.forget_old(cx);
            }
            CoreInput::TimerExpired => {
                while let Some(timer) = cx.next_expired() {
                    self.expire_timer(timer, cx);
                }
                // A pane or run may have become forgettable without an event that checks the limits.
                self.forget_old(cx);
            }
        }
    }

    /// Handles an expired timer. Its owner ignores it if it is gone or has moved on.
    fn expire_timer(&mut self, timer: Timer, cx: &mut Context) {
        match timer {
            Timer::PromptWait(pane) => self.shared.panes.prompt_wait_expired(pane, cx),
            // The limits are applied after every batch of timers.
            Timer::ForgetEnded => {}
            Timer::RunDeadline(run) => self.runs.run_deadline_expired(&run, &mut self.shared, cx),
            Timer::RunWait(call) => self.runs.run_wait_expired(call, &mut self.shared, cx),
            Timer::EventWait(call) => self.shared.inboxes.wait_expired(call, cx),
            Timer::AnswerWait(call) => self.team.answer_wait_expired(call, cx),
            Timer::WorkerDeadline(worker) => {
                self.team
                    .worker_deadline_expired(worker, &mut self.shared, cx)
            }
            Timer::WatcherWait(watcher) => {
                self.watchers
                    .watcher_wait_expired(watcher, &mut self.shared, cx)
            }
        }
    }

    /// Undoes a start that could not be stored, and refuses its calls.
    fn undo(&mut self, what: &Undo, why: &str, cx: &mut Context) {
        match what {
            Undo::Pane(pane) => {
                let SharedState { panes, starts, .. } = &mut self.shared;
                panes.remove_unstored(*pane, why, starts, cx);
            }
            Undo::Run(run) => self.runs.run_not_stored(run, why, &mut self.shared, cx),
            Undo::Worker(worker) => self
                .team
                .worker_not_stored(*worker, why, &mut self.shared, cx),
            Undo::Both(both) => {
                let (one, other) = &**both;
                self.undo(one, why, cx);
                self.undo(other, why, cx);
            }
        }
    }

    /// Routes an event of a pane to the features that it concerns: the pane itself, then runs, workers and watchers.
    fn handle_pane_event(&mut self, id: PaneId, event: PaneEvent, cx: &mut Context) {
        let shared = &mut self.shared;
        if let PaneEvent::Ended { exit, cursor, .. } = &event
            && self.runs.restart_shell(id, exit, cursor, shared, cx)
        {
            return;
        }
        if let PaneEvent::Removed = event {
            cx.commit([Change::Remove(RecordId::Pane(id))]);
            return;
        }
        let Some(pane) = shared.panes.get_mut(&id) else {
            return;
        };
        match event {
            PaneEvent::Opened { pid, cursor, tmux } => {
                pane.opened(pid, cursor, tmux, cx);
                self.team.worker_opened(id, cx);
            }
            PaneEvent::OpenFailed(error) => self.pane_not_opened(id, &error, cx),
            PaneEvent::NeverStarted(error) => {
                let is_reopened = self.team.reopen_pane(&pane.record, cx)
                    || self.runs.reopen_pane(&pane.record, cx);
                if !is_reopened {
                    self.pane_not_opened(id, &error, cx);
                }
            }
            PaneEvent::Prompted { cursor } => pane.settle(Some(cursor), None, cx),
            PaneEvent::AsksFirst { cursor } => {
                let trouble = "something asks for input before the first prompt";
                pane.settle(Some(cursor), Some(trouble), cx);
            }
            PaneEvent::LogGrew { bytes } => {
                pane.log_grew(bytes, &shared.settings);
                self.forget_old(cx);
            }
            PaneEvent::Moved { cwd } => pane.moved(cwd),
            PaneEvent::Resized(size) => pane.resized(size, cx),
            PaneEvent::OutputLost { bytes } => pane.output_lost(bytes),
            PaneEvent::Ended {
                exit,
                cursor,
                title,
                alone,
                sweeps,
            } => {
                let end = PaneEnd {
                    exit,
                    at: cx.now().moment(),
                    closed: pane.record.closing,
                    cursor,
                    title,
                };
                pane.ended(end, alone, sweeps, &shared.settings, cx);
                self.runs.record_pane_end(id, shared, cx);
                self.team.worker_ended(id, shared, cx);
                self.watchers.watched_pane_ended(id, shared, cx);
                self.forget_old(cx);
            }
            PaneEvent::Swept => {
                pane.swept(cx);
                self.runs.end_settled_runs(shared, cx);
            }
            PaneEvent::TaskPanicked { .. } if !pane.is_live() => {}
            PaneEvent::TaskPanicked { message } => {
                cx.perform(Effect::AdoptPane(Box::new(PaneAdoption {
                    how: pane.task_panicked(message),
                    record: pane.record.clone(),
                    steps: self.runs.steps_in(id),
                })));
                self.runs.resume_expects(id, cx);
            }
            // Handled above: the registry has no such pane any more.
            PaneEvent::Removed => {}
            PaneEvent::Watching { run, from } => self.runs.expect_started(&run, from, cx),
            PaneEvent::Sighted {
                run,
                from,
                saw,
                sighting,
            } => self
                .runs
                .expect_matched(&run, from, saw, sighting, shared, cx),
            PaneEvent::NothingSeen { run } => self.runs.expect_exhausted(&run, id, shared, cx),
            PaneEvent::StepBegan(news) => self.runs.step_began(news, cx),
            PaneEvent::StepEnded(news, code) => self.runs.step_ended(news, code, shared, cx),
            PaneEvent::StepsLost { plan, at, why } => {
                self.runs.steps_lost(plan, &at, why, shared, cx);
            }
            PaneEvent::StepsRefused { plan, error } => {
                self.runs.steps_refused(plan, &error, shared, cx)
            }
            PaneEvent::StepsStopped { plan } => self.runs.steps_stopped(plan, shared, cx),
            PaneEvent::Asks(asks) => self.team.pane_needs_input(id, asks, shared, cx),
            PaneEvent::Rest(rest) => self.team.pane_idle(id, rest, shared, cx),
            PaneEvent::MessageTyped { event, how } => {
                self.team.message_typed(id, event, how, shared, cx)
            }
            PaneEvent::Quiet {
                watcher,
                step,
                seen,
            } => self.watchers.quiet(watcher, step, seen, shared, cx),
            PaneEvent::Injected { watcher, step, how } => {
                self.watchers.injected(watcher, step, how, shared, cx)
            }
        }
    }

    fn pane_not_opened(&mut self, id: PaneId, error: &Error, cx: &mut Context) {
        let shared = &mut self.shared;
        shared
            .panes
            .remove_unopened(id, error, &mut shared.starts, cx);
        self.runs.run_pane_not_opened(id, error, shared, cx);
        self.runs.end_settled_runs(shared, cx);
        self.team.worker_not_opened(id, error, cx);
    }

    /// Forgets finished runs and then ended panes beyond the limits, and sets the timer for the next.
    fn forget_old(&mut self, cx: &mut Context) {
        let settings = &self.shared.settings;
        let next_run = self.runs.forget_old(settings, cx);
        let needed = self.runs.needed_panes();
        let next_pane = self.shared.panes.forget_old(&needed, settings, cx);
        match [next_run, next_pane].into_iter().flatten().min() {
            Some(at) => cx.set_timer(Timer::ForgetEnded, at),
            None => cx.stop_timer(&Timer::ForgetEnded),
        }
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
                let mut calls = self.shared.panes.calls_waiting_on(record.id);
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
        self.shared.panes.live().map(|record| record.id)
    }

    /// Live panes that fugue created. A person's own panes in tmux outlive the daemon.
    pub fn own_panes(&self) -> impl Iterator<Item = PaneId> + '_ {
        self.shared.panes.live_own().map(|record| record.id)
    }

    /// The pane of the nearest ancestor process. Each ancestor comes with the pane whose holder it is.
    pub fn pane_of(&self, ancestors: &[(u32, Option<PaneId>)]) -> Option<PaneId> {
        self.shared.panes.pane_of(ancestors)
    }

    /// Whether a name resolves to a known pane, so that tmux need not be queried.
    pub fn has_pane_named(&self, said: &str) -> bool {
        self.shared.panes.has_pane_named(said)
    }

    /// Whether a pane of tmux is recorded already.
    pub fn has_met(&self, found: &TmuxPaneInfo) -> bool {
        self.shared.panes.discovered_pane(found).is_some()
    }

    /// The size of all output logs together.
    pub fn log_usage(&self) -> LogUsage {
        self.shared.panes.log_usage()
    }

    /// Refuses to stop the daemon for a caller that is not a person.
    pub fn authorize_stop(
        &self,
        within: Option<PaneId>,
        claimed: CallerIdentity,
    ) -> Result<(), Error> {
        let who = self.team.identify(within, claimed, &self.shared)?;
        authority::authorize_stop(&who)
    }
}
