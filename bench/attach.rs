//! How long a key takes from the person's terminal to its echo there, through `fugue attach` and through tmux, quiet and
//! beside a pane that prints at full speed; and what such a pane costs in memory. Both in one run, in turns.
//!
//! `cargo run --release -p fugue-testkit --example attach -- target/release/fugue`

#![expect(clippy::print_stdout, reason = "a measurement prints its figures")]

use std::{
    fs,
    time::{Duration, Instant},
};

use fugue_testkit::{TestEnv, TestPty, until};

// Fewer than half of the screen is wide: what is erased must be gone.
const KEYS: usize = 30;
const ROUNDS: usize = 25;
// Two bytes that no escape sequence has.
const KEY: &str = "é";
const WAIT_TIMEOUT: Duration = Duration::from_secs(10);
const FLOOD: Duration = Duration::from_secs(20);

/// Echoes what is typed, on a screen that is full of text, as most are.
const FULL: &str = "seq -f 'line %g of a screen that has text in every row, from the left to the right' 60; exec cat";

fn main() {
    let binary = std::env::args().nth(1).expect("the fugue to measure");
    let binary = fs::canonicalize(binary).expect("the fugue to measure is there");
    let test_env = TestEnv::new(&binary, Duration::from_secs(900));

    println!("a key and its echo, quiet, {} of each:", KEYS * ROUNDS);
    let bare = at_terminal(&test_env, &["cat"]);
    test_env.json::<serde_json::Value>(&["new", "-s", "quiet", "--", FULL]);
    let fugue = at_terminal(&test_env, &[&binary.to_string_lossy(), "attach", "quiet"]);
    test_env.tmux(&[
        "-f",
        "/dev/null",
        "-u",
        "new-session",
        "-d",
        "-s",
        "quiet",
        FULL,
    ]);
    test_env.tmux(&["set-option", "-g", "escape-time", "0"]);
    let tmux = at_terminal(&test_env, &["tmux", "-u", "attach", "-t", "quiet"]);
    compare(&bare, &fugue, &tmux);
    drop((fugue, tmux));

    println!("the same beside a pane in which `yes` runs:");
    test_env.json::<serde_json::Value>(&["new", "-s", "loud", "--", "exec yes"]);
    test_env.json::<serde_json::Value>(&["new", "-s", "loud", "-n", "cat", "--", "exec cat"]);
    test_env.tmux(&["new-session", "-d", "-s", "loud", "yes"]);
    test_env.tmux(&["split-window", "-h", "-t", "loud", "cat"]);
    let fugue = at_terminal(&test_env, &[&binary.to_string_lossy(), "attach", "cat"]);
    let tmux = at_terminal(&test_env, &["tmux", "-u", "attach", "-t", "loud"]);
    compare(&bare, &fugue, &tmux);

    println!("memory while `yes` runs for {FLOOD:?} more, KiB before and after:");
    let daemon = test_env.daemons()[0].pid;
    let client = fugue.child.id();
    let before = (kib(daemon), kib(client));
    let end = Instant::now() + FLOOD;
    let mut drawn = 0;
    while Instant::now() < end {
        drawn += fugue.read(end).len();
    }
    println!(
        "  daemon {} {}, client {} {}",
        before.0,
        kib(daemon),
        before.1,
        kib(client)
    );
    println!(
        "  the client wrote {} KiB/s to its terminal",
        drawn / 1024 / FLOOD.as_secs() as usize
    );
}

/// A program at an own terminal that has drawn itself.
fn at_terminal(test_env: &TestEnv, words: &[&str]) -> TestPty {
    let mut command = test_env.command("setsid");
    command.arg("-c").args(words);
    let pty = TestPty::start(command, 24, 80);
    if words.contains(&"attach") {
        let mut seen = Vec::new();
        until("it has drawn itself", WAIT_TIMEOUT, || {
            seen.extend(pty.read(Instant::now() + Duration::from_millis(100)));
            // The terminal's answer to what it is asked first.
            if seen.windows(2).any(|two| two == b"[c") {
                pty.write(b"\x1b[?62c");
            }
            seen.len() > 200
        });
    }
    pty
}

fn compare(bare: &TestPty, fugue: &TestPty, tmux: &TestPty) {
    let mut times = [Vec::new(), Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        for (pty, times) in [bare, fugue, tmux].into_iter().zip(&mut times) {
            for _ in 0..KEYS {
                times.push(echo(pty));
            }
            // The line goes, and what it leaves on the screen comes.
            pty.write(b"\x15");
            let quiet = Instant::now() + Duration::from_millis(100);
            while Instant::now() < quiet {
                pty.read(quiet);
            }
        }
    }
    let medians = times.map(|mut times| {
        times.sort();
        let at = |percent: usize| times[(times.len() - 1) * percent / 100];
        (at(50), at(95), at(99))
    });
    for (name, (half, most, nearly_all)) in ["the terminal alone", "fugue attach", "tmux attach"]
        .iter()
        .zip(medians)
    {
        println!("  {name}: median {half:.1?}, 95 % under {most:.1?}, 99 % under {nearly_all:.1?}");
    }
    let ratio = medians[1].0.as_secs_f64() / medians[2].0.as_secs_f64();
    println!("  fugue takes {ratio:.2} times as long as tmux (median)");
}

fn echo(pty: &TestPty) -> Duration {
    let began = Instant::now();
    pty.write(KEY.as_bytes());
    let mut seen = Vec::new();
    loop {
        seen.extend(pty.read(began + WAIT_TIMEOUT));
        if seen.windows(2).any(|two| two == KEY.as_bytes()) {
            return began.elapsed();
        }
        let drawn = String::from_utf8_lossy(&seen[seen.len().saturating_sub(300)..]);
        assert!(
            began.elapsed() < WAIT_TIMEOUT,
            "no echo came, but {drawn:?}"
        );
    }
}

fn kib(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok())
        .unwrap_or(0)
}
