use fugue_api::{Request, wire::Who};
use serde_json::{Value, json};

use crate::{
    core::tests::{Story, exited, opened},
    settings::Settings,
};

fn lead() -> Who {
    Who::Session { id: "lead".into() }
}

fn story() -> Story {
    let mut story = Story::new(Settings::default());
    story.speaks(lead());
    story
}

#[track_caller]
fn call(story: &mut Story, call: u64, tool: &str, args: Value) -> String {
    let request = Request::parse(tool, args).expect("a good request");
    story.ask(call, call as u8, "", request)
}

#[test]
fn an_event_that_was_there_before_comes_at_once_and_once() {
    let mut story = story();
    let notice = json!({"session_id": "lead", "worker_id": "w", "status": "success"});
    assert_eq!(
        call(&mut story, 1, "notify_completion", notice),
        "commit 2, answer 1"
    );
    assert_eq!(
        call(&mut story, 2, "wait_for_event", json!({})),
        "commit 0, hand 2 e1"
    );
    assert_eq!(
        call(&mut story, 3, "wait_for_event", json!({"timeout_secs": 0})),
        "answer 3"
    );
    let _ = (exited(0), opened());
}
