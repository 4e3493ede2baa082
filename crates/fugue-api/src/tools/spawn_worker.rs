use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    Error, PaneArgument, PaneId, Tool, ToolHints, ToolWait,
    checks::{
        MAX_WAIT_SECS, check_env, check_identifier, check_no_nul, check_not_empty, check_seconds,
    },
    pane_placement::{Backend, RunLayout},
};

/// The limit of a prompt, which is passed as one program argument; Linux refuses arguments of 128 KiB.
const MAX_PROMPT_BYTES: usize = 100_000;

/// Start an agent in a pane with a prompt. It reports by wait_for_event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[serde(deny_unknown_fields)]
pub struct SpawnWorker {
    /// Letters, digits, `-`, `_`, `.`.
    pub name: String,
    /// Its task; for `shell` a command.
    pub prompt: String,
    /// claude, codex, gemini, shell, or one of config.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "clap", arg(long))]
    pub agent: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "clap",
        arg(
            short = 'c',
            long,
            value_name = "DIR",
            help = "Where it works; default here"
        )
    )]
    pub cwd: Option<String>,
    /// A git worktree, on branch fugue/<name>.
    #[serde(default)]
    #[cfg_attr(feature = "clap", arg(long))]
    pub worktree: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "clap", arg(long, help = "The agent's model"))]
    pub model: Option<String>,
    /// More flags for the agent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "clap", arg(last = true, value_name = "ARG"))]
    pub args: Vec<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[cfg_attr(feature = "clap", arg(skip))]
    pub env: BTreeMap<String, String>,
    /// tiled: visible in your session.
    #[serde(default)]
    #[cfg_attr(feature = "clap", arg(skip))]
    pub layout: RunLayout,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "clap",
        arg(long, value_enum, help = "Who has the terminal; default native")
    )]
    pub backend: Option<Backend>,
    /// Then `worker_late` is told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "clap",
        arg(
            long,
            value_name = "SECS",
            help = "Tell of it as late if it has not reported by then"
        )
    )]
    pub deadline_secs: Option<f64>,
}

impl Tool for SpawnWorker {
    const NAME: &'static str = "spawn_worker";
    const VERB: &'static str = "spawn";
    const HINTS: ToolHints = ToolHints::Writes;
    const PANE: PaneArgument<Self> = PaneArgument::None;
    type Reply = SpawnWorkerReply;

    fn check(&self) -> Result<(), Error> {
        check_identifier("name", &self.name)?;
        check_not_empty("prompt", &self.prompt)?;
        check_no_nul("prompt", &self.prompt)?;
        if self.prompt.len() > MAX_PROMPT_BYTES {
            return Err(Error::invalid(format!(
                "prompt: wanted at most {MAX_PROMPT_BYTES} bytes, got {}",
                self.prompt.len()
            ))
            .hint("put it into a file and let the prompt say where that is"));
        }
        if let Some(agent) = &self.agent {
            check_identifier("agent", agent)?;
        }
        if let Some(model) = &self.model {
            check_not_empty("model", model)?;
            check_no_nul("model", model)?;
        }
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
        ToolWait::Short {
            activity: format!("starting worker {}", self.name),
        }
    }

    fn directories(&self) -> Vec<&str> {
        Vec::from_iter(self.cwd.as_deref())
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SpawnWorkerReply {
    /// `<name>-<agent>`.
    pub worker_id: String,
    pub pane_id: PaneId,
    /// Where it reports: your inbox.
    pub session_id: String,
    pub agent: String,
    /// Counts those who have had this id.
    pub instance: u32,
    /// Where it works.
    pub cwd: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
}
