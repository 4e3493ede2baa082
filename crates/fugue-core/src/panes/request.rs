//! What core asks of a pane, and what a pane is started with.

use std::path::PathBuf;

use fugue_api::{
    Cursor, Error, RunId,
    attach::{ClientId, ViewerRole},
    panes::{PaneSize, PaneStatus, ReadPane, SendInput, SourcedState},
    wire::IdempotencyKey,
};
use serde::{Deserialize, Serialize};

use crate::TmuxPane;

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

/// What a pane's task does with the output of the pane that it adopts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AdoptMode {
    /// Feed it to a terminal.
    Terminal,
    /// Give it out as it is: feeding it has made the task panic twice.
    RawOutput { panic: String },
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
    pub args: fugue_api::runs::RunExpect,
    /// Where an earlier daemon began.
    pub from: Option<Cursor>,
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
