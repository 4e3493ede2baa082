//! A real agent that is watched: it reports by itself, is told what comes next, and reports again until the plan is done.

use std::path::Path;

use fugue_testkit::{
    MissingRequirement, TestEnv,
    mcp_client::McpClient,
    scripted_model::{self, ModelAction, ScriptedModel},
    skip,
    test_agents::{AgentHome, ExternalTools, TestAgent},
};
use serde_json::{Value, json};

use super::kit::*;

const ORDER: &str = "now the second half, please";

#[test]
fn claude_code_is_kept_going_through_two_reports_to_the_stop() {
    let call = |tool: &str, input: Value| {
        let (tool, namespace) = TestAgent::Claude.model_tool_name(tool);
        ModelAction {
            tool,
            namespace,
            input,
        }
    };
    let agent = ScriptedModel::with_turns(vec![
        vec![
            call("watch_me", json!({"strategy_plan": "both halves"})),
            call(
                "look_ma",
                json!({"status_report": "the first half is done"}),
            ),
        ],
        vec![call(
            "look_ma",
            json!({"status_report": "the second half is done"}),
        )],
    ]);
    let mom = model(&[go_on(ORDER), stop()]);
    let mut test_env = TestEnv::new(FUGUE, LIMIT);
    let tools = ExternalTools::find_beside(Path::new(FUGUE));
    let Some(_home) = AgentHome::settle(&tools, &mut test_env, &agent) else {
        skip(
            MissingRequirement::Program,
            "Claude Code is not installed (scripts/mcp-tools)",
        );
        return;
    };
    test_env.set_env("ASSESS_MODEL", format!("{}/v1#mom", mom.url()));
    test_env.set_env("DEFAULT_WAIT_SEC", "0.1");
    test_env.set_env("IDLE_THRESHOLD", "1");
    let mut lead = McpClient::start(test_env.fugue_command(["mcp"]));
    lead.initialize("2025-11-25", "test");
    // Without it a person is asked about each call.
    let allowed = "--allowedTools=mcp__fugue__watch_me,mcp__fugue__look_ma";
    let made = lead.call(
        "spawn_worker",
        json!({"name": "w", "agent": "claude", "prompt": "do both halves", "args": [allowed]}),
    );
    let pane = made["pane_id"].as_str().expect("a pane").to_owned();
    for (decision, injection) in [("continue", json!(ORDER)), ("stop", Value::Null)] {
        let args = json!({"types": ["watcher"], "timeout_secs": 45});
        let event = lead.call("wait_for_event", args);
        let screen = lead.call("read_pane", json!({"pane_id": pane, "mode": "screen"}));
        let shown = screen["text"].as_str().unwrap_or_default();
        assert_eq!(event["decision"], decision, "{event}\n{shown}");
        assert_eq!(event["injection"], injection, "{event}");
        assert_eq!(
            event["reason"],
            Value::Null,
            "it was seen to be sent: {event}"
        );
    }
    let told = agent.requests();
    let told = told
        .iter()
        .filter(|asked| scripted_model::told(&asked.body, ORDER));
    assert!(told.count() > 0, "the agent was told what comes next");
    assert_eq!(mom.requests().len(), 2);
    let second = quoted(&question(&mom, 1), "transcript");
    for part in [
        "status] the second half is done",
        "status] the first half is done",
        ORDER,
    ] {
        assert!(second.contains(part), "{part}: {second}");
    }
    assert_eq!(second.matches("injection]").count(), 1, "{second}");
    let status = lead.call("get_status", json!({"pane_id": pane}));
    assert_eq!(status["watcher"]["state"], "PAUSED", "{status}");
    assert_eq!(status["watcher"]["reason"], "the plan is done");
    // Before the home, where its daemon's files are.
    drop((lead, test_env));
}
