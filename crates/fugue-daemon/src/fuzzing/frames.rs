use std::{
    fmt::Debug,
    io,
    pin::{Pin, pin},
    task::{Context, Poll, Waker},
    time::Duration,
};

use fugue_api::{
    RawReply, ToolCall,
    wire::{ClientMessage, DaemonMessage, Hello, Request, Welcome},
};
use serde::{Serialize, de::DeserializeOwned};
use tokio::io::{AsyncRead, ReadBuf};

use fugue_client::frame::{self, FrameReader};

/// Any bytes on the daemon's socket, at either end: messages do not depend on how the stream was cut and are equal after a
/// round trip, and a tool call means the same as if a model had made it.
///
/// The first byte defines how the stream is cut. From 0x80 on, the rest is lines, each of which becomes a frame.
pub fn frames(bytes: &[u8]) {
    let [cut, rest @ ..] = bytes else { return };
    let stream = match cut {
        0..0x80 => rest.to_vec(),
        0x80.. => framed(rest),
    };
    let piece = usize::from(cut & 0x3f) + 1;
    check_stream::<Hello>(&stream, piece, |_| {});
    check_stream::<Welcome>(&stream, piece, |_| {});
    check_stream(&stream, piece, |question: ClientMessage| match question {
        ClientMessage::Call { request, .. } => check_ask(&request),
        ClientMessage::Cancel { .. } => {}
    });
    check_stream::<DaemonMessage>(&stream, piece, |_| {});
    // Replies that are passed on unparsed can be parsed.
    let (unread, _) = read_all::<DaemonMessage<RawReply>>(&stream, stream.len());
    for answer in unread {
        if let DaemonMessage::Response {
            response: Ok(answer),
            ..
        } = answer
        {
            let _ = answer.read();
        }
    }
}

fn framed(lines: &[u8]) -> Vec<u8> {
    let mut stream = Vec::new();
    for line in lines.split(|byte| *byte == b'\n') {
        stream.extend((line.len() as u32).to_le_bytes());
        stream.extend(line);
    }
    stream
}

fn check_stream<T: DeserializeOwned + Serialize + Debug>(
    stream: &[u8],
    piece: usize,
    mut check: impl FnMut(T),
) {
    let (whole, end) = read_all::<T>(stream, stream.len());
    let (cut, end_of_cut) = read_all::<T>(stream, piece);
    assert_eq!(end, end_of_cut, "the end depends on the cutting");
    assert_eq!(whole.len(), cut.len(), "frames depend on the cutting");
    for (one, other) in whole.into_iter().zip(cut) {
        let encoded = frame::encode(&one).expect("what was read can be written");
        let (mut again, _) = read_all::<T>(&encoded, encoded.len());
        let again = again.pop().expect("what was written can be read");
        let shown = format!("{one:?}");
        assert_eq!(
            shown,
            format!("{other:?}"),
            "a frame depends on the cutting"
        );
        assert_eq!(shown, format!("{again:?}"), "a frame changed by its bytes");
        check(one);
    }
}

fn check_ask(ask: &Request) {
    let _ = ask.again(Duration::from_secs(1));
    let Request::Tool { call } = ask else { return };
    let mut wire = serde_json::to_value(call).expect("a request is JSON");
    let from_model = ToolCall::parse(call.name(), wire["args"].take());
    assert_eq!(from_model.as_ref(), Ok(call), "the two doors differ");
    let _ = call.check();
}

/// All frames up to the first error, and the kind of the error.
fn read_all<T: DeserializeOwned>(stream: &[u8], piece: usize) -> (Vec<T>, Option<io::ErrorKind>) {
    let mut frames = FrameReader::new(Pieces { stream, piece }, 1 << 20);
    let mut found = Vec::new();
    loop {
        match at_once(frames.next()) {
            Ok(Some(frame)) => found.push(frame),
            Ok(None) => return (found, None),
            Err(error) => return (found, Some(error.kind())),
        }
    }
}

/// The output of a future that is ready at once.
fn at_once<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(outcome) => outcome,
        Poll::Pending => panic!("it waits for something"),
    }
}

/// A stream that comes in pieces.
struct Pieces<'a> {
    stream: &'a [u8],
    piece: usize,
}

impl AsyncRead for Pieces<'_> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let length = self.piece.min(self.stream.len()).min(into.remaining());
        let (now, later) = self.stream.split_at(length);
        into.put_slice(now);
        self.stream = later;
        Poll::Ready(Ok(()))
    }
}
