use std::process::ExitCode;

use fugue_api::{Error, tools::NotifyCompletion};

use crate::{cli::CliContext, verbs};

/// Report that the work of a worker is done or failed.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  fugue notify success -m 'all tests pass'")]
pub struct NotifyArgs {
    #[command(flatten)]
    notice: NotifyCompletion,
}

impl NotifyArgs {
    pub async fn run(self, cx: &CliContext) -> Result<ExitCode, Error> {
        let made = verbs::call(cx, self.notice).await?;
        if cx.out.is_json() {
            cx.out.document(&made)?;
        } else {
            cx.out.line(made.event_id.to_string())?;
        }
        Ok(ExitCode::SUCCESS)
    }
}
