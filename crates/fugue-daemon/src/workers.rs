//! What a worker needs before it starts, and what is found out when it reports: its files, its worktree, its changes.

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

// A lead waits for what its worker changed; on a huge or broken repository it hears without that.
const CHANGES_TIMEOUT: Duration = Duration::from_secs(5);
const WORKTREE_TIMEOUT: Duration = Duration::from_secs(120);
// With a long last message, a reply still fits.
const MAX_CHANGE_CHARS: usize = 1_500;
// The end of a worker's output, before it is cut for its lead.
const MAX_TAIL_CHARS: usize = 4_000;

/// Makes a worker's files and its worktree. What an earlier daemon made of it is taken as it is. After an error
/// nothing of it is left.
pub fn prepare(
    worker: &WorkerRecord,
    caller: &CallerEnv,
    house: &DaemonContext,
) -> Result<WorkerLaunch, Error> {
    let made = prepare_launch(worker, caller, house);
    if made.is_err() {
        undo_prepare(worker, house);
    }
    made
}

fn prepare_launch(
    worker: &WorkerRecord,
    caller: &CallerEnv,
    house: &DaemonContext,
) -> Result<WorkerLaunch, Error> {
    let path = resolve::variable(caller, "PATH");
    let here = &worker.world.cwd;
    let deadline = Instant::now() + WORKTREE_TIMEOUT;
    let scratch = house.paths.git();
    let repo = Git::at(here, &scratch, deadline).repository();
    let place = WorkerPlace::of(worker, repo.as_ref(), house)?;
    let dir = worker_dir(worker, house);
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&dir)
        .map_err(|error| files_error(&dir, &error))?;
    let fugue = std::env::current_exe().map_err(|error| files_error(&dir, &error))?;
    let identity = identity(worker, caller, house);
    let agent = agents::find_agent(&worker.agent, &house.settings.agents)?;
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
            shell: &worker.world.shell,
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

/// Where a worker works.
struct WorkerPlace {
    cwd: PathBuf,
    worktree: Option<PathBuf>,
}

impl WorkerPlace {
    fn of(
        worker: &WorkerRecord,
        repo: Option<&WorkerRepo>,
        house: &DaemonContext,
    ) -> Result<Self, Error> {
        let here = worker.world.cwd.clone();
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
        let tree = house.paths.worktrees().join(format!(
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

/// Removes what was made for a worker that could not be started.
pub fn undo_prepare(worker: &WorkerRecord, house: &DaemonContext) {
    let deadline = Instant::now() + WORKTREE_TIMEOUT;
    let scratch = house.paths.git();
    if worker.args.worktree
        && let Some(repo) = Git::at(&worker.world.cwd, &scratch, deadline).repository()
        && let Ok(WorkerPlace {
            worktree: Some(tree),
            ..
        }) = WorkerPlace::of(worker, Some(&repo), house)
        && tree.exists()
    {
        Git::at(&repo.root, &scratch, deadline).remove_worktree(&tree);
    }
    forget(worker, house);
}

/// Removes a worker's private files. Its worktree has its work in it and stays.
pub fn forget(worker: &WorkerRecord, house: &DaemonContext) {
    let dir = worker_dir(worker, house);
    match fs::remove_dir_all(&dir) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            tracing::warn!(dir = %dir.display(), %error, "a worker's files stay behind");
        }
        Ok(()) | Err(_) => {}
    }
}

fn worker_dir(worker: &WorkerRecord, house: &DaemonContext) -> PathBuf {
    house.paths.workers().join(worker.number.to_string())
}

/// What tells a worker who it is and where its fugue is. Some agents pass little of their environment on, so it is
/// everything that our own client looks at.
fn identity(
    worker: &WorkerRecord,
    caller: &CallerEnv,
    house: &DaemonContext,
) -> BTreeMap<String, String> {
    let socket = house.paths.socket().to_string_lossy().into_owned();
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
        let said = resolve::variable(caller, key).and_then(|value| value.into_string().ok());
        identity.extend(said.map(|value| (key.to_owned(), value)));
    }
    identity
}

/// What goes with a completion.
pub fn collect_changes(
    repo: Option<&WorkerRepo>,
    tail: Option<&PaneRecord>,
    house: &DaemonContext,
) -> CompletionDetails {
    let mut found = CompletionDetails::default();
    if let Some(repo) = repo {
        let (scratch, deadline) = (house.paths.git(), Instant::now() + CHANGES_TIMEOUT);
        match Git::at(&repo.root, &scratch, deadline).changes(&repo.commit) {
            Ok(changes) => limit_changes(&mut found, changes),
            Err(why) => found.note = Some(format!("changes: {why}")),
        }
    }
    if let Some(pane) = tail {
        match archive::tail(pane, MAX_TAIL_CHARS, house) {
            Ok(text) => {
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
            "the worker's files cannot be made: {}: {error}",
            path.display()
        ),
    )
    .hint("nothing was started; is the disk full, or read-only?")
}
