use std::time::Duration;

use fugue_api::{
    Error, Handle, Reply, Request,
    panes::{ClosePane, GetStatus, PaneClosed, Status},
};
use rmcp::{
    RoleServer,
    model::{ProgressNotificationParam, ProgressToken},
    service::RequestContext,
};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

/// One call's wait for its answer: bounded by the client's patience, ended at once by whoever no longer wants it, and
/// with a sign of life for a client that asked for one.
pub struct Wait<'a> {
    pub ceiling: Duration,
    pub context: &'a RequestContext<RoleServer>,
    /// The connection is gone, and with it everybody who waited on it.
    pub gone: &'a CancellationToken,
}

/// How a wait ended.
pub enum Ended {
    Answered(Result<Reply, Error>),
    /// Cancelled, or the client went away. The work goes on.
    Abandoned,
}

// Often enough for a person who looks, seldom enough for a log.
const SIGN_OF_LIFE: Duration = Duration::from_secs(5);

impl Wait<'_> {
    pub async fn for_answer<H: Handle>(&self, handle: &H, request: Request) -> Ended {
        let began = Instant::now();
        let what = doing(&request);
        let early = Early::of(&request);
        let mut answer = std::pin::pin!(handle.call(request));
        // A timer costs a call about as much as its JSON does, so it is not set for a client that asked for no sign.
        let token = self.context.meta.get_progress_token();
        let mut next_sign = began + SIGN_OF_LIFE;
        loop {
            tokio::select! {
                // An answer that is there is given, whatever else has happened.
                biased;
                answer = &mut answer => return Ended::Answered(answer),
                () = self.context.ct.cancelled() => return Ended::Abandoned,
                () = self.gone.cancelled() => return Ended::Abandoned,
                () = sleep_until(began + self.ceiling), if early.is_some() => break,
                () = sleep_until(next_sign), if token.is_some() => {
                    if let Some(token) = token.clone() {
                        self.sign_of_life(token, &what, began.elapsed()).await;
                    }
                    next_sign += SIGN_OF_LIFE;
                }
            }
        }
        match early {
            Some(early) => Ended::Answered(early.answer(handle).await),
            None => Ended::Abandoned,
        }
    }

    async fn sign_of_life(&self, token: ProgressToken, what: &str, elapsed: Duration) {
        let seconds = elapsed.as_secs();
        let progress = ProgressNotificationParam::new(token, seconds as f64)
            .with_message(format!("{what} · {seconds}s"));
        // A client that cannot be told is noticed by other ways.
        let _ = self.context.peer.notify_progress(progress).await;
    }
}

/// What a call that takes long is doing, for a person who waits.
fn doing(request: &Request) -> String {
    match request {
        Request::CreatePane(_) => "waiting for the pane's first prompt".to_owned(),
        Request::SendInput(args) => format!("waiting for {} to take the input", args.pane_id),
        Request::ReadPane(args) => format!("reading {}", args.pane_id),
        Request::GetStatus(_) => "looking".to_owned(),
        Request::ClosePane(args) => {
            let grace = args.grace_ms / 1000;
            format!("waiting for {} to end, at most {grace}s", args.pane_id)
        }
    }
}

/// What can be said when the client's patience ends before the work does. Tools that bound themselves far below any
/// client's patience have none.
enum Early {
    StillClosing { pane: String },
}

impl Early {
    fn of(request: &Request) -> Option<Self> {
        match request {
            Request::ClosePane(ClosePane { pane_id, .. }) => Some(Self::StillClosing {
                pane: pane_id.clone(),
            }),
            Request::CreatePane(_)
            | Request::SendInput(_)
            | Request::ReadPane(_)
            | Request::GetStatus(_) => None,
        }
    }

    async fn answer<H: Handle>(self, handle: &H) -> Result<Reply, Error> {
        let Self::StillClosing { pane } = self;
        let status = handle
            .call(
                GetStatus {
                    pane_id: Some(pane),
                }
                .into(),
            )
            .await?;
        let Reply::GetStatus(Status::Pane(pane)) = status else {
            return Err(Error::new(
                fugue_api::Kind::Internal,
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
}
