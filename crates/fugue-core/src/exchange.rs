//! What goes into core and what comes out of it, in plain data.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc, time::Duration};

use fugue_api::{
    Cursor, Error, EventId, PaneId, QuestionId, RunId, SessionName, Timestamp,
    attach::{ClientId, ViewerRole},
    overview::Overview,
    pane_state::{SourcedState, StateSource},
    run_result::RunResult,
    tools::{PaneSize, PaneStatus, ReadPane, SendInput},
    wire::{CallerEnv, CallerIdentity, IdempotencyKey, Request, Response},
};
use serde::{Deserialize, Serialize};

use crate::{
    CheckResult, EventRecord, ExitStatus, ExpectMatch, IdleState, Inventory, LayoutRecord,
    PaneRecord, QuestionRecord, RunRecord, StartRecord, TmuxPane, TurnEnd, TypingOutcome,
    WatcherRecord, WorkerLaunch, WorkerRecord, WorkerRepo,
    assess::{Decision, Injection, NextStepAnswer, Transcript, WatchSettings},
};

/// One call of one connection, for as long as it is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallId(pub u64);

/// What happens to core.
#[expect(
    clippy::large_enum_variant,
    reason = "one is on its way at a time, and most are calls"
)]
pub enum CoreInput {
    Call {
        call: CallId,
        asked: CallRequest,
    },
    /// Nobody waits for this call any more.
    Cancelled {
        call: CallId,
    },
    Pane {
        pane: PaneId,
        event: PaneEvent,
    },
    /// What was to be started could not be recorded, so it must not be.
    NotStored {
        what: Undo,
        why: String,
    },
    /// A worker's files are there; if not, nothing is left of them.
    Prepared {
        worker: u64,
        outcome: Result<WorkerLaunch, Error>,
    },
    /// What was made for a worker is gone, because of this.
    Unprepared {
        worker: u64,
        error: Error,
    },
    /// What goes with a worker's completion is known.
    WorkedOut {
        worker: u64,
        found: CompletionDetails,
    },
    /// A watcher's command has ended.
    WatcherRan {
        watcher: u64,
        step: u64,
        ran: CommandEnd,
    },
    /// A model has judged, or could not.
    Judged {
        watcher: u64,
        step: u64,
        judged: Assessment,
    },
    /// A result that [`Effect::Compose`] asked for is complete; `delivered`: somebody was there to take it.
    Composed {
        run: RunId,
        delivered: bool,
    },
    /// Some time that was asked for by [`Effect::WakeAt`] has come.
    Time,
}

/// A call with everything about its caller that matters.
#[derive(Debug)]
pub struct CallRequest {
    pub key: IdempotencyKey,
    /// Who the caller says it is.
    pub who: CallerIdentity,
    /// The pane that the calling process runs in, as the kernel knows it.
    pub within: Option<PaneId>,
    pub caller: Arc<CallerEnv>,
    pub ask: Request,
    /// One for each pane that the call opens: looked up at the door, where files may be looked at. An error there is
    /// the call's, unless it asks for what it started before.
    pub worlds: Result<Vec<LaunchEnv>, Error>,
    /// What holds for a watcher that this call begins.
    pub watch: Option<Box<WatchSettings>>,
    pub tmux: TmuxLookup,
}

/// What was looked up in the caller's tmux.
#[derive(Debug, Default)]
pub enum TmuxLookup {
    #[default]
    None,
    /// The pane that the call names, or why there is none.
    One(Box<Result<TmuxPaneInfo, Error>>),
    /// All of them.
    All(Vec<TmuxPaneInfo>),
}

/// A pane of tmux that somebody named.
#[derive(Clone, Debug, PartialEq)]
pub struct TmuxPaneInfo {
    pub pane: TmuxPane,
    /// The tmux session and window that it is in.
    pub session: String,
    pub window: String,
    pub pid: u32,
    pub command: String,
    pub cwd: String,
    pub size: PaneSize,
}

/// Where and by what a new pane runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LaunchEnv {
    pub cwd: PathBuf,
    pub shell: PathBuf,
    /// Empty where that shell has no integration, or none is wanted.
    pub secret: String,
    /// Where tmux is to make it, if tmux is.
    #[serde(default)]
    pub tmux: Option<TmuxPane>,
}

/// What a pane's own task tells.
#[derive(Debug, PartialEq)]
pub enum PaneEvent {
    Opened {
        pid: u32,
        cursor: Cursor,
        /// Where tmux made it.
        tmux: Option<TmuxPane>,
    },
    OpenFailed(Error),
    /// A daemon died before it could start the pane's process, so nothing of it ever ran.
    NeverStarted(Error),
    /// The shell's first prompt.
    Prompted {
        cursor: Cursor,
    },
    /// Something waits for a person before the first prompt.
    AsksFirst {
        cursor: Cursor,
    },
    /// The output log of a running pane has so many bytes; told at each further megabyte.
    LogGrew {
        bytes: u64,
    },
    Moved {
        cwd: String,
    },
    Resized(PaneSize),
    Ended {
        exit: ExitStatus,
        cursor: Cursor,
        title: String,
        /// It is known that the process left no other behind.
        alone: bool,
        /// The pane knew that it is being closed, and says next that it is swept.
        sweeps: bool,
    },
    /// No process of the pane is left.
    Swept,
    /// The directory of a forgotten pane is gone.
    Removed,
    /// The pane's task panicked. Holder and child go on.
    TaskPanicked {
        message: String,
    },
    /// A search for a pattern has begun here.
    Watching {
        run: RunId,
        from: Cursor,
    },
    Sighted {
        run: RunId,
        saw: MatchedPattern,
        sighting: ExpectMatch,
    },
    /// All that an ended pane ever printed was searched, and nothing found.
    NothingSeen {
        run: RunId,
    },
    StepBegan(StepEvent),
    StepEnded(StepEvent, i32),
    /// So much of its last output could not be written and is in no file. Told before the end.
    OutputLost {
        bytes: u64,
    },
    /// The shell is at its prompt, and its records do not tell how its step ended or do not let it take the next one. The
    /// pipeline ends there.
    StepsLost {
        plan: u64,
        at: Cursor,
        why: String,
    },
    /// The pane's shell cannot take steps now; none was given to it.
    StepsRefused {
        plan: u64,
        error: Error,
    },
    /// The step that was to be interrupted has ended.
    StepsStopped {
        plan: u64,
    },
    /// Something in it waits for a person, as far as can be seen from outside, or no longer does.
    Asks(Option<(String, StateSource)>),
    /// Whether something may be typed into the agent in it.
    Rest(IdleState),
    MessageTyped {
        event: EventId,
        how: TypingOutcome,
    },
    /// It has been quiet for as long as a watcher wanted.
    Quiet {
        watcher: u64,
        step: u64,
        seen: QuietPane,
    },
    Injected {
        watcher: u64,
        step: u64,
        how: InjectionOutcome,
    },
}

/// Something a shell said about a step of a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct StepEvent {
    pub plan: u64,
    /// Counted from 1.
    pub step: usize,
    pub at: Cursor,
    /// Where the shell has a clock.
    pub when: Option<Timestamp>,
}

/// Which of the two patterns was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MatchedPattern {
    Pattern,
    Fail,
}

/// What a new pane is for.
#[derive(Clone, Debug, PartialEq)]
pub enum PaneJob {
    /// A shell to type into.
    Shell,
    /// One command as the pane's own process.
    Command(String),
    /// A program with its arguments, without a shell.
    Program(Vec<String>),
    /// A pipeline's own shell, as bare as the one that runs commands.
    Steps(StepPlan),
    /// A person's shell that was ended by a step, once more.
    ShellWithSteps(StepPlan),
}

/// The steps of a pipeline, as its shell gets them.
#[derive(Clone, Debug, PartialEq)]
pub struct StepPlan {
    pub number: u64,
    pub steps: Vec<PlannedStep>,
    pub keep_going: bool,
    /// How many steps are recorded as begun. No shell gets those again.
    pub begun: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub struct PlannedStep {
    /// For a person who looks: one line without control characters.
    pub heading: String,
    pub text: String,
}

/// What to look for in a pane.
#[derive(Clone, Debug, PartialEq)]
pub struct ExpectRequest {
    pub run: RunId,
    pub args: fugue_api::tools::RunExpect,
    /// Where an earlier daemon began.
    pub from: Option<Cursor>,
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

/// What a pane's task does with the output of the pane that it adopts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AdoptMode {
    /// Feed it to a terminal.
    Terminal,
    /// Give it out as it is: feeding it has made the task panic twice.
    RawOutput { panic: String },
}

/// What only the pane's task (or its files) can answer.
#[derive(Clone, Debug)]
pub enum PaneRequest {
    Status(Box<PaneStatus>),
    Read {
        args: Box<ReadPane>,
        ended: Option<SourcedState>,
    },
    Send {
        args: Box<SendInput>,
        key: IdempotencyKey,
    },
    Follow {
        from: u64,
    },
    Resize(PaneSize),
    /// What is different on the screen since the frame `seen`, as soon as something is.
    View {
        client: ClientId,
        seen: u64,
        /// What its agent says of itself.
        says: Option<Box<SourcedState>>,
        ended: Option<Box<SourcedState>>,
    },
    /// A client wants a line to the pane.
    Line {
        role: ViewerRole,
        says: Option<Box<SourcedState>>,
    },
    Lines {
        from: u64,
        most: u32,
    },
    /// A person's own keys.
    Type {
        bytes: Vec<u8>,
        key: IdempotencyKey,
    },
}

/// A change to what is stored. All changes of one commit happen, or none.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    Put(Box<PaneRecord>),
    Drop(PaneId),
    /// Ids below this one have been given out.
    NextPane(u64),
    /// A new run, and the world of its caller for as long as it is not over.
    StartRun {
        record: Box<RunRecord>,
        caller: Arc<CallerEnv>,
    },
    PutRun(Box<RunRecord>),
    /// Its caller's world is forgotten.
    EndRun(Box<RunRecord>),
    DropRun(RunId),
    NextRun(u64),
    PutEvent(Box<EventRecord>),
    TakeEvent(EventId),
    DropEvent(EventId),
    NextEvent(u64),
    /// A new worker, and the world of its caller until it runs.
    StartWorker {
        record: Box<WorkerRecord>,
        caller: Arc<CallerEnv>,
    },
    PutWorker(Box<WorkerRecord>),
    /// Its caller's world is forgotten.
    WorkerRuns(Box<WorkerRecord>),
    DropWorker(u64),
    NextWorker(u64),
    PutQuestion(Box<QuestionRecord>),
    DropQuestion(QuestionId),
    NextQuestion(u64),
    StartWatcher {
        record: Box<WatcherRecord>,
        caller: Arc<CallerEnv>,
    },
    PutWatcher(Box<WatcherRecord>),
    DropWatcher(u64),
    NextWatcher(u64),
    PutArrangement(Box<LayoutRecord>),
    DropArrangement(SessionName),
    PutStart(StartRecord),
    DropStart(IdempotencyKey),
}

/// Everything the store knows, at the daemon's start.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StoreSnapshot {
    pub panes: Vec<PaneRecord>,
    pub next_pane: u64,
    pub runs: Vec<StoredRun>,
    pub next_run: u64,
    pub events: Vec<EventRecord>,
    pub next_event: u64,
    pub workers: Vec<StoredWorker>,
    pub next_worker: u64,
    pub questions: Vec<QuestionRecord>,
    pub next_question: u64,
    pub watchers: Vec<StoredWatcher>,
    pub next_watcher: u64,
    pub arrangements: Vec<LayoutRecord>,
    pub starts: Vec<StartRecord>,
    /// How many daemons there were before this one.
    pub epoch: u64,
}

#[derive(Clone, Debug, PartialEq)]
pub struct StoredRun {
    pub record: RunRecord,
    /// Only of a run that is not over.
    pub caller: Option<CallerEnv>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct StoredWorker {
    pub record: WorkerRecord,
    /// Only of a worker that does not run yet.
    pub caller: Option<CallerEnv>,
}

/// What goes with a completion.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CompletionDetails {
    pub changes: Vec<String>,
    pub omitted_changes: u64,
    /// The end of what the worker printed, where that was asked for.
    pub tail: String,
    pub omitted_chars: u64,
    pub note: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct StoredWatcher {
    pub record: WatcherRecord,
    pub caller: CallerEnv,
}

/// How a command of a watcher's ended.
#[derive(Clone, Debug, PartialEq)]
pub struct CommandEnd {
    /// `None`: by a signal, or not in time.
    pub code: Option<i32>,
    /// In words: `exited with 1`.
    pub ending: String,
    pub output: String,
}

/// What a watcher sees of a quiet pane.
#[derive(Clone, Debug, PartialEq)]
pub struct QuietPane {
    pub tail: String,
    pub idle_ms: u64,
    pub place: PaneActivity,
}

/// Where a pane stands: as long as neither changes, nothing has happened in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PaneActivity {
    /// All that it printed.
    pub printed: u64,
    /// How often somebody typed.
    pub typed: u64,
}

/// What became of a line that was to be typed.
#[derive(Clone, Debug, PartialEq)]
pub enum InjectionOutcome {
    /// Something has happened since, or a person is waited for or types.
    NotNow,
    /// The pane is quiet, and a person is waited for or has begun a line: it is looked at again when something happens.
    Held(String),
    /// Nothing was typed: what has the keyboard shows a dialog, or nothing that is known to take a line.
    Refused(String),
    Typed {
        submitted: bool,
    },
    Unknown(String),
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

/// A model's answer, or why there is none.
#[derive(Clone, Debug, PartialEq)]
pub enum Assessment {
    Decision(Result<Decision, String>),
    NextStep(Result<NextStepAnswer, String>),
}
