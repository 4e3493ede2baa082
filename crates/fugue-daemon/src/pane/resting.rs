//! A pane with a worker's agent in it: whether it waits for a person, and when something may be typed into it.

use std::time::Duration;

use fugue_api::{
    EventId,
    panes::{By, Paste, SendInput, State},
};
use fugue_core::{PaneFact, Rest, Typed};
use fugue_hold::wire::Probe;
use tokio::time::Instant;

use super::{Pane, sending::Asker};
use crate::agents::{
    Vendor,
    screen::{self, Input, Look},
};

/// What an agent's pane watches for.
#[derive(Default)]
pub struct Resting {
    /// What was told last of a person being waited for.
    asks: Option<(String, By)>,
    awaited: Option<Awaited>,
}

struct Awaited {
    /// When whoever waits is to hear that it takes longer.
    patience: Option<Instant>,
    /// When to look, if nothing is printed until then.
    look_at: Option<Instant>,
}

// An agent that works redraws something several times a second.
const STILL: Duration = Duration::from_millis(500);
const PATIENCE: Duration = Duration::from_secs(2);

impl Pane {
    pub(super) fn vendor(&self) -> Option<Vendor> {
        self.seat.record.agent.as_deref().and_then(Vendor::named)
    }

    /// What its screen shows, if it is an agent that we can read.
    fn look(&self) -> Option<Look> {
        let screen = self.follower.terminal.screen();
        self.vendor().map(|vendor| screen::look_at(vendor, &screen))
    }

    /// Nothing moves, nothing is asked, and nobody has begun to type.
    fn rests(&self, now: Instant) -> bool {
        let silent = now.saturating_duration_since(self.last_output);
        if self.keeper.is_none() || self.resting.asks.is_some() || silent < STILL {
            return false;
        }
        match self.look() {
            Some(look) => look.dialog.is_none() && look.input == Input::Empty,
            // An agent that we cannot read rests when it has been silent for long.
            None => self.idle_ms() > self.seat.house.settings.idle_threshold_ms(),
        }
    }

    pub(super) async fn await_rest(&mut self) {
        let now = Instant::now();
        self.resting.awaited = Some(Awaited {
            patience: Some(now + PATIENCE),
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
        let still = match self.vendor() {
            Some(_) => STILL,
            None => Duration::from_millis(self.seat.house.settings.idle_threshold_ms() + 1),
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
            if self.rests(now) {
                self.resting.awaited = None;
                return self.seat.say(PaneFact::Rest(Rest::Now)).await;
            }
            if now < self.last_output + STILL {
                self.rest_output();
            }
        }
        let Some(awaited) = &mut self.resting.awaited else {
            return;
        };
        if awaited.patience.is_some_and(|at| at <= now) {
            awaited.patience = None;
            self.seat.say(PaneFact::Rest(Rest::NotYet)).await;
        }
    }

    pub(super) async fn type_message(&mut self, event: EventId, text: String) {
        if self.keeper.is_none() {
            return self.message_typed(event, Typed::Refused).await;
        }
        if !self.rests(Instant::now()) {
            return self.message_typed(event, Typed::Waits).await;
        }
        let mut key = [0; 16];
        key[..8].copy_from_slice(&event.0.to_le_bytes());
        key[8..].copy_from_slice(b"message ");
        let args = SendInput {
            pane_id: self.seat.record.id.to_string(),
            input: Some(text),
            keys: Vec::new(),
            submit: true,
            paste: Paste::Auto,
        };
        self.sending.enqueue(args, key, Asker::Message(event));
        self.go_on_sending();
    }

    async fn message_typed(&self, event: EventId, how: Typed) {
        self.seat.say(PaneFact::MessageTyped { event, how }).await;
    }

    /// Tells what became of messages since the last time.
    pub(super) async fn tell_messages(&mut self) {
        for told in self.sending.told() {
            self.seat.say(told).await;
        }
    }

    /// The pane has been quiet: does it wait for a person?
    pub(super) async fn agent_is_quiet(&mut self, probe: &Probe) {
        let state = self.state(probe);
        let asks = match state.state {
            State::NeedsInput => Some((state.prompt.unwrap_or_default(), state.by)),
            State::Running | State::Idle | State::Exited | State::Closed => {
                let dialog = self.look().and_then(|look| look.dialog);
                dialog.map(|question| (question, By::Screen))
            }
        };
        if asks != self.resting.asks {
            self.resting.asks.clone_from(&asks);
            self.seat.say(PaneFact::Asks(asks)).await;
            // What was waited for may have been the answer.
            if let Some(awaited) = &mut self.resting.awaited {
                awaited.look_at = Some(self.last_output + STILL);
            }
        }
    }
}
