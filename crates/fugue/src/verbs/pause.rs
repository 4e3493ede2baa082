use std::process::ExitCode;

use fugue_api::{Error, tools::Pause};

use crate::{cli::CliContext, verbs};

/// Pause the watcher of a pane, and print the line that it would type next.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  fugue pause agent")]
pub struct PauseArgs {
    #[command(flatten)]
    watcher: Pause,
}

impl PauseArgs {
    pub async fn run(self, cx: &CliContext) -> Result<ExitCode, Error> {
        let next = verbs::call(cx, self.watcher).await?;
        if cx.out.is_json() {
            cx.out.document(&next)?;
        } else {
            if let Some(line) = &next.injection_prompt {
                cx.out.line(line)?;
            }
            cx.out.note(if next.achieved {
                "paused; the plan looks done"
            } else {
                "paused; the plan is not done"
            });
        }
        Ok(ExitCode::SUCCESS)
    }
}
