//! Environments of callers and commands are stored in one file only, which its owner alone can read and which is removed
//! when nothing is left to start with it.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::Duration,
};

use fugue_testkit::{
    TestEnv,
    mcp_client::{McpClient, facts},
    until,
};
use serde_json::json;

const LIMIT: Duration = Duration::from_secs(180);
const WAIT_TIMEOUT: Duration = Duration::from_secs(60);
/// In the caller's environment, and in `env` of commands and workers. Neither is printed by anything here.
const SECRETS: [&str; 2] = ["hunter2-of-the-caller", "hunter3-of-the-command"];

fn test_env() -> TestEnv {
    let mut test_env = TestEnv::new(env!("CARGO_BIN_EXE_fugue"), LIMIT);
    test_env.set_env("DEPLOY_TOKEN", SECRETS[0]);
    test_env
}

fn lead(test_env: &TestEnv) -> McpClient {
    let mut client = McpClient::start(test_env.fugue_command(["mcp", "--session", "lead"]));
    client.initialize("2025-11-25", "test");
    client
}

/// The files below the state directory that hold one of the secrets.
fn leaks(test_env: &TestEnv) -> Vec<PathBuf> {
    let mut found = Vec::new();
    look(&test_env.state(), &mut found);
    found
}

fn look(dir: &Path, found: &mut Vec<PathBuf>) {
    // Files come and go while a daemon runs.
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let (path, kind) = (entry.path(), entry.file_type());
        if kind.as_ref().is_ok_and(|kind| kind.is_dir()) {
            look(&path, found);
        } else if kind.is_ok_and(|kind| kind.is_file())
            && let Ok(bytes) = fs::read(&path)
            && SECRETS.iter().any(|secret| contains(&bytes, secret))
        {
            found.push(path);
        }
    }
}

fn contains(bytes: &[u8], secret: &str) -> bool {
    bytes
        .windows(secret.len())
        .any(|part| part == secret.as_bytes())
}

/// Only in files for their owner, and somewhere.
#[track_caller]
fn kept_privately(test_env: &TestEnv) {
    let found = leaks(test_env);
    assert!(!found.is_empty(), "what is accepted can be started again");
    for path in found {
        assert!(
            path.parent()
                .is_some_and(|dir| dir.ends_with("environments")),
            "{path:?}"
        );
        let mode = fs::metadata(&path).expect("there").mode();
        assert_eq!(mode & 0o777, 0o600, "{path:?}");
    }
}

/// Compares both without naming them.
const COMPARE: &str = "[ \"$DEPLOY_TOKEN$API_KEY\" = \"$(cat want0)$(cat want1)\" ]";

#[test]
fn no_file_holds_an_environment_when_the_run_and_the_worker_are_over() {
    for kill in [false, true] {
        let test_env = test_env();
        for (n, secret) in SECRETS.iter().enumerate() {
            fs::write(test_env.work().join(format!("want{n}")), secret).expect("written");
        }
        test_env.run("mkfifo", &["go"]).ok();
        let mut client = lead(&test_env);
        let command = format!("read go <go; {COMPARE}");
        let env = json!({"API_KEY": SECRETS[1]});
        let args = json!({"commands": [{"command": command, "env": env}]});
        let run = client.send_tool_call("fugue_run_parallel", args);
        until("it was accepted", WAIT_TIMEOUT, || {
            !leaks(&test_env).is_empty()
        });
        kept_privately(&test_env);
        if kill {
            test_env.kill_daemon();
            test_env.fugue(&["daemon", "start"]).ok();
            kept_privately(&test_env);
        }
        let worker = json!({"name": "w", "agent": "shell", "env": env, "prompt": COMPARE});
        client.call("spawn_worker", worker);
        fs::write(test_env.work().join("go"), "\n").expect("written");
        let result = facts(&client.result(run));
        assert_eq!(result["results"][0]["exit_code"], 0, "{result}");
        let event = client.call("wait_for_event", json!({"timeout_secs": 60}));
        assert!(event.to_string().contains("success"), "{event}");
        until("no file holds it", WAIT_TIMEOUT, || {
            leaks(&test_env).is_empty()
        });
        client.end();
        if kill {
            test_env.kill_daemon();
        } else {
            test_env.fugue(&["daemon", "stop", "--panes"]).ok();
        }
        assert_eq!(leaks(&test_env), [] as [PathBuf; 0]);
        test_env.fugue(&["daemon", "start"]).ok();
        assert_eq!(leaks(&test_env), [] as [PathBuf; 0]);
    }
}
