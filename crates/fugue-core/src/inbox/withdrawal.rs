//! Withdrawal of events whose cause is gone before anybody has taken them.

use fugue_api::{
    EventId,
    inbox_event::{EventSource, EventType},
};

use super::Inboxes;
use crate::{Change, InboxId, RecordId, context::StepBuilder};

impl Inboxes {
    /// Removes the events of these types about a worker that nobody has taken, because their cause is gone. An event that is
    /// leased is removed when its lease is released.
    pub fn withdraw(
        &mut self,
        inbox: &InboxId,
        worker: &str,
        instance: u32,
        types: &[EventType],
        out: &mut StepBuilder,
    ) {
        let source = EventSource::Worker {
            id: worker,
            instance,
        };
        let Some(unacked) = self.inboxes.get(inbox).map(|inbox| &inbox.unacked) else {
            return;
        };
        let is_withdrawn = |id: &&EventId| {
            let event = self.events.get(id).map(|stored| &stored.record.event);
            event.is_some_and(|event| {
                types.contains(&event.kind()) && event.source().as_ref() == Some(&source)
            })
        };
        let withdrawn: Vec<EventId> = unacked.iter().filter(is_withdrawn).copied().collect();
        for id in withdrawn {
            match self.events.get_mut(&id) {
                Some(stored) if stored.lease.is_some() => stored.is_withdrawn = true,
                Some(_) | None => {
                    self.remove(id);
                    out.commit([Change::Remove(RecordId::Event(id))]);
                }
            }
        }
    }
}
