use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    CallResources, Error, PaneArgument, QuestionId, Tool, ToolGroup, ToolHints, ToolWait,
    checks::{check_length, check_not_empty},
};

/// Answer a question event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct AnswerQuestion {
    /// Its id.
    #[arg(value_name = "QUESTION")]
    pub question_id: QuestionId,
    /// Text.
    #[arg(help = "Text of the answer")]
    pub answer: String,
}

impl Tool for AnswerQuestion {
    const NAME: &'static str = "answer_question";
    const VERB: &'static str = "answer";
    const GROUP: ToolGroup = ToolGroup::Team;
    const HINTS: ToolHints = ToolHints::Writes;
    const PANE: PaneArgument<Self> = PaneArgument::None;
    type Reply = AnswerQuestionReply;

    fn check(&self) -> Result<(), Error> {
        check_not_empty("answer", &self.answer)?;
        check_length("answer", &self.answer)
    }

    fn wait(&mut self) -> ToolWait<'_> {
        ToolWait::short("waiting for the daemon")
    }

    fn resources(&self) -> CallResources<'_> {
        CallResources::None
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AnswerQuestionReply {
    pub question_id: QuestionId,
    pub delivered: AnswerDelivery,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum AnswerDelivery {
    /// Returned by the `ask_question` call, which was still waiting.
    Returned,
    /// Queued as an `answer` event.
    Queued,
}
