//! Screen differences: which lines of the screen are new since an expect began, for text that is painted with cursor
//! movements instead of printed in sequence.
//!
//! A program that redraws its screen prints old text again. The lines visible at the start of the search are
//! therefore recorded as a baseline; a line with the same text, or a word at its old position, is not new.

use crate::expect::EchoPolicy;
use crate::position::{LineNo, TextCursor};
use crate::shell_marks::ShellMarkKind;
use crate::terminal::Terminal;
use crate::terminal_state::TerminalState;
use crate::text_lines::byte_index;

/// The ranges of the text that are echo of typed lines, located by the shell marks.
#[derive(Debug, Default)]
pub(crate) struct EchoRanges(Vec<(TextPosition, Option<TextPosition>)>);

type TextPosition = (LineNo, u32);

impl EchoRanges {
    /// The echo ranges that are excluded from the search; none if echo may match.
    pub(crate) fn new(terminal: &Terminal, echo: EchoPolicy) -> Self {
        let mut echoes = Vec::new();
        if echo == EchoPolicy::Match {
            return EchoRanges(echoes);
        }
        let mut began = None;
        for mark in terminal.marks() {
            let at = (mark.at.line, mark.at.col);
            if let Some(began) = began.take() {
                echoes.push((began, Some(at)));
            }
            if mark.kind == ShellMarkKind::Input {
                began = Some(at);
            }
        }
        if terminal.state.shell.is_echoing() {
            echoes.extend(began.map(|began| (began, None)));
        }
        EchoRanges(echoes)
    }

    /// The parts of a line that are not echo, each with its column. `text` starts at column `col`.
    pub(crate) fn strip<'a>(&self, no: LineNo, col: u32, text: &'a str) -> Vec<(u32, &'a str)> {
        let within = |(began, ended): &&(TextPosition, Option<TextPosition>)| {
            began.0 <= no && ended.is_none_or(|ended| no <= ended.0)
        };
        let mut parts = vec![(col, text)];
        for (began, ended) in self.0.iter().filter(within) {
            let from = if began.0 == no { began.1 } else { 0 };
            let to = match ended {
                Some(ended) if ended.0 == no => ended.1,
                _ => u32::MAX,
            };
            parts = parts
                .into_iter()
                .flat_map(|(col, text)| {
                    // An echo that ended at the beginning of this line contains no character of the line.
                    if to <= from {
                        return vec![(col, text)];
                    }
                    let cut = |at: u32| byte_index(text, at.saturating_sub(col));
                    let (head, rest) = (&text[..cut(from)], &text[cut(to)..]);
                    let resumes = to.max(col);
                    let head = (from > col).then_some((col, head));
                    let rest = (!rest.is_empty()).then_some((resumes, rest));
                    head.into_iter().chain(rest).collect()
                })
                .collect();
        }
        parts
    }
}

/// A line on the screen, or a part of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ScreenLine {
    /// The line number; the row number on the alternate screen.
    pub(crate) no: u64,
    /// The column at which the text starts.
    pub(crate) col: u32,
    pub(crate) text: String,
    touched: u64,
}

/// The visible lines, top to bottom.
#[derive(Clone, Debug, Default)]
pub(crate) struct ScreenLines {
    pub(crate) lines: Vec<ScreenLine>,
    pub(crate) alternate: bool,
}

/// Adjacent lines as one text.
#[derive(Debug)]
pub(crate) struct ScreenBlock<'a> {
    pub(crate) text: String,
    /// Byte index in `text` at which each line starts.
    starts: Vec<(usize, &'a ScreenLine)>,
}

impl ScreenLines {
    /// The lines of the visible screen.
    pub(crate) fn visible(terminal: &Terminal, echoes: &EchoRanges) -> Self {
        let state = &terminal.state;
        match &state.alt {
            Some(_) => ScreenLines {
                lines: alternate_lines(state),
                alternate: true,
            },
            None => ScreenLines {
                lines: main_lines(state, echoes),
                alternate: false,
            },
        }
    }

    /// The lines of the main screen, even while the alternate screen is shown.
    pub(crate) fn main(terminal: &Terminal, echoes: &EchoRanges) -> Self {
        ScreenLines {
            lines: main_lines(&terminal.state, echoes),
            alternate: false,
        }
    }

    /// Blocks of lines that changed after `since` and do not equal a line of the baseline.
    pub(crate) fn new_blocks(&self, since: u64, baseline: &ScreenBaseline) -> Vec<ScreenBlock<'_>> {
        let mut blocks: Vec<ScreenBlock<'_>> = Vec::new();
        let mut joins = false;
        for line in &self.lines {
            if line.touched <= since || baseline.contains_line(self.alternate, &line.text) {
                joins = false;
                continue;
            }
            match blocks.last_mut().filter(|_| joins) {
                Some(block) => {
                    block.text.push('\n');
                    block.starts.push((block.text.len(), line));
                    block.text.push_str(&line.text);
                }
                None => blocks.push(ScreenBlock {
                    text: line.text.clone(),
                    starts: vec![(0, line)],
                }),
            }
            joins = true;
        }
        blocks
    }
}

fn main_lines(state: &TerminalState, echoes: &EchoRanges) -> Vec<ScreenLine> {
    let mut lines = Vec::new();
    for (line, changes) in state.screen_lines() {
        for (col, text) in echoes.strip(line.no, 0, &line.text) {
            lines.push(ScreenLine {
                no: line.no.0,
                col,
                text: text.to_owned(),
                touched: changes.touched,
            });
        }
    }
    lines
}

fn alternate_lines(state: &TerminalState) -> Vec<ScreenLine> {
    let mut lines: Vec<ScreenLine> = Vec::new();
    let mut continues = false;
    for (no, row) in state.active_grid().rows.iter().enumerate() {
        let mut text = String::new();
        row.text_into(&state.clusters, &mut text);
        match lines.last_mut().filter(|_| continues) {
            Some(line) => {
                line.text.push_str(&text);
                line.touched = line.touched.max(row.changes.touched);
            }
            None => lines.push(ScreenLine {
                no: no as u64,
                col: 0,
                text,
                touched: row.changes.touched,
            }),
        }
        continues = row.is_wrapped();
    }
    for line in &mut lines {
        // Full-screen programs fill their rows with spaces.
        line.text.truncate(line.text.trim_end_matches(' ').len());
    }
    lines
}

impl ScreenBlock<'_> {
    /// The line that contains the byte at `at`, and the column of that byte.
    pub(crate) fn locate(&self, at: usize) -> (&ScreenLine, u32) {
        let next = self.starts.partition_point(|(start, _)| *start <= at);
        let (start, line) = self.starts[next.saturating_sub(1)];
        let before = self.text[start..at].chars().count();
        (line, line.col + before as u32)
    }
}

/// The lines visible when the search began.
#[derive(Debug, Default)]
pub(crate) struct ScreenBaseline {
    main: Vec<ScreenLine>,
    alternate: Vec<ScreenLine>,
    /// The last line with text on the main screen.
    last: Option<u64>,
}

impl ScreenBaseline {
    pub(crate) fn capture(terminal: &Terminal, echoes: &EchoRanges) -> Self {
        let text = |screen: ScreenLines| -> Vec<ScreenLine> {
            let lines = screen.lines.into_iter();
            lines.filter(|line| !line.text.is_empty()).collect()
        };
        let main = text(ScreenLines::main(terminal, echoes));
        let shown = ScreenLines::visible(terminal, echoes);
        ScreenBaseline {
            last: main.last().map(|line| line.no),
            main,
            alternate: if shown.alternate {
                text(shown)
            } else {
                Vec::new()
            },
        }
    }

    fn lines(&self, alternate: bool) -> &[ScreenLine] {
        if alternate {
            &self.alternate
        } else {
            &self.main
        }
    }

    fn contains_line(&self, alternate: bool, text: &str) -> bool {
        self.lines(alternate).iter().any(|line| line.text == text)
    }

    /// Whether a word painted at `at` may be old text that was drawn again. The screen search decides.
    pub(crate) fn may_contain_word(&self, alternate: bool, at: TextCursor, word: &str) -> bool {
        let on_old_line = alternate || self.last.is_some_and(|last| at.line.0 <= last);
        let mut lines = self.lines(alternate).iter();
        on_old_line && lines.any(|line| line.text.contains(word))
    }

    /// Whether the baseline has this word at this position.
    pub(crate) fn has_word_at(&self, alternate: bool, no: u64, col: u32, word: &str) -> bool {
        let mut lines = self.lines(alternate).iter();
        lines.any(|line| {
            line.no == no && line.col <= col && {
                let at = byte_index(&line.text, col - line.col);
                line.text[at..].starts_with(word)
            }
        })
    }

    /// Removes lines that are no longer visible from the baseline: such a line is new if it appears again.
    pub(crate) fn retain_visible(&mut self, screen: &ScreenLines) {
        let lines = match screen.alternate {
            true => &mut self.alternate,
            false => &mut self.main,
        };
        lines.retain(|old| {
            screen
                .lines
                .iter()
                .any(|line| line.text.contains(&old.text))
        });
    }
}
