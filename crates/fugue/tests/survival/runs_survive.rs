//! kill -9 of the daemon in the middle of runs: every step exactly once, every result right, every blocked call answered.
//!
//! `FUGUE_KILLS` sets how many kills each test makes (200; the soak of `scripts/test --soak` makes many more), and
//! `FUGUE_SEED` repeats a run's moments.

use std::{collections::BTreeMap, fs, path::Path, time::Duration};

use fugue_api::tools::{ParallelResult, ParallelStatus, PipelineResult, PipelineStatus};
use fugue_testkit::{
    SeededRng, TestEnv,
    mcp_client::{McpClient, facts},
    report_metric, sleep_in_test,
};
use serde_json::{Value, json};

fn kills() -> u64 {
    std::env::var("FUGUE_KILLS").map_or(200, |text| text.parse().expect("FUGUE_KILLS is a number"))
}

fn test_env() -> TestEnv {
    let limit = Duration::from_secs(300)
        + Duration::from_secs(2) * u32::try_from(kills()).unwrap_or(u32::MAX);
    TestEnv::new(env!("CARGO_BIN_EXE_fugue"), limit)
}

/// Calls, and kills daemons at random moments until the answer is there.
fn call_under_fire(
    test_env: &TestEnv,
    client: &mut McpClient,
    chance: &mut SeededRng,
    tool: &str,
    args: Value,
) -> (Value, u64) {
    let call = client.send_tool_call(tool, args);
    let mut killed = 0;
    while !client.is_answered(call) {
        sleep_in_test(chance.duration_below(Duration::from_millis(250)));
        // Six in a row must leave the run a chance to move at all.
        if killed % 7 == 6 {
            sleep_in_test(Duration::from_millis(300));
        }
        for daemon in test_env.daemons() {
            daemon.kill9();
            killed += 1;
        }
    }
    (facts(&client.result(call)), killed)
}

/// How often each line was written.
fn lines(file: &Path) -> BTreeMap<String, u32> {
    let mut counted = BTreeMap::new();
    for line in fs::read_to_string(file).unwrap_or_default().lines() {
        *counted.entry(line.to_owned()).or_default() += 1;
    }
    counted
}

#[test]
fn every_step_of_a_pipeline_runs_once_whatever_happens_to_daemons() {
    let test_env = test_env();
    let mut client = McpClient::start(test_env.fugue_command(["mcp"]));
    client.initialize("2025-11-25", "fire");
    let mut chance = SeededRng::default();
    let file = test_env.work().join("steps");
    let (mut killed, mut rounds, mut shells) = (0, 0, 0);
    while killed < kills() {
        rounds += 1;
        let shell = ["bash", "bash", "zsh", "dash"][chance.below(4) as usize];
        let codes: Vec<u64> = (0..5)
            .map(|_| [0, 0, 3, 255][chance.below(4) as usize])
            .collect();
        // One of them may end its shell, so that the next gets a fresh one.
        let leaves = chance.below(8);
        let steps: Vec<Value> = codes
            .iter()
            .zip(0..)
            .map(|(code, step)| {
                let pause = chance.below(20);
                let end = if leaves == step {
                    format!("exit {code}")
                } else {
                    format!("(exit {code})")
                };
                let file = file.display();
                json!({"command": format!(
                    "echo {rounds}.{step} >> '{file}'; echo out {step}; sleep 0.{pause:02}; {end}"
                )})
            })
            .collect();
        shells += u64::from(leaves < 5);
        let args =
            json!({"commands": steps, "stop_on_error": false, "shell": shell, "cleanup": true});
        let (found, by) = call_under_fire(
            &test_env,
            &mut client,
            &mut chance,
            "fugue_run_pipeline",
            args,
        );
        killed += by;
        let told = || format!("round {rounds}, {shell}, seed {}: {found}", chance.seed());
        let result: PipelineResult =
            serde_json::from_value(found.clone()).unwrap_or_else(|_| panic!("{}", told()));
        assert_eq!(result.status, PipelineStatus::Completed, "{}", told());
        for (step, (result, code)) in result.steps.iter().zip(&codes).enumerate() {
            assert_eq!(result.exit_code, Some(*code as i32), "{}", told());
            assert_eq!(result.output, format!("out {step}"), "{}", told());
        }
        assert_eq!(result.steps.len(), 5, "{}", told());
    }
    let counted = lines(&file);
    assert_eq!(counted.len(), 5 * rounds);
    assert!(counted.values().all(|count| *count == 1), "{counted:?}");
    report_metric(
        "daemon kills in pipelines",
        format!(
            "{killed} kills over {rounds} pipelines of 5 steps, {shells} with a shell that left: each step once, each result right"
        ),
    );
}

#[test]
fn every_command_side_by_side_runs_once_whatever_happens_to_daemons() {
    let test_env = test_env();
    let mut client = McpClient::start(test_env.fugue_command(["mcp"]));
    client.initialize("2025-11-25", "fire");
    let mut chance = SeededRng::default();
    let file = test_env.work().join("commands");
    let (mut killed, mut rounds) = (0, 0);
    while killed < kills() {
        rounds += 1;
        let codes: Vec<i32> = (0..6).map(|_| chance.below(4) as i32).collect();
        let list: Vec<Value> = codes
            .iter()
            .enumerate()
            .map(|(index, code)| {
                let pause = chance.below(40);
                let file = file.display();
                json!({"command": format!(
                    "echo {rounds}.{index} >> '{file}'; seq 1 2000; sleep 0.{pause:02}; exit {code}"
                )})
            })
            .collect();
        let args = json!({"commands": list, "max_output_chars": 1_000_000});
        let (found, by) = call_under_fire(
            &test_env,
            &mut client,
            &mut chance,
            "fugue_run_parallel",
            args,
        );
        killed += by;
        let told = || format!("round {rounds}, seed {}: {found}", chance.seed());
        let result: ParallelResult =
            serde_json::from_value(found.clone()).unwrap_or_else(|_| panic!("{}", told()));
        assert_eq!(result.status, ParallelStatus::Completed, "{}", told());
        let whole: Vec<String> = (1..=2000).map(|n| n.to_string()).collect();
        for (task, code) in result.results.iter().zip(&codes) {
            assert_eq!(task.exit_code, Some(*code), "{}", told());
            assert_eq!(task.output, whole.join("\n"), "{}", told());
        }
    }
    let counted = lines(&file);
    assert_eq!(counted.len(), 6 * rounds);
    assert!(counted.values().all(|count| *count == 1), "{counted:?}");
    report_metric(
        "daemon kills in parallel runs",
        format!(
            "{killed} kills over {rounds} runs of 6 commands: each command once, each result right"
        ),
    );
}
