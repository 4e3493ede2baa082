//! Questions and answers.

use super::*;

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
fn a_question_that_was_answered_is_not_delivered_as_new() {
    let mut story = story();
    ask(&mut story, 1, json!({}));
    answer(&mut story, 2, "q1", "yes");
    assert_eq!(any(&mut story, 3), "nothing for 3");
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
        "commit 4, answer 3",
        "an event for whoever asked, and the question is withdrawn"
    );
    assert_eq!(story.told(3)["delivered"], json!("queued"));
    story.speaks(worker("x", 9));
    assert_eq!(
        wait(&mut story, 4, json!({"types": ["answer"]})),
        "hand 4 e3"
    );
    assert_eq!(story.told(4)["question_id"], json!("q1"));
}

fn person() -> CallerIdentity {
    CallerIdentity::Person {
        project: "elsewhere".into(),
    }
}

/// A request for the open questions of a session, and the ids that it returned, if it was answered.
fn questions(story: &mut Story, number: u64, who: CallerIdentity, known: Option<&[u64]>) -> String {
    let known = known.map(|known| known.iter().copied().map(QuestionId).collect());
    story.speaks(who);
    let said = story.ask_for(number, Request::Questions { known });
    story.speaks(session("lead"));
    said
}

#[test]
fn a_question_to_a_person_is_no_event_and_only_a_person_answers_it() {
    let mut story = story();
    assert_eq!(ask(&mut story, 1, json!({"to": "person"})), "commit 2");
    assert_eq!(any(&mut story, 2), "nothing for 2");
    assert_eq!(answer(&mut story, 3, "q1", "yes"), "refuse 3 Denied");
    for who in [worker("x", 9), worker("y", 8), session("other")] {
        story.speaks(who);
        assert_eq!(answer(&mut story, 4, "q1", "yes"), "refuse 4 Denied");
    }
    // A session of that name is no person.
    story.speaks(session("person"));
    assert_eq!(answer(&mut story, 5, "q1", "yes"), "refuse 5 Denied");
    story.speaks(person());
    let said = answer(&mut story, 6, "q1", "no");
    assert_eq!(said, "commit 3, hand 1 e1, answer 6");
    assert_eq!(story.told(1)["answer"], json!("no"));
    assert_eq!(story.told(1)["from"], json!("person"));
}

#[test]
fn a_question_to_a_person_that_is_not_answered_stays_open_and_says_how() {
    let mut story = story();
    ask(&mut story, 1, json!({"to": "person", "timeout_secs": 1}));
    let more = json!({"to": "person", "timeout_secs": 1, "default": "no"});
    ask(&mut story, 2, more);
    let said = story.after(1_000).step(CoreInput::TimerExpired);
    assert_eq!(said, "asked 1 Pending, asked 2 Default");
    for (call, id) in [(1, "q1"), (2, "q2")] {
        let note = story.told(call)["note"].to_string();
        assert!(note.contains(&format!("fugue answer {id} TEXT")), "{note}");
    }
    story.restart();
    story.speaks(person());
    answer(&mut story, 3, "q1", "late");
    assert_eq!(story.told(3)["delivered"], json!("queued"));
    story.speaks(worker("x", 9));
    let more = json!({"types": ["answer"]});
    assert_eq!(wait(&mut story, 4, more), "hand 4 e1");
    assert_eq!(story.told(4)["from"], json!("person"));
}

#[test]
fn the_questions_of_a_session_are_told_as_they_change() {
    let mut story = story();
    live(&mut story, 1, "w", 1, 1);
    assert_eq!(questions(&mut story, 2, session("lead"), Some(&[])), "");
    assert_eq!(questions(&mut story, 3, session("other"), Some(&[])), "");
    // A worker has no person of its own.
    assert_eq!(questions(&mut story, 4, worker("w-a", 1), Some(&[])), "");
    story.speaks(worker("w-a", 1));
    let to_person = json!({"to": "person", "body": "may I?"});
    let said = call(&mut story, 5, "ask_question", to_person.clone());
    assert_eq!(said, "commit 2, answer 2");
    assert_eq!(questions(&mut story, 6, session("lead"), Some(&[1])), "");
    assert_eq!(questions(&mut story, 7, session("lead"), None), "answer 7");
    assert_eq!(
        questions(&mut story, 8, session("lead"), Some(&[2])),
        "answer 8"
    );
    cancel(&mut story, 6);
    assert_eq!(questions(&mut story, 9, session("lead"), Some(&[1])), "");
    story.speaks(person());
    let said = answer(&mut story, 10, "q1", "yes");
    assert!(
        said.ends_with("answer 9") && !said.contains("answer 6"),
        "{said}"
    );
    // Nobody would read the answer to a worker that has ended.
    story.speaks(worker("w-a", 1));
    call(&mut story, 11, "ask_question", to_person);
    assert_eq!(questions(&mut story, 12, session("lead"), Some(&[2])), "");
    let said = story.fact(1, exited(0));
    assert!(said.contains("answer 12"), "{said}");
}

#[test]
fn questions_to_a_person_are_limited_and_a_person_asks_none() {
    let mut story = story();
    story.speaks(person());
    let to_person = || request("ask_question", json!({"to": "person", "body": "may I?"}));
    assert_eq!(
        story.ask_keyed(1, 1, to_person()),
        "refuse 1 InvalidArgument"
    );
    for number in 2..102 {
        story.speaks(worker("x", 9));
        let said = story.ask_keyed(number, u128::from(number), to_person());
        assert_eq!(said, "commit 2");
    }
    assert_eq!(
        story.ask_keyed(200, 200, to_person()),
        "refuse 200 Exhausted"
    );
    story.speaks(session("other"));
    assert_eq!(story.ask_keyed(201, 201, to_person()), "commit 2");
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
        "commit 4, hand 2 e2, answer 3"
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
