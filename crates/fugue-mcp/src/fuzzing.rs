//! What holds for any bytes that a client writes, as a function that panics where it does not: for a fuzz target, and for
//! the test that replays its corpus.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, Waker},
};

use fugue_api::Request;
use rmcp::{RoleServer, service::RxJsonRpcMessage};
use serde_json::Value;
use tokio::io::{AsyncRead, ReadBuf};

use crate::calls::{self, Call};

/// Any bytes on stdin: calls are what rmcp would have made of their lines, every other byte is left to rmcp as it came, and
/// nothing of this depends on how the stream was cut.
///
/// The first byte says how the stream is cut, and how much rmcp reads at once.
pub fn mcp(bytes: &[u8]) {
    let [cut, stream @ ..] = bytes else { return };
    let whole = read_all(stream, stream.len(), 4096);
    let piece = usize::from(cut >> 3) * 8 + 1;
    let cut = read_all(stream, piece, usize::from(cut & 7) + 1);
    assert_eq!(whole, cut, "what is read depends on the cutting");
}

/// What a stream says.
#[derive(Debug, PartialEq)]
enum Line {
    Call(Value),
    Other(Vec<u8>),
}

fn read_all(stream: &[u8], piece: usize, room: usize) -> Vec<Line> {
    let pieces = Pieces {
        stream,
        piece: piece.max(1),
    };
    let (mut lines, found) = calls::apart(pieces);
    let context = &mut Context::from_waker(Waker::noop());
    let mut said = Vec::new();
    let mut passed = Vec::new();
    let mut room = vec![0; room];
    loop {
        let mut into = ReadBuf::new(&mut room);
        match Pin::new(&mut lines).poll_read(context, &mut into) {
            Poll::Ready(read) => {
                read.expect("these pieces can be read");
                if into.filled().is_empty() {
                    break;
                }
                passed.extend_from_slice(into.filled());
            }
            Poll::Pending => {
                let call = found.take().expect("only a call keeps a reader waiting");
                assert!(passed.last().is_none_or(|byte| *byte == b'\n'));
                said.extend(lines_of(&passed));
                passed.clear();
                said.push(Line::Call(check_call(call)));
            }
        }
    }
    said.extend(lines_of(&passed));
    said
}

/// What rmcp was left. A call that came in pieces is among it.
fn lines_of(passed: &[u8]) -> Vec<Line> {
    let lines = passed.split_inclusive(|byte| *byte == b'\n');
    let line = |line: &[u8]| match calls::call(line).filter(|_| line.ends_with(b"\n")) {
        Some(call) => {
            let ours = check_call(call);
            let theirs: RxJsonRpcMessage<RoleServer> =
                serde_json::from_slice(line).expect("rmcp takes what we take");
            let theirs = serde_json::to_value(theirs).expect("a message is JSON");
            assert_eq!(ours, theirs, "rmcp makes something else of it");
            Line::Call(ours)
        }
        None => Line::Other(line.to_vec()),
    };
    lines.map(line).collect()
}

/// The call as rmcp would have it. Its arguments are understood or refused.
fn check_call(call: Call) -> Value {
    let args = call.params.arguments.clone().unwrap_or_default();
    if let Ok(request) = Request::parse(&call.params.name, Value::Object(args)) {
        let _ = request.check();
    }
    let message = RxJsonRpcMessage::<RoleServer>::from(call);
    serde_json::to_value(message).expect("a message is JSON")
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

#[cfg(test)]
mod tests {
    use fugue_testkit::replay;

    #[test]
    fn the_corpus_holds() {
        replay("mcp", super::mcp);
    }
}
