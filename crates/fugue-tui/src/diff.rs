//! Encodes the difference between two screens in few bytes. Apart from mode changes, nothing else is written to the host terminal
//! while it is attached.
//!
//! Terminals do not agree on the width of some characters. After each of those the cursor is positioned again, and the cells
//! that such a character may have covered are drawn again, so that a row is never misaligned.

use fugue_api::attach::FrameStyle;
use unicode_width::UnicodeWidthChar;

use super::{
    buffer::{CellBuffer, CellGlyph, CursorMark, StyledCell},
    style::{self, ColorDepth},
};

/// Synchronized output, so that no partial screen is visible; the cursor is hidden meanwhile.
const BEGIN: &[u8] = b"\x1b[?2026h\x1b[?25l";
const END: &[u8] = b"\x1b[?2026l";

/// The bytes that change the terminal from `old` to `new`; without `old` the screen is cleared first. Empty if both are equal.
pub fn diff(old: Option<&CellBuffer>, new: &CellBuffer, depth: ColorDepth) -> Vec<u8> {
    let mut out = Vec::new();
    if old == Some(new) {
        return out;
    }
    out.extend_from_slice(BEGIN);
    let fits = |old: &&CellBuffer| old.rows == new.rows && old.cols == new.cols;
    let blank;
    let old = match old.filter(fits) {
        Some(old) => old,
        None => {
            style::write_sgr(style::plain(), depth, &mut out);
            out.extend_from_slice(b"\x1b[2J");
            blank = CellBuffer::new(new.rows, new.cols);
            &blank
        }
    };
    let mut writer = DiffWriter::new(&mut out, depth);
    for row in 0..new.rows {
        writer.row(row, old.row(row), new.row(row));
    }
    writer.finish(new.caret);
    out
}

/// The same where only these rows, given with their old cells, and the cursor may have changed.
pub fn diff_rows(
    old_rows: &[(u16, Vec<StyledCell>)],
    caret: Option<CursorMark>,
    new: &CellBuffer,
    depth: ColorDepth,
) -> Vec<u8> {
    let mut out = Vec::new();
    if new.caret == caret && old_rows.iter().all(|(row, was)| new.row(*row) == was) {
        return out;
    }
    out.extend_from_slice(BEGIN);
    let mut writer = DiffWriter::new(&mut out, depth);
    for (row, was) in old_rows {
        writer.row(*row, was, new.row(*row));
    }
    writer.finish(new.caret);
    out
}

struct DiffWriter<'a> {
    out: &'a mut Vec<u8>,
    depth: ColorDepth,
    /// The position of the terminal's cursor, if it is certain.
    at: Option<(u16, u16)>,
    style: Option<FrameStyle>,
}

impl<'a> DiffWriter<'a> {
    fn new(out: &'a mut Vec<u8>, depth: ColorDepth) -> Self {
        Self {
            out,
            depth,
            at: None,
            style: None,
        }
    }

    /// Ends the screen: default style, and the cursor at its position.
    fn finish(mut self, caret: Option<CursorMark>) {
        if self.style.is_some_and(|style| style != style::plain()) {
            style::write_sgr(style::plain(), self.depth, self.out);
        }
        if let Some(caret) = caret {
            self.move_to(caret.row, caret.col);
            let shape = format!("\x1b[{} q\x1b[?25h", caret.shape.min(6));
            self.out.extend_from_slice(shape.as_bytes());
        }
        self.out.extend_from_slice(END);
    }

    fn row(&mut self, row: u16, old: &[StyledCell], new: &[StyledCell]) {
        let mut differ = old.iter().zip(new).map(|(was, is)| was != is);
        let Some(first) = differ.position(|differs| differs) else {
            return;
        };
        let last = first
            + 1
            + differ
                .rposition(|differs| differs)
                .map_or(0, |more| more + 1);
        // Cells before this column may have been covered by a wider character.
        let mut redraw_until = 0;
        let pairs = old.iter().zip(new).enumerate();
        for (col, (was, is)) in pairs.skip(first.saturating_sub(1)) {
            if col >= last.max(redraw_until) {
                return;
            }
            let spill = spill(&is.glyph).max(spill(&was.glyph));
            let changed = was != is
                || col < redraw_until
                // The right half of this wide character changes.
                || (old.get(col + 1).is_some_and(|next| next.glyph == CellGlyph::Right)
                    && new.get(col + 1) != old.get(col + 1));
            if !changed || is.glyph == CellGlyph::Right {
                continue;
            }
            redraw_until = redraw_until.max(col + usize::from(is.glyph.width()) + spill);
            self.cell(row, col as u16, is);
        }
    }

    fn cell(&mut self, row: u16, col: u16, cell: &StyledCell) {
        self.move_to(row, col);
        if self.style != Some(cell.style) {
            style::write_sgr(cell.style, self.depth, self.out);
            self.style = Some(cell.style);
        }
        let width = cell.glyph.width();
        let sure = has_agreed_width(&cell.glyph);
        if !sure {
            // In a terminal with a narrower character, blanks in the right style remain instead of old text.
            self.out
                .extend(std::iter::repeat_n(b' ', usize::from(width)));
            self.at = None;
            self.move_to(row, col);
        }
        let mut text = String::new();
        match &cell.glyph {
            // A cluster that modern terminals draw wider than `fugue-term` is reduced to its first character.
            CellGlyph::Cluster(cluster, columns)
                if unicode_width::UnicodeWidthStr::width(&**cluster) != usize::from(*columns) =>
            {
                text.extend(cluster.chars().next());
            }
            glyph => glyph.push_to(&mut text),
        }
        self.out.extend_from_slice(text.as_bytes());
        self.at = sure.then_some((row, col + width));
    }

    fn move_to(&mut self, row: u16, col: u16) {
        if self.at != Some((row, col)) {
            self.out
                .extend_from_slice(format!("\x1b[{};{}H", row + 1, col + 1).as_bytes());
        }
        self.at = Some((row, col));
    }
}

/// How many columns beyond its own a terminal without cluster support may draw a glyph.
fn spill(glyph: &CellGlyph) -> usize {
    match glyph {
        CellGlyph::Cluster(text, columns) => {
            let apart: usize = text.chars().map(|c| c.width().unwrap_or(0)).sum();
            // A variation selector may make the character wide.
            apart.max(2).saturating_sub(usize::from(*columns))
        }
        CellGlyph::Char(_) | CellGlyph::Wide(_) | CellGlyph::Right => 0,
    }
}

/// Whether all terminals agree on the width of a glyph.
fn has_agreed_width(glyph: &CellGlyph) -> bool {
    match glyph {
        CellGlyph::Char(c) => {
            !matches!(c, '\u{2600}'..='\u{27bf}' | '\u{2b00}'..='\u{2bff}' | '\u{2e80}'..)
        }
        CellGlyph::Wide(_) | CellGlyph::Cluster(..) => false,
        CellGlyph::Right => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fugue_term::{Terminal, TerminalOptions, TerminalSize};

    fn buffer(rows: &[&str]) -> CellBuffer {
        let mut buffer = CellBuffer::new(rows.len() as u16, 12);
        for (row, text) in rows.iter().enumerate() {
            buffer.text(row as u16, 0, text, FrameStyle::default(), 12);
        }
        buffer
    }

    fn shown(terminal: &Terminal) -> String {
        terminal.screen().text()
    }

    #[test]
    fn only_differences_are_written() {
        let old = buffer(&["hello", "world"]);
        let mut new = buffer(&["hello", "would"]);
        let bytes = diff(Some(&old), &new, ColorDepth::True);
        assert_eq!(
            String::from_utf8(bytes).unwrap(),
            "\x1b[?2026h\x1b[?25l\x1b[2;3H\x1b[0mu\x1b[?2026l"
        );
        assert!(diff(Some(&new), &new, ColorDepth::True).is_empty());
        let old = new.clone();
        new.caret = Some(CursorMark {
            row: 1,
            col: 4,
            shape: 2,
        });
        let bytes = diff(Some(&old), &new, ColorDepth::True);
        assert_eq!(
            String::from_utf8(bytes).unwrap(),
            "\x1b[?2026h\x1b[?25l\x1b[2;5H\x1b[2 q\x1b[?25h\x1b[?2026l"
        );
    }

    #[test]
    fn any_screen_can_follow_any_other() {
        let pictures = [
            buffer(&["plain", "text"]),
            buffer(&["漢字漢字漢字", "x漢x"]),
            buffer(&["a漢字漢字b", "漢x漢"]),
            buffer(&["👨\u{200d}👩\u{200d}👧 family", "❤\u{fe0f} heart"]),
            buffer(&["", ""]),
            buffer(&["e\u{301}a\u{300}", "🇩🇪|"]),
        ];
        let mut terminal = Terminal::new(
            TerminalSize { rows: 2, cols: 12 },
            TerminalOptions::default(),
        );
        let mut before: Option<&CellBuffer> = None;
        for from in &pictures {
            for to in [from].into_iter().chain(&pictures) {
                terminal.feed(&diff(before, to, ColorDepth::True));
                let wanted = to.plain();
                let wanted = wanted.trim_end().replace('\u{fe0f}', "");
                assert_eq!(shown(&terminal).trim_end(), wanted);
                before = Some(to);
            }
        }
    }
}
