//! What people and programs see: text that fits its terminal, or one JSON document.

use std::io::{IsTerminal, Write};

use fugue_api::{Error, Kind};
use serde::Serialize;

#[derive(Clone)]
pub struct Out {
    json: bool,
    quiet: bool,
    colour: bool,
}

/// What a word in a table means, as far as colour goes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    Plain,
    Good,
    Needy,
    Bad,
    Faint,
}

impl Out {
    pub fn new(json: bool, quiet: bool) -> Self {
        let colour = std::io::stdout().is_terminal()
            && std::env::var_os("NO_COLOR").is_none_or(|set| set.is_empty());
        Self {
            json,
            quiet,
            colour,
        }
    }

    pub fn is_json(&self) -> bool {
        self.json
    }

    pub fn on_terminal(&self) -> bool {
        std::io::stdout().is_terminal()
    }

    /// The one document of a verb; nothing for people, who get their own words.
    pub fn document(&self, value: &impl Serialize) -> Result<(), Error> {
        let text = serde_json::to_string(value)
            .map_err(|error| Error::new(Kind::Internal, error.to_string()))?;
        self.bytes(format!("{text}\n").as_bytes())
    }

    /// What was asked for.
    pub fn line(&self, text: &str) -> Result<(), Error> {
        self.bytes(format!("{text}\n").as_bytes())
    }

    pub fn bytes(&self, bytes: &[u8]) -> Result<(), Error> {
        let mut stdout = std::io::stdout().lock();
        stdout
            .write_all(bytes)
            .and_then(|()| stdout.flush())
            .map_err(|error| {
                // `fugue read … | head` is over when head is.
                if error.kind() == std::io::ErrorKind::BrokenPipe {
                    std::process::exit(0);
                }
                Error::new(Kind::Unavailable, format!("stdout: {error}"))
            })
    }

    /// Something worth knowing that was not asked for.
    pub fn note(&self, text: &str) {
        if !self.quiet && !self.json {
            let _ = writeln!(std::io::stderr(), "{text}");
        }
    }

    pub fn error(&self, error: &Error) {
        let mut stderr = std::io::stderr().lock();
        if self.json {
            let _ = writeln!(
                stderr,
                "{}",
                serde_json::to_string(error).unwrap_or_default()
            );
            return;
        }
        let _ = writeln!(stderr, "fugue: {}", error.message);
        if let Some(hint) = error.hint.as_ref().filter(|_| !self.quiet) {
            let _ = writeln!(stderr, "  {hint}");
        }
    }

    /// Columns as wide as their widest word; the last one is cut at the terminal's edge.
    pub fn table(&self, head: &[&str], rows: &[Vec<(String, Tone)>]) -> Result<(), Error> {
        let mut widths: Vec<usize> = head.iter().map(|word| word.len()).collect();
        for row in rows {
            for (width, (word, _)) in widths.iter_mut().zip(row) {
                *width = (*width).max(word.chars().count());
            }
        }
        let head: Vec<(String, Tone)> = head
            .iter()
            .map(|word| ((*word).to_owned(), Tone::Faint))
            .collect();
        let edge = self.on_terminal().then(terminal_width).flatten();
        for row in std::iter::once(&head).chain(rows) {
            let mut line = String::new();
            let mut used = 0;
            for (index, ((word, tone), width)) in row.iter().zip(&widths).enumerate() {
                let room = edge.map_or(usize::MAX, |edge| edge.saturating_sub(used));
                let word: String = clean(word).chars().take(room).collect();
                let last = index + 1 == row.len();
                let pad = if last {
                    0
                } else {
                    (width + 2).saturating_sub(word.chars().count())
                };
                used += word.chars().count() + pad;
                line.push_str(&self.toned(&word, *tone));
                line.extend(std::iter::repeat_n(' ', pad));
            }
            self.line(line.trim_end())?;
        }
        Ok(())
    }

    pub fn toned(&self, word: &str, tone: Tone) -> String {
        let code = match tone {
            Tone::Plain => return word.to_owned(),
            Tone::Good => 32,
            Tone::Needy => 33,
            Tone::Bad => 31,
            Tone::Faint => 2,
        };
        if self.colour {
            format!("\x1b[{code}m{word}\x1b[0m")
        } else {
            word.to_owned()
        }
    }
}

/// A name, a path or a command may hold anything; on a person's terminal it is only ever text.
pub fn clean(text: &str) -> String {
    let shown = |c: char| if c.is_control() { '\u{fffd}' } else { c };
    text.chars().map(shown).collect()
}

pub fn terminal_width() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok()?;
    Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

/// `12s`, `3m`, `5h`, `2d`: a glance, not a measurement.
pub fn age(ms: u64) -> String {
    let seconds = ms / 1000;
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..86_400 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_path_with_an_escape_in_it_is_only_text() {
        assert_eq!(
            super::clean("/tmp/a\x1b]52;c;x\x07\n\u{9b}é"),
            "/tmp/a\u{fffd}]52;c;x\u{fffd}\u{fffd}\u{fffd}é"
        );
    }

    #[test]
    fn ages_are_a_glance() {
        for (ms, text) in [
            (0, "0s"),
            (59_999, "59s"),
            (60_000, "1m"),
            (7_200_000, "2h"),
            (200_000_000, "2d"),
        ] {
            assert_eq!(super::age(ms), text);
        }
    }
}
