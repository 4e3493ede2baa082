//! Scripts of calls, hook reports and pane events of workers.

mod attention;
mod completions;
mod inboxes;
mod questions;
mod spawning;
mod typed_messages;

use fugue_api::{
    Error, ErrorKind, EventId, PaneId, QuestionId, ToolCall,
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
        note: None,
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
