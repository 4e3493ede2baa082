//! Another version over a running daemon, and over the state that an earlier version left.

use std::{
    fs::{self, File},
    io::{Read, Write},
    os::unix::{
        fs::{FileExt, PermissionsExt},
        net::UnixListener,
    },
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::{Duration, Instant},
};

use fugue_api::{
    overview::Overview,
    pane_state::PaneState,
    wire::{PROTOCOL, Welcome},
};
use fugue_testkit::{ProgramOutput, RunningProgram, TestEnv, TestPty};
use serde_json::{Value, json};

const LIMIT: Duration = Duration::from_secs(240);

fn test_env() -> TestEnv {
    TestEnv::new(env!("CARGO_BIN_EXE_fugue"), LIMIT)
}

fn run(mut command: Command) -> ProgramOutput {
    command.stdin(std::process::Stdio::null());
    RunningProgram::start(command).end(LIMIT)
}

/// Another build: the same program with a byte behind its end, which the kernel ignores.
fn other_build(test_env: &TestEnv) -> PathBuf {
    let path = test_env.dir().join("fugue-next");
    fs::copy(env!("CARGO_BIN_EXE_fugue"), &path).expect("a copy");
    let mut file = File::options().append(true).open(&path).expect("the copy");
    file.write_all(b"\n").expect("a byte");
    path
}

#[test]
fn another_build_over_a_running_daemon_says_so_and_takes_over_with_the_panes() {
    let test_env = test_env();
    let pane = test_env.shell("bash").pane_id;
    test_env.type_line(pane, "kept=before; echo ready");
    test_env.until_printed(pane, |text| text.contains("\nready"));
    let waiting = test_env.start(&[
        "expect",
        &pane.to_string(),
        "after the upgrade",
        "--timeout",
        "200s",
    ]);
    let old = test_env.daemon();
    let next = other_build(&test_env);
    let with_next = |args: &[&str]| {
        let mut command = test_env.command(&next);
        command.args(args);
        run(command)
    };
    // Every verb of the other build works with the daemon that runs.
    let text = with_next(&["read", &pane.to_string()]).ok().out();
    assert!(text.contains("ready"), "{text}");
    let status: Value = with_next(&["daemon", "status", "--json"]).ok().json();
    assert_eq!(status["same_program"], json!(false), "{status}");
    assert_eq!(status["pid"], json!(old.pid));
    let said = with_next(&["daemon", "status"]).ok().out();
    assert!(
        said.contains("another build") && said.contains("`fugue daemon restart`"),
        "{said}"
    );
    let said = test_env.fugue(&["daemon", "status"]).ok().out();
    assert!(!said.contains("another build"), "{said}");

    let status: Value = with_next(&["daemon", "restart", "--json"]).ok().json();
    assert_ne!(status["pid"], json!(old.pid));
    assert_eq!(status["same_program"], json!(true), "{status}");
    test_env.type_line(pane, "echo $kept and after the upgrade");
    test_env.until_printed(pane, |text| text.contains("before and after the upgrade"));
    // A wait of the old daemon ends with it, and says how the run goes on.
    let ended = waiting.end(LIMIT);
    let run = ended.err();
    let run = run
        .split("`fugue wait ")
        .nth(1)
        .and_then(|rest| rest.split('`').next());
    let found = with_next(&["wait", run.unwrap_or_else(|| panic!("{ended}"))]).ok();
    assert!(found.out().contains("after the upgrade"), "{found}");
}

/// A daemon of another protocol version, as far as every version knows it: it greets.
fn greet_as(test_env: &TestEnv, protocol: u32) -> thread::JoinHandle<()> {
    let state = test_env.state();
    fs::create_dir_all(state.join("panes")).expect("the state directory");
    fs::set_permissions(&state, fs::Permissions::from_mode(0o700)).expect("its mode");
    let listener = UnixListener::bind(state.join("daemon.sock")).expect("the socket");
    thread::spawn(move || {
        while let Ok((mut client, _)) = listener.accept() {
            let mut length = [0; 4];
            if client.read_exact(&mut length).is_err() {
                continue;
            }
            let mut hello = vec![0; u32::from_le_bytes(length) as usize];
            let read = client.read_exact(&mut hello);
            if read.is_err() || hello == b"null" {
                return;
            }
            let welcome = Welcome {
                protocol,
                version: "9.9.9".to_owned(),
                pid: std::process::id(),
            };
            let mut welcome = serde_json::to_value(&welcome).expect("JSON");
            welcome["a_field_of_later"] = json!(true);
            let bytes = welcome.to_string().into_bytes();
            let length = u32::try_from(bytes.len()).expect("short").to_le_bytes();
            let _ = client.write_all(&[&length[..], &bytes].concat());
        }
    })
}

fn end_greeter(test_env: &TestEnv, greeter: thread::JoinHandle<()>) {
    let socket = test_env.state().join("daemon.sock");
    let mut client = std::os::unix::net::UnixStream::connect(&socket).expect("it listens");
    client.write_all(&[4, 0, 0, 0]).expect("it reads");
    client.write_all(b"null").expect("it reads");
    greeter.join().expect("it has ended");
    fs::remove_file(socket).expect("the socket");
}

#[test]
fn a_daemon_of_another_protocol_is_named_and_never_taken_for_none() {
    let test_env = test_env();
    for (protocol, age, what) in [
        (PROTOCOL + 1, "newer", "use the fugue that started it"),
        (PROTOCOL - 1, "older", "`fugue daemon restart`"),
    ] {
        let greeter = greet_as(&test_env, protocol);
        let calls: [&[&str]; 5] = [
            &["daemon", "status"],
            &["daemon", "reload"],
            &["daemon", "stop"],
            &["config", "show"],
            &["ls"],
        ];
        for args in calls {
            let error = test_env.refused(args, 1);
            assert!(
                error.message.contains(&format!("is {age}: fugue 9.9.9")),
                "{error}"
            );
            assert!(
                error.hint.as_ref().is_some_and(|hint| hint.contains(what)),
                "{error:?}"
            );
        }
        let doctor = test_env.fugue(&["doctor"]);
        assert!(
            doctor.out().contains(&format!("is {age}: fugue 9.9.9")),
            "{doctor}"
        );
        if age == "newer" {
            // The older version does not end the newer daemon, which is this process.
            let error = test_env.refused(&["daemon", "restart"], 1);
            assert!(error.message.contains("newer"), "{error}");
        }
        end_greeter(&test_env, greeter);
    }
}

#[test]
fn a_person_who_is_attached_is_told_when_the_next_daemon_is_of_another_protocol() {
    let test_env = test_env();
    test_env.pane("echo shown; exec cat");
    let mut command = test_env.command("setsid");
    command.args(["-c", env!("CARGO_BIN_EXE_fugue"), "attach"]);
    let mut person = TestPty::start(command, 24, 160);
    let deadline = Instant::now() + LIMIT;
    let mut seen = String::new();
    let mut until_shown = |person: &TestPty, wanted: &str| {
        while !seen.contains(wanted) {
            let more = person.read(deadline);
            assert!(!more.is_empty(), "no {wanted}: {seen}");
            seen.push_str(&String::from_utf8_lossy(&more));
        }
    };
    until_shown(&person, "shown");
    test_env.fugue(&["daemon", "stop"]).ok();
    let greeter = greet_as(&test_env, PROTOCOL + 1);
    until_shown(&person, "is newer: fugue 9.9.9");
    assert_eq!(person.child.wait().expect("it ends").code(), Some(1));
    end_greeter(&test_env, greeter);
}

#[test]
fn a_database_of_a_newer_version_is_refused_before_anything_is_stopped_or_changed() {
    let test_env = test_env();
    let pane = test_env.pane("exec cat").pane_id;
    let daemon = test_env.daemon().pid;
    let database = test_env.state().join("fugue.db");
    // A database that fits into its write-ahead log has no header of its own before the daemon's end.
    test_env.fugue(&["daemon", "stop"]).ok();
    test_env.fugue(&["daemon", "repair"]).ok();
    let next = test_env.json::<Value>(&["daemon", "start"])["pid"].clone();
    assert_ne!(next, json!(daemon));
    const USER_VERSION: u64 = 60;
    let header = |version: u32| {
        let file = File::options()
            .write(true)
            .open(&database)
            .expect("the database");
        file.write_all_at(&version.to_be_bytes(), USER_VERSION)
            .expect("its header");
    };
    let mut version = [0; 4];
    let file = File::open(&database).expect("the database");
    file.read_exact_at(&mut version, USER_VERSION)
        .expect("its header");
    header(4711);
    let error = test_env.refused(&["daemon", "restart"], 1);
    assert!(
        error
            .message
            .contains("written by a newer fugue (format 4711"),
        "{error}"
    );
    assert_eq!(json!(test_env.daemon().pid), next, "the daemon still runs");
    header(u32::from_be_bytes(version));

    test_env.fugue(&["daemon", "stop"]).ok();
    test_env.fugue(&["daemon", "repair"]).ok();
    header(4711);
    let before = fs::read(&database).expect("the database");
    for args in [&["ls"][..], &["daemon", "repair"], &["daemon", "start"]] {
        let error = test_env.refused(args, 1);
        assert!(error.message.contains("format 4711"), "{error}");
        assert!(
            error
                .hint
                .is_some_and(|hint| hint.contains("install the newer fugue again"))
        );
    }
    let doctor = test_env.fugue(&["doctor"]);
    assert!(doctor.out().contains("format 4711"), "{doctor}");
    assert_eq!(fs::read(&database).expect("the database"), before);
    header(u32::from_be_bytes(version));
    test_env.type_line(pane, "lives");
    test_env.until_printed(pane, |text| text.matches("lives").count() == 2);
}

/// Copies a directory of the fixture.
fn copy_tree(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a directory");
    for entry in fs::read_dir(from).expect("the fixture").flatten() {
        let target = to.join(entry.file_name());
        match entry.file_type().expect("a type").is_dir() {
            true => copy_tree(&entry.path(), &target),
            false => drop(fs::copy(entry.path(), &target).expect("a copy")),
        }
    }
}

/// The state directory that commit f1c4f95 left, its database in format 5: panes that had ended and panes that ran, runs, events, a
/// question, workers and a watcher. Its machine is another one, so what ran is of an earlier boot.
fn world_of_format_5() -> TestEnv {
    let test_env = test_env();
    // The default would forget all that has ended, because it is old.
    test_env.configure("forget_after_hours = 1000000\n");
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/e2e/upgrade/format-5");
    copy_tree(&fixture, &test_env.state());
    test_env
}

#[test]
fn the_state_of_an_early_version_is_opened_and_nothing_in_it_is_lost() {
    let test_env = world_of_format_5();
    let seen: Overview = test_env.overview();
    let pane = |name: &str| {
        let row = seen.panes.iter().find(|pane| pane.name == name);
        row.unwrap_or_else(|| panic!("{name}: {seen:?}"))
    };
    assert_eq!(seen.panes.len(), 13, "{seen:?}");
    // Ends and output that were stored are as they were.
    for (name, code, signal, text) in [
        ("ended", Some(3), None, "first line\nred €"),
        ("signalled", None, Some("SIGTERM"), "about to end"),
        ("last", Some(0), None, "tail"),
    ] {
        let row = pane(name);
        assert_eq!(row.state.exit_code, code, "{row:?}");
        assert_eq!(row.state.signal.as_deref(), signal, "{row:?}");
        assert_eq!(test_env.text(row.pane_id).trim_end(), text, "{name}");
    }
    let numbers: String = (1..=3000).map(|n| format!("{n}\n")).collect();
    assert_eq!(
        test_env.text(pane("flood").pane_id).trim_end(),
        numbers.trim_end()
    );
    // What ran is said to have been cut off, and not to have ended well.
    for (name, text) in [
        ("running", "still here"),
        ("sh", "typed"),
        ("long-shell", "long worker"),
    ] {
        let status = test_env.status(pane(name).pane_id);
        assert_eq!(status.state.state, PaneState::Exited, "{status:?}");
        assert_eq!(
            (status.state.exit_code, &status.state.signal),
            (None, &None),
            "{status:?}"
        );
        let note = status.note.clone().unwrap_or_default();
        assert!(
            note.contains("the machine was restarted while its program ran"),
            "{status:?}"
        );
        let shown = test_env.text(pane(name).pane_id);
        assert!(shown.contains(text), "{name}: {shown}");
    }
    let log = fs::read_to_string(test_env.state().join("daemon.log")).expect("the log");
    for word in ["quarantine", "losses", "not usable"] {
        assert!(!log.contains(word), "{log}");
    }
}

#[test]
fn runs_events_workers_and_watchers_of_an_early_version_go_on_or_say_how_they_ended() {
    let test_env = world_of_format_5();
    let tasks: Value = test_env.fugue(&["wait", "r-h87hhkrn2n", "--json"]).json();
    let task = |index: usize| &tasks["results"][index];
    assert_eq!(
        (&task(0)["output"], &task(0)["exit_code"]),
        (&json!("one"), &json!(0)),
        "{tasks}"
    );
    assert_eq!(
        (&task(1)["output"], &task(1)["exit_code"]),
        (&json!("two"), &json!(2)),
        "{tasks}"
    );
    // As long as it took then.
    assert_eq!(
        tasks["total_duration_ms"],
        task(1)["duration_ms"],
        "{tasks}"
    );
    let steps: Value = test_env.fugue(&["wait", "r-r67h6mcmh8", "--json"]).json();
    assert_eq!(steps["status"], json!("completed"), "{steps}");
    assert_eq!(steps["steps"][0]["output"], json!("built"), "{steps}");
    assert_eq!(steps["steps"][2]["output"], json!("/"), "{steps}");
    // The step that ran is not run again, and its end is reported as unknown.
    let cut: Value = test_env.fugue(&["wait", "r-s6cdqzzdsb", "--json"]).json();
    assert_eq!(cut["status"], json!("failed"), "{cut}");
    assert_eq!(cut["steps"][0]["output"], json!("step one"), "{cut}");
    assert_eq!(cut["steps"][1]["exit_code"], Value::Null, "{cut}");
    assert!(
        cut["steps"][1]["note"]
            .as_str()
            .is_some_and(|note| note.contains("not known")),
        "{cut}"
    );
    assert_eq!(cut["steps"].as_array().map(Vec::len), Some(2), "{cut}");

    let next = |inbox: &str| -> Value {
        test_env
            .fugue(&[
                "events",
                "wait",
                "--inbox",
                inbox,
                "--timeout",
                "60s",
                "--json",
            ])
            .ok()
            .json()
    };
    assert_eq!(next("lead")["message"], json!("from an old store"));
    assert_eq!(next("lead")["message"], json!("second event"));
    let all: Value = test_env.json(&["events", "--inbox", "project-1f295ffa"]);
    let events = all["events"].as_array().cloned().unwrap_or_default();
    let find = |kind: &str, key: &str, value: &str| {
        let mut found = events
            .iter()
            .filter(|event| event["type"] == kind && event[key] == value);
        let event = found
            .next()
            .unwrap_or_else(|| panic!("{kind} {value}: {all}"));
        assert!(found.next().is_none(), "{kind} {value} only once: {all}");
        event.clone()
    };
    assert_eq!(
        find("worker_complete", "worker_id", "short-shell")["status"],
        json!("success")
    );
    assert_eq!(
        find("question", "question_id", "q1")["body"],
        json!("may I?")
    );
    // Told now, because nobody was told then.
    assert_eq!(
        find("worker_complete", "worker_id", "long-shell")["status"],
        json!("error")
    );
    assert_eq!(find("watcher", "pane_id", "p3")["decision"], json!("ended"));
    // New ids continue above the old ones.
    assert_eq!(test_env.pane("true").pane_id.to_string(), "p14");
    // The next daemon finds the same, in the format of today.
    let before = test_env.overview();
    test_env.fugue(&["daemon", "restart"]).ok();
    let names = |seen: &Overview| {
        seen.panes
            .iter()
            .map(|pane| pane.name.clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(names(&test_env.overview()), names(&before));
}
