use fugue_api::{Error, ErrorKind, PaneId, ToolCall, wire::CallerIdentity};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::{
    Assessment, CommandEnd, CoreInput, InjectionOutcome, PaneActivity, PaneEvent, QuietPane, Undo,
    WatcherStage,
    assess::{Decision, Injection, WatchSettings},
    core::tests::{Story, exited, opened},
    settings::Settings,
};

fn story() -> Story {
    let mut story = Story::new(Settings::default());
    story.speaks(CallerIdentity::Session { id: "lead".into() });
    story.watch = WatchSettings {
        default_wait_sec: 1.0,
        idle_threshold: 3.0,
        ..WatchSettings::default()
    };
    let pane = ToolCall::parse("create_pane", json!({"command": "agent"})).expect("good");
    story.ask(1, 1, "", pane);
    story.fact(1, opened());
    story
}

#[track_caller]
fn call(story: &mut Story, call: u64, tool: &str, args: Value) -> String {
    let request = ToolCall::parse(tool, args).expect("a good request");
    story.ask(call, call as u8, "", request)
}

fn watched() -> Story {
    let mut story = story();
    let plan = json!({"tmux_window": "p1", "strategy_plan": "all green"});
    assert_eq!(call(&mut story, 2, "watch_me", plan), "commit 2, answer 2");
    story
}

fn report(story: &mut Story, number: u64, wait: Option<&str>) -> String {
    let mut args = json!({"tmux_window": "p1", "status_report": "a part is done"});
    if let Some(wait) = wait {
        args["bash_wait"] = json!(wait);
    }
    call(story, number, "look_ma", args)
}

/// The step that is waited for.
fn step(story: &Story) -> u64 {
    story.core_watcher().step
}

fn quiet(story: &mut Story) -> String {
    let fact = PaneEvent::Quiet {
        watcher: 1,
        step: step(story),
        seen: QuietPane {
            tail: "$ ".into(),
            idle_ms: 3000,
            place: PaneActivity::default(),
        },
    };
    story.fact(1, fact)
}

fn line(text: &str) -> Injection {
    Injection::try_from(text.to_owned()).expect("a good line")
}

fn judged(story: &mut Story, decision: Result<Decision, String>) -> String {
    let step = step(story);
    story.step(CoreInput::Assessed {
        watcher: 1,
        step,
        judged: Assessment::Decision(decision),
    })
}

fn ran(story: &mut Story, code: i32) -> String {
    let step = step(story);
    story.step(CoreInput::WatcherCommandEnded {
        watcher: 1,
        step,
        ran: CommandEnd {
            code: Some(code),
            ending: format!("ended with code {code}"),
            output: "out".into(),
        },
    })
}

fn injected(story: &mut Story, how: InjectionOutcome) -> String {
    let step = step(story);
    let fact = PaneEvent::Injected {
        watcher: 1,
        step,
        how,
    };
    story.fact(1, fact)
}

fn state(story: &Story) -> String {
    let state = story.core_watcher().stage.state();
    serde_json::to_value(state)
        .expect("a word")
        .as_str()
        .expect("a word")
        .to_owned()
}

fn task_panicked() -> PaneEvent {
    PaneEvent::TaskPanicked {
        message: "row 7 is gone".into(),
    }
}

/// A pane that is waited on until it is quiet, at most 15 minutes.
fn spinning() -> Story {
    let mut story = watched();
    report(&mut story, 3, None);
    story.after(1000).step(CoreInput::TimerExpired);
    assert_eq!(state(&story), "IDLE_SPIN");
    story
}

#[test]
fn a_pane_that_was_not_watched_during_a_suspend_is_waited_for_anew() {
    let mut story = spinning();
    let said = story.after(8 * 3_600_000).step(CoreInput::TimerExpired);
    assert!(said.contains("await 3s of quiet in p1"), "{said}");
    assert_eq!(state(&story), "IDLE_SPIN");
    // It is given all its time again, and then given up on with the right reason.
    assert_eq!(
        story.after(900_000).step(CoreInput::TimerExpired),
        "forget quiet in p1, commit 3, stop judging"
    );
    assert_eq!(state(&story), "PAUSED");
}

#[test]
fn a_pane_whose_task_failed_is_waited_for_again() {
    let mut story = spinning();
    assert_eq!(
        story.fact(1, task_panicked()),
        "adopt p1, await 3s of quiet in p1"
    );
    assert_eq!(state(&story), "IDLE_SPIN");
    quiet(&mut story);
    assert_eq!(state(&story), "ASSESS");
}

#[test]
fn an_injection_of_a_failed_task_pauses_the_watcher_and_is_not_repeated() {
    let mut story = spinning();
    quiet(&mut story);
    judged(&mut story, Ok(Decision::Continue(line("go on"))));
    let before = step(&story);
    story.fact(1, task_panicked());
    assert_eq!(state(&story), "PAUSED");
    let late = PaneEvent::Injected {
        watcher: 1,
        step: before,
        how: InjectionOutcome::Typed { submitted: true },
    };
    assert_eq!(story.fact(1, late), "");
}

#[test]
fn the_watcher_of_a_pane_without_a_start_ends_and_its_pause_is_refused() {
    let not_opened = CoreInput::Pane {
        pane: PaneId(1),
        event: PaneEvent::OpenFailed(Error::new(ErrorKind::Exhausted, "no terminal left")),
    };
    let not_stored = CoreInput::NotStored {
        what: Undo::Pane(PaneId(1)),
        why: "no space".into(),
    };
    for input in [not_opened, not_stored] {
        let mut story = Story::new(Settings::default());
        story.speaks(CallerIdentity::Session { id: "lead".into() });
        let pane = ToolCall::parse("create_pane", json!({"command": "agent"})).expect("good");
        story.ask(1, 1, "", pane);
        let plan = json!({"tmux_window": "p1", "strategy_plan": "all green"});
        call(&mut story, 2, "watch_me", plan);
        call(&mut story, 3, "pause", json!({"tmux_window": "p1"}));
        let effects = story.step(input);
        assert!(effects.contains("refuse 3 Ended"), "{effects}");
        assert!(story.disk().watchers.is_empty());
    }
}

#[test]
fn a_pause_is_answered_although_the_task_of_its_pane_failed() {
    let mut story = watched();
    call(&mut story, 3, "pause", json!({"tmux_window": "p1"}));
    assert_eq!(
        story.fact(1, task_panicked()),
        "adopt p1, await 0ns of quiet in p1"
    );
}

#[test]
fn a_pane_that_was_not_watched_while_no_daemon_ran_is_waited_for_anew() {
    let mut story = spinning();
    let said = story.after(8 * 3_600_000).restart();
    assert!(said.contains("await 3s of quiet in p1"), "{said}");
    story.step(CoreInput::TimerExpired);
    assert_eq!(state(&story), "IDLE_SPIN");
}

#[test]
fn a_wall_clock_that_jumps_pauses_no_watcher_and_wakes_none_early() {
    for wall in [1, 90_000_000_000] {
        let mut story = spinning();
        story.wall_clock_jumps(wall);
        story.after(1000).step(CoreInput::TimerExpired);
        assert_eq!(state(&story), "IDLE_SPIN");
        story.restart();
        story.step(CoreInput::TimerExpired);
        assert_eq!(state(&story), "IDLE_SPIN");
        let mut story = watched();
        report(&mut story, 3, None);
        story.wall_clock_jumps(wall);
        story.step(CoreInput::TimerExpired);
        assert_eq!(state(&story), "WAIT");
        story.after(1000).step(CoreInput::TimerExpired);
        assert_eq!(state(&story), "IDLE_SPIN");
    }
}

#[test]
fn a_report_waits_spins_is_assessed_and_continued() {
    let mut story = watched();
    assert_eq!(state(&story), "ACTIVE");
    assert_eq!(report(&mut story, 3, None), "commit 2, answer 3");
    assert_eq!(state(&story), "WAIT");
    assert_eq!(
        story.after(1000).step(CoreInput::TimerExpired),
        "await 3s of quiet in p1, commit 1"
    );
    assert_eq!(state(&story), "IDLE_SPIN");
    assert_eq!(quiet(&mut story), "commit 1, judge Decide");
    assert_eq!(state(&story), "ASSESS");
    let go_on = Decision::Continue(line("run the tests"));
    assert_eq!(
        judged(&mut story, Ok(go_on)),
        "commit 1, inject \"run the tests\" into p1"
    );
    let done = injected(&mut story, InjectionOutcome::Typed { submitted: true });
    // The decision and its event are one commit.
    assert_eq!(done, "commit 3");
    assert_eq!(state(&story), "STANDBY");
    let roles: Vec<&str> = story
        .core_watcher()
        .transcript
        .entries()
        .iter()
        .map(|entry| entry.role.name())
        .collect();
    assert_eq!(
        roles,
        [
            "plan",
            "status",
            "wait",
            "wait_output",
            "idle_spin",
            "injection",
            "decision"
        ]
    );
}

#[test]
fn a_command_is_waited_for_and_never_run_twice() {
    let mut story = watched();
    assert_eq!(
        report(&mut story, 3, Some("make")),
        "commit 2, answer 3, run make"
    );
    let words = story.restart();
    assert!(
        words.contains("await 3s of quiet") && !words.contains("run"),
        "{words}"
    );
    let noted = story.core_watcher().wait_output.clone().expect("a note");
    assert!(noted.contains("not known"), "{noted}");
}

#[test]
fn stop_pauses_and_a_later_report_is_only_recorded() {
    let mut story = watched();
    report(&mut story, 3, Some("true"));
    ran(&mut story, 0);
    quiet(&mut story);
    assert_eq!(judged(&mut story, Ok(Decision::Stop)), "commit 3");
    assert_eq!(state(&story), "PAUSED");
    assert_eq!(report(&mut story, 4, None), "commit 1, answer 4");
    assert_eq!(state(&story), "PAUSED");
    let plan = json!({"tmux_window": "p1", "strategy_plan": "more"});
    call(&mut story, 5, "watch_me", plan);
    assert_eq!(state(&story), "STANDBY");
}

#[test]
fn stop_is_believed_only_when_the_check_agrees() {
    let mut story = story();
    let plan = json!({"tmux_window": "p1", "strategy_plan": "x", "done_when": "make check"});
    call(&mut story, 2, "watch_me", plan);
    report(&mut story, 3, Some("true"));
    ran(&mut story, 0);
    quiet(&mut story);
    assert_eq!(
        judged(&mut story, Ok(Decision::Stop)),
        "commit 1, run make check"
    );
    let again = ran(&mut story, 1);
    assert!(again.contains("await 3s of quiet"), "{again}");
    assert!(
        story.core_watcher().verdict.is_some(),
        "the model hears of it"
    );
    quiet(&mut story);
    judged(&mut story, Ok(Decision::Stop));
    ran(&mut story, 1);
    assert_eq!(state(&story), "PAUSED", "the same answer twice is enough");
}

#[test]
fn what_moved_in_the_last_moment_is_looked_at_again() {
    let mut story = watched();
    report(&mut story, 3, Some("true"));
    ran(&mut story, 0);
    quiet(&mut story);
    judged(&mut story, Ok(Decision::Continue(line("go"))));
    let again = injected(&mut story, InjectionOutcome::NotNow);
    assert!(again.contains("await 3s of quiet"), "{again}");
    assert_eq!(state(&story), "IDLE_SPIN");
}

#[test]
fn a_line_whose_commit_is_stored_after_a_pause_is_not_to_be_typed() {
    for tool in ["pause", "clear"] {
        let mut story = watched();
        report(&mut story, 3, Some("true"));
        ran(&mut story, 0);
        quiet(&mut story);
        judged(&mut story, Ok(Decision::Continue(line("go"))));
        let step = step(&story);
        assert!(story.core.is_injecting(1, step));
        call(&mut story, 4, tool, json!({"tmux_window": "p1"}));
        assert!(!story.core.is_injecting(1, step), "{tool}");
    }
}

#[test]
fn what_may_not_be_typed_into_pauses_it_with_the_reason() {
    let refused = || InjectionOutcome::Refused("a dialog is shown: Really?".to_owned());
    let reason = |story: &Story| match &story.core_watcher().stage {
        WatcherStage::Paused { reason } => reason.clone(),
        other => panic!("{other:?}"),
    };
    // Before a model is asked, and after it.
    let mut story = watched();
    report(&mut story, 3, Some("true"));
    ran(&mut story, 0);
    let said = injected(&mut story, refused());
    assert!(!said.contains("judge"), "{said}");
    assert_eq!(reason(&story), "a dialog is shown: Really?");
    let mut story = watched();
    report(&mut story, 3, Some("true"));
    ran(&mut story, 0);
    quiet(&mut story);
    judged(&mut story, Ok(Decision::Continue(line("go"))));
    injected(&mut story, refused());
    let wanted = "`go` was not typed: a dialog is shown: Really?";
    assert_eq!(reason(&story), wanted);
}

#[test]
fn a_draft_is_waited_for_and_named_when_the_time_is_over() {
    let mut story = watched();
    report(&mut story, 3, Some("true"));
    ran(&mut story, 0);
    let held = injected(
        &mut story,
        InjectionOutcome::Held("somebody types".to_owned()),
    );
    assert_eq!(
        (held, state(&story)),
        (String::new(), "IDLE_SPIN".to_owned())
    );
    story.after(901_000).step(CoreInput::TimerExpired);
    let WatcherStage::Paused { reason } = &story.core_watcher().stage else {
        panic!("it waits on");
    };
    assert!(reason.contains("because somebody types"), "{reason}");
}

#[test]
fn a_clock_that_is_put_back_is_waited_for_anew() {
    let mut story = watched();
    report(&mut story, 3, None);
    assert_eq!(story.after(400).step(CoreInput::TimerExpired), "");
    assert_eq!(state(&story), "WAIT");
}

#[test]
fn what_is_ended_is_ended_behind_the_commit_that_says_so() {
    let ended = |words: String| {
        let (before, _) = words.split_once("stop judging").expect("it is ended");
        assert!(before.contains("commit"), "{words}");
    };
    for tool in ["pause", "clear"] {
        let mut story = watched();
        report(&mut story, 3, Some("true"));
        ended(call(&mut story, 4, tool, json!({"tmux_window": "p1"})));
    }
    let mut story = watched();
    report(&mut story, 3, Some("true"));
    ended(story.fact(1, exited(0)));
}

#[test]
fn whoever_paused_it_is_answered_when_it_goes_on() {
    let mut story = watched();
    let paused = call(&mut story, 3, "pause", json!({"tmux_window": "p1"}));
    assert!(!paused.contains("answer"), "{paused}");
    let plan = json!({"tmux_window": "p1", "strategy_plan": "more"});
    let resumed = call(&mut story, 4, "watch_me", plan);
    assert!(resumed.contains("refuse 3 Ended"), "{resumed}");
    assert!(resumed.contains("stop judging"), "{resumed}");
    assert!(report(&mut story, 5, None).contains("answer 5"));
}

#[test]
fn a_daemon_killed_in_any_state_types_nothing_twice() {
    for stage in 0..5 {
        let mut story = watched();
        report(&mut story, 3, Some("true"));
        if stage > 0 {
            ran(&mut story, 0);
        }
        if stage > 1 {
            quiet(&mut story);
        }
        if stage > 2 {
            judged(&mut story, Ok(Decision::Continue(line("go"))));
        }
        if stage > 3 {
            injected(&mut story, InjectionOutcome::Typed { submitted: true });
        }
        let words = story.restart();
        assert!(!words.contains("inject"), "stage {stage}: {words}");
        let wanted = match stage {
            0..=2 => "IDLE_SPIN",
            // Whether it was typed is not known, and is said so.
            3 => "PAUSED",
            _ => "STANDBY",
        };
        assert_eq!(state(&story), wanted, "stage {stage}");
    }
}

#[test]
fn a_report_that_is_sent_again_with_its_key_runs_its_command_once() {
    let mut story = watched();
    let args = json!({"tmux_window": "p1", "status_report": "built", "bash_wait": "make"});
    let request = ToolCall::parse("look_ma", args).expect("a good request");
    assert!(story.ask(3, 3, "", request.clone()).contains("answer 3"));
    let first = story.core_watcher();
    // The connection was lost before the reply arrived, and a second time together with the daemon.
    assert_eq!(story.ask(4, 3, "", request.clone()), "answer 4");
    assert_eq!(story.core_watcher(), first);
    story.restart();
    let restarted = story.core_watcher();
    assert_eq!(story.ask(5, 3, "", request.clone()), "answer 5");
    assert_eq!(story.core_watcher(), restarted);
    assert_eq!(story.told(5), &json!({"status": "recorded+waiting"}));
    // A call with a key of its own is another report.
    story.ask(6, 6, "", request);
    assert_eq!(story.core_watcher().reports, [Some("make".to_owned())]);
}

#[test]
fn a_pane_that_ends_ends_its_watcher_with_an_event() {
    let mut story = watched();
    report(&mut story, 3, Some("true"));
    let words = story.fact(1, exited(0));
    assert!(words.contains("stop judging"), "{words}");
    let refused = call(
        &mut story,
        4,
        "look_ma",
        json!({"tmux_window": "p1", "status_report": "x"}),
    );
    assert_eq!(refused, "refuse 4 NotFound");
}

#[test]
fn a_pane_that_never_rests_and_a_model_that_never_answers_well_pause_it() {
    let mut story = watched();
    report(&mut story, 3, Some("true"));
    ran(&mut story, 0);
    let words = story.after(901_000).step(CoreInput::TimerExpired);
    assert!(words.contains("stop judging"), "{words}");
    assert_eq!(state(&story), "PAUSED");
    let mut story = watched();
    report(&mut story, 3, Some("true"));
    ran(&mut story, 0);
    quiet(&mut story);
    judged(&mut story, Err("nonsense, twice".into()));
    assert_eq!(state(&story), "PAUSED");
}

#[derive(Clone, Debug)]
enum Act {
    Report,
    Ran(i32),
    Quiet,
    Judged(u8),
    Injected(u8),
    Pause,
    WatchAgain,
    Later,
    Restart,
    /// Something that was waited for once and comes late.
    Stale,
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        3 => Just(Act::Report),
        3 => (0..2).prop_map(Act::Ran),
        4 => Just(Act::Quiet),
        4 => (0u8..4).prop_map(Act::Judged),
        3 => (0u8..4).prop_map(Act::Injected),
        1 => Just(Act::Pause),
        1 => Just(Act::WatchAgain),
        2 => Just(Act::Later),
        1 => Just(Act::Restart),
        1 => Just(Act::Stale),
    ]
}

proptest! {
    #[test]
    fn never_two_lines_for_one_report_and_none_while_paused(acts in prop::collection::vec(act(), 1..60)) {
        let mut story = watched();
        let mut calls = 10;
        let (mut reports, mut typed) = (0, 0);
        for act in acts {
            let before = state(&story);
            calls += 1;
            let words = match act {
                Act::Report => {
                    if before != "PAUSED" {
                        reports += 1;
                    }
                    report(&mut story, calls, (calls % 2 == 0).then_some("true"))
                }
                Act::Ran(code) => ran(&mut story, code),
                Act::Quiet => quiet(&mut story),
                Act::Judged(0) => judged(&mut story, Ok(Decision::Stop)),
                Act::Judged(1) => judged(&mut story, Err("no".into())),
                Act::Judged(_) => judged(&mut story, Ok(Decision::Continue(line("go")))),
                Act::Injected(0) => injected(&mut story, InjectionOutcome::NotNow),
                Act::Injected(1) => injected(&mut story, InjectionOutcome::Unknown("lost".into())),
                Act::Injected(_) => {
                    if before == "ASSESS" && story.core_watcher().stage.is_injecting() {
                        typed += 1;
                    }
                    injected(&mut story, InjectionOutcome::Typed { submitted: true })
                }
                Act::Pause => call(&mut story, calls, "pause", json!({"tmux_window": "p1"})),
                Act::WatchAgain => {
                    call(&mut story, calls, "watch_me", json!({"tmux_window": "p1", "strategy_plan": "y"}))
                }
                Act::Later => story.after(1_000).step(CoreInput::TimerExpired),
                Act::Restart => story.restart(),
                Act::Stale => story.step(CoreInput::Assessed {
                    watcher: 1,
                    step: 0,
                    judged: Assessment::Decision(Ok(Decision::Continue(line("stale")))),
                }),
            };
            prop_assert!(!words.contains("stale"));
            if words.contains("inject ") {
                prop_assert!(before != "PAUSED", "{before}: {words}");
            }
            if state(&story) == "PAUSED" {
                prop_assert!(!words.contains("inject "), "{words}");
            }
        }
        prop_assert!(typed <= reports, "{typed} lines for {reports} reports");
    }
}
