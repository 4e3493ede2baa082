use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    Error, EventId, InboxWait, PaneArgument, Timestamp, Tool, ToolHints, ToolWait,
    checks::{MAX_WAIT_SECS, check_not_empty, check_seconds},
    inbox_event::{EventType, InboxEvent},
};

/// Block until an event is in your inbox and take it: oldest first, each once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WaitForEvent {
    /// `*`: any. The others stay queued.
    #[serde(default = "WaitForEvent::types")]
    pub types: Vec<EventType>,
    /// Then `type` is `timeout`.
    #[serde(default = "crate::defaults::timeout_secs")]
    #[schemars(range(min = 0, max = 86400))]
    pub timeout_secs: f64,
    /// Only this sender's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The first behind it, taken or not; takes none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after_event_id: Option<EventId>,
}

impl WaitForEvent {
    pub fn types() -> Vec<EventType> {
        vec![EventType::WorkerComplete]
    }

    pub fn wants(&self, kind: EventType) -> bool {
        self.types
            .iter()
            .any(|wanted| *wanted == kind || *wanted == EventType::Any)
    }
}

impl Tool for WaitForEvent {
    const NAME: &'static str = "wait_for_event";
    const VERB: &'static str = "events";
    const HINTS: ToolHints = ToolHints::ReadOnly;
    const PANE: PaneArgument<Self> = PaneArgument::None;
    type Reply = WaitForEventReply;

    fn check(&self) -> Result<(), Error> {
        if self.types.is_empty() {
            return Err(Error::invalid("types: is empty, and nothing would fit")
                .hint("`[\"*\"]` is any event"));
        }
        if let Some(from) = &self.from {
            check_not_empty("from", from)?;
        }
        check_seconds("timeout_secs", self.timeout_secs, MAX_WAIT_SECS)
    }

    fn wait(&mut self) -> ToolWait<'_> {
        let types: Vec<_> = self.types.iter().map(|kind| kind.name()).collect();
        ToolWait::Inbox(InboxWait {
            description: format!("waiting for {}", types.join(", ")),
            timeout_secs: &mut self.timeout_secs,
            default_answer: None,
        })
    }

    fn directories(&self) -> Vec<&str> {
        Vec::new()
    }
}

/// One event, or the news that there was none in time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WaitForEventReply {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event_id: Option<EventId>,
    pub at: Timestamp,
    #[serde(flatten)]
    pub what: WaitOutcome,
    /// How many older events of the same type and from the same worker, watcher or run this one stands for, because
    /// the inbox was full.
    #[serde(default, skip_serializing_if = "crate::checks::is_zero")]
    pub dropped_events: u64,
    /// How many others are queued, by type.
    pub pending: BTreeMap<EventType, u64>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum WaitOutcome {
    Event(InboxEvent),
    Nothing(WaitTimeout),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum WaitTimeout {
    Timeout {
        waited_secs: f64,
        /// `client_limit`: your client would have given up; wait again.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
}
