use std::process::ExitCode;

use fugue_api::{
    Error,
    tools::{AnswerDelivery, AnswerQuestion},
};

use crate::{cli::CliContext, verbs};

/// Answer the question of a worker.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  fugue answer q3 'yes, drop it'      (`fugue events` lists questions)"
)]
pub struct AnswerArgs {
    #[command(flatten)]
    answer: AnswerQuestion,
}

impl AnswerArgs {
    pub async fn run(self, cx: &CliContext) -> Result<ExitCode, Error> {
        let reply = verbs::call(cx, self.answer).await?;
        if cx.out.is_json() {
            cx.out.document(&reply)?;
        } else if reply.delivered == AnswerDelivery::Queued {
            cx.out
                .note("the asking call has ended; the answer arrives as an event");
        }
        Ok(ExitCode::SUCCESS)
    }
}
