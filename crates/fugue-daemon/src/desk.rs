//! Who is to be told the answer to which call.

use std::{collections::HashMap, os::unix::net::UnixStream};

use fugue_api::{
    Error, EventId, Kind,
    wire::{Answer, FromDaemon},
};
use fugue_core::CallId;
use tokio::{
    sync::{mpsc, oneshot},
    task::AbortHandle,
};

use crate::frame;

/// The open calls of all connections.
#[derive(Default)]
pub struct Desk {
    open: HashMap<CallId, Responder>,
    /// Waits that end when their call is cancelled.
    waits: HashMap<CallId, AbortHandle>,
}

/// The way back to one asker. It may be sent to another thread, where the answer is also encoded.
#[derive(Debug)]
pub struct Responder {
    id: u64,
    /// Bounded by the number of calls that a connection may have open.
    back: mpsc::UnboundedSender<Back>,
}

/// An answer on its way to a client.
pub struct Back {
    pub id: u64,
    pub bytes: Vec<u8>,
    /// The call is open until the client says that the answer arrived, or goes away; or another answer follows.
    pub stays_open: bool,
    /// Who has the connection from here on.
    pub moves: Option<oneshot::Sender<UnixStream>>,
}

/// What comes behind an answer.
enum Then {
    Nothing,
    /// That it has arrived, which takes this.
    Takes(EventId),
    Another,
    Moves(oneshot::Sender<UnixStream>),
}

impl Desk {
    pub fn open(&mut self, call: CallId, responder: Responder) {
        self.open.insert(call, responder);
    }

    pub fn take(&mut self, call: CallId) -> Option<Responder> {
        self.open.remove(&call)
    }

    pub fn answer(&mut self, call: CallId, answer: Result<Answer, Error>) {
        // A call that was cancelled has nobody to tell.
        if let Some(responder) = self.take(call) {
            responder.answer(answer);
        }
    }

    /// An answer with something in it that is taken only once it arrived.
    pub fn hand(&mut self, call: CallId, answer: Result<Answer, Error>, event: EventId) {
        // A call that was cancelled has put it back already.
        if let Some(responder) = self.take(call) {
            responder.send(answer, Then::Takes(event));
        }
    }

    pub fn waits(&mut self, call: CallId, wait: AbortHandle) {
        self.waits.retain(|_, wait| !wait.is_finished());
        self.waits.insert(call, wait);
    }

    pub fn cancel(&mut self, call: CallId) {
        self.open.remove(&call);
        if let Some(wait) = self.waits.remove(&call) {
            wait.abort();
        }
    }
}

impl Responder {
    pub fn new(id: u64, back: mpsc::UnboundedSender<Back>) -> Self {
        Self { id, back }
    }

    pub fn answer(self, answer: Result<Answer, Error>) {
        self.send(answer, Then::Nothing);
    }

    /// One answer of several.
    pub fn answer_and_go_on(&self, answer: Result<Answer, Error>) {
        self.send(answer, Then::Another);
    }

    /// The last answer on this connection, which then is somebody else's.
    pub fn answer_and_move(self, answer: Result<Answer, Error>, to: oneshot::Sender<UnixStream>) {
        self.send(answer, Then::Moves(to));
    }

    /// The asker's connection has ended.
    pub fn is_gone(&self) -> bool {
        self.back.is_closed()
    }

    fn send(&self, answer: Result<Answer, Error>, then: Then) {
        let takes = match &then {
            Then::Takes(event) => Some(*event),
            Then::Nothing | Then::Another | Then::Moves(_) => None,
        };
        let frame = FromDaemon::Answer {
            id: self.id,
            answer,
            takes,
        };
        let bytes = frame::encode(&frame).or_else(|error| {
            let answer: Result<Answer, Error> = Err(Error::new(
                Kind::Internal,
                format!("the answer could not be sent: {error}"),
            ));
            frame::encode(&FromDaemon::Answer {
                id: self.id,
                answer,
                takes: None,
            })
        });
        if let Ok(bytes) = bytes {
            let _ = self.back.send(Back {
                id: self.id,
                bytes,
                stays_open: matches!(then, Then::Takes(_) | Then::Another),
                moves: match then {
                    Then::Moves(to) => Some(to),
                    Then::Nothing | Then::Takes(_) | Then::Another => None,
                },
            });
        }
    }
}
