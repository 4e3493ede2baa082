//! The home of the agents and the MCP server of the lead, for cases at a screen.

use std::{fs, path::Path, process::Command};

use fugue_testkit::{
    MissingRequirement, TestEnv,
    mcp_client::McpClient,
    scripted_model::ScriptedModel,
    skip,
    test_agents::{AgentHome, ExternalTools},
};
use serde_json::{Value, json};

use super::{
    FUGUE,
    screens::{AgentRelease, WaitingScreen},
};

pub fn start_client(test_env: &TestEnv, screen: WaitingScreen) -> McpClient {
    let mut command = mcp_server(test_env, "please go on");
    // A watcher waits for the end of a draft for so long.
    if screen == WaitingScreen::Draft {
        command.env("SPIN_MAX_SEC", "2");
    }
    let mut client = McpClient::start(command);
    client.initialize("2025-11-25", "test");
    client
}

/// The MCP server of a lead whose watchers always want to type this line.
pub fn mcp_server(test_env: &TestEnv, line: &str) -> Command {
    let mut command = test_env.fugue_command(["mcp", "--session", "lead"]);
    let says = json!({"action": "continue", "injection_prompt": line});
    let assessor = format!("cmd:echo asked >> asks; echo '{says}'");
    command
        .env("ASSESS_MODEL", assessor)
        .env("DEFAULT_WAIT_SEC", "0.01")
        .env("IDLE_THRESHOLD", "0.5");
    command
}

pub fn settle(
    agent: AgentRelease,
    screen: WaitingScreen,
    test_env: &mut TestEnv,
    model: &ScriptedModel,
) -> Option<AgentHome> {
    let tools = ExternalTools::find_beside(Path::new(FUGUE));
    if let Some((missing, reason)) = agent.agent().missing_requirement(&tools) {
        skip(missing, reason);
        return None;
    }
    let Some(home) = AgentHome::settle_with(&tools, test_env, model, screen.login()) else {
        let reason = "not all agents are installed (scripts/mcp-tools)";
        skip(MissingRequirement::Program, reason);
        return None;
    };
    if agent == AgentRelease::OlderClaude && !AgentHome::prefer_older_claude(&tools, test_env) {
        let reason = "Claude Code 2.1.197 is not installed (scripts/mcp-tools --agents)";
        skip(MissingRequirement::Program, reason);
        return None;
    }
    // Gemini CLI shows the code's prompt instead of a browser.
    test_env.set_env("NO_BROWSER", "true");
    disable_animations(home.dir());
    Some(home)
}

/// Switches off animations, which would keep the screen changing.
fn disable_animations(home: &Path) {
    let claude = home.join(".claude/settings.json");
    let text = fs::read_to_string(&claude).expect("Claude's settings");
    let mut settings: Value = serde_json::from_str(&text).expect("JSON");
    settings["prefersReducedMotion"] = json!(true);
    fs::write(&claude, settings.to_string()).expect("Claude's settings");
    let codex = home.join(".codex/config.toml");
    let config = fs::read_to_string(&codex).expect("Codex's settings");
    fs::write(&codex, format!("{config}[tui]\nanimations = false\n")).expect("Codex's settings");
}
