//! A pane whose holder runs inside a tmux pane: starts the holder through tmux, and handles keys and sizes from tmux.

use std::{io, path::Path, time::Duration};

use fugue_api::{Error, ErrorKind, tools::PaneSize, wire::CallerEnv};
use fugue_core::{PaneRecord, TmuxPane, pane_machine::TypingSource};
use fugue_holder::{HolderLocation, wire::ChildSpec};
use tokio::{net::UnixListener, task::spawn_blocking, time::timeout};

use super::{
    Pane,
    backend::{PaneBackend, PaneDir},
    launch,
};
use crate::{
    pending_calls::Responder,
    tmux::{
        placement::{self, PlacedPane, PlacementOrder},
        server::TmuxServer,
    },
};
use fugue_client::paths::SocketPath;

// tmux starts a process within milliseconds; a longer start has failed.
const HOLDER_START_TIMEOUT: Duration = Duration::from_secs(5);

/// Lets tmux start the pane's holder, and adds the tmux pane to the record and to the child's environment.
pub(super) async fn start(
    place: PaneDir,
    record: &mut PaneRecord,
    caller: &CallerEnv,
    spec: &mut ChildSpec,
) -> Result<PaneBackend, Error> {
    let Some(wanted) = record.tmux.clone() else {
        return Err(Error::new(
            ErrorKind::Internal,
            "a pane that tmux does not show",
        ));
    };
    let meeting = place.dir.join(HolderLocation::RENDEZVOUS_SOCKET);
    let arrivals = listen(&meeting).map_err(|error| launch::files_error(&error))?;
    let mut server = TmuxServer::of(caller)?;
    server.socket = wanted.socket.clone().into();
    let made = in_tmux(&server, wanted, record, &place, spec).await?;
    let backend = async {
        // The holder's connection stays open until the holder has received the hello.
        let came = timeout(HOLDER_START_TIMEOUT, arrivals.accept()).await;
        let (_waits, _) = came
            .map_err(|_| launch::refusal("tmux did not start its holder"))?
            .map_err(|error| launch::files_error(&error))?;
        let backend = PaneBackend::connect(place).await;
        backend.map_err(|said| launch::refusal(&said))
    };
    let backend = backend.await;
    let _ = std::fs::remove_file(&meeting);
    let pane = made.pane.clone();
    if backend.is_err() {
        let _ = spawn_blocking(move || placement::remove(&pane)).await;
        return backend;
    }
    for (key, value) in [
        ("TERM", &made.term),
        ("TMUX", &made.variable),
        ("TMUX_PANE", &made.pane.id),
    ] {
        spec.env.retain(|(known, _)| known != key.as_bytes());
        spec.env
            .push((key.as_bytes().to_vec(), value.as_bytes().to_vec()));
    }
    record.tmux = Some(made.pane);
    backend
}

async fn in_tmux(
    server: &TmuxServer,
    wanted: TmuxPane,
    record: &PaneRecord,
    place: &PaneDir,
    spec: &ChildSpec,
) -> Result<PlacedPane, Error> {
    let argv = place
        .tmux_command()
        .map_err(|said| launch::refusal(&said))?;
    let (server, dir, name) = (server.clone(), place.dir.clone(), record.name.clone());
    let size = PaneSize {
        rows: spec.rows,
        cols: spec.cols,
    };
    // Identifies the pane as this daemon's for clients inside tmux.
    let tag: Vec<u8> = spec.marks.join(&b' ');
    let tag = String::from_utf8_lossy(&tag).into_owned();
    let made = spawn_blocking(move || {
        let made = placement::make(
            &server,
            &PlacementOrder {
                wanted: &wanted,
                name: &name,
                size,
                argv: &argv,
            },
        )?;
        let kept = placement::note(&dir, &made.pane)
            .map_err(|error| launch::files_error(&error))
            .and_then(|()| placement::keep(&server, &made.pane, &tag));
        match kept {
            Ok(()) => Ok(made),
            Err(error) => {
                placement::remove(&made.pane);
                Err(error)
            }
        }
    });
    made.await
        .unwrap_or_else(|_| Err(Error::new(ErrorKind::Internal, "tmux was not asked")))
}

fn listen(path: &Path) -> io::Result<UnixListener> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let listener = std::os::unix::net::UnixListener::bind(SocketPath::new(path)?)?;
    listener.set_nonblocking(true)?;
    UnixListener::from_std(listener)
}

impl Pane {
    /// Bytes arrived from tmux: a person's keys, or replies of the host terminal.
    pub(super) fn keyed(&mut self, bytes: &[u8]) {
        if !is_terminal_reply(bytes) {
            self.follower.terminal.record_typed(bytes);
            self.record_typing(TypingSource::Person, bytes);
            self.person_typed();
        }
    }

    /// Resizes the pane through tmux, which informs the child through the holder.
    pub(super) fn resize_in_tmux(&self, tmux: TmuxPane, size: PaneSize, responder: Responder) {
        tokio::task::spawn_local(async move {
            let asked = spawn_blocking(move || placement::resize(&tmux, size)).await;
            let outcome = asked
                .unwrap_or_else(|_| Err(Error::new(ErrorKind::Internal, "tmux was not asked")));
            responder.answer(outcome.map(|()| fugue_api::wire::Response::Resized));
        });
    }
}

/// Whether bytes are only replies of the host terminal to queries, or its focus reports.
fn is_terminal_reply(bytes: &[u8]) -> bool {
    let mut rest = bytes;
    while !rest.is_empty() {
        let Some(after) = after_one_reply(rest) else {
            return false;
        };
        rest = after;
    }
    !bytes.is_empty()
}

/// The bytes after one reply, if `bytes` begins with one.
fn after_one_reply(bytes: &[u8]) -> Option<&[u8]> {
    match bytes {
        [0x1b, b'[', b'I' | b'O', rest @ ..] => Some(rest),
        [0x1b, b'[', rest @ ..] => {
            let end = rest.iter().position(|byte| !matches!(byte, b' '..=b'?'))?;
            let is_answer = matches!(rest[end], b'c' | b'n' | b'R' | b't' | b'y');
            is_answer.then(|| &rest[end + 1..])
        }
        [0x1b, b']' | b'P' | b'_', rest @ ..] => {
            let bell = rest.iter().position(|byte| *byte == 0x07).map(|at| at + 1);
            let ends = rest.windows(2).position(|pair| pair == b"\x1b\\");
            let end = bell.into_iter().chain(ends.map(|at| at + 2)).min()?;
            Some(&rest[end..])
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminals_answer_is_not_typing() {
        for own in [
            "\x1b[?1;2c",
            "\x1b[0n",
            "\x1b[24;80R",
            "\x1b[I",
            "\x1b]11;rgb:0/0/0\x1b\\",
            "\x1b[2;2R\x1b[>84;0;0c\x1b]10;rgb:1/1/1\x07\x1bP1+r436f\x1b\\\x1b[0n",
        ] {
            assert!(is_terminal_reply(own.as_bytes()), "{own:?}");
        }
        for typed in [
            "a", "\x1b[A", "\x1b", "y\r", "\x1b[Z", "\x1bn", "\x1b[0nq", "",
        ] {
            assert!(!is_terminal_reply(typed.as_bytes()), "{typed:?}");
        }
    }
}
