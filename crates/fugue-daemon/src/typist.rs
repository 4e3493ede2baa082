//! A person's keys, straight to the holder of a pane: they wait for no daemon. The pane's task hears of them from the
//! holder, before it sees what came of them.

use std::{
    io,
    os::fd::{AsFd, OwnedFd},
    time::Duration,
};

use fugue_api::{Error, Kind, PaneId};
pub use fugue_hold::Flushed;
use fugue_hold::{
    DaemonLink, HolderAt,
    wire::{ToDaemon, ToHolder},
};
use tokio::{
    io::{Interest, unix::AsyncFd},
    time::timeout,
};

use crate::{
    pane::next_word,
    paths::{Paths, SocketPath},
    watched::watched,
};

/// One pane's.
pub struct Typist {
    link: AsyncFd<DaemonLink>,
    grew: OwnedFd,
}

// A holder answers at once, unless it is stopped.
const ANSWERED_WITHIN: Duration = Duration::from_secs(1);

impl Typist {
    /// `None`: the pane has no holder, or one that does not know how.
    pub async fn open(paths: &Paths, pane: PaneId) -> Option<Self> {
        let dir = paths.panes().join(pane.to_string());
        let socket = SocketPath::new(&dir.join(HolderAt::SOCKET)).ok()?;
        let link = DaemonLink::connect(socket.as_ref()).ok()?;
        let mut link = watched(link, Interest::READABLE).ok()?;
        link.get_mut().push(&ToHolder::Person, Vec::new()).ok()?;
        link.get_mut().flush().ok()?;
        let answer = timeout(ANSWERED_WITHIN, next_word(&mut link)).await;
        let Ok(Ok((ToDaemon::Admitted, fds))) = answer else {
            return None;
        };
        let grew = fds.into_iter().next()?;
        Some(Self { link, grew })
    }

    /// What is bumped when the log grows behind a key.
    pub fn grew(&self) -> io::Result<OwnedFd> {
        self.grew.try_clone()
    }

    /// As much as can be sent without waiting; [`Typist::flush`] sends the rest. An error: nothing of it is typed.
    pub fn keys(&mut self, bytes: Vec<u8>) -> io::Result<Flushed> {
        let link = self.link.get_mut();
        link.push(&ToHolder::Keys { bytes }, Vec::new())?;
        link.flush()
    }

    pub async fn flush(&mut self) -> Result<(), Error> {
        self.flush_all().await.map_err(|_| uncertain())
    }

    async fn flush_all(&mut self) -> io::Result<()> {
        while self.link.get_mut().flush()? == Flushed::Later {
            let socket = self.link.get_ref().as_fd().try_clone_to_owned()?;
            let _ = watched(socket, Interest::WRITABLE)?.writable().await?;
        }
        Ok(())
    }
}

/// What is said of an input whose holder is gone.
pub fn uncertain() -> Error {
    Error::new(
        Kind::Uncertain,
        "the pane's holder died while this was typed; nobody knows whether it was",
    )
}
