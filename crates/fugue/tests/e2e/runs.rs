//! Runs through the real binary and a real MCP client: thousands of commands, every result compared.
//!
//! `FUGUE_RUNS` sets how many runs of random commands are made (20; 200 in the soak of `scripts/test --soak`).

use std::time::Duration;

use fugue_api::tools::{
    CancelRunReply, ExpectResult, ExpectStatus, ParallelResult, ParallelStatus, PipelineResult,
    PipelineStatus, StepStatus, TaskStatus,
};
use fugue_testkit::{
    SeededRng, TestEnv,
    mcp_client::{McpClient, facts},
    report_metric, until, until_some,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

fn test_env() -> TestEnv {
    TestEnv::new(env!("CARGO_BIN_EXE_fugue"), Duration::from_secs(600))
}

fn client(test_env: &TestEnv, flags: &[&str]) -> McpClient {
    let words = ["mcp"].iter().chain(flags);
    let mut client = McpClient::start(test_env.fugue_command(words));
    client.initialize("2025-06-18", "runs");
    client
}

#[track_caller]
fn call<T: DeserializeOwned>(client: &mut McpClient, tool: &str, args: Value) -> T {
    let facts = client.call(tool, args);
    serde_json::from_value(facts.clone()).unwrap_or_else(|error| panic!("{error}: {facts}"))
}

fn commands<S: AsRef<str>>(commands: &[S]) -> Value {
    let commands = commands.iter();
    commands
        .map(|command| json!({"command": command.as_ref()}))
        .collect()
}

#[track_caller]
fn parallel(client: &mut McpClient, list: &[&str], more: Value) -> ParallelResult {
    call(client, "fugue_run_parallel", with(list, more))
}

#[track_caller]
fn pipeline(client: &mut McpClient, list: &[&str], more: Value) -> PipelineResult {
    call(client, "fugue_run_pipeline", with(list, more))
}

fn with(list: &[&str], more: Value) -> Value {
    let mut args = json!({"commands": commands(list)});
    let more = more.as_object().cloned().unwrap_or_default();
    args.as_object_mut().expect("an object").extend(more);
    args
}

fn codes(result: &ParallelResult) -> Vec<Option<i32>> {
    result.results.iter().map(|task| task.exit_code).collect()
}

fn step_codes(result: &PipelineResult) -> Vec<Option<i32>> {
    result.steps.iter().map(|step| step.exit_code).collect()
}

#[test]
fn a_thousand_times_nothing_and_a_thousand_times_three_letters() {
    let test_env = test_env();
    let mut client = client(&test_env, &[]);
    for (command, output) in [("true", ""), ("printf abc", "abc")] {
        for _ in 0..100 {
            let result = parallel(&mut client, &[command; 10], json!({}));
            assert_eq!(result.status, ParallelStatus::Completed);
            for task in &result.results {
                assert_eq!(
                    (task.status, task.exit_code, &*task.output),
                    (TaskStatus::Exited, Some(0), output),
                    "{result:?}"
                );
            }
        }
    }
    report_metric(
        "run_parallel of `true` and `printf abc`",
        "1000 + 1000 right, 0 timeouts",
    );
}

#[test]
fn random_sleeps_codes_and_outputs_come_back_as_they_were() {
    let runs: u64 = std::env::var("FUGUE_RUNS").map_or(20, |runs| runs.parse().expect("a number"));
    let test_env = test_env();
    let mut client = client(&test_env, &[]);
    let mut chance = SeededRng::default();
    let mut printed = 0;
    for _ in 0..runs {
        let wanted: Vec<(u64, i32, u64)> = (0..10)
            .map(|_| {
                let lines = if chance.one_in(4) {
                    chance.below(10_400)
                } else {
                    chance.below(50)
                };
                (lines, chance.below(256) as i32, chance.below(40))
            })
            .collect();
        // 100 characters and a newline a line: up to a megabyte.
        let list: Vec<String> = wanted
            .iter()
            .map(|(lines, code, sleep)| {
                let text = "x".repeat(92);
                format!("sleep 0.0{sleep:02}; seq -f '%08.0f{text}' 1 {lines}; exit {code}")
            })
            .collect();
        let list: Vec<&str> = list.iter().map(String::as_str).collect();
        let result = parallel(&mut client, &list, json!({"max_output_chars": 16_000_000}));
        assert_eq!(
            result.status,
            ParallelStatus::Completed,
            "seed {}",
            chance.seed()
        );
        for (task, (lines, code, _)) in result.results.iter().zip(&wanted) {
            assert_eq!(task.exit_code, Some(*code), "seed {}", chance.seed());
            assert_eq!(task.omitted_chars, 0);
            let mut found = 0;
            for (line, number) in task.output.lines().zip(1..) {
                assert_eq!(line.len(), 100, "{line}");
                assert_eq!(line[..8].parse(), Ok(number), "{line}");
                found = number;
            }
            assert_eq!(found, *lines, "seed {}", chance.seed());
            printed += task.output.len();
        }
    }
    report_metric(
        "run_parallel with random sleeps, codes and outputs",
        format!("{runs} runs of 10, {} MB, all right", printed / 1_000_000),
    );
}

#[test]
fn failures_are_shown_first_where_not_everything_fits() {
    let test_env = test_env();
    let mut client = client(&test_env, &[]);
    let loud = "seq 1 20000";
    let failing = "seq 1 20000; echo the reason; exit 1";
    let commands = [loud, failing, loud, "echo short"];
    let result = parallel(&mut client, &commands, json!({"output": "full"}));
    let json = serde_json::to_string(&result).expect("json");
    assert!(json.chars().count() <= 10_000, "{}", json.len());
    let [first, failed, third, short] = &result.results[..] else {
        panic!("{result:?}")
    };
    assert!(failed.output.ends_with("the reason"), "{}", failed.output);
    assert!(failed.output.len() > 2 * first.output.len());
    assert!(first.output.ends_with("20000") && third.output.ends_with("20000"));
    assert_eq!(short.output, "short");
    assert_eq!((short.omitted_chars, short.omitted_lines), (0, 0));
    let whole = (1..=20_000)
        .map(|n: u32| n.to_string().len() + 1)
        .sum::<usize>()
        - 1;
    // What is shown and what was left out is all there was, but for the line that stands for the gap.
    assert!(first.output.starts_with("1\n2\n"), "{}", first.output);
    let shown: Vec<&str> = first.output.lines().collect();
    let gaps = shown.iter().filter(|line| **line == "…").count();
    assert_eq!(gaps, 1, "{}", first.output);
    assert_eq!(shown.len() as u64 - 1 + first.omitted_lines, 20_000);
    let chars = first.output.chars().count() - "…\n\n".chars().count();
    assert_eq!(chars as u64 + first.omitted_chars, whole as u64);
    // All of it stays readable.
    let pane = failed.pane_id.to_string();
    let read = client.call(
        "read_pane",
        json!({"pane_id": pane, "lines": 30_000, "max_output_chars": 1_000_000}),
    );
    assert_eq!(read["lines"], 20_001);
}

#[test]
fn by_default_a_result_has_short_outputs_whole_and_the_ends_of_long_ones() {
    let test_env = test_env();
    let mut client = client(&test_env, &[]);
    let failing =
        "seq 1 300; echo 'a.c:3: error: no such name'; seq 301 900; echo 1 failed; exit 1";
    let commands = ["seq 1 20000", failing, "echo short", "true"];
    let result = parallel(&mut client, &commands, json!({}));
    let [long, failed, short, silent] = &result.results[..] else {
        panic!("{result:?}")
    };
    assert_eq!(result.failed, 1);
    assert!(long.output.ends_with("\n20000"), "{}", long.output);
    assert!(long.output.chars().count() <= 120);
    assert_eq!(
        long.omitted_lines,
        20_000 - long.output.lines().count() as u64
    );
    let begin = "a.c:3: error: no such name\n301\n302\n…\n";
    assert!(failed.output.starts_with(begin), "{}", failed.output);
    assert!(failed.output.ends_with("\n900\n1 failed"));
    assert_eq!((&*short.output, short.omitted_lines), ("short", 0));
    assert_eq!(silent.output, "");
    let json = client.call(
        "fugue_run_parallel",
        json!({"commands": [{"command": "true"}]}),
    );
    for absent in ["run_id", "failed"] {
        assert_eq!(json.get(absent), None, "{json}");
    }
    for absent in ["output", "status", "omitted_lines"] {
        assert_eq!(json["results"][0].get(absent), None, "{json}");
    }
    let none = parallel(&mut client, &["echo hidden"], json!({"output": "none"}));
    assert_eq!(none.results[0].output, "");
    let limited = parallel(
        &mut client,
        &["seq 1 2000"],
        json!({"max_output_chars": 3000}),
    );
    assert!(limited.results[0].output.chars().count() > 2000);
}

#[test]
fn each_outcome_of_commands_side_by_side_is_told_apart() {
    let test_env = test_env();
    let mut client = client(&test_env, &[]);
    let result = parallel(
        &mut client,
        &["exit 3", "kill -9 $$", "kill -TERM $$"],
        json!({}),
    );
    assert_eq!(result.status, ParallelStatus::Completed);
    assert_eq!(codes(&result), [Some(3), None, None]);
    assert_eq!(result.results[1].signal.as_deref(), Some("SIGKILL"));
    assert_eq!(result.results[2].signal.as_deref(), Some("SIGTERM"));

    let result = parallel(
        &mut client,
        &["sleep 600", "echo done"],
        json!({"timeout_ms": 400}),
    );
    assert_eq!(result.status, ParallelStatus::Partial);
    assert_eq!(result.results[0].status, TaskStatus::Timeout);
    assert_eq!(codes(&result), [None, Some(0)]);

    let result = parallel(&mut client, &["sleep 600"], json!({"timeout_ms": 200}));
    assert_eq!(result.status, ParallelStatus::Timeout);

    let result = parallel(
        &mut client,
        &["sleep 600", "exit 9"],
        json!({"fail_fast": true}),
    );
    assert_eq!(result.status, ParallelStatus::Completed);
    assert_eq!(result.results[0].status, TaskStatus::Cancelled);
    assert_eq!(codes(&result), [None, Some(9)]);
    // Nothing of all that is left.
    let sleeps = test_env
        .processes()
        .into_iter()
        .filter(|process| process.has_args(&["sleep", "600"]))
        .count();
    assert_eq!(sleeps, 0);
}

#[test]
fn a_command_that_leaves_something_running_is_cleaned_up_after() {
    let test_env = test_env();
    let mut client = client(&test_env, &[]);
    let left = "sleep 601 & setsid -f sleep 602; (trap '' HUP TERM; sleep 603 >/dev/null 2>&1 &) ; echo started";
    let result = parallel(&mut client, &[left], json!({}));
    assert_eq!(codes(&result), [Some(0)]);
    assert_eq!(result.results[0].output, "started");
    let left = test_env
        .processes()
        .into_iter()
        .filter(|process| process.has_args(&["sleep"]))
        .count();
    assert_eq!(left, 0);
}

#[test]
fn a_wrong_call_is_refused_by_name_and_nothing_is_started() {
    let test_env = test_env();
    let mut client = client(&test_env, &[]);
    let mut refused = |tool: &str, args: Value, says: &[&str]| {
        let error = client.refused(tool, args);
        for word in says {
            assert!(
                error.message.contains(word),
                "{error:?} does not say {word}"
            );
        }
    };
    let run = "fugue_run_parallel";
    refused(run, json!({"commands": []}), &["commands", "1 to 10"]);
    refused(
        run,
        json!({"commands": commands(&["true"; 11])}),
        &["commands", "11"],
    );
    refused(
        run,
        json!({"commands": commands(&["true", " "])}),
        &["commands[1].command"],
    );
    refused(
        run,
        json!({"commands": [{"command": "true"}, {"command": "true", "cwd": "/nowhere/at/all"}]}),
        &["commands[1].cwd", "/nowhere/at/all"],
    );
    refused(
        run,
        json!({"commands": [{"command": "true", "name": "x"}, {"command": "true", "name": "x"}]}),
        &["two are named `x`"],
    );
    refused(
        run,
        json!({"commands": commands(&["true"]), "shell": "nosuchshell"}),
        &["shell", "nosuchshell"],
    );
    refused(
        run,
        json!({"commands": commands(&["true"]), "timeout": 5}),
        &["timeout", "timeout_ms"],
    );
    refused(
        run,
        json!({"commands": commands(&["true"]), "run_id": "a b"}),
        &["run_id"],
    );
    refused(
        "fugue_run_pipeline",
        json!({"commands": commands(&["true"]), "pane_id": "p99"}),
        &["no pane `p99`"],
    );
    refused(
        "fugue_run_pipeline",
        json!({"commands": commands(&["true"]), "pane_id": "p1", "cwd": "/"}),
        &["cwd", "pane_id"],
    );
    refused(
        "fugue_expect",
        json!({"pane_id": "p1", "pattern": "x"}),
        &["no pane `p1`"],
    );
    refused(
        "fugue_expect",
        json!({"pane_id": "p1", "pattern": "("}),
        &["pattern", "unclosed"],
    );
    refused(
        "fugue_expect",
        json!({"pane_id": "p1", "pattern": ""}),
        &["pattern"],
    );
    refused(
        "fugue_wait",
        json!({"run_id": "nothing"}),
        &["no run `nothing`"],
    );
    assert!(test_env.overview().panes.is_empty());
    assert!(test_env.overview().runs.is_empty());
}

#[test]
fn a_pipeline_is_one_shell_from_the_first_step_to_the_last() {
    let test_env = test_env();
    let mut client = client(&test_env, &[]);
    let result = pipeline(
        &mut client,
        &[
            "cd /tmp && export A=1; b=2; f() { echo \"f $1\"; }; declare -A m=([k]=v)",
            "pwd; echo $A $b ${m[k]}; f x",
            "printf 'no newline'",
            "echo after",
        ],
        json!({}),
    );
    assert_eq!(result.status, PipelineStatus::Completed, "{result:?}");
    let outputs: Vec<&str> = result.steps.iter().map(|step| &*step.output).collect();
    assert_eq!(outputs, ["", "/tmp\n1 2 v\nf x", "no newline", "after"]);
    // The pane stays, an interactive shell in that state.
    let pane = result.pane_id;
    until("the prompt", Duration::from_secs(20), || {
        test_env.status(pane).state.state == fugue_api::pane_state::PaneState::Idle
    });
    test_env.type_line(pane, "f again; echo $b");
    test_env.until_printed(pane, |text| text.contains("f again\n2"));
    // And takes the steps of another run.
    let result = pipeline(
        &mut client,
        &["f third", "exit 4", "echo not reached"],
        json!({"pane_id": pane.to_string()}),
    );
    assert_eq!(result.status, PipelineStatus::Failed);
    assert_eq!(step_codes(&result), [Some(0), Some(4)]);
    assert_eq!(result.failed_at.as_deref(), Some("step-2"));
    assert_eq!(result.steps[0].output, "f third");
}

#[test]
fn a_pipeline_out_of_time_is_interrupted_and_its_pane_stays() {
    let test_env = test_env();
    let mut client = client(&test_env, &[]);
    for (step, how) in [
        ("sleep 604", "by INT"),
        ("trap '' INT; sh -c 'trap \"\" INT; sleep 605'", "by TERM"),
        (
            "sh -c 'trap \"\" INT TERM; while :; do sleep 606; done'",
            "by KILL",
        ),
        ("while :; do :; done", "the shell itself"),
    ] {
        let result = pipeline(
            &mut client,
            &["cd /tmp", step, "echo not reached"],
            json!({"timeout_ms": 500}),
        );
        assert_eq!(result.status, PipelineStatus::Timeout, "{how}: {result:?}");
        assert_eq!(step_codes(&result), [Some(0), None], "{how}");
        assert_eq!(result.steps[1].status, StepStatus::Timeout);
        let pane = result.pane_id;
        until("a prompt", Duration::from_secs(20), || {
            test_env.status(pane).state.state == fugue_api::pane_state::PaneState::Idle
        });
        let sleeps = test_env
            .processes()
            .into_iter()
            .filter(|process| process.has_args(&["sleep"]))
            .count();
        assert_eq!(sleeps, 0, "{how}");
        test_env.close(pane);
    }
}

#[test]
fn a_pipeline_is_cancelled_by_another_call_and_its_pane_stays() {
    let test_env = test_env();
    let mut client = client(&test_env, &["--session", "lead"]);
    let args = with(
        &["cd /tmp", "echo begun; sleep 1000", "echo never"],
        json!({"run_id": "r"}),
    );
    let running = client.send_tool_call("fugue_run_pipeline", args);
    until("the second step", Duration::from_secs(20), || {
        let progress = test_env.overview().runs.pop().map(|run| run.progress);
        progress.is_some_and(|progress| progress.starts_with("step 2"))
    });
    let cancelled: CancelRunReply = call(&mut client, "cancel_run", json!({"run_id": "r"}));
    assert!(!cancelled.already_ended);
    let result: PipelineResult =
        serde_json::from_value(facts(&client.result(running))).expect("a result");
    assert_eq!(result.status, PipelineStatus::Cancelled);
    assert_eq!(result.steps.len(), 2, "{result:?}");
    assert_eq!(result.steps[1].status, StepStatus::Cancelled);
    assert!(result.steps[1].output.contains("begun"), "{result:?}");
    let again = client.call("cancel_run", json!({"run_id": "r"}));
    assert_eq!(again["already_ended"], true, "{again}");
    assert_eq!(again["status"], "cancelled", "{again}");
    let pane = json!({"pane_id": result.pane_id, "commands": commands(&["pwd"])});
    let next: PipelineResult = call(&mut client, "fugue_run_pipeline", pane);
    assert_eq!(next.steps[0].output.trim(), "/tmp", "{next:?}");
}

#[test]
fn a_step_that_reads_gets_the_terminal_and_says_that_it_waits() {
    let test_env = test_env();
    let mut client = client(&test_env, &[]);
    let args = with(
        &["read -p 'name? ' name; echo \"hello $name\"", "cat"],
        json!({"run_id": "asks"}),
    );
    let open = client.send_tool_call("fugue_run_pipeline", args);
    let pane = until_some("the pane", Duration::from_secs(20), || {
        test_env.overview().panes.first().map(|row| row.pane_id)
    });
    let needs = |prompt: &str| {
        until("a question", Duration::from_secs(20), || {
            let state = test_env.status(pane).state;
            state.state == fugue_api::pane_state::PaneState::NeedsInput
                && state.prompt.as_deref() == Some(prompt)
        });
    };
    needs("name?");
    test_env.type_line(pane, "Ada");
    needs("");
    test_env.type_line(pane, "a line");
    test_env.until_printed(pane, |text| text.matches("a line").count() == 2);
    test_env.press(pane, &["C-d"]);
    let result: PipelineResult =
        serde_json::from_value(facts(&client.result(open))).expect("a result");
    assert_eq!(result.status, PipelineStatus::Completed);
    assert_eq!(result.steps[0].output, "name? Ada\nhello Ada");
    assert_eq!(result.steps[1].output, "a line\na line");
}

#[test]
fn a_client_without_patience_is_answered_early_and_picks_the_run_up() {
    let test_env = test_env();
    // Long enough for the quick one to be through, also in tmux on a busy machine.
    let mut client = client(&test_env, &["--max-wait-ms", "2000"]);
    let gate = test_env.work().join("gate");
    let wait = format!(
        "until [ -e '{}' ]; do sleep 0.05; done; echo through; exit 5",
        gate.display()
    );
    let early = parallel(&mut client, &[&wait, "echo quick"], json!({}));
    assert_eq!(early.status, ParallelStatus::Running);
    assert_eq!(early.results[0].status, TaskStatus::Running);
    assert_eq!(early.results[1].output, "quick");
    let again: ParallelResult = call(&mut client, "fugue_wait", json!({"run_id": early.run_id}));
    assert_eq!(again.status, ParallelStatus::Running);
    std::fs::write(&gate, "").expect("the gate");
    let done = until_some("the end", Duration::from_secs(30), || {
        let result: ParallelResult =
            call(&mut client, "fugue_wait", json!({"run_id": early.run_id}));
        (result.status != ParallelStatus::Running).then_some(result)
    });
    assert_eq!(done.status, ParallelStatus::Completed);
    assert_eq!(codes(&done), [Some(5), Some(0)]);
    assert_eq!(done.results[0].output, "through");

    let pane = test_env.pane("sleep 607").pane_id.to_string();
    let early: ExpectResult = call(
        &mut client,
        "fugue_expect",
        json!({"pane_id": pane, "pattern": "never"}),
    );
    assert_eq!(early.status, ExpectStatus::Running);
    let early = pipeline(&mut client, &["echo one", "sleep 608"], json!({}));
    assert_eq!(early.status, PipelineStatus::Running);
    assert_eq!(step_codes(&early), [Some(0), None]);
    assert_eq!(early.steps[0].output, "one");
}

#[test]
fn asking_again_with_the_same_id_does_nothing_twice() {
    let test_env = test_env();
    let mut client = client(&test_env, &[]);
    let file = test_env.work().join("once");
    let append = format!("echo once >> '{}'; cat '{0}'", file.display());
    let args = |id: &str| with(&[&append], json!({"run_id": id}));
    for _ in 0..3 {
        let result: ParallelResult = call(&mut client, "fugue_run_parallel", args("mine"));
        assert_eq!(result.results[0].output, "once");
    }
    let error = client.refused(
        "fugue_run_parallel",
        with(&["echo other"], json!({"run_id": "mine"})),
    );
    assert!(error.message.contains("mine"), "{error:?}");
    let rows = test_env.overview().runs;
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0].status, "completed");
}

#[test]
fn outputs_come_back_whole_however_few_ended_panes_are_kept() {
    let test_env = test_env();
    test_env.configure("forget_beyond_panes = 3\n");
    let mut client = client(&test_env, &[]);
    let list: Vec<String> = (0..6)
        .map(|n| format!("seq {n}000 {n}400; sleep 0.{n}"))
        .collect();
    let list: Vec<&str> = list.iter().map(String::as_str).collect();
    let check = |result: &ParallelResult| {
        for (n, task) in result.results.iter().enumerate() {
            assert_eq!(task.exit_code, Some(0));
            let last = format!("{n}400").trim_start_matches('0').to_owned();
            assert!(task.output.ends_with(&last), "{task:?}");
        }
    };
    check(&parallel(&mut client, &list, json!({})));
    // One that nobody waits for: others end behind it before somebody fetches its result.
    let mut gone = McpClient::start(test_env.fugue_command(["mcp"]));
    gone.initialize("2025-06-18", "gone");
    gone.send_tool_call("fugue_run_parallel", with(&list, json!({"run_id": "left"})));
    let left = || {
        let mut runs = test_env.overview().runs.into_iter();
        runs.find(|run| run.run_id.0 == "left")
    };
    until("the run is there", Duration::from_secs(60), || {
        left().is_some()
    });
    drop(gone);
    for _ in 0..5 {
        let pane = test_env.pane("true").pane_id;
        test_env.exited(pane);
    }
    until("the run is over", Duration::from_secs(60), || {
        left().is_some_and(|run| run.status == "completed")
    });
    for _ in 0..5 {
        let pane = test_env.pane("true").pane_id;
        test_env.exited(pane);
    }
    let result: ParallelResult = call(&mut client, "fugue_wait", json!({"run_id": "left"}));
    check(&result);
    // Now its panes are ended ones like all others.
    until("they are forgotten", Duration::from_secs(60), || {
        test_env.overview().panes.len() <= 3
    });
}
