//! Screens of real agents that wait for a person: dialogs and a draft, in a pane, in the person's own tmux and of workers.
//! No watcher, message, pipeline or text with Enter answers a dialog or joins a draft, and each says why; only keys do.
//!
//! `scripts/test` runs a sample, `scripts/test --agents` the whole matrix. `FUGUE_TRIES` repeats every case.

mod case;
mod own_dialog;
mod screens;
mod setup;
mod watcher_command;

use std::time::Duration;

use fugue_testkit::report_metric;

use self::{
    case::{AgentLocation, DialogCase},
    screens::{AgentRelease, WaitingScreen},
};

const FUGUE: &str = env!("CARGO_BIN_EXE_fugue");
const WAIT_TIMEOUT: Duration = Duration::from_secs(60);

/// How often each screen is tried: once, or as often as `FUGUE_TRIES` demands.
fn tries() -> usize {
    let said = std::env::var("FUGUE_TRIES").ok();
    said.and_then(|number| number.parse().ok()).unwrap_or(1)
}

fn limit() -> Duration {
    Duration::from_secs(180 + 60 * tries() as u64)
}

fn is_left_alone(agent: AgentRelease, screen: WaitingScreen, location: AgentLocation) {
    let Some(mut case) = DialogCase::open(agent, screen, location) else {
        return;
    };
    for number in 0..tries() {
        case.bring_up(number);
        case.try_everything(number);
        case.press_keys(number);
    }
    let attempts = case.end();
    let of = format!(
        "{} of {} {}",
        screen.name(),
        agent.name(),
        location.place_name()
    );
    let figures = format!("{} rounds; {attempts}; 0 answered", tries());
    report_metric(&of, figures);
}

/// A test per line: its name, the screen and where the agent runs.
macro_rules! left_alone {
    ($release:ident: $($test:ident $screen:ident $location:ident,)+) => {
        $(#[test]
        fn $test() {
            is_left_alone(AgentRelease::$release, WaitingScreen::$screen, AgentLocation::$location);
        })+
    };
}

/// Every screen of agents that a person started by hand.
macro_rules! by_hand {
    ($($agent:ident $release:ident,)+) => {
        $(mod $agent {
            use super::*;

            left_alone! { $release:
                permission_in_a_pane Permission Pane,
                trust_in_a_pane Trust Pane,
                login_in_a_pane Login Pane,
                model_picker_in_a_pane ModelPicker Pane,
                draft_in_a_pane Draft Pane,
                permission_in_tmux Permission Tmux,
                trust_in_tmux Trust Tmux,
                login_in_tmux Login Tmux,
                model_picker_in_tmux ModelPicker Tmux,
                draft_in_tmux Draft Tmux,
            }
        })+
    };
}

/// Screens at which a message is typed to a worker.
macro_rules! of_workers {
    ($($agent:ident $release:ident $location:ident,)+) => {
        $(mod $agent {
            use super::*;

            left_alone! { $release:
                permission Permission $location,
                trust Trust $location,
                model_picker ModelPicker $location,
                draft Draft $location,
            }
        })+
    };
}

/// Screens of workers in panes that fugue creates in tmux.
macro_rules! of_workers_in_tmux {
    ($($agent:ident $release:ident,)+) => {
        $(mod $agent {
            use super::*;

            left_alone! { $release:
                permission Permission WorkerInTmux,
                draft Draft WorkerInTmux,
            }
        })+
    };
}

by_hand! {
    claude_code Claude,
    claude_code_2_1_197 OlderClaude,
    codex Codex,
    gemini_cli Gemini,
    qwen_code Qwen,
}

mod gemini_cli_login_code {
    use super::*;

    left_alone! { Gemini:
        in_a_pane LoginCode Pane,
        in_tmux LoginCode Tmux,
    }
}

of_workers! {
    claude_code_worker Claude Worker,
    claude_code_2_1_197_worker OlderClaude Worker,
    codex_worker Codex Worker,
    gemini_cli_worker Gemini Worker,
    qwen_code_worker Qwen Worker,
    template_worker Claude TemplateWorker,
}

of_workers_in_tmux! {
    claude_code_worker_in_tmux Claude,
    claude_code_2_1_197_worker_in_tmux OlderClaude,
    codex_worker_in_tmux Codex,
    gemini_cli_worker_in_tmux Gemini,
    qwen_code_worker_in_tmux Qwen,
}
