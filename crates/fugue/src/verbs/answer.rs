use std::process::ExitCode;

use fugue_api::{
    Error,
    tools::{AnswerDelivery, AnswerQuestion},
};

use crate::{cli::CliContext, verbs};

/// Answer a question of a worker's.
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
        let told = verbs::call(cx, self.answer).await?;
        if cx.out.is_json() {
            cx.out.document(&told)?;
        } else if told.delivered == AnswerDelivery::Queued {
            cx.out
                .note("the asker no longer waits; it gets the answer as an event");
        }
        Ok(ExitCode::SUCCESS)
    }
}
