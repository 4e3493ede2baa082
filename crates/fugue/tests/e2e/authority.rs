//! Authority, with the real binary: which calls a worker's own processes may make, whatever their environment holds.

use std::{path::PathBuf, time::Duration};

use fugue_api::{ErrorKind, PaneId};
use fugue_testkit::{TestEnv, mcp_client::McpClient, until};
use serde_json::{Value, json};

const LIMIT: Duration = Duration::from_secs(180);
const WAIT_TIMEOUT: Duration = Duration::from_secs(60);
const FUGUE: &str = env!("CARGO_BIN_EXE_fugue");
// Takes lines as commands, as an agent with a shell tool does.
const SHELL: &str = "while read -r line; do eval \"$line\"; done";

fn test_env() -> TestEnv {
    TestEnv::new(FUGUE, LIMIT)
}

fn lead(test_env: &TestEnv, session: &str) -> McpClient {
    let mut client = McpClient::start(test_env.fugue_command(["mcp", "--session", session]));
    client.initialize("2025-11-25", "test");
    client
}

/// The MCP server of a worker, as its agent starts it.
fn server_of(test_env: &TestEnv, worker: &str) -> McpClient {
    let mut command = test_env.fugue_command(["mcp"]);
    command
        .env("FUGUE_SESSION_ID", "lead")
        .env("FUGUE_AGENT_ID", worker);
    let mut client = McpClient::start(command);
    client.initialize("2025-11-25", "test");
    client
}

fn pane(opened: &Value) -> PaneId {
    opened["pane_id"]
        .as_str()
        .expect("a pane")
        .parse()
        .expect("an id")
}

fn spawn(lead: &mut McpClient, name: &str) -> PaneId {
    let args = json!({"name": name, "agent": "shell", "prompt": SHELL});
    pane(&lead.call("spawn_worker", args))
}

/// How a command is run in a worker's pane.
#[derive(Clone, Copy, Debug)]
enum Manner {
    Plainly,
    /// Without any variable that says whose process it is.
    WithoutEnvironment,
    /// The same in a session of its own, and with parents that have ended.
    Detached,
}

/// A worker that runs commands.
struct Shell<'a> {
    test_env: &'a TestEnv,
    pane: PaneId,
    commands: u32,
}

impl Shell<'_> {
    /// Runs `fugue` with these words and gives its exit code and all that it printed.
    fn fugue(&mut self, manner: Manner, words: &str) -> (i32, String) {
        self.commands += 1;
        let file = |what: &str| -> PathBuf {
            let name = format!("{what}-{}-{}", self.pane, self.commands);
            self.test_env.work().join(name)
        };
        let (out, code, begun) = (file("out"), file("code"), file("begun"));
        let unset = "env -u FUGUE_SESSION_ID -u FUGUE_AGENT_ID -u EXOMONAD_SESSION_ID -u EXOMONAD_AGENT_ID \
                     -u FUGUE_PANE_ID -u FUGUE_SOCKET";
        let call = match manner {
            Manner::Plainly => format!("{FUGUE} {words}"),
            Manner::WithoutEnvironment | Manner::Detached => format!("{unset} {FUGUE} {words}"),
        };
        let (out_path, code_path) = (out.display(), code.display());
        let script = format!(
            "{call} >{out_path} 2>&1; echo $? >{code_path}.new; mv {code_path}.new {code_path}\n"
        );
        let line = match manner {
            Manner::Plainly | Manner::WithoutEnvironment => {
                std::fs::write(&begun, script).expect("a script");
                format!("sh {}", begun.display())
            }
            Manner::Detached => {
                // Its first parent is the shell that ends at once, so that it has been adopted when it calls.
                let wait = "while kill -0 $1 2>/dev/null; do :; done\n";
                std::fs::write(&begun, format!("{wait}{script}")).expect("a script");
                let begun = begun.display();
                format!("sh -c 'setsid sh {begun} $$ </dev/null >/dev/null 2>&1 &'")
            }
        };
        self.test_env.type_line(self.pane, &line);
        until("the command has ended", WAIT_TIMEOUT, || code.exists());
        let code = std::fs::read_to_string(&code).expect("a code");
        let out = std::fs::read_to_string(&out).expect("an output");
        (code.trim().parse().expect("a number"), out)
    }

    #[track_caller]
    fn is_denied(&mut self, manner: Manner, words: &str) {
        let (code, out) = self.fugue(manner, &format!("{words} --json"));
        let refusal = out
            .lines()
            .rev()
            .find_map(|line| serde_json::from_str(line).ok());
        let refusal: Value = refusal.unwrap_or_else(|| panic!("{manner:?} {words}: {out}"));
        assert_eq!(refusal["kind"], "denied", "{manner:?} {words}: {out}");
        assert_eq!(code, 1, "{manner:?} {words}: {out}");
        assert!(
            refusal["message"]
                .as_str()
                .is_some_and(|said| said.contains("w-shell")),
            "{out}"
        );
    }
}

#[test]
fn a_worker_with_a_shell_does_what_the_table_allows_it_and_nothing_else() {
    let test_env = test_env();
    let (mut lead, mut other) = (lead(&test_env, "lead"), lead(&test_env, "other"));
    let command = json!({"command": "cat"});
    let of_other = pane(&other.call("create_pane", command.clone()));
    let of_lead = pane(&lead.call("create_pane", command));
    let of_person: Value = test_env.json(&["new", "-n", "mine", "--", "cat"]);
    let of_person = pane(&of_person);
    let own = spawn(&mut lead, "w");
    let sibling = spawn(&mut lead, "v");
    let mut worker = Shell {
        test_env: &test_env,
        pane: own,
        commands: 0,
    };
    let (_, asked) = worker.fugue(Manner::Plainly, "ask 'may I?' --timeout 0s --json");
    let asked: Value = serde_json::from_str(asked.trim()).expect("a question");
    let question = asked["question_id"].as_str().expect("its id");
    let inboxes = |test_env: &TestEnv| -> Vec<Value> {
        let of = |inbox: &str| test_env.json(&["events", "--inbox", inbox, "--all"]);
        ["lead", "other", "lead/v-shell.1"].map(of).into()
    };
    // Both leads have been heard of.
    let report = [
        "notify",
        "success",
        "--worker-id",
        "stranger",
        "--session-id",
    ];
    for session in ["lead", "other"] {
        test_env.fugue(&[&report[..], &[session]].concat()).ok();
    }
    let before = inboxes(&test_env);
    for manner in [
        Manner::Plainly,
        Manner::WithoutEnvironment,
        Manner::Detached,
    ] {
        for pane in [of_other, of_lead, of_person, sibling] {
            worker.is_denied(manner, &format!("close {pane}"));
            worker.is_denied(manner, &format!("send {pane} x --enter"));
            worker.is_denied(manner, &format!("resize {pane} 10 10"));
        }
        worker.is_denied(manner, &format!("send {own} x --force"));
        worker.is_denied(manner, "events --inbox other");
        worker.is_denied(manner, "events --inbox lead");
        worker.is_denied(manner, "message --to v-shell x --type");
        worker.is_denied(manner, "message --to other x");
        worker.is_denied(manner, &format!("answer {question} yes"));
        worker.is_denied(
            manner,
            "notify success --session-id lead --worker-id v-shell",
        );
        worker.is_denied(manner, "daemon stop --panes");
        worker.is_denied(manner, "gc --ended");
        // What it may.
        let (code, out) = worker.fugue(manner, &format!("read {of_other}"));
        assert_eq!(code, 0, "{manner:?}: {out}");
    }
    assert_eq!(inboxes(&test_env), before, "nothing was said");
    for pane in [of_other, of_lead, of_person, own, sibling] {
        assert_eq!(test_env.status(pane).state.exit_code, None);
    }
    for pane in [of_other, of_lead, of_person] {
        assert_eq!(test_env.text(pane), "", "nothing was typed");
    }
    // Messages to siblings and to the lead, and a report of its own, from a process that says nothing of itself.
    for (words, inbox) in [
        ("message --to v-shell hello", "lead/v-shell.1"),
        ("message hello", "lead"),
        ("notify success -m mine", "lead"),
    ] {
        let (code, out) = worker.fugue(Manner::Detached, words);
        assert_eq!(code, 0, "{words}: {out}");
        let told: Value = test_env.json(&["events", "--inbox", inbox]);
        let last = told["events"]
            .as_array()
            .and_then(|events| events.last())
            .expect("it came");
        let from = last.get("from").or(last.get("worker_id"));
        assert_eq!(from, Some(&json!("w-shell")), "{told}");
    }
    // A pane that it opened is its own, and so is whoever runs in that.
    let (code, opened) = worker.fugue(Manner::WithoutEnvironment, "new -n deep --json");
    assert_eq!(code, 0, "{opened}");
    let deep = pane(&serde_json::from_str(opened.trim()).expect("a pane"));
    let mut within = Shell {
        test_env: &test_env,
        pane: deep,
        commands: 0,
    };
    within.is_denied(Manner::WithoutEnvironment, &format!("close {of_lead}"));
    let (code, out) = worker.fugue(Manner::Plainly, &format!("close {deep}"));
    assert_eq!(code, 0, "{out}");
}

#[test]
fn a_worker_with_nothing_but_its_tools_neither_types_nor_speaks_for_others() {
    let test_env = test_env();
    test_env.configure(
        "idle_threshold_secs = 0.2\n[agents.reader]\ncommand = [\"bash\", \"{prompt_file}\"]\n",
    );
    let mut lead = lead(&test_env, "lead");
    let reader = |name: &str| json!({"name": name, "agent": "reader", "prompt": "while read -r line; do echo \"<$line>\"; done"});
    lead.call("spawn_worker", reader("w"));
    let sibling = pane(&lead.call("spawn_worker", reader("v")));
    let mut worker = server_of(&test_env, "w-reader");
    let typed = json!({"to": "v-reader", "body": "touch x\n", "deliver": "type"});
    let refused = worker.refused("send_message", typed);
    assert_eq!(refused.kind, ErrorKind::Denied);
    assert!(refused.message.contains("v-reader"), "{refused:?}");
    assert!(refused.hint.is_some_and(|hint| hint.contains("inbox")));
    let queued: Value = test_env.json(&["events", "--inbox", "lead/v-reader.1"]);
    assert_eq!(
        queued["events"],
        json!([]),
        "nothing waits to be typed later"
    );
    let sent = worker.call("send_message", json!({"to": "v-reader", "body": "hello"}));
    assert_eq!(sent["delivered"], json!("queued"));
    let asked = worker.call("ask_question", json!({"body": "may I?", "timeout_secs": 0}));
    let answer = json!({"question_id": asked["question_id"], "answer": "yes"});
    assert_eq!(
        worker.refused("answer_question", answer.clone()).kind,
        ErrorKind::Denied
    );
    let report = json!({"session_id": "lead", "worker_id": "v-reader", "status": "success"});
    assert_eq!(
        worker.refused("notify_completion", report.clone()).kind,
        ErrorKind::Denied
    );
    assert_eq!(
        lead.refused("notify_completion", report).kind,
        ErrorKind::Denied
    );
    for client in [&mut worker, &mut lead] {
        let own = client.call("create_pane", json!({"command": "cat"}));
        let forced = json!({"pane_id": own["pane_id"], "input": "x", "force": true});
        let refused = client.refused("send_input", forced);
        assert_eq!(refused.kind, ErrorKind::Denied);
        assert!(refused.message.contains("person"), "{refused:?}");
    }
    // The lead may all of that with its own workers.
    lead.call("answer_question", answer);
    let told = worker.call("wait_for_event", json!({"types": ["answer"]}));
    assert_eq!(
        (&told["from"], &told["body"]),
        (&json!("lead"), &json!("yes"))
    );
    let body = "one\ntwo\u{1b}[201~\u{3}three\u{9b}";
    lead.call(
        "send_message",
        json!({"to": "v-reader", "body": body, "deliver": "type"}),
    );
    let text = test_env.until_printed(sibling, |text| text.contains("three>"));
    assert!(
        text.contains("<Message from lead: one two[201~three>"),
        "{text}"
    );
    assert!(!text.contains("touch"), "{text}");
}

#[test]
fn leads_share_what_runs_and_each_closes_its_own() {
    let test_env = test_env();
    let (mut one, mut two) = (lead(&test_env, "one"), lead(&test_env, "two"));
    let serve = json!({"command": "echo ready; cat"});
    let server = pane(&one.call("create_pane", serve));
    let seen = two.call(
        "fugue_expect",
        json!({"pane_id": server, "pattern": "ready"}),
    );
    assert_eq!(seen["status"], json!("matched"));
    two.call("read_pane", json!({"pane_id": server}));
    two.call("get_status", json!({"pane_id": server}));
    for (tool, args) in [
        ("close_pane", json!({"pane_id": server})),
        ("send_input", json!({"pane_id": server, "input": "x"})),
        (
            "fugue_expect",
            json!({"pane_id": server, "pattern": "ready", "action": "close_pane"}),
        ),
        (
            "watch_me",
            json!({"tmux_window": server, "strategy_plan": "go on"}),
        ),
    ] {
        let refused = two.refused(tool, args);
        assert_eq!(refused.kind, ErrorKind::Denied, "{tool}: {refused:?}");
        assert!(refused.message.contains("`one`"), "{refused:?}");
    }
    // What a person opened, a lead types into and does not close.
    let of_person: Value = test_env.json(&["new", "-n", "mine", "--", "cat"]);
    let of_person = pane(&of_person);
    two.call(
        "send_input",
        json!({"pane_id": of_person, "input": "hello", "submit": true}),
    );
    assert_eq!(
        two.refused("close_pane", json!({"pane_id": of_person}))
            .kind,
        ErrorKind::Denied
    );
    // The records are on disk: another daemon knows the same.
    for daemon in test_env.daemons() {
        daemon.kill9();
    }
    assert_eq!(
        two.refused("close_pane", json!({"pane_id": server})).kind,
        ErrorKind::Denied
    );
    one.call("close_pane", json!({"pane_id": server}));
    test_env
        .fugue(&["send", &of_person.to_string(), "x", "--enter", "--force"])
        .ok();
    test_env.fugue(&["close", &of_person.to_string()]).ok();
    let of_two = pane(&two.call("create_pane", json!({"command": "cat"})));
    test_env.fugue(&["close", &of_two.to_string()]).ok();
}
