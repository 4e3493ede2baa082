//! `config.toml`: its default, what is in force and why, and reading it again.

use std::{fs, time::Duration};

use fugue_api::{settings::SettingSource, wire::DaemonStatus};
use fugue_testkit::TestEnv;
use serde_json::{Value, json};

const LIMIT: Duration = Duration::from_secs(120);

fn test_env() -> TestEnv {
    TestEnv::new(env!("CARGO_BIN_EXE_fugue"), LIMIT)
}

/// A row of `config show`.
#[track_caller]
fn row(test_env: &TestEnv, key: &str) -> Value {
    let shown: Value = test_env.json(&["config", "show"]);
    let rows = shown["settings"].as_array().cloned().unwrap_or_default();
    let found = rows.into_iter().find(|row| row["key"] == key);
    found.unwrap_or_else(|| panic!("no {key} in {shown}"))
}

#[test]
fn a_reload_changes_what_is_in_force_and_a_broken_file_changes_nothing() {
    let test_env = test_env();
    test_env.configure("inbox_max_events = 11\nidle_threshold_secs = 3\n");
    let pane = test_env.pane("exec cat").pane_id;
    let daemon = test_env.daemon().pid;
    let limit = row(&test_env, "inbox_max_events");
    assert_eq!(limit["value"], json!(11));
    assert_eq!(limit["source"], json!(SettingSource::File));
    assert_eq!(
        row(&test_env, "keep_lines")["source"],
        json!(SettingSource::Default)
    );

    test_env.configure("inbox_max_events = 10\nclient_max_calls = 20\n[watch]\ntail_lines = 9\n");
    // The file is read when it is asked for, not by itself; the difference is told.
    let shown: Value = test_env.json(&["config", "show"]);
    let changed = ["client_max_calls", "inbox_max_events", "watch.tail_lines"];
    assert_eq!(shown["changed_in_file"], json!(changed), "{shown}");
    assert_eq!(row(&test_env, "inbox_max_events")["value"], json!(11));
    let said = test_env.fugue(&["config", "show"]).ok();
    assert!(said.err().contains("`fugue daemon reload`"), "{said}");

    let said = test_env.fugue(&["daemon", "reload"]).ok().out();
    for (line, holds) in [
        ("inbox_max_events: 11 → 10", "from now on"),
        (
            "watch.tail_lines: 160 → 9",
            "watchers that are started from now on",
        ),
        (
            "client_max_calls: 1024 → 20",
            "after `fugue daemon restart`",
        ),
    ] {
        let line = said.lines().find(|said| said.starts_with(line));
        assert!(line.is_some_and(|line| line.contains(holds)), "{said}");
    }
    assert_eq!(row(&test_env, "inbox_max_events")["value"], json!(10));
    assert_eq!(row(&test_env, "client_max_calls")["value"], json!(1024));
    // Of unknown workers, whose reports are refused at the limit.
    let notify = |number: usize| {
        let worker = format!("w{number}");
        let report = [
            "notify",
            "success",
            "--session-id",
            "lead",
            "--worker-id",
            &worker,
        ];
        test_env.fugue(&report).code
    };
    let sent = (0..20)
        .take_while(|number| notify(*number) == Some(0))
        .count();
    assert_eq!(sent, 10, "the limit of the file that was read again");

    test_env.configure("inbox_max_events = 12\nkeep_linez = 500\n");
    let error = test_env.refused(&["daemon", "reload"], 2);
    assert!(
        error
            .message
            .contains("line 2: no setting is called `keep_linez`"),
        "{error}"
    );
    assert!(error.hint.is_some_and(|hint| hint.contains("`keep_lines`")));
    assert_eq!(row(&test_env, "inbox_max_events")["value"], json!(10));
    // A restart would leave no daemon, so it is refused before the daemon is stopped.
    let error = test_env.refused(&["daemon", "restart"], 2);
    assert!(error.message.contains("keep_linez"), "{error}");
    assert_eq!(test_env.daemon().pid, daemon);

    test_env.configure("client_max_calls = 20\n");
    let changes: Value = test_env.json(&["daemon", "reload"]);
    let pending = changes["changes"].as_array().cloned().unwrap_or_default();
    let pending = pending
        .iter()
        .find(|change| change["key"] == "client_max_calls");
    assert_eq!(
        pending.map(|change| &change["holds"]),
        Some(&json!("next_daemon"))
    );
    let next: DaemonStatus = test_env.json(&["daemon", "restart"]);
    assert_ne!(next.pid, daemon);
    assert_eq!(row(&test_env, "client_max_calls")["value"], json!(20));
    test_env.type_line(pane, "lives");
    test_env.until_printed(pane, |text| text.matches("lives").count() == 2);
}

#[test]
fn the_environment_and_a_missing_daemon_are_told_apart_from_the_file() {
    let mut test_env = test_env();
    test_env.configure("[watch]\ntail_lines = 9\n");
    let without: Value = test_env.json(&["config", "show"]);
    assert_eq!(without["from_daemon"], json!(false), "{without}");
    assert_eq!(row(&test_env, "watch.tail_lines")["value"], json!(9));
    assert!(
        test_env.daemons().is_empty(),
        "showing settings starts no daemon"
    );

    test_env.set_env("FUGUE_TAIL_LINES", "31");
    let check = |test_env: &TestEnv| {
        let lines = row(test_env, "watch.tail_lines");
        assert_eq!(lines["value"], json!(31));
        assert_eq!(lines["source"], json!(SettingSource::Environment));
        assert_eq!(lines["variable"], json!("FUGUE_TAIL_LINES"));
    };
    check(&test_env);
    test_env.pane("exec cat");
    let with: Value = test_env.json(&["config", "show"]);
    assert_eq!(with["from_daemon"], json!(true), "{with}");
    check(&test_env);
}

#[test]
fn the_default_file_is_taken_as_it_is_printed() {
    let test_env = test_env();
    test_env.configure("");
    let text = test_env.fugue(&["config", "default"]).ok().out();
    assert!(text.contains("# Seconds without output"), "{text}");
    test_env.pane("exec cat");
    fs::write(test_env.dir().join("config/fugue/config.toml"), &text).expect("the configuration");
    let changes: Value = test_env.json(&["daemon", "reload"]);
    let other = changes["changes"].as_array().cloned().unwrap_or_default();
    // The whole suite may run with another backend.
    assert!(
        other.iter().all(|change| change["key"] == "backend"),
        "{changes}"
    );
}

#[test]
fn without_a_daemon_a_reload_says_so_and_starts_none() {
    let test_env = test_env();
    let error = test_env.refused(&["daemon", "reload"], 1);
    assert!(error.message.contains("no daemon runs"), "{error}");
    assert!(test_env.daemons().is_empty());
}
