//! The socket protocol: JSON messages, each after its length as four little-endian bytes.
//!
//! A client identifies itself once and then sends requests without waiting for responses. Responses carry the id of
//! their request and arrive in any order.

mod hook_report;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{
    Cursor, Error, EventId, OsText, PaneId, QuestionId, RawReply, RunId, Timestamp, ToolCall,
    ToolReply, ToolWait,
    attach::{AttachRequest, AttachResponse},
    inbox_event::InboxEvent,
    overview::QuestionRow,
    run_result::RunResult,
    settings::{SettingChange, SettingsReport},
    worktree::{WorktreeRequest, WorktreeResponse},
};

pub use hook_report::HookReport;

/// The protocol version, raised when an older client or daemon could misread a message.
pub const PROTOCOL: u32 = 10;

/// The limit of a message in both directions: more than the largest possible reply with all characters escaped.
pub const MAX_FRAME_BYTES: usize = 128 * 1024 * 1024;

/// The first message of a client. The shapes of `Hello` and [`Welcome`] stay the same in all protocol versions, so that
/// a client and a daemon of different versions can report both versions.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "frame", rename = "hello")]
pub struct Hello {
    pub protocol: u32,
    pub caller: CallerEnv,
    pub who: CallerIdentity,
}

/// The first message of the daemon.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "frame", rename = "welcome")]
pub struct Welcome {
    pub protocol: u32,
    pub version: String,
    pub pid: u32,
}

// The enums below are externally tagged, because serde buffers the whole content of an internally tagged enum.

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(
    clippy::large_enum_variant,
    reason = "few messages exist at a time, and most are calls"
)]
pub enum ClientMessage {
    /// A request. A repeated request with the same `key`, after a lost connection, has its effect only once. `who`
    /// replaces the identity of the connection's `Hello`, where one connection serves several callers.
    Call {
        id: u64,
        #[serde(with = "halves")]
        key: IdempotencyKey,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        who: Option<CallerIdentity>,
        request: Request,
    },
    /// Cancels request `id`: the client no longer waits, or the response did not reach its recipient.
    Cancel { id: u64 },
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(
    clippy::large_enum_variant,
    reason = "few messages exist at a time, and most are responses"
)]
pub enum DaemonMessage<R = ToolReply> {
    Response {
        id: u64,
        response: Result<Response<R>, Error>,
        /// The event that the response holds a lease of. The request stays open until [`Request::AckEvent`] or `Cancel`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        leased_event: Option<EventId>,
    },
    /// The daemon stops on request and answers nothing more.
    Goodbye,
}

/// 128 random bits that identify a call over repeated attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct IdempotencyKey(pub [u8; 16]);

/// The launch environment of a caller: where its panes start and with which variables.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CallerEnv {
    pub cwd: OsText,
    pub env: Vec<(OsText, OsText)>,
    pub umask: u32,
    #[serde(default)]
    pub setting_names: SettingNames,
}

impl CallerEnv {
    /// The caller of requests that the daemon itself makes, and of probes: no environment, in the root directory.
    pub fn nobody() -> Self {
        Self {
            cwd: OsText::Text("/".into()),
            env: Vec::new(),
            umask: 0o22,
            setting_names: SettingNames::Prefixed,
        }
    }
}

/// Which variables of a caller's environment are settings of fugue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SettingNames {
    /// `FUGUE_X` only. A name such as `MODEL` has other meanings in a shell.
    #[default]
    Prefixed,
    /// Also `X` if `FUGUE_X` is not set, because the environment of an MCP server is written for that server.
    Short,
}

/// The identity that a caller claims, which decides its inbox. The daemon checks the claim against the calling process:
/// a process in an agent's pane always has the identity of that agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "who", rename_all = "snake_case")]
pub enum CallerIdentity {
    /// A named lead session, or the lead session of a project. All callers with this id share its inbox.
    Session { id: String },
    /// A person in the directory of a project, with the inbox of the project's lead session.
    Person { project: String },
    /// A worker, by the variables of its environment.
    Worker {
        session: String,
        agent: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pane: Option<PaneId>,
    },
}

/// A tool call, or a request that only fugue's own clients send.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    Tool {
        call: ToolCall,
    },
    /// An overview of unlimited size.
    Overview,
    /// The panes of the caller's tmux server that are not panes of fugue, as an overview with nothing else.
    TmuxPanes,
    /// Waits until the raw output of a pane reaches beyond offset `from`, and returns the output after `from`.
    Follow {
        pane: String,
        from: u64,
    },
    /// Waits until a run is newer than version `seen`, and returns its progress without outputs.
    RunProgress {
        run: RunId,
        seen: u64,
    },
    /// Acks an event whose reply has reached the client, and closes the call that the reply answered.
    AckEvent {
        event: EventId,
    },
    /// Lists at most `most` events of the caller's inbox after `after`, acked or not, without taking them.
    Inbox {
        after: EventId,
        most: usize,
    },
    /// The questions that wait for the person at the caller's session, at once or, with `known`, when they are others than
    /// these.
    Questions {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        known: Option<Vec<QuestionId>>,
    },
    /// A hook report of the calling worker's agent.
    Hook {
        report: HookReport,
    },
    /// Sets a pane's size.
    Resize {
        pane: String,
        rows: u16,
        cols: u16,
    },
    /// Lists files in the state directory that are no longer needed and, unless it is a dry run, removes them.
    CollectGarbage {
        dry_run: bool,
        /// Forget every ended pane that no run needs, also within the limits.
        #[serde(default)]
        all_ended: bool,
    },
    /// Lists, compares or removes worktrees of workers.
    Worktrees {
        request: WorktreeRequest,
    },
    /// A request of an attached client.
    Attach {
        request: AttachRequest,
    },
    DaemonStatus,
    /// The settings in force, and where each comes from.
    Settings,
    /// Reads `config.toml` again.
    ReloadSettings,
    /// Stops the daemon. With `panes`, closes all panes first.
    DaemonStop {
        panes: bool,
    },
}

impl Request {
    /// The id or name of the request's pane, as given by the caller.
    pub fn pane(&self) -> Option<&str> {
        match self {
            Self::Tool { call } => call.pane(),
            Self::Follow { pane, .. } | Self::Resize { pane, .. } => Some(pane),
            Self::Overview
            | Self::TmuxPanes
            | Self::RunProgress { .. }
            | Self::AckEvent { .. }
            | Self::Inbox { .. }
            | Self::Questions { .. }
            | Self::Hook { .. }
            | Self::CollectGarbage { .. }
            | Self::Worktrees { .. }
            | Self::Attach { .. }
            | Self::DaemonStatus
            | Self::Settings
            | Self::ReloadSettings
            | Self::DaemonStop { .. } => None,
        }
    }

    /// Replaces the name of the request's pane by its id.
    pub fn set_pane(&mut self, id: PaneId) {
        match self {
            Self::Tool { call } => call.set_pane(id),
            Self::Follow { pane, .. } | Self::Resize { pane, .. } => *pane = id.to_string(),
            Self::Overview
            | Self::TmuxPanes
            | Self::RunProgress { .. }
            | Self::AckEvent { .. }
            | Self::Inbox { .. }
            | Self::Questions { .. }
            | Self::Hook { .. }
            | Self::CollectGarbage { .. }
            | Self::Worktrees { .. }
            | Self::Attach { .. }
            | Self::DaemonStatus
            | Self::Settings
            | Self::ReloadSettings
            | Self::DaemonStop { .. } => {}
        }
    }

    /// The request to send again after a connection was lost, `elapsed` after the first attempt. The timeout of an
    /// inbox wait holds over all attempts; the timeout of a run is counted by the daemon.
    pub fn again(&self, elapsed: Duration) -> Self {
        let mut request = self.clone();
        if let Self::Tool { call } = &mut request {
            match call.wait() {
                ToolWait::Inbox(wait) => wait.subtract(elapsed),
                ToolWait::Short { .. }
                | ToolWait::StartRun { .. }
                | ToolWait::JoinRun { .. }
                | ToolWait::PaneClose { .. } => {}
            }
        }
        request
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Response<R = ToolReply> {
    Tool {
        reply: R,
    },
    Output {
        chunk: OutputChunk,
    },
    RunProgress {
        progress: RunProgress,
    },
    Inbox {
        inbox: InboxListing,
    },
    Questions {
        questions: Vec<QuestionRow>,
    },
    /// The ack or report is stored.
    Done,
    Resized,
    Attach {
        response: AttachResponse,
    },
    Garbage {
        collected: GarbageReport,
    },
    Worktrees {
        response: WorktreeResponse,
    },
    DaemonStatus {
        status: DaemonStatus,
    },
    Settings {
        report: SettingsReport,
    },
    /// The file was read, and these values changed.
    SettingsReloaded {
        changes: Vec<SettingChange>,
    },
    Stopping {
        panes_closed: u64,
    },
}

impl Response<RawReply> {
    pub fn read(self) -> Result<Response, Error> {
        Ok(match self {
            Self::Tool { reply } => Response::Tool {
                reply: reply.read()?,
            },
            Self::Output { chunk } => Response::Output { chunk },
            Self::RunProgress { progress } => Response::RunProgress { progress },
            Self::Inbox { inbox } => Response::Inbox { inbox },
            Self::Questions { questions } => Response::Questions { questions },
            Self::Done => Response::Done,
            Self::Resized => Response::Resized,
            Self::Attach { response } => Response::Attach { response },
            Self::Garbage { collected } => Response::Garbage { collected },
            Self::Worktrees { response } => Response::Worktrees { response },
            Self::DaemonStatus { status } => Response::DaemonStatus { status },
            Self::Settings { report } => Response::Settings { report },
            Self::SettingsReloaded { changes } => Response::SettingsReloaded { changes },
            Self::Stopping { panes_closed } => Response::Stopping { panes_closed },
        })
    }
}

/// A chunk of a pane's raw output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OutputChunk {
    #[serde(with = "latin1")]
    pub raw: Vec<u8>,
    /// The offset of `raw`: later than requested if the log no longer holds that output.
    pub from: u64,
    /// The pane has ended, and this is the end of its output.
    pub ended: bool,
    /// The position after `raw`.
    pub cursor: Cursor,
}

/// The progress of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunProgress {
    /// The value for `seen` in the next request.
    pub version: u64,
    pub run: RunResult,
}

/// A list of inbox events, none of which is taken.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InboxListing {
    pub session_id: String,
    pub events: Vec<InboxRow>,
    /// The inbox has more events after these.
    pub more: bool,
    /// Questions that wait for the person at this session.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub questions: Vec<QuestionRow>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InboxRow {
    pub event_id: EventId,
    pub at: Timestamp,
    pub taken: bool,
    /// How many older events this one replaces, because the inbox was full.
    #[serde(default, skip_serializing_if = "crate::checks::is_zero")]
    pub dropped_events: u64,
    #[serde(flatten)]
    pub event: InboxEvent,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DaemonStatus {
    pub pid: u32,
    pub socket: String,
    pub version: String,
    pub uptime_ms: u64,
    pub panes: u64,
    /// How many daemons have started on this state directory.
    pub epoch: u64,
    #[serde(default)]
    pub store: StoreStatus,
    /// Disk usage of all output logs.
    #[serde(default)]
    pub logs: LogsStatus,
}

/// Whether the database accepts commits.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StoreStatus {
    pub state: StoreState,
    /// Why commits fail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// When the first of these commits failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// Commits that are not on disk yet.
    pub unstored_commits: u64,
    /// Records that could not be read and are set aside.
    pub quarantined_records: u64,
    /// Repairs and findings from the opening of the database.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StoreState {
    #[default]
    Ok,
    /// Commits fail and are retried.
    Stalled,
    /// The database accepts nothing more, and the daemon stops.
    Ended,
}

/// Sizes of the output logs, and their common quota.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LogsStatus {
    pub ended_bytes: u64,
    pub running_bytes: u64,
    /// Absent without a quota.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota_bytes: Option<u64>,
    /// A warning that the quota is exceeded although no ended pane is left to forget, with what to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// The result of a garbage collection.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GarbageReport {
    pub dry_run: bool,
    pub items: Vec<GarbageItem>,
    /// Bytes of all removed items; in a dry run, of all items that would be removed.
    pub freed_bytes: u64,
    /// Free space of the state directory's disk afterwards.
    pub free_disk_bytes: u64,
}

/// A file or directory that is no longer needed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GarbageItem {
    pub kind: GarbageKind,
    /// Path below the state directory.
    pub path: String,
    pub bytes: u64,
    /// Why an ended pane is forgotten.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<ForgetReason>,
    /// Why the item was not removed, if it is in use or the removal failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GarbageKind {
    /// An ended pane that is forgotten, with its output.
    EndedPane,
    /// A pane's directory without a record.
    StrayPane,
    /// A worker's files without a record.
    StrayWorker,
    /// The worktree of an ended worker that holds nothing of its own. Never removed by a garbage collection.
    Worktree,
    /// A damaged database that was set aside.
    DamagedDatabase,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ForgetReason {
    /// The pane ended longer ago than `forget_after_hours`.
    Age,
    /// More than `forget_beyond_panes` panes have ended since.
    Count,
    /// All logs together exceed `logs_quota_mb`.
    Quota,
    /// The caller requested the removal of all ended panes.
    Asked,
}

/// Serializes a key as two numbers, which are shorter than a list of sixteen.
mod halves {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::IdempotencyKey;

    pub fn serialize<S: Serializer>(
        key: &IdempotencyKey,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let key = u128::from_le_bytes(key.0);
        [key as u64, (key >> 64) as u64].serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<IdempotencyKey, D::Error> {
        let [low, high] = <[u64; 2]>::deserialize(deserializer)?;
        Ok(IdempotencyKey(
            (u128::from(high) << 64 | u128::from(low)).to_le_bytes(),
        ))
    }
}

/// Bytes as a JSON string of the characters U+0000 to U+00FF: a third of the size of a list of numbers.
pub(crate) mod latin1 {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(
            &bytes
                .iter()
                .map(|byte| char::from(*byte))
                .collect::<String>(),
        )
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.chars()
            .map(|c| u8::try_from(c).map_err(D::Error::custom))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_comes_back_with_all_bits_of_its_key() {
        let key = IdempotencyKey([
            0xf1, 2, 3, 4, 5, 6, 7, 0x88, 9, 10, 11, 12, 13, 14, 15, 0xf6,
        ]);
        let (request, who) = (Request::DaemonStatus, None);
        let sent = ClientMessage::Call {
            id: 1,
            key,
            who,
            request,
        };
        let json = serde_json::to_string(&sent).unwrap();
        let ClientMessage::Call { key: came, .. } = serde_json::from_str(&json).unwrap() else {
            panic!("{json}");
        };
        assert_eq!(came, key, "{json}");
    }
}
