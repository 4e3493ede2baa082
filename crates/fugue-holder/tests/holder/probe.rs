//! Distinguishes programs that wait for input from those that do not.

use std::time::{Duration, Instant};

use fugue_holder::wire::ForegroundProbe;

use super::test_pane::TestPane;

/// Probes until `wanted` holds. A program reaches its `read` without notice, so that here, as in the daemon, a probe
/// may come too early.
fn probe_until(
    pane: &mut TestPane,
    what: &str,
    wanted: impl Fn(&ForegroundProbe) -> bool,
) -> ForegroundProbe {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let probe = pane.probe();
        if wanted(&probe) {
            return probe;
        }
        assert!(Instant::now() < deadline, "{what}: {probe:?}");
        std::thread::yield_now();
    }
}

fn pane(argv: &[&str]) -> TestPane {
    let mut pane = TestPane::with_holder();
    let spec = pane.spec(argv);
    pane.start(spec);
    pane
}

#[test]
fn programs_that_wait_for_a_line_are_seen() {
    for (argv, comm) in [
        (&["bash", "-c", "read -p 'name? ' x"][..], "bash"),
        (&["cat"], "cat"),
        (&["python3", "-c", "input('name? ')"], "python3"),
        (&["sh", "-c", "read x < /dev/tty"], "sh"),
        (
            &["bash", "-c", "true | (sleep 0; cat < /dev/tty); true"],
            "bash",
        ),
    ] {
        let mut pane = pane(argv);
        let probe = probe_until(&mut pane, &format!("{argv:?}"), |p| p.reader.is_some());
        assert!(
            !probe.reader.unwrap().secret && probe.canonical && probe.echo,
            "{argv:?} {probe:?}"
        );
        assert!(probe.leader_in_fg, "{argv:?} {probe:?}");
        assert!(probe.child_comm.starts_with(comm), "{argv:?} {probe:?}");
    }
}

#[test]
fn programs_that_wait_for_a_secret_are_seen() {
    for argv in [
        &["bash", "-c", "read -s -p 'password: ' x"][..],
        &["python3", "-c", "import getpass; getpass.getpass()"],
        &["sh", "-c", "stty -echo; cat; true"],
    ] {
        let mut pane = pane(argv);
        let probe = probe_until(&mut pane, &format!("{argv:?}"), |p| {
            p.reader.is_some_and(|r| r.secret)
        });
        assert!(probe.canonical && !probe.echo, "{argv:?} {probe:?}");
    }
}

#[test]
fn programs_that_do_not_wait_are_not_taken_for_it() {
    for (argv, comm) in [
        (&["sleep", "1000"][..], "sleep"),
        (&["bash", "-c", "sleep 1000 | cat; true"], "cat"),
        (&["sh", "-c", "while :; do :; done"], "sh"),
        (
            &[
                "python3",
                "-c",
                "import os; r, w = os.pipe(); os.read(r, 1)",
            ],
            "python3",
        ),
    ] {
        let mut pane = pane(argv);
        // Probes until the intended program runs, and then a number of times.
        probe_until(&mut pane, &format!("{argv:?}"), |p| {
            p.foreground > 0 && !p.foreground_comm.is_empty() && runs(p.foreground, comm)
        });
        for _ in 0..20 {
            let probe = pane.probe();
            assert_eq!(probe.reader, None, "{argv:?} {probe:?}");
        }
    }
}

#[test]
fn full_screen_programs_and_prompts_are_not_in_line_mode() {
    let mut pager = pane(&["less", "/etc/services"]);
    let probe = probe_until(&mut pager, "less", |p| !p.canonical);
    assert_eq!(probe.reader, None);

    let mut shell = pane(&["bash", "--norc", "-i"]);
    let probe = probe_until(&mut shell, "bash -i", |p| !p.canonical && p.leader_in_fg);
    assert_eq!((probe.reader, probe.foreground), (None, shell.child().pid));
    // A foreground job: the shell is in the background.
    shell.input(1, 1, b"cat\n");
    let probe = probe_until(&mut shell, "cat under bash", |p| p.reader.is_some());
    assert!(!probe.leader_in_fg, "{probe:?}");
    assert_eq!(
        (probe.foreground_comm.as_str(), probe.child_comm.as_str()),
        ("cat", "bash")
    );

    // dash at its prompt looks like cat; the difference is that the pane's own child reads.
    let mut dash = pane(&["dash", "-i"]);
    let probe = probe_until(&mut dash, "dash -i", |p| p.reader.is_some());
    assert!(
        probe.leader_in_fg && probe.reader.unwrap().pid == dash.child().pid,
        "{probe:?}"
    );
}

/// Whether a process of this group has this name.
fn runs(group: i32, comm: &str) -> bool {
    std::fs::read_dir("/proc").unwrap().flatten().any(|entry| {
        let Ok(stat) = std::fs::read_to_string(entry.path().join("stat")) else {
            return false;
        };
        let Some((head, tail)) = stat.rsplit_once(')') else {
            return false;
        };
        let in_group = tail.split_ascii_whitespace().nth(2) == Some(&group.to_string());
        in_group
            && head
                .split_once('(')
                .is_some_and(|(_, name)| name.starts_with(comm))
    })
}
