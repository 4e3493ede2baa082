use std::process::ExitCode;

use fugue_api::{
    Error,
    tools::{Clear, ClearStatus},
};

use crate::{cli::CliContext, verbs};

/// End the watcher of a pane. The pane stays open.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  fugue clear agent")]
pub struct ClearArgs {
    #[command(flatten)]
    watcher: Clear,
}

impl ClearArgs {
    pub async fn run(self, cx: &CliContext) -> Result<ExitCode, Error> {
        let cleared = verbs::call(cx, self.watcher).await?;
        if cx.out.is_json() {
            cx.out.document(&cleared)?;
        } else if cleared.status == ClearStatus::Noop {
            cx.out.note("the pane was not watched");
        }
        Ok(ExitCode::SUCCESS)
    }
}
