//! Decides. Panes are state machines that are handed input and time and return effects; the daemon performs them.
//!
//! Nothing here reads the clock, touches a file, or waits. The parts that look at one pane's text and screen
//! ([`state`], [`view`], [`typing`], [`result`]) are pure as well and are called where that pane's bytes live.

pub mod assess;
mod clock;
mod core;
mod event;
mod exchange;
mod inbox;
pub mod layout;
mod names;
mod record;
pub mod result;
mod run;
pub mod settings;
pub mod state;
pub mod typing;
pub mod view;
mod watcher;
mod worker;

pub use clock::{BootId, Moment, Now};
pub use core::{Core, Inventory, LogUsage, Rest, TurnOver, Typed};
pub use event::{EventRecord, InboxId, QuestionRecord};
pub use exchange::{
    AdoptAs, Asked, CallId, Change, Effect, Injected, Input, Job, Judge, Judged, PaneFact,
    PanePlace, PaneQuestion, PaneSeen, Part, PlannedStep, Ran, Saw, Snapshot, StepNews, StepPlan,
    StoredRun, StoredWatcher, StoredWorker, TmuxFound, TmuxLook, Undo, Want, Watch, WatchJob,
    WorkedOut, World, Wrap,
};
pub use record::{
    ArrangementRecord, Ended, Exit, PaneRecord, StartRecord, Started, TmuxOrigin, TmuxPane,
};
pub use run::{
    ExpectOutcome, ExpectWork, ParallelWork, PipelineWork, RunRecord, Sighting, StepOutcome,
    StepState, Task, TaskOutcome, Work,
};
pub use watcher::{Checked, Stage, WatcherRecord};
pub use worker::{Asks, Owed, Prepared, Repo, WorkerPhase, WorkerRecord};
