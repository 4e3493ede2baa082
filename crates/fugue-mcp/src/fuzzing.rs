//! Properties of the stdio transport for any bytes that a client writes: for a fuzz target, and for the test that replays its
//! corpus. A broken property is a panic.

use std::{
    io,
    pin::{Pin, pin},
    task::{Context, Poll, Waker},
};

use fugue_api::ToolCall;
use rmcp::{
    RoleServer,
    model::ClientRequest,
    service::RxJsonRpcMessage,
    transport::{Transport, async_rw::AsyncRwTransport},
};
use serde_json::Value;
use tokio::io::{AsyncRead, ReadBuf};

use crate::stdio::transport::StdioTransport;

/// Any bytes on stdin give the same messages however the stream is cut into reads, and the arguments of every tool call are
/// parsed or refused.
///
/// The first byte of the input chooses the size of a read.
pub fn mcp(bytes: &[u8]) {
    let [piece, stream @ ..] = bytes else { return };
    let whole = received(stream, stream.len().max(1));
    let cut = received(stream, usize::from(*piece) + 1);
    assert_eq!(whole, cut, "the messages depend on the size of reads");
}

fn received(stream: &[u8], piece: usize) -> Vec<Value> {
    let pieces = Pieces {
        stream: stream.to_vec().into(),
        piece,
    };
    let mut transport =
        StdioTransport::new(AsyncRwTransport::new_server(pieces, tokio::io::sink()));
    let context = &mut Context::from_waker(Waker::noop());
    let mut messages = Vec::new();
    loop {
        let message = match pin!(transport.receive()).poll(context) {
            Poll::Ready(Some(message)) => message,
            Poll::Ready(None) => return messages,
            Poll::Pending => panic!("the transport waits although its input is ready"),
        };
        parse_arguments(&message);
        messages.push(serde_json::to_value(&message).expect("a message is JSON"));
    }
}

fn parse_arguments(message: &RxJsonRpcMessage<RoleServer>) {
    if let RxJsonRpcMessage::<RoleServer>::Request(request) = message
        && let ClientRequest::CallToolRequest(call) = &request.request
    {
        let args = call.params.arguments.clone().unwrap_or_default();
        if let Ok(request) = ToolCall::parse(&call.params.name, Value::Object(args)) {
            let _ = request.check();
        }
    }
}

/// A stream that is read in pieces of one size.
struct Pieces {
    stream: std::collections::VecDeque<u8>,
    piece: usize,
}

impl AsyncRead for Pieces {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let length = self.piece.min(self.stream.len()).min(into.remaining());
        let read: Vec<u8> = self.stream.drain(..length).collect();
        into.put_slice(&read);
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use fugue_testkit::replay_corpus;

    #[test]
    fn the_corpus_holds() {
        replay_corpus("mcp", super::mcp);
    }
}
