//! Frames on the daemon's socket: four bytes of length, then JSON.

use std::io;

use fugue_api::wire::LARGEST_FRAME;
use serde::{Serialize, de::DeserializeOwned};
use tokio::io::{AsyncRead, AsyncReadExt};

// Most frames are smaller, and need not be grown piece by piece.
const USUAL: usize = 1024;

/// One whole frame, or `None` where the other side has closed between two frames.
pub async fn read<T: DeserializeOwned>(
    from: &mut (impl AsyncRead + Unpin),
    most: usize,
) -> io::Result<Option<T>> {
    let mut length = [0; 4];
    match from.read_exact(&mut length).await {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error),
    }
    let length = u32::from_le_bytes(length) as usize;
    if length > most {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("a frame of {length} bytes, at most {most} are taken"),
        ));
    }
    // Beyond that, grown as bytes arrive: a length alone must not make us allocate.
    let mut body = Vec::with_capacity(length.min(USUAL));
    from.take(length as u64).read_to_end(&mut body).await?;
    if body.len() < length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    serde_json::from_slice(&body)
        .map(Some)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// A frame as bytes, ready to be written in one go.
pub fn encode(frame: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(USUAL);
    bytes.extend([0; 4]);
    serde_json::to_writer(&mut bytes, frame)?;
    let length = bytes.len() - 4;
    if length > LARGEST_FRAME {
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
    use super::*;

    async fn check(bytes: &[u8]) -> io::Result<Vec<Option<u32>>> {
        let mut from = bytes;
        let mut frames = Vec::new();
        loop {
            let frame = read::<u32>(&mut from, 100).await?;
            let end = frame.is_none();
            frames.push(frame);
            if end {
                return Ok(frames);
            }
        }
    }

    #[tokio::test(flavor = "current_thread")]
    async fn frames_come_back_and_anything_else_is_an_error() {
        let two = [encode(&7u32).unwrap(), encode(&8u32).unwrap()].concat();
        assert_eq!(check(&two).await.unwrap(), [Some(7), Some(8), None]);
        assert_eq!(check(b"").await.unwrap(), [None]);
        assert!(check(b"\xff\xff\xff\xff").await.is_err());
        assert!(check(b"\x05\0\0\0ab").await.is_err());
        assert!(check(b"\x02\0\0\0{]").await.is_err());
    }
}
