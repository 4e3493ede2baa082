//! Typing into a pane: the bytes of keys and texts, and whether an Enter had an effect.
//!
//! A text and its Enter are never sent in one piece to a program that reads keys: full-screen programs take a burst for
//! a paste and swallow the Enter. The Enter follows when the program has drawn the text.

use fugue_api::{
    attach::FrameModes,
    input_encoding::{self, KeyEvent, PASTE_END, PASTE_START},
    keys::{KeyCode, KeyPress},
    tools::{PasteMode, SendInput, SubmitResult},
};

/// The modes of the terminal that decide about the bytes to type.
#[derive(Clone, Copy, Debug, Default)]
pub struct InputModes {
    /// The kernel assembles a line and passes the line on at Enter; no key can be swallowed.
    pub line_mode: bool,
    pub bracketed_paste: bool,
    pub application_cursor: bool,
    /// The cursor is in the input box of an agent. Agents misinterpret a burst of keys: one agent reads the following
    /// Enter as a new line, another agent a `?` in the burst as a request for help. A paste is inserted unchanged.
    pub agent_box: bool,
}

/// One input that is to be submitted: decides from the screen when Enter is pressed and whether the Enter had an effect.
#[derive(Debug)]
pub struct SubmitMachine {
    stage: SubmitStage,
    /// The end of the text, by which the text is recognized on the screen. Empty: nothing to recognize.
    tail: String,
    tail_was_seen: bool,
    enter: Vec<u8>,
    /// Enter has been pressed a second time.
    insisted: bool,
    /// The text was typed into an agent's input box, whose contents decide instead of the text.
    agent_box: bool,
}

#[derive(Debug, PartialEq, Eq)]
enum SubmitStage {
    /// The text is typed; the program has not drawn the text.
    AwaitTaken,
    /// Enter is typed.
    AwaitSubmitted,
}

/// The next action.
#[derive(Debug, PartialEq, Eq)]
pub enum SubmitAction {
    /// Wait for the screen.
    Watch,
    Type(Vec<u8>),
    Done(SubmitResult),
}

/// The part of the screen where typed text appears.
#[derive(Debug)]
pub struct InputView<'a> {
    /// The lines around the terminal's cursor.
    pub near_cursor: &'a str,
    pub agent_box: AgentInputBox,
    /// The shell has marked that a command started since the Enter.
    pub command_started: bool,
}

/// The input box of an agent with the cursor in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AgentInputBox {
    #[default]
    Absent,
    Empty,
    /// The box holds an unsent text.
    Filled,
    /// A dialog replaces the box; an Enter would answer the dialog.
    Dialog,
}

/// A message's text without control characters, which might be keys or the end of a paste. Line breaks stay, a tab
/// becomes a space.
pub fn without_controls(text: &str) -> String {
    let lines = text.replace("\r\n", "\n").replace('\r', "\n");
    let typed = lines.chars().filter_map(|c| match c {
        '\n' => Some(c),
        '\t' => Some(' '),
        c => (!c.is_control()).then_some(c),
    });
    typed.collect()
}

impl SubmitMachine {
    /// The bytes to type at once, and the machine for the rest, or the result if nothing is to be followed.
    pub fn start(args: &SendInput, manners: InputModes) -> (Vec<u8>, Result<Self, SubmitResult>) {
        let text = args.input.as_deref().unwrap_or_default();
        let mut first = text_bytes(text, args.paste, manners);
        for key in &args.keys {
            first.extend(key_bytes(*key, manners));
        }
        let enter = key_bytes(
            KeyPress {
                code: KeyCode::Enter,
                ctrl: false,
                alt: false,
                shift: false,
            },
            manners,
        );
        if !args.submit {
            let pressed_enter = args.keys.iter().any(|key| key.code == KeyCode::Enter);
            return (
                first,
                Err(if pressed_enter {
                    SubmitResult::Unknown
                } else {
                    SubmitResult::No
                }),
            );
        }
        if manners.line_mode {
            first.extend(&enter);
            return (first, Err(SubmitResult::Yes));
        }
        if first.is_empty() {
            let typing = Self {
                stage: SubmitStage::AwaitSubmitted,
                tail: String::new(),
                tail_was_seen: false,
                enter: Vec::new(),
                insisted: true,
                agent_box: manners.agent_box,
            };
            return (enter, Ok(typing));
        }
        (
            first,
            Ok(Self {
                stage: SubmitStage::AwaitTaken,
                tail: tail(text),
                tail_was_seen: false,
                enter,
                insisted: false,
                agent_box: manners.agent_box,
            }),
        )
    }

    /// Whether the text is typed into the input box of an agent, which settles more slowly.
    pub fn is_for_an_agent(&self) -> bool {
        self.agent_box
    }

    /// The pane printed something.
    pub fn output(&mut self, seen: &InputView<'_>) -> SubmitAction {
        match self.stage {
            // An agent that has just drawn a paste takes an Enter for a part of the paste.
            SubmitStage::AwaitTaken if self.agent_box => SubmitAction::Watch,
            SubmitStage::AwaitTaken if self.shows_tail(seen) => self.press_enter(true, seen),
            SubmitStage::AwaitSubmitted if seen.command_started => {
                SubmitAction::Done(SubmitResult::Yes)
            }
            SubmitStage::AwaitTaken | SubmitStage::AwaitSubmitted => SubmitAction::Watch,
        }
    }

    /// The pane printed something and has been quiet since.
    pub fn quiet(&mut self, seen: &InputView<'_>) -> SubmitAction {
        match self.stage {
            SubmitStage::AwaitTaken if self.agent_box => match seen.agent_box {
                AgentInputBox::Filled => self.press_enter(false, seen),
                // The agent printed something else, or is in the middle of a redraw.
                AgentInputBox::Empty | AgentInputBox::Absent | AgentInputBox::Dialog => {
                    SubmitAction::Watch
                }
            },
            // An agent may take a while to clear its box; other programs clear their line at once or never.
            SubmitStage::AwaitSubmitted if self.agent_box => match seen.agent_box {
                AgentInputBox::Empty => SubmitAction::Done(SubmitResult::Yes),
                AgentInputBox::Filled | AgentInputBox::Absent | AgentInputBox::Dialog => {
                    SubmitAction::Watch
                }
            },
            // The program drew a replacement for the text, such as a placeholder for a long paste.
            SubmitStage::AwaitTaken => {
                let shown = self.shows_tail(seen);
                self.press_enter(shown, seen)
            }
            SubmitStage::AwaitSubmitted if seen.command_started => {
                SubmitAction::Done(SubmitResult::Yes)
            }
            SubmitStage::AwaitSubmitted if self.shows_tail(seen) => {
                SubmitAction::Done(SubmitResult::No)
            }
            SubmitStage::AwaitSubmitted if self.tail_was_seen => {
                SubmitAction::Done(SubmitResult::Yes)
            }
            SubmitStage::AwaitSubmitted => SubmitAction::Done(SubmitResult::Unknown),
        }
    }

    /// Nothing was printed until the redraw timeout.
    pub fn gave_up(&mut self, seen: &InputView<'_>) -> SubmitAction {
        match self.stage {
            SubmitStage::AwaitTaken => {
                let shown = self.shows_tail(seen);
                self.press_enter(shown, seen)
            }
            SubmitStage::AwaitSubmitted if self.agent_box => match seen.agent_box {
                AgentInputBox::Empty | AgentInputBox::Absent | AgentInputBox::Dialog => {
                    SubmitAction::Done(SubmitResult::Yes)
                }
                // A busy agent takes an Enter shortly after a paste for a part of the paste, and accepts the next Enter.
                AgentInputBox::Filled if !self.insisted => {
                    self.insisted = true;
                    self.press_enter(self.tail_was_seen, seen)
                }
                AgentInputBox::Filled => SubmitAction::Done(SubmitResult::No),
            },
            SubmitStage::AwaitSubmitted if self.tail_was_seen && self.shows_tail(seen) => {
                SubmitAction::Done(SubmitResult::No)
            }
            SubmitStage::AwaitSubmitted => SubmitAction::Done(SubmitResult::Unknown),
        }
    }

    /// Presses Enter, unless Enter would answer a dialog that has appeared, or reach anything but the box with the text.
    fn press_enter(&mut self, tail_seen: bool, seen: &InputView<'_>) -> SubmitAction {
        let lost = self.agent_box && seen.agent_box == AgentInputBox::Absent;
        if lost || seen.agent_box == AgentInputBox::Dialog {
            return SubmitAction::Done(SubmitResult::No);
        }
        self.stage = SubmitStage::AwaitSubmitted;
        self.tail_was_seen = tail_seen;
        SubmitAction::Type(self.enter.clone())
    }

    fn shows_tail(&self, seen: &InputView<'_>) -> bool {
        !self.tail.is_empty() && squeezed(seen.near_cursor).contains(&self.tail)
    }
}

// Enough characters to recognize a text, few enough for one row of a narrow box.
const TAIL: usize = 16;

/// The last few characters of the last line, without blanks: boxes wrap and pad.
fn tail(text: &str) -> String {
    let last = text
        .lines()
        .rev()
        .map(squeezed)
        .find(|line| !line.is_empty())
        .unwrap_or_default();
    let skip = last.chars().count().saturating_sub(TAIL);
    last.chars().skip(skip).collect()
}

fn squeezed(text: &str) -> String {
    // Frames of input boxes are drawn between the pieces of a wrapped line.
    text.chars()
        .filter(|c| !c.is_whitespace() && !c.is_control() && !('\u{2500}'..='\u{259f}').contains(c))
        .collect()
}

fn text_bytes(text: &str, paste: PasteMode, manners: InputModes) -> Vec<u8> {
    let several_lines = text.contains(['\n', '\r']);
    let as_paste = manners.bracketed_paste
        && !text.is_empty()
        && match paste {
            PasteMode::Auto => several_lines || manners.agent_box,
            PasteMode::Always => true,
            PasteMode::Never => false,
        };
    // Enter is a carriage return, in a paste as well.
    let typed = text.replace("\r\n", "\r").replace('\n', "\r");
    if !as_paste {
        return typed.into_bytes();
    }
    let inner = input_encoding::remove_paste_end(typed.as_bytes());
    [PASTE_START, &inner, PASTE_END].concat()
}

/// Encodes a key in xterm's format, whatever key protocol the program has enabled.
fn key_bytes(key: KeyPress, manners: InputModes) -> Vec<u8> {
    let modes = FrameModes {
        app_cursor: manners.application_cursor,
        ..FrameModes::default()
    };
    input_encoding::encode_key(&KeyEvent::from(key), &modes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn send(input: &str, keys: &[&str], submit: bool) -> SendInput {
        SendInput {
            pane_id: "p1".into(),
            input: (!input.is_empty()).then(|| input.to_owned()),
            keys: keys.iter().map(|key| key.parse().unwrap()).collect(),
            submit,
            paste: PasteMode::Auto,
            force: false,
        }
    }

    fn seen(near_cursor: &str) -> InputView<'_> {
        InputView {
            near_cursor,
            agent_box: AgentInputBox::Absent,
            command_started: false,
        }
    }

    #[test]
    fn keys_are_what_xterm_sends() {
        let check = |key: &str, application_cursor, bytes: &[u8]| {
            let manners = InputModes {
                application_cursor,
                ..InputModes::default()
            };
            assert_eq!(
                SubmitMachine::start(&send("", &[key], false), manners).0,
                bytes,
                "{key}"
            );
        };
        check("Enter", false, b"\r");
        check("C-c", false, b"\x03");
        check("C-[", false, b"\x1b");
        check("C-Space", false, b"\0");
        check("M-x", false, b"\x1bx");
        check("Up", false, b"\x1b[A");
        check("Up", true, b"\x1bOA");
        check("C-Up", true, b"\x1b[1;5A");
        check("F1", false, b"\x1bOP");
        check("F5", false, b"\x1b[15~");
        check("F6", false, b"\x1b[17~");
        check("F10", false, b"\x1b[21~");
        check("F11", false, b"\x1b[23~");
        check("F12", false, b"\x1b[24~");
        check("S-F2", false, b"\x1b[1;2Q");
        check("Delete", false, b"\x1b[3~");
        check("S-Tab", false, b"\x1b[Z");
        check("é", false, "é".as_bytes());
    }

    #[test]
    fn several_lines_go_in_as_one_paste_that_cannot_be_left_early() {
        let manners = InputModes {
            bracketed_paste: true,
            ..InputModes::default()
        };
        let (bytes, _) = SubmitMachine::start(
            &send("a\nb\x1b[20\x1b[201~1~; rm -rf /", &[], false),
            manners,
        );
        assert_eq!(bytes, b"\x1b[200~a\rb; rm -rf /\x1b[201~");
        let (bytes, _) = SubmitMachine::start(&send("one line", &[], false), manners);
        assert_eq!(bytes, b"one line");
        let agent_box = true;
        let manners = InputModes {
            agent_box,
            ..manners
        };
        let (bytes, _) = SubmitMachine::start(&send("one line", &[], false), manners);
        assert_eq!(bytes, b"\x1b[200~one line\x1b[201~");
    }

    #[test]
    fn in_line_mode_the_enter_cannot_be_swallowed() {
        let manners = InputModes {
            line_mode: true,
            ..InputModes::default()
        };
        let (bytes, rest) = SubmitMachine::start(&send("yes", &[], true), manners);
        assert_eq!(bytes, b"yes\r");
        assert_eq!(rest.unwrap_err(), SubmitResult::Yes);
    }

    #[test]
    fn enter_follows_when_the_text_is_on_the_screen() {
        let (bytes, rest) = SubmitMachine::start(
            &send("please fix the bug", &[], true),
            InputModes::default(),
        );
        assert_eq!(bytes, b"please fix the bug");
        let mut typing = rest.unwrap();
        assert_eq!(typing.output(&seen("> please fi")), SubmitAction::Watch);
        assert_eq!(
            typing.output(&seen("│ > please fix  │\n│ the bug   │")),
            SubmitAction::Type(b"\r".to_vec())
        );
        assert_eq!(
            typing.output(&seen("> please fix the bug")),
            SubmitAction::Watch
        );
        assert_eq!(
            typing.quiet(&seen("> ")),
            SubmitAction::Done(SubmitResult::Yes)
        );
    }

    #[test]
    fn a_text_that_stays_in_the_box_was_not_submitted() {
        let mut typing = SubmitMachine::start(&send("hello", &[], true), InputModes::default())
            .1
            .unwrap();
        assert_eq!(
            typing.output(&seen("> hello")),
            SubmitAction::Type(b"\r".to_vec())
        );
        assert_eq!(
            typing.quiet(&seen("> hello")),
            SubmitAction::Done(SubmitResult::No)
        );
    }

    #[test]
    fn what_was_never_seen_is_unknown() {
        let mut typing = SubmitMachine::start(&send("hello", &[], true), InputModes::default())
            .1
            .unwrap();
        assert_eq!(
            typing.gave_up(&seen("")),
            SubmitAction::Type(b"\r".to_vec())
        );
        assert_eq!(
            typing.gave_up(&seen("")),
            SubmitAction::Done(SubmitResult::Unknown)
        );
    }

    #[test]
    fn a_shell_that_marks_the_start_of_a_command_settles_it() {
        let mut typing = SubmitMachine::start(&send("ls", &[], true), InputModes::default())
            .1
            .unwrap();
        assert_eq!(
            typing.output(&seen("$ ls")),
            SubmitAction::Type(b"\r".to_vec())
        );
        assert_eq!(
            typing.output(&InputView {
                near_cursor: "$ ls",
                agent_box: AgentInputBox::Absent,
                command_started: true
            }),
            SubmitAction::Done(SubmitResult::Yes)
        );
    }

    #[test]
    fn in_an_agents_box_the_box_settles_it() {
        let manners = InputModes {
            bracketed_paste: true,
            agent_box: true,
            ..InputModes::default()
        };
        let shows = |agent_box| InputView {
            near_cursor: "> hello",
            agent_box,
            command_started: false,
        };
        let typing = || {
            SubmitMachine::start(&send("hello", &[], true), manners)
                .1
                .unwrap()
        };
        let mut taken = typing();
        assert_eq!(
            taken.output(&shows(AgentInputBox::Filled)),
            SubmitAction::Watch
        );
        assert_eq!(
            taken.quiet(&shows(AgentInputBox::Empty)),
            SubmitAction::Watch
        );
        let enter = SubmitAction::Type(b"\r".to_vec());
        assert_eq!(
            taken.quiet(&shows(AgentInputBox::Absent)),
            SubmitAction::Watch
        );
        assert_eq!(taken.quiet(&shows(AgentInputBox::Filled)), enter);
        assert_eq!(
            taken.quiet(&shows(AgentInputBox::Filled)),
            SubmitAction::Watch
        );
        // A box that is gone may just be drawn again, with the text in it.
        assert_eq!(
            taken.quiet(&shows(AgentInputBox::Absent)),
            SubmitAction::Watch
        );
        let yes = SubmitAction::Done(SubmitResult::Yes);
        assert_eq!(taken.quiet(&shows(AgentInputBox::Empty)), yes);
        let mut swallowed = typing();
        assert_eq!(swallowed.quiet(&shows(AgentInputBox::Filled)), enter);
        assert_eq!(
            swallowed.gave_up(&shows(AgentInputBox::Filled)),
            enter,
            "once more"
        );
        let no = SubmitAction::Done(SubmitResult::No);
        assert_eq!(swallowed.gave_up(&shows(AgentInputBox::Filled)), no);
    }

    #[test]
    fn an_enter_does_not_answer_a_dialog_that_came_up_meanwhile() {
        let dialog = InputView {
            near_cursor: "> hello",
            agent_box: AgentInputBox::Dialog,
            command_started: false,
        };
        let no = SubmitAction::Done(SubmitResult::No);
        for agent_box in [false, true] {
            let manners = InputModes {
                agent_box,
                ..InputModes::default()
            };
            let mut typing = SubmitMachine::start(&send("hello", &[], true), manners)
                .1
                .unwrap();
            assert_eq!(typing.gave_up(&dialog), no, "{agent_box}");
        }
        let manners = InputModes {
            agent_box: true,
            ..InputModes::default()
        };
        let mut gone = SubmitMachine::start(&send("hello", &[], true), manners)
            .1
            .unwrap();
        assert_eq!(gone.gave_up(&seen("")), no, "the box is gone");
    }

    #[test]
    fn a_message_has_no_keys_in_it() {
        let body = "a\tb\x1b[201~\x03\r\nc\rd\u{9b}A\u{7f} é😀\n";
        assert_eq!(without_controls(body), "a b[201~\nc\ndA é😀\n");
    }
}
