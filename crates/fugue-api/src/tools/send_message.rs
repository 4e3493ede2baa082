use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    Error, EventId, PaneArgument, Tool, ToolHints, ToolWait,
    checks::{check_inbox_id, check_length, check_not_empty},
};

/// Leave a message in somebody's inbox.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SendMessage {
    /// A worker's id; default whoever spawned you.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    pub body: String,
    /// type: into its pane, when that is idle.
    #[serde(default)]
    pub deliver: MessageDelivery,
}

impl Tool for SendMessage {
    const NAME: &'static str = "send_message";
    const VERB: &'static str = "message";
    const HINTS: ToolHints = ToolHints::Writes;
    const PANE: PaneArgument<Self> = PaneArgument::None;
    type Reply = SendMessageReply;

    fn check(&self) -> Result<(), Error> {
        check_not_empty("body", &self.body)?;
        check_length("body", &self.body)?;
        self.to
            .as_deref()
            .map_or(Ok(()), |to| check_inbox_id("to", to))
    }

    fn wait(&mut self) -> ToolWait<'_> {
        ToolWait::Short {
            activity: "waiting for the daemon".to_owned(),
        }
    }

    fn directories(&self) -> Vec<&str> {
        Vec::new()
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum MessageDelivery {
    #[default]
    Inbox,
    Type,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SendMessageReply {
    pub event_id: EventId,
    pub delivered: DeliveryStatus,
    /// Why it was not typed yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum DeliveryStatus {
    /// In the inbox; one that is to be typed waits for the pane to be idle.
    Queued,
    /// In the pane, but not seen to be taken.
    Typed,
    /// The program took it.
    Submitted,
}
