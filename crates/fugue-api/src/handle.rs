use std::{fmt, pin::Pin};

use crate::{Error, RawReply, ToolCall, ToolReply};

/// A way to have a request answered. The socket client is one; every front door (CLI, MCP) uses this and nothing
/// else, so that all doors share one path.
pub trait Handle: Sized + Sync {
    /// Asks and waits for the answer. Dropping the future cancels the wait; the work goes on.
    fn call_raw(
        &self,
        request: ToolCall,
    ) -> impl Future<Output = Result<Delivery<RawReply>, Error>> + Send;

    /// The same, for those who want to know what the answer says.
    fn call(&self, request: ToolCall) -> impl Future<Output = Result<Delivery, Error>> + Send {
        async {
            let Delivery {
                reply,
                ack: receipt,
            } = self.call_raw(request).await?;
            let reply = reply.read()?;
            Ok(Delivery {
                reply,
                ack: receipt,
            })
        }
    }

    /// The same for the calls of somebody with an inbox of this name.
    fn for_session(&self, session: &str) -> Self;
}

/// A reply on its way to whoever asked.
#[derive(Debug)]
pub struct Delivery<R = ToolReply> {
    pub reply: R,
    /// Of a reply that takes something out of an inbox.
    pub ack: Option<EventAck>,
}

/// To be signed when the reply has reached whoever asked. Dropped without that, what the reply took is put back.
pub struct EventAck(Pin<Box<dyn Future<Output = ()> + Send>>);

impl EventAck {
    /// `signed` says where it belongs that the reply arrived; dropped before, it puts back.
    pub fn new(signed: impl Future<Output = ()> + Send + 'static) -> Self {
        Self(Box::pin(signed))
    }

    /// Returns when that is on record.
    pub async fn complete(self) {
        self.0.await;
    }
}

impl fmt::Debug for EventAck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Receipt")
    }
}

impl<R> From<R> for Delivery<R> {
    fn from(reply: R) -> Self {
        Self { reply, ack: None }
    }
}
