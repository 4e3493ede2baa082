//! Finds existing tmux panes and the placement of a new pane. Changes nothing in tmux and starts no server.
//!
//! All functions wait for tmux, at most two seconds, so call these on blocking threads.

use std::collections::HashSet;

use fugue_api::{Error, ErrorKind, tools::PaneSize, wire::CallerEnv};
use fugue_core::{TmuxOrigin, TmuxPane, TmuxPaneInfo};

use super::server::{TmuxError, TmuxServer, quote_argument};
use crate::resolve;

/// The wanted placement of a new pane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlacementRequest {
    /// Next to the caller's pane, if the caller runs in tmux, so that a person sees the new pane.
    Beside,
    /// In a new window of the caller's session, if the caller runs in tmux.
    Near,
    /// In the session with the given name.
    Apart,
}

// The limit of panes in an error message.
const MAX_LISTED_CHOICES: usize = 8;

/// The format of a pane's row. The last field may hold any character but a line end.
const FORMAT: &str = "#{pid}\t#{pane_id}\t#{pane_pid}\t#{pane_height}\t#{pane_width}\t#{pane_dead}\t#{session_name}\t\
                      #{window_index}\t#{window_name}\t#{pane_index}\t#{pane_current_command}";

/// Finds the pane of a tmux target: `%5`, `session:window`, `session:window.pane`, `@3`.
pub fn find(target: &str, caller: &CallerEnv) -> Result<TmuxPaneInfo, Error> {
    let server = TmuxServer::of(caller)?;
    if target.trim().is_empty() {
        return Err(Error::invalid("an empty text is no target of tmux"));
    }
    // `display-message` with a missing target reports another pane, while `capture-pane` fails.
    let named = quote_argument(target);
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
        Err(TmuxError::Rejected(said)) => Err(Error::new(
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

/// All live panes of the caller's server; empty if no server runs or the server does not respond.
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

/// The placement of a new pane. `session` is used for a pane that is not next to the caller, and need not exist yet.
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

/// The caller's own pane, if it still exists.
fn own_pane(caller: &CallerEnv, server: &TmuxServer) -> Option<TmuxPaneInfo> {
    resolve::variable(caller, "TMUX")?;
    let own = resolve::variable(caller, "TMUX_PANE")?;
    let own = own.to_str()?;
    let found = rows(server).into_iter().map(|row| row.found);
    found.into_iter().find(|found| found.pane.id == own)
}

/// A session name with the characters that tmux replaces.
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
        // Read from /proc: a path may contain a line end.
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

/// The target as a person would write it: with the window's name, if the name is unambiguous in a target.
fn target(session: &str, index: &str, window: &str, pane: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_+/".contains(c);
    let named = window.starts_with(|c: char| c.is_alphabetic()) && window.chars().all(plain);
    let window = if named { window } else { index };
    match pane {
        "0" => format!("{session}:{window}"),
        pane => format!("{session}:{window}.{pane}"),
    }
}

/// All panes, each once, also if its window is linked to several sessions.
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
