use std::process::ExitCode;

use fugue_api::{Error, team::NotifyCompletion};

use crate::{cli::Desk, verbs};

/// Report that a worker's work is done, or failed.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  fugue notify success -m 'all tests pass'")]
pub struct Notify {
    #[command(flatten)]
    notice: NotifyCompletion,
}

impl Notify {
    pub async fn run(self, desk: &Desk) -> Result<ExitCode, Error> {
        let made = verbs::call(desk, self.notice).await?;
        if desk.out.is_json() {
            desk.out.document(&made)?;
        } else {
            desk.out.line(made.event_id.to_string())?;
        }
        Ok(ExitCode::SUCCESS)
    }
}
