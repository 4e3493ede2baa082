//! The visible screen, as text and cell by cell.

use crate::cell::{Glyph, Style};
use crate::grid::Grid;
use crate::terminal_state::TerminalState;

/// The visible screen at the time of the call.
#[derive(Clone, Copy, Debug)]
pub struct Screen<'a> {
    state: &'a TerminalState,
}

/// One cell, for a renderer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScreenCell<'a> {
    text: CellText<'a>,
    /// Number of columns: 1 or 2.
    pub width: u8,
    /// Colours and attributes.
    pub style: Style,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CellText<'a> {
    Char(char),
    Cluster(&'a str),
}

impl<'a> Screen<'a> {
    pub(crate) fn new(state: &'a TerminalState) -> Self {
        Screen { state }
    }

    /// The rows as text, top to bottom, without trailing blanks.
    pub fn rows(&self) -> impl Iterator<Item = String> + 'a {
        let clusters = &self.state.clusters;
        self.grid().rows.iter().map(move |row| {
            let mut text = String::new();
            row.text_into(clusters, &mut text);
            text.truncate(text.trim_end_matches(' ').len());
            text
        })
    }

    /// The rows as one text, without blank rows at the end.
    pub fn text(&self) -> String {
        let rows: Vec<String> = self.rows().collect();
        let used = rows
            .iter()
            .rposition(|row| !row.is_empty())
            .map_or(0, |last| last + 1);
        rows[..used].join("\n")
    }

    /// The cells of one row, left to right, up to the last cell that is not blank.
    pub fn cells(&self, row: usize) -> impl Iterator<Item = ScreenCell<'a>> {
        let clusters = &self.state.clusters;
        let cells = self.grid().rows.get(row).map_or(&[][..], |row| row.cells());
        cells
            .iter()
            .filter(|cell| !cell.is_spacer())
            .map(move |cell| ScreenCell {
                text: match cell.glyph() {
                    Glyph::Char(c) => CellText::Char(c),
                    Glyph::Cluster(number) => CellText::Cluster(clusters.get(number)),
                    Glyph::Blank | Glyph::Spacer => CellText::Char(' '),
                },
                width: if cell.is_wide() { 2 } else { 1 },
                style: cell.style,
            })
    }

    /// A hash of each row, top to bottom. Rows that look different have different hashes.
    pub fn row_hashes(&self) -> impl Iterator<Item = u64> + 'a {
        let clusters = &self.state.clusters;
        self.grid()
            .rows
            .iter()
            .map(|row| row.content_hash(clusters))
    }

    /// Whether the line of this row continues in the next row.
    pub fn is_wrapped(&self, row: usize) -> bool {
        self.grid()
            .rows
            .get(row)
            .is_some_and(|row| row.is_wrapped())
    }

    /// Row and column of the cursor, from 0.
    pub fn cursor(&self) -> (usize, usize) {
        (self.grid().cursor.y, self.grid().cursor_column())
    }

    /// Whether the cursor is shown.
    pub fn cursor_visible(&self) -> bool {
        self.state.modes.cursor_visible
    }

    /// Whether the alternate screen is shown.
    pub fn is_alternate(&self) -> bool {
        self.state.alt.is_some()
    }

    fn grid(&self) -> &'a Grid {
        self.state.active_grid()
    }
}

impl ScreenCell<'_> {
    /// Appends the cell's character with its combining marks.
    pub fn append_to(&self, out: &mut String) {
        match self.text {
            CellText::Char(c) => out.push(c),
            CellText::Cluster(text) => out.push_str(text),
        }
    }
}
