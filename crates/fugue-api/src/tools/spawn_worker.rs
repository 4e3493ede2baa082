use std::collections::BTreeMap;

use clap::ArgAction;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    CallResources, Error, PaneArgument, PaneId, PlacementArguments, Tool, ToolGroup, ToolHints,
    ToolWait,
    checks::{
        MAX_WAIT_SECS, check_env, check_identifier, check_no_nul, check_optional_text,
        check_seconds, check_text,
    },
    cli_values,
    pane_placement::{Backend, RunLayout},
};

/// The limit of a prompt, which is passed as one program argument; Linux refuses arguments of 128 KiB.
const MAX_PROMPT_BYTES: usize = 100_000;

/// Start a subagent: another agent in its own pane. wait_for_event returns its report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, clap::Args)]
#[serde(deny_unknown_fields)]
pub struct SpawnWorker {
    /// Letters, digits, - _ .
    #[arg(help = "Name of the worker: letters, digits, `-`, `_`, `.`")]
    pub name: String,
    /// Its task; for shell a command.
    #[arg(help = "Task for the agent; for `shell` a command line")]
    pub prompt: String,
    /// claude, codex, gemini, qwen, shell; default the first installed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[arg(long, help = "claude, codex, gemini, qwen, shell, or a configured one")]
    pub agent: Option<String>,
    /// Default yours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[arg(
        short = 'c',
        long,
        value_name = "DIR",
        help = "Working directory; default the current one"
    )]
    pub cwd: Option<String>,
    /// Git worktree on branch fugue/<name>; default false.
    #[serde(default)]
    #[arg(long, help = "Work in a new git worktree on branch fugue/<name>")]
    pub worktree: bool,
    /// Default its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[arg(long, help = "The agent's model")]
    pub model: Option<String>,
    /// More arguments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[arg(
        last = true,
        value_name = "ARG",
        help = "Additional arguments for the agent"
    )]
    pub args: Vec<String>,
    /// Environment.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[arg(skip)]
    pub env: BTreeMap<String, String>,
    /// Default hidden.
    #[serde(default)]
    #[arg(long = "tiled", action = ArgAction::SetTrue, value_parser = cli_values::flag(RunLayout::Hidden, RunLayout::Tiled), help = "Open the pane in your own session instead of a hidden one")]
    pub layout: RunLayout,
    /// Default native.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[arg(
        long,
        value_enum,
        help = "Where the terminals run; default native, and tmux for --tiled inside tmux"
    )]
    pub backend: Option<Backend>,
    /// Seconds before worker_late; default none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[arg(
        long,
        value_name = "SECS",
        help = "Send a `worker_late` event if there is no report after this time, in seconds"
    )]
    pub deadline_secs: Option<f64>,
}

impl Tool for SpawnWorker {
    const NAME: &'static str = "spawn_worker";
    const VERB: &'static str = "spawn";
    const GROUP: ToolGroup = ToolGroup::Team;
    const HINTS: ToolHints = ToolHints::Writes;
    const PANE: PaneArgument<Self> = PaneArgument::None;
    type Reply = SpawnWorkerReply;

    fn check(&self) -> Result<(), Error> {
        check_identifier("name", &self.name)?;
        check_text("prompt", &self.prompt)?;
        if self.prompt.len() > MAX_PROMPT_BYTES {
            return Err(Error::invalid(format!(
                "prompt: wanted at most {MAX_PROMPT_BYTES} bytes, got {}",
                self.prompt.len()
            ))
            .hint("put it into a file and name that file in the prompt"));
        }
        if let Some(agent) = &self.agent {
            check_identifier("agent", agent)?;
        }
        check_optional_text("model", self.model.as_deref())?;
        for one in &self.args {
            check_no_nul("args", one)?;
        }
        check_env("env", &self.env)?;
        match self.deadline_secs {
            Some(secs) => check_seconds("deadline_secs", secs, 7.0 * MAX_WAIT_SECS),
            None => Ok(()),
        }
    }

    fn wait(&mut self) -> ToolWait<'_> {
        ToolWait::short(format!("starting worker {}", self.name))
    }

    fn resources(&self) -> CallResources<'_> {
        CallResources::Worker {
            agent: self.agent.as_deref(),
            cwd: self.cwd.as_deref(),
            placement: PlacementArguments::for_run(self.backend, self.layout),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SpawnWorkerReply {
    /// `<name>-<agent>`.
    pub worker_id: String,
    pub pane_id: PaneId,
    /// The inbox that receives its reports: yours.
    pub session_id: String,
    pub agent: String,
    /// The directory of the worktree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// What is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}
