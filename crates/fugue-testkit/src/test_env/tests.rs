//! Isolation, process discovery and argument handling of a test environment.

use super::*;
use crate::{ProcessWaiter, sleep_in_test};

const LIMIT: Duration = Duration::from_secs(30);

#[test]
fn a_world_has_its_own_home_and_nothing_of_ours() {
    let test_env = TestEnv::new("/bin/false", LIMIT);
    let said = test_env.run("env", &[]).ok().out();
    let names: Vec<&str> = said
        .lines()
        .filter_map(|line| line.split_once('='))
        .map(|(name, _)| name)
        .collect();
    let wanted = [
        "HOME",
        "LANG",
        "PATH",
        "TERM",
        "TMUX_TMPDIR",
        "XDG_CONFIG_HOME",
        "XDG_RUNTIME_DIR",
        "XDG_STATE_HOME",
    ];
    let mut names = names;
    names.sort_unstable();
    assert_eq!(names, wanted);
    let home = test_env.run("sh", &["-c", "cd && pwd"]).ok().out();
    assert_eq!(home.trim_end(), test_env.home().to_string_lossy());
}

#[test]
fn what_runs_in_a_world_is_found_whatever_it_has_thrown_away() {
    let test_env = TestEnv::new("/bin/false", LIMIT);
    for way in [
        &["sleep", "100"][..],
        &["env", "-i", "sleep", "100"],
        &["setsid", "sleep", "100"],
        &["sh", "-c", "cd / && exec sleep 100"],
    ] {
        let mut command = test_env.command(way[0]);
        command.args(&way[1..]);
        let running = RunningProgram::start(command);
        let pid = running.pid();
        until("it is found", LIMIT, || {
            test_env.processes().iter().any(|p| p.pid == pid)
        });
        let end = ProcessWaiter::of(pid).expect("it runs");
        drop(running);
        end.wait(LIMIT);
        assert!(test_env.processes().is_empty());
    }
}

#[test]
fn a_program_is_heard_while_it_runs_and_to_its_end() {
    let test_env = TestEnv::new("/bin/false", LIMIT);
    let mut command = test_env.command("sh");
    command.args(["-c", "echo one; read x < gate; echo two >&2; exit 3"]);
    test_env.run("mkfifo", &["gate"]).ok();
    let mut running = RunningProgram::start(command);
    running.wait_for_stdout(LIMIT, |said| said == "one\n");
    test_env.run("sh", &["-c", "echo > gate"]).ok();
    let ran = running.end(LIMIT);
    assert_eq!((ran.code, ran.signal), (Some(3), None));
    assert_eq!((ran.out().as_str(), ran.err().as_str()), ("one\n", "two\n"));
}

#[test]
fn json_is_asked_for_in_front_of_what_is_not_ours() {
    assert_eq!(with_json(&["ls"]), ["ls", "--json"]);
    assert_eq!(
        with_json(&["daemon", "status"]),
        ["daemon", "status", "--json"]
    );
    assert_eq!(
        with_json(&["new", "--", "ls"]),
        ["new", "--json", "--", "ls"]
    );
}

#[test]
fn time_passes_only_as_long_as_it_is_told() {
    let start = std::time::Instant::now();
    sleep_in_test(Duration::from_millis(20));
    assert!(start.elapsed() >= Duration::from_millis(20));
}
