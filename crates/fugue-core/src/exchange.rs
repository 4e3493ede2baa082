//! What goes into core and what comes out of it, in plain data.

use std::{path::PathBuf, sync::Arc, time::Duration};

use fugue_api::{
    Cursor, Error, PaneId, Timestamp,
    panes::{CreatePane, Overview, PaneSize, PaneStatus, ReadPane, SendInput, StateBy},
    wire::{Answer, Ask, Caller, Key},
};

use crate::{Exit, PaneRecord};

/// One call of one connection, for as long as it is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallId(pub u64);

/// The two clocks: one for people, one for deadlines.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    pub wall: Timestamp,
    /// Time since the daemon started.
    pub uptime: Duration,
}

/// What happens to core.
pub enum Input {
    Call {
        call: CallId,
        asked: Asked,
    },
    /// Nobody waits for this call any more.
    Cancelled {
        call: CallId,
    },
    Pane {
        pane: PaneId,
        fact: PaneFact,
    },
    /// The pane's record could not be written, so the pane must not be.
    NotStored {
        pane: PaneId,
        why: String,
    },
    /// Some time that was asked for by [`Effect::WakeAt`] has come.
    Time,
}

/// A call with everything about its caller that matters.
pub struct Asked {
    pub key: Key,
    pub caller: Arc<Caller>,
    pub ask: Ask,
    /// For `create_pane`: looked up at the door, where files may be looked at.
    pub world: Option<World>,
}

/// Where and by what a new pane runs.
#[derive(Clone, Debug, PartialEq)]
pub struct World {
    pub cwd: PathBuf,
    pub shell: PathBuf,
    /// Empty where that shell has no integration, or none is wanted.
    pub secret: String,
}

/// What a pane's own task tells.
#[derive(Debug)]
pub enum PaneFact {
    Opened {
        pid: u32,
        cursor: Cursor,
    },
    OpenFailed(Error),
    /// The shell's first prompt.
    Prompted {
        cursor: Cursor,
    },
    /// Something waits for a person before the first prompt.
    AsksFirst {
        cursor: Cursor,
    },
    Moved {
        cwd: String,
    },
    Resized(PaneSize),
    Ended {
        exit: Exit,
        cursor: Cursor,
        title: String,
    },
    /// No process of the pane is left.
    Swept,
}

/// What core wants done. Effects of one step are performed in order; those behind a [`Effect::Commit`] only once
/// it is on disk.
#[derive(Debug)]
pub enum Effect {
    Answer {
        call: CallId,
        answer: Result<Answer, Error>,
    },
    Commit {
        changes: Vec<Change>,
        undo: Option<PaneId>,
    },
    Open {
        record: Box<PaneRecord>,
        args: Box<CreatePane>,
        world: World,
        caller: Arc<Caller>,
    },
    /// Find a pane's holder again, or what it left behind.
    Adopt {
        record: Box<PaneRecord>,
    },
    Ask {
        call: CallId,
        pane: PaneId,
        question: PaneQuestion,
    },
    /// The same question, of a pane that has no task any more: its files answer.
    AskArchive {
        call: CallId,
        record: Box<PaneRecord>,
        question: PaneQuestion,
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
    Forget {
        pane: PaneId,
    },
    WakeAt(Duration),
}

/// What only the pane's task (or its files) can answer.
#[derive(Clone, Debug)]
pub enum PaneQuestion {
    Status(Box<PaneStatus>),
    Read {
        args: Box<ReadPane>,
        ended: Option<StateBy>,
    },
    Send {
        args: Box<SendInput>,
        key: Key,
    },
    Follow {
        from: u64,
    },
    Resize(PaneSize),
}

/// A change to what is stored. All changes of one commit happen, or none.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    Put(Box<PaneRecord>),
    Drop(PaneId),
    /// Ids below this one have been given out.
    NextPane(u64),
}

/// Everything the store knows, at the daemon's start.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    pub panes: Vec<PaneRecord>,
    pub next_pane: u64,
    /// How many daemons there were before this one.
    pub epoch: u64,
}
