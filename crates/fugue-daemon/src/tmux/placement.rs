//! Makes a pane in tmux, and removes it. The person's focus stays where it is, and so do the other panes.
//!
//! All of it waits for tmux, for two seconds at most, so it is for threads that may wait.

use std::{
    ffi::OsString,
    fs, io,
    path::Path,
    sync::{Mutex, PoisonError},
};

use fugue_api::{Error, ErrorKind, panes::PaneSize};
use fugue_core::{TmuxOrigin, TmuxPane};

use super::{
    server::{TmuxError, TmuxServer, name_word, word},
    tiles::{SplitAxis, WindowLayout, fits, halves},
};

/// What tmux is to run, and how the pane is to be called there.
pub struct PlacementOrder<'a> {
    pub wanted: &'a TmuxPane,
    pub name: &'a str,
    pub size: PaneSize,
    pub argv: &'a [OsString],
}

/// What a program in the pane has to know of tmux.
pub struct PlacedPane {
    pub pane: TmuxPane,
    /// `$TMUX` there.
    pub variable: String,
    /// `$TERM` there.
    pub term: String,
}

const MADE: &str = "#{pid}\t#{pane_id}\t#{session_id}\t#{default-terminal}";
// Beside which pane one was put, so that those beside it share its place.
const BESIDE: &str = "@fugue_beside";

/// One at a time: what is even is so for those that are there.
static PLACING: Mutex<()> = Mutex::new(());

/// Makes the pane, or the process of one that is there anew.
pub fn make(server: &TmuxServer, order: &PlacementOrder<'_>) -> Result<PlacedPane, Error> {
    let _placing = PLACING.lock().unwrap_or_else(PoisonError::into_inner);
    let argv: Vec<String> = order
        .argv
        .iter()
        .map(|arg| word(&arg.to_string_lossy()))
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
        return Err(TmuxError::Said(format!("{said:?} about a new pane")).into());
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

/// When its program ends, the pane stays for who wants to see it; only those that we made.
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
        &word(tag),
    ];
    server.ask(&words)?;
    Ok(())
}

/// Removes a pane that we made, if that server is still the same.
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
        tracing::debug!(%error, pane = made.id, "a pane of tmux is gone already");
        return;
    }
    // Those that stay share what it had.
    if let TmuxOrigin::Split { beside, .. } = &made.origin {
        even(&server, beside);
    }
}

/// Removes those of them that are there; each server is asked once which those are.
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

/// Gives a pane that we made another size, as far as its window has room.
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

/// Whether a pane that we made is still there: in the same server, since another one numbers its own from 0 again.
fn is_there(server: &TmuxServer, made: &TmuxPane) -> bool {
    if made.id.is_empty() {
        return false;
    }
    let wanted = format!("{} {}", made.server, made.id);
    let what = "#{pid} #{pane_id}";
    let said = server.ask(&["display-message", "-p", "-t", &made.id, what]);
    said.is_ok_and(|said| said.trim_end() == wanted)
}

/// Where tmux made a pane, for a daemon that comes after one that died before it could tell.
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
    let name = name_word(order.name);
    let new = [
        "new-window",
        "-d",
        "-P",
        "-F",
        MADE,
        "-n",
        &name,
        "-t",
        &word(&target),
    ];
    let argv: Vec<&str> = argv.iter().map(String::as_str).collect();
    match server.ask(&[&new[..], &argv].concat()) {
        Err(TmuxError::NoServer(_)) => {}
        // A server whose last session is just going has none to speak of.
        Err(TmuxError::Said(said))
            if said.contains("can't find") || said.contains("no current target") => {}
        answered => return answered,
    }
    let (cols, rows) = (order.size.cols.to_string(), order.size.rows.to_string());
    let session = name_word(session);
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

/// Half of what the pane that it is put beside has; with others there already, an even share of their half. Where there
/// is no room for it, a window of its own.
fn split(
    server: &TmuxServer,
    beside: &str,
    order: &PlacementOrder<'_>,
    argv: &[String],
) -> Result<String, Error> {
    let argv: Vec<&str> = argv.iter().map(String::as_str).collect();
    let Some((target, how)) = room(server, beside) else {
        let name = name_word(order.name);
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

/// Which pane to split, and how.
fn room(server: &TmuxServer, beside: &str) -> Option<(String, SplitAxis)> {
    let window = TmuxWindow::of(server, beside)?;
    // A person who looks at one pane alone keeps looking at it.
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
            // Across the way of what is around it, so that the two are a part of the window by themselves.
            let how = layout.crossing(last.number()?);
            fits(share, ids.len() + 1).then(|| (last.id.clone(), how))
        }
        // Somebody has moved them apart: whatever is there is halved.
        None => Some((last.id.clone(), halves(last.cols, last.rows)?)),
    }
}

/// Evens the shares of those beside a pane. What cannot be evened stays as it is.
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
    // tmux hands out the places in the order of its panes; after a swap that is not the layout's own.
    if layout.order() != order {
        return;
    }
    if let Some(evened) = layout.evened(&ids)
        && let Err(error) = server.ask(&["select-layout", "-t", beside, &evened.text()])
    {
        tracing::debug!(%error, "the panes of a run could not be laid out evenly");
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
    /// The one that a pane is in.
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
