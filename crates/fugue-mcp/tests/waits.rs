//! Who no longer wants an answer is no longer waited for: the call that was passed on is dropped, which is how the
//! daemon learns of it.

use std::{net::SocketAddr, time::Duration};

use fugue_api::{Delivery, Error, Handle, QuestionId, RawReply, ToolCall, overview::QuestionRow};
use fugue_mcp::{
    McpServer, TransportKind,
    http::{HttpListener, HttpSettings},
};
use rmcp::ServiceExt;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, DuplexStream},
    net::TcpStream,
    sync::watch,
    time::timeout,
};

const LIMIT: Duration = Duration::from_secs(20);

/// Never answers, and knows how many wait.
#[derive(Clone)]
struct Never {
    waiting: watch::Sender<usize>,
}

struct Waiter(watch::Sender<usize>);

impl Drop for Waiter {
    fn drop(&mut self) {
        self.0.send_modify(|waiting| *waiting -= 1);
    }
}

impl Handle for Never {
    fn for_session(&self, _: &str) -> Self {
        self.clone()
    }

    fn for_person(&self) -> Self {
        self.clone()
    }

    async fn questions(&self, _: Vec<QuestionId>) -> Result<Vec<QuestionRow>, Error> {
        std::future::pending().await
    }

    async fn call_raw(&self, _: ToolCall) -> Result<Delivery<RawReply>, Error> {
        self.waiting.send_modify(|waiting| *waiting += 1);
        let _waiter = Waiter(self.waiting.clone());
        std::future::pending().await
    }
}

fn never() -> (Never, watch::Receiver<usize>) {
    let (waiting, count) = watch::channel(0);
    (Never { waiting }, count)
}

async fn until(count: &mut watch::Receiver<usize>, wanted: usize) {
    let reached = timeout(LIMIT, count.wait_for(|waiting| *waiting == wanted)).await;
    reached.expect("in time").expect("the handle lives");
}

fn call(id: u64, meta: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "get_status", "arguments": {}, "_meta": meta}})
}

async fn say(to: &mut DuplexStream, message: &Value) {
    let line = format!("{message}\n");
    to.write_all(line.as_bytes())
        .await
        .expect("the server reads");
}

#[tokio::test(flavor = "current_thread")]
async fn a_cancelled_call_is_dropped_at_once_and_the_others_are_not() {
    let (handle, mut count) = never();
    let (mut client, theirs) = tokio::io::duplex(1 << 20);
    let server = McpServer::new(handle, TransportKind::Stdio);
    let serving =
        tokio::spawn(async move { server.serve(theirs).await.map(|running| running.waiting()) });
    let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}});
    say(&mut client, &hello).await;
    let running = serving.await.expect("it serves").expect("it was greeted");
    let running = tokio::spawn(running);
    for id in 1..=3 {
        say(&mut client, &call(id, json!({}))).await;
    }
    until(&mut count, 3).await;
    let cancel =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2}});
    say(&mut client, &cancel).await;
    until(&mut count, 2).await;
    drop(client);
    until(&mut count, 0).await;
    timeout(LIMIT, running)
        .await
        .expect("it ends with its client")
        .expect("in peace")
        .expect("and for a reason");
}

#[tokio::test(flavor = "current_thread")]
async fn a_stream_that_the_client_closes_ends_its_call() {
    let (handle, mut count) = never();
    let anywhere = SocketAddr::from(([127, 0, 0, 1], 0));
    let listening = HttpListener::at(HttpSettings::open_to_anybody(anywhere))
        .await
        .expect("a port");
    let address = listening.address();
    let serving = tokio::spawn(listening.serve(McpServer::new(handle, TransportKind::Http)));
    let about = |key: &str| format!("io.modelcontextprotocol/{key}");
    let meta = json!({
        about("protocolVersion"): "2026-07-28",
        about("clientInfo"): {"name": "test", "version": "1"},
        about("clientCapabilities"): {},
    });
    let body = call(1, meta).to_string();
    let request = format!(
        "POST /mcp HTTP/1.1\r\nHost: {address}\r\nAccept: application/json, text/event-stream\r\n\
         Content-Type: application/json\r\nMcp-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\n\
         Mcp-Name: get_status\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut streams = Vec::new();
    for _ in 0..10 {
        let mut stream = TcpStream::connect(address).await.expect("it listens");
        stream
            .write_all(request.as_bytes())
            .await
            .expect("it reads");
        streams.push(stream);
    }
    until(&mut count, 10).await;
    // One is closed in the ordinary way, the rest are cut off.
    let mut first = streams.remove(0);
    first.shutdown().await.expect("half closed");
    drop(first);
    until(&mut count, 9).await;
    drop(streams);
    until(&mut count, 0).await;
    // The server is none the worse for it.
    let mut stream = TcpStream::connect(address).await.expect("it listens");
    stream
        .write_all(b"GET /elsewhere HTTP/1.1\r\nHost: x\r\n\r\n")
        .await
        .expect("it reads");
    let mut said = [0; 12];
    stream.read_exact(&mut said).await.expect("it answers");
    assert_eq!(&said, b"HTTP/1.1 403");
    serving.abort();
}
