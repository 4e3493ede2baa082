//! What goes over the daemon's socket: frames of JSON, each behind its length as four bytes, little end first.
//!
//! A client says who it is once, then asks as often as it likes without waiting; answers carry the question's id
//! and come in any order.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{
    Cursor, Error, EventId, OsText, PaneId, RawReply, RunId, Timestamp, ToolCall, ToolReply,
    ToolWait,
    attach::{AttachRequest, AttachResponse},
    inbox_event::InboxEvent,
    run_result::RunResult,
};

/// Raised when an older client or daemon could misread a frame.
pub const PROTOCOL: u32 = 8;

/// The largest frame either side accepts: the largest reply a caller may ask for, as JSON escapes, with room to spare.
pub const MAX_FRAME_BYTES: usize = 128 * 1024 * 1024;

/// The first frame of every connection. Its shape and the welcome's outlive the protocol's number, so that two
/// versions can tell each other which they are.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "frame", rename = "hello")]
pub struct Hello {
    pub protocol: u32,
    pub caller: CallerEnv,
    pub who: CallerIdentity,
}

/// The first frame back.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "frame", rename = "welcome")]
pub struct Welcome {
    pub protocol: u32,
    pub version: String,
    pub pid: u32,
}

// What follows has its variants' names outside: a tag inside would have serde buffer all that is around it.

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(
    clippy::large_enum_variant,
    reason = "a few are on their way at a time, and most are calls"
)]
pub enum ClientMessage {
    /// `key` is the caller's own name for this piece of work: asked again after a broken connection, it is not done
    /// twice. `who` is not whoever said hello, where one connection serves several.
    Call {
        id: u64,
        #[serde(with = "halves")]
        key: IdempotencyKey,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        who: Option<CallerIdentity>,
        ask: Request,
    },
    /// Nobody waits for the answer to `id` any more, or what it gave did not arrive.
    Cancel { id: u64 },
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(
    clippy::large_enum_variant,
    reason = "a few are on their way at a time, and most are answers"
)]
pub enum DaemonMessage<R = ToolReply> {
    Answer {
        id: u64,
        answer: Result<Response<R>, Error>,
        /// An event that the answer takes, once it has arrived.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        takes: Option<EventId>,
    },
    /// The daemon ends because somebody asked it to; nothing more will be answered.
    Goodbye,
}

/// 128 random bits that name a call for as long as anybody remembers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct IdempotencyKey(pub [u8; 16]);

/// The calling client's world: what a pane made by it starts from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CallerEnv {
    pub cwd: OsText,
    pub env: Vec<(OsText, OsText)>,
    pub umask: u32,
    #[serde(default)]
    pub setting_names: SettingNames,
}

impl CallerEnv {
    /// The caller of requests that the daemon makes by itself, and of probes: no environment, in the root directory.
    pub fn nobody() -> Self {
        Self {
            cwd: OsText::Text("/".into()),
            env: Vec::new(),
            umask: 0o22,
            setting_names: SettingNames::Prefixed,
        }
    }
}

/// Which variables of a caller's environment are settings of fugue's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SettingNames {
    /// `FUGUE_X`. A name such as `MODEL` means something else to other programs.
    #[default]
    Prefixed,
    /// Also `X`, where there is no `FUGUE_X`: an MCP server's environment is written for it.
    Short,
}

/// Who a caller says it is, and so whose inbox it has. The daemon believes it as far as the process that calls may be
/// that: a process in an agent's pane is that agent, whatever it says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "who", rename_all = "snake_case")]
pub enum CallerIdentity {
    /// A session that was named, or the lead of a project; whoever names it shares its inbox.
    Session { id: String },
    /// A person who looks in on a project's lead.
    Person { project: String },
    /// As its environment says.
    Worker {
        session: String,
        agent: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pane: Option<PaneId>,
    },
}

/// What an agent's hook tells, in our words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "news", rename_all = "snake_case")]
pub enum HookReport {
    /// It was given something to do.
    PromptGiven,
    /// It is through with that, and this is its last message.
    TurnEnded { message: String },
    /// It could not ask its model, and waits.
    TurnFailed { message: String },
    /// It asks a person, and does nothing before it is answered.
    NeedsInput { prompt: String },
    /// It goes on.
    InputNoLongerNeeded,
}

impl HookReport {
    /// Of a turn, which nothing else tells of: it is kept where no daemon hears it. A question is seen on the screen too.
    pub fn is_kept(&self) -> bool {
        match self {
            Self::PromptGiven | Self::TurnEnded { .. } | Self::TurnFailed { .. } => true,
            Self::NeedsInput { .. } | Self::InputNoLongerNeeded => false,
        }
    }
}

/// A tool call, or something only our own programs ask.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    Tool {
        call: ToolCall,
    },
    /// All sessions and panes, however many there are.
    Overview,
    /// The panes of the caller's tmux that fugue has not met, as an overview of nothing else.
    TmuxPanes,
    /// Waits until a pane's raw output goes beyond `from`, and gives what is there.
    Follow {
        pane: String,
        from: u64,
    },
    /// Waits until a run has changed beyond `seen`, and gives what is known of it, without outputs.
    RunNews {
        run: RunId,
        seen: u64,
    },
    /// An event that was told has reached whoever asked for it.
    AckEvent {
        event: EventId,
    },
    /// The events of the caller's inbox behind `after`, taken or not, at most so many.
    Inbox {
        after: EventId,
        most: usize,
    },
    /// From a worker's own agent.
    Hook {
        news: HookReport,
    },
    /// Sets a pane's size.
    Resize {
        pane: String,
        rows: u16,
        cols: u16,
    },
    /// Lists what nothing needs in the state directory and, unless it is a dry run, removes it.
    CollectGarbage {
        dry_run: bool,
        /// Forget every ended pane that no run needs, also within the limits.
        #[serde(default)]
        all_ended: bool,
    },
    /// From a client that is attached.
    Look {
        look: AttachRequest,
    },
    DaemonStatus,
    /// Ends the daemon, and with `panes` every pane before that.
    DaemonStop {
        panes: bool,
    },
}

impl Request {
    /// The id or name of the request's pane, as the caller gave it.
    pub fn pane(&self) -> Option<&str> {
        match self {
            Self::Tool { call } => call.pane(),
            Self::Follow { pane, .. } | Self::Resize { pane, .. } => Some(pane),
            Self::Overview
            | Self::TmuxPanes
            | Self::RunNews { .. }
            | Self::AckEvent { .. }
            | Self::Inbox { .. }
            | Self::Hook { .. }
            | Self::CollectGarbage { .. }
            | Self::Look { .. }
            | Self::DaemonStatus
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
            | Self::RunNews { .. }
            | Self::AckEvent { .. }
            | Self::Inbox { .. }
            | Self::Hook { .. }
            | Self::CollectGarbage { .. }
            | Self::Look { .. }
            | Self::DaemonStatus
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
    Followed {
        more: OutputChunk,
    },
    RunNews {
        news: RunProgress,
    },
    Inbox {
        inbox: InboxListing,
    },
    /// It is on record.
    Noted,
    Resized,
    Looked {
        found: AttachResponse,
    },
    Garbage {
        collected: GarbageReport,
    },
    DaemonStatus {
        status: DaemonStatus,
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
            Self::Followed { more } => Response::Followed { more },
            Self::RunNews { news } => Response::RunNews { news },
            Self::Inbox { inbox } => Response::Inbox { inbox },
            Self::Noted => Response::Noted,
            Self::Resized => Response::Resized,
            Self::Looked { found } => Response::Looked { found },
            Self::Garbage { collected } => Response::Garbage { collected },
            Self::DaemonStatus { status } => Response::DaemonStatus { status },
            Self::Stopping { panes_closed } => Response::Stopping { panes_closed },
        })
    }
}

/// A piece of a pane's raw output, exactly.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OutputChunk {
    #[serde(with = "latin1")]
    pub raw: Vec<u8>,
    /// Where `raw` begins: later than asked for, if that is no longer kept.
    pub from: u64,
    /// The pane has ended and nothing will ever follow.
    pub ended: bool,
    /// The place behind `raw`.
    pub cursor: Cursor,
}

/// How a run stands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunProgress {
    /// To be given back as `seen`.
    pub version: u64,
    pub run: RunResult,
}

/// A look into an inbox.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InboxListing {
    pub session_id: String,
    pub events: Vec<InboxRow>,
    /// There are more behind the last of them.
    pub more: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InboxRow {
    pub event_id: EventId,
    pub at: Timestamp,
    pub taken: bool,
    /// Older events that this one stands for, because the inbox was full.
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
    /// How often a daemon has started on this state.
    pub epoch: u64,
    #[serde(default)]
    pub store: StoreStatus,
    /// What the output logs of all panes take.
    #[serde(default)]
    pub logs: LogsStatus,
}

/// Whether changes can be recorded.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StoreStatus {
    pub state: StoreState,
    /// Why commits fail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Since when they do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// Commits that are not on disk yet.
    pub unstored_commits: u64,
    /// Records that could not be read and are set aside.
    pub quarantined_records: u64,
    /// What the daemon found and did when it opened the database.
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
    /// Nothing will be recorded any more, and the daemon stops.
    Ended,
}

/// Sizes of the output logs, beside the quota over all of them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LogsStatus {
    pub ended_bytes: u64,
    pub running_bytes: u64,
    /// Absent: there is no quota.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota_bytes: Option<u64>,
    /// That the quota is exceeded and nothing more can be forgotten, with what to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// What a garbage collection found and, unless it was a dry run, removed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GarbageReport {
    pub dry_run: bool,
    pub items: Vec<GarbageItem>,
    /// Bytes of all items that were removed, or would be.
    pub freed_bytes: u64,
    /// Free space of the state directory's disk afterwards.
    pub free_disk_bytes: u64,
}

/// One file or directory that nothing needs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GarbageItem {
    pub kind: GarbageKind,
    /// Path below the state directory.
    pub path: String,
    pub bytes: u64,
    /// Why an ended pane is forgotten.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<ForgetReason>,
    /// Why it stays, if it could not be removed or is in use.
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
    /// A database that was set aside because it was damaged.
    DamagedDatabase,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ForgetReason {
    /// It ended longer ago than `forget_after_hours`.
    Age,
    /// More than `forget_beyond_panes` panes have ended after it.
    Count,
    /// All logs together exceed `logs_quota_mb`.
    Quota,
    /// The caller asked for all ended panes.
    Asked,
}

/// A key as two numbers: less to write and to read than sixteen.
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
        let (ask, who) = (Request::DaemonStatus, None);
        let sent = ClientMessage::Call {
            id: 1,
            key,
            who,
            ask,
        };
        let json = serde_json::to_string(&sent).unwrap();
        let ClientMessage::Call { key: came, .. } = serde_json::from_str(&json).unwrap() else {
            panic!("{json}");
        };
        assert_eq!(came, key, "{json}");
    }
}
