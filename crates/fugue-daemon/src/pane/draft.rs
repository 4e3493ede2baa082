//! The draft of a pane: passes typed bytes and the screen to the [`DraftTracker`].

use std::time::Instant;

use fugue_core::pane_machine::{BoxContent, DraftView, ShownDraft, TypingSource, reports_focus};
use fugue_term::ShellState;

use super::Pane;

impl Pane {
    fn with_draft_view<T>(&self, f: impl FnOnce(&DraftView<'_>) -> T) -> T {
        let terminal = &self.follower.terminal;
        f(&DraftView {
            now: Instant::now(),
            offset: terminal.offset().0,
            shell: terminal.shell_state(),
            shown: &|| self.shown_draft(),
        })
    }

    /// Records typed bytes. Every typing starts a watcher's time of quiet again.
    pub(super) fn record_typing(&mut self, source: TypingSource, bytes: &[u8]) {
        let is_foreign = source == TypingSource::Program && self.shows_foreign_draft();
        let mut draft = std::mem::take(&mut self.draft);
        let is_typed = self.with_draft_view(|view| draft.record_typing(source, bytes, view));
        if is_foreign {
            draft.disown_line();
        }
        self.draft = draft;
        if reports_focus(bytes) {
            self.idle.on_redraw(Instant::now());
        }
        if self.has_agent() && bytes.ends_with(b"\r") {
            self.idle.on_enter(Instant::now());
        }
        if is_typed {
            self.quiet.on_activity(self.last_activity());
        }
    }

    /// Whether a text stands in the pane that was begun and not sent.
    pub(super) fn has_draft(&self) -> bool {
        self.with_draft_view(|view| self.draft.has_draft(view))
    }

    /// Whether input of others has to wait for a person.
    pub(super) fn is_person_typing(&self) -> bool {
        self.with_draft_view(|view| self.draft.is_person_typing(view))
    }

    /// When `is_person_typing` may change without output or typing.
    pub(super) fn draft_recheck_at(&self) -> Option<Instant> {
        self.with_draft_view(|view| self.draft.recheck_at(view))
    }

    /// Whether an agent's input box holds a text that was not typed through fugue: a person's keys in tmux do not pass here.
    pub(super) fn shows_foreign_draft(&self) -> bool {
        let typed_here = self.draft.is_begun_here() || self.inputs.left_unsent();
        let is_tmux = self.context.record.tmux.is_some();
        is_tmux && !typed_here && self.agent_screen().input == BoxContent::UnsentText
    }

    /// The text where typed text would appear, if the screen has a place for it.
    fn shown_draft(&self) -> Option<ShownDraft> {
        let terminal = &self.follower.terminal;
        match self.agent_screen().input {
            BoxContent::UnsentText => return Some(ShownDraft::BoxFilled),
            BoxContent::Empty => return Some(ShownDraft::BoxEmpty),
            BoxContent::Unrecognized => {}
        }
        match terminal.shell_state() {
            ShellState::AtPrompt { since } => {
                let typed = terminal
                    .lines_between(since, terminal.end(), usize::MAX)
                    .lines;
                let is_filled = typed.iter().any(|line| !line.text.trim().is_empty());
                Some(match is_filled {
                    true => ShownDraft::PromptFilled,
                    false => ShownDraft::PromptEmpty,
                })
            }
            ShellState::Unknown | ShellState::Prompting { .. } | ShellState::Running { .. } => None,
        }
    }
}
