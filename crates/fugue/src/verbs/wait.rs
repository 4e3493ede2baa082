use std::process::ExitCode;

use fugue_api::{
    Error,
    run_result::{RunKind, RunResult},
    tools::WaitForRun,
};

use crate::{
    cli::CliContext,
    runs::{self, StreamStart},
};

/// Wait for the end of a run and print its result like the verb that started it.
///
/// Exit codes are those of `fugue parallel`, `pipeline` and `expect`; 124 also if the run continues after --timeout.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  fugue wait r-4kd --timeout 30s      (`fugue ls` lists the runs)"
)]
pub struct WaitArgs {
    #[command(flatten)]
    wait: WaitForRun,
}

impl WaitArgs {
    pub async fn run(self, cx: &CliContext) -> Result<ExitCode, Error> {
        let known = runs::fetch_progress(&cx.client, &self.wait.run_id, 0)
            .await?
            .run;
        let run = self.wait.run_id.clone();
        let (kind, begin) = match &known {
            RunResult::Parallel(_) => (RunKind::Parallel, StreamStart::Start),
            RunResult::Expect(_) => (RunKind::Expect, StreamStart::Start),
            // The result of an ended run contains the output.
            RunResult::Pipeline(_) if !known.is_running() => {
                (RunKind::Pipeline, StreamStart::Never)
            }
            RunResult::Pipeline(known) => (
                RunKind::Pipeline,
                StreamStart::CatchUp {
                    steps: known.steps.len(),
                },
            ),
        };
        let args = WaitForRun {
            run_id: run.clone(),
            ..self.wait
        };
        runs::wait_and_report(cx, run, kind, args, begin).await
    }
}
