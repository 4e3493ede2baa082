//! What a lead hears of workers that are refused, interrupted, out of luck with their model, stopped by a limit or killed:
//! each once, soon, and with what to do next.

use std::time::Instant;

use fugue_testkit::{
    ProcessRef, TestPty, report_metric,
    scripted_model::{BAD_REQUEST, ModelFailure},
    test_agents::TestAgent,
    until,
};
use serde_json::{Value, json};

use super::team::{AgentRelease, FUGUE, Team, WAIT_TIMEOUT, Worker};

/// Everything that a lead waits for, but for the begin of a dialog.
const ENDS: [&str; 4] = [
    "worker_complete",
    "worker_idle",
    "worker_paused",
    "worker_needs_input",
];

impl Team {
    /// The next event about a worker, and how long after `cause` it came.
    #[track_caller]
    fn hears(&mut self, worker: &Worker, kind: &str, cause: Instant) -> Value {
        let event = self.event(&ENDS);
        let took = cause.elapsed();
        let told = json!([event["type"], event["worker_id"]]);
        let shown = self.shown(worker);
        assert_eq!(told, json!([kind, worker.id]), "{event}\n{shown}");
        report_metric(
            &format!("{}: {kind} after its cause", super::team::name(self.agent)),
            format!("{} ms", took.as_millis()),
        );
        event
    }

    /// Nothing else has been said, or is said within two seconds.
    #[track_caller]
    fn hears_no_more(&mut self, worker: &Worker) {
        let args = json!({"types": ["*"], "timeout_secs": 2});
        let event = self.lead.call("wait_for_event", args);
        assert_eq!(event["type"], "timeout", "{event}\n{}", self.shown(worker));
    }

    #[track_caller]
    fn agent_is(&mut self, worker: &Worker, state: &str, by: &str) {
        let status = self.status(worker);
        let agent = json!([status["agent"]["state"], status["agent"]["by"]]);
        assert_eq!(agent, json!([state, by]), "{status}");
    }

    fn press(&mut self, worker: &Worker, key: &str) {
        let keys = json!({"pane_id": worker.pane, "keys": [key]});
        self.lead.call("send_input", keys);
    }

    /// The dialog of a worker, with all that a lead needs to answer it.
    #[track_caller]
    fn hears_dialog(&mut self, worker: &Worker, command: &str) -> Value {
        let event = self.event(&ENDS);
        let shown = self.shown(worker);
        let told = json!([event["type"], event["pane_id"], event["kind"]]);
        let wanted = json!(["worker_needs_input", worker.pane, "permission"]);
        assert_eq!(told, wanted, "{event}\n{shown}");
        let prompt = event["prompt"].as_str().expect("a question");
        assert!(prompt.contains(command), "{prompt}");
        let first = &event["choices"][0];
        assert_eq!(first["key"], "1", "{event}\n{shown}");
        let next = event["next"].as_str().expect("a call");
        assert!(next.contains(&worker.pane), "{next}");
        self.agent_is(worker, "needs_input", "hook");
        event
    }

    /// A message that is typed into a worker whose turn was cut short is taken.
    #[track_caller]
    fn goes_on(&mut self, worker: &Worker, body: &str) {
        self.tell(worker, body);
        self.until_told(body);
    }
}

/// One case of what may happen to a worker.
type Case = fn(&mut Team);

fn with(release: AgentRelease, script: &[&str], case: Case) {
    let agent = release.agent();
    let script = script.iter().map(|command| agent.shell_call(command));
    let Some(mut team) = Team::of_release(release, script.collect()) else {
        return;
    };
    case(&mut team);
}

/// The first key after the event answers the dialog, and the turn ends with a report.
fn ends_well(team: &mut Team) {
    let worker = team.spawn("make a file");
    let event = team.hears_dialog(&worker, "touch made.txt");
    let key = event["choices"][0]["key"]
        .as_str()
        .expect("a key")
        .to_owned();
    team.press(&worker, &key);
    let cause = Instant::now();
    team.hears(&worker, "worker_complete", cause);
    assert!(team.file("made.txt").exists());
    team.agent_is(&worker, "idle", "hook");
    team.hears_no_more(&worker);
}

fn refused(team: &mut Team) {
    let worker = team.spawn("make a file");
    team.hears_dialog(&worker, "touch made.txt");
    team.press(&worker, "Escape");
    let event = team.hears(&worker, "worker_idle", Instant::now());
    assert_ne!(event["message"], "", "{event}");
    assert!(!team.file("made.txt").exists());
    team.agent_is(&worker, "idle", "screen");
    team.hears_no_more(&worker);
    team.goes_on(&worker, "then leave it");
}

fn interrupted(team: &mut Team) {
    team.model.hold_replies();
    let worker = team.spawn("think about it");
    team.until_told("think about it");
    until("it shows that it works", WAIT_TIMEOUT, || {
        team.status(&worker)["agent"]["by"] == "screen"
    });
    team.agent_is(&worker, "working", "screen");
    team.press(&worker, "Escape");
    let event = team.hears(&worker, "worker_idle", Instant::now());
    team.agent_is(&worker, "idle", "screen");
    team.model.release_replies();
    team.hears_no_more(&worker);
    let message = event["message"].as_str().expect("a text");
    if message.contains("unsent text") {
        // The prompt is in the box again, as a draft that nothing is typed beside.
        let args = json!({"to": worker.id, "body": "and now this", "deliver": "type"});
        let sent = team.lead.call("send_message", args);
        assert_eq!(sent["delivered"], "queued", "{sent}");
        let reason = sent["reason"].as_str().expect("a reason");
        assert!(reason.contains("begun a line"), "{reason}");
        let keys = json!({"pane_id": worker.pane, "keys": ["C-u"]});
        team.lead.call("send_input", keys);
        team.until_told("and now this");
    } else {
        team.goes_on(&worker, "and now this");
    }
}

fn model_error(team: &mut Team) {
    team.model.fail(Some(ModelFailure::BadRequest));
    let cause = Instant::now();
    let worker = team.spawn("do what cannot be done");
    // Codex has no hook for a request that fails.
    let (kind, state, by) = match team.agent {
        TestAgent::Codex => ("worker_idle", "idle", "screen"),
        TestAgent::Claude | TestAgent::Gemini | TestAgent::Qwen => {
            ("worker_complete", "failed", "hook")
        }
    };
    let event = team.hears(&worker, kind, cause);
    if kind == "worker_complete" {
        assert_eq!(event["status"], "error", "{event}");
    }
    let message = event["message"].as_str().expect("the error");
    assert!(
        message.contains(BAD_REQUEST),
        "{event}\n{}",
        team.shown(&worker)
    );
    team.agent_is(&worker, state, by);
    team.hears_no_more(&worker);
    team.model.fail(None);
    team.goes_on(&worker, "try again");
}

/// A limit, three times, is three pauses and no failure.
fn limited(team: &mut Team) {
    team.model.fail(Some(ModelFailure::UsageLimit));
    let mut cause = Instant::now();
    let worker = team.spawn("do it until the limit");
    for number in 0..3 {
        let event = team.hears(&worker, "worker_paused", cause);
        assert_eq!(event.get("status"), None, "{event}");
        let status = team.status(&worker);
        assert_eq!(status["agent"]["state"], "paused", "{status}");
        // Gemini CLI asks whether to go on trying.
        if let Some(choices) = status["agent"]["choices"].as_array() {
            let last = choices.last().expect("a choice")["key"].clone();
            team.press(&worker, last.as_str().expect("a key"));
        }
        team.hears_no_more(&worker);
        if number < 2 {
            team.goes_on(&worker, &format!("attempt {number}"));
            cause = Instant::now();
        }
    }
    team.model.fail(None);
    team.goes_on(&worker, "now it works");
    let worked = team.event(&["worker_complete"]);
    assert_eq!(worked["status"], "success", "{worked}");
}

fn killed(team: &mut Team) {
    team.model.hold_replies();
    let worker = team.spawn("die while you think");
    team.until_told("die while you think");
    let pid = team.status(&worker)["pid"].as_u64().expect("a pid");
    let process = ProcessRef::find(u32::try_from(pid).expect("a pid"));
    let cause = Instant::now();
    process.expect("it runs").kill9();
    let event = team.hears(&worker, "worker_complete", cause);
    let told = json!([event["status"], event["signal"], event["synthesized"]]);
    assert_eq!(told, json!(["error", "SIGKILL", true]), "{event}");
    team.hears_no_more(&worker);
    // A failed worker stays in sight.
    let listed = team.test_env.run(FUGUE, &["ls"]).ok().out();
    let row = listed.lines().find(|line| line.starts_with(&worker.id));
    assert!(row.is_some_and(|row| row.contains("failed")), "{listed}");
    team.model.release_replies();
}

/// How often a person attaches, resizes and detaches; a sample, unless somebody wants to know better.
fn rounds() -> usize {
    let said = std::env::var("FUGUE_ATTACH_ROUNDS").ok();
    said.and_then(|number| number.parse().ok()).unwrap_or(6)
}

/// Sizes of a person's terminal.
const SIZES: [(u16, u16); 4] = [(40, 120), (24, 80), (50, 160), (30, 100)];

/// People who attach, resize and detach make no worker ask, and hide none that does.
fn looked_at(team: &mut Team) {
    team.model.hold_replies_to("think about it");
    let asker = team.spawn_with(json!({"name": "asks", "prompt": "make files"}));
    team.hears_dialog(&asker, "touch made0.txt");
    let worker = team.spawn_with(json!({"name": "works", "prompt": "think about it"}));
    team.until_told("think about it");
    let (mut asked, mut missed, mut wrong, mut rests) = (0, 0, Vec::new(), false);
    for round in 0..rounds() {
        let mut command = team.test_env.command("setsid");
        command.args(["-c", FUGUE, "attach", &asker.pane]);
        let (rows, cols) = SIZES[round % SIZES.len()];
        let viewer = TestPty::start(command, rows, cols);
        viewer.discard_output();
        until("a person is there", WAIT_TIMEOUT, || {
            let size = team.status(&asker)["size"].clone();
            size["rows"]
                .as_u64()
                .is_some_and(|have| have < u64::from(rows))
        });
        let (rows, cols) = SIZES[(round + 1) % SIZES.len()];
        viewer.resize(rows, cols);
        // In the middle of a resize, the dialog is answered and another follows. In the second half of the rounds the
        // worker rests.
        if round % 3 == 2 && asked < dialogs() {
            team.press(&asker, "1");
            let args = json!({"types": ["worker_needs_input"], "timeout_secs": 20});
            let event = team.lead.call("wait_for_event", args);
            asked += 1;
            missed += usize::from(event["worker_id"] != json!(asker.id));
        }
        drop(viewer);
        if asked == dialogs() && !std::mem::replace(&mut rests, true) {
            team.press(&asker, "1");
        }
        let args = json!({"types": ["worker_needs_input"], "timeout_secs": 0});
        let event = team.lead.call("wait_for_event", args);
        if event["type"] != "timeout" {
            wrong.push(format!("round {round}: {event}"));
        }
    }
    let args = json!({"types": ["worker_needs_input"], "timeout_secs": 3});
    let event = team.lead.call("wait_for_event", args);
    if event["type"] != "timeout" {
        wrong.push(format!("afterwards: {event}"));
    }
    report_metric(
        &format!("{}: attach, resize, detach", super::team::name(team.agent)),
        format!(
            "{} rounds, {asked} dialogs; {} false, {missed} missed",
            rounds(),
            wrong.len()
        ),
    );
    assert!(wrong.is_empty() && missed == 0, "{wrong:#?}, {missed}");
    team.agent_is(&worker, "working", "screen");
    team.model.release_replies();
}

/// How often a dialog follows another.
fn dialogs() -> usize {
    rounds().div_ceil(6)
}

/// The commands of the worker that asks again and again.
fn asked_commands() -> Vec<String> {
    (0..=dialogs())
        .map(|number| format!("touch made{number}.txt"))
        .collect()
}

/// An agent that a person has started in a pane is known, and its state too.
fn started_by_hand(team: &mut Team) {
    let pane = team.test_env.shell("bash").pane_id;
    let program = match team.agent {
        TestAgent::Claude => "claude",
        TestAgent::Codex => "codex --no-daemon",
        TestAgent::Gemini => "gemini -i",
        TestAgent::Qwen => "qwen -i",
    };
    team.test_env
        .type_line(pane, &format!("{program} 'make a file'"));
    let worker = Worker {
        id: String::new(),
        pane: pane.to_string(),
    };
    until("its dialog is known", WAIT_TIMEOUT, || {
        team.status(&worker)["agent"]["state"] == "needs_input"
    });
    let status = team.status(&worker);
    let known = json!([
        status["state"],
        status["by"],
        status["agent"]["name"],
        status["agent"]["by"],
        status["agent"]["kind"],
        status["agent"]["choices"][0]["key"]
    ]);
    let name = super::team::name(team.agent);
    let wanted = json!(["needs_input", "screen", name, "screen", "permission", "1"]);
    assert_eq!(known, wanted, "{status}\n{}", team.shown(&worker));
    team.answer(&worker, "Enter");
    until("it rests", WAIT_TIMEOUT, || {
        team.status(&worker)["agent"]["state"] == "idle"
    });
    let all = team.lead.call("get_status", json!({}));
    let rows = all["panes"].as_array().expect("panes").iter();
    let mut rows = rows.filter(|row| row["pane_id"] == json!(worker.pane));
    let row = rows.next().expect("its row");
    assert_eq!(
        row["agent"],
        json!({"name": name, "state": "idle", "by": "screen"})
    );
}

const TOUCH: &[&str] = &["touch made.txt"];

macro_rules! cases {
    ($($module:ident $release:expr,)+) => {
        $(mod $module {
            use super::*;

            #[test]
            fn ends_well() {
                with($release, TOUCH, super::ends_well);
            }

            #[test]
            fn refused() {
                with($release, TOUCH, super::refused);
            }

            #[test]
            fn interrupted() {
                with($release, &[], super::interrupted);
            }

            #[test]
            fn model_error() {
                with($release, &[], super::model_error);
            }

            #[test]
            fn killed() {
                with($release, &[], super::killed);
            }

            #[test]
            fn started_by_hand() {
                with($release, TOUCH, super::started_by_hand);
            }

            #[test]
            fn looked_at() {
                let commands = asked_commands();
                let commands: Vec<&str> = commands.iter().map(String::as_str).collect();
                with($release, &commands, super::looked_at);
            }
        })+
    };
}

cases! {
    claude_code AgentRelease::Pinned(TestAgent::Claude),
    claude_code_2_1_197 AgentRelease::OlderClaude,
    codex AgentRelease::Pinned(TestAgent::Codex),
    gemini_cli AgentRelease::Pinned(TestAgent::Gemini),
    qwen_code AgentRelease::Pinned(TestAgent::Qwen),
}

/// Qwen Code is not among them: it repeats a request with status 429 for minutes, and works meanwhile.
mod usage_limit {
    use super::*;

    #[test]
    fn claude_code() {
        with(AgentRelease::Pinned(TestAgent::Claude), &[], limited);
    }

    #[test]
    fn claude_code_2_1_197() {
        with(AgentRelease::OlderClaude, &[], limited);
    }

    #[test]
    fn codex() {
        with(AgentRelease::Pinned(TestAgent::Codex), &[], limited);
    }

    #[test]
    fn gemini_cli() {
        with(AgentRelease::Pinned(TestAgent::Gemini), &[], limited);
    }
}
