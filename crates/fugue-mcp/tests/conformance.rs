//! The public conformance suite against our server with its fixtures: everything that either revision requires.

use std::{path::PathBuf, time::Duration};

use fugue_testkit::{
    MissingRequirement, RunningProgram, TestEnv, report_metric, skip, test_agents::ExternalTools,
};

const LIMIT: Duration = Duration::from_secs(240);

/// What the suite also runs and does not count, and why we do not pass it.
const NOT_OURS: &[(&str, &str)] = &[
    (
        "tasks-",
        "the server of the suite's fixtures has no tasks; `mcp_tasks` in the end-to-end tests has its own",
    ),
    (
        "json-schema-2020-12",
        "wants a tool with references in its schema; ours are inlined on purpose",
    ),
    (
        "http-custom-header-server-validation",
        "wants arguments mirrored in headers, which no tool of ours asks for",
    ),
];

#[test]
fn all_that_2025_11_25_requires_is_there() {
    check("2025-11-25");
}

#[test]
fn all_that_2026_07_28_requires_is_there() {
    check("2026-07-28");
}

fn check(revision: &str) {
    let server = beside("examples/conformance");
    let test_env = TestEnv::new(&server, LIMIT);
    let tools = ExternalTools::find_beside(&server);
    let suite = "node_modules/@modelcontextprotocol/conformance/dist/index.js";
    let (Some(suite), Some(node)) = (tools.find(suite), tools.find("node_modules/node/bin/node"))
    else {
        skip(
            MissingRequirement::Program,
            "the conformance suite is not installed (scripts/mcp-tools)",
        );
        return;
    };
    let mut serving = RunningProgram::start(test_env.command(&server));
    let url = serving.wait_for_stdout(LIMIT, |said| said.ends_with('\n'));
    let mut command = tools.command(&test_env, &node);
    command
        .arg(suite)
        .args(["server", "--url", url.trim(), "--requirements", revision]);
    let ran = RunningProgram::start(command).end(LIMIT);
    let said = ran.out() + &ran.err();
    let mut passed = 0;
    for line in said.lines() {
        let Some((mark, scenario)) = line.split_once(' ').filter(|_| line.contains(" passed, "))
        else {
            continue;
        };
        let excused = NOT_OURS.iter().any(|(name, _)| scenario.starts_with(name));
        match mark {
            "✓" if !excused => passed += 1,
            "✗" if !excused => panic!("{scenario}\n{said}"),
            _ => {}
        }
    }
    // Fewer would mean that the suite's words have changed and nothing was looked at.
    let least = if revision == "2025-11-25" { 30 } else { 37 };
    assert!(passed >= least, "{passed} scenarios\n{said}");
    report_metric(
        &format!("MCP conformance, {revision}"),
        format!("{passed} scenarios, 0 failed"),
    );
    for (name, why) in NOT_OURS {
        report_metric(
            &format!("MCP conformance, {revision}, not scored"),
            format!("{name}: {why}"),
        );
    }
}

/// A program that cargo built with this test.
fn beside(program: &str) -> PathBuf {
    let test = std::env::current_exe().expect("a test is a program");
    let built = test.ancestors().nth(2).expect("target/debug/deps");
    built.join(program)
}
