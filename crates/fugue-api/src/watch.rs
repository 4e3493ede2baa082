//! The watcher's tools: an agent is watched, reports, and is kept going until its plan is done.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    Error, PaneId,
    panes::{filled, no_nul},
    team::bounded,
};

/// Be watched: after each look_ma a model ends the work or types the next line into the pane.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WatchMe {
    /// A pane; default your own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tmux_window: Option<String>,
    /// What is to be achieved.
    pub strategy_plan: String,
    /// Command that exits 0 when it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub done_when: Option<String>,
}

impl WatchMe {
    pub(crate) fn check(&self) -> Result<(), Error> {
        filled("strategy_plan", &self.strategy_plan)?;
        bounded("strategy_plan", &self.strategy_plan)?;
        window(self.tmux_window.as_deref())?;
        command("done_when", self.done_when.as_deref())
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WatchMeReply {
    pub ok: bool,
    pub mode: WatchMode,
    pub pane_id: PaneId,
    /// How a person looks at it.
    pub attach_cmd: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum WatchMode {
    Watching,
    /// It was watched before; it goes on with the new plan.
    Updated,
}

/// Report how far you are, then rest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LookMa {
    pub status_report: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tmux_window: Option<String>,
    /// Command to wait for first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bash_wait: Option<String>,
}

impl LookMa {
    pub(crate) fn check(&self) -> Result<(), Error> {
        filled("status_report", &self.status_report)?;
        bounded("status_report", &self.status_report)?;
        window(self.tmux_window.as_deref())?;
        command("bash_wait", self.bash_wait.as_deref())
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LookMaReply {
    pub status: ReportStatus,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub enum ReportStatus {
    #[serde(rename = "recorded+waiting")]
    Waiting,
    /// The watcher is paused, and `watch_me` resumes it.
    #[serde(rename = "recorded+paused")]
    Paused,
}

/// Stop the watcher and say what would come next.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Pause {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tmux_window: Option<String>,
}

impl Pause {
    pub(crate) fn check(&self) -> Result<(), Error> {
        window(self.tmux_window.as_deref())
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PauseReply {
    /// What the model would type next.
    pub injection_prompt: Option<String>,
    /// The plan is done, as far as the model can see.
    pub achieved: bool,
}

/// End the watcher and forget what it knows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Clear {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tmux_window: Option<String>,
}

impl Clear {
    pub(crate) fn check(&self) -> Result<(), Error> {
        window(self.tmux_window.as_deref())
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClearReply {
    pub status: ClearStatus,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum ClearStatus {
    Cleared,
    /// It was not watched.
    Noop,
}

/// A watcher in a list, or of a pane.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WatcherRow {
    pub pane_id: PaneId,
    pub state: WatcherState,
    /// Why it is paused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What was decided last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<String>,
    /// Reports that wait.
    #[serde(default, skip_serializing_if = "crate::panes::is_zero")]
    pub queued: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[schemars(inline)]
pub enum WatcherState {
    /// No report yet.
    Active,
    /// A report came, and its wait goes on.
    Wait,
    /// Until the pane is quiet.
    IdleSpin,
    /// A model decides.
    Assess,
    /// Until the next report.
    Standby,
    Paused,
}

// A shell's text is one argument.
const LONGEST_COMMAND: usize = 8_000;

fn command(field: &str, given: Option<&str>) -> Result<(), Error> {
    let Some(given) = given else { return Ok(()) };
    filled(field, given)?;
    no_nul(field, given)?;
    if given.len() > LONGEST_COMMAND {
        return Err(Error::invalid(format!(
            "{field}: wanted at most {LONGEST_COMMAND} bytes, got {}",
            given.len()
        ))
        .hint("put it into a file and run that"));
    }
    Ok(())
}

fn window(given: Option<&str>) -> Result<(), Error> {
    given.map_or(Ok(()), |window| filled("tmux_window", window))
}
