//! The owner of one MCP task: owns the pending call, and then its reply until the client has it.

use std::{pin::Pin, sync::Arc, time::Duration};

use fugue_api::{
    Delivery, Error, EventAck, Handle, RawReply, ToolCall, ToolReply, ToolWait, tools::WaitForEvent,
};
use rmcp::model::{InputResponses, JsonObject, TaskPayload};
use tokio::{
    sync::{mpsc, oneshot},
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;

use super::{TaskState, completed, pending_call, result_object};
use crate::{call::CallSubject, forms::CallForm};

/// A call that was forwarded to the daemon. Dropping it ends the wait.
pub type PendingCall = Pin<Box<dyn Future<Output = Result<Delivery<RawReply>, Error>> + Send>>;

/// A request for the owner.
pub enum OwnerMessage {
    /// `tasks/get`.
    Get(oneshot::Sender<TaskState>),
    /// The same, when there is something new for the client: a result or a form.
    Settle(oneshot::Sender<TaskState>),
    /// `tasks/update`, or the second round of a call.
    Update(InputResponses),
    /// `tasks/cancel`.
    Cancel,
}

/// How the reply of a call is obtained again when it was lost.
pub enum OwnedCall {
    /// The daemon has the run's result, and without an owner the task asks the daemon.
    Run,
    /// The same wait can be made again, for the rest of its time.
    Event(Box<dyn Fn() -> PendingCall + Send + Sync>),
    /// The answer is an event in the asker's inbox.
    Question,
}

impl OwnedCall {
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
enum OwnerState {
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
pub struct TaskOwner<H> {
    subject: CallSubject,
    call: OwnedCall,
    form: Option<CallForm<H>>,
    state: OwnerState,
    timeouts: OwnerTimeouts,
    silent_at: Instant,
    settling: Option<oneshot::Sender<TaskState>>,
    disconnected: CancellationToken,
}

/// How long an owner waits for its client.
pub struct OwnerTimeouts {
    /// The time without a request after which everything is given back.
    pub silence: Duration,
    /// When the task has been forgotten, unless it lives as long as its run.
    pub expires_at: Option<Instant>,
}

/// What happens to an owner.
enum OwnerEvent {
    Answered(Result<Delivery<RawReply>, Error>),
    /// The daemon that granted the lease is gone.
    LeaseLost,
    /// Whether the response was written.
    Receipt(bool),
    /// Another question is shown, or none.
    FormChanged,
    Message(OwnerMessage),
    Silence,
    Over,
}

// A client that is silent already has no second silence timeout.
const NEVER: Duration = Duration::from_secs(365 * 24 * 3600);

impl<H: Handle + Clone + Send + Sync + 'static> TaskOwner<H> {
    pub fn new(
        subject: CallSubject,
        call: OwnedCall,
        pending: PendingCall,
        form: Option<CallForm<H>>,
        timeouts: OwnerTimeouts,
        disconnected: CancellationToken,
    ) -> Self {
        Self {
            subject,
            call,
            form,
            state: OwnerState::Waiting(pending),
            silent_at: Instant::now() + timeouts.silence,
            timeouts,
            settling: None,
            disconnected,
        }
    }

    /// Serves the task until it is over. Dropping the future gives back what the task has.
    pub async fn run(mut self, mut messages: mpsc::Receiver<OwnerMessage>) {
        loop {
            match self.next(&mut messages).await {
                OwnerEvent::Answered(reply) => {
                    let reply = reply.and_then(|reply| self.subject.finish(reply));
                    self.state = OwnerState::Ready(reply);
                }
                // Another call may have the event now.
                OwnerEvent::LeaseLost => self.wait_again(),
                OwnerEvent::Receipt(written) => self.handed_over(written),
                OwnerEvent::FormChanged => {}
                OwnerEvent::Message(message) => {
                    self.silent_at = Instant::now() + self.timeouts.silence;
                    if !self.serve(message).await {
                        return;
                    }
                }
                OwnerEvent::Silence => match (&self.call, &self.state) {
                    (OwnedCall::Run, _) => return,
                    (_, OwnerState::Waiting(_) | OwnerState::Ready(_)) => {
                        self.state = OwnerState::Released;
                        self.silent_at = Instant::now() + NEVER;
                    }
                    (OwnedCall::Event(_) | OwnedCall::Question, _) => {
                        self.silent_at = Instant::now() + NEVER;
                    }
                },
                OwnerEvent::Over => return,
            }
            self.follow_form();
            if self.is_settled()
                && let Some(settling) = self.settling.take()
            {
                let _ = settling.send(self.hand_over());
            }
        }
    }

    /// Serves a request of the client. Returns false if the daemon answers for the task from now on.
    async fn serve(&mut self, message: OwnerMessage) -> bool {
        match message {
            OwnerMessage::Get(reply) => {
                if !self.resume() {
                    return false;
                }
                // A dropped state releases the event that it has.
                let _ = reply.send(self.hand_over());
            }
            OwnerMessage::Settle(reply) => {
                if !self.resume() {
                    return false;
                }
                self.settling = Some(reply);
            }
            OwnerMessage::Update(responses) => {
                if let Some(form) = &mut self.form {
                    form.take(&responses).await;
                }
            }
            OwnerMessage::Cancel => {
                if !matches!(self.state, OwnerState::Fetched(_)) {
                    self.state = OwnerState::Cancelled;
                }
            }
        }
        true
    }

    /// Waits again after a release. Returns false if the daemon answers for the task.
    fn resume(&mut self) -> bool {
        let was_released = matches!(self.state, OwnerState::Released);
        if was_released {
            self.wait_again();
        }
        !was_released || !matches!(self.call, OwnedCall::Run)
    }

    /// Only a waiting call shows a form, and it ends when the form of its own question is put back.
    fn follow_form(&mut self) {
        let Some(form) = &mut self.form else {
            return;
        };
        if matches!(self.state, OwnerState::Waiting(_))
            && let Some(reply) = form.put_back_reply()
        {
            let reply = RawReply::new(&ToolReply::AskQuestion(reply));
            self.state = OwnerState::Ready(reply.map(Delivery::from));
        }
        if !matches!(self.state, OwnerState::Waiting(_)) {
            form.release();
        }
    }

    fn is_settled(&self) -> bool {
        match &self.state {
            OwnerState::Waiting(_) => self.shows_form(),
            OwnerState::HandedOver { .. } => false,
            OwnerState::Released => matches!(self.call, OwnedCall::Question),
            OwnerState::Ready(_) | OwnerState::Fetched(_) | OwnerState::Cancelled => true,
        }
    }

    fn shows_form(&self) -> bool {
        let form = self.form.as_ref();
        form.is_some_and(|form| form.question().is_some())
    }

    async fn next(&mut self, messages: &mut mpsc::Receiver<OwnerMessage>) -> OwnerEvent {
        let expires_at = self.timeouts.expires_at.unwrap_or(self.silent_at);
        let expires = self.timeouts.expires_at.is_some();
        // A person who fills in a form takes their time.
        let may_be_silent = self.shows_form();
        // The result of a run stays in the daemon, and an answer is acked at the next daemon.
        let waits_again = matches!(self.call, OwnedCall::Event(_));
        let waits = matches!(self.state, OwnerState::Waiting(_));
        let form = self.form.as_mut().filter(|_| waits);
        let form_changed = async {
            match form {
                Some(form) => form.changed().await,
                None => std::future::pending().await,
            }
        };
        let state = &mut self.state;
        let changed = async {
            match state {
                OwnerState::Waiting(pending) => OwnerEvent::Answered(pending.await),
                OwnerState::Ready(Ok(Delivery { ack: Some(ack), .. })) if waits_again => {
                    ack.lost().await;
                    OwnerEvent::LeaseLost
                }
                OwnerState::HandedOver { receipt, .. } => {
                    OwnerEvent::Receipt(receipt.await.is_ok())
                }
                OwnerState::Ready(_)
                | OwnerState::Fetched(_)
                | OwnerState::Released
                | OwnerState::Cancelled => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = self.disconnected.cancelled() => OwnerEvent::Over,
            changed = changed => changed,
            () = form_changed => OwnerEvent::FormChanged,
            message = messages.recv() => message.map_or(OwnerEvent::Over, OwnerEvent::Message),
            () = sleep_until(self.silent_at), if !may_be_silent => OwnerEvent::Silence,
            () = sleep_until(expires_at), if expires => OwnerEvent::Over,
        }
    }

    /// Makes the wait for an event again, for the rest of its time.
    fn wait_again(&mut self) {
        match &self.call {
            OwnedCall::Event(wait) => self.state = OwnerState::Waiting(wait()),
            OwnedCall::Run | OwnedCall::Question => {}
        }
    }

    fn handed_over(&mut self, written: bool) {
        let state = std::mem::replace(&mut self.state, OwnerState::Released);
        if let OwnerState::HandedOver { result, .. } = state
            && written
        {
            self.state = OwnerState::Fetched(result);
        }
    }

    /// The state for `tasks/get`. A reply leaves the owner with its ack.
    fn hand_over(&mut self) -> TaskState {
        let without_ack = |payload| TaskState { payload, ack: None };
        match std::mem::replace(&mut self.state, OwnerState::Released) {
            OwnerState::Ready(reply) => {
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
                        self.state = OwnerState::Fetched(result);
                        None
                    }
                    Some(ack) => {
                        let (written, receipt) = oneshot::channel();
                        self.state = OwnerState::HandedOver { result, receipt };
                        Some(EventAck::new(async move {
                            ack.complete().await;
                            // The owner may have ended.
                            let _ = written.send(());
                        }))
                    }
                };
                TaskState { payload, ack }
            }
            OwnerState::Fetched(result) => {
                let payload = TaskPayload::Completed {
                    result: JsonObject::clone(&result),
                };
                self.state = OwnerState::Fetched(result);
                without_ack(payload)
            }
            OwnerState::Released => match self.call {
                OwnedCall::Question => completed(Err(Error::unavailable(
                    "the answer was not fetched in time, or did not arrive",
                )
                .hint("`wait_for_event` returns it as an `answer` event"))),
                OwnedCall::Run | OwnedCall::Event(_) => without_ack(TaskPayload::Working),
            },
            OwnerState::Cancelled => {
                self.state = OwnerState::Cancelled;
                without_ack(TaskPayload::Cancelled)
            }
            state @ (OwnerState::Waiting(_) | OwnerState::HandedOver { .. }) => {
                self.state = state;
                let form = self.form.as_ref();
                without_ack(match form.and_then(CallForm::input_requests) {
                    Some(input_requests) => TaskPayload::InputRequired { input_requests },
                    None => TaskPayload::Working,
                })
            }
        }
    }
}
