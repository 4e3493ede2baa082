//! The context of a step of core: the state that several features share, and the effects, changes and timers of the step.

use std::time::Duration;

use fugue_api::{Error, ErrorKind, PaneId};

use crate::{
    AfterCommit, CallId, Change, ClockReading, Effect, StepCommit, StepEffects,
    calls::starts::StartHistory,
    inbox::Inboxes,
    panes::Panes,
    settings::Settings,
    timer::{Timer, TimerTable},
};

/// The state that runs, workers, watchers and viewers have in common, and the step that is being made. The state of a single
/// feature is not part of it and is only changed by that feature.
#[derive(Debug)]
pub(crate) struct Context {
    pub settings: Settings,
    pub panes: Panes,
    pub inboxes: Inboxes,
    pub starts: StartHistory,
    pub out: StepBuilder,
}

impl Context {
    pub fn now(&self) -> ClockReading {
        self.out.now()
    }

    /// The error for the id of a pane that was opened once and is not recorded any more.
    pub fn forgotten(&self, said: &str) -> Option<Error> {
        let id = said.parse::<PaneId>().ok()?;
        let was_given_out = (1..self.panes.next).contains(&id.0);
        let Settings {
            forget_after_hours,
            forget_beyond_panes,
            logs_quota_mb,
            ..
        } = &self.settings;
        was_given_out.then(|| {
            let message = format!("no pane `{id}` any more: it has ended and is forgotten, or it could not be opened");
            Error::new(ErrorKind::NotFound, message)
                .hint(format!(
                    "ended panes are kept for {forget_after_hours} h (`forget_after_hours`), at most {forget_beyond_panes} \
                     of them (`forget_beyond_panes`) and {logs_quota_mb} MB of output (`logs_quota_mb`); `fugue ls` lists \
                     the panes"
                ))
        })
    }
}

/// The time of a step, and the step's effects, changes and timers. Timers stay set from step to step.
#[derive(Debug)]
pub(crate) struct StepBuilder {
    now: ClockReading,
    effects: Vec<Effect>,
    commit: Option<StepCommit>,
    timers: TimerTable,
}

impl StepBuilder {
    pub fn new(now: ClockReading) -> Self {
        Self {
            now,
            effects: Vec::new(),
            commit: None,
            timers: TimerTable::default(),
        }
    }

    /// Begins the next step.
    pub fn begin(&mut self, now: ClockReading) {
        self.now = now;
    }

    /// When the next timer expires, on the boot clock.
    pub fn next_deadline(&self) -> Option<Duration> {
        self.timers.next()
    }

    #[cfg(test)]
    pub fn timers(&self) -> impl Iterator<Item = &Timer> {
        self.timers.timers()
    }

    pub fn now(&self) -> ClockReading {
        self.now
    }

    /// Adds an effect that waits for no commit.
    pub fn perform(&mut self, effect: Effect) {
        self.effects.push(effect);
    }

    /// Refuses a call at once. A refusal claims nothing that has to be stored.
    pub fn refuse(&mut self, call: CallId, error: Error) {
        self.perform(Effect::Reply {
            call,
            answer: Err(error),
        });
    }

    /// Adds changes to the one commit of this step. Effects that need the changes stored are added to the commit that
    /// is returned.
    pub fn commit(&mut self, changes: impl IntoIterator<Item = Change>) -> &mut StepCommit {
        let commit = self.commit.get_or_insert_default();
        commit.changes.extend(changes);
        commit
    }

    /// The commit of this step, for effects that wait for the commits of earlier steps. A commit without changes is a barrier:
    /// it completes when all earlier commits are stored.
    pub fn when_stored(&mut self) -> &mut StepCommit {
        self.commit([])
    }

    /// All changes of this step so far.
    pub fn changes(&self) -> &[Change] {
        self.commit.as_ref().map_or(&[], |commit| &commit.changes)
    }

    /// Whether this step has changes that are stored in any case: without an undo a failed commit is retried.
    pub fn has_certain_changes(&self) -> bool {
        let commit = self.commit.as_ref();
        commit.is_some_and(|commit| !commit.changes.is_empty() && commit.undo.is_none())
    }

    /// Sets or moves a timer. `at` is a time of the boot clock.
    pub fn set_timer(&mut self, timer: Timer, at: Duration) {
        self.timers.set(timer, at);
    }

    pub fn stop_timer(&mut self, timer: &Timer) {
        self.timers.stop(timer);
    }

    /// Removes an expired timer from the table.
    pub fn next_expired(&mut self) -> Option<Timer> {
        self.timers.pop_expired(self.now.since_boot)
    }

    /// Stops the timers of a call that is answered or cancelled.
    pub fn stop_call_timers(&mut self, call: CallId) {
        self.stop_timer(&Timer::RunWait(call));
        self.stop_timer(&Timer::EventWait(call));
        self.stop_timer(&Timer::AnswerWait(call));
    }

    /// Ends the step and returns its effects. The timers of answered calls are stopped.
    pub fn finish(&mut self) -> StepEffects {
        let at_once = self.effects.iter().filter_map(Effect::call);
        let commit = self.commit.iter().flat_map(|commit| &commit.then);
        let stored = commit.filter_map(AfterCommit::call);
        let answered: Vec<CallId> = at_once.chain(stored).collect();
        for call in answered {
            self.stop_call_timers(call);
        }
        StepEffects {
            effects: std::mem::take(&mut self.effects),
            commit: self.commit.take(),
        }
    }
}
