//! Requests to panes, and the parameters of new panes.

use std::path::PathBuf;

use fugue_api::{
    Cursor, Error, RunId,
    attach::{ClientId, ViewerRole},
    pane_state::SourcedState,
    tools::{PaneSize, PaneStatus, ReadPane, SendInput},
    wire::IdempotencyKey,
};
use serde::{Deserialize, Serialize};

use crate::TmuxPane;

/// A request that the task of a pane answers, or the output log of an ended pane.
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
    /// The next frame after the frame `seen`, as soon as the screen changes.
    GetFrame {
        client: ClientId,
        seen: u64,
        /// The attention request of the pane's agent.
        agent_state: Option<Box<SourcedState>>,
        ended: Option<Box<SourcedState>>,
    },
    /// A connection of an attach client to the pane.
    Connect {
        role: ViewerRole,
        agent_state: Option<Box<SourcedState>>,
    },
    ReadLines {
        from: u64,
        most: u32,
    },
    /// Keys that a person has typed.
    Type {
        bytes: Vec<u8>,
        key: IdempotencyKey,
    },
}

/// How the task of an adopted pane handles its output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AdoptMode {
    /// The output is fed to a terminal.
    Terminal,
    /// The output is only returned raw, because parsing has made the task panic twice.
    RawOutput { panic: String },
}

/// The program of a new pane.
#[derive(Clone, Debug, PartialEq)]
pub enum PaneJob {
    /// A shell to type into.
    Shell,
    /// A single command as the process of the pane.
    Command(String),
    /// A program with its arguments, without a shell.
    Program(Vec<String>),
    /// A shell for the steps of a pipeline, which reads none of the user's files.
    Steps(StepPlan),
    /// A person's interactive shell, started again after a step has ended it.
    ShellWithSteps(StepPlan),
}

/// The steps of a pipeline, as given to the shell.
#[derive(Clone, Debug, PartialEq)]
pub struct StepPlan {
    pub number: u64,
    pub steps: Vec<PlannedStep>,
    pub keep_going: bool,
    /// The number of steps that are recorded as begun and never run again.
    pub begun: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub struct PlannedStep {
    /// A line without control characters, shown in the pane.
    pub heading: String,
    pub text: String,
}

/// An expect, as given to a pane.
#[derive(Clone, Debug, PartialEq)]
pub struct ExpectRequest {
    pub run: RunId,
    pub args: fugue_api::tools::RunExpect,
    /// Where an earlier daemon began to search.
    pub from: Option<Cursor>,
}

/// The launch environment of a new pane.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LaunchEnv {
    pub cwd: PathBuf,
    pub shell: PathBuf,
    /// The secret of the shell marks. Empty without shell integration.
    pub secret: String,
    /// Where tmux makes the pane, if tmux is the backend.
    #[serde(default)]
    pub tmux: Option<TmuxPane>,
}

/// Panes that were looked up in the caller's tmux.
#[derive(Debug, Default)]
pub enum TmuxLookup {
    #[default]
    None,
    /// The pane that the call names, or an error.
    One(Box<Result<TmuxPaneInfo, Error>>),
    /// All panes.
    All(Vec<TmuxPaneInfo>),
}

/// A pane that exists in tmux.
#[derive(Clone, Debug, PartialEq)]
pub struct TmuxPaneInfo {
    pub pane: TmuxPane,
    /// The tmux session and window of the pane.
    pub session: String,
    pub window: String,
    pub pid: u32,
    pub command: String,
    pub cwd: String,
    pub size: PaneSize,
}
