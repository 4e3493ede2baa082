//! Events that inboxes hold.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    PaneId, QuestionId, RunId,
    pane_state::{AttentionRequest, StateSource},
    tools::ExpectResult,
};

#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    JsonSchema,
    clap::ValueEnum,
)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum EventType {
    #[value(name = "worker_complete")]
    WorkerComplete,
    Message,
    Question,
    Answer,
    #[value(name = "worker_needs_input")]
    WorkerNeedsInput,
    #[value(name = "worker_idle")]
    WorkerIdle,
    #[value(name = "worker_paused")]
    WorkerPaused,
    #[value(name = "worker_late")]
    WorkerLate,
    #[value(name = "run_complete")]
    RunComplete,
    Watcher,
    /// A decision of a watcher that is not `continue`. Only in filters.
    #[value(name = "watcher_end")]
    WatcherEnd,
    #[serde(rename = "*")]
    #[value(name = "*")]
    Any,
}

/// An event in an inbox, in its stored form.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum InboxEvent {
    /// A worker's turn has ended, or its process.
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
    /// An answer that arrived after the call that asked had returned.
    Answer {
        question_id: QuestionId,
        from: String,
        body: String,
    },
    /// A worker waits for the input of a person.
    WorkerNeedsInput {
        worker_id: String,
        instance: u32,
        prompt: String,
        /// The source: `hook`, `tty_read` or `screen`.
        by: StateSource,
        /// Absent in events of earlier versions.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pane_id: Option<PaneId>,
        #[serde(default, flatten, skip_serializing_if = "Option::is_none")]
        request: Option<AttentionRequest>,
    },
    /// A worker's turn has ended without a report: refused, interrupted, or an error of its model.
    WorkerIdle {
        worker_id: String,
        instance: u32,
        /// The last lines of its screen.
        message: String,
    },
    /// A usage limit has stopped a worker.
    WorkerPaused {
        worker_id: String,
        instance: u32,
        /// In the agent's words.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        resume_at: Option<String>,
        message: String,
    },
    /// The `deadline_secs` of a worker have passed; it continues.
    WorkerLate {
        worker_id: String,
        instance: u32,
    },
    /// A run whose end no call has returned.
    RunComplete(RunCompletion),
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
            Self::WorkerIdle => "worker_idle",
            Self::WorkerPaused => "worker_paused",
            Self::WorkerLate => "worker_late",
            Self::RunComplete => "run_complete",
            Self::Watcher => "watcher",
            Self::WatcherEnd => "watcher_end",
            Self::Any => "*",
        }
    }
}

impl InboxEvent {
    /// The source of the event. `None` for messages, questions and answers, which are never replaced.
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
            | Self::WorkerIdle {
                worker_id: id,
                instance,
                ..
            }
            | Self::WorkerPaused {
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
            Self::RunComplete(_) => Some(EventSource::Runs),
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
            Self::WorkerIdle { .. } => EventType::WorkerIdle,
            Self::WorkerPaused { .. } => EventType::WorkerPaused,
            Self::WorkerLate { .. } => EventType::WorkerLate,
            Self::RunComplete(_) => EventType::RunComplete,
            Self::Watcher { .. } => EventType::Watcher,
        }
    }

    /// The worker or sender that the `from` filter of `wait_for_event` compares with.
    pub fn sender(&self) -> Option<&str> {
        match self {
            Self::WorkerComplete(WorkerCompletion { worker_id, .. })
            | Self::WorkerNeedsInput { worker_id, .. }
            | Self::WorkerIdle { worker_id, .. }
            | Self::WorkerPaused { worker_id, .. }
            | Self::WorkerLate { worker_id, .. } => Some(worker_id),
            Self::Message { from, .. }
            | Self::Question { from, .. }
            | Self::Answer { from, .. } => Some(from),
            Self::RunComplete(_) | Self::Watcher { .. } => None,
        }
    }
}

/// The end of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum RunCompletion {
    /// The result of an expect, without output.
    Expect(Box<ExpectResult>),
    /// A run with outputs, which `fugue_wait` returns.
    Other { run_id: RunId, status: String },
}

impl RunCompletion {
    pub fn run_id(&self) -> Option<&RunId> {
        match self {
            Self::Expect(result) => result.run_id.as_ref(),
            Self::Other { run_id, .. } => Some(run_id),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WorkerCompletion {
    pub worker_id: String,
    /// 0 if fugue did not spawn the worker.
    pub instance: u32,
    pub status: CompletionStatus,
    /// Changes since the worker was spawned, as lines of `git diff --stat`.
    pub changes: Vec<String>,
    /// Lines left out of `changes`.
    #[serde(default, skip_serializing_if = "crate::checks::is_zero")]
    pub omitted_changes: u64,
    /// The last message of the worker, else the end of its output.
    pub message: String,
    #[serde(default, skip_serializing_if = "crate::checks::is_zero")]
    pub omitted_chars: u64,
    /// The file with the whole message, if it was cut.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_file: Option<String>,
    /// The branch of the worker's worktree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// The worker's directory, if it is not the lead's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<String>,
    /// The number of the prompt, from 1.
    pub turn: u32,
    /// The process ended without a report; status and message come from its exit.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub synthesized: bool,
    /// Why `changes` may be incomplete or not only this worker's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, clap::ValueEnum,
)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum CompletionStatus {
    Success,
    Error,
}

/// The source of an event whose newer events of the same type replace older ones in a full inbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventSource<'a> {
    Worker {
        id: &'a str,
        instance: u32,
    },
    Pane(PaneId),
    /// Any run: results of runs are stored elsewhere, and `get_status` lists them.
    Runs,
}
