use std::process::ExitCode;

use fugue_api::{
    Error, Tool,
    run_result::RunKind,
    tools::{ExpectReport, RunExpect},
};

use crate::{
    cli::CliContext,
    runs::{self, StreamStart},
    verbs,
};

/// Wait until a pattern matches the output of a pane, and print the line with the match.
///
/// Searches the last existing lines, then all new output. Exit code: 0 after a match, 1 if the --fail pattern matched
/// first or the program ended, 124 after a timeout, 130 after Ctrl-C. With --background it is 0 at once.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  fugue expect p3 'listening on .*:\\d+' --fail 'error|panicked' --timeout 2m"
)]
pub struct ExpectArgs {
    #[command(flatten)]
    expect: RunExpect,
}

impl ExpectArgs {
    pub async fn run(self, cx: &CliContext) -> Result<ExitCode, Error> {
        let run = runs::new_run_id()?;
        let args = RunExpect {
            run_id: Some(run.clone()),
            ..self.expect
        };
        args.check()?;
        if args.report == ExpectReport::Event {
            let begun = verbs::call(cx, args).await?;
            match cx.out.is_json() {
                true => cx.out.document(&begun)?,
                false => cx.out.line(run.to_string())?,
            }
            return Ok(ExitCode::SUCCESS);
        }
        runs::wait_and_report(cx, run, RunKind::Expect, args, StreamStart::Start).await
    }
}
