//! The real Claude Code, Codex, Gemini CLI and Qwen Code with a scripted model: headless with fugue as their MCP server, or
//! installed in a test environment, for workers that run in panes.
//!
//! `scripts/mcp-tools` installs them next to the build and outside the repository. A test that finds none is skipped.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    MissingRequirement, TestEnv,
    scripted_model::{ModelAction, ScriptedModel},
};

/// Third-party programs that the tests run: agents, test suites, clients.
pub struct ExternalTools {
    dir: PathBuf,
}

impl ExternalTools {
    /// The directory where `scripts/mcp-tools` installs the programs for the build of this binary; `FUGUE_MCP_TOOLS`
    /// overrides the path.
    pub fn find_beside(binary: &Path) -> Self {
        let said = std::env::var_os("FUGUE_MCP_TOOLS").map(PathBuf::from);
        let built = binary
            .ancestors()
            .map(|dir| dir.join("mcp-tools"))
            .find(|dir| dir.is_dir());
        Self {
            dir: said.or(built).unwrap_or_default(),
        }
    }

    /// Returns the path of an installed program.
    pub fn find(&self, program: &str) -> Option<PathBuf> {
        let path = self.dir.join(program);
        path.exists().then_some(path)
    }

    /// A command in a test environment, with the installed Node before the system's in `PATH`.
    pub fn command(&self, test_env: &TestEnv, program: &Path) -> Command {
        let mut command = test_env.command(program);
        let path = world_path(&command);
        let node = self.dir.join("node_modules/node/bin");
        command.env("PATH", format!("{}:{path}", node.display()));
        command
    }

    /// A home directory for agents: below the user's own cache directory, or beside the agents. The directory of a test
    /// environment cannot be used, because Gemini CLI ignores settings below a directory that other users can write to,
    /// such as /tmp.
    fn private_dir(&self) -> TempDir {
        let parents = self.private_parents();
        let closed = parents.iter().find(|dir| is_closed_to_others(dir));
        let parent = closed.or(parents.first()).expect("a directory for homes");
        tempfile::tempdir_in(parent).expect("a home for agents")
    }

    fn private_parents(&self) -> Vec<PathBuf> {
        let home = std::env::var_os("HOME").map(PathBuf::from);
        let cache = home.map(|home| home.join(".cache/fugue-test"));
        [cache, Some(self.dir.clone())]
            .into_iter()
            .flatten()
            .filter(|dir| fs::create_dir_all(dir).is_ok())
            .filter(|dir| tempfile::tempdir_in(dir).is_ok())
            .collect()
    }
}

/// Whether only this user and root can write to a directory and to all parents.
fn is_closed_to_others(dir: &Path) -> bool {
    let Ok(dir) = dir.canonicalize() else {
        return false;
    };
    dir.ancestors()
        .all(|dir| fs::metadata(dir).is_ok_and(|found| found.mode() & 0o022 == 0))
}

/// How a test starts an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AgentStart {
    Headless,
    AsWorker,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TestAgent {
    Claude,
    Codex,
    Gemini,
    Qwen,
}

/// An agent that is ready to start, and the home directory.
pub struct HeadlessAgent {
    pub command: Command,
    home: TempDir,
}

impl TestAgent {
    /// The name under which the model sees a fugue tool: the tool, and the namespace if the agent uses namespaces.
    pub fn model_tool_name(self, tool: &str) -> (String, Option<String>) {
        match self {
            Self::Claude | Self::Qwen => (format!("mcp__fugue__{tool}"), None),
            Self::Codex => (tool.to_owned(), Some("mcp__fugue".to_owned())),
            Self::Gemini => (format!("mcp_fugue_{tool}"), None),
        }
    }

    fn program(self) -> &'static str {
        match self {
            Self::Claude => "node_modules/.bin/claude",
            Self::Codex => "node_modules/.bin/codex",
            Self::Gemini => "node_modules/.bin/gemini",
            Self::Qwen => "node_modules/.bin/qwen",
        }
    }

    /// The missing requirement because of which the agent cannot be tested here, and the reason.
    pub fn missing_requirement(
        self,
        tools: &ExternalTools,
        started: AgentStart,
    ) -> Option<(MissingRequirement, String)> {
        if tools.find(self.program()).is_none() {
            let reason = format!("{self:?} is not installed (scripts/mcp-tools)");
            return Some((MissingRequirement::Program, reason));
        }
        if self != Self::Gemini {
            return None;
        }
        if started == AgentStart::AsWorker && !rustix::process::geteuid().is_root() {
            let reason = "Gemini CLI reads a worker's settings only below directories of root";
            return Some((MissingRequirement::Root, reason.to_owned()));
        }
        if tools
            .private_parents()
            .iter()
            .any(|dir| is_closed_to_others(dir))
        {
            return None;
        }
        let reason = "Gemini CLI ignores its settings below a directory that others can write to; HOME and the build are both";
        Some((MissingRequirement::Machine, reason.to_owned()))
    }

    /// The agent with one prompt, fugue as its only MCP server and the scripted model as its only model; `None` if the
    /// agent is not installed. No traffic leaves the loopback interface.
    pub fn headless(
        self,
        tools: &ExternalTools,
        test_env: &TestEnv,
        fugue: &Path,
        model: &ScriptedModel,
    ) -> Option<HeadlessAgent> {
        let program = tools.find(self.program())?;
        let home = tools.private_dir();
        let mut command = tools.command(test_env, &program);
        let server = json!({"command": fugue, "args": ["mcp"], "env": world_env(&command)});
        command.env("HOME", home.path());
        let mut agent = HeadlessAgent { command, home };
        match self {
            Self::Claude => agent.configure_claude(server, model),
            Self::Codex => agent.configure_codex(&server, model),
            Self::Gemini => agent.configure_gemini(server, model),
            Self::Qwen => agent.configure_qwen(server, model),
        }
        Some(agent)
    }
}

const PROMPT: &str = "follow the script";

impl HeadlessAgent {
    fn configure_claude(&mut self, mut server: Value, model: &ScriptedModel) {
        // Without this, the tools are only found through a search tool.
        server["alwaysLoad"] = json!(true);
        let config = write(
            &self.home,
            "mcp.json",
            &json!({"mcpServers": {"fugue": server}}).to_string(),
        );
        self.command
            .env("ANTHROPIC_BASE_URL", model.url())
            .env("ANTHROPIC_API_KEY", "none")
            .env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1")
            .env("DISABLE_AUTOUPDATER", "1")
            .args(["-p", PROMPT, "--output-format", "stream-json", "--verbose"])
            .arg("--mcp-config")
            .arg(config)
            .args(["--strict-mcp-config", "--allowedTools", "mcp__fugue"]);
    }

    fn configure_codex(&mut self, server: &Value, model: &ScriptedModel) {
        let env: Vec<String> = server["env"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(name, value)| format!("{name} = {value}"))
            .collect();
        let config = format!(
            "model = \"scripted\"\nmodel_provider = \"scripted\"\napproval_policy = \"never\"\n\
             sandbox_mode = \"danger-full-access\"\n\
             [model_providers.scripted]\nname = \"scripted\"\nbase_url = \"{}/v1\"\nwire_api = \"responses\"\n\
             requires_openai_auth = false\n\
             [mcp_servers.fugue]\ncommand = {}\nargs = [\"mcp\"]\n\
             [mcp_servers.fugue.env]\n{}\n",
            model.url(),
            server["command"],
            env.join("\n")
        );
        fs::create_dir(self.home.path().join(".codex")).expect("a directory");
        write(&self.home, ".codex/config.toml", &config);
        self.command
            .env("CODEX_HOME", self.home.path().join(".codex"))
            .args(["exec", "--json", "--skip-git-repo-check", PROMPT]);
    }

    fn configure_gemini(&mut self, mut server: Value, model: &ScriptedModel) {
        server["trust"] = json!(true);
        let settings = json!({
            "security": {"auth": {"selectedType": "gemini-api-key"}},
            "privacy": {"usageStatisticsEnabled": false},
            "general": {"disableAutoUpdate": true, "enableAutoUpdate": false},
            "mcpServers": {"fugue": server},
        });
        fs::create_dir(self.home.path().join(".gemini")).expect("a directory");
        write(&self.home, ".gemini/settings.json", &settings.to_string());
        self.command
            .env("GEMINI_API_KEY", "none")
            .env("GOOGLE_GEMINI_BASE_URL", model.url())
            .args(["-p", PROMPT, "-o", "stream-json", "--skip-trust"])
            // A model by name: by default the CLI asks a model which model to use, for a minute.
            .args(["--approval-mode", "yolo", "--model", "gemini-2.5-pro"]);
    }

    fn configure_qwen(&mut self, mut server: Value, model: &ScriptedModel) {
        server["alwaysLoadTools"] = json!(true);
        let mut settings = qwen_settings("yolo");
        settings["mcpServers"] = json!({"fugue": server});
        fs::create_dir(self.home.path().join(".qwen")).expect("a directory");
        write(&self.home, ".qwen/settings.json", &settings.to_string());
        self.command
            .env("ANTHROPIC_BASE_URL", model.url())
            .env("ANTHROPIC_API_KEY", "none")
            .args(["-p", PROMPT, "-o", "stream-json"]);
    }
}

/// Whether a home directory has credentials of the agents' providers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AgentLogin {
    LoggedIn,
    LoggedOut,
}

/// A home directory with which the agents can be started by name in a test environment, interactively, by any program:
/// they are in `PATH`, have completed their first-run setup, and use the scripted model.
pub struct AgentHome {
    home: TempDir,
}

impl AgentHome {
    /// Installs the agents in a test environment; `None` if an agent is missing. Programs started afterwards, including
    /// the daemon, inherit the necessary variables, so this call comes first. The agents trust the environment's
    /// working directory and request permission before running a command.
    pub fn settle(
        tools: &ExternalTools,
        test_env: &mut TestEnv,
        model: &ScriptedModel,
    ) -> Option<Self> {
        Self::settle_with(tools, test_env, model, AgentLogin::LoggedIn)
    }

    /// [`Self::settle`], with or without credentials.
    pub fn settle_with(
        tools: &ExternalTools,
        test_env: &mut TestEnv,
        model: &ScriptedModel,
        login: AgentLogin,
    ) -> Option<Self> {
        for agent in [TestAgent::Claude, TestAgent::Codex, TestAgent::Gemini] {
            tools.find(agent.program())?;
        }
        let home = Self {
            home: tools.private_dir(),
        };
        let path = world_path(&test_env.command("env"));
        let bin = |dir: &str| tools.dir.join("node_modules").join(dir);
        let (node, agents) = (bin("node/bin"), bin(".bin"));
        let path = format!("{}:{}:{path}", node.display(), agents.display());
        test_env.set_env("PATH", path);
        test_env.set_env("HOME", home.dir());
        // The daemon writes files for agents to the state directory, and Gemini CLI ignores files below /tmp.
        test_env.set_env("XDG_STATE_HOME", home.dir().join("state"));
        test_env.set_env("ANTHROPIC_BASE_URL", model.url());
        test_env.set_env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1");
        test_env.set_env("CLAUDE_CODE_DISABLE_OFFICIAL_MARKETPLACE_AUTOINSTALL", "1");
        test_env.set_env("DISABLE_AUTOUPDATER", "1");
        test_env.set_env("GOOGLE_GEMINI_BASE_URL", model.url());
        if login == AgentLogin::LoggedIn {
            test_env.set_env("ANTHROPIC_API_KEY", TEST_API_KEY);
            test_env.set_env("GEMINI_API_KEY", "none");
        }
        home.write_settings(model, login);
        home.trust(&test_env.work());
        Some(home)
    }

    pub fn dir(&self) -> &Path {
        self.home.path()
    }

    fn write_settings(&self, model: &ScriptedModel, login: AgentLogin) {
        for dir in [".claude", ".codex", ".gemini", ".qwen", "state"] {
            fs::create_dir(self.dir().join(dir)).expect("a directory of the home");
        }
        for rc in [".bashrc", ".zshrc"] {
            write(&self.home, rc, "");
        }
        // The agent then requests permission from a person, and not from a model, before running a command.
        let manual = json!({"permissions": {"disableAutoMode": "disable"}});
        write(&self.home, ".claude/settings.json", &manual.to_string());
        let codex = format!(
            "model = \"scripted\"\nmodel_provider = \"scripted\"\napproval_policy = \"on-request\"\n\
             [model_providers.scripted]\nname = \"scripted\"\nbase_url = \"{}/v1\"\nwire_api = \"responses\"\n\
             requires_openai_auth = false\n",
            model.url()
        );
        let mut gemini = json!({
            "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": true}},
            "privacy": {"usageStatisticsEnabled": false},
            "general": {"enableAutoUpdate": false},
            // By name: by default the CLI asks a model which model to use, for a minute.
            "model": {"name": "gemini-2.5-pro"},
        });
        let mut qwen = qwen_settings("default");
        let codex = match login {
            AgentLogin::LoggedIn => codex,
            AgentLogin::LoggedOut => {
                for settings in [&mut gemini, &mut qwen] {
                    settings["security"]["auth"] = json!({});
                }
                String::new()
            }
        };
        write(&self.home, ".codex/config.toml", &codex);
        write(&self.home, ".gemini/settings.json", &gemini.to_string());
        write(&self.home, ".qwen/settings.json", &qwen.to_string());
    }

    /// Lets programs started from now on find the older Claude Code first. Returns false if it is not installed.
    pub fn prefer_older_claude(tools: &ExternalTools, test_env: &mut TestEnv) -> bool {
        let Some(older) = tools.find("older/node_modules/.bin") else {
            return false;
        };
        let path = world_path(&test_env.command("env"));
        test_env.set_env("PATH", format!("{}:{path}", older.display()));
        true
    }

    /// Lets the agents work in a further directory without a trust dialog. To be called before an agent is started in
    /// the directory.
    pub fn trust(&self, dir: &Path) {
        let dir = dir.canonicalize().expect("a directory to trust");
        let name = dir.to_string_lossy().into_owned();
        let claude = self.dir().join(".claude.json");
        let mut state = read_json(&claude);
        state["hasCompletedOnboarding"] = json!(true);
        state["customApiKeyResponses"] =
            json!({"approved": [&TEST_API_KEY[TEST_API_KEY.len() - 20..]], "rejected": []});
        state["projects"][&name] = json!({"hasTrustDialogAccepted": true});
        fs::write(&claude, state.to_string()).expect("Claude's state");
        let codex = self.dir().join(".codex/config.toml");
        let mut config = fs::read_to_string(&codex).expect("Codex's settings");
        config.push_str(&format!(
            "[projects.{}]\ntrust_level = \"trusted\"\n",
            json!(name)
        ));
        fs::write(&codex, config).expect("Codex's settings");
        for home in [".gemini", ".qwen"] {
            let list = self.dir().join(home).join("trustedFolders.json");
            let mut trusted = read_json(&list);
            trusted[&name] = json!("TRUST_FOLDER");
            fs::write(&list, trusted.to_string()).expect("a list of trusted folders");
        }
    }
}

impl TestAgent {
    /// The tool call with which this agent's model runs a command that needs permission.
    pub fn shell_call(self, command: &str) -> ModelAction {
        let (tool, input) = match self {
            Self::Claude => (
                "Bash",
                json!({"command": command, "description": "what the script says"}),
            ),
            // In the sandbox, the agent would run the command without a permission request.
            Self::Codex => (
                "exec_command",
                json!({"cmd": command, "sandbox_permissions": "require_escalated", "justification": "the script says so"}),
            ),
            Self::Gemini | Self::Qwen => (
                "run_shell_command",
                json!({"command": command, "description": "what the script says", "is_background": false}),
            ),
        };
        ModelAction {
            tool: tool.to_owned(),
            namespace: None,
            input,
        }
    }
}

/// Settings of a user who has chosen the scripted model. The mode `default` shows a dialog before a command runs, while a new
/// user's mode would let a model decide.
fn qwen_settings(approval_mode: &str) -> Value {
    json!({
        "security": {"auth": {"selectedType": "anthropic"}, "folderTrust": {"enabled": true}},
        "privacy": {"usageStatisticsEnabled": false},
        "general": {"enableAutoUpdate": false},
        "model": {"name": "scripted"},
        "tools": {"approvalMode": approval_mode},
    })
}

// As long as a real key: Claude Code stores the last 20 characters of an approved key.
const TEST_API_KEY: &str = "sk-ant-none-0123456789012345678901234567890123456789";

fn read_json(path: &Path) -> Value {
    match fs::read_to_string(path) {
        Ok(text) => serde_json::from_str(&text).expect("JSON"),
        Err(_) => json!({}),
    }
}

fn world_path(command: &Command) -> String {
    command
        .get_envs()
        .find(|(name, _)| *name == "PATH")
        .and_then(|(_, value)| value)
        .map(|value| value.to_string_lossy().into_owned())
        .unwrap_or_default()
}

/// The variables that direct fugue to the test environment, for servers that an agent starts with a different
/// environment.
fn world_env(command: &Command) -> Value {
    let ours = command.get_envs().filter_map(|(name, value)| {
        let name = name.to_str()?;
        let kept = name.starts_with("XDG_") || name == "HOME" || name == "PATH";
        kept.then(|| Some((name.to_owned(), json!(value?.to_str()?))))?
    });
    Value::Object(ours.collect())
}

fn write(home: &TempDir, name: &str, text: &str) -> PathBuf {
    let path = home.path().join(name);
    fs::write(&path, text).expect("a file of the agent's");
    path
}

/// Whether `given` contains exactly `facts`: as JSON, or as JSON inside a text, after any heading that the agent adds.
pub fn contains_reply(given: &Value, facts: &Value) -> bool {
    if given == facts {
        return true;
    }
    match given {
        Value::String(text) => {
            text.contains(&facts.to_string())
                || text.match_indices(['{', '[']).any(|(at, _)| {
                    let mut documents =
                        serde_json::Deserializer::from_str(&text[at..]).into_iter::<Value>();
                    matches!(documents.next(), Some(Ok(inner)) if contains_reply(&inner, facts))
                })
        }
        Value::Array(items) => items.iter().any(|item| contains_reply(item, facts)),
        Value::Object(fields) => fields.values().any(|field| contains_reply(field, facts)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_are_found_in_whatever_an_agent_wraps_them() {
        let facts = json!({"a": 1, "b": [2]});
        for given in [
            json!({"a": 1, "b": [2]}),
            json!([{"type": "text", "text": "{\"a\":1,\"b\":[2]}"}]),
            json!({"output": "Wall time: 1s\nOutput:\n{ \"b\": [2], \"a\": 1 }"}),
            json!("{\"structuredContent\": {\"a\": 1, \"b\": [2]}}"),
        ] {
            assert!(contains_reply(&given, &facts), "{given}");
        }
        assert!(!contains_reply(&json!({"a": 1}), &facts));
        assert!(!contains_reply(&json!("{\"a\":1,\"b\":[3]}"), &facts));
    }
}
