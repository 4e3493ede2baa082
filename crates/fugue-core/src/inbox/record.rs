//! What the store knows of events and questions.

use std::fmt;

use fugue_api::{EventId, QuestionId, Timestamp, team::InboxEvent, wire::IdempotencyKey};
use serde::{Deserialize, Serialize};

/// Whose inbox: a session's id, or `<lead>/<worker>.<instance>`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct InboxId(pub String);

impl InboxId {
    pub fn of_worker(lead: &Self, worker: &str, instance: u32) -> Self {
        Self(format!("{lead}/{worker}.{instance}"))
    }

    /// Whether it belongs to a worker of `lead`, or to a worker of such a worker, and so on.
    pub fn is_below(&self, lead: &Self) -> bool {
        let rest = self.0.strip_prefix(&lead.0);
        rest.is_some_and(|rest| rest.starts_with('/'))
    }

    /// The inbox that a worker's own inbox stands below.
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
    /// The call that caused it, where one did: asked again, it is this event that is meant.
    pub made_by: Option<IdempotencyKey>,
    /// To be typed into the receiver's pane once that is idle.
    pub to_type: bool,
    /// Somebody has it.
    pub taken: bool,
    /// Older events of the same kind and source that this one replaced because the inbox was full.
    #[serde(default)]
    pub dropped_events: u64,
}

/// A question, for as long as it may be answered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QuestionRecord {
    pub id: QuestionId,
    pub made_by: IdempotencyKey,
    pub asker: InboxId,
    /// The inbox that it was sent to. `None` in records of versions that did not know: the asker's lead.
    #[serde(default)]
    pub addressee: Option<InboxId>,
    pub asked_at: Timestamp,
    pub body: String,
    pub answer: Option<String>,
    /// Who answered.
    #[serde(default)]
    pub answered_by: Option<String>,
}
