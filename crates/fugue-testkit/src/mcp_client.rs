//! A minimal MCP client on a server's stdin and stdout, which sees every line.

use std::{
    collections::HashMap,
    io::{BufRead, BufReader, Read, Write},
    process::{Child, ChildStdin, Command, ExitStatus, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use serde_json::{Map, Value, json};

use crate::process_ref::ProcessWaiter;

/// How long a response may take. Far longer than any should.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(60);

/// A client and its server process, which is killed on drop.
pub struct McpClient {
    child: Child,
    stdin: Option<ChildStdin>,
    messages: Receiver<Value>,
    responses: HashMap<u64, Value>,
    notifications: Vec<Value>,
    stderr: Option<JoinHandle<String>>,
    next_id: u64,
    /// Sent with every request in protocols without a handshake.
    meta: Map<String, Value>,
}

impl McpClient {
    /// Starts the server. A line on stdout that is not a JSON document fails the test.
    #[track_caller]
    pub fn start(mut command: Command) -> Self {
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().expect("the server starts");
        let stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut stderr = child.stderr.take().expect("a pipe");
        let (hear, heard) = channel();
        thread::spawn(move || {
            for line in stdout.split(b'\n') {
                let Ok(line) = line else { return };
                let message = serde_json::from_slice(&line).unwrap_or_else(|error| {
                    json!({"not protocol": String::from_utf8_lossy(&line), "because": error.to_string()})
                });
                if hear.send(message).is_err() {
                    return;
                }
            }
        });
        let complaints = thread::spawn(move || {
            let mut text = Vec::new();
            // Text before an error of the pipe is still returned.
            let _ = stderr.read_to_end(&mut text);
            String::from_utf8_lossy(&text).into_owned()
        });
        Self {
            stdin: child.stdin.take(),
            child,
            messages: heard,
            responses: HashMap::new(),
            notifications: Vec::new(),
            stderr: Some(complaints),
            next_id: 1,
            meta: Map::new(),
        }
    }

    /// Performs the handshake of a protocol before 2026-07-28, and returns the server's reply.
    #[track_caller]
    pub fn initialize(&mut self, protocol: &str, name: &str) -> Value {
        self.initialize_as(protocol, name, json!({}))
    }

    /// [`Self::initialize`] with capabilities.
    #[track_caller]
    pub fn initialize_as(&mut self, protocol: &str, name: &str, capabilities: Value) -> Value {
        let id = self.send_request(
            "initialize",
            json!({"protocolVersion": protocol, "capabilities": capabilities, "clientInfo": {"name": name, "version": "1"}}),
        );
        let hello = self.result(id);
        self.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        hello
    }

    /// Switches to protocol 2026-07-28: no handshake, but every request names the client.
    pub fn stateless(&mut self, name: &str) {
        self.stateless_as(name, json!({}));
    }

    /// [`Self::stateless`] with capabilities.
    pub fn stateless_as(&mut self, name: &str, capabilities: Value) {
        let about = |key: &str| format!("io.modelcontextprotocol/{key}");
        self.meta = Map::from_iter([
            (about("protocolVersion"), json!("2026-07-28")),
            (about("clientInfo"), json!({"name": name, "version": "1"})),
            (about("clientCapabilities"), capabilities),
        ]);
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends raw bytes.
    pub fn send_bytes(&mut self, bytes: &[u8]) {
        let stdin = self.stdin.as_mut().expect("stdin is open");
        stdin.write_all(bytes).expect("the server reads");
    }

    pub fn send(&mut self, message: &Value) {
        self.send_bytes(format!("{message}\n").as_bytes());
    }

    /// Sends a request and returns the id, without waiting.
    pub fn send_request(&mut self, method: &str, mut params: Value) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        if !self.meta.is_empty() {
            let meta = params
                .as_object_mut()
                .expect("parameters are an object")
                .entry("_meta")
                .or_insert_with(|| json!({}));
            let meta = meta.as_object_mut().expect("_meta is an object");
            meta.extend(self.meta.clone());
        }
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        id
    }

    /// Sends a tool call and returns the id, without waiting.
    pub fn send_tool_call(&mut self, tool: &str, args: Value) -> u64 {
        self.send_request("tools/call", json!({"name": tool, "arguments": args}))
    }

    /// Waits for the complete response to a request.
    #[track_caller]
    pub fn response(&mut self, id: u64) -> Value {
        let deadline = Instant::now() + RESPONSE_TIMEOUT;
        loop {
            if let Some(answer) = self.responses.remove(&id) {
                return answer;
            }
            assert!(
                self.receive(deadline),
                "no answer to request {id} within {RESPONSE_TIMEOUT:?}"
            );
        }
    }

    /// Waits for the result of a request that must succeed.
    #[track_caller]
    pub fn result(&mut self, id: u64) -> Value {
        let mut response = self.response(id);
        assert!(response.get("error").is_none(), "{response}");
        response["result"].take()
    }

    /// Calls a tool and returns the reply. Both forms of the result must be equal.
    #[track_caller]
    pub fn call(&mut self, tool: &str, args: Value) -> Value {
        let id = self.send_tool_call(tool, args);
        let result = self.result(id);
        assert_ne!(result["isError"], json!(true), "{result}");
        facts(&result)
    }

    /// Calls a tool that must fail, and returns the error.
    #[track_caller]
    pub fn refused(&mut self, tool: &str, args: Value) -> fugue_api::Error {
        let id = self.send_tool_call(tool, args);
        let result = self.result(id);
        assert_eq!(result["isError"], json!(true), "{result}");
        serde_json::from_value(facts(&result)).expect("a refusal")
    }

    /// Waits for a notification with this method, and dequeues the notification.
    #[track_caller]
    pub fn notification(&mut self, method: &str, limit: Duration) -> Value {
        let deadline = Instant::now() + limit;
        loop {
            let found = self
                .notifications
                .iter()
                .position(|message| message["method"] == method);
            if let Some(at) = found {
                return self.notifications.remove(at);
            }
            assert!(self.receive(deadline), "no {method} within {limit:?}");
        }
    }

    /// Answers a request of the server, which was received as a notification.
    pub fn respond(&mut self, request: &Value, result: Value) {
        self.send(&json!({"jsonrpc": "2.0", "id": request["id"], "result": result}));
    }

    /// Whether a response to the request has arrived.
    pub fn is_answered(&mut self, id: u64) -> bool {
        while self.receive(Instant::now()) {}
        self.responses.contains_key(&id)
    }

    /// Closes the server's stdin, waits for the exit, and returns exit status and stderr.
    #[track_caller]
    pub fn end(mut self) -> (ExitStatus, String) {
        let ended = ProcessWaiter::of(self.child.id()).expect("it runs");
        self.stdin = None;
        ended.wait(RESPONSE_TIMEOUT);
        let status = self.child.wait().expect("a child can be waited for");
        let complaints = self.stderr.take().map(JoinHandle::join);
        (status, complaints.expect("asked once").unwrap_or_default())
    }

    /// Receives a message; false if the deadline passes first.
    fn receive(&mut self, deadline: Instant) -> bool {
        let left = deadline.saturating_duration_since(Instant::now());
        let message = match self.messages.recv_timeout(left) {
            Ok(message) => message,
            Err(RecvTimeoutError::Timeout) => return false,
            Err(RecvTimeoutError::Disconnected) => panic!("the server has closed its stdout"),
        };
        assert_eq!(message["jsonrpc"], "2.0", "on stdout: {message}");
        match message["id"].as_u64() {
            Some(id) if message.get("method").is_none() => {
                let twice = self.responses.insert(id, message);
                assert!(twice.is_none(), "two answers to request {id}");
            }
            _ => self.notifications.push(message),
        }
        true
    }
}

impl Drop for McpClient {
    fn drop(&mut self) {
        // Both fail only if the server has ended and was waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The reply of a tool call, which a result contains twice: as structure, and as the same JSON in text. An error has only
/// the text.
#[track_caller]
pub fn facts(result: &Value) -> Value {
    let text = result["content"][0]["text"].as_str().expect("a text part");
    let said: Value = serde_json::from_str(text).expect("the text is JSON");
    if result["isError"] == json!(true) {
        assert_eq!(result.get("structuredContent"), None, "{result}");
        return said;
    }
    assert_eq!(said, result["structuredContent"], "the two forms differ");
    assert_eq!(
        text,
        result["structuredContent"].to_string(),
        "word for word"
    );
    said
}
