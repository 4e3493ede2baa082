use std::{fmt, pin::Pin};

use crate::{Error, QuestionId, RawReply, ToolCall, ToolReply, overview::QuestionRow};

/// Executes tool calls. The socket client implements it, and the MCP server uses nothing else of the daemon.
pub trait Handle: Sized + Sync {
    /// Sends a call and waits for the reply. Dropping the future cancels the wait; the daemon continues the work.
    fn call_raw(
        &self,
        request: ToolCall,
    ) -> impl Future<Output = Result<Delivery<RawReply>, Error>> + Send;

    /// Like [`Handle::call_raw`], with a parsed reply.
    fn call(&self, request: ToolCall) -> impl Future<Output = Result<Delivery, Error>> + Send {
        async {
            let Delivery { reply, ack } = self.call_raw(request).await?;
            let reply = reply.read()?;
            Ok(Delivery { reply, ack })
        }
    }

    /// A handle whose calls belong to the inbox of this session.
    fn for_session(&self, session: &str) -> Self;

    /// A handle whose calls are those of the person at this client.
    fn for_person(&self) -> Self;

    /// The questions that wait for the person at this client's session, as soon as they are others than `known`.
    fn questions(
        &self,
        known: Vec<QuestionId>,
    ) -> impl Future<Output = Result<Vec<QuestionRow>, Error>> + Send;
}

/// A reply, and the ack of the event that it contains.
#[derive(Debug)]
pub struct Delivery<R = ToolReply> {
    pub reply: R,
    /// Present if the reply holds the lease of an inbox event.
    pub ack: Option<EventAck>,
}

/// The lease of an event in a reply. It is completed when the reply has reached the client; dropping it releases the
/// event to the inbox.
pub struct EventAck {
    ack: Pin<Box<dyn Future<Output = ()> + Send>>,
    loss: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl EventAck {
    /// `ack` acks the event when it is polled to its end, and releases the event when it is dropped before.
    pub fn new(ack: impl Future<Output = ()> + Send + 'static) -> Self {
        Self {
            ack: Box::pin(ack),
            loss: None,
        }
    }

    /// `loss` resolves when the lease is lost, because the daemon that granted it is gone.
    pub fn lost_after(mut self, loss: impl Future<Output = ()> + Send + 'static) -> Self {
        self.loss = Some(Box::pin(loss));
        self
    }

    /// Acks the event, and returns when the ack is stored.
    pub async fn complete(self) {
        self.ack.await;
    }

    /// Resolves when another call may get the event, although this ack is neither completed nor dropped. Cancel-safe.
    pub async fn lost(&mut self) {
        match &mut self.loss {
            Some(loss) => loss.await,
            None => std::future::pending().await,
        }
    }
}

impl fmt::Debug for EventAck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EventAck")
    }
}

impl<R> From<R> for Delivery<R> {
    fn from(reply: R) -> Self {
        Self { reply, ack: None }
    }
}
