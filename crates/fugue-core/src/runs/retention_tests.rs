//! What becomes of runs and their outputs when time passes, clocks are set, and machines are started again.

use fugue_api::{
    Error, ErrorKind, RunId, ToolCall, run_result::RunResult, tools::WaitForRun, wire::Response,
};
use serde_json::json;

use crate::{
    AfterCommit, CallId, CoreInput, ExitStatus, PaneEvent,
    core::tests::{Story, opened},
    result::LOST_BY_REBOOT,
    settings::Settings,
    view,
};

const DAY: u64 = 86_400_000;

fn story(forget_beyond_panes: usize) -> Story {
    Story::new(Settings {
        forget_beyond_panes,
        ..Settings::default()
    })
}

fn parallel(timeout_ms: u64, count: usize) -> ToolCall {
    let commands = vec![json!({"command": "true"}); count];
    let args = json!({"commands": commands, "run_id": "run", "timeout_ms": timeout_ms});
    ToolCall::parse("fugue_run_parallel", args).unwrap()
}

fn pipeline(more: serde_json::Value) -> ToolCall {
    let mut args = json!({"commands": [{"command": "a"}, {"command": "b"}], "run_id": "run"});
    let fields = args.as_object_mut().unwrap();
    fields.extend(more.as_object().unwrap().clone());
    ToolCall::parse("fugue_run_pipeline", args).unwrap()
}

fn ends(story: &mut Story, pane: u64, exit: ExitStatus) -> String {
    let fact = PaneEvent::Ended {
        exit,
        cursor: view::start(),
        title: String::new(),
        alone: true,
        sweeps: false,
        lost_by_reboot: false,
    };
    story.fact(pane, fact)
}

fn never_started(story: &mut Story, pane: u64) -> String {
    let error = Error::new(ErrorKind::Unavailable, "the daemon died");
    story.fact(pane, PaneEvent::NeverStarted(error))
}

/// Other panes come and go.
fn others_end(story: &mut Story, count: u64) -> String {
    let mut said = String::new();
    for number in 0..count {
        let pane = story.disk().next_pane.max(1);
        let request = ToolCall::parse("create_pane", json!({"command": "ls"})).unwrap();
        story.ask(100 + number, 100 + number as u8, "", request);
        story.fact(pane, opened());
        said += &ends(story, pane, ExitStatus::Code(0));
    }
    said
}

fn composed(story: &mut Story, delivered: bool) -> String {
    let run = RunId("run".into());
    story.step(CoreInput::ReplyComposed { run, delivered })
}

/// The result that `fugue_wait` is to give, without what panes printed.
fn waits(story: &mut Story, call: u64) -> RunResult {
    let request = ToolCall::parse("fugue_wait", json!({"run_id": "run", "timeout_ms": 0})).unwrap();
    let asked = story.asked(call, request);
    let call = CallId(call);
    let effects = story.effects(CoreInput::Call { call, asked });
    let mut then = effects.commit.into_iter().flat_map(|commit| commit.then);
    let found = then.find_map(|effect| match effect {
        AfterCommit::ComposeReply { result, .. } => Some(*result),
        AfterCommit::ReplyResult {
            answer: Ok(Response::Tool { reply }),
            ..
        } => reply.read_as::<WaitForRun>().ok(),
        _ => None,
    });
    found.expect("a result")
}

#[test]
fn outputs_of_a_run_are_kept_until_somebody_was_given_its_result() {
    let mut story = story(1);
    story.ask(1, 1, "", parallel(60_000, 4));
    for pane in 1..=4 {
        story.fact(pane, opened());
    }
    for pane in 1..=3 {
        let said = ends(&mut story, pane, ExitStatus::Code(0));
        assert!(!said.contains("forget"), "{said}");
    }
    let said = ends(&mut story, 4, ExitStatus::Code(0));
    assert!(said.contains("result 1 completed"), "{said}");
    // The reply is not complete before its outputs have been read.
    assert!(!said.contains("forget"), "{said}");
    let said = composed(&mut story, true);
    assert!(said.contains("forget p1, forget p2, forget p3"), "{said}");
    assert!(!said.contains("forget p4"), "{said}");
}

#[test]
fn outputs_that_nobody_fetched_outlast_other_panes_and_daemons_but_not_the_day() {
    let mut story = story(1);
    story.ask(1, 1, "", parallel(60_000, 2));
    story.fact(1, opened());
    story.fact(2, opened());
    story.step(CoreInput::Cancelled { call: CallId(1) });
    ends(&mut story, 1, ExitStatus::Code(0));
    ends(&mut story, 2, ExitStatus::Code(0));
    let said = others_end(&mut story, 3);
    assert!(
        said.contains("forget p3") && said.contains("forget p4"),
        "{said}"
    );
    assert!(
        !said.contains("forget p1") && !said.contains("forget p2"),
        "{said}"
    );
    // Directories that the last daemon did not get to remove, and no others.
    let said = story.restart();
    assert!(
        !said.contains("forget p1") && !said.contains("forget p2"),
        "{said}"
    );
    // One who went away before the reply was complete has fetched nothing.
    waits(&mut story, 2);
    assert!(!composed(&mut story, false).contains("forget"));
    waits(&mut story, 3);
    assert!(composed(&mut story, true).contains("forget p1, forget p2"));
}

#[test]
fn a_result_that_nobody_fetches_is_forgotten_after_a_day() {
    let mut story = story(1);
    story.ask(1, 1, "", parallel(60_000, 1));
    story.fact(1, opened());
    story.step(CoreInput::Cancelled { call: CallId(1) });
    ends(&mut story, 1, ExitStatus::Code(0));
    assert!(
        !story
            .after(DAY - 1)
            .step(CoreInput::TimerExpired)
            .contains("forget")
    );
    assert!(
        story
            .after(1)
            .step(CoreInput::TimerExpired)
            .contains("forget p1")
    );
}

#[test]
fn an_output_whose_pane_is_gone_is_said_to_be() {
    let mut story = story(500);
    story.ask(1, 1, "", parallel(60_000, 1));
    story.fact(1, opened());
    ends(&mut story, 1, ExitStatus::Code(0));
    story.change_disk(|disk| disk.panes.clear());
    story.restart();
    let RunResult::Parallel(result) = waits(&mut story, 2) else {
        panic!("another kind of run")
    };
    let note = result.results[0].note.as_deref();
    assert_eq!(note, Some("its output is no longer kept"));
}

#[test]
fn a_run_whose_time_was_over_while_no_daemon_ran_starts_nothing() {
    let mut story = story(500);
    story.ask(1, 1, "", parallel(1_000, 2));
    story.fact(1, opened());
    story.after(5_000).restart();
    let said = never_started(&mut story, 2);
    assert!(!said.contains("open"), "{said}");
    ends(&mut story, 1, ExitStatus::Signal("SIGKILL".into()));
    story.fact(1, PaneEvent::Swept);
    let RunResult::Parallel(result) = waits(&mut story, 2) else {
        panic!("another kind of run")
    };
    let facts = serde_json::to_value(&result).unwrap();
    assert_eq!(facts["status"], "timeout");
    assert!(story.core.runs.open_runs().is_empty(), "it is over");
}

#[test]
fn a_pipeline_whose_time_was_over_while_no_daemon_ran_starts_nothing() {
    let mut story = story(500);
    story.ask(
        1,
        1,
        "",
        pipeline(json!({"timeout_ms": 1_000, "cleanup": true})),
    );
    story.after(5_000).restart();
    let said = never_started(&mut story, 1);
    assert!(!said.contains("open"), "{said}");
    let facts = serde_json::to_value(waits(&mut story, 2)).unwrap();
    assert_eq!(facts["status"], "timeout", "{facts}");
    assert!(story.core.runs.open_runs().is_empty(), "it is over");
}

#[test]
fn after_a_reboot_nothing_of_a_run_is_started_again_and_it_says_so() {
    let mut story = story(500);
    story.ask(1, 1, "", parallel(60_000, 3));
    story.fact(1, opened());
    story.fact(2, opened());
    story.reboot(30_000);
    // One had ended in time, and its holder wrote down how.
    ends(&mut story, 1, ExitStatus::Code(7));
    ends(&mut story, 2, ExitStatus::Unknown);
    let said = never_started(&mut story, 3);
    assert!(!said.contains("open"), "{said}");
    let facts = serde_json::to_value(waits(&mut story, 2)).unwrap();
    assert_eq!(facts["status"], "completed", "{facts}");
    assert_eq!(facts["results"][0]["exit_code"], 7);
    assert_eq!(facts["results"][1]["note"], LOST_BY_REBOOT);
    assert_eq!(facts["results"][2]["status"], "error");
    assert_eq!(facts["results"][2]["error"], LOST_BY_REBOOT);
}

#[test]
fn after_a_reboot_a_pipeline_takes_no_further_step() {
    for begun in [false, true] {
        let mut story = story(500);
        story.ask(1, 1, "", pipeline(json!({"stop_on_error": false})));
        if begun {
            story.fact(1, opened());
            let news = crate::StepEvent {
                plan: 1,
                step: 1,
                at: view::start(),
                when: None,
            };
            story.fact(1, PaneEvent::StepBegan(news));
        }
        story.reboot(30_000);
        let said = if begun {
            ends(&mut story, 1, ExitStatus::Unknown)
        } else {
            never_started(&mut story, 1)
        };
        assert!(!said.contains("open"), "{said}");
        let facts = serde_json::to_value(waits(&mut story, 2)).unwrap();
        assert_eq!(facts["status"], "failed", "{facts}");
        assert_eq!(facts["note"], LOST_BY_REBOOT, "{facts}");
    }
}

#[test]
fn a_wall_clock_that_jumps_times_out_nothing_and_forgets_nothing() {
    for wall in [1, 500_000, 1_000_000 + 2 * DAY] {
        let mut story = story(500);
        others_end(&mut story, 1);
        story.ask(1, 1, "", parallel(60_000, 1));
        story.fact(2, opened());
        story.wall_clock_jumps(wall);
        let said = story.after(1_000).restart();
        assert!(!said.contains("forget"), "{said}");
        story.step(CoreInput::TimerExpired);
        let facts = serde_json::to_value(waits(&mut story, 2)).unwrap();
        assert_eq!(facts["status"], "running", "{facts}");
        assert_eq!(facts["total_duration_ms"], 1_000, "{facts}");
        ends(&mut story, 2, ExitStatus::Code(0));
        story.wall_clock_jumps(0);
        let facts = serde_json::to_value(waits(&mut story, 3)).unwrap();
        assert_eq!(facts["results"][0]["duration_ms"], 1_000, "{facts}");
        // A day by the boot clock is a day.
        assert!(
            story
                .after(DAY)
                .step(CoreInput::TimerExpired)
                .contains("forget p1")
        );
    }
}

#[test]
fn a_suspend_counts_towards_a_timeout() {
    let mut story = story(500);
    story.ask(1, 1, "", parallel(60_000, 1));
    story.fact(1, opened());
    let said = story.after(8 * 3_600_000).step(CoreInput::TimerExpired);
    assert!(said.contains("close p1"), "{said}");
}

#[test]
fn ended_panes_of_an_earlier_boot_are_kept_for_a_day_of_this_one() {
    let mut story = story(500);
    others_end(&mut story, 1);
    story.after(DAY / 2);
    let said = story.reboot(DAY / 3);
    assert!(!said.contains("forget"), "{said}");
    let due = std::time::Duration::from_millis(DAY);
    assert_eq!(story.core.next_deadline(), Some(due));
    let said = story.after(DAY).step(CoreInput::TimerExpired);
    assert!(said.contains("forget p1"), "{said}");
}
