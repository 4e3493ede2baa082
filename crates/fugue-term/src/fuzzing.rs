//! What holds for any bytes, as functions that panic where it does not: for fuzz targets, and for the tests that replay
//! their corpora.

use crate::{LineQuery, Offset, Terminal, TerminalOptions, TerminalSize, TextCursor};

/// Any bytes, cut anywhere, with new sizes between: the terminal survives and what must be equal is equal.
///
/// The input is a script: a byte that says what to do, then what it is done with.
pub fn term(script: &[u8]) {
    let mut world = World::new();
    let mut rest = script;
    while let [what, more @ ..] = rest {
        rest = world.step(*what, more);
    }
    world.check();
}

/// Any bytes as a checkpoint: it is refused, or its terminal is as good as any other. The first byte says how many of the
/// last ones are printed afterwards.
pub fn checkpoints(bytes: &[u8]) {
    let [printed, saved @ ..] = bytes else { return };
    let (saved, printed) = saved.split_at(saved.len() - saved.len().min(usize::from(*printed)));
    let Some(mut terminal) = Terminal::load(saved, options()) else {
        return;
    };
    look(&terminal);
    let again = terminal.save().expect("nothing is half printed");
    let mut copy = Terminal::load(&again, options()).expect("what was saved loads");
    assert_eq!(copy.save(), Some(again), "a checkpoint changed by loading");
    let before = terminal.end();
    let facts = terminal.feed(printed);
    let cut: Vec<_> = printed.chunks(1).flat_map(|byte| copy.feed(byte)).collect();
    assert_eq!(
        facts, cut,
        "facts depend on the checkpoint or on the cutting"
    );
    assert_eq!(terminal.save(), copy.save());
    assert!(terminal.end() >= before, "a cursor went back");
    look(&terminal);
}

/// Two terminals that get the same bytes, cut differently.
struct World {
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

impl World {
    fn new() -> Self {
        let size = TerminalSize { rows: 4, cols: 10 };
        let (whole, cut) = (
            Terminal::new(size, options()),
            Terminal::new(size, options()),
        );
        World {
            last: whole.end(),
            whole,
            cut,
        }
    }

    fn step<'a>(&mut self, what: u8, rest: &'a [u8]) -> &'a [u8] {
        match what {
            // Most bytes are output: so many of what follows, and in pieces of such a size.
            0..=0xef => {
                let (bytes, rest) = rest.split_at(rest.len().min(usize::from(what >> 2) + 1));
                let facts = self.whole.feed(bytes);
                let pieces = bytes.chunks(usize::from(what & 3) + 1);
                let cut: Vec<_> = pieces.flat_map(|piece| self.cut.feed(piece)).collect();
                assert_eq!(facts, cut, "facts depend on the cutting");
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
            // Goes on from a checkpoint in one of the two.
            0xfc..=0xfe => {
                if let Some(saved) = self.cut.save() {
                    self.cut = Terminal::load(&saved, options()).expect("what was saved loads");
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
                    look(&terminal);
                }
                rest
            }
        }
    }

    fn check(&mut self) {
        assert_eq!(
            self.whole.save(),
            self.cut.save(),
            "the state depends on the cutting or on a restart"
        );
        look(&self.whole);
        let mut copy = Terminal::new(self.whole.size(), TerminalOptions::default());
        let dump = self.whole.dump();
        copy.feed(&dump);
        assert_eq!(dump, copy.dump(), "a dump paints something else");
        assert!(self.whole.screen().rows().eq(copy.screen().rows()));
        assert_eq!(self.whole.modes(), copy.modes());
    }
}

/// Asks for everything there is; text must be clean.
fn look(terminal: &Terminal) {
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
    fn the_corpora_hold() {
        replay_corpus("term", super::term);
        replay_corpus("checkpoints", super::checkpoints);
    }
}
