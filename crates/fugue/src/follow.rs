//! Following a pane: the raw output, and the lines of text in the output.

use std::time::Duration;

use fugue_api::{
    Cursor, Error,
    tools::{GetStatus, GetStatusReply, PaneStatus},
    wire::{OutputChunk, Request, Response},
};
use fugue_client::client::Client;
use fugue_term::{LineNo, TextLine};
use tokio::time::{Instant, sleep_until};

use crate::{
    out::{CliOutput, clean, fit, terminal_width},
    text::StyledText,
};

/// Waits for raw output after an offset.
pub async fn next_chunk(client: &Client, pane: &str, from: u64) -> Result<OutputChunk, Error> {
    let ask = Request::Follow {
        pane: pane.to_owned(),
        from,
    };
    match client.ask(ask).await? {
        Response::Output { chunk } => Ok(chunk),
        other => Err(Error::unexpected(&other)),
    }
}

/// The status of a pane.
pub async fn pane_status(client: &Client, pane: &str) -> Result<PaneStatus, Error> {
    let request = GetStatus {
        pane_id: Some(pane.to_owned()),
    };
    match fugue_api::Handle::call(client, request.into())
        .await
        .and_then(|delivery| delivery.reply.read_as::<GetStatus>())?
    {
        GetStatusReply::Pane(pane) => Ok(*pane),
        GetStatusReply::All(_) => Err(Error::internal("the daemon answered for all panes")),
    }
}

/// The offset of a cursor in the raw output.
pub fn offset(cursor: &Cursor) -> u64 {
    cursor
        .0
        .parse::<fugue_term::TextCursor>()
        .map_or(0, |cursor| cursor.offset.0)
}

/// Collects pieces of text into complete lines.
#[derive(Default)]
pub struct LineAssembler {
    open: Option<(u64, String)>,
    /// The number of the first line that has not been returned as complete.
    given: u64,
}

impl LineAssembler {
    /// Adds new or continued lines and returns the complete ones. `end` is the line at which the text ends.
    pub fn take<'a>(
        &mut self,
        lines: impl IntoIterator<Item = &'a TextLine<'a>>,
        end: LineNo,
    ) -> Vec<String> {
        let mut complete = Vec::new();
        for line in lines {
            // A line that is redrawn after it was returned is ignored.
            if line.no.0 < self.given {
                continue;
            }
            match &mut self.open {
                Some((number, open)) if *number == line.no.0 => {
                    if line.cut {
                        open.push_str(&line.text);
                    } else {
                        *open = line.text.to_string();
                    }
                }
                Some(_) | None => {
                    complete.extend(self.close());
                    self.open = Some((line.no.0, line.text.to_string()));
                }
            }
        }
        // A line before the end of the text is complete.
        if self
            .open
            .as_ref()
            .is_some_and(|(number, _)| *number < end.0)
        {
            complete.extend(self.close());
        }
        complete
    }

    /// Returns the incomplete line at the end of the output.
    pub fn close(&mut self) -> Option<String> {
        let (number, line) = self.open.take()?;
        self.given = number + 1;
        Some(line)
    }

    /// Discards the incomplete line if its number is `line` or higher.
    pub fn drop_from(&mut self, line: LineNo) {
        self.open.take_if(|(number, _)| *number >= line.0);
    }

    pub fn open(&self) -> Option<&str> {
        self.open.as_ref().map(|(_, line)| line.as_str())
    }

    /// The number of the first line that has not been returned.
    pub fn next(&self) -> u64 {
        self.given
    }
}

/// Prints lines on stdout. On a terminal the last, incomplete line is shown as well, and erased before the next output.
pub struct LinePrinter {
    out: CliOutput,
    /// The incomplete line on the screen.
    drawn: Option<String>,
}

impl LinePrinter {
    pub fn new(out: &CliOutput) -> Self {
        Self {
            out: out.clone(),
            drawn: None,
        }
    }

    /// Prints complete lines, then shows the incomplete line.
    pub fn print(
        &mut self,
        complete: impl IntoIterator<Item = StyledText>,
        open: Option<&str>,
    ) -> Result<(), Error> {
        let width = terminal_width().filter(|_| self.out.can_redraw());
        // Cut at the edge, because a wrapped line could not be erased.
        let open = open
            .zip(width)
            .map(|(open, width)| fit(&clean(open), width.saturating_sub(1)));
        let mut text = String::new();
        for line in complete {
            text.push_str(line.as_str());
            text.push('\n');
        }
        if text.is_empty() && open == self.drawn {
            return Ok(());
        }
        let before = if self.drawn.is_some() { "\r\x1b[K" } else { "" };
        let text = format!("{before}{text}{}", open.as_deref().unwrap_or_default());
        self.drawn = open;
        self.out.bytes(text.as_bytes())
    }
}

/// The delay between attempts at an operation whose readiness no event announces, doubled after each attempt up to a limit.
pub struct RetryDelay(Duration);

impl RetryDelay {
    const MIN_DELAY: Duration = Duration::from_millis(10);
    const MAX_DELAY: Duration = Duration::from_millis(640);

    pub fn new() -> Self {
        Self(Self::MIN_DELAY)
    }

    pub async fn next(&mut self) {
        sleep_until(Instant::now() + self.0).await;
        self.0 = (self.0 * 2).min(Self::MAX_DELAY);
    }
}

#[cfg(test)]
mod tests {
    use fugue_term::{LineQuery, Terminal, TerminalOptions, TerminalSize};

    use super::*;

    #[test]
    fn a_line_is_given_once_and_when_it_is_complete() {
        let size = TerminalSize { rows: 5, cols: 40 };
        let mut terminal = Terminal::new(size, TerminalOptions::default());
        let mut growing = LineAssembler::default();
        let mut shown = terminal.end();
        let mut feed = |bytes: &[u8]| {
            terminal.feed(bytes);
            let found = terminal.lines(&LineQuery {
                since: Some(shown),
                last: usize::MAX,
            });
            shown = terminal.end();
            let complete = growing.take(&found.lines, shown.line);
            (complete.join("|"), growing.open().unwrap_or("").to_owned())
        };
        let told = |complete: &str, open: &str| (complete.to_owned(), open.to_owned());
        assert_eq!(feed(b"on"), told("", "on"));
        assert_eq!(feed(b"e\r\ntwo\r\nth"), told("one|two", "th"));
        assert_eq!(feed(b"\rTHREE"), told("", "THREE"));
        assert_eq!(feed(b"\r\n"), told("THREE", ""));
        assert_eq!(feed(b"\x1b[2Aagain\x1b[2B\rfour"), told("", "four"));
        assert_eq!(growing.close().as_deref(), Some("four"));
        assert_eq!(growing.close(), None);
    }
}
