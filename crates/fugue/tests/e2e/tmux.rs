//! Panes of a person's own tmux used as fugue panes: found by their tmux names, read, typed into, waited on and watched, and
//! otherwise unchanged. Each test has its own real tmux server.

use std::time::Duration;

use fugue_api::{
    pane_placement::Backend,
    pane_state::{PaneState, StateSource},
    tools::{
        ClosePaneReply, CreatePaneReply, ExpectResult, ExpectStatus, PaneStatus, ParallelResult,
        PipelineResult, ReadPaneReply, TaskStatus,
    },
};
use fugue_testkit::{RunningProgram, TestEnv, TestPty, mcp_client::McpClient, until, until_some};
use serde_json::{Value, json};

const LIMIT: Duration = Duration::from_secs(120);
const WAIT_TIMEOUT: Duration = Duration::from_secs(60);

/// An environment in which a person has a tmux session `work` with one window `editor`, in which a plain bash waits.
fn test_env() -> (TestEnv, String) {
    let test_env = TestEnv::new(env!("CARGO_BIN_EXE_fugue"), LIMIT);
    let pane = test_env.tmux(&[
        "-f",
        "/dev/null",
        "new-session",
        "-d",
        "-s",
        "work",
        "-n",
        "editor",
        "-x",
        "100",
        "-y",
        "30",
        "-P",
        "-F",
        "#{pane_id}",
        "env PS1='ready> ' bash --norc --noprofile",
    ]);
    until("bash shows its prompt", WAIT_TIMEOUT, || {
        test_env
            .tmux(&["capture-pane", "-p", "-t", &pane])
            .contains("ready>")
    });
    (test_env, pane)
}

/// What a person would see in it.
fn shown(test_env: &TestEnv, pane: &str) -> String {
    test_env.tmux(&["capture-pane", "-p", "-t", pane])
}

fn read(test_env: &TestEnv, pane: &str) -> ReadPaneReply {
    test_env.json(&["read", pane])
}

fn expect(test_env: &TestEnv, pane: &str, pattern: &str) -> ExpectResult {
    test_env.json(&["expect", pane, pattern, "--timeout", "20s"])
}

#[test]
fn a_persons_pane_is_read_typed_into_and_waited_on() {
    let (test_env, pane) = test_env();
    test_env.tmux(&["send-keys", "-t", &pane, "echo before-$((40+2))", "Enter"]);
    until("it is printed", WAIT_TIMEOUT, || {
        shown(&test_env, &pane).contains("before-42")
    });
    // What was there before fugue came.
    let text = read(&test_env, &pane).text;
    assert!(text.contains("before-42"), "{text}");
    let status: PaneStatus = test_env.json(&["status", &pane]);
    assert_eq!(status.backend, Backend::Tmux);
    assert_eq!(status.session.0, "work");
    assert_eq!((status.size.rows, status.size.cols), (30, 100));
    // The same one by any of its names.
    let same: PaneStatus = test_env.json(&["status", "work:editor"]);
    assert_eq!(same.pane_id, status.pane_id);
    test_env.json::<Value>(&["send", &pane, "echo after-$((80+4))", "--enter"]);
    let seen = expect(&test_env, &pane, "after-84");
    assert_eq!(seen.status, ExpectStatus::Matched);
    assert!(shown(&test_env, &pane).contains("after-84"));
}

#[test]
fn a_refused_first_call_leaves_a_pane_that_can_still_be_used() {
    let (mut test_env, pane) = test_env();
    test_env.set_env("FUGUE_ASSESS_MODEL", "cmd:cat");
    // Each of them is the first to name the pane, and is refused.
    test_env.refused(&["expect", &pane, "("], 2);
    test_env.refused(&["look", "half way", "--pane", &pane], 1);
    test_env.refused(&["resize", &pane, "0", "0"], 2);
    assert!(test_env.overview().panes.is_empty(), "nothing was entered");
    test_env.json::<Value>(&["send", &pane, "echo after-$((80+4))", "--enter"]);
    let seen = expect(&test_env, &pane, "after-84");
    assert_eq!(seen.status, ExpectStatus::Matched);
    let watching: Value = test_env.json(&["watch", &pane, "write it"]);
    assert_eq!(watching["mode"], "watching");
    let closed: ClosePaneReply = test_env.json(&["close", &pane]);
    assert_eq!(watching["pane_id"], closed.pane_id.to_string());
}

#[test]
fn text_arrives_whole_also_while_the_person_scrolls() {
    let (test_env, pane) = test_env();
    test_env.json::<PaneStatus>(&["status", &pane]);
    test_env.tmux(&["copy-mode", "-t", &pane]);
    let said = "printf '%s\\n' 'grüße ☃ %5 ; # $(no)'";
    test_env.json::<Value>(&["send", &pane, said, "--enter"]);
    assert_eq!(
        expect(&test_env, &pane, "^grüße ☃ %5 ; # \\$\\(no\\)$").status,
        ExpectStatus::Matched
    );
    let mode = test_env.tmux(&["display-message", "-p", "-t", &pane, "#{pane_in_mode}"]);
    assert_eq!(mode, "1", "the person still scrolls");
    test_env.json::<Value>(&["send", &pane, "-k", "C-c"]);
    // Bash throws away what comes before its next prompt.
    until("the next prompt", WAIT_TIMEOUT, || {
        let bottom = test_env.tmux(&["capture-pane", "-p", "-t", &pane, "-S", "0"]);
        bottom.contains("^C\nready>")
    });
    test_env.json::<Value>(&["send", &pane, "stty -a | grep -c rows", "--enter"]);
    assert_eq!(
        expect(&test_env, &pane, "^1$").status,
        ExpectStatus::Matched
    );
}

#[test]
fn a_line_that_the_person_has_begun_is_left_alone_and_the_reason_is_given() {
    let (test_env, pane) = test_env();
    test_env.configure("draft_wait_secs = 0.2\n");
    let mut command = test_env.fugue_command(["mcp"]);
    command
        .env("ASSESS_MODEL", "cmd:echo asked >> asks; echo '{}'")
        .env("DEFAULT_WAIT_SEC", "0.01")
        .env("IDLE_THRESHOLD", "0.3")
        .env("SPIN_MAX_SEC", "2");
    let mut client = McpClient::start(command);
    client.initialize("2025-11-25", "test");
    let args = json!({"tmux_window": pane, "strategy_plan": "reach the end"});
    client.call("watch_me", args);
    let mut terminal = test_env.command("setsid");
    terminal.args(["-c", "tmux", "attach", "-t", "work"]);
    let person = TestPty::start(terminal, 31, 100);
    person.discard_output();
    until("the person is there", WAIT_TIMEOUT, || {
        !test_env.tmux(&["list-clients", "-t", "work"]).is_empty()
    });
    person.write(b"rm -rf half-");
    // tmux counts a person's keys by the second.
    until("the line counts as begun", WAIT_TIMEOUT, || {
        let status: PaneStatus = test_env.json(&["status", &pane]);
        let is_noted = status
            .note
            .is_some_and(|note| note.contains("a person has begun a line"));
        if !is_noted {
            person.write(b"-");
        }
        is_noted
    });
    let line = shown(&test_env, &pane);
    for args in [
        json!({"pane_id": pane, "input": "echo hi", "submit": true}),
        json!({"pane_id": pane, "input": "y\n"}),
        json!({"pane_id": pane, "submit": true}),
    ] {
        let error = client.refused("send_input", args);
        assert!(error.message.contains("begun a line"), "{error:?}");
        assert_eq!(shown(&test_env, &pane), line);
    }
    let args = json!({"commands": [{"command": "echo hi"}], "pane_id": pane});
    let error = client.refused("fugue_run_pipeline", args);
    assert!(!error.message.is_empty(), "{error:?}");
    let args = json!({"tmux_window": pane, "status_report": "a part is done"});
    client.call("look_ma", args);
    let args = json!({"types": ["watcher"], "timeout_secs": 30});
    let event = client.call("wait_for_event", args);
    assert_eq!(event["decision"], "paused", "{event}");
    let reason = event["reason"].as_str().expect("a reason");
    assert!(reason.contains("begun a line"), "{reason}");
    assert_eq!(shown(&test_env, &pane), line);
    assert!(!test_env.work().join("asks").exists(), "no model is asked");
}

#[test]
fn the_persons_tmux_is_as_it_was() {
    let (test_env, pane) = test_env();
    test_env.tmux(&["split-window", "-d", "-t", &pane, "cat"]);
    test_env.tmux(&["set-buffer", "the person's own"]);
    let look = || {
        [
            test_env.tmux(&[
                "list-panes",
                "-a",
                "-F",
                "#{pane_id} #{pane_active} #{window_layout} #{window_width}x#{window_height}",
            ]),
            test_env.tmux(&["list-buffers"]),
            test_env.tmux(&["show-options", "-g"]),
            test_env.tmux(&["show-options", "-p", "-t", &pane]),
            test_env.tmux(&["show-hooks", "-g"]),
        ]
    };
    let before = look();
    test_env.json::<Value>(&[
        "send",
        &pane,
        "echo one-$((1+1))\necho two-$((1+1))",
        "--enter",
    ]);
    assert_eq!(
        expect(&test_env, &pane, "two-2").status,
        ExpectStatus::Matched
    );
    assert_eq!(look(), before);
    // And it outlives fugue.
    test_env.fugue(&["daemon", "stop", "--panes"]).ok();
    assert_eq!(look(), before);
}

#[test]
fn what_tmux_does_not_have_is_refused_with_what_there_is() {
    let (test_env, _) = test_env();
    let refused = test_env.refused(&["read", "%99"], 1);
    assert!(refused.message.contains("%99"), "{refused:?}");
    let refused = test_env.refused(&["read", "work:nowhere"], 1);
    let words = format!("{refused:?}");
    assert!(
        words.contains("work:nowhere") && words.contains("editor"),
        "{words}"
    );
    test_env.tmux(&["kill-server"]);
    let refused = test_env.refused(&["read", "%0"], 1);
    assert!(refused.message.contains("tmux"), "{refused:?}");
}

#[test]
fn ls_lists_what_can_be_named() {
    let (test_env, pane) = test_env();
    let listed = test_env.fugue(&["ls"]).ok().out();
    assert!(
        listed.contains(&pane) && listed.contains("editor"),
        "{listed}"
    );
    let met: PaneStatus = test_env.json(&["status", &pane]);
    let listed: Value = test_env.json(&["ls"]);
    assert_eq!(listed["tmux"], Value::Null, "{listed}");
    assert_eq!(listed["panes"][0]["pane_id"], json!(met.pane_id));
}

#[test]
fn a_pane_that_fugue_makes_in_tmux_has_an_exact_end() {
    let (test_env, _) = test_env();
    let made: CreatePaneReply = test_env.json(&[
        "new",
        "--backend",
        "tmux",
        "-s",
        "work",
        "--",
        "echo over; exit 7",
    ]);
    let ended = until_some("it ends", WAIT_TIMEOUT, || {
        let status: PaneStatus = test_env.json(&["status", &made.pane_id.to_string()]);
        (status.state.state == PaneState::Exited).then_some(status)
    });
    assert_eq!(
        (ended.state.exit_code, ended.state.by),
        (Some(7), StateSource::Exit)
    );
    let text: ReadPaneReply = test_env.json(&["read", &made.pane_id.to_string()]);
    assert_eq!(text.text.trim_end(), "over");
    let closed: ClosePaneReply = test_env.json(&["close", &made.pane_id.to_string()]);
    assert_eq!(closed.exit_code, Some(7));
    let left = test_env.tmux(&["list-panes", "-a", "-F", "#{window_name}"]);
    assert_eq!(left, "editor");
}

#[test]
fn tiled_runs_are_splits_beside_the_caller_and_go_again() {
    let (test_env, pane) = test_env();
    test_env.tmux(&[
        "set-option",
        "-t",
        "work",
        "-g",
        "default-shell",
        "/bin/bash",
    ]);
    test_env.tmux(&[
        "resize-window",
        "-t",
        "work:editor",
        "-x",
        "200",
        "-y",
        "50",
    ]);
    let active = |test_env: &TestEnv| {
        test_env.tmux(&["display-message", "-p", "-t", "work:editor", "#{pane_id}"])
    };
    let (was_active, layout) = (
        active(&test_env),
        test_env.tmux(&[
            "display-message",
            "-p",
            "-t",
            "work:editor",
            "#{window_layout}",
        ]),
    );
    let commands: Vec<String> = (1..=10)
        .map(|n| format!("until [ -e go ]; do sleep 0.1; done; exit {n}"))
        .collect();
    let fugue = env!("CARGO_BIN_EXE_fugue");
    let out = test_env.work().join("out.json");
    let line = format!(
        "{fugue} parallel --json --tiled {} > {}; echo through-$((1+1))",
        commands
            .iter()
            .map(|c| format!("'{c}'"))
            .collect::<Vec<_>>()
            .join(" "),
        out.display()
    );
    test_env.tmux(&["send-keys", "-t", &pane, "-l", &line]);
    test_env.tmux(&["send-keys", "-t", &pane, "Enter"]);
    let panes = |test_env: &TestEnv| {
        test_env.tmux(&[
            "list-panes",
            "-t",
            "work:editor",
            "-F",
            "#{pane_id} #{pane_width}x#{pane_height}",
        ])
    };
    // Evenly, once the last of them has its place.
    until("ten even splits", WAIT_TIMEOUT, || {
        let panes = panes(&test_env);
        let areas: Vec<u32> = panes
            .lines()
            .filter(|line| !line.starts_with(&format!("{pane} ")))
            .map(|line| {
                let (_, size) = line.split_once(' ').expect("a size");
                let (cols, rows) = size.split_once('x').expect("two numbers");
                cols.parse::<u32>().expect("a width") * rows.parse::<u32>().expect("a height")
            })
            .collect();
        let (least, most) = (areas.iter().min(), areas.iter().max());
        areas.len() == 10
            && most
                .zip(least)
                .is_some_and(|(most, least)| *most <= least * 3 / 2)
    });
    assert_eq!(active(&test_env), was_active, "the person's focus stays");
    std::fs::write(test_env.work().join("go"), "").expect("a file");
    until("the call returns", WAIT_TIMEOUT, || {
        shown(&test_env, &pane).contains("through-2")
    });
    let text = std::fs::read_to_string(&out).expect("its result");
    let result: ParallelResult = serde_json::from_str(&text).expect("a result");
    let codes: Vec<_> = result.results.iter().map(|one| one.exit_code).collect();
    assert_eq!(codes, (1..=10).map(Some).collect::<Vec<_>>());
    assert!(
        result
            .results
            .iter()
            .all(|one| one.status == TaskStatus::Exited)
    );
    until("the splits are gone", WAIT_TIMEOUT, || {
        panes(&test_env).lines().count() == 1
    });
    assert_eq!(
        test_env.tmux(&[
            "display-message",
            "-p",
            "-t",
            "work:editor",
            "#{window_layout}"
        ]),
        layout
    );
}

#[test]
fn a_pipeline_runs_in_one_shell_of_tmux() {
    let (test_env, _) = test_env();
    let ran = test_env.fugue(&[
        "pipeline",
        "--json",
        "--backend",
        "tmux",
        "cd /usr",
        "pwd",
        "export A=5",
        "echo a=$A; exit 3",
        "echo never",
    ]);
    let result: PipelineResult = ran.json();
    let codes: Vec<_> = result.steps.iter().map(|step| step.exit_code).collect();
    assert_eq!(codes, [Some(0), Some(0), Some(0), Some(3)], "{ran}");
    assert_eq!(ran.code, Some(3));
}

#[test]
fn a_daemon_that_was_killed_finds_the_pane_and_what_it_printed_meanwhile() {
    let (test_env, pane) = test_env();
    let first = read(&test_env, &pane);
    test_env.tmux(&["send-keys", "-t", &pane, "echo seen-$((1+1))", "Enter"]);
    assert_eq!(
        expect(&test_env, &pane, "seen-2").status,
        ExpectStatus::Matched
    );
    test_env.daemons()[0].kill9();
    test_env.tmux(&[
        "send-keys",
        "-t",
        &pane,
        "seq -f 'missed-%g' 1 200",
        "Enter",
    ]);
    until("it is printed", WAIT_TIMEOUT, || {
        shown(&test_env, &pane).contains("missed-200")
    });
    let text: ReadPaneReply =
        test_env.json(&["read", &pane, "-n", "1000", "--since", &first.cursor.0]);
    let missed: Vec<&str> = text
        .text
        .lines()
        .filter(|line| line.starts_with("missed-"))
        .collect();
    let wanted: Vec<String> = (1..=200).map(|n| format!("missed-{n}")).collect();
    assert_eq!(missed, wanted, "each line once");
    assert_eq!(text.text.matches("\nseen-2").count(), 1, "{}", text.text);
}

#[test]
fn a_server_that_is_killed_ends_its_panes() {
    let (test_env, pane) = test_env();
    let status: PaneStatus = test_env.json(&["status", &pane]);
    let made: CreatePaneReply =
        test_env.json(&["new", "--backend", "tmux", "-s", "work", "--", "sleep 1000"]);
    let waiting: RunningProgram = test_env.start(&[
        "expect",
        &made.pane_id.to_string(),
        "never",
        "--json",
        "--timeout",
        "60s",
    ]);
    let server: i32 = test_env
        .tmux(&["display-message", "-p", "#{pid}"])
        .parse()
        .expect("a pid");
    test_env.run("kill", &["-9", &server.to_string()]).ok();
    let ended: ExpectResult = waiting.end(WAIT_TIMEOUT).json();
    assert_eq!(ended.status, ExpectStatus::Exited);
    for pane in [status.pane_id, made.pane_id] {
        let status: PaneStatus = test_env.json(&["status", &pane.to_string()]);
        assert_eq!(status.state.state, PaneState::Exited);
        assert_eq!(status.state.exit_code, None, "nobody saw it");
    }
}
