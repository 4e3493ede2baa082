//! What core wants done.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc, time::Duration};

use fugue_api::{
    Cursor, Error, EventId, PaneId, RunId, Timestamp,
    panes::{Overview, PaneSize, SourcedState},
    runs::RunResult,
    wire::{CallerEnv, Response},
};

use crate::{
    AdoptMode, CallId, Change, CheckResult, ExpectRequest, Inventory, LaunchEnv, PaneActivity,
    PaneJob, PaneRecord, PaneRequest, StepPlan, TurnEnd, WorkerRecord, WorkerRepo,
    assess::{Injection, Transcript, WatchSettings},
};

/// What core wants done. Effects of one step are performed in order; those behind a [`Effect::Commit`] only once
/// it is on disk.
#[derive(Debug)]
pub enum Effect {
    Answer {
        call: CallId,
        answer: Result<Response, Error>,
    },
    /// The same, with an event that is taken only once it has arrived.
    Hand {
        call: CallId,
        answer: Result<Response, Error>,
        event: EventId,
    },
    Commit {
        changes: Vec<Change>,
        undo: Option<Undo>,
    },
    /// Make what a worker needs before it can be started. Done before, it is left as it is.
    Prepare {
        worker: Box<WorkerRecord>,
        caller: Arc<CallerEnv>,
    },
    /// Remove it again.
    Unprepare {
        worker: Box<WorkerRecord>,
        error: Error,
    },
    /// Find out what has changed in a worker's repository, and what it printed last.
    WorkOut {
        worker: u64,
        repo: Option<WorkerRepo>,
        tail: Option<Box<PaneRecord>>,
    },
    /// Say when something may be typed into an agent's pane.
    AwaitRest {
        pane: PaneId,
        over: TurnEnd,
    },
    /// Type it and press Enter, unless the agent is no longer at rest.
    TypeMessage {
        pane: PaneId,
        event: EventId,
        text: String,
    },
    /// Run a command for a watcher, and say how it ended.
    RunForWatcher {
        watcher: u64,
        step: u64,
        command: String,
        cwd: PathBuf,
        caller: Arc<CallerEnv>,
        limit: Duration,
    },
    /// Say when nothing was printed for so long and nobody is waited for, and what stands there then.
    AwaitQuiet {
        pane: PaneId,
        watcher: u64,
        step: u64,
        quiet: Duration,
        lines: usize,
    },
    ForgetQuiet {
        pane: PaneId,
        watcher: u64,
    },
    /// A terminal is to have this size, because of how it is looked at.
    Fit {
        pane: PaneId,
        size: PaneSize,
    },
    /// What an agent says of itself, to be shown to those who look at it.
    AgentSays {
        pane: PaneId,
        says: Option<SourcedState>,
    },
    /// Ask a model.
    Judge {
        job: Box<AssessmentJob>,
        caller: Arc<CallerEnv>,
    },
    /// End a watcher's command or question; nobody wants the answer.
    StopJudging {
        watcher: u64,
    },
    /// Type a line, if nothing has happened in the pane since it was seen.
    Inject {
        pane: PaneId,
        watcher: u64,
        step: u64,
        line: Injection,
        enter: bool,
        seen: PaneActivity,
    },
    /// Remove a worker's private files.
    ForgetWorker {
        worker: Box<WorkerRecord>,
    },
    Open {
        record: Box<PaneRecord>,
        job: PaneJob,
        env: BTreeMap<String, String>,
        world: LaunchEnv,
        caller: Arc<CallerEnv>,
    },
    /// Find a pane's holder again, or what it left behind, and how far its shell is with the steps it was given.
    Adopt {
        record: Box<PaneRecord>,
        steps: Option<StepPlan>,
        how: AdoptMode,
    },
    Ask {
        call: CallId,
        pane: PaneId,
        question: PaneRequest,
    },
    /// The same question, of a pane that has no task any more: its files answer.
    AskArchive {
        call: CallId,
        record: Box<PaneRecord>,
        question: PaneRequest,
    },
    /// Find what nothing needs in the state directory, remove it unless it is a dry run, and answer.
    CollectGarbage {
        call: CallId,
        inventory: Inventory,
        dry_run: bool,
    },
    /// Complete the rows of live panes and answer.
    Survey {
        call: CallId,
        overview: Overview,
        live: Vec<PaneId>,
        bounded: bool,
    },
    Close {
        pane: PaneId,
        grace: Duration,
    },
    /// End whatever an ended pane has left running.
    Sweep {
        pane: PaneId,
        grace: Duration,
    },
    /// Remove the directory of a pane that is forgotten, and say [`PaneFact::Removed`].
    Forget {
        pane: PaneId,
    },
    Watch {
        pane: PaneId,
        watch: Box<ExpectRequest>,
    },
    /// The same in a pane that has ended.
    WatchArchive {
        record: Box<PaneRecord>,
        watch: Box<ExpectRequest>,
    },
    Unwatch {
        pane: PaneId,
        run: RunId,
    },
    /// Give steps to a shell that is there.
    RunSteps {
        pane: PaneId,
        plan: StepPlan,
    },
    /// Interrupt the step that runs, and start no other.
    StopSteps {
        pane: PaneId,
        plan: u64,
    },
    /// Complete a run's result with what its panes printed, and answer. `parts` are in the order of the result's own.
    Compose {
        call: CallId,
        run: RunId,
        wrap: ReplyFormat,
        result: Box<RunResult>,
        parts: Vec<Option<OutputPart>>,
        most_chars: usize,
    },
    /// Hand in [`CoreInput::Time`] when the boot clock has come to this.
    WakeAt(Duration),
}

/// What is undone when it could not be recorded.
#[derive(Clone, Debug, PartialEq)]
pub enum Undo {
    Pane(PaneId),
    Run(RunId),
    Worker(u64),
    Both(Box<(Undo, Undo)>),
}

/// Whose reply is composed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyFormat {
    /// The tool's that started the run.
    Own,
    /// That of `fugue_wait`.
    Wait,
}

/// A piece of a result that only a pane or its files know.
#[derive(Clone, Debug)]
pub struct OutputPart {
    pub record: Box<PaneRecord>,
    pub want: OutputRange,
}

#[derive(Clone, Debug, PartialEq)]
pub enum OutputRange {
    /// The text of a stretch; without ends, all there is.
    Text {
        from: Option<Cursor>,
        to: Option<Cursor>,
    },
    /// Only where the text ends now.
    End,
}

/// What a model is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AssessmentKind {
    Decide,
    NextStep,
}

/// A question to a model, with all that it is about.
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
