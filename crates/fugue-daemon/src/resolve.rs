//! Resolves what a call needs from the file system and from tmux before core gets the call: the working directory, shell and
//! environment of each new pane, a worker's agent, and tmux panes.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    time::Duration,
};

use fugue_api::{
    CallResources, Error, PaneResources, PlacementArguments, SessionName, ShellPurpose, ToolCall,
    pane_placement::{Backend, RunLayout},
    random_hex,
    wire::{CallerEnv, Request},
};
use fugue_core::{LaunchEnv, TmuxLookup, TmuxPane, assess::WatchSettings};

use crate::{
    agents,
    assess::Assessor,
    disk,
    engine::DaemonContext,
    pane::launch,
    shell,
    tmux::lookup::{self, PlacementRequest},
};

/// The results of resolving a call.
pub struct ResolvedCall {
    pub launch_envs: Result<Vec<LaunchEnv>, Error>,
    pub watch: Option<Box<WatchSettings>>,
    pub tmux: TmuxLookup,
}

/// Whether a call needs the launch environments of new panes, or a list of tmux panes.
pub fn needs_resolution(request: &Request, caller: &CallerEnv) -> bool {
    match resources(request) {
        CallResources::None => false,
        // The overview for a caller outside tmux does not wait for tmux.
        CallResources::TmuxPanes => {
            matches!(request, Request::TmuxPanes) || variable(caller, "TMUX").is_some()
        }
        CallResources::Panes { .. } | CallResources::Worker { .. } | CallResources::Watcher => true,
    }
}

fn resources(request: &Request) -> CallResources<'_> {
    match request {
        Request::Tool { call } => call.resources(),
        Request::TmuxPanes => CallResources::TmuxPanes,
        Request::Overview
        | Request::Follow { .. }
        | Request::RunProgress { .. }
        | Request::AckEvent { .. }
        | Request::Inbox { .. }
        | Request::Questions { .. }
        | Request::Hook { .. }
        | Request::Resize { .. }
        | Request::CollectGarbage { .. }
        | Request::Worktrees { .. }
        | Request::Attach { .. }
        | Request::DaemonStatus
        | Request::Settings
        | Request::ReloadSettings
        | Request::DaemonStop { .. } => CallResources::None,
    }
}

/// The tmux pane that a call names, if the name is a tmux target and no pane of fugue's.
pub fn tmux_target(
    ask: &Request,
    caller: &CallerEnv,
    known: impl Fn(&str) -> bool,
) -> Option<String> {
    let watcher = matches!(ask, Request::Tool { call } if call.defaults_to_own_pane());
    match ask.pane() {
        // A plain name is a tmux target only where the call takes a window.
        Some(name) if watcher || is_tmux_target(name) => (!known(name)).then(|| name.to_owned()),
        Some(_) => None,
        None if watcher && variable(caller, "FUGUE_PANE_ID").is_none() => {
            variable(caller, "TMUX_PANE")?.into_string().ok()
        }
        None => None,
    }
}

/// Whether a name has the form of a tmux target.
fn is_tmux_target(name: &str) -> bool {
    name.contains([':', '%', '@'])
}

/// Resolves everything that core needs for a call. A worker's agent is chosen here, because that needs a search for programs.
pub fn resolve_call(
    request: &mut Request,
    target: Option<&str>,
    caller: &CallerEnv,
    context: &DaemonContext,
) -> ResolvedCall {
    let tmux = match target {
        Some(target) => match lookup::find(target, caller) {
            // A plain name is more likely a pane of fugue's that does not exist.
            Err(_) if !is_tmux_target(target) => TmuxLookup::None,
            found => TmuxLookup::One(Box::new(found)),
        },
        None if matches!(resources(request), CallResources::TmuxPanes) => {
            TmuxLookup::All(lookup::list(caller))
        }
        None => TmuxLookup::None,
    };
    let mut resolved = ResolvedCall {
        launch_envs: Ok(Vec::new()),
        watch: None,
        tmux,
    };
    let Request::Tool { call } = request else {
        return resolved;
    };
    match call
        .check()
        .and_then(|()| resolve_resources(call, caller, context))
    {
        Ok((launch_envs, watch)) => {
            (resolved.launch_envs, resolved.watch) = (Ok(launch_envs), watch)
        }
        Err(error) => resolved.launch_envs = Err(error),
    }
    resolved
}

type LaunchResources = (Vec<LaunchEnv>, Option<Box<WatchSettings>>);

fn resolve_resources(
    call: &mut ToolCall,
    caller: &CallerEnv,
    context: &DaemonContext,
) -> Result<LaunchResources, Error> {
    let mut chosen_agent = None;
    let (mut launch_envs, placement) = match call.resources() {
        CallResources::None | CallResources::TmuxPanes => return Ok((Vec::new(), None)),
        CallResources::Watcher => {
            let cwd = directory("cwd", None, caller)?;
            let launch_env = command_env(cwd, caller, context)?;
            return Ok((vec![launch_env], Some(watch_settings(caller, context)?)));
        }
        CallResources::Panes {
            panes,
            shell,
            purpose,
            placement,
        } => {
            disk::check_floor(&context.paths.panes(), &context.settings())?;
            let launch_envs = launch_envs(&panes, shell, purpose, caller, context)?;
            (launch_envs, tmux_placement(placement, caller, context)?)
        }
        CallResources::Worker {
            agent,
            cwd,
            placement,
        } => {
            disk::check_floor(&context.paths.panes(), &context.settings())?;
            let cwd = directory("cwd", cwd, caller)?;
            chosen_agent = Some(choose_agent(agent, &cwd, caller, context)?);
            let launch_envs = vec![command_env(cwd, caller, context)?];
            (launch_envs, tmux_placement(placement, caller, context)?)
        }
    };
    for launch_env in &mut launch_envs {
        launch_env.tmux = placement.clone();
    }
    if let ToolCall::SpawnWorker(args) = call {
        args.agent = chosen_agent;
    }
    Ok((launch_envs, None))
}

/// The name of a worker's agent: the requested one, else the configured one, else the first that is installed.
fn choose_agent(
    requested: Option<&str>,
    cwd: &Path,
    caller: &CallerEnv,
    context: &DaemonContext,
) -> Result<String, Error> {
    let path = variable(caller, "PATH");
    let agent = match (requested, context.settings().default_agent.as_str()) {
        (Some(name), _) => agents::find_agent(name, &context.settings().agents)?,
        (None, "") => agents::first_installed(path.as_deref(), cwd)?,
        (None, configured) => agents::find_agent(configured, &context.settings().agents)?,
    };
    Ok(agent.name().to_owned())
}

/// Where tmux creates the panes of this call, if the backend is tmux: by argument, by setting, or because the caller runs in
/// tmux and requested a visible layout.
fn tmux_placement(
    arguments: PlacementArguments<'_>,
    caller: &CallerEnv,
    context: &DaemonContext,
) -> Result<Option<TmuxPane>, Error> {
    let PlacementArguments {
        backend,
        layout,
        session,
    } = arguments;
    let in_tmux = variable(caller, "TMUX_PANE").is_some();
    let seen = layout == Some(RunLayout::Tiled);
    let backend = backend.unwrap_or(match context.settings().backend {
        Backend::Native if seen && in_tmux => Backend::Tmux,
        configured => configured,
    });
    let wanted = match (backend, layout) {
        (Backend::Native, _) => None,
        (Backend::Tmux, None) => Some(match session {
            Some(session) => (PlacementRequest::Apart, session),
            None => (PlacementRequest::Near, SessionName::MAIN),
        }),
        (Backend::Tmux, Some(RunLayout::Hidden)) => {
            Some((PlacementRequest::Apart, SessionName::HIDDEN))
        }
        (Backend::Tmux, Some(RunLayout::Tiled)) => {
            Some((PlacementRequest::Beside, SessionName::MAIN))
        }
    };
    wanted
        .map(|(wish, session)| lookup::find_placement(caller, wish, session))
        .transpose()
}

fn launch_envs(
    panes: &[PaneResources<'_>],
    shell_name: Option<&str>,
    purpose: ShellPurpose,
    caller: &CallerEnv,
    context: &DaemonContext,
) -> Result<Vec<LaunchEnv>, Error> {
    let no_variables = BTreeMap::new();
    let mut launch_envs: Vec<LaunchEnv> = Vec::with_capacity(panes.len());
    for pane in panes {
        let cwd = directory(&pane.cwd_field, pane.cwd, caller)?;
        // The same directory has the same shell.
        let known = launch_envs.iter().find(|known| known.cwd == cwd).cloned();
        launch_envs.push(match known {
            Some(known) => known,
            None => {
                let shell = shell(shell_name, purpose, &cwd, caller, context)?;
                let env = pane.env.unwrap_or(&no_variables);
                launch_env(cwd, shell, purpose, env, caller, context)?
            }
        });
    }
    Ok(launch_envs)
}

/// The launch environment of commands without a `shell` argument.
fn command_env(
    cwd: PathBuf,
    caller: &CallerEnv,
    context: &DaemonContext,
) -> Result<LaunchEnv, Error> {
    let shell = shell(None, ShellPurpose::Command, &cwd, caller, context)?;
    let env = BTreeMap::new();
    launch_env(cwd, shell, ShellPurpose::Command, &env, caller, context)
}

/// The settings of a new watcher: the user's settings with the overrides of the caller's environment. Refuses settings whose
/// assessor cannot be used.
fn watch_settings(
    caller: &CallerEnv,
    context: &DaemonContext,
) -> Result<Box<WatchSettings>, Error> {
    let lookup = |name: &str| variable(caller, name).and_then(|value| value.into_string().ok());
    let settings = context
        .settings()
        .watch
        .clone()
        .overlaid(caller.setting_names, lookup)?;
    let limit = Duration::from_secs_f64(settings.assess_timeout_sec);
    for model in [&*settings.assess_model, settings.next_step_model()] {
        Assessor::new(model, caller, limit)?;
    }
    Ok(Box::new(settings))
}

fn shell(
    said: Option<&str>,
    purpose: ShellPurpose,
    cwd: &Path,
    caller: &CallerEnv,
    context: &DaemonContext,
) -> Result<PathBuf, Error> {
    let path = variable(caller, "PATH");
    let wanted = match (said, purpose) {
        (Some(shell), _) => vec![OsString::from(shell)],
        (None, ShellPurpose::Command | ShellPurpose::Steps) => {
            command_shells(&context.settings().shell)
        }
        (None, ShellPurpose::Interactive) => person_shells(caller),
    };
    wanted
        .iter()
        .find_map(|name| find_program(name, path.as_deref(), cwd))
        .ok_or_else(|| {
            let names: Vec<_> = wanted.iter().map(|name| name.to_string_lossy()).collect();
            Error::invalid(format!(
                "shell: no program `{}` on the caller's PATH",
                names.join("`, `")
            ))
            .hint("give an absolute path")
        })
}

fn launch_env(
    cwd: PathBuf,
    shell: PathBuf,
    purpose: ShellPurpose,
    env: &BTreeMap<String, String>,
    caller: &CallerEnv,
    context: &DaemonContext,
) -> Result<LaunchEnv, Error> {
    // The secret of the shell marks, which no program in the pane can know.
    let secret = match purpose {
        ShellPurpose::Command => String::new(),
        // Steps are marked in every shell.
        ShellPurpose::Steps => random_hex()?,
        ShellPurpose::Interactive => {
            let (secret, env) = (random_hex()?, launch::environment(caller, &[], env.clone()));
            let nowhere = Path::new("");
            let files = context.paths.shell_files();
            let launch = shell::interactive(&shell, &files, &secret, nowhere, &env);
            if launch.integrated {
                secret
            } else {
                String::new()
            }
        }
    };
    Ok(LaunchEnv {
        cwd,
        shell,
        secret,
        tmux: None,
    })
}

/// Shells for commands: models write bash, whatever the user's own shell is.
fn command_shells(configured: &str) -> Vec<OsString> {
    if configured.is_empty() {
        vec!["bash".into(), "/bin/sh".into()]
    } else {
        vec![configured.into()]
    }
}

fn person_shells(caller: &CallerEnv) -> Vec<OsString> {
    let own = variable(caller, "SHELL").filter(|shell| !shell.is_empty());
    own.into_iter()
        .chain(["bash".into(), "/bin/sh".into()])
        .collect()
}

/// The person's own shell.
pub fn person_shell(caller: &CallerEnv) -> Option<PathBuf> {
    let path = variable(caller, "PATH");
    let mut shells = person_shells(caller).into_iter();
    shells.find_map(|shell| find_program(&shell, path.as_deref(), Path::new("/")))
}

fn directory(field: &str, said: Option<&str>, caller: &CallerEnv) -> Result<PathBuf, Error> {
    let here = PathBuf::from(OsString::from(&caller.cwd));
    let dir = said.map_or_else(|| here.clone(), |said| here.join(said));
    match fs::metadata(&dir) {
        Ok(found) if found.is_dir() => Ok(dir),
        Ok(_) => Err(Error::invalid(format!(
            "{field}: `{}` is not a directory",
            dir.display()
        ))),
        Err(error) => Err(Error::invalid(format!(
            "{field}: `{}`: {}",
            dir.display(),
            describe_io_error(&error)
        ))
        .hint("give a directory that exists; nothing was started")),
    }
}

/// The system's error text without the error number.
fn describe_io_error(error: &std::io::Error) -> String {
    let said = error.to_string();
    said.split(" (os error")
        .next()
        .unwrap_or(&said)
        .to_lowercase()
}

/// Finds a program by name, as `execvp` with this PATH would.
pub fn find_program(name: &OsStr, path: Option<&OsStr>, cwd: &Path) -> Option<PathBuf> {
    let runs = |file: &Path| {
        fs::metadata(file)
            .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    };
    let named = Path::new(name);
    if named.components().count() > 1 || named.is_absolute() {
        let file = cwd.join(named);
        return runs(&file).then_some(file);
    }
    let path = path.unwrap_or(OsStr::new("/usr/local/bin:/usr/bin:/bin"));
    std::env::split_paths(path)
        .map(|dir| cwd.join(dir).join(named))
        .find(|file| runs(file))
}

pub fn variable(caller: &CallerEnv, name: &str) -> Option<OsString> {
    caller
        .env
        .iter()
        .find(|(key, _)| OsString::from(key) == name)
        .map(|(_, value)| value.into())
}
