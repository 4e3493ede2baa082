//! A new daemon adopts live panes while something fails (no descriptors, a stopped holder, a failing call): a pane is marked
//! as exited only when its end is proved, and a holder that cannot be reached is tried again.

use std::time::{Duration, Instant};

use fugue_api::{PaneId, pane_state::PaneState, tools::CreatePaneReply};
use fugue_testkit::{
    MissingRequirement, ProcessRef, RunningProgram, TestEnv, skip, skip_on_tmux, until,
};

/// The longest wait for one condition; the machine may be busy.
const WAIT_TIMEOUT: Duration = Duration::from_secs(60);

fn world() -> TestEnv {
    TestEnv::new(env!("CARGO_BIN_EXE_fugue"), Duration::from_secs(300))
}

fn signal(world: &TestEnv, signal: &str, process: &ProcessRef) {
    world.run("kill", &[signal, &process.pid.to_string()]).ok();
}

fn note_of(world: &TestEnv, pane: PaneId) -> String {
    world.status(pane).note.unwrap_or_default()
}

#[test]
fn panes_that_a_daemon_without_fds_cannot_reach_are_kept_and_come_back() {
    if skip_on_tmux("holders that tmux shows are as many, and slower") {
        return;
    }
    let world = world();
    let panes: Vec<_> = (0..14)
        .map(|n| world.pane(&format!("echo made {n}; exec cat")))
        .collect();
    world.kill_daemon();
    world.start_daemon_with(&["prlimit", "--nofile=64:64"]);
    for row in world.overview().panes {
        assert_ne!(row.state.state, PaneState::Exited, "{row:?}");
    }
    let unreachable = panes
        .iter()
        .filter(|pane| note_of(&world, pane.pane_id).contains("cannot be reached"));
    assert!(unreachable.count() > 0, "64 fds are too few for 14 panes");
    world.kill_daemon();
    world.fugue(&["daemon", "start"]).ok();
    for (n, pane) in panes.iter().enumerate() {
        let process = ProcessRef::find(pane.pid).expect("the child of the beginning");
        assert!(process.is_alive());
        until("the pane is reached", WAIT_TIMEOUT, || {
            !note_of(&world, pane.pane_id).contains("cannot be reached")
        });
        world.type_line(pane.pane_id, "typed");
        let text = world.until_printed(pane.pane_id, |text| text.matches("typed").count() == 2);
        assert!(text.starts_with(&format!("made {n}\n")), "{text}");
    }
}

#[test]
fn a_daemon_without_fds_refuses_new_panes_by_name_and_serves_the_others() {
    if skip_on_tmux("the same descriptors, and tmux's own") {
        return;
    }
    let world = world();
    world.start_daemon_with(&["prlimit", "--nofile=64:64"]);
    let mut panes = Vec::new();
    let refused = loop {
        let made = world.fugue(&["new", "--json", "--", "exec cat"]);
        match made.code {
            Some(0) => panes.push(made.json::<CreatePaneReply>().pane_id),
            _ => break made.refusal(),
        }
        assert!(panes.len() < 14, "64 fds are too few for 14 panes");
    };
    assert!(
        refused.message.contains("Too many open files"),
        "{refused:?}"
    );
    let hint = refused.hint.unwrap_or_default();
    assert!(hint.contains("`ulimit -Hn`"), "{hint}");
    until("no half-made holder stays", WAIT_TIMEOUT, || {
        world.holders().len() == panes.len()
    });
    for pane in &panes {
        world.type_line(*pane, "typed");
        world.until_printed(*pane, |text| text.matches("typed").count() == 2);
    }
    world.close(panes.pop().expect("there was room for one"));
    world.pane("exec cat");
}

#[test]
fn stopping_with_panes_that_cannot_be_reached_leaves_no_process() {
    if skip_on_tmux("holders that tmux shows are as many, and slower") {
        return;
    }
    let world = world();
    let panes: Vec<_> = (0..14)
        .map(|_| world.pane("trap '' HUP TERM; sleep 1000 & wait"))
        .collect();
    let mut processes = world.holders();
    processes.extend(panes.iter().filter_map(|pane| ProcessRef::find(pane.pid)));
    assert_eq!(processes.len(), 2 * panes.len());
    world.kill_daemon();
    world.start_daemon_with(&["prlimit", "--nofile=64:64"]);
    let unreachable = panes
        .iter()
        .filter(|pane| note_of(&world, pane.pane_id).contains("cannot be reached"));
    assert!(unreachable.count() > 0, "64 fds are too few for 14 panes");
    world.fugue(&["daemon", "stop", "--panes"]).ok();
    until("no process of fugue is left", WAIT_TIMEOUT, || {
        world.processes().is_empty()
    });
    assert!(processes.iter().all(|process| !process.is_alive()));
}

#[test]
fn a_stopped_holder_delays_no_other_pane_and_comes_back_when_it_goes_on() {
    if skip_on_tmux("the holder is found by its directory") {
        return;
    }
    let world = world();
    let stopped = world.pane("echo before; exec cat").pane_id;
    // As many as there are threads for panes, so that one of them shares the stopped one's.
    let others: Vec<PaneId> = (0..4).map(|_| world.pane("exec cat").pane_id).collect();
    world.until_printed(stopped, |text| text.contains("before"));
    let holder = world.holder(stopped).expect("its holder runs");
    for adopted in [false, true] {
        signal(&world, "-STOP", &holder);
        if adopted {
            world.kill_daemon();
            world.fugue(&["daemon", "start"]).ok();
        }
        let begun = Instant::now();
        for other in &others {
            assert_eq!(note_of(&world, *other), "");
        }
        assert!(begun.elapsed() < WAIT_TIMEOUT / 4, "{:?}", begun.elapsed());
        until("the stopped one says so", WAIT_TIMEOUT, || {
            note_of(&world, stopped).contains("cannot be reached")
        });
        assert_ne!(world.status(stopped).state.state, PaneState::Exited);
        assert!(world.text(stopped).contains("before"));
        let refused = world.refused(&["send", &stopped.to_string(), "x"], 1);
        assert!(refused.message.contains("cannot be reached"), "{refused:?}");
        signal(&world, "-CONT", &holder);
        until("it comes back", WAIT_TIMEOUT, || {
            note_of(&world, stopped).is_empty()
        });
    }
    world.type_line(stopped, "after");
    world.until_printed(stopped, |text| text.matches("after").count() == 2);
}

#[test]
fn closing_a_pane_whose_holder_is_stopped_leaves_no_process() {
    if skip_on_tmux("the holder is found by its directory") {
        return;
    }
    let world = world();
    for adopted in [false, true] {
        let pane = world.pane("trap '' HUP TERM; sleep 1000 & wait");
        let holder = world.holder(pane.pane_id).expect("its holder runs");
        let child = ProcessRef::find(pane.pid).expect("its child runs");
        signal(&world, "-STOP", &holder);
        if adopted {
            world.kill_daemon();
            world.fugue(&["daemon", "start"]).ok();
        }
        world.fugue(&["close", &pane.pane_id.to_string(), "--grace-ms", "100"]);
        until("it is closed", WAIT_TIMEOUT, || {
            world.status(pane.pane_id).state.state == PaneState::Closed
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
    let world = world();
    let survivor = world.pane("trap '' HUP; echo ready; while :; do sleep 1000; done");
    let mortal = world.pane("echo ready; exec sleep 1000");
    for pane in [survivor.pane_id, mortal.pane_id] {
        world.until_printed(pane, |text| text.contains("ready"));
    }
    let child = ProcessRef::find(survivor.pid).expect("its child runs");
    let mut killed = world.holders();
    killed.extend(world.daemons());
    for process in &killed {
        signal(&world, "-STOP", process);
    }
    for process in &killed {
        process.kill9();
    }
    until("they are gone", WAIT_TIMEOUT, || {
        killed.iter().all(|process| !process.is_alive())
    });
    world.fugue(&["daemon", "start"]).ok();
    until("the hung-up one has ended", WAIT_TIMEOUT, || {
        world.status(mortal.pane_id).state.state == PaneState::Exited
    });
    assert_eq!(note_of(&world, mortal.pane_id), "", "no boot has ended");
    let status = world.status(survivor.pane_id);
    assert_eq!(status.state.state, PaneState::Running, "{status:?}");
    assert!(status.note.unwrap_or_default().contains("still runs"));
    assert!(world.text(survivor.pane_id).contains("ready"));
    world.close(survivor.pane_id);
    assert!(!child.is_alive());
}

#[test]
fn a_live_pane_whose_directory_was_removed_is_not_called_ended_and_can_be_closed() {
    if skip_on_tmux("the holder is found by its directory") {
        return;
    }
    let world = world();
    let pane = world.pane("trap '' HUP TERM; echo ready; sleep 1000 & wait");
    let id = pane.pane_id;
    world.until_printed(id, |text| text.contains("ready"));
    let child = ProcessRef::find(pane.pid).expect("its child runs");
    let holder = world.holder(id).expect("its holder runs");
    std::fs::remove_dir_all(world.state().join(format!("panes/{id}"))).expect("its directory goes");
    world.kill_daemon();
    world.fugue(&["daemon", "start"]).ok();
    until("the pane is said to be unreachable", WAIT_TIMEOUT, || {
        let status = world.status(id);
        assert_ne!(status.state.state, PaneState::Exited, "{status:?}");
        status
            .note
            .is_some_and(|note| note.contains("cannot be reached"))
    });
    assert!(child.is_alive() && holder.is_alive());
    world.close(id);
    assert!(!child.is_alive() && !holder.is_alive());
}

#[test]
fn one_failed_syscall_at_adoption_ends_no_pane() {
    if skip_on_tmux("the same syscalls, and tmux's own") {
        return;
    }
    if !world()
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
        let world = world();
        let pane = world.pane("echo ready; exec cat");
        let child = ProcessRef::find(pane.pid).expect("its child runs");
        world.kill_daemon();
        let inject = format!("inject={fault}");
        world.start_daemon_with(&["strace", "-f", "-o", "/dev/null", "-e", &inject]);
        until("the pane is back", WAIT_TIMEOUT, || {
            let status = world.status(pane.pane_id);
            assert_ne!(status.state.state, PaneState::Exited, "{fault}: {status:?}");
            status.note.is_none()
        });
        assert!(child.is_alive(), "{fault}");
        world.until_printed(pane.pane_id, |text| text.contains("ready"));
    }
}

fn directories(world: &TestEnv) -> usize {
    std::fs::read_dir(world.state().join("panes")).map_or(0, Iterator::count)
}

#[test]
fn a_daemon_that_is_killed_while_it_forgets_leaves_no_directory_behind() {
    let world = world();
    // Directories that take a while to be removed.
    for _ in 0..12 {
        let pane = world.pane("true").pane_id;
        world.exited(pane);
        let dir = world.state().join(format!("panes/{pane}"));
        let fill = "cd \"$0\" && mkdir many && cd many && seq 3000 | xargs touch";
        world.run("sh", &["-c", fill, &dir.to_string_lossy()]).ok();
    }
    // The next daemon forgets all but one of them, and is killed while it does.
    world.kill_daemon();
    world.configure("forget_beyond_panes = 1\n");
    world.fugue(&["daemon", "start"]).ok();
    world.kill_daemon();
    world.fugue(&["daemon", "start"]).ok();
    until("only recorded panes have directories", WAIT_TIMEOUT, || {
        directories(&world) == world.overview().panes.len()
    });
    assert_eq!(directories(&world), 1);
}

#[test]
fn stopping_with_panes_beyond_the_limit_leaves_only_recorded_directories() {
    let world = world();
    world.configure("forget_beyond_panes = 2\n");
    for _ in 0..8 {
        world.pane("exec cat");
    }
    world.fugue(&["daemon", "stop", "--panes"]).ok();
    until("no daemon runs", WAIT_TIMEOUT, || {
        world.daemons().is_empty()
    });
    world.fugue(&["daemon", "start"]).ok();
    until("only recorded panes have directories", WAIT_TIMEOUT, || {
        directories(&world) == world.overview().panes.len()
    });
    assert_eq!(directories(&world), 2);
}

#[test]
fn an_old_directory_without_a_record_is_removed_and_one_that_is_in_use_is_kept() {
    if skip_on_tmux("the holder is found by its directory") {
        return;
    }
    let world = world();
    world.configure("forget_after_hours = 1\n");
    let live = world.pane("exec cat");
    world.kill_daemon();
    let panes = world.state().join("panes");
    let recorded = panes.join(live.pane_id.to_string());
    for name in ["p900", "p901"] {
        std::fs::create_dir(panes.join(name)).expect("a directory");
        std::fs::write(panes.join(name).join("out.0000000000000000"), "old").expect("a file");
    }
    // p902 is in use: its lock is held.
    std::fs::create_dir(panes.join("p902")).expect("a directory");
    let lock = panes.join("p902").join("hold.lock");
    std::fs::write(&lock, "").expect("a file");
    let mut holder = world.command("sh");
    let hold = "exec 9< \"$0\"; flock 9; echo held; exec sleep 1000";
    holder.args(["-c".as_ref(), hold.as_ref(), lock.as_os_str()]);
    let mut holder = RunningProgram::start(holder);
    holder.wait_for_stdout(WAIT_TIMEOUT, |said| said.contains("held"));
    for name in ["p900", "p902"] {
        let find = ["-c", "find \"$0\" -exec touch -d '3 hours ago' {} +"];
        let dir = panes.join(name).to_string_lossy().into_owned();
        world.run("sh", &[find[0], find[1], &dir]).ok();
    }
    world.fugue(&["daemon", "start"]).ok();
    until("the old one is removed", WAIT_TIMEOUT, || {
        !panes.join("p900").exists()
    });
    assert!(panes.join("p901").exists(), "it is young");
    assert!(panes.join("p902").exists(), "it is in use");
    assert!(recorded.exists());
    drop(holder);
}
