//! Workers that are the real Claude Code, Codex and Gemini CLI, spawned by a plain MCP client as lead: events, messages,
//! questions, worktrees, and the person's own settings, which stay unchanged.

use std::{collections::BTreeMap, fs, path::Path};

use fugue_testkit::{
    ProcessRef, RunningProgram, TestEnv, report_metric,
    scripted_model::{self, ModelAction, SCRIPT_DONE, ScriptedModel},
    test_agents::{ExternalTools, TestAgent},
    until,
};
use serde_json::{Value, json};

use super::team::{FUGUE, LIMIT, Team, WAIT_TIMEOUT, Worker, name};

const AGENTS: [TestAgent; 3] = [TestAgent::Claude, TestAgent::Codex, TestAgent::Gemini];
/// Everything that a shell, an agent's command line or its input box might take for something else.
const PROMPT: &str = "-p \"quoted\" 'single' $(touch pwned) `touch pwned` %s \\n \\\\ 😀 é ;|&<>\n\n  /help {prompt}\n";

/// How often a message is typed; a sample, unless somebody wants to know better.
fn messages() -> u32 {
    let said = std::env::var("FUGUE_TYPED_MESSAGES").ok();
    said.and_then(|number| number.parse().ok()).unwrap_or(3)
}

#[test]
fn claude_code_works_for_a_lead_from_its_prompt_to_its_end() {
    lives(TestAgent::Claude);
}

#[test]
fn codex_works_for_a_lead_from_its_prompt_to_its_end() {
    lives(TestAgent::Codex);
}

#[test]
fn gemini_cli_works_for_a_lead_from_its_prompt_to_its_end() {
    lives(TestAgent::Gemini);
}

#[test]
fn qwen_code_works_for_a_lead_from_its_prompt_to_its_end() {
    lives(TestAgent::Qwen);
}

/// One worker: its prompt, its question, its report, messages at rest, at work and beside a draft, and a sudden end.
fn lives(agent: TestAgent) {
    let script = vec![agent.shell_call("touch made.txt")];
    let Some(mut team) = Team::gather(agent, script) else {
        return;
    };
    let worker = team.spawn(PROMPT);
    team.asks(&worker, "touch made.txt");
    assert!(
        !team.file("made.txt").exists(),
        "nothing is done before the answer"
    );
    team.answer(&worker, "Enter");
    let event = team.turn_ends(&worker, 1);
    let changes = event["changes"].to_string();
    assert!(changes.contains("made.txt"), "{event}");
    assert!(event.get("exit_code").is_none(), "{event}");
    assert!(
        team.is_told(PROMPT.trim_end()),
        "{agent:?} was told the whole prompt"
    );
    assert!(!team.file("pwned").exists(), "no shell saw the prompt");
    let status = team.status(&worker);
    assert_eq!(status["worker"]["state"], "resting", "{status}");
    assert_ne!(status["state"], "needs_input", "{status}");

    let mut turn = 1;
    for number in 0..messages() {
        turn += 1;
        let body = match number % 3 {
            0 => format!("message {number}: is that all?"),
            1 => format!("message {number}\n\nwith \"three\" lines\n!and more?"),
            _ => format!("/message {number}: {} 😀", "long ".repeat(60)),
        };
        team.submit(&worker, &body);
        team.turn_ends(&worker, turn);
        assert!(team.is_told(body.trim_end()), "{agent:?} was told {body:?}");
    }
    report_metric(
        &format!("{agent:?}, messages typed and submitted"),
        format!("{} of {}", turn - 1, messages()),
    );

    at_work(&mut team, &worker, turn + 1);
    beside_a_draft(&mut team, &worker, turn + 3);
    suddenly_ended(&mut team, &worker, turn + 4);
}

/// Two messages, the second while it works on the first.
fn at_work(team: &mut Team, worker: &Worker, turn: u32) {
    team.model.hold_replies();
    team.submit(worker, "think about it");
    team.until_told("think about it");
    assert_eq!(team.tell(worker, "and about that"), "queued");
    let shown = team.shown(worker);
    assert!(!shown.contains("and about that"), "{shown}");
    team.model.release_replies();
    team.turn_ends(worker, turn);
    team.turn_ends(worker, turn + 1);
    assert!(team.is_told("and about that"));
}

/// A message while a person has begun to type.
fn beside_a_draft(team: &mut Team, worker: &Worker, turn: u32) {
    let draft = "half a thou";
    let pane = &worker.pane;
    team.lead
        .call("send_input", json!({"pane_id": pane, "input": draft}));
    until("the draft is shown", WAIT_TIMEOUT, || {
        team.shown(worker).contains(draft)
    });
    assert_eq!(team.tell(worker, "not into a draft"), "queued");
    let shown = team.shown(worker);
    assert!(
        shown.contains(draft) && !shown.contains("not into"),
        "{shown}"
    );
    team.lead
        .call("send_input", json!({"pane_id": pane, "keys": ["C-u"]}));
    team.turn_ends(worker, turn);
    assert!(team.is_told("not into a draft"));
    assert!(!team.is_told(draft), "the draft was nobody's message");
}

/// Killed in the middle of a turn.
fn suddenly_ended(team: &mut Team, worker: &Worker, turn: u32) {
    team.model.hold_replies();
    team.submit(worker, "die while you think");
    team.until_told("die while you think");
    let pid = team.status(worker)["pid"].as_u64().expect("a pid");
    let process = ProcessRef::find(u32::try_from(pid).expect("a pid"));
    process.expect("it runs").kill9();
    let event = team.event(&["worker_complete"]);
    let told = json!([
        event["worker_id"],
        event["turn"],
        event["status"],
        event["signal"],
        event["synthesized"]
    ]);
    assert_eq!(
        told,
        json!([worker.id, turn, "error", "SIGKILL", true]),
        "{event}"
    );
    let message = event["message"].as_str().expect("the end of its output");
    assert!(message.contains("die while you think"), "{event}");
    team.model.release_replies();
}

#[test]
fn a_refused_question_is_over_and_the_worker_can_be_told_more() {
    for agent in AGENTS {
        let script = vec![agent.shell_call("touch made.txt")];
        let Some(mut team) = Team::gather(agent, script) else {
            return;
        };
        let worker = team.spawn("make a file");
        team.asks(&worker, "touch made.txt");
        team.answer(&worker, "Escape");
        until("nobody is asked any more", WAIT_TIMEOUT, || {
            let status = team.status(&worker);
            status["state"] != "needs_input" && status["worker"]["state"] != "needs_input"
        });
        assert!(!team.file("made.txt").exists(), "{agent:?}");
        // No agent tells of this, so it is seen that nothing happens any more.
        team.tell(&worker, "then leave it");
        team.until_told("then leave it");
        if agent == TestAgent::Gemini {
            // Its model is not told of the refusal, and does the same again.
            team.asks(&worker, "touch made.txt");
            team.answer(&worker, "Enter");
        }
        team.turn_ends(&worker, 1);
    }
}

#[test]
fn a_worker_reports_by_itself_and_is_not_asked_for_that() {
    for agent in AGENTS {
        let call = |tool: &str, input: Value| {
            let (tool, namespace) = agent.model_tool_name(tool);
            ModelAction {
                tool,
                namespace,
                input,
            }
        };
        let script = vec![
            call("send_message", json!({"body": "half way"})),
            call(
                "notify_completion",
                json!({"status": "error", "message": "it cannot be done"}),
            ),
        ];
        let Some(mut team) = Team::gather(agent, script) else {
            return;
        };
        let worker = team.spawn("report");
        let event = team.event(&["*"]);
        let told = json!([event["type"], event["from"], event["body"]]);
        let wanted = json!(["message", worker.id, "half way"]);
        assert_eq!(told, wanted, "{event}\n{}", team.shown(&worker));
        let event = team.event(&["*"]);
        let told = json!([
            event["type"],
            event["worker_id"],
            event["status"],
            event["message"],
            event["turn"]
        ]);
        let wanted = json!([
            "worker_complete",
            worker.id,
            "error",
            "it cannot be done",
            1
        ]);
        assert_eq!(told, wanted, "{event}\n{}", team.shown(&worker));
        // The next that is heard of it is the next turn: the end of this one was reported.
        team.submit(&worker, "thank you");
        team.turn_ends(&worker, 2);
        let pending = team
            .lead
            .call("wait_for_event", json!({"types": ["*"], "timeout_secs": 0}));
        assert_eq!(pending["type"], "timeout", "{agent:?}");
    }
}

#[test]
fn a_worker_works_in_a_worktree_of_its_own() {
    for agent in AGENTS {
        let script = vec![agent.shell_call("touch made.txt")];
        let Some(mut team) = Team::gather(agent, script) else {
            return;
        };
        // The person trusts the repository, and is not asked about its worktree.
        let args = json!({"name": "aside", "prompt": "make a file", "worktree": true});
        let worker = team.spawn_with(args);
        team.asks(&worker, "touch made.txt");
        team.answer(&worker, "Enter");
        let event = team.turn_ends(&worker, 1);
        assert!(event["changes"].to_string().contains("made.txt"), "{event}");
        assert!(
            !team.file("made.txt").exists(),
            "not in the lead's own tree"
        );
        let cwd = team.status(&worker)["cwd"].take();
        let cwd = Path::new(cwd.as_str().expect("a directory"));
        assert!(
            cwd.join("made.txt").exists(),
            "{agent:?} in {}",
            cwd.display()
        );
        let branch = team
            .test_env
            .run("git", &["branch", "--list", "fugue/aside"]);
        assert!(branch.ok().out().contains("fugue/aside"));
    }
}

#[test]
fn a_turn_that_ends_while_no_daemon_runs_is_told_by_the_next() {
    for agent in AGENTS {
        let Some(mut team) = Team::gather(agent, Vec::new()) else {
            return;
        };
        team.model.hold_replies();
        let worker = team.spawn("think");
        team.until_told("think");
        // Somebody waits, and starts the next daemon at once.
        let args = json!({"types": ["worker_complete"], "timeout_secs": 45});
        let waits = team.lead.send_tool_call("wait_for_event", args);
        team.kill_daemon();
        team.model.release_replies();
        let result = team.lead.result(waits);
        let event = fugue_testkit::mcp_client::facts(&result);
        let told = json!([
            event["worker_id"],
            event["message"],
            event["turn"],
            event["synthesized"]
        ]);
        assert_eq!(told, json!([worker.id, SCRIPT_DONE, 1, null]), "{event}");
        // Nobody waits: the agent works and ends, and its hooks find no daemon.
        team.model.hold_replies();
        team.submit(&worker, "and again");
        team.until_told("and again");
        team.kill_daemon();
        team.model.release_replies();
        let spool = team.test_env.state().join("news");
        until("its hook has been called", WAIT_TIMEOUT, || {
            fs::read_dir(&spool).is_ok_and(|files| files.flatten().count() > 0)
        });
        assert!(
            team.test_env.daemons().is_empty(),
            "a hook starts no daemon"
        );
        team.turn_ends(&worker, 2);
        let pending = team
            .lead
            .call("wait_for_event", json!({"types": ["*"], "timeout_secs": 0}));
        assert_eq!(pending["type"], "timeout", "{agent:?}: each turn once");
        until("what was stored is forgotten", WAIT_TIMEOUT, || {
            fs::read_dir(&spool).is_ok_and(|files| files.flatten().count() == 0)
        });
    }
}

/// Ends the daemon that a person's Codex has started, which outlives the pane; a worker's starts none.
#[track_caller]
fn end_shared_codex_daemon(test_env: &TestEnv, is_expected: bool) {
    let find = || {
        let processes = test_env.processes().into_iter();
        processes
            .filter(|process| process.has_args(&["app-server"]))
            .collect::<Vec<_>>()
    };
    let found = find();
    let is_found = found
        .iter()
        .any(|process| process.args.iter().any(|arg| arg == "--managed-daemon"));
    assert_eq!(is_found, is_expected, "{found:#?}");
    found.iter().for_each(ProcessRef::kill9);
    until("the shared daemon has ended", WAIT_TIMEOUT, || {
        find().is_empty()
    });
}

#[test]
fn a_worker_changes_no_file_of_the_persons_that_its_agent_would_not() {
    // What each agent writes by itself into files that were there: what it has shown to the person, and how it was used.
    for (agent, its_own) in [
        (TestAgent::Claude, &[".claude.json"][..]),
        (TestAgent::Codex, &[".codex/config.toml"]),
        (TestAgent::Gemini, &[]),
    ] {
        let mut found = Vec::new();
        for way in [Way::Bare, Way::Worker] {
            let Some(mut team) = Team::gather(agent, Vec::new()) else {
                return;
            };
            let home = team.home.dir().to_owned();
            for (file, text) in [
                (".claude/CLAUDE.md", "# mine\n"),
                (".claude/commands/mine.md", "say hello\n"),
                (".codex/AGENTS.md", "# mine\n"),
                (".gemini/GEMINI.md", "# mine\n"),
                (".gemini/commands/mine.toml", "prompt = \"say hello\"\n"),
            ] {
                let path = home.join(file);
                fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
                fs::write(path, text).expect("a file");
            }
            let before = persons_files(&home);
            let worker = match way {
                Way::Worker => {
                    let worker = team.spawn("say hello");
                    team.turn_ends(&worker, 1);
                    worker
                }
                Way::Bare => {
                    let command = match agent {
                        TestAgent::Claude | TestAgent::Codex => {
                            format!("{} 'say hello'", name(agent))
                        }
                        TestAgent::Gemini | TestAgent::Qwen => {
                            format!("{} -i 'say hello'", name(agent))
                        }
                    };
                    let pane = team.lead.call("create_pane", json!({"command": command}));
                    let worker = Worker {
                        id: String::new(),
                        pane: pane["pane_id"].as_str().expect("an id").to_owned(),
                    };
                    until("it has answered", WAIT_TIMEOUT, || {
                        team.shown(&worker).contains(SCRIPT_DONE)
                    });
                    worker
                }
            };
            team.lead
                .call("close_pane", json!({"pane_id": worker.pane}));
            end_shared_codex_daemon(
                &team.test_env,
                matches!((agent, way), (TestAgent::Codex, Way::Bare)),
            );
            let after = persons_files(&home);
            let changed: Vec<String> = before
                .iter()
                .filter(|(file, text)| after.get(*file) != Some(text))
                .map(|(file, _)| file.clone())
                .collect();
            for file in &changed {
                let text = String::from_utf8_lossy(&after[file]).into_owned();
                assert!(!text.contains("fugue"), "{agent:?} {way:?}: {file}: {text}");
            }
            found.push(changed);
        }
        let [bare, worker] = &found[..] else {
            return;
        };
        assert_eq!(worker, bare, "{agent:?}");
        assert_eq!(bare, its_own, "{agent:?}");
    }
}

/// How an agent is started.
#[derive(Clone, Copy, Debug)]
enum Way {
    Bare,
    Worker,
}

/// Every file of the home.
fn persons_files(home: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut dirs = vec![home.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(&dir).expect("a directory").flatten() {
            let path = entry.path();
            let name = path.strip_prefix(home).expect("below it");
            if path.is_dir() {
                dirs.push(path);
            } else if let Ok(bytes) = fs::read(&path) {
                found.insert(name.to_string_lossy().into_owned(), bytes);
            }
        }
    }
    found
}

#[test]
fn a_real_agent_leads_another() {
    let Some(team) = Team::gather(TestAgent::Codex, Vec::new()) else {
        return;
    };
    let call = |tool: &str, input: Value| {
        let (tool, namespace) = TestAgent::Claude.model_tool_name(tool);
        ModelAction {
            tool,
            namespace,
            input,
        }
    };
    let task = json!({"name": "w", "prompt": PROMPT, "agent": "codex"});
    let model = ScriptedModel::start(vec![
        call("spawn_worker", task),
        call("wait_for_event", json!({})),
    ]);
    let tools = ExternalTools::find_beside(Path::new(FUGUE));
    let lead = TestAgent::Claude.headless(&tools, &team.test_env, Path::new(FUGUE), &model);
    let ran = RunningProgram::start(lead.expect("it is installed").command).end(LIMIT);
    let asked = model.requests();
    let given = asked
        .iter()
        .map(|asked| scripted_model::tool_results(&asked.body));
    let given = given.max_by_key(Vec::len).unwrap_or_default();
    let [_, event] = &given[..] else {
        panic!("two results reached the lead's model: {given:?}\n{ran}");
    };
    let event = event.to_string().replace('\\', "");
    for fact in [
        "\"type\":\"worker_complete\"",
        "\"worker_id\":\"w-codex\"",
        SCRIPT_DONE,
    ] {
        assert!(event.contains(fact), "{event}");
    }
    assert!(team.is_told(PROMPT.trim_end()), "the worker's model");
}
