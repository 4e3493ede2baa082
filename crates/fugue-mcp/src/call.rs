use std::{convert::Infallible, time::Duration};

use fugue_api::{
    Delivery, Error, ErrorKind, Handle, RawReply, RunId, ToolCall, ToolReply,
    panes::{ClosePaneReply, GetStatus, GetStatusReply},
    runs::{self, RunResult},
    team::{WaitForEventReply, WaitOutcome, WaitTimeout},
};
use rmcp::{
    Peer, RoleServer,
    model::{ProgressNotificationParam, ProgressToken},
};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

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
    /// `max_wait`, a call for a run returns the run's current state, and a closing pane is reported as closing.
    pub async fn run<H: Handle>(
        &self,
        handle: &H,
        mut request: ToolCall,
    ) -> Option<Result<Delivery<RawReply>, Error>> {
        let subject = CallSubject::new(&mut request, self.max_wait);
        let mut reply = std::pin::pin!(handle.call_raw(request));
        let mut progress = std::pin::pin!(self.report_progress(handle, &subject));
        let deadline = Instant::now() + self.max_wait;
        tokio::select! {
            // A finished reply takes precedence over a cancellation.
            biased;
            reply = &mut reply => return Some(reply.and_then(|reply| subject.finish(reply))),
            () = self.cancelled.cancelled() => return None,
            () = self.disconnected.cancelled() => return None,
            () = sleep_until(deadline), if subject.has_interim_reply() => {}
            never = &mut progress, if self.progress.is_some() => match never {},
        }
        let interim = Box::pin(subject.interim_reply(handle)).await?;
        Some(interim.and_then(|reply| RawReply::of(&reply).map(Delivery::from)))
    }

    /// Sends a progress notification every [`PROGRESS_INTERVAL`].
    async fn report_progress<H: Handle>(&self, handle: &H, subject: &CallSubject) -> Infallible {
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

/// The object of a call's wait, which decides progress messages and the reply at `max_wait`.
enum CallSubject {
    /// An inbox event or an answer; the daemon itself observes the timeout.
    Event {
        description: String,
        timeout: EventTimeout,
    },
    /// A run, whose current state is the interim reply.
    Run { run: RunId, tool: RunTool },
    /// The end of a pane's processes.
    PaneClose { pane: String, grace: Duration },
    /// Work that ends within seconds.
    Short { description: String },
}

/// Whether the timeout of an event wait was reduced to `max_wait`.
#[derive(Clone, Copy)]
enum EventTimeout {
    Requested,
    Reduced,
}

/// The tool that was called for a run, which decides the shape of the reply.
#[derive(Clone, Copy)]
enum RunTool {
    /// The tool that started the run.
    Start,
    /// `fugue_wait`.
    Wait,
}

impl CallSubject {
    /// Classifies a call, and reduces the timeout of an event wait to `max_wait`.
    fn new(request: &mut ToolCall, max_wait: Duration) -> Self {
        let max_secs = max_wait.as_secs_f64();
        let description = match request {
            ToolCall::RunExpect(runs::RunExpect { run_id, .. })
            | ToolCall::RunParallel(runs::RunParallel { run_id, .. })
            | ToolCall::RunPipeline(runs::RunPipeline { run_id, .. }) => match run_id {
                Some(run) => {
                    return Self::Run {
                        run: run.clone(),
                        tool: RunTool::Start,
                    };
                }
                None => "waiting for the run".to_owned(),
            },
            ToolCall::WaitForRun(args) => {
                return Self::Run {
                    run: args.run_id.clone(),
                    tool: RunTool::Wait,
                };
            }
            ToolCall::ClosePane(args) => {
                return Self::PaneClose {
                    pane: args.pane_id.clone(),
                    grace: Duration::from_millis(args.grace_ms.into()),
                };
            }
            ToolCall::WaitForEvent(args) => {
                let types = serde_json::to_value(&args.types).unwrap_or_default();
                let types = types.as_array().into_iter().flatten();
                let types: Vec<_> = types.filter_map(serde_json::Value::as_str).collect();
                let timeout = EventTimeout::reduce(&mut args.timeout_secs, max_secs);
                return Self::Event {
                    description: format!("waiting for {}", types.join(", ")),
                    timeout,
                };
            }
            ToolCall::AskQuestion(args) => {
                let timeout = EventTimeout::reduce(&mut args.timeout_secs, max_secs);
                if let EventTimeout::Reduced = timeout {
                    // The default answer is for the end of the requested timeout, which has not been reached.
                    args.default = None;
                }
                return Self::Event {
                    description: "waiting for an answer".to_owned(),
                    timeout,
                };
            }
            ToolCall::CreatePane(_) => "waiting for the pane's first prompt".to_owned(),
            ToolCall::SendInput(args) => format!("sending input to {}", args.pane_id),
            ToolCall::ReadPane(args) => format!("reading {}", args.pane_id),
            ToolCall::SpawnWorker(args) => format!("starting worker {}", args.name),
            ToolCall::Pause(_) => "waiting for the next step".to_owned(),
            ToolCall::GetStatus(_) => "reading the status".to_owned(),
            ToolCall::NotifyCompletion(_)
            | ToolCall::SendMessage(_)
            | ToolCall::AnswerQuestion(_)
            | ToolCall::WatchMe(_)
            | ToolCall::LookMa(_)
            | ToolCall::Clear(_) => "waiting for the daemon".to_owned(),
        };
        Self::Short { description }
    }

    /// Completes the daemon's reply: a reduced timeout is marked with the reason `client_limit`.
    fn finish(&self, mut delivery: Delivery<RawReply>) -> Result<Delivery<RawReply>, Error> {
        if let Self::Event {
            timeout: EventTimeout::Reduced,
            ..
        } = self
        {
            let mut reply = delivery.reply.read()?;
            if let ToolReply::WaitForEvent(WaitForEventReply {
                what: WaitOutcome::Nothing(WaitTimeout::Timeout { reason, .. }),
                ..
            }) = &mut reply
            {
                *reason = Some("client_limit".to_owned());
                delivery.reply = RawReply::of(&reply)?;
            }
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
    async fn interim_reply<H: Handle>(&self, handle: &H) -> Option<Result<ToolReply, Error>> {
        match self {
            Self::Run { run, tool } => {
                let state = run_state(handle, run).await;
                Some(state.map(|state| tool.reply(state)))
            }
            Self::PaneClose { pane, .. } => Some(pane_closing(handle, pane.clone()).await),
            Self::Event { .. } | Self::Short { .. } => None,
        }
    }
}

impl EventTimeout {
    fn reduce(timeout_secs: &mut f64, max_secs: f64) -> Self {
        if *timeout_secs <= max_secs {
            return Self::Requested;
        }
        *timeout_secs = max_secs;
        Self::Reduced
    }
}

impl RunTool {
    fn reply(self, state: RunResult) -> ToolReply {
        match (self, state) {
            (Self::Wait, state) => ToolReply::WaitForRun(state),
            (Self::Start, RunResult::Expect(result)) => ToolReply::RunExpect(result),
            (Self::Start, RunResult::Parallel(result)) => ToolReply::RunParallel(result),
            (Self::Start, RunResult::Pipeline(result)) => ToolReply::RunPipeline(result),
        }
    }
}

/// The current state of a run, without waiting.
async fn run_state<H: Handle>(handle: &H, run: &RunId) -> Result<RunResult, Error> {
    let request = runs::WaitForRun {
        run_id: run.clone(),
        timeout_ms: Some(0),
    };
    let delivery = handle.call(request.into()).await?;
    RunResult::try_from(delivery.reply)
}

async fn pane_closing<H: Handle>(handle: &H, pane: String) -> Result<ToolReply, Error> {
    let request = GetStatus {
        pane_id: Some(pane),
    };
    let ToolReply::GetStatus(GetStatusReply::Pane(pane)) = handle.call(request.into()).await?.reply
    else {
        return Err(Error::new(
            ErrorKind::Internal,
            "the status of one pane was requested, and the reply is another",
        ));
    };
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
