//! One connection between a daemon and a holder: frames and fds over a non-blocking unix socket. It never waits; the
//! owner polls the fd and calls again.

use std::collections::VecDeque;
use std::io::{self, IoSlice, IoSliceMut};
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};

use crate::wire::{Bad, Frames, HolderFrame, MAX_FRAME, ToDaemon, ToHolder, WireMessage};

/// The daemon's end.
pub type DaemonLink = MessageLink<ToDaemon, ToHolder>;
/// The holder's end.
pub(crate) type HolderLink = MessageLink<ToHolder, ToDaemon>;

/// Receives `In`, sends `Out`.
pub struct MessageLink<In, Out> {
    socket: OwnedFd,
    frames: Frames,
    fds: VecDeque<OwnedFd>,
    out: VecDeque<Outgoing>,
    queued: usize,
    kinds: PhantomData<fn(Out) -> In>,
}

struct Outgoing {
    bytes: Vec<u8>,
    sent: usize,
    fds: Vec<OwnedFd>,
}

/// A message and the fds that came with it.
pub type Received<In> = (HolderFrame<In>, Vec<OwnedFd>);

/// What a read brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadStatus {
    Some,
    /// All that there was room for: there may be more at once.
    Full,
    /// Nothing now; poll for reading.
    Empty,
    /// The peer is gone. What it sent before may still be taken with `next`.
    Closed,
}

/// Whether everything went out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flushed {
    All,
    /// Poll for writing, then flush again.
    Later,
}

// The most fds one frame carries is a Hello's: 5 and the kept ones.
const MAX_FDS: usize = 16;
// Two frames of the largest size. A peer that lets more pile up does not read; it is dropped, and a Hello later tells
// it where things are.
const MAX_QUEUED: usize = 2 * MAX_FRAME;

impl DaemonLink {
    /// Connects to the holder that listens at `path`. ECONNREFUSED or ENOENT: nobody listens there. EAGAIN: the holder does
    /// not accept connections and its backlog is full; a blocking socket would wait for as long as it is stopped.
    pub fn connect(path: &Path) -> io::Result<DaemonLink> {
        let socket = rustix::net::socket_with(
            AddressFamily::UNIX,
            SocketType::STREAM,
            SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
            None,
        )?;
        rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
        Ok(MessageLink::new(socket))
    }
}

impl<In: WireMessage, Out: WireMessage> MessageLink<In, Out> {
    /// Over a connected, non-blocking stream socket.
    pub fn new(socket: OwnedFd) -> Self {
        MessageLink {
            socket,
            frames: Frames::default(),
            fds: VecDeque::new(),
            out: VecDeque::new(),
            queued: 0,
            kinds: PhantomData,
        }
    }

    /// Reads once from the socket.
    pub fn fill(&mut self) -> io::Result<ReadStatus> {
        let mut bytes = [0; 4096];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        // An interrupted call says nothing of what there is to read, and whoever is told that nothing is waits for more.
        let received = rustix::io::retry_on_intr(|| {
            rustix::net::recvmsg(
                &self.socket,
                &mut [IoSliceMut::new(&mut bytes)],
                &mut ancillary,
                RecvFlags::CMSG_CLOEXEC,
            )
        });
        let got = match received {
            Ok(got) => got.bytes,
            Err(Errno::AGAIN) => return Ok(ReadStatus::Empty),
            Err(Errno::CONNRESET) => return Ok(ReadStatus::Closed),
            Err(e) => return Err(e.into()),
        };
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(fds) = message {
                self.fds.extend(fds);
            }
        }
        if self.fds.len() > 4 * MAX_FDS {
            return Err(io::Error::other(
                "a peer sends fds that no message asks for",
            ));
        }
        if got == 0 {
            return Ok(ReadStatus::Closed);
        }
        self.frames.feed(&bytes[..got]);
        Ok(if got == bytes.len() {
            ReadStatus::Full
        } else {
            ReadStatus::Some
        })
    }

    /// The next whole message with its fds, if it has arrived.
    #[expect(
        clippy::should_implement_trait,
        reason = "an iterator would end for good where this means `not yet`"
    )]
    pub fn next(&mut self) -> Result<Option<Received<In>>, Bad> {
        let Some(frame) = self.frames.next::<In>()? else {
            return Ok(None);
        };
        let count = match &frame {
            HolderFrame::Known(message) => message.fds(),
            HolderFrame::Unknown { .. } => 0,
        };
        // The kernel hands the fds over with the first byte of their frame, so they are here when its last byte is.
        if count > self.fds.len() {
            return Err(Bad("fds are missing"));
        }
        Ok(Some((frame, self.fds.drain(..count).collect())))
    }

    /// Puts a message in the queue; `flush` sends it. An error means that the message is larger than a frame, or
    /// that the peer has stopped reading.
    pub fn push(&mut self, message: &Out, fds: Vec<OwnedFd>) -> io::Result<()> {
        debug_assert_eq!(message.fds(), fds.len());
        let mut bytes = Vec::new();
        message.encode(&mut bytes);
        if bytes.len() - 4 > MAX_FRAME {
            return Err(io::Error::from_raw_os_error(libc::EMSGSIZE));
        }
        if self.queued + bytes.len() > MAX_QUEUED {
            return Err(io::Error::from_raw_os_error(libc::ENOBUFS));
        }
        self.queued += bytes.len();
        self.out.push_back(Outgoing {
            bytes,
            sent: 0,
            fds,
        });
        Ok(())
    }

    /// Sends what is queued, as far as the socket takes it.
    pub fn flush(&mut self) -> io::Result<Flushed> {
        while let Some(frame) = self.out.front_mut() {
            let borrowed: Vec<BorrowedFd<'_>> = frame.fds.iter().map(AsFd::as_fd).collect();
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
            let mut ancillary = SendAncillaryBuffer::new(&mut space);
            if !borrowed.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(&borrowed)) {
                return Err(io::Error::from_raw_os_error(libc::E2BIG));
            }
            let sent = match rustix::net::sendmsg(
                &self.socket,
                &[IoSlice::new(&frame.bytes[frame.sent..])],
                &mut ancillary,
                SendFlags::NOSIGNAL,
            ) {
                Ok(sent) => sent,
                Err(Errno::AGAIN) => return Ok(Flushed::Later),
                Err(Errno::INTR) => continue,
                Err(e) => return Err(e.into()),
            };
            // The fds went with the first byte.
            frame.fds.clear();
            frame.sent += sent;
            self.queued -= sent;
            if frame.sent == frame.bytes.len() {
                self.out.pop_front();
            }
        }
        Ok(Flushed::All)
    }

    /// Whether `flush` has something to do.
    pub fn wants_write(&self) -> bool {
        !self.out.is_empty()
    }
}

impl<In, Out> AsFd for MessageLink<In, Out> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl<In, Out> std::os::fd::AsRawFd for MessageLink<In, Out> {
    fn as_raw_fd(&self) -> std::os::fd::RawFd {
        self.socket.as_raw_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connecting_to_a_holder_that_does_not_accept_fails_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("hold.sock");
        let _listener = crate::start::listen(&path).unwrap();
        let mut links = Vec::new();
        let error = loop {
            match DaemonLink::connect(&path) {
                Ok(link) => links.push(link),
                Err(error) => break error,
            }
            assert!(links.len() < 100, "the backlog has an end");
        };
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
    }
}
