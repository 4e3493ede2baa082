//! The limits of inboxes.

use fugue_api::{Error, ErrorKind};

use super::Inboxes;
use crate::{InboxId, settings::Settings};

/// The limits of unacked events per inbox, beyond which senders are refused.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InboxLimits {
    pub max_events: usize,
    pub max_bytes: u64,
}

impl Default for InboxLimits {
    fn default() -> Self {
        Self::of(&Settings::default())
    }
}

impl InboxLimits {
    pub fn of(settings: &Settings) -> Self {
        Self {
            max_events: settings.inbox_max_events,
            max_bytes: settings.inbox_max_bytes,
        }
    }
}

impl Inboxes {
    pub(super) fn is_full(&self, inbox: &InboxId) -> bool {
        self.inboxes.get(inbox).is_some_and(|inbox| {
            inbox.unacked.len() >= self.limits.max_events
                || inbox.unacked_bytes >= self.limits.max_bytes
        })
    }

    /// Refuses another event for an inbox that is at one of its limits.
    pub fn check_room(&self, id: &InboxId) -> Result<(), Error> {
        if !self.is_full(id) {
            return Ok(());
        }
        let (events, bytes) = self
            .inboxes
            .get(id)
            .map_or((0, 0), |inbox| (inbox.unacked.len(), inbox.unacked_bytes));
        let InboxLimits {
            max_events,
            max_bytes,
        } = self.limits;
        let error = format!(
            "inbox `{id}` is full: {events} events of {bytes} bytes wait in it, and the limits are {max_events} events \
             (`inbox_max_events`) and {max_bytes} bytes (`inbox_max_bytes`)"
        );
        Err(Error::new(ErrorKind::Exhausted, error)
            .hint("nothing was sent; its owner takes events with `wait_for_event`"))
    }
}
