//! The first prompt of a pane's shell. The call that opens a pane with shell marks is answered at the first prompt, or when
//! a program of the shell's start-up files waits for input before it.

use fugue_api::pane_state::PaneState;
use fugue_term::ShellMarkKind;

/// Whether the shell of a pane has shown its first prompt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FirstPrompt {
    #[default]
    Awaited,
    Shown,
}

impl FirstPrompt {
    /// Returns whether a mark is the first prompt. `Input` marks the end of a prompt: from there on the shell reads.
    pub fn on_mark(&mut self, mark: ShellMarkKind) -> bool {
        match (*self, mark) {
            (Self::Awaited, ShellMarkKind::Input) => {
                *self = Self::Shown;
                true
            }
            (Self::Shown, _)
            | (
                Self::Awaited,
                ShellMarkKind::Prompt | ShellMarkKind::Output | ShellMarkKind::Done { .. },
            ) => false,
        }
    }

    /// Whether a pane whose output has stopped waits for input before its first prompt.
    pub fn is_preceded_by(self, state: PaneState) -> bool {
        self == Self::Awaited && state == PaneState::NeedsInput
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_the_first_prompt_is_reported_once() {
        let mut prompt = FirstPrompt::default();
        assert!(!prompt.on_mark(ShellMarkKind::Prompt));
        assert!(!prompt.on_mark(ShellMarkKind::Output));
        assert!(prompt.on_mark(ShellMarkKind::Input));
        assert!(!prompt.on_mark(ShellMarkKind::Input));
    }

    #[test]
    fn only_a_question_before_the_first_prompt_is_reported() {
        let mut prompt = FirstPrompt::default();
        assert!(prompt.is_preceded_by(PaneState::NeedsInput));
        assert!(!prompt.is_preceded_by(PaneState::Running));
        assert!(!prompt.is_preceded_by(PaneState::Idle));
        prompt.on_mark(ShellMarkKind::Input);
        assert!(!prompt.is_preceded_by(PaneState::NeedsInput));
    }
}
