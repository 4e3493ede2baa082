//! Streamable HTTP on one address and one path; the guard checks every request first.

mod ack_body;
mod clients;
mod guard;
mod sessions;
mod token;

use std::{convert::Infallible, io, net::SocketAddr, path::Path, sync::Arc, time::Duration};

use bytes::Bytes;
use fugue_api::{Error, ErrorKind};
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, combinators::BoxBody};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use rmcp::{
    ServerHandler,
    transport::streamable_http_server::{
        StreamableHttpServerConfig, StreamableHttpService, session::local::LocalSessionManager,
    },
};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tower_service::Service;

use crate::ack::AckSlot;
use ack_body::AckBody;
use clients::{Client, Clients};
use guard::Guard;
use sessions::Sessions;
pub use token::Token;

/// The address of the listener and the conditions for requests.
pub struct HttpSettings {
    address: SocketAddr,
    hosts: Vec<String>,
    entry: Entry,
}

/// The authentication of requests with a valid Host and Origin.
pub enum Entry {
    /// A bearer token.
    Token(Token),
    /// No authentication, for test servers without a daemon.
    Anybody,
}

/// The path of the MCP endpoint.
pub const PATH: &str = "/mcp";

// The longest input is 1,000,000 bytes, and JSON escapes use up to six bytes for each.
const MAX_BODY_BYTES: usize = 8 * 1024 * 1024;
// From the accept of a connection to its first authenticated request.
const ADMISSION_TIMEOUT: Duration = Duration::from_secs(10);
// From the end of a request to the end of the next request's headers.
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);
// A request line and headers. Bodies go through the same buffer in parts.
const MAX_BUFFER: usize = 64 * 1024;
// The kernel closes a connection whose client has read nothing of a reply for this time (TCP_USER_TIMEOUT).
const UNREAD_REPLY_TIMEOUT: Duration = Duration::from_secs(120);
// After a termination signal, for replies that are being written.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(2);
// Agents are idle for hours, and many clients cannot replace an expired session.
const IDLE_SESSION_TIMEOUT: Duration = Duration::from_secs(24 * 3600);
// A free file descriptor causes no event.
const ACCEPT_RETRY_INTERVAL: Duration = Duration::from_millis(50);

impl HttpSettings {
    /// `hosts` are the server's names on other machines. Without any, only a loopback address is accepted.
    pub fn new(address: SocketAddr, hosts: Vec<String>, token: &Path) -> Result<Self, Error> {
        if !address.ip().is_loopback() && hosts.is_empty() {
            return Err(Error::invalid(format!(
                "--http: {address} can be reached from other machines, and traffic is not encrypted"
            ))
            .hint(
                "listen on 127.0.0.1, or name the hosts that requests may be for with --allow-host",
            ));
        }
        Ok(Self {
            address,
            hosts,
            entry: Entry::Token(Token::in_file(token)?),
        })
    }

    /// For a test server.
    pub fn open_to_anybody(address: SocketAddr) -> Self {
        Self {
            address,
            hosts: Vec::new(),
            entry: Entry::Anybody,
        }
    }
}

/// A bound TCP listener, before the first accept.
pub struct HttpListener {
    listener: TcpListener,
    address: SocketAddr,
    guard: Guard,
}

impl HttpListener {
    pub async fn at(settings: HttpSettings) -> Result<Self, Error> {
        let unavailable = |error: io::Error| {
            Error::unavailable(format!(
                "--http: cannot listen on {}: {error}",
                settings.address
            ))
            .hint("another port, or 0 for any free one")
        };
        let listener = TcpListener::bind(settings.address)
            .await
            .map_err(unavailable)?;
        let address = listener.local_addr().map_err(unavailable)?;
        let guard = Guard::new(address, settings.hosts, settings.entry);
        Ok(Self {
            listener,
            address,
            guard,
        })
    }

    /// The bound address, with the actual port for port 0.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until Ctrl-C or a termination signal.
    pub async fn serve<S: ServerHandler + Clone>(self, server: S) -> Result<(), Error> {
        let ending = CancellationToken::new();
        let config = StreamableHttpServerConfig::default()
            // rmcp checks Host and Origin a second time, after the guard.
            .with_allowed_hosts(self.guard.hosts())
            .with_allowed_origins(self.guard.origins())
            .enforce_origin_validation()
            .with_max_request_body_bytes(MAX_BODY_BYTES)
            .with_cancellation_token(ending.clone());
        let mut sessions = LocalSessionManager::default();
        sessions.session_config.keep_alive = Some(IDLE_SESSION_TIMEOUT);
        let sessions = Arc::new(sessions);
        let mcp = StreamableHttpService::new(move || Ok(server.clone()), sessions.clone(), config);
        let service = HttpService {
            guard: Arc::new(self.guard),
            sessions: Arc::new(Sessions::new(sessions)),
            mcp,
        };
        let connections = TaskTracker::new();
        let clients = Clients::new();
        let mut signal = std::pin::pin!(termination_signal());
        loop {
            tokio::select! {
                // The signal takes precedence over new connections.
                biased;
                () = &mut signal => break,
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, _)) => {
                        let client = Arc::new(clients.enter());
                        connections.spawn(serve_connection(stream, client, service.clone(), ending.clone()));
                    }
                    Err(error) => {
                        tracing::warn!(%error, "accept failed");
                        clients.evict_unauthenticated();
                        tokio::time::sleep_until(tokio::time::Instant::now() + ACCEPT_RETRY_INTERVAL).await;
                    }
                },
            }
        }
        ending.cancel();
        connections.close();
        // Endless streams are closed at the timeout.
        let _ = tokio::time::timeout(SHUTDOWN_TIMEOUT, connections.wait()).await;
        Ok(())
    }
}

type Body = BoxBody<Bytes, Infallible>;

struct HttpService<S: ServerHandler + Clone> {
    guard: Arc<Guard>,
    sessions: Arc<Sessions>,
    mcp: StreamableHttpService<S, LocalSessionManager>,
}

impl<S: ServerHandler + Clone> Clone for HttpService<S> {
    fn clone(&self) -> Self {
        Self {
            guard: self.guard.clone(),
            sessions: self.sessions.clone(),
            mcp: self.mcp.clone(),
        }
    }
}

async fn serve_connection<S: ServerHandler + Clone>(
    stream: TcpStream,
    client: Arc<Client>,
    service: HttpService<S>,
    ending: CancellationToken,
) {
    // Without TCP_NODELAY, small replies in several writes had a p99 of 44 ms.
    let _ = stream.set_nodelay(true);
    let unread = u32::try_from(UNREAD_REPLY_TIMEOUT.as_millis()).unwrap_or(u32::MAX);
    let _ = rustix::net::sockopt::set_tcp_user_timeout(&stream, unread);
    let caller = client.clone();
    let handler = service_fn(move |request: Request<Incoming>| {
        let (mut service, caller) = (service.clone(), caller.clone());
        async move { Ok::<_, Infallible>(service.answer(request, &caller).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_buf_size(MAX_BUFFER)
        .serve_connection(TokioIo::new(stream), handler);
    let mut connection = std::pin::pin!(connection);
    // An unauthenticated connection delays neither other clients nor the shutdown.
    let admission = async {
        tokio::select! {
            outcome = &mut connection => Some(outcome),
            () = client.admitted.cancelled() => None,
            () = client.evicted.cancelled() => Some(Ok(())),
            () = ending.cancelled() => Some(Ok(())),
        }
    };
    let outcome = match tokio::time::timeout(ADMISSION_TIMEOUT, admission).await {
        Ok(Some(outcome)) => outcome,
        Err(_) => Ok(()),
        Ok(None) => {
            tokio::select! {
                outcome = &mut connection => outcome,
                () = ending.cancelled() => {
                    connection.as_mut().graceful_shutdown();
                    connection.await
                }
            }
        }
    };
    if let Err(error) = outcome {
        tracing::debug!(%error, "client connection failed");
    }
}

impl<S: ServerHandler + Clone> HttpService<S> {
    async fn answer(&mut self, request: Request<Incoming>, client: &Client) -> Response<Body> {
        let (method, uri) = (request.method(), request.uri());
        let admitted = self
            .guard
            .admit(method, uri, request.headers(), MAX_BODY_BYTES);
        if let Err(refusal) = admitted {
            return refused(refusal.status, &refusal.error);
        }
        if !client.admit() {
            let error = Error::new(ErrorKind::Exhausted, "too many connections are open")
                .hint("close some, or use one for several requests");
            return refused(StatusCode::SERVICE_UNAVAILABLE, &error);
        }
        if request.uri().path() != PATH {
            let error = Error::new(
                ErrorKind::NotFound,
                format!("no path `{}`", request.uri().path()),
            );
            return refused(
                StatusCode::NOT_FOUND,
                &error.hint(format!("MCP is at {PATH}")),
            );
        }
        let mut in_use = match session(request.headers()) {
            Some(id) => self.sessions.open(id).await,
            None => {
                self.sessions.make_room().await;
                None
            }
        };
        let slot = AckSlot::default();
        let mut request = request;
        request.extensions_mut().insert(slot.clone());
        let response = match self.mcp.call(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        };
        if in_use.is_none()
            && let Some(id) = session(response.headers())
        {
            in_use = self.sessions.open(id).await;
        }
        response.map(|body| {
            let body = AckBody::new(body, slot).map_frame(move |frame| {
                // The session is in use until the body is dropped.
                let _ = &in_use;
                frame
            });
            body.boxed()
        })
    }
}

fn session(headers: &HeaderMap) -> Option<&str> {
    headers.get("mcp-session-id")?.to_str().ok()
}

fn refused(status: StatusCode, error: &Error) -> Response<Body> {
    let body = serde_json::to_vec(error).unwrap_or_default();
    let mut response = Response::new(Full::new(Bytes::from(body)).boxed());
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(
        http::header::CONTENT_TYPE,
        http::HeaderValue::from_static("application/json"),
    );
    // The body of a refused request is not read, so the connection cannot be reused.
    headers.insert(
        http::header::CONNECTION,
        http::HeaderValue::from_static("close"),
    );
    if status == StatusCode::UNAUTHORIZED {
        headers.insert(
            http::header::WWW_AUTHENTICATE,
            http::HeaderValue::from_static("Bearer"),
        );
    }
    response
}

async fn termination_signal() {
    use tokio::signal::unix::{SignalKind, signal};
    let terminated = async {
        match signal(SignalKind::terminate()) {
            Ok(mut terminated) => {
                terminated.recv().await;
            }
            Err(_) => std::future::pending().await,
        }
    };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        () = terminated => {}
    }
}
