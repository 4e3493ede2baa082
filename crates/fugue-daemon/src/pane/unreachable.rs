//! A pane whose backend is unreachable. Only a proof of death ends a pane; until then the pane is kept, the daemon retries,
//! and replies contain the reason.

use std::{collections::VecDeque, pin::Pin, time::Duration};

use fugue_api::{
    Error, ErrorKind, ToolReply,
    pane_state::{PaneState, SourcedState, StateSource},
    tools::{GetStatusReply, ReadPane},
    wire::Response,
};
use fugue_core::{
    PaneEvent, PaneRequest, StepPlan,
    pane_machine::{AttemptStart, BackendConnection, PaneExit, PaneGoal, Reachability},
};
use fugue_holder::{spawn::ProcessExit, wire::ProcessIdentity};
use rustix::process::{Pid, PidfdFlags};
use tokio::{
    io::Interest,
    time::{Instant, sleep_until, timeout, timeout_at},
};

use super::{
    MAX_QUEUED_COMMANDS, Pane, PaneCommand, PaneContext,
    backend::{Adoption, PaneBackend, Unreachable},
    open::{AdoptionOutcome, pane_exit, recorded_exit},
    tmux_listener::TmuxTarget,
};
use crate::{archive, pending_calls::Responder, reap, whole};
use fugue_client::async_fd::register_fd;

/// An attempt to reach a pane's backend. At most one is under way.
pub(super) type Attempt = Pin<Box<dyn Future<Output = Adoption>>>;

impl PaneContext {
    fn goal(&self) -> PaneGoal {
        match self.record.closing {
            true => PaneGoal::Close,
            false => PaneGoal::Keep,
        }
    }

    /// Begins the attempt after a failed one.
    fn retry(&self, connection: &mut BackendConnection, failed: Unreachable) -> Attempt {
        let plan = connection.on_failed(&failed.why, self.goal());
        if plan.is_new_reason {
            let (pane, why) = (self.record.id, &failed.why);
            tracing::warn!(%pane, why, "holder unreachable, trying again");
        }
        let next = match failed.backend {
            Some(backend) => Box::pin(backend.recover()),
            None => find_backend(self),
        };
        self.begin_attempt(plan.start, failed.child, next)
    }

    /// Ends the pane's recorded processes, the holder included, and then tries to reach the backend again.
    fn close_without_backend(
        &self,
        connection: &mut BackendConnection,
        grace: Duration,
    ) -> Attempt {
        let start = connection.on_close_without_backend(grace);
        self.begin_attempt(start, None, find_backend(self))
    }

    fn begin_attempt(
        &self,
        start: AttemptStart,
        child: Option<ProcessIdentity>,
        next: Attempt,
    ) -> Attempt {
        let (pane, dir) = (self.record.id, self.pane_dir().dir);
        Box::pin(async move {
            match start {
                AttemptStart::AfterReap { grace, pause } => {
                    let ends = move || reap::pane_and_holder(pane, &dir, grace);
                    let _ = tokio::task::spawn_blocking(ends).await;
                    sleep_until(Instant::now() + pause).await;
                }
                AttemptStart::AfterPause(pause) => _ = timeout(pause, ended(child)).await,
            }
            next.await
        })
    }
}

fn find_backend(context: &PaneContext) -> Attempt {
    match TmuxTarget::from_context(context) {
        Some(target) => Box::pin(PaneBackend::attach_tmux(target)),
        None => Box::pin(PaneBackend::find(context.pane_dir())),
    }
}

/// Returns when a process has ended, and never where its pidfd cannot be opened.
pub(super) async fn ended(child: Option<ProcessIdentity>) {
    let watch = |child: ProcessIdentity| {
        let pidfd = rustix::process::pidfd_open(Pid::from_raw(child.pid)?, PidfdFlags::empty());
        let pidfd = register_fd(pidfd.ok()?, Interest::READABLE).ok()?;
        // The pidfd belongs to this process if the pid still has the recorded start time.
        fugue_holder::check_alive(child).ok()?.then_some(pidfd)
    };
    match child.and_then(watch) {
        Some(pidfd) => _ = pidfd.readable().await,
        None => std::future::pending().await,
    }
}

/// Waits for the end of the present attempt, if there is one.
pub(super) async fn attempted(attempt: Option<&mut Attempt>) -> Adoption {
    match attempt {
        Some(attempt) => attempt.await,
        None => std::future::pending().await,
    }
}

/// Waits for the first attempt as long as callers are made to wait for it. `None`: there is no such attempt, or it takes longer.
pub(super) async fn first_attempt(
    connection: &mut BackendConnection,
    attempt: Option<&mut Attempt>,
) -> Option<Adoption> {
    let deadline = connection.take_grace_deadline()?;
    timeout_at(deadline.into(), attempt?).await.ok()
}

/// A pane of an earlier daemon that has not been reached yet: no terminal, no connection, only the record and the files.
struct UnreachedPane {
    context: PaneContext,
    connection: BackendConnection,
    attempt: Attempt,
    /// Commands that only an adopted pane can carry out.
    deferred: VecDeque<PaneCommand>,
}

/// Why a pane has to be adopted.
pub(super) enum AdoptionCause {
    /// An earlier daemon may have died before the child was started.
    Interrupted,
    /// This daemon lost the holder while the child was started.
    Failed(Error),
}

/// Adopts a running pane, however long that takes. `None`: the pane never ran, which was reported to core, or its handle was
/// dropped.
pub(super) async fn adopt(
    context: PaneContext,
    mut steps: Option<StepPlan>,
    birth: AdoptionCause,
) -> Option<Pane> {
    let mut pane = UnreachedPane {
        connection: BackendConnection::adopting(std::time::Instant::now()),
        attempt: find_backend(&context),
        context,
        deferred: VecDeque::new(),
    };
    let mut first = first_attempt(&mut pane.connection, Some(&mut pane.attempt)).await;
    loop {
        let adoption = match first.take() {
            Some(adoption) => adoption,
            None => pane.attempted().await?,
        };
        match Pane::adopted(pane.context, adoption, &mut steps).await {
            AdoptionOutcome::Pane(adopted) => {
                let mut adopted = *adopted;
                for command in pane.deferred {
                    adopted.handle_command(command).await;
                }
                return Some(adopted);
            }
            AdoptionOutcome::NeverStarted(context, error) => {
                let event = match birth {
                    AdoptionCause::Interrupted => PaneEvent::NeverStarted(error),
                    AdoptionCause::Failed(error) => PaneEvent::OpenFailed(error),
                };
                context.emit(event).await;
                return None;
            }
            AdoptionOutcome::Unreachable(context, failed) => {
                pane.attempt = context.retry(&mut pane.connection, failed);
                pane.context = context;
            }
        }
    }
}

impl UnreachedPane {
    /// Answers calls until the attempt has ended. `None`: the handle was dropped.
    async fn attempted(&mut self) -> Option<Adoption> {
        loop {
            tokio::select! {
                adoption = self.attempt.as_mut() => return Some(adoption),
                command = self.context.commands_rx.recv() => self.handle_command(command?),
            }
        }
    }

    /// Why the backend is not connected.
    fn why(&self) -> &str {
        match self.connection.reachability() {
            Reachability::Reconnecting(why) => why,
            Reachability::Connected | Reachability::Silent | Reachability::Gone => "",
        }
    }

    fn handle_command(&mut self, command: PaneCommand) {
        match command {
            PaneCommand::Request {
                request: PaneRequest::Status(mut status),
                responder,
            } => {
                status.note = Some(note(self.why()));
                responder.answer(Ok(Response::Tool {
                    reply: ToolReply::GetStatus(GetStatusReply::Pane(status)),
                }));
            }
            PaneCommand::Request {
                request: PaneRequest::Read { args, .. },
                responder,
            } => self.context.read_files(args, responder),
            PaneCommand::Request {
                request: PaneRequest::ReadLines { from, most },
                responder,
            } => {
                self.context
                    .answer_from_files(PaneRequest::ReadLines { from, most }, responder);
            }
            PaneCommand::Request {
                request:
                    PaneRequest::Send { .. }
                    | PaneRequest::Type { .. }
                    | PaneRequest::Resize(_)
                    | PaneRequest::Connect { .. },
                responder,
            } => responder.answer(Err(self.context.refusal(self.why()))),
            PaneCommand::GetState(reply) => {
                let _ = reply.send(running_state().into());
            }
            PaneCommand::ReadRange { reply, .. } => {
                let _ = reply.send(None);
            }
            PaneCommand::Close { grace } => {
                self.context.record.closing = true;
                self.attempt = (self.context).close_without_backend(&mut self.connection, grace);
            }
            PaneCommand::Request { responder, .. }
                if self.deferred.len() >= MAX_QUEUED_COMMANDS =>
            {
                responder.answer(Err(self.context.refusal(self.why())));
            }
            command @ (PaneCommand::Request { .. }
            | PaneCommand::RequestFrame { .. }
            | PaneCommand::ReadOutput { .. }
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
            | PaneCommand::SetAgentState(_)) => self.deferred.push_back(command),
        }
    }
}

impl PaneContext {
    /// Answers a read from the pane's files.
    pub(super) fn read_files(&self, args: Box<ReadPane>, responder: Responder) {
        let ended = Some(running_state());
        self.answer_from_files(PaneRequest::Read { args, ended }, responder);
    }

    fn answer_from_files(&self, request: PaneRequest, responder: Responder) {
        let answer = archive::answer(Box::new(self.record.clone()), request, self.daemon.clone());
        whole::answer_later(responder, answer);
    }

    /// The error for a call that needs the backend.
    pub(super) fn refusal(&self, why: &str) -> Error {
        let pane = self.record.id;
        Error::new(
            ErrorKind::Unavailable,
            format!("the holder of pane `{pane}` cannot be reached ({why}); nothing was done"),
        )
        .hint("the daemon keeps trying; ask again, or close the pane")
    }
}

/// The note of `get_status` for an unreachable pane.
pub(super) fn note(why: &str) -> String {
    format!(
        "its holder cannot be reached ({why}); the daemon keeps trying; no end of the program is recorded"
    )
}

/// The state of an unreachable pane: no end was recorded.
pub(super) fn running_state() -> SourcedState {
    SourcedState::new(PaneState::Running, StateSource::Exit)
}

impl Pane {
    /// The connection to the backend is lost, which does not prove that the child died.
    pub(super) fn connection_lost(&mut self, why: String) {
        tracing::debug!(pane = %self.context.record.id, why, "holder connection lost");
        self.fail_unacknowledged();
        let Some(backend) = self.backend.take() else {
            return;
        };
        match backend.recorded_exit() {
            // A holder whose child has exited ends by itself, after it recorded the exit.
            Some(record) => self.exited(pane_exit(record.exited)),
            None => {
                self.connection.on_lost(why, Instant::now().into());
                self.attempt = Some(Box::pin(backend.recover()));
            }
        }
    }

    /// No backend is left, and the child's exit is known.
    fn exited(&mut self, exit: PaneExit<ProcessExit>) {
        self.connection.on_gone();
        self.lifecycle.on_exit(exit);
        self.has_unread_output = true;
    }

    /// Ends a pane whose holder does not answer.
    pub(super) fn close_unreachable(&mut self, grace: Duration) {
        self.fail_unacknowledged();
        self.lifecycle.clear_close_deadline();
        self.backend = None;
        self.attempt = Some((self.context).close_without_backend(&mut self.connection, grace));
    }

    /// An attempt to reach the backend again has ended.
    pub(super) async fn reconnected(&mut self, adoption: Adoption) {
        self.attempt = None;
        let failed = match adoption {
            Adoption::Answered(backend, hello) => {
                self.backend = Some(backend);
                self.connection.on_answered();
                self.apply_hello(&hello).await;
                return self.resend_requests();
            }
            Adoption::Dead => match recorded_exit(&self.context) {
                Ok(recorded) => return self.exited(self.end_of(recorded)),
                Err(error) => Unreachable::because(format!("its end cannot be read: {error}")),
            },
            Adoption::Unreachable(failed) => failed,
        };
        self.attempt = Some(self.context.retry(&mut self.connection, failed));
    }

    /// Fires when a holder has not answered for too long: callers are answered without it.
    pub(super) fn backend_timed_out(&mut self) {
        if !self.connection.on_probe_timeout() {
            return;
        }
        let Some(why) = self.unreachable() else {
            return;
        };
        tracing::warn!(pane = %self.context.record.id, why, "holder does not answer");
        self.inputs.refuse_unbegun(&self.context.refusal(&why));
        self.answer_inputs();
        let probes = std::mem::take(&mut self.probes);
        for (id, asked) in probes {
            if let Some(asked) = self.answer_unreachable(asked) {
                self.probes.insert(id, asked);
            }
        }
    }

    /// Why the backend is unreachable, if it is.
    pub(super) fn unreachable(&self) -> Option<String> {
        match self.connection.reachability() {
            Reachability::Connected | Reachability::Gone => None,
            Reachability::Silent => Some(self.backend.as_ref()?.silence_reason().to_owned()),
            Reachability::Reconnecting(why) => Some(why.to_owned()),
        }
    }
}
