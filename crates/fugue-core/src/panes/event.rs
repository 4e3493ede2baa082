//! The events that the task of a pane reports to core.

use fugue_api::{Cursor, Error, EventId, RunId, Timestamp, tools::PaneSize};

use crate::{
    ExitStatus, ExpectMatch, IdleState, TmuxPane, TypingOutcome, pane_machine::AgentSight,
};

/// An event of one pane.
#[derive(Debug, PartialEq)]
pub enum PaneEvent {
    Opened {
        pid: u32,
        cursor: Cursor,
        /// The pane that tmux has made.
        tmux: Option<TmuxPane>,
    },
    OpenFailed(Error),
    /// An earlier daemon died before it started the process of the pane.
    NeverStarted(Error),
    /// The shell shows its first prompt.
    Prompted {
        cursor: Cursor,
    },
    /// An attention request before the first prompt.
    AttentionBeforePrompt {
        cursor: Cursor,
    },
    /// The size of the output log of a running pane, reported at each further megabyte.
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
        /// The process is known to have left no other process.
        alone: bool,
        /// The pane was being closed, and reports `Swept` next.
        sweeps: bool,
        /// The machine was restarted while the process ran.
        lost_by_reboot: bool,
    },
    /// The remaining processes of a closed pane were ended, as far as that is possible.
    Swept,
    /// The directory of a forgotten pane is removed.
    Removed,
    /// The task of the pane panicked. Holder and child continue.
    TaskPanicked {
        message: String,
    },
    /// An expect that began at this position has no match yet, and waits for output.
    ExpectStarted {
        run: RunId,
        from: Cursor,
    },
    ExpectMatched {
        run: RunId,
        /// Where the search began. `None` if [`Self::ExpectStarted`] has reported the position.
        from: Option<Cursor>,
        pattern: MatchedPattern,
        found: ExpectMatch,
    },
    /// The whole output of an ended pane has no match.
    ExpectExhausted {
        run: RunId,
    },
    StepBegan(StepEvent),
    StepEnded(StepEvent, i32),
    /// Bytes at the end of the output could not be written to a file. Reported before `Ended`.
    OutputNotWritten {
        bytes: u64,
    },
    /// The shell is at its prompt, and the files of the steps do not show how the step ended or do not allow the next step.
    /// The pipeline ends at this step.
    StepsLost {
        plan: u64,
        at: Cursor,
        why: String,
    },
    /// The shell cannot take steps now. It was given none.
    StepsRefused {
        plan: u64,
        error: Error,
    },
    /// The interrupted step has ended.
    StepsStopped {
        plan: u64,
    },
    /// What the agent of the pane shows has changed.
    AgentObserved(ObservedAgent),
    /// Whether a message may be typed into the agent of the pane.
    IdleReport(IdleState),
    MessageTyped {
        event: EventId,
        how: TypingOutcome,
    },
    /// The pane has been quiet for the time that a watcher waits for.
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

/// An agent in a pane, as its process and its screen show it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObservedAgent {
    /// `None` if no agent is recognised.
    pub name: Option<String>,
    pub sight: AgentSight,
}

/// The begin or end of a step, as the shell reports it.
#[derive(Clone, Debug, PartialEq)]
pub struct StepEvent {
    pub plan: u64,
    /// Counted from 1.
    pub step: usize,
    pub at: Cursor,
    /// `None` if the shell has no clock.
    pub when: Option<Timestamp>,
}

/// Which of the two patterns of an expect has matched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MatchedPattern {
    Pattern,
    Fail,
}

/// The text and activity of a quiet pane.
#[derive(Clone, Debug, PartialEq)]
pub struct QuietPane {
    pub tail: String,
    pub idle_ms: u64,
    pub place: PaneActivity,
}

/// Activity counters of a pane. As long as neither changes, the pane was idle.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PaneActivity {
    /// Bytes of output.
    pub printed: u64,
    /// How often input was typed.
    pub typed: u64,
}

/// The outcome of an injection.
#[derive(Clone, Debug, PartialEq)]
pub enum InjectionOutcome {
    /// Not typed: the pane was active since the assessment, or has an attention request or a draft.
    NotNow,
    /// Not assessed: the quiet pane has an attention request or a draft. Reported again after further activity.
    Held(String),
    /// Not typed: the foreground program shows a dialog, or no known input box.
    Refused(String),
    Typed {
        submitted: bool,
    },
    Unknown(String),
}
