//! Agents: how each is started as a worker, how hook payloads are translated, and how the screen is recognised.
//!
//! A new agent is a file that implements [`AgentDriver`], a `mod` line, a line in [`AGENTS`] and recorded screens; the recipe
//! in `CONTRIBUTING.md` names the places in other crates.
//!
//! An agent runs interactively in a pane. The prompt is passed as an argument or a file. fugue is added as an MCP server, and
//! hooks run `fugue hook`, through flags and files of this worker: no code here writes the user's settings, or reads them,
//! except for Gemini CLI's settings and its list of trusted folders, and no code here starts a process. A prompt that begins with the name of
//! one of the agent's own commands (`/review`) runs that command, as if a person had typed it.
//!
//! | agent | prompt | MCP server | hooks |
//! |---|---|---|---|
//! | claude | argv, after `--` | `--mcp-config FILE` | `--settings FILE` |
//! | codex | argv, after `--` | `-c mcp_servers.fugue…` | `-c hooks…` |
//! | gemini | argv, `--prompt-interactive=` | a copy of the user's settings | the same file |
//! | qwen | argv, `--prompt-interactive=` | a settings file | the same file |
//! | shell | `<shell> -c` | – | – |
//! | a template of the user | placeholders | placeholders | – |

mod claude;
mod codex;
pub(crate) mod files;
mod gemini;
pub mod hook;
mod qwen;
pub mod screen;
pub mod session;
mod shell;
mod template;

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    fmt::{self, Debug},
    os::unix::ffi::OsStrExt,
    path::Path,
};

use fugue_api::Error;
pub use fugue_core::settings::AgentTemplate;

use self::{
    hook::HookReader, screen::ScreenPatterns, session::SessionVariables, template::TemplateAgent,
};
use crate::resolve::find_program;

/// One kind of agent. The defaults describe a program without hooks and without a recognised screen.
pub trait AgentDriver: Sync {
    /// The name that `spawn_worker` and `config.toml` use.
    fn name(&self) -> &str;

    /// The program that has to be on the caller's PATH. `None` excludes the agent from the search for a default agent.
    fn program(&self) -> Option<&str> {
        None
    }

    /// Writes the agent's files into the worker's directory and returns the command line.
    fn prepare_launch(&self, assignment: &WorkerAssignment<'_>) -> Result<AgentLaunch, Error>;

    /// Translates the payloads of the agent's hooks. `None` for an agent without hooks.
    fn hook_reader(&self) -> Option<HookReader> {
        None
    }

    /// How the agent's input box and work are recognised on the screen.
    fn screen(&self) -> Option<&'static ScreenPatterns> {
        None
    }

    /// Names (`comm`) that the kernel shows for the agent's process.
    fn process_names(&self) -> &'static [&'static str] {
        &[]
    }

    /// A variable that the agent sets for MCP servers, if it also passes its whole environment on to them. `None` for an
    /// agent that passes on a selection.
    fn whole_environment_mark(&self) -> Option<&'static str> {
        None
    }

    /// Environment variables that belong to a session of the agent and that panes and workers do not inherit.
    fn session_variables(&self) -> SessionVariables {
        SessionVariables::default()
    }
}

impl Debug for dyn AgentDriver + '_ {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl PartialEq for dyn AgentDriver + '_ {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

/// All built-in agents, in the order in which a default agent is searched.
pub static AGENTS: &[&dyn AgentDriver] = &[
    &claude::Claude,
    &codex::Codex,
    &gemini::Gemini,
    &qwen::Qwen,
    &shell::Shell,
];

/// An agent that a worker can be started with.
#[derive(Debug)]
pub enum Agent {
    BuiltIn(&'static dyn AgentDriver),
    /// Defined by `[agents.NAME]` in the user's `config.toml`.
    Template(TemplateAgent),
}

impl Agent {
    pub fn driver(&self) -> &dyn AgentDriver {
        match self {
            Self::BuiltIn(driver) => *driver,
            Self::Template(template) => template,
        }
    }

    pub fn name(&self) -> &str {
        self.driver().name()
    }
}

/// The built-in agent of this name.
pub fn built_in(name: &str) -> Option<&'static dyn AgentDriver> {
    AGENTS.iter().copied().find(|agent| agent.name() == name)
}

/// How the screen of the agent of this name is recognised. `None` for other programs.
pub fn screen_patterns(name: &str) -> Option<&'static ScreenPatterns> {
    built_in(name).and_then(AgentDriver::screen)
}

/// Whether a process of this name (`comm`) can be a built-in agent.
pub fn is_agent_process(comm: &str) -> bool {
    AGENTS
        .iter()
        .any(|agent| agent.process_names().contains(&comm))
}

/// The built-in agent that a foreground process is, by its name in the kernel (`comm`) and, because several agents are scripts
/// of the same interpreter, by its command line.
pub fn agent_of_process(comm: &str, pid: i32) -> Option<&'static str> {
    let has_name = |agent: &&&dyn AgentDriver| agent.process_names().contains(&comm);
    let named: Vec<_> = AGENTS.iter().filter(has_name).collect();
    if named.is_empty() {
        return None;
    }
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    agent_of_command_line(&named, &line).map(|agent| agent.name())
}

// The interpreter, its options and the script.
const MAX_COMMAND_WORDS: usize = 4;

/// The agent whose program is among the first words of a command line, which NUL bytes separate.
fn agent_of_command_line<'a>(
    agents: &[&'a &'static dyn AgentDriver],
    line: &[u8],
) -> Option<&'a &'static dyn AgentDriver> {
    let words = line.split(|byte| *byte == 0).take(MAX_COMMAND_WORDS);
    words.into_iter().find_map(|word| {
        let name = Path::new(OsStr::from_bytes(word)).file_stem()?.to_str()?;
        let mut agents = agents.iter();
        agents.find(|agent| agent.program() == Some(name)).copied()
    })
}

/// The agent of this name. Templates of the user come first, so that `claude` can be a wrapper of the user.
pub fn find_agent(name: &str, templates: &BTreeMap<String, AgentTemplate>) -> Result<Agent, Error> {
    if let Some(template) = templates.get(name) {
        return TemplateAgent::new(name, template).map(Agent::Template);
    }
    built_in(name).map(Agent::BuiltIn).ok_or_else(|| {
        let names = AGENTS.iter().map(|agent| agent.name());
        let all: Vec<&str> = names.chain(templates.keys().map(String::as_str)).collect();
        Error::invalid(format!("agent: no agent `{name}`")).hint(format!(
            "choose one of {}, or define `[agents.{name}]` with a `command` in config.toml",
            all.join(", ")
        ))
    })
}

/// The first built-in agent whose program is on this PATH.
pub fn first_installed(path: Option<&OsStr>, cwd: &Path) -> Result<Agent, Error> {
    let is_installed = |program: &str| find_program(OsStr::new(program), path, cwd).is_some();
    let installed = AGENTS
        .iter()
        .find(|agent| agent.program().is_some_and(is_installed));
    installed.copied().map(Agent::BuiltIn).ok_or_else(|| {
        let programs: Vec<&str> = AGENTS.iter().filter_map(|agent| agent.program()).collect();
        Error::invalid(format!(
            "agent: none of {} is on the caller's PATH",
            programs.join(", ")
        ))
        .hint("install one, or name an agent; `shell` runs a command")
    })
}

/// What a worker is started with.
#[derive(Clone, Copy, Debug)]
pub struct WorkerAssignment<'a> {
    pub prompt: &'a str,
    pub model: Option<&'a str>,
    /// More arguments for the agent, in front of the prompt.
    pub args: &'a [String],
    /// An existing directory of this worker alone, for the agent's files.
    pub dir: &'a Path,
    pub cwd: &'a Path,
    /// The lead's directory, if `cwd` is the same directory in a worktree of the lead's repository.
    pub worktree_of: Option<&'a Path>,
    /// The absolute path of the fugue binary.
    pub fugue: &'a Path,
    /// The variables that identify the worker. The MCP server gets these by name, because some agents pass on little of
    /// their environment.
    pub identity: &'a BTreeMap<String, String>,
    /// The variables that the worker's process inherits or is given by the call.
    pub env: &'a BTreeMap<String, String>,
    /// The shell that runs the prompt of the agent `shell`.
    pub shell: &'a Path,
}

/// How to start an agent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentLaunch {
    /// Arguments of `exec`, without a shell. The first is a path, or a name that is searched on the caller's PATH.
    pub argv: Vec<String>,
    /// Added to the caller's environment, together with the worker's identity.
    pub env: BTreeMap<String, String>,
}

// The kernel's limit for an argument is 128 KiB; the rest is for text that an agent puts before the prompt.
const MAX_PROMPT_BYTES: usize = 100_000;

/// The fugue tools that an agent may call without a permission dialog. A worker needs these to reach the lead, and often no
/// person looks at the worker's pane. These tools change inboxes only: a worker's message with `type` is refused, except for
/// panes of workers that the same worker spawned, and spawning needed a permission. Every other tool needs the same permission as
/// the agent's own tools, because a pane can run any command for which the agent itself needs permission.
const FREE_TOOLS: [&str; 5] = [
    "answer_question",
    "ask_question",
    "notify_completion",
    "send_message",
    "wait_for_event",
];

/// Writes the agent's files and returns the command line and environment.
pub fn prepare_launch(
    agent: &Agent,
    assignment: &WorkerAssignment<'_>,
) -> Result<AgentLaunch, Error> {
    check(assignment)?;
    let mut launch = agent.driver().prepare_launch(assignment)?;
    launch.env.extend(assignment.identity.clone());
    Ok(launch)
}

fn check(assignment: &WorkerAssignment<'_>) -> Result<(), Error> {
    let length = assignment.prompt.len();
    if length > MAX_PROMPT_BYTES {
        return Err(Error::invalid(format!(
            "prompt: wanted at most {MAX_PROMPT_BYTES} bytes, got {length}"
        ))
        .hint("put the long part into a file and name the file in the prompt"));
    }
    if assignment.prompt.trim().is_empty() {
        return Err(Error::invalid("prompt: wanted a task, got nothing"));
    }
    let words = [assignment.prompt, assignment.model.unwrap_or_default()];
    let words = words
        .into_iter()
        .chain(assignment.args.iter().map(String::as_str));
    if words.into_iter().any(|word| word.contains('\0')) {
        return Err(Error::invalid(
            "prompt, model, args: a NUL byte cannot be handed to a program",
        )
        .hint("leave it out"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt};

    use super::*;

    fn with<T>(prompt: &str, args: &[String], then: impl FnOnce(&WorkerAssignment<'_>) -> T) -> T {
        let dir = tempfile::tempdir().unwrap();
        let identity = BTreeMap::from([("FUGUE_AGENT_ID".to_owned(), "w1".to_owned())]);
        then(&WorkerAssignment {
            prompt,
            model: Some("m"),
            args,
            dir: dir.path(),
            cwd: Path::new("/"),
            worktree_of: None,
            fugue: Path::new("/opt/it's/fugue"),
            identity: &identity,
            env: &BTreeMap::new(),
            shell: Path::new("/bin/dash"),
        })
    }

    #[test]
    fn an_unknown_agent_is_refused_with_all_the_choices() {
        let template = AgentTemplate {
            command: vec!["aider".to_owned()],
            env: BTreeMap::new(),
        };
        let templates = BTreeMap::from([("aider".to_owned(), template)]);
        for name in ["claude", "codex", "gemini", "shell", "aider"] {
            assert_eq!(find_agent(name, &templates).unwrap().name(), name);
        }
        let error = find_agent("cloude", &templates).unwrap_err();
        assert!(error.message.contains("`cloude`"), "{error}");
        let hint = error.hint.unwrap();
        assert!(
            hint.contains("claude, codex, gemini, qwen, shell, aider"),
            "{hint}"
        );
    }

    #[test]
    fn an_agent_that_a_person_started_is_known_by_its_command_line() {
        let named = |comm: &str| -> Vec<_> {
            let has_name = |agent: &&&dyn AgentDriver| agent.process_names().contains(&comm);
            AGENTS.iter().filter(has_name).collect()
        };
        for (comm, line, expected) in [
            ("claude", "claude\0--resume\0", Some("claude")),
            ("node", "node\0/opt/bin/codex\0-m\0x\0", Some("codex")),
            (
                "MainThread",
                "node\0--no-warnings\0/x/gemini.js\0",
                Some("gemini"),
            ),
            ("MainThread", "/usr/bin/node\0/x/.bin/qwen\0", Some("qwen")),
            ("node", "node\0server.js\0--with\0a\0gemini\0", None),
            ("vim", "vim\0gemini\0", None),
        ] {
            let found = agent_of_command_line(&named(comm), line.as_bytes());
            assert_eq!(found.map(|agent| agent.name()), expected, "{line:?}");
        }
    }

    #[test]
    fn the_first_agent_on_the_path_is_the_default() {
        let dir = tempfile::tempdir().unwrap();
        let path = Some(dir.path().as_os_str());
        let error = first_installed(path, Path::new("/")).unwrap_err();
        assert!(
            error
                .message
                .contains("none of claude, codex, gemini, qwen is"),
            "{error}"
        );
        for name in ["gemini", "codex"] {
            let file = dir.path().join(name);
            fs::write(&file, "").unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
            let found = first_installed(path, Path::new("/")).unwrap();
            assert_eq!(found.name(), name);
        }
    }

    #[test]
    fn the_prompt_is_the_last_argument() {
        let prompt = "--help $(it) 'now'\n";
        for agent in AGENTS.iter().filter(|agent| agent.program().is_some()) {
            let args = ["--more".to_owned()];
            with(prompt, &args, |assignment| {
                let launch = prepare_launch(&Agent::BuiltIn(*agent), assignment).unwrap();
                let (last, before) = launch.argv.split_last().unwrap();
                assert!(last.ends_with(prompt), "{last}");
                assert!(before.contains(&"--more".to_owned()));
                assert!(before.contains(&"--model=m".to_owned()));
                assert_eq!(launch.env["FUGUE_AGENT_ID"], "w1");
                for entry in fs::read_dir(assignment.dir).unwrap() {
                    let mode = entry.unwrap().metadata().unwrap().permissions().mode();
                    assert_eq!(mode & 0o077, 0);
                }
            });
        }
        with("-x", &[], |assignment| {
            let launch = prepare_launch(&Agent::BuiltIn(&shell::Shell), assignment).unwrap();
            assert_eq!(launch.argv, ["/bin/dash", "-c", " -x"]);
        });
    }

    #[test]
    fn a_prompt_that_no_program_can_be_handed_is_refused() {
        let check = |prompt: &str, says: &str| {
            with(prompt, &[], |assignment| {
                let error =
                    prepare_launch(&Agent::BuiltIn(&claude::Claude), assignment).unwrap_err();
                assert!(error.message.contains(says), "{error}");
                assert_eq!(fs::read_dir(assignment.dir).unwrap().count(), 0);
            });
        };
        check(
            &"é".repeat(50_001),
            "wanted at most 100000 bytes, got 100002",
        );
        check("a\0b", "NUL");
        check(" \n", "prompt");
    }
}
