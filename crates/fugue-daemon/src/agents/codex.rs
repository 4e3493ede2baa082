//! Codex.
//!
//! All settings are passed by `-c`, which holds for one session. A file of fugue's could only be given by another
//! `CODEX_HOME`, and Codex writes answers to dialogs into that directory's `config.toml`. Hooks that are passed by `-c` are
//! added to the user's hooks, while `notify` would replace the user's `notify`.

use fugue_api::{Error, pane_state::AttentionKind};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{
    AgentDriver, AgentLaunch, FREE_TOOLS, WorkerAssignment, files,
    hook::{HookEvent, HookReader, session_end, text, tool_request},
    screen::{ScreenPatterns, find_unframed_box},
    session::SessionVariables,
};

pub struct Codex;

/// Events, with the names under which Codex stores the trust in their hooks. Each reports the start, the end or a question
/// of a turn; see `read_hook`.
const HOOKS: [(&str, &str); 4] = [
    ("UserPromptSubmit", "user_prompt_submit"),
    ("PermissionRequest", "permission_request"),
    ("PostToolUse", "post_tool_use"),
    ("Stop", "stop"),
];

const HOOK_TIMEOUT_SECS: u64 = 5;

impl AgentDriver for Codex {
    fn name(&self) -> &str {
        "codex"
    }

    fn program(&self) -> Option<&str> {
        Some("codex")
    }

    fn prepare_launch(&self, assignment: &WorkerAssignment<'_>) -> Result<AgentLaunch, Error> {
        let mut server = files::server(assignment);
        // Codex passes few variables to a server. Without these two the server would connect to another daemon.
        server["env_vars"] = json!(["XDG_STATE_HOME", "XDG_CONFIG_HOME"]);
        for tool in FREE_TOOLS {
            server["tools"][tool] = json!({"approval_mode": "approve"});
        }
        // An MCP server that several sessions share would serve several workers under one identity.
        let mut argv = vec!["codex".to_owned(), "--no-daemon".to_owned()];
        argv.extend(set("mcp_servers.fugue", &server));
        let command = files::hook_command(assignment, self);
        for (event, _) in HOOKS {
            let hook = json!({"type": "command", "command": command, "timeout": HOOK_TIMEOUT_SECS});
            argv.extend(set(&format!("hooks.{event}"), &json!([{"hooks": [hook]}])));
        }
        argv.extend(set("hooks.state", &trust(&command)));
        argv.extend(assignment.model.map(|model| format!("--model={model}")));
        argv.extend(assignment.args.iter().cloned());
        let mut prompt = assignment.prompt.to_owned();
        // Codex would run the rest as a shell command of the user, without a sandbox and without a permission dialog.
        if prompt.starts_with('!') {
            prompt.insert(0, ' ');
        }
        argv.extend(["--".to_owned(), prompt]);
        Ok(AgentLaunch {
            argv,
            ..AgentLaunch::default()
        })
    }

    fn hook_reader(&self) -> Option<HookReader> {
        Some(read_hook)
    }

    fn screen(&self) -> Option<&'static ScreenPatterns> {
        Some(&ScreenPatterns {
            find_input_box: |lines, row| find_unframed_box(lines, row, '›'),
            plain_sign: &['›'],
            placeholders: &["Ask Codex to do anything"],
            working_marks: &["esc to interrupt"],
            request_marks: &[("Would you like to ", AttentionKind::Permission)],
        })
    }

    fn process_names(&self) -> &'static [&'static str] {
        &["codex", "node", "MainThread"]
    }

    // Names that the shell of Codex gets; an MCP server gets no such variable.
    fn session_variables(&self) -> SessionVariables {
        SessionVariables {
            names: &[
                "CODEX_APPLY_PATCH_PRESERVE_LINE_ENDINGS",
                "CODEX_CI",
                "CODEX_INTERNAL_ORIGINATOR_OVERRIDE",
                "CODEX_MANAGED_PACKAGE_ROOT",
                "CODEX_PERMISSION_PROFILE",
                "CODEX_PLUGIN_METRICS_OUTPUT",
                "CODEX_SANDBOX",
                "CODEX_SESSION_ID",
                "CODEX_THREAD_ID",
                "CODEX_TOOL_CALL_ID",
                "CODEX_VERSION",
            ],
            prefixes: &[
                "CODEX_EXEC_SERVER_",
                "CODEX_MANAGED_BY_",
                "CODEX_NETWORK_PROXY_",
                "CODEX_SANDBOX_",
            ],
        }
    }
}

fn read_hook(event: &str, payload: &Value) -> HookEvent {
    match event {
        "UserPromptSubmit" => HookEvent::PromptGiven,
        "Stop" => HookEvent::TurnEnded {
            message: text(payload, "last_assistant_message").to_owned(),
        },
        "PermissionRequest" => tool_request(payload),
        "PostToolUse" => HookEvent::InputNoLongerNeeded,
        "SessionEnd" => session_end(payload),
        // The payload of `notify` (`agent-turn-complete`) is no report: Codex also runs `notify` for the thread that finds a title
        // for the conversation, and the payload does not say which thread ended. The `Stop` hook runs for turns only.
        _ => HookEvent::Nothing,
    }
}

/// The setting that marks the hooks of this command line as trusted for this session. The flag
/// `--dangerously-bypass-hook-trust` would also trust unreviewed hooks of a repository. If Codex computes another
/// fingerprint, Codex shows a dialog, which is recognised on the screen.
fn trust(command: &str) -> Value {
    let trusted = HOOKS.map(|(_, name)| {
        let key = format!("/<session-flags>/config.toml:{name}:0:0");
        (key, json!({"trusted_hash": fingerprint(name, command)}))
    });
    Value::Object(trusted.into_iter().collect())
}

/// Codex's fingerprint of a hook: the hash of the JSON without blanks and with sorted keys.
fn fingerprint(event: &str, command: &str) -> String {
    let command = json!(command);
    let hook = format!(
        r#"{{"async":false,"command":{command},"timeout":{HOOK_TIMEOUT_SECS},"type":"command"}}"#
    );
    let identity = format!(r#"{{"event_name":"{event}","hooks":[{hook}]}}"#);
    let digest = Sha256::digest(identity.as_bytes());
    let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}

/// A `-c` argument that sets `key` to `value`, written as inline TOML.
fn set(key: &str, value: &Value) -> [String; 2] {
    ["-c".to_owned(), format!("{key}={}", inline_toml(value))]
}

fn inline_toml(value: &Value) -> String {
    // Every JSON value except null is a TOML value.
    toml::Value::try_from(value).map_or_else(|_| value.to_string(), |value| value.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agents::hook::testing::{check, ended, needs};

    // Payloads as Codex sent them, without the ids.
    #[test]
    fn codex_hooks_are_recognised() {
        let check = |payload: Value, expected: HookEvent| check(&Codex, &payload, &expected);
        check(
            json!({"hook_event_name": "UserPromptSubmit", "turn_id": "t", "prompt": "x"}),
            HookEvent::PromptGiven,
        );
        check(
            json!({"hook_event_name": "PermissionRequest", "tool_name": "Bash",
                "tool_input": {"command": "touch made.txt", "description": "may I make a file?"}}),
            needs("Bash: touch made.txt"),
        );
        check(
            json!({"hook_event_name": "PostToolUse", "tool_name": "Bash", "tool_response": ""}),
            HookEvent::InputNoLongerNeeded,
        );
        check(
            json!({"hook_event_name": "Stop", "stop_hook_active": false, "last_assistant_message": "done"}),
            ended("done"),
        );
        check(
            json!({"type": "agent-turn-complete", "last-assistant-message": "A title"}),
            HookEvent::Nothing,
        );
    }

    #[test]
    fn values_are_written_as_inline_toml() {
        let value = json!({"a b": ["x\"y\n", 3, true], "c": {}});
        let text = format!("v = {}", inline_toml(&value));
        let read: Value = toml::from_str(&text).unwrap();
        assert_eq!(read["v"], value);
    }

    // The fingerprint that Codex 0.166 accepted.
    #[test]
    fn a_hook_has_the_fingerprint_that_codex_gives_it() {
        assert_eq!(
            fingerprint("stop", "'/usr/bin/fugue' hook codex"),
            "sha256:a5476d48b469ab58bb27adaf4da1a5b590dc9842765ac431c0dd1798c86689f3"
        );
    }
}
