//! Runs git with a time limit and without programs that a repository's own configuration could name.
//!
//! Agents in a sandbox can write a repository's configuration, and the daemon runs outside that sandbox. Two measures keep the
//! configuration from naming a program:
//!
//! - Commands that use only refs and the list of worktrees read no file content. The programs that such commands could start have
//!   fixed configuration keys (hooks, the file system monitor, a transport), which are overridden for every call. Hooks of the
//!   configuration, which have names that a repository chooses, are switched off by event; git 2.54 knows only the switch by
//!   name, so that commands that change refs switch off the names that are configured as well.
//! - Commands that read or write files of a tree run filters, whose names a repository chooses. Such commands get a common directory
//!   of the daemon's (`GIT_COMMON_DIR`), whose configuration is a copy of the few keys that define how files are compared. So
//!   nothing has to be overridden, and nothing can change between the check and the use.
//!
//! The user's own configuration (system and global) is read as usual: a filter that the user has defined (Git LFS) runs.

mod snapshot;

use std::{
    collections::BTreeSet,
    io::{self, Read},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Instant,
};

use fugue_api::{Error, ErrorKind};
use fugue_core::{WorkerRecord, WorkerRepo};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Pid, Signal, kill_process_group},
};

use snapshot::ConfigSnapshot;

pub struct Git<'a> {
    dir: &'a Path,
    /// The daemon's directory for copies of configurations.
    scratch: &'a Path,
    deadline: Instant,
}

/// Which configuration a git command reads.
enum GitConfig<'a> {
    Repository,
    /// The repository's without the hooks of these names.
    WithoutHooks(&'a BTreeSet<String>),
    Snapshot(&'a ConfigSnapshot),
}

impl GitConfig<'_> {
    fn overrides(&self) -> Vec<(String, &'static str)> {
        let fixed = OVERRIDES
            .iter()
            .map(|(key, value)| (key.to_string(), *value));
        let names = match self {
            Self::WithoutHooks(names) => Some(*names),
            Self::Repository | Self::Snapshot(_) => None,
        };
        let names = names.into_iter().flatten();
        let hooks = names.map(|name| (format!("hook.{name}.enabled"), "false"));
        fixed.chain(hooks).collect()
    }
}

/// Overrides for every call: all keys with fixed names that can start a program, and the transports that fetch missing
/// objects.
const OVERRIDES: &[(&str, &str)] = &[
    ("core.hooksPath", "/dev/null"),
    ("hook.reference-transaction.enabled", "false"),
    ("hook.post-checkout.enabled", "false"),
    ("hook.post-index-change.enabled", "false"),
    ("core.fsmonitor", "false"),
    ("core.sshCommand", "false"),
    ("core.gitProxy", ""),
    ("core.askPass", ""),
    ("core.editor", "false"),
    ("sequence.editor", "false"),
    ("core.pager", "cat"),
    ("core.alternateRefsCommand", ""),
    ("credential.helper", ""),
    ("diff.external", ""),
    ("gpg.program", "false"),
    ("gpg.openpgp.program", "false"),
    ("gpg.ssh.program", "false"),
    ("gpg.x509.program", "false"),
    ("gpg.ssh.defaultKeyCommand", ""),
    ("log.showSignature", "false"),
    ("interactive.diffFilter", ""),
    ("uploadpack.packObjectsHook", ""),
    ("protocol.allow", "never"),
    ("submodule.recurse", "false"),
    ("maintenance.auto", "false"),
    ("gc.auto", "0"),
    ("core.quotePath", "false"),
];

// The listing of a huge repository is cut long before this limit.
const MAX_OUTPUT_BYTES: u64 = 4 * 1024 * 1024;

impl<'a> Git<'a> {
    pub fn at(dir: &'a Path, scratch: &'a Path, deadline: Instant) -> Self {
        Self {
            dir,
            scratch,
            deadline,
        }
    }

    fn in_tree<'b>(&'b self, dir: &'b Path) -> Git<'b> {
        Git { dir, ..*self }
    }

    /// The repository that contains the directory.
    pub fn repository(&self) -> Option<WorkerRepo> {
        let root = self.query(&["rev-parse", "--show-toplevel"]).ok()?;
        let commit = self.query(&["rev-parse", "--verify", "-q", "HEAD"]);
        Some(WorkerRepo {
            root: PathBuf::from(root.trim_end_matches('\n')),
            commit: commit.unwrap_or_default().trim().to_owned(),
        })
    }

    /// Creates a worktree for a worker and returns the name of the branch.
    pub fn add_worktree(
        &self,
        tree: &Path,
        worker: &WorkerRecord,
        commit: &str,
    ) -> Result<String, Error> {
        if tree.exists() {
            // An earlier daemon has created the worktree.
            let branch = self
                .in_tree(tree)
                .query(&["symbolic-ref", "--short", "HEAD"]);
            if let Ok(branch) = branch {
                return Ok(branch.trim().to_owned());
            }
            self.discard_new_worktree(tree);
        }
        let own = format!("fugue/{}", worker.args.name);
        let next = format!("{own}-{}", worker.number);
        // The branch of an earlier worker of that name may hold work.
        let branch = if self.has_branch(&own) { next } else { own };
        let path = tree.to_string_lossy();
        let add = [
            "worktree",
            "add",
            "-q",
            "--no-checkout",
            "-b",
            &branch,
            &path,
            commit,
        ];
        let filled = self
            .change(&add)
            .and_then(|_| self.in_tree(tree).fill(commit))
            .map(|()| branch);
        filled.map_err(|why| {
            Error::new(
                ErrorKind::Unavailable,
                format!("worktree: git could not add one: {why}"),
            )
            .hint("nothing was started; in a partial clone, `git checkout` the files first")
        })
    }

    /// Writes the files of `commit` into a new worktree.
    fn fill(&self, commit: &str) -> Result<(), String> {
        let snapshot = ConfigSnapshot::of(self)?;
        let read = ["read-tree", "--reset", "-u", commit];
        self.call(&read, &GitConfig::Snapshot(&snapshot))
            .map(|_| ())
    }

    /// Removes a worktree that no worker has used, by force, with its branch. Errors are ignored.
    pub fn discard_new_worktree(&self, tree: &Path) {
        let branch = self
            .in_tree(tree)
            .query(&["symbolic-ref", "--short", "HEAD"]);
        let path = tree.to_string_lossy();
        if self
            .change(&["worktree", "remove", "--force", &path])
            .is_err()
        {
            let _ = std::fs::remove_dir_all(tree);
            let _ = self.change(&["worktree", "prune"]);
        }
        if let Ok(branch) = branch
            && branch.starts_with("fugue/")
        {
            let _ = self.change(&["branch", "-q", "-D", branch.trim()]);
        }
    }

    /// Removes a worktree, and this branch if it still exists.
    pub fn remove_worktree_and_branch(&self, tree: &Path, branch: &str) -> Result<(), String> {
        if tree.exists() {
            self.query(&["worktree", "remove", "--force", &tree.to_string_lossy()])?;
        } else {
            self.query(&["worktree", "prune"])?;
        }
        match self.has_branch(branch) {
            true => self.query(&["branch", "-q", "-D", branch]).map(|_| ()),
            false => Ok(()),
        }
    }

    fn has_branch(&self, branch: &str) -> bool {
        let name = format!("refs/heads/{branch}");
        self.query(&["show-ref", "--verify", "-q", &name]).is_ok()
    }

    pub fn head(&self) -> Result<String, String> {
        let head = self.query(&["rev-parse", "--verify", "-q", "HEAD"])?;
        Ok(head.trim().to_owned())
    }

    /// The branch that is checked out. `None` for a detached head.
    pub fn branch(&self) -> Option<String> {
        let branch = self
            .query(&["symbolic-ref", "--short", "-q", "HEAD"])
            .ok()?;
        Some(branch.trim().to_owned())
    }

    /// How many commits a branch has that the current commit does not contain, and the reverse.
    pub fn ahead_and_behind(&self, branch: &str) -> Result<(u64, u64), String> {
        if !self.has_branch(branch) {
            return Ok((0, 0));
        }
        let range = format!("refs/heads/{branch}...HEAD");
        let counts = self.query(&["rev-list", "--left-right", "--count", &range, "--"])?;
        let mut counts = counts.split_whitespace().map(str::parse);
        match (counts.next(), counts.next()) {
            (Some(Ok(ahead)), Some(Ok(behind))) => Ok((ahead, behind)),
            _ => Err("git: rev-list printed no counts".to_owned()),
        }
    }

    /// How many commits a branch has since `commit`.
    pub fn commits_since(&self, commit: &str, branch: &str) -> Result<u64, String> {
        if !self.has_branch(branch) {
            return Ok(0);
        }
        let range = format!("{commit}..refs/heads/{branch}");
        let count = self.query(&["rev-list", "--count", &range, "--"])?;
        count
            .trim()
            .parse()
            .map_err(|_| "git: rev-list printed no count".to_owned())
    }

    /// The commits of a branch and of a head that no other branch, no tag and no remote contains, each with its subject.
    pub fn commits_only_on(&self, branch: &str, head: Option<&str>) -> Result<Vec<String>, String> {
        let name = format!("refs/heads/{branch}");
        let exclude = format!("--exclude={branch}");
        let mut args = vec![
            "log",
            "--no-decorate",
            "--no-show-signature",
            "--format=%h %s",
        ];
        args.extend(head);
        if self.has_branch(branch) {
            args.push(&name);
        }
        args.extend(["--not", &exclude, "--branches", "--tags", "--remotes", "--"]);
        let commits = self.query(&args)?;
        Ok(commits.lines().map(str::to_owned).collect())
    }

    /// The files that differ from `commit`.
    pub fn changed_files(&self, commit: &str) -> Result<RepositoryChanges, String> {
        let snapshot = ConfigSnapshot::of(self)?;
        let config = GitConfig::Snapshot(&snapshot);
        let since = self.tree_of(commit, &config)?;
        let tracked = self.call(
            &diff_args(&["--name-only", "-z", "--no-renames"], &since),
            &config,
        )?;
        Ok(RepositoryChanges {
            tracked: nul_separated(&tracked),
            untracked: self.untracked(&config)?,
        })
    }

    /// The difference to `commit`, as a patch or as one line for each file.
    pub fn diff(&self, commit: &str, stat: bool) -> Result<String, String> {
        let snapshot = ConfigSnapshot::of(self)?;
        let config = GitConfig::Snapshot(&snapshot);
        let since = self.tree_of(commit, &config)?;
        let form: &[&str] = if stat { &["--stat=120"] } else { &["--patch"] };
        self.call(&diff_args(form, &since), &config)
    }

    /// One line for each file that differs from `commit`, without the files `except`.
    pub fn changes(&self, commit: &str, except: &[String]) -> Result<Vec<String>, String> {
        let snapshot = ConfigSnapshot::of(self)?;
        let config = GitConfig::Snapshot(&snapshot);
        let since = self.tree_of(commit, &config)?;
        let mut diff = diff_args(&["--stat=120"], &since);
        let except_paths: Vec<String> = except
            .iter()
            .map(|file| format!(":(top,exclude,literal){file}"))
            .collect();
        if !except_paths.is_empty() {
            diff.push(":(top)");
            diff.extend(except_paths.iter().map(String::as_str));
        }
        let stat = self.call(&diff, &config)?;
        // The last line is the summary.
        let mut changes: Vec<String> = stat
            .lines()
            .filter(|line| line.contains(" | "))
            .map(|line| line.trim().to_owned())
            .collect();
        let untracked = self.untracked(&config)?;
        let untracked = untracked.iter().filter(|file| !except.contains(file));
        changes.extend(untracked.map(|file| format!("{} | untracked", printable(file))));
        Ok(changes)
    }

    fn untracked(&self, config: &GitConfig<'_>) -> Result<Vec<String>, String> {
        let others = ["ls-files", "--others", "--exclude-standard", "-z"];
        Ok(nul_separated(&self.call(&others, config)?))
    }

    /// The commit, or the empty tree in a repository without a commit.
    fn tree_of(&self, commit: &str, config: &GitConfig<'_>) -> Result<String, String> {
        if !commit.is_empty() {
            return Ok(commit.to_owned());
        }
        let empty = self.call(&["hash-object", "-t", "tree", "/dev/null"], config)?;
        Ok(empty.trim().to_owned())
    }

    fn query(&self, args: &[&str]) -> Result<String, String> {
        self.call(args, &GitConfig::Repository)
    }

    /// Runs a command that changes refs or the list of worktrees.
    fn change(&self, args: &[&str]) -> Result<String, String> {
        let keys = self.query(&["config", "--list", "--name-only", "-z"])?;
        let names = keys.split('\0').filter_map(|key| {
            let (name, _) = key.strip_prefix("hook.")?.rsplit_once('.')?;
            Some(name.to_owned())
        });
        self.call(args, &GitConfig::WithoutHooks(&names.collect()))
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "nothing is set that keeps std from posix_spawn, and std's fds close on exec"
    )]
    fn call(&self, args: &[&str], config: &GitConfig<'_>) -> Result<String, String> {
        let mut command = Command::new("git");
        command
            .arg("-C")
            .arg(self.dir)
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // Processes that git starts are killed together with git.
            .process_group(0);
        // The daemon may have been started inside another repository. Variables for the location of the user's own
        // configuration stay.
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy();
            if text.starts_with("GIT_")
                && ![
                    "GIT_CONFIG_GLOBAL",
                    "GIT_CONFIG_SYSTEM",
                    "GIT_CONFIG_NOSYSTEM",
                ]
                .contains(&&*text)
            {
                command.env_remove(name);
            }
        }
        command
            .env("GIT_OPTIONAL_LOCKS", "0")
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("GIT_ASKPASS", "false")
            .env("GIT_EDITOR", "false")
            .env("GIT_SSH_COMMAND", "false")
            .env("GIT_NO_LAZY_FETCH", "1")
            // For older versions of git: no transport is allowed.
            .env("GIT_ALLOW_PROTOCOL", "")
            .env("LC_ALL", "C.UTF-8");
        if let GitConfig::Snapshot(snapshot) = config {
            command.envs(snapshot.variables());
        }
        let overrides = config.overrides();
        command.env("GIT_CONFIG_COUNT", overrides.len().to_string());
        for (index, (key, value)) in overrides.iter().enumerate() {
            command
                .env(format!("GIT_CONFIG_KEY_{index}"), key)
                .env(format!("GIT_CONFIG_VALUE_{index}"), value);
        }
        let mut child = command.spawn().map_err(|error| format!("git: {error}"))?;
        let said = self.collect(&mut child);
        if said.is_err()
            && let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw)
        {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let status = child.wait().map_err(|error| format!("git: {error}"))?;
        let (out, err) = said?;
        if status.success() {
            Ok(String::from_utf8_lossy(&out).into_owned())
        } else {
            let err = String::from_utf8_lossy(&err);
            let first = err.lines().next().unwrap_or("it failed without a word");
            Err(format!("git: {}", first.trim_start_matches("fatal: ")))
        }
    }

    /// Reads both outputs to their ends, until the deadline.
    fn collect(&self, child: &mut Child) -> Result<(Vec<u8>, Vec<u8>), String> {
        let (Some(mut out), Some(mut err)) = (child.stdout.take(), child.stderr.take()) else {
            return Err("git: its output cannot be had".to_owned());
        };
        let (mut said, mut complained) = (Vec::new(), Vec::new());
        let (mut out_open, mut err_open) = (true, true);
        while out_open || err_open {
            let left = self.deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err("git took too long".to_owned());
            }
            let wait = Timespec {
                tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: left.subsec_nanos().into(),
            };
            let mut fds = Vec::with_capacity(2);
            if out_open {
                fds.push(PollFd::new(&out, PollFlags::IN));
            }
            if err_open {
                fds.push(PollFd::new(&err, PollFlags::IN));
            }
            match poll(&mut fds, Some(&wait)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(format!("git: {error}")),
            }
            let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
            drop(fds);
            let mut ready = ready.into_iter();
            if out_open && ready.next() == Some(true) {
                out_open = read_chunk(&mut out, &mut said)?;
            }
            if err_open && ready.next() == Some(true) {
                err_open = read_chunk(&mut err, &mut complained)?;
            }
        }
        Ok((said, complained))
    }
}

/// The paths of files that differ from a commit.
#[derive(Debug, Default)]
pub struct RepositoryChanges {
    pub tracked: Vec<String>,
    pub untracked: Vec<String>,
}

/// The arguments of a diff that starts no program. The dirty state of a submodule would come from a git process with the
/// submodule's own configuration.
fn diff_args<'a>(form: &[&'a str], since: &'a str) -> Vec<&'a str> {
    let safe = [
        "--no-color",
        "--no-ext-diff",
        "--no-textconv",
        "--ignore-submodules=dirty",
    ];
    let mut args = vec!["diff"];
    args.extend_from_slice(form);
    args.extend(safe);
    args.extend([since, "--"]);
    args
}

fn nul_separated(list: &str) -> Vec<String> {
    let entries = list.split('\0').filter(|entry| !entry.is_empty());
    entries.map(str::to_owned).collect()
}

/// A path without control characters.
pub fn printable(path: &str) -> String {
    let chars = path.chars();
    chars
        .map(|c| if c.is_control() { '?' } else { c })
        .collect()
}

/// Reads a chunk. `false` is the end of the file.
fn read_chunk(from: &mut impl Read, into: &mut Vec<u8>) -> Result<bool, String> {
    let mut piece = [0; 16 * 1024];
    match from.read(&mut piece) {
        Ok(0) => Ok(false),
        Ok(count) => {
            into.extend_from_slice(&piece[..count]);
            if into.len() as u64 > MAX_OUTPUT_BYTES {
                return Err("git has too much to say".to_owned());
            }
            Ok(true)
        }
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(true),
        Err(error) => Err(format!("git: {error}")),
    }
}
