//! The picture before it is shown: cells of text with their looks.
//!
//! A character takes as many columns here as in the terminal model that it comes from, whatever the person's terminal
//! thinks of it. What is drawn outside, or over half of a wide character, harms nothing.

use std::sync::Arc;

use fugue_api::attach::{FrameStyle, Rect};

use super::clean;

#[derive(Clone, Debug, PartialEq)]
pub struct Canvas {
    pub rows: u16,
    pub cols: u16,
    cells: Vec<Cell>,
    /// Where a person types, if that is in sight.
    pub caret: Option<Caret>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caret {
    pub row: u16,
    pub col: u16,
    pub shape: u8,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    pub glyph: Glyph,
    pub look: FrameStyle,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Glyph {
    Char(char),
    /// Two columns wide.
    Wide(char),
    /// With marks joined to it; so many columns wide.
    Cluster(Arc<str>, u8),
    /// The right half of what is to the left.
    Right,
}

impl Glyph {
    /// A character that was cut from a screen's text.
    pub fn of(text: &str, width: usize) -> Self {
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

impl Cell {
    pub fn blank(look: FrameStyle) -> Self {
        Self {
            glyph: Glyph::Char(' '),
            look,
        }
    }
}

impl Canvas {
    pub fn new(rows: u16, cols: u16) -> Self {
        let blank = Cell::blank(FrameStyle::default());
        Self {
            rows,
            cols,
            cells: vec![blank; usize::from(rows) * usize::from(cols)],
            caret: None,
        }
    }

    pub fn row(&self, row: u16) -> &[Cell] {
        let start = usize::from(row) * usize::from(self.cols);
        let end = start + usize::from(self.cols);
        self.cells.get(start..end).unwrap_or_default()
    }

    /// Puts one character there, if all of it fits to the left of `edge`.
    pub fn put(&mut self, row: u16, col: u16, glyph: Glyph, look: FrameStyle, edge: u16) {
        let width = glyph.width();
        let edge = edge.min(self.cols);
        if row >= self.rows || col >= edge || width == 0 {
            return;
        }
        // Half of a wide character is a blank.
        let glyph = if col + width > edge {
            Glyph::Char(' ')
        } else {
            glyph
        };
        let wide = glyph.width() == 2;
        self.make_room(row, col);
        if wide {
            self.make_room(row, col + 1);
        }
        let at = self.at(row, col);
        self.cells[at] = Cell { glyph, look };
        if wide {
            self.cells[at + 1] = Cell {
                glyph: Glyph::Right,
                look,
            };
        }
    }

    /// Puts a row of a screen there, cut or filled up with blanks to so many columns. What was there is gone.
    pub fn lay(
        &mut self,
        row: u16,
        col: u16,
        cols: u16,
        cells: &[Cell],
        seen: impl Fn(&Cell) -> Cell,
    ) {
        let (edge, blank) = (col.saturating_add(cols), Cell::blank(FrameStyle::default()));
        if row >= self.rows || edge > self.cols || cols == 0 {
            return;
        }
        self.make_room(row, col);
        self.make_room(row, edge - 1);
        let at = self.at(row, col);
        let room = &mut self.cells[at..at + usize::from(cols)];
        let halved = |index: usize| match cells.get(index).map(|cell| cell.glyph.width()) {
            Some(0) => index == 0,
            Some(2) => index + 1 == usize::from(cols),
            Some(_) | None => false,
        };
        for (index, place) in room.iter_mut().enumerate() {
            *place = match cells.get(index) {
                Some(cell) if halved(index) => Cell::blank(cell.look),
                Some(cell) => seen(cell),
                None => blank.clone(),
            };
        }
    }

    /// What is half under this place becomes a blank.
    fn make_room(&mut self, row: u16, col: u16) {
        let at = self.at(row, col);
        if self.cells[at].glyph == Glyph::Right && col > 0 {
            self.cells[at - 1].glyph = Glyph::Char(' ');
        }
        if self.cells[at].glyph.width() == 2 && col + 1 < self.cols {
            self.cells[at + 1].glyph = Glyph::Char(' ');
        }
    }

    fn at(&self, row: u16, col: u16) -> usize {
        usize::from(row) * usize::from(self.cols) + usize::from(col)
    }

    /// Writes a text of ours or a cleaned one, as far as it fits to the left of `edge`, and gives the column behind it.
    pub fn text(&mut self, row: u16, col: u16, text: &str, look: FrameStyle, edge: u16) -> u16 {
        let mut col = col;
        for (cell, width) in fugue_term::cells(text) {
            let width = width as u16;
            if col.saturating_add(width) > edge.min(self.cols) {
                break;
            }
            self.put(row, col, Glyph::of(cell, usize::from(width)), look, edge);
            col += width;
        }
        col
    }

    /// The same; what does not fit is told by an ellipsis.
    pub fn text_cut(&mut self, row: u16, col: u16, text: &str, look: FrameStyle, edge: u16) -> u16 {
        let room = edge.min(self.cols).saturating_sub(col);
        self.text(row, col, &fit(text, usize::from(room)), look, edge)
    }

    pub fn fill(&mut self, area: Rect, c: char, look: FrameStyle) {
        let edge = area.col.saturating_add(area.cols);
        for row in area.row..area.row.saturating_add(area.rows) {
            for col in area.col..edge {
                self.put(row, col, Glyph::Char(c), look, edge);
            }
        }
    }

    /// Changes how a stretch of a row looks.
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
            self.cells[at].look = by(self.cells[at].look);
        }
    }

    /// The rows as text, for whoever compares pictures.
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

/// Columns that a text takes.
pub fn width(text: &str) -> usize {
    fugue_term::cells(text).map(|(_, width)| width).sum()
}

/// As much of a text as fits into so many columns; it ends with `…` if that is not all.
pub fn fit(text: &str, room: usize) -> String {
    if width(text) <= room {
        return text.to_owned();
    }
    let mut kept = String::new();
    let mut used = 1;
    for (cell, width) in fugue_term::cells(text) {
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
    fn a_wide_character_is_whole_or_not_there() {
        let mut canvas = Canvas::new(1, 6);
        let look = FrameStyle::default();
        canvas.text(0, 0, "漢字漢", look, 6);
        canvas.text(0, 1, "x", look, 6);
        assert_eq!(canvas.plain(), " x字漢");
        canvas.put(0, 5, Glyph::Wide('漢'), look, 6);
        assert_eq!(canvas.plain(), " x字");
        canvas.text(0, 3, "漢", look, 6);
        assert_eq!(canvas.plain(), " x 漢");
    }

    #[test]
    fn what_does_not_fit_ends_with_dots() {
        assert_eq!(fit("abcdef", 4), "abc…");
        assert_eq!(fit("漢字漢", 4), "漢…");
        assert_eq!(fit("abc", 3), "abc");
        assert_eq!(fit("abc", 0), "");
    }
}
