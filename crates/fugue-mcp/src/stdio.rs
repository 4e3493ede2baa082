//! MCP on stdin and stdout, one JSON-RPC message per line.

pub(crate) mod transport;

use std::pin::pin;

use fugue_api::{Error, Handle};
use rmcp::{
    ServiceExt,
    service::ServerInitializeError,
    transport::{async_rw::AsyncRwTransport, io::stdio_pipes},
};
use rustix::{
    event::{PollFd, PollFlags, poll},
    io::Errno,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::oneshot,
};

use crate::McpServer;
use transport::StdioTransport;

/// Serves the client on stdin and stdout until the client disconnects.
///
/// After stdin is closed, pending calls are answered if their replies are ready within five seconds, which is rmcp's drain
/// timeout. After the read end of stdout is closed, all pending calls are cancelled at once.
pub async fn serve<H>(server: McpServer<H>) -> Result<(), Error>
where
    H: Handle + Clone + Send + Sync + 'static,
{
    let disconnected = server.disconnected();
    let hangup = stdout_hangup();
    let (stdin, stdout) = stdio_pipes();
    let mut serving = pin!(serve_on(server, stdin, stdout));
    tokio::select! {
        outcome = &mut serving => outcome,
        () = hangup => {
            disconnected.cancel();
            // The cancelled calls send their cancellations to the daemon before the service ends.
            serving.await
        }
    }
}

async fn serve_on<H>(
    server: McpServer<H>,
    stdin: impl AsyncRead + Send + Unpin + 'static,
    stdout: impl AsyncWrite + Send + Unpin + 'static,
) -> Result<(), Error>
where
    H: Handle + Clone + Send + Sync + 'static,
{
    let transport = StdioTransport::new(AsyncRwTransport::new_server(stdin, stdout));
    match server.serve(transport).await {
        Ok(running) => running
            .waiting()
            .await
            .map(drop)
            .map_err(|error| Error::internal(format!("the MCP service failed: {error}"))),
        Err(ServerInitializeError::ConnectionClosed(_)) => Ok(()),
        Err(error) => Err(Error::unavailable(format!(
            "the MCP handshake failed: {error}"
        ))),
    }
}

/// Resolves when the read end of stdout is closed. Never resolves for a stdout without a hang-up, such as a file.
async fn stdout_hangup() {
    let (hangup, received) = oneshot::channel();
    // A detached thread does not keep the runtime from shutting down.
    let builder = std::thread::Builder::new().name("stdout".to_owned());
    let thread = builder.spawn(move || {
        let stdout = rustix::stdio::stdout();
        // Without requested events, `poll` reports errors and hang-ups only.
        let mut fds = [PollFd::new(&stdout, PollFlags::empty())];
        while poll(&mut fds, None) == Err(Errno::INTR) {}
        let _ = hangup.send(());
    });
    if thread.is_err() || received.await.is_err() {
        std::future::pending::<()>().await;
    }
}

#[cfg(test)]
mod tests;
