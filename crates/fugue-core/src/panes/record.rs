use fugue_api::{
    Cursor, PaneId, SessionName, Timestamp,
    panes::PaneSize,
    wire::{CallerIdentity, IdempotencyKey},
};
use serde::{Deserialize, Serialize};

use crate::Moment;

/// What the store knows of a pane: enough for the next daemon to find it again, and for a reader to read it after
/// its end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PaneRecord {
    pub id: PaneId,
    pub session: SessionName,
    pub name: String,
    /// The command as given, or the interactive shell's path.
    pub command: String,
    pub cwd: String,
    pub size: PaneSize,
    pub created_at: Timestamp,
    /// The call that made it: asked again, it is this pane that is meant.
    pub made_by: IdempotencyKey,
    /// The agent that opened it. `None`: a person, as in all records of versions that did not know.
    #[serde(default)]
    pub opened_by: Option<CallerIdentity>,
    /// What our shell marks carry, so that nothing a program prints passes for one. Empty: no integration.
    pub secret: String,
    /// Where it is, if a tmux server has it and no holder of ours.
    #[serde(default)]
    pub tmux: Option<TmuxPane>,
    /// The agent that runs in it as a worker.
    #[serde(default)]
    pub agent: Option<String>,
    /// Counts the processes that the pane has had, one after the other: a shell that a step ended is started again.
    pub generation: u32,
    /// 0 until the process is known to have started.
    pub pid: u32,
    /// Somebody asked for its end.
    pub closing: bool,
    pub ended: Option<PaneEnd>,
    /// The pane is forgotten and its directory is being removed. The record goes when the directory has gone, so that a
    /// daemon that dies in between leaves no directory without a record.
    #[serde(default)]
    pub removing: bool,
}

impl PaneRecord {
    /// Whether it is this pane of tmux.
    pub fn is_tmux(&self, pane: &TmuxPane) -> bool {
        self.tmux.as_ref().is_some_and(|tmux| tmux.is(pane))
    }

    /// A shell with integration is ready at its first prompt; anything else as soon as it runs.
    pub fn announces_prompts(&self) -> bool {
        !self.secret.is_empty()
    }
}

/// A pane of a tmux server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TmuxPane {
    /// The server's socket.
    pub socket: String,
    /// The server's process: pane ids begin again with every server. 0 until tmux has made the pane.
    pub server: u32,
    /// Such as `%5`. Empty until tmux has made the pane.
    pub id: String,
    pub origin: TmuxOrigin,
}

/// How we came to a pane of tmux.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TmuxOrigin {
    /// It is somebody's own, and was there.
    Found,
    /// We made it: a window of its own in a session, which is made too where there is none of that name.
    Window { session: String },
    /// We made it in the window where the caller sits, in a share of the caller's own room.
    Split { beside: String, session: String },
}

impl TmuxPane {
    /// The tmux session that a pane of ours is made in.
    pub fn session(&self) -> Option<&str> {
        match &self.origin {
            TmuxOrigin::Found => None,
            TmuxOrigin::Window { session } | TmuxOrigin::Split { session, .. } => Some(session),
        }
    }

    fn is(&self, other: &Self) -> bool {
        (&self.socket, self.server, &self.id) == (&other.socket, other.server, &other.id)
    }
}

/// How a pane ended, and what it looked like then.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PaneEnd {
    pub exit: ExitStatus,
    pub at: Moment,
    /// Closed on request, not only exited.
    pub closed: bool,
    pub cursor: Cursor,
    pub title: String,
}

/// How a process ended. What nobody saw is unknown, never a guess.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExitStatus {
    Code(i32),
    /// The signal's name, such as `SIGKILL`.
    Signal(String),
    Unknown,
}

impl ExitStatus {
    pub fn code(&self) -> Option<i32> {
        match self {
            Self::Code(code) => Some(*code),
            Self::Signal(_) | Self::Unknown => None,
        }
    }

    pub fn signal(&self) -> Option<String> {
        match self {
            Self::Signal(name) => Some(name.clone()),
            Self::Code(_) | Self::Unknown => None,
        }
    }
}
