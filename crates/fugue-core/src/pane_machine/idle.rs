//! The agent of a pane: what it is doing, and when a message may be typed.

use std::time::{Duration, Instant};

use super::{AgentScreen, AgentSight, BoxContent, InputTarget, sight::SightTracker};
use crate::{IdleState, PaneActivity, TurnEnd};

/// The state of the pane that decides about idleness.
pub struct IdleView<'a> {
    pub now: Instant,
    pub last_output: Instant,
    pub activity: PaneActivity,
    /// The backend is connected.
    pub is_connected: bool,
    /// The agent has a screen that fugue can read.
    pub is_known_agent: bool,
    /// An unknown agent is idle after printing nothing for longer than this.
    pub idle_threshold: Duration,
    /// Whether a person's draft comes first.
    pub is_person_typing: &'a dyn Fn() -> bool,
    pub screen: &'a dyn Fn() -> AgentScreen,
}

impl IdleView<'_> {
    fn silence(&self) -> Duration {
        self.now.saturating_duration_since(self.last_output)
    }

    /// How long nothing may be printed before an unknown agent is checked.
    fn unknown_agent_silence(&self) -> Duration {
        self.idle_threshold + Duration::from_millis(1)
    }
}

/// Decides what an agent is doing, and when it may be typed into.
#[derive(Debug, Default)]
pub struct AgentIdle {
    sight: SightTracker,
    /// Why the last message could not be typed, valid until something is printed or typed.
    refusal: Option<(PaneActivity, String)>,
    wait: Option<IdleWait>,
}

/// Core's wait until the agent is idle.
#[derive(Debug)]
struct IdleWait {
    turn_end: TurnEnd,
    /// When core is informed that the agent is not idle yet.
    report_at: Option<Instant>,
    /// When the agent is checked, unless output postpones the check.
    check_at: Option<Instant>,
}

/// An agent at work redraws something several times a second.
const IDLE_SILENCE: Duration = Duration::from_millis(500);
/// An agent that has not reported the end of its turn may be slow to draw.
const UNREPORTED_SILENCE: Duration = Duration::from_secs(3);
const REPORT_TIMEOUT: Duration = Duration::from_secs(2);

impl AgentIdle {
    /// For a pane of an earlier daemon.
    pub fn inherited() -> Self {
        Self {
            sight: SightTracker::inherited(),
            ..Self::default()
        }
    }

    /// Whether nothing moves, no question is open, and no person has begun to type.
    pub fn is_idle(&self, view: &IdleView<'_>) -> bool {
        let is_taken = self.sight.reported().is_dialog() || (view.is_person_typing)();
        let is_refused = self.current_refusal(view).is_some();
        if !view.is_connected || is_taken || is_refused || view.silence() < IDLE_SILENCE {
            return false;
        }
        let screen = (view.screen)();
        match screen.input {
            BoxContent::Empty => screen.dialog.is_none(),
            BoxContent::UnsentText => false,
            // An agent whose screen cannot be read is idle after a long silence. The target is checked again before
            // anything is typed.
            BoxContent::Unrecognized => {
                let is_silent = view.silence().as_millis() > view.idle_threshold.as_millis();
                !view.is_known_agent && screen.dialog.is_none() && is_silent
            }
        }
    }

    /// Why a message has to wait, where the agent is not just at work.
    pub fn obstacle(&self, view: &IdleView<'_>) -> Option<String> {
        let screen = (view.screen)();
        if let Some(dialog) = screen.dialog {
            InputTarget::Dialog(dialog.text()).obstacle()
        } else if (view.is_person_typing)() || screen.input == BoxContent::UnsentText {
            Some("somebody has begun a line in its pane".to_owned())
        } else {
            self.current_refusal(view).map(str::to_owned)
        }
    }

    fn current_refusal(&self, view: &IdleView<'_>) -> Option<&str> {
        let (activity, why) = self.refusal.as_ref()?;
        (*activity == view.activity).then_some(why)
    }

    /// Whether an unreported turn is over: nothing has moved for long, and the agent does not display that it works.
    fn seems_over(view: &IdleView<'_>) -> bool {
        view.is_known_agent && view.silence() >= UNREPORTED_SILENCE && !(view.screen)().working
    }

    /// Starts core's wait, or repeats it for one more sender. A pending report stays as early as it was. `on_timer` follows
    /// at once.
    pub fn start_wait(&mut self, turn_end: TurnEnd, now: Instant) {
        let timeout = match turn_end {
            TurnEnd::Reported => REPORT_TIMEOUT,
            // Most agents that have not reported are at work.
            TurnEnd::Unknown => Duration::ZERO,
        };
        let pending = self.wait.as_ref().and_then(|wait| wait.report_at);
        let report_at = now + timeout;
        self.wait = Some(IdleWait {
            turn_end,
            report_at: Some(pending.map_or(report_at, |pending| pending.min(report_at))),
            check_at: Some(now),
        });
    }

    pub fn deadline(&self) -> Option<Instant> {
        let wait = self.wait.as_ref()?;
        [wait.report_at, wait.check_at].into_iter().flatten().min()
    }

    /// Something was printed: the check is postponed until the agent has been silent again.
    pub fn on_output(&mut self, view: &IdleView<'_>) {
        let Some(wait) = &mut self.wait else { return };
        let silence = match view.is_known_agent {
            true => wait.silence(),
            false => view.unknown_agent_silence(),
        };
        wait.check_at = Some(view.last_output + silence);
    }

    /// Checks the agent when the check or the report is due. Returns the state to report to core.
    pub fn on_timer(&mut self, view: &IdleView<'_>) -> Option<IdleState> {
        let wait = self.wait.as_mut()?;
        if wait.check_at.is_some_and(|at| at <= view.now) {
            wait.check_at = None;
            let (turn_end, silence) = (wait.turn_end, wait.silence());
            let is_over = || turn_end == TurnEnd::Reported || Self::seems_over(view);
            if self.is_idle(view) && is_over() {
                self.wait = None;
                return Some(IdleState::Now);
            }
            if view.now < view.last_output + silence {
                self.on_output(view);
            }
        }
        let wait = self.wait.as_mut()?;
        wait.report_at.take_if(|at| *at <= view.now)?;
        Some(IdleState::NotYet(self.obstacle(view)))
    }

    /// A message could not be typed for this reason.
    pub fn on_refusal(&mut self, activity: PaneActivity, why: String) {
        self.refusal = Some((activity, why));
    }

    /// What the agent shows, as far as it counts.
    pub fn sight(&self) -> &AgentSight {
        self.sight.reported()
    }

    pub fn look_deadline(&self) -> Option<Instant> {
        self.sight.deadline()
    }

    /// Schedules a look at the screen after output.
    pub fn plan_look(&mut self, now: Instant) {
        self.sight.on_output(now);
    }

    /// The program is about to draw its screen again.
    pub fn on_redraw(&mut self, now: Instant) {
        self.sight.on_redraw(now);
    }

    /// Somebody has typed Enter.
    pub fn on_enter(&mut self, now: Instant) {
        self.sight.on_enter(now);
    }

    /// A look at the screen, which shows `seen`. Returns a changed sight that core is informed of.
    pub fn on_look(&mut self, seen: AgentSight, view: &IdleView<'_>) -> Option<AgentSight> {
        let changed = self.sight.on_look(seen, view.last_output, view.now)?;
        // The answer to a question may have been the event that core waits for.
        if let Some(wait) = &mut self.wait {
            wait.check_at = Some(view.last_output + wait.silence());
        }
        Some(changed)
    }

    /// What the agent of a pane shows that is not followed.
    pub fn single_look(&self, seen: AgentSight, view: &IdleView<'_>) -> AgentSight {
        self.sight.single_look(seen, view.last_output, view.now)
    }
}

impl IdleWait {
    /// How long nothing may have been printed.
    fn silence(&self) -> Duration {
        match self.turn_end {
            TurnEnd::Reported => IDLE_SILENCE,
            TurnEnd::Unknown => UNREPORTED_SILENCE,
        }
    }
}

#[cfg(test)]
mod tests {
    use fugue_api::pane_state::StateSource;

    use super::{
        super::{AgentDialog, AgentNotice, test_clock::at},
        *,
    };

    /// One agent's pane: the time of its last output, its screen and a person.
    struct Script {
        idle: AgentIdle,
        last_output: u64,
        activity: PaneActivity,
        is_connected: bool,
        is_known_agent: bool,
        is_person_typing: bool,
        screen: AgentScreen,
    }

    impl Script {
        fn new() -> Self {
            Self {
                idle: AgentIdle::default(),
                last_output: 0,
                activity: PaneActivity::default(),
                is_connected: true,
                is_known_agent: true,
                is_person_typing: false,
                screen: AgentScreen {
                    input: BoxContent::Empty,
                    ..AgentScreen::default()
                },
            }
        }

        fn with<T>(&mut self, ms: u64, f: impl FnOnce(&mut AgentIdle, &IdleView<'_>) -> T) -> T {
            let view = IdleView {
                now: at(ms),
                last_output: at(self.last_output),
                activity: self.activity.clone(),
                is_connected: self.is_connected,
                is_known_agent: self.is_known_agent,
                idle_threshold: Duration::from_millis(5000),
                is_person_typing: &|| self.is_person_typing,
                screen: &|| self.screen.clone(),
            };
            f(&mut self.idle, &view)
        }

        fn is_idle(&mut self, ms: u64) -> bool {
            self.with(ms, |idle, view| idle.is_idle(view))
        }

        fn timer(&mut self, ms: u64) -> Option<IdleState> {
            self.with(ms, |idle, view| idle.on_timer(view))
        }

        fn prints(&mut self, ms: u64) {
            self.last_output = ms;
            self.activity.printed += 1;
            self.with(ms, |idle, view| idle.on_output(view));
        }
    }

    #[test]
    fn an_empty_box_is_idle_after_half_a_second_of_silence() {
        let mut pane = Script::new();
        assert!(!pane.is_idle(499));
        assert!(pane.is_idle(500));
        pane.is_connected = false;
        assert!(!pane.is_idle(500));
        pane.is_connected = true;
        pane.is_person_typing = true;
        assert!(!pane.is_idle(500));
    }

    #[test]
    fn the_screen_decides_about_a_known_agent_and_silence_about_another() {
        for (is_known_agent, input, dialog, ms, expected) in [
            (true, BoxContent::UnsentText, None, 9000, false),
            (true, BoxContent::Unrecognized, None, 9000, false),
            (true, BoxContent::Empty, Some("Proceed?"), 9000, false),
            (false, BoxContent::Unrecognized, None, 5000, false),
            (false, BoxContent::Unrecognized, None, 5001, true),
            (
                false,
                BoxContent::Unrecognized,
                Some("Proceed?"),
                9000,
                false,
            ),
        ] {
            let mut pane = Script::new();
            pane.is_known_agent = is_known_agent;
            pane.screen.input = input;
            pane.screen.dialog = dialog.map(AgentDialog::unknown);
            assert_eq!(pane.is_idle(ms), expected, "{input:?} {dialog:?} {ms}");
        }
    }

    #[test]
    fn a_reported_turn_end_is_confirmed_when_the_agent_is_silent() {
        let mut pane = Script::new();
        pane.idle.start_wait(TurnEnd::Reported, at(100));
        assert_eq!(pane.timer(100), None);
        assert_eq!(pane.idle.deadline(), Some(at(500)));
        pane.prints(400);
        assert_eq!(pane.idle.deadline(), Some(at(900)));
        assert_eq!(pane.timer(900), Some(IdleState::Now));
        assert_eq!(pane.idle.deadline(), None);
    }

    #[test]
    fn core_is_informed_once_that_it_takes_longer() {
        let mut pane = Script::new();
        pane.screen.dialog = Some(AgentDialog::unknown("Proceed?"));
        pane.idle.start_wait(TurnEnd::Reported, at(1000));
        assert_eq!(pane.timer(1000), None);
        assert_eq!(pane.idle.deadline(), Some(at(3000)));
        let Some(IdleState::NotYet(Some(why))) = pane.timer(3000) else {
            panic!("not informed");
        };
        assert!(why.contains("Proceed?"), "{why}");
        assert_eq!(pane.timer(9000), None);
    }

    #[test]
    fn a_repeated_wait_is_reported_again_and_postpones_no_pending_report() {
        let mut pane = Script::new();
        pane.prints(900);
        pane.idle.start_wait(TurnEnd::Unknown, at(1000));
        assert_eq!(pane.timer(1000), Some(IdleState::NotYet(None)), "at work");
        pane.screen.input = BoxContent::UnsentText;
        pane.idle.start_wait(TurnEnd::Unknown, at(2000));
        let why = "somebody has begun a line in its pane".to_owned();
        assert_eq!(pane.timer(2000), Some(IdleState::NotYet(Some(why.clone()))));
        pane.idle.start_wait(TurnEnd::Reported, at(3000));
        pane.idle.start_wait(TurnEnd::Reported, at(4000));
        assert_eq!(pane.timer(4999), None);
        assert_eq!(pane.timer(5000), Some(IdleState::NotYet(Some(why))));
    }

    #[test]
    fn an_unreported_turn_end_takes_three_seconds_without_a_sign_of_work() {
        let mut pane = Script::new();
        pane.idle.start_wait(TurnEnd::Unknown, at(1000));
        assert_eq!(pane.timer(1000), Some(IdleState::NotYet(None)), "at once");
        assert_eq!(pane.idle.deadline(), Some(at(3000)));
        pane.screen.working = true;
        assert_eq!(pane.timer(3000), None);
        pane.screen.working = false;
        pane.prints(4000);
        assert_eq!(pane.timer(7000), Some(IdleState::Now));
    }

    #[test]
    fn a_refusal_holds_until_something_is_printed_or_typed() {
        let mut pane = Script::new();
        pane.idle.on_refusal(pane.activity.clone(), "a menu".into());
        assert!(!pane.is_idle(1000));
        let why = pane.with(1000, |idle, view| idle.obstacle(view));
        assert_eq!(why.as_deref(), Some("a menu"));
        pane.prints(1000);
        assert!(pane.is_idle(2000));
        assert_eq!(pane.with(2000, |idle, view| idle.obstacle(view)), None);
    }

    #[test]
    fn an_open_dialog_keeps_messages_away_and_its_end_is_the_time_to_type() {
        let mut pane = Script::new();
        let asks = AgentSight::Asks {
            dialog: AgentDialog::unknown("Proceed?"),
            by: StateSource::Screen,
        };
        for ms in [100, 400] {
            pane.with(ms, |idle, view| idle.on_look(asks.clone(), view));
        }
        assert_eq!(pane.idle.sight(), &asks);
        assert!(!pane.is_idle(9000), "the question is open");
        pane.idle.start_wait(TurnEnd::Unknown, at(9000));
        assert_eq!(pane.timer(9000), Some(IdleState::NotYet(None)));
        let idle_sight = AgentSight::of_screen(&pane.screen, AgentNotice::default);
        for ms in [9100, 10_100] {
            pane.with(ms, |idle, view| idle.on_look(idle_sight.clone(), view));
        }
        assert_eq!(pane.timer(10_100), Some(IdleState::Now));
    }
}
