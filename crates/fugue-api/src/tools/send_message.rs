use clap::ArgAction;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    CallResources, Error, EventId, PaneArgument, Tool, ToolGroup, ToolHints, ToolWait,
    checks::{check_inbox_id, check_length, check_not_empty},
    cli_values,
};

/// Send a message to your lead or a worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct SendMessage {
    /// Default your lead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[arg(
        long,
        value_name = "W",
        help = "Worker id or session id; default the lead of this worker"
    )]
    pub to: Option<String>,
    /// Text.
    #[arg(help = "Text of the message")]
    pub body: String,
    /// Default inbox; type: into its idle pane.
    #[serde(default)]
    #[arg(long = "type", action = ArgAction::SetTrue, value_parser = cli_values::flag(MessageDelivery::Inbox, MessageDelivery::Type), help = "Type it into the pane of the worker when the pane is idle")]
    pub deliver: MessageDelivery,
}

impl Tool for SendMessage {
    const NAME: &'static str = "send_message";
    const VERB: &'static str = "message";
    const GROUP: ToolGroup = ToolGroup::Team;
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
        ToolWait::short("waiting for the daemon")
    }

    fn resources(&self) -> CallResources<'_> {
        CallResources::None
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
    /// Why the message is not typed yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum DeliveryStatus {
    /// In the inbox. A message to type waits until the pane is idle.
    Queued,
    /// Typed; whether the program accepted the message is unknown.
    Typed,
    /// The program accepted the message.
    Submitted,
}
