//! Acks of replies that lease an event.
//!
//! The transport adds an [`AckSlot`] to the extensions of each tool call and each `tasks/get`, and the handler stores the ack of the leased
//! event in the slot. After the reply has been written, the transport closes the slot and completes the ack. A cancelled
//! call and a failed write close the slot without that, and a lost connection drops the slot; the ack is dropped with it, which
//! releases the event.

use std::sync::{Arc, Mutex, PoisonError};

use fugue_api::EventAck;

/// A place for the ack of one reply, shared by the transport and the handler.
#[derive(Clone, Default)]
pub struct AckSlot(Arc<Mutex<SlotState>>);

enum SlotState {
    /// The reply has not been written.
    Open(Option<EventAck>),
    /// The reply has been written, or never will be.
    Closed,
}

impl Default for SlotState {
    fn default() -> Self {
        Self::Open(None)
    }
}

impl AckSlot {
    /// Stores the ack until the slot is closed. A closed slot drops the ack at once.
    pub fn store(&self, ack: EventAck) {
        let previous = {
            let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            match &mut *state {
                SlotState::Open(slot) => slot.replace(ack),
                SlotState::Closed => Some(ack),
            }
        };
        // The destructor sends a message to the daemon and must not run under the lock.
        drop(previous);
    }

    /// Closes the slot and returns the stored ack.
    pub fn close(&self) -> Option<EventAck> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match std::mem::replace(&mut *state, SlotState::Closed) {
            SlotState::Open(ack) => ack,
            SlotState::Closed => None,
        }
    }
}
