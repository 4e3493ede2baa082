//! A person's keys: typed as they come, before anything that others want typed.

use fugue_api::{
    Error, ErrorKind,
    wire::{IdempotencyKey, Response},
};
use fugue_holder::wire::{InputKind, InputMessage, InputOutcome, InputState, ToHolder};
use tokio::time::Instant;

use super::{Pane, QUIET, quiet::Hand};
use crate::pending_calls::Responder;

impl Pane {
    pub(super) fn type_for_a_person(
        &mut self,
        bytes: Vec<u8>,
        key: IdempotencyKey,
        responder: Responder,
    ) {
        if let Some(why) = self.unreachable() {
            return responder.answer(Err(self.seat.refusal(&why)));
        }
        let Some(keeper) = self.keeper.as_mut() else {
            return responder.answer(Err(Error::new(ErrorKind::Ended, "the pane has ended")));
        };
        if bytes.is_empty() {
            return responder.answer(Ok(Response::Noted));
        }
        let seq = keeper.next_seq();
        self.keys.insert(seq, responder);
        self.tell_as(
            Hand::Person,
            &ToHolder::Input(InputMessage {
                seq,
                key: key.0,
                kind: InputKind::Typed,
                bytes,
            }),
        );
        self.person_typed();
    }

    pub(super) fn person_typed(&mut self) {
        let now = Instant::now();
        self.viewing.moved(now);
        if self.viewing.is_watched() {
            self.look_at = Some(now + QUIET);
        }
        // A line that has just been ended lets others in.
        self.go_on_sending();
    }

    /// The holder tells what became of some input.
    pub(super) fn keys_typed(&mut self, input: &InputState) {
        let Some(responder) = self.keys.remove(&input.seq) else {
            return;
        };
        responder.answer(match input.outcome {
            // What the program does not read yet follows by itself.
            InputOutcome::Written | InputOutcome::Pending | InputOutcome::Duplicate => {
                Ok(Response::Noted)
            }
            InputOutcome::Lost => Err(Error::new(
                ErrorKind::Exhausted,
                "the terminal does not take more input",
            )
            .hint("the program has not read what was typed before")),
        });
    }

    /// The holder died: what it had not acknowledged may or may not have been typed.
    pub(super) fn keys_lost(&mut self) {
        for (_, responder) in std::mem::take(&mut self.keys) {
            responder.answer(Err(uncertain()));
        }
    }

    pub(super) fn keys_too_late(&mut self) {
        for (_, responder) in std::mem::take(&mut self.keys) {
            responder.answer(Err(Error::new(
                ErrorKind::Ended,
                "the pane ended before this was typed",
            )));
        }
    }
}

/// The error for an input whose holder died before it acknowledged the input.
pub(super) fn uncertain() -> Error {
    Error::new(
        ErrorKind::Uncertain,
        "the holder of the pane died during this input; it may not have arrived",
    )
}
