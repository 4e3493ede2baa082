//! Scripts of keys and responses, with the requests and the screen that follow.

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
        idle_ms: 0,
        created_at: Timestamp(1_000),
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
            room,
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

#[test]
fn one_question_is_open_for_every_pane_in_sight() {
    let mut script = ModelScript::new(24, 80);
    let views = |script: &ModelScript| {
        let mut panes: Vec<u64> = script
            .asked
            .iter()
            .filter_map(|(_, ask)| match ask {
                Request::Attach {
                    request: AttachRequest::GetFrame { pane, seen, .. },
                } => {
                    assert_eq!(*seen, 1);
                    Some(pane.0)
                }
                _ => None,
            })
            .collect();
        panes.sort_unstable();
        panes
    };
    assert_eq!(views(&script), [1, 2]);
    script.press("\x02z");
    assert_eq!(
        script.changes(),
        [LayoutChange::Zoom {
            pane: Some(PaneId(1))
        }]
    );
    script.arrange(Some(PaneId(1)));
    assert_eq!(views(&script), [1]);
}

#[test]
fn keys_go_to_the_pane_in_focus_in_order_and_one_call_at_a_time() {
    let mut script = ModelScript::new(24, 80);
    script.press("l");
    script.press("s");
    script.press("\r");
    assert_eq!(script.typed(), (PaneId(1), b"l".to_vec()));
    let is_type = |ask: &Request| {
        matches!(
            ask,
            Request::Attach {
                request: AttachRequest::Type { .. }
            }
        )
    };
    script.answer(is_type, Ok(Response::Done));
    assert_eq!(script.typed(), (PaneId(1), b"s\r".to_vec()));
    script.answer(is_type, Ok(Response::Done));
    assert!(!script.asked.iter().any(|(_, ask)| is_type(ask)));
    script.press("\x02\x1b[C");
    assert_eq!(script.model.focus, Some(PaneId(2)));
    script.press("\x02\x02");
    assert_eq!(script.typed(), (PaneId(2), vec![2]));
}

#[test]
fn input_and_its_echo_damage_only_rows() {
    let mut script = ModelScript::new(24, 80);
    let damage = |script: &mut ModelScript, input: ModelInput| {
        script.model.step(input, script.now);
        script.refresh()
    };
    let heard = InputParser::default().feed(b"l").remove(0);
    assert_eq!(
        damage(&mut script, ModelInput::Terminal(heard)),
        ScreenDamage::None
    );
    let echo = |number: u64, row: u16, text: &str| {
        let mut echo = frame(number, &[]);
        echo.whole = false;
        echo.head = None;
        echo.rows = vec![FrameRow(
            row,
            vec![StyledSpan(text.into(), FrameStyle::default())],
        )];
        (echo.cursor.row, echo.cursor.col) = (row, text.len() as u16);
        echo
    };
    for (pane, row, text) in [
        (1, 0, "$ l"),
        (2, 0, "漢字 wide"),
        (1, 21, "end"),
        (2, 0, "x"),
    ] {
        script.show(pane, echo(9, row, text));
        let shown = script.picture();
        assert!(shown.contains(text), "{shown}");
    }
    let mut rows: Vec<&str> = Vec::new();
    let picture = script.picture();
    rows.extend(picture.lines());
    assert!(
        rows[1].starts_with("$ l") && rows[1].ends_with("│x"),
        "{picture}"
    );
    let hidden = FrameStyle(
        FrameColor(1),
        FrameColor(2),
        FrameColor(-1),
        StyleAttributes(HIDDEN),
    );
    let mut secret = echo(9, 2, "");
    let spans = [("漢字 ab", hidden), ("漢", FrameStyle::default())];
    secret.rows[0].1 = spans
        .map(|(text, look)| StyledSpan(text.into(), look))
        .into();
    script.show(1, secret);
    let wide = "字".repeat(60);
    script.show(1, echo(9, 2, &wide));
    // A title, the picker or a scroll view damages more than rows.
    script.press("\x02w");
    script.show(1, echo(10, 3, "behind the list"));
    let mut named = echo(11, 4, "named");
    named.head = headed(frame(11, &[]), |head| head.title = "a title".into()).head;
    script.press("\x1b");
    script.show(1, named);
    assert!(script.picture().contains("a title"));
}

#[test]
fn a_split_requests_the_directory_then_the_position_then_the_pane() {
    let mut script = ModelScript::new(24, 80);
    script.press("\x02%");
    let Request::Tool {
        call: ToolCall::GetStatus(args),
    } = script.last_ask().clone()
    else {
        panic!("{:?}", script.last_ask());
    };
    assert_eq!(args.pane_id.as_deref(), Some("p1"));
    let refused = Err(Error::new(ErrorKind::NotFound, "gone"));
    script.answer(
        |ask| matches!(ask, Request::Tool { call: ToolCall::GetStatus(args) } if args.pane_id.as_deref() == Some("p1")),
        refused.clone(),
    );
    // The first request was for the title; both are equal.
    if script.changes().is_empty() {
        script.answer(
            |ask| matches!(ask, Request::Tool { call: ToolCall::GetStatus(args) } if args.pane_id.as_deref() == Some("p1")),
            refused,
        );
    }
    let changes = script.changes();
    let [
        LayoutChange::Split {
            of: PaneId(1),
            side: SplitSide::Right,
            ..
        },
    ] = changes.as_slice()
    else {
        panic!("{changes:?}");
    };
    script.answer(
        |ask| {
            matches!(
                ask,
                Request::Attach {
                    request: AttachRequest::ChangeLayout { .. }
                }
            )
        },
        Ok(Response::Done),
    );
    let Request::Tool {
        call: ToolCall::CreatePane(args),
    } = script.last_ask()
    else {
        panic!("{:?}", script.last_ask());
    };
    assert_eq!(args.session.as_deref(), Some("main"));
}

#[test]
fn a_pane_is_closed_only_on_a_yes() {
    let mut script = ModelScript::new(24, 80);
    let closes = |script: &ModelScript| {
        let mut requests = script.asked.iter();
        requests.any(|(_, ask)| {
            matches!(
                ask,
                Request::Tool {
                    call: ToolCall::ClosePane(_)
                }
            )
        })
    };
    script.press("\x02x");
    assert!(
        script
            .picture()
            .contains("close p1 left and all that runs in it? y/n")
    );
    script.press("n");
    assert!(!closes(&script));
    script.press("\x02xy");
    assert!(closes(&script));
}

#[test]
fn a_read_only_client_changes_nothing() {
    let mut script = ModelScript::as_role(ViewerRole::ReadOnly, 24, 80);
    for keys in [
        "a",
        "\r",
        "\x02%",
        "\x02x",
        "y",
        "\x02z",
        "\x02 ",
        "\x02]",
        "\x02}",
        "\x02\x1b[1;5C",
        "\x1b[200~x\x1b[201~",
    ] {
        script.press(keys);
    }
    let harmless = |ask: &Request| match ask {
        Request::Attach { request } => !matches!(
            request,
            AttachRequest::Type { .. } | AttachRequest::ChangeLayout { .. }
        ),
        Request::Tool { call } => matches!(call, ToolCall::GetStatus(_)),
        _ => true,
    };
    assert!(
        script.asked.iter().all(|(_, ask)| harmless(ask)),
        "{:?}",
        script.asked
    );
    assert!(script.picture().contains("read-only"));
    // Focus changes and the picker are allowed.
    script.press("\x02\x1b[C\x02w");
    assert!(script.picture().contains("go to a pane"));
}

#[test]
fn the_picker_goes_to_other_sessions_and_to_ended_panes() {
    let mut script = ModelScript::new(24, 80);
    script.press("\x02wfar\r");
    assert_eq!(script.model.session.0, "other");
    let attends = |script: &ModelScript| -> Vec<String> {
        let all = script.asked.iter();
        all.filter_map(|(_, ask)| match ask {
            Request::Attach {
                request: AttachRequest::JoinSession { session, .. },
            } => Some(session.0.clone()),
            _ => None,
        })
        .collect()
    };
    assert_eq!(attends(&script), ["other"]);

    let mut script = ModelScript::new(24, 80);
    script.press("\x02wover\r");
    assert_eq!(script.model.peek, Some(PaneId(3)));
    let over = headed(frame(1, &["the end"]), |head| head.ended = true);
    script.show(3, over);
    assert!(script.picture().contains("the end"));
    script.press("x");
    assert!(
        script.picture().contains("has ended"),
        "{}",
        script.picture()
    );
    script.press("\x02q");
    assert_eq!(script.model.peek, None);
    assert!(script.picture().contains("right"));
}

#[test]
fn open_requests_are_sent_again_after_a_reconnect() {
    let mut script = ModelScript::new(24, 80);
    script.press("a");
    let (ticket, typed) = script.asked.last().cloned().expect("typed");
    script.step(ModelInput::Disconnected(DaemonLoss::Died));
    assert!(script.picture().contains("reconnecting"));
    // What is on the screen stays.
    assert!(script.picture().contains("$"));
    script.press("b");
    assert_eq!(script.typed().1, b"a");
    script.asked.clear();
    script.step(ModelInput::Resized(size(30, 90)));
    assert!(script.asked.is_empty());
    script.step(ModelInput::Reconnected);
    assert!(!script.picture().contains("reconnecting"));
    assert!(script.asked.contains(&(ticket, typed)));
    for (_, ask) in &script.asked {
        match ask {
            Request::Attach {
                request:
                    AttachRequest::GetFrame { seen, .. }
                    | AttachRequest::GetLayout { seen, .. }
                    | AttachRequest::WatchOverview { seen },
            } => {
                assert_eq!(*seen, 0);
            }
            Request::Attach {
                request: AttachRequest::JoinSession { room, .. },
            } => assert_eq!(*room, size(29, 90)),
            _ => {}
        }
    }
}

#[test]
fn a_key_starts_a_stopped_daemon() {
    let mut script = ModelScript::new(24, 80);
    script.step(ModelInput::Disconnected(DaemonLoss::Stopped));
    assert!(script.picture().contains("any key starts it"));
    assert!(!script.done.contains(&ModelEffect::StartDaemon));
    script.press("a");
    assert!(script.done.contains(&ModelEffect::StartDaemon));
    script.step(ModelInput::Reconnected);
    assert_eq!(script.typed().1, b"a");
}

#[test]
fn the_client_leaves_with_the_last_pane_and_on_detach() {
    let mut script = ModelScript::new(24, 80);
    script.answer(
        |ask| {
            matches!(
                ask,
                Request::Attach {
                    request: AttachRequest::JoinSession { .. }
                }
            )
        },
        Ok(Response::Done),
    );
    assert_eq!(script.done, [ModelEffect::Leave(LeaveReason::Empty)]);
    let mut script = ModelScript::new(24, 80);
    script.press("\x02d");
    assert_eq!(script.done, [ModelEffect::Leave(LeaveReason::Detached)]);
}

#[test]
fn an_edge_is_moved_again_without_the_prefix_for_a_while() {
    let mut script = ModelScript::new(24, 80);
    script.press("\x02\x1b[1;5C\x1b[1;5C");
    let push = LayoutChange::MoveEdge {
        pane: PaneId(1),
        side: SplitSide::Right,
        by: 1,
    };
    assert_eq!(script.changes(), [push.clone(), push]);
    script.after(REPEAT_TIMEOUT);
    script.press("\x1b[1;5C");
    assert_eq!(script.typed().1, b"\x1b[1;5C");
}

#[test]
fn the_mouse_focuses_selects_and_pushes() {
    let mut script = ModelScript::new(24, 80);
    script.press("\x1b[<0;60;5M\x1b[<0;60;5m");
    assert_eq!(script.model.focus, Some(PaneId(2)));
    // The line between the two is the column 40.
    script.press("\x1b[<0;40;5M\x1b[<32;43;5M\x1b[<0;43;5m");
    assert_eq!(
        script.changes(),
        [LayoutChange::MoveEdge {
            pane: PaneId(1),
            side: SplitSide::Right,
            by: 3
        }]
    );
    script.show(1, frame(2, &["alpha beta", "gamma"]));
    script.press("\x1b[<0;7;2M\x1b[<32;3;3M");
    assert!(script.model.is_scrolling() || script.model.views[&PaneId(1)].scroll.is_some());
    script.press("\x1b[<0;3;3m");
    assert!(
        script.done.contains(&ModelEffect::Copy("beta\ngam".into())),
        "{:?}",
        script.done
    );
    // A click alone selects nothing.
    script.done.clear();
    script.press("\x1b[<0;7;2M\x1b[<0;7;2m");
    assert!(script.done.is_empty());
}

#[test]
fn mouse_events_go_to_a_program_that_requested_them() {
    let mut script = ModelScript::new(24, 80);
    let wants = headed(frame(2, &["menu"]), |head| {
        head.modes.mouse = FrameMouseMode::Drags;
        head.modes.mouse_format = fugue_api::attach::FrameMouseEncoding::Sgr;
    });
    script.show(2, wants);
    script.press("\x1b[<0;45;4M");
    assert_eq!(script.typed(), (PaneId(2), b"\x1b[<0;5;3M".to_vec()));
}

#[test]
fn the_scroll_view_fetches_lines_and_searches() {
    let mut script = ModelScript::new(12, 80);
    let mut now = frame(2, &["line 500"]);
    now.top_line = 500;
    script.show(1, now);
    script.press("\x02[");
    let lines = |from: u64| AttachResponse::Lines {
        lines: PaneLines {
            from,
            lines: (from..from + 200)
                .map(|line| vec![StyledSpan(format!("line {line}"), FrameStyle::default())])
                .collect(),
            kept_from: 0,
            end: 510,
        },
    };
    let is_lines = |look: &AttachRequest| matches!(look, AttachRequest::ReadLines { .. });
    script.answer_look(is_lines, lines(400));
    let picture = script.picture();
    assert!(
        picture.contains("line 500") && picture.contains("line 509"),
        "{picture}"
    );
    script.press("\x1b[5~");
    assert!(
        script.picture().contains("line 492"),
        "{}",
        script.picture()
    );
    script.press("?LINE 2x");
    assert!(
        script.picture().ends_with("?LINE 2x"),
        "{}",
        script.picture()
    );
    script.press("\x7f0\r");
    let Request::Tool {
        call: ToolCall::ReadPane(args),
    } = script.last_ask()
    else {
        panic!("{:?}", script.last_ask());
    };
    assert_eq!(args.grep.as_deref(), Some("LINE 20"));
    let text = |text: &str| {
        let reply = ToolReply::ReadPane(ReadPaneReply {
            text: text.into(),
            cursor: Cursor(String::new()),
            lines: 1,
            omitted_lines: 0,
            omitted_chars: 0,
            state: PaneState::Idle,
            command: None,
            exit_code: None,
            replaced_bytes: 0,
            note: None,
            missing_bytes: 0,
        });
        Ok(Response::Tool { reply })
    };
    let is_read = |ask: &Request| {
        matches!(
            ask,
            Request::Tool {
                call: ToolCall::ReadPane(_)
            }
        )
    };
    script.answer(is_read, text(""));
    assert!(script.picture().contains("not found"));
    script.press("?line 20\r");
    script.answer(is_read, text("21:line 20\n201:line 200\n"));
    script.answer_look(is_lines, lines(100));
    let picture = script.picture();
    assert!(
        picture.contains("line 200") && picture.contains("line 20: line 2 of 2"),
        "{picture}"
    );
    script.press("n");
    assert!(script.picture().contains("line 1 of 2"));
    script.press("q");
    assert!(script.picture().contains("line 500"));
}

#[test]
fn a_draft_that_delays_an_agent_is_shown() {
    let mut script = ModelScript::new(24, 100);
    let held = headed(frame(2, &["$ half a li"]), |head| {
        head.held = Some("an agent waits until you have sent this line".into());
    });
    script.show(1, held);
    let picture = script.picture();
    assert!(picture.contains("‖ held"), "{picture}");
    assert!(picture.contains("an agent waits until you"), "{picture}");
}

#[test]
fn the_overview_is_requested_at_most_once_per_interval() {
    let mut script = ModelScript::new(24, 80);
    let is_news = |look: &AttachRequest| matches!(look, AttachRequest::WatchOverview { .. });
    script.answer_look(is_news, AttachResponse::Overview { version: 2 });
    let requests = |script: &ModelScript| {
        script
            .asked
            .iter()
            .any(|(_, ask)| *ask == Request::Overview)
    };
    assert!(!requests(&script));
    assert!(script.model.next_deadline().is_some());
    script.after(OVERVIEW_INTERVAL);
    assert!(requests(&script));
}
