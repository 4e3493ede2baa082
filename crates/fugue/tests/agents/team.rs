//! A plain MCP client as lead, with workers that are real agents and a scripted model.

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use fugue_testkit::{
    MissingRequirement, ProcessWaiter, TestEnv,
    mcp_client::McpClient,
    scripted_model::{self, ModelAction, SCRIPT_DONE, ScriptedModel},
    skip,
    test_agents::{AgentHome, ExternalTools, TestAgent},
    until,
};
use serde_json::{Value, json};

pub const FUGUE: &str = env!("CARGO_BIN_EXE_fugue");
pub const LIMIT: Duration = Duration::from_secs(300);
pub const WAIT_TIMEOUT: Duration = Duration::from_secs(60);

/// An agent in the version that is pinned, or in an older one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AgentRelease {
    Pinned(TestAgent),
    OlderClaude,
}

impl AgentRelease {
    pub fn agent(self) -> TestAgent {
        match self {
            Self::Pinned(agent) => agent,
            Self::OlderClaude => TestAgent::Claude,
        }
    }
}

/// A lead, and all that its workers need.
pub struct Team {
    pub lead: McpClient,
    pub agent: TestAgent,
    pub test_env: TestEnv,
    pub home: AgentHome,
    pub model: ScriptedModel,
}

/// A worker as its lead knows it.
pub struct Worker {
    pub id: String,
    pub pane: String,
}

impl Team {
    /// A lead in a repository with one commit; `None` where the agents are not installed.
    pub fn gather(agent: TestAgent, script: Vec<ModelAction>) -> Option<Self> {
        Self::of_release(AgentRelease::Pinned(agent), script)
    }

    /// The same with a release of the agent.
    pub fn of_release(release: AgentRelease, script: Vec<ModelAction>) -> Option<Self> {
        let agent = release.agent();
        let model = ScriptedModel::start(script);
        let mut test_env = TestEnv::new(FUGUE, LIMIT);
        let tools = ExternalTools::find_beside(Path::new(FUGUE));
        if let Some((missing, reason)) = agent.missing_requirement(&tools) {
            skip(missing, reason);
            return None;
        }
        let Some(home) = AgentHome::settle(&tools, &mut test_env, &model) else {
            skip(
                MissingRequirement::Program,
                "not all agents are installed (scripts/mcp-tools)",
            );
            return None;
        };
        if release == AgentRelease::OlderClaude
            && !AgentHome::prefer_older_claude(&tools, &mut test_env)
        {
            let reason = "Claude Code 2.1.197 is not installed (scripts/mcp-tools --agents)";
            skip(MissingRequirement::Program, reason);
            return None;
        }
        for args in [
            &["init", "-q"][..],
            &[
                "-c",
                "user.name=t",
                "-c",
                "user.email=t@t",
                "commit",
                "-q",
                "--allow-empty",
                "-m",
                "first",
            ],
        ] {
            test_env.run("git", args).ok();
        }
        let mut lead = McpClient::start(test_env.fugue_command(["mcp"]));
        lead.initialize("2025-11-25", "test");
        Some(Self {
            lead,
            agent,
            test_env,
            home,
            model,
        })
    }

    pub fn spawn(&mut self, prompt: &str) -> Worker {
        self.spawn_with(json!({"name": "w", "prompt": prompt}))
    }

    pub fn spawn_with(&mut self, mut args: Value) -> Worker {
        args["agent"] = json!(name(self.agent));
        let made = self.lead.call("spawn_worker", args);
        let text = |field: &str| made[field].as_str().expect("a text").to_owned();
        Worker {
            id: text("worker_id"),
            pane: text("pane_id"),
        }
    }

    /// The next event of these types.
    #[track_caller]
    pub fn event(&mut self, types: &[&str]) -> Value {
        let args = json!({"types": types, "timeout_secs": 45});
        self.lead.call("wait_for_event", args)
    }

    /// The next completion, which must be a turn's end in the agent's own words.
    #[track_caller]
    pub fn turn_ends(&mut self, worker: &Worker, turn: u32) -> Value {
        let event = self.event(&["worker_complete"]);
        assert_eq!(
            event["type"],
            "worker_complete",
            "{event}\n{}",
            self.shown(worker)
        );
        let told = json!([
            event["worker_id"],
            event["turn"],
            event["status"],
            event["message"],
            event["synthesized"]
        ]);
        let wanted = json!([worker.id, turn, "success", SCRIPT_DONE, null]);
        assert_eq!(told, wanted, "{event}\n{}", self.shown(worker));
        event
    }

    /// The question of a worker that wants to run a command, as its lead hears of it.
    #[track_caller]
    pub fn asks(&mut self, worker: &Worker, command: &str) {
        let event = self.event(&["worker_needs_input", "worker_complete"]);
        let told = json!([event["type"], event["worker_id"], event["by"]]);
        let wanted = json!(["worker_needs_input", worker.id, "hook"]);
        assert_eq!(told, wanted, "{event}\n{}", self.shown(worker));
        let prompt = event["prompt"].as_str().expect("a prompt");
        assert!(prompt.ends_with(&format!(": {command}")), "{prompt}");
        let status = self.status(worker);
        let told = json!([
            status["state"],
            status["by"],
            status["prompt"],
            status["worker"]["state"]
        ]);
        assert_eq!(
            told,
            json!(["needs_input", "hook", prompt, "needs_input"]),
            "{status}"
        );
    }

    /// Presses a key until no question is shown. The hook is called before the question can be answered, and Codex takes
    /// no key in its first moments, lest a person who types answers it unseen.
    #[track_caller]
    pub fn answer(&mut self, worker: &Worker, key: &str) {
        let mut pressed: Option<Instant> = None;
        until("the question is answered", WAIT_TIMEOUT, || {
            let asks = self.shown(worker).contains(" 1. ");
            let again = pressed.is_none_or(|at| at.elapsed() > Duration::from_secs(2));
            if asks && again {
                let keys = json!({"pane_id": worker.pane, "keys": [key]});
                self.lead.call("send_input", keys);
                pressed = Some(Instant::now());
            }
            pressed.is_some() && !asks
        });
    }

    /// Has a message typed and gives what the sender was told of it.
    #[track_caller]
    pub fn tell(&mut self, worker: &Worker, body: &str) -> Value {
        let args = json!({"to": worker.id, "body": body, "deliver": "type"});
        self.lead.call("send_message", args)["delivered"].take()
    }

    /// The same for a worker at rest.
    #[track_caller]
    pub fn submit(&mut self, worker: &Worker, body: &str) {
        let delivered = self.tell(worker, body);
        assert_eq!(delivered, "submitted", "{}", self.shown(worker));
    }

    pub fn status(&mut self, worker: &Worker) -> Value {
        self.lead
            .call("get_status", json!({"pane_id": worker.pane}))
    }

    pub fn shown(&mut self, worker: &Worker) -> String {
        let args = json!({"pane_id": worker.pane, "mode": "screen"});
        let screen = self.lead.call("read_pane", args);
        screen["text"].as_str().expect("a text").to_owned()
    }

    /// Whether the model was given this, whole.
    pub fn is_told(&self, text: &str) -> bool {
        let asked = self.model.requests();
        asked
            .iter()
            .any(|asked| scripted_model::told(&asked.body, text))
    }

    #[track_caller]
    pub fn until_told(&self, text: &str) {
        until("the model is told", WAIT_TIMEOUT, || self.is_told(text));
    }

    pub fn kill_daemon(&self) {
        let daemons = self.test_env.daemons();
        assert_eq!(daemons.len(), 1, "{daemons:?}");
        let ended = ProcessWaiter::of(daemons[0].pid).expect("it runs");
        daemons[0].kill9();
        ended.wait(WAIT_TIMEOUT);
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.test_env.work().join(name)
    }
}

pub fn name(agent: TestAgent) -> &'static str {
    match agent {
        TestAgent::Claude => "claude",
        TestAgent::Codex => "codex",
        TestAgent::Gemini => "gemini",
        TestAgent::Qwen => "qwen",
    }
}
