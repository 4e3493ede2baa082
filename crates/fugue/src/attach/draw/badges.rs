//! States, each as a sign, a word and a colour.

use fugue_api::{
    attach::FrameStyle,
    overview::{WatcherState, WorkerState},
    pane_state::{PaneState, SourcedState},
};

use crate::attach::looks::{BOLD, CYAN, DIM, GREEN, RED, YELLOW, add, coloured, plain, with};

pub struct Badge {
    pub sign: char,
    pub word: String,
    pub look: FrameStyle,
}

fn of(sign: char, word: &str, look: FrameStyle) -> Badge {
    Badge {
        sign,
        word: word.to_owned(),
        look,
    }
}

pub fn badge(state: &SourcedState) -> Badge {
    match state.state {
        PaneState::Running => of('●', "working", coloured(GREEN)),
        PaneState::Idle => of('○', "idle", plain()),
        PaneState::NeedsInput if state.secret => {
            of('▲', "needs secret", add(coloured(YELLOW), BOLD))
        }
        PaneState::NeedsInput => of('▲', "needs input", add(coloured(YELLOW), BOLD)),
        PaneState::Closed => of('–', "closed", with(DIM)),
        PaneState::Exited => match (state.exit_code, &state.signal) {
            (Some(0), _) => of('✓', "done", coloured(CYAN)),
            (Some(code), _) => of('✗', &format!("failed {code}"), coloured(RED)),
            (None, Some(signal)) => {
                let signal = signal.strip_prefix("SIG").unwrap_or(signal);
                of('✗', &format!("failed {signal}"), coloured(RED))
            }
            (None, None) => of('–', "ended", with(DIM)),
        },
    }
}

pub fn of_worker(state: WorkerState) -> Badge {
    match state {
        WorkerState::Starting => of('●', "starting", plain()),
        WorkerState::Working => of('●', "working", coloured(GREEN)),
        WorkerState::NeedsInput => of('▲', "needs input", add(coloured(YELLOW), BOLD)),
        WorkerState::Resting => of('○', "idle", plain()),
        WorkerState::Ended => of('–', "ended", with(DIM)),
    }
}

pub fn of_run(status: &str) -> Badge {
    match status {
        "running" => of('●', "working", coloured(GREEN)),
        "completed" | "matched" => of('✓', "done", coloured(CYAN)),
        other => of('✗', &crate::attach::clean::line(other), coloured(RED)),
    }
}

pub fn of_watcher(state: WatcherState) -> Badge {
    match state {
        WatcherState::Active | WatcherState::Standby => of('○', "watches", plain()),
        WatcherState::Wait => of('●', "waits", coloured(GREEN)),
        WatcherState::IdleSpin => of('●', "until quiet", coloured(GREEN)),
        WatcherState::Assess => of('●', "decides", coloured(GREEN)),
        WatcherState::Paused => of('▲', "paused", add(coloured(YELLOW), BOLD)),
    }
}
