use std::collections::HashSet;

use fugue_api::{Handed, Receipt, Reply, Request, Unread};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream},
    sync::watch,
    task::JoinHandle,
};

use super::*;
use crate::Door;

const LIMIT: Duration = Duration::from_secs(20);

/// Answers `get_status` with the pane's name many times over, and `wait_for_event` when it is told to.
#[derive(Clone)]
struct House {
    news: watch::Sender<bool>,
    count: watch::Sender<Count>,
}

#[derive(Default, Debug, PartialEq, Clone, Copy)]
struct Count {
    waiting: usize,
    signed: usize,
    put_back: usize,
}

/// Counts as waiting for as long as it lives.
struct Waiter(watch::Sender<Count>);

impl Drop for Waiter {
    fn drop(&mut self) {
        self.0.send_modify(|count| count.waiting -= 1);
    }
}

/// Counts as put back, unless it is signed.
struct Slip {
    count: watch::Sender<Count>,
    signed: bool,
}

impl Slip {
    fn sign(mut self) {
        self.signed = true;
    }
}

impl Drop for Slip {
    fn drop(&mut self) {
        self.count.send_modify(|count| match self.signed {
            true => count.signed += 1,
            false => count.put_back += 1,
        });
    }
}

impl Handle for House {
    fn speaking_for(&self, _: &str) -> Self {
        self.clone()
    }

    async fn call_unread(&self, request: Request) -> Result<Handed<Unread>, Error> {
        match request {
            Request::GetStatus(args) => {
                let pane = args.pane_id.unwrap_or_default();
                Ok(said(&pane.repeat(REPEATED)).into())
            }
            _ => {
                self.count.send_modify(|count| count.waiting += 1);
                let _waiter = Waiter(self.count.clone());
                let mut news = self.news.subscribe();
                news.wait_for(|come| *come).await.expect("the house stands");
                let slip = Slip {
                    count: self.count.clone(),
                    signed: false,
                };
                let receipt = Receipt::new(async move { slip.sign() });
                Ok(Handed {
                    reply: said("news"),
                    receipt: Some(receipt),
                })
            }
        }
    }
}

const REPEATED: usize = 1000;

fn said(note: &str) -> Unread {
    let reply = json!({"pane_id": "p1", "note": note});
    let reply = Reply::ClosePane(serde_json::from_value(reply).expect("a reply"));
    Unread::of(&reply).expect("it has JSON")
}

struct Client {
    to: DuplexStream,
    from: BufReader<DuplexStream>,
    house: House,
    serving: JoinHandle<Result<(), Error>>,
}

impl Client {
    /// Not greeted yet. So many bytes of what it is told fit on the way to it.
    fn new(room: usize) -> Self {
        let (to, stdin) = tokio::io::duplex(1 << 20);
        let (stdout, from) = tokio::io::duplex(room);
        let house = House {
            news: watch::Sender::new(false),
            count: watch::Sender::default(),
        };
        let server = Server::new(house.clone(), Door::Stdio);
        Self {
            to,
            from: BufReader::new(from),
            house,
            serving: tokio::spawn(serve_on(server, stdin, stdout)),
        }
    }

    async fn greeted(room: usize) -> Self {
        let mut client = Self::new(room);
        client.hello(0, "2025-11-25").await;
        client
    }

    async fn hello(&mut self, id: u64, version: &str) {
        self.ask(id, "initialize", json!({"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}})).await;
        assert_eq!(self.hear().await["id"], id);
    }

    async fn say(&mut self, line: &str) {
        self.to.write_all(line.as_bytes()).await.expect("it reads");
        self.to.write_all(b"\n").await.expect("it reads");
    }

    async fn ask(&mut self, id: impl Into<Value>, method: &str, params: Value) {
        let id = id.into();
        let line = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.say(&line.to_string()).await;
    }

    async fn call(&mut self, id: impl Into<Value>, tool: &str, args: Value) {
        let params = json!({"name": tool, "arguments": args});
        self.ask(id, "tools/call", params).await;
    }

    async fn cancel(&mut self, id: impl Into<Value>) {
        let params = json!({"requestId": id.into()});
        let line = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params});
        self.say(&line.to_string()).await;
    }

    async fn line(&mut self) -> String {
        let mut line = String::new();
        let read = timeout(LIMIT, self.from.read_line(&mut line)).await;
        read.expect("in time").expect("text");
        line
    }

    async fn hear(&mut self) -> Value {
        let line = self.line().await;
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error} in {line:?}"))
    }

    async fn until(&self, wanted: Count) {
        let mut count = self.house.count.subscribe();
        let reached = timeout(LIMIT, count.wait_for(|count| *count == wanted)).await;
        let reached = reached.map(drop);
        assert!(reached.is_ok(), "{:?}", self.house.count.borrow());
    }

    fn news_come(&self) {
        self.house.news.send_replace(true);
    }

    async fn ends(self) {
        drop((self.to, self.from));
        let ended = timeout(LIMIT, self.serving).await.expect("in time");
        ended.expect("in peace").expect("and for a reason");
    }
}

fn waiting(waiting: usize) -> Count {
    Count {
        waiting,
        ..Count::default()
    }
}

#[tokio::test(flavor = "current_thread")]
async fn a_cancelled_call_is_dropped_and_never_answered_and_the_others_are() {
    let mut client = Client::greeted(1 << 20).await;
    for id in [json!(1), json!("1"), json!(2)] {
        client.call(id, "wait_for_event", json!({})).await;
    }
    client.until(waiting(3)).await;
    client.cancel("1").await;
    client.until(waiting(2)).await;
    // Nobody's, or over already.
    for id in [json!("1"), json!(7), json!("x")] {
        client.cancel(id).await;
    }
    client.news_come();
    let heard = [client.hear().await, client.hear().await];
    let heard = HashSet::from(heard.map(|heard| heard["id"].as_u64()));
    assert_eq!(heard, HashSet::from([Some(1), Some(2)]));
    client.ask(3, "ping", json!({})).await;
    assert_eq!(client.hear().await["id"], 3);
    client.ends().await;
}

#[tokio::test(flavor = "current_thread")]
async fn a_call_that_brings_its_own_protocol_is_answered_in_it_beside_those_that_do_not() {
    let about = |key: &str| format!("io.modelcontextprotocol/{key}");
    let call = |meta: Value| json!({"name": "get_status", "arguments": {}, "_meta": meta});
    let mut client = Client::greeted(1 << 20).await;
    let modern = json!({about("protocolVersion"): "2026-07-28", about("clientCapabilities"): {}});
    for (id, meta, result_type) in [
        (1, json!({}), Value::Null),
        (2, modern.clone(), json!("complete")),
        (3, json!({"progressToken": 7, "else": {}}), Value::Null),
    ] {
        client.ask(id, "tools/call", call(meta)).await;
        let heard = client.hear().await;
        assert_eq!(heard["result"]["resultType"], result_type, "{heard}");
        assert_eq!(heard["result"]["isError"], false, "{heard}");
    }
    let half = json!({about("protocolVersion"): "2026-07-28"});
    client.ask(4, "tools/call", call(half)).await;
    assert_eq!(client.hear().await["error"]["code"], -32602);
    let none = json!({about("protocolVersion"): "1999-01-01"});
    client.ask(5, "tools/call", call(none)).await;
    assert!(client.hear().await["error"]["code"].is_number());
    client.ends().await;
    // rmcp takes a second handshake at its word, whatever it has answered.
    let mut client = Client::greeted(1 << 20).await;
    client.hello(1, "2026-07-28").await;
    client.ask(2, "tools/call", call(json!({}))).await;
    assert_eq!(client.hear().await["result"]["resultType"], "complete");
    client.ends().await;
    // Without any handshake the first call is what opens the connection.
    let mut client = Client::new(1 << 20);
    for id in 0..3 {
        client.ask(id, "tools/call", call(modern.clone())).await;
        assert_eq!(client.hear().await["result"]["resultType"], "complete");
    }
    client.ask(4, "tools/call", call(json!({}))).await;
    assert_eq!(client.hear().await["error"]["code"], -32602);
    client.ends().await;
}

#[tokio::test(flavor = "current_thread")]
async fn a_client_that_stops_reading_finds_whole_lines_when_it_goes_on() {
    // Every line is longer than what fits on the way, so that each would be torn by the next.
    let mut client = Client::greeted(64).await;
    let mut wanted = HashSet::new();
    for id in 1..=50 {
        let pane = json!({"pane_id": format!("p{id}")});
        client.call(id, "get_status", pane).await;
        client.ask(1000 + id, "tools/list", json!({})).await;
        // rmcp answers this by itself, and to nobody.
        client.say("[]").await;
        wanted.extend([id, 1000 + id]);
    }
    // All have been asked by now: this one is behind them.
    client.call(99, "wait_for_event", json!({})).await;
    wanted.insert(99);
    client.until(waiting(1)).await;
    client.news_come();
    let mut nobodys = 0;
    while !wanted.is_empty() || nobodys < 50 {
        let heard = client.hear().await;
        let Some(id) = heard["id"].as_i64() else {
            nobodys += 1;
            continue;
        };
        assert!(wanted.remove(&id), "{id} was answered twice");
        if id <= 50 {
            let note = heard["result"]["structuredContent"]["note"].as_str();
            assert_eq!(note, Some(&*format!("p{id}").repeat(REPEATED)));
        }
    }
    client.ends().await;
}

#[tokio::test(flavor = "current_thread")]
async fn a_call_is_cancelled_even_while_its_reply_cannot_be_written() {
    let mut client = Client::greeted(64).await;
    client.call(1, "get_status", json!({"pane_id": "p1"})).await;
    client.call(2, "wait_for_event", json!({})).await;
    client.until(waiting(1)).await;
    client.news_come();
    client.until(waiting(0)).await;
    client.cancel(2).await;
    let put_back = Count {
        put_back: 1,
        ..Count::default()
    };
    client.until(put_back).await;
    client.ask(3, "ping", json!({})).await;
    assert_eq!(client.hear().await["id"], 1);
    assert_eq!(client.hear().await["id"], 3);
    client.ends().await;
}

#[tokio::test(flavor = "current_thread")]
async fn two_calls_by_one_id_are_both_answered() {
    let mut client = Client::greeted(1 << 20).await;
    for _ in 0..2 {
        client.call(1, "wait_for_event", json!({})).await;
    }
    client.until(waiting(2)).await;
    client.news_come();
    for _ in 0..2 {
        assert_eq!(client.hear().await["id"], 1);
    }
    client.ends().await;
}

#[tokio::test(flavor = "current_thread")]
async fn what_a_reply_takes_is_taken_when_the_reply_is_written() {
    let mut client = Client::greeted(64).await;
    client.call(1, "wait_for_event", json!({})).await;
    client.until(waiting(1)).await;
    client.news_come();
    client.until(waiting(0)).await;
    assert_eq!(client.hear().await["id"], 1);
    let signed = Count {
        signed: 1,
        ..Count::default()
    };
    client.until(signed).await;
    client.call(2, "wait_for_event", json!({})).await;
    // Its first bytes are there, and its last will never be.
    client.from.fill_buf().await.expect("some of it");
    assert_eq!(*client.house.count.borrow(), signed);
    let house = client.house.clone();
    client.ends().await;
    let put_back = Count {
        put_back: 1,
        ..signed
    };
    assert_eq!(*house.count.borrow(), put_back);
}

#[tokio::test(flavor = "current_thread")]
async fn a_closed_stdin_ends_the_connection_when_what_is_under_way_is_answered() {
    let mut client = Client::greeted(1 << 20).await;
    client.call(1, "wait_for_event", json!({})).await;
    client.until(waiting(1)).await;
    client.to.shutdown().await.expect("it can be closed");
    client.news_come();
    assert_eq!(client.hear().await["id"], 1);
    assert_eq!(client.line().await, "", "and then nothing");
    client.ends().await;
}
