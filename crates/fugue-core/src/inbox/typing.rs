//! Messages that are typed into the pane of their recipient.

use fugue_api::EventId;

use super::{Inboxes, Lease};
use crate::{Change, EventRecord, InboxId, context::StepBuilder};

impl Inboxes {
    /// Reserves an event that is being typed into the recipient's pane.
    pub fn lease_for_typing(&mut self, id: EventId) {
        if let Some(stored) = self.events.get_mut(&id) {
            stored.lease = Some(Lease::Typing);
            self.make_unavailable(id);
        }
    }

    /// The first unacked event that is to be typed and has no lease.
    pub fn next_to_type(&self, inbox: &InboxId) -> Option<&EventRecord> {
        let inbox = self.inboxes.get(inbox)?;
        inbox
            .unacked
            .iter()
            .filter_map(|id| self.events.get(id))
            .find(|stored| stored.record.to_type && stored.lease.is_none())
            .map(|stored| &stored.record)
    }

    /// Leaves an event in the inbox without typing it.
    pub fn skip_typing(&mut self, id: EventId, out: &mut StepBuilder) {
        if let Some(stored) = self.events.get_mut(&id) {
            stored.record.to_type = false;
            out.commit([Change::put(stored.record.clone())]);
        }
    }
}
