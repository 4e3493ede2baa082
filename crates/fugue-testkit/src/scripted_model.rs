//! A scripted model on the loopback interface, so that real agents can be tested without an account. Each reply makes
//! the next tool call of the script. Every request is recorded, as a real model would have received it.
//!
//! Implements the parts of the Anthropic Messages, OpenAI Responses and Gemini APIs that the agents' command lines use.

use std::{
    io::{self, BufRead, BufReader, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Condvar, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use serde_json::{Value, json};

/// A tool call of the script.
#[derive(Clone, Debug)]
pub struct ModelAction {
    /// The name under which the agent lists the tool: each agent names the tools of an MCP server differently.
    pub tool: String,
    pub namespace: Option<String>,
    pub input: Value,
}

/// A request to the model.
#[derive(Clone, Debug)]
pub struct ModelRequest {
    pub path: String,
    pub body: Value,
}

/// A server that listens until dropped.
pub struct ScriptedModel {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<ModelRequest>>>,
    over: Arc<AtomicBool>,
    gate: Arc<ReplyGate>,
}

/// Why the model refuses the requests of agents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelFailure {
    /// The request is invalid: status 400, which no agent repeats.
    BadRequest,
    /// The limit of an account is reached: status 429, which no agent repeats soon.
    UsageLimit,
}

/// The text of a request that is refused as invalid.
pub const BAD_REQUEST: &str = "the model is unwell";

/// Holds replies back while closed.
#[derive(Default)]
struct ReplyGate {
    held: Mutex<HeldReplies>,
    opened: Condvar,
    failure: Mutex<Option<ModelFailure>>,
}

/// The requests whose replies are held back.
#[derive(Default)]
enum HeldReplies {
    #[default]
    None,
    All,
    /// Requests that contain this text.
    Containing(String),
}

impl HeldReplies {
    fn holds(&self, body: &Value) -> bool {
        match self {
            Self::None => false,
            Self::All => true,
            Self::Containing(text) => told(body, text),
        }
    }
}

impl ReplyGate {
    fn pass(&self, body: &Value) {
        let held = self.held.lock().expect("nobody panics with it");
        let passed = self.opened.wait_while(held, |held| held.holds(body));
        drop(passed.expect("nobody panics with it"));
    }

    fn set(&self, held: HeldReplies) {
        *self.held.lock().expect("nobody panics with it") = held;
        self.opened.notify_all();
    }
}

/// The model's text when the script is done.
pub const SCRIPT_DONE: &str = "the script is done";

impl ScriptedModel {
    pub fn start(script: Vec<ModelAction>) -> Self {
        Self::with_turns(vec![script])
    }

    /// A script per turn: the calls of the second turn wait until the agent received a prompt after the first.
    pub fn with_turns(script: Vec<Vec<ModelAction>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port on loopback");
        let address = listener.local_addr().expect("it has an address");
        let asked = Arc::new(Mutex::new(Vec::new()));
        let over = Arc::new(AtomicBool::new(false));
        let gate = Arc::new(ReplyGate::default());
        let (log, stop, thinks) = (asked.clone(), over.clone(), gate.clone());
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if stop.load(Ordering::SeqCst) {
                    return;
                }
                let (script, log, gate) = (script.clone(), log.clone(), thinks.clone());
                // An agent may disconnect at any time.
                thread::spawn(move || serve(stream, &script, &log, &gate));
            }
        });
        Self {
            address,
            asked,
            over,
            gate,
        }
    }

    /// Holds back the replies to all agent requests from now on, until [`Self::release_replies`].
    pub fn hold_replies(&self) {
        self.gate.set(HeldReplies::All);
    }

    /// The same for requests that contain a text.
    pub fn hold_replies_to(&self, text: &str) {
        self.gate.set(HeldReplies::Containing(text.to_owned()));
    }

    /// Sends the replies that are held back, and all further replies at once.
    pub fn release_replies(&self) {
        self.gate.set(HeldReplies::None);
    }

    /// Refuses all requests of agents from now on, or none.
    pub fn fail(&self, failure: Option<ModelFailure>) {
        *self.gate.failure.lock().expect("nobody panics with it") = failure;
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// All requests so far, in order.
    pub fn requests(&self) -> Vec<ModelRequest> {
        self.asked.lock().expect("nobody panics with it").clone()
    }
}

impl Drop for ScriptedModel {
    fn drop(&mut self) {
        self.over.store(true, Ordering::SeqCst);
        self.release_replies();
        // The listener checks the flag when a connection arrives.
        let _ = TcpStream::connect(self.address);
    }
}

fn serve(
    stream: TcpStream,
    script: &[Vec<ModelAction>],
    log: &Mutex<Vec<ModelRequest>>,
    gate: &ReplyGate,
) -> io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut out = stream;
    // One request per connection: agents connect again.
    let (method, path, body) = read_request(&mut reader)?;
    if method != "POST" {
        return write_json(
            &mut out,
            &json!({"data": [], "models": [], "object": "list", "has_more": false}),
        );
    }
    let asked = ModelRequest {
        path: path.clone(),
        body,
    };
    let number = {
        let mut log = log.lock().expect("nobody panics with it");
        log.push(asked.clone());
        log.len()
    };
    if path.contains("count_tokens") || path.contains("countTokens") {
        return write_json(&mut out, &json!({"input_tokens": 100, "totalTokens": 100}));
    }
    if asked.body.get("tools").is_some() {
        gate.pass(&asked.body);
        let failure = *gate.failure.lock().expect("nobody panics with it");
        if let Some(failure) = failure {
            return failure.write(&mut out, &path);
        }
    }
    let turn = ScriptedReply {
        number,
        next: next_call(script, &asked.body),
    };
    if path.contains("/messages") {
        turn.anthropic(&mut out, &asked.body)
    } else if path.contains("/responses") {
        turn.openai(&mut out)
    } else if path.to_lowercase().contains("generatecontent") {
        turn.gemini(&mut out, path.contains("stream"))
    } else {
        write!(
            out,
            "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
        )
    }
}

/// The call after all calls whose results are in the request. A request without tools is internal to the agent.
fn next_call<'a>(script: &'a [Vec<ModelAction>], body: &Value) -> Option<&'a ModelAction> {
    body.get("tools")?;
    let turns_over = body.to_string().matches(SCRIPT_DONE).count();
    let mut so_far = script.iter().take(turns_over + 1).flatten();
    so_far.nth(tool_results(body).len())
}

/// The tool results in a request of any of the APIs, in order, as the model receives them.
pub fn tool_results(body: &Value) -> Vec<Value> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let mut found = Vec::new();
    for message in list(&body["messages"]) {
        let parts = list(&message["content"]).into_iter();
        found.extend(parts.filter(|part| part["type"] == "tool_result"));
    }
    for item in list(&body["input"]) {
        if item["type"]
            .as_str()
            .is_some_and(|kind| kind.ends_with("call_output"))
        {
            found.push(item);
        }
    }
    for message in list(&body["contents"]) {
        let parts = list(&message["parts"]).into_iter();
        found.extend(parts.filter_map(|part| part.get("functionResponse").cloned()));
    }
    found
}

/// Whether a request contains the whole text.
pub fn told(body: &Value, text: &str) -> bool {
    match body {
        Value::String(said) => said.contains(text),
        Value::Array(items) => items.iter().any(|item| told(item, text)),
        Value::Object(fields) => fields.values().any(|field| told(field, text)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// A reply of the model.
struct ScriptedReply<'a> {
    number: usize,
    next: Option<&'a ModelAction>,
}

impl ScriptedReply<'_> {
    fn anthropic(&self, out: &mut impl Write, body: &Value) -> io::Result<()> {
        let number = self.number;
        let (block, delta, stop) = match self.next {
            Some(call) => (
                json!({"type": "tool_use", "id": format!("toolu_{number:04}"), "name": call.tool, "input": {}}),
                json!({"type": "input_json_delta", "partial_json": call.input.to_string()}),
                "tool_use",
            ),
            None => (
                json!({"type": "text", "text": ""}),
                json!({"type": "text_delta", "text": SCRIPT_DONE}),
                "end_turn",
            ),
        };
        let usage = json!({"input_tokens": 10, "output_tokens": 1, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0});
        let mut message = json!({
            "id": format!("msg_{number:04}"), "type": "message", "role": "assistant", "model": body["model"],
            "content": [], "stop_reason": null, "stop_sequence": null, "usage": usage,
        });
        if body["stream"] != json!(true) {
            let mut block = block;
            match self.next {
                Some(call) => block["input"] = call.input.clone(),
                None => block["text"] = json!(SCRIPT_DONE),
            }
            message["content"] = json!([block]);
            message["stop_reason"] = json!(stop);
            return write_json(out, &message);
        }
        write_events(
            out,
            &[
                json!({"type": "message_start", "message": message}),
                json!({"type": "content_block_start", "index": 0, "content_block": block}),
                json!({"type": "content_block_delta", "index": 0, "delta": delta}),
                json!({"type": "content_block_stop", "index": 0}),
                json!({"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": null}, "usage": {"output_tokens": 20}}),
                json!({"type": "message_stop"}),
            ],
        )
    }

    fn openai(&self, out: &mut impl Write) -> io::Result<()> {
        let number = self.number;
        let item = match self.next {
            Some(call) => {
                let mut item = json!({
                    "type": "function_call", "id": format!("fc_{number}"), "call_id": format!("call_{number:04}"),
                    "name": call.tool, "arguments": call.input.to_string(),
                });
                if let Some(namespace) = &call.namespace {
                    item["namespace"] = json!(namespace);
                }
                item
            }
            None => json!({
                "type": "message", "id": format!("m_{number}"), "role": "assistant",
                "content": [{"type": "output_text", "text": SCRIPT_DONE}],
            }),
        };
        let id = format!("resp_{number:04}");
        let usage = json!({
            "input_tokens": 10, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 5,
            "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 15,
        });
        write_events(
            out,
            &[
                json!({"type": "response.created", "response": {"id": id}}),
                json!({"type": "response.output_item.done", "item": item}),
                json!({"type": "response.completed", "response": {"id": id, "usage": usage}}),
            ],
        )
    }

    fn gemini(&self, out: &mut impl Write, streamed: bool) -> io::Result<()> {
        let part = match self.next {
            Some(call) => json!({"functionCall": {"name": call.tool, "args": call.input}}),
            None => json!({"text": SCRIPT_DONE}),
        };
        let answer = json!({
            "candidates": [{"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}],
            "usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15},
            "modelVersion": "scripted",
        });
        if streamed {
            write_events(out, &[answer])
        } else {
            write_json(out, &answer)
        }
    }
}

impl ModelFailure {
    /// The error of the API that the path belongs to.
    fn write(self, out: &mut impl Write, path: &str) -> io::Result<()> {
        let (status, kind) = match self {
            Self::BadRequest => (400, "invalid_request_error"),
            Self::UsageLimit => (429, "rate_limit_error"),
        };
        let body = if path.contains("/messages") {
            let message = match self {
                Self::BadRequest => BAD_REQUEST,
                Self::UsageLimit => "the usage limit of this account is reached",
            };
            json!({"type": "error", "error": {"type": kind, "message": message}})
        } else if path.contains("/responses") {
            match self {
                Self::BadRequest => json!({"error": {"type": kind, "message": BAD_REQUEST}}),
                // Ten years from the time of writing, so that it is ahead of any test.
                Self::UsageLimit => json!({"error": {
                    "type": "usage_limit_reached", "message": "The usage limit has been reached",
                    "plan_type": "plus", "resets_at": 2_100_000_000,
                }}),
            }
        } else {
            match self {
                Self::BadRequest => json!({"error": {
                    "code": 400, "message": BAD_REQUEST, "status": "INVALID_ARGUMENT",
                }}),
                Self::UsageLimit => json!({"error": {
                    "code": 429, "status": "RESOURCE_EXHAUSTED",
                    "message": "You exceeded your current quota, please check your plan and billing details.",
                    "details": [{
                        "@type": "type.googleapis.com/google.rpc.QuotaFailure",
                        "violations": [{"quotaId": "GenerateRequestsPerDayPerProjectPerModel"}],
                    }],
                }}),
            }
        };
        let body = body.to_string();
        let length = body.len();
        write!(
            out,
            "HTTP/1.1 {status} Refused\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\
             x-should-retry: false\r\nconnection: close\r\n\r\n{body}"
        )
    }
}

fn write_json(out: &mut impl Write, body: &Value) -> io::Result<()> {
    let body = body.to_string();
    let length = body.len();
    write!(
        out,
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
    )
}

/// Writes a stream of server-sent events, named by `type` if present, and ended by the end of the connection.
fn write_events(out: &mut impl Write, events: &[Value]) -> io::Result<()> {
    let mut text = String::from(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n",
    );
    for event in events {
        if let Some(name) = event["type"].as_str() {
            text.push_str(&format!("event: {name}\n"));
        }
        text.push_str(&format!("data: {event}\n\n"));
    }
    out.write_all(text.as_bytes())
}

fn read_request(reader: &mut impl BufRead) -> io::Result<(String, String, Value)> {
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let mut words = line.split_whitespace();
    let method = words.next().unwrap_or_default().to_owned();
    let path = words.next().unwrap_or_default().to_owned();
    let mut length = 0;
    let mut chunked = false;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(':') else {
            break;
        };
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.trim().parse().unwrap_or(0),
            "transfer-encoding" => chunked = value.to_ascii_lowercase().contains("chunked"),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    if chunked {
        body = read_chunks(reader)?;
    } else {
        reader.read_exact(&mut body)?;
    }
    // A compressed body would be new behaviour of an agent; the test that searches for the text would fail.
    Ok((
        method,
        path,
        serde_json::from_slice(&body).unwrap_or_default(),
    ))
}

fn read_chunks(reader: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let size = usize::from_str_radix(line.trim(), 16).unwrap_or(0);
        let mut chunk = vec![0; size + 2];
        reader.read_exact(&mut chunk)?;
        if size == 0 {
            return Ok(body);
        }
        body.extend_from_slice(&chunk[..size]);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    fn ask(model: &ScriptedModel, path: &str, body: &Value) -> String {
        let mut stream = TcpStream::connect(model.address).unwrap();
        let body = body.to_string();
        write!(
            stream,
            "POST {path} HTTP/1.1\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
        let mut said = String::new();
        stream.read_to_string(&mut said).unwrap();
        said
    }

    #[test]
    fn a_model_that_fails_refuses_requests_until_it_recovers() {
        let model = ScriptedModel::start(Vec::new());
        let prompt = json!({"tools": [], "messages": []});
        model.fail(Some(ModelFailure::UsageLimit));
        for path in ["/v1/messages", "/v1/responses", "/v1beta/x:generateContent"] {
            assert!(ask(&model, path, &prompt).starts_with("HTTP/1.1 429"));
        }
        model.fail(Some(ModelFailure::BadRequest));
        assert!(ask(&model, "/v1/messages", &prompt).contains(BAD_REQUEST));
        model.fail(None);
        assert!(ask(&model, "/v1/messages", &prompt).contains(SCRIPT_DONE));
    }

    #[test]
    fn each_turn_makes_the_next_call_and_then_it_is_done() {
        let model = ScriptedModel::start(vec![ModelAction {
            tool: "look".to_owned(),
            namespace: None,
            input: json!({"at": "p1"}),
        }]);
        let first = json!({"tools": [], "stream": true, "messages": []});
        let said = ask(&model, "/v1/messages", &first);
        assert!(
            said.contains("tool_use") && said.contains(r#"{\"at\":\"p1\"}"#),
            "{said}"
        );
        let second = json!({"tools": [], "messages": [{"role": "user", "content": [{"type": "tool_result", "content": "seen"}]}]});
        assert!(ask(&model, "/v1/messages", &second).contains(SCRIPT_DONE));
        assert!(ask(&model, "/v1/messages", &json!({"messages": []})).contains(SCRIPT_DONE));
        let asked = model.requests();
        assert_eq!(asked.len(), 3);
        assert_eq!(tool_results(&asked[1].body).len(), 1);
    }
}
