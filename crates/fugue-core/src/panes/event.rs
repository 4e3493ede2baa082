//! What a pane's task reports to core.

use fugue_api::{
    Cursor, Error, EventId, RunId, Timestamp,
    panes::{PaneSize, StateSource},
};

use crate::{ExitStatus, ExpectMatch, IdleState, TmuxPane, TypingOutcome};

/// What a pane's own task tells.
#[derive(Debug)]
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
