//! Runs from the command line: the live table, the report at the end, resuming, and exit codes.

use std::{fs, time::Duration};

use fugue_api::{
    ErrorKind, PaneId,
    run_result::{RunKind, RunResult},
    tools::{
        CancelRunReply, CreatePaneReply, ExpectResult, ExpectStatus, ParallelResult,
        ParallelStatus, PipelineResult, PipelineStatus, ReadPaneReply, TaskStatus,
    },
};
use fugue_testkit::{ProgramOutput, RunningProgram, SeededRng, TestEnv, sleep_in_test, until_some};
use rustix::process::{Pid, Signal, kill_process};

const LIMIT: Duration = Duration::from_secs(180);
/// The longest wait for output that is pushed to the client; the machine may be busy.
const WAIT_TIMEOUT: Duration = Duration::from_secs(60);

fn test_env() -> TestEnv {
    TestEnv::new(env!("CARGO_BIN_EXE_fugue"), LIMIT)
}

/// A command that goes on when the gate is opened.
fn gate(test_env: &TestEnv, name: &str) -> String {
    test_env.run("mkfifo", &[name]).ok();
    let path = test_env.work().join(name);
    format!("read x < {}", path.display())
}

/// Returns when whoever waits at the gate has passed it.
fn open(test_env: &TestEnv, name: &str) {
    test_env.run("sh", &["-c", &format!("echo > {name}")]).ok();
}

fn interrupt(running: &RunningProgram) {
    let pid = Pid::from_raw(running.pid() as i32).expect("a pid");
    kill_process(pid, Signal::INT).expect("it runs");
}

/// The id that the way to go on names.
#[track_caller]
fn run_to_wait_for(text: &str) -> String {
    let at = text.find("fugue wait r-");
    let at = at.unwrap_or_else(|| panic!("nothing to wait for in {text}"));
    let rest = &text[at + "fugue wait ".len()..];
    let end = rest.find('`').expect("in quotes");
    rest[..end].to_owned()
}

#[track_caller]
fn check(
    test_env: &TestEnv,
    args: &[&str],
    code: i32,
    says: &[&str],
    complains: &[&str],
) -> ProgramOutput {
    let ran = test_env.fugue(args);
    assert_eq!(ran.code, Some(code), "{ran}");
    for word in says {
        assert!(ran.out().contains(word), "stdout has no {word:?}\n{ran}");
    }
    for word in complains {
        assert!(ran.err().contains(word), "stderr has no {word:?}\n{ran}");
    }
    assert!(!ran.stdout.contains(&0x1b), "no escapes for a pipe\n{ran}");
    ran
}

#[test]
fn parallel_says_by_its_exit_code_how_it_went() {
    let test_env = test_env();
    check(
        &test_env,
        &["parallel", "true", "echo hello"],
        0,
        &["exit 0", "task-2: echo hello", "2 of 2 succeeded"],
        &[],
    );
    check(
        &test_env,
        &["parallel", "true", "exit 7"],
        1,
        &["exit 7", "1 of 2 succeeded · 1 failed"],
        &[],
    );
    check(&test_env, &["parallel", "kill -9 $$"], 1, &["SIGKILL"], &[]);
    check(
        &test_env,
        &["parallel", "no-such-program"],
        1,
        &["exit 127", "not found"],
        &[],
    );
    let late = [
        "parallel",
        "--timeout",
        "300ms",
        "sleep 600",
        "echo early; exit 3",
    ];
    check(
        &test_env,
        &late,
        124,
        &["timeout", "exit 3", "1 timed out"],
        &[],
    );
    check(
        &test_env,
        &["parallel", "--timeout", "300ms", "sleep 600"],
        124,
        &["timeout"],
        &[],
    );
    let fast = ["parallel", "--fail-fast", "sleep 600", "exit 4"];
    check(&test_env, &fast, 1, &["exit 4", "cancelled"], &[]);
    let quiet = check(
        &test_env,
        &["parallel", "-q", "true", "echo why; false"],
        1,
        &["why"],
        &[],
    );
    assert!(!quiet.out().contains("succeeded"), "{quiet}");
}

#[test]
fn parallel_gives_its_result_as_one_document() {
    let test_env = test_env();
    let ran = test_env.fugue(&[
        "parallel",
        "--json",
        "-n",
        "a",
        "-n",
        "b",
        "echo hello",
        "exit 7",
    ]);
    assert_eq!(ran.code, Some(1), "{ran}");
    assert!(ran.stderr.is_empty(), "{ran}");
    let result: ParallelResult = ran.json();
    assert_eq!(result.status, ParallelStatus::Completed);
    let names: Vec<&str> = result
        .results
        .iter()
        .map(|task| task.name.as_str())
        .collect();
    assert_eq!(names, ["a", "b"]);
    assert_eq!(result.results[0].output, "hello");
    assert_eq!(result.results[1].exit_code, Some(7));

    let dir = test_env.work().join("sub");
    fs::create_dir(&dir).expect("a directory");
    let result: ParallelResult =
        test_env.json(&["parallel", "--cwd", "sub", "--shell", "sh", "pwd; echo $0"]);
    let output = &result.results[0].output;
    assert!(
        output.starts_with(&format!("{}\n", dir.display())),
        "{output}"
    );
    let shell = output.lines().last().unwrap_or_default();
    assert!(shell.ends_with("sh") && !shell.ends_with("bash"), "{shell}");

    let late = test_env.fugue(&[
        "parallel",
        "--json",
        "--timeout",
        "300ms",
        "sleep 600",
        "true",
    ]);
    assert_eq!(late.code, Some(124), "{late}");
    let late: ParallelResult = late.json();
    assert_eq!(late.status, ParallelStatus::Partial);
    assert_eq!(late.results[0].status, TaskStatus::Timeout);
}

#[test]
fn what_was_wrong_is_named() {
    let test_env = test_env();
    let eleven = vec!["true"; 11];
    fs::write(
        test_env.work().join("typo"),
        r#"["true", {"command": "x", "cdw": "/"}]"#,
    )
    .expect("a file");
    fs::write(test_env.work().join("broken"), "[\"true\",\n nope]").expect("a file");
    fs::write(test_env.work().join("empty"), "\n# nothing\n").expect("a file");
    fs::write(
        test_env.work().join("cwd"),
        r#"[{"command": "x", "cwd": "/"}]"#,
    )
    .expect("a file");
    let table: [(&[&str], &[&str]); 18] = [
        (&["parallel"], &["CMD", "no command"]),
        (&["parallel", " "], &["commands[0].command", "empty"]),
        (
            &[&["parallel"][..], &eleven].concat(),
            &["commands", "10", "11"],
        ),
        (
            &["parallel", "--timeout", "soon", "true"],
            &["--timeout", "soon"],
        ),
        (&["parallel", "--timeout", "0", "true"], &["timeout_ms"]),
        (
            &["parallel", "--cwd", "/nowhere", "true"],
            &["cwd", "/nowhere"],
        ),
        (&["parallel", "--shell", "nosh", "true"], &["shell", "nosh"]),
        (
            &["parallel", "-n", "x", "-n", "x", "true", "true"],
            &["two are named `x`"],
        ),
        (
            &["parallel", "-n", "x", "-n", "y", "true"],
            &["--name", "2 names for 1"],
        ),
        (&["parallel", "--file", "typo"], &["commands[1]", "cdw"]),
        (
            &["parallel", "--file", "broken"],
            &["--file", "broken", "line 2"],
        ),
        (
            &["parallel", "--file", "empty"],
            &["--file", "empty", "no command"],
        ),
        (
            &["parallel", "--file", "missing"],
            &["--file", "missing", "No such file"],
        ),
        (&["pipeline", "--file", "cwd"], &["commands[0]", "cwd"]),
        (
            &["pipeline", "--pane", "p1", "--cwd", "/", "true"],
            &["cwd", "pane_id"],
        ),
        (&["expect", "p1", ""], &["pattern", "empty"]),
        (
            &["expect", "p1", "x", "--close", "--output"],
            &["--close", "--output"],
        ),
        (&["wait", "no run/"], &["run_id", "no run/"]),
    ];
    for (args, says) in table {
        let refusal = test_env.refused(args, 2);
        for word in says {
            let said = format!(
                "{} {}",
                refusal.message,
                refusal.hint.as_deref().unwrap_or("")
            );
            assert!(
                said.contains(word),
                "{args:?} does not say {word:?}: {refusal:?}"
            );
        }
    }
    for args in [
        &["wait", "r-nope"][..],
        &["expect", "nobody", "x"],
        &["pipeline", "--pane", "nobody", "true"],
    ] {
        let refusal = test_env.refused(args, 1);
        assert_eq!(refusal.kind, ErrorKind::NotFound, "{args:?}");
    }
    let pane = test_env.pane("exec cat").pane_id.to_string();
    let refusal = test_env.refused(&["expect", &pane, "("], 2);
    assert!(refusal.message.contains("pattern"), "{refusal:?}");
    test_env.refused(&["pipeline", "--pane", &pane, "true"], 2);
    assert!(test_env.overview().runs.is_empty(), "nothing was begun");
}

#[test]
fn help_has_an_example_and_starts_nothing() {
    let test_env = test_env();
    for verb in ["parallel", "pipeline", "expect", "wait", "cancel"] {
        let help = test_env.fugue(&[verb, "--help"]).ok().out();
        assert!(
            help.contains(&format!("Example:\n  fugue {verb} ")),
            "{help}"
        );
        assert!(help.contains("Exit code"), "{help}");
    }
    assert!(test_env.daemons().is_empty());
}

#[test]
fn commands_come_from_files_as_well() {
    let test_env = test_env();
    let outputs = |result: &ParallelResult| -> Vec<String> {
        result
            .results
            .iter()
            .map(|task| task.output.clone())
            .collect()
    };
    fs::write(
        test_env.work().join("lines"),
        "# these\necho one\n\n  echo 'two # three'\r\n",
    )
    .expect("a file");
    let result: ParallelResult = test_env.json(&["parallel", "echo zero", "--file", "lines"]);
    assert_eq!(outputs(&result), ["zero", "one", "two # three"]);

    let list = r#" ["echo one", {"command": "echo $X; pwd", "name": "n", "cwd": "/", "env": {"X": "x y"}}]"#;
    fs::write(test_env.work().join("list"), list).expect("a file");
    let result: ParallelResult = test_env.json(&["parallel", "--file", "list", "--cwd", "/tmp"]);
    assert_eq!(outputs(&result), ["one", "x y\n/"]);
    assert_eq!(result.results[1].name, "n");

    let fugue = env!("CARGO_BIN_EXE_fugue");
    let piped = format!("printf 'A=5\\necho a is $A\\n' | {fugue} pipeline --json -f -");
    let result: PipelineResult = test_env.run("sh", &["-c", &piped]).ok().json();
    assert_eq!(result.steps[1].output, "a is 5");
}

#[test]
fn without_a_terminal_a_line_is_said_when_a_task_ends() {
    let test_env = test_env();
    let (first, second) = (gate(&test_env, "first"), gate(&test_env, "second"));
    let mut running = test_env.start(&["parallel", &first, &second, "echo now"]);
    running.wait_for_stdout(WAIT_TIMEOUT, |said| said.contains("task-3: echo now\n"));
    open(&test_env, "second");
    running.wait_for_stdout(WAIT_TIMEOUT, |said| said.contains("task-2: read"));
    open(&test_env, "first");
    let ran = running.end(WAIT_TIMEOUT).ok();
    let out = ran.out();
    let lines: Vec<&str> = out.lines().collect();
    let order: Vec<bool> = [
        (0, "task-3"),
        (1, "task-2"),
        (2, "task-1"),
        (3, "3 of 3 succeeded"),
    ]
    .map(|(line, word)| lines[line].contains(word))
    .to_vec();
    assert_eq!(order, [true; 4], "{ran}");
    assert_eq!(lines.len(), 4, "{ran}");
}

#[test]
fn ten_run_at_once_and_the_failing_ones_are_shown() {
    let test_env = test_env();
    let mut commands: Vec<String> = (1..=8).map(|n| format!("echo fine {n}")).collect();
    commands.push("seq -f 'line %g' 1 80; echo the reason; exit 9".into());
    commands.push("echo short; exit 1".into());
    let mut args = vec!["parallel"];
    args.extend(commands.iter().map(String::as_str));
    let ran = check(&test_env, &args, 1, &["8 of 10 succeeded · 2 failed"], &[]);
    let out = ran.out();
    assert!(!out.contains("\nfine"), "only failures are shown\n{ran}");
    // The end of a long one, and how to see all of it.
    assert!(
        out.contains("line 80\nthe reason\n") && out.contains("line 32\n"),
        "{ran}"
    );
    assert!(
        !out.contains("line 31\n") && out.contains("… 31 lines above"),
        "{ran}"
    );
    assert!(
        out.contains("exit 1 · ") && out.contains("\nshort\n"),
        "{ran}"
    );
    let at = out.find("fugue read p").expect("how to read more");
    let pane: PaneId = out[at + 11..]
        .split(' ')
        .next()
        .unwrap_or_default()
        .parse()
        .expect("a pane");
    assert_eq!(test_env.text(pane).lines().count(), 81);
}

#[test]
fn an_interrupted_wait_leaves_the_run_and_can_be_picked_up() {
    let test_env = test_env();
    let one = gate(&test_env, "one");
    for (first, code) in [("echo begun", 0), ("echo begun; exit 5", 1)] {
        let mut running = test_env.start(&["parallel", first, &one]);
        running.wait_for_stdout(WAIT_TIMEOUT, |said| said.contains("echo begun"));
        interrupt(&running);
        let ran = running.end(WAIT_TIMEOUT);
        assert_eq!(ran.code, Some(130), "{ran}");
        let run = run_to_wait_for(&ran.err());

        let short = test_env.fugue(&["wait", &run[..8], "--timeout", "1ms"]);
        assert_eq!(short.code, Some(124), "{short}");
        assert!(short.err().contains("still running"), "{short}");
        let known: RunResult = test_env
            .fugue(&["wait", "--json", &run, "--timeout", "0"])
            .json();
        assert!(known.is_running(), "{known:?}");

        let mut waiting = test_env.start(&["wait", &run]);
        waiting.wait_for_stdout(WAIT_TIMEOUT, |said| said.contains("echo begun"));
        open(&test_env, "one");
        let waited = waiting.end(WAIT_TIMEOUT);
        assert_eq!(waited.code, Some(code), "{waited}");
        assert!(waited.out().contains("task-2: read"), "{waited}");
        // What is over can still be asked for.
        let again = test_env.fugue(&["wait", &run]);
        assert_eq!(again.code, Some(code), "{again}");
        assert!(again.out().contains("of 2 succeeded"), "{again}");
        let document: RunResult = test_env.fugue(&["wait", "--json", &run]).json();
        assert!(!document.is_running());
    }
}

#[test]
fn a_cancelled_run_is_ended_and_its_waiters_are_answered() {
    let test_env = test_env();
    let running = test_env.start(&["parallel", "--json", "echo begun", "exec sleep 1000"]);
    let run = until_some("one task has ended", WAIT_TIMEOUT, || {
        let runs = test_env.overview().runs;
        runs.into_iter().find(|run| run.progress.starts_with("1/2"))
    });
    let id = run.run_id.0;
    let waiting = test_env.start(&["wait", &id]);
    let said = check(
        &test_env,
        &["cancel", &id[..8]],
        0,
        &["1 of 2 succeeded · 1 cancelled"],
        &[],
    );
    assert!(!said.err().contains("had ended"), "{said}");

    let ran = running.end(WAIT_TIMEOUT);
    assert_eq!(ran.code, Some(1), "{ran}");
    let result: ParallelResult = ran.json();
    assert_eq!(result.status, ParallelStatus::Cancelled);
    let statuses: Vec<_> = result.results.iter().map(|task| task.status).collect();
    assert_eq!(statuses, [TaskStatus::Exited, TaskStatus::Cancelled]);
    let waited = waiting.end(WAIT_TIMEOUT);
    assert_eq!(waited.code, Some(1), "{waited}");

    // A finished run is no error.
    check(
        &test_env,
        &["cancel", &id],
        0,
        &["1 cancelled"],
        &["had ended before"],
    );
    let again: CancelRunReply = test_env.fugue(&["cancel", "--json", &id]).json();
    assert!(again.already_ended, "{again:?}");
    check(&test_env, &["cancel", "r-nope"], 1, &[], &["r-nope"]);

    let pane = test_env.fugue(&["new", "--", "exec sleep 1000"]).ok();
    let pane = pane.out().trim().to_owned();
    let waiting = test_env.start(&["expect", &pane, "never"]);
    let run = until_some("it waits", WAIT_TIMEOUT, || {
        let runs = test_env.overview().runs;
        runs.into_iter().find(|run| run.status == "running")
    });
    check(
        &test_env,
        &["cancel", &run.run_id.0],
        0,
        &[],
        &["was cancelled"],
    );
    assert_eq!(waiting.end(WAIT_TIMEOUT).code, Some(1));
    check(&test_env, &["status", &pane], 0, &["running"], &[]);
}

#[test]
fn ctrl_c_works_at_any_moment() {
    let test_env = test_env();
    let mut chance = SeededRng::default();
    for _ in 0..30 {
        let running = test_env.start(&["parallel", "true", "sleep 0.02"]);
        sleep_in_test(Duration::from_millis(chance.below(80)));
        let pid = Pid::from_raw(running.pid() as i32).expect("a pid");
        kill_process(pid, Signal::INT).expect("not yet waited for");
        let ran = running.end(WAIT_TIMEOUT);
        match (ran.code, ran.signal) {
            // Too late, or before there was anything to pick up.
            (Some(0), None) | (None, Some(2)) => {}
            (Some(130), None) => {
                let run = run_to_wait_for(&ran.err());
                let waited = test_env.fugue(&["wait", &run]);
                let began = ran.err().contains("the run continues");
                let code = waited.code;
                assert!(
                    code == Some(0) || !began && code == Some(1),
                    "{ran}\n{waited}"
                );
            }
            _ => panic!("seed {}: {ran}", chance.seed()),
        }
    }
}

#[test]
fn an_interrupted_wait_for_a_document_gives_what_is_known() {
    let test_env = test_env();
    let one = gate(&test_env, "one");
    let running = test_env.start(&["parallel", "--json", "true", &one]);
    let run = until_some("the run is known", WAIT_TIMEOUT, || {
        let runs = test_env.overview().runs;
        runs.into_iter().find(|run| run.progress.starts_with("1/2"))
    });
    interrupt(&running);
    let ran = running.end(WAIT_TIMEOUT);
    assert_eq!(ran.code, Some(130), "{ran}");
    let known: ParallelResult = ran.json();
    assert_eq!(
        (known.status, known.run_id),
        (ParallelStatus::Running, Some(run.run_id.clone()))
    );
    open(&test_env, "one");
    test_env.fugue(&["wait", &run.run_id.0]).ok();
}

#[test]
fn a_wait_outlives_the_daemon_it_asked() {
    let test_env = test_env();
    let one = gate(&test_env, "one");
    let mut parallel = test_env.start(&["parallel", "echo begun", &one]);
    parallel.wait_for_stdout(WAIT_TIMEOUT, |said| said.contains("echo begun"));
    for daemon in test_env.daemons() {
        daemon.kill9();
    }
    open(&test_env, "one");
    let ran = parallel.end(WAIT_TIMEOUT).ok();
    assert!(ran.out().contains("2 of 2 succeeded"), "{ran}");
}

#[test]
fn a_pipelines_steps_are_shown_as_they_run() {
    let test_env = test_env();
    let one = gate(&test_env, "one");
    let slow = format!("echo before; printf half; {one}; echo; echo after");
    let mut running = test_env.start(&[
        "pipeline",
        "X=5; cd /",
        &slow,
        "echo x is $X in $PWD; exit 3",
        "echo never",
    ]);
    let early = running.wait_for_stdout(WAIT_TIMEOUT, |said| said.contains("before\n"));
    assert!(early.ends_with("before\n"), "{early}");
    open(&test_env, "one");
    let ran = running.end(WAIT_TIMEOUT);
    assert_eq!(ran.code, Some(3), "{ran}");
    let out = ran.out();
    let mut rest = out.as_str();
    for line in [
        "── 1/4 X=5; cd /\n",
        "── exit 0 · ",
        "── 2/4 echo before; ",
        "before\nhalf\nafter\n── exit 0 · ",
        "── 3/4 echo x is $X in $PWD; exit 3\n",
        "x is 5 in /\n── exit 3 · ",
        "failed at step-3 · ",
    ] {
        let at = rest
            .find(line)
            .unwrap_or_else(|| panic!("no {line:?} in its place\n{ran}"));
        rest = &rest[at + line.len()..];
    }
    assert_eq!(out.matches("── ").count(), 6, "{ran}");
    assert!(!out.contains("never"), "{ran}");
}

#[test]
fn pipeline_exits_as_the_step_that_failed() {
    let test_env = test_env();
    check(
        &test_env,
        &["pipeline", "true", "true"],
        0,
        &["2 steps succeeded"],
        &[],
    );
    check(
        &test_env,
        &["pipeline", "true", "(exit 42)", "echo no"],
        42,
        &["failed at step-2"],
        &[],
    );
    check(&test_env, &["pipeline", "exit 3"], 3, &["exit 3"], &[]);
    check(&test_env, &["pipeline", "kill -9 $$"], 1, &["SIGKILL"], &[]);
    check(
        &test_env,
        &["pipeline", "-k", "(exit 6)", "(exit 7)", "echo on"],
        6,
        &["\non\n", "step-1 was the first"],
        &[],
    );
    // A step that ends its shell is followed by its own end, and the next step by its own heading, once.
    let fresh = check(
        &test_env,
        &["pipeline", "-k", "exit 8", "echo on"],
        8,
        &["\non\n", "fresh shell"],
        &[],
    );
    assert_eq!(fresh.out().matches("── 2/2").count(), 1, "{fresh}");
    let late = [
        "pipeline",
        "--timeout",
        "500ms",
        "echo one",
        "sleep 600",
        "echo no",
    ];
    let late = check(
        &test_env,
        &late,
        124,
        &["one\n── exit 0", "── timeout", "timed out"],
        &[],
    );
    assert!(!late.out().contains("\nno\n"), "{late}");
    let quiet = check(
        &test_env,
        &["pipeline", "-q", "echo a", "printf b"],
        0,
        &[],
        &[],
    );
    assert_eq!(quiet.out(), "a\nb\n");

    let ran = test_env.fugue(&["pipeline", "--json", "-n", "prep", "echo a", "exit 5"]);
    assert_eq!(ran.code, Some(5), "{ran}");
    let result: PipelineResult = ran.json();
    assert_eq!(result.status, PipelineStatus::Failed);
    assert_eq!(result.failed_at.as_deref(), Some("step-2"));
    assert_eq!(
        (&*result.steps[0].name, &*result.steps[0].output),
        ("prep", "a")
    );
}

#[test]
fn every_shell_shows_its_steps() {
    let test_env = test_env();
    for shell in ["bash", "zsh", "fish", "dash", "sh"] {
        if test_env
            .run("sh", &["-c", &format!("command -v {shell}")])
            .code
            != Some(0)
        {
            continue;
        }
        let args = [
            "pipeline",
            "--shell",
            shell,
            "cd /",
            "pwd; echo out",
            "exit 4",
        ];
        let ran = check(
            &test_env,
            &args,
            4,
            &["── 2/3 pwd; echo out\n/\nout\n── exit 0"],
            &[],
        );
        assert_eq!(ran.out().matches("── ").count(), 6, "{shell}: {ran}");
    }
}

#[test]
fn much_output_of_a_step_is_shown_whole() {
    let test_env = test_env();
    let ran = test_env
        .fugue(&["pipeline", "-q", "seq 1 200000", "echo end"])
        .ok();
    let mut wanted: String = (1..=200_000).map(|n| format!("{n}\n")).collect();
    wanted.push_str("end\n");
    assert!(
        ran.out() == wanted,
        "{} bytes of {}",
        ran.stdout.len(),
        wanted.len()
    );
}

#[test]
fn a_pipeline_in_a_pane_shows_its_own_steps_only() {
    let test_env = test_env();
    let pane = test_env.shell("bash").pane_id;
    test_env.type_line(pane, "echo typed before");
    test_env.until_printed(pane, |text| text.contains("\ntyped before"));
    let name = pane.to_string();
    let ran = check(
        &test_env,
        &["pipeline", "--pane", &name, "X=7", "echo first $X"],
        0,
        &["\nfirst 7\n"],
        &[],
    );
    assert!(ran.out().starts_with("── 1/2 X=7\n"), "{ran}");
    assert!(!ran.out().contains("typed before"), "{ran}");

    // Picked up in the middle, it is shown from its own beginning.
    let one = gate(&test_env, "one");
    let second = format!("echo second $X; {one}");
    let mut running = test_env.start(&["pipeline", "--pane", &name, "echo again", &second]);
    running.wait_for_stdout(WAIT_TIMEOUT, |said| said.contains("second 7\n"));
    interrupt(&running);
    let ran = running.end(WAIT_TIMEOUT);
    assert_eq!(ran.code, Some(130), "{ran}");
    let mut waiting = test_env.start(&["wait", &run_to_wait_for(&ran.err())]);
    waiting.wait_for_stdout(WAIT_TIMEOUT, |said| said.contains("second 7\n"));
    open(&test_env, "one");
    let waited = waiting.end(WAIT_TIMEOUT).ok();
    assert!(
        waited
            .out()
            .starts_with("── 1/2 echo again\nagain\n── exit 0"),
        "{waited}"
    );
    assert!(!waited.out().contains("first 7"), "{waited}");
    assert!(waited.out().contains("2 steps succeeded"), "{waited}");
    // And when it is over, from its result.
    let over = test_env.fugue(&["wait", &run_to_wait_for(&ran.err())]).ok();
    assert!(over.out().contains("second 7\n── exit 0"), "{over}");
}

#[test]
fn expect_prints_the_line_and_tells_outcomes_apart() {
    let test_env = test_env();
    let one = gate(&test_env, "one");
    let pane = test_env
        .pane(&format!(
            "echo ready on port 80; {one}; echo fatal: no; exit 3"
        ))
        .pane_id
        .to_string();
    let found = check(&test_env, &["expect", &pane, r"port \d+"], 0, &[], &[]);
    assert_eq!(found.out(), "ready on port 80\n");
    check(
        &test_env,
        &["expect", &pane, "never", "--timeout", "50ms"],
        124,
        &[],
        &["no /never/", &pane],
    );
    check(
        &test_env,
        &["expect", &pane, "--timeout", "0", "-x"],
        124,
        &[],
        &["no /-x/"],
    );
    let waiting = test_env.start(&["expect", &pane, "never", "--fail", "^fatal"]);
    let at_end = test_env.start(&["expect", &pane, "never"]);
    until_some("both wait", WAIT_TIMEOUT, || {
        let runs = test_env.overview().runs;
        let waits = runs.iter().filter(|run| run.status == "running").count();
        (waits == 2).then_some(())
    });
    open(&test_env, "one");
    let failed = waiting.end(WAIT_TIMEOUT);
    assert_eq!(
        (failed.code, failed.out().as_str()),
        (Some(1), "fatal: no\n"),
        "{failed}"
    );
    assert!(failed.err().contains("fail pattern"), "{failed}");
    let exited = at_end.end(WAIT_TIMEOUT);
    assert_eq!(exited.code, Some(1), "{exited}");
    assert!(
        exited.err().contains("exit 3") && exited.stdout.is_empty(),
        "{exited}"
    );

    let output = check(
        &test_env,
        &["expect", &pane, "fatal", "--output"],
        0,
        &[],
        &[],
    );
    assert_eq!(output.out(), "ready on port 80\nfatal\n");
    let result: ExpectResult = test_env.json(&["expect", &pane, "port", "-n", "10"]);
    assert_eq!(
        (result.status, result.matched.as_deref()),
        (ExpectStatus::Matched, Some("port"))
    );
    let since: ExpectResult = test_env
        .fugue(&[
            "expect",
            &pane,
            "port",
            "--since",
            &result.cursor.0,
            "--json",
        ])
        .json();
    assert_eq!(
        since.status,
        ExpectStatus::Exited,
        "an old match does not count"
    );

    let open_pane = test_env.pane("echo up; exec sleep 600").pane_id;
    check(
        &test_env,
        &["expect", &open_pane.to_string(), "up", "--close"],
        0,
        &["up"],
        &[],
    );
    assert_eq!(
        test_env.status(open_pane).state.state,
        fugue_api::pane_state::PaneState::Closed
    );
}

#[test]
fn an_interrupted_expect_goes_on() {
    let test_env = test_env();
    let one = gate(&test_env, "one");
    let pane = test_env
        .pane(&format!("{one}; echo there"))
        .pane_id
        .to_string();
    let running = test_env.start(&["expect", &pane, "there"]);
    until_some("it waits", WAIT_TIMEOUT, || test_env.overview().runs.pop());
    interrupt(&running);
    let ran = running.end(WAIT_TIMEOUT);
    assert_eq!(ran.code, Some(130), "{ran}");
    open(&test_env, "one");
    let waited = check(
        &test_env,
        &["wait", &run_to_wait_for(&ran.err())],
        0,
        &[],
        &[],
    );
    assert_eq!(waited.out(), "there\n");
}

#[test]
fn ls_and_status_list_what_runs_and_the_last_of_what_ran() {
    let test_env = test_env();
    for _ in 0..7 {
        test_env.fugue(&["parallel", "true"]).ok();
    }
    let one = gate(&test_env, "one");
    let running = test_env.start(&["parallel", "-n", "slow one", &one, "true"]);
    until_some("one of two is done", WAIT_TIMEOUT, || {
        let runs = test_env.overview().runs;
        runs.into_iter().find(|run| run.progress.starts_with("1/2"))
    });
    for verb in ["ls", "status"] {
        let ran = test_env.fugue(&[verb]).ok();
        let out = ran.out();
        let runs: Vec<&str> = out.lines().filter(|line| line.starts_with("r-")).collect();
        assert_eq!(runs.len(), 6, "{ran}");
        let last = runs[5];
        for word in ["parallel", "running", "1/2 done", "slow one"] {
            assert!(last.contains(word), "{last}");
        }
        assert!(ran.err().contains("2 older runs"), "{ran}");
        // The panes of those that are over are not in the way.
        let panes = out.lines().filter(|line| line.starts_with('p')).count();
        assert_eq!(panes, 1, "{ran}");
    }
    let all = test_env.overview();
    assert_eq!(all.runs.len(), 8);
    assert!(all.runs.iter().all(|run| run.kind == RunKind::Parallel));
    open(&test_env, "one");
    running.end(WAIT_TIMEOUT).ok();
}

// On a terminal.

/// Runs `fugue` with these words in a pane of this size, and then says its exit code.
fn on_terminal(test_env: &TestEnv, rows: &str, cols: &str, words: &str) -> PaneId {
    let fugue = env!("CARGO_BIN_EXE_fugue");
    let line = format!("{fugue} {words}; echo code $?; stty -a > tty.after");
    test_env.run("sh", &["-c", "rm -f tty.after"]).ok();
    let args = ["new", "--rows", rows, "--cols", cols, "--", &line];
    let made: CreatePaneReply = test_env.json(&args);
    made.pane_id
}

#[track_caller]
fn screen(test_env: &TestEnv, pane: PaneId, wanted: impl Fn(&str) -> bool) -> String {
    until_some("the screen is as wanted", WAIT_TIMEOUT, || {
        let read: ReadPaneReply = test_env.read(pane, &["--screen"]);
        wanted(&read.text).then_some(read.text)
    })
}

#[test]
fn a_live_table_is_drawn_in_place_and_gone_at_the_end() {
    let test_env = test_env();
    let (one, two) = (gate(&test_env, "one"), gate(&test_env, "two"));
    let words = format!(
        "parallel -n build 'echo compiling; {one}; echo linking; {two}' 'echo oh no; exit 3'"
    );
    let pane = on_terminal(&test_env, "24", "80", &words);
    let first = screen(&test_env, pane, |text| {
        text.contains("compiling") && text.contains("1 of 2 done")
    });
    let rows: Vec<&str> = first.lines().filter(|line| !line.is_empty()).collect();
    assert_eq!(rows.len(), 3, "{first}");
    assert!(
        rows[0].starts_with("build  ") && rows[0].contains("running"),
        "{first}"
    );
    assert!(
        rows[1].starts_with("echo oh no; exit 3  ") && rows[1].contains("exit 3 "),
        "{first}"
    );
    assert!(rows[2].starts_with("1 failed · 1 of 2 done · "), "{first}");
    open(&test_env, "one");
    let second = screen(&test_env, pane, |text| text.contains("linking"));
    let rows = second.lines().filter(|line| !line.is_empty()).count();
    assert_eq!(rows, 3, "drawn over the first\n{second}");
    open(&test_env, "two");
    let end = screen(&test_env, pane, |text| text.contains("code 1"));
    assert!(
        end.starts_with("── echo oh no; exit 3 · exit 3 · "),
        "{end}"
    );
    assert!(end.contains("\noh no\nPANE "), "{end}");
    assert!(end.contains("\n1 of 2 succeeded · 1 failed · "), "{end}");
    assert!(!end.contains("Ctrl-C") && !end.contains("running"), "{end}");
    test_env.exited(pane);
    let raw = String::from_utf8_lossy(&test_env.raw(pane)).into_owned();
    assert_eq!(
        raw.matches("\x1b[?25l").count(),
        raw.matches("\x1b[?25h").count()
    );
    assert_eq!(
        raw.matches("\x1b[?7l").count(),
        raw.matches("\x1b[?7h").count()
    );
}

#[test]
fn a_live_table_fits_small_terminals() {
    let test_env = test_env();
    let one = gate(&test_env, "one");
    let words = format!(
        "parallel 'echo a line that is longer than the terminal is wide; {one}' 'seq 9; false' true true true true true true"
    );
    let pane = on_terminal(&test_env, "6", "40", &words);
    let shown = screen(&test_env, pane, |text| text.contains("7 of 8 done"));
    let rows: Vec<&str> = shown.lines().filter(|line| !line.is_empty()).collect();
    assert_eq!(rows.len(), 5, "{shown}");
    assert!(
        rows[0].contains("running") && rows[1].contains("exit 1"),
        "{shown}"
    );
    assert!(rows.iter().all(|row| row.chars().count() < 40), "{shown}");
    assert!(rows[4].starts_with("1 failed · 7 of 8 done"), "{shown}");
    // Smaller still, in the middle of it.
    let name = pane.to_string();
    test_env.fugue(&["resize", &name, "5", "30"]).ok();
    let small = screen(&test_env, pane, |text| {
        text.lines().filter(|line| !line.is_empty()).count() == 4
    });
    assert!(small.lines().all(|row| row.chars().count() < 30), "{small}");
    open(&test_env, "one");
    let end = screen(&test_env, pane, |text| text.contains("code 1"));
    assert!(end.contains("7 of 8 succeeded"), "{end}");
}

#[test]
fn ctrl_c_leaves_a_sane_terminal() {
    let test_env = test_env();
    let one = gate(&test_env, "one");
    let before = test_env.run_to_exit("stty -a");
    for verb in ["parallel", "pipeline"] {
        let pane = on_terminal(
            &test_env,
            "24",
            "120",
            &format!("{verb} 'echo begun; {one}'"),
        );
        screen(&test_env, pane, |text| {
            text.lines().any(|line| line.trim_end().ends_with("begun"))
        });
        test_env.press(pane, &["C-c"]);
        let end = screen(&test_env, pane, |text| text.contains("code 130"));
        let run = run_to_wait_for(&end);
        assert!(!end.contains("^C"), "{end}");
        assert!(
            verb == "pipeline" || !end.contains("begun"),
            "the table is gone\n{end}"
        );
        test_env.exited(pane);
        let after = fs::read_to_string(test_env.work().join("tty.after")).expect("stty");
        let modes = |text: &str| {
            text.lines()
                .skip(1)
                .map(str::trim)
                .collect::<Vec<_>>()
                .join(" ")
        };
        assert_eq!(modes(&after), modes(before.trim_end()), "{verb}");
        open(&test_env, "one");
        test_env.fugue(&["wait", &run]).ok();
    }
}

#[test]
fn a_noisy_task_is_shown_a_few_times_a_second() {
    let test_env = test_env();
    let pane = on_terminal(
        &test_env,
        "24",
        "80",
        "parallel --timeout 2s yes 'while true; do echo tick; done'",
    );
    screen(&test_env, pane, |text| text.contains("code 124"));
    test_env.exited(pane);
    let raw = String::from_utf8_lossy(&test_env.raw(pane)).into_owned();
    let frames = raw.matches("\x1b[?25l").count();
    // Two seconds of work, and up to two more until all of it has ended and was read; a loaded machine draws less.
    assert!((2..=60).contains(&frames), "{frames} frames");
}

#[test]
fn on_a_terminal_a_step_shows_its_growing_line() {
    let test_env = test_env();
    let one = gate(&test_env, "one");
    let pane = on_terminal(
        &test_env,
        "24",
        "80",
        &format!("pipeline 'printf half; {one}; echo whole'"),
    );
    let half = screen(&test_env, pane, |text| text.contains("\nhalf"));
    assert!(half.starts_with("── 1/1 printf half"), "{half}");
    open(&test_env, "one");
    let end = screen(&test_env, pane, |text| text.contains("code 0"));
    assert!(end.contains("\nhalfwhole\n── exit 0 · "), "{end}");
}
