//! The two directions of a connection, each woken only by its own events.
//!
//! tokio's own stream is also woken whenever the peer has read something, which on a connection of short messages
//! happens once per message: the wake-up costs more than the message.

use std::{
    io::{self, Read, Write},
    net::Shutdown,
    os::{fd::AsFd, unix::net::UnixStream},
    pin::Pin,
    task::{Context, Poll, ready},
};

use tokio::io::{AsyncRead, Interest, ReadBuf, unix::AsyncFd};

use crate::async_fd::register_fd;

/// Splits a non-blocking stream.
pub fn split(stream: UnixStream) -> io::Result<(SocketReader, SocketWriter)> {
    let stream_out = stream.try_clone()?;
    let incoming = register_fd(stream, Interest::READABLE)?;
    let outgoing = SocketWriter {
        stream: stream_out,
        reunited: false,
    };
    Ok((SocketReader(incoming), outgoing))
}

/// Joins both directions again, to move the connection to another thread.
pub fn reunite(incoming: SocketReader, mut outgoing: SocketWriter) -> UnixStream {
    outgoing.reunited = true;
    incoming.0.into_inner()
}

pub struct SocketReader(AsyncFd<UnixStream>);

/// Shuts the write direction down when dropped.
pub struct SocketWriter {
    stream: UnixStream,
    reunited: bool,
}

impl AsyncRead for SocketReader {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            let mut ready = ready!(self.0.poll_read_ready(context))?;
            let room = into.initialize_unfilled();
            let Ok(read) = ready.try_io(|stream| stream.get_ref().read(room)) else {
                continue;
            };
            let read = match read {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                read => read?,
            };
            // The read returned all available bytes, so another read would block. More bytes, or the end, set the
            // readiness again.
            if 0 < read && read < room.len() {
                ready.clear_ready();
            }
            into.advance(read);
            return Poll::Ready(Ok(()));
        }
    }
}

impl SocketWriter {
    /// Not cancel-safe: dropping the future may leave a partial frame.
    pub async fn write_all(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.stream.write(bytes) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => bytes = &bytes[written..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let room = register_fd(self.stream.as_fd(), Interest::WRITABLE)?;
                    let _ = room.writable().await?;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl Drop for SocketWriter {
    fn drop(&mut self) {
        if !self.reunited {
            let _ = self.stream.shutdown(Shutdown::Write);
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;

    use super::*;

    fn pair() -> (UnixStream, UnixStream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        theirs.set_nonblocking(true).unwrap();
        (ours, theirs)
    }

    #[tokio::test(flavor = "current_thread")]
    async fn more_than_the_socket_holds_arrives_whole_and_then_the_end() {
        let (ours, theirs) = pair();
        let (_, mut outgoing) = split(ours).unwrap();
        let (mut incoming, _outgoing) = split(theirs).unwrap();
        let sent: Vec<u8> = (0..4_000_000_u32).map(|n| n as u8).collect();
        let read = tokio::spawn(async move {
            let mut read = Vec::new();
            incoming.read_to_end(&mut read).await.unwrap();
            read
        });
        for part in sent.chunks(1_000_001) {
            outgoing.write_all(part).await.unwrap();
        }
        drop(outgoing);
        assert!(read.await.unwrap() == sent);
    }

    #[tokio::test(flavor = "current_thread")]
    async fn a_reader_that_left_is_noticed() {
        let (ours, theirs) = pair();
        let (mut incoming, mut outgoing) = split(ours).unwrap();
        drop(theirs);
        assert!(outgoing.write_all(b"hello").await.is_err());
        assert_eq!(incoming.read(&mut [0; 8]).await.unwrap(), 0);
    }

    #[tokio::test(flavor = "current_thread")]
    async fn joined_again_it_goes_on_as_if_nothing_had_been() {
        let (ours, theirs) = pair();
        let (incoming, mut outgoing) = split(ours).unwrap();
        outgoing.write_all(b"one").await.unwrap();
        let (mut incoming, mut outgoing) = split(reunite(incoming, outgoing)).unwrap();
        outgoing.write_all(b" two").await.unwrap();
        let (mut read, mut write) = split(theirs).unwrap();
        write.write_all(b"three").await.unwrap();
        let mut three = [0; 5];
        incoming.read_exact(&mut three).await.unwrap();
        assert_eq!(&three, b"three");
        drop(outgoing);
        let mut all = Vec::new();
        read.read_to_end(&mut all).await.unwrap();
        assert_eq!(all, b"one two");
    }
}
