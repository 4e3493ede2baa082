//! A client's own line to a pane, on the pane's thread: what a person types and sees takes no way through the engine.

use std::{io, os::unix::net::UnixStream};

use fugue_api::{
    Error, ErrorKind, PaneId,
    attach::{AttachRequest, ViewerRole},
    wire::{ClientMessage, Request, Response},
};
use fugue_core::PaneRequest;
use tokio::sync::{mpsc, oneshot};

use super::{FrameRequest, Pane, PaneCommand};
use crate::desk::{Back, Responder, UnreadReplies};
use fugue_client::{frame::FrameReader, socket};

/// One line's end here.
struct ViewerLine {
    pane: PaneId,
    role: ViewerRole,
    /// An ended pane is not kept by those who look at it.
    commands: mpsc::WeakSender<PaneCommand>,
    back: mpsc::UnboundedSender<Back>,
}

// A key waits for the one before it, and a look for the picture: more than a few are not open at a time.
const MOST_OPEN: usize = 64;
// Pictures that a client has not taken yet are old when it does.
const MOST_AHEAD: u32 = 16;
// A paste, in the longest words that JSON has for it.
const LARGEST_QUESTION: usize = 1024 * 1024;

impl Pane {
    /// Takes over the connection that this was asked on.
    pub(super) fn open_line(&self, role: ViewerRole, responder: Responder) {
        let (pane, commands) = (self.context.record.id, self.context.commands.clone());
        let (give, given) = oneshot::channel();
        tokio::task::spawn_local(async move {
            // A client that has gone gives nothing.
            let Ok(stream) = given.await else { return };
            let (back, answers) = mpsc::unbounded_channel();
            let line = ViewerLine {
                pane,
                role,
                commands,
                back,
            };
            if let Err(error) = line.serve(stream, answers).await {
                tracing::debug!(%pane, %error, "a line was closed");
            }
        });
        responder.answer_and_move(Ok(Response::Noted), give);
    }
}

impl ViewerLine {
    async fn serve(
        self,
        stream: UnixStream,
        mut answers: mpsc::UnboundedReceiver<Back>,
    ) -> io::Result<()> {
        let (incoming, mut sink) = socket::split(stream)?;
        let mut incoming = FrameReader::new(incoming, LARGEST_QUESTION);
        let mut open = 0;
        // What is asked for ahead is bounded, so there is no limit of bytes.
        let unread = UnreadReplies::at_most(u64::MAX);
        loop {
            tokio::select! {
                question = incoming.next(), if open < MOST_OPEN => match question? {
                    Some(ClientMessage::Call { id, key, ask, .. }) => {
                        open += 1;
                        let responder = Responder::new(id, self.back.clone(), unread.clone());
                        let command = match self.command(ask, key, responder) {
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
                    // What nobody waits for any more is answered with the next picture, to nobody.
                    Some(ClientMessage::Cancel { .. }) => {}
                    None => return Ok(()),
                },
                Some(answer) = answers.recv() => {
                    open -= usize::from(!answer.stays_open);
                    let mut bytes = answer.bytes;
                    while let Ok(next) = answers.try_recv() {
                        open -= usize::from(!next.stays_open);
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
        match ask {
            Request::Look {
                look: AttachRequest::View { client, pane, seen },
            } if pane == self.pane => Ok(PaneCommand::View {
                client,
                asks: FrameRequest::once(seen, responder),
            }),
            Request::Look {
                look: AttachRequest::Views { client, seen, most },
            } => Ok(PaneCommand::View {
                client,
                asks: FrameRequest {
                    seen,
                    more: most.clamp(1, MOST_AHEAD) - 1,
                    reply_to: responder,
                },
            }),
            Request::Look {
                look: AttachRequest::Type { pane, bytes, .. },
            } if pane == self.pane && self.role == ViewerRole::Interactive => {
                Ok(PaneCommand::Ask {
                    question: PaneRequest::Type { bytes, key },
                    responder,
                })
            }
            _ => {
                let error = Error::new(
                    ErrorKind::InvalidArgument,
                    format!(
                        "this line is for looking at pane `{}`, and typing",
                        self.pane
                    ),
                );
                Err((error, responder))
            }
        }
    }
}
