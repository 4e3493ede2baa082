use std::process::ExitCode;

use fugue_api::{
    Cursor, Error, Tool,
    run_result::RunKind,
    tools::{ExpectAction, RunExpect},
};

use crate::{
    cli::CliContext,
    out::span_ms,
    runs::{self, Begin},
};

/// Wait until a pattern appears in a pane's output, and print the line it is in.
///
/// Looks at the last lines that are there, then at everything new. Exit code: 0 if it came, 1 if the --fail pattern came
/// first or the program ended, 124 if the time was over, 130 after Ctrl-C.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  fugue expect p3 'listening on .*:\\d+' --fail 'error|panicked' --timeout 2m"
)]
pub struct ExpectArgs {
    /// Pane id or name.
    #[arg(value_name = "PANE")]
    pane: String,
    /// A regular expression; `^` and `$` match at line boundaries.
    #[arg(value_name = "RE", allow_hyphen_values = true)]
    pattern: String,
    /// How long to wait: `500ms`, `60s`, `5m`, or seconds.
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = span_ms)]
    timeout: u64,
    /// Give up when this comes first.
    #[arg(long, value_name = "RE", allow_hyphen_values = true)]
    fail: Option<String>,
    /// Look only at what came after this cursor.
    #[arg(long, value_name = "CURSOR")]
    since: Option<Cursor>,
    /// Close the pane after the match.
    #[arg(long, group = "action")]
    close: bool,
    /// Print all the text that was searched instead of the one line.
    #[arg(long, group = "action")]
    output: bool,
    /// How many of the lines that are there already are looked at.
    #[arg(short = 'n', long, default_value_t = RunExpect::lines())]
    lines: u32,
    /// Let the echo of typed command lines match too.
    #[arg(long)]
    echo: bool,
}

impl ExpectArgs {
    pub async fn run(self, cx: &CliContext) -> Result<ExitCode, Error> {
        let run = runs::fresh_id()?;
        let args = RunExpect {
            pane_id: self.pane,
            pattern: self.pattern,
            timeout_ms: self.timeout,
            action: match (self.close, self.output) {
                (true, _) => ExpectAction::ClosePane,
                (_, true) => ExpectAction::ReturnOutput,
                _ => ExpectAction::Notify,
            },
            poll_interval_ms: RunExpect::poll_interval_ms(),
            lines: self.lines,
            since: self.since,
            fail_pattern: self.fail,
            match_echo: self.echo,
            run_id: Some(run.clone()),
        };
        args.check()?;
        runs::see_through(cx, run, RunKind::Expect, args, Begin::Start).await
    }
}
