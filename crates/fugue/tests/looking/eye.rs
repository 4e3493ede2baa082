//! A client that looks on, as plain as can be: one socket, many questions.

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

const PATIENCE: Duration = Duration::from_secs(30);

pub struct Eye {
    stream: UnixStream,
    pub client: ClientId,
    next_id: u64,
    heard: HashMap<u64, VecDeque<Result<Response, Error>>>,
    /// What the client has drawn so far, by pane.
    drawn: HashMap<PaneId, Drawn>,
}

/// A pane as the client has it.
#[derive(Clone)]
pub struct Drawn {
    pub frame: Frame,
    pub head: FrameHead,
    pub rows: Vec<String>,
    /// How many rows came with the last frame.
    pub came: usize,
}

pub fn room(rows: u16, cols: u16) -> PaneSize {
    PaneSize { rows, cols }
}

pub fn main_session() -> SessionName {
    SessionName(SessionName::MAIN.into())
}

impl Eye {
    pub fn new(world: &TestEnv) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let client = ClientId(NEXT.fetch_add(1, Ordering::Relaxed) << 8);
        Self::again(world, client)
    }

    /// The same client, after its daemon died.
    pub fn again(world: &TestEnv, client: ClientId) -> Self {
        let stream = UnixStream::connect(world.daemon().socket).expect("the daemon's socket");
        stream.set_read_timeout(Some(PATIENCE)).expect("a limit");
        let mut eye = Self {
            stream,
            client,
            next_id: 1,
            heard: HashMap::new(),
            drawn: HashMap::new(),
        };
        eye.say(&wire::Hello {
            protocol: wire::PROTOCOL,
            caller: wire::CallerEnv {
                cwd: OsText::Text("/".into()),
                env: Vec::new(),
                umask: 0o022,
                setting_names: wire::SettingNames::Prefixed,
            },
            who: wire::CallerIdentity::Person {
                project: "looking".into(),
            },
        });
        let welcome: Option<wire::Welcome> = eye.receive();
        assert!(welcome.is_some(), "the daemon bids welcome");
        eye
    }

    fn say(&mut self, message: &impl Serialize) {
        self.try_say(message).expect("the daemon listens");
    }

    fn try_say(&mut self, message: &impl Serialize) -> std::io::Result<()> {
        let json = serde_json::to_vec(message).expect("JSON");
        let mut bytes = (json.len() as u32).to_le_bytes().to_vec();
        bytes.extend(json);
        self.stream.write_all(&bytes)
    }

    /// `None`: nothing came within the socket's limit, or the daemon is gone.
    fn receive<T: DeserializeOwned>(&mut self) -> Option<T> {
        let mut length = [0; 4];
        self.stream.read_exact(&mut length).ok()?;
        let mut json = vec![0; u32::from_le_bytes(length) as usize];
        self.stream.read_exact(&mut json).ok()?;
        Some(serde_json::from_slice(&json).expect("a frame of ours"))
    }

    pub fn ask(&mut self, look: AttachRequest) -> u64 {
        self.ask_keyed(look, None)
    }

    pub fn ask_keyed(&mut self, look: AttachRequest, key: Option<IdempotencyKey>) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        let mut own = [0; 16];
        own[..8].copy_from_slice(&id.to_le_bytes());
        own[8..].copy_from_slice(&self.client.0.to_le_bytes());
        self.say(&ClientMessage::Call {
            id,
            key: key.unwrap_or(IdempotencyKey(own)),
            who: None,
            ask: Request::Look { look },
        });
        id
    }

    /// A tool call, by the key that it has.
    pub fn call(&mut self, tool: &str, args: serde_json::Value, key: IdempotencyKey) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        let call = fugue_api::ToolCall::parse(tool, args).expect("a good request");
        self.say(&ClientMessage::Call {
            id,
            key,
            who: None,
            ask: Request::Tool { call },
        });
        id
    }

    pub fn cancel(&mut self, id: u64) {
        self.say(&ClientMessage::Cancel { id });
    }

    pub fn answer(&mut self, id: u64) -> Result<Response, Error> {
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(answer) = self.heard.get_mut(&id).and_then(VecDeque::pop_front) {
                return answer;
            }
            assert!(Instant::now() < until, "no answer to {id}");
            if !self.hear() {
                panic!("no answer to {id} came");
            }
        }
    }

    fn has_heard(&self, id: u64) -> bool {
        self.heard
            .get(&id)
            .is_some_and(|answers| !answers.is_empty())
    }

    fn hear(&mut self) -> bool {
        match self.receive::<DaemonMessage>() {
            Some(DaemonMessage::Answer { id, answer, .. }) => {
                self.heard.entry(id).or_default().push_back(answer);
                true
            }
            Some(DaemonMessage::Goodbye) => true,
            None => false,
        }
    }

    /// Whether a question is answered once everything that was asked before has been.
    pub fn is_answered(&mut self, id: u64) -> bool {
        let behind = self.ask(AttachRequest::Fit {
            client: ClientId(u64::MAX),
            room: room(1, 1),
        });
        let _ = self.answer(behind);
        self.has_heard(id)
    }

    /// Whether a look at a pane is still answered, or the daemon has hung up.
    pub fn is_heard(&mut self, pane: PaneId) -> bool {
        let (id, client) = (self.next_id, self.client);
        self.next_id += 1;
        let seen = 0;
        let look = AttachRequest::View { client, pane, seen };
        let call = ClientMessage::Call {
            id,
            key: IdempotencyKey([0; 16]),
            who: None,
            ask: Request::Look { look },
        };
        if self.try_say(&call).is_err() {
            return false;
        }
        while !self.has_heard(id) {
            if !self.hear() {
                return false;
            }
        }
        true
    }

    /// The daemon has hung up.
    pub fn is_cut_off(&mut self) -> bool {
        let mut one = [0];
        matches!(self.stream.read(&mut one), Ok(0) | Err(_))
    }

    pub fn noted(&mut self, look: AttachRequest) {
        let id = self.ask(look);
        assert_eq!(self.answer(id), Ok(Response::Noted));
    }

    pub fn refused(&mut self, look: AttachRequest) -> Error {
        let id = self.ask(look);
        self.answer(id).expect_err("it is refused")
    }

    pub fn attend(&mut self, session: SessionName, room: PaneSize, role: ViewerRole) -> u64 {
        let client = self.client;
        self.ask(AttachRequest::Attend {
            client,
            session,
            room,
            role,
        })
    }

    pub fn ask_arrangement(&mut self, seen: u64) -> u64 {
        let session = main_session();
        self.ask(AttachRequest::Arrangement { session, seen })
    }

    pub fn arrangement(&mut self, id: u64) -> SessionLayout {
        match self.answer(id) {
            Ok(Response::Looked {
                found: AttachResponse::Arrangement { arrangement },
            }) => arrangement,
            other => panic!("{other:?}"),
        }
    }

    /// Waits until the main session's panes lie as wanted.
    pub fn until_arranged(&mut self, wanted: impl Fn(&SessionLayout) -> bool) -> SessionLayout {
        let mut seen = 0;
        loop {
            let id = self.ask_arrangement(seen);
            let now = self.arrangement(id);
            if wanted(&now) {
                return now;
            }
            seen = now.version;
        }
    }

    pub fn arrange(&mut self, change: LayoutChange) {
        let session = main_session();
        self.noted(AttachRequest::Arrange { session, change });
    }

    pub fn type_keys(&mut self, pane: PaneId, keys: &str) {
        let client = self.client;
        self.noted(AttachRequest::Type {
            client,
            pane,
            bytes: keys.as_bytes().to_vec(),
        });
    }

    pub fn ask_view(&mut self, pane: PaneId, seen: u64) -> u64 {
        let client = self.client;
        self.ask(AttachRequest::View { client, pane, seen })
    }

    pub fn frame(&mut self, id: u64) -> Frame {
        match self.answer(id) {
            Ok(Response::Looked {
                found: AttachResponse::Frame { frame },
            }) => *frame,
            other => panic!("{other:?}"),
        }
    }

    /// The next frame, drawn.
    pub fn view(&mut self, pane: PaneId) -> Drawn {
        let seen = self.drawn.get(&pane).map_or(0, |drawn| drawn.frame.number);
        let id = self.ask_view(pane, seen);
        let frame = self.frame(id);
        self.draw(pane, frame)
    }

    pub fn draw(&mut self, pane: PaneId, frame: Frame) -> Drawn {
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
        let drawn = Drawn {
            came: frame.rows.len(),
            frame,
            head,
            rows,
        };
        self.drawn.insert(pane, drawn.clone());
        drawn
    }

    /// Looks until the screen is as wanted.
    pub fn until(&mut self, pane: PaneId, wanted: impl Fn(&Drawn) -> bool) -> Drawn {
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
        let id = self.ask(AttachRequest::Lines { pane, from, most });
        match self.answer(id) {
            Ok(Response::Looked {
                found: AttachResponse::Lines { lines },
            }) => lines,
            other => panic!("{other:?}"),
        }
    }

    pub fn news(&mut self, id: u64) -> u64 {
        match self.answer(id) {
            Ok(Response::Looked {
                found: AttachResponse::News { version },
            }) => version,
            other => panic!("{other:?}"),
        }
    }
}

pub fn text(spans: &[StyledSpan]) -> String {
    spans.iter().map(|span| span.0.as_str()).collect()
}

impl Drawn {
    pub fn shows(&self, what: &str) -> bool {
        self.rows.iter().any(|row| row.contains(what))
    }
}

impl Eye {
    /// The frame of a pane that this client has.
    pub fn view_number(&self, pane: PaneId) -> u64 {
        self.drawn.get(&pane).map_or(0, |drawn| drawn.frame.number)
    }
}
