//! `fugue attach`: a session's panes on a person's terminal.
//!
//! Everything that is drawn comes from the daemon's frames, as text with looks; a program's own bytes never reach the
//! person's terminal. `model` decides, `draw` makes a picture of it, `paint` says what is different from the picture
//! before; `terminal` is the outer terminal, and `run` is the loop that joins them.
//!
//! There is no widget library and no terminal library below this, for three reasons. Cells carry the looks of the frames
//! whole (kinds of underline, overlining, exact colours), in columns by our terminal model's own rule. A key goes through
//! unchanged, or in the program's own protocol, which needs to know exactly what was pressed. And what is written to a
//! person's terminal is a small closed set of sequences, all of them in `paint`, `looks` and `terminal`.

mod canvas;
mod clean;
mod draw;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod input;
mod keys;
mod lines;
mod looks;
mod model;
mod mouse;
mod paint;
mod run;
mod terminal;

use std::{io::IsTerminal, path::Path};

use fugue_api::{
    Error, ErrorKind, Handle, PaneId, SessionName, Tool, ToolReply,
    attach::ViewerRole,
    panes::{GetStatus, GetStatusReply, Overview, PaneSize, PaneState, PaneStatus},
    wire::{Request, Response},
};

use fugue_client::{client::Client, display::quoted};
use model::{Leave, Model};
use run::{Ended, Loop};
use terminal::Outer;

/// How an attached client ended, where nothing was wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttachEnd {
    /// The person detached; the session goes on.
    Detached,
    /// The last pane of the session was closed.
    SessionEmpty,
    /// The host terminal was closed, or a signal ended the client.
    Hangup,
}

/// Attaches this process's terminal to a session, or to one pane of it, until the person detaches.
///
/// `target` names a pane or a session; without it the client attaches to `main`, else to the session with the latest pane,
/// and opens a shell if there is no session. `socket` is the daemon's socket, by which an attach to the client's own session
/// is recognised and refused.
pub async fn attach(
    client: &Client,
    socket: &Path,
    target: Option<&str>,
    role: ViewerRole,
) -> Result<AttachEnd, Error> {
    check_terminal()?;
    let mut facts = everything(client).await?;
    let (session, pane) = match target {
        Some(target) => find(client, target, &facts).await?,
        None => match default_session(&facts) {
            Some(session) => (session, None),
            None => {
                let session = SessionName::default();
                let args = model::new_shell(&session, None, PaneSize { rows: 24, cols: 80 });
                let made = call(client, args).await?;
                facts = everything(client).await?;
                (session, Some(made.pane_id))
            }
        },
    };
    refuse_nesting(socket, &session, &facts)?;
    let mut random = [0; 8];
    let filled = rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty());
    filled.map_err(|_| Error::new(ErrorKind::Internal, "the kernel gave no random numbers"))?;
    let outer = Outer::take()?;
    let base = u64::from_le_bytes(random);
    let mut model = Model::new(base, role, session.clone(), outer.size());
    let first = model.start(pane, facts, std::time::Instant::now());
    // A task like the others: for what the runtime's first one waits for, it asks the kernel once more each time.
    let attached = tokio::spawn(Loop::new(client.clone(), model, outer).run(first));
    let ended = match attached.await {
        Ok(ended) => ended?,
        Err(broken) => std::panic::resume_unwind(broken.into_panic()),
    };
    match ended {
        Ended::Left(Leave::Detached) => Ok(AttachEnd::Detached),
        Ended::Left(Leave::Empty) => Ok(AttachEnd::SessionEmpty),
        Ended::Left(Leave::Refused(error)) => Err(error),
        Ended::Hangup => Ok(AttachEnd::Hangup),
    }
}

async fn call<T: Tool>(client: &Client, args: T) -> Result<T::Reply, Error> {
    let delivery = client.call(args.into()).await?;
    T::Reply::try_from(delivery.reply)
}

fn check_terminal() -> Result<(), Error> {
    if !std::io::stdin().is_terminal() || !std::io::stdout().is_terminal() {
        return Err(Error::new(
            ErrorKind::Unavailable,
            "attach needs a terminal on stdin and stdout",
        )
        .hint("`fugue read -f PANE` follows a pane without one; `fugue --help` tells more"));
    }
    match std::env::var("TERM").as_deref() {
        Ok("dumb") | Ok("") | Err(_) => Err(Error::new(
            ErrorKind::Unavailable,
            "attach needs a terminal that can place text, and TERM says that this one cannot",
        )
        .hint("set TERM to what it is, such as `xterm-256color`")),
        Ok(_) => Ok(()),
    }
}

async fn everything(client: &Client) -> Result<Overview, Error> {
    match client.ask(Request::Overview).await? {
        Response::Tool {
            reply: ToolReply::GetStatus(GetStatusReply::All(overview)),
        } => Ok(overview),
        other => Err(Error::new(
            ErrorKind::Internal,
            format!("the daemon answered something else: {other:?}"),
        )),
    }
}

/// Where the panes are that runs open for themselves.
const HIDDEN_SESSION: &str = "__orchestration__";

fn lives(state: PaneState) -> bool {
    !matches!(state, PaneState::Exited | PaneState::Closed)
}

/// `main` if it has a pane, else the session with the latest one.
fn default_session(facts: &Overview) -> Option<SessionName> {
    let live = facts.panes.iter().filter(|pane| lives(pane.state.state));
    let seen = live.filter(|pane| pane.session.0 != HIDDEN_SESSION);
    let best = seen.max_by_key(|pane| (pane.session.0 == SessionName::MAIN, pane.pane_id))?;
    Some(best.session.clone())
}

async fn find(
    client: &Client,
    target: &str,
    facts: &Overview,
) -> Result<(SessionName, Option<PaneId>), Error> {
    let mut of_session = facts
        .panes
        .iter()
        .filter(|pane| pane.session.0 == target)
        .peekable();
    if of_session.peek().is_some() {
        if of_session.any(|pane| lives(pane.state.state)) {
            return Ok((SessionName(target.to_owned()), None));
        }
        return Err(Error::new(
            ErrorKind::Ended,
            format!("all panes of session `{target}` have ended"),
        )
        .hint(format!(
            "`fugue new -s {}` opens one; `fugue attach PANE` looks at an ended one",
            quoted(target)
        )));
    }
    let args = GetStatus {
        pane_id: Some(target.to_owned()),
    };
    let status = match call(client, args).await {
        Ok(status) => status,
        Err(error) if error.kind == ErrorKind::NotFound => {
            return Err(nothing_called(target, facts));
        }
        Err(error) => return Err(error),
    };
    match status {
        GetStatusReply::Pane(status) => {
            let PaneStatus {
                pane_id, session, ..
            } = *status;
            Ok((session, Some(pane_id)))
        }
        GetStatusReply::All(_) => Err(nothing_called(target, facts)),
    }
}

/// What there is instead.
fn nothing_called(target: &str, facts: &Overview) -> Error {
    let mut names: Vec<&SessionName> = facts
        .panes
        .iter()
        .filter(|pane| lives(pane.state.state))
        .map(|pane| &pane.session)
        .collect();
    names.sort();
    names.dedup();
    let there = match names.as_slice() {
        [] => "no session has a pane".to_owned(),
        names => {
            let shown: Vec<String> = names.iter().take(8).map(ToString::to_string).collect();
            let more = if names.len() > 8 { ", …" } else { "" };
            format!("there are: {}{more}", shown.join(", "))
        }
    };
    Error::new(
        ErrorKind::NotFound,
        format!("no pane or session `{target}`; {there}"),
    )
    .hint("`fugue ls` lists panes; plain `fugue` opens a session if there is none")
}

/// A pane that shows itself would show itself showing itself.
fn refuse_nesting(socket: &Path, session: &SessionName, facts: &Overview) -> Result<(), Error> {
    let Ok(id) = std::env::var("FUGUE_PANE_ID") else {
        return Ok(());
    };
    let other = std::env::var_os("FUGUE_SOCKET").is_some_and(|around| socket.as_os_str() != around);
    let pane = id.parse::<PaneId>().ok().filter(|_| !other);
    let around = facts.panes.iter().find(|row| Some(row.pane_id) == pane);
    match around.filter(|row| row.session == *session) {
        Some(row) => Err(Error::invalid(format!(
            "this is pane {} of session `{session}`: it cannot show the session that it is in",
            row.pane_id
        ))
        .hint("attach to another session, or unset FUGUE_PANE_ID if you know better")),
        None => Ok(()),
    }
}
