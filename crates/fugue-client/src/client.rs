//! The client's end of the socket: starts a daemon where none runs, asks many things at once, and asks again when
//! the daemon died in between.

use std::{
    collections::HashMap,
    io,
    os::unix::net::UnixStream as StdStream,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use fugue_api::{
    Delivery, Error, ErrorKind, EventAck, EventId, Handle, PaneId, RawReply, ToolCall,
    attach::{AttachRequest, AttachResponse, ClientId, ViewerRole},
    wire::{
        CallerEnv, CallerIdentity, ClientMessage, DaemonMessage, Hello, IdempotencyKey,
        MAX_FRAME_BYTES, PROTOCOL, Request, Response, Welcome,
    },
};
use tokio::{
    sync::{Mutex, mpsc, oneshot},
    time::Instant,
};

use crate::{
    frame::{self, FrameReader},
    paths::{Paths, SocketPath},
    socket::{self, Incoming},
    start,
};

/// One client of the daemon. Cheap to clone; all clones share a connection.
#[derive(Clone)]
pub struct Client {
    inner: Arc<Inner>,
    /// Where one connection serves several: whose questions these are.
    who: Option<CallerIdentity>,
}

struct Inner {
    paths: Paths,
    caller: CallerEnv,
    who: CallerIdentity,
    link: Mutex<Option<Link>>,
    keys: std::sync::Mutex<Vec<IdempotencyKey>>,
    next_id: AtomicU64,
}

/// Whether a missing daemon is started.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Launch {
    IfNeeded,
    Never,
}

/// Why there is no connection.
enum NoLink {
    /// The daemon died on the way; the next attempt finds or starts another.
    Died,
    Refused(Error),
}

// A kill -9 at every one of so many starts is not a crash any more, it is somebody's wish.
const MOST_ATTEMPTS: u32 = 50;

// For a person who types, asking for each echo takes as long as the echo. A client that falls behind gets so many old
// pictures, and draws the last.
const VIEWS: u32 = 8;

// As many as the kernel gives without ever being interrupted: 256 bytes.
const KEYS_AT_ONCE: usize = 16;

type Waiting = Arc<std::sync::Mutex<HashMap<u64, Asker>>>;

/// Who waits for an answer.
enum Asker {
    Once(oneshot::Sender<Answered>),
    /// For several to one question. Bounded by how many were asked for.
    Each(mpsc::UnboundedSender<Answered>),
}

impl Asker {
    fn tell(self, answered: Answered) {
        match self {
            Self::Once(asker) => drop(asker.send(answered)),
            Self::Each(asker) => drop(asker.send(answered)),
        }
    }
}

/// What came back, and what it takes once it has arrived.
struct Answered {
    answer: Result<Response<RawReply>, Error>,
    takes: Option<EventId>,
}

/// A live connection. Dropping the last sender closes it.
#[derive(Clone)]
struct Link {
    // Bounded by what one client asks at once; a full queue makes the asker wait for the socket.
    outgoing: mpsc::Sender<Vec<u8>>,
    waiting: Waiting,
}

impl Client {
    pub fn new(paths: Paths, caller: CallerEnv, who: CallerIdentity) -> Self {
        let inner = Inner {
            paths,
            caller,
            who,
            link: Mutex::new(None),
            keys: std::sync::Mutex::default(),
            next_id: AtomicU64::new(1),
        };
        Self {
            inner: Arc::new(inner),
            who: None,
        }
    }

    /// Whose questions these are.
    pub fn who(&self) -> CallerIdentity {
        let own = || self.inner.who.clone();
        self.who.clone().unwrap_or_else(own)
    }

    /// Asks, and stays with the question through the daemon's death: the same key is asked again, so nothing is
    /// done twice.
    pub async fn ask(&self, ask: Request) -> Result<Response, Error> {
        let (answered, _) = self.ask_until_answered(ask).await?;
        answered.answer?.read()
    }

    async fn ask_until_answered(&self, ask: Request) -> Result<(Answered, OpenQuestion), Error> {
        let key = self.key()?;
        let began = Instant::now();
        // A daemon that dies on every attempt must not be restarted for ever by one question.
        for attempt in 0..MOST_ATTEMPTS {
            let asked = match attempt {
                0 => ask.clone(),
                _ => ask.again(began.elapsed()),
            };
            let answer = match self.link(Launch::IfNeeded).await {
                Ok(link) => self.ask_on(&link, key, asked).await,
                Err(NoLink::Died) => continue,
                Err(NoLink::Refused(error)) => return Err(error),
            };
            match answer {
                Some(answered) => return Ok(answered),
                // It may have been stopped by this very question.
                None if matches!(ask, Request::DaemonStop { .. }) => break,
                None => {}
            }
        }
        Err(Error::new(
            ErrorKind::Unavailable,
            "the daemon went away before it answered",
        )
        .hint("its daemon.log may say why"))
    }

    /// Asks a daemon that runs already; `None` where none does.
    pub async fn ask_running(&self, ask: Request) -> Result<Option<Response>, Error> {
        self.ask_running_as(self.key()?, ask).await
    }

    /// The same with a key that the asker has used elsewhere.
    pub async fn ask_running_as(
        &self,
        key: IdempotencyKey,
        ask: Request,
    ) -> Result<Option<Response>, Error> {
        match self.link(Launch::Never).await {
            Ok(link) => match self.ask_on(&link, key, ask).await {
                Some((answered, _)) => answered.answer?.read().map(Some),
                None => Ok(None),
            },
            Err(_) => Ok(None),
        }
    }

    /// A connection of its own to one pane of a daemon that runs, if the pane lives.
    pub async fn line(&self, pane: PaneId, role: ViewerRole) -> Option<PaneConnection> {
        let (stream, _) = connect(&self.inner.paths).await.ok()?;
        let link = self.open(stream).await.ok()?;
        let line = PaneConnection {
            client: self.clone(),
            link,
        };
        let look = AttachRequest::Line { pane, role };
        let answer = line.ask_as(self.key().ok()?, Request::Look { look }).await;
        matches!(answer, Some(Ok(Response::Noted))).then_some(line)
    }

    /// The pid of the daemon that runs, if one does; also of one whose protocol we do not speak.
    pub async fn running_daemon(&self) -> Option<u32> {
        let paths = &self.inner.paths;
        let (_, pid) = match connect(paths).await {
            Err(error) if no_daemon(&error) => {
                start::find_daemon(paths).await.ok()?;
                connect(paths).await.ok()?
            }
            found => found.ok()?,
        };
        Some(pid)
    }

    /// A key for one call. The kernel is asked for several at once.
    fn key(&self) -> Result<IdempotencyKey, Error> {
        let mut keys = lock(&self.inner.keys);
        if keys.is_empty() {
            let random: [u8; 16 * KEYS_AT_ONCE] = random()?;
            keys.extend(random.as_chunks().0.iter().copied().map(IdempotencyKey));
        }
        keys.pop().ok_or_else(no_random_numbers)
    }

    async fn ask_on(
        &self,
        link: &Link,
        key: IdempotencyKey,
        ask: Request,
    ) -> Option<(Answered, OpenQuestion)> {
        let id = self.inner.next_id.fetch_add(1, Ordering::Relaxed);
        let stops = matches!(ask, Request::DaemonStop { .. });
        let (answer, answered) = oneshot::channel();
        lock(&link.waiting).insert(id, Asker::Once(answer));
        let mut open = OpenQuestion {
            id,
            link: link.clone(),
            settled: false,
        };
        let outcome = async {
            let who = self.who.clone();
            let bytes = frame::encode(&ClientMessage::Call { id, key, who, ask }).ok()?;
            link.outgoing.send(bytes).await.ok()?;
            answered.await.ok()
        }
        .await;
        // What an answer takes is put back by dropping the question, until it is said to have arrived.
        open.settled = outcome
            .as_ref()
            .is_none_or(|answered| answered.takes.is_none());
        if stops {
            // The goodbye that follows is not for the next question, which is for the next daemon.
            *self.inner.link.lock().await = None;
        }
        outcome.map(|answered| (answered, open))
    }

    async fn link(&self, launch: Launch) -> Result<Link, NoLink> {
        let mut current = self.inner.link.lock().await;
        if let Some(link) = current.as_ref().filter(|link| !link.outgoing.is_closed()) {
            return Ok(link.clone());
        }
        // Seldom needed, so that a call does not carry the room for it about.
        let link = Box::pin(self.connect(launch)).await?;
        *current = Some(link.clone());
        Ok(link)
    }

    async fn connect(&self, launch: Launch) -> Result<Link, NoLink> {
        let (stream, _) = match connect(&self.inner.paths).await {
            Ok(found) => found,
            Err(error) if !no_daemon(&error) => {
                return Err(NoLink::Refused(unreachable_daemon(&error)));
            }
            Err(_) => {
                let paths = &self.inner.paths;
                let found = match launch {
                    Launch::IfNeeded => start::daemon(paths).await,
                    Launch::Never => start::find_daemon(paths).await,
                };
                found.map_err(NoLink::Refused)?;
                connect(paths).await.map_err(|_| NoLink::Died)?
            }
        };
        self.open(stream).await
    }

    async fn open(&self, stream: StdStream) -> Result<Link, NoLink> {
        let died = |_| NoLink::Died;
        let (incoming, mut sink) =
            socket::split(stream).map_err(|error| NoLink::Refused(unreachable_daemon(&error)))?;
        let mut incoming = FrameReader::new(incoming, MAX_FRAME_BYTES);
        let hello = Hello {
            protocol: PROTOCOL,
            caller: self.inner.caller.clone(),
            who: self.inner.who.clone(),
        };
        let hello =
            frame::encode(&hello).map_err(|error| NoLink::Refused(unreachable_daemon(&error)))?;
        sink.write_all(&hello).await.map_err(died)?;
        let welcome = incoming.next().await.map_err(died)?;
        let Some(Welcome {
            protocol,
            version,
            pid,
        }) = welcome
        else {
            return Err(NoLink::Died);
        };
        if protocol != PROTOCOL {
            let ours = env!("CARGO_PKG_VERSION");
            let said = format!(
                "the daemon that runs (pid {pid}) is fugue {version}; this is {ours} and speaks another protocol"
            );
            let error = Error::new(ErrorKind::Unavailable, said);
            return Err(NoLink::Refused(
                error.hint("`fugue daemon restart` replaces it; panes go on"),
            ));
        }
        let (outgoing, mut to_send) = mpsc::channel::<Vec<u8>>(64);
        let waiting = Waiting::default();
        let writer = tokio::spawn(async move {
            while let Some(bytes) = to_send.recv().await {
                if sink.write_all(&bytes).await.is_err() {
                    return;
                }
            }
        });
        let askers = waiting.clone();
        tokio::spawn(async move {
            listen(incoming, &askers).await;
            // First nothing more can be sent, then everybody who still waits learns that no answer will come.
            writer.abort();
            let _ = writer.await;
            lock(&askers).clear();
        });
        Ok(Link { outgoing, waiting })
    }
}

/// A connection to one pane, on which the pane itself answers `View`, `FrameStream` and `Type`.
pub struct PaneConnection {
    client: Client,
    link: Link,
}

impl PaneConnection {
    /// `None`: the line is gone, and whether the question arrived is not known. Asked elsewhere with the same key,
    /// nothing is done twice.
    pub async fn ask_as(
        &self,
        key: IdempotencyKey,
        ask: Request,
    ) -> Option<Result<Response, Error>> {
        let (answered, _) = self.client.ask_on(&self.link, key, ask).await?;
        Some(answered.answer.and_then(Response::read))
    }

    /// The pane's next frames, as they come. `None`: the line is gone.
    pub async fn views(
        &self,
        key: IdempotencyKey,
        client: ClientId,
        seen: u64,
    ) -> Option<FrameStream> {
        let id = self.client.inner.next_id.fetch_add(1, Ordering::Relaxed);
        let (asker, frames) = mpsc::unbounded_channel();
        lock(&self.link.waiting).insert(id, Asker::Each(asker));
        let views = FrameStream {
            _open: OpenQuestion {
                id,
                link: self.link.clone(),
                // It ends by itself, or with the line.
                settled: true,
            },
            frames,
            number: seen,
            left: VIEWS,
        };
        let ask = Request::Look {
            look: AttachRequest::Views {
                client,
                seen,
                most: VIEWS,
            },
        };
        let who = None;
        let bytes = frame::encode(&ClientMessage::Call { id, key, who, ask }).ok()?;
        self.link.outgoing.send(bytes).await.ok()?;
        Some(views)
    }

    pub fn is_gone(&self) -> bool {
        self.link.outgoing.is_closed()
    }
}

/// Frames that follow each other without being asked for one by one.
pub struct FrameStream {
    _open: OpenQuestion,
    frames: mpsc::UnboundedReceiver<Answered>,
    /// Of the one that was taken last.
    number: u64,
    left: u32,
}

impl FrameStream {
    /// Whether the next frame is what is different from this one.
    pub fn go_on_from(&self, seen: u64) -> bool {
        self.left > 0 && self.number == seen
    }

    /// `None`: the line is gone.
    pub async fn next(&mut self) -> Option<Result<Response, Error>> {
        let answered = self.frames.recv().await?;
        let answer = answered.answer.and_then(Response::read);
        match &answer {
            Ok(Response::Looked {
                found: AttachResponse::Frame { frame },
            }) => {
                self.number = frame.number;
                self.left -= 1;
            }
            Ok(_) | Err(_) => self.left = 0,
        }
        Some(answer)
    }
}

impl Handle for Client {
    fn for_session(&self, session: &str) -> Self {
        Self {
            inner: self.inner.clone(),
            who: Some(CallerIdentity::Session {
                id: session.to_owned(),
            }),
        }
    }

    async fn call_raw(&self, request: ToolCall) -> Result<Delivery<RawReply>, Error> {
        let (answered, open) = self
            .ask_until_answered(Request::Tool { call: request })
            .await?;
        match answered.answer? {
            Response::Tool { reply } => {
                let client = self.clone();
                let receipt = answered.takes.map(|event| {
                    EventAck::new(async move {
                        // A daemon that cannot be asked keeps the event for the next who waits.
                        let _ = client.ask(Request::AckEvent { event }).await;
                        drop(open);
                    })
                });
                Ok(Delivery {
                    reply,
                    ack: receipt,
                })
            }
            other => Err(Error::new(
                ErrorKind::Internal,
                format!("the daemon answered something else: {other:?}"),
            )),
        }
    }
}

/// Hands answers to those who wait, until the connection ends.
async fn listen(mut incoming: FrameReader<Incoming>, waiting: &Waiting) {
    while let Ok(Some(frame)) = incoming.next().await {
        match frame {
            DaemonMessage::Answer { id, answer, takes } => {
                let answered = Answered { answer, takes };
                let mut waiting = lock(waiting);
                match waiting.get(&id) {
                    Some(Asker::Each(asker)) => drop(asker.send(answered)),
                    Some(Asker::Once(_)) => {
                        if let Some(asker) = waiting.remove(&id) {
                            asker.tell(answered);
                        }
                    }
                    None => {}
                }
            }
            DaemonMessage::Goodbye => {
                for (_, asker) in lock(waiting).drain() {
                    let error = Error::new(ErrorKind::Unavailable, STOPPED);
                    let error =
                        error.hint("panes may still run; ask again and a daemon is started");
                    asker.tell(Answered {
                        answer: Err(error),
                        takes: None,
                    });
                }
            }
        }
    }
}

/// Tells the daemon when an asker has gone before its answer came.
struct OpenQuestion {
    id: u64,
    link: Link,
    settled: bool,
}

impl Drop for OpenQuestion {
    fn drop(&mut self) {
        lock(&self.link.waiting).remove(&self.id);
        if !self.settled
            && let Ok(bytes) = frame::encode(&ClientMessage::Cancel { id: self.id })
        {
            // A full queue means that the daemon does not read; it will see the connection end instead.
            let _ = self.link.outgoing.try_send(bytes);
        }
    }
}

async fn connect(paths: &Paths) -> io::Result<(StdStream, u32)> {
    let path = SocketPath::new(&paths.socket())?;
    // A blocking connect to a local socket is answered by the kernel; only a full backlog makes it wait.
    let stream = StdStream::connect(&path)?;
    stream.set_nonblocking(true)?;
    let peer = rustix::net::sockopt::socket_peercred(&stream)?;
    if peer.uid != rustix::process::geteuid() {
        return Err(io::Error::other(format!(
            "the daemon's socket is served by user {}",
            peer.uid.as_raw()
        )));
    }
    Ok((stream, peer.pid.as_raw_nonzero().get().cast_unsigned()))
}

fn no_daemon(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused
    )
}

fn unreachable_daemon(error: &io::Error) -> Error {
    Error::new(
        ErrorKind::Unavailable,
        format!("no daemon can be reached: {error}"),
    )
    .hint("`fugue daemon status` tells more")
}

/// A name for something that may be asked twice and is done once.
pub fn new_key() -> Result<IdempotencyKey, Error> {
    random().map(IdempotencyKey)
}

fn random<const N: usize>() -> Result<[u8; N], Error> {
    let mut bytes = [0; N];
    match rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()) {
        Ok(given) if given == N => Ok(bytes),
        _ => Err(no_random_numbers()),
    }
}

fn no_random_numbers() -> Error {
    Error::new(ErrorKind::Internal, "the kernel gave no random numbers")
}

fn lock<T>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // Nothing panics while holding it, and a map of waiters is whole at every moment.
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// What open questions are told when somebody stopped the daemon.
pub const STOPPED: &str = "the daemon was stopped";

/// How long a daemon may take to say that it listens.
pub const DAEMON_START_TIMEOUT: Duration = Duration::from_secs(20);
