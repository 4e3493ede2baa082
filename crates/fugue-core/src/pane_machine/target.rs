//! The program that would receive typed text: a line reader, the input box of an agent, or something unrecognized.
//!
//! Text that fugue types on behalf of a watcher or a message goes to a program that reads lines or into the empty input
//! box of an agent, and nowhere else: an idle-looking screen may be a dialog that the text would answer. `send_input` types
//! into any program; while a dialog is shown, a `send_input` with Enter is refused as a whole, and `keys` are typed.

use fugue_api::{Error, ErrorKind, tools::SendInput};
use fugue_term::ShellState;

use super::AgentDialog;
use crate::{state, typing::AgentInputBox};

/// The program that has the keyboard.
#[derive(Debug, PartialEq, Eq)]
pub enum InputTarget {
    /// A shell at its prompt, or a program for which the terminal assembles lines.
    Lines,
    /// The empty input box of an agent.
    EmptyBox,
    /// The input box of an agent with unsent text in it.
    FilledBox,
    /// A dialog of an agent, with its question.
    Dialog(String),
    /// A program that reads single keys and shows no input box of an agent.
    Keys,
}

/// The parts of an agent's screen that decide about typing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentScreen {
    /// A dialog that waits for a person.
    pub dialog: Option<AgentDialog>,
    pub input: BoxContent,
    /// The agent displays that it is at work; a key would interrupt the work.
    pub working: bool,
}

/// The contents of an agent's input box.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BoxContent {
    /// Nothing, or the agent's own hint.
    Empty,
    /// An unsent text.
    UnsentText,
    /// The screen shows no input box that is recognized.
    #[default]
    Unrecognized,
}

impl AgentScreen {
    pub fn input_box(&self) -> AgentInputBox {
        match (&self.dialog, self.input) {
            (Some(_), _) => AgentInputBox::Dialog,
            (None, BoxContent::Empty) => AgentInputBox::Empty,
            (None, BoxContent::UnsentText) => AgentInputBox::Filled,
            (None, BoxContent::Unrecognized) => AgentInputBox::Absent,
        }
    }
}

/// The kernel's and the terminal's view of the program that reads the keyboard.
#[derive(Clone, Copy, Debug, Default)]
pub struct KeyboardSignals<'a> {
    /// The terminal is in line mode.
    pub canonical: bool,
    /// A foreground process waits in a read of the terminal.
    pub has_reader: bool,
    /// The pane's own child is in the foreground.
    pub child_in_foreground: bool,
    pub child_comm: &'a str,
    pub foreground_comm: &'a str,
    /// The foreground process can be a built-in agent, by its name in the kernel.
    pub foreground_is_agent: bool,
    pub alternate_screen: bool,
    pub shell: ShellState,
    /// The pane was started as an interactive shell, or found in a person's tmux.
    pub may_be_shell: bool,
    /// The cursor is visible, and every row below the cursor is blank, as a line editor leaves the screen.
    pub cursor_ends_screen: bool,
}

impl KeyboardSignals<'_> {
    fn takes_lines(&self) -> bool {
        if self.canonical {
            // An agent that starts has not left line mode yet; input typed by then would reach its first dialog.
            return self.has_reader || !self.foreground_is_agent;
        }
        if self.alternate_screen || !self.child_in_foreground {
            return false;
        }
        match self.shell {
            ShellState::AtPrompt { .. } => true,
            ShellState::Unknown => self.is_bare_shell() && self.cursor_ends_screen,
            ShellState::Prompting { .. } | ShellState::Running { .. } => false,
        }
    }

    /// Whether the pane is a shell without shell marks, as in a person's own tmux, that has the terminal itself.
    fn is_bare_shell(&self) -> bool {
        // A login shell has a dash in front of its name.
        let name = self.child_comm.trim_start_matches('-');
        self.may_be_shell
            && self.foreground_comm == self.child_comm
            && state::is_interactive_shell(name)
    }
}

impl InputTarget {
    /// Recognizes the program that has the keyboard.
    pub fn detect(
        signals: &KeyboardSignals<'_>,
        screen: impl FnOnce() -> AgentScreen,
    ) -> InputTarget {
        if signals.takes_lines() {
            return InputTarget::Lines;
        }
        let screen = screen();
        match (screen.dialog, screen.input) {
            (Some(dialog), _) => InputTarget::Dialog(dialog.text()),
            (None, BoxContent::Empty) => InputTarget::EmptyBox,
            (None, BoxContent::UnsentText) => InputTarget::FilledBox,
            (None, BoxContent::Unrecognized) => InputTarget::Keys,
        }
    }

    /// Why fugue types nothing into the target by itself, if a short wait does not change that. `FilledBox` has no such
    /// reason and is still not typed into: `admit` of the input queue lets the text wait.
    pub fn obstacle(&self) -> Option<String> {
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

    /// Why fugue does not type this text into the target by itself. Into an agent's box goes only what the agent takes for
    /// a text: it would run a command that a model has begun with `!` without asking its person.
    pub fn obstacle_to(&self, text: &str) -> Option<String> {
        let sign = text.trim_start().chars().next();
        let sign = sign.filter(|sign| *self == Self::EmptyBox && may_begin_command(*sign));
        let why = sign.map(|sign| {
            format!("the line begins with `{sign}`, which its agent would take for a command and not for a text")
        });
        why.or_else(|| self.obstacle())
    }

    /// The error for a `send_input` that must not be typed into the target.
    pub fn refusal(&self, args: &SendInput) -> Option<Error> {
        let Self::Dialog(question) = self else {
            return None;
        };
        args.presses_enter().then(|| {
            let message = format!(
                "`{}` shows a dialog, and `submit` or a newline would answer it; nothing was typed: {question}",
                args.pane_id
            );
            Error::new(ErrorKind::Unavailable, message)
                .hint("answer it with `keys`, such as `Enter`, `Down` or `Escape`; `read_pane` with mode `screen` shows it")
        })
    }
}

/// Whether an agent may take a text that begins with this sign for a command of its own: `!` runs a shell command, `/` a
/// command of the agent or the repository, `#` and `&` store or send the text elsewhere. Signs in which a sentence begins
/// are free; full-width ones count as the ASCII ones.
fn may_begin_command(sign: char) -> bool {
    let sign = match sign {
        '\u{ff01}'..='\u{ff5e}' => char::from_u32(u32::from(sign) - 0xfee0).unwrap_or(sign),
        sign => sign,
    };
    sign.is_ascii_punctuation() && !"\"'`([*-_.".contains(sign)
}

#[cfg(test)]
mod tests {
    use fugue_api::tools::PasteMode;
    use fugue_term::TextCursor;

    use super::*;

    fn lines(signals: KeyboardSignals<'_>) -> bool {
        InputTarget::detect(&signals, AgentScreen::default) == InputTarget::Lines
    }

    #[test]
    fn a_terminal_in_line_mode_takes_lines_but_for_an_agent_that_starts() {
        let canonical = KeyboardSignals {
            canonical: true,
            foreground_comm: "cat",
            ..KeyboardSignals::default()
        };
        assert!(lines(canonical));
        let starting = KeyboardSignals {
            foreground_comm: "node",
            foreground_is_agent: true,
            ..canonical
        };
        assert!(!lines(starting));
        assert!(lines(KeyboardSignals {
            has_reader: true,
            ..starting
        }));
    }

    #[test]
    fn a_shell_takes_lines_at_its_prompt() {
        let since = TextCursor::default();
        let shell = KeyboardSignals {
            child_in_foreground: true,
            shell: ShellState::AtPrompt { since },
            ..KeyboardSignals::default()
        };
        assert!(lines(shell));
        for other in [
            KeyboardSignals {
                alternate_screen: true,
                ..shell
            },
            KeyboardSignals {
                child_in_foreground: false,
                ..shell
            },
            KeyboardSignals {
                shell: ShellState::Running { since },
                ..shell
            },
        ] {
            assert!(!lines(other), "{other:?}");
        }
    }

    #[test]
    fn a_shell_without_marks_is_known_by_its_process_and_its_cursor() {
        let bare = KeyboardSignals {
            child_in_foreground: true,
            child_comm: "-zsh",
            foreground_comm: "-zsh",
            may_be_shell: true,
            cursor_ends_screen: true,
            ..KeyboardSignals::default()
        };
        assert!(lines(bare));
        for other in [
            KeyboardSignals {
                cursor_ends_screen: false,
                ..bare
            },
            KeyboardSignals {
                may_be_shell: false,
                ..bare
            },
            KeyboardSignals {
                foreground_comm: "vim",
                ..bare
            },
        ] {
            assert!(!lines(other), "{other:?}");
        }
    }

    #[test]
    fn elsewhere_the_screen_decides() {
        use BoxContent::{Empty, Unrecognized, UnsentText};
        let asks = || Some(AgentDialog::unknown("Proceed?"));
        for (dialog, input, target, typed) in [
            (None, Empty, InputTarget::EmptyBox, AgentInputBox::Empty),
            (
                None,
                UnsentText,
                InputTarget::FilledBox,
                AgentInputBox::Filled,
            ),
            (None, Unrecognized, InputTarget::Keys, AgentInputBox::Absent),
            (
                asks(),
                Empty,
                InputTarget::Dialog("Proceed?".into()),
                AgentInputBox::Dialog,
            ),
        ] {
            let screen = AgentScreen {
                dialog,
                input,
                ..AgentScreen::default()
            };
            assert_eq!(screen.input_box(), typed);
            let found = InputTarget::detect(&KeyboardSignals::default(), || screen);
            assert_eq!(found, target);
        }
    }

    #[test]
    fn a_command_of_an_agent_is_not_typed_into_its_box() {
        for command in [
            "!touch x", " !x", "/clear", "#note", "@file", "&x", "$skill", "?", ":q", "！x", "／x",
        ] {
            let why = InputTarget::EmptyBox.obstacle_to(command).unwrap();
            assert!(why.contains("would take for a command"), "{why}");
            // A shell runs every line.
            assert_eq!(InputTarget::Lines.obstacle_to(command), None);
        }
        for text in [
            "go on",
            "",
            "`make` fails",
            "\"x\" is unused",
            "(then stop)",
            "- run it",
            "3 are left",
            "Ünder",
            "続けて",
            "「x」",
            "…",
        ] {
            assert_eq!(InputTarget::EmptyBox.obstacle_to(text), None, "{text}");
        }
        assert_eq!(
            InputTarget::Keys.obstacle_to("go on"),
            InputTarget::Keys.obstacle()
        );
    }

    #[test]
    fn only_an_enter_into_a_dialog_is_refused() {
        let input = |text: &str, submit| SendInput {
            pane_id: "p1".into(),
            input: Some(text.to_owned()),
            keys: Vec::new(),
            submit,
            paste: PasteMode::Auto,
            force: false,
        };
        let dialog = InputTarget::Dialog("Proceed?".into());
        for (args, refused) in [
            (input("y", false), false),
            (input("y", true), true),
            (input("y\n", false), true),
        ] {
            assert_eq!(dialog.refusal(&args).is_some(), refused, "{args:?}");
            assert!(InputTarget::Keys.refusal(&args).is_none());
        }
        assert!(dialog.obstacle().is_some() && InputTarget::Keys.obstacle().is_some());
        assert!(InputTarget::FilledBox.obstacle().is_none());
    }
}
