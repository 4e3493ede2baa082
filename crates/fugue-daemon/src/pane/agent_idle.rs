//! A pane with a worker's agent in it: whether it waits for a person, and when something may be typed into it.

use std::time::Duration;

use fugue_api::{
    EventId,
    panes::{PaneState, PasteMode, SendInput, StateSource},
};
use fugue_core::{
    IdleState, PaneActivity, PaneEvent, TurnEnd, TypingOutcome, typing::without_controls,
};
use fugue_holder::wire::ForegroundProbe;
use tokio::time::Instant;

use super::{Pane, sending::Asker, target::Target};
use crate::agents::screen::Input;

/// What an agent's pane watches for.
#[derive(Default)]
pub struct Resting {
    /// What was told last of a person being waited for.
    asks: Option<(String, StateSource)>,
    /// A daemon before this one told something, and nobody knows what.
    untold: bool,
    /// Why the last message could not be typed; as long as nothing is printed or typed, that is so.
    refused: Option<(PaneActivity, String)>,
    awaited: Option<Awaited>,
}

impl Resting {
    /// Of a pane that an earlier daemon looked after.
    pub fn taken_over() -> Self {
        Self {
            untold: true,
            ..Self::default()
        }
    }
}

struct Awaited {
    over: TurnEnd,
    /// When whoever waits is to hear that it takes longer.
    patience: Option<Instant>,
    /// When to look, if nothing is printed until then.
    look_at: Option<Instant>,
}

// An agent that works redraws something several times a second.
const STILL: Duration = Duration::from_millis(500);
// An agent that has not said that it is through may just be slow to draw.
const STILL_UNTOLD: Duration = Duration::from_secs(3);
const PATIENCE: Duration = Duration::from_secs(2);

impl Pane {
    /// Nothing moves, nothing is asked, and nobody has begun to type.
    fn rests(&self, now: Instant) -> bool {
        let silent = now.saturating_duration_since(self.last_output);
        let taken = self.resting.asks.is_some() || self.person_comes_first();
        let refused = |(place, _): &(PaneActivity, String)| *place == self.place();
        let refused = self.resting.refused.as_ref().is_some_and(refused);
        if self.keeper.is_none() || taken || refused || silent < STILL {
            return false;
        }
        let look = self.look();
        match look.input {
            Input::Empty => look.dialog.is_none(),
            Input::Draft => false,
            // An agent that we cannot read rests when it has been silent for long. Whether it takes a line is looked at
            // before that is typed.
            Input::Unknown => {
                let quiet = self.idle_ms() > self.seat.house.settings.idle_threshold_ms();
                self.vendor().is_none() && look.dialog.is_none() && quiet
            }
        }
    }

    /// Why a message has to wait, where that is more than somebody at work.
    fn cannot_type_because(&self) -> Option<String> {
        let look = self.look();
        let refused = self.resting.refused.as_ref();
        let refused = refused.filter(|(place, _)| *place == self.place());
        if let Some(question) = look.dialog {
            Target::Dialog(question).obstacle()
        } else if self.person_comes_first() || look.input == Input::Draft {
            Some("somebody has begun a line in its pane".to_owned())
        } else {
            refused.map(|(_, why)| why.clone())
        }
    }

    /// Whether a turn that its agent said nothing of is over: nothing has moved for long, and nothing says that it works.
    fn seems_over(&self, now: Instant) -> bool {
        let silent = now.saturating_duration_since(self.last_output);
        self.vendor().is_some() && silent >= STILL_UNTOLD && !self.look().working
    }

    pub(super) async fn await_rest(&mut self, over: TurnEnd) {
        let now = Instant::now();
        let patience = match over {
            TurnEnd::Told => PATIENCE,
            // Most of those who said nothing are at work.
            TurnEnd::Unknown => Duration::ZERO,
        };
        self.resting.awaited = Some(Awaited {
            over,
            patience: Some(now + patience),
            look_at: Some(now),
        });
        self.rest_time(now).await;
    }

    pub(super) fn rest_deadline(&self) -> Option<Instant> {
        let awaited = self.resting.awaited.as_ref()?;
        [awaited.patience, awaited.look_at]
            .into_iter()
            .flatten()
            .min()
    }

    /// Something was printed: the next look is when it has been still again.
    pub(super) fn rest_output(&mut self) {
        let still = match (self.vendor(), &self.resting.awaited) {
            (Some(_), Some(awaited)) => awaited.still(),
            (Some(_), None) => STILL,
            (None, _) => Duration::from_millis(self.seat.house.settings.idle_threshold_ms() + 1),
        };
        if let Some(awaited) = &mut self.resting.awaited {
            awaited.look_at = Some(self.last_output + still);
        }
    }

    pub(super) async fn rest_time(&mut self, now: Instant) {
        let Some(awaited) = &mut self.resting.awaited else {
            return;
        };
        if awaited.look_at.is_some_and(|at| at <= now) {
            awaited.look_at = None;
            let (over, still) = (awaited.over, awaited.still());
            if self.rests(now) && (over == TurnEnd::Told || self.seems_over(now)) {
                self.resting.awaited = None;
                return self.seat.say(PaneEvent::Rest(IdleState::Now)).await;
            }
            if now < self.last_output + still {
                self.rest_output();
            }
        }
        let Some(awaited) = &mut self.resting.awaited else {
            return;
        };
        if awaited.patience.is_some_and(|at| at <= now) {
            awaited.patience = None;
            let why = self.cannot_type_because();
            self.seat.say(PaneEvent::Rest(IdleState::NotYet(why))).await;
        }
    }

    pub(super) async fn type_message(&mut self, event: EventId, text: String) {
        if self.keeper.is_none() && self.reconnection.is_none() {
            return self.message_typed(event, TypingOutcome::Refused).await;
        }
        if !self.rests(Instant::now()) {
            let why = self.cannot_type_because();
            return self.message_typed(event, TypingOutcome::Waits(why)).await;
        }
        let mut key = [0; 16];
        key[..8].copy_from_slice(&event.0.to_le_bytes());
        key[8..].copy_from_slice(b"message ");
        let args = SendInput {
            pane_id: self.seat.record.id.to_string(),
            input: Some(without_controls(&text)),
            keys: Vec::new(),
            submit: true,
            paste: PasteMode::Auto,
            force: false,
        };
        self.sending.enqueue(args, key, Asker::Message(event));
        self.go_on_sending();
    }

    async fn message_typed(&self, event: EventId, how: TypingOutcome) {
        self.seat.say(PaneEvent::MessageTyped { event, how }).await;
    }

    /// Tells what became of messages since the last time.
    pub(super) async fn tell_messages(&mut self) {
        for told in self.sending.told() {
            if let PaneEvent::MessageTyped {
                how: TypingOutcome::Waits(Some(why)),
                ..
            } = &told
            {
                self.resting.refused = Some((self.place(), why.clone()));
            }
            self.seat.say(told).await;
        }
    }

    /// The pane has been quiet: does it wait for a person?
    pub(super) async fn agent_is_quiet(&mut self, probe: &ForegroundProbe) {
        let state = self.state(probe);
        let asks = match state.state {
            PaneState::NeedsInput => Some((state.prompt.unwrap_or_default(), state.by)),
            PaneState::Running | PaneState::Idle | PaneState::Exited | PaneState::Closed => {
                let dialog = self.look().dialog;
                dialog.map(|question| (question, StateSource::Screen))
            }
        };
        // What a hook told of may have come and gone between two looks: an agent that rests for long asks nothing.
        let now = Instant::now();
        let rests = asks.is_none() && self.rests(now) && self.seems_over(now);
        let later = self.last_output + STILL_UNTOLD;
        if asks.is_none() && self.vendor().is_some() && now < later {
            self.look_at = Some(later);
        }
        let untold = std::mem::take(&mut self.resting.untold);
        if untold || rests || asks != self.resting.asks {
            self.resting.asks.clone_from(&asks);
            self.seat.say(PaneEvent::Asks(asks)).await;
            // What was waited for may have been the answer.
            if let Some(awaited) = &mut self.resting.awaited {
                awaited.look_at = Some(self.last_output + awaited.still());
            }
        }
    }
}

impl Awaited {
    /// How long nothing may have moved.
    fn still(&self) -> Duration {
        match self.over {
            TurnEnd::Told => STILL,
            TurnEnd::Unknown => STILL_UNTOLD,
        }
    }
}
