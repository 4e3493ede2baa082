//! Worktrees of workers: what `fugue worktree` requests and shows.

use serde::{Deserialize, Serialize};

/// A request about the worktrees of workers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "do")]
pub enum WorktreeRequest {
    List,
    /// The difference between a worktree and the commit that its worker was spawned at.
    Diff {
        name: String,
        /// One line for each file.
        stat: bool,
    },
    /// Removes a worktree and its branch. Without `force`, only where nothing is lost.
    Remove {
        name: String,
        force: bool,
    },
}

impl WorktreeRequest {
    /// Whether only the person may do it.
    pub fn removes(&self) -> bool {
        match self {
            Self::Remove { .. } => true,
            Self::List | Self::Diff { .. } => false,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorktreeResponse {
    List(Vec<WorktreeRow>),
    Diff(WorktreeDiff),
    Removed(WorktreeRemoval),
}

/// A worktree of a worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorktreeRow {
    /// The name of the directory, which is unique.
    pub name: String,
    pub worker_id: String,
    /// The worker runs.
    pub live: bool,
    pub directory: String,
    /// The main directory of the repository.
    pub repository: String,
    pub branch: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work: Option<WorktreeWork>,
    /// Why `work` is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl WorktreeRow {
    /// Whether the worker has ended and nothing is lost with the worktree.
    pub fn is_unneeded(&self) -> bool {
        !self.live
            && self
                .work
                .as_ref()
                .is_some_and(WorktreeWork::is_kept_elsewhere)
    }
}

/// What a worktree holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorktreeWork {
    /// Commits of the branch that the repository's current commit does not contain.
    pub ahead: u64,
    /// Commits of the repository's current commit that the branch does not contain.
    pub behind: u64,
    /// Commits of the branch since the worker was spawned.
    pub commits: u64,
    /// Files that are not committed.
    pub dirty: u64,
    /// Commits that no other branch, tag or remote contains.
    pub unmerged: u64,
}

impl WorktreeWork {
    pub fn is_kept_elsewhere(&self) -> bool {
        self.dirty == 0 && self.unmerged == 0
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorktreeDiff {
    pub name: String,
    /// The commit that the worker was spawned at.
    pub commit: String,
    pub diff: String,
    /// Files that git does not track, which are not in `diff`.
    pub untracked: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorktreeRemoval {
    pub name: String,
    pub directory: String,
    pub branch: String,
    /// The files and commits that were nowhere else.
    pub lost: Vec<String>,
}
