//! Opening a pane and waiting for a pattern in one call, and waits whose end is an event.

use std::{fs, path::PathBuf, time::Duration};

use fugue_api::{
    pane_state::PaneState,
    tools::{CreatePaneReply, ExpectResult, ExpectStatus},
};
use fugue_testkit::{
    TestEnv,
    mcp_client::{McpClient, facts},
    until, until_some,
};
use serde_json::{Value, json};

const WAIT_TIMEOUT: Duration = Duration::from_secs(60);
const ADDRESS: &str = "  ➜  Local:   http://127.0.0.1:5173/";

fn test_env() -> TestEnv {
    TestEnv::new(env!("CARGO_BIN_EXE_fugue"), Duration::from_secs(300))
}

fn client(test_env: &TestEnv, flags: &[&str]) -> McpClient {
    let mut client = McpClient::start(test_env.fugue_command([&["mcp"], flags].concat()));
    client.initialize("2025-11-25", "ready");
    client
}

/// A server that prints its address when the gate is there, and a line to a file at each start.
struct Server {
    gate: PathBuf,
    starts: PathBuf,
    command: String,
}

impl Server {
    fn new(test_env: &TestEnv) -> Self {
        let (gate, starts) = (test_env.work().join("gate"), test_env.work().join("starts"));
        let command = format!(
            "echo started >> {}; echo building; until [ -e {} ]; do sleep 0.02; done; echo '{ADDRESS}'; exec sleep 1000",
            starts.display(),
            gate.display(),
        );
        Self {
            gate,
            starts,
            command,
        }
    }

    fn open_gate(&self) {
        fs::write(&self.gate, "").expect("the gate is opened");
    }

    fn starts(&self) -> usize {
        let text = fs::read_to_string(&self.starts).unwrap_or_default();
        text.lines().count()
    }
}

fn until_it_waits(test_env: &TestEnv) -> String {
    let run = until_some("the wait", WAIT_TIMEOUT, || {
        let runs = test_env.overview().runs;
        runs.into_iter().find(|run| run.status == "running")
    });
    run.run_id.0
}

#[track_caller]
fn reply(found: &Value) -> CreatePaneReply {
    serde_json::from_value(found.clone()).unwrap_or_else(|error| panic!("{error}: {found}"))
}

#[test]
fn a_server_is_started_and_its_address_is_in_the_reply() {
    let test_env = test_env();
    let server = Server::new(&test_env);
    let mut client = client(&test_env, &[]);
    let args = json!({"command": server.command, "name": "web", "ready": r"http://\S+"});
    let call = client.send_tool_call("create_pane", args);
    until_it_waits(&test_env);
    assert!(!client.is_answered(call));
    server.open_gate();
    let found = facts(&client.result(call));
    let made = reply(&found);
    assert!(made.ready, "{found}");
    assert_eq!(made.matched.as_deref(), Some("http://127.0.0.1:5173/"));
    assert_eq!(made.line.as_deref(), Some(ADDRESS));
    let mut fields: Vec<&String> = found.as_object().expect("an object").keys().collect();
    fields.sort_unstable();
    let wanted = [
        "cursor", "line", "match", "name", "pane_id", "pid", "ready", "session",
    ];
    assert_eq!(fields, wanted, "nothing else");
    assert!(test_env.status(made.pane_id).pid > 0);
    // What follows the match is behind the cursor.
    let rest = test_env.read(made.pane_id, &["--since", &made.cursor.0]);
    assert_eq!(rest.text.trim(), "");
    assert_eq!(test_env.status(made.pane_id).name, "web");
}

#[test]
fn a_command_that_ends_first_says_how_and_why() {
    let test_env = test_env();
    let mut client = client(&test_env, &[]);
    let args = json!({"command": "echo 'error: address in use'; exit 3", "ready": "Local:"});
    let made = reply(&client.call("create_pane", args));
    assert!(!made.ready);
    assert_eq!(made.status, Some(ExpectStatus::Exited));
    assert_eq!(made.exit_code, Some(3));
    assert_eq!(made.output.as_deref(), Some("error: address in use"));
    assert_eq!(made.run_id, None, "nothing is left to wait for");
    // A match is a match, also of a command that has ended.
    let args = json!({"command": "echo 'Local: here'", "ready": "Local:.*"});
    let made = reply(&client.call("create_pane", args));
    assert_eq!(made.matched.as_deref(), Some("Local: here"));
}

#[test]
fn a_time_that_is_over_is_an_answer_and_the_command_goes_on() {
    let test_env = test_env();
    let server = Server::new(&test_env);
    let mut client = client(&test_env, &[]);
    let args = json!({"command": server.command, "ready": "Local:", "timeout_ms": 4000});
    let made = reply(&client.call("create_pane", args));
    assert!(!made.ready);
    assert_eq!(made.status, Some(ExpectStatus::Timeout));
    assert_eq!(made.output.as_deref(), Some("building"));
    assert_eq!(made.exit_code, None);
    let state = test_env.status(made.pane_id).state.state;
    assert!(
        !matches!(state, PaneState::Exited | PaneState::Closed),
        "{state:?}"
    );
    server.open_gate();
    let found = client.call(
        "fugue_expect",
        json!({"pane_id": made.pane_id.to_string(), "pattern": "Local:", "since": made.cursor.0}),
    );
    assert_eq!(found["line"], ADDRESS);
}

#[test]
fn a_client_with_little_time_gets_the_pane_and_the_run() {
    let test_env = test_env();
    let server = Server::new(&test_env);
    let mut client = client(&test_env, &["--max-wait-ms", "300", "--session", "lead"]);
    let args = json!({"command": server.command, "name": "web", "ready": "Local:"});
    let found = client.call("create_pane", args);
    let made = reply(&found);
    assert!(!made.ready);
    assert_eq!(made.status, Some(ExpectStatus::Running), "{found}");
    assert_eq!((made.name.as_str(), made.pid > 0), ("web", true), "{found}");
    let run = made.run_id.expect("a run").0;
    let again = client.call("fugue_wait", json!({"run_id": run}));
    assert_eq!(again["status"], "running");
    server.open_gate();
    // The end is an event, as no call has returned it.
    let event = until_some("the event", WAIT_TIMEOUT, || {
        let event = client.call("wait_for_event", json!({"timeout_secs": 0.2}));
        (event["type"] == "run_complete").then_some(event)
    });
    assert_eq!(event["run_id"], json!(run));
    assert_eq!(event["status"], "matched");
    assert_eq!(event["line"], ADDRESS);
    assert_eq!(event["pane_id"], json!(made.pane_id.to_string()));
    let ended = client.call("fugue_wait", json!({"run_id": run}));
    assert_eq!(ended["line"], ADDRESS, "{ended}");
    assert_eq!(server.starts(), 1);
}

#[test]
fn a_killed_daemon_ends_neither_the_wait_nor_the_command() {
    let test_env = test_env();
    let server = Server::new(&test_env);
    let mut client = client(&test_env, &[]);
    let args = json!({"command": server.command, "ready": "Local:"});
    let call = client.send_tool_call("create_pane", args);
    until("the command", WAIT_TIMEOUT, || server.starts() > 0);
    test_env.kill_daemon();
    until_it_waits(&test_env);
    test_env.kill_daemon();
    // It prints while no daemon is there.
    server.open_gate();
    let made = reply(&facts(&client.result(call)));
    assert_eq!(made.line.as_deref(), Some(ADDRESS));
    assert_eq!(server.starts(), 1);
}

#[test]
fn a_cancelled_wait_ends_the_command_and_answers_the_call() {
    let test_env = test_env();
    let server = Server::new(&test_env);
    let mut client = client(&test_env, &[]);
    let args = json!({"command": server.command, "ready": "Local:"});
    let call = client.send_tool_call("create_pane", args);
    let run = until_it_waits(&test_env);
    let cancelled = client.call("cancel_run", json!({"run_id": run}));
    assert_eq!(cancelled["status"], "cancelled", "{cancelled}");
    let made = reply(&facts(&client.result(call)));
    assert_eq!(made.status, Some(ExpectStatus::Cancelled));
    assert_eq!(test_env.status(made.pane_id).state.state, PaneState::Closed);
}

#[test]
fn the_verb_prints_the_id_and_the_line() {
    let test_env = test_env();
    let new = |more: &[&str]| test_env.fugue(&[&["new"], more].concat());
    let ran = new(&[
        "--ready",
        r"on \d+",
        "--",
        "echo listening on 80; exec sleep 1000",
    ])
    .ok();
    let lines: Vec<String> = ran.out().lines().map(str::to_owned).collect();
    assert_eq!(lines[1..], ["listening on 80"], "{ran}");
    assert!(lines[0].starts_with('p'), "{ran}");

    let ran = new(&["--ready", "never", "--", "echo no; exit 4"]);
    assert_eq!(ran.code, Some(1), "{ran}");
    assert!(ran.out().ends_with("no\n"), "{ran}");
    assert!(
        ran.err().contains("ended (exit 4) without /never/"),
        "{ran}"
    );

    let ran = new(&[
        "--ready",
        "never",
        "--timeout",
        "200ms",
        "--",
        "exec sleep 1000",
    ]);
    assert_eq!(ran.code, Some(124), "{ran}");
    assert!(ran.err().contains("no /never/ in p3 within 0.2s"), "{ran}");

    let ran = new(&["--timeout", "5s", "--", "true"]);
    assert_eq!(ran.code, Some(2), "a time for nothing: {ran}");
}

#[test]
fn an_interrupted_verb_leaves_the_pane_and_says_how_to_go_on() {
    let test_env = test_env();
    let server = Server::new(&test_env);
    let running = test_env.start(&["new", "--ready", "Local:", "--", &server.command]);
    let run = until_it_waits(&test_env);
    running.interrupt();
    let ran = running.end(WAIT_TIMEOUT);
    assert_eq!(ran.code, Some(130), "{ran}");
    assert!(ran.err().contains(&format!("fugue wait {run}")), "{ran}");
    server.open_gate();
    let waited = test_env.fugue(&["wait", &run]).ok();
    assert_eq!(waited.out().trim_end(), ADDRESS, "{waited}");
}

#[test]
fn a_wait_in_the_background_is_reported_by_an_event() {
    let test_env = test_env();
    let server = Server::new(&test_env);
    let pane = test_env.pane(&server.command).pane_id.to_string();
    let mut client = client(&test_env, &["--session", "lead"]);
    let args = json!({"pane_id": pane, "pattern": "Local:", "report": "event"});
    let begun = client.call("fugue_expect", args);
    assert_eq!(begun["status"], "running");
    let event = client.send_tool_call("wait_for_event", json!({}));
    server.open_gate();
    let event = facts(&client.result(event));
    assert_eq!(event["type"], "run_complete");
    assert_eq!(event["run_id"], begun["run_id"]);
    let result: ExpectResult = serde_json::from_value(event.clone())
        .unwrap_or_else(|error| panic!("the fields of a result: {error}: {event}"));
    assert_eq!(result.status, ExpectStatus::Matched);
    assert_eq!(result.line.as_deref(), Some(ADDRESS));
    // A wait that comes first takes the news.
    let args = json!({"pane_id": pane, "pattern": "Local:", "report": "event"});
    let second = client.call("fugue_expect", args);
    let waited = client.call("fugue_wait", json!({"run_id": second["run_id"]}));
    assert_eq!(waited["line"], ADDRESS, "{waited}");
    let none = client.call("wait_for_event", json!({"timeout_secs": 0}));
    assert_eq!(none["type"], "timeout", "{none}");
}

#[test]
fn a_wait_in_the_background_of_a_shell_is_picked_up() {
    let test_env = test_env();
    let server = Server::new(&test_env);
    let pane = test_env.pane(&server.command).pane_id.to_string();
    let begun = test_env
        .fugue(&["expect", &pane, "Local:", "--background"])
        .ok();
    let run = begun.out().trim().to_owned();
    server.open_gate();
    let waited = test_env.fugue(&["wait", &run]).ok();
    assert_eq!(waited.out().trim_end(), ADDRESS, "{waited}");
}
