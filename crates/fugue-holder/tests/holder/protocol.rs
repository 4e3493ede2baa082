//! The protocol: fencing of daemons, input that is written once, and invalid frames.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;

use fugue_holder::wire::{
    ChildState, InputKind, InputMessage, InputOutcome, ProcessExit, RefusalReason, SignalTarget,
    ToDaemon, ToHolder,
};
use fugue_testkit::{MissingRequirement, skip};

use super::test_pane::{TestPane, run, seeded_rng, text};

fn refused(pane: &mut TestPane) -> RefusalReason {
    pane.expect(|m| match m {
        ToDaemon::Refused { reason, .. } => Some(*reason),
        ToDaemon::HelloOk(_) => panic!("welcomed"),
        _ => None,
    })
}

#[test]
fn a_lower_epoch_is_fenced_and_a_higher_one_takes_over() {
    let mut pane = TestPane::running("read x; exit 1");
    let mut second = TestPane::without_holder(tempfile::tempdir().unwrap(), pane.dir.clone());
    second.epoch = 5;
    second.link = Some(fugue_holder::DaemonLink::connect(&pane.socket()).unwrap());
    assert!(matches!(second.hello().state, ChildState::Running(_)));
    assert_eq!(refused(&mut pane), RefusalReason::Fenced);
    pane.wait_for_disconnect();
    // The old daemon retries repeatedly, without an effect on the new one.
    for _ in 0..3 {
        pane.connect();
        pane.send(&ToHolder::Hello {
            version: 1,
            epoch: 4,
        });
        assert_eq!(refused(&mut pane), RefusalReason::Fenced);
    }
    // The daemon connects again before it noticed that its first connection broke.
    let before = second.link.take();
    second.link = Some(fugue_holder::DaemonLink::connect(&pane.socket()).unwrap());
    second.hello();
    drop(before);
    assert_eq!(second.input(1, 1, b"\n").outcome, InputOutcome::Written);
    assert_eq!(second.wait_for_exit().ending, ProcessExit::Code(1));
}

#[test]
fn an_input_is_typed_once_over_reconnects() {
    let mut pane = TestPane::running("stty -echo; echo ready; cat");
    pane.read_until_text("ready");
    for n in 1..=20u8 {
        let line = format!("line {n}\n");
        let input = InputMessage {
            seq: u64::from(n),
            key: [n; 16],
            kind: InputKind::Typed,
            bytes: line.clone().into_bytes(),
        };
        // Sent, and the connection is lost before the response.
        pane.send(&ToHolder::Input(input));
        if n % 2 == 0 {
            pane.link = None;
            pane.connect();
            pane.hello();
        }
        // Repeated with the same key: not written again.
        let state = pane.input(u64::from(n), n, line.as_bytes());
        assert!(
            matches!(
                state.outcome,
                InputOutcome::Duplicate | InputOutcome::Written
            ),
            "{state:?}"
        );
        assert_eq!(state.written as usize, line.len());
    }
    pane.read_until_text("line 20\r\n");
    let wanted: String = (1..=20).map(|n| format!("line {n}\r\n")).collect();
    assert_eq!(text(&pane.seen), format!("ready\r\n{wanted}"));
}

#[test]
fn what_a_program_does_not_read_is_pending_and_then_written() {
    let mut pane = TestPane::running(
        "stty raw -echo; echo ready; head -c 1 > /dev/null; echo go; head -c 300000 | wc -c",
    );
    pane.read_until_text("ready");
    let state = pane.input(1, 1, &[b'x'; 300_001]);
    assert_eq!(state.outcome, InputOutcome::Pending, "{state:?}");
    assert!(state.written < state.total);
    let state = pane.input_state(1);
    assert_eq!(
        (state.outcome, state.written),
        (InputOutcome::Written, 300_001)
    );
    pane.read_until_text("300000");
}

#[test]
fn an_input_that_the_child_never_read_is_lost_and_said_so() {
    let mut pane = TestPane::running("stty raw -echo; echo ready; exec sleep 1000");
    pane.read_until_text("ready");
    assert_eq!(
        pane.input(1, 1, &[b'x'; 300_000]).outcome,
        InputOutcome::Pending
    );
    assert_eq!(pane.input(2, 2, b"y").outcome, InputOutcome::Pending);
    // More than the queue accepts.
    assert_eq!(
        pane.input(3, 3, &[b'x'; 900_000]).outcome,
        InputOutcome::Lost
    );
    pane.send(&ToHolder::Signal {
        id: 1,
        target: SignalTarget::Child,
        signo: 9,
    });
    assert_eq!(pane.input_state(1).outcome, InputOutcome::Lost);
    assert_eq!(pane.input_state(2).outcome, InputOutcome::Lost);
    assert_eq!(
        pane.wait_for_exit().ending,
        ProcessExit::Signal {
            signo: 9,
            core: false
        }
    );
    assert_eq!(pane.input(4, 4, b"z").outcome, InputOutcome::Lost);
    assert_eq!(pane.input(5, 2, b"y").outcome, InputOutcome::Duplicate);
}

#[test]
fn a_terminals_reply_is_given_once() {
    let mut pane = TestPane::running("stty raw -echo; echo ready; head -c 3");
    pane.read_until_text("ready");
    for (seq, at, outcome) in [
        (1, 10, InputOutcome::Written),
        (2, 10, InputOutcome::Duplicate),
        (3, 7, InputOutcome::Duplicate),
        (4, 11, InputOutcome::Written),
    ] {
        pane.send(&ToHolder::Input(InputMessage {
            seq,
            key: [seq as u8; 16],
            kind: InputKind::Answer { at },
            bytes: b"r".to_vec(),
        }));
        assert_eq!(pane.input_state(seq).outcome, outcome);
    }
    pane.link = None;
    pane.connect();
    assert_eq!(pane.hello().answered_upto, 11);
    pane.input(5, 9, b"t");
    let (_, seen) = pane.output();
    assert!(text(&seen).ends_with("rrt"), "{:?}", text(&seen));
}

#[test]
fn signals_reach_the_foreground_the_session_or_the_child() {
    let mut pane =
        TestPane::running("trap 'echo got' USR1; echo ready; while :; do sleep 1000 & wait; done");
    pane.read_until_text("ready");
    for (n, target) in [SignalTarget::Child, SignalTarget::Foreground]
        .into_iter()
        .enumerate()
    {
        pane.send(&ToHolder::Signal {
            id: 1,
            target,
            signo: 10,
        });
        pane.read_until(|seen| text(seen).matches("got").count() > n);
    }
    pane.send(&ToHolder::Signal {
        id: 2,
        target: SignalTarget::Session,
        signo: 9,
    });
    assert_eq!(
        pane.wait_for_exit().ending,
        ProcessExit::Signal {
            signo: 9,
            core: false
        }
    );
    pane.send(&ToHolder::Signal {
        id: 3,
        target: SignalTarget::Child,
        signo: 9,
    });
    let errno = pane.expect(|m| match m {
        ToDaemon::Failed { id: 3, errno, .. } => Some(*errno),
        _ => None,
    });
    assert_eq!(errno, libc::ESRCH);
}

#[test]
fn requests_are_served_under_a_flood() {
    let mut pane = TestPane::running("trap 'exit 3' TERM; while :; do seq 1 100000; done");
    pane.read_until(|seen| seen.len() > 100_000);
    let begun = std::time::Instant::now();
    for _ in 0..20 {
        pane.probe();
    }
    println!("a probe under a flood: {:?}", begun.elapsed() / 20);
    assert_eq!(pane.close(2000), 0);
}

#[test]
fn garbage_ends_its_own_connection_and_nothing_else() {
    let mut pane = TestPane::running("read x; exit 12");
    let mut rng = seeded_rng();
    for round in 0..60 {
        let mut stranger = UnixStream::connect(pane.socket()).unwrap();
        let len = rng.below(3000) as usize;
        let mut bytes: Vec<u8> = (0..len).map(|_| rng.below(256) as u8).collect();
        match round % 4 {
            0 => {}
            // A valid length, then garbage.
            1 => bytes.splice(0..0, [200, 0, 0, 0, 2]).for_each(drop),
            // An incomplete Hello.
            2 => bytes = vec![11, 0, 0, 0, 1, 1, 0],
            // The length of the largest frame, without its contents.
            _ => bytes.splice(0..0, [0, 0, 16, 0]).for_each(drop),
        }
        // The holder may have closed the connection meanwhile.
        let _ = stranger.write_all(&bytes);
        if round % 3 == 0 {
            let _ = stranger.shutdown(std::net::Shutdown::Write);
            let _ = stranger.read_to_end(&mut Vec::new());
        }
    }
    // An accepted daemon that sends garbage is dropped too, and may connect again.
    let mut bad = Vec::new();
    fugue_holder::wire::WireMessage::encode(
        &ToHolder::Hello {
            version: 1,
            epoch: 1,
        },
        &mut bad,
    );
    bad.extend([255; 100]);
    let mut stranger = UnixStream::connect(pane.socket()).unwrap();
    stranger.write_all(&bad).unwrap();
    let _ = stranger.read_to_end(&mut Vec::new());
    pane.connect();
    assert!(matches!(pane.hello().state, ChildState::Running(_)));
    pane.input(1, 1, b"\n");
    assert_eq!(pane.wait_for_exit().ending, ProcessExit::Code(12));
}

#[test]
fn an_unknown_kind_is_answered_as_such() {
    let mut pane = TestPane::running("read x");
    let link = pane.link.as_ref().unwrap();
    rustix::io::write(link, &[3, 0, 0, 0, 99, 1, 2]).unwrap();
    pane.expect(|m| matches!(m, ToDaemon::Unknown { kind: 99 }).then_some(()));
    // A known kind with fields of a later version.
    let mut probe = Vec::new();
    fugue_holder::wire::WireMessage::encode(&ToHolder::Probe { id: 5 }, &mut probe);
    probe.extend([9; 7]);
    probe[0] += 7;
    rustix::io::write(pane.link.as_ref().unwrap(), &probe).unwrap();
    pane.expect(|m| matches!(m, ToDaemon::Probed { id: 5, .. }).then_some(()));
}

#[test]
fn another_users_connection_is_refused() {
    if !rustix::process::geteuid().is_root() {
        return skip(MissingRequirement::Root, "only root can be somebody else");
    }
    let mut pane = TestPane::running("read x; exit 13");
    let open = |path: &std::path::Path| {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        std::fs::set_permissions(path, mode).unwrap();
    };
    open(pane.home());
    open(&pane.socket());
    let script = "import socket, sys\ns = socket.socket(socket.AF_UNIX)\ns.connect(sys.argv[1])\n\
                  s.settimeout(30)\nanswer = s.recv(100)\nsys.exit(0 if answer[4:6] == bytes([2, 0]) else 1)";
    let args: Vec<std::ffi::OsString> = [
        "--reuid=65534",
        "--clear-groups",
        "/usr/bin/python3",
        "-c",
        script,
    ]
    .into_iter()
    .map(Into::into)
    .chain([pane.socket().into()])
    .collect();
    match run("setpriv", &args) {
        Ok(ProcessExit::Code(127)) | Err(_) => skip(
            MissingRequirement::Program,
            "setpriv or python3 is not installed",
        ),
        Ok(ended) => assert_eq!(ended, ProcessExit::Code(0)),
    }
    pane.input(1, 1, b"\n");
    assert_eq!(pane.wait_for_exit().ending, ProcessExit::Code(13));
}
