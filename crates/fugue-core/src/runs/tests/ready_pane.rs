//! Panes that are opened and waited for by one call: `create_pane` with `ready`.

use fugue_api::wire::CallerIdentity;

use super::*;
use crate::{CallId, ExpectOutcome, RunWork, Undo, view::TextAmount};

fn server(more: serde_json::Value) -> ToolCall {
    let mut args = json!({"command": "serve", "ready": "x", "run_id": "seen"});
    args.as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    request("create_pane", args)
}

/// A server that was started and has printed nothing.
fn started(more: serde_json::Value) -> Story {
    let mut story = story();
    assert_eq!(
        story.ask(1, 1, "", server(more)),
        "commit 4, open p1, watch p1"
    );
    assert_eq!(story.fact(1, opened()), "commit 1");
    story.fact(1, watching());
    story
}

fn wait(story: &mut Story, call: u64) -> String {
    let request = request("fugue_wait", json!({"run_id": "seen"}));
    story.ask(call, call as u8, "", request)
}

#[test]
fn the_reply_has_the_pane_and_the_match() {
    let mut story = started(json!({"name": "web"}));
    assert_eq!(
        story.fact(1, sighted(MatchedPattern::Pattern)),
        "commit 1, answer 1 p1 ready=true"
    );
    assert_eq!(
        *story.told(1),
        json!({"pane_id": "p1", "session": "main", "name": "web", "pid": 7, "cursor": view::start(),
            "ready": true, "match": "x", "line": "x y"})
    );
    // The pane stays, and its end changes nothing for the run.
    assert_eq!(story.fact(1, gone_alone(0)), "commit 1");
    assert_eq!(wait(&mut story, 2), "result 2 matched");
}

#[test]
fn a_shell_is_searched_from_its_start_too() {
    let mut story = story();
    let shell = request("create_pane", json!({"ready": "x", "run_id": "seen"}));
    assert_eq!(
        story.ask(1, 1, "secret", shell),
        "commit 4, open p1, watch p1"
    );
    story.fact(1, opened());
    story.fact(
        1,
        PaneEvent::Prompted {
            cursor: view::start(),
        },
    );
    assert!(!story.was_told(1), "the prompt is not what was waited for");
    let said = story.fact(1, sighted(MatchedPattern::Pattern));
    assert_eq!(said, "commit 1, answer 1 p1 ready=true");
}

/// The output that a result is composed with.
fn wanted_output(story: &Story) -> Option<crate::OutputRange> {
    let record = &story.disk().runs[0].record;
    let wants = crate::result::wants(record);
    let [(_, range)] = wants.as_slice() else {
        panic!("one pane: {wants:?}")
    };
    range.clone()
}

#[test]
fn a_command_that_ends_or_takes_too_long_is_answered_with_its_output() {
    let mut story = started(json!({}));
    assert_eq!(story.fact(1, exited(3)), "commit 2, result 1 exited");
    let excerpt = |story: &Story| {
        matches!(
            wanted_output(story),
            Some(crate::OutputRange::Text {
                amount: TextAmount::Excerpt(_),
                ..
            })
        )
    };
    assert!(excerpt(&story));

    let mut story = started(json!({"timeout_ms": 10}));
    assert_eq!(
        story.after(10).step(CoreInput::TimerExpired),
        "unwatch p1, commit 1, result 1 timeout"
    );
    assert!(excerpt(&story));
    assert!(story.disk().panes[0].ended.is_none(), "the pane stays");
}

#[test]
fn a_pane_that_somebody_closes_refuses_the_call() {
    let mut story = started(json!({}));
    story.ask(2, 2, "", request("close_pane", json!({"pane_id": "p1"})));
    assert_eq!(story.fact(1, exited(3)), "commit 2, refuse 1 Ended");
}

#[test]
fn a_command_that_ends_before_the_search_is_searched_in_its_files() {
    let mut story = story();
    story.ask(1, 1, "", server(json!({})));
    story.fact(1, opened());
    assert_eq!(story.fact(1, exited(0)), "commit 1, search p1");
    assert_eq!(
        story.fact(1, sighted(MatchedPattern::Pattern)),
        "commit 1, answer 1 p1 ready=true"
    );
}

#[test]
fn a_pane_that_cannot_be_opened_refuses_the_call_and_leaves_nothing() {
    let mut story = story();
    story.ask(1, 1, "", server(json!({})));
    let error = Error::new(ErrorKind::Exhausted, "no terminal left");
    let said = story.fact(1, PaneEvent::OpenFailed(error));
    assert!(said.contains("refuse 1 Exhausted"), "{said}");
    assert!(story.disk().runs.is_empty());
    // The same call may try again.
    assert_eq!(
        story.ask(2, 1, "", server(json!({}))),
        "commit 4, open p2, watch p2"
    );
}

#[test]
fn a_start_that_is_not_stored_is_undone_with_its_pane() {
    let mut story = story();
    let asked = story.asked(1, server(json!({})));
    let call = CallId(1);
    let effects = story.core.step(CoreInput::Call { call, asked }, story.now);
    let undo = effects.commit.unwrap().undo.unwrap();
    assert_eq!(undo, Undo::Run(RunId("seen".into())));
    let what = undo;
    let why = "the disk is full".to_owned();
    let said = story.step(CoreInput::NotStored { what, why });
    assert_eq!(said, "refuse 1 Exhausted, commit 2");
    assert_eq!(story.core.live_panes().count(), 0);
}

#[test]
fn the_same_call_again_joins_and_another_with_the_same_id_is_refused() {
    let mut story = started(json!({"env": {"KEY": "value"}}));
    let same = || server(json!({"env": {"KEY": "value"}}));
    assert_eq!(story.ask(2, 1, "", same()), "");
    assert_eq!(story.ask(3, 3, "", same()), "", "by the id of the run");
    assert_eq!(
        story.ask(4, 4, "", server(json!({"command": "other"}))),
        "refuse 4 InvalidArgument"
    );
    let other = expect(json!({"pattern": "x"}));
    assert_eq!(story.ask(5, 5, "", other), "refuse 5 InvalidArgument");
    assert_eq!(
        story.fact(1, sighted(MatchedPattern::Pattern)),
        "commit 1, answer 1 p1 ready=true, answer 2 p1 ready=true, answer 3 p1 ready=true"
    );
    assert_eq!(story.ask(6, 1, "", same()), "answer 6 p1 ready=true");
    assert_eq!(story.core.live_panes().count(), 1);
}

#[test]
fn a_repeated_call_whose_pane_is_forgotten_opens_no_other() {
    let mut story = Story::new(Settings {
        forget_beyond_panes: 0,
        ..Settings::default()
    });
    story.ask(1, 1, "", server(json!({})));
    story.fact(1, opened());
    story.fact(1, watching());
    story.fact(1, sighted(MatchedPattern::Pattern));
    let (run, delivered) = (RunId("seen".into()), true);
    story.step(CoreInput::ReplyComposed { run, delivered });
    story.fact(1, gone_alone(0));
    story.after(20_000).step(CoreInput::TimerExpired);
    assert_eq!(story.ask(2, 1, "", server(json!({}))), "refuse 2 Ended");
}

#[test]
fn a_cancelled_wait_closes_the_pane_that_it_opened() {
    let mut story = started(json!({}));
    let cancel = request("cancel_run", json!({"run_id": "seen"}));
    assert_eq!(
        story.ask(2, 2, "", cancel),
        "unwatch p1, commit 2, close p1"
    );
    story.fact(1, exited(0));
    assert_eq!(
        story.fact(1, PaneEvent::Swept),
        "commit 1, result 1 cancelled, result 2 cancelled"
    );
}

#[test]
fn the_next_daemon_starts_what_was_never_started_and_searches_from_the_beginning() {
    let mut story = story();
    story.ask(1, 1, "", server(json!({"env": {"KEY": "value"}})));
    assert_eq!(story.restart(), "adopt p1, watch p1");
    let same = server(json!({"env": {"KEY": "value"}}));
    assert_eq!(story.ask(2, 1, "", same), "");
    let never = Error::new(ErrorKind::Unavailable, "the daemon died");
    assert_eq!(
        story.fact(1, PaneEvent::NeverStarted(never)),
        "open p1, watch p1"
    );
    story.fact(1, opened());
    story.fact(1, watching());
    assert_eq!(
        story.fact(1, sighted(MatchedPattern::Pattern)),
        "commit 1, answer 2 p1 ready=true"
    );
}

#[test]
fn a_wait_goes_on_under_the_next_daemon_and_never_starts_the_command_again() {
    let mut story = started(json!({"timeout_ms": 1000}));
    assert_eq!(story.after(400).restart(), "adopt p1, watch p1");
    assert_eq!(
        story.ask(2, 1, "", server(json!({"timeout_ms": 1000}))),
        "",
        "the call that the client repeats"
    );
    assert_eq!(story.fact(1, exited(1)), "commit 1, search p1");
    let run = RunId("seen".into());
    assert_eq!(
        story.fact(1, PaneEvent::ExpectExhausted { run }),
        "commit 1, result 2 exited"
    );
}

#[test]
fn after_a_reboot_nothing_is_started_again() {
    let mut story = story();
    story.ask(1, 1, "", server(json!({})));
    story.reboot(5_000);
    let never = Error::new(ErrorKind::Unavailable, "the machine was restarted");
    let said = story.fact(1, PaneEvent::NeverStarted(never));
    assert!(!said.contains("open"), "{said}");
    let RunWork::Expect(work) = &story.disk().runs[0].record.work else {
        panic!("an expect")
    };
    assert_eq!(
        work.outcome,
        Some(ExpectOutcome::Exited(ExitStatus::Unknown))
    );
    assert_eq!(wait(&mut story, 2), "result 2 exited");
}

#[test]
fn a_client_that_stopped_waiting_gets_an_event_or_asks_for_the_result() {
    let lead = || CallerIdentity::Session { id: "lead".into() };
    let mut story = story();
    story.speaks(lead());
    story.ask(1, 1, "", server(json!({})));
    story.fact(1, opened());
    story.fact(1, watching());
    story.step(CoreInput::Cancelled { call: CallId(1) });
    assert_eq!(wait(&mut story, 2), "");
    story.step(CoreInput::Cancelled { call: CallId(2) });
    story.fact(1, sighted(MatchedPattern::Pattern));
    assert_eq!(story.disk().events.len(), 1);
    assert_eq!(wait(&mut story, 3), "result 3 matched");
    assert_eq!(story.told(3)["line"], "x y");
}

#[test]
fn a_bad_pattern_is_refused_before_anything_is_opened() {
    let mut story = story();
    for (args, field) in [
        (json!({"ready": "("}), "ready"),
        (json!({"ready": ""}), "ready"),
        (json!({"run_id": "r"}), "run_id"),
        (
            json!({"ready": "x", "timeout_ms": 604_800_001}),
            "timeout_ms",
        ),
    ] {
        let said = story.ask(1, 1, "", request("create_pane", args));
        assert_eq!(said, "refuse 1 InvalidArgument");
        let message = story.told(1)["message"].as_str().unwrap();
        assert!(message.starts_with(&format!("{field}:")), "{message}");
    }
}
