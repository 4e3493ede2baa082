//! Probes of the foreground process: when the pane is probed.
//!
//! No event reports that a program begins to wait for input. The pane is therefore probed when output has stopped, and for
//! viewers again at growing intervals for as long as nothing but silence is known.

use std::time::{Duration, Instant};

use fugue_api::pane_state::{PaneState, SourcedState, StateSource};

/// Output that has stopped for this long is followed by a probe.
const QUIET_INTERVAL: Duration = Duration::from_millis(100);
/// A probe is valid a little longer than until the next one, so that a key pressed at a prompt does not appear as two
/// changes of state.
const PROBE_VALIDITY: Duration = Duration::from_millis(200);

/// Whether the state of the pane is of interest to anyone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeInterest {
    /// Only a probe that is scheduled already is postponed.
    None,
    /// A viewer or an agent's lead follows the state.
    Followed,
}

/// When the foreground process is probed.
#[derive(Debug, Default)]
pub struct ProbeSchedule {
    probe_at: Option<Instant>,
    has_probe: bool,
    /// The first output or typing since the last probe.
    stale_since: Option<Instant>,
}

/// The state of the pane that decides about the next probe.
pub struct ProbeView<'a> {
    pub now: Instant,
    pub last_output: Instant,
    /// The last output or typing.
    pub last_activity: Instant,
    pub is_connected: bool,
    /// The state that viewers are shown.
    pub state: &'a dyn Fn() -> SourcedState,
}

impl ProbeSchedule {
    pub fn deadline(&self) -> Option<Instant> {
        self.probe_at
    }

    /// Schedules the probe, whatever was scheduled before.
    pub fn schedule(&mut self, at: Instant) {
        self.probe_at = Some(at);
    }

    /// Schedules the probe for when nothing is printed for a moment.
    pub fn schedule_after_quiet(&mut self, now: Instant) {
        self.schedule(now + QUIET_INTERVAL);
    }

    /// Schedules the probe, unless one is scheduled or none is needed.
    pub fn schedule_if_idle(&mut self, at: Option<Instant>) {
        self.probe_at = self.probe_at.or(at);
    }

    /// Removes the scheduled probe, because it is due or no longer needed.
    pub fn clear(&mut self) {
        self.probe_at = None;
    }

    /// Something was printed: the probe follows when output has stopped.
    pub fn on_output(&mut self, interest: ProbeInterest, now: Instant) {
        self.stale_since.get_or_insert(now);
        if self.probe_at.is_some() || interest == ProbeInterest::Followed {
            self.schedule_after_quiet(now);
        }
    }

    /// A person has typed.
    pub fn on_person_typing(&mut self, interest: ProbeInterest, now: Instant) {
        self.stale_since.get_or_insert(now);
        if interest == ProbeInterest::Followed {
            self.schedule_after_quiet(now);
        }
    }

    /// The backend has answered a probe.
    pub fn on_probe(&mut self) {
        self.has_probe = true;
        self.stale_since = None;
    }

    /// Whether the last probe still describes the pane.
    pub fn is_probe_valid(&self, now: Instant) -> bool {
        let is_old = |since: Instant| now.saturating_duration_since(since) > PROBE_VALIDITY;
        self.has_probe && !self.stale_since.is_some_and(is_old)
    }

    /// When a viewer that waits for a frame needs a probe.
    pub fn next_for_viewer(&self, view: &ProbeView<'_>) -> Option<Instant> {
        match (self.has_probe, self.stale_since) {
            (false, _) => Some(view.now),
            (true, Some(stale_since)) => Some(view.last_output.max(stale_since) + QUIET_INTERVAL),
            (true, None) => Self::next_while_silent(view),
        }
    }

    /// When a silent pane is probed again: each time after twice as long, and only while nothing but silence is known.
    pub fn next_while_silent(view: &ProbeView<'_>) -> Option<Instant> {
        let state = (view.state)();
        let is_unknown = state.by == StateSource::Silence || state.state == PaneState::Running;
        let silence = view.now.saturating_duration_since(view.last_activity);
        (is_unknown && view.is_connected).then(|| view.now + silence.max(QUIET_INTERVAL))
    }
}

#[cfg(test)]
mod tests {
    use super::{super::test_clock::at, *};

    fn view(now: u64, last_activity: u64, state: &dyn Fn() -> SourcedState) -> ProbeView<'_> {
        ProbeView {
            now: at(now),
            last_output: at(last_activity),
            last_activity: at(last_activity),
            is_connected: true,
            state,
        }
    }

    fn running() -> SourcedState {
        SourcedState::new(PaneState::Running, StateSource::ShellMark)
    }

    fn at_prompt() -> SourcedState {
        SourcedState::new(PaneState::Idle, StateSource::ShellMark)
    }

    #[test]
    fn output_is_followed_by_a_probe_where_the_state_is_followed() {
        let mut schedule = ProbeSchedule::default();
        schedule.on_output(ProbeInterest::None, at(0));
        assert_eq!(schedule.deadline(), None);
        schedule.on_output(ProbeInterest::Followed, at(10));
        assert_eq!(schedule.deadline(), Some(at(110)));
        schedule.on_output(ProbeInterest::None, at(50));
        assert_eq!(schedule.deadline(), Some(at(150)), "postponed");
        schedule.on_person_typing(ProbeInterest::None, at(60));
        assert_eq!(schedule.deadline(), Some(at(150)));
        schedule.clear();
        schedule.on_person_typing(ProbeInterest::Followed, at(60));
        assert_eq!(schedule.deadline(), Some(at(160)));
    }

    #[test]
    fn a_probe_is_valid_for_a_moment_after_new_output() {
        let mut schedule = ProbeSchedule::default();
        assert!(!schedule.is_probe_valid(at(0)));
        schedule.on_probe();
        assert!(schedule.is_probe_valid(at(60_000)));
        schedule.on_output(ProbeInterest::None, at(60_000));
        schedule.on_output(ProbeInterest::None, at(60_150));
        assert!(schedule.is_probe_valid(at(60_200)));
        assert!(!schedule.is_probe_valid(at(60_201)));
    }

    #[test]
    fn a_viewer_has_the_pane_probed_once_and_again_after_output() {
        let mut schedule = ProbeSchedule::default();
        let next = |schedule: &ProbeSchedule, now, last_activity| {
            schedule.next_for_viewer(&view(now, last_activity, &at_prompt))
        };
        assert_eq!(next(&schedule, 500, 0), Some(at(500)));
        schedule.on_probe();
        assert_eq!(next(&schedule, 600, 0), None, "a prompt needs no probe");
        schedule.on_output(ProbeInterest::None, at(700));
        assert_eq!(next(&schedule, 710, 700), Some(at(800)));
        schedule.schedule_if_idle(Some(at(800)));
        schedule.schedule_if_idle(Some(at(900)));
        assert_eq!(schedule.deadline(), Some(at(800)));
    }

    #[test]
    fn a_silent_program_is_probed_at_growing_intervals() {
        let next = |now| ProbeSchedule::next_while_silent(&view(now, 0, &running));
        assert_eq!(next(50), Some(at(150)));
        assert_eq!(next(400), Some(at(800)));
        assert_eq!(next(800), Some(at(1600)));
        let lost = ProbeView {
            is_connected: false,
            ..view(800, 0, &running)
        };
        assert_eq!(ProbeSchedule::next_while_silent(&lost), None);
        let prompt = view(800, 0, &at_prompt);
        assert_eq!(ProbeSchedule::next_while_silent(&prompt), None);
    }
}
