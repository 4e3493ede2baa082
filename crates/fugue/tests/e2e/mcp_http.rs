//! `fugue mcp --http`: authentication for every method, sessions, replies and streams, and bounded memory under attack.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    os::unix::fs::MetadataExt,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use fugue_api::ErrorKind;
use fugue_testkit::{ProcessWaiter, TestEnv, mcp_client::facts, report_metric};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

const LIMIT: Duration = Duration::from_secs(120);
const METHODS: [&str; 7] = ["POST", "GET", "DELETE", "PUT", "OPTIONS", "HEAD", "PATCH"];

fn test_env() -> TestEnv {
    TestEnv::new(env!("CARGO_BIN_EXE_fugue"), LIMIT)
}

/// A server of its own, on a port that was free.
struct Server {
    child: Child,
    address: SocketAddr,
    token: String,
}

impl Server {
    fn start(test_env: &TestEnv) -> Self {
        Self::run(
            test_env.fugue_command(["mcp", "--http", "127.0.0.1:0"]),
            test_env,
        )
    }

    fn run(mut command: Command, test_env: &TestEnv) -> Self {
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().expect("the server starts");
        let mut said = String::new();
        let mut stderr = BufReader::new(child.stderr.take().expect("a pipe"));
        stderr
            .read_line(&mut said)
            .expect("it says where it listens");
        let address = said
            .split("http://")
            .nth(1)
            .and_then(|rest| rest.split("/mcp").next());
        let address = address.and_then(|address| address.parse().ok());
        let path = test_env.state().join("mcp-token");
        assert!(said.contains(&*path.to_string_lossy()), "{said}");
        let token = std::fs::read_to_string(&path).expect("a token");
        Self {
            child,
            address: address.unwrap_or_else(|| panic!("an address: {said}")),
            token: token.trim().to_owned(),
        }
    }

    /// The headers of a request that has everything.
    fn headers(&self) -> Vec<(String, String)> {
        [
            ("Host", self.address.to_string()),
            ("Authorization", format!("Bearer {}", self.token)),
            ("Accept", "application/json, text/event-stream".to_owned()),
            ("Content-Type", "application/json".to_owned()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into()
    }

    /// Sends a request and gives the status, the headers and the body, read to the end of the reply.
    fn send(&self, method: &str, headers: &[(String, String)], body: &[u8]) -> Reply {
        let mut stream = TcpStream::connect(self.address).expect("it listens");
        stream
            .set_read_timeout(Some(Duration::from_secs(30)))
            .expect("a limit");
        let mut request = format!("{method} /mcp HTTP/1.1\r\nConnection: close\r\n");
        for (name, value) in headers {
            request.push_str(&format!("{name}: {value}\r\n"));
        }
        if !headers
            .iter()
            .any(|(name, _)| name == "Content-Length" || name == "Transfer-Encoding")
        {
            request.push_str(&format!("Content-Length: {}\r\n", body.len()));
        }
        request.push_str("\r\n");
        stream.write_all(request.as_bytes()).expect("it reads");
        // A server that refuses need not read what it refuses.
        let _ = stream.write_all(body);
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes);
        Reply::read(&String::from_utf8_lossy(&bytes))
    }

    fn post(&self, message: &Value, more: &[(&str, &str)]) -> Reply {
        let mut headers = self.headers();
        headers.extend(
            more.iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned())),
        );
        self.send("POST", &headers, message.to_string().as_bytes())
    }

    /// Says hello and gives the session's id.
    fn session(&self, version: &str) -> String {
        let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}});
        let reply = self.post(&hello, &[]);
        assert_eq!(
            reply.message()["result"]["protocolVersion"],
            version,
            "{reply:?}"
        );
        let session = reply.header("mcp-session-id").expect("a session");
        let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        assert_eq!(
            self.post(&ready, &[("Mcp-Session-Id", &session)]).status,
            202
        );
        session
    }

    fn call(&self, session: &str, tool: &str, args: Value) -> Value {
        let call = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": tool, "arguments": args}});
        let reply = self.post(
            &call,
            &[
                ("Mcp-Session-Id", session),
                ("Mcp-Protocol-Version", "2025-11-25"),
            ],
        );
        reply.message()["result"].clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[derive(Debug)]
struct Reply {
    status: u16,
    headers: String,
    body: String,
}

impl Reply {
    fn read(text: &str) -> Self {
        let (headers, body) = text.split_once("\r\n\r\n").unwrap_or((text, ""));
        let status = headers
            .split_whitespace()
            .nth(1)
            .and_then(|code| code.parse().ok());
        Self {
            status: status.unwrap_or_else(|| panic!("an HTTP reply: {text:?}")),
            headers: headers.to_owned(),
            body: body.to_owned(),
        }
    }

    fn header(&self, name: &str) -> Option<String> {
        self.headers.lines().find_map(|line| {
            let (key, value) = line.split_once(": ")?;
            key.eq_ignore_ascii_case(name).then(|| value.to_owned())
        })
    }

    /// The JSON-RPC message in a body that is JSON, or a stream of events with one.
    fn message(&self) -> Value {
        let found = self
            .body
            .lines()
            .map(|line| line.strip_prefix("data:").unwrap_or(line).trim())
            .filter_map(|line| serde_json::from_str::<Value>(line).ok())
            .find(|message| message.get("jsonrpc").is_some());
        found.unwrap_or_else(|| panic!("a message: {self:?}"))
    }
}

fn changed(headers: &[(String, String)], name: &str, value: Option<&str>) -> Vec<(String, String)> {
    let mut headers: Vec<_> = headers
        .iter()
        .filter(|(key, _)| key != name)
        .cloned()
        .collect();
    if let Some(value) = value {
        headers.push((name.to_owned(), value.to_owned()));
    }
    headers
}

#[test]
fn strangers_are_refused_on_every_method() {
    let test_env = test_env();
    let server = Server::start(&test_env);
    let right = server.headers();
    let port = server.address.port();
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).to_string();
    let mut refused = 0;
    for (name, value, status) in [
        ("Host", Some("evil.example"), 403),
        ("Host", Some(&*format!("evil.example:{port}")), 403),
        ("Host", Some("127.0.0.1:1"), 403),
        ("Origin", Some("https://evil.example"), 403),
        ("Origin", Some("null"), 403),
        ("Origin", Some("http://localhost:1"), 403),
        ("Authorization", None, 401),
        ("Authorization", Some("Bearer wrong"), 401),
        (
            "Authorization",
            Some(&*format!("Bearer {}", "0".repeat(64))),
            401,
        ),
        (
            "Authorization",
            Some(&*format!("Basic {}", server.token)),
            401,
        ),
        ("Content-Length", Some("8388609"), 413),
        ("Content-Length", Some("99999999999"), 413),
    ] {
        for method in METHODS {
            let reply = server.send(method, &changed(&right, name, value), list.as_bytes());
            assert_eq!(
                reply.status, status,
                "{method} {name}: {value:?}: {reply:?}"
            );
            assert!(!reply.body.contains("create_pane"), "{reply:?}");
            if method != "HEAD" {
                let error: fugue_api::Error = serde_json::from_str(&reply.body).expect("a refusal");
                assert_eq!(error.kind, ErrorKind::InvalidArgument);
            }
            refused += 1;
        }
    }
    // A missing Host is hyper's to refuse, or ours.
    for method in METHODS {
        let reply = server.send(method, &changed(&right, "Host", None), b"");
        assert!([400, 403].contains(&reply.status), "{method}: {reply:?}");
        refused += 1;
    }
    // One that does not say how large it is is counted as it comes, and refused where it has no business.
    let mut chunks = Vec::new();
    for _ in 0..140 {
        chunks.extend(format!("{:x}\r\n", 64 * 1024).bytes());
        chunks.extend(vec![b' '; 64 * 1024]);
        chunks.extend(b"\r\n");
    }
    chunks.extend(b"0\r\n\r\n");
    for method in METHODS {
        let reply = server.send(
            method,
            &changed(&right, "Transfer-Encoding", Some("chunked")),
            &chunks,
        );
        assert_eq!(reply.status, 413, "{method}: {reply:?}");
        refused += 1;
    }
    report_metric(
        "MCP over HTTP",
        format!("{refused} foreign, unauthorised or oversized requests, all refused"),
    );
    // And with everything right, the same server answers.
    let session = server.session("2025-11-25");
    assert_eq!(
        facts(&server.call(&session, "get_status", json!({})))["panes"],
        json!([])
    );
}

#[test]
fn both_eras_are_served_and_paths_are_absolute() {
    let test_env = test_env();
    let server = Server::start(&test_env);
    for version in ["2025-06-18", "2025-11-25"] {
        let session = server.session(version);
        let made = facts(&server.call(
            &session,
            "create_pane",
            json!({"command": "exec sleep 1000", "cwd": "/"}),
        ));
        let status =
            facts(&server.call(&session, "get_status", json!({"pane_id": made["pane_id"]})));
        assert_eq!(status["cwd"], "/", "{status}");
        let refused = server.call(&session, "create_pane", json!({"cwd": "src"}));
        assert_eq!(refused["isError"], true);
        assert!(
            facts(&refused)["message"]
                .as_str()
                .is_some_and(|said| said.contains("absolute")),
            "{refused}"
        );
    }
    let about = |key: &str| format!("io.modelcontextprotocol/{key}");
    let meta = json!({
        about("protocolVersion"): "2026-07-28",
        about("clientInfo"): {"name": "test", "version": "1"},
        about("clientCapabilities"): {},
    });
    for (method, name, params) in [
        ("server/discover", None, json!({"_meta": meta})),
        ("tools/list", None, json!({"_meta": meta})),
        (
            "tools/call",
            Some("get_status"),
            json!({"name": "get_status", "arguments": {}, "_meta": meta}),
        ),
    ] {
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let mut headers = vec![
            ("Mcp-Protocol-Version", "2026-07-28"),
            ("Mcp-Method", method),
        ];
        headers.extend(name.map(|name| ("Mcp-Name", name)));
        let reply = server.post(&message, &headers);
        assert_eq!(reply.status, 200, "{method}: {reply:?}");
        assert!(
            reply.header("mcp-session-id").is_none(),
            "there are no sessions any more"
        );
        assert!(reply.message().get("result").is_some(), "{reply:?}");
    }
}

#[test]
fn a_session_outlives_the_daemon() {
    let test_env = test_env();
    let server = Server::start(&test_env);
    let session = server.session("2025-11-25");
    let made = facts(&server.call(
        &session,
        "create_pane",
        json!({"command": "echo here; exec sleep 1000"}),
    ));
    let before = test_env.daemons();
    before.iter().for_each(|daemon| daemon.kill9());
    let status = facts(&server.call(&session, "get_status", json!({"pane_id": made["pane_id"]})));
    assert_eq!(status["pane_id"], made["pane_id"]);
    assert_ne!(test_env.daemons(), before);
}

#[test]
fn the_token_is_for_its_owner_and_lasts() {
    let test_env = test_env();
    let first = Server::start(&test_env).token.clone();
    assert_eq!(first.len(), 64);
    let file = std::fs::metadata(test_env.state().join("mcp-token")).expect("the token");
    assert_eq!(file.mode() & 0o777, 0o600);
    assert_eq!(
        Server::start(&test_env).token,
        first,
        "a second server has the same"
    );
}

#[test]
fn an_address_that_others_reach_is_refused_without_a_word_for_it() {
    let test_env = test_env();
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:80"] {
        let refused = test_env.refused(&["mcp", "--http", address], 2);
        assert!(refused.message.contains(address), "{refused:?}");
        assert!(
            refused
                .hint
                .is_some_and(|hint| hint.contains("--allow-host"))
        );
    }
    test_env.refused(&["mcp", "--http", "nonsense"], 2);
    test_env.refused(&["mcp", "--max-wait-ms", "0"], 2);
    let command =
        test_env.fugue_command(["mcp", "--http", "0.0.0.0:0", "--allow-host", "box.example"]);
    let mut server = Server::run(command, &test_env);
    // The daemon that it starts is there, and not cut off in its start by the end of this test.
    test_env.overview();
    server.address.set_ip([127, 0, 0, 1].into());
    let named = format!("box.example:{}", server.address.port());
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}).to_string();
    let reply = server.send(
        "POST",
        &changed(&server.headers(), "Host", Some("other.example")),
        list.as_bytes(),
    );
    assert!(reply.status == 403, "{reply:?}");
    assert!(
        server
            .send(
                "POST",
                &changed(&server.headers(), "Host", Some(&named)),
                list.as_bytes()
            )
            .status
            != 403
    );
}

#[test]
fn a_signal_ends_it_with_streams_open() {
    let test_env = test_env();
    let server = Server::start(&test_env);
    let session = server.session("2025-11-25");
    // A stream that would never end by itself.
    let mut stream = TcpStream::connect(server.address).expect("it listens");
    let mut request = "GET /mcp HTTP/1.1\r\n".to_owned();
    for (name, value) in server.headers() {
        request.push_str(&format!("{name}: {value}\r\n"));
    }
    request.push_str(&format!("Mcp-Session-Id: {session}\r\n\r\n"));
    stream.write_all(request.as_bytes()).expect("it reads");
    let mut first = [0; 12];
    stream.read_exact(&mut first).expect("an answer");
    assert_eq!(&first, b"HTTP/1.1 200");
    let ended = ProcessWaiter::of(server.child.id()).expect("it runs");
    let pid = Pid::from_raw(server.child.id().cast_signed()).expect("a pid");
    kill_process(pid, Signal::INT).expect("a signal");
    ended.wait(LIMIT);
}

/// Calls a tool as somebody with these headers and gives what it gives.
fn call_as(server: &Server, headers: &[(&str, &str)], tool: &str, args: Value) -> Value {
    let call = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": tool, "arguments": args}});
    let mut all = vec![("Mcp-Protocol-Version", "2025-11-25")];
    all.extend(headers);
    let reply = server.post(&call, &all).message();
    assert_ne!(reply["result"]["isError"], json!(true), "{reply}");
    facts(&reply["result"])
}

#[test]
fn every_client_has_its_own_inbox_unless_it_names_one() {
    let test_env = test_env();
    let server = Server::start(&test_env);
    let (one, two) = (server.session("2025-11-25"), server.session("2025-11-25"));
    let notice = |session: &str, worker: &str| {
        let args = [
            "notify",
            "success",
            "--session-id",
            session,
            "--worker-id",
            worker,
        ];
        test_env.fugue(&args).ok();
    };
    for (session, worker) in [(&*one, "for-one"), (&two, "for-two"), ("named", "for-both")] {
        notice(session, worker);
    }
    let now = || json!({"timeout_secs": 0});
    for (session, worker) in [(&one, "for-one"), (&two, "for-two")] {
        let told = call_as(
            &server,
            &[("Mcp-Session-Id", session)],
            "wait_for_event",
            now(),
        );
        assert_eq!(told["worker_id"], json!(worker));
    }
    let named = |session| [("Mcp-Session-Id", session), ("Fugue-Session", "named")];
    let told = call_as(&server, &named(&one), "wait_for_event", now());
    assert_eq!(told["worker_id"], json!("for-both"));
    let told = call_as(&server, &named(&two), "wait_for_event", now());
    assert_eq!(told["type"], json!("timeout"), "it was the same inbox");
    let spawned = call_as(
        &server,
        &named(&one),
        "spawn_worker",
        json!({"name": "w", "agent": "shell", "prompt": "true"}),
    );
    assert_eq!(spawned["session_id"], json!("named"));
    let told = call_as(
        &server,
        &named(&two),
        "wait_for_event",
        json!({"timeout_secs": 30}),
    );
    assert_eq!(told["worker_id"], json!("w-shell"));
}

#[test]
fn a_server_for_one_session_has_its_inbox_whatever_the_client_says() {
    let test_env = test_env();
    let command = test_env.fugue_command(["mcp", "--http", "127.0.0.1:0", "--session", "ours"]);
    let server = Server::run(command, &test_env);
    let session = server.session("2025-11-25");
    let notice = [
        "notify",
        "success",
        "--session-id",
        "ours",
        "--worker-id",
        "w",
    ];
    test_env.fugue(&notice).ok();
    let headers = [("Mcp-Session-Id", &*session), ("Fugue-Session", "other")];
    let told = call_as(
        &server,
        &headers,
        "wait_for_event",
        json!({"timeout_secs": 0}),
    );
    assert_eq!(told["worker_id"], json!("w"));
}

#[test]
fn a_client_that_hangs_up_while_it_waits_takes_nothing() {
    let test_env = test_env();
    let server = Server::start(&test_env);
    let session = server.session("2025-11-25");
    let body = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params":
        {"name": "wait_for_event", "arguments": {}}})
    .to_string();
    let mut request = "POST /mcp HTTP/1.1\r\n".to_owned();
    let mut headers = server.headers();
    headers.push(("Mcp-Session-Id".into(), session.clone()));
    headers.push(("Mcp-Protocol-Version".into(), "2025-11-25".into()));
    headers.push(("Content-Length".into(), body.len().to_string()));
    for (name, value) in headers {
        request.push_str(&format!("{name}: {value}\r\n"));
    }
    for _ in 0..5 {
        let mut stream = TcpStream::connect(server.address).expect("it listens");
        let whole = format!("{request}\r\n{body}");
        stream.write_all(whole.as_bytes()).expect("it reads");
    }
    let notice = [
        "notify",
        "success",
        "--session-id",
        &session,
        "--worker-id",
        "w",
    ];
    test_env.fugue(&notice).ok();
    let told = call_as(
        &server,
        &[("Mcp-Session-Id", &session)],
        "wait_for_event",
        json!({"timeout_secs": 30}),
    );
    assert_eq!(told["worker_id"], json!("w"));
}

/// Hundreds of connections that say half of a request or read nothing, and thousands of sessions: a client is served
/// meanwhile, memory is bounded, and a signal ends the server at once.
#[test]
fn a_client_is_served_under_attack_and_a_signal_is_heard() {
    let test_env = test_env();
    let server = Server::start(&test_env);
    let session = server.session("2025-11-25");
    let status = || {
        let began = Instant::now();
        let reply = server.call(&session, "get_status", json!({}));
        assert_eq!(facts(&reply)["panes"], json!([]));
        began.elapsed()
    };
    let mut slowest = status();
    let first_of_many = server.session("2025-11-25");

    let connect = |text: &str| {
        let mut stream = TcpStream::connect(server.address).expect("it listens");
        // One that was evicted while it wrote is gone.
        let _ = stream.write_all(text.as_bytes());
        stream
    };
    let host = server.address;
    let head: String = server
        .headers()
        .iter()
        .map(|(name, value)| format!("{name}: {value}\r\n"))
        .collect();
    let mut open = Vec::new();
    for n in 0..500 {
        open.push(connect(match n % 3 {
            0 => "",
            1 => "POST /mcp HTTP/1.1\r\nHost: half",
            _ => "POST /mcp HTTP/1.1\r\nContent-Length: 9\r\nX: ",
        }));
        if n % 50 == 0 {
            slowest = slowest.max(status());
        }
    }
    // Refused, whether they read it or not.
    for _ in 0..100 {
        open.push(connect(&format!(
            "POST /mcp HTTP/1.1\r\nHost: {host}\r\nContent-Length: 1000000\r\n\r\nx"
        )));
    }
    // With the token: streams that nobody reads, and bodies that never come.
    for _ in 0..40 {
        open.push(connect(&format!(
            "GET /mcp HTTP/1.1\r\n{head}Mcp-Session-Id: {first_of_many}\r\n\r\n"
        )));
        open.push(connect(&format!(
            "POST /mcp HTTP/1.1\r\n{head}Content-Length: 1000000\r\n\r\nx"
        )));
    }
    slowest = slowest.max(status());
    let mut oldest = &open[0];
    oldest.set_read_timeout(Some(LIMIT)).expect("a limit");
    let ended = oldest.read(&mut [0; 1]);
    assert!(
        matches!(&ended, Ok(0))
            || ended
                .as_ref()
                .is_err_and(|error| error.kind() == std::io::ErrorKind::ConnectionReset),
        "the oldest half-sent request was evicted: {ended:?}"
    );

    let unused = server.session("2025-11-25");
    for n in 0..2000 {
        server.session("2025-11-25");
        if n % 100 == 0 {
            slowest = slowest.max(status());
        }
    }
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    let gone = server.post(&list, &[("Mcp-Session-Id", &unused)]);
    assert_eq!(gone.status, 404, "{gone:?}");
    slowest = slowest.max(status());
    assert!(slowest < Duration::from_secs(10), "{slowest:?}");

    let peak = peak_memory(server.child.id());
    assert!(peak < 96 << 20, "{peak} bytes");
    report_metric(
        "MCP over HTTP under attack",
        format!(
            "slowest call {} ms, {} MB at most",
            slowest.as_millis(),
            peak >> 20
        ),
    );
    let ended = ProcessWaiter::of(server.child.id()).expect("it runs");
    let pid = Pid::from_raw(server.child.id().cast_signed()).expect("a pid");
    kill_process(pid, Signal::TERM).expect("a signal");
    ended.wait(Duration::from_secs(20));
    drop(open);
}

/// The most memory that a process has had, in bytes.
fn peak_memory(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB"));
    let kilobytes: u64 = kilobytes.expect("VmHWM").parse().expect("a number");
    kilobytes * 1024
}
