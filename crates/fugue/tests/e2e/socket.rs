//! The daemon's socket and its directories: permissions, and clients that send malformed frames, never read, or belong to
//! another user.

use std::{
    fs::{self, Permissions},
    io::{Read, Write},
    os::unix::{
        fs::{MetadataExt, PermissionsExt, symlink},
        net::UnixStream,
    },
    path::Path,
    time::Duration,
};

use fugue_api::{ErrorKind, OsText, wire};
use fugue_testkit::{MissingRequirement, RunningProgram, TestEnv, report_metric, skip, until};
use serde::{Serialize, de::DeserializeOwned};

const LIMIT: Duration = Duration::from_secs(120);

fn test_env() -> TestEnv {
    TestEnv::new(env!("CARGO_BIN_EXE_fugue"), LIMIT)
}

fn connect(test_env: &TestEnv) -> UnixStream {
    let stream =
        UnixStream::connect(test_env.daemon().socket).expect("the socket takes a connection");
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .expect("a limit");
    stream
}

fn frame(message: &impl Serialize) -> Vec<u8> {
    let json = serde_json::to_vec(message).expect("a frame is JSON");
    let mut bytes = u32::try_from(json.len())
        .expect("a small frame")
        .to_le_bytes()
        .to_vec();
    bytes.extend(json);
    bytes
}

fn hello(protocol: u32) -> Vec<u8> {
    frame(&wire::Hello {
        protocol,
        caller: wire::CallerEnv {
            cwd: OsText::Text("/".into()),
            env: Vec::new(),
            umask: 0o022,
            setting_names: wire::SettingNames::Prefixed,
        },
        who: wire::CallerIdentity::Person {
            project: "doors".into(),
        },
    })
}

fn call(id: u64, request: wire::Request) -> Vec<u8> {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&id.to_le_bytes());
    frame(&wire::ClientMessage::Call {
        id,
        key: wire::IdempotencyKey(key),
        who: None,
        request,
    })
}

fn receive<T: DeserializeOwned>(stream: &mut UnixStream) -> T {
    let mut length = [0; 4];
    stream.read_exact(&mut length).expect("a length");
    let mut json = vec![0; u32::from_le_bytes(length) as usize];
    stream.read_exact(&mut json).expect("a frame");
    serde_json::from_slice(&json).expect("a frame of ours")
}

/// Whether the daemon has hung up.
fn hung_up(stream: &mut UnixStream) -> bool {
    let mut rest = Vec::new();
    match stream.read_to_end(&mut rest) {
        Ok(_) => true,
        Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
    }
}

#[test]
fn bad_manners_at_the_socket_disturb_nobody() {
    let test_env = test_env();
    let pane = test_env.pane("exec cat").pane_id;
    let before = test_env.daemon();
    let memory = || {
        test_env.daemons()[0]
            .memory_kib()
            .get("Rss")
            .copied()
            .unwrap_or(0)
    };
    let memory_before = memory();

    // Kept open through all of it.
    let mut silent: Vec<UnixStream> = (0..200).map(|_| connect(&test_env)).collect();
    let mut half = connect(&test_env);
    half.write_all(&hello(wire::PROTOCOL)[..7])
        .expect("half a frame");

    let rude: [Vec<u8>; 9] = [
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec(),
        vec![0xff; 4096],
        vec![0; 4096],
        [&u32::MAX.to_le_bytes()[..], b"{"].concat(),
        [&5u32.to_le_bytes()[..], b"nope!"].concat(),
        [&2u32.to_le_bytes()[..], b"{}"].concat(),
        hello(wire::PROTOCOL + 1000),
        [hello(wire::PROTOCOL), vec![0xff; 64]].concat(),
        // Nested so deep that a careless parser runs out of stack.
        {
            let deep = "[".repeat(1_000_000);
            [&(deep.len() as u32).to_le_bytes()[..], deep.as_bytes()].concat()
        },
    ];
    for (number, bytes) in rude.iter().enumerate() {
        let mut stream = connect(&test_env);
        // It may hang up before it has heard everything.
        let _ = stream.write_all(bytes);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        assert!(hung_up(&mut stream), "number {number} is shown the door");
        assert_eq!(test_env.daemon().pid, before.pid, "after number {number}");
    }

    // Calls without hello are not answered.
    let mut stream = connect(&test_env);
    let _ = stream.write_all(&call(1, wire::Request::DaemonStop { panes: true }));
    let _ = stream.shutdown(std::net::Shutdown::Write);
    assert!(hung_up(&mut stream));
    assert_eq!(test_env.daemon().pid, before.pid);

    // Many asked and nobody there to listen. Not more than the socket holds: a client that neither reads nor stops
    // asking keeps only itself waiting.
    for _ in 0..20 {
        let mut stream = connect(&test_env);
        stream.write_all(&hello(wire::PROTOCOL)).expect("hello");
        for id in 0..100 {
            if stream
                .write_all(&call(id, wire::Request::DaemonStatus))
                .is_err()
            {
                break;
            }
        }
    }
    test_env.type_line(pane, "undisturbed");
    test_env.until_printed(pane, |text| text.matches("undisturbed").count() == 2);
    let after = test_env.daemon();
    assert_eq!(
        (after.pid, after.epoch),
        (before.pid, before.epoch),
        "the same daemon"
    );
    let grown = memory().saturating_sub(memory_before);
    report_metric(
        "hostile clients",
        format!("the daemon lives on, {grown} KiB larger"),
    );
    assert!(
        grown < 64 * 1024,
        "a length is not believed before its bytes are there: {grown} KiB"
    );
    for stream in &mut silent {
        // Silence is no offence; whether it is still let in is the daemon's choice.
        let _ = stream.write_all(&hello(wire::PROTOCOL));
    }
}

#[test]
fn answers_carry_the_id_of_their_question_in_any_order() {
    let test_env = test_env();
    let pane = test_env.pane("echo before; exec cat").pane_id;
    test_env.until_printed(pane, |text| text.contains("before"));
    let mut stream = connect(&test_env);
    stream.write_all(&hello(wire::PROTOCOL)).expect("hello");
    assert!(matches!(
        receive(&mut stream),
        wire::Welcome {
            protocol: wire::PROTOCOL,
            ..
        }
    ));
    // The first one blocks; those behind it are answered all the same.
    let follow = wire::Request::Follow {
        pane: pane.to_string(),
        from: b"before\r\n".len() as u64,
    };
    stream.write_all(&call(7, follow)).expect("a question");
    for id in 100..140 {
        stream
            .write_all(&call(id, wire::Request::DaemonStatus))
            .expect("a question");
    }
    let mut answered: Vec<u64> = (0..40)
        .map(|_| match receive::<wire::DaemonMessage>(&mut stream) {
            wire::DaemonMessage::Response {
                id,
                response: Ok(wire::Response::DaemonStatus { .. }),
                ..
            } => id,
            other => panic!("{other:?}"),
        })
        .collect();
    answered.sort_unstable();
    assert!(answered.into_iter().eq(100..140));
    test_env.type_line(pane, "more");
    match receive::<wire::DaemonMessage>(&mut stream) {
        wire::DaemonMessage::Response {
            id: 7,
            response: Ok(wire::Response::Output { chunk }),
            ..
        } => {
            assert!(
                String::from_utf8_lossy(&chunk.raw).contains("more"),
                "{chunk:?}"
            );
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_is_ours_is_for_us_alone() {
    let test_env = test_env();
    let pane = test_env.pane("echo secret output; exec cat").pane_id;
    test_env.until_printed(pane, |text| text.contains("secret"));
    let mode = |path: &Path| {
        fs::symlink_metadata(path)
            .expect("it is there")
            .permissions()
            .mode()
            & 0o7777
    };
    assert_eq!(mode(&test_env.state()), 0o700);
    let mut looked_at = 0;
    let mut dirs = vec![test_env.state()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(&dir).expect("our own directory").flatten() {
            let kind = entry.file_type().expect("its type");
            if kind.is_dir() {
                dirs.push(entry.path());
                assert_eq!(mode(&entry.path()) & 0o077, 0, "{:?}", entry.path());
            } else if kind.is_file() {
                let mode = mode(&entry.path());
                assert_eq!(mode & 0o077, 0, "{:?} is {mode:o}", entry.path());
            }
            looked_at += 1;
        }
    }
    assert!(looked_at > 4);
}

#[test]
fn another_user_is_shown_the_door() {
    let test_env = test_env();
    if !rustix::process::geteuid().is_root() {
        skip(
            MissingRequirement::Root,
            "only root can try the socket as another user",
        );
        return;
    }
    test_env.pane("exec cat");
    let socket = test_env.daemon().socket;
    // Open every way to it, so that only the daemon's own look at its visitor is left.
    for path in [
        test_env.dir(),
        &test_env.dir().join("state"),
        &test_env.state(),
    ] {
        fs::set_permissions(path, Permissions::from_mode(0o711)).expect("permissions");
    }
    fs::set_permissions(&socket, Permissions::from_mode(0o666)).expect("permissions");
    let script = "import socket, struct, json, sys\n\
        s = socket.socket(socket.AF_UNIX); s.settimeout(20); s.connect(sys.argv[1])\n\
        h = json.dumps({'frame': 'hello', 'protocol': 2, 'who': {'who': 'person', 'project': 'x'}, 'caller': {'cwd': '/', 'env': [], 'umask': 18}}).encode()\n\
        try:\n  s.sendall(struct.pack('<I', len(h)) + h); got = s.recv(100)\n\
        except (BrokenPipeError, ConnectionResetError): got = b''\n\
        print(len(got))\n";
    let ask = |as_user: &[&str]| {
        let mut command = test_env.command("setpriv");
        command
            .args(as_user)
            .args(["python3", "-c", script, &socket])
            .current_dir("/");
        RunningProgram::start(command).end(LIMIT).ok().out()
    };
    assert_ne!(ask(&["--reuid=0"]).trim(), "0", "the owner is welcomed");
    assert_eq!(
        ask(&["--reuid=65534", "--regid=65534", "--clear-groups"]).trim(),
        "0",
        "another user is not"
    );
}

#[test]
fn a_state_directory_that_is_not_ours_is_refused() {
    // A link to somewhere else.
    let test_env = test_env();
    let elsewhere = test_env.dir().join("elsewhere");
    fs::create_dir(&elsewhere).expect("a directory");
    fs::set_permissions(&elsewhere, Permissions::from_mode(0o700)).expect("permissions");
    symlink(&elsewhere, test_env.state()).expect("a link");
    let refused = test_env.refused(&["ls"], 1);
    assert_eq!(refused.kind, ErrorKind::Unavailable, "{refused:?}");
    assert!(
        refused
            .message
            .contains(&*test_env.state().to_string_lossy()),
        "{refused:?}"
    );
    assert_eq!(
        fs::read_dir(&elsewhere).expect("the directory").count(),
        0,
        "nothing was put there"
    );
    assert!(test_env.processes().is_empty());

    // One that others can look into or write to: refused, or put right.
    fs::remove_file(test_env.state()).expect("the link");
    fs::create_dir(test_env.state()).expect("a directory");
    fs::set_permissions(test_env.state(), Permissions::from_mode(0o777)).expect("permissions");
    let ran = test_env.fugue(&["ls", "--json"]);
    let mode = fs::metadata(test_env.state()).expect("it is there").mode() & 0o777;
    assert!(ran.code == Some(1) || mode == 0o700, "{mode:o} {ran}");

    // Somebody else's.
    let test_env = self::test_env();
    if !rustix::process::geteuid().is_root() {
        skip(
            MissingRequirement::Root,
            "only root can make a directory that is another user's",
        );
        return;
    }
    fs::create_dir(test_env.state()).expect("a directory");
    std::os::unix::fs::chown(test_env.state(), Some(65534), Some(65534)).expect("chown");
    let refused = test_env.refused(&["ls"], 1);
    assert!(
        refused
            .message
            .contains(&*test_env.state().to_string_lossy()),
        "{refused:?}"
    );
    assert!(test_env.processes().is_empty());
}

#[test]
fn a_path_too_long_for_a_socket_is_no_obstacle() {
    let mut test_env = test_env();
    let deep = test_env.dir().join("d".repeat(120));
    fs::create_dir(&deep).expect("a directory");
    fs::set_permissions(&deep, Permissions::from_mode(0o700)).expect("permissions");
    test_env.set_env("XDG_STATE_HOME", &deep);
    assert_eq!(test_env.run_to_exit("echo reached").trim_end(), "reached");
    let daemons = test_env.daemons();
    assert_eq!(daemons.len(), 1);
    // Holders and a later daemon find each other there too.
    let pane = test_env.pane("exec cat").pane_id;
    daemons[0].kill9();
    test_env.type_line(pane, "found");
    test_env.until_printed(pane, |text| text.matches("found").count() == 2);
}

#[test]
fn a_setting_that_means_nothing_is_reported() {
    let test_env = test_env();
    test_env.configure("keep_linez = 5\n");
    let refused = test_env.refused(&["ls"], 2);
    assert!(
        refused.message.contains("keep_linez") && refused.message.contains("config.toml"),
        "{refused:?}"
    );
    until("no daemon stays", LIMIT, || test_env.daemons().is_empty());
    test_env.configure("keep_lines = 500\n");
    test_env.overview();
}

#[test]
fn a_client_that_does_not_read_its_replies_costs_bounded_memory() {
    let test_env = test_env();
    test_env.configure("client_max_unread_bytes = 1048576\n");
    test_env.overview();
    let mut client = connect(&test_env);
    client.write_all(&hello(wire::PROTOCOL)).expect("sent");
    let _: wire::Welcome = receive(&mut client);
    let answered = |client: &mut UnixStream, wanted: u64| {
        let wire::DaemonMessage::Response::<fugue_api::ToolReply> { id, response, .. } =
            receive(client)
        else {
            panic!("an answer");
        };
        assert_eq!(id, wanted);
        response
    };
    for id in 1..=50 {
        let report = serde_json::json!({
            "session_id": "doors", "worker_id": format!("w{id}"), "status": "success",
            "message": "x".repeat(7_000),
        });
        let report = fugue_api::ToolCall::parse("notify_completion", report).expect("good");
        let ask = wire::Request::Tool { call: report };
        client.write_all(&call(id, ask)).expect("sent");
        answered(&mut client, id).expect("it is in the inbox");
    }
    let daemon = || test_env.daemons()[0].memory_kib().get("Rss").copied();
    let before = daemon().expect("a figure");
    // Each of 300 replies has 350,000 bytes: together 105 MB, of which the limit lets 1 MiB wait.
    let mut flood = Vec::new();
    for id in 1_001..=1_300 {
        let ask = wire::Request::Inbox {
            after: fugue_api::EventId(0),
            most: 1_000,
        };
        flood.extend(call(id, ask));
    }
    client.write_all(&flood).expect("sent");
    // Others are served meanwhile.
    test_env.daemon();
    let during = daemon().expect("a figure");
    report_metric(
        "daemon RSS beside 300 unread replies of 350 KB, KiB",
        format!("{before} before, {during} during"),
    );
    assert!(
        during < before + 20 * 1024,
        "{before} KiB, then {during} KiB"
    );
    let (mut whole, mut refused) = (0, 0);
    for id in 1_001..=1_300 {
        match answered(&mut client, id) {
            Ok(_) => whole += 1,
            Err(error) => {
                assert_eq!(error.kind, ErrorKind::Exhausted);
                assert!(
                    error.message.contains("`client_max_unread_bytes`"),
                    "{error}"
                );
                refused += 1;
            }
        }
    }
    report_metric("replies given and refused", format!("{whole}, {refused}"));
    assert!(
        whole >= 1 && refused >= 1,
        "{whole} whole, {refused} refused"
    );
    // Whoever reads is served again.
    client
        .write_all(&call(2_000, wire::Request::DaemonStatus))
        .expect("sent");
    answered(&mut client, 2_000).expect("an answer");
}

#[test]
fn a_client_with_too_many_open_calls_is_refused_the_next_one() {
    let test_env = test_env();
    test_env.configure("client_max_calls = 100\n");
    test_env.overview();
    let mut client = connect(&test_env);
    client.write_all(&hello(wire::PROTOCOL)).expect("sent");
    let _: wire::Welcome = receive(&mut client);
    let wait = serde_json::json!({"timeout_secs": 100});
    let wait = fugue_api::ToolCall::parse("wait_for_event", wait).expect("a good request");
    for id in 1..=103 {
        let ask = wire::Request::Tool { call: wait.clone() };
        client.write_all(&call(id, ask)).expect("sent");
    }
    for wanted in 101..=103 {
        let wire::DaemonMessage::Response::<fugue_api::ToolReply> { id, response, .. } =
            receive(&mut client)
        else {
            panic!("an answer");
        };
        let error = response.expect_err("a refusal");
        assert_eq!((id, error.kind), (wanted, ErrorKind::Exhausted));
        assert!(
            error.message.contains("this client has 100 calls open"),
            "{error}"
        );
    }
    // One that is cancelled makes room for another.
    client
        .write_all(&frame(&wire::ClientMessage::Cancel { id: 1 }))
        .expect("sent");
    client
        .write_all(&call(200, wire::Request::DaemonStatus))
        .expect("sent");
    let wire::DaemonMessage::Response::<fugue_api::ToolReply> { id, response, .. } =
        receive(&mut client)
    else {
        panic!("an answer");
    };
    assert!(id == 200 && response.is_ok(), "{response:?}");
}

/// An ack closes the call of the reply with the event: the client cancels nothing, and the call does not count as open.
#[test]
fn an_ack_closes_the_call_that_received_the_event() {
    let test_env = test_env();
    test_env.configure("client_max_calls = 16\n");
    test_env.overview();
    let mut client = connect(&test_env);
    client.write_all(&hello(wire::PROTOCOL)).expect("sent");
    let _: wire::Welcome = receive(&mut client);
    let mut ids = 1..;
    let mut ask = |request: wire::Request| {
        let sent = ids.next().expect("another id");
        client.write_all(&call(sent, request)).expect("sent");
        let wire::DaemonMessage::Response::<fugue_api::ToolReply> {
            id,
            response,
            leased_event,
        } = receive(&mut client)
        else {
            panic!("an answer");
        };
        assert_eq!(id, sent);
        response.expect("no refusal");
        leased_event
    };
    let tool = |name, args| wire::Request::Tool {
        call: fugue_api::ToolCall::parse(name, args).expect("a good request"),
    };
    let mut acked = Vec::new();
    for number in 0..20 {
        let report = serde_json::json!({
            "session_id": "doors", "worker_id": format!("w{number}"), "status": "success",
        });
        ask(tool("notify_completion", report));
        let wait = serde_json::json!({"timeout_secs": 10});
        let event = ask(tool("wait_for_event", wait)).expect("a leased event");
        ask(wire::Request::AckEvent { event });
        acked.push(event);
    }
    acked.dedup();
    assert_eq!(acked.len(), 20, "each event is delivered once: {acked:?}");
}
