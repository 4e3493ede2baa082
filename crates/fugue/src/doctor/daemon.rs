//! The daemon, and the store: by the daemon's own word where one runs, else by a copy of the database.

use std::{
    fs, io,
    os::unix::{fs::MetadataExt, net::UnixStream},
    path::Path,
};

use fugue_api::{
    Error,
    wire::{DaemonStatus, PROTOCOL, Request, Response, StoreState},
};
use fugue_client::{
    display::format_age,
    paths::{SocketPath, UserPaths},
    version,
};
use fugue_daemon::inspection::{self, DatabaseState};

use super::{ANSWER_TIMEOUT, Cure, DoctorContext, Finding, cure_of};

pub fn check(context: &DoctorContext) -> Vec<Finding> {
    let paths = &context.paths;
    let connected =
        SocketPath::new(&paths.socket()).and_then(|socket| UnixStream::connect(socket).map(drop));
    let owner = lock_owner(paths);
    match connected {
        Ok(()) => ask(context, owner),
        Err(error) => {
            if let (None, Some(pid)) = (owner, owner_of(&paths.database(), "POSIX")) {
                return vec![earlier_daemon(pid)];
            }
            let daemon = without_answer(paths, &error, owner);
            match owner {
                Some(_) => vec![daemon],
                None => vec![daemon, check_database(paths)],
            }
        }
    }
}

/// A daemon that cannot be connected to.
fn without_answer(paths: &UserPaths, error: &io::Error, owner: Option<u32>) -> Finding {
    let shown = paths.socket();
    let shown = shown.display();
    match (error.kind(), owner) {
        (io::ErrorKind::NotFound, None) => Finding::ok("daemon", "none runs; any verb starts one"),
        (io::ErrorKind::ConnectionRefused, None) => Finding::fail(
            "daemon",
            format!("none runs, and the socket of an earlier one is left: {shown}"),
            Cure::Command("fugue daemon start".to_owned()),
        ),
        (_, Some(pid)) => Finding::fail(
            "daemon",
            format!(
                "pid {pid} has the state directory, and its socket cannot be reached: {shown}: {error}"
            ),
            wake(pid),
        ),
        (_, None) => Finding::fail(
            "daemon",
            format!("{shown}: {error}"),
            Cure::Person("you: make the state directory readable for yourself".to_owned()),
        ),
    }
}

/// A daemon of a version whose socket and lock were elsewhere.
fn earlier_daemon(pid: u32) -> Finding {
    Finding::fail(
        "daemon",
        format!(
            "pid {pid} has the database open, a daemon of an earlier version that this one cannot talk to; panes outlive it"
        ),
        Cure::Command(format!("kill {pid}")),
    )
}

/// What to do about a daemon that does not answer: let a stopped one go on, end another. Its panes go on.
fn wake(pid: u32) -> Cure {
    let is_stopped = i32::try_from(pid).is_ok_and(fugue_holder::is_stopped);
    Cure::Command(match is_stopped {
        true => format!("kill -CONT {pid}"),
        false => format!("kill -9 {pid}"),
    })
}

fn ask(context: &DoctorContext, owner: Option<u32>) -> Vec<Finding> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let Ok(runtime) = runtime else {
        return vec![super::unfinished("daemon")];
    };
    let asked = runtime.block_on(async {
        tokio::time::timeout(ANSWER_TIMEOUT, async {
            let greeting = context.client.greeting().await;
            let status = context.client.ask_listening(Request::DaemonStatus).await;
            (greeting, status)
        })
        .await
    });
    runtime.shutdown_background();
    let silent = |pid: Option<u32>| {
        let (name, cure) = match pid {
            Some(pid) => (format!("pid {pid}"), wake(pid)),
            None => (
                "whoever has its socket".to_owned(),
                Cure::Person("you: `fugue daemon status` waits longer for it".to_owned()),
            ),
        };
        vec![Finding::fail(
            "daemon",
            format!("{name} accepts connections and does not answer"),
            cure,
        )]
    };
    match asked {
        Err(_) => silent(owner),
        Ok((Some(greeting), _)) if greeting.protocol != PROTOCOL => {
            let error = version::other_protocol_error(&greeting);
            vec![Finding::fail(
                "daemon",
                error.message.clone(),
                cure_of(&error),
            )]
        }
        Ok((_, Ok(Some(Response::DaemonStatus { status })))) => {
            vec![of_status(&status), store_of(&status)]
                .into_iter()
                .chain(quota_of(&status))
                .collect()
        }
        Ok(_) => silent(owner),
    }
}

fn of_status(status: &DaemonStatus) -> Finding {
    let ours = env!("CARGO_PKG_VERSION");
    let panes = status.panes;
    let about = format!(
        "fugue {} runs as pid {} for {}, panes: {panes}",
        status.version,
        status.pid,
        format_age(status.uptime_ms)
    );
    let is_same = version::runs_this_program(status.pid) != Some(false);
    if status.version == ours && is_same {
        return Finding::ok("daemon", about);
    }
    Finding::warn(
        "daemon",
        format!("{about}; this program is another build, fugue {ours}"),
        Cure::Command("fugue daemon restart".to_owned()),
    )
}

fn store_of(status: &DaemonStatus) -> Finding {
    let store = &status.store;
    let reason = store.reason.as_deref().unwrap_or("no reason is known");
    match store.state {
        StoreState::Stalled => Finding::fail(
            "store",
            format!("stalled: {reason}; {} commits wait", store.unstored_commits),
            Cure::Person(format!(
                "you: make room on the disk of {}; the daemon retries by itself",
                status.socket
            )),
        ),
        StoreState::Ended => Finding::fail(
            "store",
            format!("the database accepts nothing more: {reason}"),
            Cure::Command("fugue daemon restart".to_owned()),
        ),
        StoreState::Ok => set_aside(store.quarantined_records, &store.notes),
    }
}

/// A database that is in use, or could be.
fn set_aside(quarantined: u64, notes: &[String]) -> Finding {
    let mut said = notes.to_vec();
    if quarantined > 0 {
        said.push(format!(
            "records that could not be read and are set aside: {quarantined}"
        ));
    }
    if said.is_empty() {
        return Finding::ok("store", "the database is sound");
    }
    Finding::warn(
        "store",
        said.join("; "),
        Cure::Person(
            "you: look whether panes or events are missing; what was set aside is kept beside the database or in its table `quarantine`"
                .to_owned(),
        ),
    )
}

fn quota_of(status: &DaemonStatus) -> Option<Finding> {
    let note = status.logs.note.as_ref()?;
    let person = "you: close panes that you no longer need, or raise `logs_quota_mb`";
    Some(Finding::warn(
        "quota",
        note.clone(),
        Cure::Person(person.to_owned()),
    ))
}

fn check_database(paths: &UserPaths) -> Finding {
    let checked: Result<DatabaseState, Error> = inspection::check_database(paths);
    match checked {
        Ok(DatabaseState::Missing) => {
            Finding::ok("store", "no database yet; the first daemon creates it")
        }
        Ok(DatabaseState::Sound { quarantined }) => set_aside(quarantined, &[]),
        Ok(DatabaseState::TooLarge) => Finding::warn(
            "store",
            "the database is too large to be checked within two seconds",
            Cure::Command("fugue daemon repair".to_owned()),
        ),
        Ok(DatabaseState::Damaged(reason)) => Finding::fail(
            "store",
            format!("the database is damaged: {reason}"),
            Cure::Command("fugue daemon repair".to_owned()),
        ),
        Err(error) => Finding::fail("store", error.message.clone(), cure_of(&error)),
    }
}

/// The process that has the lock of the state directory: the daemon.
pub(super) fn lock_owner(paths: &UserPaths) -> Option<u32> {
    owner_of(&paths.state, "FLOCK")
}

/// The process that has a lock of this kind on a file, by the kernel's list: taking the lock to find out could keep a daemon from
/// starting.
fn owner_of(path: &Path, kind: &str) -> Option<u32> {
    let found = fs::metadata(path).ok()?;
    let (dev, inode) = (found.dev(), found.ino());
    let place = format!(
        "{:02x}:{:02x}:{inode}",
        rustix::fs::major(dev),
        rustix::fs::minor(dev)
    );
    // 1: FLOCK  ADVISORY  WRITE 708 00:17:4711 0 EOF
    let locks = fs::read_to_string("/proc/locks").ok()?;
    let mut lines = locks
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>());
    lines.find_map(|words| match words[..] {
        [_, of, _, _, pid, at, ..] if of == kind && at == place => pid.parse().ok(),
        _ => None,
    })
}
