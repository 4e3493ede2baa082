//! Environment variables that describe an agent's session to the programs that the agent starts.
//!
//! A pane, a run or a worker that a lead starts is no part of the lead's session. With these variables, such a process could connect to the
//! lead (a socket and a token), would write into the lead's conversation (a session id), or would behave as if inside the
//! lead's sandbox. So panes do not inherit these variables.
//!
//! Each agent lists the names. A common prefix would not do: `CLAUDE_CODE_`, `CODEX_` and `GEMINI_CLI_` are also prefixes of
//! settings (`CLAUDE_CODE_USE_BEDROCK`, `CLAUDE_CODE_MAX_OUTPUT_TOKENS`, `CLAUDE_CODE_OAUTH_TOKEN`, `CODEX_HOME`,
//! `GEMINI_CLI_HOME`), and a person's settings have to reach the pane.
//!
//! The names have three sources. Those in the test below, except `CODEX_SANDBOX…`, were printed by MCP servers (Claude
//! Code 2.1.325, Codex 0.166, Gemini CLI 0.61) and by the shells of the first two, each started with an empty environment.
//! The other names of these three agents were found in their programs and chosen by their meaning: ids, sockets, descriptors
//! and tokens of a session. The names of [`OTHER_AGENTS`] were not verified with a running agent. A prefix is listed where
//! every name with that prefix in the program is of this kind.

use std::{ffi::OsStr, os::unix::ffi::OsStrExt};

use super::AGENTS;

/// The variables of an agent's session, by name and by prefix.
#[derive(Clone, Copy, Debug, Default)]
pub struct SessionVariables {
    pub names: &'static [&'static str],
    pub prefixes: &'static [&'static str],
}

impl SessionVariables {
    fn contains(&self, name: &[u8]) -> bool {
        let starts = |prefix: &&str| name.starts_with(prefix.as_bytes());
        self.names.iter().any(|known| name == known.as_bytes()) || self.prefixes.iter().any(starts)
    }
}

/// Agents that fugue does not start, but that may be a lead.
const OTHER_AGENTS: SessionVariables = SessionVariables {
    names: &["COPILOT_CLI", "OPENCODE", "OPENCODE_PID"],
    prefixes: &[],
};

/// Whether a variable of this name belongs to the session of the agent that set it.
pub fn is_session_variable(name: &OsStr) -> bool {
    let name = name.as_bytes();
    let has = |variables: SessionVariables| variables.contains(name);
    has(OTHER_AGENTS) || AGENTS.iter().any(|agent| has(agent.session_variables()))
}

/// Whether a caller with these variables was started by an agent that passes its whole environment on to MCP servers.
pub fn passes_on_its_environment(has_variable: impl Fn(&str) -> bool) -> bool {
    let marks = AGENTS
        .iter()
        .filter_map(|agent| agent.whole_environment_mark());
    marks.into_iter().any(has_variable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn session_variables_are_distinguished_from_settings_of_a_person() {
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
            // The shell of Claude Code.
            "CLAUDE_CODE_CHILD_SESSION",
            "CLAUDE_CODE_EXECPATH",
            "CLAUDE_CODE_SESSION_ATTENDED",
            "CLAUDE_EFFORT",
            "CLAUDE_PID",
            // The shell of Codex.
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
            assert!(is_session_variable(OsStr::new(name)), "{name}");
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
            assert!(!is_session_variable(OsStr::new(name)), "{name}");
        }
    }
}
