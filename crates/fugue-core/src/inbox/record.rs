//! The stored records of events and questions.

use std::fmt;

use fugue_api::{EventId, QuestionId, Timestamp, inbox_event::InboxEvent, wire::IdempotencyKey};
use serde::{Deserialize, Serialize};

/// The owner of an inbox: the id of a lead session, or `<lead>/<worker>.<instance>`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct InboxId(pub String);

impl InboxId {
    pub fn of_worker(lead: &Self, worker: &str, instance: u32) -> Self {
        Self(format!("{lead}/{worker}.{instance}"))
    }

    /// Whether the inbox belongs to a direct or indirect worker of `lead`.
    pub fn is_below(&self, lead: &Self) -> bool {
        let rest = self.0.strip_prefix(&lead.0);
        rest.is_some_and(|rest| rest.starts_with('/'))
    }

    /// The inbox of the worker's lead.
    pub fn lead(&self) -> Option<Self> {
        let (lead, _) = self.0.rsplit_once('/')?;
        Some(Self(lead.to_owned()))
    }
}

impl fmt::Display for InboxId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One event in one inbox.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EventRecord {
    pub id: EventId,
    pub inbox: InboxId,
    pub at: Timestamp,
    pub event: InboxEvent,
    /// The idempotency key of the call that created the event. The same call made again returns this event.
    pub made_by: Option<IdempotencyKey>,
    /// To be typed into the recipient's pane when it is idle. In an acked event: it was typed.
    pub to_type: bool,
    /// The event is acked.
    pub taken: bool,
    /// Older events of the same kind and source that this one replaced because the inbox was full.
    #[serde(default)]
    pub dropped_events: u64,
}

/// A question and its answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QuestionRecord {
    pub id: QuestionId,
    pub made_by: IdempotencyKey,
    pub asker: InboxId,
    /// The inbox that the question was sent to. `None` in records of older versions: the lead of the asker.
    #[serde(default)]
    pub addressee: Option<InboxId>,
    /// The lead session at whose client the person is who may answer. `None`: an agent may answer.
    #[serde(default)]
    pub person_at: Option<InboxId>,
    pub asked_at: Timestamp,
    pub body: String,
    pub answer: Option<String>,
    /// The `from` of the answer.
    #[serde(default)]
    pub answered_by: Option<String>,
}
