//! Gaps in the output: bytes that were discarded before the terminal read them.

use crate::parser::Parser;
use crate::position::Offset;
use crate::shell_marks::ShellState;
use crate::terminal::Terminal;

impl Terminal {
    /// Continues at a later offset. The visible text moves to the history; modes, shell state and a partial sequence
    /// are reset, because the skipped bytes are unknown. An offset that was already reached changes nothing.
    pub fn skip_to(&mut self, to: Offset) {
        if to.0 <= self.parser.offset() {
            return;
        }
        self.state.now = to.0;
        self.state.reset();
        self.state.shell.state = ShellState::Unknown;
        self.parser = Parser::starting_at(to.0);
    }
}

#[cfg(test)]
mod tests {
    use crate::{LineQuery, Offset, Terminal, TerminalOptions, TerminalSize};

    #[test]
    fn text_before_a_gap_stays_and_cursors_only_grow() {
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
