//! How panes lie for those who look on, and the sizes that they have because of it.

use std::time::Duration;

use fugue_api::{
    PaneId,
    attach::{AttachRequest, LayoutChange, SessionLayout, SplitSide, ViewerRole},
    wire::{IdempotencyKey, Response},
};
use fugue_testkit::until;
use serde_json::json;

use crate::{
    eye::{Eye, main_session, room},
    world,
};

fn places(arrangement: &SessionLayout) -> Vec<(PaneId, [u16; 4])> {
    let place = |tile: &fugue_api::attach::Tile| {
        let place = tile.place;
        (tile.pane, [place.row, place.col, place.rows, place.cols])
    };
    arrangement.tiles.iter().map(place).collect()
}

#[test]
fn the_smallest_screen_rules_until_it_leaves() {
    let world = world();
    // Not by a trap: bash forgets a signal that comes while it runs one.
    let pane = world
        .pane("while :; do now=$(stty size); [ \"$now\" = \"$was\" ] || echo $now; was=$now; sleep 0.02; done")
        .pane_id;
    let mut large = Eye::new(&world);
    let mut small = Eye::new(&world);
    let mut reader = Eye::new(&world);
    large.attend(main_session(), room(31, 100), ViewerRole::Interactive);
    world.until_printed(pane, |text| text.ends_with("30 100"));
    reader.attend(main_session(), room(5, 10), ViewerRole::ReadOnly);
    let attended = small.attend(main_session(), room(25, 120), ViewerRole::Interactive);
    world.until_printed(pane, |text| text.ends_with("24 100"));
    let now = large.until_arranged(|now| now.clients == 3);
    assert_eq!(now.room, room(25, 100));
    assert_eq!(places(&now), [(pane, [0, 0, 25, 100])]);
    let drawn = large.until(pane, |drawn| drawn.head.size == room(24, 100));
    assert!(drawn.frame.whole);
    // It calls its looking off, and the next one just goes.
    small.cancel(attended);
    world.until_printed(pane, |text| text.ends_with("30 100"));
    let client = small.client;
    small.attend(main_session(), room(11, 50), ViewerRole::Interactive);
    world.until_printed(pane, |text| text.ends_with("10 50"));
    small.noted(AttachRequest::Fit {
        client,
        room: room(13, 50),
    });
    world.until_printed(pane, |text| text.ends_with("12 50"));
    drop(small);
    world.until_printed(pane, |text| text.ends_with("30 100"));
    drop(large);
    // Nobody with hands is left, so it keeps what it has.
    reader.until_arranged(|now| now.clients == 1);
    assert_eq!(world.status(pane).size, room(30, 100));
}

#[test]
fn panes_have_their_places_come_and_go() {
    let world = world();
    let first = world.shell("bash").pane_id;
    let mut eye = Eye::new(&world);
    eye.attend(main_session(), room(24, 81), ViewerRole::Interactive);
    let second = world.pane("exec cat").pane_id;
    let now = eye.until_arranged(|now| now.tiles.len() == 2);
    assert_eq!(
        places(&now),
        [(first, [0, 0, 24, 40]), (second, [0, 41, 24, 40])]
    );
    // One more below the second, where this client wants it.
    let key = IdempotencyKey([7; 16]);
    eye.arrange(LayoutChange::Beside {
        made_by: key,
        of: second,
        side: SplitSide::Below,
    });
    let made = eye.call("create_pane", json!({"command": "echo short"}), key);
    eye.answer(made).expect("a pane");
    let now = eye.until_arranged(|now| now.tiles.len() == 3);
    let third = now.tiles[2].pane;
    assert_eq!(
        places(&now),
        [
            (first, [0, 0, 24, 40]),
            (second, [0, 41, 12, 40]),
            (third, [12, 41, 12, 40])
        ]
    );
    // The command has ended and stays to be read; a daemon later too.
    eye.until(third, |drawn| drawn.head.ended && drawn.shows("short"));
    assert_eq!(eye.until_arranged(|_| true).tiles, now.tiles);
    world.daemons()[0].kill9();
    assert!(eye.is_cut_off());
    until("another daemon answers", Duration::from_secs(20), || {
        world.fugue(&["daemon", "start"]).code == Some(0)
    });
    let mut eye = Eye::again(&world, eye.client);
    let seen = eye.ask_arrangement(now.version);
    assert_eq!(
        eye.arrangement(seen).tiles.len(),
        3,
        "told at once, for it is another daemon's version"
    );
    let attended = eye.attend(main_session(), room(24, 81), ViewerRole::Interactive);
    let again = eye.until_arranged(|now| now.clients == 1);
    assert_eq!(again.tiles, now.tiles);
    world.close(third);
    let now = eye.until_arranged(|now| now.tiles.len() == 2);
    assert_eq!(
        places(&now),
        [(first, [0, 0, 24, 40]), (second, [0, 41, 24, 40])]
    );
    // A shell that is left is gone at once.
    eye.type_keys(first, "exit\r");
    let now = eye.until_arranged(|now| now.tiles.len() == 1);
    assert_eq!(places(&now), [(second, [0, 0, 24, 81])]);
    assert!(!eye.is_answered(attended));
    world.close(second);
    let over = eye.arrangement(attended);
    assert!(over.tiles.is_empty());
}

#[test]
fn panes_of_a_tiled_run_are_seen_and_go_with_it() {
    let world = world();
    let own = world.shell("bash").pane_id;
    let mut eye = Eye::new(&world);
    eye.attend(main_session(), room(40, 200), ViewerRole::Interactive);
    let run = json!({
        "commands": [{"command": "read x; stty size"}, {"command": "read x"}, {"command": "read x"}],
        "layout": "tiled",
    });
    let run = eye.call("fugue_run_parallel", run, IdempotencyKey([9; 16]));
    let now = eye.until_arranged(|now| now.tiles.len() == 4);
    assert_eq!(now.tiles[0].pane, own);
    let panes: Vec<PaneId> = now.tiles[1..].iter().map(|tile| tile.pane).collect();
    for pane in panes {
        eye.type_keys(pane, "\r");
    }
    let Ok(Response::Tool { reply }) = eye.answer(run) else {
        panic!("the run is told");
    };
    let reply = serde_json::to_value(reply).expect("JSON").to_string();
    assert!(reply.contains("19 100"), "as large as its tile: {reply}");
    let now = eye.until_arranged(|now| now.tiles.len() == 1);
    assert_eq!(now.tiles[0].pane, own);
}

#[test]
fn news_comes_when_there_is_some() {
    let world = world();
    world.fugue(&["daemon", "start"]).ok();
    let mut eye = Eye::new(&world);
    let first = eye.ask(AttachRequest::News { seen: 0 });
    let seen = eye.news(first);
    let parked = eye.ask(AttachRequest::News { seen });
    assert!(!eye.is_answered(parked));
    let pane = world.pane("exec cat").pane_id;
    let seen = eye.news(parked);
    let parked = eye.ask(AttachRequest::News { seen });
    world.close(pane);
    assert!(eye.news(parked) > seen);
}

#[test]
fn a_shell_that_a_step_ends_is_seen_on_in_its_place() {
    let world = world();
    let own = world.shell("bash").pane_id;
    let mut eye = Eye::new(&world);
    eye.attend(main_session(), room(24, 81), ViewerRole::Interactive);
    let run = json!({
        "commands": [{"command": "echo one; read x; exit 3"}, {"command": "echo two; read y"}],
        "stop_on_error": false,
        "layout": "tiled",
        "cwd": "/tmp",
    });
    let run = eye.call("fugue_run_pipeline", run, IdempotencyKey([9; 16]));
    let now = eye.until_arranged(|now| now.tiles.len() == 2);
    let pane = now.tiles[1].pane;
    // Somebody has arranged it, so that a pane that came anew would be somewhere else.
    let change = LayoutChange::Swap {
        one: own,
        other: pane,
    };
    eye.arrange(change);
    let now = eye.until_arranged(|now| now.tiles[0].pane == pane);
    let mut seen = 0;
    let mut pressed = 0;
    // Frames go on behind the end of the shell; while it is started again, there are none.
    while pressed < 2 {
        let view = eye.ask_view(pane, seen);
        let Ok(Response::Looked {
            found: fugue_api::attach::AttachResponse::Frame { frame },
        }) = eye.answer(view)
        else {
            seen = 0;
            continue;
        };
        seen = frame.number;
        let drawn = eye.draw(pane, *frame);
        assert!(!drawn.head.ended);
        if drawn.rows.iter().any(|row| row == ["one", "two"][pressed]) {
            eye.type_keys(pane, "\r");
            pressed += 1;
        }
    }
    eye.answer(run).expect("the run is told");
    assert_eq!(eye.until_arranged(|_| true).tiles, now.tiles);
}
