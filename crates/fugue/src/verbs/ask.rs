use std::process::ExitCode;

use fugue_api::{
    Error, ErrorKind, Handle, ToolReply,
    tools::{AskQuestion, QuestionStatus},
};

use crate::{
    cli::CliContext,
    out::{Interrupt, span_ms},
    text::Styled,
};

/// Ask a worker, or whoever spawned this one, and wait for the answer.
///
/// Exit code 124 if none came in time; it then arrives as an event.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  fugue ask 'may I drop the old table?' --timeout 10m --default no"
)]
pub struct AskArgs {
    /// A worker's id, or a session's; default whoever spawned this worker.
    #[arg(long, value_name = "W")]
    to: Option<String>,
    /// The question.
    body: String,
    /// How long to wait.
    #[arg(long, value_name = "TIME", value_parser = span_ms, default_value = "300s")]
    timeout: u64,
    /// The answer if none comes in time.
    #[arg(long, value_name = "ANSWER")]
    default: Option<String>,
}

impl AskArgs {
    pub async fn run(self, cx: &CliContext) -> Result<ExitCode, Error> {
        let question = AskQuestion {
            to: self.to,
            body: self.body,
            timeout_secs: self.timeout as f64 / 1000.0,
            default: self.default,
        };
        let mut interrupt = Interrupt::new()?;
        let handed = tokio::select! {
            handed = cx.client.call(question.into()) => handed?,
            () = interrupt.pressed() => {
                cx.out.note("the question stays; an answer arrives as an event (`fugue events`)");
                return Ok(ExitCode::from(130));
            }
        };
        let ToolReply::AskQuestion(asked) = handed.reply else {
            return Err(Error::new(
                ErrorKind::Internal,
                "the reply was one to another tool",
            ));
        };
        if cx.out.is_json() {
            cx.out.document(&asked)?;
        } else if let Some(answer) = &asked.answer {
            for line in answer.lines() {
                cx.out.line(Styled::output(line))?;
            }
        } else {
            cx.out.note(&format!(
                "no answer yet to {}; it arrives as an event (`fugue events`)",
                asked.question_id
            ));
        }
        if let Some(receipt) = handed.ack {
            receipt.complete().await;
        }
        Ok(match asked.status {
            QuestionStatus::Answered | QuestionStatus::Default => ExitCode::SUCCESS,
            QuestionStatus::Pending => ExitCode::from(124),
        })
    }
}
