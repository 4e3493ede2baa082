//! Searching the text that a person looks back over.

use std::ops::Range;

use super::{Direction, Find, Place, Scroll, Source};
use crate::canvas::Cell;

impl Scroll {
    /// Looks for something from the cursor on; gives whether the daemon has to be asked.
    pub fn search(&mut self, what: String, direction: Direction) -> bool {
        let lines = match self.source {
            Source::Text => None,
            Source::Screen => Some(
                (0..self.end)
                    .filter(|line| !hits(self.line(*line), &what).is_empty())
                    .collect(),
            ),
        };
        let known = lines.is_some();
        self.find = Some(Find {
            what,
            direction,
            lines,
            more: false,
        });
        if known {
            self.next(direction);
        }
        !known
    }

    /// The lines that have it are known now.
    pub fn found(&mut self, mut lines: Vec<u64>, more: bool) {
        lines.retain(|line| *line >= self.kept_from);
        let Some(find) = &mut self.find else {
            return;
        };
        lines.sort_unstable();
        find.lines = Some(lines);
        find.more = more;
        let direction = find.direction;
        self.next(direction);
    }

    /// Goes to the next hit, around the end if need be; gives whether there is one.
    pub fn next(&mut self, direction: Direction) -> bool {
        let Some(find) = &self.find else {
            return false;
        };
        let Some(lines) = find.lines.as_ref().filter(|lines| !lines.is_empty()) else {
            return false;
        };
        let here = self.cursor;
        let on_this_line = hits(self.line(here.line), &find.what);
        let same = match direction {
            Direction::Back => on_this_line.iter().rev().find(|hit| hit.start < here.col),
            Direction::Forward => on_this_line.iter().find(|hit| hit.start > here.col),
        };
        self.cursor = match same {
            Some(hit) => Place {
                line: here.line,
                col: hit.start,
            },
            None => {
                let line = match direction {
                    Direction::Back => lines.iter().rev().find(|line| **line < here.line),
                    Direction::Forward => lines.iter().find(|line| **line > here.line),
                };
                let around = match direction {
                    Direction::Back => lines.last(),
                    Direction::Forward => lines.first(),
                };
                let line = line.or(around).copied().unwrap_or(here.line);
                let hits = hits(self.line(line), &find.what);
                let hit = match direction {
                    Direction::Back => hits.last(),
                    Direction::Forward => hits.first(),
                };
                Place {
                    line,
                    col: hit.map_or(0, |hit| hit.start),
                }
            }
        };
        // Some text is shown around it.
        let at = self.row_of(self.cursor);
        let shown = self.in_sight();
        if !shown.iter().any(|(row, _)| *row == at) {
            self.top = self
                .moved(at, -(self.rows as i64) / 2)
                .min(self.lowest_top());
        }
        self.end = self.end.max(self.cursor.line + 1);
        self.keep_cursor_in_sight();
        true
    }

    /// A hit on a line that was not there yet is now known exactly.
    pub(super) fn settle_on_hit(&mut self) {
        let Some(find) = self.find.as_ref().filter(|find| find.lines.is_some()) else {
            return;
        };
        if self.cursor.col == 0
            && let Some(hit) = hits(self.line(self.cursor.line), &find.what).first()
        {
            self.cursor.col = hit.start;
        }
    }

    /// Which hit the cursor is on, counted in lines from 1, and of how many.
    pub fn count(&self) -> Option<(usize, usize)> {
        let lines = self.find.as_ref()?.lines.as_ref()?;
        let before = lines.partition_point(|line| *line < self.cursor.line);
        Some(((before + 1).min(lines.len()), lines.len()))
    }
}

/// Where a text occurs in a line; a capital in it makes capitals count.
pub fn hits(cells: &[Cell], what: &str) -> Vec<Range<usize>> {
    if what.is_empty() {
        return Vec::new();
    }
    let exact = what.chars().any(char::is_uppercase);
    let same = |c: char| -> Vec<char> {
        if exact {
            vec![c]
        } else {
            c.to_lowercase().collect()
        }
    };
    let mut text = Vec::new();
    for (index, cell) in cells.iter().enumerate() {
        let mut own = String::new();
        cell.glyph.push_to(&mut own);
        text.extend(own.chars().flat_map(same).map(|c| (c, index)));
    }
    let what: Vec<char> = what.chars().flat_map(same).collect();
    let mut found = Vec::new();
    let mut at = 0;
    while at + what.len() <= text.len() {
        if text[at..at + what.len()].iter().map(|(c, _)| c).eq(&what) {
            let last = text[at + what.len() - 1].1;
            found.push(text[at].1..last + 1);
            at += what.len();
        } else {
            at += 1;
        }
    }
    found
}

/// The same as a pattern for the daemon.
pub fn pattern(what: &str) -> String {
    let exact = what.chars().any(char::is_uppercase);
    let mut pattern = String::from(if exact { "" } else { "(?i)" });
    for c in what.chars() {
        if r"\.+*?()|[]{}^$#&-~".contains(c) {
            pattern.push('\\');
        }
        pattern.push(c);
    }
    pattern
}
