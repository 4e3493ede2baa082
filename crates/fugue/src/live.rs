//! A few rows at the bottom of a terminal, drawn again in place.
//!
//! The terminal is in its usual state whenever nothing is being written: whatever ends the process, there is nothing
//! to put back.

use fugue_api::Error;

use crate::{
    out::{Out, Tone, clean, fit, width},
    text::Styled,
};

/// One row of words in their colours, and how wide it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Row {
    text: Styled,
    width: usize,
}

impl Row {
    /// Adds a word, cut and padded to so many columns.
    pub fn word(mut self, out: &Out, word: &str, tone: Tone, columns: usize) -> Self {
        let word = fit(&clean(word), columns);
        let pad = columns.saturating_sub(width(&word));
        self.text = self.text.then(out.toned(&word, tone)).then(" ".repeat(pad));
        self.width += columns;
        self
    }

    /// Adds a word that may take what is left of so many columns, and ends the row.
    pub fn rest(mut self, out: &Out, word: &str, tone: Tone, columns: usize) -> Self {
        let word = fit(&clean(word), columns.saturating_sub(self.width));
        self.width += width(&word);
        self.text = self.text.then(out.toned(&word, tone));
        self
    }

    pub fn text(&self) -> &str {
        self.text.as_str().trim_end()
    }
}

/// What was drawn last.
#[derive(Default)]
pub struct Live {
    widths: Vec<usize>,
}

impl Live {
    /// Puts these rows in place of the last ones, in one write. There must be fewer than the terminal has.
    pub fn draw(&mut self, out: &Out, rows: &[Row], columns: usize) -> Result<(), Error> {
        let frame = self.frame(rows, columns);
        out.bytes(frame.as_bytes())
    }

    /// Takes the rows away.
    pub fn clear(&mut self, out: &Out, columns: usize) -> Result<(), Error> {
        let up = self.back(columns);
        self.widths.clear();
        if up.is_empty() {
            return Ok(());
        }
        out.bytes(format!("{up}\x1b[J").as_bytes())
    }

    /// Somebody else has written meanwhile: the next frame begins where the cursor is.
    pub fn forget(&mut self) {
        self.widths.clear();
    }

    fn frame(&mut self, rows: &[Row], columns: usize) -> String {
        // The cursor is out of sight only while it moves. A terminal that takes a character for wider than we do cuts
        // the row instead of breaking it.
        let mut frame = String::from("\x1b[?25l\x1b[?7l");
        frame.push_str(&self.back(columns));
        for (index, row) in rows.iter().enumerate() {
            frame.push_str(row.text());
            frame.push_str("\x1b[K");
            if index + 1 == rows.len() {
                // What the last frame had more.
                frame.push_str("\x1b[J\x1b[?7h\x1b[?25h");
            }
            // The newline is last, so that stdout's buffer lets all of it go at once.
            frame.push_str("\r\n");
        }
        self.widths = rows.iter().map(|row| width_of(row.text(), row)).collect();
        frame
    }

    /// To the first row of what was drawn. A terminal that has become narrower shows some rows as two.
    fn back(&self, columns: usize) -> String {
        let columns = columns.max(1);
        let rows: usize = self
            .widths
            .iter()
            .map(|width| width.div_ceil(columns).max(1))
            .sum();
        if rows == 0 {
            return String::new();
        }
        format!("\r\x1b[{rows}A")
    }
}

/// Blanks at the end were not written.
fn width_of(shown: &str, row: &Row) -> usize {
    row.width - (row.text.as_str().len() - shown.len())
}

#[cfg(test)]
mod tests {
    use fugue_term::{LineQuery, Terminal, TerminalOptions, TerminalSize};

    use super::*;

    fn row(text: &str) -> Row {
        Row::default().rest(&Out::plain(), text, Tone::Plain, 1000)
    }

    fn screen(terminal: &Terminal) -> Vec<String> {
        let found = terminal.lines(&LineQuery {
            since: None,
            last: 100,
        });
        let lines = found.lines.iter().map(|line| line.text.to_string());
        lines.filter(|line| !line.is_empty()).collect()
    }

    #[test]
    fn a_frame_takes_the_place_of_the_last_one() {
        let size = TerminalSize { rows: 6, cols: 20 };
        let mut terminal = Terminal::new(size, TerminalOptions::default());
        terminal.feed(b"$ fugue parallel\r\n");
        let mut live = Live::default();
        for rows in [&["a", "b", "c"][..], &["longer", "b"], &["x", "y", "z"]] {
            let rows: Vec<Row> = rows.iter().map(|text| row(text)).collect();
            terminal.feed(live.frame(&rows, 20).as_bytes());
        }
        assert_eq!(screen(&terminal), ["$ fugue parallel", "x", "y", "z"]);
        terminal.feed(format!("{}\x1b[J", live.back(20)).as_bytes());
        assert_eq!(screen(&terminal), ["$ fugue parallel"]);
    }

    #[test]
    fn a_terminal_that_became_narrower_is_cleaned_all_the_same() {
        let size = TerminalSize { rows: 10, cols: 20 };
        let mut terminal = Terminal::new(size, TerminalOptions::default());
        terminal.feed(b"$ fugue\r\n");
        let mut live = Live::default();
        let wide = [row("eighteen columns.."), row("short")];
        terminal.feed(live.frame(&wide, 20).as_bytes());
        terminal.resize(TerminalSize { rows: 10, cols: 10 });
        terminal.feed(live.frame(&[row("narrow")], 10).as_bytes());
        assert_eq!(screen(&terminal), ["$ fugue", "narrow"]);
    }

    #[test]
    fn words_are_cut_and_padded_by_columns() {
        let out = Out::plain();
        let row = Row::default()
            .word(&out, "漢字漢字", Tone::Plain, 6)
            .word(&out, "x", Tone::Plain, 3)
            .rest(&out, "a long line with \x1b in it", Tone::Plain, 16);
        assert_eq!(row.text(), "漢字… x  a long…");
        assert_eq!(row.width, 16);
    }
}
