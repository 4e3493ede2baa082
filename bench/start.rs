//! How long `fugue ls` takes with no daemon (cold) and with one (warm), as a person's shell sees it.
//!
//! `cargo run --release -p fugue-testkit --example start -- target/release/fugue`

#![expect(clippy::print_stdout, reason = "a measurement prints its figures")]

use std::time::Duration;

use fugue_testkit::{TestEnv, until};

const COLD: usize = 50;
const WARM: usize = 300;

fn main() {
    let binary = std::env::args().nth(1).expect("the fugue to measure");
    let binary = std::fs::canonicalize(binary).expect("the fugue to measure is there");
    let test_env = TestEnv::new(binary, Duration::from_secs(600));

    // What starting any program costs here, to be subtracted by whoever compares machines.
    let bare = times(WARM, || test_env.fugue(&["--version"]).ok().elapsed);
    report("a process that does nothing (`fugue --version`)", bare);

    let cold = times(COLD, || {
        test_env.fugue(&["daemon", "stop", "--panes"]);
        until("no daemon runs", Duration::from_secs(10), || {
            test_env.daemons().is_empty()
        });
        test_env.fugue(&["ls"]).ok().elapsed
    });
    report(
        "cold `fugue ls`, no panes ever (wanted: under 100 ms)",
        cold,
    );

    let warm = times(WARM, || test_env.fugue(&["ls"]).ok().elapsed);
    report("warm `fugue ls`, no panes (wanted: under 10 ms)", warm);

    for n in 0..20 {
        let pane = test_env.pane(&format!("seq 1 {}; exec cat", n * 1000));
        test_env.until_printed(pane.pane_id, |text| {
            text.ends_with(&format!("{}\n", n * 1000)) || n == 0
        });
    }
    let warm = times(WARM, || test_env.fugue(&["ls"]).ok().elapsed);
    report("warm `fugue ls`, 20 panes", warm);

    let cold = times(COLD, || {
        test_env.fugue(&["daemon", "stop"]).ok();
        until("no daemon runs", Duration::from_secs(10), || {
            test_env.daemons().is_empty()
        });
        test_env.fugue(&["ls"]).ok().elapsed
    });
    report("cold `fugue ls`, 20 live panes to find again", cold);
}

fn times(count: usize, mut once: impl FnMut() -> Duration) -> Vec<Duration> {
    let mut times: Vec<Duration> = (0..count).map(|_| once()).collect();
    times.sort();
    times
}

fn report(what: &str, times: Vec<Duration>) {
    let at = |percent: usize| times[(times.len() - 1) * percent / 100];
    println!(
        "{what}: median {:.2?}, 95 % under {:.2?}, slowest {:.2?}, {} runs",
        at(50),
        at(95),
        at(100),
        times.len()
    );
}
