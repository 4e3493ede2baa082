//! What is on the screen and what of it is new, for words that are painted with cursor moves and not printed in a row.
//!
//! A program that redraws its screen prints what was there before once more. So what was visible when a search began
//! is remembered, and a line that looks the same, or a word that is still where it was, is not new.

use crate::machine::Machine;
use crate::place::{LineNo, TextCursor};
use crate::shell::ShellMarkKind;
use crate::terminal::Terminal;
use crate::watch::EchoPolicy;

/// Where the echo of typed lines is, by the shell's marks.
#[derive(Debug, Default)]
pub(crate) struct Echoes(Vec<(Place, Option<Place>)>);

type Place = (LineNo, u32);

impl Echoes {
    /// Those that are not to be searched.
    pub(crate) fn of(terminal: &Terminal, echo: EchoPolicy) -> Self {
        let mut echoes = Vec::new();
        if echo == EchoPolicy::Match {
            return Echoes(echoes);
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
        if terminal.machine.shell.echoes() {
            echoes.extend(began.map(|began| (began, None)));
        }
        Echoes(echoes)
    }

    /// The parts of a line that are no echo, each with its column; `text` starts at column `col`.
    pub(crate) fn strip<'a>(&self, no: LineNo, col: u32, text: &'a str) -> Vec<(u32, &'a str)> {
        let within = |(began, ended): &&(Place, Option<Place>)| {
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
                    // An echo that ended where this line begins took nothing of it.
                    if to <= from {
                        return vec![(col, text)];
                    }
                    let cut = |at: u32| byte_of(text, at.saturating_sub(col) as usize);
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

fn byte_of(text: &str, chars: usize) -> usize {
    text.char_indices()
        .nth(chars)
        .map_or(text.len(), |(at, _)| at)
}

/// A line on the screen, or a part of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    /// The line's number; on the alternate screen the row's.
    pub(crate) no: u64,
    /// Where in the line the text starts.
    pub(crate) col: u32,
    pub(crate) text: String,
    touched: u64,
}

/// The visible lines, top to bottom.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sight {
    pub(crate) lines: Vec<Seen>,
    pub(crate) alternate: bool,
}

/// Lines that are next to each other, as one text.
#[derive(Debug)]
pub(crate) struct Stretch<'a> {
    pub(crate) text: String,
    /// Where each line starts in it.
    starts: Vec<(usize, &'a Seen)>,
}

impl Sight {
    /// What is visible now.
    pub(crate) fn of(terminal: &Terminal, echoes: &Echoes) -> Self {
        let machine = &terminal.machine;
        match &machine.alt {
            Some(_) => Sight {
                lines: alternate_lines(machine),
                alternate: true,
            },
            None => Sight {
                lines: main_lines(machine, echoes),
                alternate: false,
            },
        }
    }

    /// The main screen, also when it is hidden.
    pub(crate) fn of_main(terminal: &Terminal, echoes: &Echoes) -> Self {
        Sight {
            lines: main_lines(&terminal.machine, echoes),
            alternate: false,
        }
    }

    /// What changed behind an offset and does not look like something that was there before.
    pub(crate) fn fresh(&self, since: u64, stale: &Stale) -> Vec<Stretch<'_>> {
        let mut stretches: Vec<Stretch<'_>> = Vec::new();
        let mut joins = false;
        for line in &self.lines {
            if line.touched <= since || stale.has(self.alternate, &line.text) {
                joins = false;
                continue;
            }
            match stretches.last_mut().filter(|_| joins) {
                Some(stretch) => {
                    stretch.text.push('\n');
                    stretch.starts.push((stretch.text.len(), line));
                    stretch.text.push_str(&line.text);
                }
                None => stretches.push(Stretch {
                    text: line.text.clone(),
                    starts: vec![(0, line)],
                }),
            }
            joins = true;
        }
        stretches
    }
}

fn main_lines(machine: &Machine, echoes: &Echoes) -> Vec<Seen> {
    let mut seen = Vec::new();
    for (line, dates) in machine.screen_lines() {
        for (col, text) in echoes.strip(line.no, 0, &line.text) {
            seen.push(Seen {
                no: line.no.0,
                col,
                text: text.to_owned(),
                touched: dates.touched,
            });
        }
    }
    seen
}

fn alternate_lines(machine: &Machine) -> Vec<Seen> {
    let mut seen: Vec<Seen> = Vec::new();
    let mut goes_on = false;
    for (no, row) in machine.shown().rows.iter().enumerate() {
        let mut text = String::new();
        row.text_into(&machine.clusters, &mut text);
        match seen.last_mut().filter(|_| goes_on) {
            Some(line) => {
                line.text.push_str(&text);
                line.touched = line.touched.max(row.past.touched);
            }
            None => seen.push(Seen {
                no: no as u64,
                col: 0,
                text,
                touched: row.past.touched,
            }),
        }
        goes_on = row.wrapped();
    }
    for line in &mut seen {
        // Programs that paint fill their rows with blanks.
        line.text.truncate(line.text.trim_end_matches(' ').len());
    }
    seen
}

impl Stretch<'_> {
    /// The line that has the byte at `at`, and the column of that byte.
    pub(crate) fn find(&self, at: usize) -> (&Seen, u32) {
        let behind = self.starts.partition_point(|(start, _)| *start <= at);
        let (start, line) = self.starts[behind.saturating_sub(1)];
        let before = self.text[start..at].chars().count();
        (line, line.col + before as u32)
    }
}

/// What was visible when the search began.
#[derive(Debug, Default)]
pub(crate) struct Stale {
    main: Vec<Seen>,
    alternate: Vec<Seen>,
    /// The last line of the main screen that had text.
    last: Option<u64>,
}

impl Stale {
    pub(crate) fn of(terminal: &Terminal, echoes: &Echoes) -> Self {
        let text = |sight: Sight| -> Vec<Seen> {
            let lines = sight.lines.into_iter();
            lines.filter(|line| !line.text.is_empty()).collect()
        };
        let main = text(Sight::of_main(terminal, echoes));
        let shown = Sight::of(terminal, echoes);
        Stale {
            last: main.last().map(|line| line.no),
            main,
            alternate: if shown.alternate {
                text(shown)
            } else {
                Vec::new()
            },
        }
    }

    fn lines(&self, alternate: bool) -> &[Seen] {
        if alternate {
            &self.alternate
        } else {
            &self.main
        }
    }

    fn has(&self, alternate: bool, text: &str) -> bool {
        self.lines(alternate).iter().any(|line| line.text == text)
    }

    /// Whether a word painted at a place may be an old one that was drawn again; a look tells.
    pub(crate) fn may_have(&self, alternate: bool, at: TextCursor, word: &str) -> bool {
        let old_ground = alternate || self.last.is_some_and(|last| at.line.0 <= last);
        let mut lines = self.lines(alternate).iter();
        old_ground && lines.any(|line| line.text.contains(word))
    }

    /// Whether this word was at this place already.
    pub(crate) fn has_at(&self, alternate: bool, no: u64, col: u32, word: &str) -> bool {
        let mut lines = self.lines(alternate).iter();
        lines.any(|line| {
            line.no == no && line.col <= col && {
                let at = byte_of(&line.text, (col - line.col) as usize);
                line.text[at..].starts_with(word)
            }
        })
    }

    /// What is no longer there would be new if it came back.
    pub(crate) fn forget_what_is_gone(&mut self, sight: &Sight) {
        let lines = match sight.alternate {
            true => &mut self.alternate,
            false => &mut self.main,
        };
        lines.retain(|old| sight.lines.iter().any(|line| line.text.contains(&old.text)));
    }
}
