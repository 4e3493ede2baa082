//! Environment variables by which an agent tells the programs it starts about its own session.
//!
//! A pane, a run or a worker that a lead starts is no part of the lead's session: with these it could talk to the lead
//! (a socket and its token), would write into its conversation (a session id), or would believe that it runs inside the
//! lead's sandbox. So they stay with the caller.
//!
//! Names are listed, not guessed by a vendor's prefix: `CLAUDE_CODE_`, `CODEX_` and `GEMINI_CLI_` are also how people
//! configure these agents (`CLAUDE_CODE_USE_BEDROCK`, `CLAUDE_CODE_MAX_OUTPUT_TOKENS`, `CLAUDE_CODE_OAUTH_TOKEN`,
//! `CODEX_HOME`, `GEMINI_CLI_HOME`), and what a person set has to arrive.
//!
//! The names have three sources. Those in the test below, but for `CODEX_SANDBOX…`, were printed by MCP servers (Claude
//! Code 2.1.325, Codex 0.166, Gemini CLI 0.61) and by the shells of the first two, each started with an empty environment.
//! The other names of these three stand in their programs and were chosen by what they say: ids, sockets, descriptors and
//! tokens of one session. Those of other agents were not looked at in a running one. A prefix stands in the table where
//! every name behind it that was found in the program is of that kind.

use std::{ffi::OsStr, os::unix::ffi::OsStrExt};

const NAMES: &[&str] = &[
    // Claude Code: MCP servers, hooks and its shell.
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
    // Codex: its shell; an MCP server gets none of its variables.
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
    // Gemini CLI. The workspace is trusted by the flag `--skip-trust` of one session; a person trusts it for good in
    // `trustedFolders.json`.
    "GEMINI_CLI",
    "GEMINI_CLI_NO_RELAUNCH",
    "GEMINI_CLI_PROMPT_ID",
    "GEMINI_CLI_SESSION_ID",
    "GEMINI_CLI_TRUST_WORKSPACE",
    // Other agents, as far as known: that one is there, and its process.
    "COPILOT_CLI",
    "OPENCODE",
    "OPENCODE_PID",
    "QWEN_CODE",
    "QWEN_CODE_NO_RELAUNCH",
];

const PREFIXES: &[&str] = &[
    "CLAUDE_BG_",
    "CLAUDE_BRIDGE_",
    "CLAUDE_CODE_BRIDGE_",
    "CLAUDE_CODE_MESSAGING_",
    "CLAUDE_CODE_REMOTE_SESSION_",
    "CLAUDE_CODE_SESSION_",
    "CLAUDE_PLUGIN_",
    "CLAUDE_RUNNER_",
    "CODEX_EXEC_SERVER_",
    "CODEX_MANAGED_BY_",
    "CODEX_NETWORK_PROXY_",
    "CODEX_SANDBOX_",
];

/// Whether a variable of this name belongs to the session of the agent that set it.
pub fn is_variable(name: &OsStr) -> bool {
    let name = name.as_bytes();
    NAMES.iter().any(|known| name == known.as_bytes())
        || PREFIXES
            .iter()
            .any(|prefix| name.starts_with(prefix.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_agent_tells_its_children_is_told_from_what_a_person_sets() {
        let of_the_session = [
            // Claude Code, an MCP server.
            "AI_AGENT",
            "CLAUDECODE",
            "CLAUDE_CODE_ENTRYPOINT",
            "CLAUDE_CODE_MESSAGING_SOCKET",
            "CLAUDE_CODE_MESSAGING_TOKEN",
            "CLAUDE_CODE_SESSION_ID",
            "CLAUDE_PROJECT_DIR",
            "COREPACK_ENABLE_AUTO_PIN",
            "NoDefaultCurrentDirectoryInExePath",
            // Claude Code, its shell.
            "CLAUDE_CODE_CHILD_SESSION",
            "CLAUDE_CODE_EXECPATH",
            "CLAUDE_CODE_SESSION_ATTENDED",
            "CLAUDE_EFFORT",
            "CLAUDE_PID",
            // Codex, its shell.
            "CODEX_APPLY_PATCH_PRESERVE_LINE_ENDINGS",
            "CODEX_CI",
            "CODEX_MANAGED_BY_NPM",
            "CODEX_MANAGED_PACKAGE_ROOT",
            "CODEX_SANDBOX",
            "CODEX_SANDBOX_NETWORK_DISABLED",
            "CODEX_SESSION_ID",
            "CODEX_THREAD_ID",
            "CODEX_TOOL_CALL_ID",
            "CODEX_VERSION",
            // Gemini CLI, an MCP server.
            "GEMINI_CLI",
            "GEMINI_CLI_NO_RELAUNCH",
            "GEMINI_CLI_TRUST_WORKSPACE",
        ];
        for name in of_the_session {
            assert!(is_variable(OsStr::new(name)), "{name}");
        }
        let of_the_person = [
            "ANTHROPIC_API_KEY",
            "ANTHROPIC_BASE_URL",
            "CLAUDE_CONFIG_DIR",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
            "CLAUDE_CODE_EFFORT_LEVEL",
            "CLAUDE_CODE_MAX_OUTPUT_TOKENS",
            "CLAUDE_CODE_OAUTH_TOKEN",
            "CLAUDE_CODE_REMOTE_SETTINGS_PATH",
            "CLAUDE_CODE_SESSIONEND_HOOKS_TIMEOUT_MS",
            "CLAUDE_CODE_SUBAGENT_MODEL",
            "CLAUDE_CODE_USE_BEDROCK",
            "CODEX_API_KEY",
            "CODEX_HOME",
            "GEMINI_API_KEY",
            "GEMINI_CLI_HOME",
            "GEMINI_CLI_SYSTEM_SETTINGS_PATH",
            "GIT_EDITOR",
            "HTTPS_PROXY",
            "NO_COLOR",
            "PATH",
        ];
        for name in of_the_person {
            assert!(!is_variable(OsStr::new(name)), "{name}");
        }
    }
}
