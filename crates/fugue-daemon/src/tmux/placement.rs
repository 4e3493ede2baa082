//! Creates and removes tmux panes. The person's focus and the other panes stay as they are.
//!
//! All functions wait for tmux, at most two seconds, so call these on blocking threads.

use std::{
    ffi::OsString,
    fs, io,
    path::Path,
    sync::{Mutex, PoisonError},
};

use fugue_api::{Error, ErrorKind, tools::PaneSize};
use fugue_core::{TmuxOrigin, TmuxPane};

use super::{
    server::{TmuxError, TmuxServer, quote_argument, quote_name},
    tiles::{SplitAxis, WindowLayout, fits, halves},
};

/// The command and the name of a new tmux pane.
pub struct PlacementOrder<'a> {
    pub wanted: &'a TmuxPane,
    pub name: &'a str,
    pub size: PaneSize,
    pub argv: &'a [OsString],
}

/// A new tmux pane, and the variables for the program inside.
pub struct PlacedPane {
    pub pane: TmuxPane,
    /// The value of `$TMUX`.
    pub variable: String,
    /// The value of `$TERM`.
    pub term: String,
}

const MADE: &str = "#{pid}\t#{pane_id}\t#{session_id}\t#{default-terminal}";
// The pane option with the id of the pane next to which this pane was placed. Panes with the same value share an area.
const BESIDE: &str = "@fugue_beside";

/// Serializes placements, because equal shares depend on the existing panes.
static PLACING: Mutex<()> = Mutex::new(());

/// Creates the pane, or restarts the process of an existing pane.
pub fn make(server: &TmuxServer, order: &PlacementOrder<'_>) -> Result<PlacedPane, Error> {
    let _placing = PLACING.lock().unwrap_or_else(PoisonError::into_inner);
    let argv: Vec<String> = order
        .argv
        .iter()
        .map(|arg| quote_argument(&arg.to_string_lossy()))
        .collect();
    let said = if is_there(server, order.wanted) {
        again(server, &order.wanted.id, &argv)?
    } else {
        match &order.wanted.origin {
            TmuxOrigin::Window { session } => window(server, session, order, &argv)?,
            TmuxOrigin::Split { beside, .. } => split(server, beside, order, &argv)?,
            TmuxOrigin::Found => {
                return Err(Error::new(
                    ErrorKind::Internal,
                    "a pane that was found is not made",
                ));
            }
        }
    };
    let parts: Vec<&str> = said.trim().split('\t').collect();
    let [pid, id, session, term] = parts[..] else {
        return Err(TmuxError::Rejected(format!("{said:?} about a new pane")).into());
    };
    let pane = TmuxPane {
        server: pid.parse().unwrap_or(0),
        id: id.to_owned(),
        ..order.wanted.clone()
    };
    let socket = server.socket.display();
    let session = session.trim_start_matches('$');
    Ok(PlacedPane {
        variable: format!("{socket},{pid},{session}"),
        term: term.to_owned(),
        pane,
    })
}

/// Keeps the tmux pane visible after the program has ended. Only for panes that fugue created.
pub fn keep(server: &TmuxServer, made: &TmuxPane, tag: &str) -> Result<(), Error> {
    let id = made.id.as_str();
    let words = [
        "set-option",
        "-p",
        "-t",
        id,
        "remain-on-exit",
        "on",
        ";",
        "set-option",
        "-p",
        "-t",
        id,
        "@fugue",
        &quote_argument(tag),
    ];
    server.ask(&words)?;
    Ok(())
}

/// Removes a pane that fugue created, if the server is still the same.
pub fn remove(made: &TmuxPane) {
    if made.id.is_empty() || made.origin == TmuxOrigin::Found {
        return;
    }
    let Ok(server) = TmuxServer::at(Path::new(&made.socket)) else {
        return;
    };
    let _placing = PLACING.lock().unwrap_or_else(PoisonError::into_inner);
    if !is_there(&server, made) {
        return;
    }
    if let Err(error) = server.ask(&["kill-pane", "-t", &made.id]) {
        tracing::debug!(%error, pane = made.id, "tmux pane already removed");
        return;
    }
    // The remaining panes share the freed area.
    if let TmuxOrigin::Split { beside, .. } = &made.origin {
        even(&server, beside);
    }
}

/// Removes all of these panes that exist, with a single query per server.
pub fn remove_all(made: &[TmuxPane]) {
    let mut sockets: Vec<&str> = made.iter().map(|pane| pane.socket.as_str()).collect();
    sockets.sort_unstable();
    sockets.dedup();
    for socket in sockets {
        let Ok(server) = TmuxServer::at(Path::new(socket)) else {
            continue;
        };
        let what = "#{pid} #{pane_id}";
        let said = server.ask(&["list-panes", "-a", "-F", what]);
        let said = said.unwrap_or_default();
        let is_there = |pane: &&TmuxPane| {
            let row = format!("{} {}", pane.server, pane.id);
            pane.socket == socket && said.lines().any(|line| line == row)
        };
        made.iter().filter(is_there).for_each(remove);
    }
}

/// Resizes a pane that fugue created, as far as the window has room.
pub fn resize(made: &TmuxPane, size: PaneSize) -> Result<(), Error> {
    let server = TmuxServer::at(Path::new(&made.socket))?;
    let (cols, rows) = (size.cols.to_string(), size.rows.to_string());
    let how = match made.origin {
        TmuxOrigin::Window { .. } => "resize-window",
        TmuxOrigin::Split { .. } => "resize-pane",
        TmuxOrigin::Found => {
            return Err(Error::invalid(
                "this pane is somebody's own in tmux, which has the say over its size",
            )
            .hint("resize it in tmux"));
        }
    };
    if !is_there(&server, made) {
        return Err(Error::new(
            ErrorKind::Ended,
            format!("tmux has no pane `{}` any more", made.id),
        ));
    }
    server.ask(&[how, "-t", &made.id, "-x", &cols, "-y", &rows])?;
    Ok(())
}

/// Whether a pane that fugue created still exists, in the same server: a new server numbers its panes from 0 again.
fn is_there(server: &TmuxServer, made: &TmuxPane) -> bool {
    if made.id.is_empty() {
        return false;
    }
    let wanted = format!("{} {}", made.server, made.id);
    let what = "#{pid} #{pane_id}";
    let said = server.ask(&["display-message", "-p", "-t", &made.id, what]);
    said.is_ok_and(|said| said.trim_end() == wanted)
}

/// Writes the tmux pane into the pane's directory, for the next daemon if this one dies before its commit.
pub fn note(dir: &Path, made: &TmuxPane) -> io::Result<()> {
    let beside = dir.join("tmux.new");
    fs::write(&beside, serde_json::to_vec(made)?)?;
    fs::rename(beside, dir.join("tmux"))
}

pub fn noted(dir: &Path) -> Option<TmuxPane> {
    serde_json::from_slice(&fs::read(dir.join("tmux")).ok()?).ok()
}

fn window(
    server: &TmuxServer,
    session: &str,
    order: &PlacementOrder<'_>,
    argv: &[String],
) -> Result<String, TmuxError> {
    let target = format!("={session}:");
    let name = quote_name(order.name);
    let new = [
        "new-window",
        "-d",
        "-P",
        "-F",
        MADE,
        "-n",
        &name,
        "-t",
        &quote_argument(&target),
    ];
    let argv: Vec<&str> = argv.iter().map(String::as_str).collect();
    match server.ask(&[&new[..], &argv].concat()) {
        Err(TmuxError::NoServer(_)) => {}
        // A server whose last session is ending has no windows.
        Err(TmuxError::Rejected(said))
            if said.contains("can't find") || said.contains("no current target") => {}
        answered => return answered,
    }
    let (cols, rows) = (order.size.cols.to_string(), order.size.rows.to_string());
    let session = quote_name(session);
    let new = [
        "new-session",
        "-d",
        "-P",
        "-F",
        MADE,
        "-s",
        &session,
        "-n",
        &name,
        "-x",
        &cols,
        "-y",
        &rows,
    ];
    server.ask_or_start(&[&new[..], &argv].concat())
}

fn again(server: &TmuxServer, id: &str, argv: &[String]) -> Result<String, TmuxError> {
    let respawn = ["respawn-pane", "-k", "-t", id];
    let argv: Vec<&str> = argv.iter().map(String::as_str).collect();
    server.ask(&[&respawn[..], &argv].concat())?;
    server.ask(&["display-message", "-p", "-t", id, MADE])
}

/// Splits off half of the neighbour's area, or an equal share of that half if that half has other panes already. Without enough
/// room, the pane gets a new window.
fn split(
    server: &TmuxServer,
    beside: &str,
    order: &PlacementOrder<'_>,
    argv: &[String],
) -> Result<String, Error> {
    let argv: Vec<&str> = argv.iter().map(String::as_str).collect();
    let Some((target, how)) = room(server, beside) else {
        let name = quote_name(order.name);
        let target = server.ask(&["display-message", "-p", "-t", beside, "#{session_id}:"])?;
        let new = [
            "new-window",
            "-d",
            "-P",
            "-F",
            MADE,
            "-n",
            &name,
            "-t",
            target.trim(),
        ];
        return Ok(server.ask(&[&new[..], &argv].concat())?);
    };
    let way = match how {
        SplitAxis::Across => "-h",
        SplitAxis::Down => "-v",
    };
    let new = ["split-window", "-d", way, "-P", "-F", MADE, "-t", &target];
    let said = server.ask(&[&new[..], &argv].concat())?;
    if let Some(id) = said.split('\t').nth(1) {
        server.ask(&["set-option", "-p", "-t", id, BESIDE, beside])?;
    }
    even(server, beside);
    Ok(said)
}

/// The pane to split, and the direction.
fn room(server: &TmuxServer, beside: &str) -> Option<(String, SplitAxis)> {
    let window = TmuxWindow::of(server, beside)?;
    // A zoomed window stays zoomed.
    if window.zoomed {
        return None;
    }
    let ours = window.ours();
    let Some(last) = ours.last() else {
        let own = window.panes.iter().find(|pane| pane.id == beside)?;
        return Some((beside.to_owned(), halves(own.cols, own.rows)?));
    };
    let ids: Vec<u32> = ours.iter().filter_map(|pane| pane.number()).collect();
    let layout = WindowLayout::parse(&window.layout)?;
    match layout.share(&ids) {
        Some(share) => {
            // Against the direction of the surrounding split, so that the two panes are a subtree of their own.
            let how = layout.crossing(last.number()?);
            fits(share, ids.len() + 1).then(|| (last.id.clone(), how))
        }
        // A person has moved the panes apart: the last pane is halved.
        None => Some((last.id.clone(), halves(last.cols, last.rows)?)),
    }
}

/// Gives the panes next to `beside` equal shares. A layout in which that is impossible stays unchanged.
fn even(server: &TmuxServer, beside: &str) {
    let Some(window) = TmuxWindow::of(server, beside).filter(|window| !window.zoomed) else {
        return;
    };
    let ids: Vec<u32> = window
        .ours()
        .iter()
        .filter_map(|pane| pane.number())
        .collect();
    let Some(layout) = WindowLayout::parse(&window.layout).filter(|_| ids.len() > 1) else {
        return;
    };
    let order: Vec<u32> = window.panes.iter().filter_map(WindowPane::number).collect();
    // tmux assigns areas in the order of its pane list, which differs from the layout's order after a swap.
    if layout.order() != order {
        return;
    }
    if let Some(evened) = layout.evened(&ids)
        && let Err(error) = server.ask(&["select-layout", "-t", beside, &evened.text()])
    {
        tracing::debug!(%error, "tmux layout not changed");
    }
}

struct TmuxWindow {
    beside: String,
    layout: String,
    zoomed: bool,
    panes: Vec<WindowPane>,
}

struct WindowPane {
    id: String,
    cols: u32,
    rows: u32,
    beside: String,
}

impl TmuxWindow {
    /// The window of a pane.
    fn of(server: &TmuxServer, pane: &str) -> Option<Self> {
        const FORMAT: &str = "#{window_zoomed_flag}\t#{window_layout}\t#{pane_id}\t#{pane_width}\t#{pane_height}\t\
                              #{@fugue_beside}";
        let said = server.ask(&["list-panes", "-t", pane, "-F", FORMAT]).ok()?;
        let mut window = Self {
            beside: pane.to_owned(),
            layout: String::new(),
            zoomed: false,
            panes: Vec::new(),
        };
        for line in said.lines() {
            let parts: Vec<&str> = line.split('\t').collect();
            let [zoomed, layout, id, cols, rows, beside] = parts[..] else {
                return None;
            };
            window.zoomed = zoomed == "1";
            window.layout = layout.to_owned();
            window.panes.push(WindowPane {
                id: id.to_owned(),
                cols: cols.parse().ok()?,
                rows: rows.parse().ok()?,
                beside: beside.to_owned(),
            });
        }
        Some(window)
    }

    fn ours(&self) -> Vec<&WindowPane> {
        let ours = self.panes.iter().filter(|pane| pane.beside == self.beside);
        ours.collect()
    }
}

impl WindowPane {
    fn number(&self) -> Option<u32> {
        self.id.strip_prefix('%')?.parse().ok()
    }
}

#[cfg(test)]
mod tests;
