//! One connection between a daemon and a holder: frames and fds over a non-blocking unix socket. No call blocks; the
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

use crate::wire::{
    HolderFrame, MAX_FRAME, ToDaemon, ToHolder, WireFrameDecoder, WireFrameError, WireMessage,
};

/// The daemon's end of a connection.
pub type DaemonLink = MessageLink<ToDaemon, ToHolder>;
/// The holder's end of a connection.
pub(crate) type HolderLink = MessageLink<ToHolder, ToDaemon>;

/// A connection that receives `In` and sends `Out`.
pub struct MessageLink<In, Out> {
    socket: OwnedFd,
    frames: WireFrameDecoder,
    fds: VecDeque<OwnedFd>,
    out: VecDeque<OutgoingFrame>,
    queued_bytes: usize,
    kinds: PhantomData<fn(Out) -> In>,
}

struct OutgoingFrame {
    bytes: Vec<u8>,
    sent: usize,
    fds: Vec<OwnedFd>,
}

/// A message and the fds that were sent with it.
pub type ReceivedMessage<In> = (HolderFrame<In>, Vec<OwnedFd>);

/// Result of one read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadStatus {
    Some,
    /// The read buffer was filled: more bytes may be available.
    Full,
    /// No bytes available; poll for reading.
    Empty,
    /// The peer has closed the connection. Messages received before can still be taken with `next`.
    Closed,
}

/// Result of a flush.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlushStatus {
    All,
    /// Poll for writing, then flush again.
    Partial,
}

// `HelloOk` has the largest number of fds: 5 and the kept fds.
const MAX_FDS: usize = 16;
// Two frames of the maximum size. A peer that lets more accumulate does not read; the connection is dropped, and the
// next Hello brings the peer up to date.
const MAX_QUEUED_BYTES: usize = 2 * MAX_FRAME;

impl DaemonLink {
    /// Connects to the holder that listens at `path`. ECONNREFUSED or ENOENT: no listener. EAGAIN: the holder does not
    /// accept connections and its backlog is full; a blocking socket would wait as long as the holder is stopped.
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
    /// Wraps a connected, non-blocking stream socket.
    pub fn new(socket: OwnedFd) -> Self {
        MessageLink {
            socket,
            frames: WireFrameDecoder::default(),
            fds: VecDeque::new(),
            out: VecDeque::new(),
            queued_bytes: 0,
            kinds: PhantomData,
        }
    }

    /// Reads once from the socket.
    pub fn read_socket(&mut self) -> io::Result<ReadStatus> {
        let mut bytes = [0; 4096];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        // An interrupted call does not prove that the socket is empty, and a caller that gets `Empty` waits for an
        // event.
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
                "peer sent more fds than its messages announce",
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

    /// Returns the next complete message with its fds. `None`: not complete yet.
    #[expect(
        clippy::should_implement_trait,
        reason = "an iterator would end for good where this means `not yet`"
    )]
    pub fn next(&mut self) -> Result<Option<ReceivedMessage<In>>, WireFrameError> {
        let Some(frame) = self.frames.next::<In>()? else {
            return Ok(None);
        };
        let count = match &frame {
            HolderFrame::Known(message) => message.fds(),
            HolderFrame::Unknown { .. } => 0,
        };
        // The kernel delivers the fds with the first byte of their frame, so all fds have arrived before the last byte.
        if count > self.fds.len() {
            return Err(WireFrameError("fds are missing"));
        }
        Ok(Some((frame, self.fds.drain(..count).collect())))
    }

    /// Queues a message; `flush` sends it. An error means that the message exceeds the frame limit, or that the peer
    /// has stopped reading.
    pub fn push(&mut self, message: &Out, fds: Vec<OwnedFd>) -> io::Result<()> {
        debug_assert_eq!(message.fds(), fds.len());
        let mut bytes = Vec::new();
        message.encode(&mut bytes);
        if bytes.len() - 4 > MAX_FRAME {
            return Err(io::Error::from_raw_os_error(libc::EMSGSIZE));
        }
        if self.queued_bytes + bytes.len() > MAX_QUEUED_BYTES {
            return Err(io::Error::from_raw_os_error(libc::ENOBUFS));
        }
        self.queued_bytes += bytes.len();
        self.out.push_back(OutgoingFrame {
            bytes,
            sent: 0,
            fds,
        });
        Ok(())
    }

    /// Sends queued messages until the socket would block.
    pub fn flush(&mut self) -> io::Result<FlushStatus> {
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
                Err(Errno::AGAIN) => return Ok(FlushStatus::Partial),
                Err(Errno::INTR) => continue,
                Err(e) => return Err(e.into()),
            };
            // The fds were sent with the first byte.
            frame.fds.clear();
            frame.sent += sent;
            self.queued_bytes -= sent;
            if frame.sent == frame.bytes.len() {
                self.out.pop_front();
            }
        }
        Ok(FlushStatus::All)
    }

    /// Whether `flush` has messages to send.
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
