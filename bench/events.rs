//! How long a blocked `wait_for_event` sleeps on after somebody published what it waits for, over MCP on both ends and
//! with the event on disk in between; and what a hook costs the agent that calls it.
//!
//! `cargo run --release -p fugue-testkit --example events -- target/release/fugue`

#![expect(clippy::print_stdout, reason = "a measurement prints its figures")]

use std::{
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::{Duration, Instant},
};

use fugue_testkit::{TestEnv, until};
use serde_json::{Value, json};

const EVENTS: usize = 1_000;
const HOOKS: usize = 200;

fn main() {
    let binary = std::env::args().nth(1).expect("the fugue to measure");
    let binary = std::fs::canonicalize(binary).expect("the fugue to measure is there");
    let test_env = TestEnv::new(binary, Duration::from_secs(600));
    test_env.overview();

    let mut lead = Server::start(test_env.fugue_command(["mcp", "--session", "lead"]));
    let mut publisher = Server::start(test_env.fugue_command(["mcp", "--session", "publisher"]));
    report(
        "one call beside it, to compare (`get_status`)",
        times(EVENTS, || {
            let start = Instant::now();
            lead.call("get_status", json!({}));
            start.elapsed()
        }),
    );
    report(
        "from the publisher's call to the blocked waiter's reply (wanted: median at most 5 ms)",
        times(EVENTS, || woken(&mut lead, &mut publisher)),
    );

    let made = lead.call(
        "spawn_worker",
        json!({"name": "w", "agent": "shell", "prompt": "exec tail -f /dev/null"}),
    );
    let said = |field: &str| made[field].as_str().expect("a string").to_owned();
    let identity = [
        ("FUGUE_SESSION_ID", said("session_id")),
        ("FUGUE_AGENT_ID", said("worker_id")),
        ("FUGUE_PANE_ID", said("pane_id")),
    ];
    let hook = |event: &str| {
        let mut command = test_env.fugue_command(["hook", "claude"]);
        command.envs(identity.clone());
        let payload = json!({"hook_event_name": event, "last_assistant_message": "all done"});
        run(command, &payload)
    };
    report(
        "a process that does nothing (`fugue --version`)",
        times(HOOKS, || {
            run(test_env.fugue_command(["--version"]), &json!({}))
        }),
    );
    report(
        "a hook that tells of a prompt and one that tells of a turn's end, each (wanted: under 50 ms)",
        times(HOOKS, || (hook("UserPromptSubmit") + hook("Stop")) / 2),
    );
    drop((lead, publisher));
    test_env.fugue(&["daemon", "stop", "--panes"]).ok();
    until("no daemon runs", Duration::from_secs(10), || {
        test_env.daemons().is_empty()
    });
    report(
        "a hook with no daemon (wanted: under 50 ms)",
        times(HOOKS, || hook("Stop")),
    );
}

/// From the moment the event is published to the moment the waiter has it.
fn woken(lead: &mut Server, publisher: &mut Server) -> Duration {
    let wait = lead.ask("wait_for_event", json!({}));
    // Answered behind the wait on the same connection, so that the wait is known to sleep.
    lead.call("get_status", json!({}));
    let notice = json!({"session_id": "lead", "worker_id": "w", "status": "success"});
    let start = Instant::now();
    let published = publisher.ask("notify_completion", notice);
    let told = lead.reply(wait);
    let took = start.elapsed();
    assert_eq!(told["type"], "worker_complete", "{told}");
    publisher.reply(published);
    took
}

struct Server {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    next: u64,
}

impl Server {
    fn start(mut command: Command) -> Self {
        let mut child = command
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
        let hello = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}});
        let id = server.say("initialize", hello);
        server.reply(id);
        server
    }

    fn say(&mut self, method: &str, params: Value) -> u64 {
        let id = self.next;
        self.next += 1;
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.stdin
            .write_all(format!("{message}\n").as_bytes())
            .expect("the server reads");
        id
    }

    fn ask(&mut self, tool: &str, args: Value) -> u64 {
        self.say("tools/call", json!({"name": tool, "arguments": args}))
    }

    /// One thread asks and reads, so that no hand-over of the client's own is measured.
    fn reply(&mut self, id: u64) -> Value {
        let mut line = String::new();
        self.stdout
            .read_line(&mut line)
            .expect("the server answers");
        let mut reply: Value = serde_json::from_str(&line).expect("a message");
        assert_eq!(reply["id"], json!(id), "{reply}");
        reply["result"]["structuredContent"].take()
    }

    fn call(&mut self, tool: &str, args: Value) -> Value {
        let id = self.ask(tool, args);
        self.reply(id)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a program with this on its stdin, and gives how long its caller waited.
fn run(mut command: Command, payload: &Value) -> Duration {
    let start = Instant::now();
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .expect("the program starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    // A program that does nothing reads nothing.
    let _ = stdin.write_all(payload.to_string().as_bytes());
    drop(stdin);
    let status = child.wait().expect("a child can be waited for");
    assert!(status.success());
    start.elapsed()
}

fn times(count: usize, mut once: impl FnMut() -> Duration) -> Vec<Duration> {
    let mut times: Vec<Duration> = (0..count).map(|_| once()).collect();
    times.sort();
    times
}

fn report(what: &str, times: Vec<Duration>) {
    let at = |percent: usize| times[(times.len() - 1) * percent / 100];
    println!(
        "{what}: median {:.2?}, 99 % under {:.2?}, slowest {:.2?}, {} times",
        at(50),
        at(99),
        at(100),
        times.len()
    );
}
