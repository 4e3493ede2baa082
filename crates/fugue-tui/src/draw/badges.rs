//! Badges: a state as a sign, a word and a color.

use fugue_api::{
    attach::FrameStyle,
    overview::{PaneRow, WatcherState, WorkerState},
    pane_state::{AgentState, PaneState, SourcedState},
};

use crate::style::{BOLD, CYAN, DIM, GREEN, RED, YELLOW, add, coloured, plain, with};

pub struct StateBadge {
    pub sign: char,
    pub word: String,
    pub style: FrameStyle,
}

fn badge(sign: char, word: &str, style: FrameStyle) -> StateBadge {
    StateBadge {
        sign,
        word: word.to_owned(),
        style,
    }
}

pub fn pane_badge(state: &SourcedState) -> StateBadge {
    match state.state {
        PaneState::Running => badge('●', "working", coloured(GREEN)),
        PaneState::Idle => badge('○', "idle", plain()),
        PaneState::NeedsInput if state.secret => {
            badge('▲', "needs secret", add(coloured(YELLOW), BOLD))
        }
        PaneState::NeedsInput => badge('▲', "needs input", add(coloured(YELLOW), BOLD)),
        PaneState::Closed => badge('–', "closed", with(DIM)),
        PaneState::Exited => match (state.exit_code, &state.signal) {
            (Some(0), _) => badge('✓', "done", coloured(CYAN)),
            (Some(code), _) => badge('✗', &format!("failed {code}"), coloured(RED)),
            (None, Some(signal)) => {
                let signal = signal.strip_prefix("SIG").unwrap_or(signal);
                badge('✗', &format!("failed {signal}"), coloured(RED))
            }
            (None, None) => badge('–', "ended", with(DIM)),
        },
    }
}

/// The badge of a pane: that of its agent, where one runs.
pub fn row_badge(row: &PaneRow) -> StateBadge {
    let agent = row.agent.as_ref().map(|agent| agent.state);
    match agent {
        Some(AgentState::Working) => worker_badge(WorkerState::Working),
        Some(AgentState::Idle) => worker_badge(WorkerState::Resting),
        Some(AgentState::Paused) => worker_badge(WorkerState::Paused),
        Some(AgentState::Failed) => worker_badge(WorkerState::Failed),
        Some(AgentState::NeedsInput | AgentState::Ended) | None => pane_badge(&row.state),
    }
}

pub fn worker_badge(state: WorkerState) -> StateBadge {
    match state {
        WorkerState::Starting => badge('●', "starting", plain()),
        WorkerState::Working => badge('●', "working", coloured(GREEN)),
        WorkerState::NeedsInput => badge('▲', "needs input", add(coloured(YELLOW), BOLD)),
        WorkerState::Resting => badge('○', "idle", plain()),
        WorkerState::Paused => badge('▲', "paused", add(coloured(YELLOW), BOLD)),
        WorkerState::Failed => badge('✗', "failed", coloured(RED)),
        WorkerState::Ended => badge('–', "ended", with(DIM)),
    }
}

pub fn run_badge(status: &str) -> StateBadge {
    match status {
        "running" => badge('●', "working", coloured(GREEN)),
        "completed" | "matched" => badge('✓', "done", coloured(CYAN)),
        other => badge('✗', &crate::clean::line(other), coloured(RED)),
    }
}

pub fn watcher_badge(state: WatcherState) -> StateBadge {
    match state {
        WatcherState::Active | WatcherState::Standby => badge('○', "watches", plain()),
        WatcherState::Wait => badge('●', "waits", coloured(GREEN)),
        WatcherState::IdleSpin => badge('●', "until quiet", coloured(GREEN)),
        WatcherState::Assess => badge('●', "decides", coloured(GREEN)),
        WatcherState::Paused => badge('▲', "paused", add(coloured(YELLOW), BOLD)),
    }
}
