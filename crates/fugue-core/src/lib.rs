//! Decides. Panes are state machines that are handed input and time and return effects; the daemon performs them.
//!
//! Nothing here reads the clock, touches a file, or waits. The parts that look at one pane's text and screen
//! ([`pane_machine`], [`state`], [`view`], [`typing`], [`result`]) are pure as well and are called where that pane's bytes live.

pub mod assess;
mod clock;
mod core;
mod event;
mod exchange;
mod inbox;
pub mod layout;
mod names;
pub mod pane_machine;
mod record;
pub mod result;
mod run;
pub mod settings;
pub mod state;
pub mod typing;
pub mod view;
mod watcher;
mod worker;

pub use clock::{BootId, ClockReading, Moment};
pub use core::{Core, IdleState, Inventory, LogUsage, TurnEnd, TypingOutcome};
pub use event::{EventRecord, InboxId, QuestionRecord};
pub use exchange::{
    AdoptMode, Assessment, AssessmentJob, AssessmentKind, CallId, CallRequest, Change, CommandEnd,
    CompletionDetails, CoreInput, Effect, ExpectRequest, InjectionOutcome, LaunchEnv,
    MatchedPattern, OutputPart, OutputRange, PaneActivity, PaneEvent, PaneJob, PaneRequest,
    PlannedStep, QuietPane, ReplyFormat, StepEvent, StepPlan, StoreSnapshot, StoredRun,
    StoredWatcher, StoredWorker, TmuxLookup, TmuxPaneInfo, Undo,
};
pub use record::{
    ExitStatus, LayoutRecord, PaneEnd, PaneRecord, StartRecord, StartTarget, TmuxOrigin, TmuxPane,
};
pub use run::{
    ExpectMatch, ExpectOutcome, ExpectWork, ParallelWork, PipelineWork, RunRecord, RunTask,
    RunWork, StepOutcome, StepState, TaskOutcome,
};
pub use watcher::{CheckResult, WatcherRecord, WatcherStage};
pub use worker::{
    InputRequest, PendingCompletion, WorkerLaunch, WorkerPhase, WorkerRecord, WorkerRepo,
};
