use std::collections::BTreeMap;

use clap::ArgAction;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    CallResources, Error, PaneArgument, PaneId, PaneResources, PlacementArguments, RunId, RunReply,
    ShellPurpose, Tool, ToolGroup, ToolHints, ToolWait,
    checks::{
        MAX_OUTPUT_CHARS, MAX_TIMEOUT_MS, check_command, check_distinct_names, check_env,
        check_name, check_optional_text, check_range,
    },
    cli_values,
    pane_placement::{Backend, RunLayout},
    run_result::OutputAmount,
};

/// The limit of commands in one parallel run.
pub const MAX_COMMANDS: usize = 10;

/// Run 1 to 10 commands at once (tests, builds); returns exit codes and outputs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct RunParallel {
    /// Command lines, or objects: cwd default yours, name task-1, …
    #[serde(deserialize_with = "super::command_list::deserialize")]
    #[schemars(schema_with = "super::command_list::schema::<ParallelCommand, MAX_COMMANDS>")]
    #[arg(value_name = "CMD", help = "Command lines, each quoted as one word")]
    pub commands: Vec<ParallelCommand>,
    /// Default hidden; tiled: visible.
    #[serde(default)]
    #[arg(long = "tiled", action = ArgAction::SetTrue, value_parser = cli_values::flag(RunLayout::Hidden, RunLayout::Tiled), help = "Open the panes in your own session instead of a hidden one")]
    pub layout: RunLayout,
    /// Milliseconds; default 300000. cleanup then kills.
    #[serde(default = "RunParallel::timeout_ms")]
    #[schemars(range(min = 1, max = 604_800_000))]
    #[arg(long = "timeout", value_name = "TIME", value_parser = cli_values::duration_ms, default_value = "5m", help = "How long to wait: `90s`, `5m`, `1h30m`, or a number of seconds; then running commands are ended, unless --keep")]
    pub timeout_ms: u64,
    /// Close the panes; default true.
    #[serde(default = "crate::defaults::enabled")]
    #[arg(long = "keep", action = ArgAction::SetTrue, value_parser = cli_values::flag(true, false), help = "Keep the panes open at the end")]
    pub cleanup: bool,
    /// Cancel the rest at a failure; default false.
    #[serde(default)]
    #[arg(long, help = "Cancel the others when one fails")]
    pub fail_fast: bool,
    /// Default bash, else sh.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[arg(
        long,
        value_name = "SHELL",
        help = "Shell that runs the commands; default bash, else sh"
    )]
    pub shell: Option<String>,
    /// Default native.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[arg(
        long,
        value_enum,
        help = "Where the terminals run; default native, and tmux for --tiled inside tmux"
    )]
    pub backend: Option<Backend>,
    /// Makes repeats safe.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[arg(skip)]
    pub run_id: Option<RunId>,
    /// Default tail: 120 characters of a success, 700 of a failure, whole lines: the last, and errors. read_pane has the rest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[arg(skip)]
    pub output: Option<OutputAmount>,
    /// Of the reply, default 10000. Alone: output full.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 16_000_000))]
    #[arg(skip)]
    pub max_output_chars: Option<u32>,
}

impl RunParallel {
    pub fn output_amount(&self) -> OutputAmount {
        OutputAmount::requested(self.output, self.max_output_chars)
    }

    /// The limit of the reply in characters.
    pub fn max_reply_chars(&self) -> u32 {
        self.max_output_chars
            .unwrap_or_else(crate::defaults::max_output_chars)
    }

    pub fn timeout_ms() -> u64 {
        300_000
    }

    /// The name of a command by its index.
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
    const GROUP: ToolGroup = ToolGroup::Runs;
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
            check_optional_text(&field("cwd"), one.cwd.as_deref())?;
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
            u64::from(self.max_reply_chars()),
            1,
            MAX_OUTPUT_CHARS,
        )?;
        self.run_id.as_ref().map_or(Ok(()), RunId::check)
    }

    fn wait(&mut self) -> ToolWait<'_> {
        ToolWait::StartRun {
            run_id: &mut self.run_id,
            reply: RunReply::Result,
        }
    }

    fn resources(&self) -> CallResources<'_> {
        CallResources::Panes {
            panes: self
                .commands
                .iter()
                .enumerate()
                .map(|(index, command)| PaneResources {
                    cwd_field: format!("commands[{index}].cwd"),
                    cwd: command.cwd.as_deref(),
                    env: Some(&command.env),
                })
                .collect(),
            shell: self.shell.as_deref(),
            purpose: ShellPurpose::Command,
            placement: PlacementArguments::for_run(self.backend, self.layout),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
pub struct ParallelCommand {
    pub command: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
}

/// A command line without further settings.
impl From<&str> for ParallelCommand {
    fn from(line: &str) -> Self {
        Self {
            command: line.to_owned(),
            cwd: None,
            name: None,
            env: BTreeMap::new(),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ParallelResult {
    pub status: ParallelStatus,
    /// `fugue_wait` takes it. Replies to models have none after the end of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<RunId>,
    /// Number of commands that did not exit with 0; absent for none.
    #[serde(default, skip_serializing_if = "crate::checks::is_zero")]
    pub failed: u64,
    pub results: Vec<TaskResult>,
    pub total_duration_ms: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum ParallelStatus {
    /// All commands ended, with any exit codes.
    Completed,
    /// Some commands ended before the timeout.
    Partial,
    /// No command ended before the timeout.
    Timeout,
    /// Ended by `cancel_run`.
    Cancelled,
    /// The run continues; `fugue_wait` returns its result.
    Running,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct TaskResult {
    pub name: String,
    pub command: String,
    /// Absent for `exited`.
    #[serde(default, skip_serializing_if = "TaskStatus::is_exited")]
    pub status: TaskStatus,
    /// Null after a signal, and while the command runs.
    pub exit_code: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<String>,
    pub pane_id: PaneId,
    pub duration_ms: u64,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub output: String,
    #[serde(default, skip_serializing_if = "crate::checks::is_zero")]
    pub omitted_chars: u64,
    #[serde(default, skip_serializing_if = "crate::checks::is_zero")]
    pub omitted_lines: u64,
    /// Why the command could not be started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Default)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum TaskStatus {
    #[default]
    Exited,
    Timeout,
    /// The command could not be started.
    Error,
    /// Ended by `fail_fast` after another command failed, or by `cancel_run`.
    Cancelled,
    Running,
}

impl TaskResult {
    /// Whether the command has ended in another way than with exit code 0.
    pub fn is_failure(&self) -> bool {
        self.status != TaskStatus::Running && self.exit_code != Some(0)
    }
}

impl TaskStatus {
    fn is_exited(&self) -> bool {
        *self == Self::Exited
    }
}
