//! A common directory of git whose configuration names no program: see the parent module.

use std::{
    ffi::OsStr,
    fmt::Write as _,
    fs, io,
    io::Read,
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

use rustix::fs::OFlags;

use super::Git;

/// The keys of a repository's configuration that define how its files are compared and written. None of them names a
/// program. `extensions.partialClone` is left out: a missing object is an error and is not fetched.
const KEYS: &[(&str, &[&str])] = &[
    (
        "core",
        &[
            "attributesfile",
            "autocrlf",
            "bigfilethreshold",
            "checkroundtripencoding",
            "checkstat",
            "eol",
            "excludesfile",
            "filemode",
            "ignorecase",
            "precomposeunicode",
            "protecthfs",
            "protectntfs",
            "repositoryformatversion",
            "safecrlf",
            "sparsecheckout",
            "sparsecheckoutcone",
            "symlinks",
            "trustctime",
        ],
    ),
    ("diff", &["algorithm", "renamelimit", "renames"]),
    ("extensions", &["objectformat", "relativeworktrees"]),
    ("index", &["skiphash", "sparse", "version"]),
];

/// Files of the common directory that name no program either. An attribute can only select a filter of the user's
/// configuration.
const FILES: [&str; 2] = ["attributes", "exclude"];
const MAX_FILE_BYTES: u64 = 1024 * 1024;

/// A temporary copy of one repository's configuration.
pub struct ConfigSnapshot {
    dir: PathBuf,
    git_dir: PathBuf,
    objects: PathBuf,
    tree: PathBuf,
}

impl ConfigSnapshot {
    pub fn of(git: &Git<'_>) -> Result<Self, String> {
        let places = git.query(&[
            "rev-parse",
            "--absolute-git-dir",
            "--git-common-dir",
            "--show-toplevel",
        ])?;
        let places: Vec<&str> = places.lines().collect();
        let [git_dir, common, tree] = places[..] else {
            return Err("git: a line break in a repository's path is not supported".to_owned());
        };
        // The path may be relative to the directory in which git ran.
        let common = git.dir.join(common);
        let listing = git.query(&["config", "--list", "-z", "--show-scope"])?;
        let mut config = safe(&listing);
        // So that Git LFS finds objects that were fetched already.
        let fetched = common.join("lfs");
        let _ = writeln!(
            config,
            "[lfs]\n\tstorage = {}",
            quoted(&fetched.to_string_lossy())
        );
        let snapshot = Self {
            dir: fresh(git.scratch).map_err(|error| no_copy(git.scratch, &error))?,
            git_dir: git_dir.into(),
            objects: common.join("objects"),
            tree: tree.into(),
        };
        snapshot
            .lay_out(&config, &common.join("info"))
            .map_err(|error| no_copy(&snapshot.dir, &error))?;
        Ok(snapshot)
    }

    fn lay_out(&self, config: &str, info: &Path) -> io::Result<()> {
        fs::write(self.dir.join("config"), config)?;
        // Without this file, git does not recognise the directory as a repository.
        fs::create_dir(self.dir.join("refs"))?;
        fs::create_dir(self.dir.join("info"))?;
        for file in FILES {
            if let Some(text) = short_file(&info.join(file)) {
                fs::write(self.dir.join("info").join(file), text)?;
            }
        }
        Ok(())
    }

    pub fn variables(&self) -> [(&'static str, &OsStr); 4] {
        [
            ("GIT_DIR", self.git_dir.as_os_str()),
            ("GIT_COMMON_DIR", self.dir.as_os_str()),
            ("GIT_OBJECT_DIRECTORY", self.objects.as_os_str()),
            ("GIT_WORK_TREE", self.tree.as_os_str()),
        ]
    }
}

impl Drop for ConfigSnapshot {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.dir) {
            tracing::debug!(dir = %self.dir.display(), %error, "copy of a git configuration not removed");
        }
    }
}

/// Creates a directory for this call. An existing directory of that name is a leftover of a killed daemon.
fn fresh(scratch: &Path) -> io::Result<PathBuf> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed).to_string();
    let dir = scratch.join(number);
    if dir.exists() {
        fs::remove_dir_all(&dir)?;
    }
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&dir)?;
    Ok(dir)
}

/// The content of a short regular file. A FIFO is not waited for.
fn short_file(path: &Path) -> Option<Vec<u8>> {
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).ok()?;
    let file = fs::File::options()
        .read(true)
        .custom_flags(flags)
        .open(path)
        .ok()?;
    let about = file.metadata().ok()?;
    if !about.is_file() || about.len() > MAX_FILE_BYTES {
        return None;
    }
    let mut text = Vec::new();
    file.take(MAX_FILE_BYTES).read_to_end(&mut text).ok()?;
    Some(text)
}

/// The configuration file of the keys above, from a listing `scope NUL key [LF value] NUL`.
fn safe(listing: &str) -> String {
    let mut words = listing.split('\0');
    let mut config = String::new();
    while let (Some(scope), Some(entry)) = (words.next(), words.next()) {
        // The other scopes are the user's own, and git reads them itself.
        if !matches!(scope, "local" | "worktree") {
            continue;
        }
        let (key, value) = match entry.split_once('\n') {
            Some((key, value)) => (key, Some(value)),
            None => (entry, None),
        };
        let Some((section, name)) = key.split_once('.') else {
            continue;
        };
        let known = KEYS.iter().find(|(known, _)| *known == section);
        if !known.is_some_and(|(_, names)| names.contains(&name)) {
            continue;
        }
        let _ = match value {
            Some(value) => writeln!(config, "[{section}]\n\t{name} = {}", quoted(value)),
            None => writeln!(config, "[{section}]\n\t{name}"),
        };
    }
    config
}

fn quoted(value: &str) -> String {
    let escaped = value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n");
    format!("\"{escaped}\"")
}

fn no_copy(dir: &Path, error: &io::Error) -> String {
    format!(
        "git: no copy of the configuration in {}: {error}",
        dir.display()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_how_files_are_compared_is_taken_from_a_repository() {
        let listing = "global\0core.filemode\ntrue\0\
            local\0core.filemode\nfalse\0\
            local\0core.symlinks\0\
            local\0filter.x.clean\nrm -rf /\0\
            local\0core.filemode.clean\nx\0\
            local\0core.fsmonitor\nrm\0\
            worktree\0core.sparsecheckout\ntrue\0\
            local\0core.excludesfile\na\"b\\c\n[core]\n\tfsmonitor = rm\0";
        assert_eq!(
            safe(listing),
            "[core]\n\tfilemode = \"false\"\n\
             [core]\n\tsymlinks\n\
             [core]\n\tsparsecheckout = \"true\"\n\
             [core]\n\texcludesfile = \"a\\\"b\\\\c\\n[core]\\n\tfsmonitor = rm\"\n"
        );
    }
}
