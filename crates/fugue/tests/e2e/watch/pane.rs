//! What may happen in the pane.

use std::time::Duration;

use fugue_api::overview::WatcherState;
use fugue_testkit::{sleep_in_test, until};
use serde_json::{Value, json};

use super::kit::*;

#[test]
fn two_reports_at_once_are_judged_one_after_the_other() {
    let test_env = test_env();
    let model = model(&[go_on(NEXT), stop()]);
    let mut watch = Watch::begin(&test_env, &model, &[("DEFAULT_WAIT_SEC", "0.3")], json!({}));
    let reports: Vec<u64> = ["first", "second"]
        .map(|report| {
            let args = watch.args(json!({"status_report": report}));
            watch.client.send_tool_call("look_ma", args)
        })
        .to_vec();
    for report in reports {
        let result = watch.client.result(report);
        assert_eq!(result["structuredContent"]["status"], "recorded+waiting");
    }
    watch.told("continue");
    watch.told("stop");
    assert_eq!(model.requests().len(), 2);
    assert!(quoted(&question(&model, 1), "pane_tail").contains("42-next"));
    assert_eq!(watch.typed(), 1);
}

#[test]
fn a_person_who_types_while_the_model_thinks_keeps_the_line() {
    let test_env = test_env();
    let said = json!({"action": "continue", "injection_prompt": NEXT});
    // The first answer comes when the test lets it; the ones after it at once.
    let assessor = format!("cmd:echo asked >> asks; read x < gate; echo '{said}'");
    test_env.run("mkfifo", &["gate"]).ok();
    let model = model(&[stop()]);
    let mut watch = Watch::begin(&test_env, &model, &[("ASSESS_MODEL", &assessor)], json!({}));
    watch.report(json!({}));
    until("the model thinks", WAIT_TIMEOUT, || {
        watch.file("asks") == "asked\n"
    });
    let id = watch.pane.to_string();
    test_env.json::<Value>(&["send", &id, "echo mine-$((2+3))"]);
    test_env.run("sh", &["-c", "echo > gate"]).ok();
    watch.until(WatcherState::IdleSpin);
    // The line stays the person's for as long as they want, and no model is asked in vain.
    sleep_in_test(Duration::from_secs(1));
    assert_eq!(watch.row().state, WatcherState::IdleSpin);
    assert_eq!(watch.file("asks"), "asked\n");
    assert!(!test_env.text(watch.pane).contains(NEXT));
    test_env.press(watch.pane, &["Enter"]);
    test_env.until_printed(watch.pane, |text| text.contains("mine-5"));
    // Then it is judged anew.
    until("it is asked again", WAIT_TIMEOUT, || {
        watch.file("asks").lines().count() == 2
    });
    test_env.run("sh", &["-c", "echo > gate"]).ok();
    watch.told("continue");
    assert_eq!(watch.typed(), 1);
}

#[test]
fn a_draft_that_was_there_before_is_never_merged_with() {
    let test_env = test_env();
    let model = model(&[go_on(NEXT)]);
    let mut watch = Watch::begin(&test_env, &model, &[], json!({}));
    let id = watch.pane.to_string();
    test_env.json::<Value>(&["send", &id, "echo draft-"]);
    test_env.until_printed(watch.pane, |text| text.contains("draft-"));
    watch.report(json!({}));
    watch.until(WatcherState::IdleSpin);
    sleep_in_test(Duration::from_secs(1));
    assert_eq!(watch.row().state, WatcherState::IdleSpin);
    assert!(
        model.requests().len() <= 1,
        "nothing is asked in vain: {}",
        model.requests().len()
    );
    // Thrown away, it is in nobody's way.
    test_env.press(watch.pane, &["C-c"]);
    watch.told("continue");
    let text = test_env.until_printed(watch.pane, |text| text.contains("42-next"));
    assert!(
        !text.contains("draft-echo") && !text.contains("draft-42"),
        "{text}"
    );
    assert_eq!(watch.typed(), 1);
}

#[test]
fn a_key_that_a_program_took_is_no_draft() {
    let test_env = test_env();
    let model = model(&[go_on(NEXT)]);
    let mut watch = Watch::begin(&test_env, &model, &[], json!({}));
    let id = watch.pane.to_string();
    test_env.type_line(
        watch.pane,
        "printf 'read%s\\n' y; read -rsn1 key; echo got-$key-it",
    );
    test_env.until_printed(watch.pane, |text| text.contains("ready"));
    test_env.json::<Value>(&["send", &id, "y"]);
    test_env.until_printed(watch.pane, |text| text.contains("got-y-it"));
    watch.report(json!({}));
    watch.told("continue");
    assert_eq!(watch.typed(), 1);
}

#[test]
fn a_program_that_waits_for_a_person_is_not_typed_into() {
    let test_env = test_env();
    let model = model(&[go_on(NEXT)]);
    let mut watch = Watch::begin(&test_env, &model, &[], json!({}));
    test_env.type_line(watch.pane, "read -p 'Sure? ' answer; echo answer-$answer-");
    test_env.until_printed(watch.pane, |text| {
        text.ends_with("Sure? ") || text.ends_with("Sure?")
    });
    watch.report(json!({}));
    watch.until(WatcherState::IdleSpin);
    sleep_in_test(Duration::from_secs(1));
    assert_eq!(watch.row().state, WatcherState::IdleSpin);
    assert!(model.requests().is_empty());
    test_env.type_line(watch.pane, "yes");
    watch.told("continue");
    let text = test_env.until_printed(watch.pane, |text| text.contains("42-next"));
    assert!(text.contains("answer-yes-"), "{text}");
    assert_eq!(watch.typed(), 1);
}

#[test]
fn a_pane_that_never_rests_is_given_up_on() {
    let test_env = test_env();
    let model = model(&[stop()]);
    let vars = [("SPIN_MAX_SEC", "1.5"), ("IDLE_THRESHOLD", "1")];
    let mut watch = Watch::begin(&test_env, &model, &vars, json!({}));
    test_env.type_line(watch.pane, "while :; do echo tick; sleep 0.05; done");
    watch.report(json!({}));
    let reason = watch.paused();
    assert!(reason.contains("SPIN_MAX_SEC"), "{reason}");
    assert!(model.requests().is_empty());
    test_env.press(watch.pane, &["C-c"]);
    assert_eq!(watch.typed(), 0);
}
