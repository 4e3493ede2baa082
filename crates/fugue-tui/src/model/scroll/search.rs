//! Search in a scroll view.

use std::ops::Range;

use super::{ScrollPosition, ScrollSource, ScrollView, SearchDirection, TextSearch};
use crate::buffer::StyledCell;

impl ScrollView {
    /// Starts a search at the cursor. Returns whether the daemon has to search: a copy of the screen is searched here.
    pub fn search(&mut self, what: String, direction: SearchDirection) -> bool {
        let lines = match self.source {
            ScrollSource::Text => None,
            ScrollSource::Screen => Some(
                (0..self.end)
                    .filter(|line| !find_matches(self.line(*line), &what).is_empty())
                    .collect(),
            ),
        };
        let known = lines.is_some();
        self.find = Some(TextSearch {
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

    /// Applies the numbers of the matching lines.
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

    /// Moves to the next match, and wraps around at the end. Returns whether there is a match.
    pub fn next(&mut self, direction: SearchDirection) -> bool {
        let Some(find) = &self.find else {
            return false;
        };
        let Some(lines) = find.lines.as_ref().filter(|lines| !lines.is_empty()) else {
            return false;
        };
        let here = self.cursor;
        let on_this_line = find_matches(self.line(here.line), &find.what);
        let same = match direction {
            SearchDirection::Back => on_this_line.iter().rev().find(|hit| hit.start < here.col),
            SearchDirection::Forward => on_this_line.iter().find(|hit| hit.start > here.col),
        };
        self.cursor = match same {
            Some(hit) => ScrollPosition {
                line: here.line,
                col: hit.start,
            },
            None => {
                let line = match direction {
                    SearchDirection::Back => lines.iter().rev().find(|line| **line < here.line),
                    SearchDirection::Forward => lines.iter().find(|line| **line > here.line),
                };
                let around = match direction {
                    SearchDirection::Back => lines.last(),
                    SearchDirection::Forward => lines.first(),
                };
                let line = line.or(around).copied().unwrap_or(here.line);
                let find_matches = find_matches(self.line(line), &find.what);
                let hit = match direction {
                    SearchDirection::Back => find_matches.last(),
                    SearchDirection::Forward => find_matches.first(),
                };
                ScrollPosition {
                    line,
                    col: hit.map_or(0, |hit| hit.start),
                }
            }
        };
        // A match outside the screen is shown in its middle.
        let at = self.row_of(self.cursor);
        let shown = self.visible_rows();
        if !shown.iter().any(|(row, _)| *row == at) {
            self.top = self
                .moved(at, -(self.rows as i64) / 2)
                .min(self.lowest_top());
        }
        self.end = self.end.max(self.cursor.line + 1);
        self.keep_cursor_visible();
        true
    }

    /// Moves the cursor to the match in its line, after the line was fetched.
    pub(super) fn move_to_match(&mut self) {
        let Some(find) = self.find.as_ref().filter(|find| find.lines.is_some()) else {
            return;
        };
        if self.cursor.col == 0
            && let Some(hit) = find_matches(self.line(self.cursor.line), &find.what).first()
        {
            self.cursor.col = hit.start;
        }
    }

    /// The index of the cursor's line among the matching lines, counted from 1, and their number.
    pub fn count(&self) -> Option<(usize, usize)> {
        let lines = self.find.as_ref()?.lines.as_ref()?;
        let before = lines.partition_point(|line| *line < self.cursor.line);
        Some(((before + 1).min(lines.len()), lines.len()))
    }
}

/// The matches of a text in a line. The search is case-sensitive if the text has a capital letter.
pub fn find_matches(cells: &[StyledCell], what: &str) -> Vec<Range<usize>> {
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

/// The same search as a pattern for the daemon.
pub fn grep_pattern(what: &str) -> String {
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
