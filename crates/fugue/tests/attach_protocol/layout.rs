//! The layout of a session with several viewers, and the pane sizes that follow from it.

use std::time::Duration;

use fugue_api::{
    PaneId,
    attach::{AttachRequest, LayoutChange, SessionLayout, SplitSide, ViewerRole},
    wire::{IdempotencyKey, Response},
};
use fugue_testkit::until;
use serde_json::json;

use crate::{
    attach_client::{AttachClient, main_session, room},
    test_env,
};

fn places(arrangement: &SessionLayout) -> Vec<(PaneId, [u16; 4])> {
    let place = |tile: &fugue_api::attach::Tile| {
        let place = tile.place;
        (tile.pane, [place.row, place.col, place.rows, place.cols])
    };
    arrangement.tiles.iter().map(place).collect()
}

#[test]
fn the_smallest_viewer_decides_the_size_until_it_detaches() {
    let test_env = test_env();
    // Without a trap: bash loses a signal that arrives while a trap runs.
    let pane = test_env
        .pane("while :; do now=$(stty size); [ \"$now\" = \"$was\" ] || echo $now; was=$now; sleep 0.02; done")
        .pane_id;
    let mut large = AttachClient::new(&test_env);
    let mut small = AttachClient::new(&test_env);
    let mut reader = AttachClient::new(&test_env);
    large.attend(main_session(), room(31, 100), ViewerRole::Interactive);
    test_env.until_printed(pane, |text| text.ends_with("30 100"));
    reader.attend(main_session(), room(5, 10), ViewerRole::ReadOnly);
    let attended = small.attend(main_session(), room(25, 120), ViewerRole::Interactive);
    test_env.until_printed(pane, |text| text.ends_with("24 100"));
    let now = large.until_layout(|now| now.clients == 3);
    assert_eq!(now.room, room(25, 100));
    assert_eq!(places(&now), [(pane, [0, 0, 25, 100])]);
    let drawn = large.until(pane, |drawn| drawn.head.size == room(24, 100));
    assert!(drawn.frame.whole);
    // One viewer cancels its request, the next one disconnects.
    small.cancel(attended);
    test_env.until_printed(pane, |text| text.ends_with("30 100"));
    let client = small.client;
    small.attend(main_session(), room(11, 50), ViewerRole::Interactive);
    test_env.until_printed(pane, |text| text.ends_with("10 50"));
    small.acknowledged(AttachRequest::SetSize {
        client,
        room: room(13, 50),
    });
    test_env.until_printed(pane, |text| text.ends_with("12 50"));
    drop(small);
    test_env.until_printed(pane, |text| text.ends_with("30 100"));
    drop(large);
    // No interactive viewer is left, so the size stays.
    reader.until_layout(|now| now.clients == 1);
    assert_eq!(test_env.status(pane).size, room(30, 100));
}

#[test]
fn panes_are_added_to_and_removed_from_the_layout() {
    let test_env = test_env();
    let first = test_env.shell("bash").pane_id;
    let mut viewer = AttachClient::new(&test_env);
    viewer.attend(main_session(), room(24, 81), ViewerRole::Interactive);
    let second = test_env.pane("exec cat").pane_id;
    let now = viewer.until_layout(|now| now.tiles.len() == 2);
    assert_eq!(
        places(&now),
        [(first, [0, 0, 24, 40]), (second, [0, 41, 24, 40])]
    );
    // A third pane, below the second.
    let key = IdempotencyKey([7; 16]);
    viewer.change_layout(LayoutChange::Split {
        made_by: key,
        of: second,
        side: SplitSide::Below,
    });
    let made = viewer.call("create_pane", json!({"command": "echo short"}), key);
    viewer.response(made).expect("a pane");
    let now = viewer.until_layout(|now| now.tiles.len() == 3);
    let third = now.tiles[2].pane;
    assert_eq!(
        places(&now),
        [
            (first, [0, 0, 24, 40]),
            (second, [0, 41, 12, 40]),
            (third, [12, 41, 12, 40])
        ]
    );
    // The ended command stays readable, also after a daemon restart.
    viewer.until(third, |drawn| drawn.head.ended && drawn.shows("short"));
    assert_eq!(viewer.until_layout(|_| true).tiles, now.tiles);
    test_env.daemons()[0].kill9();
    assert!(viewer.is_disconnected());
    until("another daemon answers", Duration::from_secs(20), || {
        test_env.fugue(&["daemon", "start"]).code == Some(0)
    });
    let mut viewer = AttachClient::reconnect(&test_env, viewer.client);
    let seen = viewer.request_layout(now.version);
    assert_eq!(
        viewer.layout(seen).tiles.len(),
        3,
        "told at once, for it is another daemon's version"
    );
    let attended = viewer.attend(main_session(), room(24, 81), ViewerRole::Interactive);
    let again = viewer.until_layout(|now| now.clients == 1);
    assert_eq!(again.tiles, now.tiles);
    test_env.close(third);
    let now = viewer.until_layout(|now| now.tiles.len() == 2);
    assert_eq!(
        places(&now),
        [(first, [0, 0, 24, 40]), (second, [0, 41, 24, 40])]
    );
    // A shell that exits leaves the layout at once.
    viewer.type_keys(first, "exit\r");
    let now = viewer.until_layout(|now| now.tiles.len() == 1);
    assert_eq!(places(&now), [(second, [0, 0, 24, 81])]);
    assert!(!viewer.is_answered(attended));
    test_env.close(second);
    let over = viewer.layout(attended);
    assert!(over.tiles.is_empty());
}

#[test]
fn panes_of_a_tiled_run_are_in_the_layout_until_it_ends() {
    let test_env = test_env();
    let own = test_env.shell("bash").pane_id;
    let mut viewer = AttachClient::new(&test_env);
    viewer.attend(main_session(), room(40, 200), ViewerRole::Interactive);
    let run = json!({
        "commands": [{"command": "read x; stty size"}, {"command": "read x"}, {"command": "read x"}],
        "layout": "tiled",
    });
    let run = viewer.call("fugue_run_parallel", run, IdempotencyKey([9; 16]));
    let now = viewer.until_layout(|now| now.tiles.len() == 4);
    assert_eq!(now.tiles[0].pane, own);
    let panes: Vec<PaneId> = now.tiles[1..].iter().map(|tile| tile.pane).collect();
    for pane in panes {
        viewer.type_keys(pane, "\r");
    }
    let Ok(Response::Tool { reply }) = viewer.response(run) else {
        panic!("the run is told");
    };
    let reply = serde_json::to_value(reply).expect("JSON").to_string();
    assert!(reply.contains("19 100"), "as large as its tile: {reply}");
    let now = viewer.until_layout(|now| now.tiles.len() == 1);
    assert_eq!(now.tiles[0].pane, own);
}

#[test]
fn the_overview_version_changes_with_the_overview() {
    let test_env = test_env();
    test_env.fugue(&["daemon", "start"]).ok();
    let mut viewer = AttachClient::new(&test_env);
    let first = viewer.request(AttachRequest::WatchOverview { seen: 0 });
    let seen = viewer.overview_version(first);
    let parked = viewer.request(AttachRequest::WatchOverview { seen });
    assert!(!viewer.is_answered(parked));
    let pane = test_env.pane("exec cat").pane_id;
    let seen = viewer.overview_version(parked);
    let parked = viewer.request(AttachRequest::WatchOverview { seen });
    test_env.close(pane);
    assert!(viewer.overview_version(parked) > seen);
}

#[test]
fn a_shell_that_a_step_ends_keeps_its_tile() {
    let test_env = test_env();
    let own = test_env.shell("bash").pane_id;
    let mut viewer = AttachClient::new(&test_env);
    viewer.attend(main_session(), room(24, 81), ViewerRole::Interactive);
    let run = json!({
        "commands": [{"command": "echo one; read x; exit 3"}, {"command": "echo two; read y"}],
        "stop_on_error": false,
        "layout": "tiled",
        "cwd": "/tmp",
    });
    let run = viewer.call("fugue_run_pipeline", run, IdempotencyKey([9; 16]));
    let now = viewer.until_layout(|now| now.tiles.len() == 2);
    let pane = now.tiles[1].pane;
    // With a changed layout, a new pane would get another position.
    let change = LayoutChange::Swap {
        one: own,
        other: pane,
    };
    viewer.change_layout(change);
    let now = viewer.until_layout(|now| now.tiles[0].pane == pane);
    let mut seen = 0;
    let mut pressed = 0;
    // Frames continue after the end of the shell; during its restart there are none.
    while pressed < 2 {
        let view = viewer.request_frame(pane, seen);
        let Ok(Response::Attach {
            response: fugue_api::attach::AttachResponse::Frame { frame },
        }) = viewer.response(view)
        else {
            seen = 0;
            continue;
        };
        seen = frame.number;
        let drawn = viewer.draw(pane, *frame);
        assert!(!drawn.head.ended);
        if drawn.rows.iter().any(|row| row == ["one", "two"][pressed]) {
            viewer.type_keys(pane, "\r");
            pressed += 1;
        }
    }
    viewer.response(run).expect("the run is told");
    assert_eq!(viewer.until_layout(|_| true).tiles, now.tiles);
}
