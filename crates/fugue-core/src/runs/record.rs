//! What the store knows of a run: what was asked, how far it got, how it ended. Outputs are not in it; they are read
//! from the panes' logs whenever somebody wants the result.

use fugue_api::{
    Cursor, PaneId, RunId, Timestamp,
    runs::{ExpectAction, MatchVia, RunExpect, RunParallel, RunPipeline},
    wire::IdempotencyKey,
};
use serde::{Deserialize, Serialize};

use crate::{ExitStatus, InboxId, LaunchEnv, Moment};

/// One run, for as long as anybody may ask about it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {
    pub id: RunId,
    /// Names its steps among a pane's files. Counted, never used twice.
    pub number: u64,
    /// The call that started it: asked again, it is this run that is meant.
    pub made_by: IdempotencyKey,
    /// Who hears of its end if nobody waits for it then.
    #[serde(default)]
    pub owner: Option<InboxId>,
    pub started_at: Moment,
    pub work: RunWork,
    /// When its result was settled; panes may still have to be closed.
    pub settled_at: Option<Moment>,
    /// Nothing is left to do.
    pub over: bool,
    /// Somebody was given the result of the run when it was over. Until then its outputs are kept.
    #[serde(default)]
    pub fetched: bool,
    /// The machine was started again while the run was open: nothing of it is started again.
    #[serde(default)]
    pub lost_by_reboot: bool,
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
    /// Where the search began, once that is known.
    pub from: Option<Cursor>,
    pub outcome: Option<ExpectOutcome>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExpectOutcome {
    Matched(ExpectMatch),
    /// The fail pattern came first.
    Failed(ExpectMatch),
    TimedOut,
    Exited(ExitStatus),
    /// Somebody closed the pane meanwhile.
    PaneClosed,
}

/// A match, and where it was.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExpectMatch {
    pub text: String,
    pub line: String,
    /// Just behind it.
    pub behind: Cursor,
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
    pub world: LaunchEnv,
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
    /// Of a shell of the pipeline's own; `None`: the steps run in a pane that was there before.
    pub world: Option<LaunchEnv>,
    /// Those that were reached.
    pub steps: Vec<StepState>,
    /// How many had been reached when the shell of now was started.
    pub fresh_from: usize,
    /// The time was over before the steps were.
    pub stopping: bool,
    /// The step that ran then is known to have been interrupted.
    pub stopped: bool,
    /// What kept the next step from being reached.
    pub trouble: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepState {
    pub began_at: Timestamp,
    /// Where its output begins.
    pub from: Option<Cursor>,
    pub outcome: Option<StepOutcome>,
    pub ended_at: Option<Timestamp>,
    /// Where its output ends.
    pub to: Option<Cursor>,
    pub note: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepOutcome {
    Exited(ExitStatus),
    TimedOut,
}

impl RunRecord {
    pub fn timeout_ms(&self) -> u64 {
        match &self.work {
            RunWork::Expect(work) => work.args.timeout_ms,
            RunWork::Parallel(work) => work.args.timeout_ms,
            RunWork::Pipeline(work) => work.args.timeout_ms,
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

    /// The panes that are to be closed before the run is over.
    pub fn closes(&self) -> Vec<PaneId> {
        match &self.work {
            RunWork::Expect(work) => {
                let matched = matches!(work.outcome, Some(ExpectOutcome::Matched(_)));
                let close = matched && work.args.action == ExpectAction::ClosePane;
                close.then_some(work.pane).into_iter().collect()
            }
            RunWork::Parallel(work) => work
                .tasks
                .iter()
                .filter(|task| work.args.cleanup || task.outcome == Some(TaskOutcome::Cancelled))
                .map(|task| task.pane)
                .collect(),
            RunWork::Pipeline(work) => work.args.cleanup.then_some(work.pane).into_iter().collect(),
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
        }
    }
}

impl PipelineWork {
    /// Nothing more is to be run.
    pub fn is_through(&self) -> bool {
        let open = self.steps.iter().any(|step| step.outcome.is_none());
        let failed = self.args.stop_on_error && self.steps.iter().any(StepState::failed);
        !open && (failed || self.steps.len() == self.args.commands.len())
    }

    /// The step that runs now.
    pub fn open_step(&mut self) -> Option<&mut StepState> {
        self.steps.last_mut().filter(|step| step.outcome.is_none())
    }
}
