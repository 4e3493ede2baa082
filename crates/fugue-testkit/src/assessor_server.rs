//! A server on the loopback interface that imitates the providers of models, from a script: replies in the format of
//! whichever of the four APIs is called, or failures. Every request is recorded.

use std::{
    collections::BTreeMap,
    io::{self, BufRead, BufReader, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Condvar, Mutex, MutexGuard},
    thread,
    time::Duration,
};

use serde_json::{Value, json};

/// The reply to a request.
#[derive(Clone, Debug)]
pub enum AssessorReply {
    /// A text of the model, in the format of the called API.
    Text(String),
    /// An error of the API, with this status and message.
    Error(u16, String),
    /// This body, for any API.
    Body(String),
    /// A body that never ends.
    Flood,
    /// No reply, until the client disconnects.
    Silence,
    /// The connection is closed at once.
    HangUp,
}

/// A request, as received.
#[derive(Clone, Debug)]
pub struct AssessorRequest {
    pub path: String,
    /// Names in lower case.
    pub headers: BTreeMap<String, String>,
    pub body: Value,
}

/// A server that listens until dropped.
pub struct AssessorServer {
    address: SocketAddr,
    log: Arc<RequestLog>,
}

#[derive(Default)]
struct RequestLog {
    state: Mutex<RequestLogState>,
    changed: Condvar,
}

#[derive(Default)]
struct RequestLogState {
    requests: Vec<AssessorRequest>,
    /// Connections without a reply that the client has closed.
    disconnects: usize,
    stopped: bool,
}

impl AssessorServer {
    /// Answers the first request with the first reply of the script, and so on; the last reply is repeated.
    pub fn start(script: Vec<AssessorReply>) -> Self {
        assert!(!script.is_empty(), "a script has a reply");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port on loopback");
        let address = listener.local_addr().expect("it has an address");
        let log = Arc::new(RequestLog::default());
        let (shared_log, script) = (log.clone(), Arc::new(script));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if shared_log.lock().stopped {
                    return;
                }
                let (log, script) = (shared_log.clone(), script.clone());
                // A client may disconnect at any time.
                thread::spawn(move || serve(stream, &script, &log));
            }
        });
        Self { address, log }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// All requests so far, in order.
    pub fn requests(&self) -> Vec<AssessorRequest> {
        self.log.lock().requests.clone()
    }

    /// Waits for this number of requests.
    pub fn wait_for_requests(&self, times: usize, limit: Duration) {
        self.log
            .until(limit, "asked", |state| state.requests.len() >= times);
    }

    /// Waits until clients have closed this number of connections that received no reply.
    pub fn wait_for_disconnects(&self, times: usize, limit: Duration) {
        self.log
            .until(limit, "left", |state| state.disconnects >= times);
    }
}

impl Drop for AssessorServer {
    fn drop(&mut self) {
        self.log.lock().stopped = true;
        // The listener checks the flag when a connection arrives.
        let _ = TcpStream::connect(self.address);
    }
}

impl RequestLog {
    fn lock(&self) -> MutexGuard<'_, RequestLogState> {
        self.state.lock().expect("nobody panics with it")
    }

    fn change(&self, change: impl FnOnce(&mut RequestLogState)) {
        change(&mut self.lock());
        self.changed.notify_all();
    }

    #[track_caller]
    fn until(&self, limit: Duration, what: &str, holds: impl Fn(&RequestLogState) -> bool) {
        let waiting = self
            .changed
            .wait_timeout_while(self.lock(), limit, |state| !holds(state));
        let (state, waited) = waiting.expect("nobody panics with it");
        drop(state);
        assert!(!waited.timed_out(), "not {what} within {limit:?}");
    }
}

fn serve(stream: TcpStream, script: &[AssessorReply], seen: &RequestLog) -> io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut out = stream;
    let request = read_request(&mut reader)?;
    let api = AssessorApi::from_path(&request.path);
    let mut number = 0;
    seen.change(|state| {
        number = state.requests.len();
        state.requests.push(request);
    });
    let says = script.get(number).or(script.last());
    match (says, api) {
        (_, None) => reply(
            &mut out,
            404,
            &json!({"error": {"message": "no such path"}}).to_string(),
        ),
        (Some(AssessorReply::Text(words)), Some(api)) => {
            reply(&mut out, 200, &api.wrap(words).to_string())
        }
        (Some(AssessorReply::Error(status, message)), Some(api)) => {
            reply(&mut out, *status, &api.error(message).to_string())
        }
        (Some(AssessorReply::Body(body)), _) => reply(&mut out, 200, body),
        (Some(AssessorReply::Flood), _) => flood(&mut out),
        (Some(AssessorReply::Silence), _) => {
            // Reads until the client has disconnected, by a close or by a reset.
            let _ = io::copy(&mut reader, &mut io::sink());
            seen.change(|state| state.disconnects += 1);
            Ok(())
        }
        (Some(AssessorReply::HangUp) | None, _) => Ok(()),
    }
}

fn reply(out: &mut impl Write, status: u16, body: &str) -> io::Result<()> {
    let length = body.len();
    write!(
        out,
        "HTTP/1.1 {status} Scripted\r\ncontent-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
    )
}

fn flood(out: &mut impl Write) -> io::Result<()> {
    write!(out, "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n")?;
    loop {
        out.write_all(&[b'x'; 8192])?;
    }
}

#[derive(Clone, Copy)]
enum AssessorApi {
    OpenAi,
    Anthropic,
    Gemini,
    Ollama,
}

impl AssessorApi {
    fn from_path(path: &str) -> Option<Self> {
        [
            ("/chat/completions", Self::OpenAi),
            ("/v1/messages", Self::Anthropic),
            (":generateContent", Self::Gemini),
            ("/api/chat", Self::Ollama),
        ]
        .into_iter()
        .find_map(|(end, api)| path.ends_with(end).then_some(api))
    }

    fn wrap(self, words: &str) -> Value {
        match self {
            Self::OpenAi => json!({
                "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "scripted",
                "choices": [{
                    "index": 0, "finish_reason": "stop", "logprobs": null,
                    "message": {"role": "assistant", "content": words, "refusal": null},
                }],
                "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
            }),
            Self::Anthropic => json!({
                "id": "msg_1", "type": "message", "role": "assistant", "model": "scripted",
                "content": [{"type": "thinking", "thinking": "hm", "signature": "s"}, {"type": "text", "text": words}],
                "stop_reason": "end_turn", "stop_sequence": null,
                "usage": {"input_tokens": 10, "output_tokens": 5},
            }),
            Self::Gemini => json!({
                "candidates": [{
                    "content": {"role": "model", "parts": [{"text": "hm", "thought": true}, {"text": words}]},
                    "finishReason": "STOP", "index": 0,
                }],
                "usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15},
                "modelVersion": "scripted",
            }),
            Self::Ollama => json!({
                "model": "scripted", "created_at": "2026-11-01T00:00:00Z",
                "message": {"role": "assistant", "content": words},
                "done": true, "done_reason": "stop",
            }),
        }
    }

    fn error(self, message: &str) -> Value {
        match self {
            Self::OpenAi => {
                json!({"error": {"message": message, "type": "server_error", "code": null}})
            }
            Self::Anthropic => {
                json!({"type": "error", "error": {"type": "api_error", "message": message}})
            }
            Self::Gemini => {
                json!({"error": {"code": 500, "message": message, "status": "INTERNAL"}})
            }
            Self::Ollama => json!({"error": message}),
        }
    }
}

fn read_request(reader: &mut impl BufRead) -> io::Result<AssessorRequest> {
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let path = line
        .split_whitespace()
        .nth(1)
        .unwrap_or_default()
        .to_owned();
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(':') else {
            break;
        };
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    let length = headers
        .get("content-length")
        .and_then(|length| length.parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    reader.read_exact(&mut body)?;
    Ok(AssessorRequest {
        path,
        headers,
        body: serde_json::from_slice(&body).unwrap_or_default(),
    })
}
