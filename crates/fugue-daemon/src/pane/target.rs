//! What would take a text that is typed now: a line, the input box of an agent, or something that nobody knows.
//!
//! Text that fugue types by itself or for somebody else (a watcher's line, a message) goes to a program that takes lines, or
//! into the empty input box of an agent, and nowhere else: what looks idle may be a dialog, whose answer it would be.
//! A caller of `send_input` types into any program; only an Enter behind a text does not answer a dialog.

use fugue_api::{Error, ErrorKind, pane_state::PaneState, tools::SendInput};
use fugue_core::{TmuxOrigin, TmuxPane, state};
use fugue_holder::wire::ForegroundProbe;
use fugue_term::ShellState;

use super::Pane;
use crate::agents::{
    self,
    screen::{self, AgentScreen, InputBox, ScreenPatterns},
};

/// What has the keyboard.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// A shell at its prompt, or a program for which the terminal assembles lines.
    Lines,
    /// The input box of an agent, with nothing in it.
    EmptyBox,
    /// The same with somebody's text in it.
    FilledBox,
    /// A dialog of an agent, with its question.
    Dialog(String),
    /// A program that reads single keys and shows no input box of an agent.
    Keys,
}

impl Target {
    /// Why fugue types nothing into it by itself, if that will not change by waiting a little.
    pub(super) fn obstacle(&self) -> Option<String> {
        match self {
            Self::Lines | Self::EmptyBox | Self::FilledBox => None,
            Self::Dialog(question) => Some(format!(
                "its program shows a dialog, which only `send_input` with `keys` answers: {question}"
            )),
            Self::Keys => Some(
                "its program reads single keys and shows no empty input box of a known agent"
                    .to_owned(),
            ),
        }
    }

    /// Why an input of a caller is not typed into it.
    pub(super) fn refusal(&self, args: &SendInput) -> Option<Error> {
        let Self::Dialog(question) = self else {
            return None;
        };
        let text = args.input.as_deref().unwrap_or_default();
        // A line break in a text is an Enter, wherever it stands.
        let enters = args.submit || text.contains(['\n', '\r']);
        enters.then(|| {
            let message = format!(
                "`{}` shows a dialog, and `submit` or a newline would answer it; nothing was typed: {question}",
                args.pane_id
            );
            Error::new(ErrorKind::Unavailable, message)
                .hint("answer it with `keys`, such as `Enter`, `Down` or `Escape`; `read_pane` with mode `screen` shows it")
        })
    }
}

impl Pane {
    pub(super) fn vendor(&self) -> Option<&'static ScreenPatterns> {
        let agent = self.seat.record.agent.as_deref();
        agent.and_then(agents::screen_patterns)
    }

    /// What the screen shows, whoever started what is in it.
    pub(super) fn look(&self) -> AgentScreen {
        let screen = self.follower.terminal.screen();
        match self.vendor() {
            Some(vendor) => screen::look_at(vendor, &screen),
            None => screen::look_at_any(&screen),
        }
    }

    pub(super) fn target(&self, probe: &ForegroundProbe) -> Target {
        if self.takes_lines(probe) {
            return Target::Lines;
        }
        let look = self.look();
        match (look.dialog, look.input) {
            (Some(question), _) => Target::Dialog(question),
            (None, InputBox::Empty) => Target::EmptyBox,
            (None, InputBox::Draft) => Target::FilledBox,
            (None, InputBox::Unknown) => Target::Keys,
        }
    }

    fn takes_lines(&self, probe: &ForegroundProbe) -> bool {
        // An agent that starts has not switched line mode off; what is typed by then gets to its first dialog.
        let agent = || agents::is_agent_process(&probe.foreground_comm);
        if probe.canonical {
            return probe.reader.is_some() || !agent();
        }
        let terminal = &self.follower.terminal;
        if terminal.screen().is_alternate() || !probe.leader_in_fg {
            return false;
        }
        match terminal.shell_state() {
            ShellState::AtPrompt { .. } => true,
            ShellState::Unknown => self.is_bare_shell(probe) && self.cursor_ends_the_screen(),
            ShellState::Prompting { .. } | ShellState::Running { .. } => false,
        }
    }

    /// Whether the pane is a shell without marks, as in a person's own tmux, that has the terminal itself.
    fn is_bare_shell(&self, probe: &ForegroundProbe) -> bool {
        let record = &self.seat.record;
        let found = |tmux: &TmuxPane| tmux.origin == TmuxOrigin::Found;
        let started =
            record.tmux.as_ref().is_some_and(found) || state::is_interactive_shell(&record.command);
        // A login shell has a dash in front of its name.
        let name = probe.child_comm.trim_start_matches('-');
        started && probe.foreground_comm == probe.child_comm && state::is_interactive_shell(name)
    }

    /// A line editor shows its cursor and has nothing below it.
    fn cursor_ends_the_screen(&self) -> bool {
        let screen = self.follower.terminal.screen();
        let below = screen.rows().skip(screen.cursor().0 + 1);
        screen.cursor_visible() && below.into_iter().all(|row| row.trim().is_empty())
    }

    /// Whether a program waits for a person, and not for the next line of a watcher or a message.
    pub(super) fn asks_a_person(&self, probe: &ForegroundProbe) -> bool {
        self.state(probe).state == PaneState::NeedsInput
    }
}
