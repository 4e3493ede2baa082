//! MCP tasks (`io.modelcontextprotocol/tasks`): a call that waits long is answered with a task, and the client polls the
//! task while its model goes on.
//!
//! A call becomes a task if the request declares the extension, the tool waits for a run, an event or an answer, and the
//! reply is not there after [`Tasks::task_after`]. From then on an *owner*, one tokio task per MCP task, owns the pending
//! call and then its reply with the lease of the event. `tasks/get` takes the reply, and the transport acks the event when
//! the response has been written; a response that is not written releases it. A client that does not poll for
//! [`SILENCE_TIMEOUT`] releases it too, and `tasks/cancel` ends the wait and never the work. A waiting task shows questions
//! to the person (`forms.rs`): its state is then `input_required`, and `tasks/update` brings the answer.
//!
//! The id of a run's task contains the run's id, and the daemon keeps runs. So such a task outlives this process: without
//! an owner, `tasks/get` asks the daemon.

mod owner;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use fugue_api::{
    Delivery, Error, EventAck, Handle, RawReply, RunId, Timestamp, ToolCall, ToolReply, ToolWait,
    random_bytes,
};
use rmcp::model::{
    DetailedTask, InputRequiredResult, InputResponses, JsonObject, Task, TaskPayload, TaskStatus,
};
use tokio::{
    sync::{mpsc, oneshot},
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;

use crate::{
    call::{CallContext, CallSubject, fetch_run},
    forms::CallForm,
    server::tool_result,
};
use owner::{OwnedCall, OwnerMessage, OwnerTimeouts, PendingCall, TaskOwner};

/// All tasks of a server, and the time after which a call becomes one.
#[derive(Clone)]
pub struct Tasks {
    task_after: Duration,
    owners: Arc<Mutex<HashMap<String, TaskHandle>>>,
}

/// The way to a task's owner.
#[derive(Clone)]
struct TaskHandle {
    /// At most 16 messages; a full queue makes the client's next request wait.
    owner: mpsc::Sender<OwnerMessage>,
    /// The lead session of the client, over HTTP. Tasks of other sessions are unknown to a client.
    session: Option<String>,
    task: Task,
}

/// What a call was answered with.
pub enum CallOutcome {
    Reply(Result<Delivery<RawReply>, Error>),
    Task(Task),
    /// The call waits on, and its next round goes to [`Tasks::resume`].
    Form(InputRequiredResult),
    /// The result of a call of several rounds.
    Result(JsonObject, Option<EventAck>),
}

/// The state of a task, as `tasks/get` returns it, and the ack that waits for the response to be written.
pub struct TaskState {
    pub payload: TaskPayload,
    pub ack: Option<EventAck>,
}

/// Which task a client asks about, for which session.
pub struct TaskRequest<'a, H> {
    pub handle: H,
    pub session: Option<String>,
    pub id: &'a str,
}

// In Claude Code a task costs its model about 1,100 bytes more than the reply to a call, and a turn.
const TASK_AFTER: Duration = Duration::from_secs(10);
// Claude Code polls between 0.25 s and 30 s, and every 2 s by default. A poll costs no call to the daemon.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// The time without polls after which a task gives back what it has, so that other calls can get it.
pub(crate) const SILENCE_TIMEOUT: Duration = Duration::from_secs(60);
// A call beyond this number is answered as without the extension.
const MAX_TASKS: usize = 1_000;
const RUN_PREFIX: &str = "run:";
// Not in run ids.
const TAG_SEPARATOR: char = '/';

impl Default for Tasks {
    fn default() -> Self {
        Self {
            task_after: TASK_AFTER,
            owners: Arc::default(),
        }
    }
}

impl Tasks {
    /// Lets calls become tasks at this time, if it is shorter than the default.
    pub fn at_most_after(&mut self, max_wait: Duration) {
        self.task_after = self.task_after.min(max_wait);
    }

    /// Whether a call can become a task: it waits for a run, an event or an answer.
    pub fn can_hold(&self, call: &mut ToolCall) -> bool {
        let waits_long = match call.wait() {
            ToolWait::StartRun { .. } | ToolWait::JoinRun { .. } | ToolWait::Inbox(_) => true,
            ToolWait::PaneClose { .. } | ToolWait::Short { .. } => false,
        };
        waits_long && self.open_owners() < MAX_TASKS
    }

    /// Forwards a call, and returns the reply if it is there in time, or else the task that has the call now: after
    /// `task_after`, or at once when a question is to be shown. `None` for a cancelled call and after a disconnect.
    pub async fn call<H: Handle + Clone + Send + Sync + 'static>(
        &self,
        handle: &H,
        session: Option<String>,
        request: ToolCall,
        context: CallContext,
        form: Option<CallForm<H>>,
    ) -> Option<CallOutcome> {
        let pending = LongCall::new(handle, request, form, Duration::MAX);
        let silence = SILENCE_TIMEOUT;
        let pending = match pending
            .wait(handle, &context, Some(self.task_after))
            .await?
        {
            Err(reply) => return Some(CallOutcome::Reply(reply)),
            Ok(pending) => pending,
        };
        let held = self.hold(handle, session, pending, silence, context.disconnected);
        Some(match held {
            Ok(held) => CallOutcome::Task(held.task),
            Err(error) => CallOutcome::Reply(Err(error)),
        })
    }

    /// Forwards a call that waits for an event or an answer, and returns the reply, or the first form that is to be shown.
    pub async fn call_in_rounds<H: Handle + Clone + Send + Sync + 'static>(
        &self,
        handle: &H,
        session: Option<String>,
        request: ToolCall,
        context: CallContext,
        form: CallForm<H>,
    ) -> Option<CallOutcome> {
        let pending = LongCall::new(handle, request, Some(form), context.max_wait);
        let pending = match pending.wait(handle, &context, None).await? {
            Err(reply) => return Some(CallOutcome::Reply(reply)),
            Ok(pending) => pending,
        };
        // The client comes back when the person has answered.
        let silence = context.max_wait + SILENCE_TIMEOUT;
        let disconnected = context.disconnected.clone();
        match self.hold(handle, session, pending, silence, disconnected) {
            Ok(held) => self.settle(&held, &context).await,
            Err(error) => Some(CallOutcome::Reply(Err(error))),
        }
    }

    /// The next round of a call, with the responses to its form. `None` as for [`Self::call`].
    pub async fn resume<H>(
        &self,
        request: TaskRequest<'_, H>,
        responses: InputResponses,
        context: CallContext,
    ) -> Option<CallOutcome> {
        let Some(held) = self.find(&request) else {
            let error = Error::unavailable("the call that asked is no longer there");
            return Some(CallOutcome::Reply(Err(error.hint(
                "what the person answered is kept, or the question is still open; `wait_for_event` returns events and answers",
            ))));
        };
        // An owner that has ended settles nothing.
        let _ = held.owner.send(OwnerMessage::Update(responses)).await;
        self.settle(&held, &context).await
    }

    /// Waits until a held call has a result or a form.
    async fn settle(&self, held: &TaskHandle, context: &CallContext) -> Option<CallOutcome> {
        let (reply, settled) = oneshot::channel();
        let settled = async {
            let _ = held.owner.send(OwnerMessage::Settle(reply)).await;
            settled.await
        };
        let state = tokio::select! {
            biased;
            state = settled => state,
            () = context.cancelled.cancelled() => {
                let _ = held.owner.send(OwnerMessage::Cancel).await;
                return None;
            }
            () = context.disconnected.cancelled() => return None,
        };
        let ended = || Error::unavailable("the call has ended while it waited");
        let Ok(TaskState { payload, ack }) = state else {
            return Some(CallOutcome::Reply(Err(ended())));
        };
        Some(match payload {
            TaskPayload::Completed { result } => CallOutcome::Result(result, ack),
            TaskPayload::InputRequired { input_requests } => {
                let state = held.task.task_id.clone();
                CallOutcome::Form(InputRequiredResult::new(Some(input_requests), Some(state)))
            }
            _ => CallOutcome::Reply(Err(ended())),
        })
    }

    /// Starts an owner for a call.
    fn hold<H: Handle + Clone + Send + Sync + 'static>(
        &self,
        handle: &H,
        session: Option<String>,
        call: LongCall<H>,
        silence: Duration,
        disconnected: CancellationToken,
    ) -> Result<TaskHandle, Error> {
        let LongCall {
            mut request,
            subject,
            pending,
            form,
            began,
        } = call;
        let task = self.describe(&mut request)?;
        let held = OwnedCall::of(handle.clone(), request, began);
        let ttl = task.ttl_ms.map(Duration::from_millis);
        let timeouts = OwnerTimeouts {
            silence,
            expires_at: ttl.and_then(|ttl| Instant::now().checked_add(ttl)),
        };
        let (owner, messages) = mpsc::channel(16);
        let task_owner = TaskOwner::new(subject, held, pending, form, timeouts, disconnected);
        tokio::spawn(task_owner.run(messages));
        let handle = TaskHandle {
            owner,
            session,
            task,
        };
        self.insert(handle.task.task_id.clone(), handle.clone());
        Ok(handle)
    }

    /// `tasks/get`. `None`: there is no such task.
    pub async fn get<H: Handle>(
        &self,
        request: TaskRequest<'_, H>,
    ) -> Option<(DetailedTask, Option<EventAck>)> {
        let (mut task, state) = match self.find(&request) {
            Some(found) => {
                let (reply, state) = oneshot::channel();
                let asked = found.owner.send(OwnerMessage::Get(reply)).await;
                match (asked, state.await) {
                    (Ok(()), Ok(state)) => (found.task, state),
                    // The owner has ended meanwhile.
                    _ => stored_state(&request).await?,
                }
            }
            None => stored_state(&request).await?,
        };
        task.last_updated_at = now();
        Some((DetailedTask::new(task, state.payload), state.ack))
    }

    /// `tasks/cancel`: ends the wait of a task, and never its work. Returns whether there is such a task.
    pub async fn cancel<H: Handle>(&self, request: TaskRequest<'_, H>) -> bool {
        match self.find(&request) {
            Some(found) => {
                // An owner that has ended waits for nothing.
                let _ = found.owner.send(OwnerMessage::Cancel).await;
                true
            }
            None => stored_state(&request).await.is_some(),
        }
    }

    /// `tasks/update`: the responses to a form. Returns whether there is such a task.
    pub async fn update<H: Handle>(
        &self,
        request: TaskRequest<'_, H>,
        responses: InputResponses,
    ) -> bool {
        match self.find(&request) {
            Some(found) => {
                // An owner that has ended shows no form.
                let _ = found.owner.send(OwnerMessage::Update(responses)).await;
                true
            }
            None => stored_state(&request).await.is_some(),
        }
    }

    /// A new task for a call. The task of a run is named after the run, of which further tasks have a number.
    fn describe(&self, call: &mut ToolCall) -> Result<Task, Error> {
        let (id, message, ttl) = match call.wait() {
            ToolWait::StartRun {
                run_id: Some(run), ..
            } => (self.free_run_task(run), None, None),
            ToolWait::JoinRun { run_id } => (self.free_run_task(run_id), None, None),
            ToolWait::Inbox(wait) => {
                let timeout = Duration::from_secs_f64(*wait.timeout_secs);
                let ttl = timeout + SILENCE_TIMEOUT;
                let random: [u8; 8] = random_bytes()?;
                let id = format!("wait:{:016x}", u64::from_le_bytes(random));
                (id, Some(wait.description), Some(ttl))
            }
            ToolWait::StartRun { run_id: None, .. }
            | ToolWait::PaneClose { .. }
            | ToolWait::Short { .. } => {
                return Err(Error::internal("a call without a long wait became a task"));
            }
        };
        let mut task = new_task(id);
        task.status_message = message;
        task.ttl_ms = ttl.map(|ttl| u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX));
        Ok(task)
    }

    fn free_run_task(&self, run: &RunId) -> String {
        let owners = self.lock();
        let first = format!("{RUN_PREFIX}{run}");
        let further = (2..).map(|number| format!("{first}{TAG_SEPARATOR}{number}"));
        let mut ids = std::iter::once(first.clone()).chain(further);
        ids.find(|id| !owners.contains_key(id)).unwrap_or(first)
    }

    fn find<H>(&self, request: &TaskRequest<'_, H>) -> Option<TaskHandle> {
        let owners = self.lock();
        let found = owners.get(request.id)?;
        (found.session == request.session && !found.owner.is_closed()).then(|| found.clone())
    }

    fn insert(&self, id: String, task: TaskHandle) {
        let mut owners = self.lock();
        owners.retain(|_, task| !task.owner.is_closed());
        owners.insert(id, task);
    }

    fn open_owners(&self) -> usize {
        let mut owners = self.lock();
        owners.retain(|_, task| !task.owner.is_closed());
        owners.len()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, TaskHandle>> {
        self.owners.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A call that was forwarded and is not answered.
struct LongCall<H> {
    request: ToolCall,
    subject: CallSubject,
    pending: PendingCall,
    form: Option<CallForm<H>>,
    began: Instant,
}

impl<H: Handle + Clone + Send + Sync + 'static> LongCall<H> {
    fn new(
        handle: &H,
        mut request: ToolCall,
        form: Option<CallForm<H>>,
        max_wait: Duration,
    ) -> Self {
        let subject = CallSubject::new(&mut request, max_wait);
        Self {
            pending: pending_call(handle.clone(), request.clone()),
            request,
            subject,
            form,
            began: Instant::now(),
        }
    }

    /// Waits for the reply (`Err`), for a question that is to be shown, or until `limit` is over. `None` for a cancelled
    /// call and after a disconnect.
    async fn wait(
        mut self,
        handle: &H,
        context: &CallContext,
        limit: Option<Duration>,
    ) -> Option<Result<Self, Result<Delivery<RawReply>, Error>>> {
        let until = self.began + limit.unwrap_or_default();
        {
            let mut progress = std::pin::pin!(context.report_progress(handle, &self.subject));
            let mut shown = std::pin::pin!(first_question(self.form.as_mut()));
            tokio::select! {
                biased;
                reply = &mut self.pending => {
                    let reply = reply.and_then(|reply| self.subject.finish(reply));
                    return Some(Err(reply));
                }
                () = context.cancelled.cancelled() => return None,
                () = context.disconnected.cancelled() => return None,
                never = &mut progress, if context.progress.is_some() => match never {},
                () = &mut shown => {}
                () = sleep_until(until), if limit.is_some() => {}
            }
        }
        Some(Ok(self))
    }
}

async fn first_question<H: Handle + Clone + Send + Sync + 'static>(form: Option<&mut CallForm<H>>) {
    let Some(form) = form else {
        return std::future::pending().await;
    };
    while form.question().is_none() {
        form.changed().await;
    }
}

/// The state of a run's task without an owner, from the daemon.
async fn stored_state<H: Handle>(request: &TaskRequest<'_, H>) -> Option<(Task, TaskState)> {
    let run = request.id.strip_prefix(RUN_PREFIX)?;
    let run = run.split(TAG_SEPARATOR).next().unwrap_or(run);
    let run = RunId(run.to_owned());
    run.check().ok()?;
    // A run that the daemon does not know is no task. A daemon that cannot be reached is reported by the task's result.
    let (mut state, ack) = match fetch_run(&request.handle, &run).await {
        Err(error) if error.kind == fugue_api::ErrorKind::NotFound => return None,
        Err(error) => return Some((new_task(request.id.to_owned()), completed(Err(error)))),
        Ok(found) => found,
    };
    let task = new_task(request.id.to_owned());
    if state.is_running() {
        let payload = TaskPayload::Working;
        return Some((task, TaskState { payload, ack: None }));
    }
    *state.run_id_mut() = None;
    let reply = RawReply::new(&ToolReply::WaitForRun(state));
    let delivery = reply.map(|reply| Delivery { reply, ack });
    Some((task, completed(delivery)))
}

/// The state of a task whose call was answered.
fn completed(delivery: Result<Delivery<RawReply>, Error>) -> TaskState {
    let (reply, ack) = match delivery {
        Ok(Delivery { reply, ack }) => (Ok(reply), ack),
        Err(error) => (Err(error), None),
    };
    TaskState {
        payload: TaskPayload::Completed {
            result: result_object(reply),
        },
        ack,
    }
}

/// The result of a tool call, as it is inside a completed task.
fn result_object(reply: Result<RawReply, Error>) -> JsonObject {
    match serde_json::to_value(tool_result(reply)) {
        Ok(serde_json::Value::Object(result)) => result,
        // A result is an object.
        Ok(_) | Err(_) => JsonObject::new(),
    }
}

fn pending_call<H: Handle + Clone + Send + Sync + 'static>(
    handle: H,
    call: ToolCall,
) -> PendingCall {
    Box::pin(async move { handle.call_raw(call).await })
}

fn new_task(id: String) -> Task {
    let at = now();
    let interval = u64::try_from(POLL_INTERVAL.as_millis()).unwrap_or(u64::MAX);
    Task::new(id, TaskStatus::Working, at.clone(), at).with_poll_interval_ms(interval)
}

fn now() -> String {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    Timestamp(u64::try_from(since.as_millis()).unwrap_or(u64::MAX)).to_string()
}
