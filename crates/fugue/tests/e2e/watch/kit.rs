//! A session that watches a bash, and a model that decides by a script.

use std::{
    fs,
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use fugue_api::{
    PaneId,
    overview::{WatcherRow, WatcherState},
};
use fugue_testkit::{
    ProcessWaiter, TestEnv,
    assessor_server::{AssessorReply, AssessorServer},
    mcp_client::McpClient,
    until_some,
};
use serde_json::{Value, json};

pub const FUGUE: &str = env!("CARGO_BIN_EXE_fugue");
pub const LIMIT: Duration = Duration::from_secs(180);
pub const WAIT_TIMEOUT: Duration = Duration::from_secs(60);
/// What a model types: told apart from its echo by what it prints.
pub const NEXT: &str = "echo $((6*7))-next";

pub fn test_env() -> TestEnv {
    TestEnv::new(FUGUE, LIMIT)
}

/// A model that decides by a script.
pub fn model(script: &[AssessorReply]) -> AssessorServer {
    AssessorServer::start(script.to_vec())
}

pub fn go_on(line: &str) -> AssessorReply {
    AssessorReply::Text(json!({"action": "continue", "injection_prompt": line}).to_string())
}

pub fn stop() -> AssessorReply {
    AssessorReply::Text(json!({"action": "stop", "injection_prompt": null}).to_string())
}

pub fn next_step(line: &str) -> AssessorReply {
    AssessorReply::Text(json!({"injection_prompt": line, "achieved": false}).to_string())
}

/// A session that watches a bash.
pub struct Watch<'a> {
    pub test_env: &'a TestEnv,
    pub client: McpClient,
    pub pane: PaneId,
}

impl<'a> Watch<'a> {
    /// Watches a new bash with this plan. Small times, and the variables on top.
    #[track_caller]
    pub fn begin(
        test_env: &'a TestEnv,
        model: &AssessorServer,
        vars: &[(&str, &str)],
        more: Value,
    ) -> Self {
        let pane = test_env.shell("bash").pane_id;
        Self::of(test_env, pane, model, vars, more)
    }

    #[track_caller]
    pub fn of(
        test_env: &'a TestEnv,
        pane: PaneId,
        model: &AssessorServer,
        vars: &[(&str, &str)],
        more: Value,
    ) -> Self {
        let mut client = client(test_env, model, vars);
        let mut args = json!({"tmux_window": pane.to_string(), "strategy_plan": "reach the end"});
        merge(&mut args, more);
        let watching = client.call("watch_me", args);
        assert_eq!(watching["mode"], "watching", "{watching}");
        Self {
            test_env,
            client,
            pane,
        }
    }

    pub fn args(&self, more: Value) -> Value {
        let mut args = json!({"tmux_window": self.pane.to_string()});
        merge(&mut args, more);
        args
    }

    #[track_caller]
    pub fn report(&mut self, more: Value) {
        let mut args = self.args(json!({"status_report": "a part is done"}));
        merge(&mut args, more);
        let recorded = self.client.call("look_ma", args);
        assert_eq!(recorded, json!({"status": "recorded+waiting"}));
    }

    pub fn row(&self) -> WatcherRow {
        self.test_env
            .status(self.pane)
            .watcher
            .expect("it is watched")
    }

    #[track_caller]
    pub fn until(&self, state: WatcherState) -> WatcherRow {
        until_some(&format!("it is {state:?}"), WAIT_TIMEOUT, || {
            let row = self.row();
            (row.state == state).then_some(row)
        })
    }

    /// The next thing that it tells its session.
    #[track_caller]
    pub fn told(&mut self, decision: &str) -> Value {
        let args = json!({"types": ["watcher"], "timeout_secs": 30});
        let event = self.client.call("wait_for_event", args);
        assert_eq!(event["decision"], decision, "{event}");
        assert_eq!(event["pane_id"], self.pane.to_string(), "{event}");
        event
    }

    /// The reason why it is paused, as everybody hears it.
    #[track_caller]
    pub fn paused(&mut self) -> String {
        let event = self.told("paused");
        let reason = event["reason"].as_str().expect("a reason").to_owned();
        let row = self.row();
        assert_eq!(row.state, WatcherState::Paused, "{row:?}");
        assert_eq!(row.reason.as_ref(), Some(&reason));
        reason
    }

    /// How often the model's line was typed and run. Whatever is typed before this line is run before it.
    #[track_caller]
    pub fn typed(&self) -> usize {
        self.test_env.type_line(self.pane, "echo $((1+1))-looked");
        let text = self
            .test_env
            .until_printed(self.pane, |text| text.contains("2-looked"));
        let (typed, ran) = (text.matches(NEXT).count(), text.matches("42-next").count());
        assert_eq!(typed, ran, "what is typed is run: {text}");
        typed
    }

    pub fn file(&self, name: &str) -> String {
        fs::read_to_string(self.test_env.work().join(name)).unwrap_or_default()
    }

    /// The process that wrote its number to this file.
    pub fn process(&self, file: &str) -> ProcessWaiter {
        let pid = until_some("it has started", WAIT_TIMEOUT, || {
            self.file(file).trim().parse().ok()
        });
        ProcessWaiter::of(pid).expect("it runs")
    }
}

pub fn client(test_env: &TestEnv, model: &AssessorServer, vars: &[(&str, &str)]) -> McpClient {
    let mut command = test_env.fugue_command(["mcp"]);
    command
        .env("OPENAI_BASE_URL", format!("{}/v1", model.url()))
        .env("OPENAI_API_KEY", "sk-not-a-key")
        .env("DEFAULT_WAIT_SEC", "0.01")
        .env("IDLE_THRESHOLD", "0.1")
        .envs(vars.iter().copied());
    // An inbox of one's own, unless a worker has one by who it is.
    if !vars.iter().any(|(name, _)| *name == "FUGUE_AGENT_ID") {
        static SESSIONS: AtomicU32 = AtomicU32::new(1);
        let session = format!("s{}", SESSIONS.fetch_add(1, Ordering::Relaxed));
        command.env("FUGUE_SESSION", session);
    }
    let mut client = McpClient::start(command);
    client.initialize("2025-11-25", "test");
    client
}

pub fn merge(to: &mut Value, more: Value) {
    let (Some(to), Value::Object(more)) = (to.as_object_mut(), more) else {
        return;
    };
    to.extend(more);
}

/// What a model was asked, in its own words.
pub fn question(model: &AssessorServer, number: usize) -> String {
    let body = &model.requests()[number].body;
    let messages = body["messages"].as_array().expect("messages");
    let texts = messages.iter().map(|message| &message["content"]);
    texts
        .map(|text| text.as_str().expect("a text"))
        .collect::<Vec<_>>()
        .join("\n")
}

/// What a question quotes under this heading.
pub fn quoted(question: &str, block: &str) -> String {
    let begin = format!("BEGIN {block} ");
    let rest = &question[question.find(&begin).expect("the block")..];
    let code = rest[begin.len()..].lines().next().unwrap_or_default();
    let end = rest.find(&format!("END {code}")).expect("its end");
    rest[..end].to_owned()
}

/// The roles of a question's transcript, oldest first.
pub fn roles(question: &str) -> Vec<String> {
    let transcript = quoted(question, "transcript");
    let mut roles: Vec<String> = transcript
        .lines()
        .filter_map(|line| line.strip_prefix("| [-")?.split_once(' '))
        .map(|(_, rest)| rest.split(']').next().unwrap_or_default().to_owned())
        .collect();
    roles.reverse();
    roles
}
