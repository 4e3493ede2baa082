//! The calls of model clients: a lead session, another session, and a worker.

use fugue_api::{PaneId, QuestionId, ToolCall, wire::CallerIdentity};
use serde_json::{Value, json};

use super::{random::Random, system::SimulatedSystem};

/// Any call of any client, about panes and runs that may exist.
pub(super) fn any_call(system: &mut SimulatedSystem) -> (CallerIdentity, ToolCall) {
    let stored = system.store.snapshot();
    let random = &mut system.random;
    let live = stored.panes.iter();
    let live = live.filter(|pane| pane.pid != 0 && pane.ended.is_none());
    let live: Vec<PaneId> = live.map(|pane| pane.id).collect();
    let pane = match live.is_empty() || random.one_in(4) {
        true => PaneId(1 + random.below(stored.next_pane.max(2) as usize) as u64),
        false => random.pick(&live),
    };
    let runs: Vec<String> = stored
        .runs
        .iter()
        .map(|run| run.record.id.0.clone())
        .collect();
    let run = match runs.is_empty() {
        true => "none".to_owned(),
        false => runs[random.below(runs.len())].clone(),
    };
    let timeout_ms = random.pick(&[1_000, 10_000, 60_000]);
    let flag = random.one_in(2);
    let commands = |random: &mut Random| {
        let count = 1 + random.below(3);
        vec![json!({"command": "make", "env": {"KEY": "value"}}); count]
    };
    let (tool, args) = match random.below(19) {
        0 => ("create_pane", json!({"command": "make"})),
        1 => (
            "create_pane",
            json!({"command": "make", "ready": "x", "timeout_ms": timeout_ms, "env": {"KEY": "value"}}),
        ),
        2 => ("create_pane", json!({})),
        3 | 4 => (
            "fugue_run_parallel",
            json!({"commands": commands(random), "timeout_ms": timeout_ms, "cleanup": flag,
                "fail_fast": random.one_in(2)}),
        ),
        5 => {
            let count = 1 + random.below(3);
            let commands = vec![json!({"command": "make"}); count];
            let args = json!({"commands": commands, "timeout_ms": timeout_ms, "cleanup": flag,
                "stop_on_error": random.one_in(2)});
            ("fugue_run_pipeline", args)
        }
        6 | 7 => (
            "fugue_expect",
            json!({"pane_id": pane.to_string(), "pattern": "x", "timeout_ms": timeout_ms,
                "action": random.pick(&["notify", "close_pane"]),
                "report": random.pick(&["call", "event"])}),
        ),
        15 | 16 => {
            let (tool, args) = watcher_call(pane, random);
            return (session("lead"), parse(tool, args));
        }
        17 => ("cancel_run", json!({"run_id": run})),
        8 => (
            "fugue_wait",
            json!({"run_id": run, "timeout_ms": timeout_ms}),
        ),
        9 | 10 => return wait(random.next()),
        11 => match flag {
            true => (
                "close_pane",
                json!({"pane_id": pane.to_string(), "grace_ms": 10}),
            ),
            false => (
                "spawn_worker",
                json!({"name": "w", "prompt": "true", "agent": "shell"}),
            ),
        },
        12 => {
            return (
                worker(),
                parse("ask_question", json!({"body": "?", "timeout_secs": 30})),
            );
        }
        13 => {
            let open = stored.questions.iter();
            let open: Vec<QuestionId> = open.map(|question| question.id).collect();
            let question = match open.is_empty() {
                true => QuestionId(1),
                false => random.pick(&open),
            };
            (
                "answer_question",
                json!({"question_id": question.to_string(), "answer": "yes"}),
            )
        }
        _ => match flag {
            true => {
                return (
                    worker(),
                    parse("notify_completion", json!({"status": "success"})),
                );
            }
            false => (
                "send_message",
                json!({"to": random.pick(&["other", "w-shell"]), "body": "hello",
                    "deliver": random.pick(&["inbox", "type"])}),
            ),
        },
    };
    (session("lead"), parse(tool, args))
}

fn watcher_call(pane: PaneId, random: &mut Random) -> (&'static str, Value) {
    let pane = pane.to_string();
    match random.below(6) {
        0 => ("clear", json!({"tmux_window": pane})),
        1 => ("pause", json!({"tmux_window": pane})),
        2 | 3 => (
            "look_ma",
            json!({"tmux_window": pane, "status_report": "a part is done",
                "bash_wait": random.pick(&[None, Some("make")])}),
        ),
        _ => (
            "watch_me",
            json!({"tmux_window": pane, "strategy_plan": "all green",
                "done_when": random.pick(&[None, Some("make test")])}),
        ),
    }
}

/// A call for an event.
pub(super) fn wait(random: u64) -> (CallerIdentity, ToolCall) {
    let who = match random % 4 {
        0 => session("other"),
        1 => worker(),
        _ => session("lead"),
    };
    (
        who,
        parse(
            "wait_for_event",
            json!({"types": ["*"], "timeout_secs": random % 50}),
        ),
    )
}

/// The call in a line of the story.
pub(super) fn words(tool: &ToolCall) -> String {
    let text = format!("{tool:?}");
    text.chars().take(100).collect()
}

fn session(id: &str) -> CallerIdentity {
    CallerIdentity::Session { id: id.into() }
}

fn worker() -> CallerIdentity {
    CallerIdentity::Worker {
        session: "lead".into(),
        agent: "w-shell".into(),
        pane: None,
    }
}

fn parse(tool: &str, args: Value) -> ToolCall {
    ToolCall::parse(tool, args).unwrap_or_else(|error| panic!("{tool}: {error:?}"))
}
