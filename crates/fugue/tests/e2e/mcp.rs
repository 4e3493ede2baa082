//! `fugue mcp` on stdin and stdout: both protocol eras, concurrent calls, waits, and clients that misbehave.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use fugue_api::{ErrorKind, PaneId};
use fugue_testkit::{
    ProcessWaiter, TestEnv, mcp_client::McpClient, mcp_client::facts, report_metric, until,
};
use serde_json::{Value, json};

const LIMIT: Duration = Duration::from_secs(240);
const TOOLS: [&str; 20] = [
    "create_pane",
    "send_input",
    "read_pane",
    "get_status",
    "close_pane",
    "fugue_expect",
    "fugue_run_parallel",
    "fugue_run_pipeline",
    "fugue_wait",
    "cancel_run",
    "spawn_worker",
    "wait_for_event",
    "notify_completion",
    "send_message",
    "ask_question",
    "answer_question",
    "watch_me",
    "look_ma",
    "pause",
    "clear",
];

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

/// A pane whose program ignores every polite request to end, so that closing it takes as long as it is given.
fn stubborn(test_env: &TestEnv, client: &mut McpClient) -> PaneId {
    let command = json!({"command": "trap '' HUP TERM; echo stubborn; exec sleep 1000"});
    let made = client.call("create_pane", command);
    let pane = made["pane_id"].as_str().expect("an id");
    let pane = pane.parse().expect("a pane");
    test_env.until_printed(pane, |text| text.contains("stubborn"));
    pane
}

fn names(listed: &Value) -> Vec<&str> {
    let tools = listed["tools"].as_array().expect("a list");
    tools
        .iter()
        .filter_map(|tool| tool["name"].as_str())
        .collect()
}

#[test]
fn both_eras_of_the_protocol_are_served() {
    let test_env = test_env();
    for version in ["2025-06-18", "2025-11-25"] {
        let mut client = McpClient::start(test_env.fugue_command(["mcp"]));
        let hello = client.initialize(version, "test");
        assert_eq!(hello["protocolVersion"], version);
        assert_eq!(hello["serverInfo"]["name"], "fugue");
        let said = hello["instructions"].as_str().expect("instructions");
        assert!(said.len() < 2048 && said.contains("read_pane"), "{said}");
        let listed = client.send_request("tools/list", json!({}));
        assert_eq!(names(&client.result(listed)), TOOLS);
        let ping = client.send_request("ping", json!({}));
        assert_eq!(client.result(ping), json!({}));
        let panes = client.call("get_status", json!({}));
        assert_eq!(panes["panes"], json!([]));
    }
    let mut client = McpClient::start(test_env.fugue_command(["mcp"]));
    client.stateless("test");
    let discovered = client.send_request("server/discover", json!({}));
    let discovered = client.result(discovered);
    let versions = discovered["supportedVersions"].to_string();
    assert!(
        versions.contains("2026-07-28") && versions.contains("2025-06-18"),
        "{discovered}"
    );
    assert!(discovered["instructions"].is_string(), "{discovered}");
    let listed = client.send_request("tools/list", json!({}));
    assert_eq!(names(&client.result(listed)), TOOLS);
    assert_eq!(client.call("get_status", json!({}))["panes"], json!([]));
    let refused = client.refused("read_pane", json!({"pane_id": "p9"}));
    assert_eq!(refused.kind, ErrorKind::NotFound);
}

#[test]
fn only_the_tools_of_the_chosen_groups_are_offered_and_accepted() {
    let test_env = test_env();
    let mut client = McpClient::start(test_env.fugue_command(["mcp", "--tools", "panes,watch"]));
    let hello = client.initialize("2025-11-25", "test");
    let said = hello["instructions"].as_str().expect("instructions");
    assert!(
        said.contains("read_pane") && !said.contains("fugue_run_parallel"),
        "{said}"
    );
    let listed = client.send_request("tools/list", json!({}));
    assert_eq!(
        names(&client.result(listed)),
        [&TOOLS[..5], &TOOLS[16..]].concat()
    );
    assert_eq!(client.call("get_status", json!({}))["panes"], json!([]));
    let run = client.send_tool_call("fugue_run_parallel", json!({"commands": ["touch ran"]}));
    let refused = client.response(run);
    let message = refused["error"]["message"].as_str().expect("an error");
    assert!(
        message.contains("no tool `fugue_run_parallel`") && message.contains("create_pane"),
        "{refused}"
    );
    assert!(!test_env.work().join("ran").exists());
}

#[test]
fn arguments_that_the_listed_schemas_do_not_forbid_are_refused() {
    let test_env = test_env();
    let mut client = client(&test_env, &[]);
    for (tool, args, named) in [
        ("create_pane", json!({"comand": "true"}), "comand"),
        (
            "fugue_run_parallel",
            json!({"commands": [{"command": "true", "dir": "/"}]}),
            "commands[0].dir",
        ),
        ("create_pane", json!({"env": {"N": 1}}), "env.N"),
        ("create_pane", json!({"rows": 1001}), "rows"),
    ] {
        let refused = client.refused(tool, args);
        assert_eq!(refused.kind, ErrorKind::InvalidArgument);
        assert!(refused.message.contains(named), "{}", refused.message);
    }
    assert_eq!(client.call("get_status", json!({}))["panes"], json!([]));
}

#[test]
fn the_pane_tools_do_over_mcp_what_they_do_everywhere() {
    let test_env = test_env();
    let mut client = client(&test_env, &["--session", "lead"]);
    let pane = client.call(
        "create_pane",
        json!({"name": "sh", "shell": "bash", "env": {"GREETING": "hello"}}),
    );
    assert_eq!(pane["ready"], true, "{pane}");
    // The pane starts where the client is, not where the daemon is.
    let sent = client.call(
        "send_input",
        json!({"pane_id": "sh", "input": "echo $GREETING from $PWD", "submit": true}),
    );
    assert_eq!(sent["submitted"], "yes", "{sent}");
    let id = pane["pane_id"]
        .as_str()
        .expect("an id")
        .parse()
        .expect("a pane's id");
    let wanted = format!("hello from {}", test_env.work().display());
    test_env.until_printed(id, |text| text.lines().any(|line| line == wanted));
    until("the shell is back at its prompt", LIMIT, || {
        client.call("get_status", json!({"pane_id": "sh"}))["state"] == "idle"
    });
    let read = client.call(
        "read_pane",
        json!({"pane_id": "sh", "mode": "last_command"}),
    );
    assert_eq!(read["exit_code"], 0, "{read}");
    assert_eq!(
        read["text"].as_str().map(str::trim_end),
        Some(wanted.as_str()),
        "{read}"
    );
    let closed = client.call("close_pane", json!({"pane_id": "sh"}));
    assert_eq!(closed["pane_id"], pane["pane_id"]);
    let (status, complaints) = client.end();
    assert!(status.success(), "{complaints}");
    assert_eq!(complaints, "");
}

#[test]
fn a_wrong_call_is_refused_by_name_and_nothing_happens() {
    let test_env = test_env();
    let mut client = client(&test_env, &[]);
    for (tool, args, kind, says) in [
        (
            "read_pane",
            json!({"pane_id": "p1", "linez": 3}),
            ErrorKind::InvalidArgument,
            &["linez", "lines"][..],
        ),
        (
            "read_pane",
            json!({"pane_id": "p1", "lines": "many"}),
            ErrorKind::InvalidArgument,
            &["lines", "many"],
        ),
        (
            "read_pane",
            json!({}),
            ErrorKind::InvalidArgument,
            &["pane_id"],
        ),
        (
            "read_pane",
            json!({"pane_id": "p404"}),
            ErrorKind::NotFound,
            &["p404"],
        ),
        (
            "create_pane",
            json!({"rows": 0}),
            ErrorKind::InvalidArgument,
            &["rows"],
        ),
        (
            "create_pane",
            json!({"cwd": "/no/such/place"}),
            ErrorKind::InvalidArgument,
            &["cwd", "/no/such/place"],
        ),
        (
            "create_pane",
            json!({"command": " "}),
            ErrorKind::InvalidArgument,
            &["command"],
        ),
        (
            "create_pane",
            json!({"env": {"A": 1}}),
            ErrorKind::InvalidArgument,
            &["env"],
        ),
        (
            "send_input",
            json!({"pane_id": "p1", "keys": ["Entr"]}),
            ErrorKind::InvalidArgument,
            &["Entr"],
        ),
        (
            "close_pane",
            json!({"pane_id": "p1", "grace_ms": -1}),
            ErrorKind::InvalidArgument,
            &["grace_ms"],
        ),
    ] {
        let refused = client.refused(tool, args);
        assert_eq!(refused.kind, kind, "{refused:?}");
        for word in says {
            assert!(
                refused.message.contains(word),
                "{refused:?} does not say {word}"
            );
        }
    }
    assert_eq!(client.call("get_status", json!({}))["panes"], json!([]));
    // Not a tool, not even a call: the protocol's own errors.
    for (method, params, code, says) in [
        (
            "tools/call",
            json!({"name": "make_coffee", "arguments": {}}),
            -32602,
            "make_coffee",
        ),
        (
            "tools/call",
            json!({"name": "get_status", "arguments": "none"}),
            -32602,
            "arguments",
        ),
        ("tools/call", json!({"arguments": {}}), -32602, "name"),
        ("make/coffee", json!({}), -32601, "make/coffee"),
        ("prompts/list", json!({}), -32601, ""),
        ("resources/list", json!({}), -32601, ""),
    ] {
        let id = client.send_request(method, params);
        let response = client.response(id);
        assert_eq!(response["error"]["code"], code, "{method}: {response}");
        assert!(
            response["error"]["message"]
                .as_str()
                .is_some_and(|said| said.contains(says)),
            "{response}"
        );
    }
}

#[test]
fn of_two_hundred_interleaved_calls_each_gets_its_own_answer() {
    let test_env = test_env();
    let mut client = client(&test_env, &[]);
    // Panes that answer differently, so that an answer tells which call it belongs to.
    let panes: Vec<PaneId> = (0..4)
        .map(|n| {
            test_env
                .pane(&format!("echo I am number {n}; exec sleep 1000"))
                .pane_id
        })
        .collect();
    for (n, pane) in panes.iter().enumerate() {
        test_env.until_printed(*pane, |text| text.contains(&format!("number {n}")));
    }
    let mut asked = HashMap::new();
    for n in 0..200 {
        let pane = panes[n % panes.len()];
        let (tool, args) = match n % 6 {
            0 => ("read_pane", json!({"pane_id": format!("no-such-{n}")})),
            3 => (
                "read_pane",
                json!({"pane_id": pane, format!("wrong_{n}"): 1}),
            ),
            1 | 4 => ("read_pane", json!({"pane_id": pane})),
            _ => ("get_status", json!({"pane_id": pane})),
        };
        asked.insert(client.send_tool_call(tool, args), n);
    }
    let mut refused = 0;
    for (id, n) in asked {
        let result = client.result(id);
        let said = facts(&result);
        let pane = json!(panes[n % panes.len()]);
        match n % 6 {
            0 | 3 => {
                assert_eq!(result["isError"], true, "{n}: {result}");
                let name = if n % 6 == 0 {
                    format!("no-such-{n}`")
                } else {
                    format!("wrong_{n}`")
                };
                assert!(
                    said["message"]
                        .as_str()
                        .is_some_and(|said| said.contains(&name)),
                    "{n}: {said}"
                );
                refused += 1;
            }
            1 | 4 => {
                let wanted = format!("I am number {}\n", n % panes.len());
                assert_eq!(
                    said["text"].as_str().map(|text| text.trim_end()),
                    Some(wanted.trim_end()),
                    "{n}: {said}"
                );
            }
            _ => assert_eq!(said["pane_id"], pane, "{n}: {said}"),
        }
    }
    report_metric(
        "MCP, 200 interleaved calls",
        format!("{refused} refused, 0 mismatched"),
    );
}

#[test]
fn a_ping_and_a_status_do_not_wait_for_ten_blocked_calls() {
    let test_env = test_env();
    let mut client = client(&test_env, &[]);
    let panes: Vec<PaneId> = (0..10).map(|_| stubborn(&test_env, &mut client)).collect();
    let blocked: Vec<u64> = panes
        .iter()
        .map(|pane| {
            client.send_tool_call("close_pane", json!({"pane_id": pane, "grace_ms": 600_000}))
        })
        .collect();
    let mut pings = Vec::new();
    let mut statuses = Vec::new();
    for _ in 0..300 {
        let start = Instant::now();
        let id = client.send_request("ping", json!({}));
        client.result(id);
        pings.push(start.elapsed());
        let start = Instant::now();
        client.call("get_status", json!({"pane_id": panes[0]}));
        statuses.push(start.elapsed());
    }
    for id in blocked {
        assert!(!client.is_answered(id), "it does block");
    }
    for (what, mut times) in [("ping", pings), ("get_status", statuses)] {
        times.sort();
        let p99 = times[times.len() * 99 / 100];
        report_metric(
            &format!("MCP {what} while ten calls block"),
            format!(
                "median {:.2?}, p99 {p99:.2?} (wanted: under 10 ms on an idle machine)",
                times[times.len() / 2]
            ),
        );
        // Had it waited for a blocked call, it would have been minutes.
        assert!(p99 < Duration::from_secs(10), "{what}: {p99:?}");
    }
}

#[test]
fn a_client_that_is_killed_in_mid_call_leaves_nothing_behind() {
    let test_env = test_env();
    // The next server in this directory has the same session.
    let mut opener = client(&test_env, &[]);
    let pane = stubborn(&test_env, &mut opener);
    opener.end();
    // The client is a process of its own that is killed with its pipes open, as an agent would be.
    let script = format!(
        "import subprocess, json, sys\n\
         p = subprocess.Popen([sys.argv[1], 'mcp'], stdin=subprocess.PIPE, stdout=subprocess.PIPE)\n\
         def say(m): p.stdin.write((json.dumps(m) + '\\n').encode()); p.stdin.flush()\n\
         say({{'jsonrpc': '2.0', 'id': 1, 'method': 'initialize', 'params': {{'protocolVersion': '2025-06-18', 'capabilities': {{}}, 'clientInfo': {{'name': 't', 'version': '1'}}}}}})\n\
         p.stdout.readline()\n\
         say({{'jsonrpc': '2.0', 'id': 2, 'method': 'tools/call', 'params': {{'name': 'close_pane', 'arguments': {{'pane_id': '{pane}', 'grace_ms': 600000}}}}}})\n\
         say({{'jsonrpc': '2.0', 'id': 3, 'method': 'tools/call', 'params': {{'name': 'get_status', 'arguments': {{}}}}}})\n\
         p.stdout.readline()\n\
         print(p.pid, flush=True)\n\
         p.wait()\n"
    );
    let mut command = test_env.command("python3");
    command.args(["-c", &script, env!("CARGO_BIN_EXE_fugue")]);
    let mut agent = fugue_testkit::RunningProgram::start(command);
    let said = agent.wait_for_stdout(LIMIT, |said| said.ends_with('\n'));
    let bridge: u32 = said.trim().parse().expect("a pid");
    let ended = ProcessWaiter::of(bridge).expect("the bridge runs");
    let start = Instant::now();
    drop(agent);
    ended.wait(LIMIT);
    report_metric(
        "MCP bridge, end after its client was killed in mid-call",
        format!("{:.2?}", start.elapsed()),
    );
    let leftover: Vec<_> = test_env
        .processes()
        .into_iter()
        .filter(|process| process.has_args(&["mcp"]))
        .collect();
    assert!(leftover.is_empty(), "{leftover:?}");
    // The work goes on: the pane is still being closed, and the daemon answers others.
    assert!(test_env.holder(pane).is_some(), "the pane is still there");
    test_env.overview();
}

#[test]
fn what_is_under_way_when_stdin_closes_is_still_answered() {
    let test_env = test_env();
    let mut command = test_env.command("sh");
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "sh", "version": "1"}}});
    let call = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "get_status", "arguments": {}}});
    command.args([
        "-c",
        "printf '%s\\n%s\\n' \"$1\" \"$2\" | \"$3\" mcp",
        "sh",
        &hello.to_string(),
        &call.to_string(),
        env!("CARGO_BIN_EXE_fugue"),
    ]);
    let ran = fugue_testkit::RunningProgram::start(command)
        .end(LIMIT)
        .ok();
    let answers: Vec<Value> = ran
        .out()
        .lines()
        .map(|line| serde_json::from_str(line).expect("protocol"))
        .collect();
    assert_eq!(answers.len(), 2, "{ran}");
    assert_eq!(facts(&answers[1]["result"])["panes"], json!([]));
}

#[test]
fn garbage_on_stdin_is_survived() {
    let test_env = test_env();
    let mut client = McpClient::start(test_env.fugue_command(["mcp"]));
    let garbage: [&[u8]; 12] = [
        b"\n\r\n",
        b"hello?\n",
        b"{\n",
        b"\xff\xfe\x00\x01\n",
        b"[]\n",
        b"null\n",
        b"42\n",
        b"{\"jsonrpc\": \"2.0\"}\n",
        b"{\"jsonrpc\": \"2.0\", \"method\": \"notifications/initialized\"}\n",
        b"{\"jsonrpc\": \"2.0\", \"id\": 7, \"result\": {}}\n",
        b"{\"jsonrpc\": \"1.0\", \"id\": {}, \"method\": 3}\n",
        b"Content-Length: 12\r\n\r\n",
    ];
    for bytes in garbage {
        client.send_bytes(bytes);
    }
    let nested = format!("{}{}\n", "[".repeat(100_000), "]".repeat(100_000));
    client.send_bytes(nested.as_bytes());
    client.initialize("2025-06-18", "test");
    for bytes in garbage {
        client.send_bytes(bytes);
        assert_eq!(client.call("get_status", json!({}))["panes"], json!([]));
    }
    client.send_bytes(nested.as_bytes());
    // A line longer than any message may be is dropped as it comes, not kept.
    let long = vec![b'x'; 20 * 1024 * 1024];
    client.send_bytes(&long);
    client.send_bytes(b"\n");
    assert_eq!(client.call("get_status", json!({}))["panes"], json!([]));
    let (status, _) = client.end();
    assert!(status.success());
}

#[test]
fn a_blocked_call_rides_through_the_daemons_death() {
    let test_env = test_env();
    let mut client = client(&test_env, &[]);
    let pane = stubborn(&test_env, &mut client);
    let before = test_env.daemons();
    let blocked = client.send_tool_call("close_pane", json!({"pane_id": pane, "grace_ms": 8000}));
    // Calls are answered in any order, but taken in the order they came: this one was asked behind the blocked one.
    client.call("get_status", json!({}));
    for daemon in &before {
        daemon.kill9();
    }
    // Other calls start a daemon, too.
    assert_eq!(
        client.call("get_status", json!({"pane_id": pane}))["pane_id"],
        json!(pane)
    );
    let result = client.result(blocked);
    assert_ne!(result["isError"], true, "{result}");
    assert_eq!(facts(&result)["pane_id"], json!(pane));
    let after = test_env.daemons();
    assert_eq!(after.len(), 1);
    assert_ne!(after, before);
    until("nothing of the pane is left", LIMIT, || {
        test_env.holder(pane).is_none()
    });
}

#[test]
fn a_cancelled_call_is_never_answered_and_its_work_goes_on() {
    let test_env = test_env();
    let mut client = client(&test_env, &[]);
    let pane = stubborn(&test_env, &mut client);
    let id = client.send_tool_call("close_pane", json!({"pane_id": pane, "grace_ms": 3000}));
    client.call("get_status", json!({}));
    client.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id, "reason": "the person changed their mind"}}));
    client.call("get_status", json!({}));
    assert!(!client.is_answered(id));
    until("the pane is closed all the same", LIMIT, || {
        client.call("get_status", json!({"pane_id": pane}))["state"] == "closed"
    });
    assert!(!client.is_answered(id), "a cancelled call has no answer");
}

#[test]
fn a_client_that_wants_to_know_hears_every_five_seconds() {
    let test_env = test_env();
    let mut client = client(&test_env, &[]);
    let pane = stubborn(&test_env, &mut client);
    let id = client.send_request(
        "tools/call",
        json!({"name": "close_pane", "arguments": {"pane_id": pane, "grace_ms": 11_000}, "_meta": {"progressToken": "how-far"}}),
    );
    let start = Instant::now();
    for seconds in [5, 10] {
        let heard = client.notification("notifications/progress", LIMIT);
        assert!(
            start.elapsed() > Duration::from_millis(seconds * 1000 - 500),
            "{:?}",
            start.elapsed()
        );
        assert_eq!(heard["params"]["progressToken"], "how-far");
        let message = heard["params"]["message"].as_str().expect("words");
        let wanted = format!("waiting for {pane} to end, at most 11s");
        assert!(message.starts_with(&wanted), "{message}");
    }
    assert_eq!(facts(&client.result(id))["signal"], "SIGKILL");
}

#[test]
fn a_slow_rc_file_is_waited_for_and_then_told_of() {
    let test_env = test_env();
    std::fs::write(test_env.home().join(".bashrc"), "read -r answer\n").expect("an rc file");
    let mut client = client(&test_env, &[]);
    let id = client.send_request(
        "tools/call",
        json!({"name": "create_pane", "arguments": {"shell": "bash"}, "_meta": {"progressToken": 1}}),
    );
    let made = facts(&client.result(id));
    assert_eq!(made["ready"], false, "{made}");
    assert!(made["note"].is_string(), "{made}");
}

#[test]
fn a_wait_ends_before_its_clients_patience_does() {
    let test_env = test_env();
    let mut client = client(&test_env, &["--max-wait-ms", "700"]);
    let pane = stubborn(&test_env, &mut client);
    let start = Instant::now();
    let said = client.call("close_pane", json!({"pane_id": pane, "grace_ms": 5000}));
    assert_eq!(said["pane_id"], json!(pane));
    assert!(
        said["note"]
            .as_str()
            .is_some_and(|note| note.contains("still closing")),
        "{said}"
    );
    assert!(start.elapsed() >= Duration::from_millis(700));
    until("the pane is closed all the same", LIMIT, || {
        client.call("get_status", json!({"pane_id": pane}))["state"] == "closed"
    });
}
