//! The client's end of the daemon's socket: starts a missing daemon, multiplexes requests over a connection, and
//! repeats a request with the same key when the daemon died before its reply.

mod handle;

use std::{
    collections::HashMap,
    io,
    os::{fd::AsFd, unix::net::UnixStream as StdStream},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use fugue_api::{
    Error, EventId, PaneId, RawReply,
    attach::{AttachRequest, AttachResponse, ClientId, ViewerRole},
    random_bytes,
    wire::{
        CallerEnv, CallerIdentity, ClientMessage, DaemonMessage, Hello, IdempotencyKey,
        MAX_FRAME_BYTES, PROTOCOL, Request, Response, Welcome,
    },
};
use fugue_holder::SocketPeer;
use tokio::{
    sync::{Mutex, mpsc, oneshot},
    time::Instant,
};

use crate::{
    daemon_start,
    frame::{self, FrameReader},
    paths::{SocketPath, UserPaths},
    socket::{self, SocketReader, SocketWriter},
    version::other_protocol_error,
};

/// A client of the daemon. Cheap to clone; all clones share a connection.
#[derive(Clone)]
pub struct Client {
    inner: Arc<ClientInner>,
    /// The caller of this clone's requests, if the connection serves several callers.
    who: Option<CallerIdentity>,
}

struct ClientInner {
    paths: UserPaths,
    caller: CallerEnv,
    who: CallerIdentity,
    connection: Mutex<Option<DaemonConnection>>,
    next_id: AtomicU64,
}

/// Whether a missing daemon is started.
#[derive(Clone, Copy, PartialEq, Eq)]
enum DaemonLaunch {
    IfNeeded,
    /// A daemon that is starting or ending is waited for.
    Never,
    /// Only a daemon whose socket accepts a connection now counts.
    NeverAndNoWait,
}

/// Reasons for a missing connection.
enum ConnectError {
    /// The daemon died during the handshake; the next attempt finds or starts another daemon.
    Died,
    Refused(Error),
}

// A daemon that is killed during this many starts in a row is being killed on purpose.
const MAX_ATTEMPTS: u32 = 50;

// Frames per request. While a person types, a request for each frame would take as long as the echo itself. A client
// that falls behind receives this many outdated frames and draws the last.
const FRAMES_PER_REQUEST: u32 = 8;

type ReplyWaiters = Arc<std::sync::Mutex<HashMap<u64, ReplySender>>>;

/// The receiver of a reply.
enum ReplySender {
    Once(oneshot::Sender<ReceivedReply>),
    /// Several replies to the same request. Bounded by the requested number of frames.
    Stream(mpsc::UnboundedSender<ReceivedReply>),
}

impl ReplySender {
    fn deliver(self, received: ReceivedReply) {
        match self {
            Self::Once(sender) => drop(sender.send(received)),
            Self::Stream(sender) => drop(sender.send(received)),
        }
    }
}

/// A reply, and the event that the reply leases to this client.
struct ReceivedReply {
    response: Result<Response<RawReply>, Error>,
    leased_event: Option<EventId>,
}

/// An open connection, closed by dropping the last sender.
#[derive(Clone)]
struct DaemonConnection {
    // Bounded by the number of concurrent requests of a client; a full queue makes the sender wait for the socket.
    outgoing: mpsc::Sender<Vec<u8>>,
    waiters: ReplyWaiters,
}

impl Client {
    pub fn new(paths: UserPaths, caller: CallerEnv, who: CallerIdentity) -> Self {
        let inner = ClientInner {
            paths,
            caller,
            who,
            connection: Mutex::new(None),
            next_id: AtomicU64::new(1),
        };
        Self {
            inner: Arc::new(inner),
            who: None,
        }
    }

    /// The caller of this client's requests.
    pub fn identity(&self) -> CallerIdentity {
        let own = || self.inner.who.clone();
        self.who.clone().unwrap_or_else(own)
    }

    /// Sends a request and returns the response. A request that is interrupted by the daemon's death is repeated with
    /// the same idempotency key. The plan of each call in core decides by that key, and does nothing twice.
    pub async fn ask(&self, ask: Request) -> Result<Response, Error> {
        let (received, _) = self.ask_with_retries(ask).await?;
        received.response?.read()
    }

    async fn ask_with_retries(
        &self,
        ask: Request,
    ) -> Result<(ReceivedReply, InFlightRequest), Error> {
        let key = new_key()?;
        let began = Instant::now();
        // A daemon that dies on every attempt must not be restarted forever by a single request.
        for attempt in 0..MAX_ATTEMPTS {
            let request = match attempt {
                0 => ask.clone(),
                _ => ask.again(began.elapsed()),
            };
            let answer = match self.connection(DaemonLaunch::IfNeeded).await {
                Ok(connection) => self.send_request(&connection, key, request).await,
                Err(ConnectError::Died) => continue,
                Err(ConnectError::Refused(error)) => return Err(error),
            };
            match answer {
                Some(received) => return Ok(received),
                // The request itself may have stopped the daemon.
                None if matches!(ask, Request::DaemonStop { .. }) => break,
                None => {}
            }
        }
        Err(Error::unavailable("the daemon exited before it replied")
            .hint("daemon.log in the state directory may have the reason"))
    }

    /// Sends a request to a running daemon; `None` if no daemon runs.
    pub async fn ask_running(&self, ask: Request) -> Result<Option<Response>, Error> {
        self.ask_running_with_key(new_key()?, ask).await
    }

    /// Like [`Self::ask_running`], with a key that the caller has used elsewhere.
    pub async fn ask_running_with_key(
        &self,
        key: IdempotencyKey,
        ask: Request,
    ) -> Result<Option<Response>, Error> {
        match self.connection(DaemonLaunch::Never).await {
            Ok(connection) => match self.send_request(&connection, key, ask).await {
                Some((received, _)) => received.response?.read().map(Some),
                None => Ok(None),
            },
            Err(ConnectError::Died) => Ok(None),
            Err(ConnectError::Refused(error)) => Err(error),
        }
    }

    /// Sends a request to a daemon whose socket accepts a connection now; `None` if there is none, or if it speaks another
    /// protocol version. Touches no file.
    pub async fn ask_listening(&self, ask: Request) -> Result<Option<Response>, Error> {
        match self.connection(DaemonLaunch::NeverAndNoWait).await {
            Ok(connection) => match self.send_request(&connection, new_key()?, ask).await {
                Some((received, _)) => received.response?.read().map(Some),
                None => Ok(None),
            },
            Err(_) => Ok(None),
        }
    }

    /// The greeting of a daemon whose socket accepts a connection now, whatever its protocol version.
    pub async fn greeting(&self) -> Option<Welcome> {
        let (stream, daemon) = connect(&self.inner.paths).await.ok()?;
        let (_, _, welcome) = self.greet(stream, daemon.pid).await.ok()?;
        Some(welcome)
    }

    /// Opens a separate connection to a pane of a running daemon. `None` if the pane does not exist.
    pub async fn connect_pane(&self, pane: PaneId, role: ViewerRole) -> Option<PaneConnection> {
        let (stream, daemon) = connect(&self.inner.paths).await.ok()?;
        let connection = self.handshake(stream, daemon.pid).await.ok()?;
        let pane_connection = PaneConnection {
            client: self.clone(),
            connection,
        };
        let request = AttachRequest::ConnectPane { pane, role };
        let answer = pane_connection
            .ask_with_key(new_key().ok()?, Request::Attach { request })
            .await;
        matches!(answer, Some(Ok(Response::Done))).then_some(pane_connection)
    }

    /// Returns the process of the running daemon, whatever its protocol version.
    pub async fn running_daemon(&self) -> Option<SocketPeer> {
        let paths = &self.inner.paths;
        let (_, daemon) = match connect(paths).await {
            Err(error) if is_daemon_missing(&error) => {
                daemon_start::find_daemon(paths).await.ok()?;
                connect(paths).await.ok()?
            }
            found => found.ok()?,
        };
        Some(daemon)
    }

    async fn send_request(
        &self,
        connection: &DaemonConnection,
        key: IdempotencyKey,
        ask: Request,
    ) -> Option<(ReceivedReply, InFlightRequest)> {
        let id = self.inner.next_id.fetch_add(1, Ordering::Relaxed);
        let stops = matches!(ask, Request::DaemonStop { .. });
        let (sender, receiver) = oneshot::channel();
        lock(&connection.waiters).insert(id, ReplySender::Once(sender));
        let mut in_flight = InFlightRequest {
            id,
            connection: connection.clone(),
            is_closed: false,
        };
        let outcome = async {
            let who = self.who.clone();
            let bytes = frame::encode(&ClientMessage::Call {
                id,
                key,
                who,
                request: ask,
            })
            .ok()?;
            connection.outgoing.send(bytes).await.ok()?;
            receiver.await.ok()
        }
        .await;
        // Dropping the in-flight request releases the leased event, until the event is acknowledged.
        in_flight.is_closed = outcome
            .as_ref()
            .is_none_or(|received| received.leased_event.is_none());
        if stops {
            // The next request belongs to the next daemon, and must not receive the goodbye on this connection.
            *self.inner.connection.lock().await = None;
        }
        outcome.map(|received| (received, in_flight))
    }

    /// The open connection, or a new one.
    async fn connection(&self, launch: DaemonLaunch) -> Result<DaemonConnection, ConnectError> {
        if let Ok(current) = self.inner.connection.try_lock()
            && let Some(connection) = open_connection(&current)
        {
            return Ok(connection);
        }
        // In a task of its own: the future of a call that is not polled for a while would keep the lock, or its turn for it,
        // from the other calls.
        let client = self.clone();
        let connecting = tokio::spawn(async move { client.reconnect(launch).await });
        connecting.await.unwrap_or(Err(ConnectError::Died))
    }

    async fn reconnect(&self, launch: DaemonLaunch) -> Result<DaemonConnection, ConnectError> {
        let mut current = self.inner.connection.lock().await;
        if let Some(connection) = open_connection(&current) {
            return Ok(connection);
        }
        // Boxed because connecting is rare: the future of every call would contain this state otherwise.
        let connection = Box::pin(self.connect(launch)).await?;
        *current = Some(connection.clone());
        Ok(connection)
    }

    async fn connect(&self, launch: DaemonLaunch) -> Result<DaemonConnection, ConnectError> {
        let (stream, daemon) = match connect(&self.inner.paths).await {
            Ok(found) => found,
            Err(error) if !is_daemon_missing(&error) => {
                return Err(ConnectError::Refused(unreachable_error(&error)));
            }
            Err(_) => {
                let paths = &self.inner.paths;
                let found = match launch {
                    DaemonLaunch::IfNeeded => daemon_start::start_daemon(paths).await,
                    DaemonLaunch::Never => daemon_start::find_daemon(paths).await,
                    DaemonLaunch::NeverAndNoWait => return Err(ConnectError::Died),
                };
                found.map_err(ConnectError::Refused)?;
                connect(paths).await.map_err(|_| ConnectError::Died)?
            }
        };
        self.handshake(stream, daemon.pid).await
    }

    /// Exchanges the greetings, which are the same in all protocol versions, with the daemon of this pid, if the pid is
    /// known here.
    async fn greet(
        &self,
        stream: StdStream,
        pid: Option<u32>,
    ) -> Result<(FrameReader<SocketReader>, SocketWriter, Welcome), ConnectError> {
        let died = |_| ConnectError::Died;
        let (incoming, mut sink) = socket::split(stream)
            .map_err(|error| ConnectError::Refused(unreachable_error(&error)))?;
        let mut incoming = FrameReader::new(incoming, MAX_FRAME_BYTES);
        let hello = Hello {
            protocol: PROTOCOL,
            caller: self.inner.caller.clone(),
            who: self.inner.who.clone(),
        };
        let hello = frame::encode(&hello)
            .map_err(|error| ConnectError::Refused(unreachable_error(&error)))?;
        let greeting = async {
            sink.write_all(&hello).await?;
            incoming.next().await
        };
        let welcome = daemon_start::await_daemon(greeting, pid)
            .await
            .map_err(ConnectError::Refused)?
            .map_err(died)?;
        match welcome {
            Some(welcome) => Ok((incoming, sink, welcome)),
            None => Err(ConnectError::Died),
        }
    }

    async fn handshake(
        &self,
        stream: StdStream,
        pid: Option<u32>,
    ) -> Result<DaemonConnection, ConnectError> {
        let (incoming, mut sink, welcome) = self.greet(stream, pid).await?;
        if welcome.protocol != PROTOCOL {
            return Err(ConnectError::Refused(other_protocol_error(&welcome)));
        }
        let (outgoing, mut outgoing_frames) = mpsc::channel::<Vec<u8>>(64);
        let waiters = ReplyWaiters::default();
        let writer = tokio::spawn(async move {
            while let Some(bytes) = outgoing_frames.recv().await {
                if sink.write_all(&bytes).await.is_err() {
                    return;
                }
            }
        });
        let reader_waiters = waiters.clone();
        tokio::spawn(async move {
            dispatch_replies(incoming, &reader_waiters).await;
            // First the writer stops, so that no further request is accepted; then all waiting requests fail.
            writer.abort();
            let _ = writer.await;
            lock(&reader_waiters).clear();
        });
        Ok(DaemonConnection { outgoing, waiters })
    }
}

/// A connection to a single pane, whose thread answers the requests `GetFrame`,
/// `StreamFrames` and `Type`.
pub struct PaneConnection {
    client: Client,
    connection: DaemonConnection,
}

impl PaneConnection {
    /// Sends a request. `None`: the connection is lost, and the request may or may not have arrived. Repeating the
    /// request elsewhere with the same key does nothing twice.
    pub async fn ask_with_key(
        &self,
        key: IdempotencyKey,
        ask: Request,
    ) -> Option<Result<Response, Error>> {
        let (received, _) = self.client.send_request(&self.connection, key, ask).await?;
        Some(received.response.and_then(Response::read))
    }

    /// Requests the pane's next frames, sent as soon as they are rendered. `None`: the connection is lost.
    pub async fn stream_frames(
        &self,
        key: IdempotencyKey,
        client: ClientId,
        seen: u64,
    ) -> Option<FrameStream> {
        let id = self.client.inner.next_id.fetch_add(1, Ordering::Relaxed);
        let (sender, frames) = mpsc::unbounded_channel();
        lock(&self.connection.waiters).insert(id, ReplySender::Stream(sender));
        let stream = FrameStream {
            _in_flight: InFlightRequest {
                id,
                connection: self.connection.clone(),
                // The daemon ends the stream after the requested number of frames, or with the connection.
                is_closed: true,
            },
            frames,
            number: seen,
            left: FRAMES_PER_REQUEST,
        };
        let request = Request::Attach {
            request: AttachRequest::StreamFrames {
                client,
                seen,
                most: FRAMES_PER_REQUEST,
            },
        };
        let who = None;
        let bytes = frame::encode(&ClientMessage::Call {
            id,
            key,
            who,
            request,
        })
        .ok()?;
        self.connection.outgoing.send(bytes).await.ok()?;
        Some(stream)
    }

    pub fn is_closed(&self) -> bool {
        self.connection.outgoing.is_closed()
    }
}

/// Successive frames that were requested at once.
pub struct FrameStream {
    _in_flight: InFlightRequest,
    frames: mpsc::UnboundedReceiver<ReceivedReply>,
    /// Number of the frame that was received last.
    number: u64,
    left: u32,
}

impl FrameStream {
    /// Whether the next frame is a difference to the frame `seen`.
    pub fn continues_from(&self, seen: u64) -> bool {
        self.left > 0 && self.number == seen
    }

    /// Receives the next frame. `None`: the connection is lost.
    pub async fn next(&mut self) -> Option<Result<Response, Error>> {
        let received = self.frames.recv().await?;
        let answer = received.response.and_then(Response::read);
        match &answer {
            Ok(Response::Attach {
                response: AttachResponse::Frame { frame },
            }) => {
                self.number = frame.number;
                self.left -= 1;
            }
            Ok(_) | Err(_) => self.left = 0,
        }
        Some(answer)
    }
}

fn open_connection(current: &Option<DaemonConnection>) -> Option<DaemonConnection> {
    let connection = current.as_ref()?;
    (!connection.outgoing.is_closed()).then(|| connection.clone())
}

/// Passes replies to their receivers until the connection ends.
async fn dispatch_replies(mut incoming: FrameReader<SocketReader>, waiters: &ReplyWaiters) {
    while let Ok(Some(frame)) = incoming.next().await {
        match frame {
            DaemonMessage::Response {
                id,
                response,
                leased_event,
            } => {
                let received = ReceivedReply {
                    response,
                    leased_event,
                };
                let mut waiters = lock(waiters);
                match waiters.get(&id) {
                    Some(ReplySender::Stream(sender)) => drop(sender.send(received)),
                    Some(ReplySender::Once(_)) => {
                        if let Some(sender) = waiters.remove(&id) {
                            sender.deliver(received);
                        }
                    }
                    None => {}
                }
            }
            DaemonMessage::Goodbye => {
                for (_, sender) in lock(waiters).drain() {
                    let error = Error::unavailable(DAEMON_STOPPED);
                    let error =
                        error.hint("panes may still run; the next call starts a new daemon");
                    sender.deliver(ReceivedReply {
                        response: Err(error),
                        leased_event: None,
                    });
                }
            }
        }
    }
}

/// A request that the daemon may still have open; dropping it then sends a cancellation, which releases a leased event.
struct InFlightRequest {
    id: u64,
    connection: DaemonConnection,
    /// The daemon has closed the request, with a reply without a leased event or with the ack of the event.
    is_closed: bool,
}

impl InFlightRequest {
    /// Sends no cancellation: the daemon has closed the request.
    fn forget(mut self) {
        self.is_closed = true;
    }
}

impl Drop for InFlightRequest {
    fn drop(&mut self) {
        lock(&self.connection.waiters).remove(&self.id);
        if !self.is_closed
            && let Ok(bytes) = frame::encode(&ClientMessage::Cancel { id: self.id })
        {
            // A full queue means that the daemon does not read; the daemon will notice the end of the connection
            // instead.
            let _ = self.connection.outgoing.try_send(bytes);
        }
    }
}

async fn connect(paths: &UserPaths) -> io::Result<(StdStream, SocketPeer)> {
    let path = SocketPath::new(&paths.socket())?;
    // The kernel completes a blocking connect to a local socket; only a full backlog causes a wait.
    let stream = StdStream::connect(&path)?;
    stream.set_nonblocking(true)?;
    let daemon = fugue_holder::socket_peer(stream.as_fd())?;
    if daemon.uid != rustix::process::geteuid().as_raw() {
        return Err(io::Error::other(format!(
            "the daemon's socket is served by user {}",
            daemon.uid
        )));
    }
    Ok((stream, daemon))
}

fn is_daemon_missing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused
    )
}

fn unreachable_error(error: &io::Error) -> Error {
    Error::unavailable(format!("no daemon can be reached: {error}"))
        .hint("`fugue daemon status` shows the state of the daemon")
}

/// Generates a key for a request that may be sent twice and must be executed once.
pub fn new_key() -> Result<IdempotencyKey, Error> {
    random_bytes().map(IdempotencyKey)
}

fn lock<T>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // No code panics while holding the lock, and the map is consistent at all times.
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Error of pending requests when the daemon is stopped.
pub const DAEMON_STOPPED: &str = "the daemon was stopped";

/// How long a daemon may take until its socket accepts connections, and to answer the first message there.
pub const DAEMON_START_TIMEOUT: Duration = Duration::from_secs(20);
