//! What the replies of common calls cost a model, so that no field creeps in.
//!
//! `golden_replies.txt` has the call, the reply and its tokens. The replies are compared always, the tokens where the tokenizer
//! is installed (`scripts/mcp-tools`). `FUGUE_BLESS=1` writes the file anew.

use std::{fs, path::Path, time::Duration};

use fugue_testkit::{
    MissingRequirement, RunningProgram, TestEnv, mcp_client::McpClient, skip,
    test_agents::ExternalTools,
};
use serde_json::{Value, json};

const LIMIT: Duration = Duration::from_secs(180);
const FUGUE: &str = env!("CARGO_BIN_EXE_fugue");
const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/e2e/golden_replies.txt");
const COUNTER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../bench/tokens/count.mjs");

/// Fields whose values differ from run to run, and the value that stands for them.
const STAND_INS: &[(&str, &str)] = &[
    ("pid", "22696"),
    ("cursor", "\"5c.9.1r\""),
    ("duration_ms", "8164"),
    ("total_duration_ms", "15140"),
    ("at", "1795063882"),
    ("session_id", "\"shop-cd7b0f9f\""),
    ("run_id", "\"r-rtp7q59fq2\""),
];

/// Replaces the values of varying fields in compact JSON.
fn with_stand_ins(reply: &str) -> String {
    let mut text = reply.to_owned();
    for (field, stand_in) in STAND_INS {
        let key = format!("\"{field}\":");
        let mut done = 0;
        while let Some(found) = text[done..].find(&key) {
            let start = done + found + key.len();
            let value = &text[start..];
            let end = match value.strip_prefix('"') {
                Some(string) => string.find('"').map(|end| end + 2),
                None => value.find([',', '}', ']']),
            };
            let end = start + end.expect("a value ends");
            text.replace_range(start..end, stand_in);
            done = start + stand_in.len();
        }
    }
    text
}

/// Makes the calls, and records each with its reply.
struct Recorder {
    client: McpClient,
    calls: Vec<(String, String)>,
}

impl Recorder {
    fn call(&mut self, tool: &str, args: Value) {
        let id = self.client.send_tool_call(tool, args.clone());
        let result = self.client.result(id);
        assert_ne!(result["isError"], true, "{tool} {args}: {result}");
        let text = result["content"][0]["text"].as_str().expect("a text");
        let heading = format!("{tool} {args}");
        self.calls.push((heading, with_stand_ins(text)));
    }
}

/// The calls of the five workflows of `bench/tokens`, with commands that print the same everywhere.
fn record(test_env: &TestEnv) -> Vec<(String, String)> {
    let mut client = McpClient::start(test_env.fugue_command(["mcp"]));
    client.initialize("2025-11-25", "tokens");
    let calls = Vec::new();
    let mut recorder = Recorder { client, calls };
    let address = "echo '  ➜  Local:   http://127.0.0.1:5173/'; exec sleep 1000";
    recorder.call(
        "create_pane",
        json!({"command": address, "ready": "Local:"}),
    );
    let early_end = "echo 'Error: listen EADDRINUSE: address already in use'; exit 1";
    recorder.call(
        "create_pane",
        json!({"command": early_end, "ready": "Local:"}),
    );
    let failing = "seq -f '  ✓ case %g of the shopping cart' 400; echo '  ✕ applies the coupon before the tax'; seq -f '    at shop/cart.ts:%g' 30; echo 'Tests: 1 failed, 400 passed'; exit 1";
    let passing = "seq -f 'test cart::case_%g ... ok' 50; echo '36 passed'";
    recorder.call(
        "fugue_run_parallel",
        json!({"commands": [failing, passing, "echo ok"]}),
    );
    recorder.call("close_pane", json!({"pane_id": "p1"}));
    recorder.call("get_status", json!({}));
    let build = "seq -f 'compiled file %g' 20; echo 'error TS2345: not assignable'; exit 2";
    recorder.call(
        "fugue_run_pipeline",
        json!({"commands": ["seq 100", "true", build, "npm test"]}),
    );
    recorder.call(
        "spawn_worker",
        json!({"name": "auth", "agent": "shell", "prompt": "echo '4 files ported'"}),
    );
    recorder.call("wait_for_event", json!({}));
    recorder.call("create_pane", json!({"name": "coder"}));
    recorder.call(
        "watch_me",
        json!({"tmux_window": "coder", "strategy_plan": "port the shop"}),
    );
    recorder.call(
        "send_input",
        json!({"pane_id": "coder", "input": "echo part 1 is done", "submit": true}),
    );
    recorder.call(
        "fugue_expect",
        json!({"pane_id": "coder", "pattern": "^part 1 is done$"}),
    );
    recorder.call(
        "look_ma",
        json!({"tmux_window": "coder", "status_report": "part 1 is done", "bash_wait": "true"}),
    );
    recorder.call("wait_for_event", json!({"types": ["watcher_end"]}));
    recorder.calls
}

/// The tokens of each text, if the tokenizer is installed.
fn count(test_env: &TestEnv, texts: &[&str]) -> Option<Vec<u64>> {
    let tools = ExternalTools::find_beside(Path::new(FUGUE));
    let tokenizer = tools.find("tokens")?;
    let list = test_env.work().join("texts");
    let lines: String = texts
        .iter()
        .map(|text| format!("{}\n", json!(text)))
        .collect();
    fs::write(&list, lines).expect("the list of texts");
    let mut command = tools.command(test_env, Path::new("sh"));
    command.args(["-c", r#"exec node "$0" "$1" <"$2""#, COUNTER]);
    command.arg(tokenizer).arg(list);
    let counted = RunningProgram::start(command).end(LIMIT).ok().out();
    let numbers = counted.lines().map(|line| line.parse().expect("a number"));
    Some(numbers.collect())
}

/// The file: for each call a line with the call, a line with the reply, a line with its tokens, and an empty line.
fn golden(calls: &[(String, String)], tokens: &[u64]) -> String {
    let entries = calls.iter().zip(tokens);
    let entries =
        entries.map(|((call, reply), tokens)| format!("{call}\n{reply}\n{tokens} tokens\n"));
    entries.collect::<Vec<_>>().join("\n")
}

#[test]
fn replies_cost_the_tokens_that_were_agreed_on() {
    let mut test_env = TestEnv::new(FUGUE, LIMIT);
    test_env.set_env(
        "FUGUE_ASSESS_MODEL",
        r#"cmd:echo '{"action": "stop", "injection_prompt": null}'"#,
    );
    test_env.set_env("FUGUE_IDLE_THRESHOLD", "0.2");
    let calls = record(&test_env);
    let replies: Vec<&str> = calls.iter().map(|(_, reply)| reply.as_str()).collect();
    let counted = count(&test_env, &replies);
    let agreed = fs::read_to_string(GOLDEN).unwrap_or_default();
    if std::env::var_os("FUGUE_BLESS").is_some() {
        let counted = counted.as_ref().expect("the tokenizer");
        return fs::write(GOLDEN, golden(&calls, counted)).expect("the file is written");
    }
    let tokens = agreed
        .lines()
        .filter_map(|line| line.strip_suffix(" tokens"));
    let tokens: Vec<u64> = tokens.filter_map(|number| number.parse().ok()).collect();
    assert_eq!(tokens.len(), calls.len(), "one number for each call");
    assert_eq!(
        golden(&calls, &tokens),
        agreed,
        "FUGUE_BLESS=1 agrees to it"
    );
    match counted {
        Some(counted) => assert_eq!(counted, tokens, "FUGUE_BLESS=1 agrees to it"),
        None => skip(
            MissingRequirement::Program,
            "the tokens of replies: the tokenizer is not installed (scripts/mcp-tools)",
        ),
    }
}
