//! A client's own line to a pane.

use fugue_api::{
    ErrorKind, PaneId,
    attach::{AttachRequest, ClientId, ViewerRole},
    wire::Response,
};
use fugue_testkit::{TestEnv, until};

use crate::{
    LIMIT,
    eye::{Eye, room},
    world,
};

fn line(world: &TestEnv, pane: PaneId, role: ViewerRole) -> Eye {
    let mut eye = Eye::new(world);
    eye.noted(AttachRequest::Line { pane, role });
    eye
}

/// The number of the question for so many frames behind the first.
fn views(eye: &mut Eye, pane: PaneId, most: u32) -> u64 {
    let (client, seen) = (eye.client, eye.view(pane).frame.number);
    eye.ask(AttachRequest::Views { client, seen, most })
}

#[test]
fn what_is_typed_on_a_line_is_seen_there_and_by_all_others() {
    let world = world();
    let pane = world.pane("exec cat").pane_id;
    let mut other = Eye::new(&world);
    let mut lines = [
        line(&world, pane, ViewerRole::Interactive),
        line(&world, pane, ViewerRole::Interactive),
    ];
    for (number, text) in ["one", "two", "three", "four"].into_iter().enumerate() {
        lines[number % 2].type_keys(pane, text);
        for eye in lines.iter_mut().chain([&mut other]) {
            eye.until(pane, |drawn| drawn.shows(text));
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
fn frames_follow_each_other_without_being_asked_for_one_by_one() {
    let world = world();
    let pane = world.pane("exec cat").pane_id;
    let mut eye = line(&world, pane, ViewerRole::Interactive);
    let views = views(&mut eye, pane, 3);
    let mut typed = String::new();
    let mut frames = 0;
    while frames < 3 {
        let key = ["a", "b", "c"][frames];
        eye.type_keys(pane, key);
        typed += key;
        // What is known of who reads the terminal may come in a frame of its own.
        loop {
            frames += 1;
            let frame = eye.frame(views);
            assert!(!frame.whole);
            if eye.draw(pane, frame).rows[0] == typed || frames == 3 {
                break;
            }
        }
    }
    // That was all that was asked for; what else has changed comes with the next question.
    eye.type_keys(pane, "d");
    let mut other = Eye::new(&world);
    other.until(pane, |drawn| drawn.rows[0].ends_with('d'));
    assert!(!eye.is_answered(views));
    let drawn = eye.until(pane, |drawn| drawn.rows[0].ends_with('d'));
    assert!(!drawn.frame.whole);
    let refused = other.refused(AttachRequest::Views {
        client: eye.client,
        seen: 0,
        most: 3,
    });
    assert_eq!(refused.kind, ErrorKind::InvalidArgument);
}

#[test]
fn a_line_is_for_one_pane_and_for_nothing_else() {
    let world = world();
    let [pane, other] = [(); 2].map(|()| world.pane("exec cat").pane_id);
    let mut eye = line(&world, pane, ViewerRole::Interactive);
    let (client, bytes) = (eye.client, b"x".to_vec());
    for look in [
        AttachRequest::View {
            client,
            pane: other,
            seen: 0,
        },
        AttachRequest::Type {
            client,
            pane: other,
            bytes: bytes.clone(),
        },
        AttachRequest::Fit {
            client,
            room: room(5, 5),
        },
        AttachRequest::Line {
            pane,
            role: ViewerRole::Interactive,
        },
    ] {
        assert_eq!(eye.refused(look).kind, ErrorKind::InvalidArgument);
    }
    eye.type_keys(pane, "still here");
    eye.until(pane, |drawn| drawn.shows("still here"));
    let mut reader = line(&world, pane, ViewerRole::ReadOnly);
    let refused = reader.refused(AttachRequest::Type {
        client: ClientId(1),
        pane,
        bytes,
    });
    assert_eq!(refused.kind, ErrorKind::InvalidArgument);
    assert!(reader.until(pane, |drawn| drawn.shows("still here")).rows[1].is_empty());
}

#[test]
fn a_line_ends_with_its_pane_and_is_not_given_to_one_that_has_ended() {
    let world = world();
    let pane = world.pane("read x; echo over").pane_id;
    let mut eye = line(&world, pane, ViewerRole::Interactive);
    eye.view(pane);
    eye.type_keys(pane, "\r");
    let mut late = Eye::new(&world);
    let last = late.until(pane, |drawn| drawn.head.ended);
    assert!(last.shows("over"));
    // Whoever is on the line sees the end as well, or that the line is gone, and asks elsewhere.
    until("the line is closed", LIMIT, || !eye.is_heard(pane));
    for unknown in [pane, PaneId(99)] {
        let refused = late.refused(AttachRequest::Line {
            pane: unknown,
            role: ViewerRole::Interactive,
        });
        assert!(
            matches!(refused.kind, ErrorKind::Ended | ErrorKind::NotFound),
            "{refused:?}"
        );
    }
    // The connection is as good as before.
    assert!(late.view(pane).head.ended);
}

#[test]
fn a_client_that_talks_on_or_goes_away_leaves_nothing_behind() {
    let world = world();
    let pane = world.pane("exec cat").pane_id;
    drop(line(&world, pane, ViewerRole::Interactive));
    let daemon = world.daemons()[0].pid;
    let open = || {
        let fds = std::fs::read_dir(format!("/proc/{daemon}/fd"));
        fds.expect("the daemon lives").count()
    };
    let mut least = open();
    for _ in 0..50 {
        let mut eye = line(&world, pane, ViewerRole::Interactive);
        let seen = eye.view(pane).frame.number;
        eye.ask_view(pane, seen);
        least = least.min(open() - 1);
    }
    until("all fds are closed", LIMIT, || open() <= least);
    // Asked twice, it is one line.
    let mut eager = Eye::new(&world);
    let role = ViewerRole::Interactive;
    let first = eager.ask(AttachRequest::Line { pane, role });
    eager.ask(AttachRequest::Line { pane, role });
    assert_eq!(eager.answer(first), Ok(Response::Noted));
    assert!(eager.view(pane).frame.whole);
}
