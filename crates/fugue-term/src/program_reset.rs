//! Resetting what a program left behind, between the steps of a pipeline and when a new process takes over the pane.
//! All printed text stays.

use crate::parser::Parser;
use crate::shell_marks::ShellState;
use crate::terminal::Terminal;
use crate::terminal_state::TerminalState;

impl TerminalState {
    /// Leaves the alternate screen, resets modes and colours, and moves the cursor after the existing text, so that
    /// the output of the next program follows all earlier output.
    pub(crate) fn reset_program_state(&mut self) {
        let was_alternate = self.alt.is_some();
        self.leave_alternate();
        self.soft_reset();
        (self.modes.newline, self.modes.reverse) = (false, false);
        let main = &mut self.main;
        let Some(y) = main.last_used_row() else {
            return;
        };
        let x = main.rows[y].used();
        let before_the_end = (main.cursor.y, main.cursor.x) < (y, x);
        if was_alternate || before_the_end {
            (main.cursor.y, main.cursor.x) = (y, x);
            main.clamp_cursor();
            self.last_change = self.now;
            self.stream_jump();
        }
    }
}

impl Terminal {
    /// Prepares for a new process in the pane: discards a partial sequence and the shell state, resets what the old
    /// process left behind, and starts a new line unless the cursor is at the beginning of one.
    pub fn reset_for_new_process(&mut self) {
        // The cursor may move up, from below the text to the end of the text.
        self.min_end = self.end();
        self.parser = Parser::starting_at(self.parser.offset());
        self.state.shell.state = ShellState::Unknown;
        self.state.reset_program_state();
        if self.state.main.cursor.x > 0 {
            self.state.next_line();
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{LineQuery, Terminal, TerminalOptions, TerminalSize};

    fn check(left: &str, wanted: &[&str]) {
        let options = TerminalOptions {
            secret: Some("K".into()),
            ..TerminalOptions::default()
        };
        let mut terminal = Terminal::new(TerminalSize { rows: 6, cols: 20 }, options);
        let marked = |kind: &str, step: u32| format!("\x1b]133;{kind};k=K;s=1.{step}\x1b\\");
        let all = format!(
            "{}{left}{}\r\n-- exit 0\r\n{}next{}",
            marked("C", 1),
            marked("D;0", 1),
            marked("C", 2),
            marked("D;0", 2)
        );
        terminal.feed(all.as_bytes());
        let marks: Vec<_> = terminal.marks().copied().collect();
        let text = |from: usize| -> String {
            let found = terminal.lines_between(marks[from].at, marks[from + 1].at, 100);
            let lines: Vec<_> = found.lines.iter().map(|line| &*line.text).collect();
            lines.join("\n")
        };
        assert_eq!([text(0), text(2)], wanted, "{left:?}");
    }

    #[test]
    fn a_step_does_not_affect_the_output_of_the_next() {
        check("one\r\ntwo", &["one\ntwo", "next"]);
        check(
            "one\r\ntwo\r\nthree\x1b[2A\rX\n",
            &["Xne\ntwo\nthree", "next"],
        );
        check("one\r\ntwo\x1b[1A\r", &["one\ntwo", "next"]);
        check("50 %\r", &["50 %", "next"]);
        check("before\r\n\x1b[?1049h\x1b[Hinside", &["before", "next"]);
        check("\x1b(0x", &["│", "next"]);
        check("a\x1b[4h\x1b[?7l\x1b[2;3r", &["a", "next"]);
    }

    #[test]
    fn a_new_process_starts_on_a_new_line() {
        let mut terminal = Terminal::new(
            TerminalSize { rows: 6, cols: 20 },
            TerminalOptions::default(),
        );
        terminal.feed(b"last words\x1b[3");
        terminal.reset_for_new_process();
        terminal.reset_for_new_process();
        terminal.feed(b"1mhello");
        let found = terminal.lines(&LineQuery {
            since: None,
            last: 10,
        });
        let lines: Vec<_> = found.lines.iter().map(|line| &*line.text).collect();
        assert_eq!(lines, ["last words", "1mhello"]);
    }

    #[test]
    fn a_new_process_does_not_move_the_end_back() {
        let mut terminal = Terminal::new(
            TerminalSize { rows: 6, cols: 20 },
            TerminalOptions::default(),
        );
        terminal.feed(b"last words\x1b[5H\x1b[?1049hfull screen");
        let before = terminal.end();
        terminal.reset_for_new_process();
        assert!(terminal.end() >= before);
        terminal.feed(b"hello");
        let found = terminal.lines(&LineQuery {
            since: Some(before),
            last: 10,
        });
        let lines: Vec<_> = found.lines.iter().map(|line| &*line.text).collect();
        assert_eq!(lines, ["hello"]);
    }
}
