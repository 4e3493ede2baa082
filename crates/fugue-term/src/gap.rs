//! Output that is gone: more was printed than anybody kept.

use crate::parser::Parser;
use crate::place::Offset;
use crate::shell::ShellState;
use crate::terminal::Terminal;

impl Terminal {
    /// Goes on at a later offset. What was on the screen becomes text, and nothing is assumed about what was missed:
    /// modes, marks and half a sequence are forgotten. An offset that was passed already changes nothing.
    pub fn skip_to(&mut self, to: Offset) {
        if to.0 <= self.parser.offset() {
            return;
        }
        self.machine.now = to.0;
        self.machine.reset();
        self.machine.shell.state = ShellState::Unknown;
        self.parser = Parser::starting_at(to.0);
    }
}

#[cfg(test)]
mod tests {
    use crate::{LineQuery, Offset, Terminal, TerminalOptions, TerminalSize};

    #[test]
    fn what_was_seen_before_a_gap_stays_and_cursors_only_grow() {
        let mut terminal = Terminal::new(
            TerminalSize { rows: 5, cols: 20 },
            TerminalOptions::default(),
        );
        terminal.feed(b"before\x1b[31");
        let before = terminal.end();
        terminal.skip_to(Offset(1000));
        terminal.feed(b"mafter");
        assert!(terminal.end() > before);
        assert_eq!(terminal.offset(), Offset(1006));
        let found = terminal.lines(&LineQuery {
            since: None,
            last: 10,
        });
        let texts: Vec<_> = found.lines.iter().map(|line| line.text.as_ref()).collect();
        assert_eq!(texts, ["before", "mafter"]);
        terminal.skip_to(Offset(5));
        assert_eq!(terminal.offset(), Offset(1006));
    }
}
