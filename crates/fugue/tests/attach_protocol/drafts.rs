//! Drafts: input of agents does not go into a line that a person has begun.

use std::time::Duration;

use fugue_api::{
    Error, ErrorKind, PaneId,
    tools::SubmitResult,
    wire::{IdempotencyKey, Response},
};
use fugue_testkit::{TestEnv, until};
use serde_json::json;

use crate::{attach_client::AttachClient, test_env};

const LIMIT: Duration = Duration::from_secs(60);

/// An interactive bash and a viewer of it.
fn shell(test_env: &TestEnv) -> (PaneId, AttachClient) {
    let pane = test_env.shell("bash").pane_id;
    let mut viewer = AttachClient::new(test_env);
    viewer.view(pane);
    (pane, viewer)
}

/// Sends a line as an agent; the call stays open.
fn send(viewer: &mut AttachClient, pane: PaneId, line: &str, number: u8) -> u64 {
    let args = json!({"pane_id": pane.to_string(), "input": line, "submit": true});
    viewer.call("send_input", args, IdempotencyKey([number; 16]))
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
fn input_of_an_agent_waits_until_the_draft_is_sent() {
    let test_env = test_env();
    let (pane, mut viewer) = shell(&test_env);
    viewer.type_keys(pane, "echo 'from a '");
    // The draft also counts before its echo is back.
    let agent = send(&mut viewer, pane, "echo from an agent", 1);
    let drawn = viewer.until(pane, |drawn| drawn.head.held.is_some());
    assert_eq!(
        drawn.head.held.as_deref(),
        Some("p1: input from an agent waits until your line is sent or deleted")
    );
    let note = test_env.status(pane).note.expect("a note");
    assert!(note.contains("a person has begun a line"), "{note}");
    viewer.type_keys(pane, "person");
    let drawn = viewer.until(pane, |drawn| drawn.shows("'person"));
    assert!(drawn.head.held.is_some());
    assert!(!viewer.is_answered(agent));
    viewer.type_keys(pane, "\r");
    assert_eq!(submitted(viewer.response(agent)), SubmitResult::Yes);
    let drawn = viewer.until(pane, |drawn| {
        drawn.rows.iter().any(|row| row == "from an agent")
    });
    assert!(drawn.rows.iter().any(|row| row == "from a person"));
    viewer.until(pane, |drawn| drawn.head.held.is_none());
    assert_eq!(test_env.status(pane).note, None);
}

#[test]
fn a_draft_ends_with_its_last_character_or_a_key_that_ends_the_line() {
    let test_env = test_env();
    let (pane, mut viewer) = shell(&test_env);
    let ends = [
        "\x03",
        "\x15",
        "\x7f\x7f\x7f",
        "\x03",
        "\x1b\x7f\x7f\x7f\x15",
    ];
    for (number, end) in ends.into_iter().enumerate() {
        viewer.type_keys(pane, "abc");
        viewer.until(pane, |drawn| {
            let last = drawn.rows.iter().rfind(|row| !row.is_empty());
            last.is_some_and(|row| row.ends_with("abc"))
        });
        let line = format!("echo line $((10 + {number}))");
        let agent = send(&mut viewer, pane, &line, number as u8 + 1);
        viewer.until(pane, |drawn| drawn.head.held.is_some());
        viewer.type_keys(pane, end);
        viewer.response(agent).expect("it is typed");
        let said = format!("line {}", 10 + number);
        viewer.until(pane, |drawn| drawn.rows.contains(&said));
    }
    // A shell keeps its line on Escape, so the draft goes on; a draft without echo ends with Escape.
    viewer.type_keys(pane, "abc");
    let agent = send(&mut viewer, pane, "echo at last", 20);
    viewer.until(pane, |drawn| drawn.head.held.is_some());
    viewer.type_keys(pane, "\x1b");
    assert!(!viewer.is_answered(agent));
    viewer.type_keys(pane, "\x15\x15");
    viewer.response(agent).expect("it is typed");
    let pane = test_env.pane("stty raw -echo; exec cat").pane_id;
    viewer.view(pane);
    viewer.type_keys(pane, "abc");
    let agent = send(&mut viewer, pane, "def", 21);
    viewer.until(pane, |drawn| drawn.head.held.is_some());
    viewer.type_keys(pane, "\x1b");
    viewer.response(agent).expect("it is typed");
}

#[test]
fn input_that_waits_too_long_for_a_draft_is_refused() {
    let test_env = test_env();
    test_env.configure("draft_wait_secs = 0.3");
    let (pane, mut viewer) = shell(&test_env);
    viewer.type_keys(pane, "echo mine");
    viewer.until(pane, |drawn| drawn.shows("echo mine"));
    let first = send(&mut viewer, pane, "echo one", 1);
    let second = send(&mut viewer, pane, "echo two", 2);
    for call in [first, second] {
        let error = viewer.response(call).expect_err("refused");
        assert_eq!(error.kind, ErrorKind::Unavailable);
        assert!(error.message.contains("nothing was typed"), "{error}");
        assert!(
            error
                .hint
                .is_some_and(|hint| hint.contains("fugue send --force"))
        );
    }
    let refused = test_env.refused(&["send", &pane.to_string(), "echo three", "--enter"], 1);
    assert!(refused.message.contains("a person has begun a line"));
    viewer.until(pane, |drawn| drawn.head.held.is_none());
    viewer.type_keys(pane, "\r");
    viewer.until(pane, |drawn| drawn.rows.iter().any(|row| row == "mine"));
    let text = test_env.text(pane);
    for word in ["one", "two", "three"] {
        assert!(!text.contains(word), "{text}");
    }
}

#[test]
fn forced_input_goes_into_a_draft() {
    let test_env = test_env();
    let (pane, mut viewer) = shell(&test_env);
    viewer.type_keys(pane, "echo mine");
    viewer.until(pane, |drawn| drawn.shows("echo mine"));
    let polite = send(&mut viewer, pane, "echo later", 1);
    viewer.until(pane, |drawn| drawn.head.held.is_some());
    let name = pane.to_string();
    test_env.fugue(&["send", &name, " too", "--force"]).ok();
    viewer.until(pane, |drawn| drawn.shows("echo mine too"));
    assert!(!viewer.is_answered(polite), "it is still a person's line");
    test_env.fugue(&["send", &name, "--enter", "--force"]).ok();
    assert_eq!(submitted(viewer.response(polite)), SubmitResult::Yes);
    viewer.until(pane, |drawn| drawn.rows.iter().any(|row| row == "later"));
    assert!(test_env.text(pane).contains("\nmine too\n"));
}

#[test]
fn keys_of_an_agent_reach_a_dialog_in_which_a_person_moved_the_choice() {
    let test_env = test_env();
    test_env.configure("draft_wait_secs = 0.3");
    let got = test_env.work().join("got");
    let dialog = "Proceed?\\r\\n❯ 1. Yes\\r\\n  2. No\\r\\n\\r\\nEnter to confirm · Esc to cancel";
    let command = format!(
        "stty raw -echo; printf '{dialog}'; exec cat > {}",
        got.display()
    );
    let pane = test_env.pane(&command).pane_id;
    let is_got = |keys: &str| {
        until("the keys are there", LIMIT, || {
            std::fs::read_to_string(&got).is_ok_and(|got| got == keys)
        });
    };
    let mut viewer = AttachClient::new(&test_env);
    viewer.until(pane, |drawn| drawn.shows("Esc to cancel"));
    // The dialog is recognised by the program that the last probe has found.
    test_env.status(pane);
    viewer.type_keys(pane, "\x1b[B");
    is_got("\x1b[B");
    let submit = send(&mut viewer, pane, "y", 1);
    let error = viewer.response(submit).expect_err("refused");
    assert!(error.message.contains("shows a dialog"), "{error}");
    let text = json!({"pane_id": pane.to_string(), "input": "y"});
    let text = viewer.call("send_input", text, IdempotencyKey([2; 16]));
    let error = viewer.response(text).expect_err("refused");
    assert!(error.message.contains("has begun a line"), "{error}");
    let keys = json!({"pane_id": pane.to_string(), "keys": ["Up"]});
    let keys = viewer.call("send_input", keys, IdempotencyKey([3; 16]));
    viewer.response(keys).expect("it is typed");
    is_got("\x1b[B\x1b[A");
}

#[test]
fn unsent_input_of_an_agent_is_no_draft() {
    let test_env = test_env();
    let (pane, mut viewer) = shell(&test_env);
    let name = pane.to_string();
    test_env.fugue(&["send", &name, "echo half"]).ok();
    viewer.until(pane, |drawn| drawn.shows("echo half"));
    assert_eq!(test_env.status(pane).note, None);
    test_env
        .fugue(&["send", &name, " and half", "--enter"])
        .ok();
    viewer.until(pane, |drawn| {
        drawn.rows.iter().any(|row| row == "half and half")
    });
    // A person continues the line, which makes it a draft.
    test_env.fugue(&["send", &name, "echo ours"]).ok();
    viewer.until(pane, |drawn| drawn.shows("echo ours"));
    viewer.type_keys(pane, " now");
    let agent = send(&mut viewer, pane, "echo mine", 1);
    viewer.until(pane, |drawn| drawn.head.held.is_some());
    viewer.type_keys(pane, "\r");
    viewer.response(agent).expect("it is typed");
    viewer.until(pane, |drawn| drawn.rows.iter().any(|row| row == "mine"));
    assert!(test_env.text(pane).contains("\nours now\n"));
}

#[test]
fn mouse_events_are_no_draft_and_programs_without_prompts_have_drafts() {
    let test_env = test_env();
    let pane = test_env.pane("stty -echo; printf ready; exec cat").pane_id;
    let mut viewer = AttachClient::new(&test_env);
    viewer.until(pane, |drawn| drawn.shows("ready"));
    viewer.type_keys(pane, "\x1b[I");
    let ran = test_env.start(&["send", &pane.to_string(), "by an agent", "--enter"]);
    ran.end(LIMIT).ok();
    viewer.until(pane, |drawn| drawn.shows("by an agent"));
    viewer.type_keys(pane, "by a ");
    let agent = send(&mut viewer, pane, "another", 1);
    viewer.until(pane, |drawn| drawn.head.held.is_some());
    viewer.type_keys(pane, "person\r");
    viewer.response(agent).expect("it is typed");
    viewer.until(pane, |drawn| drawn.shows("another"));
    let text = test_env.text(pane);
    assert!(text.contains("by a person\nanother"), "{text}");
}

#[test]
fn the_end_of_a_pane_ends_waiting_input() {
    let test_env = test_env();
    let (pane, mut viewer) = shell(&test_env);
    viewer.type_keys(pane, "abc");
    let agent = send(&mut viewer, pane, "echo", 1);
    viewer.until(pane, |drawn| drawn.head.held.is_some());
    test_env.close(pane);
    let error = viewer
        .response(agent)
        .expect_err("there is nothing to type into");
    assert_eq!(error.kind, ErrorKind::Ended);
}

#[test]
fn a_message_is_not_typed_into_a_draft() {
    let test_env = test_env();
    test_env.configure(
        "idle_threshold_secs = 0.2\n[agents.reader]\ncommand = [\"bash\", \"{prompt_file}\"]\n",
    );
    test_env.fugue(&["daemon", "start"]).ok();
    let mut viewer = AttachClient::new(&test_env);
    let spawn = json!({
        "name": "w", "agent": "reader", "cwd": "/tmp",
        "prompt": "while read -r line; do echo \"<$line>\"; done",
    });
    let spawned = viewer.call("spawn_worker", spawn, IdempotencyKey([1; 16]));
    let Ok(Response::Tool {
        reply: fugue_api::ToolReply::SpawnWorker(worker),
    }) = viewer.response(spawned)
    else {
        panic!("a worker");
    };
    let pane = worker.pane_id;
    viewer.type_keys(pane, "abc");
    viewer.until(pane, |drawn| drawn.shows("abc"));
    // The second message finds a pane that waits already.
    for number in [2, 3] {
        let message = json!({"to": "w-reader", "body": "go on", "deliver": "type"});
        let sent = viewer.call("send_message", message, IdempotencyKey([number; 16]));
        let Ok(Response::Tool {
            reply: fugue_api::ToolReply::SendMessage(sent),
        }) = viewer.response(sent)
        else {
            panic!("it is sent");
        };
        let reason = sent.reason.expect("a reason");
        // The second: the program reads its terminal with a text in the line.
        let is_named = ["begun a line", "waits for a person: abc"]
            .iter()
            .any(|why| reason.contains(why));
        assert!(is_named, "{reason}");
    }
    // Five times the idle timeout of an agent.
    until("it has been silent", LIMIT, || {
        test_env.status(pane).idle_ms > 1_000
    });
    assert!(!test_env.text(pane).contains("Message"));
    // The person's line arrives complete, and the message is not lost.
    viewer.type_keys(pane, "\r");
    let text = test_env.until_printed(pane, |text| text.contains("<abc>"));
    assert!(!text.contains("Message"), "{text}");
    let left: serde_json::Value = test_env.json(&["events", "--inbox", "attach/w-reader.1"]);
    assert_eq!(left["events"][0]["body"], "go on", "{left}");
}
