//! Everything that core waits for by the clock, by name.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use fugue_api::{PaneId, RunId};

use crate::CallId;

/// The timers of core. An expired timer is ignored if the owner is gone or in another state.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Timer {
    /// A shell has shown no prompt for 10 s: waiting calls get the pane as "not ready".
    PromptWait(PaneId),
    /// An ended pane or run has reached the age limit, or the grace of the log quota is over: panes and runs beyond a limit are
    /// forgotten.
    ForgetEnded,
    /// The `timeout_ms` of a run is over: open tasks or steps end as timed out.
    RunDeadline(RunId),
    /// The timeout of a `fugue_wait` call: the reply is the state of the unfinished run.
    RunWait(CallId),
    /// The timeout of a `wait_for_event` call.
    EventWait(CallId),
    /// The timeout of an `ask_question` call: the reply is the default answer, or "pending".
    AnswerWait(CallId),
    /// A worker has not reported within `deadline_secs`: the lead gets a `worker_late` event.
    WorkerDeadline(u64),
    /// The screen of a worker has not shown what a hook reported: the lead is informed without it.
    WorkerScreen(u64),
    /// A watcher has slept for as long as a report is given, or has waited in vain for its pane to be quiet.
    WatcherWait(u64),
}

/// All timers that are set, by time. Each timer is set at most once.
#[derive(Debug, Default)]
pub(crate) struct TimerTable {
    by_timer: BTreeMap<Timer, Duration>,
    by_time: BTreeSet<(Duration, Timer)>,
}

impl TimerTable {
    /// Sets or moves a timer to a time of the boot clock.
    pub fn set(&mut self, timer: Timer, at: Duration) {
        self.stop(&timer);
        self.by_time.insert((at, timer.clone()));
        self.by_timer.insert(timer, at);
    }

    pub fn stop(&mut self, timer: &Timer) {
        if let Some(at) = self.by_timer.remove(timer) {
            self.by_time.remove(&(at, timer.clone()));
        }
    }

    #[cfg(test)]
    pub fn timers(&self) -> impl Iterator<Item = &Timer> {
        self.by_timer.keys()
    }

    /// When the next timer fires.
    pub fn next(&self) -> Option<Duration> {
        self.by_time.first().map(|(at, _)| *at)
    }

    /// Removes and returns the earliest expired timer.
    pub fn pop_expired(&mut self, now: Duration) -> Option<Timer> {
        let (at, _) = self.by_time.first()?;
        if *at > now {
            return None;
        }
        let (_, timer) = self.by_time.pop_first()?;
        self.by_timer.remove(&timer);
        Some(timer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn timers_fire_once_in_the_order_of_their_times() {
        let mut timers = TimerTable::default();
        timers.set(Timer::EventWait(CallId(1)), at(30));
        timers.set(Timer::PromptWait(PaneId(1)), at(10));
        timers.set(Timer::WorkerDeadline(7), at(20));
        assert_eq!(timers.next(), Some(at(10)));
        assert_eq!(timers.pop_expired(at(9)), None);
        assert_eq!(
            timers.pop_expired(at(20)),
            Some(Timer::PromptWait(PaneId(1)))
        );
        assert_eq!(timers.pop_expired(at(20)), Some(Timer::WorkerDeadline(7)));
        assert_eq!(timers.pop_expired(at(20)), None);
        assert_eq!(timers.next(), Some(at(30)));
    }

    #[test]
    fn a_timer_that_is_set_again_moves_and_one_that_is_stopped_is_gone() {
        let mut timers = TimerTable::default();
        timers.set(Timer::ForgetEnded, at(10));
        timers.set(Timer::ForgetEnded, at(40));
        assert_eq!(timers.pop_expired(at(39)), None);
        timers.stop(&Timer::ForgetEnded);
        timers.stop(&Timer::ForgetEnded);
        assert_eq!(timers.next(), None);
        assert_eq!(timers.pop_expired(at(100)), None);
    }
}
