//! The files and the worktree of a worker, and the changes and output that its completion reports.

mod baseline;
mod git;
mod messages;
pub mod worktrees;

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    fs, io,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use fugue_api::{Error, ErrorKind, wire::CallerEnv};
use fugue_core::{
    CompletionDetails, LongMessage, PaneRecord, WorkerLaunch, WorkerRecord, WorkerRepo, view,
};

use crate::{
    agents::{self, WorkerAssignment},
    archive,
    engine::DaemonContext,
    pane::launch,
    resolve,
    shell_environment::ShellVariables,
};
use baseline::{Baseline, FileOrigin};
use git::{Git, printable};
use tokio::runtime::Handle;

// The completion event waits for the list of changes; for a huge or broken repository it is sent without the list.
const CHANGES_TIMEOUT: Duration = Duration::from_secs(5);
const WORKTREE_TIMEOUT: Duration = Duration::from_secs(120);
// Leaves room for a long last message in the reply.
const MAX_CHANGE_CHARS: usize = 1_500;
// The limit of a worker's output in a completion.
const MAX_TAIL_CHARS: usize = 4_000;

/// Creates a worker's files and its worktree. Parts that an earlier daemon created are used as they are. After an error all
/// of it is removed.
pub fn prepare(
    worker: &WorkerRecord,
    caller: &CallerEnv,
    context: &DaemonContext,
) -> Result<WorkerLaunch, Error> {
    let made = prepare_launch(worker, caller, context);
    if made.is_err() {
        undo_prepare(worker, context);
    }
    made
}

fn prepare_launch(
    worker: &WorkerRecord,
    caller: &CallerEnv,
    context: &DaemonContext,
) -> Result<WorkerLaunch, Error> {
    let inherited = WorkerEnvironment::of(worker, caller, context);
    let here = &worker.launch_env.cwd;
    let deadline = Instant::now() + WORKTREE_TIMEOUT;
    let scratch = context.paths.git();
    let repo = Git::at(here, &scratch, deadline).repository();
    let place = WorkerPlace::of(worker, repo.as_ref(), context)?;
    let dir = worker_dir(worker, context);
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&dir)
        .map_err(|error| files_error(&dir, &error))?;
    let fugue = std::env::current_exe().map_err(|error| files_error(&dir, &error))?;
    let identity = identity(worker, caller, context);
    let agent = agents::find_agent(&worker.agent, &context.settings().agents)?;
    let launch = agents::prepare_launch(
        &agent,
        &WorkerAssignment {
            prompt: &worker.args.prompt,
            model: worker.args.model.as_deref(),
            args: &worker.args.args,
            dir: &dir,
            cwd: &place.cwd,
            worktree_of: place.worktree.as_ref().map(|_| here.as_path()),
            fugue: &fugue,
            identity: &identity,
            env: &inherited.variables,
            shell: &worker.launch_env.shell,
        },
    )?;
    let mut argv = launch.argv;
    if let Some(program) = argv.first_mut() {
        *program = find_agent_program(program, worker, inherited.path.as_deref())?;
    }
    let (branch, repo) = match (&place.worktree, repo) {
        (Some(tree), Some(repo)) => {
            let branch =
                Git::at(&repo.root, &scratch, deadline).add_worktree(tree, worker, &repo.commit)?;
            worktrees::note(worker, tree, &branch, &repo)?;
            let root = tree.clone();
            (Some(branch), Some(WorkerRepo { root, ..repo }))
        }
        (_, repo) => {
            if let Some(repo) = &repo {
                let deadline = Instant::now() + CHANGES_TIMEOUT;
                let git = Git::at(&repo.root, &scratch, deadline);
                Baseline::of(&git, &repo.root, &repo.commit).write(&dir)?;
            }
            (None, repo)
        }
    };
    let cwd = if place.cwd.is_dir() {
        place.cwd
    } else {
        place.worktree.unwrap_or_else(|| here.clone())
    };
    let mut env = launch.env;
    for (name, value) in &worker.args.env {
        // A file of this worker was made from the value of the call.
        if !env
            .get(name)
            .is_some_and(|own| Path::new(own).starts_with(&dir))
        {
            env.insert(name.clone(), value.clone());
        }
    }
    Ok(WorkerLaunch {
        argv,
        env,
        cwd,
        branch,
        hooks: agent.driver().hook_reader().is_some(),
        repo,
        note: inherited.note,
    })
}

/// What a worker inherits from its lead, from the person's shell and from the call.
struct WorkerEnvironment {
    variables: BTreeMap<String, String>,
    path: Option<OsString>,
    /// What is missing.
    note: Option<String>,
}

impl WorkerEnvironment {
    fn of(worker: &WorkerRecord, caller: &CallerEnv, context: &DaemonContext) -> Self {
        let opener = worker.opened_by.as_ref();
        let shell_env = launch::shell_variables(opener, caller, context);
        let (shell_env, note) = match Handle::current().block_on(shell_env) {
            Ok(variables) => (variables, None),
            Err(why) => (ShellVariables::default(), Some(missing_environment(&why))),
        };
        let env = launch::environment(caller, &shell_env, worker.args.env.clone());
        let path = env.iter().find(|(name, _)| name == "PATH");
        let path = path.map(|(_, path)| path.clone());
        let text = |(name, value): (OsString, OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        Self {
            variables: env.into_iter().filter_map(text).collect(),
            path,
            note,
        }
    }
}

fn find_agent_program(
    program: &str,
    worker: &WorkerRecord,
    path: Option<&OsStr>,
) -> Result<String, Error> {
    let found = resolve::find_program(OsStr::new(program), path, &worker.launch_env.cwd);
    let found = found.ok_or_else(|| {
        Error::invalid(format!(
            "agent: no program `{program}` on the worker's PATH for `{}`",
            worker.agent
        ))
        .hint("install it, or choose another agent")
    })?;
    Ok(found.to_string_lossy().into_owned())
}

fn missing_environment(why: &str) -> String {
    format!(
        "{why}; the worker has the variables that its lead passes on and those of `env`, and no others of the person"
    )
}

/// The working directory of a worker.
struct WorkerPlace {
    cwd: PathBuf,
    worktree: Option<PathBuf>,
}

impl WorkerPlace {
    fn of(
        worker: &WorkerRecord,
        repo: Option<&WorkerRepo>,
        context: &DaemonContext,
    ) -> Result<Self, Error> {
        let here = worker.launch_env.cwd.clone();
        if !worker.args.worktree {
            return Ok(Self {
                cwd: here,
                worktree: None,
            });
        }
        let Some(repo) = repo.filter(|repo| !repo.commit.is_empty()) else {
            return Err(Error::invalid(format!(
                "worktree: `{}` is not in a git repository with a commit",
                here.display()
            ))
            .hint("leave `worktree` out, or commit first"));
        };
        let project = repo.root.file_name().unwrap_or(OsStr::new("tree"));
        let tree = context.paths.worktrees().join(format!(
            "{}-{}-{}",
            project.to_string_lossy(),
            worker.args.name,
            worker.number
        ));
        let inside = here.strip_prefix(&repo.root).unwrap_or(Path::new(""));
        let cwd = if inside.as_os_str().is_empty() {
            tree.clone()
        } else {
            tree.join(inside)
        };
        Ok(Self {
            cwd,
            worktree: Some(tree),
        })
    }
}

/// Removes the files and the worktree of a worker that could not be started.
pub fn undo_prepare(worker: &WorkerRecord, context: &DaemonContext) {
    let deadline = Instant::now() + WORKTREE_TIMEOUT;
    let scratch = context.paths.git();
    if worker.args.worktree
        && let Some(repo) = Git::at(&worker.launch_env.cwd, &scratch, deadline).repository()
        && let Ok(WorkerPlace {
            worktree: Some(tree),
            ..
        }) = WorkerPlace::of(worker, Some(&repo), context)
        && tree.exists()
    {
        Git::at(&repo.root, &scratch, deadline).discard_new_worktree(&tree);
        worktrees::forget_note(&tree);
    }
    forget(worker, context);
}

/// Removes a worker's private files. The worktree stays, because it holds the worker's changes.
pub fn forget(worker: &WorkerRecord, context: &DaemonContext) {
    let dir = worker_dir(worker, context);
    match fs::remove_dir_all(&dir) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            tracing::warn!(dir = %dir.display(), %error, "worker files not removed");
        }
        Ok(()) | Err(_) => {}
    }
}

fn worker_dir(worker: &WorkerRecord, context: &DaemonContext) -> PathBuf {
    dir_of(worker.number, context)
}

fn dir_of(worker: u64, context: &DaemonContext) -> PathBuf {
    context.paths.workers().join(worker.to_string())
}

/// The variables that identify a worker and its daemon. Some agents pass on little of their environment, so these are all
/// variables that fugue's client reads.
fn identity(
    worker: &WorkerRecord,
    caller: &CallerEnv,
    context: &DaemonContext,
) -> BTreeMap<String, String> {
    let socket = context.paths.socket().to_string_lossy().into_owned();
    let mut identity: BTreeMap<String, String> = [
        ("FUGUE_SESSION_ID", worker.lead.0.clone()),
        ("EXOMONAD_SESSION_ID", worker.lead.0.clone()),
        ("FUGUE_AGENT_ID", worker.id.clone()),
        ("EXOMONAD_AGENT_ID", worker.id.clone()),
        ("FUGUE_PANE_ID", worker.pane.to_string()),
        ("FUGUE_SOCKET", socket),
    ]
    .map(|(key, value)| (key.to_owned(), value))
    .into();
    for key in ["HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME"] {
        let value = resolve::variable(caller, key).and_then(|value| value.into_string().ok());
        identity.extend(value.map(|value| (key.to_owned(), value)));
    }
    identity
}

/// Collects the changes and the end of the output for a completion event.
pub fn collect_changes(
    worker: u64,
    repo: Option<&WorkerRepo>,
    message: Option<&LongMessage>,
    tail: Option<&PaneRecord>,
    context: &DaemonContext,
) -> CompletionDetails {
    let mut found = CompletionDetails::default();
    let dir = dir_of(worker, context);
    let mut notes = Vec::new();
    if let Some(repo) = repo {
        let (scratch, deadline) = (context.paths.git(), Instant::now() + CHANGES_TIMEOUT);
        let git = Git::at(&repo.root, &scratch, deadline);
        if repo.root.starts_with(context.paths.worktrees()) {
            found.branch = git.branch();
        }
        let before = Baseline::read(&dir);
        match own_changes(&git, repo, &before) {
            Ok(changes) => {
                limit_changes(&mut found, changes);
                notes.extend(before.note());
            }
            Err(why) => notes.push(format!("changes: {why}")),
        }
    }
    if let Some(message) = message {
        match messages::keep(&dir, message) {
            Ok(file) => found.message_file = Some(file),
            Err(error) => notes.push(format!("the whole message could not be kept: {error}")),
        }
    }
    if let Some(pane) = tail {
        match archive::tail(pane, MAX_TAIL_CHARS, context) {
            Ok(text) => {
                let is_drawn = pane.agent.as_deref().and_then(agents::screen_patterns);
                let text = match is_drawn {
                    Some(_) => without_frames(&text),
                    None => text,
                };
                (found.tail, found.omitted_chars) =
                    view::shortened(text.trim_end(), MAX_TAIL_CHARS);
            }
            Err(error) => notes.push(error.message),
        }
    }
    found.note = (!notes.is_empty()).then(|| notes.join("; "));
    found
}

/// One line for each file that changed since a worker was spawned.
fn own_changes(git: &Git<'_>, repo: &WorkerRepo, before: &Baseline) -> Result<Vec<String>, String> {
    let comparison = before.compare(&repo.root);
    let mut changes = git.changes(&repo.commit, &comparison.unchanged)?;
    for change in &mut changes {
        let file = change.split(" | ").next().unwrap_or_default().trim_end();
        if comparison.changed.contains_key(file) {
            change.push_str(", changed before too");
        }
    }
    if !comparison.changed.is_empty() {
        let now = git.changed_files(&repo.commit)?;
        for (file, origin) in &comparison.changed {
            if !now.tracked.contains(file) && !now.untracked.contains(file) {
                let what = match origin {
                    FileOrigin::Tracked => "as committed again, was changed before",
                    FileOrigin::Untracked => "removed, was untracked before",
                };
                changes.push(format!("{} | {what}", printable(file)));
            }
        }
    }
    Ok(changes)
}

/// The words on an agent's screen, without the boxes and lines around them.
fn without_frames(screen: &str) -> String {
    let is_frame = |c: char| ('\u{2500}'..='\u{259f}').contains(&c);
    let lines = screen
        .lines()
        .map(|line| line.trim_matches(|c: char| is_frame(c) || c == ' '));
    let lines: Vec<&str> = lines.filter(|line| !line.is_empty()).collect();
    lines.join("\n")
}

fn limit_changes(found: &mut CompletionDetails, changes: Vec<String>) {
    let mut room = MAX_CHANGE_CHARS;
    for change in changes {
        let chars = change.chars().count() + 3;
        if chars > room {
            found.omitted_changes += 1;
        } else {
            room -= chars;
            found.changes.push(change);
        }
    }
}

fn files_error(path: &Path, error: &io::Error) -> Error {
    Error::new(
        ErrorKind::Exhausted,
        format!(
            "the worker's files cannot be created: {}: {error}",
            path.display()
        ),
    )
    .hint("nothing was started; is the disk full, or read-only?")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_words_of_an_agent_have_no_boxes() {
        let screen = "╭──────────╮\n│ > fix it │\n╰──────────╯\n\n▄▄▄▄▄▄\n  tables: a │ b\n ✕ [API Error: quota]  \n──────\n";
        assert_eq!(
            without_frames(screen),
            "> fix it\ntables: a │ b\n✕ [API Error: quota]"
        );
    }
}
