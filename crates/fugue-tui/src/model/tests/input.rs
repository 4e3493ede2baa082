//! Keys, commands, the mouse and the scroll view.

use super::*;

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

fn read_reply(text: &str) -> Result<Response, Error> {
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
    let is_read = |ask: &Request| {
        matches!(
            ask,
            Request::Tool {
                call: ToolCall::ReadPane(_)
            }
        )
    };
    script.answer(is_read, read_reply(""));
    assert!(script.picture().contains("not found"));
    script.press("?line 20\r");
    script.answer(is_read, read_reply("21:line 20\n201:line 200\n"));
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
