//! git, asked with a time limit and without anything that a repository's own configuration could start.
//!
//! A repository is written by whoever works in it, and the daemon is outside of their sandbox. Two things keep its
//! configuration from naming a program here:
//!
//! - Commands that only look at refs and at the list of worktrees read no file's content. What they could start has fixed
//!   names (hooks, the file system monitor, a transport) and is overridden for every call.
//! - Commands that read or write files of a tree run filters, whose names a repository chooses. They get a common
//!   directory of ours (`GIT_COMMON_DIR`) in which the configuration is a copy of the few keys that say how files are
//!   compared, so that there is nothing to override, and nothing changes between the look and the use.
//!
//! The person's own configuration (system and global) is read as always: a filter that is defined there (Git LFS) runs.

mod snapshot;

use std::{
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
    /// A directory of the daemon's own, for copies of configurations.
    scratch: &'a Path,
    deadline: Instant,
}

/// Whether a call sees the repository's own configuration.
enum GitConfig<'a> {
    Repository,
    Snapshot(&'a ConfigSnapshot),
}

/// Overrides for every call: all that can be started by its fixed name, with the transports that fetch missing objects.
const OVERRIDES: &[(&str, &str)] = &[
    ("core.hooksPath", "/dev/null"),
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

// A listing of a huge repository is cut long before this.
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

    /// The repository around, if there is one.
    pub fn repository(&self) -> Option<WorkerRepo> {
        let root = self.query(&["rev-parse", "--show-toplevel"]).ok()?;
        let commit = self.query(&["rev-parse", "--verify", "-q", "HEAD"]);
        Some(WorkerRepo {
            root: PathBuf::from(root.trim_end_matches('\n')),
            commit: commit.unwrap_or_default().trim().to_owned(),
        })
    }

    /// A tree for a worker, and the name of its branch.
    pub fn add_worktree(
        &self,
        tree: &Path,
        worker: &WorkerRecord,
        commit: &str,
    ) -> Result<String, Error> {
        if tree.exists() {
            // An earlier daemon got as far as this.
            let branch = self
                .in_tree(tree)
                .query(&["symbolic-ref", "--short", "HEAD"]);
            if let Ok(branch) = branch {
                return Ok(branch.trim().to_owned());
            }
            self.remove_worktree(tree);
        }
        let own = format!("fugue/{}", worker.args.name);
        let next = format!("{own}-{}", worker.number);
        let is_free = |branch: &String| {
            let name = format!("refs/heads/{branch}");
            self.query(&["show-ref", "--verify", "-q", &name]).is_err()
        };
        // An earlier worker of that name may have left its work on the branch.
        let branch = if is_free(&own) { own } else { next };
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
            .query(&add)
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

    /// The tree and the branch that was made with it.
    pub fn remove_worktree(&self, tree: &Path) {
        let branch = self
            .in_tree(tree)
            .query(&["symbolic-ref", "--short", "HEAD"]);
        let path = tree.to_string_lossy();
        if self
            .query(&["worktree", "remove", "--force", &path])
            .is_err()
        {
            let _ = std::fs::remove_dir_all(tree);
            let _ = self.query(&["worktree", "prune"]);
        }
        if let Ok(branch) = branch
            && branch.starts_with("fugue/")
        {
            let _ = self.query(&["branch", "-q", "-D", branch.trim()]);
        }
    }

    /// A line for each file that is not as it was at `commit`.
    pub fn changes(&self, commit: &str) -> Result<Vec<String>, String> {
        let snapshot = ConfigSnapshot::of(self)?;
        let config = GitConfig::Snapshot(&snapshot);
        let empty;
        let since = if commit.is_empty() {
            empty = self.call(&["hash-object", "-t", "tree", "/dev/null"], &config)?;
            empty.trim()
        } else {
            commit
        };
        // Whether a submodule is dirty is asked of a git inside of it, with that repository's configuration.
        let diff = [
            "diff",
            "--stat=120",
            "--no-color",
            "--no-ext-diff",
            "--no-textconv",
            "--ignore-submodules=dirty",
            since,
            "--",
        ];
        let stat = self.call(&diff, &config)?;
        // The last line counts the others.
        let mut changes: Vec<String> = stat
            .lines()
            .filter(|line| line.contains(" | "))
            .map(|line| line.trim().to_owned())
            .collect();
        let others = ["ls-files", "--others", "--exclude-standard", "-z"];
        let untracked = self.call(&others, &config)?;
        let files = untracked.split('\0').filter(|file| !file.is_empty());
        changes.extend(files.map(|file| {
            let shown: String = file
                .chars()
                .map(|c| if c.is_control() { '?' } else { c })
                .collect();
            format!("{shown} | untracked")
        }));
        Ok(changes)
    }

    fn query(&self, args: &[&str]) -> Result<String, String> {
        self.call(args, &GitConfig::Repository)
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
            // What git starts is ended with it.
            .process_group(0);
        // Whoever started the daemon may have been inside another repository. Where the person's own configuration is
        // stays as they said.
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
            // An older git knows only this: no transport is allowed.
            .env("GIT_ALLOW_PROTOCOL", "")
            .env("LC_ALL", "C.UTF-8")
            .env("GIT_CONFIG_COUNT", OVERRIDES.len().to_string());
        for (index, (key, value)) in OVERRIDES.iter().enumerate() {
            command
                .env(format!("GIT_CONFIG_KEY_{index}"), key)
                .env(format!("GIT_CONFIG_VALUE_{index}"), value);
        }
        if let GitConfig::Snapshot(snapshot) = config {
            command.envs(snapshot.variables());
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

    /// Both outputs to their ends, as long as there is time.
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

/// Reads what is there. `false`: that was all.
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
