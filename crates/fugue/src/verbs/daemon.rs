use std::{
    process::ExitCode,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use fugue_api::{
    Error,
    settings::{SettingChange, SettingScope},
    wire::{DaemonStatus, PROTOCOL, Request, Response, StoreState, StoreStatus},
};
use fugue_client::{lock::FileLock, paths::UserPaths, version};
use rustix::{
    io::Errno,
    process::{Pid, Signal, kill_process},
};
use serde::Serialize;
use tokio::time::timeout;

use crate::{
    cli::CliContext,
    out::{clean, format_age, format_size},
};

/// Control the daemon.
#[derive(clap::Subcommand)]
#[command(
    after_help = "Examples:\n  fugue daemon status\n  fugue daemon restart      (after an upgrade; panes keep running)"
)]
pub enum DaemonCommand {
    /// Run the daemon in the foreground.
    Run,
    /// Start the daemon if none is running.
    Start,
    /// Stop the daemon. Panes continue without it.
    Stop {
        /// Close all panes first.
        #[arg(long)]
        panes: bool,
    },
    /// Replace the daemon by a new one; panes keep running.
    ///
    /// Refused, with nothing changed, where the next daemon would not start: with a config.toml that it refuses, or with a state
    /// directory of a newer version.
    Restart,
    /// Read config.toml again, and print what changed. A file that is refused changes nothing.
    Reload,
    /// Check and repair the database, while no daemon runs.
    ///
    /// Unreadable records are set aside, a damaged database is set aside and replaced by its last backup,
    /// and panes without a record are restored from their directories.
    Repair,
    /// Show the running daemon, and whether it is of another version than this program.
    Status,
}

/// Runs the daemon until it is stopped. Logs go to stderr, which an automatic start redirects to `daemon.log`.
pub fn run() -> Result<ExitCode, Error> {
    let filter =
        tracing_subscriber::EnvFilter::try_from_env("FUGUE_LOG").unwrap_or_else(|_| "info".into());
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(false)
        // A log line that fails on a full disk is dropped: reporting the failure would write to the same file and panic.
        .log_internal_errors(false)
        .init();
    let paths = UserPaths::for_current_user()?;
    fugue_daemon::daemon(&paths).map(|()| ExitCode::SUCCESS)
}

impl DaemonCommand {
    pub async fn run(self, cx: &CliContext) -> Result<ExitCode, Error> {
        match self {
            // Handled before the runtime is created.
            Self::Run => Ok(ExitCode::SUCCESS),
            Self::Start => {
                let status = running_status(cx).await?;
                show(cx, &status)
            }
            Self::Stop { panes } => stop(cx, panes).await,
            Self::Restart => {
                check_restart(cx).await?;
                stop_any_version(cx).await?;
                let status = running_status(cx).await?;
                show(cx, &status)
            }
            Self::Reload => reload(cx).await,
            Self::Repair => repair(cx).await,
            Self::Status => match cx.client.ask_running(Request::DaemonStatus).await? {
                Some(Response::DaemonStatus { status }) => show(cx, &status),
                Some(other) => Err(Error::unexpected(&other)),
                None => Err(cx.client.other_protocol().await.unwrap_or_else(no_daemon)),
            },
        }
    }
}

fn no_daemon() -> Error {
    Error::unavailable("no daemon runs").hint("any verb starts one; panes may run without")
}

/// Refuses a restart after which no daemon would run.
async fn check_restart(cx: &CliContext) -> Result<(), Error> {
    if let Some(daemon) = cx.client.greeting().await
        && daemon.protocol > PROTOCOL
    {
        return Err(version::other_protocol_error(&daemon));
    }
    fugue_daemon::check_start(&cx.paths)
}

async fn reload(cx: &CliContext) -> Result<ExitCode, Error> {
    let changes = match cx.client.ask_running(Request::ReloadSettings).await? {
        Some(Response::SettingsReloaded { changes }) => changes,
        Some(other) => return Err(Error::unexpected(&other)),
        None => {
            let none = || {
                Error::unavailable("no daemon runs, so there is nothing to reload")
                    .hint("the next daemon reads config.toml when it starts")
            };
            return Err(cx.client.other_protocol().await.unwrap_or_else(none));
        }
    };
    if cx.out.is_json() {
        cx.out.document(&serde_json::json!({"changes": changes}))?;
        return Ok(ExitCode::SUCCESS);
    }
    if changes.is_empty() {
        cx.out.note("read again; nothing changed");
    }
    for change in &changes {
        cx.out.line(clean(&change_line(change)))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn change_line(change: &SettingChange) -> String {
    let holds = match change.holds {
        SettingScope::Now => "from now on",
        SettingScope::NewPanes => "for panes that are opened from now on",
        SettingScope::NewWatchers => "for watchers that are started from now on",
        SettingScope::NextDaemon => "after `fugue daemon restart`; until then the old value holds",
    };
    let word = |value: &serde_json::Value| match value {
        serde_json::Value::Null => "unset".to_owned(),
        value => value.to_string(),
    };
    let (old, new) = (word(&change.old), word(&change.new));
    format!("{}: {old} → {new}, {holds}", change.key)
}

async fn running_status(cx: &CliContext) -> Result<DaemonStatus, Error> {
    match cx.client.ask(Request::DaemonStatus).await? {
        Response::DaemonStatus { status } => Ok(status),
        other => Err(Error::unexpected(&other)),
    }
}

/// The document of `daemon status`.
#[derive(Serialize)]
struct ShownStatus<'a> {
    #[serde(flatten)]
    status: &'a DaemonStatus,
    /// The version of this program.
    client_version: &'static str,
    /// Whether this program is the one that the daemon runs. Absent where its file cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    same_program: Option<bool>,
}

fn show(cx: &CliContext, status: &DaemonStatus) -> Result<ExitCode, Error> {
    let client_version = env!("CARGO_PKG_VERSION");
    let same_program = version::runs_this_program(status.pid);
    if cx.out.is_json() {
        cx.out.document(&ShownStatus {
            status,
            client_version,
            same_program,
        })?;
    } else {
        let panes = if status.panes == 1 {
            "1 pane".into()
        } else {
            format!("{} panes", status.panes)
        };
        cx.out.line(format!(
            "fugue {} runs as pid {} for {} with {panes}, at {}",
            status.version,
            status.pid,
            format_age(status.uptime_ms),
            status.socket
        ))?;
        if status.version != client_version || same_program == Some(false) {
            let build = match status.version == client_version {
                true => "another build of the same version",
                false => "another version",
            };
            cx.out.line(format!(
                "this program is {build}, fugue {client_version}: `fugue daemon restart` replaces the daemon by it, and panes go on"
            ))?;
        }
        let logs = &status.logs;
        let quota = logs.quota_bytes.map_or("no quota".into(), |bytes| {
            format!("a quota of {}", format_size(bytes))
        });
        cx.out.line(format!(
            "output logs: {} of running panes, {} of ended ones, {quota}",
            format_size(logs.running_bytes),
            format_size(logs.ended_bytes)
        ))?;
        if let Some(note) = &logs.note {
            cx.out.note(note);
        }
        for line in store_lines(&status.store) {
            cx.out.line(&line)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The problem of the store, if any.
fn store_lines(store: &StoreStatus) -> Vec<String> {
    let mut lines = Vec::new();
    let reason = store.reason.as_deref().unwrap_or("no reason is known");
    match store.state {
        StoreState::Ok => {}
        StoreState::Stalled => {
            let now = SystemTime::now().duration_since(UNIX_EPOCH);
            let now = now.unwrap_or_default().as_millis();
            let since = store.since.map_or(0, |since| u128::from(since.0));
            let stalled_ms = u64::try_from(now.saturating_sub(since)).unwrap_or(u64::MAX);
            lines.push(format!(
                "the store is stalled for {}: {reason}; {} commits wait, and nothing new can be recorded",
                format_age(stalled_ms),
                store.unstored_commits
            ));
        }
        StoreState::Ended => lines.push(format!(
            "the store has ended, and the daemon stops: {reason}"
        )),
    }
    if store.quarantined_records > 0 {
        let records = match store.quarantined_records {
            1 => "1 record that could not be read is".to_owned(),
            many => format!("{many} records that could not be read are"),
        };
        lines.push(format!(
            "{records} set aside in the table `quarantine` of the database"
        ));
    }
    lines.extend(store.notes.iter().cloned());
    lines
}

async fn repair(cx: &CliContext) -> Result<ExitCode, Error> {
    let paths = cx.paths.clone();
    let repairing = tokio::task::spawn_blocking(move || {
        paths.prepare()?;
        // While this process holds the lock, no daemon can start.
        let Some(_lock) = FileLock::try_lock_directory(&paths.state)? else {
            let error = Error::unavailable(
                "a daemon runs; the database can be repaired only while none does",
            );
            return Err(error.hint(
                "`fugue daemon stop` ends it, and panes go on; then repair, and any verb starts the next",
            ));
        };
        fugue_daemon::repair(&paths)
    });
    let report = repairing
        .await
        .map_err(|error| Error::internal(error.to_string()))??;
    if cx.out.is_json() {
        cx.out.document(&report)?;
        return Ok(ExitCode::SUCCESS);
    }
    for note in &report.notes {
        cx.out.line(note)?;
    }
    let state = if report.notes.is_empty() {
        "sound, nothing was done"
    } else {
        "sound now"
    };
    cx.out.line(format!(
        "the database is {state}; panes on record: {}",
        report.panes
    ))?;
    Ok(ExitCode::SUCCESS)
}

async fn stop(cx: &CliContext, panes: bool) -> Result<ExitCode, Error> {
    // Closing panes needs a daemon, which is started if necessary.
    let stopped = if panes {
        Some(cx.client.ask(Request::DaemonStop { panes }).await?)
    } else {
        cx.client.ask_running(Request::DaemonStop { panes }).await?
    };
    let closed = match stopped {
        Some(Response::Stopping { panes_closed }) => panes_closed,
        Some(_) | None => {
            if let Some(error) = cx.client.other_protocol().await {
                return Err(error);
            }
            cx.out.note("no daemon runs");
            if cx.out.is_json() {
                cx.out
                    .document(&serde_json::json!({"stopped": false, "panes_closed": 0}))?;
            }
            return Ok(ExitCode::SUCCESS);
        }
    };
    wait_for_exit(cx).await?;
    if cx.out.is_json() {
        cx.out
            .document(&serde_json::json!({"stopped": true, "panes_closed": closed}))?;
    } else if panes {
        cx.out.note(&format!("stopped; {closed} panes closed"));
    } else {
        cx.out.note("stopped; panes continue without it");
    }
    Ok(ExitCode::SUCCESS)
}

/// Stops the running daemon, of any protocol version, also one that is stopped by a signal or hangs.
async fn stop_any_version(cx: &CliContext) -> Result<(), Error> {
    let Some(daemon) = cx.client.running_daemon().await else {
        return Ok(());
    };
    let asked = Request::DaemonStop { panes: false };
    if let Ok(Some(_)) = cx.client.ask_running(asked).await {
        return wait_for_exit(cx).await;
    }
    let pid = daemon.pid.and_then(|pid| Pid::from_raw(pid.cast_signed()));
    let pid = pid.ok_or_else(|| {
        Error::unavailable("the daemon runs outside this container and has another version")
            .hint("stop it where it was started")
    })?;
    // A stopped process gets the first signal when the second one continues it.
    end_daemon(pid, &[Signal::TERM, Signal::CONT])?;
    match timeout(DAEMON_STOP_TIMEOUT, wait_for_exit(cx)).await {
        Ok(outcome) => outcome,
        Err(_) => {
            end_daemon(pid, &[Signal::KILL])?;
            wait_for_exit(cx).await
        }
    }
}

/// How long a daemon that was told to end may take for its last commits.
const DAEMON_STOP_TIMEOUT: Duration = Duration::from_secs(20);

fn end_daemon(pid: Pid, signals: &[Signal]) -> Result<(), Error> {
    for &signal in signals {
        match kill_process(pid, signal) {
            Ok(()) | Err(Errno::SRCH) => {}
            Err(error) => {
                return Err(Error::unavailable(format!(
                    "the daemon cannot be ended: {error}"
                )));
            }
        }
    }
    Ok(())
}

/// Waits until the daemon has released its lock, which is its last action.
async fn wait_for_exit(cx: &CliContext) -> Result<(), Error> {
    let state = cx.paths.state.clone();
    let waiting = tokio::task::spawn_blocking(move || FileLock::lock_directory(&state).map(drop));
    match waiting.await {
        Ok(outcome) => outcome,
        Err(error) => Err(Error::internal(error.to_string())),
    }
}
