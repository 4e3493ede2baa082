//! Shell integration: starts interactive shells such that they mark their prompts, commands, exit codes and directory.
//!
//! The marks are OSC 133 with a secret in them (`k=…`): A before the prompt, B after it, C before a command runs,
//! `D;code` after the command, `P;…;cwd=…` after a change of directory. A mark without the secret is ordinary output of
//! a program.
//!
//! This module writes the integration's files and returns the arguments and variables to start a shell with them. It starts
//! no shell, does not read or change the user's files, and generates no secrets.
//!
//! The shell receives the secret in a file ([`write_secret`]). The integration's rc file first reads the secret into a
//! variable that is not exported, and empties the file. So the secret is in no environment and on no command line, where
//! `/proc/PID/environ` and `/proc/PID/cmdline` would show it for the life of the shell. bash, zsh and the POSIX shells read
//! fugue's file before the user's files; fish reads the user's configuration first, so programs that the configuration
//! starts could find the secret. Not protected against: processes of the same user that read the shell's memory (ptrace,
//! `/proc/PID/mem`) or fugue's own state. The output log has the marks as printed, and the pane's record has the secret for
//! the next daemon.
//!
//! | shell | entry point | requires |
//! |---|---|---|
//! | bash | `--rcfile`, which then reads `~/.bashrc` | 5.1; an older bash runs without integration |
//! | zsh | `ZDOTDIR` for the length of one `.zshenv` | no `ZDOTDIR` in the system's `zshenv` |
//! | fish | `-C 'source …'` | 3.4 |
//!
//! | shell of a pipeline | entry point | steps run |
//! |---|---|---|
//! | bash | `--posix` with `ENV`, which then ends POSIX mode | in `PROMPT_COMMAND`, at top level |
//! | zsh | the same `.zshenv`, which then turns off all other files | in an event of `zsh/sched`, at top level |
//! | fish | the same `-C`, without a config | in `-C`, outside of functions |
//! | sh, dash, an old bash | `ENV` | in the `ENV` file, at the start only: [`WAKE`] has no effect |
//!
//! The same hooks run a pipeline's steps, which the daemon writes to files ([`steps`]). A key ([`WAKE`]) makes a shell at
//! its prompt look for steps; a shell that was started for a pipeline ([`bare`]) looks for them when it starts, and reads
//! none of the user's files.

pub mod steps;

use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The file with the secret for the shell, in the directory of the steps. The rc files contain the same name.
pub const SECRET_FILE: &str = "secret";

/// The variable with the directory of the shell's secret and steps. The integration unsets it before the user's files run,
/// except in fish, which reads the user's files first.
pub const STEPS_DIR: &str = "FUGUE_STEPS_DIR";

/// The keys that the daemon types at the prompt of a shell that has steps to run: the integration sets a draft aside, runs
/// the steps and restores the draft. Without steps the shell only prints a new prompt. Ctrl-X Ctrl-_ Ctrl-P has no default
/// binding in any shell, no Escape, after which vi modes wait, and no effect in a terminal in its normal mode.
pub const WAKE: &[u8] = b"\x18\x1f\x10";

/// Set for a shell that was started for a pipeline.
const IS_BARE: &str = "FUGUE_SHELL_BARE";

/// The user's `ZDOTDIR`, for fugue's `.zshenv`.
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

/// The kind of a shell, by the name of its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShellKind {
    Bash,
    Zsh,
    Fish,
    /// `sh` and similar shells, also where `sh` is bash, which then reads no rc file. Typed commands are not marked, but a
    /// pipeline can run in a shell of this kind.
    Posix,
    Other,
}

impl ShellKind {
    pub fn from_path(shell: &Path) -> ShellKind {
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

/// Whether a shell that [`interactive`] started takes steps at its prompt, after its first mark.
pub fn takes_steps(kind: ShellKind) -> bool {
    match kind {
        ShellKind::Bash | ShellKind::Zsh | ShellKind::Fish => true,
        ShellKind::Posix | ShellKind::Other => false,
    }
}

/// The files of the integration in `dir` that are missing or not those of this version.
pub fn outdated_files(dir: &Path) -> Vec<PathBuf> {
    let is_current =
        |path: &Path, text: &str| fs::read(path).is_ok_and(|found| found == text.as_bytes());
    let files = FILES.iter().map(|(name, text)| (dir.join(name), *text));
    let outdated = files.filter(|(path, text)| !is_current(path, text));
    outdated.map(|(path, _)| path).collect()
}

/// The arguments and variables to start a shell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShellLaunch {
    /// The shell, then its arguments.
    pub argv: Vec<OsString>,
    pub env_set: Vec<(OsString, OsString)>,
    /// Removed before `env_set` is applied.
    pub env_remove: Vec<OsString>,
    /// Whether the shell is started with integration. Only the first mark proves that the integration works: an old bash, or
    /// an rc file that ends in `exec`, prints none.
    pub integrated: bool,
    /// The shell that is started in place of a requested shell that cannot take steps.
    pub instead: Option<PathBuf>,
}

/// Writes the integration's files into `dir`, readable only by the user. An up-to-date file is not touched, and any other
/// is replaced by a rename, because a shell may be reading the old file.
pub fn install(dir: &Path) -> io::Result<()> {
    for private in [dir, &dir.join(ZDOTDIR)] {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(private)?;
        fs::set_permissions(private, Permissions::from_mode(0o700))?;
    }
    for (name, text) in FILES {
        write_if_changed(&dir.join(name), text)?;
    }
    Ok(())
}

/// Writes the secret for the next shell, which empties the file. Needed before each start: a shell that a step ended is
/// started again.
pub fn write_secret(steps: &Path, secret: &str) -> io::Result<()> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(steps)?;
    replace(&steps.join(SECRET_FILE), &format!("{secret}\n"))
}

/// The launch of `shell` for a person or an agent, in an environment `env`, with the files that [`install`] wrote to `dir`
/// and a directory `steps` for later steps. The secret consists of letters and digits. The launch does not contain the
/// secret: [`write_secret`] must be called before the start.
pub fn interactive(
    shell: &Path,
    dir: &Path,
    secret: &str,
    steps: &Path,
    env: &[(OsString, OsString)],
) -> ShellLaunch {
    let mut launch = plain(shell);
    if !is_secret(secret) {
        return launch;
    }
    match ShellKind::from_path(shell) {
        ShellKind::Bash => {
            let rc = dir.join(BASH);
            // In POSIX mode bash reads $ENV and no rc file, so the file of the secret would not be emptied.
            if is_missing(&rc) || get(env, "POSIXLY_CORRECT").is_some() {
                return launch;
            }
            launch.argv.splice(1..1, ["--rcfile".into(), rc.into()]);
        }
        ShellKind::Zsh => {
            let ours = dir.join(ZDOTDIR);
            if is_missing(&dir.join(ZSHENV)) || system_sets_zdotdir() {
                return launch;
            }
            launch.env_set.extend(zdotdir(ours, env));
        }
        ShellKind::Fish => {
            let script = dir.join(FISH);
            if is_missing(&script) {
                return launch;
            }
            // The marks of fish 4 itself are switched off, so that only those of the integration are printed. Versions without
            // the feature ignore the option.
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

/// The launch of `shell` for the steps in `steps`, and afterwards for people who use the pane. None of the user's files is
/// read, so that a step behaves as in a script.
pub fn bare(
    shell: &Path,
    dir: &Path,
    secret: &str,
    steps: &Path,
    env: &[(OsString, OsString)],
) -> ShellLaunch {
    let kind = match ShellKind::from_path(shell) {
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
    if !is_secret(secret) || is_missing(&file) {
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
            // Not an rc file: some systems' bash reads a system-wide rc file first.
            set("ENV", file.into());
            launch.argv.insert(1, "--posix".into());
        }
        ShellKind::Zsh => {
            launch.env_set.extend(zdotdir(dir.join(ZDOTDIR), env));
            // No global files except `zshenv`, which every zsh reads; fugue's `.zshenv` then turns off all other files.
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

/// Whether a file of the integration has been removed. A file that cannot be examined now counts as present: a pipeline would
/// wait in vain for the marks of a shell that was started without its file.
fn is_missing(file: &Path) -> bool {
    fs::metadata(file).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

/// The variables that make zsh read fugue's `.zshenv`, which restores the user's `ZDOTDIR`.
fn zdotdir(ours: PathBuf, env: &[(OsString, OsString)]) -> Vec<(OsString, OsString)> {
    // fugue's own ZDOTDIR in the environment comes from a shell that ended before its `.zshenv` restored the user's.
    let theirs = get(env, "ZDOTDIR").filter(|theirs| *theirs != ours);
    let theirs = theirs.map(|theirs| (USER_ZDOTDIR.into(), theirs.into()));
    theirs
        .into_iter()
        .chain([("ZDOTDIR".into(), ours.into())])
        .collect()
}

fn plain(shell: &Path) -> ShellLaunch {
    ShellLaunch {
        argv: vec![shell.into(), "-i".into()],
        env_set: Vec::new(),
        env_remove: [STEPS_DIR, IS_BARE, USER_ZDOTDIR]
            .map(OsString::from)
            .into(),
        integrated: false,
        instead: None,
    }
}

/// Whether a secret has only characters that cannot end a mark and are no shell syntax.
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

/// Whether a system-wide zshenv, which zsh reads before it uses `ZDOTDIR`, sets that variable. Then zsh would not read
/// fugue's `.zshenv`, and the secret would stay in its file.
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

fn write_if_changed(file: &Path, text: &str) -> io::Result<()> {
    let mode = fs::symlink_metadata(file).map(|found| found.permissions().mode() & 0o777);
    if mode.is_ok_and(|mode| mode == 0o600)
        && fs::read(file).is_ok_and(|found| found == text.as_bytes())
    {
        return Ok(());
    }
    replace(file, text)
}

/// Writes a file, readable only by the user, under another name and renames the complete file.
fn replace(file: &Path, text: &str) -> io::Result<()> {
    let mut name = file.as_os_str().to_owned();
    // The pid keeps apart two daemons that start at once. A leftover with this name is from an ended process of the same pid.
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

    fn launch(shell: &str, env: &[(&str, &str)]) -> (ShellLaunch, tempfile::TempDir) {
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

    fn set<'a>(launch: &'a ShellLaunch, name: &str) -> Option<&'a OsStr> {
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
            assert_eq!(ShellKind::from_path(Path::new(path)), kind, "{path}");
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
    fn a_file_that_cannot_be_examined_is_not_taken_for_missing() {
        // Below a file instead of a directory the error is not "not found".
        let file = Path::new("/dev/null");
        for shell in ["bash", "zsh", "fish"] {
            let launches = [interactive, bare];
            for launch in launches {
                let launch = launch(Path::new(shell), file, "abcd1234", Path::new("/s"), &[]);
                assert!(launch.integrated, "{shell}");
            }
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
            write_secret(&steps, "abcd1234").expect("handed over");
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
