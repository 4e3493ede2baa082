//! A few rows at the bottom of a terminal that are redrawn in place.
//!
//! Between two writes the terminal is in its normal state, so that the process can end at any time without cleanup.

use fugue_api::Error;

use crate::{
    out::{CliOutput, WordTone, clean, fit, width},
    text::StyledText,
};

/// A row of styled words, and the width in columns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StyledRow {
    text: StyledText,
    width: usize,
}

impl StyledRow {
    /// Adds a word, cut and padded to `columns`.
    pub fn word(mut self, out: &CliOutput, word: &str, tone: WordTone, columns: usize) -> Self {
        let word = fit(&clean(word), columns);
        let pad = columns.saturating_sub(width(&word));
        self.text = self.text.then(out.toned(&word, tone)).then(" ".repeat(pad));
        self.width += columns;
        self
    }

    /// Adds the last word of the row, cut at `columns`.
    pub fn rest(mut self, out: &CliOutput, word: &str, tone: WordTone, columns: usize) -> Self {
        let word = fit(&clean(word), columns.saturating_sub(self.width));
        self.width += width(&word);
        self.text = self.text.then(out.toned(&word, tone));
        self
    }

    pub fn text(&self) -> &str {
        self.text.as_str().trim_end()
    }
}

/// The rows that were drawn last.
#[derive(Default)]
pub struct LiveArea {
    widths: Vec<usize>,
}

impl LiveArea {
    /// Replaces the rows in a single write. The number of rows must be below that of the terminal.
    pub fn draw(
        &mut self,
        out: &CliOutput,
        rows: &[StyledRow],
        columns: usize,
    ) -> Result<(), Error> {
        let frame = self.frame(rows, columns);
        out.bytes(frame.as_bytes())
    }

    /// Erases the rows.
    pub fn clear(&mut self, out: &CliOutput, columns: usize) -> Result<(), Error> {
        let up = self.back(columns);
        self.widths.clear();
        if up.is_empty() {
            return Ok(());
        }
        out.bytes(format!("{up}\x1b[J").as_bytes())
    }

    /// Forgets the rows after other output: the next draw begins at the cursor.
    pub fn forget(&mut self) {
        self.widths.clear();
    }

    fn frame(&mut self, rows: &[StyledRow], columns: usize) -> String {
        // Hides the cursor while it moves, and disables wrapping: a terminal that shows a character wider than assumed
        // cuts the row.
        let mut frame = String::from("\x1b[?25l\x1b[?7l");
        frame.push_str(&self.back(columns));
        for (index, row) in rows.iter().enumerate() {
            frame.push_str(row.text());
            frame.push_str("\x1b[K");
            if index + 1 == rows.len() {
                // Erases remaining rows of the previous draw.
                frame.push_str("\x1b[J\x1b[?7h\x1b[?25h");
            }
            // The newline is last, so that line-buffered stdout writes everything at once.
            frame.push_str("\r\n");
        }
        self.widths = rows.iter().map(|row| width_of(row.text(), row)).collect();
        frame
    }

    /// The sequence that moves to the first drawn row. In a terminal that has become narrower some rows are wrapped.
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

/// The width of a row without trailing blanks, which are not written.
fn width_of(shown: &str, row: &StyledRow) -> usize {
    row.width - (row.text.as_str().len() - shown.len())
}

#[cfg(test)]
mod tests {
    use fugue_term::{LineQuery, Terminal, TerminalOptions, TerminalSize};

    use super::*;

    fn row(text: &str) -> StyledRow {
        StyledRow::default().rest(&CliOutput::plain(), text, WordTone::Plain, 1000)
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
        let mut live = LiveArea::default();
        for rows in [&["a", "b", "c"][..], &["longer", "b"], &["x", "y", "z"]] {
            let rows: Vec<StyledRow> = rows.iter().map(|text| row(text)).collect();
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
        let mut live = LiveArea::default();
        let wide = [row("eighteen columns.."), row("short")];
        terminal.feed(live.frame(&wide, 20).as_bytes());
        terminal.resize(TerminalSize { rows: 10, cols: 10 });
        terminal.feed(live.frame(&[row("narrow")], 10).as_bytes());
        assert_eq!(screen(&terminal), ["$ fugue", "narrow"]);
    }

    #[test]
    fn words_are_cut_and_padded_by_columns() {
        let out = CliOutput::plain();
        let row = StyledRow::default()
            .word(&out, "漢字漢字", WordTone::Plain, 6)
            .word(&out, "x", WordTone::Plain, 3)
            .rest(&out, "a long line with \x1b in it", WordTone::Plain, 16);
        assert_eq!(row.text(), "漢字… x  a long…");
        assert_eq!(row.width, 16);
    }
}
