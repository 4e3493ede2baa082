//! Inboxes end to end: each event is delivered once and to the right waiter, whatever happens to clients and daemons.

use std::{
    io::Write,
    process::{Child, Command, Stdio},
    time::Duration,
};

use fugue_api::ErrorKind;
use fugue_testkit::{TestEnv, mcp_client::McpClient, mcp_client::facts, until};
use serde_json::{Value, json};

const LIMIT: Duration = Duration::from_secs(180);
const WAIT_TIMEOUT: Duration = Duration::from_secs(60);

fn test_env() -> TestEnv {
    TestEnv::new(env!("CARGO_BIN_EXE_fugue"), LIMIT)
}

fn client(test_env: &TestEnv, flags: &[&str]) -> McpClient {
    let mut args = vec!["mcp"];
    args.extend(flags);
    let mut client = McpClient::start(test_env.fugue_command(args));
    client.initialize("2025-11-25", "test");
    client
}

fn lead(test_env: &TestEnv) -> McpClient {
    client(test_env, &["--session", "lead"])
}

fn cancel(client: &mut McpClient, request: u64) {
    client.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": request}}));
}

/// Somebody that fugue did not spawn reports to an inbox.
fn notice(test_env: &TestEnv, session: &str, worker: &str) -> Value {
    let args = ["notify", "success", "--session-id", session];
    let worker = ["--worker-id", worker];
    test_env.json(&[&args[..], &worker[..]].concat())
}

/// A verb as a worker of `lead` would call it.
fn as_worker(test_env: &TestEnv, args: &[&str]) -> Command {
    let mut command = test_env.fugue_command(args);
    command
        .env("FUGUE_SESSION_ID", "lead")
        .env("FUGUE_AGENT_ID", "w-shell");
    command
}

fn run(mut command: Command) -> (Option<i32>, String, String) {
    let ran = command.stdin(Stdio::null()).output().expect("it runs");
    (
        ran.status.code(),
        String::from_utf8_lossy(&ran.stdout).into_owned(),
        String::from_utf8_lossy(&ran.stderr).into_owned(),
    )
}

/// How many events nobody has, without taking any.
fn free(client: &mut McpClient) -> u64 {
    let look = json!({"types": ["watcher"], "timeout_secs": 0});
    let told = client.call("wait_for_event", look);
    let pending = told.get("pending").and_then(Value::as_object);
    let counts = pending.into_iter().flat_map(|counts| counts.values());
    counts.filter_map(Value::as_u64).sum()
}

// The seed's own pattern, and the defects of queues like it.

#[test]
fn two_workers_complete_one_after_the_other_and_then_nothing_is_left() {
    let test_env = test_env();
    let mut lead = lead(&test_env);
    for (name, word) in [("test-1", "hello"), ("test-2", "world")] {
        let made = lead.call(
            "spawn_worker",
            json!({"name": name, "agent": "shell", "prompt": format!("echo {word} > {name}.txt")}),
        );
        assert_eq!(made["worker_id"], json!(format!("{name}-shell")));
        assert_eq!(made["session_id"], json!("lead"));
    }
    let mut workers = Vec::new();
    for _ in 0..2 {
        let event = lead.call("wait_for_event", json!({"timeout_secs": 60}));
        assert_eq!(event["type"], json!("worker_complete"));
        assert_eq!(event["status"], json!("success"), "{event}");
        assert_eq!(event["changes"], json!([]), "not a repository");
        workers.push(event["worker_id"].as_str().unwrap().to_owned());
    }
    workers.sort();
    assert_eq!(workers, ["test-1-shell", "test-2-shell"]);
    for (name, word) in [("test-1", "hello"), ("test-2", "world")] {
        let path = test_env.work().join(format!("{name}.txt"));
        assert_eq!(std::fs::read_to_string(path).unwrap().trim(), word);
    }
    let event = lead.call("wait_for_event", json!({"timeout_secs": 0.2}));
    assert_eq!(event["type"], json!("timeout"));
    assert!(event.get("reason").is_none(), "{event}");
}

#[test]
fn an_event_that_was_handed_to_a_waiter_does_not_stay_queued() {
    let test_env = test_env();
    let mut lead = lead(&test_env);
    let wait = lead.send_tool_call("wait_for_event", json!({}));
    notice(&test_env, "lead", "w");
    assert_eq!(facts(&lead.result(wait))["worker_id"], json!("w"));
    let again = lead.call("wait_for_event", json!({"timeout_secs": 0.1}));
    assert_eq!(again["type"], json!("timeout"));
    let listed: Value = test_env.json(&["events", "--inbox", "lead"]);
    assert_eq!(listed["events"], json!([]));
    let all: Value = test_env.json(&["events", "--inbox", "lead", "--all"]);
    assert_eq!(all["events"][0]["taken"], json!(true));
}

#[test]
fn an_event_of_another_type_neither_ends_a_wait_nor_gets_lost() {
    let test_env = test_env();
    let mut lead = lead(&test_env);
    let wait = lead.send_tool_call("wait_for_event", json!({"types": ["worker_complete"]}));
    let (code, ..) = run(as_worker(&test_env, &["message", "beside"]));
    assert_eq!(code, Some(0));
    assert!(!lead.is_answered(wait));
    notice(&test_env, "lead", "w");
    let told = facts(&lead.result(wait));
    assert_eq!(told["type"], json!("worker_complete"));
    assert_eq!(told["pending"], json!({"message": 1}));
    let told = lead.call("wait_for_event", json!({"types": ["*"]}));
    assert_eq!(told["body"], json!("beside"));
    assert_eq!(told["from"], json!("w-shell"));
}

#[test]
fn of_ten_waiters_each_gets_its_own_event() {
    let test_env = test_env();
    let mut one = lead(&test_env);
    let mut two = lead(&test_env);
    let waits: Vec<u64> = (0..5)
        .flat_map(|_| {
            [
                one.send_tool_call("wait_for_event", json!({})),
                two.send_tool_call("wait_for_event", json!({})),
            ]
        })
        .collect();
    for worker in 0..10 {
        notice(&test_env, "lead", &format!("w{worker}"));
    }
    let mut got: Vec<String> = Vec::new();
    for (at, wait) in waits.into_iter().enumerate() {
        let client = if at % 2 == 0 { &mut one } else { &mut two };
        let told = facts(&client.result(wait));
        got.push(told["worker_id"].as_str().unwrap().to_owned());
    }
    got.sort();
    let wanted: Vec<String> = (0..10).map(|worker| format!("w{worker}")).collect();
    assert_eq!(got, wanted);
}

#[test]
fn a_full_inbox_says_so_and_drops_nothing() {
    let test_env = test_env();
    let mut lead = lead(&test_env);
    let mut other = client(&test_env, &["--session", "other"]);
    notice(&test_env, "lead", "first");
    let mut sent = 1;
    let full = loop {
        let id = other.send_tool_call("send_message", json!({"to": "lead", "body": "x"}));
        let result = other.result(id);
        if result["isError"] == json!(true) {
            break facts(&result);
        }
        sent += 1;
        assert!(sent <= 1_000, "it never is full");
    };
    assert_eq!(full["kind"], json!("exhausted"));
    assert!(full["message"].as_str().unwrap().contains("1000"), "{full}");
    let last = ["--session-id", "lead", "--worker-id", "last"];
    let refused = test_env.refused(&[&["notify", "success"], &last[..]].concat(), 1);
    assert_eq!(refused.kind, ErrorKind::Exhausted);
    assert_eq!(free(&mut lead), sent);
    let oldest = lead.call("wait_for_event", json!({"types": ["*"]}));
    assert_eq!(oldest["worker_id"], json!("first"));
}

// Who waits, and goes away.

#[test]
fn a_cancelled_wait_takes_nothing() {
    let test_env = test_env();
    let mut lead = lead(&test_env);
    for _ in 0..20 {
        let wait = lead.send_tool_call("wait_for_event", json!({}));
        cancel(&mut lead, wait);
    }
    notice(&test_env, "lead", "w");
    let told = lead.call("wait_for_event", json!({}));
    assert_eq!(told["worker_id"], json!("w"));
    assert_eq!(free(&mut lead), 0);
}

/// A client that never reads what its server says after the first line.
struct Deaf(Child);

impl Deaf {
    /// With `session`'s first event in a reply that cannot be written.
    fn holding(test_env: &TestEnv, session: &str) -> Self {
        let mut command = test_env.fugue_command(["mcp", "--session", session]);
        let child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        let mut deaf = Self(child.expect("the server starts"));
        deaf.say(&json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params":
            {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "deaf", "version": "1"}}}));
        deaf.say(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        // More than a pipe holds.
        for id in 2..20 {
            deaf.say(&json!({"jsonrpc": "2.0", "id": id, "method": "tools/list"}));
        }
        deaf.say(
            &json!({"jsonrpc": "2.0", "id": 99, "method": "tools/call", "params":
            {"name": "wait_for_event", "arguments": {"types": ["worker_complete"]}}}),
        );
        deaf
    }

    fn say(&mut self, message: &Value) {
        let stdin = self.0.stdin.as_mut().expect("a pipe");
        writeln!(stdin, "{message}").expect("the server reads");
    }
}

impl Drop for Deaf {
    fn drop(&mut self) {
        // Both fail only when it has ended and been waited for.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_client_that_is_killed_with_a_reply_on_its_way_takes_nothing() {
    let test_env = test_env();
    let mut lead = lead(&test_env);
    notice(&test_env, "lead", "first");
    notice(&test_env, "lead", "second");
    assert_eq!(free(&mut lead), 2);
    let deaf = Deaf::holding(&test_env, "lead");
    until("the event is in its hand", WAIT_TIMEOUT, || {
        free(&mut lead) == 1
    });
    drop(deaf);
    until("it is put back", WAIT_TIMEOUT, || free(&mut lead) == 2);
    for worker in ["first", "second"] {
        let told = lead.call("wait_for_event", json!({}));
        assert_eq!(told["worker_id"], json!(worker), "in its old place");
    }
}

#[test]
fn a_call_that_is_cancelled_with_its_reply_on_its_way_takes_nothing() {
    let test_env = test_env();
    let mut lead = lead(&test_env);
    notice(&test_env, "lead", "w");
    let mut deaf = Deaf::holding(&test_env, "lead");
    until("the event is in its hand", WAIT_TIMEOUT, || {
        free(&mut lead) == 0
    });
    let wait = lead.send_tool_call("wait_for_event", json!({}));
    deaf.say(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 99}}));
    drop(deaf);
    assert_eq!(facts(&lead.result(wait))["worker_id"], json!("w"));
}

#[test]
fn whoever_lost_a_reply_can_ask_again_by_the_last_id_it_knows() {
    let test_env = test_env();
    let mut lead = lead(&test_env);
    notice(&test_env, "lead", "a");
    notice(&test_env, "lead", "b");
    let first = lead.call("wait_for_event", json!({}));
    let again = json!({"after_event_id": "e0", "timeout_secs": 0});
    let told = lead.call("wait_for_event", again);
    assert_eq!(told["event_id"], first["event_id"]);
    let next = json!({"after_event_id": first["event_id"], "timeout_secs": 0});
    for _ in 0..2 {
        let told = lead.call("wait_for_event", next.clone());
        assert_eq!(told["worker_id"], json!("b"), "it took nothing");
    }
    let told = lead.call("wait_for_event", json!({}));
    assert_eq!(told["worker_id"], json!("b"));
}

// Waits and daemons.

#[test]
fn waits_ride_through_the_death_of_daemons() {
    let test_env = test_env();
    let mut lead = lead(&test_env);
    let wait = lead.send_tool_call("wait_for_event", json!({"timeout_secs": 120}));
    for round in 0..5 {
        until("the wait is there", WAIT_TIMEOUT, || {
            !test_env.daemons().is_empty()
        });
        for daemon in test_env.daemons() {
            daemon.kill9();
        }
        assert!(!lead.is_answered(wait), "round {round}");
    }
    notice(&test_env, "lead", "w");
    assert_eq!(facts(&lead.result(wait))["worker_id"], json!("w"));
    // What was told is taken for good, what is queued is kept.
    notice(&test_env, "lead", "v");
    until("the first one is taken", WAIT_TIMEOUT, || {
        free(&mut lead) == 1
    });
    for daemon in test_env.daemons() {
        daemon.kill9();
    }
    let told = lead.call("wait_for_event", json!({}));
    assert_eq!(told["worker_id"], json!("v"));
}

#[test]
fn a_wait_ends_before_its_client_would_give_up() {
    let test_env = test_env();
    let mut lead = client(&test_env, &["--session", "lead", "--max-wait-ms", "300"]);
    let told = lead.call("wait_for_event", json!({"timeout_secs": 60}));
    assert_eq!(told["type"], json!("timeout"));
    assert_eq!(told["reason"], json!("client_limit"));
    let told = lead.call("wait_for_event", json!({"timeout_secs": 0.1}));
    assert!(
        told.get("reason").is_none(),
        "its own time was over: {told}"
    );
    // A question goes on although the call that asked it is over.
    lead.call(
        "spawn_worker",
        json!({"name": "w", "agent": "shell", "prompt": "tail -f /dev/null"}),
    );
    let asked = lead.call(
        "ask_question",
        json!({"to": "w-shell", "body": "how far?", "default": "no idea"}),
    );
    assert_eq!(asked["status"], json!("pending"), "its time is not over");
    let id = asked["question_id"].as_str().unwrap();
    test_env.fugue(&["answer", id, "half"]).ok();
    let told = lead.call("wait_for_event", json!({"types": ["answer"]}));
    assert_eq!(told["body"], json!("half"));
}

// Who is who.

fn own_session(client: &mut McpClient, name: &str) -> String {
    let made = client.call(
        "spawn_worker",
        json!({"name": name, "agent": "shell", "prompt": "true"}),
    );
    let told = client.call("wait_for_event", json!({"timeout_secs": 60}));
    assert_eq!(told["worker_id"], made["worker_id"]);
    made["session_id"].as_str().expect("a name").to_owned()
}

#[test]
fn a_lead_that_comes_back_finds_its_events_and_a_second_one_has_its_own() {
    let test_env = test_env();
    let mut first = client(&test_env, &[]);
    let session = own_session(&mut first, "a");
    assert!(session.starts_with("work-"), "{session}");
    let mut second = client(&test_env, &[]);
    let other = own_session(&mut second, "b");
    assert_ne!(session, other);
    assert!(first.end().0.success());
    notice(&test_env, &session, "meanwhile");
    let listed: Value = test_env.json(&["events"]);
    assert_eq!(
        listed["session_id"],
        json!(session),
        "a person looks into the project's own"
    );
    let mut back = client(&test_env, &[]);
    let told = back.call("wait_for_event", json!({"timeout_secs": 60}));
    assert_eq!(told["worker_id"], json!("meanwhile"));
    // And both keep theirs when the daemon dies.
    for daemon in test_env.daemons() {
        daemon.kill9();
    }
    assert_eq!(own_session(&mut second, "c"), other);
    assert_eq!(own_session(&mut back, "d"), session);
}

#[test]
fn a_lead_that_says_nothing_while_daemons_die_keeps_its_inbox() {
    let test_env = test_env();
    let mut first = client(&test_env, &[]);
    let session = own_session(&mut first, "a");
    for daemon in test_env.daemons() {
        daemon.kill9();
    }
    // The second lead is the one that starts the next daemon.
    let mut second = client(&test_env, &[]);
    let other = own_session(&mut second, "b");
    assert_ne!(other, session);
    assert_eq!(own_session(&mut first, "c"), session);
    assert_eq!(own_session(&mut second, "d"), other);
}

#[test]
fn connections_of_a_named_session_share_its_inbox() {
    let test_env = test_env();
    let mut by_flag = client(&test_env, &["--session", "shared"]);
    let mut command = test_env.fugue_command(["mcp"]);
    command.env("FUGUE_SESSION", "shared");
    let mut by_variable = McpClient::start(command);
    by_variable.initialize("2025-11-25", "test");
    notice(&test_env, "shared", "a");
    notice(&test_env, "shared", "b");
    let told = by_flag.call("wait_for_event", json!({}));
    assert_eq!(told["worker_id"], json!("a"));
    let told = by_variable.call("wait_for_event", json!({}));
    assert_eq!(told["worker_id"], json!("b"));
    assert_eq!(free(&mut by_flag), 0);
}

#[test]
fn a_worker_knows_who_it_is_and_its_fugue_speaks_for_it() {
    let test_env = test_env();
    let mut lead = lead(&test_env);
    let fugue = env!("CARGO_BIN_EXE_fugue");
    let script = format!(
        "env | grep -E '^(FUGUE|EXOMONAD)_' | sort > env.txt\n\
         {fugue} message 'from \"me\"' && {fugue} notify success -m 'done & dusted'"
    );
    let made = lead.call(
        "spawn_worker",
        json!({"name": "w", "agent": "shell", "prompt": script}),
    );
    let told = lead.call("wait_for_event", json!({"types": ["message"]}));
    assert_eq!(told["from"], json!("w-shell"));
    assert_eq!(told["body"], json!("from \"me\""));
    let told = lead.call("wait_for_event", json!({}));
    assert_eq!(told["message"], json!("done & dusted"));
    assert_eq!(told["synthesized"], Value::Null);
    assert_eq!(told["instance"], json!(1));
    let env = std::fs::read_to_string(test_env.work().join("env.txt")).expect("it wrote it");
    let pane = made["pane_id"].as_str().unwrap();
    let socket = test_env.daemon().socket;
    for (name, value) in [
        ("FUGUE_SESSION_ID", "lead"),
        ("EXOMONAD_SESSION_ID", "lead"),
        ("FUGUE_AGENT_ID", "w-shell"),
        ("EXOMONAD_AGENT_ID", "w-shell"),
        ("FUGUE_PANE_ID", pane),
        ("FUGUE_SOCKET", &socket),
    ] {
        assert!(env.contains(&format!("{name}={value}\n")), "{name}: {env}");
    }
    // Its process ended behind its notice, which adds nothing.
    test_env.exited(pane.parse().unwrap());
    let none = lead.call("wait_for_event", json!({"timeout_secs": 0.1}));
    assert_eq!(none["type"], json!("timeout"), "{none}");
}

#[test]
fn a_worker_may_lead_others() {
    let test_env = test_env();
    let mut lead = lead(&test_env);
    let fugue = env!("CARGO_BIN_EXE_fugue");
    let script = format!(
        "{fugue} spawn sub 'echo deep' --agent shell && {fugue} events wait --json > heard.json"
    );
    lead.call(
        "spawn_worker",
        json!({"name": "w", "agent": "shell", "prompt": script}),
    );
    let told = lead.call("wait_for_event", json!({"timeout_secs": 60}));
    assert_eq!(told["worker_id"], json!("w-shell"), "{told}");
    assert_eq!(told["status"], json!("success"), "{told}");
    let heard = std::fs::read_to_string(test_env.work().join("heard.json")).unwrap();
    let heard: Value = serde_json::from_str(&heard).unwrap();
    assert_eq!(heard["worker_id"], json!("sub-shell"));
    assert!(heard["message"].as_str().unwrap().contains("deep"));
}

// Questions.

#[test]
fn a_worker_asks_and_a_person_answers() {
    let test_env = test_env();
    let mut lead = lead(&test_env);
    let asking = as_worker(&test_env, &["ask", "may I?", "--timeout", "60s"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it asks");
    let told = lead.call("wait_for_event", json!({"types": ["question"]}));
    assert_eq!(told["from"], json!("w-shell"));
    assert_eq!(told["body"], json!("may I?"));
    let question = told["question_id"].as_str().unwrap();
    let answered: Value = test_env.json(&["answer", question, "you\nmay"]);
    assert_eq!(answered["delivered"], json!("returned"));
    let said = asking.wait_with_output().expect("it ends");
    assert!(said.status.success());
    assert_eq!(String::from_utf8_lossy(&said.stdout), "you\nmay\n");
    let refused = test_env.refused(&["answer", question, "no"], 2);
    assert_eq!(refused.kind, ErrorKind::InvalidArgument);
    // The call returned it, so it is no event.
    let (code, ..) = run(as_worker(&test_env, &["events", "wait", "--timeout", "0s"]));
    assert_eq!(code, Some(124));
}

#[test]
fn a_late_answer_arrives_as_an_event() {
    let test_env = test_env();
    let mut lead = lead(&test_env);
    let (code, out, _) = run(as_worker(
        &test_env,
        &["ask", "may I?", "--timeout", "0s", "--json"],
    ));
    assert_eq!(code, Some(124));
    let asked: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(asked["status"], json!("pending"));
    let (code, out, _) = run(as_worker(
        &test_env,
        &["ask", "or?", "--timeout", "0s", "--default", "no"],
    ));
    assert_eq!((code, out.as_str()), (Some(0), "no\n"));
    let answer = json!({"question_id": asked["question_id"], "answer": "yes"});
    let told = lead.call("answer_question", answer);
    assert_eq!(told["delivered"], json!("queued"));
    let (code, out, _) = run(as_worker(
        &test_env,
        &["events", "wait", "--types", "answer", "--json"],
    ));
    assert_eq!(code, Some(0));
    let event: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(event["body"], json!("yes"));
    assert_eq!(event["question_id"], asked["question_id"]);
}

#[test]
fn a_lead_asks_its_worker_and_the_answer_survives_the_daemon() {
    let test_env = test_env();
    let mut lead = lead(&test_env);
    let fugue = env!("CARGO_BIN_EXE_fugue");
    let script = format!(
        "{fugue} events wait --types question --json | tee question.json; read -r _; \
         {fugue} answer \"$(grep -oE '\"q[0-9]+\"' question.json | tr -d '\"')\" fine"
    );
    let made = lead.call(
        "spawn_worker",
        json!({"name": "w", "agent": "shell", "prompt": script}),
    );
    let asked = lead.send_tool_call(
        "ask_question",
        json!({"to": "w-shell", "body": "how is it?"}),
    );
    let pane = made["pane_id"].as_str().unwrap();
    test_env.until_printed(pane.parse().unwrap(), |text| text.contains("how is it?"));
    for daemon in test_env.daemons() {
        daemon.kill9();
    }
    test_env.type_line(pane.parse().unwrap(), "");
    let told = facts(&lead.result(asked));
    assert_eq!(told["status"], json!("answered"));
    assert_eq!(told["answer"], json!("fine"));
}

// For people.

#[test]
fn a_person_sees_what_is_queued_and_follows_what_comes() {
    let test_env = test_env();
    let said = test_env.fugue(&["events", "--inbox", "lead"]).ok();
    assert_eq!(said.out(), "");
    assert!(said.err().contains("no matching events"), "{said}");
    let mut follower = test_env.start(&["events", "-f", "--inbox", "lead"]);
    notice(&test_env, "lead", "w");
    run(as_worker(&test_env, &["message", "hello there"]));
    assert!(follower.wait_for_more_stdout(0, WAIT_TIMEOUT));
    until("both are told", WAIT_TIMEOUT, || {
        follower.stdout_text().contains("hello there")
            || !follower.wait_for_more_stdout(follower.stdout_text().len(), WAIT_TIMEOUT)
    });
    assert_eq!(
        follower.stdout_text(),
        "e1 complete w: \ne2 message w-shell: hello there\n"
    );
    let listed = test_env.fugue(&["events", "--inbox", "lead"]).ok().out();
    let rows: Vec<&str> = listed.lines().collect();
    assert!(rows[0].starts_with("EVENT"), "{listed}");
    assert!(rows[1].starts_with("e1") && rows[1].contains("complete"));
    assert!(rows[2].contains("w-shell") && rows[2].ends_with("hello there"));
    let taken = test_env.fugue(&["events", "wait", "--inbox", "lead", "--types", "message"]);
    assert_eq!(taken.ok().out(), "e2 message w-shell: hello there\n");
    let over = test_env.fugue(&[
        "events",
        "wait",
        "--inbox",
        "lead",
        "--types",
        "message",
        "--timeout",
        "0s",
    ]);
    assert_eq!(over.code, Some(124));
}

#[test]
fn a_person_spawns_a_worker_and_waits_for_its_report() {
    let test_env = test_env();
    let spawned = test_env.fugue(&["spawn", "w", "echo all well; exit 3", "--agent", "shell"]);
    assert_eq!(spawned.out(), "w-shell\n");
    assert!(spawned.err().contains("fugue events wait"), "{spawned}");
    let told = test_env.fugue(&["events", "wait", "--timeout", "50s"]).ok();
    assert_eq!(told.out(), "e1 failed w-shell: exit 3 all well\n");
    let notified = test_env.fugue(&[
        "notify",
        "success",
        "--session-id",
        "lead",
        "--worker-id",
        "v",
        "--change",
        "a | 1 +",
    ]);
    assert_eq!(notified.ok().out(), "e2\n");
    let told = test_env.fugue(&["events", "wait", "--inbox", "lead"]).ok();
    assert_eq!(told.out(), "e2 complete v: \n  a | 1 +\n");
    let refused = test_env.refused(&["message", "--to", "w-shell", "too late"], 1);
    assert_eq!(refused.kind, ErrorKind::Ended);
}

#[test]
fn what_is_queued_is_listed_behind_a_thousand_that_were_taken() {
    let test_env = test_env();
    let mut lead = lead(&test_env);
    let mut worker = client(&test_env, &["--session", "other"]);
    for number in 0..1_050 {
        let notice =
            json!({"session_id": "lead", "worker_id": format!("w{number}"), "status": "success"});
        worker.call("notify_completion", notice);
        if number < 1_040 {
            lead.call("wait_for_event", json!({}));
        }
    }
    until("the last is on record", WAIT_TIMEOUT, || {
        free(&mut lead) == 10
    });
    let listed: Value = test_env.json(&["events", "--inbox", "lead"]);
    assert_eq!(listed["events"].as_array().unwrap().len(), 10);
    assert_eq!(listed["more"], json!(false));
}

#[test]
fn hostile_words_are_refused_by_name_or_shown_harmlessly() {
    let test_env = test_env();
    let mut lead = lead(&test_env);
    let mut other = client(&test_env, &["--session", "other"]);
    notice(&test_env, "lead", "w");
    lead.call("wait_for_event", json!({}));
    let long = "é".repeat(8_001);
    for (tool, args, field) in [
        ("send_message", json!({"to": "lead", "body": long}), "body"),
        ("send_message", json!({"to": "lead", "body": ""}), "body"),
        ("send_message", json!({"to": "le\nad", "body": "x"}), "to"),
        ("ask_question", json!({"to": "lead", "body": long}), "body"),
        (
            "ask_question",
            json!({"to": "lead", "body": "x", "default": long}),
            "default",
        ),
        (
            "answer_question",
            json!({"question_id": "q1\n", "answer": "x"}),
            "question_id",
        ),
        (
            "answer_question",
            json!({"question_id": "q1", "answer": long}),
            "answer",
        ),
        (
            "notify_completion",
            json!({"session_id": "lead", "worker_id": "a\u{1b}b", "status": "success"}),
            "worker_id",
        ),
        (
            "notify_completion",
            json!({"session_id": "lead", "worker_id": "w", "status": "fine"}),
            "status",
        ),
        (
            "notify_completion",
            json!({"session_id": "lead", "worker_id": "w", "status": "success", "message": long}),
            "message",
        ),
        ("wait_for_event", json!({"types": ["nonsense"]}), "types"),
        ("wait_for_event", json!({"types": []}), "types"),
        (
            "wait_for_event",
            json!({"timeout_secs": -1}),
            "timeout_secs",
        ),
        (
            "wait_for_event",
            json!({"after_event_id": "7\n"}),
            "after_event_id",
        ),
        (
            "spawn_worker",
            json!({"name": "../x", "agent": "shell", "prompt": "true"}),
            "name",
        ),
        (
            "spawn_worker",
            json!({"name": "a\nb", "agent": "shell", "prompt": "true"}),
            "name",
        ),
        (
            "spawn_worker",
            json!({"name": "x", "agent": "none", "prompt": "true"}),
            "agent",
        ),
        (
            "spawn_worker",
            json!({"name": "x", "agent": "shell", "prompt": "a\u{0}b"}),
            "prompt",
        ),
    ] {
        let refused = other.refused(tool, args.clone());
        assert!(
            refused.message.contains(field),
            "{tool} {args}: {refused:?}"
        );
    }
    assert_eq!(free(&mut lead), 0, "nothing was sent");
    let body = format!("\u{1b}[2J\u{1b}]0;owned\u{7}{}", "é".repeat(7_980));
    other.call("send_message", json!({"to": "lead", "body": body}));
    for args in [
        &["events", "--inbox", "lead"][..],
        &["events", "wait", "--inbox", "lead"][..],
    ] {
        let shown = test_env.fugue(args).ok();
        assert!(!shown.stdout.contains(&0x1b) && !shown.stdout.contains(&0x07));
        assert!(shown.out().contains("owned"), "{shown}");
    }
    let last = format!("e{}", u64::MAX);
    let told = lead.call(
        "wait_for_event",
        json!({"after_event_id": last, "timeout_secs": 0, "types": ["*"]}),
    );
    assert_eq!(told["type"], json!("timeout"));
    let mut command = test_env.fugue_command(["message", "x", "--json"]);
    command
        .env("FUGUE_SESSION_ID", "lead")
        .env("FUGUE_AGENT_ID", "a\nb");
    let (code, _, err) = run(command);
    assert_eq!(code, Some(2));
    assert!(err.contains("FUGUE_AGENT_ID"), "{err}");
}
