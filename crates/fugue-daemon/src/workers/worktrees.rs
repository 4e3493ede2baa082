//! The worktrees of workers, which outlive the workers: they are listed, compared and removed on request.
//!
//! A note beside each worktree (`<name>.json`) says whose it is, because a worker's record is forgotten while its worktree may
//! still hold work.

use std::{
    collections::BTreeSet,
    fs, io,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use fugue_api::{
    Error, ErrorKind,
    worktree::{
        WorktreeDiff, WorktreeRemoval, WorktreeRequest, WorktreeResponse, WorktreeRow, WorktreeWork,
    },
};
use fugue_client::paths::UserPaths;
use fugue_core::{WorkerRecord, WorkerRepo};
use serde::{Deserialize, Serialize};

use super::git::{Git, RepositoryChanges};
use crate::agents::files;

// For all commands of git about one worktree.
const GIT_TIMEOUT: Duration = Duration::from_secs(10);
// The limit of named files and commits that a removal would lose.
const MAX_NAMED: usize = 10;

/// Whose worktree a directory is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct WorktreeNote {
    worker: u64,
    worker_id: String,
    repository: PathBuf,
    branch: String,
    /// The commit that the worker was spawned at.
    commit: String,
}

/// A worktree on disk.
struct Worktree {
    name: String,
    directory: PathBuf,
    note: WorktreeNote,
    /// The worker runs.
    live: bool,
}

/// Notes whose worktree this is.
pub fn note(
    worker: &WorkerRecord,
    directory: &Path,
    branch: &str,
    repo: &WorkerRepo,
) -> Result<(), Error> {
    let note = WorktreeNote {
        worker: worker.number,
        worker_id: worker.id.clone(),
        repository: repo.root.clone(),
        branch: branch.to_owned(),
        commit: repo.commit.clone(),
    };
    let (Some(dir), Some(name)) = (directory.parent(), directory.file_name()) else {
        return Ok(());
    };
    let text = serde_json::to_string(&note).unwrap_or_default();
    files::write(dir, &note_name(&name.to_string_lossy()), &text).map(|_| ())
}

/// Removes the note of a worktree that is removed.
pub fn forget_note(directory: &Path) {
    if let (Some(dir), Some(name)) = (directory.parent(), directory.file_name())
        && let Err(error) = fs::remove_file(dir.join(note_name(&name.to_string_lossy())))
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!(directory = %directory.display(), %error, "note of a worktree not removed");
    }
}

fn note_name(worktree: &str) -> String {
    format!("{worktree}.json")
}

/// Performs a request. `live` are the numbers of the workers that run.
pub fn perform(
    request: &WorktreeRequest,
    live: &BTreeSet<u64>,
    paths: &UserPaths,
) -> Result<WorktreeResponse, Error> {
    match request {
        WorktreeRequest::List => Ok(WorktreeResponse::List(rows(live, paths))),
        WorktreeRequest::Diff { name, stat } => {
            let worktree = find(name, live, paths)?;
            let diff = worktree.diff(*stat, paths).map_err(git_error)?;
            Ok(WorktreeResponse::Diff(diff))
        }
        WorktreeRequest::Remove { name, force } => {
            let worktree = find(name, live, paths)?;
            let removal = worktree.remove(*force, paths)?;
            Ok(WorktreeResponse::Removed(removal))
        }
    }
}

/// All worktrees, in the order of their names.
pub fn rows(live: &BTreeSet<u64>, paths: &UserPaths) -> Vec<WorktreeRow> {
    let worktrees = all(live, paths).into_iter();
    worktrees.map(|worktree| worktree.row(paths)).collect()
}

fn all(live: &BTreeSet<u64>, paths: &UserPaths) -> Vec<Worktree> {
    let dir = paths.worktrees();
    let mut found: Vec<Worktree> = fs::read_dir(&dir)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let name = name.strip_suffix(".json")?.to_owned();
            let note: WorktreeNote = serde_json::from_slice(&fs::read(entry.path()).ok()?).ok()?;
            Some(Worktree {
                directory: dir.join(&name),
                live: live.contains(&note.worker),
                name,
                note,
            })
        })
        .collect();
    found.sort_by(|a, b| a.name.cmp(&b.name));
    found
}

/// The worktree with this name, of this worker, or of this branch.
fn find(name: &str, live: &BTreeSet<u64>, paths: &UserPaths) -> Result<Worktree, Error> {
    let mut all = all(live, paths);
    let is_named = |worktree: &Worktree| {
        let note = &worktree.note;
        worktree.name == name || note.worker_id == name || note.branch == name
    };
    let named: Vec<usize> = (0..all.len())
        .filter(|index| is_named(&all[*index]))
        .collect();
    let names = |worktrees: &mut dyn Iterator<Item = &Worktree>| {
        let names: Vec<&str> = worktrees.map(|worktree| &*worktree.name).collect();
        names.join(", ")
    };
    match named[..] {
        [index] => Ok(all.swap_remove(index)),
        [] if all.is_empty() => Err(Error::new(
            ErrorKind::NotFound,
            format!("no worktree `{name}`; there are no worktrees of workers"),
        )),
        [] => Err(
            Error::new(ErrorKind::NotFound, format!("no worktree `{name}`")).hint(format!(
                "name a worker, its branch or one of {}",
                names(&mut all.iter())
            )),
        ),
        _ => Err(
            Error::invalid(format!("`{name}` names {} worktrees", named.len())).hint(format!(
                "name one of {}",
                names(&mut named.iter().map(|index| &all[*index]))
            )),
        ),
    }
}

fn git_error(why: String) -> Error {
    Error::new(ErrorKind::Unavailable, why)
}

impl Worktree {
    fn row(&self, paths: &UserPaths) -> WorktreeRow {
        let (work, error) = match self.work(paths) {
            Ok(work) => (Some(work), None),
            Err(why) => (None, Some(why)),
        };
        WorktreeRow {
            name: self.name.clone(),
            worker_id: self.note.worker_id.clone(),
            live: self.live,
            directory: files::text(&self.directory),
            repository: files::text(&self.note.repository),
            branch: self.note.branch.clone(),
            work,
            error,
        }
    }

    fn work(&self, paths: &UserPaths) -> Result<WorktreeWork, String> {
        let (scratch, deadline) = (paths.git(), Instant::now() + GIT_TIMEOUT);
        let repository = Git::at(&self.note.repository, &scratch, deadline);
        let branch = &self.note.branch;
        let (ahead, behind) = repository.ahead_and_behind(branch)?;
        let dirty = match self.directory.is_dir() {
            true => self.uncommitted(&scratch, deadline)?.len(),
            false => 0,
        };
        Ok(WorktreeWork {
            ahead,
            behind,
            commits: repository.commits_since(&self.note.commit, branch)?,
            dirty: dirty as u64,
            unmerged: self.own_commits(&scratch, deadline)?.len() as u64,
        })
    }

    /// The files that are not committed.
    fn uncommitted(&self, scratch: &Path, deadline: Instant) -> Result<Vec<String>, String> {
        let tree = Git::at(&self.directory, scratch, deadline);
        let RepositoryChanges {
            mut tracked,
            untracked,
        } = tree.changed_files(&tree.head()?)?;
        tracked.extend(untracked);
        Ok(tracked)
    }

    /// The commits of the branch, and of a detached head, that nothing else contains.
    fn own_commits(&self, scratch: &Path, deadline: Instant) -> Result<Vec<String>, String> {
        let repository = Git::at(&self.note.repository, scratch, deadline);
        let head = match self.directory.is_dir() {
            true => Some(Git::at(&self.directory, scratch, deadline).head()?),
            false => None,
        };
        repository.commits_only_on(&self.note.branch, head.as_deref())
    }

    fn diff(&self, stat: bool, paths: &UserPaths) -> Result<WorktreeDiff, String> {
        let (scratch, deadline) = (paths.git(), Instant::now() + GIT_TIMEOUT);
        let tree = Git::at(&self.directory, &scratch, deadline);
        let commit = &self.note.commit;
        Ok(WorktreeDiff {
            name: self.name.clone(),
            commit: commit.clone(),
            diff: tree.diff(commit, stat)?,
            untracked: tree.changed_files(commit)?.untracked,
        })
    }

    fn remove(self, force: bool, paths: &UserPaths) -> Result<WorktreeRemoval, Error> {
        let WorktreeNote {
            worker_id, branch, ..
        } = &self.note;
        if self.live {
            return Err(
                Error::invalid(format!("worker `{worker_id}` works in `{}`", self.name))
                    .hint("close its pane first; nothing was removed"),
            );
        }
        let (scratch, deadline) = (paths.git(), Instant::now() + GIT_TIMEOUT);
        let lost = self.lost(&scratch, deadline);
        let refusal = match &lost {
            _ if force => None,
            Ok(lost) if lost.is_empty() => None,
            Ok(lost) => Some(format!("is nowhere else: {}", lost.join("; "))),
            Err(why) => Some(format!("may be nowhere else: {why}")),
        };
        if let Some(refusal) = refusal {
            return Err(
                Error::invalid(format!("what `{}` holds {refusal}", self.name)).hint(format!(
                    "merge `{branch}` or commit first, or remove it with --force; nothing was removed"
                )),
            );
        }
        let repository = Git::at(&self.note.repository, &scratch, deadline);
        repository
            .remove_worktree_and_branch(&self.directory, branch)
            .map_err(git_error)?;
        forget_note(&self.directory);
        Ok(WorktreeRemoval {
            directory: files::text(&self.directory),
            branch: branch.clone(),
            lost: lost.unwrap_or_else(|why| vec![why]),
            name: self.name,
        })
    }

    /// The files and commits that a removal would lose, in words.
    fn lost(&self, scratch: &Path, deadline: Instant) -> Result<Vec<String>, String> {
        let files = match self.directory.is_dir() {
            true => self.uncommitted(scratch, deadline)?,
            false => Vec::new(),
        };
        let commits = self.own_commits(scratch, deadline)?;
        let files = named("uncommitted file", &files);
        let commits = named("unmerged commit", &commits);
        Ok(files.into_iter().chain(commits).collect())
    }
}

/// The number of things, and the first of them.
fn named(what: &str, things: &[String]) -> Option<String> {
    let first = things.iter().take(MAX_NAMED);
    let first: Vec<String> = first.map(|thing| super::git::printable(thing)).collect();
    let plural = if things.len() == 1 { "" } else { "s" };
    let more = if things.len() > MAX_NAMED {
        ", …"
    } else {
        ""
    };
    (!things.is_empty()).then(|| {
        format!(
            "{} {what}{plural} ({}{more})",
            things.len(),
            first.join(", ")
        )
    })
}
