//! Which panes of tmux there are, and where a new one goes. Nothing here changes anything in tmux, or starts it.
//!
//! All of it waits for tmux, for two seconds at most, so it is for threads that may wait.

use std::collections::HashSet;

use fugue_api::{Error, ErrorKind, panes::PaneSize, wire::CallerEnv};
use fugue_core::{TmuxOrigin, TmuxPane, TmuxPaneInfo};

use super::server::{TmuxError, TmuxServer, word};
use crate::resolve;

/// Where a new pane is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlacementRequest {
    /// Beside the caller, if it sits in tmux, so that a person sees it.
    Beside,
    /// In a window of its own in the caller's session, if it sits in tmux.
    Near,
    /// In a session of that name.
    Apart,
}

// A message is for a person or a model, who wants to see a few and not all.
const MAX_LISTED_CHOICES: usize = 8;

/// What is asked about a pane. The last may hold anything but a line end.
const FORMAT: &str = "#{pid}\t#{pane_id}\t#{pane_pid}\t#{pane_height}\t#{pane_width}\t#{pane_dead}\t#{session_name}\t\
                      #{window_index}\t#{window_name}\t#{pane_index}\t#{pane_current_command}";

/// The pane that a target of tmux means: `%5`, `session:window`, `session:window.pane`, `@3`.
pub fn find(target: &str, caller: &CallerEnv) -> Result<TmuxPaneInfo, Error> {
    let server = TmuxServer::of(caller)?;
    if target.trim().is_empty() {
        return Err(Error::invalid("an empty text is no target of tmux"));
    }
    // A question about a target that is not there is answered for another one. Taking a line of its screen is not.
    let named = word(target);
    let words = [
        "capture-pane",
        "-p",
        "-t",
        &named,
        "-S",
        "0",
        "-E",
        "0",
        ";",
        "display-message",
        "-p",
        "-t",
        &named,
        FORMAT,
    ];
    let socket = server.socket.to_string_lossy();
    match server.ask(&words) {
        Ok(said) => {
            let row = said
                .lines()
                .last()
                .and_then(|line| TmuxPaneRow::parse(line, &socket));
            row.filter(|row| !row.dead)
                .map(|row| row.found)
                .ok_or_else(|| {
                    Error::new(
                        ErrorKind::Ended,
                        format!("the program in tmux's `{target}` has ended"),
                    )
                    .hint(choices(&server))
                })
        }
        Err(TmuxError::Said(said)) => Err(Error::new(
            ErrorKind::NotFound,
            format!("no tmux pane `{target}`: {said}"),
        )
        .hint(choices(&server))),
        Err(TmuxError::NoServer(socket)) => Err(Error::new(
            ErrorKind::NotFound,
            format!(
                "no tmux pane `{target}`: no tmux server is at `{}`",
                socket.display()
            ),
        )
        .hint("start the caller inside tmux, or set TMUX for it")),
        Err(refused) => Err(refused.into()),
    }
}

/// Every pane of the caller's server whose program lives; none where there is no server, or none that answers.
pub fn list(caller: &CallerEnv) -> Vec<TmuxPaneInfo> {
    let Ok(server) = TmuxServer::of(caller) else {
        return Vec::new();
    };
    rows(&server)
        .into_iter()
        .filter(|row| !row.dead)
        .map(|row| row.found)
        .collect()
}

/// Where a pane that is still to be made goes. `session` is for one that does not go beside the caller; it need not be
/// there yet.
pub fn find_placement(
    caller: &CallerEnv,
    wish: PlacementRequest,
    session: &str,
) -> Result<TmuxPane, Error> {
    let server = TmuxServer::of(caller)?;
    server.check_version()?;
    let own = match wish {
        PlacementRequest::Beside | PlacementRequest::Near => own_pane(caller, &server),
        PlacementRequest::Apart => None,
    };
    let origin = match own {
        Some(own) if wish == PlacementRequest::Beside => TmuxOrigin::Split {
            beside: own.pane.id,
            session: own.session,
        },
        own => TmuxOrigin::Window {
            session: own.map_or_else(|| session_name(session), |own| own.session),
        },
    };
    Ok(TmuxPane {
        socket: server.socket.to_string_lossy().into_owned(),
        server: 0,
        id: String::new(),
        origin,
    })
}

/// The pane that the caller itself runs in, if it is still there.
fn own_pane(caller: &CallerEnv, server: &TmuxServer) -> Option<TmuxPaneInfo> {
    resolve::variable(caller, "TMUX")?;
    let own = resolve::variable(caller, "TMUX_PANE")?;
    let own = own.to_str()?;
    let found = rows(server).into_iter().map(|row| row.found);
    found.into_iter().find(|found| found.pane.id == own)
}

/// As tmux itself would write it.
fn session_name(wanted: &str) -> String {
    let name: String = wanted
        .chars()
        .map(|c| match c {
            ':' | '.' => '_',
            c if c.is_control() => '_',
            c => c,
        })
        .collect();
    if name.is_empty() {
        "fugue".into()
    } else {
        name
    }
}

pub(crate) struct TmuxPaneRow {
    found: TmuxPaneInfo,
    dead: bool,
    target: String,
}

impl TmuxPaneRow {
    pub(crate) fn parse(line: &str, socket: &str) -> Option<Self> {
        let parts: Vec<&str> = line.splitn(11, '\t').collect();
        let [
            server,
            id,
            pid,
            rows,
            cols,
            dead,
            session,
            index,
            window,
            pane_index,
            command,
        ] = parts[..]
        else {
            return None;
        };
        let pid: u32 = pid.parse().ok()?;
        // Asked of the kernel: a path may hold what would end the line.
        let cwd = std::fs::read_link(format!("/proc/{pid}/cwd")).unwrap_or_default();
        Some(Self {
            dead: dead == "1",
            target: target(session, index, window, pane_index),
            found: TmuxPaneInfo {
                pane: TmuxPane {
                    socket: socket.to_owned(),
                    server: server.parse().ok()?,
                    id: Some(id).filter(|id| id.starts_with('%'))?.to_owned(),
                    origin: TmuxOrigin::Found,
                },
                session: session.to_owned(),
                window: window.to_owned(),
                pid,
                command: command.to_owned(),
                cwd: cwd.to_string_lossy().into_owned(),
                size: PaneSize {
                    rows: rows.parse().ok()?,
                    cols: cols.parse().ok()?,
                },
            },
        })
    }
}

/// As a person would write it: by the window's name, where that can be written.
fn target(session: &str, index: &str, window: &str, pane: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_+/".contains(c);
    let named = window.starts_with(|c: char| c.is_alphabetic()) && window.chars().all(plain);
    let window = if named { window } else { index };
    match pane {
        "0" => format!("{session}:{window}"),
        pane => format!("{session}:{window}.{pane}"),
    }
}

/// Each once, also where its window is in several sessions.
fn rows(server: &TmuxServer) -> Vec<TmuxPaneRow> {
    let said = server
        .ask(&["list-panes", "-a", "-F", FORMAT])
        .unwrap_or_default();
    let socket = server.socket.to_string_lossy();
    let mut seen = HashSet::new();
    said.lines()
        .filter_map(|line| TmuxPaneRow::parse(line, &socket))
        .filter(|row| seen.insert(row.found.pane.id.clone()))
        .collect()
}

fn choices(server: &TmuxServer) -> String {
    let rows: Vec<TmuxPaneRow> = rows(server).into_iter().filter(|row| !row.dead).collect();
    if rows.is_empty() {
        return "no pane is open there".into();
    }
    let shown: Vec<String> = rows
        .iter()
        .take(MAX_LISTED_CHOICES)
        .map(|row| {
            format!(
                "{} (`{}`: {})",
                row.found.pane.id, row.target, row.found.command
            )
        })
        .collect();
    let more = match rows.len() - shown.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("there are {}{more}", shown.join(", "))
}

#[cfg(test)]
mod tests;
