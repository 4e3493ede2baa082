use std::process::ExitCode;

use crate::{
    cli::CliContext,
    runs::{self, StreamStart, commands::CommandSource},
};
use fugue_api::{Error, Tool, run_result::RunKind, tools::RunParallel};

/// Run commands at the same time and wait for all of them.
///
/// Each command has its own pane and shell. A table shows their states while they run; the output of failed commands is
/// printed at the end. Exit code: 0 if all exited 0, 1 if any failed, 124 after a timeout, 130 after Ctrl-C, which leaves
/// the commands running.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  fugue parallel 'cargo test' 'npm test' 'make lint' --timeout 10m --fail-fast"
)]
pub struct ParallelArgs {
    #[command(flatten)]
    run: RunParallel,
    #[command(flatten)]
    commands: CommandSource,
    /// Working directory of commands without one of their own.
    #[arg(short, long, value_name = "DIR")]
    cwd: Option<String>,
    /// Limit of all outputs in characters, failures first; default 10000 with --json, else 200000.
    #[arg(long, value_name = "N")]
    max_output_chars: Option<u32>,
}

impl ParallelArgs {
    pub async fn run(self, cx: &CliContext) -> Result<ExitCode, Error> {
        let mut args = self.run;
        self.commands.add_to(&mut args.commands, |command, name| {
            command.name = Some(name)
        })?;
        for command in &mut args.commands {
            command.cwd = command.cwd.take().or_else(|| self.cwd.clone());
        }
        let run = runs::new_run_id()?;
        args.run_id = Some(run.clone());
        args.max_output_chars = Some(runs::max_output_chars(cx, self.max_output_chars));
        args.check()?;
        runs::wait_and_report(cx, run, RunKind::Parallel, args, StreamStart::Start).await
    }
}
