//! The holder of one MCP task: owns the pending call, and then its reply until the client has it.

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

/// A request for the holder.
pub enum HolderMessage {
    /// `tasks/get`.
    Get(oneshot::Sender<TaskState>),
    /// The same, when there is something new for the client: a result or a form.
    Settle(oneshot::Sender<TaskState>),
    /// `tasks/update`, or the second round of a call.
    Update(InputResponses),
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
pub struct Holder<H> {
    subject: CallSubject,
    call: HeldCall,
    form: Option<CallForm<H>>,
    state: HolderState,
    patience: Patience,
    silent_at: Instant,
    settling: Option<oneshot::Sender<TaskState>>,
    disconnected: CancellationToken,
}

/// How long a holder waits for its client.
pub struct Patience {
    /// The time without a request after which everything is given back.
    pub silence: Duration,
    /// When the task has been forgotten, unless it lives as long as its run.
    pub expires_at: Option<Instant>,
}

/// What happens to a holder.
enum HolderEvent {
    Answered(Result<Delivery<RawReply>, Error>),
    /// The daemon that granted the lease is gone.
    LeaseLost,
    /// Whether the response was written.
    Receipt(bool),
    /// Another question is shown, or none.
    FormChanged,
    Message(HolderMessage),
    Silence,
    Over,
}

// Far enough away for a client that is silent already.
const NEVER: Duration = Duration::from_secs(365 * 24 * 3600);

impl<H: Handle + Clone + Send + Sync + 'static> Holder<H> {
    pub fn new(
        subject: CallSubject,
        call: HeldCall,
        pending: PendingCall,
        form: Option<CallForm<H>>,
        patience: Patience,
        disconnected: CancellationToken,
    ) -> Self {
        Self {
            subject,
            call,
            form,
            state: HolderState::Waiting(pending),
            silent_at: Instant::now() + patience.silence,
            patience,
            settling: None,
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
                HolderEvent::FormChanged => {}
                HolderEvent::Message(message) => {
                    self.silent_at = Instant::now() + self.patience.silence;
                    if !self.serve(message).await {
                        return;
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
            self.follow_form();
            if self.is_settled()
                && let Some(settling) = self.settling.take()
            {
                let _ = settling.send(self.hand_over());
            }
        }
    }

    /// Serves a request of the client. Returns false if the daemon answers for the task from now on.
    async fn serve(&mut self, message: HolderMessage) -> bool {
        match message {
            HolderMessage::Get(reply) => {
                if !self.resume() {
                    return false;
                }
                // A dropped state releases the event that it has.
                let _ = reply.send(self.hand_over());
            }
            HolderMessage::Settle(reply) => {
                if !self.resume() {
                    return false;
                }
                self.settling = Some(reply);
            }
            HolderMessage::Update(responses) => {
                if let Some(form) = &mut self.form {
                    form.take(&responses).await;
                }
            }
            HolderMessage::Cancel => {
                if !matches!(self.state, HolderState::Fetched(_)) {
                    self.state = HolderState::Cancelled;
                }
            }
        }
        true
    }

    /// Waits again after a release. Returns false if the daemon answers for the task.
    fn resume(&mut self) -> bool {
        let was_released = matches!(self.state, HolderState::Released);
        if was_released {
            self.wait_again();
        }
        !was_released || !matches!(self.call, HeldCall::Run)
    }

    /// Only a waiting call shows a form, and it ends when the form of its own question is put back.
    fn follow_form(&mut self) {
        let Some(form) = &mut self.form else {
            return;
        };
        if matches!(self.state, HolderState::Waiting(_))
            && let Some(reply) = form.put_back_reply()
        {
            let reply = RawReply::new(&ToolReply::AskQuestion(reply));
            self.state = HolderState::Ready(reply.map(Delivery::from));
        }
        if !matches!(self.state, HolderState::Waiting(_)) {
            form.release();
        }
    }

    fn is_settled(&self) -> bool {
        match &self.state {
            HolderState::Waiting(_) => self.shows_form(),
            HolderState::HandedOver { .. } => false,
            HolderState::Released => matches!(self.call, HeldCall::Question),
            HolderState::Ready(_) | HolderState::Fetched(_) | HolderState::Cancelled => true,
        }
    }

    fn shows_form(&self) -> bool {
        let form = self.form.as_ref();
        form.is_some_and(|form| form.question().is_some())
    }

    async fn next(&mut self, messages: &mut mpsc::Receiver<HolderMessage>) -> HolderEvent {
        let expires_at = self.patience.expires_at.unwrap_or(self.silent_at);
        let expires = self.patience.expires_at.is_some();
        // A person who fills in a form takes their time.
        let may_be_silent = self.shows_form();
        // The result of a run stays in the daemon, and an answer is acked at the next daemon.
        let waits_again = matches!(self.call, HeldCall::Event(_));
        let waits = matches!(self.state, HolderState::Waiting(_));
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
            () = form_changed => HolderEvent::FormChanged,
            message = messages.recv() => message.map_or(HolderEvent::Over, HolderEvent::Message),
            () = sleep_until(self.silent_at), if !may_be_silent => HolderEvent::Silence,
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
                let form = self.form.as_ref();
                without_ack(match form.and_then(CallForm::input_requests) {
                    Some(input_requests) => TaskPayload::InputRequired { input_requests },
                    None => TaskPayload::Working,
                })
            }
        }
    }
}
