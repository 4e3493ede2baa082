//! A server on loopback that answers like the providers of models do, by a script: what it is to say, in whichever of
//! the four APIs it is asked, or how it is to fail. It remembers every request.

use std::{
    collections::BTreeMap,
    io::{self, BufRead, BufReader, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Condvar, Mutex, MutexGuard},
    thread,
    time::Duration,
};

use serde_json::{Value, json};

/// What one request is answered with.
#[derive(Clone, Debug)]
pub enum AssessorReply {
    /// The model's words, in the form of the API that was asked.
    Words(String),
    /// An error of the API's, with this message.
    Error(u16, String),
    /// A body of this kind, whatever the API.
    Body(String),
    /// A body that never ends.
    Flood,
    /// Nothing, until the one who asked goes away.
    Silence,
    /// The connection is closed at once.
    HangUp,
}

/// One request, as it came in.
#[derive(Clone, Debug)]
pub struct AssessorRequest {
    pub path: String,
    /// By names in small letters.
    pub headers: BTreeMap<String, String>,
    pub body: Value,
}

/// A server that listens until it is dropped.
pub struct AssessorServer {
    address: SocketAddr,
    seen: Arc<Seen>,
}

#[derive(Default)]
struct Seen {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    requests: Vec<AssessorRequest>,
    /// Connections that were left alone and have gone away.
    left: usize,
    over: bool,
}

impl AssessorServer {
    /// Answers the first request with the first of the script, and so on; the last one again and again.
    pub fn start(script: Vec<AssessorReply>) -> Self {
        assert!(!script.is_empty(), "a server says something");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port on loopback");
        let address = listener.local_addr().expect("it has an address");
        let seen = Arc::new(Seen::default());
        let (log, script) = (seen.clone(), Arc::new(script));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if log.lock().over {
                    return;
                }
                let (log, script) = (log.clone(), script.clone());
                // A client that hangs up in the middle is its own business.
                thread::spawn(move || serve(stream, &script, &log));
            }
        });
        Self { address, seen }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Every request so far, in order.
    pub fn asked(&self) -> Vec<AssessorRequest> {
        self.seen.lock().requests.clone()
    }

    /// Returns when so many requests have come in.
    pub fn until_asked(&self, times: usize, limit: Duration) {
        self.seen
            .until(limit, "asked", |state| state.requests.len() >= times);
    }

    /// Returns when so many connections that got no answer were closed by the other side.
    pub fn until_left(&self, times: usize, limit: Duration) {
        self.seen.until(limit, "left", |state| state.left >= times);
    }
}

impl Drop for AssessorServer {
    fn drop(&mut self) {
        self.seen.lock().over = true;
        // The listener looks at it when somebody comes.
        let _ = TcpStream::connect(self.address);
    }
}

impl Seen {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nobody panics with it")
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.lock());
        self.changed.notify_all();
    }

    #[track_caller]
    fn until(&self, limit: Duration, what: &str, holds: impl Fn(&State) -> bool) {
        let waiting = self
            .changed
            .wait_timeout_while(self.lock(), limit, |state| !holds(state));
        let (state, waited) = waiting.expect("nobody panics with it");
        drop(state);
        assert!(!waited.timed_out(), "not {what} within {limit:?}");
    }
}

fn serve(stream: TcpStream, script: &[AssessorReply], seen: &Seen) -> io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut out = stream;
    let request = read(&mut reader)?;
    let api = Api::of(&request.path);
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
        (Some(AssessorReply::Words(words)), Some(api)) => {
            reply(&mut out, 200, &api.wrap(words).to_string())
        }
        (Some(AssessorReply::Error(status, message)), Some(api)) => {
            reply(&mut out, *status, &api.error(message).to_string())
        }
        (Some(AssessorReply::Body(body)), _) => reply(&mut out, 200, body),
        (Some(AssessorReply::Flood), _) => flood(&mut out),
        (Some(AssessorReply::Silence), _) => {
            // Reads until the other side is gone, by a close or by a reset.
            let _ = io::copy(&mut reader, &mut io::sink());
            seen.change(|state| state.left += 1);
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
enum Api {
    OpenAi,
    Anthropic,
    Gemini,
    Ollama,
}

impl Api {
    fn of(path: &str) -> Option<Self> {
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

fn read(reader: &mut impl BufRead) -> io::Result<AssessorRequest> {
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
