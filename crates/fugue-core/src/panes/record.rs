use fugue_api::{
    Cursor, PaneId, SessionName, Timestamp,
    tools::PaneSize,
    wire::{CallerIdentity, IdempotencyKey},
};
use serde::{Deserialize, Serialize};

use crate::Moment;

/// The stored record of a pane: enough for the next daemon to adopt the pane, and to read the output after the pane's end.
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
    /// The idempotency key of the call that created the pane. The same call made again returns this pane.
    pub made_by: IdempotencyKey,
    /// The agent that opened the pane. `None` for a person, and in records of older versions.
    #[serde(default)]
    pub opened_by: Option<CallerIdentity>,
    /// The secret in the shell marks, so that output of programs is not taken for a mark. Empty: no shell integration.
    pub secret: String,
    /// The pane of tmux, if tmux is the backend.
    #[serde(default)]
    pub tmux: Option<TmuxPane>,
    /// The agent that runs in the pane as a worker.
    #[serde(default)]
    pub agent: Option<String>,
    /// Counts the processes of the pane: a shell that a step has ended is started again.
    pub generation: u32,
    /// 0 until the process has started.
    pub pid: u32,
    /// The pane is being closed.
    pub closing: bool,
    pub ended: Option<PaneEnd>,
    /// The pane is forgotten and its directory is being removed. The record is dropped after the directory, so that a
    /// daemon that dies in between leaves no directory without a record.
    #[serde(default)]
    pub removing: bool,
}

impl PaneRecord {
    /// Whether the record is about this pane of tmux.
    pub fn is_tmux(&self, pane: &TmuxPane) -> bool {
        self.tmux.as_ref().is_some_and(|tmux| tmux.is(pane))
    }

    /// The secret that the keys of step records are derived from. The idempotency key of the creating call serves as the
    /// secret: 128 random bits of its client, which are stored with the pane and given to no program in it.
    pub fn step_secret(&self) -> [u8; 16] {
        self.made_by.0
    }

    /// Whether the pane is a shell with marks, which is ready at its first prompt. Other programs are ready when they run.
    pub fn announces_prompts(&self) -> bool {
        !self.secret.is_empty()
    }
}

/// A pane of a tmux server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TmuxPane {
    /// The socket of the tmux server.
    pub socket: String,
    /// The process id of the tmux server, since each server counts pane ids from 0. 0 until tmux has made the pane.
    pub server: u32,
    /// Such as `%5`. Empty until tmux has made the pane.
    pub id: String,
    pub origin: TmuxOrigin,
}

/// The origin of a pane of tmux.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TmuxOrigin {
    /// A person's own pane.
    Found,
    /// Made by fugue as a window of a session, which is created if missing.
    Window { session: String },
    /// Made by fugue as a split of the caller's pane.
    Split { beside: String, session: String },
}

impl TmuxPane {
    /// The tmux session that fugue made the pane in.
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

/// The end of a pane.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PaneEnd {
    pub exit: ExitStatus,
    pub at: Moment,
    /// Closed on request, not only exited.
    pub closed: bool,
    pub cursor: Cursor,
    pub title: String,
    /// The machine was restarted while the process ran. Output of a running process is not synced, so the end of it may be
    /// missing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub lost_by_reboot: bool,
}

impl PaneEnd {
    /// The note of replies about this pane.
    pub fn note(&self) -> Option<String> {
        self.lost_by_reboot.then(|| {
            "the machine was restarted while its program ran; the end of its output may be missing or damaged"
                .to_owned()
        })
    }
}

/// How a process ended. `Unknown` if its exit was not observed.
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
