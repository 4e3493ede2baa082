use std::{convert::Infallible, time::Duration};

use fugue_api::{
    Delivery, Error, EventAck, Handle, InboxTimeout, RawReply, RunId, RunReply, ToolCall,
    ToolReply, ToolWait,
    run_result::RunResult,
    tools::{
        ClosePaneReply, CreatePaneReply, ExpectResult, GetStatus, GetStatusReply, PaneStatus,
        WaitForEventReply, WaitForRun, WaitOutcome, WaitTimeout,
    },
};
use rmcp::{
    Peer, RoleServer,
    model::{ProgressNotificationParam, ProgressToken},
};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::forms::CallForm;

/// The limits of one tool call: the client's timeout, its cancellation, and progress notifications.
pub struct CallContext {
    /// The longest time until the reply, shorter than the client's own timeout.
    pub max_wait: Duration,
    /// Cancelled by `notifications/cancelled` or a closed HTTP stream.
    pub cancelled: CancellationToken,
    /// Cancelled when the client has disconnected.
    pub disconnected: CancellationToken,
    /// Present if the call has a progress token.
    pub progress: Option<ProgressSink>,
    pub peer: Peer<RoleServer>,
}

/// Sends the progress notifications of one call.
pub struct ProgressSink {
    pub token: ProgressToken,
    pub peer: Peer<RoleServer>,
}

const PROGRESS_INTERVAL: Duration = Duration::from_secs(5);

impl CallContext {
    /// Forwards the call to the handle and waits for the reply.
    ///
    /// Returns `None` for a cancelled call and after a disconnect. Neither stops work that the daemon has begun. At
    /// `max_wait`, a call for a run returns the run's current state, and a closing pane is reported as closing. Meanwhile
    /// `form` shows questions to the person at the client.
    pub async fn run<H: Handle + Clone + Send + Sync + 'static>(
        &self,
        handle: &H,
        mut request: ToolCall,
        form: Option<CallForm<H>>,
    ) -> Option<Result<Delivery<RawReply>, Error>> {
        let subject = CallSubject::new(&mut request, self.max_wait);
        let mut reply = std::pin::pin!(handle.call_raw(request));
        let mut progress = std::pin::pin!(self.report_progress(handle, &subject));
        let shows_forms = form.is_some();
        let mut put_back = std::pin::pin!(async {
            match form {
                Some(form) => form.elicit(&self.peer).await,
                None => std::future::pending().await,
            }
        });
        let deadline = Instant::now() + self.max_wait;
        tokio::select! {
            // A finished reply takes precedence over a cancellation.
            biased;
            reply = &mut reply => return Some(reply.and_then(|reply| subject.finish(reply))),
            reply = &mut put_back, if shows_forms => {
                let reply = RawReply::new(&ToolReply::AskQuestion(reply));
                return Some(reply.map(Delivery::from));
            }
            () = self.cancelled.cancelled() => return None,
            () = self.disconnected.cancelled() => return None,
            () = sleep_until(deadline), if subject.has_interim_reply() => {}
            never = &mut progress, if self.progress.is_some() => match never {},
        }
        match Box::pin(subject.interim_reply(handle)).await? {
            InterimReply::Ongoing(interim) => {
                Some(interim.and_then(|reply| RawReply::new(&reply).map(Delivery::from)))
            }
            // The reply to the call itself is on its way, and has the lease of the event.
            InterimReply::Ended => tokio::select! {
                biased;
                reply = reply => Some(reply.and_then(|reply| subject.finish(reply))),
                () = self.cancelled.cancelled() => None,
                () = self.disconnected.cancelled() => None,
            },
        }
    }

    /// Sends a progress notification every [`PROGRESS_INTERVAL`].
    pub async fn report_progress<H: Handle>(
        &self,
        handle: &H,
        subject: &CallSubject,
    ) -> Infallible {
        let Some(sink) = &self.progress else {
            return std::future::pending().await;
        };
        let start = Instant::now();
        let mut next = start;
        loop {
            next += PROGRESS_INTERVAL;
            sleep_until(next).await;
            let seconds = start.elapsed().as_secs();
            let message = Box::pin(subject.progress_message(handle, seconds)).await;
            let progress = ProgressNotificationParam::new(sink.token.clone(), seconds as f64);
            // A failed write ends the connection elsewhere.
            let _ = sink
                .peer
                .notify_progress(progress.with_message(message))
                .await;
        }
    }
}

/// The state of a call's work at `max_wait`.
enum InterimReply {
    Ongoing(Box<Result<ToolReply, Error>>),
    /// The run has ended meanwhile.
    Ended,
}

/// The object of a call's wait, which decides progress messages and the reply at `max_wait`.
pub enum CallSubject {
    /// An inbox event or an answer; the daemon itself observes the timeout.
    Event {
        description: String,
        timeout: InboxTimeout,
    },
    /// A run, whose current state is the interim reply.
    Run { run: RunId, tool: RunTool },
    /// The end of a pane's processes.
    PaneClose { pane: String, grace: Duration },
    /// Work that ends within seconds.
    Short { description: String },
}

/// The tool that was called for a run, which decides the shape of the reply.
#[derive(Clone, Copy)]
pub enum RunTool {
    /// The tool that started the run.
    Start(RunReply),
    /// `fugue_wait`.
    Wait,
}

impl CallSubject {
    /// Classifies a call, and reduces the timeout of an inbox wait to `max_wait`.
    pub fn new(request: &mut ToolCall, max_wait: Duration) -> Self {
        match request.wait() {
            ToolWait::Short { activity } => Self::Short {
                description: activity,
            },
            ToolWait::Inbox(mut wait) => {
                let timeout = wait.limit(max_wait);
                Self::Event {
                    description: wait.description,
                    timeout,
                }
            }
            ToolWait::StartRun {
                run_id: Some(run),
                reply,
            } => Self::Run {
                run: run.clone(),
                tool: RunTool::Start(reply),
            },
            ToolWait::StartRun { run_id: None, .. } => Self::Short {
                description: "waiting for the run".to_owned(),
            },
            ToolWait::JoinRun { run_id } => Self::Run {
                run: run_id.clone(),
                tool: RunTool::Wait,
            },
            ToolWait::PaneClose { pane, grace } => Self::PaneClose {
                pane: pane.to_owned(),
                grace,
            },
        }
    }

    /// Completes the daemon's reply: a reduced timeout is marked with the reason `client_limit`, and the result of an ended
    /// run has no id, which no further call needs.
    pub fn finish(&self, mut delivery: Delivery<RawReply>) -> Result<Delivery<RawReply>, Error> {
        match self {
            Self::Event {
                timeout: InboxTimeout::Reduced,
                ..
            } => {
                let mut reply = delivery.reply.read()?;
                if let ToolReply::WaitForEvent(WaitForEventReply {
                    what: WaitOutcome::Nothing(WaitTimeout::Timeout { reason, .. }),
                    ..
                }) = &mut reply
                {
                    *reason = Some("client_limit".to_owned());
                    delivery.reply = RawReply::new(&reply)?;
                }
            }
            Self::Run { tool, .. } => {
                let result = delivery.reply.read()?.into_run_result();
                if let Some(mut result) = result.filter(|result| !result.is_running()) {
                    *result.run_id_mut() = None;
                    delivery.reply = RawReply::new(&tool.reply(result))?;
                }
            }
            Self::Event { .. } | Self::PaneClose { .. } | Self::Short { .. } => {}
        }
        Ok(delivery)
    }

    async fn progress_message<H: Handle>(&self, handle: &H, seconds: u64) -> String {
        let description = match self {
            Self::Run { run, .. } => match run_state(handle, run).await {
                Ok(state) => return state.progress(),
                Err(_) => run.to_string(),
            },
            Self::PaneClose { pane, grace } => {
                let grace = grace.as_secs();
                format!("waiting for {pane} to end, at most {grace}s")
            }
            Self::Event { description, .. } | Self::Short { description } => description.clone(),
        };
        format!("{description} · {seconds}s")
    }

    fn has_interim_reply(&self) -> bool {
        match self {
            Self::Run { .. } | Self::PaneClose { .. } => true,
            Self::Event { .. } | Self::Short { .. } => false,
        }
    }

    /// The reply at `max_wait`, while the daemon continues the work.
    async fn interim_reply<H: Handle>(&self, handle: &H) -> Option<InterimReply> {
        match self {
            Self::Run { run, tool } => Some(match run_state(handle, run).await {
                Ok(state) if !state.is_running() => InterimReply::Ended,
                Ok(state) => {
                    InterimReply::Ongoing(Box::new(tool.interim_reply(handle, state).await))
                }
                Err(error) => InterimReply::Ongoing(Box::new(Err(error))),
            }),
            Self::PaneClose { pane, .. } => {
                let closing = pane_closing(handle, pane.clone()).await;
                Some(InterimReply::Ongoing(Box::new(closing)))
            }
            Self::Event { .. } | Self::Short { .. } => None,
        }
    }
}

impl RunTool {
    fn reply(self, state: RunResult) -> ToolReply {
        match (self, state) {
            (Self::Wait, state) => ToolReply::WaitForRun(state),
            (Self::Start(_), RunResult::Expect(result)) => ToolReply::RunExpect(result),
            (Self::Start(_), RunResult::Parallel(result)) => ToolReply::RunParallel(result),
            (Self::Start(_), RunResult::Pipeline(result)) => ToolReply::RunPipeline(result),
        }
    }

    /// The reply about a run that continues.
    async fn interim_reply<H: Handle>(
        self,
        handle: &H,
        state: RunResult,
    ) -> Result<ToolReply, Error> {
        match (self, state) {
            (Self::Start(RunReply::NewPane), RunResult::Expect(result)) => {
                new_pane(handle, result).await.map(ToolReply::CreatePane)
            }
            (_, state) => Ok(self.reply(state)),
        }
    }
}

/// The reply of `create_pane` while the pattern is waited for in the new pane.
async fn new_pane<H: Handle>(handle: &H, result: ExpectResult) -> Result<CreatePaneReply, Error> {
    let pane = result
        .pane_id
        .ok_or_else(|| Error::internal("the run of a new pane names no pane"))?;
    let pane = pane_status(handle, pane.to_string()).await?;
    let (session, name) = (pane.session, pane.name);
    let reply = CreatePaneReply::new(pane.pane_id, session, name, pane.pid, pane.cursor);
    Ok(reply.with_result(result))
}

/// The current state of a run, without waiting.
async fn run_state<H: Handle>(handle: &H, run: &RunId) -> Result<RunResult, Error> {
    let (state, _) = fetch_run(handle, run).await?;
    Ok(state)
}

/// The current state of a run, without waiting, and the lease of the event that reports the run's end.
pub async fn fetch_run<H: Handle>(
    handle: &H,
    run: &RunId,
) -> Result<(RunResult, Option<EventAck>), Error> {
    let request = WaitForRun {
        run_id: run.clone(),
        timeout_ms: Some(0),
    };
    let Delivery { reply, ack } = handle.call(request.into()).await?;
    Ok((reply.read_as::<WaitForRun>()?, ack))
}

async fn pane_status<H: Handle>(handle: &H, pane: String) -> Result<Box<PaneStatus>, Error> {
    let request = GetStatus {
        pane_id: Some(pane),
    };
    let reply = handle.call(request.into()).await?.reply;
    match reply.read_as::<GetStatus>()? {
        GetStatusReply::Pane(pane) => Ok(pane),
        GetStatusReply::All(_) => Err(Error::internal(
            "the status of one pane was requested, and the reply is another",
        )),
    }
}

async fn pane_closing<H: Handle>(handle: &H, pane: String) -> Result<ToolReply, Error> {
    let pane = pane_status(handle, pane).await?;
    Ok(ToolReply::ClosePane(ClosePaneReply {
        pane_id: pane.pane_id,
        exit_code: pane.state.exit_code,
        signal: pane.state.signal,
        note: Some(
            "still closing: the pane's processes have not ended yet; get_status reports when they have"
                .to_owned(),
        ),
    }))
}
