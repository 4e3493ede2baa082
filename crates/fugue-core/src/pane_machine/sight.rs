//! What the screen of an agent shows, once it has stood for long enough to be believed.
//!
//! Programs draw in pieces and draw everything again after a resize, so a single look at the screen proves nothing. A sight
//! counts when consecutive looks agree for the time that its kind needs, and not within a second of a redraw.

use std::time::{Duration, Instant};

use fugue_api::{
    PaneId,
    pane_state::{
        AgentState, AgentStatus, AttentionKind, AttentionRequest, DialogChoice, StateSource,
    },
};

use super::{AgentScreen, BoxContent};

/// A dialog that waits for a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentDialog {
    /// Empty if the dialog's text is not recognised.
    pub question: String,
    pub kind: AttentionKind,
    /// The numbered choices.
    pub choices: Vec<DialogChoice>,
    /// The dialog states a usage limit.
    pub limit: Option<UsageLimit>,
}

impl AgentDialog {
    /// A dialog of an unknown kind without known choices.
    pub fn unknown(question: impl Into<String>) -> Self {
        Self {
            question: question.into(),
            kind: AttentionKind::Prompt,
            choices: Vec::new(),
            limit: None,
        }
    }

    pub fn request(&self, pane: PaneId) -> AttentionRequest {
        AttentionRequest::new(self.kind, self.choices.clone(), pane)
    }

    /// The question, or words for a dialog whose text is not recognised.
    pub fn text(&self) -> String {
        match self.question.is_empty() {
            true => "an unknown prompt".to_owned(),
            false => self.question.clone(),
        }
    }
}

/// Whether two questions are one, drawn at different sizes: another width breaks lines elsewhere, and a small screen or the
/// limit of a question cuts a part off.
pub fn is_same_question(one: &str, other: &str) -> bool {
    // Shorter texts are compared as a whole.
    const MIN_COMMON_CHARS: usize = 20;
    let letters =
        |text: &str| -> Vec<char> { text.chars().filter(|c| c.is_alphanumeric()).collect() };
    let (one, other) = (letters(one), letters(other));
    let common = one.len().min(other.len());
    one == other
        || common >= MIN_COMMON_CHARS && (one.ends_with(&other) || other.ends_with(&one))
        || common >= MIN_COMMON_CHARS && (one.starts_with(&other) || other.starts_with(&one))
}

/// What an idle agent shows above its input box.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentNotice {
    /// The last lines.
    pub message: String,
    pub limit: Option<UsageLimit>,
    /// A person has interrupted the turn.
    pub is_cancelled: bool,
}

/// A usage limit that an agent shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsageLimit {
    /// When the limit ends, in the agent's words.
    pub resume_at: Option<String>,
}

/// What an agent shows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum AgentSight {
    /// Nothing that is recognised.
    #[default]
    Unrecognized,
    Working,
    Asks {
        dialog: AgentDialog,
        by: StateSource,
    },
    /// An input box, and no work.
    Idle {
        /// A text stands in the box.
        unsent: bool,
        notice: AgentNotice,
    },
}

impl AgentSight {
    /// The sight of one look at a screen.
    pub fn of_screen(screen: &AgentScreen, notice: impl FnOnce() -> AgentNotice) -> Self {
        match (&screen.dialog, screen.input) {
            (Some(dialog), _) if dialog.question.is_empty() => Self::Unrecognized,
            (Some(dialog), _) => Self::Asks {
                dialog: dialog.clone(),
                by: StateSource::Screen,
            },
            (None, _) if screen.working => Self::Working,
            (None, BoxContent::Unrecognized) => Self::Unrecognized,
            (None, input @ (BoxContent::Empty | BoxContent::UnsentText)) => Self::Idle {
                unsent: input == BoxContent::UnsentText,
                notice: notice(),
            },
        }
    }

    /// Whether two looks show the same. The last lines of an idle agent may be drawn later.
    fn agrees_with(&self, other: &Self) -> bool {
        match (self, other) {
            (
                Self::Idle { unsent, notice },
                Self::Idle {
                    unsent: other_unsent,
                    notice: other,
                },
            ) => unsent == other_unsent && notice.limit == other.limit,
            _ => self == other,
        }
    }

    /// Whether a screen that was drawn again shows the same dialog.
    fn is_same_dialog(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Asks { dialog, .. }, Self::Asks { dialog: other, .. }) => {
                is_same_question(&dialog.question, &other.question)
            }
            _ => false,
        }
    }

    pub fn is_dialog(&self) -> bool {
        matches!(self, Self::Asks { .. })
    }

    /// The agent's state as far as its screen shows it.
    pub fn status(&self, name: &str, pane: PaneId) -> Option<AgentStatus> {
        let by = StateSource::Screen;
        match self {
            Self::Unrecognized => None,
            Self::Working => Some(AgentStatus::new(name, AgentState::Working, by)),
            Self::Asks { dialog, by } => {
                let limit = dialog.limit.as_ref();
                let state = match limit {
                    Some(_) => AgentState::Paused,
                    None => AgentState::NeedsInput,
                };
                Some(AgentStatus {
                    request: Some(dialog.request(pane)),
                    resume_at: limit.and_then(|limit| limit.resume_at.clone()),
                    ..AgentStatus::new(name, state, *by)
                })
            }
            Self::Idle { notice, .. } => Some(match &notice.limit {
                None => AgentStatus::new(name, AgentState::Idle, by),
                Some(limit) => AgentStatus {
                    resume_at: limit.resume_at.clone(),
                    ..AgentStatus::new(name, AgentState::Paused, by)
                },
            }),
        }
    }
}

/// Decides when a sight counts.
#[derive(Debug, Default)]
pub struct SightTracker {
    /// The sight that core was informed of last.
    reported: AgentSight,
    /// The next sight is reported whatever it is: an earlier daemon informed core, or another turn begins.
    reported_unknown: bool,
    /// The sight of the last looks, and when the first of them was taken.
    candidate: Option<(AgentSight, Instant)>,
    /// The program draws its screen again until then.
    redraw_until: Option<Instant>,
    /// The screen was drawn again since the last report.
    is_redrawn: bool,
    /// The agent worked or asked since it was last idle.
    was_busy: bool,
    /// Enter was typed since the agent was last idle.
    has_prompt: bool,
    look_at: Option<Instant>,
    last_look: Option<Instant>,
}

/// Output that has stopped for this long is followed by a look.
const LOOK_DELAY: Duration = Duration::from_millis(100);
/// A program that prints without a pause is looked at this often.
const LOOK_INTERVAL: Duration = Duration::from_millis(250);
/// No sight counts for this long after a redraw.
const REDRAW_TIME: Duration = Duration::from_secs(1);
/// Dialogs ignore keys for a moment after they appear: Claude Code for up to 150 ms.
const DIALOG_SETTLE_TIME: Duration = Duration::from_millis(300);
/// The pauses between an answer, a tool and the next request to a model are shorter.
const IDLE_SETTLE_TIME: Duration = Duration::from_millis(1000);
/// An agent that was given a prompt shows within this time that it works.
const PROMPT_SETTLE_TIME: Duration = Duration::from_millis(1500);
/// An agent that starts shows its input box before it takes its first prompt.
const FIRST_IDLE_SETTLE_TIME: Duration = Duration::from_secs(3);

impl SightTracker {
    pub fn inherited() -> Self {
        Self {
            reported_unknown: true,
            ..Self::default()
        }
    }

    pub fn reported(&self) -> &AgentSight {
        &self.reported
    }

    pub fn deadline(&self) -> Option<Instant> {
        self.look_at
    }

    /// Something was printed.
    pub fn on_output(&mut self, now: Instant) {
        let earliest = self.last_look.map_or(now, |last| last + LOOK_INTERVAL);
        let at = (now + LOOK_DELAY).max(earliest);
        self.look_at = Some(self.look_at.map_or(at, |planned| planned.min(at)));
    }

    /// The terminal has another size, or its focus has changed: programs draw everything again.
    pub fn on_redraw(&mut self, now: Instant) {
        self.redraw_until = Some(now + REDRAW_TIME);
        self.is_redrawn = true;
        self.candidate = None;
        self.look_at = self.redraw_until;
    }

    /// Enter was typed: the next sight is that of another turn, also if it shows the same.
    pub fn on_enter(&mut self, now: Instant) {
        self.reported_unknown = true;
        self.has_prompt = true;
        self.candidate = None;
        self.on_output(now);
    }

    /// Looks at the screen. Returns a sight that counts and differs from the last one.
    pub fn on_look(
        &mut self,
        seen: AgentSight,
        last_output: Instant,
        now: Instant,
    ) -> Option<AgentSight> {
        self.look_at = None;
        self.last_look = Some(now);
        if let Some(until) = self.redraw_until.filter(|until| *until > now) {
            self.look_at = Some(until);
            return None;
        }
        self.redraw_until = None;
        let since = match self.candidate.take() {
            Some((last, since)) if last.agrees_with(&seen) => since,
            Some(_) | None => now,
        };
        let settled_at = self.settled_at(&seen, since, last_output);
        self.candidate = Some((seen.clone(), since));
        if settled_at > now {
            self.look_at = Some(settled_at);
            return None;
        }
        match &seen {
            AgentSight::Working | AgentSight::Asks { .. } => self.was_busy = true,
            AgentSight::Idle { .. } => (self.was_busy, self.has_prompt) = (false, false),
            AgentSight::Unrecognized => {}
        }
        let is_redrawn = std::mem::take(&mut self.is_redrawn);
        let is_same =
            self.reported.agrees_with(&seen) || is_redrawn && self.reported.is_same_dialog(&seen);
        if is_same && !std::mem::take(&mut self.reported_unknown) {
            return None;
        }
        self.reported = seen.clone();
        Some(seen)
    }

    fn settled_at(&self, seen: &AgentSight, since: Instant, last_output: Instant) -> Instant {
        match seen {
            AgentSight::Working => since,
            AgentSight::Asks { .. } => since + DIALOG_SETTLE_TIME,
            AgentSight::Unrecognized => since + IDLE_SETTLE_TIME,
            AgentSight::Idle { .. } if self.was_busy => since.max(last_output) + IDLE_SETTLE_TIME,
            AgentSight::Idle { .. } if self.has_prompt => {
                since.max(last_output) + PROMPT_SETTLE_TIME
            }
            AgentSight::Idle { .. } => since.max(last_output) + FIRST_IDLE_SETTLE_TIME,
        }
    }

    /// A look at a pane whose sights are not tracked: what counts without an earlier look.
    pub fn single_look(&self, seen: AgentSight, last_output: Instant, now: Instant) -> AgentSight {
        let is_redrawing = self.redraw_until.is_some_and(|until| until > now);
        match is_redrawing || now < self.settled_at(&seen, last_output, last_output) {
            true => self.reported.clone(),
            false => seen,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{super::test_clock::at, *};

    fn asks(question: &str) -> AgentSight {
        AgentSight::Asks {
            dialog: AgentDialog::unknown(question),
            by: StateSource::Screen,
        }
    }

    fn idle(unsent: bool) -> AgentSight {
        AgentSight::Idle {
            unsent,
            notice: AgentNotice::default(),
        }
    }

    /// An agent's screen: what it shows and when something was printed last.
    struct Script {
        tracker: SightTracker,
        shown: AgentSight,
        last_output: u64,
        now: u64,
    }

    impl Script {
        fn new() -> Self {
            Self {
                tracker: SightTracker::default(),
                shown: AgentSight::Unrecognized,
                last_output: 0,
                now: 0,
            }
        }

        fn shows(&mut self, ms: u64, sight: AgentSight) {
            (self.now, self.last_output, self.shown) = (ms, ms, sight);
            self.tracker.on_output(at(ms));
        }

        /// Every sight that counts up to `until`, with its time.
        fn counted(&mut self, until: u64) -> Vec<(u64, AgentSight)> {
            let mut counted = Vec::new();
            while let Some(deadline) = self.tracker.deadline().filter(|due| *due <= at(until)) {
                self.now = (deadline - at(0)).as_millis() as u64;
                let last_output = at(self.last_output);
                let sight = self
                    .tracker
                    .on_look(self.shown.clone(), last_output, deadline);
                counted.extend(sight.map(|sight| (self.now, sight)));
            }
            counted
        }
    }

    #[test]
    fn a_dialog_counts_when_it_takes_keys() {
        let mut agent = Script::new();
        agent.shows(1000, asks("Proceed?"));
        assert_eq!(agent.counted(9000), [(1400, asks("Proceed?"))]);
        agent.shows(10_000, asks("Another?"));
        assert_eq!(agent.counted(20_000), [(10_400, asks("Another?"))]);
    }

    #[test]
    fn a_dialog_that_is_being_drawn_does_not_count() {
        let mut agent = Script::new();
        for (ms, text) in [(0, "Pro"), (200, "Procee"), (400, "Proceed?")] {
            agent.shows(ms, asks(text));
            assert_eq!(agent.counted(ms + 190), []);
        }
        assert_eq!(agent.counted(9000), [(900, asks("Proceed?"))]);
    }

    #[test]
    fn a_dialog_without_a_question_never_counts() {
        let screen = AgentScreen {
            dialog: Some(AgentDialog::unknown("")),
            ..AgentScreen::default()
        };
        assert_eq!(
            AgentSight::of_screen(&screen, AgentNotice::default),
            AgentSight::Unrecognized
        );
    }

    #[test]
    fn an_agent_that_prints_without_a_pause_is_looked_at_all_the_same() {
        let mut agent = Script::new();
        let mut counted = Vec::new();
        for ms in (0..2000).step_by(50) {
            agent.shows(ms, asks("Proceed?"));
            counted.extend(agent.counted(ms + 49));
        }
        assert_eq!(counted.len(), 1, "{counted:?}");
        assert!(counted[0].0 <= 600, "{counted:?}");
    }

    #[test]
    fn an_agent_is_idle_a_second_after_its_work_and_three_after_its_start() {
        let mut agent = Script::new();
        agent.shows(0, idle(false));
        assert_eq!(agent.counted(9000), [(3100, idle(false))]);
        agent.shows(10_000, AgentSight::Working);
        assert_eq!(agent.counted(10_500), [(10_100, AgentSight::Working)]);
        agent.shows(11_000, idle(false));
        assert_eq!(agent.counted(20_000), [(12_100, idle(false))]);
        agent.shows(30_000, idle(true));
        assert_eq!(agent.counted(40_000), [(33_100, idle(true))], "a draft");
    }

    #[test]
    fn a_pause_between_two_steps_of_work_is_not_idle() {
        let mut agent = Script::new();
        agent.shows(0, AgentSight::Working);
        assert_eq!(agent.counted(500).len(), 1);
        agent.shows(1000, idle(false));
        assert_eq!(agent.counted(1800), []);
        agent.shows(1900, AgentSight::Working);
        assert_eq!(agent.counted(9000), []);
    }

    #[test]
    fn nothing_counts_within_a_second_of_a_redraw() {
        let mut agent = Script::new();
        agent.shows(0, AgentSight::Working);
        agent.counted(1000);
        for round in 0..20 {
            let ms = 2000 + round * 500;
            agent.tracker.on_redraw(at(ms));
            agent.shows(ms + 20, asks("half of a screen"));
            assert_eq!(agent.counted(ms + 490), []);
        }
        agent.shows(12_000, AgentSight::Working);
        assert_eq!(agent.counted(30_000), []);
        agent.tracker.on_redraw(at(30_000));
        agent.shows(30_100, asks("Proceed?"));
        assert_eq!(agent.counted(40_000), [(31_300, asks("Proceed?"))]);
    }

    #[test]
    fn a_dialog_whose_lines_break_elsewhere_after_a_resize_is_the_same() {
        let mut agent = Script::new();
        agent.shows(0, asks("May it run?"));
        assert_eq!(agent.counted(1000).len(), 1);
        agent.tracker.on_redraw(at(2000));
        agent.shows(2050, asks("May it · run?"));
        assert_eq!(agent.counted(9000), []);
        agent.tracker.on_redraw(at(9000));
        agent.shows(9050, asks("May another run?"));
        assert_eq!(agent.counted(10_500), [(10_300, asks("May another run?"))]);
        agent.shows(11_000, AgentSight::Working);
        assert_eq!(agent.counted(12_000).len(), 1, "its end is seen");
    }

    #[test]
    fn a_turn_that_is_too_short_to_be_seen_is_reported_all_the_same() {
        let mut agent = Script::new();
        agent.shows(0, AgentSight::Working);
        agent.shows(1000, idle(false));
        assert_eq!(agent.counted(9000).len(), 1);
        agent.tracker.on_enter(at(10_000));
        agent.shows(10_050, idle(false));
        assert_eq!(agent.counted(20_000), [(11_600, idle(false))]);
    }

    #[test]
    fn the_first_sight_after_a_restart_is_reported_whatever_it_is() {
        let mut agent = Script::new();
        agent.tracker = SightTracker::inherited();
        agent.shows(0, AgentSight::Unrecognized);
        assert_eq!(agent.counted(9000), [(1100, AgentSight::Unrecognized)]);
    }

    #[test]
    fn a_single_look_counts_only_on_a_screen_that_has_stood() {
        let mut tracker = SightTracker::default();
        let look =
            |tracker: &SightTracker, ms| tracker.single_look(asks("Proceed?"), at(0), at(ms));
        assert_eq!(look(&tracker, 299), AgentSight::Unrecognized);
        assert_eq!(look(&tracker, 300), asks("Proceed?"));
        tracker.on_redraw(at(400));
        assert_eq!(look(&tracker, 1399), AgentSight::Unrecognized);
        assert_eq!(look(&tracker, 1400), asks("Proceed?"));
    }
}
