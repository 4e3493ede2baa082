use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    CallResources, Error, EventId, PaneArgument, Tool, ToolGroup, ToolHints, ToolWait,
    checks::{check_inbox_id, check_length},
    inbox_event::CompletionStatus,
};

const MAX_CHANGES: usize = 1_000;

/// Report to your lead that your work is done or failed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct NotifyCompletion {
    /// Default your lead's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[arg(
        long,
        value_name = "S",
        help = "Inbox to report to; default that of the lead of this worker"
    )]
    pub session_id: Option<String>,
    /// Default yourself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[arg(
        long,
        value_name = "W",
        help = "Worker that reports; default this worker"
    )]
    pub worker_id: Option<String>,
    /// Result.
    #[arg(value_enum, help = "Result of the work")]
    pub status: CompletionStatus,
    /// Lines; default from git.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[arg(
        long = "change",
        value_name = "LINE",
        help = "A line that describes a change; default the lines of `git diff --stat`"
    )]
    pub changes: Option<Vec<String>>,
    /// Summary, or the reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[arg(short, long)]
    pub message: Option<String>,
}

impl Tool for NotifyCompletion {
    const NAME: &'static str = "notify_completion";
    const VERB: &'static str = "notify";
    const GROUP: ToolGroup = ToolGroup::Team;
    const HINTS: ToolHints = ToolHints::Writes;
    const PANE: PaneArgument<Self> = PaneArgument::None;
    type Reply = NotifyCompletionReply;

    fn check(&self) -> Result<(), Error> {
        for (field, id) in [
            ("session_id", &self.session_id),
            ("worker_id", &self.worker_id),
        ] {
            if let Some(id) = id {
                check_inbox_id(field, id)?;
            }
        }
        if let Some(changes) = &self.changes
            && changes.len() > MAX_CHANGES
        {
            return Err(Error::invalid(format!(
                "changes: wanted at most {MAX_CHANGES} lines, got {}",
                changes.len()
            )));
        }
        check_length(
            "changes",
            &self.changes.as_deref().unwrap_or_default().concat(),
        )?;
        check_length("message", self.message.as_deref().unwrap_or_default())
    }

    fn wait(&mut self) -> ToolWait<'_> {
        ToolWait::short("waiting for the daemon")
    }

    fn resources(&self) -> CallResources<'_> {
        CallResources::None
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NotifyCompletionReply {
    pub event_id: EventId,
}
