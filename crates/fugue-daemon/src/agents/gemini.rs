//! Gemini CLI. It has no flag for settings, but a variable for the file with the system's defaults, which are merged
//! with the user's settings. The variable for the system's settings would do as well, and would put an
//! administrator's rules out of force.
//!
//! In a folder that the user does not trust it runs neither hooks nor MCP servers.

use fugue_api::Error;
use serde_json::{Map, Value, json};

use super::{Assignment, FREE_TOOLS, Launch, Vendor, files};

// Each tells the completion, the prompt or the question of a turn; see `hook.rs`.
const HOOKS: [&str; 5] = [
    "BeforeAgent",
    "AfterAgent",
    "AfterTool",
    "Notification",
    "SessionEnd",
];

pub fn lay_out(assignment: &Assignment<'_>) -> Result<Launch, Error> {
    let command = files::hook_command(assignment, Vendor::Gemini);
    // It shows the names of hooks that run.
    let hook = json!({"type": "command", "name": "fugue", "command": command, "timeout": 5000});
    let hook = json!([{"hooks": [hook]}]);
    let hooks: Map<String, Value> = HOOKS
        .into_iter()
        .map(|event| (event.to_owned(), hook.clone()))
        .collect();
    let policy = files::write(assignment.dir, "policy.toml", &policy())?;
    let settings = json!({
        "mcpServers": {"fugue": files::server(assignment)},
        "hooks": hooks,
        // Where paths are given, the user's own policies are read only if they are among them.
        "policyPaths": [files::text(&policy), "~/.gemini/policies"],
    });
    let settings = files::write(assignment.dir, "settings.json", &settings.to_string())?;
    let mut argv = vec!["gemini".to_owned()];
    argv.extend(assignment.model.map(|model| format!("--model={model}")));
    argv.extend(assignment.args.iter().cloned());
    argv.push(format!("--prompt-interactive={}", assignment.prompt));
    let mut launch = Launch {
        argv,
        ..Launch::default()
    };
    let path = files::text(&settings);
    launch
        .env
        .insert("GEMINI_CLI_SYSTEM_DEFAULTS_PATH".to_owned(), path);
    Ok(launch)
}

/// One rule, below all of the user's. The settings that could say the same say more than is meant, or no more than once:
/// `trust` is for every tool of a server, and a user's `tools.allowed` takes the place of ours.
fn policy() -> String {
    let tools = json!(FREE_TOOLS);
    format!(
        "[[rule]]\nmcpName = \"fugue\"\ntoolName = {tools}\ndecision = \"allow\"\npriority = 0\n"
    )
}
