//! Expects whose call is answered at once and whose end is an event.

use fugue_api::{EventId, wire::CallerIdentity};

use super::*;
use crate::CallId;

fn lead() -> CallerIdentity {
    CallerIdentity::Session { id: "lead".into() }
}

fn reported(more: serde_json::Value) -> ToolCall {
    let mut args = more;
    args["report"] = json!("event");
    expect(args)
}

/// A story in which the lead has an expect that will be reported.
fn begun() -> Story {
    let mut story = with_pane();
    story.speaks(lead());
    assert_eq!(
        story.ask(1, 1, "", reported(json!({}))),
        "commit 2, result 1 running, watch p1"
    );
    story.fact(1, watching());
    story
}

fn wait_for_event(story: &mut Story, call: u64) -> String {
    let request = request("wait_for_event", json!({"timeout_secs": 0}));
    story.ask(call, call as u8, "", request)
}

fn ack(story: &mut Story, call: u64) {
    let event = EventId(1);
    story.ask_for(call, Request::AckEvent { event });
}

#[test]
fn the_event_has_the_fields_of_the_result() {
    let mut story = begun();
    assert_eq!(
        story.fact(1, sighted(MatchedPattern::Pattern)),
        "commit 3",
        "the run, the event and its number"
    );
    assert_eq!(wait_for_event(&mut story, 2), "hand 2 e1");
    let mut event = story.told(2).clone();
    event.as_object_mut().unwrap().remove("at");
    assert_eq!(
        event,
        json!({"event_id": "e1", "type": "run_complete", "status": "matched", "run_id": "seen", "pane_id": "p1",
            "pattern": "x", "match": "x", "line": "x y", "duration_ms": 0, "cursor": view::start(), "via": "stream"})
    );
    ack(&mut story, 3);
    // The result stays, and the event does not come back.
    let wait = request("fugue_wait", json!({"run_id": "seen"}));
    assert_eq!(story.ask(4, 4, "", wait), "result 4 matched");
    assert_eq!(wait_for_event(&mut story, 5), "nothing for 5");
}

#[test]
fn the_event_survives_the_daemon() {
    let mut story = begun();
    story.fact(1, sighted(MatchedPattern::Pattern));
    story.restart();
    assert_eq!(wait_for_event(&mut story, 2), "hand 2 e1");
    assert_eq!(story.told(2)["line"], "x y");
}

#[test]
fn a_wait_for_the_run_withdraws_the_event() {
    let wait = || request("fugue_wait", json!({"run_id": "seen"}));
    // Before the end, and after it.
    let mut story = begun();
    assert_eq!(story.ask(2, 2, "", wait()), "");
    let said = story.fact(1, sighted(MatchedPattern::Pattern));
    assert!(said.ends_with("result 2 matched"), "{said}");
    ack(&mut story, 3);
    assert_eq!(wait_for_event(&mut story, 4), "nothing for 4");

    let mut story = begun();
    story.fact(1, sighted(MatchedPattern::Pattern));
    assert_eq!(story.ask(2, 2, "", wait()), "result 2 matched");
    ack(&mut story, 3);
    assert_eq!(wait_for_event(&mut story, 4), "nothing for 4");

    // A reply that does not arrive gives the event back.
    let mut story = begun();
    story.fact(1, sighted(MatchedPattern::Pattern));
    story.ask(2, 2, "", wait());
    story.step(CoreInput::Cancelled { call: CallId(2) });
    assert_eq!(wait_for_event(&mut story, 4), "hand 4 e1");
}

#[test]
fn every_end_is_reported() {
    let mut story = begun();
    story.fact(1, exited(3));
    wait_for_event(&mut story, 2);
    assert_eq!(story.told(2)["status"], "exited");
    assert_eq!(story.told(2)["exit_code"], 3);

    let mut story = begun();
    story.after(60_000).step(CoreInput::TimerExpired);
    wait_for_event(&mut story, 2);
    assert_eq!(story.told(2)["status"], "timeout");
}

#[test]
fn the_same_call_again_is_answered_at_once() {
    let mut story = begun();
    story.restart();
    let again = || reported(json!({}));
    assert_eq!(story.ask(2, 1, "", again()), "result 2 running");
    story.fact(1, sighted(MatchedPattern::Pattern));
    assert_eq!(story.ask(3, 1, "", again()), "result 3 matched");
    let other = expect(json!({}));
    assert_eq!(story.ask(4, 4, "", other), "refuse 4 InvalidArgument");
}
