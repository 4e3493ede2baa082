//! The daemon's life, from its lock to its last word.

use std::{fs, io, path::Path};

use fugue_api::{Error, Kind};
use rustix::process::{Resource, Rlimit};
use tokio::{
    net::UnixListener,
    runtime,
    sync::{mpsc, watch},
    time::{Duration, timeout},
};

use crate::{
    config, door,
    engine::{Engine, House},
    paths::{Paths, SocketPath},
    shell,
    start::{Lock, Starter},
    store::{Sqlite, Store},
    watchers::Errands,
};

// Knocks wait here while the engine is busy; a client that fills it waits at its own socket.
const KNOCKS_IN_LINE: usize = 1024;
// What clients may take to read their last answers.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Runs the daemon in this process until somebody stops it.
pub fn daemon(paths: &Paths) -> Result<(), Error> {
    let trouble = |error: io::Error| {
        Error::new(
            Kind::Unavailable,
            format!("the daemon cannot start: {error}"),
        )
    };
    // Whatever is written from here on, the database's own side files included, is for us alone. Panes get their
    // caller's mask.
    rustix::process::umask(rustix::fs::Mode::RWXG | rustix::fs::Mode::RWXO);
    paths.prepare()?;
    let starter = Starter::take(paths).map_err(trouble)?;
    let started = begin(paths);
    let outcome = started.as_ref().map(|_| ()).map_err(Clone::clone);
    starter.tell(&outcome);
    let (runtime, engine, listener, _lock) = started?;
    runtime.block_on(serve(engine, listener)).map_err(trouble)?;
    let _ = fs::remove_file(paths.socket());
    tracing::info!("the daemon ends");
    Ok(())
}

fn begin(paths: &Paths) -> Result<(runtime::Runtime, Engine, UnixListener, Lock), Error> {
    let trouble = |error: io::Error| {
        Error::new(
            Kind::Unavailable,
            format!("the daemon cannot start: {error}"),
        )
    };
    // A daemon that is just ending gives its place up in a moment.
    let lock = Lock::take(&paths.daemon_lock()).map_err(trouble)?;
    let settings = config::load(&paths.config)?;
    shell::install(&paths.shell_files()).map_err(trouble)?;
    let unusable = |error: crate::store::StoreError| {
        Error::new(
            Kind::Unavailable,
            format!("{}: {error}", paths.database().display()),
        )
        .hint("is the disk full, or the file damaged?")
    };
    let mut store = Sqlite::at(&paths.database()).map_err(unusable)?;
    let snapshot = store.open().map_err(unusable)?;
    if !snapshot.watchers.is_empty() {
        Errands::sweep(paths);
    }
    let nofile = raise_file_limit();
    let epoch = snapshot.epoch;
    let runtime = runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(trouble)?;
    let _inside = runtime.enter();
    let listener = listen(&paths.socket()).map_err(trouble)?;
    let house = House {
        paths: paths.clone(),
        settings,
        epoch,
        nofile,
    };
    let engine = Engine::new(house, snapshot, store).map_err(trouble)?;
    tracing::info!(epoch, pid = std::process::id(), "the daemon listens");
    drop(_inside);
    Ok((runtime, engine, listener, lock))
}

/// With the lock held, a socket file that is there belongs to a dead daemon.
fn listen(path: &Path) -> io::Result<UnixListener> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let listener = std::os::unix::net::UnixListener::bind(SocketPath::new(path)?)?;
    listener.set_nonblocking(true)?;
    UnixListener::from_std(listener)
}

async fn serve(engine: Engine, listener: UnixListener) -> io::Result<()> {
    let (knock, knocks) = mpsc::channel(KNOCKS_IN_LINE);
    let (close, closing) = watch::channel(false);
    // Every visit holds one of these until its client has read its last answer.
    let (visit, mut visits_over) = mpsc::channel::<()>(1);
    let door = tokio::spawn(door::serve(listener, knock, closing, visit));
    // A task like the others: for what `block_on` itself waits for, the runtime asks the kernel once more for each waking.
    let outcome = match tokio::spawn(engine.run(knocks)).await {
        Ok(outcome) => outcome,
        Err(broken) => std::panic::resume_unwind(broken.into_panic()),
    };
    close.send_replace(true);
    door.abort();
    let _ = timeout(LAST_WORDS, visits_over.recv()).await;
    outcome
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
