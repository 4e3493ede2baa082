use clap::ArgAction;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    CallResources, Cursor, Error, PaneArgument, PaneId, RunId, RunReply, Tool, ToolGroup,
    ToolHints, ToolWait,
    checks::{MAX_TIMEOUT_MS, check_not_empty, check_range},
    cli_values,
};

/// Wait until a regex matches a pane's output: wait until a server is ready or a build is done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct RunExpect {
    /// Id or name.
    #[arg(value_name = "PANE")]
    pub pane_id: String,
    /// Regex, multi-line.
    #[arg(
        value_name = "RE",
        allow_hyphen_values = true,
        help = "Regex; `^` and `$` match at line boundaries"
    )]
    pub pattern: String,
    /// Milliseconds; default 60000.
    #[serde(default = "RunExpect::timeout_ms")]
    #[schemars(range(min = 0, max = 604_800_000))]
    #[arg(long = "timeout", value_name = "TIME", value_parser = cli_values::duration_ms, default_value = "60s", help = "How long to wait: `500ms`, `60s`, `5m`, or a number of seconds")]
    pub timeout_ms: u64,
    /// After a match; default notify.
    #[serde(default)]
    #[command(flatten)]
    pub action: ExpectAction,
    /// Milliseconds between looks at a screen; default 200.
    #[serde(default = "RunExpect::poll_interval_ms")]
    #[schemars(range(min = 10, max = 60_000))]
    #[arg(skip = RunExpect::poll_interval_ms())]
    pub poll_interval_ms: u32,
    /// Existing lines to search; default 100.
    #[serde(default = "RunExpect::lines")]
    #[schemars(range(min = 0, max = 1_000_000))]
    #[arg(short = 'n', long, default_value_t = RunExpect::lines(), help = "How many existing lines to search before waiting for new output")]
    pub lines: u32,
    /// After this cursor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[arg(
        long,
        value_name = "CURSOR",
        help = "Search only output after this cursor"
    )]
    pub since: Option<Cursor>,
    /// Regex that fails the wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[arg(
        long = "fail",
        value_name = "RE",
        allow_hyphen_values = true,
        help = "End the wait with exit code 1 when this regex matches first"
    )]
    pub fail_pattern: Option<String>,
    /// Match typed input; default false.
    #[serde(default)]
    #[arg(long = "echo", help = "Also match the echo of typed input")]
    pub match_echo: bool,
    /// Default call; event: reply now, a run_complete event later.
    #[serde(default, skip_serializing_if = "ExpectReport::is_default")]
    #[arg(long = "background", action = ArgAction::SetTrue, value_parser = cli_values::flag(ExpectReport::Call, ExpectReport::Event), help = "Print the id of the wait and return; `fugue wait` has its end, and a session gets an event")]
    pub report: ExpectReport,
    /// Makes repeats safe.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[arg(skip)]
    pub run_id: Option<RunId>,
}

impl RunExpect {
    pub fn timeout_ms() -> u64 {
        60_000
    }
    pub fn poll_interval_ms() -> u32 {
        200
    }
    pub fn lines() -> u32 {
        100
    }
}

impl Tool for RunExpect {
    const NAME: &'static str = "fugue_expect";
    const VERB: &'static str = "expect";
    const GROUP: ToolGroup = ToolGroup::Runs;
    const HINTS: ToolHints = ToolHints::Writes;
    const PANE: PaneArgument<Self> =
        PaneArgument::Required(|args| &args.pane_id, |args| &mut args.pane_id);
    type Reply = ExpectResult;

    fn check(&self) -> Result<(), Error> {
        check_not_empty("pane_id", &self.pane_id)?;
        if self.pattern.is_empty() {
            return Err(Error::invalid("pattern: is empty, and would match at once"));
        }
        if self.fail_pattern.as_deref() == Some("") {
            return Err(Error::invalid(
                "fail_pattern: is empty, and would match at once",
            ));
        }
        check_range("timeout_ms", self.timeout_ms, 0, MAX_TIMEOUT_MS)?;
        check_range(
            "poll_interval_ms",
            u64::from(self.poll_interval_ms),
            10,
            60_000,
        )?;
        check_range("lines", u64::from(self.lines), 0, 1_000_000)?;
        self.run_id.as_ref().map_or(Ok(()), RunId::check)
    }

    fn wait(&mut self) -> ToolWait<'_> {
        ToolWait::StartRun {
            run_id: &mut self.run_id,
            reply: RunReply::Result,
        }
    }

    fn resources(&self) -> CallResources<'_> {
        CallResources::None
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum ExpectAction {
    #[default]
    Notify,
    ClosePane,
    ReturnOutput,
}

/// How a caller learns of the end of an expect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum ExpectReport {
    /// The reply to the call has the result.
    #[default]
    Call,
    /// The reply has the run's id. The result is an event in the caller's inbox, unless `fugue_wait` returns it first.
    Event,
}

impl ExpectReport {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

#[derive(clap::Args)]
struct ExpectActionFlags {
    /// Close the pane after the match.
    #[arg(long, group = "action")]
    close: bool,
    /// Print the searched text instead of the line with the match.
    #[arg(long, group = "action")]
    output: bool,
}

impl From<ExpectActionFlags> for ExpectAction {
    fn from(flags: ExpectActionFlags) -> Self {
        match flags {
            ExpectActionFlags { close: true, .. } => Self::ClosePane,
            ExpectActionFlags { output: true, .. } => Self::ReturnOutput,
            ExpectActionFlags { .. } => Self::Notify,
        }
    }
}

crate::cli_values::impl_args_by_flags!(ExpectAction, ExpectActionFlags);

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ExpectResult {
    pub status: ExpectStatus,
    /// `fugue_wait` takes it. Replies to models have none after the end of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<RunId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pane_id: Option<PaneId>,
    pub pattern: String,
    /// The text that matched.
    #[serde(default, rename = "match", skip_serializing_if = "Option::is_none")]
    pub matched: Option<String>,
    /// The line with the match.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<String>,
    pub duration_ms: u64,
    /// The position after the match, else the end of the searched output.
    pub cursor: Cursor,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    #[serde(default, skip_serializing_if = "crate::checks::is_zero")]
    pub omitted_chars: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub via: Option<MatchVia>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum ExpectStatus {
    Matched,
    /// `fail_pattern` matched first.
    Failed,
    Timeout,
    /// The program ended without a match.
    Exited,
    /// Ended by `cancel_run`.
    Cancelled,
    /// The run continues; `fugue_wait` returns its result.
    Running,
}

/// Where a match was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum MatchVia {
    /// In the printed text.
    Stream,
    /// On the screen, drawn with cursor movements.
    Screen,
}
