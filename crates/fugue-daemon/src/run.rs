//! Starts the daemon, serves until the stop, and flushes the last replies.

use std::io;

use fugue_api::wire::Request;
use fugue_api::{Error, ErrorKind};
use fugue_core::CallId;
use rustix::process::{Resource, Rlimit};
use tokio::{
    net::UnixListener,
    runtime,
    sync::{mpsc, watch},
    time::{Duration, timeout},
};

use crate::{
    config,
    engine::{DaemonContext, Engine},
    listener::{self, ListenerEvent},
    listening::{SocketFile, StateEvent, StateMonitor},
    pending_calls::{Responder, UnreadReplies},
    reap, recovery, shell,
    store::{self, IntegrityCheck, StoreError, StoreOrigin},
    watchers::WatcherJobs,
};
use fugue_client::{
    daemon_start::{self, StartupPipe},
    lock::FileLock,
    paths::UserPaths,
};

// The queue of the engine. When the queue is full, connection tasks wait and stop reading from their sockets.
const MAX_QUEUED_EVENTS: usize = 1024;
// The time for clients to read their last replies.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// Runs the daemon in this process until the stop.
pub fn daemon(paths: &UserPaths) -> Result<(), Error> {
    // All files from here on, including the side files of the database, are private to the user. Panes get the umask of their
    // caller.
    rustix::process::umask(rustix::fs::Mode::RWXG | rustix::fs::Mode::RWXO);
    paths.prepare()?;
    let starter = StartupPipe::from_env(paths)?;
    let started = match daemon_start::lock_state(paths) {
        Ok(Some(lock)) => begin(paths, lock),
        // Another daemon has the lock: either the socket was removed, or another client started that daemon a moment ago.
        Ok(None) if starter.is_awaited() => {
            starter.report(&Ok(()));
            return Ok(());
        }
        Ok(None) => Err(Error::new(
            ErrorKind::Unavailable,
            format!("a daemon already runs for {}", paths.state.display()),
        )
        .hint("`fugue daemon status` shows it, `fugue daemon restart` replaces it")),
        Err(error) => Err(error),
    };
    let outcome = started.as_ref().map(|_| ()).map_err(Clone::clone);
    starter.report(&outcome);
    let DaemonStart {
        runtime,
        engine,
        listener,
        monitor,
        lock: _lock,
    } = started?;
    let monitor = runtime
        .block_on(serve(engine, listener, monitor))
        .map_err(|error| {
            Error::new(
                ErrorKind::Unavailable,
                format!("the daemon had to end: {error}"),
            )
        })?;
    monitor.socket.remove();
    tracing::info!("daemon stopped");
    Ok(())
}

/// Whether a daemon of this version would start: with the settings, and with a database that no newer version wrote. Changes
/// nothing.
pub fn check_start(paths: &UserPaths) -> Result<(), Error> {
    config::load(&paths.config)?;
    store::check_format(&paths.database()).map_err(|error| unusable_store_error(paths, &error))
}

pub(crate) fn unusable_store_error(paths: &UserPaths, error: &StoreError) -> Error {
    let hint = match error {
        StoreError::Newer(_) => {
            "install the newer fugue again; panes continue without a daemon, and nothing was changed"
        }
        error if error.is_locked() => {
            "another program has it open; a daemon of an earlier version is ended by that version's `fugue daemon stop`, and \
             panes continue"
        }
        _ => "is the disk full, or read-only? panes continue without a daemon",
    };
    Error::unavailable(format!("{}: {error}", paths.database().display())).hint(hint)
}

/// The parts of a daemon before the first call.
struct DaemonStart {
    runtime: runtime::Runtime,
    engine: Engine,
    listener: UnixListener,
    monitor: StateMonitor,
    lock: FileLock,
}

fn begin(paths: &UserPaths, lock: FileLock) -> Result<DaemonStart, Error> {
    let trouble = |error: io::Error| {
        Error::new(
            ErrorKind::Unavailable,
            format!("the daemon cannot start: {error}"),
        )
    };
    let settings = config::load(&paths.config)?;
    shell::install(&paths.shell_files()).map_err(trouble)?;
    let unusable = |error| unusable_store_error(paths, &error);
    let (mut store, mut opened) =
        store::open(&paths.database(), IntegrityCheck::Quick).map_err(unusable)?;
    let found = recovery::find_panes(paths, &mut store, &mut opened).map_err(unusable)?;
    let mut notes = recovery::notes(&opened, &found);
    if opened.origin == StoreOrigin::New {
        let ended = reap::without_directory(&paths.panes());
        notes.extend((ended > 0).then(|| recovery::removed_note(ended)));
    }
    for note in &notes {
        tracing::warn!(note, "store opened with losses");
    }
    if !opened.snapshot.watchers.is_empty() {
        WatcherJobs::sweep(paths);
    }
    let nofile = raise_file_limit();
    let epoch = opened.snapshot.epoch;
    let runtime = runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(trouble)?;
    let _inside = runtime.enter();
    let (socket, listener) = SocketFile::bind(&paths.socket())
        .map_err(|error| fugue_client::paths::unusable_path_error(&paths.socket(), &error))?;
    let monitor = StateMonitor::new(paths, socket).map_err(trouble)?;
    let context = DaemonContext::new(paths.clone(), settings, epoch, nofile);
    let engine = Engine::new(context, opened, notes, store).map_err(trouble)?;
    tracing::info!(epoch, pid = std::process::id(), "daemon started");
    drop(_inside);
    Ok(DaemonStart {
        runtime,
        engine,
        listener,
        monitor,
        lock,
    })
}

async fn serve(
    engine: Engine,
    listener: UnixListener,
    mut monitor: StateMonitor,
) -> io::Result<StateMonitor> {
    let limits = engine.client_limits();
    let panes = engine.panes_directory();
    let (events, event_receiver) = mpsc::channel(MAX_QUEUED_EVENTS);
    let (close, closing) = watch::channel(false);
    let (rebound, listeners) = mpsc::channel(1);
    // Every connection task holds a sender until the client has read the last reply.
    let (connection, mut connections_closed) = mpsc::channel::<()>(1);
    let accepting = tokio::spawn(listener::serve(
        listener,
        listeners,
        limits,
        panes,
        events.clone(),
        closing,
        connection,
    ));
    // A spawned task: the future of `block_on` itself costs one more poll of the I/O driver for each wake-up.
    let mut engine = tokio::spawn(engine.run(event_receiver));
    let outcome = loop {
        tokio::select! {
            outcome = &mut engine => break outcome,
            event = monitor.next() => match event {
                Ok(StateEvent::Rebound(listener)) => {
                    tracing::warn!("socket removed and bound again");
                    let _ = rebound.send(listener).await;
                }
                Ok(StateEvent::Removed) => {
                    tracing::error!("state directory removed: panes are closed and the daemon stops");
                    stop(&events, PanePolicy::Close).await;
                    break engine.await;
                }
                Ok(StateEvent::Moved) => {
                    tracing::error!("state directory moved: the daemon stops, panes continue");
                    stop(&events, PanePolicy::Keep).await;
                    break engine.await;
                }
                Err(error) => {
                    tracing::warn!(%error, "state directory no longer monitored");
                    break engine.await;
                }
            },
        }
    };
    let outcome = match outcome {
        Ok(outcome) => outcome,
        Err(broken) => std::panic::resume_unwind(broken.into_panic()),
    };
    accepting.abort();
    // After an error no goodbye is sent: clients whose connection is lost retry with the next daemon, by the same idempotency
    // keys.
    outcome?;
    close.send_replace(true);
    let _ = timeout(FLUSH_TIMEOUT, connections_closed.recv()).await;
    Ok(monitor)
}

/// Whether panes are closed when the daemon stops.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PanePolicy {
    Close,
    Keep,
}

/// Stops the daemon as `fugue daemon stop` does.
async fn stop(engine: &mpsc::Sender<ListenerEvent>, panes: PanePolicy) {
    let (nobody, _) = mpsc::unbounded_channel();
    let stop = ListenerEvent::Call {
        call: CallId(0),
        key: fugue_api::wire::IdempotencyKey([0; 16]),
        who: fugue_api::wire::CallerIdentity::Person {
            project: String::new(),
        },
        origin: Default::default(),
        caller: std::sync::Arc::new(fugue_api::wire::CallerEnv::nobody()),
        ask: Request::DaemonStop {
            panes: panes == PanePolicy::Close,
        },
        responder: Responder::new(0, nobody, UnreadReplies::with_limit(u64::MAX)),
    };
    // An error means that the engine has stopped already.
    let _ = engine.send(stop).await;
}

/// Raises the limit of open files, as a pane takes about eight file descriptors of the daemon. Returns the old limit for the
/// panes.
fn raise_file_limit() -> Option<u64> {
    let limit = rustix::process::getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    if let Err(error) = rustix::process::setrlimit(Resource::Nofile, raised) {
        tracing::warn!(%error, "limit of open files not raised");
    }
    limit.current
}
