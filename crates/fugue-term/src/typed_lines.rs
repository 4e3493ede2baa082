//! Typed lines that have not been seen to run yet, for recognising their echo.
//!
//! A shell reads one line per command, and lines can be typed ahead: while a command runs, or several at once. Each
//! line is echoed at its own prompt. A line is therefore kept until a command with its text starts; older lines were
//! read by other programs. Typed input may be a secret, so only a hash of each line is kept.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hasher};

/// The lines typed ahead. `None` while typing is not tracked: anything shown at a prompt may be echo.
#[derive(Debug, Default)]
pub(crate) struct TypedLines(Option<LineQueue>);

#[derive(Debug, Default)]
struct LineQueue {
    /// Complete lines, oldest first.
    lines: VecDeque<TypedLine>,
    /// The line that is being typed.
    line: LineHasher,
}

/// How a typed line is recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TypedLine {
    Hash(u64),
    /// The line was edited, or its text was not recorded: any command may be this line.
    Unknown,
}

/// Hashes a line without leading and trailing spaces.
#[derive(Debug, Default)]
struct LineHasher {
    text: LineContent,
    /// Spaces to be hashed if another character follows.
    blanks: usize,
}

#[derive(Debug, Default)]
enum LineContent {
    #[default]
    Empty,
    Plain(DefaultHasher),
    Unknown,
}

// Lines typed ahead beyond this limit are ignored.
const MAX_TYPED_LINES: usize = 4096;

impl TypedLines {
    /// Whether no typed input is left that could still be echoed at a prompt.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.as_ref().is_some_and(|queue| {
            queue.lines.is_empty() && matches!(queue.line.text, LineContent::Empty)
        })
    }

    pub(crate) fn start_tracking(&mut self) {
        self.0 = Some(LineQueue::default());
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        let queue = self.0.get_or_insert_default();
        for byte in bytes {
            match byte {
                b'\r' | b'\n' => {
                    let line = std::mem::take(&mut queue.line);
                    // An empty line starts no command: the shell only shows its prompt again.
                    if let Some(typed_line) = line.typed_line()
                        && queue.lines.len() < MAX_TYPED_LINES
                    {
                        queue.lines.push_back(typed_line);
                    }
                }
                byte => queue.line.push(*byte),
            }
        }
    }

    pub(crate) fn push_unknown(&mut self) {
        self.0.get_or_insert_default().line.text = LineContent::Unknown;
    }

    /// Removes the line of a command that has started, and all older lines. `command` is the text shown at the
    /// prompt.
    pub(crate) fn remove_started(&mut self, command: &str) {
        let Some(queue) = &mut self.0 else { return };
        // Further lines of a command in several lines were typed as lines of their own.
        let mut line = LineHasher::default();
        let first = command.lines().next().unwrap_or_default();
        first.bytes().for_each(|byte| line.push(byte));
        let started = line.typed_line();
        let is_started = |typed_line: &TypedLine| {
            *typed_line == TypedLine::Unknown || Some(*typed_line) == started
        };
        match queue.lines.iter().position(is_started) {
            Some(at) => drop(queue.lines.drain(..=at)),
            // The command was entered in another way: by a shell key binding, or from the shell's history.
            None => *queue = LineQueue::default(),
        }
    }
}

impl LineHasher {
    fn push(&mut self, byte: u8) {
        match (&mut self.text, byte) {
            (LineContent::Unknown, _) | (LineContent::Empty, b' ') => {}
            (LineContent::Plain(_), b' ') => self.blanks += 1,
            // Editing keys and completion.
            (_, 0..b' ' | 0x7f) => self.text = LineContent::Unknown,
            (LineContent::Plain(hasher), byte) => {
                for _ in 0..std::mem::take(&mut self.blanks) {
                    hasher.write_u8(b' ');
                }
                hasher.write_u8(byte);
            }
            (LineContent::Empty, byte) => {
                let mut hasher = DefaultHasher::new();
                hasher.write_u8(byte);
                self.text = LineContent::Plain(hasher);
            }
        }
    }

    fn typed_line(&self) -> Option<TypedLine> {
        match &self.text {
            LineContent::Empty => None,
            LineContent::Plain(hasher) => Some(TypedLine::Hash(hasher.finish())),
            LineContent::Unknown => Some(TypedLine::Unknown),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks after each of the `ran` commands whether typed input is left that may still be echoed.
    #[track_caller]
    fn check(typed: &[&str], ran: &[&str], left: &[bool]) {
        let mut typed_lines = TypedLines::default();
        typed_lines.start_tracking();
        typed
            .iter()
            .for_each(|keys| typed_lines.push(keys.as_bytes()));
        let after = |command: &&str| {
            typed_lines.remove_started(command);
            !typed_lines.is_empty()
        };
        assert_eq!(ran.iter().map(after).collect::<Vec<_>>(), left, "{typed:?}");
    }

    #[test]
    fn a_line_is_kept_until_its_command_starts() {
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
    fn lines_read_by_programs_are_dropped_with_the_next_command() {
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
    fn an_edited_line_matches_any_command() {
        check(&["lx\x7fs\rpwd\r"], &["ls", "pwd"], &[true, false]);
        check(&["\x1b[A\rpwd\r"], &["ls", "pwd"], &[true, false]);
        check(&["ma\t\r"], &["make"], &[false]);
        // From the history, by a shell key binding.
        check(&["\x0f"], &["ls"], &[false]);
    }

    #[test]
    fn unknown_input_is_dropped_with_the_next_command() {
        let mut typed_lines = TypedLines::default();
        typed_lines.remove_started("ls");
        assert!(!typed_lines.is_empty());
        typed_lines.push_unknown();
        assert!(!typed_lines.is_empty());
        typed_lines.remove_started("ls");
        assert!(typed_lines.is_empty());
    }

    #[test]
    fn a_multi_line_command_removes_its_first_line() {
        let script = "for i in 1 2\rdo echo $i\rdone\rmake\r";
        let shown = "for i in 1 2\n> do echo $i\n> done";
        check(&[script], &[shown, "make"], &[true, false]);
    }
}
