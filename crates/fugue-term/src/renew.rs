//! A fresh start on the same screen, between the steps of a plan and when another process takes a pane over: whatever
//! was left behind is put right, and all that was printed stays.

use crate::machine::Machine;
use crate::parser::Parser;
use crate::shell::ShellState;
use crate::terminal::Terminal;

impl Machine {
    /// Another screen, modes, colours and a cursor in the middle of the text are what a program left behind; the next
    /// one's output goes behind all that is there, as if nothing had happened.
    pub(crate) fn tidy(&mut self) {
        let was_alternate = self.alt.is_some();
        self.leave_alternate();
        self.soft_reset();
        (self.modes.newline, self.modes.reverse) = (false, false);
        let main = &mut self.main;
        let Some(y) = main.last_used() else { return };
        let x = main.rows[y].used();
        let before_the_end = (main.cursor.y, main.cursor.x) < (y, x);
        if was_alternate || before_the_end {
            (main.cursor.y, main.cursor.x) = (y, x);
            main.settle();
            self.changed = self.now;
            self.tap_jumped();
        }
    }
}

impl Terminal {
    /// Another process has the pane: half a sequence, marks and modes of the one before mean nothing to it, and its
    /// first line is a line of its own.
    pub fn renew(&mut self) {
        // The cursor may go up, from below the text to where the text ends.
        self.floor = self.end();
        self.parser = Parser::starting_at(self.parser.offset());
        self.machine.shell.state = ShellState::Unknown;
        self.machine.tidy();
        if self.machine.main.cursor.x > 0 {
            self.machine.next_line();
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
    fn what_a_step_leaves_behind_does_not_touch_the_next() {
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
    fn another_process_begins_on_a_line_of_its_own() {
        let mut terminal = Terminal::new(
            TerminalSize { rows: 6, cols: 20 },
            TerminalOptions::default(),
        );
        terminal.feed(b"last words\x1b[3");
        terminal.renew();
        terminal.renew();
        terminal.feed(b"1mhello");
        let found = terminal.lines(&LineQuery {
            since: None,
            last: 10,
        });
        let lines: Vec<_> = found.lines.iter().map(|line| &*line.text).collect();
        assert_eq!(lines, ["last words", "1mhello"]);
    }

    #[test]
    fn the_end_does_not_go_back_when_another_process_begins() {
        let mut terminal = Terminal::new(
            TerminalSize { rows: 6, cols: 20 },
            TerminalOptions::default(),
        );
        terminal.feed(b"last words\x1b[5H\x1b[?1049hfull screen");
        let before = terminal.end();
        terminal.renew();
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
