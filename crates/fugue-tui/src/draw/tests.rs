//! Screens as text.

use fugue_api::{
    PaneId,
    attach::{FrameColor, FrameRow, FrameStyle, StyledSpan},
    tools::PaneSize,
};

use crate::{
    draw::draw,
    model::{
        AttachModel, ModelInput,
        tests::{ModelScript, frame, headed},
    },
    style::{ColorDepth, REVERSE},
};

#[track_caller]
fn check(script: &ModelScript, picture: &[&str]) {
    let shown = script.picture();
    let shown: Vec<&str> = shown.lines().collect();
    assert_eq!(shown, picture, "\n{}", shown.join("\n"));
}

#[test]
fn two_tiles_a_line_between_them_and_a_status_line() {
    let mut script = ModelScript::new(6, 60);
    script.show(1, frame(2, &["$ ls", "a  b"]));
    script.show(2, frame(2, &["漢字 wide"]));
    check(
        &script,
        &[
            "━ ▶ left ━━━━━━━━━━━━━━━━ ○ ━┭─ right ────────────────── ○ ─",
            "$ ls                         │漢字 wide",
            "a  b                         │",
            "                             │",
            "                             │",
            " main  p1 left · ▲ 1 needs input   C-b ? help  C-b d detach",
        ],
    );
}

#[test]
fn a_pane_that_is_larger_is_cropped_around_its_cursor_and_says_so() {
    let mut script = ModelScript::new(8, 100);
    let mut large = headed(frame(2, &[]), |head| {
        head.size = PaneSize { rows: 30, cols: 60 };
    });
    large.rows = (0..30)
        .map(|row| {
            let text = format!("row {row} {}", "x".repeat(80));
            FrameRow(row, vec![StyledSpan(text, FrameStyle::default())])
        })
        .collect();
    large.cursor.row = 29;
    script.show(1, large);
    let picture = script.picture();
    assert!(picture.contains("part of 60×30"), "{picture}");
    assert!(
        picture.contains("row 29 xxx") && !picture.contains("row 20"),
        "{picture}"
    );
    let edge: Vec<char> = picture.lines().nth(2).unwrap().chars().collect();
    assert_eq!(edge[49], '│');
}

#[test]
fn a_pane_that_is_smaller_is_filled_up() {
    let mut script = ModelScript::new(16, 120);
    let small = headed(frame(2, &["tiny"]), |head| {
        head.size = PaneSize { rows: 2, cols: 6 };
    });
    script.press("\x02b");
    script.show(1, small);
    let picture = script.picture();
    assert!(picture.contains("tiny  ····"), "{picture}");
}

#[test]
fn focus_is_a_sign_and_not_a_colour_alone() {
    let mut script = ModelScript::new(6, 60);
    script.press("\x02o");
    let first = script.picture();
    let first = first.lines().next().unwrap_or_default();
    assert!(
        first.starts_with("─ left ─") && first.contains("┮━ ▶ right ━"),
        "{first}"
    );
}

#[test]
fn titles_are_cleaned_and_programs_cannot_forge_a_badge_with_controls() {
    let mut script = ModelScript::new(6, 100);
    let evil = headed(frame(2, &["x"]), |head| {
        head.title = "a\x1b]52;c;eA==\x07\u{202e}b\nc".into();
    });
    script.show(1, evil);
    let picture = script.picture();
    assert!(
        picture.contains("a\u{fffd}]52;c;eA==\u{fffd}b c"),
        "{picture}"
    );
    assert!(!picture.contains('\u{202e}') && !picture.contains('\x1b'));
}

#[test]
fn a_screen_of_any_size_is_drawn() {
    for rows in 0..12 {
        for cols in [0, 1, 2, 3, 5, 9, 20, 41, 81, 119, 140] {
            let mut script = ModelScript::new(24, 80);
            for keys in [
                "",
                "\x02b",
                "\x02w",
                "\x1b\x02?",
                "q\x02[",
                "/",
                "\x1bq\x02x",
            ] {
                script.press(keys);
                script.step(ModelInput::Resized(PaneSize { rows, cols }));
                let buffer = draw(&script.model, ColorDepth::True, 0);
                assert_eq!((buffer.rows, buffer.cols), (rows, cols));
                if let Some(caret) = buffer.caret {
                    assert!(
                        caret.row < rows && caret.col < cols,
                        "{caret:?} {rows}×{cols} {keys:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn a_reversed_screen_and_hidden_text_are_as_the_program_wants_them() {
    let mut script = ModelScript::new(6, 60);
    let mut turned = headed(frame(2, &["abc"]), |head| head.modes.reverse = true);
    turned.rows.push(FrameRow(
        1,
        vec![StyledSpan(
            "secret".into(),
            FrameStyle(
                FrameColor(1),
                FrameColor(-1),
                FrameColor(-1),
                fugue_api::attach::StyleAttributes(1 << 5),
            ),
        )],
    ));
    script.show(1, turned);
    let buffer = draw(&script.model, ColorDepth::True, 0);
    assert_eq!(buffer.row(1)[0].style.3.0 & REVERSE, REVERSE);
    assert!(!script.picture().contains("secret"));
}

#[test]
fn the_sidebar_covers_the_panes_where_it_is_narrow_and_stands_beside_them_where_not() {
    let mut script = ModelScript::new(12, 80);
    script.press("\x02b");
    let room = |model: &AttachModel| model.areas().room.cols;
    assert_eq!(room(&script.model), 80);
    let picture = script.picture();
    for row in ["▶ ○ left", "● right", "▲ far", "needs input", "12s"] {
        assert!(picture.contains(row), "{row}\n{picture}");
    }
    script.step(ModelInput::Resized(PaneSize {
        rows: 12,
        cols: 160,
    }));
    assert!(room(&script.model) < 160 && room(&script.model) >= 80);
    // A click on the row focuses the pane.
    let row = script
        .picture()
        .lines()
        .position(|row| row.contains("● right"));
    let row = row.expect("a row") + 1;
    script.press(&format!("\x1b[<0;6;{row}M\x1b[<0;6;{row}m"));
    assert_eq!(script.model.focus, Some(PaneId(2)));
}

#[test]
fn workers_runs_and_watchers_stand_in_the_sidebar_and_what_is_long_is_cut() {
    let mut script = ModelScript::new(40, 160);
    let at = fugue_api::Timestamp(1_000);
    let overview = &mut script.model.overview;
    overview.workers.push(fugue_api::overview::WorkerRow {
        worker_id: "a-worker-with-a-very-long-name-claude".into(),
        instance: 1,
        session_id: "lead".into(),
        agent: "claude".into(),
        pane_id: Some(PaneId(2)),
        state: fugue_api::overview::WorkerState::NeedsInput,
        turn: 1,
        branch: None,
        cwd: None,
        started_at: Some(at),
    });
    for (id, status) in [("r-one", "running"), ("r-two", "failed")] {
        overview.runs.push(fugue_api::overview::RunRow {
            run_id: fugue_api::RunId(id.into()),
            kind: fugue_api::run_result::RunKind::Pipeline,
            status: status.into(),
            progress: "2/5".into(),
            started_at: Some(at),
        });
    }
    overview.watchers.push(fugue_api::overview::WatcherRow {
        pane_id: PaneId(1),
        state: fugue_api::overview::WatcherState::Paused,
        reason: None,
        decision: None,
        queued: 0,
    });
    let picture = script.picture();
    for row in [
        " workers",
        "▲ a-worker-with-… needs input  12s",
        "● pipeline r-one  2/5          12s",
        "✗ pipeline r-two  failed       12s",
        "▲ left            paused",
    ] {
        assert!(picture.contains(row), "{row}\n{picture}");
    }
    // A screen with too few rows shows the number of hidden rows.
    script.step(ModelInput::Resized(PaneSize {
        rows: 10,
        cols: 160,
    }));
    assert!(script.picture().contains("more rows"));
}

#[test]
fn questions_for_the_person_come_first_in_the_sidebar() {
    let mut script = ModelScript::new(40, 160);
    let question = |id: u64| fugue_api::overview::QuestionRow {
        question_id: fugue_api::QuestionId(id),
        from: "w-claude".into(),
        session_id: "lead".into(),
        body: "may I\x1b[31m?".into(),
        asked_at: fugue_api::Timestamp(1_000),
    };
    script.model.overview.questions = (1..=5).map(question).collect();
    let picture = script.picture();
    for row in [
        " questions for you",
        "▲ w-claude: may I",
        "fugue answer q3 TEXT",
        "… 2 more rows",
    ] {
        assert!(picture.contains(row), "{row}\n{picture}");
    }
    assert!(
        !picture.contains("q4") && !picture.contains('\x1b'),
        "{picture}"
    );
    let at = |text: &str| picture.find(text);
    assert!(at("questions for you") < at("▶ ○ left"), "{picture}");
}

#[test]
fn what_failed_or_asks_is_not_hidden_by_what_is_over() {
    use fugue_api::{
        overview::{WorkerRow, WorkerState},
        pane_state::{AgentState, AgentStatus, PaneState, StateSource},
    };

    let mut script = ModelScript::new(40, 160);
    let overview = &mut script.model.overview;
    let mut ended = |id: u64, state, code: i32| {
        let mut row = crate::model::tests::pane(id, &format!("over{id}"), "main", state);
        row.state.exit_code = Some(code);
        overview.panes.push(row);
    };
    ended(10, PaneState::Exited, 3);
    for id in 11..16 {
        ended(id, PaneState::Exited, 0);
    }
    for id in 16..26 {
        ended(id, PaneState::Closed, 1);
    }
    let mut agent = crate::model::tests::pane(30, "mine", "main", PaneState::Running);
    let status = AgentStatus::new("codex", AgentState::Paused, StateSource::Screen);
    agent.agent = Some(status);
    overview.panes.push(agent);
    for (id, state) in [
        ("bad-claude", WorkerState::Failed),
        ("old-claude", WorkerState::Ended),
    ] {
        overview.workers.push(WorkerRow {
            worker_id: id.into(),
            instance: 1,
            session_id: "lead".into(),
            agent: "claude".into(),
            pane_id: Some(PaneId(10)),
            state,
            turn: 1,
            branch: None,
            cwd: None,
            started_at: None,
        });
    }
    let picture = script.picture();
    for row in ["✗ over10", "✓ over15", "▲ mine", "✗ bad-claude"] {
        assert!(picture.contains(row), "{row}\n{picture}");
    }
    for row in ["over11", "over16", "over25", "old-claude"] {
        assert!(!picture.contains(row), "{row}\n{picture}");
    }
}
