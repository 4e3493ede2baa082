//! Events, waits, leases and acks of inboxes.

use super::*;

#[test]
fn an_event_that_was_there_before_comes_at_once_and_once() {
    let mut story = story();
    assert_eq!(notify(&mut story, 1, "w"), "commit 2, answer 1");
    assert_eq!(wait(&mut story, 2, json!({})), "hand 2 e1");
    assert_eq!(any(&mut story, 3), "nothing for 3");
}

#[test]
fn events_come_in_the_order_they_happened() {
    let mut story = story();
    for number in 1..=3 {
        notify(&mut story, number, "w");
    }
    for (number, event) in [(4, "e1"), (5, "e2"), (6, "e3")] {
        let told = any(&mut story, number);
        assert_eq!(told, format!("hand {number} {event}"));
    }
}

#[test]
fn a_wait_is_woken_by_what_it_waits_for_and_by_nothing_else() {
    let mut story = story();
    let completions = json!({"types": ["worker_complete"]});
    assert_eq!(wait(&mut story, 1, completions), "");
    story.speaks(session("other"));
    assert_eq!(
        message(&mut story, 2, "lead", "hello"),
        "commit 2, sent 2 e1 Queued"
    );
    assert_eq!(
        notify(&mut story, 3, "w"),
        "commit 2, hand 1 e2, answer 3",
        "the message neither ended the wait nor stood in the way"
    );
    assert_eq!(story.told(1)["type"], json!("worker_complete"));
    assert_eq!(story.told(1)["pending"], json!({"message": 1}));
    story.speaks(session("lead"));
    assert_eq!(any(&mut story, 4), "hand 4 e1");
    assert_eq!(story.told(4)["body"], json!("hello"));
    assert_eq!(
        story.told(4)["pending"],
        Value::Null,
        "a leased event is not queued"
    );
}

#[test]
fn others_stay_queued_in_order_and_are_counted_by_type() {
    let mut story = story();
    story.speaks(worker("x", 9));
    for (number, tool, args) in [
        (3, "send_message", json!({"body": "one"})),
        (4, "notify_completion", json!({"status": "success"})),
        (5, "send_message", json!({"body": "two"})),
        (6, "notify_completion", json!({"status": "error"})),
    ] {
        call(&mut story, number, tool, args);
    }
    story.speaks(session("lead"));
    assert_eq!(
        wait(&mut story, 7, json!({"types": ["message"]})),
        "hand 7 e1"
    );
    assert_eq!(
        story.told(7)["pending"],
        json!({"worker_complete": 2, "message": 1})
    );
    assert_eq!(wait(&mut story, 8, json!({})), "hand 8 e2");
    assert_eq!(any(&mut story, 9), "hand 9 e3");
    assert_eq!(any(&mut story, 10), "hand 10 e4");
}

#[test]
fn a_wait_for_one_sender_passes_over_the_others() {
    let mut story = story();
    notify(&mut story, 1, "a");
    notify(&mut story, 2, "b");
    assert_eq!(wait(&mut story, 3, json!({"from": "b"})), "hand 3 e2");
    assert_eq!(wait(&mut story, 4, json!({"from": "c"})), "");
    assert_eq!(notify(&mut story, 5, "a"), "commit 2, answer 5");
    assert_eq!(notify(&mut story, 6, "c"), "commit 2, hand 4 e4, answer 6");
}

#[test]
fn two_waits_never_get_the_same_event() {
    let mut story = story();
    wait(&mut story, 1, json!({}));
    wait(&mut story, 2, json!({}));
    assert_eq!(notify(&mut story, 3, "w"), "commit 2, hand 1 e1, answer 3");
    assert_eq!(notify(&mut story, 4, "w"), "commit 2, hand 2 e2, answer 4");
}

#[test]
fn time_that_runs_out_is_an_answer_and_takes_nothing() {
    let mut story = story();
    wait(
        &mut story,
        1,
        json!({"types": ["message"], "timeout_secs": 1.5}),
    );
    notify(&mut story, 2, "w");
    assert_eq!(story.after(1_499).step(CoreInput::TimerExpired), "");
    assert_eq!(
        story.after(1).step(CoreInput::TimerExpired),
        "nothing for 1"
    );
    let told = story.told(1).clone();
    assert_eq!(told["type"], json!("timeout"));
    assert_eq!(told["waited_secs"], json!(1.5));
    assert_eq!(told["pending"], json!({"worker_complete": 1}));
    assert_eq!(any(&mut story, 3), "hand 3 e1");
}

#[test]
fn whoever_may_lose_replies_is_told_again_and_takes_nothing() {
    let mut story = story();
    for number in 1..=3 {
        notify(&mut story, number, "w");
    }
    any(&mut story, 4);
    took(&mut story, 5, 1);
    let after = |id: &str| json!({"after_event_id": id, "timeout_secs": 0});
    assert_eq!(
        wait(&mut story, 6, after("e0")),
        "show 6 e1",
        "consumed or not"
    );
    assert_eq!(wait(&mut story, 7, after("e1")), "show 7 e2");
    assert_eq!(wait(&mut story, 8, after("e1")), "show 8 e2");
    assert_eq!(wait(&mut story, 9, after("e3")), "nothing for 9");
    assert_eq!(any(&mut story, 10), "hand 10 e2", "looking took nothing");
    assert_eq!(
        wait(&mut story, 11, after("e1")),
        "show 11 e2",
        "nor does another's hand hide it"
    );
}

#[test]
fn one_who_looks_and_one_who_takes_are_both_told_of_a_new_event() {
    let mut story = story();
    wait(&mut story, 1, json!({"after_event_id": "e0"}));
    wait(&mut story, 2, json!({}));
    assert_eq!(
        notify(&mut story, 3, "w"),
        "commit 2, show 1 e1, hand 2 e1, answer 3"
    );
}

#[test]
fn the_last_of_all_ids_is_a_place_like_any_other() {
    let mut story = story();
    notify(&mut story, 1, "w");
    let last = format!("e{}", u64::MAX);
    assert_eq!(
        wait(
            &mut story,
            2,
            json!({"after_event_id": last, "timeout_secs": 0})
        ),
        "nothing for 2"
    );
}

#[test]
fn a_cancelled_call_puts_its_event_back_in_its_place() {
    let mut story = story();
    notify(&mut story, 1, "w");
    notify(&mut story, 2, "w");
    assert_eq!(any(&mut story, 3), "hand 3 e1");
    assert_eq!(cancel(&mut story, 3), "");
    assert_eq!(
        any(&mut story, 4),
        "hand 4 e1",
        "before the one that came after it"
    );
    wait(&mut story, 5, json!({"types": ["*"]}));
    wait(&mut story, 6, json!({"types": ["*"]}));
    assert_eq!(
        cancel(&mut story, 4),
        "hand 6 e1",
        "whoever waits gets it at once"
    );
}

#[test]
fn a_cancelled_wait_is_not_given_what_comes_later() {
    let mut story = story();
    wait(&mut story, 1, json!({}));
    assert_eq!(cancel(&mut story, 1), "");
    assert_eq!(notify(&mut story, 2, "w"), "commit 2, answer 2");
    assert_eq!(any(&mut story, 3), "hand 3 e1");
}

#[test]
fn an_event_is_taken_once_however_often_that_is_said() {
    let mut story = story();
    notify(&mut story, 1, "w");
    any(&mut story, 2);
    assert_eq!(took(&mut story, 3, 1), "commit 1, answer 3");
    assert_eq!(took(&mut story, 4, 1), "answer 4");
    assert_eq!(
        cancel(&mut story, 2),
        "",
        "what was taken does not come back"
    );
    assert_eq!(any(&mut story, 5), "nothing for 5");
    assert_eq!(
        took(&mut story, 6, 77),
        "answer 6",
        "nor does what never was"
    );
}

#[test]
fn what_was_in_a_hand_when_the_daemon_died_is_queued_again_unless_it_arrived() {
    let mut story = story();
    notify(&mut story, 1, "w");
    notify(&mut story, 2, "w");
    any(&mut story, 3);
    any(&mut story, 4);
    took(&mut story, 5, 2);
    story.restart();
    assert_eq!(any(&mut story, 6), "hand 6 e1");
    assert_eq!(any(&mut story, 7), "nothing for 7");
    // The first caller's word comes late, and counts.
    took(&mut story, 8, 1);
    story.restart();
    assert_eq!(any(&mut story, 9), "nothing for 9");
    assert_eq!(
        notify(&mut story, 10, "w"),
        "commit 2, answer 10",
        "ids go on"
    );
    assert_eq!(any(&mut story, 11), "hand 11 e3");
}

#[test]
fn a_full_inbox_refuses_messages_and_questions_and_never_a_workers_completion() {
    let limit = 20;
    let mut story = Story::new(Settings {
        inbox_max_events: limit,
        ..Settings::default()
    });
    story.speaks(session("lead"));
    live(&mut story, 1, "w", 1, 1);
    story.speaks(worker("x", 9));
    let send = |story: &mut Story, number: u64, tool: &str, args: Value| {
        story.ask_keyed(number, u128::from(number), request(tool, args))
    };
    for number in 0..limit as u64 {
        let body = json!({"body": number.to_string()});
        let sent = send(&mut story, 100 + number, "send_message", body);
        assert!(sent.starts_with("commit 2, sent"), "{sent}");
    }
    for (number, tool, args) in [
        (200, "send_message", json!({"body": "over"})),
        (201, "ask_question", json!({"body": "over?"})),
        // Nobody spawned `x`: whoever calls is told that it was not taken.
        (202, "notify_completion", json!({"status": "success"})),
    ] {
        let refused = send(&mut story, number, tool, args);
        assert_eq!(refused, format!("refuse {number} Exhausted"));
    }
    let why = story.told(200)["message"].as_str().unwrap().to_owned();
    assert!(why.contains("inbox `lead` is full: 20 events"), "{why}");
    assert!(why.contains("`inbox_max_events`"), "{why}");
    story.speaks(worker("w-a", 1));
    let args = json!({"status": "success", "message": "first", "changes": []});
    assert_eq!(
        send(&mut story, 203, "notify_completion", args),
        "commit 3, answer 203",
        "a worker's own report gets in"
    );
    let args = json!({"status": "error", "message": "last", "changes": []});
    let again = send(&mut story, 204, "notify_completion", args);
    assert_eq!(again, "commit 4, answer 204", "and replaces the one before");
    story.restart();
    story.speaks(session("lead"));
    any(&mut story, 205);
    let oldest = &story.told(205)["body"];
    assert_eq!(oldest, &json!("0"), "no message was dropped to make room");
    let completions = json!({"types": ["worker_complete"], "timeout_secs": 0});
    wait(&mut story, 206, completions);
    let told = story.told(206);
    assert_eq!(
        (&told["message"], &told["dropped_events"]),
        (&json!("last"), &json!(1)),
        "{told}"
    );
}

#[test]
fn a_message_needs_somebody_who_would_read_it() {
    let mut story = story();
    assert_eq!(
        message(&mut story, 1, "lead", "me"),
        "refuse 1 NotFound",
        "an inbox that nobody ever used"
    );
    wait(&mut story, 2, json!({}));
    assert_eq!(
        message(&mut story, 3, "lead", "me"),
        "refuse 3 InvalidArgument",
        "oneself"
    );
    assert_eq!(
        call(&mut story, 4, "send_message", json!({"body": "up"})),
        "refuse 4 InvalidArgument",
        "a lead has no parent"
    );
    live(&mut story, 5, "w", 1, 1);
    assert_eq!(
        message(&mut story, 6, "w-a", "go"),
        "commit 2, sent 6 e1 Queued"
    );
    story.fact(1, exited(0));
    assert_eq!(message(&mut story, 7, "w-a", "go"), "refuse 7 Ended");
    assert_eq!(
        message(&mut story, 8, "lead/w-a.1", "go"),
        "refuse 8 Ended",
        "by its full name too"
    );
    assert_eq!(message(&mut story, 9, "v-a", "go"), "refuse 9 NotFound");
    assert!(
        story.told(9)["hint"]
            .as_str()
            .unwrap()
            .contains("no live workers"),
        "{}",
        story.told(9)
    );
}

#[test]
fn workers_of_one_lead_reach_each_other_and_their_lead() {
    let mut story = story();
    live(&mut story, 1, "a", 1, 1);
    live(&mut story, 2, "b", 2, 2);
    story.speaks(worker("a-a", 1));
    assert_eq!(
        message(&mut story, 3, "b-a", "hello"),
        "commit 2, sent 3 e1 Queued"
    );
    call(&mut story, 4, "send_message", json!({"body": "to my lead"}));
    assert_eq!(
        message(&mut story, 5, "a-a", "me"),
        "refuse 5 InvalidArgument"
    );
    story.speaks(worker("b-a", 2));
    any(&mut story, 6);
    assert_eq!(story.told(6)["from"], json!("a-a"));
    story.speaks(session("lead"));
    any(&mut story, 7);
    assert_eq!(story.told(7)["body"], json!("to my lead"));
}

#[test]
fn what_is_asked_again_with_its_key_is_done_once() {
    let mut story = story();
    story.speaks(worker("x", 9));
    let message = || request("send_message", json!({"body": "once"}));
    let notice = || request("notify_completion", json!({"status": "success"}));
    assert_eq!(story.ask(1, 1, "", message()), "commit 2, sent 1 e1 Queued");
    assert_eq!(story.ask(2, 1, "", message()), "sent 2 e1 Queued");
    assert_eq!(story.ask(3, 3, "", notice()), "commit 2, answer 3");
    story.restart();
    assert_eq!(story.ask(4, 1, "", message()), "sent 4 e1 Queued");
    assert_eq!(story.ask(5, 3, "", notice()), "answer 5");
    assert_eq!(story.told(5)["event_id"], json!("e2"));
    assert_eq!(story.disk().events.len(), 2);
}
