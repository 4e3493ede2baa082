//! The real interactive Claude Code as a lead, in a pane, with a scripted model: tasks, a form, prompts and panes as
//! resources, as its person sees them and as they reach its model.

use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};

use fugue_api::PaneId;
use fugue_testkit::{
    MissingRequirement, RunningProgram, TestEnv, report_metric,
    scripted_model::{ModelAction, ModelRequest, SCRIPT_DONE, ScriptedModel},
    skip,
    test_agents::{AgentHome, ExternalTools, TestAgent},
    until,
};
use serde_json::{Value, json};

const LIMIT: Duration = Duration::from_secs(240);
/// How long anything may take that is waited for.
const WAIT_TIMEOUT: Duration = Duration::from_secs(90);
const FUGUE: &str = env!("CARGO_BIN_EXE_fugue");

/// Claude Code in a pane, with fugue as its MCP server.
struct Lead {
    test_env: TestEnv,
    _home: AgentHome,
    pane: PaneId,
}

impl Lead {
    fn start(model: &ScriptedModel, prompt: &str) -> Option<Self> {
        let tools = ExternalTools::find_beside(Path::new(FUGUE));
        let mut test_env = TestEnv::new(FUGUE, LIMIT);
        if let Some((missing, reason)) = TestAgent::Claude.missing_requirement(&tools) {
            skip(missing, reason);
            return None;
        }
        let Some(home) = AgentHome::settle(&tools, &mut test_env, model) else {
            skip(
                MissingRequirement::Program,
                "not all agents are installed (scripts/mcp-tools)",
            );
            return None;
        };
        let config = home.dir().join("mcp.json");
        let server =
            json!({"command": FUGUE, "args": ["mcp", "--session", "lead"], "alwaysLoad": true});
        let servers = json!({"mcpServers": {"fugue": server}});
        fs::write(&config, servers.to_string()).expect("a configuration");
        let command = format!(
            "exec claude --mcp-config '{}' --strict-mcp-config --allowedTools mcp__fugue {}",
            config.display(),
            if prompt.is_empty() {
                String::new()
            } else {
                format!("-- '{prompt}'")
            },
        );
        let made: Value = test_env.json(&["new", "-n", "claude", "--", &command]);
        let pane = made["pane_id"].as_str().expect("an id");
        Some(Self {
            pane: pane.parse().expect("a pane"),
            test_env,
            _home: home,
        })
    }

    fn shown(&self) -> String {
        self.test_env.read(self.pane, &["--screen"]).text
    }

    /// Waits, and shows the screen of an agent that does not come to it.
    #[track_caller]
    fn until(&self, what: &str, mut wanted: impl FnMut() -> bool) {
        let start = Instant::now();
        until(what, LIMIT, || {
            let reached = wanted();
            let is_late = start.elapsed() > WAIT_TIMEOUT;
            assert!(reached || !is_late, "{what}:\n{}", self.shown());
            reached
        });
    }
}

fn call(tool: &str, input: Value) -> ModelAction {
    let (tool, namespace) = TestAgent::Claude.model_tool_name(tool);
    ModelAction {
        tool,
        namespace,
        input,
    }
}

/// The requests of the agent itself, which have tools.
fn turns(model: &ScriptedModel) -> Vec<ModelRequest> {
    let mut all = model.requests();
    all.retain(|asked| asked.body.get("tools").is_some());
    all
}

/// The messages of the last request, as the model reads them.
fn messages(model: &ScriptedModel) -> String {
    let last = turns(model).pop();
    last.map(|asked| texts(&asked.body["messages"]))
        .unwrap_or_default()
}

/// All texts in a value, one after the other.
fn texts(value: &Value) -> String {
    match value {
        Value::String(text) => format!("{text}\n"),
        Value::Array(items) => items.iter().map(texts).collect(),
        Value::Object(fields) => fields.values().map(texts).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) => String::new(),
    }
}

#[test]
fn a_long_run_is_a_task_of_claude_code_and_its_end_starts_a_turn() {
    let command = "until [ -e go ]; do sleep 0.1; done; echo over";
    let model = ScriptedModel::with_turns(vec![
        vec![
            call("fugue_run_parallel", json!({"commands": [command]})),
            call("get_status", json!({})),
        ],
        Vec::new(),
    ]);
    let Some(lead) = Lead::start(&model, "follow the script") else {
        return;
    };
    // Both results are there and the turn is over, while the run goes on.
    lead.until("the model is free", || turns(&model).len() == 3);
    let output = "\"output\":\"over\"";
    let before = messages(&model);
    assert!(
        before.contains("0/1 done") && !before.contains(output),
        "{before}"
    );
    fs::write(lead.test_env.work().join("go"), "").expect("a file");
    lead.until("the end of the run starts a turn", || {
        turns(&model).len() == 4
    });
    let after = messages(&model);
    assert_eq!(after.matches(output).count(), 1, "{after}");
    // What was fetched is no event as well.
    let inbox: Value = lead
        .test_env
        .json(&["events", "--inbox", "lead", "--types", "*"]);
    assert_eq!(inbox["events"], json!([]));
    let moved = before
        .lines()
        .find(|line| line.contains("started server-side task"));
    let (_, told) = after
        .split_once(SCRIPT_DONE)
        .expect("the first turn is over");
    let reply = told.lines().find(|line| line.contains(output));
    let (moved, reply) = (
        moved.expect("a notice").len(),
        reply.expect("a result").len(),
    );
    let paid = moved + told.trim().len();
    report_metric(
        "Claude Code, the result of a run as a task",
        format!(
            "{paid} bytes, {} more than the reply of {reply} bytes to a call",
            paid - reply
        ),
    );
}

#[test]
fn a_workers_question_is_a_form_of_claude_code() {
    let model = ScriptedModel::start(vec![call("wait_for_event", json!({"timeout_secs": 200}))]);
    let Some(lead) = Lead::start(&model, "follow the script") else {
        return;
    };
    lead.until("the wait is a task", || lead.shown().contains("1 MCP task"));
    let mut ask =
        lead.test_env
            .fugue_command(["--json", "ask", "--to", "person", "may I drop it?"]);
    ask.env("FUGUE_SESSION_ID", "lead")
        .env("FUGUE_AGENT_ID", "w-shell");
    let mut asker = RunningProgram::start(ask);
    lead.until("the form is shown", || {
        lead.shown().contains("may I drop it?")
    });
    lead.test_env
        .fugue(&["send", "claude", "not yet", "--force"])
        .ok();
    lead.until("the answer is in the form", || {
        lead.shown().contains("not yet")
    });
    let is_shown = || lead.shown().contains("may I drop it?");
    let mut pressed: Option<Instant> = None;
    lead.until("the form is sent", || {
        if pressed.is_none_or(|at| at.elapsed() > Duration::from_secs(2)) && is_shown() {
            lead.test_env.press(lead.pane, &["Enter"]);
            pressed = Some(Instant::now());
        }
        !is_shown()
    });
    let said = asker.wait_for_stdout(LIMIT, |said| said.ends_with('\n'));
    let asked: Value = serde_json::from_str(&said).expect("a reply");
    assert_eq!(
        (&asked["answer"], &asked["from"]),
        (&json!("not yet"), &json!("person"))
    );
    assert!(
        !messages(&model).contains("may I drop it?"),
        "the model does not see it"
    );
}

#[test]
fn a_prompt_and_a_pane_are_put_into_a_prompt_of_claude_code() {
    let model = ScriptedModel::start(Vec::new());
    let Some(lead) = Lead::start(&model, "") else {
        return;
    };
    let made: Value = lead.test_env.json(&[
        "new",
        "-n",
        "builder",
        "--",
        "echo the-build-log; sleep 1000",
    ]);
    let pane = made["pane_id"].as_str().expect("an id").to_owned();
    lead.test_env
        .until_printed(pane.parse().expect("an id"), |text| {
            text.contains("the-build-log")
        });
    for (typed, wanted) in [
        (
            "/mcp__fugue__team port it to Go".to_owned(),
            "<command-args>port it to Go</command-args>",
        ),
        (
            format!("why @fugue:fugue://pane/{pane} failed"),
            "the-build-log",
        ),
    ] {
        lead.until("its servers are there", || {
            let shown = lead.shown();
            shown.contains("❯") && !shown.contains("esc to interrupt")
        });
        let before = turns(&model).len();
        lead.test_env.type_line(lead.pane, &typed);
        lead.until("the model is asked", || turns(&model).len() > before);
        let said = messages(&model);
        assert!(said.contains(wanted), "{said}\n{}", lead.shown());
    }
}
