//! Starting workers, and their end.

use super::*;

#[test]
fn a_worker_is_recorded_before_anything_is_made_for_it() {
    let mut story = story();
    assert_eq!(
        spawn(&mut story, 1, "w", json!({})),
        "commit 3, prepare w-a"
    );
    assert_eq!(prepared(&mut story, 1, true), "commit 2, open p1");
    assert_eq!(story.fact(1, opened()), "commit 2, answer 1");
    let told = story.told(1);
    assert_eq!(told["worker_id"], json!("w-a"));
    assert_eq!(told["pane_id"], json!("p1"));
    assert_eq!(told["session_id"], json!("lead"));
}

#[test]
fn a_live_name_is_refused_and_a_dead_ones_may_be_had_again() {
    let mut story = story();
    live(&mut story, 1, "w", 1, 1);
    assert_eq!(
        spawn(&mut story, 2, "w", json!({})),
        "refuse 2 InvalidArgument"
    );
    story.speaks(session("other"));
    assert_eq!(
        spawn(&mut story, 3, "w", json!({})),
        "commit 3, prepare w-a",
        "another lead's names are its own"
    );
    story.speaks(session("lead"));
    story.fact(1, exited(0));
    worked_out(&mut story, 1);
    live(&mut story, 4, "w", 3, 3);
    any(&mut story, 5);
    assert_eq!(
        story.told(5)["instance"],
        json!(1),
        "the first one's end is the first one's"
    );
}

#[test]
fn a_worker_is_spawned_once_for_one_key() {
    let mut story = story();
    let again = |story: &mut Story, number| {
        let args = json!({"name": "w", "prompt": "do it", "agent": "a"});
        story.ask(number, 1, "", request("spawn_worker", args))
    };
    spawn(&mut story, 1, "w", json!({}));
    assert_eq!(again(&mut story, 2), "");
    prepared(&mut story, 1, true);
    assert_eq!(story.fact(1, opened()), "commit 2, answer 1, answer 2");
    assert_eq!(again(&mut story, 3), "answer 3");
    story.fact(1, exited(0));
    assert_eq!(again(&mut story, 4), "answer 4", "also when it has ended");
    assert_eq!(story.disk().workers.len(), 1);
}

#[test]
fn what_could_not_be_prepared_never_was() {
    let mut story = story();
    spawn(&mut story, 1, "w", json!({}));
    let error = Error::invalid("agent: no program");
    assert_eq!(
        story.step(CoreInput::WorkerPrepared {
            worker: 1,
            outcome: Err(error)
        }),
        "commit 1, refuse 1 InvalidArgument"
    );
    assert!(story.disk().workers.is_empty());
    assert_eq!(any(&mut story, 2), "nothing for 2", "nothing completes");
    assert_eq!(
        spawn(&mut story, 3, "w", json!({})),
        "commit 3, prepare w-a",
        "the name is free"
    );
}

#[test]
fn a_pane_that_cannot_be_opened_takes_everything_with_it() {
    let mut story = story();
    spawn(&mut story, 1, "w", json!({}));
    prepared(&mut story, 1, true);
    let error = Error::new(ErrorKind::Exhausted, "no terminal left");
    assert_eq!(
        story.fact(1, PaneEvent::OpenFailed(error.clone())),
        "commit 2, forget p1, unprepare w-a"
    );
    let back = story.restart();
    assert_eq!(
        back, "forget p1, unprepare w-a",
        "the next daemon finishes both"
    );
    assert_eq!(story.fact(1, PaneEvent::Removed), "commit 1");
    assert_eq!(
        story.step(CoreInput::WorkerUnprepared { worker: 1, error }),
        "commit 1"
    );
    assert!(story.disk().workers.is_empty() && story.disk().panes.is_empty());
    assert_eq!(any(&mut story, 2), "nothing for 2");
}

#[test]
fn the_spawner_hears_why_when_all_is_removed() {
    let mut story = story();
    spawn(&mut story, 1, "w", json!({}));
    prepared(&mut story, 1, true);
    let error = Error::new(ErrorKind::Exhausted, "no terminal left");
    story.fact(1, PaneEvent::OpenFailed(error.clone()));
    assert_eq!(
        story.step(CoreInput::WorkerUnprepared { worker: 1, error }),
        "commit 1, refuse 1 Exhausted"
    );
}

#[test]
fn a_worker_that_was_being_prepared_is_prepared_by_the_next_daemon() {
    let mut story = story();
    spawn(&mut story, 1, "w", json!({}));
    assert_eq!(story.restart(), "prepare w-a");
    let args = json!({"name": "w", "prompt": "do it", "agent": "a"});
    assert_eq!(story.ask(2, 1, "", request("spawn_worker", args)), "");
    assert_eq!(prepared(&mut story, 1, true), "commit 2, open p1");
    assert_eq!(story.fact(1, opened()), "commit 2, answer 2");
}

#[test]
fn a_worker_whose_pane_never_started_is_started_by_the_next_daemon() {
    let mut story = story();
    spawn(&mut story, 1, "w", json!({}));
    prepared(&mut story, 1, true);
    assert_eq!(story.restart(), "adopt p1");
    let never = Error::new(ErrorKind::Unavailable, "the daemon died");
    assert_eq!(story.fact(1, PaneEvent::NeverStarted(never)), "open p1");
    assert_eq!(story.fact(1, opened()), "commit 2");
    story.fact(1, exited(0));
    worked_out(&mut story, 1);
    any(&mut story, 2);
    assert_eq!(story.told(2)["status"], json!("success"));
}

#[test]
fn a_pending_completion_is_published_by_the_next_daemon() {
    let mut story = story();
    live(&mut story, 1, "w", 1, 1);
    story.speaks(worker("w-a", 1));
    let notice = || request("notify_completion", json!({"status": "success"}));
    story.ask(2, 2, "", notice());
    let back = story.restart();
    assert!(back.contains("work out 1"), "{back}");
    assert_eq!(
        story.ask(3, 2, "", notice()),
        "",
        "asked again, it is the same notice"
    );
    assert_eq!(worked_out(&mut story, 1), "commit 3, answer 3");
    story.restart();
    assert_eq!(story.ask(4, 2, "", notice()), "answer 4");
    story.speaks(session("lead"));
    any(&mut story, 5);
    assert_eq!(any(&mut story, 6), "nothing for 6", "it was told once");
}

#[test]
fn a_worker_that_ended_while_no_daemon_ran_completes_all_the_same() {
    let mut story = story();
    live(&mut story, 1, "w", 1, 1);
    assert_eq!(story.restart(), "adopt p1");
    assert!(story.fact(1, exited(2)).contains("work out 1"));
    // And if that was recorded, and nothing more:
    let back = story.restart();
    assert!(back.contains("work out 1"), "{back}");
    worked_out(&mut story, 1);
    any(&mut story, 2);
    assert_eq!(story.told(2)["exit_code"], json!(2));
}

#[test]
fn a_worker_leads_others_by_its_own_inbox() {
    let mut story = story();
    live(&mut story, 1, "w", 1, 1);
    story.speaks(worker("w-a", 1));
    spawn(&mut story, 2, "sub", json!({}));
    prepared(&mut story, 2, true);
    story.fact(2, opened());
    assert_eq!(story.told(2)["session_id"], json!("lead/w-a.1"));
    story.fact(2, exited(0));
    worked_out(&mut story, 2);
    assert_eq!(wait(&mut story, 3, json!({"timeout_secs": 0})), "hand 3 e1");
    story.speaks(session("lead"));
    assert_eq!(any(&mut story, 4), "nothing for 4", "its lead's is another");
}
