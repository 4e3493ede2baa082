//! Tasks over MCP: what a call that waits long is answered with, and that every event is delivered once, whichever of daemon,
//! bridge and client is killed, and in whichever state of the task.

use std::{process::Command, time::Duration};

use fugue_testkit::{
    ProcessRef, RunningProgram, TestEnv, mcp_client::McpClient, mcp_client::facts, until,
};
use serde_json::{Value, json};

const LIMIT: Duration = Duration::from_secs(240);
/// A call becomes a task after this time at most.
const SOON: [&str; 2] = ["--max-wait-ms", "300"];

fn test_env() -> TestEnv {
    TestEnv::new(env!("CARGO_BIN_EXE_fugue"), LIMIT)
}

fn capabilities() -> Value {
    json!({"elicitation": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}})
}

fn start(command: Command) -> McpClient {
    let mut client = McpClient::start(command);
    client.stateless_as("test", capabilities());
    client
}

fn lead(test_env: &TestEnv, flags: &[&str]) -> McpClient {
    let args = [&["mcp", "--session", "lead"], flags].concat();
    start(test_env.fugue_command(args))
}

/// A client process between the test and the bridge, which can be killed with its pipes open.
fn lead_behind_a_client(test_env: &TestEnv, flags: &[&str]) -> McpClient {
    let relay = "import os, subprocess, sys, threading\n\
        p = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)\n\
        def pump(source, sink):\n    while data := os.read(source, 65536): os.write(sink, data)\n\
        threading.Thread(target=pump, args=(p.stdout.fileno(), 1), daemon=True).start()\n\
        pump(0, p.stdin.fileno())\n";
    let mut command = test_env.command("python3");
    command
        .args([
            "-c",
            relay,
            env!("CARGO_BIN_EXE_fugue"),
            "mcp",
            "--session",
            "lead",
        ])
        .args(flags);
    start(command)
}

/// Calls a tool whose call becomes a task, and returns the id of the task.
#[track_caller]
fn begin(client: &mut McpClient, tool: &str, args: Value) -> String {
    let id = client.send_tool_call(tool, args);
    let made = client.result(id);
    assert_eq!(made["resultType"], "task", "{made}");
    assert_eq!(made["status"], "working", "{made}");
    made["taskId"].as_str().expect("an id").to_owned()
}

fn get(client: &mut McpClient, task: &str) -> Value {
    let id = client.send_request("tasks/get", json!({"taskId": task}));
    client.result(id)
}

#[track_caller]
fn until_status(client: &mut McpClient, task: &str, wanted: &str) -> Value {
    let mut last = Value::Null;
    until(&format!("the task is {wanted}"), LIMIT, || {
        last = get(client, task);
        last["status"] == wanted
    });
    last
}

#[track_caller]
fn result(client: &mut McpClient, task: &str) -> Value {
    facts(&until_status(client, task, "completed")["result"])
}

fn notify(test_env: &TestEnv) {
    let report = [
        "notify",
        "success",
        "--session-id",
        "lead",
        "--worker-id",
        "w",
    ];
    test_env.json::<Value>(&report);
}

fn events(test_env: &TestEnv) -> Vec<Value> {
    let listed: Value = test_env.json(&["events", "--inbox", "lead", "--all", "--types", "*"]);
    listed["events"].as_array().cloned().unwrap_or_default()
}

fn until_taken(test_env: &TestEnv) {
    until("the event is acked", LIMIT, || {
        events(test_env).iter().all(|event| event["taken"] == true)
    });
}

/// The event that a new call of the session gets, if it gets one soon.
fn next_event(client: &mut McpClient) -> Value {
    client.call("wait_for_event", json!({"timeout_secs": 0.2}))
}

/// A question of a worker to a person, as its own process.
fn question(test_env: &TestEnv, more: &[&str]) -> RunningProgram {
    let args = [
        "--json",
        "ask",
        "--to",
        "person",
        "may I?",
        "--timeout",
        "20s",
    ];
    let mut command = test_env.fugue_command([&args[..], more].concat());
    command
        .env("FUGUE_SESSION_ID", "lead")
        .env("FUGUE_AGENT_ID", "w-shell");
    RunningProgram::start(command)
}

/// The key of the form that a task shows.
fn form(task: &Value) -> String {
    let requests = task["inputRequests"].as_object().expect("a form");
    let (key, request) = requests.iter().next().expect("one form");
    assert_eq!(requests.len(), 1, "{task}");
    assert_eq!(request["method"], "elicitation/create");
    let message = request["params"]["message"].as_str().expect("a message");
    assert!(message.contains("may I?"), "{message}");
    assert_eq!(
        request["params"]["requestedSchema"]["required"],
        json!(["answer"])
    );
    key.clone()
}

fn update(client: &mut McpClient, task: &str, key: &str, response: Value) {
    let params = json!({"taskId": task, "inputResponses": {key: response}});
    let id = client.send_request("tasks/update", params);
    client.result(id);
}

fn accept(answer: &str) -> Value {
    json!({"action": "accept", "content": {"answer": answer}})
}

#[test]
fn a_short_call_is_no_task_and_a_long_one_is() {
    let test_env = test_env();
    let mut client = lead(&test_env, &["--max-wait-ms", "2000"]);
    let quick = client.call("fugue_run_parallel", json!({"commands": ["echo hello"]}));
    assert_eq!(quick["status"], "completed");
    let args = json!({"commands": ["until [ -e go ]; do sleep 0.05; done; echo gone"]});
    let task = begin(&mut client, "fugue_run_parallel", args);
    assert!(task.starts_with("run:"), "{task}");
    assert_eq!(get(&mut client, &task)["status"], "working");
    // The client is free meanwhile.
    client.call("get_status", json!({}));
    std::fs::write(test_env.work().join("go"), "").expect("a file");
    let result = result(&mut client, &task);
    assert_eq!(result["results"][0]["output"], "gone", "{result}");
    assert_eq!(result["run_id"], Value::Null, "{result}");
    // It stays there, and is no event as well.
    until_status(&mut client, &task, "completed");
    assert_eq!(next_event(&mut client)["type"], "timeout");
    let id = client.send_request("tasks/get", json!({"taskId": "run:none"}));
    assert_eq!(client.response(id)["error"]["code"], -32602);
}

#[test]
fn without_the_capability_no_call_becomes_a_task() {
    let test_env = test_env();
    let mut client = McpClient::start(test_env.fugue_command(["mcp", "--max-wait-ms", "300"]));
    client.stateless("test");
    let waited = client.call("wait_for_event", json!({"timeout_secs": 1}));
    assert_eq!(waited["reason"], "client_limit", "{waited}");
    let id = client.send_request("tasks/get", json!({"taskId": "run:r1"}));
    assert_eq!(client.response(id)["error"]["code"], -32021);
}

#[test]
fn a_task_of_one_session_is_none_of_another() {
    let test_env = test_env();
    let mut client = lead(&test_env, &SOON);
    let task = begin(&mut client, "wait_for_event", json!({}));
    let mut other = start(test_env.fugue_command(["mcp", "--session", "other"]));
    let id = other.send_request("tasks/get", json!({"taskId": task}));
    assert_eq!(other.response(id)["error"]["code"], -32602);
    assert_eq!(get(&mut client, &task)["status"], "working");
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Killed {
    Daemon,
    Bridge,
    Client,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    /// The call is pending, and no task yet.
    Pending,
    Working,
    /// The event is there, and the client has not fetched it.
    Completed,
    Fetched,
    Cancelled,
    InputRequired,
}

const STATES: [State; 6] = [
    State::Pending,
    State::Working,
    State::Completed,
    State::Fetched,
    State::Cancelled,
    State::InputRequired,
];

/// A lead's wait for an event, in one state, while something is killed.
struct Case {
    killed: Killed,
    state: State,
    client: McpClient,
    call: u64,
    task: Option<String>,
    asker: Option<RunningProgram>,
    /// Dropped last: it looks for processes that were left behind.
    test_env: TestEnv,
}

impl Case {
    fn open(killed: Killed, state: State) -> Self {
        let test_env = test_env();
        let patience: &[&str] = match state {
            // Far longer than it takes to kill anything.
            State::Pending => &["--max-wait-ms", "600000"],
            _ => &SOON,
        };
        let mut client = match killed {
            Killed::Client => lead_behind_a_client(&test_env, patience),
            Killed::Daemon | Killed::Bridge => lead(&test_env, patience),
        };
        let (mut call, mut task) = (0, None);
        if state == State::Pending {
            call = client.send_tool_call("wait_for_event", json!({"timeout_secs": 200}));
            // Calls are taken in the order in which they came.
            client.call("get_status", json!({}));
        } else {
            task = Some(begin_wait(&mut client));
        }
        Self {
            killed,
            state,
            client,
            call,
            task,
            asker: None,
            test_env,
        }
    }

    fn task(&mut self) -> (&mut McpClient, &str) {
        let client = &mut self.client;
        let task = self.task.get_or_insert_with(|| begin_wait(client));
        (&mut self.client, task)
    }

    fn bring_about(&mut self) {
        match self.state {
            State::Pending => {}
            State::Working => {
                let (client, task) = self.task();
                assert_eq!(get(client, task)["status"], "working");
            }
            State::Completed => notify(&self.test_env),
            State::Fetched => {
                notify(&self.test_env);
                let (client, task) = self.task();
                assert_eq!(result(client, task)["type"], "worker_complete");
                until_taken(&self.test_env);
            }
            State::Cancelled => {
                let (client, task) = self.task();
                let id = client.send_request("tasks/cancel", json!({"taskId": task}));
                client.result(id);
                assert_eq!(get(client, task)["status"], "cancelled");
            }
            State::InputRequired => {
                self.asker = Some(question(&self.test_env, &[]));
                let (client, task) = self.task();
                form(&until_status(client, task, "input_required"));
            }
        }
    }

    /// Kills, and goes on with the same client, or with a new one if it or its bridge was killed.
    fn kill(&mut self) {
        match self.killed {
            Killed::Daemon => self.test_env.kill_daemon(),
            Killed::Bridge | Killed::Client => {
                ProcessRef::find(self.client.pid())
                    .expect("it runs")
                    .kill9();
                // The bridge of a client that was killed ends by itself.
                until("no bridge is left", LIMIT, || {
                    let all = self.test_env.processes();
                    !all.iter().any(|process| process.has_args(&["mcp"]))
                });
                self.client = lead(&self.test_env, &SOON);
                self.task = None;
            }
        }
    }

    /// The person answers, at the task that shows the form now.
    fn answer(&mut self) {
        let Some(asker) = self.asker.take() else {
            return;
        };
        let (client, task) = self.task();
        let key = form(&until_status(client, task, "input_required"));
        update(client, task, &key, accept("yes"));
        let asked: Value = asker.end(LIMIT).ok().json();
        let (answer, from) = (&asked["answer"], &asked["from"]);
        assert_eq!((answer, from), (&json!("yes"), &json!("person")));
        assert_eq!(get(client, task)["status"], "working", "shown once");
    }

    /// The event, from the task or the call if they are still there, else from a new call.
    fn event(&mut self) -> Value {
        if !matches!(self.state, State::Completed | State::Fetched) {
            notify(&self.test_env);
        }
        match (self.state, self.killed) {
            (State::Pending, Killed::Daemon) => facts(&self.client.result(self.call)),
            (State::Fetched, _) => next_event(&mut self.client),
            (State::InputRequired, _) | (State::Working | State::Completed, Killed::Daemon) => {
                let (client, task) = self.task();
                result(client, task)
            }
            (State::Cancelled, _) | (State::Pending | State::Working | State::Completed, _) => {
                let mut event = Value::Null;
                until("the event is delivered", LIMIT, || {
                    event = next_event(&mut self.client);
                    event["type"] != "timeout"
                });
                event
            }
        }
    }
}

fn begin_wait(client: &mut McpClient) -> String {
    begin(client, "wait_for_event", json!({"timeout_secs": 200}))
}

/// An event that a task waits for is delivered once.
fn survives(killed: Killed, state: State) {
    let mut case = Case::open(killed, state);
    case.bring_about();
    case.kill();
    case.answer();
    let event = case.event();
    let wanted = match state {
        State::Fetched => "timeout",
        _ => "worker_complete",
    };
    assert_eq!(event["type"], wanted, "{killed:?} {state:?}: {event}");
    until_taken(&case.test_env);
    let next = next_event(&mut case.client);
    assert_eq!(next["type"], "timeout", "{killed:?} {state:?}");
    assert_eq!(events(&case.test_env).len(), 1, "{killed:?} {state:?}");
}

#[test]
fn an_event_survives_the_daemon_in_each_state_of_a_task() {
    STATES
        .into_iter()
        .for_each(|state| survives(Killed::Daemon, state));
}

#[test]
fn an_event_survives_the_bridge_in_each_state_of_a_task() {
    STATES
        .into_iter()
        .for_each(|state| survives(Killed::Bridge, state));
}

#[test]
fn an_event_survives_the_client_in_each_state_of_a_task() {
    STATES
        .into_iter()
        .for_each(|state| survives(Killed::Client, state));
}

/// The task of a run outlives bridge and daemon: the next bridge of the session has it, by the same id.
#[test]
fn the_task_of_a_run_survives_bridge_and_daemon() {
    for fetched_before in [false, true] {
        let test_env = test_env();
        let mut client = lead(&test_env, &SOON);
        let command = "echo once >> ran; until [ -e go ]; do sleep 0.05; done; echo gone";
        let args = json!({"commands": [command]});
        let task = begin(&mut client, "fugue_run_parallel", args);
        test_env.kill_daemon();
        assert_eq!(get(&mut client, &task)["status"], "working");
        if fetched_before {
            std::fs::write(test_env.work().join("go"), "").expect("a file");
            result(&mut client, &task);
            until_taken(&test_env);
        }
        drop(client);
        let mut client = lead(&test_env, &SOON);
        if !fetched_before {
            assert_eq!(get(&mut client, &task)["status"], "working");
            std::fs::write(test_env.work().join("go"), "").expect("a file");
        }
        test_env.kill_daemon();
        let result = result(&mut client, &task);
        assert_eq!(result["results"][0]["output"], "gone", "{result}");
        assert_eq!(
            next_event(&mut client)["type"],
            "timeout",
            "{fetched_before} {:?}",
            events(&test_env)
        );
        let ran = std::fs::read_to_string(test_env.work().join("ran")).expect("it ran");
        assert_eq!(ran, "once\n");
    }
}

/// An answer that a killed bridge had for its client is an event of the next one.
#[test]
fn an_answer_that_was_not_fetched_survives_the_bridge() {
    let test_env = test_env();
    let mut elsewhere = lead(&test_env, &SOON);
    let ask = json!({"to": "person", "body": "may I?"});
    let mut asker = start(test_env.fugue_command(["mcp", "--session", "asker"]));
    let task = begin(&mut asker, "ask_question", ask);
    // The person at the other session has nothing to do with it.
    let other = begin_wait(&mut elsewhere);
    assert_eq!(get(&mut elsewhere, &other)["status"], "working");
    form(&until_status(&mut asker, &task, "input_required"));
    test_env.fugue(&["answer", "q1", "yes"]).ok();
    // The answer has been handed to the bridge.
    until("the answer is leased", LIMIT, || {
        let all: Value = test_env.json(&["events", "--inbox", "asker", "--all", "--types", "*"]);
        all["events"][0]["type"] == "answer"
    });
    drop(asker);
    let mut asker = start(test_env.fugue_command(["mcp", "--session", "asker"]));
    let event = asker.call("wait_for_event", json!({"timeout_secs": 60}));
    assert_eq!(
        (&event["body"], &event["from"]),
        (&json!("yes"), &json!("person"))
    );
    assert_eq!(next_event(&mut asker)["type"], "timeout");
}
