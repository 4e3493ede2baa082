//! What becomes of it when its pane dies, the daemon is killed, or somebody has had enough, in every state.

use std::{fs, time::Duration};

use fugue_api::{ErrorKind, overview::WatcherState, pane_state::PaneState};
use fugue_testkit::{
    ProcessWaiter, SeededRng, TestEnv,
    assessor_server::{AssessorReply, AssessorServer},
    skip_on_tmux, sleep_in_test, until, until_some,
};
use serde_json::json;

use super::kit::*;

/// Where a watcher can be held for as long as a test wants.
#[derive(Clone, Copy, Debug)]
enum At {
    Sleep,
    Command,
    Spin,
    Assessment,
    Check,
}

const EVERYWHERE: [At; 5] = [At::Sleep, At::Command, At::Spin, At::Assessment, At::Check];
const HANG: &str = "echo $$ > hangs; exec sleep 1000";
const PAUSER: &str = r#"cmd:echo '{"injection_prompt": "go on", "achieved": false}'"#;

/// A watcher that is held there, with the process that holds it, if one does.
struct Held<'a> {
    watch: Watch<'a>,
    model: AssessorServer,
    process: Option<ProcessWaiter>,
}

fn held(test_env: &TestEnv, at: At) -> Held<'_> {
    let _ = fs::remove_file(test_env.work().join("hangs"));
    let model = model(&match at {
        At::Sleep | At::Command | At::Spin | At::Assessment => [AssessorReply::Silence],
        At::Check => [stop()],
    });
    let sleep = match at {
        At::Sleep => "600",
        At::Command | At::Spin | At::Assessment | At::Check => "0.01",
    };
    let more = match at {
        At::Check => json!({"done_when": HANG}),
        At::Sleep | At::Command | At::Spin | At::Assessment => json!({}),
    };
    let vars = [("DEFAULT_WAIT_SEC", sleep), ("MODEL", PAUSER)];
    let mut watch = Watch::begin(test_env, &model, &vars, more);
    let (mut state, mut process) = (WatcherState::Assess, None);
    match at {
        At::Sleep => {
            watch.report(json!({}));
            state = WatcherState::Wait;
        }
        At::Command => {
            watch.report(json!({"bash_wait": HANG}));
            process = Some(watch.process("hangs"));
            state = WatcherState::Wait;
        }
        At::Spin => {
            test_env.type_line(watch.pane, "while :; do echo tick; sleep 0.02; done");
            watch.report(json!({}));
            state = WatcherState::IdleSpin;
        }
        At::Assessment => {
            watch.report(json!({}));
            model.wait_for_requests(1, WAIT_TIMEOUT);
        }
        At::Check => {
            watch.report(json!({}));
            process = Some(watch.process("hangs"));
        }
    }
    watch.until(state);
    Held {
        watch,
        model,
        process,
    }
}

impl Held<'_> {
    /// Nothing of what held it is left.
    fn is_let_go(&self, at: At) {
        if let Some(process) = &self.process {
            process.wait(WAIT_TIMEOUT);
        }
        if let At::Assessment = at {
            self.model.wait_for_disconnects(1, WAIT_TIMEOUT);
        }
    }
}

fn kill_daemon(test_env: &TestEnv) {
    test_env.kill_daemon();
    test_env.fugue(&["daemon", "start"]).ok();
}

#[test]
fn a_pane_that_dies_ends_its_watcher_in_every_state() {
    let test_env = test_env();
    for at in EVERYWHERE {
        let mut held = held(&test_env, at);
        test_env.close(held.watch.pane);
        let event = held.watch.told("ended");
        assert_eq!(event["reason"], "the pane ended", "{at:?}");
        held.is_let_go(at);
        assert!(test_env.overview().watchers.is_empty(), "{at:?}");
        assert_eq!(test_env.status(held.watch.pane).watcher, None);
        let args = held.watch.args(json!({"status_report": "x"}));
        let refused = held.watch.client.refused("look_ma", args);
        assert_eq!(refused.kind, ErrorKind::NotFound, "{at:?}: {refused:?}");
    }
}

#[test]
fn pause_leaves_every_state_at_once_and_nothing_behind() {
    let test_env = test_env();
    for at in EVERYWHERE {
        let mut held = held(&test_env, at);
        let args = held.watch.args(json!({}));
        let next = held.watch.client.call("pause", args);
        assert_eq!(
            next,
            json!({"injection_prompt": "go on", "achieved": false})
        );
        assert_eq!(held.watch.paused(), "paused on request", "{at:?}");
        held.is_let_go(at);
        let text = test_env.text(held.watch.pane);
        assert!(!text.contains("go on"), "{at:?}: {text}");
        assert!(held.model.requests().len() <= 1, "{at:?}");
    }
}

#[test]
fn clear_leaves_every_state_at_once_and_nothing_behind() {
    let test_env = test_env();
    for at in EVERYWHERE {
        let mut held = held(&test_env, at);
        let args = held.watch.args(json!({}));
        let cleared = held.watch.client.call("clear", args);
        assert_eq!(cleared, json!({"status": "cleared"}), "{at:?}");
        held.is_let_go(at);
        assert!(test_env.overview().watchers.is_empty(), "{at:?}");
    }
}

#[test]
fn whoever_paused_it_is_told_when_it_is_cleared_or_goes_on() {
    let test_env = test_env();
    let model = model(&[AssessorReply::Silence]);
    let mut watch = Watch::begin(&test_env, &model, &[], json!({}));
    for (asked, tool, more) in [
        (1, "watch_me", json!({"strategy_plan": "another"})),
        (2, "clear", json!({})),
    ] {
        let args = watch.args(json!({}));
        let paused = watch.client.send_tool_call("pause", args);
        model.wait_for_requests(asked, WAIT_TIMEOUT);
        let args = watch.args(more);
        watch.client.call(tool, args);
        let answer = watch.client.result(paused);
        assert_eq!(answer["isError"], json!(true), "{tool}: {answer}");
        model.wait_for_disconnects(asked, WAIT_TIMEOUT);
    }
}

#[test]
fn a_line_that_waits_for_its_last_look_is_taken_back_by_pause() {
    if skip_on_tmux("it stops a holder, which is found by being a child of the daemon") {
        return;
    }
    let test_env = test_env();
    test_env.run("mkfifo", &["gate"]).ok();
    let said = json!({"action": "continue", "injection_prompt": NEXT});
    let assessor = format!("cmd:echo $$ > thinks; read x < gate; echo '{said}'");
    let mut chance = SeededRng::default();
    for _ in 0..4 {
        let _ = fs::remove_file(test_env.work().join("thinks"));
        let model = model(&[stop()]);
        let vars = [("ASSESS_MODEL", assessor.as_str()), ("MODEL", PAUSER)];
        let mut watch = Watch::begin(&test_env, &model, &vars, json!({}));
        watch.report(json!({}));
        let thinks = watch.process("thinks");
        // Nobody looks at the terminal while its holder is stopped, so the line stays where it is.
        let holder = test_env
            .holder(watch.pane)
            .expect("a holder")
            .pid
            .to_string();
        let signal = |name: &str| {
            test_env
                .run("sh", &["-c", &format!("kill -{name} {holder}")])
                .ok()
        };
        signal("STOP");
        test_env.run("sh", &["-c", "echo > gate"]).ok();
        thinks.wait(WAIT_TIMEOUT);
        // Before or after the answer is heard: a random moment for the pause.
        sleep_in_test(chance.duration_below(Duration::from_millis(100)));
        let args = watch.args(json!({}));
        let paused = watch.client.send_tool_call("pause", args);
        watch.told("paused");
        signal("CONT");
        let next = watch.client.result(paused);
        assert_eq!(next["structuredContent"]["injection_prompt"], "go on");
        assert_eq!(watch.typed(), 0);
        assert_eq!(watch.row().state, WatcherState::Paused);
    }
}

#[test]
fn a_daemon_that_is_killed_in_any_state_goes_on_and_types_once() {
    let test_env = test_env();
    for at in EVERYWHERE {
        let _ = fs::remove_file(test_env.work().join("hangs"));
        let _ = fs::remove_file(test_env.work().join("rest"));
        let (script, sleep) = match at {
            At::Sleep => (vec![go_on(NEXT)], "2"),
            At::Command | At::Spin => (vec![go_on(NEXT)], "0.01"),
            At::Assessment => (vec![AssessorReply::Silence, go_on(NEXT)], "0.01"),
            At::Check => (vec![stop(), go_on(NEXT)], "0.01"),
        };
        let model = model(&script);
        let more = match at {
            At::Check => json!({"done_when": HANG}),
            At::Sleep | At::Command | At::Spin | At::Assessment => json!({}),
        };
        let mut watch = Watch::begin(&test_env, &model, &[("DEFAULT_WAIT_SEC", sleep)], more);
        let mut process = None;
        match at {
            At::Sleep => watch.report(json!({})),
            At::Command => {
                watch.report(json!({"bash_wait": HANG}));
                process = Some(watch.process("hangs"));
            }
            At::Spin => {
                test_env.type_line(
                    watch.pane,
                    "until [ -e rest ]; do echo tick; sleep 0.02; done",
                );
                watch.report(json!({}));
                watch.until(WatcherState::IdleSpin);
            }
            At::Assessment => {
                watch.report(json!({}));
                model.wait_for_requests(1, WAIT_TIMEOUT);
            }
            At::Check => {
                watch.report(json!({}));
                process = Some(watch.process("hangs"));
            }
        }
        kill_daemon(&test_env);
        if let At::Spin = at {
            assert_eq!(watch.row().state, WatcherState::IdleSpin);
            fs::write(test_env.work().join("rest"), "").expect("a file");
        }
        watch.told("continue");
        if let Some(process) = process {
            process.wait(WAIT_TIMEOUT);
        }
        assert_eq!(watch.row().state, WatcherState::Standby, "{at:?}");
        assert_eq!(watch.typed(), 1, "{at:?}");
        assert_eq!(model.requests().len(), script.len(), "{at:?}");
        let last = question(&model, script.len() - 1);
        assert_eq!(
            quoted(&last, "wait_output").contains("how it ended is not known"),
            matches!(at, At::Command),
            "{last}"
        );
        let args = watch.args(json!({}));
        watch.client.call("clear", args);
        test_env.close(watch.pane);
    }
}

#[test]
fn a_daemon_that_is_killed_while_it_types_never_types_twice() {
    let test_env = test_env();
    let mut chance = SeededRng::default();
    for _ in 0..8 {
        let model = model(&[go_on(NEXT)]);
        let mut watch = Watch::begin(&test_env, &model, &[], json!({}));
        watch.report(json!({}));
        model.wait_for_requests(1, WAIT_TIMEOUT);
        // A random moment around the typing.
        sleep_in_test(chance.duration_below(Duration::from_millis(60)));
        kill_daemon(&test_env);
        let row = until_some("it has decided", WAIT_TIMEOUT, || {
            let row = watch.row();
            let over = matches!(row.state, WatcherState::Standby | WatcherState::Paused);
            over.then_some(row)
        });
        let typed = watch.typed();
        match row.state {
            WatcherState::Standby => assert_eq!(typed, 1, "{row:?}"),
            _ => {
                let reason = row.reason.expect("a reason");
                assert!(
                    reason.contains("whether it was typed is not known"),
                    "{reason}"
                );
                assert!(typed <= 1, "{typed}");
            }
        }
        test_env.close(watch.pane);
    }
}

#[test]
fn a_draft_is_still_one_under_the_next_daemon() {
    let test_env = test_env();
    let model = model(&[go_on(NEXT)]);
    let mut watch = Watch::begin(&test_env, &model, &[], json!({}));
    let id = watch.pane.to_string();
    test_env.fugue(&["send", &id, "echo draft-"]).ok();
    test_env.until_printed(watch.pane, |text| text.contains("draft-"));
    kill_daemon(&test_env);
    watch.report(json!({}));
    watch.until(WatcherState::IdleSpin);
    test_env.press(watch.pane, &["C-c"]);
    watch.told("continue");
    let text = test_env.until_printed(watch.pane, |text| text.contains("42-next"));
    assert!(!text.contains("draft-echo"), "{text}");
    assert_eq!(watch.typed(), 1);
}

#[test]
fn the_transcript_outlives_the_daemon() {
    let test_env = test_env();
    let model = model(&[go_on(NEXT), stop()]);
    let mut watch = Watch::begin(&test_env, &model, &[], json!({}));
    watch.report(json!({"status_report": "before it died"}));
    watch.told("continue");
    kill_daemon(&test_env);
    assert_eq!(watch.row().state, WatcherState::Standby);
    watch.report(json!({"status_report": "after it died"}));
    watch.told("stop");
    let kept = quoted(&question(&model, 1), "transcript");
    for entry in ["status] before it died", "injection] echo", "status] after"] {
        assert!(kept.contains(entry), "{entry}: {kept}");
    }
    until("it is over", WAIT_TIMEOUT, || {
        watch.row().state == WatcherState::Paused
    });
}

#[test]
fn a_pane_that_a_wait_has_made_outlives_it() {
    let test_env = test_env();
    let model = model(&[stop()]);
    let mut watch = Watch::begin(&test_env, &model, &[], json!({}));
    let wait = format!("'{FUGUE}' new -n made -- 'echo here; exec sleep 1000'");
    watch.report(json!({"bash_wait": wait}));
    watch.told("stop");
    kill_daemon(&test_env);
    let panes = test_env.overview().panes;
    let made = panes.iter().find(|pane| pane.name == "made");
    let made = made.expect("it was made").pane_id;
    test_env.until_printed(made, |text| text.contains("here"));
    assert_eq!(test_env.status(made).state.state, PaneState::Running);
}

#[test]
fn a_wait_that_is_ended_before_it_began_never_begins() {
    let test_env = test_env();
    let model = model(&[stop()]);
    for _ in 0..10 {
        let mut watch = Watch::begin(&test_env, &model, &[], json!({}));
        let report = watch.args(json!({"status_report": "x", "bash_wait": "exec sleep 1000"}));
        let clear = watch.args(json!({}));
        // One behind the other, and either may come first.
        let calls = [("look_ma", report), ("clear", clear)]
            .map(|(tool, args)| watch.client.send_tool_call(tool, args));
        for call in calls {
            watch.client.response(call);
        }
        let args = watch.args(json!({}));
        watch.client.call("clear", args);
        until("no wait is left", WAIT_TIMEOUT, || {
            let processes = test_env.processes();
            !processes
                .iter()
                .any(|process| process.has_args(&["sleep", "1000"]))
        });
        test_env.close(watch.pane);
    }
}
