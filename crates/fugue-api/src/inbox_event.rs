use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{PaneId, QuestionId, RunId, pane_state::StateSource};

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
        by: StateSource,
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

impl EventType {
    /// The name in tool arguments and replies.
    pub fn name(self) -> &'static str {
        match self {
            Self::WorkerComplete => "worker_complete",
            Self::Message => "message",
            Self::Question => "question",
            Self::Answer => "answer",
            Self::WorkerNeedsInput => "worker_needs_input",
            Self::WorkerLate => "worker_late",
            Self::RunComplete => "run_complete",
            Self::Watcher => "watcher",
            Self::Any => "*",
        }
    }
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

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WorkerCompletion {
    pub worker_id: String,
    /// 0: not spawned by fugue.
    pub instance: u32,
    pub status: CompletionStatus,
    /// What changed since it was spawned, a line each as `git diff --stat` has it.
    pub changes: Vec<String>,
    /// Lines of `changes` that were left out.
    #[serde(default, skip_serializing_if = "crate::checks::is_zero")]
    pub omitted_changes: u64,
    /// Its own last message, else the end of its output.
    pub message: String,
    #[serde(default, skip_serializing_if = "crate::checks::is_zero")]
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
