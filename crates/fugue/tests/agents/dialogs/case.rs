//! One agent at one screen, and everything that must not answer it.

use std::{
    fmt::{self, Display},
    fs,
    path::Path,
    time::{Duration, Instant},
};

use fugue_testkit::{
    MissingRequirement, TestEnv, TestPty,
    mcp_client::McpClient,
    scripted_model::ScriptedModel,
    skip,
    test_agents::{AgentHome, AgentStart, ExternalTools},
    until,
};
use serde_json::{Value, json};

use super::{
    FUGUE, WAIT_TIMEOUT, limit,
    screens::{AgentRelease, DRAFT, WaitingScreen},
    tries,
};

const WORKER_PROMPT: &str = "make a file";

/// Where an agent runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AgentLocation {
    /// In a pane, started by hand.
    Pane,
    /// In the person's own tmux, started by hand.
    Tmux,
    /// A worker of a built-in agent.
    Worker,
    /// The same in a pane that fugue created in tmux.
    WorkerInTmux,
    /// A worker of a template in `config.toml`.
    TemplateWorker,
}

impl AgentLocation {
    pub fn place_name(self) -> &'static str {
        match self {
            Self::Pane => "in a pane",
            Self::Tmux => "in tmux",
            Self::Worker => "as a worker",
            Self::WorkerInTmux => "as a worker in tmux",
            Self::TemplateWorker => "as a template's worker",
        }
    }
}

/// Who types.
enum Typist {
    /// A person at `fugue attach`.
    Attached(TestPty),
    /// A person at the tmux pane with this id.
    InTmux(String),
    /// The worker's lead, with `send_input`.
    Lead,
}

impl Typist {
    fn attach(test_env: &TestEnv, target: &str) -> Self {
        let mut command = test_env.command("setsid");
        command.args(["-c", FUGUE, "attach", target]);
        let pty = TestPty::start(command, 42, 122);
        pty.discard_output();
        Self::Attached(pty)
    }
}

/// What was tried on a screen and left it as it was.
#[derive(Clone, Copy, Debug, Default)]
pub struct Attempts {
    pub watcher: u32,
    pub message: u32,
    pub submit: u32,
    pub pipeline: u32,
}

impl Display for Attempts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} watcher, {} message, {} submit, {} pipeline",
            self.watcher, self.message, self.submit, self.pipeline
        )
    }
}

/// An agent at a screen, and a client that tries to get past it. Fields are dropped in this order: the daemon's files are in
/// the home.
pub struct DialogCase {
    typist: Typist,
    client: McpClient,
    test_env: TestEnv,
    _home: AgentHome,
    model: ScriptedModel,
    agent: AgentRelease,
    screen: WaitingScreen,
    location: AgentLocation,
    pane: String,
    worker: Option<String>,
    /// The lines from the mark on, when the screen stood still.
    dialog: String,
    attempts: Attempts,
}

impl DialogCase {
    /// `None` where the agents are not installed. Animations are off, so that a screen stands still.
    pub fn open(
        agent: AgentRelease,
        screen: WaitingScreen,
        location: AgentLocation,
    ) -> Option<Self> {
        let calls: Vec<_> = match screen {
            WaitingScreen::Permission => (0..tries()).map(made_file).collect(),
            WaitingScreen::Trust
            | WaitingScreen::Login
            | WaitingScreen::LoginCode
            | WaitingScreen::ModelPicker
            | WaitingScreen::Draft => Vec::new(),
        };
        let call = |file: &String| vec![agent.agent().shell_call(&format!("touch {file}"))];
        let model = ScriptedModel::with_turns(calls.iter().map(call).collect());
        let mut test_env = TestEnv::new(FUGUE, limit());
        let home = settle(agent, screen, location, &mut test_env, &model)?;
        test_env.configure(
            "idle_threshold_secs = 0.5\ndraft_wait_secs = 0.2\n\
             [agents.mine]\ncommand = [\"claude\", \"{prompt}\"]\n",
        );
        let mut client = start_client(&test_env, screen);
        let dir = match screen {
            WaitingScreen::Trust => {
                let dir = home.dir().join("elsewhere");
                // Codex shows no dialog for a folder without a repository.
                test_env
                    .run("git", &["init", "-q", &dir.to_string_lossy()])
                    .ok();
                dir
            }
            WaitingScreen::Permission
            | WaitingScreen::Login
            | WaitingScreen::LoginCode
            | WaitingScreen::ModelPicker
            | WaitingScreen::Draft => test_env.work(),
        };
        let prompt = (screen == WaitingScreen::Permission).then_some("make a file");
        let line = format!("cd {} && {}", dir.display(), agent.command_line(prompt));
        let mut worker = None;
        let (typist, pane) = match location {
            AgentLocation::Pane => {
                let pane = test_env.shell("bash").pane_id;
                let typist = Typist::attach(&test_env, "main");
                test_env.type_line(pane, &line);
                (typist, pane.to_string())
            }
            AgentLocation::Tmux => {
                let shell = format!("{line}; exec bash --norc --noprofile");
                let start = ["-f", "/dev/null", "new-session", "-d", "-P", "-F"];
                let size = ["#{pane_id}", "-s", "own", "-x", "120", "-y", "40", &shell];
                let pane = test_env.tmux(&[&start[..], &size[..]].concat());
                (Typist::InTmux(pane.clone()), pane)
            }
            AgentLocation::Worker | AgentLocation::WorkerInTmux | AgentLocation::TemplateWorker => {
                let name = match location {
                    AgentLocation::TemplateWorker => "mine",
                    AgentLocation::Worker
                    | AgentLocation::WorkerInTmux
                    | AgentLocation::Pane
                    | AgentLocation::Tmux => agent.worker_agent(),
                };
                let in_tmux = location == AgentLocation::WorkerInTmux;
                let backend = if in_tmux { "tmux" } else { "native" };
                let args = json!({
                    "name": "w",
                    "agent": name,
                    "prompt": WORKER_PROMPT,
                    "cwd": dir,
                    "backend": backend,
                });
                let spawned = client.call("spawn_worker", args);
                let text = |field: &str| spawned[field].as_str().expect("a text").to_owned();
                worker = Some(text("worker_id"));
                let pane = text("pane_id");
                let typist = if in_tmux {
                    // The only pane of this tmux server.
                    Typist::InTmux(test_env.tmux(&["list-panes", "-a", "-F", "#{pane_id}"]))
                } else if screen == WaitingScreen::Draft {
                    Typist::attach(&test_env, &pane)
                } else {
                    Typist::Lead
                };
                (typist, pane)
            }
        };
        let mut case = Self {
            typist,
            client,
            test_env,
            _home: home,
            model,
            agent,
            screen,
            location,
            pane,
            worker,
            dialog: String::new(),
            attempts: Attempts::default(),
        };
        // A window of tmux gets its id here.
        case.pane = case.watch()["pane_id"].as_str().expect("its id").to_owned();
        Some(case)
    }

    fn watch(&mut self) -> Value {
        let args = json!({"tmux_window": self.pane, "strategy_plan": "reach the end"});
        self.client.call("watch_me", args)
    }

    fn mark(&self) -> &'static str {
        self.screen.mark(self.agent.agent())
    }

    fn shown(&mut self) -> String {
        let args = json!({"pane_id": self.pane, "mode": "screen"});
        let screen = self.client.call("read_pane", args);
        screen["text"].as_str().expect("a text").to_owned()
    }

    /// The lines from the last mark on; of a draft, its line. Empty without a mark.
    fn shown_dialog(&mut self) -> String {
        let (shown, mark) = (self.shown(), self.mark());
        let lines: Vec<&str> = shown.lines().map(str::trim_end).collect();
        let Some(first) = lines.iter().rposition(|line| line.contains(mark)) else {
            return String::new();
        };
        match self.screen {
            WaitingScreen::Draft => lines[first].to_owned(),
            WaitingScreen::Permission
            | WaitingScreen::Trust
            | WaitingScreen::Login
            | WaitingScreen::LoginCode
            | WaitingScreen::ModelPicker => lines[first..].join("\n"),
        }
    }

    /// Waits until a text is shown and the screen has not changed for a second.
    #[track_caller]
    fn await_still(&mut self, text: &str) {
        let mut last = (String::new(), Instant::now());
        let deadline = Instant::now() + WAIT_TIMEOUT;
        loop {
            let shown = self.shown();
            if shown != last.0 {
                last = (shown, Instant::now());
            }
            if last.1.elapsed() > Duration::from_secs(1) && last.0.contains(text) {
                return;
            }
            assert!(
                Instant::now() < deadline,
                "{text:?} is not shown:\n{}",
                last.0
            );
        }
    }

    fn press_down(&mut self) {
        match &self.typist {
            Typist::Attached(pty) => pty.write(b"\x1b[B"),
            Typist::InTmux(pane) => {
                self.test_env.tmux(&["send-keys", "-t", pane, "Down"]);
            }
            Typist::Lead => {
                let keys = json!({"pane_id": self.pane, "keys": ["Down"]});
                self.client.call("send_input", keys);
            }
        }
    }

    fn type_text(&mut self, text: &str) {
        match &self.typist {
            Typist::Attached(pty) => pty.write(text.as_bytes()),
            Typist::InTmux(pane) => {
                self.test_env.tmux(&["send-keys", "-t", pane, "-l", text]);
            }
            Typist::Lead => {
                let args = match text {
                    "\r" => json!({"pane_id": self.pane, "keys": ["Enter"]}),
                    text => json!({"pane_id": self.pane, "input": text}),
                };
                self.client.call("send_input", args);
            }
        }
    }

    /// Brings the agent to the screen, and waits until it stands still.
    #[track_caller]
    pub fn bring_up(&mut self, number: usize) {
        let agent = self.agent.agent();
        if self.screen == WaitingScreen::Permission {
            // The message of the last round is a worker's next prompt.
            if number > 0 && self.worker.is_none() {
                self.prompt_again();
            }
        } else if number == 0 && self.screen == WaitingScreen::LoginCode {
            self.await_still(WaitingScreen::Login.mark(agent));
            self.type_text("\r");
        } else if (number == 0 || self.screen == WaitingScreen::ModelPicker)
            && let Some(text) = self.screen.typed_text(agent)
        {
            // Gemini CLI shows its input box before it takes a worker's prompt.
            if self.worker.is_some() {
                until("it has its prompt", WAIT_TIMEOUT, || {
                    self.is_told(WORKER_PROMPT)
                });
            }
            self.await_still(self.agent.input_box_mark());
            self.type_text(text);
            if self.screen != WaitingScreen::Draft {
                self.await_still(text);
                self.type_text("\r");
            }
        }
        self.await_still(self.mark());
        self.dialog = self.shown_dialog();
    }

    /// Types the next prompt once the turn is over. Qwen Code adds a prompt that comes earlier to the running turn.
    #[track_caller]
    fn prompt_again(&mut self) {
        self.await_still(self.agent.input_box_mark());
        let mut sent = false;
        until("it takes a prompt", WAIT_TIMEOUT, || {
            if !sent && self.shown_dialog().is_empty() {
                let prompt = json!({"pane_id": self.pane, "input": "one more", "submit": true});
                let reply = self.client.call("send_input", prompt);
                sent = reply["submitted"] == "yes";
            }
            sent
        });
    }

    fn is_made(&self, number: usize) -> bool {
        self.test_env.work().join(made_file(number)).exists()
    }

    #[track_caller]
    fn check_untouched(&mut self, number: usize, by: &str) {
        let shown = self.shown_dialog();
        assert_eq!(shown, self.dialog, "{by} changed the screen");
        assert!(!self.is_made(number), "{by} answered the dialog");
    }

    /// Checks that a reason names the screen.
    #[track_caller]
    fn check_reason(&mut self, number: usize, reason: &str) {
        // The second is said of a worker, whose question is known.
        let is_dialog = reason.contains("shows a dialog") || reason.contains("waits for a person");
        let named = match self.screen {
            WaitingScreen::Draft => reason.contains("begun a line"),
            WaitingScreen::Permission => is_dialog && reason.contains(&made_file(number)),
            WaitingScreen::Trust
            | WaitingScreen::Login
            | WaitingScreen::LoginCode
            | WaitingScreen::ModelPicker => is_dialog && reason.contains(self.mark()),
        };
        assert!(named, "{reason}\n{}", self.shown());
    }

    /// Tries everything that must not answer the screen, and checks what each says.
    #[track_caller]
    pub fn try_everything(&mut self, number: usize) {
        if let Some(worker) = self.worker.clone() {
            self.try_message(number, &worker);
        }
        self.try_watcher(number);
        self.try_pipeline(number);
        let pane = self.pane.clone();
        for args in [
            json!({"pane_id": pane, "input": "please go on", "submit": true}),
            json!({"pane_id": pane, "input": "y\n"}),
            json!({"pane_id": pane, "submit": true}),
        ] {
            let error = self.client.refused("send_input", args);
            self.check_reason(number, &format!("{error:?}"));
            self.check_untouched(number, "an input with Enter");
            self.attempts.submit += 1;
        }
    }

    #[track_caller]
    fn try_pipeline(&mut self, number: usize) {
        let pane = self.pane.clone();
        let args = json!({"commands": [{"command": "echo hi"}], "pane_id": pane});
        let error = self.client.refused("fugue_run_pipeline", args);
        match self.location {
            AgentLocation::Pane => self.check_reason(number, &error.message),
            // Not a shell that fugue started, whatever it shows.
            AgentLocation::Tmux
            | AgentLocation::Worker
            | AgentLocation::WorkerInTmux
            | AgentLocation::TemplateWorker => {
                let why = format!("`{pane}` is not an interactive bash, zsh or fish of ours");
                assert!(error.message.contains(&why), "{error:?}");
            }
        }
        self.check_untouched(number, "a pipeline");
        self.attempts.pipeline += 1;
    }

    #[track_caller]
    fn try_watcher(&mut self, number: usize) {
        self.watch();
        let args = json!({"tmux_window": self.pane, "status_report": "a part is done"});
        self.client.call("look_ma", args);
        let args = json!({"types": ["watcher"], "timeout_secs": 30});
        let event = self.client.call("wait_for_event", args);
        assert_eq!(event["decision"], "paused", "{event}\n{}", self.shown());
        self.check_reason(number, event["reason"].as_str().expect("a reason"));
        self.check_untouched(number, "a watcher");
        self.attempts.watcher += 1;
    }

    #[track_caller]
    fn try_message(&mut self, number: usize, worker: &str) {
        if self.screen != WaitingScreen::Draft {
            until("the worker is known to wait", WAIT_TIMEOUT, || {
                let status = self.client.call("get_status", json!({}));
                status["workers"][0]["state"] == "needs_input"
            });
        }
        let args = json!({"to": worker, "body": message(number), "deliver": "type"});
        let sent = self.client.call("send_message", args);
        assert_eq!(sent["delivered"], "queued", "{sent}");
        let reason = sent["reason"].as_str().unwrap_or_default();
        self.check_reason(number, reason);
        self.check_untouched(number, "a message");
        self.attempts.message += 1;
    }

    /// Presses keys, which have their effect: an answer, another choice, another draft.
    #[track_caller]
    pub fn press_keys(&mut self, number: usize) {
        assert!(!self.is_told(&message(number)), "typed into the screen");
        match self.screen {
            WaitingScreen::Permission => {
                self.press_until("Enter", |case| case.is_made(number));
                self.await_message(number);
            }
            WaitingScreen::ModelPicker => {
                self.press_until("Escape", |case| case.shown_dialog().is_empty());
                self.await_message(number);
            }
            WaitingScreen::Trust | WaitingScreen::Login => {
                let before = choice(&self.dialog);
                // A person's key moves the choice too, and keeps no tool from the dialog.
                let is_moved = |case: &mut Self| choice(&case.shown_dialog()) != before;
                self.repeat_until(Self::press_down, is_moved);
                self.press_until("Up", |case| choice(&case.shown_dialog()) == before);
            }
            WaitingScreen::LoginCode => {
                let before = self.dialog.clone();
                self.press_until("x", |case| case.shown_dialog() != before);
                self.press_until("BSpace", |case| case.shown_dialog() == before);
            }
            WaitingScreen::Draft => self.press_keys_in_draft(number),
        }
    }

    /// Waits until the message to a worker is typed, which its agent takes once the screen is gone.
    #[track_caller]
    fn await_message(&mut self, number: usize) {
        if self.worker.is_some() {
            let line = format!("Message from lead: {}", message(number));
            until("the message is typed", WAIT_TIMEOUT, || self.is_told(&line));
        }
    }

    /// Whether the agent has sent a text to its model.
    fn is_told(&self, text: &str) -> bool {
        let requests = self.model.requests();
        let mut bodies = requests.iter().map(|request| request.body.to_string());
        bodies.any(|body| body.contains(text))
    }

    /// Of keys that fugue saw a person press is known that they are a person's draft, which is protected from keys too. In
    /// the person's own tmux keys change the line that stands there.
    #[track_caller]
    fn press_keys_in_draft(&mut self, number: usize) {
        let (last, rest) = DRAFT.split_at(DRAFT.len() - 1);
        let keys = json!({"pane_id": self.pane, "keys": ["BSpace"]});
        if self.location == AgentLocation::Tmux {
            self.client.call("send_input", keys);
        } else {
            let error = self.client.refused("send_input", keys);
            self.check_reason(number, &format!("{error:?}"));
            self.check_untouched(number, "a key");
            let pane = self.pane.clone();
            self.test_env
                .fugue(&["send", &pane, "-k", "BSpace", "--force"])
                .ok();
        }
        until("the key has its effect", WAIT_TIMEOUT, || {
            let shown = self.shown();
            !shown.contains(DRAFT) && shown.contains(last)
        });
        self.type_text(rest);
        let before = self.dialog.clone();
        until("the draft is whole again", WAIT_TIMEOUT, || {
            self.shown_dialog() == before
        });
    }

    /// Presses a key until it has its effect.
    #[track_caller]
    fn press_until(&mut self, key: &str, holds: impl FnMut(&mut Self) -> bool) {
        let press = |case: &mut Self| {
            let keys = json!({"pane_id": case.pane, "keys": [key]});
            case.client.call("send_input", keys);
        };
        self.repeat_until(press, holds);
    }

    /// Codex ignores keys in the first moments of a dialog, so a key is repeated.
    #[track_caller]
    fn repeat_until(
        &mut self,
        press: impl Fn(&mut Self),
        mut holds: impl FnMut(&mut Self) -> bool,
    ) {
        let mut pressed: Option<Instant> = None;
        until("the key has its effect", WAIT_TIMEOUT, || {
            if holds(self) {
                return true;
            }
            let again = pressed.is_none_or(|at| at.elapsed() > Duration::from_secs(2));
            if again && !self.shown_dialog().is_empty() {
                press(self);
                pressed = Some(Instant::now());
            }
            false
        });
    }

    /// Checks that no assessor was called for a screen, and that no model got a text of fugue's. Returns what was tried.
    #[track_caller]
    pub fn end(self) -> Attempts {
        let asks = fs::read_to_string(self.test_env.work().join("asks")).unwrap_or_default();
        assert_eq!(asks, "", "no model is asked about a screen");
        assert!(
            !self.is_told("please go on"),
            "the agent was told a watcher's line"
        );
        let is_open = !matches!(
            self.screen,
            WaitingScreen::Permission | WaitingScreen::ModelPicker
        );
        assert!(
            !is_open || !self.is_told("this is message"),
            "a message was typed into the screen"
        );
        assert!(!self.is_told(DRAFT), "the draft was sent");
        self.attempts
    }
}

/// The line of a dialog with the mark of the choice. Messages below it may come and go.
fn choice(dialog: &str) -> Option<String> {
    let is_marked = |line: &&str| {
        let line = line.trim_start_matches([' ', '│']);
        line.starts_with(['❯', '›', '●', '>'])
    };
    dialog.lines().find(is_marked).map(str::to_owned)
}

/// The message of a round to a worker.
fn message(number: usize) -> String {
    format!("this is message {number}")
}

fn made_file(number: usize) -> String {
    format!("made-{number}.txt")
}

pub fn start_client(test_env: &TestEnv, screen: WaitingScreen) -> McpClient {
    let mut command = test_env.fugue_command(["mcp", "--session", "lead"]);
    let says = json!({"action": "continue", "injection_prompt": "please go on"});
    let assessor = format!("cmd:echo asked >> asks; echo '{says}'");
    command
        .env("ASSESS_MODEL", assessor)
        .env("DEFAULT_WAIT_SEC", "0.01")
        .env("IDLE_THRESHOLD", "0.5");
    // A watcher waits for the end of a draft for so long.
    if screen == WaitingScreen::Draft {
        command.env("SPIN_MAX_SEC", "2");
    }
    let mut client = McpClient::start(command);
    client.initialize("2025-11-25", "test");
    client
}

fn settle(
    agent: AgentRelease,
    screen: WaitingScreen,
    location: AgentLocation,
    test_env: &mut TestEnv,
    model: &ScriptedModel,
) -> Option<AgentHome> {
    let tools = ExternalTools::find_beside(Path::new(FUGUE));
    let start = match location {
        AgentLocation::Worker | AgentLocation::WorkerInTmux => AgentStart::AsWorker,
        AgentLocation::Pane | AgentLocation::Tmux | AgentLocation::TemplateWorker => {
            AgentStart::Headless
        }
    };
    if let Some((missing, reason)) = agent.agent().missing_requirement(&tools, start) {
        skip(missing, reason);
        return None;
    }
    let Some(home) = AgentHome::settle_with(&tools, test_env, model, screen.login()) else {
        let reason = "not all agents are installed (scripts/mcp-tools)";
        skip(MissingRequirement::Program, reason);
        return None;
    };
    if agent == AgentRelease::OlderClaude && !AgentHome::prefer_older_claude(&tools, test_env) {
        let reason = "Claude Code 2.1.197 is not installed (scripts/mcp-tools --agents)";
        skip(MissingRequirement::Program, reason);
        return None;
    }
    // Gemini CLI shows the code's prompt instead of a browser.
    test_env.set_env("NO_BROWSER", "true");
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
