//! Claude Code. Its `--mcp-config` and `--settings` are added to what the user has.

use fugue_api::Error;
use serde_json::{Map, Value, json};

use super::{AgentLaunch, FREE_TOOLS, Vendor, WorkerAssignment, files};

// Each tells the completion, the prompt or the question of a turn; see `hook.rs`.
const HOOKS: [&str; 8] = [
    "UserPromptSubmit",
    "PermissionRequest",
    "Notification",
    "PostToolUse",
    "PostToolUseFailure",
    "Stop",
    "StopFailure",
    "SessionEnd",
];

pub fn lay_out(assignment: &WorkerAssignment<'_>) -> Result<AgentLaunch, Error> {
    let mut server = files::server(assignment);
    // Otherwise its tools are behind a search.
    server["alwaysLoad"] = json!(true);
    let servers = json!({"mcpServers": {"fugue": server}}).to_string();
    let servers = files::write(assignment.dir, "mcp.json", &servers)?;
    // Added to what the user allows and denies; a rule of theirs that denies goes before.
    let allow = FREE_TOOLS.map(|tool| format!("mcp__fugue__{tool}"));
    let settings = json!({"hooks": hooks(assignment), "permissions": {"allow": allow}}).to_string();
    let settings = files::write(assignment.dir, "settings.json", &settings)?;
    let mut argv = vec![
        "claude".to_owned(),
        format!("--mcp-config={}", files::text(&servers)),
        format!("--settings={}", files::text(&settings)),
    ];
    argv.extend(assignment.model.map(|model| format!("--model={model}")));
    argv.extend(assignment.args.iter().cloned());
    argv.extend(["--".to_owned(), assignment.prompt.to_owned()]);
    Ok(AgentLaunch {
        argv,
        ..AgentLaunch::default()
    })
}

fn hooks(assignment: &WorkerAssignment<'_>) -> Value {
    let command = files::hook_command(assignment, Vendor::Claude);
    let hook = json!([{"hooks": [{"type": "command", "command": command, "timeout": 5}]}]);
    let all: Map<String, Value> = HOOKS
        .into_iter()
        .map(|event| (event.to_owned(), hook.clone()))
        .collect();
    Value::Object(all)
}
