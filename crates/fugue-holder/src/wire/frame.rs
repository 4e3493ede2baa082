//! Splits a byte stream into frames, independent of read boundaries, for any bytes.

use super::WireFrameError;

/// Maximum size of a frame's kind and fields. A `Start` contains a whole environment, which the kernel limits to 2 MiB
/// together with argv; a larger frame is a mistake or an attack.
pub const MAX_FRAME: usize = 1 << 20;

/// A message of the protocol.
pub trait WireMessage: Sized {
    /// Appends the whole frame.
    fn encode(&self, out: &mut Vec<u8>);
    /// Decodes a frame's kind and fields.
    fn decode(kind: u8, fields: &[u8]) -> Result<HolderFrame<Self>, WireFrameError>;
    /// Number of fds that are sent with the message.
    fn fds(&self) -> usize;
}

/// A decoded message, or a frame of a kind that only a newer peer defines.
#[derive(Debug, PartialEq, Eq)]
pub enum HolderFrame<M> {
    Known(M),
    Unknown { kind: u8 },
}

/// The incremental frame decoder.
#[derive(Default)]
pub struct WireFrameDecoder {
    bytes: Vec<u8>,
    from: usize,
}

impl WireFrameDecoder {
    pub fn feed(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Returns the next complete frame, if it has arrived. After an error the stream must not be trusted any further.
    #[expect(
        clippy::should_implement_trait,
        reason = "an iterator would end for good where this means `not yet`"
    )]
    pub fn next<M: WireMessage>(&mut self) -> Result<Option<HolderFrame<M>>, WireFrameError> {
        let rest = &self.bytes[self.from..];
        let Some((head, rest)) = rest.split_at_checked(4) else {
            self.compact();
            return Ok(None);
        };
        let length = u32::from_le_bytes([head[0], head[1], head[2], head[3]]) as usize;
        if length == 0 || length > MAX_FRAME {
            return Err(WireFrameError("length is out of range"));
        }
        let Some(frame) = rest.get(..length) else {
            self.compact();
            return Ok(None);
        };
        let decoded = M::decode(frame[0], &frame[1..]);
        self.from += 4 + length;
        decoded.map(Some)
    }

    /// Frees the memory of a large frame: a holder runs for a long time and must stay small.
    fn compact(&mut self) {
        if self.from == self.bytes.len() {
            self.bytes.clear();
            self.bytes.shrink_to(4096);
        } else {
            self.bytes.drain(..self.from);
        }
        self.from = 0;
    }
}
