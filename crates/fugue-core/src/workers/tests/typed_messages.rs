//! Messages that are typed into panes.

use super::*;

fn typed(story: &mut Story, number: u64, body: &str) -> String {
    story.speaks(session("lead"));
    let args = json!({"to": "w-a", "body": body, "deliver": "type"});
    call(story, number, "send_message", args)
}

/// A worker that has done its first turn.
fn resting(story: &mut Story) {
    live(story, 200, "w", 1, 1);
    story.speaks(worker("w-a", 1));
    hook(story, 201, ended("done"));
    worked_out(story, 1);
    story.speaks(session("lead"));
    any(story, 202);
    took(story, 203, 1);
}

fn typed_as(event: u64, how: TypingOutcome) -> PaneEvent {
    PaneEvent::MessageTyped {
        event: EventId(event),
        how,
    }
}

#[test]
fn a_message_is_typed_when_the_pane_rests_and_begins_a_turn() {
    let mut story = story();
    resting(&mut story);
    assert_eq!(typed(&mut story, 1, "go on"), "await rest of p1, commit 2");
    assert_eq!(
        story.fact(1, PaneEvent::IdleReport(IdleState::Now)),
        "type e2 into p1"
    );
    assert_eq!(
        story.fact(1, typed_as(2, TypingOutcome::Submitted)),
        "commit 2, sent 1 e2 Submitted"
    );
    assert_eq!(story.disk().workers[0].record.turn, 2);
    assert!(story.disk().events[1].taken);
}

#[test]
fn a_message_to_one_that_works_is_typed_when_its_turn_is_over() {
    let mut story = story();
    live(&mut story, 200, "w", 1, 1);
    assert_eq!(
        typed(&mut story, 1, "go on"),
        "commit 2, sent 1 e1 Queued: it has not taken its first prompt yet"
    );
    story.speaks(worker("w-a", 1));
    let said = hook(&mut story, 2, ended("done"));
    assert!(said.contains("await rest of p1"), "{said}");
}

#[test]
fn a_sender_is_not_kept_waiting_for_a_pane_that_does_not_rest() {
    let mut story = story();
    resting(&mut story);
    typed(&mut story, 1, "go on");
    assert_eq!(
        story.fact(1, PaneEvent::IdleReport(IdleState::NotYet(None))),
        "sent 1 e2 Queued"
    );
    assert_eq!(
        story.fact(1, PaneEvent::IdleReport(IdleState::Now)),
        "type e2 into p1",
        "it is typed all the same, later"
    );
    assert_eq!(
        story.fact(1, typed_as(2, TypingOutcome::Waits(None))),
        "await rest of p1",
        "somebody began to type in between"
    );
}

#[test]
fn a_sender_hears_why_a_message_is_not_typed() {
    let why = || Some("a dialog is shown: Really?".to_owned());
    let wanted = "sent 1 e2 Queued: a dialog is shown: Really?";
    let mut waits = story();
    resting(&mut waits);
    typed(&mut waits, 1, "go on");
    let said = waits.fact(1, PaneEvent::IdleReport(IdleState::NotYet(why())));
    assert_eq!(said, wanted);
    let mut refused = story();
    resting(&mut refused);
    typed(&mut refused, 1, "go on");
    refused.fact(1, PaneEvent::IdleReport(IdleState::Now));
    let said = refused.fact(1, typed_as(2, TypingOutcome::Waits(why())));
    assert!(said.contains(wanted), "{said}");
    assert!(
        said.contains("await rest of p1"),
        "it is typed later: {said}"
    );
}

#[test]
fn every_sender_hears_why_also_one_behind_a_message_that_waits() {
    let mut story = story();
    resting(&mut story);
    typed(&mut story, 1, "go on");
    let busy = PaneEvent::IdleReport(IdleState::NotYet(None));
    assert_eq!(story.fact(1, busy), "sent 1 e2 Queued");
    // A person began to type after the first message.
    assert_eq!(typed(&mut story, 2, "go on"), "await rest of p1, commit 2");
    let drafted = PaneEvent::IdleReport(IdleState::NotYet(Some("a draft".to_owned())));
    assert_eq!(story.fact(1, drafted), "sent 2 e3 Queued: a draft");
    let said = story.fact(1, PaneEvent::IdleReport(IdleState::Now));
    assert_eq!(said, "type e2 into p1", "in their order");
}

#[test]
fn a_message_that_cannot_be_typed_stays_in_the_inbox() {
    let mut story = story();
    resting(&mut story);
    typed(&mut story, 1, "go on");
    story.fact(1, PaneEvent::IdleReport(IdleState::Now));
    assert_eq!(
        story.fact(1, typed_as(2, TypingOutcome::Refused)),
        "commit 1, sent 1 e2 Queued"
    );
    story.speaks(worker("w-a", 1));
    assert_eq!(any(&mut story, 2), "hand 2 e2");
}

fn task_panicked() -> PaneEvent {
    PaneEvent::TaskPanicked {
        message: "row 7 is gone".into(),
    }
}

#[test]
fn a_message_that_a_failed_task_was_typing_stays_in_the_inbox() {
    let mut story = story();
    resting(&mut story);
    typed(&mut story, 1, "go on");
    story.fact(1, PaneEvent::IdleReport(IdleState::Now));
    let effects = story.fact(1, task_panicked());
    assert_eq!(effects, "adopt p1, commit 1, sent 1 e2 Queued");
    // What the failed task had reported is not applied a second time.
    let late = typed_as(2, TypingOutcome::Submitted);
    assert_eq!(story.fact(1, late), "");
    let event = &story.disk().events[1];
    assert!(!event.taken && !event.to_type);
}

#[test]
fn a_pane_whose_task_failed_is_asked_again_whether_it_is_idle() {
    let mut story = story();
    resting(&mut story);
    typed(&mut story, 1, "go on");
    assert_eq!(story.fact(1, task_panicked()), "adopt p1, await rest of p1");
}

#[test]
fn a_worker_that_waits_on_its_inbox_is_not_typed_at() {
    let mut story = story();
    resting(&mut story);
    story.speaks(worker("w-a", 1));
    wait(&mut story, 1, json!({"types": ["message"]}));
    assert_eq!(
        typed(&mut story, 2, "go on"),
        "commit 2, hand 1 e2, sent 2 e2 Queued"
    );
}

#[test]
fn what_the_worker_took_itself_meanwhile_is_not_typed_and_its_sender_hears() {
    let mut story = story();
    resting(&mut story);
    typed(&mut story, 1, "go on");
    story.speaks(worker("w-a", 1));
    any(&mut story, 2);
    assert_eq!(
        story.fact(1, PaneEvent::IdleReport(IdleState::Now)),
        "sent 1 e2 Queued"
    );
}

#[test]
fn the_end_of_the_pane_answers_whoever_waits_for_it_to_rest() {
    let mut story = story();
    resting(&mut story);
    typed(&mut story, 1, "go on");
    let said = story.fact(1, exited(0));
    assert!(said.contains("sent 1 e2 Queued"), "{said}");
}

#[test]
fn a_sender_whose_message_is_behind_another_is_told_that_it_is_queued() {
    let mut story = story();
    live(&mut story, 200, "w", 1, 1);
    typed(&mut story, 1, "first");
    story.speaks(worker("w-a", 1));
    let notice = json!({"status": "success", "changes": []});
    call(&mut story, 2, "notify_completion", notice);
    assert_eq!(typed(&mut story, 3, "second"), "await rest of p1, commit 2");
    assert_eq!(
        story.fact(1, PaneEvent::IdleReport(IdleState::Now)),
        "type e1 into p1"
    );
    assert_eq!(
        story.fact(1, typed_as(1, TypingOutcome::Submitted)),
        "commit 2, sent 3 e3 Queued",
        "it has something to do now"
    );
}

#[test]
fn only_a_worker_has_a_pane_to_type_into() {
    let mut story = story();
    wait(&mut story, 1, json!({"types": ["worker_complete"]}));
    story.speaks(worker("x", 9));
    let args = json!({"body": "up", "deliver": "type"});
    assert_eq!(
        call(&mut story, 2, "send_message", args),
        "refuse 2 InvalidArgument"
    );
}

#[test]
fn a_message_that_was_to_be_typed_is_typed_by_the_next_daemon() {
    let mut story = story();
    resting(&mut story);
    typed(&mut story, 1, "go on");
    let back = story.restart();
    assert!(back.contains("await rest of p1"), "{back}");
}

#[test]
fn a_repeated_call_is_told_that_its_message_was_typed() {
    let mut story = story();
    resting(&mut story);
    typed(&mut story, 1, "go on");
    story.fact(1, PaneEvent::IdleReport(IdleState::Now));
    story.fact(1, typed_as(2, TypingOutcome::Submitted));
    story.restart();
    assert_eq!(typed(&mut story, 1, "go on"), "sent 1 e2 Typed");
}

#[test]
fn a_repeated_call_whose_message_the_worker_took_itself_is_told_that_it_was_queued() {
    let mut story = story();
    resting(&mut story);
    typed(&mut story, 1, "go on");
    story.speaks(worker("w-a", 1));
    any(&mut story, 2);
    took(&mut story, 3, 2);
    story.restart();
    assert_eq!(typed(&mut story, 1, "go on"), "sent 1 e2 Queued");
}
