//! Calls that wait for a start that is not stored, and repeated starts.

use fugue_api::{
    PaneId, RunId, ToolCall,
    wire::{IdempotencyKey, Request},
};
use serde_json::json;

use crate::{
    CallId, CoreInput, Effect, ExitStatus, PaneEvent, Undo, core::tests::Story, settings::Settings,
};

fn request(tool: &str, args: serde_json::Value) -> ToolCall {
    ToolCall::parse(tool, args).unwrap_or_else(|error| panic!("{error}"))
}

fn opened() -> PaneEvent {
    PaneEvent::Opened {
        pid: 100,
        cursor: crate::view::start(),
        tmux: None,
    }
}

fn ended() -> PaneEvent {
    PaneEvent::Ended {
        exit: ExitStatus::Code(0),
        cursor: crate::view::start(),
        title: String::new(),
        alone: true,
        sweeps: false,
        lost_by_reboot: false,
    }
}

#[test]
fn everybody_who_waits_for_a_run_that_was_not_recorded_is_answered() {
    let mut story = Story::new(Settings::default());
    let run = request(
        "fugue_run_parallel",
        json!({"commands": [{"command": "make"}], "run_id": "r"}),
    );
    story.ask(1, 1, "", run);
    let run = RunId("r".into());
    story.ask_for(
        2,
        Request::RunProgress {
            run: run.clone(),
            seen: 1,
        },
    );
    story.ask(3, 3, "", request("close_pane", json!({"pane_id": "p1"})));
    assert!(!story.was_told(2) && !story.was_told(3), "both wait");
    story.step(CoreInput::NotStored {
        what: Undo::Run(run),
        why: "no space".into(),
    });
    for call in 1..=3 {
        assert_eq!(story.told(call)["kind"], "exhausted", "call {call}");
    }
}

#[test]
fn whoever_closes_a_pane_that_was_not_recorded_is_answered() {
    let mut story = Story::new(Settings::default());
    story.ask(1, 1, "", request("create_pane", json!({"command": "make"})));
    story.ask(2, 2, "", request("close_pane", json!({"pane_id": "p1"})));
    story.step(CoreInput::NotStored {
        what: Undo::Pane(PaneId(1)),
        why: "no space".into(),
    });
    for call in 1..=2 {
        assert_eq!(story.told(call)["kind"], "exhausted", "call {call}");
    }
}

#[test]
fn closing_waits_for_no_disk_and_its_answer_neither() {
    let mut story = Story::new(Settings::default());
    story.ask(1, 1, "", request("create_pane", json!({"command": "make"})));
    story.fact(1, opened());
    let close = request("close_pane", json!({"pane_id": "p1"}));
    let asked = story.asked(2, close);
    let effects = story.effects(CoreInput::Call {
        call: CallId(2),
        asked,
    });
    assert!(
        matches!(
            effects.effects[..],
            [Effect::ClosePane {
                pane: PaneId(1),
                ..
            }]
        ),
        "the holder is told first"
    );
    story.fact(1, ended());
    let pane = PaneId(1);
    let fact = PaneEvent::Swept;
    let effects = story.effects(CoreInput::Pane { pane, event: fact });
    assert!(
        matches!(
            effects.effects[..],
            [Effect::Reply {
                call: CallId(2),
                ..
            }]
        ),
        "the exit is on record in the pane's directory"
    );
}

#[test]
fn a_call_asked_again_after_what_it_started_was_forgotten_starts_nothing() {
    let started: [(&str, serde_json::Value, &str); 3] = [
        ("create_pane", json!({"command": "make"}), "pane `p1`"),
        (
            "fugue_run_parallel",
            json!({"commands": [{"command": "make"}]}),
            "run `",
        ),
        (
            "fugue_run_pipeline",
            json!({"commands": [{"command": "make"}], "cleanup": true}),
            "run `",
        ),
    ];
    for (tool, args, says) in started {
        let mut story = Story::new(Settings::default());
        story.ask(1, 7, "", request(tool, args.clone()));
        story.fact(1, opened());
        story.fact(1, ended());
        story
            .after(25 * 60 * 60 * 1000)
            .step(CoreInput::TimerExpired);
        story.fact(1, PaneEvent::Removed);
        assert!(
            story.disk().panes.is_empty(),
            "{tool}: the pane is forgotten"
        );
        assert!(story.disk().runs.is_empty(), "{tool}: the run is forgotten");
        for (call, restart) in [(2, false), (3, true)] {
            if restart {
                story.restart();
            }
            let effects = story.ask(call, 7, "", request(tool, args.clone()));
            assert!(!effects.contains("open"), "{tool}: {effects}");
            let told = story.told(call);
            let said = told["message"].as_str().unwrap_or_default();
            assert!(
                said.contains("made before") && said.contains(says),
                "{told}"
            );
        }
    }
}

#[test]
fn a_call_whose_pane_could_not_be_opened_may_be_made_again() {
    let mut story = Story::new(Settings::default());
    let create = || request("create_pane", json!({"command": "make"}));
    story.ask(1, 7, "", create());
    story.fact(1, PaneEvent::OpenFailed(fugue_api::Error::invalid("no")));
    assert!(story.disk().starts.is_empty());
    story.ask(2, 7, "", create());
    story.fact(2, opened());
    assert_eq!(story.told(2)["pane_id"], "p2");
    assert_eq!(story.disk().starts[0].key, IdempotencyKey([7; 16]));
}
