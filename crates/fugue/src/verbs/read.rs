use std::process::ExitCode;

use fugue_api::{
    Error,
    tools::{ReadMode, ReadPane},
    wire::OutputChunk,
};
use fugue_core::view;
use fugue_term::{LineQuery, Terminal, TerminalOptions, TerminalSize};

use crate::{
    cli::CliContext,
    follow::{Growing, Printer, more, offset, status},
    verbs,
};

/// Read what a pane printed.
#[derive(clap::Args)]
pub struct ReadArgs {
    #[command(flatten)]
    read: ReadPane,
    /// The visible screen as it is now.
    #[arg(long, group = "mode")]
    screen: bool,
    /// The bytes themselves, all that are kept; with --json, the last lines as text.
    #[arg(long, group = "mode")]
    raw: bool,
    /// The last command's output, and its exit code.
    #[arg(long, group = "mode")]
    last: bool,
    /// Go on as more is printed, until the pane ends.
    #[arg(short, long, conflicts_with_all = ["screen", "last", "grep"])]
    follow: bool,
}

impl ReadArgs {
    pub async fn run(mut self, cx: &CliContext) -> Result<ExitCode, Error> {
        self.read.mode = match (self.screen, self.raw, self.last) {
            (true, ..) => ReadMode::Screen,
            (_, true, _) => ReadMode::Raw,
            (.., true) => ReadMode::LastCommand,
            _ => ReadMode::Text,
        };
        match (self.follow, self.raw && !cx.out.is_json()) {
            (true, true) => self.follow_bytes(cx).await,
            (true, false) => self.follow_text(cx).await,
            (false, true) => self.all_bytes(cx).await,
            (false, false) => self.once(cx).await,
        }
    }

    async fn once(self, cx: &CliContext) -> Result<ExitCode, Error> {
        let text = verbs::call(cx, self.read).await?;
        if cx.out.is_json() {
            cx.out.document(&text)?;
            return Ok(ExitCode::SUCCESS);
        }
        if let Some(command) = &text.command {
            let code = text
                .exit_code
                .map_or("runs still".into(), |code| format!("exit {code}"));
            cx.out.note(&format!("$ {command}  ({code})"));
        }
        if !text.text.is_empty() {
            cx.out.lines(&text.text)?;
        }
        if let Some(note) = &text.note {
            cx.out.note(note);
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Every byte that is kept, or came since a cursor, exactly, up to now.
    async fn all_bytes(self, cx: &CliContext) -> Result<ExitCode, Error> {
        // What is printed from now on was not asked for, or a busy pane would never end.
        let end = offset(&status(&cx.client, &self.read.pane_id).await?.cursor);
        let mut from = self.read.since.as_ref().map_or(0, offset);
        while from < end {
            let mut more = more(&cx.client, &self.read.pane_id, from).await?;
            note_gap(cx, from, more.from);
            let over = (more.from + more.raw.len() as u64).saturating_sub(end);
            more.raw
                .truncate(more.raw.len().saturating_sub(over as usize));
            cx.out.bytes(&more.raw)?;
            from = more.from + more.raw.len() as u64;
            if over > 0 {
                break;
            }
            if more.ended {
                note_gap(cx, from, end);
                break;
            }
        }
        Ok(ExitCode::SUCCESS)
    }

    async fn follow_bytes(self, cx: &CliContext) -> Result<ExitCode, Error> {
        let mut from = self.read.since.as_ref().map_or(0, offset);
        loop {
            let Some(more) = self.more_or_interrupt(cx, from).await? else {
                return Ok(ExitCode::from(130));
            };
            note_gap(cx, from, more.from);
            cx.out.bytes(&more.raw)?;
            from = more.from + more.raw.len() as u64;
            if more.ended {
                return Ok(ExitCode::SUCCESS);
            }
        }
    }

    /// Text is made from the bytes here, at the reader's own pace: however slow the reader, no line is missed that
    /// the log still has.
    async fn follow_text(self, cx: &CliContext) -> Result<ExitCode, Error> {
        let pane = status(&cx.client, &self.read.pane_id).await?;
        let begin = match &self.read.since {
            Some(since) => offset(since),
            None => offset(&pane.cursor),
        };
        let size = TerminalSize {
            rows: pane.size.rows,
            cols: pane.size.cols,
        };
        let mut terminal = Terminal::new(
            size,
            TerminalOptions {
                keep_lines: MOST_LINES,
                ..TerminalOptions::default()
            },
        );
        let mut from = begin.saturating_sub(run_up(self.read.lines));
        terminal.skip_to(fugue_term::Offset(from));
        let mut tail = Tail {
            shown: terminal.end(),
            growing: Growing::default(),
            printer: Printer::new(&cx.out),
            wanted: Some(self.read.lines as usize),
        };
        loop {
            let Some(more) = self.more_or_interrupt(cx, from).await? else {
                return Ok(ExitCode::from(130));
            };
            note_gap(cx, from, more.from);
            terminal.skip_to(fugue_term::Offset(more.from));
            let end = more.from + more.raw.len() as u64;
            // The run-up is there to have the terminal in its right state; it is shown only where lines were asked for.
            let quiet = usize::try_from(begin.saturating_sub(more.from))
                .unwrap_or(usize::MAX)
                .min(more.raw.len());
            terminal.feed(&more.raw[..quiet]);
            if self.read.since.is_some() && end >= begin && more.from <= begin {
                (tail.shown, tail.wanted) = (terminal.end(), None);
            }
            terminal.feed(&more.raw[quiet..]);
            from = end;
            if from >= begin {
                tail.show(cx, &terminal, &more)?;
            }
            if more.ended {
                tail.finish(cx)?;
                return Ok(ExitCode::SUCCESS);
            }
        }
    }

    async fn more_or_interrupt(
        &self,
        cx: &CliContext,
        from: u64,
    ) -> Result<Option<OutputChunk>, Error> {
        tokio::select! {
            found = more(&cx.client, &self.read.pane_id, from) => found.map(Some),
            _ = tokio::signal::ctrl_c() => {
                let since = fugue_term::TextCursor { offset: fugue_term::Offset(from), ..Default::default() };
                // Behind the `^C` of the terminal's own echo.
                cx.out.note("");
                cx.out.note(&format!("go on with: fugue read {} -f --since {since}", self.read.pane_id));
                Ok(None)
            }
        }
    }
}

/// Tells the reader that output is missing from the log. What a full log has dropped at its beginning is expected.
fn note_gap(cx: &CliContext, from: u64, next: u64) {
    if next > from && from > 0 {
        cx.out.note(&view::missing_line(next - from));
    }
}

/// How far before the beginning to read: past any escape sequence that was cut, and far enough for the last lines.
fn run_up(lines: u32) -> u64 {
    (u64::from(lines) * 1024).max(1 << 20)
}

// No piece of output has more lines than bytes.
const MOST_LINES: usize = 1 << 21;

/// What was shown so far, and how the next lines are.
struct Tail {
    shown: fugue_term::TextCursor,
    growing: Growing,
    printer: Printer,
    /// How many of the lines that were there at the start are wanted.
    wanted: Option<usize>,
}

impl Tail {
    fn show(
        &mut self,
        cx: &CliContext,
        terminal: &Terminal,
        more: &OutputChunk,
    ) -> Result<(), Error> {
        let last = self.wanted.take().unwrap_or(usize::MAX);
        let found = terminal.lines(&LineQuery {
            since: Some(self.shown),
            last,
        });
        self.shown = terminal.end();
        if cx.out.is_json() {
            let lines: Vec<_> = found.lines.iter().map(|line| &line.text).collect();
            return cx.out.document(&serde_json::json!({
                "lines": lines, "cursor": more.cursor, "ended": more.ended,
            }));
        }
        let complete = self.growing.take(&found.lines, self.shown.line);
        let complete = complete.into_iter().map(|line| cx.out.output(line));
        self.printer.print(complete, self.growing.open())
    }

    fn finish(&mut self, cx: &CliContext) -> Result<(), Error> {
        let last = self.growing.close();
        let last = last.into_iter().map(|line| cx.out.output(line));
        self.printer.print(last, None)
    }
}
