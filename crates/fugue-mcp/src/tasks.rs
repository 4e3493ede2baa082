//! MCP tasks (`io.modelcontextprotocol/tasks`): a call that waits long is answered with a task, and the client polls the
//! task while its model goes on.
//!
//! A call becomes a task if the request declares the extension, the tool waits for a run, an event or an answer, and the
//! reply is not there after [`Tasks::task_after`]. From then on an *owner*, one tokio task per MCP task, owns the pending
//! call and then its reply with the lease of the event. `tasks/get` takes the reply, and the transport acks the event when
//! the response has been written; a response that is not written releases it. A client that does not poll for
//! [`SILENCE_TIMEOUT`] releases it too, and `tasks/cancel` ends the wait and never the work.
//!
//! The task of a run has the run's id in its own, and the daemon keeps runs. So such a task outlives this process: without
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
use rmcp::model::{DetailedTask, JsonObject, Task, TaskPayload, TaskStatus};
use tokio::{
    sync::{mpsc, oneshot},
    time::{Instant, sleep_until},
};

use crate::{
    call::{CallContext, CallSubject, fetch_run},
    server::tool_result,
};
use owner::{OwnerMessage, PendingCall, TaskOwner};

/// All tasks of a server, and the time after which a call becomes one.
#[derive(Clone)]
pub struct Tasks {
    task_after: Duration,
    owners: Arc<Mutex<HashMap<String, TaskHandle>>>,
}

/// The way to a task's owner.
#[derive(Clone)]
struct TaskHandle {
    /// Bounded by the requests of the client that are not answered; a full queue makes the next one wait.
    owner: mpsc::Sender<OwnerMessage>,
    /// The lead session of the client, over HTTP. Tasks of other sessions are unknown to a client.
    session: Option<String>,
    task: Task,
}

/// What a call was answered with.
pub enum CallOutcome {
    Reply(Result<Delivery<RawReply>, Error>),
    Task(Task),
}

/// The state of a task, as `tasks/get` returns it, and the ack that waits for the response to be written.
pub struct TaskState {
    pub payload: TaskPayload,
    pub ack: Option<EventAck>,
}

/// How a client names itself and its requests.
pub struct TaskRequest<'a, H> {
    pub handle: &'a H,
    pub session: Option<String>,
    pub id: &'a str,
}

// A turn that follows a task costs a model about 2,000 bytes more than the reply to a call, and several seconds.
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

    /// Forwards a call, and returns the reply if it is there in time, or else the task that has the call now. `None` for a
    /// cancelled call and after a disconnect.
    pub async fn call<H: Handle + Clone + Send + Sync + 'static>(
        &self,
        handle: &H,
        session: Option<String>,
        mut request: ToolCall,
        context: CallContext,
    ) -> Option<CallOutcome> {
        let subject = CallSubject::new(&mut request, Duration::MAX);
        let began = Instant::now();
        let mut pending = pending_call(handle.clone(), request.clone());
        {
            let mut progress = std::pin::pin!(context.report_progress(handle, &subject));
            tokio::select! {
                biased;
                reply = &mut pending => {
                    let reply = reply.and_then(|reply| subject.finish(reply));
                    return Some(CallOutcome::Reply(reply));
                }
                () = context.cancelled.cancelled() => return None,
                () = context.disconnected.cancelled() => return None,
                never = &mut progress, if context.progress.is_some() => match never {},
                () = sleep_until(began + self.task_after) => {}
            }
        }
        let created = match self.describe(&mut request) {
            Ok(task) => task,
            Err(error) => return Some(CallOutcome::Reply(Err(error))),
        };
        let kind = owner::OwnedCall::of(handle.clone(), request, began);
        let ttl = created.ttl_ms.map(Duration::from_millis);
        let (sender, messages) = mpsc::channel(16);
        let owner = TaskOwner::new(subject, kind, pending, ttl, context.disconnected);
        tokio::spawn(owner.run(messages));
        self.insert(
            created.task_id.clone(),
            TaskHandle {
                owner: sender,
                session,
                task: created.clone(),
            },
        );
        Some(CallOutcome::Task(created))
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

    /// Whether there is such a task.
    pub async fn knows<H: Handle>(&self, request: TaskRequest<'_, H>) -> bool {
        self.find(&request).is_some() || stored_state(&request).await.is_some()
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

/// The state of a run's task without an owner, from the daemon.
async fn stored_state<H: Handle>(request: &TaskRequest<'_, H>) -> Option<(Task, TaskState)> {
    let run = request.id.strip_prefix(RUN_PREFIX)?;
    let run = run.split(TAG_SEPARATOR).next().unwrap_or(run);
    let run = RunId(run.to_owned());
    run.check().ok()?;
    // A run that the daemon does not know is no task. A daemon that cannot be reached is reported by the task's result.
    let (mut state, ack) = match fetch_run(request.handle, &run).await {
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
