//! Codex.

use fugue_api::Error;
use serde_json::{Value, json};

use super::{Assignment, Launch, Vendor, files};

// Each tells the completion, the prompt or the question of a turn; see `hook.rs`.
const HOOKS: [&str; 4] = [
    "UserPromptSubmit",
    "PermissionRequest",
    "PostToolUse",
    "Stop",
];

pub fn lay_out(assignment: &Assignment<'_>) -> Result<Launch, Error> {
    let mut argv = vec!["codex".to_owned(), "--no-daemon".to_owned()];
    let server = files::server(assignment);
    argv.extend(set("mcp_servers.fugue", &server));
    let command = files::hook_command(assignment, Vendor::Codex);
    let hook = json!([{"hooks": [{"type": "command", "command": command, "timeout": 5}]}]);
    for event in HOOKS {
        argv.extend(set(&format!("hooks.{event}"), &hook));
    }
    argv.push("--dangerously-bypass-hook-trust".to_owned());
    argv.extend(assignment.model.map(|model| format!("--model={model}")));
    argv.extend(assignment.args.iter().cloned());
    argv.extend(["--".to_owned(), assignment.prompt.to_owned()]);
    Ok(Launch {
        argv,
        ..Launch::default()
    })
}

fn set(key: &str, value: &Value) -> [String; 2] {
    ["-c".to_owned(), format!("{key}={}", toml(value))]
}

/// A value in TOML on one line.
fn toml(value: &Value) -> String {
    match value {
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(toml).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Object(fields) => {
            let fields: Vec<String> = fields
                .iter()
                .map(|(key, value)| format!("{} = {}", toml(&json!(key)), toml(value)))
                .collect();
            format!("{{{}}}", fields.join(", "))
        }
        // What JSON escapes, TOML escapes alike.
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.to_string(),
    }
}
