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
#[cfg(test)]
mod fuzzing;
mod input;
mod keys;
mod lines;
mod looks;
mod model;
mod mouse;
mod paint;
mod run;
mod terminal;

use std::{io::IsTerminal, process::ExitCode};

use fugue_api::{
    Error, ErrorKind, PaneId, SessionName, ToolReply,
    attach::ViewerRole,
    overview::Overview,
    pane_state::PaneState,
    tools::{GetStatus, GetStatusReply, PaneSize, PaneStatus},
    wire::{Request, Response},
};

use crate::{cli::CliContext, verbs};
use model::{Leave, Model};
use run::{Ended, Loop};
use terminal::Outer;

/// Attaches this terminal to a session, or to one pane of it, until the person leaves.
pub async fn attach(
    desk: &CliContext,
    target: Option<&str>,
    role: ViewerRole,
) -> Result<ExitCode, Error> {
    check_terminal(desk)?;
    let mut facts = everything(desk).await?;
    let (session, pane) = match target {
        Some(target) => find(desk, target, &facts).await?,
        None => match default_session(&facts) {
            Some(session) => (session, None),
            None => {
                let session = SessionName::default();
                let args = model::new_shell(&session, None, PaneSize { rows: 24, cols: 80 });
                let made = verbs::call(desk, args).await?;
                facts = everything(desk).await?;
                (session, Some(made.pane_id))
            }
        },
    };
    refuse_nesting(desk, &session, &facts)?;
    let mut random = [0; 8];
    let filled = rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty());
    filled.map_err(|_| Error::new(ErrorKind::Internal, "the kernel gave no random numbers"))?;
    let outer = Outer::take()?;
    let base = u64::from_le_bytes(random);
    let mut model = Model::new(base, role, session.clone(), outer.size());
    let first = model.start(pane, facts, std::time::Instant::now());
    // A task like the others: for what the runtime's first one waits for, it asks the kernel once more each time.
    let attached = tokio::spawn(Loop::new(desk.client.clone(), model, outer).run(first));
    let ended = match attached.await {
        Ok(ended) => ended?,
        Err(broken) => std::panic::resume_unwind(broken.into_panic()),
    };
    match ended {
        Ended::Left(Leave::Detached) => {
            desk.out.note("detached; `fugue attach` comes back");
            Ok(ExitCode::SUCCESS)
        }
        Ended::Left(Leave::Empty) => {
            desk.out.note("the session has no pane any more");
            Ok(ExitCode::SUCCESS)
        }
        Ended::Left(Leave::Refused(error)) => Err(error),
        Ended::Hangup => Ok(ExitCode::from(129)),
    }
}

fn check_terminal(desk: &CliContext) -> Result<(), Error> {
    if desk.out.is_json() {
        return Err(Error::invalid("attach is for people: it has no JSON")
            .hint("`fugue read -f --json` follows a pane"));
    }
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

async fn everything(desk: &CliContext) -> Result<Overview, Error> {
    match desk.client.ask(Request::Overview).await? {
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
    desk: &CliContext,
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
            verbs::quoted(target)
        )));
    }
    let args = GetStatus {
        pane_id: Some(target.to_owned()),
    };
    let status = match verbs::call(desk, args).await {
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
fn refuse_nesting(desk: &CliContext, session: &SessionName, facts: &Overview) -> Result<(), Error> {
    let Ok(id) = std::env::var("FUGUE_PANE_ID") else {
        return Ok(());
    };
    let ours = desk.paths.socket();
    let other = std::env::var_os("FUGUE_SOCKET").is_some_and(|socket| ours.as_os_str() != socket);
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
