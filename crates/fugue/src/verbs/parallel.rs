use std::process::ExitCode;

use fugue_api::{
    Error, ErrorKind, Tool, ToolCall,
    pane_placement::{Backend, RunLayout},
    run_result::RunKind,
};
use serde_json::{Value, json};

use crate::{
    cli::CliContext,
    out::span_ms,
    runs::{self, Begin, commands::Commands},
};

/// Run commands side by side and wait for all of them.
///
/// Each command gets a pane and a shell of its own. While they run, a table shows how they are; at the end comes what
/// the failing ones printed. Exit code: 0 if all exited 0, 1 if any failed, 124 if the time was over, 130 after Ctrl-C,
/// which leaves them running.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  fugue parallel 'cargo test' 'npm test' 'make lint' --timeout 10m --fail-fast"
)]
pub struct ParallelArgs {
    #[command(flatten)]
    commands: Commands,
    /// Open the panes in your own session instead of a hidden one.
    #[arg(long)]
    tiled: bool,
    /// Who has the terminals; default native, and tmux for --tiled inside tmux.
    #[arg(long, value_enum)]
    backend: Option<Backend>,
    /// Keep the panes open when all is over.
    #[arg(long)]
    keep: bool,
    /// What still runs after so long is ended: `90s`, `5m`, `1h30m`, or seconds.
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = span_ms)]
    timeout: u64,
    /// End the others as soon as one fails.
    #[arg(long)]
    fail_fast: bool,
    /// Where to run them, if a command has no directory of its own.
    #[arg(short, long, value_name = "DIR")]
    cwd: Option<String>,
    /// The shell that reads the command lines; default bash, else sh.
    #[arg(long, value_name = "SHELL")]
    shell: Option<String>,
    /// The most characters of output in the result; failing commands get theirs first. Default 10000 with --json.
    #[arg(long, value_name = "N")]
    max_output_chars: Option<u32>,
}

impl ParallelArgs {
    pub async fn run(self, cx: &CliContext) -> Result<ExitCode, Error> {
        let mut commands = self.commands.list()?;
        if let Some(cwd) = &self.cwd {
            for one in commands.iter_mut().filter_map(Value::as_object_mut) {
                one.entry("cwd").or_insert_with(|| json!(cwd));
            }
        }
        let request = ToolCall::parse("fugue_run_parallel", json!({"commands": commands}))?;
        let ToolCall::RunParallel(mut args) = request else {
            return Err(Error::new(ErrorKind::Internal, "it is another tool"));
        };
        let run = runs::fresh_id()?;
        args.run_id = Some(run.clone());
        args.layout = match self.tiled {
            true => RunLayout::Tiled,
            false => RunLayout::Hidden,
        };
        args.timeout_ms = self.timeout;
        args.cleanup = !self.keep;
        args.fail_fast = self.fail_fast;
        args.shell = self.shell;
        args.backend = self.backend;
        args.max_output_chars = runs::most_chars(cx, self.max_output_chars);
        args.check()?;
        runs::see_through(cx, run, RunKind::Parallel, args, Begin::Start).await
    }
}
