//! Routing: inputs go to the feature that they are about, and expired timers to their owner.

#[cfg(test)]
mod simulation;
#[cfg(test)]
pub(crate) mod tests;

use std::time::Duration;

use fugue_api::{Error, ErrorKind, PaneId};

use crate::{
    AdoptMode, AfterCommit, ClockReading, CoreInput, Effect, PaneAdoption, StepEffects,
    StoreSnapshot, TmuxOrigin, Undo,
    attach::AttachState,
    calls::starts::StartHistory,
    context::Context,
    inbox::{InboxLimits, Inboxes},
    panes::{PaneEntry, PanePhase, Panes, limits::log_bytes},
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
        let team = Team::restored(&mut snapshot, now);
        let watchers = Watchers::restored(&mut snapshot);
        let attach = AttachState::restored(&mut snapshot);
        let runs = Runs::restored(&mut snapshot, now);
        // A record may be stored without the counter of its start, if the store refused the start and a later commit put it.
        let ids = snapshot.panes.iter().map(|record| record.id.0);
        let next_pane = ids.max().map_or(0, |id| id + 1).max(snapshot.next_pane);
        let mut panes = Panes::new(next_pane);
        for mut record in snapshot.panes {
            if record.removing {
                cx.when_stored()
                    .then(AfterCommit::RemovePaneDir { pane: record.id });
                continue;
            }
            if let Some(ended) = &mut record.ended {
                ended.at = now.stamped(ended.at);
            }
            let phase = if record.ended.is_some() {
                PanePhase::Ended
            } else {
                cx.perform(Effect::AdoptPane(Box::new(PaneAdoption {
                    steps: runs.steps_in(record.id),
                    record: record.clone(),
                    how: AdoptMode::Terminal,
                })));
                if record.pid == 0 {
                    PanePhase::Opening {
                        callers: Vec::new(),
                    }
                } else {
                    PanePhase::Live
                }
            };
            let ended = record.ended.as_ref();
            let log_bytes = ended.map_or(0, |ended| log_bytes(&ended.cursor, &settings));
            panes.insert(PaneEntry {
                log_bytes,
                record,
                phase,
                closers: Vec::new(),
                alone: false,
                lost_bytes: 0,
                panics: 0,
            });
        }
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
                self.forget_call(call);
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
            Timer::PromptWait(pane) => self.prompt_wait_expired(pane, cx),
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
            Undo::Pane(pane) => self.not_stored(*pane, why, cx),
            Undo::Run(run) => self.runs.run_not_stored(run, why, &mut self.shared, cx),
            Undo::Worker(worker) => {
                let error = Error::new(
                    ErrorKind::Exhausted,
                    format!("the new worker could not be recorded: {why}"),
                );
                let error = error.hint("nothing was started; is the disk full, or read-only?");
                self.team.drop_worker(*worker, &error, &mut self.shared, cx);
            }
            Undo::Both(both) => {
                let (one, other) = &**both;
                self.undo(one, why, cx);
                self.undo(other, why, cx);
            }
        }
    }

    pub fn live_panes(&self) -> impl Iterator<Item = PaneId> + '_ {
        self.shared
            .panes
            .iter()
            .filter(|pane| pane.record.ended.is_none())
            .map(|pane| pane.record.id)
    }

    /// Live panes that fugue created. A person's own panes in tmux outlive the daemon.
    pub fn own_panes(&self) -> impl Iterator<Item = PaneId> + '_ {
        let found = |pane: &PaneId| {
            let tmux = self
                .shared
                .panes
                .get(pane)
                .and_then(|pane| pane.record.tmux.as_ref());
            tmux.is_some_and(|tmux| tmux.origin == TmuxOrigin::Found)
        };
        self.live_panes().filter(move |pane| !found(pane))
    }
}
