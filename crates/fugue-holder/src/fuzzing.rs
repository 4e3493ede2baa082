//! What holds for any bytes, as functions that panic where it does not: for fuzz targets, and for the tests that replay
//! their corpora.

use std::fmt::Debug;

use crate::record::{ChildRecord, ExitRecord, SizeAt};
use crate::wire::{Bad, Frames, HolderFrame, ProcessIdentity, ToDaemon, ToHolder, WireMessage};

/// Any bytes on a holder's socket, in both directions: what is decoded does not depend on how the stream was cut, is no
/// larger than the stream, and survives its own bytes.
///
/// The first byte says how the stream is cut. From 0x80 on, the rest is frames with a length of one byte, so that changed
/// bytes seldom make a length wrong.
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
    // An `Admitted` of the first holders is a byte shorter than one of ours.
    assert!(encoded.len() <= stream.len() + whole.len());
}

fn decoded<'a, M: WireMessage>(
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> (Vec<HolderFrame<M>>, Option<Bad>) {
    let mut frames = Frames::default();
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

/// Any bytes as the files that a holder leaves in a pane's directory: what is read is what it says when it is written
/// again, and lines that are added later count.
pub fn pane_files(bytes: &[u8]) {
    let sizes: Vec<SizeAt> = SizeAt::decode_all(bytes).collect();
    let encoded: Vec<u8> = sizes.iter().flat_map(|size| size.encode()).collect();
    assert!(bytes.starts_with(&encoded) && bytes.len() - encoded.len() < SizeAt::LEN);

    let Ok(text) = str::from_utf8(bytes) else {
        return;
    };
    if let Some(exit) = ExitRecord::parse(text) {
        let written = exit.text();
        assert_eq!(ExitRecord::parse(&written), Some(exit));
        assert!(written.len() <= ExitRecord::RESERVED);
        // The room that was reserved for it and is left.
        assert_eq!(ExitRecord::parse(&(written + "\n\n\n")), Some(exit));
    }
    if let Some(meta) = ChildRecord::parse(text) {
        assert_eq!(ChildRecord::parse(&meta.text()).as_ref(), Some(&meta));
        let child = Some(ProcessIdentity {
            pid: 7,
            start_time: 8,
        });
        let started = ChildRecord {
            holder: 9,
            child,
            ..meta.clone()
        };
        let added = meta.text() + "holder=9\npid=7\nstart_time=8\n";
        assert_eq!(ChildRecord::parse(&added), Some(started));
    }
}

#[cfg(test)]
mod tests {
    use fugue_testkit::replay;

    #[test]
    fn the_corpora_hold() {
        replay("holder", super::holder);
        replay("pane_files", super::pane_files);
    }
}
