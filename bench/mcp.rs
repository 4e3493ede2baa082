//! What one trivial call over stdio costs: `get_status` through the bridge and the daemon, beside a bare rmcp server
//! that echoes, in turns within one run: wherever the kernel puts the processes, then with all of them on one core, where
//! it is their work alone that differs.
//!
//! `cargo run --release -p fugue-mcp --example mcp -- target/release/fugue target/release/examples/mcp_echo`

#![expect(clippy::print_stdout, reason = "a measurement prints its figures")]

use std::{
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::{Duration, Instant},
};

use fugue_testkit::TestEnv;
use serde_json::{Value, json};

const TURNS: usize = 20;
const CALLS: usize = 500;

fn main() {
    let mut args = std::env::args().skip(1).map(PathBuf::from);
    let mut program =
        || std::fs::canonicalize(args.next().expect("two programs")).expect("it is there");
    let (fugue, echo) = (program(), program());
    println!("where the kernel puts them:");
    compare(&fugue, &echo);
    println!("on one core:");
    fugue_testkit::pin_to_one_core();
    compare(&fugue, &echo);
}

fn compare(fugue: &Path, echo: &Path) {
    let test_env = TestEnv::new(fugue, Duration::from_secs(600));
    test_env.overview();
    let mut bare = Server::start(test_env.command(echo), "echo");
    let mut ours = Server::start(test_env.fugue_command(["mcp"]), "get_status");
    let (mut bare_times, mut our_times) = (Vec::new(), Vec::new());
    bare.calls(CALLS);
    ours.calls(CALLS);
    // In turns, so that whatever else the machine does falls on both.
    for _ in 0..TURNS {
        bare_times.extend(bare.calls(CALLS));
        our_times.extend(ours.calls(CALLS));
    }
    let bare_median = report("a bare rmcp server that echoes", bare_times);
    let our_median = report("fugue mcp, get_status through the daemon", our_times);
    println!(
        "  ratio of the medians: {:.2} (wanted: at most 4 on one core)",
        our_median.as_secs_f64() / bare_median.as_secs_f64()
    );
}

struct Server {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    tool: &'static str,
    next: u64,
}

impl Server {
    fn start(mut command: Command, tool: &'static str) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the server starts");
        let mut server = Self {
            stdin: child.stdin.take().expect("a pipe"),
            stdout: BufReader::new(child.stdout.take().expect("a pipe")),
            child,
            tool,
            next: 1,
        };
        server.ask(
            "initialize",
            json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}),
        );
        server
    }

    fn calls(&mut self, count: usize) -> Vec<Duration> {
        (0..count)
            .map(|_| {
                let start = Instant::now();
                self.ask("tools/call", json!({"name": self.tool, "arguments": {}}));
                start.elapsed()
            })
            .collect()
    }

    /// One thread asks and reads, so that no hand-over of the client's own is measured.
    fn ask(&mut self, method: &str, params: Value) {
        let id = self.next;
        self.next += 1;
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.stdin
            .write_all(format!("{message}\n").as_bytes())
            .expect("the server reads");
        let mut line = String::new();
        self.stdout
            .read_line(&mut line)
            .expect("the server answers");
        assert!(line.contains(&format!("\"id\":{id},\"result\"")), "{line}");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn report(what: &str, mut times: Vec<Duration>) -> Duration {
    times.sort();
    let at = |percent: usize| times[(times.len() - 1) * percent / 100];
    println!(
        "  {what}: median {:.1?}, 99 % under {:.1?}, {} calls",
        at(50),
        at(99),
        times.len()
    );
    at(50)
}
