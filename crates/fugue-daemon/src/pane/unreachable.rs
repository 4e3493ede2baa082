//! A pane whose backend is unreachable. Only a proof of death ends a pane; until then the pane is kept, the daemon retries,
//! and replies contain the reason.

use std::{collections::VecDeque, pin::Pin, time::Duration};

use fugue_api::{
    Error, ErrorKind, ToolReply,
    pane_state::{PaneState, SourcedState, StateSource},
    tools::{GetStatusReply, ReadPane},
    wire::Response,
};
use fugue_core::{PaneEvent, PaneRequest, StepPlan};
use fugue_holder::wire::ProcessIdentity;
use rustix::process::{Pid, PidfdFlags};
use tokio::{
    io::Interest,
    time::{Instant, sleep_until, timeout, timeout_at},
};

use super::{
    MAX_QUEUED_COMMANDS, Pane, PaneBrief, PaneCommand, PaneContext,
    backend::{Adoption, PaneBackend, Unreachable},
    open::{AdoptionOutcome, pane_exit, recorded_exit},
    tmux_listener::TmuxTarget,
};
use crate::{archive, pending_calls::Responder, reap, whole};
use fugue_client::async_fd::register_fd;

// No event reports that fds, memory or disk space are available again, so attempts are repeated after a pause.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const MAX_PAUSE: Duration = Duration::from_secs(5);
// A holder that is there answers within milliseconds. Callers of a pane that takes longer are answered without it.
const FIRST_ATTEMPT_TIMEOUT: Duration = Duration::from_millis(300);

type Attempt = Pin<Box<dyn Future<Output = Adoption>>>;

/// The attempts to reach a pane's backend, one at a time.
pub(super) struct Reconnection {
    /// Why the last attempt failed.
    pub why: String,
    pause: Duration,
    attempt: Attempt,
    /// Until then callers wait for the attempt instead of being refused.
    grace_deadline: Option<Instant>,
}

impl Reconnection {
    /// The first attempt for a pane of an earlier daemon.
    fn adopt(context: &PaneContext) -> Self {
        Self {
            why: "the search has begun".into(),
            pause: FIRST_PAUSE,
            attempt: find_backend(context),
            grace_deadline: None,
        }
    }

    /// The first attempt after a lost connection.
    pub fn recover(backend: PaneBackend, why: String) -> Self {
        Self {
            why,
            pause: FIRST_PAUSE,
            attempt: Box::pin(backend.recover()),
            grace_deadline: Some(Instant::now() + FIRST_ATTEMPT_TIMEOUT),
        }
    }

    /// Ends the pane's recorded processes, the holder included, and then tries to reach the backend again.
    pub fn close(context: &PaneContext, why: String, grace: Duration) -> Self {
        let attempt = Unreachable::because(why);
        Self::after(context, FIRST_PAUSE, attempt, Some(grace))
    }

    /// The attempt after a failed one.
    fn retry(self, context: &PaneContext, failed: Unreachable) -> Self {
        if failed.why != self.why {
            let (pane, why) = (context.record.id, &failed.why);
            tracing::warn!(%pane, why, "holder unreachable, trying again");
        }
        let grace = context.record.closing.then_some(Duration::ZERO);
        Self::after(context, (self.pause * 2).min(MAX_PAUSE), failed, grace)
    }

    fn after(
        context: &PaneContext,
        pause: Duration,
        failed: Unreachable,
        close: Option<Duration>,
    ) -> Self {
        let (pane, dir) = (context.record.id, context.pane_dir().dir);
        let next = match failed.backend {
            Some(backend) => Box::pin(backend.recover()),
            None => find_backend(context),
        };
        let child = failed.child;
        let attempt = async move {
            match close {
                Some(grace) => {
                    let ends = move || reap::pane_and_holder(pane, &dir, grace);
                    let _ = tokio::task::spawn_blocking(ends).await;
                    sleep_until(Instant::now() + pause.saturating_sub(FIRST_PAUSE)).await;
                }
                None => {
                    let _ = timeout(pause, ended(child)).await;
                }
            }
            next.await
        };
        Self {
            why: failed.why,
            pause,
            attempt: Box::pin(attempt),
            grace_deadline: None,
        }
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
pub(super) async fn attempted(reconnection: Option<&mut Reconnection>) -> Adoption {
    match reconnection {
        Some(reconnection) => reconnection.attempt.as_mut().await,
        None => std::future::pending().await,
    }
}

/// Waits for the first attempt after a lost connection, for as long as callers are made to wait for it. A dead holder is
/// replaced within milliseconds, so that no call is refused. `None`: there is no such attempt, or it takes longer.
pub(super) async fn first_attempt(reconnection: Option<&mut Reconnection>) -> Option<Adoption> {
    let reconnection = reconnection?;
    let deadline = reconnection.grace_deadline.take()?;
    timeout_at(deadline, reconnection.attempt.as_mut())
        .await
        .ok()
}

/// A pane of an earlier daemon that has not been reached yet: no terminal, no connection, only the record and the files.
struct UnreachedPane {
    context: PaneContext,
    reconnection: Reconnection,
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
        reconnection: Reconnection::adopt(&context),
        context,
        deferred: VecDeque::new(),
    };
    let mut outcome = timeout(FIRST_ATTEMPT_TIMEOUT, pane.reconnection.attempt.as_mut()).await;
    loop {
        let adoption = match outcome {
            Ok(adoption) => adoption,
            Err(_) => pane.attempted().await?,
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
                let fact = match birth {
                    AdoptionCause::Interrupted => PaneEvent::NeverStarted(error),
                    AdoptionCause::Failed(error) => PaneEvent::OpenFailed(error),
                };
                context.emit(fact).await;
                return None;
            }
            AdoptionOutcome::Unreachable(context, failed) => {
                pane.reconnection = pane.reconnection.retry(&context, failed);
                pane.context = context;
                outcome = Ok(pane.attempted().await?);
            }
        }
    }
}

impl UnreachedPane {
    /// Answers calls until the attempt has ended. `None`: the handle was dropped.
    async fn attempted(&mut self) -> Option<Adoption> {
        loop {
            tokio::select! {
                adoption = self.reconnection.attempt.as_mut() => return Some(adoption),
                command = self.context.commands_rx.recv() => self.handle_command(command?),
            }
        }
    }

    fn handle_command(&mut self, command: PaneCommand) {
        match command {
            PaneCommand::Request {
                request: PaneRequest::Status(mut status),
                responder,
            } => {
                status.note = Some(note(&self.reconnection.why));
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
            } => responder.answer(Err(self.context.refusal(&self.reconnection.why))),
            PaneCommand::GetBrief(reply) => {
                let _ = reply.send(PaneBrief {
                    state: running_state(),
                    idle_ms: 0,
                });
            }
            PaneCommand::ReadRange { reply, .. } => {
                let _ = reply.send(None);
            }
            PaneCommand::Close { grace } => {
                self.context.record.closing = true;
                let why = self.reconnection.why.clone();
                self.reconnection = Reconnection::close(&self.context, why, grace);
            }
            PaneCommand::Request { responder, .. }
                if self.deferred.len() >= MAX_QUEUED_COMMANDS =>
            {
                responder.answer(Err(self.context.refusal(&self.reconnection.why)));
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

    fn answer_from_files(&self, question: PaneRequest, responder: Responder) {
        let answer = archive::answer(Box::new(self.record.clone()), question, self.daemon.clone());
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
        "its holder cannot be reached ({why}); the daemon keeps trying, and the program goes on"
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
        self.health.on_disconnect();
        if let Some(backend) = self.backend.take() {
            // A holder whose child has exited ends by itself, after it recorded the exit.
            if let Some(record) = backend.recorded_exit() {
                self.lifecycle.on_exit(pane_exit(record.exited));
                self.has_unread_output = true;
                return;
            }
            self.reconnection = Some(Reconnection::recover(backend, why));
        }
    }

    /// Ends a pane whose holder does not answer.
    pub(super) fn close_unreachable(&mut self, grace: Duration) {
        let why = match &self.reconnection {
            Some(reconnection) => reconnection.why.clone(),
            None => "it did not close the pane".into(),
        };
        self.fail_unacknowledged();
        self.health.on_disconnect();
        self.lifecycle.clear_close_deadline();
        self.backend = None;
        self.reconnection = Some(Reconnection::close(&self.context, why, grace));
    }

    /// An attempt to reach the backend again has ended.
    pub(super) async fn reconnected(&mut self, adoption: Adoption) {
        let Some(reconnection) = self.reconnection.take() else {
            return;
        };
        match adoption {
            Adoption::Answered(backend, hello) => {
                self.backend = Some(backend);
                self.apply_hello(&hello).await;
                self.resend_requests();
            }
            Adoption::Dead => match recorded_exit(&self.context) {
                Ok(recorded) => {
                    self.lifecycle.on_exit(self.end_of(recorded));
                    self.has_unread_output = true;
                }
                Err(error) => {
                    let failed = Unreachable::because(format!("its end cannot be read: {error}"));
                    self.reconnection = Some(reconnection.retry(&self.context, failed));
                }
            },
            Adoption::Unreachable(failed) => {
                self.reconnection = Some(reconnection.retry(&self.context, failed));
            }
        }
    }

    /// Fires when a holder has not answered for too long: callers are answered without it.
    pub(super) fn backend_timed_out(&mut self) {
        let Some(backend) = &self.backend else {
            return self.health.clear_deadline();
        };
        let why = backend.silence_reason();
        tracing::warn!(pane = %self.context.record.id, why, "holder does not answer");
        self.health.on_timeout();
        self.inputs.refuse_unbegun(&self.context.refusal(why));
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
        if let Some(reconnection) = &self.reconnection {
            return Some(reconnection.why.clone());
        }
        let backend = self.backend.as_ref().filter(|_| self.health.is_silent());
        backend.map(|backend| backend.silence_reason().to_owned())
    }
}
