//! The environment of a person's login shell, for workers whose lead passes on only part of its own.
//!
//! Codex and Gemini CLI start MCP servers with a short list of variables, so a worker of such a lead would have no keys, no proxies and
//! no language settings. The variables that the lead does not pass on come from the person's interactive login shell, which is run with
//! nothing but the variables of [`BASE`]. The result is kept in memory for [`MAX_AGE`] and never written to a file.

use std::{
    collections::HashSet,
    ffi::{OsStr, OsString},
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use fugue_api::{random_hex, wire::CallerEnv};
use fugue_holder::spawn::ProcessExit;
use tokio::{sync::Mutex, time::timeout};

use crate::{
    agents::session,
    assess::{CapturedProgram, ErrorOutput, describe_exit},
    resolve,
};

/// Variables of a shell.
pub type ShellVariables = Arc<Vec<(OsString, OsString)>>;

/// Caches the environment of the last shell that was asked.
#[derive(Default)]
pub struct ShellEnvironment {
    last: Mutex<Option<CachedEnvironment>>,
}

struct CachedEnvironment {
    shell: LoginShell,
    resolved_at: Instant,
    outcome: Result<ShellVariables, String>,
}

/// A person's shell, and the variables that it starts with.
#[derive(Clone, PartialEq, Eq)]
struct LoginShell {
    program: PathBuf,
    base: Vec<(OsString, OsString)>,
}

// The start of a shell with slow rc files takes a second or two. A spawn waits for it.
const SHELL_TIMEOUT: Duration = Duration::from_secs(5);
// Ten workers that are spawned together ask one shell; a change of an rc file is noticed soon.
const MAX_AGE: Duration = Duration::from_secs(60);
const MAX_OUTPUT_BYTES: usize = 1024 * 1024;

/// What a login starts with. The shell and its files set everything else.
const BASE: [&str; 10] = [
    "HOME",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "LOGNAME",
    "SHELL",
    "TMPDIR",
    "TZ",
    "USER",
    "XDG_RUNTIME_DIR",
];
const BASE_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// Set while the shell is asked, so that rc files can leave out what is only for terminals.
const RESOLVING: &str = "FUGUE_RESOLVING_ENVIRONMENT";

/// Whether variables of the person's shell are added for a worker of this caller: not for a caller whose own environment is
/// complete.
pub fn is_partial(caller: &CallerEnv) -> bool {
    !session::passes_on_its_environment(|name| resolve::variable(caller, name).is_some())
}

impl ShellEnvironment {
    /// The variables of the caller's shell, or why these could not be found out.
    pub async fn resolve(&self, caller: &CallerEnv) -> Result<ShellVariables, String> {
        let shell = LoginShell::of(caller)?;
        // Held while the shell runs: calls at the same time get the same result.
        let mut last = self.last.lock().await;
        if let Some(last) = &*last
            && last.shell == shell
            && last.resolved_at.elapsed() < MAX_AGE
        {
            return last.outcome.clone();
        }
        let outcome = shell.variables().await.map(Arc::new).map_err(|why| {
            format!(
                "the environment of `{} -l -i` is missing: {why}",
                shell.program.display()
            )
        });
        *last = Some(CachedEnvironment {
            shell,
            resolved_at: Instant::now(),
            outcome: outcome.clone(),
        });
        outcome
    }
}

impl LoginShell {
    fn of(caller: &CallerEnv) -> Result<Self, String> {
        let of_caller = |name: &str| Some((OsString::from(name), resolve::variable(caller, name)?));
        let mut base: Vec<_> = BASE.into_iter().filter_map(of_caller).collect();
        base.push(("PATH".into(), BASE_PATH.into()));
        base.push(("TERM".into(), "xterm-256color".into()));
        base.push((RESOLVING.into(), "1".into()));
        let program = resolve::person_shell(caller)
            .ok_or("the environment of the person's shell is missing: there is no shell")?;
        Ok(Self { program, base })
    }

    async fn variables(&self) -> Result<Vec<(OsString, OsString)>, String> {
        let mark = random_hex().map_err(|error| error.message)?;
        // Absolute paths are no aliases. The rc files may print before this, and the shell after it.
        let command = format!("/usr/bin/env printf '\\0%s\\0' {mark}; /usr/bin/env -0");
        let argv = [
            self.program.clone().into_os_string(),
            "-l".into(),
            "-i".into(),
            "-c".into(),
            command.into(),
        ];
        let home = self.base.iter().find(|(name, _)| name == "HOME");
        let home = home.map(|(_, home)| PathBuf::from(home));
        let program = CapturedProgram {
            argv: &argv,
            cwd: home
                .as_deref()
                .filter(|home| home.is_dir())
                .unwrap_or(Path::new("/")),
            env: &self.base,
            errors: ErrorOutput::Discarded,
            most: MAX_OUTPUT_BYTES,
        };
        let (ending, output) = timeout(SHELL_TIMEOUT, program.run())
            .await
            .map_err(|_| {
                format!(
                    "its rc files took longer than {} s",
                    SHELL_TIMEOUT.as_secs()
                )
            })?
            .map_err(|error| error.to_string())?;
        match parse(&output, &mark) {
            Some(variables) => Ok(variables),
            None if ending == ProcessExit::Code(0) => {
                Err("its rc files ended the shell".to_owned())
            }
            None => Err(format!("it {}", describe_exit(ending))),
        }
    }
}

/// The variables behind the mark in a shell's output. `None` if the shell did not get that far.
fn parse(output: &[u8], mark: &str) -> Option<Vec<(OsString, OsString)>> {
    let mark = [b"\0", mark.as_bytes(), b"\0"].concat();
    let at = output
        .windows(mark.len())
        .position(|window| window == mark)?;
    let (variables, _) = rsplit_once(&output[at + mark.len()..], 0)?;
    let variables = variables.split(|byte| *byte == 0).filter_map(|entry| {
        let equals = entry.iter().position(|byte| *byte == b'=')?;
        let (name, value) = (&entry[..equals], &entry[equals + 1..]);
        Some((
            OsString::from_vec(name.to_vec()),
            OsString::from_vec(value.to_vec()),
        ))
    });
    Some(variables.filter(|(name, _)| name != RESOLVING).collect())
}

fn rsplit_once(bytes: &[u8], separator: u8) -> Option<(&[u8], &[u8])> {
    let at = bytes.iter().rposition(|byte| *byte == separator)?;
    Some((&bytes[..at], &bytes[at + 1..]))
}

/// Adds the variables that `env` does not have, and to `PATH` the directories that it does not have.
pub fn add_missing(env: &mut Vec<(OsString, OsString)>, shell: &[(OsString, OsString)]) {
    for (name, value) in shell {
        match env.iter_mut().find(|(known, _)| known == name) {
            None => env.push((name.clone(), value.clone())),
            Some((_, path)) if name == "PATH" => *path = joined_paths(path, value),
            Some(_) => {}
        }
    }
}

fn joined_paths(first: &OsStr, second: &OsStr) -> OsString {
    let mut known = HashSet::new();
    let dirs = [first, second]
        .into_iter()
        .flat_map(|path| path.as_bytes().split(|byte| *byte == b':'));
    let dirs: Vec<&[u8]> = dirs.filter(|dir| known.insert(*dir)).collect();
    OsString::from_vec(dirs.join(&b':'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(output: &[u8], expected: Option<&[(&str, &str)]>) {
        let found = parse(output, "mark");
        let expected = expected.map(|pairs| {
            let pairs = pairs
                .iter()
                .map(|(name, value)| (name.into(), value.into()));
            pairs.collect::<Vec<(OsString, OsString)>>()
        });
        assert_eq!(found, expected, "{}", String::from_utf8_lossy(output));
    }

    #[test]
    fn what_rc_files_print_is_no_variable() {
        check(
            b"hello\nFOO=no\n\0mark\0A=1\0B=x=y\nz\0",
            Some(&[("A", "1"), ("B", "x=y\nz")]),
        );
        check(b"\0mark\0A=1\0bye", Some(&[("A", "1")]));
        check(
            b"\0mark\0FUGUE_RESOLVING_ENVIRONMENT=1\0A=\0",
            Some(&[("A", "")]),
        );
        check(b"A=1\0B=2\0", None);
        check(b"\0mark\0", None);
    }

    #[test]
    fn only_missing_variables_and_directories_are_added() {
        let pairs = |pairs: &[(&str, &str)]| -> Vec<(OsString, OsString)> {
            pairs
                .iter()
                .map(|(name, value)| (name.into(), value.into()))
                .collect()
        };
        let mut env = pairs(&[("PATH", "/venv/bin:/bin"), ("LANG", "C")]);
        let shell = pairs(&[
            ("PATH", "/bin:/home/me/bin:/bin"),
            ("LANG", "de"),
            ("KEY", "k"),
        ]);
        add_missing(&mut env, &shell);
        let wanted = pairs(&[
            ("PATH", "/venv/bin:/bin:/home/me/bin"),
            ("LANG", "C"),
            ("KEY", "k"),
        ]);
        assert_eq!(env, wanted);
    }
}
