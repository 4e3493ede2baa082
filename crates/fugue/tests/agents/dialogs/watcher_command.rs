//! A watcher's line that an agent would take for a command of its own: a model could run programs by it, past the agent's
//! permission dialog.

use fugue_testkit::{TestEnv, mcp_client::McpClient, scripted_model::ScriptedModel, until};
use serde_json::json;

use super::{
    FUGUE, WAIT_TIMEOUT,
    case::AgentLocation,
    limit,
    screens::{AgentRelease, WaitingScreen},
    setup::{mcp_server, settle},
};

const COMMAND: &str = "!touch made.txt";

fn is_not_typed(agent: AgentRelease) {
    let model = ScriptedModel::with_turns(Vec::new());
    let mut test_env = TestEnv::new(FUGUE, limit());
    let place = (WaitingScreen::Draft, AgentLocation::Pane);
    let Some(_home) = settle(agent, place.0, &mut test_env, &model) else {
        return;
    };
    test_env.configure("idle_threshold_secs = 0.5\n");
    let mut client = McpClient::start(mcp_server(&test_env, COMMAND));
    client.initialize("2025-11-25", "test");
    let pane = test_env.shell("bash").pane_id;
    test_env.type_line(pane, &agent.command_line(None));
    let shown = |client: &mut McpClient| -> String {
        let screen = client.call("read_pane", json!({"pane_id": pane, "mode": "screen"}));
        screen["text"].as_str().expect("a text").to_owned()
    };
    until("its input box is shown", WAIT_TIMEOUT, || {
        shown(&mut client).contains(agent.input_box_mark())
    });
    let plan = json!({"tmux_window": pane, "strategy_plan": "reach the end"});
    client.call("watch_me", plan);
    let report = json!({"tmux_window": pane, "status_report": "a part is done"});
    client.call("look_ma", report);
    let types = json!({"types": ["watcher"], "timeout_secs": 60});
    let event = client.call("wait_for_event", types);
    assert_eq!(event["decision"], "paused", "{event}");
    let why = event["reason"].as_str().expect("a reason");
    assert!(why.contains("begins with `!`"), "{why}");
    assert!(!test_env.work().join("made.txt").exists(), "it was run");
    assert!(!shown(&mut client).contains(COMMAND), "it was typed");
    let requests = model.requests();
    let told = requests
        .iter()
        .any(|one| one.body.to_string().contains(COMMAND));
    assert!(!told, "the agent was told it");
}

#[test]
fn of_claude_code_is_not_typed() {
    is_not_typed(AgentRelease::Claude);
}

#[test]
fn of_claude_code_2_1_197_is_not_typed() {
    is_not_typed(AgentRelease::OlderClaude);
}

#[test]
fn of_codex_is_not_typed() {
    is_not_typed(AgentRelease::Codex);
}

#[test]
fn of_gemini_cli_is_not_typed() {
    is_not_typed(AgentRelease::Gemini);
}

#[test]
fn of_qwen_code_is_not_typed() {
    is_not_typed(AgentRelease::Qwen);
}
