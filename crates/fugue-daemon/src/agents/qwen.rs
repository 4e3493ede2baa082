//! Qwen Code, a fork of Gemini CLI. As with Gemini CLI, a variable names the file of the system's default settings, which are
//! merged with the user's settings. Hooks and permission rules have the form of Claude Code's.
//!
//! Hooks and MCP servers of such a file also run in a folder that the user does not trust.

use fugue_api::{Error, pane_state::AttentionKind};
use serde_json::{Map, Value, json};

use super::{
    AgentDriver, AgentLaunch, FREE_TOOLS, WorkerAssignment, files,
    hook::{HookEvent, HookReader, session_end, text, tool_request, turn_end, turn_failure},
    screen::{ScreenPatterns, find_framed_box},
    session::SessionVariables,
};

pub struct Qwen;

// Each reports the start, the end or a question of a turn; see `read_hook`.
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

impl AgentDriver for Qwen {
    fn name(&self) -> &str {
        "qwen"
    }

    fn program(&self) -> Option<&str> {
        Some("qwen")
    }

    fn prepare_launch(&self, assignment: &WorkerAssignment<'_>) -> Result<AgentLaunch, Error> {
        let mut server = files::server(assignment);
        // Without this, Qwen Code offers the server's tools only through a search tool.
        server["alwaysLoadTools"] = json!(true);
        // The list is merged with the user's rules; a rule of the user that denies a tool takes precedence.
        let allow = FREE_TOOLS.map(|tool| format!("mcp__fugue__{tool}"));
        let settings = json!({
            "mcpServers": {"fugue": server},
            "hooks": hooks(assignment),
            "permissions": {"allow": allow},
            // A suggested prompt in the empty input box looks like a draft, and no message is typed next to a draft.
            "ui": {"enableFollowupSuggestions": false},
        });
        let settings = files::write(assignment.dir, "settings.json", &settings.to_string())?;
        let mut argv = vec!["qwen".to_owned()];
        argv.extend(assignment.model.map(|model| format!("--model={model}")));
        argv.extend(assignment.args.iter().cloned());
        argv.push(format!("--prompt-interactive={}", assignment.prompt));
        let mut launch = AgentLaunch {
            argv,
            ..AgentLaunch::default()
        };
        launch.env.insert(
            "QWEN_CODE_SYSTEM_DEFAULTS_PATH".to_owned(),
            files::text(&settings),
        );
        Ok(launch)
    }

    fn hook_reader(&self) -> Option<HookReader> {
        Some(read_hook)
    }

    fn screen(&self) -> Option<&'static ScreenPatterns> {
        Some(&ScreenPatterns {
            find_input_box: |lines, row| {
                find_framed_box(lines, row, &['>', '*', '!'], &['─'], &['─'])
            },
            plain_sign: &['>', '*'],
            placeholders: &["Type your message or @path/to/file"],
            working_marks: &[" · esc to cancel)"],
            request_marks: &[
                ("Allow execution of", AttentionKind::Permission),
                ("Apply this change?", AttentionKind::Permission),
            ],
        })
    }

    // Node sets the name of the main thread.
    fn process_names(&self) -> &'static [&'static str] {
        &["qwen", "node", "MainThread"]
    }

    fn session_variables(&self) -> SessionVariables {
        SessionVariables {
            names: &[
                "QWEN_CODE",
                "QWEN_CODE_CLI",
                "QWEN_CODE_LAUNCHER_PID",
                "QWEN_CODE_NO_RELAUNCH",
                "QWEN_CODE_PROJECT_DIR",
                "QWEN_CODE_RELAUNCH_ARGS",
                "QWEN_CODE_SESSION_ID",
                "QWEN_PROJECT_DIR",
            ],
            prefixes: &[],
        }
    }
}

fn hooks(assignment: &WorkerAssignment<'_>) -> Value {
    let command = files::hook_command(assignment, &Qwen);
    let hook = json!({"type": "command", "name": "fugue", "command": command, "timeout": 5});
    let hook = json!([{"hooks": [hook]}]);
    let all: Map<String, Value> = HOOKS
        .into_iter()
        .map(|event| (event.to_owned(), hook.clone()))
        .collect();
    Value::Object(all)
}

fn read_hook(event: &str, payload: &Value) -> HookEvent {
    match event {
        // Tool results that continue a turn are submitted with an empty prompt.
        "UserPromptSubmit" if text(payload, "prompt").is_empty() => HookEvent::Nothing,
        "UserPromptSubmit" => HookEvent::PromptGiven,
        "Stop" => turn_end(payload),
        "StopFailure" => turn_failure(
            payload,
            &["error_details", "last_assistant_message", "error"],
        ),
        "PermissionRequest" => tool_request(payload),
        // Another type is sent at an empty input box.
        "Notification" => match text(payload, "notification_type") {
            "permission_prompt" => HookEvent::StillNeedsInput {
                prompt: text(payload, "message").to_owned(),
                kind: AttentionKind::Permission,
            },
            _ => HookEvent::Nothing,
        },
        "PostToolUse" | "PostToolUseFailure" => HookEvent::InputNoLongerNeeded,
        "SessionEnd" => session_end(payload),
        _ => HookEvent::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agents::hook::testing::{check, ended, needs};

    // Payloads as Qwen Code 0.24.4 sent them, without the ids.
    #[test]
    fn qwen_hooks_are_recognised() {
        let check = |payload: Value, expected: HookEvent| check(&Qwen, &payload, &expected);
        check(
            json!({"hook_event_name": "UserPromptSubmit", "permission_mode": "default", "prompt": "x",
                "submitted_prompt": "x"}),
            HookEvent::PromptGiven,
        );
        check(
            json!({"hook_event_name": "UserPromptSubmit", "permission_mode": "default", "prompt": ""}),
            HookEvent::Nothing,
        );
        check(
            json!({"hook_event_name": "PermissionRequest", "permission_mode": "default", "tool_name": "run_shell_command",
                "tool_input": {"command": "touch made.txt", "description": "make a file", "is_background": false}}),
            needs("run_shell_command: touch made.txt"),
        );
        check(
            json!({"hook_event_name": "Notification", "notification_type": "permission_prompt", "title": "Permission needed",
                "message": "Qwen Code needs your permission to use run_shell_command"}),
            HookEvent::StillNeedsInput {
                prompt: "Qwen Code needs your permission to use run_shell_command".to_owned(),
                kind: AttentionKind::Permission,
            },
        );
        check(
            json!({"hook_event_name": "Notification", "notification_type": "idle_prompt", "title": "Waiting for input",
                "message": "Qwen Code is waiting for your input"}),
            HookEvent::Nothing,
        );
        check(
            json!({"hook_event_name": "PostToolUse", "tool_name": "run_shell_command", "tool_input": {}}),
            HookEvent::InputNoLongerNeeded,
        );
        check(
            json!({"hook_event_name": "Stop", "stop_hook_active": false, "last_assistant_message": "done",
                "background_tasks": [], "crons": []}),
            ended("done"),
        );
    }
}
