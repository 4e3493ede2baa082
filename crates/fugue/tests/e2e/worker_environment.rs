//! The environment of workers: what the person's own shell has, also where the lead passes on only part of it, and nothing of
//! the lead's session.

use std::{fs, path::Path, time::Duration};

use fugue_testkit::{TestEnv, mcp_client::McpClient, until};
use serde_json::{Value, json};

const LIMIT: Duration = Duration::from_secs(120);
const WAIT_TIMEOUT: Duration = Duration::from_secs(60);

/// What Codex passes on to an MCP server by itself.
const PASSED_BY_CODEX: [&str; 8] = [
    "HOME", "LANG", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "USER",
];
const SECRET: &str = "of-the-person-only";

/// An environment whose person has this `.bash_profile`.
fn test_env(profile: &str) -> TestEnv {
    let mut test_env = TestEnv::new(env!("CARGO_BIN_EXE_fugue"), LIMIT);
    test_env.set_env("SHELL", "/bin/bash");
    fs::write(test_env.home().join(".bash_profile"), profile).expect("a profile");
    test_env
}

/// A lead with the environment that an agent passes on, and `more`.
fn lead(test_env: &TestEnv, more: &[(&str, &str)]) -> McpClient {
    let mut command = test_env.fugue_command(["mcp", "--session", "lead"]);
    let passed: Vec<_> = command
        .get_envs()
        .filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned())))
        // Without these two, the server would find another daemon.
        .filter(|(name, _)| {
            PASSED_BY_CODEX.iter().any(|passed| name == passed)
                || name == "XDG_STATE_HOME"
                || name == "XDG_CONFIG_HOME"
        })
        .collect();
    command.env_clear().envs(passed).envs(more.iter().copied());
    let mut client = McpClient::start(command);
    client.initialize("2025-06-18", "codex-mcp-client");
    client
}

/// Spawns a worker that prints its environment.
fn environment(
    test_env: &TestEnv,
    lead: &mut McpClient,
    name: &str,
    env: Value,
) -> (Value, String) {
    let file = test_env.work().join(name);
    let prompt = format!("env > {0}.part; mv {0}.part {0}", file.display());
    let args = json!({"name": name, "agent": "shell", "prompt": prompt, "env": env});
    let spawned = lead.call("spawn_worker", args);
    until(
        "the worker has printed its environment",
        WAIT_TIMEOUT,
        || file.exists(),
    );
    (spawned, fs::read_to_string(&file).expect("an environment"))
}

fn value<'a>(environment: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = environment.lines();
    lines.find_map(|line| line.strip_prefix(name)?.strip_prefix('='))
}

/// Whether any file below a directory has a text.
fn is_in_a_file(dir: &Path, text: &str) -> bool {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.into_iter().any(|entry| {
        let path = entry.path();
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => is_in_a_file(&path, text),
            Ok(kind) if kind.is_file() => {
                let bytes = fs::read(&path).unwrap_or_default();
                bytes
                    .windows(text.len())
                    .any(|window| window == text.as_bytes())
            }
            Ok(_) | Err(_) => false,
        }
    })
}

#[test]
fn a_worker_has_what_the_persons_shell_sets_and_its_lead_does_not_pass_on() {
    let test_env = test_env(&format!(
        "echo welcome\nexport PERSON_KEY={SECRET} LANG=from_rc GIVEN=from_rc\n\
         export PATH=\"$PATH:$HOME/bin:/opt/person\"\nexport CLAUDE_CODE_SESSION_ID=another\n"
    ));
    let passed = [("LANG", "of_the_lead"), ("CODEX_THREAD_ID", "t")];
    let mut lead = lead(&test_env, &passed);
    let (spawned, env) = environment(&test_env, &mut lead, "w", json!({"GIVEN": "by the call"}));
    assert_eq!(spawned.get("note"), None, "{spawned}");
    assert_eq!(value(&env, "PERSON_KEY"), Some(SECRET), "{env}");
    assert_eq!(value(&env, "LANG"), Some("of_the_lead"), "{env}");
    assert_eq!(value(&env, "GIVEN"), Some("by the call"), "{env}");
    let path = value(&env, "PATH").expect("a PATH");
    assert!(path.ends_with(":/opt/person"), "{path}");
    for name in [
        "CODEX_THREAD_ID",
        "CLAUDE_CODE_SESSION_ID",
        "FUGUE_RESOLVING_ENVIRONMENT",
        "FUGUE_ASSESSMENT",
    ] {
        assert_eq!(value(&env, name), None, "{env}");
    }
    assert!(
        !is_in_a_file(&test_env.state(), SECRET),
        "nothing of it is kept"
    );
    // The next daemon asks the shell again.
    test_env.kill_daemon();
    let (_, env) = environment(&test_env, &mut lead, "after", json!({}));
    assert_eq!(value(&env, "PERSON_KEY"), Some(SECRET), "{env}");
}

#[test]
fn a_caller_whose_environment_is_complete_is_taken_at_its_word() {
    let test_env = test_env(&format!("export PERSON_KEY={SECRET}\n"));
    let mut claude = lead(&test_env, &[("CLAUDECODE", "1")]);
    let (_, env) = environment(&test_env, &mut claude, "w", json!({}));
    assert_eq!(value(&env, "PERSON_KEY"), None, "{env}");
    assert_eq!(value(&env, "CLAUDECODE"), None, "{env}");
    let file = test_env.work().join("spawned");
    let prompt = format!("env > {0}.part; mv {0}.part {0}", file.display());
    test_env
        .fugue(&["spawn", "p", &prompt, "--agent", "shell"])
        .ok();
    until(
        "the worker has printed its environment",
        WAIT_TIMEOUT,
        || file.exists(),
    );
    let env = fs::read_to_string(&file).expect("an environment");
    assert_eq!(value(&env, "PERSON_KEY"), None, "{env}");
}

#[test]
fn rc_files_that_hang_are_ended_and_said_and_asked_once() {
    let test_env = test_env("echo $$ >> \"$HOME/asked\"\nexport PERSON_KEY=x\nsleep 1000\n");
    let mut lead = lead(&test_env, &[]);
    for name in ["a", "b"] {
        let (spawned, env) = environment(&test_env, &mut lead, name, json!({}));
        let note = spawned["note"].as_str().expect("a note");
        assert!(
            note.contains("/bin/bash -l -i") && note.contains("longer than 5 s"),
            "{note}"
        );
        assert_eq!(value(&env, "PERSON_KEY"), None, "{env}");
        assert!(value(&env, "PATH").is_some(), "{env}");
    }
    let asked = fs::read_to_string(test_env.home().join("asked")).expect("the pid of the shell");
    assert_eq!(asked.lines().count(), 1, "{asked}");
    let shell = Path::new("/proc").join(asked.trim());
    until("the shell is gone", WAIT_TIMEOUT, || !shell.exists());
}

#[test]
fn rc_files_that_end_the_shell_are_said() {
    let test_env = test_env("exit 3\n");
    let mut lead = lead(&test_env, &[]);
    let (spawned, _) = environment(&test_env, &mut lead, "w", json!({}));
    let note = spawned["note"].as_str().expect("a note");
    assert!(note.contains("ended with code 3"), "{note}");
}
