//! The state of a live pane, with its source.
//!
//! Facts come before guesses: first a request for a secret, then shell marks, then the kernel's view of the process that
//! reads the terminal, and only then the time without output.

use std::path::Path;

use fugue_api::pane_state::{PaneState, SourcedState, StateSource};

/// The signals of a live pane at one moment.
#[derive(Clone, Debug, Default)]
pub struct StateSignals {
    pub shell: ShellSignal,
    pub tty: TtySignal,
    /// The pane is an interactive shell: a read of the terminal by the pane's own process is its prompt.
    pub interactive: bool,
    /// The line of the terminal's cursor, up to the cursor.
    pub prompt_line: String,
    pub silent_ms: u64,
    pub idle_threshold_ms: u64,
}

/// The last shell mark of a shell with integration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ShellSignal {
    #[default]
    Nothing,
    AtPrompt,
    Running,
}

/// The process that waits in a read of the pane's terminal, in line mode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TtySignal {
    /// No process, or an unknown one.
    #[default]
    Nothing,
    /// The pane's own process waits for a line.
    OwnProcessReads,
    /// Another program of the pane waits for a line.
    ProgramReads,
    /// A program waits for a secret: echo is off.
    SecretWanted,
}

pub fn derive_state(signs: &StateSignals) -> SourcedState {
    let asks = |secret| {
        let prompt = signs.prompt_line.trim().to_owned();
        SourcedState {
            prompt: Some(prompt),
            secret,
            ..SourcedState::new(PaneState::NeedsInput, StateSource::TtyRead)
        }
    };
    match (signs.shell, signs.tty) {
        (_, TtySignal::SecretWanted) => asks(true),
        (ShellSignal::AtPrompt, _) => SourcedState::new(PaneState::Idle, StateSource::ShellMark),
        (ShellSignal::Nothing, TtySignal::OwnProcessReads) if signs.interactive => {
            SourcedState::new(PaneState::Idle, StateSource::TtyRead)
        }
        (_, TtySignal::OwnProcessReads | TtySignal::ProgramReads) => asks(false),
        (_, TtySignal::Nothing) if signs.silent_ms > signs.idle_threshold_ms => {
            SourcedState::new(PaneState::Idle, StateSource::Silence)
        }
        (ShellSignal::Running, TtySignal::Nothing) => {
            SourcedState::new(PaneState::Running, StateSource::ShellMark)
        }
        (ShellSignal::Nothing, TtySignal::Nothing) => {
            SourcedState::new(PaneState::Running, StateSource::Silence)
        }
    }
}

/// Whether a command is an interactive shell, whose read of the terminal is its prompt.
pub fn is_interactive_shell(command: &str) -> bool {
    const SHELLS: &[&str] = &[
        "sh", "dash", "ash", "bash", "zsh", "fish", "ksh", "mksh", "busybox",
    ];
    let mut words = command.split_whitespace();
    let name = words
        .next()
        .and_then(|word| Path::new(word).file_name())
        .and_then(|name| name.to_str());
    name.is_some_and(|name| SHELLS.contains(&name))
        && words.all(|word| word == "-i" || word == "-l")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_for_a_person_is_told_from_a_command() {
        for yes in ["/bin/dash", "sh", "/usr/bin/bash -i", "zsh -l"] {
            assert!(is_interactive_shell(yes), "{yes}");
        }
        for no in ["cat", "bash -c 'read x'", "sh script.sh", ""] {
            assert!(!is_interactive_shell(no), "{no}");
        }
    }

    fn check(
        shell: ShellSignal,
        tty: TtySignal,
        interactive: bool,
        silent_ms: u64,
        state: PaneState,
        by: StateSource,
    ) {
        let signs = StateSignals {
            shell,
            tty,
            interactive,
            silent_ms,
            idle_threshold_ms: 3000,
            prompt_line: "Name? ".into(),
        };
        let got = derive_state(&signs);
        assert_eq!((got.state, got.by), (state, by), "{signs:?}");
        assert_eq!(got.prompt.is_some(), state == PaneState::NeedsInput);
    }

    #[test]
    fn the_shells_own_word_comes_first() {
        check(
            ShellSignal::AtPrompt,
            TtySignal::Nothing,
            true,
            0,
            PaneState::Idle,
            StateSource::ShellMark,
        );
        check(
            ShellSignal::Running,
            TtySignal::Nothing,
            true,
            0,
            PaneState::Running,
            StateSource::ShellMark,
        );
    }

    #[test]
    fn a_program_that_reads_the_terminal_needs_input() {
        check(
            ShellSignal::Running,
            TtySignal::ProgramReads,
            true,
            9000,
            PaneState::NeedsInput,
            StateSource::TtyRead,
        );
        check(
            ShellSignal::Nothing,
            TtySignal::OwnProcessReads,
            false,
            0,
            PaneState::NeedsInput,
            StateSource::TtyRead,
        );
        check(
            ShellSignal::Running,
            TtySignal::OwnProcessReads,
            true,
            0,
            PaneState::NeedsInput,
            StateSource::TtyRead,
        );
        check(
            ShellSignal::Running,
            TtySignal::SecretWanted,
            true,
            0,
            PaneState::NeedsInput,
            StateSource::TtyRead,
        );
    }

    #[test]
    fn a_shell_without_integration_that_reads_is_at_its_prompt() {
        check(
            ShellSignal::Nothing,
            TtySignal::OwnProcessReads,
            true,
            0,
            PaneState::Idle,
            StateSource::TtyRead,
        );
    }

    #[test]
    fn silence_is_the_last_resort() {
        check(
            ShellSignal::Nothing,
            TtySignal::Nothing,
            false,
            3000,
            PaneState::Running,
            StateSource::Silence,
        );
        check(
            ShellSignal::Nothing,
            TtySignal::Nothing,
            false,
            3001,
            PaneState::Idle,
            StateSource::Silence,
        );
        check(
            ShellSignal::Running,
            TtySignal::Nothing,
            true,
            3001,
            PaneState::Idle,
            StateSource::Silence,
        );
    }
}
