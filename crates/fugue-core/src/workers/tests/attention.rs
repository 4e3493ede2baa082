//! Attention requests and deadlines of workers.

use super::*;

fn asks(prompt: &str, by: StateSource) -> PaneEvent {
    PaneEvent::AttentionChanged(Some((prompt.into(), by)))
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
    story.fact(1, PaneEvent::AttentionChanged(None));
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
fn a_read_of_the_terminal_without_a_prompt_is_no_question_and_ends_none() {
    let mut story = story();
    live(&mut story, 1, "w", 1, 1);
    story.speaks(worker("w-a", 1));
    assert_eq!(story.fact(1, asks(" ", StateSource::TtyRead)), "");
    hook(&mut story, 2, needs("Bash: rm x"));
    assert_eq!(story.fact(1, asks("", StateSource::TtyRead)), "");
    assert!(story.disk().workers[0].record.asks.is_some());
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
