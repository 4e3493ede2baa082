//! The inputs, actions and results of the input queue.

use std::time::Instant;

use fugue_api::{Error, EventId, tools::SendInputReply};

use crate::typing::AgentInputBox;

/// The reply to a `send_input` call.
#[derive(Debug, PartialEq)]
pub struct InputReply<C> {
    pub call: C,
    pub outcome: Result<SendInputReply, Error>,
}

/// The origin of an input, which receives its outcome.
#[derive(Debug)]
pub enum InputOrigin<C> {
    Call(C),
    /// A message to the agent in the pane.
    Message(EventId),
    /// A watcher's injection.
    Injection {
        watcher: u64,
        step: u64,
        enter: bool,
    },
}

/// Whether the next input may begin.
#[derive(Clone, Copy, Debug)]
pub enum InputGate {
    Open,
    /// A person has begun a line.
    DraftInTheWay {
        /// When waiting calls are refused.
        refuse_at: Instant,
        /// When the gate may open without output or typing.
        recheck_at: Option<Instant>,
    },
}

/// The part of the screen where typed text appears.
#[derive(Debug, Default)]
pub struct InputScreen {
    /// The cursor's row and the row above, for a box that wraps.
    pub near_cursor: String,
    pub agent_box: AgentInputBox,
}

/// The backend's acknowledgement of typed bytes.
#[derive(Clone, Copy, Debug)]
pub struct InputAck {
    pub seq: u64,
    pub written: u64,
    pub total: u64,
    pub result: AckResult,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AckResult {
    Written,
    /// The program does not read; the rest follows when it does.
    Pending,
    /// An input with the same key was written before.
    Duplicate,
    /// The terminal's buffer is full, and the bytes were dropped.
    Lost,
}

/// The next action for the pane's task.
#[derive(Debug, PartialEq, Eq)]
pub enum InputStep {
    Nothing,
    /// Probe the foreground process, then call `admit` and `begin`.
    Probe,
    /// Type the bytes, then call `typed`.
    Type {
        key: [u8; 16],
        bytes: Vec<u8>,
    },
}
