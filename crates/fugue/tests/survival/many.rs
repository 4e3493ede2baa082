//! Hundreds of panes and clients at once, and their cost in memory and processor time.

use std::{
    collections::BTreeMap,
    sync::Mutex,
    thread,
    time::{Duration, Instant},
};

use fugue_api::{PaneId, pane_state::PaneState, tools::ClosePaneReply};
use fugue_testkit::{ProcessRef, TestEnv, report_metric, sleep_in_test};

const LIMIT: Duration = Duration::from_secs(300);
const CLIENTS: usize = 8;

fn test_env() -> TestEnv {
    TestEnv::new(env!("CARGO_BIN_EXE_fugue"), LIMIT)
}

/// Does `work` for every item, by several clients at a time.
fn by_many<T: Send, R: Send>(items: Vec<T>, work: impl Fn(T) -> R + Sync) -> Vec<R> {
    let left = Mutex::new(items.into_iter().enumerate());
    let done = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..CLIENTS {
            scope.spawn(|| {
                loop {
                    let next = left.lock().expect("no client panics with it").next();
                    let Some((index, item)) = next else { break };
                    let result = work(item);
                    done.lock()
                        .expect("no client panics with it")
                        .push((index, result));
                }
            });
        }
    });
    let mut done = done.into_inner().expect("no client panicked");
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, result)| result).collect()
}

fn mib(kib: u64) -> String {
    format!("{:.1} MiB", kib as f64 / 1024.0)
}

fn sum(processes: &[ProcessRef], of: &str) -> u64 {
    processes
        .iter()
        .map(|process| process.memory_kib().get(of).copied().unwrap_or(0))
        .sum()
}

#[test]
fn five_hundred_panes_live_at_once() {
    const PANES: u64 = 500;
    let test_env = test_env();
    let start = Instant::now();
    let panes: Vec<PaneId> = by_many((0..PANES).collect(), |n| {
        test_env
            .pane(&format!("echo I am number {n}; exec cat"))
            .pane_id
    });
    let created = start.elapsed();
    assert_eq!(
        test_env.overview().panes.len() as u64 + test_env.overview().omitted_panes,
        PANES
    );
    assert_eq!(test_env.daemon().panes, PANES);

    let start = Instant::now();
    by_many(
        panes.iter().copied().zip(0..).collect(),
        |(pane, n): (PaneId, u64)| {
            test_env.until_printed(pane, |text| {
                text.lines().any(|line| line == format!("I am number {n}"))
            });
            test_env.type_line(pane, &format!("typed {n}"));
            test_env.until_printed(pane, |text| {
                text.matches(&format!("typed {n}")).count() == 2
            });
        },
    );
    let read = start.elapsed();

    let daemon = test_env.daemons();
    let holders = test_env.holders();
    assert_eq!((daemon.len(), holders.len() as u64), (1, PANES));
    report_metric(
        "500 panes, memory",
        format!(
            "daemon {} RSS ({} a pane); holders {} PSS in all, {} private ({} KiB each)",
            mib(sum(&daemon, "Rss")),
            mib(sum(&daemon, "Rss") / PANES),
            mib(sum(&holders, "Pss")),
            mib(sum(&holders, "Private_Dirty") + sum(&holders, "Private_Clean")),
            (sum(&holders, "Private_Dirty") + sum(&holders, "Private_Clean")) / PANES,
        ),
    );

    let start = Instant::now();
    let ids: Vec<String> = panes.iter().map(PaneId::to_string).collect();
    by_many(ids.chunks(50).collect(), |chunk: &[String]| {
        let args: Vec<&str> = ["close"]
            .into_iter()
            .chain(chunk.iter().map(String::as_str))
            .collect();
        let closed: Vec<ClosePaneReply> = test_env.json(&args);
        assert_eq!(closed.len(), chunk.len());
    });
    let closed = start.elapsed();
    let left: Vec<ProcessRef> = test_env
        .processes()
        .into_iter()
        .filter(|p| !daemon.contains(p))
        .collect();
    assert!(left.is_empty(), "processes left: {left:#?}");
    let all = test_env.overview();
    assert!(
        all.panes
            .iter()
            .all(|row| row.state.state == PaneState::Closed)
    );
    report_metric(
        "500 panes, time",
        format!(
            "created by {CLIENTS} clients in {created:.2?}, each typed into and read back in {read:.2?}, closed in {closed:.2?}"
        ),
    );
}

#[test]
fn twenty_clients_at_once_start_one_daemon() {
    for round in 0..5 {
        let test_env = test_env();
        let asking: Vec<_> = (0..20).map(|_| test_env.start(&["ls", "--json"])).collect();
        for client in asking {
            client.end(LIMIT).ok();
        }
        let daemons = test_env.daemons();
        assert_eq!(daemons.len(), 1, "round {round}: {daemons:?}");
        assert_eq!(test_env.daemon().pid, daemons[0].pid);
        // The same after a kill, with the dead one's socket still lying there.
        daemons[0].kill9();
        let asking: Vec<_> = (0..20)
            .map(|n| test_env.start(&["new", "-n", &format!("n{n}"), "--", "exec cat"]))
            .collect();
        for client in asking {
            client.end(LIMIT).ok();
        }
        assert_eq!(test_env.daemons().len(), 1, "round {round}");
        assert_eq!(test_env.overview().panes.len(), 20);
    }
}

#[test]
fn idle_panes_cost_nothing() {
    // Long enough for a timer of seconds to show itself; the passing of time is the subject.
    const WINDOW: Duration = Duration::from_secs(10);
    // What is to be settled once (a pane falls silent, a thread is no longer needed) may take the first of them.
    const WINDOWS: usize = 4;
    let test_env = test_env();
    by_many((0..90).collect(), |_: u32| test_env.pane("exec cat"));
    for shell in ["bash", "zsh", "fish", "bash", "bash"] {
        test_env.shell(shell);
    }
    for _ in 0..5 {
        test_env.pane("exec sleep 100000");
    }
    assert_eq!(test_env.daemon().panes, 100);
    let ours: Vec<ProcessRef> = test_env
        .daemons()
        .into_iter()
        .chain(test_env.holders())
        .collect();
    assert_eq!(ours.len(), 101);
    let ticks = || -> u64 { ours.iter().map(ProcessRef::ticks).sum() };
    let switches = || -> BTreeMap<String, u64> {
        let threads = |process: &ProcessRef| {
            let name = process.args[..2].join(" ");
            process
                .context_switches()
                .into_iter()
                .map(move |(thread, count)| (format!("{name}, thread {thread}"), count))
        };
        ours.iter().flat_map(threads).collect()
    };
    let mut quietest = None;
    for _ in 0..WINDOWS {
        let (ticks_before, before) = (ticks(), switches());
        sleep_in_test(WINDOW);
        let used = ticks() - ticks_before;
        // A thread that has ended since, because there was nothing to do, counts for nothing.
        let woken: BTreeMap<String, u64> = switches()
            .into_iter()
            .map(|(thread, count)| {
                let more = count - before.get(&thread).copied().unwrap_or(0);
                (thread, more)
            })
            .filter(|(_, count)| *count > 0)
            .collect();
        let times: u64 = woken.values().sum();
        report_metric(
            "100 idle panes",
            format!(
                "daemon and 100 holders over {WINDOW:?}: {used} clock ticks of CPU, {times} context switches"
            ),
        );
        quietest = quietest.into_iter().chain([(times, used, woken)]).min();
        if quietest.as_ref().is_some_and(|(times, ..)| *times == 0) {
            break;
        }
    }
    let (times, used, woken) = quietest.expect("there was a window");
    assert_eq!(used, 0, "they used the processor");
    // A stray wake-up (a page written back) is no timer: one of each second in one process alone would make 10.
    assert!(times <= 2, "they woke up {times} times: {woken:#?}");
}

#[test]
fn one_pane_printing_without_end_does_not_hold_up_another() {
    let test_env = test_env();
    let floods: Vec<PaneId> = (0..3)
        .map(|_| test_env.pane("exec yes 'all work and no play'").pane_id)
        .collect();
    let quiet = test_env.pane("exec cat").pane_id;
    let mut took = Vec::new();
    for n in 0..50 {
        let start = Instant::now();
        test_env.type_line(quiet, &format!("line {n}"));
        test_env.until_printed(quiet, |text| {
            text.lines()
                .filter(|line| **line == format!("line {n}"))
                .count()
                == 2
        });
        took.push(start.elapsed());
    }
    took.sort();
    report_metric(
        "a quiet pane beside three that flood",
        format!(
            "typed and read back by two verbs, median {:.1?}, slowest {:.1?}",
            took[25], took[49]
        ),
    );
    for pane in floods {
        test_env.close(pane);
    }
}
