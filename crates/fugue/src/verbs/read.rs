use std::process::ExitCode;

use fugue_api::{
    Cursor, Error, Kind,
    panes::{Mode, ReadPane},
    wire::{Answer, Ask, Followed},
};

use crate::{cli::Desk, out::terminal_width, verbs};

/// Read what a pane printed.
#[derive(clap::Args)]
pub struct Read {
    #[command(flatten)]
    read: ReadPane,
    /// The visible screen as it is now.
    #[arg(long, group = "mode")]
    screen: bool,
    /// The bytes themselves, all that are kept; with --json, as text.
    #[arg(long, group = "mode")]
    raw: bool,
    /// The last command's output, and its exit code.
    #[arg(long, group = "mode")]
    last: bool,
    /// Go on as more is printed, until the pane ends.
    #[arg(short, long, conflicts_with_all = ["screen", "last", "grep"])]
    follow: bool,
}

impl Read {
    pub async fn run(mut self, desk: &Desk) -> Result<ExitCode, Error> {
        self.read.mode = match (self.screen, self.raw, self.last) {
            (true, ..) => Mode::Screen,
            (_, true, _) => Mode::Raw,
            (.., true) => Mode::LastCommand,
            _ => Mode::Text,
        };
        if self.follow {
            return self.followed(desk).await;
        }
        if self.raw && !desk.out.is_json() {
            return all_bytes(desk, &self.read).await;
        }
        let text = verbs::call(desk, self.read).await?;
        if desk.out.is_json() {
            desk.out.document(&text)?;
        } else {
            if let Some(command) = &text.command {
                let code = text
                    .exit_code
                    .map_or("runs still".into(), |code| format!("exit {code}"));
                desk.out.note(&format!("$ {command}  ({code})"));
            }
            if !text.text.is_empty() {
                desk.out.line(&text.text)?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Prints what is there and whatever comes, until the pane ends or Ctrl-C.
    async fn followed(self, desk: &Desk) -> Result<ExitCode, Error> {
        let pane = self.read.pane_id.clone();
        let mut cursor = self.read.since.clone();
        let mut tail = Tail {
            first: self
                .read
                .since
                .is_none()
                .then_some(self.read.lines as usize),
            open: None,
        };
        loop {
            let ask = Ask::Follow {
                pane: pane.clone(),
                since: cursor.clone(),
                raw: self.raw,
            };
            let more = tokio::select! {
                answer = desk.client.ask(ask) => followed(answer?)?,
                _ = tokio::signal::ctrl_c() => {
                    let since = cursor.map(|cursor| format!(" --since {}", cursor.0)).unwrap_or_default();
                    desk.out.note(&format!("\ngo on with: fugue read {pane} -f{since}"));
                    return Ok(ExitCode::from(130));
                }
            };
            cursor = Some(more.cursor.clone());
            if desk.out.is_json() {
                desk.out.document(&more)?;
            } else if self.raw {
                desk.out.bytes(&more.raw)?;
            } else {
                tail.show(desk, &more)?;
            }
            if more.ended {
                tail.finish(desk)?;
                return Ok(ExitCode::SUCCESS);
            }
        }
    }
}

/// Every byte that is kept, or came since a cursor, exactly.
async fn all_bytes(desk: &Desk, read: &ReadPane) -> Result<ExitCode, Error> {
    // What is printed from now on was not asked for, or a busy pane would never end.
    let now = verbs::call(
        desk,
        ReadPane {
            mode: Mode::Text,
            lines: 1,
            since: None,
            grep: None,
            ..read.clone()
        },
    )
    .await?;
    let mut cursor: Option<Cursor> = read.since.clone();
    loop {
        if cursor
            .as_ref()
            .is_some_and(|cursor| offset(cursor) >= offset(&now.cursor))
        {
            return Ok(ExitCode::SUCCESS);
        }
        let ask = Ask::Follow {
            pane: read.pane_id.clone(),
            since: cursor.clone(),
            raw: true,
        };
        let more = followed(desk.client.ask(ask).await?)?;
        let over =
            (offset(&more.cursor).saturating_sub(offset(&now.cursor)) as usize).min(more.raw.len());
        desk.out.bytes(&more.raw[..more.raw.len() - over])?;
        if more.ended {
            return Ok(ExitCode::SUCCESS);
        }
        cursor = Some(more.cursor);
    }
}

fn offset(cursor: &Cursor) -> u64 {
    cursor
        .0
        .parse::<fugue_term::Cursor>()
        .map_or(0, |cursor| cursor.offset.0)
}

fn followed(answer: Answer) -> Result<Followed, Error> {
    match answer {
        Answer::Followed { more } => Ok(more),
        other => Err(Error::new(
            Kind::Internal,
            format!("the daemon answered something else: {other:?}"),
        )),
    }
}

/// Lines as they become complete. On a terminal the last, growing line is shown as well.
struct Tail {
    /// How many of the first lines that come are wanted.
    first: Option<usize>,
    open: Option<(u64, String)>,
}

impl Tail {
    fn show(&mut self, desk: &Desk, more: &Followed) -> Result<(), Error> {
        if more.missed > 0 && self.first.is_none() {
            self.finish(desk)?;
            desk.out
                .note(&format!("[{} lines went by too fast]", more.missed));
        }
        let skip = self
            .first
            .take()
            .map_or(0, |wanted| more.lines.len().saturating_sub(wanted));
        for line in &more.lines[skip..] {
            match &mut self.open {
                Some((number, text)) if *number == line.number => {
                    if line.appended {
                        text.push_str(&line.text);
                    } else {
                        text.clone_from(&line.text);
                    }
                }
                // A line above that was drawn again; it has been printed and cannot be called back.
                Some((number, _)) if *number > line.number => {}
                Some(_) | None => {
                    self.finish(desk)?;
                    self.open = Some((line.number, line.text.clone()));
                }
            }
        }
        if desk.out.on_terminal()
            && let (Some((_, text)), Some(width)) = (&self.open, terminal_width())
        {
            // Cut at the edge: a wrapped line could not be taken back.
            let shown: String = text.chars().take(width.saturating_sub(1)).collect();
            desk.out.bytes(format!("\r\x1b[K{shown}").as_bytes())?;
        }
        Ok(())
    }

    fn finish(&mut self, desk: &Desk) -> Result<(), Error> {
        let Some((_, text)) = self.open.take() else {
            return Ok(());
        };
        let start = if desk.out.on_terminal() {
            "\r\x1b[K"
        } else {
            ""
        };
        desk.out.line(&format!("{start}{text}"))
    }
}
