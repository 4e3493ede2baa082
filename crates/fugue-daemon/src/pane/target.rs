//! Recognizes the program that has the keyboard of a pane, from its probe and its screen.

use fugue_api::pane_state::PaneState;
use fugue_core::{
    TmuxOrigin, TmuxPane,
    pane_machine::{AgentScreen, InputTarget, KeyboardSignals},
    state,
};
use fugue_holder::wire::ForegroundProbe;

use super::Pane;
use crate::agents::{
    self,
    screen::{self, ScreenPatterns},
};

impl Pane {
    pub(super) fn screen_patterns(&self) -> Option<&'static ScreenPatterns> {
        let agent = self.context.record.agent.as_deref();
        agent.and_then(agents::screen_patterns)
    }

    /// The agent's part of the screen. Without a known agent the screens of all agents are tried, because a person may have
    /// started one by hand.
    pub(super) fn agent_screen(&self) -> AgentScreen {
        let screen = self.follower.terminal.screen();
        match self.screen_patterns() {
            Some(patterns) => screen::recognize(patterns, &screen),
            None => screen::recognize_any(&screen),
        }
    }

    /// The same for whichever agent the screen shows.
    pub(super) fn any_agent_screen(&self) -> AgentScreen {
        screen::recognize_any(&self.follower.terminal.screen())
    }

    pub(super) fn target(&self, probe: &ForegroundProbe) -> InputTarget {
        let terminal = &self.follower.terminal;
        let record = &self.context.record;
        let is_found = |tmux: &TmuxPane| tmux.origin == TmuxOrigin::Found;
        let signals = KeyboardSignals {
            canonical: probe.canonical,
            has_reader: probe.reader.is_some(),
            child_in_foreground: probe.leader_in_fg,
            child_comm: &probe.child_comm,
            foreground_comm: &probe.foreground_comm,
            foreground_is_agent: agents::is_agent_process(&probe.foreground_comm),
            alternate_screen: terminal.screen().is_alternate(),
            shell: terminal.shell_state(),
            may_be_shell: record.tmux.as_ref().is_some_and(is_found)
                || state::is_interactive_shell(&record.command),
            cursor_ends_screen: self.cursor_ends_screen(),
        };
        InputTarget::detect(&signals, || self.agent_screen())
    }

    /// Whether the cursor is visible and every row below the cursor is blank.
    fn cursor_ends_screen(&self) -> bool {
        let screen = self.follower.terminal.screen();
        let below = screen.rows().skip(screen.cursor().0 + 1);
        screen.cursor_visible() && below.into_iter().all(|row| row.trim().is_empty())
    }

    /// Whether a program waits for a person's answer.
    pub(super) fn needs_person(&self, probe: &ForegroundProbe) -> bool {
        self.state(probe).state == PaneState::NeedsInput
    }
}
