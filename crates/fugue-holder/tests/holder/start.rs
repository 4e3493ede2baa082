//! The start of a child: in a session and a PTY of its own, and with nothing that it was not given.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use fugue_holder::spawn::SpawnCommand;
use fugue_holder::wire::{ChildState, ProcessExit, ToHolder};
use rustix::event::PollFlags;

use super::test_pane::{TestPane, text};

#[test]
fn a_child_leads_a_session_with_the_terminal_as_its_own() {
    let script = "ps -o pid=,pgid=,sid=,tpgid=,tty= -p $$; echo pid $$; tty; stty size; echo x > /dev/tty; umask; \
                  ulimit -n; stty -a | tr ' ;' '\\n\\n' | grep iutf8";
    let mut pane = TestPane::with_holder();
    let mut spec = pane.spec(&["sh", "-c", script]);
    spec.umask = 0o027;
    spec.nofile = Some(333);
    let child = pane.start(spec);
    let (_, seen) = pane.output();
    let seen = text(&seen);
    let words: Vec<&str> = seen.split_ascii_whitespace().collect();
    let pid = child.pid.to_string();
    assert_eq!(words[..3], [pid.as_str(); 3], "{seen}");
    assert_eq!(words[3], pid, "{seen}");
    assert!(words[4].starts_with("pts/"), "{seen}");
    for wanted in [
        &format!("pid {pid}"),
        "/dev/pts/",
        "40 120",
        "0027",
        "333",
        "\niutf8",
    ] {
        assert!(seen.contains(wanted), "{wanted:?} in {seen}");
    }
}

#[test]
fn a_child_inherits_no_fd_and_no_signal_disposition() {
    let mut pane = TestPane::with_holder();
    let spec = pane.spec(&["ls", "-l", "/proc/self/fd"]);
    pane.start(spec);
    let (_, seen) = pane.output();
    let seen = text(&seen);
    assert_eq!(seen.matches("/dev/pts/").count(), 3, "{seen}");
    // The fourth fd is the directory that ls itself reads.
    assert_eq!(seen.matches("->").count(), 4, "{seen}");

    let mut pane = TestPane::with_holder();
    let spec = pane.spec(&["cat", "/proc/self/status"]);
    pane.start(spec);
    let (_, seen) = pane.output();
    let seen = text(&seen);
    for set in ["SigPnd", "ShdPnd", "SigBlk", "SigIgn", "SigCgt"] {
        assert!(
            seen.contains(&format!("{set}:\t0000000000000000")),
            "{set} in {seen}"
        );
    }
}

#[test]
fn a_child_has_the_environment_it_was_given_and_no_other() {
    let mut pane = TestPane::with_holder();
    let mut spec = pane.spec(&["env"]);
    spec.env = vec![
        (b"PATH".to_vec(), b"/usr/bin:/bin".to_vec()),
        (b"A".to_vec(), b"1 2\xc3\xa9".to_vec()),
        (b"EMPTY".to_vec(), Vec::new()),
    ];
    pane.start(spec);
    let (_, seen) = pane.output();
    assert_eq!(text(&seen), "PATH=/usr/bin:/bin\r\nA=1 2é\r\nEMPTY=\r\n");
}

#[test]
fn what_cannot_be_started_is_named_exactly_and_leaves_nothing() {
    let mut pane = TestPane::with_holder();
    let home = pane.home().to_owned();
    std::fs::write(home.join("plain"), "x").unwrap();
    let script = home.join("bad-interpreter");
    std::fs::write(&script, "#!/no/such/shell\n").unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&script, mode).unwrap();
    let checks: [(&[&str], Option<&str>, &str, i32); 6] = [
        (
            &["no-such-program"],
            None,
            "program no-such-program (looked in PATH)",
            libc::ENOENT,
        ),
        (
            &["/no/such/program"],
            None,
            "program /no/such/program",
            libc::ENOENT,
        ),
        (&["./plain"], None, "program ./plain", libc::EACCES),
        (
            &["./bad-interpreter"],
            None,
            "interpreter of ./bad-interpreter",
            libc::ENOENT,
        ),
        (
            &["true"],
            Some("/no/such/dir"),
            "cwd /no/such/dir",
            libc::ENOENT,
        ),
        (
            &["true"],
            Some("/etc/passwd"),
            "cwd /etc/passwd",
            libc::ENOTDIR,
        ),
    ];
    for (argv, cwd, what, errno) in checks {
        let mut spec = pane.spec(argv);
        if let Some(cwd) = cwd {
            spec.cwd = cwd.as_bytes().to_vec();
        }
        assert_eq!(pane.start_fails(spec), (what.to_owned(), errno), "{argv:?}");
    }
    assert_eq!(children_of(pane.holder.as_ref().unwrap().pid), "");
    assert_eq!(
        std::fs::read_dir(&pane.dir).unwrap().count(),
        3,
        "lock, empty log and sizes"
    );
    // The same holder can still start a valid child.
    let spec = pane.spec(&["printf", "ok"]);
    pane.start(spec);
    assert_eq!(text(&pane.output().1), "ok");
}

#[test]
fn a_holder_without_a_child_ends_with_its_daemon() {
    let mut pane = TestPane::with_holder();
    assert_eq!(pane.state(), ChildState::Empty);
    pane.link = None;
    assert_eq!(pane.wait_for_holder_exit(), ProcessExit::Code(0));
}

#[test]
fn an_empty_holder_leaves_when_told_and_a_busy_one_does_not() {
    let mut pane = TestPane::with_holder();
    pane.send(&ToHolder::Leave);
    assert_eq!(pane.wait_for_holder_exit(), ProcessExit::Code(0));

    let mut pane = TestPane::running("read x");
    pane.send(&ToHolder::Leave);
    assert!(fugue_holder::is_alive(pane.child()));
    pane.input(1, 1, b"\n");
    pane.wait_for_exit();
}

#[test]
fn signals_do_not_end_a_holder() {
    let mut pane = TestPane::running("read x; exit 6");
    for signo in [1, 2, 3, 10, 12, 13, 14, 15, 20, 21, 22] {
        pane.holder.as_ref().unwrap().signal(signo).unwrap();
    }
    pane.input(1, 1, b"\n");
    assert_eq!(pane.wait_for_exit().ending, ProcessExit::Code(6));
}

#[test]
fn a_holder_is_small_idle_and_quickly_there() {
    let mut pane = TestPane::running("read x");
    let mut took: Vec<Duration> = Vec::new();
    for _ in 0..20 {
        let home = tempfile::tempdir().unwrap();
        let dir = home.path().join("pane");
        std::fs::create_dir(&dir).unwrap();
        let begun = Instant::now();
        let mut other = TestPane::with_holder_in(home, dir);
        println!("hello after {:?}", begun.elapsed());
        let spec = other.spec(&["sh", "-c", "read x"]);
        other.start(spec);
        took.push(begun.elapsed());
    }
    took.sort();
    println!(
        "holder and child started: median {:?}, best {:?}",
        took[10], took[0]
    );
    // After the response to a request, the holder has nothing to do: from here on the process must not run.
    pane.probe();
    let pid = pane.holder.as_ref().unwrap().pid;
    let read = |file: &str| std::fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap();
    if std::env::var_os("FUGUE_SMAPS").is_some() {
        println!("{}", read("smaps"));
    }
    let switches = || {
        let status = read("status");
        let line = |key: &str| -> u64 {
            let line = status.lines().find(|l| l.starts_with(key)).unwrap();
            line.split_ascii_whitespace()
                .nth(1)
                .unwrap()
                .parse()
                .unwrap()
        };
        line("voluntary_ctxt_switches") + line("nonvoluntary_ctxt_switches")
    };
    let asleep = || read("stat").split_ascii_whitespace().nth(2) == Some("S");
    while !asleep() {
        std::thread::yield_now();
    }
    let before = switches();
    // Half a second of load by other processes is the measured period, not a wait for a condition.
    let other = SpawnCommand::new("/bin/sleep").arg("0.5").start().unwrap();
    pane.wait_for_fd(other.pidfd.as_fd(), PollFlags::IN);
    other.wait().unwrap();
    assert_eq!(switches(), before, "an idle holder does not wake up");
    let rollup = read("smaps_rollup");
    let kib = |key: &str| -> u64 {
        let line = rollup.lines().find(|l| l.starts_with(key)).unwrap();
        line.split_ascii_whitespace()
            .nth(1)
            .unwrap()
            .parse()
            .unwrap()
    };
    // Anonymous memory only: file pages also count as private and dirty if the linker wrote them a moment ago.
    println!("private memory: {} KiB", kib("Anonymous:"));
    assert!(kib("Anonymous:") < 300, "{rollup}");
}

fn children_of(pid: i32) -> String {
    std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap()
}
