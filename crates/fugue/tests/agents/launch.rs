//! Launching real agents in panes as workers: the prompt arrives unchanged, fugue is their MCP server, and their hooks are
//! called.
//!
//! The agents run a wrapper in place of `fugue` that records the payload of each hook and passes every other call on.

use std::{
    collections::BTreeMap,
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use fugue_api::{PaneId, tools::CreatePaneReply};
use fugue_daemon::agents::{
    self, AgentDriver, WorkerAssignment,
    hook::{self, HookEvent},
};
use fugue_testkit::{
    MissingRequirement, TestEnv,
    scripted_model::{self, ModelAction, SCRIPT_DONE, ScriptedModel},
    skip,
    test_agents::{AgentHome, ExternalTools, TestAgent},
    until,
};

const LIMIT: Duration = Duration::from_secs(180);
const AGENTS: [(&str, TestAgent); 3] = [
    ("claude", TestAgent::Claude),
    ("codex", TestAgent::Codex),
    ("gemini", TestAgent::Gemini),
];

/// An agent in a pane.
struct Worker {
    test_env: TestEnv,
    home: AgentHome,
    driver: &'static dyn AgentDriver,
    pane: PaneId,
    heard: PathBuf,
}

impl Worker {
    fn start(name: &str, model: &ScriptedModel, prompt: &str) -> Option<Self> {
        let binary = Path::new(env!("CARGO_BIN_EXE_fugue"));
        let tools = ExternalTools::find_beside(binary);
        let mut test_env = TestEnv::new(binary, LIMIT);
        let agent = AGENTS.into_iter().find(|(agent, _)| *agent == name);
        let (_, agent) = agent.expect("a tested agent");
        if let Some((missing, reason)) = agent.missing_requirement(&tools) {
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
        let dir = home.dir().join("worker's dir");
        fs::create_dir(&dir).expect("a directory");
        let heard = dir.join("heard");
        let stand_in = dir.join("fugue");
        let script = format!(
            "#!/bin/sh\nif [ \"$1\" = hook ]; then {{ tr -d '\\n'; echo \" $FUGUE_AGENT_ID $2\"; }} >> '{0}'; \
             else exec {1} \"$@\"; fi\n",
            heard.display().to_string().replace('\'', r"'\''"),
            binary.display(),
        );
        fs::write(&stand_in, script).expect("a script");
        fs::set_permissions(&stand_in, Permissions::from_mode(0o700)).expect("it runs");
        let identity = BTreeMap::from([("FUGUE_AGENT_ID".to_owned(), "w1".to_owned())]);
        let work = test_env.work();
        let env = BTreeMap::from([("HOME".to_owned(), home.dir().display().to_string())]);
        let assignment = WorkerAssignment {
            prompt,
            model: None,
            args: &[],
            dir: &dir,
            cwd: &work,
            worktree_of: None,
            fugue: &stand_in,
            identity: &identity,
            env: &env,
            shell: Path::new("/bin/sh"),
        };
        let agent = agents::find_agent(name, &BTreeMap::new()).expect("a known agent");
        let launch = agents::prepare_launch(&agent, &assignment).expect("a launch");
        // The words of its command line come from files, so that no shell reads them.
        let mut line = String::from("exec");
        for (number, word) in launch.argv.iter().enumerate() {
            let file = dir.join(format!("word.{number}"));
            fs::write(&file, format!("{word}.")).expect("a file");
            line = format!("w{number}=$(cat \"$DIR/word.{number}\"); {line} \"${{w{number}%.}}\"");
        }
        let mut args = vec!["new".to_owned()];
        let dir = dir.display().to_string();
        for (name, value) in launch.env.iter().chain([(&"DIR".to_owned(), &dir)]) {
            args.extend(["-e".to_owned(), format!("{name}={value}")]);
        }
        args.extend(["--".to_owned(), line]);
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let pane: CreatePaneReply = test_env.json(&args);
        Some(Self {
            pane: pane.pane_id,
            test_env,
            home,
            driver: agents::built_in(name).expect("a built-in agent"),
            heard,
        })
    }

    /// What its hooks have said, in order.
    fn news(&self) -> Vec<HookEvent> {
        let text = fs::read_to_string(&self.heard).unwrap_or_default();
        let end = format!(" w1 {}", self.driver.name());
        // The last may not be complete.
        let complete = text.rsplit_once('\n').map_or("", |(lines, _)| lines);
        let lines = complete.lines().map(|line| {
            let payload = line.strip_suffix(&end);
            payload.unwrap_or_else(|| panic!("the hook knows whose it is: {line}"))
        });
        lines
            .map(|payload| serde_json::from_str(payload).expect("JSON"))
            .map(|payload| hook::read(self.driver, &payload))
            .filter(|news| *news != HookEvent::Nothing)
            .collect()
    }

    #[track_caller]
    fn until_heard(&self, what: &str, wanted: impl Fn(&[HookEvent]) -> bool) {
        let (patience, start) = (Duration::from_secs(60), Instant::now());
        until(what, patience * 2, || {
            let news = self.news();
            let heard = wanted(&news);
            if !heard && (start.elapsed() > patience || !self.runs()) {
                let (agent, shown) = (self.driver, self.shown());
                panic!("{what} was not heard of {agent:?}: {news:?}\n{shown}");
            }
            heard
        });
    }

    /// Takes the first choice of a question. The hook is called before the question can be answered, and Codex takes no
    /// key in its first moments, lest a person who types answers it unseen.
    fn say_yes(&self) {
        let mut pressed: Option<Instant> = None;
        until("the question is answered", Duration::from_secs(60), || {
            let asks = self.shown().contains(" 1. ");
            let again = pressed.is_none_or(|at| at.elapsed() > Duration::from_secs(2));
            if asks && again {
                self.test_env.press(self.pane, &["Enter"]);
                pressed = Some(Instant::now());
            }
            pressed.is_some() && !asks
        });
    }

    fn shown(&self) -> String {
        self.test_env.read(self.pane, &["--screen"]).text
    }

    fn runs(&self) -> bool {
        self.test_env.status(self.pane).state.exit_code.is_none()
    }
}

fn ended() -> HookEvent {
    HookEvent::TurnEnded {
        message: SCRIPT_DONE.to_owned(),
    }
}

fn check_prompt(prompt: &str) {
    for (name, _) in AGENTS {
        let model = ScriptedModel::start(Vec::new());
        let Some(worker) = Worker::start(name, &model, prompt) else {
            continue;
        };
        worker.until_heard("the end of the turn", |news| news.contains(&ended()));
        assert_eq!(worker.news(), [HookEvent::PromptGiven, ended()], "{name}");
        let told = model
            .requests()
            .iter()
            .any(|asked| scripted_model::told(&asked.body, prompt.trim_end()));
        assert!(told, "{name} was told the whole prompt");
        assert!(!worker.test_env.work().join("pwned").exists(), "{name}");
    }
}

#[test]
fn a_prompt_arrives_whole_whatever_it_holds() {
    check_prompt(
        "-p \"quoted\" 'single' $(touch pwned) `x` %s \\n \\\\ 😀 é ;|&<>\n\n  second line {prompt}\n",
    );
}

#[test]
fn a_prompt_is_never_a_command() {
    check_prompt("!touch pwned");
}

#[test]
fn a_prompt_may_be_long() {
    let mut long = String::new();
    while long.len() < 60_000 {
        long.push_str(&format!(
            "line {} of a long prompt, with \"quotes\" and ünïcode\n",
            long.len()
        ));
    }
    check_prompt(&long);
}

#[test]
fn a_question_is_heard_and_its_answer_too() {
    for (name, agent) in AGENTS {
        let model = ScriptedModel::start(vec![agent.shell_call("touch made.txt")]);
        let Some(worker) = Worker::start(name, &model, "make a file") else {
            continue;
        };
        let before = user_files(&worker.home);
        worker.until_heard("the question", |news| {
            news.iter().any(|news| {
                matches!(news, HookEvent::NeedsInput { prompt, .. } if prompt.ends_with(": touch made.txt"))
            })
        });
        assert!(!worker.test_env.work().join("made.txt").exists());
        worker.say_yes();
        worker.until_heard("the answer", |news| {
            news.contains(&HookEvent::InputNoLongerNeeded) && news.last() == Some(&ended())
        });
        assert!(worker.test_env.work().join("made.txt").exists());
        for text in ["and now? one line", "one\n\n\"three\" lines?"] {
            let turns = worker.news().len();
            let sent = worker.test_env.type_line(worker.pane, text);
            assert_eq!(
                sent.submitted,
                fugue_api::tools::SubmitResult::Yes,
                "{name}"
            );
            worker.until_heard("the next turn", |news| {
                news[turns..] == [HookEvent::PromptGiven, ended()]
            });
            let told =
                |asked: &scripted_model::ModelRequest| scripted_model::told(&asked.body, text);
            assert!(
                model.requests().iter().any(told),
                "{name} was told {text:?}"
            );
        }
        assert_eq!(before, user_files(&worker.home), "{name}");
    }
}

#[test]
fn fugue_is_at_hand_and_knows_whom_it_serves() {
    for (name, agent) in AGENTS {
        let (tool, namespace) = agent.model_tool_name("get_status");
        let input = serde_json::json!({});
        let model = ScriptedModel::start(vec![ModelAction {
            tool,
            namespace,
            input,
        }]);
        let Some(worker) = Worker::start(name, &model, "how are the panes?") else {
            continue;
        };
        let asks = |news: &HookEvent| matches!(news, HookEvent::NeedsInput { .. });
        worker.until_heard("the question or the end", |news| {
            news.iter().any(asks) || news.contains(&ended())
        });
        if worker.news().iter().any(asks) {
            worker.say_yes();
        }
        worker.until_heard("the end of the turn", |news| news.last() == Some(&ended()));
        // It talks to the daemon of this environment, which knows the pane.
        let pane = format!("\"{}\"", worker.pane);
        let results = model
            .requests()
            .iter()
            .flat_map(|asked| scripted_model::tool_results(&asked.body))
            .collect::<Vec<_>>();
        let told = results
            .iter()
            .any(|result| result.to_string().replace('\\', "").contains(&pane));
        assert!(told, "{name}: {results:?}");
    }
}

/// What the user wrote in the agents' homes.
fn user_files(home: &AgentHome) -> Vec<String> {
    [
        ".claude/settings.json",
        ".gemini/settings.json",
        ".gemini/trustedFolders.json",
        ".qwen/settings.json",
        ".codex/config.toml",
    ]
    .into_iter()
    .map(|name| fs::read_to_string(home.dir().join(name)).expect("it is there"))
    // Codex notes there by itself what it has shown to the user.
    .map(|text| {
        text.split("\n[tui")
            .next()
            .unwrap_or_default()
            .trim_end()
            .to_owned()
    })
    .collect()
}
