//! The files that differed from the commit when a worker was spawned. They are no changes of the worker unless they changed
//! again.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, Read},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::Path,
};

use fugue_api::Error;
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::git::{Git, RepositoryChanges};
use crate::agents::files;

// Above these limits, files are compared by size and time, or are listed as changed.
const MAX_FILES: usize = 1_000;
const MAX_PATH_BYTES: usize = 100_000;
const MAX_DIGEST_BYTES: u64 = 1024 * 1024;
const MAX_ALL_DIGEST_BYTES: u64 = 32 * 1024 * 1024;

const FILE_NAME: &str = "before.json";

/// The state of a repository's uncommitted files.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Baseline {
    files: BTreeMap<String, FileState>,
    /// How many files are not in `files`.
    omitted: usize,
    /// Why the files are unknown.
    error: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct FileState {
    tracked: bool,
    /// `None`: the file was deleted.
    content: Option<FileContent>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct FileContent {
    mode: u32,
    size: u64,
    changed_ns: i128,
    digest: Option<String>,
}

/// How the files of a baseline differ from the repository now.
#[derive(Debug, Default, PartialEq)]
pub struct BaselineComparison {
    pub unchanged: Vec<String>,
    /// Changed before the worker was spawned and changed since.
    pub changed: BTreeMap<String, FileOrigin>,
}

/// What a file was before a worker was spawned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileOrigin {
    Tracked,
    Untracked,
}

impl Baseline {
    /// The uncommitted files of a repository now.
    pub fn of(git: &Git<'_>, root: &Path, commit: &str) -> Self {
        match git.changed_files(commit) {
            Ok(RepositoryChanges { tracked, untracked }) => {
                let tracked = tracked.into_iter().map(|file| (file, true));
                let untracked = untracked.into_iter().map(|file| (file, false));
                Self::of_files(root, tracked.chain(untracked))
            }
            Err(why) => Self {
                error: Some(why),
                ..Self::default()
            },
        }
    }

    fn of_files(root: &Path, files: impl Iterator<Item = (String, bool)>) -> Self {
        let mut baseline = Self::default();
        let (mut path_bytes, mut digest_bytes) = (0, 0);
        for (file, tracked) in files {
            path_bytes += file.len();
            if baseline.files.len() >= MAX_FILES || path_bytes > MAX_PATH_BYTES {
                baseline.omitted += 1;
                continue;
            }
            let content = FileContent::of(&root.join(&file), &mut digest_bytes);
            baseline.files.insert(file, FileState { tracked, content });
        }
        baseline
    }

    pub fn write(&self, dir: &Path) -> Result<(), Error> {
        let text = serde_json::to_string(self).unwrap_or_default();
        files::write(dir, FILE_NAME, &text).map(|_| ())
    }

    /// The baseline of a worker; an empty one for a worker that was given a clean worktree.
    pub fn read(dir: &Path) -> Self {
        let text = match fs::read(dir.join(FILE_NAME)) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Self::default(),
            Err(error) => return Self::unknown(&error.to_string()),
        };
        serde_json::from_slice(&text).unwrap_or_else(|error| Self::unknown(&error.to_string()))
    }

    fn unknown(why: &str) -> Self {
        Self {
            error: Some(why.to_owned()),
            ..Self::default()
        }
    }

    pub fn compare(&self, root: &Path) -> BaselineComparison {
        let mut comparison = BaselineComparison::default();
        let mut digest_bytes = 0;
        for (file, before) in &self.files {
            let now = FileContent::of(&root.join(file), &mut digest_bytes);
            let is_unchanged = match (&before.content, &now) {
                (None, None) => true,
                (Some(before), Some(now)) => before.is_same(now),
                (None, Some(_)) | (Some(_), None) => false,
            };
            if is_unchanged {
                comparison.unchanged.push(file.clone());
            } else {
                let origin = match before.tracked {
                    true => FileOrigin::Tracked,
                    false => FileOrigin::Untracked,
                };
                comparison.changed.insert(file.clone(), origin);
            }
        }
        comparison
    }

    /// What the baseline does not know.
    pub fn note(&self) -> Option<String> {
        match (&self.error, self.omitted) {
            (Some(why), _) => Some(format!(
                "files that had been changed before this worker started are listed too: {why}"
            )),
            (None, 0) => None,
            (None, omitted) => Some(format!(
                "{omitted} of the files that had been changed before this worker started are listed too"
            )),
        }
    }
}

impl FileContent {
    /// The content of a file; `None` if there is none. Symbolic links are not followed.
    fn of(path: &Path, digest_bytes: &mut u64) -> Option<Self> {
        let found = fs::symlink_metadata(path).ok()?;
        let digest = if found.is_symlink() {
            fs::read_link(path)
                .ok()
                .map(|target| digest(target.as_os_str().as_encoded_bytes()))
        } else if found.is_file()
            && found.len() <= MAX_DIGEST_BYTES
            && *digest_bytes + found.len() <= MAX_ALL_DIGEST_BYTES
        {
            *digest_bytes += found.len();
            read(path).ok().map(|bytes| digest(&bytes))
        } else {
            None
        };
        Some(Self {
            mode: found.mode(),
            size: found.len(),
            changed_ns: i128::from(found.mtime()) * 1_000_000_000 + i128::from(found.mtime_nsec()),
            digest,
        })
    }

    fn is_same(&self, other: &Self) -> bool {
        // A directory that git lists as one untracked file is a repository of its own.
        let is_directory = self.mode & 0o170_000 == 0o040_000;
        self.mode == other.mode
            && (is_directory
                || self.size == other.size
                    && match (&self.digest, &other.digest) {
                        (Some(before), Some(now)) => before == now,
                        (None, _) | (_, None) => self.changed_ns == other.changed_ns,
                    })
    }
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    // A file may have become a FIFO or a link meanwhile.
    let flags = (OFlags::NONBLOCK | OFlags::NOFOLLOW).bits().cast_signed();
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    let mut bytes = Vec::new();
    file.take(MAX_DIGEST_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn digest(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn only_files_whose_content_changed_are_changed() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        let file = |name: &str| root.join(name);
        for name in ["same", "touched", "edited", "removed", "new"] {
            fs::write(file(name), "one").unwrap();
        }
        symlink("same", file("link")).unwrap();
        fs::create_dir(file("nested")).unwrap();
        let names = [
            "same", "touched", "edited", "removed", "gone", "link", "nested/",
        ];
        let names = names.map(|name| (name.to_owned(), true));
        let untracked = [("new".to_owned(), false)];
        let baseline = Baseline::of_files(root, names.into_iter().chain(untracked));
        baseline.write(root).unwrap();
        assert_eq!(Baseline::read(root), baseline);
        assert_eq!(baseline.compare(root).changed, BTreeMap::new());
        fs::write(file("touched"), "one").unwrap();
        fs::write(file("edited"), "two").unwrap();
        fs::write(file("gone"), "back").unwrap();
        fs::write(file("nested/inner"), "x").unwrap();
        for name in ["removed", "new", "link"] {
            fs::remove_file(file(name)).unwrap();
        }
        symlink("edited", file("link")).unwrap();
        let comparison = baseline.compare(root);
        assert_eq!(comparison.unchanged, ["nested/", "same", "touched"]);
        let changed: Vec<_> = comparison.changed.into_iter().collect();
        let tracked = ["edited", "gone", "link"].map(|name| (name.to_owned(), FileOrigin::Tracked));
        let untracked = ("new".to_owned(), FileOrigin::Untracked);
        let removed = ("removed".to_owned(), FileOrigin::Tracked);
        let wanted: Vec<_> = tracked.into_iter().chain([untracked, removed]).collect();
        assert_eq!(changed, wanted);
    }

    #[test]
    fn what_is_beyond_the_limit_is_said() {
        let dir = tempfile::tempdir().unwrap();
        let names = (0..=MAX_FILES).map(|number| (number.to_string(), true));
        let baseline = Baseline::of_files(dir.path(), names);
        assert_eq!(baseline.files.len(), MAX_FILES);
        assert!(baseline.note().unwrap().starts_with("1 of the files"));
        assert_eq!(Baseline::default().note(), None);
    }
}
