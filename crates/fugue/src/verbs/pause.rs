use std::process::ExitCode;

use fugue_api::{Error, watch};

use crate::{cli::Desk, verbs};

/// Pause a watcher, and print what it would have typed next.
#[derive(clap::Args)]
pub struct Pause {
    /// The watched pane; default the one this runs in.
    pane: Option<String>,
}

impl Pause {
    pub async fn run(self, desk: &Desk) -> Result<ExitCode, Error> {
        let next = verbs::call(
            desk,
            watch::Pause {
                tmux_window: self.pane,
            },
        )
        .await?;
        if desk.out.is_json() {
            desk.out.document(&next)?;
        } else {
            if let Some(line) = &next.injection_prompt {
                desk.out.line(line)?;
            }
            desk.out.note(if next.achieved {
                "paused; the plan looks done"
            } else {
                "paused; the plan is not done"
            });
        }
        Ok(ExitCode::SUCCESS)
    }
}
