//! Tool calls are read here, before rmcp sees them; every other line is passed on to it as it came.
//!
//! rmcp finds out what a message is by trying all that it could be, one after the other, which for a call took as long as
//! all that we do with it.

use std::{
    io,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, ready},
};

use rmcp::{
    RoleServer,
    model::{
        CallToolRequest, CallToolRequestMethod, CallToolRequestParams, ClientRequest,
        JsonRpcVersion2_0, RequestId,
    },
    service::RxJsonRpcMessage,
};
use serde::Deserialize;
use tokio::io::{AsyncRead, ReadBuf};

// A call that is longer than this, or does not come in one piece, is left to rmcp.
const ROOM: usize = 8 * 1024;

/// What rmcp reads from: a client's lines without its calls.
pub struct Lines<R> {
    from: R,
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
    /// The line at `start` began earlier, and rmcp has its beginning.
    within: bool,
    found: Found,
}

/// The call that was found while reading the rest. While it is not taken, nothing that came behind it is read.
///
/// Not a channel, because nobody is to wait here: a call can only be there when a read had nothing to give.
#[derive(Clone, Default)]
pub struct Found(Arc<Mutex<Option<Call>>>);

impl Found {
    pub fn take(&self) -> Option<Call> {
        self.lock().take()
    }

    fn lock(&self) -> MutexGuard<'_, Option<Call>> {
        // Nothing panics while holding it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub fn apart<R>(from: R) -> (Lines<R>, Found) {
    let found = Found::default();
    let lines = Lines {
        from,
        buffer: vec![0; ROOM].into(),
        start: 0,
        end: 0,
        within: false,
        found: found.clone(),
    };
    (lines, found)
}

impl<R: AsyncRead + Unpin> AsyncRead for Lines<R> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.found.lock().is_some() {
            // Whoever takes the call reads on afterwards.
            return Poll::Pending;
        }
        if this.start == this.end {
            let mut room = ReadBuf::new(&mut this.buffer);
            ready!(Pin::new(&mut this.from).poll_read(context, &mut room))?;
            (this.start, this.end) = (0, room.filled().len());
        }
        let unread = &this.buffer[this.start..this.end];
        let newline = unread.iter().position(|byte| *byte == b'\n');
        let line = &unread[..newline.map_or(unread.len(), |at| at + 1)];
        if !this.within
            && newline.is_some()
            && let Some(call) = call(line)
        {
            this.start += line.len();
            *this.found.lock() = Some(call);
            return Poll::Pending;
        }
        let given = &line[..line.len().min(into.remaining())];
        into.put_slice(given);
        this.start += given.len();
        this.within = given.last().map_or(this.within, |byte| *byte != b'\n');
        Poll::Ready(Ok(()))
    }
}

/// A call as it came.
pub struct Call {
    pub id: RequestId,
    pub params: CallToolRequestParams,
}

impl From<Call> for RxJsonRpcMessage<RoleServer> {
    fn from(Call { id, mut params }: Call) -> Self {
        let meta = params.meta.take();
        let mut request = CallToolRequest::new(params);
        if let Some(meta) = meta {
            request.extensions.insert(meta);
        }
        Self::request(ClientRequest::CallToolRequest(request), id)
    }
}

/// The line as a call, if that is what it is.
pub(crate) fn call(line: &[u8]) -> Option<Call> {
    #[derive(Deserialize)]
    struct Line {
        #[serde(rename = "jsonrpc")]
        _jsonrpc: JsonRpcVersion2_0,
        id: RequestId,
        #[serde(rename = "method")]
        _method: CallToolRequestMethod,
        params: CallToolRequestParams,
    }
    // Looking once whether it is text is cheaper than once for every word of it.
    let Line { id, params, .. } = serde_json::from_str(str::from_utf8(line).ok()?).ok()?;
    Some(Call { id, params })
}

#[cfg(test)]
mod tests {
    use rmcp::model::GetMeta;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    const PLAIN: &str = r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"a","arguments":{"b":[1.5,null]}}}"#;
    const TOKEN: &str = r#" {"method":"tools/call","params":{"_meta":{"progressToken":"t"},"name":"a"},"id":"x","jsonrpc":"2.0"}"#;

    #[test]
    fn a_call_is_what_rmcp_would_have_made_of_it() {
        let no_meta =
            r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"a","_meta":null}}"#;
        let more =
            r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"a","x":1},"y":2}"#;
        for line in [PLAIN, TOKEN, no_meta, more] {
            let ours = call(line.as_bytes()).expect("a call");
            let ours = RxJsonRpcMessage::<RoleServer>::from(ours);
            let theirs: RxJsonRpcMessage<RoleServer> = serde_json::from_str(line).unwrap();
            let json = |message| serde_json::to_value(message).unwrap();
            assert_eq!(json(&ours), json(&theirs), "{line}");
            let token = |message| match message {
                RxJsonRpcMessage::<RoleServer>::Request(request) => {
                    request.request.get_meta().get_progress_token()
                }
                _ => None,
            };
            assert_eq!(token(ours), token(theirs), "{line}");
        }
    }

    #[test]
    fn everything_else_is_left_to_rmcp() {
        for line in [
            "",
            "null",
            "[]",
            "nonsense",
            r#"{"jsonrpc":"2.0","id":7,"method":"tools/list","params":{"name":"a"}}"#,
            r#"{"jsonrpc":"2.0","method":"tools/call","params":{"name":"a"}}"#,
            r#"{"jsonrpc":"2.0","id":null,"method":"tools/call","params":{"name":"a"}}"#,
            r#"{"jsonrpc":"1.0","id":7,"method":"tools/call","params":{"name":"a"}}"#,
            r#"{"jsonrpc":"2.0","id":7,"method":"tools/call"}"#,
            r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":7}}"#,
        ] {
            assert!(call(line.as_bytes()).is_none(), "{line}");
        }
    }

    /// What is read of a stream that comes in these pieces, calls marked, in its order.
    async fn check(pieces: &[&str], wanted: &[&str]) {
        let (mut client, from) = tokio::io::duplex(1 << 20);
        let (mut lines, found) = apart(from);
        let mut read = Vec::new();
        let mut rest = String::new();
        for piece in pieces.iter().map(Some).chain([None]) {
            match piece {
                Some(piece) => client.write_all(piece.as_bytes()).await.unwrap(),
                None => client.shutdown().await.unwrap(),
            }
            loop {
                let mut some = [0; 100];
                tokio::select! {
                    biased;
                    given = lines.read(&mut some) => match given.unwrap() {
                        0 => break,
                        given => rest += str::from_utf8(&some[..given]).unwrap(),
                    },
                    () = std::future::ready(()) => {
                        if found.take().is_none() {
                            break;
                        }
                        read.extend(rest.split_inclusive('\n').map(str::to_owned));
                        rest.clear();
                        read.push("call".to_owned());
                    }
                }
            }
        }
        read.extend(rest.split_inclusive('\n').map(str::to_owned));
        assert_eq!(read, wanted);
    }

    #[tokio::test(flavor = "current_thread")]
    async fn calls_are_taken_out_and_the_order_stays() {
        let call = format!("{PLAIN}\n");
        let long = format!("{}\n", "x".repeat(20_000));
        check(&[&call], &["call"]).await;
        check(&["a\n", &call, "b\n"], &["a\n", "call", "b\n"]).await;
        let together = format!("a\n{call}{call}{TOKEN}\r\nb\n");
        check(&[&together], &["a\n", "call", "call", "call", "b\n"]).await;
        check(&[&long, &call], &[&long, "call"]).await;
        // Its beginning is rmcp's, and so is its end.
        check(&[PLAIN, "\n", &call], &[&call, "call"]).await;
        check(&["a", &call], &[&format!("a{call}")]).await;
        // Without a line's end it is none.
        check(&[PLAIN], &[PLAIN]).await;
    }
}
