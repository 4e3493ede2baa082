//! What workers are doing: attention requests, turns without a report, usage limits and deadlines.

use fugue_api::pane_state::{AttentionKind, DialogChoice};

use super::*;
use crate::{
    ObservedAgent,
    pane_machine::{AgentDialog, AgentNotice, AgentSight, UsageLimit},
};

fn sees(story: &mut Story, sight: AgentSight) -> String {
    let name = Some("a".to_owned());
    story.fact(1, PaneEvent::AgentObserved(ObservedAgent { name, sight }))
}

fn asks(question: &str) -> AgentSight {
    let choice = |key: &str, label: &str| DialogChoice {
        key: key.into(),
        label: label.into(),
    };
    AgentSight::Asks {
        dialog: AgentDialog {
            question: question.into(),
            kind: AttentionKind::Permission,
            choices: vec![choice("1", "Yes"), choice("2", "No")],
            limit: None,
        },
        by: StateSource::Screen,
    }
}

fn reads(prompt: &str) -> AgentSight {
    AgentSight::Asks {
        dialog: AgentDialog::unknown(prompt),
        by: StateSource::TtyRead,
    }
}

fn rests(message: &str) -> AgentSight {
    AgentSight::Idle {
        unsent: false,
        notice: AgentNotice {
            message: message.into(),
            ..AgentNotice::default()
        },
    }
}

fn limited(resume_at: &str) -> AgentSight {
    AgentSight::Idle {
        unsent: false,
        notice: AgentNotice {
            message: "you have hit your usage limit".into(),
            limit: Some(UsageLimit {
                resume_at: Some(resume_at.into()),
            }),
            is_cancelled: false,
        },
    }
}

fn needs(prompt: &str) -> HookReport {
    HookReport::NeedsInput {
        prompt: prompt.into(),
        kind: AttentionKind::Permission,
    }
}

/// A worker whose agent was given its prompt.
fn prompted() -> Story {
    let mut story = story();
    live(&mut story, 100, "w", 1, 1);
    story.speaks(worker("w-a", 1));
    hook(&mut story, 101, HookReport::PromptGiven);
    story
}

/// The state and the source of the worker's agent, and the state of the worker.
fn state(story: &Story) -> (String, String, String) {
    let status = story.core.team.agent_status(PaneId(1)).expect("an agent");
    let row = story.core.team.worker_row(PaneId(1)).expect("a worker");
    let word = |value: Value| value.as_str().expect("a word").to_owned();
    (
        word(json!(status.state)),
        word(json!(status.by)),
        word(json!(row.state)),
    )
}

#[track_caller]
fn check_state(story: &Story, agent: &str, by: &str, worker: &str) {
    let expected = (agent.to_owned(), by.to_owned(), worker.to_owned());
    assert_eq!(state(story), expected);
}

/// The next event, which nobody else gets.
#[track_caller]
fn event(story: &mut Story, number: u64) -> Value {
    story.speaks(session("lead"));
    any(story, number);
    let told = story.told(number).clone();
    if let Some(id) = told["event_id"].as_str() {
        let id = id[1..].parse().expect("a number");
        took(story, number + 1, id);
    }
    story.speaks(worker("w-a", 1));
    told
}

#[test]
fn a_dialog_is_told_once_when_the_screen_shows_it() {
    let mut story = prompted();
    assert_eq!(
        hook(&mut story, 2, needs("Bash: rm x")),
        "commit 1, answer 2",
        "it may not take keys yet"
    );
    check_state(&story, "needs_input", "hook", "needs_input");
    assert_eq!(hook(&mut story, 3, needs("still")), "answer 3");
    assert_eq!(sees(&mut story, asks("Do you want to?")), "commit 3");
    assert_eq!(sees(&mut story, asks("Do you want to?")), "commit 1");
    let told = event(&mut story, 4);
    assert_eq!(
        json!([told["prompt"], told["by"], told["pane_id"], told["kind"]]),
        json!(["Bash: rm x", "hook", "p1", "permission"])
    );
    assert_eq!(
        told["choices"],
        json!([{"key": "1", "label": "Yes"}, {"key": "2", "label": "No"}])
    );
    let next = told["next"].as_str().expect("a call");
    assert!(
        next.starts_with(r#"send_input {"pane_id":"p1","keys":["1"]}"#),
        "{next}"
    );
    assert_eq!(event(&mut story, 6)["type"], "timeout");
    hook(&mut story, 8, HookReport::InputNoLongerNeeded);
    check_state(&story, "working", "hook", "working");
    sees(&mut story, AgentSight::Working);
    sees(&mut story, asks("And this?"));
    let told = event(&mut story, 9);
    assert_eq!(
        json!([told["prompt"], told["by"]]),
        json!(["And this?", "screen"])
    );
}

#[test]
fn a_dialog_that_follows_another_without_a_gap_is_another() {
    let mut story = prompted();
    hook(&mut story, 2, needs("Bash: one"));
    hook(&mut story, 3, needs("Bash: two"));
    sees(&mut story, asks("one?"));
    assert_eq!(event(&mut story, 4)["prompt"], "Bash: one");
    sees(&mut story, asks("two?"));
    assert_eq!(event(&mut story, 6)["prompt"], "two?");
    assert_eq!(event(&mut story, 8)["type"], "timeout");
}

#[test]
fn a_dialog_that_a_hook_reports_is_not_taken_for_the_one_before() {
    let mut story = prompted();
    hook(&mut story, 2, needs("Bash: one"));
    sees(&mut story, asks("Run one, yes or no, whatever you like?"));
    assert_eq!(event(&mut story, 3)["prompt"], "Bash: one");
    hook(&mut story, 5, HookReport::InputNoLongerNeeded);
    hook(&mut story, 6, needs("Bash: two"));
    assert_eq!(
        event(&mut story, 7)["type"],
        "timeout",
        "it is not shown yet"
    );
    sees(&mut story, asks("Run two, yes or no, whatever you like?"));
    assert_eq!(event(&mut story, 9)["prompt"], "Bash: two");
    // Another width.
    sees(&mut story, asks("Run two, yes or · no, whatever you like?"));
    assert_eq!(event(&mut story, 11)["type"], "timeout");
}

#[test]
fn a_dialog_of_an_unknown_shape_is_told_after_a_moment() {
    let mut story = prompted();
    hook(&mut story, 2, needs("Bash: rm x"));
    story.restart();
    story.after(4_000).step(CoreInput::TimerExpired);
    assert_eq!(event(&mut story, 3)["prompt"], "Bash: rm x");
    let mut story = prompted();
    hook(&mut story, 2, needs("Bash: rm x"));
    assert_eq!(story.after(1_499).step(CoreInput::TimerExpired), "");
    assert_eq!(story.after(1).step(CoreInput::TimerExpired), "commit 3");
    let told = event(&mut story, 3);
    assert_eq!(told["prompt"], "Bash: rm x");
    assert!(
        told["next"].as_str().unwrap().starts_with("read_pane"),
        "{told}"
    );
}

#[test]
fn a_request_that_the_agent_answers_by_itself_is_not_told() {
    let mut story = prompted();
    hook(&mut story, 2, needs("Bash: ls"));
    sees(&mut story, AgentSight::Working);
    check_state(&story, "needs_input", "hook", "needs_input");
    story.after(1_500).step(CoreInput::TimerExpired);
    assert_eq!(event(&mut story, 3)["type"], "timeout");
    check_state(&story, "working", "screen", "working");
}

#[test]
fn an_event_whose_dialog_is_gone_is_withdrawn() {
    for gone in [
        HookReport::InputNoLongerNeeded,
        HookReport::PromptGiven,
        ended("done"),
    ] {
        let mut story = prompted();
        sees(&mut story, asks("May it?"));
        hook(&mut story, 2, gone.clone());
        assert_eq!(story.disk().workers[0].record.asks, None);
        let told = event(&mut story, 3);
        assert_ne!(told["type"], "worker_needs_input", "{gone:?}");
    }
    let mut story = prompted();
    sees(&mut story, asks("May it?"));
    sees(&mut story, AgentSight::Working);
    assert_eq!(event(&mut story, 3)["type"], "timeout");
    assert_eq!(story.disk().events, []);
}

#[test]
fn an_event_that_is_withdrawn_while_a_call_has_it_does_not_come_back() {
    let mut story = prompted();
    sees(&mut story, asks("May it?"));
    story.speaks(session("lead"));
    assert_eq!(any(&mut story, 3), "hand 3 e1");
    story.speaks(worker("w-a", 1));
    hook(&mut story, 4, HookReport::InputNoLongerNeeded);
    story.speaks(session("lead"));
    assert_eq!(cancel(&mut story, 3), "commit 1");
    assert_eq!(any(&mut story, 5), "nothing for 5");
}

#[test]
fn a_read_of_the_terminal_without_a_prompt_is_no_question_and_ends_none() {
    let mut story = prompted();
    assert_eq!(sees(&mut story, reads("")), "");
    hook(&mut story, 2, needs("Bash: rm x"));
    assert_eq!(sees(&mut story, reads(" ")), "");
    assert!(story.disk().workers[0].record.asks.is_some());
}

#[test]
fn a_turn_that_ends_without_a_report_is_told_once() {
    let mut story = prompted();
    sees(&mut story, AgentSight::Working);
    check_state(&story, "working", "screen", "working");
    sees(&mut story, rests("■ stream error: 500"));
    check_state(&story, "idle", "screen", "resting");
    sees(&mut story, rests("the same"));
    let told = event(&mut story, 2);
    assert_eq!(
        json!([told["type"], told["worker_id"], told["message"]]),
        json!(["worker_idle", "w-a", "■ stream error: 500"])
    );
    assert_eq!(event(&mut story, 4)["type"], "timeout");
    // The next prompt is another turn.
    hook(&mut story, 6, HookReport::PromptGiven);
    assert_eq!(story.disk().workers[0].record.turn, 2);
    sees(&mut story, AgentSight::Working);
    sees(&mut story, rests("interrupted"));
    assert_eq!(event(&mut story, 7)["message"], "interrupted");
}

#[test]
fn a_refused_dialog_ends_the_turn_and_is_told() {
    let mut story = prompted();
    sees(&mut story, AgentSight::Working);
    hook(&mut story, 2, needs("Bash: rm x"));
    sees(&mut story, asks("May it?"));
    sees(&mut story, rests("Interrupted"));
    assert_eq!(story.disk().workers[0].record.asks, None);
    assert_eq!(event(&mut story, 3)["type"], "worker_idle");
    assert_eq!(event(&mut story, 5)["type"], "timeout");
}

#[test]
fn a_report_that_comes_late_replaces_the_event_of_the_screen() {
    let mut story = prompted();
    sees(&mut story, AgentSight::Working);
    sees(&mut story, rests("done"));
    hook(&mut story, 2, ended("all done"));
    worked_out(&mut story, 1);
    assert_eq!(event(&mut story, 3)["message"], "all done");
    assert_eq!(event(&mut story, 5)["type"], "timeout");
    check_state(&story, "idle", "hook", "resting");
}

#[test]
fn an_agent_that_starts_is_not_idle_and_one_without_hooks_has_turns_too() {
    let mut story = story();
    spawn(&mut story, 100, "w", json!({}));
    prepared(&mut story, 1, false);
    story.fact(1, opened());
    sees(&mut story, rests("welcome"));
    check_state(&story, "working", "exit", "working");
    for turn in [1, 2] {
        sees(&mut story, AgentSight::Working);
        sees(&mut story, rests("bye"));
        story.speaks(session("lead"));
        any(&mut story, turn);
        assert_eq!(story.told(turn)["type"], "worker_idle");
        assert_eq!(u64::from(story.disk().workers[0].record.turn), turn);
    }
}

#[test]
fn a_usage_limit_is_no_failure_and_ends_with_the_next_prompt() {
    let reported = HookReport::TurnPaused {
        message: "resets 3pm".into(),
        resume_at: Some("3pm".into()),
    };
    let mut story = prompted();
    // The screen may show work for a moment after the hook.
    sees(&mut story, AgentSight::Working);
    for number in [10, 20, 30] {
        match number {
            10 => drop(hook(&mut story, number, reported.clone())),
            _ => drop(sees(&mut story, limited("3pm"))),
        }
        if number == 10 {
            sees(&mut story, AgentSight::Working);
        }
        let by = if number == 10 { "hook" } else { "screen" };
        check_state(&story, "paused", by, "paused");
        let told = event(&mut story, number + 1);
        assert_eq!(
            json!([told["type"], told["resume_at"]]),
            json!(["worker_paused", "3pm"])
        );
        sees(&mut story, rests("resets 3pm"));
        assert_eq!(event(&mut story, number + 3)["type"], "timeout");
        hook(&mut story, number + 5, HookReport::PromptGiven);
        check_state(&story, "working", "hook", "working");
        sees(&mut story, AgentSight::Working);
    }
    assert!(!story.disk().workers[0].record.failed);
}

#[test]
fn a_dialog_about_a_limit_is_a_pause_until_it_is_answered() {
    let mut story = prompted();
    sees(&mut story, AgentSight::Working);
    let mut sight = asks("Usage limit reached. What now?");
    if let AgentSight::Asks { dialog, .. } = &mut sight {
        dialog.limit = Some(UsageLimit { resume_at: None });
    }
    sees(&mut story, sight);
    let told = event(&mut story, 2);
    assert_eq!(
        json!([told["type"], told["message"]]),
        json!([
            "worker_paused",
            "Usage limit reached. What now?\n1. Yes\n2. No"
        ])
    );
    let status = story.core.team.agent_status(PaneId(1)).expect("an agent");
    assert_eq!(status.request.expect("a dialog").choices.len(), 2);
    let failed = HookReport::TurnFailed {
        message: String::new(),
    };
    story.after(1_000);
    sees(&mut story, AgentSight::Working);
    check_state(&story, "working", "screen", "working");
    hook(&mut story, 4, failed);
    sees(&mut story, limited("later"));
    assert_eq!(event(&mut story, 5)["type"], "timeout");
    check_state(&story, "paused", "screen", "paused");
}

#[test]
fn a_failure_without_words_takes_them_from_the_screen() {
    let failed = || HookReport::TurnFailed {
        message: String::new(),
    };
    let mut story = prompted();
    hook(&mut story, 2, failed());
    sees(&mut story, rests("✕ [API Error: 500]"));
    worked_out(&mut story, 1);
    let told = event(&mut story, 3);
    assert_eq!(
        json!([told["type"], told["status"], told["message"]]),
        json!(["worker_complete", "error", "✕ [API Error: 500]"])
    );
    check_state(&story, "failed", "hook", "failed");
    hook(&mut story, 5, HookReport::PromptGiven);
    hook(&mut story, 6, failed());
    sees(&mut story, limited("tomorrow"));
    assert_eq!(event(&mut story, 7)["type"], "worker_paused");
    hook(&mut story, 9, HookReport::PromptGiven);
    sees(&mut story, AgentSight::Working);
    hook(&mut story, 20, failed());
    let cancelled = AgentSight::Idle {
        unsent: false,
        notice: AgentNotice {
            is_cancelled: true,
            ..AgentNotice::default()
        },
    };
    sees(&mut story, cancelled);
    assert_eq!(event(&mut story, 21)["type"], "worker_idle");
    hook(&mut story, 23, HookReport::PromptGiven);
    hook(&mut story, 10, failed());
    let said = story.after(4_000).step(CoreInput::TimerExpired);
    assert!(said.contains("work out 1"), "{said}");
    worked_out(&mut story, 1);
    assert_eq!(event(&mut story, 11)["message"], "last line");
}

#[test]
fn work_in_the_background_is_not_the_end_of_a_turn() {
    let mut story = prompted();
    sees(&mut story, AgentSight::Working);
    hook(&mut story, 2, HookReport::BackgroundWork);
    sees(&mut story, rests("it runs in the background"));
    assert_eq!(event(&mut story, 3)["type"], "timeout");
    check_state(&story, "working", "hook", "working");
    hook(&mut story, 5, ended("all of it is done"));
    worked_out(&mut story, 1);
    assert_eq!(event(&mut story, 6)["message"], "all of it is done");
    assert_eq!(event(&mut story, 8)["type"], "timeout");
}

#[test]
fn an_interrupted_worker_takes_messages_again() {
    let mut story = prompted();
    sees(&mut story, AgentSight::Working);
    sees(&mut story, rests("Interrupted"));
    story.speaks(session("lead"));
    let args = json!({"to": "w-a", "body": "go on", "deliver": "type"});
    let said = call(&mut story, 2, "send_message", args);
    assert_eq!(said, "await rest of p1, commit 2");
    assert_eq!(
        story.fact(1, PaneEvent::IdleReport(IdleState::Now)),
        "type e2 into p1"
    );
}

#[test]
fn a_prompt_that_came_back_into_the_box_is_said() {
    let mut story = prompted();
    sees(&mut story, AgentSight::Working);
    let unsent = AgentSight::Idle {
        unsent: true,
        notice: AgentNotice::default(),
    };
    sees(&mut story, unsent);
    let message = event(&mut story, 2)["message"].take();
    let message = message.as_str().expect("a text");
    assert!(message.contains("unsent text"), "{message}");
}

#[test]
fn what_was_told_is_not_told_again_by_the_next_daemon() {
    let mut story = prompted();
    sees(&mut story, asks("May it?"));
    story.restart();
    sees(&mut story, asks("May it?"));
    assert_eq!(event(&mut story, 2)["prompt"], "May it?");
    assert_eq!(event(&mut story, 4)["type"], "timeout");
    sees(&mut story, rests("refused"));
    story.restart();
    sees(&mut story, rests("refused"));
    assert_eq!(event(&mut story, 6)["type"], "worker_idle");
    assert_eq!(event(&mut story, 8)["type"], "timeout");
    check_state(&story, "idle", "screen", "resting");
}

#[test]
fn an_agent_that_is_closed_in_the_middle_of_its_turn_has_not_succeeded() {
    let mut story = prompted();
    call(&mut story, 2, "close_pane", json!({"pane_id": "p1"}));
    story.speaks(session("lead"));
    call(&mut story, 3, "close_pane", json!({"pane_id": "p1"}));
    story.fact(1, exited(0));
    worked_out(&mut story, 1);
    let told = event(&mut story, 4);
    assert_eq!(
        json!([told["type"], told["status"]]),
        json!(["worker_complete", "error"])
    );
    check_state(&story, "ended", "exit", "failed");
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
