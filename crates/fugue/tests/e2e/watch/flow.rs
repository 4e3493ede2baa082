//! What it does after a report.

use std::fs;

use fugue_api::overview::WatcherState;
use fugue_testkit::until;
use serde_json::{Value, json};

use super::kit::*;

#[test]
fn a_report_is_waited_out_judged_and_answered_with_one_line() {
    let test_env = test_env();
    let model = model(&[go_on(NEXT), stop()]);
    let mut watch = Watch::begin(&test_env, &model, &[], json!({}));
    assert_eq!(watch.row().state, WatcherState::Active);
    watch.report(json!({}));
    let event = watch.told("continue");
    assert_eq!(event["injection"], NEXT);
    assert_eq!(event["reason"], Value::Null, "Enter was seen: {event}");
    let row = watch.until(WatcherState::Standby);
    assert_eq!(row.decision.as_deref(), Some("continue"));
    assert_eq!(watch.typed(), 1);
    assert_eq!(model.requests().len(), 1);
    let first = question(&model, 0);
    assert!(quoted(&first, "plan").contains("| reach the end"));
    assert!(quoted(&first, "wait_output").contains("| [sleep] 0.01s"));
    assert_eq!(
        roles(&first),
        ["status", "wait", "wait_output", "idle_spin"]
    );
    // What it typed is part of what the next question tells.
    watch.report(json!({"status_report": "the end is reached"}));
    watch.told("stop");
    let second = question(&model, 1);
    let kept = roles(&second);
    assert_eq!(kept[4..7], ["injection", "decision", "status"], "{second}");
    assert!(quoted(&second, "transcript").contains(&format!("injection] {NEXT}")));
    assert!(quoted(&second, "pane_tail").contains("42-next"));
    assert_eq!(watch.typed(), 1);
}

#[test]
fn the_output_of_a_command_is_judged_and_stop_types_nothing() {
    let test_env = test_env();
    let model = model(&[stop()]);
    let mut watch = Watch::begin(&test_env, &model, &[], json!({}));
    let wait = "printf hi; printf ' there' >&2; pwd; exit 3";
    watch.report(json!({"bash_wait": wait}));
    let event = watch.told("stop");
    assert_eq!(event["injection"], Value::Null);
    let row = watch.row();
    assert_eq!(row.state, WatcherState::Paused);
    assert_eq!(row.reason.as_deref(), Some("the plan is done"));
    assert_eq!(row.decision.as_deref(), Some("stop"));
    let output = quoted(&question(&model, 0), "wait_output");
    let work = test_env.work().display().to_string();
    for part in ["| hi there", &work, "[ended with code 3]"] {
        assert!(output.contains(part), "{part}: {output}");
    }
    assert_eq!(watch.typed(), 0);
    // A report that comes too late is kept, and told why nothing comes of it.
    let args = watch.args(json!({"status_report": "one more thing"}));
    let recorded = watch.client.call("look_ma", args);
    let wanted = json!({"status": "recorded+paused", "reason": "the plan is done"});
    assert_eq!(recorded, wanted);
    let args = watch.args(json!({"strategy_plan": "go further"}));
    assert_eq!(watch.client.call("watch_me", args)["mode"], "updated");
    assert_eq!(watch.row().state, WatcherState::Standby);
    watch.report(json!({}));
    watch.told("stop");
    let second = question(&model, 1);
    assert!(quoted(&second, "plan").contains("| go further"));
    assert!(quoted(&second, "transcript").contains("status] one more thing"));
}

#[test]
fn a_pane_that_prints_is_not_judged_before_it_rests() {
    let test_env = test_env();
    let model = model(&[stop()]);
    let mut watch = Watch::begin(&test_env, &model, &[("IDLE_THRESHOLD", "0.7")], json!({}));
    let ticks = "n=0; until [ -e rest ]; do echo tick-$((n+=1)); sleep 0.1; done; echo tick-last";
    test_env.type_line(watch.pane, ticks);
    watch.report(json!({}));
    watch.until(WatcherState::IdleSpin);
    // Three times as long as it would have to rest.
    test_env.until_printed(watch.pane, |text| text.contains("tick-21"));
    assert_eq!(watch.row().state, WatcherState::IdleSpin);
    assert!(model.requests().is_empty());
    fs::write(test_env.work().join("rest"), "").expect("a file");
    watch.told("stop");
    let asked = question(&model, 0);
    assert!(quoted(&asked, "pane_tail").contains("| tick-last"));
    let transcript = quoted(&asked, "transcript");
    let (_, idle) = transcript.split_once("idle_for=").expect("how long");
    let idle: f64 = idle
        .lines()
        .next()
        .unwrap_or_default()
        .parse()
        .expect("a number");
    assert!((0.7..30.0).contains(&idle), "{idle}");
}

#[test]
fn stop_is_believed_when_done_when_agrees() {
    let test_env = test_env();
    let model = model(&[stop(), go_on("touch proof"), stop()]);
    let check = "echo checked >> checks; ls proof || { echo no-proof-yet; exit 7; }";
    let mut watch = Watch::begin(&test_env, &model, &[], json!({"done_when": check}));
    watch.report(json!({}));
    watch.told("continue");
    assert_eq!(watch.file("checks"), "checked\n");
    // The model heard at once why it was not believed, and thought again.
    assert!(!question(&model, 0).contains("no-proof-yet"));
    let second = question(&model, 1);
    assert!(quoted(&second, "done_when_output").contains("| no-proof-yet"));
    assert!(second.contains("ended with code 7"), "{second}");
    until("the line is run", WAIT_TIMEOUT, || {
        test_env.work().join("proof").exists()
    });
    watch.report(json!({}));
    watch.told("stop");
    assert_eq!(watch.file("checks"), "checked\nchecked\n");
    let row = watch.row();
    assert_eq!(row.state, WatcherState::Paused);
    assert!(row.reason.expect("a reason").contains("done_when"));
    assert_eq!(model.requests().len(), 3);
}

#[test]
fn a_model_that_insists_against_done_when_is_not_believed() {
    let test_env = test_env();
    let model = model(&[stop()]);
    let mut watch = Watch::begin(&test_env, &model, &[], json!({"done_when": "false"}));
    watch.report(json!({}));
    let reason = watch.paused();
    assert!(reason.contains("done_when"), "{reason}");
    assert!(reason.contains("code 1"), "{reason}");
    assert_eq!(model.requests().len(), 2);
    assert_eq!(watch.typed(), 0);
}

#[test]
fn the_oldest_entries_go_and_the_plan_stays() {
    let test_env = test_env();
    let model = model(&[go_on(NEXT)]);
    let mut watch = Watch::begin(&test_env, &model, &[("MAX_TRANSCRIPT", "8")], json!({}));
    for _ in 0..3 {
        watch.report(json!({}));
        watch.told("continue");
    }
    let last = question(&model, 2);
    // The plan is one of the eight, and has a section of its own.
    assert_eq!(roles(&last).len(), 7, "{last}");
    assert!(quoted(&last, "plan").contains("| reach the end"));
    assert_eq!(watch.typed(), 3);
}
