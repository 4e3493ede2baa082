//! A new daemon adopts live panes while something fails (no descriptors, a stopped holder, a failing call): a pane is marked
//! as exited only when its end is proved, and a holder that cannot be reached is tried again.

use std::time::{Duration, Instant};

use fugue_api::{PaneId, pane_state::PaneState};
use fugue_testkit::{
    MissingRequirement, ProcessRef, RunningProgram, TestEnv, skip, skip_on_tmux, until,
};

/// The longest wait for one condition; the machine may be busy.
const WAIT_TIMEOUT: Duration = Duration::from_secs(60);

fn test_env() -> TestEnv {
    TestEnv::new(env!("CARGO_BIN_EXE_fugue"), Duration::from_secs(300))
}

fn signal(test_env: &TestEnv, signal: &str, process: &ProcessRef) {
    test_env
        .run("kill", &[signal, &process.pid.to_string()])
        .ok();
}

fn note_of(test_env: &TestEnv, pane: PaneId) -> String {
    test_env.status(pane).note.unwrap_or_default()
}

#[test]
fn panes_that_a_daemon_without_fds_cannot_reach_are_kept_and_come_back() {
    if skip_on_tmux("holders that tmux shows are as many, and slower") {
        return;
    }
    let test_env = test_env();
    let panes: Vec<_> = (0..14)
        .map(|n| test_env.pane(&format!("echo made {n}; exec cat")))
        .collect();
    test_env.kill_daemon();
    test_env.start_daemon_with(&["prlimit", "--nofile=64:64"]);
    for row in test_env.overview().panes {
        assert_ne!(row.state.state, PaneState::Exited, "{row:?}");
    }
    let unreachable = panes
        .iter()
        .filter(|pane| note_of(&test_env, pane.pane_id).contains("cannot be reached"));
    assert!(unreachable.count() > 0, "64 fds are too few for 14 panes");
    test_env.kill_daemon();
    test_env.fugue(&["daemon", "start"]).ok();
    for (n, pane) in panes.iter().enumerate() {
        let process = ProcessRef::find(pane.pid).expect("the child of the beginning");
        assert!(process.is_alive());
        until("the pane is reached", WAIT_TIMEOUT, || {
            !note_of(&test_env, pane.pane_id).contains("cannot be reached")
        });
        test_env.type_line(pane.pane_id, "typed");
        let text = test_env.until_printed(pane.pane_id, |text| text.matches("typed").count() == 2);
        assert!(text.starts_with(&format!("made {n}\n")), "{text}");
    }
}

#[test]
fn stopping_with_panes_that_cannot_be_reached_leaves_no_process() {
    if skip_on_tmux("holders that tmux shows are as many, and slower") {
        return;
    }
    let test_env = test_env();
    let panes: Vec<_> = (0..14)
        .map(|_| test_env.pane("trap '' HUP TERM; sleep 1000 & wait"))
        .collect();
    let mut processes = test_env.holders();
    processes.extend(panes.iter().filter_map(|pane| ProcessRef::find(pane.pid)));
    assert_eq!(processes.len(), 2 * panes.len());
    test_env.kill_daemon();
    test_env.start_daemon_with(&["prlimit", "--nofile=64:64"]);
    let unreachable = panes
        .iter()
        .filter(|pane| note_of(&test_env, pane.pane_id).contains("cannot be reached"));
    assert!(unreachable.count() > 0, "64 fds are too few for 14 panes");
    test_env.fugue(&["daemon", "stop", "--panes"]).ok();
    until("no process of fugue is left", WAIT_TIMEOUT, || {
        test_env.processes().is_empty()
    });
    assert!(processes.iter().all(|process| !process.is_alive()));
}

#[test]
fn a_stopped_holder_delays_no_other_pane_and_comes_back_when_it_goes_on() {
    if skip_on_tmux("the holder is found by its directory") {
        return;
    }
    let test_env = test_env();
    let stopped = test_env.pane("echo before; exec cat").pane_id;
    // As many as there are threads for panes, so that one of them shares the stopped one's.
    let others: Vec<PaneId> = (0..4).map(|_| test_env.pane("exec cat").pane_id).collect();
    test_env.until_printed(stopped, |text| text.contains("before"));
    let holder = test_env.holder(stopped).expect("its holder runs");
    for adopted in [false, true] {
        signal(&test_env, "-STOP", &holder);
        if adopted {
            test_env.kill_daemon();
            test_env.fugue(&["daemon", "start"]).ok();
        }
        let begun = Instant::now();
        for other in &others {
            assert_eq!(note_of(&test_env, *other), "");
        }
        assert!(begun.elapsed() < WAIT_TIMEOUT / 4, "{:?}", begun.elapsed());
        until("the stopped one says so", WAIT_TIMEOUT, || {
            note_of(&test_env, stopped).contains("cannot be reached")
        });
        assert_ne!(test_env.status(stopped).state.state, PaneState::Exited);
        assert!(test_env.text(stopped).contains("before"));
        let refused = test_env.refused(&["send", &stopped.to_string(), "x"], 1);
        assert!(refused.message.contains("cannot be reached"), "{refused:?}");
        signal(&test_env, "-CONT", &holder);
        until("it comes back", WAIT_TIMEOUT, || {
            note_of(&test_env, stopped).is_empty()
        });
    }
    test_env.type_line(stopped, "after");
    test_env.until_printed(stopped, |text| text.matches("after").count() == 2);
}

#[test]
fn closing_a_pane_whose_holder_is_stopped_leaves_no_process() {
    if skip_on_tmux("the holder is found by its directory") {
        return;
    }
    let test_env = test_env();
    for adopted in [false, true] {
        let pane = test_env.pane("trap '' HUP TERM; sleep 1000 & wait");
        let holder = test_env.holder(pane.pane_id).expect("its holder runs");
        let child = ProcessRef::find(pane.pid).expect("its child runs");
        signal(&test_env, "-STOP", &holder);
        if adopted {
            test_env.kill_daemon();
            test_env.fugue(&["daemon", "start"]).ok();
        }
        test_env.fugue(&["close", &pane.pane_id.to_string(), "--grace-ms", "100"]);
        until("it is closed", WAIT_TIMEOUT, || {
            test_env.status(pane.pane_id).state.state == PaneState::Closed
        });
        until("no process is left", WAIT_TIMEOUT, || {
            !holder.is_alive() && !child.is_alive()
        });
    }
}

#[test]
fn a_child_that_outlives_holder_and_daemon_is_not_called_ended() {
    if skip_on_tmux("the holder is found by its directory") {
        return;
    }
    let test_env = test_env();
    let survivor = test_env.pane("trap '' HUP; echo ready; while :; do sleep 1000; done");
    let mortal = test_env.pane("echo ready; exec sleep 1000");
    for pane in [survivor.pane_id, mortal.pane_id] {
        test_env.until_printed(pane, |text| text.contains("ready"));
    }
    let child = ProcessRef::find(survivor.pid).expect("its child runs");
    let mut killed = test_env.holders();
    killed.extend(test_env.daemons());
    for process in &killed {
        signal(&test_env, "-STOP", process);
    }
    for process in &killed {
        process.kill9();
    }
    until("they are gone", WAIT_TIMEOUT, || {
        killed.iter().all(|process| !process.is_alive())
    });
    test_env.fugue(&["daemon", "start"]).ok();
    until("the hung-up one has ended", WAIT_TIMEOUT, || {
        test_env.status(mortal.pane_id).state.state == PaneState::Exited
    });
    assert_eq!(note_of(&test_env, mortal.pane_id), "", "no boot has ended");
    let status = test_env.status(survivor.pane_id);
    assert_eq!(status.state.state, PaneState::Running, "{status:?}");
    assert!(status.note.unwrap_or_default().contains("still runs"));
    assert!(test_env.text(survivor.pane_id).contains("ready"));
    test_env.close(survivor.pane_id);
    assert!(!child.is_alive());
}

#[test]
fn one_failed_syscall_at_adoption_ends_no_pane() {
    if skip_on_tmux("the same syscalls, and tmux's own") {
        return;
    }
    if !test_env()
        .run("strace", &["-o", "/dev/null", "true"])
        .code
        .eq(&Some(0))
    {
        return skip(
            MissingRequirement::Program,
            "strace is not installed or cannot trace",
        );
    }
    for fault in [
        "connect:error=ENOMEM:when=1",
        "sendmsg:error=ENOBUFS:when=1",
        "recvmsg:error=ENOMEM:when=1",
        "getdents64:error=EIO:when=1..4",
    ] {
        let test_env = test_env();
        let pane = test_env.pane("echo ready; exec cat");
        let child = ProcessRef::find(pane.pid).expect("its child runs");
        test_env.kill_daemon();
        let inject = format!("inject={fault}");
        test_env.start_daemon_with(&["strace", "-f", "-o", "/dev/null", "-e", &inject]);
        until("the pane is back", WAIT_TIMEOUT, || {
            let status = test_env.status(pane.pane_id);
            assert_ne!(status.state.state, PaneState::Exited, "{fault}: {status:?}");
            status.note.is_none()
        });
        assert!(child.is_alive(), "{fault}");
        test_env.until_printed(pane.pane_id, |text| text.contains("ready"));
    }
}

fn directories(test_env: &TestEnv) -> usize {
    std::fs::read_dir(test_env.state().join("panes")).map_or(0, Iterator::count)
}

#[test]
fn a_daemon_that_is_killed_while_it_forgets_leaves_no_directory_behind() {
    let test_env = test_env();
    // Directories that take a while to be removed.
    for _ in 0..12 {
        let pane = test_env.pane("true").pane_id;
        test_env.exited(pane);
        let dir = test_env.state().join(format!("panes/{pane}"));
        let fill = "cd \"$0\" && mkdir many && cd many && seq 3000 | xargs touch";
        test_env
            .run("sh", &["-c", fill, &dir.to_string_lossy()])
            .ok();
    }
    // The next daemon forgets all but one of them, and is killed while it does.
    test_env.kill_daemon();
    test_env.configure("forget_beyond_panes = 1\n");
    test_env.fugue(&["daemon", "start"]).ok();
    test_env.kill_daemon();
    test_env.fugue(&["daemon", "start"]).ok();
    until("only recorded panes have directories", WAIT_TIMEOUT, || {
        directories(&test_env) == test_env.overview().panes.len()
    });
    assert_eq!(directories(&test_env), 1);
}

#[test]
fn stopping_with_panes_beyond_the_limit_leaves_only_recorded_directories() {
    let test_env = test_env();
    test_env.configure("forget_beyond_panes = 2\n");
    for _ in 0..8 {
        test_env.pane("exec cat");
    }
    test_env.fugue(&["daemon", "stop", "--panes"]).ok();
    until("no daemon runs", WAIT_TIMEOUT, || {
        test_env.daemons().is_empty()
    });
    test_env.fugue(&["daemon", "start"]).ok();
    until("only recorded panes have directories", WAIT_TIMEOUT, || {
        directories(&test_env) == test_env.overview().panes.len()
    });
    assert_eq!(directories(&test_env), 2);
}

#[test]
fn an_old_directory_without_a_record_is_removed_and_one_that_is_in_use_is_kept() {
    if skip_on_tmux("the holder is found by its directory") {
        return;
    }
    let test_env = test_env();
    test_env.configure("forget_after_hours = 1\n");
    let live = test_env.pane("exec cat");
    test_env.kill_daemon();
    let panes = test_env.state().join("panes");
    let recorded = panes.join(live.pane_id.to_string());
    for name in ["p900", "p901"] {
        std::fs::create_dir(panes.join(name)).expect("a directory");
        std::fs::write(panes.join(name).join("out.0000000000000000"), "old").expect("a file");
    }
    // p902 is in use: its lock is held.
    std::fs::create_dir(panes.join("p902")).expect("a directory");
    let lock = panes.join("p902").join("hold.lock");
    std::fs::write(&lock, "").expect("a file");
    let mut holder = test_env.command("sh");
    let hold = "exec 9< \"$0\"; flock 9; echo held; exec sleep 1000";
    holder.args(["-c".as_ref(), hold.as_ref(), lock.as_os_str()]);
    let mut holder = RunningProgram::start(holder);
    holder.wait_for_stdout(WAIT_TIMEOUT, |said| said.contains("held"));
    for name in ["p900", "p902"] {
        let find = ["-c", "find \"$0\" -exec touch -d '3 hours ago' {} +"];
        let dir = panes.join(name).to_string_lossy().into_owned();
        test_env.run("sh", &[find[0], find[1], &dir]).ok();
    }
    test_env.fugue(&["daemon", "start"]).ok();
    until("the old one is removed", WAIT_TIMEOUT, || {
        !panes.join("p900").exists()
    });
    assert!(panes.join("p901").exists(), "it is young");
    assert!(panes.join("p902").exists(), "it is in use");
    assert!(recorded.exists());
    drop(holder);
}
