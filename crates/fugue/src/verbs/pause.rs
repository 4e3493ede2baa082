use std::process::ExitCode;

use fugue_api::{Error, tools::Pause};

use crate::{cli::CliContext, verbs};

/// Pause a watcher, and print what it would have typed next.
#[derive(clap::Args)]
pub struct PauseArgs {
    /// The watched pane; default the one this runs in.
    pane: Option<String>,
}

impl PauseArgs {
    pub async fn run(self, cx: &CliContext) -> Result<ExitCode, Error> {
        let next = verbs::call(
            cx,
            Pause {
                tmux_window: self.pane,
            },
        )
        .await?;
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
