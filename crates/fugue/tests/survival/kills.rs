//! kill -9 of the daemon and of holders, again and again, under full output: nothing is lost and nothing is doubled.
//!
//! `FUGUE_KILLS` sets how many kills each test makes (200; the soak of `scripts/test --soak` makes 10,000), and
//! `FUGUE_SEED` repeats a run's moments.

use std::{collections::BTreeMap, time::Duration};

use fugue_api::{
    ErrorKind, PaneId,
    pane_state::PaneState,
    tools::{CreatePaneReply, SendInputReply},
};
use fugue_testkit::{
    ProcessRef, ProcessWaiter, SeededRng, TestEnv, report_metric, sleep_in_test, until, until_some,
};

/// The longest wait for one condition; the machine may be busy.
const WAIT_TIMEOUT: Duration = Duration::from_secs(60);

fn kills() -> u64 {
    std::env::var("FUGUE_KILLS").map_or(200, |text| text.parse().expect("FUGUE_KILLS is a number"))
}

fn test_env() -> TestEnv {
    // A sample of 200 takes under a minute here; a busy machine gets much more.
    let limit = Duration::from_secs(300)
        + Duration::from_secs(2) * u32::try_from(kills()).unwrap_or(u32::MAX);
    let test_env = TestEnv::new(env!("CARGO_BIN_EXE_fugue"), limit);
    // Room for a whole counter's output, in bytes and in lines.
    test_env.configure("log_cap_bytes = 1048576\nkeep_lines = 200000\nidle_threshold_secs = 600\n");
    test_env
}

/// Numbered lines as fast as a program can print them. All have the same width, so what must stand at any place of
/// the log is known from the place alone.
struct Counter {
    pane: CreatePaneReply,
    lines: u64,
    code: i32,
}

impl Counter {
    const FIRST: u64 = 1_000_000_000;
    /// Ten digits, and the end of line as the terminal makes it.
    const WIDTH: u64 = 12;

    fn start(test_env: &TestEnv, lines: u64, code: i32) -> Self {
        let last = Self::FIRST + lines - 1;
        let pane = test_env.pane(&format!("seq {} {last}; exit {code}", Self::FIRST));
        Self { pane, lines, code }
    }

    /// One that does not end by itself.
    fn endless(test_env: &TestEnv) -> Self {
        Self::start(test_env, 8_000_000_000, 0)
    }

    /// Checks every byte that the log still has against its place.
    #[track_caller]
    fn check_log(&self, test_env: &TestEnv) -> (u64, u64) {
        let (first, bytes) = test_env.log(self.pane.pane_id);
        let mut at = first;
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let line = format!("{}\r\n", Self::FIRST + at / Self::WIDTH);
            let from = (at % Self::WIDTH) as usize;
            let wanted = &line.as_bytes()[from..];
            let upto = wanted.len().min(rest.len());
            assert!(
                rest[..upto] == wanted[..upto],
                "{} at byte {at}: {:?} where {:?} belongs (log from {first}, {} bytes)",
                self.pane.pane_id,
                String::from_utf8_lossy(&rest[..rest.len().min(60)]),
                line,
                bytes.len()
            );
            at += upto as u64;
            rest = &rest[upto..];
        }
        (first, bytes.len() as u64)
    }

    /// Waits for its end and checks exit code and log; as asked, also what `read` makes of it. Gives the bytes checked.
    #[track_caller]
    fn check_whole(&self, test_env: &TestEnv, read: Reading) -> u64 {
        let pane = self.pane.pane_id;
        let status = test_env.exited(pane);
        assert_eq!(
            status.state.exit_code,
            Some(self.code),
            "{pane}: {status:?}"
        );
        let (first, length) = self.check_log(test_env);
        assert_eq!(
            (first, length),
            (0, self.lines * Self::WIDTH),
            "{pane} is whole"
        );
        match read {
            Reading::Left => {}
            Reading::Checked => {
                let raw = test_env.raw(pane).len() as u64;
                assert_eq!(raw, length, "{pane}: `read --raw` gives the log");
                let text = test_env.text(pane);
                let wanted = (Self::FIRST..Self::FIRST + self.lines).map(|n| n.to_string());
                assert!(
                    text.lines().map(str::to_owned).eq(wanted),
                    "{pane}: the text has every line once, {} lines",
                    text.lines().count()
                );
            }
        }
        length
    }
}

/// Whether a counter's output is also read through the daemon, which takes longer than all the rest.
#[derive(Clone, Copy)]
enum Reading {
    Checked,
    Left,
}

impl Reading {
    /// One in five is.
    fn of(round: i32) -> Self {
        if round % 5 == 0 {
            Self::Checked
        } else {
            Self::Left
        }
    }
}

/// The same processes as before: the number and when it started.
struct Steady(BTreeMap<PaneId, ProcessRef>);

impl Steady {
    fn of(panes: &[&CreatePaneReply]) -> Self {
        let process =
            |pane: &CreatePaneReply| ProcessRef::find(pane.pid).expect("the pane's process runs");
        Self(
            panes
                .iter()
                .map(|pane| (pane.pane_id, process(pane)))
                .collect(),
        )
    }

    #[track_caller]
    fn check(&self, test_env: &TestEnv) {
        for (pane, process) in &self.0 {
            assert!(process.is_alive(), "{pane}'s process is the one it was");
        }
        let all = test_env.overview();
        for row in all.panes {
            if self.0.contains_key(&row.pane_id) {
                assert!(
                    !matches!(row.state.state, PaneState::Exited | PaneState::Closed),
                    "{row:?}"
                );
            }
        }
    }
}

fn kill_daemon(test_env: &TestEnv) {
    for daemon in test_env.daemons() {
        daemon.kill9();
    }
}

#[test]
fn killing_the_daemon_at_any_moment_loses_nothing() {
    let test_env = test_env();
    let mut chance = SeededRng::default();
    let (mut killed, mut while_starting, mut ended_alone, mut wholes, mut bytes) =
        (0u64, 0u64, 0u64, 0u64, 0u64);
    let wanted = kills();

    let endless = Counter::endless(&test_env);
    let shell = test_env.shell("bash");
    let cat = test_env.pane("exec cat");
    let steady = Steady::of(&[&endless.pane, &shell, &cat]);
    test_env.run("mkfifo", &["gate"]).ok();
    let mut counter = Counter::start(&test_env, 70_000, 1);
    let mut round = 1;

    while killed < wanted {
        // A child that ends while no daemon runs, every few rounds.
        let code = 1 + (killed % 200) as i32;
        let orphan = chance
            .one_in(6)
            .then(|| test_env.pane(&format!("read -r _ < gate; exit {code}")));

        sleep_in_test(chance.duration_below(Duration::from_millis(40)));
        kill_daemon(&test_env);
        killed += 1;

        if let Some(orphan) = orphan {
            until("no daemon runs", WAIT_TIMEOUT, || {
                test_env.daemons().is_empty()
            });
            let end = ProcessWaiter::of(orphan.pid).expect("the child waits at its gate");
            test_env.run("sh", &["-c", "echo go > gate"]).ok();
            end.wait(WAIT_TIMEOUT);
            let status = test_env.status(orphan.pane_id);
            assert_eq!(status.state.exit_code, Some(code), "{status:?}");
            ended_alone += 1;
        } else if chance.one_in(2) {
            // While the next one is just starting.
            let asking = test_env.start(&["ls", "--json"]);
            sleep_in_test(chance.duration_below(Duration::from_millis(15)));
            kill_daemon(&test_env);
            let ran = asking.end(WAIT_TIMEOUT);
            // The asker may be told that its daemon went away, but nothing else.
            assert!(
                ran.code == Some(0)
                    || (ran.code == Some(1) && ran.refusal().kind == ErrorKind::Unavailable),
                "{ran}"
            );
            killed += 1;
            while_starting += 1;
        }

        steady.check(&test_env);
        let over = test_env.status(counter.pane.pane_id).state.state == PaneState::Exited;
        if over {
            bytes += counter.check_whole(&test_env, Reading::of(round));
            wholes += 1;
            test_env.close(counter.pane.pane_id);
            round += 1;
            counter = Counter::start(&test_env, 70_000, round % 256);
        }
    }
    bytes += counter.check_whole(&test_env, Reading::Checked);
    wholes += 1;

    // The endless one has gone on all the time, and what is kept of it is right to the byte. It is closed first: a log that
    // is still written to loses its oldest segments while they are read.
    test_env.close(endless.pane.pane_id);
    let (first, length) = endless.check_log(&test_env);
    bytes += length;
    // The shell and cat still do what they are told.
    test_env.type_line(shell.pane_id, "echo still $((6*7))");
    test_env.until_printed(shell.pane_id, |text| text.contains("still 42"));
    test_env.type_line(cat.pane_id, "echoed");
    test_env.until_printed(cat.pane_id, |text| text.matches("echoed").count() == 2);
    report_metric(
        "kill -9 of the daemon",
        format!(
            "{killed} kills ({while_starting} while it started), {ended_alone} children ended with no daemon, {wholes} outputs compared whole, \
             {bytes} bytes compared, an endless one reached byte {}; 0 lost, 0 doubled, seed {}",
            first + length,
            chance.seed()
        ),
    );
}

#[test]
fn killing_a_holder_at_any_moment_loses_nothing() {
    let test_env = test_env();
    let mut chance = SeededRng::default();
    let (mut killed, mut wholes, mut bytes, mut unknown) = (0u64, 0u64, 0u64, 0u64);
    let wanted = kills();

    let endless = Counter::endless(&test_env);
    let shell = test_env.shell("bash");
    let cat = test_env.pane("exec cat");
    let steady = Steady::of(&[&endless.pane, &shell, &cat]);
    let mut counter = Counter::start(&test_env, 70_000, 1);
    let mut round = 1;

    while killed < wanted {
        sleep_in_test(chance.duration_below(Duration::from_millis(25)));
        // About half of them at once: holders are replaced side by side. A pane that has ended needs none.
        let panes = [&shell, &cat, &counter.pane, &endless.pane].map(|pane| pane.pane_id);
        let mut struck = test_env.holders_of(&panes);
        struck.retain(|_, _| chance.one_in(2));
        for holder in struck.values() {
            holder.kill9();
            killed += 1;
        }
        until(
            "other holders have taken their places",
            WAIT_TIMEOUT,
            || {
                let now = test_env.holders_of(&panes);
                struck.retain(|pane, holder| now.get(pane).is_none_or(|other| other == holder));
                struck.retain(|pane, _| test_env.status(*pane).state.state != PaneState::Exited);
                struck.is_empty()
            },
        );
        if chance.one_in(5) {
            steady.check(&test_env);
        }
        // A short life whose holder is killed at about the moment it ends.
        if chance.one_in(8) {
            let code = 1 + (killed % 200) as i32;
            let short = test_env.pane(&format!("sleep 0.0{}; exit {code}", chance.below(4)));
            sleep_in_test(chance.duration_below(Duration::from_millis(35)));
            if let Some(holder) = test_env.holder(short.pane_id) {
                holder.kill9();
                killed += 1;
            }
            let state = test_env.exited(short.pane_id).state;
            match state.exit_code {
                Some(seen) => assert_eq!(seen, code, "{state:?}"),
                // Only a kernel that cannot tell (before 6.15) excuses this.
                None => {
                    assert!(!kernel_tells_codes_of_the_reaped(), "{state:?}");
                    unknown += 1;
                }
            }
        }
        if test_env.status(counter.pane.pane_id).state.state == PaneState::Exited {
            bytes += counter.check_whole(&test_env, Reading::of(round));
            wholes += 1;
            test_env.close(counter.pane.pane_id);
            round += 1;
            counter = Counter::start(&test_env, 70_000, round % 256);
        }
    }
    bytes += counter.check_whole(&test_env, Reading::Checked);
    wholes += 1;
    steady.check(&test_env);
    test_env.close(endless.pane.pane_id);
    let (first, length) = endless.check_log(&test_env);
    bytes += length;
    test_env.type_line(shell.pane_id, "echo still $((6*7))");
    test_env.until_printed(shell.pane_id, |text| text.contains("still 42"));
    report_metric(
        "kill -9 of holders",
        format!(
            "{killed} kills, {wholes} outputs compared whole, {bytes} bytes compared, an endless one reached byte {}; \
             0 lost, 0 doubled, {unknown} exit codes unknown, seed {}",
            first + length,
            chance.seed()
        ),
    );
}

fn kernel_tells_codes_of_the_reaped() -> bool {
    let release =
        std::fs::read_to_string("/proc/sys/kernel/osrelease").expect("a kernel has a release");
    let mut parts = release
        .split(|c: char| !c.is_ascii_digit())
        .map_while(|part| part.parse::<u32>().ok());
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0)) >= (6, 15)
}

#[test]
fn restarting_the_daemon_under_running_panes_is_not_noticed_by_them() {
    let test_env = test_env();
    let counter = Counter::start(&test_env, 80_000, 77);
    let shell = test_env.shell("bash");
    test_env.type_line(shell.pane_id, "remembered=yes");
    let steady = Steady::of(&[&shell]);
    let before = test_env.daemon();
    for _ in 0..10 {
        test_env.fugue(&["daemon", "restart"]).ok();
        steady.check(&test_env);
    }
    let after = test_env.daemon();
    assert!(after.epoch >= before.epoch + 10, "{before:?} {after:?}");
    counter.check_whole(&test_env, Reading::Checked);
    test_env.type_line(shell.pane_id, "echo $remembered indeed");
    test_env.until_printed(shell.pane_id, |text| text.contains("yes indeed"));
}

#[test]
fn a_follower_rides_through_the_daemons_death() {
    let test_env = test_env();
    let pane = test_env
        .pane("for i in $(seq 1 2000); do echo $i; sleep 0.001; done")
        .pane_id;
    let mut follower = test_env.follow(pane);
    let mut chance = SeededRng::default();
    for upto in ["\n300\n", "\n600\n", "\n900\n"] {
        follower.wait_for_stdout(WAIT_TIMEOUT, |said| said.contains(upto));
        sleep_in_test(chance.duration_below(Duration::from_millis(5)));
        kill_daemon(&test_env);
    }
    let said = follower.end(WAIT_TIMEOUT).ok().out();
    let wanted = (1..=2000).map(|n| n.to_string());
    assert!(
        said.lines().map(str::to_owned).eq(wanted),
        "every line once, in order: {} lines",
        said.lines().count()
    );
}

#[test]
fn input_is_never_typed_twice_over_a_daemons_death() {
    let test_env = test_env();
    let mut chance = SeededRng::default();
    let pane = test_env
        .pane("stty -echo; echo ready; while read -r line; do echo \"got $line\"; done")
        .pane_id;
    test_env.until_printed(pane, |text| text.contains("ready"));
    let rounds = kills().min(1000);
    let (mut accepted, mut uncertain, mut refused) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..rounds {
        let line = format!("line-{round}-");
        let sending = test_env.start(&["send", &pane.to_string(), &line, "--enter", "--json"]);
        sleep_in_test(chance.duration_below(Duration::from_millis(12)));
        kill_daemon(&test_env);
        let ran = sending.end(WAIT_TIMEOUT);
        match ran.code {
            Some(0) => {
                assert!(ran.json::<SendInputReply>().accepted);
                accepted.push(line);
            }
            _ => match ran.refusal().kind {
                ErrorKind::Uncertain => uncertain.push(line),
                // Nothing was typed when it could not even be asked.
                ErrorKind::Unavailable => refused.push(line),
                other => panic!("{other:?}: {ran}"),
            },
        }
    }
    // Behind it everything before has been read.
    test_env.type_line(pane, "last");
    test_env.until_printed(pane, |text| text.contains("got last"));
    let text = test_env.text(pane);
    let times = |line: &String| text.matches(&format!("got {line}")).count();
    for line in &accepted {
        assert_eq!(times(line), 1, "{line} was accepted");
    }
    for line in &uncertain {
        assert!(times(line) <= 1, "{line} is uncertain, but never twice");
    }
    for line in &refused {
        assert_eq!(times(line), 0, "{line} was refused");
    }
    let order: Vec<u64> = text
        .lines()
        .filter_map(|line| {
            line.strip_prefix("got line-")?
                .strip_suffix('-')?
                .parse()
                .ok()
        })
        .collect();
    assert!(order.is_sorted(), "in the order they were sent");
    report_metric(
        "input over a daemon's death",
        format!(
            "{rounds} kills while typing: {} typed once, {} said to be uncertain ({} of them typed), {} refused; 0 doubled, seed {}",
            accepted.len(),
            uncertain.len(),
            uncertain.iter().filter(|line| times(line) == 1).count(),
            refused.len(),
            chance.seed()
        ),
    );
}

#[test]
fn a_pane_is_made_once_or_not_at_all_over_a_daemons_death() {
    let test_env = test_env();
    let mut chance = SeededRng::default();
    let rounds = kills().min(1000) / 4;
    let (mut made, mut failed) = (0, 0);
    for round in 0..rounds {
        let name = format!("once-{round}");
        let creating = test_env.start(&["new", "--json", "-n", &name, "--", "exec sleep 1000"]);
        sleep_in_test(chance.duration_below(Duration::from_millis(20)));
        kill_daemon(&test_env);
        let ran = creating.end(WAIT_TIMEOUT);
        let panes: Vec<_> = test_env
            .overview()
            .panes
            .into_iter()
            .filter(|row| row.name == name)
            .collect();
        if ran.code == Some(0) {
            let pane: CreatePaneReply = ran.json();
            assert_eq!(
                panes.iter().map(|row| row.pane_id).collect::<Vec<_>>(),
                [pane.pane_id],
                "{ran}"
            );
            made += 1;
        } else {
            assert!(panes.len() <= 1, "{panes:?}");
            failed += 1;
        }
        // Every process has a pane and every pane a process.
        let live = panes
            .iter()
            .filter(|row| !matches!(row.state.state, PaneState::Exited | PaneState::Closed))
            .count();
        until_some("processes and panes agree", WAIT_TIMEOUT, || {
            let sleepers = test_env
                .processes()
                .iter()
                .filter(|p| p.args == ["sleep", "1000"])
                .count();
            (sleepers == live).then_some(())
        });
        for row in panes {
            test_env.close(row.pane_id);
        }
    }
    report_metric(
        "new over a daemon's death",
        format!(
            "{rounds} kills: {made} made, {failed} told that it is not known or failed, none made twice, no process without a pane"
        ),
    );
}

#[test]
fn a_client_killed_while_it_starts_a_daemon_leaves_one_that_answers() {
    let test_env = test_env();
    let mut chance = SeededRng::default();
    for _ in 0..30 {
        test_env.fugue(&["daemon", "stop"]).ok();
        let asking = test_env.start(&["ls", "--json"]);
        sleep_in_test(chance.duration_below(Duration::from_millis(30)));
        if let Some(client) = ProcessRef::find(asking.pid()) {
            client.kill9();
        }
        asking.end(WAIT_TIMEOUT);
        test_env.fugue(&["ls", "--json"]).ok();
        assert_eq!(test_env.daemons().len(), 1);
    }
}
