use std::process::ExitCode;

use fugue_api::{
    Error, ErrorKind, Tool, ToolCall,
    pane_placement::{Backend, RunLayout},
    run_result::RunKind,
};
use serde_json::json;

use crate::{
    cli::CliContext,
    follow,
    out::span_ms,
    runs::{self, Begin, commands::Commands},
};

/// Run commands one after the other in one shell, and stop at the first that fails.
///
/// What a step sets (directory, variables, functions) is there in the next. The steps' output is shown as it comes. Exit
/// code: 0 if all went well, else that of the step that failed (1 if it has none), 124 if the time was over, 130 after
/// Ctrl-C, which leaves the steps running.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  fugue pipeline 'cd web' 'npm ci' 'npm run build' --timeout 20m"
)]
pub struct PipelineArgs {
    #[command(flatten)]
    commands: Commands,
    /// Where the shell starts; default here.
    #[arg(short, long, value_name = "DIR")]
    cwd: Option<String>,
    /// Go on with the next step after one that failed.
    #[arg(short, long)]
    keep_going: bool,
    /// Close the pane at the end; else it stays, a shell in the state that the steps left.
    #[arg(long)]
    cleanup: bool,
    /// For all steps together: `90s`, `10m`, `1h30m`, or seconds. The step that runs then is interrupted.
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = span_ms)]
    timeout: u64,
    /// Run the steps in the shell of this pane, which must be at its prompt.
    #[arg(short, long, value_name = "PANE")]
    pane: Option<String>,
    /// The shell that runs the steps; default bash, else sh.
    #[arg(long, value_name = "SHELL")]
    shell: Option<String>,
    /// Open the pane in your own session instead of a hidden one.
    #[arg(long)]
    tiled: bool,
    /// Who has the terminals; default native, and tmux for --tiled inside tmux.
    #[arg(long, value_enum)]
    backend: Option<Backend>,
    /// The most characters of output in the result; failing steps get theirs first. Default 10000 with --json.
    #[arg(long, value_name = "N")]
    max_output_chars: Option<u32>,
}

impl PipelineArgs {
    pub async fn run(self, cx: &CliContext) -> Result<ExitCode, Error> {
        let commands = self.commands.list()?;
        let request = ToolCall::parse("fugue_run_pipeline", json!({"commands": commands}))?;
        let ToolCall::RunPipeline(mut args) = request else {
            return Err(Error::new(ErrorKind::Internal, "it is another tool"));
        };
        let run = runs::fresh_id()?;
        args.run_id = Some(run.clone());
        args.cwd = self.cwd;
        args.stop_on_error = !self.keep_going;
        args.cleanup = self.cleanup;
        args.timeout_ms = self.timeout;
        args.pane_id = self.pane;
        args.shell = self.shell;
        args.backend = self.backend;
        args.layout = match self.tiled {
            true => RunLayout::Tiled,
            false => RunLayout::Hidden,
        };
        args.max_output_chars = runs::most_chars(cx, self.max_output_chars);
        args.check()?;
        let begin = match &args.pane_id {
            // What it printed before is not of the steps.
            Some(pane) => {
                let pane = follow::status(&cx.client, pane).await?;
                Begin::At(follow::offset(&pane.cursor))
            }
            None => Begin::Start,
        };
        runs::see_through(cx, run, RunKind::Pipeline, args, begin).await
    }
}
