//! Properties that hold for any bytes, as functions that panic on a violation. Used by the fuzz targets and by the
//! tests that replay their corpora.

use std::fmt::Debug;

use crate::record::{ChildRecord, ExitRecord, SizeRecord};
use crate::wire::{
    HolderFrame, ProcessIdentity, ToDaemon, ToHolder, WireFrameDecoder, WireFrameError, WireMessage,
};

/// Decodes any bytes as the stream of a holder's socket, in both directions. The decoded frames must not depend on how
/// the stream was split into reads, must not be larger than the stream, and must decode to themselves after encoding.
///
/// The first byte selects how the stream is split. From 0x80 on, the rest consists of frames with a one-byte length, so
/// that mutated bytes seldom make a length invalid.
pub fn holder(bytes: &[u8]) {
    let [cut, rest @ ..] = bytes else { return };
    let stream = match cut {
        0..0x80 => rest.to_vec(),
        0x80.. => with_long_lengths(rest),
    };
    let piece = usize::from(cut & 0x1f) + 1;
    check_stream::<ToHolder>(&stream, piece);
    check_stream::<ToDaemon>(&stream, piece);
}

fn with_long_lengths(mut rest: &[u8]) -> Vec<u8> {
    let mut stream = Vec::new();
    while let [length, after @ ..] = rest {
        let (frame, after) = after.split_at(after.len().min(usize::from(*length)));
        stream.extend((frame.len() as u32).to_le_bytes());
        stream.extend(frame);
        rest = after;
    }
    stream
}

fn check_stream<M: WireMessage + PartialEq + Debug>(stream: &[u8], piece: usize) {
    let (whole, error) = decoded::<M>([stream]);
    let (cut, error_of_cut) = decoded::<M>(stream.chunks(piece));
    assert_eq!(cut, whole, "frames depend on the cutting");
    assert_eq!(error_of_cut, error, "the error depends on the cutting");
    let mut encoded = Vec::new();
    for frame in &whole {
        let HolderFrame::Known(message) = frame else {
            continue;
        };
        let start = encoded.len();
        message.encode(&mut encoded);
        let [_, _, _, _, kind, fields @ ..] = &encoded[start..] else {
            panic!("a frame without a kind");
        };
        let again = M::decode(*kind, fields).expect("what was encoded decodes");
        assert_eq!(again, *frame, "a message changed by its bytes");
    }
    assert!(encoded.len() <= stream.len());
}

fn decoded<'a, M: WireMessage>(
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> (Vec<HolderFrame<M>>, Option<WireFrameError>) {
    let mut frames = WireFrameDecoder::default();
    let mut found = Vec::new();
    for piece in pieces {
        frames.feed(piece);
        loop {
            match frames.next() {
                Ok(Some(frame)) => found.push(frame),
                Ok(None) => break,
                Err(bad) => return (found, Some(bad)),
            }
        }
    }
    (found, None)
}

/// Parses any bytes as the files that a holder leaves in a pane's directory. A parsed record must survive encoding, and
/// lines appended later must take precedence.
pub fn pane_files(bytes: &[u8]) {
    let sizes: Vec<SizeRecord> = SizeRecord::decode_all(bytes).collect();
    let encoded: Vec<u8> = sizes.iter().flat_map(|size| size.encode()).collect();
    assert!(bytes.starts_with(&encoded) && bytes.len() - encoded.len() < SizeRecord::LEN);

    let Ok(text) = str::from_utf8(bytes) else {
        return;
    };
    if let Some(exit) = ExitRecord::parse(text) {
        let written = exit.to_text();
        assert_eq!(ExitRecord::parse(&written), Some(exit));
        assert!(written.len() <= ExitRecord::RESERVED);
        // The unused rest of the reserved bytes.
        assert_eq!(ExitRecord::parse(&(written + "\n\n\n")), Some(exit));
    }
    if let Some(meta) = ChildRecord::parse(text) {
        assert_eq!(ChildRecord::parse(&meta.to_text()).as_ref(), Some(&meta));
        let child = Some(ProcessIdentity {
            pid: 7,
            start_time: 8,
        });
        let started = ChildRecord {
            holder: 9,
            child,
            ..meta.clone()
        };
        let added = meta.to_text() + "holder=9\npid=7\nstart_time=8\n";
        assert_eq!(ChildRecord::parse(&added), Some(started));
    }
}

#[cfg(test)]
mod tests {
    use fugue_testkit::replay_corpus;

    #[test]
    fn the_corpora_hold() {
        replay_corpus("holder", super::holder);
        replay_corpus("pane_files", super::pane_files);
    }
}
