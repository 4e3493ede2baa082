use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The error of every tool, CLI verb and socket request: a kind, a message, and what to try.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    pub kind: ErrorKind,
    pub message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// The kind of an error, which decides the exit code of the CLI.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// An argument is wrong; a repeated call fails again.
    InvalidArgument,
    /// The caller has no right to do this; the message names the callers that have.
    Denied,
    /// The named pane, run, worker or question does not exist.
    NotFound,
    /// The name matches several panes, runs or workers.
    Ambiguous,
    /// The pane has ended and accepts no input.
    Ended,
    /// A limit of the machine is reached: terminals, disk, processes.
    Exhausted,
    /// The daemon or a pane's holder cannot be reached.
    Unavailable,
    /// The call was interrupted, and its effect is unknown.
    Uncertain,
    /// A defect of fugue.
    Internal,
}

impl Error {
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            hint: None,
        }
    }

    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidArgument, message)
    }

    pub fn denied(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Denied, message)
    }

    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Unavailable, message)
    }

    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Internal, message)
    }

    /// A response of another kind than the request has.
    pub fn unexpected(response: &impl fmt::Debug) -> Self {
        Self::internal(format!("unexpected response from the daemon: {response:?}"))
    }

    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// 2 for wrong usage, 1 for everything else.
    pub fn exit_code(&self) -> u8 {
        match self.kind {
            ErrorKind::InvalidArgument | ErrorKind::Ambiguous => 2,
            ErrorKind::Denied
            | ErrorKind::NotFound
            | ErrorKind::Ended
            | ErrorKind::Exhausted
            | ErrorKind::Unavailable
            | ErrorKind::Uncertain
            | ErrorKind::Internal => 1,
        }
    }
}
