use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    CallResources, Error, EventId, InboxWait, PaneArgument, Tool, ToolGroup, ToolHints, ToolWait,
    UnixSeconds,
    checks::{MAX_WAIT_SECS, check_optional_pane, check_seconds},
    cli_values,
    inbox_event::{EventType, InboxEvent},
};

/// Wait for worker events and take the oldest: a worker is done, asks or needs input, a run ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct WaitForEvent {
    /// Default all but watcher; watcher_end: no continue. Others stay queued.
    #[serde(default = "WaitForEvent::types")]
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        value_name = "T",
        default_value = "*",
        help = "Event types, separated by commas"
    )]
    pub types: Vec<EventType>,
    /// Seconds; default 300.
    #[serde(default = "crate::defaults::timeout_secs")]
    #[schemars(range(min = 0, max = 86400))]
    #[arg(long = "timeout", value_name = "TIME", value_parser = cli_values::duration_secs, default_value = "300s", help = "How long to wait: `90s`, `5m`, `1h30m`, or a number of seconds")]
    pub timeout_secs: f64,
    /// Sender; default all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[arg(
        long,
        value_name = "W",
        help = "Only events from this worker or sender"
    )]
    pub from: Option<String>,
    /// First after this id, not taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[arg(skip)]
    pub after_event_id: Option<EventId>,
}

impl WaitForEvent {
    /// Everything that comes from workers, and ends of runs. Decisions of watchers are taken only by request.
    pub fn types() -> Vec<EventType> {
        vec![
            EventType::WorkerComplete,
            EventType::Message,
            EventType::Question,
            EventType::Answer,
            EventType::WorkerNeedsInput,
            EventType::WorkerIdle,
            EventType::WorkerPaused,
            EventType::WorkerLate,
            EventType::RunComplete,
        ]
    }

    /// Whether some events of a kind can match.
    pub fn matches(&self, kind: EventType) -> bool {
        self.types.iter().any(|wanted| match wanted {
            EventType::Any => true,
            EventType::WatcherEnd => kind == EventType::Watcher,
            wanted => *wanted == kind,
        })
    }

    /// Whether the call takes an event.
    pub fn takes(&self, event: &InboxEvent) -> bool {
        let is_of_type = self.types.iter().any(|wanted| match (wanted, event) {
            (EventType::Any, _) => true,
            (EventType::WatcherEnd, InboxEvent::Watcher { decision, .. }) => decision != "continue",
            (wanted, event) => *wanted == event.kind(),
        });
        is_of_type && (self.from.is_none() || self.from.as_deref() == event.sender())
    }
}

impl Tool for WaitForEvent {
    const NAME: &'static str = "wait_for_event";
    const VERB: &'static str = "events";
    const GROUP: ToolGroup = ToolGroup::Team;
    const HINTS: ToolHints = ToolHints::Writes;
    const PANE: PaneArgument<Self> = PaneArgument::None;
    type Reply = WaitForEventReply;

    fn check(&self) -> Result<(), Error> {
        if self.types.is_empty() {
            return Err(Error::invalid("types: is empty, and nothing would fit")
                .hint("`[\"*\"]` is any event"));
        }
        check_optional_pane("from", self.from.as_deref())?;
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

    fn resources(&self) -> CallResources<'_> {
        CallResources::None
    }
}

/// An event, or a timeout.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WaitForEventReply {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event_id: Option<EventId>,
    /// When it happened, in seconds since 1970. Absent for a timeout.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<UnixSeconds>,
    #[serde(flatten)]
    pub what: WaitOutcome,
    /// How many older events of the same type and source this event replaces, because the inbox was full.
    #[serde(default, skip_serializing_if = "crate::checks::is_zero")]
    pub dropped_events: u64,
    /// Number of other queued events by type.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
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
        /// `client_limit`: returned before the timeout of your client; wait again.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_default_all_events_but_those_of_watchers_are_taken() {
        let args: WaitForEvent = serde_json::from_str("{}").unwrap();
        let all = <EventType as clap::ValueEnum>::value_variants().iter();
        let left: Vec<_> = all.filter(|kind| !args.matches(**kind)).collect();
        let watchers = [&EventType::Watcher, &EventType::WatcherEnd];
        assert_eq!(left, [watchers[0], watchers[1], &EventType::Any]);
    }

    #[test]
    fn the_end_of_a_watcher_is_waited_for_without_its_other_decisions() {
        let args: WaitForEvent = serde_json::from_str(r#"{"types": ["watcher_end"]}"#).unwrap();
        let takes = |decision: &str| {
            args.takes(&InboxEvent::Watcher {
                pane_id: crate::PaneId(1),
                decision: decision.to_owned(),
                injection: None,
                reason: None,
            })
        };
        let decisions = ["continue", "stop", "paused", "ended"];
        assert_eq!(decisions.map(takes), [false, true, true, true]);
        assert!(!args.matches(EventType::Message));
    }
}
