//! The daemon's life, from its lock to its last word.

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
    recovery, shell,
    store::{self, IntegrityCheck},
    watchers::WatcherJobs,
    whole::WholeLogReaders,
};
use fugue_client::{
    lock::FileLock,
    paths::Paths,
    start::{self, StartupPipe},
};

// Knocks wait here while the engine is busy; a client that fills it waits at its own socket.
const MAX_QUEUED_EVENTS: usize = 1024;
// What clients may take to read their last answers.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// Runs the daemon in this process until somebody stops it.
pub fn daemon(paths: &Paths) -> Result<(), Error> {
    // Whatever is written from here on, the database's own side files included, is for us alone. Panes get their
    // caller's mask.
    rustix::process::umask(rustix::fs::Mode::RWXG | rustix::fs::Mode::RWXO);
    paths.prepare()?;
    let starter = StartupPipe::take(paths)?;
    let started = match start::lock_state(paths) {
        Ok(Some(lock)) => begin(paths, lock),
        // Its socket had been removed, or another client was faster.
        Ok(None) if starter.is_awaited() => {
            starter.tell(&Ok(()));
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
    starter.tell(&outcome);
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
    tracing::info!("the daemon ends");
    Ok(())
}

/// Everything that a daemon has before its first call.
struct DaemonStart {
    runtime: runtime::Runtime,
    engine: Engine,
    listener: UnixListener,
    monitor: StateMonitor,
    lock: FileLock,
}

fn begin(paths: &Paths, lock: FileLock) -> Result<DaemonStart, Error> {
    let trouble = |error: io::Error| {
        Error::new(
            ErrorKind::Unavailable,
            format!("the daemon cannot start: {error}"),
        )
    };
    let settings = config::load(&paths.config)?;
    shell::install(&paths.shell_files()).map_err(trouble)?;
    let unusable = |error: store::StoreError| {
        Error::new(
            ErrorKind::Unavailable,
            format!("{}: {error}", paths.database().display()),
        )
        .hint("is the disk full, or read-only? panes go on without a daemon")
    };
    let (mut store, mut opened) =
        store::open(&paths.database(), IntegrityCheck::Quick).map_err(unusable)?;
    let found = recovery::find_panes(paths, &mut store, &mut opened).map_err(unusable)?;
    let notes = recovery::notes(&opened, &found);
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
        .map_err(|error| fugue_client::paths::unusable(&paths.socket(), &error))?;
    let monitor = StateMonitor::new(paths, socket).map_err(trouble)?;
    let house = DaemonContext {
        paths: paths.clone(),
        whole_log_readers: WholeLogReaders::new(settings.whole_log_readers),
        settings,
        epoch,
        nofile,
    };
    let engine = Engine::new(house, opened, notes, store).map_err(trouble)?;
    tracing::info!(epoch, pid = std::process::id(), "the daemon listens");
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
    let (knock, knocks) = mpsc::channel(MAX_QUEUED_EVENTS);
    let (close, closing) = watch::channel(false);
    let (rebound, listeners) = mpsc::channel(1);
    // Every visit holds one of these until its client has read its last answer.
    let (visit, mut visits_over) = mpsc::channel::<()>(1);
    let door = tokio::spawn(listener::serve(
        listener,
        listeners,
        limits,
        panes,
        knock.clone(),
        closing,
        visit,
    ));
    // A task like the others: for what `block_on` itself waits for, the runtime asks the kernel once more for each waking.
    let mut engine = tokio::spawn(engine.run(knocks));
    let outcome = loop {
        tokio::select! {
            outcome = &mut engine => break outcome,
            event = monitor.next() => match event {
                Ok(StateEvent::Rebound(listener)) => {
                    tracing::warn!("the socket was removed and is bound again");
                    let _ = rebound.send(listener).await;
                }
                Ok(StateEvent::Removed) => {
                    tracing::error!("the state directory was removed; panes are closed and the daemon ends");
                    stop(&knock, PanePolicy::Close).await;
                    break engine.await;
                }
                Ok(StateEvent::Moved) => {
                    tracing::error!("the state directory was moved away; the daemon ends, panes go on");
                    stop(&knock, PanePolicy::Keep).await;
                    break engine.await;
                }
                Err(error) => {
                    tracing::warn!(%error, "the state directory is no longer watched");
                    break engine.await;
                }
            },
        }
    };
    let outcome = match outcome {
        Ok(outcome) => outcome,
        Err(broken) => std::panic::resume_unwind(broken.into_panic()),
    };
    door.abort();
    // After an error no goodbye: clients whose connection is lost ask the next daemon, by the same keys.
    outcome?;
    close.send_replace(true);
    let _ = timeout(FLUSH_TIMEOUT, visits_over.recv()).await;
    Ok(monitor)
}

/// What becomes of panes when the daemon ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PanePolicy {
    Close,
    Keep,
}

/// Ends the daemon as `fugue daemon stop` would.
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
    // An engine that is gone has stopped already.
    let _ = engine.send(stop).await;
}

/// A pane takes about eight fds of the daemon. Returns what the limit was, for the panes to have.
fn raise_file_limit() -> Option<u64> {
    let limit = rustix::process::getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    if let Err(error) = rustix::process::setrlimit(Resource::Nofile, raised) {
        tracing::warn!(%error, "the limit of open files could not be raised");
    }
    limit.current
}
