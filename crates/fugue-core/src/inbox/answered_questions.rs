//! Questions that were answered before anybody has taken their event.

use fugue_api::{EventId, QuestionId, inbox_event::InboxEvent};

use super::Inboxes;
use crate::{InboxId, context::StepBuilder};

impl Inboxes {
    /// Marks the event of a question that was answered as delivered, unless a call is being given the event.
    pub fn withdraw_question(
        &mut self,
        inbox: &InboxId,
        question: QuestionId,
        out: &mut StepBuilder,
    ) {
        let Some(unacked) = self.inboxes.get(inbox).map(|inbox| &inbox.unacked) else {
            return;
        };
        let is_asked = |id: &&EventId| {
            self.events.get(id).is_some_and(|stored| {
                let event = &stored.record.event;
                stored.lease.is_none()
                    && matches!(event, InboxEvent::Question { question_id, .. } if *question_id == question)
            })
        };
        if let Some(event) = unacked.iter().find(is_asked).copied() {
            self.ack(event, out);
        }
    }
}
