use std::process::ExitCode;

use fugue_api::{
    Error, RunId,
    run_result::{RunKind, RunResult},
    tools::WaitForRun,
};

use crate::{
    cli::CliContext,
    out::span_ms,
    runs::{self, Begin},
};

/// Pick a run up again: wait for its end and show it as the verb that started it would have.
///
/// Exit codes are those of `fugue parallel`, `pipeline` and `expect`; 124 also if the run goes on after --timeout.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  fugue wait r-4kd --timeout 30s      (`fugue ls` lists the runs)"
)]
pub struct WaitArgs {
    /// The run's id, or the beginning of it.
    #[arg(value_name = "RUN")]
    run: RunId,
    /// How long to wait; default until it is over. The run's own time limit stays.
    #[arg(long, value_name = "TIME", value_parser = span_ms)]
    timeout: Option<u64>,
}

impl WaitArgs {
    pub async fn run(self, cx: &CliContext) -> Result<ExitCode, Error> {
        let known = runs::news(&cx.client, &self.run, 0).await?.run;
        let run = known.run_id().clone();
        let (kind, begin) = match &known {
            RunResult::Parallel(_) => (RunKind::Parallel, Begin::Start),
            RunResult::Expect(_) => (RunKind::Expect, Begin::Start),
            // What it printed is in its result.
            RunResult::Pipeline(_) if !known.is_running() => (RunKind::Pipeline, Begin::Never),
            RunResult::Pipeline(known) => (
                RunKind::Pipeline,
                Begin::CatchUp {
                    steps: known.steps.len(),
                },
            ),
        };
        let args = WaitForRun {
            run_id: run.clone(),
            timeout_ms: self.timeout,
        };
        runs::see_through(cx, run, kind, args, begin).await
    }
}
