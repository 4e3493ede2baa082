//! The daemon's socket: accepts connections of this user's clients, reads their requests and writes the replies.

use std::{
    collections::{HashMap, hash_map::Entry},
    io,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use fugue_api::{
    Error, ErrorKind, EventId,
    wire::{
        CallerEnv, CallerIdentity, ClientMessage, DaemonMessage, Hello, IdempotencyKey, PROTOCOL,
        Request, Welcome,
    },
};
use fugue_core::{CallId, settings::Settings};
use tokio::{
    net::{UnixListener, UnixStream},
    sync::{mpsc, watch},
    time::Instant,
};

use crate::{
    origin::ClientOrigin,
    pending_calls::{AfterReply, OutgoingReply, Responder, UnreadReplies},
};
use fugue_client::{
    frame::{self, FrameReader},
    socket::{self, SocketReader, SocketWriter},
};

/// Events for the engine from client connections.
#[expect(
    clippy::large_enum_variant,
    reason = "few events are queued, and most of them are calls"
)]
pub enum ListenerEvent {
    Call {
        call: CallId,
        key: IdempotencyKey,
        /// As the client claims.
        who: CallerIdentity,
        origin: Arc<ClientOrigin>,
        caller: Arc<CallerEnv>,
        ask: Request,
        responder: Responder,
    },
    Cancelled {
        call: CallId,
    },
}

// The kernel has no event for a free file descriptor.
const ACCEPT_RETRY_INTERVAL: Duration = Duration::from_millis(50);
// Reading the ancestors of a client may fail for lack of file descriptors or memory. The connection is refused then.
const MAX_ORIGIN_ATTEMPTS: usize = 100;
// An environment and a long input fit.
const MAX_REQUEST_BYTES: usize = 16 * 1024 * 1024;

/// Limits of a client connection.
#[derive(Clone, Copy, Debug)]
pub struct ClientLimits {
    pub max_calls: usize,
    pub max_unread_bytes: u64,
}

impl ClientLimits {
    pub fn of(settings: &Settings) -> Self {
        Self {
            max_calls: settings.client_max_calls,
            max_unread_bytes: settings.client_max_unread_bytes,
        }
    }
}

/// Accepts connections until the daemon ends, from the listener that was bound last.
pub async fn serve(
    mut listener: UnixListener,
    mut rebound: mpsc::Receiver<UnixListener>,
    limits: ClientLimits,
    panes: PathBuf,
    engine: mpsc::Sender<ListenerEvent>,
    closing: watch::Receiver<bool>,
    connections: mpsc::Sender<()>,
) {
    let calls = Arc::new(AtomicU64::new(1));
    loop {
        let accepted = tokio::select! {
            // Before the rebound listener, so that connections in the queue of the replaced listener are accepted.
            biased;
            accepted = listener.accept() => accepted,
            Some(next) = rebound.recv() => {
                listener = next;
                continue;
            }
        };
        match accepted {
            Ok((stream, _)) => {
                let connection = ClientConnection {
                    engine: engine.clone(),
                    calls: calls.clone(),
                    closing: closing.clone(),
                    limits,
                    panes: panes.clone(),
                };
                let until_over = connections.clone();
                tokio::spawn(async move {
                    let _until_over = until_over;
                    if let Err(error) = connection.receive(stream).await {
                        tracing::debug!(%error, "client connection failed");
                    }
                });
            }
            // Out of file descriptors: other connections must close first. The kernel queues new ones meanwhile.
            Err(error) => {
                tracing::warn!(%error, "client connection not accepted");
                tokio::time::sleep_until(Instant::now() + ACCEPT_RETRY_INTERVAL).await;
            }
        }
    }
}

async fn wait_for_close(closing: &mut watch::Receiver<bool>) {
    // An error means that the daemon has ended already.
    let _ = closing.wait_for(|closing| *closing).await;
}

fn welcome() -> Welcome {
    Welcome {
        protocol: PROTOCOL,
        version: env!("CARGO_PKG_VERSION").into(),
        pid: std::process::id(),
    }
}

/// The state of a connection's task.
struct ClientConnection {
    engine: mpsc::Sender<ListenerEvent>,
    calls: Arc<AtomicU64>,
    closing: watch::Receiver<bool>,
    limits: ClientLimits,
    /// The parent directory of all pane directories.
    panes: PathBuf,
}

/// A call that the client has not closed and that is not answered, or whose reply holds a lease.
struct ConnectionCall {
    call: CallId,
    /// The event of the reply, until the client acks it or cancels the call.
    leased_event: Option<EventId>,
}

/// The peer of a connection, and the channel for replies.
struct ConnectionPeer {
    caller: Arc<CallerEnv>,
    who: CallerIdentity,
    origin: Arc<ClientOrigin>,
    back: mpsc::UnboundedSender<OutgoingReply>,
    unread: Arc<UnreadReplies>,
}

/// A client whose protocol is known to be the daemon's.
struct GreetedClient {
    peer: ConnectionPeer,
    incoming: FrameReader<SocketReader>,
    sink: SocketWriter,
    answers: mpsc::UnboundedReceiver<OutgoingReply>,
}

impl ClientConnection {
    /// Checks the peer and exchanges the greetings. `None`: the client speaks another protocol.
    async fn greet(&self, stream: UnixStream) -> io::Result<Option<GreetedClient>> {
        let peer = stream.peer_cred()?;
        if peer.uid() != rustix::process::geteuid().as_raw() {
            return Err(io::Error::other(format!(
                "connections of user {} are refused",
                peer.uid()
            )));
        }
        let origin = match peer.pid() {
            // The peer is in another pid namespace, and so in no pane.
            None | Some(0) => ClientOrigin::default(),
            Some(pid) => self.origin(pid).await?,
        };
        let (incoming, mut sink) = socket::split(stream.into_std()?)?;
        let mut incoming = FrameReader::new(incoming, MAX_REQUEST_BYTES);
        let Some(Hello {
            protocol,
            caller,
            who,
        }) = incoming.next().await?
        else {
            return Err(io::Error::other("client sent no hello"));
        };
        sink.write_all(&frame::encode(&welcome())?).await?;
        if protocol != PROTOCOL {
            return Ok(None);
        }
        let (back, answers) = mpsc::unbounded_channel::<OutgoingReply>();
        let peer = ConnectionPeer {
            caller: Arc::new(caller),
            who,
            origin: Arc::new(origin),
            back,
            unread: UnreadReplies::with_limit(self.limits.max_unread_bytes),
        };
        Ok(Some(GreetedClient {
            peer,
            incoming,
            sink,
            answers,
        }))
    }

    async fn receive(self, stream: UnixStream) -> io::Result<()> {
        let Some(GreetedClient {
            peer: client,
            mut incoming,
            mut sink,
            mut answers,
        }) = self.greet(stream).await?
        else {
            return Ok(());
        };
        let mut closing = self.closing.clone();
        let mut open: HashMap<u64, ConnectionCall> = HashMap::new();
        let outcome = loop {
            // Replies first: requests of a client that does not read replies are not read either. So the memory of
            // a connection is bounded by open calls and unread bytes.
            tokio::select! {
                biased;
                () = wait_for_close(&mut closing) => {
                    while let Ok(answer) = answers.try_recv() {
                        sink.write_all(&answer.bytes).await?;
                    }
                    let _ = sink.write_all(&frame::encode(&<DaemonMessage>::Goodbye)?).await;
                    break Ok(());
                }
                Some(answer) = answers.recv() => {
                    match &answer.then {
                        AfterReply::AwaitNextReply => {}
                        AfterReply::AwaitAck(event) => {
                            if let Some(open) = open.get_mut(&answer.id) {
                                open.leased_event = Some(*event);
                            }
                        }
                        AfterReply::CancelCall => self.cancel(open.remove(&answer.id)).await,
                        AfterReply::CloseCall | AfterReply::MoveConnection(_) => {
                            open.remove(&answer.id);
                        }
                    }
                    if let Err(error) = sink.write_all(&answer.bytes).await {
                        break Err(error);
                    }
                    if let AfterReply::MoveConnection(to) = answer.then {
                        let moved = incoming.into_inner().map(|incoming| {
                            // The stream is dropped if the receiver is gone.
                            let _ = to.send(socket::reunite(incoming, sink));
                        });
                        break moved.ok_or_else(|| io::Error::other("client sent data while its connection was handed over"));
                    }
                }
                question = incoming.next() => match question {
                    Err(error) => break Err(error),
                    Ok(None) => break Ok(()),
                    Ok(Some(question)) => self.handle_message(question, &client, &mut open).await,
                },
            }
        };
        // The calls of a closed connection are cancelled; started work continues.
        self.cancel(open.into_values()).await;
        outcome
    }

    /// Reads the ancestors before the first request: the client still waits for the welcome, so the process exists.
    async fn origin(&self, peer: i32) -> io::Result<ClientOrigin> {
        let mut failed = 0;
        loop {
            let panes = self.panes.clone();
            let looking =
                tokio::task::spawn_blocking(move || ClientOrigin::from_peer(peer, &panes));
            match looking.await.map_err(io::Error::other)? {
                Err(error) if error.raw_os_error().is_some() && failed < MAX_ORIGIN_ATTEMPTS => {
                    failed += 1;
                    tokio::time::sleep_until(Instant::now() + ACCEPT_RETRY_INTERVAL).await;
                }
                looked => return looked,
            }
        }
    }

    async fn handle_message(
        &self,
        question: ClientMessage,
        client: &ConnectionPeer,
        open: &mut HashMap<u64, ConnectionCall>,
    ) {
        match question {
            ClientMessage::Cancel { id } => {
                self.cancel(open.remove(&id)).await;
            }
            ClientMessage::Call {
                id,
                key,
                who,
                request,
            } => {
                let acked = take_acked_call(open, &request);
                let responder = Responder::new(id, client.back.clone(), client.unread.clone());
                match self.admit_call(id, open) {
                    Err(refusal) => responder.answer(Err(refusal)),
                    Ok(call) => {
                        let event = ListenerEvent::Call {
                            call,
                            key,
                            who: who.unwrap_or_else(|| client.who.clone()),
                            origin: client.origin.clone(),
                            caller: client.caller.clone(),
                            ask: request,
                            responder,
                        };
                        let _ = self.engine.send(event).await;
                    }
                }
                // Close the waiting call after passing on the ack. If core accepted the ack, the lease is gone and closing releases
                // nothing; if it was refused, closing releases the event.
                self.cancel(acked).await;
            }
        }
    }

    /// Adds a call to the open calls of the connection.
    fn admit_call(
        &self,
        id: u64,
        open: &mut HashMap<u64, ConnectionCall>,
    ) -> Result<CallId, Error> {
        let max_calls = self.limits.max_calls;
        if open.len() >= max_calls {
            let error = format!(
                "this client has {} calls open, and the limit is {max_calls} (`client_max_calls`)",
                open.len()
            );
            return Err(Error::new(ErrorKind::Exhausted, error)
                .hint("nothing was done; wait for the answer to one of them"));
        }
        let Entry::Vacant(entry) = open.entry(id) else {
            let error = format!("id {id} is in use by an open call of this connection");
            return Err(Error::invalid(error));
        };
        let call = CallId(self.calls.fetch_add(1, Ordering::Relaxed));
        entry.insert(ConnectionCall {
            call,
            leased_event: None,
        });
        Ok(call)
    }

    async fn cancel(&self, calls: impl IntoIterator<Item = ConnectionCall>) {
        for ConnectionCall { call, .. } in calls {
            let _ = self.engine.send(ListenerEvent::Cancelled { call }).await;
        }
    }
}

/// Removes the open call whose reply leased the event that `request` acks.
fn take_acked_call(
    open: &mut HashMap<u64, ConnectionCall>,
    request: &Request,
) -> Option<ConnectionCall> {
    let Request::AckEvent { event } = request else {
        return None;
    };
    open.extract_if(|_, call| call.leased_event == Some(*event))
        .next()
        .map(|(_, call)| call)
}
