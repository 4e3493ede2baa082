use std::process::ExitCode;

use fugue_api::{
    Error,
    watch::{self, ClearStatus},
};

use crate::{cli::Desk, verbs};

/// End a watcher. The pane stays.
#[derive(clap::Args)]
pub struct Clear {
    /// The watched pane; default the one this runs in.
    pane: Option<String>,
}

impl Clear {
    pub async fn run(self, desk: &Desk) -> Result<ExitCode, Error> {
        let cleared = verbs::call(
            desk,
            watch::Clear {
                tmux_window: self.pane,
            },
        )
        .await?;
        if desk.out.is_json() {
            desk.out.document(&cleared)?;
        } else if cleared.status == ClearStatus::Noop {
            desk.out.note("it was not watched");
        }
        Ok(ExitCode::SUCCESS)
    }
}
