//! A file system that becomes read-only under a running daemon, as a disk with errors does: every call of daemon and
//! holders that would change a file is refused, for as long as the test says. (`mount -o remount,ro` cannot stage this:
//! the kernel refuses it while files are open for writing.)

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use fugue_api::{pane_state::PaneState, tools::PaneStatus, wire::StoreState};
use fugue_testkit::{
    MissingRequirement, ProcessRef, TestEnv, skip,
    supervisor::{Errno, ProcessRole, Syscall, SyscallSupervisor, SyscallVerdict},
    until,
};

use super::errors::{Target, target};

const LIMIT: Duration = Duration::from_secs(60);

/// Whether a call would change a file.
fn changes(name: &str, target: Target) -> bool {
    match name {
        "write" | "pwrite64" | "writev" | "splice" | "fsync" | "fdatasync" | "ftruncate"
        | "fallocate" | "rename" | "renameat" | "renameat2" | "linkat" | "unlink" | "unlinkat"
        | "rmdir" | "mkdir" | "mkdirat" => matches!(target, Target::File | Target::NewFile),
        "openat" => target == Target::NewFile,
        _ => false,
    }
}

#[test]
fn a_file_system_that_becomes_read_only_refuses_what_is_new_and_loses_nothing() {
    let mut test_env = TestEnv::new(env!("CARGO_BIN_EXE_fugue"), Duration::from_secs(300));
    let dir = test_env.dir().to_owned();
    let read_only = Arc::new(AtomicBool::new(false));
    let is_read_only = Arc::clone(&read_only);
    let supervisor = SyscallSupervisor::new(Syscall::all(), move |call| {
        let refused = is_read_only.load(Ordering::Relaxed)
            && call.role() != ProcessRole::Other
            && target(call, &dir).is_some_and(|target| changes(call.syscall.name, target));
        match refused {
            true => SyscallVerdict::Fail(Errno::ROFS),
            false => SyscallVerdict::Continue,
        }
    });
    match supervisor {
        Ok(supervisor) => test_env.supervise(supervisor),
        Err(error) => {
            return skip(
                MissingRequirement::Machine,
                format!("calls cannot be supervised: {error}"),
            );
        }
    }
    let pane = test_env.pane("read -r a; echo got $a; read -r b; echo and $b");
    let child = ProcessRef::find(pane.pid).expect("its child runs");
    let ended = test_env.pane("echo kept").pane_id;
    test_env.exited(ended);

    read_only.store(true, Ordering::Relaxed);
    let refused = test_env.refused(&["new", "--", "true"], 1);
    let hint = refused.hint.clone().unwrap_or_default();
    assert!(
        refused.message.contains("disk") && hint.contains("read-only"),
        "the reason is told: {refused:?}"
    );
    let notice = [
        "notify",
        "success",
        "-m",
        "done",
        "--session-id",
        "lead",
        "--worker-id",
        "w",
    ];
    // It is told that it is not stored yet, and later ones are refused at once.
    test_env.refused(&notice, 1);
    assert_eq!(test_env.daemon().store.state, StoreState::Stalled);
    // What is there is read, and the program goes on; what it prints waits for the disk.
    assert!(test_env.text(ended).contains("kept"));
    test_env.fugue(&["send", &pane.pane_id.to_string(), "one", "--enter"]);
    until("its output waits", LIMIT, || {
        let status: PaneStatus = test_env.status(pane.pane_id);
        assert_ne!(status.state.state, PaneState::Exited, "{status:?}");
        status.note.is_some_and(|note| note.contains("waits"))
    });
    assert!(child.is_alive());

    read_only.store(false, Ordering::Relaxed);
    until("the store works", LIMIT, || {
        test_env.daemon().store.state != StoreState::Stalled
    });
    test_env.until_printed(pane.pane_id, |text| text.contains("got one"));
    test_env.type_line(pane.pane_id, "two");
    test_env.until_printed(pane.pane_id, |text| text.contains("and two"));
    test_env.exited(pane.pane_id);
    let text = test_env.text(pane.pane_id);
    assert_eq!(text.matches("got one").count(), 1, "{text}");
    test_env.exited(test_env.pane("true").pane_id);
}
