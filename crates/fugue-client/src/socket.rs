//! A connection's two directions, each woken only by what it waits for.
//!
//! tokio's own stream is also woken whenever the other side has read something, which on a connection of short
//! messages is once for each of them: the waking costs more than the message.

use std::{
    io::{self, Read, Write},
    net::Shutdown,
    os::{fd::AsFd, unix::net::UnixStream},
    pin::Pin,
    task::{Context, Poll, ready},
};

use tokio::io::{AsyncRead, Interest, ReadBuf, unix::AsyncFd};

use crate::watched::watched;

/// Of a stream that does not block.
pub fn split(stream: UnixStream) -> io::Result<(Incoming, Outgoing)> {
    let stream_out = stream.try_clone()?;
    let incoming = watched(stream, Interest::READABLE)?;
    let outgoing = Outgoing {
        stream: stream_out,
        goes_on: false,
    };
    Ok((Incoming(incoming), outgoing))
}

/// Both together again, for another thread to go on with.
pub fn join(incoming: Incoming, mut outgoing: Outgoing) -> UnixStream {
    outgoing.goes_on = true;
    incoming.0.into_inner()
}

pub struct Incoming(AsyncFd<UnixStream>);

/// Dropped, it tells the other side that nothing more will come.
pub struct Outgoing {
    stream: UnixStream,
    goes_on: bool,
}

impl AsyncRead for Incoming {
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
            // There was no more, so the next look would be in vain. More, or the end, makes it ready again.
            if 0 < read && read < room.len() {
                ready.clear_ready();
            }
            into.advance(read);
            return Poll::Ready(Ok(()));
        }
    }
}

impl Outgoing {
    /// Dropped before it is through, it leaves a torn frame behind.
    pub async fn write_all(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.stream.write(bytes) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => bytes = &bytes[written..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let room = watched(self.stream.as_fd(), Interest::WRITABLE)?;
                    let _ = room.writable().await?;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl Drop for Outgoing {
    fn drop(&mut self) {
        if !self.goes_on {
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
        let (mut incoming, mut outgoing) = split(join(incoming, outgoing)).unwrap();
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
