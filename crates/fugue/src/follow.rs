//! Following a pane: its raw output as it comes, and the lines that a person would read in it.

use std::time::Duration;

use fugue_api::{
    Cursor, Error, ErrorKind,
    tools::{GetStatus, GetStatusReply, PaneStatus},
    wire::{OutputChunk, Request, Response},
};
use fugue_client::client::Client;
use fugue_term::{LineNo, TextLine};
use tokio::time::{Instant, sleep_until};

use crate::{
    out::{Out, clean, fit, terminal_width},
    text::Styled,
};

/// What there is behind an offset, as soon as there is something.
pub async fn more(client: &Client, pane: &str, from: u64) -> Result<OutputChunk, Error> {
    let ask = Request::Follow {
        pane: pane.to_owned(),
        from,
    };
    match client.ask(ask).await? {
        Response::Followed { more } => Ok(more),
        other => Err(Error::new(
            ErrorKind::Internal,
            format!("the daemon answered something else: {other:?}"),
        )),
    }
}

/// How one pane is.
pub async fn status(client: &Client, pane: &str) -> Result<PaneStatus, Error> {
    let look = GetStatus {
        pane_id: Some(pane.to_owned()),
    };
    match fugue_api::Handle::call(client, look.into())
        .await
        .and_then(|handed| handed.reply.read_as::<GetStatus>())?
    {
        GetStatusReply::Pane(pane) => Ok(*pane),
        GetStatusReply::All(_) => Err(Error::new(
            ErrorKind::Internal,
            "the daemon answered for all panes",
        )),
    }
}

/// A cursor's place in the raw output.
pub fn offset(cursor: &Cursor) -> u64 {
    cursor
        .0
        .parse::<fugue_term::TextCursor>()
        .map_or(0, |cursor| cursor.offset.0)
}

/// Lines as they become complete, and the one that still grows.
#[derive(Default)]
pub struct Growing {
    open: Option<(u64, String)>,
    /// Lines before this one are complete and given.
    given: u64,
}

impl Growing {
    /// Takes lines that are new, or new in part, with the line that the text ends in; gives those that are complete.
    pub fn take<'a>(
        &mut self,
        lines: impl IntoIterator<Item = &'a TextLine<'a>>,
        end: LineNo,
    ) -> Vec<String> {
        let mut complete = Vec::new();
        for line in lines {
            // A line that was drawn again after it was given cannot be called back.
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
        // A line that the text's end has left is complete, whatever comes.
        if self
            .open
            .as_ref()
            .is_some_and(|(number, _)| *number < end.0)
        {
            complete.extend(self.close());
        }
        complete
    }

    /// The line that grows will not grow any more.
    pub fn close(&mut self) -> Option<String> {
        let (number, line) = self.open.take()?;
        self.given = number + 1;
        Some(line)
    }

    /// The line that grows is not wanted if it is this one, or below it.
    pub fn drop_from(&mut self, line: LineNo) {
        self.open.take_if(|(number, _)| *number >= line.0);
    }

    pub fn open(&self) -> Option<&str> {
        self.open.as_ref().map(|(_, line)| line.as_str())
    }

    /// The first line that was not given.
    pub fn next(&self) -> u64 {
        self.given
    }
}

/// Lines on their way to stdout. On a terminal the last, growing one is shown as well, and taken back when more comes.
pub struct Printer {
    out: Out,
    /// The growing line that is on the screen.
    drawn: Option<String>,
}

impl Printer {
    pub fn new(out: &Out) -> Self {
        Self {
            out: out.clone(),
            drawn: None,
        }
    }

    /// Prints complete lines, then shows the one that grows.
    pub fn print(
        &mut self,
        complete: impl IntoIterator<Item = Styled>,
        open: Option<&str>,
    ) -> Result<(), Error> {
        let width = terminal_width().filter(|_| self.out.can_redraw());
        // Cut at the edge: a wrapped line could not be taken back.
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

/// Time between two attempts at something that no event announces: short at first, then longer, so that nobody spins.
pub struct Pace(Duration);

impl Pace {
    const FIRST: Duration = Duration::from_millis(10);
    // A person hardly notices, and the daemon neither.
    const LAST: Duration = Duration::from_millis(640);

    pub fn new() -> Self {
        Self(Self::FIRST)
    }

    pub async fn next(&mut self) {
        sleep_until(Instant::now() + self.0).await;
        self.0 = (self.0 * 2).min(Self::LAST);
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
        let mut growing = Growing::default();
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
