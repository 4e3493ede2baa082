//! What may go wrong with the model.

use fugue_testkit::assessor_server::AssessorReply;
use serde_json::json;

use super::kit::*;

#[test]
fn a_model_that_cannot_be_used_pauses_the_watcher_and_says_why() {
    let test_env = test_env();
    let words = |text: &str| AssessorReply::Text(text.to_owned());
    let long = "x".repeat(300);
    for (says, asked, why) in [
        (AssessorReply::Silence, 1, "no answer within 0.5 s"),
        (words("I think you should go on."), 2, "twice"),
        (AssessorReply::Error(500, "out of order".into()), 2, "500"),
        (AssessorReply::Error(401, "bad key".into()), 1, "401"),
        (go_on(&long), 2, "160"),
        (go_on("rm -rf x\u{1b}[2J\u{3}"), 2, "U+001B"),
        (go_on("one\rtwo"), 2, "one line"),
        (go_on(""), 2, "twice"),
        (AssessorReply::HangUp, 2, "reached"),
    ] {
        let timeout = if matches!(says, AssessorReply::Silence) {
            "0.5"
        } else {
            "30"
        };
        let model = model(std::slice::from_ref(&says));
        let mut watch = Watch::begin(
            &test_env,
            &model,
            &[("ASSESS_TIMEOUT_SEC", timeout)],
            json!({}),
        );
        watch.report(json!({}));
        let reason = watch.paused();
        assert!(reason.contains(why), "{says:?}: {reason}");
        assert_eq!(model.requests().len(), asked, "{says:?}");
        let text = test_env.text(watch.pane);
        assert!(
            !text.contains("xx") && !text.contains("rm") && !text.contains("one"),
            "{text}"
        );
        watch
            .client
            .call("clear", json!({"tmux_window": watch.pane.to_string()}));
        test_env.close(watch.pane);
    }
}

#[test]
fn an_answer_that_fits_at_the_second_try_is_taken() {
    let test_env = test_env();
    let model = model(&[AssessorReply::Text("go on".into()), go_on(NEXT)]);
    let mut watch = Watch::begin(&test_env, &model, &[], json!({}));
    watch.report(json!({}));
    watch.told("continue");
    assert!(question(&model, 1).contains("could not be used"));
    assert_eq!(watch.typed(), 1);
}

#[test]
fn more_assessments_than_an_hour_allows_pause_it() {
    let test_env = test_env();
    let model = model(&[go_on(NEXT)]);
    let mut watch = Watch::begin(
        &test_env,
        &model,
        &[("ASSESS_MAX_PER_HOUR", "1")],
        json!({}),
    );
    watch.report(json!({}));
    watch.told("continue");
    watch.report(json!({}));
    let reason = watch.paused();
    assert!(reason.contains("ASSESS_MAX_PER_HOUR"), "{reason}");
    assert_eq!(model.requests().len(), 1);
    assert_eq!(watch.typed(), 1);
}
