use fugue_api::{
    Error, ErrorKind, EventId, PaneId, ToolCall,
    pane_state::StateSource,
    wire::{CallerIdentity, HookReport, Request},
};
use serde_json::{Value, json};

use crate::{
    CallId, CompletionDetails, CoreInput, ExitStatus, IdleState, PaneEvent, TypingOutcome,
    WorkerLaunch, WorkerRepo,
    core::tests::{Story, exited, opened},
    settings::Settings,
    view,
};

fn session(id: &str) -> CallerIdentity {
    CallerIdentity::Session { id: id.into() }
}

fn worker(agent: &str, pane: u64) -> CallerIdentity {
    CallerIdentity::Worker {
        session: "lead".into(),
        agent: agent.into(),
        pane: Some(PaneId(pane)),
    }
}

fn story() -> Story {
    let mut story = Story::new(Settings::default());
    story.speaks(session("lead"));
    story
}

fn request(tool: &str, args: Value) -> ToolCall {
    ToolCall::parse(tool, args).expect("a good request")
}

/// A call with a key of its own.
fn call(story: &mut Story, call: u64, tool: &str, args: Value) -> String {
    story.ask(call, call as u8, "", request(tool, args))
}

fn wait(story: &mut Story, number: u64, args: Value) -> String {
    call(story, number, "wait_for_event", args)
}

/// Looks for an event of any type without waiting.
fn any(story: &mut Story, number: u64) -> String {
    wait(story, number, json!({"types": ["*"], "timeout_secs": 0}))
}

fn notify(story: &mut Story, number: u64, worker: &str) -> String {
    let notice = json!({"session_id": "lead", "worker_id": worker, "status": "success"});
    call(story, number, "notify_completion", notice)
}

fn message(story: &mut Story, number: u64, to: &str, body: &str) -> String {
    call(
        story,
        number,
        "send_message",
        json!({"to": to, "body": body}),
    )
}

fn cancel(story: &mut Story, call: u64) -> String {
    story.step(CoreInput::Cancelled { call: CallId(call) })
}

fn took(story: &mut Story, call: u64, event: u64) -> String {
    let event = EventId(event);
    story.ask_for(call, Request::AckEvent { event })
}

fn hook(story: &mut Story, call: u64, report: HookReport) -> String {
    story.ask_for(call, Request::Hook { report })
}

fn ended(message: &str) -> HookReport {
    HookReport::TurnEnded {
        message: message.into(),
    }
}

fn ready(hooks: bool) -> WorkerLaunch {
    WorkerLaunch {
        argv: vec!["agent".into()],
        env: Default::default(),
        cwd: "/".into(),
        branch: None,
        hooks,
        repo: Some(WorkerRepo {
            root: "/".into(),
            commit: "c".into(),
        }),
    }
}

fn spawn(story: &mut Story, number: u64, name: &str, more: Value) -> String {
    let mut args = json!({"name": name, "prompt": "do it", "agent": "a"});
    args.as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    call(story, number, "spawn_worker", args)
}

fn prepared(story: &mut Story, worker: u64, hooks: bool) -> String {
    story.step(CoreInput::WorkerPrepared {
        worker,
        outcome: Ok(ready(hooks)),
    })
}

/// A worker that runs, whose agent tells when a turn is over.
fn live(story: &mut Story, number: u64, name: &str, worker: u64, pane: u64) {
    spawn(story, number, name, json!({}));
    prepared(story, worker, true);
    story.fact(pane, opened());
    assert_eq!(
        story.told(number)["worker_id"],
        json!(format!("{name}-a")),
        "it runs"
    );
}

fn worked_out(story: &mut Story, worker: u64) -> String {
    let found = CompletionDetails {
        changes: vec!["a.rs | 1 +".into()],
        tail: "last line".into(),
        ..CompletionDetails::default()
    };
    story.step(CoreInput::ChangesCollected { worker, found })
}

// Inboxes.

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
    assert_eq!(wait(&mut story, 1, json!({})), "");
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
        json!({}),
        "what is in a hand is not queued"
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
    wait(&mut story, 206, json!({"timeout_secs": 0}));
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

// Questions.

fn ask(story: &mut Story, number: u64, more: Value) -> String {
    story.speaks(worker("x", 9));
    let mut args = json!({"body": "may I?"});
    args.as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    let said = call(story, number, "ask_question", args);
    story.speaks(session("lead"));
    said
}

fn answer(story: &mut Story, number: u64, question: &str, answer: &str) -> String {
    call(
        story,
        number,
        "answer_question",
        json!({"question_id": question, "answer": answer}),
    )
}

#[test]
fn an_answer_goes_to_the_call_that_waits_for_it_and_makes_no_event() {
    let mut story = story();
    assert_eq!(ask(&mut story, 1, json!({})), "commit 4");
    any(&mut story, 2);
    assert_eq!(story.told(2)["type"], json!("question"));
    assert_eq!(story.told(2)["question_id"], json!("q1"));
    assert_eq!(
        answer(&mut story, 3, "q1", "yes"),
        "commit 3, hand 1 e2, answer 3"
    );
    assert_eq!(story.told(1)["status"], json!("answered"));
    assert_eq!(story.told(1)["answer"], json!("yes"));
    assert_eq!(story.told(3)["delivered"], json!("returned"));
    took(&mut story, 4, 2);
    story.speaks(worker("x", 9));
    assert_eq!(any(&mut story, 5), "nothing for 5");
}

#[test]
fn an_answer_whose_asker_vanished_with_it_becomes_an_event() {
    let mut story = story();
    ask(&mut story, 1, json!({}));
    answer(&mut story, 2, "q1", "yes");
    assert_eq!(cancel(&mut story, 1), "");
    story.speaks(worker("x", 9));
    assert_eq!(any(&mut story, 3), "hand 3 e2");
    assert_eq!(story.told(3)["type"], json!("answer"));
    assert_eq!(story.told(3)["body"], json!("yes"));
    assert_eq!(story.told(3)["from"], json!("lead"));
}

#[test]
fn a_question_that_nobody_answers_in_time_is_pending_or_has_its_default() {
    let mut story = story();
    ask(&mut story, 1, json!({"timeout_secs": 1}));
    ask(&mut story, 2, json!({"timeout_secs": 1, "default": "no"}));
    assert_eq!(
        story.after(1_000).step(CoreInput::TimerExpired),
        "asked 1 Pending, asked 2 Default"
    );
    assert_eq!(story.told(2)["answer"], json!("no"));
    assert_eq!(
        answer(&mut story, 3, "q1", "late"),
        "commit 3, answer 3",
        "an event for whoever asked"
    );
    assert_eq!(story.told(3)["delivered"], json!("queued"));
    story.speaks(worker("x", 9));
    assert_eq!(
        wait(&mut story, 4, json!({"types": ["answer"]})),
        "hand 4 e3"
    );
    assert_eq!(story.told(4)["question_id"], json!("q1"));
}

#[test]
fn a_question_has_one_answer() {
    let mut story = story();
    ask(&mut story, 1, json!({}));
    answer(&mut story, 2, "q1", "yes");
    assert_eq!(
        answer(&mut story, 3, "q1", "no"),
        "refuse 3 InvalidArgument"
    );
    assert_eq!(
        answer(&mut story, 4, "q1", "yes"),
        "answer 4",
        "said again, it is the same one"
    );
    assert_eq!(answer(&mut story, 5, "q9", "yes"), "refuse 5 NotFound");
}

#[test]
fn a_question_outlives_the_daemon_and_is_asked_once() {
    let mut story = story();
    let again = |story: &mut Story, number| {
        story.speaks(worker("x", 9));
        let said = story.ask(
            number,
            1,
            "",
            request("ask_question", json!({"body": "may I?"})),
        );
        story.speaks(session("lead"));
        said
    };
    ask(&mut story, 1, json!({}));
    story.restart();
    assert_eq!(again(&mut story, 2), "", "no second question");
    assert_eq!(
        answer(&mut story, 3, "q1", "yes"),
        "commit 3, hand 2 e2, answer 3"
    );
    // It did not arrive: the daemon died with the answer in its hand.
    story.restart();
    assert_eq!(again(&mut story, 4), "hand 4 e2");
    assert_eq!(story.told(4)["answer"], json!("yes"));
    took(&mut story, 5, 2);
    story.speaks(worker("x", 9));
    assert_eq!(
        any(&mut story, 6),
        "nothing for 6",
        "the call returned it, so it is no event"
    );
}

#[test]
fn an_answer_that_is_not_known_to_have_arrived_is_kept() {
    let mut story = story();
    ask(&mut story, 1, json!({}));
    answer(&mut story, 2, "q1", "yes");
    story.restart();
    story.speaks(worker("x", 9));
    story.ask(3, 1, "", request("ask_question", json!({"body": "may I?"})));
    cancel(&mut story, 3);
    assert_eq!(
        wait(&mut story, 4, json!({"types": ["answer"]})),
        "hand 4 e2"
    );
}

#[test]
fn a_question_that_is_forgotten_for_others_leaves_nobody_waiting() {
    let mut story = story();
    let question = || request("ask_question", json!({"body": "may I?"}));
    for number in 0..1_000_u64 {
        story.speaks(worker("x", 9));
        story.ask_keyed(number, u128::from(number) + 1, question());
        // Its lead reads along, so that the inbox is never full.
        story.speaks(session("lead"));
        took(&mut story, 10_000 + number, number + 1);
    }
    story.speaks(worker("x", 9));
    let one_more = story.ask_keyed(1_000, 5_000, question());
    assert!(
        one_more.contains("asked 0 Pending"),
        "the oldest asker hears that it need not wait: {one_more}"
    );
}

// Completions.

#[test]
fn a_turn_gives_one_completion_with_the_agents_own_words() {
    let mut story = story();
    live(&mut story, 1, "w", 1, 1);
    story.speaks(worker("w-a", 1));
    assert_eq!(
        hook(&mut story, 2, ended("all done")),
        "work out 1, commit 1, answer 2"
    );
    story.speaks(session("lead"));
    wait(&mut story, 3, json!({}));
    assert_eq!(worked_out(&mut story, 1), "commit 3, hand 3 e1");
    let told = story.told(3).clone();
    assert_eq!(told["message"], json!("all done"));
    assert_eq!(told["changes"], json!(["a.rs | 1 +"]));
    assert_eq!(
        (&told["turn"], &told["instance"], &told["synthesized"]),
        (&json!(1), &json!(1), &json!(false))
    );
    story.speaks(worker("w-a", 1));
    assert_eq!(
        hook(&mut story, 4, ended("again")),
        "commit 1, answer 4",
        "no prompt came between, so no turn ended"
    );
}

#[test]
fn a_stop_hook_behind_a_notice_adds_nothing() {
    let mut story = story();
    live(&mut story, 1, "w", 1, 1);
    story.speaks(worker("w-a", 1));
    let notice = json!({"status": "success", "message": "mine"});
    assert_eq!(
        call(&mut story, 2, "notify_completion", notice),
        "work out 1, commit 1"
    );
    hook(&mut story, 3, ended("hook's"));
    assert_eq!(worked_out(&mut story, 1), "commit 3, answer 2");
    assert_eq!(story.told(2)["event_id"], json!("e1"));
    story.fact(1, exited(0));
    story.speaks(session("lead"));
    any(&mut story, 4);
    assert_eq!(story.told(4)["message"], json!("mine"));
    assert_eq!(
        any(&mut story, 5),
        "nothing for 5",
        "nor does the process's end"
    );
}

#[test]
fn a_notice_with_changes_of_its_own_waits_for_nobody() {
    let mut story = story();
    live(&mut story, 1, "w", 1, 1);
    story.speaks(worker("w-a", 1));
    let notice = json!({"status": "error", "changes": ["x | 2 +"], "message": "no"});
    assert_eq!(
        call(&mut story, 2, "notify_completion", notice),
        "commit 3, answer 2"
    );
    story.speaks(session("lead"));
    any(&mut story, 3);
    assert_eq!(story.told(3)["changes"], json!(["x | 2 +"]));
    assert_eq!(story.told(3)["status"], json!("error"));
}

#[test]
fn each_explicit_notice_is_an_event_also_behind_the_stop_hook() {
    let mut story = story();
    live(&mut story, 1, "w", 1, 1);
    story.speaks(worker("w-a", 1));
    hook(&mut story, 2, ended("hook's"));
    worked_out(&mut story, 1);
    let notice = json!({"status": "success", "changes": [], "message": "mine"});
    call(&mut story, 3, "notify_completion", notice);
    story.speaks(session("lead"));
    any(&mut story, 4);
    any(&mut story, 5);
    assert_eq!(story.told(4)["message"], json!("hook's"));
    assert_eq!(story.told(5)["message"], json!("mine"));
    assert_eq!(story.told(5)["turn"], json!(1));
}

#[test]
fn a_new_prompt_begins_the_next_turn() {
    let mut story = story();
    live(&mut story, 1, "w", 1, 1);
    story.speaks(worker("w-a", 1));
    hook(&mut story, 2, HookReport::PromptGiven);
    hook(&mut story, 3, ended("one"));
    worked_out(&mut story, 1);
    hook(&mut story, 4, HookReport::PromptGiven);
    let failed = HookReport::TurnFailed {
        message: "no model".into(),
    };
    hook(&mut story, 5, failed);
    worked_out(&mut story, 1);
    story.speaks(session("lead"));
    any(&mut story, 6);
    any(&mut story, 7);
    assert_eq!(story.told(6)["turn"], json!(1));
    assert_eq!(story.told(7)["turn"], json!(2));
    assert_eq!(story.told(7)["status"], json!("error"));
}

#[test]
fn two_turns_that_end_before_the_first_is_worked_out_are_told_in_order() {
    let mut story = story();
    live(&mut story, 1, "w", 1, 1);
    story.speaks(worker("w-a", 1));
    hook(&mut story, 2, ended("one"));
    hook(&mut story, 3, HookReport::PromptGiven);
    assert_eq!(
        hook(&mut story, 4, ended("two")),
        "commit 1, answer 4",
        "one at a time"
    );
    assert_eq!(worked_out(&mut story, 1), "work out 1, commit 3");
    assert_eq!(worked_out(&mut story, 1), "commit 3");
    story.speaks(session("lead"));
    any(&mut story, 5);
    any(&mut story, 6);
    assert_eq!(story.told(5)["message"], json!("one"));
    assert_eq!(story.told(6)["message"], json!("two"));
}

#[test]
fn an_end_without_a_word_is_told_from_how_it_ended() {
    for (exit, status, code, signal) in [
        (ExitStatus::Code(0), "success", json!(0), json!(null)),
        (ExitStatus::Code(3), "error", json!(3), json!(null)),
        (
            ExitStatus::Signal("SIGKILL".into()),
            "error",
            json!(null),
            json!("SIGKILL"),
        ),
    ] {
        let mut story = story();
        live(&mut story, 1, "w", 1, 1);
        let fact = PaneEvent::Ended {
            exit,
            cursor: view::start(),
            title: String::new(),
            alone: false,
            sweeps: true,
        };
        let said = story.fact(1, fact);
        assert!(said.contains("work out 1"), "{said}");
        worked_out(&mut story, 1);
        any(&mut story, 2);
        let told = story.told(2);
        assert_eq!(told["status"], json!(status));
        assert_eq!(told["synthesized"], json!(true));
        assert_eq!(told["message"], json!("last line"));
        assert_eq!((&told["exit_code"], &told["signal"]), (&code, &signal));
    }
}

#[test]
fn an_end_behind_a_report_adds_nothing_and_one_in_a_new_turn_does() {
    let mut story = story();
    live(&mut story, 1, "a", 1, 1);
    live(&mut story, 2, "b", 2, 2);
    for (number, id, pane) in [(3, "a-a", 1), (4, "b-a", 2)] {
        story.speaks(worker(id, pane));
        hook(&mut story, number, ended("done"));
        worked_out(&mut story, pane);
    }
    hook(&mut story, 5, HookReport::PromptGiven);
    assert!(!story.fact(1, exited(0)).contains("work out"));
    assert!(story.fact(2, exited(1)).contains("work out 2"));
    worked_out(&mut story, 2);
    story.speaks(session("lead"));
    for number in [6, 7, 8] {
        any(&mut story, number);
    }
    assert_eq!(story.told(8)["worker_id"], json!("b-a"));
    assert_eq!(story.told(8)["turn"], json!(2));
    assert_eq!(any(&mut story, 9), "nothing for 9");
}

#[test]
fn the_late_notice_of_an_earlier_one_of_that_name_is_told_as_its_own() {
    let mut story = story();
    live(&mut story, 1, "w", 1, 1);
    story.fact(1, exited(0));
    worked_out(&mut story, 1);
    live(&mut story, 2, "w", 2, 2);
    assert_eq!(story.told(2)["instance"], json!(2));
    story.speaks(worker("w-a", 1));
    let notice = || json!({"status": "success", "changes": [], "message": "late"});
    call(&mut story, 3, "notify_completion", notice());
    story.speaks(worker("w-a", 2));
    call(&mut story, 4, "notify_completion", notice());
    story.speaks(session("lead"));
    let mut instances = Vec::new();
    for number in [5, 6, 7] {
        any(&mut story, number);
        instances.push(story.told(number)["instance"].as_u64().unwrap());
    }
    assert_eq!(instances, [1, 1, 2]);
}

#[test]
fn a_notice_of_somebody_that_fugue_never_spawned_is_accepted() {
    let mut story = story();
    story.speaks(session("elsewhere"));
    assert_eq!(notify(&mut story, 1, "stranger"), "commit 2, answer 1");
    story.speaks(session("lead"));
    any(&mut story, 2);
    assert_eq!(story.told(2)["worker_id"], json!("stranger"));
    assert_eq!(story.told(2)["instance"], json!(0));
    assert_eq!(
        call(
            &mut story,
            3,
            "notify_completion",
            json!({"status": "success"})
        ),
        "refuse 3 InvalidArgument",
        "a lead that does not say whom it means"
    );
}

#[test]
fn a_long_last_message_is_cut_and_that_is_said() {
    let mut story = story();
    live(&mut story, 1, "w", 1, 1);
    story.speaks(worker("w-a", 1));
    hook(&mut story, 2, ended(&"é".repeat(20_000)));
    worked_out(&mut story, 1);
    story.speaks(session("lead"));
    any(&mut story, 3);
    let told = story.told(3);
    let kept = told["message"].as_str().unwrap().chars().count() as u64;
    let omitted = told["omitted_chars"].as_u64().unwrap();
    assert!(kept <= 8_100 && omitted >= 12_000 - 100, "{kept} {omitted}");
}

#[test]
fn the_hook_of_nobodys_worker_tells_nobody() {
    let mut story = story();
    assert_eq!(hook(&mut story, 1, ended("x")), "answer 1");
    story.speaks(worker("stranger", 9));
    assert_eq!(hook(&mut story, 2, ended("x")), "answer 2");
}

// What a worker waits for.

fn asks(prompt: &str, by: StateSource) -> PaneEvent {
    PaneEvent::Asks(Some((prompt.into(), by)))
}

fn needs(prompt: &str) -> HookReport {
    HookReport::NeedsInput {
        prompt: prompt.into(),
    }
}

#[test]
fn one_dialog_is_told_once_however_many_ways_show_it() {
    let mut story = story();
    live(&mut story, 1, "w", 1, 1);
    story.speaks(worker("w-a", 1));
    assert_eq!(
        hook(&mut story, 2, needs("Bash: rm x")),
        "commit 3, answer 2"
    );
    assert_eq!(hook(&mut story, 3, needs("still")), "answer 3");
    assert_eq!(story.fact(1, asks("Do you want", StateSource::Screen)), "");
    hook(&mut story, 4, HookReport::InputNoLongerNeeded);
    assert_eq!(
        hook(&mut story, 5, needs("Bash: rm y")),
        "commit 3, answer 5"
    );
    story.fact(1, PaneEvent::Asks(None));
    assert_eq!(
        story.fact(1, asks("Do you", StateSource::Screen)),
        "commit 3"
    );
    story.speaks(session("lead"));
    for (number, prompt, by) in [
        (6, "Bash: rm x", "hook"),
        (7, "Bash: rm y", "hook"),
        (8, "Do you", "screen"),
    ] {
        wait(&mut story, number, json!({"types": ["worker_needs_input"]}));
        assert_eq!(story.told(number)["prompt"], json!(prompt));
        assert_eq!(story.told(number)["by"], json!(by));
    }
    assert_eq!(any(&mut story, 9), "nothing for 9");
}

#[test]
fn a_turn_that_ends_and_a_prompt_end_the_dialog() {
    let mut story = story();
    live(&mut story, 1, "w", 1, 1);
    story.speaks(worker("w-a", 1));
    for (number, news) in [(10, ended("done")), (20, HookReport::PromptGiven)] {
        hook(&mut story, number, needs("?"));
        hook(&mut story, number + 1, news);
        let stored = &story.disk().workers[0].record;
        assert_eq!(stored.asks, None);
    }
}

#[test]
fn a_worker_that_is_late_is_told_of_once_and_goes_on() {
    let mut story = story();
    spawn(&mut story, 1, "w", json!({"deadline_secs": 60}));
    prepared(&mut story, 1, true);
    story.fact(1, opened());
    assert_eq!(
        story.core.next_deadline(),
        Some(std::time::Duration::from_secs(60))
    );
    assert_eq!(story.after(59_999).step(CoreInput::TimerExpired), "");
    assert_eq!(story.after(1).step(CoreInput::TimerExpired), "commit 3");
    assert_eq!(story.after(1_000).step(CoreInput::TimerExpired), "");
    story.restart();
    assert_eq!(story.core.next_deadline(), None, "nor by the next daemon");
    any(&mut story, 2);
    assert_eq!(story.told(2)["type"], json!("worker_late"));
    assert_eq!(story.told(2)["worker_id"], json!("w-a"));
}

#[test]
fn a_worker_that_reported_or_ended_in_time_is_not_late() {
    let mut story = story();
    spawn(&mut story, 1, "w", json!({"deadline_secs": 60}));
    prepared(&mut story, 1, true);
    story.fact(1, opened());
    story.speaks(worker("w-a", 1));
    hook(&mut story, 2, ended("done"));
    assert_eq!(story.after(60_000).step(CoreInput::TimerExpired), "");
}

// Spawning.

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
    assert_eq!(told["instance"], json!(1));
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
    assert_eq!(story.told(4)["instance"], json!(2));
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
fn a_completion_that_is_owed_is_worked_out_by_the_next_daemon() {
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

// Runs.

#[test]
fn a_run_that_nobody_waits_for_any_more_is_told_and_one_that_is_waited_for_is_not() {
    let mut story = story();
    let run = |id: &str| {
        request(
            "fugue_run_parallel",
            json!({"commands": [{"command": "true"}], "run_id": id}),
        )
    };
    let gone = || PaneEvent::Ended {
        exit: ExitStatus::Code(0),
        cursor: view::start(),
        title: String::new(),
        alone: true,
        sweeps: false,
    };
    story.ask(1, 1, "", run("waited"));
    story.fact(1, opened());
    story.fact(1, gone());
    assert_eq!(any(&mut story, 2), "nothing for 2");
    story.ask(3, 3, "", run("left"));
    story.fact(2, opened());
    cancel(&mut story, 3);
    story.fact(2, gone());
    assert_eq!(
        wait(&mut story, 4, json!({"types": ["run_complete"]})),
        "hand 4 e1"
    );
    assert_eq!(story.told(4)["run_id"], json!("left"));
    assert_eq!(story.told(4)["status"], json!("completed"));
    cancel(&mut story, 4);
    let pick_up = request("fugue_wait", json!({"run_id": "left"}));
    let picked = story.ask(5, 5, "", pick_up);
    assert!(picked.contains("result 5 completed"), "{picked}");
    assert_eq!(any(&mut story, 6), "nothing for 6", "old news by then");
}

// Messages that are typed.

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
        story.fact(1, PaneEvent::Rest(IdleState::Now)),
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
    assert_eq!(typed(&mut story, 1, "go on"), "commit 2, sent 1 e1 Queued");
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
        story.fact(1, PaneEvent::Rest(IdleState::NotYet(None))),
        "sent 1 e2 Queued"
    );
    assert_eq!(
        story.fact(1, PaneEvent::Rest(IdleState::Now)),
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
    let said = waits.fact(1, PaneEvent::Rest(IdleState::NotYet(why())));
    assert_eq!(said, wanted);
    let mut refused = story();
    resting(&mut refused);
    typed(&mut refused, 1, "go on");
    refused.fact(1, PaneEvent::Rest(IdleState::Now));
    let said = refused.fact(1, typed_as(2, TypingOutcome::Waits(why())));
    assert!(said.contains(wanted), "{said}");
    assert!(
        said.contains("await rest of p1"),
        "it is typed later: {said}"
    );
}

#[test]
fn a_message_that_cannot_be_typed_stays_in_the_inbox() {
    let mut story = story();
    resting(&mut story);
    typed(&mut story, 1, "go on");
    story.fact(1, PaneEvent::Rest(IdleState::Now));
    assert_eq!(
        story.fact(1, typed_as(2, TypingOutcome::Refused)),
        "commit 1, sent 1 e2 Queued"
    );
    story.speaks(worker("w-a", 1));
    assert_eq!(any(&mut story, 2), "hand 2 e2");
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
        story.fact(1, PaneEvent::Rest(IdleState::Now)),
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
        story.fact(1, PaneEvent::Rest(IdleState::Now)),
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
    wait(&mut story, 1, json!({}));
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
