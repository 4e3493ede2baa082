//! The decisions of the daemon, as state machines: inputs and times go in, effects, changes and timers come out.
//!
//! No code here reads a clock, touches a file, or waits. Each feature has a folder with its record, its state machine
//! (`transitions`), its plans and its tests; [`Core`] only routes. The parts that read the text and screen of one pane
//! ([`pane_machine`], [`state`], [`view`], [`typing`], [`result`]) are pure as well and run on the thread of that pane.

mod attach;
mod calls;
mod change;
mod clock;
mod context;
mod core;
mod effect;
pub mod environment;
mod inbox;
mod input;
mod memory_store;
pub mod pane_machine;
mod panes;
mod runs;
pub mod settings;
mod snapshot;
pub mod state;
mod timer;
pub mod typing;
pub mod view;
mod watchers;
mod workers;

pub use attach::layout;
pub use attach::record::LayoutRecord;
pub use calls::starts::{StartRecord, StartTarget};
pub use change::{Change, Counter, EnvironmentOwner, Record, RecordId};
pub use clock::{BootId, ClockReading, Moment};
pub use core::Core;
pub use effect::{
    AfterCommit, AssessmentJob, AssessmentKind, Effect, OutputPart, OutputRange, PaneAdoption,
    ReplyFormat, StepCommit, StepEffects, Undo,
};
pub use environment::{EnvironmentFields, StoredEnvironment};
pub use inbox::record::{EventRecord, InboxId, QuestionRecord};
pub use input::{
    Assessment, CallId, CallRequest, CommandEnd, CompletionDetails, CoreInput, LongMessage,
};
pub use memory_store::MemoryStore;
pub use panes::{
    event::{
        InjectionOutcome, MatchedPattern, ObservedAgent, PaneActivity, PaneEvent, QuietPane,
        StepEvent,
    },
    limits::{Inventory, LogUsage},
    record::{ExitStatus, PaneEnd, PaneRecord, TmuxOrigin, TmuxPane},
    request::{
        AdoptMode, ExpectRequest, LaunchEnv, PaneJob, PaneRequest, PlannedStep, StepPlan,
        TmuxLookup, TmuxPaneInfo,
    },
};
pub use runs::{
    record::{
        ExpectMatch, ExpectOutcome, ExpectWork, PaneOpening, ParallelWork, PipelineWork, RunRecord,
        RunTask, RunWork, StepOutcome, StepState, TaskOutcome,
    },
    result,
};
pub use snapshot::{StoreSnapshot, StoredRun, StoredWatcher, StoredWorker};
pub use watchers::{
    assess,
    record::{CheckResult, WatcherRecord, WatcherStage},
};
pub use workers::{
    IdleState, TurnEnd, TypingOutcome,
    record::{
        InputRequest, PendingCompletion, UsagePause, WorkerLaunch, WorkerPhase, WorkerRecord,
        WorkerRepo,
    },
};
