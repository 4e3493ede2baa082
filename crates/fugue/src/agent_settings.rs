//! The settings of agents, as far as they concern fugue: its MCP server and its hooks. Reads, never writes.

use std::path::{Path, PathBuf};

use fugue_api::wire::CallerEnv;
use fugue_daemon::inspection::{find_program, text_variable};
use serde_json::Value;

/// An agent whose settings are known.
pub struct KnownAgent {
    /// The name in fugue, and the program.
    pub name: &'static str,
    /// The agent's own command that registers fugue for the user.
    register: &'static str,
    /// The events whose hooks tell the agent's state, in the agent's words.
    hook_events: &'static [&'static str],
    /// The directory of the user's settings: a variable, and a name in the home directory.
    home: (&'static str, &'static str),
    /// Files with MCP servers, the first that names fugue counts: those of the user, and those of a project.
    server_files: &'static [SettingsFile],
    hook_files: &'static [SettingsFile],
    format: SettingsFormat,
    /// The table of MCP servers.
    servers: &'static str,
    /// A key that switches all hooks off, and its value.
    hooks_off: Option<(&'static str, bool)>,
}

#[derive(Clone, Copy)]
enum SettingsFile {
    /// In the directory of the user's settings.
    User(&'static str),
    /// In the home directory, or in the directory that the variable names.
    Home(&'static str),
    Project(&'static str),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum SettingsFormat {
    /// With comments.
    Json,
    Toml,
}

pub const KNOWN_AGENTS: &[KnownAgent] = &[
    KnownAgent {
        name: "claude",
        register: "claude mcp add --scope user fugue -- fugue mcp",
        hook_events: &[
            "UserPromptSubmit",
            "PermissionRequest",
            "Notification",
            "Stop",
        ],
        home: ("CLAUDE_CONFIG_DIR", ".claude"),
        server_files: &[
            SettingsFile::Home(".claude.json"),
            SettingsFile::Project(".mcp.json"),
        ],
        hook_files: &[
            SettingsFile::User("settings.json"),
            SettingsFile::Project(".claude/settings.json"),
            SettingsFile::Project(".claude/settings.local.json"),
        ],
        format: SettingsFormat::Json,
        servers: "mcpServers",
        hooks_off: Some(("disableAllHooks", true)),
    },
    KnownAgent {
        name: "codex",
        register: "codex mcp add fugue -- fugue mcp",
        hook_events: &[
            "UserPromptSubmit",
            "PermissionRequest",
            "PostToolUse",
            "Stop",
        ],
        home: ("CODEX_HOME", ".codex"),
        server_files: &[
            SettingsFile::User("config.toml"),
            SettingsFile::Project(".codex/config.toml"),
        ],
        hook_files: &[
            SettingsFile::User("config.toml"),
            SettingsFile::Project(".codex/config.toml"),
        ],
        format: SettingsFormat::Toml,
        servers: "mcp_servers",
        hooks_off: None,
    },
    KnownAgent {
        name: "gemini",
        register: "gemini mcp add --scope user fugue fugue mcp",
        hook_events: &[
            "BeforeAgent",
            "AfterAgent",
            "AfterTool",
            "Notification",
            "SessionEnd",
        ],
        home: ("GEMINI_CLI_HOME", ".gemini"),
        server_files: &[
            SettingsFile::User("settings.json"),
            SettingsFile::User("extensions/fugue/gemini-extension.json"),
            SettingsFile::Project(".gemini/settings.json"),
        ],
        hook_files: &[
            SettingsFile::User("settings.json"),
            SettingsFile::Project(".gemini/settings.json"),
        ],
        format: SettingsFormat::Json,
        servers: "mcpServers",
        hooks_off: Some(("hooksConfig.enabled", false)),
    },
    KnownAgent {
        name: "qwen",
        register: "qwen mcp add --scope user fugue fugue mcp",
        hook_events: &[
            "UserPromptSubmit",
            "PermissionRequest",
            "Notification",
            "Stop",
        ],
        home: ("QWEN_HOME", ".qwen"),
        server_files: &[
            SettingsFile::User("settings.json"),
            SettingsFile::Project(".qwen/settings.json"),
        ],
        hook_files: &[
            SettingsFile::User("settings.json"),
            SettingsFile::Project(".qwen/settings.json"),
        ],
        format: SettingsFormat::Json,
        servers: "mcpServers",
        hooks_off: Some(("hooksConfig.enabled", false)),
    },
];

/// An agent on the caller's PATH.
#[derive(Debug, PartialEq, Eq)]
pub struct InstalledAgent {
    pub name: &'static str,
    /// As its package says; no program is started. `None` where the package does not say it.
    pub version: Option<String>,
    pub registration: Registration,
    pub hooks: HookState,
    pub register: &'static str,
    pub hook_events: &'static [&'static str],
}

/// Whether fugue is an agent's MCP server, for this user and directory.
#[derive(Debug, PartialEq, Eq)]
pub enum Registration {
    Here {
        file: PathBuf,
    },
    /// The entry names a program that cannot be run.
    Broken {
        file: PathBuf,
        why: String,
    },
    Unreadable {
        file: PathBuf,
        why: String,
    },
    None,
}

/// Whether an agent calls `fugue hook`.
#[derive(Debug, PartialEq, Eq)]
pub enum HookState {
    Here {
        file: PathBuf,
    },
    SwitchedOff {
        file: PathBuf,
        key: &'static str,
    },
    /// `file` is where the user's hooks would be.
    None {
        file: PathBuf,
    },
}

impl KnownAgent {
    /// `None` if the agent is not installed.
    pub fn inspect(&self, caller: &CallerEnv) -> Option<InstalledAgent> {
        let program = find_program(self.name, caller)?;
        Some(InstalledAgent {
            name: self.name,
            version: version_of(&program),
            registration: self.registration(caller),
            hooks: self.hooks(caller),
            register: self.register,
            hook_events: self.hook_events,
        })
    }

    fn path(&self, file: SettingsFile, caller: &CallerEnv) -> Option<PathBuf> {
        let home = || text_variable(caller, "HOME").map(PathBuf::from);
        let (variable, dir) = self.home;
        let own = text_variable(caller, variable).map(PathBuf::from);
        match file {
            SettingsFile::User(name) => Some(own.or_else(|| Some(home()?.join(dir)))?.join(name)),
            SettingsFile::Home(name) => Some(own.or_else(home)?.join(name)),
            SettingsFile::Project(name) => {
                let cwd = PathBuf::from(std::ffi::OsString::from(&caller.cwd));
                Some(cwd.join(name))
            }
        }
    }

    fn registration(&self, caller: &CallerEnv) -> Registration {
        for file in self
            .server_files
            .iter()
            .filter_map(|file| self.path(*file, caller))
        {
            let settings = match read(&file, self.format) {
                Ok(Some(settings)) => settings,
                Ok(None) => continue,
                Err(why) => return Registration::Unreadable { file, why },
            };
            let cwd = std::ffi::OsString::from(&caller.cwd);
            // Claude Code keeps the servers of a single project in the user's file.
            let of_project = &settings["projects"][&*cwd.to_string_lossy()][self.servers];
            let entry = [&settings[self.servers], of_project]
                .into_iter()
                .find_map(|servers| servers.get("fugue"));
            let Some(entry) = entry else { continue };
            let Some(command) = entry.get("command").and_then(Value::as_str) else {
                // A server that is reached by its address.
                return Registration::Here { file };
            };
            if find_program(command, caller).is_none() {
                let why = format!("`{command}` is no program on the PATH");
                return Registration::Broken { file, why };
            }
            return Registration::Here { file };
        }
        Registration::None
    }

    fn hooks(&self, caller: &CallerEnv) -> HookState {
        let mut first = None;
        let mut registered = None;
        for file in self
            .hook_files
            .iter()
            .filter_map(|file| self.path(*file, caller))
        {
            first.get_or_insert_with(|| file.clone());
            let Ok(Some(settings)) = read(&file, self.format) else {
                continue;
            };
            if let Some((key, off)) = self.hooks_off {
                let pointer = format!("/{}", key.replace('.', "/"));
                if settings.pointer(&pointer) == Some(&Value::Bool(off)) {
                    return HookState::SwitchedOff { file, key };
                }
            }
            if registered.is_none() && calls_hook(&settings["hooks"], self.name) {
                registered = Some(file);
            }
        }
        match registered {
            Some(file) => HookState::Here { file },
            None => HookState::None {
                file: first.unwrap_or_default(),
            },
        }
    }
}

/// Whether a command in these hooks is `fugue hook AGENT`, with any path and quotes.
fn calls_hook(hooks: &Value, agent: &str) -> bool {
    match hooks {
        Value::String(command) => {
            let ending = format!(" hook {agent}");
            command.contains("fugue") && command.trim_end().ends_with(&ending)
        }
        Value::Array(all) => all.iter().any(|hook| calls_hook(hook, agent)),
        Value::Object(all) => all.values().any(|hook| calls_hook(hook, agent)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// A file of settings. `None`: it does not exist, or is empty.
fn read(path: &Path, format: SettingsFormat) -> Result<Option<Value>, String> {
    let text = match std::fs::read_to_string(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.to_string()),
        Ok(text) if text.trim().is_empty() => return Ok(None),
        Ok(text) => text,
    };
    let parsed = match format {
        SettingsFormat::Json => {
            serde_json::from_str(&without_comments(&text)).map_err(|error| error.to_string())
        }
        SettingsFormat::Toml => toml::from_str::<toml::Table>(&text)
            .map_err(|error| error.message().to_owned())
            .and_then(|table| serde_json::to_value(table).map_err(|error| error.to_string())),
    };
    parsed.map(Some)
}

/// JSON without `//` and `/* */` comments. Line numbers stay.
fn without_comments(text: &str) -> String {
    #[derive(PartialEq)]
    enum Place {
        Code,
        Text,
        Line,
        Block,
    }
    let mut kept = String::with_capacity(text.len());
    let mut place = Place::Code;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match (&place, c, chars.peek()) {
            (Place::Code, '/', Some('/')) => place = Place::Line,
            (Place::Code, '/', Some('*')) => {
                chars.next();
                place = Place::Block;
            }
            (Place::Block, '*', Some('/')) => {
                chars.next();
                place = Place::Code;
            }
            (Place::Line | Place::Block, '\n', _) => {
                kept.push('\n');
                if place == Place::Line {
                    place = Place::Code;
                }
            }
            (Place::Line | Place::Block, ..) => {}
            (Place::Text, '\\', Some(_)) => {
                kept.push(c);
                kept.extend(chars.next());
            }
            (Place::Code | Place::Text, '"', _) => {
                kept.push(c);
                place = match place {
                    Place::Text => Place::Code,
                    _ => Place::Text,
                };
            }
            (Place::Code | Place::Text, ..) => kept.push(c),
        }
    }
    kept
}

/// The version in the `package.json` above a program, or in its path (`versions/2.1.3`).
fn version_of(program: &Path) -> Option<String> {
    let program = std::fs::canonicalize(program).ok()?;
    let of_package = program.ancestors().skip(1).take(4).find_map(|dir| {
        let text = std::fs::read_to_string(dir.join("package.json")).ok()?;
        let package: Value = serde_json::from_str(&text).ok()?;
        package.get("version")?.as_str().map(str::to_owned)
    });
    of_package.or_else(|| {
        let name = program.file_name()?.to_str()?;
        let is_version = name.starts_with(|c: char| c.is_ascii_digit()) && name.contains('.');
        is_version.then(|| name.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt};

    use fugue_api::OsText;

    use super::*;

    /// A home directory with a program for each agent.
    struct Home(tempfile::TempDir);

    impl Home {
        fn new() -> Self {
            let home = Self(tempfile::tempdir().unwrap());
            for name in ["claude", "codex", "gemini", "qwen", "fugue"] {
                let program = home.write(&format!("bin/{name}"), "");
                fs::set_permissions(program, fs::Permissions::from_mode(0o755)).unwrap();
            }
            home
        }

        fn write(&self, path: &str, text: &str) -> PathBuf {
            let path = self.0.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, text).unwrap();
            path
        }

        fn caller(&self) -> CallerEnv {
            let at = |name: &str| OsText::from(self.0.path().join(name).into_os_string());
            CallerEnv {
                cwd: at("project"),
                env: vec![
                    ("HOME".to_owned().into_os(), at("")),
                    ("PATH".to_owned().into_os(), at("bin")),
                ],
                ..CallerEnv::nobody()
            }
        }

        fn inspect(&self, name: &str) -> InstalledAgent {
            let agent = KNOWN_AGENTS
                .iter()
                .find(|agent| agent.name == name)
                .unwrap();
            agent.inspect(&self.caller()).unwrap()
        }
    }

    trait IntoOs {
        fn into_os(self) -> OsText;
    }

    impl IntoOs for String {
        fn into_os(self) -> OsText {
            OsText::Text(self)
        }
    }

    #[test]
    fn a_registration_is_found_wherever_the_agent_keeps_it() {
        for (agent, path, text) in [
            (
                "claude",
                ".claude.json",
                r#"{"mcpServers": {"fugue": {"command": "fugue", "args": ["mcp"]}}}"#,
            ),
            (
                "claude",
                "project/.mcp.json",
                r#"{"mcpServers": {"fugue": {"command": "fugue"}}}"#,
            ),
            (
                "claude",
                ".claude.json",
                r#"{"mcpServers": {"fugue": {"type": "http", "url": "http://127.0.0.1:1/mcp"}}}"#,
            ),
            (
                "codex",
                ".codex/config.toml",
                "model = 'x'\n[mcp_servers.fugue]\ncommand = 'fugue'\n",
            ),
            (
                "gemini",
                ".gemini/settings.json",
                "{\n // servers\n \"mcpServers\": {/* ours */ \"fugue\": {\"command\": \"fugue\"}}}",
            ),
            (
                "qwen",
                "project/.qwen/settings.json",
                r#"{"mcpServers": {"fugue": {"command": "fugue"}}}"#,
            ),
        ] {
            let home = Home::new();
            assert_eq!(
                home.inspect(agent).registration,
                Registration::None,
                "{agent}"
            );
            let file = home.write(path, text);
            assert_eq!(
                home.inspect(agent).registration,
                Registration::Here { file },
                "{agent} {text}"
            );
        }
        let home = Home::new();
        let project = home.0.path().join("project");
        let servers = serde_json::json!({"projects": {project.to_str().unwrap(): {"mcpServers": {"fugue": {"command": "fugue"}}}}});
        let file = home.write(".claude.json", &servers.to_string());
        assert_eq!(
            home.inspect("claude").registration,
            Registration::Here { file }
        );
    }

    #[test]
    fn a_registration_that_cannot_work_is_told_from_a_missing_one() {
        let home = Home::new();
        let file = home.write(
            ".claude.json",
            r#"{"mcpServers": {"fugue": {"command": "/gone/fugue"}}}"#,
        );
        let why = "`/gone/fugue` is no program on the PATH".to_owned();
        assert_eq!(
            home.inspect("claude").registration,
            Registration::Broken { file, why }
        );
        home.write(".codex/config.toml", "not toml");
        let codex = home.inspect("codex").registration;
        assert!(
            matches!(codex, Registration::Unreadable { .. }),
            "{codex:?}"
        );
        home.write(".gemini/settings.json", "");
        assert_eq!(home.inspect("gemini").registration, Registration::None);
    }

    #[test]
    fn hooks_are_found_missed_and_known_to_be_off() {
        let home = Home::new();
        let file = home.0.path().join(".claude/settings.json");
        assert_eq!(
            home.inspect("claude").hooks,
            HookState::None { file: file.clone() }
        );
        let hooks = |command: &str| {
            format!(
                r#"{{"hooks": {{"Stop": [{{"hooks": [{{"type": "command", "command": "{command}"}}]}}]}}}}"#
            )
        };
        home.write(".claude/settings.json", &hooks("other hook claude"));
        assert_eq!(
            home.inspect("claude").hooks,
            HookState::None { file: file.clone() }
        );
        home.write(
            ".claude/settings.json",
            &hooks("'/opt/a b/fugue' hook claude"),
        );
        assert_eq!(home.inspect("claude").hooks, HookState::Here { file });
        let file = home.write(
            "project/.claude/settings.local.json",
            r#"{"disableAllHooks": true}"#,
        );
        let key = "disableAllHooks";
        assert_eq!(
            home.inspect("claude").hooks,
            HookState::SwitchedOff { file, key }
        );
        let file = home.write(
            ".gemini/settings.json",
            r#"{"hooksConfig": {"enabled": false}}"#,
        );
        let key = "hooksConfig.enabled";
        assert_eq!(
            home.inspect("gemini").hooks,
            HookState::SwitchedOff { file, key }
        );
    }

    #[test]
    fn the_version_is_that_of_the_package() {
        let home = Home::new();
        assert_eq!(home.inspect("codex").version, None);
        home.write("pkg/package.json", r#"{"name": "x", "version": "0.166.0"}"#);
        let program = home.write("pkg/bin/codex.js", "");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        fs::remove_file(home.0.path().join("bin/codex")).unwrap();
        std::os::unix::fs::symlink(&program, home.0.path().join("bin/codex")).unwrap();
        assert_eq!(home.inspect("codex").version.as_deref(), Some("0.166.0"));
        let program = home.write("share/versions/2.1.325", "");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        fs::remove_file(home.0.path().join("bin/claude")).unwrap();
        std::os::unix::fs::symlink(&program, home.0.path().join("bin/claude")).unwrap();
        assert_eq!(home.inspect("claude").version.as_deref(), Some("2.1.325"));
    }

    #[test]
    fn comments_go_and_texts_stay() {
        for (given, wanted) in [
            ("{\"a\": \"b // c\"} // d", "{\"a\": \"b // c\"} "),
            ("{\"a\\\"//\": 1}", "{\"a\\\"//\": 1}"),
            ("/* x\n*/{}", "\n{}"),
            ("{\"u\": \"http://h/*x*/\"}", "{\"u\": \"http://h/*x*/\"}"),
        ] {
            assert_eq!(without_comments(given), wanted);
        }
    }
}
