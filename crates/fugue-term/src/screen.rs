//! The visible screen, as text and cell by cell.

use crate::cell::{Glyph, Style};
use crate::grid::Grid;
use crate::machine::Machine;

/// What is visible now.
#[derive(Clone, Copy, Debug)]
pub struct Screen<'a> {
    machine: &'a Machine,
}

/// One cell, for a renderer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScreenCell<'a> {
    text: Text<'a>,
    /// How many columns it takes: 1 or 2.
    pub width: u8,
    /// How it looks.
    pub style: Style,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Text<'a> {
    Char(char),
    Cluster(&'a str),
}

impl<'a> Screen<'a> {
    pub(crate) fn new(machine: &'a Machine) -> Self {
        Screen { machine }
    }

    /// The rows as text, top to bottom, without blanks at their ends.
    pub fn rows(&self) -> impl Iterator<Item = String> + 'a {
        let clusters = &self.machine.clusters;
        self.grid().rows.iter().map(move |row| {
            let mut text = String::new();
            row.text_into(clusters, &mut text);
            text.truncate(text.trim_end_matches(' ').len());
            text
        })
    }

    /// The rows as one text, blank rows at the end left out.
    pub fn text(&self) -> String {
        let rows: Vec<String> = self.rows().collect();
        let used = rows
            .iter()
            .rposition(|row| !row.is_empty())
            .map_or(0, |last| last + 1);
        rows[..used].join("\n")
    }

    /// The cells of one row, left to right; those beyond the last are blank.
    pub fn cells(&self, row: usize) -> impl Iterator<Item = ScreenCell<'a>> {
        let clusters = &self.machine.clusters;
        let cells = self.grid().rows.get(row).map_or(&[][..], |row| row.cells());
        cells
            .iter()
            .filter(|cell| !cell.is_spacer())
            .map(move |cell| ScreenCell {
                text: match cell.glyph() {
                    Glyph::Char(c) => Text::Char(c),
                    Glyph::Cluster(number) => Text::Cluster(clusters.get(number)),
                    Glyph::Blank | Glyph::Spacer => Text::Char(' '),
                },
                width: if cell.is_wide() { 2 } else { 1 },
                style: cell.style,
            })
    }

    /// A number for each row, top to bottom, by which it is known again: rows that look different have different ones.
    pub fn known_by(&self) -> impl Iterator<Item = u64> + 'a {
        let clusters = &self.machine.clusters;
        self.grid().rows.iter().map(|row| row.known_by(clusters))
    }

    /// Whether the line of this row goes on in the next one.
    pub fn is_wrapped(&self, row: usize) -> bool {
        self.grid().rows.get(row).is_some_and(|row| row.wrapped())
    }

    /// Row and column of the cursor, from 0.
    pub fn cursor(&self) -> (usize, usize) {
        (self.grid().cursor.y, self.grid().column())
    }

    /// Whether the cursor is shown.
    pub fn cursor_visible(&self) -> bool {
        self.machine.modes.cursor_visible
    }

    /// Whether this is the alternate screen.
    pub fn alternate(&self) -> bool {
        self.machine.alt.is_some()
    }

    fn grid(&self) -> &'a Grid {
        self.machine.shown()
    }
}

impl ScreenCell<'_> {
    /// Appends its character, with the marks joined to it.
    pub fn push_to(&self, out: &mut String) {
        match self.text {
            Text::Char(c) => out.push(c),
            Text::Cluster(text) => out.push_str(text),
        }
    }
}
