//! A template's program that is no known agent and draws a dialog of its own.

use std::fs;

use fugue_testkit::{TestEnv, report_metric, until};
use serde_json::json;

use super::{
    FUGUE, WAIT_TIMEOUT,
    case::{Attempts, start_client},
    limit,
    screens::WaitingScreen,
    tries,
};

/// Draws a dialog on the alternate screen, and runs the command of its question at Enter. Other keys are recorded.
const PROGRAM: &str = r#"stty -icanon -echo
for number in $(seq 0 999); do
    printf "\033[?1049h\033[2J\033[H$1" "made-$number.txt"
    while IFS= read -rsn1 key && [ -n "$key" ]; do printf %s "$key" >> keys; done
    touch "made-$number.txt"
done
"#;

/// The looks of a dialog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DialogLook {
    /// A question with choices, as most agents draw them: it is recognised without patterns of the agent.
    Choices,
    /// A line that only a person understands.
    Line,
}

impl DialogLook {
    fn drawn(self) -> &'static str {
        match self {
            Self::Choices => r"Run touch %s?\r\n > 1. Yes\r\n   2. No\r\n",
            Self::Line => r"Approval of touch %s pending, Enter grants\r\n",
        }
    }

    fn reason(self, made: &str) -> String {
        match self {
            Self::Choices => format!(
                "shows a dialog, which only `send_input` with `keys` answers: Run touch {made}?"
            ),
            Self::Line => {
                "reads single keys and shows no empty input box of a known agent".to_owned()
            }
        }
    }
}

fn is_left_alone(look: DialogLook, backend: &str) {
    let test_env = TestEnv::new(FUGUE, limit());
    fs::write(test_env.work().join("agent.sh"), PROGRAM).expect("a program");
    test_env.configure(&format!(
        "idle_threshold_secs = 0.5\n[agents.mine]\ncommand = [\"bash\", \"agent.sh\", '{}', \"{{prompt}}\"]\n",
        look.drawn()
    ));
    let mut client = start_client(&test_env, WaitingScreen::Permission);
    let args = json!({"name": "w", "agent": "mine", "prompt": "make a file", "backend": backend});
    let spawned = client.call("spawn_worker", args);
    let (worker, pane) = (&spawned["worker_id"], &spawned["pane_id"]);
    let mut attempts = Attempts::default();
    for number in 0..tries() {
        let made = format!("made-{number}.txt");
        let reason = look.reason(&made);
        let mut shown = || -> String {
            let screen = client.call("read_pane", json!({"pane_id": pane, "mode": "screen"}));
            screen["text"].as_str().expect("a text").to_owned()
        };
        until("it asks", WAIT_TIMEOUT, || shown().contains(&made));
        let message = json!({"to": worker, "body": "please go on", "deliver": "type"});
        let sent = client.call("send_message", message);
        assert_eq!(sent["delivered"], "queued", "{sent}");
        attempts.message += 1;
        let plan = json!({"tmux_window": pane, "strategy_plan": "reach the end"});
        client.call("watch_me", plan);
        let report = json!({"tmux_window": pane, "status_report": "a part is done"});
        client.call("look_ma", report);
        let types = json!({"types": ["watcher"], "timeout_secs": 30});
        let event = client.call("wait_for_event", types);
        assert_eq!(event["decision"], "paused", "{event}");
        let why = event["reason"].as_str().expect("a reason");
        assert!(why.contains(&reason), "{why}");
        attempts.watcher += 1;
        let steps = json!({"commands": [{"command": "echo hi"}], "pane_id": pane});
        let error = client.refused("fugue_run_pipeline", steps);
        assert!(error.message.contains("is not an interactive"), "{error}");
        attempts.pipeline += 1;
        if look == DialogLook::Choices {
            let submit = json!({"pane_id": pane, "input": "please go on", "submit": true});
            let error = client.refused("send_input", submit);
            assert!(error.message.contains("shows a dialog"), "{error}");
            attempts.submit += 1;
        }
        let path = test_env.work().join(&made);
        let keys = test_env.work().join("keys");
        assert!(!path.exists() && !keys.exists(), "something was typed");
        let enter = json!({"pane_id": pane, "keys": ["Enter"]});
        client.call("send_input", enter);
        until("the key has its effect", WAIT_TIMEOUT, || path.exists());
    }
    let figures = format!("{} rounds; {attempts}; 0 answered", tries());
    let of = format!("own dialog of a template ({look:?}, {backend})");
    report_metric(&of, figures);
}

#[test]
fn choices_in_a_pane() {
    is_left_alone(DialogLook::Choices, "native");
}

#[test]
fn choices_in_tmux() {
    is_left_alone(DialogLook::Choices, "tmux");
}

#[test]
fn a_line_in_a_pane() {
    is_left_alone(DialogLook::Line, "native");
}

#[test]
fn a_line_in_tmux() {
    is_left_alone(DialogLook::Line, "tmux");
}
