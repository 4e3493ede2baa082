//! Splits the output of a pane into the steps of a pipeline, by shell marks.
//!
//! The marks carry a secret key that programs do not have. This process takes the key from the first mark of a step, which
//! the shell prints before any program of the run starts, and then accepts only marks with that key. The key decides only
//! what is printed; exit codes come from the daemon.

use fugue_term::{
    LineNo, Offset, ShellMark, ShellMarkKind, StepMark, Terminal, TerminalEvent, TerminalOptions,
    TerminalSize, TextCursor,
};

use crate::follow::LineAssembler;

/// A piece of the output of a pipeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StepPiece {
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

impl StepPiece {
    pub fn plan(&self) -> u64 {
        match self {
            Self::Begin { plan, .. } | Self::Line { plan, .. } | Self::End { plan, .. } => *plan,
        }
    }
}

/// Splits the output of a pane, which arrives in chunks of any size.
pub struct StepReader {
    size: TerminalSize,
    /// The last output before the first mark.
    unread: Vec<u8>,
    terminal: Option<Terminal>,
    step: Option<OpenStep>,
}

/// The current step.
struct OpenStep {
    mark: StepMark,
    from: TextCursor,
    growing: LineAssembler,
    /// A line that may be the heading of the next step, because a step that ends its shell has no end mark.
    held: Option<String>,
}

// The size of a slice for the terminal. A slice has at most as many lines as bytes, and the terminal must keep all of
// them until its marks are handled.
const SLICE_BYTES: usize = 64 * 1024;
const KEEP_LINES: usize = 2 * SLICE_BYTES;
// The beginning of the heading line that the shell prints before a step.
const HEADING: &str = "── ";
// The limit of output that is kept before the first mark, for the heading.
const MAX_UNREAD_BYTES: usize = 64 * 1024;

impl StepReader {
    pub fn new(size: TerminalSize) -> Self {
        Self {
            size,
            unread: Vec::new(),
            terminal: None,
            step: None,
        }
    }

    /// Adds output at an offset and returns the new pieces.
    pub fn feed(&mut self, from: u64, raw: &[u8]) -> Vec<StepPiece> {
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
            let over = self.unread.len().saturating_sub(MAX_UNREAD_BYTES);
            self.unread.drain(..over);
            return pieces;
        };
        terminal.skip_to(Offset(from));
        for slice in raw.chunks(SLICE_BYTES) {
            for fact in terminal.feed(slice) {
                if let TerminalEvent::Mark(mark) = fact {
                    handle_mark(terminal, &mut self.step, &mark, &mut pieces);
                }
            }
            if let Some(step) = &mut self.step {
                step.read(terminal, terminal.end(), &mut pieces);
            }
        }
        pieces
    }

    /// The incomplete line of the current step.
    pub fn open(&self) -> Option<&str> {
        self.step.as_ref()?.growing.open()
    }

    /// The remaining lines of the current step at the end of the output.
    pub fn close(&mut self) -> Vec<String> {
        let step = self.step.take();
        let rest = step.map(|mut step| [step.held.take(), step.growing.close()]);
        let lines = rest.into_iter().flatten().flatten();
        lines.filter(|line| !line.is_empty()).collect()
    }
}

fn handle_mark(
    terminal: &Terminal,
    open: &mut Option<OpenStep>,
    mark: &ShellMark,
    pieces: &mut Vec<StepPiece>,
) {
    match (mark.kind, mark.step) {
        (ShellMarkKind::Output, Some(name)) => {
            // The heading is the line above the output of the step.
            let head = LineNo(mark.at.line.0.saturating_sub(1));
            let begin = TextCursor {
                line: head,
                col: 0,
                ..mark.at
            };
            if let Some(mut step) = open.take() {
                // The held or incomplete line was the heading.
                if step.growing.next() > head.0 {
                    step.held = None;
                }
                step.growing.drop_from(head);
                step.end(terminal, begin, pieces);
            }
            let found = terminal.lines_between(begin, mark.at, 2);
            let heading = found.lines.first().map_or("", |line| &line.text);
            // The echo of typed keys may precede the heading.
            let heading = heading.find(HEADING).map_or(heading, |at| &heading[at..]);
            pieces.push(StepPiece::Begin {
                plan: name.plan,
                step: name.step,
                heading: heading.to_owned(),
            });
            *open = Some(OpenStep {
                mark: name,
                from: mark.at,
                growing: LineAssembler::default(),
                held: None,
            });
        }
        // A prompt means that the step has ended, with or without an end mark.
        (ShellMarkKind::Done { .. }, Some(_)) | (ShellMarkKind::Prompt, _) => {
            if let Some(step) = open.take() {
                step.end(terminal, mark.at, pieces);
            }
        }
        (ShellMarkKind::Output | ShellMarkKind::Done { .. }, None) | (ShellMarkKind::Input, _) => {}
    }
}

impl OpenStep {
    /// Reads the complete lines up to a position.
    fn read(&mut self, terminal: &Terminal, to: TextCursor, pieces: &mut Vec<StepPiece>) {
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

    fn give(&mut self, pieces: &mut Vec<StepPiece>) {
        let plan = self.mark.plan;
        pieces.extend(self.held.take().map(|text| StepPiece::Line { plan, text }));
    }

    fn end(mut self, terminal: &Terminal, to: TextCursor, pieces: &mut Vec<StepPiece>) {
        self.read(terminal, to, pieces);
        self.give(pieces);
        // After a final newline the last line is empty.
        self.held = self.growing.close().filter(|line| !line.is_empty());
        self.give(pieces);
        let StepMark { plan, step } = self.mark;
        pieces.push(StepPiece::End { plan, step });
    }
}

/// The key of the first mark that begins a step.
fn first_key(bytes: &[u8]) -> Option<String> {
    const OPEN: &[u8] = b"\x1b]133;C;";
    const MAX_MARK_BYTES: usize = 256;
    let mut rest = bytes;
    while let Some(at) = rest.windows(OPEN.len()).position(|window| window == OPEN) {
        rest = &rest[at + OPEN.len()..];
        let body = &rest[..rest.len().min(MAX_MARK_BYTES)];
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
            let mut reader = StepReader::new(SIZE);
            let (first, second) = bytes.as_bytes().split_at(cut);
            let mut pieces = reader.feed(100, first);
            pieces.extend(reader.feed(100 + cut as u64, second));
            let mut said: Vec<String> = pieces
                .into_iter()
                .map(|piece| match piece {
                    StepPiece::Begin { step, heading, .. } => format!("{step} begins: {heading}"),
                    StepPiece::Line { text, .. } => text,
                    StepPiece::End { step, .. } => format!("{step} ends"),
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
