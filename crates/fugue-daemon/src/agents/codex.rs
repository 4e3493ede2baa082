//! Codex.
//!
//! Everything is said by `-c`, for one session: Codex writes what it is told in its dialogs into the user's
//! `config.toml`, and a file of ours could only come in by way of another `CODEX_HOME`. Hooks so given are one more layer
//! beside the user's own, while `notify` would take the place of the user's.

use fugue_api::Error;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{AgentLaunch, FREE_TOOLS, Vendor, WorkerAssignment, files};

/// Events with the names that their hooks' trust is kept under. Each tells the completion, the prompt or the question of
/// a turn; see `hook.rs`.
const HOOKS: [(&str, &str); 4] = [
    ("UserPromptSubmit", "user_prompt_submit"),
    ("PermissionRequest", "permission_request"),
    ("PostToolUse", "post_tool_use"),
    ("Stop", "stop"),
];

const TIMEOUT_SECS: u64 = 5;

pub fn lay_out(assignment: &WorkerAssignment<'_>) -> Result<AgentLaunch, Error> {
    let mut server = files::server(assignment);
    // Codex hands a server next to nothing of its environment; without these it would look for another daemon.
    server["env_vars"] = json!(["XDG_STATE_HOME", "XDG_CONFIG_HOME"]);
    for tool in FREE_TOOLS {
        server["tools"][tool] = json!({"approval_mode": "approve"});
    }
    // A server shared by several sessions would take one worker for another.
    let mut argv = vec!["codex".to_owned(), "--no-daemon".to_owned()];
    argv.extend(set("mcp_servers.fugue", &server));
    let command = files::hook_command(assignment, Vendor::Codex);
    for (event, _) in HOOKS {
        let hook = json!({"type": "command", "command": command, "timeout": TIMEOUT_SECS});
        argv.extend(set(&format!("hooks.{event}"), &json!([{"hooks": [hook]}])));
    }
    argv.extend(set("hooks.state", &trust(&command)));
    argv.extend(assignment.model.map(|model| format!("--model={model}")));
    argv.extend(assignment.args.iter().cloned());
    let mut prompt = assignment.prompt.to_owned();
    // It would run that as a command of the person's, without its sandbox and without asking.
    if prompt.starts_with('!') {
        prompt.insert(0, ' ');
    }
    argv.extend(["--".to_owned(), prompt]);
    Ok(AgentLaunch {
        argv,
        ..AgentLaunch::default()
    })
}

/// That the hooks which this command line brings along are meant by whoever started it, for this session. The flag that
/// would do (`--dangerously-bypass-hook-trust`) would also let the hooks of a repository run that nobody has looked at.
/// Where Codex does not agree about the fingerprint it asks the person, and that is seen on the screen.
fn trust(command: &str) -> Value {
    let trusted = HOOKS.map(|(_, name)| {
        let key = format!("/<session-flags>/config.toml:{name}:0:0");
        (key, json!({"trusted_hash": fingerprint(name, command)}))
    });
    Value::Object(trusted.into_iter().collect())
}

/// Codex's fingerprint of a hook: of its JSON, without blanks and with sorted keys.
fn fingerprint(event: &str, command: &str) -> String {
    let command = json!(command);
    let hook = format!(
        r#"{{"async":false,"command":{command},"timeout":{TIMEOUT_SECS},"type":"command"}}"#
    );
    let identity = format!(r#"{{"event_name":"{event}","hooks":[{hook}]}}"#);
    let digest = Sha256::digest(identity.as_bytes());
    let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_told_in_toml() {
        let value = json!({"a b": ["x\"y\n", 3, true], "c": {}});
        let text = format!("v = {}", toml(&value));
        let read: Value = ::toml::from_str(&text).unwrap();
        assert_eq!(read["v"], value);
    }

    // What Codex 0.166 took for right.
    #[test]
    fn a_hook_has_the_fingerprint_that_codex_gives_it() {
        assert_eq!(
            fingerprint("stop", "'/usr/bin/fugue' hook codex"),
            "sha256:a5476d48b469ab58bb27adaf4da1a5b590dc9842765ac431c0dd1798c86689f3"
        );
    }
}
