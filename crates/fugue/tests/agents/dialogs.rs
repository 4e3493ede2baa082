//! Dialogs of agents that a person started by hand, in a pane or in their own tmux: no watcher, message, pipeline or text
//! with Enter answers one; only keys do.

use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};

use fugue_testkit::{
    MissingRequirement, TestEnv,
    mcp_client::McpClient,
    report_metric,
    scripted_model::{ModelAction, ScriptedModel},
    skip,
    test_agents::{AgentHome, AgentStart, ExternalTools, TestAgent},
    until,
};
use serde_json::{Value, json};

const FUGUE: &str = env!("CARGO_BIN_EXE_fugue");
const WAIT_TIMEOUT: Duration = Duration::from_secs(60);

/// How often each agent's dialog is tried: once, or as often as `FUGUE_TRIES` demands.
fn tries() -> usize {
    let said = std::env::var("FUGUE_TRIES").ok();
    said.and_then(|number| number.parse().ok()).unwrap_or(1)
}

fn limit() -> Duration {
    Duration::from_secs(180 + 60 * tries() as u64)
}

/// Where a person starts their agent.
#[derive(Clone, Copy)]
enum AgentLocation {
    Pane,
    Tmux,
}

/// An agent that shows a permission dialog for each prompt, and a client that tries to make it create the file.
struct DialogCase {
    client: McpClient,
    target: String,
    agent: TestAgent,
    world: TestEnv,
    _home: AgentHome,
    _model: ScriptedModel,
}

impl DialogCase {
    /// `None` where the agents are not installed. Animations are off, so that a dialog stands still.
    fn open(agent: TestAgent, place: AgentLocation, files: &[String]) -> Option<Self> {
        let call = |file: &String| vec![agent.shell_call(&format!("touch {file}"))];
        let model = ScriptedModel::with_turns(files.iter().map(call).collect());
        let mut world = TestEnv::new(FUGUE, limit());
        let home = settle(agent, &mut world, &model)?;
        let line = match agent {
            TestAgent::Claude => "claude 'make a file'",
            TestAgent::Codex => "codex --no-daemon 'make a file'",
            TestAgent::Gemini => "gemini -i 'make a file'",
            TestAgent::Qwen => "qwen -i 'make a file'",
        };
        let target = match place {
            AgentLocation::Pane => {
                let pane = world.shell("bash").pane_id;
                world.type_line(pane, line);
                pane.to_string()
            }
            AgentLocation::Tmux => {
                let shell = format!("{line}; exec bash --norc --noprofile");
                let start = ["-f", "/dev/null", "new-session", "-d", "-P", "-F"];
                let size = ["#{pane_id}", "-s", "own", "-x", "120", "-y", "40", &shell];
                world.tmux(&[&start[..], &size[..]].concat())
            }
        };
        let mut command = world.fugue_command(["mcp", "--session", "lead"]);
        let says = json!({"action": "continue", "injection_prompt": "please go on"});
        command
            .env(
                "ASSESS_MODEL",
                format!("cmd:echo asked >> asks; echo '{says}'"),
            )
            .env("DEFAULT_WAIT_SEC", "0.01")
            .env("IDLE_THRESHOLD", "0.5");
        let mut client = McpClient::start(command);
        client.initialize("2025-11-25", "test");
        let mut case = Self {
            client,
            target,
            agent,
            world,
            _home: home,
            _model: model,
        };
        // A window of tmux is known to fugue from here on.
        let watching = case.watch();
        case.target = watching["pane_id"].as_str().expect("its id").to_owned();
        Some(case)
    }

    fn watch(&mut self) -> Value {
        let args = json!({"tmux_window": self.target, "strategy_plan": "reach the end"});
        self.client.call("watch_me", args)
    }

    fn shown(&mut self) -> String {
        let args = json!({"pane_id": self.target, "mode": "screen"});
        let screen = self.client.call("read_pane", args);
        screen["text"].as_str().expect("a text").to_owned()
    }

    fn asks(&mut self) -> bool {
        let question = match self.agent {
            TestAgent::Claude => "Do you want to proceed?",
            TestAgent::Codex => "Would you like to run the following command?",
            TestAgent::Gemini | TestAgent::Qwen => "Allow execution of",
        };
        self.shown().contains(question)
    }

    /// Waits until the whole dialog is shown and the screen has not changed for a second.
    #[track_caller]
    fn await_dialog(&mut self) {
        let mut last = (String::new(), Instant::now());
        until("it asks", WAIT_TIMEOUT, || {
            let shown = self.shown();
            if shown != last.0 {
                last = (shown, Instant::now());
            }
            last.1.elapsed() > Duration::from_secs(1) && self.asks()
        });
    }

    fn made(&self, file: &str) -> bool {
        self.world.work().join(file).exists()
    }

    #[track_caller]
    fn untouched(&mut self, file: &str, by: &str) {
        assert!(!self.made(file), "{by} answered the dialog");
        assert!(self.asks(), "{by}: {}", self.shown());
    }

    #[track_caller]
    fn refused(&mut self, tool: &str, args: Value) -> String {
        format!("{:?}", self.client.refused(tool, args))
    }

    /// Tries everything that must not answer the dialog: a watcher, a pipeline, text with Enter.
    #[track_caller]
    fn is_left_alone(&mut self, file: &str) {
        let pane = self.target.clone();
        let args = json!({"tmux_window": pane, "status_report": "a part is done"});
        self.client.call("look_ma", args);
        let args = json!({"types": ["watcher"], "timeout_secs": 30});
        let event = self.client.call("wait_for_event", args);
        assert_eq!(event["decision"], "paused", "{event}\n{}", self.shown());
        let reason = event["reason"].as_str().expect("a reason");
        assert!(
            reason.contains("shows a dialog") && reason.contains(file),
            "{reason}"
        );
        self.untouched(file, "a watcher");
        let args = json!({"commands": [{"command": "echo hi"}], "pane_id": pane});
        self.refused("fugue_run_pipeline", args);
        self.untouched(file, "a pipeline");
        for args in [
            json!({"pane_id": pane, "input": "please go on", "submit": true}),
            json!({"pane_id": pane, "input": "y\n"}),
            json!({"pane_id": pane, "submit": true}),
        ] {
            let error = self.refused("send_input", args);
            let says = error.contains("shows a dialog") && error.contains("keys");
            assert!(says && error.contains(file), "{error}");
            self.untouched(file, "an input with Enter");
        }
    }

    /// Answers the dialog with a key. Codex ignores keys in the first moments of a dialog, so the key is repeated.
    #[track_caller]
    fn answer(&mut self, file: &str) {
        let mut pressed: Option<Instant> = None;
        until("the command runs", WAIT_TIMEOUT, || {
            let again = pressed.is_none_or(|at| at.elapsed() > Duration::from_secs(2));
            if again && self.asks() {
                let keys = json!({"pane_id": self.target, "keys": ["Enter"]});
                self.client.call("send_input", keys);
                pressed = Some(Instant::now());
            }
            self.made(file)
        });
    }

    /// Types the next prompt once the input box is empty again.
    #[track_caller]
    fn prompt_again(&mut self) {
        let mut sent = false;
        until("it takes a prompt", WAIT_TIMEOUT, || {
            if !sent && !self.asks() {
                let prompt = json!({"pane_id": self.target, "input": "one more", "submit": true});
                let reply = self.client.call("send_input", prompt);
                sent = reply["submitted"] == "yes";
            }
            sent
        });
    }
}

fn settle(agent: TestAgent, world: &mut TestEnv, model: &ScriptedModel) -> Option<AgentHome> {
    let tools = ExternalTools::find_beside(Path::new(FUGUE));
    if let Some((missing, reason)) = agent.missing_requirement(&tools, AgentStart::Headless) {
        skip(missing, reason);
        return None;
    }
    let home = AgentHome::settle(&tools, world, model);
    let Some(home) = home else {
        let reason = "not all agents are installed (scripts/mcp-tools)";
        skip(MissingRequirement::Program, reason);
        return None;
    };
    disable_animations(home.dir());
    Some(home)
}

/// Switches off animations, which would keep the screen changing.
fn disable_animations(home: &Path) {
    let claude = home.join(".claude/settings.json");
    let text = fs::read_to_string(&claude).expect("Claude's settings");
    let mut settings: Value = serde_json::from_str(&text).expect("JSON");
    settings["prefersReducedMotion"] = json!(true);
    fs::write(&claude, settings.to_string()).expect("Claude's settings");
    let codex = home.join(".codex/config.toml");
    let config = fs::read_to_string(&codex).expect("Codex's settings");
    fs::write(&codex, format!("{config}[tui]\nanimations = false\n")).expect("Codex's settings");
}

fn dialog_is_left_alone(agent: TestAgent, place: AgentLocation) {
    let files: Vec<String> = (1..=tries()).map(|n| format!("made-{n}.txt")).collect();
    let Some(mut case) = DialogCase::open(agent, place, &files) else {
        return;
    };
    for (number, file) in files.iter().enumerate() {
        if number > 0 {
            case.prompt_again();
            case.watch();
        }
        case.await_dialog();
        case.is_left_alone(file);
        case.answer(file);
    }
    let asks = fs::read_to_string(case.world.work().join("asks")).unwrap_or_default();
    assert_eq!(asks, "", "no model is asked about a dialog");
    let place = match place {
        AgentLocation::Pane => "a pane",
        AgentLocation::Tmux => "tmux",
    };
    let figures = format!("{} tries, none answered by text and Enter", files.len());
    report_metric(&format!("dialogs of {agent:?} in {place}"), figures);
    // Before the home, where its daemon's files are.
    let DialogCase { client, world, .. } = case;
    drop((client, world));
}

#[test]
fn a_dialog_of_claude_code_in_a_pane_is_left_alone() {
    dialog_is_left_alone(TestAgent::Claude, AgentLocation::Pane);
}

#[test]
fn a_dialog_of_codex_in_a_pane_is_left_alone() {
    dialog_is_left_alone(TestAgent::Codex, AgentLocation::Pane);
}

#[test]
fn a_dialog_of_gemini_cli_in_a_pane_is_left_alone() {
    dialog_is_left_alone(TestAgent::Gemini, AgentLocation::Pane);
}

#[test]
fn a_dialog_of_claude_code_in_tmux_is_left_alone() {
    dialog_is_left_alone(TestAgent::Claude, AgentLocation::Tmux);
}

#[test]
fn a_dialog_of_codex_in_tmux_is_left_alone() {
    dialog_is_left_alone(TestAgent::Codex, AgentLocation::Tmux);
}

#[test]
fn a_dialog_of_gemini_cli_in_tmux_is_left_alone() {
    dialog_is_left_alone(TestAgent::Gemini, AgentLocation::Tmux);
}

#[test]
fn a_message_to_a_template_worker_at_its_dialog_stays_queued() {
    let script: Vec<ModelAction> = vec![TestAgent::Claude.shell_call("touch made.txt")];
    let model = ScriptedModel::start(script);
    let mut world = TestEnv::new(FUGUE, limit());
    let Some(_home) = settle(TestAgent::Claude, &mut world, &model) else {
        return;
    };
    world.configure(
        "idle_threshold_secs = 0.5\n[agents.mine]\ncommand = [\"claude\", \"{prompt}\"]\n",
    );
    let mut lead = McpClient::start(world.fugue_command(["mcp"]));
    lead.initialize("2025-11-25", "test");
    let args = json!({"name": "w", "agent": "mine", "prompt": "make a file"});
    let worker = lead.call("spawn_worker", args);
    let screen = json!({"pane_id": worker["pane_id"], "mode": "screen"});
    until("it asks", WAIT_TIMEOUT, || {
        let shown = lead.call("read_pane", screen.clone());
        shown["text"]
            .to_string()
            .contains("Do you want to proceed?")
    });
    let args = json!({"to": worker["worker_id"], "body": "please go on", "deliver": "type"});
    let mut sent = Value::Null;
    // Of a dialog that has just come up it is said that the pane is busy.
    until("the reason is told", WAIT_TIMEOUT, || {
        sent = lead.call("send_message", args.clone());
        sent["reason"].is_string()
    });
    assert_eq!(sent["delivered"], "queued", "{sent}");
    let reason = sent["reason"].as_str().unwrap_or_default();
    assert!(reason.contains("Do you want to proceed?"), "{reason}");
    assert!(!world.work().join("made.txt").exists());
    let keys = json!({"pane_id": worker["pane_id"], "keys": ["Enter"]});
    lead.call("send_input", keys);
    until("the command runs", WAIT_TIMEOUT, || {
        world.work().join("made.txt").exists()
    });
    drop((lead, world));
}
