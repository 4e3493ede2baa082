use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    Cursor, Error, PaneArgument, PaneId, RunId, Tool, ToolHints, ToolWait,
    checks::{MAX_TIMEOUT_MS, check_not_empty, check_range},
};

/// Block until a regex appears in a pane's output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunExpect {
    pub pane_id: String,
    /// Regex; `^`, `$` at line ends.
    pub pattern: String,
    /// Then `timeout`.
    #[serde(default = "RunExpect::timeout_ms")]
    #[schemars(range(min = 0, max = 604_800_000))]
    pub timeout_ms: u64,
    /// On a match.
    #[serde(default)]
    pub action: ExpectAction,
    /// For redrawn screens.
    #[serde(default = "RunExpect::poll_interval_ms")]
    #[schemars(range(min = 10, max = 60_000))]
    pub poll_interval_ms: u32,
    /// Of those that are there already.
    #[serde(default = "RunExpect::lines")]
    #[schemars(range(min = 0, max = 1_000_000))]
    pub lines: u32,
    /// Only what came after this cursor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Cursor>,
    /// Then `failed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fail_pattern: Option<String>,
    /// Also the echo of typed lines.
    #[serde(default)]
    pub match_echo: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
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
        }
    }

    fn directories(&self) -> Vec<&str> {
        Vec::new()
    }
}

/// What happens after a match.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum ExpectAction {
    #[default]
    Notify,
    ClosePane,
    ReturnOutput,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ExpectResult {
    pub status: ExpectStatus,
    pub run_id: RunId,
    pub pane_id: PaneId,
    pub pattern: String,
    /// The text that matched.
    #[serde(default, rename = "match", skip_serializing_if = "Option::is_none")]
    pub matched: Option<String>,
    /// The line it is in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<String>,
    pub duration_ms: u64,
    /// Just behind the match, else the end of what was looked at.
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
    pub via: Option<MatchVia>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum ExpectStatus {
    Matched,
    /// `fail_pattern` came first.
    Failed,
    Timeout,
    /// The program ended with no match.
    Exited,
    /// The wait goes on; `fugue_wait` picks it up.
    Running,
}

/// How a match was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum MatchVia {
    /// In the text as it was printed.
    Stream,
    /// On the screen, drawn with cursor moves.
    Screen,
}
