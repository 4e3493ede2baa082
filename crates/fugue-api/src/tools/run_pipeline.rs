use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    Error, PaneArgument, PaneId, RunId, Tool, ToolHints, ToolWait,
    checks::{
        MAX_OUTPUT_CHARS, MAX_TIMEOUT_MS, check_command, check_distinct_names, check_name,
        check_no_nul, check_not_empty, check_optional_text, check_range,
    },
    pane_placement::{Backend, RunLayout},
};

/// The limit of steps in one pipeline.
pub const MAX_STEPS: usize = 50;

/// Run commands one after the other in one shell (cd, variables carry over), stopping at the first failure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunPipeline {
    #[schemars(length(min = 1, max = 50))]
    pub commands: Vec<PipelineCommand>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Stop at the first failure.
    #[serde(default = "crate::defaults::enabled")]
    pub stop_on_error: bool,
    /// For all steps together.
    #[serde(default = "RunPipeline::timeout_ms")]
    #[schemars(range(min = 1, max = 604_800_000))]
    pub timeout_ms: u64,
    /// Close the pane at the end.
    #[serde(default)]
    pub cleanup: bool,
    /// Run in this pane's shell, at its prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pane_id: Option<String>,
    #[serde(default)]
    pub layout: RunLayout,
    /// bash, zsh, fish, dash.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shell: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend: Option<Backend>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<RunId>,
    #[serde(default = "crate::defaults::max_output_chars")]
    #[schemars(range(min = 1, max = 16_000_000))]
    pub max_output_chars: u32,
}

impl RunPipeline {
    pub fn timeout_ms() -> u64 {
        600_000
    }

    /// What the nth step (from 0) is called.
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
        if let Some(cwd) = &self.cwd {
            check_not_empty("cwd", cwd)?;
            check_no_nul("cwd", cwd)?;
        }
        check_optional_text("shell", self.shell.as_deref())?;
        if let Some(pane) = &self.pane_id {
            check_not_empty("pane_id", pane)?;
            if self.cwd.is_some() {
                return Err(Error::invalid(
                    "cwd: the shell of `pane_id` is where it is; left out with `pane_id`",
                )
                .hint("make `cd` the first step"));
            }
            if self.shell.is_some() {
                return Err(Error::invalid(
                    "shell: `pane_id` has its own; left out with `pane_id`",
                ));
            }
        }
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
        Vec::from_iter(self.cwd.as_deref())
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
pub struct PipelineCommand {
    pub command: String,
    /// Default `step-1`, …
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PipelineResult {
    pub status: PipelineStatus,
    pub run_id: RunId,
    pub pane_id: PaneId,
    /// Those that were reached.
    pub steps: Vec<StepResult>,
    /// The first step that failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_at: Option<String>,
    pub total_duration_ms: u64,
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
    /// It goes on; `fugue_wait` picks it up.
    Running,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct StepResult {
    pub name: String,
    pub command: String,
    /// Null while it runs, and if it was cut off or ended by a signal together with its shell.
    pub exit_code: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<String>,
    pub duration_ms: u64,
    pub output: String,
    #[serde(default, skip_serializing_if = "crate::checks::is_zero")]
    pub omitted_chars: u64,
    #[serde(default, skip_serializing_if = "crate::checks::is_zero")]
    pub omitted_lines: u64,
    pub status: StepStatus,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum StepStatus {
    Exited,
    Timeout,
    Running,
}
