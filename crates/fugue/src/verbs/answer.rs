use std::process::ExitCode;

use fugue_api::{
    Error,
    team::{AnswerDelivery, AnswerQuestion},
};

use crate::{cli::Desk, verbs};

/// Answer a question of a worker's.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  fugue answer q3 'yes, drop it'      (`fugue events` lists questions)"
)]
pub struct Answer {
    #[command(flatten)]
    answer: AnswerQuestion,
}

impl Answer {
    pub async fn run(self, desk: &Desk) -> Result<ExitCode, Error> {
        let told = verbs::call(desk, self.answer).await?;
        if desk.out.is_json() {
            desk.out.document(&told)?;
        } else if told.delivered == AnswerDelivery::Queued {
            desk.out
                .note("the asker no longer waits; it gets the answer as an event");
        }
        Ok(ExitCode::SUCCESS)
    }
}
