//! Connections of a client to a pane's own thread.

use fugue_api::{
    ErrorKind, PaneId,
    attach::{AttachRequest, ClientId, ViewerRole},
    wire::Response,
};
use fugue_testkit::{TestEnv, until};

use crate::{
    LIMIT,
    attach_client::{AttachClient, room},
    test_env,
};

fn pane_connection(test_env: &TestEnv, pane: PaneId, role: ViewerRole) -> AttachClient {
    let mut viewer = AttachClient::new(test_env);
    viewer.acknowledged(AttachRequest::ConnectPane { pane, role });
    viewer
}

/// Requests this many frames after the current one and returns the id of the request.
fn views(viewer: &mut AttachClient, pane: PaneId, most: u32) -> u64 {
    let (client, seen) = (viewer.client, viewer.view(pane).frame.number);
    viewer.request(AttachRequest::StreamFrames { client, seen, most })
}

#[test]
fn input_on_a_pane_connection_is_seen_by_all_viewers() {
    let test_env = test_env();
    let pane = test_env.pane("exec cat").pane_id;
    let mut other = AttachClient::new(&test_env);
    let mut lines = [
        pane_connection(&test_env, pane, ViewerRole::Interactive),
        pane_connection(&test_env, pane, ViewerRole::Interactive),
    ];
    for (number, text) in ["one", "two", "three", "four"].into_iter().enumerate() {
        lines[number % 2].type_keys(pane, text);
        for viewer in lines.iter_mut().chain([&mut other]) {
            viewer.until(pane, |drawn| drawn.shows(text));
        }
    }
    assert_eq!(
        other.view_number(pane) >> 32,
        lines[0].view_number(pane) >> 32
    );
    other.type_keys(pane, "five");
    let seen = lines[0].until(pane, |drawn| drawn.shows("five"));
    assert_eq!(seen.rows[0], "onetwothreefourfive");
}

#[test]
fn several_frames_are_requested_at_once() {
    let test_env = test_env();
    let pane = test_env.pane("exec cat").pane_id;
    let mut viewer = pane_connection(&test_env, pane, ViewerRole::Interactive);
    let views = views(&mut viewer, pane, 3);
    let mut typed = String::new();
    let mut frames = 0;
    while frames < 3 {
        let key = ["a", "b", "c"][frames];
        viewer.type_keys(pane, key);
        typed += key;
        // A change of the pane state may come in a frame of its own.
        loop {
            frames += 1;
            let frame = viewer.frame(views);
            assert!(!frame.whole);
            if viewer.draw(pane, frame).rows[0] == typed || frames == 3 {
                break;
            }
        }
    }
    // No more frames were requested; later changes come with the next request.
    viewer.type_keys(pane, "d");
    let mut other = AttachClient::new(&test_env);
    other.until(pane, |drawn| drawn.rows[0].ends_with('d'));
    assert!(!viewer.is_answered(views));
    let drawn = viewer.until(pane, |drawn| drawn.rows[0].ends_with('d'));
    assert!(!drawn.frame.whole);
    let refused = other.refused(AttachRequest::StreamFrames {
        client: viewer.client,
        seen: 0,
        most: 3,
    });
    assert_eq!(refused.kind, ErrorKind::InvalidArgument);
}

#[test]
fn a_pane_connection_serves_only_its_pane() {
    let test_env = test_env();
    let [pane, other] = [(); 2].map(|()| test_env.pane("exec cat").pane_id);
    let mut viewer = pane_connection(&test_env, pane, ViewerRole::Interactive);
    let (client, bytes) = (viewer.client, b"x".to_vec());
    for look in [
        AttachRequest::GetFrame {
            client,
            pane: other,
            seen: 0,
        },
        AttachRequest::Type {
            client,
            pane: other,
            bytes: bytes.clone(),
        },
        AttachRequest::SetSize {
            client,
            room: room(5, 5),
        },
        AttachRequest::ConnectPane {
            pane,
            role: ViewerRole::Interactive,
        },
    ] {
        assert_eq!(viewer.refused(look).kind, ErrorKind::InvalidArgument);
    }
    viewer.type_keys(pane, "still here");
    viewer.until(pane, |drawn| drawn.shows("still here"));
    let mut reader = pane_connection(&test_env, pane, ViewerRole::ReadOnly);
    let refused = reader.refused(AttachRequest::Type {
        client: ClientId(1),
        pane,
        bytes,
    });
    assert_eq!(refused.kind, ErrorKind::InvalidArgument);
    assert!(reader.until(pane, |drawn| drawn.shows("still here")).rows[1].is_empty());
}

#[test]
fn a_pane_connection_ends_with_its_pane_and_is_refused_for_an_ended_one() {
    let test_env = test_env();
    let pane = test_env.pane("read x; echo over").pane_id;
    let mut viewer = pane_connection(&test_env, pane, ViewerRole::Interactive);
    viewer.view(pane);
    viewer.type_keys(pane, "\r");
    let mut late = AttachClient::new(&test_env);
    let last = late.until(pane, |drawn| drawn.head.ended);
    assert!(last.shows("over"));
    // The connection gets the last frame too, or is closed, and the client uses its main connection.
    until("the line is closed", LIMIT, || !viewer.is_connected(pane));
    for unknown in [pane, PaneId(99)] {
        let refused = late.refused(AttachRequest::ConnectPane {
            pane: unknown,
            role: ViewerRole::Interactive,
        });
        assert!(
            matches!(refused.kind, ErrorKind::Ended | ErrorKind::NotFound),
            "{refused:?}"
        );
    }
    // The main connection still works.
    assert!(late.view(pane).head.ended);
}

#[test]
fn a_repeated_request_or_a_disconnect_leaks_no_connection() {
    let test_env = test_env();
    let pane = test_env.pane("exec cat").pane_id;
    drop(pane_connection(&test_env, pane, ViewerRole::Interactive));
    let daemon = test_env.daemons()[0].pid;
    let open = || {
        let fds = std::fs::read_dir(format!("/proc/{daemon}/fd"));
        fds.expect("the daemon lives").count()
    };
    let mut least = open();
    for _ in 0..50 {
        let mut viewer = pane_connection(&test_env, pane, ViewerRole::Interactive);
        let seen = viewer.view(pane).frame.number;
        viewer.request_frame(pane, seen);
        least = least.min(open() - 1);
    }
    until("all fds are closed", LIMIT, || open() <= least);
    // A repeated request opens no second connection.
    let mut eager = AttachClient::new(&test_env);
    let role = ViewerRole::Interactive;
    let first = eager.request(AttachRequest::ConnectPane { pane, role });
    eager.request(AttachRequest::ConnectPane { pane, role });
    assert_eq!(eager.response(first), Ok(Response::Done));
    assert!(eager.view(pane).frame.whole);
}
