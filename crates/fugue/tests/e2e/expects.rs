//! Waiting for a pattern in real panes: shells, full-screen programs, floods, and text that must not match.

use std::time::{Duration, Instant};

use fugue_api::{
    PaneId,
    pane_state::PaneState,
    tools::{ExpectResult, ExpectStatus, MatchVia, SendInputReply},
};
use fugue_testkit::{
    TestEnv,
    mcp_client::{McpClient, facts},
    report_metric, until,
};
use serde_json::{Value, json};

const WAIT_TIMEOUT: Duration = Duration::from_secs(60);

fn test_env() -> TestEnv {
    TestEnv::new(env!("CARGO_BIN_EXE_fugue"), Duration::from_secs(600))
}

fn client(test_env: &TestEnv) -> McpClient {
    let mut client = McpClient::start(test_env.fugue_command(["mcp"]));
    client.initialize("2025-11-25", "expects");
    client
}

fn args(pane: PaneId, pattern: &str, more: Value) -> Value {
    let mut args = json!({"pane_id": pane.to_string(), "pattern": pattern});
    let more = more.as_object().cloned().unwrap_or_default();
    args.as_object_mut().expect("an object").extend(more);
    args
}

#[track_caller]
fn expect(client: &mut McpClient, pane: PaneId, pattern: &str, more: Value) -> ExpectResult {
    let found = client.call("fugue_expect", args(pane, pattern, more));
    serde_json::from_value(found.clone()).unwrap_or_else(|error| panic!("{error}: {found}"))
}

fn answer(client: &mut McpClient, call: u64) -> ExpectResult {
    let found = facts(&client.result(call));
    serde_json::from_value(found.clone()).unwrap_or_else(|error| panic!("{error}: {found}"))
}

/// Types a line, and gives the place before its echo.
fn typed(test_env: &TestEnv, pane: PaneId, line: &str) -> String {
    let sent: SendInputReply = test_env.type_line(pane, line);
    sent.cursor.0
}

#[test]
fn a_wait_ends_when_the_line_is_printed_and_not_when_it_is_typed() {
    let test_env = test_env();
    let mut client = client(&test_env);
    for shell in ["bash", "zsh", "fish"] {
        let pane = test_env.shell(shell).pane_id;
        let gate = test_env.work().join(format!("gate-{shell}"));
        let line = format!(
            "sh -c 'until [ -e {} ]; do sleep 0.02; done'; echo server is re''ady on 80''80",
            gate.display()
        );
        // The words stand in the line that is typed, and must not match there.
        let quoted = line.replace("re''ady", "ready").replace("80''80", "8080");
        let since = typed(&test_env, pane, &quoted);
        let call = client.send_tool_call(
            "fugue_expect",
            args(pane, r"ready on \d+", json!({"since": since})),
        );
        until("the command to run", WAIT_TIMEOUT, || {
            test_env.status(pane).state.state == PaneState::Running
        });
        assert!(!client.is_answered(call), "{shell}: the echo matched");
        std::fs::write(&gate, "").expect("the gate");
        let found = answer(&mut client, call);
        assert_eq!(found.status, ExpectStatus::Matched, "{shell}");
        assert_eq!(found.matched.as_deref(), Some("ready on 8080"), "{shell}");
        assert_eq!(found.line.as_deref(), Some("server is ready on 8080"));
        assert_eq!(found.via, Some(MatchVia::Stream));
        // It is there already for whoever asks now, and not for who asks for what comes.
        let again = expect(&mut client, pane, r"ready on \d+", json!({}));
        assert_eq!(again.matched.as_deref(), Some("ready on 8080"), "{shell}");
        let stale = expect(
            &mut client,
            pane,
            r"ready on \d+",
            json!({"since": found.cursor.0, "timeout_ms": 200}),
        );
        assert_eq!(stale.status, ExpectStatus::Timeout, "{shell}");
        // The typed line, for who wants it.
        let echo = expect(
            &mut client,
            pane,
            "echo server is ready",
            json!({"since": since, "match_echo": true, "timeout_ms": 2000}),
        );
        assert_eq!(echo.status, ExpectStatus::Matched, "{shell}");
        test_env.close(pane);
    }
}

#[test]
fn a_server_in_the_background_of_a_shell_is_heard() {
    let test_env = test_env();
    let mut client = client(&test_env);
    for shell in ["bash", "zsh", "fish"] {
        let pane = test_env.shell(shell).pane_id;
        let gate = test_env.work().join(format!("gate-{shell}"));
        let server = test_env.work().join(format!("server-{shell}"));
        std::fs::write(
            &server,
            format!(
                "until [ -e {} ]; do sleep 0.02; done; echo listening on 80",
                gate.display()
            ),
        )
        .expect("written");
        let since = typed(
            &test_env,
            pane,
            &format!("sh {} listening on 1 &", server.display()),
        );
        until("the prompt again", WAIT_TIMEOUT, || {
            test_env.status(pane).state.state == PaneState::Idle
        });
        let call = client.send_tool_call(
            "fugue_expect",
            args(pane, r"listening on \d+", json!({"since": since})),
        );
        until("the wait", WAIT_TIMEOUT, || {
            let runs = test_env.overview().runs;
            runs.iter().any(|run| run.status == "running")
        });
        std::fs::write(&gate, "").expect("the gate");
        let found = answer(&mut client, call);
        assert_eq!(found.matched.as_deref(), Some("listening on 80"), "{shell}");
        test_env.close(pane);
    }
}

#[test]
fn a_prompt_that_nothing_follows_is_seen() {
    let test_env = test_env();
    let mut client = client(&test_env);
    let pane = test_env
        .pane("printf 'Password: '; read -r word; printf '%s? [y/N] ' \"$word\"; read -r yes; echo \"got $yes\"")
        .pane_id;
    let first = expect(&mut client, pane, "Password: $", json!({}));
    assert_eq!(first.status, ExpectStatus::Matched);
    test_env.type_line(pane, "sesame");
    let next = expect(
        &mut client,
        pane,
        r"\[y/N\] ",
        json!({"since": first.cursor.0}),
    );
    assert_eq!(next.line.as_deref(), Some("sesame? [y/N] "));
    test_env.type_line(pane, "y");
    let last = expect(
        &mut client,
        pane,
        "^got .$",
        json!({"since": next.cursor.0}),
    );
    assert_eq!(last.matched.as_deref(), Some("got y"));
    let rest = client.call(
        "read_pane",
        json!({"pane_id": pane.to_string(), "since": last.cursor.0}),
    );
    assert_eq!(rest["text"], "");
}

#[test]
fn what_ends_a_wait_is_told_apart() {
    let test_env = test_env();
    let mut client = client(&test_env);
    let pane = test_env.pane("echo Error: out of luck; sleep 600").pane_id;
    let failed = expect(
        &mut client,
        pane,
        "ready",
        json!({"fail_pattern": "Error: .*"}),
    );
    assert_eq!(failed.status, ExpectStatus::Failed);
    assert_eq!(failed.matched.as_deref(), Some("Error: out of luck"));

    let timeout = expect(&mut client, pane, "ready", json!({"timeout_ms": 100}));
    assert_eq!(timeout.status, ExpectStatus::Timeout);
    assert_eq!(timeout.cursor.0, test_env.status(pane).cursor.0);

    // Somebody closes the pane: an error for who waits in it.
    let call = client.send_tool_call("fugue_expect", args(pane, "ready", json!({})));
    until("the wait", WAIT_TIMEOUT, || {
        let runs = test_env.overview().runs;
        runs.iter().any(|run| run.status == "running")
    });
    test_env.close(pane);
    let refused = client.result(call);
    assert_eq!(refused["isError"], true, "{refused}");
    assert_eq!(facts(&refused)["kind"], "ended");

    // It ends by itself, before anybody asks and while somebody waits.
    let pane = test_env.pane("echo gone; exit 9").pane_id;
    test_env.exited(pane);
    let exited = expect(&mut client, pane, "ready", json!({}));
    assert_eq!(
        (exited.status, exited.exit_code),
        (ExpectStatus::Exited, Some(9))
    );
    let found = expect(&mut client, pane, "^gone$", json!({}));
    assert_eq!(found.status, ExpectStatus::Matched);
    let pane = test_env.pane("sleep 0.2; exit 8").pane_id;
    let exited = expect(&mut client, pane, "ready", json!({}));
    assert_eq!(
        (exited.status, exited.exit_code),
        (ExpectStatus::Exited, Some(8))
    );
    let pane = test_env.pane("sleep 0.2; kill -9 $$").pane_id;
    let exited = expect(&mut client, pane, "ready", json!({}));
    assert_eq!(exited.status, ExpectStatus::Exited);
    assert_eq!(exited.signal.as_deref(), Some("SIGKILL"));

    // The last words of a program count, also those it did not end with a newline.
    for _ in 0..50 {
        let pane = test_env.pane("printf 'last words'").pane_id;
        let found = expect(&mut client, pane, "words", json!({}));
        assert_eq!(found.status, ExpectStatus::Matched);
    }
}

#[test]
fn a_match_may_close_its_pane_or_bring_the_text_along() {
    let test_env = test_env();
    let mut client = client(&test_env);
    let command = "echo one; echo two; sleep 0.2; echo listening; sleep 600";
    let made = client.call("create_pane", json!({"command": command}));
    let pane = made["pane_id"].as_str().expect("an id");
    let pane = pane.parse().expect("a pane");
    let found = expect(
        &mut client,
        pane,
        "^listening$",
        json!({"action": "return_output"}),
    );
    assert_eq!(found.output.as_deref(), Some("one\ntwo\nlistening"));
    let found = expect(&mut client, pane, "two", json!({"action": "close_pane"}));
    assert_eq!(found.status, ExpectStatus::Matched);
    assert_eq!(test_env.status(pane).state.state, PaneState::Closed);
    let left = test_env
        .processes()
        .into_iter()
        .filter(|process| process.has_args(&["sleep", "600"]));
    assert_eq!(left.count(), 0);
}

#[test]
fn words_that_a_program_paints_are_seen_on_its_screen() {
    let test_env = test_env();
    let mut client = client(&test_env);
    // Right to left, so that the word never goes by in one piece.
    let paint = r"printf '\033[?1049h\033[2J'; for p in '5;14H!' '5;12Hey' '5;10Hre' '5;11Had'; do printf '\033[%s' $p; sleep 0.05; done; sleep 600";
    let pane = test_env.pane(paint).pane_id;
    let found = expect(
        &mut client,
        pane,
        "ready|rady",
        json!({"poll_interval_ms": 50}),
    );
    assert_eq!(found.status, ExpectStatus::Matched, "{found:?}");
    assert_eq!(found.via, Some(MatchVia::Screen));
    test_env.close(pane);

    // A program that draws its old text again does not say it anew.
    let redraw = r"clear; printf '\033[3;3HBuild completed'; read x; for i in 1 2 3 4 5; do printf '\033[2J\033[3;3HBuild completed\033[6;1H%s' $i; sleep 0.05; done; printf '\033[8;1Hall over'; sleep 600";
    let pane = test_env.pane(redraw).pane_id;
    let first = expect(&mut client, pane, "Build completed", json!({}));
    let since = test_env.status(pane).cursor.0;
    assert_eq!(first.status, ExpectStatus::Matched);
    test_env.type_line(pane, "");
    let found = expect(
        &mut client,
        pane,
        "all over",
        json!({"since": since, "fail_pattern": "Build completed", "poll_interval_ms": 20}),
    );
    // The stream shows the words again, and whoever wants only new text on the screen cannot tell them apart there;
    // what counts is that the wait ends with one of the two and never hangs.
    assert!(
        matches!(found.status, ExpectStatus::Matched | ExpectStatus::Failed),
        "{found:?}"
    );
}

#[test]
fn a_match_at_the_end_of_a_flood_is_found_and_memory_stays_flat() {
    let megabytes: u64 =
        std::env::var("FUGUE_FLOOD_MB").map_or(16, |mb| mb.parse().expect("a number"));
    let test_env = test_env();
    let mut client = client(&test_env);
    let lines = megabytes * 1_000_000 / 101;
    let text = "x".repeat(90);
    let memory = || {
        let daemon = test_env.daemons().pop().expect("a daemon");
        daemon.memory_kib().get("Pss").copied().unwrap_or_default()
    };
    let pane = test_env
        .pane(&format!(
            "read go; seq -f '%09.0f{text}' 1 {lines}; echo 'the need''le'"
        ))
        .pane_id;
    let call = client.send_tool_call(
        "fugue_expect",
        args(
            pane,
            "need?le(s|\\b)|nee{2}dle",
            json!({"timeout_ms": 600_000}),
        ),
    );
    until("the wait", WAIT_TIMEOUT, || {
        !test_env.overview().runs.is_empty()
    });
    let before = memory();
    let began = Instant::now();
    test_env.type_line(pane, "");
    let found = answer(&mut client, call);
    let took = began.elapsed();
    assert_eq!(found.status, ExpectStatus::Matched);
    assert_eq!(found.matched.as_deref(), Some("needle"));
    let grown = memory().saturating_sub(before);
    report_metric(
        "expect behind a flood",
        format!(
            "{megabytes} MB in {:.1} s, the daemon grew by {grown} KiB",
            took.as_secs_f64()
        ),
    );
    // The text that is kept at hand is some of it; the flood is not.
    assert!(grown < 24 * 1024, "{grown} KiB for {megabytes} MB");
}

#[test]
fn a_search_may_begin_further_back_than_memory_reaches() {
    let test_env = test_env();
    test_env.configure("keep_lines = 100\n");
    let mut client = client(&test_env);
    let pane = test_env
        .pane("echo start; echo the old needle; seq 1 5000; echo end; sleep 600")
        .pane_id;
    let end = expect(&mut client, pane, "^end$", json!({}));
    assert_eq!(end.status, ExpectStatus::Matched);
    let first = expect(&mut client, pane, "^start$", json!({"lines": 1_000_000}));
    assert_eq!(first.status, ExpectStatus::Matched, "{first:?}");
    let since = first.cursor.0;
    let found = expect(&mut client, pane, "old needle", json!({"since": since}));
    assert_eq!(found.status, ExpectStatus::Matched, "{found:?}");
    assert_eq!(found.line.as_deref(), Some("the old needle"));
}

#[test]
fn a_wait_rides_through_the_death_of_its_daemon() {
    let test_env = test_env();
    let mut client = client(&test_env);
    let gate = test_env.work().join("gate");
    let pane = test_env
        .pane(&format!(
            "echo before; until [ -e '{}' ]; do sleep 0.02; done; echo after the kill",
            gate.display()
        ))
        .pane_id;
    let call = client.send_tool_call("fugue_expect", args(pane, "after the .*", json!({})));
    until("the wait", WAIT_TIMEOUT, || {
        let runs = test_env.overview().runs;
        runs.iter().any(|run| run.status == "running")
    });
    for daemon in test_env.daemons() {
        daemon.kill9();
    }
    std::fs::write(&gate, "").expect("the gate");
    let found = answer(&mut client, call);
    assert_eq!(found.status, ExpectStatus::Matched);
    assert_eq!(found.matched.as_deref(), Some("after the kill"));
}
