//! One file per verb.

pub mod answer;
pub mod ask;
pub mod attach;
pub mod cancel;
pub mod clear;
pub mod close;
pub mod completions;
pub mod config;
pub mod corpus;
pub mod daemon;
pub mod doctor;
pub mod events;
pub mod expect;
pub mod gc;
pub mod help;
pub mod hook;
pub mod look;
pub mod ls;
pub mod man;
pub mod mcp;
pub mod message;
pub mod new;
pub mod notify;
pub mod parallel;
pub mod pause;
pub mod pipeline;
pub mod read;
pub mod resize;
pub mod schema;
pub mod send;
pub mod spawn;
pub mod status;
pub mod wait;
pub mod watch;
pub mod worktree;

use fugue_api::{
    Error, Handle, OsText, Tool,
    overview::{WatcherRow, WatcherState, WorkerRow, WorkerState},
    pane_state::{AgentState, AgentStatus, PaneState, SourcedState},
    wire::{CallerEnv, SettingNames},
};

pub use fugue_client::display::quoted;

use crate::{cli::CliContext, out::WordTone};

/// The launch environment of this process, for new panes.
pub fn caller() -> Result<CallerEnv, Error> {
    let cwd = std::env::current_dir().map_err(|error| {
        Error::unavailable(format!("the current directory: {error}"))
            .hint("cd somewhere that exists")
    })?;
    // umask can only be read by setting it. No other thread runs yet.
    let umask = rustix::process::umask(rustix::fs::Mode::empty());
    rustix::process::umask(umask);
    Ok(CallerEnv {
        cwd: OsText::from(cwd.into_os_string()),
        env: std::env::vars_os()
            .map(|(key, value)| (key.into(), value.into()))
            .collect(),
        umask: umask.as_raw_mode(),
        setting_names: SettingNames::Prefixed,
    })
}

/// Calls a tool and returns the reply.
pub async fn call<T: Tool>(cx: &CliContext, args: T) -> Result<T::Reply, Error> {
    let delivery = cx.client.call(args.into()).await?;
    delivery.reply.read_as::<T>()
}

/// A pane state as text, with its tone.
pub fn state_word(state: &SourcedState) -> (String, WordTone) {
    match state.state {
        PaneState::Running => ("running".into(), WordTone::Good),
        PaneState::Idle => ("idle".into(), WordTone::Plain),
        PaneState::NeedsInput => {
            let prompt = state.prompt.as_deref().filter(|prompt| !prompt.is_empty());
            (
                prompt.map_or_else(
                    || "needs input".into(),
                    |prompt| format!("needs input: {prompt}"),
                ),
                WordTone::Needy,
            )
        }
        PaneState::Exited | PaneState::Closed => {
            let word = if state.state == PaneState::Exited {
                "exited"
            } else {
                "closed"
            };
            match (&state.exit_code, &state.signal) {
                (Some(0), _) => (format!("{word} 0"), WordTone::Faint),
                (Some(code), _) => (format!("{word} {code}"), WordTone::Bad),
                (None, Some(signal)) => (format!("{word} {signal}"), WordTone::Bad),
                (None, None) => (format!("{word} ?"), WordTone::Faint),
            }
        }
    }
}

/// The state of a pane: that of its agent, where one runs.
pub fn pane_word(state: &SourcedState, agent: Option<&AgentStatus>) -> (String, WordTone) {
    agent.map_or_else(|| state_word(state), |agent| agent_word(state, agent))
}

/// What an agent is doing.
pub fn agent_word(state: &SourcedState, agent: &AgentStatus) -> (String, WordTone) {
    let name = &agent.name;
    match agent.state {
        AgentState::Working => (format!("{name} works"), WordTone::Good),
        AgentState::Idle => (format!("{name} is idle"), WordTone::Plain),
        AgentState::Paused => {
            let until = agent.resume_at.as_ref();
            let until = until.map_or(String::new(), |at| format!(" until {at}"));
            (
                format!("{name} is paused by a limit{until}"),
                WordTone::Needy,
            )
        }
        AgentState::Failed => (format!("{name} failed"), WordTone::Bad),
        AgentState::NeedsInput | AgentState::Ended => state_word(state),
    }
}

/// The state of a worker and the number of its turn.
pub fn worker_word(worker: &WorkerRow) -> (String, WordTone) {
    let (word, tone) = match worker.state {
        WorkerState::Starting => ("starting", WordTone::Plain),
        WorkerState::Working => ("working", WordTone::Good),
        WorkerState::NeedsInput => ("needs input", WordTone::Needy),
        WorkerState::Resting => ("resting", WordTone::Plain),
        WorkerState::Paused => ("paused by a limit", WordTone::Needy),
        WorkerState::Failed => ("failed", WordTone::Bad),
        WorkerState::Ended => ("ended", WordTone::Faint),
    };
    (format!("{word}, turn {}", worker.turn), tone)
}

/// The state of a watcher and its last decision.
pub fn watcher_word(watcher: &WatcherRow) -> (String, WordTone) {
    let (word, tone) = match watcher.state {
        WatcherState::Active => ("waits for a report", WordTone::Plain),
        WatcherState::Wait => ("waits", WordTone::Good),
        WatcherState::IdleSpin => ("waits for quiet", WordTone::Good),
        WatcherState::Assess => ("decides", WordTone::Good),
        WatcherState::Standby => ("waits for the next report", WordTone::Plain),
        WatcherState::Paused => ("paused", WordTone::Needy),
    };
    let decided = watcher.decision.as_ref();
    let decided = decided.filter(|_| watcher.state != WatcherState::Paused);
    let decided = decided.map(|decision| format!(" (last: {decision})"));
    (format!("{word}{}", decided.unwrap_or_default()), tone)
}
