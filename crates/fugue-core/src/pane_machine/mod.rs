//! The state machines of one pane: every decision that a pane's task takes between its terminal and its backend.
//!
//! Each part takes inputs and the time and returns decisions. No part reads the clock, touches a file or waits: the
//! daemon's pane task feeds bytes to the terminal, passes events and the time to the parts, and performs the decisions.
//! `Instant` is a plain value here; only the daemon calls `Instant::now`.
//!
//! A part that needs something expensive of the screen takes a closure, so that the screen is only parsed for decisions
//! that depend on its contents.

mod connection;
mod draft;
mod expects;
mod first_prompt;
mod frames;
mod idle;
mod input;
mod lifecycle;
mod log_growth;
mod probe;
mod quiet;
mod resizes;
mod sight;
mod steps;
mod target;
mod timer;

pub use connection::{AttemptStart, BackendConnection, PaneGoal, Reachability, RetryPlan};
pub use draft::{DraftTracker, DraftView, ShownDraft, TypingSource, reports_focus};
pub use expects::{ExpectStart, ExpectWaiters, expect_patterns, match_event};
pub use first_prompt::FirstPrompt;
pub use frames::{
    DroppedRequests, FrameContents, FrameEnd, FramePlan, FrameRecipient, FrameScheduler, FrameView,
    RedrawState, ViewerRequest,
};
pub use idle::{AgentIdle, IdleView};
pub use input::{
    AckResult, InputAck, InputGate, InputOrigin, InputQueue, InputReply, InputScreen, InputStep,
    uncertain_input,
};
pub use lifecycle::{EndView, PaneExit, PaneLifecycle};
pub use log_growth::LogGrowth;
pub use probe::{ProbeInterest, ProbeSchedule, ProbeView};
pub use quiet::{
    InjectionRequest, InjectionView, QuietDecision, QuietRequest, QuietView, QuietWait,
};
pub use resizes::ResizeQueue;
pub use sight::{AgentDialog, AgentNotice, AgentSight, UsageLimit, is_same_question};
pub use steps::{
    PromptDecision, StepProgress, StepRecord, StepRecords, StepTimers, StepTracker, StepVerdict,
    StopSignal, WakeDecision,
};
pub use target::{AgentScreen, BoxContent, InputTarget, KeyboardSignals};
pub use timer::PaneTimer;

#[cfg(test)]
mod test_clock {
    use std::{
        sync::OnceLock,
        time::{Duration, Instant},
    };

    /// A moment of the tests' clock, in milliseconds since an arbitrary start.
    #[expect(
        clippy::disallowed_methods,
        reason = "an arbitrary start; no test depends on the real time"
    )]
    pub fn at(ms: u64) -> Instant {
        static START: OnceLock<Instant> = OnceLock::new();
        *START.get_or_init(Instant::now) + Duration::from_millis(ms)
    }
}
