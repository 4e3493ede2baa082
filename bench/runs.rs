//! What runs cost beyond the commands themselves: ten commands side by side beside a shell that starts them itself, a
//! wait for a pattern beside a poll of 200 ms, and how quick an answer is while ten calls wait.
//!
//! `cargo run --release -p fugue-testkit --example runs -- target/release/fugue`

#![expect(clippy::print_stdout, reason = "a measurement prints its figures")]

use std::{
    fs::{File, OpenOptions},
    io::{BufRead, BufReader, Write},
    path::PathBuf,
    process::{Child, ChildStdin, ChildStdout, Stdio},
    time::{Duration, Instant},
};

use fugue_testkit::{TestEnv, sleep_in_test};
use serde_json::{Value, json};

fn main() {
    let fugue = std::env::args().nth(1).expect("the fugue to measure");
    let fugue = std::fs::canonicalize(PathBuf::from(fugue)).expect("it is there");
    let test_env = TestEnv::new(&fugue, Duration::from_secs(600));
    let mut server = Server::start(&test_env);
    ten_commands(&test_env, &mut server);
    waits(&test_env, &mut server);
    answers_while_ten_wait(&test_env, &mut server);
}

fn ten_commands(test_env: &TestEnv, server: &mut Server) {
    let ten = json!({"commands": vec![json!({"command": "true"}); 10]});
    let shell = |line: &str| {
        let start = Instant::now();
        let mut command = test_env.command("bash");
        command.args(["-c", line]).stdout(Stdio::null());
        assert!(command.status().expect("bash").success());
        start.elapsed()
    };
    let forks = "true & ".repeat(10) + "wait";
    let shells = "bash -c true & ".repeat(10) + "wait";
    let (mut ours, mut forked, mut execed) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..5 {
        server.call("fugue_run_parallel", ten.clone());
    }
    for _ in 0..60 {
        let start = Instant::now();
        let result = server.call("fugue_run_parallel", ten.clone());
        ours.push(start.elapsed());
        assert_eq!(result["status"], "completed", "{result}");
        execed.push(shell(&shells));
        forked.push(shell(&forks));
    }
    let ours = report("run_parallel, 10 × true, over MCP stdio", ours);
    let execed = report("bash -c 'bash -c true & … wait'", execed);
    let forked = report("bash -c 'true & … wait' (no exec at all)", forked);
    println!(
        "ratios of the medians: {:.2} and {:.2} (wanted: at most 2 of the first)\n",
        ours.as_secs_f64() / execed.as_secs_f64(),
        ours.as_secs_f64() / forked.as_secs_f64()
    );
}

/// A pane that prints whatever is written into a fifo, at once.
struct Printer {
    pane: String,
    fifo: File,
}

impl Printer {
    fn start(test_env: &TestEnv) -> Self {
        let path = test_env.work().join("fifo");
        let made = test_env.run("mkfifo", &[&path.to_string_lossy()]);
        made.ok();
        let pane = test_env
            .pane(&format!("cat < '{}'", path.display()))
            .pane_id
            .to_string();
        let fifo = OpenOptions::new()
            .write(true)
            .open(&path)
            .expect("the fifo");
        Self { pane, fifo }
    }
}

fn waits(test_env: &TestEnv, server: &mut Server) {
    let mut printer = Printer::start(test_env);
    let (mut fed, mut polled) = (Vec::new(), Vec::new());
    for turn in 0..120 {
        let word = format!("word-{turn}-fed;");
        let call = server.ask(
            "tools/call",
            json!({"name": "fugue_expect", "arguments": {"pane_id": printer.pane, "pattern": word}}),
        );
        // The wait is there before the word is.
        server.answer_to_another("get_status", json!({}));
        sleep_in_test(Duration::from_millis(5));
        let start = Instant::now();
        printer
            .fifo
            .write_all(format!("{word}\n").as_bytes())
            .expect("written");
        let found = server.answer(call);
        fed.push(start.elapsed());
        assert_eq!(found["status"], "matched", "{found}");
    }
    // The word comes at another moment of the interval each time.
    for turn in 0..20 {
        let word = format!("word-{turn}-polled;");
        let before = Duration::from_millis(10 * turn);
        sleep_in_test(before);
        let written = Instant::now();
        printer
            .fifo
            .write_all(format!("{word}\n").as_bytes())
            .expect("written");
        sleep_in_test(Duration::from_millis(200) - before);
        loop {
            let text = server.call("read_pane", json!({"pane_id": printer.pane, "lines": 5}));
            if text["text"]
                .as_str()
                .is_some_and(|text| text.contains(&word))
            {
                break;
            }
            sleep_in_test(Duration::from_millis(200));
        }
        polled.push(written.elapsed());
    }
    let fed = report(
        "fugue_expect, from the write to the reply, over MCP stdio",
        fed,
    );
    let polled = report("read_pane every 200 ms until it is there", polled);
    println!(
        "the poll takes {:.0} times as long (wanted: at least 50; the wait at most 2 ms)\n",
        polled.as_secs_f64() / fed.as_secs_f64()
    );
}

fn answers_while_ten_wait(test_env: &TestEnv, server: &mut Server) {
    let pane = test_env.pane("sleep 600").pane_id.to_string();
    let waiting: Vec<u64> = (0..10)
        .map(|_| {
            server.ask(
                "tools/call",
                json!({"name": "fugue_expect", "arguments": {"pane_id": pane, "pattern": "never"}}),
            )
        })
        .collect();
    let (mut pings, mut looks) = (Vec::new(), Vec::new());
    for _ in 0..1000 {
        let start = Instant::now();
        server.answer_to_another("ping", json!({}));
        pings.push(start.elapsed());
        let start = Instant::now();
        server.call("get_status", json!({"pane_id": pane}));
        looks.push(start.elapsed());
    }
    report(&format!("ping while {} calls wait", waiting.len()), pings);
    report(
        "get_status of a pane meanwhile (wanted: 99 % under 10 ms)",
        looks,
    );
}

/// One MCP server and its client, in one thread: what is measured is not our own hand-over.
struct Server {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    next: u64,
}

impl Server {
    fn start(test_env: &TestEnv) -> Self {
        let mut child = test_env
            .fugue_command(["mcp"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the server starts");
        let mut server = Self {
            stdin: child.stdin.take().expect("a pipe"),
            stdout: BufReader::new(child.stdout.take().expect("a pipe")),
            child,
            next: 1,
        };
        let hello = server.ask(
            "initialize",
            json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}),
        );
        server.line_of(hello);
        server
    }

    fn ask(&mut self, method: &str, params: Value) -> u64 {
        let id = self.next;
        self.next += 1;
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.stdin
            .write_all(format!("{message}\n").as_bytes())
            .expect("the server reads");
        id
    }

    fn call(&mut self, tool: &str, args: Value) -> Value {
        let id = self.ask("tools/call", json!({"name": tool, "arguments": args}));
        self.answer(id)
    }

    fn answer(&mut self, id: u64) -> Value {
        self.line_of(id)["result"]["structuredContent"].clone()
    }

    /// Something else, asked and answered while others wait.
    fn answer_to_another(&mut self, method: &str, args: Value) {
        let id = match method {
            "ping" => self.ask("ping", json!({})),
            tool => self.ask("tools/call", json!({"name": tool, "arguments": args})),
        };
        self.line_of(id);
    }

    fn line_of(&mut self, id: u64) -> Value {
        loop {
            let mut line = String::new();
            self.stdout
                .read_line(&mut line)
                .expect("the server answers");
            let message: Value = serde_json::from_str(&line).expect("JSON");
            if message["id"] == id {
                return message;
            }
        }
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
        "{what}: median {:.2?}, 99 % under {:.2?}, {} times",
        at(50),
        at(99),
        times.len()
    );
    at(50)
}
