//! `fugue attach`: a session's panes on a person's terminal.
//!
//! The screen is drawn from the daemon's frames, which are text with styles; a program's own bytes never reach the host terminal.
//! `model` is the state machine, `draw` renders it into a cell `buffer`, `diff` encodes the difference to the last screen,
//! `host_terminal` is the person's terminal, and `event_loop` connects them.
//!
//! The crate uses no widget or terminal library, for three reasons. Cells carry the complete styles of frames (kinds of
//! underline, overline, exact colors), with the column widths of `fugue-term`. A key is passed on unchanged or in the key protocol
//! of the program, which needs the exact key event. And only a small closed set of sequences is written to the host
//! terminal, all of them in `diff`, `style` and `host_terminal`.

mod buffer;
mod clean;
mod diff;
mod draw;
mod event_loop;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod host_terminal;
mod input;
mod model;
mod mouse;
mod pane_connections;
mod style;

use std::{io::IsTerminal, path::Path};

use fugue_api::{
    Error, ErrorKind, Handle, PaneId, SessionName, Tool, ToolReply,
    attach::ViewerRole,
    overview::Overview,
    pane_state::PaneState,
    random_bytes,
    tools::{GetStatus, GetStatusReply, PaneSize, PaneStatus},
    wire::{Request, Response},
};

use event_loop::{AttachLoop, LoopEnd};
use fugue_client::{client::Client, display::quoted};
use host_terminal::HostTerminal;
use model::{AttachModel, LeaveReason};

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
    let mut overview = fetch_overview(client).await?;
    let (session, pane) = match target {
        Some(target) => resolve_target(client, target, &overview).await?,
        None => match default_session(&overview) {
            Some(session) => (session, None),
            None => {
                let session = SessionName::default();
                let args = model::new_shell(&session, None, PaneSize { rows: 24, cols: 80 });
                let made = call(client, args).await?;
                overview = fetch_overview(client).await?;
                (session, Some(made.pane_id))
            }
        },
    };
    refuse_nesting(socket, &session, &overview)?;
    let base = u64::from_le_bytes(random_bytes()?);
    let host = HostTerminal::open()?;
    let mut model = AttachModel::new(base, role, session.clone(), host.size());
    let first = model.start(pane, overview, std::time::Instant::now());
    // In a task of its own: the current-thread runtime polls the driver once more for every wake of its `block_on` future.
    let task = tokio::spawn(AttachLoop::new(client.clone(), model, host).run(first));
    let ended = match task.await {
        Ok(ended) => ended?,
        Err(panicked) => std::panic::resume_unwind(panicked.into_panic()),
    };
    match ended {
        LoopEnd::Left(LeaveReason::Detached) => Ok(AttachEnd::Detached),
        LoopEnd::Left(LeaveReason::Empty) => Ok(AttachEnd::SessionEmpty),
        LoopEnd::Left(LeaveReason::Refused(error)) => Err(error),
        LoopEnd::Hangup => Ok(AttachEnd::Hangup),
    }
}

async fn call<T: Tool>(client: &Client, args: T) -> Result<T::Reply, Error> {
    let delivery = client.call(args.into()).await?;
    delivery.reply.read_as::<T>()
}

fn check_terminal() -> Result<(), Error> {
    if !std::io::stdin().is_terminal() || !std::io::stdout().is_terminal() {
        return Err(
            Error::unavailable("attach needs a terminal on stdin and stdout").hint(
                "`fugue read -f PANE` follows a pane without one; `fugue --help` lists all verbs",
            ),
        );
    }
    match std::env::var("TERM").as_deref() {
        Ok("dumb") | Ok("") | Err(_) => Err(Error::unavailable(
            "attach needs a terminal with cursor positioning, but TERM is `dumb` or not set",
        )
        .hint("set TERM to the terminal's type, such as `xterm-256color`")),
        Ok(_) => Ok(()),
    }
}

async fn fetch_overview(client: &Client) -> Result<Overview, Error> {
    match client.ask(Request::Overview).await? {
        Response::Tool {
            reply: ToolReply::GetStatus(GetStatusReply::All(overview)),
        } => Ok(overview),
        other => Err(Error::unexpected(&other)),
    }
}

/// The session of panes that runs open in the background.
const HIDDEN_SESSION: &str = "__orchestration__";

fn lives(state: PaneState) -> bool {
    !matches!(state, PaneState::Exited | PaneState::Closed)
}

/// `main` if it has a pane, else the session with the latest one.
fn default_session(overview: &Overview) -> Option<SessionName> {
    let live = overview.panes.iter().filter(|pane| lives(pane.state.state));
    let seen = live.filter(|pane| pane.session.0 != HIDDEN_SESSION);
    let best = seen.max_by_key(|pane| (pane.session.0 == SessionName::MAIN, pane.pane_id))?;
    Some(best.session.clone())
}

async fn resolve_target(
    client: &Client,
    target: &str,
    overview: &Overview,
) -> Result<(SessionName, Option<PaneId>), Error> {
    let mut of_session = overview
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
            "`fugue new -s {}` opens one; `fugue attach PANE` shows an ended one",
            quoted(target)
        )));
    }
    let args = GetStatus {
        pane_id: Some(target.to_owned()),
    };
    let status = match call(client, args).await {
        Ok(status) => status,
        Err(error) if error.kind == ErrorKind::NotFound => {
            return Err(unknown_target(target, overview));
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
        GetStatusReply::All(_) => Err(unknown_target(target, overview)),
    }
}

/// The error for an unknown target, with the sessions that exist.
fn unknown_target(target: &str, overview: &Overview) -> Error {
    let mut names: Vec<&SessionName> = overview
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

/// Refuses to attach a pane to its own session, which would draw itself recursively.
fn refuse_nesting(socket: &Path, session: &SessionName, overview: &Overview) -> Result<(), Error> {
    let Ok(id) = std::env::var("FUGUE_PANE_ID") else {
        return Ok(());
    };
    let other = std::env::var_os("FUGUE_SOCKET").is_some_and(|around| socket.as_os_str() != around);
    let pane = id.parse::<PaneId>().ok().filter(|_| !other);
    let around = overview.panes.iter().find(|row| Some(row.pane_id) == pane);
    match around.filter(|row| row.session == *session) {
        Some(row) => Err(Error::invalid(format!(
            "this terminal is pane {} of session `{session}` and cannot attach to its own session",
            row.pane_id
        ))
        .hint("attach to another session, or unset FUGUE_PANE_ID to attach anyway")),
        None => Ok(()),
    }
}
