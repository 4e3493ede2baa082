//! Text and Enter into programs that are no agents: `submit` works in vim, less and a Python prompt, and a watcher types
//! nothing into a program whose state it cannot read.

use std::{fs, path::PathBuf, time::Duration};

use fugue_api::{PaneId, tools::SubmitResult};
use fugue_testkit::{MissingRequirement, TestEnv, mcp_client::McpClient, skip, until};
use serde_json::{Value, json};

const FUGUE: &str = env!("CARGO_BIN_EXE_fugue");
const LIMIT: Duration = Duration::from_secs(240);
const WAIT_TIMEOUT: Duration = Duration::from_secs(60);

/// A pane in which a program shows a text.
fn program(test_env: &TestEnv, command: &str, shows: &str) -> PaneId {
    let pane = test_env.shell("bash").pane_id;
    test_env.type_line(pane, command);
    until("it is shown", WAIT_TIMEOUT, || {
        test_env.read(pane, &["--screen"]).text.contains(shows)
    });
    pane
}

fn installed(test_env: &TestEnv, name: &str) -> bool {
    let found = test_env.run("sh", &["-c", &format!("command -v {name} || true")]);
    let found = !found.ok().stdout.is_empty();
    if !found {
        skip(
            MissingRequirement::Program,
            format!("{name} is not installed"),
        );
    }
    found
}

#[test]
fn vim_takes_a_command_with_submit() {
    let test_env = TestEnv::new(FUGUE, LIMIT);
    if !installed(&test_env, "vim") {
        return;
    }
    let pane = program(&test_env, "vim -u NONE -N a.txt", "a.txt");
    // The text looks like a dialog, and `:!` ends with a prompt for Enter.
    test_env.type_line(pane, "i1. Yes");
    test_env.type_line(pane, "2. No");
    test_env.press(pane, &["Escape"]);
    test_env.type_line(pane, ":!echo hello-$((1+1))");
    until("vim wants Enter", WAIT_TIMEOUT, || {
        let text = test_env.read(pane, &["--screen"]).text;
        text.contains("hello-2") && text.contains("Press ENTER")
    });
    test_env.type_line(pane, ":wq");
    let file: PathBuf = test_env.work().join("a.txt");
    until("it is written", WAIT_TIMEOUT, || {
        fs::read_to_string(&file).is_ok_and(|text| text.starts_with("1. Yes\n2. No"))
    });
}

#[test]
fn less_takes_a_search_with_submit() {
    let test_env = TestEnv::new(FUGUE, LIMIT);
    if !installed(&test_env, "less") {
        return;
    }
    let pane = program(&test_env, "seq 1 9999 | less", "\n20\n");
    test_env.type_line(pane, "/^7777$");
    until("it is found", WAIT_TIMEOUT, || {
        test_env
            .read(pane, &["--screen"])
            .text
            .starts_with("7777\n")
    });
}

#[test]
fn a_python_prompt_takes_a_line_with_submit() {
    let test_env = TestEnv::new(FUGUE, LIMIT);
    if !installed(&test_env, "python3") {
        return;
    }
    let pane = program(&test_env, "python3 -q", ">>>");
    let sent = test_env.type_line(pane, "print(6*7, 'is it')");
    assert_ne!(sent.submitted, SubmitResult::No);
    test_env.until_printed(pane, |text| text.contains("42 is it"));
}

#[test]
fn a_watcher_types_nothing_into_a_program_that_it_does_not_know() {
    let test_env = TestEnv::new(FUGUE, LIMIT);
    if !installed(&test_env, "less") {
        return;
    }
    let pane = program(&test_env, "seq 1 9999 | less", "\n20\n");
    let mut command = test_env.fugue_command(["mcp"]);
    let says = json!({"action": "continue", "injection_prompt": "quit"});
    command
        .env("ASSESS_MODEL", format!("cmd:echo '{says}'"))
        .env("DEFAULT_WAIT_SEC", "0.01")
        .env("IDLE_THRESHOLD", "0.3");
    let mut client = McpClient::start(command);
    client.initialize("2025-11-25", "test");
    let target = json!({"tmux_window": pane.to_string(), "strategy_plan": "go on"});
    client.call("watch_me", target);
    let report = json!({"tmux_window": pane.to_string(), "status_report": "done"});
    client.call("look_ma", report);
    let args = json!({"types": ["watcher"], "timeout_secs": 30});
    let event = client.call("wait_for_event", args);
    assert_eq!(event["decision"], "paused", "{event}");
    let reason = event["reason"].as_str().expect("a reason");
    assert!(reason.contains("`quit` was not typed"), "{reason}");
    assert!(test_env.read(pane, &["--screen"]).text.contains("\n20\n"));
    // By a caller it is typed.
    test_env.json::<Value>(&["send", &pane.to_string(), "q"]);
    until("less is over", WAIT_TIMEOUT, || {
        !test_env.read(pane, &["--screen"]).text.contains("\n20\n")
    });
}
