use std::process::ExitCode;

use fugue_api::{
    Error,
    tools::{WatchMe, WatchMode},
};

use crate::{cli::CliContext, verbs};

/// Watch a pane: after each report a model types the next line, until the plan is done.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  fugue watch agent 'all tests pass' --done-when 'cargo test'      (FUGUE_ASSESS_MODEL names the model)"
)]
pub struct WatchArgs {
    #[command(flatten)]
    watch: WatchMe,
}

impl WatchArgs {
    pub async fn run(self, cx: &CliContext) -> Result<ExitCode, Error> {
        let watching = verbs::call(cx, self.watch).await?;
        if cx.out.is_json() {
            cx.out.document(&watching)?;
        } else {
            let how = match watching.mode {
                WatchMode::Watching => "is watched",
                WatchMode::Updated => "is watched with the new plan",
            };
            cx.out
                .note(&format!("{} {how}; `fugue look` reports", watching.pane_id));
        }
        Ok(ExitCode::SUCCESS)
    }
}
