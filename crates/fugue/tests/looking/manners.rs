//! A person and agents at one keyboard: nobody's line is typed into.

use std::time::Duration;

use fugue_api::{
    Error, ErrorKind, PaneId,
    tools::SubmitResult,
    wire::{IdempotencyKey, Response},
};
use fugue_testkit::{TestEnv, until};
use serde_json::json;

use crate::{eye::Eye, world};

const LIMIT: Duration = Duration::from_secs(60);

/// An interactive bash, and somebody who looks at it.
fn shell(world: &TestEnv) -> (PaneId, Eye) {
    let pane = world.shell("bash").pane_id;
    let mut eye = Eye::new(world);
    eye.view(pane);
    (pane, eye)
}

/// An agent's line, as a call that is open from now on.
fn send(eye: &mut Eye, pane: PaneId, line: &str, number: u8) -> u64 {
    let args = json!({"pane_id": pane.to_string(), "input": line, "submit": true});
    eye.call("send_input", args, IdempotencyKey([number; 16]))
}

fn submitted(answer: Result<Response, Error>) -> SubmitResult {
    match answer {
        Ok(Response::Tool {
            reply: fugue_api::ToolReply::SendInput(sent),
        }) => sent.submitted,
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_agent_waits_until_a_person_has_sent_their_line() {
    let world = world();
    let (pane, mut eye) = shell(&world);
    eye.type_keys(pane, "echo 'from a '");
    // Before the echo is back, too.
    let agent = send(&mut eye, pane, "echo from an agent", 1);
    let drawn = eye.until(pane, |drawn| drawn.head.held.is_some());
    assert_eq!(
        drawn.head.held.as_deref(),
        Some("p1: input from an agent waits until you press Enter")
    );
    let note = world.status(pane).note.expect("a note");
    assert!(note.contains("a person has begun a line"), "{note}");
    eye.type_keys(pane, "person");
    let drawn = eye.until(pane, |drawn| drawn.shows("'person"));
    assert!(drawn.head.held.is_some());
    assert!(!eye.is_answered(agent));
    eye.type_keys(pane, "\r");
    assert_eq!(submitted(eye.answer(agent)), SubmitResult::Yes);
    let drawn = eye.until(pane, |drawn| {
        drawn.rows.iter().any(|row| row == "from an agent")
    });
    assert!(drawn.rows.iter().any(|row| row == "from a person"));
    eye.until(pane, |drawn| drawn.head.held.is_none());
    assert_eq!(world.status(pane).note, None);
}

#[test]
fn a_line_is_over_with_any_key_that_ends_it_and_when_nothing_is_left_of_it() {
    let world = world();
    let (pane, mut eye) = shell(&world);
    let ends = [
        "\x03",
        "\x15",
        "\x7f\x7f\x7f",
        "\x03",
        "\x1b\x7f\x7f\x7f\x15",
    ];
    for (number, end) in ends.into_iter().enumerate() {
        eye.type_keys(pane, "abc");
        eye.until(pane, |drawn| {
            let last = drawn.rows.iter().rfind(|row| !row.is_empty());
            last.is_some_and(|row| row.ends_with("abc"))
        });
        let line = format!("echo line $((10 + {number}))");
        let agent = send(&mut eye, pane, &line, number as u8 + 1);
        eye.until(pane, |drawn| drawn.head.held.is_some());
        eye.type_keys(pane, end);
        eye.answer(agent).expect("it is typed");
        let said = format!("line {}", 10 + number);
        eye.until(pane, |drawn| drawn.rows.contains(&said));
    }
    // A shell keeps its line when Escape is pressed, and so it is still a person's; what cannot be seen is over.
    eye.type_keys(pane, "abc");
    let agent = send(&mut eye, pane, "echo at last", 20);
    eye.until(pane, |drawn| drawn.head.held.is_some());
    eye.type_keys(pane, "\x1b");
    assert!(!eye.is_answered(agent));
    eye.type_keys(pane, "\x15\x15");
    eye.answer(agent).expect("it is typed");
    let pane = world.pane("stty raw -echo; exec cat").pane_id;
    eye.view(pane);
    eye.type_keys(pane, "abc");
    let agent = send(&mut eye, pane, "def", 21);
    eye.until(pane, |drawn| drawn.head.held.is_some());
    eye.type_keys(pane, "\x1b");
    eye.answer(agent).expect("it is typed");
}

#[test]
fn whoever_waits_too_long_is_refused_and_nothing_is_typed() {
    let world = world();
    world.configure("draft_wait_secs = 0.3");
    let (pane, mut eye) = shell(&world);
    eye.type_keys(pane, "echo mine");
    eye.until(pane, |drawn| drawn.shows("echo mine"));
    let first = send(&mut eye, pane, "echo one", 1);
    let second = send(&mut eye, pane, "echo two", 2);
    for call in [first, second] {
        let error = eye.answer(call).expect_err("refused");
        assert_eq!(error.kind, ErrorKind::Unavailable);
        assert!(error.message.contains("nothing was typed"), "{error}");
        assert!(
            error
                .hint
                .is_some_and(|hint| hint.contains("fugue send --force"))
        );
    }
    let refused = world.refused(&["send", &pane.to_string(), "echo three", "--enter"], 1);
    assert!(refused.message.contains("a person has begun a line"));
    eye.until(pane, |drawn| drawn.head.held.is_none());
    eye.type_keys(pane, "\r");
    eye.until(pane, |drawn| drawn.rows.iter().any(|row| row == "mine"));
    let text = world.text(pane);
    for word in ["one", "two", "three"] {
        assert!(!text.contains(word), "{text}");
    }
}

#[test]
fn who_says_so_types_into_a_persons_line() {
    let world = world();
    let (pane, mut eye) = shell(&world);
    eye.type_keys(pane, "echo mine");
    eye.until(pane, |drawn| drawn.shows("echo mine"));
    let polite = send(&mut eye, pane, "echo later", 1);
    eye.until(pane, |drawn| drawn.head.held.is_some());
    let name = pane.to_string();
    world.fugue(&["send", &name, " too", "--force"]).ok();
    eye.until(pane, |drawn| drawn.shows("echo mine too"));
    assert!(!eye.is_answered(polite), "it is still a person's line");
    world.fugue(&["send", &name, "--enter", "--force"]).ok();
    assert_eq!(submitted(eye.answer(polite)), SubmitResult::Yes);
    eye.until(pane, |drawn| drawn.rows.iter().any(|row| row == "later"));
    assert!(world.text(pane).contains("\nmine too\n"));
}

#[test]
fn what_an_agent_left_half_typed_is_no_persons_line() {
    let world = world();
    let (pane, mut eye) = shell(&world);
    let name = pane.to_string();
    world.fugue(&["send", &name, "echo half"]).ok();
    eye.until(pane, |drawn| drawn.shows("echo half"));
    assert_eq!(world.status(pane).note, None);
    world.fugue(&["send", &name, " and half", "--enter"]).ok();
    eye.until(pane, |drawn| {
        drawn.rows.iter().any(|row| row == "half and half")
    });
    // A person goes on with it, and then it is theirs.
    world.fugue(&["send", &name, "echo ours"]).ok();
    eye.until(pane, |drawn| drawn.shows("echo ours"));
    eye.type_keys(pane, " now");
    let agent = send(&mut eye, pane, "echo mine", 1);
    eye.until(pane, |drawn| drawn.head.held.is_some());
    eye.type_keys(pane, "\r");
    eye.answer(agent).expect("it is typed");
    eye.until(pane, |drawn| drawn.rows.iter().any(|row| row == "mine"));
    assert!(world.text(pane).contains("\nours now\n"));
}

#[test]
fn a_mouse_over_a_pane_keeps_nobody_waiting_and_a_program_without_prompts_is_shared_as_well() {
    let world = world();
    let pane = world.pane("stty -echo; printf ready; exec cat").pane_id;
    let mut eye = Eye::new(&world);
    eye.until(pane, |drawn| drawn.shows("ready"));
    eye.type_keys(pane, "\x1b[I");
    let ran = world.start(&["send", &pane.to_string(), "by an agent", "--enter"]);
    ran.end(LIMIT).ok();
    eye.until(pane, |drawn| drawn.shows("by an agent"));
    eye.type_keys(pane, "by a ");
    let agent = send(&mut eye, pane, "another", 1);
    eye.until(pane, |drawn| drawn.head.held.is_some());
    eye.type_keys(pane, "person\r");
    eye.answer(agent).expect("it is typed");
    eye.until(pane, |drawn| drawn.shows("another"));
    let text = world.text(pane);
    assert!(text.contains("by a person\nanother"), "{text}");
}

#[test]
fn a_pane_that_ends_lets_nobody_wait() {
    let world = world();
    let (pane, mut eye) = shell(&world);
    eye.type_keys(pane, "abc");
    let agent = send(&mut eye, pane, "echo", 1);
    eye.until(pane, |drawn| drawn.head.held.is_some());
    world.close(pane);
    let error = eye
        .answer(agent)
        .expect_err("there is nothing to type into");
    assert_eq!(error.kind, ErrorKind::Ended);
}

#[test]
fn a_message_is_not_typed_into_a_persons_line() {
    let world = world();
    world.configure(
        "idle_threshold_secs = 0.2\n[agents.reader]\ncommand = [\"bash\", \"{prompt_file}\"]\n",
    );
    world.fugue(&["daemon", "start"]).ok();
    let mut eye = Eye::new(&world);
    let spawn = json!({
        "name": "w", "agent": "reader", "cwd": "/tmp",
        "prompt": "while read -r line; do echo \"<$line>\"; done",
    });
    let spawned = eye.call("spawn_worker", spawn, IdempotencyKey([1; 16]));
    let Ok(Response::Tool {
        reply: fugue_api::ToolReply::SpawnWorker(worker),
    }) = eye.answer(spawned)
    else {
        panic!("a worker");
    };
    let pane = worker.pane_id;
    eye.type_keys(pane, "abc");
    eye.until(pane, |drawn| drawn.shows("abc"));
    let message = json!({"to": "w-reader", "body": "go on", "deliver": "type"});
    let sent = eye.call("send_message", message, IdempotencyKey([2; 16]));
    eye.answer(sent).expect("it is sent");
    // Five times as long as it takes an agent to count as idle.
    until("it has been silent", LIMIT, || {
        world.status(pane).idle_ms > 1_000
    });
    assert!(!world.text(pane).contains("Message"));
    // The person's line arrives whole, and the message is not lost.
    eye.type_keys(pane, "\r");
    let text = world.until_printed(pane, |text| text.contains("<abc>"));
    assert!(!text.contains("Message"), "{text}");
    let left: serde_json::Value = world.json(&["events", "--inbox", "looking/w-reader.1"]);
    assert_eq!(left["events"][0]["body"], "go on", "{left}");
}
