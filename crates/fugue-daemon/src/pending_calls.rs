//! Pending calls and the channels for their replies.

use std::{
    collections::HashMap,
    os::unix::net::UnixStream,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use fugue_api::{
    Error, ErrorKind, EventId,
    wire::{DaemonMessage, Response},
};
use fugue_core::CallId;
use tokio::{
    sync::{mpsc, oneshot},
    task::AbortHandle,
};

use fugue_client::frame;

/// The pending calls of all connections.
#[derive(Default)]
pub struct PendingCalls {
    open: HashMap<CallId, Responder>,
    /// Tasks that are aborted when their call is cancelled.
    waits: HashMap<CallId, AbortHandle>,
}

/// Sends the reply of a call to the client's connection. A responder may move to another thread, which then encodes the reply.
#[derive(Debug)]
pub struct Responder {
    id: u64,
    /// Bounded by the number of calls that a connection may have open and, on client connections, by the bytes in `unread`.
    back: mpsc::UnboundedSender<OutgoingReply>,
    unread: Arc<UnreadReplies>,
}

/// Bytes of replies that a client has not read yet.
#[derive(Debug)]
pub struct UnreadReplies {
    bytes: AtomicU64,
    max_bytes: u64,
}

impl UnreadReplies {
    pub fn with_limit(max_bytes: u64) -> Arc<Self> {
        Arc::new(Self {
            bytes: AtomicU64::new(0),
            max_bytes,
        })
    }

    /// Counts another reply, if the limit allows. A single reply always fits.
    fn admit(self: &Arc<Self>, bytes: usize) -> Option<UnreadBytes> {
        let bytes = bytes as u64;
        let before = self.bytes.fetch_add(bytes, Ordering::Relaxed);
        let counted = UnreadBytes {
            replies: self.clone(),
            bytes,
        };
        (before == 0 || before.saturating_add(bytes) <= self.max_bytes).then_some(counted)
    }

    /// Counts a reply that is short and therefore never refused.
    fn admit_always(self: &Arc<Self>, bytes: usize) -> UnreadBytes {
        let bytes = bytes as u64;
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        UnreadBytes {
            replies: self.clone(),
            bytes,
        }
    }

    fn refusal(&self) -> Error {
        Error::new(
            ErrorKind::Exhausted,
            format!(
                "{} bytes of replies wait for this client to read them, and the limit is {} \
                 (`client_max_unread_bytes`)",
                self.bytes.load(Ordering::Relaxed),
                self.max_bytes
            ),
        )
        .hint("this reply was dropped; read the others, then retry the call")
    }
}

/// A share of the unread bytes, released when the reply was written or the connection is closed.
struct UnreadBytes {
    replies: Arc<UnreadReplies>,
    bytes: u64,
}

impl Drop for UnreadBytes {
    fn drop(&mut self) {
        self.replies.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// An encoded reply for the connection task.
pub struct OutgoingReply {
    pub id: u64,
    pub bytes: Vec<u8>,
    pub then: AfterReply,
    _unread: UnreadBytes,
}

impl OutgoingReply {
    pub fn closes_call(&self) -> bool {
        match self.then {
            AfterReply::CloseCall | AfterReply::CancelCall | AfterReply::MoveConnection(_) => true,
            AfterReply::AwaitAck(_) | AfterReply::AwaitNextReply => false,
        }
    }
}

/// What the connection task does with the call after its reply.
#[derive(Debug)]
pub enum AfterReply {
    CloseCall,
    /// The call stays open until the client acks this event.
    AwaitAck(EventId),
    AwaitNextReply,
    /// The reply was refused because of the limit, and the call's event must be released.
    CancelCall,
    /// The connection gets another owner.
    MoveConnection(oneshot::Sender<UnixStream>),
}

impl PendingCalls {
    pub fn open(&mut self, call: CallId, responder: Responder) {
        self.open.insert(call, responder);
    }

    /// Whether the call is not answered yet.
    pub fn is_open(&self, call: CallId) -> bool {
        self.open.contains_key(&call)
    }

    pub fn take(&mut self, call: CallId) -> Option<Responder> {
        self.open.remove(&call)
    }

    pub fn answer(&mut self, call: CallId, answer: Result<Response, Error>) {
        // The call was cancelled.
        if let Some(responder) = self.take(call) {
            responder.answer(answer);
        }
    }

    /// Sends a reply with a leased event, which is acked when the client acknowledges the reply.
    pub fn answer_with_lease(
        &mut self,
        call: CallId,
        answer: Result<Response, Error>,
        event: EventId,
    ) {
        // A cancelled call has released the event already.
        if let Some(responder) = self.take(call) {
            responder.send(answer, AfterReply::AwaitAck(event));
        }
    }

    pub fn set_wait(&mut self, call: CallId, wait: AbortHandle) {
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
    pub fn new(
        id: u64,
        back: mpsc::UnboundedSender<OutgoingReply>,
        unread: Arc<UnreadReplies>,
    ) -> Self {
        Self { id, back, unread }
    }

    pub fn answer(self, answer: Result<Response, Error>) {
        self.deliver(answer, None);
    }

    /// The same, for a reply whose delivery matters and that may hold the lease of an event. Returns `false` if the
    /// connection is closed or the limit of unread bytes has refused the reply. A refusal releases the event.
    pub fn deliver(self, answer: Result<Response, Error>, event: Option<EventId>) -> bool {
        let then = match (&answer, event) {
            (_, None) => AfterReply::CloseCall,
            (Ok(_), Some(event)) => AfterReply::AwaitAck(event),
            (Err(_), Some(_)) => AfterReply::CancelCall,
        };
        self.send(answer, then)
    }

    /// Sends a reply that is not the last.
    pub fn answer_and_go_on(&self, answer: Result<Response, Error>) {
        self.send(answer, AfterReply::AwaitNextReply);
    }

    /// Sends the last reply of this connection and hands the connection over.
    pub fn answer_and_move(self, answer: Result<Response, Error>, to: oneshot::Sender<UnixStream>) {
        self.send(answer, AfterReply::MoveConnection(to));
    }

    /// Whether the connection is closed.
    pub fn is_gone(&self) -> bool {
        self.back.is_closed()
    }

    /// Waits until the connection is closed.
    pub async fn gone(&self) {
        self.back.closed().await;
    }

    /// Returns whether the reply was handed to the connection.
    fn send(&self, answer: Result<Response, Error>, then: AfterReply) -> bool {
        let leased_event = match &then {
            AfterReply::AwaitAck(event) => Some(*event),
            AfterReply::CloseCall
            | AfterReply::AwaitNextReply
            | AfterReply::CancelCall
            | AfterReply::MoveConnection(_) => None,
        };
        let bytes = self.encode(answer, leased_event).or_else(|error| {
            let error = format!("the reply could not be encoded: {error}");
            self.encode(Err(Error::new(ErrorKind::Internal, error)), None)
        });
        let Ok(bytes) = bytes else { return false };
        let admitted = match &then {
            AfterReply::MoveConnection(_) => Some(self.unread.admit_always(bytes.len())),
            AfterReply::CloseCall
            | AfterReply::AwaitAck(_)
            | AfterReply::AwaitNextReply
            | AfterReply::CancelCall => self.unread.admit(bytes.len()),
        };
        let is_admitted = admitted.is_some();
        let reply = match admitted {
            Some(unread) => OutgoingReply {
                id: self.id,
                bytes,
                then,
                _unread: unread,
            },
            None => {
                let Ok(refusal) = self.encode(Err(self.unread.refusal()), None) else {
                    return false;
                };
                OutgoingReply {
                    id: self.id,
                    then: match then {
                        AfterReply::AwaitAck(_) => AfterReply::CancelCall,
                        then => then,
                    },
                    _unread: self.unread.admit_always(refusal.len()),
                    bytes: refusal,
                }
            }
        };
        self.back.send(reply).is_ok() && is_admitted
    }

    fn encode(
        &self,
        response: Result<Response, Error>,
        leased_event: Option<EventId>,
    ) -> std::io::Result<Vec<u8>> {
        frame::encode(&DaemonMessage::Response {
            id: self.id,
            response,
            leased_event,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(back: &OutgoingReply) -> String {
        String::from_utf8_lossy(&back.bytes).into_owned()
    }

    #[test]
    fn beside_unread_replies_the_next_is_refused_and_its_event_given_back() {
        let (back, mut sent) = mpsc::unbounded_channel();
        let unread = UnreadReplies::with_limit(1_000);
        let responder = |id| Responder::new(id, back.clone(), unread.clone());
        let long = || Err(Error::new(ErrorKind::Internal, "x".repeat(5_000)));
        let short = || Ok(Response::Done);
        // A single reply is sent whatever its length.
        responder(1).answer(long());
        let first = sent.try_recv().unwrap();
        assert!(first.bytes.len() > 5_000);
        assert!(matches!(first.then, AfterReply::CloseCall));
        responder(2).answer(short());
        let mut calls = PendingCalls::default();
        calls.open(CallId(3), responder(3));
        calls.answer_with_lease(CallId(3), short(), EventId(7));
        let second = sent.try_recv().unwrap();
        assert!(text(&second).contains("client_max_unread_bytes"));
        assert!(matches!(second.then, AfterReply::CloseCall), "no event");
        let third = sent.try_recv().unwrap();
        assert!(text(&third).contains("client_max_unread_bytes"));
        assert!(matches!(third.then, AfterReply::CancelCall));
        drop((first, second, third));
        calls.open(CallId(4), responder(4));
        calls.answer_with_lease(CallId(4), short(), EventId(7));
        let fourth = sent.try_recv().unwrap();
        assert!(
            matches!(fourth.then, AfterReply::AwaitAck(EventId(7))),
            "{}",
            text(&fourth)
        );
    }
}
