//! How an interactive shell is started so that it marks its prompts, commands, exit codes and directory.
//!
//! The marks are OSC 133 with a secret in them (`k=…`): A before the prompt, B after it, C before a command runs,
//! `D;code` when it ended, `P;…;cwd=…` when the directory changed. A mark without the secret is just something that
//! a program printed.
//!
//! This module writes the integration's files and says how to start a shell with them. It never starts one, never
//! reads or changes a file of the user's, and makes no secrets.
//!
//! | shell | way in | asks for |
//! |---|---|---|
//! | bash | `--rcfile`, which then reads `~/.bashrc` | 5.1; an older one runs as if we were not there |
//! | zsh | `ZDOTDIR` for the length of one `.zshenv` | no `ZDOTDIR` in the system's `zshenv` |
//! | fish | `-C 'source …'` | 3.4 |
//!
//! A pipeline will later reach such a shell through a private channel that is read in the same prompt hooks; see the
//! comments there.

use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// The variable that carries the secret to the shell. The shell forgets it before the user's own files run; in fish,
/// which reads those first, it carries only half.
pub const SECRET: &str = "FUGUE_SHELL_SECRET";

/// Where our `.zshenv` finds the `ZDOTDIR` that the user has.
const USER_ZDOTDIR: &str = "FUGUE_USER_ZDOTDIR";

const BASH: &str = "bash.sh";
const FISH: &str = "fish.fish";
const ZDOTDIR: &str = "zsh";
const ZSHENV: &str = "zsh/.zshenv";

const FILES: [(&str, &str); 3] = [
    (BASH, include_str!("bash.sh")),
    (ZSHENV, include_str!("zsh/zshenv.zsh")),
    (FISH, include_str!("fish.fish")),
];

/// The shells we can talk to, told by their name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Bash,
    Zsh,
    Fish,
    /// Anything else, `sh` included even where it is a bash: under that name bash reads no rc file.
    Other,
}

impl Kind {
    pub fn of(shell: &Path) -> Kind {
        match shell.file_name().map(OsStr::as_bytes) {
            Some(b"bash") => Kind::Bash,
            Some(b"zsh") => Kind::Zsh,
            Some(b"fish") => Kind::Fish,
            Some(_) | None => Kind::Other,
        }
    }
}

/// How to start a shell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launch {
    /// With the shell itself as the first.
    pub argv: Vec<OsString>,
    pub env_set: Vec<(OsString, OsString)>,
    /// Removed before `env_set` is applied.
    pub env_remove: Vec<OsString>,
    /// Whether the shell was told how to mark. Only the first mark shows that it does: an old bash, or an rc file that
    /// ends in `exec`, gives none.
    pub integrated: bool,
}

/// Writes the integration's files into `dir` (made if it is not there), for us alone. A file that is right already is
/// not touched, and one that is not is replaced whole: a shell may be reading it just now.
pub fn install(dir: &Path) -> io::Result<()> {
    for private in [dir, &dir.join(ZDOTDIR)] {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(private)?;
        fs::set_permissions(private, Permissions::from_mode(0o700))?;
    }
    for (name, text) in FILES {
        write_if_other(&dir.join(name), text)?;
    }
    Ok(())
}

/// How to start `shell` for a person or an agent to type into, in an environment `env`, with the files that
/// [`install`] put into `dir`. The secret is letters and digits; the longer the better.
pub fn interactive(shell: &Path, dir: &Path, secret: &str, env: &[(OsString, OsString)]) -> Launch {
    let mut launch = plain(shell);
    // A secret that could end a mark, or be taken for shell syntax, is none.
    if secret.len() < 2 || !secret.bytes().all(|b| b.is_ascii_alphanumeric()) {
        return launch;
    }
    match Kind::of(shell) {
        Kind::Bash => {
            let rc = dir.join(BASH);
            // In POSIX mode bash reads $ENV and no rc file, and nobody would take the secret out of the environment.
            if !rc.is_file() || get(env, "POSIXLY_CORRECT").is_some() {
                return launch;
            }
            launch.argv.splice(1..1, ["--rcfile".into(), rc.into()]);
            launch.env_set.push((SECRET.into(), secret.into()));
        }
        Kind::Zsh => {
            let ours = dir.join(ZDOTDIR);
            if !dir.join(ZSHENV).is_file() || system_sets_zdotdir() {
                return launch;
            }
            // A ZDOTDIR of ours here came from a shell that did not get as far as putting its own back.
            if let Some(theirs) = get(env, "ZDOTDIR").filter(|theirs| *theirs != ours) {
                launch.env_set.push((USER_ZDOTDIR.into(), theirs.into()));
            }
            launch.env_set.push(("ZDOTDIR".into(), ours.into()));
            launch.env_set.push((SECRET.into(), secret.into()));
        }
        Kind::Fish => {
            let script = dir.join(FISH);
            if !script.is_file() {
                return launch;
            }
            let (in_env, in_argv) = secret.split_at(secret.len() / 2);
            // fish 4 has marks of its own, which are switched off so that only ours are there. Versions that do not
            // know a feature say nothing about it.
            let features = ["--features".into(), "no-mark-prompt".into()];
            launch.argv.splice(1..1, features);
            launch.argv.push("-C".into());
            launch.argv.push(source(&script, in_argv));
            launch.env_set.push((SECRET.into(), in_env.into()));
        }
        Kind::Other => return launch,
    }
    launch.integrated = true;
    launch
}

fn plain(shell: &Path) -> Launch {
    Launch {
        argv: vec![shell.into(), "-i".into()],
        env_set: Vec::new(),
        env_remove: vec![SECRET.into(), USER_ZDOTDIR.into()],
        integrated: false,
    }
}

fn get<'a>(env: &'a [(OsString, OsString)], name: &str) -> Option<&'a OsStr> {
    env.iter()
        .rfind(|(key, _)| key == name)
        .map(|(_, value)| value.as_os_str())
}

/// `source '<script>' <argument>`, in fish's quoting.
fn source(script: &Path, argument: &str) -> OsString {
    let mut command = b"source '".to_vec();
    for &byte in script.as_os_str().as_bytes() {
        if matches!(byte, b'\'' | b'\\') {
            command.push(b'\\');
        }
        command.push(byte);
    }
    command.extend_from_slice(b"' ");
    command.extend_from_slice(argument.as_bytes());
    OsString::from_vec(command)
}

/// zsh reads this file before it looks at `ZDOTDIR`. One that sets it would lead zsh past our `.zshenv`, and the
/// secret would stay in the environment.
fn system_sets_zdotdir() -> bool {
    ["/etc/zshenv", "/etc/zsh/zshenv"]
        .iter()
        .filter_map(|file| fs::read(file).ok())
        .any(|text| mentions_zdotdir(&text))
}

fn mentions_zdotdir(text: &[u8]) -> bool {
    text.split(|&byte| byte == b'\n')
        .filter(|line| !line.trim_ascii_start().starts_with(b"#"))
        .any(|line| line.windows(7).any(|word| word == b"ZDOTDIR"))
}

fn write_if_other(file: &Path, text: &str) -> io::Result<()> {
    let mode = fs::symlink_metadata(file).map(|found| found.permissions().mode() & 0o777);
    if mode.is_ok_and(|mode| mode == 0o600)
        && fs::read(file).is_ok_and(|found| found == text.as_bytes())
    {
        return Ok(());
    }
    let mut name = file.as_os_str().to_owned();
    // Two daemons may start at once, each with its own file to rename; one that is left over is our own pid's.
    name.push(format!(".{}", std::process::id()));
    let new = Path::new(&name);
    let _ = fs::remove_file(new);
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(new)
        .and_then(|mut out| out.write_all(text.as_bytes()))
        .and_then(|()| fs::rename(new, file));
    if written.is_err() {
        let _ = fs::remove_file(new);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launch(shell: &str, env: &[(&str, &str)]) -> (Launch, tempfile::TempDir) {
        let dir = tempfile::tempdir().expect("a directory");
        install(dir.path()).expect("install");
        let env: Vec<_> = env.iter().map(|(k, v)| (k.into(), v.into())).collect();
        let launch = interactive(Path::new(shell), dir.path(), "abcd1234", &env);
        (launch, dir)
    }

    fn set<'a>(launch: &'a Launch, name: &str) -> Option<&'a OsStr> {
        get(&launch.env_set, name)
    }

    #[test]
    fn a_shell_is_known_by_its_name() {
        for (path, kind) in [
            ("/bin/bash", Kind::Bash),
            ("zsh", Kind::Zsh),
            ("/opt/homebrew/bin/fish", Kind::Fish),
            ("/bin/sh", Kind::Other),
            ("/bin/dash", Kind::Other),
            ("/bin/rbash", Kind::Other),
            ("/", Kind::Other),
        ] {
            assert_eq!(Kind::of(Path::new(path)), kind, "{path}");
        }
    }

    #[test]
    fn other_shells_are_started_plainly_and_never_see_a_secret() {
        for (shell, env) in [
            ("/bin/dash", &[][..]),
            ("/bin/bash", &[("POSIXLY_CORRECT", "y")][..]),
        ] {
            let (launch, _dir) = launch(shell, env);
            assert_eq!(launch.argv, [shell, "-i"]);
            assert!(!launch.integrated);
            assert_eq!(launch.env_set, []);
            assert!(launch.env_remove.contains(&SECRET.into()));
        }
    }

    #[test]
    fn without_installed_files_or_with_a_bad_secret_nothing_is_promised() {
        let (_, dir) = launch("/bin/bash", &[]);
        for secret in ["", "a", "a;b", "a b", "a\u{1b}\\b"] {
            assert!(!interactive(Path::new("/bin/bash"), dir.path(), secret, &[]).integrated);
        }
        let nowhere = dir.path().join("nowhere");
        for shell in ["bash", "zsh", "fish"] {
            assert!(!interactive(Path::new(shell), &nowhere, "abcd1234", &[]).integrated);
        }
    }

    #[test]
    fn zsh_is_told_the_users_zdotdir_but_never_our_own() {
        let (found, dir) = launch("/bin/zsh", &[("ZDOTDIR", "/a b")]);
        assert_eq!(set(&found, USER_ZDOTDIR), Some(OsStr::new("/a b")));
        let ours = dir.path().join(ZDOTDIR);
        assert_eq!(set(&found, "ZDOTDIR"), Some(ours.as_os_str()));

        let env = [("ZDOTDIR".into(), ours.into())];
        let found = interactive(Path::new("zsh"), dir.path(), "abcd1234", &env);
        assert_eq!(set(&found, USER_ZDOTDIR), None);
    }

    #[test]
    fn a_system_file_that_moves_zdotdir_is_noticed() {
        for (text, moves) in [
            ("", false),
            ("# ZDOTDIR is not set\n  # nor ZDOTDIR", false),
            ("export PATH=x\n", false),
            ("PATH=x\n export ZDOTDIR=$HOME/.config/zsh # xdg", true),
        ] {
            assert_eq!(mentions_zdotdir(text.as_bytes()), moves, "{text}");
        }
    }

    #[test]
    fn fish_gets_half_of_the_secret_by_each_way() {
        let (found, _dir) = launch("/bin/fish", &[]);
        assert_eq!(set(&found, SECRET), Some(OsStr::new("abcd")));
        let command = found.argv.last().expect("an argument").as_bytes();
        assert!(command.ends_with(b"/fish.fish' 1234"));
        assert_eq!(source(Path::new("/a'b\\c"), "x"), r"source '/a\'b\\c' x");
    }

    #[test]
    fn files_are_private_and_written_only_when_they_differ() {
        let dir = tempfile::tempdir().expect("a directory");
        let dir = dir.path().join("new");
        install(&dir).expect("install");
        let seen = |name: &str| {
            let found = fs::metadata(dir.join(name)).expect("there");
            let inode = std::os::unix::fs::MetadataExt::ino(&found);
            (inode, found.permissions().mode() & 0o777)
        };
        let before = FILES.map(|(name, _)| seen(name));
        install(&dir).expect("again");
        assert_eq!(before, FILES.map(|(name, _)| seen(name)));
        assert!(before.iter().all(|(_, mode)| *mode == 0o600));
        assert_eq!(seen("zsh").1, 0o700);

        fs::write(dir.join(BASH), "old").expect("write");
        install(&dir).expect("once more");
        assert_eq!(
            fs::read_to_string(dir.join(BASH)).expect("read"),
            FILES[0].1
        );
        let names = fs::read_dir(&dir).expect("list").count();
        assert_eq!(names, 3, "no temporary file is left");
    }
}
