//! A pane whose task has panicked twice: its raw output can be read and the pane can be closed. Nothing here feeds a
//! terminal, because that may panic again.

#[cfg(test)]
mod tests;

use std::{io, time::Duration};

use fugue_api::{
    Error, ErrorKind, ToolReply,
    tools::{GetStatusReply, ReadMode, ReadPane},
    wire::Response,
};
use fugue_core::{PaneEvent, PaneRequest, view};
use fugue_holder::{LogReader, record::ChildRecord, spawn::ProcessExit};
use fugue_term::{Offset, TextCursor};
use tokio::time::timeout;

use super::{
    PaneCommand, PaneContext,
    backend::{Adoption, PaneBackend},
    launch,
    open::{ran_in_an_earlier_boot, recorded_exit},
    unreachable,
};
use crate::{reading, reap};

// The child's end is an event. No event reports the exit record that its holder writes afterwards.
const EXIT_POLL_INTERVAL: Duration = Duration::from_secs(1);

/// The end of the pane's child.
struct RawEnding {
    status: ProcessExit,
    lost_by_reboot: bool,
}

/// Serves the pane until its child has ended.
pub(super) async fn serve(mut context: PaneContext, panic: String) {
    let meta = ChildRecord::read(&context.pane_dir().dir, context.record.generation);
    let child = meta.ok().flatten().and_then(|meta| meta.child);
    loop {
        tokio::select! {
            command = context.commands_rx.recv() => match command {
                Some(PaneCommand::Close { grace }) => {
                    context.record.closing = true;
                    let (pane, dir) = (context.record.id, context.pane_dir().dir);
                    let ends = move || reap::pane_and_holder(pane, &dir, grace);
                    let _ = tokio::task::spawn_blocking(ends).await;
                }
                Some(command) => context.serve_raw(command, &panic),
                None => return,
            },
            _ = timeout(EXIT_POLL_INTERVAL, unreachable::ended(child)) => {}
        }
        if let Some(ending) = context.ending().await {
            return context.raw_ended(ending).await;
        }
    }
}

impl PaneContext {
    /// The child's exit, if it is proved.
    async fn ending(&self) -> Option<RawEnding> {
        if let Some(exited) = recorded_exit(self).ok()? {
            return Some(RawEnding {
                status: exited.ending,
                lost_by_reboot: false,
            });
        }
        // The connection is dropped at once, which does not affect the holder.
        match PaneBackend::find(self.pane_dir()).await {
            Adoption::Dead => Some(RawEnding {
                status: ProcessExit::Unknown,
                lost_by_reboot: ran_in_an_earlier_boot(self),
            }),
            Adoption::Answered(_, _) | Adoption::Unreachable(_) => None,
        }
    }

    async fn raw_ended(&self, ending: RawEnding) {
        let end = self.raw_end().unwrap_or_default();
        let sweeps = self.record.closing;
        self.emit(PaneEvent::Ended {
            exit: launch::exit(ending.status),
            cursor: view::shown(end),
            title: String::new(),
            alone: false,
            sweeps,
            lost_by_reboot: ending.lost_by_reboot,
        })
        .await;
        if sweeps {
            self.emit(PaneEvent::Swept).await;
        }
    }

    /// The end of the log. The line number is unknown, because no terminal counts lines.
    fn raw_end(&self) -> io::Result<TextCursor> {
        let offset = Offset(LogReader::new(self.pane_dir().dir).end_offset()?);
        Ok(TextCursor {
            offset,
            ..TextCursor::default()
        })
    }

    fn serve_raw(&self, command: PaneCommand, panic: &str) {
        match command {
            PaneCommand::Request {
                request: PaneRequest::Status(mut status),
                responder,
            } => {
                status.note = Some(format!(
                    "its terminal failed twice (`{panic}`), which is a bug in fugue; the program goes on, mode `raw` reads \
                     its output, and it can be closed"
                ));
                responder.answer(Ok(Response::Tool {
                    reply: ToolReply::GetStatus(GetStatusReply::Pane(status)),
                }));
            }
            PaneCommand::Request {
                request: PaneRequest::Read { args, .. },
                responder,
            } => responder.answer(self.read_raw(&args)),
            PaneCommand::Request { responder, .. } => responder.answer(Err(no_terminal())),
            PaneCommand::GetState(reply) => {
                let _ = reply.send(unreachable::running_state().into());
            }
            PaneCommand::ReadOutput { from, reply } => {
                let mut log = LogReader::new(self.pane_dir().dir);
                let end = self.raw_end().map_err(|error| unreadable(&error));
                let _ = reply.send(end.and_then(|end| reading::read_chunk(&mut log, from, end)));
            }
            PaneCommand::Close { .. }
            | PaneCommand::RequestFrame { .. }
            | PaneCommand::ReadRange { .. }
            | PaneCommand::StartExpect(_)
            | PaneCommand::CancelExpect(_)
            | PaneCommand::RunSteps(_)
            | PaneCommand::StopSteps(_)
            | PaneCommand::AwaitIdle(_)
            | PaneCommand::TypeMessage { .. }
            | PaneCommand::AwaitQuiet(_)
            | PaneCommand::CancelQuiet(_)
            | PaneCommand::Inject(_)
            | PaneCommand::Resize(_)
            | PaneCommand::SetAgentState(_) => {}
        }
    }

    fn read_raw(&self, args: &ReadPane) -> Result<Response, Error> {
        if args.mode != ReadMode::Raw {
            return Err(no_terminal());
        }
        let mut log = LogReader::new(self.pane_dir().dir);
        let end = self.raw_end().map_err(|error| unreadable(&error))?;
        let reply = reading::raw(end, &mut log, args, &unreachable::running_state())?;
        Ok(Response::Tool {
            reply: ToolReply::ReadPane(reply),
        })
    }
}

fn no_terminal() -> Error {
    Error::new(
        ErrorKind::Unavailable,
        "the terminal of this pane failed twice; only its raw output can be read",
    )
    .hint("read it with mode `raw`, or close it")
}

fn unreadable(error: &io::Error) -> Error {
    Error::new(
        ErrorKind::Unavailable,
        format!("the log cannot be read: {error}"),
    )
}
