//! The run tools: wait for a pattern, run commands side by side, run them one after the other, pick a run up again.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    Cursor, Error, PaneId, RunId, Timestamp,
    panes::{Backend, filled, good_command, good_env, good_name, is_zero, no_nul, within},
};

// A week. Whoever waits longer wants a schedule.
const LONGEST_MS: u64 = 7 * 24 * 3_600_000;
const MOST_CHARS: u64 = 16_000_000;
/// How many commands may run side by side in one call.
pub const MAX_COMMANDS: usize = 10;
/// How many steps one pipeline may have.
pub const MAX_STEPS: usize = 50;

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

    pub(crate) fn check(&self) -> Result<(), Error> {
        filled("pane_id", &self.pane_id)?;
        if self.pattern.is_empty() {
            return Err(Error::invalid("pattern: is empty, and would match at once"));
        }
        if self.fail_pattern.as_deref() == Some("") {
            return Err(Error::invalid(
                "fail_pattern: is empty, and would match at once",
            ));
        }
        within("timeout_ms", self.timeout_ms, 0, LONGEST_MS)?;
        within(
            "poll_interval_ms",
            u64::from(self.poll_interval_ms),
            10,
            60_000,
        )?;
        within("lines", u64::from(self.lines), 0, 1_000_000)?;
        self.run_id.as_ref().map_or(Ok(()), RunId::check)
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
    #[serde(default, skip_serializing_if = "is_zero")]
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
    #[serde(default = "yes")]
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
    #[serde(default = "max_output_chars")]
    #[schemars(range(min = 1, max = 16_000_000))]
    pub max_output_chars: u32,
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

    pub(crate) fn check(&self) -> Result<(), Error> {
        within(
            "commands",
            self.commands.len() as u64,
            1,
            MAX_COMMANDS as u64,
        )
        .map_err(|error| error.hint("split them over several calls"))?;
        for (index, one) in self.commands.iter().enumerate() {
            let field = |name: &str| format!("commands[{index}].{name}");
            good_command(&field("command"), &one.command)?;
            if let Some(cwd) = &one.cwd {
                filled(&field("cwd"), cwd)?;
                no_nul(&field("cwd"), cwd)?;
            }
            if let Some(name) = &one.name {
                good_name(&field("name"), name)?;
            }
            good_env(&field("env"), &one.env)?;
        }
        different_names((0..self.commands.len()).map(|index| self.name_of(index)))?;
        good_shell(self.shell.as_deref())?;
        within("timeout_ms", self.timeout_ms, 1, LONGEST_MS)?;
        within(
            "max_output_chars",
            u64::from(self.max_output_chars),
            1,
            MOST_CHARS,
        )?;
        self.run_id.as_ref().map_or(Ok(()), RunId::check)
    }
}

// Where panes of a run are put.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum RunLayout {
    /// In a session of their own.
    #[default]
    Hidden,
    /// In the caller's session.
    Tiled,
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
    #[serde(default, skip_serializing_if = "is_zero")]
    pub omitted_chars: u64,
    #[serde(default, skip_serializing_if = "is_zero")]
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

/// Run commands one after the other in one shell (cd, variables carry over), stopping at the first failure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunPipeline {
    #[schemars(length(min = 1, max = 50))]
    pub commands: Vec<PipelineCommand>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Stop at the first failure.
    #[serde(default = "yes")]
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
    #[serde(default = "max_output_chars")]
    #[schemars(range(min = 1, max = 16_000_000))]
    pub max_output_chars: u32,
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

    pub(crate) fn check(&self) -> Result<(), Error> {
        within("commands", self.commands.len() as u64, 1, MAX_STEPS as u64)?;
        for (index, one) in self.commands.iter().enumerate() {
            good_command(&format!("commands[{index}].command"), &one.command)?;
            if let Some(name) = &one.name {
                good_name(&format!("commands[{index}].name"), name)?;
            }
        }
        different_names((0..self.commands.len()).map(|index| self.name_of(index)))?;
        if let Some(cwd) = &self.cwd {
            filled("cwd", cwd)?;
            no_nul("cwd", cwd)?;
        }
        good_shell(self.shell.as_deref())?;
        if let Some(pane) = &self.pane_id {
            filled("pane_id", pane)?;
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
        within("timeout_ms", self.timeout_ms, 1, LONGEST_MS)?;
        within(
            "max_output_chars",
            u64::from(self.max_output_chars),
            1,
            MOST_CHARS,
        )?;
        self.run_id.as_ref().map_or(Ok(()), RunId::check)
    }
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
    #[serde(default, skip_serializing_if = "is_zero")]
    pub omitted_chars: u64,
    #[serde(default, skip_serializing_if = "is_zero")]
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

/// Wait for a run that was answered with `running`, and get its result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WaitForRun {
    /// The run's id.
    pub run_id: RunId,
    /// How long to wait for it; the run's own timeout stays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 604_800_000))]
    pub timeout_ms: Option<u64>,
}

impl WaitForRun {
    pub(crate) fn check(&self) -> Result<(), Error> {
        self.run_id.check()?;
        within("timeout_ms", self.timeout_ms.unwrap_or(0), 0, LONGEST_MS)
    }
}

/// What a run has come to, or has so far.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum RunResult {
    Parallel(ParallelResult),
    Pipeline(PipelineResult),
    Expect(ExpectResult),
}

impl RunResult {
    pub fn is_running(&self) -> bool {
        match self {
            Self::Parallel(result) => result.status == ParallelStatus::Running,
            Self::Pipeline(result) => result.status == PipelineStatus::Running,
            Self::Expect(result) => result.status == ExpectStatus::Running,
        }
    }
}

impl RunResult {
    pub fn run_id(&self) -> &RunId {
        match self {
            Self::Parallel(result) => &result.run_id,
            Self::Pipeline(result) => &result.run_id,
            Self::Expect(result) => &result.run_id,
        }
    }

    /// How far it is, in a few words for a person who waits: `3/10 done · npm test 41s`.
    pub fn progress(&self) -> String {
        let seconds = |ms: u64| format!("{}s", ms / 1000);
        match self {
            Self::Parallel(result) => {
                let all = result.results.len();
                let running = || {
                    let tasks = result.results.iter();
                    tasks.filter(|task| task.status == TaskStatus::Running)
                };
                let done = format!("{}/{all} done", all - running().count());
                // The one that has run longest is the one that is waited for.
                match running().max_by_key(|task| task.duration_ms) {
                    Some(task) => {
                        let ran = seconds(task.duration_ms);
                        format!("{done} · {} {ran}", glance(&task.name, &task.command))
                    }
                    None => done,
                }
            }
            Self::Pipeline(result) => match result.steps.last() {
                Some(step) if step.status == StepStatus::Running => {
                    let ran = seconds(step.duration_ms);
                    let number = result.steps.len();
                    format!(
                        "step {number} · {} {ran}",
                        glance(&step.name, &step.command)
                    )
                }
                Some(_) => format!("{} steps done", result.steps.len()),
                None => "waiting for the shell".to_owned(),
            },
            Self::Expect(result) => {
                let pattern: String = result.pattern.chars().take(40).collect();
                let (pane, waited) = (result.pane_id, seconds(result.duration_ms));
                format!("waiting for /{pattern}/ in {pane} · {waited}")
            }
        }
    }
}

/// A name that was given says more than a command, and a command more than a number.
fn glance(name: &str, command: &str) -> String {
    let numbered = name.strip_prefix("task-").or(name.strip_prefix("step-"));
    let word = if numbered.is_some_and(|number| number.parse::<u32>().is_ok()) {
        command.lines().next().unwrap_or_default()
    } else {
        name
    };
    word.chars()
        .filter(|c| !c.is_control())
        .take(40)
        .collect::<String>()
}

/// A run in an overview.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunRow {
    pub run_id: RunId,
    pub kind: RunKind,
    /// `running`, or how it ended.
    pub status: String,
    /// How far it is.
    pub progress: String,
    pub started_at: Timestamp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum RunKind {
    Expect,
    Parallel,
    Pipeline,
}

fn yes() -> bool {
    true
}

fn max_output_chars() -> u32 {
    10_000
}

fn good_shell(shell: Option<&str>) -> Result<(), Error> {
    let Some(shell) = shell else { return Ok(()) };
    filled("shell", shell)?;
    no_nul("shell", shell)
}

fn different_names(names: impl Iterator<Item = String>) -> Result<(), Error> {
    let mut seen = BTreeSet::new();
    for name in names {
        if let Some(twice) = seen.replace(name) {
            return Err(Error::invalid(format!("commands: two are named `{twice}`"))
                .hint("give each a name of its own, or none"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[track_caller]
    fn check(run: serde_json::Value, says: &str) {
        let run: RunResult = serde_json::from_value(run).unwrap();
        assert_eq!(run.progress(), says);
    }

    #[test]
    fn how_far_a_run_is_reads_well() {
        let task = |name: &str, command: &str, status: &str, ms: u64| {
            json!({"name": name, "command": command, "status": status, "exit_code": null,
                "pane_id": "p1", "duration_ms": ms, "output": ""})
        };
        let parallel = |results: serde_json::Value| json!({"status": "running", "run_id": "r", "results": results, "total_duration_ms": 1});
        check(
            parallel(json!([
                task("task-1", "true", "exited", 5),
                task("task-2", "npm test\nmore", "running", 41_300),
                task("lint", "npm run lint", "running", 9_000),
            ])),
            "1/3 done · npm test 41s",
        );
        check(
            parallel(json!([task("lint", "npm run lint", "running", 9_000)])),
            "0/1 done · lint 9s",
        );
        let step = json!({"name": "build", "command": "make", "exit_code": null, "duration_ms": 12_000,
            "output": "", "status": "running"});
        check(
            json!({"status": "running", "run_id": "r", "pane_id": "p1", "steps": [step], "total_duration_ms": 1}),
            "step 1 · build 12s",
        );
        check(
            json!({"status": "running", "run_id": "r", "pane_id": "p3", "pattern": "ready", "duration_ms": 7_000, "cursor": "0.0.0"}),
            "waiting for /ready/ in p3 · 7s",
        );
    }
}
