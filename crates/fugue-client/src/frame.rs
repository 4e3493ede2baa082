//! Frames on the daemon's socket: four bytes of length, then JSON.

use std::{io, ops::Range};

use fugue_api::wire::MAX_FRAME_BYTES;
use serde::{Serialize, de::DeserializeOwned};
use tokio::io::{AsyncRead, AsyncReadExt};

// Most frames are smaller, and need not be grown piece by piece.
const USUAL: usize = 1024;
// What one look at the socket takes at most, while frames are small.
const ROOM: usize = 8 * 1024;
// A buffer that one large frame made larger than this is given back.
const ROOM_KEPT: usize = 1024 * 1024;

/// The frames that come from the other side.
pub struct FrameReader<R> {
    from: R,
    /// The largest that is taken.
    most: usize,
    /// Bytes beyond `unread` are room.
    buffer: Vec<u8>,
    unread: Range<usize>,
}

impl<R: AsyncRead + Unpin> FrameReader<R> {
    pub fn new(from: R, most: usize) -> Self {
        Self {
            from,
            most,
            buffer: vec![0; ROOM],
            unread: 0..0,
        }
    }

    /// Where they come from, if nothing was read beyond the last frame.
    pub fn into_inner(self) -> Option<R> {
        self.unread.is_empty().then_some(self.from)
    }

    /// One whole frame, or `None` where the other side has closed between two frames. Dropped before it is through,
    /// it has lost nothing.
    pub async fn next<T: DeserializeOwned>(&mut self) -> io::Result<Option<T>> {
        loop {
            if let Some(body) = self.whole()? {
                self.unread.start = body.end;
                return serde_json::from_slice(&self.buffer[body])
                    .map(Some)
                    .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error));
            }
            self.make_room();
            let read = self.from.read(&mut self.buffer[self.unread.end..]).await?;
            if read == 0 && self.unread.is_empty() {
                return Ok(None);
            }
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.unread.end += read;
        }
    }

    /// Where the next frame is, if all of it has come.
    fn whole(&self) -> io::Result<Option<Range<usize>>> {
        let Some((length, rest)) = self.buffer[self.unread.clone()].split_first_chunk() else {
            return Ok(None);
        };
        let length = u32::from_le_bytes(*length) as usize;
        if length > self.most {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("a frame of {length} bytes, at most {} are taken", self.most),
            ));
        }
        let start = self.unread.start + 4;
        Ok((rest.len() >= length).then(|| start..start + length))
    }

    fn make_room(&mut self) {
        if self.unread.is_empty() {
            self.unread = 0..0;
            if self.buffer.len() > ROOM_KEPT {
                self.buffer = vec![0; ROOM];
            }
        } else if self.unread.end == self.buffer.len() {
            self.buffer.copy_within(self.unread.clone(), 0);
            self.unread = 0..self.unread.len();
            // Grown as bytes arrive: a length alone must not make us allocate.
            if self.buffer.len() < 2 * self.unread.end {
                self.buffer.resize(2 * self.buffer.len(), 0);
            }
        }
    }
}

/// A frame as bytes, ready to be written in one go.
pub fn encode(frame: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(USUAL);
    bytes.extend([0; 4]);
    serde_json::to_writer(&mut bytes, frame)?;
    let length = bytes.len() - 4;
    if length > MAX_FRAME_BYTES {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("a frame of {length} bytes is too large"),
        ));
    }
    bytes[..4].copy_from_slice(&(length as u32).to_le_bytes());
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;

    use super::*;

    /// All frames of a stream that comes in pieces of this size.
    async fn check<T: DeserializeOwned>(bytes: &[u8], pieces: usize) -> io::Result<Vec<T>> {
        let (mut ours, theirs) = tokio::io::duplex(pieces);
        let bytes = bytes.to_owned();
        let writing = tokio::spawn(async move {
            let _ = ours.write_all(&bytes).await;
        });
        let mut from = FrameReader::new(theirs, 1_000_000);
        let mut frames = Vec::new();
        while let Some(frame) = from.next().await? {
            frames.push(frame);
        }
        writing.await.unwrap();
        Ok(frames)
    }

    #[tokio::test(flavor = "current_thread")]
    async fn frames_come_back_however_they_are_cut() {
        let sizes = [0, 3, 9, 5_000, 8_183, 8_186, 8_187, 700_000, 1, 20_000, 2];
        let texts: Vec<String> = sizes.map(|size| "x".repeat(size)).into();
        let bytes: Vec<u8> = texts
            .iter()
            .flat_map(|text| encode(text).unwrap())
            .collect();
        for pieces in [1, 7, 8_191, 8_192, 8_193, bytes.len()] {
            assert!(check::<String>(&bytes, pieces).await.unwrap() == texts);
        }
    }

    #[tokio::test(flavor = "current_thread")]
    async fn anything_else_is_an_error() {
        assert_eq!(check::<u32>(b"", 9).await.unwrap(), [0; 0]);
        for wrong in [
            &b"\xff\xff\xff\xff"[..],
            b"\x05\0\0\0ab",
            b"\x05\0",
            b"\x02\0\0\0{]",
        ] {
            assert!(check::<u32>(wrong, 9).await.is_err(), "{wrong:?}");
        }
    }

    #[tokio::test(flavor = "current_thread")]
    async fn a_read_that_is_dropped_loses_nothing() {
        let (mut ours, theirs) = tokio::io::duplex(100);
        let mut from = FrameReader::new(theirs, 100);
        for byte in encode(&7u32).unwrap() {
            let waiting = from.next::<u32>();
            tokio::select! {
                biased;
                _ = waiting => panic!("a frame that is not whole yet"),
                () = std::future::ready(()) => {}
            }
            ours.write_all(&[byte]).await.unwrap();
        }
        assert_eq!(from.next().await.unwrap(), Some(7u32));
    }
}
