//! The stored record of a run: arguments, progress and outcome. Output is not part of the record; it is read from the
//! output logs of the panes for every reply.

use fugue_api::{
    Cursor, PaneId, RunId, Timestamp,
    tools::{
        CreatePane, ExpectAction, ExpectReport, MatchVia, RunExpect, RunParallel, RunPipeline,
    },
    wire::IdempotencyKey,
};
use serde::{Deserialize, Serialize};

use crate::{ExitStatus, InboxId, LaunchEnv, Moment};

/// One run, until it is forgotten.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {
    pub id: RunId,
    /// A counter that is never reused. It names the files of the steps in the pane's directory.
    pub number: u64,
    /// The idempotency key of the call that started the run. The same call made again joins the run.
    pub made_by: IdempotencyKey,
    /// The inbox that gets an event if no call waits when the run ends.
    #[serde(default)]
    pub owner: Option<InboxId>,
    pub started_at: Moment,
    pub work: RunWork,
    /// When the result was fixed. Panes may still have to be closed after that.
    pub settled_at: Option<Moment>,
    /// The result is fixed and all panes that had to be closed are closed.
    pub over: bool,
    /// A reply with the result of the finished run has reached a caller. Until then the output of its panes is kept.
    #[serde(default)]
    pub fetched: bool,
    /// The event about the end was published with a reply, while panes had still to be closed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub announced: bool,
    /// The machine was rebooted while the run was open. Nothing of the run is started again.
    #[serde(default)]
    pub lost_by_reboot: bool,
    /// `cancel_run` has ended the run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cancelled: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunWork {
    Expect(Box<ExpectWork>),
    Parallel(Box<ParallelWork>),
    Pipeline(Box<PipelineWork>),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExpectWork {
    pub args: RunExpect,
    pub pane: PaneId,
    /// Where the search began. `None` until the pane has confirmed the expect.
    pub from: Option<Cursor>,
    pub outcome: Option<ExpectOutcome>,
    /// The start of the pane, if the run has opened the pane.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opening: Option<Box<PaneOpening>>,
}

/// The start of a pane by a `create_pane` call that waits for a pattern.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PaneOpening {
    pub args: CreatePane,
    pub launch_env: LaunchEnv,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExpectOutcome {
    Matched(ExpectMatch),
    /// The fail pattern matched first.
    Failed(ExpectMatch),
    TimedOut,
    Exited(ExitStatus),
    /// The pane was closed during the expect.
    PaneClosed,
    Cancelled,
}

/// A match and its position.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExpectMatch {
    pub text: String,
    pub line: String,
    /// The position after the match.
    #[serde(rename = "behind")]
    pub end: Cursor,
    pub via: MatchVia,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ParallelWork {
    pub args: RunParallel,
    pub tasks: Vec<RunTask>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunTask {
    pub pane: PaneId,
    #[serde(rename = "world")]
    pub launch_env: LaunchEnv,
    pub outcome: Option<TaskOutcome>,
    pub ended_at: Option<Moment>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskOutcome {
    Exited(ExitStatus),
    TimedOut,
    Cancelled,
    NotStarted(String),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PipelineWork {
    pub args: RunPipeline,
    pub pane: PaneId,
    /// The launch environment of the pipeline's own shell. `None` if the steps run in an existing pane.
    #[serde(rename = "world")]
    pub launch_env: Option<LaunchEnv>,
    /// The steps that have begun.
    pub steps: Vec<StepState>,
    /// How many steps had begun when the present shell was started.
    pub fresh_from: usize,
    /// The deadline passed, or the run was cancelled, before the last step ended.
    pub stopping: bool,
    /// The step that ran at that moment has ended.
    pub stopped: bool,
    /// Why the next step did not begin.
    pub trouble: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepState {
    pub began_at: Timestamp,
    /// Where the output of the step begins.
    pub from: Option<Cursor>,
    pub outcome: Option<StepOutcome>,
    pub ended_at: Option<Timestamp>,
    /// Where the output of the step ends.
    pub to: Option<Cursor>,
    pub note: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepOutcome {
    Exited(ExitStatus),
    TimedOut,
    Cancelled,
}

impl RunRecord {
    pub fn timeout_ms(&self) -> u64 {
        match &self.work {
            RunWork::Expect(work) => work.args.timeout_ms,
            RunWork::Parallel(work) => work.args.timeout_ms,
            RunWork::Pipeline(work) => work.args.timeout_ms,
        }
    }

    /// Whether the call that starts the run is answered at once, and the end is an event.
    pub fn reports_by_event(&self) -> bool {
        match &self.work {
            RunWork::Expect(work) => work.args.report == ExpectReport::Event,
            RunWork::Parallel(_) | RunWork::Pipeline(_) => false,
        }
    }

    pub fn is_settled(&self) -> bool {
        self.settled_at.is_some()
    }

    /// The panes whose output is part of the result.
    pub fn panes(&self) -> Vec<PaneId> {
        match &self.work {
            RunWork::Expect(work) => vec![work.pane],
            RunWork::Parallel(work) => work.tasks.iter().map(|task| task.pane).collect(),
            RunWork::Pipeline(work) => vec![work.pane],
        }
    }

    /// The panes that must be closed before the run is over.
    pub fn closes(&self) -> Vec<PaneId> {
        match &self.work {
            RunWork::Expect(work) => {
                let matched = matches!(work.outcome, Some(ExpectOutcome::Matched(_)));
                // A cancelled run leaves a pane that existed before.
                let close = matched && work.args.action == ExpectAction::ClosePane
                    || self.cancelled && work.opening.is_some();
                close.then_some(work.pane).into_iter().collect()
            }
            RunWork::Parallel(work) => work
                .tasks
                .iter()
                .filter(|task| {
                    let is_cancelled = task.outcome == Some(TaskOutcome::Cancelled);
                    work.args.cleanup || self.cancelled || is_cancelled
                })
                .map(|task| task.pane)
                .collect(),
            RunWork::Pipeline(work) => {
                // A cancelled run leaves a pane that existed before.
                let close = work.args.cleanup && (work.launch_env.is_some() || !self.cancelled);
                close.then_some(work.pane).into_iter().collect()
            }
        }
    }
}

impl RunTask {
    pub fn failed(&self) -> bool {
        match &self.outcome {
            None => false,
            Some(TaskOutcome::Exited(exit)) => exit.code() != Some(0),
            Some(TaskOutcome::TimedOut | TaskOutcome::Cancelled | TaskOutcome::NotStarted(_)) => {
                true
            }
        }
    }
}

impl StepState {
    pub fn failed(&self) -> bool {
        match &self.outcome {
            None => false,
            Some(StepOutcome::Exited(exit)) => exit.code() != Some(0),
            Some(StepOutcome::TimedOut) => true,
            Some(StepOutcome::Cancelled) => false,
        }
    }
}

impl PipelineWork {
    /// Whether no further step is to run.
    pub fn is_through(&self) -> bool {
        let open = self.steps.iter().any(|step| step.outcome.is_none());
        let failed = self.args.stop_on_error && self.steps.iter().any(StepState::failed);
        !open && (failed || self.steps.len() == self.args.commands.len())
    }

    /// The step that has begun and not ended.
    pub fn open_step(&mut self) -> Option<&mut StepState> {
        self.steps.last_mut().filter(|step| step.outcome.is_none())
    }
}
