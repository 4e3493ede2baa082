use std::process::ExitCode;

use crate::{
    cli::CliContext,
    follow,
    runs::{self, StreamStart, commands::CommandSource},
};
use fugue_api::{Error, Tool, run_result::RunKind, tools::RunPipeline};

/// Run commands one after the other in one shell, and stop at the first failure.
///
/// The directory, variables and functions of a step are kept for the next one. The output of the steps is printed as it
/// arrives. Exit code: 0 if all steps succeeded, else that of the failed step (1 if it has none), 124 after a timeout, 130
/// after Ctrl-C, which leaves the steps running.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  fugue pipeline 'cd web' 'npm ci' 'npm run build' --timeout 20m"
)]
pub struct PipelineArgs {
    #[command(flatten)]
    run: RunPipeline,
    #[command(flatten)]
    commands: CommandSource,
    /// Limit of all outputs in characters, failures first; default 10000 with --json, else 200000.
    #[arg(long, value_name = "N")]
    max_output_chars: Option<u32>,
}

impl PipelineArgs {
    pub async fn run(self, cx: &CliContext) -> Result<ExitCode, Error> {
        let mut args = self.run;
        self.commands
            .add_to(&mut args.commands, |step, name| step.name = Some(name))?;
        let run = runs::new_run_id()?;
        args.run_id = Some(run.clone());
        args.max_output_chars = Some(runs::max_output_chars(cx, self.max_output_chars));
        args.check()?;
        let begin = match &args.pane_id {
            // Earlier output of the pane does not belong to the steps.
            Some(pane) => {
                let pane = follow::pane_status(&cx.client, pane).await?;
                StreamStart::At(follow::offset(&pane.cursor))
            }
            None => StreamStart::Start,
        };
        runs::wait_and_report(cx, run, RunKind::Pipeline, args, begin).await
    }
}
