use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    Error, PaneArgument, PaneId, RunId, Tool, ToolHints, ToolWait,
    checks::{
        MAX_OUTPUT_CHARS, MAX_TIMEOUT_MS, check_command, check_distinct_names, check_env,
        check_name, check_no_nul, check_not_empty, check_optional_text, check_range,
    },
    pane_placement::{Backend, RunLayout},
};

/// The limit of commands in one parallel run.
pub const MAX_COMMANDS: usize = 10;

/// Run 1 to 10 commands side by side; one reply with all exit codes and outputs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunParallel {
    #[schemars(length(min = 1, max = 10))]
    pub commands: Vec<ParallelCommand>,
    /// tiled: visible in your session.
    #[serde(default)]
    pub layout: RunLayout,
    /// Bounds the work.
    #[serde(default = "RunParallel::timeout_ms")]
    #[schemars(range(min = 1, max = 604_800_000))]
    pub timeout_ms: u64,
    /// Close the panes at the end.
    #[serde(default = "crate::defaults::enabled")]
    pub cleanup: bool,
    /// End the others when one fails.
    #[serde(default)]
    pub fail_fast: bool,
    /// Default bash, else sh.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shell: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend: Option<Backend>,
    /// Your own: asked again, the same run is meant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<RunId>,
    /// Shared by all outputs, failures first.
    #[serde(default = "crate::defaults::max_output_chars")]
    #[schemars(range(min = 1, max = 16_000_000))]
    pub max_output_chars: u32,
}

impl RunParallel {
    pub fn timeout_ms() -> u64 {
        300_000
    }

    /// What the nth command (from 0) is called.
    pub fn name_of(&self, index: usize) -> String {
        let given = self
            .commands
            .get(index)
            .and_then(|command| command.name.clone());
        given.unwrap_or_else(|| format!("task-{}", index + 1))
    }
}

impl Tool for RunParallel {
    const NAME: &'static str = "fugue_run_parallel";
    const VERB: &'static str = "parallel";
    const HINTS: ToolHints = ToolHints::Writes;
    const PANE: PaneArgument<Self> = PaneArgument::None;
    type Reply = ParallelResult;

    fn check(&self) -> Result<(), Error> {
        check_range(
            "commands",
            self.commands.len() as u64,
            1,
            MAX_COMMANDS as u64,
        )
        .map_err(|error| error.hint("split them over several calls"))?;
        for (index, one) in self.commands.iter().enumerate() {
            let field = |name: &str| format!("commands[{index}].{name}");
            check_command(&field("command"), &one.command)?;
            if let Some(cwd) = &one.cwd {
                check_not_empty(&field("cwd"), cwd)?;
                check_no_nul(&field("cwd"), cwd)?;
            }
            if let Some(name) = &one.name {
                check_name(&field("name"), name)?;
            }
            check_env(&field("env"), &one.env)?;
        }
        check_distinct_names((0..self.commands.len()).map(|index| self.name_of(index)))?;
        check_optional_text("shell", self.shell.as_deref())?;
        check_range("timeout_ms", self.timeout_ms, 1, MAX_TIMEOUT_MS)?;
        check_range(
            "max_output_chars",
            u64::from(self.max_output_chars),
            1,
            MAX_OUTPUT_CHARS,
        )?;
        self.run_id.as_ref().map_or(Ok(()), RunId::check)
    }

    fn wait(&mut self) -> ToolWait<'_> {
        ToolWait::StartRun {
            run_id: &mut self.run_id,
        }
    }

    fn directories(&self) -> Vec<&str> {
        let commands = self.commands.iter();
        commands
            .filter_map(|command| command.cwd.as_deref())
            .collect()
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
pub struct ParallelCommand {
    pub command: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Default `task-1`, …
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ParallelResult {
    pub status: ParallelStatus,
    pub run_id: RunId,
    pub results: Vec<TaskResult>,
    pub total_duration_ms: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum ParallelStatus {
    /// All ended, whatever their codes.
    Completed,
    /// Some ended before the timeout.
    Partial,
    /// None did.
    Timeout,
    /// They go on; `fugue_wait` picks it up.
    Running,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct TaskResult {
    pub name: String,
    pub command: String,
    pub status: TaskStatus,
    /// Null if it was ended by a signal, or has not ended.
    pub exit_code: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<String>,
    pub pane_id: PaneId,
    pub duration_ms: u64,
    pub output: String,
    #[serde(default, skip_serializing_if = "crate::checks::is_zero")]
    pub omitted_chars: u64,
    #[serde(default, skip_serializing_if = "crate::checks::is_zero")]
    pub omitted_lines: u64,
    /// Why it could not be started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum TaskStatus {
    Exited,
    Timeout,
    /// It could not be started.
    Error,
    /// Another one failed, and `fail_fast` was asked for.
    Cancelled,
    Running,
}
