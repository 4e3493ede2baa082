//! Programs that wait for a person, told from those that do not.

use std::time::{Duration, Instant};

use fugue_holder::wire::ForegroundProbe;

use super::world::Pane;

/// Looks until `wanted` holds. Programs get to where they wait in their own time and without telling, so that here,
/// as in the daemon, one look may come too early.
fn look_until(
    pane: &mut Pane,
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

fn pane(argv: &[&str]) -> Pane {
    let mut pane = Pane::empty();
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
        let probe = look_until(&mut pane, &format!("{argv:?}"), |p| p.reader.is_some());
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
        let probe = look_until(&mut pane, &format!("{argv:?}"), |p| {
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
        // Until the program we mean is there, and then a number of looks.
        look_until(&mut pane, &format!("{argv:?}"), |p| {
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
    let probe = look_until(&mut pager, "less", |p| !p.canonical);
    assert_eq!(probe.reader, None);

    let mut shell = pane(&["bash", "--norc", "-i"]);
    let probe = look_until(&mut shell, "bash -i", |p| !p.canonical && p.leader_in_fg);
    assert_eq!((probe.reader, probe.foreground), (None, shell.child().pid));
    // A job in the foreground: the shell is not.
    shell.input(1, 1, b"cat\n");
    let probe = look_until(&mut shell, "cat under bash", |p| p.reader.is_some());
    assert!(!probe.leader_in_fg, "{probe:?}");
    assert_eq!(
        (probe.foreground_comm.as_str(), probe.child_comm.as_str()),
        ("cat", "bash")
    );

    // dash at its prompt looks like cat; that the pane's own child reads is what tells.
    let mut dash = pane(&["dash", "-i"]);
    let probe = look_until(&mut dash, "dash -i", |p| p.reader.is_some());
    assert!(
        probe.leader_in_fg && probe.reader.unwrap().pid == dash.child().pid,
        "{probe:?}"
    );
}

/// Whether a process of that group has that name.
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
