//! The cell buffer that a screen is drawn into: text with styles.
//!
//! A character has as many columns as in `fugue-term`, whatever width the host terminal gives it. Drawing outside of the buffer
//! does nothing; drawing over half of a wide character leaves a blank for the other half.

use std::sync::Arc;

use fugue_api::attach::{FrameStyle, Rect};

use super::clean;

#[derive(Clone, Debug, PartialEq)]
pub struct CellBuffer {
    pub rows: u16,
    pub cols: u16,
    cells: Vec<StyledCell>,
    /// The visible cursor.
    pub caret: Option<CursorMark>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CursorMark {
    pub row: u16,
    pub col: u16,
    pub shape: u8,
}

#[derive(Clone, Debug, PartialEq)]
pub struct StyledCell {
    pub glyph: CellGlyph,
    pub style: FrameStyle,
}

#[derive(Clone, Debug, PartialEq)]
pub enum CellGlyph {
    Char(char),
    /// Two columns wide.
    Wide(char),
    /// A character with combining marks, and its width in columns.
    Cluster(Arc<str>, u8),
    /// The right half of a wide character.
    Right,
}

impl CellGlyph {
    /// The glyph of one cell of text, cleaned.
    pub fn new(text: &str, width: usize) -> Self {
        let cleaned = clean::cell(text);
        let text = cleaned.as_deref().unwrap_or(text);
        let mut chars = text.chars();
        match (chars.next(), chars.next()) {
            (None, _) => Self::Char(' '),
            (Some(c), None) if width == 2 => Self::Wide(c),
            (Some(c), None) => Self::Char(c),
            (Some(_), Some(_)) => Self::Cluster(text.into(), if width == 2 { 2 } else { 1 }),
        }
    }

    pub fn width(&self) -> u16 {
        match self {
            Self::Char(_) => 1,
            Self::Wide(_) => 2,
            Self::Cluster(_, width) => u16::from(*width),
            Self::Right => 0,
        }
    }

    pub fn push_to(&self, out: &mut String) {
        match self {
            Self::Char(c) | Self::Wide(c) => out.push(*c),
            Self::Cluster(text, _) => out.push_str(text),
            Self::Right => {}
        }
    }
}

impl StyledCell {
    pub fn blank(style: FrameStyle) -> Self {
        Self {
            glyph: CellGlyph::Char(' '),
            style,
        }
    }
}

impl CellBuffer {
    pub fn new(rows: u16, cols: u16) -> Self {
        let blank = StyledCell::blank(FrameStyle::default());
        Self {
            rows,
            cols,
            cells: vec![blank; usize::from(rows) * usize::from(cols)],
            caret: None,
        }
    }

    pub fn row(&self, row: u16) -> &[StyledCell] {
        let start = usize::from(row) * usize::from(self.cols);
        let end = start + usize::from(self.cols);
        self.cells.get(start..end).unwrap_or_default()
    }

    /// Puts one character into a cell. A wide one that does not fit to the left of `edge` becomes a blank.
    pub fn put(&mut self, row: u16, col: u16, glyph: CellGlyph, style: FrameStyle, edge: u16) {
        let width = glyph.width();
        let edge = edge.min(self.cols);
        if row >= self.rows || col >= edge || width == 0 {
            return;
        }
        // Half of a wide character is drawn as a blank.
        let glyph = if col + width > edge {
            CellGlyph::Char(' ')
        } else {
            glyph
        };
        let wide = glyph.width() == 2;
        self.split_wide(row, col);
        if wide {
            self.split_wide(row, col + 1);
        }
        let at = self.at(row, col);
        self.cells[at] = StyledCell { glyph, style };
        if wide {
            self.cells[at + 1] = StyledCell {
                glyph: CellGlyph::Right,
                style,
            };
        }
    }

    /// Replaces `cols` columns of a row with cells, cut or padded with blanks.
    pub fn put_row(
        &mut self,
        row: u16,
        col: u16,
        cols: u16,
        cells: &[StyledCell],
        seen: impl Fn(&StyledCell) -> StyledCell,
    ) {
        let (edge, blank) = (
            col.saturating_add(cols),
            StyledCell::blank(FrameStyle::default()),
        );
        if row >= self.rows || edge > self.cols || cols == 0 {
            return;
        }
        self.split_wide(row, col);
        self.split_wide(row, edge - 1);
        let at = self.at(row, col);
        let room = &mut self.cells[at..at + usize::from(cols)];
        let halved = |index: usize| match cells.get(index).map(|cell| cell.glyph.width()) {
            Some(0) => index == 0,
            Some(2) => index + 1 == usize::from(cols),
            Some(_) | None => false,
        };
        for (index, place) in room.iter_mut().enumerate() {
            *place = match cells.get(index) {
                Some(cell) if halved(index) => StyledCell::blank(cell.style),
                Some(cell) => seen(cell),
                None => blank.clone(),
            };
        }
    }

    /// Turns the other half of a wide character at this cell into a blank.
    fn split_wide(&mut self, row: u16, col: u16) {
        let at = self.at(row, col);
        if self.cells[at].glyph == CellGlyph::Right && col > 0 {
            self.cells[at - 1].glyph = CellGlyph::Char(' ');
        }
        if self.cells[at].glyph.width() == 2 && col + 1 < self.cols {
            self.cells[at + 1].glyph = CellGlyph::Char(' ');
        }
    }

    fn at(&self, row: u16, col: u16) -> usize {
        usize::from(row) * usize::from(self.cols) + usize::from(col)
    }

    /// Writes a text as far as it fits to the left of `edge`, and returns the column after it.
    pub fn text(&mut self, row: u16, col: u16, text: &str, style: FrameStyle, edge: u16) -> u16 {
        let mut col = col;
        for (cell, width) in fugue_term::text_cells(text) {
            let width = width as u16;
            if col.saturating_add(width) > edge.min(self.cols) {
                break;
            }
            self.put(
                row,
                col,
                CellGlyph::new(cell, usize::from(width)),
                style,
                edge,
            );
            col += width;
        }
        col
    }

    /// The same with an ellipsis if the text is cut.
    pub fn text_cut(
        &mut self,
        row: u16,
        col: u16,
        text: &str,
        style: FrameStyle,
        edge: u16,
    ) -> u16 {
        let room = edge.min(self.cols).saturating_sub(col);
        self.text(row, col, &fit(text, usize::from(room)), style, edge)
    }

    pub fn fill(&mut self, area: Rect, c: char, style: FrameStyle) {
        let edge = area.col.saturating_add(area.cols);
        for row in area.row..area.row.saturating_add(area.rows) {
            for col in area.col..edge {
                self.put(row, col, CellGlyph::Char(c), style, edge);
            }
        }
    }

    /// Changes the style of a range of cells.
    pub fn restyle(
        &mut self,
        row: u16,
        cols: std::ops::Range<u16>,
        by: impl Fn(FrameStyle) -> FrameStyle,
    ) {
        if row >= self.rows {
            return;
        }
        for col in cols.start..cols.end.min(self.cols) {
            let at = self.at(row, col);
            self.cells[at].style = by(self.cells[at].style);
        }
    }

    /// The rows as text.
    #[cfg(test)]
    pub fn plain(&self) -> String {
        let rows = (0..self.rows).map(|row| {
            let mut text = String::new();
            self.row(row)
                .iter()
                .for_each(|cell| cell.glyph.push_to(&mut text));
            text.trim_end().to_owned()
        });
        rows.collect::<Vec<_>>().join("\n")
    }
}

/// The width of a text in columns.
pub fn width(text: &str) -> usize {
    fugue_term::text_cells(text).map(|(_, width)| width).sum()
}

/// Cuts a text to a width in columns; a cut text ends with `…`.
pub fn fit(text: &str, room: usize) -> String {
    if width(text) <= room {
        return text.to_owned();
    }
    let mut kept = String::new();
    let mut used = 1;
    for (cell, width) in fugue_term::text_cells(text) {
        used += width;
        if used > room {
            break;
        }
        kept.push_str(cell);
    }
    if room > 0 {
        kept.push('…');
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wide_character_is_complete_or_blank() {
        let mut buffer = CellBuffer::new(1, 6);
        let style = FrameStyle::default();
        buffer.text(0, 0, "漢字漢", style, 6);
        buffer.text(0, 1, "x", style, 6);
        assert_eq!(buffer.plain(), " x字漢");
        buffer.put(0, 5, CellGlyph::Wide('漢'), style, 6);
        assert_eq!(buffer.plain(), " x字");
        buffer.text(0, 3, "漢", style, 6);
        assert_eq!(buffer.plain(), " x 漢");
    }

    #[test]
    fn a_cut_text_ends_with_an_ellipsis() {
        assert_eq!(fit("abcdef", 4), "abc…");
        assert_eq!(fit("漢字漢", 4), "漢…");
        assert_eq!(fit("abc", 3), "abc");
        assert_eq!(fit("abc", 0), "");
    }
}
