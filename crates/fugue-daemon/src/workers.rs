//! The files and the worktree of a worker, and the changes and output that its completion reports.

mod git;

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    fs, io,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use fugue_api::{Error, ErrorKind, wire::CallerEnv};
use fugue_core::{CompletionDetails, PaneRecord, WorkerLaunch, WorkerRecord, WorkerRepo, view};

use crate::{
    agents::{self, WorkerAssignment},
    archive,
    engine::DaemonContext,
    resolve,
};
use git::Git;

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
    let path = resolve::variable(caller, "PATH");
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
    let agent = agents::find_agent(&worker.agent, &context.settings.agents)?;
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
            shell: &worker.launch_env.shell,
        },
    )?;
    let mut argv = launch.argv;
    if let Some(program) = argv.first_mut() {
        let found = resolve::find_program(OsStr::new(program), path.as_deref(), here);
        let found = found.ok_or_else(|| {
            Error::invalid(format!(
                "agent: no program `{program}` on the caller's PATH for `{}`",
                worker.agent
            ))
            .hint("install it, or choose another agent")
        })?;
        *program = found.to_string_lossy().into_owned();
    }
    let (branch, repo) = match (&place.worktree, repo) {
        (Some(tree), Some(repo)) => {
            let branch =
                Git::at(&repo.root, &scratch, deadline).add_worktree(tree, worker, &repo.commit)?;
            let commit = repo.commit;
            (
                Some(branch),
                Some(WorkerRepo {
                    root: tree.clone(),
                    commit,
                }),
            )
        }
        (_, repo) => (None, repo),
    };
    let cwd = if place.cwd.is_dir() {
        place.cwd
    } else {
        place.worktree.unwrap_or_else(|| here.clone())
    };
    let mut env = launch.env;
    env.extend(worker.args.env.clone());
    Ok(WorkerLaunch {
        argv,
        env,
        cwd,
        branch,
        hooks: agent.driver().hook_reader().is_some(),
        repo,
    })
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
        Git::at(&repo.root, &scratch, deadline).remove_worktree(&tree);
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
    context.paths.workers().join(worker.number.to_string())
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
    repo: Option<&WorkerRepo>,
    tail: Option<&PaneRecord>,
    context: &DaemonContext,
) -> CompletionDetails {
    let mut found = CompletionDetails::default();
    if let Some(repo) = repo {
        let (scratch, deadline) = (context.paths.git(), Instant::now() + CHANGES_TIMEOUT);
        match Git::at(&repo.root, &scratch, deadline).changes(&repo.commit) {
            Ok(changes) => limit_changes(&mut found, changes),
            Err(why) => found.note = Some(format!("changes: {why}")),
        }
    }
    if let Some(pane) = tail {
        match archive::tail(pane, MAX_TAIL_CHARS, context) {
            Ok(text) => {
                let text = agents::screen::without_frames(&text);
                (found.tail, found.omitted_chars) =
                    view::shortened(text.trim_end(), MAX_TAIL_CHARS);
            }
            Err(error) => {
                let why = error.message;
                found.note = Some(match found.note {
                    Some(before) => format!("{before}; {why}"),
                    None => why,
                });
            }
        }
    }
    found
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
