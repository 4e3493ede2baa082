//! What a new pane's process is, and the words for what went wrong with it.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    io,
    os::unix::ffi::OsStringExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use fugue_api::{Error, ErrorKind, wire::CallerEnv};
use fugue_core::{ExitStatus, LaunchEnv, PaneJob, PaneRecord};
use fugue_holder::{spawn::ProcessExit, wire::ChildSpec};

use crate::{agents::session, assess, engine::DaemonContext, shell, watchers};

/// What a new pane's process is made of.
pub struct PaneLaunch {
    pub job: PaneJob,
    pub env: BTreeMap<String, String>,
    pub world: LaunchEnv,
    pub caller: Arc<CallerEnv>,
}

/// Where a pane's shell finds the steps of pipelines.
pub fn steps_dir(pane_dir: &Path) -> PathBuf {
    pane_dir.join("steps")
}

/// The caller's world with the pane's own variables in it, and the shell in front of the command.
pub fn spec(record: &PaneRecord, start: PaneLaunch, daemon: &DaemonContext) -> ChildSpec {
    let PaneLaunch {
        job,
        env,
        world,
        caller,
    } = start;
    let mut env = environment(&caller, env);
    let id = record.id.to_string();
    let socket = daemon.paths.socket();
    set(&mut env, "FUGUE_PANE_ID", id.clone().into());
    set(&mut env, "FUGUE_SOCKET", socket.clone().into());
    // What the terminal model understands, and what every machine has an entry for.
    set(&mut env, "TERM", "xterm-256color".into());
    set(&mut env, "COLORTERM", "truecolor".into());
    let argv = match job {
        PaneJob::Program(argv) => argv.into_iter().map(OsString::from).collect(),
        PaneJob::Command(mut command) => {
            // Some shells look for options behind `-c` too.
            if command.starts_with(['-', '+']) {
                command.insert(0, ' ');
            }
            vec![
                world.shell.clone().into_os_string(),
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
                &world.shell,
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
    // Together they are this pane's alone on the machine: ids are one daemon's own.
    let marks = vec![
        format!("FUGUE_PANE_ID={id}").into_bytes(),
        [
            b"FUGUE_SOCKET=",
            socket.into_os_string().into_vec().as_slice(),
        ]
        .concat(),
    ];
    let cap = daemon.settings.log_cap_bytes;
    ChildSpec {
        argv: argv.into_iter().map(OsString::into_vec).collect(),
        env: env
            .into_iter()
            .map(|(key, value)| (key.into_vec(), value.into_vec()))
            .collect(),
        cwd: world.cwd.clone().into_os_string().into_vec(),
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

/// The caller's environment without what belongs to the session of the agent that it is. Whatever is started for a
/// caller starts from this.
pub fn inherited(caller: &CallerEnv) -> Vec<(OsString, OsString)> {
    caller
        .env
        .iter()
        .map(|(key, value)| (OsString::from(key), OsString::from(value)))
        .filter(|(key, _)| !session::is_session_variable(key))
        .collect()
}

/// What a caller hands down, without what belongs to the caller's own pane and terminal.
pub fn environment(
    caller: &CallerEnv,
    extra: BTreeMap<String, String>,
) -> Vec<(OsString, OsString)> {
    const NOT_PASSED_ON: &[&str] = &[
        shell::STEPS_DIR,
        // A pane that a watcher's command makes is not that command's.
        assess::MARK,
        watchers::JOB_MARK,
        "FUGUE_PANE_ID",
        "FUGUE_SOCKET",
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
    let mut env = inherited(caller);
    env.retain(|(key, _)| !NOT_PASSED_ON.iter().any(|not| key == not));
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

/// The pane's own files could not be made.
pub fn no_room(error: &io::Error) -> Error {
    Error::new(
        ErrorKind::Exhausted,
        format!("the pane's files cannot be made: {error}"),
    )
    .hint("nothing was started; is the disk full, or read-only?")
}

/// The holder could not be had.
pub fn refusal(said: &str) -> Error {
    let error = Error::new(
        ErrorKind::Exhausted,
        format!("no pane can be opened: {said}"),
    );
    if said.contains("terminal") {
        return error.hint("all terminals are in use (kernel.pty.max); close panes and try again");
    }
    error.hint("nothing was started")
}

/// The program could not be started.
pub fn failed(what: &str, errno: i32) -> Error {
    Error::new(
        ErrorKind::Unavailable,
        format!("{what}: {}", io::Error::from_raw_os_error(errno)),
    )
    .hint("nothing was started")
}

/// A daemon died while it opened this pane.
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
