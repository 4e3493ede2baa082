//! Cuts a byte stream into frames, whatever the cuts and whatever the bytes.

use super::Bad;

/// A frame's kind and fields at most. A `Start` carries a whole environment, which the kernel bounds at 2 MiB with
/// argv; more than this is a mistake or an attack.
pub const MAX_FRAME: usize = 1 << 20;

/// What can be sent in a frame.
pub trait WireMessage: Sized {
    /// Appends the whole frame.
    fn encode(&self, out: &mut Vec<u8>);
    /// From a frame's kind and fields.
    fn decode(kind: u8, fields: &[u8]) -> Result<HolderFrame<Self>, Bad>;
    /// How many fds come with it.
    fn fds(&self) -> usize;
}

/// A frame that was understood, or one of a kind that a newer peer knows.
#[derive(Debug, PartialEq, Eq)]
pub enum HolderFrame<M> {
    Known(M),
    Unknown { kind: u8 },
}

/// The incremental decoder.
#[derive(Default)]
pub struct Frames {
    bytes: Vec<u8>,
    from: usize,
}

impl Frames {
    pub fn feed(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The next whole frame, if it is there. After an error the stream cannot be trusted any more.
    #[expect(
        clippy::should_implement_trait,
        reason = "an iterator would end for good where this means `not yet`"
    )]
    pub fn next<M: WireMessage>(&mut self) -> Result<Option<HolderFrame<M>>, Bad> {
        let rest = &self.bytes[self.from..];
        let Some((head, rest)) = rest.split_at_checked(4) else {
            self.compact();
            return Ok(None);
        };
        let length = u32::from_le_bytes([head[0], head[1], head[2], head[3]]) as usize;
        if length == 0 || length > MAX_FRAME {
            return Err(Bad("a frame's length"));
        }
        let Some(frame) = rest.get(..length) else {
            self.compact();
            return Ok(None);
        };
        let decoded = M::decode(frame[0], &frame[1..]);
        self.from += 4 + length;
        decoded.map(Some)
    }

    /// Gives the memory of a large frame back: a holder lives long and should stay small.
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
