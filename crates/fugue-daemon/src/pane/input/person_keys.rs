//! A person's keys: typed at once, ahead of the input queue.

use std::time::Instant;

use fugue_api::{
    Error, ErrorKind,
    wire::{IdempotencyKey, Response},
};
use fugue_core::pane_machine::{TypingSource, uncertain_input};
use fugue_holder::wire::{InputKind, InputMessage, InputOutcome, InputState, ToHolder};

use super::super::Pane;
use crate::pending_calls::Responder;

impl Pane {
    pub(in crate::pane) fn type_for_a_person(
        &mut self,
        bytes: Vec<u8>,
        key: IdempotencyKey,
        responder: Responder,
    ) {
        if let Some(why) = self.unreachable() {
            return responder.answer(Err(self.context.refusal(&why)));
        }
        let Some(backend) = self.backend.as_mut() else {
            return responder.answer(Err(Error::new(ErrorKind::Ended, "the pane has ended")));
        };
        if bytes.is_empty() {
            return responder.answer(Ok(Response::Done));
        }
        let seq = backend.next_seq();
        self.keys.insert(seq, responder);
        self.send_as(
            TypingSource::Person,
            &ToHolder::Input(InputMessage {
                seq,
                key: key.0,
                kind: InputKind::Typed,
                bytes,
            }),
        );
        self.person_typed();
    }

    pub(in crate::pane) fn person_typed(&mut self) {
        let interest = self.viewer_interest();
        self.probing.on_person_typing(interest, Instant::now());
        // The key may have ended the draft that the queue waits for.
        self.advance_inputs();
    }

    /// Answers the key whose input the holder has acknowledged.
    pub(super) fn answer_keys(&mut self, input: &InputState) {
        let Some(responder) = self.keys.remove(&input.seq) else {
            return;
        };
        responder.answer(match input.outcome {
            // Bytes that the program does not read yet follow later.
            InputOutcome::Written | InputOutcome::Pending | InputOutcome::Duplicate => {
                Ok(Response::Done)
            }
            InputOutcome::Lost => Err(Error::new(
                ErrorKind::Exhausted,
                "the terminal does not take more input",
            )
            .hint("the program has not read what was typed before")),
        });
    }

    /// The holder died: input without an acknowledgement may or may not have been typed.
    pub(in crate::pane) fn fail_unacknowledged(&mut self) {
        for (_, responder) in std::mem::take(&mut self.keys) {
            responder.answer(Err(uncertain_input()));
        }
        self.inputs.on_holder_lost();
        self.answer_inputs();
    }

    /// The pane has ended: nothing more is typed.
    pub(in crate::pane) fn end_inputs(&mut self) {
        self.inputs.on_pane_end();
        self.answer_inputs();
        for (_, responder) in std::mem::take(&mut self.keys) {
            responder.answer(Err(Error::new(
                ErrorKind::Ended,
                "the pane ended before this was typed",
            )));
        }
    }
}
