use std::{
    collections::HashMap,
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use rmcp::{
    RoleServer,
    model::{ClientNotification, ClientRequest, RequestId},
    service::{RxJsonRpcMessage, TxJsonRpcMessage},
    transport::Transport,
};
use tokio_util::sync::CancellationToken;

use crate::ack::AckSlot;

/// rmcp's line transport, with acks for written replies and cancellation of unwritten ones.
///
/// Messages before the first request are dropped, because rmcp closes the connection at a notification or a response that
/// precedes the handshake.
pub struct StdioTransport<T> {
    lines: T,
    pending: PendingReplies,
    received_request: bool,
}

impl<T> StdioTransport<T> {
    pub fn new(lines: T) -> Self {
        Self {
            lines,
            pending: PendingReplies::default(),
            received_request: false,
        }
    }

    /// Registers the requests whose responses may hold a lease, and cancels the response to a cancelled one.
    fn inspect(&mut self, message: &mut RxJsonRpcMessage<RoleServer>) {
        match message {
            RxJsonRpcMessage::<RoleServer>::Request(request) => {
                self.received_request = true;
                let extensions = match &mut request.request {
                    ClientRequest::CallToolRequest(call) => Some(&mut call.extensions),
                    ClientRequest::GetTaskRequest(get) => Some(&mut get.extensions),
                    // Their responses hold no lease.
                    _ => None,
                };
                if let Some(extensions) = extensions {
                    extensions.insert(self.pending.register(request.id.clone()));
                }
            }
            RxJsonRpcMessage::<RoleServer>::Notification(notification) => {
                if let ClientNotification::CancelledNotification(cancelled) =
                    &notification.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    self.pending.cancel(id);
                }
            }
            RxJsonRpcMessage::<RoleServer>::Response(_)
            | RxJsonRpcMessage::<RoleServer>::Error(_) => {}
        }
    }
}

impl<T> Transport<RoleServer> for StdioTransport<T>
where
    T: Transport<RoleServer, Error = io::Error>,
{
    type Error = io::Error;

    /// Resolves after the message has been written, and for a reply with an ack, after the ack has been completed.
    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let id = match &message {
            TxJsonRpcMessage::<RoleServer>::Response(response) => Some(&response.id),
            TxJsonRpcMessage::<RoleServer>::Error(error) => error.id.as_ref(),
            TxJsonRpcMessage::<RoleServer>::Request(_)
            | TxJsonRpcMessage::<RoleServer>::Notification(_) => None,
        };
        let reply = id.and_then(|id| Some((id.clone(), self.pending.get(id)?)));
        let pending = self.pending.clone();
        let write = self.lines.send(message);
        async move {
            let Some((id, reply)) = reply else {
                return write.await;
            };
            // Dropping `write` does not tear a line: the framed writer keeps the unwritten rest in its buffer.
            let written = tokio::select! {
                biased;
                () = reply.cancelled.cancelled() => return Ok(()),
                written = write => written,
            };
            pending.remove(&id);
            let ack = reply.ack.close();
            written?;
            if let Some(ack) = ack {
                ack.complete().await;
            }
            Ok(())
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            let mut message = self.lines.receive().await?;
            self.inspect(&mut message);
            if self.received_request {
                return Some(message);
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.lines.close().await
    }
}

/// Tool calls and `tasks/get` requests whose responses have not been written, by request id.
#[derive(Clone, Default)]
struct PendingReplies(Arc<Mutex<HashMap<RequestId, PendingReply>>>);

#[derive(Clone, Default)]
struct PendingReply {
    ack: AckSlot,
    /// Cancelled by `notifications/cancelled`: the reply is not written any more.
    cancelled: CancellationToken,
}

impl PendingReplies {
    /// Adds a call and returns the slot for the ack of its reply.
    fn register(&self, id: RequestId) -> AckSlot {
        let reply = PendingReply::default();
        let slot = reply.ack.clone();
        let duplicate = self.lock().insert(id, reply);
        // rmcp answers only one of two pending calls with the same id. Both events are released, so that none is lost.
        if let Some(duplicate) = duplicate {
            drop(duplicate.ack.close());
            drop(slot.close());
        }
        slot
    }

    fn get(&self, id: &RequestId) -> Option<PendingReply> {
        self.lock().get(id).cloned()
    }

    fn remove(&self, id: &RequestId) {
        self.lock().remove(id);
    }

    /// Releases the event of a cancelled call and drops its reply. Has no effect on an unknown id.
    fn cancel(&self, id: &RequestId) {
        let reply = self.lock().remove(id);
        if let Some(reply) = reply {
            drop(reply.ack.close());
            reply.cancelled.cancel();
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<RequestId, PendingReply>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
