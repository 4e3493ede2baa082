//! Gemini CLI. It has no flag for settings, but a variable for the file with the system's defaults, which are merged
//! with the user's settings. The variable for the system's settings would do as well, and would put an
//! administrator's rules out of force.
//!
//! In a folder that the user does not trust it runs neither hooks nor MCP servers, and it goes on without them in the
//! session in which the user says that the folder is to be trusted. Trust in a repository is not trust in its worktrees
//! elsewhere, as it is for the other agents, so we pass that on.

use std::{
    fs,
    path::{Path, PathBuf},
};

use fugue_api::Error;
use serde_json::{Map, Value, json};

use super::{AgentLaunch, FREE_TOOLS, Vendor, WorkerAssignment, files};

// Each tells the completion, the prompt or the question of a turn; see `hook.rs`.
const HOOKS: [&str; 5] = [
    "BeforeAgent",
    "AfterAgent",
    "AfterTool",
    "Notification",
    "SessionEnd",
];

pub fn lay_out(assignment: &WorkerAssignment<'_>) -> Result<AgentLaunch, Error> {
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
    if trusts_worktree(assignment) {
        argv.push("--skip-trust".to_owned());
    }
    argv.extend(assignment.model.map(|model| format!("--model={model}")));
    argv.extend(assignment.args.iter().cloned());
    argv.push(format!("--prompt-interactive={}", assignment.prompt));
    let mut launch = AgentLaunch {
        argv,
        ..AgentLaunch::default()
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

/// Whether the user trusts the folder that the worker's own stands for, and has said nothing about that one.
fn trusts_worktree(assignment: &WorkerAssignment<'_>) -> bool {
    let (Some(original), Some(home)) = (assignment.worktree_of, assignment.identity.get("HOME"))
    else {
        return false;
    };
    let list = Path::new(home).join(".gemini/trustedFolders.json");
    // A list that we cannot read is the agent's to complain of.
    let list = fs::read(list).ok();
    let list = list.and_then(|text| serde_json::from_slice(&text).ok());
    list.is_some_and(|list| {
        trust(&list, assignment.cwd).is_none() && trust(&list, original) == Some(true)
    })
}

/// What a list says of a folder, as Gemini CLI reads it: the longest path decides.
fn trust(list: &Map<String, Value>, folder: &Path) -> Option<bool> {
    let real = |path: &Path| -> PathBuf { path.canonicalize().unwrap_or_else(|_| path.to_owned()) };
    let folder = real(folder);
    let (_, level) = list
        .iter()
        .filter(|(path, level)| {
            let path = Path::new(path);
            let of = match level.as_str() {
                Some("TRUST_PARENT") => path.parent().unwrap_or(path),
                _ => path,
            };
            folder.starts_with(real(of))
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

    #[test]
    fn the_longest_path_says_whether_a_folder_is_trusted() {
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
