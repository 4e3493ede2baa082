//! Properties that hold for any bytes, as functions that panic on a violation: for the fuzz targets, and for the
//! tests that replay their corpora.

use crate::{LineQuery, Offset, Terminal, TerminalOptions, TerminalSize, TextCursor};

/// Any bytes, split anywhere, with resizes in between: the terminal survives, and equal input gives equal state.
///
/// The input is a script of operations: an opcode byte, then its operands.
pub fn term(script: &[u8]) {
    let mut pair = TerminalPair::new();
    let mut rest = script;
    while let [opcode, more @ ..] = rest {
        rest = pair.step(*opcode, more);
    }
    pair.check();
}

/// Any bytes as a checkpoint: the checkpoint is refused, or its terminal behaves like any other. The first byte is
/// the number of trailing bytes that are printed afterwards.
pub fn checkpoints(bytes: &[u8]) {
    let [printed, saved @ ..] = bytes else { return };
    let (saved, printed) = saved.split_at(saved.len() - saved.len().min(usize::from(*printed)));
    let Some(mut terminal) = Terminal::load(saved, options()) else {
        return;
    };
    read_everything(&terminal);
    let again = terminal.save().expect("the parser is between sequences");
    let mut copy = Terminal::load(&again, options()).expect("a saved checkpoint loads");
    assert_eq!(copy.save(), Some(again), "a checkpoint changed by loading");
    let before = terminal.end();
    let events = terminal.feed(printed);
    let cut: Vec<_> = printed.chunks(1).flat_map(|byte| copy.feed(byte)).collect();
    assert_eq!(
        events, cut,
        "events depend on the checkpoint or on the split"
    );
    assert_eq!(terminal.save(), copy.save());
    assert!(terminal.end() >= before, "a cursor went back");
    read_everything(&terminal);
}

/// Two terminals that are fed the same bytes, split differently.
struct TerminalPair {
    whole: Terminal,
    cut: Terminal,
    last: TextCursor,
}

fn options() -> TerminalOptions {
    TerminalOptions {
        keep_lines: 20,
        secret: Some("k".into()),
    }
}

impl TerminalPair {
    fn new() -> Self {
        let size = TerminalSize { rows: 4, cols: 10 };
        let (whole, cut) = (
            Terminal::new(size, options()),
            Terminal::new(size, options()),
        );
        TerminalPair {
            last: whole.end(),
            whole,
            cut,
        }
    }

    fn step<'a>(&mut self, opcode: u8, rest: &'a [u8]) -> &'a [u8] {
        match opcode {
            // Most opcodes are output: the upper bits are the length, the lower bits the size of the pieces.
            0..=0xef => {
                let (bytes, rest) = rest.split_at(rest.len().min(usize::from(opcode >> 2) + 1));
                let events = self.whole.feed(bytes);
                let pieces = bytes.chunks(usize::from(opcode & 3) + 1);
                let cut: Vec<_> = pieces.flat_map(|piece| self.cut.feed(piece)).collect();
                assert_eq!(events, cut, "events depend on the split");
                assert!(self.whole.end() >= self.last, "a cursor went back");
                self.last = self.whole.end();
                rest
            }
            0xf0..=0xf7 => {
                let [rows, cols, rest @ ..] = rest else {
                    return &[];
                };
                let size = TerminalSize {
                    rows: (rows % 12).into(),
                    cols: (cols % 24).into(),
                };
                self.whole.resize(size);
                self.cut.resize(size);
                rest
            }
            0xf8..=0xfb => {
                self.check();
                rest
            }
            // Continues one terminal from a checkpoint.
            0xfc..=0xfe => {
                if let Some(saved) = self.cut.save() {
                    self.cut = Terminal::load(&saved, options()).expect("a saved checkpoint loads");
                    assert_eq!(
                        self.cut.save(),
                        Some(saved),
                        "a checkpoint changed by loading"
                    );
                }
                rest
            }
            0xff => {
                let (bytes, rest) = rest.split_at(rest.len() / 2);
                if let Some(mut terminal) = Terminal::load(bytes, options()) {
                    terminal.feed(rest);
                    read_everything(&terminal);
                }
                rest
            }
        }
    }

    fn check(&mut self) {
        assert_eq!(
            self.whole.save(),
            self.cut.save(),
            "the state depends on the split or on a restart"
        );
        read_everything(&self.whole);
        let mut copy = Terminal::new(self.whole.size(), TerminalOptions::default());
        let dump = self.whole.dump();
        copy.feed(&dump);
        assert_eq!(dump, copy.dump(), "a dump paints something else");
        assert!(self.whole.screen().rows().eq(copy.screen().rows()));
        assert_eq!(self.whole.modes(), copy.modes());
    }
}

/// Calls every reader; text must not contain control characters.
fn read_everything(terminal: &Terminal) {
    let end = terminal.end();
    assert_eq!(end.to_string().parse(), Ok(end));
    for since in [
        None,
        Some(end),
        Some(TextCursor {
            offset: Offset(end.offset.0 / 2),
            ..end
        }),
    ] {
        for line in terminal.lines(&LineQuery { since, last: 7 }).lines {
            assert!(!line.text.chars().any(char::is_control));
            terminal.styled_line(line.no);
        }
    }
    assert!(!terminal.cursor_line().chars().any(char::is_control));
    terminal.last_command(5);
    let screen = terminal.screen();
    let (row, col) = screen.cursor();
    let size = terminal.size();
    assert!(row < size.rows.into() && col < size.cols.into());
    for row in 0..size.rows.into() {
        let width: usize = screen.cells(row).map(|cell| usize::from(cell.width)).sum();
        assert!(width <= size.cols.into());
    }
}

#[cfg(test)]
mod tests {
    use fugue_testkit::replay_corpus;

    #[test]
    fn the_corpora_pass() {
        replay_corpus("term", super::term);
        replay_corpus("checkpoints", super::checkpoints);
    }
}
