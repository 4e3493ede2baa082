mod cancel;
mod commits;
mod ready_pane;
mod reported_expects;

use fugue_api::{
    Error, ErrorKind, EventId, RunId, ToolCall,
    tools::MatchVia,
    wire::{CallerIdentity, Request},
};
use serde_json::json;

use crate::{
    CallId, CoreInput, ExitStatus, ExpectMatch, MatchedPattern, PaneEvent, StepEvent,
    core::tests::{Story, exited, opened},
    settings::Settings,
    view,
};

fn story() -> Story {
    Story::new(Settings::default())
}

fn request(tool: &str, args: serde_json::Value) -> ToolCall {
    ToolCall::parse(tool, args).unwrap()
}

fn parallel(more: serde_json::Value, commands: &[&str]) -> ToolCall {
    let commands: Vec<_> = commands
        .iter()
        .map(|command| json!({"command": command}))
        .collect();
    let mut args = json!({"commands": commands, "run_id": "run"});
    args.as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    request("fugue_run_parallel", args)
}

fn pipeline(more: serde_json::Value, commands: &[&str]) -> ToolCall {
    let ToolCall::RunParallel(args) = parallel(json!({}), commands) else {
        panic!()
    };
    let commands = serde_json::to_value(args.commands).unwrap();
    let mut args = json!({"commands": commands, "run_id": "run"});
    args.as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    request("fugue_run_pipeline", args)
}

fn news(step: usize) -> StepEvent {
    StepEvent {
        plan: 1,
        step,
        at: view::start(),
        when: None,
    }
}

fn began(step: usize) -> PaneEvent {
    PaneEvent::StepBegan(news(step))
}

fn ended(step: usize, code: i32) -> PaneEvent {
    PaneEvent::StepEnded(news(step), code)
}

fn gone_alone(code: i32) -> PaneEvent {
    PaneEvent::Ended {
        exit: ExitStatus::Code(code),
        cursor: view::start(),
        title: String::new(),
        alone: true,
        sweeps: false,
        lost_by_reboot: false,
    }
}

#[test]
fn commands_side_by_side_are_recorded_before_any_is_started() {
    let mut story = story();
    assert_eq!(
        story.ask(1, 1, "", parallel(json!({}), &["true", "false"])),
        "commit 5, open p1, open p2"
    );
    story.fact(1, opened());
    story.fact(2, opened());
    assert_eq!(story.fact(2, gone_alone(1)), "commit 2");
    // One commit for the pane, its closing and the run, and nothing to sweep where nothing is left.
    assert_eq!(
        story.fact(1, gone_alone(0)),
        "commit 4, result 1 completed 0+1"
    );
}

#[test]
fn a_run_waits_until_nothing_of_its_panes_is_left() {
    let mut story = story();
    story.ask(1, 1, "", parallel(json!({}), &["sleep 9 & true"]));
    story.fact(1, opened());
    assert_eq!(story.fact(1, exited(0)), "commit 2, sweep p1");
    assert_eq!(
        story.fact(1, PaneEvent::Swept),
        "commit 2, result 1 completed 0"
    );
}

/// A run whose end is returned while its panes are being closed: nobody is told of it once more afterwards.
#[test]
fn an_end_that_was_returned_before_the_panes_are_closed_is_no_event() {
    let look = |story: &mut Story, call| {
        let any = json!({"types": ["*"], "timeout_secs": 0});
        story.ask(call, call as u8, "", request("wait_for_event", any))
    };
    for is_acked in [true, false] {
        let mut story = story();
        story.speaks(CallerIdentity::Session { id: "lead".into() });
        story.ask(1, 1, "", parallel(json!({}), &["sleep 9 & true"]));
        story.fact(1, opened());
        story.step(CoreInput::Cancelled { call: CallId(1) });
        assert_eq!(story.fact(1, exited(0)), "commit 2, sweep p1");
        let wait = request("fugue_wait", json!({"run_id": "run", "timeout_ms": 0}));
        let said = story.ask(2, 2, "", wait);
        assert!(said.contains("result 2 completed 0"), "{said}");
        if is_acked {
            let event = EventId(1);
            story.ask_for(3, Request::AckEvent { event });
        } else {
            story.step(CoreInput::Cancelled { call: CallId(2) });
        }
        story.fact(1, PaneEvent::Swept);
        let wanted = if is_acked {
            "nothing for 4"
        } else {
            "hand 4 e1"
        };
        assert_eq!(look(&mut story, 4), wanted);
        assert_eq!(look(&mut story, 5), "nothing for 5");
    }
}

#[test]
fn time_that_runs_out_ends_what_runs_and_is_an_answer() {
    let mut story = story();
    story.ask(
        1,
        1,
        "",
        parallel(json!({"timeout_ms": 100}), &["sleep 9", "true"]),
    );
    story.fact(1, opened());
    story.fact(2, opened());
    story.fact(2, gone_alone(0));
    assert_eq!(story.after(99).step(CoreInput::TimerExpired), "");
    assert_eq!(
        story.after(1).step(CoreInput::TimerExpired),
        "commit 3, close p1"
    );
    story.fact(1, exited(0));
    assert_eq!(
        story.fact(1, PaneEvent::Swept),
        "commit 1, result 1 partial timeout+0"
    );
}

#[test]
fn without_cleanup_what_runs_goes_on_after_the_timeout() {
    let mut story = story();
    let keep = json!({"timeout_ms": 100, "cleanup": false});
    story.ask(1, 1, "", parallel(keep, &["sleep 9"]));
    story.fact(1, opened());
    assert_eq!(
        story.after(100).step(CoreInput::TimerExpired),
        "commit 1, result 1 timeout timeout"
    );
}

#[test]
fn the_first_failure_ends_the_others_where_that_was_asked_for() {
    let mut story = story();
    let fast = json!({"fail_fast": true});
    story.ask(1, 1, "", parallel(fast, &["false", "sleep 9"]));
    story.fact(1, opened());
    story.fact(2, opened());
    assert_eq!(story.fact(1, gone_alone(1)), "commit 4, close p2");
    story.fact(2, exited(0));
    assert_eq!(
        story.fact(2, PaneEvent::Swept),
        "commit 1, result 1 completed 1+cancelled"
    );
}

#[test]
fn the_same_id_is_the_same_run_and_other_arguments_are_refused() {
    let mut story = story();
    story.ask(1, 1, "", parallel(json!({}), &["true"]));
    assert_eq!(story.ask(2, 2, "", parallel(json!({}), &["true"])), "");
    assert_eq!(
        story.ask(3, 3, "", parallel(json!({}), &["false"])),
        "refuse 3 InvalidArgument"
    );
    assert_eq!(
        story.ask(4, 4, "", pipeline(json!({}), &["true"])),
        "refuse 4 InvalidArgument"
    );
    story.fact(1, opened());
    assert_eq!(
        story.fact(1, gone_alone(0)),
        "commit 3, result 1 completed 0, result 2 completed 0"
    );
    assert_eq!(
        story.ask(5, 5, "", parallel(json!({}), &["true"])),
        "result 5 completed 0"
    );
}

#[test]
fn what_could_not_be_started_is_said_and_the_others_go_on() {
    let mut story = story();
    story.ask(1, 1, "", parallel(json!({}), &["true", "true"]));
    story.fact(1, opened());
    let error = Error::new(ErrorKind::Exhausted, "no terminal left");
    assert_eq!(
        story.fact(2, PaneEvent::OpenFailed(error)),
        "commit 2, forget p2"
    );
    assert_eq!(
        story.fact(1, gone_alone(0)),
        "commit 3, result 1 completed 0+error"
    );
}

#[test]
fn a_command_that_a_dead_daemon_never_started_is_started_by_the_next() {
    let mut story = story();
    let run = || parallel(json!({}), &["true", "true"]);
    story.ask(1, 1, "", run());
    story.fact(1, opened());
    let back = story.restart();
    assert!(back.contains("adopt p1, adopt p2"), "{back}");
    let never = Error::new(ErrorKind::Unavailable, "the daemon died");
    assert_eq!(story.fact(2, PaneEvent::NeverStarted(never)), "open p2");
    assert_eq!(story.ask(2, 1, "", run()), "");
    story.fact(2, opened());
    story.fact(1, gone_alone(0));
    assert_eq!(
        story.fact(2, gone_alone(4)),
        "commit 4, result 2 completed 0+4"
    );
}

#[test]
fn a_wait_has_its_own_patience_and_the_run_its_own() {
    let mut story = story();
    story.ask(1, 1, "", parallel(json!({}), &["sleep 9"]));
    story.fact(1, opened());
    let wait = |ms: u64| request("fugue_wait", json!({"run_id": "run", "timeout_ms": ms}));
    assert_eq!(story.ask(2, 2, "", wait(0)), "result 2 running running");
    assert_eq!(story.ask(3, 3, "", wait(50)), "");
    assert_eq!(
        story.after(50).step(CoreInput::TimerExpired),
        "result 3 running running"
    );
    let unknown = request("fugue_wait", json!({"run_id": "other"}));
    assert_eq!(story.ask(4, 4, "", unknown), "refuse 4 NotFound");
    let short = request("fugue_wait", json!({"run_id": "ru"}));
    assert_eq!(story.ask(5, 5, "", short), "");
    // Nobody waits any more, and the run goes on.
    for call in [1, 5] {
        let call = CallId(call);
        story.step(CoreInput::Cancelled { call });
    }
    assert_eq!(story.fact(1, gone_alone(0)), "commit 3");
    assert_eq!(story.ask(6, 6, "", wait(0)), "result 6 completed 0");
}

fn expect(more: serde_json::Value) -> ToolCall {
    let mut args = json!({"pane_id": "p1", "pattern": "x", "run_id": "seen"});
    args.as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    request("fugue_expect", args)
}

fn sighted(saw: MatchedPattern) -> PaneEvent {
    PaneEvent::ExpectMatched {
        run: RunId("seen".into()),
        from: None,
        pattern: saw,
        found: ExpectMatch {
            text: "x".into(),
            line: "x y".into(),
            end: view::start(),
            via: MatchVia::Stream,
        },
    }
}

/// A story with one pane that runs.
fn with_pane() -> Story {
    let mut story = story();
    story.ask(
        90,
        90,
        "",
        request("create_pane", json!({"command": "make"})),
    );
    story.fact(1, opened());
    story
}

fn watching() -> PaneEvent {
    PaneEvent::ExpectStarted {
        run: RunId("seen".into()),
        from: view::start(),
    }
}

#[test]
fn a_match_is_stored_before_its_reply() {
    let mut story = with_pane();
    assert_eq!(story.ask(1, 1, "", expect(json!({}))), "commit 2, watch p1");
    story.fact(1, watching());
    assert_eq!(
        story.fact(1, sighted(MatchedPattern::Pattern)),
        "commit 1, result 1 matched"
    );
    assert_eq!(story.fact(1, sighted(MatchedPattern::Fail)), "");
    assert_eq!(story.ask(2, 2, "", expect(json!({}))), "result 2 matched");
}

#[test]
fn an_expect_ends_with_its_time_its_program_or_its_pane() {
    let mut story = with_pane();
    story.ask(1, 1, "", expect(json!({"timeout_ms": 10})));
    story.fact(1, watching());
    assert_eq!(
        story.after(10).step(CoreInput::TimerExpired),
        "unwatch p1, commit 1, result 1 timeout"
    );

    let mut story = with_pane();
    story.ask(1, 1, "", expect(json!({})));
    story.fact(1, watching());
    assert_eq!(story.fact(1, exited(3)), "commit 2, result 1 exited");

    let mut story = with_pane();
    story.ask(1, 1, "", expect(json!({})));
    story.fact(1, watching());
    story.ask(2, 2, "", request("close_pane", json!({"pane_id": "p1"})));
    assert_eq!(story.fact(1, exited(3)), "commit 2, refuse 1 Ended");
}

#[test]
fn a_pane_that_ends_before_it_was_searched_is_searched_in_its_files() {
    let mut story = with_pane();
    story.ask(1, 1, "", expect(json!({})));
    assert_eq!(story.fact(1, exited(0)), "commit 1, search p1");
    let nothing = PaneEvent::ExpectExhausted {
        run: RunId("seen".into()),
    };
    assert_eq!(story.fact(1, nothing), "commit 1, result 1 exited");
}

#[test]
fn a_pane_is_closed_after_the_match_where_that_was_asked_for() {
    let mut story = with_pane();
    story.ask(1, 1, "", expect(json!({"action": "close_pane"})));
    story.fact(1, watching());
    assert_eq!(
        story.fact(1, sighted(MatchedPattern::Pattern)),
        "commit 2, close p1"
    );
    story.fact(1, exited(0));
    assert_eq!(
        story.fact(1, PaneEvent::Swept),
        "commit 1, result 1 matched"
    );
}

#[test]
fn a_search_goes_on_under_the_next_daemon() {
    let mut story = with_pane();
    story.ask(1, 1, "", expect(json!({"timeout_ms": 1000})));
    story.fact(1, watching());
    assert_eq!(story.after(400).restart(), "adopt p1, watch p1");
    // The pane ended while no daemon was there: the search is not over, its files are looked at.
    assert_eq!(story.fact(1, exited(0)), "commit 1, search p1");
}

#[test]
fn steps_run_one_after_the_other_and_stop_at_the_first_failure() {
    let mut story = story();
    let run = pipeline(json!({}), &["a", "b", "c"]);
    assert_eq!(story.ask(1, 1, "s", run), "commit 4, open p1");
    story.fact(1, opened());
    assert_eq!(story.fact(1, began(1)), "commit 1");
    assert_eq!(story.fact(1, ended(1, 0)), "commit 1");
    assert_eq!(story.fact(1, began(2)), "commit 1");
    assert_eq!(story.fact(1, ended(2, 7)), "commit 1, result 1 failed 0+7");
}

#[test]
fn steps_go_on_after_a_failure_where_that_was_asked_for() {
    let mut story = story();
    let run = pipeline(json!({"stop_on_error": false}), &["a", "b"]);
    story.ask(1, 1, "s", run);
    story.fact(1, opened());
    story.fact(1, began(1));
    story.fact(1, ended(1, 1));
    story.fact(1, began(2));
    assert_eq!(
        story.fact(1, ended(2, 0)),
        "commit 1, result 1 completed 1+0"
    );
}

#[test]
fn a_step_that_ends_its_shell_has_its_code_and_the_next_a_fresh_one() {
    let mut story = story();
    let run = pipeline(json!({}), &["exit 0", "b"]);
    story.ask(1, 1, "s", run);
    story.fact(1, opened());
    story.fact(1, began(1));
    assert_eq!(story.fact(1, exited(0)), "commit 2, open p1");
    story.fact(1, opened());
    story.fact(1, began(2));
    assert_eq!(
        story.fact(1, ended(2, 0)),
        "commit 1, result 1 completed 0+0"
    );
}

#[test]
fn a_shell_that_takes_no_step_is_not_started_for_ever() {
    let mut story = story();
    story.ask(1, 1, "s", pipeline(json!({}), &["a", "b"]));
    story.fact(1, opened());
    assert_eq!(story.fact(1, exited(127)), "commit 2, result 1 failed");
}

#[test]
fn a_step_that_fails_with_its_shell_is_the_last() {
    let mut story = story();
    story.ask(1, 1, "s", pipeline(json!({}), &["exit 3", "b"]));
    story.fact(1, opened());
    story.fact(1, began(1));
    assert_eq!(story.fact(1, exited(3)), "commit 2, result 1 failed 3");
}

#[test]
fn a_pipeline_whose_log_is_lost_ends_with_that_reason() {
    let lost = || PaneEvent::StepsLost {
        plan: 1,
        at: view::start(),
        why: "its log is gone".into(),
    };
    for keep_going in [false, true] {
        let mut story = story();
        let run = pipeline(json!({"stop_on_error": !keep_going}), &["a", "b", "c"]);
        story.ask(1, 1, "s", run);
        story.fact(1, opened());
        story.fact(1, began(1));
        story.fact(1, ended(1, 0));
        story.fact(1, began(2));
        let said = story.fact(1, lost());
        assert!(said.contains("result 1 failed"), "{said}");
        // Told again, nothing happens.
        assert_eq!(story.fact(1, lost()), "");
    }
}

#[test]
fn a_step_is_interrupted_when_time_runs_out_and_the_pane_stays() {
    let mut story = story();
    let run = pipeline(json!({"timeout_ms": 100}), &["a", "sleep", "c"]);
    story.ask(1, 1, "s", run);
    story.fact(1, opened());
    story.fact(1, began(1));
    story.fact(1, ended(1, 0));
    story.fact(1, began(2));
    assert_eq!(
        story.after(100).step(CoreInput::TimerExpired),
        "stop p1, commit 1"
    );
    assert_eq!(story.fact(1, ended(2, 130)), "commit 1");
    assert_eq!(
        story.fact(1, PaneEvent::StepsStopped { plan: 1 }),
        "commit 1, result 1 timeout 0+timeout"
    );
    // Nothing that comes late changes the result.
    assert_eq!(story.fact(1, began(3)), "");
}

#[test]
fn a_shell_that_had_to_be_killed_at_the_timeout_is_started_again_in_its_pane() {
    let mut story = story();
    let run = pipeline(json!({"timeout_ms": 100}), &["while :; do :; done"]);
    story.ask(1, 1, "s", run);
    story.fact(1, opened());
    story.fact(1, began(1));
    story.after(100).step(CoreInput::TimerExpired);
    assert_eq!(
        story.fact(1, exited(137)),
        "commit 3, open p1, result 1 timeout timeout"
    );
}

#[test]
fn a_pane_that_cannot_take_steps_refuses_the_run_and_nothing_is_left_of_it() {
    let mut story = story();
    story.ask(90, 90, "s", request("create_pane", json!({})));
    story.fact(1, opened());
    let run = || pipeline(json!({"pane_id": "p1"}), &["a"]);
    assert_eq!(story.ask(1, 1, "", run()), "commit 2, steps p1");
    let error = Error::new(ErrorKind::Unavailable, "a program runs in it");
    let refused = PaneEvent::StepsRefused { plan: 1, error };
    assert_eq!(story.fact(1, refused), "commit 1, refuse 1 Unavailable");
    assert_eq!(story.ask(2, 2, "", run()), "commit 2, steps p1");
    // One pipeline at a time.
    let other = request(
        "fugue_run_pipeline",
        json!({"commands": [{"command": "b"}], "pane_id": "p1", "run_id": "other"}),
    );
    assert_eq!(story.ask(3, 3, "", other), "refuse 3 Unavailable");
}

#[test]
fn a_pipeline_is_taken_up_by_the_next_daemon_where_it_was() {
    let mut story = story();
    story.ask(1, 1, "s", pipeline(json!({}), &["a", "b"]));
    story.fact(1, opened());
    story.fact(1, began(1));
    let back = story.restart();
    assert_eq!(back, "adopt p1 with its steps");
    assert_eq!(story.ask(2, 1, "s", pipeline(json!({}), &["a", "b"])), "");
    // Told again, and told on.
    assert_eq!(story.fact(1, began(1)), "");
    story.fact(1, ended(1, 0));
    story.fact(1, began(2));
    assert_eq!(
        story.fact(1, ended(2, 0)),
        "commit 1, result 2 completed 0+0"
    );
}

#[test]
fn whoever_follows_a_run_hears_what_happened_while_no_daemon_was_there() {
    let mut story = story();
    story.ask(1, 1, "", parallel(json!({}), &["true", "sleep 9"]));
    let news = |seen| Request::RunProgress {
        run: RunId("run".into()),
        seen,
    };
    assert_eq!(story.ask_for(2, news(0)), "answer 2");
    assert_eq!(story.ask_for(3, news(1)), "");
    story.restart();
    // The same question again, as a client that lost its daemon asks it.
    assert_eq!(story.ask_for(4, news(1)), "answer 4");
}
