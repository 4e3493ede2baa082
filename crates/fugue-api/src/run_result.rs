//! The results of runs, as their tools and `fugue_wait` return them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    RunId, ToolReply,
    tools::{
        ExpectResult, ExpectStatus, ParallelResult, ParallelStatus, PipelineResult, PipelineStatus,
        StepStatus, TaskStatus,
    },
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum RunKind {
    Expect,
    Parallel,
    Pipeline,
}

/// How much output a result contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum OutputAmount {
    /// Short outputs whole, of long ones the last lines, more for failures.
    Tail,
    /// As much as the limit of the reply allows.
    Full,
    None,
}

impl OutputAmount {
    /// The amount of a call. A limit without an amount requests as much as the limit allows.
    pub(crate) fn requested(amount: Option<Self>, limit: Option<u32>) -> Self {
        amount.unwrap_or(match limit {
            Some(_) => Self::Full,
            None => Self::Tail,
        })
    }
}

/// The result of a run, or its current state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum RunResult {
    Parallel(ParallelResult),
    Pipeline(PipelineResult),
    Expect(ExpectResult),
}

impl From<ParallelResult> for RunResult {
    fn from(result: ParallelResult) -> Self {
        Self::Parallel(result)
    }
}

impl From<PipelineResult> for RunResult {
    fn from(result: PipelineResult) -> Self {
        Self::Pipeline(result)
    }
}

impl From<ExpectResult> for RunResult {
    fn from(result: ExpectResult) -> Self {
        Self::Expect(result)
    }
}

impl ToolReply {
    /// The result of the run that the reply is about, if the tool is one for runs.
    pub fn into_run_result(self) -> Option<RunResult> {
        match self {
            Self::RunExpect(result) => Some(result.into()),
            Self::RunParallel(result) => Some(result.into()),
            Self::RunPipeline(result) => Some(result.into()),
            Self::WaitForRun(result) => Some(result),
            Self::CancelRun(reply) => Some(reply.run),
            Self::CreatePane(_)
            | Self::SendInput(_)
            | Self::ReadPane(_)
            | Self::GetStatus(_)
            | Self::ClosePane(_)
            | Self::SpawnWorker(_)
            | Self::WaitForEvent(_)
            | Self::NotifyCompletion(_)
            | Self::SendMessage(_)
            | Self::AskQuestion(_)
            | Self::AnswerQuestion(_)
            | Self::WatchMe(_)
            | Self::LookMa(_)
            | Self::Pause(_)
            | Self::Clear(_) => None,
        }
    }
}

impl RunResult {
    pub fn is_running(&self) -> bool {
        match self {
            Self::Parallel(result) => result.status == ParallelStatus::Running,
            Self::Pipeline(result) => result.status == PipelineStatus::Running,
            Self::Expect(result) => result.status == ExpectStatus::Running,
        }
    }

    /// The id, which a reply for a model leaves out where no call can need it.
    pub fn run_id_mut(&mut self) -> &mut Option<RunId> {
        match self {
            Self::Parallel(result) => &mut result.run_id,
            Self::Pipeline(result) => &mut result.run_id,
            Self::Expect(result) => &mut result.run_id,
        }
    }

    /// A short summary of the progress for people: `3/10 done · npm test 41s`.
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
                // The task that has run longest is shown.
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
                let waited = seconds(result.duration_ms);
                match result.pane_id {
                    Some(pane) => format!("waiting for /{pattern}/ in {pane} · {waited}"),
                    None => format!("waiting for /{pattern}/ · {waited}"),
                }
            }
        }
    }
}

/// The label of a task or step: its name if the caller chose it, else the first line of its command.
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
