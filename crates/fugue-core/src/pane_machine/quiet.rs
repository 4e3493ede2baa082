//! A watcher's wait for quiet, and the check before its line is queued. The input queue checks drafts and the target again.

use std::time::{Duration, Instant};

use super::InputTarget;
use crate::{InjectionOutcome, PaneActivity, assess::Injection};

/// A watcher's request to be informed when the pane has been quiet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuietRequest {
    pub watcher: u64,
    pub step: u64,
    /// How long nothing may be printed or typed. Zero reports at once, whatever the pane shows.
    pub quiet: Duration,
    /// How many lines of text the report contains.
    pub lines: usize,
}

/// A watcher's line that is to be typed if the pane has not changed since the watcher saw it.
pub struct InjectionRequest {
    pub watcher: u64,
    pub step: u64,
    pub line: Injection,
    /// Whether Enter follows the line.
    pub enter: bool,
    /// The activity that the line was chosen for.
    pub seen: PaneActivity,
}

/// The state of the pane when the foreground process was probed for a watcher.
pub struct QuietView<'a> {
    pub now: Instant,
    /// The last output or typing.
    pub last_activity: Instant,
    /// Whether a program waits for a person's answer.
    pub needs_person: &'a dyn Fn() -> bool,
    pub has_draft: &'a dyn Fn() -> bool,
    pub target: &'a dyn Fn() -> InputTarget,
}

/// The consequence of a probe for a watcher.
#[derive(Debug, PartialEq, Eq)]
pub enum QuietDecision {
    /// No watcher waits, or something was printed or typed meanwhile: the timer was set again.
    Wait,
    /// The pane waits for a person. The watcher is informed and waits on; the next activity sets the timer again.
    Hold(QuietRequest, &'static str),
    /// An agent's dialog takes no line. The watcher is informed and waits no longer.
    Refuse(QuietRequest, String),
    /// The pane was quiet for long enough. The watcher gets the end of its text and waits no longer.
    Report(QuietRequest),
}

/// The wait of at most one watcher.
#[derive(Debug, Default)]
pub struct QuietWait {
    request: Option<QuietRequest>,
    probe_at: Option<Instant>,
}

impl QuietWait {
    pub fn start(&mut self, request: QuietRequest, last_activity: Instant, now: Instant) {
        self.request = Some(request);
        self.probe_at = Some(now.max(last_activity + request.quiet));
    }

    pub fn cancel(&mut self, watcher: u64) {
        if self
            .request
            .is_some_and(|request| request.watcher == watcher)
        {
            *self = Self::default();
        }
    }

    /// Something was printed or typed: the time of quiet begins again.
    pub fn on_activity(&mut self, last_activity: Instant) {
        if let Some(request) = self.request {
            self.probe_at = Some(last_activity + request.quiet);
        }
    }

    pub fn deadline(&self) -> Option<Instant> {
        self.probe_at
    }

    /// The deadline has passed: the foreground process is probed next.
    pub fn on_timer(&mut self) {
        self.probe_at = None;
    }

    /// Decides after a probe. A pane that waits for a person is not quiet, and neither is one with a draft: both end with
    /// typing, after which the timer is set again.
    pub fn on_probe(&mut self, view: &QuietView<'_>) -> QuietDecision {
        let Some(request) = self.request else {
            return QuietDecision::Wait;
        };
        if view.now.saturating_duration_since(view.last_activity) < request.quiet {
            self.on_activity(view.last_activity);
            return QuietDecision::Wait;
        }
        if !request.quiet.is_zero() {
            if (view.needs_person)() {
                return QuietDecision::Hold(request, "its program waits for a person's answer");
            }
            // No assessment could allow typing here. Keys that moved the choice of a dialog are no draft.
            let target = (view.target)();
            if let (InputTarget::Dialog(_), Some(why)) = (&target, target.obstacle()) {
                self.request = None;
                return QuietDecision::Refuse(request, why);
            }
            if (view.has_draft)() {
                let why = "somebody has begun a line in it and not sent it";
                return QuietDecision::Hold(request, why);
            }
        }
        self.request = None;
        QuietDecision::Report(request)
    }
}

/// The state of the pane when the foreground process was probed for an injection.
pub struct InjectionView<'a> {
    pub activity: PaneActivity,
    /// Output waits to be read.
    pub has_unread_output: bool,
    pub needs_person: &'a dyn Fn() -> bool,
    pub has_draft: &'a dyn Fn() -> bool,
    pub target: &'a dyn Fn() -> InputTarget,
}

impl InjectionView<'_> {
    /// Why a line that was chosen for `seen` is not typed now. `None`: nothing has changed, and the line may be typed.
    pub fn obstacle(&self, seen: &PaneActivity) -> Option<InjectionOutcome> {
        let has_changed = self.activity != *seen || self.has_unread_output;
        if has_changed || (self.has_draft)() || (self.needs_person)() {
            return Some(InjectionOutcome::NotNow);
        }
        (self.target)().obstacle().map(InjectionOutcome::Refused)
    }
}

#[cfg(test)]
mod tests {
    use super::{super::test_clock::at, *};

    const REQUEST: QuietRequest = QuietRequest {
        watcher: 7,
        step: 2,
        quiet: Duration::from_millis(1000),
        lines: 40,
    };

    struct Screen {
        needs_person: bool,
        has_draft: bool,
        dialog: bool,
    }

    const PLAIN: Screen = Screen {
        needs_person: false,
        has_draft: false,
        dialog: false,
    };

    impl Screen {
        fn target(&self) -> InputTarget {
            match self.dialog {
                true => InputTarget::Dialog("Proceed?".into()),
                false => InputTarget::Lines,
            }
        }

        fn probe(&self, wait: &mut QuietWait, last_activity: u64, now: u64) -> QuietDecision {
            wait.on_probe(&QuietView {
                now: at(now),
                last_activity: at(last_activity),
                needs_person: &|| self.needs_person,
                has_draft: &|| self.has_draft,
                target: &|| self.target(),
            })
        }

        fn obstacle(
            &self,
            seen: &PaneActivity,
            has_unread_output: bool,
        ) -> Option<InjectionOutcome> {
            let view = InjectionView {
                activity: PaneActivity {
                    printed: 100,
                    typed: 3,
                },
                has_unread_output,
                needs_person: &|| self.needs_person,
                has_draft: &|| self.has_draft,
                target: &|| self.target(),
            };
            view.obstacle(seen)
        }
    }

    #[test]
    fn activity_postpones_the_probe() {
        let mut wait = QuietWait::default();
        wait.start(REQUEST, at(0), at(200));
        assert_eq!(wait.deadline(), Some(at(1000)));
        wait.on_activity(at(900));
        assert_eq!(wait.deadline(), Some(at(1900)));
        wait.on_timer();
        assert_eq!(wait.deadline(), None);
        assert_eq!(PLAIN.probe(&mut wait, 1500, 1900), QuietDecision::Wait);
        assert_eq!(wait.deadline(), Some(at(2500)), "activity while probing");
        let report = QuietDecision::Report(REQUEST);
        assert_eq!(PLAIN.probe(&mut wait, 1500, 2500), report);
        assert_eq!(PLAIN.probe(&mut wait, 1500, 9000), QuietDecision::Wait);
    }

    #[test]
    fn a_pane_that_has_been_quiet_is_probed_at_once() {
        let mut wait = QuietWait::default();
        wait.start(REQUEST, at(0), at(5000));
        assert_eq!(wait.deadline(), Some(at(5000)));
    }

    #[test]
    fn a_person_holds_the_watcher_and_a_dialog_refuses_it() {
        let asks = Screen {
            needs_person: true,
            ..PLAIN
        };
        let drafted = Screen {
            has_draft: true,
            ..PLAIN
        };
        let dialog = Screen {
            dialog: true,
            ..PLAIN
        };
        let mut wait = QuietWait::default();
        wait.start(REQUEST, at(0), at(0));
        for held in [&asks, &drafted] {
            let decision = held.probe(&mut wait, 0, 1000);
            assert!(matches!(decision, QuietDecision::Hold(REQUEST, _)));
        }
        let refused = dialog.probe(&mut wait, 0, 1000);
        assert!(matches!(refused, QuietDecision::Refuse(REQUEST, _)));
        assert_eq!(dialog.probe(&mut wait, 0, 1000), QuietDecision::Wait);
    }

    #[test]
    fn keys_that_moved_a_choice_do_not_hide_the_dialog() {
        let moved = Screen {
            has_draft: true,
            dialog: true,
            ..PLAIN
        };
        let mut wait = QuietWait::default();
        wait.start(REQUEST, at(0), at(0));
        let QuietDecision::Refuse(REQUEST, why) = moved.probe(&mut wait, 0, 1000) else {
            panic!("the watcher was held for a draft");
        };
        assert!(why.contains("Proceed?"), "{why}");
        // An open question comes before both: the watcher waits on until it is answered.
        let asked = Screen {
            needs_person: true,
            ..moved
        };
        wait.start(REQUEST, at(0), at(0));
        let decision = asked.probe(&mut wait, 0, 1000);
        assert!(matches!(decision, QuietDecision::Hold(REQUEST, _)));
    }

    #[test]
    fn a_wait_of_zero_is_reported_whatever_the_pane_shows() {
        let now = QuietRequest {
            quiet: Duration::ZERO,
            ..REQUEST
        };
        let mut wait = QuietWait::default();
        wait.start(now, at(50), at(50));
        let asks = Screen {
            needs_person: true,
            ..PLAIN
        };
        assert_eq!(asks.probe(&mut wait, 50, 50), QuietDecision::Report(now));
    }

    #[test]
    fn only_its_own_watcher_cancels_a_wait() {
        let mut wait = QuietWait::default();
        wait.start(REQUEST, at(0), at(0));
        wait.cancel(8);
        assert!(wait.deadline().is_some());
        wait.cancel(7);
        assert_eq!(wait.deadline(), None);
        wait.on_activity(at(10));
        assert_eq!(wait.deadline(), None);
    }

    #[test]
    fn a_line_is_typed_only_into_the_pane_that_it_was_chosen_for() {
        let seen = PaneActivity {
            printed: 100,
            typed: 3,
        };
        let older = PaneActivity {
            printed: 99,
            typed: 3,
        };
        let drafted = Screen {
            has_draft: true,
            ..PLAIN
        };
        let dialog = Screen {
            dialog: true,
            ..PLAIN
        };
        let not_now = Some(InjectionOutcome::NotNow);
        assert_eq!(PLAIN.obstacle(&seen, false), None);
        assert_eq!(PLAIN.obstacle(&older, false), not_now);
        assert_eq!(PLAIN.obstacle(&seen, true), not_now);
        assert_eq!(drafted.obstacle(&seen, false), not_now);
        let refused = dialog.obstacle(&seen, false);
        assert!(matches!(refused, Some(InjectionOutcome::Refused(_))));
    }
}
