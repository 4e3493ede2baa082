//! Cuts a pane's output into the steps of a pipeline, by the marks that its shell sets.
//!
//! The marks carry a key that programs do not see. Nobody tells it to us either: the first mark of a step tells it,
//! which the shell sets before any program of the run has started, and from then on only marks with that key count. What
//! is shown hangs on it and nothing else; exit codes come from the daemon.

use fugue_term::{
    LineNo, Offset, ShellMark, ShellMarkKind, StepMark, Terminal, TerminalEvent, TerminalOptions,
    TerminalSize, TextCursor,
};

use crate::follow::Growing;

/// A piece of a pipeline's output, in its order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    Begin {
        plan: u64,
        step: u64,
        heading: String,
    },
    /// A complete line of a step's output.
    Line {
        plan: u64,
        text: String,
    },
    End {
        plan: u64,
        step: u64,
    },
}

impl Piece {
    pub fn plan(&self) -> u64 {
        match self {
            Self::Begin { plan, .. } | Self::Line { plan, .. } | Self::End { plan, .. } => *plan,
        }
    }
}

/// Reads a pane's output, cut anywhere.
pub struct Reader {
    size: TerminalSize,
    /// What came before the first mark, as far as it may matter.
    unread: Vec<u8>,
    terminal: Option<Terminal>,
    step: Option<Step>,
}

/// The step whose output is being read.
struct Step {
    mark: StepMark,
    from: TextCursor,
    growing: Growing,
    /// A line that may be the heading of the next step: a step that ends its shell has no mark at its end.
    held: Option<String>,
}

// A slice has no more lines than bytes, and all of its lines must still be there when its marks are looked at.
const SLICE: usize = 64 * 1024;
const KEEP_LINES: usize = 2 * SLICE;
// How the shell begins the line above a step's output.
const HEADING: &str = "── ";
// Of what was printed before the first mark only the heading is wanted.
const MOST_UNREAD: usize = 64 * 1024;

impl Reader {
    pub fn new(size: TerminalSize) -> Self {
        Self {
            size,
            unread: Vec::new(),
            terminal: None,
            step: None,
        }
    }

    /// Reads what the pane printed at an offset.
    pub fn feed(&mut self, from: u64, raw: &[u8]) -> Vec<Piece> {
        let mut pieces = Vec::new();
        let Some(terminal) = &mut self.terminal else {
            self.unread.extend_from_slice(raw);
            let begin = from + raw.len() as u64 - self.unread.len() as u64;
            if let Some(key) = first_key(&self.unread) {
                let mut terminal = Terminal::new(
                    self.size,
                    TerminalOptions {
                        keep_lines: KEEP_LINES,
                        secret: Some(key),
                    },
                );
                terminal.skip_to(Offset(begin));
                self.terminal = Some(terminal);
                let unread = std::mem::take(&mut self.unread);
                return self.feed(begin, &unread);
            }
            let over = self.unread.len().saturating_sub(MOST_UNREAD);
            self.unread.drain(..over);
            return pieces;
        };
        terminal.skip_to(Offset(from));
        for slice in raw.chunks(SLICE) {
            for fact in terminal.feed(slice) {
                if let TerminalEvent::Mark(mark) = fact {
                    passed(terminal, &mut self.step, &mark, &mut pieces);
                }
            }
            if let Some(step) = &mut self.step {
                step.read(terminal, terminal.end(), &mut pieces);
            }
        }
        pieces
    }

    /// The line that still grows.
    pub fn open(&self) -> Option<&str> {
        self.step.as_ref()?.growing.open()
    }

    /// What there is of it when nothing more is read.
    pub fn close(&mut self) -> Vec<String> {
        let step = self.step.take();
        let rest = step.map(|mut step| [step.held.take(), step.growing.close()]);
        let lines = rest.into_iter().flatten().flatten();
        lines.filter(|line| !line.is_empty()).collect()
    }
}

fn passed(terminal: &Terminal, open: &mut Option<Step>, mark: &ShellMark, pieces: &mut Vec<Piece>) {
    match (mark.kind, mark.step) {
        (ShellMarkKind::Output, Some(name)) => {
            // Headings stand on a line of their own, above the step's output.
            let head = LineNo(mark.at.line.0.saturating_sub(1));
            let begin = TextCursor {
                line: head,
                col: 0,
                ..mark.at
            };
            if let Some(mut step) = open.take() {
                // What was held back, or still grew, was the heading.
                if step.growing.next() > head.0 {
                    step.held = None;
                }
                step.growing.drop_from(head);
                step.end(terminal, begin, pieces);
            }
            let found = terminal.lines_between(begin, mark.at, 2);
            let heading = found.lines.first().map_or("", |line| &line.text);
            // Keys that a person typed, or that woke the shell, may be echoed in front of it.
            let heading = heading.find(HEADING).map_or(heading, |at| &heading[at..]);
            pieces.push(Piece::Begin {
                plan: name.plan,
                step: name.step,
                heading: heading.to_owned(),
            });
            *open = Some(Step {
                mark: name,
                from: mark.at,
                growing: Growing::default(),
                held: None,
            });
        }
        // A prompt means that the shell is not in a step any more, whatever became of it.
        (ShellMarkKind::Done { .. }, Some(_)) | (ShellMarkKind::Prompt, _) => {
            if let Some(step) = open.take() {
                step.end(terminal, mark.at, pieces);
            }
        }
        (ShellMarkKind::Output | ShellMarkKind::Done { .. }, None) | (ShellMarkKind::Input, _) => {}
    }
}

impl Step {
    /// Takes the lines that are complete up to there.
    fn read(&mut self, terminal: &Terminal, to: TextCursor, pieces: &mut Vec<Piece>) {
        let next = TextCursor {
            line: LineNo(self.growing.next()),
            col: 0,
            ..self.from
        };
        let from = match next.line > self.from.line {
            true => next,
            false => self.from,
        };
        let found = terminal.lines_between(from, to, usize::MAX);
        for text in self.growing.take(&found.lines, to.line) {
            self.give(pieces);
            self.held = Some(text);
        }
        let followed = self.growing.open().is_some_and(|open| !open.is_empty());
        let heading = |text: &String| text.starts_with(HEADING);
        if followed || !self.held.as_ref().is_some_and(heading) {
            self.give(pieces);
        }
    }

    fn give(&mut self, pieces: &mut Vec<Piece>) {
        let plan = self.mark.plan;
        pieces.extend(self.held.take().map(|text| Piece::Line { plan, text }));
    }

    fn end(mut self, terminal: &Terminal, to: TextCursor, pieces: &mut Vec<Piece>) {
        self.read(terminal, to, pieces);
        self.give(pieces);
        // Where the output ended with a newline, the last line is the one after it.
        self.held = self.growing.close().filter(|line| !line.is_empty());
        self.give(pieces);
        let StepMark { plan, step } = self.mark;
        pieces.push(Piece::End { plan, step });
    }
}

/// The key of the first mark that begins a step.
fn first_key(bytes: &[u8]) -> Option<String> {
    const OPEN: &[u8] = b"\x1b]133;C;";
    const LONGEST: usize = 256;
    let mut rest = bytes;
    while let Some(at) = rest.windows(OPEN.len()).position(|window| window == OPEN) {
        rest = &rest[at + OPEN.len()..];
        let body = &rest[..rest.len().min(LONGEST)];
        let end = body.iter().position(|byte| matches!(byte, 0x07 | 0x1b));
        let Some(body) = end.and_then(|end| str::from_utf8(&body[..end]).ok()) else {
            continue;
        };
        let key = body.split(';').find_map(|word| word.strip_prefix("k="));
        if let (Some(key), true) = (key, body.split(';').any(|word| word.starts_with("s="))) {
            return Some(key.to_owned());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: TerminalSize = TerminalSize { rows: 10, cols: 40 };

    /// Reads the bytes whole and cut at every place, and says the pieces in words.
    #[track_caller]
    fn check(bytes: &str, wanted: &[&str]) {
        let bytes = bytes.replace('\n', "\r\n");
        for cut in 0..=bytes.len() {
            let mut reader = Reader::new(SIZE);
            let (first, second) = bytes.as_bytes().split_at(cut);
            let mut pieces = reader.feed(100, first);
            pieces.extend(reader.feed(100 + cut as u64, second));
            let mut said: Vec<String> = pieces
                .into_iter()
                .map(|piece| match piece {
                    Piece::Begin { step, heading, .. } => format!("{step} begins: {heading}"),
                    Piece::Line { text, .. } => text,
                    Piece::End { step, .. } => format!("{step} ends"),
                })
                .collect();
            said.extend(reader.open().map(|line| format!("open: {line}")));
            assert_eq!(said, wanted, "cut at {cut}");
        }
    }

    fn begin(step: u32) -> String {
        format!("── {step}/2 run\n\x1b]133;C;k=abc;s=7.{step}\x1b\\")
    }

    fn end(step: u32) -> String {
        format!("\x1b]133;D;0;k=abc;s=7.{step}\x1b\\\n── exit 0\n")
    }

    #[test]
    fn a_steps_output_is_what_lies_between_its_marks() {
        let two = [
            "noise\n^X^P",
            &begin(1),
            "one\ntwo\n",
            &end(1),
            &begin(2),
            "\nno newline",
            &end(2),
            "\x1b]133;A;k=abc\x1b\\$ ",
        ]
        .concat();
        check(
            &two,
            &[
                "1 begins: ── 1/2 run",
                "one",
                "two",
                "1 ends",
                "2 begins: ── 2/2 run",
                "",
                "no newline",
                "2 ends",
            ],
        );
        check(
            &[&begin(1), "10%\r20%\rdone\nand"].concat(),
            &["1 begins: ── 1/2 run", "done", "open: and"],
        );
        check("nothing\nof the kind\n", &[]);
        check(&(begin(1) + &end(1)), &["1 begins: ── 1/2 run", "1 ends"]);
    }

    #[test]
    fn a_program_cannot_print_the_end_of_its_step() {
        check(
            &[
                &begin(1),
                "\x1b]133;D;0;k=guess;s=7.1\x1b\\still\n\x1b]133;C;k=guess;s=7.2\x1b\\",
                &end(1),
            ]
            .concat(),
            &["1 begins: ── 1/2 run", "still", "1 ends"],
        );
    }

    #[test]
    fn a_step_that_ends_its_shell_ends_where_the_next_begins() {
        check(
            &[&begin(1), "── bye\n", &begin(2), "fresh\n", &end(2)].concat(),
            &[
                "1 begins: ── 1/2 run",
                "── bye",
                "1 ends",
                "2 begins: ── 2/2 run",
                "fresh",
                "2 ends",
            ],
        );
        let bytes = [&begin(1), "half", "\x1b]133;A;k=abc\x1b\\$ "].concat();
        check(&bytes, &["1 begins: ── 1/2 run", "half", "1 ends"]);
    }
}
