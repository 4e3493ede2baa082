//! The bridge between a client that started us and whoever answers: one JSON message a line, on stdin and stdout.

use std::{future::poll_fn, io, pin::pin, task::Poll};

use fugue_api::{Error, Handle, Kind};
use rmcp::{
    RoleServer, ServiceExt,
    service::{RxJsonRpcMessage, ServerInitializeError, TxJsonRpcMessage},
    transport::{IntoTransport, Transport, io::stdio_pipes},
};
use rustix::{
    event::{PollFd, PollFlags, poll},
    io::Errno,
};
use tokio::sync::oneshot;

use crate::{
    Server,
    calls::{self, Found},
    receipts::Receipts,
};

/// Serves the client behind stdin and stdout until it is gone.
///
/// A client that closes stdin and still reads gets what is under way, if it comes within a few seconds; one that was
/// killed leaves nobody to answer, and every wait ends at once.
pub async fn serve<H>(server: Server<H>) -> Result<(), Error>
where
    H: Handle + Clone + Send + Sync + 'static,
{
    let (gone, receipts) = (server.gone(), server.receipts());
    let nobody_listens = hung_up();
    let (stdin, stdout) = stdio_pipes();
    let (lines, found) = calls::apart(stdin);
    let transport = IntoTransport::<RoleServer, io::Error, _>::into_transport((lines, stdout));
    let serving = async {
        let running = server
            .serve(FromFirstRequest::new(transport, found, receipts))
            .await;
        match running {
            Ok(running) => running.waiting().await.map(drop).map_err(|error| {
                Error::new(Kind::Internal, format!("the MCP server broke off: {error}"))
            }),
            Err(ServerInitializeError::ConnectionClosed(_)) => Ok(()),
            Err(error) => Err(Error::new(
                Kind::Unavailable,
                format!("the client could not be served: {error}"),
            )),
        }
    };
    let mut serving = std::pin::pin!(serving);
    tokio::select! {
        outcome = &mut serving => outcome,
        () = nobody_listens => {
            gone.cancel();
            // Waits end now, each with a word to the daemon that nobody waits for it any more.
            serving.await
        }
    }
}

/// Resolves when whoever read our stdout is gone; never where that cannot be known (a file, say).
async fn hung_up() {
    let (left, listener_left) = oneshot::channel();
    // A thread, because it must not keep the runtime from ending; it dies with the process.
    let watch = std::thread::Builder::new().name("stdout".to_owned());
    let watching = watch.spawn(move || {
        let stdout = rustix::stdio::stdout();
        // Nothing is asked for: an error or a hang-up is always reported.
        let mut fds = [PollFd::new(&stdout, PollFlags::empty())];
        while poll(&mut fds, None) == Err(Errno::INTR) {}
        let _ = left.send(());
    });
    if watching.is_err() || listener_left.await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Lets nothing through before the first request, and signs for replies that have been written. rmcp ends the connection
/// at a notification that comes too early; a client with a bad start is better served than dropped.
struct FromFirstRequest<T> {
    transport: T,
    /// Calls, which the transport does not give.
    found: Found,
    receipts: Receipts,
    began: bool,
}

impl<T> FromFirstRequest<T> {
    fn new(transport: T, found: Found, receipts: Receipts) -> Self {
        Self {
            transport,
            found,
            receipts,
            began: false,
        }
    }
}

impl<T: Transport<RoleServer>> Transport<RoleServer> for FromFirstRequest<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let receipt = match &item {
            TxJsonRpcMessage::<RoleServer>::Response(response) => self.receipts.take(&response.id),
            _ => None,
        };
        let sending = self.transport.send(item);
        async move {
            sending.await?;
            if let Some(receipt) = receipt {
                // The next message does not wait for that.
                tokio::spawn(receipt.sign());
            }
            Ok(())
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            let Self {
                transport, found, ..
            } = self;
            let mut receiving = pin!(transport.receive());
            let message = poll_fn(|context| match receiving.as_mut().poll(context) {
                // Reading is what finds a call.
                Poll::Pending => found
                    .take()
                    .map_or(Poll::Pending, |call| Poll::Ready(Some(call))),
                ready => ready,
            })
            .await?;
            self.began |= matches!(message, RxJsonRpcMessage::<RoleServer>::Request(_));
            if self.began {
                return Some(message);
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.transport.close().await
    }
}
