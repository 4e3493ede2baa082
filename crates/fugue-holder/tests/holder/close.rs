//! Closing a pane leaves none of its processes behind.

use std::time::{Duration, Instant};

use fugue_holder::spawn::SpawnCommand;
use fugue_holder::wire::{ProcessExit, ProcessIdentity, ToHolder};
use fugue_holder::{ProcessScope, close_leftovers, identify, is_alive};

use super::test_pane::{TestPane, holder_exe, text};

/// Starts one of each kind of process that survives an ordinary termination, and prints their pids.
const STUBBORN_PROCESSES: &str = r#"
    sleep 1001 & echo pid $!
    nohup sleep 1002 >/dev/null 2>&1 & echo pid $!
    (trap '' HUP TERM INT; echo pid $(exec sh -c 'echo $PPID'); while :; do sleep 1003; done) &
    setsid sh -c 'sleep 1004 & echo pid $!' 
    setsid sh -c 'setsid env -i sleep 1005 >/dev/null 2>&1 & echo pid $!'
    sh -c 'kill -STOP $$; sleep 1006' & echo pid $!
    set -m; sleep 1007 & echo pid $!; set +m
    echo all; read x
"#;

fn stayers(pane: &mut TestPane) -> Vec<ProcessIdentity> {
    // Each subshell prints when it is ready.
    pane.read_until(|seen| {
        let seen = text(seen);
        seen.matches("pid ").count() == 7 && seen.contains("all\r\n") && seen.ends_with('\n')
    });
    let seen = text(&pane.seen);
    let pids: Vec<i32> = seen
        .lines()
        .filter_map(|l| l.strip_prefix("pid ")?.trim().parse().ok())
        .collect();
    assert_eq!(pids.len(), 7, "{seen}");
    let found: Vec<ProcessIdentity> = pids.iter().filter_map(|pid| identify(*pid)).collect();
    assert_eq!(found.len(), 7, "{seen}");
    found
}

/// All living processes with the pane's mark in their environment.
fn marked_processes(pane: &TestPane) -> Vec<String> {
    let mark = pane.mark();
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let path = entry.path();
        let Ok(environ) = std::fs::read(path.join("environ")) else {
            continue;
        };
        if environ.split(|b| *b == 0).any(|e| e == mark) {
            found.push(text(
                &std::fs::read(path.join("cmdline")).unwrap_or_default(),
            ));
        }
    }
    found
}

#[test]
fn a_close_leaves_none_of_the_panes_processes() {
    let mut pane = TestPane::with_holder();
    let spec = pane.spec(&["bash", "-c", STUBBORN_PROCESSES]);
    pane.start(spec);
    let stayers = stayers(&mut pane);
    let begun = Instant::now();
    assert_eq!(pane.close(300), 0);
    println!("closed in {:?}", begun.elapsed());
    for who in &stayers {
        assert!(!is_alive(*who), "{who:?}");
    }
    assert_eq!(marked_processes(&pane), Vec::<String>::new());
    assert!(matches!(
        pane.read_exit_record().unwrap().ending,
        ProcessExit::Signal { .. }
    ));
}

#[test]
fn a_close_of_willing_processes_does_not_wait_for_the_grace() {
    let mut pane = TestPane::running("sleep 1000 & sleep 1000 & echo up; wait");
    pane.read_until_text("up");
    let begun = Instant::now();
    assert_eq!(pane.close(50_000), 0);
    assert!(
        begun.elapsed() < Duration::from_secs(20),
        "{:?}",
        begun.elapsed()
    );
    assert_eq!(
        pane.wait_for_exit().ending,
        pane.read_exit_record().unwrap().ending
    );
}

#[test]
fn a_pane_whose_directory_was_removed_closes_too() {
    let mut pane = TestPane::running("echo up; exec sleep 1000");
    pane.read_until_text("up");
    std::fs::remove_dir_all(&pane.dir).unwrap();
    assert_eq!(pane.close(50_000), 0);
    assert!(matches!(
        pane.wait_for_exit().ending,
        ProcessExit::Signal { .. }
    ));
}

#[test]
fn an_interactive_shell_closes_too() {
    for shell in ["bash", "dash", "zsh"] {
        let mut pane = TestPane::with_holder();
        let spec = pane.spec(&[shell, "-i"]);
        pane.start(spec);
        pane.input(1, 1, b"sleep 1000 & echo $((40+2))\n");
        pane.read_until_text("42");
        let begun = Instant::now();
        assert_eq!(pane.close(3000), 0, "{shell}");
        assert!(
            begun.elapsed() < Duration::from_secs(3),
            "{shell}: {:?}",
            begun.elapsed()
        );
        assert_eq!(marked_processes(&pane), Vec::<String>::new());
    }
}

#[test]
fn a_close_goes_on_when_the_daemon_dies_in_the_middle() {
    let mut pane = TestPane::with_holder();
    let spec = pane.spec(&["bash", "-c", STUBBORN_PROCESSES]);
    pane.start(spec);
    let stayers = stayers(&mut pane);
    pane.send(&ToHolder::Close {
        id: 1,
        grace_ms: 200,
    });
    pane.link = None;
    assert_eq!(pane.wait_for_holder_exit(), ProcessExit::Code(0));
    for who in &stayers {
        assert!(!is_alive(*who), "{who:?}");
    }
    assert!(pane.read_exit_record().is_some());
}

#[test]
fn processes_that_breed_are_ended() {
    let bomb = "echo up; n=0; while [ $n -lt 40 ]; do n=$((n+1)); \
                (trap '' TERM HUP; while :; do sleep 0.01; done) & done; wait";
    let mut pane = TestPane::running(bomb);
    pane.read_until_text("up");
    assert_eq!(pane.close(50), 0);
    assert_eq!(marked_processes(&pane), Vec::<String>::new());
}

#[test]
fn what_a_dead_holder_left_can_be_closed_by_marks() {
    let mut pane = TestPane::with_holder();
    let spec = pane.spec(&["bash", "-c", STUBBORN_PROCESSES]);
    pane.start(spec);
    let stayers = stayers(&mut pane);
    pane.kill_holder();
    let scope = ProcessScope::new(Some(pane.child()), vec![pane.mark()]);
    assert_eq!(
        close_leftovers(scope, Duration::from_millis(200)).unwrap(),
        0
    );
    let left: Vec<&ProcessIdentity> = stayers.iter().filter(|w| is_alive(**w)).collect();
    // A process that left the session, lost its parent and cleared its environment cannot be distinguished from a
    // foreign one.
    assert!(left.len() <= 1, "{left:?}");
    for who in left {
        rustix::process::kill_process(
            rustix::process::Pid::from_raw(who.pid).unwrap(),
            rustix::process::Signal::KILL,
        )
        .unwrap();
    }
    assert_eq!(marked_processes(&pane), Vec::<String>::new());
}

#[test]
fn a_daemon_and_its_holders_outlive_the_pane_they_were_started_in() {
    let mut pane = TestPane::with_holder();
    // Represents a daemon that was started from a shell in the pane: our own program with the verb `daemon`, the pane's
    // mark in its environment, and the pane's holder as its subreaper.
    let script = format!(
        "setsid {} daemon & echo pid $!; read x",
        holder_exe().display()
    );
    let spec = pane.spec(&["bash", "-c", &script]);
    pane.start(spec);
    pane.read_until_text("serving");
    let seen = text(&pane.seen);
    let pid = seen
        .lines()
        .find_map(|l| l.strip_prefix("pid ")?.trim().parse().ok())
        .unwrap();
    let daemon = identify(pid).unwrap();
    assert_eq!(pane.close(200), 0);
    assert!(is_alive(daemon));
    let process = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(process, rustix::process::Signal::KILL).unwrap();
    pane.wait_for_process(daemon);

    // A process outside the pane is not signaled.
    let stranger = SpawnCommand::new("/bin/sleep").arg("1000").start().unwrap();
    let mut pane = TestPane::running("read x");
    assert_eq!(pane.close(100), 0);
    assert_eq!(stranger.try_wait().unwrap(), None);
    stranger.kill_and_reap();
}

#[test]
fn a_close_looks_at_the_panes_own_processes_only() {
    let mut pane = TestPane::with_holder();
    let spec = pane.spec(&["bash", "-c", "sleep 1000 & echo up; wait"]);
    pane.start(spec);
    pane.read_until_text("up");
    // A process that only copies the pane's environment does not belong to the pane.
    let mark = String::from_utf8(pane.mark()).unwrap();
    let (name, value) = mark.split_once('=').unwrap();
    let stranger = SpawnCommand::new("/bin/sleep")
        .arg("1000")
        .env(name, value)
        .start()
        .unwrap();
    assert_eq!(pane.close(1000), 0);
    assert_eq!(stranger.try_wait().unwrap(), None);
    stranger.kill_and_reap();
}
