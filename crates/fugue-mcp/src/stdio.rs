//! The bridge between a client that started us and whoever answers: one JSON message a line, on stdin and stdout.

use std::{future::poll_fn, io, pin::pin, task::Poll, time::Duration};

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
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::oneshot,
    time::timeout,
};

use crate::{
    Server,
    calls::{self, Found},
    direct::Direct,
    out::Out,
    receipts::Receipts,
};

// A client that sends nonsense and reads nothing is not listened to when this is full.
const ROOM: usize = 8 * 1024;
// What rmcp gives the requests that are under way when stdin is closed.
const FAREWELL: Duration = Duration::from_secs(5);

/// Serves the client behind stdin and stdout until it is gone.
///
/// A client that closes stdin and still reads gets what is under way, if it comes within a few seconds; one that was
/// killed leaves nobody to answer, and every wait ends at once.
pub async fn serve<H>(server: Server<H>) -> Result<(), Error>
where
    H: Handle + Clone + Send + Sync + 'static,
{
    let gone = server.gone();
    let nobody_listens = hung_up();
    let (stdin, stdout) = stdio_pipes();
    let mut serving = pin!(serve_on(server, stdin, stdout));
    tokio::select! {
        outcome = &mut serving => outcome,
        () = nobody_listens => {
            gone.cancel();
            // Waits end now, each with a word to the daemon that nobody waits for it any more.
            serving.await
        }
    }
}

async fn serve_on<H>(
    server: Server<H>,
    from: impl AsyncRead + Send + Unpin + 'static,
    to: impl AsyncWrite + Send + Unpin + 'static,
) -> Result<(), Error>
where
    H: Handle + Clone + Send + Sync + 'static,
{
    let out = Out::new(to);
    let (lines, found) = calls::apart(from);
    // rmcp's own transport writes only what it has to say about a line that is no message, and gives that up halfway when
    // something else happens; so it does not get a turn, but somebody who takes them.
    let (complaints, complained) = tokio::io::duplex(ROOM);
    let transport = IntoTransport::<RoleServer, io::Error, _>::into_transport((lines, complaints));
    let direct = Direct::new(server.clone(), out.clone());
    let under_way = direct.under_way();
    under_way.spawn(out.clone().pass_on(complained));
    let transport = FromFirstRequest {
        transport,
        found,
        direct,
        out,
        receipts: server.receipts(),
        began: false,
    };
    match server.serve(transport).await {
        Ok(running) => running.waiting().await.map(drop).map_err(|error| {
            Error::new(Kind::Internal, format!("the MCP server broke off: {error}"))
        })?,
        Err(ServerInitializeError::ConnectionClosed(_)) => {}
        Err(error) => {
            return Err(Error::new(
                Kind::Unavailable,
                format!("the client could not be served: {error}"),
            ));
        }
    }
    under_way.close();
    // Whoever is not answered by then is cut off.
    let _ = timeout(FAREWELL, under_way.wait()).await;
    Ok(())
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

/// Lets nothing through before the first request, takes out the calls that are answered past rmcp, and signs for rmcp's
/// replies when they have been written. rmcp ends the connection at a notification that comes too early; a client with a
/// bad start is better served than dropped.
struct FromFirstRequest<T, H> {
    transport: T,
    /// Calls, which the transport does not give.
    found: Found,
    direct: Direct<H>,
    out: Out,
    receipts: Receipts,
    began: bool,
}

impl<T, H> Transport<RoleServer> for FromFirstRequest<T, H>
where
    T: Transport<RoleServer>,
    H: Handle + Clone + Send + Sync + 'static,
{
    type Error = io::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let receipt = match &item {
            TxJsonRpcMessage::<RoleServer>::Response(response) => self.receipts.take(&response.id),
            _ => None,
        };
        let opened = self.direct.opened_by(&item);
        let out = self.out.clone();
        async move {
            out.say(&item).await?;
            if let Some(opened) = opened {
                opened.set();
            }
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
                transport,
                found,
                direct,
                ..
            } = self;
            let mut receiving = pin!(transport.receive());
            let message = poll_fn(|context| {
                loop {
                    if let Poll::Ready(message) = receiving.as_mut().poll(context) {
                        return Poll::Ready(message);
                    }
                    // Reading is what finds a call.
                    let Some(call) = found.take() else {
                        return Poll::Pending;
                    };
                    if let Some(call) = direct.take(call) {
                        return Poll::Ready(Some(call.into()));
                    }
                }
            })
            .await?;
            self.direct.overhear(&message);
            self.began |= matches!(message, RxJsonRpcMessage::<RoleServer>::Request(_));
            if self.began {
                return Some(message);
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.transport.close().await.map_err(io::Error::other)
    }
}

#[cfg(test)]
mod tests;
