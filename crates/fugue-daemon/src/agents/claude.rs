//! Claude Code. The files of `--mcp-config` and `--settings` are added to the user's settings.

use fugue_api::{Error, pane_state::AttentionKind};
use serde_json::{Map, Value, json};

use super::{
    AgentDriver, AgentLaunch, FREE_TOOLS, WorkerAssignment, files,
    hook::{HookEvent, HookReader, session_end, text, tool_request, turn_end, turn_failure},
    screen::{ScreenPatterns, find_framed_box},
    session::SessionVariables,
};

pub struct Claude;

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

impl AgentDriver for Claude {
    fn name(&self) -> &str {
        "claude"
    }

    fn program(&self) -> Option<&str> {
        Some("claude")
    }

    fn prepare_launch(&self, assignment: &WorkerAssignment<'_>) -> Result<AgentLaunch, Error> {
        let mut server = files::server(assignment);
        // Without this, Claude Code offers the server's tools only through a search tool.
        server["alwaysLoad"] = json!(true);
        let servers = json!({"mcpServers": {"fugue": server}}).to_string();
        let servers = files::write(assignment.dir, "mcp.json", &servers)?;
        // Added to the user's rules; a rule of the user that denies a tool takes precedence.
        let allow = FREE_TOOLS.map(|tool| format!("mcp__fugue__{tool}"));
        let settings =
            json!({"hooks": hooks(assignment), "permissions": {"allow": allow}}).to_string();
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

    fn hook_reader(&self) -> Option<HookReader> {
        Some(read_hook)
    }

    fn screen(&self) -> Option<&'static ScreenPatterns> {
        Some(&ScreenPatterns {
            find_input_box: |lines, row| {
                find_framed_box(lines, row, &['❯', '!', '#'], &['─'], &['─'])
            },
            plain_sign: &['❯'],
            placeholders: &[],
            working_marks: &["esc to interrupt"],
            request_marks: &[
                ("Do you want to", AttentionKind::Permission),
                ("Would you like to proceed?", AttentionKind::Plan),
                ("☐ ", AttentionKind::Question),
            ],
        })
    }

    fn process_names(&self) -> &'static [&'static str] {
        &["claude"]
    }

    fn whole_environment_mark(&self) -> Option<&'static str> {
        Some("CLAUDECODE")
    }

    // Names that MCP servers, hooks and the shell of Claude Code get.
    fn session_variables(&self) -> SessionVariables {
        SessionVariables {
            names: &[
                "AI_AGENT",
                "CLAUDECODE",
                "CLAUDE_AGENT_SDK_VERSION",
                "CLAUDE_CODE_API_KEY_FILE_DESCRIPTOR",
                "CLAUDE_CODE_CHILD_SESSION",
                "CLAUDE_CODE_CLOUD_SESSION_ID",
                "CLAUDE_CODE_CONTAINER_ID",
                "CLAUDE_CODE_ENTRYPOINT",
                "CLAUDE_CODE_EXECPATH",
                "CLAUDE_CODE_OAUTH_TOKEN_FILE_DESCRIPTOR",
                "CLAUDE_CODE_PLUGIN_NAME",
                "CLAUDE_CODE_REMOTE",
                "CLAUDE_CODE_REMOTE_ENVIRONMENT_TYPE",
                "CLAUDE_CODE_RESUME_FROM_SESSION",
                "CLAUDE_CODE_SESSIONS_OAUTH_TOKEN",
                "CLAUDE_CODE_SSE_PORT",
                "CLAUDE_CODE_TMUX_SESSION",
                "CLAUDE_CODE_TOOL_USE_ID",
                "CLAUDE_CODE_WEBSOCKET_AUTH_FILE_DESCRIPTOR",
                "CLAUDE_EFFORT",
                "CLAUDE_ENV_FILE",
                "CLAUDE_JOB_DIR",
                "CLAUDE_PID",
                "CLAUDE_PROJECT_DIR",
                "CLAUDE_SESSION_ID",
                "CLAUDE_SESSION_INGRESS_TOKEN_FILE",
                "COREPACK_ENABLE_AUTO_PIN",
                "NoDefaultCurrentDirectoryInExePath",
            ],
            prefixes: &[
                "CLAUDE_BG_",
                "CLAUDE_BRIDGE_",
                "CLAUDE_CODE_BRIDGE_",
                "CLAUDE_CODE_MESSAGING_",
                "CLAUDE_CODE_REMOTE_SESSION_",
                "CLAUDE_CODE_SESSION_",
                "CLAUDE_PLUGIN_",
                "CLAUDE_RUNNER_",
            ],
        }
    }
}

fn read_hook(event: &str, payload: &Value) -> HookEvent {
    match event {
        "UserPromptSubmit" => HookEvent::PromptGiven,
        "Stop" => turn_end(payload),
        "StopFailure" => turn_failure(payload, &["last_assistant_message", "error_details"]),
        "PermissionRequest" => tool_request(payload),
        // Another type is sent after a minute at an empty input box.
        "Notification" => match text(payload, "notification_type") {
            "permission_prompt" => HookEvent::StillNeedsInput {
                prompt: text(payload, "message").to_owned(),
                kind: AttentionKind::Permission,
            },
            "elicitation_dialog" => HookEvent::StillNeedsInput {
                prompt: text(payload, "message").to_owned(),
                kind: AttentionKind::Form,
            },
            _ => HookEvent::Nothing,
        },
        "PostToolUse" | "PostToolUseFailure" => HookEvent::InputNoLongerNeeded,
        "SessionEnd" => session_end(payload),
        _ => HookEvent::Nothing,
    }
}

fn hooks(assignment: &WorkerAssignment<'_>) -> Value {
    let command = files::hook_command(assignment, &Claude);
    let hook = json!([{"hooks": [{"type": "command", "command": command, "timeout": 5}]}]);
    let all: Map<String, Value> = HOOKS
        .into_iter()
        .map(|event| (event.to_owned(), hook.clone()))
        .collect();
    Value::Object(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agents::hook::testing::{asks, check, ended, needs};

    // Payloads as Claude Code sent them, without the ids.
    #[test]
    fn claude_code_hooks_are_recognised() {
        let check = |payload: Value, expected: HookEvent| check(&Claude, &payload, &expected);
        check(
            json!({"hook_event_name": "UserPromptSubmit", "prompt": "x"}),
            HookEvent::PromptGiven,
        );
        check(
            json!({"hook_event_name": "PermissionRequest", "tool_name": "Bash",
                "tool_input": {"command": "touch made.txt", "description": "make a file"}, "permission_suggestions": []}),
            needs("Bash: touch made.txt"),
        );
        check(
            json!({"hook_event_name": "PermissionRequest", "tool_name": "mcp__fugue__get_status", "tool_input": {}}),
            needs("mcp__fugue__get_status"),
        );
        check(
            json!({"hook_event_name": "PermissionRequest", "tool_name": "AskUserQuestion",
                "tool_input": {"questions": [{"question": "Which colour?", "header": "Colour", "options": []}]}}),
            asks("Which colour?", AttentionKind::Question),
        );
        check(
            json!({"hook_event_name": "Notification", "message": "Claude needs your permission",
                "notification_type": "permission_prompt"}),
            HookEvent::StillNeedsInput {
                prompt: "Claude needs your permission".to_owned(),
                kind: AttentionKind::Permission,
            },
        );
        check(
            json!({"hook_event_name": "Notification", "message": "Claude is waiting for your input",
                "notification_type": "idle_prompt"}),
            HookEvent::Nothing,
        );
        for event in ["PostToolUse", "PostToolUseFailure"] {
            check(
                json!({"hook_event_name": event, "tool_name": "Bash"}),
                HookEvent::InputNoLongerNeeded,
            );
        }
        check(
            json!({"hook_event_name": "Stop", "stop_hook_active": false, "last_assistant_message": "done",
                "background_tasks": []}),
            ended("done"),
        );
        check(
            json!({"hook_event_name": "StopFailure", "error": "unknown",
                "last_assistant_message": "API Error: 400 the model is unwell"}),
            HookEvent::TurnFailed {
                message: "API Error: 400 the model is unwell".to_owned(),
            },
        );
        check(
            json!({"hook_event_name": "StopFailure", "error": "rate_limit",
                "last_assistant_message": "You've hit your session limit · resets 3pm (Europe/Berlin)"}),
            HookEvent::TurnPaused {
                message: "You've hit your session limit · resets 3pm (Europe/Berlin)".to_owned(),
                resume_at: Some("3pm (Europe/Berlin)".to_owned()),
            },
        );
        check(
            json!({"hook_event_name": "Stop", "last_assistant_message": "it runs",
                "background_tasks": [{"id": "b1", "type": "shell", "status": "running", "description": "tests"}]}),
            HookEvent::BackgroundWork,
        );
        check(
            json!({"hook_event_name": "SessionEnd", "reason": "clear"}),
            HookEvent::Nothing,
        );
        check(
            json!({"hook_event_name": "SessionEnd", "reason": "prompt_input_exit"}),
            HookEvent::SessionEnded,
        );
    }
}
