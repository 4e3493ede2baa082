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
    follow::{LineAssembler, LinePrinter, next_chunk, offset, pane_status},
    verbs,
};

/// Read the output of a pane.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  fugue read build -n 50\n  fugue read sh --last\n  fugue read build --grep 'error|warning'"
)]
pub struct ReadArgs {
    #[command(flatten)]
    read: ReadPane,
    /// Continue with new output until the pane ends.
    #[arg(short, long, conflicts_with_all = ["screen", "last", "grep"])]
    follow: bool,
}

impl ReadArgs {
    pub async fn run(self, cx: &CliContext) -> Result<ExitCode, Error> {
        let is_raw = self.read.mode == ReadMode::Raw;
        match (self.follow, is_raw && !cx.out.is_json()) {
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
                .map_or("still running".into(), |code| format!("exit {code}"));
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

    /// Prints the bytes that the log holds, or those after a cursor, up to the current end.
    async fn all_bytes(self, cx: &CliContext) -> Result<ExitCode, Error> {
        // Later output is not included, because a busy pane would never end.
        let end = offset(&pane_status(&cx.client, &self.read.pane_id).await?.cursor);
        let mut from = self.read.since.as_ref().map_or(0, offset);
        while from < end {
            let mut more = next_chunk(&cx.client, &self.read.pane_id, from).await?;
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

    /// Renders the text in this process from the raw output, so that a slow reader misses no line that the log still holds.
    async fn follow_text(self, cx: &CliContext) -> Result<ExitCode, Error> {
        let pane = pane_status(&cx.client, &self.read.pane_id).await?;
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
                keep_lines: MAX_KEPT_LINES,
                ..TerminalOptions::default()
            },
        );
        let mut from = begin.saturating_sub(lead_bytes(self.read.lines));
        terminal.skip_to(fugue_term::Offset(from));
        let mut tail = FollowState {
            shown: terminal.end(),
            growing: LineAssembler::default(),
            printer: LinePrinter::new(&cx.out),
            wanted: Some(self.read.lines as usize),
        };
        loop {
            let Some(more) = self.more_or_interrupt(cx, from).await? else {
                return Ok(ExitCode::from(130));
            };
            note_gap(cx, from, more.from);
            terminal.skip_to(fugue_term::Offset(more.from));
            let end = more.from + more.raw.len() as u64;
            // Output before `begin` only establishes the terminal state. Its last lines are printed if requested.
            let before_begin = usize::try_from(begin.saturating_sub(more.from))
                .unwrap_or(usize::MAX)
                .min(more.raw.len());
            terminal.feed(&more.raw[..before_begin]);
            if self.read.since.is_some() && end >= begin && more.from <= begin {
                (tail.shown, tail.wanted) = (terminal.end(), None);
            }
            terminal.feed(&more.raw[before_begin..]);
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
            found = next_chunk(&cx.client, &self.read.pane_id, from) => found.map(Some),
            _ = tokio::signal::ctrl_c() => {
                let since = fugue_term::TextCursor { offset: fugue_term::Offset(from), ..Default::default() };
                // A new line after the `^C` that the terminal echoes.
                cx.out.note("");
                cx.out.note(&format!("continue with: fugue read {} -f --since {since}", self.read.pane_id));
                Ok(None)
            }
        }
    }
}

/// Prints a note that output is missing from the log. Missing output at the beginning of a full log is expected.
fn note_gap(cx: &CliContext, from: u64, next: u64) {
    if next > from && from > 0 {
        cx.out.note(&view::missing_line(next - from));
    }
}

/// How many bytes before the beginning to read: enough for the last lines, and to begin before any split escape sequence.
fn lead_bytes(lines: u32) -> u64 {
    (u64::from(lines) * 1024).max(1 << 20)
}

// The lines that the terminal keeps: a chunk of output has at most as many lines as bytes.
const MAX_KEPT_LINES: usize = 1 << 21;

/// The printed part of a followed pane.
struct FollowState {
    shown: fugue_term::TextCursor,
    growing: LineAssembler,
    printer: LinePrinter,
    /// How many of the lines before `begin` are printed.
    wanted: Option<usize>,
}

impl FollowState {
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
