//! `fugue doctor` finds real agents, and the command that it names registers fugue with them.

use std::{path::Path, time::Duration};

use fugue_testkit::{MissingRequirement, ProgramOutput, TestEnv, skip, test_agents::ExternalTools};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(240);

fn line_of(ran: &ProgramOutput, agent: &str) -> Value {
    let document: Value = ran.json();
    let lines = document["checks"].as_array().cloned().unwrap_or_default();
    let about = |line: &&Value| {
        let message = line["message"].as_str().unwrap_or_default();
        line["check"] == "agents" && message.starts_with(&format!("{agent} "))
    };
    let found = lines.iter().find(about);
    found
        .unwrap_or_else(|| panic!("{agent}: {document:#}"))
        .clone()
}

#[test]
fn the_command_that_doctor_names_registers_fugue_with_the_agent() {
    let binary = Path::new(env!("CARGO_BIN_EXE_fugue"));
    let tools = ExternalTools::find_beside(binary);
    for agent in ["claude", "codex", "gemini", "qwen"] {
        let Some(program) = tools.find(&format!("node_modules/.bin/{agent}")) else {
            let reason = format!("{agent} is not installed (scripts/mcp-tools)");
            skip(MissingRequirement::Program, reason);
            continue;
        };
        let mut test_env = TestEnv::new(binary, LIMIT);
        let bin = test_env.install();
        let tools = program.parent().expect("its directory").display();
        test_env.set_env("PATH", format!("{}:{tools}:/usr/bin:/bin", bin.display()));
        let before = line_of(&test_env.fugue(&["doctor", "--json"]), agent);
        assert_eq!(before["verdict"], "warn", "{before}");
        let version = before["message"].as_str().unwrap_or_default();
        assert!(
            version.contains(|c: char| c.is_ascii_digit()),
            "its version: {before}"
        );
        let command = before["command"]
            .as_str()
            .unwrap_or_else(|| panic!("{before}"));
        test_env.run("sh", &["-c", command]).ok();
        let after = line_of(&test_env.fugue(&["doctor", "--json"]), agent);
        assert_eq!(after["verdict"], "ok", "{after}");
    }
}
