//! From one picture to the next, in the fewest bytes: all that ever reaches the person's terminal while it is attached.
//!
//! Terminals do not agree on how wide some characters are. Behind each of those the place is said anew, and what such a
//! character may have run over is drawn again, so that a row is never torn.

use fugue_api::attach::FrameStyle;
use unicode_width::UnicodeWidthChar;

use super::{
    canvas::{Canvas, Caret, Cell, Glyph},
    looks::{self, Depth},
};

/// Synchronised output, so that no half of a picture is ever seen; without a cursor that jumps about.
const BEGIN: &[u8] = b"\x1b[?2026h\x1b[?25l";
const END: &[u8] = b"\x1b[?2026l";

/// What it takes to show `new` where `old` is shown, or where nothing is known of the screen. Nothing, if it is the same.
pub fn paint(old: Option<&Canvas>, new: &Canvas, depth: Depth) -> Vec<u8> {
    let mut out = Vec::new();
    if old == Some(new) {
        return out;
    }
    out.extend_from_slice(BEGIN);
    let fits = |old: &&Canvas| old.rows == new.rows && old.cols == new.cols;
    let blank;
    let old = match old.filter(fits) {
        Some(old) => old,
        None => {
            looks::say(looks::plain(), depth, &mut out);
            out.extend_from_slice(b"\x1b[2J");
            blank = Canvas::new(new.rows, new.cols);
            &blank
        }
    };
    let mut pen = Pen::new(&mut out, depth);
    for row in 0..new.rows {
        pen.row(row, old.row(row), new.row(row));
    }
    pen.put_down(new.caret);
    out
}

/// The same where only these rows may have changed, from what is told of them, and the caret from what it was.
pub fn repaint(
    were: &[(u16, Vec<Cell>)],
    caret: Option<Caret>,
    new: &Canvas,
    depth: Depth,
) -> Vec<u8> {
    let mut out = Vec::new();
    if new.caret == caret && were.iter().all(|(row, was)| new.row(*row) == was) {
        return out;
    }
    out.extend_from_slice(BEGIN);
    let mut pen = Pen::new(&mut out, depth);
    for (row, was) in were {
        pen.row(*row, was, new.row(*row));
    }
    pen.put_down(new.caret);
    out
}

struct Pen<'a> {
    out: &'a mut Vec<u8>,
    depth: Depth,
    /// Where the terminal's cursor is, if that is sure.
    at: Option<(u16, u16)>,
    look: Option<FrameStyle>,
}

impl<'a> Pen<'a> {
    fn new(out: &'a mut Vec<u8>, depth: Depth) -> Self {
        Self {
            out,
            depth,
            at: None,
            look: None,
        }
    }

    /// The end of a picture: the terminal's own look, and the cursor in its place.
    fn put_down(mut self, caret: Option<Caret>) {
        if self.look.is_some_and(|look| look != looks::plain()) {
            looks::say(looks::plain(), self.depth, self.out);
        }
        if let Some(caret) = caret {
            self.go(caret.row, caret.col);
            let shape = format!("\x1b[{} q\x1b[?25h", caret.shape.min(6));
            self.out.extend_from_slice(shape.as_bytes());
        }
        self.out.extend_from_slice(END);
    }

    fn row(&mut self, row: u16, old: &[Cell], new: &[Cell]) {
        let mut differ = old.iter().zip(new).map(|(was, is)| was != is);
        let Some(first) = differ.position(|differs| differs) else {
            return;
        };
        let last = first
            + 1
            + differ
                .rposition(|differs| differs)
                .map_or(0, |more| more + 1);
        // Up to here something may have been run over.
        let mut spoilt = 0;
        let pairs = old.iter().zip(new).enumerate();
        for (col, (was, is)) in pairs.skip(first.saturating_sub(1)) {
            if col >= last.max(spoilt) {
                return;
            }
            let spill = spill(&is.glyph).max(spill(&was.glyph));
            let changed = was != is
                || col < spoilt
                // The left half was drawn over.
                || (old.get(col + 1).is_some_and(|next| next.glyph == Glyph::Right)
                    && new.get(col + 1) != old.get(col + 1));
            if !changed || is.glyph == Glyph::Right {
                continue;
            }
            spoilt = spoilt.max(col + usize::from(is.glyph.width()) + spill);
            self.cell(row, col as u16, is);
        }
    }

    fn cell(&mut self, row: u16, col: u16, cell: &Cell) {
        self.go(row, col);
        if self.look != Some(cell.look) {
            looks::say(cell.look, self.depth, self.out);
            self.look = Some(cell.look);
        }
        let width = cell.glyph.width();
        let sure = is_sure(&cell.glyph);
        if !sure {
            // A terminal that takes it for narrower leaves blanks of the right look instead of what was there.
            self.out
                .extend(std::iter::repeat_n(b' ', usize::from(width)));
            self.at = None;
            self.go(row, col);
        }
        let mut text = String::new();
        match &cell.glyph {
            // One that modern terminals take for wider than the model does is drawn without what makes it so.
            Glyph::Cluster(cluster, columns)
                if unicode_width::UnicodeWidthStr::width(&**cluster) != usize::from(*columns) =>
            {
                text.extend(cluster.chars().next());
            }
            glyph => glyph.push_to(&mut text),
        }
        self.out.extend_from_slice(text.as_bytes());
        self.at = sure.then_some((row, col + width));
    }

    fn go(&mut self, row: u16, col: u16) {
        if self.at != Some((row, col)) {
            self.out
                .extend_from_slice(format!("\x1b[{};{}H", row + 1, col + 1).as_bytes());
        }
        self.at = Some((row, col));
    }
}

/// How far beyond its own columns a terminal may draw it that knows nothing of joined characters.
fn spill(glyph: &Glyph) -> usize {
    match glyph {
        Glyph::Cluster(text, columns) => {
            let apart: usize = text.chars().map(|c| c.width().unwrap_or(0)).sum();
            // A selector may make it wide.
            apart.max(2).saturating_sub(usize::from(*columns))
        }
        Glyph::Char(_) | Glyph::Wide(_) | Glyph::Right => 0,
    }
}

/// Whether all terminals agree where the cursor is behind it.
fn is_sure(glyph: &Glyph) -> bool {
    match glyph {
        Glyph::Char(c) => {
            !matches!(c, '\u{2600}'..='\u{27bf}' | '\u{2b00}'..='\u{2bff}' | '\u{2e80}'..)
        }
        Glyph::Wide(_) | Glyph::Cluster(..) => false,
        Glyph::Right => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fugue_term::{Terminal, TerminalOptions, TerminalSize};

    fn canvas(rows: &[&str]) -> Canvas {
        let mut canvas = Canvas::new(rows.len() as u16, 12);
        for (row, text) in rows.iter().enumerate() {
            canvas.text(row as u16, 0, text, FrameStyle::default(), 12);
        }
        canvas
    }

    fn shown(terminal: &Terminal) -> String {
        terminal.screen().text()
    }

    #[test]
    fn only_what_is_different_is_written() {
        let old = canvas(&["hello", "world"]);
        let mut new = canvas(&["hello", "would"]);
        let bytes = paint(Some(&old), &new, Depth::True);
        assert_eq!(
            String::from_utf8(bytes).unwrap(),
            "\x1b[?2026h\x1b[?25l\x1b[2;3H\x1b[0mu\x1b[?2026l"
        );
        assert!(paint(Some(&new), &new, Depth::True).is_empty());
        let old = new.clone();
        new.caret = Some(Caret {
            row: 1,
            col: 4,
            shape: 2,
        });
        let bytes = paint(Some(&old), &new, Depth::True);
        assert_eq!(
            String::from_utf8(bytes).unwrap(),
            "\x1b[?2026h\x1b[?25l\x1b[2;5H\x1b[2 q\x1b[?25h\x1b[?2026l"
        );
    }

    #[test]
    fn any_picture_after_any_other_is_shown_as_it_is() {
        let pictures = [
            canvas(&["plain", "text"]),
            canvas(&["漢字漢字漢字", "x漢x"]),
            canvas(&["a漢字漢字b", "漢x漢"]),
            canvas(&["👨\u{200d}👩\u{200d}👧 family", "❤\u{fe0f} heart"]),
            canvas(&["", ""]),
            canvas(&["e\u{301}a\u{300}", "🇩🇪|"]),
        ];
        let mut terminal = Terminal::new(
            TerminalSize { rows: 2, cols: 12 },
            TerminalOptions::default(),
        );
        let mut before: Option<&Canvas> = None;
        for from in &pictures {
            for to in [from].into_iter().chain(&pictures) {
                terminal.feed(&paint(before, to, Depth::True));
                let wanted = to.plain();
                let wanted = wanted.trim_end().replace('\u{fe0f}', "");
                assert_eq!(shown(&terminal).trim_end(), wanted);
                before = Some(to);
            }
        }
    }
}
