use clap::ArgAction;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    CallResources, Error, PaneArgument, PaneId, PaneResources, PlacementArguments, RunId, RunReply,
    ShellPurpose, Tool, ToolGroup, ToolHints, ToolWait,
    checks::{
        MAX_OUTPUT_CHARS, MAX_TIMEOUT_MS, check_command, check_distinct_names, check_name,
        check_not_empty, check_optional_text, check_range,
    },
    cli_values,
    pane_placement::{Backend, RunLayout},
    run_result::OutputAmount,
};

/// The limit of steps in one pipeline.
pub const MAX_STEPS: usize = 50;

/// Run commands in order in one shell (cd, variables carry over) until one fails.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct RunPipeline {
    /// 1 to 50 command lines, or objects: name default step-1, …
    #[serde(deserialize_with = "super::command_list::deserialize")]
    #[schemars(schema_with = "super::command_list::schema::<PipelineCommand, MAX_STEPS>")]
    #[arg(value_name = "CMD", help = "Command lines, each quoted as one word")]
    pub commands: Vec<PipelineCommand>,
    /// Default yours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[arg(
        short,
        long,
        value_name = "DIR",
        help = "Working directory; default the current one"
    )]
    pub cwd: Option<String>,
    /// Stop at a failure; default true.
    #[serde(default = "crate::defaults::enabled")]
    #[arg(short = 'k', long = "keep-going", action = ArgAction::SetTrue, value_parser = cli_values::flag(true, false), help = "Continue with the next step after a failure")]
    pub stop_on_error: bool,
    /// Milliseconds, then interrupts; default 600000.
    #[serde(default = "RunPipeline::timeout_ms")]
    #[schemars(range(min = 1, max = 604_800_000))]
    #[arg(long = "timeout", value_name = "TIME", value_parser = cli_values::duration_ms, default_value = "10m", help = "How long all steps may take: `90s`, `10m`, `1h30m`, or a number of seconds; then the running step is interrupted")]
    pub timeout_ms: u64,
    /// Close the pane; default false.
    #[serde(default)]
    #[arg(
        long,
        help = "Close the pane at the end; otherwise it remains as a shell in the state that the steps left"
    )]
    pub cleanup: bool,
    /// Its shell runs them; default a new one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[arg(
        short,
        long = "pane",
        value_name = "PANE",
        help = "Run the steps in the shell of this pane, which must be at its prompt"
    )]
    pub pane_id: Option<String>,
    /// Default hidden.
    #[serde(default)]
    #[arg(long = "tiled", action = ArgAction::SetTrue, value_parser = cli_values::flag(RunLayout::Hidden, RunLayout::Tiled), help = "Open the pane in your own session instead of a hidden one")]
    pub layout: RunLayout,
    /// bash (default), zsh, fish, dash, sh.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[arg(
        long,
        value_name = "SHELL",
        help = "Shell that runs the steps: bash, zsh, fish, dash or sh; default bash, else sh"
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
    /// As in fugue_run_parallel; default tail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[arg(skip)]
    pub output: Option<OutputAmount>,
    /// Of the reply, default 10000. Alone: output full.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 16_000_000))]
    #[arg(skip)]
    pub max_output_chars: Option<u32>,
}

impl RunPipeline {
    pub fn output_amount(&self) -> OutputAmount {
        OutputAmount::requested(self.output, self.max_output_chars)
    }

    /// The limit of the reply in characters.
    pub fn max_reply_chars(&self) -> u32 {
        self.max_output_chars
            .unwrap_or_else(crate::defaults::max_output_chars)
    }

    pub fn timeout_ms() -> u64 {
        600_000
    }

    /// The name of a step by its index.
    pub fn name_of(&self, index: usize) -> String {
        let given = self
            .commands
            .get(index)
            .and_then(|command| command.name.clone());
        given.unwrap_or_else(|| format!("step-{}", index + 1))
    }
}

impl Tool for RunPipeline {
    const NAME: &'static str = "fugue_run_pipeline";
    const VERB: &'static str = "pipeline";
    const GROUP: ToolGroup = ToolGroup::Runs;
    const HINTS: ToolHints = ToolHints::Writes;
    const PANE: PaneArgument<Self> =
        PaneArgument::Optional(|args| &args.pane_id, |args| &mut args.pane_id);
    type Reply = PipelineResult;

    fn check(&self) -> Result<(), Error> {
        check_range("commands", self.commands.len() as u64, 1, MAX_STEPS as u64)?;
        for (index, one) in self.commands.iter().enumerate() {
            check_command(&format!("commands[{index}].command"), &one.command)?;
            if let Some(name) = &one.name {
                check_name(&format!("commands[{index}].name"), name)?;
            }
        }
        check_distinct_names((0..self.commands.len()).map(|index| self.name_of(index)))?;
        check_optional_text("cwd", self.cwd.as_deref())?;
        check_optional_text("shell", self.shell.as_deref())?;
        if let Some(pane) = &self.pane_id {
            check_not_empty("pane_id", pane)?;
            if self.cwd.is_some() {
                return Err(Error::invalid(
                    "cwd: not allowed with `pane_id`, whose shell has its own directory",
                )
                .hint("make `cd` the first step"));
            }
            if self.shell.is_some() {
                return Err(Error::invalid(
                    "shell: not allowed with `pane_id`, which has its own shell",
                ));
            }
        }
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
        if self.pane_id.is_some() {
            return CallResources::None;
        }
        CallResources::Panes {
            panes: vec![PaneResources {
                cwd_field: "cwd".to_owned(),
                cwd: self.cwd.as_deref(),
                env: None,
            }],
            shell: self.shell.as_deref(),
            purpose: ShellPurpose::Steps,
            placement: PlacementArguments::for_run(self.backend, self.layout),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
pub struct PipelineCommand {
    pub command: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// A command line without further settings.
impl From<&str> for PipelineCommand {
    fn from(line: &str) -> Self {
        Self {
            command: line.to_owned(),
            name: None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PipelineResult {
    pub status: PipelineStatus,
    /// `fugue_wait` takes it. Replies to models have none after the end of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<RunId>,
    pub pane_id: PaneId,
    /// The steps that were started.
    pub steps: Vec<StepResult>,
    /// The name of the first failed step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_at: Option<String>,
    pub total_duration_ms: u64,
    /// Lines of the successful steps of a failed pipeline, which have no `output` if they printed much.
    #[serde(default, skip_serializing_if = "crate::checks::is_zero")]
    pub omitted_lines: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum PipelineStatus {
    /// All steps ran.
    Completed,
    Failed,
    Timeout,
    /// Ended by `cancel_run`.
    Cancelled,
    /// The run continues; `fugue_wait` returns its result.
    Running,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct StepResult {
    pub name: String,
    pub command: String,
    /// Null while the step runs, after a timeout or a cancellation, and if a signal ended the step and its shell.
    pub exit_code: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<String>,
    pub duration_ms: u64,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub output: String,
    #[serde(default, skip_serializing_if = "crate::checks::is_zero")]
    pub omitted_chars: u64,
    #[serde(default, skip_serializing_if = "crate::checks::is_zero")]
    pub omitted_lines: u64,
    /// Absent for `exited`.
    #[serde(default, skip_serializing_if = "StepStatus::is_exited")]
    pub status: StepStatus,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Default)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum StepStatus {
    #[default]
    Exited,
    Timeout,
    /// Interrupted by `cancel_run`.
    Cancelled,
    Running,
}

impl StepStatus {
    fn is_exited(&self) -> bool {
        *self == Self::Exited
    }
}
