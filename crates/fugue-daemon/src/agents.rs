//! How an agent is started as a worker, what its hooks say, and what its screen shows.
//!
//! An agent runs interactively in a pane. It is told its prompt by argv or file, and gets fugue as an MCP server and
//! hooks that call `fugue hook`, through flags and files of its own: nothing here writes the user's settings or reads
//! them, but for one list of folders that Gemini CLI may trust, and nothing here starts a process. A prompt that begins with the name of one of the agent's own commands (`/review`)
//! is that command, as it would be if a person typed it.
//!
//! | agent | prompt | MCP server | hooks |
//! |---|---|---|---|
//! | claude | argv, behind `--` | `--mcp-config FILE` | `--settings FILE` |
//! | codex | argv, behind `--` | `-c mcp_servers.fugue…` | `-c hooks…` |
//! | gemini | argv, `--prompt-interactive=` | a settings file | the same file |
//! | shell | `<shell> -c` | – | – |
//! | a template of the user's | its placeholders | its placeholders | – |

mod claude;
mod codex;
mod files;
mod gemini;
pub mod hook;
pub mod screen;
pub mod session;
mod shell;
mod template;

use std::{collections::BTreeMap, ffi::OsStr, path::Path};

use fugue_api::Error;
pub use fugue_core::settings::AgentTemplate;

use crate::world::find;

/// An agent we know how to start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Agent {
    Vendor(Vendor),
    /// The prompt is a command for the caller's shell.
    Shell,
    /// What the user's `config.toml` says of it.
    Template {
        name: String,
        template: AgentTemplate,
    },
}

/// The agents whose hooks and screens we can read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vendor {
    Claude,
    Codex,
    Gemini,
}

impl Vendor {
    /// In the order in which a default is looked for.
    pub const ALL: [Self; 3] = [Self::Claude, Self::Codex, Self::Gemini];

    /// Its name, which is also its program's.
    pub fn name(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::Gemini => "gemini",
        }
    }

    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|vendor| vendor.name() == name)
    }
}

const SHELL: &str = "shell";

impl Agent {
    pub fn name(&self) -> &str {
        match self {
            Self::Vendor(vendor) => vendor.name(),
            Self::Shell => SHELL,
            Self::Template { name, .. } => name,
        }
    }

    /// Whose hooks and screens it has, if we can read them.
    pub fn vendor(&self) -> Option<Vendor> {
        match self {
            Self::Vendor(vendor) => Some(*vendor),
            Self::Shell | Self::Template { .. } => None,
        }
    }
}

/// The agent of this name. The user's own templates go before ours, so that `claude` can be their wrapper.
pub fn known(name: &str, templates: &BTreeMap<String, AgentTemplate>) -> Result<Agent, Error> {
    if let Some(template) = templates.get(name) {
        template::check(name, template)?;
        return Ok(Agent::Template {
            name: name.to_owned(),
            template: template.clone(),
        });
    }
    if name == SHELL {
        return Ok(Agent::Shell);
    }
    Vendor::named(name).map(Agent::Vendor).ok_or_else(|| {
        let ours = Vendor::ALL.map(Vendor::name).into_iter().chain([SHELL]);
        let all: Vec<&str> = ours.chain(templates.keys().map(String::as_str)).collect();
        Error::invalid(format!("agent: no agent `{name}`")).hint(format!(
            "choose one of {}, or define `[agents.{name}]` with a `command` in config.toml",
            all.join(", ")
        ))
    })
}

/// The first agent whose program is on this PATH.
pub fn first_installed(path: Option<&OsStr>, cwd: &Path) -> Option<Agent> {
    Vendor::ALL
        .into_iter()
        .find(|vendor| find(OsStr::new(vendor.name()), path, cwd).is_some())
        .map(Agent::Vendor)
}

/// What a worker is started with.
#[derive(Clone, Copy, Debug)]
pub struct WorkerAssignment<'a> {
    pub prompt: &'a str,
    pub model: Option<&'a str>,
    /// More arguments for the agent, in front of the prompt.
    pub args: &'a [String],
    /// A directory of this worker alone, which is there, for the agent's files.
    pub dir: &'a Path,
    pub cwd: &'a Path,
    /// Where the lead is, if `cwd` is the same place in a worktree of its repository.
    pub worktree_of: Option<&'a Path>,
    /// Our own program, by its absolute path.
    pub fugue: &'a Path,
    /// The variables that tell the worker who it is. Its MCP server gets them by name: some agents pass on little of
    /// their environment.
    pub identity: &'a BTreeMap<String, String>,
    /// What runs the prompt of the agent `shell`.
    pub shell: &'a Path,
}

/// How to start an agent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentLaunch {
    /// For `exec`, no shell between. The first is a name to be found on the caller's PATH, or a path.
    pub argv: Vec<String>,
    /// Set on top of the caller's environment, with the identity.
    pub env: BTreeMap<String, String>,
}

// The kernel takes 128 KiB in one argument; the rest is room for what an agent puts in front.
const LONGEST_PROMPT: usize = 100_000;

/// The tools of ours that an agent calls without asking a person: with these a worker talks to whoever spawned it, who may
/// be the only one to look at it, and they touch nothing but inboxes: a message of a worker's that is to be typed is
/// refused, except into the panes of workers that it spawned itself, for which it had to ask. All others it asks for as it
/// asks for any tool: a pane can run whatever the agent itself must ask for.
const FREE_TOOLS: [&str; 5] = [
    "answer_question",
    "ask_question",
    "notify_completion",
    "send_message",
    "wait_for_event",
];

/// Writes the agent's files and says how to run it.
pub fn lay_out(agent: &Agent, assignment: &WorkerAssignment<'_>) -> Result<AgentLaunch, Error> {
    check(assignment)?;
    let mut launch = match agent {
        Agent::Vendor(Vendor::Claude) => claude::lay_out(assignment),
        Agent::Vendor(Vendor::Codex) => codex::lay_out(assignment),
        Agent::Vendor(Vendor::Gemini) => gemini::lay_out(assignment),
        Agent::Shell => Ok(shell::lay_out(assignment)),
        Agent::Template { template, .. } => template::lay_out(template, assignment),
    }?;
    launch.env.extend(assignment.identity.clone());
    Ok(launch)
}

fn check(assignment: &WorkerAssignment<'_>) -> Result<(), Error> {
    let length = assignment.prompt.len();
    if length > LONGEST_PROMPT {
        return Err(Error::invalid(format!(
            "prompt: wanted at most {LONGEST_PROMPT} bytes, got {length}"
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
            assert_eq!(known(name, &templates).unwrap().name(), name);
        }
        let error = known("cloude", &templates).unwrap_err();
        assert!(error.message.contains("`cloude`"), "{error}");
        let hint = error.hint.unwrap();
        assert!(
            hint.contains("claude, codex, gemini, shell, aider"),
            "{hint}"
        );
    }

    #[test]
    fn the_first_agent_on_the_path_is_the_default() {
        let dir = tempfile::tempdir().unwrap();
        let path = Some(dir.path().as_os_str());
        assert_eq!(first_installed(path, Path::new("/")), None);
        for name in ["gemini", "codex"] {
            let file = dir.path().join(name);
            fs::write(&file, "").unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
            let found = first_installed(path, Path::new("/")).unwrap();
            assert_eq!(found.name(), name);
        }
    }

    #[test]
    fn the_prompt_is_one_word_behind_the_others() {
        let prompt = "--help $(it) 'now'\n";
        for vendor in Vendor::ALL {
            let args = ["--more".to_owned()];
            with(prompt, &args, |assignment| {
                let launch = lay_out(&Agent::Vendor(vendor), assignment).unwrap();
                let (last, before) = launch.argv.split_last().unwrap();
                assert!(last.ends_with(prompt), "{last}");
                assert!(before.contains(&"--more".to_owned()));
                assert!(before.contains(&"--model=m".to_owned()));
                assert_eq!(launch.env["FUGUE_AGENT_ID"], "w1");
                for entry in fs::read_dir(assignment.dir).unwrap() {
                    let mode = entry.unwrap().metadata().unwrap().permissions().mode();
                    assert_eq!(mode & 0o777, 0o600);
                }
            });
        }
        with("-x", &[], |assignment| {
            let launch = lay_out(&Agent::Shell, assignment).unwrap();
            assert_eq!(launch.argv, ["/bin/dash", "-c", " -x"]);
        });
    }

    #[test]
    fn a_prompt_that_no_program_can_be_handed_is_refused() {
        let check = |prompt: &str, says: &str| {
            with(prompt, &[], |assignment| {
                let error = lay_out(&Agent::Vendor(Vendor::Claude), assignment).unwrap_err();
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
