//! Stories: what a person does and the daemon answers, and what is asked and shown then.

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
use crate::attach::{
    canvas::Canvas,
    draw::{draw, redraw},
    input::Input as Parser,
    looks::{Depth, HIDDEN},
};

pub struct Story {
    pub model: Model,
    now: Instant,
    pub asked: Vec<(Ticket, Request)>,
    pub done: Vec<Effect>,
    /// As it was drawn last, brought up to date by what was said to be stale.
    shown: Option<Canvas>,
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

/// The same with something else in its head.
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

impl Story {
    /// Two panes beside each other in `main`, one ended, and one in `other`.
    pub fn new(rows: u16, cols: u16) -> Self {
        Self::as_role(ViewerRole::Interactive, rows, cols)
    }

    pub fn as_role(role: ViewerRole, rows: u16, cols: u16) -> Self {
        let model = Model::new(7, role, SessionName::default(), size(rows, cols));
        let mut story = Self {
            model,
            now: Instant::now(),
            asked: Vec::new(),
            done: Vec::new(),
            shown: None,
        };
        let facts = Overview {
            panes: vec![
                pane(1, "left", "main", PaneState::Idle),
                pane(2, "right", "main", PaneState::Running),
                pane(3, "over", "main", PaneState::Exited),
                pane(4, "far", "other", PaneState::NeedsInput),
            ],
            ..Overview::default()
        };
        let effects = story.model.start(None, facts.clone(), story.now);
        story.perform(effects);
        story.answer_everything(facts);
        story.arrange(None);
        for pane in [1, 2] {
            story.show(pane, frame(1, &["$ "]));
        }
        story
    }

    fn perform(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Ask { ticket, ask, .. } => {
                    self.asked.retain(|(open, _)| *open != ticket);
                    self.asked.push((ticket, ask));
                }
                Effect::Forget(ticket) => self.asked.retain(|(open, _)| *open != ticket),
                other => self.done.push(other),
            }
        }
    }

    #[track_caller]
    pub fn step(&mut self, input: Input) {
        let effects = self.model.step(input, self.now);
        self.perform(effects);
        self.refresh();
    }

    /// Whatever is not drawn anew is as it would be.
    #[track_caller]
    fn refresh(&mut self) -> Stale {
        let whole = draw(&self.model, Depth::None, 13_000);
        let stale = self.model.take_stale();
        let shown = match (&stale, self.shown.take()) {
            (Stale::Nothing, Some(shown)) => shown,
            (Stale::Inside(rows), Some(mut shown)) => {
                let were = redraw(&self.model, rows, &mut shown);
                if were.is_some() { shown } else { whole.clone() }
            }
            (_, _) => whole.clone(),
        };
        assert_eq!(shown.plain(), whole.plain());
        assert!(shown == whole, "a look or the caret is another one");
        self.shown = Some(shown);
        stale
    }

    pub fn press(&mut self, bytes: &str) {
        let mut parser = Parser::default();
        let mut heard = parser.feed(bytes.as_bytes());
        heard.extend(parser.settle());
        for one in heard {
            self.step(Input::Heard(one));
        }
    }

    fn after(&mut self, time: Duration) {
        self.now += time;
        self.step(Input::Tick);
    }

    #[track_caller]
    pub fn answer(&mut self, is: impl Fn(&Request) -> bool, answer: Result<Response, Error>) {
        let at = self.asked.iter().position(|(_, ask)| is(ask));
        let Some(at) = at else {
            panic!("not asked: {:?}", self.asked);
        };
        let (ticket, _) = self.asked.remove(at);
        self.step(Input::Answered(ticket, answer));
    }

    #[track_caller]
    fn answer_look(&mut self, is: impl Fn(&AttachRequest) -> bool, found: AttachResponse) {
        let is = |ask: &Request| matches!(ask, Request::Look { look } if is(look));
        self.answer(is, Ok(Response::Looked { found }));
    }

    fn answer_everything(&mut self, facts: Overview) {
        let reply = ToolReply::GetStatus(GetStatusReply::All(facts));
        self.answer(
            |ask| *ask == Request::Overview,
            Ok(Response::Tool { reply }),
        );
    }

    pub fn arrange(&mut self, zoomed: Option<PaneId>) {
        let room = self.model.places().room_size();
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
        let arrangement = SessionLayout {
            version: 3,
            room,
            tiles,
            zoomed,
            clients: 1,
        };
        self.answer_look(
            |look| matches!(look, AttachRequest::Arrangement { .. }),
            AttachResponse::Arrangement { arrangement },
        );
    }

    #[track_caller]
    pub fn show(&mut self, pane: u64, mut frame: Frame) {
        if let Some(head) = &mut frame.head
            && head.size == size(10, 40)
            && let Some(tile) = self.model.tile(PaneId(pane))
        {
            let area = self.model.places().inside(tile.place);
            head.size = size(area.rows, area.cols);
        }
        let frame = Box::new(frame);
        self.answer_look(
            |look| matches!(look, AttachRequest::View { pane: of, .. } if of.0 == pane),
            AttachResponse::Frame { frame },
        );
    }

    pub fn picture(&self) -> String {
        draw(&self.model, Depth::None, 13_000).plain()
    }

    fn last_ask(&self) -> &Request {
        &self.asked.last().expect("something was asked").1
    }

    #[track_caller]
    fn typed(&self) -> (PaneId, Vec<u8>) {
        let typed = self.asked.iter().find_map(|(_, ask)| match ask {
            Request::Look {
                look: AttachRequest::Type { pane, bytes, .. },
            } => Some((*pane, bytes.clone())),
            _ => None,
        });
        typed.expect("something is typed")
    }

    fn changes(&self) -> Vec<LayoutChange> {
        let all = self.asked.iter();
        all.filter_map(|(_, ask)| match ask {
            Request::Look {
                look: AttachRequest::Arrange { change, .. },
            } => Some(change.clone()),
            _ => None,
        })
        .collect()
    }
}

#[test]
fn one_question_is_open_for_every_pane_in_sight() {
    let mut story = Story::new(24, 80);
    let views = |story: &Story| {
        let mut panes: Vec<u64> = story
            .asked
            .iter()
            .filter_map(|(_, ask)| match ask {
                Request::Look {
                    look: AttachRequest::View { pane, seen, .. },
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
    assert_eq!(views(&story), [1, 2]);
    story.press("\x02z");
    assert_eq!(
        story.changes(),
        [LayoutChange::Zoom {
            pane: Some(PaneId(1))
        }]
    );
    story.arrange(Some(PaneId(1)));
    assert_eq!(views(&story), [1]);
}

#[test]
fn keys_go_to_the_pane_in_focus_in_order_and_one_call_at_a_time() {
    let mut story = Story::new(24, 80);
    story.press("l");
    story.press("s");
    story.press("\r");
    assert_eq!(story.typed(), (PaneId(1), b"l".to_vec()));
    let is_type = |ask: &Request| {
        matches!(
            ask,
            Request::Look {
                look: AttachRequest::Type { .. }
            }
        )
    };
    story.answer(is_type, Ok(Response::Noted));
    assert_eq!(story.typed(), (PaneId(1), b"s\r".to_vec()));
    story.answer(is_type, Ok(Response::Noted));
    assert!(!story.asked.iter().any(|(_, ask)| is_type(ask)));
    story.press("\x02\x1b[C");
    assert_eq!(story.model.focus, Some(PaneId(2)));
    story.press("\x02\x02");
    assert_eq!(story.typed(), (PaneId(2), vec![2]));
}

#[test]
fn what_is_typed_and_its_echo_need_no_whole_picture() {
    let mut story = Story::new(24, 80);
    let stale = |story: &mut Story, input: Input| {
        story.model.step(input, story.now);
        story.refresh()
    };
    let heard = Parser::default().feed(b"l").remove(0);
    assert_eq!(stale(&mut story, Input::Heard(heard)), Stale::Nothing);
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
        story.show(pane, echo(9, row, text));
        let shown = story.picture();
        assert!(shown.contains(text), "{shown}");
    }
    let mut rows: Vec<&str> = Vec::new();
    let picture = story.picture();
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
    story.show(1, secret);
    let wide = "字".repeat(60);
    story.show(1, echo(9, 2, &wide));
    // A title, a list or a look back is more than rows.
    story.press("\x02w");
    story.show(1, echo(10, 3, "behind the list"));
    let mut named = echo(11, 4, "named");
    named.head = headed(frame(11, &[]), |head| head.title = "a title".into()).head;
    story.press("\x1b");
    story.show(1, named);
    assert!(story.picture().contains("a title"));
}

#[test]
fn a_split_asks_where_the_pane_is_then_for_its_place_then_for_the_pane() {
    let mut story = Story::new(24, 80);
    story.press("\x02%");
    let Request::Tool {
        call: ToolCall::GetStatus(args),
    } = story.last_ask().clone()
    else {
        panic!("{:?}", story.last_ask());
    };
    assert_eq!(args.pane_id.as_deref(), Some("p1"));
    let refused = Err(Error::new(ErrorKind::NotFound, "gone"));
    story.answer(
        |ask| matches!(ask, Request::Tool { call: ToolCall::GetStatus(args) } if args.pane_id.as_deref() == Some("p1")),
        refused.clone(),
    );
    // The first was for the title; both are asked alike.
    if story.changes().is_empty() {
        story.answer(
            |ask| matches!(ask, Request::Tool { call: ToolCall::GetStatus(args) } if args.pane_id.as_deref() == Some("p1")),
            refused,
        );
    }
    let changes = story.changes();
    let [
        LayoutChange::Beside {
            of: PaneId(1),
            side: SplitSide::Right,
            ..
        },
    ] = changes.as_slice()
    else {
        panic!("{changes:?}");
    };
    story.answer(
        |ask| {
            matches!(
                ask,
                Request::Look {
                    look: AttachRequest::Arrange { .. }
                }
            )
        },
        Ok(Response::Noted),
    );
    let Request::Tool {
        call: ToolCall::CreatePane(args),
    } = story.last_ask()
    else {
        panic!("{:?}", story.last_ask());
    };
    assert_eq!(args.session.as_deref(), Some("main"));
}

#[test]
fn a_pane_is_closed_only_on_a_yes() {
    let mut story = Story::new(24, 80);
    let closes = |story: &Story| {
        let mut asks = story.asked.iter();
        asks.any(|(_, ask)| {
            matches!(
                ask,
                Request::Tool {
                    call: ToolCall::ClosePane(_)
                }
            )
        })
    };
    story.press("\x02x");
    assert!(
        story
            .picture()
            .contains("close p1 left and all that runs in it? y/n")
    );
    story.press("n");
    assert!(!closes(&story));
    story.press("\x02xy");
    assert!(closes(&story));
}

#[test]
fn who_only_looks_changes_nothing() {
    let mut story = Story::as_role(ViewerRole::ReadOnly, 24, 80);
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
        story.press(keys);
    }
    let harmless = |ask: &Request| match ask {
        Request::Look { look } => !matches!(
            look,
            AttachRequest::Type { .. } | AttachRequest::Arrange { .. }
        ),
        Request::Tool { call } => matches!(call, ToolCall::GetStatus(_)),
        _ => true,
    };
    assert!(
        story.asked.iter().all(|(_, ask)| harmless(ask)),
        "{:?}",
        story.asked
    );
    assert!(story.picture().contains("read-only"));
    // Looking is what it is for.
    story.press("\x02\x1b[C\x02w");
    assert!(story.picture().contains("go to a pane"));
}

#[test]
fn the_list_goes_to_other_sessions_and_to_what_has_ended() {
    let mut story = Story::new(24, 80);
    story.press("\x02wfar\r");
    assert_eq!(story.model.session.0, "other");
    let attends = |story: &Story| -> Vec<String> {
        let all = story.asked.iter();
        all.filter_map(|(_, ask)| match ask {
            Request::Look {
                look: AttachRequest::Attend { session, .. },
            } => Some(session.0.clone()),
            _ => None,
        })
        .collect()
    };
    assert_eq!(attends(&story), ["other"]);

    let mut story = Story::new(24, 80);
    story.press("\x02wover\r");
    assert_eq!(story.model.peek, Some(PaneId(3)));
    let over = headed(frame(1, &["the end"]), |head| head.ended = true);
    story.show(3, over);
    assert!(story.picture().contains("the end"));
    story.press("x");
    assert!(story.picture().contains("has ended"), "{}", story.picture());
    story.press("\x02q");
    assert_eq!(story.model.peek, None);
    assert!(story.picture().contains("right"));
}

#[test]
fn a_lost_daemon_is_asked_again_from_the_beginning() {
    let mut story = Story::new(24, 80);
    story.press("a");
    let (ticket, typed) = story.asked.last().cloned().expect("typed");
    story.step(Input::Lost(Gone::Died));
    assert!(story.picture().contains("reconnecting"));
    // What is on the screen stays.
    assert!(story.picture().contains("$"));
    story.press("b");
    assert_eq!(story.typed().1, b"a");
    story.asked.clear();
    story.step(Input::Resized(size(30, 90)));
    assert!(story.asked.is_empty());
    story.step(Input::Back);
    assert!(!story.picture().contains("reconnecting"));
    assert!(story.asked.contains(&(ticket, typed)));
    for (_, ask) in &story.asked {
        match ask {
            Request::Look {
                look:
                    AttachRequest::View { seen, .. }
                    | AttachRequest::Arrangement { seen, .. }
                    | AttachRequest::News { seen },
            } => {
                assert_eq!(*seen, 0);
            }
            Request::Look {
                look: AttachRequest::Attend { room, .. },
            } => assert_eq!(*room, size(29, 90)),
            _ => {}
        }
    }
}

#[test]
fn a_stopped_daemon_is_wanted_back_by_a_key() {
    let mut story = Story::new(24, 80);
    story.step(Input::Lost(Gone::Stopped));
    assert!(story.picture().contains("any key starts it"));
    assert!(!story.done.contains(&Effect::Launch));
    story.press("a");
    assert!(story.done.contains(&Effect::Launch));
    story.step(Input::Back);
    assert_eq!(story.typed().1, b"a");
}

#[test]
fn the_last_pane_ends_it_and_a_refusal_too() {
    let mut story = Story::new(24, 80);
    story.answer(
        |ask| {
            matches!(
                ask,
                Request::Look {
                    look: AttachRequest::Attend { .. }
                }
            )
        },
        Ok(Response::Noted),
    );
    assert_eq!(story.done, [Effect::Leave(Leave::Empty)]);
    let mut story = Story::new(24, 80);
    story.press("\x02d");
    assert_eq!(story.done, [Effect::Leave(Leave::Detached)]);
}

#[test]
fn an_edge_is_pushed_again_without_the_prefix_for_a_while() {
    let mut story = Story::new(24, 80);
    story.press("\x02\x1b[1;5C\x1b[1;5C");
    let push = LayoutChange::Push {
        pane: PaneId(1),
        side: SplitSide::Right,
        by: 1,
    };
    assert_eq!(story.changes(), [push.clone(), push]);
    story.after(AGAIN);
    story.press("\x1b[1;5C");
    assert_eq!(story.typed().1, b"\x1b[1;5C");
}

#[test]
fn the_mouse_focuses_selects_and_pushes() {
    let mut story = Story::new(24, 80);
    story.press("\x1b[<0;60;5M\x1b[<0;60;5m");
    assert_eq!(story.model.focus, Some(PaneId(2)));
    // The line between the two is the column 40.
    story.press("\x1b[<0;40;5M\x1b[<32;43;5M\x1b[<0;43;5m");
    assert_eq!(
        story.changes(),
        [LayoutChange::Push {
            pane: PaneId(1),
            side: SplitSide::Right,
            by: 3
        }]
    );
    story.show(1, frame(2, &["alpha beta", "gamma"]));
    story.press("\x1b[<0;7;2M\x1b[<32;3;3M");
    assert!(story.model.is_scrolling() || story.model.views[&PaneId(1)].scroll.is_some());
    story.press("\x1b[<0;3;3m");
    assert!(
        story.done.contains(&Effect::Copy("beta\ngam".into())),
        "{:?}",
        story.done
    );
    // A click alone selects nothing.
    story.done.clear();
    story.press("\x1b[<0;7;2M\x1b[<0;7;2m");
    assert!(story.done.is_empty());
}

#[test]
fn a_program_that_wants_the_mouse_has_it() {
    let mut story = Story::new(24, 80);
    let wants = headed(frame(2, &["menu"]), |head| {
        head.modes.mouse = FrameMouseMode::Drags;
        head.modes.mouse_format = fugue_api::attach::FrameMouseEncoding::Sgr;
    });
    story.show(2, wants);
    story.press("\x1b[<0;45;4M");
    assert_eq!(story.typed(), (PaneId(2), b"\x1b[<0;5;3M".to_vec()));
}

#[test]
fn looking_back_fetches_lines_and_finds_things_in_them() {
    let mut story = Story::new(12, 80);
    let mut now = frame(2, &["line 500"]);
    now.top_line = 500;
    story.show(1, now);
    story.press("\x02[");
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
    let is_lines = |look: &AttachRequest| matches!(look, AttachRequest::Lines { .. });
    story.answer_look(is_lines, lines(400));
    let picture = story.picture();
    assert!(
        picture.contains("line 500") && picture.contains("line 509"),
        "{picture}"
    );
    story.press("\x1b[5~");
    assert!(story.picture().contains("line 492"), "{}", story.picture());
    story.press("?LINE 2x");
    assert!(story.picture().ends_with("?LINE 2x"), "{}", story.picture());
    story.press("\x7f0\r");
    let Request::Tool {
        call: ToolCall::ReadPane(args),
    } = story.last_ask()
    else {
        panic!("{:?}", story.last_ask());
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
    story.answer(is_read, text(""));
    assert!(story.picture().contains("not found"));
    story.press("?line 20\r");
    story.answer(is_read, text("21:line 20\n201:line 200\n"));
    story.answer_look(is_lines, lines(100));
    let picture = story.picture();
    assert!(
        picture.contains("line 200") && picture.contains("line 20: line 2 of 2"),
        "{picture}"
    );
    story.press("n");
    assert!(story.picture().contains("line 1 of 2"));
    story.press("q");
    assert!(story.picture().contains("line 500"));
}

#[test]
fn what_an_agent_has_to_wait_for_is_seen() {
    let mut story = Story::new(24, 100);
    let held = headed(frame(2, &["$ half a li"]), |head| {
        head.held = Some("an agent waits until you have sent this line".into());
    });
    story.show(1, held);
    let picture = story.picture();
    assert!(picture.contains("‖ held"), "{picture}");
    assert!(picture.contains("an agent waits until you"), "{picture}");
}

#[test]
fn news_that_come_often_are_asked_for_seldom() {
    let mut story = Story::new(24, 80);
    let is_news = |look: &AttachRequest| matches!(look, AttachRequest::News { .. });
    story.answer_look(is_news, AttachResponse::News { version: 2 });
    let asks = |story: &Story| story.asked.iter().any(|(_, ask)| *ask == Request::Overview);
    assert!(!asks(&story));
    assert!(story.model.wakes_at().is_some());
    story.after(FACTS_APART);
    assert!(asks(&story));
}
