//! The effects of a step.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use fugue_api::{
    Cursor, Error, EventId, PaneId, RunId, Timestamp, ToolReply,
    overview::Overview,
    pane_state::SourcedState,
    run_result::RunResult,
    tools::{CreatePaneReply, PaneSize},
    wire::{CallerEnv, Response},
    worktree::WorktreeRequest,
};

use crate::{
    AdoptMode, CallId, Change, CheckResult, ExpectRequest, Inventory, LaunchEnv, LongMessage,
    PaneActivity, PaneJob, PaneRecord, PaneRequest, StepPlan, TurnEnd, WorkerRecord, WorkerRepo,
    assess::{Injection, Transcript, WatchSettings},
    view::TextAmount,
};

/// The effects of a step: effects to perform at once, in order, and at most one commit with the effects that wait for it.
#[derive(Debug, Default)]
pub struct StepEffects {
    pub effects: Vec<Effect>,
    pub commit: Option<StepCommit>,
}

/// All changes of one step, stored together, and the effects that are performed once these changes and all earlier commits
/// are on disk.
#[derive(Debug, Default)]
pub struct StepCommit {
    /// Empty in a commit that only waits for the earlier ones.
    pub changes: Vec<Change>,
    /// Returned as [`crate::CoreInput::NotStored`] if the changes cannot be stored. A commit without an undo is retried.
    pub undo: Option<Undo>,
    pub then: Vec<AfterCommit>,
}

impl StepCommit {
    /// Adds an effect that waits until the commit is stored.
    pub fn then(&mut self, effect: AfterCommit) -> &mut Self {
        self.then.push(effect);
        self
    }

    /// Answers a call once the commit is stored.
    pub fn reply(&mut self, call: CallId, answer: Result<Response, Error>) -> &mut Self {
        self.then(AfterCommit::Reply { call, answer })
    }

    /// Has the start of something undone if the commit cannot be stored.
    pub fn or_undo(&mut self, undo: Undo) -> &mut Self {
        self.undo = Some(match self.undo.take() {
            Some(known) => Undo::Both(Box::new((known, undo))),
            None => undo,
        });
        self
    }
}

/// An effect that waits for no commit: no stored record is reported, and no recorded process started.
#[derive(Debug)]
pub enum Effect {
    /// A refusal, or a reply about live state that claims nothing about stored records.
    Reply {
        call: CallId,
        answer: Result<Response, Error>,
    },
    /// Collect the changed files of a worker's repository and the end of the worker's output.
    CollectChanges {
        worker: u64,
        repo: Option<WorkerRepo>,
        /// A message to be kept whole in a file of the worker.
        message: Option<LongMessage>,
        tail: Option<Box<PaneRecord>>,
    },
    /// Report when something may be typed into an agent's pane.
    AwaitIdle {
        pane: PaneId,
        turn_end: TurnEnd,
    },
    /// Report when nothing was printed for `quiet` and no attention request is open, with the last `lines` lines.
    AwaitQuiet {
        pane: PaneId,
        watcher: u64,
        step: u64,
        quiet: Duration,
        lines: usize,
    },
    CancelQuiet {
        pane: PaneId,
        watcher: u64,
    },
    /// Resize a terminal to its tile.
    ResizePane {
        pane: PaneId,
        size: PaneSize,
    },
    /// Show an agent's attention request to the viewers of its pane.
    ShowAgentState {
        pane: PaneId,
        agent_state: Option<SourcedState>,
    },
    /// Find the holder of a recorded pane again, or the files and processes that the holder left.
    AdoptPane(Box<PaneAdoption>),
    AskPane {
        call: CallId,
        pane: PaneId,
        request: PaneRequest,
    },
    /// The same request for a pane without a task, answered from the pane's files.
    AskArchive {
        call: CallId,
        record: Box<PaneRecord>,
        request: PaneRequest,
    },
    /// List unneeded files in the state directory, and answer.
    ListGarbage {
        call: CallId,
        inventory: Inventory,
    },
    /// List, compare or remove worktrees of workers, and answer. `live` are the workers that run.
    Worktrees {
        call: CallId,
        request: WorktreeRequest,
        live: BTreeSet<u64>,
    },
    /// Complete the rows of live panes and answer.
    CompleteOverview {
        call: CallId,
        overview: Overview,
        live: Vec<PaneId>,
        bounded: bool,
    },
    /// Close a pane for a `close_pane` call. On a full disk people close panes to make room, so this effect waits for no
    /// commit.
    ClosePane {
        pane: PaneId,
        grace: Duration,
    },
    /// End the processes that an ended pane has left.
    EndProcesses {
        pane: PaneId,
        grace: Duration,
    },
    CancelExpect {
        pane: PaneId,
        run: RunId,
    },
    /// Interrupt the running step and start no other.
    StopSteps {
        pane: PaneId,
        plan: u64,
    },
}

/// An effect that needs a stored record. Only a [`StepCommit`] carries such effects.
#[derive(Debug)]
pub enum AfterCommit {
    Reply {
        call: CallId,
        answer: Result<Response, Error>,
    },
    /// Answer with an event that is leased to the call until its client acknowledges the reply.
    Deliver {
        call: CallId,
        answer: Result<Response, Error>,
        event: EventId,
    },
    /// Create the files of a worker before its start. Existing files are not changed.
    PrepareWorker {
        worker: Box<WorkerRecord>,
        caller: Arc<CallerEnv>,
    },
    /// Remove the prepared files.
    UnprepareWorker {
        worker: Box<WorkerRecord>,
        error: Error,
    },
    /// Type a message and press Enter, unless the agent is no longer idle.
    TypeMessage {
        pane: PaneId,
        event: EventId,
        text: String,
    },
    /// Run a command for a watcher, and report the outcome.
    RunWatcherCommand {
        watcher: u64,
        step: u64,
        command: String,
        cwd: PathBuf,
        caller: Arc<CallerEnv>,
        limit: Duration,
    },
    /// Send a prompt to an assessor.
    Assess {
        job: Box<AssessmentJob>,
        caller: Arc<CallerEnv>,
    },
    /// End a watcher's command or assessment whose result is no longer needed.
    CancelWatcherJob { watcher: u64 },
    /// Type a line, if nothing has happened in the pane since `seen`.
    Inject {
        pane: PaneId,
        watcher: u64,
        step: u64,
        line: Injection,
        enter: bool,
        seen: PaneActivity,
    },
    /// Remove a worker's private files.
    RemoveWorkerFiles { worker: Box<WorkerRecord> },
    OpenPane {
        record: Box<PaneRecord>,
        job: PaneJob,
        env: BTreeMap<String, String>,
        launch_env: LaunchEnv,
        caller: Arc<CallerEnv>,
    },
    /// Adopt a pane of tmux that this commit records.
    AdoptPane(Box<PaneAdoption>),
    /// A request to a pane that this commit records.
    AskPane {
        call: CallId,
        pane: PaneId,
        request: PaneRequest,
    },
    /// Remove unneeded files in the state directory, and answer.
    CollectGarbage { call: CallId, inventory: Inventory },
    /// Remove the directory of a forgotten pane, and report [`crate::PaneEvent::Removed`].
    RemovePaneDir { pane: PaneId },
    /// Close a pane for a run whose outcome this commit stores: a later daemon must not take the end of the process for
    /// the outcome.
    ClosePane { pane: PaneId, grace: Duration },
    /// The same for a pane that has ended and may have left processes.
    EndProcesses { pane: PaneId, grace: Duration },
    StartExpect {
        pane: PaneId,
        expect: Box<ExpectRequest>,
    },
    /// The same in a pane that has ended.
    SearchArchive {
        record: Box<PaneRecord>,
        expect: Box<ExpectRequest>,
    },
    /// Give steps to a shell that runs.
    RunSteps { pane: PaneId, plan: StepPlan },
    /// Answer with the result of a run that needs no output of panes, and report [`crate::CoreInput::ReplyComposed`].
    /// `event` is leased to the call until the client acks it.
    ReplyResult {
        call: CallId,
        run: RunId,
        event: Option<EventId>,
        answer: Result<Response, Error>,
    },
    /// Complete a run's result with the output of its panes, and answer. `parts` has the order of the result's tasks or
    /// steps.
    ComposeReply {
        call: CallId,
        run: RunId,
        event: Option<EventId>,
        wrap: ReplyFormat,
        result: Box<RunResult>,
        parts: Vec<Option<OutputPart>>,
        most_chars: usize,
    },
}

impl Effect {
    /// The call that is answered by the effect or by its result.
    pub fn call(&self) -> Option<CallId> {
        match self {
            Self::Reply { call, .. }
            | Self::AskPane { call, .. }
            | Self::AskArchive { call, .. }
            | Self::ListGarbage { call, .. }
            | Self::Worktrees { call, .. }
            | Self::CompleteOverview { call, .. } => Some(*call),
            Self::CollectChanges { .. }
            | Self::AwaitIdle { .. }
            | Self::AwaitQuiet { .. }
            | Self::CancelQuiet { .. }
            | Self::ResizePane { .. }
            | Self::ShowAgentState { .. }
            | Self::AdoptPane(_)
            | Self::ClosePane { .. }
            | Self::EndProcesses { .. }
            | Self::CancelExpect { .. }
            | Self::StopSteps { .. } => None,
        }
    }
}

impl AfterCommit {
    /// The call that is answered by the effect or by its result, if that is one call.
    pub fn call(&self) -> Option<CallId> {
        match self {
            Self::Reply { call, .. }
            | Self::Deliver { call, .. }
            | Self::AskPane { call, .. }
            | Self::CollectGarbage { call, .. }
            | Self::ReplyResult { call, .. }
            | Self::ComposeReply { call, .. } => Some(*call),
            Self::PrepareWorker { .. }
            | Self::UnprepareWorker { .. }
            | Self::TypeMessage { .. }
            | Self::RunWatcherCommand { .. }
            | Self::Assess { .. }
            | Self::CancelWatcherJob { .. }
            | Self::Inject { .. }
            | Self::RemoveWorkerFiles { .. }
            | Self::OpenPane { .. }
            | Self::AdoptPane(_)
            | Self::RemovePaneDir { .. }
            | Self::ClosePane { .. }
            | Self::EndProcesses { .. }
            | Self::StartExpect { .. }
            | Self::SearchArchive { .. }
            | Self::RunSteps { .. } => None,
        }
    }

    /// Answers a call with the reply of its tool.
    pub(crate) fn tool_reply(call: CallId, reply: ToolReply) -> Self {
        let answer = Ok(Response::Tool { reply });
        Self::Reply { call, answer }
    }
}

/// A pane whose task is started again.
#[derive(Debug)]
pub struct PaneAdoption {
    pub record: PaneRecord,
    /// The steps of the pane's shell, whose progress is read from the step log.
    pub steps: Option<StepPlan>,
    pub how: AdoptMode,
}

/// The start that is undone when its commit could not be stored.
#[derive(Clone, Debug, PartialEq)]
pub enum Undo {
    Pane(PaneId),
    Run(RunId),
    Worker(u64),
    Both(Box<(Undo, Undo)>),
}

/// The tool whose reply is composed.
#[derive(Clone, Debug, PartialEq)]
pub enum ReplyFormat {
    /// The tool that started the run.
    Own,
    /// `create_pane`, with the reply that the result completes.
    NewPane(Box<CreatePaneReply>),
    /// `fugue_wait`.
    Wait,
    /// `cancel_run`. `already_ended`: the result was fixed before the call.
    Cancel { already_ended: bool },
}

/// A part of a result that is read from a pane or from its output log.
#[derive(Clone, Debug)]
pub struct OutputPart {
    pub record: Box<PaneRecord>,
    pub want: OutputRange,
}

#[derive(Clone, Debug, PartialEq)]
pub enum OutputRange {
    /// The text between two positions, each of which may be open.
    Text {
        from: Option<Cursor>,
        to: Option<Cursor>,
        amount: TextAmount,
    },
    /// Only the present end of the text.
    End,
}

/// The kind of an assessment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AssessmentKind {
    Decide,
    NextStep,
}

/// The input of an assessment.
#[derive(Clone, Debug)]
pub struct AssessmentJob {
    pub watcher: u64,
    pub step: u64,
    pub judge: AssessmentKind,
    pub settings: WatchSettings,
    pub transcript: Transcript,
    pub wait_output: Option<String>,
    pub pane_tail: String,
    pub done_when: Option<String>,
    pub verdict: Option<CheckResult>,
    pub now: Timestamp,
}
