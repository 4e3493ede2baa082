use std::process::ExitCode;

use fugue_api::{
    Error, Kind,
    wire::{Answer, Ask, DaemonStatus},
};
use fugue_daemon::{paths::Paths, start::Lock};
use rustix::process::{Pid, Signal, kill_process};

use crate::{cli::Desk, out::age};

/// The process behind it all.
#[derive(clap::Subcommand)]
pub enum Daemon {
    /// Be the daemon, in the foreground.
    Run,
    /// Start one, if none runs.
    Start,
    /// End it. Panes go on without it.
    Stop {
        /// End every pane first.
        #[arg(long)]
        panes: bool,
    },
    /// Put a new one in its place, under running panes.
    Restart,
    Status,
}

/// Runs until somebody stops it. Its words go to stderr, which an automatic start sends to `daemon.log`.
pub fn run() -> Result<ExitCode, Error> {
    let filter =
        tracing_subscriber::EnvFilter::try_from_env("FUGUE_LOG").unwrap_or_else(|_| "info".into());
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .init();
    let paths = Paths::of_this_user()?;
    fugue_daemon::daemon(&paths).map(|()| ExitCode::SUCCESS)
}

impl Daemon {
    pub async fn run(self, desk: &Desk) -> Result<ExitCode, Error> {
        match self {
            // Handled before there is a runtime.
            Self::Run => Ok(ExitCode::SUCCESS),
            Self::Start => {
                let status = started(desk).await?;
                show(desk, &status)
            }
            Self::Stop { panes } => stop(desk, panes).await,
            Self::Restart => {
                end_quietly(desk).await?;
                let status = started(desk).await?;
                show(desk, &status)
            }
            Self::Status => match desk.client.ask_running(Ask::DaemonStatus).await? {
                Some(Answer::DaemonStatus { status }) => show(desk, &status),
                Some(_) | None => Err(Error::new(Kind::Unavailable, "no daemon runs")
                    .hint("any verb starts one; panes may run without")),
            },
        }
    }
}

async fn started(desk: &Desk) -> Result<DaemonStatus, Error> {
    match desk.client.ask(Ask::DaemonStatus).await? {
        Answer::DaemonStatus { status } => Ok(status),
        other => Err(Error::new(
            Kind::Internal,
            format!("the daemon answered something else: {other:?}"),
        )),
    }
}

fn show(desk: &Desk, status: &DaemonStatus) -> Result<ExitCode, Error> {
    if desk.out.is_json() {
        desk.out.document(status)?;
    } else {
        let panes = if status.panes == 1 {
            "1 pane".into()
        } else {
            format!("{} panes", status.panes)
        };
        desk.out.line(&format!(
            "fugue {} runs as pid {} for {} with {panes}, at {}",
            status.version,
            status.pid,
            age(status.uptime_ms),
            status.socket
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}

async fn stop(desk: &Desk, panes: bool) -> Result<ExitCode, Error> {
    // Panes can be without a daemon; to end them, one must be there.
    let stopped = if panes {
        Some(desk.client.ask(Ask::DaemonStop { panes }).await?)
    } else {
        desk.client.ask_running(Ask::DaemonStop { panes }).await?
    };
    let closed = match stopped {
        Some(Answer::Stopping { panes_closed }) => panes_closed,
        Some(_) | None => {
            desk.out.note("no daemon runs");
            if desk.out.is_json() {
                desk.out
                    .document(&serde_json::json!({"stopped": false, "panes_closed": 0}))?;
            }
            return Ok(ExitCode::SUCCESS);
        }
    };
    gone(desk).await?;
    if desk.out.is_json() {
        desk.out
            .document(&serde_json::json!({"stopped": true, "panes_closed": closed}))?;
    } else if panes {
        desk.out.note(&format!("stopped; {closed} panes closed"));
    } else {
        desk.out.note("stopped; panes go on without it");
    }
    Ok(ExitCode::SUCCESS)
}

/// Ends whatever daemon there is, also one of another version.
async fn end_quietly(desk: &Desk) -> Result<(), Error> {
    let Some(pid) = desk.client.running_daemon().await else {
        return Ok(());
    };
    if desk
        .client
        .ask_running(Ask::DaemonStop { panes: false })
        .await?
        .is_none()
        && let Some(pid) = Pid::from_raw(pid.cast_signed())
    {
        kill_process(pid, Signal::TERM).map_err(|error| {
            Error::new(
                Kind::Unavailable,
                format!("the daemon cannot be ended: {error}"),
            )
        })?;
    }
    gone(desk).await
}

/// Returns when the daemon has given up its lock, which is the last thing it does.
async fn gone(desk: &Desk) -> Result<(), Error> {
    let path = desk.paths.daemon_lock();
    let waiting = tokio::task::spawn_blocking(move || Lock::take(&path).map(drop));
    match waiting.await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(Error::new(
            Kind::Unavailable,
            format!("the daemon's lock: {error}"),
        )),
        Err(error) => Err(Error::new(Kind::Internal, error.to_string())),
    }
}
