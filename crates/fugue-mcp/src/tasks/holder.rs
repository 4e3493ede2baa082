//! The holder of one MCP task: owns the pending call, and then its reply until the client has it.

use std::{pin::Pin, sync::Arc, time::Duration};

use fugue_api::{
    Delivery, Error, EventAck, Handle, RawReply, ToolCall, ToolWait, tools::WaitForEvent,
};
use rmcp::model::{JsonObject, TaskPayload};
use tokio::{
    sync::{mpsc, oneshot},
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;

use super::{SILENCE_TIMEOUT, TaskState, completed, pending_call, result_object};
use crate::call::CallSubject;

/// A call that was forwarded to the daemon. Dropping it ends the wait.
pub type PendingCall = Pin<Box<dyn Future<Output = Result<Delivery<RawReply>, Error>> + Send>>;

/// A request for the holder.
pub enum HolderMessage {
    /// `tasks/get`.
    Get(oneshot::Sender<TaskState>),
    /// `tasks/cancel`.
    Cancel,
}

/// What is left of the call when its reply is lost.
pub enum HeldCall {
    /// The daemon has the run's result, and without a holder the task asks the daemon.
    Run,
    /// The same wait can be made again, for the rest of its time.
    Event(Box<dyn Fn() -> PendingCall + Send + Sync>),
    /// The answer is an event in the asker's inbox.
    Question,
}

impl HeldCall {
    pub fn of<H: Handle + Clone + Send + Sync + 'static>(
        handle: H,
        mut call: ToolCall,
        began: Instant,
    ) -> Self {
        if let ToolCall::WaitForEvent(wait) = call {
            return Self::Event(Box::new(move || {
                let rest = wait.timeout_secs - began.elapsed().as_secs_f64();
                let rest = WaitForEvent {
                    timeout_secs: rest.max(0.0),
                    ..wait.clone()
                };
                pending_call(handle.clone(), rest.into())
            }));
        }
        match call.wait() {
            ToolWait::Inbox(_) => Self::Question,
            ToolWait::StartRun { .. }
            | ToolWait::JoinRun { .. }
            | ToolWait::PaneClose { .. }
            | ToolWait::Short { .. } => Self::Run,
        }
    }
}

/// The state of a task between two requests of its client.
enum HolderState {
    Waiting(PendingCall),
    /// The reply is there, with the lease of its event.
    Ready(Result<Delivery<RawReply>, Error>),
    /// A response with the result is being written. The receiver learns whether it was.
    HandedOver {
        result: Arc<JsonObject>,
        receipt: oneshot::Receiver<()>,
    },
    /// The client has the result.
    Fetched(Arc<JsonObject>),
    /// The client was silent for too long, or the response was not written: everything has been given back.
    Released,
    Cancelled,
}

/// One task.
pub struct Holder {
    subject: CallSubject,
    call: HeldCall,
    state: HolderState,
    /// When the task has been forgotten, unless it lives as long as its run.
    expires_at: Option<Instant>,
    silent_at: Instant,
    disconnected: CancellationToken,
}

/// What happens to a holder.
enum HolderEvent {
    Answered(Result<Delivery<RawReply>, Error>),
    /// The daemon that granted the lease is gone.
    LeaseLost,
    /// Whether the response was written.
    Receipt(bool),
    Message(HolderMessage),
    Silence,
    Over,
}

// Far enough away for a client that is silent already.
const NEVER: Duration = Duration::from_secs(365 * 24 * 3600);

impl Holder {
    pub fn new(
        subject: CallSubject,
        call: HeldCall,
        pending: PendingCall,
        ttl: Option<Duration>,
        disconnected: CancellationToken,
    ) -> Self {
        let now = Instant::now();
        Self {
            subject,
            call,
            state: HolderState::Waiting(pending),
            expires_at: ttl.and_then(|ttl| now.checked_add(ttl)),
            silent_at: now + SILENCE_TIMEOUT,
            disconnected,
        }
    }

    /// Serves the task until it is over. Dropping the future gives back what the task has.
    pub async fn run(mut self, mut messages: mpsc::Receiver<HolderMessage>) {
        loop {
            match self.next(&mut messages).await {
                HolderEvent::Answered(reply) => {
                    let reply = reply.and_then(|reply| self.subject.finish(reply));
                    self.state = HolderState::Ready(reply);
                }
                // Another call may have the event now.
                HolderEvent::LeaseLost => self.wait_again(),
                HolderEvent::Receipt(written) => self.handed_over(written),
                HolderEvent::Message(HolderMessage::Get(reply)) => {
                    self.silent_at = Instant::now() + SILENCE_TIMEOUT;
                    if matches!(self.state, HolderState::Released) {
                        self.wait_again();
                        if matches!(self.call, HeldCall::Run) {
                            return;
                        }
                    }
                    // A dropped state releases the event that it has.
                    let _ = reply.send(self.hand_over());
                }
                HolderEvent::Message(HolderMessage::Cancel) => {
                    self.silent_at = Instant::now() + SILENCE_TIMEOUT;
                    if !matches!(self.state, HolderState::Fetched(_)) {
                        self.state = HolderState::Cancelled;
                    }
                }
                HolderEvent::Silence => match (&self.call, &self.state) {
                    (HeldCall::Run, _) => return,
                    (_, HolderState::Waiting(_) | HolderState::Ready(_)) => {
                        self.state = HolderState::Released;
                        self.silent_at = Instant::now() + NEVER;
                    }
                    (HeldCall::Event(_) | HeldCall::Question, _) => {
                        self.silent_at = Instant::now() + NEVER;
                    }
                },
                HolderEvent::Over => return,
            }
        }
    }

    async fn next(&mut self, messages: &mut mpsc::Receiver<HolderMessage>) -> HolderEvent {
        let expires_at = self.expires_at.unwrap_or(self.silent_at);
        let expires = self.expires_at.is_some();
        // The result of a run stays in the daemon, and an answer is acked at the next daemon.
        let waits_again = matches!(self.call, HeldCall::Event(_));
        let state = &mut self.state;
        let changed = async {
            match state {
                HolderState::Waiting(pending) => HolderEvent::Answered(pending.await),
                HolderState::Ready(Ok(Delivery { ack: Some(ack), .. })) if waits_again => {
                    ack.lost().await;
                    HolderEvent::LeaseLost
                }
                HolderState::HandedOver { receipt, .. } => {
                    HolderEvent::Receipt(receipt.await.is_ok())
                }
                HolderState::Ready(_)
                | HolderState::Fetched(_)
                | HolderState::Released
                | HolderState::Cancelled => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = self.disconnected.cancelled() => HolderEvent::Over,
            changed = changed => changed,
            message = messages.recv() => message.map_or(HolderEvent::Over, HolderEvent::Message),
            () = sleep_until(self.silent_at) => HolderEvent::Silence,
            () = sleep_until(expires_at), if expires => HolderEvent::Over,
        }
    }

    /// Makes the wait for an event again, for the rest of its time.
    fn wait_again(&mut self) {
        match &self.call {
            HeldCall::Event(wait) => self.state = HolderState::Waiting(wait()),
            HeldCall::Run | HeldCall::Question => {}
        }
    }

    fn handed_over(&mut self, written: bool) {
        let state = std::mem::replace(&mut self.state, HolderState::Released);
        if let HolderState::HandedOver { result, .. } = state
            && written
        {
            self.state = HolderState::Fetched(result);
        }
    }

    /// The state for `tasks/get`. A reply leaves the holder with its ack.
    fn hand_over(&mut self) -> TaskState {
        let without_ack = |payload| TaskState { payload, ack: None };
        match std::mem::replace(&mut self.state, HolderState::Released) {
            HolderState::Ready(reply) => {
                let (reply, ack) = match reply {
                    Ok(Delivery { reply, ack }) => (Ok(reply), ack),
                    Err(error) => (Err(error), None),
                };
                let result = Arc::new(result_object(reply));
                let payload = TaskPayload::Completed {
                    result: JsonObject::clone(&result),
                };
                let ack = match ack {
                    None => {
                        self.state = HolderState::Fetched(result);
                        None
                    }
                    Some(ack) => {
                        let (written, receipt) = oneshot::channel();
                        self.state = HolderState::HandedOver { result, receipt };
                        Some(EventAck::new(async move {
                            ack.complete().await;
                            // The holder may have ended.
                            let _ = written.send(());
                        }))
                    }
                };
                TaskState { payload, ack }
            }
            HolderState::Fetched(result) => {
                let payload = TaskPayload::Completed {
                    result: JsonObject::clone(&result),
                };
                self.state = HolderState::Fetched(result);
                without_ack(payload)
            }
            HolderState::Released => match self.call {
                HeldCall::Question => completed(Err(Error::unavailable(
                    "the answer was not fetched in time, or did not arrive",
                )
                .hint("`wait_for_event` returns it as an `answer` event"))),
                HeldCall::Run | HeldCall::Event(_) => without_ack(TaskPayload::Working),
            },
            HolderState::Cancelled => {
                self.state = HolderState::Cancelled;
                without_ack(TaskPayload::Cancelled)
            }
            state @ (HolderState::Waiting(_) | HolderState::HandedOver { .. }) => {
                self.state = state;
                without_ack(TaskPayload::Working)
            }
        }
    }
}
