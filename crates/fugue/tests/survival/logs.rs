//! Long and damaged output logs: reading them takes little memory, and missing ranges are reported.

use std::{fs, path::PathBuf, time::Duration};

use fugue_api::{
    PaneId,
    tools::{CreatePaneReply, ParallelResult, ReadPaneReply},
};
use fugue_testkit::{TestEnv, report_metric};

const LIMIT: Duration = Duration::from_secs(300);
/// What the daemon may take at its peak, whatever is read; less where the logs are shorter.
fn most_memory_kb() -> u64 {
    if size() >= 20 { 150 * 1024 } else { 64 * 1024 }
}

fn test_env() -> TestEnv {
    TestEnv::new(env!("CARGO_BIN_EXE_fugue"), LIMIT)
}

/// The most memory that the daemon has had so far.
fn peak_kb(test_env: &TestEnv) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", test_env.daemon().pid));
    let status = status.expect("the daemon's status");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    number.expect("a line VmHWM")
}

/// A command that prints so many megabytes in short lines.
fn prints(megabytes: u64) -> String {
    // With the carriage return, sixteen bytes a line.
    let lines = megabytes * 65_536;
    format!("seq -f '%013.0f.' 1 {lines}")
}

/// Megabytes that a task prints: few in every run, all with `scripts/test --soak`.
fn size() -> u64 {
    std::env::var("FUGUE_LOG_MB")
        .ok()
        .and_then(|size| size.parse().ok())
        .unwrap_or(6)
}

#[test]
fn the_output_of_long_tasks_costs_little_memory() {
    let test_env = test_env();
    let command = prints(size());
    let result: ParallelResult = test_env.json(&["parallel", &command, &command, &command]);
    let last = format!("{:013}.", size() * 65_536);
    for task in &result.results {
        assert_eq!(task.exit_code, Some(0));
        assert!(
            task.output.starts_with("0000000000001.\n"),
            "{}",
            task.output
        );
        assert!(task.output.trim_end().ends_with(&last), "{}", task.output);
        let shown = task
            .output
            .lines()
            .filter(|line| line.ends_with('.'))
            .count();
        // The lines in which the head ends and the tail begins are shown in part.
        let (known, all) = (shown as u64 + task.omitted_lines, size() * 65_536);
        assert!((all - 2..=all).contains(&known), "{known} of {all}");
    }
    let peak = peak_kb(&test_env);
    report_metric(
        "peak memory of the daemon, three tasks",
        format!("{} MB each: {} MiB", size(), peak / 1024),
    );
    assert!(peak < most_memory_kb(), "{peak} kB");
}

#[test]
fn a_search_of_a_long_log_costs_little_memory() {
    let test_env = test_env();
    // The whole log of a pane at the default cap in the long run.
    let megabytes = (size() * 3).min(60);
    let lines = megabytes * 65_536;
    let pane = test_env.pane(&prints(megabytes)).pane_id;
    test_env.exited(pane);
    let found: ReadPaneReply = test_env.read(pane, &["--grep", "00001\\.$", "-n", "1000000"]);
    let hits = lines.div_ceil(100_000);
    assert!(
        found.text.starts_with("1:0000000000001.\n100001:"),
        "{}",
        found.text
    );
    assert_eq!(found.lines + found.omitted_lines, hits);
    // Every line matches, and they are more than are wanted.
    let most = lines - 10;
    let found = test_env.read(
        pane,
        &["--grep", ".", "-n", &most.min(1_000_000).to_string()],
    );
    assert_eq!(found.lines + found.omitted_lines, lines);
    assert!(
        found.text.ends_with(&format!("{lines}:{lines:013}.")),
        "{}",
        found.text
    );
    let all = test_env.read(pane, &["-n", &most.min(1_000_000).to_string()]);
    assert_eq!(all.lines + all.omitted_lines, most.min(1_000_000));
    let peak = peak_kb(&test_env);
    report_metric(
        "peak memory of the daemon, reads of one log",
        format!("{megabytes} MB: {} MiB", peak / 1024),
    );
    assert!(peak < most_memory_kb(), "{peak} kB");
}

#[test]
fn ten_tasks_at_the_cap_of_their_logs_cost_little_memory() {
    let test_env = test_env();
    let megabytes = if size() >= 20 { 66 } else { 3 };
    let command = prints(megabytes);
    let mut args = vec!["parallel", "--timeout", "280s"];
    args.extend([command.as_str(); 10]);
    let result: ParallelResult = test_env.json(&args);
    assert_eq!(result.results.len(), 10);
    assert!(result.results.iter().all(|task| task.exit_code == Some(0)));
    let peak = peak_kb(&test_env);
    report_metric(
        "peak memory of the daemon, ten tasks",
        format!("{megabytes} MB each: {} MiB", peak / 1024),
    );
    assert!(peak < most_memory_kb(), "{peak} kB");
}

/// The files of a pane's log, oldest first, each with its length.
fn files(test_env: &TestEnv, pane: PaneId) -> Vec<(PathBuf, u64)> {
    let dir = test_env.state().join(format!("panes/{pane}"));
    let entries = fs::read_dir(dir).expect("a pane has a directory").flatten();
    let mut files: Vec<(PathBuf, u64)> = entries
        .filter(|entry| entry.file_name().to_string_lossy().starts_with("out."))
        .map(|entry| (entry.path(), entry.metadata().expect("a file").len()))
        .collect();
    files.sort();
    files
}

const ALL: [&str; 4] = ["-n", "1000000", "--max-output-chars", "16000000"];

#[test]
fn output_that_is_missing_in_the_middle_is_told_and_the_rest_is_read() {
    let test_env = test_env();
    test_env.configure("log_cap_bytes = 1048576\n");
    let pane: CreatePaneReply = test_env.json(&["new", "--", "seq 100000 159999"]);
    let pane = pane.pane_id;
    test_env.exited(pane);
    let files = files(&test_env, pane);
    let (path, length) = &files[files.len() / 2];
    fs::remove_file(path).expect("a file of the log");
    let read = test_env.read(pane, &ALL);
    let note = read.text.lines().find(|line| line.starts_with("[fugue: "));
    let note = note.unwrap_or_else(|| panic!("{} bytes of text", read.text.len()));
    assert!(
        note.ends_with(" bytes of output are missing here]"),
        "{note}"
    );
    let digits: String = note.chars().filter(char::is_ascii_digit).collect();
    assert_eq!(digits.parse(), Ok(*length), "{note}");
    assert_eq!(read.missing_bytes, *length);
    assert!(read.text.starts_with("100000\n100001\n"));
    assert!(read.text.trim_end().ends_with("\n159999"));
    // A filter gives lines only; the reply says it all the same.
    let found = test_env.read(pane, &["--grep", "^159999$"]);
    assert_eq!((found.lines, found.missing_bytes), (1, *length));
    let raw = test_env.raw(pane);
    assert_eq!(raw.len() as u64, 60_000 * 8 - length);
    // The last lines are whole.
    assert_eq!(test_env.read(pane, &["-n", "3"]).missing_bytes, 0);
}

#[test]
fn output_that_is_missing_at_the_end_is_told() {
    let test_env = test_env();
    test_env.configure("log_cap_bytes = 1048576\n");
    let result: ParallelResult = test_env.json(&["parallel", "--keep", "seq 100000 159999"]);
    let pane = result.results[0].pane_id;
    let run = result.run_id.as_ref().expect("its id").to_string();
    let files = files(&test_env, pane);
    let (path, length) = files.last().expect("a file");
    let file = fs::File::options().write(true).open(path).expect("a file");
    file.set_len(length - 800).expect("a shorter file");
    let read = test_env.read(pane, &["-n", "3"]);
    assert!(
        read.text
            .ends_with("\n[fugue: 800 bytes of output are missing here]"),
        "{}",
        read.text
    );
    assert_eq!(read.missing_bytes, 800);
    let again: ParallelResult = test_env.json(&["wait", &run]);
    let note = again.results[0].note.as_deref();
    assert_eq!(
        note,
        Some("800 bytes of its output are missing from the log")
    );
    // Whoever follows it comes to an end.
    assert_eq!(test_env.raw(pane).len() as u64, 60_000 * 8 - 800);
}

#[test]
fn output_that_cannot_be_read_is_an_error_and_no_end() {
    let test_env = test_env();
    test_env.configure("log_cap_bytes = 1048576\n");
    let result: ParallelResult = test_env.json(&["parallel", "--keep", "seq 100000 159999"]);
    let pane = result.results[0].pane_id;
    let files = files(&test_env, pane);
    let (path, _) = &files[files.len() / 2];
    fs::remove_file(path).expect("a file of the log");
    // Opens, and cannot be read.
    fs::create_dir(path).expect("a directory");
    let name = pane.to_string();
    let mut args = vec!["read", &name];
    args.extend(ALL);
    let error = test_env.refused(&args, 1);
    assert!(error.message.contains("cannot be read"), "{error}");
    let again: ParallelResult =
        test_env.json(&["wait", &result.run_id.as_ref().expect("its id").to_string()]);
    let note = again.results[0].note.as_deref().unwrap_or_default();
    assert!(note.contains("could not be read"), "{note}");
}
