//! A minimal attach client: one socket with many open requests.

use std::{
    collections::{HashMap, VecDeque},
    io::{Read, Write},
    os::unix::net::UnixStream,
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use fugue_api::{
    Error, OsText, PaneId, SessionName,
    attach::{
        AttachRequest, AttachResponse, ClientId, Frame, FrameHead, FrameRow, LayoutChange,
        PaneLines, SessionLayout, StyledSpan, ViewerRole,
    },
    tools::PaneSize,
    wire::{self, ClientMessage, DaemonMessage, IdempotencyKey, Request, Response},
};
use fugue_testkit::TestEnv;
use serde::{Serialize, de::DeserializeOwned};

const RESPONSE_TIMEOUT: Duration = Duration::from_secs(30);

pub struct AttachClient {
    stream: UnixStream,
    pub client: ClientId,
    next_id: u64,
    responses: HashMap<u64, VecDeque<Result<Response, Error>>>,
    /// The view of each pane.
    drawn: HashMap<PaneId, ViewedPane>,
}

/// The view of a pane, built from its frames.
#[derive(Clone)]
pub struct ViewedPane {
    pub frame: Frame,
    pub head: FrameHead,
    pub rows: Vec<String>,
    /// The number of rows in the last frame.
    pub changed_rows: usize,
}

pub fn room(rows: u16, cols: u16) -> PaneSize {
    PaneSize { rows, cols }
}

pub fn main_session() -> SessionName {
    SessionName(SessionName::MAIN.into())
}

impl AttachClient {
    pub fn new(test_env: &TestEnv) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let client = ClientId(NEXT.fetch_add(1, Ordering::Relaxed) << 8);
        Self::reconnect(test_env, client)
    }

    /// Connects the same client again, after its daemon died.
    pub fn reconnect(test_env: &TestEnv, client: ClientId) -> Self {
        let stream = UnixStream::connect(test_env.daemon().socket).expect("the daemon's socket");
        stream
            .set_read_timeout(Some(RESPONSE_TIMEOUT))
            .expect("a limit");
        let mut viewer = Self {
            stream,
            client,
            next_id: 1,
            responses: HashMap::new(),
            drawn: HashMap::new(),
        };
        viewer.send(&wire::Hello {
            protocol: wire::PROTOCOL,
            caller: wire::CallerEnv {
                cwd: OsText::Text("/".into()),
                env: Vec::new(),
                umask: 0o022,
                setting_names: wire::SettingNames::Prefixed,
            },
            who: wire::CallerIdentity::Person {
                project: "attach".into(),
            },
        });
        let welcome: Option<wire::Welcome> = viewer.receive();
        assert!(welcome.is_some(), "the daemon bids welcome");
        viewer
    }

    fn send(&mut self, message: &impl Serialize) {
        self.try_send(message).expect("the daemon listens");
    }

    fn try_send(&mut self, message: &impl Serialize) -> std::io::Result<()> {
        let json = serde_json::to_vec(message).expect("JSON");
        let mut bytes = (json.len() as u32).to_le_bytes().to_vec();
        bytes.extend(json);
        self.stream.write_all(&bytes)
    }

    /// `None`: read timeout, or the connection was closed.
    fn receive<T: DeserializeOwned>(&mut self) -> Option<T> {
        let mut length = [0; 4];
        self.stream.read_exact(&mut length).ok()?;
        let mut json = vec![0; u32::from_le_bytes(length) as usize];
        self.stream.read_exact(&mut json).ok()?;
        Some(serde_json::from_slice(&json).expect("a frame of ours"))
    }

    pub fn request(&mut self, look: AttachRequest) -> u64 {
        self.request_keyed(look, None)
    }

    pub fn request_keyed(&mut self, request: AttachRequest, key: Option<IdempotencyKey>) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        let mut own = [0; 16];
        own[..8].copy_from_slice(&id.to_le_bytes());
        own[8..].copy_from_slice(&self.client.0.to_le_bytes());
        self.send(&ClientMessage::Call {
            id,
            key: key.unwrap_or(IdempotencyKey(own)),
            who: None,
            request: Request::Attach { request },
        });
        id
    }

    /// Sends a tool call with this idempotency key.
    pub fn call(&mut self, tool: &str, args: serde_json::Value, key: IdempotencyKey) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        let call = fugue_api::ToolCall::parse(tool, args).expect("a good request");
        self.send(&ClientMessage::Call {
            id,
            key,
            who: None,
            request: Request::Tool { call },
        });
        id
    }

    pub fn cancel(&mut self, id: u64) {
        self.send(&ClientMessage::Cancel { id });
    }

    pub fn response(&mut self, id: u64) -> Result<Response, Error> {
        let until = Instant::now() + RESPONSE_TIMEOUT;
        loop {
            if let Some(answer) = self.responses.get_mut(&id).and_then(VecDeque::pop_front) {
                return answer;
            }
            assert!(Instant::now() < until, "no response to {id}");
            if !self.receive_response() {
                panic!("no response to {id}");
            }
        }
    }

    fn has_response(&self, id: u64) -> bool {
        self.responses
            .get(&id)
            .is_some_and(|answers| !answers.is_empty())
    }

    fn receive_response(&mut self) -> bool {
        match self.receive::<DaemonMessage>() {
            Some(DaemonMessage::Response { id, response, .. }) => {
                self.responses.entry(id).or_default().push_back(response);
                true
            }
            Some(DaemonMessage::Goodbye) => true,
            None => false,
        }
    }

    /// Whether a request has a response once all earlier requests were handled.
    pub fn is_answered(&mut self, id: u64) -> bool {
        let later = self.request(AttachRequest::SetSize {
            client: ClientId(u64::MAX),
            room: room(1, 1),
        });
        let _ = self.response(later);
        self.has_response(id)
    }

    /// Whether a frame request still gets a response.
    pub fn is_connected(&mut self, pane: PaneId) -> bool {
        let (id, client) = (self.next_id, self.client);
        self.next_id += 1;
        let seen = 0;
        let request = AttachRequest::GetFrame { client, pane, seen };
        let call = ClientMessage::Call {
            id,
            key: IdempotencyKey([0; 16]),
            who: None,
            request: Request::Attach { request },
        };
        if self.try_send(&call).is_err() {
            return false;
        }
        while !self.has_response(id) {
            if !self.receive_response() {
                return false;
            }
        }
        true
    }

    /// Whether the daemon has closed the connection.
    pub fn is_disconnected(&mut self) -> bool {
        let mut one = [0];
        matches!(self.stream.read(&mut one), Ok(0) | Err(_))
    }

    pub fn acknowledged(&mut self, look: AttachRequest) {
        let id = self.request(look);
        assert_eq!(self.response(id), Ok(Response::Done));
    }

    pub fn refused(&mut self, look: AttachRequest) -> Error {
        let id = self.request(look);
        self.response(id).expect_err("it is refused")
    }

    pub fn attend(&mut self, session: SessionName, room: PaneSize, role: ViewerRole) -> u64 {
        let client = self.client;
        self.request(AttachRequest::JoinSession {
            client,
            session,
            room,
            role,
        })
    }

    pub fn request_layout(&mut self, seen: u64) -> u64 {
        let session = main_session();
        self.request(AttachRequest::GetLayout { session, seen })
    }

    pub fn layout(&mut self, id: u64) -> SessionLayout {
        match self.response(id) {
            Ok(Response::Attach {
                response:
                    AttachResponse::Layout {
                        layout: arrangement,
                    },
            }) => arrangement,
            other => panic!("{other:?}"),
        }
    }

    /// Waits until the layout of the main session is as wanted.
    pub fn until_layout(&mut self, wanted: impl Fn(&SessionLayout) -> bool) -> SessionLayout {
        let mut seen = 0;
        loop {
            let id = self.request_layout(seen);
            let now = self.layout(id);
            if wanted(&now) {
                return now;
            }
            seen = now.version;
        }
    }

    pub fn change_layout(&mut self, change: LayoutChange) {
        let session = main_session();
        self.acknowledged(AttachRequest::ChangeLayout { session, change });
    }

    pub fn type_keys(&mut self, pane: PaneId, keys: &str) {
        let client = self.client;
        self.acknowledged(AttachRequest::Type {
            client,
            pane,
            bytes: keys.as_bytes().to_vec(),
        });
    }

    pub fn request_frame(&mut self, pane: PaneId, seen: u64) -> u64 {
        let client = self.client;
        self.request(AttachRequest::GetFrame { client, pane, seen })
    }

    pub fn frame(&mut self, id: u64) -> Frame {
        match self.response(id) {
            Ok(Response::Attach {
                response: AttachResponse::Frame { frame },
            }) => *frame,
            other => panic!("{other:?}"),
        }
    }

    /// Requests the next frame and applies it.
    pub fn view(&mut self, pane: PaneId) -> ViewedPane {
        let seen = self.drawn.get(&pane).map_or(0, |drawn| drawn.frame.number);
        let id = self.request_frame(pane, seen);
        let frame = self.frame(id);
        self.draw(pane, frame)
    }

    pub fn draw(&mut self, pane: PaneId, frame: Frame) -> ViewedPane {
        let before = self.drawn.get(&pane);
        let head = frame
            .head
            .clone()
            .or(before.map(|drawn| drawn.head.clone()));
        let head = head.expect("the first frame has all");
        let height = usize::from(head.size.rows);
        let mut rows = match before {
            Some(drawn) if !frame.whole => drawn.rows.clone(),
            _ => vec![String::new(); height],
        };
        assert_eq!(rows.len(), height, "a screen of another size comes whole");
        for FrameRow(row, spans) in &frame.rows {
            rows[usize::from(*row)] = text(spans);
        }
        let drawn = ViewedPane {
            changed_rows: frame.rows.len(),
            frame,
            head,
            rows,
        };
        self.drawn.insert(pane, drawn.clone());
        drawn
    }

    /// Requests frames until the screen is as wanted.
    pub fn until(&mut self, pane: PaneId, wanted: impl Fn(&ViewedPane) -> bool) -> ViewedPane {
        if let Some(drawn) = self.drawn.get(&pane).filter(|drawn| wanted(drawn)) {
            return drawn.clone();
        }
        loop {
            let drawn = self.view(pane);
            if wanted(&drawn) {
                return drawn;
            }
            assert!(!drawn.head.ended, "{:?}", drawn.rows);
        }
    }

    pub fn lines(&mut self, pane: PaneId, from: u64, most: u32) -> PaneLines {
        let id = self.request(AttachRequest::ReadLines { pane, from, most });
        match self.response(id) {
            Ok(Response::Attach {
                response: AttachResponse::Lines { lines },
            }) => lines,
            other => panic!("{other:?}"),
        }
    }

    pub fn overview_version(&mut self, id: u64) -> u64 {
        match self.response(id) {
            Ok(Response::Attach {
                response: AttachResponse::Overview { version },
            }) => version,
            other => panic!("{other:?}"),
        }
    }
}

pub fn text(spans: &[StyledSpan]) -> String {
    spans.iter().map(|span| span.0.as_str()).collect()
}

impl ViewedPane {
    pub fn shows(&self, what: &str) -> bool {
        self.rows.iter().any(|row| row.contains(what))
    }
}

impl AttachClient {
    /// The number of the last frame of a pane.
    pub fn view_number(&self, pane: PaneId) -> u64 {
        self.drawn.get(&pane).map_or(0, |drawn| drawn.frame.number)
    }
}
