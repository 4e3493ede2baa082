//! A viewer's own connection to a pane, served on the pane's thread: keys and frames do not pass through the engine.

use std::{io, os::unix::net::UnixStream};

use fugue_api::{
    Error, ErrorKind, PaneId,
    attach::{AttachRequest, ViewerRole},
    wire::{ClientMessage, Request, Response},
};
use fugue_core::PaneRequest;
use tokio::sync::{mpsc, oneshot};

use super::{FrameRequest, Pane, PaneCommand};
use crate::pending_calls::{OutgoingReply, Responder, UnreadReplies};
use fugue_client::{frame::FrameReader, socket};

/// The daemon's end of a viewer's connection.
struct ViewerConnection {
    pane: PaneId,
    role: ViewerRole,
    /// Weak, so that viewers do not keep an ended pane.
    commands: mpsc::WeakSender<PaneCommand>,
    back: mpsc::UnboundedSender<OutgoingReply>,
}

// The limit of open requests per connection: a viewer sends a key after the last was acknowledged, and one frame request.
const MAX_OPEN_REQUESTS: usize = 64;
// The limit of frames that answer one request. Frames that wait for a slow viewer are out of date when they arrive.
const MAX_FRAMES_PER_REQUEST: u32 = 16;
// The limit of a request: a large paste, in the longest form that JSON has for its bytes.
const MAX_REQUEST_BYTES: usize = 1024 * 1024;

impl Pane {
    /// Takes over the connection of the request.
    pub(super) fn open_connection(&self, role: ViewerRole, responder: Responder) {
        let (pane, commands) = (self.context.record.id, self.context.commands.clone());
        let (give, given) = oneshot::channel();
        tokio::task::spawn_local(async move {
            // The client has disconnected.
            let Ok(stream) = given.await else { return };
            let (back, answers) = mpsc::unbounded_channel();
            let connection = ViewerConnection {
                pane,
                role,
                commands,
                back,
            };
            if let Err(error) = connection.serve(stream, answers).await {
                tracing::debug!(%pane, %error, "viewer connection failed");
            }
        });
        responder.answer_and_move(Ok(Response::Done), give);
    }
}

impl ViewerConnection {
    async fn serve(
        self,
        stream: UnixStream,
        mut answers: mpsc::UnboundedReceiver<OutgoingReply>,
    ) -> io::Result<()> {
        let (incoming, mut sink) = socket::split(stream)?;
        let mut incoming = FrameReader::new(incoming, MAX_REQUEST_BYTES);
        let mut open = 0;
        // Replies are bounded in number, so their bytes need no limit: `MAX_OPEN_REQUESTS` with `MAX_FRAMES_PER_REQUEST` frames
        // each, from a pane with at most 32 viewers. While `write_all` waits for a slow client, no request is read.
        let unread = UnreadReplies::with_limit(u64::MAX);
        loop {
            tokio::select! {
                message = incoming.next(), if open < MAX_OPEN_REQUESTS => match message? {
                    Some(ClientMessage::Call { id, key, request, .. }) => {
                        open += 1;
                        let responder = Responder::new(id, self.back.clone(), unread.clone());
                        let command = match self.command(request, key, responder) {
                            Ok(command) => command,
                            Err((error, responder)) => {
                                responder.answer(Err(error));
                                continue;
                            }
                        };
                        let Some(pane) = self.commands.upgrade() else {
                            return Ok(());
                        };
                        if pane.send(command).await.is_err() {
                            return Ok(());
                        }
                    }
                    // A cancelled request is answered with the next frame, which the client ignores.
                    Some(ClientMessage::Cancel { .. }) => {}
                    None => return Ok(()),
                },
                Some(answer) = answers.recv() => {
                    open -= usize::from(answer.closes_call());
                    let mut bytes = answer.bytes;
                    while let Ok(next) = answers.try_recv() {
                        open -= usize::from(next.closes_call());
                        bytes.extend(next.bytes);
                    }
                    sink.write_all(&bytes).await?;
                }
            }
        }
    }

    fn command(
        &self,
        ask: Request,
        key: fugue_api::wire::IdempotencyKey,
        responder: Responder,
    ) -> Result<PaneCommand, (Error, Responder)> {
        let error = Error::new(
            ErrorKind::InvalidArgument,
            format!(
                "this connection only shows and types into pane `{}`",
                self.pane
            ),
        );
        let Request::Attach { request } = ask else {
            return Err((error, responder));
        };
        match request {
            AttachRequest::GetFrame { client, pane, seen } if pane == self.pane => {
                Ok(PaneCommand::RequestFrame {
                    client,
                    request: FrameRequest::once(seen, responder),
                })
            }
            AttachRequest::StreamFrames { client, seen, most } => Ok(PaneCommand::RequestFrame {
                client,
                request: FrameRequest {
                    seen,
                    more: most.clamp(1, MAX_FRAMES_PER_REQUEST) - 1,
                    reply_to: responder,
                },
            }),
            AttachRequest::Type { pane, bytes, .. }
                if pane == self.pane && self.role == ViewerRole::Interactive =>
            {
                Ok(PaneCommand::Request {
                    request: PaneRequest::Type { bytes, key },
                    responder,
                })
            }
            AttachRequest::JoinSession { .. }
            | AttachRequest::SetSize { .. }
            | AttachRequest::GetLayout { .. }
            | AttachRequest::ChangeLayout { .. }
            | AttachRequest::GetFrame { .. }
            | AttachRequest::ConnectPane { .. }
            | AttachRequest::ReadLines { .. }
            | AttachRequest::Type { .. }
            | AttachRequest::WatchOverview { .. } => Err((error, responder)),
        }
    }
}
