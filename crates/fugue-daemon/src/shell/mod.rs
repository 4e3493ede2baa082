//! How an interactive shell is started so that it marks its prompts, commands, exit codes and directory.
//!
//! The marks are OSC 133 with a secret in them (`k=…`): A before the prompt, B after it, C before a command runs,
//! `D;code` when it ended, `P;…;cwd=…` when the directory changed. A mark without the secret is just something that
//! a program printed.
//!
//! This module writes the integration's files and says how to start a shell with them. It never starts one, never
//! reads or changes a file of the user's, and makes no secrets.
//!
//! The secret comes to the shell in a file ([`hand_over`]), which our rc file reads into a variable that is not exported
//! and empties before it does anything else. So it is in no process' environment and on no command line, where
//! `/proc/PID/environ` and `/proc/PID/cmdline` would show it for as long as the shell lives. bash, zsh and the POSIX shells
//! read our file before any of the user's; fish reads the user's configuration first, so programs that the
//! configuration itself starts could find the file. Out of scope is who reads the shell's memory (ptrace,
//! `/proc/PID/mem`) or fugue's own state as the same user: the output log has the marks as they were printed, and the
//! pane's record has the secret for the next daemon.
//!
//! | shell | way in | asks for |
//! |---|---|---|
//! | bash | `--rcfile`, which then reads `~/.bashrc` | 5.1; an older one runs as if we were not there |
//! | zsh | `ZDOTDIR` for the length of one `.zshenv` | no `ZDOTDIR` in the system's `zshenv` |
//! | fish | `-C 'source …'` | 3.4 |
//!
//! | a pipeline's own | way in | its steps run |
//! |---|---|---|
//! | bash | `PROMPT_COMMAND` | in that, at top level |
//! | zsh | the same `.zshenv`, which then wants no other file | in an event of `zsh/sched`, at top level |
//! | fish | the same `-C`, without a config | there, outside of functions |
//! | sh, dash, an old bash | `ENV` | there; it cannot be woken later |
//!
//! The same hooks run a pipeline's steps, which the daemon lays out in files ([`steps`]). A shell that sits at its
//! prompt is told so by a key ([`WAKE`]); a pipeline's own shell ([`bare`]) finds them when it starts, and reads none of
//! the user's files.

pub mod steps;

use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The file in the directory of the steps that hands the secret to the shell. Our rc files name it too.
pub const SECRET_FILE: &str = "secret";

/// The variable that tells the shell where its secret and its steps are. The shell forgets it before the user's own files
/// run, but for fish, which reads those first.
pub const STEPS_DIR: &str = "FUGUE_STEPS_DIR";

/// What the daemon types at the prompt of a shell that has steps to run: the half-typed line goes aside, the steps run,
/// and the line is there again. Without steps nothing happens but a new prompt. Ctrl-X Ctrl-_ Ctrl-P: bound by default in
/// no shell, without the Escape that vi modes wait on, and nothing that a terminal in its normal mode acts on.
pub const WAKE: &[u8] = b"\x18\x1f\x10";

/// Tells our files that the shell is a pipeline's own.
const IS_BARE: &str = "FUGUE_SHELL_BARE";

/// Where our `.zshenv` finds the `ZDOTDIR` that the user has.
const USER_ZDOTDIR: &str = "FUGUE_USER_ZDOTDIR";

const BASH: &str = "bash.sh";
const FISH: &str = "fish.fish";
const POSIX: &str = "posix.sh";
const ZDOTDIR: &str = "zsh";
const ZSHENV: &str = "zsh/.zshenv";

const FILES: [(&str, &str); 8] = [
    (BASH, include_str!("bash.sh")),
    (ZSHENV, include_str!("zsh/zshenv.zsh")),
    ("zsh/steps.zsh", include_str!("zsh/steps.zsh")),
    ("zsh/run.zsh", include_str!("zsh/run.zsh")),
    (FISH, include_str!("fish.fish")),
    ("steps.fish", include_str!("steps.fish")),
    (POSIX, include_str!("posix.sh")),
    ("posix-run.sh", include_str!("posix-run.sh")),
];

/// The shells we can talk to, told by their name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShellKind {
    Bash,
    Zsh,
    Fish,
    /// `sh` and its like, even where that is a bash: under that name bash reads no rc file. It marks nothing that is
    /// typed, but a pipeline can have one of its own.
    Posix,
    Other,
}

impl ShellKind {
    pub fn of(shell: &Path) -> ShellKind {
        match shell.file_name().map(OsStr::as_bytes) {
            Some(b"bash") => ShellKind::Bash,
            Some(b"zsh") => ShellKind::Zsh,
            Some(b"fish") => ShellKind::Fish,
            Some(b"sh" | b"dash" | b"ash" | b"ksh" | b"ksh93" | b"mksh" | b"oksh" | b"yash") => {
                ShellKind::Posix
            }
            Some(_) | None => ShellKind::Other,
        }
    }
}

/// Whether a shell that [`interactive`] started takes steps at its prompt, once its first mark has come.
pub fn takes_steps(kind: ShellKind) -> bool {
    match kind {
        ShellKind::Bash | ShellKind::Zsh | ShellKind::Fish => true,
        ShellKind::Posix | ShellKind::Other => false,
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
    /// What is started in place of the shell that was asked for, which takes no steps.
    pub instead: Option<PathBuf>,
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

/// Writes the secret where a shell that is started next finds it, and empties the file. For each start anew: a shell that a
/// step ended is started again.
pub fn hand_over(steps: &Path, secret: &str) -> io::Result<()> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(steps)?;
    replace(&steps.join(SECRET_FILE), &format!("{secret}\n"))
}

/// How to start `shell` for a person or an agent to type into, in an environment `env`, with the files that
/// [`install`] put into `dir` and steps that will be laid out in `steps`. The secret is letters and digits, the longer the
/// better; it is not part of the launch and wants to be handed over ([`hand_over`]) before the start.
pub fn interactive(
    shell: &Path,
    dir: &Path,
    secret: &str,
    steps: &Path,
    env: &[(OsString, OsString)],
) -> Launch {
    let mut launch = plain(shell);
    if !is_secret(secret) {
        return launch;
    }
    match ShellKind::of(shell) {
        ShellKind::Bash => {
            let rc = dir.join(BASH);
            // In POSIX mode bash reads $ENV and no rc file, and nobody would empty the secret's file.
            if !rc.is_file() || get(env, "POSIXLY_CORRECT").is_some() {
                return launch;
            }
            launch.argv.splice(1..1, ["--rcfile".into(), rc.into()]);
        }
        ShellKind::Zsh => {
            let ours = dir.join(ZDOTDIR);
            if !dir.join(ZSHENV).is_file() || system_sets_zdotdir() {
                return launch;
            }
            launch.env_set.extend(zdotdir(ours, env));
        }
        ShellKind::Fish => {
            let script = dir.join(FISH);
            if !script.is_file() {
                return launch;
            }
            // fish 4 has marks of its own, which are switched off so that only ours are there. Versions that do not
            // know a feature say nothing about it.
            let features = ["--features".into(), "no-mark-prompt".into()];
            launch.argv.splice(1..1, features);
            launch.argv.push("-C".into());
            launch.argv.push(source(&script));
        }
        ShellKind::Posix | ShellKind::Other => return launch,
    }
    launch.env_set.push((STEPS_DIR.into(), steps.into()));
    launch.integrated = true;
    launch
}

/// How to start `shell` for the steps that are laid out in `steps`, and afterwards for whoever looks at the pane. None of
/// the user's files is read, so that a step gives what it would give in a script.
pub fn bare(
    shell: &Path,
    dir: &Path,
    secret: &str,
    steps: &Path,
    env: &[(OsString, OsString)],
) -> Launch {
    let kind = match ShellKind::of(shell) {
        ShellKind::Bash if get(env, "POSIXLY_CORRECT").is_some() => ShellKind::Posix,
        ShellKind::Zsh if system_sets_zdotdir() => ShellKind::Other,
        kind => kind,
    };
    let file = match kind {
        ShellKind::Bash => BASH,
        ShellKind::Zsh => ZSHENV,
        ShellKind::Fish => FISH,
        ShellKind::Posix | ShellKind::Other => POSIX,
    };
    let file = dir.join(file);
    let sh = Path::new("/bin/sh");
    let mut launch = match kind {
        ShellKind::Bash | ShellKind::Zsh | ShellKind::Fish | ShellKind::Posix => plain(shell),
        ShellKind::Other => plain(sh),
    };
    if !is_secret(secret) || !file.is_file() {
        return launch;
    }
    if kind == ShellKind::Other {
        launch.instead = Some(sh.into());
    }
    let mut set = |name: &str, value: OsString| launch.env_set.push((name.into(), value));
    set(STEPS_DIR, steps.into());
    set(IS_BARE, "1".into());
    match kind {
        ShellKind::Bash => {
            // Not an rc file, which some systems read after one of their own.
            set("ENV", file.into());
            launch.argv.insert(1, "--posix".into());
        }
        ShellKind::Zsh => {
            launch.env_set.extend(zdotdir(dir.join(ZDOTDIR), env));
            // No global files but the one that every zsh reads; ours then says that there are no others.
            launch.argv.insert(1, "-d".into());
        }
        ShellKind::Fish => {
            let flags = ["--no-config", "--features", "no-mark-prompt"];
            launch.argv.splice(1..1, flags.map(OsString::from));
            launch.argv.push("-C".into());
            launch.argv.push(source(&file));
        }
        ShellKind::Posix | ShellKind::Other => set("ENV", file.into()),
    }
    launch.integrated = true;
    launch
}

/// Leads zsh to our `.zshenv`, and that to where the user has theirs.
fn zdotdir(ours: PathBuf, env: &[(OsString, OsString)]) -> Vec<(OsString, OsString)> {
    // A ZDOTDIR of ours here came from a shell that did not get as far as putting its own back.
    let theirs = get(env, "ZDOTDIR").filter(|theirs| *theirs != ours);
    let theirs = theirs.map(|theirs| (USER_ZDOTDIR.into(), theirs.into()));
    theirs
        .into_iter()
        .chain([("ZDOTDIR".into(), ours.into())])
        .collect()
}

fn plain(shell: &Path) -> Launch {
    Launch {
        argv: vec![shell.into(), "-i".into()],
        env_set: Vec::new(),
        env_remove: [STEPS_DIR, IS_BARE, USER_ZDOTDIR]
            .map(OsString::from)
            .into(),
        integrated: false,
        instead: None,
    }
}

/// A secret that could end a mark, or be taken for shell syntax, is none.
fn is_secret(secret: &str) -> bool {
    secret.len() >= 2 && secret.bytes().all(|b| b.is_ascii_alphanumeric())
}

fn get<'a>(env: &'a [(OsString, OsString)], name: &str) -> Option<&'a OsStr> {
    env.iter()
        .rfind(|(key, _)| key == name)
        .map(|(_, value)| value.as_os_str())
}

/// `source '<script>'`, in fish's quoting.
fn source(script: &Path) -> OsString {
    let mut command = b"source '".to_vec();
    for &byte in script.as_os_str().as_bytes() {
        if matches!(byte, b'\'' | b'\\') {
            command.push(b'\\');
        }
        command.push(byte);
    }
    command.push(b'\'');
    OsString::from_vec(command)
}

/// zsh reads this file before it looks at `ZDOTDIR`. One that sets it would lead zsh past our `.zshenv`, and the
/// secret would stay in its file.
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
    replace(file, text)
}

/// Writes a whole file, for us alone, and gives it its name when it is complete.
fn replace(file: &Path, text: &str) -> io::Result<()> {
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
        let launch = interactive(
            Path::new(shell),
            dir.path(),
            "abcd1234",
            Path::new("/s"),
            &env,
        );
        (launch, dir)
    }

    fn set<'a>(launch: &'a Launch, name: &str) -> Option<&'a OsStr> {
        get(&launch.env_set, name)
    }

    #[test]
    fn a_shell_is_known_by_its_name() {
        for (path, kind) in [
            ("/bin/bash", ShellKind::Bash),
            ("zsh", ShellKind::Zsh),
            ("/opt/homebrew/bin/fish", ShellKind::Fish),
            ("/bin/sh", ShellKind::Posix),
            ("/bin/dash", ShellKind::Posix),
            ("/usr/bin/tcsh", ShellKind::Other),
            ("/bin/rbash", ShellKind::Other),
            ("/", ShellKind::Other),
        ] {
            assert_eq!(ShellKind::of(Path::new(path)), kind, "{path}");
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
            assert!(launch.env_remove.contains(&STEPS_DIR.into()));
        }
    }

    #[test]
    fn without_installed_files_or_with_a_bad_secret_nothing_is_promised() {
        let (_, dir) = launch("/bin/bash", &[]);
        for secret in ["", "a", "a;b", "a b", "a\u{1b}\\b"] {
            assert!(
                !interactive(
                    Path::new("/bin/bash"),
                    dir.path(),
                    secret,
                    Path::new("/s"),
                    &[]
                )
                .integrated
            );
        }
        let nowhere = dir.path().join("nowhere");
        for shell in ["bash", "zsh", "fish"] {
            assert!(
                !interactive(Path::new(shell), &nowhere, "abcd1234", Path::new("/s"), &[])
                    .integrated
            );
        }
    }

    #[test]
    fn zsh_is_told_the_users_zdotdir_but_never_our_own() {
        let (found, dir) = launch("/bin/zsh", &[("ZDOTDIR", "/a b")]);
        assert_eq!(set(&found, USER_ZDOTDIR), Some(OsStr::new("/a b")));
        let ours = dir.path().join(ZDOTDIR);
        assert_eq!(set(&found, "ZDOTDIR"), Some(ours.as_os_str()));

        let env = [("ZDOTDIR".into(), ours.into())];
        let found = interactive(
            Path::new("zsh"),
            dir.path(),
            "abcd1234",
            Path::new("/s"),
            &env,
        );
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
    fn no_shell_gets_the_secret_by_its_environment_or_its_arguments() {
        let (_, dir) = launch("/bin/bash", &[]);
        for shell in ["bash", "zsh", "fish", "sh", "tcsh"] {
            for how in [interactive, bare] {
                let (shell, steps) = (Path::new(shell), Path::new("/s"));
                let found = how(shell, dir.path(), "abcd1234", steps, &[]);
                let all = format!("{found:?}");
                assert!(!all.contains("abcd") && !all.contains("1234"), "{all}");
            }
        }
        assert_eq!(source(Path::new("/a'b\\c")), r"source '/a\'b\\c'");
    }

    #[test]
    fn a_secret_is_handed_over_in_a_private_file_for_each_start() {
        let dir = tempfile::tempdir().expect("a directory");
        let steps = dir.path().join("p1/steps");
        for _start in 0..2 {
            hand_over(&steps, "abcd1234").expect("handed over");
            let file = steps.join(SECRET_FILE);
            assert_eq!(fs::read_to_string(&file).expect("there"), "abcd1234\n");
            let mode = fs::metadata(&file).expect("there").permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
            fs::write(&file, "").expect("the shell empties it");
        }
        assert_eq!(fs::read_dir(&steps).expect("list").count(), 1);
    }

    #[test]
    fn a_pipelines_own_shell_reads_nothing_of_the_users() {
        let (_, dir) = launch("/bin/bash", &[]);
        let of = |shell: &str| {
            bare(
                Path::new(shell),
                dir.path(),
                "abcd1234",
                Path::new("/s"),
                &[],
            )
        };
        for (shell, argv) in [
            ("/bin/bash", &["/bin/bash", "--posix", "-i"][..]),
            ("/bin/zsh", &["/bin/zsh", "-d", "-i"]),
            ("/bin/dash", &["/bin/dash", "-i"]),
            ("/usr/bin/tcsh", &["/bin/sh", "-i"]),
        ] {
            let found = of(shell);
            assert_eq!(found.argv, argv);
            assert!(found.integrated);
            assert_eq!(found.instead.is_some(), shell.ends_with("tcsh"));
            assert_eq!(set(&found, STEPS_DIR), Some(OsStr::new("/s")));
        }
        assert!(of("fish").argv.contains(&"--no-config".into()));

        let nowhere = dir.path().join("nowhere");
        for shell in ["bash", "zsh", "fish", "sh", "tcsh"] {
            let found = bare(Path::new(shell), &nowhere, "abcd1234", &nowhere, &[]);
            assert!(!found.integrated, "{shell}");
            assert_eq!(found.env_set, []);
        }
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
        assert_eq!(names, 6, "no temporary file is left");
    }
}
