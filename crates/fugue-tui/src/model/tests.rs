//! Scripts of keys and responses, with the requests and the screen that follow.

mod input;
mod session;

use fugue_api::{
    Cursor, ErrorKind, Timestamp, ToolReply,
    attach::{
        AttachResponse, Frame, FrameColor, FrameCursor, FrameHead, FrameModes, FrameMouseMode,
        FrameRow, FrameStyle, PaneLines, Rect, SplitSide, StyleAttributes, StyledSpan, Tile,
    },
    pane_state::{SourcedState, StateSource},
    tools::{GetStatusReply, ReadPaneReply},
};

use super::*;
use crate::{
    buffer::CellBuffer,
    draw::{draw, redraw},
    input::InputParser,
    style::{ColorDepth, HIDDEN},
};

pub struct ModelScript {
    pub model: AttachModel,
    now: Instant,
    pub asked: Vec<(RequestTicket, Request)>,
    pub done: Vec<ModelEffect>,
    /// The last screen, updated with the damage.
    shown: Option<CellBuffer>,
}

pub fn size(rows: u16, cols: u16) -> PaneSize {
    PaneSize { rows, cols }
}

pub fn pane(id: u64, name: &str, session: &str, state: PaneState) -> PaneRow {
    PaneRow {
        pane_id: PaneId(id),
        name: name.into(),
        session: SessionName(session.into()),
        state: SourcedState::new(state, StateSource::ShellMark),
        agent: None,
        created_at: Some(Timestamp(1_000)),
    }
}

pub fn frame(number: u64, rows: &[&str]) -> Frame {
    let cols = 40;
    Frame {
        number,
        whole: true,
        rows: (0..)
            .zip(rows)
            .map(|(row, text)| {
                FrameRow(row, vec![StyledSpan((*text).into(), FrameStyle::default())])
            })
            .collect(),
        cursor: FrameCursor {
            row: 0,
            col: 2,
            visible: true,
            shape: 0,
        },
        offset: 0,
        top_line: 0,
        head: Some(FrameHead {
            size: size(10, cols),
            modes: FrameModes::default(),
            title: String::new(),
            state: SourcedState::new(PaneState::Idle, StateSource::ShellMark),
            held: None,
            ended: false,
        }),
    }
}

/// The same frame with a changed head.
pub fn headed(mut frame: Frame, by: impl FnOnce(&mut FrameHead)) -> Frame {
    by(frame.head.as_mut().expect("it has one"));
    frame
}

fn rect(row: u16, col: u16, rows: u16, cols: u16) -> Rect {
    Rect {
        row,
        col,
        rows,
        cols,
    }
}

impl ModelScript {
    /// Two panes side by side in `main`, an ended pane, and a pane in `other`.
    pub fn new(rows: u16, cols: u16) -> Self {
        Self::as_role(ViewerRole::Interactive, rows, cols)
    }

    pub fn as_role(role: ViewerRole, rows: u16, cols: u16) -> Self {
        let model = AttachModel::new(7, role, SessionName::default(), size(rows, cols));
        let mut script = Self {
            model,
            now: Instant::now(),
            asked: Vec::new(),
            done: Vec::new(),
            shown: None,
        };
        let overview = Overview {
            panes: vec![
                pane(1, "left", "main", PaneState::Idle),
                pane(2, "right", "main", PaneState::Running),
                pane(3, "over", "main", PaneState::Exited),
                pane(4, "far", "other", PaneState::NeedsInput),
            ],
            ..Overview::default()
        };
        let effects = script.model.start(None, overview.clone(), script.now);
        script.perform(effects);
        script.answer_everything(overview);
        script.arrange(None);
        for pane in [1, 2] {
            script.show(pane, frame(1, &["$ "]));
        }
        script
    }

    fn perform(&mut self, effects: Vec<ModelEffect>) {
        for effect in effects {
            match effect {
                ModelEffect::Request {
                    ticket, request, ..
                } => {
                    self.asked.retain(|(open, _)| *open != ticket);
                    self.asked.push((ticket, request));
                }
                ModelEffect::CancelRequest(ticket) => {
                    self.asked.retain(|(open, _)| *open != ticket)
                }
                other => self.done.push(other),
            }
        }
    }

    #[track_caller]
    pub fn step(&mut self, input: ModelInput) {
        let effects = self.model.step(input, self.now);
        self.perform(effects);
        self.refresh();
    }

    /// Updates the screen with the damage and compares it with a whole draw.
    #[track_caller]
    fn refresh(&mut self) -> ScreenDamage {
        let whole = draw(&self.model, ColorDepth::None, 13_000);
        let damage = self.model.take_damage();
        let shown = match (&damage, self.shown.take()) {
            (ScreenDamage::None, Some(shown)) => shown,
            (ScreenDamage::Rows(rows), Some(mut shown)) => {
                let were = redraw(&self.model, rows, &mut shown);
                if were.is_some() { shown } else { whole.clone() }
            }
            (_, _) => whole.clone(),
        };
        assert_eq!(shown.plain(), whole.plain());
        assert!(shown == whole, "a look or the caret is another one");
        self.shown = Some(shown);
        damage
    }

    pub fn press(&mut self, bytes: &str) {
        let mut parser = InputParser::default();
        let mut heard = parser.feed(bytes.as_bytes());
        heard.extend(parser.flush_pending());
        for one in heard {
            self.step(ModelInput::Terminal(one));
        }
    }

    fn after(&mut self, time: Duration) {
        self.now += time;
        self.step(ModelInput::Tick);
    }

    #[track_caller]
    pub fn answer(&mut self, is: impl Fn(&Request) -> bool, answer: Result<Response, Error>) {
        let at = self.asked.iter().position(|(_, ask)| is(ask));
        let Some(at) = at else {
            panic!("not asked: {:?}", self.asked);
        };
        let (ticket, _) = self.asked.remove(at);
        self.step(ModelInput::Response(ticket, answer));
    }

    #[track_caller]
    fn answer_look(&mut self, is: impl Fn(&AttachRequest) -> bool, response: AttachResponse) {
        let is = |ask: &Request| matches!(ask, Request::Attach { request } if is(request));
        self.answer(is, Ok(Response::Attach { response }));
    }

    fn answer_everything(&mut self, overview: Overview) {
        let reply = ToolReply::GetStatus(GetStatusReply::All(overview));
        self.answer(
            |ask| *ask == Request::Overview,
            Ok(Response::Tool { reply }),
        );
    }

    pub fn arrange(&mut self, zoomed: Option<PaneId>) {
        let room = self.model.areas().room_size();
        let left = (room.cols - 1) / 2;
        let tile = |id: u64, place: Rect| Tile {
            pane: PaneId(id),
            place,
        };
        let tiles = match zoomed {
            Some(PaneId(id)) => vec![tile(id, rect(0, 0, room.rows, room.cols))],
            None => vec![
                tile(1, rect(0, 0, room.rows, left)),
                tile(2, rect(0, left + 1, room.rows, room.cols - left - 1)),
            ],
        };
        let layout = SessionLayout {
            version: 3,
            viewport: room,
            tiles,
            zoomed,
            clients: 1,
        };
        self.answer_look(
            |look| matches!(look, AttachRequest::GetLayout { .. }),
            AttachResponse::Layout { layout },
        );
    }

    #[track_caller]
    pub fn show(&mut self, pane: u64, mut frame: Frame) {
        if let Some(head) = &mut frame.head
            && head.size == size(10, 40)
            && let Some(tile) = self.model.tile(PaneId(pane))
        {
            let area = self.model.areas().inside(tile.place);
            head.size = size(area.rows, area.cols);
        }
        let frame = Box::new(frame);
        self.answer_look(
            |look| matches!(look, AttachRequest::GetFrame { pane: of, .. } if of.0 == pane),
            AttachResponse::Frame { frame },
        );
    }

    pub fn picture(&self) -> String {
        draw(&self.model, ColorDepth::None, 13_000).plain()
    }

    fn last_ask(&self) -> &Request {
        &self.asked.last().expect("something was asked").1
    }

    #[track_caller]
    fn typed(&self) -> (PaneId, Vec<u8>) {
        let typed = self.asked.iter().find_map(|(_, ask)| match ask {
            Request::Attach {
                request: AttachRequest::Type { pane, bytes, .. },
            } => Some((*pane, bytes.clone())),
            _ => None,
        });
        typed.expect("something is typed")
    }

    fn changes(&self) -> Vec<LayoutChange> {
        let all = self.asked.iter();
        all.filter_map(|(_, ask)| match ask {
            Request::Attach {
                request: AttachRequest::ChangeLayout { change, .. },
            } => Some(change.clone()),
            _ => None,
        })
        .collect()
    }
}
