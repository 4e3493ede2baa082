use std::{collections::HashSet, time::Duration};

use fugue_api::{
    Delivery, EventAck, QuestionId, RawReply, ToolCall, ToolReply, overview::QuestionRow,
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream},
    sync::watch,
    task::JoinHandle,
    time::timeout,
};

use super::*;
use crate::TransportKind;

const TEST_TIMEOUT: Duration = Duration::from_secs(20);

/// A handle with one event per call: `wait_for_event` is answered after `publish`, `get_status` at once with a long reply.
#[derive(Clone)]
struct TestHandle {
    published: watch::Sender<bool>,
    counts: watch::Sender<Counts>,
}

/// Pending waits, and the ends of leases.
#[derive(Default, Debug, PartialEq, Clone, Copy)]
struct Counts {
    waiting: usize,
    acked: usize,
    released: usize,
}

/// Counts a wait until dropped.
struct WaitGuard(watch::Sender<Counts>);

impl Drop for WaitGuard {
    fn drop(&mut self) {
        self.0.send_modify(|counts| counts.waiting -= 1);
    }
}

/// Counts the end of a lease: acked, or dropped and so released.
struct LeaseGuard {
    counts: watch::Sender<Counts>,
    acked: bool,
}

impl LeaseGuard {
    fn ack(mut self) {
        self.acked = true;
    }
}

impl Drop for LeaseGuard {
    fn drop(&mut self) {
        self.counts.send_modify(|counts| match self.acked {
            true => counts.acked += 1,
            false => counts.released += 1,
        });
    }
}

impl Handle for TestHandle {
    fn for_session(&self, _: &str) -> Self {
        self.clone()
    }

    fn for_person(&self) -> Self {
        self.clone()
    }

    async fn questions(&self, _: Vec<QuestionId>) -> Result<Vec<QuestionRow>, Error> {
        std::future::pending().await
    }

    async fn call_raw(&self, request: ToolCall) -> Result<Delivery<RawReply>, Error> {
        match request {
            ToolCall::GetStatus(args) => {
                let pane = args.pane_id.unwrap_or_default();
                Ok(reply(&pane.repeat(REPETITIONS)).into())
            }
            _ => {
                self.counts.send_modify(|counts| counts.waiting += 1);
                let _guard = WaitGuard(self.counts.clone());
                let mut published = self.published.subscribe();
                let event = published.wait_for(|published| *published).await;
                event.expect("the handle is alive");
                let lease = LeaseGuard {
                    counts: self.counts.clone(),
                    acked: false,
                };
                let receipt = EventAck::new(async move { lease.ack() });
                Ok(Delivery {
                    reply: reply("event"),
                    ack: Some(receipt),
                })
            }
        }
    }
}

const REPETITIONS: usize = 1000;

fn reply(note: &str) -> RawReply {
    let reply = json!({"pane_id": "p1", "note": note});
    let reply = ToolReply::ClosePane(serde_json::from_value(reply).expect("a reply"));
    RawReply::new(&reply).expect("JSON")
}

struct TestClient {
    stdin: DuplexStream,
    stdout: BufReader<DuplexStream>,
    handle: TestHandle,
    serving: JoinHandle<Result<(), Error>>,
}

impl TestClient {
    /// A client without a handshake. `capacity` is the size of the pipe from the server.
    fn new(capacity: usize) -> Self {
        let (to, stdin) = tokio::io::duplex(1 << 20);
        let (stdout, from) = tokio::io::duplex(capacity);
        let handle = TestHandle {
            published: watch::Sender::new(false),
            counts: watch::Sender::default(),
        };
        let server = McpServer::new(handle.clone(), TransportKind::Stdio);
        Self {
            stdin: to,
            stdout: BufReader::new(from),
            handle,
            serving: tokio::spawn(serve_on(server, stdin, stdout)),
        }
    }

    async fn initialized(capacity: usize) -> Self {
        let mut client = Self::new(capacity);
        client.initialize(0, "2025-11-25").await;
        client
    }

    async fn initialize(&mut self, id: u64, version: &str) {
        self.request(id, "initialize", json!({"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}})).await;
        assert_eq!(self.receive().await["id"], id);
    }

    async fn send_line(&mut self, line: &str) {
        let line = format!("{line}\n");
        let sent = self.stdin.write_all(line.as_bytes()).await;
        sent.expect("the server reads");
    }

    async fn request(&mut self, id: impl Into<Value>, method: &str, params: Value) {
        let id = id.into();
        let line = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.send_line(&line.to_string()).await;
    }

    async fn call(&mut self, id: impl Into<Value>, tool: &str, args: Value) {
        let params = json!({"name": tool, "arguments": args});
        self.request(id, "tools/call", params).await;
    }

    async fn cancel(&mut self, id: impl Into<Value>) {
        let params = json!({"requestId": id.into()});
        let line = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params});
        self.send_line(&line.to_string()).await;
    }

    async fn receive_line(&mut self) -> String {
        let mut line = String::new();
        let read = timeout(TEST_TIMEOUT, self.stdout.read_line(&mut line)).await;
        read.expect("a line before the timeout").expect("UTF-8");
        line
    }

    async fn receive(&mut self) -> Value {
        let line = self.receive_line().await;
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error} in {line:?}"))
    }

    async fn until(&self, wanted: Counts) {
        let mut counts = self.handle.counts.subscribe();
        let reached = timeout(TEST_TIMEOUT, counts.wait_for(|counts| *counts == wanted)).await;
        let reached = reached.map(drop);
        assert!(reached.is_ok(), "{:?}", self.handle.counts.borrow());
    }

    fn publish(&self) {
        self.handle.published.send_replace(true);
    }

    async fn disconnect(self) {
        drop((self.stdin, self.stdout));
        let ended = timeout(TEST_TIMEOUT, self.serving).await;
        let ended = ended.expect("the end before the timeout");
        ended.expect("no panic").expect("no error");
    }
}

fn waiting(waiting: usize) -> Counts {
    Counts {
        waiting,
        ..Counts::default()
    }
}

#[tokio::test(flavor = "current_thread")]
async fn a_cancelled_call_is_dropped_without_a_response() {
    let mut client = TestClient::initialized(1 << 20).await;
    for id in [json!(1), json!("1"), json!(2)] {
        client.call(id, "wait_for_event", json!({})).await;
    }
    client.until(waiting(3)).await;
    client.cancel("1").await;
    client.until(waiting(2)).await;
    // Ids of no pending call.
    for id in [json!("1"), json!(7), json!("x")] {
        client.cancel(id).await;
    }
    client.publish();
    let responses = [client.receive().await, client.receive().await];
    let ids = HashSet::from(responses.map(|response| response["id"].as_u64()));
    assert_eq!(ids, HashSet::from([Some(1), Some(2)]));
    client.request(3, "ping", json!({})).await;
    assert_eq!(client.receive().await["id"], 3);
    client.disconnect().await;
}

#[tokio::test(flavor = "current_thread")]
async fn a_call_with_its_own_protocol_version_is_answered_in_that_version() {
    let key = |key: &str| format!("io.modelcontextprotocol/{key}");
    let call = |meta: Value| json!({"name": "get_status", "arguments": {}, "_meta": meta});
    let mut client = TestClient::initialized(1 << 20).await;
    let modern = json!({key("protocolVersion"): "2026-07-28", key("clientCapabilities"): {}});
    for (id, meta, result_type) in [
        (1, json!({}), Value::Null),
        (2, modern.clone(), json!("complete")),
        (3, json!({"progressToken": 7, "else": {}}), Value::Null),
    ] {
        client.request(id, "tools/call", call(meta)).await;
        let response = client.receive().await;
        assert_eq!(response["result"]["resultType"], result_type, "{response}");
        assert_eq!(response["result"]["isError"], false, "{response}");
    }
    let incomplete = json!({key("protocolVersion"): "2026-07-28"});
    client.request(4, "tools/call", call(incomplete)).await;
    assert_eq!(client.receive().await["error"]["code"], -32602);
    let unknown = json!({key("protocolVersion"): "1999-01-01"});
    client.request(5, "tools/call", call(unknown)).await;
    assert!(client.receive().await["error"]["code"].is_number());
    client.disconnect().await;
    // A second handshake changes the version of the connection.
    let mut client = TestClient::initialized(1 << 20).await;
    client.initialize(1, "2026-07-28").await;
    client.request(2, "tools/call", call(json!({}))).await;
    assert_eq!(client.receive().await["result"]["resultType"], "complete");
    client.disconnect().await;
    // Without a handshake, the first call opens the connection.
    let mut client = TestClient::new(1 << 20);
    for id in 0..3 {
        client.request(id, "tools/call", call(modern.clone())).await;
        assert_eq!(client.receive().await["result"]["resultType"], "complete");
    }
    client.request(4, "tools/call", call(json!({}))).await;
    assert_eq!(client.receive().await["error"]["code"], -32602);
    client.disconnect().await;
}

#[tokio::test(flavor = "current_thread")]
async fn a_client_that_stops_reading_receives_whole_lines_afterwards() {
    // Each line is longer than the pipe, so two concurrent writes would be interleaved.
    let mut client = TestClient::initialized(64).await;
    let mut unanswered = HashSet::new();
    for id in 1..=50 {
        let pane = json!({"pane_id": format!("p{id}")});
        client.call(id, "get_status", pane).await;
        client.request(1000 + id, "tools/list", json!({})).await;
        unanswered.extend([id, 1000 + id]);
    }
    // The server has read all requests when this last call waits.
    client.call(99, "wait_for_event", json!({})).await;
    unanswered.insert(99);
    client.until(waiting(1)).await;
    // rmcp answers these with an error without an id, and drops such an answer while stdout is full.
    for _ in 0..50 {
        client.send_line("[]").await;
    }
    client.publish();
    while !unanswered.is_empty() {
        let response = client.receive().await;
        let Some(id) = response["id"].as_i64() else {
            assert_eq!(response["error"]["code"], -32600, "{response}");
            continue;
        };
        assert!(unanswered.remove(&id), "two responses to {id}");
        if id <= 50 {
            let note = response["result"]["structuredContent"]["note"].as_str();
            assert_eq!(note, Some(&*format!("p{id}").repeat(REPETITIONS)));
        }
    }
    client.request(100, "ping", json!({})).await;
    while client.receive().await["id"] != 100 {}
    client.send_line("[]").await;
    assert_eq!(client.receive().await["error"]["code"], -32600);
    client.disconnect().await;
}

#[tokio::test(flavor = "current_thread")]
async fn a_cancelled_reply_that_is_not_yet_written_releases_its_event() {
    let mut client = TestClient::initialized(64).await;
    client.call(1, "get_status", json!({"pane_id": "p1"})).await;
    client.call(2, "wait_for_event", json!({})).await;
    client.until(waiting(1)).await;
    client.publish();
    client.until(waiting(0)).await;
    client.cancel(2).await;
    let released = Counts {
        released: 1,
        ..Counts::default()
    };
    client.until(released).await;
    client.request(3, "ping", json!({})).await;
    assert_eq!(client.receive().await["id"], 1);
    assert_eq!(client.receive().await["id"], 3);
    client.disconnect().await;
}

#[tokio::test(flavor = "current_thread")]
async fn two_calls_with_one_id_lose_no_event() {
    let mut client = TestClient::initialized(1 << 20).await;
    for _ in 0..2 {
        client.call(1, "wait_for_event", json!({})).await;
    }
    client.until(waiting(2)).await;
    client.publish();
    assert_eq!(client.receive().await["id"], 1);
    let released = Counts {
        released: 2,
        ..Counts::default()
    };
    client.until(released).await;
    client.disconnect().await;
}

#[tokio::test(flavor = "current_thread")]
async fn an_event_is_acked_after_the_whole_reply_is_written() {
    let mut client = TestClient::initialized(64).await;
    client.call(1, "wait_for_event", json!({})).await;
    client.until(waiting(1)).await;
    client.publish();
    client.until(waiting(0)).await;
    assert_eq!(client.receive().await["id"], 1);
    let acked = Counts {
        acked: 1,
        ..Counts::default()
    };
    client.until(acked).await;
    client.call(2, "wait_for_event", json!({})).await;
    // The client receives the first bytes of the reply, and disconnects before the last.
    client.stdout.fill_buf().await.expect("some bytes");
    assert_eq!(*client.handle.counts.borrow(), acked);
    let handle = client.handle.clone();
    client.disconnect().await;
    let released = Counts {
        released: 1,
        ..acked
    };
    assert_eq!(*handle.counts.borrow(), released);
}

#[tokio::test(flavor = "current_thread")]
async fn pending_calls_are_answered_after_stdin_is_closed() {
    let mut client = TestClient::initialized(1 << 20).await;
    client.call(1, "wait_for_event", json!({})).await;
    client.until(waiting(1)).await;
    client.stdin.shutdown().await.expect("a closed stdin");
    client.publish();
    assert_eq!(client.receive().await["id"], 1);
    assert_eq!(client.receive_line().await, "", "the end of stdout");
    let acked = Counts {
        acked: 1,
        ..Counts::default()
    };
    client.until(acked).await;
    client.disconnect().await;
}
