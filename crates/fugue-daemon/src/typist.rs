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
    DaemonLink, Filled, HolderAt,
    wire::{Frame, ToDaemon, ToHolder},
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
    /// Not watched: an acknowledgement wakes nobody, and is read with the next key or when the connection is lost.
    link: DaemonLink,
    grew: OwnedFd,
    acknowledges: bool,
    /// Messages of keys that were sent, and that the terminal is known to have taken.
    sent: u64,
    written: u64,
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
        let Ok(Ok((ToDaemon::Admitted { acknowledges }, fds))) = answer else {
            return None;
        };
        let grew = fds.into_iter().next()?;
        Some(Self {
            link: link.into_inner(),
            grew,
            acknowledges,
            sent: 0,
            written: 0,
        })
    }

    /// Tells when the holder has closed the connection, as its death does.
    pub fn lost(&self) -> io::Result<Disconnect> {
        let socket = self.link.as_fd().try_clone_to_owned()?;
        Ok(Disconnect(watched(socket, Interest::PRIORITY)?))
    }

    /// How many of the messages that were sent are not known to have reached the terminal. 0 where the holder does not
    /// acknowledge.
    pub fn unacknowledged(&mut self) -> u64 {
        self.hear();
        match self.acknowledges {
            true => self.sent.saturating_sub(self.written),
            false => 0,
        }
    }

    /// Reads the acknowledgements that have come.
    fn hear(&mut self) {
        loop {
            let filled = self.link.fill();
            while let Ok(Some((frame, _))) = self.link.next() {
                if let Frame::Known(ToDaemon::KeysWritten { count }) = frame {
                    self.written = count;
                }
            }
            // A lost connection is found by whoever waits for that.
            if !matches!(filled, Ok(Filled::Full)) {
                return;
            }
        }
    }

    /// What is bumped when the log grows behind a key.
    pub fn grew(&self) -> io::Result<OwnedFd> {
        self.grew.try_clone()
    }

    /// As much as can be sent without waiting; [`Typist::flush`] sends the rest. An error: nothing of it is typed.
    pub fn keys(&mut self, bytes: Vec<u8>) -> io::Result<Flushed> {
        self.hear();
        self.link.push(&ToHolder::Keys { bytes }, Vec::new())?;
        let flushed = self.link.flush()?;
        self.sent += 1;
        Ok(flushed)
    }

    pub async fn flush(&mut self) -> Result<(), Error> {
        self.flush_all().await.map_err(|_| uncertain())
    }

    async fn flush_all(&mut self) -> io::Result<()> {
        while self.link.flush()? == Flushed::Later {
            let socket = self.link.as_fd().try_clone_to_owned()?;
            let _ = watched(socket, Interest::WRITABLE)?.writable().await?;
        }
        Ok(())
    }
}

/// The end of a connection to a holder. What comes on the connection is left to its [`Typist`].
pub struct Disconnect(AsyncFd<OwnedFd>);

impl Disconnect {
    pub async fn wait(self) {
        // An error here is a runtime that ends.
        let _ = self.0.ready(Interest::PRIORITY).await;
    }
}

/// What is said of an input whose holder is gone.
pub fn uncertain() -> Error {
    Error::new(
        Kind::Uncertain,
        "the pane's holder died while this was typed; nobody knows whether it was",
    )
}
