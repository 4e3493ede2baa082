use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    CallResources, Error, InboxWait, PaneArgument, QuestionId, Tool, ToolGroup, ToolHints,
    ToolWait,
    checks::{MAX_WAIT_SECS, check_inbox_id, check_length, check_not_empty, check_seconds},
    cli_values,
};

/// Ask your lead, a worker or a person and wait for the answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct AskQuestion {
    /// Default your lead; `person`: only a person may answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[arg(
        long,
        value_name = "W",
        help = "Worker id, session id, or `person`; default the lead of this worker"
    )]
    pub to: Option<String>,
    /// Text.
    #[arg(help = "Text of the question")]
    pub body: String,
    /// Seconds; default 300, then an event.
    #[serde(default = "crate::defaults::timeout_secs")]
    #[schemars(range(min = 0, max = 86400))]
    #[arg(long = "timeout", value_name = "TIME", value_parser = cli_values::duration_secs, default_value = "300s", help = "How long to wait: `90s`, `5m`, `1h30m`, or a number of seconds")]
    pub timeout_secs: f64,
    /// Answer if none comes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[arg(long, value_name = "ANSWER")]
    pub default: Option<String>,
}

impl AskQuestion {
    /// The `to` of a question that only a person may answer, and the `from` of a person's answer.
    pub const PERSON: &'static str = "person";

    pub fn is_for_a_person(&self) -> bool {
        self.to.as_deref() == Some(Self::PERSON)
    }
}

impl Tool for AskQuestion {
    const NAME: &'static str = "ask_question";
    const VERB: &'static str = "ask";
    const GROUP: ToolGroup = ToolGroup::Team;
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

    fn resources(&self) -> CallResources<'_> {
        CallResources::None
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AskQuestionReply {
    pub question_id: QuestionId,
    pub status: QuestionStatus,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    /// The sender of the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// How a person answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl AskQuestionReply {
    /// The reply to a question that was not answered in time.
    pub fn unanswered(question_id: QuestionId, default: Option<String>) -> Self {
        Self {
            question_id,
            status: match default {
                Some(_) => QuestionStatus::Default,
                None => QuestionStatus::Pending,
            },
            answer: default,
            from: None,
            note: None,
        }
    }

    /// The same for a question to a person, which stays open.
    pub fn left_to_a_person(question_id: QuestionId, default: Option<String>) -> Self {
        let note = format!(
            "a person answers with `fugue answer {question_id} TEXT`; the answer arrives as an `answer` event"
        );
        Self {
            note: Some(note),
            ..Self::unanswered(question_id, default)
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum QuestionStatus {
    Answered,
    /// No answer yet; a later answer arrives as an event.
    Pending,
    /// No answer in time; `answer` is the default.
    Default,
}
