use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    Error, InboxWait, PaneArgument, QuestionId, Tool, ToolHints, ToolWait,
    checks::{MAX_WAIT_SECS, check_inbox_id, check_length, check_not_empty, check_seconds},
};

/// Ask whoever spawned you (or a worker) and block for the answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AskQuestion {
    /// A worker's id; default whoever spawned you.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    pub body: String,
    /// Then `pending`; the answer comes as an event.
    #[serde(default = "crate::defaults::timeout_secs")]
    #[schemars(range(min = 0, max = 86400))]
    pub timeout_secs: f64,
    /// The answer if none comes in time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
}

impl Tool for AskQuestion {
    const NAME: &'static str = "ask_question";
    const VERB: &'static str = "ask";
    const HINTS: ToolHints = ToolHints::Writes;
    const PANE: PaneArgument<Self> = PaneArgument::None;
    type Reply = AskQuestionReply;

    fn check(&self) -> Result<(), Error> {
        check_not_empty("body", &self.body)?;
        check_length("body", &self.body)?;
        check_length("default", self.default.as_deref().unwrap_or_default())?;
        check_seconds("timeout_secs", self.timeout_secs, MAX_WAIT_SECS)?;
        self.to
            .as_deref()
            .map_or(Ok(()), |to| check_inbox_id("to", to))
    }

    fn wait(&mut self) -> ToolWait<'_> {
        ToolWait::Inbox(InboxWait {
            description: "waiting for an answer".to_owned(),
            timeout_secs: &mut self.timeout_secs,
            default_answer: Some(&mut self.default),
        })
    }

    fn directories(&self) -> Vec<&str> {
        Vec::new()
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AskQuestionReply {
    pub question_id: QuestionId,
    pub status: QuestionStatus,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    /// Who answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum QuestionStatus {
    Answered,
    /// Nobody has answered; a later answer comes as an event.
    Pending,
    /// Nobody answered in time, and the default holds.
    Default,
}
