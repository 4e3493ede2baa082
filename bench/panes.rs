//! What panes cost: time to make, type into, read and close one, memory of the daemon and of the holders.
//!
//! `cargo run --release -p fugue-testkit --example panes -- target/release/fugue 500`

#![expect(clippy::print_stdout, reason = "a measurement prints its figures")]

use std::time::{Duration, Instant};

use fugue_api::PaneId;
use fugue_testkit::{Process, World};

fn main() {
    let mut args = std::env::args().skip(1);
    let binary = args.next().expect("the fugue to measure");
    let binary = std::fs::canonicalize(binary).expect("the fugue to measure is there");
    let panes: u64 = args.next().map_or(500, |text| {
        text.parse().expect("how many panes is a number")
    });
    let world = World::new(binary, Duration::from_secs(1200));
    world.overview();
    let empty = memory(&world.daemons(), "Pss");

    let mut ids: Vec<PaneId> = Vec::new();
    report(
        "new (one client, one after the other)",
        (0..panes).map(|n| {
            let start = Instant::now();
            ids.push(world.pane(&format!("echo number {n}; exec cat")).pane_id);
            start.elapsed()
        }),
    );
    report(
        "send",
        ids.iter()
            .map(|pane| time(|| world.type_line(*pane, "typed"))),
    );
    report(
        "read",
        ids.iter().map(|pane| time(|| world.read(*pane, &[]))),
    );
    report(
        "status",
        ids.iter().map(|pane| time(|| world.status(*pane))),
    );
    report("ls", (0..100).map(|_| time(|| world.overview())));

    let (daemon, holders) = (world.daemons(), world.holders());
    println!(
        "daemon: {} KiB PSS with no pane, {} KiB with {panes}; holders: {} KiB PSS each, {} KiB private each",
        empty,
        memory(&daemon, "Pss"),
        memory(&holders, "Pss") / panes,
        (memory(&holders, "Private_Dirty") + memory(&holders, "Private_Clean")) / panes,
    );
    report("close", ids.iter().map(|pane| time(|| world.close(*pane))));

    // The whole way of the bytes: program, terminal, log, text.
    for round in 0..3 {
        let start = Instant::now();
        let pane = world.pane("seq 1 2000000").pane_id;
        world.exited(pane);
        let took = start.elapsed();
        println!("`seq 1 2000000` (16.9 MB at the terminal), round {round}: {took:.2?}");
    }
}

fn time<T>(work: impl FnOnce() -> T) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}

fn memory(of: &[Process], what: &str) -> u64 {
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
