//! Frames on the daemon's socket: four bytes of length, then JSON.

use std::{io, ops::Range};

use fugue_api::wire::MAX_FRAME_BYTES;
use serde::{Serialize, de::DeserializeOwned};
use tokio::io::{AsyncRead, AsyncReadExt};

// Most frames are smaller, so that the buffer need not be reallocated.
const INITIAL_CAPACITY: usize = 1024;
// Size of the read buffer while frames are small.
const READ_BUFFER_SIZE: usize = 8 * 1024;
// A buffer that a large frame made larger than this is released.
const MAX_IDLE_BUFFER_SIZE: usize = 1024 * 1024;

/// Reads frames from a stream.
pub struct FrameReader<R> {
    source: R,
    /// Larger frames are an error.
    max_frame_bytes: usize,
    /// Bytes beyond `unread` are free space.
    buffer: Vec<u8>,
    unread: Range<usize>,
}

impl<R: AsyncRead + Unpin> FrameReader<R> {
    pub fn new(source: R, most: usize) -> Self {
        Self {
            source,
            max_frame_bytes: most,
            buffer: vec![0; READ_BUFFER_SIZE],
            unread: 0..0,
        }
    }

    /// Returns the stream, if nothing was read beyond the last frame.
    pub fn into_inner(self) -> Option<R> {
        self.unread.is_empty().then_some(self.source)
    }

    /// Reads a complete frame, or `None` if the peer has closed the stream between two frames. Cancel-safe: dropping
    /// the future loses no bytes.
    pub async fn next<T: DeserializeOwned>(&mut self) -> io::Result<Option<T>> {
        loop {
            if let Some(body) = self.find_frame()? {
                self.unread.start = body.end;
                return serde_json::from_slice(&self.buffer[body])
                    .map(Some)
                    .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error));
            }
            self.make_room();
            let read = self
                .source
                .read(&mut self.buffer[self.unread.end..])
                .await?;
            if read == 0 && self.unread.is_empty() {
                return Ok(None);
            }
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.unread.end += read;
        }
    }

    /// Returns the range of the next frame's body, if all bytes have arrived.
    fn find_frame(&self) -> io::Result<Option<Range<usize>>> {
        let Some((length, rest)) = self.buffer[self.unread.clone()].split_first_chunk() else {
            return Ok(None);
        };
        let length = u32::from_le_bytes(*length) as usize;
        if length > self.max_frame_bytes {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!(
                    "frame of {length} bytes exceeds the limit of {}",
                    self.max_frame_bytes
                ),
            ));
        }
        let start = self.unread.start + 4;
        Ok((rest.len() >= length).then(|| start..start + length))
    }

    fn make_room(&mut self) {
        if self.unread.is_empty() {
            self.unread = 0..0;
            if self.buffer.len() > MAX_IDLE_BUFFER_SIZE {
                self.buffer = vec![0; READ_BUFFER_SIZE];
            }
        } else if self.unread.end == self.buffer.len() {
            self.buffer.copy_within(self.unread.clone(), 0);
            self.unread = 0..self.unread.len();
            // Grows as bytes arrive: a length field alone must not cause an allocation.
            if self.buffer.len() < 2 * self.unread.end {
                self.buffer.resize(2 * self.buffer.len(), 0);
            }
        }
    }
}

/// Encodes a frame, ready to be written with a single call.
pub fn encode(frame: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(INITIAL_CAPACITY);
    bytes.extend([0; 4]);
    serde_json::to_writer(&mut bytes, frame)?;
    let length = bytes.len() - 4;
    if length > MAX_FRAME_BYTES {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("frame of {length} bytes exceeds the limit of {MAX_FRAME_BYTES}"),
        ));
    }
    bytes[..4].copy_from_slice(&(length as u32).to_le_bytes());
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;

    use super::*;

    /// Reads all frames of a stream that arrives in pieces of this size.
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
