//! The child of a new pane: its arguments and environment, and the errors of a failed start.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    io,
    os::unix::ffi::OsStringExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use fugue_api::{
    Error, ErrorKind,
    wire::{CallerEnv, CallerIdentity},
};
use fugue_client::paths::UserPaths;
use fugue_core::{ExitStatus, LaunchEnv, PaneJob, PaneRecord};
use fugue_holder::{spawn::ProcessExit, wire::ChildSpec};

use crate::{
    agents::session,
    assess,
    engine::DaemonContext,
    resolve, shell,
    shell_environment::{self, ShellVariables},
    watchers,
};

/// The job of a new pane, with its environment.
pub struct PaneLaunch {
    pub job: PaneJob,
    pub env: BTreeMap<String, String>,
    pub launch_env: LaunchEnv,
    pub caller: Arc<CallerEnv>,
}

/// The variables of the person's shell that a worker gets beside the caller's, and why these are missing.
pub async fn shell_variables(
    opened_by: Option<&CallerIdentity>,
    caller: &CallerEnv,
    daemon: &DaemonContext,
) -> Result<ShellVariables, String> {
    // What a person runs has that person's environment.
    if opened_by.is_none() || !shell_environment::is_partial(caller) {
        return Ok(ShellVariables::default());
    }
    daemon.shell_environment.resolve(caller).await
}

/// The directory in which a pane's shell finds the steps of pipelines.
pub fn steps_dir(pane_dir: &Path) -> PathBuf {
    pane_dir.join("steps")
}

/// The arguments and the environment of the child: the caller's variables with those of the pane, and the shell before the
/// command.
pub fn spec(
    record: &PaneRecord,
    start: PaneLaunch,
    shell_env: &[(OsString, OsString)],
    daemon: &DaemonContext,
) -> ChildSpec {
    let PaneLaunch {
        job,
        env,
        launch_env,
        caller,
    } = start;
    let mut env = environment(&caller, shell_env, env);
    let id = record.id.to_string();
    let socket = daemon.paths.socket();
    set(&mut env, "FUGUE_PANE_ID", id.clone().into());
    set(&mut env, "FUGUE_SOCKET", socket.clone().into());
    // The type that the terminal emulates and that every machine has a terminfo entry for.
    set(&mut env, "TERM", "xterm-256color".into());
    set(&mut env, "COLORTERM", "truecolor".into());
    let argv = match job {
        PaneJob::Program(argv) => argv.into_iter().map(OsString::from).collect(),
        PaneJob::Command(mut command) => {
            // Some shells look for options after `-c` too.
            if command.starts_with(['-', '+']) {
                command.insert(0, ' ');
            }
            vec![
                launch_env.shell.clone().into_os_string(),
                "-c".into(),
                command.into(),
            ]
        }
        PaneJob::Shell | PaneJob::ShellWithSteps(_) | PaneJob::Steps(_) => {
            let how = match job {
                PaneJob::Steps(_) => shell::bare,
                _ => shell::interactive,
            };
            let launch = how(
                &launch_env.shell,
                &daemon.paths.shell_files(),
                &record.secret,
                &steps_dir(&daemon.paths.panes().join(&id)),
                &env,
            );
            env.retain(|(key, _)| !launch.env_remove.contains(key));
            for (key, value) in launch.env_set {
                set(&mut env, &key.to_string_lossy(), value);
            }
            launch.argv
        }
    };
    // A pane id is unique per daemon, so only both variables together identify the pane on the machine.
    let marks = vec![
        format!("FUGUE_PANE_ID={id}").into_bytes(),
        [
            b"FUGUE_SOCKET=",
            socket.into_os_string().into_vec().as_slice(),
        ]
        .concat(),
    ];
    let cap = daemon.settings().log_cap_bytes;
    ChildSpec {
        argv: argv.into_iter().map(OsString::into_vec).collect(),
        env: env
            .into_iter()
            .map(|(key, value)| (key.into_vec(), value.into_vec()))
            .collect(),
        cwd: launch_env.cwd.clone().into_os_string().into_vec(),
        rows: record.size.rows,
        cols: record.size.cols,
        umask: caller.umask,
        nofile: daemon.nofile,
        log_cap: cap,
        segment: ChildSpec::segment_for(cap),
        marks,
        kept: Vec::new(),
    }
}

/// The caller's environment without the session variables of a calling agent and without paths to a calling worker's own files:
/// the base of every process that is started for a caller.
pub fn inherited(caller: &CallerEnv) -> Vec<(OsString, OsString)> {
    let socket = resolve::variable(caller, "FUGUE_SOCKET").map(PathBuf::from);
    let worker_files = socket.as_deref().and_then(UserPaths::workers_beside);
    let is_worker_file = |value: &OsStr| {
        let dir = worker_files.as_deref();
        dir.is_some_and(|dir| Path::new(value).starts_with(dir))
    };
    caller
        .env
        .iter()
        .map(|(key, value)| (OsString::from(key), OsString::from(value)))
        .filter(|(key, value)| !session::is_session_variable(key) && !is_worker_file(value))
        .collect()
}

/// Variables that describe the terminal, the pane or the position of the process that has them.
const NOT_PASSED_ON: &[&str] = &[
    shell::STEPS_DIR,
    // Marks of a watcher's processes: a pane that a watcher's command creates is not such a process.
    assess::MARK,
    watchers::JOB_MARK,
    "FUGUE_PANE_ID",
    "FUGUE_SOCKET",
    "TERM",
    "TMUX",
    "TMUX_PANE",
    "STY",
    "WINDOW",
    "WINDOWID",
    "TERM_PROGRAM",
    "TERM_PROGRAM_VERSION",
    "TERMCAP",
    "LINES",
    "COLUMNS",
    "SHLVL",
    "_",
    "OLDPWD",
    "PWD",
];

/// The environment of a new pane: inherited variables except those of the caller's own pane and terminal, what `shell_env` has
/// beside these, and `extra`, which takes precedence.
pub fn environment(
    caller: &CallerEnv,
    shell_env: &[(OsString, OsString)],
    extra: BTreeMap<String, String>,
) -> Vec<(OsString, OsString)> {
    let mut env = inherited(caller);
    shell_environment::add_missing(&mut env, shell_env);
    env.retain(|(key, _)| {
        !NOT_PASSED_ON.iter().any(|not| key == not) && !session::is_session_variable(key)
    });
    for (key, value) in extra {
        set(&mut env, &key, value.into());
    }
    env
}

fn set(env: &mut Vec<(OsString, OsString)>, key: &str, value: OsString) {
    env.retain(|(known, _)| known != key);
    env.push((key.into(), value));
}

pub fn exit(ending: ProcessExit) -> ExitStatus {
    match ending {
        ProcessExit::Code(code) => ExitStatus::Code(code),
        ProcessExit::Signal { signo, .. } => ExitStatus::Signal(signal_name(signo)),
        ProcessExit::Unknown => ExitStatus::Unknown,
    }
}

fn signal_name(signo: i32) -> String {
    const NAMES: &[&str] = &[
        "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2",
        "PIPE", "ALRM", "TERM", "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG",
        "XCPU", "XFSZ", "VTALRM", "PROF", "WINCH", "IO", "PWR", "SYS",
    ];
    let name = usize::try_from(signo - 1)
        .ok()
        .and_then(|index| NAMES.get(index));
    name.map_or_else(|| format!("signal {signo}"), |name| format!("SIG{name}"))
}

/// The error if the pane's files cannot be created.
pub fn files_error(error: &io::Error) -> Error {
    Error::new(
        ErrorKind::Exhausted,
        format!("the pane's files cannot be created: {error}"),
    )
    .hint("nothing was started; is the disk full, or read-only?")
}

/// The error if the holder cannot be started or reached.
pub fn refusal(said: &str) -> Error {
    let error = Error::new(
        ErrorKind::Exhausted,
        format!("no pane can be opened: {said}"),
    );
    if said.contains("terminal") {
        return error.hint("all terminals are in use (kernel.pty.max); close panes and try again");
    }
    if said.contains("open files") {
        return error.hint(
            "close panes and try again, or raise the limit of open files (`ulimit -Hn`) and run `fugue daemon restart` there",
        );
    }
    error.hint("nothing was started")
}

/// The error if the program cannot be started.
pub fn failed(what: &str, errno: i32) -> Error {
    Error::new(
        ErrorKind::Unavailable,
        format!("{what}: {}", io::Error::from_raw_os_error(errno)),
    )
    .hint("nothing was started")
}

/// The error for a pane whose daemon died while opening the pane.
pub fn interrupted() -> Error {
    Error::new(
        ErrorKind::Unavailable,
        "the daemon died while it opened this pane; nothing was started",
    )
    .hint("ask again")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_have_their_names() {
        assert_eq!(signal_name(9), "SIGKILL");
        assert_eq!(signal_name(15), "SIGTERM");
        assert_eq!(signal_name(31), "SIGSYS");
        assert_eq!(signal_name(40), "signal 40");
    }
}
