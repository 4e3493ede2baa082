use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    CallResources, Cursor, Error, PaneArgument, PaneId, PaneResources, PlacementArguments, RunId,
    RunReply, SessionName, ShellPurpose, Tool, ToolGroup, ToolHints, ToolWait,
    checks::{
        MAX_TIMEOUT_MS, check_command, check_env, check_name, check_optional_text, check_range,
    },
    cli_values,
    pane_placement::Backend,
    tools::{ExpectResult, ExpectStatus},
};

/// Open a terminal that stays, for a background process (server, long command) or a shell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct CreatePane {
    /// Command line; default a shell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[arg(skip)]
    pub command: Option<String>,
    /// Default yours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[arg(
        short,
        long,
        value_name = "DIR",
        help = "Working directory; default the current one"
    )]
    pub cwd: Option<String>,
    /// Name for use as pane_id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[arg(short, long, help = "Name to use instead of the id")]
    pub name: Option<String>,
    /// Group; default main.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[arg(short, long, help = "Group of panes (default `main`)")]
    pub session: Option<String>,
    /// Environment variables.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[arg(skip)]
    pub env: BTreeMap<String, String>,
    /// Height; default 40.
    #[serde(default = "CreatePane::rows")]
    #[schemars(range(min = 1, max = 1000))]
    #[arg(long, default_value_t = CreatePane::rows(), help = "Height in rows")]
    pub rows: u16,
    /// Width; default 120.
    #[serde(default = "CreatePane::cols")]
    #[schemars(range(min = 1, max = 1000))]
    #[arg(long, default_value_t = CreatePane::cols(), help = "Width in columns")]
    pub cols: u16,
    /// Default native.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[arg(long, value_enum, help = "Where the terminal runs; default native")]
    pub backend: Option<Backend>,
    /// Default $SHELL, for a command bash.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[arg(long, help = "Shell program; default $SHELL, for a command bash")]
    pub shell: Option<String>,
    /// Regex to wait for in its output; the reply has match and line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[arg(
        long,
        value_name = "RE",
        allow_hyphen_values = true,
        help = "Wait until this regex matches the output, or the command has ended"
    )]
    pub ready: Option<String>,
    /// Milliseconds for ready; default 60000.
    #[serde(default = "CreatePane::timeout_ms")]
    #[schemars(range(min = 0, max = 604_800_000))]
    #[arg(long = "timeout", value_name = "TIME", requires = "ready", value_parser = cli_values::duration_ms, default_value = "60s", help = "How long to wait for --ready: `500ms`, `60s`, `5m`, or a number of seconds")]
    pub timeout_ms: u64,
    /// Makes repeats safe.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[arg(skip)]
    pub run_id: Option<RunId>,
}

impl CreatePane {
    pub fn timeout_ms() -> u64 {
        60_000
    }
    fn rows() -> u16 {
        40
    }
    fn cols() -> u16 {
        120
    }
}

impl Tool for CreatePane {
    const NAME: &'static str = "create_pane";
    const VERB: &'static str = "new";
    const GROUP: ToolGroup = ToolGroup::Panes;
    const HINTS: ToolHints = ToolHints::Writes;
    const PANE: PaneArgument<Self> = PaneArgument::None;
    type Reply = CreatePaneReply;

    fn check(&self) -> Result<(), Error> {
        if let Some(command) = &self.command {
            check_command("command", command)?;
        }
        check_optional_text("cwd", self.cwd.as_deref())?;
        check_optional_text("shell", self.shell.as_deref())?;
        if let Some(name) = &self.name {
            check_name("name", name)?;
        }
        if let Some(session) = &self.session {
            SessionName::parse(session)?;
        }
        check_env("env", &self.env)?;
        check_range("rows", u64::from(self.rows), 1, 1000)?;
        check_range("cols", u64::from(self.cols), 1, 1000)?;
        check_range("timeout_ms", self.timeout_ms, 0, MAX_TIMEOUT_MS)?;
        match (&self.ready, &self.run_id) {
            (Some(ready), _) if ready.is_empty() => {
                Err(Error::invalid("ready: is empty, and would match at once"))
            }
            (None, Some(_)) => Err(Error::invalid("run_id: is for a call with `ready`")
                .hint("without `ready` the call starts no run")),
            (_, run_id) => run_id.as_ref().map_or(Ok(()), RunId::check),
        }
    }

    fn wait(&mut self) -> ToolWait<'_> {
        match self.ready {
            Some(_) => ToolWait::StartRun {
                run_id: &mut self.run_id,
                reply: RunReply::NewPane,
            },
            None => ToolWait::short("waiting for the pane's first prompt"),
        }
    }

    fn resources(&self) -> CallResources<'_> {
        let purpose = match self.command {
            Some(_) => ShellPurpose::Command,
            None => ShellPurpose::Interactive,
        };
        CallResources::Panes {
            panes: vec![PaneResources {
                cwd_field: "cwd".to_owned(),
                cwd: self.cwd.as_deref(),
                env: Some(&self.env),
            }],
            shell: self.shell.as_deref(),
            purpose,
            placement: PlacementArguments {
                backend: self.backend,
                layout: None,
                session: self.session.as_deref(),
            },
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CreatePaneReply {
    pub pane_id: PaneId,
    pub session: SessionName,
    pub name: String,
    pub pid: u32,
    pub cursor: Cursor,
    /// Whether the pattern of the argument `ready` has matched. Without that argument: whether the shell has printed its
    /// first prompt, or the command is running.
    pub ready: bool,
    /// How the wait for the pattern ended without a match. `running`: `fugue_wait` continues the wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<ExpectStatus>,
    /// The id of a wait that is `running`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<RunId>,
    /// The text that matched.
    #[serde(default, rename = "match", skip_serializing_if = "Option::is_none")]
    pub matched: Option<String>,
    /// The line with the match.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<String>,
    /// The output of a wait without a match, as of a failed command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    #[serde(default, skip_serializing_if = "crate::checks::is_zero")]
    pub omitted_chars: u64,
    /// Why the pane is not ready, or another remark.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl CreatePaneReply {
    /// The reply about a pane that is not ready.
    pub fn new(
        pane_id: PaneId,
        session: SessionName,
        name: String,
        pid: u32,
        cursor: Cursor,
    ) -> Self {
        Self {
            pane_id,
            session,
            name,
            pid,
            cursor,
            ready: false,
            status: None,
            run_id: None,
            matched: None,
            line: None,
            exit_code: None,
            signal: None,
            output: None,
            omitted_chars: 0,
            note: None,
        }
    }

    /// The reply to a call with `ready`: a pane, and the result of the wait for the pattern.
    pub fn with_result(self, result: ExpectResult) -> Self {
        let missed = (result.status != ExpectStatus::Matched).then_some(result.status);
        Self {
            cursor: result.cursor,
            ready: missed.is_none(),
            status: missed,
            run_id: result
                .run_id
                .filter(|_| missed == Some(ExpectStatus::Running)),
            matched: result.matched,
            line: result.line,
            exit_code: result.exit_code,
            signal: result.signal,
            output: result.output,
            omitted_chars: result.omitted_chars,
            note: result.note,
            ..self
        }
    }
}
