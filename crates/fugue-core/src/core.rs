//! The registry of panes and everybody who waits on one.

#[cfg(test)]
pub(crate) mod tests;

use std::{collections::BTreeMap, time::Duration};

use fugue_api::{Error, ErrorKind, PaneId, RunId};

use crate::{
    AdoptMode, AfterCommit, ClockReading, CoreInput, Effect, PaneAdoption, StepEffects,
    StoreSnapshot, TmuxOrigin, Undo,
    attach::AttachState,
    calls::starts::StartHistory,
    context::Context,
    inbox::{InboxLimits, Inboxes},
    panes::{PaneEntry, PanePhase, Panes, limits::log_bytes},
    runs::RunEntry,
    settings::Settings,
    shared::Shared,
    timer::{Timer, TimerTable},
    watchers::Watchers,
    workers::Team,
};

/// The registry of panes and runs, and every call that waits on one.
#[derive(Debug)]
pub struct Core {
    pub(crate) shared: Shared,
    pub(crate) next_run: u64,
    pub(crate) runs: BTreeMap<RunId, RunEntry>,
    pub(crate) team: Team,
    pub(crate) watchers: Watchers,
    pub(crate) looking: AttachState,
    timers: TimerTable,
}

impl Core {
    /// Takes up what an earlier daemon left.
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
        let looking = AttachState::restored(&mut snapshot);
        // Above all that an earlier daemon told: whoever followed a run then hears of what happened in between.
        let first_version = snapshot.epoch << 32;
        let runs: BTreeMap<RunId, RunEntry> = snapshot
            .runs
            .into_iter()
            .map(|stored| {
                let id = stored.record.id.clone();
                (id, RunEntry::restored(stored, first_version, now))
            })
            .collect();
        let mut panes = Panes::new(snapshot.next_pane);
        for mut record in snapshot.panes {
            if record.removing {
                cx.when_stored()
                    .then(AfterCommit::Forget { pane: record.id });
                continue;
            }
            if let Some(ended) = &mut record.ended {
                ended.at = now.stamped(ended.at);
            }
            let phase = if record.ended.is_some() {
                PanePhase::Ended
            } else {
                cx.perform(Effect::Adopt(Box::new(PaneAdoption {
                    steps: runs.values().find_map(|run| run.steps_in(record.id)),
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
            shared: Shared {
                settings,
                panes,
                inboxes,
                starts: StartHistory::restored(snapshot.starts),
            },
            next_run: snapshot.next_run.max(1),
            runs,
            team,
            watchers,
            looking,
            timers: TimerTable::default(),
        };
        core.restore_runs(&mut cx);
        core.restore_workers(&mut cx);
        core.restore_watchers(&mut cx);
        core.forget_old(&mut cx);
        core.look_again(&mut cx);
        let (effects, timers) = cx.finish();
        core.timers = timers;
        (core, effects)
    }

    /// Takes one input, and returns what is to be done about it.
    pub fn step(&mut self, input: CoreInput, now: ClockReading) -> StepEffects {
        let mut cx = Context::new(now, std::mem::take(&mut self.timers));
        self.handle(input, &mut cx);
        self.look_again(&mut cx);
        let (effects, timers) = cx.finish();
        self.timers = timers;
        effects
    }

    /// When [`CoreInput::Time`] is due next, on the boot clock.
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
                self.forget_call(call);
                self.forget_run_call(call);
                self.forget_team_call(call, cx);
                self.watchers.forget_call(call);
                self.forget_look(call, cx);
            }
            CoreInput::Pane { pane, event } => self.fact(pane, event, cx),
            CoreInput::NotStored { what, why } => {
                self.looking.is_stale();
                self.undo(&what, &why, cx);
            }
            CoreInput::Prepared { worker, outcome } => self.prepared(worker, outcome, cx),
            CoreInput::Unprepared { worker, error } => self.drop_worker(worker, &error, cx),
            CoreInput::WorkedOut { worker, found } => self.worked_out(worker, found, cx),
            CoreInput::WatcherRan { watcher, step, ran } => {
                self.watcher_ran(watcher, step, ran, cx)
            }
            CoreInput::Judged {
                watcher,
                step,
                judged,
            } => self.judged(watcher, step, judged, cx),
            CoreInput::Composed { run, delivered } => self.composed(&run, delivered, cx),
            CoreInput::Time => {
                while let Some(timer) = cx.next_expired() {
                    self.expire_timer(timer, cx);
                }
            }
        }
    }

    /// Does what a timer was set for, if what it was set for is still so.
    fn expire_timer(&mut self, timer: Timer, cx: &mut Context) {
        match timer {
            Timer::PromptWait(pane) => self.prompt_wait_expired(pane, cx),
            Timer::ForgetEnded => self.forget_old(cx),
            Timer::RunDeadline(run) => self.run_deadline_expired(&run, cx),
            Timer::RunWait(call) => self.run_wait_expired(call, cx),
            Timer::EventWait(call) => self.shared.inboxes.wait_expired(call, cx),
            Timer::AnswerWait(call) => self.answer_wait_expired(call, cx),
            Timer::WorkerDeadline(worker) => self.worker_deadline_expired(worker, cx),
            Timer::WatcherWait(watcher) => self.watcher_wait_expired(watcher, cx),
        }
    }

    /// What was to be started could not be recorded, so it must not be.
    fn undo(&mut self, what: &Undo, why: &str, cx: &mut Context) {
        match what {
            Undo::Pane(pane) => self.not_stored(*pane, why, cx),
            Undo::Run(run) => self.run_not_stored(run, why, cx),
            Undo::Worker(worker) => {
                let error = Error::new(
                    ErrorKind::Exhausted,
                    format!("the new worker could not be recorded: {why}"),
                );
                let error = error.hint("nothing was started; is the disk full, or read-only?");
                self.drop_worker(*worker, &error, cx);
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

    /// Those that fugue made. A person's own, in tmux, outlive it.
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
