//! Output of the CLI: text that fits the terminal, or one JSON document.

use std::io::{IsTerminal, Write};

use fugue_api::Error;
use serde::Serialize;
use unicode_width::UnicodeWidthChar;

pub use fugue_client::display::format_age;

pub use crate::text::clean;
use crate::text::{StyledText, clean_lines, escape_json};

#[derive(Clone)]
pub struct CliOutput {
    json: bool,
    quiet: bool,
    colour: bool,
}

/// The meaning of a word, which decides its colour.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum WordTone {
    Plain,
    Good,
    Needy,
    Bad,
    Faint,
    /// A heading.
    Strong,
}

impl CliOutput {
    pub fn new(json: bool, quiet: bool) -> Self {
        let colour = std::io::stdout().is_terminal()
            && std::env::var_os("NO_COLOR").is_none_or(|set| set.is_empty());
        Self {
            json,
            quiet,
            colour,
        }
    }

    /// Without colours, as for a pipe.
    #[cfg(test)]
    pub fn plain() -> Self {
        Self {
            json: false,
            quiet: false,
            colour: false,
        }
    }

    pub fn is_json(&self) -> bool {
        self.json
    }

    pub fn has_colour(&self) -> bool {
        self.colour
    }

    pub fn is_quiet(&self) -> bool {
        self.quiet
    }

    pub fn on_terminal(&self) -> bool {
        std::io::stdout().is_terminal()
    }

    /// Whether printed rows can be redrawn.
    pub fn can_redraw(&self) -> bool {
        self.on_terminal() && std::env::var_os("TERM").is_some_and(|term| term != "dumb")
    }

    /// Prints the JSON document of a verb.
    pub fn document(&self, value: &impl Serialize) -> Result<(), Error> {
        let text =
            serde_json::to_string(value).map_err(|error| Error::internal(error.to_string()))?;
        self.bytes(format!("{}\n", escape_json(text)).as_bytes())
    }

    /// Prints one line of requested data.
    pub fn line(&self, text: impl Into<StyledText>) -> Result<(), Error> {
        self.bytes(format!("{}\n", text.into().as_str()).as_bytes())
    }

    /// Prints several lines of requested data: cleaned for a terminal, exact for a pipe or a file.
    pub fn lines(&self, text: &str) -> Result<(), Error> {
        if self.on_terminal() {
            self.bytes(format!("{}\n", clean_lines(text)).as_bytes())
        } else {
            self.bytes(format!("{text}\n").as_bytes())
        }
    }

    /// One line of a program's output: cleaned for a terminal, and exact for a pipe or a file.
    pub fn output(&self, line: String) -> StyledText {
        if self.on_terminal() {
            StyledText::output(&line)
        } else {
            StyledText::exact(line)
        }
    }

    /// Writes bytes unchanged: raw output, and rows of cleaned words with escape sequences between them.
    pub fn bytes(&self, bytes: &[u8]) -> Result<(), Error> {
        let mut stdout = std::io::stdout().lock();
        stdout
            .write_all(bytes)
            .and_then(|()| stdout.flush())
            .map_err(|error| {
                // `fugue read … | head` ends when head does.
                if error.kind() == std::io::ErrorKind::BrokenPipe {
                    std::process::exit(0);
                }
                Error::unavailable(format!("stdout: {error}"))
            })
    }

    /// Prints additional information on stderr, unless quiet.
    pub fn note(&self, text: &str) {
        if !self.quiet && !self.json {
            let _ = writeln!(std::io::stderr(), "{}", clean(text));
        }
    }

    pub fn error(&self, error: &Error) {
        let mut stderr = std::io::stderr().lock();
        if self.json {
            let json = serde_json::to_string(error).unwrap_or_default();
            let _ = writeln!(stderr, "{}", escape_json(json));
            return;
        }
        let _ = writeln!(stderr, "fugue: {}", clean_lines(&error.message));
        if let Some(hint) = error.hint.as_ref().filter(|_| !self.quiet) {
            let _ = writeln!(stderr, "  {}", clean_lines(hint));
        }
    }

    /// Prints a table. Columns are as wide as their widest word; rows are cut at the edge of the terminal.
    pub fn table(&self, head: &[&str], rows: &[Vec<(String, WordTone)>]) -> Result<(), Error> {
        let mut widths: Vec<usize> = head.iter().map(|word| word.len()).collect();
        for row in rows {
            for (wide, (word, _)) in widths.iter_mut().zip(row) {
                *wide = (*wide).max(width(&clean(word)));
            }
        }
        let head: Vec<(String, WordTone)> = head
            .iter()
            .map(|word| ((*word).to_owned(), WordTone::Faint))
            .collect();
        let edge = self.on_terminal().then(terminal_width).flatten();
        for row in std::iter::once(&head).chain(rows) {
            let mut line = StyledText::default();
            let mut used = 0;
            for (index, ((word, tone), wide)) in row.iter().zip(&widths).enumerate() {
                let room = edge.map_or(usize::MAX, |edge| edge.saturating_sub(used));
                let word = fit(&clean(word), room);
                let last = index + 1 == row.len();
                let pad = if last {
                    0
                } else {
                    (wide + 2).saturating_sub(width(&word))
                };
                used += width(&word) + pad;
                line = line.then(self.toned(&word, *tone)).then(" ".repeat(pad));
            }
            self.line(line.trim_end())?;
        }
        Ok(())
    }

    pub fn toned(&self, word: &str, tone: WordTone) -> StyledText {
        let begin = match tone {
            WordTone::Plain => return word.into(),
            _ if !self.colour => return word.into(),
            WordTone::Good => "\x1b[32m",
            WordTone::Needy => "\x1b[33m",
            WordTone::Bad => "\x1b[31m",
            WordTone::Faint => "\x1b[2m",
            WordTone::Strong => "\x1b[1m",
        };
        StyledText::between(begin, word, "\x1b[0m")
    }
}

pub fn terminal_width() -> Option<usize> {
    terminal_size().map(|(_, columns)| columns)
}

/// Rows and columns.
pub fn terminal_size() -> Option<(usize, usize)> {
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok()?;
    let (rows, columns) = (usize::from(size.ws_row), usize::from(size.ws_col));
    (rows > 0 && columns > 0).then_some((rows, columns))
}

/// The width of a text in terminal columns.
pub fn width(text: &str) -> usize {
    text.chars().map(|c| c.width().unwrap_or(0)).sum()
}

/// Cuts a text to `room` columns; a cut text ends with `…`.
pub fn fit(text: &str, room: usize) -> String {
    if width(text) <= room {
        return text.to_owned();
    }
    let mut used = 1;
    let mut kept: String = text
        .chars()
        .take_while(|c| {
            used += c.width().unwrap_or(0);
            used <= room
        })
        .collect();
    if room > 0 {
        kept.push('…');
    }
    kept
}

/// Formats a duration: `0.4s`, `12s`, `3m05s`, `2h10m`.
pub fn format_duration(ms: u64) -> String {
    let seconds = ms / 1000;
    match seconds {
        0..10 => format!("{seconds}.{}s", ms % 1000 / 100),
        10..60 => format!("{seconds}s"),
        60..3600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        _ => format!("{}h{:02}m", seconds / 3600, seconds % 3600 / 60),
    }
}

/// Receives Ctrl-C from its creation on.
pub struct InterruptSignal(tokio::signal::unix::Signal);

impl InterruptSignal {
    pub fn new() -> Result<Self, Error> {
        let kind = tokio::signal::unix::SignalKind::interrupt();
        tokio::signal::unix::signal(kind)
            .map(Self)
            .map_err(|error| Error::internal(format!("Ctrl-C: {error}")))
    }

    pub async fn pressed(&mut self) {
        self.0.recv().await;
    }
}

/// `12 B`, `3 KiB`, `4.5 MiB`, `6.7 GiB`.
pub fn format_size(bytes: u64) -> String {
    match bytes {
        0..1_024 => format!("{bytes} B"),
        1_024..1_048_576 => format!("{} KiB", bytes >> 10),
        1_048_576..1_073_741_824 => format!("{:.1} MiB", bytes as f64 / 1_048_576.0),
        _ => format!("{:.1} GiB", bytes as f64 / 1_073_741_824.0),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_text_is_cut_by_the_columns_it_takes() {
        for (text, room, fits) in [
            ("", 0, ""),
            ("abc", 3, "abc"),
            ("abcd", 3, "ab…"),
            ("abc", 1, "…"),
            ("abc", 0, ""),
            ("漢字", 4, "漢字"),
            ("漢字", 3, "漢…"),
            ("漢字漢字", 6, "漢字…"),
            ("e\u{301}e\u{301}", 2, "e\u{301}e\u{301}"),
        ] {
            assert_eq!(super::fit(text, room), fits, "{text:?} in {room}");
        }
    }

    #[test]
    fn how_long_it_took_is_as_exact_as_it_is_short() {
        for (ms, text) in [
            (0, "0.0s"),
            (449, "0.4s"),
            (9_999, "9.9s"),
            (59_999, "59s"),
            (185_000, "3m05s"),
            (7_800_000, "2h10m"),
        ] {
            assert_eq!(super::format_duration(ms), text);
        }
    }
}
