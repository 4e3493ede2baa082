//! The bridge between a client that started us and whoever answers: one JSON message a line, on stdin and stdout.

use std::io;

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
use tokio::sync::{mpsc, oneshot};

use crate::{Server, calls, receipts::Receipts};

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
    let (lines, calls) = calls::apart(stdin);
    let transport = IntoTransport::<RoleServer, io::Error, _>::into_transport((lines, stdout));
    let serving = async {
        let running = server
            .serve(FromFirstRequest::new(transport, calls, receipts))
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
    calls: mpsc::Receiver<RxJsonRpcMessage<RoleServer>>,
    receipts: Receipts,
    began: bool,
}

impl<T> FromFirstRequest<T> {
    fn new(
        transport: T,
        calls: mpsc::Receiver<RxJsonRpcMessage<RoleServer>>,
        receipts: Receipts,
    ) -> Self {
        Self {
            transport,
            calls,
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
            let message = tokio::select! {
                // Reading is what finds the calls.
                biased;
                message = self.transport.receive() => message?,
                Some(call) = self.calls.recv() => call,
            };
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
