use std::process::ExitCode;

use fugue_api::{
    Error, Handle,
    tools::{AskQuestion, QuestionStatus},
};

use crate::{cli::CliContext, out::InterruptSignal, text::StyledText};

/// Ask a worker, or the lead of this worker, and wait for the answer.
///
/// Exit code 124 if no answer came in time; a later answer arrives as an event.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  fugue ask 'may I drop the old table?' --timeout 10m --default no"
)]
pub struct AskArgs {
    #[command(flatten)]
    question: AskQuestion,
}

impl AskArgs {
    pub async fn run(self, cx: &CliContext) -> Result<ExitCode, Error> {
        let mut interrupt = InterruptSignal::new()?;
        let delivery = tokio::select! {
            delivery = cx.client.call(self.question.into()) => delivery?,
            () = interrupt.pressed() => {
                cx.out.note("the question stays open; an answer arrives as an event (`fugue events`)");
                return Ok(ExitCode::from(130));
            }
        };
        let reply = delivery.reply.read_as::<AskQuestion>()?;
        if cx.out.is_json() {
            cx.out.document(&reply)?;
        } else if let Some(answer) = &reply.answer {
            for line in answer.lines() {
                cx.out.line(StyledText::output(line))?;
            }
        } else {
            cx.out.note(&format!(
                "no answer yet to {}; a later answer arrives as an event (`fugue events`)",
                reply.question_id
            ));
        }
        if let Some(ack) = delivery.ack {
            ack.complete().await;
        }
        Ok(match reply.status {
            QuestionStatus::Answered | QuestionStatus::Default => ExitCode::SUCCESS,
            QuestionStatus::Pending => ExitCode::from(124),
        })
    }
}
