//! What panes cost: time to make, type into, read and close one, memory of the daemon and of the holders; and how the
//! time of one call grows with the number of panes.
//!
//! `cargo run --release -p fugue-testkit --example panes -- target/release/fugue 500`
//! `cargo run --release -p fugue-testkit --example panes -- target/release/fugue growth 10 100 1000`

#![expect(clippy::print_stdout, reason = "a measurement prints its figures")]

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use fugue_api::PaneId;
use fugue_testkit::{ProcessRef, TestEnv};

fn main() {
    let mut args = std::env::args().skip(1);
    let binary = args.next().expect("the fugue to measure");
    let binary = std::fs::canonicalize(binary).expect("the fugue to measure is there");
    let words: Vec<String> = args.collect();
    let number = |text: &String| text.parse().expect("how many panes is a number");
    if words.first().is_some_and(|word| word == "growth") {
        let mut counts: Vec<u64> = words[1..].iter().map(number).collect();
        if counts.is_empty() {
            counts = vec![10, 100, 1000];
        }
        return growth(binary, &counts);
    }
    let panes: u64 = words.first().map_or(500, number);
    let test_env = TestEnv::new(binary, Duration::from_secs(1200));
    test_env.overview();
    let empty = memory(&test_env.daemons(), "Pss");

    let mut ids: Vec<PaneId> = Vec::new();
    report(
        "new (one client, one after the other)",
        (0..panes).map(|n| {
            let start = Instant::now();
            ids.push(test_env.pane(&format!("echo number {n}; exec cat")).pane_id);
            start.elapsed()
        }),
    );
    report(
        "send",
        ids.iter()
            .map(|pane| time(|| test_env.type_line(*pane, "typed"))),
    );
    report(
        "read",
        ids.iter().map(|pane| time(|| test_env.read(*pane, &[]))),
    );
    report(
        "status",
        ids.iter().map(|pane| time(|| test_env.status(*pane))),
    );
    report("ls", (0..100).map(|_| time(|| test_env.overview())));

    let (daemon, holders) = (test_env.daemons(), test_env.holders());
    println!(
        "daemon: {} KiB PSS with no pane, {} KiB with {panes}; holders: {} KiB PSS each, {} KiB private each",
        empty,
        memory(&daemon, "Pss"),
        memory(&holders, "Pss") / panes,
        (memory(&holders, "Private_Dirty") + memory(&holders, "Private_Clean")) / panes,
    );
    report(
        "close",
        ids.iter().map(|pane| time(|| test_env.close(*pane))),
    );

    // The whole way of the bytes: program, terminal, log, text.
    for round in 0..3 {
        let start = Instant::now();
        let pane = test_env.pane("seq 1 2000000").pane_id;
        test_env.exited(pane);
        let took = start.elapsed();
        println!("`seq 1 2000000` (16.9 MB at the terminal), round {round}: {took:.2?}");
    }
}

/// Medians of single calls beside so many running panes, each made by a client of its own.
fn growth(binary: PathBuf, counts: &[u64]) {
    const CALLS: usize = 15;
    let test_env = TestEnv::new(binary, Duration::from_secs(3600));
    test_env.overview();
    let mut ids: Vec<PaneId> = Vec::new();
    println!("| panes | new | status | ls | close | daemon status |");
    println!("|---|---|---|---|---|---|");
    for count in counts {
        while (ids.len() as u64) < *count {
            ids.push(test_env.pane("exec sleep 100000").pane_id);
        }
        let mut made = Vec::new();
        let new = median(
            (0..CALLS).map(|_| time(|| made.push(test_env.pane("exec sleep 100000").pane_id))),
        );
        let status = median(made.iter().map(|pane| time(|| test_env.status(*pane))));
        let ls = median((0..CALLS).map(|_| time(|| test_env.overview())));
        let close = median(made.iter().map(|pane| time(|| test_env.close(*pane))));
        let daemon = median((0..CALLS).map(|_| time(|| test_env.daemon())));
        println!("| {count} | {new:.1?} | {status:.1?} | {ls:.1?} | {close:.1?} | {daemon:.1?} |");
    }
    println!(
        "daemon: {} KiB PSS with {} panes",
        memory(&test_env.daemons(), "Pss"),
        ids.len()
    );
}

fn median(times: impl Iterator<Item = Duration>) -> Duration {
    let mut times: Vec<Duration> = times.collect();
    times.sort();
    times[times.len() / 2]
}

fn time<T>(work: impl FnOnce() -> T) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}

fn memory(of: &[ProcessRef], what: &str) -> u64 {
    of.iter()
        .map(|process| process.memory_kib().get(what).copied().unwrap_or(0))
        .sum()
}

fn report(what: &str, times: impl Iterator<Item = Duration>) {
    let mut times: Vec<Duration> = times.collect();
    times.sort();
    let at = |percent: usize| times[(times.len() - 1) * percent / 100];
    println!(
        "{what}: median {:.2?}, 95 % under {:.2?}, slowest {:.2?}, {} times",
        at(50),
        at(95),
        at(100),
        times.len()
    );
}
