//! The team tools: workers, what they report, messages and questions.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    Error, EventId, PaneId, QuestionId, RunId, Timestamp,
    panes::{Backend, filled, good_env, no_nul},
    runs::RunLayout,
};

// A body, an answer or a message is read by a model, whole.
const LONGEST_TEXT: usize = 8_000;
// One argument of a program; the kernel takes no longer one.
const LONGEST_PROMPT: usize = 100_000;
const MOST_CHANGES: usize = 1_000;
// A day. Whoever waits longer asks again.
const LONGEST_WAIT_SECS: f64 = 86_400.0;

/// Start an agent in a pane with a prompt. It reports by wait_for_event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[serde(deny_unknown_fields)]
pub struct SpawnWorker {
    /// Letters, digits, `-`, `_`, `.`.
    pub name: String,
    /// Its task; for `shell` a command.
    pub prompt: String,
    /// claude, codex, gemini, qwen, shell, or one of config.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "clap", arg(long))]
    pub agent: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "clap",
        arg(
            short = 'c',
            long,
            value_name = "DIR",
            help = "Where it works; default here"
        )
    )]
    pub cwd: Option<String>,
    /// A git worktree, on branch fugue/<name>.
    #[serde(default)]
    #[cfg_attr(feature = "clap", arg(long))]
    pub worktree: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "clap", arg(long, help = "The agent's model"))]
    pub model: Option<String>,
    /// More flags for the agent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "clap", arg(last = true, value_name = "ARG"))]
    pub args: Vec<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[cfg_attr(feature = "clap", arg(skip))]
    pub env: BTreeMap<String, String>,
    /// tiled: visible in your session.
    #[serde(default)]
    #[cfg_attr(feature = "clap", arg(skip))]
    pub layout: RunLayout,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "clap",
        arg(long, value_enum, help = "Who has the terminal; default native")
    )]
    pub backend: Option<Backend>,
    /// Then `worker_late` is told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(
        feature = "clap",
        arg(
            long,
            value_name = "SECS",
            help = "Tell of it as late if it has not reported by then"
        )
    )]
    pub deadline_secs: Option<f64>,
}

impl SpawnWorker {
    pub(crate) fn check(&self) -> Result<(), Error> {
        word("name", &self.name)?;
        filled("prompt", &self.prompt)?;
        no_nul("prompt", &self.prompt)?;
        if self.prompt.len() > LONGEST_PROMPT {
            return Err(Error::invalid(format!(
                "prompt: wanted at most {LONGEST_PROMPT} bytes, got {}",
                self.prompt.len()
            ))
            .hint("put it into a file and let the prompt say where that is"));
        }
        if let Some(agent) = &self.agent {
            word("agent", agent)?;
        }
        if let Some(model) = &self.model {
            filled("model", model)?;
            no_nul("model", model)?;
        }
        for one in &self.args {
            no_nul("args", one)?;
        }
        good_env("env", &self.env)?;
        match self.deadline_secs {
            Some(secs) => seconds("deadline_secs", secs, 7.0 * LONGEST_WAIT_SECS),
            None => Ok(()),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SpawnWorkerReply {
    /// `<name>-<agent>`.
    pub worker_id: String,
    pub pane_id: PaneId,
    /// Where it reports: your inbox.
    pub session_id: String,
    pub agent: String,
    /// Counts those who have had this id.
    pub instance: u32,
    /// Where it works.
    pub cwd: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
}

/// Block until an event is in your inbox and take it: oldest first, each once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WaitForEvent {
    /// `*`: any. The others stay queued.
    #[serde(default = "WaitForEvent::types")]
    pub types: Vec<EventType>,
    /// Then `type` is `timeout`.
    #[serde(default = "timeout_secs")]
    #[schemars(range(min = 0, max = 86400))]
    pub timeout_secs: f64,
    /// Only this sender's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The first behind it, taken or not; takes none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after_event_id: Option<EventId>,
}

impl WaitForEvent {
    pub fn types() -> Vec<EventType> {
        vec![EventType::WorkerComplete]
    }

    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.types.is_empty() {
            return Err(Error::invalid("types: is empty, and nothing would fit")
                .hint("`[\"*\"]` is any event"));
        }
        if let Some(from) = &self.from {
            filled("from", from)?;
        }
        seconds("timeout_secs", self.timeout_secs, LONGEST_WAIT_SECS)
    }

    pub fn wants(&self, kind: EventType) -> bool {
        self.types
            .iter()
            .any(|wanted| *wanted == kind || *wanted == EventType::Any)
    }
}

#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum EventType {
    #[cfg_attr(feature = "clap", value(name = "worker_complete"))]
    WorkerComplete,
    Message,
    Question,
    Answer,
    #[cfg_attr(feature = "clap", value(name = "worker_needs_input"))]
    WorkerNeedsInput,
    #[cfg_attr(feature = "clap", value(name = "worker_late"))]
    WorkerLate,
    #[cfg_attr(feature = "clap", value(name = "run_complete"))]
    RunComplete,
    Watcher,
    #[serde(rename = "*")]
    #[cfg_attr(feature = "clap", value(name = "*"))]
    Any,
}

/// Something that happened, as it is stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum InboxEvent {
    /// A worker's turn is over, or the worker is.
    WorkerComplete(WorkerCompletion),
    Message {
        from: String,
        body: String,
    },
    Question {
        from: String,
        question_id: QuestionId,
        body: String,
    },
    /// To a question whose asker had stopped waiting.
    Answer {
        question_id: QuestionId,
        from: String,
        body: String,
    },
    /// A worker waits for a person.
    WorkerNeedsInput {
        worker_id: String,
        instance: u32,
        prompt: String,
        /// How that is known: `hook`, `tty_read` or `screen`.
        by: crate::panes::StateSource,
    },
    /// Its `deadline_secs` passed; it goes on.
    WorkerLate {
        worker_id: String,
        instance: u32,
    },
    /// A run that nobody waited for any more.
    RunComplete {
        run_id: RunId,
        status: String,
    },
    Watcher {
        pane_id: PaneId,
        decision: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        injection: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WorkerCompletion {
    pub worker_id: String,
    /// 0: not spawned by fugue.
    pub instance: u32,
    pub status: CompletionStatus,
    /// What changed since it was spawned, a line each as `git diff --stat` has it.
    pub changes: Vec<String>,
    /// Lines of `changes` that were left out.
    #[serde(default, skip_serializing_if = "crate::panes::is_zero")]
    pub omitted_changes: u64,
    /// Its own last message, else the end of its output.
    pub message: String,
    #[serde(default, skip_serializing_if = "crate::panes::is_zero")]
    pub omitted_chars: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<String>,
    /// Counts its prompts, from 1.
    pub turn: u32,
    /// Its process ended without a word; this was made from how it ended.
    pub synthesized: bool,
    /// Why `changes` may not be all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum CompletionStatus {
    Success,
    Error,
}

/// Who or what an event is about, where a newer event of the same kind makes an older one out of date.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventSource<'a> {
    Worker {
        id: &'a str,
        instance: u32,
    },
    Pane(PaneId),
    /// Any run: the results of runs are kept elsewhere, and `get_status` lists them.
    Runs,
}

impl InboxEvent {
    /// `None`: somebody's own words, which nothing replaces.
    pub fn source(&self) -> Option<EventSource<'_>> {
        match self {
            Self::WorkerComplete(WorkerCompletion {
                worker_id: id,
                instance,
                ..
            })
            | Self::WorkerNeedsInput {
                worker_id: id,
                instance,
                ..
            }
            | Self::WorkerLate {
                worker_id: id,
                instance,
            } => Some(EventSource::Worker {
                id,
                instance: *instance,
            }),
            Self::Watcher { pane_id, .. } => Some(EventSource::Pane(*pane_id)),
            Self::RunComplete { .. } => Some(EventSource::Runs),
            Self::Message { .. } | Self::Question { .. } | Self::Answer { .. } => None,
        }
    }

    pub fn kind(&self) -> EventType {
        match self {
            Self::WorkerComplete(_) => EventType::WorkerComplete,
            Self::Message { .. } => EventType::Message,
            Self::Question { .. } => EventType::Question,
            Self::Answer { .. } => EventType::Answer,
            Self::WorkerNeedsInput { .. } => EventType::WorkerNeedsInput,
            Self::WorkerLate { .. } => EventType::WorkerLate,
            Self::RunComplete { .. } => EventType::RunComplete,
            Self::Watcher { .. } => EventType::Watcher,
        }
    }

    /// Who it is from or about, as `from` of a wait names it.
    pub fn sender(&self) -> Option<&str> {
        match self {
            Self::WorkerComplete(WorkerCompletion { worker_id, .. })
            | Self::WorkerNeedsInput { worker_id, .. }
            | Self::WorkerLate { worker_id, .. } => Some(worker_id),
            Self::Message { from, .. }
            | Self::Question { from, .. }
            | Self::Answer { from, .. } => Some(from),
            Self::RunComplete { .. } | Self::Watcher { .. } => None,
        }
    }
}

/// One event, or the news that there was none in time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WaitForEventReply {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event_id: Option<EventId>,
    pub at: Timestamp,
    #[serde(flatten)]
    pub what: WaitOutcome,
    /// How many older events of the same type and from the same worker, watcher or run this one stands for, because
    /// the inbox was full.
    #[serde(default, skip_serializing_if = "crate::panes::is_zero")]
    pub dropped_events: u64,
    /// How many others are queued, by type.
    pub pending: BTreeMap<EventType, u64>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum WaitOutcome {
    Event(InboxEvent),
    Nothing(WaitTimeout),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum WaitTimeout {
    Timeout {
        waited_secs: f64,
        /// `client_limit`: your client would have given up; wait again.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
}

/// Report that your work is done (or failed) to whoever spawned you.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[serde(deny_unknown_fields)]
pub struct NotifyCompletion {
    /// Default your lead's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "clap", arg(long, value_name = "S"))]
    pub session_id: Option<String>,
    /// Default yourself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "clap", arg(long, value_name = "W"))]
    pub worker_id: Option<String>,
    #[cfg_attr(feature = "clap", arg(value_enum, help = "How it went"))]
    pub status: CompletionStatus,
    /// Default what git says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "clap", arg(long = "change", value_name = "LINE"))]
    pub changes: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "clap", arg(short, long, help = "What was done, or why not"))]
    pub message: Option<String>,
}

impl NotifyCompletion {
    pub(crate) fn check(&self) -> Result<(), Error> {
        for (field, id) in [
            ("session_id", &self.session_id),
            ("worker_id", &self.worker_id),
        ] {
            if let Some(id) = id {
                identity(field, id)?;
            }
        }
        if let Some(changes) = &self.changes
            && changes.len() > MOST_CHANGES
        {
            return Err(Error::invalid(format!(
                "changes: wanted at most {MOST_CHANGES} lines, got {}",
                changes.len()
            )));
        }
        bounded(
            "changes",
            &self.changes.as_deref().unwrap_or_default().concat(),
        )?;
        bounded("message", self.message.as_deref().unwrap_or_default())
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NotifyCompletionReply {
    pub event_id: EventId,
}

/// Leave a message in somebody's inbox.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SendMessage {
    /// A worker's id; default whoever spawned you.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    pub body: String,
    /// type: into its pane, when that is idle.
    #[serde(default)]
    pub deliver: MessageDelivery,
}

impl SendMessage {
    pub(crate) fn check(&self) -> Result<(), Error> {
        filled("body", &self.body)?;
        bounded("body", &self.body)?;
        self.to.as_deref().map_or(Ok(()), |to| identity("to", to))
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum MessageDelivery {
    #[default]
    Inbox,
    Type,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SendMessageReply {
    pub event_id: EventId,
    pub delivered: DeliveryStatus,
    /// Why it was not typed yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum DeliveryStatus {
    /// In the inbox; one that is to be typed waits for the pane to be idle.
    Queued,
    /// In the pane, but not seen to be taken.
    Typed,
    /// The program took it.
    Submitted,
}

/// Ask whoever spawned you (or a worker) and block for the answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AskQuestion {
    /// A worker's id; default whoever spawned you.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    pub body: String,
    /// Then `pending`; the answer comes as an event.
    #[serde(default = "timeout_secs")]
    #[schemars(range(min = 0, max = 86400))]
    pub timeout_secs: f64,
    /// The answer if none comes in time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
}

impl AskQuestion {
    pub(crate) fn check(&self) -> Result<(), Error> {
        filled("body", &self.body)?;
        bounded("body", &self.body)?;
        bounded("default", self.default.as_deref().unwrap_or_default())?;
        seconds("timeout_secs", self.timeout_secs, LONGEST_WAIT_SECS)?;
        self.to.as_deref().map_or(Ok(()), |to| identity("to", to))
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AskQuestionReply {
    pub question_id: QuestionId,
    pub status: QuestionStatus,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    /// Who answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum QuestionStatus {
    Answered,
    /// Nobody has answered; a later answer comes as an event.
    Pending,
    /// Nobody answered in time, and the default holds.
    Default,
}

/// Answer a question event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[serde(deny_unknown_fields)]
pub struct AnswerQuestion {
    #[cfg_attr(feature = "clap", arg(value_name = "QUESTION", help = "Its id"))]
    pub question_id: QuestionId,
    #[cfg_attr(feature = "clap", arg(help = "What to tell whoever asked"))]
    pub answer: String,
}

impl AnswerQuestion {
    pub(crate) fn check(&self) -> Result<(), Error> {
        filled("answer", &self.answer)?;
        bounded("answer", &self.answer)
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AnswerQuestionReply {
    pub question_id: QuestionId,
    pub delivered: AnswerDelivery,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum AnswerDelivery {
    /// To the call that waited for it.
    Returned,
    /// Into the asker's inbox, as an `answer` event.
    Queued,
}

/// A worker in a list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WorkerRow {
    pub worker_id: String,
    pub instance: u32,
    pub session_id: String,
    pub agent: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pane_id: Option<PaneId>,
    pub state: WorkerState,
    pub turn: u32,
    pub started_at: Timestamp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum WorkerState {
    Starting,
    Working,
    NeedsInput,
    /// It has reported and waits for its next prompt.
    Resting,
    Ended,
}

fn timeout_secs() -> f64 {
    300.0
}

/// A name that is part of a branch, a file and an id.
fn word(field: &str, given: &str) -> Result<(), Error> {
    let good = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let fits = (1..=64).contains(&given.len())
        && given.chars().all(good)
        && !given.starts_with(['-', '.'])
        && !given.ends_with('.')
        && !given.contains("..")
        && !given.ends_with(".lock");
    if fits {
        Ok(())
    } else {
        Err(Error::invalid(format!(
            "{field}: wanted 1 to 64 letters, digits, `-`, `_` or `.`, got {given:?}"
        )))
    }
}

/// The id of an inbox or a worker, which others may have made.
fn identity(field: &str, given: &str) -> Result<(), Error> {
    let fits = !given.trim().is_empty()
        && given.chars().count() <= 256
        && !given.chars().any(char::is_control);
    if fits {
        Ok(())
    } else {
        Err(Error::invalid(format!(
            "{field}: wanted 1 to 256 printable characters, got {given:?}"
        )))
    }
}

pub(crate) fn bounded(field: &str, given: &str) -> Result<(), Error> {
    let chars = given.chars().count();
    if chars <= LONGEST_TEXT {
        Ok(())
    } else {
        Err(Error::invalid(format!(
            "{field}: wanted at most {LONGEST_TEXT} characters, got {chars}"
        ))
        .hint("put it into a file and say where that is"))
    }
}

fn seconds(field: &str, given: f64, most: f64) -> Result<(), Error> {
    if (0.0..=most).contains(&given) {
        Ok(())
    } else {
        Err(Error::invalid(format!(
            "{field}: wanted 0 to {most} seconds, got {given}"
        )))
    }
}
