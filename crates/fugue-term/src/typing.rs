//! What was typed and has not been seen to run yet.
//!
//! A shell reads one line for each command, and lines may be typed ahead of it: while a command runs, or several at
//! once. Each is echoed at its own prompt. So a line is kept until a command with its text is started; those before it
//! were read by programs. What was typed may be a secret, so nothing is kept of it but a number to know it by.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hasher};

/// What is known of the typing. While nobody tells, whatever is shown at a prompt may be what was typed.
#[derive(Debug, Default)]
pub(crate) struct Typing(Option<Ahead>);

#[derive(Debug, Default)]
struct Ahead {
    /// Whole lines, oldest first.
    lines: VecDeque<Known>,
    /// The one that is being typed.
    line: Line,
}

/// By what a line is known again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    By(u64),
    /// It was edited, or nobody saw it: it may be any.
    Not,
}

/// A line without the white space around it.
#[derive(Debug, Default)]
struct Line {
    text: Text,
    /// So many blanks, if something follows them.
    blanks: usize,
}

#[derive(Debug, Default)]
enum Text {
    #[default]
    Empty,
    Plain(DefaultHasher),
    Unknown,
}

// What is typed ahead beyond this is forgotten.
const MOST_LINES: usize = 4096;

impl Typing {
    /// Nothing was typed that could still be shown at a prompt.
    pub(crate) fn is_nothing(&self) -> bool {
        self.0
            .as_ref()
            .is_some_and(|ahead| ahead.lines.is_empty() && matches!(ahead.line.text, Text::Empty))
    }

    pub(crate) fn nothing_yet(&mut self) {
        self.0 = Some(Ahead::default());
    }

    pub(crate) fn typed(&mut self, bytes: &[u8]) {
        let ahead = self.0.get_or_insert_default();
        for byte in bytes {
            match byte {
                b'\r' | b'\n' => {
                    let line = std::mem::take(&mut ahead.line);
                    // A shell that is given an empty one shows its prompt again.
                    if let Some(known) = line.known()
                        && ahead.lines.len() < MOST_LINES
                    {
                        ahead.lines.push_back(known);
                    }
                }
                byte => ahead.line.push(*byte),
            }
        }
    }

    pub(crate) fn may_have_typed(&mut self) {
        self.0.get_or_insert_default().line.text = Text::Unknown;
    }

    /// A command is started that was shown like this at its prompt.
    pub(crate) fn ran(&mut self, command: &str) {
        let Some(ahead) = &mut self.0 else { return };
        // The rest of a command in several lines was typed as several.
        let mut line = Line::default();
        let first = command.lines().next().unwrap_or_default();
        first.bytes().for_each(|byte| line.push(byte));
        let ran = line.known();
        let is_it = |known: &Known| *known == Known::Not || Some(*known) == ran;
        match ahead.lines.iter().position(is_it) {
            Some(at) => drop(ahead.lines.drain(..=at)),
            // It came about in another way: by a key that a shell has for it, or from its history.
            None => *ahead = Ahead::default(),
        }
    }
}

impl Line {
    fn push(&mut self, byte: u8) {
        match (&mut self.text, byte) {
            (Text::Unknown, _) | (Text::Empty, b' ') => {}
            (Text::Plain(_), b' ') => self.blanks += 1,
            // An editor's keys, and completion.
            (_, 0..b' ' | 0x7f) => self.text = Text::Unknown,
            (Text::Plain(hasher), byte) => {
                for _ in 0..std::mem::take(&mut self.blanks) {
                    hasher.write_u8(b' ');
                }
                hasher.write_u8(byte);
            }
            (Text::Empty, byte) => {
                let mut hasher = DefaultHasher::new();
                hasher.write_u8(byte);
                self.text = Text::Plain(hasher);
            }
        }
    }

    fn known(&self) -> Option<Known> {
        match &self.text {
            Text::Empty => None,
            Text::Plain(hasher) => Some(Known::By(hasher.finish())),
            Text::Unknown => Some(Known::Not),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether something may still be echoed after each of these commands, when all of this was typed before.
    #[track_caller]
    fn check(typed: &[&str], ran: &[&str], left: &[bool]) {
        let mut typing = Typing::default();
        typing.nothing_yet();
        typed.iter().for_each(|keys| typing.typed(keys.as_bytes()));
        let after = |command: &&str| {
            typing.ran(command);
            !typing.is_nothing()
        };
        assert_eq!(ran.iter().map(after).collect::<Vec<_>>(), left, "{typed:?}");
    }

    #[test]
    fn a_line_is_ahead_until_its_command_is_started() {
        check(&["ls\r"], &["ls"], &[false]);
        check(
            &["l", "s", "\r", "p", "wd\r"],
            &["ls", "pwd"],
            &[true, false],
        );
        check(&["a\rb\rc\r"], &["a", "b", "c"], &[true, true, false]);
        check(&["a\ra\ra\r"], &["a", "a", "a"], &[true, true, false]);
        check(&["a\rb"], &["a"], &[true]);
        check(&["\r\r  \r"], &["a"], &[false]);
        check(&["  make   all \r"], &["make   all"], &[false]);
    }

    #[test]
    fn what_programs_have_read_is_no_more_ahead_than_the_next_command() {
        check(
            &["read x\rhello\r", "make\r"],
            &["read x", "make"],
            &[true, false],
        );
        check(
            &["python\r", "1 + 1\rquit()\r", "make\r"],
            &["python", "make"],
            &[true, false],
        );
    }

    #[test]
    fn a_line_that_was_edited_may_be_any() {
        check(&["lx\x7fs\rpwd\r"], &["ls", "pwd"], &[true, false]);
        check(&["\x1b[A\rpwd\r"], &["ls", "pwd"], &[true, false]);
        check(&["ma\t\r"], &["make"], &[false]);
        // From the history, by a key of the shell's own.
        check(&["\x0f"], &["ls"], &[false]);
    }

    #[test]
    fn what_nobody_saw_is_over_with_the_next_command() {
        let mut typing = Typing::default();
        typing.ran("ls");
        assert!(!typing.is_nothing());
        typing.may_have_typed();
        assert!(!typing.is_nothing());
        typing.ran("ls");
        assert!(typing.is_nothing());
    }

    #[test]
    fn a_command_in_several_lines_takes_the_first_of_them() {
        let script = "for i in 1 2\rdo echo $i\rdone\rmake\r";
        let shown = "for i in 1 2\n> do echo $i\n> done";
        check(&[script], &[shown, "make"], &[true, false]);
    }
}
