//! Gemini CLI. There is no flag for a settings file, and the files of the system's settings are read only if they and all
//! directories above belong to root. So a worker gets a home directory for Gemini CLI alone (`gemini_home`).
//!
//! In a folder that the user does not trust, Gemini CLI runs neither hooks nor MCP servers, and the session in which the user
//! trusts the folder continues without hooks and servers. Unlike the other agents, Gemini CLI does not extend the trust in a repository to
//! its worktrees in other directories, so the launch passes that trust on by `--skip-trust`.

mod gemini_home;

use std::{
    fs,
    path::{Path, PathBuf},
};

use fugue_api::{Error, pane_state::AttentionKind};
use serde_json::{Map, Value, json};

use super::{
    AgentDriver, AgentLaunch, FREE_TOOLS, WorkerAssignment, files,
    hook::{HookEvent, HookReader, first_text, session_end, short, text},
    screen::{ScreenPatterns, find_framed_box},
    session::SessionVariables,
};

pub struct Gemini;

// Each reports the start, the end or a question of a turn; see `read_hook`.
const HOOKS: [&str; 5] = [
    "BeforeAgent",
    "AfterAgent",
    "AfterTool",
    "Notification",
    "SessionEnd",
];

impl AgentDriver for Gemini {
    fn name(&self) -> &str {
        "gemini"
    }

    fn program(&self) -> Option<&str> {
        Some("gemini")
    }

    fn prepare_launch(&self, assignment: &WorkerAssignment<'_>) -> Result<AgentLaunch, Error> {
        let command = files::hook_command(assignment, self);
        // Gemini CLI shows the names of running hooks.
        let hook = json!({"type": "command", "name": "fugue", "command": command, "timeout": 5000});
        let hook = json!([{"hooks": [hook]}]);
        let hooks: Map<String, Value> = HOOKS
            .into_iter()
            .map(|event| (event.to_owned(), hook.clone()))
            .collect();
        let policy = files::write(assignment.dir, "policy.toml", &policy())?;
        let home = gemini_home::write(
            assignment,
            gemini_home::WorkerSettings {
                server: files::server(assignment),
                hooks,
                policy,
            },
        )?;
        let mut argv = vec!["gemini".to_owned()];
        if trusts_worktree(assignment) {
            argv.push("--skip-trust".to_owned());
        }
        argv.extend(assignment.model.map(|model| format!("--model={model}")));
        argv.extend(assignment.args.iter().cloned());
        argv.push(format!("--prompt-interactive={}", assignment.prompt));
        Ok(AgentLaunch { argv, env: home })
    }

    fn hook_reader(&self) -> Option<HookReader> {
        Some(read_hook)
    }

    fn screen(&self) -> Option<&'static ScreenPatterns> {
        Some(&ScreenPatterns {
            find_input_box: |lines, row| {
                find_framed_box(lines, row, &['>', '*', '!'], &['▄', '─'], &['▀', '─'])
            },
            plain_sign: &['>', '*'],
            placeholders: &["Type your message or @path/to/file"],
            working_marks: &["(esc to cancel, "],
            request_marks: &[
                ("Allow execution of", AttentionKind::Permission),
                ("Apply this change?", AttentionKind::Permission),
                ("Answer Questions", AttentionKind::Question),
            ],
        })
    }

    // Node sets the name of the main thread.
    fn process_names(&self) -> &'static [&'static str] {
        &["gemini", "node", "MainThread"]
    }

    // `GEMINI_CLI_TRUST_WORKSPACE` comes from the flag `--skip-trust` of one session; a person trusts a folder permanently in
    // `trustedFolders.json`.
    fn session_variables(&self) -> SessionVariables {
        SessionVariables {
            names: &[
                "GEMINI_CLI",
                "GEMINI_CLI_NO_RELAUNCH",
                "GEMINI_CLI_PROMPT_ID",
                "GEMINI_CLI_SESSION_ID",
                "GEMINI_CLI_TRUST_WORKSPACE",
            ],
            prefixes: &[],
        }
    }
}

fn read_hook(event: &str, payload: &Value) -> HookEvent {
    match event {
        "BeforeAgent" => HookEvent::PromptGiven,
        "AfterAgent" => match text(payload, "prompt_response") {
            // The text of Gemini CLI for a request that failed. The error is on the screen.
            "[no response text]" => HookEvent::TurnFailed {
                message: String::new(),
            },
            message => HookEvent::TurnEnded {
                message: message.to_owned(),
            },
        },
        "Notification" if text(payload, "notification_type") == "ToolPermission" => {
            HookEvent::NeedsInput {
                prompt: permission_question(payload),
                kind: AttentionKind::Permission,
            }
        }
        "AfterTool" => HookEvent::InputNoLongerNeeded,
        "SessionEnd" => session_end(payload),
        _ => HookEvent::Nothing,
    }
}

/// The title and the main argument of a permission dialog, as in `Shell Command: rm -rf x`.
fn permission_question(payload: &Value) -> String {
    let details = &payload["details"];
    let title = details["title"].as_str();
    let title = title.map(|title| title.trim_start_matches("Confirm "));
    match (
        title,
        first_text(
            details,
            &["command", "fileName", "filePath", "toolName", "prompt"],
        ),
    ) {
        (Some(title), Some(argument)) => short(&format!("{title}: {argument}")),
        (Some(title), None) => short(title),
        (None, _) => short(text(payload, "message")),
    }
}

/// A policy with one rule whose priority is below all rules of the user. The settings for this purpose do too much or can be
/// lost: `trust` covers every tool of a server, and `tools.allowed` of the user replaces the one of a defaults file.
fn policy() -> String {
    let tools = json!(FREE_TOOLS);
    format!(
        "[[rule]]\nmcpName = \"fugue\"\ntoolName = {tools}\ndecision = \"allow\"\npriority = 0\n"
    )
}

/// Whether the user trusts the lead's folder, of which the worker's is a worktree, and has no rule for the worker's folder.
fn trusts_worktree(assignment: &WorkerAssignment<'_>) -> bool {
    let (Some(original), Some(list)) =
        (assignment.worktree_of, gemini_home::trust_list(assignment))
    else {
        return false;
    };
    // Gemini CLI itself reports a list that cannot be read.
    let list = fs::read(list).ok();
    let list = list.and_then(|text| serde_json::from_slice(&text).ok());
    list.is_some_and(|list| {
        trust(&list, assignment.cwd).is_none() && trust(&list, original) == Some(true)
    })
}

/// The trust level of a folder in the list, by the rule of Gemini CLI: the longest matching path decides.
fn trust(list: &Map<String, Value>, folder: &Path) -> Option<bool> {
    let real = |path: &Path| -> PathBuf { path.canonicalize().unwrap_or_else(|_| path.to_owned()) };
    let folder = real(folder);
    let (_, level) = list
        .iter()
        .filter(|(path, level)| {
            let path = Path::new(path);
            let root = match level.as_str() {
                Some("TRUST_PARENT") => path.parent().unwrap_or(path),
                _ => path,
            };
            folder.starts_with(real(root))
        })
        .max_by_key(|(path, _)| path.len())?;
    match level.as_str() {
        Some("TRUST_FOLDER" | "TRUST_PARENT") => Some(true),
        Some("DO_NOT_TRUST") => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agents::hook::testing::{check, ended, needs};

    // Payloads as Gemini CLI sent them, without the ids.
    #[test]
    fn gemini_hooks_are_recognised() {
        let check = |payload: Value, expected: HookEvent| check(&Gemini, &payload, &expected);
        check(
            json!({"hook_event_name": "BeforeAgent", "prompt": "x"}),
            HookEvent::PromptGiven,
        );
        check(
            json!({"hook_event_name": "Notification", "notification_type": "ToolPermission",
                "message": "Tool Confirm Shell Command requires execution",
                "details": {"type": "exec", "title": "Confirm Shell Command", "command": "touch made.txt"}}),
            needs("Shell Command: touch made.txt"),
        );
        check(
            json!({"hook_event_name": "Notification", "notification_type": "ToolPermission",
                "message": "Tool requires confirmation", "details": {"type": "ask_user", "title": "Ask User"}}),
            needs("Ask User"),
        );
        check(
            json!({"hook_event_name": "AfterTool", "tool_name": "run_shell_command"}),
            HookEvent::InputNoLongerNeeded,
        );
        check(
            json!({"hook_event_name": "AfterAgent", "prompt": "x", "prompt_response": "done", "stop_hook_active": false}),
            ended("done"),
        );
        check(
            json!({"hook_event_name": "AfterAgent", "prompt": "x", "prompt_response": "[no response text]"}),
            HookEvent::TurnFailed {
                message: String::new(),
            },
        );
    }

    #[test]
    fn the_longest_path_decides_whether_a_folder_is_trusted() {
        let list = json!({
            "/a": "TRUST_FOLDER", "/a/b": "DO_NOT_TRUST", "/a/b/c": "TRUST_FOLDER", "/d/e": "TRUST_PARENT", "/f": 1,
        });
        let list = list.as_object().unwrap();
        for (folder, expected) in [
            ("/a", Some(true)),
            ("/a/x", Some(true)),
            ("/ab", None),
            ("/a/b/x", Some(false)),
            ("/a/b/c/x", Some(true)),
            ("/d/x", Some(true)),
            ("/f/x", None),
            ("/", None),
        ] {
            assert_eq!(trust(list, Path::new(folder)), expected, "{folder}");
        }
    }
}
