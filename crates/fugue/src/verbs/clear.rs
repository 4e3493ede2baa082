use std::process::ExitCode;

use fugue_api::{
    Error,
    tools::{Clear, ClearStatus},
};

use crate::{cli::CliContext, verbs};

/// End a watcher. The pane stays.
#[derive(clap::Args)]
pub struct ClearArgs {
    /// The watched pane; default the one this runs in.
    pane: Option<String>,
}

impl ClearArgs {
    pub async fn run(self, cx: &CliContext) -> Result<ExitCode, Error> {
        let cleared = verbs::call(
            cx,
            Clear {
                tmux_window: self.pane,
            },
        )
        .await?;
        if cx.out.is_json() {
            cx.out.document(&cleared)?;
        } else if cleared.status == ClearStatus::Noop {
            cx.out.note("it was not watched");
        }
        Ok(ExitCode::SUCCESS)
    }
}
