use std::time::Duration;

use fugue_api::{
    Error, Handed, Handle, Kind, Reply, Request, RunId, Unread,
    panes::{ClosePane, GetStatus, PaneClosed, Status},
    runs::{self, RunResult},
    team::{EventTold, Nothing, Told},
};
use rmcp::{
    Peer, RoleServer,
    model::{
        ProgressNotification, ProgressNotificationParam, ProgressToken, ServerJsonRpcMessage,
        ServerNotification,
    },
};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::out::Out;

/// One call's wait for its answer: bounded by the client's patience, ended at once by whoever no longer wants it, and
/// with a sign of life for a client that asked for one.
pub struct Wait {
    pub ceiling: Duration,
    pub cancelled: CancellationToken,
    /// Of a client that asked for it.
    pub progress: Option<Progress>,
}

/// Where signs of life go.
pub struct Progress {
    pub token: ProgressToken,
    pub ear: Ear,
}

/// The way a client is told what it has not asked for.
pub enum Ear {
    Rmcp(Peer<RoleServer>),
    Stdout(Out),
}

impl Ear {
    async fn tell(&self, progress: ProgressNotificationParam) {
        // A client that cannot be told is noticed by other ways.
        match self {
            Self::Rmcp(peer) => drop(peer.notify_progress(progress).await),
            Self::Stdout(out) => {
                let progress = ProgressNotification::new(progress);
                let message = ServerJsonRpcMessage::notification(
                    ServerNotification::ProgressNotification(progress),
                );
                drop(out.say(&message).await);
            }
        }
    }
}

// Often enough for a person who looks, seldom enough for a log.
const SIGN_OF_LIFE: Duration = Duration::from_secs(5);

impl Wait {
    /// `None`: cancelled, or the connection is `gone`, and with it everybody who waited on it. The work goes on.
    pub async fn for_answer<H: Handle>(
        &self,
        handle: &H,
        request: Request,
        gone: &CancellationToken,
    ) -> Option<Result<Handed<Unread>, Error>> {
        let began = Instant::now();
        let (request, cut) = self.within_patience(request);
        let early = Early::of(&request);
        let progress = self.progress.as_ref().map(|to| (to, Doing::of(&request)));
        let mut answer = std::pin::pin!(handle.call_unread(request));
        // A timer costs a call about as much as its JSON does, so it is not set for a client that asked for no sign.
        let mut next_sign = began + SIGN_OF_LIFE;
        loop {
            tokio::select! {
                // An answer that is there is given, whatever else has happened.
                biased;
                answer = &mut answer => return Some(answer.and_then(|handed| cut.said(handed))),
                () = self.cancelled.cancelled() => return None,
                () = gone.cancelled() => return None,
                () = sleep_until(began + self.ceiling), if early.is_some() => break,
                () = sleep_until(next_sign), if progress.is_some() => {
                    if let Some((to, what)) = &progress {
                        Box::pin(sign_of_life(to, what, handle, began.elapsed())).await;
                    }
                    next_sign += SIGN_OF_LIFE;
                }
            }
        }
        match early {
            Some(early) => {
                let answer = Box::pin(early.answer(handle)).await;
                Some(answer.and_then(|reply| Unread::of(&reply).map(Handed::from)))
            }
            None => None,
        }
    }

    /// What the daemon itself answers in time is asked to do so before the client gives up.
    fn within_patience(&self, mut request: Request) -> (Request, Cut) {
        let ceiling = self.ceiling.as_secs_f64();
        let cut = match &mut request {
            Request::WaitForEvent(args) if args.timeout_secs > ceiling => {
                args.timeout_secs = ceiling;
                Cut::ByClient
            }
            Request::AskQuestion(args) if args.timeout_secs > ceiling => {
                args.timeout_secs = ceiling;
                // Its time is not over; only this call is.
                args.default = None;
                Cut::ByClient
            }
            _ => Cut::No,
        };
        (request, cut)
    }
}

async fn sign_of_life<H: Handle>(to: &Progress, what: &Doing, handle: &H, elapsed: Duration) {
    let seconds = elapsed.as_secs();
    let message = match what {
        Doing::Said(what) => format!("{what} · {seconds}s"),
        Doing::Run(run) => match so_far(handle, run).await {
            Ok(result) => result.progress(),
            Err(_) => format!("{run} · {seconds}s"),
        },
    };
    let progress = ProgressNotificationParam::new(to.token.clone(), seconds as f64);
    to.ear.tell(progress.with_message(message)).await;
}

/// Whether a wait was made shorter than its caller wanted.
#[derive(Clone, Copy)]
enum Cut {
    No,
    ByClient,
}

impl Cut {
    fn said(self, mut handed: Handed<Unread>) -> Result<Handed<Unread>, Error> {
        match self {
            Self::No => {}
            Self::ByClient => {
                let mut reply = handed.reply.read()?;
                if let Reply::WaitForEvent(EventTold {
                    what: Told::Nothing(Nothing::Timeout { reason, .. }),
                    ..
                }) = &mut reply
                {
                    *reason = Some("client_limit".to_owned());
                    handed.reply = Unread::of(&reply)?;
                }
            }
        }
        Ok(handed)
    }
}

/// What a call that takes long is doing, for a person who waits.
enum Doing {
    Said(String),
    /// It tells for itself.
    Run(RunId),
}

impl Doing {
    fn of(request: &Request) -> Self {
        if let Some(run) = run_of(request) {
            return Self::Run(run.clone());
        }
        Self::Said(match request {
            Request::CreatePane(_) => "waiting for the pane's first prompt".to_owned(),
            Request::SendInput(args) => format!("waiting for {} to take the input", args.pane_id),
            Request::ReadPane(args) => format!("reading {}", args.pane_id),
            Request::ClosePane(args) => {
                let grace = args.grace_ms / 1000;
                format!("waiting for {} to end, at most {grace}s", args.pane_id)
            }
            Request::SpawnWorker(args) => format!("starting {}", args.name),
            Request::WaitForEvent(args) => {
                let types = serde_json::to_value(&args.types).unwrap_or_default();
                let types = types.as_array().into_iter().flatten();
                let types: Vec<_> = types.filter_map(serde_json::Value::as_str).collect();
                format!("waiting for {}", types.join(", "))
            }
            Request::AskQuestion(_) => "waiting for an answer".to_owned(),
            Request::Pause(_) => "asking what would come next".to_owned(),
            _ => "looking".to_owned(),
        })
    }
}

/// The run that a call waits for. Every run that comes in by this door has an id by now.
fn run_of(request: &Request) -> Option<&RunId> {
    match request {
        Request::Expect(args) => args.run_id.as_ref(),
        Request::RunParallel(args) => args.run_id.as_ref(),
        Request::RunPipeline(args) => args.run_id.as_ref(),
        Request::Wait(args) => Some(&args.run_id),
        _ => None,
    }
}

/// How a run stands now.
async fn so_far<H: Handle>(handle: &H, run: &RunId) -> Result<RunResult, Error> {
    let look = runs::Wait {
        run_id: run.clone(),
        timeout_ms: Some(0),
    };
    let told = handle.call(look.into()).await?;
    RunResult::try_from(told.reply)
}

/// What can be said when the client's patience ends before the work does. Tools that bound themselves far below any
/// client's patience have none.
enum Early {
    StillClosing { pane: String },
    StillRunning { run: RunId, asked: Asked },
}

/// Whose reply it is.
enum Asked {
    ByItsOwnTool,
    ByWait,
}

impl Early {
    fn of(request: &Request) -> Option<Self> {
        if let Request::ClosePane(ClosePane { pane_id, .. }) = request {
            return Some(Self::StillClosing {
                pane: pane_id.clone(),
            });
        }
        let asked = match request {
            Request::Wait(_) => Asked::ByWait,
            _ => Asked::ByItsOwnTool,
        };
        let run = run_of(request)?.clone();
        Some(Self::StillRunning { run, asked })
    }

    async fn answer<H: Handle>(self, handle: &H) -> Result<Reply, Error> {
        match self {
            Self::StillClosing { pane } => still_closing(handle, pane).await,
            Self::StillRunning { run, asked } => {
                let result = so_far(handle, &run).await?;
                Ok(match (asked, result) {
                    (Asked::ByWait, result) => Reply::Wait(result),
                    (Asked::ByItsOwnTool, RunResult::Expect(result)) => Reply::Expect(result),
                    (Asked::ByItsOwnTool, RunResult::Parallel(result)) => {
                        Reply::RunParallel(result)
                    }
                    (Asked::ByItsOwnTool, RunResult::Pipeline(result)) => {
                        Reply::RunPipeline(result)
                    }
                })
            }
        }
    }
}

async fn still_closing<H: Handle>(handle: &H, pane: String) -> Result<Reply, Error> {
    let look = GetStatus {
        pane_id: Some(pane),
    };
    let Reply::GetStatus(Status::Pane(pane)) = handle.call(look.into()).await?.reply else {
        return Err(Error::new(
            Kind::Internal,
            "asked for one pane, and was told of others",
        ));
    };
    Ok(Reply::ClosePane(PaneClosed {
        pane_id: pane.pane_id,
        exit_code: pane.state.exit_code,
        signal: pane.state.signal,
        note: Some(
            "still closing: its processes have not ended yet; get_status tells when they have"
                .to_owned(),
        ),
    }))
}
