use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The one error that leaves fugue: what kind it is, what was wanted and what is so, and what to try.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    pub kind: ErrorKind,
    pub message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// What sort of refusal it is. The CLI's exit code hangs on it and nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// An argument is wrong; asking again with the same one cannot help.
    InvalidArgument,
    /// The caller may not do this; whoever may is named.
    Denied,
    /// The thing that was named is not there.
    NotFound,
    /// The name fits several things.
    Ambiguous,
    /// The pane has ended, so nothing can be typed into it.
    Ended,
    /// The machine has run out of something: terminals, disk, processes.
    Exhausted,
    /// The daemon or a pane's holder cannot be reached.
    Unavailable,
    /// Something was cut off in the middle and nobody can say whether it happened.
    Uncertain,
    /// A defect of ours.
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
