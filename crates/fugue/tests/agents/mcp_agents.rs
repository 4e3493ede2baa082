//! Claude Code, Codex and Gemini CLI, headless, with fugue as their MCP server: their models receive every tool reply word
//! for word.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use fugue_api::{PaneId, tools::CreatePaneReply};
use fugue_testkit::{
    RunningProgram, TestEnv, report_metric,
    scripted_model::{ModelAction, ScriptedModel, tool_results},
    skip,
    test_agents::{AgentStart, ExternalTools, TestAgent, contains_reply},
};
use serde_json::{Value, json};

const LIMIT: Duration = Duration::from_secs(240);
const FUGUE: &str = env!("CARGO_BIN_EXE_fugue");
/// Longer than any call takes by itself, shorter than any agent waits.
const GRACE: Duration = Duration::from_secs(6);

#[test]
fn claude_code_gives_its_model_what_fugue_said() {
    check(TestAgent::Claude);
}

#[test]
fn codex_gives_its_model_what_fugue_said() {
    check(TestAgent::Codex);
}

#[test]
fn gemini_cli_gives_its_model_what_fugue_said() {
    check(TestAgent::Gemini);
}

/// One call that succeeds, one that fails, one with an argument that the tool does not have, and one that blocks.
fn check(agent: TestAgent) {
    let test_env = TestEnv::new(FUGUE, LIMIT);
    let tools = ExternalTools::find_beside(Path::new(FUGUE));
    let said = test_env
        .pane("echo 'word for word: \u{201c}ünï\u{201d} <&> \\ 1'; exit 7")
        .pane_id;
    test_env.exited(said);
    let stubborn = stubborn(&test_env);
    // What the command line says of the same is what the model must be given.
    let unknown_argument = fugue_api::ToolCall::parse("read_pane", json!({"linez": 5}));
    let wanted: [Value; 4] = [
        json!(test_env.read(said, &[])),
        json!(test_env.refused(&["read", "nobody", "-n", "5"], 1)),
        json!(unknown_argument.expect_err("an unknown argument")),
        json!({"pane_id": stubborn, "signal": "SIGKILL"}),
    ];
    let call = |tool: &str, input: Value| {
        let (tool, namespace) = agent.model_tool_name(tool);
        ModelAction {
            tool,
            namespace,
            input,
        }
    };
    let model = ScriptedModel::start(vec![
        call("read_pane", json!({"pane_id": said})),
        call("read_pane", json!({"pane_id": "nobody", "lines": 5})),
        // The listed schemas do not forbid further arguments; the server does.
        call("read_pane", json!({"pane_id": said, "linez": 5})),
        call(
            "close_pane",
            json!({"pane_id": stubborn, "grace_ms": GRACE.as_millis() as u64}),
        ),
    ]);
    if let Some((missing, reason)) = agent.missing_requirement(&tools, AgentStart::Headless) {
        return skip(missing, reason);
    }
    let headless = agent
        .headless(&tools, &test_env, Path::new(FUGUE), &model)
        .expect("it is installed");
    let start = Instant::now();
    let ran = RunningProgram::start(headless.command).end(LIMIT);
    let asked = model.requests();
    let given = asked
        .iter()
        .map(|asked| tool_results(&asked.body))
        .max_by_key(Vec::len)
        .unwrap_or_default();
    assert_eq!(
        given.len(),
        wanted.len(),
        "all results reached the model of {agent:?}\n{ran}\n{asked:#?}"
    );
    for (given, wanted) in given.iter().zip(&wanted) {
        assert!(
            contains_reply(given, wanted),
            "{agent:?}: wanted {wanted}, the model was given {given}"
        );
    }
    assert!(start.elapsed() >= GRACE, "the last call did block");
    // Every tool was offered, with its own description.
    let offered = asked.iter().find(|asked| asked.body.get("tools").is_some());
    let offered = offered.expect("tools were offered").body["tools"].to_string();
    for definition in fugue_api::ToolCall::definitions() {
        let name = agent.model_tool_name(definition.name).0;
        let description = definition
            .arguments
            .get("description")
            .cloned()
            .unwrap_or_default();
        assert!(
            offered.contains(&format!("\"{name}\"")),
            "{agent:?} offers {name}: {offered}"
        );
        assert!(
            // Line breaks of the doc comment are spaces in the listing.
            offered.contains(
                &description
                    .to_string()
                    .trim_matches('"')
                    .replace("\\n", " ")
            ),
            "{agent:?} describes {name}: {offered}"
        );
    }
    report_metric(
        &format!("{agent:?}, a success, a refusal and a blocked call"),
        format!("word for word, {:.1?}", start.elapsed()),
    );
}

/// Opened by the project's lead, which the agent is: nobody else's pane is a lead's to close.
fn stubborn(test_env: &TestEnv) -> PaneId {
    let inbox: Value = test_env.json(&["events"]);
    let lead = inbox["session_id"].as_str().expect("the project's lead");
    let command = "trap '' HUP TERM; echo stubborn; exec sleep 1000";
    let mut command = test_env.fugue_command(["new", "--json", "--", command]);
    command.env("FUGUE_SESSION", lead);
    let opened: CreatePaneReply = RunningProgram::start(command).end(LIMIT).ok().json();
    let pane = opened.pane_id;
    test_env.until_printed(pane, |text| text.contains("stubborn"));
    pane
}
