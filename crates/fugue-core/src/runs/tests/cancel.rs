//! Cancelled runs of each kind.

use fugue_api::{
    EventId,
    wire::{CallerIdentity, Request},
};

use super::*;
use crate::{AfterCommit, CallId, ReplyFormat};

fn cancel(story: &mut Story, call: u64, run: &str) -> String {
    let request = request("cancel_run", json!({"run_id": run}));
    story.ask(call, call as u8, "", request)
}

fn wait(story: &mut Story, call: u64, run: &str) -> String {
    let request = request("fugue_wait", json!({"run_id": run}));
    story.ask(call, call as u8, "", request)
}

#[test]
fn the_panes_of_a_cancelled_parallel_run_are_closed() {
    for cleanup in [true, false] {
        let mut story = story();
        let run = parallel(json!({"cleanup": cleanup}), &["sleep 9", "true"]);
        story.ask(1, 1, "", run);
        story.fact(1, opened());
        story.fact(2, opened());
        story.fact(2, gone_alone(0));
        assert_eq!(wait(&mut story, 2, "run"), "");
        assert_eq!(cancel(&mut story, 3, "ru"), "commit 3, close p1");
        assert!(story.disk().runs[0].record.cancelled);
        story.fact(1, exited(0));
        assert_eq!(
            story.fact(1, PaneEvent::Swept),
            "commit 1, result 1 cancelled cancelled+0, result 2 cancelled cancelled+0, \
             result 3 cancelled cancelled+0"
        );
        // Its deadline changes nothing any more.
        assert_eq!(story.after(600_000).step(CoreInput::TimerExpired), "");
    }
}

#[test]
fn the_running_step_of_a_cancelled_pipeline_is_interrupted_and_the_pane_stays() {
    let mut story = story();
    story.ask(1, 1, "s", pipeline(json!({}), &["a", "sleep", "c"]));
    story.fact(1, opened());
    story.fact(1, began(1));
    story.fact(1, ended(1, 0));
    story.fact(1, began(2));
    assert_eq!(cancel(&mut story, 2, "run"), "stop p1, commit 1");
    assert_eq!(story.fact(1, ended(2, 130)), "commit 1");
    assert_eq!(
        story.fact(1, PaneEvent::StepsStopped { plan: 1 }),
        "commit 1, result 1 cancelled 0+cancelled, result 2 cancelled 0+cancelled"
    );
    assert_eq!(story.fact(1, began(3)), "");
    assert!(story.disk().panes[0].ended.is_none());
}

#[test]
fn a_cancelled_pipeline_with_cleanup_closes_the_pane_that_it_opened_and_no_other() {
    let mut own = story();
    own.ask(1, 1, "s", pipeline(json!({"cleanup": true}), &["sleep"]));
    own.fact(1, opened());
    own.fact(1, began(1));
    assert_eq!(cancel(&mut own, 2, "run"), "commit 2, close p1");
    own.fact(1, exited(0));
    assert_eq!(
        own.fact(1, PaneEvent::Swept),
        "commit 1, result 1 cancelled cancelled, result 2 cancelled cancelled"
    );

    let mut other = story();
    other.ask(90, 90, "s", request("create_pane", json!({})));
    other.fact(1, opened());
    let run = pipeline(json!({"pane_id": "p1", "cleanup": true}), &["sleep"]);
    other.ask(1, 1, "", run);
    other.fact(1, began(1));
    assert_eq!(cancel(&mut other, 2, "run"), "stop p1, commit 1");
    // A shell that had to be killed is started again.
    assert_eq!(
        other.fact(1, exited(137)),
        "commit 3, open p1, result 1 cancelled cancelled, result 2 cancelled cancelled"
    );
}

#[test]
fn a_cancelled_expect_leaves_its_pane() {
    let mut story = with_pane();
    story.ask(1, 1, "", expect(json!({"action": "close_pane"})));
    story.fact(1, watching());
    assert_eq!(
        cancel(&mut story, 2, "seen"),
        "unwatch p1, commit 1, result 1 cancelled, result 2 cancelled"
    );
    assert_eq!(story.fact(1, sighted(MatchedPattern::Pattern)), "");
    assert!(!story.disk().panes[0].closing);
    // The same call again joins the cancelled run.
    let again = expect(json!({"action": "close_pane"}));
    assert_eq!(story.ask(3, 3, "", again), "result 3 cancelled");
}

#[test]
fn a_finished_run_stays_as_it_is_and_the_reply_contains_that() {
    let mut story = story();
    story.ask(1, 1, "", parallel(json!({}), &["true"]));
    story.fact(1, opened());
    story.fact(1, gone_alone(0));
    let before = story.disk().runs[0].record.clone();
    let call = CallId(2);
    let asked = story.asked(2, request("cancel_run", json!({"run_id": "run"})));
    let effects = story.effects(CoreInput::Call { call, asked });
    let commit = effects.commit.expect("a reply");
    assert!(commit.changes.is_empty());
    assert!(
        matches!(
            commit.then[..],
            [AfterCommit::ComposeReply {
                wrap: ReplyFormat::Cancel {
                    already_ended: true
                },
                ..
            }]
        ),
        "{:?}",
        commit.then
    );
    assert_eq!(story.disk().runs[0].record, before);
    assert_eq!(cancel(&mut story, 3, "none"), "refuse 3 NotFound");
}

#[test]
fn a_run_is_cancelled_once() {
    let mut story = story();
    story.ask(1, 1, "", parallel(json!({}), &["sleep 9"]));
    story.fact(1, opened());
    assert_eq!(cancel(&mut story, 2, "run"), "commit 2, close p1");
    assert_eq!(cancel(&mut story, 3, "run"), "");
    story.fact(1, exited(0));
    assert_eq!(
        story.fact(1, PaneEvent::Swept),
        "commit 1, result 1 cancelled cancelled, result 2 cancelled cancelled, \
         result 3 cancelled cancelled"
    );
    assert_eq!(cancel(&mut story, 4, "run"), "result 4 cancelled cancelled");
}

#[test]
fn a_cancelled_run_is_not_started_again_by_the_next_daemon() {
    let mut story = story();
    let run = || parallel(json!({}), &["sleep 9", "sleep 9"]);
    story.ask(1, 1, "", run());
    story.fact(1, opened());
    assert_eq!(cancel(&mut story, 2, "run"), "commit 3, close p1, close p2");
    let back = story.restart();
    assert_eq!(back, "adopt p1, adopt p2, close p1, close p2");
    let never = Error::new(ErrorKind::Unavailable, "the daemon died");
    let said = story.fact(2, PaneEvent::NeverStarted(never));
    assert!(!said.contains("open"), "{said}");
    assert_eq!(story.ask(3, 1, "", run()), "");
    assert_eq!(cancel(&mut story, 4, "run"), "");
    story.fact(1, exited(0));
    assert_eq!(
        story.fact(1, PaneEvent::Swept),
        "commit 1, result 3 cancelled cancelled+cancelled, result 4 cancelled cancelled+cancelled"
    );
    // Only the directory that the first daemon did not get to remove.
    assert_eq!(story.restart(), "forget p2");
    assert_eq!(
        wait(&mut story, 5, "run"),
        "result 5 cancelled cancelled+cancelled"
    );
}

#[test]
fn the_next_daemon_interrupts_the_step_of_a_cancelled_pipeline() {
    let mut story = story();
    story.ask(1, 1, "s", pipeline(json!({}), &["sleep", "b"]));
    story.fact(1, opened());
    story.fact(1, began(1));
    cancel(&mut story, 2, "run");
    let back = story.restart();
    assert_eq!(back, "adopt p1 with its steps, stop p1");
    assert_eq!(wait(&mut story, 3, "run"), "");
    assert_eq!(
        story.fact(1, PaneEvent::StepsStopped { plan: 1 }),
        "commit 1, result 3 cancelled cancelled"
    );
}

#[test]
fn the_owner_gets_an_event_if_another_cancels_the_run_and_no_call_waits() {
    let lead = || CallerIdentity::Session { id: "lead".into() };
    let person = || CallerIdentity::Person {
        project: "project".into(),
    };
    for (canceller, is_news) in [(person(), true), (lead(), false)] {
        let mut story = with_pane();
        story.speaks(lead());
        story.ask(1, 1, "", expect(json!({})));
        story.fact(1, watching());
        story.step(CoreInput::Cancelled { call: CallId(1) });
        story.speaks(canceller);
        let said = cancel(&mut story, 2, "seen");
        assert!(said.contains("result 2 cancelled"), "{said}");
        assert_eq!(story.disk().events.len(), 1);
        // The event is leased to the reply of its owner, and withdrawn when that has arrived.
        let event = EventId(1);
        story.ask_for(2, Request::AckEvent { event });
        assert_eq!(story.disk().events.len(), usize::from(is_news));
    }
}
