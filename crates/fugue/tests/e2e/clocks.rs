//! Clocks that jump: the wall clock is set by a day, the machine is suspended for an hour.

use std::time::Duration;

use fugue_api::{
    PaneId, RunId,
    run_result::RunResult,
    tools::{CreatePaneReply, ExpectStatus},
};
use fugue_testkit::{ProcessRef, TestEnv, WallClock, boot_clock_launcher, until_some};

const LIMIT: Duration = Duration::from_secs(180);
const WAIT_TIMEOUT: Duration = Duration::from_secs(60);
const DAY: i64 = 86_400;
const DAY_MS: u64 = 86_400_000;

fn test_env() -> TestEnv {
    TestEnv::new(env!("CARGO_BIN_EXE_fugue"), LIMIT)
}

/// Starts an expect for a line that has not been typed yet and kills its client. The run is stored and goes on.
fn left_waiting(test_env: &TestEnv, pane: PaneId, line: &str, timeout: &str) -> RunId {
    let known = test_env.overview().runs.len();
    let pane = pane.to_string();
    let pattern = format!("^{line}$");
    let client = test_env.start(&["expect", &pane, &pattern, "--timeout", timeout]);
    let run = until_some("the run is there", WAIT_TIMEOUT, || {
        let runs = test_env.overview().runs;
        (runs.len() > known).then(|| runs.into_iter().max_by_key(|run| run.started_at))?
    });
    // The overview does not wait for the run's commit. A new pane's reply waits for every commit before its own.
    test_env.pane("true");
    ProcessRef::find(client.pid()).expect("the client").kill9();
    client.end(WAIT_TIMEOUT);
    run.run_id
}

fn status(test_env: &TestEnv, run: &RunId) -> String {
    let mut runs = test_env.overview().runs.into_iter();
    let found = runs.find(|row| row.run_id == *run);
    found.expect("the run is known").status
}

#[test]
fn a_wall_clock_that_is_set_by_days_times_out_nothing_and_deletes_nothing() {
    for jump in [2 * DAY, -2 * DAY] {
        let test_env = test_env();
        let clock = WallClock::new(&test_env);
        clock.start_daemon(&test_env);
        let ended = test_env.pane("echo kept").pane_id;
        test_env.exited(ended);
        let typed_into = test_env.pane("cat").pane_id;
        let run = left_waiting(&test_env, typed_into, "typed later", "30m");
        // While no daemon runs.
        test_env.kill_daemon();
        clock.set(jump);
        clock.start_daemon(&test_env);
        let shown = |pane: CreatePaneReply| test_env.status(pane.pane_id).created_at.0;
        let jumped = shown(test_env.pane("true"));
        assert_eq!(status(&test_env, &run), "running");
        assert!(test_env.text(ended).contains("kept"));
        // While one runs.
        clock.set(-jump);
        let back = shown(test_env.pane("true"));
        let apart = jumped.abs_diff(back);
        assert!(
            apart > 3 * DAY_MS,
            "the clock is not the one that was set: {apart} ms"
        );
        assert_eq!(status(&test_env, &run), "running");
        assert!(test_env.text(ended).contains("kept"));
        test_env.type_line(typed_into, "typed later");
        let RunResult::Expect(found) = test_env.json(&["wait", &run.0]) else {
            panic!("another kind of run")
        };
        assert_eq!(found.status, ExpectStatus::Matched);
        assert!(found.duration_ms < DAY_MS, "{found:?}");
    }
}

#[test]
fn a_timeout_counts_the_time_of_a_suspend() {
    let test_env = test_env();
    let Some(way) = boot_clock_launcher(&test_env, 3600) else {
        return;
    };
    let ended = test_env.pane("echo kept").pane_id;
    test_env.exited(ended);
    let typed_into = test_env.pane("cat").pane_id;
    let short = left_waiting(&test_env, typed_into, "never", "30m");
    let long = left_waiting(&test_env, typed_into, "typed later", "3h");
    test_env.kill_daemon();
    let way: Vec<&str> = way.iter().map(String::as_str).collect();
    test_env.start_daemon_with(&way);
    assert_eq!(status(&test_env, &short), "timeout");
    assert_eq!(status(&test_env, &long), "running");
    assert!(test_env.text(ended).contains("kept"));
    test_env.type_line(typed_into, "typed later");
    let RunResult::Expect(found) = test_env.json(&["wait", &long.0]) else {
        panic!("another kind of run")
    };
    assert_eq!(found.status, ExpectStatus::Matched);
    assert!(found.duration_ms >= 3_600_000, "{found:?}");
}
